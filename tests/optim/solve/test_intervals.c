/* Profile and bootstrap intervals: other programs' numbers on the same data, and how often they hold the truth.
 *
 * References: SciPy 1.17, least_squares and brentq for profiles (R's confint gives 197.302 .. 229.290 and 0.04692 .. 0.08616),
 * stats.bootstrap with 200000 resamples and exact jackknife for BCa. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

typedef struct fit {
    gd_ctx *ctx;
    gd_tensor *p[2], *x, *y;
    gd_tensor *(*model)(struct fit *f);
} fit;

static gd_tensor *residuals(void *user)
{
    fit *f = user;
    return gd_sub(f->model(f), f->y);
}

static gd_tensor *line(fit *f) { return gd_add(f->p[0], gd_mul(f->p[1], f->x)); }
static gd_tensor *decay(fit *f) { return gd_mul(f->p[0], gd_exp(gd_neg(gd_mul(f->p[1], f->x)))); }
static gd_tensor *saturation(fit *f) { return gd_div(gd_mul(f->p[0], f->x), gd_add(f->p[1], f->x)); }

static fit open_fit(memory *m, gd_tensor *(*model)(fit *f), double a, double b, int64_t rows, const double *x,
                    const double *y)
{
    fit f = {.ctx = context(m, 1, NULL), .model = model};
    gd_scope_begin(f.ctx);
    f.p[0] = gd_require_grad(gd_scalar(f.ctx, GD_F64, a));
    f.p[1] = gd_require_grad(gd_scalar(f.ctx, GD_F64, b));
    f.x = gd_from_f64(f.ctx, GD_F64, 1, &rows, x);
    f.y = gd_from_f64(f.ctx, GD_F64, 1, &rows, y);
    return f;
}

static void close_fit(fit *f, memory *m)
{
    gd_scope_end(f->ctx);
    end_context(f->ctx, m);
}

static void near(const char *what, double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance)) fail_msg("%s: %.12g, want %.12g", what, value, want);
}

static void profiles_agree_with_those_of_others(void **state)
{
    (void)state;
    static const double x[] = {0.02, 0.02, 0.06, 0.06, 0.11, 0.11, 0.22, 0.22, 0.56, 0.56, 1.10, 1.10},
                        y[] = {76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200};
    fit f = open_fit(NULL, saturation, 200, 0.05, 12, x, y);
    gd_lsq_result r;
    double ends[2];
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(gd_lsq_profile(f.p, 2, residuals, &f, NULL, &r, 0, 2.2281388519649385, ends, NULL),
                     GD_OK);
    near("Vm", ends[0], 197.3019329, 1e-5);
    near("Vm", ends[1], 229.2890551, 1e-5);
    assert_int_equal(gd_lsq_profile(f.p, 2, residuals, &f, NULL, &r, 1, 2.2281388519649385, ends, NULL),
                     GD_OK);
    near("K", ends[0], 0.04692034204, 1e-8);
    near("K", ends[1], 0.08615691343, 1e-8);
    gd_lsq_result_clear(&r);
    close_fit(&f, NULL);
}

/* max_evals and max_seconds are those of the call: what they leave out is not known, which is said. */
static void limits_hold_for_all_fits_of_an_interval(void **state)
{
    (void)state;
    static const double x[] = {0.02, 0.02, 0.06, 0.06, 0.11, 0.11, 0.22, 0.22, 0.56, 0.56, 1.10, 1.10},
                        y[] = {76, 47, 97, 107, 123, 139, 159, 152, 191, 201, 207, 200};
    for (int timed = 0; timed < 2; timed++) {
        fit f = open_fit(NULL, saturation, 200, 0.05, 12, x, y);
        gd_lsq_options o = gd_lsq_defaults();
        gd_lsq_result r;
        double ends[2], samples[20], best;
        int64_t warnings = gd_warning_count(f.ctx);
        assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
        best = gd_item(f.p[0]);
        o.solve.max_evals = timed ? 0 : 9;
        o.solve.max_seconds = timed ? 1e-9 : 0;
        assert_int_equal(gd_lsq_profile(f.p, 2, residuals, &f, &o, &r, 0, 2.2281388519649385, ends, NULL),
                         GD_OK);
        assert_true(isnan(ends[0]) && isnan(ends[1]));
        assert_int_equal(gd_warning_count(f.ctx), warnings + 2);
        assert_non_null(
            strstr(gd_warning_text(f.ctx), "profile: the interval of element 0 has no upper end: "));
        assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, &o, &r, false, 1, 0, 10, samples), GD_OK);
        assert_true(isnan(samples[18]) && isnan(samples[19]));
        assert_non_null(strstr(gd_warning_text(f.ctx), "bootstrap: not all of 10 resamples were fitted: "));
        assert_true(gd_item(f.p[0]) == best);
        gd_lsq_result_clear(&r);
        close_fit(&f, NULL);
    }
}

