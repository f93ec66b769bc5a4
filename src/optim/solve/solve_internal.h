/* The inside of gd_minimize and gd_least_squares. */
#ifndef GD_OPTIM_SOLVE_SOLVE_INTERNAL_H
#define GD_OPTIM_SOLVE_SOLVE_INTERNAL_H

#include "gradus/solve.h"
#include "optim/step/objective/evaluator.h"

double gd__seconds(void); /* of a monotonic clock */

/* ARGUMENT, by its name: a limit or a tolerance below 0 or not a number. */
GD_NODISCARD gd_status gd__solve_check(gd_ctx *ctx, const char *what, const gd_solve_options *o);

/* The same for the numbers of a fit. */
GD_NODISCARD gd_status gd__lsq_check_options(gd_ctx *ctx, const gd_lsq_options *o);

/* Calls the callback with the progress of a fit: the loss, the largest element of the gradient, the length of the step, seconds since the
 * start.  False: it ends the fit. */
bool gd__lsq_tell(const gd_solve_options *o, int64_t steps, int64_t evals, double loss, double gradient,
                  double step, double start);

/* Each rank has its own clock and callback: if one rank stops after a step, all do. *reason: in: of this rank, GD_STOP_COUNT to continue; out:
 * that of the lowest rank that stops.  world NULL: this process alone. */
GD_NODISCARD gd_status gd__stop_together(gd_world *world, int64_t step, gd_stop *reason);
/* A failing rank reports to ranks that would wait for it. Returns the given status. */
gd_status gd__solve_tell(gd_world *world, gd_ctx *ctx, gd_status status);

/* gd_chain_for; *e: the evaluator of an objective with a single callback, which knows the start; new, or NULL, on failure too. */
gd_link *gd__chain_for(gd_tensor *const *params, int count, const gd_objective *objective, bool noisy,
                       gd_evaluator **e);

/* ---- solve_sensitivity.c ---- */

/* gd_solve_options.active and sensitivities of a run that has ended where the parameters are; either may be NULL.  most: their
 * constraints.  converged: else there are no sensitivities.  By the attributes `multipliers` and `bound_multipliers`. */
GD_NODISCARD gd_status gd__sensitivities(gd_optimizer *o, const gd_objective *objective, bool converged,
                                         int64_t most, int *active, double *sensitivities);

/* ---- solve_curvature.c ---- */

#define GD_CURVATURE_PRODUCTS 30 /* with a Hessian, at most */

/* Estimates from a few products with the Hessian of an objective. */
typedef struct gd_curvature {
    /* the largest over the smallest size of its eigenvalues: an estimate from below, all of it if there are no more numbers than
     * products; INFINITY if the smallest is rounding, NAN if unknown */
    double condition;
    /* the loss curves downwards along some direction, so that a point without a gradient is a saddle or a maximum; with few products
     * it may be missed, but is never reported wrongly */
    bool falls;
} gd_curvature;

/* The number of products that cost little beside the evaluations so far: one per parameter if they are few, else fewer. */
int64_t gd__curvature_budget(gd_tensor *const *params, int count, int64_t evals);
/* Where the parameters of an optimizer are, from at most `products` products; without bounds and constraints.  The result is unknown
 * with fewer than two products, if the Hessian is not finite or an operator has none, the objective has neither a loss made of operators nor
 * products, or several ranks have a loss each.  An objective that fails does so here too.  At most one evaluation, which counts as one. */
GD_NODISCARD gd_status gd__curvature(gd_optimizer *optimizer, const gd_objective *objective, int64_t products,
                                     gd_curvature *out);

#endif
