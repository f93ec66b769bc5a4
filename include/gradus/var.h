/* gradus/var.h: the variable of a step: what a link that is no rule asks and changes.
 *
 *     static gd_status stop_when_small(gd_link *link, gd_var *var)
 *     {
 *         (void)link;
 *         gd_tensor *loss = gd_var_loss(var, false);
 *         if (!loss) return gd_error(gd_var_ctx(var));
 *         if (gd_item(loss) < 1e-6) gd_var_terminate(var, true);
 *         return GD_OK;
 *     }
 *
 * It is the .step of a gd_link_class (gradus/link.h). */
#ifndef GRADUS_VAR_H
#define GRADUS_VAR_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_link gd_link;           /* a link or a chain; a counted reference */
typedef struct gd_var gd_var;             /* what links see of a step; borrowed, ends with it */
typedef struct gd_optimizer gd_optimizer; /* a chain with its parameters and state */
typedef struct gd_linop gd_linop;         /* gradus/linop.h */
typedef struct gd_module gd_module;       /* gradus/module.h */

/* What the step is about.  Borrowed. */
int gd_var_count(const gd_var *var);
gd_tensor *const *gd_var_params(const gd_var *var);
gd_ctx *gd_var_ctx(const gd_var *var);
gd_optimizer *gd_var_optimizer(const gd_var *var);
int64_t gd_var_step(const gd_var *var);   /* global step, from 0 */
gd_var *gd_var_parent(const gd_var *var); /* the var it was cloned from; NULL: the step's own */
const char *gd_var_param_name(const gd_var *var, int index); /* in its optimizer; NULL: it has none */
gd_module *gd_var_model(const gd_var *var); /* gd_optimizer_model of its optimizer; NULL: none */
/* Forgets the gradients on the parameters (not the var's own), or in place sets those that are there to zero. */
GD_NODISCARD gd_status gd_var_zero_grad(gd_var *var, bool in_place);

/* Seconds since some moment, for links that decide by the time.  Where several ranks make the step, all are given those of
 * the first: they decide the same. */
GD_NODISCARD gd_status gd_var_seconds(gd_var *var, double *seconds);

/* Loss, gradient and update at the current parameters; computed when first asked for, borrowed, NULL on failure.  Do
 * not call at perturbed parameters. */
gd_tensor *gd_var_loss(gd_var *var, bool backward);
double gd_var_loss_value(gd_var *var, bool backward);
gd_tensor *const *gd_var_grad(gd_var *var);
gd_tensor *const *gd_var_grad_graph(gd_var *var); /* with history, for Hessian products by autograd */
/* The update is the step's own: what is written into its tensors in place changes nothing else.  Those who only read it
 * say so and get it without a copy: it may be the gradient itself, or shared with a clone or with a link's state. */
gd_tensor *const *gd_var_update(gd_var *var);
gd_tensor *const *gd_var_read_update(gd_var *var);
/* Is it there, or would asking for it evaluate? */
bool gd_var_has_loss(const gd_var *var);
bool gd_var_has_grad(const gd_var *var);
bool gd_var_has_update(const gd_var *var);
bool gd_var_has_closure(const gd_var *var);
/* Neither loss nor update is there: who evaluates now does well to bring the gradient along, which the chain will need. */
bool gd_var_wants_gradient(const gd_var *var);
gd_tensor *gd_var_loss_approx(const gd_var *var); /* a loss near the current point, or NULL; borrowed */

/* Setters take references of their own; NULL tensors forget the value.  SHAPE: not like the parameters. */
GD_NODISCARD gd_status gd_var_set_update(gd_var *var, gd_tensor *const *update);
GD_NODISCARD gd_status gd_var_set_grad(gd_var *var, gd_tensor *const *grad);
/* The update as one vector of all parameters, cut into pieces; and an update of zeros: the parameters stay. */
GD_NODISCARD gd_status gd_var_set_update_vector(gd_var *var, gd_tensor *vector);
GD_NODISCARD gd_status gd_var_set_zero_update(gd_var *var);
void gd_var_set_loss(gd_var *var, gd_tensor *loss);
void gd_var_set_loss_approx(gd_var *var, gd_tensor *loss);

