/* Orthogonal distance regression: published answers (York 1966; the examples of ODRPACK), recorded ones of scipy.odr, and an ellipse
 * whose points were fitted together with it; derivatives against differences; mistakes. */
#include "gradus/autograd.h"
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define MOST 5

typedef struct problem {
    gd_ctx *ctx;
    gd_tensor *p[MOST], *x[2], *sigma[2], *y, *weight; /* weight: one over the standard deviation of y */
    int params, columns;
    bool implicit;
    gd_tensor *(*model)(gd_tensor *const *p, gd_tensor *const *x);
} problem;

static gd_tensor *equation(void *user, gd_tensor *const *x)
{
    const problem *q = user;
    gd_tensor *f = q->model(q->p, x);
    return q->implicit ? f : gd_mul(gd_sub(f, q->y), q->weight);
}

static gd_tensor *distances(void *user)
{
    problem *q = user;
    return gd_distances(&(gd_distance){.equation = equation,
                                       .user = q,
                                       .x = q->x,
                                       .sigma = q->sigma,
                                       .count = q->columns,
                                       .implicit = q->implicit});
}

static gd_tensor *vector(gd_ctx *ctx, const double *v, int64_t rows)
{
    return gd_from_f64(ctx, GD_F64, 1, &rows, v);
}

static problem open_problem(memory *m, gd_tensor *(*model)(gd_tensor *const *, gd_tensor *const *),
                            const double *start, int params)
{
    problem q = {.ctx = context(m, 1, NULL), .params = params, .model = model};
    gd_scope_begin(q.ctx);
    for (int i = 0; i < params; i++) q.p[i] = gd_require_grad(gd_scalar(q.ctx, GD_F64, start[i]));
    q.weight = gd_scalar(q.ctx, GD_F64, 1);
    return q;
}

static void add_column(problem *q, const double *x, int64_t rows, const double *sigma, int64_t sigmas)
{
    q->x[q->columns] = vector(q->ctx, x, rows);
    q->sigma[q->columns++] = vector(q->ctx, sigma, sigmas);
}

static void close_problem(problem *q, memory *m)
{
    gd_scope_end(q->ctx);
    end_context(q->ctx, m);
}

static void near(const char *what, double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%s is %.15g, want %.15g", what, value, want);
}

static void check_fit(problem *q, const double *value, const double *error, double rss, double tolerance)
{
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(q->p, q->params, distances, q, NULL, &r), GD_OK);
    if (!r.solve.converged) fail_msg("%s", gd_stop_text(r.solve.reason));
    for (int i = 0; i < q->params; i++) {
        near("a parameter", gd_item(q->p[i]), value[i], tolerance);
        near("a standard error", ((const double *)gd_data(r.standard_errors))[i], error[i], 100 * tolerance);
    }
    near("the sum of squares", r.rss, rss, tolerance);
    gd_lsq_result_clear(&r);
}

/* ---- errors in x and y ---- */

static const double york_x[] = {0, .9, 1.8, 2.6, 3.3, 4.4, 5.2, 6.1, 6.5, 7.4},
                    york_y[] = {5.9, 5.4, 4.4, 4.6, 3.5, 3.7, 2.8, 2.8, 2.4, 1.5},
                    york_wx[] = {1000, 1000, 500, 800, 200, 80, 60, 20, 1.8, 1},
                    york_wy[] = {1, 1.8, 4, 8, 20, 20, 70, 70, 100, 500};

static gd_tensor *line(gd_tensor *const *p, gd_tensor *const *x) { return gd_add(p[0], gd_mul(p[1], x[0])); }

static problem open_york(memory *m)
{
    double sigma[10], weight[10];
    for (int i = 0; i < 10; i++) sigma[i] = 1 / sqrt(york_wx[i]), weight[i] = sqrt(york_wy[i]);
    problem q = open_problem(m, line, (double[]){5, -0.5}, 2);
    add_column(&q, york_x, 10, sigma, 10);
    q.y = vector(q.ctx, york_y, 10);
    q.weight = vector(q.ctx, weight, 10);
    return q;
}

