/* The variable of a step: lazy loss, gradient and update. */
#include "gradus/autograd.h"
#include "optim/ranks/share.h"
#include "optim/step/microbatch_loss.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/objective/memo.h"
#include "optim/step/optimizer.h"
#include "optim/vector/layout.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- life ---- */

/* Pending links are not copied: they are most of the bytes. */
#define GD_VAR_HEAD offsetof(gd_var, pending)

void gd__var_init(gd_var *var, gd_optimizer *optimizer, gd_ctx *ctx, gd_tensor *const *params, int count)
{
    memset(&var->parent, 0, GD_VAR_HEAD - offsetof(gd_var, parent));
    var->ctx = ctx;
    var->optimizer = optimizer;
    var->params = var->keys = params;
    var->count = count;
    var->update_is_grad = true;
    var->terminate = -1;
    var->step = optimizer ? optimizer->step : 0;
}

/* The list of gradients goes from step to step. */
static void give_back_grads(gd_var *var)
{
    gd_asked *asked = var->optimizer ? &var->optimizer->asked : NULL;
    if (!asked || asked->spare || !var->grad) {
        gd__tensors_free(var->ctx, var->grad, var->count);
        return;
    }
    for (int i = 0; i < var->count; i++) {
        gd__release(var->grad[i]);
        var->grad[i] = NULL;
    }
    asked->spare = var->grad;
    asked->spares = var->count;
}

static gd_tensor **take_grads(gd_var *var)
{
    gd_asked *asked = var->optimizer ? &var->optimizer->asked : NULL;
    if (!asked || !asked->spare || asked->spares != var->count) return gd__tensors_new(var->ctx, var->count);
    gd_tensor **list = asked->spare;
    asked->spare = NULL;
    return list;
}

static void clear_lists(gd_var *var)
{
    give_back_grads(var);
    gd__tensors_free(var->ctx, var->update, var->count);
    gd__tensors_free(var->ctx, var->given, var->count);
    gd__free(var->ctx, var->last_lrs, (size_t)var->count * sizeof *var->last_lrs);
    var->grad = var->update = var->given = NULL;
    var->last_lrs = NULL;
}

void gd__var_clear(gd_var *var)
{
    clear_lists(var);
    gd__release(var->loss);
    gd__release(var->loss_approx);
    var->loss = var->loss_approx = NULL;
}

void gd_var_free(gd_var *var)
{
    if (!var) return;
    gd__var_clear(var);
    gd__free(var->ctx, var, sizeof *var);
}

gd_var *gd_var_clone(gd_var *var, bool clone_update, gd_var *parent)
{
    if (!var) return NULL;
    gd_ctx *ctx = var->ctx;
    if (var->pendings && gd__var_flush(var, GD_SINK_UPDATE)) return NULL;
    gd_var *copy = gd__alloc(ctx, sizeof *copy);
    if (!copy) return NULL;
    memcpy(copy, var, GD_VAR_HEAD); /* nothing is pending */
    copy->parent = parent;
    copy->last_lrs = NULL;
    copy->given = NULL;
    copy->answered = false;
    copy->is_last = copy->nested_is_last = false;
    gd__retain(copy->loss);
    gd__retain(copy->loss_approx);
    copy->grad = gd__tensors_share(ctx, var->grad, var->count);
    copy->update = !var->update   ? NULL
                   : clone_update ? gd__tensors_copy(ctx, var->update, var->count)
                                  : gd__tensors_share(ctx, var->update, var->count);
    if ((copy->grad || !var->grad) && (copy->update || !var->update)) return copy;
    gd_var_free(copy);
    return NULL;
}

void gd_var_take_from(gd_var *var, const gd_var *clone)
{
    if (!var || !clone) return;
    if (!var->loss && clone->loss) {
        gd__retain(clone->loss);
        var->loss = clone->loss;
    }
    if (!var->loss_approx && clone->loss_approx) {
        gd__retain(clone->loss_approx);
        var->loss_approx = clone->loss_approx;
    }
    if (!var->grad && clone->grad && clone->count == var->count && clone->params == var->params)
        var->grad = gd__tensors_share(var->ctx, clone->grad, var->count);
    if (clone->terminate >= 0) var->terminate = clone->terminate;
}

