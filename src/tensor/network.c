/* Network operators, composed of others.  Images are [batch, channel, height, width].
 *
 * A convolution or pooling is one operator if the device has it (the CPU). Otherwise a convolution copies every window into a column and
 * uses one matrix product, and a pooling reduces over each window. */
#include "tensor/device.h"
#include "tensor/elementwise.h"
#include "tensor/linalg.h"
#include "tensor/shape.h"

#include <math.h>
#include <stdio.h>

/* ---- windows ---- */

static gd_attrs window_attrs(const gd_windows *w, double fill)
{
    return (gd_attrs){.ni = 10,
                      .i = {w->tall, w->wide, w->stride, w->padding, w->height, w->width, w->together,
                            w->more_stride, w->apart[0], w->apart[1]},
                      .nf = 1,
                      .f = {fill}};
}

/* Windows of `window` places, `apart` pixels between them, that fit `size` pixels. */
static int64_t count_windows(int64_t size, int64_t window, int64_t stride, int64_t apart)
{
    return (size - 1 - (window - 1) * (apart + 1)) / stride + 1;
}

static int64_t windows_along(const gd_windows *w, int axis)
{
    return axis ? count_windows(w->width + 2 * w->padding, w->wide, w->stride + w->more_stride, w->apart[1])
                : count_windows(w->height + 2 * w->padding, w->tall, w->stride, w->apart[0]);
}

gd_tensor *gd__unfold2d(gd_tensor *image, const gd_windows *w, double fill)
{
    if (!image) return NULL;
    int64_t batch = image->size[0], channels = image->size[1], places = w->tall * w->wide;
    int64_t count = windows_along(w, 0) * windows_along(w, 1);
    int64_t apart[4] = {channels, places, batch, count}, together[4] = {batch, channels, count, places};
    gd_attrs attrs = window_attrs(w, fill);
    gd_tensor *out = gd__new_checked(image->storage->device, "unfold2d", image->dtype, 4,
                                     w->together ? together : apart);
    return gd__run1(GD_OP_unfold2d, &image, 1, &attrs, out);
}

gd_tensor *gd__fold2d(gd_tensor *columns, const gd_windows *w)
{
    if (!columns) return NULL;
    int64_t batch = columns->size[w->together ? 0 : 2], channels = columns->size[w->together ? 1 : 0];
    gd_attrs attrs = window_attrs(w, 0);
    gd_tensor *out = gd__new_checked(columns->storage->device, "fold2d", columns->dtype, 4,
                                     (int64_t[]){batch, channels, w->height, w->width});
    return gd__run1(GD_OP_fold2d, &columns, 1, &attrs, out);
}

static bool is_image(const char *what, const gd_tensor *x)
{
    char shape[256];
    if (!gd__need_float(what, x)) return false;
    if (x->ndim == 4) return true;
    (void)gd_fail(x->head.ctx, GD_SHAPE, "%s: needs [batch, channel, height, width], got %s", what,
                  gd__shape_text(x, shape, sizeof shape));
    return false;
}

/* Checks that at least one window fits and that all sizes stay far from overflow. */
static bool windows_fit(const char *what, const gd_tensor *x, const gd_windows *w)
{
    gd_ctx *ctx = x->head.ctx;
    if (w->stride < 1 || w->padding < 0 || w->tall < 1 || w->wide < 1) {
        (void)gd_fail(ctx, GD_VALUE, "%s: a window of %lld x %lld, stride %lld, padding %lld", what,
                      (long long)w->tall, (long long)w->wide, (long long)w->stride, (long long)w->padding);
        return false;
    }
    bool fits = w->tall - w->height <= 2 * w->padding && w->wide - w->width <= 2 * w->padding;
    if (!fits)
        (void)gd_fail(ctx, GD_SHAPE,
                      "%s: a window of %lld x %lld does not fit an image of %lld x %lld with padding %lld",
                      what, (long long)w->tall, (long long)w->wide, (long long)w->height, (long long)w->width,
                      (long long)w->padding);
    return fits;
}

/* ---- convolution ---- */