static bool stop(void *user, const gd_progress *progress)
{
    (void)user;
    (void)progress;
    return false;
}

/* The status alone would leave a caller that asks the context with no error at all. */
static void what_a_callback_stops_says_so_and_leaves_the_parameters(void **state)
{
    (void)state;
    static const double x[] = {0, 1, 2, 3, 4, 5}, y[] = {5, 3.1, 1.7, 1.2, 0.6, 0.5};
    fit f = open_fit(NULL, decay, 4, 0.4, 6, x, y);
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    double ends[2], samples[8];
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    double a = gd_item(f.p[0]), b = gd_item(f.p[1]);
    o.solve.callback = stop;
    assert_int_equal(gd_lsq_profile(f.p, 2, residuals, &f, &o, &r, 0, 2.8, ends, NULL), GD_INTERRUPTED);
    assert_error(f.ctx, GD_INTERRUPTED, "profile: the callback stopped it");
    assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, &o, &r, false, 1, 0, 4, samples), GD_INTERRUPTED);
    assert_error(f.ctx, GD_INTERRUPTED, "bootstrap: the callback stopped it");
    assert_true(gd_item(f.p[0]) == a && gd_item(f.p[1]) == b);
    gd_lsq_result_clear(&r);
    close_fit(&f, NULL);
}

/* Errors that are skew and grow with x: percentiles of the slope would be 0.8713 .. 1.3662. */
static const double skew_y[60] = {
    1.066,  1.299,  2.0011, 2.5987, 1.4644, 1.471,  1.6565, 1.4878, 2.1973, 1.5828, 1.9328,  4.2228,
    1.9205, 2.7973, 2.2503, 3.5759, 2.7153, 3.2844, 2.3208, 2.2853, 2.1881, 3.318,  3.1419,  3.5209,
    3.0552, 3.0469, 3.1302, 3.1925, 2.7035, 4.9686, 4.2756, 2.9093, 4.4842, 6.3356, 3.2471,  3.9547,
    3.2827, 4.6268, 5.7637, 4.3962, 5.013,  4.8503, 4.4321, 5.7741, 4.1043, 6.294,  9.5085,  4.0471,
    7.0177, 4.8686, 4.6709, 4.307,  8.4443, 4.3207, 6.2907, 5.1435, 7.9824, 6.082,  10.7572, 4.8085};

#define SAMPLES 8000

/* A suite that is run once more takes an eighth of the work, and looser limits. */
static int part_of(int work) { return test_share() > 1 ? work / 8 : work; }
static double loose(double tolerance) { return test_share() > 1 ? 3 * tolerance : tolerance; }

static fit open_skew(memory *m)
{
    double x[60];
    for (int i = 0; i < 60; i++) x[i] = round(1e4 * 5 * i / 59.0) / 1e4;
    return open_fit(m, line, 0, 0, 60, x, skew_y);
}

static void resampled_rows_agree_with_those_of_others(void **state)
{
    (void)state;
    static double samples[SAMPLES * 2], part[100 * 2];
    fit f = open_skew(NULL);
    gd_lsq_result r;
    double ends[4];
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, false, 7, 0, part_of(SAMPLES), samples),
                     GD_OK);
    near("slope", gd_item(f.p[1]), 1.1060826112505313, 1e-10); /* put back */
    assert_int_equal(gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, part_of(SAMPLES), 0.95, ends),
                     GD_OK);
    near("intercept", ends[0], 0.70859, loose(0.02));
    near("intercept", ends[1], 1.63343, loose(0.02));
    near("slope", ends[2], 0.89436, loose(0.02));
    near("slope", ends[3], 1.39979, loose(0.02));
    /* any part of the series by itself */
    assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, false, 7, 300, 100, part), GD_OK);
    assert_memory_equal(part, samples + 600, sizeof part);
    assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, false, 8, 300, 100, part), GD_OK);
    assert_true(memcmp(part, samples + 600, sizeof part) != 0);
    gd_lsq_result_clear(&r);
    close_fit(&f, NULL);
}

