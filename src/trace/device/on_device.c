/* Memory and runs of a replay on a device: plainly, or as one graph. */
#include "trace/device/on_device.h"

#include <stdio.h>
#include <string.h>

#define MOST_FAILURES 3 /* memory that was not there may be there the next time */

/* ---- memory ---- */

char *gd__on_device_room(gd_replay *p)
{
    gd_status before = gd_error(p->ctx);
    char *room = p->device->backend->alloc(p->device, p->arena_bytes);
    if (!room && !before) gd_clear_error(p->ctx);
    return room;
}

static size_t bases_bytes(const gd_replay *p)
{
    return GD_TRACE_GRAPHS * (size_t)p->r->buffers * sizeof(char *);
}

void gd__on_device_free(gd_replay *p)
{
    gd_on_device *on = p->on;
    if (!on) return;
    const gd_backend *b = p->device->backend;
    for (int k = 0; k < GD_TRACE_GRAPHS; k++)
        if (on->graph[k].graph) b->capture->free(p->device, on->graph[k].graph);
    if (p->arena) b->free(p->device, p->arena, p->arena_bytes);
    gd__free(p->ctx, on->bases, bases_bytes(p));
    gd__free(p->ctx, on, sizeof *on);
    p->on = NULL;
}

/* ---- planning ---- */

/* Made again in each run from nothing on the device. */
static bool comes_first(const gd_recorded *c)
{
    return c->kind == GD_CALL_INPUT || (c->kind == GD_CALL_KERNEL && c->op == GD_OP_random && !c->nin);
}

/* Calls that cannot be part of a graph go before all others, where nothing has touched what they write.  Returns how many. */
static int put_heads_first(gd_replay *p, int *order, uint8_t *touched)
{
    const gd_recording *r = p->r;
    int heads = 0, rest = 0;
    for (int i = 0; i < p->bodies; i++) {
        const gd_recorded *c = &r->call[p->body[i]];
        bool first = comes_first(c);
        for (int k = 0; k < c->nin + c->nout; k++) first = first && !touched[r->operand[c->first + k].buffer];
        if (first)
            p->body[heads++] = p->body[i];
        else {
            order[rest++] = p->body[i];
            for (int k = 0; k < c->nin + c->nout; k++) touched[r->operand[c->first + k].buffer] = 1;
        }
    }
    memcpy(p->body + heads, order, (size_t)rest * sizeof *order);
    memset(touched, 0, (size_t)r->buffers);
    return heads;
}

static void say_plain(gd_on_device *on, const char *format, const char *name)
{
    if (on->plain) return;
    on->plain = true;
    (void)snprintf(on->why, sizeof on->why, format, name);
}

/* Is there something in it that no graph can have? */
static void look_for_hosts_work(gd_replay *p, int heads)
{
    const gd_backend *b = p->device->backend;
    if (!b->capture) say_plain(p->on, "%s has no graphs", p->device->name);
    for (int i = heads; i < p->bodies; i++) {
        const gd_recorded *c = &p->r->call[p->body[i]];
        if (c->kind != GD_CALL_KERNEL)
            say_plain(p->on, "%s writes between kernels", "the host");
        else if (c->op == GD_OP_random)
            say_plain(p->on, "%s numbers are drawn into memory that is in use", "random");
        else if (b->has && !b->has(c->op))
            say_plain(p->on, "the host runs %s", gd__ops[c->op].name);
    }
}

bool gd__on_device_group(gd_replay *p)
{
    size_t buffers = (size_t)p->r->buffers,
           bytes = (size_t)p->bodies * sizeof(int) + buffers * (sizeof(int) + sizeof(uint8_t)) + 1;
    gd_on_device *on = p->on = gd__quiet_alloc(p->ctx, sizeof *on);
    char *block = on ? gd__quiet_alloc(p->ctx, bytes) : NULL;
    if (!on) return false;
    *on = (gd_on_device){.bases = block ? gd__quiet_alloc(p->ctx, bases_bytes(p)) : NULL};
    if (on->bases) {
        int *order = (int *)(void *)block, *uses = order + p->bodies;
        uint8_t *mark = (uint8_t *)(uses + buffers);
        memset(block, 0, bytes);
        for (int k = 0; k < GD_TRACE_GRAPHS; k++) on->graph[k].base = on->bases + (size_t)k * buffers;
        int heads = put_heads_first(p, order, mark);
        if (heads) p->unit[p->units++] = (gd_unit){.count = heads};
        on->heads = p->units;
        look_for_hosts_work(p, heads);
        gd__on_device_fuse(p, heads, order, mark, uses);
        gd__replay_note_uses(p);
    }
    gd__free(p->ctx, block, bytes);
    return on->bases;
}

/* ---- running ---- */

static gd_status run_units(gd_replay *p, int from, int to)
{
    gd_status status = GD_OK;
    for (int k = from; k < to && !status; k++) {
        const gd_unit *u = &p->unit[k];
        status = u->fused ? gd__fused_run(p, u->fused) : gd__replay_calls(p, p->body + u->first, u->count);
    }
    return status;
}

/* The graph for where everything is now, or the place of the one that was not used for longest. */
static gd_placed_graph *graph_here(gd_replay *p)
{
    gd_on_device *on = p->on;
    size_t bytes = (size_t)p->r->buffers * sizeof *p->base;
    gd_placed_graph *oldest = on->graph;
    for (int k = 0; k < GD_TRACE_GRAPHS; k++) {
        gd_placed_graph *g = &on->graph[k];
        if (g->used && !memcmp(g->base, p->base, bytes)) return g;
        if (g->used < oldest->used) oldest = g;
    }
    memcpy(oldest->base, p->base, bytes);
    oldest->seen = oldest->fits = false;
    return oldest;
}

/* Makes a graph of the units.  False: it could not be done, and nothing was done. */
static bool capture(gd_replay *p, gd_placed_graph *g)
{
    gd_on_device *on = p->on;
    const gd_capturing *c = p->device->backend->capture;
    char why[sizeof on->why] = "a kernel fails while it is made";
    bool begun = c->begin(p->device, why, sizeof why);
    gd_status status = begun ? run_units(p, on->heads, p->units) : GD_OK;
    g->fits = begun && c->end(p->device, &g->graph, why, sizeof why) && !status;
    if (status) gd_clear_error(p->ctx);
    if (g->fits) {
        on->captured++;
        on->failures = 0;
        return true;
    }
    if (begun && g->graph) c->free(p->device, g->graph);
    if (begun) g->graph = NULL;
    if (++on->failures >= MOST_FAILURES) on->plain = true;
    memcpy(on->why, why, sizeof why);
    return false;
}

gd_status gd__on_device_body(gd_replay *p)
{
    gd_on_device *on = p->on;
    gd_status status = run_units(p, 0, on->heads);
    if (status || on->plain || on->heads == p->units)
        return status ? status : run_units(p, on->heads, p->units);
    gd_placed_graph *g = graph_here(p);
    g->used = ++on->clock;
    /* a run without a graph goes before: it makes what kernels need once */
    bool graph = g->fits || (g->seen && capture(p, g));
    g->seen = true;
    if (!graph) return run_units(p, on->heads, p->units);
    status = p->device->backend->capture->launch(p->device, g->graph);
    on->launched += !status;
    if (status) {
        p->device->backend->capture->free(p->device, g->graph);
        g->graph = NULL;
        g->fits = false;
    }
    return status;
}
