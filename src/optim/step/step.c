/* Running links: whole steps, update and apply separately, the six targets. */
#include "gradus/autograd.h"
#include "optim/step/optimizer.h"
#include "optim/step/transform.h"

#include <string.h>

static gd_call_args call_in(gd_link *link, gd_var *var)
{
    return (gd_call_args){link, var, var->params, var->keys, var->grad, var->loss, var->count, false, false};
}

/* Evaluates what the class declares that it uses; from: what its target reads.  One evaluation gives loss and gradient if both are
 * used. */
static gd_status gather(gd_link *link, gd_var *var, const char *from)
{
    if ((link->cls->traits.uses_grad || link->reads_grad) && !gd_var_grad(var)) return gd_error(var->ctx);
    if (!link->cls->traits.uses_loss && !link->reads_loss) return GD_OK;
    bool both = gd_var_wants_gradient(var) && !gd_var_has_grad(var) && strncmp(from, "params", 6);
    return gd_var_loss(var, both) ? GD_OK : gd_error(var->ctx);
}

/* ---- targets ---- */

/* a - b into new, owned entries of b */
static gd_status differences(gd_var *var, gd_tensor *const *a, gd_tensor **b)
{
    gd_status status = GD_OK;
    gd_scope_begin(var->ctx);
    gd_no_grad_begin(var->ctx);
    for (int i = 0; i < var->count && !status; i++) {
        gd_tensor *d = gd_sub(a[i], b[i]);
        if (!d)
            status = gd_error(var->ctx);
        else {
            gd__own(d);
            gd__release(b[i]);
            b[i] = d;
        }
    }
    gd_no_grad_end(var->ctx);
    gd_scope_end(var->ctx);
    return status;
}

/* Evaluates the inner closure and transforms its gradient; loss and gradient are those of the present point. */
static gd_status closure_target(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_status status = gd__var_inner_evaluate(var, loss, backward ? grads : NULL);
    if (status || !backward) return status;
    gd_call_args c = call_in(user, var);
    gd_tensor **now = gd__tensors_share(var->ctx, grads, var->count);
    if (!now) return GD_NOMEM;
    c.grads = now;
    c.loss = *loss;
    status = gd__call_both(&c, grads);
    gd__tensors_free(var->ctx, now, var->count);
    return status;
}

/* The link on a list of tensors: owned results in *list. */
static gd_status on_list(gd_link *link, gd_var *var, gd_tensor *const *from, gd_tensor ***list)
{
    if (!from) return gd_error(var->ctx);
    if (!(*list = gd__tensors_share(var->ctx, from, var->count))) return GD_NOMEM;
    gd_call_args c = call_in(link, var);
    return gd__call_both(&c, *list);
}

static gd_status target_update(gd_link *link, gd_var *var, bool difference, gd_tensor ***list)
{
    gd_tensor *const *update = gd_var_read_update(var);
    gd_status status = on_list(link, var, update, list);
    if (!status && difference) status = differences(var, update, *list);
    return status ? status : gd_var_set_update(var, *list);
}

static gd_status target_params(gd_link *link, gd_var *var, bool direct, gd_tensor ***list)
{
    /* pending rules apply to the present parameters */
    gd_status status = gd__var_flush(var, GD_SINK_UPDATE);
    if (!status) status = on_list(link, var, var->params, list);
    if (status) return status;
    if (direct) return gd_var_restore_params(var, *list);
    status = differences(var, var->params, *list);
    return status ? status : gd_var_set_update(var, *list);
}

/* The same over this rank's shard of the update. */
static gd_status target_own_update(gd_link *link, gd_var *var)
{
    gd_tensor *const *update = gd__var_own_update(var);
    gd_tensor **list = update ? gd__tensors_share(var->ctx, update, var->count) : NULL;
    if (!list) return gd_error(var->ctx) ? gd_error(var->ctx) : GD_NOMEM;
    gd_call_args c = call_in(link, var);
    c.own = true;
    if (!c.grads) c.grads = var->leaf_grad;
    if (!c.grads && link->cls->traits.uses_grad && !(c.grads = gd_var_grad(var))) {
        gd__tensors_free(var->ctx, list, var->count);
        return gd_error(var->ctx);
    }
    c.own_grads = c.grads && c.grads == var->leaf_grad && var->shards;
    bool loss = (link->cls->traits.uses_loss || link->reads_loss) && !c.loss;
    gd_status status = loss && !(c.loss = gd_var_loss(var, false)) ? gd_error(var->ctx) : GD_OK;
    if (!status) status = gd__call_both(&c, list);
    if (!status) return gd__var_set_own_update(var, list);
    gd__tensors_free(var->ctx, list, var->count);
    return status;
}

