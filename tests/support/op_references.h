/* What operators must compute, in long double, by the plainest loops.  Nothing here calls the library. */
#ifndef GD_TESTS_OP_REFERENCES_H
#define GD_TESTS_OP_REFERENCES_H

#include "support/support.h"

typedef long double (*element_fn)(long double x, long double y, long double z);
/* fn of n broadcast operands. */
void ref_map(const array *in, int n, element_fn fn, array *out);
/* The same, with errors relative to scale(operands). */
void ref_map_scaled(const array *in, int n, element_fn fn, element_fn scale, array *out);

/* One number from n; *scale is what its rounding error is relative to. */
typedef long double (*reduce_fn)(const long double *v, int64_t n, long double *scale);
/* Reduces the axes whose bits are set. */
void ref_reduce(const array *x, unsigned axes, bool keep, reduce_fn fn, array *out);

/* fn changes a row of n numbers along `axis` in place. */
typedef void (*along_fn)(long double *v, int64_t n, long double *scale);
void ref_along(const array *x, int axis, along_fn fn, array *out);

/* An array of that shape whose element at `index` is where `from` says: an offset into x, or -1 for
 * `fill`. */
typedef int64_t (*place_fn)(const array *x, const int64_t *index, const void *user);
void ref_pick(const array *x, int ndim, const int64_t *size, place_fn from, const void *user,
              long double fill, array *out);

/* [..., m, k] x [..., k, n], batches broadcast. */
void ref_matmul(const array *a, const array *b, array *out);
/* a with its last two axes exchanged. */
void ref_transpose(const array *a, array *out);
/* Lower triangle L with L L^T = a. */
void ref_cholesky(const array *a, array *out);
/* x with a x = b for [..., n, n] and [..., n, m] of the same batches; *log_det gets log |det a| of each. */
void ref_solve(const array *a, const array *b, array *out, long double *log_det);
array ref_identity(const array *like);
/* [batch, channel, height, width] with [out, channel, h, w] and [out]. */
void ref_conv2d(const array *x, const array *weight, const array *bias, int64_t stride, int64_t padding,
                array *out);

/* Philox 4x32-10 straight from the paper: four counter words, two key words. */
void ref_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

#endif
