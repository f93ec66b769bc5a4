/* A module with a weight, and virtual tensors that count how often they are computed. */
#ifndef GD_TESTS_VIRTUAL_SUPPORT_H
#define GD_TESTS_VIRTUAL_SUPPORT_H

#include "module/support.h"

/* A function of the owner that counts its calls: twice the weight. */
typedef struct counter {
    int calls, ends;
} counter;

static inline gd_tensor *twice(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    (void)dtype, (void)device;
    if (user) ((counter *)user)->calls++;
    return gd_mul_scalar(gd_module_get_tensor(owner, "weight"), 2);
}

static inline gd_virtual_options by_function(gd_materializer fn, void *user)
{
    gd_virtual_options options = gd_virtual_defaults();
    options.fn = fn;
    options.user = user;
    options.dtype = GD_F64;
    return options;
}

/* A module with weight [1, 2, 3] that wants gradients. */
static inline gd_module *net(gd_ctx *ctx)
{
    gd_module *m = gd_module_new(module_class(ctx, "Net"));
    ok(gd_module_set_parameter(m, "weight", VECTOR(ctx, 1, 2, 3)));
    return m;
}

#endif
