/* Conv2d: sums of products of a window with a weight, over images [batch, channel, height, width].
 * Initial values: weight and bias uniform in [-b, b), b = 1/sqrt(inputs * kernel^2), as linear with its fan-in. */
#include "module/layers/layer.h"

#include <math.h>

gd_conv2d_options gd_conv2d_defaults(void)
{
    return (gd_conv2d_options){.stride = 1, .padding = 0, .bias = true, .dtype = GD_F32};
}

static gd_object *conv2d_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_ctx *ctx = self->ctx;
    int64_t stride, padding;
    if (gd_kwargs_only(ctx, kwargs, NULL) || gd_module_get_int(m, "stride", &stride) ||
        gd_module_get_int(m, "padding", &padding))
        return NULL;
    gd_tensor *y = gd_conv2d((gd_tensor *)argument, gd_module_get_tensor(m, "weight"),
                             gd__optional(m, "bias"), (int)stride, (int)padding);
    return gd_tensor_object(y);
}

gd_class *gd_class_conv2d(gd_ctx *ctx) { return gd__layer_class(ctx, "Conv2d", conv2d_forward); }

static gd_status fill(gd_module *m, int64_t inputs, int64_t outputs, int64_t kernel,
                      const gd_conv2d_options *o)
{
    double bound = 1 / sqrt((double)inputs * (double)kernel * (double)kernel);
    gd_status status = gd_module_set_int(m, "stride", o->stride);
    if (!status) status = gd_module_set_int(m, "padding", o->padding);
    if (!status)
        status = gd__init_uniform(m, "weight", o->dtype, 4, (int64_t[]){outputs, inputs, kernel, kernel},
                                  bound, NULL);
    if (!status && o->bias) status = gd__init_uniform(m, "bias", o->dtype, 1, &outputs, bound, NULL);
    return status;
}

gd_module *gd_conv2d_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, int64_t kernel,
                         const gd_conv2d_options *options)
{
    gd_conv2d_options o = options ? *options : gd_conv2d_defaults();
    if (gd__layer_size(ctx, "conv2d", "inputs", inputs) ||
        gd__layer_size(ctx, "conv2d", "outputs", outputs) ||
        gd__layer_size(ctx, "conv2d", "kernel", kernel) || gd__layer_size(ctx, "conv2d", "stride", o.stride))
        return NULL;
    if (o.padding < 0)
        return gd__refuse(ctx, GD_VALUE, "conv2d: padding is %d, must be at least 0", o.padding);
    gd_module *m = gd_module_new(gd_class_conv2d(ctx));
    return m && fill(m, inputs, outputs, kernel, &o) ? gd__give_up(m) : m;
}
