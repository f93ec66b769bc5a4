/* Links that evaluate: L-BFGS with a line search on a small and a middling problem, and its own cost on a large one. */
#include "bench.h"

#include "base/ctx.h"
#include "gradus/optim.h"
#include "gradus/solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef GD_BENCH_LBFGS
#include <lbfgs.h>
#endif

/* ---- two dimensions, autograd included ---- */

static gd_tensor *rosenbrock(void *user)
{
    gd_tensor *x = gd_index(user, "0", 0), *y = gd_index(user, "0", 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    return gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), valley);
}

#define SMALL_STEPS 30 /* it has converged then */

typedef struct small_job {
    gd_optimizer *optimizer;
    gd_tensor *p;
} small_job;

static void small_run(void *arg)
{
    small_job *j = arg;
    gd_objective objective = {.loss = rosenbrock, .user = j->p};
    gd_optimizer_reset(j->optimizer);
    gd_status status = gd_write_f64(j->p, (double[]){-1.1, 2.5}, 2);
    for (int i = 0; i < SMALL_STEPS && !status; i++)
        status = gd_optimizer_step(j->optimizer, &objective, NULL);
    if (status) bench_check(gd_tensor_ctx(j->p));
}

static void bench_small_steps(void)
{
    gd_ctx *ctx = bench_context(1);
    small_job job = {.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "lbfgs | strong_wolfe")),
                     .p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){2}))};
    if (job.optimizer && gd_optimizer_add(job.optimizer, "p", job.p)) bench_check(ctx);
    bench_check(ctx);
    bench_report((report){.name = "lbfgs | strong_wolfe, 2-D",
                          .value = 1e6 * bench_time(small_run, &job) / SMALL_STEPS,
                          .unit = "us",
                          .limit = 20});
    gd_optimizer_free(job.optimizer);
    gd_release(job.p);
    gd_ctx_free(ctx);
}

/* ---- a thousand dimensions, the same C gradient for both ---- */

#define DIMENSIONS 1000

static double chained_rosenbrock(const double *x, double *g)
{
    double f = 0;
    for (int i = 0; i < DIMENSIONS; i++) g[i] = 0;
    for (int i = 0; i + 1 < DIMENSIONS; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] -= 400 * a * x[i] + 2 * b;
        g[i + 1] += 200 * a;
    }
    return f;
}

static void start_point(double *x)
{
    for (int i = 0; i < DIMENSIONS; i++) x[i] = i % 2 ? 1 : -1.2;
}

static gd_status chained_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    *loss = chained_rosenbrock(gd_data(user), gd_data_mut(grads[0]));
    return GD_OK;
}

static void our_chained(void *arg)
{
    gd_ctx *ctx = arg;
    double x[DIMENSIONS];
    start_point(x);
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){DIMENSIONS}, x));
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 100000;
    options.gradient_tol = 0;
    gd_solve_result result;
    gd_status status = gd_minimize(&p, 1, &(gd_objective){.gradient = chained_gradient, .user = p},
                                   "terminate_by_gradient_norm(1e-6, 1) | lbfgs(6) | strong_wolfe", &options,
                                   &result);
    bench_check(ctx);
    if (status || !result.converged) fprintf(stderr, "lbfgs did not converge\n");
    gd_release(p);
}

#ifdef GD_BENCH_LBFGS
static lbfgsfloatval_t their_gradient(void *user, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                      const lbfgsfloatval_t step)
{
    (void)user;
    (void)n;
    (void)step;
    return chained_rosenbrock(x, g);
}

static void their_chained(void *arg)
{
    (void)arg;
    lbfgs_parameter_t options;
    lbfgs_parameter_init(&options);
    options.epsilon = 1e-6 / sqrt(DIMENSIONS); /* it is relative to the norm of x, which is all ones */
    double *x = lbfgs_malloc(DIMENSIONS), f;
    start_point(x);
    int code = lbfgs(DIMENSIONS, x, &f, their_gradient, NULL, NULL, &options);
    if (code) fprintf(stderr, "liblbfgs: %d\n", code);
    lbfgs_free(x);
}
#endif

