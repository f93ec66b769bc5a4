/* Transforms: rules and functions of tensors applied to any lists of tensors, by targets or by hand. */
#include "gradus/autograd.h"
#include "optim/step/optimizer.h"
#include "optim/step/transform.h"
#include "optim/vector/layout.h"
#include "gradus/link.h"

#include <string.h>

bool gd__is_transform(const gd_link *link)
{
    return link->cls->rule || link->cls->apply_tensors || link->cls->part;
}

const char *gd__target_of(const gd_link *link)
{
    const gd_setting *target = gd__in_force(link, "target");
    if (target) return target->string;
    return link->cls->target ? link->cls->target : "update";
}

bool gd_link_acts_first(const gd_link *link)
{
    if (!link) return false;
    const char *target = gd__target_of(link);
    return link->cls->traits.acts_first || !strcmp(target, "params_direct") || !strcmp(target, "closure");
}

static int64_t update_freq_of(const gd_link *link)
{
    const gd_setting *freq = gd__in_force(link, "update_freq");
    return freq && freq->kind == GD_SET_REAL ? (int64_t)freq->real : 1;
}

static bool is_due(const gd_link *link) { return link->step % update_freq_of(link) == 0; }

bool gd_link_is_due(const gd_link *link) { return link && is_due(link); }

/* ---- parameters seen as one vector ---- */

bool gd__concatenates(const gd_link *link)
{
    if (!link->cls->traits.concat_params) return false;
    const gd_setting *one = gd__in_force(link, "concat_params");
    return !one || one->real != 0;
}

/* An owned vector of all elements, of their dtype if they have the same. */
static gd_tensor *concat(gd_ctx *ctx, gd_tensor *const *t, int count)
{
    bool same = true;
    for (int i = 1; i < count; i++) same = same && t[i]->dtype == t[0]->dtype;
    gd_scope_begin(ctx);
    gd_tensor *all = gd__vector_copy(ctx, t, count, same ? t[0]->dtype : gd__list_dtype(t, count));
    gd__own(all);
    gd_scope_end(ctx);
    return all;
}

/* Pieces of a vector with the shapes of `like`, owned, in place of what was in out. */
static gd_status split(gd_ctx *ctx, gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out)
{
    gd_tensor **pieces = gd__tensors_new(ctx, count);
    if (!pieces) return GD_NOMEM;
    gd_scope_begin(ctx);
    gd_status status = gd_list_split(vector, like, count, pieces);
    for (int i = 0; i < count && !status; i++) {
        gd__own(pieces[i]);
        gd__release(out[i]);
        out[i] = pieces[i];
    }
    gd_scope_end(ctx);
    gd__free(ctx, pieces, (size_t)count * sizeof *pieces);
    return status;
}

/* ---- functions of tensors ---- */

/* Tensors as the link needs them: arrays of owned tensors. */
typedef struct seen {
    gd_tensor **tensors, **params, **grads;
    int count;
} seen;

static void seen_free(gd_ctx *ctx, seen *s)
{
    gd__tensors_free(ctx, s->tensors, s->count);
    gd__tensors_free(ctx, s->params, s->count);
    gd__tensors_free(ctx, s->grads, s->count);
    *s = (seen){0};
}

static gd_status see_list(gd_ctx *ctx, gd_tensor *const *t, int count, bool one, gd_tensor ***out)
{
    *out = NULL;
    if (!t) return GD_OK;
    *out = one ? gd__tensors_new(ctx, 1) : gd__tensors_share(ctx, t, count);
    if (!*out) return GD_NOMEM;
    return !one || (**out = concat(ctx, t, count)) ? GD_OK : gd_error(ctx);
}

static gd_status see(const gd_call_args *c, gd_tensor *const *tensors, seen *s)
{
    gd_ctx *ctx = c->link->head.ctx;
    bool one = gd__concatenates(c->link);
    *s = (seen){.count = one ? 1 : c->count};
    gd_no_grad_begin(ctx);
    gd_status status = see_list(ctx, tensors, c->count, one, &s->tensors);
    if (!status) status = see_list(ctx, c->params, c->count, one, &s->params);
    if (!status) status = see_list(ctx, c->grads, c->count, one, &s->grads);
    gd_no_grad_end(ctx);
    if (status) seen_free(ctx, s);
    return status;
}

