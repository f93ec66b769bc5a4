/* Messages between the ranks of a step. */
#include "optim/ranks/share.h"

#include <stdio.h>
#include <string.h>

#define ALONE  (1 << 16) /* bytes from which a tensor is sent without a copy */
#define FLYING 4         /* buckets under way at a time */

gd_status gd__share_call(gd_share *share, const gd_collective *what)
{
    gd_status status = gd__world_call(share->world, what);
    share->told = share->told || status;
    return status;
}

gd_status gd__share_tell(gd_optimizer *o, gd_status status)
{
    gd_share *share = o->shared.share;
    if (!share->told && gd_world_size(share->world) > 1) (void)!gd_world_agree(share->world, status);
    share->told = true;
    return status;
}

const char *gd__share_name(const gd_optimizer *o, const char *what, char name[GD_SHARE_NAME])
{
    (void)snprintf(name, GD_SHARE_NAME, "%.12s of %s", what, o->shared.share->about);
    return name;
}

/* ---- sums ---- */

static size_t bytes_of(const gd_tensor *t) { return (size_t)t->numel * gd__item_size(t); }

/* Small, and its memory can be read as it lies. */
static bool can_be_packed(const gd_tensor *t)
{
    return bytes_of(t) < ALONE && gd__contiguous(t) && t->storage->device == gd__cpu(t->head.ctx);
}

/* Which from the i-th on travel together; their elements. */
static int bucket_end(const gd_share *share, gd_tensor *const *list, int i, int count, int64_t *numel)
{
    size_t most = (size_t)share->options.bucket, item = gd__item_size(list[i]);
    int end = i + 1;
    *numel = list[i]->numel;
    while (end < count && can_be_packed(list[i]) && can_be_packed(list[end]) &&
           list[end]->dtype == list[i]->dtype && (size_t)(*numel + list[end]->numel) * item <= most)
        *numel += list[end++]->numel;
    return end;
}

static gd_status sum_packed(gd_share *share, gd_collective *what, gd_tensor *const *list, int count,
                            int64_t numel)
{
    what->tensor = gd__new(gd__cpu(list[0]->head.ctx), list[0]->dtype, 1, &numel);
    char *at = what->tensor ? what->tensor->data : NULL;
    for (int i = 0; at && i < count; at += bytes_of(list[i++])) memcpy(at, list[i]->data, bytes_of(list[i]));
    gd_status status = gd__share_call(share, what);
    at = status ? NULL : what->tensor->data;
    for (int i = 0; at && i < count; at += bytes_of(list[i++])) {
        memcpy(list[i]->data, at, bytes_of(list[i]));
        gd__touch(list[i]);
    }
    return status;
}

gd_status gd__share_sum(gd_optimizer *o, gd_tensor *const *list, int count)
{
    gd_share *share = o->shared.share;
    gd_status status = GD_OK;
    int64_t numel;
    char name[GD_SHARE_NAME];
    if (gd_world_size(share->world) == 1) return GD_OK;
    (void)gd__share_name(o, "gradients", name);
    for (int i = 0, end; i < count && !status; i = end) {
        gd_collective what = {.kind = GD_ALL_REDUCE, .how = share->options.reduce, .name = name};
        end = bucket_end(share, list, i, count, &numel);
        gd_scope_begin(o->ctx);
        what.tensor = list[i];
        status = end == i + 1 ? gd__share_call(share, &what)
                              : sum_packed(share, &what, list + i, end - i, numel);
        gd_scope_end(o->ctx);
    }
    return status;
}

/* ---- what is in memory, as tensors for collectives ---- */

gd_tensor *gd__share_memory(gd_device *device, gd_dtype dtype, void *data, int64_t count)
{
    gd_tensor *t = device ? gd__new_over(device, "world", dtype, 1, &count) : NULL;
    return t && !gd__storage_over(t, device, data, false, NULL, NULL) ? t : NULL;
}

gd_status gd__share_move(gd_place to, gd_place from, gd_dtype dtype, int64_t count)
{
    gd_ctx *ctx = to.device->ctx;
    const gd_device *cpu = gd__cpu(ctx);
    if (!count) return GD_OK;
    if (to.device == cpu && from.device == cpu) {
        memcpy(to.data, from.data, (size_t)count * gd_dtype_size(dtype));
        return GD_OK;
    }
    gd_scope_begin(ctx);
    gd_tensor *there = gd__share_memory(to.device, dtype, to.data, count);
    const gd_tensor *here = gd__share_memory(from.device, dtype, from.data, count);
    gd_status status = there && here ? gd__copy_into(there, here) : gd_error(ctx);
    gd_scope_end(ctx);
    return status;
}

gd_place gd__share_place(const gd_tensor *t, int64_t first)
{
    return (gd_place){.device = t->storage->device, .data = t->data + (size_t)first * gd__item_size(t)};
}

