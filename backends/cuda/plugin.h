/* The CUDA plugin: driver API, NVRTC, cuBLAS and cuSOLVER, all opened at run time.
 *
 *   api.c       opens the libraries and fills a table of their functions
 *   device.c    plugin entry, copies
 *   memory.c    the pool
 *   module.c    kernels from source, cached in memory and on disk
 *   map.c       element-wise operators
 *   full.c      the other operators
 *   batch.c     how matrices in strided batches lie in memory
 *   product.c   products: cuBLAS
 *   linear.c    cuSOLVER, and how both are opened
 *   affine.c    products with a bias: cuBLASLt
 *   side.c      a second stream
 *   rules.c     fused optimizer programs
 *   fuse.c      element-wise operators of a traced function as one kernel
 *   capture.c   its launches as one graph */
#ifndef GD_CUDA_PLUGIN_H
#define GD_CUDA_PLUGIN_H

#include "tensor/device.h"

#include <cublasLt.h>
#include <cublas_v2.h>
#include <cuda.h>
#include <cusolverDn.h>
#include <nvrtc.h>

/* Every function used: library letter, name.  D driver, N NVRTC, B cuBLAS, L cuBLASLt, S cuSOLVER. */
/* clang-format off */
#define CUDA_FUNCTIONS(X)                                                                                             \
    X(D, cuInit) X(D, cuDeviceGet) X(D, cuDeviceGetCount) X(D, cuDeviceGetName) X(D, cuDeviceGetAttribute)            \
    X(D, cuDeviceTotalMem_v2)                                                                                         \
    X(D, cuDevicePrimaryCtxRetain) X(D, cuDevicePrimaryCtxRelease_v2) X(D, cuCtxSetCurrent) X(D, cuGetErrorString)    \
    X(D, cuDriverGetVersion) X(D, cuStreamCreate) X(D, cuStreamDestroy_v2) X(D, cuStreamSynchronize)                  \
    X(D, cuMemAllocAsync) X(D, cuMemFreeAsync) X(D, cuMemcpyHtoDAsync_v2) X(D, cuMemcpyDtoHAsync_v2)                  \
    X(D, cuMemcpyDtoDAsync_v2) X(D, cuMemsetD8Async) X(D, cuDeviceGetDefaultMemPool) X(D, cuMemPoolSetAttribute)      \
    X(D, cuModuleLoadData) X(D, cuModuleUnload) X(D, cuModuleGetFunction) X(D, cuLaunchKernel)                        \
    X(D, cuMemGetInfo_v2) X(D, cuGraphCreate) X(D, cuGraphAddKernelNode_v2) X(D, cuGraphInstantiateWithFlags)         \
    X(D, cuGraphExecKernelNodeSetParams_v2) X(D, cuGraphLaunch) X(D, cuGraphDestroy) X(D, cuGraphExecDestroy)         \
    X(D, cuStreamBeginCapture_v2) X(D, cuStreamEndCapture) X(D, cuGraphExecUpdate_v2)                                 \
    X(D, cuPointerGetAttributes) X(D, cuEventCreate) X(D, cuEventDestroy_v2) X(D, cuEventRecord) X(D, cuStreamWaitEvent)                                                                                    \
    X(N, nvrtcCreateProgram) X(N, nvrtcCompileProgram) X(N, nvrtcDestroyProgram) X(N, nvrtcGetCUBINSize)              \
    X(N, nvrtcGetCUBIN) X(N, nvrtcGetProgramLogSize) X(N, nvrtcGetProgramLog) X(N, nvrtcVersion)                      \
    X(N, nvrtcGetErrorString) X(N, nvrtcGetNumSupportedArchs) X(N, nvrtcGetSupportedArchs)                            \
    X(B, cublasCreate_v2) X(B, cublasDestroy_v2) X(B, cublasSetStream_v2) X(B, cublasSetMathMode)                     \
    X(B, cublasGetStatusString) X(B, cublasGemmStridedBatchedEx_64) X(B, cublasGemmBatchedEx_64)                       \
    X(B, cublasStrsm_v2_64) X(B, cublasDtrsm_v2_64)                                                                                           \
    X(L, cublasLtCreate) X(L, cublasLtDestroy) X(L, cublasLtMatmul) X(L, cublasLtMatmulDescCreate)                    \
    X(L, cublasLtMatmulDescDestroy) X(L, cublasLtMatmulDescSetAttribute) X(L, cublasLtMatrixLayoutCreate)             \
    X(L, cublasLtMatrixLayoutDestroy) X(L, cublasLtMatmulPreferenceCreate) X(L, cublasLtMatmulPreferenceDestroy)      \
    X(L, cublasLtMatrixLayoutSetAttribute) X(L, cublasLtMatmulPreferenceSetAttribute) X(L, cublasLtMatmulAlgoGetHeuristic)                                   \
    X(S, cusolverDnCreate) X(S, cusolverDnDestroy) X(S, cusolverDnSetStream)                                          \
    X(S, cusolverDnSpotrf_bufferSize) X(S, cusolverDnDpotrf_bufferSize) X(S, cusolverDnSpotrf)                        \
    X(S, cusolverDnDpotrf) X(S, cusolverDnSgetrf_bufferSize) X(S, cusolverDnDgetrf_bufferSize)                        \
    X(S, cusolverDnSgetrf) X(S, cusolverDnDgetrf) X(S, cusolverDnSgetrs) X(S, cusolverDnDgetrs)                       \
    X(S, cusolverDnSgeqrf_bufferSize) X(S, cusolverDnDgeqrf_bufferSize) X(S, cusolverDnSgeqrf)                        \
    X(S, cusolverDnDgeqrf) X(S, cusolverDnSorgqr_bufferSize) X(S, cusolverDnDorgqr_bufferSize)                        \
    X(S, cusolverDnSorgqr) X(S, cusolverDnDorgqr) X(S, cusolverDnSsyevd_bufferSize)                                   \
    X(S, cusolverDnDsyevd_bufferSize) X(S, cusolverDnSsyevd) X(S, cusolverDnDsyevd)                                   \
    X(S, cusolverDnSgesvd_bufferSize) X(S, cusolverDnDgesvd_bufferSize) X(S, cusolverDnSgesvd)                        \
    X(S, cusolverDnDgesvd)
