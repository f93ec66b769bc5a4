/* An optimizer over a world: consistency of ranks, and sums of gradients. */
#include "optim/step/distribute.h"
#include "file/safetensors.h"
#include "optim/text/setting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

gd_distribute_options gd_distribute_defaults(void) { return (gd_distribute_options){.bucket = 25 << 20}; }

/* ---- agreeing ---- */

/* Things that must be equal on all ranks: names, some with a tensor. */
typedef struct agreement {
    gd_optimizer *o;
    gd_world *world;
    const gd_distribute_options *options;
    bool compares; /* else it is only hashed */
    uint64_t number;
} agreement;

static void mix(agreement *a, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes--) a->number = (a->number ^ *at++) * 0x100000001b3u;
}

/* No data are sent: ranks compare the descriptions of the collective, and an error names the ranks that differ. */
static gd_status agree(agreement *a, gd_tensor *t, const char *name)
{
    if (a->compares)
        return gd__world_call(a->world, &(gd_collective){.kind = GD_BARRIER, .tensor = t, .name = name});
    mix(a, name, strlen(name) + 1);
    if (t) mix(a, &t->dtype, sizeof t->dtype);
    if (t) mix(a, t->size, (size_t)t->ndim * sizeof *t->size);
    return GD_OK;
}

/* The beginning of its text, and a hash of all of it. */
static gd_status print_chain(const gd_optimizer *o, char *begin, size_t room, uint32_t *number)
{
    size_t size = (size_t)gd_link_print(o->chain, NULL, 0) + 1;
    char *text = gd__alloc(o->ctx, size);
    if (!text) return GD_NOMEM;
    (void)gd_link_print(o->chain, text, size);
    agreement own = {.number = 0};
    mix(&own, text, size);
    *number = (uint32_t)own.number;
    if (size <= room)
        memcpy(begin, text, size);
    else if (room)
        (void)snprintf(begin, room, "%.40s... (%08" PRIx32 ")", text, *number);
    gd__free(o->ctx, text, size);
    return GD_OK;
}

static gd_status agree_about_chain(agreement *a)
{
    char name[120], begin[100];
    uint32_t number;
    gd_status status = print_chain(a->o, begin, sizeof begin, &number);
    (void)snprintf(name, sizeof name, "the chain %s", status ? "" : begin);
    return status ? status : agree(a, NULL, name);
}

static gd_status agree_about_options(agreement *a)
{
    static const char *const shards[] = {"none", "state", "gradients"};
    const gd_distribute_options *options = a->options;
    char name[120];
    (void)snprintf(name, sizeof name, "shard %s, reduce %s, bucket %" PRId64 "%s", shards[options->shard],
                   options->reduce == GD_REDUCE_FAST ? "fast" : "exact", options->bucket,
                   options->joined ? ", joined" : "");
    gd_status status = agree(a, NULL, name);
    if (status) return status;
    const gd_rng *rng = &a->o->ctx->rng;
    (void)snprintf(name, sizeof name, "%" PRId64 " steps done", a->o->step);
    if (!status) status = agree(a, NULL, name);
    if (status) return status;
    (void)snprintf(name, sizeof name, "the generator (gd_seed) %" PRIu64 " place %" PRIu64, rng->key,
                   rng->counter);
    return agree(a, NULL, name);
}

/* Settings of groups as text: "lr=0.5; group 1: lr=0.1"; its beginning, and a number for the rest. */
static void print_settings(const gd_optimizer *o, char *out, size_t size)
{
    char text[1024];
    gd_print p = gd__print(text, sizeof text);
    for (int g = -1; g < o->grouping.count; g++) {
        const gd_group *of = g < 0 ? &o->grouping.all : &o->grouping.list[g];
        for (int i = 0; i < of->settings; i++) {
            char group[24] = "";
            if (g >= 0) (void)snprintf(group, sizeof group, "group %d: ", g);
            gd__print_text(&p, p.used ? "; " : "");
            gd__print_text(&p, group);
            gd__print_text(&p, of->setting[i].key);
            gd__print_text(&p, "=");
            gd__setting_print(&p, &of->setting[i].value);
        }
    }
    size_t length = p.used < sizeof text ? p.used : sizeof text - 1;
    agreement rest = {.number = p.used};
    mix(&rest, text, length);
    text[length] = '\0';
    if (length < size)
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "%.*s... (%08" PRIx32 ")", (int)size - 16, text, (uint32_t)rest.number);
}

static gd_status agree_about_settings(agreement *a)
{
    char name[120], settings[80];
    print_settings(a->o, settings, sizeof settings);
    (void)snprintf(name, sizeof name, "the settings %s", settings[0] ? settings : "of the chain");
    return agree(a, NULL, name);
}

/* The names of a step's collectives contain its number, optimizer, chain and settings.  A rank that is at a different step, uses a
 * different optimizer or has changed a setting alone gets an error that names the difference. */
