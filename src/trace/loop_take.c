/* Calls that loops accept. */
#include "program/element.h"
#include "trace/trace_loop.h"

#include <string.h>

#define LEAST_ELEMENTS 33   /* fewer use a tape */
#define SUM_CHUNK      4096 /* as cpu/reduce.c adds up: elements of a row, and rows of columns */
#define SUM_ROWS       128
#define MOST_BLOCK     32768
#define MOST_VIEWS     8
#define DEAR           16 /* operations too expensive to repeat at a second position */

static int64_t item_of(const gd_operand *o) { return (int64_t)gd_dtype_size(o->dtype); }

bool gd__loop_dense(const gd_operand *o)
{
    int64_t step = 1;
    for (int d = o->ndim; d-- > 0;) {
        if (o->size[d] == 1) continue;
        if (o->stride[d] != step) return false;
        step *= o->size[d];
    }
    return true;
}

static bool is_number(const gd_operand *o, gd_dtype dtype)
{
    return o->dtype == dtype && (dtype == GD_F32 || dtype == GD_F64);
}

/* How reductions join elements, plus 1. */
static const signed char folds[GD_OP_COUNT] = {
    [GD_OP_sum] = GD_FOLD_SUM + 1,
    [GD_OP_sum_squares] = GD_FOLD_SQUARES + 1,
    [GD_OP_prod] = GD_FOLD_PROD + 1,
    [GD_OP_highest] = GD_FOLD_MAX + 1,
    [GD_OP_lowest] = GD_FOLD_MIN + 1,
    [GD_OP_softmax] = GD_LOOP_EXPONENTIALS + 1,
    [GD_OP_log_softmax] = GD_LOOP_EXPONENTIALS + 1,
    [GD_OP_logsumexp] = GD_LOOP_EXPONENTIALS + 1,
};

/* -1: loops do not know the operator, or it is the softmax of a triangle. */
static int fold_of(const gd_recorded *c)
{
    return c->op == GD_OP_softmax && c->attrs.i[5] ? -1 : folds[c->op] - 1;
}

int64_t gd__loop_block(const gd_loop_node *node)
{
    const int64_t *i = node->call->attrs.i;
    int64_t outer = i[0], reduced = i[1], inner = i[2];
    if (node->fold == GD_LOOP_EXPONENTIALS)
        return inner == 1 && reduced <= SUM_CHUNK ? reduced * (SUM_CHUNK / reduced) : -1;
    if (inner == 1 && outer == 1) return SUM_CHUNK;
    if (inner == 1 && reduced <= SUM_CHUNK) return reduced * (SUM_CHUNK / reduced);
    if (inner == 1) return reduced % SUM_CHUNK ? -1 : SUM_CHUNK;
    int64_t rows = reduced < SUM_ROWS ? reduced : SUM_ROWS;
    return reduced % rows && outer > 1 ? -1 : inner > MOST_BLOCK / rows ? -1 : rows * inner;
}

/* The first element of x in the result, if x is one contiguous range of it. */
static bool embeds_range(const gd_recorded *c, const gd_operand *x, const gd_operand *out, int64_t *start)
{
    const int64_t *from = c->attrs.i, *by = from + x->ndim;
    int64_t inner = 1;
    bool cut = false;
    *start = 0;
    for (int d = x->ndim; d-- > 0; inner *= out->size[d]) {
        if (by[d] != 1 && x->size[d] > 1) return false;
        if (x->size[d] == out->size[d]) {
            if (cut && out->size[d] != 1) return false;
            continue;
        }
        if (cut) return false;
        cut = true;
        *start = from[d] * inner;
    }
    return x->ndim == out->ndim && x->numel > 0;
}

static bool embeds_forwards(const gd_recorded *c, const gd_operand *x, const gd_operand *out)
{
    for (int d = 0; d < x->ndim; d++)
        if (c->attrs.i[x->ndim + d] < 1) return false;
    return x->ndim == out->ndim && x->ndim > 0 && x->numel > 0;
}

/* The expressions in ops.def for one element; NULL for rows that only move numbers. */
static const char *const element_of[GD_OP_COUNT] = {
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, ...) [GD_OP_##name] = #element,
#define ELEMENT0(name, inputs, settings, kind, takes, element, ...)              [GD_OP_##name] = #element,
#include "tensor/ops.def"
};

