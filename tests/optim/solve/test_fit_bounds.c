/* gd_least_squares under bounds: 29 problems against SciPy, starts on bounds, the active set, statistics, profile intervals. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define MOST 4
#define ROWS 25

typedef struct problem {
    gd_tensor *p[MOST], *t, *y;
    gd_tensor *(*model)(gd_tensor *const *p, gd_tensor *t);
} problem;

static gd_tensor *residuals(void *user)
{
    problem *q = user;
    return gd_sub(q->model(q->p, q->t), q->y);
}

/* ---- models ---- */

static gd_tensor *line(gd_tensor *const *p, gd_tensor *t) { return gd_add(p[0], gd_mul(p[1], t)); }

static gd_tensor *exponential(gd_tensor *const *p, gd_tensor *t)
{
    return gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], t))));
}

static gd_tensor *decay(gd_tensor *const *p, gd_tensor *t) { return gd_add(exponential(p, t), p[2]); }

static gd_tensor *two(gd_tensor *const *p, gd_tensor *t)
{
    return gd_add(exponential(p, t), exponential(p + 2, t));
}

static gd_tensor *logistic(gd_tensor *const *p, gd_tensor *t)
{
    return gd_div(p[0], gd_add_scalar(gd_exp(gd_sub(p[1], gd_mul(p[2], t))), 1));
}

static gd_tensor *peak(gd_tensor *const *p, gd_tensor *t)
{
    gd_tensor *z = gd_div(gd_sub(t, p[1]), p[2]);
    return gd_mul(p[0], gd_exp(gd_mul_scalar(gd_square(z), -0.5)));
}

static gd_tensor *binding(gd_tensor *const *p, gd_tensor *t)
{
    return gd_div(gd_mul(p[0], t), gd_add(p[1], t));
}

static gd_tensor *power(gd_tensor *const *p, gd_tensor *t)
{
    return gd_mul(p[0], gd_exp(gd_mul(p[1], gd_log(gd_add_scalar(t, 1)))));
}

static gd_tensor *cubic(gd_tensor *const *p, gd_tensor *t)
{
    gd_tensor *high = gd_add(p[2], gd_mul(p[3], t));
    return gd_add(p[0], gd_mul(gd_add(p[1], gd_mul(high, t)), t));
}

static gd_tensor *wave(gd_tensor *const *p, gd_tensor *t)
{
    return gd_mul(p[0], gd_sin(gd_add(gd_mul(p[1], t), p[2])));
}

/* t = 0, 0.2, ..., y = the model at `truth` with a disturbance that looks like noise. */
static void open_problem(gd_ctx *ctx, problem *q, gd_tensor *(*model)(gd_tensor *const *p, gd_tensor *t),
                         int n, const double *truth, double noise, const double *start)
{
    double t[ROWS], y[ROWS];
    *q = (problem){.model = model};
    for (int i = 0; i < ROWS; i++) t[i] = 0.2 * i;
    q->t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, t);
    for (int i = 0; i < n; i++) q->p[i] = gd_scalar(ctx, GD_F64, truth[i]);
    assert_int_equal(gd_read_f64(model(q->p, q->t), y, ROWS), GD_OK);
    for (int i = 0; i < ROWS; i++) y[i] += noise * sin(12.9898 * (i + 1) + 0.7 * i * i);
    q->y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, y);
    for (int i = 0; i < n; i++) q->p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, start[i]));
}

/* ---- against SciPy ---- */

typedef struct row {
    gd_tensor *(*model)(gd_tensor *const *p, gd_tensor *t);
    int n;
    double truth[MOST], noise, start[MOST], low[MOST], high[MOST];
    double want[MOST];
    int active[MOST];
    double rss;
} row;

/* Expected: scipy.optimize.least_squares (trf, 1.17) with tolerances of 1e-15, the best of 13 starts inside the bounds, the
 * parameters off their bounds refined with the others held. */
