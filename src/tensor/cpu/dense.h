/* Plain dense linear algebra: used when gradus is built without BLAS and LAPACK.
 *
 * Every matrix is row-major with a row stride `ld` counted in elements; the strides of different matrices
 * are free.  Nothing is allocated and nothing is global: functions that need scratch take `work`, with as
 * many elements as the matching gd__dense_*_work() says.  The matrix product keeps its packed tiles on the
 * stack (about 160 KiB, and the factorisations that call it up to 170 KiB).  Outputs may not overlap
 * inputs unless the routine works in place.
 *
 * Result: 0, or a positive number in the manner of LAPACK's `info` (see each routine).  Sizes may be 0.
 * NaN and infinity propagate through the direct methods; the iterative ones (eigh, svd)
 * fill their outputs with NaN and report that they did not converge.
 *
 *     double a[4] = {4, 1, 1, 3}, b[2] = {1, 2};
 *     int piv[2];
 *     if (gd__dense_getrf_f64(2, a, 2, piv) == 0)
 *         gd__dense_getrs_f64(2, 1, a, 2, piv, b, 1, 0);     b now holds the solution of A x = b
 */
#ifndef GD_TENSOR_CPU_DENSE_H
#define GD_TENSOR_CPU_DENSE_H

#include <stdint.h>

/* Elements of `work` for an m x n (eigh: n x n) problem of either type. */
int64_t gd__dense_qr_work(int64_t m, int64_t n);
int64_t gd__dense_eigh_work(int64_t n);
int64_t gd__dense_svd_work(int64_t m, int64_t n);

/* C = alpha A B + beta C, A m x k, B k x n, both with any strides (so transposed and broadcast views need
 * no copy).  An entry of C depends only on its row of A, its column of B and k: any split of rows or
 * columns gives the same bits. beta = 0 overwrites C without reading it; alpha = 0 does not read A and B.
 * Always 0. */
int gd__dense_gemm_f64(int64_t m, int64_t n, int64_t k, double alpha, const double *a, int64_t a_row_stride,
                       int64_t a_col_stride, const double *b, int64_t b_row_stride, int64_t b_col_stride,
                       double beta, double *c, int64_t ldc);

/* P A = L U in place with partial pivoting, unit lower L.  piv[i] is the 1-based row that changed places
 * with row i + 1, as LAPACK counts.  Result i > 0: U(i, i) is the first exact zero; the factorisation is
 * complete anyway. */
int gd__dense_getrf_f64(int64_t n, double *a, int64_t lda, int *piv);

/* Solves A X = B, or A^T X = B with `transpose`, in place in b (n x nrhs) from the result of getrf.
 * Result i > 0: U(i, i) is zero and b is unchanged. */
int gd__dense_getrs_f64(int64_t n, int64_t nrhs, const double *lu, int64_t lda, const int *piv, double *b,
                        int64_t ldb, int transpose);

/* A = L L^T in place, reading and writing the lower triangle only.  Result i > 0: the leading i x i block
 * is not positive definite (or holds NaN); columns before i are done. */
int gd__dense_potrf_lower_f64(int64_t n, double *a, int64_t lda);

/* Solves T X = B, or T^T X = B with `transpose`, in place in b (n x nrhs).  T is the `lower` (else upper)
 * triangle of a, the rest of which is not read; with `unit` the diagonal counts as ones and is not read
 * either.  Result i > 0: T(i, i) is zero and b is unchanged. */
int gd__dense_trsm_f64(int lower, int transpose, int unit, int64_t n, int64_t nrhs, const double *a,
                       int64_t lda, double *b, int64_t ldb);

/* A = Q R with k = min(m, n): q m x k with orthonormal columns, r k x n upper triangular, zeros below its
 * diagonal.  Signs are those of LAPACK's geqrf: the diagonal of R may be negative.  Always 0. */
int gd__dense_qr_f64(int64_t m, int64_t n, const double *a, int64_t lda, double *q, int64_t ldq, double *r,
                     int64_t ldr, double *work);

/* A = V diag(w) V^T for symmetric A, of which the lower triangle is read: w ascending, eigenvectors in the
 * columns of v.  Result > 0: did not converge. */
int gd__dense_eigh_f64(int64_t n, const double *a, int64_t lda, double *w, double *v, int64_t ldv,
                       double *work);

/* A = U diag(s) VT with k = min(m, n): u m x k, s descending, vt k x n; u and vt are orthonormal whatever
 * the rank.  Result > 0: did not converge. */
int gd__dense_svd_f64(int64_t m, int64_t n, const double *a, int64_t lda, double *u, int64_t ldu, double *s,
                      double *vt, int64_t ldvt, double *work);

/* The same in single precision. */
int gd__dense_gemm_f32(int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t a_row_stride,
                       int64_t a_col_stride, const float *b, int64_t b_row_stride, int64_t b_col_stride,
                       float beta, float *c, int64_t ldc);
int gd__dense_getrf_f32(int64_t n, float *a, int64_t lda, int *piv);
int gd__dense_getrs_f32(int64_t n, int64_t nrhs, const float *lu, int64_t lda, const int *piv, float *b,
                        int64_t ldb, int transpose);
int gd__dense_potrf_lower_f32(int64_t n, float *a, int64_t lda);
int gd__dense_trsm_f32(int lower, int transpose, int unit, int64_t n, int64_t nrhs, const float *a,
                       int64_t lda, float *b, int64_t ldb);
int gd__dense_qr_f32(int64_t m, int64_t n, const float *a, int64_t lda, float *q, int64_t ldq, float *r,
                     int64_t ldr, float *work);
int gd__dense_eigh_f32(int64_t n, const float *a, int64_t lda, float *w, float *v, int64_t ldv, float *work);
int gd__dense_svd_f32(int64_t m, int64_t n, const float *a, int64_t lda, float *u, int64_t ldu, float *s,
                      float *vt, int64_t ldvt, float *work);

#endif
