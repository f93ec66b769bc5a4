/* What travels between the ranks of a step. */
#include "optim/plan/share.h"

#include <string.h>

#define ALONE (1 << 20) /* bytes from which on a tensor travels where it lies */

gd_status gd__share_call(gd_share *share, const gd_collective *what)
{
    gd_status status = gd__world_call(share->world, what);
    share->told = share->told || status;
    return status;
}

gd_status gd__share_tell(gd_optimizer *o, gd_status status)
{
    gd_share *share = o->share;
    /* one that cannot be made: its sheet has the error of this context */
    if (!share->told && gd_world_size(share->world) > 1)
        (void)!gd__share_call(share, &(gd_collective){.kind = (gd_collective_kind)-1, .name = "a step"});
    return status;
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
    gd_share *share = o->share;
    gd_status status = GD_OK;
    int64_t numel;
    if (gd_world_size(share->world) == 1) return GD_OK;
    for (int i = 0, end; i < count && !status; i = end) {
        gd_collective what = {.kind = GD_ALL_REDUCE, .how = share->options.reduce, .name = "gradients"};
        end = bucket_end(share, list, i, count, &numel);
        gd_scope_begin(o->ctx);
        what.tensor = list[i];
        status = end == i + 1 ? gd__share_call(share, &what)
                              : sum_packed(share, &what, list + i, end - i, numel);
        gd_scope_end(o->ctx);
    }
    return status;
}
