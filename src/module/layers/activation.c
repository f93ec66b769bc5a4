/* Activations: element-wise functions by name, and a module that applies one. */
#include "module/layers/layer.h"

#include <string.h>

typedef struct activation {
    const char *name;
    gd_tensor *(*fn)(gd_tensor *x);
} activation;

static const activation activations[] = {
    {"relu", gd_relu},       {"gelu", gd_gelu},         {"tanh", gd_tanh},
    {"sigmoid", gd_sigmoid}, {"softplus", gd_softplus}, {"identity", gd__another_handle},
};

static const activation *find(const char *function)
{
    for (size_t i = 0; function && i < sizeof activations / sizeof *activations; i++)
        if (strcmp(activations[i].name, function) == 0) return &activations[i];
    return NULL;
}

bool gd__is_activation(const char *function) { return find(function) != NULL; }

gd_tensor *gd__activate(const char *function, gd_tensor *x) { return x ? find(function)->fn(x) : NULL; }

static gd_object *activation_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                     void *user)
{
    (void)user;
    const char *function;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) ||
        gd_module_get_string((gd_module *)self, "function", &function))
        return NULL;
    const activation *found = find(function);
    if (found) return gd_tensor_object(found->fn((gd_tensor *)argument));
    return gd__refuse(self->ctx, GD_VALUE, "activation: '%s' is unknown", function);
}

gd_class *gd_class_activation(gd_ctx *ctx) { return gd__layer_class(ctx, "Activation", activation_forward); }

gd_module *gd_activation_new(gd_ctx *ctx, const char *function)
{
    if (!gd__is_activation(function))
        return gd__refuse(ctx, GD_VALUE, "activation: '%s' is unknown", function ? function : "");
    gd_module *m = gd_module_new(gd_class_activation(ctx));
    return m && gd_module_set_string(m, "function", function) ? gd__give_up(m) : m;
}
