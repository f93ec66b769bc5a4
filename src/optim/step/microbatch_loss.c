/* Losses by microbatches of a batch (gd_batch).
 *
 *     rows      [----------------------------------]      a microbatch: its loss with its graph, its gradients; then freed
 *     microbatches    [-----][-----][-----][-----][-----][]
 *     ranks     [ 0          ][ 1          ][ 2    ]      each adds its microbatches in the tree of gd_microbatches; then ranks join their sums
 *
 * The losses are sent first, with the status of each rank: if one has, no rank waits for its gradients.  Gradients are sent
 * as buckets of adjacent parameters, all at the same time. */
#include "optim/step/microbatch_loss.h"
#include "optim/ranks/accumulation.h"
#include "optim/ranks/share.h"
#include "optim/step/objective/memo.h"
#include "optim/step/objective/residuals.h"

#include "base/rng.h"
#include "file/safetensors.h"
#include "gradus/autograd.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

#include <math.h>
#include <stdio.h>

#define BUCKET_BYTES (25 << 20)
#define ALONE_BYTES  (1 << 16) /* a parameter this large is a bucket: its gradients need not be copied */

/* A bucket: adjacent parameters of one dtype and device, sent together. */
typedef struct bucket {
    int first, count; /* parameters */
    bool alone;       /* it has one large parameter */
    int64_t numel;
    gd_dtype dtype; /* of sums */
    gd_device *device;
    gd_device *at;                 /* where sums are made */
    gd_microbatches *microbatches; /* exact: the sums of this rank */
    gd_tensor *flat;     /* fast: the sum of this rank; then, also of microbatches, that of all.  Owned */
    const int64_t *cuts; /* each rank gets the sum of its shard alone; NULL: of everything */
    gd_exchange *work;
} bucket;

typedef struct run {
    gd_var *var;
    const gd_batch *batch;
    gd_world *world;
    int64_t total, first, count;
    gd_rng rng;          /* of the context, before microbatches use their own streams */
    gd_tensor *const *v; /* products with the Hessian along it; NULL: gradients */
    bool slopes;         /* else values alone */
    gd_tensor **slope;   /* of a microbatch, of its scope */
    bool own;            /* only this rank's shard of the slopes is used */
    gd_accumulation
        *accumulation; /* gradients of which each rank keeps what it owns: their list; NULL: all of them */
    gd_tensor *const **list;
    double *value;        /* the loss of all, once it is joined */
    bool joined, known;   /* tried; in use */
    bool of_values;       /* several rows gave one number, so that of one row is not a residual */
    bucket loss, *bucket; /* memory for one per parameter */
    int buckets;
} run;

/* ---- buckets ---- */

static gd_tensor *new_flat(const bucket *k, gd_device *device)
{
    gd_ctx *ctx = device->ctx;
    gd__aside_begin(ctx);
    gd_tensor *t = gd__new(device, k->dtype, 1, &k->numel);
    gd__own(t);
    gd__aside_end(ctx);
    return t;
}

static gd_status open_bucket(run *r, bucket *k)
{
    gd_ctx *ctx = r->var->ctx;
    k->at = k->device;
    if (r->batch->how == GD_REDUCE_FAST) {
        k->flat = new_flat(k, k->device);
        return k->flat ? gd_fill(k->flat, 0) : gd_error(ctx);
    }
    k->microbatches = gd__microbatches_of(r->world, k->dtype, k->device, 1, &k->numel, r->total);
    if (!k->microbatches) return gd_error(ctx);
    k->at = k->microbatches->at;
    return GD_OK;
}

/* Memory for the sum over all microbatches: one of the partial sums, which saves a pass over memory. */
static void room_for_sum(bucket *k)
{
    if (k->flat) return;
    k->flat = k->at == k->device ? gd__microbatches_room(k->microbatches) : NULL;
    if (k->flat)
        gd__retain(k->flat);
    else
        k->flat = new_flat(k, k->device);
}

