/* Least squares with columns in small blocks that share no row: what is found, and that it solves as a dense system does. */
#include "gradus/lsq.h"
#include "optim/solve/numbers/sparse.h"
#include "support/own_context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* `views` residuals of two numbers for each of `points`, each of two of the columns of one camera and all of the point's; `priors` rows of a
 * camera alone at the end. */
enum { CAMERA = 3 };
typedef struct bundle {
    int64_t cameras, points, point, views, priors, m, n, *start, *column;
    double *truth, *y;
} bundle;

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24) - 0.5;
}

static int64_t camera_of(const bundle *b, int64_t row)
{
    return (row / 2 / b->views + row / 2 % b->views) % b->cameras;
}

static bundle make_bundle(int64_t cameras, int64_t points, int64_t point, int64_t views, int64_t priors)
{
    bundle b = {.cameras = cameras, .points = points, .point = point, .views = views, .priors = priors};
    uint32_t seed = 3;
    b.n = cameras * CAMERA + points * point;
    b.m = 2 * points * views + priors;
    b.start = calloc((size_t)b.m + 1, sizeof *b.start);
    b.column = calloc((size_t)(b.m * (CAMERA + point)), sizeof *b.column);
    b.truth = calloc((size_t)b.n, sizeof *b.truth);
    b.y = calloc((size_t)b.m, sizeof *b.y);
    for (int64_t i = 0; i < b.n; i++) b.truth[i] = 1 + noise(&seed);
    for (int64_t i = 0, at = 0; i < b.m; i++) {
        bool prior = i >= b.m - priors;
        int64_t camera = prior ? (i - (b.m - priors)) % cameras : camera_of(&b, i);
        for (int64_t k = 0; k < CAMERA; k++) b.column[at++] = camera * CAMERA + k;
        for (int64_t k = 0; k < point && !prior; k++)
            b.column[at++] = cameras * CAMERA + i / 2 / views * point + k;
        b.start[i + 1] = at;
    }
    return b;
}

static void free_bundle(bundle *b)
{
    free(b->start);
    free(b->column);
    free(b->truth);
    free(b->y);
}

/* A row is sum_k sin(x_camera,k + k + odd) times the sum of the point, and a square of its parts; a prior the sum of its camera. */
static int64_t dead = -1; /* a column without effect */

static double row_of(const bundle *b, const double *given, int64_t i, double *d)
{
    double x[1000];
    const int64_t *c = b->column + b->start[i], count = b->start[i + 1] - b->start[i];
    double camera = 0, point = 0, square = 0;
    bool prior = count == CAMERA;
    for (int64_t k = 0; k < count; k++) x[c[k]] = c[k] == dead ? 0 : given[c[k]];
    for (int64_t k = 0; k < CAMERA; k++)
        camera += prior ? x[c[k]] * (double)((k + i) % 3 + 1) : sin(x[c[k]] + (double)(k + i % 2));
    for (int64_t k = CAMERA; k < count; k++) {
        point += x[c[k]] * (double)(k - 1 + i % 2);
        square += x[c[k]] * x[c[k]];
    }
    for (int64_t k = 0; k < count && d; k++) {
        double slope = k < CAMERA ? cos(x[c[k]] + (double)(k + i % 2)) * point
                                  : camera * (double)(k - 1 + i % 2) + 2 * x[c[k]];
        d[k] = c[k] == dead ? 0 : prior ? (double)((k + i) % 3 + 1) : slope;
    }
    return prior ? camera : camera * point + square;
}

static gd_status residual(void *user, const double *x, double *r)
{
    const bundle *b = user;
    for (int64_t i = 0; i < b->m; i++) r[i] = row_of(b, x, i, NULL) - b->y[i];
    return GD_OK;
}

static gd_status values_of(void *user, const double *x, double *j)
{
    const bundle *b = user;
    for (int64_t i = 0; i < b->m; i++) (void)row_of(b, x, i, j + b->start[i]);
    return GD_OK;
}

