/* Expressions evaluated again and again: recorded, replayed, with the bits that one evaluation with operators has. */
#include "gradus/autograd.h"
#include "gradus/expr.h"
#include "support/own_context.h"
#include "trace/trace_support.h"

#include <math.h>

static const char *const texts[] = {
    "x + 1",
    "exp(-x) * sin(y) + x^2",
    "c = x > y ? x : -y; c * sum(x)",
    "softmax(x) + max(y, axis=0) - logsumexp(x)",
    "h = tanh(x * 0.3 + y); mean((h - x)^2)",
    "x[1:5] * y[0]",
    "x",
    "1 + 2 * pi",
    "y @ y + 0 * x",
    "ode(\"u' = -u*x[0]\", y[0], [0, 0.5, 1])",
    "x[k] * 2",
};
static const char *const names[] = {"x", "y", "k"};

static gd_tensor *numbers(gd_ctx *c, gd_dtype dtype, int64_t n, int call)
{
    double v[40];
    for (int64_t i = 0; i < n; i++) v[i] = 0.2 + fabs(sin(1.3 * (double)i + 0.7 * call));
    return gd_from_f64(c, dtype, 1, &n, v);
}

static void give(gd_ctx *c, gd_dtype dtype, int64_t n, int call, gd_tensor **values)
{
    values[0] = numbers(c, dtype, n, call);
    values[1] = numbers(c, dtype, n, 3 - call);
    values[2] = gd_from_f64(c, dtype, 1, (int64_t[]){2}, (double[]){call % 4, 2});
}

/* One evaluation by an expression of its own runs operators. */
static gd_tensor *once(gd_ctx *c, const char *text, gd_tensor *const *values, gd_dtype dtype)
{
    gd_expr *e = gd_expr_parse(c, text, &(gd_expr_options){.names = names, .count = 3});
    gd_tensor *t = gd_expr_eval(e, values, dtype);
    gd_expr_free(e);
    return t;
}

static void replays_have_the_bits_of_operators(void **state)
{
    (void)state;
    static const int64_t sizes[] = {7, 7, 7, 7, 33, 33, 33, 7, 33, 33, 7, 33, 7, 7};
    for (int k = 0; k < COUNT_OF(texts); k++)
        for (gd_dtype dtype = GD_F32; dtype <= GD_F64; dtype++) {
            gd_expr *e = gd_expr_parse(ctx, texts[k], &(gd_expr_options){.names = names, .count = 3});
            for (int call = 0; call < COUNT_OF(sizes); call++) {
                gd_tensor *values[3];
                gd_scope_begin(ctx);
                give(ctx, dtype, sizes[call], call, values);
                gd_tensor *got = gd_expr_eval(e, values, dtype), *want = once(ctx, texts[k], values, dtype);
                if (!same_bits(got, want))
                    fail_msg("%s, %s, call %d: %s", texts[k], gd_dtype_name(dtype), call, gd_error_text(ctx));
                gd_scope_end(ctx);
            }
            gd_expr_free(e);
        }
}

static void values_of_the_caller_stay(void **state)
{
    (void)state;
    gd_expr *e = gd_expr_parse(ctx, "x * y + 1", &(gd_expr_options){.names = names, .count = 3});
    gd_tensor *values[3], *kept[10], *want[10];
    for (int call = 0; call < 10; call++) {
        give(ctx, GD_F64, 9, call, values);
        kept[call] = gd_expr_eval(e, values, GD_F64);
        want[call] = once(ctx, "x * y + 1", values, GD_F64);
        if (call % 3 == 0) { /* a value may be changed, and want gradients */
            assert_int_equal(gd_fill(kept[call], 5), GD_OK);
            assert_int_equal(gd_fill(want[call], 5), GD_OK);
            assert_non_null(gd_require_grad(kept[call]));
        }
    }
    for (int call = 0; call < 10; call++) {
        assert_true(same_bits(kept[call], want[call]));
        assert_int_equal(gd_requires_grad(kept[call]), call % 3 == 0);
    }
    gd_expr_free(e); /* values outlive it */
    for (int call = 0; call < 10; call++) assert_true(same_bits(kept[call], want[call]));
}

