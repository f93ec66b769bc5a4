/* Dropout (Srivastava et al. 2014) and flatten: layers without parameters. */
#include "module/layers/layer.h"

static gd_object *dropout_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    double p;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) || gd_module_get_real(m, "p", &p)) return NULL;
    gd_tensor *x = (gd_tensor *)argument;
    return gd_tensor_object(gd_module_is_training(m) ? gd_dropout(x, p) : gd__another_handle(x));
}

gd_class *gd_class_dropout(gd_ctx *ctx) { return gd__layer_class(ctx, "Dropout", dropout_forward); }

gd_module *gd_dropout_layer_new(gd_ctx *ctx, double p)
{
    if (!(p >= 0 && p < 1))
        return gd__refuse(ctx, GD_VALUE, "dropout: p is %g, must be at least 0 and below 1", p);
    gd_module *m = gd_module_new(gd_class_dropout(ctx));
    return m && gd_module_set_real(m, "p", p) ? gd__give_up(m) : m;
}

static gd_object *flatten_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    gd_tensor *x = (gd_tensor *)argument;
    if (gd_kwargs_only(self->ctx, kwargs, NULL)) return NULL;
    if (x->ndim < 1) return gd__refuse(self->ctx, GD_SHAPE, "flatten: the input has no axis of examples");
    return gd_tensor_object(gd_reshape(x, 2, (int64_t[]){x->size[0], -1}));
}

gd_class *gd_class_flatten(gd_ctx *ctx) { return gd__layer_class(ctx, "Flatten", flatten_forward); }

gd_module *gd_flatten_new(gd_ctx *ctx) { return gd_module_new(gd_class_flatten(ctx)); }
