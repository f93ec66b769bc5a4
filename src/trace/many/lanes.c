/* Tapes over lanes: slots of values, and execution. */
#include "trace/many/lanes.h"

#include <stdio.h>
#include <string.h>

/* ---- making ---- */

typedef struct maker {
    const gd_replay *p;
    const gd_tape *tape;
    gd_lanes *lanes;
    const gd_vec_table *vec;
    int32_t *slot;  /* of each value */
    int32_t *last;  /* the last value that reads each; -1: none */
    int32_t *first; /* the first store of each value, and the one after each store; -1: none */
    int32_t *next;
    int32_t *free; /* slots */
    int frees, slots;
    bool failed;
} maker;

static gd_op_id operator_of(const gd_tape_value *v)
{
    static const gd_op_id operators[] = {
#define OPERATOR(name, operator, expression) [GD_TAPE_##name] = GD_OP_##operator,
        GD_TAPE_OPS(OPERATOR)
#undef OPERATOR
    };
    return operators[v->op];
}

static gd_vec_fn kernel_of(const maker *m, const gd_tape_value *v)
{
    if (v->op == GD_TAPE_KERNEL) return v->fn;
    return m->vec->map[operator_of(v)][v->type == GD_TAPE_F32 ? GD_AS_F32 : GD_AS_F64];
}

static uint8_t item_of(uint8_t type)
{
    static const uint8_t bytes[GD_TAPE_TYPES] = {8, 4, 8, 1};
    return bytes[type];
}

static bool enlarge(maker *m, void *array, int count, int *room, size_t item)
{
    bool done = gd__quiet_reserve(m->p->ctx, array, count, room, item, 64);
    m->failed = m->failed || !done;
    return done;
}

static void put_step(maker *m, const gd_lane_step *step)
{
    gd_lanes *l = m->lanes;
    if (enlarge(m, &l->step, l->steps, &l->step_room, sizeof *step)) l->step[l->steps++] = *step;
}

static uint32_t at_slot(int32_t slot) { return (uint32_t)slot * (uint32_t)GD_LANE_SLOT; }

static uint32_t slot_place(const maker *m, int32_t value) { return value < 0 ? 0 : at_slot(m->slot[value]); }

static void put_stores(maker *m, int32_t k)
{
    for (int32_t i = m->first[k]; i >= 0; i = m->next[i]) {
        const gd_tape_store *s = &m->tape->store[i];
        put_step(m, &(gd_lane_step){.to = slot_place(m, k),
                                    .buffer = s->buffer,
                                    .offset = s->offset,
                                    .item = item_of(m->tape->value[k].type),
                                    .stores = true});
        m->lanes->stored[s->buffer] = true;
    }
}

static void put_numbers(maker *m)
{
    gd_lanes *l = m->lanes;
    for (int32_t k = 0; k < m->tape->values && !m->failed; k++) {
        const gd_tape_value *v = &m->tape->value[k];
        if (v->op != GD_TAPE_NUMBER) continue;
        m->slot[k] = m->slots++;
        if (!enlarge(m, &l->number, l->numbers, &l->number_room, sizeof *l->number)) return;
        l->number[l->numbers++] = (gd_lane_number){slot_place(m, k), (gd_tape_type)v->type, v->as.f[0]};
        put_stores(m, k);
    }
}

static void give_back(maker *m, int32_t operand, int32_t reader)
{
    if (operand < 0 || m->last[operand] != reader || m->tape->value[operand].op == GD_TAPE_NUMBER) return;
    m->last[operand] = -1; /* an operand may occur twice */
    m->free[m->frees++] = m->slot[operand];
}

/* Inputs of a load need memory: numbers known to the units of the body may have none. */
static bool is_there(const maker *m, int buffer)
{
    return m->p->r->buffer[buffer].origin != GD_ORIGIN_MADE || m->p->base[buffer];
}

