/* Closures: the objective as links see it, and as links change it. */
#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/vector/jacobian.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"
#include "optim/vector/linear_model.h"
#include "optim/step/microbatch_loss.h"
#include "optim/step/many.h"
#include "optim/step/objective/memo.h"
#include "optim/step/optimizer.h"
#include "optim/step/objective/residuals.h"
#include "optim/step/objective/traced.h"
#include "tensor/shape.h"

#include <math.h>

static void release_all(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    gd__release(*loss);
    *loss = NULL;
    for (int i = 0; grads && i < var->count; i++) {
        gd__release(grads[i]);
        grads[i] = NULL;
    }
}

gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    *loss = NULL;
    for (int i = 0; grads && i < var->count; i++) grads[i] = NULL;
    gd_status status = closure->eval(closure, var, flags, loss, grads);
    if (status) release_all(var, loss, grads);
    return status;
}

gd_closure *gd__closure_push(gd_var *var)
{
    gd_closure *made = gd__calloc(var->ctx, sizeof *made);
    if (!made) return NULL;
    made->below = var->closure;
    made->next_made = var->optimizer->closures;
    var->optimizer->closures = made;
    return made;
}

/* ---- the objective itself ---- */

void gd__remember_first(gd_var *var, gd_tensor *loss)
{
    gd_optimizer *o = var->optimizer;
    if (o->first_loss) return;
    gd__retain(loss);
    o->first_loss = loss;
}

/* Owned references out of the scope the closure ran in.  On failure the caller has none. */
static gd_status hand_over(gd_var *var, gd_tensor *result, bool history, gd_tensor **loss, gd_tensor **grads)
{
    gd_tensor *out = history ? result : gd_detach(result);
    for (int i = 0; grads && i < var->count; i++) {
        if (out)
            gd__own(grads[i]);
        else
            grads[i] = NULL;
    }
    if (!out) return gd_error(var->ctx);
    gd__own(out);
    *loss = out;
    return GD_OK;
}

/* A parameter, or a part of one, that is the loss: it would change with the step. */
static bool is_of_params(const gd_var *var, const gd_tensor *t)
{
    for (int i = 0; i < var->count; i++)
        if (t->storage == var->params[i]->storage) return true;
    return false;
}

/* A loss that no parameter leads to has no gradient: zeros would look like a minimum.  Parameters that their module has replaced
 * have them, with a warning (look_at_dropped). */
static gd_status gradients_of(gd_var *var, gd_tensor *loss, int how, gd_tensor **grads)
{
    bool found = false;
    gd_status status = GD_OK;
    if (gd_requires_grad(loss))
        status = gd_grad(loss, NULL, var->params, var->count, how | GD_ALLOW_UNUSED, grads);
    for (int i = 0; i < var->count && !status && gd_requires_grad(loss); i++) found |= grads[i] != NULL;
    if (!status && !found && var->count && !var->optimizer->looked.dropped)
        status = gd_fail(var->ctx, GD_GRAPH,
                         "%s: the loss does not depend on any parameter that wants gradients",
                         var->optimizer->careful ? "minimize" : "step");
    for (int i = 0; i < var->count && !status; i++)
        if (!grads[i] && !(grads[i] = gd_zeros_like(var->params[i]))) status = gd_error(var->ctx);
    return status;
}

/* Loss and gradients of what the objective returned, in the scope it was made in.  keep: its graph stays. */
gd_status gd__derive(gd_var *var, gd_tensor *result, int flags, bool keep, gd_tensor **loss,
                     gd_tensor **grads)
{
    bool history = flags & GD_EVAL_HISTORY, backward = flags & GD_EVAL_BACKWARD,
         graph = flags & GD_EVAL_GRAPH;
    bool one_number = result && result->numel == 1;
    gd_status status = gd__as_loss(var->ctx, &result, false);
    if (!status) status = gd__check_residuals(var, one_number);
    if (!status && is_of_params(var, result) && !(result = gd_copy(result))) status = gd_error(var->ctx);
    int how = graph ? GD_CREATE_GRAPH : history || keep ? GD_RETAIN_GRAPH : 0;
    if (!status && backward) status = gradients_of(var, result, how, grads);
    for (int i = 0; status && grads && i < var->count; i++) grads[i] = NULL;
    return status ? status : hand_over(var, result, history || graph, loss, backward ? grads : NULL);
}

