/* Which rank owns what of each parameter, and state of shards. */
#include "base/narrow.h"
#include "optim/ranks/share.h"

#include <string.h>

/* ---- who owns what ---- */

/* Does a link of the parameter, or one below it, need the whole tensor on one rank? Blocks of codes are not cut. */
static bool wants_whole(const gd_link *link, const gd_tensor *param)
{
    if (link->cls->part) {
        int child = link->cls->part(link, param);
        return child >= 0 && wants_whole(link->child[child], param);
    }
    bool whole = gd_link_spread(link) == GD_SPREAD_TENSOR ||
                 (gd__is_rule(link) && gd__state_chosen(link, param) == GD_U8);
    for (int i = 0; i < link->children && !whole; i++) whole = wants_whole(link->child[i], param);
    return whole;
}

/* True if the cuts of a parameter that has owners must change. */
static bool look_at_params(gd_optimizer *o)
{
    bool changed = false;
    for (int i = 0; i < o->count; i++) {
        gd_param *p = &o->param[i];
        bool before = p->undivided;
        p->undivided = wants_whole(o->chain, p->tensor);
        changed = changed || (p->cut && p->undivided != before);
    }
    return changed;
}

typedef struct assigning {
    gd_optimizer *o;
    int64_t *load; /* elements that each rank has */
    int *order;    /* parameters without owners, the largest first */
    int ranks;
} assigning;

static int least_loaded(const assigning *a)
{
    int least = 0;
    for (int r = 1; r < a->ranks; r++)
        if (a->load[r] < a->load[least]) least = r;
    return least;
}

/* Elements count in the order of memory; some programs copy tensors whose memory has a different order than their axes. */
static bool goes_whole(const gd_param *p)
{
    return p->undivided || p->tensor->numel <= GD_SHARE_BLOCK || !gd__contiguous(p->tensor);
}

static void give_whole(assigning *a, gd_param *p)
{
    int owner = least_loaded(a);
    for (int r = 0; r <= a->ranks; r++) p->cut[r] = r > owner ? p->tensor->numel : 0;
    a->load[owner] += p->tensor->numel;
}

/* Equal numbers of blocks for all ranks; the remainder goes to the ranks that own the least. */
static void give_blocks(assigning *a, gd_param *p)
{
    int64_t numel = p->tensor->numel, blocks = (numel + GD_SHARE_BLOCK - 1) / GD_SHARE_BLOCK;
    memset(p->cut, 0, (size_t)(a->ranks + 1) * sizeof *p->cut);
    for (int64_t left = blocks % a->ranks; left > 0; left--) {
        int r = least_loaded(a);
        p->cut[r + 1]++;
        a->load[r] += GD_SHARE_BLOCK;
    }
    for (int r = 0; r < a->ranks; r++) {
        a->load[r] += blocks / a->ranks * GD_SHARE_BLOCK;
        int64_t end = p->cut[r] + (p->cut[r + 1] + blocks / a->ranks) * GD_SHARE_BLOCK;
        p->cut[r + 1] = end < numel ? end : numel;
    }
}

static gd_status assign(assigning *a, int count)
{
    gd_ctx *ctx = a->o->ctx;
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        gd_param *p = &a->o->param[a->order[i]];
        p->cut = gd__alloc_array(ctx, (size_t)a->ranks + 1, sizeof *p->cut);
        p->ranks = a->ranks;
        if (!p->cut)
            status = GD_NOMEM;
        else if (goes_whole(p))
            give_whole(a, p);
        else
            give_blocks(a, p);
    }
    return status;
}

static void drop_owners(gd_optimizer *o, int ranks)
{
    for (int i = 0; i < o->count; i++) {
        gd_param *p = &o->param[i];
        if (p->ranks == ranks) continue;
        gd__free(o->ctx, p->cut, (size_t)(p->ranks + 1) * sizeof *p->cut);
        p->cut = NULL;
    }
}

