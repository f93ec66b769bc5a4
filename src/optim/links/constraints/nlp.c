/* Nonlinear programming: sequential quadratic programming with exact Hessians, then an interior point.
 *
 * With h = 0 and g <= 0 the constraints of the objective, and the bounds in force, stage 1 minimises
 *
 *     f'd + d'W d / 2 + nu |linearised violation|_1      in a box around x, W the Hessian of f + y h + z g
 *
 * and takes x + d where the merit f + nu |violation|_1 falls as the model says (Fletcher 1987).  Unless it ends at a solution within
 * 40 evaluations, stage 2 begins again: a primal-dual interior point with a filter (Wachter & Biegler 2006), which minimises
 * f - mu sum log(slacks and distances from bounds) while mu goes to 0, and, if no step is accepted, reduces the violation (restoration).
 * It is also the solver of the subproblems, and alone where variables and constraints are more than 300.
 *
 * At a minimum: the gradient of f + y h + z g + bounds', products with slacks, and violation at most tol, and no direction of
 * negative curvature in the tangent space of the active constraints.  Rejected points are evaluated without derivatives; an accepted one gives
 * its gradients and Hessian from the same evaluation.  Objectives without second derivatives get a damped BFGS model.
 *
 * Bounds are those of `box` before it.  As the last link it sets the parameters itself.  The attribute `multipliers` of the optimizer
 * has those of h, then of g, which are >= 0: the gradient of f is - y grad h - z grad g + b, where b, the attribute
 * `bound_multipliers`, is > 0 at low and < 0 at high bounds and 0 between.  The attribute `hessians` counts second derivatives.
 *
 * State: multipliers, slacks, barrier, filter, trust region; where the run began. */
#include "gradus/link/hessian.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("tol", 1e-8, 0, INFINITY, "residual and violation that are small enough"),
    GD_CHOICE("method", "auto", "auto|interior_point", "sequential quadratic programming first, or not"),
    GD_CHOICE("hessian", "auto", "auto|exact|bfgs",
              "exact where the objective has second derivatives, or a model"),
};

GD_LINK(constraints, nlp,
    .spread = GD_SPREAD_WHOLE,
    .summary = "minimises under constraints and bounds with second derivatives",
    .formula = "least f where h = 0, g <= 0 and bounds hold",
    .paper =
        "Wachter & Biegler 2006, On the implementation of an interior-point filter line-search algorithm for large-scale nonlinear programming",
    .cost =
        "an evaluation with its gradients and Hessian, and some factorisations of order elements + constraints, per step",
    .example = "box(0, 1) | nlp",
    GD_FIELDS(fields),
    .step = gd_link_step_nlp,
    .state_bytes = gd_link_nlp_bytes,
    .traits.needs_closure = true,
    .traits.moves_params = true);