/* clang-format on */

/* Functions of libraries that are not there are NULL. */
typedef struct cuda_api {
    void *library_D, *library_N, *library_B, *library_L, *library_S;
#define CUDA_MEMBER(library, name) __typeof__(&name) name;
    CUDA_FUNCTIONS(CUDA_MEMBER)
#undef CUDA_MEMBER
} cuda_api;

/* The kernels of full.cu: name, family.  A family is compiled together. */
/* clang-format off */
#define CUDA_FULL_KERNELS(X)                                                                        \
    X(sum_columns, SUMS) X(sum_rows, SUMS)                                                          \
    X(prod_columns, REDUCTIONS) X(prod_rows, REDUCTIONS) X(truth_columns, REDUCTIONS)               \
    X(truth_rows, REDUCTIONS) X(extreme_columns, REDUCTIONS) X(extreme_rows, REDUCTIONS)            \
    X(cumsum, RESULTS)                                                                              \
    X(exponentials, EXPONENTIALS) X(softmax_grad, EXPONENTIALS) X(standardize, EXPONENTIALS)        \
    X(standardize_grad, EXPONENTIALS) X(layer_norm, EXPONENTIALS) X(layer_norm_grad, EXPONENTIALS)  \
    X(layer_norm_sums, EXPONENTIALS) X(layer_norm_join, EXPONENTIALS) X(copy_pieces, PIECES)        \
    X(copy_list, PIECES) X(copy_strided, COPIES) X(copy_dense, COPIES) X(split, SPLITS) X(fill, FILLS) X(tri, FILLS) X(places, PLACES_OF)                        \
    X(index_select, PLACES) X(gather, PLACES) X(add_at, PLACES) X(add_rows, PLACES)                 \
    X(last_at, PLACES) X(put_at, PLACES)                                                            \
    X(random_numbers, RANDOM)                                                                       \
    X(unfold2d, WINDOWS) X(fold2d, WINDOWS) X(integer_product, PRODUCTS)
