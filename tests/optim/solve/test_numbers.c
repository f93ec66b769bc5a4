/* What an objective returns: one element is the loss whatever its shape, and a function that reads numbers on the host is minimised
 * by differences. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>
#include <string.h>

/* ---- one element ---- */

typedef struct shaped {
    gd_tensor *p;
    int ndim;
} shaped;

static const int64_t ones[] = {1, 1, 1};

/* (p0 - 1)^2 + (p1 - 2)^2 - 5 */
static gd_tensor *below_zero(void *user)
{
    const shaped *s = user;
    gd_tensor *target = gd_from_f64(gd_tensor_ctx(s->p), GD_F64, 1, (int64_t[]){2}, (double[]){1, 2});
    gd_tensor *f = gd_add_scalar(gd_sum(gd_square(gd_sub(s->p, target)), NULL, false), -5);
    return gd_reshape(f, s->ndim, ones);
}

static gd_tensor *one_residual(void *user) { return gd_add_scalar(gd_slice(user, "0", 0, 1, 1), -3); }
static gd_tensor *square_of_it(void *user) { return gd_square(one_residual(user)); }

/* fun -5 was 0, found where the loss crosses it: the element was squared. */
static void one_element_is_the_loss_whatever_its_shape(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "newton", "fdm | bfgs | strong_wolfe",
                                         "adam | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (int ndim = 0; ndim < 4; ndim++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            double at[2];
            shaped s = {gd_require_grad(VECTOR(ctx, 0, 0)), ndim};
            gd_solve_result r;
            assert_int_equal(
                gd_minimize(&s.p, 1, &(gd_objective){.loss = below_zero, .user = &s}, chains[i], NULL, &r),
                GD_OK);
            assert_int_equal(gd_read_f64(s.p, at, 2), GD_OK);
            if (fabs(r.loss + 5) > 1e-9 || hypot(at[0] - 1, at[1] - 2) > 1e-4 || !r.converged)
                fail_msg("%s, %d axes: %.9g at (%g, %g), %s", chains[i], ndim, r.loss, at[0], at[1],
                         gd_stop_name(r.reason));
            gd_release(s.p);
            end_context(ctx, NULL);
        }
}

/* One element of `loss` is no residual; one of `residuals` is. */
static void a_single_residual_is_given_as_one(void **state)
{
    (void)state;
    static const char *const chains[] = {"gauss_newton", "levenberg_marquardt(gauss_newton)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_tensor *p = gd_require_grad(VECTOR(ctx, 0));
        gd_solve_result r;
        gd_objective value = {.loss = one_residual, .user = p},
                     beside = {.loss = square_of_it, .residuals = one_residual, .user = p};
        assert_int_equal(gd_minimize(&p, 1, &value, chains[i], NULL, &r), GD_SHAPE);
        assert_error(ctx, GD_SHAPE, "a link needs a vector of residuals");
        assert_int_equal(gd_minimize(&p, 1, &beside, chains[i], NULL, &r), GD_OK);
        if (fabs(gd_at(p, (int64_t[]){0}) - 3) > 1e-6 || r.loss > 1e-10)
            fail_msg("%s: %.9g at %.9g", chains[i], r.loss, gd_at(p, (int64_t[]){0}));
        gd_lsq_result fit;
        assert_int_equal(gd_fill(p, 0), GD_OK);
        assert_int_equal(gd_least_squares(&p, 1, one_residual, p, NULL, &fit), GD_OK);
        assert_true(fabs(gd_at(p, (int64_t[]){0}) - 3) < 1e-6);
        gd_lsq_result_clear(&fit);
        gd_release(p);
        end_context(ctx, NULL);
    }
}

/* (p - 1)(p - 3) over rows, as a mean of shape [1] and as residuals; the last microbatch has one row. */
#define ROWS 5
static const double row_of[ROWS] = {1, 2, 3, 4, 10};
static gd_tensor *rows_off(gd_tensor *p, int64_t first, int64_t count)
{
    gd_tensor *y = gd_from_f64(gd_tensor_ctx(p), GD_F64, 1, &count, row_of + first);
    return gd_sub(p, y);
}
static gd_tensor *mean_of_rows(void *user, int64_t first, int64_t count)
{
    return gd_add_scalar(gd_mean(gd_square(rows_off(user, first, count)), NULL, true), -50);
}
static gd_tensor *residuals_of_rows(void *user, int64_t first, int64_t count)
{
    return rows_off(user, first, count);
}