/* Residuals drawn around a line have the spread of the textbook, 1/(n - p) in its place: their mean square by 1 - leverage is
 * about sigma^2. */
static void resampled_residuals_spread_as_the_errors_say(void **state)
{
    (void)state;
    static double samples[SAMPLES * 2];
    fit f = open_skew(NULL);
    gd_lsq_result r;
    double error[2];
    const int count = part_of(SAMPLES);
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    assert_int_equal(gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, true, 7, 0, part_of(SAMPLES), samples),
                     GD_OK);
    assert_int_equal(gd_read_f64(r.standard_errors, error, 2), GD_OK);
    for (int k = 0; k < 2; k++) {
        double mean = 0, square = 0;
        for (int i = 0; i < count; i++) mean += samples[2 * i + k] / count;
        for (int i = 0; i < count; i++) square += pow(samples[2 * i + k] - mean, 2) / count;
        near("mean", mean, gd_item(f.p[k]), 5 * error[k] / sqrt(count));
        near("error", sqrt(square), error[k], loose(0.03) * error[k]);
    }
    gd_lsq_result_clear(&r);
    close_fit(&f, NULL);
}

/* ---- how often the truth is inside ---- */

#define SETS 2000
#define ROWS 50

static double truth(double x) { return 3 * exp(-0.4 * x); }

/* Normal errors of the library's generator, the same in every run. */
static void make_data(gd_ctx *ctx, gd_tensor *y, const double *x)
{
    double *v = gd_data_mut(y);
    gd_tensor *noise = gd_randn(ctx, GD_F64, 1, (int64_t[]){ROWS});
    const double *e = gd_data(noise);
    for (int i = 0; i < ROWS; i++) v[i] = truth(x[i]) + 0.3 * e[i];
    gd_release(noise);
}

/* 93 to 97 % of 2000 sets; of fewer, as much more as their number leaves to chance. */
static void check_coverage(const char *what, int inside, int sets)
{
    double part = (double)inside / sets;
    if (fabs(part - 0.95) > 0.02 * sqrt((double)SETS / sets))
        fail_msg("%s: %d of %d intervals hold the truth", what, inside, sets);
}

static const double want[] = {3, 0.4};

static void intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    (void)state;
    const double t48 = 2.010634757624232;
    double x[ROWS];
    int normal[2] = {0, 0}, profile[2] = {0, 0};
    for (int i = 0; i < ROWS; i++) x[i] = 0.1 * i;
    fit f = open_fit(NULL, decay, 3, 0.4, ROWS, x, x);
    gd_seed(f.ctx, 11);
    for (int set = 0; set < part_of(SETS); set++) {
        gd_lsq_result r;
        double error[2], ends[2];
        make_data(f.ctx, f.y, x);
        for (int k = 0; k < 2; k++) *(double *)gd_data_mut(f.p[k]) = want[k];
        assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
        assert_int_equal(gd_read_f64(r.standard_errors, error, 2), GD_OK);
        for (int k = 0; k < 2; k++) normal[k] += fabs(gd_item(f.p[k]) - want[k]) <= t48 * error[k];
        for (int k = set % 4 ? 1 : 0; k < 2; k++) { /* of a in every fourth set */
            assert_int_equal(gd_lsq_profile(f.p, 2, residuals, &f, NULL, &r, k, t48, ends, NULL), GD_OK);
            profile[k] += ends[0] <= want[k] && want[k] <= ends[1];
        }
        gd_lsq_result_clear(&r);
    }
    check_coverage("normal, a", normal[0], part_of(SETS));
    check_coverage("normal, b", normal[1], part_of(SETS));
    check_coverage("profile, a", profile[0], (part_of(SETS) + 3) / 4);
    check_coverage("profile, b", profile[1], part_of(SETS));
    close_fit(&f, NULL);
}