/* clang-format on */
typedef enum cuda_full_kernel {
#define CUDA_FULL_NUMBER(name, family) CUDA_FULL_##name,
    CUDA_FULL_KERNELS(CUDA_FULL_NUMBER)
#undef CUDA_FULL_NUMBER
        CUDA_FULL_COUNT
} cuda_full_kernel;

typedef struct cuda_module cuda_module;
typedef struct cuda_affine cuda_affine;
typedef struct cuda_places cuda_places;
typedef struct cuda_graph cuda_graph;

/* Freed blocks of one size, to be given out again. */
typedef struct cuda_bin {
    CUdeviceptr *block;
    int count, room;
} cuda_bin;
#define CUDA_BINS 256

/* A second stream for work that can go on beside that of the first. */
typedef struct cuda_side {
    CUstream stream;
    cublasHandle_t blas;
    CUevent forked, joined;
    bool refused; /* could not be made: not tried again */
} cuda_side;

typedef struct cuda_state {
    cuda_api api;
    CUdevice device;
    CUcontext context;
    CUstream own, stream; /* made here; in use, which may be the caller's */
    CUevent switched;     /* made when another stream is first used */
    int major, minor, processors;
    cublasHandle_t blas; /* made when first needed */
    cuda_side side;      /* likewise */
    cusolverDnHandle_t solver;
    cuda_affine *affine; /* NULL: not used yet */
    bool no_affine;      /* cuBLASLt is not there */
    cuda_places *places; /* NULL: not used yet */
    cuda_module *modules;
    cuda_graph *capturing; /* work is noted there instead of done; NULL: it is done */
    int64_t graphs;        /* captured ones that are alive: lists of addresses that they read stay */
    cuda_bin bin[CUDA_BINS];
    CUdeviceptr
        trouble; /* two ints on the device: code and number of the first operator that met a bad index */
    bool troubled_possible;
    bool tf32;
    CUfunction map_quick[GD_OP_COUNT][GD_DTYPE_COUNT][3]; /* found once, then by number */
    CUfunction full_quick[CUDA_FULL_COUNT][GD_DTYPE_COUNT][GD_DTYPE_COUNT];
} cuda_state;

static inline cuda_state *cuda_of(gd_device *device) { return device->state; }

/* Opens driver and NVRTC; false with the reason when one is missing, and then the functions of the other can still be
 * called.  cuBLAS and cuSOLVER are opened when they are first needed. */
bool cuda_api_open(cuda_api *api, char *why, size_t size);
/* Opens one library by its letter. */
bool cuda_api_library(cuda_api *api, char letter, char *why, size_t size);
void cuda_api_close(cuda_api *api);

/* Fills device->state, whose api is there, and device->backend. */
gd_status cuda_open(gd_device *device);

