/* gradus/link/linop.h: linear operators on vectors of all parameters: Hessians and their approximations.
 *
 *     gd_linop *twice = gd_linop_scaled(gd_linop_diagonal(d), 2);
 *     gd_tensor *y = gd_linop_matvec(twice, x);
 *     gd_linop_release(twice); */
#ifndef GRADUS_LINOP_H
#define GRADUS_LINOP_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_linop gd_linop; /* a linear operator, by a matrix or by products; a counted reference */

/* Operators hold references to their tensors.  New; NULL for NULL arguments or on failure.
 * Names and labels of rows and columns stay with the operator: a vector with names and labels meets its columns (for solving and
 * transposed products: its rows) by them, AXIS or LABEL if it does not fit, and the result has those of the other side.  Without
 * them vectors go by position; functions get and return vectors without names. */
gd_linop *gd_linop_dense(gd_tensor *a);
gd_linop *gd_linop_dense_inverse(gd_tensor *a_inverse);  /* the operator with this inverse */
gd_linop *gd_linop_diagonal(gd_tensor *d);               /* diag(d) */
gd_linop *gd_linop_low_rank(gd_tensor *u, gd_tensor *s); /* U diag(s) U^T */
/* J^T J of J [m, n].  Given the residuals r [m] (NULL: none), solving for J^T r, shifted or not, is a
 * least-squares problem solved by QR of J; normal equations are never formed. */
gd_linop *gd_linop_gram(gd_tensor *j, gd_tensor *r);
gd_linop *gd_linop_scaled(gd_linop *a, double factor); /* a is consumed */
gd_linop *gd_linop_shifted(gd_linop *a, double shift); /* A + shift I; a is consumed */
gd_linop *gd_linop_composed(gd_linop *a,
                            gd_linop *b); /* A B; both consumed; B's rows are A's columns, in order */
/* The product of an operator with x; new, NULL on failure. */
typedef gd_tensor *(*gd_matvec_fn)(void *user, gd_tensor *x);
/* An operator by a function.  free_user is called with the operator's end, may be NULL. */
gd_linop *gd_linop_function(gd_ctx *ctx, int64_t n, gd_matvec_fn fn, void *user, void (*free_user)(void *));
gd_linop *gd_linop_retain(gd_linop *a);                 /* one more reference */
void gd_linop_release(gd_linop *a);                     /* NULL is fine */
int64_t gd_linop_size(const gd_linop *a);               /* n of [n, n] */
gd_tensor *gd_linop_matvec(gd_linop *a, gd_tensor *x);  /* new */
gd_tensor *gd_linop_rmatvec(gd_linop *a, gd_tensor *x); /* A^T x, new */
gd_tensor *gd_linop_solve(gd_linop *a, gd_tensor *b);   /* A^-1 b, new; SINGULAR if there is none */
gd_tensor *gd_linop_to_dense(gd_linop *a);              /* [n, n], new */
gd_tensor *gd_linop_diagonal_of(gd_linop *a);           /* [n], new */
/* The shortest x that minimises |A x - b| for a matrix A [m, n], by singular values.  New; NULL without an error if A is
 * not finite. */
gd_tensor *gd_least_norm(gd_tensor *a, gd_tensor *b);
/* S A S with a diagonal S given by its elements.  New; a stays the caller's. */
gd_linop *gd_linop_congruent(gd_linop *a, gd_tensor *s);
/* The same operator prepared for many products: an inverse is inverted once; a singular one is perturbed slightly, so that
 * directions without a step become stiff.  New; a stays the caller's. */
gd_linop *gd_linop_for_products(gd_linop *a);

#ifdef __cplusplus
}
#endif
#endif
