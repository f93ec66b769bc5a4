/* Sums of gradients over the ranks during the backward pass; each rank keeps its shards.
 *
 *     backward   leaf d is complete   leaf c, b: the bucket is full      leaf a    | step
 *     waiting    [ d ]                [ d c b ] -> packed rank by rank             |
 *     under way                       reduce_scatter ............................ wait
 *     kept                                                                         shards of d, c, b, a
 *
 * A gradient is taken from its parameter as soon as it is complete; at most one bucket waits, and at most two are being sent.  A tensor
 * larger than a bucket is sent in portions: the k-th part of every rank's shard. A tensor with a long shard on every rank is sent alone and in place,
 * without packing. */
#include "autograd/ready.h"
#include "optim/ranks/share.h"
#include "tensor/elementwise.h"
#include "tensor/shape.h"

#include <stdio.h>

#define FLYING 2
#define MOST   64        /* tensors of a bucket */
#define LONG   (1 << 16) /* bytes of a shard that is worth a message of its own */

/* This rank's contribution to a parameter's gradient: the sum over each subtree of its microbatches, with the strides of the parameter. */
typedef struct portion {
    int param;       /* its number */
    gd_tensor *grad; /* the only one, owned; or */
    gd_tensor **sum; /* one per subtree, owned, in the caller's list; both NULL: they could not be computed */
    int part, parts;
    bool adds; /* to the shard of an earlier backward pass */
} portion;

typedef struct bucket {
    portion item[MOST];
    int count;
    gd_dtype dtype;                /* of the gradients */
    gd_microbatches *microbatches; /* the sums, packed */
    gd_tensor *own;                /* this rank's shard of the sum over all; owned */
    int64_t *cuts;
    gd_exchange *work;
} bucket;

struct gd_scatter {
    gd_ready ready;
    bucket waiting, flying[FLYING];
    int first, count;
    int64_t bytes, most; /* in `waiting`, and its limit */
    int64_t total;       /* microbatches: one for each rank, or those of a batch */
    int sums;            /* of a portion: subtrees of this rank */
    bool batch;          /* all ranks start the same number of collectives, even after an error */
    bool lent;           /* the gradients are not written until all sums have arrived */
    gd_status failed;    /* the error, which those collectives report to the other ranks */
    gd_tensor **list;
    int room;
};

static gd_scatter *scatter_of(const gd_optimizer *o) { return o->shared.share->scatter; }

/* ---- ranges of a portion ---- */

static void range_of(const gd_optimizer *o, const portion *q, int rank, int64_t *from, int64_t *to)
{
    const int64_t *cut = o->param[q->param].cut;
    int64_t length = cut[rank + 1] - cut[rank];
    *from = cut[rank] + length * q->part / q->parts;
    *to = cut[rank] + length * (q->part + 1) / q->parts;
}

static int64_t cut_portions(const gd_optimizer *o, const bucket *b, int ranks)
{
    int64_t from, to;
    b->cuts[0] = 0;
    for (int r = 0; r < ranks; r++) {
        b->cuts[r + 1] = b->cuts[r];
        for (int i = 0; i < b->count; i++) {
            range_of(o, &b->item[i], r, &from, &to);
            b->cuts[r + 1] += to - from;
        }
    }
    return b->cuts[ranks];
}

static gd_tensor *sum_of(const portion *q, int k) { return q->sum ? q->sum[k] : q->grad; }

/* The k-th sum of each. */
static gd_status pack(const gd_optimizer *o, const bucket *b, int ranks, int k, const gd_tensor *all)
{
    gd_status status = GD_OK;
    int64_t at = 0, from, to;
    for (int r = 0; r < ranks; r++)
        for (int i = 0; i < b->count && !status; i++) {
            range_of(o, &b->item[i], r, &from, &to);
            status = gd__share_move(gd__share_place(all, at), gd__share_place(sum_of(&b->item[i], k), from),
                                    all->dtype, to - from);
            at += to - from;
        }
    return status;
}

/* ---- a bucket ---- */

static void drop(const gd_scatter *s, portion *q)
{
    gd__release(q->grad);
    for (int k = 0; q->sum && k < s->sums; k++) {
        gd__release(q->sum[k]);
        q->sum[k] = NULL;
    }
    q->grad = NULL;
    q->sum = NULL;
}

