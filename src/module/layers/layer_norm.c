/* Layer normalisation over the last axis (Ba, Kiros and Hinton 2016): (x - mean) / sqrt(var + eps) * weight + bias.
 * Initial values: weight one, bias zero. */
#include "module/layers/layer.h"

gd_layer_norm_options gd_layer_norm_defaults(void)
{
    return (gd_layer_norm_options){.eps = 1e-5, .affine = true, .dtype = GD_F32};
}

static gd_object *layer_norm_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                     void *user)
{
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    double eps;
    gd_tensor *bare = gd__norm_input(self, x, kwargs, "layer_norm", &eps);
    (void)user;
    if (!bare) return NULL;
    gd_tensor *y = gd_layer_norm(bare, "-1", gd__optional(m, "weight"), gd__optional(m, "bias"), eps);
    return gd_tensor_object(gd__relabel_like(y, x));
}

gd_class *gd_class_layer_norm(gd_ctx *ctx) { return gd__layer_class(ctx, "LayerNorm", layer_norm_forward); }

gd_module *gd_layer_norm_new(gd_ctx *ctx, int64_t size, const gd_layer_norm_options *options)
{
    gd_layer_norm_options o = options ? *options : gd_layer_norm_defaults();
    gd_module *m = gd__norm_module(ctx, gd_class_layer_norm, "layer_norm", size, o.eps, o.affine, o.dtype);
    return m && o.affine && gd__init_constant(m, "bias", o.dtype, size, 0) ? gd__give_up(m) : m;
}
