/* Evaluations and their points: the start of the step, the lowest point since, and the latest; with few parameters more, for
 * chains that go back and forth.
 *
 * A search evaluates the point it accepts, and the next step begins there: where the objective is a function of the
 * parameters alone, one evaluation serves both. A failed search returns to its start, one with a fallback to the lowest point it
 * saw.  Parameters are compared bit for bit, so a move by a different link or the caller is
 * noticed.
 *
 * The record of a point grows: a trial needs its value, and leaves its graph; the gradient comes from that graph if
 * the point is accepted, and so does the graph of the gradient, for Hessians.  A graph holds all intermediate values, so it is
 * dropped when it is no longer needed: at points that are not lower than the beginning, and when the next step
 * begins elsewhere. */
#include "optim/step/objective/memo.h"
#include "tensor/device.h"

#include <math.h>
#include <string.h>

#define POINTS 64   /* of few parameters */
#define LEAST  3    /* of many */
#define FEW    8192 /* bytes */

struct gd_memo {
    gd_ctx *ctx;
    gd_tensor **params; /* owned references */
    gd_tensor **seen;   /* the same; few on a device: a copy on the host, as of the last comparison */
    uint32_t *arrived;  /* their versions at the start of the step */
    bool arriving;      /* the step has requested no gradient yet */
    bool stayed;        /* the first request was at the start of the step */
    int count, points;
    gd_point at[POINTS];
    int placed;     /* those from 0 on that there ever was something in */
    int begin;      /* which of them the current step began with */
    int latest;     /* the last request */
    int lowest;     /* of those evaluated since; -1: none */
    uint64_t given; /* since graphs were last dropped, or with graphs: a bit each */
    /* all of them in the order of their last use */
    uint8_t older[POINTS], newer[POINTS], oldest, newest;
    int before;   /* the step before; of many parameters: this one */
    int64_t step; /* of the optimizer, when a gradient was last asked for; the one before the first: never */
    uint64_t mark[POINTS],
        now; /* hashes of the values of points, and of the parameters: different hashes, different values */
    bool gradients; /* are requested */
    bool graphs;    /* their graphs too */
    int values;     /* points of which the step wanted only the value */
    bool eager;     /* the previous step needed one at most: it accepted its first trial */
};

static size_t bytes_of(const gd_tensor *t) { return (size_t)t->numel * gd_dtype_size(t->dtype); }

gd_memo *gd__memo_new(gd_ctx *ctx, gd_tensor *const *params, int count, int64_t step)
{
    size_t bytes = 0;
    gd_memo *m = gd__calloc(ctx, sizeof *m);
    if (!m) return NULL;
    for (int i = 0; i < count; i++) bytes += bytes_of(params[i]);
    m->ctx = ctx;
    m->count = count;
    m->step = step - 1;
    m->points = bytes <= FEW ? POINTS : LEAST;
    m->lowest = -1;
    m->newest = (uint8_t)(m->points - 1);
    for (int k = 0; k < m->points; k++) m->older[k] = (uint8_t)(k - 1), m->newer[k] = (uint8_t)(k + 1);
    m->params = gd__tensors_share(ctx, params, count);
    m->seen = gd__tensors_share(ctx, params, count);
    m->arrived = gd__calloc(ctx, (size_t)count * sizeof *m->arrived);
    if (m->params && m->seen && m->arrived) return m;
    gd__memo_free(m);
    return NULL;
}

void gd__memo_drop_graphs(gd_point *p)
{
    gd__release(p->graph);
    gd__release(p->residuals);
    p->graph = p->residuals = NULL;
}

static void drop_constraint_graphs(gd_point *p)
{
    for (int k = 0; k < 2; k++) {
        gd__release(p->constraint_graph[k]);
        p->constraint_graph[k] = NULL;
    }
}

static void forget_constraints(gd_point *p)
{
    drop_constraint_graphs(p);
    for (int k = 0; k < 2; k++) {
        gd__release(p->constraint[k]);
        p->constraint[k] = NULL;
    }
    p->constraints = false;
}

