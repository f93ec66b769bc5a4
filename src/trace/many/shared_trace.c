/* Traced functions for other threads: see gd_traced_share. */
#include "trace/entry.h"

static bool share_entries(gd_traced *t, const gd_trace_set *from)
{
    gd_trace_set *set = &t->set;
    gd_ctx *ctx = set->ctx;
    for (int k = 0; k < from->count; k++) {
        if (from->entry[k]->state != GD_TRACE_REPLAYS || from->entry[k]->replay->stale) continue;
        const gd_device *device = from->entry[k]->replay->device;
        if (device != device->ctx->cpu)
            return gd__refuse(
                       ctx, GD_DEVICE,
                       "traced_share: the recording of the %s is on %s; only those on the CPU are shared",
                       from->entry[k]->what.name, device->name) != NULL;
        if (!gd__reserve(ctx, &set->entry, set->count, &set->room, sizeof *set->entry)) return false;
        gd_trace_entry *e = gd__trace_entry_share(from->entry[k], ctx, t);
        if (!e) return gd__refuse(ctx, GD_NOMEM, "traced_share: out of memory") != NULL;
        e->retired = &set->retired;
        set->entry[set->count++] = e;
    }
    return true;
}

gd_traced *gd_traced_share(gd_traced *from, gd_ctx *ctx)
{
    if (!ctx) return NULL;
    if (!from) return gd__none(gd__null(ctx, "traced_share: the traced function is NULL"));
    gd_traced *t = gd__calloc(ctx, sizeof *t);
    if (!t) return NULL;
    gd__trace_set_init(&t->set, ctx, from->set.most, false);
    t->by = from->by;
    t->set.compile = from->set.compile;
    t->set.shares = true;
    t->set.check = t->set.off = false; /* there is no function to compare with */
    t->shares = from;
    atomic_fetch_add(&from->shared_by, 1);
    if (share_entries(t, &from->set)) return t;
    gd_traced_free(t);
    return NULL;
}
