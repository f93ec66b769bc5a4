/* Jacobians and Hessians by repeated reverse passes over one graph. */
#include "optim/jacobian.h"

#include "autograd/batch.h"
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

#define BLOCK 8192 /* elements of a batch of gradients */

static int64_t elements(gd_tensor *const *list, int count)
{
    int64_t n = 0;
    for (int i = 0; i < count; i++) n += list[i]->numel;
    return n;
}

static gd_dtype common_dtype(gd_tensor *const *list, int count)
{
    for (int i = 0; i < count; i++)
        if (list[i]->dtype == GD_F64) return GD_F64;
    return GD_F32;
}

/* Rows first .. of the matrix = k gradients each, [k, axes of the parameter]; those that are NULL are zeros already. */
static gd_status write_rows(gd_tensor *matrix, int64_t first, int64_t k, gd_tensor *const *grads,
                            gd_tensor *const *params, int count)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    for (int i = 0; i < count && !status; i++) {
        int64_t m = params[i]->numel;
        if (grads[i]) {
            gd_tensor *target = gd__slice(gd__slice(matrix, 0, first, k, 1), 1, at, m, 1);
            gd_tensor *source = gd__reshape(grads[i], 2, (int64_t[]){k, m});
            status = target && source ? gd_assign(target, source) : gd_error(matrix->head.ctx);
        }
        at += m;
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
    int64_t wide = output->numel > widest ? output->numel : widest, k = BLOCK / (wide > 0 ? wide : 1);
    if (k < 1) k = 1;
    return k < output->numel ? k : output->numel;
}

/* Rows first .. of the matrix: the derivatives of one output, in batches where its operators allow it. */
static gd_status rows_of(gd_tensor *matrix, int64_t first, gd_tensor *output, gd_tensor *const *params,
                         int count, gd_tensor **grads)
{
    gd_ctx *ctx = matrix->head.ctx;
    gd_status status = GD_OK;
    int64_t k = output->ndim < GD_MAX_DIMS ? block_of(output, matrix->size[1]) : 1;
    for (int64_t at = 0; at < output->numel && !status;) {
        int64_t rows = output->numel - at < k ? output->numel - at : k;
        gd_scope_begin(ctx);
        gd_tensor *seeds = output->ndim < GD_MAX_DIMS ? unit_seeds(output, at, rows) : NULL;
        status = seeds && rows > 1 ? gd__grad_batch(output, seeds, params, count, grads) : GD_NOT_IMPLEMENTED;
        if (status == GD_NOT_IMPLEMENTED && !gd_error(ctx)) {
            /* one by one */
            k = rows = 1;
            gd_tensor *seed = unit_seeds(output, at, 1);
            seed = seed ? gd__reshape(seed, output->ndim, output->size) : NULL;
            status = seed ? gd_grad(output, seed, params, count, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED, grads)
                          : gd_error(ctx);
        }
        if (!status) status = write_rows(matrix, first + at, rows, grads, params, count);
        gd_scope_end(ctx);
        at += rows;
    }
    return status;
}

gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                               int count)
{
    gd_ctx *ctx = params[0]->head.ctx;
    int64_t size[2] = {elements(outputs, output_count), elements(params, count)}, first = 0;
    gd_tensor **grads = gd__calloc(ctx, (size_t)count * sizeof *grads);
    if (!grads) return NULL;
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_empty_on(params[0]->storage->device, common_dtype(params, count), 2, size);
    if (matrix && gd_fill(matrix, 0)) matrix = NULL;
    gd_no_grad_end(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = matrix ? GD_OK : gd_error(ctx);
    for (int i = 0; i < output_count && !status; i++) {
        if (gd_requires_grad(outputs[i])) status = rows_of(matrix, first, outputs[i], params, count, grads);
        first += outputs[i]->numel;
    }
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, grads, (size_t)count * sizeof *grads);
    if (!status) return matrix;
    gd_release(matrix);
    return NULL;
}

/* The transposed Jacobian [n, m]: J^T u with history in u, whose derivatives are the columns. */
static gd_tensor *columns_of(gd_tensor *residuals, gd_tensor *const *params, int count)
{
    gd_ctx *ctx = residuals->head.ctx;
    gd_tensor **product = gd__calloc(ctx, (size_t)count * sizeof *product), *columns = NULL;
    if (!product) return NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_tensor *u = gd_require_grad(gd_zeros_like(residuals));
    if (u && gd_grad(residuals, u, params, count, GD_CREATE_GRAPH, product) == GD_OK)
        columns = gd_keep(gd__derivative_rows(product, count, &u, 1));
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    gd__free(ctx, product, (size_t)count * sizeof *product);
    return columns;
}

gd_tensor *gd__jacobian_matrix(gd_tensor *residuals, gd_tensor *const *params, int count)
{
    gd_ctx *ctx = residuals->head.ctx;
    int64_t m = residuals->numel, n = elements(params, count);
    if (!gd_requires_grad(residuals)) return gd_zeros(ctx, common_dtype(params, count), 2, (int64_t[]){m, n});
    /* a pass over the graph of J^T u costs about twice one over the graph of r */
    if (m <= 2 * n) return gd__derivative_rows(&residuals, 1, params, count);
    gd_scope_begin(ctx);
    gd_tensor *columns = columns_of(residuals, params, count);
    gd_no_grad_begin(ctx);
    gd_tensor *out = columns ? gd_contiguous(gd_transpose(columns, 0, 1)) : NULL;
    if (out && out->dtype != common_dtype(params, count)) out = gd_cast(out, common_dtype(params, count));
    gd_keep(out);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return out;
}
