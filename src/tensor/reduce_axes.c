/* Reductions.  A kernel gets its operand as [outer, reduced, inner]; axes that are not adjacent are reduced group by
 * group from the right. */
#include "tensor/shape.h"

#include <math.h>

/* Reduces the neighbouring axes first..last of x. */
static gd_tensor *reduce_group(gd_op_id op, gd_tensor *x, int first, int last, bool keep, gd_dtype dtype)
{
    gd_attrs attrs = {.ni = 5, .i = {1, 1, 1, first, last}};
    int64_t size[GD_MAX_DIMS];
    int map[GD_MAX_DIMS], n = 0;
    for (int i = 0; i < x->ndim; i++) {
        bool inside = i >= first && i <= last;
        attrs.i[i < first ? 0 : inside ? 1 : 2] *= x->size[i];
        if (inside && !keep) continue;
        size[n] = inside ? 1 : x->size[i];
        map[n++] = i;
    }
    gd_tensor *out = gd__new(x->storage->device, dtype, n, size);
    return gd__run1(op, &x, 1, &attrs, gd__mapped(out, x, map));
}

/* One group, or a 0-dimensional operand, which is a group without axes. */
static bool neighbours(const int *list, int count)
{
    return count == 0 || list[count - 1] - list[0] == count - 1;
}

static gd_tensor *reduce_neighbours(gd_op_id op, gd_tensor *x, const int *list, int count, bool keep,
                                    gd_dtype dtype)
{
    return reduce_group(op, x, count ? list[0] : 0, count ? list[count - 1] : -1, keep, dtype);
}

/* Without a copy: a tensor whose memory has no gaps, with its axes in the order of the memory; any other tensor itself.
 * order[i] is the axis of x at position i. */
static gd_tensor *in_memory_order(gd_tensor *x, int *order)
{
    int n = x->ndim;
    for (int i = 0; i < n; i++) order[i] = i;
    if (gd__contiguous(x)) return x;
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && x->stride[order[k - 1]] < x->stride[order[k]]; k--) {
            int axis = order[k];
            order[k] = order[k - 1];
            order[k - 1] = axis;
        }
    int64_t dense = 1;
    bool gaps = false;
    for (int i = n; i-- > 0;) {
        gaps = gaps || (x->size[order[i]] != 1 && x->stride[order[i]] != dense);
        dense *= x->size[order[i]];
    }
    for (int i = 0; i < n && gaps; i++) order[i] = i;
    return gaps ? x : gd_permute(x, order);
}

/* Brings the axes of a result back to the order of x; the reduced ones are gone unless they are kept. */
static gd_tensor *in_old_order(gd_tensor *out, const int *order, int ndim, unsigned gone)
{
    int back[GD_MAX_DIMS], n = 0;
    bool moved = false;
    for (int axis = 0; axis < ndim; axis++) {
        if (gone >> axis & 1) continue;
        int place = 0;
        for (int i = 0; order[i] != axis; i++) place += !(gone >> order[i] & 1);
        moved = moved || place != n;
        back[n++] = place;
    }
    return out && moved ? gd_permute(out, back) : out;
}

/* Reduces the axes listed in increasing order, group by group. */
static gd_tensor *reduce_groups(gd_op_id op, gd_tensor *x, const int *list, int count, bool keep,
                                gd_dtype dtype)
{
    if (neighbours(list, count)) return reduce_neighbours(op, x, list, count, keep, dtype);
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *out = x;
    for (int end = count; end > 0 && out;) {
        int begin = end - 1;
        while (begin > 0 && list[begin - 1] == list[begin] - 1) begin--;
        out = reduce_group(op, out, list[begin], list[end - 1], keep, dtype);
        end = begin;
    }
    return gd__scope_leave(ctx, out);
}

/* The same for a tensor with any strides. */
static gd_tensor *reduce_list(gd_op_id op, gd_tensor *x, const int *list, int count, bool keep,
                              gd_dtype dtype)
{
    if (gd__contiguous(x)) return reduce_groups(op, x, list, count, keep, dtype);
    gd_ctx *ctx = x->head.ctx;
    int order[GD_MAX_DIMS], moved[GD_MAX_DIMS], n = 0;
    unsigned gone = 0;
    gd_scope_begin(ctx);
    gd_tensor *out = NULL, *dense = in_memory_order(x, order);
    for (int i = 0; i < count; i++) gone |= 1u << list[i];
    for (int i = 0; i < x->ndim; i++)
        if (gone >> order[i] & 1) moved[n++] = i;
    if (dense) out = reduce_groups(op, dense, moved, n, keep, dtype);
    out = in_old_order(out, order, x->ndim, keep ? 0 : gone);
    return gd__scope_leave(ctx, out);
}