static void bench_chained(void)
{
    gd_ctx *ctx = bench_context(1);
    report r = {.name = "lbfgs, chained, 1000-D", .unit = "ms"};
    double ours = 0;
#ifdef GD_BENCH_LBFGS
    double theirs = 0;
    bench_compare(our_chained, ctx, their_chained, NULL, &ours, &theirs);
    r.against = "liblbfgs";
    r.other = 1e3 * theirs;
    r.ratio_limit = 1;
#else
    ours = bench_time(our_chained, ctx);
#endif
    r.value = 1e3 * ours;
    bench_report(r);
    gd_ctx_free(ctx);
}

/* ---- ten million parameters: the link alone, against reading its history once and writing it once ----
 *
 * A step must go over the history twice: no product is known before the first pass ends.  That is compared with two
 * passes of plain loops, one that reads and one that writes.  One pass that does both is printed too. */

#define LARGE   10000000
#define HISTORY 10
#define TIMES   15

/* A step on f = sum w p^2 / 2, its gradient put on the parameter before. */
static double time_step(gd_optimizer *o, gd_tensor *p, gd_tensor *g, gd_tensor *w)
{
    gd_ctx *ctx = gd_tensor_ctx(p);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (gd_assign(g, gd_mul(p, w))) bench_check(ctx);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    double start = bench_now();
    if (gd_optimizer_step(o, NULL, NULL)) bench_check(gd_tensor_ctx(p));
    return bench_now() - start;
}

static void bench_large(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    gd_tensor *p = gd_require_grad(gd_full(ctx, GD_F32, 1, (int64_t[]){LARGE}, 1));
    gd_tensor *memory = gd_full(ctx, GD_F32, 1, (int64_t[]){2L * HISTORY * LARGE}, 1);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lbfgs(scale_first=false) | lr(0.1)"));
    gd_tensor *w = gd_add_scalar(gd_rand(ctx, GD_F32, 1, (int64_t[]){LARGE}), 0.5);
    bool good = o && w && memory && gd_optimizer_add(o, "p", p) == GD_OK;
    gd_tensor *g = good ? gd_zeros_like(p) : NULL;
    if (g && gd_set_grad(p, g)) bench_check(ctx);
    bench_check(ctx);
    for (int i = 0; i < HISTORY + 4 && g; i++) (void)time_step(o, p, g, w);
    plain_pool *pool = plain_start(bench_threads());
    double ours[TIMES], floor[TIMES], touched[TIMES];
    for (int i = 0; i < TIMES && g; i++) {
        ours[i] = time_step(o, p, g, w);
        double start = bench_now();
        plain_read_write(pool, gd_data_mut(memory), gd_numel(memory));
        double end = bench_now();
        plain_touch(pool, gd_data_mut(memory), gd_numel(memory));
        floor[i] = end - start;
        touched[i] = bench_now() - end;
    }
    plain_stop(pool);
    /* a history that is not full would make it look fast */
    gd_link *link = gd_link_child_at(gd_optimizer_chain(o), 0);
    if (*gd_link_global(link, "pairs", 0) != HISTORY) {
        fprintf(stderr, "lbfgs: the history is not full\n");
        exit(1);
    }
    bench_report((report){.name = "lbfgs, 10M parameters",
                          .value = 1e3 * bench_median(ours, TIMES),
                          .unit = "ms",
                          .against = "its history read, then written",
                          .other = 1e3 * bench_median(floor, TIMES),
                          .ratio_limit = 1 / 1.2});
    bench_report(
        (report){.name = "its history in place", .value = 1e3 * bench_median(touched, TIMES), .unit = "ms"});
    gd_optimizer_free(o);
    gd_release(memory);
    gd_release(w);
    gd_release(g);
    gd_release(p);
    gd_ctx_free(ctx);
}

void bench_lbfgs(void)
{
    bench_small_steps();
    bench_chained();
    bench_large();
}
