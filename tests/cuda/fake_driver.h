/* A CUDA driver, cuBLAS and cuSOLVER that do nothing: memory is the host's, kernels are loaded but never run, and any call
 * can be made to fail.  What the plugin asks of the driver is tested with it on machines without a GPU; NVRTC is real. */
#ifndef GD_TESTS_CUDA_FAKE_DRIVER_H
#define GD_TESTS_CUDA_FAKE_DRIVER_H

#include "plugin.h"

#include <stdlib.h>
#include <string.h>

/* A kernel by its name, and its launch: with the pointers of fused ones. */
typedef struct fake_function {
    void *context;
    char name[40];
} fake_function;

#define FAKE_FUNCTIONS 4000
#define FAKE_LAUNCHES  400
#define FAKE_POINTERS  6
typedef struct fake_launch {
    const char *name;
    unsigned blocks;
    const void *in[FAKE_POINTERS], *out[FAKE_POINTERS];
} fake_launch;

typedef struct fake_list {
    fake_launch item[FAKE_LAUNCHES];
    int count;
} fake_list;

static fake_function fake_functions[FAKE_FUNCTIONS];
static int fake_function_count;

typedef struct fake_driver {
    int gpus, major, minor;
    int64_t calls;    /* that can fail, so far */
    int64_t fail_at;  /* this one does; 0: none */
    bool fail_on;     /* and all after it, as when a context is lost */
    CUresult failure; /* what it returns */
    int64_t blocks, modules, streams, contexts, handles, graphs, events; /* alive */
    int64_t nodes, updates, replays;                                     /* of graphs */
    int64_t meetings;                                                    /* of streams */
    int64_t listed; /* products over lists of addresses */
    int64_t compilations, launches, waits, failed_loads, out_of_context;
    int callers;           /* its address is a stream of the caller's, good in every context */
    int64_t on_callers;    /* launches there */
    CUstream blas, solver; /* where cuBLAS and cuSOLVER were last told to queue */
    bool pinned;           /* the host's memory is */
    int info;              /* what cuSOLVER leaves as a result code */
    int context[16], *current;
    nvrtcResult compile_result; /* of the pretended compiler */
    fake_list *capturing;       /* launches go there; NULL: they are done */
    bool spoiled;               /* a call was made that a capture does not survive */
    int64_t captures, exec_updates, wrong_in_capture;
    bool refuse_updates;
    fake_list done; /* launches, also those of graphs, since a test has set its count to 0 */
} fake_driver;

static fake_driver fake;

static bool fake_fails(void)
{
    fake.calls++;
    return fake.fail_at && (fake.calls == fake.fail_at || (fake.fail_on && fake.calls > fake.fail_at));
}

#define FAKE_CALL()                            \
    do {                                       \
        if (fake_fails()) return fake.failure; \
    } while (0)

/* A call for which the context that something was made in must be current. */
#define FAKE_INSIDE(made_in)                                                                           \
    do {                                                                                               \
        int *there = (int *)(void *)(made_in);                                                         \
        if (!fake.current || (fake.current != there && there != &fake.callers)) fake.out_of_context++; \
        FAKE_CALL();                                                                                   \
    } while (0)

/* ---- device, context, stream ---- */

