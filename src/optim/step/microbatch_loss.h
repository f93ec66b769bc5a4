/* Losses by microbatches of a batch, and what closures share with them. */
#ifndef GD_OPTIM_STEP_MICROBATCH_LOSS_H
#define GD_OPTIM_STEP_MICROBATCH_LOSS_H

#include "optim/step/var_internal.h"

/* The loss where the parameters are, over all microbatches of all ranks.  out (NULL: not wanted): its gradients, new,
 * of the innermost scope, or with v the products of its Hessian with v. */
GD_NODISCARD gd_status gd__batch_eval(gd_var *var, const gd_batch *batch, gd_tensor *const *v, double *loss,
                                      gd_tensor **out);
/* If rules need the first gradient of a step and state is sharded: var gets loss and shards of gradients of its batch
 * (ranks/accumulation.h).  Else nothing.  With whole gradients (GD_SHARD_STATE), shards of other ranks need not be gathered. */
GD_NODISCARD gd_status gd__accumulation_into(gd_var *var);
/* Frees them after the step. */
void gd__accumulation_forget(gd_optimizer *optimizer);
/* The result of a user's function as one number: residuals become their sum of squares.  One element is the loss itself, whatever
 * its shape; one_is_residual: in a vector it is a residual.  An error that the function recorded and did not return fails it too. */
GD_NODISCARD gd_status gd__as_loss(gd_ctx *ctx, gd_tensor **result, bool one_is_residual);
/* The status of a user's function: a status without a text gets a text, and a recorded error without a status is a failure too. */
gd_status gd__callback_status(gd_ctx *ctx, gd_status status);
/* Gradients, by the parameters, of the product of gradients that have a history with v: new, zeros where the loss is linear.  flags as
 * gd_grad; out may be grads. */
GD_NODISCARD gd_status gd__product_along(gd_var *var, gd_tensor *const *grads, gd_tensor *const *v, int flags,
                                         gd_tensor **out);

#endif
