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
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    gd_ctx *ctx = self->ctx;
    int64_t size;
    double eps;
    if (gd_kwargs_only(ctx, kwargs, NULL) || gd_module_get_int(m, "size", &size) ||
        gd_module_get_real(m, "eps", &eps))
        return NULL;
    if (gd_size(x, -1) != size)
        return gd__refuse(ctx, GD_SHAPE, "layer_norm: the last axis has %lld elements, expected %lld",
                          (long long)gd_size(x, -1), (long long)size);
    /* on a bare tensor, so that the anonymous weight meets the last axis whatever its name */
    gd_tensor *bare = x->axes ? gd_drop_names(x) : x;
    gd_tensor *y = gd_layer_norm(bare, "-1", gd__optional(m, "weight"), gd__optional(m, "bias"), eps);
    return gd_tensor_object(gd__relabel_like(y, x));
}

gd_class *gd_class_layer_norm(gd_ctx *ctx) { return gd__layer_class(ctx, "LayerNorm", layer_norm_forward); }

gd_module *gd_layer_norm_new(gd_ctx *ctx, int64_t size, const gd_layer_norm_options *options)
{
    gd_layer_norm_options o = options ? *options : gd_layer_norm_defaults();
    if (gd__layer_size(ctx, "layer_norm", "size", size)) return NULL;
    gd_module *m = gd_module_new(gd_class_layer_norm(ctx));
    if (!m) return NULL;
    gd_status status = gd_module_set_int(m, "size", size);
    if (!status) status = gd_module_set_real(m, "eps", o.eps);
    if (!status && o.affine) status = gd__init_constant(m, "weight", o.dtype, size, 1);
    if (!status && o.affine) status = gd__init_constant(m, "bias", o.dtype, size, 0);
    return status ? gd__give_up(m) : m;
}