void gd_var_set_params(gd_var *var, gd_tensor *const *params, int count)
{
    if (!var || (!params && count > 0)) return;
    clear_lists(var);
    var->grad_history = var->own = false;
    var->update_is_grad = true;
    var->pendings = 0;
    var->params = var->keys = params;
    var->count = count;
    var->bounded = false; /* they belong to different parameters */
}

/* ---- looking ---- */

int gd_var_count(const gd_var *var) { return var ? var->count : 0; }
gd_tensor *const *gd_var_params(const gd_var *var) { return var ? var->params : NULL; }
gd_ctx *gd_var_ctx(const gd_var *var) { return var ? var->ctx : NULL; }
gd_optimizer *gd_var_optimizer(const gd_var *var) { return var ? var->optimizer : NULL; }
int64_t gd_var_step(const gd_var *var) { return var ? var->step : 0; }
gd_var *gd_var_parent(const gd_var *var) { return var ? var->parent : NULL; }
gd_module *gd_var_model(const gd_var *var)
{
    return var && var->optimizer ? gd_optimizer_model(var->optimizer) : NULL;
}
bool gd_var_has_loss(const gd_var *var) { return var && var->loss != NULL; }
bool gd_var_has_grad(const gd_var *var) { return var && (var->grad || var->leaf_grad); }
bool gd_var_has_update(const gd_var *var) { return var && (!var->update_is_grad || var->pendings); }
bool gd_var_wants_gradient(const gd_var *var) { return var && !var->loss && var->update_is_grad; }
bool gd_var_has_closure(const gd_var *var) { return var && var->closure != NULL; }
gd_tensor *gd_var_loss_approx(const gd_var *var) { return var ? var->loss_approx : NULL; }
bool gd_var_is_last(const gd_var *var) { return var && var->is_last; }
bool gd_var_nested_is_last(const gd_var *var) { return var && var->nested_is_last; }
const double *gd_var_last_lrs(const gd_var *var) { return var ? var->last_lrs : NULL; }
void gd_var_stop(gd_var *var)
{
    if (var) var->stop = true;
}
void gd_var_skip_update(gd_var *var)
{
    if (var) var->skip = true;
}
void gd_var_hold(gd_var *var)
{
    if (var) var->stop = var->skip = var->held = true;
}
void gd_var_terminate(gd_var *var, bool yes)
{
    if (var) var->terminate = yes;
}
gd_status gd_var_ask(gd_var *var, gd_link *criterion, bool *stop)
{
    if (!var || !criterion || !stop) return gd__null(gd_var_ctx(var), "a criterion is NULL");
    int8_t before = var->terminate;
    var->terminate = -1;
    gd_status status = gd_link_step(criterion, var);
    *stop = var->terminate == 1;
    var->terminate = before;
    return status;
}
/* If the gradient is 0, a search has nothing to find: no failure. */
bool gd_var_failed(const gd_var *var)
{
    return var && (var->share->search_failed || var->share->skipped) && !var->share->flat;
}
const char *gd_var_param_name(const gd_var *var, int index)
{
    if (!var || index < 0 || index >= var->count || !var->optimizer) return NULL;
    const gd_optimizer *o = var->optimizer;
    int number = gd__param_index(o, gd__param_behind(o, var->params[index]));
    return number < 0 ? NULL : o->param[number].name;
}
bool gd_var_stopped(const gd_var *var) { return var && var->stop; }
void gd_var_note_failed_search(gd_var *var)
{
    if (var) var->share->search_failed = true;
}
void gd_var_note_search(gd_var *var)
{
    if (var) var->share->many_minima = true;
}
void gd_var_note_skipped(gd_var *var)
{
    if (var) var->share->skipped = true;
}

gd_status gd_var_zero_grad(gd_var *var, bool in_place)
{
    gd_status status = GD_OK;
    if (!var) return GD_ARGUMENT;
    for (int i = 0; i < var->count && !status; i++)
        if (in_place)
            status = gd_zero_grad_in_place(var->params[i]);
        else
            gd_zero_grad(var->params[i]);
    return status;
}

/* ---- loss and gradient ---- */

static gd_status no_closure(gd_var *var, const char *what)
{
    return gd_fail(var->ctx, GD_STATE, "%s: the step was called without an objective", what);
}