/* keep: an owned reference of what the objective returned goes there, with its history.  NULL: not wanted. */
static gd_status eval_autograd(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads,
                               gd_tensor **keep)
{
    gd_ctx *ctx = var->ctx;
    if (c->objective->traced && !keep && !(flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY)))
        return gd__traced_eval(c, var, flags, loss, grads);
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!flags && !keep) gd_no_grad_begin(ctx);
    gd_tensor *result = c->objective->loss(c->objective->user);
    gd_status status = gd__derive(var, result, flags, keep, loss, grads);
    if (!status && keep) {
        gd__own(result);
        *keep = result;
    }
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

/* Zeros like the parameters, of the innermost scope. */
static gd_status zeros_like_params(gd_var *var, gd_tensor **out)
{
    for (int i = 0; i < var->count; i++)
        if (!(out[i] = gd_zeros_like(var->params[i]))) return gd_error(var->ctx);
    return GD_OK;
}

/* The value alone; from value and gradient together if there is nothing else. */
static gd_status callback_value(gd_var *var, const gd_objective *o, double *value)
{
    gd_ctx *ctx = var->ctx;
    if (o->value) return o->value(o->user, value);
    if (o->values) return gd__value_by_values(var, o, value);
    if (o->batch && !o->gradient) return gd__batch_eval(var, o->batch, NULL, value, NULL);
    if (o->rows && !o->gradient) return gd__rows_eval(var, o->rows, value, NULL);
    if (!o->gradient) return gd_fail(ctx, GD_NOT_IMPLEMENTED, "the objective has no value");
    gd_tensor **unused = gd__tensors_new(ctx, var->count);
    gd_status status = unused ? zeros_like_params(var, unused) : GD_NOMEM;
    if (!status) status = o->gradient(o->user, value, unused);
    gd__free(ctx, unused, (size_t)var->count * sizeof *unused);
    return status;
}

/* keep: what it is computed by stays for products with the Hessian. */
static gd_status callback_gradient(gd_var *var, const gd_objective *o, bool keep, double *value,
                                   gd_tensor **grads)
{
    if (keep) {
        gd_status made = zeros_like_params(var, grads);
        return made ? made : o->gradient_kept(o->user, value, grads);
    }
    if (!o->gradient && !o->rows && !o->batch)
        return gd_fail(var->ctx, GD_NOT_IMPLEMENTED, "the objective has no gradient");
    if (!o->gradient && o->batch) return gd__batch_eval(var, o->batch, NULL, value, grads);
    gd_status status = zeros_like_params(var, grads);
    if (status) return status;
    return o->gradient ? o->gradient(o->user, value, grads) : gd__rows_eval(var, o->rows, value, grads);
}

gd_status gd__callback_status(gd_ctx *ctx, gd_status status)
{
    if (!status || gd_error(ctx)) return gd_error(ctx);
    return gd_fail(ctx, status, "the objective failed (%s)", gd_status_name(status));
}

/* A foreign objective fills numbers. */
static gd_status eval_callbacks(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    bool keep = gd__var_keeps_products(var);
    if (flags & GD_EVAL_HISTORY || (flags & GD_EVAL_GRAPH && !keep))
        return gd_fail(
            ctx, GD_NOT_IMPLEMENTED,
            "a link asks for the graph of an objective given by callbacks; give it products with the "
            "Hessian, or let the link use differences");
    double value = NAN;
    gd_scope_begin(ctx);
    gd_status status = grads ? callback_gradient(var, c->objective, flags & GD_EVAL_GRAPH, &value, grads)
                             : callback_value(var, c->objective, &value);
    status = gd__callback_status(ctx, status);
    var->optimizer->kept += flags & GD_EVAL_GRAPH ? 1 : 0;
    gd_tensor *result = status ? NULL : gd_scalar(ctx, GD_F64, value);
    if (!status && !result) status = GD_NOMEM;
    for (int i = 0; status && grads && i < var->count; i++) grads[i] = NULL;
    if (!status) status = hand_over(var, result, true, loss, grads);
    gd_scope_end(ctx);
    return status;
}