/* Functions that are one instruction or two. */
static bool cheap(const char *name)
{
    static const char *const names[] = {"abs)", "fma)", "floor)", "ceil)", "round)"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        if (strncmp(name, names[k], strlen(names[k])) == 0) return true;
    return false;
}

/* Estimated from the text of the row: a call of a function is expensive, a root or a division costs half as much, everything else is one
 * operation. */
int gd__loop_cost(gd_op_id op)
{
    int cost = 1;
    for (const char *at = element_of[op] ? element_of[op] : ""; *at; at++) {
        bool calls = (at[0] == 'F' || at[0] == 'V') && at[1] == '(';
        if (*at == '/' || (calls && strncmp(at + 2, "sqrt)", 5) == 0))
            cost = cost > DEAR / 2 ? cost : DEAR / 2;
        else if (calls && !cheap(at + 2))
            return DEAR;
    }
    return cost;
}

/* Values of the group that a call reads: as one range, and at a second position only if that is cheap. */
static bool reads_made(const gd_loop_group *g, const gd_operand *o, int64_t numel, bool embeds)
{
    const gd_loop_node *made = &g->node[g->made[o->buffer] - 1];
    bool moved = o->offset != made->out->offset || o->numel != made->numel || embeds;
    if (made->sums || o->dtype != made->out->dtype || o->numel != numel || !gd__loop_dense(o)) return false;
    return !moved || (g->shifts && gd__loop_cost(made->call->op) < DEAR);
}

static bool reads_well(const gd_loop_group *g, const gd_loop_node *node, int *views)
{
    for (int k = 0; k < node->call->nin; k++) {
        const gd_operand *o = &node->in[k];
        bool embeds = node->call->op == GD_OP_embed;
        if (g->made[o->buffer]) {
            if (!reads_made(g, o, embeds || node->sums ? o->numel : node->numel, embeds)) return false;
        } else if (o->numel > 1 && (!gd__loop_dense(o) || o->dtype == GD_BOOL || o->numel != node->numel))
            *views += !embeds && !node->sums;
        if (embeds && !node->padded && !g->made[o->buffer] && o->numel > 1 && !gd__loop_dense(o))
            return false;
        if (node->sums && !gd__loop_dense(o)) return false;
    }
    return g->views + *views <= MOST_VIEWS;
}

/* Operands and result are numbers of the group's dtype, or bool if the operator takes it. */
static bool fits_types(const gd_loop_group *g, const gd_recorded *c, const gd_operand *in,
                       const gd_operand *out)
{
    gd_op_kind kind = gd__ops[c->op].kind;
    if (c->op == GD_OP_cast)
        return is_number(out, g->dtype) && (in->dtype == GD_BOOL || in->dtype == out->dtype);
    if (c->op == GD_OP_copy) return in->dtype == out->dtype && is_number(out, g->dtype);
    if (c->op == GD_OP_embed || fold_of(c) >= 0) return is_number(in, g->dtype) && is_number(out, g->dtype);
    if ((kind != GD_KIND_MAP && kind != GD_KIND_TEST) || gd__opcode_of(c->op) < 0) return false;
    bool chooses = c->op == GD_OP_where, tests = kind == GD_KIND_TEST;
    if (chooses && in[0].dtype != GD_BOOL) return false;
    for (int k = chooses; k < c->nin; k++)
        if (!is_number(&in[k], g->dtype) && !(tests && in[k].dtype == GD_BOOL && in[0].dtype == GD_BOOL))
            return false;
    return tests ? out->dtype == GD_BOOL : is_number(out, g->dtype);
}

/* Sums of one domain need blocks of one length. */
static bool adds_up_alike(const gd_loop_group *g, const gd_loop_node *node)
{
    for (int k = 0; k < g->nodes; k++)
        if (g->node[k].sums && g->node[k].numel == node->numel &&
            gd__loop_block(&g->node[k]) != gd__loop_block(node))
            return false;
    return true;
}

bool gd__loop_takes(const gd_loop_group *g, const gd_recorded *c, gd_loop_node *node)
{
    const gd_operand *in = &g->p->r->operand[c->first], *out = in + c->nin;
    if (c->kind != GD_CALL_KERNEL || c->nout != 1 || c->nin < 1 || g->nodes == g->most) return false;
    int fold = fold_of(c);
    bool sums = fold >= 0;
    *node = (gd_loop_node){
        .call = c, .in = in, .out = out, .numel = sums ? in->numel : out->numel, .sums = sums, .fold = fold};
    const gd_buffer *to = &g->p->r->buffer[out->buffer];
    bool whole = to->origin == GD_ORIGIN_MADE && !out->offset && gd__loop_dense(out) &&
                 (size_t)(out->numel * item_of(out)) == to->bytes;
    if (!whole || g->made[out->buffer] || node->numel < LEAST_ELEMENTS || !fits_types(g, c, in, out))
        return false;
    if (sums && (c->attrs.i[1] < 1 || gd__loop_block(node) < 0 || !gd__loop_dense(in))) return false;
    node->padded = c->op == GD_OP_embed && !embeds_range(c, in, out, &node->start);
    if (node->padded && (g->made[in->buffer] || !embeds_forwards(c, in, out))) return false;
    if (sums && !adds_up_alike(g, node)) return false;
    node->views = node->padded;
    return reads_well(g, node, &node->views);
}