/* Pearson's data with York's weights: 5.47991022 and -0.480533407 in print, errors of scipy.odr. */
static void a_line_through_weighted_points_is_yorks(void **state)
{
    (void)state;
    problem q = open_york(NULL);
    check_fit(&q, (double[]){5.47991022403, -0.480533407446}, (double[]){0.35924652216, 0.07062026942},
              11.8663531941, 2e-9);
    close_problem(&q, NULL);
}

static gd_tensor *exponential(gd_tensor *const *p, gd_tensor *const *x)
{
    gd_tensor *fall = gd_add_scalar(gd_exp(gd_mul(p[2], x[0])), -1);
    return gd_add(p[0], gd_mul(p[1], gd_square(fall)));
}

/* The first example of ODRPACK, whose first two and last x are exact. */
static void exact_points_among_others_stay_where_they_are(void **state)
{
    (void)state;
    static const double x[] = {0, 0, 5, 7, 7.5, 10, 16, 26, 30, 34, 34.5, 100},
                        y[] = {1265, 1263.6, 1258,   1254,   1253,   1249.8,
                               1237, 1218,   1220.6, 1213.8, 1215.5, 1212},
                        sigma[] = {0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0};
    problem q = open_problem(NULL, exponential, (double[]){1500, -50, -0.1}, 3);
    add_column(&q, x, 12, sigma, 12);
    q.y = vector(q.ctx, y, 12);
    check_fit(&q, (double[]){1264.65481054562, -54.0183866312821, -0.0878498529171550},
              (double[]){1.03492723654735, 1.58399670352372, 0.00633221920373544}, 21.4455016594011, 1e-6);
    close_problem(&q, NULL);
}

static gd_tensor *surface(gd_tensor *const *p, gd_tensor *const *x)
{
    gd_tensor *fall = gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], x[0]))));
    return gd_add(gd_add(fall, gd_mul(p[2], gd_square(x[1]))), p[3]);
}

static problem open_surface(memory *m)
{
    static const double a[] = {-0.033, 0.116, 0.333, 0.408, 0.418, 0.625, 0.719, 0.882, 0.92,
                               1.137,  1.262, 1.454, 1.516, 1.651, 1.675, 1.988, 1.904, 2.18,
                               2.234,  2.331, 2.467, 2.591, 2.769, 2.869, 3.074},
                        b[] = {0.945,  0.54,   -0.443, -0.967, -0.717, 0.273,  0.966,  0.709,  -0.116,
                               -0.906, -0.809, 0.033,  0.814,  0.884,  0.131,  -0.737, -0.932, -0.296,
                               0.642,  0.965,  0.391,  -0.555, -1.004, -0.471, 0.409},
                        z[] = {3.788, 2.589, 2.201, 3.294, 2.351, 1.743, 2.813, 2.291, 1.311,
                               2.462, 2.224, 1.09,  2.11,  2.183, 0.915, 1.717, 2.129, 0.914,
                               1.337, 2.095, 0.98,  1.063, 2.044, 1.067, 0.802};
    problem q = open_problem(m, surface, (double[]){2, 0.7, 1.5, 0.3}, 4);
    add_column(&q, a, 25, (double[]){0.05}, 1);
    add_column(&q, b, 25, (double[]){0.03}, 1);
    q.y = vector(q.ctx, z, 25);
    q.weight = gd_scalar(q.ctx, GD_F64, 25);
    return q;
}

static void two_columns_with_errors_agree_with_scipy(void **state)
{
    (void)state;
    problem q = open_surface(NULL);
    check_fit(&q, (double[]){1.914174825, 0.7377058044, 1.5282212997, 0.3840776344},
              (double[]){0.0796900422, 0.0954633662, 0.0524360917, 0.0941407139}, 26.64452666128, 1e-6);
    close_problem(&q, NULL);
}

/* Without errors in x it is the ordinary fit, bit for bit of its residuals. */
static void exact_columns_leave_the_residuals_as_they_are(void **state)
{
    (void)state;
    problem q = open_york(NULL);
    q.sigma[0] = gd_scalar(q.ctx, GD_F64, 0);
    gd_tensor *d = distances(&q), *r = equation(&q, q.x);
    assert_memory_equal(gd_data(d), gd_data(r), 10 * sizeof(double));
    close_problem(&q, NULL);
}

