/* Evaluations with a gradient, and where they were made: the point where the step began, and the latest other one.
 *
 * A line search evaluates the point it accepts, and the next step begins there: where the objective is a function of the
 * parameters alone, one evaluation serves both.  A search that fails goes back to where it began, so that point stays
 * known too.  Parameters are compared bit for bit, so whatever moved them in between (another link, the caller) is
 * noticed. */
#include "optim/step/memo.h"
#include "tensor/device.h"

#include <string.h>

typedef struct point {
    gd_tensor **copy, **grad; /* owned; copy: what the parameters were */
    gd_tensor *loss;          /* owned; NULL: nothing is known */
} point;

struct gd_memo {
    gd_ctx *ctx;
    int count;
    point at[2];
    int begin;    /* which of them the current step began with */
    int64_t step; /* of the optimizer, when a gradient was last asked for; -1: never */
    bool graphs;  /* evaluations with a graph were made, which are never remembered */
    int values;   /* points of which the step wanted only the value */
    bool eager;   /* the step before wanted one at most: it accepted its first trial */
};

gd_memo *gd__memo_new(gd_ctx *ctx, int count)
{
    gd_memo *m = gd__calloc(ctx, sizeof *m);
    if (!m) return NULL;
    *m = (gd_memo){.ctx = ctx, .count = count, .step = -1};
    bool whole = true;
    for (int k = 0; k < 2; k++) {
        m->at[k].copy = gd__tensors_new(ctx, count);
        m->at[k].grad = gd__tensors_new(ctx, count);
        whole = whole && m->at[k].copy && m->at[k].grad;
    }
    if (whole) return m;
    gd__memo_free(m);
    return NULL;
}

void gd__memo_free(gd_memo *m)
{
    if (!m) return;
    for (int k = 0; k < 2; k++) {
        gd__release(m->at[k].loss);
        gd__tensors_free(m->ctx, m->at[k].copy, m->count);
        gd__tensors_free(m->ctx, m->at[k].grad, m->count);
    }
    gd__free(m->ctx, m, sizeof *m);
}

bool gd__memo_serves(const gd_memo *m, int64_t step) { return m->step == step && !m->graphs; }
void gd__memo_note_graph(gd_memo *m) { m->graphs = true; }

static size_t bytes_of(const gd_tensor *t) { return (size_t)t->numel * gd_dtype_size(t->dtype); }

static bool is_here(const gd_memo *m, const point *p, const gd_var *var)
{
    if (!p->loss) return false;
    for (int i = 0; i < m->count; i++) {
        const gd_tensor *copy = p->copy[i], *now = var->params[i];
        if (copy->dtype != now->dtype || copy->numel != now->numel || now->storage->device != gd__cpu(m->ctx))
            return false;
        if (memcmp(copy->data, now->data, bytes_of(copy))) return false;
    }
    return true;
}

bool gd__memo_has(const gd_memo *m, const gd_var *var)
{
    return m->count == var->count && (is_here(m, &m->at[0], var) || is_here(m, &m->at[1], var));
}

/* A gradient is asked for: the first time in a step that is where the step begins. */
static void note_use(gd_memo *m, int k, int64_t step)
{
    if (m->step != step) {
        m->begin = k;
        m->eager = m->values <= 1;
        m->values = 0;
    }
    m->step = step;
}

bool gd__memo_ahead(gd_memo *m, const gd_var *var)
{
    if (m->count != var->count || m->step != var->step || m->graphs) return false;
    return m->values++ == 0 && m->eager;
}

bool gd__memo_find(gd_memo *m, const gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    int k = 0;
    if (m->count != var->count) return false;
    while (k < 2 && !is_here(m, &m->at[k], var)) k++;
    if (k == 2) return false;
    if (grads) note_use(m, k, var->step);
    gd__retain(*loss = m->at[k].loss);
    for (int i = 0; grads && i < m->count; i++) gd__retain(grads[i] = m->at[k].grad[i]);
    return true;
}

/* A place for a copy of a parameter, kept from evaluation to evaluation. */
static gd_tensor *room(gd_memo *m, point *p, int i, const gd_tensor *like)
{
    gd_tensor *t = p->copy[i];
    if (t && t->dtype == like->dtype && t->numel == like->numel) return t;
    gd__release(t);
    gd_scope_begin(m->ctx);
    if ((t = gd__new_like(like, like->dtype))) gd__own(t);
    gd_scope_end(m->ctx);
    return p->copy[i] = t;
}

gd_status gd__memo_keep(gd_memo *m, const gd_var *var, gd_tensor *loss, gd_tensor *const *grads)
{
    if (m->count != var->count) return GD_OK;
    point *p = &m->at[1 - m->begin];
    gd__release(p->loss);
    p->loss = NULL;
    for (int i = 0; i < m->count; i++) {
        const gd_tensor *now = var->params[i];
        if (now->storage->device != gd__cpu(m->ctx) || !gd__contiguous(now)) return GD_OK;
        gd_tensor *copy = room(m, p, i, now);
        if (!copy) return gd_error(m->ctx);
        memcpy(copy->data, now->data, bytes_of(copy));
        gd__retain(grads[i]);
        gd__release(p->grad[i]);
        p->grad[i] = grads[i];
    }
    gd__retain(loss);
    p->loss = loss;
    note_use(m, 1 - m->begin, var->step);
    return GD_OK;
}