static const row rows[] = {
    {line,
     2,
     {1, 2},
     0.1,
     {1.5, 1},
     {1.5, -INFINITY},
     {INFINITY, INFINITY},
     {1.5, 1.840887619},
     {-1, 0},
     1.57651120874},
    {line,
     2,
     {1, 2},
     0.1,
     {0, 0},
     {-INFINITY, -INFINITY},
     {INFINITY, 1.5},
     {2.193585188, 1.5},
     {0, 1},
     12.3260572608},
    {line, 2, {1, 2}, 0.1, {5, 0}, {2, 0}, {5, 1}, {3.393585189, 1}, {0, 1}, 50.5249194552},
    {line, 2, {1, 2}, 0.1, {0, 0}, {0, 0}, {5, 5}, {1.030560779, 1.984593503}, {0, 0}, 0.114852339769},
    {decay,
     3,
     {5, 0.5, 1},
     0.1,
     {1, 0, 0},
     {0, 0, 0},
     {INFINITY, INFINITY, INFINITY},
     {5.078497406, 0.5095146673, 0.9900931763},
     {0, 0, 0},
     0.109798130618},
    {decay,
     3,
     {5, 0.5, 1},
     0.1,
     {0, 0, 1.2},
     {0, 0, 1.2},
     {10, 3, 9},
     {4.939950935, 0.5673187116, 1.2},
     {0, 0, -1},
     0.164874949007},
    {decay,
     3,
     {5, 0.5, 1},
     0.1,
     {1, 1, 0},
     {-INFINITY, 0.7, -INFINITY},
     {INFINITY, INFINITY, INFINITY},
     {4.893483443, 0.7, 1.469690076},
     {0, -1, 0},
     0.575774072296},
    {decay,
     3,
     {5, 0.5, 1},
     0.1,
     {4, 0.1, 0},
     {0, 0, 0},
     {4, INFINITY, INFINITY},
     {4, 0.6088763234, 1.593679943},
     {1, 0, 0},
     1.92647816265},
    {decay,
     3,
     {5, 0.5, 1},
     0.1,
     {4, 1e-09, 0},
     {0, 0, 0},
     {4.5, 0.45, 0.5},
     {4.5, 0.3224548386, 0.5},
     {1, 0, 1},
     3.12326929307},
    {decay,
     3,
     {5, 0.5, -1},
     0.1,
     {1, 1, 0},
     {0, 0, 0},
     {INFINITY, INFINITY, INFINITY},
     {4.388814955, 0.8885583475, 0},
     {0, 0, -1},
     2.65709307588},
    {two,
     4,
     {4, 0.3, 2, 3},
     0.05,
     {1, 0.5, 1, 2},
     {0, 0, 0, 0},
     {INFINITY, INFINITY, INFINITY, INFINITY},
     {4.002830678, 0.3027666597, 2.016235347, 2.902235573},
     {0, 0, 0, 0},
     0.0271953144385},
    {two,
     4,
     {4, 0.3, 2, 3},
     0.05,
     {0, 0, 0, 2},
     {0, 0, 0, 0},
     {INFINITY, INFINITY, INFINITY, INFINITY},
     {4.002830695, 0.3027666611, 2.016235335, 2.902235634},
     {0, 0, 0, 0},
     0.0271953144385},
    {two,
     4,
     {4, 0.3, 2, 3},
     0.05,
     {1, 0.5, 1, 2.5},
     {0, 0.4, 0, 1},
     {3.5, 1, 5, 2.5},
     {3.5, 0.4, 2.251562595, 1},
     {1, -1, 0, -1},
     3.15793115426},
    {logistic,
     3,
     {10, 4, 2},
     0.2,
     {9, 0, 0},
     {0, 0, 0},
     {9, INFINITY, INFINITY},
     {9, 4.507235636, 2.404036228},
     {1, 0, 0},
     6.92425965546},
    {logistic,
     3,
     {10, 4, 2},
     0.2,
     {1, 1, 1},
     {0, -INFINITY, 0},
     {INFINITY, 3, INFINITY},
     {10.32622968, 3, 1.485264537},
     {0, 1, 0},
     3.84226738415},
    {logistic,
     3,
     {10, 4, 2},
     0.2,
     {12, 5, 1.5},
     {0, 0, 0},
     {INFINITY, INFINITY, 1.5},
     {10.4798446, 3.13665363, 1.5},
     {0, 0, 1},
     3.15240962756},
    {peak,
     3,
     {6, 2.5, 0.7},
     0.1,
     {1, 2, 1},
     {0, 0, 0.9},
     {INFINITY, 5, 5},
     {5.180413895, 2.500302603, 0.9},
     {0, 0, -1},
     6.67913095145},
    {peak,
     3,
     {6, 2.5, 0.7},
     0.1,
     {5, 2.2, 1},
     {0, 0, 0.1},
     {5, 2.2, 5},
     {5, 2.2, 0.816607682},
     {1, 1, 0},
     19.5182651657},
    {peak,
     3,
     {6, 2.5, 0.7},
     0.1,
     {1, 2, 0.1},
     {0, 2, 0.1},
     {INFINITY, 5, 5},
     {5.954035596, 2.502404652, 0.7021360855},
     {0, 0, 0},
     0.11743524248},
    {binding,
     2,
     {8, 1.5},
     0.1,
     {1, 0.001},
     {0, 0.001},
     {INFINITY, INFINITY},
     {7.895564603, 1.457448864},
     {0, 0},
     0.117218334302},
    {binding, 2, {8, 1.5}, 0.1, {7, 1}, {0, 0}, {7, INFINITY}, {7, 1.038502724}, {1, 0}, 0.966296898101},
    {binding, 2, {8, 1.5}, 0.1, {20, 3}, {0, 2}, {20, INFINITY}, {8.877421215, 2}, {0, -1}, 0.747642561911},
    {power, 2, {2, 1.5}, 0.2, {1, 0}, {0, 0}, {INFINITY, 1}, {4.16450137, 1}, {0, 1}, 113.464473374},
    {power, 2, {2, 1.5}, 0.2, {2.5, 2}, {2.5, 0}, {INFINITY, 2}, {2.5, 1.355160335}, {-1, 0}, 8.41326230009},
    {cubic,
     4,
     {1, -2, 0.5, 0.1},
     0.3,
     {0, 0, 0, 0},
     {0, 0, 0, 0},
     {INFINITY, INFINITY, INFINITY, INFINITY},
     {0, 0, 0, 0.1161306209},
     {-1, -1, -1, 0},
     18.4560447954},
    {cubic,
     4,
     {1, -2, 0.5, 0.1},
     0.3,
     {0, 0, 0, 0},
     {-INFINITY, -1, -INFINITY, -INFINITY},
     {0.5, INFINITY, INFINITY, 0.05},
     {-0.185863737, -1, 0.5263545022, 0.05},
     {0, -1, 0, 1},
     12.643336855},
    {cubic,
     4,
     {1, -2, 0.5, 0.1},
     0.3,
     {1, 1, 1, 1},
     {-1, -1, -1, -1},
     {1, 1, 1, 1},
     {0.6310091106, -1, -0.005935646798, 0.1665375667},
     {0, -1, 0, 0},
     2.10400835229},
    {wave,
     3,
     {3, 1.2, 0.4},
     0.1,
     {2.5, 1, 0},
     {0, 0, 0},
     {2.5, 2, 1},
     {2.5, 1.1573531, 0.5107569102},
     {1, 0, 0},
     3.28786802282},
    {wave,
     3,
     {3, 1.2, 0.4},
     0.1,
     {2, 1.1, 0.5},
     {0, 1, 0.5},
     {INFINITY, 2, 1},
     {2.983448786, 1.170040662, 0.5},
     {0, 0, -1},
     0.23353522143},
};

