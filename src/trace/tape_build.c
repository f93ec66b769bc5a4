/* Making tapes: kernels over a few elements, element by element. */
#include "trace/tape.h"

#include <string.h>

#define MOST_VALUES (1 << 20)
#define MOST_OFFSET ((int64_t)1 << 30)
#define MOST_ROWS   128 /* of a sum over rows, beyond which its kernel joins chunks */

/* ---- calls that tapes accept ---- */

static int type_of(gd_dtype dtype)
{
    switch (dtype) {
    case GD_F64: return GD_TAPE_F64;
    case GD_F32: return GD_TAPE_F32;
    case GD_I64: return GD_TAPE_I64;
    case GD_BOOL: return GD_TAPE_BOOL;
    default: return GD_TAPE_TYPES;
    }
}

static bool is_float(int type) { return type == GD_TAPE_F64 || type == GD_TAPE_F32; }

/* A kernel that takes its operands without conversions. */
static bool takes_elements(const gd_replay *p, const gd_recorded *c, const gd_operand *in,
                           const gd_operand *out)
{
    bool chooses = c->op == GD_OP_where;
    int type = type_of(in[chooses].dtype), made = type_of(out->dtype);
    if (chooses && type_of(in[0].dtype) != GD_TAPE_BOOL) return false;
    for (int k = chooses; k < c->nin; k++)
        if (type_of(in[k].dtype) != type || type >= GD_TAPE_BOOL) return false;
    bool test = gd__ops[c->op].kind == GD_KIND_TEST;
    const gd_vec_table *vec = gd__vec(p->ctx->cpu);
    return made == (test ? GD_TAPE_BOOL : type) && vec->map[c->op][gd__compute_type(in[chooses].dtype)];
}

/* A cast of bool to numbers: 1 if true, else 0. */
static bool counts_truth(const gd_recorded *c, const gd_operand *in, const gd_operand *out)
{
    return c->op == GD_OP_cast && in->dtype == GD_BOOL && is_float(type_of(out->dtype));
}

static bool all_alike(const gd_operand *in, const gd_operand *out, int count)
{
    bool same = true;
    for (int k = 0; k < count && same; k++) same = in[k].dtype == out->dtype && in[k].ndim == out->ndim;
    return same;
}

bool gd__tape_takes(const gd_replay *p, const gd_recorded *c, int64_t most)
{
    const gd_operand *in = &p->r->operand[c->first], *out = in + c->nin;
    if (c->kind != GD_CALL_KERNEL || c->nout != 1) return false;
    for (int k = 0; k <= c->nin; k++)
        if (in[k].numel > most || type_of(in[k].dtype) == GD_TAPE_TYPES) return false;
    bool same = in->dtype == out->dtype;
    if (counts_truth(c, in, out)) return true;
    if (c->op == GD_OP_cat) return all_alike(in, out, c->nin);
    if (c->op == GD_OP_copy || c->op == GD_OP_cast || c->op == GD_OP_embed) return same;
    if (c->op == GD_OP_sum)
        return same && is_float(type_of(in->dtype)) && c->attrs.i[1] > 0 &&
               (c->attrs.i[2] == 1 || c->attrs.i[1] <= MOST_ROWS);
    gd_op_kind kind = gd__ops[c->op].kind;
    return (kind == GD_KIND_MAP || kind == GD_KIND_TEST) && takes_elements(p, c, in, out);
}

/* ---- building ---- */

/* The value at a memory position: loaded from there or written last. */
typedef struct cell {
    int32_t buffer, offset, value; /* value -1: the cell is free */
    bool written;
} cell;

typedef struct builder {
    const gd_replay *p;
    gd_tape *tape;
    const gd_vec_table *vec;
    cell *cells;
    int32_t *same; /* values by hash, so that equal work is done once */
    int cell_count, cell_room, same_room;
    bool failed;
} builder;

static bool enlarge(builder *b, void *array, int count, int *room, size_t item)
{
    bool done = gd__quiet_reserve(b->p->ctx, array, count, room, item, 64);
    b->failed = b->failed || !done;
    return done;
}

