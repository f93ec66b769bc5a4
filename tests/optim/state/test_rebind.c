/* Optimizers and modules whose tensors change: cast to another dtype, assigned again, deleted. */
#include "gradus/gradus.h"
#include "support/support.h"

#include <math.h>

#define OK(expression) assert_int_equal(expression, GD_OK)

static gd_module *two_parameters(gd_ctx *ctx)
{
    gd_module *m = gd_module_new(gd_class_module(ctx));
    OK(gd_module_set_parameter(m, "a", MATRIX(ctx, 2, 2, 1, -2, 0.5, 3)));
    OK(gd_module_set_parameter(m, "b", VECTOR(ctx, 0.25, -1)));
    return m;
}

/* sum (1 + k) a_k^2 + sum b^4 + sum (a b)^2, of whatever dtype. */
static gd_tensor *loss(void *user)
{
    gd_tensor *a = gd_module_get_tensor(user, "a"), *b = gd_module_get_tensor(user, "b");
    gd_tensor *weight = gd_cast(MATRIX(gd_tensor_ctx(a), 2, 2, 1, 2, 3, 4), gd_tensor_dtype(a));
    gd_tensor *one = gd_sum(gd_mul(weight, gd_square(a)), NULL, false);
    gd_tensor *two = gd_sum(gd_square(gd_square(b)), NULL, false);
    return gd_add(gd_add(one, two), gd_sum(gd_square(gd_matmul(a, b)), NULL, false));
}

/* Losses of six steps, the module cast before step `cast_at` (-1: never). */
static void losses_of(gd_ctx *ctx, const char *chain, int cast_at, gd_dtype dtype, double out[6])
{
    gd_scope_begin(ctx);
    gd_module *m = two_parameters(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add_module(o, m, NULL, NULL));
    for (int k = 0; k < 6; k++) {
        if (k == cast_at) OK(gd_module_to(m, dtype));
        gd_step_info info;
        gd_status status = gd_optimizer_step(o, &(gd_objective){.loss = loss, .user = m}, &info);
        if (status) print_error("%s: step %d: %s\n", chain, k, gd_error_text(ctx));
        OK(status);
        out[k] = info.loss;
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

/* What was learnt in f64 goes on in f32: the losses are those of never casting, but for rounding. */
static void state_follows_its_parameters_to_another_dtype(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "adam | lr(0.05)",
        "adam(amsgrad=true) | lr(0.05)",
        "heavy_ball(0.9) | lr(0.02)",
        "nag(0.9) | lr(0.02)",
        "rmsprop | lr(0.05)",
        "clip_norm(1) | adam | weight_decay(0.01) | lr(0.05)",
        "lbfgs | lr(0.1)",
        "bfgs | lr(0.1)",
        "lsr1 | lr(0.01)",
        "polak_ribiere | lr(0.02)",
        "newton | lr(0.5)",
        "adam(inner=clip_value(1)) | lr(0.05)",
    };
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        double never[6], cast[6];
        losses_of(ctx, chains[i], -1, GD_F64, never);
        losses_of(ctx, chains[i], 3, GD_F32, cast);
        for (int k = 0; k < 6; k++) {
            if (fabs(cast[k] - never[k]) > 1e-4 * (1 + fabs(never[k])))
                print_error("%s: loss %d is %.9g, was %.9g\n", chains[i], k, cast[k], never[k]);
            assert_true(fabs(cast[k] - never[k]) <= 1e-4 * (1 + fabs(never[k])));
        }
    }
    end_context(ctx, &m);
}

/* ---- attributes assigned again ---- */

typedef struct life {
    gd_ctx *ctx;
    gd_module *m;
    gd_optimizer *o;
    gd_step_info info;
} life;

static life begin_life(gd_ctx *ctx, const char *chain)
{
    gd_scope_begin(ctx);
    life l = {.ctx = ctx, .m = two_parameters(ctx)};
    l.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add_module(l.o, l.m, NULL, NULL));
    return l;
}

static void step(life *l)
{
    OK(gd_optimizer_step(l->o, &(gd_objective){.loss = loss, .user = l->m}, &l->info));
}

static void end_life(life *l)
{
    gd_optimizer_free(l->o);
    gd_scope_end(l->ctx);
}

