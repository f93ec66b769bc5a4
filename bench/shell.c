/* Fits as the command line makes them, against scipy.optimize.curve_fit and lmfit with exact Jacobians. */
#include "bench.h"
#include "gradus/solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ROWS  1000000
#define PEAKS 50
#define FEW   1000
#define NOISE 0.1 /* as in scipy_fit.py */

typedef struct curve {
    gd_ctx *ctx;
    gd_tensor *p[6], *data[2];
    double start[6 > 3 * PEAKS ? 6 : 3 * PEAKS];
    int params;
    int64_t elements;
    gd_rows rows;
} curve;

static double noise(int64_t i) { return NOISE * ((double)(i * 7919 % 10007) / 10007 - 0.5); }

static gd_tensor *peak(gd_tensor *t, gd_tensor *middle, gd_tensor *width)
{
    return gd_exp(gd_neg(gd_square(gd_div(gd_sub(t, middle), width))));
}

static gd_tensor *decay(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    (void)user, (void)first;
    gd_tensor *fall = gd_mul(p[0], gd_exp(gd_mul(gd_neg(p[1]), data[0])));
    return gd_sub(gd_add(gd_add(fall, gd_mul(p[2], peak(data[0], p[3], p[4]))), p[5]), data[1]);
}

/* Heights, middles and widths are a parameter each. */
static gd_tensor *peaks(void *user, gd_tensor *const *p, gd_tensor *const *data, int64_t first)
{
    (void)user, (void)first;
    gd_tensor *all = gd_mul(peak(gd_unsqueeze(data[0], 1, NULL), p[1], p[2]), p[0]);
    return gd_sub(gd_sum(all, "1", false), data[1]);
}

static void fit(void *arg)
{
    curve *c = arg;
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    o.rows = &c->rows;
    const double *from = c->start;
    gd_scope_begin(c->ctx);
    for (int i = 0; i < c->params; from += gd_numel(c->p[i++])) {
        int64_t size = gd_numel(c->p[i]);
        gd_tensor *start = gd_from_f64(c->ctx, GD_F64, gd_ndim(c->p[i]), &size, from);
        if (!start || gd_assign(c->p[i], start)) bench_check(c->ctx);
    }
    if (gd_least_squares(c->p, c->params, NULL, NULL, &o, &r) || !r.solve.converged) bench_check(c->ctx);
    gd_lsq_result_clear(&r);
    gd_scope_end(c->ctx);
}

static void set_data(curve *c, int64_t rows)
{
    for (int i = 0; i < 2; i++) c->data[i] = gd_empty(c->ctx, GD_F64, 1, &rows);
    bench_check(c->ctx);
    c->rows.count = rows;
    c->rows.data = c->data;
    c->rows.columns = 2;
}

static void open_decay(curve *c, int threads)
{
    static const double start[6] = {1, 1, 1, 4, 1, 0};
    *c = (curve){.ctx = bench_context(threads), .params = 6, .rows.residuals = decay};
    set_data(c, ROWS);
    double *t = gd_data_mut(c->data[0]), *y = gd_data_mut(c->data[1]);
    for (int64_t i = 0; i < ROWS; i++) {
        double z = ((t[i] = 10.0 * (double)i / ROWS) - 5) / 0.8;
        y[i] = 2.5 * exp(-0.7 * t[i]) + 1.2 * exp(-z * z) + 0.3 + noise(i);
    }
    for (int i = 0; i < 6; i++) c->p[i] = gd_require_grad(gd_scalar(c->ctx, GD_F64, c->start[i] = start[i]));
}

static void open_peaks(curve *c)
{
    int64_t size = PEAKS;
    *c = (curve){.ctx = bench_context(1), .params = 3, .rows.residuals = peaks};
    set_data(c, FEW);
    double *t = gd_data_mut(c->data[0]), *y = gd_data_mut(c->data[1]);
    for (int64_t i = 0; i < FEW; i++) {
        t[i] = (double)PEAKS * (double)i / FEW;
        y[i] = noise(i);
        for (int k = 0; k < PEAKS; k++) {
            double z = (t[i] - k - 0.5) / (0.4 + 0.1 * cos(k));
            y[i] += (1 + 0.5 * sin(k)) * exp(-z * z);
        }
    }
    for (int k = 0; k < PEAKS; k++) {
        c->start[k] = 1;
        c->start[PEAKS + k] = k + 0.45;
        c->start[2 * PEAKS + k] = 0.45;
    }
    for (int i = 0; i < 3; i++)
        c->p[i] = gd_require_grad(gd_from_f64(c->ctx, GD_F64, 1, &size, c->start + i * PEAKS));
}