static gd_transform transform_of(const gd_call_args *c, const seen *s)
{
    return (gd_transform){.link = c->link,
                          .var = c->var,
                          .count = s->count,
                          .key_count = c->count,
                          .params = s->params,
                          .keys = c->keys,
                          .grads = s->grads,
                          .loss = c->loss,
                          .tensors = s->tensors,
                          .call = c};
}

static gd_status update_tensors(const gd_call_args *c, const seen *s)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_transform t = transform_of(c, s);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = c->link->cls->update_tensors(&t);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return status;
}

/* A function that may write gets tensors without other references; a vector of all parameters is one already. */
static gd_status own_entries(const gd_call_args *c, seen *s)
{
    if (c->link->cls->traits.reads_only || gd__concatenates(c->link)) return GD_OK;
    for (int i = 0; i < s->count; i++) {
        gd_tensor *own = gd__copy_on(s->tensors[i], s->tensors[i]->storage->device);
        if (!own) return gd_error(c->link->head.ctx);
        gd__release(s->tensors[i]);
        s->tensors[i] = own;
    }
    return GD_OK;
}

/* Other ranks assume that a tensor keeps its dtype. */
static gd_status keep_dtypes(const gd_link *link, gd_tensor *const *now, gd_tensor *const *before, int count)
{
    const gd_optimizer *o = link->optimizer;
    if (!o || (!o->shared.alone && !o->shared.own_elements)) return GD_OK;
    for (int i = 0; i < count; i++)
        if (now[i]->dtype != before[i]->dtype)
            return gd_fail(link->head.ctx, GD_DTYPE, "%s: spreads %s, and gives %s for %s", link->cls->name,
                           o->shared.alone ? "by tensors" : "as a vector", gd_dtype_name(now[i]->dtype),
                           gd_dtype_name(before[i]->dtype));
    return GD_OK;
}

/* Replaces entries of s->tensors, which stay owned. */
static gd_status apply_tensors(const gd_call_args *c, seen *s)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_status owned = own_entries(c, s);
    if (owned) return owned;
    gd_transform t = transform_of(c, s);
    gd_tensor **old = gd__tensors_share(ctx, s->tensors, s->count);
    if (!old) return GD_NOMEM;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = c->link->cls->apply_tensors(&t);
    /* what it put there belongs to a scope or to someone else; what was there loses our reference */
    for (int i = 0; i < s->count; i++) {
        if (s->tensors[i] == old[i]) continue;
        gd__own(s->tensors[i]);
        gd__release(old[i]);
    }
    if (!status) status = gd__lsq_like(ctx, c->link->cls->name, s->tensors, old, s->count);
    if (!status) status = keep_dtypes(c->link, s->tensors, old, s->count);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    gd__tensors_free(ctx, old, s->count);
    return status;
}

/* The result goes back into the owned entries of tensors. */
static gd_status take_result(const gd_call_args *c, seen *s, gd_tensor **tensors)
{
    if (gd__concatenates(c->link))
        return split(c->link->head.ctx, s->tensors[0], c->params, c->count, tensors);
    for (int i = 0; i < c->count; i++) {
        gd__release(tensors[i]);
        tensors[i] = s->tensors[i];
        s->tensors[i] = NULL;
    }
    return GD_OK;
}

static gd_status update_these(const gd_call_args *c, gd_tensor **tensors)
{
    seen s;
    gd_status status = see(c, tensors, &s);
    if (!status) status = update_tensors(c, &s);
    seen_free(c->link->head.ctx, &s);
    return status;
}

