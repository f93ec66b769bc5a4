/* The small problems of small_cases.c by other libraries, where the machine had them when this was built: liblbfgs, NLopt, GSL and
 * MINPACK (cminpack). */
#include "count.h"
#include "small/small_cases.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#ifdef GD_BENCH_LBFGS
#include <lbfgs.h>
#endif
#ifdef GD_BENCH_NLOPT
#include <nlopt.h>
#endif
#ifdef GD_BENCH_GSL
#include <gsl/gsl_blas.h>
#include <gsl/gsl_multifit_nlinear.h>
#endif
#ifdef GD_BENCH_MINPACK
#include <cminpack.h>
#endif

#ifdef GD_BENCH_LBFGS
static lbfgsfloatval_t lbfgs_evaluate(void *user, const lbfgsfloatval_t *x, lbfgsfloatval_t *g, const int n,
                                      const lbfgsfloatval_t step)
{
    (void)user, (void)step;
    return bench_small_chained(x, g, n);
}

static void run_liblbfgs(int n, long repeats)
{
    lbfgs_parameter_t options;
    lbfgs_parameter_init(&options);
    options.epsilon = 0;
    options.max_iterations = SMALL_ITERATIONS;
    double *x = lbfgs_malloc(n), f;
    for (long k = 0; k < repeats && x; k++) {
        bench_small_start(x, n);
        (void)lbfgs(n, x, &f, lbfgs_evaluate, NULL, NULL, &options);
    }
    lbfgs_free(x);
}

static void liblbfgs_10(long repeats) { run_liblbfgs(10, repeats); }
static void liblbfgs_1000(long repeats) { run_liblbfgs(1000, repeats); }
static void liblbfgs_100000(long repeats) { run_liblbfgs(100000, repeats); }
#endif

#ifdef GD_BENCH_NLOPT
static double nlopt_evaluate(unsigned n, const double *x, double *g, void *user)
{
    double room[16];
    (void)user;
    return bench_small_chained(x, g ? g : room, (long)n);
}

/* One evaluation per step, which is what its searches mostly take. */
static void nlopt_10(long repeats)
{
    double x[10], f;
    nlopt_opt o = nlopt_create(NLOPT_LD_LBFGS, 10);
    nlopt_set_min_objective(o, nlopt_evaluate, NULL);
    nlopt_set_vector_storage(o, 6);
    nlopt_set_maxeval(o, SMALL_ITERATIONS);
    for (long k = 0; k < repeats; k++) {
        bench_small_start(x, 10);
        (void)nlopt_optimize(o, x, &f);
    }
    nlopt_destroy(o);
}
#endif

typedef struct points {
    double t[SMALL_POINTS], y[SMALL_POINTS];
} points;

#ifdef GD_BENCH_GSL
static int gsl_residuals(const gsl_vector *x, void *user, gsl_vector *r)
{
    const points *p = user;
    double a = gsl_vector_get(x, 0), b = gsl_vector_get(x, 1), c = gsl_vector_get(x, 2);
    for (size_t i = 0; i < SMALL_POINTS; i++) gsl_vector_set(r, i, a * exp(-b * p->t[i]) + c - p->y[i]);
    return GSL_SUCCESS;
}

static int gsl_jacobian(const gsl_vector *x, void *user, gsl_matrix *j)
{
    const points *p = user;
    double a = gsl_vector_get(x, 0), b = gsl_vector_get(x, 1);
    for (size_t i = 0; i < SMALL_POINTS; i++) {
        double e = exp(-b * p->t[i]);
        gsl_matrix_set(j, i, 0, e);
        gsl_matrix_set(j, i, 1, -a * p->t[i] * e);
        gsl_matrix_set(j, i, 2, 1);
    }
    return GSL_SUCCESS;
}

/* With errors. */
static void gsl_fit(long fits)
{
    points p;
    gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *w = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options,
                                                                   SMALL_POINTS, 3);
    gsl_matrix *covariance = gsl_matrix_alloc(3, 3);
    gsl_multifit_nlinear_fdf f = {
        .f = gsl_residuals, .df = gsl_jacobian, .n = SMALL_POINTS, .p = 3, .params = &p};
    for (long i = 0; i < fits; i++) {
        double start[3] = {1, 1, 1};
        int info;
        gsl_vector_view x = gsl_vector_view_array(start, 3);
        bench_small_points(p.t, p.y, i);
        gsl_multifit_nlinear_init(&x.vector, &f, w);
        (void)gsl_multifit_nlinear_driver(100, 1e-8, 1e-8, 0, NULL, NULL, &info, w);
        gsl_multifit_nlinear_covar(gsl_multifit_nlinear_jac(w), 0, covariance);
    }
    gsl_multifit_nlinear_free(w);
    gsl_matrix_free(covariance);
}
#endif

#ifdef GD_BENCH_MINPACK
static int minpack_evaluate(void *user, int m, int n, const double *x, double *r, double *j, int ldj,
                            int flag)
{
    const points *p = user;
    (void)n;
    for (int i = 0; i < m; i++) {
        double e = exp(-x[1] * p->t[i]);
        if (flag == 1) {
            r[i] = x[0] * e + x[2] - p->y[i];
            continue;
        }
        j[i] = e;
        j[i + ldj] = -x[0] * p->t[i] * e;
        j[i + 2 * ldj] = 1;
    }
    return 0;
}

/* Without errors: it computes none. */
static void minpack_fit(long fits)
{
    points p;
    double x[3], r[SMALL_POINTS], j[3 * SMALL_POINTS], room[5 * 3 + SMALL_POINTS];
    int pivot[3];
    for (long i = 0; i < fits; i++) {
        for (int k = 0; k < 3; k++) x[k] = 1;
        bench_small_points(p.t, p.y, i);
        (void)lmder1(minpack_evaluate, &p, SMALL_POINTS, 3, x, r, j, SMALL_POINTS, 1e-8, pivot, room,
                     (int)(sizeof room / sizeof *room));
    }
}
#endif

const bench_case bench_small_peers[] = {
#ifdef GD_BENCH_LBFGS
    {"liblbfgs-10", liblbfgs_10},
    {"liblbfgs-1000", liblbfgs_1000},
    {"liblbfgs-100000", liblbfgs_100000},
#endif
#ifdef GD_BENCH_NLOPT
    {"nlopt-10", nlopt_10},
#endif
#ifdef GD_BENCH_GSL
    {"gsl-fit", gsl_fit},
#endif
#ifdef GD_BENCH_MINPACK
    {"minpack-fit", minpack_fit},
#endif
    {0},
};

const char *bench_missing_peers(void)
{
    return ""
#ifndef GD_BENCH_LBFGS
           " liblbfgs (liblbfgs-dev)"
#endif
#ifndef GD_BENCH_NLOPT
           " NLopt (libnlopt-dev)"
#endif
#ifndef GD_BENCH_GSL
           " GSL (libgsl-dev)"
#endif
#ifndef GD_BENCH_MINPACK
           " MINPACK (libcminpack-dev)"
#endif
        ;
}
