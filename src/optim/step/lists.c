/* Lists of owned tensors, and their match with parameters. */
#include "optim/step/var_internal.h"
#include "tensor/elementwise.h"

gd_tensor **gd__tensors_new(gd_ctx *ctx, int count)
{
    return gd__calloc(ctx, (size_t)count * sizeof(gd_tensor *));
}

void gd__tensors_free(gd_ctx *ctx, gd_tensor **t, int count)
{
    if (!t) return;
    for (int i = 0; i < count; i++) gd__release(t[i]);
    gd__free(ctx, t, (size_t)count * sizeof *t);
}

gd_tensor **gd__tensors_share(gd_ctx *ctx, gd_tensor *const *t, int count)
{
    gd_tensor **list = t ? gd__tensors_new(ctx, count) : NULL;
    for (int i = 0; list && i < count; i++) {
        gd__retain(t[i]);
        list[i] = t[i];
    }
    return list;
}

gd_tensor **gd__tensors_copy(gd_ctx *ctx, gd_tensor *const *t, int count)
{
    gd_tensor **list = gd__tensors_new(ctx, count);
    for (int i = 0; list && i < count; i++) {
        list[i] = gd__copy_on(t[i], t[i]->storage->device);
        if (list[i]) continue;
        gd__tensors_free(ctx, list, count);
        list = NULL;
    }
    return list;
}

gd_tensor *const *gd__tensors_laid(gd_ctx *ctx, gd_tensor *const *t, gd_tensor *const *params, int count,
                                   gd_tensor ***copies)
{
    int i = 0;
    *copies = NULL;
    while (t && i < count && gd__laid_alike(t[i], params[i])) i++;
    if (!t || i == count) return t;
    gd_tensor **list = gd__tensors_share(ctx, t, count);
    for (; list && i < count; i++) {
        if (gd__laid_alike(t[i], params[i])) continue;
        gd__release(list[i]);
        list[i] = gd__copy_laid(t[i], params[i]);
        if (list[i]) continue;
        gd__tensors_free(ctx, list, count);
        list = NULL;
    }
    return *copies = list;
}

gd_tensor **gd__tensors_like(gd_ctx *ctx, gd_tensor *const *t, int count)
{
    gd_tensor **list = gd__tensors_new(ctx, count);
    gd_scope_begin(ctx);
    for (int i = 0; list && i < count; i++) {
        gd__own(list[i] = gd__new_laid(t[i], t[i]->dtype));
        if (list[i]) continue;
        gd__tensors_free(ctx, list, count);
        list = NULL;
    }
    gd_scope_end(ctx);
    return list;
}

gd_status gd__give_out(gd_ctx *ctx, gd_tensor **t, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count; i++) {
        if (status)
            gd__release(t[i]);
        else
            status = gd__scope_take(t[i]);
    }
    for (int i = 0; i < count && status; i++) t[i] = NULL;
    return status ? gd_error(ctx) : GD_OK;
}

/* SHAPE unless every tensor is shaped like its parameter and on its device. */
static gd_status check_like(gd_ctx *ctx, const char *what, gd_tensor *const *t, gd_tensor *const *params,
                            int count)
{
    for (int i = 0; i < count; i++) {
        char got[256], want[256];
        if (!t[i]) {
            gd_status before = gd_error(ctx);
            return before ? before : gd_fail(ctx, GD_ARGUMENT, "%s: tensor %d is NULL", what, i);
        }
        if (!gd__same_shape(t[i], params[i]))
            return gd_fail(ctx, GD_SHAPE, "%s: tensor %d is %s, its parameter %s", what, i,
                           gd__shape_text(t[i], got, sizeof got),
                           gd__shape_text(params[i], want, sizeof want));
        if (!gd_dtype_is_float(t[i]->dtype))
            return gd_fail(ctx, GD_DTYPE, "%s: tensor %d is %s, not floating", what, i,
                           gd_dtype_name(t[i]->dtype));
        if (t[i]->storage->device != params[i]->storage->device)
            return gd_fail(ctx, GD_DEVICE, "%s: tensor %d and its parameter are on different devices", what,
                           i);
    }
    return GD_OK;
}

/* An owned tensor becomes one with the axes and labels of its parameter in their order. */
static gd_status align_one(gd_ctx *ctx, const char *what, gd_tensor **t, const gd_tensor *param)
{
    gd_scope_begin(ctx);
    gd_tensor *seen = gd__aligned_to(what, *t, param);
    if (seen && seen != *t) {
        gd__own(seen);
        gd__release(*t);
        *t = seen;
    }
    gd_scope_end(ctx);
    return seen ? GD_OK : gd_error(ctx);
}

gd_status gd__lsq_like(gd_ctx *ctx, const char *what, gd_tensor **t, gd_tensor *const *params, int count)
{
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++)
        if (t[i] && gd__may_differ(t[i], params[i])) status = align_one(ctx, what, &t[i], params[i]);
    return status ? status : check_like(ctx, what, t, params, count);
}