static void close_bucket(bucket *k)
{
    gd_microbatches_free(k->microbatches);
    gd__release(k->flat);
}

/* The owners of the only parameter of a bucket. */
static const int64_t *cuts_of(const run *r, const bucket *k)
{
    const gd_optimizer *o = r->var->optimizer;
    int i = r->own && k->alone ? gd__param_index(o, r->var->params[k->first]) : -1;
    return i < 0 ? NULL : o->param[i].cut;
}

/* Adjacent parameters of one dtype, until a bucket is full; a parameter is never cut. */
static gd_status open_buckets(run *r)
{
    gd_var *var = r->var;
    gd_status status = GD_OK;
    for (int i = 0; i < var->count; i++) {
        const gd_tensor *p = var->params[i];
        gd_dtype dtype = gd__partial_dtype(p->dtype);
        bucket *k = r->buckets ? &r->bucket[r->buckets - 1] : NULL;
        gd_device *device = p->storage->device;
        int64_t item = (int64_t)gd_dtype_size(dtype);
        bool alone = p->numel * item >= ALONE_BYTES;
        bool joins = k && !alone && !k->alone && k->dtype == dtype && k->device == device &&
                     (k->numel + p->numel) * item <= BUCKET_BYTES;
        if (!joins)
            r->bucket[r->buckets++] = (bucket){.first = i, .dtype = dtype, .device = device, .alone = alone};
        k = &r->bucket[r->buckets - 1];
        k->count++;
        k->numel += p->numel;
    }
    for (int i = 0; i < r->buckets && !status; i++) {
        r->bucket[i].cuts = cuts_of(r, &r->bucket[i]);
        status = open_bucket(r, &r->bucket[i]);
    }
    return status;
}

/* The slice of a flat tensor that belongs to a parameter, in its shape.  Of the scope. */
static gd_tensor *piece(gd_tensor *flat, int64_t at, const gd_tensor *like)
{
    gd_tensor *t = gd_slice(flat, "0", at, at + like->numel, 1);
    return t ? gd__reshape(t, like->ndim, like->size) : NULL;
}

/* Of one microbatch; consumed. */
static gd_status add_flat(bucket *k, gd_tensor *flat)
{
    if (k->microbatches) return gd__microbatches_take(k->microbatches, flat);
    gd_status status = gd__add_partial(k->flat, k->flat, flat);
    gd__release(flat);
    return status;
}

/* The slope of the only parameter of a bucket in place, if its memory has no other reference; else NULL. */
static gd_tensor *take_slope(run *r, bucket *k)
{
    gd_tensor *slope = r->slope[k->first];
    bool fits = k->alone && slope->dtype == k->dtype && slope->storage->device == k->at &&
                slope->storage->refs == 1 && gd__contiguous(slope);
    gd_tensor *flat = fits ? gd__reshape(slope, 1, &k->numel) : NULL;
    gd__retain(flat);
    return flat;
}

/* The slopes of a microbatch into a bucket. */
static gd_status add_slopes(run *r, bucket *k)
{
    gd_ctx *ctx = r->var->ctx;
    gd_tensor *taken = take_slope(r, k), *flat = taken ? NULL : new_flat(k, k->at);
    if (taken) return add_flat(k, taken);
    gd_status status = flat ? GD_OK : gd_error(ctx);
    int64_t at = 0;
    for (int i = k->first; i < k->first + k->count && !status; i++) {
        gd_tensor *from = gd_to_device(r->slope[i], k->at), *to = piece(flat, at, r->var->params[i]);
        status = from && to ? gd__copy_into(to, from) : gd_error(ctx);
        at += r->var->params[i]->numel;
    }
    if (!status) return add_flat(k, flat);
    gd__release(flat);
    return status;
}

/* ---- a microbatch ---- */

/* The random stream of a microbatch: derived from the context's, which advances with every evaluation. */
static gd_rng stream_of(gd_rng at, int64_t microbatch)
{
    uint32_t w[4];
    gd__philox_at(at.key, at.counter, (uint64_t)microbatch + 1, w);
    return (gd_rng){.key = (uint64_t)w[1] << 32 | w[0]};
}

