/* The objective with its constraints as numbers: values, first and second derivatives where the parameters are now. */
#ifndef GD_OPTIM_STEP_LAGRANGIAN_H
#define GD_OPTIM_STEP_LAGRANGIAN_H

#include "gradus/link/var.h"

/* How many constraints there are; evaluates them. */
GD_NODISCARD gd_status gd__lagrangian_counts(gd_var *var, int64_t *equal, int64_t *below);
/* Are second derivatives available without differences? */
bool gd__lagrangian_bends(const gd_var *var);
/* The loss, and the constraints [equal + below].  keep: second derivatives will follow at this point. */
GD_NODISCARD gd_status gd__lagrangian_values(gd_var *var, bool keep, double *f, double *c);
/* The gradient of the loss [n], and of the constraints [equal + below, n]: at the last evaluated point, without a new evaluation if
 * evaluations are remembered. */
GD_NODISCARD gd_status gd__lagrangian_first(gd_var *var, double *g, double *j);
/* The Hessian [n, n] of weight loss + y c. */
GD_NODISCARD gd_status gd__lagrangian_second(gd_var *var, double weight, const double *y, double *w);

/* The losses so far do not belong to the start of the step. */
void gd__forget_first(gd_var *var);

#endif