static gd_status eval_now(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads,
                          gd_tensor **keep)
{
    gd_status status = c->objective->loss ? eval_autograd(c, var, flags, loss, grads, keep)
                                          : eval_callbacks(c, var, flags, loss, grads);
    if (!status) var->optimizer->evals++;
    return status;
}

/* ---- points that were evaluated before ---- */

/* Callbacks and replays keep no graph: the value of a trial may come with the gradient that the next step asks for if the trial is
 * accepted, or with one because there is nothing else. */
static gd_status eval_ahead(gd_closure *c, gd_var *var, gd_point *p, gd_tensor **loss)
{
    gd_tensor **grads = gd__tensors_new(var->ctx, var->count);
    if (!grads) return GD_NOMEM;
    gd_status status = eval_now(c, var, GD_EVAL_BACKWARD, loss, grads, NULL);
    if (!status) gd__memo_keep(var->optimizer->memo, p, *loss, grads);
    gd__tensors_free(var->ctx, grads, var->count);
    return status;
}

/* At a point where nothing, or too little, is known; p: where it is remembered, or NULL. */
static gd_status eval_new(gd_closure *c, gd_var *var, gd_point *p, int flags, gd_tensor **loss,
                          gd_tensor **grads)
{
    gd_memo *memo = var->optimizer->memo;
    const gd_objective *o = c->objective;
    if (!p) return eval_now(c, var, flags, loss, grads, NULL);
    if (!o->loss && !flags && (o->gradient || o->rows || o->batch) &&
        ((!o->value && !o->rows && !o->batch) || gd__memo_ahead(memo, var)))
        return eval_ahead(c, var, p, loss);
    bool graph = flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY),
         keep = gd__memo_wants_graph(memo, var, flags & GD_EVAL_BACKWARD) || graph;
    if (o->loss && o->traced && !graph) {
        /* what a graph would be kept for is computed with the value: a replay takes little longer */
        if (keep && !flags) return eval_ahead(c, var, p, loss);
        keep = false;
    }
    if (keep) gd__memo_drop_graphs(p);
    gd_status status = eval_now(c, var, flags, loss, grads, keep && o->loss ? &p->graph : NULL);
    if (!status) gd__memo_keep(memo, p, *loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    return status;
}

/* What is known already, where that is enough. */
static bool served(gd_var *var, const gd_point *p, int flags, gd_tensor **loss, gd_tensor **grads)
{
    bool backward = flags & GD_EVAL_BACKWARD;
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY) || !p->loss) return false;
    if (backward && !gd__memo_has_gradient(var->optimizer->memo, p)) return false;
    gd__retain(*loss = p->loss);
    for (int i = 0; i < var->count && backward; i++) gd__retain(grads[i] = p->grad[i]);
    return true;
}

/* From the graph of an earlier evaluation here. */
static gd_status eval_kept(gd_var *var, gd_point *p, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    gd_memo *memo = var->optimizer->memo;
    bool keep = gd__memo_wants_graph(memo, var, true);
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = gd__derive(var, p->graph, flags, keep, loss, grads);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    if (status) return status;
    gd__memo_keep(memo, p, *loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    if (!keep) gd__memo_drop_graphs(p);
    return GD_OK;
}

gd_status gd__objective_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_memo *memo = gd__memo_of(var);
    gd_point *p = memo ? gd__memo_find(memo) : NULL;
    bool graph = flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY);
    if (memo && !p) p = gd__memo_place(memo);
    if (memo && (graph || flags & GD_EVAL_BACKWARD)) gd__memo_note(memo, p, var, graph);
    gd_status status = GD_OK;
    if (!p || !served(var, p, flags, loss, grads)) {
        bool kept = p && p->graph && gd__graph_intact(p->graph);
        status = kept ? eval_kept(var, p, flags, loss, grads) : eval_new(c, var, p, flags, loss, grads);
    }
    if (!status) gd__remember_first(var, *loss);
    return status;
}

