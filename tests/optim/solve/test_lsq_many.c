/* gd_least_squares_many: the numbers of single fits on any number of threads, rows of any length, each fit with its own status. */
#include "gradus/lsq.h"
#include "support/own_context.h"

#include <math.h>

#define FITS   60
#define PARAMS 3

typedef struct data {
    int64_t first[FITS + 1];
    double t[FITS * 60], y[FITS * 60], start[FITS * PARAMS];
    int64_t bad; /* a fit whose functions fail; -1: none */
} data;

static double noise(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (double)(*seed >> 8) / (1 << 24) - 0.5;
}

/* y = a exp(-b t) + c; lengths: 20 rows each, or up to 59. */
static void make_data(data *d, bool ragged)
{
    uint32_t seed = 11;
    d->first[0] = 0;
    d->bad = -1;
    for (int64_t f = 0; f < FITS; f++) {
        int64_t rows = ragged ? 12 + f * 7 % 48 : 20;
        d->first[f + 1] = d->first[f] + rows;
        for (int64_t i = 0; i < rows; i++) {
            double t = 5.0 * (double)i / (double)rows;
            d->t[d->first[f] + i] = t;
            d->y[d->first[f] + i] = (2 + 0.05 * (double)f) * exp(-(0.8 + 0.01 * (double)f) * t) + 0.5 +
                                    0.1 * noise(&seed);
        }
        for (int k = 0; k < PARAMS; k++) d->start[f * PARAMS + k] = 1 + 0.03 * (double)((f + k) % 7);
    }
}

static gd_tensor *model(void *state, gd_tensor *const *p, gd_tensor *const *column, int64_t first)
{
    (void)state, (void)first;
    return gd_sub(gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], column[0])))), p[2]), column[1]);
}

/* ---- the same as a single fit ---- */

typedef struct single {
    gd_tensor *p[PARAMS], *column[2];
} single;

static gd_tensor *single_residuals(void *user)
{
    single *s = user;
    return model(NULL, s->p, s->column, 0);
}

static double value(const gd_tensor *t, int64_t i) { return ((const double *)gd_data(t))[i]; }

static void near(double a, double b, double tolerance)
{
    if (!(fabs(a - b) <= tolerance * (1 + fabs(b))))
        fail_msg("%.17g is not %.17g within %g", a, b, tolerance);
}

static gd_status fit_rows(gd_ctx *with, data *d, const gd_lsq_options *o, double *x, double *errors,
                          gd_lsq_one *out)
{
    gd_scope_begin(with);
    int64_t rows = d->first[FITS];
    gd_tensor *table[] = {gd_from_f64(with, GD_F64, 1, &rows, d->t),
                          gd_from_f64(with, GD_F64, 1, &rows, d->y)};
    gd_tensor *like[PARAMS];
    for (int k = 0; k < PARAMS; k++) like[k] = gd_scalar(with, GD_F64, 1);
    gd_status status = gd_error(with);
    gd_rows r = {.count = rows, .data = table, .columns = 2, .residuals = model};
    gd_lsq_many many = {
        .fits = FITS, .rows = &r, .like = like, .like_count = PARAMS, .first = d->first, .errors = errors};
    memcpy(x, d->start, sizeof d->start);
    if (!status) status = gd_least_squares_many(with, &many, o, x, out);
    gd_scope_end(with);
    return status;
}