static CUresult fake_cuInit(unsigned flags)
{
    (void)flags;
    FAKE_CALL();
    return CUDA_SUCCESS;
}
static CUresult fake_cuDeviceGetCount(int *count)
{
    FAKE_CALL();
    *count = fake.gpus;
    return CUDA_SUCCESS;
}
static CUresult fake_cuDeviceGet(CUdevice *device, int index)
{
    FAKE_CALL();
    *device = index;
    return CUDA_SUCCESS;
}
static CUresult fake_cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    FAKE_CALL();
    *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR   ? fake.major
             : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR ? fake.minor
                                                                         : 4;
    return CUDA_SUCCESS;
}
static CUresult fake_cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    FAKE_CALL();
    fake.contexts++;
    *context = (CUcontext)(void *)&fake.context[device];
    return CUDA_SUCCESS;
}
static CUresult fake_cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    fake.contexts--;
    return CUDA_SUCCESS;
}
static CUresult fake_cuCtxSetCurrent(CUcontext context)
{
    if (fake.fail_on) FAKE_CALL(); /* never for want of memory */
    fake.current = (int *)(void *)context;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGetErrorString(CUresult result, const char **text)
{
    *text = result == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : "pretended failure";
    return CUDA_SUCCESS;
}
static CUresult fake_cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}
static CUresult fake_cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    FAKE_INSIDE(fake.current);
    fake.streams++;
    *stream = (CUstream)(void *)fake.current;
    return CUDA_SUCCESS;
}
static CUresult fake_cuStreamDestroy(CUstream stream)
{
    (void)stream;
    fake.streams--;
    return CUDA_SUCCESS;
}
/* What a capturing stream must not be asked for. */
static bool fake_spoils(void)
{
    if (!fake.capturing) return false;
    fake.wrong_in_capture++;
    return fake.spoiled = true;
}
static CUresult fake_cuStreamSynchronize(CUstream stream)
{
    FAKE_INSIDE(stream);
    if (fake_spoils()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    fake.waits++;
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static CUresult fake_cuMemAllocAsync(CUdeviceptr *data, size_t bytes, CUstream stream)
{
    FAKE_INSIDE(stream);
    if (fake_spoils()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    void *block = calloc(1, bytes);
    if (!block) return CUDA_ERROR_OUT_OF_MEMORY;
    fake.blocks++;
    *data = (CUdeviceptr)(uintptr_t)block;
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemFreeAsync(CUdeviceptr data, CUstream stream)
{
    (void)stream;
    (void)fake_spoils();
    fake.blocks--;
    free((void *)(uintptr_t)data);
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemGetInfo(size_t *left, size_t *total)
{
    *left = (size_t)1 << 20;
    *total = (size_t)3 << 20;
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    FAKE_INSIDE(stream);
    if (fake_spoils()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    memcpy((void *)(uintptr_t)to, from, bytes);
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_INSIDE(stream);
    if (fake_spoils()) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    FAKE_INSIDE(stream);
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    FAKE_INSIDE(stream);
    memset((void *)(uintptr_t)to, value, bytes);
    return CUDA_SUCCESS;
}
static CUresult fake_cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice device)
{
    (void)device;
    FAKE_CALL();
    *pool = NULL;
    return CUDA_SUCCESS;
}
static CUresult fake_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute, void *value)
{
    (void)pool;
    (void)attribute;
    (void)value;
    FAKE_CALL();
    return CUDA_SUCCESS;
}
static CUresult fake_cuPointerGetAttributes(unsigned count, CUpointer_attribute *attribute, void **value,
                                            CUdeviceptr pointer)
{
    (void)count, (void)attribute, (void)pointer;
    *(unsigned *)value[0] = fake.pinned ? CU_MEMORYTYPE_HOST : 0;
    return CUDA_SUCCESS;
}

/* ---- modules ---- */

static CUresult fake_cuModuleLoadData(CUmodule *module, const void *cubin)
{
    (void)cubin;
    (void)fake_spoils();
    fake.failed_loads++;
    FAKE_INSIDE(fake.current);
    fake.failed_loads--;
    fake.modules++;
    *module = (CUmodule)(void *)fake.current;
    return CUDA_SUCCESS;
}
static CUresult fake_cuModuleUnload(CUmodule module)
{
    (void)module;
    fake.modules--;
    return CUDA_SUCCESS;
}
static CUresult fake_cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name)
{
    FAKE_INSIDE(module);
    for (int i = 0; i < fake_function_count; i++) {
        fake_function *known = &fake_functions[i];
        if (known->context != (void *)module || strcmp(known->name, name) != 0) continue;
        *function = (CUfunction)(void *)known;
        return CUDA_SUCCESS;
    }
    if (fake_function_count == FAKE_FUNCTIONS) return CUDA_ERROR_OUT_OF_MEMORY;
    fake_function *made = &fake_functions[fake_function_count++];
    made->context = module;
    strncpy(made->name, name, sizeof made->name - 1);
    *function = (CUfunction)(void *)made;
    return CUDA_SUCCESS;
}
static void fake_note(fake_list *list, const fake_launch *launch)
{
    if (list->count < FAKE_LAUNCHES) list->item[list->count++] = *launch;
}
static CUresult fake_cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned threads,
                                    unsigned ty, unsigned tz, unsigned shared, CUstream stream, void **args,
                                    void **extra)
{
    (void)ty, (void)tz, (void)shared, (void)extra;
    FAKE_INSIDE(stream);
    const fake_function *function = (const fake_function *)(const void *)f;
    bool callers = (void *)stream == (void *)&fake.callers;
    if (function->context != (void *)stream && !callers) fake.out_of_context++;
    fake_launch launch = {.name = function->name, .blocks = x};
    if (!strcmp(function->name, "fused")) {
        const gd_fused_launch *a = args[0];
        memcpy(launch.in, a->in, sizeof launch.in);
        memcpy(launch.out, a->out, sizeof launch.out);
    }
    fake_note(fake.capturing ? fake.capturing : &fake.done, &launch);
    if (fake.capturing) return CUDA_SUCCESS;
    fake.on_callers += callers;
    fake.launches++;
    return x > 0 && y == 1 && z == 1 && threads > 0 && threads <= 1024 ? CUDA_SUCCESS
                                                                       : CUDA_ERROR_INVALID_VALUE;
}

/* ---- events: counted ---- */

static CUresult fake_cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    FAKE_INSIDE(fake.current);
    fake.events++;
    *event = (CUevent)(void *)fake.current;
    return CUDA_SUCCESS;
}
static CUresult fake_cuEventDestroy(CUevent event)
{
    (void)event;
    fake.events--;
    return CUDA_SUCCESS;
}
static CUresult fake_cuEventRecord(CUevent event, CUstream stream)
{
    (void)event;
    FAKE_INSIDE(stream);
    return CUDA_SUCCESS;
}
static CUresult fake_cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)event, (void)flags;
    FAKE_INSIDE(stream);
    fake.meetings++;
    return CUDA_SUCCESS;
}

