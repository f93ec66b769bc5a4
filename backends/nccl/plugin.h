/* The NCCL plugin: a world whose ranks have a GPU each.
 *
 *   api.c       opens libnccl and the driver
 *   meet.c      who the ranks are, and how NCCL's id gets to all of them: through MPI, or by a file
 *   nccl.c      messages and collectives
 *
 * Bytes in the memory of the rank's GPU are moved by NCCL, on a stream of its own that waits for what the device has queued. Those
 * in the host's are moved by MPI where the ranks met through it, and by NCCL through a buffer on the GPU where they met by a
 * file.  NCCL's messages have no names: the library serves one collective after the other (gd_transport.in_order), and what
 * it posts for one stage is one group, so that no order in which ranks come to it can lock them up. */
#ifndef GD_NCCL_PLUGIN_H
#define GD_NCCL_PLUGIN_H

#include "world/transport.h"

#include <cuda.h>
#include <nccl.h>

/* Every function used: library letter, name.  D driver, N NCCL. */
/* clang-format off */
#define NCCL_FUNCTIONS(X)                                                                                        \
    X(D, cuInit) X(D, cuDeviceGet) X(D, cuDeviceGetCount) X(D, cuDevicePrimaryCtxRetain) X(D, cuDevicePrimaryCtxRelease_v2)            \
    X(D, cuCtxSetCurrent) X(D, cuGetErrorString) X(D, cuStreamCreate) X(D, cuStreamDestroy_v2)                   \
    X(D, cuEventCreate) X(D, cuEventDestroy_v2) X(D, cuEventRecord) X(D, cuEventQuery) X(D, cuStreamWaitEvent)   \
    X(N, ncclGetVersion) X(N, ncclGetUniqueId) X(N, ncclCommInitRankConfig) X(N, ncclCommGetAsyncError)          \
    X(N, ncclCommAbort) X(N, ncclCommFinalize) X(N, ncclCommDestroy) X(N, ncclGetErrorString) X(N, ncclGetLastError)                     \
    X(N, ncclGroupStart) X(N, ncclGroupEnd) X(N, ncclSend) X(N, ncclRecv) X(N, ncclAllReduce) X(N, ncclAllGather) \
    X(N, ncclBroadcast)
/* clang-format on */

typedef struct nccl_api {
    void *driver, *nccl;
#define NCCL_MEMBER(library, name) __typeof__(&name) name;
    NCCL_FUNCTIONS(NCCL_MEMBER)
#undef NCCL_MEMBER
} nccl_api;

typedef struct nccl_state {
    nccl_api api;
    gd_endpoint under; /* of MPI, which moves the host's bytes; transport NULL: there is none */
    gd_device *device;
    CUdevice ordinal;
    CUcontext context;
    CUstream stream;
    CUevent ready, done; /* what the device had queued; what NCCL was given last */
    ncclComm_t comm;
    gd_message *waiting, **last; /* posted, not yet given to NCCL: a group */
    int64_t idle;                /* calls since a message was done */
    bool broken;                 /* the comm is: it is aborted, not destroyed */
    char why[480];               /* NCCL could not go on; "": it can */
} nccl_state;

static inline nccl_state *nccl_of(gd_endpoint *e) { return e->state; }

/* ---- api.c ---- */

/* Opens both libraries; false with the reason. */
bool nccl_api_open(nccl_api *api, char *why, size_t size);
void nccl_api_close(nccl_api *api);
/* "NCCL 2.28.9" */
void nccl_version(const nccl_api *api, char *text, size_t size);

/* ---- meet.c ---- */

/* Finds rank, size and what moves the host's bytes. */
gd_status nccl_compare_call(gd_endpoint *e, nccl_state *s);
/* Gives the id of rank 0 to all. */
gd_status nccl_share_id(gd_endpoint *e, nccl_state *s, ncclUniqueId *id);
/* After all have met: the file is not needed any more. */
void nccl_forget_id(gd_endpoint *e);
/* Which of this machine's GPUs is this rank's: the number of the rank among those of the machine, modulo `gpus`. */
int nccl_gpu_of(const gd_endpoint *e, int gpus);

/* ---- nccl.c ---- */

double nccl_seconds(void);
void nccl_pause(void); /* between two looks at something that will come */

#endif
