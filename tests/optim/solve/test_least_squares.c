/* gd_least_squares and gd_minimize: closed forms, covariance, stopping rules, what cannot be fitted, failures. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

/* A model of data with up to four parameters. */
typedef struct fit {
    gd_ctx *ctx;
    gd_tensor *p[4], *t, *y;
    int evals, fail_at;
    gd_tensor *(*model)(struct fit *f);
} fit;

static gd_tensor *residuals(void *user)
{
    fit *f = user;
    f->evals++;
    if (f->evals == f->fail_at) return NULL;
    return f->y ? gd_sub(f->model(f), f->y) : f->model(f);
}

static fit open_fit(gd_tensor *(*model)(fit *f), int params, const double *start, int rows, const double *t,
                    const double *y)
{
    fit f = {.ctx = context(NULL, 1, NULL), .model = model};
    gd_scope_begin(f.ctx);
    for (int i = 0; i < params; i++) f.p[i] = gd_require_grad(gd_scalar(f.ctx, GD_F64, start[i]));
    if (t) f.t = gd_from_f64(f.ctx, GD_F64, 1, (int64_t[]){rows}, t);
    if (y) f.y = gd_from_f64(f.ctx, GD_F64, 1, (int64_t[]){rows}, y);
    return f;
}

static void close_fit(fit *f)
{
    gd_scope_end(f->ctx);
    assert_no_error(f->ctx);
    end_context(f->ctx, NULL);
}

static gd_tensor *line(fit *f) { return gd_add(f->p[0], gd_mul(f->p[1], f->t)); }
static gd_tensor *decay(fit *f)
{
    return gd_add(gd_mul(f->p[0], gd_exp(gd_neg(gd_mul(f->p[1], f->t)))), f->p[2]);
}

/* ---- what a fit says ---- */