/* ---- reformulations: L' = f(L) ---- */

static gd_tensor *reformulated(gd_closure *c, gd_tensor *below)
{
    gd_tensor *result = c->reformulate(c->user, below);
    return gd__as_loss(below->head.ctx, &result, false) ? NULL : result;
}

gd_status gd__closure_graph(gd_closure *c, gd_var *var, gd_tensor *(*make)(gd_closure *c, gd_tensor *below),
                            gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor *below = NULL;
    gd_status status = gd__closure_eval(c->below, var, GD_EVAL_HISTORY, &below, NULL);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *result = make(c, below);
    status = result ? GD_OK : gd_error(ctx);
    if (!status && grads) status = gd_grad(result, NULL, var->params, var->count, GD_CREATE_GRAPH, grads);
    for (int i = 0; status && grads && i < var->count; i++) grads[i] = NULL;
    if (!status) status = hand_over(var, result, true, loss, grads);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    gd__release(below);
    return status;
}

/* Replaces the owned gradients by slope times them. */
static gd_status scale_grads(gd_var *var, gd_tensor *slope, gd_tensor **grads)
{
    for (int i = 0; i < var->count; i++) {
        gd_tensor *factor = gd_cast(slope, grads[i]->dtype), *g = gd_mul(gd_drop_names(grads[i]), factor);
        g = g ? gd__relabel_like(g, grads[i]) : NULL;
        if (!g) return gd_error(var->ctx);
        gd__own(g);
        gd__release(grads[i]);
        grads[i] = g;
    }
    return GD_OK;
}

/* Without one: g' = f'(L) g. */
static gd_status reformulate_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY))
        return gd__closure_graph(c, var, reformulated, loss, grads);
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__closure_eval(c->below, var, flags, loss, grads);
    if (status) return status;
    gd_tensor *old = *loss, *slope = NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (!grads) gd_no_grad_begin(ctx);
    gd_tensor *leaf = gd__alias(old);
    if (leaf && grads) leaf = gd_require_grad(leaf);
    gd_tensor *result = leaf ? c->reformulate(c->user, leaf) : NULL;
    status = gd__as_loss(ctx, &result, false);
    if (!status && grads) status = gd_grad(result, NULL, &leaf, 1, 0, &slope);
    gd_enable_grad_end(ctx, previous);
    gd_no_grad_begin(ctx);
    gd_tensor *detached = status ? NULL : gd_detach(result);
    if (!status && !detached) status = gd_error(ctx);
    if (!status && grads) status = scale_grads(var, slope, grads);
    if (!status) {
        gd__own(detached);
        gd__release(old);
        *loss = detached;
    }
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

gd_status gd_var_reformulate(gd_var *var, gd_reformulate_fn fn, void *user)
{
    if (!var || !fn) return gd__null(gd_var_ctx(var), "var: the function of a reformulation is NULL");
    if (!var->closure) return gd_fail(var->ctx, GD_STATE, "a reformulation needs a step with an objective");
    gd_closure *c = gd__closure_push(var);
    if (!c) return GD_NOMEM;
    c->eval = reformulate_eval;
    c->reformulate = fn;
    c->user = user;
    var->closure = c;
    return GD_OK;
}

/* ---- wrapped closures ---- */