/* Bounds of the parameters, from here to the end of the step and in clones; the optimizer keeps them.  One tensor a parameter,
 * like it or of one element, NULL: none; NULL lists: none at all.  Parameters outside are moved onto them at once, and what
 * was evaluated there is forgotten.  From then on the first update is the gradient with 0 where a bound holds the element,
 * searches stay inside, and steps end inside.  Set again in the same step, both hold: their intersection.  SHAPE; VALUE: nothing lies
 * between two of them, or in the intersection; STATE: no optimizer. */
GD_NODISCARD gd_status gd_var_set_bounds(gd_var *var, gd_tensor *const *low, gd_tensor *const *high);
/* Those of a parameter, f64 on the CPU, of one element or as many as it has; borrowed, NULL: none.  False: neither. */
bool gd_var_bounds(const gd_var *var, int index, gd_tensor **low, gd_tensor **high);
/* 1 for free elements, 0 for those that a bound holds where the step begins: at it, with the loss falling beyond it.  One vector
 * of all parameters, as gd_list_vector makes them.  New; NULL without an error: all are free. */
gd_tensor *gd_var_free_mask(gd_var *var);

/* The largest element of x - P(x - gradient) where the parameters are, P being the way into the bounds that the optimizer has
 * for them; without bounds of the gradient.  Evaluates where the gradient is not there.  NAN on failure. */
double gd_var_kkt(gd_var *var);

/* The constraints of the objective at the current parameters, as vectors, with history where gradients are recorded: *equal is to
 * be 0, *below at most 0; NULL: there are none.  New. */
GD_NODISCARD gd_status gd_var_constraints(gd_var *var, gd_tensor **equal, gd_tensor **below);
/* What became of them, for gd_step_info and gd_minimize, the largest violation and the residual of the
 * Lagrangian where the step begins; tol: a violation that is allowed; solved: both are small enough; infeasible: no better point will be found. */
void gd_var_note_constraints(gd_var *var, double violation, double tol, double kkt, bool solved,
                             bool infeasible);
/* How a link that looks at constraints says that it is over, for gd_minimize: nothing yet; a minimum; the least violation near, which is
 * none; a loss that falls without end; a minimum beside which no multipliers exist, so that the loss there is not exact; nothing better but for rounding;
 * nothing better. */
typedef enum gd_outcome {
    GD_OUTCOME_NONE,
    GD_OUTCOME_SOLVED,
    GD_OUTCOME_INFEASIBLE,
    GD_OUTCOME_UNBOUNDED,
    GD_OUTCOME_DEGENERATE,
    GD_OUTCOME_FLAT,
    GD_OUTCOME_STUCK
} gd_outcome;
void gd_var_note_outcome(gd_var *var, gd_outcome outcome);
/* What a child of the link has noted of them in this step. */
typedef struct gd_constraints_note {
    double violation, tol, kkt;
    bool solved, infeasible;
    gd_outcome outcome;
} gd_constraints_note;
/* False: none has, and *out is not written. */
bool gd_var_noted_constraints(const gd_var *var, gd_constraints_note *out);
/* A changed objective: factor times the loss and fn(user), a number made with operators from the parameters. */
typedef gd_tensor *(*gd_term_fn)(void *user);
GD_NODISCARD gd_status gd_var_add_term(gd_var *var, double factor, gd_term_fn fn, void *user);
/* After a child that ran on a clone: its update, whether to skip it, whether to stop, and who its bounds hold; not loss and
 * gradient, which may be those of a changed objective. */
GD_NODISCARD gd_status gd_var_take_update(gd_var *var, gd_var *clone);

/* Evaluates the closure at whatever the parameters are now.  *loss is new; grads NULL: value only; else count new tensors.
 * Does not touch what the var remembers.  A non-finite value is no error. */
GD_NODISCARD gd_status gd_var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* The same for the value alone, as a number. */
GD_NODISCARD gd_status gd_var_evaluate_at(gd_var *var, double *loss);
/* Loss, and where grads is not NULL count new gradients, at params + alpha * direction.  The parameters come back bit for bit, also
 * on failure, and count as unchanged: graphs that were recorded before may still be used.  loss may be NULL. */