static void a_line_has_the_errors_of_linear_regression(void **state)
{
    (void)state;
    const double t[] = {1, 2, 3, 4, 5, 6}, y[] = {2.1, 3.9, 6.2, 7.8, 10.1, 11.7};
    fit f = open_fit(line, 2, (double[]){0, 0}, 6, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    /* by hand: slope = Sxy / Sxx, its variance s^2 / Sxx, that of the intercept s^2 (1/n + mean^2 / Sxx) */
    double mean_t = 3.5, mean_y = 0, sxx = 17.5, sxy = 0, rss = 0;
    for (int i = 0; i < 6; i++) mean_y += y[i] / 6;
    for (int i = 0; i < 6; i++) sxy += (t[i] - mean_t) * (y[i] - mean_y);
    double slope = sxy / sxx, start = mean_y - slope * mean_t;
    for (int i = 0; i < 6; i++) rss += pow(start + slope * t[i] - y[i], 2);
    double s2 = rss / 4;
    assert_near(gd_item(f.p[0]), start, 1e-13);
    assert_near(gd_item(f.p[1]), slope, 1e-13);
    assert_near(r.rss, rss, 1e-14);
    assert_near(r.sigma, sqrt(s2), 1e-14);
    assert_int_equal(r.residuals, 6);
    assert_int_equal(r.dof, 4);
    assert_int_equal(r.rank, 2);
    assert_values_near(r.standard_errors, 1e-12, sqrt(s2 * (1.0 / 6 + mean_t * mean_t / sxx)),
                       sqrt(s2 / sxx));
    assert_values_near(r.covariance, 1e-12, s2 * (1.0 / 6 + mean_t * mean_t / sxx), -s2 * mean_t / sxx,
                       -s2 * mean_t / sxx, s2 / sxx);
    assert_true(r.solve.converged);
    /* linear: the full step is the solution */
    assert_true(r.solve.evals <= 5);
    gd_lsq_result_clear(&r);
    assert_null(r.covariance);
    close_fit(&f);
}

static void an_exact_fit_ends_at_zero(void **state)
{
    (void)state;
    double t[20], y[20];
    for (int i = 0; i < 20; i++) {
        t[i] = 0.2 * i;
        y[i] = 2.5 * exp(-1.3 * t[i]) + 0.5;
    }
    fit f = open_fit(decay, 3, (double[]){1, 1, 0}, 20, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, NULL, &r), GD_OK);
    assert_near(gd_item(f.p[0]), 2.5, 1e-12);
    assert_near(gd_item(f.p[1]), 1.3, 1e-12);
    assert_near(gd_item(f.p[2]), 0.5, 1e-12);
    assert_true(r.rss < 1e-28);
    assert_int_equal(r.solve.evals, f.evals);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

static void a_start_that_is_the_solution_is_evaluated_once(void **state)
{
    (void)state;
    const double t[] = {0, 1, 2, 3}, y[] = {1, 3, 5, 7};
    fit f = open_fit(line, 2, (double[]){1, 2}, 4, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(r.solve.evals, 1);
    assert_int_equal(r.solve.reason, GD_STOP_GRADIENT);
    assert_near(r.rss, 0, 0);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

/* Freudenstein and Roth: a large residual at its local minimum, where Gauss-Newton steps alone converge slowly */
static gd_tensor *freudenstein_roth(fit *f)
{
    gd_tensor *b = f->p[1];
    gd_tensor *u = gd_mul(gd_add_scalar(gd_mul(gd_add_scalar(gd_neg(b), 5), b), -2), b);
    gd_tensor *v = gd_mul(gd_add_scalar(gd_mul(gd_add_scalar(b, 1), b), -14), b);
    return gd_stack(
        (gd_tensor *[]){gd_add_scalar(gd_add(f->p[0], u), -13), gd_add_scalar(gd_add(f->p[0], v), -29)}, 2, 0,
        NULL);
}

static void the_last_digits_are_found_also_with_large_residuals(void **state)
{
    (void)state;
    fit f = open_fit(freudenstein_roth, 2, (double[]){0.5, -2}, 0, NULL, NULL);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    /* p_0 balances the two, so half the square of 16 + 12 b + 4 b^2 - 2 b^3 is left, least for b = (2 - sqrt 22) / 3 */
    double b = (2 - sqrt(22)) / 3, gap = 16 + 12 * b + 4 * b * b - 2 * b * b * b;
    double first = 13 - ((5 - b) * b - 2) * b + gap / 2;
    assert_near(gd_item(f.p[1]), b, 1e-13);
    assert_near(gd_item(f.p[0]), first, 1e-11);
    assert_near(r.rss, gap * gap / 2, 1e-12);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

/* ---- what cannot be determined ---- */

static gd_tensor *twice_the_same(fit *f) { return gd_add(gd_mul(gd_add(f->p[0], f->p[1]), f->t), f->p[2]); }

static void parameters_that_are_not_determined_have_infinite_errors(void **state)
{
    (void)state;
    const double t[] = {1, 2, 3, 4, 5}, y[] = {1, 2.1, 2.9, 4.2, 5};
    fit f = open_fit(twice_the_same, 3, (double[]){1, 3, 0}, 5, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(r.rank, 2);
    double errors[3];
    assert_int_equal(gd_read_f64(r.standard_errors, errors, 3), GD_OK);
    assert_true(isinf(errors[0]) && isinf(errors[1]) && isfinite(errors[2]));
    /* the sum is that of the line, its change shared */
    double slope = 10.1 / 10;
    assert_near(gd_item(f.p[0]) + gd_item(f.p[1]), slope, 1e-10);
    assert_near(gd_item(f.p[1]) - gd_item(f.p[0]), 2, 1e-8);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

static gd_tensor *two_of_three(fit *f)
{
    gd_tensor *sum = gd_add(gd_add(f->p[0], f->p[1]), f->p[2]);
    return gd_stack((gd_tensor *[]){gd_add_scalar(gd_exp(sum), -exp(3)), gd_sub(f->p[0], f->p[1])}, 2, 0,
                    NULL);
}

static void fewer_residuals_than_parameters_are_solved_exactly(void **state)
{
    (void)state;
    fit f = open_fit(two_of_three, 3, (double[]){1, 0.5, 0}, 0, NULL, NULL);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, NULL, &r), GD_OK);
    assert_true(r.rss < 1e-24);
    assert_int_equal(r.dof, -1);
    assert_int_equal(r.rank, 2);
    assert_true(isnan(r.sigma));
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

static gd_tensor *unused_parameter(fit *f) { return gd_add_scalar(gd_mul(f->p[0], f->t), 0); }

static void a_parameter_that_does_not_matter_stays(void **state)
{
    (void)state;
    const double t[] = {1, 2, 3}, y[] = {2, 4, 6.1};
    fit f = open_fit(unused_parameter, 2, (double[]){1, 7}, 3, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_near(gd_item(f.p[0]), 28.3 / 14, 1e-13);
    assert_near(gd_item(f.p[1]), 7, 0);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

/* ---- points that are not finite ---- */

static gd_tensor *logarithm(fit *f) { return gd_mul(f->p[0], gd_log(gd_add(f->t, f->p[1]))); }

static void trial_points_that_are_not_finite_are_avoided(void **state)
{
    (void)state;
    double t[12], y[12];
    for (int i = 0; i < 12; i++) {
        t[i] = i;
        y[i] = 2 * log(t[i] + 0.1);
    }
    fit f = open_fit(logarithm, 2, (double[]){50, 8}, 12, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_near(gd_item(f.p[0]), 2, 1e-8);
    assert_near(gd_item(f.p[1]), 0.1, 1e-8);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

static void a_start_that_is_not_finite_is_said(void **state)
{
    (void)state;
    const double t[] = {1, 2, 3}, y[] = {1, 2, 3};
    fit f = open_fit(logarithm, 2, (double[]){1, -8}, 3, t, y);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(r.solve.reason, GD_STOP_NOT_FINITE);
    assert_false(r.solve.converged);
    assert_near(gd_item(f.p[1]), -8, 0);
    assert_null(r.covariance);
    gd_lsq_result_clear(&r);
    close_fit(&f);
}

/* ---- stopping ---- */

static bool count_to_three(void *user, const gd_progress *progress)
{
    int *seen = user;
    assert_int_equal(progress->step, *seen + 1);
    assert_true(isfinite(progress->loss) && progress->evals > 0);
    assert_true(progress->loss_after == progress->loss && isnan(progress->gradient_length));
    return ++*seen < 3;
}

static void rules_stop_a_fit(void **state)
{
    (void)state;
    double t[20], y[20];
    for (int i = 0; i < 20; i++) {
        t[i] = 0.2 * i;
        y[i] = 2.5 * exp(-1.3 * t[i]) + 0.5 + 0.01 * (i % 3);
    }
    int seen = 0;
    struct {
        gd_stop want;
        gd_lsq_options options;
    } cases[5];
    for (int i = 0; i < 5; i++) cases[i].options = gd_lsq_defaults();
    cases[0].want = GD_STOP_CALLER;
    cases[0].options.solve.callback = count_to_three;
    cases[0].options.solve.callback_user = &seen;
    cases[1].want = GD_STOP_MAX_STEPS;
    cases[1].options.solve.max_steps = 2;
    cases[2].want = GD_STOP_MAX_EVALS;
    cases[2].options.solve.max_evals = 3;
    cases[3].want = GD_STOP_TIME;
    cases[3].options.solve.max_seconds = 1e-9;
    cases[4].want = GD_STOP_GRADIENT;
    cases[4].options.solve.gradient_tol = 1e-3;
    for (int i = 0; i < 5; i++) {
        fit f = open_fit(decay, 3, (double[]){1, 1, 0}, 20, t, y);
        gd_lsq_result r;
        assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, &cases[i].options, &r), GD_OK);
        assert_int_equal(r.solve.reason, cases[i].want);
        assert_int_equal(r.solve.evals, f.evals);
        if (cases[i].want == GD_STOP_MAX_EVALS) assert_true(f.evals <= 3);
        gd_lsq_result_clear(&r);
        close_fit(&f);
    }
    assert_int_equal(seen, 3);
}

static void every_reason_has_a_text(void **state)
{
    (void)state;
    for (int i = 0; i < GD_STOP_COUNT; i++) {
        assert_true(strlen(gd_stop_name((gd_stop)i)) > 1);
        assert_true(strlen(gd_stop_text((gd_stop)i)) > 5);
    }
    assert_string_equal(gd_stop_name(GD_STOP_GRADIENT), "GRADIENT");
    assert_true(gd_stop_converged(GD_STOP_LOSS) && !gd_stop_converged(GD_STOP_TIME));
    assert_string_equal(gd_stop_name(GD_STOP_COUNT), "?");
}

/* ---- failures ---- */

static void a_function_that_fails_leaves_the_best_point(void **state)
{
    (void)state;
    double t[20], y[20];
    for (int i = 0; i < 20; i++) {
        t[i] = 0.2 * i;
        y[i] = 2.5 * exp(-1.3 * t[i]) + 0.5;
    }
    double last = INFINITY;
    for (int fail_at = 1; fail_at < 7; fail_at++) {
        fit f = open_fit(decay, 3, (double[]){1, 1, 0}, 20, t, y);
        f.fail_at = fail_at;
        gd_lsq_result r;
        assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, NULL, &r), GD_CALLBACK);
        assert_error(f.ctx, GD_CALLBACK, "least squares: the function returned NULL");
        assert_int_equal(r.solve.reason, GD_STOP_ERROR);
        assert_null(r.covariance);
        /* the loss where the parameters are is that of the best evaluation */
        f.fail_at = 0;
        double loss = gd_item(gd_sum(gd_square(residuals(&f)), NULL, false));
        assert_true(loss <= last);
        if (fail_at > 1) assert_near(loss, r.rss, 1e-12 * loss);
        last = loss;
        close_fit(&f);
    }
}

static gd_tensor *of_changing_size(fit *f)
{
    gd_tensor *all = gd_mul(f->p[0], f->t);
    return f->evals > 1 ? gd_slice(all, "0", 0, 2, 1) : all;
}

static void wrong_use_is_told(void **state)
{
    (void)state;
    const double t[] = {1, 2, 3};
    fit f = open_fit(of_changing_size, 1, (double[]){1}, 3, t, NULL);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 1, residuals, &f, NULL, &r), GD_SHAPE);
    assert_error(f.ctx, GD_SHAPE, "least squares: 2 residuals, before there were 3");
    gd_tensor *constant = gd_scalar(f.ctx, GD_F64, 1);
    assert_int_equal(gd_least_squares(&constant, 1, residuals, &f, NULL, &r), GD_ARGUMENT);
    assert_error(f.ctx, GD_ARGUMENT, "least squares: parameter 0 is not a floating leaf");
    assert_int_equal(gd_least_squares(f.p, 0, residuals, &f, NULL, &r), GD_ARGUMENT);
    close_fit(&f);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const double t[] = {0, 1, 2, 3, 4}, y[] = {3, 1.4, 0.9, 0.6, 0.5};
    bool done = false;
    for (int64_t k = 1; !done; k++) {
        memory counted = {0};
        gd_ctx *ctx = context(&counted, 1, NULL);
        gd_scope_begin(ctx);
        fit f = {.ctx = ctx, .model = decay};
        for (int i = 0; i < 3; i++) f.p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, (double[]){1, 1, 0}[i]));
        f.t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, t);
        f.y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, y);
        assert_no_error(ctx);
        counted.fail_at = counted.requests + (k < 400 ? k : k * k / 400); /* all of the first, then some */
        gd_lsq_options options = gd_lsq_defaults();
        options.solve.max_steps = 3;
        gd_lsq_result r;
        gd_status status = gd_least_squares(f.p, 3, residuals, &f, &options, &r);
        done = !counted.failed;
        if (done)
            assert_int_equal(status, GD_OK);
        else if (status) {
            assert_int_equal(status, GD_NOMEM);
            assert_true(isfinite(gd_item(f.p[0])));
        }
        counted.fail_at = 0;
        gd_lsq_result_clear(&r);
        gd_clear_error(ctx);
        gd_scope_end(ctx);
        end_context(ctx, &counted);
    }
}

