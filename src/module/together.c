/* A module of several processes: all start with the parameters and buffers of one. */
#include "module/module_internal.h"
#include "world/world_internal.h"

#include <stdio.h>

/* Collectives have names, used in errors about differences. */
static gd_status for_each(const gd_named *all, gd_world *world, gd_collective_kind kind, int root)
{
    gd_status status = GD_OK;
    for (int i = 0; i < all->count && !status; i++) {
        gd_collective what = {
            .kind = kind, .tensor = all->tensors[i], .root = root, .name = all->item[i].name};
        status = gd__world_call(world, &what);
    }
    return status;
}

/* No data are sent before all ranks agree about every tensor. */
static gd_status broadcast(const gd_named *all, gd_world *world, int root)
{
    char text[64];
    (void)snprintf(text, sizeof text, "a module of %d parameters and buffers", all->count);
    gd_status status = gd__world_call(world, &(gd_collective){.kind = GD_BARRIER, .name = text});
    if (!status) status = for_each(all, world, GD_BARRIER, 0);
    return status ? status : for_each(all, world, GD_BROADCAST, root);
}

gd_status gd_module_broadcast(gd_module *module, gd_world *world, int root)
{
    if (!module) return GD_ARGUMENT;
    gd_ctx *ctx = module->head.ctx;
    if (!world) return gd__null(ctx, "module_broadcast: the world is NULL");
    if (gd_world_ctx(world) != ctx)
        return gd_fail(ctx, GD_ARGUMENT,
                       "module_broadcast: the world is of a different context than the module");
    gd_status before = gd_error(ctx);
    gd_named *all = gd__list(module, GD_WANT_PARAMETERS | GD_WANT_BUFFERS, NULL);
    /* without a list: waiting ranks get the reason why this rank cannot take part */
    gd_status status = all ? broadcast(all, world, root) : gd_world_broadcast(world, NULL, root);
    gd__blame(ctx, before, "module_broadcast");
    gd__release(all);
    return status;
}