static bool weight_fits(const gd_tensor *x, const gd_tensor *weight, const gd_tensor *bias, int groups)
{
    gd_ctx *ctx = x->head.ctx;
    char a[256], b[256];
    if (weight->ndim != 4)
        (void)gd_fail(ctx, GD_SHAPE, "conv2d: the weight must be [out, in, height, width], got %s",
                      gd__shape_text(weight, b, sizeof b));
    else if (groups < 1 || x->size[1] % groups || weight->size[0] % groups)
        (void)gd_fail(ctx, GD_VALUE, "conv2d: %d groups do not divide %lld channels and %lld outputs", groups,
                      (long long)x->size[1], (long long)weight->size[0]);
    else if (weight->size[1] != x->size[1] / groups)
        (void)gd_fail(
            ctx, GD_SHAPE, "conv2d: the image has %lld channels%s, the weight %lld; shapes %s and %s",
            (long long)x->size[1] / groups, groups > 1 ? " in a group" : "", (long long)weight->size[1],
            gd__shape_text(x, a, sizeof a), gd__shape_text(weight, b, sizeof b));
    else if (bias && (bias->ndim != 1 || bias->size[0] != weight->size[0]))
        (void)gd_fail(ctx, GD_SHAPE, "conv2d: the bias is %s, the weight has %lld output channels",
                      gd__shape_text(bias, a, sizeof a), (long long)weight->size[0]);
    else
        return gd__can_multiply("conv2d", x, weight) && (!bias || gd__can_multiply("conv2d", x, bias));
    return false;
}

static bool device_has(const gd_tensor *x, gd_op_id op)
{
    const gd_backend *b = x->storage->device->backend;
    return !b->has || b->has(op);
}

/* ---- the operators: a convolution and its gradients, each the gradient of the others ---- */

/* One of two is NULL. */
static gd_tensor *without_operand(const gd_tensor *a, const gd_tensor *b)
{
    return gd__none(gd__null(gd_tensor_ctx(a ? a : b), "windows: an operand is NULL"));
}

static gd_tensor *run_convolution(gd_op_id op, gd_tensor *const *in, int nin, const gd_convolution *c,
                                  const int64_t size[4])
{
    gd_attrs attrs = {.ni = 2, .i = {c->stride, c->padding}};
    for (int k = 0; k < nin; k++)
        if (!in[k]) return NULL;
    gd_tensor *out = gd__new_checked(in[0]->storage->device, gd__ops[op].name, in[0]->dtype, 4, size);
    return gd__run1(op, in, nin, &attrs, out);
}

gd_tensor *gd__conv2d(gd_tensor *x, gd_tensor *w, gd_tensor *bias, const gd_convolution *c)
{
    if (!x || !w) return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (!bias) bias = gd_to_device(gd_zeros(ctx, x->dtype, 1, w->size), x->storage->device);
    int64_t down = (x->size[2] + 2 * c->padding - w->size[2]) / c->stride + 1;
    int64_t across = (x->size[3] + 2 * c->padding - w->size[3]) / c->stride + 1;
    return run_convolution(GD_OP_conv2d, (gd_tensor *[]){x, w, bias}, 3, c,
                           (int64_t[]){x->size[0], w->size[0], down, across});
}

gd_tensor *gd__conv2d_image(gd_tensor *g, gd_tensor *w, const gd_convolution *c, int64_t height,
                            int64_t width)
{
    if (!g || !w) return without_operand(g, w);
    return run_convolution(GD_OP_conv2d_image, (gd_tensor *[]){g, w}, 2, c,
                           (int64_t[]){g->size[0], w->size[1], height, width});
}

gd_tensor *gd__conv2d_weight(gd_tensor *g, gd_tensor *x, const gd_convolution *c, int64_t tall, int64_t wide)
{
    if (!g || !x) return without_operand(g, x);
    return run_convolution(GD_OP_conv2d_weight, (gd_tensor *[]){g, x}, 2, c,
                           (int64_t[]){g->size[1], x->size[1], tall, wide});
}

/* The windows of a convolution on an image that is padded as far as one number can say; what is left is `x` padded. */
static gd_tensor *padded_for(gd_tensor *x, const gd_conv_options *o, gd_windows *w)
{
    const int *p = o->padding;
    w->padding = p[0];
    if (x && (p[1] != p[0] || p[2] != p[0] || p[3] != p[0])) {
        x = gd_pad(x, (int64_t[]){0, 0, p[0], p[2]}, (int64_t[]){0, 0, p[1], p[3]}, 0);
        w->padding = 0;
    }
    if (x) w->height = x->size[2];
    if (x) w->width = x->size[3];
    return x;
}

