/* The interpreter: runs a pass block by block, one instruction at a time over a block.
 *
 * Values live in slots of a buffer on the stack: one for every uniform value (filled once), and for element values as many as
 * are live at a time.  The more slots, the shorter the blocks. */
#include "base/narrow.h"
#include "program/element.h"

#include <math.h>
#include <string.h>

#define BUFFER    65536 /* bytes for values */
#define CACHED    16384 /* of which this much stays in the first-level cache, beside the arrays */
#define MIN_BLOCK 128   /* elements from which on calling an instruction pays */
#define MAX_BLOCK 512

_Static_assert(BUFFER / sizeof(double) / GD_MAX_INSTRS >= GD_LANES,
               "the longest program has room for a block");

typedef struct machine {
    const gd_program *p;
    const gd_pass *pass;
    const gd_block_table *table;
    int type; /* GD_ELEMENT_F32 or F64 */
    int slots;
    int64_t block;
    int64_t start; /* number of the first element in its tensor */
    const double *chance;
    int16_t slot[GD_MAX_INSTRS];      /* -1: none, the value is the array itself */
    const void *value[GD_MAX_INSTRS]; /* in the current block */
    _Alignas(64) char lane[GD_MAX_REDUCTIONS][GD_LANES * sizeof(double)];
    _Alignas(64) char buffer[BUFFER];
    float coded[GD_MAX_ARRAYS][GD_CODED_BLOCK]; /* numbers of a block that become codes when it is full */
} machine;

const gd_block_table *gd__blocks(const gd_ctx *ctx) { return GD_BY_ISA(ctx, gd__blocks); }

gd_block_fn gd__block_op(const gd_block_table *table, int type, unsigned op, bool eager)
{
    static const bool varies[GD_I_COUNT] = {
#define ELEMENT(...)
#define ELEMENT0(...)
#define ELEMENT_V(name, ...) [GD_I_##name] = true,
#define ELEMENT_C(...)
#include "tensor/ops.def"
    };
    static const uint8_t operator_of[GD_I_COUNT] = {
#define ELEMENT(name, inputs, settings, kind, needs, takes, ...) GD_IF_##takes([GD_I_##name] = GD_OP_##name, )
#define ELEMENT0(name, inputs, settings, kind, takes, ...)       GD_IF_##takes([GD_I_##name] = GD_OP_##name, )
#define ELEMENT_C(...)
#include "tensor/ops.def"
    };
    gd_block_fn own = table->op[type][op];
    return own && !(eager && varies[op]) ? own : table->vec->map[operator_of[op]][type];
}

_Static_assert((int)GD_ELEMENT_F32 == (int)GD_AS_F32 && (int)GD_ELEMENT_F64 == (int)GD_AS_F64,
               "operators and programs count types alike");

/* ---- slots ---- */

/* Operands that are computed for every element. */
static int element_operands(const gd_program *p, const gd_pass *pass, int i)
{
    return gd__array_read(p, pass, i) >= 0 ? 0 : gd__opcode_operands(p->instr[i].op);
}

/* The last instruction of the pass that reads each value; p->count where a store or reduction does. */
static void find_last_uses(const gd_program *p, const gd_pass *pass, int16_t *last)
{
    memset(last, 0, (size_t)p->count * sizeof *last);
    for (int i = 0; i < p->count; i++) {
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        for (int k = 0; pass->needed[i] && k < element_operands(p, pass, i); k++)
            last[operand[k]] = (int16_t)i;
    }
    for (int k = 0; k < p->arrays; k++)
        if (pass->stores >> k & 1) last[p->array[k].store] = (int16_t)p->count;
    for (int r = 0; r < pass->reductions; r++)
        last[p->instr[p->reduction[pass->reduction[r]]].a] = (int16_t)p->count;
}

/* A LOAD needs no copy where memory already holds the compute type; but a value that is stored as it is must survive
 * the store to its own array. */
static bool reads_in_place(const machine *m, int i, const int16_t *last)
{
    int k = gd__array_read(m->p, m->pass, i);
    return k >= 0 && m->p->array[k].dtype == m->p->compute &&
           !(last[i] == m->p->count && m->pass->stores >> k & 1);
}

