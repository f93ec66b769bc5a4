/* Running links: steps, update and apply apart, targets, transforms of any tensors. */
#include "gradus/autograd.h"
#include "optim/optimizer.h"
#include "tensor/shape.h"

#include <string.h>

static bool is_chain(const gd_link *link)
{
    return !strcmp(link->cls->name, "chain");
}

static bool is_transform(const gd_link *link)
{
    return link->cls->rule || link->cls->apply_tensors;
}

static const char *target_of(const gd_link *link)
{
    int field = gd__field_index(link->cls, "target");
    return field < 0 ? "update" : link->value[field].string;
}

static int update_freq_of(const gd_link *link)
{
    int field = gd__field_index(link->cls, "update_freq");
    return field < 0 || link->value[field].kind != GD_SET_REAL ? 1 : (int)link->value[field].real;
}

/* ---- parameters seen as one vector ---- */

static bool concatenates(const gd_link *link)
{
    if (!link->cls->concat_params) return false;
    int field = gd__field_index(link->cls, "concat_params");
    return field < 0 || link->value[field].real != 0;
}

/* An owned vector of all elements; NULL for NULL. */
static gd_status concat(gd_ctx *ctx, gd_tensor *const *t, int count, gd_tensor **out)
{
    *out = NULL;
    if (!t) return GD_OK;
    gd_scope_begin(ctx);
    gd_tensor **flat = gd__tensors_new(ctx, count), *all = NULL;
    bool made = flat != NULL;
    for (int i = 0; i < count && made; i++) made = (flat[i] = gd__reshape(t[i], 1, &t[i]->numel)) != NULL;
    if (made) all = gd_cat(flat, count, "0");
    if (all) gd__own(all);
    gd__free(ctx, flat, (size_t)count * sizeof *flat);
    gd_scope_end(ctx);
    *out = all;
    return all ? GD_OK : gd_error(ctx);
}

/* Pieces of a vector with the shapes of `like`, owned. */
static gd_status split(gd_ctx *ctx, gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out)
{
    int64_t at = 0;
    gd_status status = GD_OK;
    gd_scope_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        gd_tensor *piece = gd__reshape(gd__slice(vector, 0, at, like[i]->numel, 1), like[i]->ndim, like[i]->size);
        piece = piece ? gd__relabel_like(piece, like[i]) : NULL;
        if (!piece) status = gd_error(ctx);
        else {
            gd__own(piece);
            gd__release(out[i]);
            out[i] = piece;
            at += like[i]->numel;
        }
    }
    gd_scope_end(ctx);
    return status;
}

/* ---- transforms of lists of tensors ---- */

/* Tensors with their own references in *list, seen as the link wants them. */
typedef struct seen {
    gd_tensor **tensors, **params, **grads; /* arrays of owned tensors */
    int count;
} seen;

static void seen_free(gd_ctx *ctx, seen *s)
{
    gd__tensors_free(ctx, s->tensors, s->count);
    gd__tensors_free(ctx, s->params, s->count);
    gd__tensors_free(ctx, s->grads, s->count);
    *s = (seen){0};
}

static gd_status share(gd_ctx *ctx, gd_tensor *const *t, int count, gd_tensor ***out)
{
    *out = NULL;
    if (!t) return GD_OK;
    if (!(*out = gd__tensors_new(ctx, count))) return GD_NOMEM;
    for (int i = 0; i < count; i++) {
        gd__retain(t[i]);
        (*out)[i] = t[i];
    }
    return GD_OK;
}

static gd_status as_one(gd_ctx *ctx, gd_tensor *const *t, int count, gd_tensor ***out)
{
    *out = NULL;
    if (!t) return GD_OK;
    if (!(*out = gd__tensors_new(ctx, 1))) return GD_NOMEM;
    return concat(ctx, t, count, *out);
}

