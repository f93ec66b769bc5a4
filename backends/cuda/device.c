/* Plugin entry, streams and copies.  All work goes to one stream a device, its own or the caller's; only reads on the host
 * wait for it. */
#include "plugin.h"
#include "dialect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Errors after which the driver refuses everything in this process. */
static bool is_lost(CUresult result)
{
    switch (result) {
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED: return true;
    default: return false;
    }
}

gd_status cuda_fail(gd_device *device, const char *what, CUresult result)
{
    const char *text = NULL;
    cuda_state *s = cuda_of(device);
    if (!s->api.cuGetErrorString || s->api.cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
        text = "unknown";
    gd_status status = result == CUDA_ERROR_OUT_OF_MEMORY ? GD_NOMEM : GD_DEVICE;
    return device->host->fail(device->ctx, status, "%s: %.*s failed: %s (CUDA error %d)%s", device->name,
                              (int)strcspn(what, "("), what, text, (int)result,
                              is_lost(result) ? "; data on the GPU is lost, data on the CPU is not" : "");
}

/* Contexts of the driver belong to threads: a thread may have had another GPU in hand, or be new. */
gd_status cuda_enter(gd_device *device)
{
    CUDA_TRY(device, cuCtxSetCurrent(cuda_of(device)->context));
    return GD_OK;
}

/* Ordinary memory is copied before the driver returns, pinned memory (an allocator of the user's) some time later. */
static bool is_pinned(const cuda_state *s, const void *host)
{
    unsigned type = 0; /* and stays so for memory that the driver does not know */
    CUpointer_attribute attribute = CU_POINTER_ATTRIBUTE_MEMORY_TYPE;
    return s->api.cuPointerGetAttributes(1, &attribute, (void *[]){&type}, (CUdeviceptr)(uintptr_t)host) ==
               CUDA_SUCCESS &&
           type == CU_MEMORYTYPE_HOST;
}

static gd_status upload(gd_device *device, void *to, const void *host, size_t bytes)
{
    cuda_state *s = cuda_of(device);
    gd_status status = cuda_not_captured(device, "a copy from the host");
    if (!status) status = cuda_enter(device);
    if (status) return status;
    CUDA_TRY(device, cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)to, host, bytes, s->stream));
    if (is_pinned(s, host)) CUDA_TRY(device, cuStreamSynchronize(s->stream));
    return GD_OK;
}

/* An operator that met an index out of range left its number; it is reported when the host next looks. */
static gd_status check_trouble(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    if (!s->troubled_possible) return GD_OK;
    int code[2] = {0, 0};
    CUDA_TRY(device, cuMemcpyDtoHAsync_v2(code, s->trouble, sizeof code, s->stream));
    CUDA_TRY(device, cuStreamSynchronize(s->stream));
    s->troubled_possible = false;
    if (!code[0]) return GD_OK;
    CUDA_TRY(device, cuMemsetD8Async(s->trouble, 0, sizeof code, s->stream));
    return device->host->fail(device->ctx, GD_INDEX, "%s: an index was out of range",
                              device->host->ops[code[1]].name);
}

static gd_status download(gd_device *device, void *host, const void *from, size_t bytes)
{
    cuda_state *s = cuda_of(device);
    gd_status status = cuda_not_captured(device, "a read by the host");
    if (!status) status = cuda_enter(device);
    if (status) return status;
    CUDA_TRY(device, cuMemcpyDtoHAsync_v2(host, (CUdeviceptr)(uintptr_t)from, bytes, s->stream));
    CUDA_TRY(device, cuStreamSynchronize(s->stream));
    return check_trouble(device);
}

static gd_status sync_device(gd_device *device)
{
    gd_status status = cuda_not_captured(device, "a wait of the host");
    if (!status) status = cuda_enter(device);
    if (status) return status;
    CUDA_TRY(device, cuStreamSynchronize(cuda_of(device)->stream));
    return check_trouble(device);
}

/* cuBLAS and cuSOLVER got their stream when they were created. */
static gd_status tell_libraries(gd_device *device, CUstream stream)
{
    cuda_state *s = cuda_of(device);
    cublasStatus_t code = s->blas ? s->api.cublasSetStream_v2(s->blas, stream) : CUBLAS_STATUS_SUCCESS;
    if (code != CUBLAS_STATUS_SUCCESS) return cuda_blas_fail(device, "cublasSetStream", code);
    if (s->solver && s->api.cusolverDnSetStream(s->solver, stream) != CUSOLVER_STATUS_SUCCESS)
        return device->host->fail(device->ctx, GD_DEVICE, "%s: cusolverDnSetStream failed", device->name);
    return GD_OK;
}