static void check_row(gd_ctx *ctx, int k, int64_t *evals)
{
    const row *w = &rows[k];
    problem q;
    open_problem(ctx, &q, w->model, w->n, w->truth, w->noise, w->start);
    gd_lsq_options o = gd_lsq_defaults();
    o.low = w->low;
    o.high = w->high;
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, w->n, residuals, &q, &o, &r), GD_OK);
    assert_no_error(ctx);
    int64_t free = 0;
    for (int64_t i = 0; i < w->n; i++) {
        double got = gd_item(q.p[i]);
        int active = (int)gd_at(r.active, &i);
        if (active != w->active[i] || !(fabs(got - w->want[i]) <= 2e-6 * (1 + fabs(w->want[i]))))
            fail_msg("problem %d: parameter %d is %.10g (%d), want %.10g (%d)", k, (int)i, got, active,
                     w->want[i], w->active[i]);
        if (active) assert_true(got == (active < 0 ? w->low[i] : w->high[i]));
        assert_int_equal(isnan(gd_at(r.standard_errors, &i)), active != 0);
        free += active == 0;
    }
    if (!r.solve.converged || !(fabs(r.rss - w->rss) <= 1e-8 * w->rss))
        fail_msg("problem %d: rss %.12g, want %.12g, %s", k, r.rss, w->rss, gd_stop_name(r.solve.reason));
    assert_int_equal(r.free, free);
    assert_int_equal(r.dof, ROWS - free);
    assert_true(fabs(r.sigma - sqrt(w->rss / (double)r.dof)) <= 1e-6 * r.sigma);
    *evals += r.solve.evals;
    gd_lsq_result_clear(&r);
}

