/* Whether a point without a gradient is a minimum, by Lanczos' method: products with the exact Hessian, by differentiating the
 * gradient along a direction or by the objective's own; every new vector is orthogonalised against all earlier ones, twice, because
 * rounding destroys orthogonality.  The eigenvalues of the tridiagonal matrix lie between those of the Hessian, the outermost converge first. */
#include "optim/solve/solve_internal.h"

#include "gradus/autograd.h"
#include "gradus/link/list.h"
#include "gradus/link/matrices.h"
#include "optim/step/microbatch_loss.h"
#include "optim/vector/layout.h"

#include <math.h>

#define ROOM ((int64_t)8 << 20) /* numbers of all vectors together */
#define FEW  16                 /* numbers: their whole Hessian costs nothing */
#define PART 16                 /* of more, evaluations of the run for each product */

typedef struct lanczos {
    gd_ctx *ctx;
    gd_var var;
    int64_t n;
    int most, rows; /* products at most, and made */
    double *basis;  /* [most + 1, n] */
    double alpha[GD_CURVATURE_PRODUCTS], beta[GD_CURVATURE_PRODUCTS];
    gd_tensor **params, **grad, **v,
        **out;    /* [count] each; grad has its graph, where products come from one */
    bool unknown; /* an operator has no second derivative */
} lanczos;

