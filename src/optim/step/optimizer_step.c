/* The step of an optimizer, with and without an objective. */
#include "optim/step/microbatch_loss.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/distribute.h"
#include "gradus/autograd.h"
#include "optim/step/transform.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- checking the parameters ---- */

/* Properties on which plans depend and that no counter of the optimizer covers, without the device. */
static inline int form_of(const gd_tensor *t, const gd_tensor *grad)
{
    return (int)t->dtype | (int)(grad ? grad->dtype : GD_DTYPE_COUNT) << 8 | (int)t->leaf_grad << 16;
}

static gd_status room_to_look(gd_optimizer *o)
{
    if (o->looked.room >= o->count) return GD_OK;
    size_t each = 2 * sizeof *o->looked.active;
    gd_tensor **list = gd__realloc(o->ctx, o->looked.active, (size_t)o->looked.room * each,
                                   (size_t)o->capacity * each);
    if (!list) return GD_NOMEM;
    o->looked.active = list;
    o->looked.grad = list + o->capacity;
    o->looked.room = o->capacity;
    return GD_OK;
}

/* The order of a tensor's elements as a number. */
static bool is_as_said(const gd_tensor *t) { return !t || !t->rows || gd__contiguous(t); }

/* True if the parameter's device or dtype, or its gradient's layout, has changed, which can only happen together with its memory. */
static bool look_at_memory(const gd_param *p, gd_tensor *t, bool *other)
{
    bool streams = gd__can_stream(t->grad, t);
    *other |= streams != t->streams || !is_as_said(t) || !is_as_said(t->grad);
    t->streams = streams;
    return t->storage->device != p->device || t->dtype != p->dtype;
}

/* Parameters that modules no longer have; warns if there are more than at the last check. */
static void look_at_dropped(gd_optimizer *o, const gd_param *last, int dropped)
{
    if (dropped > o->looked.dropped)
        gd_warn(
            o->ctx,
            "optimizer: the module of parameter '%s' has replaced or deleted it: steps change a tensor that the module no "
            "longer has; gd_optimizer_rebind takes the new one",
            last->name);
    o->looked.dropped = dropped;
}

/* Finds the parameters that want gradients, and their gradients. If the change counters show that nothing has changed, a thousand
 * small tensors need no check. */
static __attribute__((noinline)) gd_status look_again(gd_optimizer *o, bool skips, bool known)
{
    gd_status status = room_to_look(o);
    if (status) return status;
    bool moved = false, formed = o->looked.layouts != o->ctx->layouts, other = false, streams = true;
    bool same_memory = !formed && o->looked.structure == o->structure, laid = false;
    bool look = !same_memory || o->test.always_look;
    gd_tensor **active = o->looked.active, **grads = o->looked.grad;
    int count = 0, dropped = 0;
    const gd_param *last_dropped = NULL;
    for (int i = 0; i < o->count; i++) { /* none: there is no list */
        gd_param *p = &o->param[i];
        gd_tensor *t = p->tensor, *grad = t->grad;
        if (t->dropped) dropped++, last_dropped = p;
        int form = form_of(t, grad);
        if (look) moved |= look_at_memory(p, t, &laid);
        formed |= form != p->form;
        p->form = form;
        if (!t->leaf_grad || (skips && !grad)) continue;
        other |= grads[count] != grad;
        active[count] = t;
        grads[count++] = grad;
        streams &= t->streams;
    }
    if ((known && (moved || formed || other)) || (same_memory && (moved || laid)))
        return gd__missed_change(o->ctx);
    o->form += moved || formed;
    o->looked.count = count;
    o->looked.streams = streams;
    o->looked.skips = skips;
    status = moved ? gd__state_follow(o) : GD_OK;
    if (status) return status;
    look_at_dropped(o, last_dropped, dropped);
    o->looked.changes = o->ctx->changes;
    o->looked.layouts = o->ctx->layouts;
    o->looked.structure = o->structure;
    return GD_OK;
}

