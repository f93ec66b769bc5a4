/* Reverse mode for many seeds at once.
 *
 * What has arrived at a tensor is a list of parts of the matrix of derivatives (part.h).  An element-wise operator multiplies
 * entries by its derivative at their places, operators that move or add elements move the places: a diagonal stays one as
 * long as single elements are used, and only operators that mix elements make the matrix dense.
 *
 *   p [200] -> slice [199] -> square -> ... -> sum      Hessian: 199 entries per use of p, not 200 * 199
 *
 * Operators without such a rule get whole matrices: gradients with one axis more, in front. */
#include "autograd/reverse_batch.h"
#include "autograd/batch_rules.h"
#include "autograd/walk.h"
#include "tensor/shape.h"

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
    int64_t limit;      /* if every element of the output is a seed: limit of intermediate matrices; or 0 */
    gradient *gradient; /* by node->slot */
    bool *written;      /* by input: is something in its matrix? */
    gd_tensor *const *into; /* the matrices */
} batch;

/* Entries that a part for t may have. */
static int64_t most_entries(const batch *b, const gd_tensor *t) { return gd__batch_most(b->limit, t->numel); }

/* A rule, and room for one more axis in front of everything. */
static bool has_rule(const gd_node *node)
{
    int most = 0;
    for (int i = 0; i < node->nin; i++) most = node->in[i]->ndim > most ? node->in[i]->ndim : most;
    return node->nout == 1 && most < GD_MAX_DIMS && gd__batch_rules[node->op];
}

/* ---- the walk ---- */

/* Marks nodes that lead to an input; NOT_IMPLEMENTED if one has no batched rule, or was changed in place. */
static gd_status mark_useful(gd_walk *w)
{
    for (size_t i = w->count; i-- > 0;) {
        gd_visit *e = &w->item[i];
        if (e->output) continue;
        for (int k = 0; k < e->node->nin && !e->useful; k++) e->useful = gd__leads_on(w, e->node->in[k]);
        if (!e->useful) continue;
        if (!has_rule(e->node) || gd__changed(e->node) >= 0) return GD_NOT_IMPLEMENTED;
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
static gd_status gathered(const batch *b, const gd_tensor *t, const gd_part *part, int count, gd_part *whole)
{
    const gd_tensor *v = part->value;
    int64_t size[GD_MAX_DIMS] = {b->rows}, flat[2] = {b->rows, t->numel};
    if (b->limit && b->rows * t->numel > GD_BATCH_ELEMENTS) return GD_NOT_IMPLEMENTED;
    gd_tensor *matrix = gd__new(v->storage->device, v->dtype, 2, flat);
    gd_status status = matrix ? gd_fill(matrix, 0) : GD_NOMEM;
    for (int i = 0; i < count && !status; i++) status = gd__part_write(&part[i], t, matrix, i == 0);
    memcpy(size + 1, t->size, (size_t)t->ndim * sizeof *size);
    matrix = status ? NULL : gd__reshape(matrix, t->ndim + 1, size);
    if (!matrix) return status ? status : GD_NOMEM;
    *whole = gd__part_whole(matrix);
    return GD_OK;
}

/* `count` parts from `first` on become one, the whole matrix. */
static gd_status gather(const batch *b, gradient *g, int first, int count)
{
    gd_part whole, *part = &g->part[first];
    if (count == 1 && gd__part_is_whole(part, g->of, b->rows)) return GD_OK;
    gd_status status = gathered(b, g->of, part, count, &whole);
    if (status) return status;
    for (int i = 0; i < count; i++) gd__release(part[i].value);
    gd__retain(whole.value);
    *part = whole;
    memmove(part + 1, part + count, (size_t)(g->count - first - count) * sizeof *part);
    g->count -= count - 1;
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
        gd_status status = gather(b, g, 0, g->count);
        gd_part whole = *p;
        if (!status && !gd__part_is_whole(p, g->of, b->rows)) status = gathered(b, g->of, p, 1, &whole);
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
    if (p->value->numel > most_entries(b, t))
        return GD_NOT_IMPLEMENTED; /* a sum broadcast over many elements */
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

/* Passes block `at` to the operands of its node. A rule that does not support it gets the matrix of this block and all later ones. */
static gd_status pass_on(batch *b, const gd_node *node, gradient *g, int at)
{
    gd_status status = GD_OK;
    bool passed = false;
    for (int k = 0; k < node->nin && !status; k++) {
        if (!gd__leads_on(&b->w, node->in[k])) continue;
        gd_batch_step step = {.node = node, .result = g->of, .k = k, .rows = b->rows, .limit = b->limit};
        gd_part q = g->part[at];
        status = gd__batch_rules[node->op](&step, &q);
        if (status == GD_NOT_IMPLEMENTED && !gd_error(b->w.ctx)) {
            status = gather(b, g, at, passed ? 1 : g->count - at);
            q = g->part[at];
            if (!status) status = gd__batch_rules[node->op](&step, &q);
        }
        if (!status) status = deliver(b, node->in[k], &q);
        passed = true;
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
        for (int k = 0; k < g->count && !status; k++) status = pass_on(b, w->item[i].node, g, k);
        gd_scope_end(w->ctx);
        drop(g);
    }
    return status;
}

/* Starts with the seeds at the output, then visits all nodes. */
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
               .into = into};
    for (int i = 0; i < count && !seeds; i++) b.limit += into[i]->numel; /* they are there anyway */
    if (!seeds && b.limit < GD_BATCH_ELEMENTS) b.limit = GD_BATCH_ELEMENTS;
    uint8_t grad_off = ctx->grad_off;
    ctx->grad_off = 1;
    const gd_node *spent;
    gd_status status = gd__walk_collect(&b.w, output->node, &spent);
    if (spent) status = GD_NOT_IMPLEMENTED; /* single passes will report the error */
    if (!status) status = mark_useful(&b.w);
    if (!status && b.w.item[0].useful) status = run(&b, output, seeds);
    gd__walk_free(&b.w);
    ctx->grad_off = grad_off;
    return status;
}
