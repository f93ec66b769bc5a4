/* Matrix products by cuBLAS.
 *
 * gradus stores rows, cuBLAS columns: the memory of a row-major matrix is its transpose to the library, so operands are
 * swapped instead of turned.  Matrices with adjacent rows or columns are read and written where they lie.  Their batch is one
 * stride, or, as in attention, where the heads of one time are side by side,
 *
 *     [batch, time, 3, heads, size] seen as [3][batch, heads, time, size]
 *
 * a list of addresses on the device.  Lists are kept: memory is given out again in the same order step by step, so that a
 * training step finds those of the last one. */
#include "plugin.h"

#include "batch.h"
#include "tensor/linalg.h"

#include <string.h>

/* ---- lists of addresses ---- */

#define SETS 128
#define WAYS 8 /* of one set; more than the three of a product, so that they never drive each other out */

typedef struct place_key {
    const char *base;
    int64_t ndim, size[GD_MAX_DIMS], step[GD_MAX_DIMS];
} place_key;

typedef struct place_list {
    place_key key;
    void *list; /* on the device; NULL: empty */
    size_t bytes;
    uint64_t used;
    bool pinned; /* a graph reads it */
} place_list;

struct cuda_places {
    place_list item[SETS][WAYS];
    place_list loose[WAYS]; /* those of sets in which all are pinned, the last few */
    int next;
    uint64_t clock;
};

void cuda_places_free(gd_device *device)
{
    cuda_places *all = cuda_of(device)->places;
    if (!all) return;
    for (int set = 0; set < SETS; set++)
        for (int way = 0; way < WAYS; way++)
            if (all->item[set][way].list)
                cuda_free(device, all->item[set][way].list, all->item[set][way].bytes);
    for (int way = 0; way < WAYS; way++)
        if (all->loose[way].list) cuda_free(device, all->loose[way].list, all->loose[way].bytes);
    device->host->free(device->ctx, all, sizeof *all);
    cuda_of(device)->places = NULL;
}

void cuda_places_unpin(gd_device *device)
{
    cuda_places *all = cuda_of(device)->places;
    for (int set = 0; set < SETS && all; set++)
        for (int way = 0; way < WAYS; way++) all->item[set][way].pinned = false;
}

static uint64_t mixed(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9E3779B97F4A7C15u;
    return h ^ h >> 29;
}

static place_list *set_of(cuda_places *all, const place_key *key)
{
    uint64_t h = mixed(0, (uint64_t)(uintptr_t)key->base);
    for (int d = 0; d < key->ndim; d++) h = mixed(mixed(h, (uint64_t)key->size[d]), (uint64_t)key->step[d]);
    return all->item[(h >> 32) % SETS];
}

/* The list of a key's set, or the one that was not used for longest, emptied. */
static place_list *find_list(gd_device *device, cuda_places *all, const place_key *key)
{
    place_list *set = set_of(all, key), *oldest = NULL;
    for (int way = 0; way < WAYS; way++) {
        if (set[way].list && !memcmp(&set[way].key, key, sizeof *key)) return &set[way];
        if (!set[way].pinned && (!oldest || set[way].used < oldest->used)) oldest = &set[way];
    }
    if (!oldest) oldest = &all->loose[all->next++ % WAYS];
    if (oldest->list) cuda_free(device, oldest->list, oldest->bytes);
    *oldest = (place_list){.list = NULL};
    return oldest;
}

