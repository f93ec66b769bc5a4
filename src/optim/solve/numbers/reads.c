/* Which elements of the parameters each residual reads, from the graph that its operators recorded.
 *
 * Sets of elements are propagated forward through the graph, from the parameters to the residuals.  Values do not matter: an element is in a set if
 * an operator could read it, even if it was multiplied by zero or not selected.  Element-wise operators, views, reductions, products
 * of matrices and selections of elements are followed one by one; of any other operator every result reads all that its operands read. */
#include "autograd/walk.h"
#include "optim/solve/numbers/reads.h"
#include "tensor/tensor_internal.h"

#include <stdlib.h>
#include <string.h>

/* The sets of all elements of a tensor: those of element i are item[start[i]] .. item[start[i + 1] - 1], ascending. */
typedef struct sets {
    int64_t count, *start;
    int32_t *item;
    size_t room;
} sets;

typedef struct reader {
    gd_ctx *ctx;
    gd_tensor *const *params;
    int count;
    int64_t n, most;
    gd_walk walk;
    const gd_tensor **shape; /* [visits] reads of the result by a consumer */
    sets *of;                /* [visits] */
    sets *of_params;         /* [count] */
    int32_t *mark, stamp;    /* [n] */
    sets *out;               /* made now */
    bool lost;               /* too many elements, or no memory */
} reader;

static void drop_sets(gd_ctx *ctx, sets *s)
{
    gd__free(ctx, s->start, ((size_t)s->count + 1) * sizeof *s->start);
    gd__free(ctx, s->item, s->room * sizeof *s->item);
    *s = (sets){0};
}

static bool open_sets(reader *r, sets *s, int64_t count)
{
    *s = (sets){.count = count, .room = (size_t)count + 16};
    s->start = gd__calloc(r->ctx, ((size_t)count + 1) * sizeof *s->start);
    s->item = gd__alloc(r->ctx, s->room * sizeof *s->item);
    r->out = s;
    r->lost = !s->start || !s->item;
    return !r->lost;
}

static void put_item(reader *r, sets *s, int64_t at, int32_t item)
{
    if (r->mark[item] == r->stamp || r->lost) return;
    r->mark[item] = r->stamp;
    if ((size_t)at >= s->room) {
        size_t room = 2 * s->room;
        int32_t *grown = (int64_t)room > 4 * r->most + 64
                             ? NULL
                             : gd__realloc(r->ctx, s->item, s->room * sizeof *s->item,
                                           room * sizeof *s->item);
        r->lost = !grown;
        if (r->lost) return;
        s->item = grown;
        s->room = room;
    }
    s->item[at] = item;
    s->start[0] = at + 1; /* end of the present set; 0 again when all are done */
}

/* Element `i` of the result begins. */
static void begin_set(reader *r)
{
    if (++r->stamp == INT32_MAX) {
        memset(r->mark, 0, (size_t)r->n * sizeof *r->mark);
        r->stamp = 1;
    }
}

static void add_element(reader *r, const sets *from, int64_t e)
{
    if (!from) return;
    for (int64_t k = from->start[e]; k < from->start[e + 1] && !r->lost; k++)
        put_item(r, r->out, r->out->start[0], from->item[k]);
}

static int by_number(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sets are made in their order; start[0] is where the next item goes until the last is made. */
static void end_set(reader *r, int64_t i)
{
    sets *s = r->out;
    int64_t end = s->start[0], begin = i ? s->start[i] : 0;
    bool ascending = true;
    for (int64_t k = begin + 1; k < end && ascending; k++) ascending = s->item[k - 1] < s->item[k];
    if (!ascending && !r->lost) qsort(s->item + begin, (size_t)(end - begin), sizeof *s->item, by_number);
    s->start[i + 1] = end;
    if (i + 1 == s->count) s->start[0] = 0;
}

/* ---- where the operands of an element are ---- */

static void unravel(const gd_tensor *t, int64_t flat, int64_t *at)
{
    for (int k = t->ndim - 1; k >= 0; k--) {
        at[k] = flat % t->size[k];
        flat /= t->size[k];
    }
}

static int64_t ravel(const gd_tensor *t, const int64_t *at)
{
    int64_t flat = 0;
    for (int k = 0; k < t->ndim; k++) flat = flat * t->size[k] + at[k];
    return flat;
}

/* In a tensor that is spread over the result: the last axes meet. */
static int64_t spread_place(const gd_tensor *in, const gd_tensor *out, const int64_t *at)
{
    int64_t place[GD_MAX_DIMS];
    for (int k = 0; k < in->ndim; k++) place[k] = in->size[k] == 1 ? 0 : at[k + out->ndim - in->ndim];
    return ravel(in, place);
}

static bool spreads(const gd_tensor *in, const gd_tensor *out)
{
    for (int k = 0; k < in->ndim; k++) {
        int to = k + out->ndim - in->ndim;
        if (to < 0 || (in->size[k] != 1 && in->size[k] != out->size[to])) return false;
    }
    return true;
}

static int64_t index_value(const gd_tensor *index, int64_t flat)
{
    int64_t at[GD_MAX_DIMS], offset = 0;
    unravel(index, flat, at);
    for (int k = 0; k < index->ndim; k++) offset += at[k] * index->stride[k];
    return index->dtype == GD_I32 ? ((const int32_t *)index->data)[offset]
                                  : ((const int64_t *)index->data)[offset];
}

static bool readable_index(const gd_tensor *index)
{
    return index->storage && index->data && (index->dtype == GD_I64 || index->dtype == GD_I32) &&
           index->storage->device == gd__cpu(index->head.ctx);
}

/* The position in the first operand of index `at` of the result of a view or selection, which is element `flat`; -1: none. */
typedef int64_t place_fn(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                         const int64_t *at);

static int64_t same_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                          const int64_t *at)
{
    (void)node, (void)output, (void)out, (void)at;
    return flat;
}