/* A user's function makes its loss and gradients with operators: they are taken out of a scope of their own. */
static gd_status wrap_scoped(gd_closure *c, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    gd_scope_begin(ctx);
    gd_status status = c->wrap(c->user, var, backward, loss, grads);
    if (!status && !*loss)
        status = gd_error(ctx) ? gd_error(ctx)
                               : gd_fail(ctx, GD_CALLBACK, "the changed closure gave no loss");
    if (status) *loss = NULL;
    gd__own(*loss);
    for (int i = 0; grads && i < var->count; i++) {
        if (status) grads[i] = NULL;
        gd__own(grads[i]);
    }
    gd_scope_end(ctx);
    return status;
}

static gd_status wrap_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY))
        return gd_fail(var->ctx, GD_NOT_IMPLEMENTED,
                       "a link asks for the graph of a closure that another link changed");
    gd_closure *outer = var->closure;
    var->closure = c;
    gd_status status = c->scoped ? wrap_scoped(c, var, flags & GD_EVAL_BACKWARD, loss, grads)
                                 : c->wrap(c->user, var, flags & GD_EVAL_BACKWARD, loss, grads);
    var->closure = outer;
    if (!status && grads) status = gd__lsq_like(var->ctx, "changed closure", grads, var->params, var->count);
    return status;
}

gd_status gd__var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user)
{
    if (!var || !fn) return gd__null(gd_var_ctx(var), "var: the function around a closure is NULL");
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "target \"closure\" needs a step with an objective");
    gd_closure *c = gd__closure_push(var);
    if (!c) return GD_NOMEM;
    c->eval = wrap_eval;
    c->wrap = fn;
    c->user = user;
    var->closure = c;
    return GD_OK;
}

gd_status gd_var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user)
{
    gd_status status = gd__var_wrap_closure(var, fn, user);
    if (!status) var->closure->scoped = true;
    return status;
}

gd_status gd__var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    if (!var) return GD_ARGUMENT;
    gd_closure *outer = var->closure;
    if (!outer || !outer->below) return gd_fail(var->ctx, GD_STATE, "there is no closure below");
    var->closure = outer->below;
    gd_status status = gd__closure_eval(outer->below, var, grads ? GD_EVAL_BACKWARD : 0, loss, grads);
    var->closure = outer;
    return status;
}

/* ---- evaluating for links ---- */

gd_status gd__var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    if (!var || !loss) return gd__null(gd_var_ctx(var), "var: the place for the loss is NULL");
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "a link evaluates the objective, but the step has none");
    return gd__closure_eval(var->closure, var, grads ? GD_EVAL_BACKWARD : 0, loss, grads);
}

/* What was evaluated becomes new, all of it or none. */
static gd_status give_out_evaluation(gd_var *var, gd_status status, gd_tensor **loss, gd_tensor **grads)
{
    if (status) return status;
    if ((status = gd__give_out(var->ctx, loss, 1)))
        release_all(var, loss, grads);
    else if (grads)
        status = gd__give_out(var->ctx, grads, var->count);
    if (status) *loss = NULL;
    return status;
}

gd_status gd_var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    return give_out_evaluation(var, gd__var_evaluate(var, loss, grads), loss, grads);
}

gd_status gd_var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    return give_out_evaluation(var, gd__var_inner_evaluate(var, loss, grads), loss, grads);
}

/* The loss alone, as a number. */
static gd_status value_by(gd_var *var, gd_status (*evaluate)(gd_var *, gd_tensor **, gd_tensor **),
                          double *loss)
{
    if (!var || !loss) return gd__null(gd_var_ctx(var), "var: the place for the loss is NULL");
    gd_tensor *value = NULL;
    gd_status status = evaluate(var, &value, NULL);
    *loss = status ? NAN : gd_item(value);
    gd__release(value);
    return status ? status : gd_error(var->ctx);
}

gd_status gd_var_inner_value(gd_var *var, double *loss)
{
    return value_by(var, gd__var_inner_evaluate, loss);
}

