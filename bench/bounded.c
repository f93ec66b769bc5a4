/* A quadratic of a million variables between bounds, by L-BFGS inside a box, against SciPy's L-BFGS-B: the same function, start,
 * bounds, history and tolerance, each in its own arrays (operators here, NumPy there).
 *
 *     f = sum w (x - c)^2 / 2 + sum (x_(i+1) - x_i)^2 / 2,   -1 <= x <= 1,   c = 2 sin(0.37 i)
 *
 * A third of the variables ends at a bound.  scipy_lbfgsb.py runs where `python3` (or GRADUS_SCIPY_PYTHON) has SciPy. */
#include "bench.h"

#include "gradus/solve.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { VARIABLES = 1000000, TIMES = 3 };

typedef struct quadratic {
    gd_tensor *x, *weight, *centre;
} quadratic;

static gd_tensor *loss_of(void *user)
{
    quadratic *q = user;
    gd_tensor *away = gd_sub(q->x, q->centre);
    gd_tensor *step = gd_sub(gd_slice(q->x, "0", 1, VARIABLES, 1), gd_slice(q->x, "0", 0, VARIABLES - 1, 1));
    gd_tensor *pull = gd_sum(gd_mul(q->weight, gd_square(away)), NULL, false);
    return gd_mul_scalar(gd_add(pull, gd_sum(gd_square(step), NULL, false)), 0.5);
}

static gd_tensor *vector_of(gd_ctx *ctx, double (*fn)(long i))
{
    double *v = malloc(VARIABLES * sizeof *v);
    for (long i = 0; v && i < VARIABLES; i++) v[i] = fn(i);
    gd_tensor *t = v ? gd_from_f64(ctx, GD_F64, 1, (int64_t[]){VARIABLES}, v) : NULL;
    free(v);
    return t;
}

static double weight_at(long i) { return 1 + 9.0 * (double)(i % 1000) / 999; }
static double centre_at(long i) { return 2 * sin(0.37 * (double)i); }

/* Seconds of a run, and where it ended. */
static double run(quadratic *q, gd_solve_result *result)
{
    gd_ctx *ctx = gd_tensor_ctx(q->x);
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 10000;
    options.gradient_tol = 1e-5;
    if (gd_fill(q->x, 0)) bench_check(ctx);
    double start = bench_now();
    gd_status status = gd_minimize(&q->x, 1, &(gd_objective){.loss = loss_of, .user = q},
                                   "box(-1, 1) | lbfgs(10) | strong_wolfe", &options, result);
    double took = bench_now() - start;
    if (status) bench_check(ctx);
    if (!result->converged) fprintf(stderr, "box | lbfgs did not converge\n");
    return took;
}

/* Seconds, evaluations and loss as scipy_lbfgsb.py prints them. */
static bool scipy_time(double *seconds, double *loss)
{
    char line[128] = "";
    long evals;
    FILE *out = bench_python("scipy_lbfgsb.py", bench_threads());
    if (!out) return false;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    return pclose(out) == 0 && sscanf(line, "%lf %ld %lf", seconds, &evals, loss) == 3;
}

void bench_bounded(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    quadratic q = {.x = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){VARIABLES})),
                   .weight = vector_of(ctx, weight_at),
                   .centre = vector_of(ctx, centre_at)};
    bench_check(ctx);
    gd_solve_result result;
    double ours[TIMES], theirs = 0, loss = 0;
    bool live = scipy_time(&theirs, &loss);
    for (int i = 0; i < TIMES; i++) ours[i] = run(&q, &result);
    if (live && fabs(loss - result.loss) > 1e-8 * fabs(loss))
        fprintf(stderr, "box | lbfgs ended at %.12g, L-BFGS-B at %.12g\n", result.loss, loss);
    bench_report((report){.name = "box | lbfgs, 1M variables",
                          .value = 1e3 * bench_median(ours, TIMES),
                          .unit = "ms",
                          .against = live ? "SciPy's L-BFGS-B:" : NULL,
                          .other = 1e3 * theirs,
                          .ratio_limit = live ? 2 : 0});
    gd_release(q.x);
    gd_release(q.weight);
    gd_release(q.centre);
    gd_ctx_free(ctx);
}
