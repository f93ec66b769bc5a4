/* Traced objectives: steps of optimizers have the bits of steps that run the function each time, and count the same evaluations. */
#include "gradus/optim.h"
#include "gradus/trace.h"
#include "support/own_context.h"

#include <string.h>

typedef struct problem {
    gd_ctx *ctx;
    gd_tensor *x, *data;
    int calls;
} problem;

static gd_tensor *valley(void *user)
{
    problem *p = user;
    p->calls++;
    gd_tensor *x = gd_slice(p->x, "0", 0, 3, 1), *y = gd_slice(p->x, "0", 1, 4, 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_sum(gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 20)), NULL, false);
}

static gd_tensor *residuals(void *user)
{
    problem *p = user;
    p->calls++;
    return gd_sub(gd_exp(gd_mul_scalar(p->x, 0.3)), p->data);
}

static gd_tensor *noisy(void *user)
{
    problem *p = user;
    gd_tensor *noise = gd_randn(p->ctx, GD_F64, 1, (int64_t[]){4});
    return gd_add(valley(user), gd_sum(gd_mul(p->x, gd_mul_scalar(noise, 0.1)), NULL, false));
}

static gd_tensor *branching(void *user)
{
    gd_tensor *f = valley(user);
    return gd_item(f) > 1 ? gd_mul_scalar(f, 2) : f;
}

/* Data that another part of the program changes. */
static gd_tensor *with_data(void *user)
{
    problem *p = user;
    p->calls++;
    return gd_mean(gd_square(gd_sub(gd_mul(p->x, gd_sin(p->data)), p->data)), NULL, false);
}

static const struct {
    const char *name;
    gd_tensor *(*loss)(void *user);
    bool replays;
} objectives[] = {{"valley", valley, true},
                  {"residuals", residuals, true},
                  {"noisy", noisy, true},
                  {"branching", branching, false},
                  {"with_data", with_data, true}};

static const char *const chains[] = {
    "adam | lr(0.05)",
    "heavy_ball(0.9) | lr(0.001)",
    "lbfgs | strong_wolfe",
    "bfgs | backtracking",
    "clip_norm(1) | lr(0.1)",
    "newton | backtracking",
    "polak_ribiere | strong_wolfe(c2=0.1)",
};

enum { STEPS = 25 };

static void run(const char *chain, int k, bool traced, double *path, problem *p, gd_step_info *info)
{
    gd_seed(ctx, 11);
    *p = (problem){.ctx = ctx,
                   .x = gd_require_grad(VECTOR(ctx, -1.2, 1, 0.4, -0.3)),
                   .data = VECTOR(ctx, 0.5, 1.5, 0.8, 1.1)};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", p->x), GD_OK);
    gd_objective objective = {.loss = objectives[k].loss, .user = p, .traced = traced};
    for (int i = 0; i < STEPS; i++) {
        gd_status status = gd_optimizer_step(o, &objective, info);
        if (status) fail_msg("%s on %s: %s", chain, objectives[k].name, gd_error_text(ctx));
        if (i % 6 == 5) assert_int_equal(gd_fill(p->data, 0.3 + 0.01 * i), GD_OK);
        assert_int_equal(gd_read_f64(p->x, path + 5 * i, 4), GD_OK);
        path[5 * i + 4] = info->loss;
    }
    gd_optimizer_free(o);
}

static void steps_have_the_same_bits(void **state)
{
    (void)state;
    for (int c = 0; c < COUNT_OF(chains); c++)
        for (int k = 0; k < COUNT_OF(objectives); k++) {
            double want[5 * STEPS], got[5 * STEPS];
            gd_step_info a, b;
            problem p, q;
            gd_scope_begin(ctx);
            run(chains[c], k, false, want, &p, &a);
            run(chains[c], k, true, got, &q, &b);
            for (int i = 0; i < STEPS; i++)
                if (memcmp(want + 5 * i, got + 5 * i, 5 * sizeof *want) != 0)
                    fail_msg("%s on %s: step %d differs", chains[c], objectives[k].name, i + 1);
            assert_int_equal(a.evals, b.evals);
            bool graphs = strstr(chains[c], "newton") != NULL;
            if (objectives[k].replays && !graphs && q.calls > 12)
                fail_msg("%s on %s: the function ran %d times", chains[c], objectives[k].name, q.calls);
            gd_scope_end(ctx);
        }
}

static bool scenario(gd_ctx *c)
{
    problem p = {.ctx = c, .x = gd_require_grad(VECTOR(c, -1.2, 1, 0.4, -0.3))};
    gd_optimizer *o = p.x ? gd_optimizer_new(c, gd_chain(c, "adam | lr(0.05)")) : NULL;
    bool good = o && gd_optimizer_add(o, "x", p.x) == GD_OK;
    gd_objective objective = {.loss = valley, .user = &p, .traced = true};
    for (int i = 0; i < 5 && good; i++) good = gd_optimizer_step(o, &objective, NULL) == GD_OK;
    gd_optimizer_free(o);
    return good;
}

/* A step without memory fails or goes on with the function. */
static void every_allocation_fails_once(void **state)
{
    (void)state;
    for (int64_t k = 1;; k += test_share()) {
        memory m = {.fail_at = k};
        gd_ctx *c = context(&m, 1, NULL);
        if (!c) continue;
        gd_scope_begin(c);
        bool good = scenario(c);
        assert_int_equal(gd_error(c), good ? GD_OK : GD_NOMEM);
        gd_clear_error(c);
        gd_scope_end(c);
        bool failed = m.failed;
        end_context(c, &m);
        if (!failed) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(steps_have_the_same_bits, start_scope, stop_scope),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
