/* Reverse mode for many seeds at once: gradients carry one axis more, in front.
 *
 * An element-wise operator multiplies every gradient by the same derivative, so its rule runs once, on a gradient of ones
 * and with its operands spread to the shape of the result; the product is then summed back to the operand.  Operators that
 * move or add elements do so one axis further on.  The others have no batched rule.
 *
 *   gradient [k, 3, 4]  *  derivative [3, 4]   ->  [k, 3, 4]  ->  summed to [k, 4] where the operand was [4] */
#include "autograd/batch.h"
#include "autograd/rules.h"
#include "autograd/walk.h"
#include "tensor/linalg.h"

#include <string.h>

/* ---- shapes with the batch in front ---- */

typedef struct shape {
    int ndim;
    int64_t size[GD_MAX_DIMS];
} shape;

static shape batched(int64_t k, int ndim, const int64_t *size)
{
    shape s = {.ndim = ndim + 1, .size = {k}};
    memcpy(s.size + 1, size, (size_t)ndim * sizeof *size);
    return s;
}

static gd_tensor *reshaped(gd_tensor *g, int64_t k, const gd_tensor *like)
{
    shape s = batched(k, like->ndim, like->size);
    return gd__reshape(g, s.ndim, s.size);
}

/* Sums over the axes that were broadcast, the batch aside. */
static gd_tensor *unbroadcast(gd_tensor *g, int64_t k, const gd_tensor *like)
{
    if (!g) return NULL;
    int shift = g->ndim - 1 - like->ndim;
    unsigned mask = 0;
    for (int i = 1; i < g->ndim; i++)
        if (i <= shift || (like->size[i - 1 - shift] == 1 && g->size[i] != 1)) mask |= 1u << i;
    if (!mask && !shift) return g;
    return reshaped(mask ? gd__sum_axes(g, mask, true) : g, k, like);
}

static gd_tensor *bare(gd_tensor *t) { return t && t->axes ? gd_drop_names(t) : t; }

/* ---- element-wise operators ---- */

/* d result / d operand k in the shape of the result. */
static gd_tensor *derivative(const gd_node *node, int k, int ndim, const int64_t *size)
{
    gd_node spread = *node;
    gd_tensor *in[3] = {NULL}, *set[3] = {NULL}, shapes[3];
    bool need[3] = {false};
    uint8_t needs = gd__ops[node->op].needs;
    need[k] = true;
    for (int i = 0; i < node->nin; i++) {
        if (needs >> i & 1) {
            in[i] = gd_expand(bare(node->in[i]), ndim, size);
            if (!in[i]) return NULL;
        } else {
            /* only its shape is read */
            shapes[i] = *node->in[i];
            shapes[i].ndim = (uint8_t)ndim;
            memcpy(shapes[i].size, size, (size_t)ndim * sizeof *size);
            shapes[i].axes = NULL;
            in[i] = &shapes[i];
        }
    }
    spread.in = in;
    const gd_tensor *any = node->in[k];
    gd_device *device = NULL;
    for (int i = 0; i < node->nin && !device; i++)
        device = node->in[i]->storage ? node->in[i]->storage->device : NULL;
    if (!device && node->out[0]) device = node->out[0]->storage->device;
    if (!device) device = gd_device_get(node->ctx, "cpu");
    gd_tensor *one = gd_empty_on(device, any->dtype, ndim, size);
    if (!one || gd_fill(one, 1)) return NULL;
    gd__rules[node->op](&(gd_pullback){.node = &spread, .grad = &one, .need = need, .set = set});
    return set[k];
}

static gd_tensor *through_map(const gd_node *node, int k, gd_tensor *g)
{
    switch (node->op) {
    case GD_OP_add:
    case GD_OP_add_scalar: return g;
    case GD_OP_sub: return k ? gd_neg(g) : g;
    case GD_OP_neg: return gd_neg(g);
    case GD_OP_mul_scalar: return gd_mul_scalar(g, node->f[0]);
    case GD_OP_mul: return gd_mul(g, bare(node->in[1 - k]));
    default: return gd_mul(g, derivative(node, k, g->ndim - 1, g->size + 1));
    }
}

/* ---- the others ---- */

/* A reduced result spread over the operand again; attributes 3 and 4 are the first and last reduced axis. */
static gd_tensor *spread(const gd_node *node, int64_t k, gd_tensor *g)
{
    const gd_tensor *x = node->in[0];
    shape narrow = batched(k, x->ndim, x->size), wide = narrow;
    for (int64_t i = node->i[3]; i <= node->i[4] && i < x->ndim; i++) narrow.size[i + 1] = 1;
    return gd_expand(gd__reshape(g, narrow.ndim, narrow.size), wide.ndim, wide.size);
}

static const char *axis_text(int64_t axis, char buf[2])
{
    buf[0] = (char)('0' + axis);
    buf[1] = 0;
    return buf;
}