/* Advice about a chain is given once per optimizer, as it holds for every step. */
typedef enum hint { HINT_PARENT = 1, HINT_GRADIENT = 2, HINT_HISTORY = 4 } hint;

static bool hint_is_new(const gd_var *var, hint which)
{
    if (!var->optimizer) return true;
    bool given = var->optimizer->hinted & which;
    var->optimizer->hinted |= which;
    return !given;
}

/* Does the var see the parent's objective with an additional term? */
static bool has_term(const gd_var *var, const gd_var *parent)
{
    for (const gd_closure *c = var->closure; c && c != parent->closure; c = c->below)
        if (c->term) return true;
    return false;
}

/* A projected or split parent takes the values that its child evaluated; not from a child with a different objective (term_eval gives it the
 * loss). */
static gd_status tell_parent(gd_var *var, bool backward)
{
    gd_var *parent = var->parent;
    if (!parent || has_term(var, parent)) return GD_OK;
    if (!parent->loss) gd_var_set_loss(parent, var->loss);
    if (!backward || parent->grad) return GD_OK;
    if (parent->params == var->params) {
        parent->grad = gd__tensors_share(var->ctx, var->grad, var->count);
        return parent->grad ? GD_OK : GD_NOMEM;
    }
    if (hint_is_new(var, HINT_PARENT))
        gd_warn(var->ctx, "the parent has no gradient after its child's was computed");
    return GD_OK;
}

static gd_status evaluate_here(gd_var *var, int flags)
{
    if (!var->closure) return no_closure(var, "loss");
    gd_tensor *loss = NULL, **grads = NULL;
    if (flags & GD_EVAL_BACKWARD && !(grads = take_grads(var))) return GD_NOMEM;
    gd_status status = gd__closure_eval(var->closure, var, flags, &loss, grads);
    if (status) {
        gd__tensors_free(var->ctx, grads, var->count);
        return status;
    }
    gd_var_set_loss(var, loss);
    gd_var_set_loss_approx(var, loss);
    gd__release(loss);
    if (grads) {
        gd__tensors_free(var->ctx, var->grad, var->count);
        var->grad = grads;
        var->grad_history = flags & GD_EVAL_GRAPH;
        var->kept = var->optimizer ? var->optimizer->kept : 0;
    }
    return tell_parent(var, grads != NULL);
}

/* Evaluates once more than would have been necessary, unless what is remembered serves. */
static gd_status evaluate_again(gd_var *var, int flags, hint which, const char *how)
{
    int64_t before = var->optimizer ? var->optimizer->evals : 0;
    gd_status status = evaluate_here(var, flags);
    if (!status && var->optimizer && var->optimizer->evals > before && hint_is_new(var, which))
        gd_warn(var->ctx, "the objective was evaluated %s; once would have served", how);
    return status;
}

gd_tensor *gd_var_loss(gd_var *var, bool backward)
{
    if (!var) return NULL;
    gd_status status = GD_OK;
    if (!var->loss) status = evaluate_here(var, backward ? GD_EVAL_BACKWARD : 0);
    if (!status && backward && var->leaf_grad) status = gd__var_need_grad(var, false);
    if (!status && backward && !var->grad)
        status = evaluate_again(var, GD_EVAL_BACKWARD, HINT_GRADIENT, "without and then with its gradient");
    return status ? NULL : var->loss;
}

double gd_var_loss_value(gd_var *var, bool backward)
{
    if (!var) return NAN;
    gd_tensor *loss = gd_var_loss(var, backward);
    return loss ? gd_item(loss) : NAN;
}

gd_status gd__var_need_grad(gd_var *var, bool history)
{
    if (var->leaf_grad) {
        var->grad = var->shards ? gd__scatter_whole(var->optimizer, var->params, var->leaf_grad, var->count)
                                : gd__tensors_share(var->ctx, var->leaf_grad, var->count);
        if (!var->grad) return gd_error(var->ctx) ? gd_error(var->ctx) : GD_NOMEM;
        var->leaf_grad = NULL;
        var->shards = false;
    }
    if (var->grad && (!history || var->grad_history)) return GD_OK;
    if (!history) return gd_var_loss(var, true) ? GD_OK : gd_error(var->ctx);
    int flags = GD_EVAL_BACKWARD | GD_EVAL_GRAPH;
    if (!var->loss && !var->grad) return evaluate_here(var, flags);
    return evaluate_again(var, flags, HINT_HISTORY, "without and then with the history of its gradient");
}