/* The share of a microbatch, as the gradient of its loss begins. */
static gd_tensor *seed_of(const gd_tensor *loss, double share)
{
    return gd_to_device(gd_full(loss->head.ctx, loss->dtype, 0, NULL, share), loss->storage->device);
}

/* Gradients of the share of a microbatch, or the products of its Hessian. */
static gd_status slopes_of(run *r, gd_tensor *loss, double share)
{
    gd_var *var = r->var;
    gd_tensor *seed = seed_of(loss, share);
    if (!seed) return gd_error(var->ctx);
    gd_status status = gd_grad(loss, seed, var->params, var->count, r->v ? GD_CREATE_GRAPH : 0, r->slope);
    if (!status && r->v) status = gd__product_along(var, r->slope, r->v, 0, r->slope);
    gd_no_grad_begin(var->ctx);
    for (int i = 0; i < r->buckets && !status; i++) status = add_slopes(r, &r->bucket[i]);
    gd_no_grad_end(var->ctx);
    return status;
}

/* The loss of a microbatch with its graph, and its share of the whole. */
static gd_status take_loss(run *r, int64_t microbatch, gd_tensor **loss, double *share)
{
    const gd_batch *b = r->batch;
    gd_ctx *ctx = r->var->ctx;
    int64_t at = microbatch * b->microbatch,
            rows = b->rows - at < b->microbatch ? b->rows - at : b->microbatch;
    if (!b->microbatch) at = 0, rows = b->rows;
    *loss = b->loss(b->user, at, rows);
    bool vector = *loss && (*loss)->ndim > 0;
    r->of_values = r->of_values || (vector && (*loss)->numel == 1 && rows > 1);
    bool residuals = vector && ((*loss)->numel != 1 || !r->of_values);
    gd_status fits = gd__check_residuals(r->var, *loss && !residuals);
    if (fits) return fits;
    *share = b->sums || residuals ? 1 : (double)rows / (double)b->rows;
    gd_status status = gd__as_loss(ctx, loss, residuals);
    if (status) return status;
    gd_no_grad_begin(ctx);
    gd_tensor *flat = new_flat(&r->loss, r->loss.at);
    if (flat) *(double *)flat->data = *share * gd_item(*loss);
    status = flat ? gd_error(ctx) : GD_NOMEM;
    if (!status) status = add_flat(&r->loss, flat);
    gd_no_grad_end(ctx);
    return status;
}

static gd_status take_microbatch(run *r, int64_t microbatch)
{
    gd_tensor *loss;
    double share;
    gd_status status = take_loss(r, microbatch, &loss, &share);
    if (status || (!r->slopes && !r->accumulation)) return status;
    return r->accumulation ? gd__accumulation_microbatch(r->accumulation, loss, seed_of(loss, share))
                           : slopes_of(r, loss, share);
}

/* Only this rank's shard: elements of others are not needed. */
static gd_exchange *start_own(run *r, bucket *k)
{
    const int64_t *cut = k->cuts + gd_world_rank(r->world);
    gd_collective what = {.kind = GD_REDUCE_SCATTER, .microbatches = k->microbatches, .cuts = k->cuts};
    what.out = gd_slice(k->flat, "0", cut[0], cut[1], 1);
    if (!what.out) what.failed = gd_error(r->var->ctx);
    return gd_world_start(r->world, &what);
}

/* A hash of all values of parameters on the CPU. */
static uint64_t sum_of_params(const gd_var *var)
{
    uint64_t sum = 0;
    for (int i = 0; i < var->count; i++) {
        const gd_tensor *p = var->params[i];
        if (p->storage->device == gd__cpu(var->ctx))
            sum = gd__checksum(sum, p->data, (size_t)p->numel * gd__item_size(p));
    }
    return sum;
}