static gd_status see(gd_link *link, gd_tensor *const *tensors, gd_tensor *const *params, gd_tensor *const *grads,
                     int count, seen *s)
{
    gd_ctx *ctx = link->head.ctx;
    bool one = concatenates(link);
    *s = (seen){.count = one ? 1 : count};
    gd_status (*how)(gd_ctx *, gd_tensor *const *, int, gd_tensor ***) = one ? as_one : share;
    gd_no_grad_begin(ctx);
    gd_status status = how(ctx, tensors, count, &s->tensors);
    /* state is keyed by the first parameter itself, so a single vector of parameters stands beside the keys */
    if (!status) status = how(ctx, params, count, &s->params);
    if (!status) status = how(ctx, grads, count, &s->grads);
    gd_no_grad_end(ctx);
    if (status) seen_free(ctx, s);
    return status;
}

static gd_status run_rule(gd_link *link, gd_mode mode, gd_tensor **tensors, gd_tensor *const *params,
                          gd_tensor *const *grads, gd_tensor *loss, int count)
{
    gd_ctx *ctx = link->head.ctx;
    gd_pending pending = {.link = link, .mode = mode};
    gd_tensor **out = NULL, **flat = NULL;
    gd_status status = share(ctx, tensors, count, &flat);
    bool writes = mode != GD_MODE_UPDATE;
    if (!status && writes && !(out = gd__tensors_new(ctx, count))) status = GD_NOMEM;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        if (!gd__contiguous(flat[i])) {
            gd_tensor *copy = gd_copy(flat[i]);
            if (copy) gd__own(copy);
            gd__release(flat[i]);
            flat[i] = copy;
        }
        if (writes && (out[i] = gd__new_like(params[i], params[i]->dtype))) gd__own(out[i]);
        if (!flat[i] || (writes && !out[i])) status = gd_error(ctx);
    }
    gd_run_args args = {.ctx = ctx,
                        .optimizer = link->optimizer,
                        .pending = &pending,
                        .pendings = 1,
                        .params = params,
                        .input = flat,
                        .grad = link->cls->uses_grad ? grads : NULL,
                        .output = out,
                        .count = count,
                        .sink = writes ? GD_SINK_UPDATE : GD_SINK_NOTHING,
                        .loss = loss ? gd_item(loss) : 0};
    if (!status && link->cls->uses_grad && !grads)
        status = gd_fail(ctx, GD_ARGUMENT, "%s: needs the gradients", link->cls->name);
    if (!status) status = gd__run_rules(&args);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    for (int i = 0; i < count && !status && writes; i++) {
        gd__release(tensors[i]);
        tensors[i] = out[i];
        out[i] = NULL;
    }
    gd__tensors_free(ctx, out, count);
    gd__tensors_free(ctx, flat, count);
    return status;
}

/* Whole-tree rules only: children that are no rules would have to run in the middle of a pass. */
static gd_status check_rule(gd_link *link)
{
    for (int i = 0; i < link->children; i++)
        if (!gd__fusable(link->child[i]))
            return gd_fail(link->head.ctx, GD_NOT_IMPLEMENTED, "%s: its child '%s' is not element-wise", link->cls->name,
                           link->child[i]->cls->name);
    return GD_OK;
}

static void forget_kept(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    gd__tensors_free(ctx, link->kept_tensors, link->kept);
    gd__tensors_free(ctx, link->kept_params, link->kept);
    gd__tensors_free(ctx, link->kept_grads, link->kept);
    link->kept_tensors = link->kept_params = link->kept_grads = NULL;
    link->kept = 0;
}

/* tensors: owned entries, not changed here. */
static gd_status transform_update(gd_link *link, gd_var *var, gd_tensor **tensors, gd_tensor *const *params,
                                  gd_tensor *const *grads, gd_tensor *loss, int count)
{
    gd_ctx *ctx = link->head.ctx;
    gd_status status = gd__is_rule(link) ? check_rule(link) : GD_OK;
    if (status) return status;
    bool due = link->step % update_freq_of(link) == 0;
    if (gd__is_rule(link))
        return link->cls->update_rule && due ? run_rule(link, GD_MODE_UPDATE, tensors, params, grads, loss, count)
                                             : GD_OK;
    seen s;
    status = see(link, tensors, params, grads, count, &s);
    if (status) return status;
    gd_transform t = {.link = link, .var = var, .count = s.count, .params = s.params, .grads = s.grads, .loss = loss,
                      .tensors = s.tensors};
    if (link->cls->update_tensors && due) {
        gd_scope_begin(ctx);
        gd_no_grad_begin(ctx);
        status = link->cls->update_tensors(&t);
        gd_no_grad_end(ctx);
        gd_scope_end(ctx);
    }
    if (status) {
        seen_free(ctx, &s);
        return status;
    }
    link->step++;
    forget_kept(link);
    link->kept_tensors = s.tensors;
    link->kept_params = s.params;
    link->kept_grads = s.grads;
    link->kept = s.count;
    return GD_OK;
}