/* Per group [out, in k] x [in k, batch l] -> [out, batch l]; then [batch, out, height, width]. */
static gd_tensor *convolve(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, const gd_conv_options *o)
{
    gd_windows w = {.tall = weight->size[2], .wide = weight->size[3], .stride = o->stride[0]};
    w.more_stride = o->stride[1] - o->stride[0];
    w.apart[0] = w.tall > 1 ? o->dilation[0] - 1 : 0;
    w.apart[1] = w.wide > 1 ? o->dilation[1] - 1 : 0;
    if (!(x = padded_for(gd__nameless(x), o, &w))) return NULL;
    bool plain = o->groups == 1 && !w.more_stride && !w.apart[0] && !w.apart[1];
    if (plain && device_has(x, GD_OP_conv2d))
        return gd__conv2d(x, gd__nameless(weight), bias ? gd__nameless(bias) : NULL,
                          &(gd_convolution){w.stride, w.padding});
    int64_t batch = x->size[0], out = weight->size[0], groups = o->groups, down = windows_along(&w, 0),
            across = windows_along(&w, 1), depth = weight->size[1] * w.tall * w.wide;
    gd_tensor *columns = gd__unfold2d(x, &w, 0);
    columns = gd__reshape(columns, 3, (int64_t[]){groups, depth, batch * down * across});
    gd_tensor *matrix = gd__reshape(gd__nameless(weight), 3, (int64_t[]){groups, out / groups, depth});
    gd_tensor *y = gd__reshape(gd__product(matrix, columns), 2, (int64_t[]){out, batch * down * across});
    if (bias) y = gd_add(y, gd__reshape(gd__nameless(bias), 2, (int64_t[]){out, 1}));
    y = gd__reshape(y, 4, (int64_t[]){out, batch, down, across});
    return gd_contiguous(gd_transpose(y, 0, 1));
}

/* The output channels are those of the weight; if it has no names, the channel axis keeps its name. */
static gd_tensor *with_image_axes(gd_tensor *y, gd_tensor *x, gd_tensor *weight)
{
    gd_axis_source source[4] = {{x, 0}, {x, 1}, {x, 2}, {x, 3}};
    if (weight && (gd__name(weight, 0) || gd__labels(weight, 0)))
        source[1] = (gd_axis_source){weight, 0};
    else if (weight && y &&
             gd__labels(x, 1)) { /* labels of other channels do not fit even if their number does */
        source[1].from = gd_with_labels(x, "1", NULL);
        if (!source[1].from) return NULL;
    }
    return gd__with_axes(y, source);
}

/* Is there a window along an axis?  No product may overflow. */
static bool window_fits(gd_ctx *ctx, const gd_tensor *x, const gd_tensor *weight, const gd_conv_options *o,
                        int axis)
{
    int low = o->padding[2 * axis], high = o->padding[2 * axis + 1];
    int64_t size = x->size[2 + axis], window = weight->size[2 + axis];
    if (o->stride[axis] < 1 || o->dilation[axis] < 1 || low < 0 || high < 0 || window < 1) {
        (void)gd_fail(ctx, GD_VALUE, "conv2d: a window of %lld pixels, stride %d, padding %d, dilation %d",
                      (long long)window, o->stride[axis], low < 0 ? low : high, o->dilation[axis]);
        return false;
    }
    int64_t all = size + low + high;
    bool fits = all > 0 && window - 1 <= (all - 1) / o->dilation[axis];
    if (!fits)
        (void)gd_fail(
            ctx, GD_SHAPE,
            "conv2d: a window of %lld pixels, dilation %d, does not fit the %s %lld with padding %d and %d",
            (long long)window, o->dilation[axis], axis ? "width" : "height", (long long)size, low, high);
    return fits;
}

gd_conv_options gd_conv_defaults(void)
{
    return (gd_conv_options){.stride = {1, 1}, .dilation = {1, 1}, .groups = 1};
}

