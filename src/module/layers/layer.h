/* Common code of the layers. */
#ifndef GD_MODULE_LAYERS_LAYER_H
#define GD_MODULE_LAYERS_LAYER_H

#include "gradus/layers.h"
#include "module/module_internal.h"
#include "tensor/shape.h"

/* VALUE, naming the layer and the size, unless it is at least 1. */
gd_status gd__layer_size(gd_ctx *ctx, const char *layer, const char *what, int64_t size);

/* Sets a parameter with values uniform in [-bound, bound), normal with deviation std, or all equal.  `axes` names the
 * axes ("out, in"; NULL: anonymous). */
gd_status gd__init_uniform(gd_module *module, const char *name, gd_dtype dtype, int ndim,
                           const int64_t *shape, double bound, const char *axes);
gd_status gd__init_normal(gd_module *module, const char *name, gd_dtype dtype, int ndim, const int64_t *shape,
                          double std);
gd_status gd__init_constant(gd_module *module, const char *name, gd_dtype dtype, int64_t size, double value);

/* Assigns a new child (NULL: its constructor failed) to the module; consumed. */
gd_status gd__add_child(gd_module *module, const char *name, gd_module *child);

/* The tensor of an attribute, or NULL without an error when there is no such attribute. */
gd_tensor *gd__optional(gd_module *module, const char *name);

/* The input of a norm over the last axis, without names so that an anonymous weight meets that axis, and *eps.  SHAPE, naming the layer, if
 * the axis has not the module's size; NULL. */
gd_tensor *gd__norm_input(gd_object *self, gd_tensor *x, const gd_kwargs *kwargs, const char *layer,
                          double *eps);
/* A module of such a norm: size, eps and, if affine, a weight of ones.  New. */
gd_module *gd__norm_module(gd_ctx *ctx, gd_class *(*cls)(gd_ctx *), const char *layer, int64_t size,
                           double eps, bool affine, gd_dtype dtype);

/* Releases a module whose construction failed; returns NULL. */
static inline gd_module *gd__give_up(gd_module *module)
{
    gd__release(module);
    return NULL;
}

/* Applies "relu", "gelu", ...; the name was checked. */
gd_tensor *gd__activate(const char *function, gd_tensor *x);
bool gd__is_activation(const char *function);

#endif