static int64_t permuted_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                              const int64_t *at)
{
    int64_t place[GD_MAX_DIMS];
    (void)output, (void)flat;
    for (int k = 0; k < out->ndim; k++) place[node->i[k]] = at[k];
    return ravel(node->in[0], place);
}

static int64_t expanded_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                              const int64_t *at)
{
    (void)output, (void)flat;
    return spread_place(node->in[0], out, at);
}

static int64_t sliced_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                            const int64_t *at)
{
    int64_t place[GD_MAX_DIMS];
    bool left_out = node->ni > 3;
    (void)output, (void)out, (void)flat;
    for (int k = 0, o = 0; k < node->in[0]->ndim; k++) {
        int64_t here = left_out && k == node->i[0] ? 0 : at[o++];
        place[k] = k == node->i[0] ? node->i[1] + here * node->i[2] : here;
    }
    return ravel(node->in[0], place);
}

static int64_t split_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                           const int64_t *at)
{
    (void)node, (void)at;
    return output * out->numel + flat;
}

static int64_t embedded_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                              const int64_t *at)
{
    const gd_tensor *in = node->in[0];
    int64_t place[GD_MAX_DIMS];
    (void)output, (void)out, (void)flat;
    for (int k = 0; k < in->ndim; k++) {
        int64_t off = at[k] - node->i[k], step = node->i[in->ndim + k];
        if (off % step || off / step < 0 || off / step >= in->size[k]) return -1;
        place[k] = off / step;
    }
    return ravel(in, place);
}

static int64_t selected_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                              const int64_t *at)
{
    int64_t place[GD_MAX_DIMS];
    (void)output, (void)out, (void)flat;
    memcpy(place, at, sizeof place);
    place[node->i[0]] = index_value(node->in[1], at[node->i[0]]);
    return ravel(node->in[0], place);
}

static int64_t gathered_place(const gd_node *node, int output, const gd_tensor *out, int64_t flat,
                              const int64_t *at)
{
    int64_t place[GD_MAX_DIMS];
    (void)output, (void)out;
    memcpy(place, at, sizeof place);
    place[node->i[0]] = index_value(node->in[1], flat);
    return ravel(node->in[0], place);
}

/* ---- one operator ---- */

static const sets *sets_of(const reader *r, const gd_tensor *t)
{
    if (t->node) return t->node->pass == r->ctx->pass ? &r->of[t->node->slot + t->output] : NULL;
    for (int k = 0; k < r->count; k++)
        if (r->params[k] == t) return &r->of_params[k];
    return NULL;
}

/* Every result reads all that the operands read. */
static void follow_all(reader *r, const gd_node *node, const gd_tensor *out)
{
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        begin_set(r);
        for (int k = 0; k < node->nin; k++) {
            const sets *from = sets_of(r, node->in[k]);
            for (int64_t e = 0; from && e < from->count && !r->lost; e++) add_element(r, from, e);
        }
        end_set(r, i);
    }
}

