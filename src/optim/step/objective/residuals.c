/* The residuals of an objective, whole or by ranges of rows, and their Jacobian. */
#include "optim/step/objective/residuals.h"

#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/step/microbatch_loss.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/objective/memo.h"
#include "optim/vector/linear_model.h"
#include "tensor/shape.h"

#include "optim/vector/row_blocks.h"
#include "optim/vector/layout.h"

/* ---- by rows ---- */

static gd_status triangle_here(gd_var *var, const gd_rows *rows, gd_tensor **triangle, double *loss)
{
    *triangle = NULL;
    gd_blocks *b = gd__blocks_new(rows, var->params, var->count);
    gd_status status = b ? gd__blocks_triangle(b, triangle, loss) : gd_error(var->ctx);
    gd__blocks_free(b);
    return status;
}

static gd_status part(gd_tensor *triangle, gd_dtype dtype, gd_tensor **j, gd_tensor **r)
{
    gd_ctx *ctx = triangle->head.ctx;
    int64_t n = triangle->size[0] - 1;
    gd__aside_begin(ctx);
    gd__own(*j = gd_cast(gd_contiguous(gd_slice(triangle, "1", 0, n, 1)), dtype));
    gd__own(*r = gd_cast(gd_contiguous(gd_index(triangle, "1", n)), dtype));
    gd__aside_end(ctx);
    if (*j && *r) return GD_OK;
    gd__release(*j);
    gd__release(*r);
    *j = *r = NULL;
    return gd_error(ctx);
}

/* Instead of J and r: j [n + 1, n], r [n + 1], with the same products and norms, of the parameters' dtype.  Owned. */
static gd_status triangle_parts(gd_var *var, const gd_rows *rows, gd_tensor **j, gd_tensor **r, double *loss)
{
    gd_tensor *triangle;
    gd_status status = triangle_here(var, rows, &triangle, loss);
    if (!status) status = part(triangle, gd__list_dtype(var->params, var->count), j, r);
    gd__release(triangle);
    return status;
}

/* 2 J^T r into the gradients. */
static gd_status write_gradient(gd_var *var, gd_tensor *triangle, gd_tensor *const *grads)
{
    gd_ctx *ctx = var->ctx;
    int64_t n = triangle->size[0] - 1;
    double *g = gd__alloc_array(ctx, (size_t)n, sizeof *g);
    if (!g) return GD_NOMEM;
    const double *t = gd_data(triangle);
    for (int64_t j = 0; j < n; j++) {
        g[j] = 0;
        for (int64_t i = 0; i <= j; i++) g[j] += 2 * t[i * (n + 1) + j] * t[i * (n + 1) + n];
    }
    gd_status status = gd__list_write(grads, var->count, g);
    gd__free(ctx, g, (size_t)n * sizeof *g);
    return status;
}

gd_status gd__rows_eval(gd_var *var, const gd_rows *rows, double *loss, gd_tensor *const *grads)
{
    gd_tensor *triangle = NULL;
    gd_status status;
    if (grads) {
        status = triangle_here(var, rows, &triangle, loss);
        if (!status) status = write_gradient(var, triangle, grads);
        gd__release(triangle);
        return status;
    }
    gd_blocks *b = gd__blocks_new(rows, var->params, var->count);
    status = b ? gd__blocks_loss(b, loss) : gd_error(var->ctx);
    gd__blocks_free(b);
    return status;
}

/* Are Jacobians computed by rows, because there is no other function, or because there are many? */
static bool by_rows(const gd_objective *o)
{
    return o->rows && (o->rows->count > GD_BLOCK_ROWS || o->rows->world || (!o->loss && !o->residuals));
}

/* ---- whole residuals ---- */

/* The loss that the step returns if residuals were its first evaluation, and the value kept for later. */
static gd_status loss_of_residuals(gd_var *var, const gd_objective *o, gd_point *p, gd_tensor *r)
{
    bool known = !p || p->loss || o->residuals;
    if (var->optimizer->asked.first_loss && known) return GD_OK;
    gd_no_grad_begin(var->ctx);
    gd_tensor *loss = gd_sum(gd_square(gd_drop_names(gd_detach(r))), NULL, false);
    gd_no_grad_end(var->ctx);
    if (!loss) return gd_error(var->ctx);
    gd__remember_first(var, loss);
    if (!known) gd__memo_keep(var->optimizer->asked.memo, p, loss, NULL);
    return GD_OK;
}