static gd_status describe_step(gd_optimizer *o, int params)
{
    gd_share *share = o->shared.share;
    if (gd_world_size(share->world) == 1) return GD_OK;
    if (share->printed != o->numbers) {
        gd_status status = print_chain(o, NULL, 0, &share->chain);
        if (status) return status;
        print_settings(o, share->settings, sizeof share->settings);
        share->printed = o->numbers;
    }
    int used = snprintf(share->about, sizeof share->about, "optimizer %d, step %" PRId64 ", chain %08" PRIx32,
                        share->number, o->step + 1, share->chain);
    if (params >= 0 && used < (int)sizeof share->about)
        used += snprintf(share->about + used, sizeof share->about - (size_t)used, ", %d parameters", params);
    if (share->settings[0] && used < (int)sizeof share->about)
        (void)snprintf(share->about + used, sizeof share->about - (size_t)used, ", %s", share->settings);
    return GD_OK;
}

/* Properties in which a parameter may differ between ranks, besides shape and dtype. */
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

static gd_status agree_about_params(agreement *a)
{
    char name[120];
    (void)snprintf(name, sizeof name, "%d parameters", a->o->count);
    gd_status status = agree(a, NULL, name);
    for (int i = 0; i < a->o->count && !status; i++) {
        name_param(a->o, i, name, sizeof name);
        status = agree(a, a->o->param[i].tensor, name);
    }
    return status;
}

/* Every rank must begin with the same values, because no later step makes them equal. */
static gd_status agree_about_values(agreement *a)
{
    gd_status status = GD_OK;
    char name[120];
    for (int i = 0; i < a->o->count && !status; i++) {
        gd_tensor *t = a->o->param[i].tensor;
        gd_scope_begin(a->o->ctx);
        gd_device *cpu = gd__cpu(a->o->ctx);
        const gd_tensor *here = t->storage->device == cpu ? t : gd_to_device(gd_detach(t), cpu);
        if (here)
            (void)snprintf(name, sizeof name, "%.60s, values %016" PRIx64, a->o->param[i].name,
                           gd__checksum(0, here->data, (size_t)here->numel * gd__item_size(here)));
        status = here ? agree(a, t, name) : gd_error(a->o->ctx);
        gd_scope_end(a->o->ctx);
    }
    return status;
}

static gd_status agree_about_all(agreement *a)
{
    gd_status status = agree_about_chain(a);
    if (!status) status = agree_about_params(a);
    if (!status) status = agree_about_settings(a);
    if (!status) status = agree_about_options(a);
    return status ? status : agree_about_values(a);
}

/* One number is compared first.  If it differs, everything is compared one by one, to name the difference. */
static gd_status all_agree(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    agreement a = {.o = o, .world = world, .options = options};
    gd_status before = gd_error(o->ctx), status = agree_about_all(&a);
    double number = (double)(a.number >> 12), *sums = status ? NULL : &number;
    gd_tensor *all = NULL;
    gd_scope_begin(o->ctx);
    int64_t size = gd_world_size(world);
    gd_tensor *own = sums ? gd_from_f64(o->ctx, GD_F64, 1, (int64_t[]){1}, sums) : NULL;
    if (own) all = gd_zeros(o->ctx, GD_F64, 1, &size);
    status = gd_world_all_gather(world, own, all); /* a rank without memory reports it here */
    bool same = !status;
    for (int64_t r = 0; r < size && same; r++) same = gd_at(all, &r) == number;
    gd_scope_end(o->ctx);
    a.compares = true;
    if (!status && !same) status = agree_about_all(&a);
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
    if (options->shard == GD_SHARD_GRADIENTS && options->reduce == GD_REDUCE_FAST)
        return gd_fail(o->ctx, GD_VALUE, "distribute: sums of sharded gradients are exact, not fast");
    if (options->shard == GD_SHARD_GRADIENTS && options->joined)
        return gd_fail(o->ctx, GD_VALUE, "distribute: gradients that are joined already are not sharded");
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
                         "distribute: the world is of a different context than the optimizer");
    if (!status && o->capture)
        status = gd_fail(o->ctx, GD_STATE, "distribute: its steps are captured (gd_optimizer_capture)");
    return status;
}

void gd__share_free(gd_optimizer *o)
{
    if (o->shared.share) gd__scatter_free(o);
    gd__free(o->ctx, o->shared.share, sizeof *o->shared.share);
    o->shared.share = NULL;
    o->shared.call = NULL;
}

/* Every rank has all state again, and steps alone. */
static gd_status undistribute(gd_optimizer *o)
{
    gd_status status = o->shared.share ? gd__not_stepping(o, "distributing") : GD_OK;
    if (o->shared.share && !status) status = gd__share_make_all_whole(o);
    if (o->shared.share && !status) {
        gd__share_free(o);
        gd__optimizer_changed(o, true);
    }
    return status;
}