static uint64_t mixed(uint64_t h, uint64_t x)
{
    h = (h ^ x) * 0x9e3779b97f4a7c15u;
    return h ^ h >> 29;
}

static size_t cell_hash(int32_t buffer, int32_t offset)
{
    return (size_t)mixed(mixed(1, (uint32_t)buffer), (uint32_t)offset);
}

static bool grow_cells(builder *b)
{
    int room = b->cell_room ? b->cell_room * 2 : 256;
    cell *cells = gd__quiet_alloc(b->p->ctx, (size_t)room * sizeof *cells);
    if (!cells) return !(b->failed = true);
    for (int i = 0; i < room; i++) cells[i].value = -1;
    for (int i = 0; i < b->cell_room; i++) {
        if (b->cells[i].value < 0) continue;
        size_t at = cell_hash(b->cells[i].buffer, b->cells[i].offset) & (size_t)(room - 1);
        while (cells[at].value >= 0) at = (at + 1) & (size_t)(room - 1);
        cells[at] = b->cells[i];
    }
    gd__free(b->p->ctx, b->cells, (size_t)b->cell_room * sizeof *cells);
    b->cells = cells;
    b->cell_room = room;
    return true;
}

/* The cell of a place, free or not; NULL: no memory. */
static cell *cell_at(builder *b, int32_t buffer, int32_t offset)
{
    if (2 * (b->cell_count + 1) > b->cell_room && !grow_cells(b)) return NULL;
    size_t at = cell_hash(buffer, offset) & (size_t)(b->cell_room - 1);
    while (b->cells[at].value >= 0 && (b->cells[at].buffer != buffer || b->cells[at].offset != offset))
        at = (at + 1) & (size_t)(b->cell_room - 1);
    return &b->cells[at];
}

static uint64_t value_hash(const gd_tape_value *v)
{
    uint64_t h = mixed(7, (uint64_t)v->op << 32 | (uint64_t)v->type << 16 | v->kernel), f[2];
    memcpy(f, &v->as, sizeof f);
    h = mixed(mixed(h, (uint32_t)v->a), (uint32_t)v->b);
    return mixed(mixed(mixed(h, (uint32_t)v->c), f[0]), f[1]);
}

static bool same_value(const gd_tape_value *x, const gd_tape_value *y)
{
    return x->op == y->op && x->type == y->type && x->kernel == y->kernel && x->a == y->a && x->b == y->b &&
           x->c == y->c && !memcmp(&x->as, &y->as, sizeof x->as);
}

static bool grow_same(builder *b)
{
    int room = b->same_room ? b->same_room * 2 : 256;
    int32_t *same = gd__quiet_alloc(b->p->ctx, (size_t)room * sizeof *same);
    if (!same) return !(b->failed = true);
    memset(same, 0xff, (size_t)room * sizeof *same);
    for (int32_t k = 0; k < b->tape->values; k++) {
        size_t at = value_hash(&b->tape->value[k]) & (size_t)(room - 1);
        while (same[at] >= 0) at = (at + 1) & (size_t)(room - 1);
        same[at] = k;
    }
    gd__free(b->p->ctx, b->same, (size_t)b->same_room * sizeof *same);
    b->same = same;
    b->same_room = room;
    return true;
}

static int32_t add_value(builder *b, const gd_tape_value *v)
{
    gd_tape *t = b->tape;
    if (2 * (t->values + 1) > b->same_room && !grow_same(b)) return 0;
    size_t at = value_hash(v) & (size_t)(b->same_room - 1);
    for (; b->same[at] >= 0; at = (at + 1) & (size_t)(b->same_room - 1))
        if (same_value(&t->value[b->same[at]], v)) return b->same[at];
    if (t->values == MOST_VALUES || !enlarge(b, &t->value, t->values, &t->value_room, sizeof *v)) {
        b->failed = true;
        return 0;
    }
    t->value[t->values] = *v;
    return b->same[at] = t->values++;
}