static gd_tensor *through_softmax(const gd_node *node, int64_t k, gd_tensor *g)
{
    char here[2], there[2];
    axis_text(node->i[4], here);
    axis_text(node->i[4] + 1, there);
    gd_tensor *y = bare(node->out[0]);
    if (node->op == GD_OP_logsumexp) return gd_mul(spread(node, k, g), gd_softmax(bare(node->in[0]), here));
    if (node->op == GD_OP_log_softmax) return gd_sub(g, gd_mul(gd_sum(g, there, true), gd_exp(y)));
    gd_tensor *gy = gd_mul(g, y), *out = gd_sub(gy, gd_mul(gd_sum(gy, there, true), y));
    return node->f[0] == 1 ? out : gd_mul_scalar(out, node->f[0]);
}

static gd_tensor *through_permute(const gd_node *node, gd_tensor *g)
{
    int back[GD_MAX_DIMS] = {0};
    for (int i = 0; i < node->ni; i++) back[node->i[i] + 1] = i + 1;
    return gd_permute(g, back);
}

static gd_tensor *through_slice(const gd_node *node, int64_t k, gd_tensor *g)
{
    const gd_tensor *x = node->in[0];
    shape s = batched(k, x->ndim, x->size);
    int64_t start[GD_MAX_DIMS] = {0}, step[GD_MAX_DIMS];
    int axis = (int)node->i[0] + 1;
    for (int i = 0; i < s.ndim; i++) step[i] = 1;
    start[axis] = node->i[1];
    step[axis] = node->i[2];
    return gd__embed(node->ni > 3 ? gd_unsqueeze(g, axis, NULL) : g, s.size, start, step, 0);
}

static gd_tensor *through_embed(const gd_node *node, gd_tensor *g)
{
    const gd_tensor *x = node->in[0];
    for (int i = 0; i < x->ndim && g; i++)
        g = gd__slice(g, i + 1, node->i[i], x->size[i], node->i[x->ndim + i]);
    return g;
}

static gd_tensor *through_cat(const gd_node *node, int k, gd_tensor *g)
{
    int axis = (int)node->i[0];
    int64_t start = 0;
    for (int i = 0; i < k; i++) start += node->in[i]->size[axis];
    return gd__slice(g, axis + 1, start, node->in[k]->size[axis], 1);
}

static gd_tensor *through_index_select(const gd_node *node, int64_t k, gd_tensor *g)
{
    const gd_tensor *x = node->in[0];
    shape s = batched(k, x->ndim, x->size);
    gd_tensor *zeros = gd_empty_on(g->storage->device, g->dtype, s.ndim, s.size);
    if (!zeros || gd_fill(zeros, 0)) return NULL;
    return gd__index_add(zeros, (int)node->i[0] + 1, bare(node->in[1]), g);
}

static gd_tensor *through_matmul(const gd_node *node, int k, gd_tensor *g)
{
    gd_tensor *a = bare(node->in[0]), *b = bare(node->in[1]);
    return k == 0 ? gd_matmul(g, gd_transpose(b, -1, -2)) : gd_matmul(gd_transpose(a, -1, -2), g);
}

static gd_tensor *through_linear(const gd_node *node, int k, gd_tensor *g)
{
    if (k == 0) return gd_matmul(g, bare(node->in[1]));
    return k == 1 ? gd_matmul(gd_transpose(g, -1, -2), bare(node->in[0])) : gd_sum(g, "1", false);
}

/* The gradient of input k of a node. */
static gd_tensor *pulled_back(const gd_node *node, int64_t seeds, int k, gd_tensor *g)
{
    const gd_tensor *x = node->in[k];
    if (gd__ops[node->op].kind == GD_KIND_MAP) return unbroadcast(through_map(node, k, g), seeds, x);
    switch (node->op) {
    case GD_OP_copy:
    case GD_OP_relabel: return g;
    case GD_OP_cast: return gd_cast(g, x->dtype);
    case GD_OP_sum: return spread(node, seeds, g);
    case GD_OP_reshape: return reshaped(g, seeds, x);
    case GD_OP_expand: return unbroadcast(g, seeds, x);
    case GD_OP_permute: return through_permute(node, g);
    case GD_OP_slice: return through_slice(node, seeds, g);
    case GD_OP_embed: return through_embed(node, g);
    case GD_OP_cat: return through_cat(node, k, g);
    case GD_OP_cumsum: return gd__cumsum(g, (int)node->i[3] + 1, !node->i[5]);
    case GD_OP_index_select: return through_index_select(node, seeds, g);
    case GD_OP_matmul: return through_matmul(node, k, g);
    case GD_OP_linear: return through_linear(node, k, g);
    case GD_OP_logsumexp:
    case GD_OP_softmax:
    case GD_OP_log_softmax: return through_softmax(node, seeds, g);
    default: return NULL;
    }
}

