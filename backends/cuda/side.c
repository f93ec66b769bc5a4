/* A second stream, for the parts of an operator that do not wait for each other: where the last blocks of one product leave
 * processors idle, those of the other begin.  Its cuBLAS handle has a workspace of its own, so bits do not depend on what runs
 * beside it. */
#include "plugin.h"

void cuda_side_free(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    cuda_side *side = &s->side;
    if (side->blas) (void)s->api.cublasDestroy_v2(side->blas);
    if (side->forked) (void)s->api.cuEventDestroy_v2(side->forked);
    if (side->joined) (void)s->api.cuEventDestroy_v2(side->joined);
    if (side->stream) (void)s->api.cuStreamDestroy_v2(side->stream);
    *side = (cuda_side){.stream = NULL};
}

/* Nothing is lost without it: no error. */
static bool side_open(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    cuda_side *side = &s->side;
    if (side->stream || side->refused) return side->stream != NULL;
    bool made = s->api.cuStreamCreate(&side->stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS &&
                s->api.cuEventCreate(&side->forked, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
                s->api.cuEventCreate(&side->joined, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS &&
                s->api.cublasCreate_v2(&side->blas) == CUBLAS_STATUS_SUCCESS &&
                s->api.cublasSetStream_v2(side->blas, side->stream) == CUBLAS_STATUS_SUCCESS;
    if (made && s->tf32)
        made = s->api.cublasSetMathMode(side->blas, CUBLAS_TF32_TENSOR_OP_MATH) == CUBLAS_STATUS_SUCCESS;
    if (!made) cuda_side_free(device);
    side->refused = !made;
    return made;
}

static void exchange(cuda_state *s)
{
    CUstream stream = s->stream;
    cublasHandle_t blas = s->blas;
    s->stream = s->side.stream;
    s->blas = s->side.blas;
    s->side.stream = stream;
    s->side.blas = blas;
}

bool cuda_fork(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    if (!s->blas || !side_open(device)) return false;
    if (s->api.cuEventRecord(s->side.forked, s->stream) != CUDA_SUCCESS ||
        s->api.cuStreamWaitEvent(s->side.stream, s->side.forked, 0) != CUDA_SUCCESS)
        return false;
    return true;
}

void cuda_go_aside(gd_device *device) { exchange(cuda_of(device)); }

gd_status cuda_join(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    exchange(s);
    CUDA_TRY(device, cuEventRecord(s->side.joined, s->side.stream));
    CUDA_TRY(device, cuStreamWaitEvent(s->stream, s->side.joined, 0));
    return GD_OK;
}