#define RESAMPLES 500

/* Values of a line through rows that count as often as `times` says. */
static void fit_line(int64_t rows, const double *x, const double *y, const double *times, double *out)
{
    double s[5] = {0};
    for (int64_t i = 0; i < rows; i++) {
        double w = times ? times[i] : 1;
        s[0] += w, s[1] += w * x[i], s[2] += w * x[i] * x[i], s[3] += w * y[i], s[4] += w * x[i] * y[i];
    }
    out[1] = (s[0] * s[4] - s[1] * s[3]) / (s[0] * s[2] - s[1] * s[1]);
    out[0] = (s[3] - out[1] * s[1]) / s[0];
}

static int64_t draw(uint64_t *seed, int64_t count)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((double)(*seed >> 11) * 0x1p-53 * (double)count);
}

/* Lines through resampled rows, or the line plus resampled residuals divided by sqrt(1 - leverage), by the textbook. */
static void resample_line(int64_t rows, const double *x, const double *y, bool of_residuals, uint64_t *seed,
                          double *samples)
{
    double best[2], pull[ROWS], times[ROWS], other[ROWS], mean = 0, middle = 0, square = 0;
    fit_line(rows, x, y, NULL, best);
    for (int64_t i = 0; i < rows; i++) middle += x[i] / (double)rows;
    for (int64_t i = 0; i < rows; i++) square += pow(x[i] - middle, 2);
    for (int64_t i = 0; i < rows; i++) {
        double leverage = 1 / (double)rows + pow(x[i] - middle, 2) / square;
        pull[i] = (y[i] - best[0] - best[1] * x[i]) / sqrt(1 - leverage);
        mean += pull[i] / (double)rows;
    }
    for (int k = 0; k < RESAMPLES; k++) {
        for (int64_t i = 0; i < rows; i++) times[i] = 0;
        for (int64_t i = 0; i < rows; i++) {
            int64_t row = draw(seed, rows);
            times[row]++;
            other[i] = best[0] + best[1] * x[i] + pull[row] - mean;
        }
        fit_line(rows, x, of_residuals ? other : y, of_residuals ? NULL : times, samples + 2 * k);
    }
}

/* Lines are resampled here by themselves: what is looked at is the intervals, and there is time for 2000 sets.  Without
 * gd_lsq_bca_level 90.9 to 93.2 % of those of 20 rows hold. */
static void resampled_intervals_of_few_rows_hold_as_often_as_they_say(void **state)
{
    (void)state;
    static double samples[2 * RESAMPLES];
    static const int64_t sizes[] = {20, ROWS};
    const double line_truth[] = {1, 0.5};
    for (int size = 0; size < COUNT_OF(sizes); size++)
        for (int of_residuals = 0; of_residuals < 2; of_residuals++) {
            int64_t rows = sizes[size];
            double x[ROWS], y[ROWS];
            int inside[2] = {0, 0};
            uint64_t seed = 3;
            for (int64_t i = 0; i < rows; i++) x[i] = y[i] = 5 * (double)i / (double)(rows - 1);
            fit f = open_fit(NULL, line, 1, 0.5, rows, x, y);
            gd_seed(f.ctx, 13);
            for (int set = 0; set < part_of(SETS); set++) {
                gd_lsq_result r;
                double ends[4];
                gd_tensor *noise = gd_randn(f.ctx, GD_F64, 1, &rows);
                const double *e = gd_data(noise);
                for (int64_t i = 0; i < rows; i++) y[i] = 1 + 0.5 * x[i] + 0.7 * e[i];
                memcpy(gd_data_mut(f.y), y, (size_t)rows * sizeof *y);
                gd_release(noise);
                assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
                resample_line(rows, x, y, of_residuals, &seed, samples);
                double level = gd_lsq_bca_level(&r, of_residuals, 0.95);
                assert_int_equal(gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, RESAMPLES, level, ends),
                                 GD_OK);
                for (int k = 0; k < 2; k++)
                    inside[k] += ends[2 * k] <= line_truth[k] && line_truth[k] <= ends[2 * k + 1];
                gd_lsq_result_clear(&r);
            }
            for (int k = 0; k < 2; k++) {
                char what[80];
                snprintf(what, sizeof what, "%s of %lld, %s", of_residuals ? "residuals" : "rows",
                         (long long)rows, k ? "slope" : "intercept");
                check_coverage(what, inside[k], part_of(SETS));
            }
            close_fit(&f, NULL);
        }
}

