/* IPOPT with its limited-memory Hessian. */
#include "solve.h"

#include <coin/IpStdCInterface.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* It asks for value and gradient apart: one evaluation serves both at a point. */
typedef struct run {
    problem *p;
    double *x, *g, loss;
    int n, known;
} run;

static void at(run *r, const double *x)
{
    if (r->known && !memcmp(r->x, x, (size_t)r->n * sizeof *x)) return;
    memcpy(r->x, x, (size_t)r->n * sizeof *x);
    r->loss = problem_evaluate(r->p, x, r->g);
    r->known = 1;
}

static Bool value(Index n, Number *x, Bool new_x, Number *out, UserDataPtr user)
{
    (void)n, (void)new_x;
    run *r = user;
    at(r, x);
    *out = r->loss;
    return isfinite(r->loss) && !problem_over(r->p);
}

static Bool gradient(Index n, Number *x, Bool new_x, Number *out, UserDataPtr user)
{
    (void)new_x;
    run *r = user;
    at(r, x);
    memcpy(out, r->g, (size_t)n * sizeof *out);
    return !problem_over(r->p);
}

static Bool constraints(Index n, Number *x, Bool new_x, Index m, Number *g, UserDataPtr user)
{
    (void)n, (void)x, (void)new_x, (void)m, (void)g, (void)user;
    return 1;
}

static Bool jacobian(Index n, Number *x, Bool new_x, Index m, Index count, Index *row, Index *column,
                     Number *values, UserDataPtr user)
{
    (void)n, (void)x, (void)new_x, (void)m, (void)count, (void)row, (void)column, (void)values, (void)user;
    return 1;
}

static Bool hessian(Index n, Number *x, Bool new_x, Number factor, Index m, Number *lambda, Bool new_lambda,
                    Index count, Index *row, Index *column, Number *values, UserDataPtr user)
{
    (void)n, (void)x, (void)new_x, (void)factor, (void)m, (void)lambda, (void)new_lambda, (void)count;
    (void)row, (void)column, (void)values, (void)user;
    return 0;
}

static double *bounds_of(const double *given, int n, double none)
{
    double *b = malloc((size_t)n * sizeof *b);
    for (int i = 0; b && i < n; i++) b[i] = given && isfinite(given[i]) ? given[i] : none;
    return b;
}

static double solve(problem *p, const char *method, double *x)
{
    (void)method;
    int n = problem_size(p);
    double *low = bounds_of(problem_low(p), n, -2e19), *high = bounds_of(problem_high(p), n, 2e19),
           loss = NAN;
    run r = {
        .p = p, .n = n, .x = malloc((size_t)n * sizeof(double)), .g = malloc((size_t)n * sizeof(double))};
    IpoptProblem ipopt = CreateIpoptProblem(n, low, high, 0, NULL, NULL, 0, 0, 0, value, constraints,
                                            gradient, jacobian, hessian);
    (void)AddIpoptStrOption(ipopt, "hessian_approximation", "limited-memory");
    (void)AddIpoptIntOption(ipopt, "limited_memory_max_history", 10);
    (void)AddIpoptIntOption(ipopt, "print_level", 0);
    (void)AddIpoptStrOption(ipopt, "sb", "yes");
    (void)AddIpoptIntOption(ipopt, "max_iter", 10000);
    (void)AddIpoptNumOption(ipopt, "max_cpu_time", problem_seconds(p));
    (void)AddIpoptNumOption(ipopt, "tol", solve_tolerance(p));
    (void)IpoptSolve(ipopt, x, NULL, &loss, NULL, NULL, NULL, &r);
    FreeIpoptProblem(ipopt);
    free(low);
    free(high);
    free(r.x);
    free(r.g);
    return loss;
}

int main(void) { return solve_main(PEER_VERSION, solve, 0); }
