/* Jacobians and Hessians over all parameters. */
#include "optim/vector/jacobian.h"

#include "autograd/rows.h"
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"
#include "tensor/shape.h"
#include "tensor/tensor.h"

/* [elements of outputs, elements of params]; NULL without an error where GD_SPARSE is refused. */
static gd_tensor *derivatives(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                              int count, int flags)
{
    gd_ctx *ctx = params[0]->head.ctx;
    int64_t size[2] = {gd__list_numel(outputs, output_count), gd__list_numel(params, count)}, at = 0;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **into = gd__calloc(ctx, bytes);
    if (!into) return NULL;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_empty_on(params[0]->storage->device, gd__list_dtype(params, count), 2, size);
    gd_status status = matrix ? GD_OK : gd_error(ctx);
    for (int i = 0; i < count && !status; i++) {
        if (!(into[i] = gd__slice(matrix, 1, at, params[i]->numel, 1))) status = GD_NOMEM;
        at += params[i]->numel;
    }
    gd_no_grad_end(ctx);
    if (!status) status = gd__fill_rows(outputs, output_count, params, count, flags, into);
    if (!status) gd_keep(matrix);
    gd_scope_end(ctx);
    gd__free(ctx, into, bytes);
    return status ? NULL : matrix;
}

gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                               int count)
{
    return derivatives(outputs, output_count, params, count, 0);
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
    int64_t m = residuals->numel, n = gd__list_numel(params, count);
    if (!gd_requires_grad(residuals))
        return gd_zeros(ctx, gd__list_dtype(params, count), 2, (int64_t[]){m, n});
    gd_tensor *sparse = derivatives(&residuals, 1, params, count, GD_SPARSE);
    if (sparse || gd_error(ctx)) return sparse;
    /* a pass over the graph of J^T u costs about twice one over the graph of r */
    if (m <= 2 * n) return gd__derivative_rows(&residuals, 1, params, count);
    gd_scope_begin(ctx);
    gd_tensor *columns = columns_of(residuals, params, count);
    gd_no_grad_begin(ctx);
    gd_tensor *out = columns ? gd_contiguous(gd_transpose(columns, 0, 1)) : NULL;
    if (out && out->dtype != gd__list_dtype(params, count)) out = gd_cast(out, gd__list_dtype(params, count));
    gd_keep(out);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return out;
}
