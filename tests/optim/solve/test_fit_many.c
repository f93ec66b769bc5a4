/* Fits of many parameters: their steps come from triangles, without singular values where columns stand apart, and with them where
 * they do not.  Twenty Gaussian peaks against scipy.optimize, recorded. */
#include "gradus/solve.h"
#include "optim/vector/linear_model.h"
#include "support/support.h"

#include <math.h>

#define PEAKS 20
#define ROWS  400

/* ---- the model of a fit ---- */

#define M 70
#define N 24

static gd_tensor *random_matrix(gd_ctx *ctx, int64_t rows, int64_t columns, uint64_t seed)
{
    gd_tensor *t = gd_empty(ctx, GD_F64, 2, (int64_t[]){rows, columns});
    double *v = gd_data_mut(t);
    for (int64_t i = 0; i < rows * columns; i++) v[i] = random_unit(&seed) - 0.5;
    return t;
}

/* The largest element of A^T (A s + b) + lambda s over the columns that are not fixed. */
static double slope_left(const double *a, const double *b, const double *s, const bool *fixed, double lambda)
{
    double worst = 0, left[M];
    for (int i = 0; i < M; i++) {
        left[i] = b[i];
        for (int j = 0; j < N; j++) left[i] += a[i * N + j] * s[j];
    }
    for (int j = 0; j < N; j++) {
        double sum = lambda * s[j];
        for (int i = 0; i < M; i++) sum += a[i * N + j] * left[i];
        if (!fixed[j]) worst = fmax(worst, fabs(sum));
    }
    return worst;
}

static void steps_solve_their_damped_equations(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *j = random_matrix(ctx, M, N, 5), *r = random_matrix(ctx, M, 1, 6);
    r = gd_reshape(r, 1, (int64_t[]){M});
    gd_lm_model model;
    bool finite = false, fixed[N] = {false};
    double s[N], lambda = 0, decrease, bent, full, length;
    assert_int_equal(gd__lm_begin(&model, ctx, M, N), GD_OK);
    assert_int_equal(gd__lm_set(&model, j, r, false, &finite), GD_OK);
    assert_true(finite && model.is_direct);
    assert_int_equal(gd__lm_rank(&model, 1e-8), N);
    double *a = gd_data_mut(j);
    for (int i = 0; i < M * N; i++) a[i] /= model.scale[i % N];
    for (int kind = 0; kind < 2; kind++) {
        for (int k = 0; k < N; k++) fixed[k] = kind && k % 5 == 2;
        assert_int_equal(gd__lm_restrict(&model, fixed, NULL), GD_OK);
        assert_true(model.is_direct && model.free == (kind ? N - 5 : N));
        gd__lm_full(&model, &full, &length);
        for (double radius = 2 * length; radius > 0.01 * length; radius /= 3) {
            gd__lm_step(&model, radius, &lambda, s);
            double norm = 0, rss = 0, before = 0;
            for (int k = 0; k < N; k++) norm = hypot(norm, s[k]);
            assert_true(radius >= length ? lambda == 0 : fabs(norm - radius) <= 0.11 * radius);
            assert_true(slope_left(a, gd_data(r), s, fixed, lambda) < 1e-12);
            gd__lm_predict(&model, lambda, &decrease, &bent);
            for (int i = 0; i < M; i++) {
                double left = ((const double *)gd_data(r))[i], start = left;
                for (int k = 0; k < N; k++) left += a[i * N + k] * s[k];
                rss += left * left, before += start * start;
            }
            assert_true(fabs(before - rss - decrease) < 1e-12);
            for (int k = 0; k < N; k++) assert_true(!fixed[k] || s[k] == 0);
        }
    }
    gd__lm_end(&model);
}

