/* The GPU of host_gpu.h with memory that the host cannot touch: it lies in an arena that is only readable while the device
 * itself works.  What reads or writes a tensor's data without asking the device dies with a signal, as on a GPU. */
#ifndef GD_TESTS_CUDA_GUARDED_H
#define GD_TESTS_CUDA_GUARDED_H

#include "cuda/host_gpu.h"

#include <sys/mman.h>

#define GUARDED_ROOM ((size_t)1 << 30)

typedef struct guarded_gpu {
    host_gpu *gpu;
    char *arena;
    size_t used;     /* blocks are never given out twice before the device is opened again */
    bool collecting; /* launches only note the kernels, so that all of them are translated at once */
} guarded_gpu;

static guarded_gpu guarded;

static inline void guarded_lock(bool locked)
{
    size_t bytes = (guarded.used + 4095) & ~(size_t)4095;
    if (bytes)
        assert_int_equal(mprotect(guarded.arena, bytes, locked ? PROT_NONE : PROT_READ | PROT_WRITE), 0);
}

static inline void *guarded_alloc(gd_device *device, size_t bytes)
{
    assert_true(bytes > 0 && guarded.used + bytes + 256 < GUARDED_ROOM);
    void *block = guarded.arena + guarded.used;
    guarded.used += (bytes + 255) & ~(size_t)255;
    host_of(device)->blocks++;
    return block;
}

static inline void guarded_free(gd_device *device, void *data, size_t bytes)
{
    (void)data, (void)bytes;
    host_of(device)->blocks--;
}

#define GUARDED_CALL(call)          \
    do {                            \
        guarded_lock(false);        \
        gd_status status_ = (call); \
        guarded_lock(true);         \
        return status_;             \
    } while (0)

static inline gd_status guarded_upload(gd_device *device, void *to, const void *host, size_t bytes)
{
    GUARDED_CALL(host_upload(device, to, host, bytes));
}

static inline gd_status guarded_download(gd_device *device, void *host, const void *from, size_t bytes)
{
    GUARDED_CALL(host_download(device, host, from, bytes));
}

static inline gd_status guarded_run(gd_device *device, const gd_call *call)
{
    GUARDED_CALL(host_operator(device, call));
}

static inline gd_status guarded_launch(gd_device *device, const gd_launch *launch)
{
    if (guarded.collecting) return GD_OK;
    GUARDED_CALL(host_launch(device, launch));
}

/* One device for all contexts, one after the other: kernels are translated once. */
static inline gd_device *guarded_open(gd_ctx *ctx)
{
    static const gd_backend backend = {.name = "gpu",
                                       .alloc = guarded_alloc,
                                       .free = guarded_free,
                                       .upload = guarded_upload,
                                       .download = guarded_download,
                                       .sync = host_sync,
                                       .run = guarded_run,
                                       .dialect = &cuda_dialect,
                                       .program = host_program,
                                       .launch = guarded_launch,
                                       .close = host_close};
    if (!guarded.gpu) {
        guarded.gpu = host_gpu_open(ctx);
        guarded.gpu->device.backend = &backend;
        guarded.arena = mmap(NULL, GUARDED_ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                             0);
        assert_true(guarded.arena != MAP_FAILED);
    }
    assert_int_equal(guarded.gpu->blocks, 0);
    guarded.used = 0;
    guarded.gpu->device.ctx = ctx;
    guarded.gpu->cpu = gd_device_get(ctx, "cpu");
    return &guarded.gpu->device;
}

static inline void guarded_close(void)
{
    if (!guarded.gpu) return;
    host_gpu_close(guarded.gpu);
    munmap(guarded.arena, GUARDED_ROOM);
    guarded = (guarded_gpu){.gpu = NULL};
}

#endif
