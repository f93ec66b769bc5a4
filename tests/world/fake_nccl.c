/* libnccl.so.2 and libcuda.so.1 for machines without a GPU: what NCCL would move MPI moves, between the devices of backends/plain,
 * whose memory nobody may touch but while it is opened here.  As with NCCL messages have no names and those between two ranks
 * meet in their order, work is done some time after it was queued, and the first answer is often that it is in progress. */
#define _GNU_SOURCE
#include <cuda.h>
#include <mpi.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MOST 1024
#define OUT  __attribute__((visibility("default")))

typedef struct work {
    void *device, *copy;
    size_t bytes;
    int peer;
    bool receives;
    MPI_Request request;
} work;

static struct {
    work list[MOST];
    int count;
    bool grouped, started, in_progress;
    MPI_Comm comm;
    int rank, size;
} fake;

/* ---- memory of the plain device ---- */

static void guard(void *data, size_t bytes, int protection)
{
    uintptr_t first = (uintptr_t)data / 4096 * 4096, end = ((uintptr_t)data + bytes + 4095) / 4096 * 4096;
    if (bytes && mprotect((void *)first, end - first, protection)) abort();
}

static void *taken_from(const void *device, size_t bytes)
{
    void *copy = malloc(bytes + 1);
    guard((void *)(uintptr_t)device, bytes, PROT_READ);
    memcpy(copy, device, bytes);
    guard((void *)(uintptr_t)device, bytes, PROT_NONE);
    return copy;
}

static void put_into(void *device, void *copy, size_t bytes)
{
    guard(device, bytes, PROT_READ | PROT_WRITE);
    memcpy(device, copy, bytes);
    guard(device, bytes, PROT_NONE);
    free(copy);
}

/* ---- the driver ---- */

OUT CUresult cuInit(unsigned flags) { return flags ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS; }
OUT CUresult cuDeviceGetCount(int *count) { return *count = 1, CUDA_SUCCESS; }
OUT CUresult cuDeviceGet(CUdevice *device, int index) { return *device = index, CUDA_SUCCESS; }
OUT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    *context = (CUcontext)(void *)&fake;
    return CUDA_SUCCESS;
}
OUT CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return (void)device, CUDA_SUCCESS; }
OUT CUresult cuCtxSetCurrent(CUcontext context)
{
    return (void *)context == (void *)&fake ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}
OUT CUresult cuGetErrorString(CUresult code, const char **text)
{
    return *text = code ? "a pretended error" : "none", CUDA_SUCCESS;
}
OUT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    *stream = (CUstream)(void *)&fake.comm;
    return CUDA_SUCCESS;
}
OUT CUresult cuStreamDestroy(CUstream stream) { return (void)stream, CUDA_SUCCESS; }
OUT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    *event = (CUevent)(void *)&fake.list;
    return CUDA_SUCCESS;
}
OUT CUresult cuEventDestroy(CUevent event) { return (void)event, CUDA_SUCCESS; }
OUT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    return event && stream ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
OUT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    return stream && event && !flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* All that was queued before is done, in the order that it was queued in. */
OUT CUresult cuEventQuery(CUevent event)
{
    (void)event;
    for (int i = 0; i < fake.count; i++) {
        int done = 0;
        work *w = &fake.list[i];
        MPI_Test(&w->request, &done, MPI_STATUS_IGNORE);
        if (!done) return CUDA_ERROR_NOT_READY;
    }
    for (int i = 0; i < fake.count; i++) {
        work *w = &fake.list[i];
        if (w->receives)
            put_into(w->device, w->copy, w->bytes);
        else
            free(w->copy);
    }
    fake.count = 0;
    return CUDA_SUCCESS;
}

/* ---- NCCL ---- */

OUT ncclResult_t ncclGetVersion(int *version) { return *version = 22809, ncclSuccess; }
OUT const char *ncclGetErrorString(ncclResult_t code) { return code ? "a pretended error" : "none"; }
OUT const char *ncclGetLastError(ncclComm_t comm) { return (void)comm, ""; }

OUT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof *id);
    (void)snprintf(id->internal, sizeof id->internal, "pretended %d", rand());
    return ncclSuccess;
}

/* Ranks that were given another id would wait for ever. */
static ncclResult_t meet(int size, const ncclUniqueId *id, int rank)
{
    ncclUniqueId first = *id;
    MPI_Comm_dup(MPI_COMM_WORLD, &fake.comm);
    MPI_Comm_rank(fake.comm, &fake.rank);
    MPI_Comm_size(fake.comm, &fake.size);
    MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, fake.comm);
    bool same = !memcmp(&first, id, sizeof first) && fake.rank == rank && fake.size == size;
    return same ? ncclInProgress : ncclInvalidArgument;
}

