/* cuBLAS, cuBLASLt and cuSOLVER that only pretend: a part of fake_driver.h, whose counts and failures they use. */
#ifndef GD_TESTS_CUDA_FAKE_LIBRARIES_H
#define GD_TESTS_CUDA_FAKE_LIBRARIES_H

/* ---- cuBLAS ---- */

static cublasStatus_t fake_blas(void)
{
    return fake_fails() ? fake.failure == CUDA_ERROR_OUT_OF_MEMORY ? CUBLAS_STATUS_ALLOC_FAILED
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED
                        : CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t fake_cublasCreate(cublasHandle_t *handle)
{
    cublasStatus_t status = fake_blas();
    if (status) return status;
    fake.handles++;
    *handle = (cublasHandle_t)(void *)&fake;
    return status;
}
static cublasStatus_t fake_cublasDestroy(cublasHandle_t handle)
{
    (void)handle;
    fake.handles--;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t fake_cublasSetStream(cublasHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    cublasStatus_t status = fake_blas();
    if (!status) fake.blas = stream;
    return status;
}
static cublasStatus_t fake_cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode)
{
    (void)handle, (void)mode;
    return fake_blas();
}
static const char *fake_cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_ALLOC_FAILED ? "the resource allocation failed" : "the function failed";
}
/* Reads the corners of every matrix, so that a sanitizer sees operands that do not fit their strides. */
static void fake_touch(const void *data, cudaDataType type, int64_t rows, int64_t columns, int64_t ld,
                       int64_t step, int64_t batch)
{
    int64_t item = type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
    const volatile char *bytes = data;
    if (ld < rows || rows < 1 || columns < 1) abort();
    (void)bytes[0];
    (void)bytes[((batch - 1) * step + (columns - 1) * ld + rows) * item - 1];
}
static cublasStatus_t fake_cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
    const void *alpha, const void *a, cudaDataType a_type, int64_t lda, long long a_step, const void *b,
    cudaDataType b_type, int64_t ldb, long long b_step, const void *beta, void *c, cudaDataType c_type,
    int64_t ldc, long long c_step, int64_t batch, cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)handle, (void)alpha, (void)beta, (void)compute, (void)algorithm;
    fake_touch(a, a_type, op_a == CUBLAS_OP_N ? m : k, op_a == CUBLAS_OP_N ? k : m, lda, a_step, batch);
    fake_touch(b, b_type, op_b == CUBLAS_OP_N ? k : n, op_b == CUBLAS_OP_N ? n : k, ldb, b_step, batch);
    fake_touch(c, c_type, m, n, ldc, c_step, batch);
    return fake_blas();
}
static cublasStatus_t fake_cublasGemmBatchedEx(cublasHandle_t handle, cublasOperation_t op_a,
                                               cublasOperation_t op_b, int64_t m, int64_t n, int64_t k,
                                               const void *alpha, const void *const a[], cudaDataType a_type,
                                               int64_t lda, const void *const b[], cudaDataType b_type,
                                               int64_t ldb, const void *beta, void *const c[],
                                               cudaDataType c_type, int64_t ldc, int64_t batch,
                                               cublasComputeType_t compute, cublasGemmAlgo_t algorithm)
{
    (void)handle, (void)alpha, (void)beta, (void)compute, (void)algorithm;
    (void)a_type, (void)b_type, (void)c_type;
    if (!a || !b || !c || a == (const void *const *)c || b == (const void *const *)c) abort();
    if (lda < (op_a == CUBLAS_OP_N ? m : k) || ldb < (op_b == CUBLAS_OP_N ? k : n) || ldc < m || batch < 2)
        abort();
    fake.listed++;
    return fake_blas();
}
#define FAKE_TRSM(letter, type)                                                                         \
    static cublasStatus_t fake_cublas##letter##trsm(                                                    \
        cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill, cublasOperation_t op,      \
        cublasDiagType_t diagonal, int64_t m, int64_t n, const type *alpha, const type *a, int64_t lda, \
        type *b, int64_t ldb)                                                                           \
    {                                                                                                   \
        (void)handle, (void)side, (void)fill, (void)op, (void)diagonal, (void)m, (void)n, (void)alpha,  \
            (void)a, (void)lda, (void)b, (void)ldb;                                                     \
        return fake_blas();                                                                             \
    }
FAKE_TRSM(S, float)
FAKE_TRSM(D, double)

/* ---- cuBLASLt: plans are counted as handles ---- */

