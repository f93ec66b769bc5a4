/* The CPU as a device: memory from the context, kernels from the tables. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include "tensor/cpu/cpu.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
#define KERNEL_MAP(name)  gd__cpu_map
#define KERNEL_TEST(name) gd__cpu_map
#define KERNEL_VIEW(name) no_kernel
static const kernel_fn kernels[GD_OP_COUNT] = {
#define OP(name, nin, nout, kind, needs) KERNEL_##kind(name),
#define OP0                              OP
#include "tensor/ops.def"
#undef OP
#undef OP0
};

static gd_status cpu_run(gd_device *device, const gd_call *call) { return kernels[call->op](device, call); }

/* Small integers are reduced where they lie: widened, two thousand million bytes would ask for sixteen times the memory. */
static bool cpu_native(gd_op_id op, gd_dtype dtype)
{
    bool small = dtype == GD_U8 || dtype == GD_BOOL || dtype == GD_I32;
    return small && (op == GD_OP_sum || op == GD_OP_prod || op == GD_OP_argmax || op == GD_OP_argmin);
}

static void cpu_close(gd_device *device) { (void)device; }

static const gd_backend cpu_backend = {
    .name = "cpu",
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_move,
    .download = cpu_move,
    .sync = cpu_sync,
    .run = cpu_run,
    .native = cpu_native,
    .close = cpu_close,
};

