/* Factorisations and solvers on the CPU: LAPACK if there is one, the kernels of dense.h otherwise.
 *
 * Operands are contiguous [..., rows, columns]; every matrix of a batch is worked on by one thread alone, so the bits do
 * not depend on the number of threads.
 *
 *   cholesky          in a [n, n]              out l [n, n]                 reads the lower triangle
 *   solve             in a [n, n], b [n, k]    out x [n, k]                 i[0]: 1 when called as `inverse`
 *   triangular_solve  in a [n, n], b [n, k]    out x [n, k]                 i = lower, transposed, unit
 *   logdet            in a [n, n]              out one number               -inf for a singular matrix
 *   qr                in a [m, n]              out q [m, k], r [k, n]       k = min(m, n)
 *   eigh              in a [n, n]              out w [n], v [n, n]          reads the lower triangle
 *   svd               in a [m, n]              out u [m, k], s [k], vt [k, n] */
#include "tensor/cpu/blas.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/dense.h" /* without LAPACK */

#include <limits.h>
#include <math.h>
#include <string.h>

#ifdef GD_HAVE_BLAS
#include <cblas.h>
#include <lapacke.h>
#endif

#define NOT_FINITE    (-1)  /* info of a matrix that holds NaN or infinity */
#define TASK          20000 /* elements times columns below which a second thread is not worth it */
#define TILE          16    /* of a matrix that is transposed */
#define TALL_BYTES    65536 /* of a block of rows of a tall matrix */
#define TALL_LEAST    16384 /* elements of a matrix that is cut into blocks */
#define TALL_ROOM     64    /* columns of work space for LAPACK, per column */
#define ITERATION_MAX 32000 /* LAPACK counts its work space, about 2 n^2 elements, in 32 bits */

typedef struct problems problems;
typedef void (*one_fn)(const problems *p, int64_t b, char *work);

/* A batch of equal problems. */
struct problems {
    one_fn one;
    gd_tensor *const *in;
    gd_tensor *const *out;
    const gd_attrs *attrs;
    int64_t m, n, k;     /* rows, columns, the smaller of them */
    int64_t columns;     /* of right sides */
    int64_t room, whole; /* elements needed by LAPACK: REAL, int */
    int64_t batches, tasks;
    size_t bytes; /* of work, per task */
    char *work;
    int64_t *info; /* 0 or an error, per matrix */
};

#ifdef GD_HAVE_BLAS
/* LAPACK tells the size of its work space as a floating number, which may be rounded down. */
static int64_t room_for(double asked) { return (int64_t)(asked * (1 + 1e-6)) + 1; }
#endif

#define REAL         double
#define LOCAL(name)  name##_f64
#define ABS          fabs
#define LOG          log
#define LAPACK(name) LAPACKE_d##name##_work
#define TRSM         cblas_dtrsm
#define GEMM         cblas_dgemm
#define TRSV         cblas_dtrsv
#define DENSE(name)  gd__dense_##name##_f64
#include "tensor/cpu/linalg_impl.h"
#undef REAL
#undef LOCAL
#undef ABS
#undef LOG
#undef LAPACK
#undef TRSM
#undef GEMM
#undef TRSV
#undef DENSE

#define REAL         float
#define LOCAL(name)  name##_f32
#define ABS          fabsf
#define LOG          logf
#define LAPACK(name) LAPACKE_s##name##_work
#define TRSM         cblas_strsm
#define GEMM         cblas_sgemm
#define TRSV         cblas_strsv
#define DENSE(name)  gd__dense_##name##_f32
#include "tensor/cpu/linalg_impl.h"

/* ---- a batch on the threads ---- */

static problems problems_of(const gd_call *call)
{
    const gd_tensor *a = call->in[0];
    problems j = {.in = call->in, .out = call->out, .attrs = call->attrs};
    j.m = a->size[a->ndim - 2];
    j.n = a->size[a->ndim - 1];
    j.k = j.m < j.n ? j.m : j.n;
    j.batches = 1;
    for (int i = 0; i < a->ndim - 2; i++) j.batches *= a->size[i];
    if (call->nin > 1) j.columns = call->in[1]->size[call->in[1]->ndim - 1];
    return j;
}

static gd_status small_enough(gd_ctx *ctx, const char *what, const problems *j, int64_t most)
{
    if (j->m <= INT_MAX && j->n <= INT_MAX && j->columns <= INT_MAX && j->k <= most) return GD_OK;
    return gd_fail(ctx, GD_OVERFLOW, "%s: a matrix of %lld x %lld is too large", what, (long long)j->m,
                   (long long)j->n);
}

static void run_task(void *arg, int64_t task)
{
    const problems *j = arg;
    int64_t end = (task + 1) * j->batches / j->tasks;
    for (int64_t b = task * j->batches / j->tasks; b < end; b++)
        j->one(j, b, j->bytes ? j->work + (size_t)task * j->bytes : NULL);
}

