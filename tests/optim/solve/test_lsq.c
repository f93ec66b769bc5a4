/* gd_lsq_solve: certified numbers, dense beside sparse beside operators, bounds, losses, errors, what is not determined, what fails. */
#include "gradus/lsq.h"
#include "support/own_context.h"

#include <math.h>

#define NEAR(a, b, tolerance) near_at(a, b, tolerance, __LINE__)

static void near_at(double a, double b, double tolerance, int line)
{
    if (fabs(a - b) <= tolerance * (1 + fabs(b))) return;
    fail_msg("line %d: %.17g is not %.17g within %g", line, a, b, tolerance);
}

static double element(const gd_tensor *t, int64_t i) { return ((const double *)gd_data(t))[i]; }

/* ---- dense ---- */

static const double misra_x[] = {77.6,  114.9, 141.1, 190.8, 239.9, 289.0, 332.8,
                                 378.4, 434.8, 477.3, 536.8, 593.1, 689.1, 760.0};
static const double misra_y[] = {10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02,
                                 44.82, 50.76, 55.05, 61.01, 66.40, 75.47, 81.78};

static gd_status misra(void *user, const double *x, double *r)
{
    (void)user;
    for (int i = 0; i < 14; i++) r[i] = x[0] * (1 - exp(-x[1] * misra_x[i])) - misra_y[i];
    return GD_OK;
}

static gd_status misra_jacobian(void *user, const double *x, double *j)
{
    (void)user;
    for (int i = 0; i < 14; i++) {
        double e = exp(-x[1] * misra_x[i]);
        j[2 * i] = 1 - e;
        j[2 * i + 1] = x[0] * misra_x[i] * e;
    }
    return GD_OK;
}

/* NIST, Misra1a. */
static void certified_numbers_are_reached_with_and_without_a_jacobian(void **state)
{
    (void)state;
    for (int given = 0; given < 2; given++) {
        double x[] = {500, 0.0001};
        gd_lsq_problem p = {
            .residuals = 14, .params = 2, .residual = misra, .jacobian = given ? misra_jacobian : NULL};
        gd_lsq_result fit;
        assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, &fit), GD_OK);
        double tolerance = given ? 1e-9 : 1e-6;
        assert_true(fit.solve.converged);
        NEAR(x[0] / 2.3894212918e2, 1, tolerance);
        NEAR(x[1] / 5.5015643181e-4, 1, tolerance);
        NEAR(fit.rss / 1.2455138894e-1, 1, tolerance);
        NEAR(element(fit.standard_errors, 0) / 2.7070075241, 1, tolerance);
        NEAR(element(fit.standard_errors, 1) / 7.2668688436e-6, 1, tolerance);
        assert_int_equal(fit.dof, 12);
        assert_int_equal(fit.rank, 2);
        gd_lsq_result_clear(&fit);
    }
}

/* ---- sparse: y_k = a_i exp(b_j t_k) in rows of two parameters ---- */

#define COLUMNS 12
#define ROWS    60

typedef struct pairs {
    int64_t start[ROWS + 1], column[2 * ROWS];
    double y[ROWS];
    gd_tensor *x;
} pairs;

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24) - 0.5;
}

static void make_pairs(pairs *p)
{
    uint32_t seed = 7;
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t a = i % COLUMNS, b = (i * 5 + i / COLUMNS + 1) % COLUMNS;
        if (a == b) b = (b + 1) % COLUMNS;
        p->start[i + 1] = 2 * (i + 1);
        p->column[2 * i] = a < b ? a : b;
        p->column[2 * i + 1] = a < b ? b : a;
        p->y[i] = sin((double)p->column[2 * i]) * exp(0.1 * (double)p->column[2 * i + 1]) +
                  (double)(1 + i % 4) * noise(&seed);
    }
    p->start[0] = 0;
}

static gd_status pair_residuals(void *user, const double *x, double *r)
{
    const pairs *p = user;
    for (int64_t i = 0; i < ROWS; i++)
        r[i] = x[p->column[2 * i]] + exp(0.2 * x[p->column[2 * i + 1]]) - p->y[i];
    return GD_OK;
}

