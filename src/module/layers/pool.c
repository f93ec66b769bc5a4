/* Pooling: the largest or the mean of each window of images [batch, channel, height, width]. */
#include "module/layers/layer.h"

gd_max_pool2d_options gd_max_pool2d_defaults(void) { return (gd_max_pool2d_options){0}; }
gd_avg_pool2d_options gd_avg_pool2d_defaults(void) { return (gd_avg_pool2d_options){0}; }

static gd_object *pool(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, bool largest)
{
    gd_module *m = (gd_module *)self;
    int64_t size, stride, padding;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) || gd_module_get_int(m, "size", &size) ||
        gd_module_get_int(m, "stride", &stride) || gd_module_get_int(m, "padding", &padding))
        return NULL;
    gd_tensor *x = (gd_tensor *)argument;
    return gd_tensor_object(largest ? gd_max_pool2d(x, (int)size, (int)stride, (int)padding)
                                    : gd_avg_pool2d(x, (int)size, (int)stride, (int)padding));
}

static gd_object *max_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    return pool(self, argument, kwargs, true);
}
static gd_object *avg_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    return pool(self, argument, kwargs, false);
}

gd_class *gd_class_max_pool2d(gd_ctx *ctx) { return gd__layer_class(ctx, "MaxPool2d", max_forward); }
gd_class *gd_class_avg_pool2d(gd_ctx *ctx) { return gd__layer_class(ctx, "AvgPool2d", avg_forward); }

static gd_module *pool_new(gd_ctx *ctx, gd_class *cls, const char *layer, int64_t size, int64_t stride,
                           int64_t padding)
{
    if (gd__layer_size(ctx, layer, "size", size)) return NULL;
    if (stride < 0 || padding < 0 || size > INT32_MAX)
        return gd__refuse(ctx, GD_VALUE, "%s: size %lld, stride %lld and padding %lld do not go together",
                          layer, (long long)size, (long long)stride, (long long)padding);
    gd_module *m = gd_module_new(cls);
    if (!m) return NULL;
    gd_status status = gd_module_set_int(m, "size", size);
    if (!status) status = gd_module_set_int(m, "stride", stride ? stride : size);
    if (!status) status = gd_module_set_int(m, "padding", padding);
    return status ? gd__give_up(m) : m;
}

gd_module *gd_max_pool2d_new(gd_ctx *ctx, int64_t size, const gd_max_pool2d_options *options)
{
    gd_max_pool2d_options o = options ? *options : gd_max_pool2d_defaults();
    return pool_new(ctx, gd_class_max_pool2d(ctx), "max_pool2d", size, o.stride, o.padding);
}

gd_module *gd_avg_pool2d_new(gd_ctx *ctx, int64_t size, const gd_avg_pool2d_options *options)
{
    gd_avg_pool2d_options o = options ? *options : gd_avg_pool2d_defaults();
    return pool_new(ctx, gd_class_avg_pool2d(ctx), "avg_pool2d", size, o.stride, o.padding);
}