/* ---- implicit ---- */

static gd_tensor *ellipse(gd_tensor *const *p, gd_tensor *const *x)
{
    gd_tensor *a = gd_sub(x[0], p[0]), *b = gd_sub(x[1], p[1]);
    gd_tensor *sum = gd_add(gd_mul(p[2], gd_square(a)), gd_mul(gd_mul_scalar(p[3], 2), gd_mul(a, b)));
    return gd_add_scalar(gd_add(sum, gd_mul(p[4], gd_square(b))), -1);
}

static problem open_ellipse(memory *m)
{
    static const double x[] = {0.5,  1.2, 1.6,   1.86,  2.12,  2.36, 2.44, 2.36,  2.06,  1.74,
                               1.34, 0.9, -0.28, -0.78, -1.36, -1.9, -2.5, -2.88, -3.18, -3.44},
                        y[] = {-0.12, -0.6,  -1,    -1.4,  -2.54, -3.36, -4,    -4.75, -5.25, -5.64,
                               -5.97, -6.32, -6.44, -6.44, -6.41, -6.25, -5.88, -5.5,  -5.24, -4.86};
    problem q = open_problem(m, ellipse, (double[]){-1, -3, 0.09, 0.02, 0.08}, 5);
    add_column(&q, x, 20, (double[]){1}, 1);
    add_column(&q, y, 20, (double[]){1}, 1);
    q.implicit = true;
    return q;
}

/* The implicit example of ODRPACK (-0.999381, -2.93105, 0.0875730, 0.0162300, 0.0797538 in print); more digits by fitting ellipse and
 * points together with scipy.optimize.least_squares. */
static void an_ellipse_through_points_is_odrpacks(void **state)
{
    (void)state;
    problem q = open_ellipse(NULL);
    check_fit(&q,
              (double[]){-0.9993801652440636, -2.931049286090999, 0.08757306942314363, 0.01622995594625817,
                         0.07975382908555152},
              (double[]){0.11138567025631887, 0.10976889083817604, 0.004106134400327882, 0.002750077100317404,
                         0.003496299430044719},
              0.08824708868838108, 1e-7);
    close_problem(&q, NULL);
}

static gd_tensor *circle(gd_tensor *const *p, gd_tensor *const *x)
{
    return gd_sub(gd_add(gd_square(x[0]), gd_square(x[1])), gd_square(p[0]));
}

/* Distances from a circle are what they are, inside and outside, near and far; the centre has none. */
static void distances_from_a_circle_are_those_of_geometry(void **state)
{
    (void)state;
    static const double x[] = {3, 0.1, 0, 1e3, -1, 0}, y[] = {4, 0, -2, 1e3, 1e-3, 0};
    problem q = open_problem(NULL, circle, (double[]){2}, 1);
    add_column(&q, x, 6, (double[]){1}, 1);
    add_column(&q, y, 6, (double[]){1}, 1);
    q.implicit = true;
    gd_tensor *d = distances(&q);
    const double *v = gd_data(d);
    for (int i = 0; i < 5; i++) near("a distance", 10 + v[i], 10 + hypot(x[i], y[i]) - 2, 1e-12);
    assert_true(isnan(v[5]));
    close_problem(&q, NULL);
}

/* ---- derivatives ---- */

static double squares(problem *q)
{
    gd_scope_begin(q->ctx);
    gd_no_grad_begin(q->ctx);
    gd_tensor *r = distances(q);
    double out = gd_item(gd_sum(gd_square(r), NULL, false));
    assert_false(gd_requires_grad(r));
    gd_no_grad_end(q->ctx);
    gd_scope_end(q->ctx);
    return out;
}

/* Moves two parameters, then puts them back. */
static double squares_at(problem *q, int i, double h, int j, double k)
{
    double *a = gd_data_mut(q->p[i]), *b = gd_data_mut(q->p[j]), x = *a, y = *b;
    *a += h;
    *b += k;
    double out = squares(q);
    *b = y;
    *a = x;
    return out;
}

