/* Leaving a point and coming back to it. */
#include "optim/vector/origin.h"

#include "base/ctx.h"
#include "tensor/tensor_internal.h"

static size_t origin_bytes(const gd_origin *o)
{
    return (size_t)o->count * (sizeof *o->value + sizeof *o->version);
}

static gd_status origin_new(gd_origin *o, gd_ctx *ctx, gd_tensor *const *params, int count)
{
    *o = (gd_origin){.ctx = ctx, .params = params, .count = count};
    if (!(o->value = gd__calloc(ctx, origin_bytes(o)))) return GD_NOMEM;
    o->version = (uint32_t *)(void *)(o->value + count);
    return GD_OK;
}

/* A copy of parameter i, in memory that is there after the first time. */
static gd_status copy(gd_origin *o, int i)
{
    if (o->value[i]) return gd_assign(o->value[i], o->params[i]);
    o->value[i] = gd__own_copy(o->params[i], o->params[i]->dtype, o->params[i]->storage->device);
    return o->value[i] ? GD_OK : gd_error(o->ctx);
}

gd_status gd__origin_keep(gd_origin *o, gd_ctx *ctx, gd_tensor *const *params, int count)
{
    gd_status status = o->value || !count ? GD_OK : origin_new(o, ctx, params, count);
    for (int i = 0; i < o->count && !status; i++) status = copy(o, i);
    o->kept = !status;
    for (int i = 0; i < o->count && !status; i++) o->version[i] = gd__version(params[i]);
    return status;
}

gd_status gd__origin_return(gd_origin *o)
{
    gd_status status = GD_OK;
    if (!o->kept) return GD_OK; /* never left */
    for (int i = 0; i < o->count; i++) {
        gd_status one = gd_assign(o->params[i], o->value[i]);
        if (!status) status = one;
    }
    for (int i = 0; i < o->count && !status; i++)
        if (o->params[i]->dtype == o->value[i]->dtype) gd__as_before(o->params[i], o->version[i]);
    return status;
}

void gd__origin_free(gd_origin *o)
{
    for (int i = 0; i < o->count && o->value; i++) gd__release(o->value[i]);
    if (o->value) gd__free(o->ctx, o->value, origin_bytes(o));
    *o = (gd_origin){0};
}