static void empty(gd_optimizer *o, bucket *b)
{
    for (int i = 0; i < b->count; i++) drop(scatter_of(o), &b->item[i]);
    gd_microbatches_free(b->microbatches);
    gd__release(b->own);
    gd__free(o->ctx, b->cuts,
             b->cuts ? (size_t)(gd_world_size(o->shared.share->world) + 1) * sizeof *b->cuts : 0);
    *b = (bucket){0};
}

/* Copies or adds this rank's shard of a sum to own_grad. */
static gd_status keep(gd_optimizer *o, const portion *q, gd_place sum)
{
    int64_t from, to, first = o->param[q->param].cut[gd_world_rank(o->shared.share->world)];
    range_of(o, q, gd_world_rank(o->shared.share->world), &from, &to);
    gd_tensor *kept = o->param[q->param].own_grad;
    gd_place at = gd__share_place(kept, from - first);
    if (from == to || at.data == sum.data) return GD_OK;
    if (!q->adds) return gd__share_move(at, sum, kept->dtype, to - from);
    gd_scope_begin(o->ctx);
    gd_tensor *a = gd__share_memory(at.device, kept->dtype, at.data, to - from);
    gd_tensor *b = gd__share_memory(sum.device, kept->dtype, sum.data, to - from);
    if (b && sum.device != at.device) b = gd_to_device(b, at.device);
    gd_status status = a && b ? gd_add_into(a, b, 1) : gd_error(o->ctx);
    gd_scope_end(o->ctx);
    return status;
}

static gd_status land(gd_optimizer *o)
{
    gd_scatter *s = scatter_of(o);
    bucket *b = &s->flying[s->first++ % FLYING];
    s->count--;
    gd_status status = b->work ? gd_world_wait(b->work) : gd_error(o->ctx);
    o->shared.share->told = o->shared.share->told || status;
    if (s->batch && status && !s->failed) s->failed = status;
    int64_t at = 0;
    for (int i = 0; i < b->count && !status; i++) {
        int64_t from, to;
        range_of(o, &b->item[i], gd_world_rank(o->shared.share->world), &from, &to);
        status = keep(o, &b->item[i], gd__share_place(b->own, at));
        at += to - from;
    }
    empty(o, b);
    return status;
}

/* Can messages read the sums in place, without packing?  They can if the bucket has one whole tensor on the device of the messages
 * that nothing else refers to, or that is not written meanwhile. */
static bool can_read(const gd_scatter *s, const bucket *b)
{
    const portion *q = &b->item[0];
    if (b->count > 1 || q->parts > 1) return false;
    if (b->microbatches && s->sums && sum_of(q, 0)->storage->device != b->microbatches->at) return false;
    for (int k = 0; k < s->sums; k++) {
        const gd_tensor *t = sum_of(q, k);
        if (!s->lent && (t->head.refs > 1 || t->storage->refs > 1)) return false;
    }
    return true;
}

/* The k-th sums, in place or packed rank by rank; owned. */
static gd_tensor *sums_of(const gd_optimizer *o, const bucket *b, int k, int64_t numel, bool read)
{
    gd_tensor *all;
    if (read) {
        gd__retain(all = sum_of(&b->item[0], k));
        return all;
    }
    gd__own(all = gd__new(b->microbatches->at, b->microbatches->partial, 1, &numel));
    if (!all || !pack(o, b, gd_world_size(o->shared.share->world), k, all)) return all;
    gd__release(all);
    return NULL;
}

/* Memory for this rank's shard of the sum: own_grad itself, or a buffer; owned. */
static gd_tensor *room_for_own(const gd_optimizer *o, const bucket *b, int64_t own)
{
    const portion *q = &b->item[0];
    gd_tensor *kept = o->param[q->param].own_grad;
    bool straight = b->count == 1 && q->parts == 1 && !q->adds && kept->dtype == b->dtype &&
                    gd__contiguous(kept) && kept->storage->device == b->microbatches->at;
    gd_tensor *room = straight ? gd__reshape(kept, 1, &own) : gd__new(b->microbatches->at, b->dtype, 1, &own);
    gd__own(room);
    return room;
}