/* Addresses of the matrices of one operand (0 left, 1 right, 2 result), on the device; NULL with the error recorded. */
static void *list_of(gd_device *device, const cuda_batch *b, int operand, const char *base)
{
    cuda_state *s = cuda_of(device);
    if (!s->places) {
        if (!(s->places = device->host->alloc(device->ctx, sizeof *s->places))) return NULL;
        memset(s->places, 0, sizeof *s->places);
    }
    place_key key;
    memset(&key, 0, sizeof key); /* compared as bytes */
    key.base = base;
    key.ndim = b->ndim;
    memcpy(key.size, b->size, (size_t)b->ndim * sizeof *b->size);
    memcpy(key.step, b->step[operand], (size_t)b->ndim * sizeof *b->size);
    place_list *found = find_list(device, s->places, &key), noted = {.list = NULL};
    if (s->capturing && !found->list) found = &noted; /* only the graph writes it: the block is the graph's */
    found->used = ++s->places->clock;
    found->pinned = found->pinned || s->capturing;
    if (found->list) return found->list;
    size_t bytes = (size_t)b->count * sizeof(void *);
    void *list = cuda_alloc(device, bytes);
    if (!list) return NULL;
    if (cuda_write_places(device, list, b->count, base, b->ndim, key.size, key.step)) {
        cuda_free(device, list, bytes);
        return NULL;
    }
    found->key = key;
    found->list = list;
    found->bytes = bytes;
    return list;
}

/* ---- operands ---- */

typedef struct operand {
    gd_tensor t; /* as it lies; owns nothing */
    cuda_matrix matrix;
    void *copy; /* its memory where it is a dense one, to be freed */
    size_t bytes;
} operand;

/* Dense memory of the same shape, as yet without values. */
static gd_status make_dense(gd_device *device, operand *o)
{
    o->bytes = (size_t)o->t.numel * gd_dtype_size(o->t.dtype);
    if (!(o->copy = cuda_alloc(device, o->bytes))) return GD_NOMEM;
    o->t.data = o->copy;
    int64_t step = 1;
    for (int i = o->t.ndim; i-- > 0;) {
        o->t.stride[i] = step;
        step *= o->t.size[i];
    }
    (void)cuda_matrix_of(&o->t, &o->matrix);
    return GD_OK;
}

static gd_status copy_dense(gd_device *device, operand *o)
{
    gd_tensor from = o->t;
    if (o->copy) return GD_OK;
    gd_status status = make_dense(device, o);
    return status ? status : cuda_copy_strided(device, &o->t, &from);
}

static void operand_free(gd_device *device, operand *o)
{
    if (o->copy) cuda_free(device, o->copy, o->bytes);
}

typedef struct product {
    gd_device *device;
    const gd_call *call;
    operand left, right, result;
    cuda_batch batch;
    bool plain; /* the batch is one stride */
} product;

static void see_batch(product *p)
{
    cuda_batch_of(&p->left.t, &p->right.t, &p->result.t, &p->batch);
    p->plain = cuda_batch_is_plain(&p->batch);
}

/* Everything a library can do: matrices in place, batches of one stride or of aligned addresses. */
static gd_status prepare(product *p)
{
    gd_device *device = p->device;
    bool listed = gd_dtype_is_float(p->result.t.dtype);
    bool rows = cuda_matrix_of(&p->result.t, &p->result.matrix) && !p->result.matrix.turned;
    rows = listed ? rows : cuda_is_dense(&p->result.t);
    gd_status status = GD_OK;
    if (!cuda_matrix_of(&p->left.t, &p->left.matrix)) status = copy_dense(device, &p->left);
    if (!status && !cuda_matrix_of(&p->right.t, &p->right.matrix)) status = copy_dense(device, &p->right);
    if (!status && !rows) status = make_dense(device, &p->result);
    see_batch(p);
    listed = listed && cuda_batch_is_aligned(&p->batch, p->left.t.data, p->right.t.data, p->result.t.data);
    if (status || p->plain || listed) return status;
    if (!cuda_is_plain(&p->left.t)) status = copy_dense(device, &p->left);
    if (!status && !cuda_is_plain(&p->right.t)) status = copy_dense(device, &p->right);
    if (!status && !cuda_is_dense(&p->result.t)) status = make_dense(device, &p->result);
    see_batch(p);
    return status;
}

/* ---- the product ---- */

static cudaDataType_t type_of(gd_dtype dtype)
{
    return dtype == GD_F64   ? CUDA_R_64F
           : dtype == GD_F32 ? CUDA_R_32F
           : dtype == GD_F16 ? CUDA_R_16F
                             : CUDA_R_16BF;
}