/* The new stream waits for the old one, so that memory of the pool that was given back there may be used here. */
static gd_status use_stream(gd_device *device, void *stream)
{
    cuda_state *s = cuda_of(device);
    if (s->stream == (CUstream)stream) return GD_OK;
    gd_status status = cuda_not_captured(device, "a change of streams");
    if (!status) status = cuda_enter(device);
    if (status) return status;
    if (!s->switched) CUDA_TRY(device, cuEventCreate(&s->switched, CU_EVENT_DISABLE_TIMING));
    CUDA_TRY(device, cuEventRecord(s->switched, s->stream));
    CUDA_TRY(device, cuStreamWaitEvent((CUstream)stream, s->switched, 0));
    status = tell_libraries(device, (CUstream)stream);
    if (status)
        (void)!tell_libraries(device, s->stream);
    else
        s->stream = (CUstream)stream;
    return status;
}

static void *stream_of(const gd_device *device) { return ((const cuda_state *)device->state)->stream; }

static gd_status run(gd_device *device, const gd_call *call)
{
    gd_status status = cuda_enter(device);
    if (status) return status;
    switch (device->host->ops[call->op].kind) {
    case GD_KIND_MAP:
    case GD_KIND_TEST: return cuda_map(device, call);
    default: return cuda_full(device, call);
    }
}

static void *fuse(gd_device *device, const gd_fusion *fusion)
{
    return cuda_enter(device) ? NULL : cuda_fuse(device, fusion);
}

static void *program(gd_device *device, const char *source, const char *name)
{
    return cuda_enter(device) ? NULL : cuda_program(device, source, name);
}

static gd_status launch(gd_device *device, const gd_launch *launch)
{
    gd_status status = cuda_enter(device);
    return status ? status : cuda_program_launch(device, launch);
}

static gd_status replay(gd_device *device, void **graph, const gd_launch *launch, int count)
{
    gd_status status = cuda_enter(device);
    return status ? status : cuda_replay(device, graph, launch, count);
}

static void forget(gd_device *device, void *graph)
{
    (void)cuda_of(device)->api.cuCtxSetCurrent(cuda_of(device)->context);
    cuda_forget(device, graph);
}

static void close_device(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    if (!s) return;
    if (s->context) (void)s->api.cuCtxSetCurrent(s->context);
    if (s->own) (void)s->api.cuStreamSynchronize(s->stream);
    s->stream = s->own; /* the caller's, if it was in use, may end before what follows is done */
    if (s->switched) (void)s->api.cuEventDestroy_v2(s->switched);
    cuda_side_free(device);
    if (s->blas) (void)s->api.cublasDestroy_v2(s->blas);
    if (s->solver) (void)s->api.cusolverDnDestroy(s->solver);
    cuda_affine_free(device);
    cuda_places_free(device);
    cuda_modules_free(device);
    cuda_pool_empty(device);
    if (s->trouble) (void)s->api.cuMemFreeAsync(s->trouble, s->stream);
    if (s->own) (void)s->api.cuStreamDestroy_v2(s->own);
    if (s->context) (void)s->api.cuDevicePrimaryCtxRelease_v2(s->device);
    cuda_api_close(&s->api);
    device->host->free(device->ctx, s, sizeof *s);
    device->state = NULL;
}

static const gd_backend backend = {
    .name = "gpu",
    .dlpack = 2,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .upload = upload,
    .download = download,
    .sync = sync_device,
    .use_stream = use_stream,
    .stream = stream_of,
    .run = run,
    .has = cuda_has,
    .narrow = GD_TAKES_HALVES,
    .dialect = &cuda_dialect,
    .program = program,
    .launch = launch,
    .replay = replay,
    .forget = forget,
    .fuse = fuse,
    .capture = &cuda_capturing,
    .close = close_device,
};

/* ---- opening ---- */

/* NVRTC knows the GPUs of its time only, and forgets old ones. */
static gd_status check_architecture(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    int count = 0, known[64], major = 0, minor = 0;
    if (s->major < 7)
        return device->host->fail(device->ctx, GD_DEVICE,
                                  "device '%s': compute capability %d.%d is below 7.0", device->name,
                                  s->major, s->minor);
    (void)s->api.nvrtcVersion(&major, &minor);
    if (s->api.nvrtcGetNumSupportedArchs(&count) != NVRTC_SUCCESS || count < 1 || count > 64 ||
        s->api.nvrtcGetSupportedArchs(known) != NVRTC_SUCCESS)
        return device->host->fail(device->ctx, GD_DEVICE, "device '%s': libnvrtc %d.%d does not work",
                                  device->name, major, minor);
    for (int i = 0; i < count; i++)
        if (known[i] == 10 * s->major + s->minor) return GD_OK;
    return device->host->fail(
        device->ctx, GD_DEVICE,
        "device '%s': compute capability %d.%d is not one that libnvrtc %d.%d compiles for "
        "(%d.%d to %d.%d)",
        device->name, s->major, s->minor, major, minor, known[0] / 10, known[0] % 10, known[count - 1] / 10,
        known[count - 1] % 10);
}

