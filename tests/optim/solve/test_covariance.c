/* gd_covariance: closed forms, certified standard errors, what is known, what is not determined, what is refused. */
#include "gradus/autograd.h"
#include "gradus/solve.h"
#include "support/own_context.h"

#include <math.h>

/* y = a + b t: variances s^2 (1/n + mean^2 / Sxx) and s^2 / Sxx, covariance -s^2 mean / Sxx */
static void a_line_has_the_covariance_of_linear_regression(void **state)
{
    (void)state;
    gd_tensor *t = VECTOR(ctx, 1, 2, 3, 4, 5, 6), *y = VECTOR(ctx, 2, 4, 6, 8, 10, 13);
    gd_tensor *p[] = {gd_require_grad(gd_scalar(ctx, GD_F64, 0)), gd_require_grad(gd_scalar(ctx, GD_F64, 2))};
    gd_tensor *r = gd_sub(gd_add(p[0], gd_mul(p[1], t)),
                          y); /* five zeros and -1: rss 1, 4 degrees of freedom */
    double mean = 3.5, sxx = 17.5, a = 1.0 / 6 + mean * mean / sxx, b = 1 / sxx, c = -mean / sxx;
    assert_values_near(gd_covariance(r, p, 2, NULL, 1), 1e-14, a, c, c, b);
    assert_values_near(gd_covariance(r, p, 2, NULL, 3), 1e-13, 9 * a, 9 * c, 9 * c, 9 * b);
    assert_values_near(gd_covariance(r, p, 2, NULL, NAN), 1e-14, a / 4, c / 4, c / 4, b / 4);
    /* the offset known: sigma^2 / sum t^2, and a degree of freedom more */
    assert_values_near(gd_covariance(r, p, 2, (bool[]){true, false}, NAN), 1e-14, 0, 0, 0, 1.0 / 5 / 91);
}

/* Misra1a of NIST's nonlinear regressions: y = b1 (1 - exp(-b2 x)), at the certified parameters. */
static void standard_errors_are_the_certified_ones(void **state)
{
    (void)state;
    gd_tensor *x = VECTOR(ctx, 77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8,
                          593.1, 689.1, 760.0);
    gd_tensor *y = VECTOR(ctx, 10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01,
                          66.40, 75.47, 81.78);
    gd_tensor *b = gd_require_grad(VECTOR(ctx, 2.3894212918e2, 5.5015643181e-4));
    gd_tensor *b1 = gd_index(b, "0", 0), *b2 = gd_index(b, "0", 1);
    gd_tensor *model = gd_mul(b1, gd_add_scalar(gd_neg(gd_exp(gd_neg(gd_mul(b2, x)))), 1));
    gd_tensor *c = gd_covariance(gd_sub(model, y), &b, 1, NULL, NAN);
    assert_non_null(c);
    assert_true(fabs(sqrt(gd_at(c, (int64_t[]){0, 0})) / 2.7070075241 - 1) < 1e-9);
    assert_true(fabs(sqrt(gd_at(c, (int64_t[]){1, 1})) / 7.2668688436e-6 - 1) < 1e-9);
}

typedef struct decay {
    gd_tensor *p[3], *t, *y;
} decay;

static gd_tensor *decay_residuals(void *user)
{
    decay *d = user;
    gd_tensor *e = gd_exp(gd_neg(gd_mul(d->p[1], d->t)));
    return gd_sub(gd_add(gd_mul(d->p[0], e), d->p[2]), d->y);
}

