/* Links that multiply the update by one number. */
#ifndef GD_OPTIM_METHODS_STEP_SIZE_H
#define GD_OPTIM_METHODS_STEP_SIZE_H

#include "gradus/link.h"

/* apply_tensors: every tensor times the kept number "step_size". */
GD_NODISCARD gd_status gd__scale_by_kept(const gd_transform *t);

/* Products of s = change of the parameters and y = change of the update (or, with use_grad, the gradient) since the last
 * call; *first when there was none.  State: previous_params, previous_update. */
typedef struct gd_change {
    double ss, sy, yy;
    bool first;
} gd_change;
#define GD_CHANGE_SLOTS \
    {"previous_params", true}, { "previous_update", true }
GD_NODISCARD gd_status gd__change(const gd_transform *t, gd_change *out);

#endif
