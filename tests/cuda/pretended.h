/* A device of the plugin on the driver that only pretends, and operators run there. */
#ifndef GD_TESTS_CUDA_PRETENDED_H
#define GD_TESTS_CUDA_PRETENDED_H

#include "support/op_cases.h"

#include "cuda/fake_driver.h"

static const gd_host host = {
    .layout = GD_PLUGIN_LAYOUT, .fail = gd_fail, .alloc = gd__alloc, .free = gd__free, .ops = gd__ops};

static gd_ctx *cached_context(memory *m, const char *folder)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.cache_dir = folder;
    if (m) {
        options.allocator = memory_allocator(m);
        options.pool = false;
    }
    return gd_ctx_new(&options);
}

/* As gd_plugin_open does, but for the libraries. */
static gd_status open_fake(gd_ctx *ctx, gd_device *device, int index, const cuda_api *api)
{
    *device = (gd_device){.ctx = ctx, .index = index, .host = &host};
    snprintf(device->name, sizeof device->name, "gpu:%d", index);
    cuda_state *s = gd__calloc(ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    s->api = *api;
    device->state = s;
    return cuda_open(device);
}

static void close_fake(gd_device *device)
{
    if (device->backend) device->backend->close(device);
    device->backend = NULL;
}

/* The operator with its gradient; false with the error recorded. */
static bool run_case(gd_ctx *ctx, const case_inputs *in, gd_device *gpu, bool gradient)
{
    gd_tensor *there[MAX_OPERANDS] = {NULL};
    const op_case *c = in->c;
    bool wanted = gradient && c->order > 0;
    for (int k = 0; k < c->operands; k++) {
        there[k] = case_moved(in->leaf[k], gpu);
        if (there[k] && wanted && gd_dtype_is_float(gd_tensor_dtype(there[k])))
            there[k] = gd_require_grad(gd_detach(there[k]));
    }
    gd_tensor *out = case_apply(in, ctx, there);
    if (out && wanted && gd_requires_grad(out)) {
        gd_tensor *loss = gd_sum(gd_drop_names(out), NULL, false);
        if (loss) (void)!gd_backward(loss, NULL, 0);
        for (int k = 0; k < c->operands; k++) gd_zero_grad(there[k]);
    }
    return out && !gd_error(ctx);
}

#endif
