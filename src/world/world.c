/* Worlds by name: this process alone, threads, and those of plugins. */
#include "world/world_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_THREADS 256 /* of a world of threads */

gd_world_options gd_world_defaults(void) { return (gd_world_options){.timeout = 300}; }

gd_world *gd__world_over(const gd_endpoint *end, const char *name, const gd_world_options *options)
{
    gd_world_options o = options ? *options : gd_world_defaults();
    gd_world *w = o.timeout > 0 ? gd__calloc(end->ctx, sizeof *w) : NULL;
    if (!(o.timeout > 0))
        (void)gd_fail(end->ctx, GD_VALUE, "world: the time-out is above 0, not %g", o.timeout);
    if (w) {
        w->ctx = end->ctx;
        w->end = *end;
        w->timeout = o.timeout;
        w->last = &w->first;
        (void)snprintf(w->name, sizeof w->name, "%s", name);
        w->spare = gd__exchange_new(w);
        w->filler = w->spare ? gd__exchange_new(w) : NULL;
    }
    if (w && w->filler) {
        w->filler->stage = GD_FINISHED;
        return w;
    }
    gd_endpoint closing = *end;
    closing.transport->close(&closing);
    if (w && w->spare) gd__exchange_free(w->spare);
    if (w) gd__free(end->ctx, w, sizeof *w);
    return NULL;
}

/* ---- plugins ---- */

/* Records which plugin is missing; a plugin may need a second one. */
static gd_status join_plugin(gd_endpoint *end, gd_ctx *ctx, const char *name)
{
    gd_plugin_found found = gd__plugin_symbol(ctx, GD_PLUGIN_WORLD, name, "gd_plugin_join");
    if (!found.symbol)
        return found.title ? gd_fail(ctx, GD_DEVICE, "world '%s': the %s plugin could not be loaded (%s)",
                                     name, found.title, found.why)
                           : gd_error(ctx);
    gd_plugin_join_fn join;
    memcpy(&join, &found.symbol, sizeof join);
    double timeout = end->timeout;
    *end = (gd_endpoint){.ctx = ctx,
                         .host = gd__plugin_host(),
                         .layout = GD_WORLD_LAYOUT,
                         .timeout = timeout,
                         .join = join_plugin,
                         .describe = gd_world_describe};
    return join(end);
}

static gd_world *open_plugin(gd_ctx *ctx, const char *name, const gd_world_options *options)
{
    gd_endpoint end = {.timeout = options ? options->timeout : gd_world_defaults().timeout};
    return join_plugin(&end, ctx, name) ? NULL : gd__world_over(&end, name, options);
}

const char *gd_world_known(int index) { return gd__plugin_name(GD_PLUGIN_WORLD, index); }

bool gd_world_describe(gd_ctx *ctx, const char *name, char *text, size_t size)
{
    if (!ctx || !name || !text || !size) return false;
    gd_plugin_found found = gd__plugin_symbol(ctx, GD_PLUGIN_WORLD, name, "gd_plugin_describe_world");
    if (!found.symbol) {
        (void)snprintf(text, size, "%s", found.title ? found.why : "there is no world of that name");
        return false;
    }
    gd_plugin_describe_world_fn describe;
    memcpy(&describe, &found.symbol, sizeof describe);
    return describe(text, size);
}

/* ---- names ---- */

/* The number behind "threads:"; 0: a different name, -1: an invalid number. */
static int threads_of(const char *name)
{
    char *end = NULL;
    if (strncmp(name, "threads", 7) || (name[7] && name[7] != ':')) return 0;
    const char *digits = name[7] ? name + 8 : "";
    long n = *digits >= '0' && *digits <= '9' ? strtol(digits, &end, 10) : -1;
    return end && !*end && n > 0 && n <= MOST_THREADS ? (int)n : -1;
}

static gd_status unknown(gd_ctx *ctx, const char *name)
{
    char known[128] = "";
    for (int i = 0; gd_world_known(i); i++) {
        size_t used = strlen(known);
        (void)snprintf(known + used, sizeof known - used, ", '%s'", gd_world_known(i));
    }
    return gd_fail(ctx, GD_VALUE, "world '%.40s' is not one of 'self', 'threads:1' to 'threads:%d'%s", name,
                   MOST_THREADS, known);
}

