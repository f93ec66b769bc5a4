/* Grouping of the calls of a body.
 *
 * The body is scanned from its first call that a loop accepts. Calls join the loop, or are independent of it and move before it, or
 * come after it, because they need its results, or those of later calls. The remaining calls are scanned again. Between loops, adjacent calls over a
 * few elements are tapes. */
#include "trace/tape.h"
#include "trace/trace_loop.h"

#include <string.h>

#define LEAST_TAPED  2
#define LEAST_LOOPED 2
#define MOST_AFTER   1500 /* calls after a loop before it is closed */

/* Marks of a buffer's uses. */
enum { READ_BY_LOOP = 1, MADE_BY_LOOP = 2, READ_AFTER = 4, WRITTEN_AFTER = 8 };

typedef struct grouper {
    gd_replay *p;
    const gd_recording *r;
    int *left, *before, *after, *within; /* calls */
    int lefts, befores, afters, withins;
    int done; /* of the body, in its new order */
    uint8_t *use;
    bool *later;
    int32_t *made;
    gd_loop_group *group;
} grouper;

static void add_unit(gd_replay *p, int first, int count, gd_tape *tape, gd_loop *loop)
{
    gd_unit *last = p->units ? &p->unit[p->units - 1] : NULL;
    if (last && !last->tape && !last->loop && !tape && !loop) /* calls after each other */
        last->count += count;
    else
        p->unit[p->units++] = (gd_unit){.first = first, .count = count, .tape = tape, .loop = loop};
}

static const gd_operand *operands(const grouper *g, int call)
{
    return &g->r->operand[g->r->call[call].first];
}

static void mark(grouper *g, int call, int reads, int writes)
{
    const gd_recorded *c = &g->r->call[call];
    const gd_operand *o = operands(g, call);
    for (int k = 0; k < c->nin + c->nout; k++) g->use[o[k].buffer] |= (uint8_t)(k < c->nin ? reads : writes);
}

/* May a call run before those whose buffers have these marks? */
static bool may_pass(const grouper *g, int call, int written, int touched)
{
    const gd_recorded *c = &g->r->call[call];
    const gd_operand *o = operands(g, call);
    for (int k = 0; k < c->nin + c->nout; k++)
        if (g->use[o[k].buffer] & (k < c->nin ? written : touched)) return false;
    return true;
}

static bool joins(grouper *g, int call)
{
    gd_loop_group *group = g->group;
    gd_loop_node node;
    const gd_recorded *c = &g->r->call[call];
    if (c->kind != GD_CALL_KERNEL || c->nout != 1 || c->nin < 1) return false;
    if (!group->nodes) {
        const gd_operand *out = operands(g, call) + c->nin;
        group->dtype = out->dtype == GD_BOOL ? operands(g, call)->dtype : out->dtype;
    }
    if (!gd__loop_takes(group, c, &node)) return false;
    if (!may_pass(g, call, WRITTEN_AFTER, READ_AFTER | WRITTEN_AFTER | READ_BY_LOOP)) return false;
    node.place = call;
    group->views += node.views;
    group->node[group->nodes++] = node;
    group->made[node.out->buffer] = group->nodes;
    mark(g, call, READ_BY_LOOP, MADE_BY_LOOP);
    return true;
}

/* Would it fit a separate loop? Then it does not move before this one, where it would be alone. */
static bool loopable(const grouper *g, int call)
{
    gd_loop_group one = {.p = g->p, .most = 1, .made = g->made + g->r->buffers, .dtype = GD_F64};
    const gd_recorded *c = &g->r->call[call];
    gd_loop_node node;
    if (c->kind != GD_CALL_KERNEL || c->nout != 1 || c->nin < 1) return false;
    const gd_operand *out = operands(g, call) + c->nin;
    one.dtype = out->dtype == GD_BOOL ? operands(g, call)->dtype : out->dtype;
    return gd__loop_takes(&one, c, &node);
}

/* Sorts the remaining calls around one loop. */
static void sort_calls(grouper *g, int most, bool shifts)
{
    gd_loop_group *group = g->group;
    for (int k = 0; k < group->nodes; k++) group->made[group->node[k].out->buffer] = 0;
    group->nodes = group->views = 0;
    group->most = most;
    group->shifts = shifts;
    memset(g->use, 0, (size_t)g->r->buffers);
    g->befores = g->withins = g->afters = 0;
    for (int i = 0; i < g->lefts; i++) {
        int call = g->left[i];
        if (g->afters < MOST_AFTER && joins(g, call))
            g->within[g->withins++] = call;
        else if (g->afters < MOST_AFTER &&
                 may_pass(g, call, MADE_BY_LOOP | WRITTEN_AFTER,
                          READ_BY_LOOP | MADE_BY_LOOP | READ_AFTER | WRITTEN_AFTER) &&
                 !(g->withins && loopable(g, call)))
            g->before[g->befores++] = call;
        else {
            g->after[g->afters++] = call;
            mark(g, call, READ_AFTER, WRITTEN_AFTER);
        }
    }
}

static gd_loop *loop_of(grouper *g)
{
    if (g->withins < LEAST_LOOPED) return NULL;
    memset(g->later, 0, (size_t)g->r->buffers);
    for (int b = 0; b < g->r->buffers; b++) g->later[b] = (g->use[b] & READ_AFTER) != 0;
    return gd__loop_new(g->group, g->later);
}