/* Calls the objective.  keep: as in eval_autograd. */
static gd_tensor *residuals_now(gd_var *var, const gd_objective *o, gd_tensor **keep)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *r = o->residuals ? o->residuals(o->user) : o->loss ? o->loss(o->user) : NULL;
    if (gd_error(ctx)) return NULL;
    if (!r)
        (void)gd_fail(ctx, GD_NOT_IMPLEMENTED, "the objective gives no residuals");
    else if (r->ndim == 0 || (r->numel == 1 && !o->residuals))
        (void)gd_fail(ctx, GD_SHAPE, "a link needs a vector of residuals, the objective returned one number");
    if (gd_error(ctx)) return NULL;
    if (!gd__evaluator_of(var->optimizer, o)) var->optimizer->evals++;
    if (keep) {
        gd__release(*keep);
        gd__own(*keep = r);
    }
    return r;
}

gd_status gd__check_residuals(gd_var *var, bool one_number)
{
    var->optimizer->asked.one_number = one_number;
    if (!one_number || !var->share->wants_residuals) return GD_OK;
    return gd_fail(
        var->ctx, GD_SHAPE,
        "%s: it needs a vector of residuals, the objective returned one number; leave the link out, or return the residuals",
        var->share->wants_residuals);
}

gd_status gd_var_want_residuals(gd_var *var, const gd_link *link)
{
    if (!var || !link)
        return gd__null(gd_var_ctx(var), "var: the variable or the link that wants residuals is NULL");
    const gd_objective *o = gd__objective_of(var);
    if (!o) return gd_fail(var->ctx, GD_STATE, "a link asks for residuals, but the step has no objective");
    if (o->residuals || o->rows || o->jacobian) return GD_OK;
    if (!o->loss && !o->batch)
        return gd_fail(var->ctx, GD_NOT_IMPLEMENTED,
                       "%s: it needs a vector of residuals, the callbacks of the objective give one number",
                       gd_link_class_of(link)->name);
    var->share->wants_residuals = gd_link_class_of(link)->name;
    return var->loss ? gd__check_residuals(var, var->optimizer->asked.one_number) : GD_OK;
}

gd_status gd_var_residuals(gd_var *var, gd_tensor **residuals, bool graph)
{
    if (!var || !residuals) return gd__null(gd_var_ctx(var), "var: the place for the residuals is NULL");
    gd_ctx *ctx = var->ctx;
    gd_closure *c = var->closure;
    *residuals = NULL;
    if (!c) return gd_fail(ctx, GD_STATE, "a link asks for residuals, but the step has no objective");
    if (c->below)
        return gd_fail(ctx, GD_NOT_IMPLEMENTED,
                       "a link needs residuals of a closure that a different link changed");
    const gd_objective *o = c->objective;
    gd_memo *memo = graph ? gd__memo_of(var) : NULL;
    gd_point *p = memo ? gd__memo_find(memo) : NULL;
    if (memo && !p) p = gd__memo_place(memo);
    if (memo) gd__memo_note(memo, p, var, true);
    gd_tensor **kept = !p ? NULL : o->residuals ? &p->residuals : &p->graph;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!graph) gd_no_grad_begin(ctx);
    bool known = kept && *kept && (*kept)->ndim > 0 && (o->residuals || (*kept)->numel > 1) &&
                 gd__graph_intact(*kept);
    gd_tensor *r = known ? *kept : residuals_now(var, o, kept);
    if (r) r = gd__reshape(r, 1, &r->numel);
    gd_enable_grad_end(ctx, previous);
    gd_status status = r ? loss_of_residuals(var, o, p, r) : gd_error(ctx);
    if (!status) {
        gd__own(r);
        *residuals = r;
        var->optimizer->asked.exact |= graph;
    }
    gd_scope_end(ctx);
    return status ? status : gd__give_out(ctx, residuals, 1);
}

/* The result of a callback in the parameters' dtype.  Owned. */
static gd_status checked(gd_var *var, gd_tensor *j, gd_tensor *r, gd_tensor **both, double *loss)
{
    gd_ctx *ctx = var->ctx;
    int64_t n = gd__list_numel(var->params, var->count);
    if (!j || !r || j->ndim != 2 || r->ndim != 1 || j->size[0] != r->numel || j->size[1] != n)
        return gd_fail(ctx, GD_SHAPE, "the objective gives residuals [m] and a Jacobian [m, %lld]",
                       (long long)n);
    gd_dtype dtype = gd__list_dtype(var->params, var->count);
    both[0] = gd__linear_copy(j, j->storage->device, dtype);
    both[1] = gd__linear_copy(r, j->storage->device, dtype);
    gd_tensor *sum = gd_sum(gd_square(gd_cast(gd_detach(r), GD_F64)), NULL, false);
    *loss = sum ? gd_item(sum) : 0;
    return gd_error(ctx);
}