/* The sums of a bucket and room for this rank's shard. */
static gd_status load(gd_optimizer *o, bucket *b)
{
    const gd_scatter *s = scatter_of(o);
    int ranks = gd_world_size(o->shared.share->world), rank = gd_world_rank(o->shared.share->world),
        packed = 0;
    gd_tensor *all[GD_MOST_SUBTREES];
    b->cuts = gd__alloc_array(o->ctx, (size_t)ranks + 1, sizeof *b->cuts);
    if (!b->cuts) return GD_NOMEM;
    int64_t numel = cut_portions(o, b, ranks), own = b->cuts[rank + 1] - b->cuts[rank];
    b->microbatches = gd__microbatches_of(o->shared.share->world, b->dtype,
                                          o->param[b->item[0].param].tensor->storage->device, 1, &numel,
                                          s->total);
    gd__aside_begin(o->ctx);
    bool read = can_read(s, b);
    b->own = b->microbatches ? room_for_own(o, b, own) : NULL;
    for (; b->own && packed < s->sums; packed++)
        if (!(all[packed] = sums_of(o, b, packed, numel, read))) break;
    gd__aside_end(o->ctx);
    if (b->own && packed == s->sums) {
        gd__microbatches_fill(b->microbatches, all);
        return GD_OK;
    }
    while (packed > 0) gd__release(all[--packed]);
    return gd_error(o->ctx) ? gd_error(o->ctx) : GD_NOMEM;
}

static bool is_there(const bucket *b)
{
    for (int i = 0; i < b->count; i++)
        if (!b->item[i].grad && !b->item[i].sum) return false;
    return true;
}

/* Starts the collective of a bucket, whose portions stay the caller's.  A rank that has failed starts it too, to report its error. */
static gd_status fly(gd_optimizer *o, const bucket *from)
{
    gd_scatter *s = scatter_of(o);
    gd_status status = s->count == FLYING ? land(o) : GD_OK;
    if (status && !s->batch) return status;
    bucket *b = &s->flying[(s->first + s->count++) % FLYING];
    *b = *from;
    if (!s->failed && (!is_there(b) || load(o, b)))
        s->failed = gd_error(o->ctx) ? gd_error(o->ctx) : GD_NOMEM;
    char name[120];
    (void)snprintf(name, sizeof name, "%.80s of optimizer %d", o->param[b->item[0].param].name,
                   o->shared.share->number);
    gd_collective what = {.kind = GD_REDUCE_SCATTER, .name = name};
    if (s->failed)
        what.failed = s->failed;
    else {
        what.cuts = b->cuts;
        what.microbatches = b->microbatches;
        what.out = b->own;
    }
    for (int i = 0; i < b->count; i++) b->item[i].grad = NULL, b->item[i].sum = NULL;
    b->work = gd_world_start(o->shared.share->world, &what);
    if (!s->batch) s->failed = GD_OK;
    return GD_OK;
}

static int64_t bytes_of(const gd_optimizer *o, int param, gd_dtype dtype)
{
    return o->param[param].tensor->numel * (int64_t)gd_dtype_size(dtype);
}

/* One tensor alone, in portions if it is larger than a bucket. */
static gd_status fly_portions(gd_optimizer *o, portion q, gd_dtype dtype)
{
    gd_scatter *s = scatter_of(o);
    gd_status status = GD_OK;
    q.parts = (int)((bytes_of(o, q.param, dtype) + s->most - 1) / s->most);
    for (q.part = 0; q.part < q.parts && !status; q.part++)
        status = fly(o, &(bucket){.item = {q}, .count = 1, .dtype = dtype});
    drop(s, &q);
    return status;
}

static gd_status fly_waiting(gd_optimizer *o)
{
    gd_scatter *s = scatter_of(o);
    gd_status status = s->waiting.count ? fly(o, &s->waiting) : GD_OK;
    empty(o, &s->waiting);
    s->bytes = 0;
    return status;
}

