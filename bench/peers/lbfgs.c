/* liblbfgs. */
#include "solve.h"

#include <lbfgs.h>
#include <math.h>
#include <string.h>

static lbfgsfloatval_t evaluate(void *user, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                const lbfgsfloatval_t step)
{
    (void)n, (void)step;
    return problem_evaluate(user, x, g);
}

/* Its own rule is relative to the norm of x: this one is everybody's. */
static int progress(void *user, const lbfgsfloatval_t *x, const lbfgsfloatval_t *g, const lbfgsfloatval_t fx,
                    const lbfgsfloatval_t xnorm, const lbfgsfloatval_t gnorm, const lbfgsfloatval_t step,
                    int n, int k, int ls)
{
    (void)x, (void)fx, (void)xnorm, (void)gnorm, (void)step, (void)k, (void)ls;
    double most = 0;
    for (int i = 0; i < n; i++) most = fmax(most, fabs(g[i]));
    return most <= solve_tolerance(user) || problem_over(user);
}

static double solve(problem *p, const char *method, double *x)
{
    (void)method;
    lbfgs_parameter_t options;
    int n = problem_size(p);
    double *at = lbfgs_malloc(n), loss = NAN;
    lbfgs_parameter_init(&options);
    options.m = 10;
    options.epsilon = 1e-16;
    memcpy(at, x, (size_t)n * sizeof *x);
    (void)lbfgs(n, at, &loss, evaluate, progress, p, &options);
    memcpy(x, at, (size_t)n * sizeof *x);
    lbfgs_free(at);
    return loss;
}

int main(void) { return solve_main(PEER_VERSION, solve, 0); }
