/* The objective at many points (gd_var_evaluate_many), and one value of an objective that only has many. */
#ifndef GD_OPTIM_STEP_MANY_H
#define GD_OPTIM_STEP_MANY_H

#include "optim/step/optimizer.h"

/* Its values at one point, where the parameters are. */
GD_NODISCARD gd_status gd__value_by_values(gd_var *var, const gd_objective *objective, double *loss);

#endif