/* Portions are sent in the order of the calls. Consumed. */
static gd_status give(gd_optimizer *o, portion q, gd_dtype dtype)
{
    gd_scatter *s = scatter_of(o);
    int64_t bytes = bytes_of(o, q.param, dtype);
    bool alone = bytes > s->most || bytes >= (int64_t)LONG * gd_world_size(o->shared.share->world);
    bool fits = !alone && s->bytes + bytes <= s->most && s->waiting.count < MOST &&
                (!s->waiting.count || s->waiting.dtype == dtype);
    gd_status status = fits ? GD_OK : fly_waiting(o);
    if (!status && alone) return fly_portions(o, q, dtype);
    if (status) {
        drop(s, &q);
        return status;
    }
    s->waiting.item[s->waiting.count++] = q;
    s->waiting.dtype = dtype;
    s->bytes += bytes;
    return GD_OK;
}

/* ---- a gradient is complete ---- */

gd_tensor *gd__partial_of(gd_tensor *grad, const gd_tensor *param, bool shared)
{
    gd_dtype partial = gd__partial_dtype(grad->dtype);
    bool own = shared || (grad->head.refs == 1 && grad->storage->refs == 1);
    if (own && grad->dtype == partial && gd__laid_alike(grad, param)) return grad;
    gd_ctx *ctx = param->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *t = gd__new_laid(param, partial);
    if (t && gd__copy_into(t, grad)) t = NULL;
    gd__own(t);
    gd__aside_end(ctx);
    gd__release(grad);
    return t;
}

/* Makes own_grad, this rank's shard; shaped like the parameter if this rank owns all of it. */
static gd_status make_kept(gd_optimizer *o, gd_param *p, gd_dtype dtype)
{
    int rank = gd_world_rank(o->shared.share->world);
    int64_t own = p->cut[rank + 1] - p->cut[rank];
    if (p->own_grad && p->own_grad->dtype == dtype && p->own_grad->head.refs == 1 &&
        p->own_grad->storage->device == p->tensor->storage->device)
        return GD_OK;
    gd__aside_begin(o->ctx);
    gd_tensor *t = own == p->tensor->numel ? gd__new_laid(p->tensor, dtype)
                                           : gd__new(p->tensor->storage->device, dtype, 1, &own);
    gd__own(t);
    gd__aside_end(o->ctx);
    if (!t) return gd_error(o->ctx);
    gd__release(p->own_grad);
    p->own_grad = t;
    p->summed = false;
    o->ctx->changes++; /* kernels refer to it by its address */
    return GD_OK;
}

static gd_status take_gradient(void *user, gd_tensor *leaf)
{
    gd_optimizer *o = user;
    int index = gd__param_index(o, leaf);
    if (index < 0 || !leaf->grad) return GD_OK;
    gd_status status = gd__share_own(o);
    gd_param *p = &o->param[index];
    if (!status) status = make_kept(o, p, leaf->grad->dtype);
    if (status) return status;
    portion q = {.param = index, .parts = 1, .adds = p->summed};
    gd_dtype dtype = leaf->grad->dtype;
    gd__retain(leaf->grad);
    if (!(q.grad = gd__partial_of(leaf->grad, leaf, true))) return gd_error(o->ctx);
    gd__put_grad(leaf, NULL);
    p->summed = true;
    return give(o, q, dtype);
}

/* ---- steps ---- */

static gd_status land_all(gd_optimizer *o, gd_status status)
{
    while (scatter_of(o)->count) {
        gd_status landed = land(o);
        if (!status) status = landed;
    }
    return status;
}

/* Zeros for a parameter without a gradient on any rank. */
static gd_status zeros_for(gd_optimizer *o, gd_param *p)
{
    gd_status status = make_kept(o, p, p->tensor->dtype);
    return status ? status : gd_fill(p->own_grad, 0);
}

/* Waits for all collectives; then *list has this rank's shards, borrowed. */
static gd_status land_list(gd_optimizer *o, gd_tensor *const *params, int count, gd_status status,
                           gd_tensor *const **list)
{
    gd_scatter *s = scatter_of(o);
    if (!status || s->batch) status = fly_waiting(o);
    status = land_all(o, status);
    if (!status && s->room < count) {
        gd_tensor **more = gd__realloc(o->ctx, s->list, (size_t)s->room * sizeof *more,
                                       (size_t)count * sizeof *more);
        if (!more) return GD_NOMEM;
        s->list = more;
        s->room = count;
    }
    for (int i = 0; i < count && !status; i++) {
        gd_param *p = &o->param[gd__param_index(o, params[i])];
        if (!p->summed) status = zeros_for(o, p);
        s->list[i] = p->own_grad;
    }
    *list = s->list;
    return status;
}

