/* Loss, constraints and their derivatives as plain numbers, for methods that use plain numbers.
 *
 * All of it comes from one evaluation per point: remembered evaluations (memo.h) have the graphs, and derivatives are passes over them.
 * The Hessian of the Lagrangian is that of one number, weight f + y c, on the graphs of both. */
#include "optim/step/objective/lagrangian.h"

#include "gradus/autograd.h"
#include "optim/step/objective/evaluator.h"
#include "optim/vector/jacobian.h"
#include "optim/vector/layout.h"

#include <string.h>

gd_status gd__lagrangian_counts(gd_var *var, int64_t *equal, int64_t *below)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *c[2];
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = gd_var_constraints(var, &c[0], &c[1]);
    *equal = !status && c[0] ? c[0]->numel : 0;
    *below = !status && c[1] ? c[1]->numel : 0;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

/* That of the objective itself, if no link has changed it. */
static gd_evaluator *evaluator_of(const gd_var *var)
{
    const gd_closure *c = var->closure;
    return c && !c->below ? gd__evaluator_of(var->optimizer, c->objective) : NULL;
}

bool gd__lagrangian_bends(const gd_var *var)
{
    const gd_evaluator *e = gd__evaluator_of(var->optimizer, gd__objective_of(var));
    if (e && !gd__evaluator_bends(e)) return false;
    if (var->optimizer->asked.flat_constraints && !gd__evaluator_gives(e, GD_WANT_HESSIAN)) return false;
    return gd__var_gives_products(var) || gd__var_has_products(var);
}

/* A number of constraints that changes with the parameters is a mistake. */
static gd_status read_part(gd_tensor *t, double *out) { return t ? gd_read_f64(t, out, t->numel) : GD_OK; }

static gd_status read_constraints(gd_var *var, double *c)
{
    gd_tensor *part[2];
    gd_scope_begin(var->ctx);
    gd_no_grad_begin(var->ctx);
    gd_status status = gd_var_constraints(var, &part[0], &part[1]);
    if (!status) status = read_part(part[0], c);
    if (!status) status = read_part(part[1], c + (part[0] ? part[0]->numel : 0));
    gd_no_grad_end(var->ctx);
    gd_scope_end(var->ctx);
    return status;
}

/* With a graph if one is needed and possible. */
static gd_status loss_of(gd_var *var, int flags, gd_tensor **loss)
{
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "a link evaluates the objective, but the step has none");
    return gd__closure_eval(var->closure, var, gd__var_has_graph(var) ? flags : 0, loss, NULL);
}

gd_status gd__lagrangian_values(gd_var *var, bool keep, double *f, double *c)
{
    gd_tensor *loss = NULL;
    gd_status status = loss_of(var, keep ? GD_EVAL_HISTORY : 0, &loss);
    *f = status ? 0 : gd_item(loss);
    gd__release(loss);
    return status ? status : read_constraints(var, c);
}

/* The Jacobian of one side, [numel, n]. */
static gd_status slopes_of(gd_var *var, gd_tensor *c, bool below, int64_t n, double *j)
{
    if (!c || !c->numel) return GD_OK;
    gd_evaluator *e = gd__evaluator_of(var->optimizer, gd__objective_of(var));
    if (gd__evaluator_gives(e, below ? GD_WANT_BELOW_JACOBIAN : GD_WANT_EQUAL_JACOBIAN)) {
        gd_tensor *given = gd__evaluator_jacobian(e, below);
        return given ? gd_read_f64(given, j, c->numel * n) : gd_error(var->ctx);
    }
    gd_tensor *rows = gd__jacobian_matrix(c, var->params, var->count);
    gd_status status = rows ? gd_read_f64(rows, j, c->numel * n) : gd_error(var->ctx);
    gd_release(rows);
    return status;
}