static gd_status pair_values(void *user, const double *x, double *j)
{
    const pairs *p = user;
    for (int64_t i = 0; i < ROWS; i++) {
        j[2 * i] = 1;
        j[2 * i + 1] = 0.2 * exp(0.2 * x[p->column[2 * i + 1]]);
    }
    return GD_OK;
}

static gd_status pair_matrix(void *user, const double *x, double *j)
{
    const pairs *p = user;
    double value[2 * ROWS];
    pair_values(user, x, value);
    memset(j, 0, ROWS * COLUMNS * sizeof *j);
    for (int64_t e = 0; e < 2 * ROWS; e++) j[e / 2 * COLUMNS + p->column[e]] = value[e];
    return GD_OK;
}

static gd_tensor *pair_operators(void *user)
{
    pairs *p = user;
    int64_t first[ROWS], second[ROWS], rows = ROWS;
    for (int i = 0; i < ROWS; i++) first[i] = p->column[2 * i], second[i] = p->column[2 * i + 1];
    gd_tensor *a = gd_index_select(p->x, "0", gd_from_data(ctx, GD_I64, 1, &rows, first));
    gd_tensor *b = gd_index_select(p->x, "0", gd_from_data(ctx, GD_I64, 1, &rows, second));
    return gd_sub(gd_add(a, gd_exp(gd_mul_scalar(b, 0.2))), gd_from_f64(ctx, GD_F64, 1, &rows, p->y));
}

/* With operators, with dense and sparse callbacks, and by differences in groups: the same fit. */
static void check_all_ways(const gd_lsq_options *options, double tolerance)
{
    pairs p;
    make_pairs(&p);
    gd_lsq_problem ways[] = {{.residuals = ROWS,
                              .params = COLUMNS,
                              .user = &p,
                              .residual = pair_residuals,
                              .jacobian = pair_matrix},
                             {.residuals = ROWS,
                              .params = COLUMNS,
                              .user = &p,
                              .residual = pair_residuals,
                              .jacobian = pair_values,
                              .row_start = p.start,
                              .column = p.column},
                             {.residuals = ROWS,
                              .params = COLUMNS,
                              .user = &p,
                              .residual = pair_residuals,
                              .row_start = p.start,
                              .column = p.column}};
    gd_lsq_result want, fit;
    p.x = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){COLUMNS}));
    assert_int_equal(gd_least_squares(&p.x, 1, pair_operators, &p, options, &want), GD_OK);
    assert_true(want.solve.converged);
    for (int way = 0; way < 3; way++) {
        double x[COLUMNS];
        for (int i = 0; i < COLUMNS; i++) x[i] = 1;
        assert_int_equal(gd_lsq_solve(ctx, &ways[way], x, options, &fit), GD_OK);
        assert_true(fit.solve.converged);
        double near = way == 2 ? fmax(tolerance, 1e-5) : tolerance, spread = 100 * near;
        for (int i = 0; i < COLUMNS; i++) NEAR(x[i], element(p.x, i), near);
        NEAR(fit.rss, want.rss, near);
        NEAR(fit.solve.loss, want.solve.loss, near);
        assert_int_equal(fit.dof, want.dof);
        assert_int_equal(fit.rank, want.rank);
        if (want.covariance) assert_int_equal(gd_numel(fit.covariance), gd_numel(want.covariance));
        for (int64_t i = 0; want.covariance && i < gd_numel(want.covariance); i++)
            NEAR(element(fit.covariance, i), element(want.covariance, i), spread);
        for (int64_t i = 0; i < COLUMNS; i++) {
            double e = want.standard_errors ? element(want.standard_errors, i) : 0;
            if (isnan(e) && want.standard_errors)
                assert_true(isnan(element(fit.standard_errors, i)));
            else if (want.standard_errors && (!options->chosen || way == 0))
                NEAR(element(fit.standard_errors, i), e, spread);
            assert_int_equal(((const int32_t *)gd_data(fit.active))[i],
                             ((const int32_t *)gd_data(want.active))[i]);
        }
        gd_lsq_result_clear(&fit);
    }
    gd_lsq_result_clear(&want);
}

static void every_way_is_the_same_fit(void **state)
{
    (void)state;
    gd_lsq_options o = gd_lsq_defaults();
    check_all_ways(&o, 1e-9);
    o.sigma = 0.25;
    check_all_ways(&o, 1e-9);
}

