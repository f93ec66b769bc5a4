/* A GPU that is none: memory of the host, operators of the CPU, and fused programs as the CUDA source that a GPU would get,
 * translated by the host's C++ compiler and run thread after thread (see host_shim.h).  What execute_device.c does, and what it
 * sends, is tested with it on machines without a GPU.
 *
 * Programs are only collected when they are made; the first launch after that translates all that are waiting at once. */
#ifndef GD_TESTS_CUDA_HOST_GPU_H
#define GD_TESTS_CUDA_HOST_GPU_H

#include "support/support.h"

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/text/text.h"
#include "../../backends/cuda/dialect.h"
#include "program/emit.h"
#include "tensor/device.h"

#define HOST_KERNELS   2000
#define HOST_LIBRARIES 64

typedef void (*host_entry_fn)(const void *args, long long blocks, int threads);

typedef struct host_kernel {
    char *source; /* without the prelude */
    char name[40], unique[64];
    host_entry_fn entry; /* NULL: waiting */
} host_kernel;

typedef struct host_gpu {
    gd_device device;
    gd_device *cpu;
    char *prelude;
    host_kernel kernel[HOST_KERNELS];
    int kernels;
    void *library[HOST_LIBRARIES];
    int libraries;
    int64_t blocks, launches, uploads, downloads, replays; /* blocks of memory alive, and calls */
    int64_t graphs;                                        /* alive */
    int64_t fail_at; /* this call of alloc, upload, download, program, launch or replay fails */
    int64_t calls;
} host_gpu;

static inline host_gpu *host_of(gd_device *device) { return device->state; }

/* ---- the compiler ---- */