/* ---- other parameters ---- */

/* y = X w with a matrix of parameters and names on its axes */
typedef struct matrix_fit {
    gd_tensor *w, *x, *y;
} matrix_fit;

static gd_tensor *matrix_residuals(void *user)
{
    matrix_fit *f = user;
    return gd_sub(gd_matmul(f->x, gd_drop_names(f->w)), f->y);
}

static void parameters_of_any_shape_and_precision(void **state)
{
    (void)state;
    const gd_dtype dtypes[] = {GD_F64, GD_F32};
    for (int i = 0; i < 2; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_seed(ctx, 3);
        gd_dtype d = dtypes[i];
        gd_tensor *truth = gd_from_f64(ctx, d, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
        matrix_fit f = {.x = gd_randn(ctx, d, 2, (int64_t[]){10, 2})};
        f.w = gd_require_grad(gd_rename(gd_zeros(ctx, d, 2, (int64_t[]){2, 3}), "in, out"));
        f.y = gd_matmul(f.x, truth);
        gd_lsq_result r;
        assert_int_equal(gd_least_squares(&f.w, 1, matrix_residuals, &f, NULL, &r), GD_OK);
        assert_no_error(ctx);
        assert_values_near(f.w, d == GD_F64 ? 1e-13 : 1e-5, 1, 2, 3, 4, 5, 6);
        assert_shape(r.covariance, 6, 6);
        assert_string_equal(gd_axis_name(f.w, 0), "in");
        gd_lsq_result_clear(&r);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* Rosenbrock's residuals, and the graphs of all points where they were asked for. */
typedef struct visits {
    gd_tensor *p;
    gd_tensor *loss[100];
    double at[100][2];
    int count, stale;
} visits;

/* A graph is refused wherever the parameters are not what they were when it was recorded. */
static void check_visits(visits *v)
{
    double now[2];
    gd_ctx *ctx = gd_tensor_ctx(v->p);
    assert_int_equal(gd_read_f64(v->p, now, 2), GD_OK);
    for (int k = 0; k < v->count; k++) {
        gd_tensor *grad = NULL;
        bool same = now[0] == v->at[k][0] && now[1] == v->at[k][1];
        gd_status status = gd_grad(v->loss[k], NULL, &v->p, 1, GD_RETAIN_GRAPH, &grad);
        v->stale += status != GD_OK;
        if (status) gd_clear_error(ctx);
        assert_true(same || status);
    }
}

static gd_tensor *visited_residuals(void *user)
{
    visits *v = user;
    check_visits(v);
    gd_tensor *x = gd_index(v->p, "0", 0), *y = gd_index(v->p, "0", 1);
    gd_tensor *r = gd_stack(
        (gd_tensor *[]){gd_mul_scalar(gd_sub(y, gd_square(x)), 10), gd_add_scalar(gd_neg(x), 1)}, 2, 0, NULL);
    assert_true(v->count < 100);
    assert_int_equal(gd_read_f64(v->p, v->at[v->count], 2), GD_OK);
    gd_tensor *loss = gd_sum(gd_square(r), NULL, false);
    gd_retain(loss);
    v->loss[v->count++] = loss;
    return r;
}

static void graphs_of_points_that_were_tried_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    visits v = {.p = gd_require_grad(VECTOR(ctx, -1.2, 1))};
    gd_lsq_options o = gd_lsq_defaults();
    o.acceleration = false;
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(&v.p, 1, visited_residuals, &v, &o, &r), GD_OK);
    assert_values_near(v.p, 1e-12, 1, 1);
    assert_true(r.solve.evals > r.solve.steps + 1); /* some were not taken */
    assert_true(v.stale > 0);
    gd_lsq_result_clear(&r);
    for (int k = 0; k < v.count; k++) gd_release(v.loss[k]);
    gd_release(v.p);
    end_context(ctx, NULL);
}

/* Memory asked for by a fit of a decay from a start that is near or far, with second derivatives or without. */
static int64_t requests_of(double near, bool acceleration)
{
    enum { ROWS = 40 };
    memory m = {0};
    fit f = {.ctx = context(&m, 1, NULL), .model = decay};
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    double t[ROWS], y[ROWS], start[] = {2, 1 + near, 0.5};
    for (int i = 0; i < ROWS; i++) t[i] = 0.1 * i, y[i] = 2 * exp(-t[i]) + 0.5 + 1e-3 * (i % 3);
    gd_scope_begin(f.ctx);
    for (int i = 0; i < 3; i++) f.p[i] = gd_require_grad(gd_scalar(f.ctx, GD_F64, start[i]));
    f.t = gd_from_f64(f.ctx, GD_F64, 1, (int64_t[]){ROWS}, t);
    f.y = gd_from_f64(f.ctx, GD_F64, 1, (int64_t[]){ROWS}, y);
    o.acceleration = acceleration;
    int64_t before = m.requests;
    assert_int_equal(gd_least_squares(f.p, 3, residuals, &f, &o, &r), GD_OK);
    int64_t asked = m.requests - before;
    assert_true(r.solve.converged);
    assert_near(gd_item(f.p[1]), 1, 0.01);
    gd_lsq_result_clear(&r);
    gd_scope_end(f.ctx);
    end_context(f.ctx, &m);
    return asked;
}

/* They cost as much as several evaluations, and save none of a fit whose full steps are good. */
static void full_steps_of_a_good_model_take_no_second_derivatives(void **state)
{
    (void)state;
    assert_int_equal(requests_of(0.2, true), requests_of(0.2, false));
    assert_true(requests_of(30, true) !=
                requests_of(30, false)); /* where the region holds steps back they are taken */
}

/* ---- gd_minimize ---- */

typedef struct bowl {
    gd_tensor *p;
    int evals, fail_at; /* 0: none */
} bowl;

static gd_tensor *bowl_loss(void *user)
{
    bowl *b = user;
    if (++b->evals == b->fail_at) return NULL;
    return gd_add_scalar(gd_sum(gd_square(gd_add_scalar(b->p, -3)), NULL, false), 1);
}

static void minimize(const char *chain, const gd_solve_options *options, gd_stop want, double x,
                     double within)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    bowl b = {.p = gd_require_grad(VECTOR(ctx, 0, 10))};
    gd_solve_result r;
    gd_status status = gd_minimize(&b.p, 1, &(gd_objective){.loss = bowl_loss, .user = &b}, chain, options,
                                   &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    assert_int_equal(r.reason, want);
    assert_int_equal(r.converged, gd_stop_converged(want));
    assert_values_near(b.p, within, x, x);
    /* what it says is the loss there */
    gd_scope_begin(ctx);
    assert_near(r.loss, gd_item(bowl_loss(&b)), 1e-12);
    gd_scope_end(ctx);
    gd_release(b.p);
    end_context(ctx, NULL);
}

static void an_objective_that_fails_leaves_the_best_point(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "heavy_ball | lr(0.1)",
                                         "newton | backtracking"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        double last = INFINITY;
        for (int fail_at = 1; fail_at < 6; fail_at++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            bowl b = {.p = gd_require_grad(VECTOR(ctx, 0, 10)), .fail_at = fail_at};
            gd_objective objective = {.loss = bowl_loss, .user = &b};
            gd_solve_result r;
            gd_status status = gd_minimize(&b.p, 1, &objective, chains[c], NULL, &r);
            if (b.evals >= fail_at) {
                assert_int_equal(status, GD_CALLBACK);
                assert_error(ctx, GD_CALLBACK, "the objective returned NULL");
                assert_int_equal(r.reason, GD_STOP_ERROR);
                gd_scope_begin(ctx);
                double loss = gd_item(bowl_loss(&b));
                gd_scope_end(ctx);
                assert_true(loss <= last);
                if (isfinite(r.loss)) assert_near(r.loss, loss, 0);
                last = loss;
            }
            gd_release(b.p);
            end_context(ctx, NULL);
        }
    }
}

