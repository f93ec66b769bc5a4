/* Residuals by ranges of rows: the same fit as from all rows at once, the same bits on any number of threads, memory for a range;
 * triangles of tall matrices; chains over rows; failures. */
#include "gradus/solve.h"
#include "optim/vector/row_blocks.h"
#include "optim/vector/linear_model.h"
#include "optim/vector/triangle.h"
#include "support/support.h"

#include <math.h>
#include <stdatomic.h>

#define ROWS                         5000
#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

/* Data with two columns, and a model of them with up to four parameters. */
typedef struct table {
    gd_ctx *ctx;
    gd_tensor *p[4], *data[2];
    gd_tensor *(*model)(gd_tensor *const *p, gd_tensor *t);
    gd_rows rows;
    int64_t fail_at; /* the row whose range fails; -1: none */
    int kind;        /* how */
    int opened;
    bool traced;
    atomic_int calls; /* of the function */
} table;

static gd_tensor *range(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    table *t = user;
    gd_ctx *ctx = gd_tensor_ctx(p[0]);
    t->calls++;
    if (first <= t->fail_at && t->fail_at < first + gd_numel(data[0])) {
        if (t->kind == 0) (void)gd_fail(ctx, GD_VALUE, "row %d is broken", (int)t->fail_at);
        if (t->kind <= 1) return NULL;
        return gd_sum(data[0], NULL, false);
    }
    return gd_sub(t->model(p, data[0]), data[1]);
}

static gd_tensor *whole(void *user)
{
    table *t = user;
    return gd_sub(t->model(t->p, t->data[0]), t->data[1]);
}

static gd_tensor *decay(gd_tensor *const *p, gd_tensor *t)
{
    return gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], t)))), p[2]);
}
static gd_tensor *line(gd_tensor *const *p, gd_tensor *t) { return gd_add(p[0], gd_mul(p[1], t)); }
static gd_tensor *product(gd_tensor *const *p, gd_tensor *t) { return gd_mul(gd_mul(p[0], p[1]), t); }

/* y = 2 exp(-0.7 t) + 0.3 and noise, t in 0 .. 4. */
static table open_table(memory *m, int threads, gd_tensor *(*model)(gd_tensor *const *, gd_tensor *),
                        int params, const double *start, int64_t rows)
{
    table t = {.ctx = context(m, threads, NULL), .model = model, .fail_at = -1};
    uint64_t seed = 7;
    gd_scope_begin(t.ctx);
    for (int i = 0; i < params; i++) t.p[i] = gd_require_grad(gd_scalar(t.ctx, GD_F64, start[i]));
    for (int i = 0; i < 2; i++) t.data[i] = gd_empty(t.ctx, GD_F64, 1, &rows);
    double *x = gd_data_mut(t.data[0]), *y = gd_data_mut(t.data[1]);
    for (int64_t i = 0; i < rows; i++) {
        x[i] = 4.0 * (double)i / (double)rows;
        y[i] = 2 * exp(-0.7 * x[i]) + 0.3 + 0.1 * (random_unit(&seed) - 0.5);
    }
    return t;
}

static const gd_rows *rows_of(table *t)
{
    t->rows = (gd_rows){.count = gd_numel(t->data[0]),
                        .data = t->data,
                        .columns = 2,
                        .user = t,
                        .residuals = range,
                        .traced = t->traced};
    return &t->rows;
}

static void close_table(table *t, const memory *m)
{
    gd_scope_end(t->ctx);
    assert_no_error(t->ctx);
    end_context(t->ctx, m);
}

static gd_lsq_result fit_rows(table *t, int params, gd_status want)
{
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    o.rows = rows_of(t);
    gd_status status = gd_least_squares(t->p, params, NULL, NULL, &o, &r);
    if (status != want) fail_msg("%s: %s", gd_status_name(status), gd_error_text(t->ctx));
    return r;
}

/* ---- fits ---- */