static void check_singles(bool ragged)
{
    static data d;
    double x[FITS * PARAMS], errors[FITS * PARAMS];
    gd_lsq_one out[FITS];
    make_data(&d, ragged);
    assert_int_equal(fit_rows(ctx, &d, NULL, x, errors, out), GD_OK);
    for (int f = 0; f < FITS; f++) {
        gd_scope_begin(ctx);
        int64_t rows = d.first[f + 1] - d.first[f];
        single s = {.column = {gd_from_f64(ctx, GD_F64, 1, &rows, d.t + d.first[f]),
                               gd_from_f64(ctx, GD_F64, 1, &rows, d.y + d.first[f])}};
        for (int k = 0; k < PARAMS; k++)
            s.p[k] = gd_require_grad(gd_scalar(ctx, GD_F64, d.start[f * PARAMS + k]));
        gd_lsq_result want;
        assert_int_equal(gd_least_squares(s.p, PARAMS, single_residuals, &s, NULL, &want), GD_OK);
        assert_int_equal(out[f].status, GD_OK);
        assert_true(out[f].converged && want.solve.converged);
        assert_int_equal(out[f].residuals, rows);
        assert_int_equal(out[f].dof, rows - PARAMS);
        near(out[f].rss, want.rss, 1e-12);
        near(out[f].sigma, want.sigma, 1e-12);
        for (int k = 0; k < PARAMS; k++) {
            near(x[f * PARAMS + k], gd_item(s.p[k]), 1e-12);
            near(errors[f * PARAMS + k], value(want.standard_errors, k), 1e-11);
        }
        gd_lsq_result_clear(&want);
        gd_scope_end(ctx);
    }
}

static void each_fit_has_the_numbers_of_a_single_one(void **state)
{
    (void)state;
    check_singles(false);
}

static void rows_may_have_many_lengths(void **state)
{
    (void)state;
    check_singles(true);
}

