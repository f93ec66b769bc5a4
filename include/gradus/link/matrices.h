/* gradus/link/matrices.h: for links that compute with matrices: batched products and factorisations of the equally sized matrices of
 * all parameters.
 *
 *     static gd_tensor *squares(void *user, gd_tensor *stack, const int *entry, int entries)     [k, n, n] -> [k, n, n]
 *     {
 *         (void)user, (void)entry, (void)entries;
 *         return gd_matmul(stack, stack);
 *     }
 *     static gd_status square_all(gd_tensor **matrices, int count)
 *     {
 *         return gd_map_stacked(matrices, count, NULL, squares, NULL);
 *     } */
#ifndef GRADUS_MATRICES_H
#define GRADUS_MATRICES_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Computes a stack with the same number of matrices along axis 0, borrowed or new; NULL on failure.  entry: the entries of
 * the list in the stack, in order. */
typedef gd_tensor *(*gd_stack_fn)(void *user, gd_tensor *stack, const int *entry, int entries);
/* The kind of the entry with that index: only entries of one kind share a stack. */
typedef int (*gd_stack_kind_fn)(void *user, int index);

/* Replaces stacks of matrices by the results of fn.  Axis 0 of an entry counts its matrices; entries of equal other axes,
 * dtype and device are joined along it for one call of fn, and each becomes its slice of the result.
 * Entries that are NULL stay so; kind NULL: all are of kind 0.  New, views of what fn returned.  On failure the entries are as
 * they were.  SHAPE: a result with a different number of matrices. */
GD_NODISCARD gd_status gd_map_stacked(gd_tensor **stacks, int count, gd_stack_kind_fn kind, gd_stack_fn fn,
                                      void *user);

/* A tensor as a stack of matrices: its first two axes are the matrix, the others count.  [r, c, a, b] -> [a b, r, c].  At
 * least two axes.  New, without names; a view if possible. */
gd_tensor *gd_to_matrices(gd_tensor *x);
/* The inverse: a tensor with shape, names and labels of `like`, contiguous.  New. */
gd_tensor *gd_from_matrices(gd_tensor *stack, gd_tensor *like);

/* x with the names and labels of `like`, contiguous.  New.  SHAPE: a different shape. */
gd_tensor *gd_named_like(gd_tensor *x, gd_tensor *like);

/* Symmetric matrices [k, n, n] as V diag(l) V^T: l [k, n], ascending, and V [k, n, n], new.  Matrices with elements that are not
 * finite get NaN and do not affect the others (gd_eigh fails instead). */
GD_NODISCARD gd_status gd_finite_eigh(gd_tensor *stack, gd_tensor **values, gd_tensor **vectors);
/* V (l + shift)^exponent V^T of symmetric matrices [k, n, n].  Eigenvalues below the rounding error of the largest are
 * replaced by that error, so that powers of singular matrices are finite; a zero matrix without shift stays zero.  New. */
gd_tensor *gd_matrix_power(gd_tensor *stack, double shift, double exponent);

#ifdef __cplusplus
}
#endif
#endif
