/* Factorisations by cuSOLVER, triangular solves by cuBLAS, and how the two libraries are opened.
 *
 * gradus stores rows, CUDA's libraries columns: the memory of a row-major matrix is its transpose to them.  Factorisations
 * of general matrices transpose by a strided copy. */
#include "plugin.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

gd_status cuda_blas_fail(gd_device *device, const char *what, cublasStatus_t code)
{
    gd_status status = code == CUBLAS_STATUS_ALLOC_FAILED ? GD_NOMEM : GD_DEVICE;
    return device->host->fail(device->ctx, status, "%s: %s failed: %s", device->name, what,
                              cuda_of(device)->api.cublasGetStatusString(code));
}

static gd_status solver_fail(gd_device *device, const char *what, int code)
{
    gd_status status = code == CUSOLVER_STATUS_ALLOC_FAILED ? GD_NOMEM : GD_DEVICE;
    return device->host->fail(device->ctx, status, "%s: %s failed (cuSOLVER status %d)", device->name, what,
                              code);
}

/* Opens cuBLAS ('B') or cuSOLVER ('S') the first time. */
static gd_status need_library(gd_device *device, char letter)
{
    cuda_state *s = cuda_of(device);
    char why[256];
    bool there = letter == 'B' ? s->api.cublasDtrsm_v2_64 != NULL : s->api.cusolverDnDgesvd != NULL;
    if (there || cuda_api_library(&s->api, letter, why, sizeof why)) return GD_OK;
    return device->host->fail(device->ctx, GD_DEVICE, "%s: %s", device->name, why);
}

gd_status cuda_need_blas(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    if (s->blas) return GD_OK;
    gd_status status = need_library(device, 'B');
    if (status) return status;
    cublasHandle_t blas = NULL;
    cublasStatus_t code = s->api.cublasCreate_v2(&blas);
    if (code) return cuda_blas_fail(device, "cublasCreate", code);
    code = s->api.cublasSetStream_v2(blas, s->stream);
    if (!code && s->tf32) code = s->api.cublasSetMathMode(blas, CUBLAS_TF32_TENSOR_OP_MATH);
    if (!code) {
        s->blas = blas;
        return GD_OK;
    }
    (void)s->api.cublasDestroy_v2(blas);
    return cuda_blas_fail(device, "cublasSetStream", code);
}

static gd_status need_solver(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    if (s->solver) return GD_OK;
    gd_status status = need_library(device, 'S');
    if (status) return status;
    cusolverDnHandle_t solver = NULL;
    int code = (int)s->api.cusolverDnCreate(&solver);
    if (code) return solver_fail(device, "cusolverDnCreate", code);
    code = (int)s->api.cusolverDnSetStream(solver, s->stream);
    if (!code) {
        s->solver = solver;
        return GD_OK;
    }
    (void)s->api.cusolverDnDestroy(solver);
    return solver_fail(device, "cusolverDnSetStream", code);
}

/* ---- factorisations ---- */

/* One matrix of a batch and the room around it. */
typedef struct factor {
    gd_device *device;
    cuda_state *s;
    bool wide; /* f64 */
    size_t item;
    int *info; /* on the device */
    int *pivots;
    void *work, *tau, *matrix, *other;
    size_t work_bytes, tau_bytes, matrix_bytes, other_bytes, pivot_bytes;
} factor;

static bool room(factor *f, void **p, size_t *bytes, size_t want)
{
    *bytes = want ? want : 1;
    return (*p = cuda_alloc(f->device, *bytes)) != NULL;
}

static void factor_free(factor *f)
{
    if (f->info) cuda_free(f->device, f->info, sizeof(int));
    if (f->pivots) cuda_free(f->device, f->pivots, f->pivot_bytes);
    if (f->work) cuda_free(f->device, f->work, f->work_bytes);
    if (f->tau) cuda_free(f->device, f->tau, f->tau_bytes);
    if (f->matrix) cuda_free(f->device, f->matrix, f->matrix_bytes);
    if (f->other) cuda_free(f->device, f->other, f->other_bytes);
}

/* A dense tensor struct on the stack over some memory. */
static gd_tensor over(const factor *f, void *data, int64_t rows, int64_t columns, bool transposed)
{
    gd_tensor t = {.dtype = f->wide ? GD_F64 : GD_F32, .ndim = 2, .numel = rows * columns, .data = data};
    t.size[0] = rows;
    t.size[1] = columns;
    t.stride[0] = transposed ? 1 : columns;
    t.stride[1] = transposed ? rows : 1;
    return t;
}