static void ranges_of_rows_give_the_fit_of_all_rows(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, decay, 3, (double[]){1, 1, 0}, ROWS);
    gd_lsq_result all, r;
    assert_int_equal(gd_least_squares(t.p, 3, whole, &t, NULL, &all), GD_OK);
    double want[3];
    for (int i = 0; i < 3; i++) {
        want[i] = gd_item(t.p[i]);
        assert_int_equal(gd_assign(t.p[i], gd_scalar(t.ctx, GD_F64, i == 2 ? 0 : 1)), GD_OK);
    }
    r = fit_rows(&t, 3, GD_OK);
    for (int i = 0; i < 3; i++) assert_near(gd_item(t.p[i]), want[i], 1e-12);
    assert_near(r.rss, all.rss, 1e-11 * all.rss);
    assert_int_equal(r.residuals, ROWS);
    assert_int_equal(r.dof, ROWS - 3);
    assert_true(r.solve.converged);
    double a[9], b[9];
    assert_int_equal(gd_read_f64(all.covariance, a, 9), GD_OK);
    assert_int_equal(gd_read_f64(r.covariance, b, 9), GD_OK);
    for (int i = 0; i < 9; i++) assert_near(a[i], b[i], 1e-10 * fabs(a[i]));
    gd_lsq_result_clear(&all);
    gd_lsq_result_clear(&r);
    close_table(&t, NULL);
}

/* What every kind of pass gives at one point, into numbers. */
static int all_passes(gd_blocks *b, int n, double *out)
{
    static const double v[3] = {0.3, -0.7, 1.1};
    int wide = n + 1, count = 0;
    gd_tensor *triangle;
    assert_int_equal(gd__blocks_loss(b, out + count++), GD_OK);
    assert_int_equal(gd__blocks_triangle(b, &triangle, out + count++), GD_OK);
    assert_int_equal(gd_read_f64(triangle, out + count, wide * wide), GD_OK);
    gd__release(triangle);
    count += wide * wide;
    assert_int_equal(gd__blocks_second(b, v, out + count), GD_OK);
    assert_int_equal(gd__blocks_product(b, v, out + count + n), GD_OK);
    assert_int_equal(gd__blocks_curvature(b, out + count + 2 * n), GD_OK);
    return count + 2 * n + n * n;
}

/* Also where the graph is missing, or linear; at several points, and with a short last range. */
static void traced_ranges_give_the_same_bits_and_are_called_in_the_first_ranges(void **state)
{
    (void)state;
    static const struct {
        gd_tensor *(*model)(gd_tensor *const *, gd_tensor *);
        int params;
    } models[] = {{decay, 3}, {line, 2}, {product, 2}};
    for (size_t k = 0; k < 3; k++) {
        double got[2][3][40];
        int calls[2];
        for (int traced = 0; traced < 2; traced++) {
            table t = open_table(NULL, 2, models[k].model, models[k].params, (double[]){1.5, 0.5, 0.1},
                                 40 * 1024 + 77);
            t.traced = traced;
            gd_blocks *b = gd__blocks_new(rows_of(&t), t.p, models[k].params);
            for (int point = 0; point < 3; point++) {
                for (int i = 0; i < models[k].params; i++)
                    assert_int_equal(gd_write_f64(t.p[i], (double[]){0.4 + 0.3 * i + 0.2 * point}, 1), GD_OK);
                assert_true(all_passes(b, models[k].params, got[traced][point]) <= 40);
            }
            gd__blocks_free(b);
            calls[traced] = t.calls;
            close_table(&t, NULL);
        }
        int n = models[k].params;
        size_t bytes = (size_t)(2 + (n + 1) * (n + 1) + 2 * n + n * n) * sizeof(double);
        for (int point = 0; point < 3; point++) assert_memory_equal(got[0][point], got[1][point], bytes);
        /* of 41 ranges, 3 points and 5 passes; a thread calls it three times for every pass and number of rows */
        assert_int_equal(calls[0], 41 * 3 * 5);
        if (calls[1] > 2 * 5 * 2 * 3) fail_msg("%d calls", calls[1]);
    }
}