gd_tensor *gd_conv2d_with(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, const gd_conv_options *options)
{
    gd_conv_options o = options ? *options : gd_conv_defaults();
    if (!gd__given2("conv2d", x, weight) || !is_image("conv2d", x) || !weight_fits(x, weight, bias, o.groups))
        return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (!window_fits(ctx, x, weight, &o, 0) || !window_fits(ctx, x, weight, &o, 1)) return NULL;
    bool biased = bias != NULL;
    gd_scope_begin(ctx);
    gd_dtype dtype = gd__promoted(x->dtype, weight->dtype);
    if (bias) dtype = gd__promoted(dtype, bias->dtype);
    x = gd_cast(x, dtype);
    weight = gd_cast(weight, dtype);
    if (bias) bias = gd_cast(bias, dtype);
    if (x && weight && o.groups == 1) weight = gd__match_labels("conv2d", x, 1, weight, 1);
    if (weight && bias) bias = gd__match_labels("conv2d", weight, 0, bias, 0);
    bool fits = x && weight && (bias || !biased);
    return gd__scope_leave(ctx, fits ? with_image_axes(convolve(x, weight, bias, &o), x, weight) : NULL);
}

gd_tensor *gd_conv2d(gd_tensor *x, gd_tensor *weight, gd_tensor *bias, int stride, int padding)
{
    gd_conv_options o = {.stride = {stride, stride}, .dilation = {1, 1}, .groups = 1};
    for (int i = 0; i < 4; i++) o.padding[i] = padding;
    return gd_conv2d_with(x, weight, bias, &o);
}

/* ---- pooling ---- */

typedef gd_tensor *(*reduce_fn)(gd_tensor *x, const char *axes, bool keep_dims);

static gd_tensor *run_pooling(gd_op_id op, gd_tensor *const *in, int nin, const gd_pool *p,
                              const int64_t size[4])
{
    gd_attrs attrs = {.ni = 3, .i = {p->size, p->stride, p->padding}};
    gd_tensor *out = gd__new_checked(in[0]->storage->device, gd__ops[op].name, in[0]->dtype, 4, size);
    return gd__run1(op, in, nin, &attrs, out);
}

gd_tensor *gd__avg_pool2d(gd_tensor *x, const gd_pool *p)
{
    if (!x) return NULL;
    gd_windows w = gd__windows(p->size, p->size, p->stride, p->padding, x, true);
    return run_pooling(GD_OP_avg_pool2d, &x, 1, p,
                       (int64_t[]){x->size[0], x->size[1], windows_along(&w, 0), windows_along(&w, 1)});
}

gd_tensor *gd__avg_pool2d_grad(gd_tensor *g, const gd_pool *p, const int64_t size[4])
{
    return g ? run_pooling(GD_OP_avg_pool2d_grad, &g, 1, p, size) : NULL;
}

gd_tensor *gd__max_pool2d_grad(gd_tensor *g, gd_tensor *x, const gd_pool *p)
{
    if (!g || !x) return without_operand(g, x);
    return run_pooling(GD_OP_max_pool2d_grad, (gd_tensor *[]){g, x}, 2, p, x->size);
}