static gd_status open_context(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    int count = 0;
    CUDA_TRY(device, cuInit(0));
    CUDA_TRY(device, cuDeviceGetCount(&count));
    if (device->index >= count)
        return device->host->fail(device->ctx, GD_DEVICE, "device '%s': there %s %d GPU%s", device->name,
                                  count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    CUDA_TRY(device, cuDeviceGet(&s->device, device->index));
    CUDA_TRY(device,
             cuDeviceGetAttribute(&s->major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, s->device));
    CUDA_TRY(device,
             cuDeviceGetAttribute(&s->minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, s->device));
    CUDA_TRY(device,
             cuDeviceGetAttribute(&s->processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, s->device));
    gd_status status = check_architecture(device);
    if (status) return status;
    CUcontext context = NULL;
    CUDA_TRY(device, cuDevicePrimaryCtxRetain(&context, s->device));
    s->context = context;
    return cuda_enter(device);
}

static gd_status open_stream(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    CUDA_TRY(device, cuStreamCreate(&s->own, CU_STREAM_NON_BLOCKING));
    s->stream = s->own;
    /* freed memory stays in the pool */
    CUmemoryPool pool;
    CUDA_TRY(device, cuDeviceGetDefaultMemPool(&pool, s->device));
    cuuint64_t keep = UINT64_MAX;
    CUDA_TRY(device, cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    CUDA_TRY(device, cuMemAllocAsync(&s->trouble, 2 * sizeof(int), s->stream));
    CUDA_TRY(device, cuMemsetD8Async(s->trouble, 0, 2 * sizeof(int), s->stream));
    return GD_OK;
}

gd_status cuda_open(gd_device *device)
{
    const char *tf32 = getenv("GRADUS_TF32");
    cuda_of(device)->tf32 = tf32 && *tf32 == '1';
    gd_status status = open_context(device);
    if (!status) status = open_stream(device);
    if (status)
        close_device(device);
    else
        device->backend = &backend;
    return status;
}

__attribute__((visibility("default"))) gd_status gd_plugin_open(gd_device *device)
{
    if (device->host->layout != GD_PLUGIN_LAYOUT)
        return device->host->fail(device->ctx, GD_DEVICE,
                                  "gpu: libgradus_cuda.so has a different version than gradus");
    cuda_state *s = device->host->alloc(device->ctx, sizeof *s);
    if (!s) return GD_NOMEM;
    memset(s, 0, sizeof *s);
    device->state = s;
    char why[256];
    if (cuda_api_open(&s->api, why, sizeof why)) return cuda_open(device);
    close_device(device);
    return device->host->fail(device->ctx, GD_DEVICE, "device '%s': %s", device->name, why);
}

__attribute__((visibility("default"))) int gd_plugin_count(gd_ctx *ctx)
{
    (void)ctx;
    cuda_api api = {0};
    char why[256];
    int count = 0;
    if (!cuda_api_library(&api, 'D', why, sizeof why) || api.cuInit(0) != CUDA_SUCCESS ||
        api.cuDeviceGetCount(&count) != CUDA_SUCCESS)
        count = 0;
    cuda_api_close(&api);
    return count;
}

static bool describe(const cuda_api *api, int index, char *text, size_t size)
{
    CUdevice device;
    char name[128];
    int major = 0, minor = 0;
    size_t bytes = 0;
    if (api->cuInit(0) || api->cuDeviceGet(&device, index) ||
        api->cuDeviceGetName(name, sizeof name, device) ||
        api->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) ||
        api->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device) ||
        api->cuDeviceTotalMem_v2(&bytes, device))
        return false;
    snprintf(text, size, "%s, compute capability %d.%d, %zu GiB", name, major, minor, bytes >> 30);
    return true;
}

__attribute__((visibility("default"))) bool gd_plugin_describe(int index, char *text, size_t size)
{
    cuda_api api = {0};
    char why[256];
    bool there = cuda_api_library(&api, 'D', why, sizeof why) && describe(&api, index, text, size);
    cuda_api_close(&api);
    return there;
}