static gd_status functions_update(const gd_call_args *c, gd_tensor **tensors)
{
    gd_link *link = c->link;
    bool due = link->cls->traits.updates_always || is_due(link);
    gd_status status = gd__list_entries(c);
    if (link->cls->update_tensors && due && !status) status = gd__on_own(c, tensors, false, update_these);
    if (!status) link->step++;
    return status;
}

static gd_status apply_to_these(const gd_call_args *c, gd_tensor **tensors)
{
    seen s;
    gd_status status = see(c, tensors, &s);
    if (!status) status = apply_tensors(c, &s);
    if (!status) status = take_result(c, &s, tensors);
    seen_free(c->link->head.ctx, &s);
    return status;
}

static gd_status functions_apply(const gd_call_args *c, gd_tensor **tensors)
{
    gd_link *inner = gd_link_child(c->link, "inner");
    gd_status status = GD_OK;
    if (inner) status = gd__transform_with(inner, tensors, c);
    if (status) return status;
    return gd__on_own(c, tensors, true, apply_to_these);
}

/* ---- rules on lists of tensors ---- */

#define MOST_HOLES 8

/* Runs a rule; children that are not rules run in between, each on what the rule computes for it. */
static gd_status run_with_holes(const gd_call_args *c, gd_run_args *args, gd_tensor ***out)
{
    gd_ctx *ctx = args->ctx;
    gd_tensor **hole[MOST_HOLES];
    gd_link *child = NULL;
    gd_sink sink = args->sink;
    gd_status status = GD_OK;
    args->hole = (gd_tensor *const *const *)hole;
    do {
        /* even a rule without a result has inputs for its children */
        *out = gd__tensors_like(ctx, args->params, args->count);
        args->output = *out;
        args->sink = sink;
        status = *out ? gd__run_rules(args, &child) : GD_NOMEM;
        if (status || !child) break;
        if (args->holes == MOST_HOLES)
            status = gd_fail(ctx, GD_NOT_IMPLEMENTED, "%s: has too many children that are not element-wise",
                             c->link->cls->name);
        if (!status) status = gd__transform_with(child, *out, c);
        gd_tensor **flat = NULL;
        if (!status && !gd__tensors_laid(ctx, *out, args->params, args->count, &flat)) status = gd_error(ctx);
        if (status) break;
        if (flat) gd__tensors_free(ctx, *out, args->count);
        hole[args->holes++] = flat ? flat : *out;
        *out = NULL;
    } while (true);
    for (int i = 0; i < args->holes; i++) gd__tensors_free(ctx, hole[i], args->count);
    if (status) {
        gd__tensors_free(ctx, *out, args->count);
        *out = NULL;
    }
    return status;
}

static gd_status check_rule_call(const gd_call_args *c, gd_tensor **tensors, bool uses_grad)
{
    gd_ctx *ctx = c->link->head.ctx;
    const char *name = c->link->cls->name;
    gd_status status = gd__lsq_like(ctx, name, tensors, c->params, c->count);
    if (status) return status;
    if (uses_grad && !c->grads) return gd_fail(ctx, GD_ARGUMENT, "%s: needs the gradients", name);
    for (int i = 0; i < c->count && !status; i++)
        if (!gd__dense(c->params[i]))
            status = gd_fail(ctx, GD_SHAPE, "%s: parameter %d has gaps in its memory", name, i);
    return status;
}