static gd_tensor *pool(const char *what, gd_op_id op, gd_tensor *x, int size, int stride, int padding,
                       reduce_fn reduce, double fill)
{
    if (!x || !is_image(what, x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_windows w = gd__windows(size, size, stride, padding, x, true);
    if (!windows_fit(what, x, &w)) return NULL;
    if (2 * w.padding > size)
        return gd__refuse(ctx, GD_VALUE, "%s: padding %d is more than half of the window %d", what, padding,
                          size);
    gd_scope_begin(ctx);
    int64_t down = windows_along(&w, 0), across = windows_along(&w, 1);
    int64_t shape[4] = {x->size[0], x->size[1], down, across};
    gd_tensor *bare = gd__nameless(x), *y = NULL;
    if (bare && device_has(x, op))
        y = run_pooling(op, &bare, 1, &(gd_pool){size, stride, padding}, shape);
    else
        y = gd__reshape(reduce(gd__unfold2d(bare, &w, fill), "3", false), 4, shape);
    return gd__scope_leave(ctx, with_image_axes(y, x, NULL));
}

gd_tensor *gd_max_pool2d(gd_tensor *x, int size, int stride, int padding)
{
    return pool("max_pool2d", GD_OP_max_pool2d, x, size, stride, padding, gd_max, -INFINITY);
}

/* Padding counts as zeros. */
gd_tensor *gd_avg_pool2d(gd_tensor *x, int size, int stride, int padding)
{
    return pool("avg_pool2d", GD_OP_avg_pool2d, x, size, stride, padding, gd_mean, 0);
}

/* ---- normalisation ---- */

/* A weight on the normalised axes, as a nameless tensor that broadcasts against x: by name if both have names, otherwise its
 * axes are the normalised ones in order. */
static gd_tensor *over_axes(gd_tensor *x, const int *axes, int count, gd_tensor *weight)
{
    if (gd__has_names(weight) && gd__has_names(x)) return gd__nameless(gd_align(weight, x));
    int64_t size[GD_MAX_DIMS];
    bool fits = weight->ndim == count;
    for (int i = 0; i < x->ndim; i++) size[i] = 1;
    for (int i = 0; fits && i < count; i++) {
        size[axes[i]] = x->size[axes[i]];
        fits = weight->size[i] == size[axes[i]];
    }
    for (int i = 0; fits && weight && i < count; i++)
        weight = gd__match_labels("layer_norm", x, axes[i], weight, i);
    if (fits) return weight ? gd__reshape(weight, x->ndim, size) : NULL;
    char a[256], b[256];
    return gd__refuse(x->head.ctx, GD_SHAPE,
                      "layer_norm: a weight or bias of %s does not fit the %d normalised axes of %s",
                      gd__shape_text(weight, a, sizeof a), count, gd__shape_text(x, b, sizeof b));
}

/* Is a weight one row of x, over its last `count` axes? */
static bool fits_row(const gd_tensor *x, int count, const gd_tensor *weight)
{
    if (!weight || weight->dtype != x->dtype || weight->ndim != x->ndim) return false;
    for (int i = 0; i < x->ndim; i++)
        if (weight->size[i] != (i < x->ndim - count ? 1 : x->size[i])) return false;
    return true;
}

/* (x - mean) / sqrt(variance + eps) over the axes, then weight and bias (Ba, Kiros and Hinton 2016). */
gd_tensor *gd_layer_norm(gd_tensor *x, const char *axes, gd_tensor *weight, gd_tensor *bias, double eps)
{
    if (!x || !gd__need_float("layer_norm", x)) return NULL;
    int list[GD_MAX_DIMS], count = gd__parse_axes("layer_norm", x, axes, list);
    if (count < 0) return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (!(eps >= 0)) return gd__refuse(ctx, GD_VALUE, "layer_norm: eps is %g", eps);
    char text[4 * GD_MAX_DIMS] = "";
    bool trailing = count > 0 && list[0] == x->ndim - count;
    for (int i = 0, used = 0; i < count; i++)
        used += snprintf(text + used, sizeof text - (size_t)used, i ? ",%d" : "%d", list[i]);
    gd_scope_begin(ctx);
    gd_tensor *bare = gd__nameless(x), *out;
    gd_tensor *scale = weight ? over_axes(x, list, count, weight) : NULL;
    gd_tensor *shift = bias ? over_axes(x, list, count, bias) : NULL;
    trailing = trailing && x->numel;
    if (trailing && fits_row(x, count, scale) && fits_row(x, count, shift)) {
        out = gd__layer_norm(bare, scale, shift, count, eps);
        weight = bias = NULL;
    } else if (trailing) {
        out = gd__standardize(bare, count, eps);
    } else {
        gd_tensor *centred = gd_sub(bare, gd_mean(bare, text, true));
        gd_tensor *spread = gd_mean(gd_square(centred), text, true);
        out = gd_mul(centred, gd_rsqrt(gd_add_scalar(spread, eps)));
    }
    if (weight) out = gd_mul(out, scale);
    if (bias) out = gd_add(out, shift);
    return gd__scope_leave(ctx, out ? gd__relabel_like(out, x) : NULL);
}

/* ---- lookup ---- */

/* Rows of the table [rows, ...]: the axes of the index, then the table's others. */
gd_tensor *gd_embedding(gd_tensor *table, gd_tensor *index)
{
    if (!gd__given2("embedding", table, index)) return NULL;
    gd_ctx *ctx = table->head.ctx;
    int n = index->ndim + table->ndim - 1;
    if (table->ndim < 1 || n > GD_MAX_DIMS) {
        char a[256], b[256];
        return gd__refuse(ctx, GD_SHAPE, "embedding: table %s with index %s",
                          gd__shape_text(table, a, sizeof a), gd__shape_text(index, b, sizeof b));
    }
    int64_t size[GD_MAX_DIMS];
    gd_axis_source source[GD_MAX_DIMS];
    for (int i = 0; i < n; i++) {
        bool from_index = i < index->ndim;
        source[i] = (gd_axis_source){from_index ? index : table, from_index ? i : i - index->ndim + 1};
        size[i] = source[i].from->size[source[i].axis];
    }
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *flat = gd__reshape(index, 1, &index->numel);
    gd_tensor *out = flat ? gd_index_select(gd__nameless(table), "0", flat) : NULL;
    out = gd__with_axes(out ? gd__reshape(out, n, size) : NULL, source);
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "embedding");
    return out;
}

/* ---- dropout ---- */

gd_tensor *gd_dropout(gd_tensor *x, double p)
{
    if (!x || !gd__need_float("dropout", x)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    if (!(p >= 0 && p < 1))
        return gd__refuse(ctx, GD_VALUE, "dropout: p is %g, must be at least 0 and below 1", p);
    gd_scope_begin(ctx);
    gd_device *device = x->storage->device;
    gd_tensor *draw = gd__random(device, &ctx->rng, "dropout", GD_RANDOM_UNIFORM, GD_F32, x->ndim, x->size);
    gd_tensor *kept = gd_ge(draw, gd_to_device(gd_scalar(ctx, GD_F32, p), device));
    gd_tensor *zero = gd_to_device(gd_scalar(ctx, x->dtype, 0), device);
    gd_tensor *out = gd_where(kept, gd_mul_scalar(gd__nameless(x), 1 / (1 - p)), zero);
    return gd__scope_leave(ctx, out ? gd__relabel_like(out, x) : NULL);
}

/* ---- losses ---- */

static bool classes_fit(const gd_tensor *logits, const gd_tensor *classes)
{
    gd_ctx *ctx = logits->head.ctx;
    char a[256], b[256];
    if (logits->ndim == 2 && classes->ndim == 1 && logits->size[0] == classes->size[0]) {
        if (!gd_dtype_is_float(classes->dtype) && classes->dtype != GD_BOOL) return true;
        (void)gd_fail(ctx, GD_DTYPE, "cross_entropy: the classes are %s, not integers",
                      gd_dtype_name(classes->dtype));
        return false;
    }
    (void)gd_fail(ctx, GD_SHAPE, "cross_entropy: needs logits [n, classes] and classes [n], got %s and %s",
                  gd__shape_text(logits, a, sizeof a), gd__shape_text(classes, b, sizeof b));
    return false;
}

/* log_softmax at the index of each row; without a gradient not of all other places. */
static gd_tensor *likelihood_at(gd_tensor *logits, gd_tensor *index)
{
    if (!logits) return NULL;
    gd_ctx *ctx = logits->head.ctx;
    bool alone = (ctx->grad_off || !gd__wants_grad(logits)) && !ctx->recorder &&
                 logits->storage->device == ctx->cpu;
    if (!alone || (logits->dtype != GD_F32 && logits->dtype != GD_F64))
        return gd_gather(gd_log_softmax(logits, "1"), "1", index);
    return gd_sub(gd_gather(logits, "1", index), gd_logsumexp(logits, "1", true));
}

gd_tensor *gd_cross_entropy(gd_tensor *logits, gd_tensor *classes)
{
    if (!gd__given2("cross_entropy", logits, classes) || !gd__need_float("cross_entropy", logits))
        return NULL;
    if (!classes_fit(logits, classes)) return NULL;
    gd_ctx *ctx = logits->head.ctx;
    gd_status before = gd_error(ctx);
    if (gd__same_name("cross_entropy", logits, 0, classes, 0)) return NULL;
    gd_scope_begin(ctx);
    classes = gd__match_labels("cross_entropy", logits, 0, classes, 0);
    gd_tensor *index = gd__reshape(classes, 2, (int64_t[]){logits->size[0], 1});
    gd_tensor *likelihood = likelihood_at(gd__nameless(logits), index);
    gd_tensor *out = gd_neg(gd_mean(likelihood, NULL, false));
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "cross_entropy");
    return out;
}

gd_tensor *gd_mse(gd_tensor *x, gd_tensor *y)
{
    if (!gd__given2("mse", x, y)) return NULL;
    gd_ctx *ctx = x->head.ctx;
    gd_status before = gd_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *out = gd_mean(gd_square(gd_sub(x, y)), NULL, false);
    gd__scope_leave(ctx, out);
    gd__blame(ctx, before, "mse");
    return out;
}