gd_status gd__lagrangian_first(gd_var *var, double *g, double *j)
{
    gd_ctx *ctx = var->ctx;
    int64_t n = gd__list_numel(var->params, var->count);
    gd_tensor *loss = NULL, *c[2], **grads = gd__tensors_new(ctx, var->count);
    gd_status status = grads ? gd__var_evaluate(var, &loss, grads) : GD_NOMEM;
    if (!status) status = gd__list_read(grads, var->count, g);
    gd__release(loss);
    gd__tensors_free(ctx, grads, var->count);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    status = gd_var_constraints(var, &c[0], &c[1]);
    if (!status) status = slopes_of(var, c[0], false, n, j);
    if (!status) status = slopes_of(var, c[1], true, n, j + (c[0] ? c[0]->numel * n : 0));
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* y c of one side; NULL if there is none. */
static gd_tensor *weighed(gd_tensor *c, const double *y)
{
    if (!c || !c->numel || !gd_requires_grad(c)) return NULL;
    gd_tensor *weights = gd_from_f64(c->head.ctx, c->dtype, 1, &c->numel, y);
    return gd_sum(gd_mul(c, gd_to_device(weights, c->storage->device)), NULL, false);
}

static gd_tensor *plus(gd_tensor *a, gd_tensor *b) { return a && b ? gd_add(a, b) : a ? a : b; }

/* w += the Hessian of a number. */
static gd_status add_hessian(gd_var *var, gd_tensor *number, int64_t n, double *w)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor **grads = gd__calloc(ctx, (size_t)var->count * sizeof *grads), *rows = NULL;
    double *read = gd__alloc_array(ctx, (size_t)(n * n), sizeof *read);
    gd_status status = grads && read ? GD_OK : GD_NOMEM;
    if (!status) status = gd_grad(number, NULL, var->params, var->count, GD_CREATE_GRAPH, grads);
    if (!status) rows = gd__derivative_rows(grads, var->count, var->params, var->count);
    if (!status) status = rows ? gd_read_f64(rows, read, n * n) : gd_error(ctx);
    for (int64_t i = 0; i < n && !status; i++)
        for (int64_t k = 0; k < n; k++) w[i * n + k] += 0.5 * (read[i * n + k] + read[k * n + i]);
    gd_release(rows);
    gd__free(ctx, read, (size_t)(n * n) * sizeof *read);
    gd__free(ctx, grads, (size_t)var->count * sizeof *grads);
    return status;
}

/* weight times the Hessian by the objective's own products. */
static gd_status add_products(gd_var *var, double weight, int64_t n, double *w)
{
    gd_var *clone = gd_var_clone(var, false, var);
    if (!clone) return gd_error(var->ctx);
    gd_var_set_loss(clone, NULL);
    gd_status status = gd_var_set_grad(clone, NULL);
    gd_tensor *h = status ? NULL : gd_var_hessian(clone);
    double *read = gd__alloc_array(var->ctx, (size_t)(n * n), sizeof *read);
    if (!status) status = h && read ? gd_read_f64(h, read, n * n) : gd_error(var->ctx);
    for (int64_t i = 0; i < n && !status; i++)
        for (int64_t k = 0; k < n; k++) w[i * n + k] += 0.5 * weight * (read[i * n + k] + read[k * n + i]);
    gd__free(var->ctx, read, (size_t)(n * n) * sizeof *read);
    gd_release(h);
    gd_var_free(clone);
    return status;
}

/* By the objective's own Hessian of all. */
static gd_status given_second(gd_var *var, gd_evaluator *e, double weight, const double *y, double *w)
{
    int64_t n = gd__list_numel(var->params, var->count), equal, below;
    gd_status status = gd__lagrangian_counts(var, &equal, &below);
    gd_tensor *h = status ? NULL : gd__evaluator_hessian(e, weight, y, equal + below);
    return h ? gd_read_f64(h, w, n * n) : gd_error(var->ctx);
}

gd_status gd__lagrangian_second(gd_var *var, double weight, const double *y, double *w)
{
    gd_evaluator *own = evaluator_of(var), *e = gd__evaluator_of(var->optimizer, gd__objective_of(var));
    if (gd__evaluator_gives(own, GD_WANT_HESSIAN)) return given_second(var, own, weight, y, w);
    if (e && !gd__evaluator_bends(e))
        return gd_fail(var->ctx, GD_NOT_IMPLEMENTED,
                       "the objective's `evaluate` gives first derivatives as numbers, and no Hessian; add "
                       "GD_WANT_HESSIAN, or let the link use a model");
    gd_ctx *ctx = var->ctx;
    int64_t n = gd__list_numel(var->params, var->count);
    gd_tensor *loss = NULL, *c[2], *number = NULL;
    bool products = gd__var_gives_products(var);
    memset(w, 0, (size_t)(n * n) * sizeof *w);
    gd_status status = products || weight == 0 ? GD_OK : loss_of(var, GD_EVAL_HISTORY, &loss);
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!status) status = gd_var_constraints(var, &c[0], &c[1]);
    if (!status) {
        if (loss && gd_requires_grad(loss)) number = gd_mul_scalar(loss, weight);
        number = plus(number, weighed(c[0], y));
        number = plus(number, weighed(c[1], y + (c[0] ? c[0]->numel : 0)));
        status = gd_error(ctx);
    }
    if (!status && number) status = add_hessian(var, number, n, w);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    gd__release(loss);
    return status || !products || weight == 0 ? status : add_products(var, weight, n, w);
}

void gd__forget_first(gd_var *var)
{
    gd__release(var->optimizer->asked.first_loss);
    var->optimizer->asked.first_loss = NULL;
}
