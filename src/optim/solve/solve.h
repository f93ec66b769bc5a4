/* The inside of gd_least_squares. */
#ifndef GD_OPTIM_SOLVE_SOLVE_H
#define GD_OPTIM_SOLVE_SOLVE_H

#include "gradus/solve.h"

double gd__seconds(void); /* of a clock that only goes forward */

#endif
