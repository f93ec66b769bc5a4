/* Jacobians and Hessians by repeated reverse passes over one graph. */
#include "optim/jacobian.h"

#include "autograd/batch.h"
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

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

/* Where rows first .. of the matrix have the gradients of each parameter; zeros. */
static gd_status open_rows(gd_tensor *matrix, int64_t first, int64_t k, gd_tensor *const *params, int count,
                           gd_tensor **into)
{
    gd_tensor *rows = gd__slice(matrix, 0, first, k, 1);
    int64_t at = 0;
    for (int i = 0; i < count; i++) {
        into[i] = gd__slice(rows, 1, at, params[i]->numel, 1);
        at += params[i]->numel;
    }
    return rows && into[count - 1] ? gd_fill(rows, 0) : gd_error(matrix->head.ctx);
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

/* A matrix that is being filled. */
typedef struct filling {
    gd_tensor *matrix;
    gd_tensor *const *params;
    int count;
    gd_tensor **into, **grads; /* room for one a parameter */
} filling;

/* One row, the ordinary way. */
static gd_status single_row(const filling *f, gd_tensor *output, int64_t at)
{
    gd_ctx *ctx = output->head.ctx;
    gd_tensor *seed = unit_seeds(output, at, 1);
    seed = seed ? gd__reshape(seed, output->ndim, output->size) : NULL;
    gd_status status = seed ? gd_grad(output, seed, f->params, f->count, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED,
                                      f->grads)
                            : gd_error(ctx);
    for (int i = 0; i < f->count && !status; i++) {
        if (!f->grads[i]) continue;
        gd_tensor *row = gd__reshape(f->grads[i], 2, (int64_t[]){1, f->params[i]->numel});
        status = row ? gd_assign(f->into[i], row) : gd_error(ctx);
    }
    return status;
}

/* All rows of one output in one pass over its graph, where they are mostly zeros. */
static gd_status sparse_rows(const filling *f, int64_t first, gd_tensor *output)
{
    gd_ctx *ctx = output->head.ctx;
    gd_scope_begin(ctx);
    gd_status status = open_rows(f->matrix, first, output->numel, f->params, f->count, f->into);
    if (!status) status = gd__grad_batch(output, NULL, f->params, f->count, f->into);
    gd_scope_end(ctx);
    return status;
}

/* Rows first .. of the matrix in batches where the operators allow it, else one by one. */
static gd_status dense_rows(const filling *f, int64_t first, gd_tensor *output)
{
    gd_ctx *ctx = output->head.ctx;
    gd_status status = GD_OK;
    int64_t k = output->ndim < GD_MAX_DIMS ? block_of(output, f->matrix->size[1]) : 1;
    for (int64_t at = 0; at < output->numel && !status;) {
        int64_t rows = output->numel - at < k ? output->numel - at : k;
        gd_scope_begin(ctx);
        status = open_rows(f->matrix, first + at, rows, f->params, f->count, f->into);
        if (!status && rows > 1) {
            gd_tensor *seeds = unit_seeds(output, at, rows);
            status = seeds ? gd__grad_batch(output, seeds, f->params, f->count, f->into) : gd_error(ctx);
            if (status == GD_NOT_IMPLEMENTED && !gd_error(ctx)) {
                k = rows = 1;
                status = open_rows(f->matrix, first + at, 1, f->params, f->count, f->into);
            }
        }
        if (!status && rows == 1) status = single_row(f, output, at);
        gd_scope_end(ctx);
        at += rows;
    }
    return status;
}

typedef enum attempt { ANYHOW, SPARSE } attempt;

static gd_status rows_of(const filling *f, int64_t first, gd_tensor *output, attempt how)
{
    gd_status status = sparse_rows(f, first, output);
    bool refused = status == GD_NOT_IMPLEMENTED && !gd_error(output->head.ctx);
    return refused && how == ANYHOW ? dense_rows(f, first, output) : status;
}

/* NULL without an error: not in the way that was asked for. */
static gd_tensor *derivatives(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                              int count, attempt how)
{
    gd_ctx *ctx = params[0]->head.ctx;
    int64_t size[2] = {elements(outputs, output_count), elements(params, count)}, first = 0;
    size_t bytes = 2 * (size_t)count * sizeof(gd_tensor *);
    filling f = {.params = params, .count = count, .into = gd__calloc(ctx, bytes)};
    if (!f.into) return NULL;
    f.grads = f.into + count;
    gd_no_grad_begin(ctx);
    f.matrix = gd_empty_on(params[0]->storage->device, common_dtype(params, count), 2, size);
    gd_no_grad_end(ctx);
    int previous = gd_enable_grad_begin(ctx);
    gd_status status = f.matrix ? GD_OK : gd_error(ctx);
    for (int i = 0; i < output_count && !status; i++) {
        gd_scope_begin(ctx);
        if (gd_requires_grad(outputs[i]))
            status = rows_of(&f, first, outputs[i], how);
        else
            status = open_rows(f.matrix, first, outputs[i]->numel, params, count, f.into);
        first += outputs[i]->numel;
        gd_scope_end(ctx);
    }
    gd_enable_grad_end(ctx, previous);
    gd__free(ctx, f.into, bytes);
    if (!status) return f.matrix;
    gd_release(f.matrix);
    return NULL;
}

gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                               int count)
{
    return derivatives(outputs, output_count, params, count, ANYHOW);
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
    gd_tensor *sparse = derivatives(&residuals, 1, params, count, SPARSE);
    if (sparse || gd_error(ctx)) return sparse;
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
