/* Shape operators that are views: reshape, permute, squeeze, expand, slice and compositions of them. */
#include "tensor/shape.h"
#include "tensor/device.h"

#include <string.h>

gd_tensor *gd__recorded(gd_op_id op, gd_tensor *x, const gd_attrs *attrs, gd_tensor *view)
{
    if (view && gd__record(op, &x, 1, attrs, &view, 1) == GD_OK) return view;
    gd_release(view);
    return NULL;
}

gd_tensor *gd__relabel(gd_tensor *x, gd_tensor *from, const int *map)
{
    if (!x || !from->axes) return x;
    return gd__recorded(GD_OP_relabel, x, &(gd_attrs){0}, gd__mapped(gd__bare(x), from, map));
}

gd_tensor *gd__same(gd_tensor *x)
{
    return x ? gd__recorded(GD_OP_relabel, x, &(gd_attrs){0}, gd__alias(x)) : NULL;
}

gd_tensor *gd__relabel_like(gd_tensor *x, gd_tensor *like)
{
    if (!x || x->axes == like->axes) return x;
    gd_tensor *view = gd__bare(x);
    if (view) gd__axes_retain(view->axes = like->axes);
    return gd__recorded(GD_OP_relabel, x, &(gd_attrs){0}, view);
}

/* ---- reshape ---- */

gd_tensor *gd__nameless(gd_tensor *x) { return x && x->axes ? gd_drop_names(x) : x; }

bool gd__view_strides(const gd_tensor *t, int ndim, const int64_t *size, int64_t *stride)
{
    int old = 0;
    int64_t axis_size[GD_MAX_DIMS], axis_stride[GD_MAX_DIMS];
    for (int i = 0; i < t->ndim; i++) { /* axes of size 1 are ignored */
        if (t->size[i] == 1) continue;
        axis_size[old] = t->size[i];
        axis_stride[old++] = t->stride[i];
    }
    int i = old - 1, j = ndim - 1;
    while (j >= 0) {
        if (size[j] == 1) {
            stride[j--] = 1;
            continue;
        }
        if (i < 0) return false;
        /* a run of old axes that is one block in memory against a run of new axes with the same product */
        int64_t have = axis_size[i], step = axis_stride[i], want = size[j];
        int64_t next = step;
        stride[j--] = next;
        next *= want;
        while (have != want) {
            if (have < want) {
                i--;
                if (i < 0 || axis_stride[i] != axis_stride[i + 1] * axis_size[i + 1]) return false;
                have *= axis_size[i];
            } else {
                while (j >= 0 && size[j] == 1) stride[j--] = next;
                if (j < 0) return false;
                stride[j] = next;
                next *= size[j];
                want *= size[j--];
            }
        }
        i--;
    }
    return i < 0;
}

gd_tensor *gd__reshape(gd_tensor *x, int ndim, const int64_t *size)
{
    if (!x) return NULL;
    int64_t stride[GD_MAX_DIMS];
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    if (x->numel == 0)
        gd__row_major(ndim, size, stride);
    else if (!gd__view_strides(x, ndim, size, stride)) {
        x = gd_copy(x);
        gd__row_major(ndim, size, stride);
    }
    gd_tensor *view = x ? gd__bare(x) : NULL;
    if (view) {
        view->ndim = (uint8_t)ndim;
        if (ndim)
            memcpy(view->size, size,
                   (size_t)ndim * sizeof *size); /* an axis number may be given without sizes */
        memcpy(view->stride, stride, (size_t)ndim * sizeof *stride);
        view = gd__recorded(GD_OP_reshape, x, &(gd_attrs){0}, view);
    }
    return gd__scope_leave(ctx, view);
}

