/* Jacobians and Hessians as matrices over all parameters, from a recorded graph. */
#ifndef GD_OPTIM_VECTOR_JACOBIAN_H
#define GD_OPTIM_VECTOR_JACOBIAN_H

#include "gradus/tensor.h"

/* d residuals / d params as [m, n] for a vector of residuals with history.  In one reverse pass if every residual depends on
 * separate data; else by the cheaper of two ways: one pass per residual, or one per parameter over the graph of u -> J^T u,
 * whose derivatives are the columns of J.  New; f64 where one of the parameters is, else f32.  NULL on failure. */
gd_tensor *gd__jacobian_matrix(gd_tensor *residuals, gd_tensor *const *params, int count);

/* The same as [n, m]: its rows are the columns of the Jacobian. */
gd_tensor *gd__jacobian_columns(gd_tensor *residuals, gd_tensor *const *params, int count);

/* Rows of d outputs / d params as [m, n], where outputs is a list of tensors with history that count as one vector of m
 * elements.  New. */
gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                               int count);

/* The second derivative of residuals with history along a direction [n], r''(v, v), like them and without history.  New; NULL
 * where they are linear along it, or with an error. */
gd_tensor *gd__second_along(gd_tensor *residuals, gd_tensor *const *params, int count,
                            const double *direction);
/* The same with the direction as tensors, one per parameter. */
gd_tensor *gd__second_along_list(gd_tensor *residuals, gd_tensor *const *params, gd_tensor *const *v,
                                 int count);

/* Of half the sum of squares of residuals with history: the gradient with history, in the current scope and grad mode; the
 * remainder of its Hessian after J^T J, the sum of r r'', [n, n], new (if parameters enter the residuals nonlinearly one by one, it is mostly
 * zeros, unlike J^T J: one graph of both would hide that); products of the Hessian with v [n] from that gradient,
 * list: room for `count` tensors; out may be v. */
GD_NODISCARD gd_status gd__squares_gradient(gd_tensor *residuals, gd_tensor *const *params, int count,
                                            gd_tensor **grads);
gd_tensor *gd__squares_curvature(gd_tensor *residuals, gd_tensor *const *params, int count);
GD_NODISCARD gd_status gd__squares_product(gd_tensor *const *grads, gd_tensor *const *params, int count,
                                           const double *v, gd_tensor **list, double *out);
/* The same with vectors as tensors, one per parameter; out may be v. */
GD_NODISCARD gd_status gd__squares_product_list(gd_tensor *const *grads, gd_tensor *const *params, int count,
                                                gd_tensor *const *v, gd_tensor **out);

#endif