static void values_that_want_gradients_have_them(void **state)
{
    (void)state;
    gd_expr *e = gd_expr_parse(ctx, "sum(x^2 * y)", &(gd_expr_options){.names = names, .count = 3});
    for (int call = 0; call < 12; call++) {
        gd_tensor *values[3];
        gd_scope_begin(ctx);
        give(ctx, GD_F64, 5, call, values);
        if (call % 3 == 2) values[0] = gd_require_grad(values[0]);
        gd_tensor *t = gd_expr_eval(e, values, GD_F64);
        assert_int_equal(gd_requires_grad(t), call % 3 == 2);
        if (call % 3 == 2) {
            assert_int_equal(gd_backward(t, NULL, 0), GD_OK);
            gd_tensor *want = gd_mul_scalar(gd_mul(gd_detach(values[0]), values[1]), 2);
            assert_true(same_bits(gd_grad_of(values[0]), want));
        }
        gd_scope_end(ctx);
    }
    gd_expr_free(e);
}

static void fixed_variables_may_be_forgotten(void **state)
{
    (void)state;
    const char *text = "exp(y) * 2 + x";
    gd_expr *e = gd_expr_parse(ctx, text, &(gd_expr_options){.names = names, .count = 3});
    gd_expr_fix(e, 1);
    for (int round = 0; round < 3; round++) {
        gd_tensor *values[3], *y = numbers(ctx, GD_F64, 6, 20 + round);
        for (int call = 0; call < 8; call++) {
            give(ctx, GD_F64, 6, call, values);
            values[1] = y;
            assert_true(same_bits(gd_expr_eval(e, values, GD_F64), once(ctx, text, values, GD_F64)));
        }
        gd_expr_forget(e);
        gd_release(y);
    }
    gd_expr_free(e);
}

static void a_replay_runs_no_operators(void **state)
{
    (void)state;
    gd_expr *e = gd_expr_parse(ctx, texts[4], &(gd_expr_options){.names = names, .count = 3});
    gd_tensor *values[3];
    int64_t first = 0, last = 0;
    give(ctx, GD_F64, 30, 1, values);
    for (int call = 0; call < 9; call++) {
        int64_t before = test_memory()->requests;
        gd_scope_begin(ctx);
        assert_non_null(gd_expr_eval(e, values, GD_F64));
        gd_scope_end(ctx);
        *(call ? &last : &first) = test_memory()->requests - before;
    }
    if (last > 1 || first < 2 * (last + 1))
        fail_msg("%lld allocations at first, %lld in a replay", (long long)first, (long long)last);
    gd_expr_free(e);
}

static void mistakes_name_their_place_each_time(void **state)
{
    (void)state;
    gd_expr *e = gd_expr_parse(ctx, "x + y", &(gd_expr_options){.names = names, .count = 3});
    gd_tensor *values[3], *wrong = VECTOR(ctx, 1, 2, 3), *y;
    for (int call = 0; call < 9; call++) {
        give(ctx, GD_F64, 5, call, values);
        assert_non_null(gd_expr_eval(e, values, GD_F64));
        y = values[1];
        values[1] = wrong;
        assert_null(gd_expr_eval(e, values, GD_F64));
        assert_error(ctx, GD_SHAPE, "expression: column 3: ");
        values[1] = NULL;
        assert_null(gd_expr_eval(e, values, GD_F64));
        assert_error(ctx, GD_ARGUMENT, "expression: column 5: no value for 'y'");
        values[1] = y;
        assert_non_null(gd_expr_eval(e, values, GD_F64));
    }
    gd_expr_free(e);
}

static bool scenario(gd_ctx *c)
{
    gd_expr *e = gd_expr_parse(c, texts[1], &(gd_expr_options){.names = names, .count = 3});
    bool good = e != NULL;
    for (int call = 0; call < 7 && good; call++) {
        gd_tensor *values[3], *got, *want;
        give(c, GD_F64, 40, call, values);
        good = !gd_error(c) && (got = gd_expr_eval(e, values, GD_F64)) &&
               (want = once(c, texts[1], values, GD_F64));
        if (good) assert_true(same_bits(got, want));
    }
    gd_expr_free(e);
    return good;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, scenario);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(replays_have_the_bits_of_operators),
        TEST(values_of_the_caller_stay),
        TEST(values_that_want_gradients_have_them),
        TEST(fixed_variables_may_be_forgotten),
        TEST(a_replay_runs_no_operators),
        TEST(mistakes_name_their_place_each_time),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
