/* Code shared by the layers: classes, initial values, children. */
#include "module/layers/layer.h"

gd_status gd__layer_size(gd_ctx *ctx, const char *layer, const char *what, int64_t size)
{
    if (size >= 1) return GD_OK;
    return gd_fail(ctx, GD_VALUE, "%s: %s is %lld, must be at least 1", layer, what, (long long)size);
}

/* Random numbers are drawn in f32 or f64 and rounded to the smaller dtypes. */
static gd_dtype drawn_dtype(gd_dtype dtype) { return dtype == GD_F64 ? GD_F64 : GD_F32; }

/* Casts, names and assigns the initial value, then ends the local scope it was made in. */
static gd_status finish(gd_module *module, const char *name, gd_dtype dtype, gd_tensor *value,
                        const char *axes)
{
    if (value && value->dtype != dtype) value = gd_cast(value, dtype);
    if (value && axes) value = gd_rename(value, axes);
    gd_status status = value ? gd_module_set_parameter(module, name, value) : gd__failure(module, GD_NOMEM);
    gd_scope_end(module->head.ctx);
    return status;
}

gd_status gd__init_uniform(gd_module *module, const char *name, gd_dtype dtype, int ndim,
                           const int64_t *shape, double bound, const char *axes)
{
    gd_ctx *ctx = module->head.ctx;
    if (!gd__local_begin(ctx)) return GD_NOMEM;
    gd_tensor *unit = gd_rand(ctx, drawn_dtype(dtype), ndim, shape);
    return finish(module, name, dtype, gd_add_scalar(gd_mul_scalar(unit, 2 * bound), -bound), axes);
}

gd_status gd__init_normal(gd_module *module, const char *name, gd_dtype dtype, int ndim, const int64_t *shape,
                          double std)
{
    gd_ctx *ctx = module->head.ctx;
    if (!gd__local_begin(ctx)) return GD_NOMEM;
    gd_tensor *unit = gd_randn(ctx, drawn_dtype(dtype), ndim, shape);
    return finish(module, name, dtype, gd_mul_scalar(unit, std), NULL);
}

gd_status gd__init_constant(gd_module *module, const char *name, gd_dtype dtype, int64_t size, double value)
{
    gd_ctx *ctx = module->head.ctx;
    if (!gd__local_begin(ctx)) return GD_NOMEM;
    return finish(module, name, dtype, gd_full(ctx, dtype, 1, &size, value), NULL);
}

gd_status gd__add_child(gd_module *module, const char *name, gd_module *child)
{
    if (!child) return gd__failure(module, GD_ARGUMENT);
    gd_status status = gd_module_set_module(module, name, child);
    gd__user_release(child);
    return status;
}

gd_tensor *gd__optional(gd_module *module, const char *name)
{
    return gd_module_has(module, name) ? gd_module_get_tensor(module, name) : NULL;
}

gd_tensor *gd__norm_input(gd_object *self, gd_tensor *x, const gd_kwargs *kwargs, const char *layer,
                          double *eps)
{
    gd_module *m = (gd_module *)self;
    int64_t size;
    if (gd_kwargs_only(self->ctx, kwargs, NULL) || gd_module_get_int(m, "size", &size) ||
        gd_module_get_real(m, "eps", eps))
        return NULL;
    if (gd_size(x, -1) != size)
        return gd__refuse(self->ctx, GD_SHAPE, "%s: the last axis has %lld elements, expected %lld", layer,
                          (long long)gd_size(x, -1), (long long)size);
    return x->axes ? gd_drop_names(x) : x;
}

gd_module *gd__norm_module(gd_ctx *ctx, gd_class *(*cls)(gd_ctx *), const char *layer, int64_t size,
                           double eps, bool affine, gd_dtype dtype)
{
    if (gd__layer_size(ctx, layer, "size", size)) return NULL;
    gd_module *m = gd_module_new(cls(ctx));
    if (!m) return NULL;
    gd_status status = gd_module_set_int(m, "size", size);
    if (!status) status = gd_module_set_real(m, "eps", eps);
    if (!status && affine) status = gd__init_constant(m, "weight", dtype, size, 1);
    return status ? gd__give_up(m) : m;
}