static void one_element_of_several_rows_is_the_loss(void **state)
{
    (void)state;
    double mean = 0, spread = 0;
    for (int i = 0; i < ROWS; i++) mean += row_of[i] / ROWS;
    for (int i = 0; i < ROWS; i++) spread += (row_of[i] - mean) * (row_of[i] - mean);
    for (int residuals = 0; residuals < 2; residuals++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_tensor *p = gd_require_grad(VECTOR(ctx, 0));
        gd_batch batch = {
            .rows = ROWS, .microbatch = 2, .loss = residuals ? residuals_of_rows : mean_of_rows, .user = p};
        gd_solve_result r;
        assert_int_equal(gd_minimize(&p, 1, &(gd_objective){.batch = &batch}, NULL, NULL, &r), GD_OK);
        double want = residuals ? spread : spread / ROWS - 50;
        if (fabs(gd_at(p, (int64_t[]){0}) - mean) > 1e-6 || fabs(r.loss - want) > 1e-9)
            fail_msg("%s: %.9g at %.9g", residuals ? "residuals" : "mean", r.loss, gd_at(p, (int64_t[]){0}));
        gd_release(p);
        end_context(ctx, NULL);
    }
}

/* ---- numbers read on the host ---- */

typedef struct numbers {
    gd_tensor *p;
    int calls;
} numbers;

/* (p0 - 1)^2 + sin p1, of which an operator sees one part only */
static gd_tensor *half_read(void *user)
{
    numbers *n = user;
    n->calls++;
    gd_tensor *first = gd_square(gd_add_scalar(gd_index(n->p, "0", 0), -1));
    return gd_add_scalar(first, sin(gd_at(n->p, (int64_t[]){1})));
}

static gd_status by_value(void *user, double *loss)
{
    numbers *n = user;
    double at[2];
    n->calls++;
    gd_status status = gd_read_f64(n->p, at, 2);
    *loss = (at[0] - 1) * (at[0] - 1) + sin(at[1]);
    return status;
}

/* Chains that begin with fdm take differences of what the function returns: reading on the host costs no derivative. */
static void a_function_that_reads_numbers_is_minimised_by_differences(void **state)
{
    (void)state;
    static const char *const chains[] = {"fdm | lbfgs | strong_wolfe", "fdm | bfgs | backtracking",
                                         "fdm | newton(eigval_fn=\"abs\") | strong_wolfe",
                                         "fdm | trust_cg(lsr1)"};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (int callback = 0; callback < 2; callback++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            double at[2];
            numbers n = {gd_require_grad(VECTOR(ctx, 0, 0.3)), 0};
            gd_objective o = {.user = &n};
            if (callback)
                o.value = by_value;
            else
                o.loss = half_read;
            gd_solve_result r = {0};
            gd_status status = gd_minimize(&n.p, 1, &o, chains[i], NULL, &r);
            assert_int_equal(gd_read_f64(n.p, at, 2), GD_OK);
            if (status || fabs(r.loss + 1) > 1e-8 || fabs(at[0] - 1) > 1e-4 || fabs(cos(at[1])) > 1e-4 ||
                !r.converged)
                fail_msg("%s, %s: %s %.9g at (%g, %g), %s: %s", chains[i], callback ? "value" : "loss",
                         gd_status_name(status), r.loss, at[0], at[1], gd_stop_name(r.reason),
                         gd_error_text(ctx));
            assert_int_equal(r.evals, n.calls);
            gd_release(n.p);
            end_context(ctx, NULL);
        }
}