int64_t gd__curvature_budget(gd_tensor *const *params, int count, int64_t evals)
{
    int64_t n = gd__list_numel(params, count);
    return n <= FEW ? n : evals / PART;
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

/* An operator without second derivatives ends the check without an error; every other failure is an error. */
static gd_status of_autograd(lanczos *k, gd_status status)
{
    if (!status || status == GD_NOMEM || status == GD_INTERRUPTED) return status;
    gd_clear_error(k->ctx);
    k->unknown = true;
    return GD_OK;
}

/* H v in k->out, in the scope of the caller. */
static gd_status product_of_lists(lanczos *k)
{
    if (gd__var_gives_products(&k->var)) return gd_var_hvp(&k->var, GD_HVP_AUTOGRAD, 0, false, k->v, k->out);
    int previous = gd_enable_grad_begin(k->ctx);
    gd_status status = gd__product_along(&k->var, k->grad, k->v, GD_RETAIN_GRAPH, k->out);
    gd_enable_grad_end(k->ctx, previous);
    return of_autograd(k, status);
}

/* out = H v */
static gd_status product(lanczos *k, const double *v, double *out)
{
    gd_scope_begin(k->ctx);
    gd_status status = gd__list_from(k->params, k->var.count, v, k->v);
    if (!status) status = product_of_lists(k);
    if (!status && !k->unknown) status = gd__list_read(k->out, k->var.count, out);
    gd_scope_end(k->ctx);
    return status;
}

/* One more row of the tridiagonal matrix from the unit vector v; the remainder of H v follows it. */
static gd_status add_row(lanczos *k, const double *v, double *next)
{
    gd_status status = product(k, v, next);
    if (status || k->unknown) return status;
    k->alpha[k->rows] = dot(v, next, k->n);
    for (int again = 0; again < 2; again++)
        for (const double *w = k->basis; w <= v; w += k->n) {
            double along = dot(w, next, k->n);
            for (int64_t i = 0; i < k->n; i++) next[i] -= along * w[i];
        }
    k->beta[k->rows] = sqrt(dot(next, next, k->n));
    k->unknown = !isfinite(k->alpha[k->rows]) || !isfinite(k->beta[k->rows]);
    k->rows++;
    return GD_OK;
}

static gd_status iterate(lanczos *k)
{
    gd_status status = GD_OK;
    double *v = k->basis;
    for (int64_t i = 0; i < k->n; i++)
        v[i] = cos(1 + 2.3 * (double)i); /* not an eigenvector of a usual problem */
    double norm = sqrt(dot(v, v, k->n)), scale = 0;
    while (k->rows < k->most && !status && !k->unknown && norm > 1e-14 * scale) {
        for (int64_t i = 0; i < k->n; i++) v[i] /= norm;
        status = add_row(k, v, v + k->n);
        if (status || k->unknown) break;
        norm = k->beta[k->rows - 1];
        scale = fmax(scale, fmax(fabs(k->alpha[k->rows - 1]), norm));
        v += k->n;
    }
    return status;
}

/* Largest over smallest size of the eigenvalues of the tridiagonal matrix, and whether one is below 0 by more than rounding. */
static gd_status judge(lanczos *k, gd_curvature *out)
{
    int rows = k->rows;
    double matrix[GD_CURVATURE_PRODUCTS * GD_CURVATURE_PRODUCTS] = {0}, value[GD_CURVATURE_PRODUCTS];
    double most = 0, least = INFINITY, lowest = 0, rounding = 0;
    for (int i = 0; i < rows; i++) {
        matrix[i * rows + i] = k->alpha[i];
        if (i + 1 < rows) matrix[i * rows + i + 1] = matrix[(i + 1) * rows + i] = k->beta[i];
    }
    for (int i = 0; i < k->var.count; i++) rounding = fmax(rounding, gd_vector_epsilon(k->params[i]));
    gd_tensor *values = NULL, *vectors = NULL;
    gd_status status = gd_eigh(gd_from_f64(k->ctx, GD_F64, 2, (int64_t[]){rows, rows}, matrix), &values,
                               &vectors);
    if (!status) status = gd_read_f64(values, value, rows);
    if (status) return status;
    for (int i = 0; i < rows; i++) {
        most = fmax(most, fabs(value[i]));
        least = fmin(least, fabs(value[i]));
        lowest = fmin(lowest, value[i]);
    }
    if (most > 0) out->condition = least > rounding * (double)rows * most ? most / least : INFINITY;
    out->falls = lowest < -sqrt(rounding) * most;
    return GD_OK;
}

/* The gradient with its graph, where products come from that; an error of the objective is an error of the run. */
static gd_status differentiate(lanczos *k)
{
    if (gd__var_gives_products(&k->var)) return GD_OK;
    gd_tensor *loss = NULL;
    gd_status status = gd__closure_eval(k->var.closure, &k->var, GD_EVAL_HISTORY, &loss, NULL);
    if (status) return status;
    int previous = gd_enable_grad_begin(k->ctx);
    if (gd_requires_grad(loss))
        status = of_autograd(k, gd_grad(loss, NULL, k->params, k->var.count, GD_CREATE_GRAPH, k->grad));
    else
        k->unknown = true;
    gd_enable_grad_end(k->ctx, previous);
    gd__release(loss);
    return status;
}

static gd_status explore(lanczos *k, gd_curvature *out)
{
    gd_status status = differentiate(k);
    if (!status && !k->unknown) status = iterate(k);
    return status || k->unknown || k->rows < 1 ? status : judge(k, out);
}

/* Parameters that want gradients, and room for four lists of them; false: no memory. */
static bool take_params(lanczos *k, const gd_optimizer *o)
{
    int all = gd_optimizer_count(o), count = 0;
    k->params = gd__tensors_new(k->ctx, 4 * all);
    for (int i = 0; k->params && i < all; i++)
        if (gd_requires_grad(gd_optimizer_param(o, i))) k->params[count++] = gd_optimizer_param(o, i);
    if (!k->params) return false;
    k->grad = k->params + all;
    k->v = k->grad + all;
    k->out = k->v + all;
    k->var.count = count;
    return true;
}

/* Does the objective have its own products, or a loss that can be differentiated twice? With several ranks only batches cover all rows. */
static bool has_products(const gd_optimizer *o, const gd_objective *objective)
{
    return o->shared.share ? objective->batch && !objective->loss && !objective->gradient
                           : objective->loss || objective->hvp || (objective->batch && !objective->gradient);
}

gd_status gd__curvature(gd_optimizer *o, const gd_objective *objective, int64_t products, gd_curvature *out)
{
    gd_closure base = {.eval = gd__objective_eval, .objective = objective};
    gd_step_share share = {0};
    lanczos k = {.ctx = gd_optimizer_ctx(o)};
    *out = (gd_curvature){.condition = NAN};
    if (!gd_optimizer_count(o) || !has_products(o, objective)) return GD_OK;
    if (!take_params(&k, o)) return GD_NOMEM;
    gd__var_init(&k.var, o, k.ctx, k.params, k.var.count);
    k.var.share = &share;
    k.var.closure = &base;
    k.var.step = gd_optimizer_steps(o);
    k.n = gd__list_numel(k.params, k.var.count);
    int64_t most = k.n < products ? k.n : products;
    most = most < GD_CURVATURE_PRODUCTS ? most : GD_CURVATURE_PRODUCTS;
    k.most = (int)(most * k.n < ROOM ? most : ROOM / k.n);
    size_t basis = (size_t)(k.most + 1) * (size_t)k.n;
    gd_status status = GD_OK;
    if (k.most >= (k.n < 2 ? 1 : 2)) {
        k.basis = gd__alloc_array(k.ctx, basis, sizeof *k.basis);
        gd_scope_begin(k.ctx);
        status = k.basis ? explore(&k, out) : GD_NOMEM;
        gd_scope_end(k.ctx);
    }
    if (k.basis) gd__free(k.ctx, k.basis, basis * sizeof *k.basis);
    gd__var_clear(&k.var);
    gd__free(k.ctx, k.params, 4 * (size_t)gd_optimizer_count(o) * sizeof *k.params);
    return status;
}