static gd_status run_rule_with(const gd_call_args *c, gd_mode mode, bool uses_grad, gd_tensor **tensors)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_pending pending = {.link = c->link, .mode = mode};
    bool writes = mode != GD_MODE_UPDATE;
    gd_status status = check_rule_call(c, tensors, uses_grad);
    if (status) return status;
    gd_tensor **flat = NULL, **flat_grads = NULL, **out = NULL;
    gd_tensor **grads = uses_grad ? gd__tensors_share(ctx, c->grads, c->count) : NULL;
    if (uses_grad && !grads) status = GD_NOMEM;
    gd_tensor *const *input = status ? NULL : gd__tensors_laid(ctx, tensors, c->params, c->count, &flat);
    if (!status && grads) status = gd__lsq_like(ctx, c->link->cls->name, grads, c->params, c->count);
    gd_tensor *const *grad = status ? NULL : gd__tensors_laid(ctx, grads, c->params, c->count, &flat_grads);
    if (!status && (!input || (grads && !grad))) status = gd_error(ctx);
    gd_run_args args = {.ctx = ctx,
                        .optimizer = c->link->optimizer,
                        .pending = &pending,
                        .pendings = 1,
                        .params = c->params,
                        .keys = c->keys,
                        .input = input,
                        .grad = grad,
                        .count = c->count,
                        .sink = writes ? GD_SINK_UPDATE : GD_SINK_NOTHING,
                        .has_loss = c->loss != NULL,
                        .loss = c->loss ? gd_item(c->loss) : 0,
                        .not_finite = c->var && c->var->share ? &c->var->share->not_finite : NULL};
    if (!status) status = run_with_holes(c, &args, &out);
    for (int i = 0; i < c->count && !status && writes; i++) {
        gd_tensor *before = tensors[i];
        tensors[i] = out[i];
        out[i] = before;
    }
    gd__tensors_free(ctx, out, c->count);
    gd__tensors_free(ctx, flat, c->count);
    gd__tensors_free(ctx, flat_grads, c->count);
    gd__tensors_free(ctx, grads, c->count);
    return status;
}

/* Gradient and loss of the step are available if the rule reads them. */
static gd_status complete(gd_call_args *c, gd_needs needs)
{
    if (!c->var) return GD_OK;
    if (needs.grad && !c->grads && !(c->grads = gd_var_grad(c->var))) return gd_error(c->link->head.ctx);
    if (needs.loss && !c->loss && !(c->loss = gd_var_loss(c->var, false))) return gd_error(c->link->head.ctx);
    return GD_OK;
}

static gd_status run_rule(const gd_call_args *c, gd_mode mode, gd_tensor **tensors)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_pending pending = {.link = c->link, .mode = mode};
    gd_needs needs = gd__rules_need(&pending, 1);
    gd_status status = run_rule_with(c, mode, needs.grad, tensors);
    if (!status || !gd__rules_need_more(ctx, &pending, 1, &needs)) return status;
    gd_call_args all = *c;
    do {
        status = complete(&all, needs);
        if (!status) status = run_rule_with(&all, mode, needs.grad, tensors);
    } while (status && gd__rules_need_more(ctx, &pending, 1, &needs));
    return status;
}

static gd_status rule_update(const gd_call_args *c, gd_tensor **tensors)
{
    gd_link *link = c->link;
    if (!link->cls->update_rule) return GD_OK; /* everything is in the rule, which counts steps */
    if (is_due(link)) return run_rule(c, GD_MODE_UPDATE, tensors);
    link->step++;
    return GD_OK;
}

/* ---- chains with their own parameters ---- */

/* One child on its tensors: lists of those, borrowed in a block of four. */
static gd_status part_apply(const gd_call_args *c, int child, gd_tensor **list, gd_tensor **tensors)
{
    int n = c->count, count = 0;
    gd_tensor **params = list + n, **keys = params + n, **grads = keys + n;
    for (int i = 0; i < n; i++) {
        if (c->link->cls->part(c->link, c->params[i]) != child) continue;
        list[count] = tensors[i];
        params[count] = c->params[i];
        keys[count] = c->keys[i];
        if (c->grads) grads[count] = c->grads[i];
        count++;
    }
    gd_call_args some = {.var = c->var,
                         .params = params,
                         .keys = keys,
                         .grads = c->grads ? grads : NULL,
                         .loss = c->loss,
                         .count = count,
                         .own = c->own,
                         .own_grads = c->own_grads};
    if (!count) return GD_OK;
    gd_status status = gd__transform_part(c->link->child[child], list, &some);
    for (int i = 0, k = 0; i < n; i++)
        if (k < count && c->params[i] == params[k]) tensors[i] = list[k++];
    return status;
}