static gd_tensor *reduce(gd_op_id op, gd_tensor *x, const char *axes, bool keep, gd_dtype dtype)
{
    if (!x) return NULL;
    int list[GD_MAX_DIMS], count = gd__parse_axes(gd__ops[op].name, x, axes, list);
    return count < 0 ? NULL : reduce_list(op, x, list, count, keep, dtype);
}

/* Sums of small integers are i64. */
static gd_dtype sum_dtype(const gd_tensor *x)
{
    return !x || gd_dtype_is_float(x->dtype) ? gd_tensor_dtype(x) : GD_I64;
}

gd_tensor *gd_sum(gd_tensor *x, const char *axes, bool keep_dims)
{
    return reduce(GD_OP_sum, x, axes, keep_dims, sum_dtype(x));
}

gd_tensor *gd_prod(gd_tensor *x, const char *axes, bool keep_dims)
{
    return reduce(GD_OP_prod, x, axes, keep_dims, sum_dtype(x));
}

static gd_tensor *reduce_truth(gd_op_id op, gd_tensor *x, const char *axes, bool keep)
{
    if (!x) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *truth = x->dtype == GD_BOOL ? x : gd_logical_not(gd_logical_not(x));
    return gd__scope_leave(ctx, reduce(op, truth, axes, keep, GD_BOOL));
}

gd_tensor *gd_any(gd_tensor *x, const char *axes, bool keep_dims)
{
    return reduce_truth(GD_OP_any, x, axes, keep_dims);
}

gd_tensor *gd_all(gd_tensor *x, const char *axes, bool keep_dims)
{
    return reduce_truth(GD_OP_all, x, axes, keep_dims);
}

static gd_tensor *mean_list(gd_tensor *x, const int *list, int count, bool keep_dims)
{
    gd_ctx *ctx = x->head.ctx;
    int64_t n = 1;
    for (int i = 0; i < count; i++) n *= x->size[list[i]];
    gd_scope_begin(ctx);
    gd_tensor *sum = reduce_list(GD_OP_sum, x, list, count, keep_dims, x->dtype);
    return gd__scope_leave(ctx, gd_mul_scalar(sum, 1.0 / (double)n));
}

gd_tensor *gd_mean(gd_tensor *x, const char *axes, bool keep_dims)
{
    int list[GD_MAX_DIMS], count = x ? gd__parse_axes("mean", x, axes, list) : -1;
    if (count < 0) return NULL;
    if (gd_dtype_is_float(x->dtype)) return mean_list(x, list, count, keep_dims);
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    x = gd_cast(x, GD_F64);
    return gd__scope_leave(ctx, x ? mean_list(x, list, count, keep_dims) : NULL);
}

/* ---- several axes seen as one, at the end ---- */

typedef struct folded {
    gd_tensor *x;         /* [kept..., reduced], no names */
    int map[GD_MAX_DIMS]; /* sources of the kept axes */
    int kept;
    int list[GD_MAX_DIMS]; /* the reduced axes */
    int count;
} folded;

static bool fold(const char *what, gd_tensor *x, const char *axes, folded *f)
{
    f->count = gd__parse_axes(what, x, axes, f->list);
    if (f->count < 0) return false;
    int64_t size[GD_MAX_DIMS + 1], n = 1;
    int next = 0;
    f->kept = 0;
    for (int i = 0; i < x->ndim; i++) {
        if (next < f->count && f->list[next] == i) {
            n *= x->size[i];
            next++;
        } else {
            size[f->kept] = x->size[i];
            f->map[f->kept++] = i;
        }
    }
    size[f->kept] = n;
    gd_tensor *last = gd__axes_last(x, f->list, f->count);
    f->x = last ? gd__reshape(last, f->kept + 1, size) : NULL;
    return f->x != NULL;
}