/* Without fdm: chains that ask for gradients, products or a Hessian get differences of the values. */
static void a_function_of_numbers_needs_no_link_for_its_differences(void **state)
{
    (void)state;
    static const char *const chains[] = {NULL,
                                         "bfgs | backtracking",
                                         "newton(eigval_fn=\"abs\") | strong_wolfe",
                                         "newton_cg | strong_wolfe",
                                         "trust_cg(lsr1)",
                                         "trust_cg(newton)",
                                         "polak_ribiere | strong_wolfe(c2=0.1)",
                                         "sum_of_squares | lbfgs | strong_wolfe",
                                         "box(-2, 4) | lbfgs | strong_wolfe"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        double at[2];
        numbers n = {gd_require_grad(VECTOR(ctx, 0, 0.3)), 0};
        gd_objective o = {.user = &n, .value = by_value};
        gd_solve_result r = {0};
        gd_status status = gd_minimize(&n.p, 1, &o, chains[i], NULL, &r);
        assert_int_equal(gd_read_f64(n.p, at, 2), GD_OK);
        bool refused = chains[i] && strstr(chains[i], "sum_of_squares");
        if (refused && status == GD_NOT_IMPLEMENTED) {
            assert_error(
                ctx, GD_NOT_IMPLEMENTED,
                "sum_of_squares: it needs a vector of residuals, the callbacks of the objective give one "
                "number");
        } else if (refused || status || fabs(r.loss + 1) > 1e-8 || fabs(at[0] - 1) > 1e-4 ||
                   fabs(cos(at[1])) > 1e-4 || !r.converged || r.derivatives != GD_DERIVATIVES_DIFFERENCES)
            fail_msg("%s: %s %.9g at (%g, %g), %s, %s: %s", chains[i] ? chains[i] : "default",
                     gd_status_name(status), r.loss, at[0], at[1], gd_stop_name(r.reason),
                     gd_derivatives_name(r.derivatives), gd_error_text(ctx));
        if (!refused) assert_int_equal(r.evals, n.calls);
        gd_release(n.p);
        end_context(ctx, NULL);
    }
}

/* The domain ends at a bound, on both sides of it: no difference leaves it. */
static gd_status in_the_box(void *user, double *loss)
{
    double x[2];
    gd_status status = gd_read_f64(user, x, 2);
    assert_true(x[0] >= 1 && x[0] <= 1 + 1e-7 && x[1] >= 2);
    *loss = x[0] + sqrt(x[1] - 2) + (x[1] - 2);
    return status;
}

static void differences_of_numbers_stay_inside_bounds(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 1 + 5e-8, 3));
    gd_solve_result r;
    assert_int_equal(gd_minimize(&p, 1, &(gd_objective){.user = p, .value = in_the_box},
                                 "box([1, 2], [1.0000001, 9]) | lbfgs | strong_wolfe", NULL, &r),
                     GD_OK);
    assert_true(fabs(r.loss - 1) < 1e-3 && r.derivatives == GD_DERIVATIVES_DIFFERENCES);
    gd_release(p);
    end_context(ctx, NULL);
}

/* Values of one f and gradients of its differences agree with those of operators, to what central differences can. */
static gd_status quartic(void *user, double *loss)
{
    double x[6];
    gd_status status = gd_read_f64(user, x, 6);
    *loss = 0;
    for (int i = 0; i < 5; i++) *loss += 100 * pow(x[i + 1] - x[i] * x[i], 2) + pow(1 - x[i], 2);
    return status;
}

static void as_many_steps_as_with_exact_gradients(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 0.5, 0.6, 0.5, 0.4, 0.7, 0.5));
    gd_solve_result r;
    assert_int_equal(
        gd_minimize(&p, 1, &(gd_objective){.user = p, .value = quartic}, "bfgs | strong_wolfe", NULL, &r),
        GD_OK);
    double x[6];
    assert_int_equal(gd_read_f64(p, x, 6), GD_OK);
    for (int i = 0; i < 6; i++) assert_true(fabs(x[i] - 1) < 1e-5);
    assert_true(r.converged && r.loss < 1e-10);
    /* a gradient costs 12, and is taken once per accepted point: trials of a search ask for more */
    assert_true(r.evals <= 26 * (r.steps + 5));
    gd_release(p);
    end_context(ctx, NULL);
}

/* ---- constraints of numbers ---- */

static gd_tensor *bowl(void *user) { return gd_sum(gd_square(((numbers *)user)->p), NULL, false); }