/* As bits: a number and zeros give the number, whatever it is. */
gd_status gd__share_join(gd_optimizer *o, double *numbers, int64_t count)
{
    return gd__share_join_partial(o->shared.share, numbers, count);
}

gd_status gd__share_join_partial(void *user, double *numbers, int64_t count)
{
    gd_share *share = user;
    gd_ctx *ctx = gd_world_ctx(share->world);
    gd_collective what = {.kind = GD_ALL_REDUCE, .name = "partial sums"};
    gd_scope_begin(ctx);
    what.tensor = gd__share_memory(gd__cpu(ctx), GD_I64, numbers, count);
    gd_status status = gd__share_call(share, &what);
    gd_scope_end(ctx);
    return status;
}

/* ---- gathering ---- */

/* Some neighbours of a list, of which each rank has a shard of each: where they lie, or packed rank by rank. */
typedef struct bucket {
    gd_exchange *work;
    gd_tensor *const *key, *const *tensor;
    int count;
    gd_tensor *bytes;  /* what travels; all of this is there before the first leaves, and is used again */
    int64_t *cuts;     /* [ranks + 1] of them */
    gd_tensor *packed; /* room for those that do not lie in one place */
} bucket;

/* From the first to the last of a list, also while the last are still made.  Until the first bucket has come nothing else leaves: by
 * then every rank is here.  From there on parameters change, and what needs memory has it: only who moves the bytes can fail. */
typedef struct gathering {
    gd_optimizer *o;
    gd_tensor *const *key, *const *tensor;
    int total, next; /* tensors; the one that the next bucket begins with */
    bucket flying[FLYING];
    int first, count, ranks, rank;
    gd_status status;
} gathering;

static const int64_t *cuts_of(const gd_optimizer *o, const gd_tensor *key)
{
    return o->param[gd__param_index(o, key)].cut;
}

/* Between tensors and what is packed: what this rank has goes there, what others have comes from there. */
static gd_status copy_packed(const gathering *g, const bucket *b, bool unpack)
{
    gd_place at = gd__share_place(b->packed, 0);
    gd_status status = GD_OK;
    for (int r = 0; r < g->ranks; r++)
        for (int i = 0; i < b->count; i++) {
            const int64_t *cut = cuts_of(g->o, b->key[i]);
            const gd_tensor *t = b->tensor[i];
            int64_t count = cut[r + 1] - cut[r];
            gd_place there = gd__share_place(t, cut[r]);
            if (!status && count && (r == g->rank) != unpack)
                status = gd__share_move(unpack ? there : at, unpack ? at : there, t->dtype, count);
            at.data += (size_t)count * gd__item_size(t);
        }
    return status;
}

static void land(gathering *g)
{
    bucket *b = &g->flying[g->first++ % FLYING];
    gd_status status = b->work ? gd_world_wait(b->work) : gd_error(g->o->ctx);
    g->count--;
    g->o->shared.share->told = g->o->shared.share->told || status;
    if (!status && b->count > 1) status = copy_packed(g, b, true);
    if (!g->status) g->status = status;
}

static void cut_bucket(const gathering *g, bucket *b)
{
    memset(b->cuts, 0, (size_t)(g->ranks + 1) * sizeof *b->cuts);
    for (int i = 0; i < b->count; i++) {
        const int64_t *cut = cuts_of(g->o, b->key[i]);
        int64_t item = (int64_t)gd__item_size(b->tensor[i]);
        for (int r = 0; r < g->ranks; r++) b->cuts[r + 1] += (cut[r + 1] - cut[r]) * item;
    }
    for (int r = 0; r < g->ranks; r++) b->cuts[r + 1] += b->cuts[r];
}

static void fly(gathering *g, int end, size_t bytes)
{
    bucket *b = &g->flying[(g->first + g->count++) % FLYING];
    b->key = g->key + g->next;
    b->tensor = g->tensor + g->next;
    b->count = end - g->next;
    cut_bucket(g, b);
    gd_status failed = b->count > 1 ? copy_packed(g, b, false) : GD_OK;
    b->bytes->data = b->bytes->storage->data = b->count > 1 ? b->packed->data : b->tensor[0]->data;
    b->bytes->numel = b->bytes->size[0] = (int64_t)bytes;
    b->bytes->storage->bytes = bytes;
    gd_collective what = {.kind = GD_ALL_GATHER, .cuts = b->cuts, .out = b->bytes, .name = "shards"};
    what.failed = failed;
    b->work = gd_world_start(g->o->shared.share->world, &what);
}