/* Largest first, so that the small ones balance the rest. Few enough for an insertion sort. */
static int list_new(assigning *a)
{
    const gd_optimizer *o = a->o;
    int count = 0;
    for (int i = 0; i < o->count; i++) {
        const gd_param *p = &o->param[i];
        for (int r = 0; p->cut && r < a->ranks; r++) a->load[r] += p->cut[r + 1] - p->cut[r];
        if (p->cut) continue;
        int k = count++;
        for (; k > 0 && o->param[a->order[k - 1]].tensor->numel < p->tensor->numel; k--)
            a->order[k] = a->order[k - 1];
        a->order[k] = i;
    }
    return count;
}

gd_status gd__share_own(gd_optimizer *o)
{
    gd_share *share = o->shared.share;
    if (share->structure == o->structure) return GD_OK;
    assigning a = {.o = o, .ranks = gd_world_size(share->world)};
    gd_status status = GD_OK;
    if (look_at_params(o)) {
        status = gd__share_make_all_whole(o);
        drop_owners(o, -1);
    }
    drop_owners(o, a.ranks);
    a.load = gd__calloc(o->ctx, (size_t)a.ranks * sizeof *a.load);
    a.order = gd__calloc(o->ctx, (size_t)o->count * sizeof *a.order);
    if (!status) status = a.load && a.order ? assign(&a, list_new(&a)) : GD_NOMEM;
    gd__free(o->ctx, a.load, (size_t)a.ranks * sizeof *a.load);
    gd__free(o->ctx, a.order, (size_t)o->count * sizeof *a.order);
    if (!status) share->structure = o->structure;
    return status;
}

bool gd__share_of(const gd_optimizer *o, const gd_tensor *param, int64_t *from, int64_t *to)
{
    int i = gd__param_index(o, param), rank = gd_world_rank(o->shared.share->world);
    const gd_param *p = i < 0 ? NULL : &o->param[i];
    if (!p || !p->cut || p->cut[p->ranks] != p->tensor->numel) return false;
    *from = p->cut[rank];
    *to = p->cut[rank + 1];
    return true;
}

int gd__share_owner(const gd_optimizer *o, const gd_tensor *param)
{
    int i = gd__param_index(o, param);
    const gd_param *p = i < 0 ? NULL : &o->param[i];
    for (int r = 0; p && p->cut && r < p->ranks; r++)
        if (p->cut[r + 1] - p->cut[r] == p->tensor->numel) return r;
    return -1;
}

/* ---- lists ---- */

/* This rank's data of a tensor with its parameter's strides: all of it, nothing, or a copy of its shard. */
static gd_tensor *own_of(gd_tensor *t, int64_t from, int64_t to, bool fill)
{
    int64_t count = to - from;
    if (count == t->numel && fill) {
        gd__retain(t);
        return t;
    }
    gd_tensor *own = count == t->numel ? gd__new_laid(t, t->dtype)
                                       : gd__new(t->storage->device, t->dtype, 1, &count);
    gd__own(own);
    if (own && fill && gd__share_move(gd__share_place(own, 0), gd__share_place(t, from), t->dtype, count)) {
        gd__release(own);
        own = NULL;
    }
    return own;
}

gd_tensor **gd__share_list(gd_optimizer *o, gd_tensor *const *keys, gd_tensor *const *whole, int count,
                           bool fill)
{
    gd_tensor **list = gd__calloc(o->ctx, (size_t)count * sizeof *list);
    gd_status status = list ? GD_OK : GD_NOMEM;
    gd_scope_begin(o->ctx);
    for (int i = 0; i < count && !status; i++) {
        int64_t from = 0, to = 0;
        (void)gd__share_of(o, keys[i], &from, &to);
        if (!(list[i] = own_of(whole[i], from, to, fill))) status = gd_error(o->ctx);
    }
    gd_scope_end(o->ctx);
    if (!status) return list;
    for (int i = 0; list && i < count; i++) gd__release(list[i]);
    gd__free(o->ctx, list, (size_t)count * sizeof *list);
    return NULL;
}

/* ---- state of shards ---- */

/* Elements of a whole slot; new. */
static gd_tensor *cut_out(gd_tensor *whole, const gd_tensor *param, int64_t from, int64_t count)
{
    gd_tensor *t = gd__new(whole->storage->device, whole->dtype, 1, &count), *laid = whole;
    if (!t) return NULL;
    if (!gd__laid_alike(whole, param)) laid = gd__copy_laid(whole, param);
    gd_status status = laid ? gd__share_move(gd__share_place(t, 0), gd__share_place(laid, from), t->dtype,
                                             count)
                            : gd_error(whole->head.ctx);
    if (laid != whole) gd__release(laid);
    return status ? NULL : t;
}