static gd_status step_target(gd_link *link, gd_var *var, const char *target)
{
    gd_tensor **list = NULL;
    gd_status status;
    if (!strcmp(target, "closure")) return gd__var_wrap_closure(var, closure_target, link);
    status = gather(link, var, target);
    if (status) return status;
    if (!strcmp(target, "update"))
        status = target_update(link, var, false, &list);
    else if (!strcmp(target, "update_difference"))
        status = target_update(link, var, true, &list);
    else if (!strcmp(target, "params_direct"))
        status = target_params(link, var, true, &list);
    else if (!strcmp(target, "params_difference"))
        status = target_params(link, var, false, &list);
    else {
        status = on_list(link, var, gd_var_grad(var), &list);
        if (!status) status = gd_var_set_grad(var, list);
    }
    gd__tensors_free(var->ctx, list, var->count);
    return status;
}

/* ---- steps ---- */

/* stop ends this level only; a held step ends all levels. */
gd_status gd__each_link(gd_link *link, gd_var *var, gd_status (*fn)(gd_link *link, gd_var *var))
{
    bool before = var->stop, chain = gd__is_chain(link);
    gd_status status = GD_OK;
    for (int i = 0; i < (chain ? link->children : 1) && !status && !var->stop; i++)
        status = fn(chain ? link->child[i] : link, var);
    var->stop = before || var->held;
    return status;
}

static gd_status before_step(gd_link *link, gd_var *var)
{
    if (link->cls->traits.needs_closure && !var->closure)
        return gd_fail(var->ctx, GD_STATE, "%s: needs a step with an objective", link->cls->name);
    return link->cls->pre_step ? link->cls->pre_step(link, var) : GD_OK;
}

static gd_status after_step(gd_link *link, gd_var *var)
{
    return link->cls->post_step ? link->cls->post_step(link, var) : GD_OK;
}

/* Inside bounds a search may ask a link with a model of the curvature again, with more elements held.  NULL: it was given
 * the gradient. */
static gd_status keep_given(gd_var *var)
{
    gd__tensors_free(var->ctx, var->given, var->count);
    var->given = NULL;
    if (!gd_var_has_update(var) || var->masked) return GD_OK;
    if (!gd_var_read_update(var)) return gd_error(var->ctx);
    var->given = gd__tensors_share(var->ctx, var->update, var->count);
    return var->given ? GD_OK : GD_NOMEM;
}

static gd_status step_itself(gd_link *link, gd_var *var)
{
    if (gd__is_transform(link)) {
        if (gd__fusable_inside(link)) return gd__var_append(var, link, GD_MODE_STEP);
        return step_target(link, var, gd__target_of(link));
    }
    if (link->cls->hessian) var->curved = link;
    gd_status status = var->bounded && link->cls->hessian ? keep_given(var) : GD_OK;
    if (status) return status;
    if (link->cls->step)
        status = link->cls->step(link, var);
    else {
        status = link->cls->update ? link->cls->update(link, var) : GD_OK;
        if (!status && link->cls->apply) status = link->cls->apply(link, var);
    }
    var->answered = !status && var->bounded && link->cls->hessian && !gd_link_child(link, "inner");
    return status;
}

bool gd__joins(gd_link *link, const gd_var *var)
{
    const gd_optimizer *o = var->optimizer;
    if (!gd__fusable(link)) return false;
    return !o || !gd__is_chain(link) || (!o->test.no_fusion && link->children <= o->most_pending);
}

gd_status gd_link_step(gd_link *link, gd_var *var)
{
    if (!link || !var) return gd__null(gd_link_ctx(link), "link: the variable of the step is NULL");
    if (gd__joins(link, var)) return gd__var_append(var, link, GD_MODE_STEP);
    if (gd__is_chain(link)) return gd__each_link(link, var, gd_link_step);
    if (gd__keeps_to_own(link, var)) return target_own_update(link, var);
    /* it may compute gradients, and change those of the leaves */
    bool needs = var->leaf_grad && !(gd__keeps_columns(link) && gd__var_has_elements(var));
    gd_status status = needs ? gd__var_need_grad(var, false) : GD_OK;
    if (!status) status = before_step(link, var);
    if (!status) status = step_itself(link, var);
    return status ? status : after_step(link, var);
}

static gd_status need_update_target(gd_link *link)
{
    const char *target = gd__target_of(link);
    if (!strcmp(target, "update")) return GD_OK;
    return gd_fail(link->head.ctx, GD_VALUE, "%s: with target \"%s\" only whole steps are possible",
                   link->cls->name, target);
}

/* One half of a transform, on a list of its own. */
static gd_status half(gd_link *link, gd_var *var, bool apply)
{
    gd_tensor *const *update = gd_var_read_update(var);
    gd_status status = update ? gather(link, var, "update") : gd_error(var->ctx);
    gd_tensor **list = status ? NULL : gd__tensors_share(var->ctx, update, var->count);
    if (!status && !list) status = GD_NOMEM;
    gd_call_args c = call_in(link, var);
    if (!status) status = apply ? gd__call_apply(&c, list) : gd__call_update(&c, list);
    if (!status && apply) status = gd_var_set_update(var, list);
    gd__tensors_free(var->ctx, list, var->count);
    return status;
}