static int32_t known_number(builder *b, int type, double i)
{
    return add_value(
        b, &(gd_tape_value){
               .op = GD_TAPE_NUMBER, .type = (uint8_t)type, .a = -1, .b = -1, .c = -1, .as.f = {i, 0}});
}

static const gd_tape_value *known(const builder *b, int32_t v)
{
    return b->tape->value[v].op == GD_TAPE_NUMBER ? &b->tape->value[v] : NULL;
}

/* x times 1 is x, in either order. */
static int32_t math(builder *b, gd_tape_op op, int type, int32_t x, int32_t y, int32_t z, double i)
{
    if (b->failed) return 0;
    if (op == GD_TAPE_MUL && known(b, y) && known(b, y)->as.f[0] == 1) return x;
    if (op == GD_TAPE_MUL && known(b, x) && known(b, x)->as.f[0] == 1) return y;
    if (op == GD_TAPE_MUL_NUMBER && i == 1) return x;
    return add_value(
        b,
        &(gd_tape_value){.op = (uint8_t)op, .type = (uint8_t)type, .a = x, .b = y, .c = z, .as.f = {i, 0}});
}

/* ---- memory ---- */

static int32_t loaded_cell(builder *b, const gd_operand *o, int32_t offset)
{
    const gd_buffer *buffer = &b->p->r->buffer[o->buffer];
    int type = type_of(o->dtype);
    double value;
    if (is_float(type) && gd__filled_with(b->p, o->buffer, &value)) {
        if (type == GD_TAPE_F32) value = (double)(float)value;
        return known_number(b, type, value);
    }
    /* memory that only this tape writes is never stored, and its old contents are undefined */
    if (buffer->origin == GD_ORIGIN_MADE && buffer->moving && b->p->begins[o->buffer] >= b->tape->first)
        b->failed = true;
    return add_value(
        b, &(gd_tape_value){.op = GD_TAPE_LOAD, .type = (uint8_t)type, .a = o->buffer, .b = offset, .c = -1});
}

static int32_t place_of(builder *b, const gd_operand *o, const int64_t *index, int shift)
{
    int64_t at = 0;
    for (int d = 0; d < o->ndim; d++)
        if (o->size[d] != 1) at += index[d + shift] * o->stride[d];
    at = o->offset + at * (int64_t)gd_dtype_size(o->dtype);
    if (at < -MOST_OFFSET || at > MOST_OFFSET) b->failed = true;
    return (int32_t)at;
}

static int32_t read_cell(builder *b, const gd_operand *o, int32_t offset)
{
    cell *c = b->failed ? NULL : cell_at(b, o->buffer, offset);
    if (!c) return 0;
    if (c->value >= 0) {
        if (b->tape->value[c->value].type != type_of(o->dtype)) b->failed = true;
        return c->value;
    }
    int32_t value = loaded_cell(b, o, offset);
    if (b->failed) return 0;
    *c = (cell){o->buffer, offset, value, false};
    b->cell_count++;
    return value;
}

static void write_cell(builder *b, const gd_operand *o, int32_t offset, int32_t value)
{
    cell *c = b->failed ? NULL : cell_at(b, o->buffer, offset);
    if (!c) return;
    if (c->value >= 0 && b->tape->value[c->value].type != type_of(o->dtype)) b->failed = true;
    b->cell_count += c->value < 0;
    *c = (cell){o->buffer, offset, value, true};
}

/* ---- kernels ---- */

static bool step(const gd_operand *o, int64_t *index)
{
    for (int d = o->ndim; d-- > 0; index[d] = 0)
        if (++index[d] < o->size[d]) return true;
    return false;
}

static gd_tape_op math_of(gd_op_id op)
{
    static const struct {
        gd_op_id operator;
        gd_tape_op is;
    } maths[] = {
#define MATH(name, operator, expression) {GD_OP_##operator, GD_TAPE_##name },
        GD_TAPE_OPS(MATH)
#undef MATH
    };
    for (size_t i = 0; i < sizeof maths / sizeof *maths; i++)
        if (maths[i].operator== op) return maths[i].is;
    return GD_TAPE_KERNEL;
}

