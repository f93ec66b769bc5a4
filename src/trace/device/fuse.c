/* Neighbouring element-wise calls as one kernel.
 *
 * The body is gone through once.  A call joins the open group, or has nothing to do with it and goes before it, or closes it.  What
 * only the group reads is not stored. */
#include "trace/device/on_device.h"
#include "trace/trace_loop.h"

#include <string.h>

#define LEAST_FUSED 2
#define THREADS     256
#define MOST_BLOCKS 65536 /* threads go on with what is left */

enum { READ = 1, MADE = 2 }; /* what the group does with a buffer */

typedef struct grouper {
    gd_replay *p;
    const gd_recording *r;
    gd_fused now; /* the open group */
    int call[GD_FUSED_STEPS];
    int made[GD_FUSED_STEPS];   /* buffers */
    int within[GD_FUSED_STEPS]; /* calls of the group that have that buffer */
    bool shaped;                /* something is read by its place in the sizes */
    int *order, *uses;
    int done;
    uint8_t *mark;
} grouper;

static void add_unit(grouper *g, int count, gd_fused *fused)
{
    gd_replay *p = g->p;
    int heads = p->on->heads;
    gd_unit *last = p->units > heads ? &p->unit[p->units - 1] : NULL;
    if (last && !last->fused && !fused)
        last->count += count;
    else
        p->unit[p->units++] = (gd_unit){.first = g->done - count, .count = count, .fused = fused};
}

static void put_alone(grouper *g, int call)
{
    g->order[g->done++] = call;
    add_unit(g, 1, NULL);
}

/* ---- what may join ---- */

static bool is_float(gd_dtype dtype) { return gd_dtype_is_float(dtype); }

/* Operators whose kernel computes one element from one element of each operand. */
static bool is_element_wise(const gd_replay *p, const gd_recorded *c, const gd_operand *in,
                            const gd_operand *out)
{
    const gd_backend *b = p->device->backend;
    gd_op_kind kind = gd__ops[c->op].kind;
    if (c->op == GD_OP_copy) return in->dtype == out->dtype;
    if (c->op == GD_OP_cast) return is_float(out->dtype);
    if ((kind != GD_KIND_MAP && kind != GD_KIND_TEST) || (b->has && !b->has(c->op))) return false;
    for (int k = 2; k < c->nin; k++)
        if (in[k].dtype != in[1].dtype) return false;
    return c->nin < 2 || c->op == GD_OP_where || in[0].dtype == in[1].dtype;
}

/* A call that makes all of a buffer, in order. */
static bool may_be_fused(const grouper *g, const gd_recorded *c)
{
    const gd_operand *in = &g->r->operand[c->first], *out = in + c->nin;
    if (c->kind != GD_CALL_KERNEL || c->nout != 1 || c->nin < 1 || c->nin > 3 || c->attrs.nf > 2)
        return false;
    const gd_buffer *to = &g->r->buffer[out->buffer];
    bool whole = to->origin == GD_ORIGIN_MADE && !out->offset && out->numel && gd__loop_dense(out) &&
                 (size_t)out->numel * gd_dtype_size(out->dtype) == to->bytes;
    return whole && is_element_wise(g->p, c, in, out);
}

/* The sizes of a result without those that are 1, as those of the group; false: it has others. */
static bool has_shape(grouper *g, const gd_operand *out)
{
    gd_fused_launch *a = &g->now.args;
    int64_t n = 0;
    bool same = true;
    for (int d = 0; d < out->ndim; d++) {
        if (out->size[d] == 1) continue;
        if (g->shaped)
            same = same && n < a->ndim && a->size[n] == out->size[d];
        else
            a->size[n] = out->size[d];
        n++;
    }
    same = same && (!g->shaped || n == a->ndim);
    if (!g->shaped) a->ndim = n;
    g->shaped = true;
    return same;
}

static bool is_one(const gd_operand *o)
{
    for (int d = 0; d < o->ndim; d++)
        if (o->size[d] != 1 && o->stride[d]) return false;
    return true;
}

