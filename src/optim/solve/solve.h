/* The inside of gd_least_squares. */
#ifndef GD_OPTIM_SOLVE_SOLVE_H
#define GD_OPTIM_SOLVE_SOLVE_H

#include "gradus/solve.h"

double gd__seconds(void); /* of a clock that only goes forward */

/* ARGUMENT, by its name: a limit or a tolerance below 0 or not a number. */
GD_NODISCARD gd_status gd__solve_check(gd_ctx *ctx, const char *what, const gd_solve_options *o);

#endif