/* One call of the library: beta result + alpha times what lies at these addresses. */
typedef struct factors {
    const char *left, *right;
    double alpha, beta;
    cudaDataType_t type; /* of both */
} factors;

/* out^T = right^T left^T */
static gd_status gemm(product *p, const factors *f)
{
    gd_device *device = p->device;
    cuda_state *s = cuda_of(device);
    gd_dtype dtype = p->result.t.dtype;
    int64_t item = (int64_t)gd_dtype_size(dtype), lda = p->right.matrix.ld, ldb = p->left.matrix.ld,
            ldc = p->result.matrix.ld;
    const gd_tensor *out = &p->result.t;
    int64_t rows = out->size[out->ndim - 2], columns = out->size[out->ndim - 1],
            inner = p->left.t.size[out->ndim - 1];
    const char *a = f->right, *b = f->left;
    char *c = p->result.t.data;
    cudaDataType_t type = f->type, result = type_of(dtype);
    cublasComputeType_t compute = dtype == GD_F64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = p->right.matrix.turned ? CUBLAS_OP_T : CUBLAS_OP_N,
                      op_b = p->left.matrix.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
    float alpha32 = (float)f->alpha, beta32 = (float)f->beta;
    const void *alpha = dtype == GD_F64 ? (const void *)&f->alpha : &alpha32,
               *beta = dtype == GD_F64 ? (const void *)&f->beta : &beta32;
    cublasStatus_t code;
    if (p->plain) {
        int64_t step[3] = {0};
        for (int k = 0; k < 3 && p->batch.ndim; k++) step[k] = p->batch.step[k][0] / item;
        code = s->api.cublasGemmStridedBatchedEx_64(s->blas, op_a, op_b, columns, rows, inner, alpha, a, type,
                                                    lda, step[1], b, type, ldb, step[0], beta, c, result, ldc,
                                                    step[2], p->batch.count, compute, CUBLAS_GEMM_DEFAULT);
        return code ? cuda_blas_fail(device, "cublasGemmStridedBatchedEx", code) : GD_OK;
    }
    const void *const *as = list_of(device, &p->batch, 1, a);
    const void *const *bs = as ? list_of(device, &p->batch, 0, b) : NULL;
    void *const *cs = bs ? list_of(device, &p->batch, 2, c) : NULL;
    if (!cs) return device->ctx->status ? device->ctx->status : GD_NOMEM;
    code = s->api.cublasGemmBatchedEx_64(s->blas, op_a, op_b, columns, rows, inner, alpha, as, type, lda, bs,
                                         type, ldb, beta, cs, result, ldc, p->batch.count, compute,
                                         CUBLAS_GEMM_DEFAULT);
    return code ? cuda_blas_fail(device, "cublasGemmBatchedEx", code) : GD_OK;
}

/* ---- in a hurry: sums of products of parts ---- */

#define SPLIT_LEAST 1e8 /* multiply-adds from which three products on tensor cores take less time than one */

/* Its numbers are one piece of memory, in any order: parts of them may lie in another as they do. */
static bool is_block(const gd_tensor *t)
{
    int64_t reach = 1;
    for (int i = 0; i < t->ndim; i++) {
        if (t->stride[i] < 0) return false;
        reach += (t->size[i] - 1) * t->stride[i];
    }
    return reach == t->numel;
}

static bool worth_splitting(const product *p)
{
    const gd_tensor *out = &p->result.t;
    double inner = (double)p->left.t.size[out->ndim - 1];
    return p->call->attrs->ni && p->call->attrs->i[0] && out->dtype == GD_F32 && p->plain &&
           cuda_of(p->device)->major >= 8 && is_block(&p->left.t) && is_block(&p->right.t) &&
           (double)out->numel * inner >= SPLIT_LEAST;
}