/* ---- uses of buffers ---- */

void gd__replay_note_uses(gd_replay *p)
{
    const gd_recording *r = p->r;
    for (int b = 0; b < r->buffers; b++) p->begins[b] = p->ends[b] = -1;
    for (int i = 0; i < p->bodies; i++) {
        const gd_recorded *c = &r->call[p->body[i]];
        for (int k = 0; k < c->nin + c->nout; k++) {
            int b = r->operand[c->first + k].buffer;
            if (p->begins[b] < 0) p->begins[b] = i;
            p->ends[b] = i;
        }
    }
}

static void put_calls(grouper *g, const int *calls, int count)
{
    for (int i = 0; i < count; i++) g->p->body[g->done++] = calls[i];
}

/* The calls in their new order; loops are units already, others are noted as calls. */
static void put_loops(grouper *g)
{
    static const struct {
        int most;
        bool shifts;
    } ways[] = {{GD_LOOP_NODES, true}, {GD_LOOP_NODES, false}, {20, true}, {20, false}, {6, false}};
    gd_replay *p = g->p;
    while (g->lefts) {
        gd_loop *loop = NULL;
        for (size_t k = 0; k < sizeof ways / sizeof *ways && !loop; k++) {
            sort_calls(g, ways[k].most, ways[k].shifts);
            if (g->withins < LEAST_LOOPED) break;
            loop = loop_of(g);
        }
        int first = g->done;
        put_calls(g, g->before, g->befores);
        if (!loop && g->withins) { /* one call of it alone, and the others again */
            put_calls(g, g->within, 1);
            add_unit(p, first, g->done - first, NULL, NULL);
            int rest = 0, gone = 0;
            for (int i = 0; i < g->lefts; i++) {
                if (g->left[i] == g->within[0]) continue;
                if (gone < g->befores && g->left[i] == g->before[gone])
                    gone++;
                else
                    g->left[rest++] = g->left[i];
            }
            g->lefts = rest;
            continue;
        }
        if (g->done > first) add_unit(p, first, g->done - first, NULL, NULL);
        first = g->done;
        put_calls(g, g->within, g->withins);
        if (loop) add_unit(p, first, g->withins, NULL, loop);
        memcpy(g->left, g->after, (size_t)g->afters * sizeof *g->left);
        g->lefts = g->afters;
    }
}

/* ---- tapes ---- */

static void put_tapes(gd_replay *p, const gd_unit *calls)
{
    for (int i = calls->first, end = i + calls->count; i < end;) {
        int n = 0;
        while (i + n < end && gd__tape_takes(p, &p->r->call[p->body[i + n]], GD_TAPE_ELEMENTS)) n++;
        gd_tape *tape = n >= LEAST_TAPED ? gd__tape_new(p, i, n) : NULL;
        add_unit(p, i, n ? n : 1, tape, NULL);
        i += n ? n : 1;
    }
}

/* Converts units of calls to tapes if possible. */
static void split_units(gd_replay *p, gd_unit *units, int count)
{
    p->units = 0;
    for (int k = 0; k < count; k++) {
        if (units[k].loop)
            add_unit(p, units[k].first, units[k].count, NULL, units[k].loop);
        else
            put_tapes(p, &units[k]);
    }
}

static bool make_grouper(grouper *g, size_t *bytes, char **block)
{
    size_t calls = (size_t)g->p->bodies, buffers = (size_t)g->r->buffers;
    *bytes = sizeof *g->group + 2 * buffers * sizeof *g->made + 4 * calls * sizeof(int) + 2 * buffers;
    char *at = *block = gd__quiet_alloc(g->p->ctx, *bytes);
    if (!at) return false;
    memset(at, 0, *bytes);
    g->group = (gd_loop_group *)(void *)at;
    at += sizeof *g->group;
    g->made = (int32_t *)(void *)at;
    at += 2 * buffers * sizeof *g->made;
    g->left = (int *)(void *)at;
    g->before = g->left + calls;
    g->after = g->before + calls;
    g->within = g->after + calls;
    g->use = (uint8_t *)(g->within + calls);
    g->later = (bool *)(g->use + buffers);
    g->group->p = g->p;
    g->group->made = g->made;
    return true;
}

void gd__replay_group(gd_replay *p)
{
    grouper g = {.p = p, .r = p->r};
    size_t bytes;
    char *block;
    gd_unit *units = gd__quiet_alloc(p->ctx, (size_t)p->bodies * sizeof *units);
    if (units && make_grouper(&g, &bytes, &block)) {
        memcpy(g.left, p->body, (size_t)p->bodies * sizeof *g.left);
        g.lefts = p->bodies;
        put_loops(&g);
        gd__free(p->ctx, block, bytes);
    } else
        add_unit(p, 0, p->bodies, NULL, NULL);
    gd__replay_note_uses(p);
    int count = p->units;
    if (!units) return;
    memcpy(units, p->unit, (size_t)count * sizeof *units);
    split_units(p, units, count);
    gd__free(p->ctx, units, (size_t)p->bodies * sizeof *units);
}