static void assign_slots(machine *m)
{
    const gd_program *p = m->p;
    int16_t last[GD_MAX_INSTRS], spare[GD_MAX_INSTRS];
    int spares = 0;
    find_last_uses(p, m->pass, last);
    for (int i = 0; i < p->count; i++) {
        m->slot[i] = -1;
        if (last[i] && p->instr[i].uniform) m->slot[i] = (int16_t)m->slots++;
    }
    for (int i = 0; i < p->count; i++) {
        if (!m->pass->needed[i]) continue;
        const gd_instr *in = &p->instr[i];
        const int32_t operand[3] = {in->a, in->b, in->c};
        if (!reads_in_place(m, i, last)) m->slot[i] = spares ? spare[--spares] : (int16_t)m->slots++;
        for (int k = 0; k < element_operands(p, m->pass, i); k++) {
            int32_t o = operand[k];
            if (last[o] != i || p->instr[o].uniform || m->slot[o] < 0) continue;
            spare[spares++] = m->slot[o];
            last[o] = 0; /* once, even if an operand is given twice */
        }
    }
}

static void *slot_of(machine *m, int i)
{
    size_t size = m->type == GD_ELEMENT_F32 ? sizeof(float) : sizeof(double);
    return m->buffer + (size_t)m->slot[i] * (size_t)m->block * size;
}

static void fill(machine *m, void *o, int64_t n, double value)
{
    if (m->type == GD_ELEMENT_F32)
        for (int64_t i = 0; i < n; i++) ((float *)o)[i] = (float)value;
    else
        for (int64_t i = 0; i < n; i++) ((double *)o)[i] = value;
}

static bool writes_codes(const machine *m)
{
    for (int k = 0; k < m->p->arrays; k++)
        if (m->pass->stores >> k & 1 && m->p->array[k].dtype == GD_U8) return true;
    return false;
}

/* A block size that divides a block of codes. */
static int64_t part_of_coded(int64_t block)
{
    int64_t part = GD_CODED_BLOCK;
    while (part > block && part > GD_LANES) part /= 2;
    return part;
}

/* The block length: a multiple of the lanes, limited by the buffer and by n, because uniform values are filled in for a whole
 * block. Rounds up first and limits last: a block that is longer than its slot would write past the buffer. */
static int64_t block_for(const machine *m, int64_t n)
{
    int64_t size = m->type == GD_ELEMENT_F32 ? sizeof(float) : sizeof(double);
    int64_t bytes = size * (m->slots ? m->slots : 1), block = CACHED / bytes;
    if (block > MAX_BLOCK) block = MAX_BLOCK;
    if (block < MIN_BLOCK) block = MIN_BLOCK;
    if (block > n) block = n + GD_LANES - 1;
    if (block > BUFFER / bytes) block = BUFFER / bytes;
    block = block / GD_LANES * GD_LANES;
    return writes_codes(m) ? part_of_coded(block) : block;
}

/* ---- running ---- */

static void prepare(machine *m, const gd_program *p, const gd_pass *pass, int64_t n, const double *scalar)
{
    m->p = p;
    m->pass = pass;
    m->table = gd__blocks(p->ctx);
    m->type = p->compute == GD_F64 ? GD_ELEMENT_F64 : GD_ELEMENT_F32;
    m->slots = 0;
    assign_slots(m);
    m->block = block_for(m, n);
    int next = 0;
    for (int i = 0; i < p->count; i++) {
        bool used = next < pass->used_count && pass->used[next] == i;
        if (p->instr[i].uniform && m->slot[i] >= 0) {
            fill(m, slot_of(m, i), m->block, used ? scalar[next] : p->instr[i].imm);
            m->value[i] = slot_of(m, i);
        }
        next += used;
    }
    for (int r = 0; r < pass->reductions; r++) {
        bool sum = p->instr[p->reduction[pass->reduction[r]]].op == GD_I_SUM;
        fill(m, m->lane[r], GD_LANES, sum ? 0 : -INFINITY);
    }
}

/* The scale of the block of an element: they lie before the codes, backwards. */
static float *scale_of(char *code, int64_t element)
{
    return (float *)(void *)code - 1 - element / GD_CODED_BLOCK;
}

static void decode(machine *m, int i, char *code, int64_t first, int64_t n, bool positive)
{
    size_t size = m->type == GD_ELEMENT_F32 ? sizeof(float) : sizeof(double);
    char *to = slot_of(m, i);
    m->value[i] = to;
    for (int64_t done = 0, part; done < n; done += part) {
        int64_t at = first + done;
        part = GD_CODED_BLOCK - at % GD_CODED_BLOCK;
        part = part < n - done ? part : n - done;
        m->table->decode[m->type][positive](to + (size_t)done * size, code + at, *scale_of(code, at), part);
    }
}

