/* Many reverse passes over one graph at once. */
#ifndef GD_AUTOGRAD_BATCH_H
#define GD_AUTOGRAD_BATCH_H

#include "gradus/tensor.h"

/* As gd_grad with GD_RETAIN_GRAPH | GD_ALLOW_UNUSED for k seeds together: seeds is [k, axes of output...] and each of
 * grads [k, axes of its input...], without names, new, or NULL where the output does not depend on the input.
 * NOT_IMPLEMENTED, with no error recorded, where an operator on the way has no batched rule: then take the seeds one by
 * one. */
gd_status gd__grad_batch(gd_tensor *output, gd_tensor *seeds, gd_tensor *const *inputs, int count,
                         gd_tensor **grads);

#endif
