/* Reverse mode for many seeds at once.
 *
 * What has arrived at a tensor is a list of parts of the matrix of derivatives (part.h).  An element-wise operator multiplies
 * entries by its derivative at their places, operators that move or add elements move the places: a diagonal stays one as
 * long as single elements are looked at, and only what mixes elements makes the matrix dense.
 *
 *   p [200] -> slice [199] -> square -> ... -> sum      Hessian: 199 entries a use of p, not 200 * 199
 *
 * Operators without such a rule see whole matrices: gradients with one axis more, in front. */
#include "autograd/batch.h"
#include "autograd/part.h"
#include "autograd/rules.h"
#include "autograd/walk.h"
#include "tensor/linalg.h"

#include <string.h>

#define PARTS 4 /* kept side by side */

/* The gradient of a tensor. */
typedef struct gradient {
    const gd_tensor *of; /* its shape */
    int count;
    gd_part part[PARTS]; /* values are owned */
} gradient;

typedef struct batch {
    gd_walk w;
    int64_t rows;
    bool identity;          /* every element of the output is a seed: nothing large on the way */
    int64_t result;         /* entries of the matrices together */
    gradient *gradient;     /* by node->slot */
    bool *written;          /* by input: is something in its matrix? */
    gd_tensor *const *into; /* the matrices */
} batch;

static gd_status made(const batch *b, const gd_part *p) { return p->value ? GD_OK : gd_error(b->w.ctx); }

/* ---- element-wise operators ---- */

/* g times the derivative for operand k, at the places of p; g has the shape of those. */
static gd_tensor *ruled(const gd_node *node, int k, const gd_part *p, gd_tensor *g)
{
    gd_node here = *node;
    gd_tensor *in[3] = {NULL}, *set[3] = {NULL}, shapes[3];
    bool need[3] = {false};
    uint8_t needs = gd__ops[node->op].needs;
    need[k] = true;
    for (int i = 0; i < node->nin; i++) {
        if (needs >> i & 1) {
            in[i] = gd__part_look(p, node->in[i]);
            if (!in[i]) return NULL;
        } else {
            /* only its shape is read */
            shapes[i] = *node->in[i];
            shapes[i].ndim = g->ndim;
            memcpy(shapes[i].size, g->size, sizeof g->size);
            shapes[i].axes = NULL;
            in[i] = &shapes[i];
        }
    }
    here.in = in;
    if (node->out[0] && !(here.out[0] = gd__part_look(p, node->out[0]))) return NULL;
    gd__rules[node->op](&(gd_pullback){.node = &here, .grad = &g, .need = need, .set = set});
    return set[k];
}

/* The same where p has axes in front: the derivative is made once for all of them. */
static gd_tensor *spread(const gd_node *node, int k, const gd_part *p)
{
    const gd_tensor *v = p->value;
    int lead = gd__part_lead(p);
    if (!lead) return ruled(node, k, p, p->value);
    gd_tensor *one = gd_empty_on(v->storage->device, v->dtype, p->ndim, v->size + lead);
    return one && gd_fill(one, 1) == GD_OK ? gd_mul(p->value, ruled(node, k, p, one)) : NULL;
}

static gd_status through_map(const batch *b, const gd_node *node, int k, gd_part *p)
{
    switch (node->op) {
    case GD_OP_add:
    case GD_OP_add_scalar: break;
    case GD_OP_sub:
        if (k) p->value = gd_neg(p->value);
        break;
    case GD_OP_neg: p->value = gd_neg(p->value); break;
    case GD_OP_mul_scalar: p->value = gd_mul_scalar(p->value, node->f[0]); break;
    case GD_OP_mul: p->value = gd_mul(p->value, gd__part_look(p, node->in[1 - k])); break;
    default: p->value = spread(node, k, p);
    }
    return p->value ? gd__part_of_expand(p, node->in[k]) : gd_error(b->w.ctx);
}

/* ---- operators that move elements ---- */

static gd_status through_embed(const gd_node *node, const gd_tensor *t, gd_part *p)
{
    const gd_tensor *x = node->in[0];
    gd_status status = GD_OK;
    for (int i = 0; i < x->ndim && !status; i++)
        status = gd__part_of_embed(p, t, i, node->i[i], x->size[i], node->i[x->ndim + i]);
    return status;
}

static gd_status through_cat(const gd_node *node, const gd_tensor *t, int k, gd_part *p)
{
    int axis = (int)node->i[0];
    int64_t start = 0;
    for (int i = 0; i < k; i++) start += node->in[i]->size[axis];
    return gd__part_of_embed(p, t, axis, start, node->in[k]->size[axis], 1);
}