static void close_curve(curve *c)
{
    for (int i = 0; i < c->params; i++) gd_release(c->p[i]);
    for (int i = 0; i < 2; i++) gd_release(c->data[i]);
    bench_check(c->ctx);
    gd_ctx_free(c->ctx);
}

double bench_fit_rows(int threads, bool traced)
{
    curve c;
    open_decay(&c, threads);
    c.rows.traced = traced;
    double seconds = 1e30;
    for (int i = 0; i < 6; i++) {
        double begin = bench_now();
        fit(&c);
        double took = bench_now() - begin;
        seconds = took < seconds ? took : seconds;
    }
    close_curve(&c);
    return seconds;
}

/* Seconds over a million rows and over few, by SciPy and by lmfit; 0: it is not there. */
typedef struct other_times {
    double rows, few, lmfit_rows, lmfit_few;
} other_times;

static bool scipy_times(other_times *t)
{
    char line[128] = "";
    FILE *out = bench_python("scipy_fit.py", 1);
    if (!out) return false;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    return pclose(out) == 0 &&
           sscanf(line, "%lf %lf %lf %lf", &t->rows, &t->few, &t->lmfit_rows, &t->lmfit_few) == 4;
}

double bench_scipy_rows(void)
{
    other_times t = {0};
    return scipy_times(&t) ? t.rows : 0;
}

/* The default of gradus minimize beside L-BFGS-B on the problems of the tests, which a program of theirs evaluates. */
static void compare_evaluations(void)
{
#ifdef GD_BENCH_PROBLEMS
    char line[128] = "";
    int all = 0, ours = 0, theirs = 0;
    double ratio = 0;
    (void)setenv("GRADUS_PROBLEMS", GD_BENCH_PROBLEMS, 1);
    FILE *out = bench_python("scipy_problems.py", 1);
    if (!out) return;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    if (pclose(out) != 0 || sscanf(line, "%d %d %d %lf", &all, &ours, &theirs, &ratio) != 4) return;
    char name[96];
    (void)snprintf(name, sizeof name, "minimize, evaluations on %d problems", all);
    bench_report((report){.name = name, .value = ratio, .unit = "x", .limit = 1.2});
    bench_report((report){.name = "minimize, problems solved",
                          .value = ours,
                          .unit = "",
                          .against = "SciPy L-BFGS-B",
                          .other = theirs,
                          .limit = 0});
    if (ours < theirs)
        bench_report(
            (report){.name = "fewer are solved than by SciPy", .value = 1, .limit = 0.5, .unit = ""});
#endif
}

static void against_lmfit(const char *name, double ours, double theirs)
{
    bench_report((report){.name = name,
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = theirs > 0 ? "lmfit" : NULL,
                          .other = 1e3 * theirs});
}

void bench_shell(void)
{
    curve one, two, few;
    double alone, both;
    other_times other = {0};
    open_decay(&one, 1);
    open_decay(&two, 2);
    bench_compare(fit, &one, fit, &two, &alone, &both);
    close_curve(&one);
    close_curve(&two);
    open_peaks(&few);
    double small = bench_time(fit, &few);
    close_curve(&few);
    bool live = scipy_times(&other);
    const char *name = live ? "scipy.optimize.curve_fit" : NULL; /* SciPy is not there: only our times */
    bench_report((report){.name = "fit, 1M rows, 6 parameters, 2 threads",
                          .value = 1e3 * both,
                          .unit = "ms",
                          .against = name,
                          .other = 1e3 * other.rows,
                          .ratio_limit = live ? 1 / 0.7 : 0});
    bench_report((report){.name = "fit, 1M rows, 6 parameters",
                          .value = 1e3 * both,
                          .unit = "ms",
                          .against = "one thread",
                          .other = 1e3 * alone,
                          .ratio_limit = 1.6});
    bench_report((report){.name = "fit, 50 Gaussians, 1000 rows, 1 thread",
                          .value = 1e3 * small,
                          .unit = "ms",
                          .against = name,
                          .other = 1e3 * other.few,
                          .ratio_limit = live ? 1 : 0});
    against_lmfit("fit, 1M rows, the same", both, other.lmfit_rows);
    against_lmfit("fit, 50 Gaussians, the same", small, other.lmfit_few);
    if (live) compare_evaluations();
    bench_train();
    if (!live) bench_report((report){.name = "SciPy is not there (GRADUS_SCIPY_PYTHON)", .unit = ""});
}