/* The description of this evaluation, which must be equal on every rank; it contains the position of the random generator, which
 * advances with each.  Equal parameters are checked in the first step only: later steps change them equally. */
static const char *name_loss(const run *r, char *name, size_t size)
{
    const gd_batch *b = r->batch;
    const gd_optimizer *o = r->var->optimizer;
    if (gd_world_size(r->world) == 1) return NULL;
    int used = snprintf(
        name, size, "%s of %lld rows by %lld, step %lld, generator %llu/%llu", b->sums ? "sums" : "means",
        (long long)b->rows, (long long)(b->microbatch ? b->microbatch : b->rows),
        (long long)(o ? o->step + 1 : 0), (unsigned long long)r->rng.key, (unsigned long long)r->rng.counter);
    if (o && !o->step && used < (int)size)
        (void)snprintf(name + used, size - (size_t)used, ", parameters %016llx",
                       (unsigned long long)sum_of_params(r->var));
    return name;
}

static gd_exchange *start_sum(run *r, bucket *k, gd_status failed, const char *name)
{
    if (!failed) room_for_sum(k);
    if (k->cuts && k->flat) return start_own(r, k);
    return gd_world_start(r->world, &(gd_collective){.kind = GD_ALL_REDUCE,
                                                     .tensor = k->flat,
                                                     .microbatches = k->microbatches,
                                                     .how = r->batch->how,
                                                     .failed = failed,
                                                     .name = name});
}

static gd_status join_loss(run *r, gd_status failed)
{
    char name[120];
    r->joined = true;
    gd_exchange *work = start_sum(r, &r->loss, failed, name_loss(r, name, sizeof name));
    gd_status status = work ? gd_world_wait(work) : gd_error(r->var->ctx);
    r->known = !status && !failed;
    if (!status) *r->value = *(double *)r->loss.flat->data;
    return failed ? failed : status;
}

/* Gradients are sent in the backward pass of the last microbatch, once all ranks know the loss and that no rank has failed. A rank without
 * microbatches takes part. */
static gd_status take_last(run *r, int64_t microbatch)
{
    gd_tensor *loss = NULL;
    double share = 0;
    gd_status status = join_loss(r, r->count ? take_loss(r, microbatch, &loss, &share) : GD_OK);
    if (status) return status;
    gd__accumulation_leave(r->accumulation);
    if (loss) status = gd__accumulation_microbatch(r->accumulation, loss, seed_of(loss, share));
    return gd__accumulation_end(r->accumulation, status, r->list);
}

/* The microbatches of this rank. */
static gd_status run_microbatches(run *r)
{
    gd_ctx *ctx = r->var->ctx;
    gd_rng before = ctx->rng;
    gd_status status = GD_OK;
    int64_t last = r->first + r->count - 1;
    for (int64_t g = r->first; g <= last && !status; g++) {
        gd_scope_begin(ctx);
        int previous = gd_enable_grad_begin(ctx);
        if (!r->slopes && !r->accumulation) gd_no_grad_begin(ctx);
        ctx->rng = stream_of(before, g);
        status = r->accumulation && g == last ? take_last(r, g) : take_microbatch(r, g);
        gd_enable_grad_end(ctx, previous);
        gd_scope_end(ctx);
    }
    ctx->rng = before;
    return status;
}

/* ---- all ranks ---- */

/* This rank's shard of a parameter's gradient, in the order of its memory. */
static gd_tensor *own_piece(const run *r, gd_tensor *flat, int64_t at, gd_tensor *like)
{
    int64_t from, to;
    if (!gd__share_of(r->var->optimizer, like, &from, &to))
        return gd__refuse(r->var->ctx, GD_INTERNAL, "batch: a parameter has no owners");
    if (to - from < like->numel) return gd_slice(flat, "0", at + from, at + to, 1);
    gd_tensor *t = piece(flat, at, like);
    if (!t || gd__laid_alike(t, like)) return t;
    gd_tensor *laid = gd__new_laid(like, t->dtype);
    return laid && !gd__copy_into(laid, t) ? laid : NULL;
}

