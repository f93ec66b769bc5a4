/* Everything about optimizers and their steps, for rooms above this one. */
#ifndef GD_OPTIM_STEP_OPTIMIZER_H
#define GD_OPTIM_STEP_OPTIMIZER_H

#include "optim/step/var_internal.h"

#endif
