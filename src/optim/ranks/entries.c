/* State of links that work on whole tensors: the rank that owns a parameter has all of its state.
 *
 * Others do not know the shapes of its slots. To give the state to all, the owner sends the shapes first:
 *
 *     numbers per slot: does it exist, fresh, named as the parameter, on the host, dtype, axes, sizes    ...    scalars, missed steps
 *     bytes of each existing slot */
#include "optim/ranks/share.h"

enum { THERE, FRESH, NAMED, HOST, DTYPE, NDIM, SIZES, NUMBERS = SIZES + GD_MAX_DIMS }; /* of a slot */

static int numbers_of(const gd_link_class *cls) { return cls->slot_count * NUMBERS + cls->scalar_count + 1; }

static bool is_owner(const gd_optimizer *o, const gd_entry *e)
{
    return gd__share_owner(o, e->param) == gd_world_rank(o->shared.share->world);
}

void gd__share_part(gd_link *link, gd_entry *e)
{
    e->parted = true;
    if (is_owner(link->optimizer, e)) return;
    for (int k = 0; k < link->cls->slot_count; k++)
        if (e->slot[k]) gd__entry_put(link, e, k, NULL, false);
    for (int k = 0; k < link->cls->scalar_count; k++) e->scalar[k] = 0;
}

static void say(const gd_link *link, const gd_entry *e, double *out)
{
    for (int k = 0; k < link->cls->slot_count; k++, out += NUMBERS) {
        const gd_tensor *t = e->slot[k];
        if (!t) continue;
        out[THERE] = 1;
        out[FRESH] = e->fresh[k];
        out[NAMED] = t->axes && gd__same_shape(t, e->param);
        out[HOST] = t->storage->device == gd__cpu(t->head.ctx);
        out[DTYPE] = t->dtype;
        out[NDIM] = t->ndim;
        for (int i = 0; i < t->ndim; i++) out[SIZES + i] = (double)t->size[i];
    }
    for (int k = 0; k < link->cls->scalar_count; k++) *out++ = e->scalar[k];
    *out = (double)e->missed;
}

/* A slot as the owner has it; without memory only its shape. */
static gd_tensor *slot_like(const gd_entry *e, const double *said, bool room)
{
    gd_device *device = said[HOST] != 0 ? gd__cpu(e->param->head.ctx) : e->param->storage->device;
    int64_t size[GD_MAX_DIMS];
    int ndim = (int)said[NDIM];
    gd_dtype dtype = (gd_dtype)said[DTYPE];
    for (int i = 0; i < ndim; i++) size[i] = (int64_t)said[SIZES + i];
    gd_tensor *t = room ? gd__new(device, dtype, ndim, size)
                        : gd__new_over(device, "world", dtype, ndim, size);
    if (t && said[NAMED] != 0) gd__axes_retain(t->axes = e->param->axes);
    return t;
}

/* The data of a slot for other ranks; a rank without memory reports it there. */
static gd_status tell_slot(gd_link *link, gd_entry *e, int slot, const double *said, int owner, bool bytes)
{
    gd_optimizer *o = link->optimizer;
    bool mine = owner == gd_world_rank(o->shared.share->world);
    gd_tensor *t = mine ? e->slot[slot] : slot_like(e, said, bytes);
    gd_collective what = {
        .kind = GD_BROADCAST, .root = owner, .tensor = t, .name = link->cls->slots[slot].name};
    if (!t) what.failed = GD_NOMEM;
    gd_status status = bytes ? gd__share_call(o->shared.share, &what) : t ? GD_OK : gd_error(o->ctx);
    if (status || mine) return status;
    gd__own(t);
    gd__entry_put(link, e, slot, t, said[FRESH] != 0);
    return GD_OK;
}

static gd_status tell(gd_link *link, gd_entry *e, double *said, int owner, bool bytes)
{
    gd_optimizer *o = link->optimizer;
    const gd_link_class *cls = link->cls;
    bool mine = owner == gd_world_rank(o->shared.share->world);
    gd_collective what = {.kind = GD_BROADCAST, .root = owner, .name = cls->name};
    if (said && mine) say(link, e, said);
    if (said) what.tensor = gd__share_memory(gd__cpu(o->ctx), GD_F64, said, numbers_of(cls));
    if (!what.tensor) what.failed = GD_NOMEM;
    gd_status status = gd__share_call(o->shared.share, &what);
    for (int k = 0; k < cls->slot_count && !status; k++)
        if (said[k * NUMBERS + THERE] != 0)
            status = tell_slot(link, e, k, said + (ptrdiff_t)k * NUMBERS, owner, bytes);
    const double *rest = said + (ptrdiff_t)cls->slot_count * NUMBERS;
    for (int k = 0; k < cls->scalar_count && !status; k++) e->scalar[k] = rest[k];
    if (!status) e->missed = (int64_t)rest[cls->scalar_count];
    return status;
}

gd_status gd__share_entry(gd_link *link, gd_entry *e, bool bytes)
{
    gd_optimizer *o = link->optimizer;
    int owner = gd__share_owner(o, e->param);
    size_t size = (size_t)numbers_of(link->cls) * sizeof(double);
    double *said = gd__calloc(o->ctx, size);
    gd_scope_begin(o->ctx);
    gd_status status = tell(link, e, said, owner, bytes);
    gd_scope_end(o->ctx);
    gd__free(o->ctx, said, size);
    if (!status)
        e->parted = false;
    else
        gd__share_part(link, e); /* as it was */
    return status;
}
