/* Standardising; see dataset.h. */
#include "train/data/dataset.h"

#include <math.h>

/* Numbers of few bits are exact in f32. */
static gd_dtype wide(const gd_tensor *t)
{
    switch (gd_tensor_dtype(t)) {
    case GD_F64:
    case GD_I64:
    case GD_I32: return GD_F64;
    default: return GD_F32;
    }
}

gd_status gd__scaling_measure(gd_tensor *x, gd_standardise how, gd_scaling *out)
{
    *out = (gd_scaling){0};
    if (how == GD_SCALE_NONE) return GD_OK;
    gd_ctx *ctx = gd_tensor_ctx(x);
    const char *axes = how == GD_SCALE_EACH ? "0" : NULL;
    gd__aside_begin(ctx);
    gd_tensor *v = gd_cast(x, GD_F64);
    gd_tensor *mean = gd_mean(v, axes, false);
    gd_tensor *spread = gd_sqrt(gd_mean(gd_square(gd_sub(v, mean)), axes, false));
    gd_tensor *one = gd_ones_like(spread);
    out->mean = gd_keep(gd_copy(mean));
    out->scale = gd_keep(gd_where(gd_gt(spread, gd_zeros_like(spread)), spread, one));
    gd__aside_end(ctx);
    if (out->mean && out->scale) return GD_OK;
    gd__scaling_close(out);
    return gd_error(ctx);
}

gd_status gd__scaling_of_rates(gd_tensor *y, gd_scaling *out)
{
    gd_ctx *ctx = gd_tensor_ctx(y);
    *out = (gd_scaling){0};
    gd__aside_begin(ctx);
    gd_tensor *mean = gd_mean(gd_cast(y, GD_F64), "0", false);
    out->mean = gd_keep(gd_log(gd_clamp(mean, 1e-6, INFINITY)));
    out->scale = gd_keep(gd_ones_like(mean));
    gd__aside_end(ctx);
    if (out->mean && out->scale) return GD_OK;
    gd__scaling_close(out);
    return gd_error(ctx);
}

void gd__scaling_close(gd_scaling *s)
{
    gd_release(s->mean);
    gd_release(s->scale);
    *s = (gd_scaling){0};
}

gd_tensor *gd__scaling_apply(const gd_scaling *s, gd_tensor *x, gd_dtype dtype)
{
    if (!x) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(x);
    gd_dtype within = wide(x);
    gd__aside_begin(ctx);
    if (s->mean) {
        x = gd_cast(x, within);
        gd_device *device = gd_tensor_device(x);
        gd_tensor *mean = gd_to_device(s->mean, device), *scale = gd_to_device(s->scale, device);
        x = gd_div(gd_sub(x, gd_cast(mean, within)), gd_cast(scale, within));
    }
    return gd__aside_leave(ctx, gd_contiguous(gd_cast(x, dtype)));
}

gd_tensor *gd__scaling_undo(const gd_scaling *s, gd_tensor *x)
{
    if (!x) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(x);
    gd_scope_begin(ctx);
    x = gd_cast(x, GD_F64);
    gd_device *device = gd_tensor_device(x);
    if (s->mean) x = gd_add(gd_mul(x, gd_to_device(s->scale, device)), gd_to_device(s->mean, device));
    return gd__scope_leave(ctx, x);
}
