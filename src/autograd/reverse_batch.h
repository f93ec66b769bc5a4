/* Many reverse passes over one graph at once. */
#ifndef GD_AUTOGRAD_REVERSE_BATCH_H
#define GD_AUTOGRAD_REVERSE_BATCH_H

#include "gradus/tensor.h"

/* Elements of a matrix of gradients that stay in the cache while it goes through the graph. */
#define GD_BATCH_ELEMENTS 8192

/* As gd_grad with GD_RETAIN_GRAPH | GD_ALLOW_UNUSED for k seeds together.  seeds is [k, axes of output...]; the gradient of
 * each input is written into its matrix, [k, elements of the input], which holds zeros before.
 * seeds NULL: one for every element of the output.  Then only work of about the cost of a forward pass or of the result is done:
 * no intermediate matrix is larger than GD_BATCH_ELEMENTS.
 * NOT_IMPLEMENTED, with no error recorded: an operator on the way has no batched rule, or the matrices would be too large;
 * take fewer seeds or one by one.  The matrices are undefined then. */
gd_status gd__grad_batch(gd_tensor *output, gd_tensor *seeds, gd_tensor *const *inputs, int count,
                         gd_tensor *const *into);

#endif