static void every_way_is_the_same_fit_inside_bounds(void **state)
{
    (void)state;
    double low[COLUMNS], high[COLUMNS];
    gd_lsq_options o = gd_lsq_defaults();
    for (int i = 0; i < COLUMNS; i++) low[i] = -0.5, high[i] = i == 3 ? -0.5 : 0.9;
    o.low = low, o.high = high;
    check_all_ways(&o, 1e-9);
}

static void every_way_has_the_same_robust_errors(void **state)
{
    (void)state;
    gd_lsq_options o = gd_lsq_defaults();
    o.errors = GD_LSQ_HC3;
    check_all_ways(&o, 1e-9);
}

static void covariance_of_chosen_elements_is_that_part_of_all(void **state)
{
    (void)state;
    gd_lsq_options o = gd_lsq_defaults();
    o.chosen = (const int64_t[]){7, 2, 11};
    o.chosen_count = 3;
    check_all_ways(&o, 1e-9);
    o.chosen = (const int64_t[]){12};
    o.chosen_count = 1;
    pairs p;
    make_pairs(&p);
    double x[COLUMNS] = {0};
    gd_lsq_problem problem = {.residuals = ROWS, .params = COLUMNS, .user = &p, .residual = pair_residuals};
    assert_int_equal(gd_lsq_solve(ctx, &problem, x, &o, NULL), GD_INDEX);
    assert_error(ctx, GD_INDEX, "least squares: chosen[0] is 12, there are elements 0 to 11");
}

static void other_losses_with_a_scale_are_the_same_fit(void **state)
{
    (void)state;
    for (int loss = GD_LSQ_HUBER; loss < GD_LSQ_LOSS_COUNT; loss++) {
        gd_lsq_options o = gd_lsq_defaults();
        o.loss = (gd_lsq_loss)loss;
        o.loss_scale = 0.8;
        o.covariance = false; /* it has second derivatives, which numbers have not */
        check_all_ways(&o, 1e-7);
    }
}

/* A line with outliers: the scale that is found is that of gd_least_squares. */
static double line_y[40];

static gd_status line(void *user, const double *x, double *r)
{
    (void)user;
    for (int i = 0; i < 40; i++) r[i] = x[0] + x[1] * i - line_y[i];
    return GD_OK;
}

static gd_tensor *line_operators(void *user)
{
    double t[40];
    int64_t rows = 40;
    for (int i = 0; i < 40; i++) t[i] = i;
    gd_tensor **x = user;
    return gd_sub(gd_add(x[0], gd_mul(x[1], gd_from_f64(ctx, GD_F64, 1, &rows, t))),
                  gd_from_f64(ctx, GD_F64, 1, &rows, line_y));
}

static void the_scale_of_a_loss_is_found(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (int i = 0; i < 40; i++) line_y[i] = 1 + 0.5 * i + noise(&seed) + (i % 9 == 4 ? 30 : 0);
    for (int loss = GD_LSQ_HUBER; loss < GD_LSQ_LOSS_COUNT; loss++) {
        gd_lsq_options o = gd_lsq_defaults();
        o.loss = (gd_lsq_loss)loss;
        gd_lsq_result fit, want;
        double x[] = {0, 0};
        gd_lsq_problem p = {.residuals = 40, .params = 2, .residual = line};
        assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
        gd_tensor *at[] = {gd_require_grad(gd_scalar(ctx, GD_F64, 0)),
                           gd_require_grad(gd_scalar(ctx, GD_F64, 0))};
        assert_int_equal(gd_least_squares(at, 2, line_operators, at, &o, &want), GD_OK);
        assert_true(fit.solve.converged);
        NEAR(fit.scale, want.scale, 0.02);
        NEAR(x[0], gd_item(at[0]), 0.02);
        NEAR(x[1], gd_item(at[1]), 0.005);
        for (int i = 0; i < 2; i++)
            NEAR(element(fit.standard_errors, i), element(want.standard_errors, i), 0.02);
        gd_lsq_result_clear(&fit);
        gd_lsq_result_clear(&want);
    }
}

