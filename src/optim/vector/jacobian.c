/* Jacobians and Hessians over all parameters. */
#include "optim/vector/jacobian.h"

#include "autograd/rows.h"
#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"
#include "tensor/shape.h"
#include "tensor/tensor_internal.h"

/* Row i of a matrix of columns is column i: the slice of one parameter, [m, elements]. */
static gd_tensor *part_for(gd_tensor *matrix, bool columns, int64_t at, int64_t count)
{
    gd_tensor *part = gd__slice(matrix, columns ? 0 : 1, at, count, 1);
    return columns && part ? gd_transpose(part, 0, 1) : part;
}

/* [elements of outputs, elements of params], with `columns` turned; NULL without an error if GD_SPARSE is not possible. */
static gd_tensor *derivatives(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                              int count, int flags, bool columns)
{
    gd_ctx *ctx = params[0]->head.ctx;
    int64_t m = gd__list_numel(outputs, output_count), n = gd__list_numel(params, count), at = 0;
    int64_t size[2] = {columns ? n : m, columns ? m : n};
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **into = gd__calloc(ctx, bytes);
    if (!into) return NULL;
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *matrix = gd_empty_on(params[0]->storage->device, gd__list_dtype(params, count), 2, size);
    gd_status status = matrix ? GD_OK : gd_error(ctx);
    for (int i = 0; i < count && !status; i++) {
        if (!(into[i] = part_for(matrix, columns, at, params[i]->numel))) status = GD_NOMEM;
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
    return derivatives(outputs, output_count, params, count, 0, false);
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

/* [m, n], or with `columns` [n, m]; that of the parameters' dtype. */
static gd_tensor *jacobian(gd_tensor *residuals, gd_tensor *const *params, int count, bool columns)
{
    gd_ctx *ctx = residuals->head.ctx;
    int64_t m = residuals->numel, n = gd__list_numel(params, count);
    gd_dtype dtype = gd__list_dtype(params, count);
    if (!gd_requires_grad(residuals))
        return gd_zeros(ctx, dtype, 2, (int64_t[]){columns ? n : m, columns ? m : n});
    gd_tensor *sparse = derivatives(&residuals, 1, params, count, GD_SPARSE, columns);
    if (sparse || gd_error(ctx)) return sparse;
    /* a pass over the graph of J^T u costs about twice one over the graph of r */
    if (m <= 2 * n) return derivatives(&residuals, 1, params, count, 0, columns);
    gd_scope_begin(ctx);
    gd_tensor *out = columns_of(residuals, params, count);
    gd_no_grad_begin(ctx);
    if (out && !columns) out = gd_contiguous(gd_transpose(out, 0, 1));
    if (out && out->dtype != dtype) out = gd_cast(out, dtype);
    gd_keep(out);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return out;
}

gd_tensor *gd__jacobian_matrix(gd_tensor *residuals, gd_tensor *const *params, int count)
{
    return jacobian(residuals, params, count, false);
}

gd_tensor *gd__jacobian_columns(gd_tensor *residuals, gd_tensor *const *params, int count)
{
    return jacobian(residuals, params, count, true);
}

/* ---- second derivatives ---- */

/* d y / d params times v, with history, by a reverse pass over the graph of another: y^T u has the gradient J^T u, and that of
 * its product with v by u is J v.  grads: room. */
static gd_tensor *along(gd_tensor *y, gd_tensor *const *params, gd_tensor *const *v, int count,
                        gd_tensor **grads)
{
    gd_tensor *u = gd_require_grad(gd_zeros_like(y)), *sum = NULL, *out = NULL;
    if (!u || gd_grad(y, u, params, count, GD_CREATE_GRAPH, grads)) return NULL;
    for (int i = 0; i < count; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(grads[i]), v[i]), NULL, false);
        sum = sum ? gd_add(sum, term) : term;
    }
    return sum && gd_grad(sum, NULL, &u, 1, GD_CREATE_GRAPH, &out) == GD_OK ? out : NULL;
}