GD_NODISCARD gd_status gd_var_evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction,
                                             double *loss, gd_tensor **grads);
/* The same at params + h * direction and params - h * direction, for differences: losses has two places.  Inside bounds both points are too: *h shrinks to what
 * the narrowest bounds hold, the middle of the two points moves, and elements with equal bounds stay.  losses NULL, ahead and
 * behind NULL: not wanted.  ARGUMENT; otherwise as gd_var_evaluate_moved. */
GD_NODISCARD gd_status gd_var_evaluate_around(gd_var *var, double *h, gd_tensor *const *direction,
                                              double *losses, gd_tensor **ahead, gd_tensor **behind);
/* The losses of k points in place of the parameters: points [k, n], a row with all elements of a point in their order, rounded to
 * what the parameters hold; losses[k], a loss that is not finite being INFINITY, the worst.  By gd_objective.values where that
 * is given and no link has changed the objective, else the parameters go there one after the other and come back bit for bit, also
 * on failure; losses are then as they were.  k evaluations, less those whose result gd_minimize remembers; none of them is the
 * loss of the step.  SHAPE, STATE: no objective. */
GD_NODISCARD gd_status gd_var_evaluate_many(gd_var *var, gd_tensor *points, double *losses);
/* The link wants a vector of the objective in this step: what asks for its loss fails, SHAPE, where that is one number; NOT_IMPLEMENTED: it gives no
 * residuals at all. */
GD_NODISCARD gd_status gd_var_want_residuals(gd_var *var, const gd_link *link);
/* The residual vector at the current parameters (the closure returned a vector), new, with history if asked. */
GD_NODISCARD gd_status gd_var_residuals(gd_var *var, gd_tensor **residuals, bool graph);
/* The residuals r [m] and their Jacobian j [m, n] over all parameters, without names and history.  New. */
GD_NODISCARD gd_status gd_var_linearised(gd_var *var, gd_tensor **j, gd_tensor **r);

/* p += alpha * d for all parameters, in place.  Like saving them, this first runs the rules that wait. */
GD_NODISCARD gd_status gd_var_move(gd_var *var, double alpha, gd_tensor *const *direction);
/* New copies of the parameters, and back. */
GD_NODISCARD gd_status gd_var_save_params(gd_var *var, gd_tensor **copies);
GD_NODISCARD gd_status gd_var_restore_params(gd_var *var, gd_tensor *const *copies);

/* Runs the rules that wait, so that update and state are up to date. */
GD_NODISCARD gd_status gd_var_flush(gd_var *var);
/* The end of a step of its own: subtracts the update from the parameters unless a link said to skip it. */
GD_NODISCARD gd_status gd_var_finish(gd_var *var);

/* A copy for a child: shares params, closure, loss, gradient, hooks, attrs, storage; the flags is_last, nested_is_last and
 * last_lrs are not copied.  clone_update: the update is copied, not shared.  New; end with gd_var_free. */
gd_var *gd_var_clone(gd_var *var, bool clone_update, gd_var *parent);
void gd_var_free(gd_var *var);
/* After a child: takes over loss, gradient and should_terminate that the parent did not have. */
void gd_var_take_from(gd_var *var, const gd_var *clone);
/* The other parameters of a clone (projections): borrowed arrays that outlive the clone.  When such a clone has a
 * parent, its closure (gd_var_wrap_closure) evaluates the parent and should give it its gradient. */
void gd_var_set_params(gd_var *var, gd_tensor *const *params, int count);

/* A changed objective: fn gets the loss tensor of the original one and returns the new one, made with operators. */
typedef gd_tensor *(*gd_reformulate_fn)(void *user, gd_tensor *loss);
GD_NODISCARD gd_status gd_var_reformulate(gd_var *var, gd_reformulate_fn fn, void *user);
/* A closure that calls the original one through fn, which may change loss and gradients.  fn runs in a scope of its own and
 * sets *loss and grads[0 .. count) to tensors that it got from gd_var_inner_evaluate or made of them: expressions, nothing
 * to release.  grads is NULL without backward. */