static gd_tensor *of_numbers(gd_ctx *ctx, double value)
{
    return gd_from_f64(ctx, GD_F64, 1, (int64_t[]){1}, &value);
}

/* p0 p1 = 2 and p0 >= 1.8 */
static gd_tensor *product_is_two(void *user)
{
    numbers *n = user;
    n->calls++;
    return of_numbers(gd_tensor_ctx(n->p), gd_at(n->p, (int64_t[]){0}) * gd_at(n->p, (int64_t[]){1}) - 2);
}
static gd_tensor *at_least(void *user)
{
    numbers *n = user;
    return of_numbers(gd_tensor_ctx(n->p), 1.8 - gd_at(n->p, (int64_t[]){0}));
}
static gd_tensor *at_least_by_operators(void *user)
{
    return gd_add_scalar(gd_neg(gd_slice(((numbers *)user)->p, "0", 0, 1, 1)), 1.8);
}
static gd_status bowl_value(void *user, double *loss)
{
    double x[2];
    gd_status status = gd_read_f64(((numbers *)user)->p, x, 2);
    *loss = x[0] * x[0] + x[1] * x[1];
    return status;
}

/* They were taken for constants.  At (1.8, 2 / 1.8): multipliers from 2x = -y_h x' ... */
static void constraints_of_numbers_have_differences(void **state)
{
    (void)state;
    static const char *const chains[] = {NULL, "nlp(hessian=\"bfgs\")",
                                         "augmented_lagrangian([lbfgs | strong_wolfe])"};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (int kind = 0; kind < 4; kind++) { /* loss by operators or not, the inequality too */
            gd_ctx *ctx = context(NULL, 1, NULL);
            numbers n = {gd_require_grad(VECTOR(ctx, 3, 1)), 0};
            gd_objective o = {.user = &n, .equal = product_is_two};
            o.below = kind & 1 ? at_least_by_operators : at_least;
            if (kind & 2)
                o.value = bowl_value;
            else
                o.loss = bowl;
            double at[2], y[2] = {0};
            gd_solve_options options = gd_solve_defaults();
            options.multipliers = y, options.multiplier_count = 2;
            gd_solve_result r = {0};
            gd_status status = gd_minimize(&n.p, 1, &o, chains[i], &options, &r);
            assert_int_equal(gd_read_f64(n.p, at, 2), GD_OK);
            double x = 1.8, z = 2 / x, yh = -2 * z / x, yg = 2 * x + yh * z;
            if (status || !r.converged || fabs(at[0] - x) > 1e-5 || fabs(at[1] - z) > 1e-5 ||
                fabs(y[0] - yh) > 1e-3 || fabs(y[1] - yg) > 1e-3 ||
                r.derivatives != GD_DERIVATIVES_DIFFERENCES)
                fail_msg("%s, %d: %s, %s, (%.9g, %.9g), multipliers %g and %g, %s",
                         chains[i] ? chains[i] : "default", kind, gd_status_name(status),
                         gd_stop_name(r.reason), at[0], at[1], y[0], y[1], gd_error_text(ctx));
            assert_int_equal(r.constraint_evals + (!chains[i] && kind < 2),
                             n.calls); /* gd_chain_for counts rows */
            gd_release(n.p);
            end_context(ctx, NULL);
        }
}

static void every_failed_allocation_of_differences_is_an_error(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t k = 1; failed; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        numbers n = {gd_require_grad(VECTOR(ctx, 3, 1)), 0};
        gd_objective o = {.user = &n, .equal = product_is_two, .below = at_least, .value = bowl_value};
        gd_solve_options options = gd_solve_defaults();
        gd_solve_result r;
        double at[2];
        options.max_steps = 2;
        m.fail_at = m.requests + k;
        gd_status status = gd_minimize(&n.p, 1, &o, "nlp", &options, &r);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_clear_error(ctx);
        assert_int_equal(gd_read_f64(n.p, at, 2), GD_OK);
        assert_true(isfinite(at[0]) && isfinite(at[1]));
        gd_release(n.p);
        end_context(ctx, &m);
    }
}

/* ---- sum_of_squares ---- */

