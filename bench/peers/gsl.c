/* GSL: method is bfgs2 or conjugate_fr of its minimisers; "nist" and the kind "fit" go to its nonlinear least squares. */
#include "decay.h"
#include "solve.h"

#include <gsl/gsl_errno.h>
#include <gsl/gsl_multifit_nlinear.h>
#include <gsl/gsl_multimin.h>
#include <gsl/gsl_version.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- minimising ---- */

typedef struct run {
    problem *p;
    double *x, *g, loss;
    int n, known;
} run;

/* Value and gradient are asked for apart. */
static void at(run *r, const gsl_vector *x)
{
    double now[r->n > 2000 ? 1 : r->n], *copy = r->n > 2000 ? malloc((size_t)r->n * sizeof *copy) : now;
    for (int i = 0; i < r->n; i++) copy[i] = gsl_vector_get(x, (size_t)i);
    if (!r->known || memcmp(copy, r->x, (size_t)r->n * sizeof *copy)) {
        memcpy(r->x, copy, (size_t)r->n * sizeof *copy);
        r->loss = problem_evaluate(r->p, r->x, r->g);
        r->known = 1;
    }
    if (copy != now) free(copy);
}

static double value(const gsl_vector *x, void *user)
{
    at(user, x);
    return ((run *)user)->loss;
}

static void gradient(const gsl_vector *x, void *user, gsl_vector *g)
{
    run *r = user;
    at(r, x);
    for (int i = 0; i < r->n; i++) gsl_vector_set(g, (size_t)i, r->g[i]);
}

static void both(const gsl_vector *x, void *user, double *loss, gsl_vector *g)
{
    gradient(x, user, g);
    *loss = ((run *)user)->loss;
}

static double largest(const gsl_vector *g)
{
    double most = 0;
    for (size_t i = 0; i < g->size; i++) most = fmax(most, fabs(gsl_vector_get(g, i)));
    return most;
}

static double minimize(problem *p, const char *method, double *x)
{
    int n = problem_size(p);
    run r = {.p = p, .n = n, .x = malloc((size_t)n * sizeof *x), .g = malloc((size_t)n * sizeof *x)};
    gsl_multimin_function_fdf f = {value, gradient, both, (size_t)n, &r};
    const gsl_multimin_fdfminimizer_type *type = strcmp(method, "conjugate_fr")
                                                     ? gsl_multimin_fdfminimizer_vector_bfgs2
                                                     : gsl_multimin_fdfminimizer_conjugate_fr;
    gsl_multimin_fdfminimizer *m = gsl_multimin_fdfminimizer_alloc(type, (size_t)n);
    gsl_vector_view start = gsl_vector_view_array(x, (size_t)n);
    int status = gsl_multimin_fdfminimizer_set(m, &f, &start.vector, 0.01, 0.1);
    for (int i = 0; i < 20000 && !status && largest(m->gradient) > solve_tolerance(p) && !problem_over(p);
         i++)
        status = gsl_multimin_fdfminimizer_iterate(m);
    for (int i = 0; i < n; i++) x[i] = gsl_vector_get(m->x, (size_t)i);
    double loss = m->f;
    gsl_multimin_fdfminimizer_free(m);
    free(r.x);
    free(r.g);
    return loss;
}

/* ---- least squares ---- */

/* By the trust region that its manual takes first, with the tolerances that MINPACK's users ask for. */
static int least_squares(gsl_multifit_nlinear_fdf *f, double *x, double *loss)
{
    gsl_multifit_nlinear_parameters options = gsl_multifit_nlinear_default_parameters();
    gsl_multifit_nlinear_workspace *w = gsl_multifit_nlinear_alloc(gsl_multifit_nlinear_trust, &options, f->n,
                                                                   f->p);
    gsl_vector_view start = gsl_vector_view_array(x, f->p);
    int info = 0, status = gsl_multifit_nlinear_init(&start.vector, f, w);
    if (!status) status = gsl_multifit_nlinear_driver(1000, 1e-12, 1e-12, 1e-12, NULL, NULL, &info, w);
    gsl_vector *r = gsl_multifit_nlinear_residual(w);
    *loss = 0;
    for (size_t i = 0; i < f->n; i++) *loss += gsl_vector_get(r, i) * gsl_vector_get(r, i);
    for (size_t i = 0; i < f->p; i++) x[i] = gsl_vector_get(w->x, i);
    gsl_multifit_nlinear_free(w);
    return status;
}

static int nist_residuals(const gsl_vector *x, void *user, gsl_vector *f)
{
    problem_residuals(user, x->data, f->data, NULL);
    return GSL_SUCCESS;
}

static int nist_jacobian(const gsl_vector *x, void *user, gsl_matrix *j)
{
    double *r = malloc((size_t)problem_rows(user) * sizeof *r);
    problem_residuals(user, x->data, r, j->data);
    free(r);
    return GSL_SUCCESS;
}

static double solve(problem *p, const char *method, double *x)
{
    if (!problem_rows(p)) return minimize(p, method, x);
    double loss = NAN;
    gsl_multifit_nlinear_fdf f = {.f = nist_residuals,
                                  .df = nist_jacobian,
                                  .n = (size_t)problem_rows(p),
                                  .p = (size_t)problem_size(p),
                                  .params = p};
    (void)least_squares(&f, x, &loss);
    return loss;
}

/* ---- a curve over many rows ---- */

static int decay_f(const gsl_vector *x, void *user, gsl_vector *f)
{
    decay_table *t = user;
    decay_residuals(t, x->data, f->data, NULL);
    return GSL_SUCCESS;
}

static int decay_df(const gsl_vector *x, void *user, gsl_matrix *j)
{
    decay_table *t = user;
    decay_residuals(t, x->data, NULL, j->data);
    return GSL_SUCCESS;
}

static void *open_fit(void) { return decay_open((long)peer_number("rows", 1000)); }

static void run_fit(void *job)
{
    decay_table *t = job;
    double loss;
    gsl_multifit_nlinear_fdf f = {
        .f = decay_f, .df = decay_df, .n = (size_t)t->rows, .p = DECAY_PARAMS, .params = t};
    memcpy(t->p, decay_start, sizeof t->p);
    (void)least_squares(&f, t->p, &loss);
}

static void check_fit(void *job, peer_result *out) { out->check = ((decay_table *)job)->p[1]; }
static void close_fit(void *job) { decay_close(job); }

int main(void)
{
    static const peer_kind more[] = {{"fit", open_fit, run_fit, check_fit, close_fit}, {0}};
    gsl_set_error_handler_off();
    return solve_main(GSL_VERSION, solve, more);
}