gd_status gd_var_inner_evaluate_at(gd_var *var, double alpha, gd_tensor *const *direction, gd_tensor **loss,
                                   gd_tensor **grads)
{
    if (!var || !direction || !loss) return gd__null(gd_var_ctx(var), "var: a direction or place is NULL");
    gd_layout l;
    gd_origin here = {0};
    gd_status status = gd__layout_init(&l, var->ctx, var->params, var->count);
    if (status) return status;
    status = gd__origin_keep(&here, var->ctx, var->params, var->count);
    if (!status) {
        status = gd__list_move(&l, var->params, here.value, direction, -alpha);
        if (!status) status = gd_var_inner_evaluate(var, loss, grads);
        gd_status back = gd__origin_return(&here);
        if (!status) status = back;
    }
    gd__origin_free(&here);
    gd__layout_free(&l);
    return status;
}

gd_status gd_var_evaluate_at(gd_var *var, double *loss) { return value_by(var, gd__var_evaluate, loss); }

gd_status gd__var_try(gd_var *var, gd_origin *here, double alpha, gd_tensor *const *direction, double *loss,
                      gd_tensor **grads)
{
    gd_tensor *value = NULL;
    bool history = var->grad_history;
    gd_status status = gd_var_move(var, alpha, direction);
    if (!status) status = gd__var_evaluate(var, &value, grads);
    if (loss) *loss = status ? NAN : gd_item(value);
    gd_status back = gd__origin_return(here);
    var->grad_history = history && !back;
    if (!status && back) release_all(var, &value, grads);
    gd__release(value);
    if (!status) status = back;
    return status ? status : gd_error(var->ctx);
}

gd_status gd_var_evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction, double *loss,
                                gd_tensor **grads)
{
    if (!var || !direction) return gd__null(gd_var_ctx(var), "var: the direction is NULL");
    gd_origin here = {0};
    gd_status status = gd__origin_keep(&here, var->ctx, var->params, var->count);
    if (!status) status = gd__var_try(var, &here, alpha, direction, loss, grads);
    gd__origin_free(&here);
    return status || !grads ? status : gd__give_out(var->ctx, grads, var->count);
}

/* ---- Hessian-vector products ---- */

static double norm_of(gd_tensor *const *v, int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        gd_ctx *ctx = v[i]->head.ctx;
        gd_scope_begin(ctx);
        gd_no_grad_begin(ctx);
        sum += gd_item(gd_sum(gd_square(gd_detach(v[i])), NULL, false));
        gd_no_grad_end(ctx);
        gd_scope_end(ctx);
    }
    return sqrt(sum);
}

/* Products leave the scope they were made in; none do on failure. */
static void own_products(gd_var *var, gd_tensor **out, gd_status status)
{
    for (int i = 0; i < var->count; i++) {
        if (status)
            out[i] = NULL;
        else
            gd__own(out[i]);
    }
}

gd_status gd__product_along(gd_var *var, gd_tensor *const *grads, gd_tensor *const *v, int flags,
                            gd_tensor **out)
{
    gd_tensor *product = NULL;
    for (int i = 0; i < var->count; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(grads[i]), gd_drop_names(v[i])), NULL, false);
        product = product ? gd_add(product, term) : term;
    }
    if (!product) return gd_error(var->ctx);
    /* a gradient that does not depend on the parameters has no history: the loss is linear */
    return gd_requires_grad(product) ? gd_grad(product, NULL, var->params, var->count, flags, out)
                                     : zeros_like_params(var, out);
}

static gd_status hvp_autograd(gd_var *var, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__var_need_grad(var, true);
    if (status) return status;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    status = gd__product_along(var, var->grad, v, GD_RETAIN_GRAPH, out);
    own_products(var, out, status);
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    return status;
}