/* A mean: HC3 is the sum of (r_i / (1 - 1/n))^2 / n^2. */
static gd_status mean(void *user, const double *x, double *r)
{
    const double *y = user;
    for (int i = 0; i < 5; i++) r[i] = x[0] - y[i];
    return GD_OK;
}

static void hc3_of_a_mean_is_its_closed_form(void **state)
{
    (void)state;
    double y[] = {1, 2, 4, 8, 16}, x[] = {0}, sum = 0;
    for (int i = 0; i < 5; i++) sum += pow((y[i] - 6.2) / 0.8, 2) / 25;
    gd_lsq_options o = gd_lsq_defaults();
    o.errors = GD_LSQ_HC3;
    gd_lsq_result fit;
    gd_lsq_problem p = {.residuals = 5, .params = 1, .residual = mean, .user = y};
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
    NEAR(x[0], 6.2, 1e-7); /* by differences */
    NEAR(element(fit.standard_errors, 0), sqrt(sum), 1e-6);
    gd_lsq_result_clear(&fit);
    o.sigma = 1;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: hc3 takes no sigma");
}

/* ---- large: differences of neighbours, and a few values ---- */

typedef struct chain {
    int64_t m, n, *start, *column;
} chain;

static chain make_chain(int64_t m, int64_t n, bool random)
{
    chain c = {.m = m, .n = n};
    uint32_t seed = 5;
    c.start = malloc(sizeof *c.start * (size_t)(m + 1));
    c.column = malloc(sizeof *c.column * 2 * (size_t)m);
    c.start[0] = 0;
    for (int64_t i = 0; i < m; i++) {
        int64_t a = i % n, b = (a + 1) % n;
        if (random) do
                b = (int64_t)((noise(&seed) + 0.5) * (double)n);
            while (b == a);
        c.start[i + 1] = 2 * (i + 1);
        c.column[2 * i] = a < b ? a : b;
        c.column[2 * i + 1] = a < b ? b : a;
    }
    return c;
}

/* At the minimum x_k = 1 + k / n, exactly. */
static gd_status chain_residuals(void *user, const double *x, double *r)
{
    const chain *c = user;
    for (int64_t i = 0; i < c->m; i++) {
        double a = x[c->column[2 * i]], b = x[c->column[2 * i + 1]];
        double at = 1 + (double)c->column[2 * i] / (double)c->n,
               bt = 1 + (double)c->column[2 * i + 1] / (double)c->n;
        r[i] = a * a - b - (at * at - bt);
    }
    return GD_OK;
}

static gd_status chain_values(void *user, const double *x, double *j)
{
    const chain *c = user;
    for (int64_t i = 0; i < c->m; i++) j[2 * i] = 2 * x[c->column[2 * i]], j[2 * i + 1] = -1;
    return GD_OK;
}

static void check_chain(int64_t m, int64_t n, bool random, bool jacobian)
{
    chain c = make_chain(m, n, random);
    double *x = malloc(sizeof *x * (size_t)n);
    for (int64_t i = 0; i < n; i++) x[i] = 1.5;
    gd_lsq_problem p = {.residuals = m,
                        .params = n,
                        .user = &c,
                        .residual = chain_residuals,
                        .jacobian = jacobian ? chain_values : NULL,
                        .row_start = c.start,
                        .column = c.column};
    gd_lsq_result fit;
    gd_lsq_options o = gd_lsq_defaults();
    o.chosen = (const int64_t[]){5};
    o.chosen_count = 1;
    o.sigma = 1;
    test_memory()->most = 0;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
    assert_true(fit.solve.converged);
    for (int64_t i = 0; i < n; i++) NEAR(x[i], 1 + (double)i / (double)n, 1e-9);
    assert_true(test_memory()->most < 200000000);
    double e = element(fit.standard_errors, 5), v = element(fit.covariance, 0);
    NEAR(e * e / v, 1, 1e-6);
    assert_true(isfinite(element(fit.standard_errors, 6)) == !random);
    gd_lsq_result_clear(&fit);
    free(x);
    free(c.start);
    free(c.column);
}

static void a_band_is_factored(void **state)
{
    (void)state;
    check_chain(100000, 10000, false, true);
    check_chain(20000, 2000, false, false);
}

static void what_fills_too_much_is_solved_by_products(void **state)
{
    (void)state;
    check_chain(100000, 10000, true, true);
}