gd_tensor *const *gd_var_grad(gd_var *var)
{
    return var && !gd__var_need_grad(var, false) ? var->grad : NULL;
}

gd_tensor *const *gd_var_grad_graph(gd_var *var)
{
    if (!var) return NULL;
    if (gd__var_keeps_products(var)) {
        (void)gd_fail(
            var->ctx, GD_NOT_IMPLEMENTED,
            "a link asks for the graph of a gradient, and the objective has products with its Hessian alone");
        return NULL;
    }
    return gd__var_need_grad(var, true) ? NULL : var->grad;
}

/* ---- update ---- */

/* The update so far, and the gradient where a rule reads it, in the layout of kernels. */
static gd_status find_input(gd_var *var, bool uses_grad, gd_run_args *args, gd_tensor ***flat,
                            gd_tensor ***flat_grad)
{
    bool first = var->update_is_grad;
    gd_status status = first || uses_grad ? gd__var_need_grad(var, false) : GD_OK;
    if (status) return status;
    args->shards = !first && var->own;
    args->input = args->shards ? var->update
                               : gd__tensors_laid(var->ctx, first ? var->grad : var->update, var->params,
                                                  var->count, flat);
    if (uses_grad)
        args->grad = first ? args->input
                           : gd__tensors_laid(var->ctx, var->grad, var->params, var->count, flat_grad);
    return args->input && (args->grad || !uses_grad) ? GD_OK : gd_error(var->ctx);
}

static gd_status run_with(gd_var *var, gd_needs needs, gd_sink sink, gd_tensor **output, bool keeps)
{
    gd_status status = gd__accumulation_into(var);
    if (status) return status;
    bool leaves = var->leaf_grad && var->update_is_grad;
    gd_tensor **flat = NULL, **flat_grad = NULL;
    gd_run_args args = {.ctx = var->ctx,
                        .optimizer = var->optimizer,
                        .pending = var->pending,
                        .pendings = var->pendings,
                        .params = var->params,
                        .keys = var->keys,
                        .input = var->leaf_grad,
                        .grad = needs.grad ? var->leaf_grad : NULL,
                        .output = output,
                        .count = var->count,
                        .sink = sink,
                        .input_is_grad = var->update_is_grad,
                        .leaves = leaves && !output && !(var->shards && var->optimizer->shared.share->kept),
                        .shards = leaves && var->shards,
                        .keeps = keeps,
                        .has_loss = needs.loss,
                        .loss = NAN,
                        .not_finite = var->share ? &var->share->not_finite : NULL};
    if (!leaves) status = find_input(var, needs.grad, &args, &flat, &flat_grad);
    if (!status && needs.loss) {
        args.loss = gd_var_loss_value(var, false);
        status = gd_error(var->ctx);
    }
    if (!status) status = gd__run_rules(&args, NULL);
    gd__tensors_free(var->ctx, flat, var->count);
    gd__tensors_free(var->ctx, flat_grad, var->count);
    return status;
}

static gd_status run_pending(gd_var *var, gd_sink sink, gd_tensor **output, bool keeps)
{
    gd_needs needs = gd__rules_need(var->pending, var->pendings);
    gd_status status;
    do status = run_with(var, needs, sink, output, keeps);
    while (status && gd__rules_need_more(var->ctx, var->pending, var->pendings, &needs));
    return status;
}

/* Splits chains among the pending links into their links; false if there are none or too many links. */
static bool take_apart(gd_var *var)
{
    gd_pending flat[GD_MAX_PENDING];
    int n = 0;
    bool any = false;
    for (int i = 0; i < var->pendings; i++) {
        gd_pending p = var->pending[i];
        bool chain = gd__is_chain(p.link);
        any = any || chain;
        for (int k = 0; k < (chain ? p.link->children : 1); k++) {
            if (n == GD_MAX_PENDING) return false;
            flat[n++] = (gd_pending){.link = chain ? p.link->child[k] : p.link, .mode = p.mode};
        }
    }
    memcpy(var->pending, flat, (size_t)n * sizeof *flat);
    var->pendings = n;
    return any;
}

