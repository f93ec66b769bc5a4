/* Sum of squares: says that the objective returns residuals.  An objective that returns a vector is a sum of squares for
 * every link; this link then changes nothing, and exists for chains of other libraries. An objective of one number is an error: it would be minimised
 * as it is, not squared. */
#include "gradus/link.h"

static gd_status sum_of_squares_step(gd_link *link, gd_var *var) { return gd_var_want_residuals(var, link); }

GD_LINK(least_squares, sum_of_squares,
    .spread = GD_SPREAD_WHOLE,
    .summary = "minimises the sum of squares of the objective's vector",
    .formula = "loss = sum(r^2)",
    .cost = "nothing beyond the evaluation",
    .example = "sum_of_squares | lbfgs | strong_wolfe",
    .step = sum_of_squares_step,
    .traits.needs_closure = true);
