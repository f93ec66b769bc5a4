/* x w^T + b by cuBLASLt, which adds the bias while the product is still in registers.  The first algorithm it proposes for a
 * shape is kept, so that a shape is computed the same way every time.  Where the library is not there, or has none for a
 * shape or dtype: a product and a sum.
 *
 * Rows are columns to the library: out^T = w x^T + b, b along the rows of out^T. */
#include "plugin.h"

#include <string.h>

#define PLANS     64
#define WORKSPACE ((size_t)32 << 20)

typedef struct plan {
    int64_t rows, inputs, outputs;
    gd_dtype dtype;
    bool usable;
    cublasLtMatmulDesc_t product;
    cublasLtMatrixLayout_t w, x, out;
    cublasLtMatmulAlgo_t algorithm;
} plan;

struct cuda_affine {
    cublasLtHandle_t handle;
    void *workspace;
    plan plan[PLANS];
    int plans, next; /* next: the one to give up when there are too many */
};

/* ---- plans ---- */

static void plan_free(const cuda_api *api, plan *p)
{
    if (p->product) (void)api->cublasLtMatmulDescDestroy(p->product);
    if (p->w) (void)api->cublasLtMatrixLayoutDestroy(p->w);
    if (p->x) (void)api->cublasLtMatrixLayoutDestroy(p->x);
    if (p->out) (void)api->cublasLtMatrixLayoutDestroy(p->out);
    *p = (plan){.rows = 0};
}

void cuda_affine_free(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    cuda_affine *a = s->affine;
    if (!a) return;
    for (int i = 0; i < a->plans; i++) plan_free(&s->api, &a->plan[i]);
    if (a->handle) (void)s->api.cublasLtDestroy(a->handle);
    if (a->workspace) cuda_free(device, a->workspace, WORKSPACE);
    device->host->free(device->ctx, a, sizeof *a);
    s->affine = NULL;
}

static cudaDataType_t type_of(gd_dtype dtype)
{
    return dtype == GD_F32 ? CUDA_R_32F : dtype == GD_F16 ? CUDA_R_16F : CUDA_R_16BF;
}

static cublasStatus_t describe(const cuda_state *s, plan *p)
{
    const cuda_api *api = &s->api;
    cudaDataType_t type = type_of(p->dtype);
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    bool fast = s->tf32 && p->dtype == GD_F32;
    cublasStatus_t code = api->cublasLtMatmulDescCreate(
        &p->product, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!code)
        code = api->cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_TRANSA, &turn,
                                                   sizeof turn);
    if (!code)
        code = api->cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                                   sizeof epilogue);
    uint64_t inputs = (uint64_t)p->inputs, outputs = (uint64_t)p->outputs, rows = (uint64_t)p->rows;
    if (!code) code = api->cublasLtMatrixLayoutCreate(&p->w, type, inputs, outputs, p->inputs);
    if (!code) code = api->cublasLtMatrixLayoutCreate(&p->x, type, inputs, rows, p->inputs);
    if (!code) code = api->cublasLtMatrixLayoutCreate(&p->out, type, outputs, rows, p->outputs);
    return code;
}

static cublasStatus_t choose(const cuda_state *s, const cuda_affine *a, plan *p, const void *bias)
{
    const cuda_api *api = &s->api;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    size_t room = WORKSPACE;
    int count = 0;
    cublasStatus_t code = api->cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                              &bias, sizeof bias);
    if (!code) code = api->cublasLtMatmulPreferenceCreate(&preference);
    if (!code)
        code = api->cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &room, sizeof room);
    if (!code)
        code = api->cublasLtMatmulAlgoGetHeuristic(a->handle, p->product, p->w, p->x, p->out, p->out,
                                                   preference, 1, &found, &count);
    if (preference) (void)api->cublasLtMatmulPreferenceDestroy(preference);
    if (!code && count) p->algorithm = found.algo;
    p->usable = !code && count;
    return code;
}

static bool fits(const plan *p, const gd_call *call)
{
    const gd_tensor *x = call->in[0], *w = call->in[1];
    return p->rows == x->size[0] && p->inputs == w->size[1] && p->outputs == w->size[0] &&
           p->dtype == x->dtype;
}

/* The plan of a shape; one that is not usable where the library has no way to do it. */
static plan *plan_for(cuda_state *s, const gd_call *call)
{
    cuda_affine *a = s->affine;
    for (int i = 0; i < a->plans; i++)
        if (fits(&a->plan[i], call)) return &a->plan[i];
    plan *p = &a->plan[a->plans < PLANS ? a->plans++ : a->next++ % PLANS];
    plan_free(&s->api, p);
    p->rows = call->in[0]->size[0];
    p->inputs = call->in[1]->size[1];
    p->outputs = call->in[1]->size[0];
    p->dtype = call->in[0]->dtype;
    if (!describe(s, p)) (void)choose(s, a, p, call->in[2]->data);
    return p;
}