static void bounded_problems_end_where_scipy_does(void **state)
{
    (void)state;
    int64_t evals = 0;
    for (int k = 0; k < COUNT_OF(rows); k++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        check_row(ctx, k, &evals);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
    print_message("%d bounded problems, %lld evaluations\n", COUNT_OF(rows), (long long)evals);
    assert_true(evals <= 450); /* SciPy: 519 */
}

/* One exponential under two that may not be negative: any share of them is as good, at b = d or with one of them 0. */
static void two_parameters_for_one_are_undetermined_inside_bounds(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q;
    open_problem(ctx, &q, two, 4, (double[]){4, 0.3, -2, 3}, 0.05, (double[]){1, 0.5, 1, 2});
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){0, 0, 0, 0};
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 4, residuals, &q, &o, &r), GD_OK);
    assert_true(fabs(r.rss - 2.13256495608) < 1e-8);
    assert_int_equal(r.solve.reason, GD_STOP_UNDETERMINED);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- starts ---- */

/* Every corner of a box is a start, and so is a hair's breadth inside it. */
static void every_corner_is_a_start(void **state)
{
    (void)state;
    const double low[] = {0, 0, 0}, high[] = {10, 4, 3}, want[] = {5.078497406, 0.5095146673, 0.9900931763};
    for (int corner = 0; corner < 16; corner++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        double start[3], by = corner >= 8 ? 1e-12 : 0;
        for (int i = 0; i < 3; i++) start[i] = corner >> i & 1 ? high[i] - by : low[i] + by;
        problem q;
        open_problem(ctx, &q, decay, 3, (double[]){5, 0.5, 1}, 0.1, start);
        gd_lsq_options o = gd_lsq_defaults();
        o.low = low;
        o.high = high;
        gd_lsq_result r;
        assert_int_equal(gd_least_squares(q.p, 3, residuals, &q, &o, &r), GD_OK);
        for (int i = 0; i < 3; i++)
            if (!r.solve.converged || fabs(gd_item(q.p[i]) - want[i]) > 1e-6)
                fail_msg("corner %d: %.9g, want %.9g, %s", corner, gd_item(q.p[i]), want[i],
                         gd_stop_name(r.solve.reason));
        gd_lsq_result_clear(&r);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

static gd_tensor *logarithm(gd_tensor *const *p, gd_tensor *t)
{
    return gd_add(p[0], gd_log(gd_add(p[1], t)));
}

/* On the bound the model is minus infinity: the start is moved off it. */
static void a_model_that_is_not_finite_on_its_bound_is_fitted_inside(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q;
    open_problem(ctx, &q, logarithm, 2, (double[]){1, 0.5}, 0, (double[]){0, 0});
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){-INFINITY, 0};
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_OK);
    assert_true(r.solve.converged);
    assert_true(fabs(gd_item(q.p[1]) - 0.5) < 1e-9);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void a_start_outside_begins_on_its_bound_and_equal_bounds_hold(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q;
    open_problem(ctx, &q, line, 2, (double[]){1, 2}, 0.1, (double[]){7, -3});
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){1.25, -INFINITY};
    o.high = (double[]){1.25, INFINITY};
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_OK);
    assert_true(gd_item(q.p[0]) == 1.25);
    assert_int_equal(r.free, 1);
    assert_int_equal(r.dof, ROWS - 1);
    gd_lsq_result_clear(&r);
    o.high = (double[]){1, INFINITY};
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: element 0: no number is between 1.25 and 1");
    o.high = (double[]){NAN, INFINITY};
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_ARGUMENT);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* 0.1 is no f32: the bound is rounded, and the parameter is on it */
static void a_bound_is_rounded_to_the_dtype_of_its_parameter(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q;
    open_problem(ctx, &q, line, 2, (double[]){1, 2}, 0.1, (double[]){0, 0});
    for (int i = 0; i < 2; i++) q.p[i] = gd_require_grad(gd_scalar(ctx, GD_F32, 0));
    q.t = gd_cast(q.t, GD_F32);
    q.y = gd_cast(q.y, GD_F32);
    gd_lsq_options o = gd_lsq_defaults();
    o.high = (double[]){0.1, INFINITY};
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_OK);
    assert_true(gd_item(q.p[0]) == (double)0.1f);
    assert_true(gd_at(r.active, (int64_t[]){0}) == 1);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- what is active ---- */

