/* Linear: y = x W^T + b.
 * Initial values: weight and bias uniform in [-1/sqrt(inputs), 1/sqrt(inputs)), which keeps the variance of the
 * outputs near a third of that of the inputs (He et al. 2015 with slope sqrt 5, as PyTorch). */
#include "module/layers/layer.h"
#include "tensor/linalg.h"

#include <math.h>
#include <stdio.h>

gd_linear_options gd_linear_defaults(void) { return (gd_linear_options){.bias = true, .dtype = GD_F32}; }

/* No names, one dtype and device, sizes that fit: product and sum are one operator. */
static bool is_plain(const gd_tensor *x, const gd_tensor *weight, const gd_tensor *bias)
{
    return weight && bias && !x->axes && !weight->axes && !bias->axes && weight->ndim == 2 &&
           bias->ndim == 1 && x->ndim > 0 && x->size[x->ndim - 1] == weight->size[1] &&
           bias->size[0] == weight->size[0] && x->dtype == weight->dtype && x->dtype == bias->dtype &&
           gd_dtype_is_float(x->dtype) && gd_tensor_device(x) == gd_tensor_device(weight) &&
           gd_tensor_device(x) == gd_tensor_device(bias);
}

static gd_object *linear_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_tensor *x = (gd_tensor *)argument;
    if (gd_kwargs_only(self->ctx, kwargs, NULL)) return NULL;
    gd_tensor *weight = gd_module_get_tensor(m, "weight"), *bias = gd__optional(m, "bias");
    const char *axis = weight ? gd_axis_name(weight, 1) : NULL;
    if (is_plain(x, weight, bias)) return gd_tensor_object(gd__linear(x, weight, bias));
    gd_tensor *y = axis ? gd_contract(x, weight, axis) : gd_matmul(x, gd_transpose(weight, 0, 1));
    return gd_tensor_object(bias ? gd_add(y, bias) : y);
}

gd_class *gd_class_linear(gd_ctx *ctx) { return gd__layer_class(ctx, "Linear", linear_forward); }

gd_module *gd_linear_new(gd_ctx *ctx, int64_t inputs, int64_t outputs, const gd_linear_options *options)
{
    gd_linear_options o = options ? *options : gd_linear_defaults();
    if (gd__layer_size(ctx, "linear", "inputs", inputs) || gd__layer_size(ctx, "linear", "outputs", outputs))
        return NULL;
    char axes[256];
    const char *input = o.input ? o.input : "_", *output = o.output ? o.output : "_";
    if ((size_t)snprintf(axes, sizeof axes, "%s, %s", output, input) >= sizeof axes)
        return gd__refuse(ctx, GD_VALUE, "linear: the axis names are longer than %zu bytes", sizeof axes);
    gd_module *m = gd_module_new(gd_class_linear(ctx));
    if (!m) return NULL;
    bool named = o.input || o.output;
    double bound = 1 / sqrt((double)inputs);
    gd_status status = gd__init_uniform(m, "weight", o.dtype, 2, (int64_t[]){outputs, inputs}, bound,
                                        named ? axes : NULL);
    if (!status && o.bias)
        status = gd__init_uniform(m, "bias", o.dtype, 1, &outputs, bound, named ? output : NULL);
    return status ? gd__give_up(m) : m;
}