gd_tensor *gd_reshape(gd_tensor *x, int ndim, const int64_t *shape)
{
    if (!x) return NULL;
    gd_ctx *ctx = x->head.ctx;
    char text[256];
    if (ndim < 0 || ndim > GD_MAX_DIMS || (ndim && !shape)) {
        (void)gd_fail(ctx, GD_SHAPE, "reshape: %d dimensions; a tensor has 0 to %d", ndim, GD_MAX_DIMS);
        return NULL;
    }
    int64_t size[GD_MAX_DIMS], product = 1;
    int guess = -1;
    bool bad = false;
    for (int i = 0; i < ndim; i++) {
        size[i] = shape[i];
        if (shape[i] == -1 && guess < 0)
            guess = i;
        else if (shape[i] < 0 || __builtin_mul_overflow(product, shape[i], &product))
            bad = true;
    }
    if (!bad && guess >= 0) {
        bad = product == 0 || x->numel % product != 0;
        size[guess] = bad ? 0 : x->numel / product;
        product *= size[guess];
    }
    if (bad || product != x->numel)
        return gd__refuse(
            ctx, GD_SHAPE, "reshape: %lld elements of %s do not fill the new shape of %d axes (product %lld)",
            (long long)x->numel, gd__shape_text(x, text, sizeof text), ndim, (long long)product);
    return gd__reshape(x, ndim, size);
}

/* ---- permute ---- */

gd_tensor *gd_permute(gd_tensor *x, const int *order)
{
    if (!x || !order) return gd__none(gd__null(gd_tensor_ctx(x), "permute: the order is NULL"));
    bool seen[GD_MAX_DIMS] = {false};
    gd_attrs attrs = {.ni = x->ndim};
    for (int i = 0; i < x->ndim; i++) {
        int axis = order[i] < 0 ? order[i] + x->ndim : order[i];
        if (axis < 0 || axis >= x->ndim || seen[axis])
            return gd__refuse(x->head.ctx, GD_AXIS,
                              "permute: axis %d at place %d is no permutation of %d axes", order[i], i,
                              (int)x->ndim);
        seen[axis] = true;
        attrs.i[i] = axis;
    }
    gd_tensor *view = gd__bare(x);
    if (!view) return NULL;
    int map[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim; i++) {
        map[i] = (int)attrs.i[i];
        view->size[i] = x->size[map[i]];
        view->stride[i] = x->stride[map[i]];
    }
    return gd__recorded(GD_OP_permute, x, &attrs, gd__mapped(view, x, map));
}

gd_tensor *gd_transpose(gd_tensor *x, int a, int b)
{
    if (!x) return NULL;
    int order[GD_MAX_DIMS], p = a < 0 ? a + x->ndim : a, q = b < 0 ? b + x->ndim : b;
    if (p < 0 || q < 0 || p >= x->ndim || q >= x->ndim)
        return gd__refuse(x->head.ctx, GD_AXIS, "transpose: axes %d and %d of %d", a, b, (int)x->ndim);
    for (int i = 0; i < x->ndim; i++) order[i] = i == p ? q : i == q ? p : i;
    return gd_permute(x, order);
}

gd_tensor *gd__axes_last(gd_tensor *x, const int *axes, int count)
{
    if (!x) return NULL;
    int order[GD_MAX_DIMS], n = 0, next = 0;
    bool moved = false;
    for (int i = 0; i < x->ndim; i++) {
        if (next < count && axes[next] == i)
            next++;
        else {
            if (next && n != i) moved = true;
            order[n++] = i;
        }
    }
    for (int i = 0; i < count; i++) order[n++] = axes[i];
    return moved ? gd_permute(x, order) : x;
}

/* ---- axes of size 1 ---- */

/* Reshape that keeps axes: new axis i is old axis map[i] or a new one of size 1. */
static gd_tensor *with_map(gd_tensor *x, int ndim, const int *map)
{
    gd_tensor *view = gd__bare(x);
    if (!view) return NULL;
    view->ndim = (uint8_t)ndim;
    for (int i = 0; i < ndim; i++) {
        view->size[i] = map[i] < 0 ? 1 : x->size[map[i]];
        view->stride[i] = map[i] < 0 ? 1 : x->stride[map[i]];
    }
    return gd__recorded(GD_OP_reshape, x, &(gd_attrs){0}, gd__mapped(view, x, map));
}

