/* Links that work tensor by tensor, over several ranks: each runs them over the tensors that it owns and keeps their state.
 *
 *     update      [ a ][ b ][   ][   ]    rank 0's shards: a and b are whole, others have no elements
 *     functions   ( a    b )              of tensors, with lists of these only
 *     update      [ a ][ b ][   ][   ]    stays sharded for later rules, which run their own elements; parameters are gathered
 *
 * Links that see all parameters as one vector have their rank's shard of every tensor instead, and sums over lists are those of all ranks
 * (gd_own_lists). Readers of the whole update (gd_var_read_update) get it gathered. */
#include "optim/ranks/share.h"
#include "optim/step/transform.h"
#include "optim/step/var_internal.h"
#include "tensor/elementwise.h"

#include <string.h>

bool gd__spreads_by_tensors(const gd_link *link)
{
    bool spreads = link->cls->apply_tensors && !gd__is_rule(link) && !gd__concatenates(link) &&
                   gd_link_spread(link) == GD_SPREAD_TENSOR;
    /* a child in a different space has parameters without owners; inner runs before, over all parameters */
    for (int i = 0; i < link->children && spreads; i++)
        spreads = !strcmp(link->cls->fields[link->child_field[i]].name, "inner");
    return spreads;
}

bool gd__spreads_by_elements(const gd_link *link)
{
    const gd_link_class *cls = link->cls;
    return cls->apply_tensors && !gd__is_rule(link) && !gd__concatenates(link) && !link->children &&
           gd_link_spread(link) == GD_SPREAD_VECTOR && !cls->traits.needs_closure;
}

bool gd__keeps_columns(const gd_link *link)
{
    return link->cls->traits.keeps_history && !gd_link_child(link, "inner") &&
           gd_link_get(link, "damping", NULL)->kind != GD_SET_STRING;
}

bool gd__keeps_to_own(gd_link *link, const gd_var *var)
{
    if (!gd__shares_state(var->optimizer) || gd__is_chain(link) || gd__fusable(link)) return false;
    bool serves = link->cls->part || (gd__spreads_by_tensors(link) && !link->children) ||
                  (gd__spreads_by_elements(link) && gd__var_has_elements(var));
    return serves && !link->cls->pre_step && !link->cls->post_step &&
           !strcmp(gd__target_of(link), "update") && gd__var_is_cut(var);
}

static bool shares_tensors(const gd_call_args *c)
{
    const gd_optimizer *o = c->link->optimizer;
    bool shared = gd__shares_state(o) && o->stepping && gd__spreads_by_tensors(c->link);
    for (int i = 0; i < c->count && shared; i++)
        shared = gd__share_owner(o, c->keys[i]) >= 0 && gd__same_shape(c->keys[i], c->params[i]) &&
                 gd__laid_alike(c->keys[i], c->params[i]) &&
                 c->params[i]->storage->device == c->keys[0]->storage->device;
    return shared;
}

gd_status gd__list_entries(const gd_call_args *c)
{
    const gd_link_class *cls = c->link->cls;
    bool keeps = (cls->slot_count || cls->scalar_count) && gd__spreads_by_tensors(c->link);
    for (int i = 0; i < c->count && keeps; i++)
        if (!gd__entry(c->link, c->keys[i])) return GD_NOMEM;
    return GD_OK;
}

/* Tensors without elements are every rank's. */
static bool is_own(const gd_optimizer *o, const gd_tensor *key)
{
    int64_t from, to;
    return gd__share_of(o, key, &from, &to) && to - from == key->numel;
}

static void part_entries(const gd_call_args *c)
{
    for (int i = 0; i < c->count; i++) {
        gd_entry *e = gd__entry_find(c->link, c->keys[i]);
        if (e && c->keys[i]->numel) gd__share_part(c->link, e);
    }
}

/* A result with the parameter's layout, as kernels and other ranks need. */
static gd_status lay(const gd_tensor *param, gd_tensor **t)
{
    if (gd__laid_alike(*t, param)) return GD_OK;
    gd_tensor *laid = gd__copy_laid(*t, param);
    if (!laid) return gd_error(param->head.ctx);
    gd__release(*t);
    *t = laid;
    return GD_OK;
}