/* ---- graphs: counted; of captured ones the launches are noted ---- */

static CUresult fake_cuGraphCreate(CUgraph *graph, unsigned flags)
{
    (void)flags;
    FAKE_CALL();
    fake.graphs++;
    *graph = (CUgraph)(void *)&fake;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGraphDestroy(CUgraph graph)
{
    if ((void *)graph != (void *)&fake) free(graph);
    fake.graphs--;
    return CUDA_SUCCESS;
}

/* ---- captures: lists of launches ---- */

static CUresult fake_cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    FAKE_INSIDE(stream);
    if (fake.capturing || mode == CU_STREAM_CAPTURE_MODE_GLOBAL) return CUDA_ERROR_INVALID_VALUE;
    fake.capturing = calloc(1, sizeof *fake.capturing);
    fake.spoiled = false;
    return fake.capturing ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}
/* Ends a capture also where it fails. */
static CUresult fake_cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    fake_list *list = fake.capturing;
    fake.capturing = NULL;
    bool fails = fake_fails();
    if (!list) return CUDA_ERROR_INVALID_VALUE;
    if (fails || fake.spoiled) {
        free(list);
        *graph = NULL;
        return fails ? fake.failure : CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    fake.graphs++;
    fake.captures++;
    *graph = (CUgraph)(void *)list;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGraphExecUpdate(CUgraphExec ready, CUgraph graph, CUgraphExecUpdateResultInfo *info)
{
    (void)info;
    FAKE_CALL();
    fake_list *to = (fake_list *)(void *)ready;
    const fake_list *from = (const fake_list *)(const void *)graph;
    bool same = to->count == from->count && !fake.refuse_updates;
    for (int i = 0; i < from->count && same; i++) same = to->item[i].name == from->item[i].name;
    if (!same) return CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
    *to = *from;
    fake.exec_updates++;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGraphAddKernelNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                          size_t count, const CUDA_KERNEL_NODE_PARAMS *params)
{
    (void)graph;
    FAKE_CALL();
    if (count && !*after) return CUDA_ERROR_INVALID_VALUE; /* nodes are numbers from 1 */
    *node = (CUgraphNode)(uintptr_t)++fake.nodes;
    return params->gridDimX > 0 && params->kernelParams[0] ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult fake_cuGraphInstantiate(CUgraphExec *ready, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    FAKE_CALL();
    void *made = (void *)graph == (void *)&fake ? (void *)&fake : malloc(sizeof(fake_list));
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    if (made != (void *)&fake) memcpy(made, graph, sizeof(fake_list));
    fake.graphs++;
    *ready = (CUgraphExec)made;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGraphExecDestroy(CUgraphExec ready)
{
    if ((void *)ready != (void *)&fake) free(ready);
    fake.graphs--;
    return CUDA_SUCCESS;
}
static CUresult fake_cuGraphExecKernelNodeSetParams(CUgraphExec ready, CUgraphNode node,
                                                    const CUDA_KERNEL_NODE_PARAMS *params)
{
    (void)ready, (void)params;
    FAKE_CALL();
    fake.updates++;
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
static CUresult fake_cuGraphLaunch(CUgraphExec ready, CUstream stream)
{
    FAKE_INSIDE(stream);
    fake.replays++;
    const fake_list *list = (void *)ready == (void *)&fake ? NULL : (const fake_list *)(const void *)ready;
    for (int i = 0; list && i < list->count; i++) fake_note(&fake.done, &list->item[i]);
    return ready ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- a compiler that only pretends: for what is not about kernels ---- */

static nvrtcResult fake_nvrtcCreateProgram(nvrtcProgram *program, const char *source, const char *name,
                                           int headers, const char *const *header,
                                           const char *const *header_name)
{
    (void)source, (void)name, (void)headers, (void)header, (void)header_name;
    *program = (nvrtcProgram)(void *)&fake;
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcCompileProgram(nvrtcProgram program, int options, const char *const *option)
{
    (void)program, (void)options, (void)option;
    fake.compilations++;
    return fake.compile_result;
}
static nvrtcResult fake_nvrtcDestroyProgram(nvrtcProgram *program)
{
    *program = NULL;
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcGetCUBINSize(nvrtcProgram program, size_t *size)
{
    (void)program;
    *size = 16;
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcGetCUBIN(nvrtcProgram program, char *cubin)
{
    (void)program;
    memset(cubin, 7, 16);
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcGetProgramLogSize(nvrtcProgram program, size_t *size)
{
    (void)program;
    *size = sizeof "gradus.cu(1): error: pretended";
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcGetProgramLog(nvrtcProgram program, char *log)
{
    (void)program;
    memcpy(log, "gradus.cu(1): error: pretended", sizeof "gradus.cu(1): error: pretended");
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcVersion(int *major, int *minor)
{
    *major = 13;
    *minor = 0;
    return NVRTC_SUCCESS;
}
static const char *fake_nvrtcGetErrorString(nvrtcResult result)
{
    return result == NVRTC_ERROR_COMPILATION ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR";
}
static nvrtcResult fake_nvrtcGetNumSupportedArchs(int *count)
{
    *count = 3;
    return NVRTC_SUCCESS;
}
static nvrtcResult fake_nvrtcGetSupportedArchs(int *known)
{
    memcpy(known, (int[]){75, 80, 90}, 3 * sizeof *known);
    return NVRTC_SUCCESS;
}

#include "fake_libraries.h" /* uses what stands above */

/* ---- the table ---- */

#define FAKE_PAIRS(api, T)                                               \
    (api)->cusolverDn##T##potrf_bufferSize = fake_##T##potrf_bufferSize; \
    (api)->cusolverDn##T##potrf = fake_##T##potrf;                       \
    (api)->cusolverDn##T##getrf_bufferSize = fake_##T##getrf_bufferSize; \
    (api)->cusolverDn##T##getrf = fake_##T##getrf;                       \
    (api)->cusolverDn##T##getrs = fake_##T##getrs;                       \
    (api)->cusolverDn##T##geqrf_bufferSize = fake_##T##geqrf_bufferSize; \
    (api)->cusolverDn##T##geqrf = fake_##T##geqrf;                       \
    (api)->cusolverDn##T##orgqr_bufferSize = fake_##T##orgqr_bufferSize; \
    (api)->cusolverDn##T##orgqr = fake_##T##orgqr;                       \
    (api)->cusolverDn##T##syevd_bufferSize = fake_##T##syevd_bufferSize; \
    (api)->cusolverDn##T##syevd = fake_##T##syevd;                       \
    (api)->cusolverDn##T##gesvd_bufferSize = fake_##T##gesvd_bufferSize; \
    (api)->cusolverDn##T##gesvd = fake_##T##gesvd

static void fake_fill(cuda_api *api)
{
    *api = (cuda_api){
        .cuInit = fake_cuInit,
        .cuDeviceGet = fake_cuDeviceGet,
        .cuDeviceGetCount = fake_cuDeviceGetCount,
        .cuDeviceGetAttribute = fake_cuDeviceGetAttribute,
        .cuDevicePrimaryCtxRetain = fake_cuDevicePrimaryCtxRetain,
        .cuDevicePrimaryCtxRelease_v2 = fake_cuDevicePrimaryCtxRelease,
        .cuCtxSetCurrent = fake_cuCtxSetCurrent,
        .cuGetErrorString = fake_cuGetErrorString,
        .cuDriverGetVersion = fake_cuDriverGetVersion,
        .cuStreamCreate = fake_cuStreamCreate,
        .cuStreamDestroy_v2 = fake_cuStreamDestroy,
        .cuEventCreate = fake_cuEventCreate,
        .cuEventDestroy_v2 = fake_cuEventDestroy,
        .cuEventRecord = fake_cuEventRecord,
        .cuStreamWaitEvent = fake_cuStreamWaitEvent,
        .cuStreamSynchronize = fake_cuStreamSynchronize,
        .cuMemAllocAsync = fake_cuMemAllocAsync,
        .cuMemFreeAsync = fake_cuMemFreeAsync,
        .cuMemGetInfo_v2 = fake_cuMemGetInfo,
        .cuMemcpyHtoDAsync_v2 = fake_cuMemcpyHtoDAsync,
        .cuMemcpyDtoHAsync_v2 = fake_cuMemcpyDtoHAsync,
        .cuMemcpyDtoDAsync_v2 = fake_cuMemcpyDtoDAsync,
        .cuMemsetD8Async = fake_cuMemsetD8Async,
        .cuDeviceGetDefaultMemPool = fake_cuDeviceGetDefaultMemPool,
        .cuMemPoolSetAttribute = fake_cuMemPoolSetAttribute,
        .cuPointerGetAttributes = fake_cuPointerGetAttributes,
        .cuModuleLoadData = fake_cuModuleLoadData,
        .cuModuleUnload = fake_cuModuleUnload,
        .cuModuleGetFunction = fake_cuModuleGetFunction,
        .cuLaunchKernel = fake_cuLaunchKernel,
        .cuGraphCreate = fake_cuGraphCreate,
        .cuGraphDestroy = fake_cuGraphDestroy,
        .cuGraphAddKernelNode_v2 = fake_cuGraphAddKernelNode,
        .cuGraphInstantiateWithFlags = fake_cuGraphInstantiate,
        .cuGraphExecDestroy = fake_cuGraphExecDestroy,
        .cuGraphExecKernelNodeSetParams_v2 = fake_cuGraphExecKernelNodeSetParams,
        .cuGraphLaunch = fake_cuGraphLaunch,
        .cuStreamBeginCapture_v2 = fake_cuStreamBeginCapture,
        .cuStreamEndCapture = fake_cuStreamEndCapture,
        .cuGraphExecUpdate_v2 = fake_cuGraphExecUpdate,
        .nvrtcCreateProgram = fake_nvrtcCreateProgram,
        .nvrtcCompileProgram = fake_nvrtcCompileProgram,
        .nvrtcDestroyProgram = fake_nvrtcDestroyProgram,
        .nvrtcGetCUBINSize = fake_nvrtcGetCUBINSize,
        .nvrtcGetCUBIN = fake_nvrtcGetCUBIN,
        .nvrtcGetProgramLogSize = fake_nvrtcGetProgramLogSize,
        .nvrtcGetProgramLog = fake_nvrtcGetProgramLog,
        .nvrtcVersion = fake_nvrtcVersion,
        .nvrtcGetErrorString = fake_nvrtcGetErrorString,
        .nvrtcGetNumSupportedArchs = fake_nvrtcGetNumSupportedArchs,
        .nvrtcGetSupportedArchs = fake_nvrtcGetSupportedArchs,
        .cublasCreate_v2 = fake_cublasCreate,
        .cublasDestroy_v2 = fake_cublasDestroy,
        .cublasSetStream_v2 = fake_cublasSetStream,
        .cublasSetMathMode = fake_cublasSetMathMode,
        .cublasGetStatusString = fake_cublasGetStatusString,
        .cublasGemmStridedBatchedEx_64 = fake_cublasGemmStridedBatchedEx,
        .cublasGemmBatchedEx_64 = fake_cublasGemmBatchedEx,
        .cublasStrsm_v2_64 = fake_cublasStrsm,
        .cublasDtrsm_v2_64 = fake_cublasDtrsm,
        .cublasLtCreate = fake_cublasLtCreate,
        .cublasLtDestroy = fake_cublasLtDestroy,
        .cublasLtMatmul = fake_cublasLtMatmul,
        .cublasLtMatmulDescCreate = fake_cublasLtMatmulDescCreate,
        .cublasLtMatmulDescDestroy = fake_cublasLtMatmulDescDestroy,
        .cublasLtMatmulDescSetAttribute = fake_cublasLtMatmulDescSetAttribute,
        .cublasLtMatrixLayoutCreate = fake_cublasLtMatrixLayoutCreate,
        .cublasLtMatrixLayoutDestroy = fake_cublasLtMatrixLayoutDestroy,
        .cublasLtMatrixLayoutSetAttribute = fake_cublasLtMatrixLayoutSetAttribute,
        .cublasLtMatmulPreferenceCreate = fake_cublasLtMatmulPreferenceCreate,
        .cublasLtMatmulPreferenceDestroy = fake_cublasLtMatmulPreferenceDestroy,
        .cublasLtMatmulPreferenceSetAttribute = fake_cublasLtMatmulPreferenceSetAttribute,
        .cublasLtMatmulAlgoGetHeuristic = fake_cublasLtMatmulAlgoGetHeuristic,
        .cusolverDnCreate = fake_cusolverDnCreate,
        .cusolverDnDestroy = fake_cusolverDnDestroy,
        .cusolverDnSetStream = fake_cusolverDnSetStream,
    };
    FAKE_PAIRS(api, S);
    FAKE_PAIRS(api, D);
}

/* A driver with some GPUs of compute capability 9.0, and nothing alive. */
static void fake_reset(int gpus)
{
    fake = (fake_driver){.gpus = gpus, .major = 9, .failure = CUDA_ERROR_OUT_OF_MEMORY};
}

static bool fake_is_clean(void)
{
    return !fake.blocks && !fake.modules && !fake.streams && !fake.contexts && !fake.handles &&
           !fake.graphs && !fake.events;
}

#endif