gd_tensor *gd__squeeze(gd_tensor *x, int axis)
{
    if (!x) return NULL;
    int map[GD_MAX_DIMS];
    for (int i = 0; i < x->ndim - 1; i++) map[i] = i < axis ? i : i + 1;
    return with_map(x, x->ndim - 1, map);
}

gd_tensor *gd_squeeze(gd_tensor *x, const char *axes)
{
    if (!x) return NULL;
    int list[GD_MAX_DIMS], map[GD_MAX_DIMS], n = 0, next = 0;
    int count = gd__parse_axes("squeeze", x, axes, list);
    if (count < 0) return NULL;
    bool every = !axes || !*axes;
    for (int i = 0; i < x->ndim; i++) {
        bool chosen = next < count && list[next] == i;
        next += chosen;
        if (chosen && !every && x->size[i] != 1) {
            char name[64];
            return gd__refuse(x->head.ctx, GD_SHAPE, "squeeze: axis %s has size %lld",
                              gd__axis_text(x, i, name), (long long)x->size[i]);
        }
        if (!chosen || x->size[i] != 1) map[n++] = i;
    }
    return with_map(x, n, map);
}

gd_tensor *gd_unsqueeze(gd_tensor *x, int position, const char *name)
{
    if (!x) return NULL;
    int at = position < 0 ? position + x->ndim + 1 : position, map[GD_MAX_DIMS];
    if (at < 0 || at > x->ndim || x->ndim == GD_MAX_DIMS)
        return gd__refuse(x->head.ctx, GD_AXIS, "unsqueeze: position %d in %d axes", position, (int)x->ndim);
    for (int i = 0; i <= x->ndim; i++) map[i] = i < at ? i : i == at ? -1 : i - 1;
    gd_tensor *view = with_map(x, x->ndim + 1, map);
    if (!view || !name) return view;
    gd_tensor *named = gd__rename_axis(view, "unsqueeze", at, name);
    gd_release(view);
    return named;
}

/* ---- expand ---- */

gd_tensor *gd_expand(gd_tensor *x, int ndim, const int64_t *shape)
{
    if (!x || !shape) return gd__none(gd__null(gd_tensor_ctx(x), "expand: the shape is NULL"));
    int shift = ndim - x->ndim, map[GD_MAX_DIMS];
    if (shift < 0 || ndim > GD_MAX_DIMS)
        return gd__refuse(x->head.ctx, GD_SHAPE, "expand: from %d axes to %d", (int)x->ndim, ndim);
    gd_tensor *view = gd__bare(x);
    if (!view) return NULL;
    view->ndim = (uint8_t)ndim;
    gd_status status = GD_OK;
    int64_t numel = 1;
    for (int i = 0; i < ndim && !status; i++) {
        int64_t old = i < shift ? 1 : x->size[i - shift], new = shape[i] == -1 ? old : shape[i];
        map[i] = i - shift;
        if (new < 0 || (new != old &&old != 1))
            status = gd_fail(x->head.ctx, GD_SHAPE, "expand: axis %d has size %lld, cannot become %lld", i,
                             (long long)old, (long long)new);
        else if (__builtin_mul_overflow(numel, new, &numel))
            status = gd_fail(x->head.ctx, GD_OVERFLOW, "expand: the sizes multiply to more than 2^63");
        view->size[i] = new;
        view->stride[i] = new != old || i < shift ? 0 : x->stride[i - shift];
    }
    view->numel = numel;
    if (!status) return gd__recorded(GD_OP_expand, x, &(gd_attrs){0}, gd__mapped(view, x, map));
    gd_release(view);
    return NULL;
}

/* ---- slices ---- */