/* Records the driver's words. */
gd_status cuda_fail(gd_device *device, const char *what, CUresult result);
#define CUDA_TRY(device, call)                                                 \
    do {                                                                       \
        CUresult result_ = cuda_of(device)->api.call;                          \
        if (result_ != CUDA_SUCCESS) return cuda_fail(device, #call, result_); \
    } while (0)

/* The kernel `name` of a source; key says in errors what it is for. */
gd_status cuda_kernel(gd_device *device, const char *key, const char *source, const char *name,
                      CUfunction *kernel);
void cuda_modules_free(gd_device *device);
/* Compiles to a cubin for an architecture such as "sm_90", without a device; malloc'ed.  NULL with the reason in log. */
char *cuda_compile(const cuda_api *api, const char *source, const char *architecture, size_t *size, char *log,
                   size_t log_size);

/* Launches blocks of threads with one argument. */
gd_status cuda_launch(gd_device *device, CUfunction f, int64_t blocks, int threads, size_t shared,
                      void **args);

/* False for an operator that has neither an expression nor a kernel: the host runs it. */
bool cuda_has(gd_op_id op);

/* As struct Args in map.cu. */
typedef struct cuda_map_args {
    int64_t n;
    int ndim;
    int64_t size[8], stride[3][8];
    const void *in[3];
    void *out;
    double f[2];
    bool wide[3];
} cuda_map_args;

/* The source of a kernel: its length, 0 if it does not fit or there is none for the operator. */
size_t cuda_map_source(gd_op_id op, int nin, gd_dtype first, gd_dtype dtype, gd_dtype out, char *text,
                       size_t size);
size_t cuda_full_source(cuda_full_kernel kernel, gd_dtype dtype, gd_dtype from, char *text, size_t size);
#define CUDA_SOURCE_SIZE 49152

/* An element-wise operator as C of x, y, z and its settings f; NULL: it has no kernel. */
const char *cuda_expression(gd_op_id op);
/* The source of the kernel "fused" of a fusion, as cuda_map_source. */
size_t cuda_fuse_source(const gd_fusion *fusion, char *text, size_t size);
void *cuda_fuse(gd_device *device, const gd_fusion *fusion);

extern const gd_capturing cuda_capturing;
/* Work that a graph cannot have: the capture has failed, which is recorded as DEVICE.  GD_OK outside of captures. */
gd_status cuda_not_captured(gd_device *device, const char *what);
/* Memory while something is captured: what the graph has is used again by it alone, and goes back to the pool when it is freed.
 * cuda_graph_give returns false where the graph has no room to remember the block. */
void *cuda_graph_take(gd_device *device, size_t bytes);
bool cuda_graph_give(gd_device *device, void *data, size_t bytes);

gd_status cuda_map(gd_device *device, const gd_call *call);
gd_status cuda_full(gd_device *device, const gd_call *call);
gd_status cuda_integer_product(gd_device *device, const gd_call *call, const void *a, const int64_t *a_stride,
                               const void *b, const int64_t *b_stride);
gd_status cuda_matmul(gd_device *device, const gd_call *call);
/* beta out + alpha times the product; another beta than 0 only where out is in order and there is something to sum. */
gd_status cuda_multiply(gd_device *device, const gd_call *call, double alpha, double beta);
/* The nearest bf16 of each of n floats, and that of what is left. */
gd_status cuda_split(gd_device *device, const void *in, void *high, void *low, int64_t n);
gd_status cuda_addmm(gd_device *device, const gd_call *call);
void cuda_places_free(gd_device *device);
void cuda_places_unpin(gd_device *device); /* no graph reads lists of addresses any more */
/* Writes n addresses to the device's memory: those of elements of a strided batch, steps in bytes. */
gd_status cuda_write_places(gd_device *device, void *to, int64_t n, const char *base, int ndim,
                            const int64_t *size, const int64_t *step);
gd_status cuda_need_blas(gd_device *device);
gd_status cuda_blas_fail(gd_device *device, const char *what, cublasStatus_t code);
gd_status cuda_factor(gd_device *device, const gd_call *call);
gd_status cuda_linear(gd_device *device, const gd_call *call);
gd_status cuda_linear_grad(gd_device *device, const gd_call *call);
/* cuda_fork lets a second stream begin where the first one is now, cuda_go_aside sends what follows to it, cuda_join ends that
 * and makes the first wait for it.  In between, the first stream's work must neither take nor free memory: the pool does
 * not know of two.  False: there is no second stream, nothing has changed. */
bool cuda_fork(gd_device *device);
void cuda_go_aside(gd_device *device);
gd_status cuda_join(gd_device *device);
void cuda_side_free(gd_device *device);
void cuda_affine_free(gd_device *device);
/* Everything in order, without gaps? */
bool cuda_is_dense(const gd_tensor *t);
gd_status cuda_copy_strided(gd_device *device, gd_tensor *dst, const gd_tensor *src);
/* Makes the device's context of the driver the thread's. */
gd_status cuda_enter(gd_device *device);
void *cuda_alloc(gd_device *device, size_t bytes);
/* A block that waits in the pool, without asking the driver; NULL, without an error: there is none. */
void *cuda_pool_take(gd_device *device, size_t bytes);
void cuda_free(gd_device *device, void *data, size_t bytes);
void cuda_pool_empty(gd_device *device); /* gives the driver back what waits in the pool */
void *cuda_program(gd_device *device, const char *source, const char *name);
gd_status cuda_program_launch(gd_device *device, const gd_launch *launch);
gd_status cuda_replay(gd_device *device, void **graph, const gd_launch *launch, int count);
void cuda_forget(gd_device *device, void *graph);

#endif
