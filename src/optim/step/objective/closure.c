/* Closures: the objective as links see it, and as links change it. */
#include "autograd/walk.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"
#include "optim/vector/origin.h"
#include "optim/step/microbatch_loss.h"
#include "optim/step/many.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/objective/memo.h"
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

/* Parameters outside their bounds are evaluated on them, and come back.  A graph that is passed on belongs to the point of its recording:
 * then they stay there. */
static gd_status on_the_bounds(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss,
                               gd_tensor **grads)
{
    gd_origin outside = {0};
    gd_status status = flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY)
                           ? GD_OK
                           : gd__origin_keep(&outside, var->ctx, var->params, var->count);
    if (!status) status = gd__bounds_clamp(var->optimizer, var->params, var->params, var->count, NULL);
    if (!status) status = closure->eval(closure, var, flags, loss, grads);
    gd_status back = gd__origin_return(&outside);
    gd__origin_free(&outside);
    return status ? status : back;
}

gd_status gd__closure_eval(gd_closure *closure, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    *loss = NULL;
    for (int i = 0; grads && i < var->count; i++) grads[i] = NULL;
    bool outside = false;
    gd_status status = var->bounded ? gd__bounds_outside(var, &outside) : GD_OK;
    if (!status)
        status = outside ? on_the_bounds(closure, var, flags, loss, grads)
                         : closure->eval(closure, var, flags, loss, grads);
    if (status) release_all(var, loss, grads);
    return status;
}

gd_closure *gd__closure_push(gd_var *var)
{
    gd_closure *made = gd__calloc(var->ctx, sizeof *made);
    if (!made) return NULL;
    made->below = var->closure;
    made->next_made = var->optimizer->asked.closures;
    var->optimizer->asked.closures = made;
    return made;
}

/* ---- the objective itself ---- */