/* By hand, in long double. */
static void a_line_through_many_rows_has_the_errors_of_linear_regression(void **state)
{
    (void)state;
    table t = open_table(NULL, 1, line, 2, (double[]){0, 0}, ROWS);
    const double *x = gd_data(t.data[0]), *y = gd_data(t.data[1]);
    long double sx = 0, sy = 0, sxx = 0, sxy = 0, rss = 0;
    for (int i = 0; i < ROWS; i++) sx += x[i], sy += y[i];
    long double mx = sx / ROWS, my = sy / ROWS;
    for (int i = 0; i < ROWS; i++) sxx += (x[i] - mx) * (x[i] - mx), sxy += (x[i] - mx) * (y[i] - my);
    long double slope = sxy / sxx, start = my - slope * mx;
    for (int i = 0; i < ROWS; i++) rss += powl(start + slope * x[i] - y[i], 2);
    gd_lsq_result r = fit_rows(&t, 2, GD_OK);
    assert_near(gd_item(t.p[0]), start, 1e-13);
    assert_near(gd_item(t.p[1]), slope, 1e-13);
    assert_near(r.rss, rss, 1e-12 * (double)rss);
    long double s2 = rss / (ROWS - 2);
    assert_values_near(r.standard_errors, 1e-12, (double)sqrtl(s2 * (1.0L / ROWS + mx * mx / sxx)),
                       (double)sqrtl(s2 / sxx));
    gd_lsq_result_clear(&r);
    close_table(&t, NULL);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    double first[3], rss = 0, errors[3];
    for (int threads = 1; threads <= 5; threads += 2) {
        table t = open_table(NULL, threads, decay, 3, (double[]){1, 1, 0}, 70001);
        gd_lsq_result r = fit_rows(&t, 3, GD_OK);
        double now[3];
        assert_int_equal(gd_read_f64(r.standard_errors, now, 3), GD_OK);
        for (int i = 0; i < 3; i++) {
            if (threads == 1) first[i] = gd_item(t.p[i]), errors[i] = now[i], rss = r.rss;
            assert_true(first[i] == gd_item(t.p[i]) && errors[i] == now[i] && rss == r.rss);
        }
        gd_lsq_result_clear(&r);
        close_table(&t, NULL);
    }
}

static void memory_is_that_of_a_range(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 2; threads++) {
        memory m = {0};
        table t = open_table(&m, threads, decay, 3, (double[]){1, 1, 0}, 400000);
        int64_t before = m.bytes;
        m.most = m.bytes;
        gd_lsq_result r = fit_rows(&t, 3, GD_OK);
        /* all residuals alone would be 3.2 MB */
        if (m.most - before > threads * 1500000) fail_msg("%lld bytes", (long long)(m.most - before));
        gd_lsq_result_clear(&r);
        close_table(&t, &m);
    }
}

static void few_rows_are_one_range(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, decay, 3, (double[]){1, 1, 0}, 30);
    gd_lsq_result r = fit_rows(&t, 3, GD_OK), all;
    double want = gd_item(t.p[1]);
    for (int i = 0; i < 3; i++)
        assert_int_equal(gd_assign(t.p[i], gd_scalar(t.ctx, GD_F64, i == 2 ? 0 : 1)), GD_OK);
    assert_int_equal(gd_least_squares(t.p, 3, whole, &t, NULL, &all), GD_OK);
    assert_true(gd_item(t.p[1]) == want && all.rss == r.rss && all.solve.evals == r.solve.evals);
    gd_lsq_result_clear(&r);
    gd_lsq_result_clear(&all);
    close_table(&t, NULL);
}

static void what_is_not_determined_is_said_of_many_rows(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, product, 2, (double[]){1, 1}, ROWS);
    gd_lsq_result r = fit_rows(&t, 2, GD_OK);
    assert_int_equal(r.solve.reason, GD_STOP_UNDETERMINED);
    assert_non_null(strstr(r.says, "p0 and p1"));
    gd_lsq_result_clear(&r);
    close_table(&t, NULL);
}