static gd_status parts_apply(const gd_call_args *c, gd_tensor **tensors)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_tensor **lists = gd__calloc(ctx, 4 * (size_t)c->count * sizeof *lists);
    gd_status status = lists ? GD_OK : GD_NOMEM;
    for (int i = 0; i < c->link->children && !status; i++) status = part_apply(c, i, lists, tensors);
    gd__free(ctx, lists, 4 * (size_t)c->count * sizeof *lists);
    if (!status) c->link->step++;
    return status;
}

/* ---- the two halves, and both ---- */

gd_status gd__call_update(const gd_call_args *c, gd_tensor **tensors)
{
    if (c->link->cls->part) return GD_OK; /* everything is done in apply */
    return gd__is_rule(c->link) ? rule_update(c, tensors) : functions_update(c, tensors);
}

gd_status gd__call_apply(const gd_call_args *c, gd_tensor **tensors)
{
    if (gd__is_rule(c->link)) return run_rule(c, GD_MODE_APPLY, tensors);
    return c->link->cls->part ? parts_apply(c, tensors) : functions_apply(c, tensors);
}

gd_status gd__call_both(const gd_call_args *c, gd_tensor **tensors)
{
    if (gd__is_rule(c->link) && update_freq_of(c->link) == 1) return run_rule(c, GD_MODE_STEP, tensors);
    gd_status status = gd__call_update(c, tensors);
    return status ? status : gd__call_apply(c, tensors);
}

/* ---- a child in a different space ---- */

/* Replaces owned entries of list by the child's results; the child uses them as the gradient too. */
static gd_status run_child(const gd_call_args *c, gd_link *child, gd_tensor **list, gd_tensor *const *params,
                           gd_tensor *const *keys, int count)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_tensor **grads = gd__tensors_share(ctx, list, count);
    if (!grads) return GD_NOMEM;
    gd_call_args some = {.var = c->var, .params = params, .keys = keys, .count = count};
    some.grads = grads;
    some.loss = c->loss;
    gd_status status = gd__transform_with(child, list, &some);
    gd__tensors_free(ctx, grads, count);
    return status;
}

static gd_status child_on_vector(const gd_call_args *c, gd_link *child, gd_tensor **vector)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_tensor **list = gd__tensors_new(ctx, c->count);
    gd_status status = list ? split(ctx, *vector, c->params, c->count, list) : GD_NOMEM;
    if (!status) status = run_child(c, child, list, c->params, c->keys, c->count);
    gd_tensor *all = status ? NULL : gd_list_vector(list, c->count);
    if (!status && !all) status = gd_error(ctx);
    if (!status) *vector = all;
    gd__tensors_free(ctx, list, c->count);
    return status;
}

static gd_status child_on_each(const gd_call_args *c, gd_link *child, gd_tensor **tensors)
{
    gd_ctx *ctx = c->link->head.ctx;
    int n = 0;
    gd_tensor **list = gd__tensors_new(ctx, c->count), **own = gd_link_scratch(c->link, 2 * c->count);
    gd_status status = list && own ? GD_OK : GD_NOMEM;
    for (int i = 0; i < c->count && !status; i++) {
        if (!tensors[i]) continue;
        own[n] = c->params[i];
        own[c->count + n] = c->keys[i];
        if ((list[n] = gd_cast(tensors[i], own[n]->dtype))) gd__retain(list[n++]);
        status = gd_error(ctx);
    }
    if (!status && n) status = run_child(c, child, list, own, own + c->count, n);
    if (!status) status = gd__give_out(ctx, list, n);
    for (int i = 0, k = 0; i < c->count && !status; i++) {
        if (!tensors[i]) continue;
        tensors[i] = list[k];
        list[k++] = NULL;
    }
    gd__tensors_free(ctx, list, c->count);
    return status;
}

gd_status gd_transform_child(const gd_transform *t, const char *field, gd_tensor **tensors)
{
    if (!t || !t->link || !tensors)
        return gd__null(gd_link_ctx(t ? t->link : NULL), "link: there are no tensors for a child");
    gd_link *child = gd_link_child(t->link, field);
    if (!child || !t->call) return GD_OK;
    bool one = gd__concatenates(t->link);
    return one ? child_on_vector(t->call, child, tensors) : child_on_each(t->call, child, tensors);
}