static void any_number_of_threads_gives_the_same_bits(void **state)
{
    (void)state;
    static data d;
    make_data(&d, true);
    double x[3][FITS * PARAMS], errors[3][FITS * PARAMS];
    gd_lsq_one out[FITS];
    for (int threads = 1; threads <= 3; threads++) {
        memory m = {0};
        gd_ctx *other = context(&m, threads, NULL);
        assert_int_equal(fit_rows(other, &d, NULL, x[threads - 1], errors[threads - 1], out), GD_OK);
        end_context(other, &m);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(x[0], x[2], sizeof x[0]);
    assert_memory_equal(errors[0], errors[2], sizeof errors[0]);
}

/* ---- problems of arrays ---- */

typedef struct shown {
    data *d;
    int64_t fit;
} shown;

static gd_status residual(void *user, const double *x, double *r)
{
    const shown *s = user;
    int64_t first = s->d->first[s->fit];
    if (s->fit == s->d->bad) return GD_CALLBACK;
    for (int64_t i = 0; i < s->d->first[s->fit + 1] - first; i++)
        r[i] = x[0] * exp(-x[1] * s->d->t[first + i]) + x[2] - s->d->y[first + i];
    return GD_OK;
}

static void *open_shown(void *user, gd_ctx *with)
{
    shown *s = malloc(sizeof *s);
    (void)with;
    *s = (shown){.d = user};
    return s;
}

static gd_status problem_of(void *state, int64_t fit, gd_lsq_problem *out)
{
    shown *s = state;
    s->fit = fit;
    *out = (gd_lsq_problem){.residuals = s->d->first[fit + 1] - s->d->first[fit],
                            .params = PARAMS,
                            .user = s,
                            .residual = residual};
    return GD_OK;
}

static void a_fit_that_fails_does_not_end_the_others(void **state)
{
    (void)state;
    static data d;
    make_data(&d, false);
    d.bad = 7;
    for (int64_t i = d.first[9]; i < d.first[10]; i++) d.y[i] = NAN;
    double x[FITS * PARAMS], low[FITS * PARAMS], high[FITS * PARAMS];
    for (int i = 0; i < FITS * PARAMS; i++) low[i] = -100, high[i] = 100;
    high[3 * PARAMS] = 1.25; /* fit 3 has a bound of its own */
    memcpy(x, d.start, sizeof d.start);
    gd_lsq_one out[FITS];
    gd_lsq_many many = {.fits = FITS,
                        .params = PARAMS,
                        .user = &d,
                        .open = open_shown,
                        .close = free,
                        .problem = problem_of,
                        .low = low,
                        .high = high};
    assert_int_equal(gd_least_squares_many(ctx, &many, NULL, x, out), GD_OK);
    for (int f = 0; f < FITS; f++) {
        assert_int_equal(out[f].status, f == 7 ? GD_CALLBACK : GD_OK);
        assert_true(out[f].converged == (f != 7 && f != 9));
        if (f == 9) assert_int_equal(out[f].reason, GD_STOP_NOT_FINITE);
        if (f == 3) assert_true(x[f * PARAMS] == 1.25 && out[f].free == 2);
    }
}

/* Without noise a fit ends where rounding is all that is left, whatever the last digits of the data are. */
static void fits_of_exact_data_converge(void **state)
{
    (void)state;
    static data d;
    double x[FITS * PARAMS];
    gd_lsq_one out[FITS];
    gd_lsq_many many = {
        .fits = FITS, .params = PARAMS, .user = &d, .open = open_shown, .close = free, .problem = problem_of};
    make_data(&d, false);
    for (int round = 0; round < 20; round++) {
        double end = 0.3 + 0.037 * round;
        for (int f = 0; f < FITS; f++)
            for (int64_t i = d.first[f]; i < d.first[f + 1]; i++)
                d.y[i] = (2 + 0.05 * f) * exp(-(0.8 + 0.01 * f) * d.t[i]) + end;
        memcpy(x, d.start, sizeof d.start);
        assert_int_equal(gd_least_squares_many(ctx, &many, NULL, x, out), GD_OK);
        for (int f = 0; f < FITS; f++) {
            if (!out[f].converged || !(out[f].rss < 1e-26))
                fail_msg("round %d, fit %d: %s, %g", round, f, gd_stop_name(out[f].reason), out[f].rss);
            if (fabs(x[f * PARAMS + 2] - end) > 1e-13) fail_msg("fit %d: %.17g", f, x[f * PARAMS + 2]);
        }
    }
}

static void what_is_missing_is_said(void **state)
{
    (void)state;
    gd_lsq_many many = {.fits = 2};
    double x[6];
    gd_lsq_one out[2];
    assert_int_equal(gd_least_squares_many(ctx, &many, NULL, x, out), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "least squares: 2 fits of 0 parameters need a problem or rows");
    int64_t first[] = {0, 30, 20}, rows = 20;
    gd_tensor *t = gd_zeros(ctx, GD_F64, 1, &rows), *table[] = {t, t}, *like[] = {gd_scalar(ctx, GD_F64, 1)};
    gd_rows r = {.count = rows, .data = table, .columns = 2, .residuals = model};
    many = (gd_lsq_many){.fits = 2, .rows = &r, .like = like, .like_count = 1, .first = first};
    assert_int_equal(gd_least_squares_many(ctx, &many, NULL, x, out), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "least squares: fit 0 has rows 0 to 30 of 20");
}

static bool few_fits(gd_ctx *other)
{
    static data d;
    make_data(&d, false);
    gd_scope_begin(other);
    int64_t rows = d.first[2];
    gd_tensor *table[] = {gd_from_f64(other, GD_F64, 1, &rows, d.t),
                          gd_from_f64(other, GD_F64, 1, &rows, d.y)};
    gd_tensor *like[PARAMS];
    for (int k = 0; k < PARAMS; k++) like[k] = gd_scalar(other, GD_F64, 1);
    gd_rows r = {.count = rows, .data = table, .columns = 2, .residuals = model};
    gd_lsq_many many = {.fits = 2, .rows = &r, .like = like, .like_count = PARAMS, .first = d.first};
    double x[2 * PARAMS];
    gd_lsq_one out[2];
    for (int i = 0; i < 2 * PARAMS; i++) x[i] = 1;
    gd_lsq_options o = gd_lsq_defaults();
    o.solve.max_steps = 2;
    bool ok = !gd_error(other) && gd_least_squares_many(other, &many, &o, x, out) == GD_OK;
    gd_scope_end(other);
    return ok;
}

static void failed_allocations_are_errors(void **state)
{
    (void)state;
    fail_each_allocation(1, few_fits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_fit_has_the_numbers_of_a_single_one, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(rows_may_have_many_lengths, start_scope, stop_scope),
        cmocka_unit_test(any_number_of_threads_gives_the_same_bits),
        cmocka_unit_test_setup_teardown(a_fit_that_fails_does_not_end_the_others, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(fits_of_exact_data_converge, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(what_is_missing_is_said, start_scope, stop_scope),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
