/* Both types of the plain dense routines behind one signature, matrices with guarded padding, entries, and definitions
 * evaluated in long double. */
#ifndef GD_TESTS_TENSOR_DENSE_SUPPORT_H
#define GD_TESTS_TENSOR_DENSE_SUPPORT_H

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tensor/cpu/dense.h"

/* --- the table of types: the routines behind one signature --- */

typedef struct {
    const char *name;
    size_t size;
    long double eps, tiny, huge;
    long double (*get)(const void *x, int64_t i);
    void (*set)(void *x, int64_t i, long double v);
    int (*gemm)(int64_t m, int64_t n, int64_t k, long double alpha, const void *a, int64_t ars, int64_t acs,
                const void *b, int64_t brs, int64_t bcs, long double beta, void *c, int64_t ldc);
    int (*getrf)(int64_t n, void *a, int64_t lda, int *piv);
    int (*getrs)(int64_t n, int64_t nrhs, const void *a, int64_t lda, const int *piv, void *b, int64_t ldb,
                 int t);
    int (*potrf)(int64_t n, void *a, int64_t lda);
    int (*trsm)(int lower, int t, int unit, int64_t n, int64_t nrhs, const void *a, int64_t lda, void *b,
                int64_t ldb);
    int (*qr)(int64_t m, int64_t n, const void *a, int64_t lda, void *q, int64_t ldq, void *r, int64_t ldr,
              void *work);
    int (*eigh)(int64_t n, const void *a, int64_t lda, void *w, void *v, int64_t ldv, void *work);
    int (*svd)(int64_t m, int64_t n, const void *a, int64_t lda, void *u, int64_t ldu, void *s, void *vt,
               int64_t ldvt, void *work);
} type;

#define WRAP(real, x)                                                                                      \
    static long double get_##x(const void *p, int64_t i) { return ((const real *)p)[i]; }                  \
    static void set_##x(void *p, int64_t i, long double v) { ((real *)p)[i] = (real)v; }                   \
    static int gemm_##x(int64_t m, int64_t n, int64_t k, long double alpha, const void *a, int64_t ars,    \
                        int64_t acs, const void *b, int64_t brs, int64_t bcs, long double beta, void *c,   \
                        int64_t ldc)                                                                       \
    {                                                                                                      \
        return gd__dense_gemm_##x(m, n, k, (real)alpha, a, ars, acs, b, brs, bcs, (real)beta, c, ldc);     \
    }                                                                                                      \
    static int getrf_##x(int64_t n, void *a, int64_t lda, int *piv)                                        \
    {                                                                                                      \
        return gd__dense_getrf_##x(n, a, lda, piv);                                                        \
    }                                                                                                      \
    static int getrs_##x(int64_t n, int64_t nrhs, const void *a, int64_t lda, const int *piv, void *b,     \
                         int64_t ldb, int t)                                                               \
    {                                                                                                      \
        return gd__dense_getrs_##x(n, nrhs, a, lda, piv, b, ldb, t);                                       \
    }                                                                                                      \
    static int potrf_##x(int64_t n, void *a, int64_t lda) { return gd__dense_potrf_lower_##x(n, a, lda); } \
    static int trsm_##x(int lower, int t, int unit, int64_t n, int64_t nrhs, const void *a, int64_t lda,   \
                        void *b, int64_t ldb)                                                              \
    {                                                                                                      \
        return gd__dense_trsm_##x(lower, t, unit, n, nrhs, a, lda, b, ldb);                                \
    }                                                                                                      \
    static int qr_##x(int64_t m, int64_t n, const void *a, int64_t lda, void *q, int64_t ldq, void *r,     \
                      int64_t ldr, void *work)                                                             \
    {                                                                                                      \
        return gd__dense_qr_##x(m, n, a, lda, q, ldq, r, ldr, work);                                       \
    }                                                                                                      \
    static int eigh_##x(int64_t n, const void *a, int64_t lda, void *w, void *v, int64_t ldv, void *work)  \
    {                                                                                                      \
        return gd__dense_eigh_##x(n, a, lda, w, v, ldv, work);                                             \
    }                                                                                                      \
    static int svd_##x(int64_t m, int64_t n, const void *a, int64_t lda, void *u, int64_t ldu, void *s,    \
                       void *vt, int64_t ldvt, void *work)                                                 \
    {                                                                                                      \
        return gd__dense_svd_##x(m, n, a, lda, u, ldu, s, vt, ldvt, work);                                 \
    }