static gd_status look_at_params(gd_optimizer *o, bool skips)
{
    bool known = o->looked.changes == o->ctx->changes && o->looked.structure == o->structure &&
                 o->looked.skips == skips;
    return known && !o->test.always_look ? GD_OK : look_again(o, skips, known);
}

/* Without an objective: the gradients of gd_backward, zeros if there are none. */
static gd_status take_grads(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
    if (var->optimizer->looked.streams) {
        var->leaf_grad = var->optimizer->looked.grad;
        return GD_OK;
    }
    if (!(var->grad = gd__tensors_new(ctx, var->count))) return GD_NOMEM;
    for (int i = 0; i < var->count; i++) {
        gd_tensor *g = var->params[i]->grad;
        if (g)
            gd__retain(g);
        else {
            gd_scope_begin(ctx);
            gd__own(g = gd_zeros_like(var->params[i]));
            gd_scope_end(ctx);
        }
        if (!g) return gd_error(ctx);
        var->grad[i] = g;
    }
    return gd__lsq_like(ctx, "step: gradients", var->grad, var->params, var->count);
}

/* ---- the step ---- */

static gd_status set_last(gd_var *var, gd_link *link, gd_link *last)
{
    int lr = last->lr;
    if (link->children)
        var->nested_is_last = true;
    else
        var->is_last = true;
    if (lr < 0) return GD_OK;
    if (!var->last_lrs && !(var->last_lrs = gd__calloc(var->ctx, (size_t)var->count * sizeof *var->last_lrs)))
        return GD_NOMEM;
    for (int i = 0; i < var->count; i++) var->last_lrs[i] = gd__resolve(last, lr, var->params[i])->real;
    return GD_OK;
}

/* A link of the chain itself. The last one, and the one before a final learning rate, are marked. */
static gd_status step_outermost(gd_link *link, gd_var *var)
{
    const gd_link *chain = var->optimizer->chain;
    int n = gd__is_chain(chain) ? chain->children : 0;
    gd_link *last = n ? chain->child[n - 1] : link;
    bool is_last = link == last;
    if (n > 1 && link == chain->child[n - 2]) is_last = last->lr >= 0;
    gd_status status = GD_OK;
    var->is_last = var->nested_is_last = false;
    if (is_last && !gd__fusable(link)) status = set_last(var, link, last);
    return status ? status : gd_link_step(link, var);
}

/* Constraints that no link uses would be violated silently. */
static gd_status constraints_are_honoured(const gd_var *var)
{
    const gd_objective *objective = var->closure ? gd__objective_of(var) : NULL;
    if (!objective || (!objective->equal && !objective->below) || !isnan(var->share->violation)) return GD_OK;
    return gd_fail(
        var->ctx, GD_STATE,
        "the objective has constraints, and no link of the chain looks at them: nlp and augmented_lagrangian(...) do");
}

static gd_status run_links(gd_optimizer *o, gd_var *var)
{
    gd_status status = gd__joins(o->chain, var) ? gd__var_append(var, o->chain, GD_MODE_STEP)
                                                : gd__each_link(o->chain, var, step_outermost);
    if (!status) status = o->ctx->status; /* an error that a link recorded and did not return */
    return status ? status : constraints_are_honoured(var);
}

static void free_closures(gd_optimizer *o)
{
    while (o->asked.closures) {
        gd_closure *c = o->asked.closures;
        o->asked.closures = c->next_made;
        gd__free(o->ctx, c, sizeof *c);
    }
}

static int dropped_params(const gd_optimizer *o)
{
    int dropped = 0;
    for (int i = 0; i < o->count; i++) dropped += o->param[i].tensor->dropped;
    return dropped;
}