gd_status gd_link_update(gd_link *link, gd_var *var)
{
    if (!link || !var) return gd__null(gd_link_ctx(link), "link: the variable of the step is NULL");
    if (gd__is_chain(link)) return gd__each_link(link, var, gd_link_update);
    if (link->cls->target) return GD_OK; /* everything is done in apply */
    gd_status status = gd__is_transform(link) ? need_update_target(link) : GD_OK;
    if (!status) status = before_step(link, var);
    if (status) return status;
    if (!gd__is_transform(link)) return link->cls->update ? link->cls->update(link, var) : GD_OK;
    if (!gd__fusable_inside(link)) return half(link, var, false);
    return link->cls->update_rule ? gd__var_append(var, link, GD_MODE_UPDATE) : GD_OK;
}

static gd_status apply_itself(gd_link *link, gd_var *var)
{
    if (gd__is_transform(link))
        return gd__fusable_inside(link) ? gd__var_append(var, link, GD_MODE_APPLY) : half(link, var, true);
    if (link->cls->hessian) var->curved = link;
    if (link->cls->apply) return link->cls->apply(link, var);
    return link->cls->step ? link->cls->step(link, var) : GD_OK;
}

gd_status gd_link_apply(gd_link *link, gd_var *var)
{
    if (!link || !var) return gd__null(gd_link_ctx(link), "link: the variable of the step is NULL");
    if (gd__is_chain(link)) return gd__each_link(link, var, gd_link_apply);
    if (link->cls->target) return gd_link_step(link, var);
    gd_status status = gd__is_transform(link) ? need_update_target(link) : GD_OK;
    if (!status) status = apply_itself(link, var);
    return status ? status : after_step(link, var);
}

/* ---- chains on any tensors ---- */

static gd_status transform(gd_link *link, gd_tensor **tensors, const gd_call_args *c, bool part)
{
    gd_ctx *ctx = link->head.ctx;
    gd_var inner;
    gd_step_share room = {0};
    const gd_var *var = c->var;
    gd__var_init(&inner, link->optimizer, ctx, c->params, c->count);
    inner.keys = c->keys;
    inner.share = var ? var->share : &room;
    inner.closure = var ? var->closure : NULL;
    if (var) inner.step = var->step;
    gd_var_set_loss(&inner, c->loss);
    gd_status status = c->own ? gd__var_set_own_update(&inner, gd__tensors_share(ctx, tensors, c->count))
                              : gd_var_set_update(&inner, tensors);
    if (!status && part && inner.closure) status = gd__closure_part(&inner, c->var);
    if (c->own) {
        inner.leaf_grad = c->grads;
        inner.shards = c->own_grads;
    } else if (!status && c->grads)
        status = gd_var_set_grad(&inner, c->grads);
    if (!status) status = gd_link_step(link, &inner);
    /* a chain that moved its parameters itself, or holds its step, leaves nothing to subtract */
    if (!status && part && inner.skip) status = gd_var_set_zero_update(&inner);
    gd_tensor *const *out = status ? NULL : c->own ? gd__var_own_update(&inner) : gd_var_read_update(&inner);
    if (!status && !out) status = gd_error(ctx);
    for (int i = 0; i < c->count && !status; i++) {
        gd__retain(out[i]);
        gd__release(tensors[i]);
        tensors[i] = out[i];
    }
    if (c->var && inner.terminate >= 0) c->var->terminate = inner.terminate;
    gd__var_clear(&inner);
    gd__share_clear(ctx, &room);
    return status;
}

gd_status gd__transform_with(gd_link *link, gd_tensor **tensors, const gd_call_args *c)
{
    return transform(link, tensors, c, false);
}

gd_status gd__transform_part(gd_link *link, gd_tensor **tensors, const gd_call_args *c)
{
    return transform(link, tensors, c, true);
}

gd_status gd__link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                             gd_tensor *const *grads, gd_var *var, int count)
{
    gd_tensor *const *keys = var && var->params == params ? var->keys : params;
    gd_call_args c = {link, var, params, keys, grads, var ? var->loss : NULL, count, false, false};
    return gd__transform_with(link, tensors, &c);
}

gd_status gd_link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                            gd_tensor *const *grads, gd_var *var, int count)
{
    if (!link || (count > 0 && (!tensors || !params)))
        return gd__null(gd_link_ctx(link), "link: the tensors or parameters are NULL");
    gd_ctx *ctx = link->head.ctx;
    gd_tensor **list = gd__tensors_share(ctx, tensors, count);
    if (!list) return GD_NOMEM;
    gd_status status = gd__link_transform(link, list, params, grads, var, count);
    if (!status) status = gd__give_out(ctx, list, count);
    if (!status) {
        memcpy(tensors, list, (size_t)count * sizeof *list);
        memset(list, 0, (size_t)count * sizeof *list);
    }
    gd__tensors_free(ctx, list, count);
    return status;
}
