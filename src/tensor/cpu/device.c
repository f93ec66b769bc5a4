/* The CPU as a device: memory from the context, kernels from the tables. */
#include "tensor/cpu/cpu.h"

#include <string.h>

static void *cpu_alloc(gd_device *device, size_t bytes) { return gd__alloc(device->ctx, bytes); }

static void cpu_free(gd_device *device, void *data, size_t bytes) { gd__free(device->ctx, data, bytes); }

static gd_status cpu_move(gd_device *device, void *to, const void *from, size_t bytes)
{
    (void)device;
    memcpy(to, from, bytes);
    return GD_OK;
}

static gd_status cpu_sync(gd_device *device)
{
    (void)device;
    return GD_OK;
}

typedef gd_status (*kernel_fn)(gd_device *, const gd_call *);

/* FULL operators call their own kernel, element-wise ones the block runner, views never get here. */
static gd_status no_kernel(gd_device *device, const gd_call *call)
{
    return gd_fail(device->ctx, GD_INTERNAL, "%s: has no kernel", gd__ops[call->op].name);
}

#define KERNEL_FULL(name) gd__cpu_##name
#define KERNEL_LAID(name) gd__cpu_##name
#define KERNEL_MAP(name)  gd__cpu_map
#define KERNEL_TEST(name) gd__cpu_map
#define KERNEL_VIEW(name) no_kernel
static const kernel_fn kernels[GD_OP_COUNT] = {
#define OP(name, nin, nout, kind, ...) KERNEL_##kind(name),
#define OP0                            OP
#include "tensor/ops.def"
};

static gd_status cpu_run(gd_device *device, const gd_call *call) { return kernels[call->op](device, call); }

static void cpu_close(gd_device *device) { (void)device; }

const gd_backend gd__cpu_backend = {
    .name = "cpu",
    .dlpack = 1,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_move,
    .download = cpu_move,
    .sync = cpu_sync,
    .run = cpu_run,
    /* widened, two billion bytes would need sixteen times the memory */
    .narrow = GD_TAKES_SMALL | GD_TAKES_SUMMED,
    .close = cpu_close,
};

gd_isa gd__isa(const gd_ctx *ctx)
{
    const char *isa = ctx->isa && strcmp(ctx->isa, "none") ? ctx->isa : NULL;
#ifdef GD_HAVE_AVX512
    if ((!isa || !strcmp(isa, "avx512")) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return GD_ISA_AVX512;
#endif
#ifdef GD_HAVE_AVX2
    if ((!isa || strcmp(isa, "base")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return GD_ISA_AVX2;
#endif
    (void)isa;
    return GD_ISA_BASE;
}

void gd__cpu_open(gd_ctx *ctx, gd_device *device)
{
    *device = (gd_device){.backend = &gd__cpu_backend, .ctx = ctx, .name = "cpu"};
    const void *table = GD_BY_ISA(ctx, gd__vec);
    memcpy(&device->state, &table, sizeof table);
}
