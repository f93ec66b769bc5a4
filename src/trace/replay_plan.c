/* The plan of a replay: its calls, and addresses of its buffers. */
#include "trace/device/on_device.h"
#include "trace/tape.h"
#include "trace/trace_loop.h"

#include <string.h>

#define LINE 64 /* buffers begin at cache lines */

static size_t rounded(const gd_replay *p, size_t bytes)
{
    size_t line = p->on ? GD_DEVICE_LINE : LINE;
    return (bytes + line - 1) / line * line;
}

/* ---- moving buffers ---- */

static bool touches_moving(const gd_recording *r, const gd_recorded *c)
{
    if (c->kind == GD_CALL_INPUT || (c->kind == GD_CALL_KERNEL && c->op == GD_OP_random)) return true;
    for (int k = 0; k < c->nin + c->nout; k++)
        if (r->buffer[r->operand[c->first + k].buffer].moving) return true;
    return false;
}

/* A buffer written by a moving call is moving, and so is every other call that reads or writes it: in memory that is written in
 * several pieces, all of them run again. */
static void spread_moving(gd_recording *r)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < r->calls; i++) {
            const gd_recorded *c = &r->call[i];
            if (!touches_moving(r, c)) continue;
            for (int k = c->nin; k < c->nin + c->nout; k++) {
                gd_buffer *b = &r->buffer[r->operand[c->first + k].buffer];
                changed = changed || !b->moving;
                b->moving = true;
            }
        }
    }
}

/* From the outputs back: calls whose results are read. */
static void mark_needed(const gd_recording *r, bool *wanted, bool *needed)
{
    for (int i = 0; i < r->outputs; i++) wanted[r->output[i].buffer] = true;
    for (int i = r->calls; i-- > 0;) {
        const gd_recorded *c = &r->call[i];
        for (int k = c->nin; k < c->nin + c->nout && !needed[i]; k++)
            needed[i] = wanted[r->operand[c->first + k].buffer];
        for (int k = 0; k < c->nin && needed[i]; k++) wanted[r->operand[c->first + k].buffer] = true;
    }
}

static bool split_calls(gd_replay *p)
{
    gd_recording *r = p->r;
    size_t bytes = (size_t)r->buffers + (size_t)r->calls;
    bool *wanted = gd__quiet_alloc(p->ctx, bytes), *needed = wanted ? wanted + r->buffers : NULL;
    if (!wanted) return false;
    memset(wanted, 0, bytes);
    spread_moving(r);
    mark_needed(r, wanted, needed);
    for (int i = 0; i < r->calls; i++) {
        if (!needed[i]) continue;
        if (touches_moving(r, &r->call[i]))
            p->body[p->bodies++] = i;
        else
            p->prologue[p->prologues++] = i;
    }
    gd__free(p->ctx, wanted, bytes);
    return true;
}

/* ---- memory ---- */

/* Free pieces of the arena, in order, none adjacent. */
typedef struct gap {
    size_t from, to;
} gap;

typedef struct plan {
    gd_replay *p;
    gap *gap;
    int gaps;
} plan;

static size_t take_gap(plan *w, size_t bytes)
{
    for (int i = 0; i < w->gaps; i++) {
        gap *g = &w->gap[i];
        if (g->to - g->from < bytes) continue;
        size_t at = g->from;
        g->from += bytes;
        if (g->from == g->to && --w->gaps > i) memmove(g, g + 1, (size_t)(w->gaps - i) * sizeof *g);
        return at;
    }
    size_t at = w->p->arena_bytes;
    w->p->arena_bytes += bytes;
    return at;
}

static void give_gap(plan *w, size_t from, size_t bytes)
{
    int i = 0;
    while (i < w->gaps && w->gap[i].from < from) i++;
    bool left = i > 0 && w->gap[i - 1].to == from, right = i < w->gaps && w->gap[i].from == from + bytes;
    if (left && right) {
        w->gap[i - 1].to = w->gap[i].to;
        memmove(&w->gap[i], &w->gap[i + 1], (size_t)(--w->gaps - i) * sizeof *w->gap);
    } else if (left)
        w->gap[i - 1].to = from + bytes;
    else if (right)
        w->gap[i].from = from;
    else {
        memmove(&w->gap[i + 1], &w->gap[i], (size_t)(w->gaps++ - i) * sizeof *w->gap);
        w->gap[i] = (gap){from, from + bytes};
    }
}