static gd_status matrix_of(void *user, const double *x, double *j)
{
    const bundle *b = user;
    double d[CAMERA + 8];
    memset(j, 0, (size_t)(b->m * b->n) * sizeof *j);
    for (int64_t i = 0; i < b->m; i++) {
        (void)row_of(b, x, i, d);
        for (int64_t e = b->start[i]; e < b->start[i + 1]; e++)
            j[i * b->n + b->column[e]] = d[e - b->start[i]];
    }
    return GD_OK;
}

static void measure(bundle *b)
{
    uint32_t seed = 17;
    for (int64_t i = 0; i < b->m; i++) b->y[i] = row_of(b, b->truth, i, NULL) + 0.01 * noise(&seed);
}

/* ---- the matrix ---- */

/* x of (A'A + shift) x = b, columns divided by scale, fixed ones as those of the identity, by elimination without pivots. */
static void solve_plainly(const bundle *b, const double *dense, const double *scale, const bool *fixed,
                          double shift, double *x)
{
    int64_t n = b->n;
    double *a = calloc((size_t)(n * n), sizeof *a);
    for (int64_t r = 0; r < b->m; r++)
        for (int64_t i = 0; i < n; i++)
            for (int64_t k = 0; k < n && dense[r * n + i] != 0; k++)
                a[i * n + k] += dense[r * n + i] * dense[r * n + k];
    for (int64_t i = 0; i < n; i++)
        for (int64_t k = 0; k < n; k++) {
            bool held = fixed[i] || fixed[k];
            a[i * n + k] = held ? 0 : a[i * n + k];
            a[i * n + k] /= scale[i] * scale[k];
            if (i == k) a[i * n + k] = (held ? 1 : a[i * n + k]) + shift;
        }
    for (int64_t k = 0; k < n; k++)
        for (int64_t i = k + 1; i < n; i++) {
            double f = a[i * n + k] / a[k * n + k];
            for (int64_t c = k; c < n; c++) a[i * n + c] -= f * a[k * n + c];
            x[i] -= f * x[k];
        }
    for (int64_t k = n; k-- > 0;) {
        for (int64_t c = k + 1; c < n; c++) x[k] -= a[k * n + c] * x[c];
        x[k] /= a[k * n + k];
    }
    free(a);
}