void gd__remember_first(gd_var *var, gd_tensor *loss)
{
    gd_optimizer *o = var->optimizer;
    if (o->asked.first_loss) return;
    gd__retain(loss);
    o->asked.first_loss = loss;
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

/* A loss that depends on no parameter has no gradient: zeros would look like a minimum.  Parameters that their module has replaced
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
                         var->optimizer->searching.careful ? "minimize" : "step");
    for (int i = 0; i < var->count && !status; i++)
        if (!grads[i] && !(grads[i] = gd_zeros_like(var->params[i]))) status = gd_error(var->ctx);
    return status;
}

/* Loss and gradients of the objective's result, in the scope of that result. keep: its graph stays. */
gd_status gd__derive(gd_var *var, gd_tensor *result, int flags, bool keep, gd_tensor **loss,
                     gd_tensor **grads)
{
    bool history = flags & GD_EVAL_HISTORY, backward = flags & GD_EVAL_BACKWARD,
         graph = flags & GD_EVAL_GRAPH;
    bool one_number = result && result->numel == 1;
    gd_status status = gd__as_loss(var->ctx, &result, false);
    if (!status) status = gd__check_residuals(var, one_number);
    if (!status && is_of_params(var, result) && !(result = gd_copy(result))) status = gd_error(var->ctx);
    bool shared = gd__evaluator_shares_graphs(gd__evaluator_of(var->optimizer, gd__objective_of(var)));
    int how = graph ? GD_CREATE_GRAPH : history || keep || shared ? GD_RETAIN_GRAPH : 0;
    if (!status && backward) status = gradients_of(var, result, how, grads);
    for (int i = 0; status && grads && i < var->count; i++) grads[i] = NULL;
    return status ? status : hand_over(var, result, history || graph, loss, backward ? grads : NULL);
}

/* keep: receives an owned reference of the objective's result, with its graph.  NULL: not wanted. */
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

gd_status gd__zeros_like_params(gd_var *var, gd_tensor **out)
{
    for (int i = 0; i < var->count; i++)
        if (!(out[i] = gd_zeros_like(var->params[i]))) return gd_error(var->ctx);
    return GD_OK;
}

bool gd__objective_has_slopes(const gd_objective *o)
{
    return o->loss || o->gradient || o->rows || o->batch || o->jacobian;
}

gd_status gd__callback_value(gd_var *var, const gd_objective *o, double *value)
{
    gd_ctx *ctx = var->ctx;
    if (o->value) return o->value(o->user, value);
    if (o->values) return gd__value_by_values(var, o, value);
    if (o->batch && !o->gradient) return gd__batch_eval(var, o->batch, NULL, value, NULL);
    if (o->rows && !o->gradient) return gd__rows_eval(var, o->rows, value, NULL);
    if (o->jacobian && !o->gradient) return gd__jacobian_eval(var, o, value, NULL);
    if (!o->gradient) return gd_fail(ctx, GD_NOT_IMPLEMENTED, "the objective has no value");
    gd_tensor **unused = gd__tensors_new(ctx, var->count);
    gd_status status = unused ? gd__zeros_like_params(var, unused) : GD_NOMEM;
    if (!status) status = o->gradient(o->user, value, unused);
    gd__free(ctx, unused, (size_t)var->count * sizeof *unused);
    return status;
}

/* keep: its graph stays for products with the Hessian. */
static gd_status callback_gradient(gd_var *var, const gd_objective *o, bool keep, double *value,
                                   gd_tensor **grads)
{
    if (keep) {
        gd_status made = gd__zeros_like_params(var, grads);
        return made ? made : o->gradient_kept(o->user, value, grads);
    }
    if (!o->gradient && o->batch) return gd__batch_eval(var, o->batch, NULL, value, grads);
    gd_status status = gd__zeros_like_params(var, grads);
    if (status) return status;
    if (!gd__objective_has_slopes(o)) return gd__objective_differences(var, value, grads);
    if (o->gradient) return o->gradient(o->user, value, grads);
    return o->rows ? gd__rows_eval(var, o->rows, value, grads) : gd__jacobian_eval(var, o, value, grads);
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
                             : gd__callback_value(var, c->objective, &value);
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
    if (!status && !gd__evaluator_of(var->optimizer, c->objective)) var->optimizer->evals++;
    return status;
}

/* ---- points that were evaluated before ---- */

/* Callbacks and replays keep no graph: the value of a trial may be computed with the gradient that the next step needs if the trial is
 * accepted, or because there is only one function for both. */
static gd_status eval_ahead(gd_closure *c, gd_var *var, gd_point *p, gd_tensor **loss)
{
    gd_tensor **grads = gd__tensors_new(var->ctx, var->count);
    if (!grads) return GD_NOMEM;
    gd_status status = eval_now(c, var, GD_EVAL_BACKWARD, loss, grads, NULL);
    if (!status) gd__memo_keep(var->optimizer->asked.memo, p, *loss, grads);
    gd__tensors_free(var->ctx, grads, var->count);
    return status;
}

/* At a point where nothing, or too little, is known; p: its record, or NULL. */
static gd_status eval_new(gd_closure *c, gd_var *var, gd_point *p, int flags, gd_tensor **loss,
                          gd_tensor **grads)
{
    gd_memo *memo = var->optimizer->asked.memo;
    const gd_objective *o = c->objective;
    if (!p) return eval_now(c, var, flags, loss, grads, NULL);
    if (!o->loss && !flags && gd__objective_has_slopes(o) &&
        ((!o->value && !o->rows && !o->batch) || gd__memo_ahead(memo, var)))
        return eval_ahead(c, var, p, loss);
    bool graph = flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY),
         keep = gd__memo_wants_graph(memo, var, flags & GD_EVAL_BACKWARD) || graph;
    if (o->loss && o->traced && !graph) {
        /* instead of keeping a graph, the gradient is computed with the value: a replay takes little longer */
        if (keep && !flags) return eval_ahead(c, var, p, loss);
        keep = false;
    }
    if (keep) gd__memo_drop_graphs(p);
    gd_status status = eval_now(c, var, flags, loss, grads, keep && o->loss ? &p->graph : NULL);
    if (!status) gd__memo_keep(memo, p, *loss, flags & GD_EVAL_BACKWARD ? grads : NULL);
    return status;
}

/* The known values, if they are enough. */
static bool served(gd_var *var, const gd_point *p, int flags, gd_tensor **loss, gd_tensor **grads)
{
    bool backward = flags & GD_EVAL_BACKWARD;
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY) || !p->loss) return false;
    if (backward && !gd__memo_has_gradient(var->optimizer->asked.memo, p)) return false;
    gd__retain(*loss = p->loss);
    for (int i = 0; i < var->count && backward; i++) gd__retain(grads[i] = p->grad[i]);
    return true;
}

/* From the graph of an earlier evaluation here. */
static gd_status eval_kept(gd_var *var, gd_point *p, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = var->ctx;
    gd_memo *memo = var->optimizer->asked.memo;
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
    gd_asked *asked = &var->optimizer->asked;
    if (!status && flags)
        *(gd__objective_has_slopes(c->objective) ? &asked->exact : &asked->estimated) = true;
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

/* A user's function makes its loss and gradients with operators, in a separate scope: they are moved out of it. */
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
                       "a link needs the graph of a closure that a different link changed");
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

/* Evaluated values become the caller's (new), all of them or none. */
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