OUT ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size, ncclUniqueId id, int rank,
                                        ncclConfig_t *config)
{
    int on;
    MPI_Initialized(&on);
    if (!on) MPI_Init(NULL, NULL);
    fake.started = !on;
    fake.in_progress = true;
    *comm = (ncclComm_t)(void *)&fake;
    return config->blocking ? ncclInvalidArgument : meet(size, &id, rank);
}

OUT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *code)
{
    (void)comm;
    *code = fake.in_progress ? ncclInProgress : ncclSuccess;
    fake.in_progress = false;
    return ncclSuccess;
}

OUT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return (void)comm, fake.in_progress = true, ncclInProgress;
}
OUT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    (void)comm;
    MPI_Comm_free(&fake.comm);
    if (fake.started) MPI_Finalize();
    return ncclSuccess;
}
OUT ncclResult_t ncclCommDestroy(ncclComm_t comm) { return ncclCommAbort(comm); }

OUT ncclResult_t ncclGroupStart(void) { return fake.grouped = true, ncclSuccess; }

OUT ncclResult_t ncclGroupEnd(void)
{
    fake.grouped = false;
    for (int i = 0; i < fake.count; i++) {
        work *w = &fake.list[i];
        if (w->receives)
            MPI_Irecv(w->copy, (int)w->bytes, MPI_BYTE, w->peer, 0, fake.comm, &w->request);
        else
            MPI_Issend(w->copy, (int)w->bytes, MPI_BYTE, w->peer, 0, fake.comm, &w->request);
    }
    fake.in_progress = true;
    return ncclInProgress;
}

/* What is not one group would wait for itself on a GPU. */
static ncclResult_t add(work w)
{
    if (!fake.grouped || fake.count == MOST) return ncclInvalidUsage;
    fake.list[fake.count++] = w;
    return ncclSuccess;
}

OUT ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream)
{
    (void)comm, (void)stream;
    if (type != ncclUint8) return ncclInvalidArgument;
    return add((work){.copy = taken_from(data, count), .bytes = count, .peer = peer});
}

OUT ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                          cudaStream_t stream)
{
    (void)comm, (void)stream;
    if (type != ncclUint8) return ncclInvalidArgument;
    return add(
        (work){.device = data, .copy = malloc(count + 1), .bytes = count, .peer = peer, .receives = true});
}

OUT ncclResult_t ncclAllReduce(const void *data, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream)
{
    (void)comm, (void)stream;
    MPI_Datatype as = type == ncclFloat32   ? MPI_FLOAT
                      : type == ncclFloat64 ? MPI_DOUBLE
                      : type == ncclInt32   ? MPI_INT32_T
                                            : MPI_INT64_T;
    size_t bytes = count * (type == ncclFloat64 || type == ncclInt64 ? 8 : 4);
    void *copy = taken_from(data, bytes);
    if (op != ncclSum || fake.grouped) return ncclInvalidArgument;
    MPI_Allreduce(MPI_IN_PLACE, copy, (int)count, as, MPI_SUM, fake.comm);
    put_into(out, copy, bytes);
    return ncclSuccess;
}

OUT ncclResult_t ncclAllGather(const void *data, void *out, size_t count, ncclDataType_t type,
                               ncclComm_t comm, cudaStream_t stream)
{
    (void)comm, (void)stream;
    if (type != ncclUint8) return ncclInvalidArgument;
    void *copy = taken_from(data, count), *all = malloc(count * (size_t)fake.size + 1);
    MPI_Allgather(copy, (int)count, MPI_BYTE, all, (int)count, MPI_BYTE, fake.comm);
    put_into(out, all, count * (size_t)fake.size);
    free(copy);
    return ncclSuccess;
}

OUT ncclResult_t ncclBroadcast(const void *data, void *out, size_t count, ncclDataType_t type, int root,
                               ncclComm_t comm, cudaStream_t stream)
{
    (void)comm, (void)stream;
    if (type != ncclUint8) return ncclInvalidArgument;
    void *copy = taken_from(data, count);
    MPI_Bcast(copy, (int)count, MPI_BYTE, root, fake.comm);
    put_into(out, copy, count);
    return ncclSuccess;
}