static void report(gd_optimizer *o, const gd_step_share *share, gd_step_info *info)
{
    *info = (gd_step_info){.loss = NAN,
                           .finite = !share->not_finite,
                           .search_failed = share->search_failed,
                           .skipped = share->skipped,
                           .terminate = o->should_terminate,
                           .step = o->step,
                           .evals = o->evals,
                           .constraint_evals = o->constraint_evals,
                           .kkt = share->first_kkt,
                           .violation = share->violation,
                           .detached_params = dropped_params(o)};
    if (!o->asked.first_loss) return;
    info->has_loss = true;
    info->loss = gd_item(o->asked.first_loss);
    info->finite = info->finite && isfinite(info->loss);
}

/* Could a link leave the parameters at the point of a failed evaluation? */
static bool link_moves(const gd_link *link, bool closure)
{
    bool moves = closure && ((link->cls->traits.needs_closure && !link->cls->traits.restores_params) ||
                             !strcmp(gd__target_of(link), "params_direct"));
    if (moves || link->cls->traits.moves_params) return true;
    for (int i = 0; i < link->children; i++)
        if (link_moves(link->child[i], closure)) return true;
    return false;
}

static bool moves_params(gd_optimizer *o, bool closure)
{
    if (o->moves.structure != o->structure) {
        o->moves.without = link_moves(o->chain, false);
        o->moves.with_closure = link_moves(o->chain, true);
        o->moves.structure = o->structure;
    }
    return closure ? o->moves.with_closure : o->moves.without;
}

static gd_status run_hooks(gd_optimizer *o, gd_var *var)
{
    gd_status status = GD_OK;
    for (int i = 0; i < var->share->hooks && !status; i++)
        status = var->share->hook[i].fn(var->share->hook[i].user, o, var);
    if (!status && o->watch) status = o->watch(o->watch_user, o, var);
    return status ? status : o->ctx->status;
}

/* The end of a step: the parameters get their values, and hooks see them. */
static gd_status update_and_hooks(gd_optimizer *o, gd_var *var)
{
    bool before = o->should_terminate;
    gd_status status = gd_var_finish(var);
    if (status) return status;
    if (!var->closure) o->evals++;
    if (var->terminate >= 0) o->should_terminate = var->terminate;
    status = run_hooks(o, var);
    if (!status) return GD_OK;
    if (!var->closure) o->evals--;
    o->should_terminate = before;
    return status;
}

static gd_status guarded(gd_optimizer *o, gd_var *var, gd_status (*stage)(gd_optimizer *, gd_var *));

static gd_status links_and_update(gd_optimizer *o, gd_var *var)
{
    gd_status status = run_links(o, var);
    return status ? status : update_and_hooks(o, var);
}

/* Links that leave the parameters alone.  Only hooks can fail once the update is subtracted; if there are any the
 * parameters are kept for that case, otherwise there is no copy. */
static gd_status plain_links(gd_optimizer *o, gd_var *var)
{
    gd_status status = run_links(o, var);
    if (status) return status;
    return var->share->hooks ? guarded(o, var, update_and_hooks) : update_and_hooks(o, var);
}

/* If a part of the step fails, the parameters are restored, whatever links and hooks did to them. */
static gd_status guarded(gd_optimizer *o, gd_var *var, gd_status (*stage)(gd_optimizer *, gd_var *))
{
    /* pending links stay pending: they apply to these parameters */
    gd_tensor **before = gd__tensors_copy(o->ctx, var->params, var->count);
    gd_status status = before ? stage(o, var) : gd_error(o->ctx);
    for (int i = 0; before && status && i < var->count; i++) (void)!gd_assign(var->params[i], before[i]);
    if (before && status) o->shared.partial = false;
    gd__tensors_free(o->ctx, before, var->count);
    return status;
}

static gd_status step_body(gd_optimizer *o, gd_var *var)
{
    bool moves = moves_params(o, var->closure != NULL);
    gd_status status = moves ? guarded(o, var, links_and_update) : plain_links(o, var);
    if (status) return status;
    o->step++;
    o->held += var->held;
    return status;
}