/* Gradient and Hessian of the sum of squares, away from its minimum, against differences. */
static void check_derivatives(problem *q)
{
    gd_tensor *grad[MOST], *row[MOST];
    double slope[MOST], curve[MOST][MOST];
    gd_tensor *sum = gd_sum(gd_square(distances(q)), NULL, false);
    assert_int_equal(gd_grad(sum, NULL, q->p, q->params, GD_CREATE_GRAPH, grad), GD_OK);
    for (int i = 0; i < q->params; i++) {
        slope[i] = gd_item(grad[i]);
        assert_int_equal(gd_grad(grad[i], NULL, q->p, q->params, GD_RETAIN_GRAPH, row), GD_OK);
        for (int j = 0; j < q->params; j++) curve[i][j] = gd_item(row[j]);
    }
    for (int i = 0; i < q->params; i++) {
        double x = gd_item(q->p[i]), h = 1e-5 * fabs(x);
        double want = (squares_at(q, i, h, i, 0) - squares_at(q, i, -h, i, 0)) / (2 * h);
        near("a derivative", 1e2 + slope[i], 1e2 + want, 1e-6);
        for (int j = 0; j < q->params; j++) {
            double s = 1e-3 * fabs(x), t = 1e-3 * fabs(gd_item(q->p[j]));
            want = squares_at(q, i, s, j, t) - squares_at(q, i, -s, j, t) - squares_at(q, i, s, j, -t) +
                   squares_at(q, i, -s, j, -t);
            want /= 4 * s * t;
            near("a second derivative", curve[i][j], want, 1e-4 + 1e-2 / fabs(want));
        }
    }
}

static void derivatives_to_second_order_are_exact(void **state)
{
    (void)state;
    problem (*const open[])(memory *) = {open_york, open_surface, open_ellipse};
    for (int i = 0; i < 3; i++) {
        problem q = open[i](NULL);
        check_derivatives(&q);
        close_problem(&q, NULL);
    }
}

/* ---- rows, mistakes, memory ---- */

static gd_tensor *scalar_equation(void *user, gd_tensor *const *x)
{
    (void)user;
    return gd_sum(x[0], NULL, false);
}

static gd_tensor *no_equation(void *user, gd_tensor *const *x)
{
    (void)user, (void)x;
    return NULL;
}

static void mistakes_are_named(void **state)
{
    (void)state;
    problem q = open_york(NULL);
    gd_distance d = {.equation = scalar_equation, .x = q.x, .sigma = q.sigma, .count = 1};
    assert_null(gd_distances(&d));
    assert_error(q.ctx, GD_SHAPE, "distances: the equation must give one f64 number for each of 10 rows");
    d.equation = no_equation;
    assert_null(gd_distances(&d));
    assert_error(q.ctx, GD_CALLBACK, "distances: the equation returned NULL");
    d.count = 9;
    assert_null(gd_distances(&d));
    assert_error(q.ctx, GD_ARGUMENT, "distances: 9 columns, there may be 1 to 8");
    q.sigma[0] = vector(q.ctx, york_x, 3);
    d.count = 1;
    assert_null(gd_distances(&d));
    assert_error(q.ctx, GD_SHAPE,
                 "distances: column 0: its standard deviations are not one f64 number per row");
    d.x = NULL;
    assert_null(gd_distances(&d));
    assert_null(gd_distances(NULL));
    close_problem(&q, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t k = 1; failed; k += k < 60 ? 1 : 1999) {
        memory m = {0};
        problem q = open_ellipse(&m);
        m.fail_at = m.requests + k;
        gd_lsq_result r;
        gd_status status = gd_least_squares(q.p, q.params, distances, &q, NULL, &r);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_lsq_result_clear(&r);
        gd_clear_error(q.ctx);
        close_problem(&q, &m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_through_weighted_points_is_yorks),
        cmocka_unit_test(exact_points_among_others_stay_where_they_are),
        cmocka_unit_test(two_columns_with_errors_agree_with_scipy),
        cmocka_unit_test(exact_columns_leave_the_residuals_as_they_are),
        cmocka_unit_test(an_ellipse_through_points_is_odrpacks),
        cmocka_unit_test(distances_from_a_circle_are_those_of_geometry),
        cmocka_unit_test(derivatives_to_second_order_are_exact),
        cmocka_unit_test(mistakes_are_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