static int32_t element(builder *b, const gd_recorded *c, const int32_t *x, int type, int made)
{
    gd_tape_op op = is_float(type) ? math_of(c->op) : GD_TAPE_KERNEL;
    if (op != GD_TAPE_KERNEL) {
        double i = c->attrs.nf ? c->attrs.f[0] : 0;
        return math(b, op, made, x[0], x[1], x[2], type == GD_TAPE_F32 ? (double)(float)i : i);
    }
    static const int compute[] = {GD_AS_F64, GD_AS_F32, GD_AS_I64, GD_AS_I64};
    gd_tape_value v = {.op = GD_TAPE_KERNEL,
                       .type = (uint8_t)made,
                       .kernel = (uint16_t)c->op,
                       .a = x[0],
                       .b = x[1],
                       .c = x[2],
                       .as.f = {c->attrs.f[0], c->attrs.f[1]},
                       .fn = b->vec->map[c->op][compute[type]]};
    return add_value(b, &v);
}

static int32_t truth_as_number(builder *b, int32_t x, int made)
{
    gd_tape_value v = {.op = GD_TAPE_KERNEL,
                       .type = (uint8_t)made,
                       .kernel = GD_OP_where,
                       .a = x,
                       .b = known_number(b, made, 1),
                       .c = known_number(b, made, 0),
                       .fn = b->vec->map[GD_OP_where][made == GD_TAPE_F32 ? GD_AS_F32 : GD_AS_F64]};
    return b->failed ? 0 : add_value(b, &v);
}

/* Reads all inputs before writing anything: operands may overlap the result. */
static void elements(builder *b, const gd_recorded *c, const gd_operand *in, const gd_operand *out)
{
    int64_t index[GD_MAX_DIMS] = {0};
    int32_t made[GD_LANE_ELEMENTS];
    int n = 0, type = type_of(in[c->op == GD_OP_where].dtype), to = type_of(out->dtype);
    bool counts = counts_truth(c, in, out), moves = !counts && (c->op == GD_OP_copy || c->op == GD_OP_cast);
    if (!out->numel) return;
    do {
        int32_t x[3] = {-1, -1, -1};
        for (int k = 0; k < c->nin; k++) {
            int shift = out->ndim - in[k].ndim;
            x[k] = read_cell(b, &in[k], place_of(b, &in[k], index, shift));
        }
        made[n++] = b->failed || moves ? x[0]
                    : counts           ? truth_as_number(b, x[0], to)
                                       : element(b, c, x, type, to);
    } while (step(out, index));
    n = 0;
    do write_cell(b, out, place_of(b, out, index, 0), made[n++]);
    while (step(out, index));
}

/* Zeros, or a different constant, with x at start + i step. */
static void embed(builder *b, const gd_recorded *c, const gd_operand *x, const gd_operand *out)
{
    const int64_t *start = c->attrs.i, *by = start + x->ndim;
    int type = type_of(out->dtype);
    int64_t index[GD_MAX_DIMS] = {0}, there[GD_MAX_DIMS];
    if (!is_float(type)) b->failed = true;
    double value = type == GD_TAPE_F32 ? (double)(float)c->attrs.f[0] : c->attrs.f[0];
    if (out->numel) do
            write_cell(b, out, place_of(b, out, index, 0), known_number(b, type, value));
        while (step(out, index));
    if (x->numel) do {
            for (int d = 0; d < x->ndim; d++) there[d] = start[d] + index[d] * by[d];
            write_cell(b, out, place_of(b, out, there, 0), read_cell(b, x, place_of(b, x, index, 0)));
        } while (step(x, index));
}

