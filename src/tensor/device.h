/* Devices: where storage lives and kernels run.  The CPU is built in; a plugin fills the same table. */
#ifndef GD_TENSOR_DEVICE_H
#define GD_TENSOR_DEVICE_H

#include "tensor/tensor.h"

typedef struct gd_backend {
    const char *name;                                /* "cpu", "gpu" */
    void *(*alloc)(gd_device *device, size_t bytes); /* NULL with the error recorded */
    void (*free)(gd_device *device, void *data, size_t bytes);
    gd_status (*upload)(gd_device *device, void *to, const void *host, size_t bytes);
    gd_status (*download)(gd_device *device, void *host, const void *from, size_t bytes);
    gd_status (*sync)(gd_device *device);
    gd_status (*run)(gd_device *device, const gd_call *call);
    bool native_half; /* FULL kernels take f16 and bf16 themselves */
    void (*close)(gd_device *device);
} gd_backend;

struct gd_device {
    const gd_backend *backend;
    gd_ctx *ctx;
    int index;
    char name[16];
    void *state; /* the backend's own */
};

/* What a plugin exports as `gd_plugin_open`: fills *device (index set) or records an error. */
typedef gd_status (*gd_plugin_open_fn)(gd_device *device);
typedef int (*gd_plugin_count_fn)(gd_ctx *ctx);

#endif