/* Where such a slot is, shaped like the parameter of that number; NULL: there is none. */
static gd_tensor *slot_below(const gd_transform *t, const gd_link *below, const char *slot, int index)
{
    gd_tensor *key = t->call->keys[index];
    if (!gd_link_has_state(below, key, slot)) return NULL;
    gd_tensor *kept = gd__slot_numbers((gd_link *)below, key, slot, t->call->params[index]);
    return kept && gd__same_shape(kept, t->call->params[index]) ? kept : NULL;
}

gd_tensor *gd_transform_below(const gd_transform *t, const gd_link *below, const char *slot, int index)
{
    if (!t || !t->call || !below || index < 0 || index >= t->count) return NULL;
    gd_tensor *own = slot_below(t, below, slot, index);
    if (!gd__concatenates(t->link)) return own ? gd_detach(own) : NULL;
    gd_tensor **list = gd_link_scratch(t->link, t->key_count);
    for (int i = 0; i < t->key_count && list; i++)
        if (!(list[i] = slot_below(t, below, slot, i))) return NULL;
    return list ? gd_list_vector(list, t->key_count) : NULL;
}

gd_status gd_transform_set_below(const gd_transform *t, gd_link *below, const char *slot, int index,
                                 gd_tensor *value)
{
    if (!t || !below || !value || index < 0 || index >= t->count)
        return gd__null(below ? below->head.ctx : gd_tensor_ctx(value),
                        "link: there is no state to set below it");
    if (!t->call) return GD_OK;
    bool one = gd__concatenates(t->link);
    int64_t at = 0;
    gd_status status = GD_OK;
    for (int i = one ? 0 : index; i < (one ? t->key_count : index + 1) && !status; i++) {
        gd_tensor *kept = slot_below(t, below, slot, i), *piece = value;
        if (one && kept)
            piece = gd_reshape(gd_slice(value, "0", at, at + kept->numel, 1), kept->ndim, kept->size);
        if (kept) status = piece ? gd_assign(kept, piece) : gd_error(below->head.ctx);
        at += t->call->params[i]->numel;
    }
    return status;
}

/* ---- by hand ---- */

static gd_status call_by_hand(gd_call_args *c, gd_tensor **tensors, bool apply)
{
    gd_ctx *ctx = c->link->head.ctx;
    const char *name = c->link->cls->name;
    if (c->loss && c->loss->numel != 1) return gd_fail(ctx, GD_SHAPE, "%s: the loss is not one number", name);
    gd_tensor **grads = c->grads ? gd__tensors_share(ctx, c->grads, c->count) : NULL;
    if (c->grads && !grads) return GD_NOMEM;
    c->grads = grads;
    gd_status status = gd__lsq_like(ctx, name, tensors, c->params, c->count);
    if (!status && grads) status = gd__lsq_like(ctx, name, grads, c->params, c->count);
    if (!status) status = apply ? gd__call_apply(c, tensors) : gd__call_update(c, tensors);
    gd__tensors_free(ctx, grads, c->count);
    return status;
}

/* Entries that were replaced belong to the caller's scope. */
static gd_status by_hand(gd_call_args *c, gd_tensor **tensors, bool apply)
{
    gd_ctx *ctx = c->link->head.ctx;
    if (!gd__is_transform(c->link))
        return gd_fail(ctx, GD_TYPE, "%s: is no transform of tensors", c->link->cls->name);
    if (c->count < 1 || !tensors || !c->params)
        return gd_fail(ctx, GD_ARGUMENT, "%s: there are no tensors to transform", c->link->cls->name);
    for (int i = 0; i < c->count; i++)
        if (!tensors[i] || !c->params[i])
            return gd_error(ctx) ? gd_error(ctx)
                                 : gd_fail(ctx, GD_ARGUMENT, "%s: tensor %d is NULL", c->link->cls->name, i);
    gd_tensor **list = gd__tensors_share(ctx, tensors, c->count), **alias = gd__tensors_new(ctx, c->count);
    gd_status status = list && alias ? GD_OK : GD_NOMEM;
    if (!status) status = call_by_hand(c, list, apply);
    for (int i = 0; i < c->count && !status && apply; i++)
        if (!(alias[i] = list[i] == tensors[i] ? tensors[i] : gd__alias(list[i]))) status = gd_error(ctx);
    if (!status && apply) memcpy(tensors, alias, (size_t)c->count * sizeof *tensors);
    gd__tensors_free(ctx, list, c->count);
    gd__free(ctx, alias, (size_t)c->count * sizeof *alias);
    return status;
}

