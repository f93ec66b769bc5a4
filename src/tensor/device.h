/* Devices: memory of storages, and execution of kernels.  The CPU is built in; a plugin fills the same table. */
#ifndef GD_TENSOR_DEVICE_H
#define GD_TENSOR_DEVICE_H

#include "tensor/tensor_internal.h"

/* One start of a kernel made by gd_backend.program: all its arguments are one struct. */
typedef struct gd_launch {
    void *kernel;
    void *args;
    size_t bytes; /* of the arguments */
    int64_t blocks;
    int threads;
} gd_launch;

/* ---- element-wise operators as one kernel ---- */

#define GD_FUSED_STEPS 32
#define GD_FUSED_READS 16

typedef enum gd_read_way { GD_READ_DENSE, GD_READ_ONE, GD_READ_STRIDED } gd_read_way;

typedef struct gd_fused_step {
    gd_op_id op; /* element-wise, copy or cast */
    int nin;
    int in[3];                  /* number of a read; of an earlier step: -1 - its number */
    gd_dtype first, other, out; /* of the first operand, of the others, of the result */
    int store;                  /* which result in memory it is; -1: none */
} gd_fused_step;

/* The bits are those of the operators one by one: each result is rounded to its dtype. */
typedef struct gd_fusion {
    int steps, reads, stores;
    gd_fused_step step[GD_FUSED_STEPS];
    struct {
        gd_dtype dtype;
        gd_read_way way;
    } read[GD_FUSED_READS];
} gd_fusion;

/* The only argument of its kernel: element i of all results, i below n, from element i of what is dense, or from the place that i
 * has in the sizes. */
typedef struct gd_fused_launch {
    int64_t n, ndim, size[GD_MAX_DIMS];
    const void *in[GD_FUSED_READS];
    int64_t stride[GD_FUSED_READS][GD_MAX_DIMS];
    void *out[GD_FUSED_STEPS];
    double f[GD_FUSED_STEPS][2]; /* settings of each step */
} gd_fused_launch;

/* ---- a run of kernels as one graph ---- */

typedef struct gd_capturing {
    /* From here on work is noted instead of done.  False with the reason, and without an error: it cannot be. */
    bool (*begin)(gd_device *device, char *why, size_t size);
    /* Makes a graph of what was noted, which may replace the one that *graph was before; NULL: there was none.  False with the
     * reason, and without an error: then *graph is NULL. */
    bool (*end)(gd_device *device, void **graph, char *why, size_t size);
    gd_status (*launch)(gd_device *device, void *graph);
    void (*free)(gd_device *device, void *graph);
} gd_capturing;

typedef struct gd_backend {
    const char *name;                                /* "cpu", "gpu" */
    void *(*alloc)(gd_device *device, size_t bytes); /* NULL with the error recorded */
    void (*free)(gd_device *device, void *data, size_t bytes);
    gd_status (*upload)(gd_device *device, void *to, const void *host, size_t bytes);
    gd_status (*download)(gd_device *device, void *host, const void *from, size_t bytes);
    gd_status (*sync)(gd_device *device);
    /* Switches to a different stream, after the work queued on the current one; and returns the current stream. NULL, both: no streams. */
    gd_status (*use_stream)(gd_device *device, void *stream);
    void *(*stream)(const gd_device *device);
    gd_status (*run)(gd_device *device, const gd_call *call);
    /* False for an operator that run does not implement: the host runs it on copies (on_host.c). NULL: it implements all. */
    bool (*has)(gd_op_id op);
    /* Of GD_TAKES_HALVES, GD_TAKES_SUMMED and GD_TAKES_SMALL: those that its kernels accept if ops.def allows them for the operator. */
    uint8_t narrow;
    int32_t dlpack; /* its memory's number in DLPack; 0: none */
    /* Fused programs: how their source is written (program/dialect.h), a kernel made of it, and its run over a table of
     * tensors.  NULL, all of them: the host interprets programs on copies. */
    const struct gd_dialect *dialect;
    void *(*program)(gd_device *device, const char *source, const char *name);
    gd_status (*launch)(gd_device *device, const gd_launch *launch);
    /* Several launches as one, each after the one before it.  *graph is NULL the first time and then stores them; arguments
     * may differ each time.  Ends with forget. */
    gd_status (*replay)(gd_device *device, void **graph, const gd_launch *launch, int count);
    void (*forget)(gd_device *device, void *graph);
    /* A kernel for launch that does what a fusion says; NULL with the error recorded.  NULL: it has none. */
    void *(*fuse)(gd_device *device, const gd_fusion *fusion);
    const gd_capturing *capture; /* NULL: it has no graphs */
    void (*close)(gd_device *device);
} gd_backend;