/* ---- running ---- */

/* False where the library is not there; what it has is as it was. */
static bool open_library(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    char why[256];
    if (s->affine) return true;
    if (s->no_affine) return false;
    s->no_affine = true;
    if (!s->api.cublasLtMatmul && !cuda_api_library(&s->api, 'L', why, sizeof why)) return false;
    cublasLtHandle_t handle = NULL;
    if (s->api.cublasLtCreate(&handle)) return false;
    cuda_affine *a = device->host->alloc(device->ctx, sizeof *a);
    if (a) {
        memset(a, 0, sizeof *a);
        a->handle = handle;
        s->affine = a;
        if ((a->workspace = cuda_alloc(device, WORKSPACE))) {
            s->no_affine = false;
            return true;
        }
        cuda_affine_free(device);
    } else
        (void)s->api.cublasLtDestroy(handle);
    s->no_affine = false; /* memory may be there the next time */
    return false;
}

static gd_status product_and_sum(gd_device *device, const gd_call *call)
{
    gd_tensor turned = *call->in[1], *in[2] = {call->in[0], &turned};
    turned.size[0] = call->in[1]->size[1];
    turned.size[1] = call->in[1]->size[0];
    turned.stride[0] = 1;
    turned.stride[1] = turned.size[0];
    gd_call product = *call, sum = *call;
    product.op = GD_OP_matmul;
    product.nin = 2;
    product.in = in;
    gd_status status = cuda_matmul(device, &product);
    gd_tensor *terms[2] = {call->out[0], call->in[2]};
    sum.op = GD_OP_add;
    sum.nin = 2;
    sum.in = terms;
    return status ? status : cuda_map(device, &sum);
}

gd_status cuda_linear(gd_device *device, const gd_call *call)
{
    cuda_state *s = cuda_of(device);
    gd_tensor *out = call->out[0];
    if (out->numel == 0) return GD_OK;
    bool here = out->dtype != GD_F64 && call->in[0]->numel && open_library(device);
    if (device->ctx->status) return device->ctx->status;
    plan *p = here ? plan_for(s, call) : NULL;
    if (!p || !p->usable) return product_and_sum(device, call);
    const void *bias = call->in[2]->data;
    float one = 1, zero = 0;
    cublasStatus_t code = s->api.cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                                &bias, sizeof bias);
    if (!code)
        code = s->api.cublasLtMatmul(s->affine->handle, p->product, &one, call->in[1]->data, p->w,
                                     call->in[0]->data, p->x, &zero, out->data, p->out, out->data, p->out,
                                     &p->algorithm, s->affine->workspace, WORKSPACE, s->stream);
    if (!code) return GD_OK;
    return device->host->fail(device->ctx, GD_DEVICE, "%s: cublasLtMatmul failed (status %d)", device->name,
                              (int)code);
}

/* ---- its gradient ---- */

/* Products that take long enough to be worth two events; tensor cores are faster by more than ten. */
static bool worth_a_fork(const gd_tensor *g, const gd_tensor *w)
{
    bool half = g->dtype == GD_F16 || g->dtype == GD_BF16;
    return (double)g->numel * (double)w->size[1] >= (half ? 1e10 : 2.5e8);
}

/* Gradients of weight and bias beside that of x: all that reads g is there, and nobody waits for the others. */
gd_status cuda_linear_grad(gd_device *device, const gd_call *call)
{
    gd_tensor *g = call->in[0], *w = call->in[2], turned = *g;
    turned.size[0] = g->size[1];
    turned.size[1] = g->size[0];
    turned.stride[0] = 1;
    turned.stride[1] = g->size[1];
    gd_attrs sides = {.ni = 5, .i = {1, g->size[0], g->size[1], 0, 0}};
    gd_call back = {GD_OP_matmul, 2, 1, (gd_tensor *[]){g, w}, &call->out[0], &(gd_attrs){0}};
    gd_call weight = {GD_OP_matmul,  2, 1, (gd_tensor *[]){&turned, call->in[1]}, &call->out[1],
                      &(gd_attrs){0}};
    gd_call bias = {GD_OP_sum, 1, 1, &g, &call->out[2], &sides};
    bool forked = worth_a_fork(g, w) && !cuda_need_blas(device) && cuda_fork(device);
    gd_status status = device->ctx->status;
    if (!status) status = cuda_matmul(device, &back); /* in order already: takes no memory */
    if (forked) cuda_go_aside(device);
    if (!status) status = cuda_full(device, &bias);
    if (!status) status = cuda_matmul(device, &weight);
    gd_status joined = forked ? cuda_join(device) : GD_OK;
    return status ? status : joined;
}