/* Piece by piece along an axis. */
static void cat(builder *b, const gd_recorded *c, const gd_operand *in, const gd_operand *out)
{
    int axis = (int)c->attrs.i[0];
    int64_t before = 0;
    for (int k = 0; k < c->nin; before += in[k++].size[axis]) {
        int64_t index[GD_MAX_DIMS] = {0}, there[GD_MAX_DIMS];
        if (!in[k].numel) continue;
        do {
            memcpy(there, index, sizeof there);
            there[axis] += before;
            write_cell(b, out, place_of(b, out, there, 0),
                       read_cell(b, &in[k], place_of(b, &in[k], index, 0)));
        } while (step(&in[k], index));
    }
}

#define LANES 16 /* of the sums in cpu/vec/kernels.c */

/* Sixteen lanes that begin with 0, then pairwise.  A single element in its lane needs no 0, which only turns -0 into 0: one addition at
 * the end does that too. Lanes without elements need none either. */
static int32_t sum_of(builder *b, int type, const int32_t *x, int n)
{
    int32_t lane[LANES];
    int lanes = n < LANES ? n : LANES;
    for (int k = 0; k < lanes; k++) {
        lane[k] = x[k];
        for (int i = k + LANES; i < n; i += LANES) lane[k] = math(b, GD_TAPE_ADD, type, lane[k], x[i], -1, 0);
    }
    for (int width = LANES / 2; width; width /= 2) /* from the last: those belong to no other pair */
        for (; lanes > width; lanes--)
            lane[lanes - 1 - width] = math(b, GD_TAPE_ADD, type, lane[lanes - 1 - width], lane[lanes - 1], -1,
                                           0);
    return math(b, GD_TAPE_ADD_NUMBER, type, lane[0], -1, -1, 0);
}

/* The operand, in order, is [outer, reduced, inner]; with inner axes rows are added to the first. */
static void sum(builder *b, const gd_recorded *c, const gd_operand *x, const gd_operand *out)
{
    int64_t outer = c->attrs.i[0], n = c->attrs.i[1], inner = c->attrs.i[2], index[GD_MAX_DIMS] = {0};
    int type = type_of(x->dtype), count = 0;
    int32_t value[GD_LANE_ELEMENTS], row[GD_LANE_ELEMENTS];
    if (!x->numel || !out->numel) return;
    do value[count++] = read_cell(b, x, place_of(b, x, index, 0));
    while (step(x, index));
    for (int64_t o = 0; o < outer; o++)
        for (int64_t j = 0; j < inner; j++) {
            for (int64_t i = 0; i < n; i++) row[i] = value[(o * n + i) * inner + j];
            int32_t total = row[0];
            for (int64_t i = 1; i < n && inner > 1; i++)
                total = math(b, GD_TAPE_ADD, type, total, row[i], -1, 0);
            if (inner == 1) total = sum_of(b, type, row, (int)n);
            write_cell(b, out, place_of(b, out, index, 0), total);
            (void)step(out, index);
        }
}

static void add_call(builder *b, const gd_recorded *c)
{
    const gd_operand *in = &b->p->r->operand[c->first], *out = in + c->nin;
    if (c->op == GD_OP_embed)
        embed(b, c, in, out);
    else if (c->op == GD_OP_sum)
        sum(b, c, in, out);
    else if (c->op == GD_OP_cat)
        cat(b, c, in, out);
    else
        elements(b, c, in, out);
}

/* ---- the end ---- */

static bool read_later(const builder *b, int buffer)
{
    return b->p->memory[buffer] || b->p->ends[buffer] >= b->tape->first + b->tape->calls;
}

static void add_stores(builder *b)
{
    gd_tape *t = b->tape;
    for (int i = 0; i < b->cell_room && !b->failed; i++) {
        const cell *c = &b->cells[i];
        if (c->value < 0 || !c->written || !read_later(b, c->buffer)) continue;
        if (!enlarge(b, &t->store, t->stores, &t->store_room, sizeof *t->store)) return;
        t->store[t->stores++] = (gd_tape_store){c->value, c->buffer, c->offset};
    }
}