/* The best line goes through the bound itself: on it, but nothing pushes. */
static void a_parameter_on_a_bound_without_a_multiplier_is_free(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const double t[] = {-2, -1, 0, 1, 2}, y[] = {1.25, 0.75, 1, 1.25, 0.75};
    problem q = {.model = line};
    q.t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, t);
    q.y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, y);
    for (int i = 0; i < 2; i++) q.p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, 0));
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){1, -INFINITY}; /* the mean of y is 1 */
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_OK);
    assert_true(fabs(gd_item(q.p[0]) - 1) < 1e-15);
    assert_int_equal(r.free, 2);
    assert_true(isfinite(gd_at(r.standard_errors, (int64_t[]){0})));
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- statistics, in closed form for a line y = a + b t with a held at its bound ---- */

static void the_spread_at_an_active_bound_is_that_of_the_others(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q;
    open_problem(ctx, &q, line, 2, (double[]){1, 2}, 0.1, (double[]){3, 0});
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){1.5, -INFINITY};
    o.weightless = 3;
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 2, residuals, &q, &o, &r), GD_OK);
    double tt = 0, t1 = 0, ty = 0, rss = 0, y[ROWS];
    assert_int_equal(gd_read_f64(q.y, y, ROWS), GD_OK);
    for (int i = 0; i < ROWS; i++) tt += 0.04 * i * i, t1 += 0.2 * i, ty += 0.2 * i * (y[i] - 1.5);
    double b = ty / tt;
    for (int i = 0; i < ROWS; i++) rss += pow(1.5 + b * 0.2 * i - y[i], 2);
    double s2 = rss / (ROWS - 3 - 1);
    assert_true(fabs(gd_item(q.p[1]) - b) < 1e-12);
    assert_int_equal(r.dof, ROWS - 3 - 1);
    assert_values_near(r.covariance, 1e-14, 0, 0, 0, s2 / tt);
    assert_true(fabs(gd_at(r.standard_errors, (int64_t[]){1}) - sqrt(s2 / tt)) < 1e-12);
    /* rss(a) less its least is k (a - a0)^2, with k the Schur complement; above 1.5 it has risen by t^2 s^2 at `end` */
    double k = ROWS - t1 * t1 / tt, sum = 0, product = 0;
    for (int i = 0; i < ROWS; i++) sum += y[i], product += 0.2 * i * y[i];
    double a0 = (sum - t1 * product / tt) / k, t = 2.2, ends[2];
    double end = a0 + sqrt((1.5 - a0) * (1.5 - a0) + t * t * s2 / k);
    bool better = true;
    assert_int_equal(gd_lsq_profile(q.p, 2, residuals, &q, &o, &r, 0, t, ends, &better), GD_OK);
    assert_false(better);
    assert_true(ends[0] == 1.5);
    if (fabs(ends[1] - end) > 1e-7) fail_msg("%.10g, want %.10g", ends[1], end);
    assert_true(gd_item(q.p[0]) == 1.5 && fabs(gd_item(q.p[1]) - b) < 1e-12);
    /* and that of the free slope is Student's, as far as a stays where it is */
    assert_int_equal(gd_lsq_profile(q.p, 2, residuals, &q, &o, &r, 1, 1e-3, ends, NULL), GD_OK);
    assert_true(fabs(ends[1] - b - 1e-3 * sqrt(s2 / tt)) < 1e-8);
    assert_int_equal(gd_lsq_profile(q.p, 2, residuals, &q, &o, &r, 2, t, ends, NULL), GD_INDEX);
    gd_clear_error(ctx);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* (x + 1/2)(3 - x), whose square rises from the bound x = 0 and has a zero at 3 */