/* This rank's shard of an existing slot, of the innermost scope; NULL: the slot does not fit, or an error is recorded. */
static gd_tensor *shard_of_slot(const gd_entry *e, int slot, gd_dtype dtype, const gd_tensor *param,
                                unsigned without, int64_t from, int64_t count)
{
    gd_tensor *t = e->slot[slot];
    if (!e->sharded[slot] && !gd__is_coded_for(t, param) && !gd__shape_without(t, param, without))
        return NULL;
    if (!count) return gd__new(t->storage->device, dtype, 1, &count);
    if (!e->sharded[slot]) t = cut_out(t, param, from, count);
    if (!t || t->ndim != 1 || t->size[0] != count) return NULL;
    return t->dtype == dtype ? t : gd_copy(gd_cast(t, dtype));
}

gd_status gd__share_slot(gd_link *link, gd_entry *e, int slot, gd_dtype dtype, const gd_tensor *param,
                         unsigned without, int64_t from, int64_t to)
{
    gd_ctx *ctx = link->head.ctx;
    gd_tensor *t = e->slot[slot];
    int64_t count = to - from;
    if (t && e->sharded[slot] && t->dtype == dtype && t->ndim == 1 && t->size[0] == count) return GD_OK;
    bool fresh = !t || e->fresh[slot];
    gd_scope_begin(ctx);
    if (t)
        t = shard_of_slot(e, slot, dtype, param, without, from, count);
    else if ((t = gd__new(param->storage->device, dtype, 1, &count)) && gd_fill(t, 0))
        t = NULL;
    if (t) {
        gd__own(t);
        gd__entry_put(link, e, slot, t, fresh);
        e->sharded[slot] = GD_SHARDED(without, dtype == GD_U8 && gd__state_feedback(link, e->param));
    }
    gd_scope_end(ctx);
    if (t) return GD_OK;
    return gd_error(ctx) ? gd_error(ctx)
                         : gd_fail(ctx, GD_MISMATCH, "%s: state '%s' does not fit its parameter",
                                   link->cls->name, link->cls->slots[slot].name);
}

static gd_status take_own(gd_link *link, gd_entry *e, int slot)
{
    int64_t from = 0, to = 0;
    if (e->sharded[slot] || !gd__share_of(link->optimizer, e->param, &from, &to)) return GD_OK;
    if (to - from < e->param->numel)
        return gd__share_slot(link, e, slot, e->slot[slot]->dtype, e->param, 0, from, to);
    e->sharded[slot] = GD_SHARDED(0, false);
    return GD_OK;
}

const gd_ranks gd__other_ranks = {.owned = gd__share_of,
                                  .slot_own = take_own,
                                  .slot_whole = gd__share_make_whole,
                                  .columns_whole = gd__columns_make_whole,
                                  .join = gd__share_join,
                                  .gather = gd__share_gather,
                                  .forget = gd__scatter_forget,
                                  .agree = gd__share_tell};

/* ---- lists of shards ---- */

gd_status gd__own_lists_begin(gd_own_lists *own, gd_optimizer *o, gd_tensor *const *keys, int count)
{
    *own = (gd_own_lists){.count = count, .ranks = o->shared.call, .optimizer = o};
    own->first = gd__alloc_array(o->ctx, (size_t)count, sizeof *own->first);
    if (!own->first) return GD_NOMEM;
    for (int i = 0; i < count; i++) {
        int64_t from = 0, to = 0;
        (void)gd__share_of(o, keys[i], &from, &to);
        own->first[i] = own->spans + from / GD_SPAN;
        own->spans += (keys[i]->numel + GD_SPAN - 1) / GD_SPAN;
    }
    o->ctx->own_lists = own;
    o->shared.own_elements = true;
    return GD_OK;
}

void gd__own_lists_end(gd_own_lists *own, gd_optimizer *o)
{
    o->ctx->own_lists = NULL;
    o->shared.own_elements = false;
    gd__free(o->ctx, own->first, own->first ? (size_t)own->count * sizeof *own->first : 0);
}
