/* Objectives that are recorded once and replayed. */
#ifndef GD_OPTIM_STEP_TRACED_H
#define GD_OPTIM_STEP_TRACED_H

#include "optim/step/var_internal.h"

typedef struct gd_traced_objective gd_traced_objective;

/* Loss and, with GD_EVAL_BACKWARD, gradients of an objective that asks for it, as the function gives them; owned references. */
GD_NODISCARD gd_status gd__traced_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss,
                                       gd_tensor **grads);
void gd__traced_objective_free(gd_optimizer *o);

/* In closure.c: loss and gradients of the objective's result, in the scope of that result.  keep: its graph stays. */
GD_NODISCARD gd_status gd__derive(gd_var *var, gd_tensor *result, int flags, bool keep, gd_tensor **loss,
                                  gd_tensor **grads);

#endif
