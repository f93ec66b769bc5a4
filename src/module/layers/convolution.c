/* Sums of products of a window with a weight: Conv2d over images [batch, channel, height, width], Conv1d over signals
 * [batch, channel, length], which are images of one row.
 * Initial values: weight and bias uniform in [-b, b), b = 1/sqrt(inputs * elements of the window), as linear with its fan-in. */
#include "module/layers/layer.h"

#include <math.h>

gd_conv2d_options gd_conv2d_defaults(void)
{
    return (gd_conv2d_options){.stride = 1, .padding = 0, .bias = true, .dtype = GD_F32};
}
gd_conv1d_options gd_conv1d_defaults(void)
{
    return (gd_conv1d_options){.stride = 1, .padding = 0, .bias = true, .dtype = GD_F32};
}

/* ---- forward ---- */

static bool has_settings(gd_module *m, const gd_kwargs *kwargs, int64_t *stride, int64_t *padding)
{
    return !gd_kwargs_only(m->head.ctx, kwargs, NULL) && !gd_module_get_int(m, "stride", stride) &&
           !gd_module_get_int(m, "padding", padding);
}

static gd_object *conv2d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    gd_module *m = (gd_module *)self;
    int64_t stride, padding;
    (void)user;
    if (!has_settings(m, kwargs, &stride, &padding)) return NULL;
    gd_tensor *y = gd_conv2d((gd_tensor *)argument, gd_module_get_tensor(m, "weight"),
                             gd__optional(m, "bias"), (int)stride, (int)padding);
    return gd_tensor_object(y);
}

static gd_object *conv1d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    int64_t stride, padding;
    (void)user;
    if (!has_settings(m, kwargs, &stride, &padding)) return NULL;
    if (x->ndim != 3)
        return gd__refuse(self->ctx, GD_SHAPE,
                          "conv1d: the input has %d axes, expected batch, channel, length", (int)x->ndim);
    /* padded here: conv2d would pad rows too */
    int64_t ends[3] = {0, 0, padding};
    gd_tensor *bare = x->axes ? gd_drop_names(x) : x, *padded = padding ? gd_pad(bare, ends, ends, 0) : bare;
    gd_tensor *y = gd_conv2d(gd_unsqueeze(padded, 2, NULL),
                             gd_unsqueeze(gd_module_get_tensor(m, "weight"), 2, NULL),
                             gd__optional(m, "bias"), (int)stride, 0);
    return gd_tensor_object(gd_squeeze(y, "2"));
}

gd_class *gd_class_conv2d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv2d", conv2d_forward); }
gd_class *gd_class_conv1d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv1d", conv1d_forward); }

/* ---- making ---- */

/* weight [outputs, inputs, kernel], or with two axes of the window [outputs, inputs, kernel, kernel]. */
static gd_status fill(gd_module *m, int axes, const int64_t size[4], const gd_conv2d_options *o)
{
    double bound = 1 / sqrt((double)size[1] * pow((double)size[2], axes));
    gd_status status = gd_module_set_int(m, "stride", o->stride);
    if (!status) status = gd_module_set_int(m, "padding", o->padding);
    if (!status) status = gd__init_uniform(m, "weight", o->dtype, 2 + axes, size, bound, NULL);
    if (!status && o->bias) status = gd__init_uniform(m, "bias", o->dtype, 1, size, bound, NULL);
    return status;
}

static gd_module *convolution(gd_ctx *ctx, int axes, gd_class *(*cls)(gd_ctx *), const int64_t size[4],
                              const gd_conv2d_options *o)
{
    const char *layer = axes == 2 ? "conv2d" : "conv1d";
    if (gd__layer_size(ctx, layer, "inputs", size[1]) || gd__layer_size(ctx, layer, "outputs", size[0]) ||
        gd__layer_size(ctx, layer, "kernel", size[2]) || gd__layer_size(ctx, layer, "stride", o->stride))
        return NULL;
    if (o->padding < 0)
        return gd__refuse(ctx, GD_VALUE, "%s: padding is %d, must be at least 0", layer, o->padding);
    gd_module *m = gd_module_new(cls(ctx));
    return m && fill(m, axes, size, o) ? gd__give_up(m) : m;
}

gd_module *gd_conv2d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv2d_options *options)
{
    gd_conv2d_options o = options ? *options : gd_conv2d_defaults();
    return convolution(ctx, 2, gd_class_conv2d, (int64_t[]){outputs, inputs, kernel, kernel}, &o);
}

gd_module *gd_conv1d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv1d_options *options)
{
    gd_conv1d_options given = options ? *options : gd_conv1d_defaults();
    gd_conv2d_options o = {given.stride, given.padding, given.bias, given.dtype};
    return convolution(ctx, 1, gd_class_conv1d, (int64_t[]){outputs, inputs, kernel, 1}, &o);
}
