/* Shape operators that move data: index_select, gather, scatter_add, cat, stack, pad, triangles, diagonals. */
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <string.h>

gd_tensor *gd__as_index(const char *what, gd_tensor *index)
{
    if (index->dtype != GD_I64 && index->dtype != GD_I32 && index->dtype != GD_U8)
        return gd__refuse(index->head.ctx, GD_DTYPE, "%s: the index is %s, not an integer", what,
                          gd_dtype_name(index->dtype));
    return index->dtype == GD_I64 ? index : gd_cast(index, GD_I64);
}

gd_tensor *gd__index_select(gd_tensor *x, int axis, gd_tensor *index, gd_labels *labels)
{
    if (!x || !index) return NULL;
    int64_t size[GD_MAX_DIMS];
    memcpy(size, x->size, sizeof size);
    size[axis] = index->numel;
    gd_tensor *out = gd__new_checked(x->storage->device, "index_select", x->dtype, x->ndim, size);
    if ((out = gd__mapped(out, x, NULL))) gd__labels_put(out, axis, gd__labels_retain(labels));
    return gd__run1(GD_OP_index_select, (gd_tensor *[]){x, index}, 2, &(gd_attrs){.ni = 1, .i = {axis}}, out);
}

/* A new axis block for new labels; if a label occurs twice, the axis gets no labels. */
static gd_status put_labels(gd_tensor *out, int axis, gd_labels *labels)
{
    const char *twice;
    gd_status status = gd__labels_repeat(labels, &twice);
    if (status || twice)
        gd__labels_release(labels);
    else
        out->axes->labels[axis] = labels;
    return status;
}

gd_status gd__label_picked(gd_tensor *out, int at, gd_tensor *x, int axis, gd_tensor *index)
{
    gd_labels *from = gd__labels(x, axis), *labels;
    gd_ctx *ctx = x->head.ctx;
    if (!from) return GD_OK;
    gd_tensor *here = gd_contiguous(gd_to_device(index, gd__cpu(ctx)));
    if (!here || !(labels = gd__labels_new(ctx, index->numel))) return gd_error(ctx);
    gd__host_reads(here, "labels of picked elements");
    const int64_t *place = (const int64_t *)(const void *)here->data;
    for (int64_t k = 0; k < index->numel; k++) labels->text[k] = from->text[place[k]];
    return put_labels(out, at, labels);
}

