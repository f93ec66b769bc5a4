/* Loading state that several ranks keep: each reads its shards, and all together know whether the file is whole. */
#include "optim/ranks/share.h"
#include "optim/state/state.h"

gd_status gd__load_parts_begin(gd_load_parts *p, gd_optimizer *o, const gd_archive *archive)
{
    *p = (gd_load_parts){.o = o};
    if (!gd__shares_state(o) || !archive->source) return GD_OK;
    p->archive = archive;
    return gd__share_own(o);
}

void gd__load_parts_free(gd_load_parts *p)
{
    gd_ctx *ctx = p->o->ctx;
    gd__free(ctx, p->part, (size_t)p->part_room * sizeof *p->part);
    gd__free(ctx, p->sum, p->sum_room * sizeof *p->sum);
}

/* Is a parameter as it is here, and of its slots one that its rule would have made?  Others are read whole. */
static bool is_shared(const gd_load_parts *p, const gd_link *link, int slot, int64_t index,
                      const gd_param *param)
{
    gd_archive_unread file;
    const gd_tensor *t = param->tensor;
    if (!param->cut || !gd__is_rule(link) || !gd__archive_unread(p->archive, index, &file)) return false;
    bool same = file.ndim == t->ndim && file.dtype != GD_U8 &&
                file.dtype == gd__slot_dtype(link, slot, t, t) && t->storage->device == gd__cpu(p->o->ctx);
    for (int i = 0; i < t->ndim && same; i++) same = file.size[i] == t->size[i];
    return same;
}

/* Room for the checksums of a tensor's chunks, which are zero; NULL: no memory. */
static uint64_t *add_part(gd_load_parts *p, int64_t index, int64_t numel)
{
    gd_ctx *ctx = p->o->ctx;
    size_t count = (size_t)((numel + GD_SHARE_BLOCK - 1) / GD_SHARE_BLOCK), need = p->sums + count;
    if (!gd__reserve(ctx, &p->part, p->parts, &p->part_room, sizeof *p->part)) return NULL;
    if (need > p->sum_room) {
        size_t room = need * 2;
        uint64_t *sum = gd__realloc(ctx, p->sum, p->sum_room * sizeof *sum, room * sizeof *sum);
        if (!sum) return NULL;
        p->sum = sum;
        p->sum_room = room;
    }
    memset(p->sum + p->sums, 0, count * sizeof *p->sum);
    p->part[p->parts++] = (struct gd_load_part){.index = index, .at = p->sums, .count = count};
    p->sums = need;
    return p->sum + need - count;
}

/* This rank's elements of a tensor that is cut; owned. */
static gd_tensor *read_shard(gd_load_parts *p, int64_t index, gd_dtype dtype, const gd_param *param)
{
    int rank = gd_world_rank(p->o->shared.share->world);
    int64_t from = param->cut[rank], count = param->cut[rank + 1] - from;
    uint64_t *sum = add_part(p, index, param->tensor->numel);
    gd__aside_begin(p->o->ctx);
    gd_tensor *t = sum ? gd__new(gd__cpu(p->o->ctx), dtype, 1, &count) : NULL;
    gd__own(t);
    gd__aside_end(p->o->ctx);
    if (t && !gd__archive_read_part(p->archive, index, from, count, t->data, sum + from / GD_SHARE_BLOCK))
        return t;
    gd__release(t);
    return NULL;
}

/* A tensor that one rank owns as a whole: all of it there, NULL elsewhere; owned. */
static gd_tensor *read_whole(gd_load_parts *p, int64_t index, gd_dtype dtype, bool own)
{
    gd_tensor *t = own ? gd_archive_get(p->archive, index) : NULL;
    if (own) return t ? gd__copy_on(t, gd__cpu(p->o->ctx)) : NULL;
    gd__aside_begin(p->o->ctx);
    t = gd__new(gd__cpu(p->o->ctx), dtype, 1, (int64_t[]){0});
    gd__own(t);
    gd__aside_end(p->o->ctx);
    return t;
}

gd_status gd__load_part(gd_load_parts *p, gd_link *link, gd_entry *e, int slot, int64_t index, bool *taken)
{
    int number = p->archive ? gd__param_index(p->o, e->param) : -1;
    *taken = number >= 0 && is_shared(p, link, slot, index, &p->o->param[number]);
    if (!*taken) return GD_OK;
    const gd_param *param = &p->o->param[number];
    int rank = gd_world_rank(p->o->shared.share->world);
    int64_t numel = param->tensor->numel;
    gd_dtype dtype = gd__slot_dtype(link, slot, e->param, e->param);
    bool whole = false;
    for (int r = 0; r < param->ranks; r++) whole = whole || param->cut[r + 1] - param->cut[r] == numel;
    gd_tensor *t = whole ? read_whole(p, index, dtype, param->cut[rank + 1] - param->cut[rank] == numel)
                         : read_shard(p, index, dtype, param);
    if (!t) return gd_error(p->o->ctx) ? gd_error(p->o->ctx) : GD_NOMEM;
    gd__release(e->slot[slot]);
    e->slot[slot] = t;
    e->sharded[slot] = GD_SHARDED(0, false);
    return GD_OK;
}

gd_status gd__load_parts_end(gd_load_parts *p, gd_status status)
{
    if (!p->archive) return status;
    p->o->shared.share->told = false;
    status = gd__join_ranks(p->o->shared.share, status, p->sum, p->sums);
    for (int i = 0; i < p->parts && !status; i++)
        status = gd__archive_check(p->archive, p->part[i].index, p->sum + p->part[i].at, p->part[i].count);
    return status;
}

/* ---- files ---- */

gd_status gd_optimizer_load_report(gd_optimizer *o, const char *path, bool strict, gd_load_report **report)
{
    if (report) *report = NULL;
    if (!o) return GD_ARGUMENT;
    bool shared = gd__shares_state(o);
    gd_archive *archive = shared ? gd__archive_open(o->ctx, path) : gd_archive_load(o->ctx, path);
    gd_status status = archive ? gd_optimizer_unpack_report(o, archive, NULL, strict, report)
                               : gd_error(o->ctx);
    if (!archive && shared) { /* the others wait for what it has read */
        o->shared.share->told = false;
        status = gd__join_ranks(o->shared.share, status, NULL, 0);
    }
    gd_archive_free(archive);
    return status;
}

gd_status gd_optimizer_load(gd_optimizer *o, const char *path, bool strict)
{
    return gd_optimizer_load_report(o, path, strict, NULL);
}