/* Functions for plugins, which are not linked against the library. The first two members keep their position, so that a
 * plugin of a different version can be detected. */
typedef struct gd_host {
    uint64_t layout; /* GD_PLUGIN_LAYOUT of the library */
    gd_status (*fail)(gd_ctx *ctx, gd_status status, const char *format, ...) GD_PRINTF(3, 4);
    void *(*alloc)(gd_ctx *ctx, size_t size);
    void (*free)(gd_ctx *ctx, void *block, size_t size);
    const gd_op *ops;
    /* The plain kernels, for tensors whose memory the host can reach at the moment. */
    gd_status (*plain)(gd_ctx *ctx, const gd_call *call);
    gd_device *(*device)(gd_ctx *ctx, const char *name); /* gd_device_get */
} gd_host;

struct gd_device {
    const gd_backend *backend;
    gd_ctx *ctx;
    int index;
    char name[16];
    const gd_host *host;
    void *state;        /* private to the backend */
    int64_t host_calls; /* operators and programs that the host ran for it */
};

/* Runs an operator on the device of its operands; if the backend lacks it, on the host. */
gd_status gd__device_run(gd_device *device, const gd_call *call);
/* The same by a backend that is not the device's own at the moment. */
gd_status gd__device_run_by(const gd_backend *backend, gd_device *device, const gd_call *call);
/* The same by the plain kernels, whatever the device of the tensors. */
gd_status gd__plain_run(gd_ctx *ctx, const gd_call *call);
/* The open device of a context whose memory has that number in DLPack; NULL: none. */
gd_device *gd__device_of_dlpack(gd_ctx *ctx, int32_t type, int32_t index);
/* Makes the CPU of a context. */
void gd__cpu_open(gd_ctx *ctx, gd_device *device);
extern const gd_backend gd__cpu_backend; /* the usual one, unless its kernels are recorded */

/* Differs if library and plugin disagree about common structs: sizes, and offsets of members of tensors, which the CUDA plugin
 * reads directly. */
#define GD_TENSOR_LAYOUT                                                                            \
    (offsetof(gd_tensor, data) + 3 * offsetof(gd_tensor, storage) + 5 * offsetof(gd_tensor, size) + \
     7 * offsetof(gd_tensor, stride) + 11 * offsetof(gd_tensor, numel) + 13 * sizeof(gd_tensor))
#define GD_PLUGIN_LAYOUT                                                                                \
    ((uint64_t)GD_TENSOR_LAYOUT ^ (uint64_t)sizeof(gd_ctx) << 12 ^ (uint64_t)sizeof(gd_backend) << 26 ^ \
     (uint64_t)sizeof(gd_call) << 34 ^ (uint64_t)sizeof(gd_host) << 42 ^ (uint64_t)GD_OP_COUNT << 50)

/* ---- plugins of any kind ---- */

typedef enum gd_plugin_kind { GD_PLUGIN_DEVICE, GD_PLUGIN_WORLD, GD_PLUGIN_SPARSE } gd_plugin_kind;

typedef struct gd_plugin_found {
    void *symbol;      /* NULL: not there */
    const char *title; /* NULL: plugins.def has no such row */
    const char *why;   /* it is not there */
} gd_plugin_found;

/* The name of the index-th plugin of a kind; NULL after the last. */
const char *gd__plugin_name(gd_plugin_kind kind, int index);
/* Loads a plugin, if needed, and looks up a symbol; records no error. */
gd_plugin_found gd__plugin_symbol(gd_ctx *ctx, gd_plugin_kind kind, const char *name, const char *symbol);
const gd_host *gd__plugin_host(void);

/* The function exported as `gd_plugin_open`: fills *device (index set) or records an error. */
typedef gd_status (*gd_plugin_open_fn)(gd_device *device);
typedef int (*gd_plugin_count_fn)(gd_ctx *ctx);
typedef bool (*gd_plugin_describe_fn)(int index, char *text, size_t size);

/* The result of the CPU's kernel of an element-wise operator for one element in f64; setting: of those that have one. */
double gd__element_f64(gd_op_id op, double a, double b, double setting);

#endif