static gd_read_way way_of(const grouper *g, const gd_operand *o)
{
    return is_one(o)                                        ? GD_READ_ONE
           : o->numel == g->now.args.n && gd__loop_dense(o) ? GD_READ_DENSE
                                                            : GD_READ_STRIDED;
}

/* An operand in memory, by its number among those that are read; -1: there are too many. */
static int read_of(grouper *g, int operand, const gd_operand *out)
{
    const gd_operand *o = &g->r->operand[operand];
    gd_fusion *f = &g->now.f;
    int k = f->reads, lead = out->ndim - o->ndim, n = 0;
    if (k == GD_FUSED_READS || lead < 0) return -1;
    gd_read_way way = way_of(g, o);
    int64_t stride[GD_MAX_DIMS] = {0};
    if (way == GD_READ_STRIDED && !has_shape(g, out)) return -1;
    for (int d = 0; d < out->ndim && way == GD_READ_STRIDED; d++)
        if (out->size[d] != 1) stride[n++] = d < lead || o->size[d - lead] == 1 ? 0 : o->stride[d - lead];
    for (int i = 0; i < k; i++) {
        const gd_operand *x = &g->r->operand[g->now.read[i]];
        if (x->buffer == o->buffer && x->offset == o->offset && x->dtype == o->dtype &&
            f->read[i].way == way && !memcmp(g->now.args.stride[i], stride, sizeof stride))
            return i;
    }
    f->read[k].dtype = o->dtype;
    f->read[k].way = way;
    memcpy(g->now.args.stride[k], stride, sizeof stride);
    g->now.read[k] = operand;
    return f->reads++;
}

/* The step of the group that makes a buffer; -1: none. */
static int maker_of(const grouper *g, int buffer)
{
    for (int k = g->now.f.steps; k-- > 0;)
        if (g->made[k] == buffer) return k;
    return -1;
}

static bool add_operands(grouper *g, const gd_recorded *c, gd_fused_step *step)
{
    const gd_operand *out = &g->r->operand[c->first + c->nin];
    for (int k = 0; k < c->nin; k++) {
        const gd_operand *o = &g->r->operand[c->first + k];
        int maker = maker_of(g, o->buffer);
        if (maker >= 0) {
            if (o->offset || o->numel != g->now.args.n || !gd__loop_dense(o) ||
                o->dtype != g->now.f.step[maker].out)
                return false;
            step->in[k] = -1 - maker;
        } else if ((step->in[k] = read_of(g, c->first + k, out)) < 0)
            return false;
    }
    return true;
}

static void mark_call(grouper *g, const gd_recorded *c)
{
    for (int k = 0; k < c->nin + c->nout; k++) {
        int buffer = g->r->operand[c->first + k].buffer, maker = maker_of(g, buffer);
        g->mark[buffer] |= k < c->nin ? READ : MADE;
        bool again = false;
        for (int i = 0; i < k; i++) again = again || g->r->operand[c->first + i].buffer == buffer;
        if (maker >= 0 && !again) g->within[maker]++;
    }
}

static bool joins(grouper *g, int number)
{
    const gd_recorded *c = &g->r->call[number];
    gd_fusion *f = &g->now.f;
    if (!may_be_fused(g, c)) return false;
    const gd_operand *in = &g->r->operand[c->first], *out = in + c->nin;
    if (!f->steps) g->now.args.n = out->numel;
    if (f->steps == GD_FUSED_STEPS || out->numel != g->now.args.n || g->mark[out->buffer]) return false;
    gd_fused_step step = {.op = c->op, .nin = c->nin, .first = in->dtype, .out = out->dtype, .store = -1};
    step.other = c->nin > 1 ? in[1].dtype : in->dtype;
    int reads = f->reads;
    bool shaped = g->shaped;
    if (!add_operands(g, c, &step)) {
        f->reads = reads;
        g->shaped = shaped;
        return false;
    }
    for (int i = 0; i < c->attrs.nf; i++) g->now.args.f[f->steps][i] = c->attrs.f[i];
    g->call[f->steps] = number;
    g->made[f->steps] = out->buffer;
    g->within[f->steps] = 0;
    f->step[f->steps++] = step;
    mark_call(g, c);
    return true;
}

