/* NLopt: method is lbfgs, mma, tnewton or ccsaq.  It has no rule for gradients: changes of x and f that are rounding end it. */
#include "solve.h"

#include <math.h>
#include <nlopt.h>
#include <stdio.h>
#include <string.h>

typedef struct run {
    problem *p;
    nlopt_opt o;
} run;

static double evaluate(unsigned n, const double *x, double *g, void *user)
{
    run *r = user;
    double own[g ? 1 : n], *grad = g ? g : own;
    double loss = problem_evaluate(r->p, x, grad), most = 0;
    for (unsigned i = 0; i < n; i++) most = fmax(most, fabs(grad[i]));
    if ((most <= solve_tolerance(r->p) && !problem_low(r->p)) || problem_over(r->p)) nlopt_force_stop(r->o);
    return loss;
}

static nlopt_algorithm algorithm_of(const char *method)
{
    if (!strcmp(method, "mma")) return NLOPT_LD_MMA;
    if (!strcmp(method, "ccsaq")) return NLOPT_LD_CCSAQ;
    if (!strcmp(method, "tnewton")) return NLOPT_LD_TNEWTON_PRECOND_RESTART;
    return NLOPT_LD_LBFGS;
}

static double solve(problem *p, const char *method, double *x)
{
    run r = {p, nlopt_create(algorithm_of(method), (unsigned)problem_size(p))};
    double loss = NAN;
    nlopt_set_min_objective(r.o, evaluate, &r);
    nlopt_set_vector_storage(r.o, 10);
    if (problem_low(p)) {
        nlopt_set_lower_bounds(r.o, problem_low(p));
        nlopt_set_upper_bounds(r.o, problem_high(p));
    }
    nlopt_set_ftol_rel(r.o, 1e-15);
    nlopt_set_xtol_rel(r.o, 1e-15);
    nlopt_set_maxeval(r.o, 19000);
    (void)nlopt_optimize(r.o, x, &loss);
    nlopt_destroy(r.o);
    return loss;
}

int main(void)
{
    int major, minor, bugfix;
    char version[40];
    nlopt_version(&major, &minor, &bugfix);
    (void)snprintf(version, sizeof version, "%d.%d.%d", major, minor, bugfix);
    return solve_main(version, solve, 0);
}