/* A program of all pending links is too large: one of the first half, then one of the second. */
static gd_status flush_halves(gd_var *var, gd_sink sink)
{
    gd_pending rest[GD_MAX_PENDING];
    if (var->pendings == 1 && !take_apart(var)) return gd_error(var->ctx);
    gd_clear_error(var->ctx);
    int half = var->pendings / 2, left = var->pendings - half;
    if (var->optimizer && var->optimizer->most_pending > half)
        var->optimizer->most_pending = half > 1 ? half : 1;
    memcpy(rest, var->pending + half, (size_t)left * sizeof *rest);
    var->pendings = half;
    gd_status status = half ? gd__var_flush(var, GD_SINK_UPDATE) : GD_OK;
    memcpy(var->pending, rest, (size_t)left * sizeof *rest);
    var->pendings = left;
    return status ? status : gd__var_flush(var, sink);
}

/* keeps: this rank computes its shard of the update. */
static gd_status flush(gd_var *var, gd_sink sink, bool keeps)
{
    gd_ctx *ctx = var->ctx;
    if (sink != GD_SINK_PARAMS && !var->pendings) return GD_OK;
    if (var->bounded && var->update_is_grad) {
        gd_status status = gd__bounds_first_update(var);
        if (status) return status;
    }
    gd_tensor **output = NULL;
    if (sink == GD_SINK_UPDATE)
        output = keeps ? gd__share_list(var->optimizer, var->keys, var->params, var->count, false)
                       : gd__tensors_like(ctx, var->params, var->count);
    if (sink == GD_SINK_UPDATE && !output) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    gd_status status = run_pending(var, sink, output, keeps);
    if (status || sink != GD_SINK_UPDATE) {
        gd__tensors_free(ctx, output, var->count);
        if (status == GD_OVERFLOW && var->pendings) return flush_halves(var, sink);
        if (!status) var->pendings = 0;
        return status;
    }
    gd__tensors_free(ctx, var->update, var->count);
    var->update = output;
    var->update_is_grad = var->masked = var->answered = false;
    var->own = keeps;
    var->pendings = 0;
    return GD_OK;
}

/* An update that no rule waits for is subtracted by a plain loop: a program would be made first.  False: it takes one. */
static gd_status subtract_update(gd_var *var, bool *done)
{
    gd_layout l;
    bool here = !var->pendings && !var->update_is_grad && !var->own && !var->leaf_grad &&
                !(var->optimizer && var->optimizer->shared.share);
    gd_status status = here ? gd__layout_init(&l, var->ctx, var->params, var->count) : GD_OK;
    if (!here || status) return status;
    *done = gd__plain(&l, var->params) && gd__plain(&l, var->update);
    if (*done) {
        gd__not_recorded(var->ctx, "it runs a step of an optimizer");
        status = gd__list_move(&l, var->params, var->params, var->update, 1);
    }
    gd__layout_free(&l);
    return status;
}

gd_status gd__var_flush(gd_var *var, gd_sink sink) { return flush(var, sink, false); }

gd_status gd_var_flush(gd_var *var) { return var ? gd__var_flush(var, GD_SINK_UPDATE) : GD_ARGUMENT; }

gd_status gd_var_finish(gd_var *var)
{
    if (!var) return GD_ARGUMENT;
    if (var->bounded || (var->optimizer && var->optimizer->bounded)) return gd__bounds_finish(var);
    bool done = false;
    gd_status status = var->skip ? GD_OK : subtract_update(var, &done);
    return done || status ? status : gd__var_flush(var, var->skip ? GD_SINK_NOTHING : GD_SINK_PARAMS);
}

gd_status gd__var_append(gd_var *var, gd_link *link, gd_mode mode)
{
    if (var->pendings >= (var->optimizer ? var->optimizer->most_pending : GD_MAX_PENDING)) {
        gd_status status = gd__var_flush(var, GD_SINK_UPDATE);
        if (status) return status;
    }
    var->pending[var->pendings++] = (gd_pending){.link = link, .mode = mode};
    return var->optimizer && var->optimizer->test.no_fusion ? gd__var_flush(var, GD_SINK_UPDATE) : GD_OK;
}