/* May a call run before the group? */
static bool is_apart(const grouper *g, const gd_recorded *c)
{
    for (int k = 0; k < c->nin + c->nout; k++)
        if (g->mark[g->r->operand[c->first + k].buffer] & (k < c->nin ? MADE : READ | MADE)) return false;
    return true;
}

/* ---- ending a group ---- */

/* What others read, or the caller gets. */
static void add_stores(grouper *g)
{
    gd_fused *now = &g->now;
    for (int k = 0; k < now->f.steps; k++) {
        int buffer = g->made[k];
        if (g->uses[buffer] <= g->within[k] && !g->p->memory[buffer]) continue;
        const gd_recorded *c = &g->r->call[g->call[k]];
        now->store[now->f.stores] = c->first + c->nin;
        now->f.step[k].store = now->f.stores++;
    }
}

/* NULL: the calls run one by one. */
static gd_fused *fused_of(grouper *g)
{
    gd_replay *p = g->p;
    gd_device *device = p->device;
    if (g->now.f.steps < LEAST_FUSED || !device->backend->fuse) return NULL;
    add_stores(g);
    gd_fused *made = gd__quiet_alloc(p->ctx, sizeof *made);
    if (!made) return NULL;
    gd_status before = gd_error(p->ctx);
    if ((g->now.kernel = device->backend->fuse(device, &g->now.f))) {
        *made = g->now;
        return made;
    }
    if (!before) gd_clear_error(p->ctx);
    gd__fused_free(p->ctx, made);
    return NULL;
}

static void close_group(grouper *g)
{
    int steps = g->now.f.steps;
    gd_fused *fused = steps ? fused_of(g) : NULL;
    for (int k = 0; k < steps; k++) {
        const gd_recorded *c = &g->r->call[g->call[k]];
        for (int o = 0; o < c->nin + c->nout; o++) g->mark[g->r->operand[c->first + o].buffer] = 0;
        g->order[g->done++] = g->call[k];
    }
    if (steps) add_unit(g, steps, fused);
    memset(&g->now, 0, sizeof g->now);
    g->shaped = false;
}

void gd__on_device_fuse(gd_replay *p, int first, int *order, uint8_t *mark, int *uses)
{
    grouper g = {.p = p, .r = p->r, .order = order, .uses = uses, .done = first, .mark = mark};
    const gd_recording *r = p->r;
    for (int i = 0; i < p->bodies; i++) {
        const gd_recorded *c = &r->call[p->body[i]];
        for (int k = 0; k < c->nin + c->nout; k++) {
            int buffer = r->operand[c->first + k].buffer;
            bool again = false;
            for (int j = 0; j < k; j++) again = again || r->operand[c->first + j].buffer == buffer;
            uses[buffer] += !again;
        }
    }
    memcpy(order, p->body, (size_t)first * sizeof *order);
    for (int i = first; i < p->bodies; i++) {
        int call = p->body[i];
        if (joins(&g, call)) continue;
        /* one that could begin a group is not put before this one, where it would be alone */
        bool ends = g.now.f.steps >= LEAST_FUSED && may_be_fused(&g, &r->call[call]);
        if (g.now.f.steps && (ends || !is_apart(&g, &r->call[call]))) {
            close_group(&g);
            if (joins(&g, call)) continue;
        }
        put_alone(&g, call);
    }
    close_group(&g);
    memcpy(p->body, order, (size_t)p->bodies * sizeof *order);
}

/* ---- running ---- */

void gd__fused_free(gd_ctx *ctx, gd_fused *fused) { gd__free(ctx, fused, sizeof *fused); }

gd_status gd__fused_run(gd_replay *p, gd_fused *fused)
{
    gd_fused_launch *a = &fused->args;
    for (int k = 0; k < fused->f.reads; k++) a->in[k] = p->look[fused->read[k]].data;
    for (int k = 0; k < fused->f.stores; k++) a->out[k] = p->look[fused->store[k]].data;
    int64_t blocks = (a->n + THREADS - 1) / THREADS;
    const gd_launch launch = {.kernel = fused->kernel,
                              .args = a,
                              .bytes = sizeof *a,
                              .blocks = blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS,
                              .threads = THREADS};
    return p->device->backend->launch(p->device, &launch);
}