static gd_status hvp_difference(gd_var *var, bool central, double h, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    int count = var->count;
    gd_tensor **ahead = gd__tensors_new(ctx, count), **behind = gd__tensors_new(ctx, count);
    gd_origin here = {0};
    gd_status status = ahead && behind ? GD_OK : GD_NOMEM;
    if (!status && !central) status = gd__var_need_grad(var, false);
    if (!status) status = gd__origin_keep(&here, ctx, var->params, count);
    if (!status) status = gd__var_try(var, &here, h, v, NULL, ahead);
    if (!status && central) status = gd__var_try(var, &here, -h, v, NULL, behind);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        gd_scope_begin(ctx);
        gd_tensor *base = central ? behind[i] : var->grad[i];
        out[i] = gd_mul_scalar(gd_sub(ahead[i], base), 1 / (central ? 2 * h : h));
        if (out[i])
            gd__own(out[i]);
        else
            status = gd_error(ctx);
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    for (int i = 0; i < count && status; i++) {
        gd__release(out[i]);
        out[i] = NULL;
    }
    gd__origin_free(&here);
    gd__tensors_free(ctx, ahead, count);
    gd__tensors_free(ctx, behind, count);
    return status;
}

/* The objective's last evaluation that it has kept is the one that gave this gradient. */
static gd_status need_kept(gd_var *var)
{
    if (var->kept != var->optimizer->kept) var->grad_history = false;
    return gd__var_need_grad(var, true);
}

static gd_status hvp_callback(gd_var *var, const gd_objective *o, gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    gd_status status = gd__var_keeps_products(var) ? need_kept(var) : GD_OK;
    if (status) return status;
    gd_scope_begin(ctx);
    double loss;
    status = o->hvp ? zeros_like_params(var, out) : gd__batch_eval(var, o->batch, v, &loss, out);
    if (!status && o->hvp) status = o->hvp(o->user, v, out);
    status = gd__callback_status(ctx, status);
    own_products(var, out, status);
    gd_scope_end(ctx);
    return status;
}

static gd_status hvp_of_nothing(gd_var *var, gd_tensor **out)
{
    gd_scope_begin(var->ctx);
    gd_status status = zeros_like_params(var, out);
    own_products(var, out, status);
    gd_scope_end(var->ctx);
    return status;
}

bool gd__var_gives_products(const gd_var *var)
{
    if (!var->closure || var->closure->below) return false;
    const gd_objective *o = var->closure->objective;
    return o->hvp || (o->batch && !o->loss && !o->gradient);
}

bool gd__var_keeps_products(const gd_var *var)
{
    if (!var->closure || var->closure->below) return false;
    const gd_objective *o = var->closure->objective;
    return !o->loss && o->hvp && o->gradient_kept;
}

/* Reformulations, terms and parts hand a graph on; wrapped and estimated closures and batches by microbatches have none: products are
 * differences then. */
bool gd__var_has_graph(const gd_var *var)
{
    const gd_closure *c = var->closure;
    while (c && c->below && !c->wrap && !c->estimate) c = c->below;
    return c && !c->below && (c->objective->loss || !c->objective->batch);
}

bool gd__var_has_products(const gd_var *var)
{
    const gd_closure *c = var->closure;
    if (gd__var_gives_products(var)) return true;
    while (c && c->below) c = c->below;
    return c && c->objective->loss && gd__var_has_graph(var);
}

/* Of unit vectors: wide enough for gradients that are estimates themselves. */
static double difference_step(const gd_var *var)
{
    double eps = 0;
    for (int i = 0; i < var->count; i++) eps = fmax(eps, gd_vector_epsilon(var->params[i]));
    return sqrt(sqrt(eps));
}

static gd_status owned_products(gd_var *var, gd_hvp_method method, double h, bool normalize,
                                gd_tensor *const *v, gd_tensor **out)
{
    if (!var || !v || !out)
        return gd__null(gd_var_ctx(var), "var: the vectors of a Hessian product are NULL");
    for (int i = 0; i < var->count; i++) out[i] = NULL;
    if ((int)method < GD_HVP_AUTOGRAD || method > GD_HVP_CENTRAL)
        return gd_fail(var->ctx, GD_ARGUMENT, "a Hessian-vector product: there is no method %d", (int)method);
    if (!var->closure)
        return gd_fail(var->ctx, GD_STATE, "a Hessian-vector product needs a step with an objective");
    if (method == GD_HVP_AUTOGRAD && gd__var_gives_products(var))
        return hvp_callback(var, var->closure->objective, v, out);
    if (method == GD_HVP_AUTOGRAD && gd__var_has_graph(var)) return hvp_autograd(var, v, out);
    if (method == GD_HVP_AUTOGRAD) method = GD_HVP_CENTRAL, normalize = true, h = difference_step(var);
    if (!(h > 0))
        return gd_fail(var->ctx, GD_VALUE, "a Hessian-vector product by differences needs a step above 0");
    double norm = normalize ? norm_of(v, var->count) : 1;
    if (gd_error(var->ctx)) return gd_error(var->ctx);
    if (norm == 0) return hvp_of_nothing(var, out);
    return hvp_difference(var, method == GD_HVP_CENTRAL, h / norm, v, out);
}