static void put_value(maker *m, int32_t k)
{
    const gd_tape_value *v = &m->tape->value[k];
    gd_lane_step s = {.item = item_of(v->type)};
    m->slot[k] = m->frees ? m->free[--m->frees] : m->slots++;
    s.to = slot_place(m, k);
    if (v->op == GD_TAPE_LOAD) {
        s.buffer = v->a;
        s.offset = v->b;
        m->failed = m->failed || !is_there(m, v->a);
    } else {
        s.fn = kernel_of(m, v);
        s.x = slot_place(m, v->a);
        s.y = slot_place(m, v->b);
        s.z = slot_place(m, v->c);
        memcpy(s.f, v->as.f, sizeof s.f);
        m->failed = m->failed || !s.fn;
    }
    put_step(m, &s);
    put_stores(m, k);
    if (m->last[k] < 0) m->free[m->frees++] = m->slot[k];
    if (v->op == GD_TAPE_LOAD) return;
    give_back(m, v->a, k);
    give_back(m, v->b, k);
    give_back(m, v->c, k);
}

static void note_reads(maker *m)
{
    const gd_tape *t = m->tape;
    for (int32_t k = 0; k < t->values; k++) m->last[k] = m->first[k] = -1;
    for (int32_t k = 0; k < t->values; k++) {
        const gd_tape_value *v = &t->value[k];
        if (v->op == GD_TAPE_LOAD) continue;
        if (v->a >= 0) m->last[v->a] = k;
        if (v->b >= 0) m->last[v->b] = k;
        if (v->c >= 0) m->last[v->c] = k;
    }
    for (int32_t i = 0; i < t->stores; i++) {
        m->next[i] = m->first[t->store[i].value];
        m->first[t->store[i].value] = i;
    }
}

static void make_steps(maker *m)
{
    const gd_tape *t = m->tape;
    size_t bytes = (4 * (size_t)t->values + (size_t)t->stores) * sizeof(int32_t) + 1;
    int32_t *lists = gd__quiet_alloc(m->p->ctx, bytes);
    if (!lists) {
        m->failed = true;
        return;
    }
    m->slot = lists;
    m->last = m->slot + t->values;
    m->first = m->last + t->values;
    m->free = m->first + t->values;
    m->next = m->free + t->values;
    note_reads(m);
    put_numbers(m);
    for (int32_t k = 0; k < t->values && !m->failed; k++)
        if (t->value[k].op != GD_TAPE_NUMBER) put_value(m, k);
    m->lanes->room = (size_t)m->slots * GD_LANE_SLOT;
    gd__free(m->p->ctx, lists, bytes);
}

static bool all_taken(const gd_replay *p, char *why, size_t size)
{
    for (int i = 0; i < p->bodies; i++) {
        const gd_recorded *c = &p->r->call[p->body[i]];
        if (gd__tape_takes(p, c, GD_LANE_ELEMENTS)) continue;
        (void)snprintf(why, size, "%s is not element by element, or has more than %d elements",
                       c->kind == GD_CALL_KERNEL  ? gd__ops[c->op].name
                       : c->kind == GD_CALL_SCAN  ? "a loop"
                       : c->kind == GD_CALL_INPUT ? "gd_traced_input"
                                                  : "data made on the host",
                       GD_LANE_ELEMENTS);
        return false;
    }
    return true;
}

gd_tape *gd__whole_tape(const gd_replay *p, char *why, size_t size)
{
    if (!all_taken(p, why, size)) return NULL;
    gd_tape *tape = gd__tape_new(p, 0, p->bodies);
    if (!tape) (void)snprintf(why, size, "its operators cannot be one tape, or no memory is left");
    return tape;
}

