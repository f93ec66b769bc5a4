/* gradus/link/list.h: lists of tensors, one per parameter, as vectors of all their elements.
 *
 *     static gd_status slope(gd_var *var, double *out)
 *     {
 *         return gd_list_dot(gd_var_grad(var), gd_var_read_update(var), gd_var_count(var), out);
 *     }
 *
 * For contiguous f32 or f64 tensors on the CPU this is one pass over memory on all threads, with the same bits for any
 * number of threads; otherwise it uses operators. */
#ifndef GRADUS_LIST_H
#define GRADUS_LIST_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lists of `count` tensors of equal shapes.  ARGUMENT: a list is NULL or has a NULL. */
GD_NODISCARD gd_status gd_list_dot(gd_tensor *const *x, gd_tensor *const *y, int count, double *out);
/* The p-norm of all elements, p > 0 or INFINITY; a NaN among them makes it NaN. */
GD_NODISCARD gd_status gd_list_norm(gd_tensor *const *x, int count, double p, double *out);
/* out[i] = a x[i].  New. */
GD_NODISCARD gd_status gd_list_scaled(gd_tensor *const *x, double a, int count, gd_tensor **out);
/* out[i] = a x[i] + b y[i].  New. */
GD_NODISCARD gd_status gd_list_combined(gd_tensor *const *x, double a, gd_tensor *const *y, double b,
                                        int count, gd_tensor **out);
/* All elements of a list as one nameless vector: f64 if one of them is, else f32.  New; of one tensor possibly a
 * view. */
gd_tensor *gd_list_vector(gd_tensor *const *list, int count);
/* The pieces of a vector with shapes, dtypes, names and labels of `like`, in out[0 .. count).  New. */
GD_NODISCARD gd_status gd_list_split(gd_tensor *vector, gd_tensor *const *like, int count, gd_tensor **out);

/* ---- vectors ---- */

double gd_vector_dot(gd_tensor *a, gd_tensor *b); /* NAN on failure, the error is recorded */
double gd_vector_norm(gd_tensor *a);              /* the root of the sum of squares; NAN on failure */
bool gd_vector_finite(gd_tensor *a);              /* are all elements finite? false for NULL */
gd_tensor *gd_vector_sum(gd_tensor *a, double alpha, gd_tensor *b); /* a + alpha b, new */
gd_tensor *gd_vector_most(gd_tensor *a);      /* the largest element, 0 if there is none, as a scalar; new */
double gd_vector_epsilon(const gd_tensor *a); /* machine epsilon of its arithmetic */

#ifdef __cplusplus
}
#endif
#endif
