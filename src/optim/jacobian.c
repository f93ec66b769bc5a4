/* Jacobians and Hessians by repeated reverse passes over one graph. */
#include "optim/jacobian.h"

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

/* row (1-D view of the matrix) = the gradients one after the other; those that are NULL are zeros already. */
static gd_status write_row(gd_tensor *matrix, int64_t row, gd_tensor *const *grads, gd_tensor *const *params, int count)
{
    gd_status status = GD_OK;
    int64_t at = 0;
    for (int i = 0; i < count && !status; i++) {
        int64_t m = params[i]->numel;
        if (grads[i]) {
            gd_tensor *target = gd__slice(gd__slice(matrix, 0, row, 1, 1), 1, at, m, 1);
            gd_tensor *source = gd__reshape(grads[i], 2, (int64_t[]){1, m});
            status = target && source ? gd_assign(target, source) : gd_error(matrix->head.ctx);
        }
        at += m;
    }
    return status;
}

/* A seed like `output` with a one at k. */
static gd_tensor *unit_like(gd_tensor *output, int64_t k)
{
    gd_tensor *flat = gd_zeros(output->head.ctx, output->dtype, 1, &output->numel);
    gd_tensor *one = flat ? gd__slice(flat, 0, k, 1, 1) : NULL;
    if (!one || gd_fill(one, 1)) return NULL;
    return gd__reshape(flat, output->ndim, output->size);
}

/* Rows first .. of the matrix: the derivatives of one output. */
static gd_status rows_of(gd_tensor *matrix, int64_t first, gd_tensor *output, gd_tensor *const *params, int count,
                         gd_tensor **grads)
{
    gd_ctx *ctx = matrix->head.ctx;
    gd_status status = GD_OK;
    for (int64_t k = 0; k < output->numel && !status; k++) {
        gd_scope_begin(ctx);
        gd_tensor *seed = unit_like(output, k);
        status = seed ? gd_grad(output, seed, params, count, GD_RETAIN_GRAPH | GD_ALLOW_UNUSED, grads) : gd_error(ctx);
        if (!status) status = write_row(matrix, first + k, grads, params, count);
        gd_scope_end(ctx);
    }
    return status;
}

gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params, int count)
{
    gd_ctx *ctx = params[0]->head.ctx;
    int64_t size[2] = {elements(outputs, output_count), elements(params, count)}, first = 0;
    gd_tensor **grads = gd__calloc(ctx, (size_t)count * sizeof *grads);
    if (!grads) return NULL;
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_zeros(ctx, common_dtype(params, count), 2, size);
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