static gd_status given_parts(gd_var *var, const gd_objective *o, gd_tensor **both, double *loss)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *j = NULL, *r = NULL;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = gd__callback_status(ctx, o->jacobian(o->user, &j, &r));
    if (!status) status = checked(var, j, r, both, loss);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

/* 2 J'r, into the gradients. */
static gd_status write_slope(gd_var *var, gd_tensor *const *both, gd_tensor *const *grads)
{
    gd_layout l;
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__layout_init(&l, ctx, var->params, var->count);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *slope = status ? NULL : gd_mul_scalar(gd_matmul(gd_transpose(both[0], 0, 1), both[1]), 2);
    if (!status) status = slope ? gd__vector_to_list(&l, slope, grads) : gd_error(ctx);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    gd__layout_free(&l);
    return status;
}

gd_status gd__jacobian_eval(gd_var *var, const gd_objective *o, double *loss, gd_tensor *const *grads)
{
    gd_tensor *both[2] = {NULL, NULL};
    gd_status status = given_parts(var, o, both, loss);
    if (!status && grads) status = write_slope(var, both, grads);
    gd__release(both[0]);
    gd__release(both[1]);
    return status;
}

/* Without a graph.  The loss comes with it, and is remembered as that of any evaluation. */
static gd_status linearised_at_once(gd_var *var, const gd_objective *o, gd_tensor **both)
{
    gd_ctx *ctx = var->ctx;
    gd_memo *memo = gd__memo_of(var);
    gd_point *p = memo ? gd__memo_find(memo) : NULL;
    if (memo && !p) p = gd__memo_place(memo);
    if (memo) gd__memo_note(memo, p, var, false);
    double value;
    gd_status status = o->jacobian ? given_parts(var, o, both, &value)
                                   : triangle_parts(var, o->rows, &both[0], &both[1], &value);
    gd_scope_begin(ctx);
    gd_tensor *loss = status ? NULL : gd_scalar(ctx, GD_F64, value);
    if (loss) gd__remember_first(var, loss);
    if (loss && p) gd__memo_keep(memo, p, loss, NULL);
    gd_scope_end(ctx);
    if (loss) {
        var->optimizer->asked.exact = true;
        if (!gd__evaluator_of(var->optimizer, o)) var->optimizer->evals++;
        return GD_OK;
    }
    gd__release(both[0]);
    gd__release(both[1]);
    return gd_error(ctx);
}

gd_status gd_var_linearised(gd_var *var, gd_tensor **j, gd_tensor **r)
{
    if (!var || !j || !r) return gd__null(gd_var_ctx(var), "var: the place for a Jacobian is NULL");
    gd_tensor *residuals = NULL, *both[2] = {NULL, NULL};
    const gd_objective *o = var->closure && !var->closure->below ? var->closure->objective : NULL;
    bool at_once = o && (o->jacobian || by_rows(o));
    gd_status status = at_once ? linearised_at_once(var, o, both) : gd_var_residuals(var, &residuals, true);
    if (status) return status;
    if (!at_once) status = gd__linear_from(residuals, var->params, var->count, false, &both[0], &both[1]);
    gd_release(residuals);
    if (!status) status = gd__give_out(var->ctx, both, 2);
    if (status) return status;
    *j = both[0];
    *r = both[1];
    return GD_OK;
}

gd_status gd__as_loss(gd_ctx *ctx, gd_tensor **result, bool one_is_residual)
{
    if (*result && !gd_error(ctx) && (*result)->dtype == GD_BOOL)
        return gd_fail(ctx, GD_DTYPE, "the objective returned true or false, which is no loss");
    bool made = *result && !gd_error(ctx) && (*result)->ndim > 0;
    if (made && (*result)->numel == 1 && !one_is_residual)
        *result = gd__reshape(gd_drop_names(*result), 0, NULL);
    else if (made)
        *result = gd_sum(gd_square(gd_drop_names(*result)), NULL, false);
    if (gd_error(ctx)) return gd_error(ctx);
    return *result ? GD_OK : gd_fail(ctx, GD_CALLBACK, "the objective returned NULL");
}