static void forget_point(gd_memo *m, gd_point *p)
{
    gd__memo_drop_graphs(p);
    forget_constraints(p);
    gd__release(p->loss);
    p->loss = NULL;
    for (int i = 0; i < m->count && p->grad; i++) {
        gd__release(p->grad[i]);
        p->grad[i] = NULL;
    }
}

void gd__memo_free(gd_memo *m)
{
    if (!m) return;
    for (int k = 0; k < m->placed; k++) {
        gd_point *p = &m->at[k];
        forget_point(m, p);
        gd__tensors_free(m->ctx, p->copy, m->count);
        gd__tensors_free(m->ctx, p->grad, m->count);
        gd__free(m->ctx, p->version, (size_t)m->count * sizeof *p->version);
    }
    gd__tensors_free(m->ctx, m->params, m->count);
    gd__tensors_free(m->ctx, m->seen, m->count);
    gd__free(m->ctx, m->arrived, (size_t)m->count * sizeof *m->arrived);
    gd__free(m->ctx, m, sizeof *m);
}

bool gd__memo_is_for(const gd_memo *m, const gd_var *var)
{
    return m->count == var->count && !memcmp(m->params, var->params, (size_t)m->count * sizeof *m->params);
}

gd_memo *gd__memo_of(const gd_var *var)
{
    gd_memo *m = var->optimizer->asked.memo;
    return m && gd__memo_is_for(m, var) ? m : NULL;
}

/* ---- where the parameters are ---- */

/* The same memory as integers, which are equal only if all bits are. */
static gd_tensor *bits_of(const gd_tensor *t)
{
    size_t item = gd_dtype_size(t->dtype);
    gd_tensor *bits = gd__bare(t);
    if (!bits) return NULL;
    bits->dtype = item == 8 ? GD_I64 : item == 4 ? GD_I32 : GD_U8;
    bits->ndim = 1;
    bits->stride[0] = 1;
    bits->size[0] = bits->numel = item >= 4 ? t->numel : t->numel * (int64_t)item;
    return bits;
}

/* The device compares: one number is copied to the host. */
static bool same_there(gd_ctx *ctx, const gd_tensor *a, const gd_tensor *b)
{
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    gd_tensor *x = bits_of(a), *y = x ? bits_of(b) : NULL;
    gd_tensor *all = gd_all(gd_eq(x, y), NULL, false);
    bool same = all && gd_item(all) != 0;
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return same;
}

static bool same_bits(const gd_tensor *a, const gd_tensor *b)
{
    gd_ctx *ctx = a->head.ctx;
    if (a->dtype != b->dtype || a->numel != b->numel || a->storage->device != b->storage->device)
        return false;
    if (!a->numel) return true;
    if (a->storage->device != gd__cpu(ctx)) return same_there(ctx, a, b);
    /* the first byte is the lowest of a mantissa: nearly all points differ there */
    return a->data[0] == b->data[0] && !memcmp(a->data, b->data, bytes_of(a));
}

static bool is_used(const gd_point *p) { return p->loss || p->residuals || p->constraints; }

/* The first number of each parameter, if these are few and on the CPU; else 0. */
static uint64_t mark_of(const gd_memo *m)
{
    uint64_t mark = 0;
    for (int i = 0; i < m->count && i < 8; i++) {
        const gd_tensor *t = m->seen[i];
        uint64_t bits = 0;
        if (!t->numel || t->storage->device != gd__cpu(m->ctx)) return 0;
        memcpy(&bits, t->data, gd_dtype_size(t->dtype));
        mark = mark * 31 + bits;
    }
    return mark;
}

static bool is_here(const gd_memo *m, int k)
{
    const gd_point *p = &m->at[k];
    bool here = m->mark[k] == m->now && is_used(p);
    for (int i = 0; i < m->count && here; i++) here = same_bits(p->copy[i], m->seen[i]);
    return here;
}