static gd_tensor *two_residuals(void *user) { return gd_sub(user, gd_full_like(user, 3)); }
static gd_tensor *one_number(void *user) { return gd_sum(gd_square(two_residuals(user)), NULL, false); }
static gd_status by_callback(void *user, double *loss, gd_tensor *const *grads)
{
    (void)user;
    (void)grads;
    *loss = 0;
    return GD_OK;
}

/* It did nothing to one number, in silence. */
static void sum_of_squares_wants_a_vector(void **state)
{
    (void)state;
    static const char *const chains[] = {"sum_of_squares | lbfgs | strong_wolfe",
                                         "clip_norm(1) | sum_of_squares | lr(0.1)",
                                         "backtracking | sum_of_squares"};
    static const struct {
        gd_tensor *(*loss)(void *user), *(*residuals)(void *user);
        gd_status (*gradient)(void *user, double *loss, gd_tensor *const *grads);
        gd_status status;
    } rows[] = {{two_residuals, NULL, NULL, GD_OK},
                {one_number, two_residuals, NULL, GD_OK},
                {one_number, NULL, NULL, GD_SHAPE},
                {one_residual, NULL, NULL, GD_SHAPE},
                {NULL, NULL, by_callback, GD_NOT_IMPLEMENTED}};
    for (int i = 0; i < COUNT_OF(rows) * COUNT_OF(chains); i++) {
        int k = i / COUNT_OF(chains);
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_tensor *p = gd_require_grad(VECTOR(ctx, 1, 1));
        gd_objective o = {
            .loss = rows[k].loss, .residuals = rows[k].residuals, .gradient = rows[k].gradient, .user = p};
        gd_optimizer *optimizer = gd_optimizer_new(ctx, gd_chain(ctx, chains[i % COUNT_OF(chains)]));
        assert_int_equal(gd_optimizer_add(optimizer, "p", p), GD_OK);
        gd_status status = gd_optimizer_step(optimizer, &o, NULL);
        double at[2];
        if (status != rows[k].status ||
            (status && !strstr(gd_error_text(ctx), "sum_of_squares: it needs a vector")))
            fail_msg("row %d, %s: %s, %s", k, chains[i % COUNT_OF(chains)], gd_status_name(status),
                     gd_error_text(ctx));
        gd_clear_error(ctx);
        assert_int_equal(gd_read_f64(p, at, 2), GD_OK);
        assert_true(status ? at[0] == 1 : at[0] > 1);
        gd_optimizer_free(optimizer);
        gd_release(p);
        end_context(ctx, NULL);
    }
}

/* ---- sizes ---- */

/* Each residual depends on all parameters. */
static gd_tensor *of_all(void *user)
{
    return gd_add(gd_cat((gd_tensor *[]){user, user}, 2, "0"), gd_sum(user, NULL, false));
}

/* 4e6 residuals by 2e6 parameters: 128 TB.  It worked until an allocation failed, and named bytes alone. */
static void a_jacobian_that_cannot_fit_is_refused_with_its_size(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    int64_t n = 2000000;
    gd_tensor *p = gd_require_grad(gd_ones(ctx, GD_F64, 1, &n));
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(&p, 1, of_all, p, NULL, &r), GD_NOMEM);
    if (!strstr(gd_error_text(ctx), "4000000 residuals by 2000000 parameters need 1.28e+05 GB"))
        fail_msg("%s", gd_error_text(ctx));
    gd_clear_error(ctx);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_element_is_the_loss_whatever_its_shape),
        cmocka_unit_test(a_single_residual_is_given_as_one),
        cmocka_unit_test(one_element_of_several_rows_is_the_loss),
        cmocka_unit_test(sum_of_squares_wants_a_vector),
        cmocka_unit_test(a_jacobian_that_cannot_fit_is_refused_with_its_size),
        cmocka_unit_test(a_function_that_reads_numbers_is_minimised_by_differences),
        cmocka_unit_test(a_function_of_numbers_needs_no_link_for_its_differences),
        cmocka_unit_test(differences_of_numbers_stay_inside_bounds),
        cmocka_unit_test(as_many_steps_as_with_exact_gradients),
        cmocka_unit_test(constraints_of_numbers_have_differences),
        cmocka_unit_test(every_failed_allocation_of_differences_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