static void a_parameter_that_its_module_replaced_is_counted(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    life l = begin_life(ctx, "adam | lr(0.05)");
    step(&l);
    assert_int_equal(l.info.detached_params, 0);
    gd_tensor *b = gd_module_get_tensor(l.m, "b");
    OK(gd_module_set_tensor(l.m, "b", b)); /* the tensor that is there stays */
    OK(gd_module_set_parameter(l.m, "b", b));
    assert_ptr_equal(gd_module_get_tensor(l.m, "b"), b);
    step(&l);
    assert_int_equal(gd_warning_count(ctx), 0);
    OK(gd_module_set_parameter(l.m, "b", VECTOR(ctx, 5, 5)));
    step(&l);
    assert_int_equal(gd_warning_count(ctx), 1);
    assert_non_null(strstr(gd_warning_text(ctx), "'b'"));
    assert_int_equal(l.info.detached_params, 1);
    assert_values(gd_module_get_tensor(l.m, "b"), 5, 5); /* the optimizer has the old one */
    OK(gd_module_delete(l.m, "a"));
    gd_tensor *p = gd_optimizer_param(l.o, 0);
    OK(gd_set_grad(p, gd_ones_like(p)));
    OK(gd_optimizer_step(l.o, NULL, &l.info));
    OK(gd_optimizer_step(l.o, NULL, &l.info)); /* also by a step like the last one */
    assert_int_equal(l.info.detached_params, 2);
    end_life(&l);
    end_context(ctx, &m);
}

/* A life whose attribute is assigned again with the values it has, and bound again, is the same as one left alone. */
static void bound_again_a_parameter_keeps_its_state_and_settings(void **state)
{
    (void)state;
    static const char *const chains[] = {"adam | lr(0.05)", "lbfgs | lr(0.1)",
                                         "clip_norm(1) | heavy_ball(0.9) | lr(0.05)"};
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    for (int i = 0; i < COUNT_OF(chains); i++) {
        double want[4], got[4];
        for (int again = 0; again < 2; again++) {
            life l = begin_life(ctx, chains[i]);
            OK(gd_optimizer_regroup(l.o, "b", "lr=0.01"));
            for (int k = 0; k < 5; k++) {
                step(&l);
                if (!again) continue;
                OK(gd_module_set_parameter(l.m, "b", gd_module_get_tensor(l.m, "b")));
                OK(gd_optimizer_rebind(l.o, l.m));
                assert_ptr_equal(gd_optimizer_param(l.o, 1), gd_module_get_tensor(l.m, "b"));
            }
            step(&l);
            assert_int_equal(l.info.detached_params, 0);
            OK(gd_read_f64(gd_module_get_tensor(l.m, "a"), again ? got : want, 4));
            assert_int_equal(memcmp(again ? got : want, want, sizeof want), 0);
            end_life(&l);
        }
    }
    end_context(ctx, &m);
}

static void what_cannot_be_bound_again_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    life l = begin_life(ctx, "adam | lr(0.05)");
    step(&l);
    gd_tensor *a = gd_optimizer_param(l.o, 0), *b = gd_optimizer_param(l.o, 1);
    OK(gd_module_set_parameter(l.m, "a", MATRIX(ctx, 2, 2, 1, 1, 1, 1)));
    OK(gd_module_set_parameter(l.m, "b", VECTOR(ctx, 1, 2, 3)));
    assert_int_equal(gd_optimizer_rebind(l.o, l.m), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "rebind: parameter 'b' was [2] and is [3] now");
    assert_ptr_equal(gd_optimizer_param(l.o, 0), a);
    assert_ptr_equal(gd_optimizer_param(l.o, 1), b);
    gd_module *other = gd_module_new(gd_class_module(ctx));
    assert_int_equal(gd_optimizer_rebind(l.o, other), GD_ATTRIBUTE);
    assert_error(ctx, GD_ATTRIBUTE, "rebind: the module has no parameter of the optimizer's names");
    end_life(&l);
    end_context(ctx, &m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(state_follows_its_parameters_to_another_dtype),
        cmocka_unit_test(a_parameter_that_its_module_replaced_is_counted),
        cmocka_unit_test(bound_again_a_parameter_keeps_its_state_and_settings),
        cmocka_unit_test(what_cannot_be_bound_again_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