/* Elements at the same place, if the operands are broadcast to the result. */
static void follow_elements(reader *r, const gd_node *node, const gd_tensor *out)
{
    int64_t at[GD_MAX_DIMS] = {0};
    bool spread = true;
    for (int k = 0; k < node->nin; k++) spread = spread && spreads(node->in[k], out);
    if (!spread) {
        follow_all(r, node, out);
        return;
    }
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        unravel(out, i, at);
        begin_set(r);
        for (int k = 0; k < node->nin; k++) {
            const sets *from = sets_of(r, node->in[k]);
            if (from)
                add_element(r, from,
                            node->in[k]->numel == out->numel && node->in[k]->ndim == out->ndim
                                ? i
                                : spread_place(node->in[k], out, at));
        }
        end_set(r, i);
    }
}

static void follow_picks(reader *r, const gd_node *node, int output, const gd_tensor *out, place_fn *place_of)
{
    const sets *from = sets_of(r, node->in[0]);
    int64_t at[GD_MAX_DIMS] = {0};
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        unravel(out, i, at);
        int64_t place = place_of(node, output, out, i, at);
        begin_set(r);
        if (place >= 0) add_element(r, from, place);
        end_set(r, i);
    }
}

/* Operands seen as [outer, reduced, inner]; each: every element of the row has a result, not one for all. */
static void follow_rows(reader *r, const gd_node *node, const gd_tensor *out, bool each)
{
    const sets *from = sets_of(r, node->in[0]);
    int64_t reduced = node->i[1], inner = node->i[2], per = each ? reduced * inner : inner;
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        int64_t outer = i / per, in = i % inner;
        begin_set(r);
        for (int64_t k = 0; k < reduced; k++) add_element(r, from, (outer * reduced + k) * inner + in);
        end_set(r, i);
    }
}

static void follow_cat(reader *r, const gd_node *node, const gd_tensor *out)
{
    int64_t at[GD_MAX_DIMS] = {0};
    int axis = (int)node->i[0];
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        unravel(out, i, at);
        int k = 0;
        for (; at[axis] >= node->in[k]->size[axis]; k++) at[axis] -= node->in[k]->size[axis];
        begin_set(r);
        add_element(r, sets_of(r, node->in[k]), ravel(node->in[k], at));
        end_set(r, i);
    }
}

/* [batch, rows, k] by [batch, k, columns]; a batch of one serves all. */
static void follow_matmul(reader *r, const gd_node *node, const gd_tensor *out)
{
    const gd_tensor *a = node->in[0], *b = node->in[1];
    if (a->ndim < 2 || b->ndim < 2 || out->ndim < 2 || !a->numel || !b->numel) {
        follow_all(r, node, out);
        return;
    }
    const sets *from_a = sets_of(r, a), *from_b = sets_of(r, b);
    int64_t inner = a->size[a->ndim - 1], rows = out->size[out->ndim - 2], columns = out->size[out->ndim - 1];
    int64_t batches_a = a->numel / (rows * inner), batches_b = b->numel / (inner * columns);
    for (int64_t i = 0; i < out->numel && !r->lost; i++) {
        int64_t c = i % columns, row = i / columns % rows, batch = i / columns / rows;
        begin_set(r);
        for (int64_t k = 0; k < inner && !r->lost; k++) {
            add_element(r, from_a, ((batches_a == 1 ? 0 : batch) * rows + row) * inner + k);
            add_element(r, from_b, ((batches_b == 1 ? 0 : batch) * inner + k) * columns + c);
        }
        end_set(r, i);
    }
}

/* By the column `reads` of the operator table: by positions, by rows, or by a separate function; empty: every element reads all. */
typedef struct manner {
    place_fn *place;
    bool indexed; /* the second operand has the positions */
    enum { NO_ROWS, ROW_TO_ONE, ROW_TO_ROW } rows;
    void (*follow)(reader *r, const gd_node *node, const gd_tensor *out);
} manner;

#define READS_ALL      .rows = NO_ROWS
#define READS_EACH     .follow = follow_elements
#define READS_SAME     .place = same_place
#define READS_PERMUTED .place = permuted_place
#define READS_EXPANDED .place = expanded_place
#define READS_SLICED   .place = sliced_place
#define READS_SPLIT    .place = split_place
#define READS_EMBEDDED .place = embedded_place
#define READS_SELECTED .place = selected_place, .indexed = true
#define READS_GATHERED .place = gathered_place, .indexed = true
#define READS_ROW      .rows = ROW_TO_ONE
#define READS_ROWS     .rows = ROW_TO_ROW
#define READS_JOINED   .follow = follow_cat
#define READS_PRODUCT  .follow = follow_matmul

static const manner manners[GD_OP_COUNT] = {
#define OP(name, nin, nout, kind, needs, takes, batch, reads) [GD_OP_##name] = {READS_##reads},
#define OP0(...)
#include "tensor/ops.def"
};

