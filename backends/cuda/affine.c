/* x w^T + b and beta c + alpha a b by cuBLASLt, which adds while the product is still in registers.  The first algorithm it proposes for a
 * shape is kept, so that a shape is computed the same way every time.  Where the library is not there, or has none for a
 * shape or dtype: a product and a sum.
 *
 * Rows are columns to the library: out^T = w x^T + b, b along the rows of out^T; out^T = beta c^T + alpha b^T a^T. */
#include "plugin.h"

#include <string.h>

#define PLANS     64
#define WORKSPACE ((size_t)32 << 20)

/* What is computed: out [batch, rows, outputs] from [batch, rows, inputs] and the other. */
typedef struct shape {
    int64_t batch, rows, inputs, outputs;
    gd_dtype dtype;
    bool adds; /* to another matrix, and w is [inputs, outputs]; else a bias, and it is [outputs, inputs] */
} shape;

typedef struct plan {
    shape shape;
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
    *p = (plan){.usable = false};
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

/* A matrix of columns x rows numbers, one after the other in a batch. */
static cublasStatus_t lay_out(const cuda_api *api, const shape *s, int64_t columns, int64_t rows,
                              cublasLtMatrixLayout_t *layout)
{
    int32_t batch = (int32_t)s->batch;
    int64_t step = columns * rows;
    cublasStatus_t code = api->cublasLtMatrixLayoutCreate(layout, type_of(s->dtype), (uint64_t)columns,
                                                          (uint64_t)rows, columns);
    if (code || batch == 1) return code;
    code = api->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch,
                                                 sizeof batch);
    if (code) return code;
    return api->cublasLtMatrixLayoutSetAttribute(*layout, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &step,
                                                 sizeof step);
}

/* The bias, and that w is turned. */
static cublasStatus_t with_bias(const cuda_api *api, cublasLtMatmulDesc_t product)
{
    cublasOperation_t turn = CUBLAS_OP_T;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    cublasStatus_t code = api->cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &turn,
                                                              sizeof turn);
    if (code) return code;
    return api->cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue,
                                               sizeof epilogue);
}

static cublasStatus_t describe(const cuda_state *s, plan *p)
{
    const cuda_api *api = &s->api;
    const shape *sh = &p->shape;
    bool fast = s->tf32 && sh->dtype == GD_F32;
    cublasStatus_t code = api->cublasLtMatmulDescCreate(
        &p->product, fast ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F);
    if (!code && !sh->adds) code = with_bias(api, p->product);
    if (!code)
        code = lay_out(api, sh, sh->adds ? sh->outputs : sh->inputs, sh->adds ? sh->inputs : sh->outputs,
                       &p->w);
    if (!code) code = lay_out(api, sh, sh->inputs, sh->rows, &p->x);
    if (!code) code = lay_out(api, sh, sh->outputs, sh->rows, &p->out);
    return code;
}

static cublasStatus_t set_bias(const cuda_api *api, const plan *p, const void *bias)
{
    if (p->shape.adds) return CUBLAS_STATUS_SUCCESS;
    return api->cublasLtMatmulDescSetAttribute(p->product, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias,
                                               sizeof bias);
}

static cublasStatus_t choose(const cuda_state *s, const cuda_affine *a, plan *p, const void *bias)
{
    const cuda_api *api = &s->api;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    size_t room = WORKSPACE;
    int count = 0;
    cublasStatus_t code = set_bias(api, p, bias);
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

static bool fits(const plan *p, const shape *s)
{
    const shape *q = &p->shape;
    return q->batch == s->batch && q->rows == s->rows && q->inputs == s->inputs && q->outputs == s->outputs &&
           q->dtype == s->dtype && q->adds == s->adds;
}

/* The plan of a shape; one that is not usable where the library has no way to do it. */
static plan *plan_for(cuda_state *s, const shape *sh, const void *bias)
{
    cuda_affine *a = s->affine;
    for (int i = 0; i < a->plans; i++)
        if (fits(&a->plan[i], sh)) return &a->plan[i];
    plan *p = &a->plan[a->plans < PLANS ? a->plans++ : a->next++ % PLANS];
    plan_free(&s->api, p);
    p->shape = *sh;
    if (!describe(s, p)) (void)choose(s, a, p, bias);
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

/* A usable plan, or NULL: then it is done in other ways, unless the context has an error. */
static plan *usable_plan(gd_device *device, const shape *sh, const void *bias)
{
    bool here = sh->dtype != GD_F64 && sh->inputs && sh->batch <= INT32_MAX && open_library(device);
    plan *p = here && !device->ctx->status ? plan_for(cuda_of(device), sh, bias) : NULL;
    return p && p->usable ? p : NULL;
}

/* beta c + alpha x w with c in its own memory. */
static gd_status run_plan(gd_device *device, const plan *p, const void *w, const void *x, const void *c,
                          void *out, float alpha, float beta)
{
    cuda_state *s = cuda_of(device);
    cublasStatus_t code = s->api.cublasLtMatmul(s->affine->handle, p->product, &alpha, w, p->w, x, p->x,
                                                &beta, c, p->out, out, p->out, &p->algorithm,
                                                s->affine->workspace, WORKSPACE, s->stream);
    if (!code) return GD_OK;
    return device->host->fail(device->ctx, GD_DEVICE, "%s: cublasLtMatmul failed (status %d)", device->name,
                              (int)code);
}

gd_status cuda_linear(gd_device *device, const gd_call *call)
{
    const gd_tensor *x = call->in[0], *w = call->in[1];
    gd_tensor *out = call->out[0];
    const void *bias = call->in[2]->data;
    if (out->numel == 0) return GD_OK;
    shape sh = {1, x->size[0], w->size[1], w->size[0], x->dtype, false};
    plan *p = usable_plan(device, &sh, bias);
    if (device->ctx->status) return device->ctx->status;
    if (!p) return product_and_sum(device, call);
    cublasStatus_t code = set_bias(&cuda_of(device)->api, p, bias);
    if (code) return cuda_blas_fail(device, "cublasLtMatmulDescSetAttribute", code);
    return run_plan(device, p, w->data, x->data, out->data, out->data, 1, 0);
}

/* in = c, a, b; attributes: beta, alpha.  c is in order. */
gd_status cuda_addmm(gd_device *device, const gd_call *call)
{
    const gd_tensor *c = call->in[0], *a = call->in[1], *b = call->in[2];
    gd_tensor *out = call->out[0];
    int n = out->ndim;
    if (out->numel == 0) return GD_OK;
    int64_t rows = out->size[n - 2], columns = out->size[n - 1];
    shape sh = {out->numel / (rows * columns), rows, a->size[n - 1], columns, out->dtype, true};
    bool dense = cuda_is_dense(a) && cuda_is_dense(b);
    plan *p = dense ? usable_plan(device, &sh, NULL) : NULL;
    if (device->ctx->status) return device->ctx->status;
    if (p)
        return run_plan(device, p, b->data, a->data, c->data, out->data, (float)call->attrs->f[1],
                        (float)call->attrs->f[0]);
    gd_status status = out->data == c->data ? GD_OK : cuda_copy_strided(device, out, c);
    gd_call times = *call;
    times.op = GD_OP_matmul;
    times.nin = 2;
    times.in = call->in + 1;
    return status ? status : cuda_multiply(device, &times, call->attrs->f[1], call->attrs->f[0]);
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