/* Few numbers are copied from the device once, many are compared there. */
static gd_status fetch_params(gd_memo *m)
{
    for (int i = 0; i < m->count && m->points > LEAST; i++) {
        gd_device *cpu = gd__cpu(m->ctx);
        if (m->params[i]->storage->device == cpu && m->seen[i] == m->params[i]) continue;
        gd__release(m->seen[i]);
        if (!(m->seen[i] = gd__copy_on(m->params[i], cpu))) return gd_error(m->ctx);
    }
    return GD_OK;
}

/* A point is given out: the newest, and it may get a graph. */
static gd_point *give(gd_memo *m, int k)
{
    m->latest = k;
    m->given |= (uint64_t)1 << k;
    if (k == m->newest) return &m->at[k];
    int older = m->older[k], newer = m->newer[k];
    m->older[newer] = (uint8_t)older;
    if (k == m->oldest)
        m->oldest = (uint8_t)newer;
    else
        m->newer[older] = (uint8_t)newer;
    m->older[k] = m->newest;
    m->newer[m->newest] = (uint8_t)k;
    m->newest = (uint8_t)k;
    return &m->at[k];
}

gd_point *gd__memo_look(gd_memo *m)
{
    int k = m->latest; /* usually that one */
    if (fetch_params(m)) return NULL;
    m->now = mark_of(m);
    if (!is_here(m, k))
        for (k = 0; k < m->placed && !is_here(m, k);) k++;
    return k < m->placed ? give(m, k) : NULL;
}

gd_point *gd__memo_find(gd_memo *m)
{
    gd_point *p = gd__memo_look(m);
    for (int i = 0; p && i < m->count; i++) gd__as_before(m->params[i], p->version[i]);
    return p;
}

/* ---- records of points ---- */

/* One that is free, else the one that was not used for longest: neither where the step began nor the lowest since. */
static int unused(const gd_memo *m)
{
    int k = m->oldest;
    while (is_used(&m->at[k]) && (k == m->begin || k == m->lowest)) k = m->newer[k];
    return k;
}

/* Where steps began, and of the others those that are low enough: searches go to lower points.  Under constraints a lower loss
 * says little: the latest of their graphs stays. */
static void drop_graphs(gd_memo *m, double low)
{
    for (uint64_t left = m->given; left; left &= left - 1) {
        int k = __builtin_ctzll(left);
        gd_point *p = &m->at[k];
        if (k != m->begin && k != m->before) {
            if (!(p->value < low)) gd__memo_drop_graphs(p);
            if (k != m->latest) drop_constraint_graphs(p);
        }
        if (!p->graph && !p->residuals && !p->constraint_graph[0] && !p->constraint_graph[1])
            m->given &= ~((uint64_t)1 << k);
    }
}

static bool has_room(gd_memo *m, gd_point *p)
{
    if (!p->copy) p->copy = gd__tensors_new(m->ctx, m->count);
    if (!p->grad) p->grad = gd__tensors_new(m->ctx, m->count);
    if (!p->version) p->version = gd__calloc(m->ctx, (size_t)m->count * sizeof *p->version);
    return p->copy && p->grad && p->version;
}

/* A copy of a parameter, in the memory of the last one. */
static gd_status copy_param(gd_memo *m, gd_point *p, int i)
{
    gd_tensor *now = m->seen[i], *t = p->copy[i];
    bool fits = t && t->dtype == now->dtype && t->numel == now->numel &&
                t->storage->device == now->storage->device && gd__laid_alike(t, now);
    if (fits && t->storage->device != gd__cpu(m->ctx)) return gd_assign(t, now);
    if (fits) {
        if (t->numel) memcpy(t->data, now->data, bytes_of(t));
        return GD_OK;
    }
    gd__release(t);
    p->copy[i] = gd__copy_laid(now, now);
    return p->copy[i] ? GD_OK : gd_error(m->ctx);
}