/* A result on the kept axes: restores names, and reduced axes as size 1 if requested. */
static gd_tensor *unfold(const folded *f, gd_tensor *x, gd_tensor *out, bool keep)
{
    out = gd__relabel(out, x, f->map);
    for (int i = 0; i < f->count && keep && out; i++)
        out = gd_unsqueeze(out, f->list[i], gd__name(x, f->list[i]));
    return out;
}

static bool not_empty(const char *what, const gd_tensor *x, const int *list, int count)
{
    for (int i = 0; i < count; i++)
        if (x->size[list[i]] == 0) {
            (void)gd_fail(x->head.ctx, GD_SHAPE, "%s: nothing to choose from: the axes have no elements",
                          what);
            return false;
        }
    return true;
}

static bool has_order(const char *what, const gd_tensor *x)
{
    if (x->dtype != GD_BOOL) return true;
    (void)gd_fail(x->head.ctx, GD_DTYPE, "%s: bool has no order; use any, all or cast", what);
    return false;
}

/* The index of the extreme along the last axis, kept as size 1. */
static gd_tensor *extreme_place(gd_op_id op, gd_tensor *x)
{
    return reduce_group(op, x, x->ndim - 1, x->ndim - 1, true, GD_I64);
}

/* Through the index of the extreme: over several axes, for integers, and on devices without a kernel for the value. */
static gd_tensor *extreme_folded(const char *what, gd_op_id op, gd_tensor *x, const char *axes, bool keep,
                                 bool place)
{
    folded f;
    if (!fold(what, x, axes, &f)) return NULL;
    gd_tensor *out = extreme_place(op, f.x);
    if (!place) out = gd__gather(f.x, f.kept, out);
    return unfold(&f, x, gd__squeeze(out, f.kept), keep);
}

