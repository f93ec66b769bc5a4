/* The condition of a minimum by Lanczos' method: products with the exact Hessian, by differentiating the gradient along a
 * direction; every new vector is made orthogonal to all before, twice, for in rounding they do not stay so.  The eigenvalues of the
 * tridiagonal matrix lie between those of the Hessian, the outermost come first. */
#include "cli/problem/condition.h"
#include "gradus/autograd.h"
#include "gradus/matrices.h"
#include "optim/vector/layout.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define MOST 30                 /* products */
#define ROOM ((int64_t)8 << 20) /* numbers of all vectors together */

typedef struct lanczos {
    gd_problem *p;
    int64_t n;
    int most;
    double *basis; /* [most + 1, n] */
    double alpha[MOST], beta[MOST];
    gd_tensor **grad, **list; /* [params] each: the gradient with its graph; room */
} lanczos;

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* out = H v */
static gd_status product(lanczos *k, const double *v, double *out)
{
    gd_problem *p = k->p;
    gd_scope_begin(p->ctx);
    gd_status status = gd__list_from(p->value, p->params, v, k->list);
    gd_tensor *along = NULL;
    for (int i = 0; i < p->params && !status; i++) {
        gd_tensor *one = gd_sum(gd_mul(gd_drop_names(k->grad[i]), k->list[i]), NULL, false);
        along = i ? gd_add(along, one) : one;
    }
    if (!status && !along) status = gd_error(p->ctx);
    /* a gradient that no parameter is in: the Hessian is 0 */
    bool flat = along && !gd_requires_grad(along);
    if (!status && !flat) status = gd_grad(along, NULL, p->value, p->params, GD_RETAIN_GRAPH, k->list);
    if (!status && !flat) status = gd__list_read(k->list, p->params, out);
    if (flat) memset(out, 0, (size_t)k->n * sizeof *out);
    gd_scope_end(p->ctx);
    return status;
}

/* The vectors and the tridiagonal matrix; how many rows it has. */
static gd_status iterate(lanczos *k, int *rows)
{
    gd_status status = GD_OK;
    double *v = k->basis;
    for (int64_t i = 0; i < k->n; i++)
        v[i] = cos(1 + 2.3 * (double)i); /* no eigenvector of a usual problem */
    double norm = sqrt(dot(v, v, k->n)), scale = 0;
    for (*rows = 0; *rows < k->most && !status && norm > 1e-14 * scale;) {
        for (int64_t i = 0; i < k->n; i++) v[i] /= norm;
        double *next = v + k->n;
        status = product(k, v, next);
        if (status) break;
        k->alpha[*rows] = dot(v, next, k->n);
        for (int again = 0; again < 2; again++)
            for (const double *w = k->basis; w <= v; w += k->n) {
                double along = dot(w, next, k->n);
                for (int64_t i = 0; i < k->n; i++) next[i] -= along * w[i];
            }
        norm = sqrt(dot(next, next, k->n));
        k->beta[*rows] = norm;
        scale = fmax(scale, fmax(fabs(k->alpha[*rows]), norm));
        (*rows)++;
        v = next;
        if (!isfinite(norm) || !isfinite(scale)) *rows = 0;
        if (!*rows) break;
    }
    return status;
}

/* Largest over smallest size of the eigenvalues of the tridiagonal matrix, and whether one is below 0 by more than rounding. */
static gd_status spread_of(lanczos *k, int rows, double *condition, bool *falls)
{
    gd_ctx *ctx = k->p->ctx;
    double matrix[MOST * MOST] = {0}, value[MOST], most = 0, least = INFINITY, lowest = 0;
    for (int i = 0; i < rows; i++) {
        matrix[i * rows + i] = k->alpha[i];
        if (i + 1 < rows) matrix[i * rows + i + 1] = matrix[(i + 1) * rows + i] = k->beta[i];
    }
    gd_tensor *values = NULL, *vectors = NULL;
    gd_status status = gd_eigh(gd_from_f64(ctx, GD_F64, 2, (int64_t[]){rows, rows}, matrix), &values,
                               &vectors);
    if (!status) status = gd_read_f64(values, value, rows);
    for (int i = 0; i < rows && !status; i++) {
        most = fmax(most, fabs(value[i]));
        least = fmin(least, fabs(value[i]));
        lowest = fmin(lowest, value[i]);
    }
    double rounding = k->p->dtype == GD_F64 ? DBL_EPSILON : FLT_EPSILON;
    if (!status) *condition = least > rounding * (double)rows * most ? most / least : INFINITY;
    if (most == 0) *condition = NAN;
    *falls = !status && lowest < -sqrt(rounding) * most;
    return status;
}

static gd_status run_lanczos(lanczos *k, double *condition, bool *falls)
{
    gd_problem *p = k->p;
    int rows = 0;
    gd_tensor *loss = gd__problem_loss(p);
    if (!loss) return gd_error(p->ctx);
    if (!gd_requires_grad(loss)) return GD_OK;
    gd_status status = gd_grad(loss, NULL, p->value, p->params, GD_CREATE_GRAPH, k->grad);
    if (!status) status = iterate(k, &rows);
    return status || rows < 1 ? status : spread_of(k, rows, condition, falls);
}

gd_status gd__problem_condition(gd_problem *p, int64_t products, double *condition, bool *falls)
{
    lanczos k = {.p = p, .n = gd__list_numel(p->value, p->params)};
    int64_t most = k.n < products ? k.n : products;
    *condition = NAN;
    *falls = false;
    most = most < MOST ? most : MOST;
    k.most = (int)(most * k.n < ROOM ? most : ROOM / k.n);
    if (k.most < (k.n < 2 ? 1 : 2)) return GD_OK;
    size_t basis = (size_t)(k.most + 1) * (size_t)k.n, lists = 2 * (size_t)p->params * sizeof *k.grad;
    k.basis = gd__alloc_array(p->ctx, basis, sizeof *k.basis);
    k.grad = gd__calloc(p->ctx, lists);
    k.list = k.grad ? k.grad + p->params : NULL;
    gd_scope_begin(p->ctx);
    gd_status status = k.basis && k.grad ? run_lanczos(&k, condition, falls) : GD_NOMEM;
    gd_scope_end(p->ctx);
    if (k.basis) gd__free(p->ctx, k.basis, basis * sizeof *k.basis);
    gd__free(p->ctx, k.grad, lists);
    /* an operator without second derivatives says so: then nothing is known */
    if (!status || status == GD_NOMEM || gd_error(p->ctx) == GD_NOMEM) return status;
    gd_clear_error(p->ctx);
    *condition = NAN;
    return GD_OK;
}