/* Are its elements values of a tape, a loop or a fused kernel and nothing else? */
static bool inside_unit(const gd_replay *p, int buffer)
{
    for (int i = 0; i < p->units; i++) {
        const gd_unit *u = &p->unit[i];
        if (p->begins[buffer] < u->first + u->count)
            return (u->tape || u->loop || u->fused) && p->begins[buffer] >= u->first &&
                   p->ends[buffer] < u->first + u->count;
    }
    return false;
}

/* In the arena, and only while it is used? */
static bool passes(const gd_replay *p, int buffer)
{
    const gd_buffer *b = &p->r->buffer[buffer];
    return b->origin == GD_ORIGIN_MADE && b->moving && !p->memory[buffer] && b->bytes &&
           !inside_unit(p, buffer);
}

#define NOWHERE SIZE_MAX

static void take_for(plan *w, int i)
{
    gd_replay *p = w->p;
    const gd_recording *r = p->r;
    const gd_recorded *c = &r->call[p->body[i]];
    for (int k = 0; k < c->nin + c->nout; k++) {
        int b = r->operand[c->first + k].buffer;
        if (passes(p, b) && p->place[b] == NOWHERE) p->place[b] = take_gap(w, rounded(p, r->buffer[b].bytes));
    }
}

static void give_after(plan *w, int i)
{
    gd_replay *p = w->p;
    const gd_recording *r = p->r;
    const gd_recorded *c = &r->call[p->body[i]];
    for (int k = 0; k < c->nin + c->nout; k++) {
        int b = r->operand[c->first + k].buffer;
        if (p->ends[b] != i || !passes(p, b)) continue;
        give_gap(w, p->place[b], rounded(p, r->buffer[b].bytes));
        p->ends[b] = -1; /* an operand may occur twice */
    }
}

/* A loop, or a fused kernel, reads and writes all that it does at the same time; the others go call by call, as tapes load before they store. */
static void place_body(plan *w)
{
    const gd_replay *p = w->p;
    for (int k = 0; k < p->units; k++) {
        const gd_unit *u = &p->unit[k];
        bool at_once = u->loop || u->fused;
        for (int i = u->first; i < u->first + u->count; i++) {
            take_for(w, i);
            if (!at_once) give_after(w, i);
        }
        for (int i = u->first; i < u->first + u->count && at_once; i++) give_after(w, i);
    }
}

/* Results of the prologue stay. */
static void place_prologue(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int i = 0; i < p->prologues; i++) {
        const gd_recorded *c = &r->call[p->prologue[i]];
        for (int k = c->nin; k < c->nin + c->nout; k++) {
            int b = r->operand[c->first + k].buffer;
            if (r->buffer[b].origin != GD_ORIGIN_MADE || p->memory[b] || p->place[b] != NOWHERE) continue;
            p->place[b] = p->arena_bytes;
            p->arena_bytes += rounded(p, r->buffer[b].bytes);
        }
    }
}

static bool place_buffers(gd_replay *p)
{
    const gd_recording *r = p->r;
    size_t bytes = ((size_t)r->buffers + 1) * sizeof(gap);
    plan w = {.p = p, .gap = gd__quiet_alloc(p->ctx, bytes)};
    if (!w.gap) return false;
    for (int b = 0; b < r->buffers; b++) p->place[b] = NOWHERE;
    place_body(&w);
    place_prologue(p);
    gd__free(p->ctx, w.gap, bytes);
    bool made = !p->arena_bytes ||
                (p->arena = p->on ? gd__on_device_room(p) : gd__quiet_alloc(p->ctx, p->arena_bytes));
    if (!made) p->arena_bytes = 0;
    return made;
}

/* ---- numbers ---- */

static void note_writers(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int b = 0; b < r->buffers; b++) p->writer[b] = -1;
    for (int i = 0; i < p->prologues; i++) {
        const gd_recorded *c = &r->call[p->prologue[i]];
        for (int k = c->nin; k < c->nin + c->nout; k++) {
            int *writer = &p->writer[r->operand[c->first + k].buffer];
            *writer = *writer == -1 ? p->prologue[i] : -2;
        }
    }
}

