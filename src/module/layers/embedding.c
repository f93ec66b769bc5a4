/* Embedding: rows of a table chosen by integers.  Initial values: weight normal with mean 0 and deviation std. */
#include "module/layers/layer.h"

gd_embedding_options gd_embedding_defaults(void) { return (gd_embedding_options){.std = 1, .dtype = GD_F32}; }

static gd_object *embedding_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs, void *user)
{
    (void)user;
    if (gd_kwargs_only(self->ctx, kwargs, NULL)) return NULL;
    gd_tensor *weight = gd_module_get_tensor((gd_module *)self, "weight");
    return gd_tensor_object(gd_embedding(weight, (gd_tensor *)argument));
}

gd_class *gd_class_embedding(gd_ctx *ctx) { return gd__layer_class(ctx, "Embedding", embedding_forward); }

gd_module *gd_embedding_new(gd_ctx *ctx, int64_t count, int64_t size, const gd_embedding_options *options)
{
    gd_embedding_options o = options ? *options : gd_embedding_defaults();
    if (gd__layer_size(ctx, "embedding", "count", count) || gd__layer_size(ctx, "embedding", "size", size))
        return NULL;
    gd_module *m = gd_module_new(gd_class_embedding(ctx));
    if (!m) return NULL;
    return gd__init_normal(m, "weight", o.dtype, 2, (int64_t[]){count, size}, o.std) ? gd__give_up(m) : m;
}
