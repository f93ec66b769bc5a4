/* Which rank owns what of each parameter, and state of stretches. */
#include "base/narrow.h"
#include "optim/plan/share.h"
#include "tensor/elementwise.h"

#include <stdlib.h>
#include <string.h>

/* ---- who owns what ---- */

static bool has_codes(const gd_optimizer *o, const gd_link *link)
{
    bool codes = false;
    for (int i = 0; i < o->count && !codes; i++) codes = gd__state_chosen(link, o->param[i].tensor) == GD_U8;
    return codes;
}

static gd_status look_at_link(void *user, gd_link *link, const char *path)
{
    gd_optimizer *o = user;
    (void)path;
    bool whole = gd__is_rule(link) && (gd_link_spread(link) == GD_SPREAD_TENSOR || has_codes(o, link));
    o->share->by_tensor = o->share->by_tensor || whole;
    return GD_OK;
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

/* Of elements in the order of memory; those of another order than the axes' are copied for some programs. */
static bool goes_whole(const assigning *a, const gd_tensor *t)
{
    return a->o->share->by_tensor || t->numel <= GD_SHARE_BLOCK || !gd__contiguous(t);
}

static void give_whole(assigning *a, gd_param *p)
{
    int owner = least_loaded(a);
    for (int r = 0; r <= a->ranks; r++) p->cut[r] = r > owner ? p->tensor->numel : 0;
    a->load[owner] += p->tensor->numel;
}

/* As many blocks for each; what is left over for those who have least. */
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
        else if (goes_whole(a, p->tensor))
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

/* Largest first: those that come last even it out.  Few enough that an insertion sort serves. */
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
    gd_share *share = o->share;
    bool before = share->by_tensor;
    if (share->structure == o->structure) return GD_OK;
    gd_status status = gd__visit_links(o->chain, "", look_at_link, o);
    assigning a = {.o = o, .ranks = gd_world_size(share->world)};
    if (!status && before != share->by_tensor) { /* they are cut elsewhere now */
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
    int i = gd__param_index(o, param), rank = gd_world_rank(o->share->world);
    const gd_param *p = i < 0 ? NULL : &o->param[i];
    if (!p || !p->cut || p->cut[p->ranks] != p->tensor->numel) return false;
    *from = p->cut[rank];
    *to = p->cut[rank + 1];
    return true;
}

/* ---- state of stretches ---- */

/* Elements of a whole slot; new. */
static gd_tensor *cut_out(gd_tensor *whole, const gd_tensor *param, int64_t from, int64_t count)
{
    gd_tensor *t = gd__new(whole->storage->device, whole->dtype, 1, &count), *laid = whole;
    if (!t) return NULL;
    if (!gd__laid_alike(whole, param)) laid = gd__copy_laid(whole, param);
    size_t item = gd__item_size(whole);
    if (laid) memcpy(t->data, laid->data + (size_t)from * item, (size_t)count * item);
    if (laid != whole) gd__release(laid);
    return laid ? t : NULL;
}

/* What a slot that is there becomes, of the innermost scope; NULL: it does not fit, or that fails. */
static gd_tensor *stretch_of(const gd_entry *e, int slot, gd_dtype dtype, const gd_tensor *param,
                             unsigned without, int64_t from, int64_t count)
{
    gd_tensor *t = e->slot[slot];
    if (!e->apart[slot] && !gd__is_coded_for(t, param) && !gd__shape_without(t, param, without)) return NULL;
    if (!count) return gd__new(t->storage->device, dtype, 1, &count);
    if (!e->apart[slot]) t = cut_out(t, param, from, count);
    if (!t || t->ndim != 1 || t->size[0] != count) return NULL;
    return t->dtype == dtype ? t : gd_copy(gd_cast(t, dtype));
}

gd_status gd__share_slot(gd_link *link, gd_entry *e, int slot, gd_dtype dtype, const gd_tensor *param,
                         unsigned without, int64_t from, int64_t to)
{
    gd_ctx *ctx = link->head.ctx;
    gd_tensor *t = e->slot[slot];
    int64_t count = to - from;
    if (t && e->apart[slot] && t->dtype == dtype && t->ndim == 1 && t->size[0] == count) return GD_OK;
    bool fresh = !t || e->fresh[slot];
    gd_scope_begin(ctx);
    if (t)
        t = stretch_of(e, slot, dtype, param, without, from, count);
    else if ((t = gd__new(param->storage->device, dtype, 1, &count)) && gd_fill(t, 0))
        t = NULL;
    if (t) {
        gd__own(t);
        gd__entry_put(link, e, slot, t, fresh);
        e->apart[slot] = GD_APART(without, dtype == GD_U8 && gd__state_feedback(link, e->param));
    }
    gd_scope_end(ctx);
    if (t) return GD_OK;
    return gd_error(ctx) ? gd_error(ctx)
                         : gd_fail(ctx, GD_MISMATCH, "%s: state '%s' does not fit its parameter",
                                   link->cls->name, link->cls->slots[slot].name);
}
