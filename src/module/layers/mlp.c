/* Multilayer perceptron: linear layers "0", "1", ... with an activation after each but the last. */
#include "module/layers/layer.h"

#include <stdio.h>

gd_mlp_options gd_mlp_defaults(void)
{
    return (gd_mlp_options){.activation = "relu", .bias = true, .dtype = GD_F32};
}

static gd_object *mlp_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    gd_ctx *ctx = self->ctx;
    int64_t layers;
    const char *activation;
    if (gd_kwargs_only(ctx, kwargs, NULL) || gd_module_get_int(m, "layers", &layers) ||
        gd_module_get_string(m, "activation", &activation))
        return NULL;
    gd_tensor *x = (gd_tensor *)argument;
    for (int64_t i = 0; i < layers && x; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        x = gd_module_call(gd_module_get_module(m, name), x);
        if (i + 1 < layers) x = gd__activate(activation, x);
    }
    return gd_tensor_object(x);
}

gd_class *gd_class_mlp(gd_ctx *ctx) { return gd__layer_class(ctx, "MLP", mlp_forward); }

static gd_status fill(gd_module *m, const int64_t *sizes, int count, const gd_mlp_options *o)
{
    gd_linear_options linear = gd_linear_defaults();
    linear.bias = o->bias;
    linear.dtype = o->dtype;
    gd_status status = gd_module_set_int(m, "layers", count - 1);
    if (!status) status = gd_module_set_string(m, "activation", o->activation);
    for (int i = 0; i + 1 < count && !status; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        status = gd__add_child(m, name, gd_linear_new(m->head.ctx, sizes[i], sizes[i + 1], &linear));
    }
    return status;
}

gd_module *gd_mlp_new(gd_ctx *ctx, const int64_t *sizes, int count, const gd_mlp_options *options)
{
    gd_mlp_options o = options ? *options : gd_mlp_defaults();
    if (count < 2 || !sizes)
        return gd__refuse(ctx, GD_VALUE, "mlp: %d sizes, needs at least inputs and outputs", count);
    if (!gd__is_activation(o.activation))
        return gd__refuse(ctx, GD_VALUE, "mlp: activation '%s' is unknown", o.activation ? o.activation : "");
    gd_module *m = gd_module_new(gd_class_mlp(ctx));
    return m && fill(m, sizes, count, &o) ? gd__give_up(m) : m;
}
