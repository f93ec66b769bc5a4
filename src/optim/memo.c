/* The last evaluation with a gradient, and where it was made.
 *
 * A line search evaluates the point it accepts, and the next step begins there: where the objective is a function of the
 * parameters alone, one evaluation serves both.  Parameters are compared bit for bit, so whatever moved them in between
 * (another link, the caller) is noticed. */
#include "optim/memo.h"
#include "tensor/device.h"

#include <string.h>

struct gd_memo {
    gd_ctx *ctx;
    int count;
    gd_tensor **copy, **grad; /* owned; copy: what the parameters were */
    gd_tensor *loss;          /* owned; NULL: nothing is known */
};

gd_memo *gd__memo_new(gd_ctx *ctx, int count)
{
    gd_memo *m = gd__calloc(ctx, sizeof *m);
    if (!m) return NULL;
    *m = (gd_memo){
        .ctx = ctx, .count = count, .copy = gd__tensors_new(ctx, count), .grad = gd__tensors_new(ctx, count)};
    if (m->copy && m->grad) return m;
    gd__memo_free(m);
    return NULL;
}

void gd__memo_free(gd_memo *m)
{
    if (!m) return;
    gd__release(m->loss);
    gd__tensors_free(m->ctx, m->copy, m->count);
    gd__tensors_free(m->ctx, m->grad, m->count);
    gd__free(m->ctx, m, sizeof *m);
}

static size_t bytes_of(const gd_tensor *t) { return (size_t)t->numel * gd_dtype_size(t->dtype); }

bool gd__memo_find(const gd_memo *m, const gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    if (!m->loss || m->count != var->count) return false;
    for (int i = 0; i < m->count; i++) {
        const gd_tensor *copy = m->copy[i], *now = var->params[i];
        if (copy->dtype != now->dtype || copy->numel != now->numel || now->storage->device != gd__cpu(m->ctx))
            return false;
        if (memcmp(copy->data, now->data, bytes_of(copy))) return false;
    }
    gd__retain(*loss = m->loss);
    for (int i = 0; grads && i < m->count; i++) gd__retain(grads[i] = m->grad[i]);
    return true;
}

/* A place for a copy of a parameter, kept from evaluation to evaluation. */
static gd_tensor *room(gd_memo *m, int i, const gd_tensor *like)
{
    gd_tensor *t = m->copy[i];
    if (t && t->dtype == like->dtype && t->numel == like->numel) return t;
    gd__release(t);
    gd_scope_begin(m->ctx);
    if ((t = gd__new_like(like, like->dtype))) gd__own(t);
    gd_scope_end(m->ctx);
    return m->copy[i] = t;
}

gd_status gd__memo_keep(gd_memo *m, const gd_var *var, gd_tensor *loss, gd_tensor *const *grads)
{
    gd__release(m->loss);
    m->loss = NULL;
    if (m->count != var->count) return GD_OK;
    for (int i = 0; i < m->count; i++) {
        const gd_tensor *now = var->params[i];
        if (now->storage->device != gd__cpu(m->ctx) || !gd__contiguous(now)) return GD_OK;
        gd_tensor *copy = room(m, i, now);
        if (!copy) return gd_error(m->ctx);
        memcpy(copy->data, now->data, bytes_of(copy));
        gd__retain(grads[i]);
        gd__release(m->grad[i]);
        m->grad[i] = grads[i];
    }
    gd__retain(loss);
    m->loss = loss;
    return GD_OK;
}