/* The end of the bucket that begins with the next tensor; its bytes. */
static int next_bucket_end(const gathering *g, size_t *bytes)
{
    int end = g->next + 1;
    *bytes = bytes_of(g->tensor[g->next]);
    while (*bytes < ALONE && end < g->total && bytes_of(g->tensor[end]) < ALONE &&
           *bytes + bytes_of(g->tensor[end]) <= (size_t)g->o->shared.share->options.bucket)
        *bytes += bytes_of(g->tensor[end++]);
    return end;
}

/* Allocates a bucket; packed: bytes of its buffer, 0 if nothing is packed. */
static gd_status equip(const gathering *g, bucket *b, size_t packed)
{
    gd_device *device = g->tensor[0]->storage->device;
    b->cuts = gd__alloc_array(g->o->ctx, (size_t)g->ranks + 1, sizeof *b->cuts);
    if (packed) b->packed = gd__new(device, GD_U8, 1, (int64_t[]){(int64_t)packed});
    b->bytes = gd__share_memory(device, GD_U8, NULL, 0);
    return b->cuts && b->bytes && (b->packed || !packed) ? GD_OK : GD_NOMEM;
}

static void end_equipment(const gathering *g)
{
    (void)!gd__world_reserve(g->o->shared.share->world, 0);
    for (int i = 0; i < FLYING; i++) {
        const bucket *b = &g->flying[i];
        gd__free(g->o->ctx, b->cuts, b->cuts ? (size_t)(g->ranks + 1) * sizeof *b->cuts : 0);
    }
}

/* Allocates all buckets in the order in which they are sent. */
static gd_status equip_all(gathering *g)
{
    size_t packed[FLYING] = {0}, bytes;
    int buckets = 0;
    for (int end; g->next < g->total; g->next = end) {
        end = next_bucket_end(g, &bytes);
        size_t *most = &packed[buckets % FLYING];
        if (end > g->next + 1 && bytes > *most) *most = bytes;
        buckets += bytes > 0;
    }
    g->next = 0;
    if (buckets > FLYING) buckets = FLYING;
    gd_status status = gd__world_reserve(g->o->shared.share->world, buckets);
    for (int i = 0; i < buckets && !status; i++) status = equip(g, &g->flying[i], packed[i]);
    return status;
}

/* Is there room to send a bucket?  Without `waits` only a bucket that has arrived makes room. */
static bool has_room(gathering *g, bool waits)
{
    const bucket *oldest = &g->flying[g->first % FLYING];
    if (g->count < (g->first ? FLYING : 1)) return true;
    if (!waits && oldest->work && !gd__exchange_is_over(oldest->work)) return false;
    land(g);
    return !g->status;
}

/* Sends the first `made` tensors: all of them, or as many as can be sent without waiting for other ranks. */
static void fly_made(gathering *g, int made, bool waits)
{
    while (g->next < made && !g->status) {
        size_t bytes;
        int end = next_bucket_end(g, &bytes);
        if (end > made || (bytes && !has_room(g, waits))) return;
        if (bytes) fly(g, end, bytes);
        g->next = end;
    }
}

static void some_are_made(void *user, int made) { fly_made(user, made, false); }

/* Nothing is written before all ranks have arrived, so an error of one rank before this leaves the parameters of all unchanged.  If
 * the program joins sums of elements first, that is such a point already. */
static gd_status all_are_here(gd_optimizer *o, const gd_exec_set *set)
{
    bool sums = false;
    char name[GD_SHARE_NAME];
    for (int i = 0; i < set->tables; i++) sums = sums || set->table[i].p->reductions;
    if (sums) return GD_OK;
    return gd__share_call(
        o->shared.share, &(gd_collective){.kind = GD_BARRIER, .name = gd__share_name(o, "the update", name)});
}

/* Does an incomplete run leave parameters partially updated? */
static void check_partial_update(gathering *g)
{
    gd_optimizer *o = g->o;
    for (int i = 0; i < g->total && !o->shared.partial; i++) o->shared.partial = g->tensor[i] == g->key[i];
}

gd_status gd__share_run(gd_optimizer *o, gd_tensor *const *keys, gd_tensor *const *list, int count,
                        gd_exec_set *set, gd_exec_run *run)
{
    gathering g = {.o = o, .key = keys, .tensor = list, .total = count};
    g.ranks = gd_world_size(o->shared.share->world);
    g.rank = gd_world_rank(o->shared.share->world);
    gd_scope_begin(o->ctx);
    g.status = equip_all(&g);
    bool made = !g.status;
    if (set && made) {
        run->ready = some_are_made;
        run->user = &g;
        g.status = all_are_here(o, set);
        if (!g.status) g.status = gd__execs_run(set, run);
        made = !g.status;
    }
    fly_made(&g, count, true);
    while (g.count) land(&g);
    if (set && made && g.status) check_partial_update(&g);
    end_equipment(&g);
    gd_scope_end(o->ctx);
    return g.status;
}