/* Runs all problems; the number of the first that failed is stored in *bad, -1 if none. */
static gd_status run_all(gd_ctx *ctx, problems *j, int64_t *bad, int64_t *info)
{
    double work = (double)(j->m * j->n) * (double)(j->k + j->columns) * (double)j->batches;
    j->tasks = work < TASK ? 1 : j->batches < ctx->threads ? j->batches : ctx->threads;
    gd_status status = gd__blas_reserve(ctx, j->tasks);
    if (status) return status;
    j->bytes = (j->bytes + 63) / 64 * 64;
    size_t info_bytes = (size_t)j->batches * sizeof *j->info, work_bytes = (size_t)j->tasks * j->bytes;
    j->info = gd__alloc(ctx, info_bytes);
    j->work = j->info && work_bytes ? gd__alloc(ctx, work_bytes) : NULL;
    status = j->info && (j->work || !work_bytes) ? GD_OK : GD_NOMEM;
    *bad = -1;
    if (!status) {
#ifdef GD_BLAS_SHARED
        openblas_set_num_threads(1);
#endif
        gd__parallel(ctx, j->tasks, run_task, j);
        for (int64_t b = j->batches; b-- > 0;)
            if (j->info[b]) *bad = b, *info = j->info[b];
    }
    gd__free(ctx, j->work, work_bytes);
    gd__free(ctx, j->info, info_bytes);
    return status;
}

/* The work of an operator on each matrix; functions for f32 and f64. */
typedef struct method {
    one_fn one[2];
    size_t (*bytes[2])(problems *p); /* of work; NULL: none */
    int64_t most;                    /* rows or columns, the smaller of them */
    /* message for an impossible matrix: "not positive definite (leading minor 2 of ...)"; NULL: an iteration that may not converge */
    const char *fault, *part, *tail;
} method;

#define BOTH(name)             \
    {                          \
        name##_f32, name##_f64 \
    }

static gd_status failed(gd_ctx *ctx, const char *what, const method *m, int64_t bad, int64_t info)
{
    if (m->fault)
        return gd_fail(ctx, GD_SINGULAR, "%s: the matrix is %s (%s %lld of batch %lld%s)", what, m->fault,
                       m->part, (long long)info, (long long)bad, m->tail);
    if (info == NOT_FINITE)
        return gd_fail(ctx, GD_VALUE, "%s: matrix %lld of the batch holds NaN or infinity", what,
                       (long long)bad);
    return gd_fail(ctx, GD_VALUE, "%s: no convergence for matrix %lld of the batch", what, (long long)bad);
}

static gd_status run_method(gd_device *device, const gd_call *call, const method *m)
{
    problems j = problems_of(call);
    bool wide = call->out[0]->dtype == GD_F64, inverse = call->op == GD_OP_solve && call->attrs->i[0];
    const char *what = inverse ? "inverse" : gd__ops[call->op].name;
    int64_t bad, info = 0;
    /* the determinant of an empty matrix is 1 */
    if (j.batches == 0 || (j.k == 0 && call->op != GD_OP_logdet)) return GD_OK;
    gd_status status = small_enough(device->ctx, what, &j, m->most);
    if (status) return status;
    j.one = m->one[wide];
    j.bytes = m->bytes[wide] ? m->bytes[wide](&j) : 0;
    status = run_all(device->ctx, &j, &bad, &info);
    return status || bad < 0 ? status : failed(device->ctx, what, m, bad, info);
}

/* ---- kernels ---- */

gd_status gd__cpu_cholesky(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(cholesky), {0}, INT_MAX, "not positive definite", "leading minor", ""};
    return run_method(device, call, &m);
}

gd_status gd__cpu_solve(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(solve), BOTH(lu_bytes), INT_MAX, "singular", "pivot", " is zero"};
    return run_method(device, call, &m);
}

gd_status gd__cpu_logdet(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(logdet), BOTH(lu_bytes), INT_MAX, NULL, NULL, NULL};
    return run_method(device, call, &m);
}

gd_status gd__cpu_triangular_solve(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(triangular), {0}, INT_MAX, "singular", "diagonal", " is zero"};
    return run_method(device, call, &m);
}

gd_status gd__cpu_qr(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(qr), BOTH(qr_bytes), INT_MAX, NULL, NULL, NULL};
    return run_method(device, call, &m);
}

gd_status gd__cpu_eigh(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(eigh), BOTH(eigh_bytes), ITERATION_MAX, NULL, NULL, NULL};
    return run_method(device, call, &m);
}

gd_status gd__cpu_svd(gd_device *device, const gd_call *call)
{
    static const method m = {BOTH(svd), BOTH(svd_bytes), ITERATION_MAX, NULL, NULL, NULL};
    return run_method(device, call, &m);
}