/* ---- products ---- */

/* Entries that a part for t may have: what passes forwards made, and the result, are there anyway. */
static int64_t most_entries(const batch *b, const gd_tensor *t)
{
    int64_t most = b->result > GD_BATCH_ELEMENTS ? b->result : GD_BATCH_ELEMENTS;
    return !b->identity ? INT64_MAX : t->numel > most / 4 ? 4 * t->numel : most;
}

/* t = a b, or a b^T and a bias for `linear`. */
static gd_status through_product(const batch *b, const gd_node *node, const gd_tensor *t, int k, gd_part *p)
{
    gd_tensor *other = gd__nameless(node->in[1 - k]);
    int64_t most = most_entries(b, node->in[k]);
    bool linear = node->op == GD_OP_linear;
    if (k == 0) return gd__part_of_right_product(p, t, linear ? other : gd_transpose(other, 0, 1), most);
    gd_status status = gd__part_of_left_product(p, t, other, most);
    return status || !linear ? status : gd__part_of_permute(p, (int64_t[]){1, 0});
}

/* ---- operators on whole matrices ---- */

static const char *axis_text(int64_t axis, char buf[2])
{
    buf[0] = (char)('0' + axis);
    buf[1] = 0;
    return buf;
}

/* Attributes 3 and 4 are the first and last reduced axis. */
static gd_tensor *through_softmax(const gd_node *node, gd_tensor *g)
{
    char there[2];
    gd_tensor *y = gd__nameless(node->out[0]), *gy;
    axis_text(node->i[4] + 1, there);
    if (node->op == GD_OP_log_softmax) return gd_sub(g, gd_mul(gd_sum(g, there, true), gd_exp(y)));
    gy = gd_mul(g, y);
    gy = gd_sub(gy, gd_mul(gd_sum(gy, there, true), y));
    return node->f[0] == 1 ? gy : gd_mul_scalar(gy, node->f[0]);
}

static gd_tensor *through_index_select(const gd_node *node, gd_tensor *g)
{
    const gd_tensor *x = node->in[0];
    int64_t size[GD_MAX_DIMS] = {g->size[0]};
    memcpy(size + 1, x->size, (size_t)x->ndim * sizeof *size);
    gd_tensor *zeros = gd_empty_on(g->storage->device, g->dtype, x->ndim + 1, size);
    if (!zeros || gd_fill(zeros, 0)) return NULL;
    return gd__index_add(zeros, (int)node->i[0] + 1, gd__nameless(node->in[1]), g);
}

static gd_tensor *through_stacked_product(const gd_node *node, int k, gd_tensor *g)
{
    gd_tensor *a = gd__nameless(node->in[0]), *b = gd__nameless(node->in[1]);
    return k == 0 ? gd_matmul(g, gd_transpose(b, -1, -2)) : gd_matmul(gd_transpose(a, -1, -2), g);
}

static gd_tensor *through_whole(const gd_node *node, int k, gd_tensor *g)
{
    switch (node->op) {
    case GD_OP_cumsum: return gd__cumsum(g, (int)node->i[3] + 1, !node->i[5]);
    case GD_OP_index_select: return through_index_select(node, g);
    case GD_OP_matmul: return through_stacked_product(node, k, g);
    case GD_OP_softmax:
    case GD_OP_log_softmax: return through_softmax(node, g);
    default: return NULL;
    }
}

/* ---- all operators ---- */

typedef enum rule { NO_RULE, ENTRY_BY_ENTRY, WHOLE_MATRICES } rule;

static rule rule_of(const gd_node *node)
{
    if (gd__ops[node->op].kind == GD_KIND_MAP) return ENTRY_BY_ENTRY;
    switch (node->op) {
    case GD_OP_copy:
    case GD_OP_relabel:
    case GD_OP_cast:
    case GD_OP_sum:
    case GD_OP_logsumexp:
    case GD_OP_reshape:
    case GD_OP_expand:
    case GD_OP_permute:
    case GD_OP_slice:
    case GD_OP_embed:
    case GD_OP_cat:
    case GD_OP_linear: return ENTRY_BY_ENTRY;
    case GD_OP_matmul: return node->in[0]->ndim == 2 ? ENTRY_BY_ENTRY : WHOLE_MATRICES;
    case GD_OP_cumsum:
    case GD_OP_index_select:
    case GD_OP_softmax:
    case GD_OP_log_softmax: return WHOLE_MATRICES;
    default: return NO_RULE;
    }
}