static cublasStatus_t fake_lt_new(void **made)
{
    cublasStatus_t status = fake_blas();
    if (status) return status;
    fake.handles++;
    *made = &fake;
    return status;
}
static cublasStatus_t fake_lt_gone(void)
{
    fake.handles--;
    return CUBLAS_STATUS_SUCCESS;
}
static cublasStatus_t fake_cublasLtCreate(cublasLtHandle_t *handle) { return fake_lt_new((void **)handle); }
static cublasStatus_t fake_cublasLtDestroy(cublasLtHandle_t handle) { return (void)handle, fake_lt_gone(); }
static cublasStatus_t fake_cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *made, cublasComputeType_t compute,
                                                    cudaDataType_t scale)
{
    return (void)compute, (void)scale, fake_lt_new((void **)made);
}
static cublasStatus_t fake_cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d)
{
    return (void)d, fake_lt_gone();
}
static cublasStatus_t fake_cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                                          cublasLtMatmulDescAttributes_t a, const void *value,
                                                          size_t size)
{
    return (void)d, (void)a, (void)value, (void)size, fake_blas();
}
static cublasStatus_t fake_cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type,
                                                      uint64_t rows, uint64_t columns, int64_t ld)
{
    if (ld < (int64_t)rows || !columns) abort();
    return (void)type, fake_lt_new((void **)made);
}
static cublasStatus_t fake_cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    return (void)l, fake_lt_gone();
}
static cublasStatus_t fake_cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                            cublasLtMatrixLayoutAttribute_t a,
                                                            const void *value, size_t size)
{
    return (void)l, (void)a, (void)value, (void)size, fake_blas();
}
static cublasStatus_t fake_cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    return fake_lt_new((void **)made);
}
static cublasStatus_t fake_cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    return (void)p, fake_lt_gone();
}
static cublasStatus_t fake_cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                                cublasLtMatmulPreferenceAttributes_t a,
                                                                const void *value, size_t size)
{
    return (void)p, (void)a, (void)value, (void)size, fake_blas();
}
static cublasStatus_t fake_cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t d,
                                                          cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                                          cublasLtMatrixLayout_t c,
                                                          cublasLtMatrixLayout_t out,
                                                          cublasLtMatmulPreference_t p, int wanted,
                                                          cublasLtMatmulHeuristicResult_t *found, int *count)
{
    (void)handle, (void)d, (void)a, (void)b, (void)c, (void)out, (void)p, (void)wanted;
    memset(found, 0, sizeof *found);
    *count = 1;
    return fake_blas();
}
static cublasStatus_t fake_cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t d, const void *alpha,
                                          const void *a, cublasLtMatrixLayout_t la, const void *b,
                                          cublasLtMatrixLayout_t lb, const void *beta, const void *c,
                                          cublasLtMatrixLayout_t lc, void *out, cublasLtMatrixLayout_t lo,
                                          const cublasLtMatmulAlgo_t *algorithm, void *room, size_t size,
                                          cudaStream_t stream)
{
    (void)handle, (void)d, (void)alpha, (void)a, (void)la, (void)b, (void)lb, (void)beta, (void)c, (void)lc;
    (void)out, (void)lo, (void)algorithm, (void)room, (void)size, (void)stream;
    return fake_blas();
}

/* ---- cuSOLVER ---- */

static cusolverStatus_t fake_solver(void)
{
    return fake_fails() ? fake.failure == CUDA_ERROR_OUT_OF_MEMORY ? CUSOLVER_STATUS_ALLOC_FAILED
                                                                   : CUSOLVER_STATUS_EXECUTION_FAILED
                        : CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t fake_cusolverDnCreate(cusolverDnHandle_t *handle)
{
    cusolverStatus_t status = fake_solver();
    if (status) return status;
    fake.handles++;
    *handle = (cusolverDnHandle_t)(void *)&fake;
    return status;
}
static cusolverStatus_t fake_cusolverDnDestroy(cusolverDnHandle_t handle)
{
    (void)handle;
    fake.handles--;
    return CUSOLVER_STATUS_SUCCESS;
}
static cusolverStatus_t fake_cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream)
{
    (void)handle;
    cusolverStatus_t status = fake_solver();
    if (!status) fake.solver = stream;
    return status;
}

#define SOLVER cusolverDnHandle_t handle
#define FAKE_SIZE(name, ...)                                                         \
    static cusolverStatus_t fake_##name##_bufferSize(SOLVER, __VA_ARGS__, int *size) \
    {                                                                                \
        (void)handle;                                                                \
        *size = 5;                                                                   \
        return fake_solver();                                                        \
    }
#define FAKE_SOLVE(name, ...)                                           \
    static cusolverStatus_t fake_##name(SOLVER, __VA_ARGS__, int *info) \
    {                                                                   \
        (void)handle;                                                   \
        *info = fake.info;                                              \
        return fake_solver();                                           \
    }
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define FAKE_SOLVERS(T, type)                                                                             \
    FAKE_SIZE(T##potrf, cublasFillMode_t fill, int n, type *a, int lda)                                   \
    FAKE_SOLVE(T##potrf, cublasFillMode_t fill, int n, type *a, int lda, type *work, int size)            \
    FAKE_SIZE(T##getrf, int m, int n, type *a, int lda)                                                   \
    FAKE_SOLVE(T##getrf, int m, int n, type *a, int lda, type *work, int *pivots)                         \
    FAKE_SOLVE(T##getrs, cublasOperation_t op, int n, int k, const type *a, int lda, const int *pivots,   \
               type *b, int ldb)                                                                          \
    FAKE_SIZE(T##geqrf, int m, int n, type *a, int lda)                                                   \
    FAKE_SOLVE(T##geqrf, int m, int n, type *a, int lda, type *tau, type *work, int size)                 \
    FAKE_SIZE(T##orgqr, int m, int n, int k, const type *a, int lda, const type *tau)                     \
    FAKE_SOLVE(T##orgqr, int m, int n, int k, type *a, int lda, const type *tau, type *work, int size)    \
    FAKE_SIZE(T##syevd, cusolverEigMode_t mode, cublasFillMode_t fill, int n, const type *a, int lda,     \
              const type *w)                                                                              \
    FAKE_SOLVE(T##syevd, cusolverEigMode_t mode, cublasFillMode_t fill, int n, type *a, int lda, type *w, \
               type *work, int size)                                                                      \
    FAKE_SIZE(T##gesvd, int m, int n)                                                                     \
    FAKE_SOLVE(T##gesvd, signed char left, signed char right, int m, int n, type *a, int lda, type *s,    \
               type *u, int ldu, type *vt, int ldvt, type *work, int size, type *rest)
FAKE_SOLVERS(S, float)
FAKE_SOLVERS(D, double)
#pragma GCC diagnostic pop

#endif