/* C (J^T J) is the identity over the free parameters. */
static void covariances_are_inverses(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *j = random_matrix(ctx, M, N, 9), *r = gd_zeros(ctx, GD_F64, 1, (int64_t[]){M});
    gd_lm_model model;
    bool finite = false, fixed[N] = {[3] = true, [17] = true};
    assert_int_equal(gd__lm_begin(&model, ctx, M, N), GD_OK);
    assert_int_equal(gd__lm_set(&model, j, r, false, &finite), GD_OK);
    assert_int_equal(gd__lm_restrict(&model, fixed, NULL), GD_OK);
    gd_tensor *c = gd__lm_covariance(&model, model.rank, 1);
    const double *v = gd_data(c), *a = gd_data(j);
    for (int i = 0; i < N; i++)
        for (int k = 0; k < N; k++) {
            double sum = 0;
            for (int l = 0; l < N; l++)
                for (int row = 0; row < M && !fixed[l]; row++)
                    sum += v[i * N + l] * a[row * N + l] * a[row * N + k];
            if (fixed[i])
                assert_true(v[i * N + k] == 0);
            else if (!fixed[k])
                assert_true(fabs(sum - (i == k)) < 1e-11);
        }
    gd__lm_end(&model);
}

/* Columns that nearly coincide are left to singular values; after that a model is direct again. */
static void columns_that_coincide_have_their_singular_values(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_lm_model model;
    bool finite = false;
    gd_tensor *r = gd_ones(ctx, GD_F64, 1, (int64_t[]){M});
    assert_int_equal(gd__lm_begin(&model, ctx, M, N), GD_OK);
    const double apart[] = {0, 1e-9, 1e-3};
    for (int k = 0; k < 3; k++) {
        gd_tensor *j = random_matrix(ctx, M, N, 13);
        double *a = gd_data_mut(j), s[N], lambda = 0, norm = 0;
        for (int i = 0; i < M; i++) a[i * N + 7] = a[i * N + 2] + apart[k] * a[i * N + 7];
        assert_int_equal(gd__lm_set(&model, j, r, false, &finite), GD_OK);
        assert_true(model.is_direct == (k == 2));
        assert_int_equal(gd__lm_rank(&model, 1e-8), k == 2 ? N : N - 1);
        assert_true(gd__lm_undetermined(&model, gd__lm_rank(&model, 1e-8), 2) == (k < 2));
        gd__lm_step(&model, INFINITY, &lambda, s);
        for (int i = 0; i < N; i++) norm = hypot(norm, s[i]);
        if (k == 0) assert_true(norm < 100 && fabs(s[2] - s[7]) < 1e-9); /* the shortest of all solutions */
    }
    gd__lm_end(&model);
}

/* ---- fits ---- */

typedef struct spectrum {
    gd_ctx *ctx;
    gd_tensor *p[3], *t, *y;
} spectrum;

static gd_tensor *peaks(void *user)
{
    const spectrum *c = user;
    gd_tensor *z = gd_div(gd_sub(gd_unsqueeze(c->t, 1, NULL), c->p[1]), c->p[2]);
    gd_tensor *all = gd_mul(gd_exp(gd_neg(gd_square(z))), c->p[0]);
    return gd_sub(gd_sum(all, "1", false), c->y);
}

static spectrum open_spectrum(memory *m)
{
    spectrum c = {.ctx = context(m, 1, NULL)};
    double t[ROWS], y[ROWS], start[3][PEAKS];
    int64_t rows = ROWS, count = PEAKS;
    gd_scope_begin(c.ctx);
    for (int i = 0; i < ROWS; i++) {
        t[i] = (double)PEAKS * i / ROWS;
        y[i] = 0.1 * (i * 7919 % 10007 / 10007.0 - 0.5);
        for (int k = 0; k < PEAKS; k++)
            y[i] += (1 + 0.5 * sin(k)) * exp(-pow((t[i] - k - 0.5) / (0.4 + 0.1 * cos(k)), 2));
    }
    for (int k = 0; k < PEAKS; k++) start[0][k] = 1, start[1][k] = k + 0.45, start[2][k] = 0.45;
    for (int i = 0; i < 3; i++) c.p[i] = gd_require_grad(gd_from_f64(c.ctx, GD_F64, 1, &count, start[i]));
    c.t = gd_from_f64(c.ctx, GD_F64, 1, &rows, t);
    c.y = gd_from_f64(c.ctx, GD_F64, 1, &rows, y);
    return c;
}

static void close_spectrum(spectrum *c, memory *m)
{
    gd_scope_end(c->ctx);
    end_context(c->ctx, m);
}

static void near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want))) fail_msg("%.15g, want %.15g", value, want);
}