/* High and low parts of an operand, one after the other. */
static char *split_parts(gd_device *device, const gd_tensor *t)
{
    size_t bytes = (size_t)t->numel * sizeof(uint16_t);
    char *parts = cuda_alloc(device, 2 * bytes);
    if (!parts || !cuda_split(device, t->data, parts, parts + bytes, t->numel)) return parts;
    cuda_free(device, parts, 2 * bytes);
    return NULL;
}

/* low high + high low + high high */
static gd_status split_gemm(product *p)
{
    gd_device *device = p->device;
    const gd_tensor *l = &p->left.t, *r = &p->right.t;
    size_t left_bytes = (size_t)l->numel * sizeof(uint16_t),
           right_bytes = (size_t)r->numel * sizeof(uint16_t);
    bool same = l->data == r->data && l->numel == r->numel;
    char *left = split_parts(device, l), *right = left && !same ? split_parts(device, r) : left;
    gd_status status = right ? GD_OK : device->ctx->status ? device->ctx->status : GD_NOMEM;
    factors f[3] = {{left + left_bytes, right, 1, 0, CUDA_R_16BF},
                    {left, right + right_bytes, 1, 1, CUDA_R_16BF},
                    {left, right, 1, 1, CUDA_R_16BF}};
    for (int k = 0; k < 3 && !status; k++) status = gemm(p, &f[k]);
    if (right && !same) cuda_free(device, right, 2 * right_bytes);
    if (left) cuda_free(device, left, 2 * left_bytes);
    return status;
}

static gd_status library_product(product *p, double alpha, double beta)
{
    gd_status status = cuda_need_blas(p->device);
    if (status) return status;
    if (worth_splitting(p) && alpha == 1 && beta == 0) return split_gemm(p);
    factors f = {p->left.t.data, p->right.t.data, alpha, beta, type_of(p->result.t.dtype)};
    return gemm(p, &f);
}

/* Batch, row and column steps of an operand in elements. */
static void strides_of(const product *p, const operand *o, int which, int64_t stride[3])
{
    int n = o->t.ndim;
    stride[0] = p->batch.ndim ? p->batch.step[which][0] / (int64_t)gd_dtype_size(o->t.dtype) : 0;
    stride[1] = o->t.stride[n - 2];
    stride[2] = o->t.stride[n - 1];
}

static gd_status multiply(product *p, double alpha, double beta)
{
    gd_device *device = p->device;
    gd_tensor *out = &p->result.t;
    if (p->left.t.numel == 0 || p->right.t.numel == 0) { /* sums of nothing */
        gd_call fill = {.op = GD_OP_fill, .nout = 1, .out = &out, .attrs = &(gd_attrs){0}};
        gd_status status = cuda_is_dense(out) ? GD_OK : make_dense(device, &p->result);
        return status ? status : cuda_full(device, &fill);
    }
    gd_status status = prepare(p);
    if (status) return status;
    if (gd_dtype_is_float(out->dtype)) return library_product(p, alpha, beta);
    int64_t left[3], right[3];
    strides_of(p, &p->left, 0, left);
    strides_of(p, &p->right, 1, right);
    gd_call dense = *p->call;
    dense.out = &out;
    return cuda_integer_product(device, &dense, p->left.t.data, left, p->right.t.data, right);
}

gd_status cuda_matmul(gd_device *device, const gd_call *call) { return cuda_multiply(device, call, 1, 0); }

gd_status cuda_multiply(gd_device *device, const gd_call *call, double alpha, double beta)
{
    product p = {.device = device,
                 .call = call,
                 .left.t = *call->in[0],
                 .right.t = *call->in[1],
                 .result.t = *call->out[0]};
    if (call->out[0]->numel == 0) return GD_OK;
    gd_status status = multiply(&p, alpha, beta);
    if (!status && p.result.copy) status = cuda_copy_strided(device, call->out[0], &p.result.t);
    operand_free(device, &p.left);
    operand_free(device, &p.right);
    operand_free(device, &p.result);
    return status;
}