/* Replaces the owned entries of tensors. */
static gd_status transform_apply(gd_link *link, gd_var *var, gd_tensor **tensors, gd_tensor *const *params,
                                 gd_tensor *const *grads, gd_tensor *loss, int count)
{
    gd_ctx *ctx = link->head.ctx;
    if (gd__is_rule(link)) return run_rule(link, GD_MODE_APPLY, tensors, params, grads, loss, count);
    gd_link *inner = gd_link_child(link, "inner");
    gd_status status = GD_OK;
    if (!link->kept_tensors || inner) {
        /* what comes in now: after the inner chain, or because nothing was kept by an update */
        if (inner) status = gd_link_transform(inner, tensors, params, grads, var, count);
        seen s = {0};
        if (!status) status = see(link, tensors, params, grads, count, &s);
        if (status) return status;
        forget_kept(link);
        link->kept_tensors = s.tensors;
        link->kept_params = s.params;
        link->kept_grads = s.grads;
        link->kept = s.count;
    }
    gd_transform t = {.link = link, .var = var, .count = link->kept, .params = link->kept_params,
                      .grads = link->kept_grads, .loss = loss, .tensors = link->kept_tensors};
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor **old = NULL;
    status = share(ctx, t.tensors, t.count, &old);
    if (!status) status = link->cls->apply_tensors(&t);
    /* entries it replaced are new tensors of this scope; the old ones lose our reference */
    for (int i = 0; old && i < t.count; i++) {
        if (t.tensors[i] == old[i]) continue;
        if (t.tensors[i]) gd__own(t.tensors[i]);
        gd__release(old[i]);
    }
    gd__tensors_free(ctx, old, t.count);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    if (!status && concatenates(link)) status = split(ctx, t.tensors[0], params, count, tensors);
    else
        for (int i = 0; i < count && !status; i++) {
            gd__retain(t.tensors[i]);
            gd__release(tensors[i]);
            tensors[i] = t.tensors[i];
        }
    forget_kept(link);
    return status;
}

static gd_status transform_both(gd_link *link, gd_var *var, gd_tensor **tensors, gd_tensor *const *grads)
{
    gd_tensor *loss = link->cls->uses_loss ? var->loss : NULL;
    if (gd__is_rule(link) && update_freq_of(link) == 1) {
        gd_status status = check_rule(link);
        return status ? status : run_rule(link, GD_MODE_STEP, tensors, var->params, grads, loss, var->count);
    }
    gd_status status = transform_update(link, var, tensors, var->params, grads, loss, var->count);
    return status ? status : transform_apply(link, var, tensors, var->params, grads, loss, var->count);
}

/* ---- targets ---- */

static gd_status gather(gd_link *link, gd_var *var)
{
    if ((link->cls->uses_grad && !gd_var_grad(var)) || (link->cls->uses_loss && !gd_var_loss(var, false)))
        return gd_error(var->ctx);
    return GD_OK;
}

