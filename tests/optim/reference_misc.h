/* References of links that belong to no large family. */
#ifndef GD_TESTS_OPTIM_REFERENCE_MISC_H
#define GD_TESTS_OPTIM_REFERENCE_MISC_H

#include "reference.h"

/* The gradient of exp(f). */
static void exp_homotopy(moment_of *x) { EACH(i) x->u[i] *= exp(x->loss); }

static const reference misc_references[] = {
    {"exp_homotopy", exp_homotopy, 1e-4},
};

#endif