gd_status gd__scatter_take(gd_optimizer *o, gd_tensor *const *params, int count, gd_tensor *const **list)
{
    gd_status status = GD_OK;
    scatter_of(o)->lent = true;
    for (int i = 0; i < count && !status; i++)
        status = take_gradient(o, params[i]); /* gradients that the caller set */
    status = land_list(o, params, count, status, list);
    scatter_of(o)->lent = false;
    return status;
}

/* Memory for this rank's shard: the gradient's own if it has the parameter's strides and stays for the step. */
static gd_status make_kept_in(gd_optimizer *o, gd_param *p, gd_tensor *grad, bool stays)
{
    int rank = gd_world_rank(o->shared.share->world);
    int64_t first = p->cut[rank], own = p->cut[rank + 1] - first;
    bool in_place = stays && gd__laid_alike(grad, p->tensor) &&
                    grad->storage->device == p->tensor->storage->device;
    gd__release(p->own_grad); /* may be a part of the last one */
    p->own_grad = NULL;
    if (!in_place) return make_kept(o, p, grad->dtype);
    gd__aside_begin(o->ctx);
    gd_tensor *t = own == p->tensor->numel ? grad
                                           : gd__share_memory(grad->storage->device, grad->dtype,
                                                              gd__share_place(grad, first).data, own);
    if (t == grad)
        gd__retain(t);
    else
        gd__own(t);
    gd__aside_end(o->ctx);
    p->own_grad = t;
    if (own) gd__touch(grad);
    return t ? GD_OK : gd_error(o->ctx);
}

static gd_status add_gradient(gd_optimizer *o, int index, gd_tensor *grad, bool stays)
{
    gd_param *p = &o->param[index];
    portion q = {.param = index, .parts = 1};
    gd_dtype dtype = grad->dtype;
    gd_status status = make_kept_in(o, p, grad, stays);
    if (status) return status;
    gd__retain(grad);
    if (!(q.grad = gd__partial_of(grad, p->tensor, true))) return gd_error(o->ctx);
    p->summed = true;
    return give(o, q, dtype);
}

gd_status gd__scatter_sums(gd_optimizer *o, gd_tensor *const *params, gd_tensor *const *grads, int count,
                           bool stay, gd_tensor *const **list)
{
    gd_status status = GD_OK;
    scatter_of(o)->lent = true;
    for (int i = 0; i < count && !status; i++)
        status = add_gradient(o, gd__param_index(o, params[i]), grads[i], stay);
    status = land_list(o, params, count, status, list);
    scatter_of(o)->lent = false;
    return status;
}

void gd__scatter_forget(gd_optimizer *o)
{
    o->shared.share->accumulated = false;
    if (!scatter_of(o)) return;
    gd_status before = gd_error(o->ctx);
    (void)!land_all(o, GD_OK);
    if (!before) gd_clear_error(o->ctx); /* an unused result may have failed */
    empty(o, &scatter_of(o)->waiting);
    scatter_of(o)->bytes = 0;
    for (int i = 0; i < o->count; i++) {
        o->param[i].summed = false;
        if (gd__shards_gradients(o)) continue;
        gd__release(o->param[i].own_grad); /* of gradients that may be released */
        o->param[i].own_grad = NULL;
    }
}

gd_tensor **gd__scatter_whole(gd_optimizer *o, gd_tensor *const *params, gd_tensor *const *shards, int count)
{
    gd_tensor **whole = gd__calloc(o->ctx, (size_t)count * sizeof *whole);
    gd_status status = whole ? GD_OK : GD_NOMEM;
    gd__aside_begin(o->ctx);
    for (int i = 0; i < count && !status; i++) {
        int64_t from, to;
        bool shared = gd__share_of(o, params[i], &from, &to);
        if (shared && to - from == params[i]->numel) {
            gd__retain(whole[i] = shards[i]);
            continue;
        }
        gd__own(whole[i] = gd__new_laid(params[i], shards[i]->dtype));
        if (!whole[i]) status = gd_error(o->ctx);
        if (!status && shared)
            status = gd__share_move(gd__share_place(whole[i], from), gd__share_place(shards[i], 0),
                                    whole[i]->dtype, to - from);
    }
    if (!status) status = gd__share_gather(o, params, whole, count);
    gd__aside_end(o->ctx);
    if (!status) return whole;
    for (int i = 0; whole && i < count; i++) gd__release(whole[i]);
    gd__free(o->ctx, whole, (size_t)count * sizeof *whole);
    return NULL;
}