static bool is_plugin(const char *name)
{
    for (int i = 0; gd_world_known(i); i++)
        if (!strcmp(gd_world_known(i), name)) return true;
    return false;
}

gd_world *gd_world_open(gd_ctx *ctx, const char *name, const gd_world_options *options)
{
    if (!ctx) return NULL;
    if (!name) return gd__none(gd__null(ctx, "world: the name is NULL"));
    if (!strcmp(name, "self")) {
        gd_endpoint self = {
            .transport = &gd__transport_self, .ctx = ctx, .size = 1, .about = "this process alone"};
        return gd__world_over(&self, name, options);
    }
    if (is_plugin(name)) return open_plugin(ctx, name, options);
    if (threads_of(name) > 0)
        return gd__refuse(ctx, GD_STATE, "world '%s': its threads are started by gd_world_run", name);
    return gd__none(unknown(ctx, name));
}

gd_status gd__world_lend(gd_world *world, gd_world_fn fn, void *user)
{
    world->lent = true;
    gd_status status = fn(world, user);
    world->lent = false;
    return status;
}

gd_status gd_world_run(gd_ctx *ctx, const char *name, const gd_world_options *options, gd_world_fn fn,
                       void *user)
{
    if (!ctx) return GD_ARGUMENT;
    if (!name || !fn) return gd__null(ctx, name ? "world: the function is NULL" : "world: the name is NULL");
    int threads = threads_of(name);
    if (threads > 0) return gd__run_threads(ctx, threads, name, options, fn, user);
    gd_world *world = gd_world_open(ctx, name, options);
    gd_status status = world ? gd__world_lend(world, fn, user) : gd_error(ctx);
    gd_world_free(world);
    return status;
}

void gd_world_free(gd_world *world)
{
    if (!world || world->lent) return;
    while (world->first) {
        gd_exchange *work = world->first;
        world->first = work->next;
        for (int i = 0; i < work->messages; i++)
            if (!work->message[i].done) world->end.transport->cancel(&world->end, &work->message[i]);
        if (work->spare)
            world->spare = work;
        else if (work != world->filler)
            gd__exchange_free(work);
    }
    (void)!gd__world_reserve(world, 0);
    if (world->spare) gd__exchange_free(world->spare);
    gd__exchange_free(world->filler);
    world->end.transport->close(&world->end);
    gd__free(world->ctx, world, sizeof *world);
}

/* ---- reading it ---- */

gd_ctx *gd_world_ctx(const gd_world *world) { return world ? world->ctx : NULL; }
const char *gd_world_name(const gd_world *world) { return world ? world->name : NULL; }
const char *gd_world_about(const gd_world *world) { return world ? world->end.about : NULL; }
int gd_world_rank(const gd_world *world) { return world ? world->end.rank : -1; }
int gd_world_size(const gd_world *world) { return world ? world->end.size : 0; }

gd_device *gd__world_place(gd_world *world, gd_device *device)
{
    gd_endpoint *e = &world->end;
    gd_device *cpu = gd__cpu(world->ctx);
    return device != cpu && e->transport->reaches && e->transport->reaches(e, device) ? device : cpu;
}

void gd__share(int rank, int size, int64_t total, int64_t *first, int64_t *count)
{
    int64_t each = total / size, more = total % size;
    *first = each * rank + (rank < more ? rank : more);
    *count = each + (rank < more);
}

int gd__sharer(int size, int64_t total, int64_t index)
{
    int64_t each = total / size, more = total % size, large = more * (each + 1);
    return (int)(index < large ? index / (each + 1) : more + (index - large) / each);
}

void gd_world_share(const gd_world *world, int64_t total, int64_t *first, int64_t *count)
{
    if (!world || !first || !count) return;
    gd__share(world->end.rank, world->end.size, total > 0 ? total : 0, first, count);
}