static void bounds_hold_for_many_rows_and_have_a_profile(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, line, 2, (double[]){1, -0.1}, ROWS);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    double low[2] = {-INFINITY, -0.2}, high[2] = {INFINITY, INFINITY}, ends[2];
    o.rows = rows_of(&t);
    o.low = low;
    o.high = high;
    assert_int_equal(gd_least_squares(t.p, 2, NULL, NULL, &o, &r), GD_OK);
    assert_true(gd_item(t.p[1]) == -0.2);
    /* with the slope held the other is a mean: of y + 0.2 t */
    const double *x = gd_data(t.data[0]), *y = gd_data(t.data[1]);
    double mean = 0;
    for (int i = 0; i < ROWS; i++) mean += (y[i] + 0.2 * x[i]) / ROWS;
    assert_near(gd_item(t.p[0]), mean, 1e-12);
    bool better;
    assert_int_equal(gd_lsq_profile(t.p, 2, NULL, NULL, &o, &r, 1, 1.96, ends, &better), GD_OK);
    assert_true(ends[0] == -0.2 && ends[1] > -0.2 && ends[1] < 0.2);
    gd_lsq_result_clear(&r);
    close_table(&t, NULL);
}

/* ---- what passes give ---- */

/* Of half the sum of squares: what second derivatives add to the Hessian, and products of both parts together. */
static void passes_agree_with_closed_forms(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, decay, 3, (double[]){1.5, 0.9, 0.2}, ROWS);
    const double *x = gd_data(t.data[0]), *y = gd_data(t.data[1]), v[3] = {0.3, -0.5, 0.7};
    long double h[3][3] = {{0}}, curved[3][3] = {{0}}, bent[3] = {0}, loss = 0;
    for (int i = 0; i < ROWS; i++) {
        long double e = expl(-0.9 * (long double)x[i]), r = 1.5L * e + 0.2 - y[i];
        long double j[3] = {e, -1.5L * x[i] * e, 1}, second[2] = {-x[i] * e, 1.5L * x[i] * x[i] * e};
        long double along = 2 * v[0] * v[1] * second[0] + v[1] * v[1] * second[1];
        loss += r * r;
        for (int k = 0; k < 3; k++) {
            bent[k] += j[k] * along;
            for (int l = 0; l < 3; l++) h[k][l] += j[k] * j[l];
        }
        curved[0][1] += r * second[0];
        curved[1][1] += r * second[1];
    }
    curved[1][0] = curved[0][1];
    for (int k = 0; k < 9; k++) h[k / 3][k % 3] += curved[k / 3][k % 3];
    gd_blocks *b = gd__blocks_new(rows_of(&t), t.p, 3);
    double got[9], f;
    assert_int_equal(gd__blocks_loss(b, &f), GD_OK);
    assert_near(f, loss, 1e-12 * (double)loss);
    assert_int_equal(gd__blocks_curvature(b, got), GD_OK);
    for (int k = 0; k < 9; k++) assert_near(got[k], curved[k / 3][k % 3], 1e-11 * fabs((double)h[0][0]));
    assert_int_equal(gd__blocks_second(b, v, got), GD_OK);
    for (int k = 0; k < 3; k++) assert_near(got[k], bent[k], 1e-11 * fabs((double)bent[1]));
    assert_int_equal(gd__blocks_product(b, v, got), GD_OK);
    for (int k = 0; k < 3; k++)
        assert_near(got[k], h[k][0] * v[0] + h[k][1] * v[1] + h[k][2] * v[2], 1e-11 * (double)h[0][0]);
    gd__blocks_free(b);
    close_table(&t, NULL);
}

/* ---- triangles ---- */