gd_status gd_var_hvp(gd_var *var, gd_hvp_method method, double h, bool normalize, gd_tensor *const *v,
                     gd_tensor **out)
{
    if (!var || !v || !out)
        return gd__null(gd_var_ctx(var), "a Hessian-vector product: the vectors or the results are NULL");
    gd_tensor **list = gd__tensors_share(var->ctx, v, var->count);
    gd_status status = list
                           ? gd__lsq_like(var->ctx, "a Hessian-vector product", list, var->params, var->count)
                           : GD_NOMEM;
    for (int i = 0; i < var->count && status; i++) out[i] = NULL;
    if (!status) status = owned_products(var, method, h, normalize, list, out);
    gd__tensors_free(var->ctx, list, var->count);
    return status ? status : gd__give_out(var->ctx, out, var->count);
}

/* Row i = H e_i, from the objective's own products or from differences; unit and list are room for e_i. */
static gd_status row_by_product(gd_var *var, const gd_layout *l, gd_tensor *unit, gd_tensor **list,
                                gd_tensor *matrix, int64_t i)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor **out = list + var->count;
    gd_tensor *one = gd_slice(unit, "0", i, i + 1, 1), *row = gd_index(matrix, "0", i);
    gd_status status = one && row ? gd_fill(one, 1) : gd_error(ctx);
    if (!status) status = gd__vector_to_list(l, unit, list);
    if (!status) status = owned_products(var, GD_HVP_AUTOGRAD, 0, false, list, out);
    if (status) return status;
    status = gd__list_to_vector(l, out, row);
    for (int k = 0; k < var->count; k++) gd__release(out[k]);
    return status ? status : gd_fill(one, 0);
}

static gd_tensor *hessian_by_products(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
    gd_layout l;
    gd_tensor **list = gd__calloc(ctx, 2 * (size_t)var->count * sizeof *list);
    gd_status status = gd__layout_init(&l, ctx, var->params, var->count);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_empty_on(l.device, l.dtype, 2, (int64_t[]){l.total, l.total}), *unit = NULL;
    if (matrix) unit = gd_to_device(gd_zeros(ctx, l.dtype, 1, &l.total), l.device);
    if (!list || !unit) status = gd_error(ctx);
    if (!status) status = zeros_like_params(var, list);
    for (int64_t i = 0; i < l.total && !status; i++) {
        gd_scope_begin(ctx);
        status = row_by_product(var, &l, unit, list, matrix, i);
        gd_scope_end(ctx);
    }
    gd_no_grad_end(ctx);
    matrix = status ? NULL : gd_keep(matrix);
    gd_scope_end(ctx);
    gd__free(ctx, list, 2 * (size_t)var->count * sizeof *list);
    gd__layout_free(&l);
    return matrix;
}

gd_tensor *gd_var_hessian(gd_var *var)
{
    if (!var) return NULL;
    gd_ctx *ctx = var->ctx;
    if (!var->closure) return gd__refuse(ctx, GD_STATE, "a Hessian needs a step with an objective");
    if (!var->count) return NULL;
    if (gd__var_gives_products(var) || !gd__var_has_graph(var)) return hessian_by_products(var);
    if (gd__var_need_grad(var, true)) return NULL;
    return gd__derivative_rows(var->grad, var->count, var->params, var->count);
}
