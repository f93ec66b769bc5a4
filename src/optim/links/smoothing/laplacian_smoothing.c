/* Laplacian smoothing of the update: (1 - sigma D)^-1 u with D the second difference of neighbours, the last element being the
 * neighbour of the first (Osher et al. 2018).  Elements are taken in their order in memory, tensor by tensor or all in a row.
 *
 * In place of a Fourier transform the circulant matrix is factored,
 *
 *     1 - sigma D = (1 - r S) (1 - r S^-1) / c,   S the shift by one, c = 2 / (1 + 2 sigma + sqrt(1 + 4 sigma)), r = sigma c,
 *
 * and 1 / (1 - r S) = (1 + r S) (1 + r^2 S^2) (1 + r^4 S^4) ... until r^k is below rounding: 6 factors for sigma 1, 10 for 100.
 *
 * No state.  A number that is not finite spreads over the tensor. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("sigma", 1, 0, 1e9, "strength"),
    GD_FLAG("layerwise", true, "each tensor for itself, else all as one vector"),
    GD_INT("min_numel", 4, 0, 1e15, "tensors with fewer elements stay as they are, with layerwise"),
    GD_TARGET,
};

/* x + a times x moved on by `by` places; what leaves at the end comes in again in front. */
static gd_tensor *add_moved(gd_tensor *x, double a, int64_t by)
{
    int64_t n = gd_numel(x);
    by %= n;
    if (by == 0) return gd_mul_scalar(x, 1 + a);
    gd_tensor *parts[2] = {gd_slice(x, "0", n - by, n, 1), gd_slice(x, "0", 0, n - by, 1)};
    return gd_add(x, gd_mul_scalar(gd_cat(parts, 2, "0"), a));
}

/* The vector x, smoothed. */
static gd_tensor *smoothed(gd_tensor *x, double sigma)
{
    double c = 2 / (1 + 2 * sigma + sqrt(1 + 4 * sigma)), r = sigma * c, a = r;
    int64_t n = gd_numel(x), by = 1 % n;
    for (; a > 1e-18 && x; a *= a) {
        x = add_moved(add_moved(x, a, by), a, n - by);
        by = 2 * by % n;
    }
    return gd_mul_scalar(x, c);
}

static gd_tensor *vector_of(gd_tensor *x, gd_dtype dtype)
{
    return gd_cast(gd_reshape(gd_drop_names(x), 1, (int64_t[]){gd_numel(x)}), dtype);
}

static gd_dtype widest(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++)
        if (gd_tensor_dtype(t->tensors[i]) == GD_F64) return GD_F64;
    return GD_F32;
}

/* Into the tensor, whose shape it takes. */
static gd_status put_vector(gd_tensor *into, gd_tensor *vector)
{
    int64_t size[GD_MAX_DIMS];
    for (int k = 0; k < gd_ndim(into); k++) size[k] = gd_size(into, k);
    gd_tensor *u = gd_reshape(vector, gd_ndim(into), size);
    return u ? gd_assign(into, u) : gd_error(gd_tensor_ctx(into));
}

static gd_status smooth_each(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        gd_tensor *x = t->tensors[i];
        if (gd_numel(x) == 0 || (double)gd_numel(x) < gd_link_real(t->link, "min_numel", t->keys[i]))
            continue;
        gd_dtype dtype = gd_tensor_dtype(x) == GD_F64 ? GD_F64 : GD_F32;
        gd_tensor *v = vector_of(x, dtype);
        status = v ? put_vector(x, smoothed(v, gd_link_real(t->link, "sigma", t->keys[i])))
                   : gd_error(gd_link_ctx(t->link));
    }
    return status;
}

static gd_status smooth_all(const gd_transform *t)
{
    gd_ctx *ctx = gd_link_ctx(t->link);
    gd_tensor **part = gd_link_scratch(t->link, t->count);
    if (!part) return gd_error(ctx);
    for (int i = 0; i < t->count; i++)
        if (!(part[i] = vector_of(t->tensors[i], widest(t)))) return gd_error(ctx);
    gd_tensor *all = gd_cat(part, t->count, "0");
    if (!all) return gd_error(ctx);
    if (gd_numel(all) == 0) return GD_OK;
    all = smoothed(all, gd_link_real(t->link, "sigma", NULL));
    gd_status status = all ? GD_OK : gd_error(ctx);
    int64_t at = 0;
    for (int i = 0; i < t->count && !status; i++) {
        int64_t end = at + gd_numel(t->tensors[i]);
        status = put_vector(t->tensors[i], gd_slice(all, "0", at, end, 1));
        at = end;
    }
    return status;
}

static gd_status laplacian_apply(const gd_transform *t)
{
    return gd_link_flag(t->link, "layerwise") ? smooth_each(t) : smooth_all(t);
}

GD_LINK(smoothing, laplacian_smoothing,
    .spread = GD_SPREAD_WHOLE,
    .summary = "makes neighbouring elements of the update more alike",
    .formula = "(1 - sigma D)^-1 u, D u_i = u_(i-1) - 2 u_i + u_(i+1), in a circle",
    .paper = "Osher et al., Laplacian smoothing gradient descent, 2018",
    .cost = "about 2 log2(40 sqrt(sigma)) passes, no state",
    .example = "laplacian_smoothing(2) | lr(0.1)",
    GD_FIELDS(fields),
    .apply_tensors = laplacian_apply);
