/* Lists of tensors as one vector: the public functions. */
#include "gradus/link.h"
#include "optim/vector/layout.h"

#include "tensor/shape.h"

#include <math.h>

/* The context of a list without holes; NULL for others, an error recorded if there is a context to do so. */
static gd_ctx *ctx_of(gd_tensor *const *list, int count)
{
    gd_ctx *ctx = NULL;
    bool whole = list && count > 0;
    for (int i = 0; list && i < count; i++) {
        if (list[i]) ctx = list[i]->head.ctx;
        whole = whole && list[i];
    }
    if (!whole && ctx) (void)gd__null(ctx, "a tensor of a list is NULL");
    return whole ? ctx : NULL;
}

static gd_status open_layout(gd_layout *l, gd_tensor *const *x, gd_tensor *const *y, int count,
                             const void *out)
{
    gd_ctx *ctx = ctx_of(x, count);
    if (!ctx || !ctx_of(y, count) || !out)
        return ctx ? gd__null(ctx, "a list of tensors is NULL") : GD_ARGUMENT;
    return gd__layout_init(l, ctx, x, count);
}

gd_status gd_list_dot(gd_tensor *const *x, gd_tensor *const *y, int count, double *out)
{
    gd_layout l;
    gd_status status = open_layout(&l, x, y, count, out);
    if (status) return status;
    status = gd__list_dot(&l, x, y, out);
    gd__layout_free(&l);
    return status;
}

/* Any order: tensor by tensor. */
static gd_status power_norm(gd_ctx *ctx, gd_tensor *const *x, int count, double p, double *out)
{
    double sum = 0;
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) {
        gd_scope_begin(ctx);
        gd_tensor *norm = gd_norm(gd_drop_names(x[i]), p, NULL, false);
        if (norm)
            sum += pow(gd_item(norm), p);
        else
            status = gd_error(ctx);
        gd_scope_end(ctx);
    }
    *out = pow(sum, 1 / p);
    return status;
}

gd_status gd_list_norm(gd_tensor *const *x, int count, double p, double *out)
{
    gd_layout l;
    gd_status status = open_layout(&l, x, x, count, out);
    if (status) return status;
    if (p == 2) {
        status = gd__list_dot(&l, x, x, out);
        *out = sqrt(*out);
    } else if (p == 1 || isinf(p))
        status = p == 1 ? gd__list_sum(&l, x, out) : gd__list_largest(&l, x, out);
    else
        status = l.own ? gd__not_own(l.ctx) : power_norm(l.ctx, x, count, p, out);
    gd__layout_free(&l);
    return status;
}

gd_status gd_list_scaled(gd_tensor *const *x, double a, int count, gd_tensor **out)
{
    gd_layout l;
    gd_status status = open_layout(&l, x, x, count, out);
    if (status) return status;
    status = gd__list_scaled(&l, x, a, out);
    gd__layout_free(&l);
    return status;
}

gd_status gd_list_combined(gd_tensor *const *x, double a, gd_tensor *const *y, double b, int count,
                           gd_tensor **out)
{
    gd_layout l;
    gd_status status = open_layout(&l, x, y, count, out);
    if (status) return status;
    status = gd__list_combined(&l, x, a, y, b, out);
    gd__layout_free(&l);
    return status;
}

gd_tensor *gd__vector_copy(gd_ctx *ctx, gd_tensor *const *list, int count, gd_dtype dtype)
{
    gd_layout l;
    gd_status status = gd__layout_init(&l, ctx, list, count);
    gd_tensor *vector = status ? NULL : gd_empty_on(l.device, dtype, 1, &l.total);
    if (vector) status = gd__list_to_vector(&l, list, vector);
    gd__layout_free(&l);
    return status ? NULL : vector;
}

gd_tensor *gd_list_vector(gd_tensor *const *list, int count)
{
    gd_ctx *ctx = ctx_of(list, count);
    if (!ctx) return NULL;
    gd_dtype dtype = gd__list_dtype(list, count);
    if (count != 1) return gd__vector_copy(ctx, list, count, dtype);
    gd_scope_begin(ctx);
    return gd__scope_leave(ctx, gd_cast(gd_reshape(list[0], 1, (int64_t[]){list[0]->numel}), dtype));
}

gd_status gd_list_split(gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out)
{
    gd_ctx *ctx = ctx_of(like, count);
    if (!ctx || !vector || !out)
        return gd__null(vector ? vector->head.ctx : ctx, "the vector of a list is NULL");
    int64_t at = 0;
    for (int i = 0; i < count; at += like[i++]->numel) {
        gd_scope_begin(ctx);
        gd_tensor *piece = count == 1 ? vector : gd__slice(vector, 0, at, like[i]->numel, 1);
        piece = piece ? gd__reshape(piece, like[i]->ndim, like[i]->size) : NULL;
        piece = piece ? gd_cast(piece, like[i]->dtype) : NULL;
        out[i] = gd_keep(piece ? gd__relabel_like(piece, like[i]) : NULL);
        gd_scope_end(ctx);
        if (!out[i]) return gd_error(ctx);
    }
    return GD_OK;
}

/* ---- vectors ---- */

static double reduced(gd_ctx *ctx, gd_tensor *value)
{
    double number = value ? gd_item(value) : NAN;
    gd_scope_end(ctx);
    return number;
}

double gd_vector_dot(gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NAN;
    gd_scope_begin(gd_tensor_ctx(a));
    return reduced(gd_tensor_ctx(a), gd_dot(a, b));
}

double gd_vector_norm(gd_tensor *a) { return sqrt(gd_vector_dot(a, a)); }

bool gd_vector_finite(gd_tensor *a)
{
    if (!a) return false;
    gd_scope_begin(gd_tensor_ctx(a));
    return reduced(gd_tensor_ctx(a), gd_all(gd_isfinite(a), NULL, false)) != 0;
}

gd_tensor *gd_vector_sum(gd_tensor *a, double alpha, gd_tensor *b)
{
    if (!a || !b) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(a);
    gd_scope_begin(ctx);
    return gd__scope_leave(ctx, gd_add(a, gd_mul_scalar(b, alpha)));
}

double gd_vector_epsilon(const gd_tensor *a) { return gd_tensor_dtype(a) == GD_F64 ? 0x1p-52 : 0x1p-23; }

gd_tensor *gd_vector_most(gd_tensor *x)
{
    return !x || gd_numel(x) ? gd_max(x, NULL, false) : gd_sum(x, NULL, false);
}
