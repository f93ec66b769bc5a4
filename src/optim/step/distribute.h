/* Steps of several processes: the interface of a step. */
#ifndef GD_OPTIM_STEP_DISTRIBUTE_H
#define GD_OPTIM_STEP_DISTRIBUTE_H

#include "optim/step/var_internal.h"
#include "optim/ranks/share.h"

/* Before a step. */
gd_status gd__share_begin(gd_optimizer *optimizer);
/* The gradients of a step without an objective become those of all ranks. */
gd_status gd__share_grads(gd_var *var);
void gd__share_free(gd_optimizer *optimizer);

#endif
