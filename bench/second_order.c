/* Newton's method and least squares: a Newton step on 200 parameters against PyTorch, and whole fits.
 *
 * PyTorch is measured live by torch_newton.py when `python3` (or GRADUS_TORCH_PYTHON) has it; otherwise the last recorded
 * measurement is shown, without a limit: it was taken on another machine. */
#include "bench.h"

#include "gradus/optim.h"
#include "gradus/solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Microseconds on one thread of an AMD EPYC with AVX-512, beside 182 of ours: row by row, and vectorized. */
#define RECORDED_ROWS    31610.0
#define RECORDED_BATCHED 1633.0

enum { DIMENSIONS = 200, POINTS = 200 };

/* ---- a Newton step ---- */

typedef struct newton_job {
    gd_optimizer *optimizer;
    gd_tensor *p;
    double start[DIMENSIONS];
} newton_job;

/* sum of 100 (p_(i+1) - p_i^2)^2 + (1 - p_i)^2 */
static gd_tensor *chained(void *user)
{
    gd_tensor *a = gd_slice(user, "0", 0, DIMENSIONS - 1, 1), *b = gd_slice(user, "0", 1, DIMENSIONS, 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(b, gd_square(a))), 100);
    return gd_sum(gd_add(valley, gd_square(gd_add_scalar(gd_neg(a), 1))), NULL, false);
}

static void newton_step(void *arg)
{
    newton_job *j = arg;
    gd_status status = gd_write_f64(j->p, j->start, DIMENSIONS);
    if (!status)
        status = gd_optimizer_step(j->optimizer, &(gd_objective){.loss = chained, .user = j->p}, NULL);
    if (status) bench_check(gd_tensor_ctx(j->p));
}

/* Microseconds per step as torch_newton.py prints them; false where there is no PyTorch. */
static bool torch_times(double *rows, double *batched)
{
    char line[128] = "";
    FILE *out = bench_python("torch_newton.py", 1);
    if (!out) return false;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    return pclose(out) == 0 && sscanf(line, "%lf %lf", rows, batched) == 2;
}

static void bench_newton_step(void)
{
    gd_ctx *ctx = bench_context(1);
    newton_job job = {.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "newton"))};
    for (int i = 0; i < DIMENSIONS; i++) job.start[i] = i % 2 ? 1 : -1.2;
    job.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){DIMENSIONS}, job.start));
    bench_check(ctx);
    if (gd_optimizer_add(job.optimizer, "p", job.p)) bench_check(ctx);
    double rows, batched, again_rows, again_batched;
    bool live = torch_times(&rows, &batched);
    double ours = 1e6 * bench_time(newton_step, &job);
    if (live && torch_times(&again_rows, &again_batched)) { /* before and after: the machine may be busy */
        rows = fmin(rows, again_rows);
        batched = fmin(batched, again_batched);
    }
    if (!live) {
        rows = RECORDED_ROWS;
        batched = RECORDED_BATCHED;
    }
    bench_report((report){.name = "newton, 200 parameters",
                          .unit = "us",
                          .value = ours,
                          .against = live ? "PyTorch:" : "PyTorch as recorded on another machine:",
                          .other = rows,
                          .ratio_limit = live ? 5 : 0});
    bench_report((report){.name = "the same",
                          .unit = "us",
                          .value = ours,
                          .against = live ? "PyTorch, vectorized:" : "PyTorch, vectorized, as recorded:",
                          .other = batched,
                          .ratio_limit = live ? 5 : 0});
    gd_optimizer_free(job.optimizer);
    gd_release(job.p);
    gd_ctx_free(ctx);
}

/* ---- a fit ---- */

typedef struct fit_job {
    gd_tensor *b[3], *t, *y;
    int64_t evals;
} fit_job;

/* b_0 exp(-b_1 t) + b_2 - y */
static gd_tensor *decay(void *user)
{
    fit_job *j = user;
    return gd_sub(gd_add(gd_mul(j->b[0], gd_exp(gd_neg(gd_mul(j->b[1], j->t)))), j->b[2]), j->y);
}

static void fit(void *arg)
{
    fit_job *j = arg;
    gd_ctx *ctx = gd_tensor_ctx(j->t);
    for (int i = 0; i < 3; i++)
        if (gd_fill(j->b[i], i < 2)) bench_check(ctx);
    gd_lsq_result result;
    gd_status status = gd_least_squares(j->b, 3, decay, j, NULL, &result);
    j->evals = result.solve.evals;
    gd_lsq_result_clear(&result);
    if (status) bench_check(ctx);
}

static void bench_fit(void)
{
    gd_ctx *ctx = bench_context(1);
    fit_job job = {0};
    double t[POINTS], y[POINTS];
    for (int i = 0; i < POINTS; i++) {
        t[i] = 4.0 * i / (int)POINTS;
        y[i] = 2.5 * exp(-1.3 * t[i]) + 0.5 + 0.02 * sin(37.0 * i);
    }
    for (int i = 0; i < 3; i++) job.b[i] = gd_require_grad(gd_scalar(ctx, GD_F64, 1));
    job.t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){POINTS}, t);
    job.y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){POINTS}, y);
    bench_check(ctx);
    bench_report((report){.name = "fit of a decay, 3 parameters, 200 points",
                          .value = 1e6 * bench_time(fit, &job),
                          .unit = "us"});
    for (int i = 0; i < 3; i++) gd_release(job.b[i]);
    gd_release(job.t);
    gd_release(job.y);
    gd_ctx_free(ctx);
}

void bench_newton(void)
{
    bench_newton_step();
    bench_fit();
}
