/* Presets against the updates written out by hand. */
#include "gradus/optim.h"
#include "gradus/presets.h"
#include "support/support.h"

#include <math.h>

static const double start[3] = {1, -2, 0.5};

/* Steps an optimizer with the gradient 2 p + 1 and a loop over plain numbers beside it. */
static void follow(gd_link *(*make)(gd_ctx *), void (*by_hand)(int t, double g, double *p, double *state))
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, start));
    gd_optimizer *o = gd_optimizer_new(ctx, make(ctx));
    assert_non_null(o);
    assert_int_equal(gd_optimizer_add(o, "p", p), GD_OK);
    double q[3] = {start[0], start[1], start[2]}, state[3][3] = {{0}};
    for (int t = 1; t <= 20; t++) {
        gd_scope_begin(ctx);
        assert_int_equal(gd_set_grad(p, gd_add_scalar(gd_mul_scalar(gd_detach(p), 2), 1)), GD_OK);
        gd_scope_end(ctx);
        for (int i = 0; i < 3; i++) by_hand(t, 2 * q[i] + 1, &q[i], state[i]);
        assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_OK);
        assert_values(p, q[0], q[1], q[2]);
    }
    gd_optimizer_free(o);
    gd_zero_grad(p);
    gd_release(p);
    end_context(ctx, NULL);
}

static gd_link *make_sgd(gd_ctx *ctx)
{
    gd_sgd_options o = gd_sgd_defaults();
    o.lr = 0.05;
    o.momentum = 0.9;
    o.dampening = 0.1;
    o.weight_decay = 0.01;
    return gd_sgd(ctx, &o);
}

static void sgd_by_hand(int t, double g, double *p, double *state)
{
    (void)t;
    g += 0.01 * *p;
    state[0] = 0.9 * state[0] + 0.9 * g;
    *p -= 0.05 * state[0];
}

static gd_link *make_nesterov(gd_ctx *ctx)
{
    gd_sgd_options o = gd_sgd_defaults();
    o.lr = 0.05;
    o.momentum = 0.8;
    o.nesterov = true;
    return gd_sgd(ctx, &o);
}

static void nesterov_by_hand(int t, double g, double *p, double *state)
{
    (void)t;
    state[0] = 0.8 * state[0] + g;
    *p -= 0.05 * (g + 0.8 * state[0]);
}

static gd_link *make_plain(gd_ctx *ctx) { return gd_sgd(ctx, NULL); }

static void plain_by_hand(int t, double g, double *p, double *state)
{
    (void)t;
    (void)state;
    *p -= 1e-3 * g;
}

static gd_link *make_adamw(gd_ctx *ctx)
{
    gd_adamw_options o = gd_adamw_defaults();
    o.lr = 0.1;
    return gd_adamw(ctx, &o);
}

/* Kingma & Ba's efficient order: eps beside the uncorrected root. */
static void adamw_by_hand(int t, double g, double *p, double *state)
{
    state[0] += 0.1 * (g - state[0]);
    state[1] += 0.001 * (g * g - state[1]);
    double step = sqrt(1 - pow(0.999, t)) / (1 - pow(0.9, t));
    *p -= 0.1 * (step * state[0] / (sqrt(state[1]) + 1e-8) + 0.01 * *p);
}

static void sgd_is_momentum_with_dampening_and_decay(void **s)
{
    (void)s;
    follow(make_sgd, sgd_by_hand);
}

static void sgd_with_nesterov_looks_ahead(void **s)
{
    (void)s;
    follow(make_nesterov, nesterov_by_hand);
}

static void sgd_by_default_is_plain_descent(void **s)
{
    (void)s;
    follow(make_plain, plain_by_hand);
}

static void adamw_decays_beside_adam(void **s)
{
    (void)s;
    follow(make_adamw, adamw_by_hand);
}

static void a_preset_prints_as_the_chain_it_is(void **s)
{
    (void)s;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_link *chain = gd_sgd(ctx, NULL);
    char text[64];
    gd_link_print(chain, text, sizeof text);
    assert_string_equal(text, "lr(0.001)");
    gd_link_release(chain);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sgd_is_momentum_with_dampening_and_decay),
        cmocka_unit_test(sgd_with_nesterov_looks_ahead),
        cmocka_unit_test(sgd_by_default_is_plain_descent),
        cmocka_unit_test(adamw_decays_beside_adam),
        cmocka_unit_test(a_preset_prints_as_the_chain_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