gd_lanes *gd__lanes_new(const gd_replay *p, char *why, size_t size)
{
    if (size) why[0] = 0;
    gd_tape *tape = gd__whole_tape(p, why, size);
    gd_lanes *l = tape ? gd__quiet_alloc(p->ctx, sizeof *l) : NULL;
    if (l) {
        *l = (gd_lanes){.ctx = p->ctx, .buffers = p->r->buffers};
        l->stored = gd__quiet_alloc(p->ctx, (size_t)l->buffers);
        maker m = {.p = p, .tape = tape, .lanes = l, .vec = gd__vec(p->ctx->cpu), .failed = !l->stored};
        if (l->stored) memset(l->stored, 0, (size_t)l->buffers);
        if (!m.failed) make_steps(&m);
        if (m.failed) {
            gd__lanes_free(l);
            l = NULL;
        }
    }
    gd__tape_free(tape);
    if (!l && !why[0]) (void)snprintf(why, size, "no memory is left");
    return l;
}

void gd__lanes_free(gd_lanes *l)
{
    if (!l) return;
    gd__free(l->ctx, l->step, (size_t)l->step_room * sizeof *l->step);
    gd__free(l->ctx, l->number, (size_t)l->number_room * sizeof *l->number);
    gd__free(l->ctx, l->stored, (size_t)l->buffers);
    gd__free(l->ctx, l, sizeof *l);
}

/* ---- running ---- */

void gd__lanes_prepare(const gd_lanes *l, char *room)
{
    memset(room, 0, l->room);
    for (int i = 0; i < l->numbers; i++) {
        const gd_lane_number *n = &l->number[i];
        for (int k = 0; k < GD_LANE_COUNT; k++)
            if (n->type == GD_TAPE_F32)
                ((float *)(void *)(room + n->to))[k] = (float)n->value;
            else
                ((double *)(void *)(room + n->to))[k] = n->value;
    }
}

/* All lanes, or the first ones: those without a problem get the numbers of the last one.  Unrolled, because half of the time is spent
 * moving numbers between problems and lanes. */
#define MOVES(type)                                                                    \
    static void load_##type(char *slot, const char *at, ptrdiff_t by, int count)       \
    {                                                                                  \
        type *lane = (type *)(void *)slot;                                             \
        if (count == GD_LANE_COUNT) {                                                  \
            _Pragma("GCC unroll 16") for (int i = 0; i < GD_LANE_COUNT; i++, at += by) \
                memcpy(&lane[i], at, sizeof *lane);                                    \
            return;                                                                    \
        }                                                                              \
        for (int i = 0; i < GD_LANE_COUNT; i++, at += i < count ? by : 0)              \
            memcpy(&lane[i], at, sizeof *lane);                                        \
    }                                                                                  \
    static void store_##type(const char *slot, char *at, ptrdiff_t by, int count)      \
    {                                                                                  \
        const type *lane = (const type *)(const void *)slot;                           \
        if (count == GD_LANE_COUNT) {                                                  \
            _Pragma("GCC unroll 16") for (int i = 0; i < GD_LANE_COUNT; i++, at += by) \
                memcpy(at, &lane[i], sizeof *lane);                                    \
            return;                                                                    \
        }                                                                              \
        for (int i = 0; i < count; i++, at += by) memcpy(at, &lane[i], sizeof *lane);  \
    }
MOVES(uint64_t)
MOVES(uint32_t)
MOVES(uint8_t)

static void move(const gd_lane_step *s, char *at, ptrdiff_t by, int count, char *slot)
{
    if (s->stores && s->item == 8)
        store_uint64_t(slot, at, by, count);
    else if (s->item == 8)
        load_uint64_t(slot, at, by, count);
    else if (s->stores && s->item == 4)
        store_uint32_t(slot, at, by, count);
    else if (s->item == 4)
        load_uint32_t(slot, at, by, count);
    else if (s->stores)
        store_uint8_t(slot, at, by, count);
    else
        load_uint8_t(slot, at, by, count);
}

void gd__lanes_run(const gd_lanes *l, char *const *base, const ptrdiff_t *by, int count, char *room)
{
    for (const gd_lane_step *s = l->step, *end = s + l->steps; s < end; s++)
        if (s->fn)
            s->fn(room + s->to, room + s->x, room + s->y, room + s->z, GD_LANE_COUNT, s->f);
        else
            move(s, base[s->buffer] + s->offset, by[s->buffer], count, room + s->to);
}