static void it_solves_as_a_dense_matrix_does(void **state)
{
    (void)state;
    static const struct {
        int64_t cameras, points, point, views, priors;
    } rows[] = {{4, 30, 2, 3, 5}, {3, 60, 1, 2, 0}, {20, 80, 3, 5, 7}, {2, 9, 8, 2, 0}, {34, 110, 3, 4, 2}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        for (int held = 0; held < 2; held++) {
            bundle b = make_bundle(rows[k].cameras, rows[k].points, rows[k].point, rows[k].views,
                                   rows[k].priors);
            gd_csr j = {.m = b.m, .n = b.n, .start = b.start, .column = b.column};
            gd_schur s;
            bool fits, *fixed = calloc((size_t)b.n, sizeof *fixed);
            double *value = calloc((size_t)b.start[b.m], sizeof *value),
                   *dense = calloc((size_t)(b.m * b.n), sizeof *dense),
                   *scale = calloc((size_t)(3 * b.n), sizeof *scale), *x = scale + b.n, *y = x + b.n;
            uint32_t seed = 29;
            assert_int_equal(values_of(&b, b.truth, value) || matrix_of(&b, b.truth, dense), 0);
            for (int64_t i = 0; i < b.n; i++) {
                fixed[i] = held && i % 7 == 1;
                scale[i] = 1 + fabs(noise(&seed));
                x[i] = y[i] = fixed[i] ? 0 : noise(&seed);
            }
            assert_int_equal(gd__csr_begin(ctx, &j), GD_OK);
            assert_int_equal(gd__schur_begin(ctx, &j, &s, &fits), GD_OK);
            assert_true(fits);
            assert_int_equal(s.blocks, b.points);
            assert_int_equal(s.rest, b.cameras * CAMERA);
            assert_int_equal(gd__schur_normal(&s, &j, value, scale, fixed), GD_OK);
            for (int turn = 0; turn < 2; turn++) { /* another shift of the same matrix */
                double shift = turn ? 0.5 : 0.1, most = 0;
                memcpy(y, x, (size_t)b.n * sizeof *x);
                double *wanted = calloc((size_t)b.n, sizeof *wanted);
                memcpy(wanted, x, (size_t)b.n * sizeof *x);
                solve_plainly(&b, dense, scale, fixed, shift, wanted);
                assert_int_equal(gd__schur_factor(&s, shift, 1e-13), 0);
                gd__schur_solve(&s, y);
                for (int64_t i = 0; i < b.n; i++)
                    most = fmax(most, fabs(y[i] - wanted[i]) / (1 + fabs(wanted[i])));
                if (!(most < 1e-8)) fail_msg("row %zu, held %d, shift %g: off by %g", k, held, shift, most);
                free(wanted);
            }
            gd__schur_end(&s);
            gd__csr_end(ctx, &j);
            free(fixed);
            free(value);
            free(dense);
            free(scale);
            free_bundle(&b);
        }
}

/* A band, and pairs drawn at random, have no small rest. */
static void other_structures_are_left_alone(void **state)
{
    (void)state;
    for (int random = 0; random < 2; random++) {
        enum { M = 4000, COLUMNS = 1000 };
        static int64_t start[M + 1], column[2 * M];
        uint32_t seed = 5;
        for (int64_t i = 0; i < M; i++) {
            int64_t a = i % COLUMNS,
                    c = random ? (int64_t)((noise(&seed) + 0.5) * COLUMNS) % COLUMNS : (a + 1) % COLUMNS;
            if (c == a) c = (a + 1) % COLUMNS;
            start[i + 1] = 2 * (i + 1);
            column[2 * i] = a < c ? a : c, column[2 * i + 1] = a < c ? c : a;
        }
        gd_csr j = {.m = M, .n = COLUMNS, .start = start, .column = column};
        gd_schur s;
        bool fits = true;
        assert_int_equal(gd__csr_begin(ctx, &j), GD_OK);
        assert_int_equal(gd__schur_begin(ctx, &j, &s, &fits), GD_OK);
        assert_false(fits);
        gd__csr_end(ctx, &j);
    }
}

/* ---- fits ---- */

static void a_bundle_is_the_same_fit_as_a_dense_one(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) { /* free, between bounds, with another loss */
        bundle b = make_bundle(4, 40, 2, 4, 12);
        measure(&b);
        double *x = calloc((size_t)(6 * b.n), sizeof *x), *low = x + 2 * b.n, *high = low + b.n,
               *errors = high + b.n;
        gd_lsq_options options = gd_lsq_defaults();
        for (int64_t i = 0; i < b.n; i++)
            low[i] = kind == 1 && i % 5 == 0 ? b.truth[i] + 0.01 : -INFINITY, high[i] = INFINITY;
        if (kind == 1) options.low = low, options.high = high;
        if (kind == 2) options.loss = GD_LSQ_HUBER, options.loss_scale = 0.004;
        gd_lsq_result fit[2];
        for (int dense = 0; dense < 2; dense++) {
            gd_lsq_problem p = {.residuals = b.m,
                                .params = b.n,
                                .user = &b,
                                .residual = residual,
                                .jacobian = dense ? matrix_of : values_of,
                                .row_start = dense ? NULL : b.start,
                                .column = dense ? NULL : b.column};
            for (int64_t i = 0; i < b.n; i++) x[dense * b.n + i] = 1.05 * b.truth[i];
            assert_int_equal(gd_lsq_solve(ctx, &p, x + dense * b.n, &options, &fit[dense]), GD_OK);
            assert_true(fit[dense].solve.converged);
            assert_int_equal(gd_read_f64(fit[dense].standard_errors, errors + dense * b.n, b.n), GD_OK);
        }
        if (fabs(fit[0].rss - fit[1].rss) > 1e-9 * fit[1].rss)
            fail_msg("%d: %.17g, %.17g", kind, fit[0].rss, fit[1].rss);
        for (int64_t i = 0; i < b.n; i++) {
            if (fabs(x[i] - x[b.n + i]) > 1e-6)
                fail_msg("%d: x%lld is %.12g, %.12g", kind, (long long)i, x[i], x[b.n + i]);
            if (fabs(errors[i] - errors[b.n + i]) > 1e-4 * errors[b.n + i])
                fail_msg("%d: error %lld is %.12g, %.12g", kind, (long long)i, errors[i], errors[b.n + i]);
        }
        gd_lsq_result_clear(&fit[0]);
        gd_lsq_result_clear(&fit[1]);
        free(x);
        free_bundle(&b);
    }
}