/* The slopes of a bucket's parameters: views of the sum if possible.  New, of the innermost scope. */
static gd_status deliver(const run *r, const bucket *k, gd_tensor **out)
{
    gd_ctx *ctx = r->var->ctx;
    int64_t at = 0;
    for (int i = k->first; i < k->first + k->count; i++) {
        gd_tensor *like = r->var->params[i], *t = r->own ? own_piece(r, k->flat, at, like) : NULL;
        if (!r->own) t = piece(k->flat, at, like);
        out[i] = t ? gd_cast(t, like->dtype) : NULL;
        if (!out[i]) return gd_error(ctx);
        at += like->numel;
    }
    return GD_OK;
}

static gd_status join_slopes(run *r)
{
    gd_status status = GD_OK;
    for (int i = 0; i < r->buckets; i++) r->bucket[i].work = start_sum(r, &r->bucket[i], GD_OK, NULL);
    for (int i = 0; i < r->buckets; i++) {
        bucket *k = &r->bucket[i];
        gd_status one = k->work ? gd_world_wait(k->work) : gd_error(r->var->ctx);
        if (!status) status = one;
    }
    return status;
}

/* ---- an evaluation ---- */

static gd_status check_batch(gd_ctx *ctx, const gd_batch *b)
{
    if (!b->loss) return gd_fail(ctx, GD_ARGUMENT, "batch: no function for the loss");
    if (b->rows < 1) return gd_fail(ctx, GD_SHAPE, "batch: there are %lld rows", (long long)b->rows);
    if (b->microbatch < 0)
        return gd_fail(ctx, GD_VALUE, "batch: a microbatch of %lld rows", (long long)b->microbatch);
    if ((unsigned)b->how > GD_REDUCE_FAST)
        return gd_fail(ctx, GD_VALUE, "batch: there is no sum of kind %d", (int)b->how);
    return GD_OK;
}

static gd_status run_batch(run *r, gd_status checked)
{
    gd_status status = open_bucket(r, &r->loss);
    if (status) return gd_world_agree(r->world, status);
    if (checked) return join_loss(r, checked);
    if (r->list &&
        !(r->accumulation = gd__accumulation_new(r->var->optimizer, r->var->params, r->var->count, r->total)))
        status = GD_NOMEM;
    if (r->slopes) status = open_buckets(r);
    if (!status) status = run_microbatches(r);
    if (r->accumulation && !r->count && !status) return take_last(r, 0);
    if (!r->joined) status = join_loss(r, status);
    return status || !r->slopes ? status : join_slopes(r);
}

static gd_status all_of_batch(run *r, gd_var *var, const gd_batch *b, gd_tensor **out)
{
    gd_ctx *ctx = var->ctx;
    if (b->world && gd_world_ctx(b->world) != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "batch: the world is of a different context than the parameters");
    size_t lists = (size_t)var->count * (sizeof(bucket) + sizeof(gd_tensor *));
    gd_status checked = check_batch(ctx, b);
    r->var = var;
    r->batch = b;
    r->rng = ctx->rng;
    r->total = !checked && b->microbatch ? (b->rows - 1) / b->microbatch + 1 : 1;
    r->loss = (bucket){.numel = 1, .dtype = GD_F64, .device = gd__cpu(ctx)};
    r->world = b->world ? b->world : gd_world_open(ctx, "self", NULL);
    if (!r->world) return gd_error(ctx);
    gd_world_share(r->world, r->total, &r->first, &r->count);
    r->bucket = gd__calloc(ctx, lists);
    r->slope = r->bucket ? (gd_tensor **)(r->bucket + var->count) : NULL;
    gd_scope_begin(ctx);
    gd_status status = r->bucket ? run_batch(r, checked) : gd_world_agree(r->world, GD_NOMEM);
    gd_scope_end(ctx);
    /* a rank that fails alone from here on still joins the collectives of the others */
    if (!status || (r->known && gd_world_size(r->world) > 1)) ctx->rng.counter++;
    gd_no_grad_begin(ctx);
    for (int i = 0; i < r->buckets && !status; i++) status = deliver(r, &r->bucket[i], out);
    gd_no_grad_end(ctx);
    gd__accumulation_free(r->accumulation);
    close_bucket(&r->loss);
    for (int i = 0; i < r->buckets; i++) close_bucket(&r->bucket[i]);
    gd__free(ctx, r->bucket, r->bucket ? lists : 0);
    if (!b->world) gd_world_free(r->world);
    return status;
}