/* Room for one more axis in front of everything, too. */
static bool has_rule(const gd_node *node)
{
    int most = 0;
    for (int i = 0; i < node->nin; i++) most = node->in[i]->ndim > most ? node->in[i]->ndim : most;
    return node->nout == 1 && most < GD_MAX_DIMS && rule_of(node) != NO_RULE;
}

/* From a part for the result t to that for operand k. */
static gd_status pulled_back(const batch *b, const gd_node *node, const gd_tensor *t, int k, gd_part *p)
{
    const gd_tensor *x = node->in[k];
    char axis[2];
    if (gd__ops[node->op].kind == GD_KIND_MAP) return through_map(b, node, k, p);
    if (rule_of(node) == WHOLE_MATRICES) {
        if (!gd__part_is_whole(p, t, b->rows)) return GD_NOT_IMPLEMENTED;
        gd_tensor *value = through_whole(node, k, p->value);
        if (!value) return gd_error(b->w.ctx);
        *p = gd__part_whole(value);
        return GD_OK;
    }
    switch (node->op) {
    case GD_OP_copy:
    case GD_OP_relabel: return GD_OK;
    case GD_OP_cast: p->value = gd_cast(p->value, x->dtype); return made(b, p);
    case GD_OP_logsumexp:
    case GD_OP_sum: {
        gd_status status = gd__part_of_sum(p, x, (int)node->i[3], (int)node->i[4]);
        if (status || node->op == GD_OP_sum) return status;
        gd_tensor *share = gd_softmax(gd__nameless(node->in[0]), axis_text(node->i[4], axis));
        p->value = share ? gd_mul(p->value, gd__part_look(p, share)) : NULL;
        return made(b, p);
    }
    case GD_OP_reshape: return gd__part_of_reshape(p, t, x);
    case GD_OP_expand: return gd__part_of_expand(p, x);
    case GD_OP_permute: return gd__part_of_permute(p, node->i);
    case GD_OP_slice: return gd__part_of_slice(p, (int)node->i[0], node->i[1], node->i[2], node->ni > 3);
    case GD_OP_embed: return through_embed(node, t, p);
    case GD_OP_cat: return through_cat(node, t, k, p);
    case GD_OP_linear:
        if (k == 2) return gd__part_of_expand(p, x);
        return through_product(b, node, t, k, p);
    case GD_OP_matmul: return through_product(b, node, t, k, p);
    default: return GD_NOT_IMPLEMENTED;
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

static void drop(gradient *g)
{
    for (int i = 0; i < g->count; i++) gd__release(g->part[i].value);
    g->count = 0;
}

/* A new part, owned. */
static void keep(gradient *g, const gd_part *p)
{
    gd__retain(p->value);
    g->part[g->count++] = *p;
}

/* The whole matrix from parts of it. */
static gd_status gathered(const batch *b, const gradient *from, gd_part *whole)
{
    const gd_tensor *t = from->of, *v = from->part[0].value;
    int64_t size[GD_MAX_DIMS] = {b->rows}, flat[2] = {b->rows, t->numel};
    if (b->identity && b->rows * t->numel > GD_BATCH_ELEMENTS) return GD_NOT_IMPLEMENTED;
    gd_tensor *matrix = gd__new(v->storage->device, v->dtype, 2, flat);
    gd_status status = matrix ? gd_fill(matrix, 0) : GD_NOMEM;
    for (int i = 0; i < from->count && !status; i++)
        status = gd__part_write(&from->part[i], t, matrix, i == 0);
    memcpy(size + 1, t->size, (size_t)t->ndim * sizeof *size);
    matrix = status ? NULL : gd__reshape(matrix, t->ndim + 1, size);
    if (!matrix) return status ? status : GD_NOMEM;
    *whole = gd__part_whole(matrix);
    return GD_OK;
}

/* All of them as one. */
static gd_status gather(const batch *b, gradient *g)
{
    gd_part whole;
    if (g->count == 1 && gd__part_is_whole(g->part, g->of, b->rows)) return GD_OK;
    gd_status status = gathered(b, g, &whole);
    if (status) return status;
    drop(g);
    keep(g, &whole);
    return GD_OK;
}

static gd_status add_part(const batch *b, gradient *g, const gd_part *p)
{
    int64_t entries = p->value->numel;
    for (int i = 0; i < g->count; i++) {
        if (gd__part_alike(&g->part[i], p)) return gd__accumulate(&g->part[i].value, p->value);
        entries += g->part[i].value->numel;
    }
    if (g->count == PARTS || (g->count && entries > b->rows * g->of->numel)) {
        gd_status status = gather(b, g);
        gradient one = {.of = g->of, .count = 1, .part = {*p}};
        gd_part whole = *p;
        if (!status && !gd__part_is_whole(p, g->of, b->rows)) status = gathered(b, &one, &whole);
        return status ? status : gd__accumulate(&g->part[0].value, whole.value);
    }
    keep(g, p);
    return GD_OK;
}

static gd_status deliver(batch *b, gd_tensor *t, gd_part *p)
{
    gd_walk *w = &b->w;
    gd_status status = GD_OK;
    if (!p->value->numel) return GD_OK;
    if (p->value->numel > most_entries(b, t)) return GD_NOT_IMPLEMENTED; /* a sum spread over much */
    gd__part_tidy(p);
    if (t->node) {
        b->gradient[t->node->slot].of = t;
        return add_part(b, &b->gradient[t->node->slot], p);
    }
    for (int i = 0; i < w->inputs && !status; i++) {
        if (w->input[i] != t) continue;
        status = gd__part_write(p, t, b->into[i], !b->written[i]);
        b->written[i] = true;
    }
    return status;
}

/* One part to the operands of its node. */
static gd_status pass_on(batch *b, gd_node *node, const gradient *g, const gd_part *p)
{
    gd_status status = GD_OK;
    for (int k = 0; k < node->nin && !status; k++) {
        if (!leads_on(&b->w, node->in[k])) continue;
        gd_part q = *p;
        status = pulled_back(b, node, g->of, k, &q);
        if (status == GD_NOT_IMPLEMENTED && !gd_error(b->w.ctx)) {
            gradient one = {.of = g->of, .count = 1, .part = {*p}};
            status = gathered(b, &one, &q);
            if (!status) status = pulled_back(b, node, g->of, k, &q);
        }
        if (!status) status = deliver(b, node->in[k], &q);
    }
    return status;
}

static gd_status walk(batch *b)
{
    gd_walk *w = &b->w;
    gd_status status = GD_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        gradient *g = &b->gradient[i];
        if (!g->count || !w->item[i].useful) continue;
        gd_scope_begin(w->ctx);
        if (g->count > 1 && rule_of(w->item[i].node) == WHOLE_MATRICES) status = gather(b, g);
        for (int k = 0; k < g->count && !status; k++) status = pass_on(b, w->item[i].node, g, &g->part[k]);
        gd_scope_end(w->ctx);
        drop(g);
    }
    return status;
}

/* The seeds arrive at the output; then everything else. */
static gd_status run(batch *b, gd_tensor *output, gd_tensor *seeds)
{
    gd_walk *w = &b->w;
    size_t bytes = w->count * sizeof *b->gradient + (size_t)w->inputs * sizeof *b->written;
    b->gradient = gd__calloc(w->ctx, bytes);
    if (!b->gradient) return GD_NOMEM;
    b->written = (bool *)(void *)(b->gradient + w->count);
    gd_scope_begin(w->ctx);
    gd_part first = seeds ? gd__part_whole(gd__nameless(seeds)) : gd__part_identity(output);
    gd_status status = first.value ? deliver(b, output, &first) : gd_error(w->ctx);
    gd_scope_end(w->ctx);
    if (!status) status = walk(b);
    for (size_t i = 0; i < w->count; i++) drop(&b->gradient[i]);
    gd__free(w->ctx, b->gradient, bytes);
    return status;
}

gd_status gd__grad_batch(gd_tensor *output, gd_tensor *seeds, gd_tensor *const *inputs, int count,
                         gd_tensor *const *into)
{
    gd_ctx *ctx = output->head.ctx;
    for (int i = 0; i < count; i++)
        if (inputs[i]->node) return GD_NOT_IMPLEMENTED; /* inner tensors */
    if (!output->node) return GD_NOT_IMPLEMENTED;
    if (gd_error(ctx)) return gd_error(ctx);
    batch b = {.w = {.ctx = ctx, .input = inputs, .inputs = count},
               .rows = seeds ? seeds->size[0] : output->numel,
               .identity = !seeds,
               .into = into};
    for (int i = 0; i < count; i++) b.result += into[i]->numel;
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = 1;
    const gd_node *spent;
    gd_status status = gd__walk_collect(&b.w, output->node, &spent);
    if (spent) status = GD_NOT_IMPLEMENTED; /* one by one will say what is wrong */
    if (!status) status = mark_useful(&b.w);
    if (!status && b.w.item[0].useful) status = run(&b, output, seeds);
    gd__walk_free(&b.w);
    ctx->grad_off = grad_off;
    return status;
}