/* ---- shards ---- */

bool gd__var_is_cut(const gd_var *var)
{
    const gd_optimizer *o = var->optimizer;
    bool cut = gd__shares_state(o) && o->stepping && !var->bounded;
    int64_t from, to;
    for (int i = 0; i < var->count && cut; i++) {
        const gd_tensor *t = var->params[i], *key = var->keys[i];
        cut = t->storage->device == var->params[0]->storage->device && gd__share_of(o, key, &from, &to) &&
              gd__same_shape(key, t) && gd__laid_alike(key, t);
    }
    return cut;
}

bool gd__var_is_owned(const gd_var *var)
{
    bool here = !var->count || var->params[0]->storage->device == var->ctx->cpu;
    return here && gd__var_is_cut(var);
}

bool gd__var_has_elements(const gd_var *var)
{
    bool plain = gd__var_is_owned(var), update = !var->pendings && !var->update_is_grad;
    gd_dtype dtype = var->params[0]->dtype;
    for (int i = 0; i < var->count && plain; i++)
        plain = var->params[i]->dtype == dtype && gd__contiguous(var->params[i]) &&
                (!update || var->update[i]->dtype == dtype) && (!var->grad || var->grad[i]->dtype == dtype);
    return plain && (dtype == GD_F32 || dtype == GD_F64);
}

gd_status gd__var_set_own_update(gd_var *var, gd_tensor **list)
{
    if (!list) return gd_error(var->ctx) ? gd_error(var->ctx) : GD_NOMEM;
    gd__tensors_free(var->ctx, var->update, var->count);
    var->update = list;
    var->own = true;
    var->update_is_grad = var->masked = var->answered = false;
    return GD_OK;
}

gd_tensor *const *gd__var_own_update(gd_var *var)
{
    if (var->pendings && flush(var, GD_SINK_UPDATE, true)) return NULL;
    if (var->own) return var->update;
    if (gd__accumulation_into(var)) return NULL;
    bool first = var->update_is_grad, shards = first && var->leaf_grad && var->shards;
    if (shards) /* gradients that are kept as shards */
        return gd__var_set_own_update(var, gd__tensors_share(var->ctx, var->leaf_grad, var->count))
                   ? NULL
                   : var->update;
    if (first && gd__var_need_grad(var, false)) return NULL;
    gd_tensor **flat = NULL, **own = NULL;
    gd_tensor *const *whole = gd__tensors_laid(var->ctx, first ? var->grad : var->update, var->params,
                                               var->count, &flat);
    if (whole) own = gd__share_list(var->optimizer, var->keys, whole, var->count, true);
    gd__tensors_free(var->ctx, flat, var->count);
    return gd__var_set_own_update(var, own) ? NULL : var->update;
}

/* Gathers the shards of other ranks. */
static gd_status gather_update(gd_var *var)
{
    if (!var->own) return GD_OK;
    gd_tensor **whole = gd__scatter_whole(var->optimizer, var->keys, var->update, var->count);
    if (!whole) return gd_error(var->ctx) ? gd_error(var->ctx) : GD_NOMEM;
    gd__tensors_free(var->ctx, var->update, var->count);
    var->update = whole;
    var->own = false;
    return GD_OK;
}

gd_tensor *const *gd_var_read_update(gd_var *var)
{
    if (!var) return NULL;
    if (var->pendings && gd__var_flush(var, GD_SINK_UPDATE)) return NULL;
    if (gather_update(var)) return NULL;
    if (!var->update_is_grad) return var->update;
    if (var->bounded) return gd__bounds_first_update(var) ? NULL : var->update;
    /* a reader needs no copy: the gradient itself is the first update */
    if (gd__var_need_grad(var, false)) return NULL;
    gd__tensors_free(var->ctx, var->update, var->count);
    var->update = gd__tensors_share(var->ctx, var->grad, var->count);
    if (var->update) var->update_is_grad = false;
    return var->update;
}

/* True if it can be written: neither the tensor nor its memory has other references. */
static bool held_once(const gd_tensor *t) { return t->head.refs == 1 && t->storage->refs == 1; }

/* Copies replace tensors that are also held by the gradient, a clone, a link's state or the caller of gd_var_set_update. If
 * one fails, the copies already made are equal to their originals. */
