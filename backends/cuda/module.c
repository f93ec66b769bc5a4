/* Kernels: compiled from source by NVRTC, kept in memory, and as cubins on disk under a name made of source,
 * architecture and driver.  The folder is the private cache folder of compiled programs. */
#define _GNU_SOURCE /* mkostemp */
#include "plugin.h"
#include "base/kernel_cache.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct cuda_module {
    cuda_module *next;
    gd_digest digest;
    CUmodule module;
};

/* ---- compiling ---- */

static void explain(const cuda_api *api, nvrtcProgram program, nvrtcResult result, char *log, size_t log_size)
{
    size_t length = 0;
    char *text = NULL;
    if (program && api->nvrtcGetProgramLogSize(program, &length) == NVRTC_SUCCESS &&
        (text = malloc(length + 1))) {
        if (api->nvrtcGetProgramLog(program, text) != NVRTC_SUCCESS) length = 0;
        text[length] = 0;
    }
    snprintf(log, log_size, "%s: %s", api->nvrtcGetErrorString(result), text ? text : "");
    free(text);
}

char *cuda_compile(const cuda_api *api, const char *source, const char *architecture, size_t *size, char *log,
                   size_t log_size)
{
    char arch[64];
    snprintf(arch, sizeof arch, "--gpu-architecture=%s", architecture);
    const char *const option[] = {arch, "-std=c++17", "--fmad=false", "-default-device"};
    nvrtcProgram program = NULL;
    char *cubin = NULL;
    nvrtcResult result = api->nvrtcCreateProgram(&program, source, "gradus.cu", 0, NULL, NULL);
    if (result == NVRTC_SUCCESS) result = api->nvrtcCompileProgram(program, 4, option);
    if (result == NVRTC_SUCCESS) result = api->nvrtcGetCUBINSize(program, size);
    if (result == NVRTC_SUCCESS && !(cubin = malloc(*size))) result = NVRTC_ERROR_OUT_OF_MEMORY;
    if (result == NVRTC_SUCCESS) result = api->nvrtcGetCUBIN(program, cubin);
    if (result != NVRTC_SUCCESS) {
        explain(api, program, result, log, log_size);
        free(cubin);
        cubin = NULL;
    }
    if (program) (void)api->nvrtcDestroyProgram(&program);
    return cubin;
}

/* ---- the disk ---- */

static void name_file(const gd_digest *digest, char name[64])
{
    snprintf(name, 64, "gd-%016llx%016llx.cubin", (unsigned long long)digest->a,
             (unsigned long long)digest->b);
}

/* The checked copy of a cubin; NULL when there is none. */
static char *read_cached(const gd_cache *cache, const char *name, const gd_digest *digest)
{
    int copy = gd__cache_copy(cache, name, digest);
    struct stat info;
    char *data = NULL;
    if (copy >= 0 && fstat(copy, &info) == 0 && (data = malloc((size_t)info.st_size)) &&
        pread(copy, data, (size_t)info.st_size, 0) != (ssize_t)info.st_size) {
        free(data);
        data = NULL;
    }
    if (copy >= 0) close(copy);
    return data;
}

static void write_cached(const gd_cache *cache, const char *name, const gd_digest *digest, const char *data,
                         size_t size)
{
    char temporary[GD_PATH + 16];
    int fd = gd__cache_temporary(cache, "", temporary);
    if (fd < 0) return;
    const char *made = strrchr(temporary, '/') + 1;
    bool good = write(fd, data, size) == (ssize_t)size;
    good = good && gd__cache_seal(cache, made, digest) && renameat(cache->fd, made, cache->fd, name) == 0;
    if (!good) unlinkat(cache->fd, made, 0);
    close(fd); /* gives up the lock */
    gd__cache_trim(cache);
}

/* ---- loading ---- */