static gd_status begin_step(gd_optimizer *o, bool skips)
{
    gd_status status = o->shared.share ? gd__share_begin(o) : GD_OK;
    if (gd_error(o->ctx)) return gd_error(o->ctx);
    if (!status) status = gd__not_stepping(o, "a step");
    if (!status) status = gd__refuse_partial(o, "a step");
    if (!status) status = gd__settings_begin(o);
    if (status) return status;
    gd__release(o->asked.first_loss);
    o->asked.first_loss = NULL;
    o->attempts++;
    return look_at_params(o, skips);
}

/* A selection that matches all parameters or none is probably a mistake. */
static void look_at_selections(const gd_optimizer *o, gd_link *link)
{
    for (int f = 0; f < link->cls->field_count; f++) {
        const gd_field *field = &link->cls->fields[f];
        int yes = 0;
        for (int i = 0; field->selection && i < o->looked.count; i++)
            yes += gd_link_selects(link, field->name, o->looked.active[i]);
        if (field->selection && o->looked.count && (!yes || yes == o->looked.count))
            gd_warn(o->ctx, "%s: its %s \"%s\" selects %s of the parameters", link->cls->name, field->name,
                    gd__resolve(link, f, o->looked.active[0])->string, yes ? "all" : "none");
    }
    for (int i = 0; i < link->children; i++) look_at_selections(o, link->child[i]);
}

/* Below 0: the link negates every update. */
static double sign_of(const gd_link *link, const gd_tensor *param, bool *is_rate)
{
    int lr = gd__field_index(link->cls, "lr");
    const gd_setting *rate = lr < 0 ? NULL : gd__resolve(link, lr, param);
    bool below = rate && rate->kind == GD_SET_REAL && rate->real < 0;
    *is_rate |= below;
    return below || !strcmp(link->cls->name, "negate") ? -1 : 1;
}

/* A learning rate below 0 goes away from minima, unless the chain negates updates twice. */
static void look_at_direction(gd_optimizer *o)
{
    gd_link *const *link = gd__is_chain(o->chain) ? o->chain->child : &o->chain;
    int count = gd__is_chain(o->chain) ? o->chain->children : 1;
    o->looked.numbers = o->numbers;
    for (int p = 0; p < o->looked.count; p++) {
        bool is_rate = false;
        double sign = 1;
        for (int i = 0; i < count; i++) sign *= sign_of(link[i], o->looked.active[p], &is_rate);
        if (sign > 0 || !is_rate) continue;
        o->looked.uphill = true;
        gd_warn(o->ctx, "optimizer: the learning rate of parameter '%s' is below 0: steps go uphill",
                o->param[gd__param_index(o, o->looked.active[p])].name);
        return;
    }
}

/* Warns once about a likely mistake. */
static void look_at_use(gd_optimizer *o, const gd_objective *objective)
{
    int count = o->looked.count, with_gradient = 0;
    if (o->looked.numbers != o->numbers && !o->looked.uphill) look_at_direction(o);
    if (o->step) return;
    look_at_selections(o, o->chain);
    if (o->looked.skips) return;
    for (int i = 0; i < count; i++) with_gradient += o->looked.grad[i] != NULL;
    if (!count)
        gd_warn(
            o->ctx,
            "optimizer: none of its parameters wants gradients (gd_require_grad), so steps change nothing");
    else if (!objective && !with_gradient && !o->shared.share)
        gd_warn(o->ctx, "optimizer: none of its parameters has a gradient: gd_backward leaves them, or the "
                        "step gets an objective");
}

static void tell_partial_update(gd_ctx *ctx)
{
    size_t used = strlen(ctx->error);
    (void)snprintf(ctx->error + used, sizeof ctx->error - used,
                   "; parameters are partly changed, load model and optimizer from a checkpoint");
}

