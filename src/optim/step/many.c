/* Losses at many points: all in one call if the objective can do that, else one after the other. */
#include "optim/step/many.h"

#include "optim/vector/layout.h"

#include <math.h>

/* ---- in one call ---- */

/* The objective's results for k points, as numbers. */
static gd_status read_values(gd_ctx *ctx, gd_tensor *values, int64_t k, double *losses)
{
    if (gd_error(ctx)) return gd_error(ctx);
    if (!values)
        return gd_fail(ctx, GD_CALLBACK, "the objective returned NULL for the losses of %lld points",
                       (long long)k);
    if (values->numel != k)
        return gd_fail(ctx, GD_SHAPE, "the objective returned %lld losses for %lld points",
                       (long long)values->numel, (long long)k);
    return gd_read_f64(values, losses, k);
}

/* points in the objective's precision: of the widest dtype of the parameters, where they are. */
static gd_status at_once(gd_var *var, const gd_objective *o, gd_tensor *points, double *losses)
{
    gd_ctx *ctx = var->ctx;
    int64_t k = points->size[0];
    gd_dtype dtype = gd__list_dtype(var->params, var->count);
    gd_scope_begin(ctx);
    gd_tensor *seen = gd_to_device(gd_cast(points, dtype), var->params[0]->storage->device);
    gd_status status = seen ? read_values(ctx, o->values(o->user, seen), k, losses) : gd_error(ctx);
    gd_scope_end(ctx);
    if (!status) var->optimizer->evals += k;
    return status;
}

gd_status gd__value_by_values(gd_var *var, const gd_objective *o, double *loss)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *x = gd_list_vector(var->params, var->count);
    gd_tensor *point = x ? gd_reshape(x, 2, (int64_t[]){1, x->numel}) : NULL;
    return point ? read_values(ctx, o->values(o->user, point), 1, loss) : gd_error(ctx);
}

/* ---- one after the other ---- */

static gd_status visit(gd_var *var, gd_tensor *points, int64_t i, double *x, double *loss)
{
    gd_ctx *ctx = var->ctx;
    gd_scope_begin(ctx);
    gd_tensor *row = gd_index(points, "0", i);
    gd_status status = row ? gd_read_f64(row, x, row->numel) : gd_error(ctx);
    gd_scope_end(ctx);
    if (!status) status = gd__list_write(var->params, var->count, x);
    return status ? status : gd_var_evaluate_at(var, loss);
}

static gd_status in_turn(gd_var *var, gd_tensor *points, double *losses)
{
    gd_ctx *ctx = var->ctx;
    gd_origin here = {0};
    bool history = var->grad_history;
    size_t bytes = (size_t)points->size[1] * sizeof(double);
    double *x = gd__alloc(ctx, bytes);
    gd_status status = x ? gd__origin_keep(&here, ctx, var->params, var->count) : GD_NOMEM;
    for (int64_t i = 0; i < points->size[0] && !status; i++) status = visit(var, points, i, x, &losses[i]);
    gd_status back = gd__origin_return(&here);
    var->grad_history = history && !back;
    gd__origin_free(&here);
    if (x) gd__free(ctx, x, bytes);
    return status ? status : back;
}

/* ---- both ---- */

/* None of the points is the point of the step, so the var keeps its loss. */
static void keep_first_loss(gd_var *var, gd_tensor *before)
{
    gd_optimizer *o = var->optimizer;
    gd_tensor *first = before ? before : var->loss;
    gd__retain(first);
    gd__release(o->asked.first_loss);
    o->asked.first_loss = first;
}

static gd_status check_points(const gd_var *var, gd_tensor *points)
{
    int64_t n = gd__list_numel(var->params, var->count);
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "a link evaluates the objective, but the step has none");
    if (points->ndim != 2 || points->size[1] != n)
        return gd_fail(var->ctx, GD_SHAPE,
                       "points to evaluate: not a matrix with a column for each of the %lld elements",
                       (long long)n);
    return GD_OK;
}

/* Finite ones stay; others become the worst value. */
static gd_status losses_of(gd_var *var, gd_tensor *points, double *losses)
{
    gd_ctx *ctx = var->ctx;
    int64_t k = points->size[0];
    size_t bytes = ((size_t)k + 1) * sizeof *losses;
    double *found = gd__alloc(ctx, bytes);
    if (!found) return GD_NOMEM;
    gd_tensor *before = var->optimizer->asked.first_loss;
    gd__retain(before);
    const gd_objective *o = var->closure->below ? NULL : var->closure->objective;
    bool all = o && o->values && k > 0 && points->size[1] > 0;
    gd_status status = all ? at_once(var, o, points, found) : in_turn(var, points, found);
    keep_first_loss(var, before);
    gd__release(before);
    for (int64_t i = 0; i < k && !status; i++) losses[i] = isfinite(found[i]) ? found[i] : INFINITY;
    gd__free(ctx, found, bytes);
    return status;
}

gd_status gd_var_evaluate_many(gd_var *var, gd_tensor *points, double *losses)
{
    if (!var || !points || !losses)
        return gd__null(gd_var_ctx(var),
                        "var: the points to evaluate or the place for their losses are NULL");
    gd_ctx *ctx = var->ctx;
    gd_status status = gd_error(ctx) ? gd_error(ctx) : check_points(var, points);
    if (!status) status = gd_var_flush(var);
    if (status) return status;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *seen = gd_drop_names(gd_detach(points));
    status = seen ? losses_of(var, seen, losses) : gd_error(ctx);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}