gd_tensor *gd__slice(gd_tensor *x, int axis, int64_t start, int64_t count, int64_t step)
{
    gd_tensor *view = x ? gd__bare(x) : NULL;
    if (!view) return NULL;
    view->size[axis] = count;
    view->stride[axis] = x->stride[axis] * step;
    if (count > 0) view->data += start * x->stride[axis] * (int64_t)gd__item_size(x);
    view->numel = 1;
    for (int i = 0; i < view->ndim; i++) view->numel *= view->size[i];
    view = gd__mapped(view, x, NULL);
    /* a cut axis keeps the labels of its elements */
    gd_labels *labels = view ? gd__labels(x, axis) : NULL, *cut = NULL;
    if (labels && !(cut = gd__labels_new(x->head.ctx, count))) {
        gd_release(view);
        return NULL;
    }
    for (int64_t k = 0; k < count && cut; k++) cut->text[k] = labels->text[start + k * step];
    if (cut) gd__labels_put(view, axis, cut);
    return gd__recorded(GD_OP_slice, x, &(gd_attrs){.ni = 3, .i = {axis, start, step}}, view);
}

/* Python's rules: negative ends count from the back, ends beyond the axis are cut to it. */
static int64_t python_end(int64_t end, int64_t size, int64_t step)
{
    if (end < 0 && end > INT64_MIN) end += size;
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? size : size - 1;
    return end < low ? low : end > high ? high : end;
}

int64_t gd__slice_count(int64_t size, int64_t *start, int64_t stop, int64_t step)
{
    if (step == 0 || step == INT64_MIN) return -1;
    int64_t first = *start = python_end(*start, size, step), end = python_end(stop, size, step);
    if (step > 0) return end > first ? (end - first - 1) / step + 1 : 0;
    return end < first ? (first - end - 1) / -step + 1 : 0;
}

gd_tensor *gd_slice(gd_tensor *x, const char *axis, int64_t start, int64_t stop, int64_t step)
{
    if (!x) return NULL;
    int at = gd__parse_axis("slice", x, axis);
    if (at < 0) return NULL;
    int64_t count = gd__slice_count(x->size[at], &start, stop, step);
    if (count < 0) return gd__refuse(x->head.ctx, GD_VALUE, "slice: the step is %lld", (long long)step);
    return gd__slice(x, at, start, count, count > 1 ? step : 1);
}

/* A slice with a fourth attribute. */
gd_tensor *gd__at_place(gd_tensor *x, int axis, int64_t place)
{
    gd_tensor *view = gd__bare(x);
    if (!view) return NULL;
    int map[GD_MAX_DIMS];
    view->ndim--;
    view->numel = 1;
    view->data += place * x->stride[axis] * (int64_t)gd__item_size(x);
    for (int i = 0; i < view->ndim; i++) {
        map[i] = i < axis ? i : i + 1;
        view->size[i] = x->size[map[i]];
        view->stride[i] = x->stride[map[i]];
        view->numel *= view->size[i];
    }
    gd_attrs attrs = {.ni = 4, .i = {axis, place, 1, 1}};
    return gd__recorded(GD_OP_slice, x, &attrs, gd__mapped(view, x, map));
}

gd_tensor *gd_index(gd_tensor *x, const char *axis, int64_t index)
{
    if (!x) return NULL;
    int at = gd__parse_axis("index", x, axis);
    if (at < 0) return NULL;
    int64_t place = index < 0 ? index + x->size[at] : index;
    if (place < 0 || place >= x->size[at]) {
        char name[64];
        return gd__refuse(x->head.ctx, GD_INDEX, "index: %lld on axis %s of size %lld", (long long)index,
                          gd__axis_text(x, at, name), (long long)x->size[at]);
    }
    return gd__at_place(x, at, place);
}