/* ---- what is not determined ---- */

static gd_status sum_only(void *user, const double *x, double *r)
{
    (void)user;
    for (int i = 0; i < 4; i++) r[i] = x[0] + x[1] - i;
    r[4] = x[2] - 2;
    return GD_OK;
}

static void what_is_not_determined_is_named(void **state)
{
    (void)state;
    int64_t start[] = {0, 2, 4, 6, 8, 9}, column[] = {0, 1, 0, 1, 0, 1, 0, 1, 2};
    for (int sparse = 0; sparse < 2; sparse++) {
        double x[] = {5, 1, 1};
        gd_lsq_problem p = {.residuals = 5,
                            .params = 3,
                            .residual = sum_only,
                            .row_start = sparse ? start : NULL,
                            .column = column};
        gd_lsq_options o = gd_lsq_defaults();
        o.names = (const char *const[]){"a", "b", "c"};
        gd_lsq_result fit;
        assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
        assert_int_equal(fit.solve.reason, GD_STOP_UNDETERMINED);
        assert_int_equal(fit.rank, 2);
        assert_string_equal(fit.says, "the residuals do not determine a, b");
        NEAR(x[0] + x[1], 1.5, 1e-7);
        NEAR(x[2], 2, 1e-7);
        assert_true(isinf(element(fit.standard_errors, 0)) && isinf(element(fit.standard_errors, 1)));
        assert_true(isfinite(element(fit.standard_errors, 2)));
        gd_lsq_result_clear(&fit);
    }
}

/* ---- what fails ---- */

static gd_status log_of(void *user, const double *x, double *r)
{
    (void)user;
    r[0] = log(x[0]) - 1;
    r[1] = 0.1 * (x[0] - 1);
    return GD_OK;
}

static gd_status refuse(void *user, const double *x, double *r)
{
    (void)x, (void)r;
    return gd_fail(user, GD_CALLBACK, "no");
}

static void points_that_are_not_finite_are_bad_points(void **state)
{
    (void)state;
    gd_lsq_problem p = {.residuals = 2, .params = 1, .residual = log_of, .user = ctx};
    double x[] = {40}, bad[] = {-1};
    gd_lsq_result fit;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, &fit), GD_OK);
    assert_true(fit.solve.converged);
    gd_lsq_result_clear(&fit);
    assert_int_equal(gd_lsq_solve(ctx, &p, bad, NULL, &fit), GD_OK);
    assert_int_equal(fit.solve.reason, GD_STOP_NOT_FINITE);
    assert_false(fit.solve.converged);
    gd_lsq_result_clear(&fit);
    p.residual = refuse;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, NULL), GD_CALLBACK);
    assert_error(ctx, GD_CALLBACK, "no");
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    double x[] = {1, 1, 1};
    int64_t start[] = {0, 2, 4, 6, 8, 9}, column[] = {0, 1, 0, 1, 1, 0, 0, 1, 2};
    gd_lsq_problem p = {
        .residuals = 5, .params = 3, .residual = sum_only, .row_start = start, .column = column};
    assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, NULL), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "least squares: row 2: column 0 is outside 0 .. 2 or not above");
    p.row_start = NULL;
    p.params = 0;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: 5 residuals and 0 parameters");
    p.params = 3;
    p.residual = NULL;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: no residuals");
    p.residual = sum_only;
    gd_lsq_options o = gd_lsq_defaults();
    o.low = (const double[]){0, 3, 0}, o.high = (const double[]){9, 2, 9};
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: element 1: bounds 3 and 2 leave nothing");
}

typedef struct decay {
    int calls;
    double t[20], y[20];
} decay;

static gd_status decay_residuals(void *user, const double *x, double *r)
{
    decay *d = user;
    d->calls++;
    for (int i = 0; i < 20; i++) r[i] = x[0] * exp(-x[1] * d->t[i]) + x[2] - d->y[i];
    return GD_OK;
}

static gd_status decay_jacobian(void *user, const double *x, double *j)
{
    const decay *d = user;
    for (int i = 0; i < 20; i++) {
        double e = exp(-x[1] * d->t[i]);
        j[3 * i] = e;
        j[3 * i + 1] = -x[0] * d->t[i] * e;
        j[3 * i + 2] = 1;
    }
    return GD_OK;
}