static gd_tensor *extreme(const char *what, gd_op_id op, gd_tensor *x, const char *axes, bool keep,
                          bool place)
{
    if (!x || !has_order(what, x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    int list[GD_MAX_DIMS], count = gd__parse_axes(what, x, axes, list);
    if (count < 0 || !not_empty(what, x, list, count)) return NULL;
    bool value = !place && gd_dtype_is_float(x->dtype) && x->storage->device == ctx->cpu;
    gd_scope_begin(ctx);
    gd_tensor *out;
    if (value)
        out = reduce_list(op == GD_OP_argmax ? GD_OP_highest : GD_OP_lowest, x, list, count, keep, x->dtype);
    else if (place && (count == 1 || (gd__contiguous(x) && neighbours(list, count))))
        out = reduce_list(op, x, list, count, keep, GD_I64);
    else
        out = extreme_folded(what, op, x, axes, keep, place);
    return gd__scope_leave(ctx, out);
}

gd_tensor *gd_max(gd_tensor *x, const char *axes, bool keep_dims)
{
    return extreme("max", GD_OP_argmax, x, axes, keep_dims, false);
}

gd_tensor *gd_min(gd_tensor *x, const char *axes, bool keep_dims)
{
    return extreme("min", GD_OP_argmin, x, axes, keep_dims, false);
}

gd_tensor *gd_argmax(gd_tensor *x, const char *axis, bool keep_dims)
{
    return extreme("argmax", GD_OP_argmax, x, axis, keep_dims, true);
}

gd_tensor *gd_argmin(gd_tensor *x, const char *axis, bool keep_dims)
{
    return extreme("argmin", GD_OP_argmin, x, axis, keep_dims, true);
}

gd_tensor *gd_logsumexp(gd_tensor *x, const char *axes, bool keep_dims)
{
    if (!x || !gd__need_float("logsumexp", x)) return NULL;
    return reduce(GD_OP_logsumexp, x, axes, keep_dims, x->dtype);
}

/* ---- order ---- */

/* x for the kernel: f32, f64 or i64, contiguous. */
static gd_tensor *comparable(gd_tensor *x)
{
    bool half = x && (x->dtype == GD_F16 || x->dtype == GD_BF16);
    if (x && x->dtype != GD_F32 && x->dtype != GD_F64) x = gd_cast(x, half ? GD_F32 : GD_I64);
    return gd_contiguous(x);
}

/* The sorted indices of x, along `at`; the result has no names. */
static gd_tensor *order_along(gd_tensor *x, int at, bool descending)
{
    int n = x->ndim, order[GD_MAX_DIMS];
    gd_tensor *rows = gd__axes_last(gd_detach(gd_drop_names(x)), &at, 1);
    if (!(rows = comparable(rows))) return NULL;
    int64_t count = rows->size[n - 1];
    gd_attrs attrs = {.ni = 3, .i = {count ? rows->numel / count : 0, count, descending}};
    gd_tensor *out = gd__new(x->storage->device, GD_I64, n, rows->size);
    out = gd__run1(GD_OP_argsort, &rows, 1, &attrs, out);
    for (int i = 0; i < n; i++) order[i] = i < at ? i : i == at ? n - 1 : i - 1;
    return at == n - 1 ? out : gd_permute(out, order);
}

static gd_tensor *ordered(const char *what, gd_tensor *x, const char *axis, bool descending, bool places)
{
    int at = x ? gd__parse_axis(what, x, axis) : -1;
    if (at < 0) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *order = order_along(x, at, descending), *out = NULL;
    if (order && !places) out = gd__gather(x, at, gd_contiguous(order));
    if (order && places) {
        gd_tensor *named = gd__mapped(gd_contiguous(gd_copy(order)), x, NULL);
        out = named ? (gd__labels_put(named, at, NULL), named) : NULL;
    }
    return gd__scope_leave(ctx, out);
}

gd_tensor *gd_argsort(gd_tensor *x, const char *axis, bool descending)
{
    return ordered("argsort", x, axis, descending, true);
}

gd_tensor *gd_sort(gd_tensor *x, const char *axis, bool descending)
{
    return ordered("sort", x, axis, descending, false);
}

/* ---- norms and variances ---- */

/* sqrt with gradient 0 at 0, so that the norm of a zero vector has one. */
static gd_tensor *safe_root(gd_tensor *s)
{
    if (!s) return NULL;
    gd_tensor *zero = gd_zeros_like(s), *at_zero = gd_eq(s, zero);
    return gd_where(at_zero, zero, gd_sqrt(gd_where(at_zero, gd_ones_like(s), s)));
}

/* The dtype for squares and sums of 16-bit floats: f16 ends at 65504, and bf16 cannot count beyond 256. */
static gd_tensor *widened(gd_tensor *x)
{
    return x->dtype == GD_F16 || x->dtype == GD_BF16 ? gd_cast(x, GD_F32) : x;
}

/* The sum of squares, with the same bits; without a gradient in one pass, without the squares in memory. */
static gd_tensor *sum_of_squares(gd_tensor *x, const int *list, int count, bool keep)
{
    gd_ctx *ctx = x->head.ctx;
    bool alone = (ctx->grad_off || !gd__wants_grad(x)) && !ctx->recorder && x->storage->device == ctx->cpu;
    if (alone && neighbours(list, count) && gd__contiguous(x))
        return reduce_neighbours(GD_OP_sum_squares, x, list, count, keep, x->dtype);
    gd_tensor *square = gd_square(x);
    return square ? reduce_list(GD_OP_sum, square, list, count, keep, x->dtype) : NULL;
}

gd_tensor *gd_norm(gd_tensor *x, double p, const char *axes, bool keep_dims)
{
    if (!x || !gd__need_float("norm", x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (!(p > 0)) return gd__refuse(ctx, GD_VALUE, "norm: p is %g, must be above 0", p);
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *out, *wide = widened(x);
    int list[GD_MAX_DIMS], count = p == 2 ? gd__parse_axes("norm", x, axes, list) : 0;
    if (p == 2)
        out = count < 0 || !wide ? NULL : safe_root(sum_of_squares(wide, list, count, keep_dims));
    else if (p == 1)
        out = gd_sum(gd_abs(wide), axes, keep_dims);
    else if (isinf(p))
        out = gd_max(gd_abs(wide), axes, keep_dims);
    else
        out = gd_pow_scalar(gd_sum(gd_pow_scalar(gd_abs(wide), p), axes, keep_dims), 1 / p);
    if (out && wide != x) out = gd_cast(out, x->dtype);
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "norm");
    return out;
}

gd_tensor *gd_variance(gd_tensor *x, const char *axes, int correction, bool keep_dims)
{
    if (!x || !gd__need_float("variance", x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    int list[GD_MAX_DIMS], count = gd__parse_axes("variance", x, axes, list);
    if (count < 0) return NULL;
    double n = 1;
    for (int i = 0; i < count; i++) n *= (double)x->size[list[i]];
    n -= correction;
    gd_scope_begin(ctx);
    gd_tensor *wide = widened(x), *mean = wide ? mean_list(wide, list, count, true) : NULL, *out = NULL;
    gd_tensor *apart = mean ? gd_sub(wide, mean) : NULL;
    if (apart) out = sum_of_squares(apart, list, count, keep_dims);
    out = gd_mul_scalar(out, 1 / (n > 0 ? n : 0));
    if (out && wide != x) out = gd_cast(out, x->dtype);
    return gd__scope_leave(ctx, out);
}

/* ---- along one axis ---- */

static gd_tensor *along_axis(gd_op_id op, gd_tensor *x, int at, bool reverse)
{
    gd_attrs attrs = {.ni = 6, .i = {1, 1, 1, at, at, reverse}, .nf = 1, .f = {1}};
    for (int i = 0; i < x->ndim; i++) attrs.i[i < at ? 0 : i == at ? 1 : 2] *= x->size[i];
    return gd__run1(op, &x, 1, &attrs, gd__new_like(x, op == GD_OP_cumsum ? sum_dtype(x) : x->dtype));
}

static gd_tensor *along(gd_op_id op, gd_tensor *x, const char *axis)
{
    if (!x) return NULL;
    const char *what = gd__ops[op].name;
    if (!(gd__ops[op].takes & GD_TAKES_INTS) && !gd__need_float(what, x)) return NULL;
    int at = gd__parse_axis(what, x, axis), order[GD_MAX_DIMS], moved = 0;
    if (at < 0) return NULL;
    if (gd__contiguous(x)) return along_axis(op, x, at, false);
    gd_ctx *ctx = x->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *dense = in_memory_order(x, order);
    while (order[moved] != at) moved++;
    gd_tensor *out = dense ? along_axis(op, dense, moved, false) : NULL;
    return gd__scope_leave(ctx, in_old_order(out, order, x->ndim, 0));
}

gd_tensor *gd_softmax(gd_tensor *x, const char *axis) { return along(GD_OP_softmax, x, axis); }

gd_tensor *gd__attention_softmax(gd_tensor *x, double scale, bool causal)
{
    if (!gd__given1("softmax", x) || !gd__need_float("softmax", x)) return NULL;
    int64_t rows = x->size[x->ndim - 2], columns = x->size[x->ndim - 1];
    gd_attrs attrs = {
        .ni = 6,
        .i = {columns ? x->numel / columns : 0, columns, 1, x->ndim - 1, x->ndim - 1, causal ? rows : 0},
        .nf = 1,
        .f = {scale}};
    return gd__run1(GD_OP_softmax, &x, 1, &attrs, gd__new_like(x, x->dtype));
}

gd_tensor *gd__softmax_grad(gd_tensor *g, gd_tensor *y, const int64_t *sizes, double scale, int64_t causal)
{
    if (!gd__given2("softmax_grad", g, y) || !gd__need_float("softmax_grad", y)) return NULL;
    gd_attrs attrs = {.ni = 6, .i = {sizes[0], sizes[1], sizes[2], 0, 0, causal}, .nf = 1, .f = {scale}};
    return gd__run1(GD_OP_softmax_grad, (gd_tensor *[]){g, y}, 2, &attrs, gd__new_like(y, y->dtype));
}

gd_tensor *gd__softmax_times(gd_tensor *x, gd_tensor *g, const int64_t *sizes)
{
    if (!gd__given2("softmax_times", x, g) || !gd__need_float("softmax_times", x)) return NULL;
    gd_attrs attrs = {.ni = 3, .i = {sizes[0], sizes[1], sizes[2]}};
    return gd__run1(GD_OP_softmax_times, (gd_tensor *[]){x, g}, 2, &attrs, gd__new_like(x, x->dtype));
}

gd_tensor *gd__log_softmax_grad(gd_tensor *g, gd_tensor *y, const int64_t *sizes)
{
    if (!gd__given2("log_softmax_grad", g, y) || !gd__need_float("log_softmax_grad", y)) return NULL;
    gd_attrs attrs = {.ni = 3, .i = {sizes[0], sizes[1], sizes[2]}};
    return gd__run1(GD_OP_log_softmax_grad, (gd_tensor *[]){g, y}, 2, &attrs, gd__new_like(y, y->dtype));
}

/* The last `count` axes of x as rows. */
static gd_attrs trailing(const gd_tensor *x, int count, double eps)
{
    gd_attrs attrs = {.ni = 4, .i = {1, 1, 1, count}, .nf = 1, .f = {eps}};
    for (int i = 0; i < x->ndim; i++) attrs.i[i >= x->ndim - count] *= x->size[i];
    return attrs;
}

gd_tensor *gd__standardize(gd_tensor *x, int count, double eps)
{
    if (!gd__given1("standardize", x) || !gd__need_float("standardize", x)) return NULL;
    gd_attrs attrs = trailing(x, count, eps);
    return gd__run1(GD_OP_standardize, &x, 1, &attrs, gd__new_like(x, x->dtype));
}

gd_tensor *gd__standardize_grad(gd_tensor *g, gd_tensor *x, int count, double eps)
{
    if (!gd__given2("standardize_grad", g, x) || !gd__need_float("standardize_grad", x)) return NULL;
    gd_attrs attrs = trailing(x, count, eps);
    return gd__run1(GD_OP_standardize_grad, (gd_tensor *[]){g, x}, 2, &attrs, gd__new_like(x, x->dtype));
}

gd_tensor *gd__layer_norm(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, int count, double eps)
{
    if (!gd__given("layer_norm", (gd_tensor *[]){x, weight, bias}, 3)) return NULL;
    gd_attrs attrs = trailing(x, count, eps);
    gd_dtype wide = x->dtype == GD_F64 ? GD_F64 : GD_F32;
    gd_tensor *in[3] = {x, weight, bias},
              *out[2] = {gd__new_like(x, x->dtype),
                         gd__new(x->storage->device, wide, 2, (int64_t[]){attrs.i[0], 2})};
    if (!out[0] || !out[1] || gd__run(GD_OP_layer_norm, in, 3, &attrs, out, 2)) return NULL;
    return out[0];
}

/* The rows of the stats. */
static gd_attrs rows_of(const gd_tensor *x, const gd_tensor *stats)
{
    int64_t rows = stats->size[0];
    return (gd_attrs){.ni = 3, .i = {rows, rows ? x->numel / rows : 0, 1}};
}

gd_tensor *gd__layer_norm_grad(gd_tensor *g, gd_tensor *x, gd_tensor *weight, gd_tensor *stats)
{
    if (!gd__given("layer_norm_grad", (gd_tensor *[]){g, x, weight, stats}, 4) ||
        !gd__need_float("layer_norm_grad", x))
        return NULL;
    gd_attrs attrs = rows_of(x, stats);
    gd_tensor *in[4] = {g, x, weight, stats};
    return gd__run1(GD_OP_layer_norm_grad, in, 4, &attrs, gd__new_like(x, x->dtype));
}

gd_status gd__layer_norm_sums(gd_tensor *g, gd_tensor *x, gd_tensor *stats, gd_tensor *sums[2])
{
    if (!gd__given("layer_norm_sums", (gd_tensor *[]){g, x, stats}, 3)) return GD_ARGUMENT;
    gd_attrs attrs = rows_of(x, stats);
    for (int k = 0; k < 2; k++)
        if (!(sums[k] = gd__new(x->storage->device, x->dtype, 1, &attrs.i[1]))) return GD_NOMEM;
    return gd__run(GD_OP_layer_norm_sums, (gd_tensor *[]){g, x, stats}, 3, &attrs, sums, 2);
}

gd_tensor *gd_log_softmax(gd_tensor *x, const char *axis) { return along(GD_OP_log_softmax, x, axis); }

gd_tensor *gd_cumsum(gd_tensor *x, const char *axis) { return along(GD_OP_cumsum, x, axis); }

gd_tensor *gd__cumsum(gd_tensor *x, int axis, bool reverse)
{
    return x ? along_axis(GD_OP_cumsum, x, axis, reverse) : NULL;
}

gd_tensor *gd__sum_axes(gd_tensor *x, unsigned mask, bool keep_dims)
{
    if (!x || !mask) return gd__same(x);
    int list[GD_MAX_DIMS], count = 0;
    for (int i = 0; i < x->ndim; i++)
        if (mask >> i & 1) list[count++] = i;
    return reduce_list(GD_OP_sum, x, list, count, keep_dims, sum_dtype(x));
}
