/* Jacobians and Hessians as matrices over all parameters, from a recorded graph. */
#ifndef GD_OPTIM_VECTOR_JACOBIAN_H
#define GD_OPTIM_VECTOR_JACOBIAN_H

#include "gradus/tensor.h"

/* d residuals / d params as [m, n] for a vector of residuals with history.  In one reverse pass where every residual depends
 * on data of its own; else in the smaller of two ways: one pass a residual, or one a parameter over the graph of u -> J^T u,
 * whose derivatives are the columns of J.  New; f64 where one of the parameters is, else f32.  NULL on failure. */
gd_tensor *gd__jacobian_matrix(gd_tensor *residuals, gd_tensor *const *params, int count);

/* Rows of d outputs / d params as [m, n], where outputs is a list of tensors with history that count as one vector of m
 * elements.  New. */
gd_tensor *gd__derivative_rows(gd_tensor *const *outputs, int output_count, gd_tensor *const *params,
                               int count);

#endif
