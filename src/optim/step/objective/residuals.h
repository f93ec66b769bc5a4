/* Code shared by closures and residuals.  This folder: calls of the user's functions in a step, and the values kept from them. */
#ifndef GD_OPTIM_STEP_RESIDUALS_H
#define GD_OPTIM_STEP_RESIDUALS_H

#include "gradus/link/estimate.h"
#include "optim/step/var_internal.h"

/* The sum of squares where the parameters are, and with grads its gradient, written into them. */
GD_NODISCARD gd_status gd__rows_eval(gd_var *var, const gd_rows *rows, double *loss, gd_tensor *const *grads);
/* The same of an objective that has `jacobian`. */
GD_NODISCARD gd_status gd__jacobian_eval(gd_var *var, const gd_objective *o, double *loss,
                                         gd_tensor *const *grads);
/* The value alone of an objective of callbacks; from value and gradient together if there is nothing else. */
GD_NODISCARD gd_status gd__callback_value(gd_var *var, const gd_objective *o, double *value);
/* Does it give first derivatives, or a graph for them? */
bool gd__objective_has_slopes(const gd_objective *o);
/* Differences of `count` functions, see gd_difference_of: values [count] at the parameters as they are moved, here [count] where they are. */
typedef struct gd_differences {
    const gd_difference *formula;
    double h, typical;
    int64_t count;
    const double *here;
    gd_status (*values)(gd_var *var, void *user, double *out);
    void *user;
} gd_differences;
/* out [n, count]: the derivatives by each element of the parameters, which are as they were, also on failure. */
GD_NODISCARD gd_status gd__differences(gd_var *var, const gd_differences *of, double *out);
/* Value and gradient of an objective that gives values alone, by central differences (differences.c).  All but one of the evaluations
 * are counted. */
GD_NODISCARD gd_status gd__objective_differences(gd_var *var, double *loss, gd_tensor *const *grads);
/* The loss that a step returns, where this is the first. */
void gd__remember_first(gd_var *var, gd_tensor *loss);

#endif
