/* Making loops: a program for each region of each domain. */
#include "program/element.h"
#include "trace/trace_loop.h"

#include <string.h>

#define MOST_INSTANCES 192 /* values of a program: nodes at shifts */
#define MOST_POINTS    16  /* starts of regions of a domain */
#define LINE           64

typedef struct instance {
    int node;
    int64_t shift;
    int32_t value;
} instance;

typedef struct maker {
    const gd_loop_group *g;
    const bool *later;
    gd_loop *loop;
    gd_loop_domain *domain;
    gd_loop_region *region;
    gd_program *p;
    instance seen[MOST_INSTANCES];
    int count;
    int64_t point[MOST_POINTS];
    int points;
    int work, most_work;
    bool failed;
} maker;

static size_t lined(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static int64_t item_of(const maker *m) { return (int64_t)gd_dtype_size(m->g->dtype); }

/* ---- where regions begin ---- */

static bool was_seen(const maker *m, int node, int64_t shift, int32_t *value)
{
    for (int i = m->count; i-- > 0;)
        if (m->seen[i].node == node && m->seen[i].shift == shift) {
            *value = m->seen[i].value;
            return true;
        }
    return false;
}

static void note_seen(maker *m, int node, int64_t shift, int32_t value)
{
    if (m->count == MOST_INSTANCES)
        m->failed = true;
    else
        m->seen[m->count++] = (instance){node, shift, value};
}

static void add_point(maker *m, int64_t at)
{
    int k = 0;
    if (at <= 0 || at >= m->domain->numel) return;
    while (k < m->points && m->point[k] < at) k++;
    if (k < m->points && m->point[k] == at) return;
    if (m->points == MOST_POINTS) {
        m->failed = true;
        return;
    }
    memmove(&m->point[k + 1], &m->point[k], (size_t)(m->points++ - k) * sizeof *m->point);
    m->point[k] = at;
}

/* The shift of an operand of the group from its reader. */
static int64_t shift_of(const maker *m, const gd_loop_node *node, int k)
{
    const gd_operand *o = &node->in[k], *made = m->g->node[m->g->made[o->buffer] - 1].out;
    return (o->offset - made->offset) / (int64_t)gd_dtype_size(o->dtype);
}

static void find_points(maker *m, int number, int64_t shift)
{
    const gd_loop_node *node = &m->g->node[number];
    int32_t value;
    if (m->failed || was_seen(m, number, shift, &value)) return;
    note_seen(m, number, shift, -1);
    if (node->padded) return;
    if (node->call->op == GD_OP_embed) {
        add_point(m, node->start - shift);
        add_point(m, node->start + node->in->numel - shift);
        shift -= node->start;
    }
    for (int k = 0; k < node->call->nin; k++) {
        int made = m->g->made[node->in[k].buffer];
        if (made) find_points(m, made - 1, shift + shift_of(m, node, k));
    }
}

/* ---- instructions ---- */

static bool same_instr(const gd_instr *x, const gd_instr *y)
{
    return x->op == y->op && x->a == y->a && x->b == y->b && x->c == y->c && x->index == y->index &&
           !memcmp(&x->imm, &y->imm, sizeof x->imm);
}

static int32_t add_instr(maker *m, gd_instr in)
{
    gd_program *p = m->p;
    in.place = -1;
    for (int i = 0; i < p->count; i++)
        if (same_instr(&p->instr[i], &in)) return i;
    if (p->count == GD_MAX_INSTRS - 1) {
        m->failed = true;
        return 0;
    }
    p->instr[p->count] = in;
    return p->count++;
}

static int32_t number_value(maker *m, double value)
{
    if (m->g->dtype == GD_F32) value = (double)(float)value;
    return add_instr(m, (gd_instr){.op = GD_I_CONST, .uniform = 1, .a = -1, .b = -1, .c = -1, .imm = value});
}

static int32_t array_value(maker *m, const gd_loop_array *array)
{
    gd_loop_region *r = m->region;
    int k = 0;
    for (; k < r->arrays; k++) {
        const gd_loop_array *x = &r->array[k];
        if (!x->stored && x->buffer == array->buffer && x->offset == array->offset &&
            x->dtype == array->dtype && x->gathered == array->gathered && x->shift == array->shift &&
            x->embed == array->embed && x->ndim == array->ndim &&
            !memcmp(x->size, array->size, sizeof x->size) &&
            !memcmp(x->stride, array->stride, sizeof x->stride))
            break;
    }
    if (k == GD_MAX_ARRAYS) {
        m->failed = true;
        return 0;
    }
    if (k == r->arrays) {
        r->array[r->arrays++] = *array;
        m->p->array[k] = (gd_array){
            .kind = GD_ARRAY_STATE, .dtype = m->g->dtype, .slot = k, .store = -1, .loaded = true};
        m->p->arrays = r->arrays;
    }
    return add_instr(m, (gd_instr){.op = GD_I_LOAD, .a = -1, .b = -1, .c = -1, .index = k});
}

static int32_t scalar_value(maker *m, const gd_operand *o)
{
    gd_loop_region *r = m->region;
    int k = 0;
    while (k < r->scalars && (r->scalar[k].buffer != o->buffer || r->scalar[k].offset != o->offset)) k++;
    if (k == GD_MAX_ARRAYS) {
        m->failed = true;
        return 0;
    }
    if (k == r->scalars) {
        r->scalar[r->scalars++] = (gd_loop_scalar){o->buffer, o->dtype, o->offset};
        m->p->uniform[k] = (gd_uniform){.kind = GD_U_EXTERNAL, .index = k, .store = -1};
        m->p->uniforms = r->scalars;
    }
    return add_instr(m, (gd_instr){.op = GD_I_UNIFORM, .uniform = 1, .a = -1, .b = -1, .c = -1, .index = k});
}

/* An operand with the axes of the result, stride 0 where it is broadcast, neighbours joined where they can be. */
static gd_loop_array gathered(const gd_operand *o, const gd_operand *like, int64_t shift)
{
    gd_loop_array a = {
        .buffer = o->buffer, .dtype = o->dtype, .gathered = true, .offset = o->offset, .shift = shift};
    int lead = like->ndim - o->ndim;
    a.numel = like->numel;
    for (int d = 0; d < like->ndim; d++) {
        int64_t size = like->size[d], stride = d < lead || o->size[d - lead] == 1 ? 0 : o->stride[d - lead];
        if (size == 1) continue;
        if (a.ndim && a.stride[a.ndim - 1] == stride * size) {
            a.size[a.ndim - 1] *= size;
            a.stride[a.ndim - 1] = stride;
        } else {
            a.size[a.ndim] = size;
            a.stride[a.ndim++] = stride;
        }
    }
    if (a.ndim && a.stride[0] == 0) a.period = a.numel / a.size[0];
    return a;
}

static bool is_one_number(const gd_operand *o)
{
    for (int d = 0; d < o->ndim; d++)
        if (o->size[d] != 1 && o->stride[d]) return false;
    return true;
}

/* An array in memory before the loop, viewed with the shape of `like`. */
static int32_t outside(maker *m, const gd_operand *o, const gd_operand *like, int64_t shift, bool everywhere)
{
    double value;
    if (o->dtype != GD_BOOL && gd__filled_with(m->g->p, o->buffer, &value)) return number_value(m, value);
    if (o->dtype != GD_BOOL && is_one_number(o) && !everywhere) return scalar_value(m, o);
    gd_loop_array a = gathered(o, like, shift);
    if (o->dtype != GD_BOOL && o->numel == like->numel && gd__loop_dense(o))
        a = (gd_loop_array){.buffer = o->buffer, .dtype = o->dtype, .offset = o->offset + shift * item_of(m)};
    return array_value(m, &a);
}

static int32_t value_of(maker *m, int node, int64_t shift);

static int32_t operand_value(maker *m, const gd_loop_node *node, int k, int64_t shift, bool everywhere)
{
    const gd_operand *o = &node->in[k];
    int made = m->g->made[o->buffer];
    bool own = node->sums || node->call->op == GD_OP_embed;
    return made ? value_of(m, made - 1, shift + shift_of(m, node, k))
                : outside(m, o, own ? o : node->out, shift, everywhere);
}

static const gd_instr *constant(const maker *m, int32_t value)
{
    return m->p->instr[value].op == GD_I_CONST ? &m->p->instr[value] : NULL;
}

/* An operator of numbers alone, as its kernel computes it. */
static int32_t folded(maker *m, unsigned op, const int32_t *x)
{
    const gd_instr *a = &m->p->instr[x[0]], *b = x[1] < 0 ? a : &m->p->instr[x[1]],
                   *c = x[2] < 0 ? a : &m->p->instr[x[2]];
    const gd_block_table *table = gd__blocks(m->p->ctx);
    if (m->g->dtype == GD_F32) {
        float in[3][GD_LANES] = {{(float)a->imm}, {(float)b->imm}, {(float)c->imm}}, out[GD_LANES];
        gd__block_op(table, GD_ELEMENT_F32, op, true)(out, in[0], in[1], in[2], 1, NULL);
        return number_value(m, (double)out[0]);
    }
    double in[3][GD_LANES] = {{a->imm}, {b->imm}, {c->imm}}, out[GD_LANES];
    gd__block_op(table, GD_ELEMENT_F64, op, true)(out, in[0], in[1], in[2], 1, NULL);
    return number_value(m, out[0]);
}

/* Programs compute uniform values in f64, operators in the dtype: then one operand is read as an array. */
static int32_t element_value(maker *m, const gd_loop_node *node, int64_t shift)
{
    const gd_recorded *c = node->call;
    unsigned op = (unsigned)gd__opcode_of(c->op);
    int32_t x[3] = {-1, -1, -1};
    bool same = true, known = true;
    int n = 0;
    for (int k = 0; k < c->nin && !m->failed; k++, n++) {
        x[n] = operand_value(m, node, k, shift, false);
        same = same && m->p->instr[x[n]].uniform;
        known = known && constant(m, x[n]);
    }
    for (int k = 0; n < gd__opcode_operands(op) && !m->failed; k++) x[n++] = number_value(m, c->attrs.f[k]);
    if (m->failed) return 0;
    if (known) return folded(m, op, x);
    for (int k = 0; k < c->nin && same; k++)
        if (!constant(m, x[k])) {
            if (m->g->made[node->in[k].buffer]) { /* a number that the group passes on */
                m->failed = true;
                return 0;
            }
            x[k] = operand_value(m, node, k, shift, true);
            break;
        }
    bool times = op == GD_I_mul || op == GD_I_mul_scalar;
    if (times && constant(m, x[1]) && constant(m, x[1])->imm == 1) return x[0];
    if (times && constant(m, x[0]) && constant(m, x[0])->imm == 1) return x[1];
    return add_instr(m, (gd_instr){.op = (uint8_t)op, .a = x[0], .b = x[1], .c = x[2]});
}

static int32_t padded_value(maker *m, const gd_loop_node *node, int64_t shift)
{
    gd_loop_array a = {.buffer = node->in->buffer,
                       .dtype = node->in->dtype,
                       .gathered = true,
                       .offset = node->in->offset,
                       .shift = shift,
                       .numel = node->numel,
                       .embed = node->call,
                       .from = node->in,
                       .to = node->out};
    return array_value(m, &a);
}

/* The value of a node at element i + shift, for element i of the region. */
static int32_t value_of(maker *m, int k, int64_t shift)
{
    const gd_loop_node *node = &m->g->node[k];
    gd_op_id op = node->call->op;
    int32_t value = 0;
    if (m->failed || was_seen(m, k, shift, &value)) return value;
    m->work += gd__loop_cost(op);
    if (node->padded)
        value = padded_value(m, node, shift);
    else if (op == GD_OP_embed) {
        bool inside = m->region->first + shift >= node->start &&
                      m->region->last + shift <= node->start + node->in->numel;
        value = inside ? operand_value(m, node, 0, shift - node->start, false)
                       : number_value(m, node->call->attrs.f[0]);
    } else if (op == GD_OP_copy || op == GD_OP_cast)
        value = operand_value(m, node, 0, shift, false);
    else
        value = element_value(m, node, shift);
    note_seen(m, k, shift, value);
    return value;
}

/* ---- regions ---- */

static bool is_root(const maker *m, const gd_loop_node *node)
{
    return node->sums || m->later[node->out->buffer] || m->g->p->memory[node->out->buffer];
}

static void add_store(maker *m, const gd_loop_node *node, int32_t value, int *end)
{
    gd_loop_region *r = m->region;
    bool whole = node->sums || node->out->dtype == GD_BOOL;
    if (r->arrays == GD_MAX_ARRAYS) m->failed = true;
    if (m->failed) return;
    int k = r->arrays++;
    r->array[k] = (gd_loop_array){.buffer = node->out->buffer,
                                  .dtype = node->out->dtype,
                                  .offset = node->out->offset,
                                  .stored = true,
                                  .whole = whole};
    if (whole) r->array[k].room = m->domain->end[(*end)++].room;
    /* a program that only stores a number has nothing to compute */
    m->p->array[k] = (gd_array){.kind = GD_ARRAY_STATE, .dtype = m->g->dtype, .slot = k, .store = value};
    m->p->arrays = r->arrays;
}

/* Scalars that are stored as they are become arrays. */
static int32_t root_value(maker *m, int k)
{
    const gd_loop_node *node = &m->g->node[k];
    int32_t value = node->sums ? operand_value(m, node, 0, 0, true) : value_of(m, k, 0);
    if (!m->failed && m->p->instr[value].op == GD_I_UNIFORM) m->failed = true;
    return value;
}

#define LEAST_ROW 96 /* least elements of a kernel call */

/* Slices of matrices need no copy if the program runs row by row. */
static void find_row(gd_loop_region *r, gd_dtype dtype)
{
    for (int k = 0; k < r->arrays; k++) {
        const gd_loop_array *a = &r->array[k];
        int last = a->ndim - 1;
        if (!a->gathered || a->dtype != dtype || last < 0 || a->stride[last] != 1) continue;
        if (a->size[last] < LEAST_ROW || (r->row && (a->size[last] != r->row || a->shift != r->row_shift))) {
            r->row = 0;
            return;
        }
        r->row = a->size[last];
        r->row_shift = a->shift;
    }
}

/* The order of a program's arrays is known when it is complete. */
static void finish_region(maker *m)
{
    gd_loop_region *r = m->region;
    r->pass = gd__quiet_alloc(m->loop->ctx, sizeof *r->pass);
    if (!r->pass) {
        m->failed = true;
        return;
    }
    gd__program_pass(m->p, gd__program_passes(m->p) - 1, r->pass);
    for (int k = 0; k < r->pass->used_count; k++) r->number[k] = m->p->instr[r->pass->used[k]].imm;
    m->loop->operations += m->p->count;
    find_row(r, m->g->dtype);
}

static void make_region(maker *m, int64_t first, int64_t last)
{
    gd_loop *loop = m->loop;
    if (loop->regions == GD_LOOP_REGIONS) {
        m->failed = true;
        return;
    }
    m->region = &loop->region[loop->regions++];
    *m->region = (gd_loop_region){.first = first, .last = last};
    gd_program *p = m->p = m->region->program = gd__quiet_alloc(loop->ctx, sizeof *p);
    if (!p) {
        m->failed = true;
        return;
    }
    memset(p, 0, sizeof *p);
    p->ctx = loop->ctx;
    p->compute = m->g->dtype;
    p->eager = true;
    m->count = m->work = 0;
    int end = 0;
    for (int k = 0; k < m->g->nodes && !m->failed; k++) {
        const gd_loop_node *node = &m->g->node[k];
        if (!is_root(m, node) || node->numel != m->domain->numel) continue;
        int32_t value = root_value(m, k);
        add_store(m, node, value, &end);
    }
    if (!m->failed) finish_region(m);
    if (m->work > m->most_work) m->most_work = m->work;
}

/* ---- domains ---- */

static bool make_partial(gd_loop *loop, gd_loop_end *e)
{
    int64_t count = e->outer * e->chunks * e->inner;
    if (!e->sums || e->chunks == 1) return true;
    e->bytes = (size_t)count * gd_dtype_size(loop->dtype);
    e->partial = gd__quiet_alloc(loop->ctx, e->bytes);
    return e->partial != NULL;
}

static void add_end(maker *m, const gd_loop_node *node, size_t *room)
{
    gd_loop_domain *d = m->domain;
    if (d->ends == GD_LOOP_SUMS) {
        m->failed = true;
        return;
    }
    gd_loop_end *e = &d->end[d->ends++];
    *e = (gd_loop_end){.room = *room,
                       .dtype = node->out->dtype,
                       .sums = node->sums,
                       .fold = node->fold,
                       .op = node->call->op,
                       .scale = node->call->op == GD_OP_softmax ? node->call->attrs.f[0] : 1,
                       .buffer = node->out->buffer,
                       .offset = node->out->offset};
    *room += lined((size_t)(d->block * item_of(m)));
    if (!node->sums) return;
    const int64_t *i = node->call->attrs.i;
    e->outer = i[0];
    e->reduced = i[1];
    e->inner = i[2];
    int64_t chunk = e->inner == 1 ? GD_LOOP_PIECE : d->block / e->inner;
    e->chunks = (e->reduced + chunk - 1) / chunk;
    if (!make_partial(m->loop, e)) m->failed = true;
}

static void make_domain(maker *m, int64_t numel, size_t *most)
{
    gd_loop *loop = m->loop;
    if (loop->domains == GD_LOOP_DOMAINS) {
        m->failed = true;
        return;
    }
    gd_loop_domain *d = m->domain = &loop->domain[loop->domains++];
    *d = (gd_loop_domain){.numel = numel, .block = GD_LOOP_PIECE, .region = loop->regions};
    size_t room = 0;
    for (int k = 0; k < m->g->nodes; k++)
        if (m->g->node[k].sums && m->g->node[k].numel == numel) d->block = gd__loop_block(&m->g->node[k]);
    d->blocks = (numel + d->block - 1) / d->block;
    m->count = m->points = m->most_work = 0;
    for (int k = 0; k < m->g->nodes && !m->failed; k++) {
        const gd_loop_node *node = &m->g->node[k];
        if (!is_root(m, node) || node->numel != numel) continue;
        if (node->sums || node->out->dtype == GD_BOOL) add_end(m, node, &room);
        int made = m->g->made[node->in->buffer];
        if (!node->sums)
            find_points(m, k, 0);
        else if (made)
            find_points(m, made - 1, shift_of(m, node, 0));
    }
    for (int i = 0; i <= m->points && !m->failed; i++)
        make_region(m, i ? m->point[i - 1] : 0, i < m->points ? m->point[i] : numel);
    d->regions = loop->regions - d->region;
    if (room > *most) *most = room;
}

/* Gathered data follow the blocks of all results. */
static size_t place_gathered(gd_loop *loop, size_t from)
{
    size_t end = from;
    for (int i = 0; i < loop->regions; i++) {
        size_t at = from;
        for (int k = 0; k < loop->region[i].arrays; k++) {
            gd_loop_array *a = &loop->region[i].array[k];
            if (!a->gathered) continue;
            a->room = at;
            at += lined(GD_LOOP_PIECE * gd_dtype_size(loop->dtype));
        }
        if (at > end) end = at;
    }
    return end;
}

static bool make_rooms_of_tasks(gd_loop *loop, size_t ends)
{
    int64_t elements = 0, blocks = 1;
    for (int i = 0; i < loop->domains; i++) {
        elements += loop->domain[i].numel;
        if (loop->domain[i].blocks > blocks) blocks = loop->domain[i].blocks;
    }
    int64_t tasks = elements / GD_MICROBATCH + 1;
    loop->tasks = (int)(tasks > GD_LOOP_TASKS ? GD_LOOP_TASKS : tasks > blocks ? blocks : tasks);
    loop->task_room = place_gathered(loop, ends) + LINE;
    loop->room = gd__quiet_alloc(loop->ctx, loop->task_room * (size_t)loop->tasks);
    return loop->room != NULL;
}

/* More than twice the work of operators is too much, except for small loops. */
static bool make_domains(maker *m)
{
    int work = 0, most = 16;
    size_t ends = 0;
    for (int k = 0; k < m->g->nodes; k++) most += 2 * gd__loop_cost(m->g->node[k].call->op);
    for (int k = 0; k < m->g->nodes && !m->failed; k++) {
        const gd_loop_node *node = &m->g->node[k];
        bool there = !is_root(m, node);
        for (int i = 0; i < m->loop->domains && !there; i++) there = m->loop->domain[i].numel == node->numel;
        if (there) continue;
        make_domain(m, node->numel, &ends);
        work += m->most_work;
    }
    return !m->failed && work <= most && make_rooms_of_tasks(m->loop, ends);
}

gd_loop *gd__loop_new(const gd_loop_group *g, const bool *later)
{
    gd_ctx *ctx = g->p->ctx;
    gd_loop *loop = gd__quiet_alloc(ctx, sizeof *loop);
    if (!loop) return NULL;
    memset(loop, 0, sizeof *loop);
    loop->ctx = ctx;
    loop->dtype = g->dtype;
    loop->region = gd__quiet_alloc(ctx, GD_LOOP_REGIONS * sizeof *loop->region);
    maker *m = loop->region ? gd__quiet_alloc(ctx, sizeof *m) : NULL;
    bool made = false;
    if (m) {
        memset(m, 0, sizeof *m);
        m->g = g;
        m->later = later;
        m->loop = loop;
        made = make_domains(m);
        gd__free(ctx, m, sizeof *m);
    }
    if (made) return loop;
    gd__loop_free(loop);
    return NULL;
}

static bool copy_partials(gd_loop *loop, const gd_loop *from)
{
    bool made = true;
    for (int i = 0; i < loop->domains; i++)
        for (int k = 0; k < loop->domain[i].ends; k++) {
            gd_loop_end *e = &loop->domain[i].end[k];
            const gd_loop_end *other = &from->domain[i].end[k];
            e->partial = other->partial && made ? gd__quiet_alloc(loop->ctx, e->bytes) : NULL;
            made = made && (!other->partial || e->partial);
        }
    return made;
}

gd_loop *gd__loop_share(const gd_loop *from, gd_ctx *ctx)
{
    gd_loop *loop = gd__quiet_alloc(ctx, sizeof *loop);
    if (!loop) return NULL;
    *loop = *from;
    loop->ctx = ctx;
    loop->shares = true;
    bool made = copy_partials(loop, from);
    loop->region = made ? gd__quiet_alloc(ctx, GD_LOOP_REGIONS * sizeof *loop->region) : NULL;
    loop->room = loop->region ? gd__quiet_alloc(ctx, loop->task_room * (size_t)loop->tasks) : NULL;
    if (loop->region) memcpy(loop->region, from->region, (size_t)loop->regions * sizeof *loop->region);
    if (loop->room) return loop;
    gd__loop_free(loop);
    return NULL;
}

void gd__loop_free(gd_loop *loop)
{
    if (!loop) return;
    gd_ctx *ctx = loop->ctx;
    for (int i = 0; i < loop->regions && !loop->shares; i++) {
        gd__program_free(loop->region[i].program);
        gd__free(ctx, loop->region[i].pass, sizeof *loop->region[i].pass);
    }
    for (int i = 0; i < loop->domains; i++)
        for (int k = 0; k < loop->domain[i].ends; k++)
            gd__free(ctx, loop->domain[i].end[k].partial, loop->domain[i].end[k].bytes);
    gd__free(ctx, loop->region, GD_LOOP_REGIONS * sizeof *loop->region);
    gd__free(ctx, loop->room, loop->task_room * (size_t)loop->tasks);
    gd__free(ctx, loop, sizeof *loop);
}