static gd_status gather_results(const gd_call_args *c, gd_tensor **tensors)
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_tensor **whole = gd__scatter_whole(c->link->optimizer, c->keys, tensors, c->count);
    if (!whole) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    for (int i = 0; i < c->count; i++) {
        gd__release(tensors[i]);
        tensors[i] = whole[i];
    }
    gd__free(ctx, whole, (size_t)c->count * sizeof *whole);
    return GD_OK;
}

/* lists: room for four of all. */
static gd_status run_own(const gd_call_args *c, gd_tensor **tensors, gd_tensor **lists, bool gives,
                         gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors))
{
    gd_optimizer *o = c->link->optimizer;
    gd_tensor **params = lists + c->count, **keys = params + c->count, **grads = keys + c->count;
    gd_call_args some = *c;
    some.params = params;
    some.keys = keys;
    if (c->grads) some.grads = grads;
    some.count = 0;
    for (int i = 0; i < c->count; i++) {
        if (!is_own(o, c->keys[i])) continue;
        lists[some.count] = tensors[i];
        params[some.count] = c->params[i];
        keys[some.count] = c->keys[i];
        if (c->grads) grads[some.count] = c->grads[i];
        some.count++;
    }
    o->shared.alone = true;
    gd_status status = some.count ? fn(&some, lists) : GD_OK;
    o->shared.alone = false;
    for (int i = 0, k = 0; i < c->count; i++) {
        if (!is_own(o, c->keys[i])) continue;
        tensors[i] = lists[k++];
        if (!status && gives) status = lay(c->params[i], &tensors[i]);
    }
    return status;
}

static gd_status on_own_tensors(const gd_call_args *c, gd_tensor **tensors, bool gives,
                                gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors))
{
    gd_ctx *ctx = c->link->head.ctx;
    gd_tensor **lists = gd__calloc(ctx, 4 * (size_t)c->count * sizeof *lists);
    if (!lists) return GD_NOMEM;
    part_entries(c);
    gd_status status = run_own(c, tensors, lists, gives, fn);
    gd__free(ctx, lists, 4 * (size_t)c->count * sizeof *lists);
    return status || !gives || c->own ? status : gather_results(c, tensors);
}

/* ---- links over all parameters as one vector ---- */

/* This rank's shard of a tensor like a parameter, in its memory; of the innermost scope. */
static gd_tensor *shard_of(const gd_optimizer *o, const gd_tensor *key, gd_tensor *t)
{
    int64_t from = 0, to = 0;
    (void)gd__share_of(o, key, &from, &to);
    if (to - from == t->numel) return t;
    if (!gd__contiguous(t)) t = gd_copy(t);
    return t ? gd__share_memory(t->storage->device, t->dtype, gd__share_place(t, from).data, to - from)
             : NULL;
}

/* The tensors are this rank's shards already. */
static gd_status on_own_elements(const gd_call_args *c, gd_tensor **tensors,
                                 gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors))
{
    gd_optimizer *o = c->link->optimizer;
    gd_ctx *ctx = o->ctx;
    size_t bytes = 2 * (size_t)c->count * sizeof(gd_tensor *);
    gd_tensor **params = gd__alloc(ctx, bytes), **grads = params ? params + c->count : NULL;
    gd_call_args some = *c;
    gd_own_lists own;
    gd_status status = params ? GD_OK : GD_NOMEM;
    gd_scope_begin(ctx);
    for (int i = 0; i < c->count && !status; i++) {
        params[i] = shard_of(o, c->keys[i], c->params[i]);
        if (c->grads) grads[i] = c->own_grads ? c->grads[i] : shard_of(o, c->keys[i], c->grads[i]);
        if (!params[i] || (c->grads && !grads[i])) status = gd_error(ctx);
    }
    some.params = params;
    if (c->grads) some.grads = grads;
    if (!status) status = gd__own_lists_begin(&own, o, c->keys, c->count);
    if (!status) {
        status = fn(&some, tensors);
        gd__own_lists_end(&own, o);
    }
    gd_scope_end(ctx);
    gd__free(ctx, params, params ? bytes : 0);
    return status;
}

gd_status gd__on_own(const gd_call_args *c, gd_tensor **tensors, bool gives,
                     gd_status (*fn)(const gd_call_args *c, gd_tensor **tensors))
{
    if (c->own && gd__spreads_by_elements(c->link)) return on_own_elements(c, tensors, fn);
    return shares_tensors(c) ? on_own_tensors(c, tensors, gives, fn) : fn(c, tensors);
}