static void follow_node(reader *r, const gd_node *node, int output, const gd_tensor *out, sets *made)
{
    const manner *m = &manners[node->op];
    if (!open_sets(r, made, out->numel)) return;
    if (m->place && !(m->indexed && !readable_index(node->in[1])))
        follow_picks(r, node, output, out, m->place);
    else if (m->rows)
        follow_rows(r, node, out, m->rows == ROW_TO_ROW);
    else if (m->follow)
        m->follow(r, node, out);
    else
        follow_all(r, node, out);
}

/* ---- all of them ---- */

static bool begin_params(reader *r)
{
    int64_t at = 0;
    for (int k = 0; k < r->count; k++) {
        sets *s = &r->of_params[k];
        if (!open_sets(r, s, r->params[k]->numel)) return false;
        for (int64_t i = 0; i < s->count; i++) {
            begin_set(r);
            put_item(r, s, s->start[0], (int32_t)(at + i));
            end_set(r, i);
        }
        at += s->count;
    }
    return !r->lost;
}

/* Sets that no later node reads are dropped: the graph may be long. */
static void walk_forward(reader *r, const gd_tensor *residuals)
{
    for (size_t i = 0; i < r->walk.count; i++) {
        const gd_node *node = r->walk.item[i].node;
        for (int k = 0; k < node->nin; k++)
            if (node->in[k]->node) r->shape[node->in[k]->node->slot + node->in[k]->output] = node->in[k];
    }
    r->shape[residuals->node->slot + residuals->output] = residuals;
    for (size_t i = r->walk.count; i-- > 0 && !r->lost;)
        if (r->shape[i]) follow_node(r, r->walk.item[i].node, r->walk.item[i].output, r->shape[i], &r->of[i]);
}

/* The sets of the residuals as CSR. */
static bool hand_over(reader *r, const gd_tensor *residuals, gd_reads *out)
{
    sets *s = &r->of[residuals->node->slot + residuals->output];
    int64_t entries = s->start[s->count];
    *out = (gd_reads){.m = s->count, .entries = entries, .start = s->start};
    s->start = NULL;
    if (!(out->column = gd__alloc(r->ctx, ((size_t)entries + 1) * sizeof *out->column))) return false;
    for (int64_t e = 0; e < entries; e++) out->column[e] = s->item[e];
    return true;
}

void gd__reads_free(gd_ctx *ctx, gd_reads *reads)
{
    gd__free(ctx, reads->start, ((size_t)reads->m + 1) * sizeof *reads->start);
    gd__free(ctx, reads->column, ((size_t)reads->entries + 1) * sizeof *reads->column);
    *reads = (gd_reads){0};
}

gd_status gd__reads_find(gd_tensor *residuals, gd_tensor *const *params, int count, int64_t n, int64_t most,
                         gd_reads *out, bool *found)
{
    reader r = {.ctx = residuals->head.ctx, .params = params, .count = count, .n = n, .most = most};
    const gd_node *spent;
    *found = false;
    *out = (gd_reads){0};
    if (!residuals->node) return GD_OK;
    r.walk.ctx = r.ctx;
    gd_status status = gd__walk_collect(&r.walk, residuals->node, &spent);
    size_t visits = r.walk.count;
    if (!status) {
        r.shape = gd__calloc(r.ctx, visits * sizeof *r.shape);
        r.of = gd__calloc(r.ctx, visits * sizeof *r.of);
        r.of_params = gd__calloc(r.ctx, (size_t)count * sizeof *r.of_params);
        r.mark = gd__calloc(r.ctx, (size_t)n * sizeof *r.mark);
        if (r.shape && r.of && r.of_params && r.mark && begin_params(&r)) walk_forward(&r, residuals);
        if (r.shape && r.of && r.of_params && r.mark && !r.lost) *found = hand_over(&r, residuals, out);
    }
    for (size_t i = 0; i < visits && r.of; i++) drop_sets(r.ctx, &r.of[i]);
    for (int k = 0; k < count && r.of_params; k++) drop_sets(r.ctx, &r.of_params[k]);
    gd__free(r.ctx, r.shape, visits * sizeof *r.shape);
    gd__free(r.ctx, r.of, visits * sizeof *r.of);
    gd__free(r.ctx, r.of_params, (size_t)count * sizeof *r.of_params);
    gd__free(r.ctx, r.mark, (size_t)n * sizeof *r.mark);
    gd__walk_free(&r.walk);
    if (!*found) gd__reads_free(r.ctx, out);
    return status ? status : gd_error(r.ctx);
}