static void chains_stop_by_their_rules(void **state)
{
    (void)state;
    gd_solve_options o = gd_solve_defaults();
    minimize("newton", NULL, GD_STOP_GRADIENT, 3, 1e-9);
    minimize("lr(0.1)", &o, GD_STOP_GRADIENT, 3, 1e-8);
    o.gradient_tol = 0;
    o.step_tol = 1e-10;
    minimize("lr(0.1)", &o, GD_STOP_STEP, 3, 1e-8);
    o.step_tol = 0;
    o.loss_tol = 1e-12;
    minimize("lr(0.1)", &o, GD_STOP_LOSS, 3, 1e-5);
    o.loss_tol = 0;
    o.max_evals = 100;
    minimize("lr(0.1)", &o, GD_STOP_MAX_EVALS, 3, 1e-8);
    o.max_evals = 0;
    o.max_steps = 150;
    minimize("lr(0.1)", &o, GD_STOP_MAX_STEPS, 3, 1e-8);
    o.max_steps = 0;
    o.max_seconds = 0.05;
    minimize("lr(0.1)", &o, GD_STOP_TIME, 3, 7); /* how far it comes in that time, nobody knows */
}

static void the_best_point_is_kept(void **state)
{
    (void)state;
    /* steps that overshoot further and further: the start was best */
    gd_ctx *ctx = context(NULL, 1, NULL);
    bowl b = {.p = gd_require_grad(VECTOR(ctx, 2, 2))};
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = 10;
    gd_solve_result r;
    assert_int_equal(gd_minimize(&b.p, 1, &(gd_objective){.loss = bowl_loss, .user = &b}, "lr(1.1)", &o, &r),
                     GD_OK);
    assert_values(b.p, 2, 2);
    assert_near(r.loss, 3, 1e-15);
    assert_int_equal(r.reason, GD_STOP_MAX_STEPS);
    gd_release(b.p);
    end_context(ctx, NULL);
}

