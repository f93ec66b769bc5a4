#include "optim/ranks/accumulation.h"

#include "autograd/ready.h"
#include "optim/ranks/share.h"

struct gd_accumulation {
    gd_optimizer *o;
    gd_tensor *const *params;
    int count;
    int64_t total, first, microbatches, microbatch; /* of all ranks; of this rank; the present one */
    int room, sums;  /* subtrees of this rank: at most, and of all its microbatches */
    gd_tensor **sum; /* [count, room], owned */
    int64_t *have;   /* microbatches of each */
    int next;        /* the parameter that is sent next */
    bool leaves;
    gd_status failed; /* adding */
};

static size_t sums_size(const gd_accumulation *h)
{
    return (size_t)h->count * (size_t)h->room * sizeof *h->sum;
}
static size_t have_size(const gd_accumulation *h) { return (size_t)h->count * sizeof *h->have; }

gd_accumulation *gd__accumulation_new(gd_optimizer *o, gd_tensor *const *params, int count, int64_t total)
{
    gd_ctx *ctx = o->ctx;
    int64_t first, microbatches;
    gd_accumulation *h = gd__calloc(ctx, sizeof *h);
    gd_tree tree = {.count = 0};
    if (!h) return NULL;
    gd_world_share(o->shared.share->world, total, &first, &microbatches);
    *h = (gd_accumulation){.o = o, .params = params, .count = count};
    h->total = total;
    h->first = first;
    h->microbatches = microbatches;
    h->next = count - 1;
    h->room = 1;
    for (int64_t g = 0; g < microbatches; g++) {
        gd__tree_push(&tree, total, (gd_subtree){.index = first + g}, NULL, NULL);
        if (tree.count > h->room) h->room = tree.count;
    }
    h->sums = tree.count;
    h->sum = gd__calloc(ctx, sums_size(h));
    h->have = gd__calloc(ctx, have_size(h));
    if (h->sum && h->have) return h;
    gd__accumulation_free(h);
    return NULL;
}

void gd__accumulation_free(gd_accumulation *h)
{
    if (!h) return;
    gd_ctx *ctx = h->o->ctx;
    for (int i = 0; h->sum && i < h->count * h->room; i++) gd__release(h->sum[i]);
    gd__free(ctx, h->sum, h->sum ? sums_size(h) : 0);
    gd__free(ctx, h->have, h->have ? have_size(h) : 0);
    gd__free(ctx, h, sizeof *h);
}

/* ---- a microbatch ---- */

/* Both have the strides of their parameter. */
static void *join_sums(void *user, void *left, void *right)
{
    gd_accumulation *h = user;
    gd_tensor *to = left, *from = right;
    gd_scope_begin(h->o->ctx);
    gd_device *device = to->storage->device;
    gd_tensor *a = gd__share_memory(device, to->dtype, to->data, to->numel),
              *b = gd__share_memory(device, to->dtype, from->data, to->numel);
    gd_status status = a && b ? gd__add_partial(a, a, b) : gd_error(h->o->ctx);
    if (!h->failed) h->failed = status;
    gd_scope_end(h->o->ctx);
    gd__release(from);
    return to;
}

static void leave(gd_accumulation *h)
{
    for (; h->next >= 0 && h->have[h->next] == h->microbatches; h->next--)
        gd__scatter_give(h->o, h->params[h->next], h->sum + h->next * h->room);
}

static gd_status add_gradient(void *user, int i, gd_tensor *grad)
{
    gd_accumulation *h = user;
    gd_tensor *leaf = gd__partial_of(grad, h->params[i], false), **sum = h->sum + i * h->room;
    gd_tree tree;
    if (!leaf) return gd_error(h->o->ctx);
    gd__tree_of(&tree, h->total, h->first, h->microbatch);
    for (int k = 0; k < tree.count; k++) tree.node[k].sum = sum[k];
    gd__tree_push(&tree, h->total, (gd_subtree){.index = h->first + h->microbatch, .sum = leaf}, join_sums,
                  h);
    for (int k = 0; k < h->room; k++) sum[k] = k < tree.count ? tree.node[k].sum : NULL;
    h->have[i]++;
    if (h->leaves) leave(h);
    return h->failed;
}

gd_status gd__accumulation_microbatch(gd_accumulation *h, gd_tensor *loss, gd_tensor *seed)
{
    gd_ctx *ctx = h->o->ctx;
    if (!loss || !seed) return gd_error(ctx);
    gd_status status = gd__wants_grad(loss) ? gd__grad_each(loss, seed, h->params, h->count, add_gradient, h)
                                            : GD_OK;
    /* zeros if the loss does not depend on the parameter */
    for (int i = 0; i < h->count && !status; i++) {
        if (h->have[i] > h->microbatch) continue;
        gd__aside_begin(ctx);
        gd_tensor *zeros = gd_zeros_like(h->params[i]);
        gd__own(zeros);
        gd__aside_end(ctx);
        status = zeros ? add_gradient(h, i, zeros) : gd_error(ctx);
    }
    h->microbatch++;
    return status;
}

/* ---- all ranks ---- */

void gd__accumulation_leave(gd_accumulation *h)
{
    gd__scatter_batch(h->o, h->params, h->count, h->total, h->sums);
    h->leaves = true;
}

gd_status gd__accumulation_end(gd_accumulation *h, gd_status failed, gd_tensor *const **list)
{
    if (!failed) leave(h); /* a rank without microbatches contributes nothing */
    for (; h->next >= 0; h->next--) gd__scatter_give(h->o, h->params[h->next], NULL);
    gd_status status = gd__scatter_end(h->o, h->params, h->count, list);
    if (failed) gd__scatter_forget(h->o);
    return failed ? failed : status;
}