/* The same function of parameters and residuals that a fit reports. */
static void a_fit_reports_the_covariance_of_its_residuals(void **state)
{
    (void)state;
    decay d = {.t = VECTOR(ctx, 0, 1, 2, 3, 4, 5), .y = VECTOR(ctx, 3.1, 1.9, 1.4, 1.05, 1.1, 0.95)};
    for (int i = 0; i < 3; i++) d.p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, 1));
    gd_lsq_result fit;
    assert_int_equal(gd_least_squares(d.p, 3, decay_residuals, &d, NULL, &fit), GD_OK);
    gd_tensor *r = decay_residuals(&d), *c = gd_covariance(r, d.p, 3, NULL, NAN);
    assert_non_null(c);
    gd_tensor *off = gd_max(gd_abs(gd_sub(gd_div(c, fit.covariance), gd_ones_like(c))), NULL, false);
    assert_true(gd_item(off) < 1e-10);
    /* the graph is still there */
    assert_int_equal(gd_backward(gd_sum(gd_square(r), NULL, false), NULL, 0), GD_OK);
    gd_lsq_result_clear(&fit);
}

static void what_is_not_determined_is_infinite(void **state)
{
    (void)state;
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 1, 2, 3)), *t = VECTOR(ctx, 1, 2, 3, 4);
    gd_tensor *sum = gd_add(gd_index(p, "0", 0), gd_index(p, "0", 1));
    gd_tensor *r = gd_add(sum, gd_mul(gd_index(p, "0", 2), t)), *c = gd_covariance(r, &p, 1, NULL, 1);
    assert_non_null(c);
    assert_true(isinf(gd_at(c, (int64_t[]){0, 0})) && isinf(gd_at(c, (int64_t[]){1, 1})));
    assert_true(fabs(gd_at(c, (int64_t[]){2, 2}) - 1 / 5.0) < 1e-14);
    /* with one of the two known the other is */
    c = gd_covariance(r, &p, 1, (bool[]){true, false, false}, 1);
    assert_true(fabs(gd_at(c, (int64_t[]){1, 1}) - (1 / 4.0 + 2.5 * 2.5 / 5)) < 1e-13);
    /* as many parameters as residuals: nothing is left to estimate sigma from */
    gd_tensor *few = gd_slice(r, "0", 0, 2, 1);
    assert_true(
        isnan(gd_at(gd_covariance(few, &p, 1, (bool[]){true, false, false}, NAN), (int64_t[]){1, 1})));
}

static void any_shape_dtype_and_names(void **state)
{
    (void)state;
    gd_tensor *w = gd_require_grad(gd_rename(gd_zeros(ctx, GD_F32, 2, (int64_t[]){2, 1}), "in, out"));
    gd_tensor *x = MATRIX(ctx, 3, 2, 1, 0, 0, 2, 0, 2);
    gd_tensor *r = gd_matmul(gd_cast(x, GD_F32), gd_drop_names(w));
    gd_tensor *c = gd_covariance(gd_rename(r, "row, out"), &w, 1, NULL, 1);
    assert_non_null(c);
    assert_int_equal(gd_tensor_dtype(c), GD_F64);
    assert_values_near(c, 1e-7, 1, 0, 0, 1.0 / 8);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 1, 2)), *bad = VECTOR(ctx, 1, 2), *r = gd_square(p);
    assert_null(gd_covariance(bad, &p, 1, NULL, 1));
    assert_error(ctx, GD_ARGUMENT,
                 "covariance: the residuals have no history: nothing depends on the parameters");
    assert_null(gd_covariance(r, &bad, 1, NULL, 1));
    assert_error(ctx, GD_ARGUMENT, "covariance: parameter 0 is not a floating leaf that wants gradients");
    assert_null(gd_covariance(r, &p, 0, NULL, 1));
    assert_error(ctx, GD_ARGUMENT, "covariance: no parameters");
    assert_null(gd_covariance(gd_log(gd_add_scalar(p, -5)), &p, 1, NULL, 1));
    assert_error(ctx, GD_VALUE, "covariance: the residuals or their derivatives are not finite");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_has_the_covariance_of_linear_regression),
        TEST(standard_errors_are_the_certified_ones),
        TEST(a_fit_reports_the_covariance_of_its_residuals),
        TEST(what_is_not_determined_is_infinite),
        TEST(any_shape_dtype_and_names),
        TEST(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
