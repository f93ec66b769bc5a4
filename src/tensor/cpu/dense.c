/* Instances of dense_impl.h and dense_spectral_impl.h for double and float, and code independent of the type. */
#include "tensor/cpu/dense.h"

#include <float.h>
#include <string.h>
#include <tgmath.h>

/* Bytes of one vector register, the unit of the product's inner kernel.  The width changes speed, never
 * bits. */
#if defined(__AVX512F__)
#define VECTOR_BYTES 64
#elif defined(__AVX__)
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

enum {
    BLOCK = 32,      /* columns factored or solved at a time between calls of the product */
    TILE_ROWS = 4,   /* rows of C in registers at a time */
    PACK_ROWS = 32,  /* rows of A packed at a time */
    PACK_COLS = 128, /* columns of B packed at a time */
    PACK_DEPTH =
        128,       /* terms summed in registers before they are added to C: part of the result's definition */
    DOT_LANES = 8, /* partial sums of a scalar product */
    DOT_ROWS = 8,  /* rows of a matrix-vector product in flight */
    THIN = 2,      /* a product with this few rows or columns is not worth packing */
    QL_STEPS = 60, /* QL steps allowed, per eigenvalue */
    JACOBI_SWEEPS = 60 /* sweeps allowed; about ten are needed */
};

static int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

/* A copy to factor, the reflectors' factors tau, one row. */
int64_t gd__dense_qr_work(int64_t m, int64_t n) { return m * n + smaller(m, n) + n; }

/* A full copy, off-diagonal, tau, two vectors. */
int64_t gd__dense_eigh_work(int64_t n) { return n * n + 4 * n; }

/* With the longer side first: factor and Q, rows and rotations, then tau, swaps, norms and one row. */
int64_t gd__dense_svd_work(int64_t m, int64_t n)
{
    int64_t rows = larger(m, n), cols = smaller(m, n);
    return 2 * rows * cols + 2 * cols * cols + 4 * cols;
}

#define REAL         double
#define REAL_EPSILON DBL_EPSILON
#define REAL_MIN     DBL_MIN
#define PUBLIC(name) gd__dense_##name##_f64
#define LOCAL(name)  name##_f64
#include "tensor/cpu/dense_impl.h"
#include "tensor/cpu/dense_spectral_impl.h"
#undef REAL
#undef REAL_EPSILON
#undef REAL_MIN
#undef PUBLIC
#undef LOCAL

#define REAL         float
#define REAL_EPSILON FLT_EPSILON
#define REAL_MIN     FLT_MIN
#define PUBLIC(name) gd__dense_##name##_f32
#define LOCAL(name)  name##_f32
#include "tensor/cpu/dense_impl.h"
#include "tensor/cpu/dense_spectral_impl.h"