typedef gd_status (*gd_wrap_fn)(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads);
GD_NODISCARD gd_status gd_var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user);
/* Inside such a fn: the closure below.  New. */
GD_NODISCARD gd_status gd_var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* The same for the value alone, as a number. */
GD_NODISCARD gd_status gd_var_inner_value(gd_var *var, double *loss);
/* The same at params + alpha * direction; the parameters are back afterwards, bit for bit, also on failure.  New. */
GD_NODISCARD gd_status gd_var_inner_evaluate_at(gd_var *var, double alpha, gd_tensor *const *direction,
                                                gd_tensor **loss, gd_tensor **grads);

/* Flags. */
bool gd_var_is_last(const gd_var *var);
bool gd_var_nested_is_last(const gd_var *var);
const double *
gd_var_last_lrs(const gd_var *var); /* learning rate a parameter if the next link is the last `lr`, or NULL */
void gd_var_stop(gd_var *var);      /* no further links at this level */
void gd_var_skip_update(gd_var *var); /* parameters stay as they are (the link has set them itself) */
/* Nothing comes out of this step: no further links at any level, the parameters stay, and schedules do not count it. */
void gd_var_hold(gd_var *var);
void gd_var_terminate(gd_var *var, bool yes);
bool gd_var_stopped(const gd_var *var);
/* What a criterion (a link that calls gd_var_terminate) says, without anything coming of it. */
GD_NODISCARD gd_status gd_var_ask(gd_var *var, gd_link *criterion, bool *stop);

/* Named numbers and tensors: optimizer attributes (kept, for the user), and storage, which begins as what the step was
 * given, is shared by a var and its clones, and ends with the step: links leave there what later ones read. */
GD_NODISCARD gd_status gd_var_set_attr(gd_var *var, const char *name, double value);
GD_NODISCARD gd_status gd_var_set_attr_tensor(gd_var *var, const char *name, gd_tensor *value);
gd_tensor *gd_var_attr_tensor(const gd_var *var, const char *name); /* borrowed; NULL if there is none */
double gd_var_storage(const gd_var *var, const char *name, double otherwise);
gd_tensor *gd_var_storage_tensor(const gd_var *var, const char *name); /* borrowed; NULL if there is none */
/* For links that come later in the step. */
GD_NODISCARD gd_status gd_var_set_storage(gd_var *var, const char *name, double value);
/* The step holds a reference; NULL forgets the tensor. */
GD_NODISCARD gd_status gd_var_set_storage_tensor(gd_var *var, const char *name, gd_tensor *value);
/* A function that runs once the parameters of this step are set.  Where it fails the step fails, and the parameters are as
 * before it: a step with hooks keeps a copy of them. */
typedef gd_status (*gd_hook_fn)(void *user, gd_optimizer *optimizer, gd_var *var);
GD_NODISCARD gd_status gd_var_after_step(gd_var *var, gd_hook_fn fn, void *user);

/* What happened, for gd_step_info. */
void gd_var_note_failed_search(gd_var *var);
void gd_var_note_skipped(gd_var *var);
/* The step is one of a search among many minima, which says itself when it has ended (gd_var_terminate): that a gradient or a step is
 * small, or a loss not finite, is no end for gd_minimize. */
void gd_var_note_search(gd_var *var);
/* So far: a search that found nothing though there was something to find, or a step that was skipped. */
bool gd_var_failed(const gd_var *var);

/* ---- Hessian-vector products ---- */

/* How products with the Hessian are made: by autograd, or by one-sided or central differences of gradients. */
typedef enum gd_hvp_method { GD_HVP_AUTOGRAD, GD_HVP_FORWARD, GD_HVP_CENTRAL } gd_hvp_method;
/* out[i] = (H v)[i] at the parameters of the step; at others, use a clone whose loss and gradient are forgotten.  The
 * gradient it needs (autograd, forward) becomes the var's.  h: difference step; normalize: v is scaled to norm 1 before
 * and the product scaled back.  ARGUMENT: no such method.  New. */
GD_NODISCARD gd_status gd_var_hvp(gd_var *var, gd_hvp_method method, double h, bool normalize,
                                  gd_tensor *const *v, gd_tensor **out);
/* The full Hessian over all parameters, [n, n].  New. */
gd_tensor *gd_var_hessian(gd_var *var);

#ifdef __cplusplus
}
#endif
#endif