#define RESAMPLED 50  /* sets */
#define FEWER     200 /* resamples of each */

/* The same by fits of resampled rows, and of resampled residuals, which no formula of errors enters: all of the way, with as many sets as
 * a test has time for.  Of 2000 with 500 resamples each, by rows 93.65 (a) and 94.5 % (b), by residuals 94.8 and 95.15 % hold; without
 * gd_lsq_bca_level it was 92.4 and 93.9 % of both kinds. */
static void resampled_intervals_hold_the_truth_as_often_as_they_say(void **state)
{
    (void)state;
    static double samples[2 * FEWER];
    double x[ROWS];
    int inside[2] = {0, 0};
    for (int i = 0; i < ROWS; i++) x[i] = 0.1 * i;
    fit f = open_fit(NULL, decay, 3, 0.4, ROWS, x, x);
    gd_seed(f.ctx, 12);
    for (int set = 0; set < part_of(RESAMPLED); set++) {
        gd_lsq_result r;
        double ends[4];
        make_data(f.ctx, f.y, x);
        for (int k = 0; k < 2; k++) *(double *)gd_data_mut(f.p[k]) = want[k];
        assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
        assert_int_equal(
            gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, set % 2, (uint64_t)set, 0, FEWER, samples),
            GD_OK);
        double level = gd_lsq_bca_level(&r, set % 2, 0.95);
        assert_int_equal(gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, FEWER, level, ends), GD_OK);
        for (int k = 0; k < 2; k++) inside[k] += ends[2 * k] <= want[k] && want[k] <= ends[2 * k + 1];
        gd_lsq_result_clear(&r);
    }
    check_coverage("bootstrap, a", inside[0], part_of(RESAMPLED));
    check_coverage("bootstrap, b", inside[1], part_of(RESAMPLED));
    close_fit(&f, NULL);
}

/* ---- what cannot be ---- */

static void what_cannot_be_resampled_is_said(void **state)
{
    (void)state;
    double samples[40], ends[4];
    fit f = open_skew(NULL);
    gd_lsq_result r;
    assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
    for (int i = 0; i < 40; i++) samples[i] = i < 10 ? (double)NAN : i;
    assert_int_equal(gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, 20, 0.95, ends), GD_VALUE);
    assert_error(f.ctx, GD_VALUE, "bootstrap: 5 of 20 fits of resampled rows did not converge");
    assert_int_equal(gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, 20, 1, ends), GD_ARGUMENT);
    gd_lsq_result_clear(&r);
    close_fit(&f, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    bool failed = true;
    for (int64_t k = 1; failed; k += k < 30 ? 1 : 31) {
        memory m = {0};
        fit f = open_skew(&m);
        gd_lsq_result r;
        double samples[4], ends[4];
        assert_int_equal(gd_least_squares(f.p, 2, residuals, &f, NULL, &r), GD_OK);
        m.fail_at = m.requests + k;
        gd_status status = gd_lsq_resample(f.p, 2, residuals, &f, NULL, &r, true, 7, 0, 2, samples);
        if (!status) status = gd_lsq_bca(f.p, 2, residuals, &f, NULL, &r, samples, 2, 0.95, ends);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(status == GD_OK || status == GD_NOMEM);
        gd_lsq_result_clear(&r);
        gd_clear_error(f.ctx);
        close_fit(&f, &m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(profiles_agree_with_those_of_others),
        cmocka_unit_test(limits_hold_for_all_fits_of_an_interval),
        cmocka_unit_test(what_a_callback_stops_says_so_and_leaves_the_parameters),
        cmocka_unit_test(resampled_rows_agree_with_those_of_others),
        cmocka_unit_test(resampled_residuals_spread_as_the_errors_say),
        cmocka_unit_test(intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(resampled_intervals_of_few_rows_hold_as_often_as_they_say),
        cmocka_unit_test(resampled_intervals_hold_the_truth_as_often_as_they_say),
        cmocka_unit_test(what_cannot_be_resampled_is_said),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