static void twenty_peaks_agree_with_curve_fit(void **state)
{
    (void)state;
    spectrum c = open_spectrum(NULL);
    gd_lsq_result r;
    static const int at[] = {0, 7, 25, 59};
    static const double value[] = {1.00378768429, 1.32486251202, 5.49055243282, 0.498735086605},
                        error[] = {0.0114810981475, 0.0125456120842, 0.0148071051009, 0.015196161388};
    assert_int_equal(gd_least_squares(c.p, 3, peaks, &c, NULL, &r), GD_OK);
    assert_true(r.solve.converged && r.rank == 3 * PEAKS && r.dof == ROWS - 3 * PEAKS);
    near(r.rss, 0.323373262088968, 1e-11);
    for (int k = 0; k < 4; k++) {
        near(((const double *)gd_data(c.p[at[k] / PEAKS]))[at[k] % PEAKS], value[k], 1e-7);
        near(((const double *)gd_data(r.standard_errors))[at[k]], error[k], 1e-6);
    }
    gd_lsq_result_clear(&r);
    close_spectrum(&c, NULL);
}

static void twenty_peaks_between_bounds_agree_with_least_squares(void **state)
{
    (void)state;
    spectrum c = open_spectrum(NULL);
    gd_lsq_result r;
    gd_lsq_options o = gd_lsq_defaults();
    double high[3 * PEAKS];
    for (int i = 0; i < 3 * PEAKS; i++) high[i] = i == 1 || i == 2 ? 1.2 : INFINITY;
    o.high = high;
    assert_int_equal(gd_least_squares(c.p, 3, peaks, &c, &o, &r), GD_OK);
    const double *h = gd_data(c.p[0]), *error = gd_data(r.standard_errors);
    assert_true(r.solve.converged && r.free == 3 * PEAKS - 2 && h[1] == 1.2 && h[2] == 1.2 &&
                isnan(error[1]));
    near(r.rss, 0.938495641895007, 1e-10);
    near(h[0], 0.855744337677, 1e-6);
    near(error[0], 0.0280527134036, 1e-5);
    near(error[2 * PEAKS + 1], 0.0233299011899, 1e-5);
    gd_lsq_result_clear(&r);
    close_spectrum(&c, NULL);
}

/* Two peaks that start as one stay one for Gauss and Newton; the curvature between them leads on, or they are named. */
static void peaks_that_coincide_are_told_apart_or_named(void **state)
{
    (void)state;
    spectrum c = open_spectrum(NULL);
    gd_lsq_result r;
    for (int i = 0; i < 3; i++) {
        double *v = gd_data_mut(c.p[i]);
        v[5] = v[4];
    }
    assert_int_equal(gd_least_squares(c.p, 3, peaks, &c, NULL, &r), GD_OK);
    assert_true(r.solve.converged);
    near(r.rss, 0.323373262088968, 1e-9);
    gd_lsq_result_clear(&r);
    double *width = gd_data_mut(c.p[2]), *middle = gd_data_mut(c.p[1]);
    middle[3] = 1000, width[3] = 1e-3; /* far from all data: nothing says what it is */
    assert_int_equal(gd_least_squares(c.p, 3, peaks, &c, NULL, &r), GD_OK);
    assert_int_equal(r.solve.reason, GD_STOP_UNDETERMINED);
    assert_string_equal(r.says, "p0[3], p1[3] and p2[3] have no effect");
    gd_lsq_result_clear(&r);
    close_spectrum(&c, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t k = 1; failed; k += k < 40 ? 1 : 997) {
        memory m = {0};
        spectrum c = open_spectrum(&m);
        gd_lsq_result r;
        m.fail_at = m.requests + k;
        gd_status status = gd_least_squares(c.p, 3, peaks, &c, NULL, &r);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_lsq_result_clear(&r);
        gd_clear_error(c.ctx);
        close_spectrum(&c, &m);
    }
}

#define SCOPED(f) cmocka_unit_test_setup_teardown(f, begin_scoped_test, end_scoped_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCOPED(steps_solve_their_damped_equations),
        SCOPED(covariances_are_inverses),
        SCOPED(columns_that_coincide_have_their_singular_values),
        cmocka_unit_test(twenty_peaks_agree_with_curve_fit),
        cmocka_unit_test(twenty_peaks_between_bounds_agree_with_least_squares),
        cmocka_unit_test(peaks_that_coincide_are_told_apart_or_named),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