/* ---- by microbatches of a batch ---- */

/* A bucket is small relative to all gradients: the memory of messages adds to that of gradients. */
#define BUCKETS      128
#define LEAST_BUCKET (1 << 16)

/* Backward passes have one microbatch for each rank. */
static void over_ranks(const gd_optimizer *o, gd_scatter *s)
{
    s->total = gd_world_size(o->shared.share->world);
    s->sums = 1;
    s->most = o->shared.share->options.bucket;
    s->batch = false;
    s->failed = GD_OK;
}

bool gd__scatter_is_free(const gd_optimizer *o)
{
    const gd_scatter *s = scatter_of(o);
    for (int i = 0; i < o->count; i++)
        if (o->param[i].summed) return false;
    return !s->waiting.count && !s->count;
}

void gd__scatter_batch(gd_optimizer *o, gd_tensor *const *params, int count, int64_t total, int sums)
{
    gd_scatter *s = scatter_of(o);
    int64_t all = 0, most = o->shared.share->options.bucket;
    for (int i = 0; i < count; i++) all += params[i]->numel * (int64_t)gd__item_size(params[i]);
    s->total = total;
    s->sums = sums;
    s->most = all / BUCKETS > LEAST_BUCKET ? all / BUCKETS : LEAST_BUCKET;
    if (s->most > most) s->most = most;
    s->batch = true;
}

void gd__scatter_give(gd_optimizer *o, const gd_tensor *param, gd_tensor **sum)
{
    gd_scatter *s = scatter_of(o);
    int index = gd__param_index(o, param);
    gd_param *p = &o->param[index];
    bool made = sum && !s->failed && !make_kept(o, p, param->dtype);
    portion q = {.param = index, .parts = 1, .sum = made ? sum : NULL};
    for (int k = 0; sum && !made && k < s->sums; k++) {
        gd__release(sum[k]);
        sum[k] = NULL;
    }
    if (!made && !s->failed) s->failed = gd_error(o->ctx) ? gd_error(o->ctx) : GD_NOMEM;
    p->summed = true;
    gd_status status = give(o, q, param->dtype);
    if (status && !s->failed) s->failed = status;
}

gd_status gd__scatter_end(gd_optimizer *o, gd_tensor *const *params, int count, gd_tensor *const **list)
{
    gd_scatter *s = scatter_of(o);
    gd_status status = land_list(o, params, count, GD_OK, list);
    if (s->failed) status = s->failed;
    over_ranks(o, s);
    if (status) gd__scatter_forget(o);
    return status;
}

/* ---- life ---- */

gd_scatter *gd__scatter_new(gd_optimizer *o)
{
    gd_scatter *s = gd__calloc(o->ctx, sizeof *s);
    if (!s) return NULL;
    s->ready = (gd_ready){.fn = take_gradient, .user = o};
    over_ranks(o, s);
    if (gd__shards_gradients(o)) gd__ready_add(o->ctx, &s->ready);
    return s;
}

void gd__scatter_free(gd_optimizer *o)
{
    gd_scatter *s = scatter_of(o);
    if (!s) return;
    if (gd__shards_gradients(o)) gd__ready_remove(o->ctx, &s->ready);
    (void)!land_all(o, GD_OK); /* they read memory that is released now */
    gd__free(o->ctx, s->list, (size_t)s->room * sizeof *s->list);
    empty(o, &s->waiting);
    for (int i = 0; i < o->count; i++) {
        gd__release(o->param[i].own_grad);
        o->param[i].own_grad = NULL;
        o->param[i].summed = false;
    }
    gd__free(o->ctx, s, sizeof *s);
    o->shared.share->scatter = NULL;
}