static gd_digest digest_of(gd_device *device, const char *source)
{
    cuda_state *s = cuda_of(device);
    gd_digest d = {0};
    char place[96];
    int driver = 0, nvrtc_major = 0, nvrtc_minor = 0;
    (void)s->api.cuDriverGetVersion(&driver);
    (void)s->api.nvrtcVersion(&nvrtc_major, &nvrtc_minor);
    snprintf(place, sizeof place, "sm_%d%d driver %d nvrtc %d.%d", s->major, s->minor, driver, nvrtc_major,
             nvrtc_minor);
    gd__digest_text(&d, source);
    gd__digest_text(&d, place);
    return d;
}

static gd_status compile_and_load(gd_device *device, const char *key, const char *source,
                                  const gd_cache *cache, const gd_digest *digest, CUmodule *module)
{
    cuda_state *s = cuda_of(device);
    char architecture[16], log[700], name[64];
    size_t size = 0;
    snprintf(architecture, sizeof architecture, "sm_%d%d", s->major, s->minor);
    char *cubin = cuda_compile(&s->api, source, architecture, &size, log, sizeof log);
    if (!cubin)
        return device->host->fail(device->ctx, GD_DEVICE, "%s: the kernel '%s' does not compile: %s",
                                  device->name, key, log);
    CUresult result = s->api.cuModuleLoadData(module, cubin);
    name_file(digest, name);
    if (result == CUDA_SUCCESS && cache) write_cached(cache, name, digest, cubin, size);
    free(cubin);
    char what[128];
    snprintf(what, sizeof what, "loading the kernel '%s'", key);
    return result == CUDA_SUCCESS ? GD_OK : cuda_fail(device, what, result);
}

/* From the disk where a cubin is there that the driver takes. */
static gd_status make_module(gd_device *device, const char *key, const char *source, const gd_digest *digest,
                             CUmodule *module)
{
    gd_cache cache;
    char name[64];
    name_file(digest, name);
    bool cached = gd__cache_open(device->ctx, &cache);
    char *cubin = cached ? read_cached(&cache, name, digest) : NULL;
    bool loaded = cubin && cuda_of(device)->api.cuModuleLoadData(module, cubin) == CUDA_SUCCESS;
    free(cubin);
    gd_status status = loaded ? GD_OK
                              : compile_and_load(device, key, source, cached ? &cache : NULL, digest, module);
    if (cached) gd__cache_close(&cache);
    return status;
}

static gd_status find_module(gd_device *device, const char *key, const char *source, cuda_module **found)
{
    cuda_state *s = cuda_of(device);
    gd_digest digest = digest_of(device, source);
    for (cuda_module *m = s->modules; m; m = m->next)
        if (m->digest.a == digest.a && m->digest.b == digest.b) {
            *found = m;
            return GD_OK;
        }
    cuda_module *m = device->host->alloc(device->ctx, sizeof *m);
    if (!m) return GD_NOMEM;
    *m = (cuda_module){.next = s->modules, .digest = digest};
    gd_status status = make_module(device, key, source, &digest, &m->module);
    if (status)
        device->host->free(device->ctx, m, sizeof *m);
    else
        *found = s->modules = m;
    return status;
}

gd_status cuda_kernel(gd_device *device, const char *key, const char *source, const char *name,
                      CUfunction *kernel)
{
    cuda_module *m = NULL;
    gd_status status = find_module(device, key, source, &m);
    if (status) return status;
    CUDA_TRY(device, cuModuleGetFunction(kernel, m->module, name));
    return GD_OK;
}

void cuda_modules_free(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    while (s->modules) {
        cuda_module *m = s->modules;
        s->modules = m->next;
        (void)s->api.cuModuleUnload(m->module);
        device->host->free(device->ctx, m, sizeof *m);
    }
}

gd_status cuda_launch(gd_device *device, CUfunction f, int64_t blocks, int threads, size_t shared,
                      void **args)
{
    if (blocks <= 0) return GD_OK;
    if (blocks > 0x7fffffff) blocks = 0x7fffffff; /* kernels go round */
    CUDA_TRY(device, cuLaunchKernel(f, (unsigned)blocks, 1, 1, (unsigned)threads, 1, 1, (unsigned)shared,
                                    cuda_of(device)->stream, args, NULL));
    return GD_OK;
}