gd_status gd__batch_eval(gd_var *var, const gd_batch *b, gd_tensor *const *v, double *loss, gd_tensor **out)
{
    return all_of_batch(&(run){.v = v, .slopes = out != NULL, .value = loss}, var, b, out);
}

/* ---- gradients of which each rank keeps what it owns ---- */

/* Only rules have requested anything so far, and they run over the parameters themselves. */
static const gd_batch *batch_of(const gd_var *var)
{
    const gd_optimizer *o = var->optimizer;
    const gd_closure *c = var->closure;
    if (!gd__shares_state(o) || !o->stepping || !c || c->eval != gd__objective_eval) return NULL;
    const gd_batch *b = c->objective->loss || c->objective->gradient ? NULL : c->objective->batch;
    bool first = var->update_is_grad && !var->grad && !var->leaf_grad && !var->loss && !var->parent;
    bool own = var->params == o->looked.active && var->keys == var->params && !o->bounded;
    if (!b || b->world != o->shared.share->world || b->how != GD_REDUCE_EXACT) return NULL;
    bool free = !gd__shards_gradients(o) || gd__scatter_is_free(o);
    return first && own && free && !gd__memo_of(var) && gd__var_is_cut(var) ? b : NULL;
}

void gd__accumulation_forget(gd_optimizer *o)
{
    gd__tensors_free(o->ctx, o->shared.share->kept, o->shared.share->kepts);
    o->shared.share->kept = NULL;
}

/* Where each rank has its gradients whole (GD_SHARD_STATE): it gets its shard of their sum. */
static gd_status keep_own(gd_var *var, const gd_batch *b, double *value, gd_tensor *const **list)
{
    gd_ctx *ctx = var->ctx;
    gd_share *share = var->optimizer->shared.share;
    gd_tensor **kept = gd__tensors_new(ctx, var->count);
    if (!kept) return gd_world_agree(share->world, GD_NOMEM);
    gd_scope_begin(ctx);
    gd_status status = all_of_batch(&(run){.slopes = true, .own = true, .value = value}, var, b, kept);
    for (int i = 0; i < var->count && !status; i++) gd__own(kept[i]);
    gd_scope_end(ctx);
    for (int i = 0; i < var->count && status; i++) kept[i] = NULL;
    gd__accumulation_forget(var->optimizer);
    *list = share->kept = kept;
    share->kepts = var->count;
    return status;
}

gd_status gd__accumulation_into(gd_var *var)
{
    const gd_batch *b = batch_of(var);
    gd_ctx *ctx = var->ctx;
    double value = NAN;
    gd_tensor *const *list = NULL;
    if (!b) return GD_OK;
    gd_share *share = var->optimizer->shared.share;
    gd_status status = gd__shards_gradients(var->optimizer)
                           ? all_of_batch(&(run){.value = &value, .list = &list}, var, b, NULL)
                           : keep_own(var, b, &value, &list);
    status = gd__callback_status(ctx, status);
    share->accumulated = !status;
    gd_scope_begin(ctx);
    gd_tensor *loss = status ? NULL : gd_scalar(ctx, GD_F64, value);
    if (loss) {
        gd_var_set_loss(var, loss);
        gd_var_set_loss_approx(var, loss);
        gd__remember_first(var, loss);
        var->optimizer->evals++;
        var->leaf_grad = list;
        var->shards = true;
    }
    gd_scope_end(ctx);
    return status || loss ? status : gd_error(ctx);
}