static bool has_rule(const gd_node *node)
{
    int most = 0;
    for (int i = 0; i < node->nin; i++) most = node->in[i]->ndim > most ? node->in[i]->ndim : most;
    if (node->nout != 1 || most >= GD_MAX_DIMS) return false;
    if (gd__ops[node->op].kind == GD_KIND_MAP) return true;
    switch (node->op) {
    case GD_OP_copy:
    case GD_OP_relabel:
    case GD_OP_cast:
    case GD_OP_sum:
    case GD_OP_reshape:
    case GD_OP_expand:
    case GD_OP_permute:
    case GD_OP_slice:
    case GD_OP_embed:
    case GD_OP_cat:
    case GD_OP_cumsum:
    case GD_OP_index_select:
    case GD_OP_matmul:
    case GD_OP_linear:
    case GD_OP_logsumexp:
    case GD_OP_softmax:
    case GD_OP_log_softmax: return true;
    default: return false;
    }
}

/* ---- the walk ---- */

static bool leads_on(const gd_walk *w, const gd_tensor *t)
{
    if (t->node) return w->item[t->node->slot].useful;
    for (int i = 0; i < w->inputs; i++)
        if (w->input[i] == t) return true;
    return false;
}

/* Marks what leads to an input; NOT_IMPLEMENTED where that has no batched rule, or changed in place. */
static gd_status mark_useful(gd_walk *w)
{
    for (size_t i = w->count; i-- > 0;) {
        gd_visit *e = &w->item[i];
        for (int k = 0; k < e->node->nin && !e->useful; k++) e->useful = leads_on(w, e->node->in[k]);
        if (!e->useful) continue;
        if (!has_rule(e->node)) return GD_NOT_IMPLEMENTED;
        uint8_t needs = gd__ops[e->node->op].needs;
        for (int k = 0; k < e->node->nin && k < 3; k++)
            if (needs >> k & 1 && gd__version(e->node->in[k]) != e->node->version[k])
                return GD_NOT_IMPLEMENTED;
        if (needs & GD_NEEDS_OUT && gd__version(e->node->out[0]) != e->node->out_version[0])
            return GD_NOT_IMPLEMENTED;
    }
    return GD_OK;
}

static gd_status deliver(gd_walk *w, gd_tensor *t, gd_tensor *g)
{
    if (t->node) return gd__accumulate(&w->item[t->node->slot].grad[0], g);
    gd_status status = GD_OK;
    for (int i = 0; i < w->inputs && !status; i++)
        if (w->input[i] == t) status = gd__accumulate(&w->result[i], g);
    return status;
}

static gd_status walk(gd_walk *w)
{
    gd_status status = GD_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        gd_visit *e = &w->item[i];
        if (!e->grad[0] || !e->useful) continue;
        gd_scope_begin(w->ctx);
        for (int k = 0; k < e->node->nin && !status; k++) {
            if (!leads_on(w, e->node->in[k])) continue;
            gd_tensor *g = pulled_back(e->node, w->seeds, k, e->grad[0]);
            status = g ? deliver(w, e->node->in[k], g) : gd_error(w->ctx);
        }
        gd_scope_end(w->ctx);
        gd__release(e->grad[0]);
        e->grad[0] = NULL;
    }
    return status;
}

gd_status gd__grad_batch(gd_tensor *output, gd_tensor *seeds, gd_tensor *const *inputs, int count,
                         gd_tensor **grads)
{
    gd_ctx *ctx = output->head.ctx;
    for (int i = 0; i < count; i++) {
        grads[i] = NULL;
        if (inputs[i]->node) return GD_NOT_IMPLEMENTED; /* inner tensors */
    }
    gd_walk w = {.ctx = ctx, .input = inputs, .result = grads, .inputs = count, .seeds = seeds->size[0]};
    if (!output->node) return GD_NOT_IMPLEMENTED;
    if (gd_error(ctx)) return gd_error(ctx);
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = 1;
    const gd_node *spent;
    gd_status status = gd__walk_collect(&w, output->node, &spent);
    if (spent) status = GD_NOT_IMPLEMENTED; /* one by one will say what is wrong */
    if (!status) status = mark_useful(&w);
    if (!status && w.item[0].useful) {
        gd_scope_begin(ctx);
        gd_tensor *first = gd__same(seeds);
        status = first ? gd__accumulate(&w.item[output->node->slot].grad[0], first) : GD_NOMEM;
        gd_scope_end(ctx);
        if (!status) status = walk(&w);
    }
    gd__walk_free(&w);
    /* owned results become the caller's scope's */
    for (int i = 0; i < count; i++) {
        gd_tensor *owned = grads[i];
        grads[i] = status || !owned ? NULL : gd__alias(owned);
        if (!status && owned && !grads[i]) status = GD_NOMEM;
        gd__release(owned);
    }
    ctx->grad_off = grad_off;
    return status;
}
