#include "autograd/rows.h"

#include "autograd/reverse_batch.h"
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

/* The matrices that are being filled. */
typedef struct filling {
    gd_ctx *ctx;
    gd_tensor *const *inputs, *const *into;
    int count;
    int64_t widest;
    gd_tensor **next, **grads; /* memory per input: the next rows, and the gradients of one */
} filling;

/* Starts with rows first ..; zeros. */
static gd_status open_rows(const filling *f, int64_t first, int64_t k)
{
    gd_status status = GD_OK;
    for (int i = 0; i < f->count && !status; i++) {
        f->next[i] = gd__slice(f->into[i], 0, first, k, 1);
        status = f->next[i] ? gd_fill(f->next[i], 0) : gd_error(f->ctx);
    }
    return status;
}

/* k seeds like `output`, the i-th with a one at first + i; [k, axes of output]. */
static gd_tensor *unit_seeds(gd_tensor *output, int64_t first, int64_t k)
{
    gd_ctx *ctx = output->head.ctx;
    int64_t size[GD_MAX_DIMS] = {k};
    gd_tensor *flat = gd_empty_on(output->storage->device, output->dtype, 2, (int64_t[]){k, output->numel});
    if (!flat || gd_fill(flat, 0)) return NULL;
    gd_tensor *square = gd__slice(flat, 1, first, k, 1);
    gd_tensor *one = gd_to_device(gd_eye(ctx, output->dtype, k, k), output->storage->device);
    if (!square || !one || gd_assign(square, one)) return NULL;
    for (int i = 0; i < output->ndim; i++) size[i + 1] = output->size[i];
    return gd__reshape(flat, output->ndim + 1, size);
}

/* Seeds at once: a few tens of thousands of elements stay in the cache and share the cost of a pass. */
static int64_t block_of(const gd_tensor *output, int64_t widest)
{
    int64_t wide = output->numel > widest ? output->numel : widest,
            k = GD_BATCH_ELEMENTS / (wide > 0 ? wide : 1);
    if (k < 1) k = 1;
    return k < output->numel ? k : output->numel;
}

/* One row, the ordinary way. */
static gd_status single_row(const filling *f, gd_tensor *output, int64_t at)
{
    gd_tensor *seed = unit_seeds(output, at, 1);
    seed = seed ? gd__reshape(seed, output->ndim, output->size) : NULL;
    gd_status status = gd_error(f->ctx);
    if (seed)
        status = gd_grad(output, seed, f->inputs, f->count, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED, f->grads);
    for (int i = 0; i < f->count && !status; i++) {
        if (!f->grads[i]) continue;
        gd_tensor *row = gd__reshape(f->grads[i], 2, (int64_t[]){1, f->inputs[i]->numel});
        status = row ? gd_assign(f->next[i], row) : gd_error(f->ctx);
    }
    return status;
}

/* All rows of one output in one pass over its graph, where they are mostly zeros. */
static gd_status sparse_rows(const filling *f, int64_t first, gd_tensor *output)
{
    gd_scope_begin(f->ctx);
    gd_status status = open_rows(f, first, output->numel);
    if (!status) status = gd__grad_batch(output, NULL, f->inputs, f->count, f->next);
    gd_scope_end(f->ctx);
    return status;
}

/* In batches if the operators allow it, else one by one. */
static gd_status dense_rows(const filling *f, int64_t first, gd_tensor *output)
{
    gd_status status = GD_OK;
    int64_t k = output->ndim < GD_MAX_DIMS ? block_of(output, f->widest) : 1;
    for (int64_t at = 0; at < output->numel && !status;) {
        int64_t rows = output->numel - at < k ? output->numel - at : k;
        gd_scope_begin(f->ctx);
        status = open_rows(f, first + at, rows);
        if (!status && rows > 1) {
            gd_tensor *seeds = unit_seeds(output, at, rows);
            status = seeds ? gd__grad_batch(output, seeds, f->inputs, f->count, f->next) : gd_error(f->ctx);
            if (status == GD_NOT_IMPLEMENTED && !gd_error(f->ctx)) {
                k = rows = 1;
                status = open_rows(f, first + at, 1);
            }
        }
        if (!status && rows == 1) status = single_row(f, output, at);
        gd_scope_end(f->ctx);
        at += rows;
    }
    return status;
}

static gd_status rows_of(const filling *f, int64_t first, gd_tensor *output, int flags)
{
    if (!gd_requires_grad(output)) return open_rows(f, first, output->numel);
    gd_status status = sparse_rows(f, first, output);
    bool refused = status == GD_NOT_IMPLEMENTED && !gd_error(f->ctx);
    return refused && !(flags & GD_SPARSE) ? dense_rows(f, first, output) : status;
}

gd_status gd__fill_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *inputs, int count,
                        int flags, gd_tensor *const *into)
{
    filling f = {.ctx = inputs[0]->head.ctx, .inputs = inputs, .into = into, .count = count};
    size_t bytes = 2 * (size_t)count * sizeof *f.next;
    int64_t first = 0;
    if (!(f.next = gd__calloc(f.ctx, bytes))) return GD_NOMEM;
    f.grads = f.next + count;
    for (int i = 0; i < count; i++) f.widest += inputs[i]->numel;
    int previous = gd_enable_grad_begin(f.ctx);
    gd_status status = GD_OK;
    for (int i = 0; i < output_count && !status; i++) {
        gd_scope_begin(f.ctx);
        status = rows_of(&f, first, outputs[i], flags);
        first += outputs[i]->numel;
        gd_scope_end(f.ctx);
    }
    gd_enable_grad_end(f.ctx, previous);
    gd__free(f.ctx, f.next, bytes);
    return status;
}
