/* The step of an optimizer: with and without an objective, like the last one, replayed. */
#include "optim/step/optimizer.h"
#include "gradus/autograd.h"
#include "optim/plan/plan.h"
#include "optim/step/transform.h"
#include "tensor/device.h"
#include <math.h>
#include <string.h>

/* ---- the step ---- */

/* Parameters that want gradients; the list is kept between steps. */
static gd_status gather_active(gd_optimizer *o, int *count)
{
    if (o->active_capacity < o->count) {
        gd_tensor **list = gd__realloc(o->ctx, o->active, (size_t)o->active_capacity * sizeof *list,
                                       (size_t)o->count * sizeof *list);
        if (!list) return GD_NOMEM;
        o->active = list;
        o->active_capacity = o->count;
    }
    *count = 0;
    for (int i = 0; i < o->count; i++)
        if (o->param[i].tensor->leaf_grad) o->active[(*count)++] = o->param[i].tensor;
    return GD_OK;
}

/* Without an objective: what gd_backward left, zeros where it left nothing. */
static gd_status take_grads(gd_var *var)
{
    gd_ctx *ctx = var->ctx;
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
    return gd__fit_like(ctx, "step: gradients", var->grad, var->params, var->count);
}

static gd_status set_last(gd_var *var, gd_link *link, gd_link *last)
{
    int lr = gd__field_index(last->cls, "lr");
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

/* The links of the chain one after the other.  The last one, and the one before a final learning rate, know it. */
static gd_status run_links(gd_optimizer *o, gd_var *var)
{
    bool several = gd__is_chain(o->chain);
    int n = several ? o->chain->children : 1;
    gd_link *const *top = several ? o->chain->child : &o->chain;
    gd_link *last = top[n - 1];
    gd_status status = GD_OK;
    for (int i = 0; i < n && !status && !var->stop; i++) {
        var->is_last = var->nested_is_last = false;
        if (gd__fusable(top[i]) && !o->no_fusion) {
            status = gd__var_append(var, top[i], GD_MODE_STEP);
            continue;
        }
        if (i == n - 1 || (i == n - 2 && gd__field_index(last->cls, "lr") >= 0))
            status = set_last(var, top[i], last);
        if (!status) status = gd_link_step(top[i], var);
    }
    return status;
}

static void free_closures(gd_optimizer *o)
{
    while (o->closures) {
        gd_closure *c = o->closures;
        o->closures = c->next_made;
        gd__free(o->ctx, c, sizeof *c);
    }
}

/* Parameters that modules have dropped, counted again only when a module has dropped something. */
static int dropped_params(gd_optimizer *o)
{
    if (o->drops == o->ctx->drops) return o->dropped;
    o->dropped = 0;
    for (int i = 0; i < o->count; i++) o->dropped += o->param[i].tensor->dropped;
    o->drops = o->ctx->drops;
    return o->dropped;
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
                           .detached_params = dropped_params(o)};
    if (!o->first_loss) return;
    info->has_loss = true;
    info->loss = gd_item(o->first_loss);
    info->finite = info->finite && isfinite(info->loss);
}

/* Could a link leave the parameters where an evaluation failed? */
static bool moves_params(const gd_link *link)
{
    bool moves = link->cls->needs_closure && !link->cls->restores_params;
    if (moves || !strcmp(gd__target_of(link), "params_direct")) return true;
    for (int i = 0; i < link->children; i++)
        if (moves_params(link->child[i])) return true;
    return false;
}

static gd_status run_hooks(gd_optimizer *o, gd_var *var)
{
    gd_status status = GD_OK;
    for (int i = 0; i < var->share->hooks && !status; i++)
        status = var->share->hook[i].fn(var->share->hook[i].user, o, var);
    if (!status && o->watch) status = o->watch(o->watch_user, o, var);
    return status ? status : gd_error(o->ctx);
}

/* The end of a step: the parameters get their values, and hooks see them. */
static gd_status update_and_hooks(gd_optimizer *o, gd_var *var)
{
    bool before = o->should_terminate;
    gd_status status = gd__var_flush(var, var->skip ? GD_SINK_NOTHING : GD_SINK_PARAMS);
    if (status) return status;
    if (!var->closure) o->evals++;
    if (var->terminate >= 0) o->should_terminate = var->terminate;
    status = run_hooks(o, var);
    if (!status) return GD_OK;
    if (!var->closure) o->evals--;
    o->should_terminate = before;
    return status;
}

static gd_status guarded(gd_optimizer *o, gd_var *var, gd_status (*part)(gd_optimizer *, gd_var *));

static gd_status links_and_update(gd_optimizer *o, gd_var *var)
{
    gd_status status = run_links(o, var);
    if (!status) status = gd_error(o->ctx); /* what a link recorded and did not return */
    return status ? status : update_and_hooks(o, var);
}

