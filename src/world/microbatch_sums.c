/* Partial sums, and sums over the microbatches of a batch. */
#include "tensor/cpu/cpu.h"
#include "world/world_internal.h"

#include <string.h>

gd_dtype gd__partial_dtype(gd_dtype dtype)
{
    switch (dtype) {
    case GD_F16:
    case GD_BF16: return GD_F32;
    case GD_F32:
    case GD_F64:
    case GD_I32:
    case GD_I64: return dtype;
    default: return GD_DTYPE_COUNT;
    }
}

static const gd_vec_table *vectors(gd_ctx *ctx)
{
    gd_device *cpu = gd__cpu(ctx);
    return cpu ? cpu->state : &gd__vec_base;
}

const char *gd__isa_of(gd_ctx *ctx) { return vectors(ctx)->isa; }

/* Addition gives the same bits on every device and any number of threads: IEEE 754, or wrapping integers. */
gd_status gd__add_partial(gd_tensor *out, gd_tensor *a, gd_tensor *b)
{
    return gd__execute(GD_OP_add, (gd_tensor *[]){a, b}, 2, &(gd_attrs){0}, &out, 1);
}

gd_tensor *gd__copy_at(gd_device *device, gd_tensor *t, gd_dtype dtype)
{
    gd_ctx *ctx = t->head.ctx;
    gd__aside_begin(ctx);
    gd_tensor *near = device && t->storage && t->storage->device != device ? gd_to_device(t, device) : t;
    gd_tensor *copy = device && near ? gd__new(device, dtype, t->ndim, t->size) : NULL;
    if (copy && gd__copy_into(copy, near)) copy = NULL;
    gd__own(copy);
    gd__aside_end(ctx);
    return copy;
}

/* ---- microbatches ---- */

static void drop_sums(gd_microbatches *g)
{
    for (int i = 0; i < g->tree.count; i++) gd__release(g->tree.node[i].sum);
    for (int i = 0; i < g->waits; i++) gd__release(g->waiting[i]);
    g->tree.count = g->waits = 0;
    g->added = 0;
    g->failed = GD_OK;
}

gd_microbatches *gd__microbatches_of(gd_world *world, gd_dtype dtype, gd_device *device, int ndim,
                                     const int64_t *size, int64_t total)
{
    gd_ctx *ctx = world->ctx;
    gd_dtype partial = gd__partial_dtype(dtype);
    if (total < 1)
        return gd__refuse(ctx, GD_VALUE, "microbatches: a batch has 1 microbatch or more, not %lld",
                          (long long)total);
    if (partial == GD_DTYPE_COUNT)
        return gd__refuse(ctx, GD_DTYPE, "microbatches: there are no sums of %s", gd_dtype_name(dtype));
    gd_microbatches *g = gd__calloc(ctx, sizeof *g);
    if (!g) return NULL;
    *g = (gd_microbatches){.world = world, .dtype = dtype, .partial = partial, .ndim = ndim, .total = total};
    memcpy(g->size, size, (size_t)ndim * sizeof *size);
    g->at = gd__world_place(world, device);
    gd_world_share(world, total, &g->first, &g->count);
    return g;
}

gd_microbatches *gd_microbatches_new(gd_world *world, const gd_tensor *like, int64_t total)
{
    if (!world) return NULL;
    if (!like) return gd__none(gd__null(world->ctx, "microbatches: the tensor is NULL"));
    gd_device *device = like->storage ? like->storage->device : gd__cpu(world->ctx);
    return gd__microbatches_of(world, like->dtype, device, like->ndim, like->size, total);
}

void gd_microbatches_free(gd_microbatches *microbatches)
{
    if (!microbatches) return;
    drop_sums(microbatches);
    gd__free(microbatches->world->ctx, microbatches, sizeof *microbatches);
}

/* ---- joining ----
 * Several microbatches are joined with the tree in one pass over memory: a block of all of them is summed through the tree before the next
 * one, so that partial sums are still in a cache. */

#define BLOCK 2048 /* elements */

typedef struct joining {
    gd_microbatches *g;
    const gd_vec_table *vec;
    int64_t numel;
} joining;

typedef struct block {
    const gd_vec_table *vec;
    bool doubles;
    int64_t count;
} block;

static gd_subtree leaf_of(const gd_microbatches *g, int i, void *sum)
{
    return (gd_subtree){.index = g->first + g->added - g->waits + i, .sum = sum};
}

