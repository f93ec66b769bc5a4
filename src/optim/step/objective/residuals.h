/* Code shared by closures and residuals.  This folder: calls of the user's functions in a step, and the values kept from them. */
#ifndef GD_OPTIM_STEP_RESIDUALS_H
#define GD_OPTIM_STEP_RESIDUALS_H

#include "optim/step/var_internal.h"

/* The sum of squares where the parameters are, and with grads its gradient, written into them. */
GD_NODISCARD gd_status gd__rows_eval(gd_var *var, const gd_rows *rows, double *loss, gd_tensor *const *grads);
/* The same of an objective that has `jacobian`. */
GD_NODISCARD gd_status gd__jacobian_eval(gd_var *var, const gd_objective *o, double *loss,
                                         gd_tensor *const *grads);
/* The loss that a step returns, where this is the first. */
void gd__remember_first(gd_var *var, gd_tensor *loss);

#endif