WRAP(double, f64)
WRAP(float, f32)

#define ROW(real, x, PREFIX)                                                                        \
    {                                                                                               \
#x, sizeof(real), PREFIX##_EPSILON, PREFIX##_MIN, PREFIX##_MAX, get_##x, set_##x, gemm_##x, \
            getrf_##x, getrs_##x, potrf_##x, trsm_##x, qr_##x, eigh_##x, svd_##x                    \
    }

static const type types[] = {ROW(double, f64, DBL), ROW(float, f32, FLT)};

#define FOR_EACH_TYPE(t) for (const type *t = types; t < types + sizeof types / sizeof *types; t++)

/* --- matrices with guarded padding --- */

enum { PAD = 3 };
#define GUARD (-12345.0L)

typedef struct {
    const type *t;
    int64_t rows, cols, ld;
    void *data;
} matrix;

typedef long double (*entry)(int64_t i, int64_t j);

static inline long double at(const matrix *a, int64_t i, int64_t j)
{
    return a->t->get(a->data, i * a->ld + j);
}

static inline void put(matrix *a, int64_t i, int64_t j, long double v)
{
    a->t->set(a->data, i * a->ld + j, v);
}

static inline matrix new_matrix(const type *t, int64_t rows, int64_t cols)
{
    matrix a = {t, rows, cols, cols + PAD, NULL};
    a.data = malloc((size_t)(rows * a.ld + 1) * t->size);
    assert_non_null(a.data);
    for (int64_t i = 0; i < rows * a.ld; i++) t->set(a.data, i, GUARD);
    return a;
}

static inline matrix filled(const type *t, int64_t rows, int64_t cols, entry value)
{
    matrix a = new_matrix(t, rows, cols);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) put(&a, i, j, value(i, j));
    return a;
}

static inline matrix copy_of(const matrix *a)
{
    matrix b = new_matrix(a->t, a->rows, a->cols);
    memcpy(b.data, a->data, (size_t)(a->rows * a->ld) * a->t->size);
    return b;
}

/* Checks that nothing was written between the rows, and frees. */
static inline void release(matrix *a)
{
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = a->cols; j < a->ld; j++) assert_true(at(a, i, j) == GUARD);
    free(a->data);
}

static inline void release_all(int count, matrix **list)
{
    for (int i = 0; i < count; i++) release(list[i]);
}
#define RELEASE(...) \
    release_all((int)(sizeof((matrix *[]){__VA_ARGS__}) / sizeof(matrix *)), (matrix *[]){__VA_ARGS__})

/* Scratch of exactly the size asked for, so that ASan sees a step beyond it. */
static inline void *new_work(const type *t, int64_t count)
{
    void *work = malloc((size_t)(count > 0 ? count : 1) * t->size);
    assert_non_null(work);
    memset(work, 0xff, (size_t)(count > 0 ? count : 1) * t->size);
    return work;
}

static inline long double largest(const matrix *a)
{
    long double best = 0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) best = fmaxl(best, fabsl(at(a, i, j)));
    return best;
}

static inline void assert_at_most(long double value, long double bound, const char *what, const type *t,
                                  int64_t m, int64_t n)
{
    if (!(value <= bound)) fail_msg("%s %s %dx%d: %Lg > %Lg", t->name, what, (int)m, (int)n, value, bound);
}

/* --- entries --- */

/* Reproducible numbers in [-1, 1) that depend on the position only (SplitMix64's finaliser). */
static inline long double noise(int64_t i, int64_t j)
{
    uint64_t z = (uint64_t)i * 1000003u + (uint64_t)j * 7919u + 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    return (long double)(int64_t)(z >> 11) / 4503599627370496.0L - 1;
}

static inline long double other_noise(int64_t i, int64_t j) { return noise(i + 50000, j + 70000); }