gd_point *gd__memo_place(gd_memo *m)
{
    if (gd_error(m->ctx)) return NULL;
    drop_graphs(m, m->at[m->begin].value);
    int k = unused(m);
    gd_point *p = give(m, k);
    forget_point(m, p);
    if (k >= m->placed) m->placed = k + 1;
    gd_status status = has_room(m, p) ? GD_OK : GD_NOMEM;
    for (int i = 0; i < m->count && !status; i++) {
        p->version[i] = gd__version(m->params[i]);
        status = copy_param(m, p, i);
    }
    if (status) gd_clear_error(m->ctx);
    m->mark[k] = mark_of(m);
    p->step = m->step;
    return status ? NULL : p;
}

/* An owned reference of the same numbers without history. */
static gd_tensor *plain_numbers(gd_tensor *t)
{
    if (!t->node) {
        gd__retain(t);
        return t;
    }
    gd_scope_begin(t->head.ctx);
    gd_tensor *numbers = gd_detach(t);
    if (numbers) gd__own(numbers);
    gd_scope_end(t->head.ctx);
    return numbers;
}

bool gd__memo_has_gradient(const gd_memo *m, const gd_point *p)
{
    for (int i = 0; i < m->count; i++)
        if (!p->grad[i]) return false;
    return p->loss;
}

void gd__memo_keep(gd_memo *m, gd_point *p, gd_tensor *loss, gd_tensor *const *grads)
{
    gd_tensor *value = p->loss ? NULL : plain_numbers(loss);
    bool whole = p->loss || value;
    if (value) {
        int k = (int)(p - m->at);
        p->loss = value;
        p->value = gd_item(value);
        bool since = k != m->begin && p->step == m->step;
        if (since && (m->lowest < 0 || p->value < m->at[m->lowest].value)) m->lowest = k;
    }
    for (int i = 0; i < m->count && grads && whole; i++) {
        gd__release(p->grad[i]);
        whole = (p->grad[i] = plain_numbers(grads[i]));
    }
    if (whole) return;
    gd_clear_error(m->ctx);
    forget_point(m, p);
}

void gd__memo_keep_constraints(gd_memo *m, gd_point *p, gd_tensor *const *constraint)
{
    bool whole = true;
    forget_constraints(p);
    for (int k = 0; k < 2 && whole; k++) {
        if (!constraint[k]) continue;
        gd__retain(p->constraint_graph[k] = constraint[k]);
        whole = (p->constraint[k] = plain_numbers(constraint[k]));
    }
    p->constraints = whole;
    if (whole) return;
    gd_clear_error(m->ctx);
    forget_constraints(p);
}

void gd__memo_note(gd_memo *m, const gd_point *p, const gd_var *var, bool graph)
{
    m->gradients = true;
    m->graphs = m->graphs || graph;
    if (m->arriving) {
        m->stayed = true;
        for (int i = 0; i < m->count; i++)
            m->stayed = m->stayed && m->arrived[i] == gd__version(m->params[i]);
        m->arriving = false;
    }
    if (m->step != var->step) {
        m->eager = m->values <= 1;
        m->values = 0;
        int begin = p ? (int)(p - m->at) : m->begin;
        m->before = m->points > LEAST ? m->begin : begin;
        m->begin = begin;
        m->lowest = -1;
        drop_graphs(m, -INFINITY);
    }
    m->step = var->step;
}

bool gd__memo_wants_graph(const gd_memo *m, const gd_var *var, bool gradient)
{
    return m->graphs || (!gradient && m->step >= var->step - 1);
}

bool gd__memo_ahead(gd_memo *m, const gd_var *var)
{
    return m->step == var->step && m->values++ == 0 && m->eager;
}

bool gd__memo_met_gradients(const gd_memo *m) { return m->gradients; }

void gd__memo_arrive(gd_memo *m)
{
    for (int i = 0; i < m->count; i++) m->arrived[i] = gd__version(m->params[i]);
    m->arriving = true;
}

bool gd__memo_serves(const gd_memo *m, int64_t step) { return m->step == step && m->stayed; }
