/* Updates that are not finite: skipped with everything as it was, or set to zero; and the scale of a loss that finds the largest
 * gradients a dtype holds. */
#include "optim/optim_support.h"

#include <float.h>

typedef struct one {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    double slope[2]; /* of the loss at this step */
} one;

static gd_tensor *sloped(void *user)
{
    one *x = user;
    return gd_sum(gd_mul(x->p, gd_from_f64(x->ctx, GD_F32, 1, (int64_t[]){2}, x->slope)), NULL, false);
}

static one open_one(gd_ctx *ctx, const char *chain)
{
    one x = {.ctx = ctx, .p = gd_require_grad(gd_from_f64(ctx, GD_F32, 1, (int64_t[]){2}, (double[]){1, 2}))};
    x.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(x.o, "p", x.p));
    return x;
}

static void close_one(one *x)
{
    gd_optimizer_free(x->o);
    gd_release(x->p);
}

static gd_step_info step_with(one *x, double a, double b)
{
    gd_step_info info;
    x->slope[0] = a;
    x->slope[1] = b;
    OK(gd_optimizer_step(x->o, &(gd_objective){.loss = sloped, .user = x}, &info));
    return info;
}

static void params_are(const one *x, double a, double b)
{
    double got[2];
    OK(gd_read_f64(x->p, got, 2));
    assert_float_equal(got[0], a, 1e-6);
    assert_float_equal(got[1], b, 1e-6);
}

/* Momentum 1/2, lr 1: v = g/.., so that a step in which the velocity was touched is seen in the next. */
static void a_skipped_step_changes_neither_parameters_nor_state_nor_schedules(void **state)
{
    one x = open_one(CTX(state), "skip_nonfinite | heavy_ball(0.5, ema_init=\"zeros\") | lr(1)");
    OK(gd_optimizer_schedule(x.o, -1, "lr", "step(1, 2, 0.5)"));
    assert_false(step_with(&x, 0.25, 0).skipped);
    params_are(&x, 0.75, 2);
    for (int i = 0; i < 3; i++) {
        gd_step_info info = step_with(&x, 1, i == 1 ? INFINITY : NAN);
        assert_true(info.skipped);
        params_are(&x, 0.75, 2);
    }
    assert_float_equal(gd_optimizer_attr(x.o, "skipped_steps", 0), 3, 0);
    /* velocity 0.125 + 0.5, still the second step of the schedule */
    assert_false(step_with(&x, 0.5, 0).skipped);
    params_are(&x, 0.75 - 0.625, 2);
    close_one(&x);
}

static void zero_nonfinite_leaves_the_finite_elements(void **state)
{
    one x = open_one(CTX(state), "zero_nonfinite | lr(1)");
    assert_false(step_with(&x, 0.5, NAN).skipped);
    params_are(&x, 0.5, 2);
    (void)step_with(&x, -INFINITY, 1);
    params_are(&x, 0.5, 1);
    close_one(&x);
}

/* 2^16 times 1e34 is more than an f32 holds, 2^14 times is not: two steps are skipped, the third happens. */
static void the_scale_halves_until_gradients_fit_and_grows_after_good_steps(void **state)
{
    one x = open_one(CTX(state), "loss_scale(growth_interval=2) | lr(1e-34)");
    double fits = FLT_MAX / 16384 / 1.5;
    for (int i = 0; i < 2; i++) assert_true(step_with(&x, fits, 0).skipped);
    params_are(&x, 1, 2);
    assert_float_equal(gd_optimizer_attr(x.o, "loss_scale", 0), 16384, 0);
    gd_step_info info = step_with(&x, fits, 0);
    assert_false(info.skipped);
    assert_true(fabs(info.loss / fits - 1) < 1e-6); /* the loss itself, not the scaled one */
    params_are(&x, 1 - fits * 1e-34, 2);
    assert_float_equal(gd_optimizer_attr(x.o, "loss_scale", 0), 16384, 0);
    assert_false(step_with(&x, fits, 0).skipped);
    assert_float_equal(gd_optimizer_attr(x.o, "loss_scale", 0), 32768, 0);
    assert_true(step_with(&x, fits, 0).skipped);
    assert_float_equal(gd_optimizer_attr(x.o, "loss_scale", 0), 16384, 0);
    close_one(&x);
}

/* Without an objective the caller scales the loss. */
static void gradients_of_the_caller_are_divided_by_the_scale(void **state)
{
    gd_ctx *ctx = CTX(state);
    one x = open_one(ctx, "loss_scale(8) | lr(1)");
    for (int i = 0; i < 2; i++) {
        gd_scope_begin(ctx);
        x.slope[0] = 0.25;
        gd_tensor *loss = gd_mul_scalar(sloped(&x), gd_optimizer_attr(x.o, "loss_scale", 8));
        gd_optimizer_zero_grad(x.o);
        OK(gd_backward(loss, NULL, 0));
        OK(gd_optimizer_step(x.o, NULL, NULL));
        gd_scope_end(ctx);
    }
    params_are(&x, 0.5, 2);
    close_one(&x);
}

/* A scale that is a power of two changes no bit of what the links after it make. */
static void scaled_gradients_are_the_same_bits(void **state)
{
    gd_ctx *ctx = CTX(state);
    one a = open_one(ctx, "adam | lr(0.01)"), b = open_one(ctx, "loss_scale | adam | lr(0.01)");
    for (int i = 0; i < 20; i++) {
        double s = sin(i + 0.3), t = 1 / (i + 3.0);
        (void)step_with(&a, s, t);
        (void)step_with(&b, s, t);
        assert_memory_equal(gd_data(a.p), gd_data(b.p), 2 * sizeof(float));
    }
    close_one(&a);
    close_one(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_skipped_step_changes_neither_parameters_nor_state_nor_schedules),
        CASE(zero_nonfinite_leaves_the_finite_elements),
        CASE(the_scale_halves_until_gradients_fit_and_grows_after_good_steps),
        CASE(gradients_of_the_caller_are_divided_by_the_scale),
        CASE(scaled_gradients_are_the_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