/* One element of an operator, as its kernel computes it. */
static bool one_element(const gd_replay *p, const gd_recorded *c, const double *x, double *value)
{
    const gd_operand *in = &p->r->operand[c->first];
    bool single = in->dtype == GD_F32;
    gd_vec_fn fn = gd__vec(p->ctx->cpu)->map[c->op][single ? GD_AS_F32 : GD_AS_F64];
    if (!fn) return false;
    float narrow[4] = {(float)x[0], (float)x[1], (float)x[2]};
    double wide[4] = {x[0], x[1], x[2]};
    if (single)
        fn(&narrow[3], &narrow[0], &narrow[1], &narrow[2], 1, c->attrs.f);
    else
        fn(&wide[3], &wide[0], &wide[1], &wide[2], 1, c->attrs.f);
    *value = single ? (double)narrow[3] : wide[3];
    return true;
}

#define DEEPEST 16

static bool filled(const gd_replay *p, int buffer, double *value, int depth)
{
    const gd_recording *r = p->r;
    const gd_buffer *b = &r->buffer[buffer];
    if (b->origin != GD_ORIGIN_MADE || b->moving || p->writer[buffer] < 0 || depth > DEEPEST) return false;
    const gd_recorded *c = &r->call[p->writer[buffer]];
    const gd_operand *in = &r->operand[c->first], *out = in + c->nin;
    bool number = out->dtype == GD_F32 || out->dtype == GD_F64;
    if (c->kind != GD_CALL_KERNEL || c->nout != 1 || !number ||
        (size_t)out->numel * gd_dtype_size(out->dtype) != b->bytes)
        return false;
    if (c->op == GD_OP_fill) {
        *value = out->dtype == GD_F32 ? (double)(float)c->attrs.f[0] : c->attrs.f[0];
        return true;
    }
    double x[3] = {0};
    for (int k = 0; k < c->nin; k++)
        if (k == 3 || in[k].dtype != out->dtype || !filled(p, in[k].buffer, &x[k], depth + 1)) return false;
    if (c->op == GD_OP_copy) *value = x[0];
    return c->op == GD_OP_copy || (gd__ops[c->op].kind == GD_KIND_MAP && one_element(p, c, x, value));
}

bool gd__filled_with(const gd_replay *p, int buffer, double *value) { return filled(p, buffer, value, 0); }

/* ---- used results of the prologue ---- */

static void mark_units(const gd_replay *p, bool *wanted)
{
    const gd_recording *r = p->r;
    for (int k = 0; k < p->units; k++) {
        const gd_unit *u = &p->unit[k];
        for (int i = u->first; i < u->first + u->count && !u->tape && !u->loop; i++) {
            const gd_recorded *c = &r->call[p->body[i]];
            for (int o = 0; o < c->nin + c->nout; o++) wanted[r->operand[c->first + o].buffer] = true;
        }
        for (int i = 0; u->tape && i < u->tape->values; i++)
            if (u->tape->value[i].op == GD_TAPE_LOAD) wanted[u->tape->value[i].a] = true;
        for (int i = 0; u->loop && i < u->loop->regions; i++) {
            const gd_loop_region *region = &u->loop->region[i];
            for (int a = 0; a < region->arrays; a++) wanted[region->array[a].buffer] = true;
            for (int a = 0; a < region->scalars; a++) wanted[region->scalar[a].buffer] = true;
        }
    }
}

/* Constants known to tapes and loops need no memory. */
static bool drop_unread(gd_replay *p)
{
    const gd_recording *r = p->r;
    bool *wanted = gd__quiet_alloc(p->ctx, (size_t)r->buffers);
    int kept = p->prologues;
    if (!wanted) return false;
    memset(wanted, 0, (size_t)r->buffers);
    mark_units(p, wanted);
    for (int b = 0; b < r->buffers; b++) wanted[b] = wanted[b] || p->memory[b];
    for (int i = p->prologues; i-- > 0;) {
        const gd_recorded *c = &r->call[p->prologue[i]];
        bool read = false;
        for (int k = c->nin; k < c->nin + c->nout; k++)
            read = read || wanted[r->operand[c->first + k].buffer];
        for (int k = 0; k < c->nin && read; k++) wanted[r->operand[c->first + k].buffer] = true;
        if (read) p->prologue[--kept] = p->prologue[i];
    }
    p->prologues -= kept;
    memmove(p->prologue, p->prologue + kept, (size_t)p->prologues * sizeof *p->prologue);
    gd__free(p->ctx, wanted, (size_t)r->buffers);
    return true;
}

bool gd__replay_plan(gd_replay *p)
{
    if (!split_calls(p)) return false;
    note_writers(p);
    if (p->device == p->ctx->cpu)
        gd__replay_group(p);
    else if (!gd__on_device_group(p))
        return false;
    return drop_unread(p) && place_buffers(p);
}
