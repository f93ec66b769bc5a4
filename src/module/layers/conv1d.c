/* Conv1d: sums of products of a window with a weight, over signals [batch, channel, length]: conv2d of images of one row.
 * Initial values: weight and bias uniform in [-b, b), b = 1/sqrt(inputs * kernel). */
#include "module/layers/layer.h"

#include <math.h>

gd_conv1d_options gd_conv1d_defaults(void)
{
    return (gd_conv1d_options){.stride = 1, .padding = 0, .bias = true, .dtype = GD_F32};
}

static gd_object *conv1d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_ctx *ctx = self->ctx;
    gd_tensor *x = (gd_tensor *)argument;
    int64_t stride, padding;
    if (gd_kwargs_only(ctx, kwargs, NULL) || gd_module_get_int(m, "stride", &stride) ||
        gd_module_get_int(m, "padding", &padding))
        return NULL;
    if (x->ndim != 3)
        return gd__refuse(ctx, GD_SHAPE, "conv1d: the input has %d axes, expected batch, channel, length",
                          (int)x->ndim);
    /* padded here: conv2d would pad rows too */
    int64_t ends[3] = {0, 0, padding};
    gd_tensor *bare = x->axes ? gd_drop_names(x) : x, *padded = padding ? gd_pad(bare, ends, ends, 0) : bare;
    gd_tensor *y = gd_conv2d(gd_unsqueeze(padded, 2, NULL),
                             gd_unsqueeze(gd_module_get_tensor(m, "weight"), 2, NULL),
                             gd__optional(m, "bias"), (int)stride, 0);
    return gd_tensor_object(gd_squeeze(y, "2"));
}

gd_class *gd_class_conv1d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv1d", conv1d_forward); }

gd_module *gd_conv1d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv1d_options *options)
{
    gd_conv1d_options o = options ? *options : gd_conv1d_defaults();
    if (gd__layer_size(ctx, "conv1d", "inputs", inputs) ||
        gd__layer_size(ctx, "conv1d", "outputs", outputs) ||
        gd__layer_size(ctx, "conv1d", "kernel", kernel) || gd__layer_size(ctx, "conv1d", "stride", o.stride))
        return NULL;
    if (o.padding < 0)
        return gd__refuse(ctx, GD_VALUE, "conv1d: padding is %d, must be at least 0", o.padding);
    gd_module *m = gd_module_new(gd_class_conv1d(ctx));
    if (!m) return NULL;
    double bound = 1 / sqrt((double)inputs * (double)kernel);
    gd_status status = gd_module_set_int(m, "stride", o.stride);
    if (!status) status = gd_module_set_int(m, "padding", o.padding);
    if (!status)
        status = gd__init_uniform(m, "weight", o.dtype, 3, (int64_t[]){outputs, inputs, kernel}, bound, NULL);
    if (!status && o.bias) status = gd__init_uniform(m, "bias", o.dtype, 1, &outputs, bound, NULL);
    return status ? gd__give_up(m) : m;
}
