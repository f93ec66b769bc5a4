/* Objectives with one callback for one evaluation (gd_objective.evaluate), as objectives of single callbacks.
 *
 *     links -> closure.c, residuals.c, objective_constraints.c -> evaluator.made.loss, .equal, ... -> evaluator -> the user's evaluate
 *
 * The single callbacks of `made` share the results of the last point, so loss and constraints of a point come from one call. */
#ifndef GD_OPTIM_STEP_EVALUATOR_H
#define GD_OPTIM_STEP_EVALUATOR_H

#include "optim/step/optimizer.h"

typedef struct gd_evaluator gd_evaluator;

/* An objective that optimizers run: `given` itself, or for one with `evaluate` the single callbacks of a new evaluator, borrowed from
 * it.  params: those that want gradients; they outlive it.  NULL: ARGUMENT or NOMEM, recorded. */
const gd_objective *gd__evaluator_new(gd_ctx *ctx, gd_tensor *const *params, int count,
                                      const gd_objective *given, gd_evaluator **out);
void gd__evaluator_free(gd_evaluator *e); /* NULL is fine */

/* The same for an optimizer, which keeps the evaluator for the next step. */
const gd_objective *gd__evaluator_for(gd_optimizer *o, gd_tensor *const *params, int count,
                                      const gd_objective *given);
/* The evaluator is the optimizer's, which counts its calls, earlier ones too at its next use.  Consumed; NULL is fine. */
void gd__evaluator_give(gd_optimizer *o, gd_evaluator *e);
/* The objective may have changed: nothing is known at the last point. */
void gd__evaluator_forget(gd_optimizer *o);

/* The evaluator behind an objective of this optimizer, or NULL.  It counts evaluations itself. */
gd_evaluator *gd__evaluator_of(const gd_optimizer *o, const gd_objective *objective);
/* Does it return numbers for these (gd_want)? */
bool gd__evaluator_gives(const gd_evaluator *e, unsigned quantities);
/* True if all values are made of operators down to the parameters, or the Hessian is given. */
bool gd__evaluator_bends(const gd_evaluator *e);
/* Do values share graphs, so that differentiating one must keep the graph for the others? */
bool gd__evaluator_shares_graphs(const gd_evaluator *e);

/* The Jacobian of a side [constraints, n] where the parameters are now; borrowed until the next call.  NULL with the error recorded. */
gd_tensor *gd__evaluator_jacobian(gd_evaluator *e, bool below);
/* Numbers c with a history: c + J (x - here), J [numel, n].  New. */
gd_tensor *gd__with_slopes(gd_tensor *const *params, int count, gd_tensor *c, gd_tensor *j);
/* The same of the constraints of a side.  In the innermost scope. */
gd_tensor *gd__evaluator_with_slopes(gd_evaluator *e, bool below, gd_tensor *c);
/* The Hessian [n, n] of weight loss + y (equal, below), y NULL: 0; borrowed until the next call.  NULL with the error recorded. */
gd_tensor *gd__evaluator_hessian(gd_evaluator *e, double weight, const double *y, int64_t count);

#endif