/* Keeps only stored values and their operands. Values keep their order; loads are placed at the first use. */
static void drop_unused(builder *b)
{
    gd_tape *t = b->tape;
    size_t bytes = (size_t)t->values * sizeof(int32_t) + 1;
    int32_t *to = gd__quiet_alloc(t->ctx, bytes);
    if (!to) {
        b->failed = true;
        return;
    }
    memset(to, 0xff, bytes);
    for (int i = 0; i < t->stores; i++) to[t->store[i].value] = 0;
    for (int k = t->values; k-- > 0;) {
        const gd_tape_value *v = &t->value[k];
        if (to[k] < 0 || v->op == GD_TAPE_LOAD) continue;
        if (v->a >= 0) to[v->a] = 0;
        if (v->b >= 0) to[v->b] = 0;
        if (v->c >= 0) to[v->c] = 0;
    }
    int n = 0;
    for (int k = 0; k < t->values; k++) {
        if (to[k] < 0) continue;
        gd_tape_value v = t->value[k];
        bool loads = v.op == GD_TAPE_LOAD;
        if (!loads && v.a >= 0) v.a = to[v.a];
        if (!loads && v.b >= 0) v.b = to[v.b];
        if (!loads && v.c >= 0) v.c = to[v.c];
        to[k] = n;
        t->value[n++] = v;
    }
    t->values = n;
    for (int i = 0; i < t->stores; i++) t->store[i].value = to[t->store[i].value];
    gd__free(t->ctx, to, bytes);
}

gd_tape *gd__tape_new(const gd_replay *p, int first, int calls)
{
    gd_tape *t = gd__quiet_alloc(p->ctx, sizeof *t);
    if (!t) return NULL;
    *t = (gd_tape){.ctx = p->ctx, .first = first, .calls = calls, .compile = p->compile};
    builder b = {.p = p, .tape = t, .vec = gd__vec(p->ctx->cpu)};
    for (int i = first; i < first + calls && !b.failed; i++) add_call(&b, &p->r->call[p->body[i]]);
    add_stores(&b);
    if (!b.failed) drop_unused(&b);
    if (!b.failed && !gd__tape_prepare(t)) b.failed = true;
    gd__free(p->ctx, b.cells, (size_t)b.cell_room * sizeof *b.cells);
    gd__free(p->ctx, b.same, (size_t)b.same_room * sizeof *b.same);
    if (!b.failed) return t;
    gd__tape_free(t);
    return NULL;
}

gd_tape *gd__tape_share(const gd_tape *from, gd_ctx *ctx)
{
    size_t bytes = (size_t)from->values * sizeof *from->slot;
    gd_tape *t = gd__quiet_alloc(ctx, sizeof *t);
    if (!t) return NULL;
    *t = *from;
    t->ctx = ctx;
    t->shares = true;
    t->tried = t->looked = false;
    t->runs = 0;
    t->kernel = NULL;
    t->setting = NULL;
    t->kernels = 0;
    t->slot = gd__quiet_alloc(ctx, bytes);
    if (t->slot && (!from->kernel || gd__tape_list_kernels(t))) {
        if (bytes) memcpy(t->slot, from->slot, bytes);
        return t;
    }
    gd__tape_free(t);
    return NULL;
}

void gd__tape_free(gd_tape *t)
{
    if (!t) return;
    if (!t->shares) {
        gd__free(t->ctx, t->value, (size_t)t->value_room * sizeof *t->value);
        gd__free(t->ctx, t->store, (size_t)t->store_room * sizeof *t->store);
        gd__free(t->ctx, t->step, (size_t)(t->values + t->stores + 1) * sizeof *t->step);
    }
    gd__free(t->ctx, t->kernel, (size_t)t->kernels * sizeof *t->kernel);
    gd__free(t->ctx, t->setting, 2 * (size_t)t->kernels * sizeof *t->setting);
    gd__free(t->ctx, t->slot, (size_t)t->values * sizeof *t->slot);
    gd__free(t->ctx, t, sizeof *t);
}