static void what_is_not_determined_is_found(void **state)
{
    (void)state;
    for (int covariance = 0; covariance < 2; covariance++)
        for (int lost = 0; lost < 3; lost++) { /* none, of a camera, of a point */
            bundle b = make_bundle(4, 40, 2, 4, 12);
            dead = lost == 0 ? -1 : lost == 1 ? 1 : 20;
            measure(&b);
            double *x = calloc((size_t)b.n, sizeof *x);
            gd_lsq_options options = gd_lsq_defaults();
            options.covariance = covariance;
            gd_lsq_problem p = {.residuals = b.m,
                                .params = b.n,
                                .user = &b,
                                .residual = residual,
                                .jacobian = values_of,
                                .row_start = b.start,
                                .column = b.column};
            memcpy(x, b.truth, (size_t)b.n * sizeof *x);
            gd_lsq_result fit;
            assert_int_equal(gd_lsq_solve(ctx, &p, x, &options, &fit), GD_OK);
            assert_int_equal(fit.rank, b.n - (lost > 0));
            assert_int_equal(fit.solve.reason == GD_STOP_UNDETERMINED, lost > 0);
            assert_true((fit.covariance != NULL) == (covariance == 1) && (lost > 0) == (*fit.says != 0));
            if (lost &&
                !strstr(fit.says, lost == 1 ? "do not determine element 1" : "do not determine element 20"))
                fail_msg("%s", fit.says);
            gd_lsq_result_clear(&fit);
            free(x);
            free_bundle(&b);
            dead = -1;
        }
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    bundle b = make_bundle(4, 20, 2, 3, 4);
    measure(&b);
    double x[100];
    gd_lsq_problem p = {.residuals = b.m,
                        .params = b.n,
                        .user = &b,
                        .residual = residual,
                        .jacobian = values_of,
                        .row_start = b.start,
                        .column = b.column};
    bool failed = true;
    for (int64_t k = 1; failed; k++) {
        memory m = {0};
        gd_ctx *other = context(&m, 1, NULL);
        gd_lsq_result fit;
        memcpy(x, b.truth, (size_t)b.n * sizeof *x);
        m.fail_at = m.requests + k;
        gd_status status = gd_lsq_solve(other, &p, x, NULL, &fit);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_lsq_result_clear(&fit);
        gd_clear_error(other);
        end_context(other, &m);
    }
    free_bundle(&b);
}

#define OWN(test) cmocka_unit_test_setup_teardown(test, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        OWN(it_solves_as_a_dense_matrix_does),
        OWN(other_structures_are_left_alone),
        OWN(a_bundle_is_the_same_fit_as_a_dense_one),
        OWN(what_is_not_determined_is_found),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