gd_tensor *gd_index_label(gd_tensor *x, const char *axis, const char *label)
{
    if (!x) return NULL;
    int at = gd__parse_axis("index_label", x, axis);
    if (at < 0) return NULL;
    int64_t place = gd_axis_index(x, at, label);
    if (place >= 0) return gd_index(x, axis, place);
    char name[64];
    return gd__refuse(x->head.ctx, GD_LABEL, "index_label: axis %s has no label '%.80s'",
                      gd__axis_text(x, at, name), label ? label : "");
}

gd_tensor *gd_flip(gd_tensor *x, const char *axes)
{
    if (!x) return NULL;
    int list[GD_MAX_DIMS], count = gd__parse_axes("flip", x, axes, list);
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *out = count < 0 ? NULL : gd__same(x);
    for (int i = 0; i < count && out; i++)
        out = gd__slice(out, list[i], out->size[list[i]] - 1, out->size[list[i]], -1);
    return gd__scope_leave(ctx, out);
}

gd_status gd_split(gd_tensor *x, const char *axis, int64_t size, gd_tensor **out, int capacity)
{
    if (!x || !out) return gd__null(gd_tensor_ctx(x), "split: the place for the pieces is NULL");
    gd_ctx *ctx = x->head.ctx;
    int at = gd__parse_axis("split", x, axis);
    if (at < 0) return gd_error(ctx);
    if (size <= 0) return gd_fail(ctx, GD_VALUE, "split: pieces of size %lld", (long long)size);
    int64_t pieces = x->size[at] / size + (x->size[at] % size != 0);
    if (pieces > capacity)
        return gd_fail(ctx, GD_SHAPE, "split: %lld pieces, room for %d", (long long)pieces, capacity);
    for (int64_t k = 0; k < pieces; k++) {
        int64_t start = k * size, left = x->size[at] - start;
        out[k] = gd__slice(x, at, start, left < size ? left : size, 1);
        if (out[k]) continue;
        while (k-- > 0) gd_release(out[k]);
        return gd_error(ctx);
    }
    return GD_OK;
}

/* ---- align ---- */

gd_tensor *gd_align(gd_tensor *x, gd_tensor *like)
{
    if (!gd__given2("align", x, like)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    int order[GD_MAX_DIMS], n = 0, map[GD_MAX_DIMS];
    gd_tensor *out = x;
    for (int i = 0; i < like->ndim; i++) {
        int axis = gd__name(like, i) ? gd_axis_find(x, gd__name(like, i)) : -1;
        map[i] = axis < 0 ? -1 : n;
        if (axis >= 0) order[n++] = axis;
    }
    if (n != x->ndim) {
        char a[256], b[256];
        (void)gd_fail(ctx, GD_AXIS, "align: not every axis of %s is named in %s",
                      gd__shape_text(x, a, sizeof a), gd__shape_text(like, b, sizeof b));
        out = NULL;
    }
    if (out) out = gd_permute(out, order);
    for (int i = 0; i < like->ndim && out; i++) {
        gd_labels *want = gd__labels(like, i), *have = map[i] < 0 ? NULL : gd__labels(out, map[i]);
        if (!want || !have || want == have) continue;
        int64_t count = want->count;
        gd_tensor *index = gd__new(gd__cpu(ctx), GD_I64, 1, &count);
        for (int64_t k = 0; k < count && index; k++) {
            int64_t at = gd_axis_index(out, map[i], want->text[k]);
            ((int64_t *)index->data)[k] = at;
            if (at >= 0 && have->count == count) continue;
            (void)gd_fail(ctx, GD_LABEL, "align: axis '%s' has other labels ('%.80s')", gd__name(like, i),
                          want->text[k]);
            index = NULL;
        }
        out = index ? gd__index_select(out, map[i], index, want) : NULL;
    }
    if (out) out = with_map(out, like->ndim, map);
    for (int i = 0; i < like->ndim && out; i++)
        if (map[i] < 0 && gd__name(like, i)) out = gd__rename_axis(out, "align", i, gd__name(like, i));
    return gd__scope_leave(ctx, out);
}