gd_tensor *gd__second_along_list(gd_tensor *residuals, gd_tensor *const *params, gd_tensor *const *v,
                                 int count)
{
    gd_ctx *ctx = residuals->head.ctx;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **grads = gd__calloc(ctx, bytes), *y = NULL;
    if (!grads) return NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    if (gd_requires_grad(residuals)) y = along(residuals, params, v, count, grads);
    y = y && gd_requires_grad(y) ? along(y, params, v, count, grads) : NULL;
    gd_enable_grad_end(ctx, previous);
    y = gd_keep(y ? gd_detach(y) : NULL);
    gd_scope_end(ctx);
    gd__free(ctx, grads, bytes);
    return y;
}

gd_tensor *gd__second_along(gd_tensor *residuals, gd_tensor *const *params, int count,
                            const double *direction)
{
    gd_ctx *ctx = residuals->head.ctx;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **v = gd__calloc(ctx, bytes), *y = NULL;
    if (!v) return NULL;
    gd_scope_begin(ctx);
    if (!gd__list_from(params, count, direction, v))
        y = gd_keep(gd__second_along_list(residuals, params, v, count));
    gd_scope_end(ctx);
    gd__free(ctx, v, bytes);
    return y;
}

gd_status gd__squares_gradient(gd_tensor *residuals, gd_tensor *const *params, int count, gd_tensor **grads)
{
    gd_tensor *half = gd_mul_scalar(gd_sum(gd_square(residuals), NULL, false), 0.5);
    return half ? gd_grad(half, NULL, params, count, GD_CREATE_GRAPH, grads) : gd_error(residuals->head.ctx);
}

gd_tensor *gd__squares_curvature(gd_tensor *residuals, gd_tensor *const *params, int count)
{
    gd_ctx *ctx = residuals->head.ctx;
    gd_tensor **grads = gd__calloc(ctx, (size_t)count * sizeof *grads), *out = NULL;
    if (!grads) return NULL;
    gd_scope_begin(ctx);
    int previous = gd_enable_grad_begin(ctx);
    /* J^T u at u = r, whose derivatives with u held are the sum of r r'' */
    gd_tensor *u = gd_detach(residuals);
    if (u && !gd_grad(residuals, u, params, count, GD_CREATE_GRAPH, grads))
        out = gd_keep(gd__derivative_rows(grads, count, params, count));
    gd_enable_grad_end(ctx, previous);
    gd_scope_end(ctx);
    gd__free(ctx, grads, (size_t)count * sizeof *grads);
    return out;
}

gd_status gd__squares_product_list(gd_tensor *const *grads, gd_tensor *const *params, int count,
                                   gd_tensor *const *v, gd_tensor **out)
{
    gd_ctx *ctx = params[0]->head.ctx;
    gd_tensor *sum = NULL;
    int previous = gd_enable_grad_begin(ctx);
    for (int i = 0; i < count; i++) {
        gd_tensor *term = gd_sum(gd_mul(gd_drop_names(grads[i]), v[i]), NULL, false);
        sum = sum ? gd_add(sum, term) : term;
    }
    gd_status status = sum ? gd_grad(sum, NULL, params, count, GD_RETAIN_GRAPH, out) : gd_error(ctx);
    gd_enable_grad_end(ctx, previous);
    return status;
}

gd_status gd__squares_product(gd_tensor *const *grads, gd_tensor *const *params, int count, const double *v,
                              gd_tensor **list, double *out)
{
    gd_scope_begin(params[0]->head.ctx);
    gd_status status = gd__list_from(params, count, v, list);
    if (!status) status = gd__squares_product_list(grads, params, count, list, list);
    if (!status) status = gd__list_read(list, count, out);
    gd_scope_end(params[0]->head.ctx);
    return status;
}
