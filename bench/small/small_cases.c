/* What the benchmark of small problems counts: steps of L-BFGS on functions given by callbacks, whole minimisations and fits. */
#include "small/small_cases.h"
#include "bench.h"
#include "count.h"
#include "gradus/lsq.h"
#include "gradus/optim.h"
#include "gradus/solve.h"

#include <math.h>
#include <stdlib.h>

double bench_small_chained(const double *x, double *g, long n)
{
    double f = 0;
    for (long i = 0; i < n; i++) g[i] = 0;
    for (long i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] -= 400 * a * x[i] + 2 * b;
        g[i + 1] += 200 * a;
    }
    return f;
}

void bench_small_start(double *x, long n)
{
    for (long i = 0; i < n; i++) x[i] = i % 2 ? 1 : -1.2;
}

void bench_small_points(double *t, double *y, long fit)
{
    uint32_t seed = 11 + (uint32_t)fit;
    double f = (double)(fit % 1000) / 1000;
    for (int i = 0; i < SMALL_POINTS; i++) {
        seed = seed * 1664525u + 1013904223u;
        t[i] = 5.0 * i / SMALL_POINTS;
        y[i] = (2 + f) * exp(-(0.8 + 0.4 * f) * t[i]) + 0.5 + 0.1 * ((double)(seed >> 8) / (1 << 24) - 0.5);
    }
}

/* ---- L-BFGS ---- */

static gd_status chained_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    *loss = bench_small_chained(gd_data(user), gd_data_mut(grads[0]), (long)gd_numel(user));
    return GD_OK;
}

/* Runs of SMALL_ITERATIONS steps of a chain. */
static void run_steps(const char *chain, long n, long repeats)
{
    gd_ctx *ctx = bench_context(1);
    int64_t size = n;
    double *start = malloc((size_t)n * sizeof *start);
    gd_tensor *x = gd_require_grad(gd_zeros(ctx, GD_F64, 1, &size));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    gd_objective objective = {.gradient = chained_gradient, .user = x};
    gd_status status = start ? gd_optimizer_add(o, "x", x) : GD_NOMEM;
    if (start) bench_small_start(start, n);
    for (long k = 0; k < repeats && !status; k++) {
        gd_optimizer_reset(o);
        status = gd_write_f64(x, start, size);
        for (int i = 0; i < SMALL_ITERATIONS && !status; i++) status = gd_optimizer_step(o, &objective, NULL);
    }
    bench_check(ctx);
    free(start);
    gd_optimizer_free(o);
    gd_release(x);
    gd_ctx_free(ctx);
}

#define SEARCH "lbfgs(6) | strong_wolfe"

static void step_10(long repeats) { run_steps(SEARCH, 10, repeats); }
static void step_1000(long repeats) { run_steps(SEARCH, 1000, repeats); }
static void step_100000(long repeats) { run_steps(SEARCH, 100000, repeats); }
static void box_100000(long repeats) { run_steps("box(-5, 5) | " SEARCH, 100000, repeats); }
static void box_active(long repeats) { run_steps("box(-1.1, 0.9) | " SEARCH, 100000, repeats); }

/* A whole minimisation of ten numbers. */
static void minimize_10(long repeats)
{
    gd_ctx *ctx = bench_context(1);
    double start[10];
    gd_tensor *x = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){10}));
    gd_objective objective = {.gradient = chained_gradient, .user = x};
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result result;
    options.max_steps = SMALL_ITERATIONS;
    bench_small_start(start, 10);
    for (long k = 0; k < repeats; k++) {
        if (gd_write_f64(x, start, 10) || gd_minimize(&x, 1, &objective, SEARCH, &options, &result)) break;
    }
    bench_check(ctx);
    gd_release(x);
    gd_ctx_free(ctx);
}

/* ---- fits ---- */

static gd_tensor *decay(void *state, gd_tensor *const *p, gd_tensor *const *column, int64_t first)
{
    (void)state, (void)first;
    return gd_sub(gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], column[0])))), p[2]), column[1]);
}

static void fit_many(long fits)
{
    gd_ctx *ctx = bench_context(1);
    int64_t rows = fits * SMALL_POINTS;
    gd_tensor *table[2], *like[3];
    int64_t *first = malloc((size_t)(fits + 1) * sizeof *first);
    double *x = malloc(3 * (size_t)fits * sizeof *x), *errors = malloc(3 * (size_t)fits * sizeof *errors);
    gd_lsq_one *out = malloc((size_t)fits * sizeof *out);
    for (int k = 0; k < 2; k++) table[k] = gd_zeros(ctx, GD_F64, 1, &rows);
    for (int k = 0; k < 3; k++) like[k] = gd_scalar(ctx, GD_F64, 1);
    bench_check(ctx);
    for (long i = 0; i <= fits && first; i++) first[i] = i * SMALL_POINTS;
    for (long i = 0; i < 3 * fits && x; i++) x[i] = 1;
    for (long i = 0; i < fits; i++)
        bench_small_points((double *)gd_data_mut(table[0]) + i * SMALL_POINTS,
                           (double *)gd_data_mut(table[1]) + i * SMALL_POINTS, i);
    gd_rows of = {.count = rows, .data = table, .columns = 2, .residuals = decay};
    gd_lsq_many many = {
        .fits = fits, .rows = &of, .like = like, .like_count = 3, .first = first, .errors = errors};
    if (first && x && errors && out && gd_least_squares_many(ctx, &many, NULL, x, out)) bench_check(ctx);
    for (int k = 0; k < 2; k++) gd_release(table[k]);
    for (int k = 0; k < 3; k++) gd_release(like[k]);
    free(first);
    free(x);
    free(errors);
    free(out);
    gd_ctx_free(ctx);
}

typedef struct points {
    double t[SMALL_POINTS], y[SMALL_POINTS];
} points;

static gd_status residuals(void *user, const double *x, double *r)
{
    const points *p = user;
    for (int i = 0; i < SMALL_POINTS; i++) r[i] = x[0] * exp(-x[1] * p->t[i]) + x[2] - p->y[i];
    return GD_OK;
}

static gd_status jacobian(void *user, const double *x, double *j)
{
    const points *p = user;
    for (int i = 0; i < SMALL_POINTS; i++) {
        double e = exp(-x[1] * p->t[i]);
        j[3 * i] = e;
        j[3 * i + 1] = -x[0] * p->t[i] * e;
        j[3 * i + 2] = 1;
    }
    return GD_OK;
}

/* With callbacks, as the peers do it. */
static void fit_callbacks(long fits)
{
    gd_ctx *ctx = bench_context(1);
    points p;
    gd_lsq_problem problem = {
        .residuals = SMALL_POINTS, .params = 3, .user = &p, .residual = residuals, .jacobian = jacobian};
    for (long i = 0; i < fits; i++) {
        double x[3] = {1, 1, 1};
        gd_lsq_result fit;
        bench_small_points(p.t, p.y, i);
        if (gd_lsq_solve(ctx, &problem, x, NULL, &fit)) bench_check(ctx);
        gd_lsq_result_clear(&fit);
    }
    gd_ctx_free(ctx);
}

const bench_case bench_small_cases[] = {
    {"step-10", step_10},       {"step-1000", step_1000},         {"step-100000", step_100000},
    {"box-100000", box_100000}, {"box-active", box_active},       {"minimize-10", minimize_10},
    {"fit-many", fit_many},     {"fit-callbacks", fit_callbacks}, {0},
};