gd_status gd_optimizer_step_with(gd_optimizer *o, const gd_objective *objective, const gd_step_extra *extra,
                                 gd_step_info *info)
{
    if (!o) return GD_ARGUMENT;
    gd_ctx *ctx = o->ctx;
    gd_status status = begin_step(o, o->skips_missing && !objective);
    if (!status && !o->count)
        status = gd_fail(ctx, GD_STATE, "optimizer: it has no parameters; gd_optimizer_add gives it some");
    if (status) return o->shared.share ? o->shared.call->agree(o, status) : status;
    int count = o->looked.count;
    const gd_objective *single = objective ? gd__evaluator_for(o, o->looked.active, count, objective) : NULL;
    if (objective && !single)
        return o->shared.share ? o->shared.call->agree(o, gd_error(ctx)) : gd_error(ctx);
    objective = single;
    look_at_use(o, objective);
    gd_step_share share = {.extra = extra, .first_kkt = NAN, .violation = NAN};
    gd_closure base;
    gd_var var;
    gd__var_init(&var, o, ctx, o->looked.active, count);
    var.share = &share;
    if (objective) {
        base = (gd_closure){.eval = gd__objective_eval, .objective = objective};
        var.closure = &base;
    }
    if (extra && extra->loss) gd_var_set_loss(&var, extra->loss);
    o->stepping = true;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (!objective && !gd__shards_gradients(o)) status = take_grads(&var);
    if (!status && !objective && o->shared.share) status = gd__share_grads(&var);
    if (!status && count)
        status = step_body(o, &var);
    else if (!status)
        o->step++;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    o->stepping = false;
    if (!status && info) report(o, &share, info);
    gd__share_clear(ctx, &share);
    gd__var_clear(&var);
    free_closures(o);
    if (!o->asked.memo) gd__evaluator_forget(o);
    if (o->shared.share && (!objective || o->shared.share->accumulated)) o->shared.call->forget(o);
    if (o->shared.share) gd__accumulation_forget(o);
    if (o->shared.partial) tell_partial_update(ctx);
    return status && o->shared.share ? o->shared.call->agree(o, status) : status;
}

gd_status gd_optimizer_step(gd_optimizer *o, const gd_objective *objective, gd_step_info *info)
{
    return gd_optimizer_step_with(o, objective, NULL, info);
}

/* ---- replaying ---- */

/* A link of the chain whose work is not one program over all parameters. */
static gd_link *not_a_rule(gd_link *link)
{
    if (gd__fusable(link)) return NULL;
    for (int i = 0; gd__is_chain(link) && i < link->children; i++) {
        gd_link *found = not_a_rule(link->child[i]);
        if (found) return found;
    }
    return link;
}

gd_status gd_optimizer_capture(gd_optimizer *o, bool on)
{
    if (!o) return GD_ARGUMENT;
    gd_link *other = not_a_rule(o->chain);
    gd_status status = gd__not_stepping(o, "capturing");
    if (status || !on) {
        o->capture = o->capture && status;
        return status;
    }
    if (other)
        return gd_fail(o->ctx, GD_NOT_IMPLEMENTED,
                       "capture: '%s' is not element-wise; only steps of rules can be replayed",
                       other->cls->name);
    if (!o->count) return gd_fail(o->ctx, GD_STATE, "capture: the optimizer has no parameters");
    const gd_device *first = o->param[0].tensor->storage->device;
    for (int i = 0; i < o->count; i++) {
        const gd_device *device = o->param[i].tensor->storage->device;
        if (device == o->ctx->cpu)
            return gd_fail(o->ctx, GD_DEVICE, "capture: parameter '%.80s' is on the CPU; move it to a GPU",
                           o->param[i].name);
        if (device != first)
            return gd_fail(o->ctx, GD_DEVICE, "capture: parameter '%.80s' is on %s, '%.80s' on %s",
                           o->param[0].name, first->name, o->param[i].name, device->name);
    }
    o->capture = true;
    return GD_OK;
}

int64_t gd_optimizer_replays(const gd_optimizer *o) { return o ? o->replays : 0; }