/* Collects numbers until their block is complete, or `ends` it. */
static void store_codes(machine *m, int k, char *const *array, int64_t first, int64_t n, bool ends)
{
    const gd_array *a = &m->p->array[k];
    char *code = array[k], *other = a->rest_of ? array[a->rest_of - 1] : NULL;
    int64_t at = first % GD_CODED_BLOCK, begin = first - at;
    m->table->store[m->type][GD_F32](m->coded[k] + at, m->value[a->store], n);
    if (at + n != GD_CODED_BLOCK && !ends) return;
    if (other) { /* whose codes exist by now */
        float value[GD_CODED_BLOCK];
        bool positive = m->p->array[a->rest_of - 1].positive;
        m->table->decode[GD_ELEMENT_F32][positive](value, other + begin, *scale_of(other, begin), at + n);
        for (int64_t i = 0; i < at + n; i++) m->coded[k][i] -= value[i];
    }
    m->table->code[a->positive](m->coded[k], (int)(at + n), scale_of(code, begin), (uint8_t *)code + begin);
}

static void store(machine *m, int k, char *const *array, int64_t start, int64_t n, bool ends)
{
    const gd_array *a = &m->p->array[k];
    char *to = array[k] + start * (int64_t)gd_dtype_size(a->dtype);
    if (a->dtype == GD_U8) {
        store_codes(m, k, array, m->start + start, n, ends);
    } else if (a->by_chance) {
        int c = 0;
        while (m->pass->chance[c] != k) c++;
        m->table->by_chance[m->type][a->dtype == GD_BF16](to, m->value[a->store], n, m->chance[c],
                                                          m->start + start, a->second);
    } else
        m->table->store[m->type][a->dtype](to, m->value[a->store], n);
}

static void run_instr(machine *m, int i, char *const *array, int64_t start, int64_t n)
{
    const gd_instr *in = &m->p->instr[i];
    int read = gd__array_read(m->p, m->pass, i);
    if (read < 0) {
        void *o = slot_of(m, i);
        gd_block_fn fn = gd__block_op(m->table, m->type, in->op, m->p->eager);
        fn(o, m->value[in->a], in->b < 0 ? NULL : m->value[in->b], in->c < 0 ? NULL : m->value[in->c], n,
           NULL);
        m->value[i] = o;
        return;
    }
    gd_dtype dtype = m->p->array[read].dtype;
    if (dtype == GD_U8) {
        decode(m, i, array[read], m->start + start, n, m->p->array[read].positive);
        return;
    }
    const char *from = array[read] + start * (int64_t)gd_dtype_size(dtype);
    m->value[i] = m->slot[i] < 0 ? (const void *)from : slot_of(m, i);
    if (m->slot[i] >= 0) m->table->load[m->type][dtype](slot_of(m, i), from, n);
}

static void run_block(machine *m, char *const *array, int64_t start, int64_t n, bool ends)
{
    const gd_program *p = m->p;
    for (int i = 0; i < p->count; i++)
        if (m->pass->needed[i]) run_instr(m, i, array, start, n);
    for (int r = 0; r < m->pass->reductions; r++) {
        const gd_instr *in = &p->instr[p->reduction[m->pass->reduction[r]]];
        gd_block_reduce_fn reduce = in->op == GD_I_SUM ? m->table->sum[m->type] : m->table->maximum[m->type];
        reduce(m->lane[r], m->value[in->a], n);
    }
    for (int k = 0; k < p->arrays; k++)
        if (m->pass->stores >> k & 1) store(m, k, array, start, n, ends);
}

/* Joins the sixteen lanes pairwise: 8 + 8, 4 + 4, ... */
static double join_lanes(machine *m, int r, bool sum)
{
    gd_block_fn join = gd__block_op(m->table, m->type, sum ? GD_I_add : GD_I_maximum, false);
    _Alignas(64) char other[sizeof m->lane[r]];
    size_t size = m->type == GD_ELEMENT_F32 ? sizeof(float) : sizeof(double);
    for (int width = GD_LANES / 2; width; width /= 2) {
        memcpy(other, m->lane[r], sizeof other);
        join(m->lane[r], other, other + (size_t)width * size, NULL, width, NULL);
    }
    return m->type == GD_ELEMENT_F32 ? (double)*(float *)(void *)m->lane[r] : *(double *)(void *)m->lane[r];
}

void gd__interpret(const gd_program *p, const gd_pass *pass, int64_t start, int64_t n, char *const *array,
                   const double *scalar, double *out)
{
    machine m;
    prepare(&m, p, pass, n, scalar);
    m.start = start;
    m.chance = scalar ? scalar + gd__chances_at(pass) : NULL;
    for (int64_t at = 0; at < n; at += m.block) {
        bool ends = n - at <= m.block;
        run_block(&m, array, at, ends ? n - at : m.block, ends);
    }
    for (int r = 0; r < pass->reductions; r++)
        out[r] = join_lanes(&m, r, p->instr[p->reduction[pass->reduction[r]]].op == GD_I_SUM);
}