static inline long double symmetric_noise(int64_t i, int64_t j) { return i > j ? noise(i, j) : noise(j, i); }

static inline long double zero(int64_t i, int64_t j)
{
    (void)i, (void)j;
    return 0;
}

static inline long double one(int64_t i, int64_t j)
{
    (void)i, (void)j;
    return 1;
}

static inline long double identity(int64_t i, int64_t j) { return i == j; }

static inline long double hilbert(int64_t i, int64_t j) { return 1 / (long double)(i + j + 1); }

/* Rank two whatever the size. */
static inline long double rank_two(int64_t i, int64_t j)
{
    return noise(i, 1) * noise(2, j) + noise(i, 3) * noise(4, j);
}

static inline long double graded(int64_t i, int64_t j)
{
    return symmetric_noise(i, j) * powl(10, -(long double)(i + j) / 2);
}

static inline long double graded_upwards(int64_t i, int64_t j)
{
    return symmetric_noise(i, j) * powl(10, (long double)(i + j) / 4 - 20);
}

/* Rows of noise with zero columns among them. */
static inline long double zero_columns(int64_t i, int64_t j) { return j % 3 == 1 ? 0 : noise(i, j); }

/* Zeros on the diagonal and few entries beside it: small eigenvalues come in pairs of opposite sign. */
static inline long double sparse(int64_t i, int64_t j)
{
    return i == j || symmetric_noise(i, j) < 0.8L ? 0 : symmetric_noise(i, j);
}

/* 2 beside -1: eigenvalues 2 - 2 cos(k pi / (n + 1)). */
static inline long double second_difference(int64_t i, int64_t j)
{
    return i == j ? 2 : i == j + 1 || j == i + 1 ? -1 : 0;
}

/* Lehmer's matrix min / max: symmetric positive definite. */
static inline long double lehmer(int64_t i, int64_t j)
{
    return i < j ? (long double)(i + 1) / (long double)(j + 1) : (long double)(j + 1) / (long double)(i + 1);
}

static inline long double dominant(int64_t i, int64_t j) { return noise(i, j) + (i == j ? 40 : 0); }

static const entry shapes[] = {noise,  zero,     one,    identity,       hilbert,
                               graded, rank_two, lehmer, graded_upwards, zero_columns};
static const int64_t sizes[][2] = {{0, 0}, {0, 3}, {3, 0}, {1, 1},   {1, 5},   {5, 1},   {2, 2},
                                   {3, 2}, {4, 7}, {9, 9}, {31, 17}, {17, 31}, {40, 40}, {67, 33}};
enum { SHAPES = sizeof shapes / sizeof *shapes, SIZES = sizeof sizes / sizeof *sizes };

/* --- definitions --- */

/* max |x^T x - 1| over the columns of x, or over its rows. */
static inline long double orthogonality(const matrix *x, int by_rows)
{
    int64_t count = by_rows ? x->rows : x->cols, length = by_rows ? x->cols : x->rows;
    long double worst = 0;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j <= i; j++) {
            long double sum = i == j ? -1 : 0;
            for (int64_t k = 0; k < length; k++)
                sum += by_rows ? at(x, i, k) * at(x, j, k) : at(x, k, i) * at(x, k, j);
            if (!(fabsl(sum) <= worst)) worst = fabsl(sum);
        }
    return worst;
}

/* max |a - x diag(d) y| with d (one row) or without, y transposed or not. */
static inline long double product_error(const matrix *a, const matrix *x, const matrix *d, const matrix *y,
                                        int transposed)
{
    long double worst = 0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            long double sum = at(a, i, j);
            for (int64_t k = 0; k < x->cols; k++)
                sum -= at(x, i, k) * (d ? at(d, 0, k) : 1) * (transposed ? at(y, j, k) : at(y, k, j));
            if (!(fabsl(sum) <= worst)) worst = fabsl(sum);
        }
    return worst;
}

/* Numbers whose squares overflow or underflow. */
static inline matrix extreme(const type *t, int64_t m, int64_t n, int large)
{
    matrix a = filled(t, m, n, noise);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) put(&a, i, j, at(&a, i, j) * (large ? t->huge / 256 : t->tiny * 64));
    return a;
}

#endif