gd_tensor *gd_index_select(gd_tensor *x, const char *axis, gd_tensor *index)
{
    if (!gd__given2("index_select", x, index)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    int at = gd__parse_axis("index_select", x, axis);
    if (at < 0) return NULL;
    if (index->ndim != 1)
        return gd__refuse(ctx, GD_SHAPE, "index_select: the index has %d axes, not 1", (int)index->ndim);
    gd_scope_begin(ctx);
    index = gd__as_index("index_select", index);
    gd_tensor *out = gd__index_select(x, at, index, NULL);
    if (out && gd__label_picked(out, at, x, at, index)) out = NULL;
    return gd__scope_leave(ctx, out);
}

gd_tensor *gd__index_add(gd_tensor *zeros, int axis, gd_tensor *index, gd_tensor *values)
{
    if (!zeros || !index || !values) return NULL;
    gd_tensor *out = gd__new_like(zeros, zeros->dtype);
    return gd__run1(GD_OP_index_add, (gd_tensor *[]){zeros, index, values}, 3,
                    &(gd_attrs){.ni = 1, .i = {axis}}, out);
}

gd_tensor *gd__index_put(gd_tensor *x, int axis, gd_tensor *index, gd_tensor *values)
{
    if (!x || !index || !values) return NULL;
    gd_tensor *out = gd__new_like(x, x->dtype);
    return gd__run1(GD_OP_index_put, (gd_tensor *[]){x, index, values}, 3, &(gd_attrs){.ni = 1, .i = {axis}},
                    out);
}

/* gather and scatter: the index has x's axes by position, with equal sizes except on the axis itself. */
static bool index_fits(const char *what, const gd_tensor *x, const gd_tensor *index, int axis)
{
    bool fits = index->ndim == x->ndim;
    for (int i = 0; fits && i < x->ndim; i++) fits = i == axis || index->size[i] == x->size[i];
    if (fits) return true;
    char a[256], b[256];
    (void)gd_fail(x->head.ctx, GD_SHAPE, "%s: index %s does not fit %s on the axes other than %d", what,
                  gd__shape_text(index, a, sizeof a), gd__shape_text(x, b, sizeof b), axis);
    return false;
}

gd_tensor *gd__gather(gd_tensor *x, int axis, gd_tensor *index)
{
    if (!x || !index) return NULL;
    gd_tensor *out = gd__new(x->storage->device, x->dtype, index->ndim, index->size);
    if ((out = gd__mapped(out, x, NULL))) gd__labels_put(out, axis, NULL);
    return gd__run1(GD_OP_gather, (gd_tensor *[]){x, index}, 2, &(gd_attrs){.ni = 1, .i = {axis}}, out);
}

gd_tensor *gd_gather(gd_tensor *x, const char *axis, gd_tensor *index)
{
    if (!gd__given2("gather", x, index)) return NULL;
    int at = gd__parse_axis("gather", x, axis);
    if (at < 0 || !index_fits("gather", x, index, at)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    index = gd__placed_in("gather", index, x, at);
    return gd__scope_leave(ctx, index ? gd__gather(x, at, gd__as_index("gather", index)) : NULL);
}

gd_tensor *gd__scatter_add(gd_tensor *x, int axis, gd_tensor *index, gd_tensor *values)
{
    if (!x || !index || !values) return NULL;
    gd_tensor *out = gd__new_like(x, x->dtype);
    return gd__run1(GD_OP_scatter_add, (gd_tensor *[]){x, index, values}, 3,
                    &(gd_attrs){.ni = 1, .i = {axis}}, out);
}

gd_tensor *gd_scatter_add(gd_tensor *x, const char *axis, gd_tensor *index, gd_tensor *values)
{
    gd_tensor *all[3] = {x, index, values};
    if (!gd__given("scatter_add", all, 3)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    int at = gd__parse_axis("scatter_add", x, axis);
    if (at < 0 || !index_fits("scatter_add", x, index, at)) return NULL;
    if (values->dtype != x->dtype || !gd__same_shape(values, index))
        return gd__refuse(ctx, values->dtype != x->dtype ? GD_DTYPE : GD_SHAPE,
                          "scatter_add: the values must have x's dtype (%s) and the index's shape",
                          gd_dtype_name(x->dtype));
    gd_scope_begin(ctx);
    values = gd__placed_in("scatter_add", values, index, -1);
    if (values) values = gd__placed_in("scatter_add", values, x, at);
    index = gd__placed_in("scatter_add", index, x, at);
    gd_tensor *out = values && index ? gd__scatter_add(x, at, gd__as_index("scatter_add", index), values)
                                     : NULL;
    return gd__scope_leave(ctx, out);
}

/* ---- joining ---- */

static gd_status cat_fits(gd_tensor *const *pieces, int count, int axis, int64_t *total)
{
    gd_tensor *first = pieces[0];
    gd_ctx *ctx = first->head.ctx;
    *total = 0;
    for (int k = 0; k < count; k++) {
        gd_tensor *t = pieces[k];
        bool fits = t->ndim == first->ndim;
        for (int i = 0; fits && i < t->ndim; i++) fits = i == axis || t->size[i] == first->size[i];
        char a[256], b[256];
        if (!fits)
            return gd_fail(ctx, GD_SHAPE, "cat: piece %d is %s, piece 0 is %s; only axis %d may differ", k,
                           gd__shape_text(t, a, sizeof a), gd__shape_text(first, b, sizeof b), axis);
        if (t->dtype != first->dtype)
            return gd_fail(ctx, GD_DTYPE, "cat: piece %d is %s, piece 0 is %s", k, gd_dtype_name(t->dtype),
                           gd_dtype_name(first->dtype));
        if (__builtin_add_overflow(*total, t->size[axis], total))
            return gd_fail(ctx, GD_OVERFLOW, "cat: axis %d grows beyond 2^63", axis);
    }
    return GD_OK;
}

/* Labels of the joined axis if every piece has them and none occurs twice. */
static gd_status join_labels(gd_tensor *out, gd_tensor *const *pieces, int count, int axis)
{
    if (!out->axes) return GD_OK;
    gd__labels_put(out, axis, NULL);
    for (int k = 0; k < count; k++)
        if (!gd__labels(pieces[k], axis)) return GD_OK;
    gd_labels *labels = gd__labels_new(out->head.ctx, out->size[axis]);
    if (!labels) return GD_NOMEM;
    const char **text = labels->text;
    for (int k = 0; k < count; k++) {
        gd_labels *from = gd__labels(pieces[k], axis);
        memcpy(text, from->text, (size_t)from->count * sizeof *text);
        text += from->count;
    }
    return put_labels(out, axis, labels);
}

/* The axes of pieces that agree: at each position the name, and except for the joined axis the labels, of the first piece that has
 * them. */
static gd_status join_axes(gd_tensor *out, gd_tensor *const *pieces, int count, int axis)
{
    for (int k = 0; k < count; k++) {
        for (int i = 0; pieces[k]->axes && i < out->ndim; i++) {
            if (!out->axes && !(out->axes = gd__axes_new(out->head.ctx))) return GD_NOMEM;
            const char *name = gd__name(pieces[k], i);
            int taken = name && !out->axes->name[i] ? gd_axis_find(out, name) : -1;
            char shape[256];
            if (taken >= 0)
                return gd_fail(out->head.ctx, GD_AXIS,
                               "cat: axis %d of %s is '%.60s', which is axis %d of pieces before it", i,
                               gd__shape_text(pieces[k], shape, sizeof shape), name, taken);
            if (!out->axes->name[i]) out->axes->name[i] = name;
            if (i != axis && !out->axes->labels[i])
                out->axes->labels[i] = gd__labels_retain(gd__labels(pieces[k], i));
        }
    }
    return join_labels(out, pieces, count, axis);
}

static gd_tensor *cat_on(gd_tensor *const *pieces, int count, int axis)
{
    int64_t size[GD_MAX_DIMS];
    memcpy(size, pieces[0]->size, sizeof size);
    if (cat_fits(pieces, count, axis, &size[axis])) return NULL;
    gd_tensor *out = gd__new_checked(pieces[0]->storage->device, "cat", pieces[0]->dtype, pieces[0]->ndim,
                                     size);
    if (out && join_axes(out, pieces, count, axis)) {
        gd_release(out);
        return NULL;
    }
    return gd__run1(GD_OP_cat, pieces, count, &(gd_attrs){.ni = 1, .i = {axis}}, out);
}

/* The first piece with a name, and with labels, for each axis; -1: none yet. */
typedef struct firsts {
    int name[GD_MAX_DIMS], labels[GD_MAX_DIMS];
} firsts;

/* Piece k in the order of the previous ones: equal names at equal positions, labels of other axes in one order. */
static gd_tensor *matched(gd_tensor *const *piece, int k, int axis, firsts *f)
{
    gd_tensor *x = piece[k];
    for (int i = 0; x && x->axes && i < x->ndim; i++) {
        if (f->name[i] >= 0 && gd__same_name("cat", piece[f->name[i]], i, x, i)) return NULL;
        if (f->name[i] < 0 && gd__name(x, i)) f->name[i] = k;
        if (i == axis || !gd__labels(x, i)) continue;
        if (f->labels[i] >= 0) x = gd__match_labels("cat", piece[f->labels[i]], i, x, i);
        if (f->labels[i] < 0) f->labels[i] = k;
    }
    return x;
}

/* Pieces one of which has names or labels. */
static gd_tensor *cat_matched(gd_tensor *const *pieces, int count, int axis)
{
    gd_ctx *ctx = pieces[0]->head.ctx;
    gd_tensor *out = NULL;
    size_t bytes = (size_t)count * sizeof *pieces;
    gd_tensor **piece = gd__alloc(ctx, bytes);
    if (!piece) return NULL;
    gd_scope_begin(ctx);
    firsts f;
    memset(&f, 0xff, sizeof f);
    int made = 0;
    for (; made < count; made++) {
        piece[made] = pieces[made];
        if (!(piece[made] = matched(piece, made, axis, &f))) break;
    }
    if (made == count) out = cat_on(piece, count, axis);
    gd__scope_leave(ctx, out);
    gd__free(ctx, piece, bytes);
    return out;
}

static gd_tensor *cat(gd_tensor *const *pieces, int count, int axis)
{
    for (int k = 0; k < count; k++)
        if (pieces[k]->axes) return cat_matched(pieces, count, axis);
    return cat_on(pieces, count, axis);
}

/* Promotes pieces to a common dtype. */
static gd_tensor *cat_widened(gd_tensor *const *pieces, int count, int at)
{
    gd_ctx *ctx = pieces[0]->head.ctx;
    gd_dtype dtype = pieces[0]->dtype;
    bool alike = true;
    for (int k = 1; k < count; k++) {
        alike = alike && pieces[k]->dtype == dtype;
        dtype = gd__promoted(dtype, pieces[k]->dtype);
    }
    if (alike) return cat(pieces, count, at);
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **wide = gd__alloc(ctx, bytes);
    if (!wide) return NULL;
    gd_scope_begin(ctx);
    int made = 0;
    while (made < count && (wide[made] = gd_cast(pieces[made], dtype))) made++;
    gd_tensor *out = gd__scope_leave(ctx, made == count ? cat(wide, count, at) : NULL);
    gd__free(ctx, wide, bytes);
    return out;
}

gd_tensor *gd_cat(gd_tensor *const *pieces, int count, const char *axis)
{
    if (count <= 0 || !gd__given("cat", pieces, count)) return NULL;
    int named = 0; /* the first piece that has an axis of that name; a number is one of any piece */
    while (named < count && gd_axis_find(pieces[named], axis) < 0) named++;
    int at = gd__parse_axis("cat", pieces[named < count ? named : 0], axis);
    return at < 0 ? NULL : cat_widened(pieces, count, at);
}

gd_tensor *gd_stack(gd_tensor *const *pieces, int count, int position, const char *name)
{
    if (count <= 0 || !gd__given("stack", pieces, count)) return NULL;
    gd_ctx *ctx = pieces[0]->head.ctx;
    gd_status before = gd_error(ctx);
    int at = position < 0 ? position + pieces[0]->ndim + 1 : position;
    size_t bytes = (size_t)count * sizeof(gd_tensor *);
    gd_tensor **wide = gd__alloc(ctx, bytes), *out = NULL;
    if (!wide) return NULL;
    gd_scope_begin(ctx);
    int made = 0;
    while (made < count && (wide[made] = gd_unsqueeze(pieces[made], at, name))) made++;
    if (made == count) out = cat_widened(wide, count, at);
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "stack");
    gd__free(ctx, wide, bytes);
    return out;
}

/* ---- embedding in a larger tensor ---- */

gd_tensor *gd__embed(gd_tensor *x, const int64_t *size, const int64_t *start, const int64_t *step,
                     double fill)
{
    if (!x) return NULL;
    gd_attrs attrs = {.ni = 2 * x->ndim, .nf = 1, .f = {fill}};
    memcpy(attrs.i, start, (size_t)x->ndim * sizeof *start);
    memcpy(attrs.i + x->ndim, step, (size_t)x->ndim * sizeof *step);
    gd_tensor *out = gd__new_checked(x->storage->device, "pad", x->dtype, x->ndim, size);
    return gd__run1(GD_OP_embed, &x, 1, &attrs, gd__mapped(out, x, NULL));
}

gd_tensor *gd_pad(gd_tensor *x, const int64_t *before, const int64_t *after, double value)
{
    if (!x || !before || !after) return gd__none(gd__null(gd_tensor_ctx(x), "pad: the widths are NULL"));
    if (!gd__holds(x->head.ctx, "pad", x->dtype, value)) return NULL;
    int64_t size[GD_MAX_DIMS], step[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        char name[64];
        step[i] = 1;
        bool bad = before[i] < 0 || after[i] < 0 || __builtin_add_overflow(x->size[i], before[i], &size[i]) ||
                   __builtin_add_overflow(size[i], after[i], &size[i]);
        if (!bad) continue;
        return gd__refuse(x->head.ctx, GD_VALUE, "pad: %lld before and %lld after axis %s",
                          (long long)before[i], (long long)after[i], gd__axis_text(x, i, name));
    }
    return gd__embed(x, size, before, step, value);
}

/* ---- triangles and diagonals of the last two axes ---- */

gd_tensor *gd__tri(gd_tensor *x, int64_t diagonal, bool lower)
{
    if (!x) return NULL;
    if (x->ndim < 2)
        return gd__refuse(x->head.ctx, GD_SHAPE, "%s: needs a matrix, got %d axes", lower ? "tril" : "triu",
                          (int)x->ndim);
    int64_t rows = x->size[x->ndim - 2], columns = x->size[x->ndim - 1];
    if (diagonal < -rows) diagonal = -rows; /* beyond the corners nothing changes */
    if (diagonal > columns) diagonal = columns;
    gd_tensor *out = gd__new_like(x, x->dtype);
    return gd__run1(GD_OP_tri, &x, 1, &(gd_attrs){.ni = 2, .i = {diagonal, lower}}, out);
}

gd_tensor *gd_tril(gd_tensor *a, int64_t diagonal) { return gd__tri(a, diagonal, true); }

gd_tensor *gd_triu(gd_tensor *a, int64_t diagonal) { return gd__tri(a, diagonal, false); }

/* The diagonal as a gather: rows become one flat axis, every (columns + 1)-th element is on it. */
gd_tensor *gd_diagonal(gd_tensor *a)
{
    if (!a) return NULL;
    gd_ctx *ctx = a->head.ctx;
    if (a->ndim < 2) return gd__refuse(ctx, GD_SHAPE, "diagonal: needs a matrix, got %d axes", (int)a->ndim);
    int n = a->ndim;
    int64_t rows = a->size[n - 2], columns = a->size[n - 1], k = rows < columns ? rows : columns;
    int64_t size[GD_MAX_DIMS];
    memcpy(size, a->size, sizeof size);
    size[n - 2] = rows * columns;
    gd_scope_begin(ctx);
    gd_tensor *flat = gd__reshape(a, n - 1, size);
    gd_tensor *out = flat ? gd__slice(flat, n - 2, 0, k, columns + 1) : NULL;
    int map[GD_MAX_DIMS];
    for (int i = 0; i < n - 1; i++) map[i] = i < n - 2 ? i : -1;
    return gd__scope_leave(ctx, gd__relabel(out, a, map));
}

gd_status gd__split(gd_tensor *x, int count, gd_tensor **piece)
{
    if (!gd__given1("split", x)) return GD_ARGUMENT;
    if (x->ndim == 0 || x->size[0] != count || count > GD_MAX_SPLIT)
        return gd_fail(x->head.ctx, GD_SHAPE, "split: %d pieces (at most %d) of an axis of %lld", count,
                       GD_MAX_SPLIT, x->ndim ? (long long)x->size[0] : 0);
    for (int k = 0; k < count; k++)
        if (!(piece[k] = gd__piece_view(x, k))) return GD_NOMEM;
    return gd__record(GD_OP_split, &x, 1, &(gd_attrs){0}, piece, count);
}