/* a - b into new, owned entries of b */
static gd_status differences(gd_var *var, gd_tensor *const *a, gd_tensor **b)
{
    gd_status status = GD_OK;
    gd_scope_begin(var->ctx);
    gd_no_grad_begin(var->ctx);
    for (int i = 0; i < var->count && !status; i++) {
        gd_tensor *d = gd_sub(a[i], b[i]);
        if (!d) status = gd_error(var->ctx);
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

static gd_status closure_target(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_link *link = user;
    gd_status status = gd_var_inner_evaluate(var, loss, backward ? grads : NULL);
    if (status || !backward) return status;
    return transform_both(link, var, grads, link->cls->uses_grad ? grads : NULL);
}

static gd_status on_list(gd_link *link, gd_var *var, gd_tensor *const *from, gd_tensor ***list)
{
    if (!from) return gd_error(var->ctx);
    gd_status status = share(var->ctx, from, var->count, list);
    return status ? status : transform_both(link, var, *list, var->grad);
}

static gd_status step_target(gd_link *link, gd_var *var, const char *target)
{
    gd_ctx *ctx = var->ctx;
    gd_tensor **list = NULL;
    gd_status status;
    if (!strcmp(target, "closure")) return gd_var_wrap_closure(var, closure_target, link);
    if (!strcmp(target, "update")) {
        status = on_list(link, var, gd_var_update(var), &list);
        if (!status) status = gd_var_set_update(var, list);
    } else if (!strcmp(target, "grad")) {
        status = on_list(link, var, gd_var_grad(var), &list);
        if (!status) status = gd_var_set_grad(var, list);
    } else if (!strcmp(target, "update_difference")) {
        gd_tensor *const *update = gd_var_update(var);
        status = on_list(link, var, update, &list);
        if (!status) status = differences(var, update, list);
        if (!status) status = gd_var_set_update(var, list);
    } else {
        /* the rules that wait were meant for the parameters as they are */
        status = gd__var_flush(var, GD_SINK_UPDATE);
        if (!status) status = on_list(link, var, var->params, &list);
        bool direct = !strcmp(target, "params_direct");
        if (!status && direct) status = gd_var_restore_params(var, list);
        if (!status && !direct) status = differences(var, var->params, list);
        if (!status && !direct) status = gd_var_set_update(var, list);
    }
    gd__tensors_free(ctx, list, var->count);
    return status;
}

static gd_status transform_step(gd_link *link, gd_var *var)
{
    gd_status status = link->cls->pre_step ? link->cls->pre_step(link, var) : GD_OK;
    if (!status) status = gather(link, var);
    if (!status) status = step_target(link, var, target_of(link));
    if (!status && link->cls->post_step) status = link->cls->post_step(link, var);
    return status;
}

/* ---- steps ---- */

typedef gd_status (*link_fn)(gd_link *, gd_var *);

/* stop ends this level only. */
static gd_status chain_each(gd_link *link, gd_var *var, link_fn fn)
{
    bool before = var->stop;
    gd_status status = GD_OK;
    for (int i = 0; i < link->children && !status && !var->stop; i++) status = fn(link->child[i], var);
    var->stop = before;
    return status;
}

gd_status gd_link_step(gd_link *link, gd_var *var)
{
    if (link->cls->needs_closure && !var->closure)
        return gd_fail(var->ctx, GD_STATE, "%s: needs a step with an objective", link->cls->name);
    if (gd__fusable(link)) return gd__var_append(var, link, GD_MODE_STEP);
    if (is_chain(link)) return chain_each(link, var, gd_link_step);
    if (link->cls->step) return link->cls->step(link, var);
    if (is_transform(link)) return transform_step(link, var);
    gd_status status = link->cls->update ? link->cls->update(link, var) : GD_OK;
    return status || !link->cls->apply ? status : link->cls->apply(link, var);
}

static gd_status need_update_target(gd_link *link)
{
    if (!strcmp(target_of(link), "update")) return GD_OK;
    return gd_fail(link->head.ctx, GD_VALUE, "%s: with target \"%s\" only whole steps are possible", link->cls->name,
                   target_of(link));
}

gd_status gd_link_update(gd_link *link, gd_var *var)
{
    if (is_chain(link)) return chain_each(link, var, gd_link_update);
    if (!is_transform(link)) return link->cls->update ? link->cls->update(link, var) : GD_OK;
    gd_status status = need_update_target(link);
    if (status) return status;
    if (gd__fusable(link)) return link->cls->update_rule ? gd__var_append(var, link, GD_MODE_UPDATE) : GD_OK;
    gd_tensor *const *update = gd_var_update(var);
    status = update ? gather(link, var) : gd_error(var->ctx);
    if (!status && link->cls->pre_step) status = link->cls->pre_step(link, var);
    gd_tensor **list = NULL;
    if (!status) status = share(var->ctx, update, var->count, &list);
    if (!status) status = transform_update(link, var, list, var->params, var->grad, var->loss, var->count);
    gd__tensors_free(var->ctx, list, var->count);
    return status;
}

gd_status gd_link_apply(gd_link *link, gd_var *var)
{
    if (is_chain(link)) return chain_each(link, var, gd_link_apply);
    if (!is_transform(link)) {
        if (link->cls->apply) return link->cls->apply(link, var);
        return link->cls->step ? link->cls->step(link, var) : GD_OK;
    }
    gd_status status = need_update_target(link);
    if (status) return status;
    if (gd__fusable(link)) return gd__var_append(var, link, GD_MODE_APPLY);
    gd_tensor *const *update = gd_var_update(var);
    status = update ? gather(link, var) : gd_error(var->ctx);
    gd_tensor **list = NULL;
    if (!status) status = share(var->ctx, update, var->count, &list);
    if (!status) status = transform_apply(link, var, list, var->params, var->grad, var->loss, var->count);
    if (!status) status = gd_var_set_update(var, list);
    gd__tensors_free(var->ctx, list, var->count);
    if (!status && link->cls->post_step) status = link->cls->post_step(link, var);
    return status;
}

/* ---- by hand ---- */

/* Gives back what the caller owns: entries that were replaced belong to the caller's scope. */
static gd_status by_hand(gd_link *link, gd_tensor **tensors, gd_tensor *const *params, gd_tensor *const *grads,
                         gd_tensor *loss, int count, bool apply)
{
    gd_ctx *ctx = link->head.ctx;
    if (!is_transform(link))
        return gd_fail(ctx, GD_TYPE, "%s: is no transform of tensors", link->cls->name);
    gd_tensor **list = NULL;
    gd_status status = share(ctx, tensors, count, &list);
    if (!status && !apply) status = transform_update(link, NULL, list, params, grads, loss, count);
    if (!status && apply) status = transform_apply(link, NULL, list, params, grads, loss, count);
    for (int i = 0; i < count && !status && apply; i++) {
        gd_tensor *fresh = list[i] == tensors[i] ? tensors[i] : gd__alias(list[i]);
        if (!fresh) status = gd_error(ctx);
        tensors[i] = fresh;
    }
    gd__tensors_free(ctx, list, count);
    return status;
}

gd_status gd_link_keyed_update(gd_link *link, gd_tensor **tensors, gd_tensor *const *params, gd_tensor *const *grads,
                               gd_tensor *loss, int count)
{
    return by_hand(link, tensors, params, grads, loss, count, false);
}

gd_status gd_link_keyed_apply(gd_link *link, gd_tensor **tensors, gd_tensor *const *params, gd_tensor *const *grads,
                              gd_tensor *loss, int count)
{
    return by_hand(link, tensors, params, grads, loss, count, true);
}

gd_status gd_link_transform(gd_link *link, gd_tensor **tensors, gd_tensor *const *params, gd_tensor *const *grads,
                            gd_var *var, int count)
{
    gd_ctx *ctx = link->head.ctx;
    gd_var inner;
    gd_step_share room = {0};
    gd__var_init(&inner, link->optimizer, ctx, params, count);
    inner.share = var ? var->share : &room;
    inner.closure = var ? var->closure : NULL;
    inner.step = var ? var->step : 0;
    gd_status status = gd_var_set_update(&inner, tensors);
    if (!status && grads) status = gd_var_set_grad(&inner, grads);
    if (!status && var && var->loss) gd_var_set_loss(&inner, var->loss);
    if (!status) status = gd_link_step(link, &inner);
    gd_tensor *const *out = status ? NULL : gd_var_update(&inner);
    if (!status && !out) status = gd_error(ctx);
    for (int i = 0; i < count && !status; i++) {
        gd__retain(out[i]);
        gd__release(tensors[i]);
        tensors[i] = out[i];
    }
    gd__var_clear(&inner);
    return status;
}