/* The decrease that is foreseen drowns in the rounding of the loss long before the parameters have their last digits: no dampings are
 * tried one after the other there. */
static void a_loss_at_rounding_ends_the_search(void **state)
{
    (void)state;
    int calls = 0;
    for (unsigned k = 0; k < 50; k++) {
        decay d = {0};
        uint32_t seed = 11 + k;
        for (int i = 0; i < 20; i++) {
            seed = seed * 1664525u + 1013904223u;
            d.t[i] = 0.25 * i;
            d.y[i] = (2 + k / 50.0) * exp(-0.8 * d.t[i]) + 0.5 +
                     0.1 * ((double)(seed >> 8) / (1 << 24) - 0.5);
        }
        gd_lsq_problem p = {.residuals = 20,
                            .params = 3,
                            .user = &d,
                            .residual = decay_residuals,
                            .jacobian = decay_jacobian};
        gd_lsq_result fit;
        double x[] = {1, 1, 1}, r[20], j[60];
        assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, &fit), GD_OK);
        assert_true(fit.solve.converged);
        gd_lsq_result_clear(&fit);
        calls += d.calls;
        /* J^T r is 0 to the rounding of its terms */
        (void)decay_residuals(&d, x, r);
        (void)decay_jacobian(&d, x, j);
        for (int c = 0; c < 3; c++) {
            double sum = 0, size = 0;
            for (int i = 0; i < 20; i++) sum += j[3 * i + c] * r[i], size += fabs(j[3 * i + c] * r[i]);
            assert_true(fabs(sum) <= 1e-13 * size);
        }
    }
    assert_in_range(calls, 50, 50 * 14); /* more than 16 each where dampings are tried */
}

static void limits_hold(void **state)
{
    (void)state;
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_problem p = {.residuals = 14, .params = 2, .residual = misra, .jacobian = misra_jacobian};
    gd_lsq_result fit;
    double x[] = {500, 0.0001};
    o.solve.max_steps = 2;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
    assert_int_equal(fit.solve.reason, GD_STOP_MAX_STEPS);
    assert_int_equal(fit.solve.steps, 2);
    gd_lsq_result_clear(&fit);
    o.solve.max_steps = 0;
    o.solve.max_evals = 3;
    assert_int_equal(gd_lsq_solve(ctx, &p, x, &o, &fit), GD_OK);
    assert_int_equal(fit.solve.reason, GD_STOP_MAX_EVALS);
    assert_int_equal(fit.solve.evals, 3);
    gd_lsq_result_clear(&fit);
}

static bool sparse_and_dense(gd_ctx *other)
{
    pairs p;
    make_pairs(&p);
    for (int sparse = 0; sparse < 2; sparse++)
        for (int hc3 = 0; hc3 < 2; hc3++) {
            double x[COLUMNS] = {0};
            gd_lsq_problem problem = {.residuals = ROWS,
                                      .params = COLUMNS,
                                      .user = &p,
                                      .residual = pair_residuals,
                                      .row_start = sparse ? p.start : NULL,
                                      .column = p.column};
            gd_lsq_options o = gd_lsq_defaults();
            o.errors = hc3 ? GD_LSQ_HC3 : GD_LSQ_USUAL;
            gd_lsq_result fit;
            if (gd_lsq_solve(other, &problem, x, &o, &fit)) return false;
            gd_lsq_result_clear(&fit);
        }
    return true;
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    fail_each_allocation(1, sparse_and_dense);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(certified_numbers_are_reached_with_and_without_a_jacobian,
                                        start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(every_way_is_the_same_fit, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(every_way_is_the_same_fit_inside_bounds, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(every_way_has_the_same_robust_errors, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(covariance_of_chosen_elements_is_that_part_of_all, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(other_losses_with_a_scale_are_the_same_fit, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(the_scale_of_a_loss_is_found, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(hc3_of_a_mean_is_its_closed_form, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(a_band_is_factored, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(what_fills_too_much_is_solved_by_products, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(what_is_not_determined_is_named, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(points_that_are_not_finite_are_bad_points, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(a_loss_at_rounding_ends_the_search, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(limits_hold, start_scope, stop_scope),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