/* Columns that differ by 1e-9: the product of the triangle with (1, -1) has their distance, which squares would have lost. */
static void a_tall_triangle_squares_nothing(void **state)
{
    gd_ctx *ctx = CTX(state);
    enum { M = 3000 };
    uint64_t seed = 3;
    double far = 0, eps = 1e-9;
    gd_tensor *a = gd_empty(ctx, GD_F64, 2, (int64_t[]){M, 2});
    double *v = gd_data_mut(a);
    for (int i = 0; i < M; i++) {
        double d = random_unit(&seed) - 0.5;
        v[2 * i] = 1;
        v[2 * i + 1] = 1 + eps * d;
        far += (v[2 * i + 1] - 1) * (v[2 * i + 1] - 1);
    }
    gd_tensor *r = gd__triangle_of_rows(a, NULL);
    double t[4];
    assert_int_equal(gd_read_f64(r, t, 4), GD_OK);
    assert_near(hypot(t[0] - t[1], t[3]), sqrt(far), 1e-6 * sqrt(far));
    assert_near(fabs(t[0]), sqrt(M), 1e-12 * sqrt(M));
    assert_true(t[2] == 0);
}

/* Norms of columns, whatever their size. */
static void a_tall_triangle_takes_numbers_of_any_size(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double sizes[] = {1e-200, 1e-290, 1, 1e200, 0};
    enum { M = 2500, N = 5 };
    gd_tensor *a = gd_empty(ctx, GD_F64, 2, (int64_t[]){M, N});
    double *v = gd_data_mut(a), t[N * N];
    uint64_t seed = 5;
    long double norm[N] = {0};
    for (int i = 0; i < M * N; i++) {
        double u = random_unit(&seed) - 0.5;
        v[i] = u * sizes[i % N];
        norm[i % N] += (long double)v[i] * v[i];
    }
    assert_int_equal(gd_read_f64(gd__triangle_of_rows(a, NULL), t, N * N), GD_OK);
    for (int j = 0; j < N; j++) {
        long double sum = 0;
        for (int i = 0; i < N; i++) sum += (long double)t[i * N + j] * t[i * N + j];
        long double tolerance = 1e-13L;
        assert_true(fabsl(sqrtl(sum) - sqrtl(norm[j])) <= tolerance * sqrtl(norm[j]));
    }
    v[7] = NAN;
    assert_int_equal(gd_read_f64(gd__triangle_of_rows(a, NULL), t, N * N), GD_OK);
    assert_true(isnan(t[2 * N + 2]));
}

/* The triangle has the products of the columns, in less memory than another copy of them takes: no Q is formed. */
static void the_triangle_of_few_rows_needs_no_copy_of_them(void **state)
{
    gd_ctx *ctx = CTX(state);
    enum { M = 1000, N = 6 };
    gd_tensor *a = gd_empty(ctx, GD_F64, 2, (int64_t[]){M, N}), *b = gd_empty(ctx, GD_F64, 1, (int64_t[]){M});
    double *v = gd_data_mut(a), *w = gd_data_mut(b), t[N * (N + 1)];
    uint64_t seed = 7;
    for (int i = 0; i < M * N; i++) v[i] = random_unit(&seed) - 0.5;
    for (int i = 0; i < M; i++) w[i] = random_unit(&seed) - 0.5;
    memory *m = test_memory();
    int64_t before = m->most = m->bytes;
    gd_tensor *r = gd__triangle(a, b);
    assert_true(m->most - before < (int64_t)(M * (N + 1) * sizeof(double)));
    assert_int_equal(gd_read_f64(r, t, N * (N + 1)), GD_OK);
    for (int i = 0; i < N; i++)
        for (int j = i; j <= N; j++) {
            long double want = 0, got = 0;
            for (int k = 0; k < M; k++) want += (long double)v[k * N + i] * (j < N ? v[k * N + j] : w[k]);
            for (int k = 0; k < N; k++) got += (long double)t[k * (N + 1) + i] * t[k * (N + 1) + j];
            assert_near(got, want, 1e-12 * M);
        }
}

/* ---- chains ---- */