gd_status gd__share_gather(gd_optimizer *o, gd_tensor *const *keys, gd_tensor *const *list, int count)
{
    return gd__share_run(o, keys, list, count, NULL, NULL);
}

/* ---- state in one piece ---- */

/* Bytes of the whole that are each rank's: shards, or all of it. */
static void cut_slot(const gd_param *p, const gd_tensor *whole, int64_t *cuts)
{
    int64_t bytes = (int64_t)bytes_of(whole), numel = p->tensor->numel;
    for (int r = 0; r <= p->ranks; r++)
        cuts[r] = p->cut[r] == numel ? bytes : p->cut[r] * (int64_t)gd__item_size(whole);
}

/* This rank's part of it, in its place. */
static gd_status place_own(gd_tensor *whole, const gd_tensor *slot, const int64_t *cuts, int rank)
{
    int64_t bytes = cuts[rank + 1] - cuts[rank];
    if (gd__same_shape(whole, slot)) return gd__copy_into(whole, slot);
    gd_place there = {.device = whole->storage->device, .data = whole->data + cuts[rank]};
    return gd__share_move(there, gd__share_place(slot, 0), GD_U8, bytes);
}

static gd_status gather_slot(gd_optimizer *o, const gd_entry *e, int slot, int64_t *cuts, gd_tensor **out)
{
    gd_share *share = o->shared.share;
    const gd_param *p = &o->param[gd__param_index(o, e->param)];
    const gd_tensor *own = e->slot[slot];
    unsigned sharded = e->sharded[slot];
    gd_tensor *whole = gd__slot_new(p->tensor, own->dtype, (sharded & 0x7fff) >> 1, sharded >> 15);
    gd_collective what = {.kind = GD_ALL_GATHER, .name = p->name};
    if (whole && cuts) {
        cut_slot(p, whole, cuts);
        if (!place_own(whole, own, cuts, gd_world_rank(share->world)))
            what.out = gd__share_memory(whole->storage->device, GD_U8, whole->data, (int64_t)bytes_of(whole));
        if (what.out) what.cuts = cuts;
    }
    *out = whole;
    return gd__share_call(share, &what); /* without a result: reports the failure to the others */
}

gd_status gd__share_whole(gd_optimizer *o, const gd_entry *e, int slot, gd_tensor **whole)
{
    if (e->slot[slot]->storage->device != e->param->storage->device)
        return gd_fail(
            o->ctx, GD_NOT_IMPLEMENTED,
            "state that is kept by several ranks cannot follow its parameter to a different device: end it with "
            "gd_optimizer_distribute before");
    size_t size = (size_t)(gd_world_size(o->shared.share->world) + 1) * sizeof(int64_t);
    int64_t *cuts = gd__alloc(o->ctx, size);
    gd_status status = gather_slot(o, e, slot, cuts, whole);
    gd__free(o->ctx, cuts, size);
    return status;
}

gd_status gd__share_make_whole(gd_link *link, gd_entry *e, int slot)
{
    gd_optimizer *o = link->optimizer;
    if (!o->stepping && !o->shared.share->together)
        return gd_fail(o->ctx, GD_STATE,
                       "%s: %s%s%s is kept by several ranks, a part each; gd_optimizer_save has all of it",
                       link->cls->name, slot < 0 ? "what it knows of a parameter" : "state '",
                       slot < 0 ? "" : link->cls->slots[slot].name, slot < 0 ? "" : "'");
    if (e->parted) return gd__share_entry(link, e, true);
    gd_tensor *whole = NULL;
    gd_scope_begin(o->ctx);
    gd_status status = gd__share_whole(o, e, slot, &whole);
    if (!status) {
        gd__own(whole);
        gd__entry_put(link, e, slot, whole, e->fresh[slot]);
    }
    gd_scope_end(o->ctx);
    return status;
}

static gd_status make_link_whole(void *user, gd_link *link, const char *path)
{
    (void)user, (void)path;
    gd_status status = GD_OK;
    for (int i = 0; i < link->globals && !status; i++)
        if (link->global[i]->columns) status = gd__columns_make_whole(link, link->global[i]);
    for (int i = 0; i < link->entries && !status; i++) {
        gd_entry *e = link->entry[i];
        if (e->parted) status = gd__share_entry(link, e, true);
        for (int k = 0; k < link->cls->slot_count && !status; k++)
            if (e->sharded[k]) status = gd__share_make_whole(link, e, k);
    }
    return status;
}

gd_status gd__share_make_all_whole(gd_optimizer *o)
{
    bool before = o->shared.share->together;
    o->shared.share->together = true;
    gd_status status = gd__visit_links(o->chain, "", make_link_whole, NULL);
    o->shared.share->together = before;
    return status;
}
