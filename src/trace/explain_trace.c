/* A recording as text. */
#include "base/text/number.h"
#include "trace/device/on_device.h"
#include "trace/entry.h"
#include "trace/many/lanes.h"
#include "trace/trace_scan.h"
#include "trace/trace_loop.h"

#include <stdio.h>

typedef struct page {
    char *out;
    size_t size;
    int length;
} page;

#define SAY(p, ...)                                                                                 \
    ((p)->length += snprintf((size_t)(p)->length < (p)->size ? (p)->out + (p)->length : NULL,       \
                             (size_t)(p)->length < (p)->size ? (p)->size - (size_t)(p)->length : 0, \
                             __VA_ARGS__))

static void say_inputs(page *p, const gd_trace_entry *e)
{
    SAY(p, "%s of %d input%s:", e->what.name, e->inputs, e->inputs == 1 ? "" : "s");
    for (int i = 0; i < e->inputs && i < 8; i++) {
        const gd_signature *s = &e->signature[i];
        SAY(p, " %s[", gd_dtype_name(s->dtype));
        for (int d = 0; d < s->ndim; d++) SAY(p, d ? ", %lld" : "%lld", (long long)s->size[d]);
        SAY(p, "]");
    }
    SAY(p, e->inputs > 8 ? " ...\n" : "\n");
}

static void say_indent(page *p, int depth) { SAY(p, "%*s", 2 + 2 * depth, ""); }

static void say_loop(page *p, const gd_unit *u, int depth)
{
    const gd_loop *l = u->loop;
    int compiled = 0;
    for (int i = 0; i < l->regions; i++) compiled += l->region[i].kernel != NULL;
    say_indent(p, depth);
    SAY(p, "%d kernels as one pass over", u->count);
    for (int i = 0; i < l->domains; i++) SAY(p, i ? ", %lld" : " %lld", (long long)l->domain[i].numel);
    SAY(p, " elements, %d instructions, %s\n", l->operations, compiled ? "compiled" : "interpreted");
}

static void say_units(page *p, const gd_replay *x, int depth);

static void say_scan(page *p, const gd_scan_call *s, int depth)
{
    say_indent(p, depth);
    SAY(p, "%lld steps of a loop, %s, each:\n", (long long)s->steps,
        s->keeps ? "states are kept" : "only the last states are kept");
    say_units(p, s->body, depth + 1);
}

/* Calls of kernels, and the loops among them. */
static void say_calls(page *p, const gd_replay *x, const gd_unit *u, int depth)
{
    int scans = 0;
    for (int i = u->first; i < u->first + u->count; i++) scans += x->r->call[x->body[i]].scan != NULL;
    say_indent(p, depth);
    SAY(p, "%d kernels, one by one\n", u->count - scans);
    for (int i = u->first; i < u->first + u->count; i++)
        if (x->r->call[x->body[i]].scan) say_scan(p, x->r->call[x->body[i]].scan, depth);
}

static void say_unit(page *p, const gd_replay *x, const gd_unit *u, int depth)
{
    const gd_tape *t = u->tape;
    if (u->loop)
        say_loop(p, u, depth);
    else if (u->fused) {
        say_indent(p, depth);
        SAY(p, "%d kernels as one of %lld elements, which reads %d tensors and writes %d\n", u->count,
            (long long)u->fused->args.n, u->fused->f.reads, u->fused->f.stores);
    } else if (!t)
        say_calls(p, x, u, depth);
    else {
        say_indent(p, depth);
        SAY(p, "%d kernels as %d operations and %d stores, %s\n", u->count, t->values, t->stores,
            t->compiled ? "compiled" : "interpreted");
    }
}

static void say_units(page *p, const gd_replay *x, int depth)
{
    for (int i = 0; i < x->units; i++) say_unit(p, x, &x->unit[i], depth);
}

/* How often a device is asked for something in a run, and whether that is one graph. */
static void say_device(page *p, const gd_replay *x)
{
    const gd_on_device *on = x->on;
    int launches = 0;
    for (int k = 0; k < x->units; k++) launches += x->unit[k].fused ? 1 : x->unit[k].count;
    SAY(p, "  on %s: %d kernels each time", x->device->name, launches);
    if (on->why[0])
        SAY(p, ", no graph: %s\n", on->why);
    else if (on->captured)
        SAY(p, ", as one graph: made %lld times, launched %lld times\n", (long long)on->captured,
            (long long)on->launched);
    else
        SAY(p, ", as one graph from the second run in the same memory on\n");
}

static void say_replay(page *p, const gd_replay *x)
{
    const gd_recording *r = x->r;
    int captured = 0;
    for (int b = 0; b < r->buffers; b++) captured += r->buffer[b].origin == GD_ORIGIN_CAPTURED;
    SAY(p, "  replayed %lld times\n", (long long)(x->runs + x->brief.runs));
    SAY(p, "  recorded: %d operators and copies, %d of them needed\n", r->calls, x->bodies + x->prologues);
    SAY(p, "  each time: %d; only where one of %d captured tensors has changed: %d\n", x->bodies, captured,
        x->prologues);
    say_units(p, x, 0);
    if (x->on) say_device(p, x);
    SAY(p, "  memory: %zu bytes\n", x->arena_bytes);
    if (x->lanes)
        SAY(p, "  many at once: %d problems in %d steps, %zu bytes per thread\n", GD_LANE_COUNT,
            x->lanes->steps, x->lanes->room);
    else if (x->why_no_lanes[0])
        SAY(p, "  many one by one: %s\n", x->why_no_lanes);
    if (r->drawn) SAY(p, "  random numbers: %llu blocks each time\n", (unsigned long long)r->drawn);
}

int gd__trace_describe(const gd_trace_entry *e, char *out, size_t size)
{
    page p = {out, out ? size : 0, 0};
    say_inputs(&p, e);
    switch (e->state) {
    case GD_TRACE_NEW: SAY(&p, "  not evaluated yet\n"); break;
    case GD_TRACE_SEEN: SAY(&p, "  evaluated once, recorded from the next call on\n"); break;
    case GD_TRACE_RECORDED: SAY(&p, "  recorded once, compared with the next call\n"); break;
    case GD_TRACE_REPLAYS: say_replay(&p, e->replay); break;
    case GD_TRACE_REFUSED: SAY(&p, "  not traced: %s\n", e->reason); break;
    }
    return p.length;
}