gd_status gd_link_keyed_update(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                               gd_tensor *const *grads, gd_tensor *loss, int count)
{
    if (!link) return GD_ARGUMENT;
    return by_hand(&(gd_call_args){link, NULL, params, params, grads, loss, count, false, false}, tensors,
                   false);
}

gd_status gd_link_keyed_apply(gd_link *link, gd_tensor **tensors, gd_tensor *const *params,
                              gd_tensor *const *grads, gd_tensor *loss, int count)
{
    if (!link) return GD_ARGUMENT;
    return by_hand(&(gd_call_args){link, NULL, params, params, grads, loss, count, false, false}, tensors,
                   true);
}

/* ---- states that the caller keeps ----
 * Each is a tensor of which only the address matters: links keep their state under it as for a parameter. */

struct gd_states {
    gd_link *link;
    gd_tensor **keys;
    int count;
};

gd_states *gd_states_new(gd_link *link, int count)
{
    if (!link) return NULL;
    gd_ctx *ctx = link->head.ctx;
    gd_states *s = gd__calloc(ctx, sizeof *s);
    gd_tensor **keys = s ? gd__tensors_new(ctx, count) : NULL;
    gd_status status = keys ? GD_OK : GD_NOMEM;
    gd_scope_begin(ctx);
    for (int i = 0; i < count && !status; i++) {
        keys[i] = gd_zeros(ctx, GD_U8, 1, (int64_t[]){0});
        gd__own(keys[i]);
        if (!keys[i]) status = gd_error(ctx);
    }
    gd_scope_end(ctx);
    if (status) {
        gd__tensors_free(ctx, keys, count);
        gd__free(ctx, s, sizeof *s);
        return NULL;
    }
    gd__retain(link);
    *s = (gd_states){.link = link, .keys = keys, .count = count};
    return s;
}

void gd_states_free(gd_states *s)
{
    if (!s) return;
    gd_ctx *ctx = s->link->head.ctx;
    for (int i = 0; i < s->count; i++) gd__entries_drop(s->link, s->keys[i]);
    gd__release(s->link);
    gd__tensors_free(ctx, s->keys, s->count);
    gd__free(ctx, s, sizeof *s);
}

gd_tensor *gd_states_get(gd_states *s, int index, const char *name)
{
    if (!s) return NULL;
    int slot = gd__slot_index(s->link->cls, name);
    const gd_entry *e = slot < 0 || index < 0 || index >= s->count ? NULL
                                                                   : gd__entry_find(s->link, s->keys[index]);
    return e ? e->slot[slot] : NULL;
}

gd_status gd_states_update(gd_states *s, gd_tensor **tensors, gd_tensor *const *params,
                           gd_tensor *const *grads, gd_tensor *loss)
{
    if (!s) return GD_ARGUMENT;
    return by_hand(&(gd_call_args){s->link, NULL, params, s->keys, grads, loss, s->count, false, false},
                   tensors, false);
}

gd_status gd_states_apply(gd_states *s, gd_tensor **tensors, gd_tensor *const *params,
                          gd_tensor *const *grads, gd_tensor *loss)
{
    if (!s) return GD_ARGUMENT;
    return by_hand(&(gd_call_args){s->link, NULL, params, s->keys, grads, loss, s->count, false, false},
                   tensors, true);
}
