/* An optimizer over a world: do all ranks mean the same, and the gradients of all. */
#include "optim/step/distribute.h"
#include "base/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

gd_distribute_options gd_distribute_defaults(void) { return (gd_distribute_options){.bucket = 25 << 20}; }

/* ---- agreeing ---- */

/* Nothing moves: what is on the sheets is compared, and who differs is named. */
static gd_status agree(gd_world *world, gd_tensor *t, const char *name)
{
    return gd__world_call(world, &(gd_collective){.kind = GD_BARRIER, .tensor = t, .name = name});
}

static uint64_t hash_text(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    while (*text) h = (h ^ (unsigned char)*text++) * 0x100000001b3u;
    return h;
}

/* Its beginning, and for the rest a number. */
static gd_status agree_about_chain(gd_optimizer *o, gd_world *world)
{
    size_t size = (size_t)gd_link_print(o->chain, NULL, 0) + 1;
    char *text = gd__alloc(o->ctx, size), name[120];
    if (!text) return gd_world_broadcast(world, NULL, 0); /* the others are told why */
    (void)gd_link_print(o->chain, text, size);
    int most = (int)sizeof name - 40;
    if ((int)size > most)
        (void)snprintf(name, sizeof name, "the chain (%08" PRIx32 ") %.60s...", (uint32_t)hash_text(text),
                       text);
    else
        (void)snprintf(name, sizeof name, "the chain %s", text);
    gd__free(o->ctx, text, size);
    return agree(world, NULL, name);
}

static gd_status agree_about_options(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    static const char *const shards[] = {"none", "state", "gradients"};
    char name[120];
    (void)snprintf(name, sizeof name, "shard %s, reduce %s, bucket %" PRId64 "%s", shards[options->shard],
                   options->reduce == GD_REDUCE_FAST ? "fast" : "exact", options->bucket,
                   options->joined ? ", joined" : "");
    gd_status status = agree(world, NULL, name);
    if (status) return status;
    (void)snprintf(name, sizeof name, "the generator (gd_seed) %" PRIu64 " at %" PRIu64, o->ctx->rng.key,
                   o->ctx->rng.counter);
    return agree(world, NULL, name);
}

/* What tells it from others besides shape and dtype. */
static void name_param(const gd_optimizer *o, int i, char *name, size_t size)
{
    const gd_param *p = &o->param[i];
    int used = snprintf(name, size, "%.60s", p->name);
    if (p->group && used < (int)size)
        used += snprintf(name + used, size - (size_t)used, ", group %d", p->group);
    if (!p->tensor->leaf_grad && used < (int)size)
        used += snprintf(name + used, size - (size_t)used, ", without gradient");
    if (gd__contiguous(p->tensor) || used >= (int)size) return;
    uint64_t order = 0;
    for (int k = 0; k < p->tensor->ndim; k++) order = order * 31 + (uint64_t)p->tensor->stride[k];
    (void)snprintf(name + used, size - (size_t)used, ", in another order (%" PRIu64 ")", order);
}

static gd_status agree_about_params(gd_optimizer *o, gd_world *world)
{
    char name[120];
    (void)snprintf(name, sizeof name, "%d parameters", o->count);
    gd_status status = agree(world, NULL, name);
    for (int i = 0; i < o->count && !status; i++) {
        name_param(o, i, name, sizeof name);
        status = agree(world, o->param[i].tensor, name);
    }
    return status;
}

static gd_status agree_about_all(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    gd_status before = gd_error(o->ctx), status = agree_about_chain(o, world);
    if (!status) status = agree_about_params(o, world);
    if (!status) status = agree_about_options(o, world, options);
    gd__blame(o->ctx, before, "distribute");
    return status;
}

/* ---- beginning and end ---- */

static gd_status check_options(gd_optimizer *o, const gd_distribute_options *options)
{
    if ((unsigned)options->shard > GD_SHARD_GRADIENTS)
        return gd_fail(o->ctx, GD_VALUE, "distribute: there is no way %d to shard", (int)options->shard);
    if ((unsigned)options->reduce > GD_REDUCE_FAST)
        return gd_fail(o->ctx, GD_VALUE, "distribute: there is no sum of kind %d", (int)options->reduce);
    if (options->shard != GD_SHARD_NONE)
        return gd_fail(o->ctx, GD_NOT_IMPLEMENTED, "distribute: state and gradients are not sharded yet");
    if (options->bucket < 1)
        return gd_fail(o->ctx, GD_VALUE, "distribute: a bucket has 1 byte or more, not %" PRId64,
                       options->bucket);
    return GD_OK;
}

static gd_status check_call(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    gd_status status = gd__not_stepping(o, "distributing");
    if (!status) status = check_options(o, options);
    if (!status && gd_world_ctx(world) != o->ctx)
        status = gd_fail(o->ctx, GD_ARGUMENT,
                         "distribute: the world is of another context than the optimizer");
    if (!status && o->capture)
        status = gd_fail(o->ctx, GD_STATE, "distribute: its steps are captured (gd_optimizer_capture)");
    return status;
}

void gd__share_free(gd_optimizer *o)
{
    gd__free(o->ctx, o->share, sizeof *o->share);
    o->share = NULL;
}

gd_status gd_optimizer_distribute(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    if (!o) return GD_ARGUMENT;
    gd_distribute_options chosen = options ? *options : gd_distribute_defaults();
    if (!world) {
        gd__share_free(o);
        return GD_OK;
    }
    gd_status status = check_call(o, world, &chosen);
    gd_share *share = status ? NULL : gd__calloc(o->ctx, sizeof *share);
    /* who cannot take part says so */
    if (!share) return gd_world_ctx(world) == o->ctx ? gd_world_broadcast(world, NULL, 0) : status;
    status = agree_about_all(o, world, &chosen);
    if (status) {
        gd__free(o->ctx, share, sizeof *share);
        return status;
    }
    gd__share_free(o);
    *share = (gd_share){.world = world, .options = chosen};
    o->share = share;
    gd__optimizer_changed(o, true);
    return GD_OK;
}

/* ---- steps ---- */

gd_status gd__share_begin(gd_optimizer *o)
{
    o->share->told = false;
    return GD_OK;
}

gd_status gd__share_grads(gd_var *var)
{
    const gd_share *share = var->optimizer->share;
    if (share->options.joined) return GD_OK;
    return gd__share_sum(var->optimizer, var->grad ? var->grad : var->leaf_grad, var->count);
}