static void *join_numbers(void *user, void *left, void *right)
{
    const block *b = user;
    if (b->doubles)
        b->vec->add_f64(left, right, b->count);
    else
        b->vec->add_f32(left, right, b->count);
    return left;
}

static void join_block(void *arg, int64_t index)
{
    const joining *j = arg;
    const gd_microbatches *g = j->g;
    int64_t at = index * BLOCK, left = j->numel - at;
    size_t offset = (size_t)at * gd_dtype_size(g->partial);
    block b = {.vec = j->vec, .doubles = g->partial == GD_F64, .count = left < BLOCK ? left : BLOCK};
    gd_tree tree;
    tree.count = g->tree.count;
    for (int i = 0; i < tree.count; i++) {
        tree.node[i] = g->tree.node[i];
        tree.node[i].sum = ((gd_tensor *)tree.node[i].sum)->data + offset;
    }
    for (int i = 0; i < g->waits; i++)
        gd__tree_push(&tree, g->total, leaf_of(g, i, g->waiting[i]->data + offset), join_numbers, &b);
}

/* The result is in the left one. */
static void *drop_right(void *user, void *left, void *right)
{
    (void)user;
    gd__release(right);
    return left;
}

static void *join_tensors(void *user, void *left, void *right)
{
    gd_microbatches *g = user;
    if (!g->failed) g->failed = gd__add_partial(left, left, right);
    gd__release(right);
    return left;
}

gd_status gd__microbatches_settle(gd_microbatches *g)
{
    gd_ctx *ctx = g->world->ctx;
    bool blocks = g->at == gd__cpu(ctx) && (g->partial == GD_F32 || g->partial == GD_F64);
    joining j = {.g = g, .vec = vectors(ctx), .numel = g->waits ? g->waiting[0]->numel : 0};
    int64_t count = blocks ? (j.numel + BLOCK - 1) / BLOCK : 0;
    gd__run_tasks(ctx, j.numel, count, join_block, &j);
    for (int i = 0; i < g->waits; i++)
        gd__tree_push(&g->tree, g->total, leaf_of(g, i, g->waiting[i]), blocks ? drop_right : join_tensors,
                      g);
    g->waits = 0;
    return g->failed;
}

gd_tensor *gd__microbatches_room(gd_microbatches *g)
{
    return !gd__microbatches_settle(g) && g->tree.count ? g->tree.node[0].sum : NULL;
}

gd_status gd__microbatches_take(gd_microbatches *microbatches, gd_tensor *value)
{
    if (microbatches->added == microbatches->count) {
        gd__release(value);
        return gd_fail(microbatches->world->ctx, GD_STATE,
                       "microbatches: rank %d has %lld of %lld microbatches, and all of them were added",
                       microbatches->world->end.rank, (long long)microbatches->count,
                       (long long)microbatches->total);
    }
    microbatches->waiting[microbatches->waits++] = value;
    microbatches->added++;
    bool full = microbatches->waits == GD_MICROBATCHES_WAIT || microbatches->added == microbatches->count;
    return full ? gd__microbatches_settle(microbatches) : microbatches->failed;
}

void gd__microbatches_fill(gd_microbatches *microbatches, gd_tensor *const *sums)
{
    gd__tree_of(&microbatches->tree, microbatches->total, microbatches->first, microbatches->count);
    for (int i = 0; i < microbatches->tree.count; i++) microbatches->tree.node[i].sum = sums[i];
    microbatches->added = microbatches->count;
}

gd_status gd_microbatches_add(gd_microbatches *microbatches, gd_tensor *value)
{
    if (!microbatches) return GD_ARGUMENT;
    gd_ctx *ctx = microbatches->world->ctx;
    if (!value) return gd__null(ctx, "microbatches: the tensor is NULL");
    bool fits = value->ndim == microbatches->ndim && value->dtype == microbatches->dtype;
    for (int i = 0; fits && i < value->ndim; i++) fits = value->size[i] == microbatches->size[i];
    if (!fits)
        return gd_fail(ctx, GD_SHAPE,
                       "microbatches: microbatch %lld has a different shape or dtype than the sum",
                       (long long)(microbatches->first + microbatches->added));
    gd_tensor *sum = gd__copy_at(microbatches->at, value, microbatches->partial);
    if (!sum) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    return gd__microbatches_take(microbatches, sum);
}

gd_status gd_microbatches_sum(gd_microbatches *microbatches, gd_tensor *out)
{
    if (!microbatches) return GD_ARGUMENT;
    return gd__world_call(
        microbatches->world,
        &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = out, .microbatches = microbatches});
}
