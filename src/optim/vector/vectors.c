/* Lists of tensors as one vector. */
#include "optim/vector/vectors.h"

#include "optim/vector/layout.h"
#include "tensor/shape.h"

#include <math.h>

gd_tensor *gd__vector_copy(gd_ctx *ctx, gd_tensor *const *list, int count, gd_dtype dtype)
{
    gd_layout l;
    gd_status status = gd__layout_init(&l, ctx, list, count);
    gd_tensor *vector = status ? NULL : gd_empty_on(l.device, dtype, 1, &l.total);
    if (vector) status = gd__list_to_vector(&l, list, vector);
    gd__layout_free(&l);
    return status ? NULL : vector;
}

gd_tensor *gd__vector_of(gd_ctx *ctx, gd_tensor *const *list, int count)
{
    gd_dtype dtype = gd__list_dtype(list, count);
    if (count != 1) return gd__vector_copy(ctx, list, count, dtype);
    return gd_cast(gd_reshape(list[0], 1, (int64_t[]){list[0]->numel}), dtype);
}

gd_status gd__vector_split(gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out)
{
    gd_ctx *ctx = gd_tensor_ctx(like[0]);
    int64_t at = 0;
    for (int i = 0; i < count && vector; at += like[i++]->numel) {
        gd_scope_begin(ctx);
        gd_tensor *piece = count == 1 ? vector : gd__slice(vector, 0, at, like[i]->numel, 1);
        piece = piece ? gd__reshape(piece, like[i]->ndim, like[i]->size) : NULL;
        piece = piece ? gd_cast(piece, like[i]->dtype) : NULL;
        out[i] = gd_keep(piece ? gd__relabel_like(piece, like[i]) : NULL);
        gd_scope_end(ctx);
        if (!out[i]) return gd_error(ctx);
    }
    return vector ? GD_OK : gd_error(ctx);
}

gd_status gd__set_update_vector(gd_link *link, gd_var *var, gd_tensor *vector)
{
    int count = gd_var_count(var);
    gd_tensor **list = vector ? gd_link_scratch(link, count) : NULL;
    if (!list) return gd_error(gd_var_ctx(var));
    gd_status status = gd__vector_split(vector, gd_var_params(var), count, list);
    return status ? status : gd_var_set_update(var, list);
}

gd_status gd__set_zero_update(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_tensor **list = gd_link_scratch(link, count);
    if (!list) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++)
        if (!(list[i] = gd_zeros_like(gd_var_params(var)[i]))) return gd_error(gd_var_ctx(var));
    return gd_var_set_update(var, list);
}

gd_tensor *gd__inner_update_vector(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_ctx *ctx = gd_var_ctx(var);
    gd_link *inner = gd_link_child(link, "inner");
    gd_tensor *const *update = gd_var_read_update(var);
    if (!update) return NULL;
    if (!inner) return gd__vector_of(ctx, update, count);
    gd_var *clone = gd_var_clone(var, false, var);
    gd_tensor *vector = NULL;
    if (clone && gd_link_step(inner, clone) == GD_OK && (update = gd_var_read_update(clone))) {
        vector = gd__vector_of(ctx, update, count);
        /* one parameter: the vector may be a view of what the clone owns */
        if (vector && count == 1) vector = gd_copy(vector);
    }
    if (clone) gd_var_take_from(var, clone);
    gd_var_free(clone);
    return vector;
}

static double reduced(gd_ctx *ctx, gd_tensor *value)
{
    double number = value ? gd_item(value) : NAN;
    gd_scope_end(ctx);
    return number;
}

double gd__vector_dot(gd_tensor *a, gd_tensor *b)
{
    if (!a || !b) return NAN;
    gd_scope_begin(gd_tensor_ctx(a));
    return reduced(gd_tensor_ctx(a), gd_dot(a, b));
}

double gd__vector_norm(gd_tensor *a) { return sqrt(gd__vector_dot(a, a)); }

bool gd__vector_finite(gd_tensor *a)
{
    if (!a) return false;
    gd_scope_begin(gd_tensor_ctx(a));
    return reduced(gd_tensor_ctx(a), gd_all(gd_isfinite(a), NULL, false)) != 0;
}

gd_tensor *gd__vector_sum(gd_tensor *a, double alpha, gd_tensor *b)
{
    if (!a || !b) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(a);
    gd_scope_begin(ctx);
    gd_tensor *sum = gd_keep(gd_add(a, gd_mul_scalar(b, alpha)));
    gd_scope_end(ctx);
    return sum;
}

double gd__vector_eps(const gd_tensor *a) { return gd_tensor_dtype(a) == GD_F64 ? 0x1p-52 : 0x1p-23; }

gd_tensor *gd__vector_most(gd_tensor *x)
{
    return !x || gd_numel(x) ? gd_max(x, NULL, false) : gd_sum(x, NULL, false);
}