static gd_tensor *two_wells(gd_tensor *const *p, gd_tensor *t)
{
    gd_tensor *x = p[0];
    gd_tensor *well = gd_mul(gd_add_scalar(x, 0.5), gd_add_scalar(gd_neg(x), 3));
    return gd_mul(well, gd_add_scalar(gd_mul_scalar(t, 0), 1));
}

static void a_profile_that_finds_a_lower_point_says_so(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    problem q = {.model = two_wells};
    double t[5] = {0, 1, 2, 3, 4}, y[5] = {0.5, -0.5, 0.4, -0.4, 0};
    q.t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, t);
    q.y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){5}, y);
    q.p[0] = gd_require_grad(gd_scalar(ctx, GD_F64, 0));
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (double[]){0};
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q.p, 1, residuals, &q, &o, &r), GD_OK);
    assert_true(gd_item(q.p[0]) == 0 && gd_at(r.active, (int64_t[]){0}) == -1);
    double ends[2];
    bool better = false;
    assert_int_equal(gd_lsq_profile(q.p, 1, residuals, &q, &o, &r, 0, 6, ends, &better), GD_OK);
    assert_true(better);
    gd_lsq_result_clear(&r);
    assert_int_equal(gd_least_squares(q.p, 1, residuals, &q, &o, &r), GD_OK);
    assert_true(fabs(gd_item(q.p[0]) - 3) < 1e-9);
    gd_lsq_result_clear(&r);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- failures ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool done = false;
    for (int64_t k = 1; !done; k++) {
        memory counted = {0};
        gd_ctx *ctx = context(&counted, 1, NULL);
        gd_scope_begin(ctx);
        problem q;
        open_problem(ctx, &q, line, 2, (double[]){1, 2}, 0.1, (double[]){3, 0});
        counted.fail_at = counted.requests + (k < 300 ? k : k * k / 300);
        gd_lsq_options o = gd_lsq_defaults();
        o.low = (double[]){1.5, 0};
        gd_lsq_result r;
        double ends[2];
        gd_status status = gd_least_squares(q.p, 2, residuals, &q, &o, &r);
        if (!status) status = gd_lsq_profile(q.p, 2, residuals, &q, &o, &r, 0, 2, ends, NULL);
        done = !counted.failed;
        if (done) assert_int_equal(status, GD_OK);
        if (status) assert_int_equal(status, GD_NOMEM);
        counted.fail_at = 0;
        gd_lsq_result_clear(&r);
        gd_clear_error(ctx);
        gd_scope_end(ctx);
        end_context(ctx, &counted);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounded_problems_end_where_scipy_does),
        cmocka_unit_test(two_parameters_for_one_are_undetermined_inside_bounds),
        cmocka_unit_test(every_corner_is_a_start),
        cmocka_unit_test(a_model_that_is_not_finite_on_its_bound_is_fitted_inside),
        cmocka_unit_test(a_start_outside_begins_on_its_bound_and_equal_bounds_hold),
        cmocka_unit_test(a_bound_is_rounded_to_the_dtype_of_its_parameter),
        cmocka_unit_test(a_parameter_on_a_bound_without_a_multiplier_is_free),
        cmocka_unit_test(the_spread_at_an_active_bound_is_that_of_the_others),
        cmocka_unit_test(a_profile_that_finds_a_lower_point_says_so),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