static void a_chain_that_cannot_be_read_is_an_error(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    bowl b = {.p = gd_require_grad(VECTOR(ctx, 2, 2))};
    gd_solve_result r;
    assert_true(gd_minimize(&b.p, 1, &(gd_objective){.loss = bowl_loss, .user = &b}, "newtom", NULL, &r) !=
                GD_OK);
    assert_int_equal(r.reason, GD_STOP_ERROR);
    gd_clear_error(ctx);
    gd_release(b.p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_the_errors_of_linear_regression),
        cmocka_unit_test(an_exact_fit_ends_at_zero),
        cmocka_unit_test(graphs_of_points_that_were_tried_are_refused),
        cmocka_unit_test(a_start_that_is_the_solution_is_evaluated_once),
        cmocka_unit_test(full_steps_of_a_good_model_take_no_second_derivatives),
        cmocka_unit_test(the_last_digits_are_found_also_with_large_residuals),
        cmocka_unit_test(parameters_that_are_not_determined_have_infinite_errors),
        cmocka_unit_test(fewer_residuals_than_parameters_are_solved_exactly),
        cmocka_unit_test(a_parameter_that_does_not_matter_stays),
        cmocka_unit_test(trial_points_that_are_not_finite_are_avoided),
        cmocka_unit_test(a_start_that_is_not_finite_is_said),
        cmocka_unit_test(rules_stop_a_fit),
        cmocka_unit_test(every_reason_has_a_text),
        cmocka_unit_test(a_function_that_fails_leaves_the_best_point),
        cmocka_unit_test(wrong_use_is_told),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(parameters_of_any_shape_and_precision),
        cmocka_unit_test(an_objective_that_fails_leaves_the_best_point),
        cmocka_unit_test(chains_stop_by_their_rules),
        cmocka_unit_test(the_best_point_is_kept),
        cmocka_unit_test(a_chain_that_cannot_be_read_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