gd_tensor *const *gd_var_update(gd_var *var)
{
    if (!gd_var_read_update(var)) return NULL;
    for (int i = 0; i < var->count; i++) {
        gd_tensor *t = var->update[i];
        if (held_once(t)) continue;
        gd_tensor *own = gd__copy_on(t, t->storage->device);
        if (!own) return NULL;
        gd__release(t);
        var->update[i] = own;
    }
    return var->update;
}

/* ---- setters ---- */

/* Owned references of all, in the order of the parameters' axes; NULL for NULL. */
static gd_status fitting_list(gd_var *var, const char *what, gd_tensor *const *t, gd_tensor ***list)
{
    *list = gd__tensors_share(var->ctx, t, var->count);
    if (!*list) return t ? GD_NOMEM : GD_OK;
    return gd__lsq_like(var->ctx, what, *list, var->params, var->count);
}

gd_status gd_var_set_update(gd_var *var, gd_tensor *const *update)
{
    if (!var) return GD_ARGUMENT;
    gd_tensor **list;
    gd_status status = fitting_list(var, "update", update, &list);
    /* pending rules still have state to change */
    if (!status) status = gd__var_flush(var, GD_SINK_NOTHING);
    if (status) {
        gd__tensors_free(var->ctx, list, var->count);
        return status;
    }
    gd__tensors_free(var->ctx, var->update, var->count);
    var->update = list;
    var->update_is_grad = !list;
    var->masked = var->answered = var->own = false;
    return GD_OK;
}

gd_status gd_var_set_grad(gd_var *var, gd_tensor *const *grad)
{
    if (!var) return GD_ARGUMENT;
    gd_tensor **list;
    gd_status status = fitting_list(var, "gradient", grad, &list);
    /* pending links were meant for the old gradient */
    if (!status && var->pendings) status = gd__var_flush(var, GD_SINK_UPDATE);
    if (status) {
        gd__tensors_free(var->ctx, list, var->count);
        return status;
    }
    gd__tensors_free(var->ctx, var->grad, var->count);
    var->grad = list;
    var->grad_history = false;
    var->sides = 0;
    return GD_OK;
}

void gd_var_set_loss(gd_var *var, gd_tensor *loss)
{
    if (!var) return;
    gd__retain(loss);
    gd__release(var->loss);
    var->loss = loss;
}

void gd_var_set_loss_approx(gd_var *var, gd_tensor *loss)
{
    if (!var) return;
    gd__retain(loss);
    gd__release(var->loss_approx);
    var->loss_approx = loss;
}

/* ---- moving the parameters ---- */

/* Pending rules apply to the present parameters: they run before a link moves the parameters, or saves them to move them. */
gd_status gd_var_move(gd_var *var, double alpha, gd_tensor *const *direction)
{
    if (!var || !direction) return gd__null(gd_var_ctx(var), "var: the direction is NULL");
    gd_status status = gd__var_flush(var, GD_SINK_UPDATE);
    var->grad_history = false; /* autograd does not differentiate through what was changed in place */
    for (int i = 0; i < var->count && !status; i++) status = gd_add_into(var->params[i], direction[i], alpha);
    return status;
}

gd_status gd_var_save_params(gd_var *var, gd_tensor **copies)
{
    if (!var || !copies) return gd__null(gd_var_ctx(var), "var: the place for the parameters is NULL");
    gd_status status = gd__var_flush(var, GD_SINK_UPDATE);
    gd_tensor **list = status ? NULL : gd__tensors_copy(var->ctx, var->params, var->count);
    if (!list) return gd_error(var->ctx);
    memcpy(copies, list, (size_t)var->count * sizeof *list);
    gd__free(var->ctx, list, (size_t)var->count * sizeof *list);
    return gd__give_out(var->ctx, copies, var->count);
}

gd_status gd_var_restore_params(gd_var *var, gd_tensor *const *copies)
{
    if (!var || !copies) return gd__null(gd_var_ctx(var), "var: the copies of the parameters are NULL");
    gd_status status = GD_OK;
    var->grad_history = false;
    for (int i = 0; i < var->count && !status; i++) status = gd_assign(var->params[i], copies[i]);
    return status;
}