static gd_status take_share(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    gd_share *share = gd__calloc(o->ctx, sizeof *share);
    /* a rank that cannot take part reports it */
    if (!share) return gd_world_agree(world, GD_NOMEM);
    gd_status status = all_agree(o, world, options);
    int number = status ? 0 : ++world->optimizers;
    if (!status) status = undistribute(o);
    if (status) {
        gd__free(o->ctx, share, sizeof *share);
        return status;
    }
    *share = (gd_share){.world = world,
                        .options = *options,
                        .exec = {.join = gd__share_join_partial, .user = share},
                        .number = number};
    o->shared.share = share;
    o->shared.call = &gd__other_ranks;
    gd__optimizer_changed(o, true);
    if (options->shard == GD_SHARD_NONE || gd_world_size(world) == 1) return GD_OK;
    share->scatter = gd__scatter_new(o);
    status = gd_world_agree(world, share->scatter ? GD_OK : GD_NOMEM);
    if (status) gd__share_free(o);
    return status;
}

gd_status gd_optimizer_distribute(gd_optimizer *o, gd_world *world, const gd_distribute_options *options)
{
    if (!o) return GD_ARGUMENT;
    gd_distribute_options chosen = options ? *options : gd_distribute_defaults();
    if (!world) return undistribute(o);
    gd_status status = check_call(o, world, &chosen);
    if (!status) return take_share(o, world, &chosen);
    return gd_world_ctx(world) == o->ctx ? gd_world_agree(world, status) : status;
}

/* ---- steps ---- */

/* Sharded gradients need one device, and a gradient for every parameter. */
static gd_status check_scatter(const gd_optimizer *o)
{
    if (o->skips_missing)
        return gd_fail(o->ctx, GD_NOT_IMPLEMENTED,
                       "step: parameters without gradients cannot be skipped where gradients are sharded");
    for (int i = 1; i < o->count; i++) {
        const gd_param *p = &o->param[i], *first = &o->param[0];
        if (p->tensor->storage->device != first->tensor->storage->device)
            return gd_fail(
                o->ctx, GD_NOT_IMPLEMENTED,
                "step: '%.80s' is on %s and '%.80s' on %s, and gradients on several devices are not sharded: "
                "take the way to shard 'state' or 'none'",
                p->name, p->tensor->storage->device->name, first->name, first->tensor->storage->device->name);
    }
    return GD_OK;
}

gd_status gd__share_begin(gd_optimizer *o)
{
    o->shared.share->told = false;
    if (gd_error(o->ctx)) return GD_OK;
    gd_status status = describe_step(o, -1);
    if (status || !gd__shares_state(o)) return status;
    status = gd__shards_gradients(o) ? check_scatter(o) : GD_OK;
    return status ? status : gd__share_own(o);
}

/* Sums of whole gradients: each rank gets the elements it owns, since rules read no others.  Summing whole gradients instead makes a
 * step of adam over 8M parameters with sharded state 20 % slower (two processes, `./dev bench world`). */
static gd_status add_grads(gd_var *var)
{
    gd_optimizer *o = var->optimizer;
    bool stay = !var->grad;
    gd_status status = gd__scatter_sums(o, var->params, stay ? var->leaf_grad : var->grad, var->count, stay,
                                        &var->leaf_grad);
    gd__tensors_free(o->ctx, var->grad, var->count);
    var->grad = NULL;
    var->shards = true;
    return status;
}

gd_status gd__share_grads(gd_var *var)
{
    gd_optimizer *o = var->optimizer;
    if (!gd__shards_gradients(o)) {
        if (o->shared.share->options.joined) return GD_OK;
        gd_status status = describe_step(o, var->count);
        if (status) return status;
        bool exact = o->shared.share->options.reduce == GD_REDUCE_EXACT;
        if (o->shared.share->scatter && exact && !o->skips_missing && gd__var_is_cut(var))
            return add_grads(var);
        return gd__share_sum(o, var->grad ? var->grad : var->leaf_grad, var->count);
    }
    gd_status status = gd__scatter_take(o, var->params, var->count, &var->leaf_grad);
    var->shards = true;
    return status;
}

/* ---- decisions ---- */

gd_status gd_var_seconds(gd_var *var, double *seconds)
{
    if (!var || !seconds) return gd__null(gd_var_ctx(var), "var: the place for the time is NULL");
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    *seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    gd_share *share = var->optimizer ? var->optimizer->shared.share : NULL;
    if (!share || gd_world_size(share->world) == 1) return GD_OK;
    gd_collective what = {.kind = GD_BROADCAST, .name = "the time"};
    gd_scope_begin(var->ctx);
    what.tensor = gd__share_memory(gd__cpu(var->ctx), GD_F64, seconds, 1);
    gd_status status = gd__share_call(share, &what);
    gd_scope_end(var->ctx);
    return status;
}