static void chains_take_rows_for_values_gradients_and_jacobians(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "levenberg_marquardt(gauss_newton)",
                                         "gauss_newton | backtracking"};
    table t = open_table(NULL, 2, decay, 3, (double[]){1, 1, 0}, ROWS);
    gd_lsq_result all;
    assert_int_equal(gd_least_squares(t.p, 3, whole, &t, NULL, &all), GD_OK);
    double want[3];
    for (int i = 0; i < 3; i++) want[i] = gd_item(t.p[i]);
    for (int beside = 0; beside < 2; beside++)
        for (size_t k = 0; k < sizeof chains / sizeof *chains; k++) {
            gd_objective o = {.rows = rows_of(&t), .user = &t, .loss = beside ? whole : NULL};
            gd_solve_result r;
            for (int i = 0; i < 3; i++)
                assert_int_equal(gd_assign(t.p[i], gd_scalar(t.ctx, GD_F64, i == 2 ? 0 : 1)), GD_OK);
            assert_int_equal(gd_minimize(t.p, 3, &o, chains[k], NULL, &r), GD_OK);
            if (!r.converged) fail_msg("%s: %s", chains[k], gd_stop_text(r.reason));
            for (int i = 0; i < 3; i++) assert_near(gd_item(t.p[i]), want[i], 1e-6);
            assert_near(r.loss, all.rss, 1e-9 * all.rss);
        }
    gd_lsq_result_clear(&all);
    close_table(&t, NULL);
}

/* Rows give no second derivative: it comes from differences of their gradients. */
static void newton_takes_differences_of_gradients_of_rows(void **state)
{
    (void)state;
    table t = open_table(NULL, 2, decay, 3, (double[]){1, 1, 0}, ROWS);
    gd_lsq_result all;
    assert_int_equal(gd_least_squares(t.p, 3, whole, &t, NULL, &all), GD_OK);
    double want[3];
    for (int i = 0; i < 3; i++) {
        want[i] = gd_item(t.p[i]);
        assert_int_equal(gd_assign(t.p[i], gd_scalar(t.ctx, GD_F64, 1.1 * want[i])), GD_OK);
    }
    gd_objective o = {.rows = rows_of(&t)};
    gd_solve_result r;
    assert_int_equal(gd_minimize(t.p, 3, &o, "newton | backtracking", NULL, &r), GD_OK);
    assert_true(r.converged);
    for (int i = 0; i < 3; i++) assert_near(gd_item(t.p[i]), want[i], 1e-6);
    gd_lsq_result_clear(&all);
    close_table(&t, NULL);
}

/* ---- failures ---- */

static void a_range_that_fails_is_the_error_and_the_parameters_stay(void **state)
{
    (void)state;
    static const struct {
        gd_status status;
        const char *text;
    } want[] = {{GD_VALUE, "row 3333 is broken"},
                {GD_CALLBACK, "least squares: the function returned NULL"},
                {GD_SHAPE, "least squares: 1 residuals for 1024 rows"}};
    for (int kind = 0; kind < 3; kind++)
        for (int threads = 1; threads <= 3; threads++) {
            table t = open_table(NULL, threads, decay, 3, (double[]){1, 1, 0}, ROWS);
            t.fail_at = 3333;
            t.kind = kind;
            gd_lsq_result r = fit_rows(&t, 3, want[kind].status);
            assert_error(t.ctx, want[kind].status, want[kind].text);
            assert_true(gd_item(t.p[0]) == 1 && gd_item(t.p[2]) == 0 && !r.covariance);
            close_table(&t, NULL);
        }
}

static void wrong_tables_are_named(void **state)
{
    (void)state;
    for (int64_t rows = 20; rows <= ROWS; rows += ROWS - 20) {
        table t = open_table(NULL, 1, decay, 3, (double[]){1, 1, 0}, rows);
        gd_lsq_options o = gd_lsq_defaults();
        gd_rows given = *rows_of(&t);
        o.rows = &given;
        given.count++;
        assert_int_equal(gd_least_squares(t.p, 3, NULL, NULL, &o, NULL), GD_SHAPE);
        assert_error(t.ctx, GD_SHAPE, "rows: table 0 has not");
        given.count = 0;
        assert_int_equal(gd_least_squares(t.p, 3, NULL, NULL, &o, NULL), GD_SHAPE);
        assert_error(t.ctx, GD_SHAPE, "rows: there are none");
        given = *rows_of(&t);
        given.residuals = NULL;
        assert_int_equal(gd_least_squares(t.p, 3, NULL, NULL, &o, NULL), GD_ARGUMENT);
        assert_error(t.ctx, GD_ARGUMENT, "rows: no function");
        gd_tensor *none[2] = {t.data[0], NULL};
        given = *rows_of(&t);
        given.data = none;
        assert_int_equal(gd_least_squares(t.p, 3, NULL, NULL, &o, NULL), GD_ARGUMENT);
        assert_error(t.ctx, GD_ARGUMENT, "rows: table 1 is NULL");
        close_table(&t, NULL);
    }
}