/* The best table this CPU can run, unless the context asks for another. */
static const gd_vec_table *choose_table(const char *isa)
{
#ifdef GD_HAVE_AVX512
    if ((!isa || !strcmp(isa, "avx512")) && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw"))
        return &gd__vec_avx512;
#endif
#ifdef GD_HAVE_AVX2
    if ((!isa || strcmp(isa, "base")) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &gd__vec_avx2;
#endif
    (void)isa;
    return &gd__vec_base;
}

/* ---- the devices of a context ---- */

#define MAX_GPUS 16

typedef struct devices {
    gd_device cpu;
    gd_device gpu[MAX_GPUS];
    void *plugin; /* dlopen handle */
    bool searched;
    char why[512]; /* why there is no plugin */
} devices;

static const char devices_key;

static void devices_destroy(gd_ctx *ctx, void *data)
{
    devices *all = data;
    for (int i = 0; i < MAX_GPUS; i++)
        if (all->gpu[i].backend) all->gpu[i].backend->close(&all->gpu[i]);
    if (all->plugin) dlclose(all->plugin);
    ctx->cpu = NULL;
    gd__free(ctx, all, sizeof *all);
}

static void *devices_make(gd_ctx *ctx)
{
    devices *all = gd__calloc(ctx, sizeof *all);
    if (!all) return NULL;
    all->cpu = (gd_device){.backend = &cpu_backend, .ctx = ctx, .name = "cpu"};
    const void *table = choose_table(ctx->isa);
    memcpy(&all->cpu.state, &table, sizeof table);
    return all;
}

static devices *devices_of(gd_ctx *ctx)
{
    return gd__extension(ctx, &devices_key, devices_make, devices_destroy);
}

gd_device *gd__cpu(gd_ctx *ctx)
{
    if (!ctx) return NULL;
    if (ctx->cpu) return ctx->cpu;
    devices *all = devices_of(ctx);
    return ctx->cpu = all ? &all->cpu : NULL;
}

static bool open_plugin(devices *all, const char *file)
{
    all->plugin = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const char *why = all->plugin ? "" : dlerror();
    snprintf(all->why, sizeof all->why, "%s", why ? why : "unknown reason");
    return all->plugin != NULL;
}

/* Looks for the plugin beside the library's or program's own file and in ../lib from there, then where the loader looks.
 * GRADUS_CUDA names another file. */
static void *find_plugin(devices *all)
{
    static const char *const places[] = {"", "/../lib"};
    const char *file = secure_getenv("GRADUS_CUDA"), *slash;
    char path[1024];
    Dl_info self;
    if (all->searched) return all->plugin;
    all->searched = true;
    bool known = dladdr(&devices_key, &self) && self.dli_fname && (slash = strrchr(self.dli_fname, '/'));
    for (int i = 0; i < 2 && known && !file; i++) {
        snprintf(path, sizeof path, "%.*s%s/libgradus_cuda.so", (int)(slash - self.dli_fname), self.dli_fname,
                 places[i]);
        if (access(path, R_OK) == 0 && open_plugin(all, path)) return all->plugin;
        if (all->why[0]) return NULL; /* it is there, but does not load: that is the reason to tell */
    }
    (void)open_plugin(all, file ? file : "libgradus_cuda.so");
    return all->plugin;
}

static void *plugin_symbol(devices *all, const char *name)
{
    void *symbol = find_plugin(all) ? dlsym(all->plugin, name) : NULL;
    if (all->plugin && !symbol) snprintf(all->why, sizeof all->why, "it has no '%s'", name);
    return symbol;
}

int gd_gpu_count(gd_ctx *ctx)
{
    if (!ctx) return 0;
    devices *all = devices_of(ctx);
    void *symbol = all ? plugin_symbol(all, "gd_plugin_count") : NULL;
    if (!symbol) return 0;
    gd_plugin_count_fn count;
    memcpy(&count, &symbol, sizeof count);
    return count(ctx);
}

bool gd_gpu_describe(gd_ctx *ctx, int index, char *text, size_t size)
{
    if (!ctx) return false;
    devices *all = devices_of(ctx);
    void *symbol = all ? plugin_symbol(all, "gd_plugin_describe") : NULL;
    if (!symbol) return false;
    gd_plugin_describe_fn describe;
    memcpy(&describe, &symbol, sizeof describe);
    return describe(index, text, size);
}

static const gd_host host = {
    .layout = GD_PLUGIN_LAYOUT, .fail = gd_fail, .alloc = gd__alloc, .free = gd__free, .ops = gd__ops};

static gd_device *open_gpu(gd_ctx *ctx, devices *all, int index)
{
    gd_device *gpu = &all->gpu[index];
    if (gpu->backend) return gpu;
    void *symbol = plugin_symbol(all, "gd_plugin_open");
    if (!symbol) {
        (void)gd_fail(ctx, GD_DEVICE, "device 'gpu:%d': the CUDA plugin could not be loaded (%s)", index,
                      all->why);
        return NULL;
    }
    gd_plugin_open_fn open;
    memcpy(&open, &symbol, sizeof open);
    *gpu = (gd_device){.ctx = ctx, .index = index, .host = &host};
    snprintf(gpu->name, sizeof gpu->name, "gpu:%d", index);
    if (open(gpu) == GD_OK) return gpu;
    gpu->backend = NULL;
    return NULL;
}

gd_device *gd_device_get(gd_ctx *ctx, const char *name)
{
    if (!ctx) return NULL;
    if (name && !strcmp(name, "cpu")) return gd__cpu(ctx);
    devices *all = devices_of(ctx);
    if (!all) return NULL;
    if (name && !strncmp(name, "gpu", 3) && (!name[3] || name[3] == ':')) {
        char *end = NULL;
        long index = name[3] ? strtol(name + 4, &end, 10) : 0;
        if (!name[3] || (end != name + 4 && !*end && index >= 0 && index < MAX_GPUS))
            return open_gpu(ctx, all, (int)index);
    }
    (void)gd_fail(ctx, GD_DEVICE, "device '%.40s' is not one of 'cpu', 'gpu', 'gpu:0' to 'gpu:%d'",
                  name ? name : "", MAX_GPUS - 1);
    return NULL;
}

const char *gd_device_name(const gd_device *device) { return device ? device->name : "none"; }

gd_status gd_device_sync(gd_device *device) { return device ? device->backend->sync(device) : GD_ARGUMENT; }