/* Links that leave the parameters alone.  Only hooks can fail once the update is subtracted; where there are any the
 * parameters are kept for that case, else nobody pays for a copy. */
static gd_status plain_links(gd_optimizer *o, gd_var *var)
{
    gd_status status = run_links(o, var);
    if (!status) status = gd_error(o->ctx);
    if (status) return status;
    return var->share->hooks ? guarded(o, var, update_and_hooks) : update_and_hooks(o, var);
}

/* When a part of the step fails the parameters are as before it, whatever links and hooks did to them. */
static gd_status guarded(gd_optimizer *o, gd_var *var, gd_status (*part)(gd_optimizer *, gd_var *))
{
    /* what waits goes on waiting: it is for these parameters */
    gd_tensor **before = gd__tensors_copy(o->ctx, var->params, var->count);
    gd_status status = before ? part(o, var) : gd_error(o->ctx);
    for (int i = 0; before && status && i < var->count; i++) (void)!gd_assign(var->params[i], before[i]);
    gd__tensors_free(o->ctx, before, var->count);
    return status;
}

static gd_status step_body(gd_optimizer *o, gd_var *var)
{
    bool moves = var->closure && moves_params(o->chain);
    gd_status status = moves ? guarded(o, var, links_and_update) : plain_links(o, var);
    if (status) return status;
    o->step++;
    o->held += var->held;
    return status;
}

static gd_status begin_step(gd_optimizer *o)
{
    if (gd_error(o->ctx)) return gd_error(o->ctx);
    gd_status status = gd__not_stepping(o, "a step");
    if (status) return status;
    status = gd__settings_begin(o);
    if (status) return status;
    gd__release(o->first_loss);
    o->first_loss = NULL;
    return o->moves == o->ctx->moves ? GD_OK : gd__state_follow(o);
}

/* ---- steps like the last one: gathering what a thousand small tensors need takes longer than the step ---- */

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

/* Whether the next step can be the same is seen once the tables are as they stay. */
static void note_again(gd_optimizer *o, int count)
{
    bool same = o->runs == 1 && o->last_plan && !not_a_rule(o->chain) && gd__plan_repeats(o->last_plan);
    for (int i = 0; i < count && same; i++) {
        const gd_tensor *grad = o->active[i]->grad;
        same = grad && gd__contiguous(grad);
    }
    if (!same) return;
    o->again.plan = o->last_plan;
    o->again.changes = o->ctx->changes;
    o->again.stamp = o->stamp;
}

static bool like_the_last(const gd_optimizer *o)
{
    return o->again.plan && o->again.changes == o->ctx->changes && o->again.stamp == o->stamp && !o->watch;
}

static gd_status step_again(gd_optimizer *o, gd_step_info *info)
{
    gd_step_share share = {0};
    gd_status status = gd__plan_again(o, o->again.plan, &share.not_finite);
    if (status) return status;
    o->evals++;
    o->step++;
    if (info) report(o, &share, info);
    return GD_OK;
}

gd_status gd_optimizer_step_with(gd_optimizer *o, const gd_objective *objective, const gd_step_extra *extra,
                                 gd_step_info *info)
{
    if (!o) return GD_ARGUMENT;
    gd_ctx *ctx = o->ctx;
    int count = 0;
    gd_status status = begin_step(o);
    bool plain = !objective && !extra;
    if (!status && plain && like_the_last(o)) return step_again(o, info);
    if (!status && !o->count)
        status = gd_fail(ctx, GD_STATE, "optimizer: it has no parameters; gd_optimizer_add gives it some");
    if (!status) status = gather_active(o, &count);
    if (status) return status;
    if (!count && !o->step)
        gd_warn(
            ctx,
            "optimizer: none of its parameters wants gradients (gd_require_grad), so steps change nothing");
    o->again.plan = o->last_plan = NULL;
    o->runs = 0;
    gd_step_share share = {.extra = extra};
    gd_closure base = {.eval = gd__objective_eval, .objective = objective};
    gd_var var;
    gd__var_init(&var, o, ctx, o->active, count);
    var.share = &share;
    var.closure = objective ? &base : NULL;
    if (extra && extra->loss) gd_var_set_loss(&var, extra->loss);
    o->stepping = true;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (!objective) status = take_grads(&var);
    if (!status && count)
        status = step_body(o, &var);
    else if (!status)
        o->step++;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    o->stepping = false;
    if (!status && plain) note_again(o, count);
    if (!status && info) report(o, &share, info);
    gd__share_clear(ctx, &share);
    gd__var_clear(&var);
    free_closures(o);
    return status;
}

gd_status gd_optimizer_step(gd_optimizer *o, const gd_objective *objective, gd_step_info *info)
{
    return gd_optimizer_step_with(o, objective, NULL, info);
}

/* ---- replaying ---- */

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