static void *open_state(void *user, gd_ctx *ctx)
{
    table *t = user;
    if (t->kind == 9) return gd_fail(ctx, GD_VALUE, "not today") ? NULL : user;
    __atomic_add_fetch(&t->opened, 1, __ATOMIC_RELAXED);
    return user;
}
static void close_state(void *state) { __atomic_sub_fetch(&((table *)state)->opened, 1, __ATOMIC_RELAXED); }

static void what_a_thread_opens_is_closed(void **state)
{
    (void)state;
    for (int64_t rows = 20; rows <= ROWS; rows += ROWS - 20)
        for (int kind = 0; kind <= 9; kind += 9) {
            table t = open_table(NULL, 3, decay, 3, (double[]){1, 1, 0}, rows);
            gd_lsq_options o = gd_lsq_defaults();
            gd_rows given = *rows_of(&t);
            given.open = open_state;
            given.close = close_state;
            o.rows = &given;
            t.kind = kind;
            gd_lsq_result r;
            assert_int_equal(gd_least_squares(t.p, 3, NULL, NULL, &o, &r), kind ? GD_VALUE : GD_OK);
            if (kind) assert_error(t.ctx, GD_VALUE, "not today");
            assert_int_equal(t.opened, 0);
            gd_lsq_result_clear(&r);
            close_table(&t, NULL);
        }
}

static bool fits_by_rows(gd_ctx *ctx)
{
    table t = {.ctx = ctx, .model = line, .fail_at = -1};
    int64_t rows = 1500;
    for (int i = 0; i < 2; i++)
        if (!(t.p[i] = gd_require_grad(gd_scalar(ctx, GD_F64, 1)))) return false;
    for (int i = 0; i < 2; i++)
        if (!(t.data[i] = gd_ones(ctx, GD_F64, 1, &rows))) return false;
    for (int64_t i = 0; i < rows; i++) ((double *)gd_data_mut(t.data[0]))[i] = (double)i;
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    o.rows = rows_of(&t);
    bool ok = gd_least_squares(t.p, 2, NULL, NULL, &o, &r) == GD_OK;
    gd_lsq_result_clear(&r);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, fits_by_rows);
}

#define SCOPED(f) cmocka_unit_test_setup_teardown(f, begin_scoped_test, end_scoped_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_of_rows_give_the_fit_of_all_rows),
        cmocka_unit_test(traced_ranges_give_the_same_bits_and_are_called_in_the_first_ranges),
        cmocka_unit_test(a_line_through_many_rows_has_the_errors_of_linear_regression),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test(memory_is_that_of_a_range),
        cmocka_unit_test(few_rows_are_one_range),
        cmocka_unit_test(what_is_not_determined_is_said_of_many_rows),
        cmocka_unit_test(bounds_hold_for_many_rows_and_have_a_profile),
        cmocka_unit_test(passes_agree_with_closed_forms),
        SCOPED(a_tall_triangle_squares_nothing),
        SCOPED(a_tall_triangle_takes_numbers_of_any_size),
        SCOPED(the_triangle_of_few_rows_needs_no_copy_of_them),
        cmocka_unit_test(chains_take_rows_for_values_gradients_and_jacobians),
        cmocka_unit_test(newton_takes_differences_of_gradients_of_rows),
        cmocka_unit_test(a_range_that_fails_is_the_error_and_the_parameters_stay),
        cmocka_unit_test(wrong_tables_are_named),
        cmocka_unit_test(what_a_thread_opens_is_closed),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