/* Row-major to column-major memory (or back), rows x columns as seen row-major. */
static gd_status to_columns(const factor *f, void *to, const void *from, int64_t rows, int64_t columns)
{
    gd_tensor a = over(f, (void *)(uintptr_t)from, rows, columns, false),
              b = over(f, to, rows, columns, true);
    return cuda_copy_strided(f->device, &b, &a);
}

static gd_status to_rows(const factor *f, void *to, const void *from, int64_t rows, int64_t columns)
{
    gd_tensor a = over(f, (void *)(uintptr_t)from, rows, columns, true),
              b = over(f, to, rows, columns, false);
    return cuda_copy_strided(f->device, &b, &a);
}

static gd_status copy_flat(const factor *f, void *to, const void *from, int64_t count)
{
    gd_device *device = f->device;
    CUDA_TRY(device, cuMemcpyDtoDAsync_v2((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                          (size_t)count * f->item, f->s->stream));
    return GD_OK;
}

/* Waits for the result code of the library on the device. */
static gd_status read_info(const factor *f, int *info)
{
    gd_device *device = f->device;
    CUDA_TRY(device, cuMemcpyDtoHAsync_v2(info, (CUdeviceptr)(uintptr_t)f->info, sizeof *info, f->s->stream));
    CUDA_TRY(device, cuStreamSynchronize(f->s->stream));
    return GD_OK;
}

/* Calls the f32 or f64 function of a pair; the arguments after the handle in both types. */
#define BOTH(f, name, ...)                                                       \
    ((f)->wide ? (int)(f)->s->api.cusolverDnD##name((f)->s->solver, __VA_ARGS__) \
               : (int)(f)->s->api.cusolverDnS##name((f)->s->solver, __VA_ARGS__))

static gd_status zero_triangle(const factor *f, void *data, int64_t rows, int64_t columns, bool keep_lower)
{
    gd_tensor t = over(f, data, rows, columns, false), *p = &t;
    gd_attrs attrs = {.ni = 2, .i = {0, keep_lower}};
    gd_call call = {.op = GD_OP_tri, .nin = 1, .nout = 1, .in = &p, .out = &p, .attrs = &attrs};
    return cuda_full(f->device, &call);
}

static gd_status cholesky_one(factor *f, char *data, int64_t n, int64_t batch)
{
    int size = 0, info = 0, m = (int)n;
    /* the lower triangle of rows is the upper one of columns */
    int code = BOTH(f, potrf_bufferSize, CUBLAS_FILL_MODE_UPPER, m, (void *)data, m, &size);
    if (!code && !f->work && !room(f, &f->work, &f->work_bytes, (size_t)size * f->item)) return GD_NOMEM;
    if (!code) code = BOTH(f, potrf, CUBLAS_FILL_MODE_UPPER, m, (void *)data, m, f->work, size, f->info);
    if (code) return solver_fail(f->device, "potrf", code);
    gd_status status = read_info(f, &info);
    if (!status && info)
        status = f->device->host->fail(
            f->device->ctx, GD_SINGULAR,
            "cholesky: the matrix is not positive definite (leading minor %d of batch %lld)", info,
            (long long)batch);
    return status ? status : zero_triangle(f, data, n, n, true);
}

/* LU of the memory at `data` (the transpose of the row-major matrix), in place. */
static gd_status lu(factor *f, char *data, int64_t n, int *info)
{
    int size = 0, m = (int)n;
    int code = BOTH(f, getrf_bufferSize, m, m, (void *)data, m, &size);
    if (!code && !f->work && !room(f, &f->work, &f->work_bytes, (size_t)size * f->item)) return GD_NOMEM;
    if (!f->pivots) {
        f->pivot_bytes = (size_t)n * sizeof(int);
        if (!(f->pivots = cuda_alloc(f->device, f->pivot_bytes ? f->pivot_bytes : 1))) return GD_NOMEM;
    }
    if (!code) code = BOTH(f, getrf, m, m, (void *)data, m, f->work, f->pivots, f->info);
    return code ? solver_fail(f->device, "getrf", code) : read_info(f, info);
}

static gd_status solve_one(factor *f, const char *a, const char *b, char *x, int64_t n, int64_t k,
                           int64_t batch, bool inverse)
{
    int info = 0;
    size_t square = (size_t)(n * n) * f->item, side = (size_t)(n * k) * f->item;
    if (!f->matrix && !room(f, &f->matrix, &f->matrix_bytes, square)) return GD_NOMEM;
    if (!f->other && !room(f, &f->other, &f->other_bytes, side)) return GD_NOMEM;
    gd_status status = copy_flat(f, f->matrix, a, n * n);
    if (!status) status = lu(f, f->matrix, n, &info);
    if (!status && info)
        status = f->device->host->fail(f->device->ctx, GD_SINGULAR,
                                       "%s: the matrix is singular (pivot %d of batch %lld)",
                                       inverse ? "inverse" : "solve", info, (long long)batch);
    if (!status) status = to_columns(f, f->other, b, n, k);
    if (status) return status;
    int code = BOTH(f, getrs, CUBLAS_OP_T, (int)n, (int)k, f->matrix, (int)n, f->pivots, f->other, (int)n,
                    f->info);
    if (code) return solver_fail(f->device, "getrs", code);
    return to_rows(f, x, f->other, n, k);
}

/* The diagonal of the n x n matrix in f->matrix, on the host; malloc'ed. */
static gd_status read_diagonal(factor *f, int64_t n, void **host)
{
    gd_device *device = f->device;
    size_t bytes = (size_t)n * f->item;
    if (!f->other && !room(f, &f->other, &f->other_bytes, bytes)) return GD_NOMEM;
    gd_tensor from = over(f, f->matrix, n, 1, false), to = over(f, f->other, n, 1, false);
    from.stride[0] = n + 1;
    gd_status status = cuda_copy_strided(device, &to, &from);
    if (status) return status;
    if (!(*host = malloc(bytes + 1)))
        return device->host->fail(device->ctx, GD_NOMEM, "logdet: out of memory");
    CUDA_TRY(device, cuMemcpyDtoHAsync_v2(*host, (CUdeviceptr)(uintptr_t)f->other, bytes, f->s->stream));
    CUDA_TRY(device, cuStreamSynchronize(f->s->stream));
    return GD_OK;
}

/* log |det| from the diagonal of the LU factors, summed on the host; -inf for a singular matrix. */
static gd_status logdet_one(factor *f, const char *a, char *out, int64_t n)
{
    gd_device *device = f->device;
    int info = 0;
    void *host = NULL;
    double sum = 0;
    gd_status status = GD_OK;
    if (n && !f->matrix && !room(f, &f->matrix, &f->matrix_bytes, (size_t)(n * n) * f->item)) return GD_NOMEM;
    if (n) status = copy_flat(f, f->matrix, a, n * n);
    if (n && !status) status = lu(f, f->matrix, n, &info);
    if (n && !status) status = read_diagonal(f, n, &host);
    for (int64_t i = 0; i < n && !status; i++)
        sum += log(fabs(f->wide ? ((double *)host)[i] : (double)((float *)host)[i]));
    free(host);
    float narrow = (float)sum;
    if (!status)
        CUDA_TRY(device,
                 cuMemcpyHtoDAsync_v2((CUdeviceptr)(uintptr_t)out, f->wide ? (void *)&sum : (void *)&narrow,
                                      f->item, f->s->stream));
    return status;
}

static gd_status triangular_one(factor *f, const gd_call *call, const char *a, char *x, int64_t n, int64_t k)
{
    bool lower = call->attrs->i[0], transposed = call->attrs->i[1], unit = call->attrs->i[2];
    float one32 = 1;
    double one64 = 1;
    cublasFillMode_t fill = lower ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
    cublasOperation_t op = transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasDiagType_t diagonal = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
    /* a x = b is x^T a^T = b^T */
    cublasStatus_t code =
        f->wide ? f->s->api.cublasDtrsm_v2_64(f->s->blas, CUBLAS_SIDE_RIGHT, fill, op, diagonal, k, n, &one64,
                                              (const double *)(const void *)a, n, (double *)(void *)x, k)
                : f->s->api.cublasStrsm_v2_64(f->s->blas, CUBLAS_SIDE_RIGHT, fill, op, diagonal, k, n, &one32,
                                              (const float *)(const void *)a, n, (float *)(void *)x, k);
    return code ? cuda_blas_fail(f->device, "trsm", code) : GD_OK;
}

static gd_status qr_one(factor *f, const char *a, char *q, char *r, int64_t m, int64_t n)
{
    int64_t k = m < n ? m : n;
    int size = 0, more = 0;
    if (!f->matrix && !room(f, &f->matrix, &f->matrix_bytes, (size_t)(m * n) * f->item)) return GD_NOMEM;
    if (!f->tau && !room(f, &f->tau, &f->tau_bytes, (size_t)k * f->item)) return GD_NOMEM;
    gd_status status = to_columns(f, f->matrix, a, m, n);
    if (status) return status;
    int code = BOTH(f, geqrf_bufferSize, (int)m, (int)n, f->matrix, (int)m, &size);
    if (!code) code = BOTH(f, orgqr_bufferSize, (int)m, (int)k, (int)k, f->matrix, (int)m, f->tau, &more);
    if (more > size) size = more;
    if (!code && !f->work && !room(f, &f->work, &f->work_bytes, (size_t)size * f->item)) return GD_NOMEM;
    if (!code) code = BOTH(f, geqrf, (int)m, (int)n, f->matrix, (int)m, f->tau, f->work, size, f->info);
    if (code) return solver_fail(f->device, "geqrf", code);
    /* R: the first k rows, upper triangle */
    gd_tensor from = over(f, f->matrix, m, n, true), to = over(f, r, k, n, false);
    from.size[0] = k;
    from.numel = k * n;
    status = cuda_copy_strided(f->device, &to, &from);
    if (!status) status = zero_triangle(f, r, k, n, false);
    if (status) return status;
    code = BOTH(f, orgqr, (int)m, (int)k, (int)k, f->matrix, (int)m, f->tau, f->work, size, f->info);
    return code ? solver_fail(f->device, "orgqr", code) : to_rows(f, q, f->matrix, m, k);
}

static gd_status eigh_one(factor *f, const char *a, char *values, char *vectors, int64_t n, int64_t batch)
{
    int size = 0, info = 0;
    if (!f->matrix && !room(f, &f->matrix, &f->matrix_bytes, (size_t)(n * n) * f->item)) return GD_NOMEM;
    gd_status status = copy_flat(f, f->matrix, a, n * n);
    if (status) return status;
    int code = BOTH(f, syevd_bufferSize, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, (int)n, f->matrix,
                    (int)n, (void *)values, &size);
    if (!code && !f->work && !room(f, &f->work, &f->work_bytes, (size_t)size * f->item)) return GD_NOMEM;
    if (!code)
        code = BOTH(f, syevd, CUSOLVER_EIG_MODE_VECTOR, CUBLAS_FILL_MODE_UPPER, (int)n, f->matrix, (int)n,
                    (void *)values, f->work, size, f->info);
    if (code) return solver_fail(f->device, "syevd", code);
    status = read_info(f, &info);
    if (!status && info)
        status = f->device->host->fail(f->device->ctx, GD_SINGULAR, "eigh: no convergence (batch %lld)",
                                       (long long)batch);
    return status ? status : to_rows(f, vectors, f->matrix, n, n);
}

/* gesvd wants at least as many rows as columns; a wide matrix is given as its transpose, which its memory already is. */
static gd_status svd_one(factor *f, const char *a, char *u, char *sv, char *vt, int64_t m, int64_t n,
                         int64_t batch)
{
    bool tall = m >= n;
    int64_t rows = tall ? m : n, columns = tall ? n : m;
    int size = 0, info = 0;
    size_t left = (size_t)(rows * columns) * f->item, right = (size_t)(columns * columns) * f->item;
    if (!f->matrix && !room(f, &f->matrix, &f->matrix_bytes, left)) return GD_NOMEM;
    if (!f->other && !room(f, &f->other, &f->other_bytes, left + right)) return GD_NOMEM;
    char *lu_ = f->other, *rv = lu_ + left;
    gd_status status = tall ? to_columns(f, f->matrix, a, m, n) : copy_flat(f, f->matrix, a, m * n);
    if (status) return status;
    int code = BOTH(f, gesvd_bufferSize, (int)rows, (int)columns, &size);
    if (!code && !f->work && !room(f, &f->work, &f->work_bytes, (size_t)size * f->item)) return GD_NOMEM;
    if (!code)
        code = BOTH(f, gesvd, 'S', 'S', (int)rows, (int)columns, f->matrix, (int)rows, (void *)sv,
                    (void *)lu_, (int)rows, (void *)rv, (int)columns, f->work, size, NULL, f->info);
    if (code) return solver_fail(f->device, "gesvd", code);
    status = read_info(f, &info);
    if (!status && info)
        status = f->device->host->fail(f->device->ctx, GD_SINGULAR, "svd: no convergence (batch %lld)",
                                       (long long)batch);
    if (status) return status;
    /* columns' memory of a matrix is rows' memory of its transpose */
    if (tall) {
        status = to_rows(f, u, lu_, m, n);
        return status ? status : to_rows(f, vt, rv, n, n);
    }
    status = copy_flat(f, u, rv, m * m);
    return status ? status : copy_flat(f, vt, lu_, m * n);
}

/* Columns of the second operand. */
static int64_t side_of(const gd_call *call)
{
    return call->nin > 1 ? call->in[1]->size[call->in[1]->ndim - 1] : 0;
}

static gd_status factor_batch(factor *f, const gd_call *call, int64_t b, int64_t rows, int64_t columns)
{
    gd_tensor *const *out = call->out;
    int64_t k = rows < columns ? rows : columns, item = (int64_t)f->item;
    const char *a = call->in[0]->data + b * rows * columns * item;
    switch (call->op) {
    case GD_OP_cholesky: return cholesky_one(f, out[0]->data + b * rows * rows * item, rows, b);
    case GD_OP_logdet: return logdet_one(f, a, out[0]->data + b * item, rows);
    case GD_OP_qr:
        return qr_one(f, a, out[0]->data + b * rows * k * item, out[1]->data + b * k * columns * item, rows,
                      columns);
    case GD_OP_eigh:
        return eigh_one(f, a, out[0]->data + b * rows * item, out[1]->data + b * rows * rows * item, rows, b);
    case GD_OP_svd:
        return svd_one(f, a, out[0]->data + b * rows * k * item, out[1]->data + b * k * item,
                       out[2]->data + b * k * columns * item, rows, columns, b);
    default: break;
    }
    int64_t side = side_of(call), step = b * rows * side * item;
    if (call->op == GD_OP_solve)
        return solve_one(f, a, call->in[1]->data + step, out[0]->data + step, rows, side, b,
                         call->attrs->i[0]);
    return triangular_one(f, call, a, out[0]->data + step, rows, side);
}

gd_status cuda_factor(gd_device *device, const gd_call *call)
{
    gd_tensor *a = call->in[0];
    int64_t rows = a->size[a->ndim - 2], columns = a->size[a->ndim - 1], batch = 1;
    for (int i = 0; i < a->ndim - 2; i++) batch *= a->size[i];
    factor f = {
        .device = device, .s = cuda_of(device), .wide = a->dtype == GD_F64, .item = gd_dtype_size(a->dtype)};
    bool empty = a->numel == 0 || call->out[0]->numel == 0, waits = call->op != GD_OP_triangular_solve;
    if (empty && call->op != GD_OP_logdet) return GD_OK;
    if (waits && cuda_not_captured(device, "a factorisation, which waits for its result")) return GD_DEVICE;
    if (call->op != GD_OP_triangular_solve &&
        (rows > INT_MAX || columns > INT_MAX || side_of(call) > INT_MAX))
        return device->host->fail(device->ctx, GD_OVERFLOW,
                                  "%s: cuSOLVER takes matrices of up to 2^31 rows and columns",
                                  device->host->ops[call->op].name);
    gd_status status = call->op == GD_OP_triangular_solve ? cuda_need_blas(device) : need_solver(device);
    if (!status && !(f.info = cuda_alloc(device, sizeof(int)))) status = GD_NOMEM;
    if (!status && call->op == GD_OP_cholesky) status = cuda_copy_strided(device, call->out[0], a);
    if (!status && call->op == GD_OP_triangular_solve)
        status = cuda_copy_strided(device, call->out[0], call->in[1]);
    for (int64_t b = 0; b < batch && !status; b++) status = factor_batch(&f, call, b, rows, columns);
    factor_free(&f);
    return status;
}
