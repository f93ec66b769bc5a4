/* How hard a minimum is to find. */
#ifndef GD_CLI_PROBLEM_CONDITION_H
#define GD_CLI_PROBLEM_CONDITION_H

#include "cli/problem/problem.h"

/* The largest over the smallest size of the eigenvalues of the loss's Hessian where the parameters are, from at most `products`
 * products with it: an estimate from below, all of it where there are no more numbers than products.  INFINITY where the smallest
 * is rounding; NAN where it cannot be told: fewer than two products, or a Hessian that is not finite or that an operator does not
 * have.  *falls: the loss curves downwards along some direction, so that a point without a gradient is a saddle or a maximum; with
 * few products it may be overlooked, never made up. */
GD_NODISCARD gd_status gd__problem_condition(gd_problem *p, int64_t products, double *condition, bool *falls);

#endif