static inline int host_command(char *const *words)
{
    extern char **environ;
    pid_t pid;
    int status = 0;
    if (posix_spawnp(&pid, words[0], NULL, NULL, words, environ)) return -1;
    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static inline const char *host_compiler(void)
{
    const char *name = getenv("CXX");
    return name && *name && !strchr(name, ' ') ? name : "c++";
}

/* False, and a word about it, on a machine without a C++ compiler. */
static inline bool host_can_compile(void)
{
    char command[300];
    snprintf(command, sizeof command, "%.200s --version >/dev/null 2>&1", host_compiler());
    if (system(command) == 0) return true;
    print_message("skipped: there is no C++ compiler ('%s')\n", host_compiler());
    return false;
}

/* Translates a source into a shared object and loads it. */
static inline void *host_translate(const char *source)
{
    char folder[] = "/tmp/gradus-host-gpu-XXXXXX", in[64], out[64];
    assert_non_null(mkdtemp(folder));
    snprintf(in, sizeof in, "%s/a.cc", folder);
    snprintf(out, sizeof out, "%s/a.so", folder);
    FILE *file = fopen(in, "w");
    assert_non_null(file);
    assert_true(fputs(source, file) >= 0);
    assert_int_equal(fclose(file), 0);
    char *const words[] = {(char *)(uintptr_t)host_compiler(),
                           "-std=c++17",
                           "-O1",
                           "-w",
                           "-fPIC",
                           "-shared",
                           "-ffp-contract=off",
                           "-fno-builtin",
                           "-fno-strict-aliasing",
                           "-fno-trapping-math",
                           "-Wfatal-errors",
                           "-I",
                           GD_TEST_DIR "/../src",
                           "-include",
                           GD_TEST_DIR "/cuda/host_shim.h",
                           "-o",
                           out,
                           in,
                           NULL};
    int code = host_command(words);
    if (code) print_message("%s: exit code %d\n", in, code);
    assert_int_equal(code, 0);
    void *library = dlopen(out, RTLD_NOW | RTLD_LOCAL);
    if (!library) print_message("%s\n", dlerror());
    assert_non_null(library);
    unlink(in);
    unlink(out);
    rmdir(folder);
    return library;
}

static inline void host_translate_waiting(host_gpu *gpu)
{
    gd_text text = {.ctx = gpu->device.ctx};
    gd__text_put(&text, "%s", gpu->prelude);
    for (int i = 0; i < gpu->kernels; i++) {
        const host_kernel *k = &gpu->kernel[i];
        if (k->entry) continue;
        bool inside = !*k->source; /* a kernel of the prelude */
        if (!inside)
            gd__text_put(&text, "#define %s %s\n%s#undef %s\n", k->name, k->unique, k->source, k->name);
        gd__text_put(&text, "HOST_ENTRY(%s)\n", inside ? k->name : k->unique);
    }
    assert_false(text.failed);
    void *library = host_translate(text.data);
    gd__text_free(&text);
    assert_true(gpu->libraries < HOST_LIBRARIES);
    gpu->library[gpu->libraries++] = library;
    for (int i = 0; i < gpu->kernels; i++) {
        host_kernel *k = &gpu->kernel[i];
        if (k->entry) continue;
        char symbol[96];
        snprintf(symbol, sizeof symbol, "host_%s", *k->source ? k->unique : k->name);
        void *found = dlsym(library, symbol);
        assert_non_null(found);
        memcpy(&k->entry, &found, sizeof found);
    }
}

/* ---- the backend ---- */

static inline bool host_fails(gd_device *device, gd_status status, const char *what)
{
    host_gpu *gpu = host_of(device);
    if (++gpu->calls != gpu->fail_at) return false;
    (void)gd_fail(device->ctx, status, "%s: %s failed on purpose", device->name, what);
    return true;
}

static inline void *host_alloc(gd_device *device, size_t bytes)
{
    assert_true(bytes > 0); /* the driver refuses none */
    if (host_fails(device, GD_NOMEM, "alloc")) return NULL;
    host_of(device)->blocks++;
    return gd__system_alloc(NULL, NULL, 0, bytes);
}

static inline void host_free(gd_device *device, void *data, size_t bytes)
{
    assert_non_null(data);
    host_of(device)->blocks--;
    (void)gd__system_alloc(NULL, data, bytes, 0);
}

static inline gd_status host_upload(gd_device *device, void *to, const void *host, size_t bytes)
{
    if (host_fails(device, GD_DEVICE, "upload")) return GD_DEVICE;
    host_of(device)->uploads++;
    memcpy(to, host, bytes);
    return GD_OK;
}

static inline gd_status host_download(gd_device *device, void *host, const void *from, size_t bytes)
{
    if (host_fails(device, GD_DEVICE, "download")) return GD_DEVICE;
    host_of(device)->downloads++;
    memcpy(host, from, bytes);
    return GD_OK;
}

static inline gd_status host_sync(gd_device *device)
{
    (void)device;
    return GD_OK;
}

static inline gd_status host_operator(gd_device *device, const gd_call *call)
{
    gd_device *cpu = host_of(device)->cpu;
    return cpu->backend->run(cpu, call);
}

static inline void *host_program(gd_device *device, const char *source, const char *name)
{
    host_gpu *gpu = host_of(device);
    size_t prelude = strlen(gpu->prelude);
    if (host_fails(device, GD_DEVICE, "program")) return NULL;
    if (!strncmp(source, "#define JOINS\n", 14)) source += 14;
    assert_true(!strncmp(source, gpu->prelude, prelude));
    for (int i = 0; i < gpu->kernels; i++)
        if (!strcmp(gpu->kernel[i].source, source + prelude) && !strcmp(gpu->kernel[i].name, name))
            return &gpu->kernel[i];
    assert_true(gpu->kernels < HOST_KERNELS);
    host_kernel *k = &gpu->kernel[gpu->kernels++];
    *k = (host_kernel){.source = strdup(source + prelude)};
    assert_non_null(k->source);
    snprintf(k->name, sizeof k->name, "%s", name);
    snprintf(k->unique, sizeof k->unique, "%.30s_%d", name, gpu->kernels);
    return k;
}

static inline gd_status host_launch(gd_device *device, const gd_launch *launch)
{
    host_gpu *gpu = host_of(device);
    host_kernel *k = launch->kernel;
    if (host_fails(device, GD_DEVICE, "launch")) return GD_DEVICE;
    if (!k->entry) host_translate_waiting(gpu);
    gpu->launches++;
    /* in these the threads wait for each other */
    bool waits = !strcmp(k->name, "join_all") || !strcmp(k->name, "join_along");
    k->entry(launch->args, launch->blocks, waits ? 1 : launch->threads);
    return GD_OK;
}

/* As the driver does: a graph has arguments of its own, which are replaced before it runs. */
#define HOST_NODES 64
typedef struct host_graph {
    gd_launch launch[HOST_NODES];
    int count;
} host_graph;

static inline void host_forget(gd_device *device, void *made)
{
    host_graph *g = made;
    host_of(device)->graphs--;
    for (int i = 0; i < g->count; i++) free(g->launch[i].args);
    free(g);
}

static inline gd_status host_replay(gd_device *device, void **made, const gd_launch *launch, int count)
{
    if (host_fails(device, GD_DEVICE, "replay")) return GD_DEVICE;
    host_graph *g = *made;
    assert_true(count > 0 && count <= HOST_NODES);
    if (!g) {
        assert_non_null(g = *made = calloc(1, sizeof *g));
        host_of(device)->graphs++;
        g->count = count;
        for (int i = 0; i < count; i++) {
            g->launch[i] = launch[i];
            assert_non_null(g->launch[i].args = malloc(launch[i].bytes));
        }
    }
    assert_int_equal(g->count, count);
    host_of(device)->replays++;
    for (int i = 0; i < count; i++) {
        assert_ptr_equal(g->launch[i].kernel, launch[i].kernel);
        memcpy(g->launch[i].args, launch[i].args, launch[i].bytes);
    }
    gd_status status = GD_OK;
    for (int i = 0; i < count && !status; i++) status = host_launch(device, &g->launch[i]);
    return status;
}

static inline void host_close(gd_device *device) { (void)device; }

static inline host_gpu *host_gpu_open(gd_ctx *ctx)
{
    static const gd_backend backend = {.name = "gpu",
                                       .alloc = host_alloc,
                                       .free = host_free,
                                       .upload = host_upload,
                                       .download = host_download,
                                       .sync = host_sync,
                                       .run = host_operator,
                                       .dialect = &cuda_dialect,
                                       .program = host_program,
                                       .launch = host_launch,
                                       .replay = host_replay,
                                       .forget = host_forget,
                                       .close = host_close};
    host_gpu *gpu = calloc(1, sizeof *gpu);
    assert_non_null(gpu);
    gpu->cpu = gd_device_get(ctx, "cpu");
    gpu->device = (gd_device){.backend = &backend, .ctx = ctx, .name = "host gpu", .state = gpu};
    gd_text text = {.ctx = ctx};
    gd__put_lines(&text, cuda_dialect.prelude);
    assert_false(text.failed);
    gpu->prelude = strdup(text.data);
    gd__text_free(&text);
    assert_non_null(gpu->prelude);
    return gpu;
}

/* When nothing is on it any more. */
static inline void host_gpu_close(host_gpu *gpu)
{
    assert_int_equal(gpu->blocks, 0);
    assert_int_equal(gpu->graphs, 0);
    for (int i = 0; i < gpu->kernels; i++) free(gpu->kernel[i].source);
    for (int i = 0; i < gpu->libraries; i++) dlclose(gpu->library[i]);
    free(gpu->prelude);
    free(gpu);
}

#endif
