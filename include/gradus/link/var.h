/* gradus/link/var.h: the variable of a step: loss, gradient and update for links that are no rules.
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
typedef struct gd_var gd_var;             /* the current step as links see it; borrowed, ends with the step */
typedef struct gd_optimizer gd_optimizer; /* a chain with its parameters and state */
typedef struct gd_linop gd_linop;         /* gradus/link/linop.h */
typedef struct gd_module gd_module;       /* gradus/module.h */

/* The parameters and context of the step.  Borrowed. */
int gd_var_count(const gd_var *var);
gd_tensor *const *gd_var_params(const gd_var *var);
gd_ctx *gd_var_ctx(const gd_var *var);
gd_optimizer *gd_var_optimizer(const gd_var *var);
int64_t gd_var_step(const gd_var *var);   /* global step, from 0 */
gd_var *gd_var_parent(const gd_var *var); /* the var it was cloned from; NULL: the step's own */
const char *gd_var_param_name(const gd_var *var, int index); /* in its optimizer; NULL: none */
gd_module *gd_var_model(const gd_var *var); /* gd_optimizer_model of its optimizer; NULL: none */
/* Clears the gradients of the parameters (not the var's own), or with in_place sets them to zero. */
GD_NODISCARD gd_status gd_var_zero_grad(gd_var *var, bool in_place);

/* Seconds of a clock, for links that decide by time.  If several ranks make the step, all get the time of the first, so that
 * they decide the same. */
GD_NODISCARD gd_status gd_var_seconds(gd_var *var, double *seconds);

/* Loss, gradient and update at the current parameters; computed on first use, borrowed, NULL on failure.  Do
 * not call at perturbed parameters. */
gd_tensor *gd_var_loss(gd_var *var, bool backward);
double gd_var_loss_value(gd_var *var, bool backward);
gd_tensor *const *gd_var_grad(gd_var *var);
gd_tensor *const *gd_var_grad_graph(gd_var *var); /* with history, for Hessian products by autograd */
/* gd_var_update may be changed in place.  gd_var_read_update is for reading only and avoids a copy: it may be the gradient, or
 * shared with a clone or with a link's state. */
gd_tensor *const *gd_var_update(gd_var *var);
gd_tensor *const *gd_var_read_update(gd_var *var);
/* Is the value available without an evaluation? */
bool gd_var_has_loss(const gd_var *var);
bool gd_var_has_grad(const gd_var *var);
bool gd_var_has_update(const gd_var *var);
bool gd_var_has_closure(const gd_var *var);
/* True if neither loss nor update is available: an evaluation should then compute the gradient too, since the chain will need it. */
bool gd_var_wants_gradient(const gd_var *var);
gd_tensor *gd_var_loss_approx(const gd_var *var); /* a loss near the current point, or NULL; borrowed */

/* Setters take references; NULL tensors clear the value.  SHAPE: not the shapes of the parameters. */
GD_NODISCARD gd_status gd_var_set_update(gd_var *var, gd_tensor *const *update);
GD_NODISCARD gd_status gd_var_set_grad(gd_var *var, gd_tensor *const *grad);
/* Sets the update from one vector of all parameters; and sets a zero update, which leaves the parameters. */
GD_NODISCARD gd_status gd_var_set_update_vector(gd_var *var, gd_tensor *vector);
GD_NODISCARD gd_status gd_var_set_zero_update(gd_var *var);
void gd_var_set_loss(gd_var *var, gd_tensor *loss);
void gd_var_set_loss_approx(gd_var *var, gd_tensor *loss);

/* Sets bounds of the parameters for the rest of the step, including clones; the optimizer keeps them.  One tensor per parameter,
 * of its shape or of one element, NULL: none; NULL lists: no bounds.  Parameters outside are moved onto the bounds at once, and
 * evaluations there are discarded.  From then on the first update is the gradient with 0 for elements held by a bound, and searches
 * and steps stay inside.  A second call in the same step intersects both.  SHAPE; VALUE: low is above high, or the
 * intersection is empty; STATE: no optimizer. */
GD_NODISCARD gd_status gd_var_set_bounds(gd_var *var, gd_tensor *const *low, gd_tensor *const *high);
/* The bounds of a parameter, f64 on the CPU, with one element or as many as it has; borrowed, NULL: none.  False: neither. */
bool gd_var_bounds(const gd_var *var, int index, gd_tensor **low, gd_tensor **high);
/* 1 for free elements, 0 for elements held by a bound at the start of the step: at the bound, with the loss falling beyond it.
 * One vector of all parameters, as gd_list_vector makes it.  New; NULL without an error: all are free. */
gd_tensor *gd_var_free_mask(gd_var *var);

/* The largest element of x - P(x - gradient) at the current parameters, P the projection onto the optimizer's bounds; without
 * bounds that of the gradient.  Evaluates if the gradient is not available.  NAN on failure. */
double gd_var_kkt(gd_var *var);

/* The constraints of the objective at the current parameters, as vectors, with history if gradients are recorded: *equal must
 * be 0, *below at most 0; NULL: none.  New. */
GD_NODISCARD gd_status gd_var_constraints(gd_var *var, gd_tensor **equal, gd_tensor **below);
/* Reports constraints to gd_step_info and gd_minimize: the largest violation and the residual of the
 * Lagrangian at the start of the step; tol: the allowed violation; solved: both are small enough; infeasible: no better point will be found. */
void gd_var_note_constraints(gd_var *var, double violation, double tol, double kkt, bool solved,
                             bool infeasible);
/* The result of a link for constraints, for gd_minimize: none yet; a minimum; a local minimum of the violation that is not
 * feasible; a loss without lower bound; a minimum without multipliers, where the loss is not exact; no progress above rounding errors;
 * no progress. */
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
/* The outcome that a child of the link reported in this step. */
typedef struct gd_constraints_note {
    double violation, tol, kkt;
    bool solved, infeasible;
    gd_outcome outcome;
} gd_constraints_note;
/* False: no child reported, and *out is not written. */
bool gd_var_noted_constraints(const gd_var *var, gd_constraints_note *out);
/* Changes the objective to factor times the loss plus fn(user), a number made with operators from the parameters. */
typedef gd_tensor *(*gd_term_fn)(void *user);
GD_NODISCARD gd_status gd_var_add_term(gd_var *var, double factor, gd_term_fn fn, void *user);
/* Takes from the clone on which a child ran: the update, the flags skip and stop, and the elements held by bounds; not loss
 * and gradient, which may be those of a changed objective. */
GD_NODISCARD gd_status gd_var_take_update(gd_var *var, gd_var *clone);

/* Evaluates the closure at the current values of the parameters.  *loss is new; grads NULL: value only; else count new tensors.
 * The var's own loss and gradient stay.  A non-finite value is no error. */
GD_NODISCARD gd_status gd_var_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* The same for the value alone, as a number. */
GD_NODISCARD gd_status gd_var_evaluate_at(gd_var *var, double *loss);
/* Loss and, if grads is not NULL, `count` new gradients at params + alpha * direction.  The parameters are restored bit for bit, on
 * failure too, and count as unchanged: graphs recorded before stay valid.  loss may be NULL. */
GD_NODISCARD gd_status gd_var_evaluate_moved(gd_var *var, double alpha, gd_tensor *const *direction,
                                             double *loss, gd_tensor **grads);
/* The same at params + h * direction and params - h * direction, for differences: losses has two elements.  With bounds both points
 * stay inside: *h shrinks to fit the narrowest bounds, the middle of the two points moves, and elements with equal bounds stay.
 * losses NULL, ahead and behind NULL: not needed.  ARGUMENT; otherwise as gd_var_evaluate_moved. */
GD_NODISCARD gd_status gd_var_evaluate_around(gd_var *var, double *h, gd_tensor *const *direction,
                                              double *losses, gd_tensor **ahead, gd_tensor **behind);
/* The losses of k points: points [k, n], one row per point with all elements of the parameters in order, rounded to their
 * dtypes; losses[k], INFINITY for a loss that is not finite.  Uses gd_objective.values if it is given and no link has changed
 * the objective; else the parameters are moved to each point and restored bit for bit.  On failure `losses` is unchanged.  Counts
 * k evaluations, less those whose result gd_minimize remembers; none is the loss of the step.  SHAPE, STATE: no objective. */
GD_NODISCARD gd_status gd_var_evaluate_many(gd_var *var, gd_tensor *points, double *losses);
/* Declares that the link needs residuals in this step: evaluating the loss then fails with SHAPE if it is one number.  NOT_IMPLEMENTED:
 * the objective has no residuals. */
GD_NODISCARD gd_status gd_var_want_residuals(gd_var *var, const gd_link *link);
/* The residual vector at the current parameters (the closure returned a vector), new, with history if asked. */
GD_NODISCARD gd_status gd_var_residuals(gd_var *var, gd_tensor **residuals, bool graph);
/* The residuals r [m] and their Jacobian j [m, n] over all parameters, without names and history.  New. */
GD_NODISCARD gd_status gd_var_linearised(gd_var *var, gd_tensor **j, gd_tensor **r);

/* p += alpha * d for all parameters, in place.  Runs pending rules first, as gd_var_save_params does. */
GD_NODISCARD gd_status gd_var_move(gd_var *var, double alpha, gd_tensor *const *direction);
/* New copies of the parameters, and back. */
GD_NODISCARD gd_status gd_var_save_params(gd_var *var, gd_tensor **copies);
GD_NODISCARD gd_status gd_var_restore_params(gd_var *var, gd_tensor *const *copies);

/* Runs pending rules, so that update and state are current. */
GD_NODISCARD gd_status gd_var_flush(gd_var *var);
/* Ends an inner step: subtracts the update from the parameters unless a link skipped it. */
GD_NODISCARD gd_status gd_var_finish(gd_var *var);

/* A copy for a child: shares params, closure, loss, gradient, hooks, attrs, storage; the flags is_last, nested_is_last and
 * last_lrs are not copied.  clone_update: the update is copied, not shared.  New; end with gd_var_free. */
gd_var *gd_var_clone(gd_var *var, bool clone_update, gd_var *parent);
void gd_var_free(gd_var *var);
/* Takes loss, gradient and should_terminate from a child's clone if the parent lacks them. */
void gd_var_take_from(gd_var *var, const gd_var *clone);
/* Gives a clone different parameters (projections): borrowed arrays that outlive the clone.  If the clone has a
 * parent, its closure (gd_var_wrap_closure) evaluates the parent and should give it its gradient. */
void gd_var_set_params(gd_var *var, gd_tensor *const *params, int count);

/* Changes the objective: fn gets the original loss tensor and returns the new one, made with operators. */
typedef gd_tensor *(*gd_reformulate_fn)(void *user, gd_tensor *loss);
GD_NODISCARD gd_status gd_var_reformulate(gd_var *var, gd_reformulate_fn fn, void *user);
/* A closure that calls the original one through fn, which may change loss and gradients.  fn runs in a scope of its own and
 * sets *loss and grads[0 .. count) to tensors from gd_var_inner_evaluate or made of them, and releases nothing.
 * grads is NULL without backward. */
typedef gd_status (*gd_wrap_fn)(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads);
GD_NODISCARD gd_status gd_var_wrap_closure(gd_var *var, gd_wrap_fn fn, void *user);
/* Inside such a fn: the closure below.  New. */
GD_NODISCARD gd_status gd_var_inner_evaluate(gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* The same for the value alone, as a number. */
GD_NODISCARD gd_status gd_var_inner_value(gd_var *var, double *loss);
/* The same at params + alpha * direction; the parameters are restored bit for bit, on failure too.  New. */
GD_NODISCARD gd_status gd_var_inner_evaluate_at(gd_var *var, double alpha, gd_tensor *const *direction,
                                                gd_tensor **loss, gd_tensor **grads);

/* Flags. */
bool gd_var_is_last(const gd_var *var);
bool gd_var_nested_is_last(const gd_var *var);
const double *gd_var_last_lrs(
    const gd_var *var);        /* learning rate per parameter if the next link is the last `lr`, or NULL */
void gd_var_stop(gd_var *var); /* no further links at this level */
void gd_var_skip_update(gd_var *var); /* parameters stay as they are (the link has set them itself) */
/* Drops this step: no further links at any level run, the parameters stay, and schedules do not count it. */
void gd_var_hold(gd_var *var);
void gd_var_terminate(gd_var *var, bool yes);
bool gd_var_stopped(const gd_var *var);
/* Evaluates a criterion (a link that calls gd_var_terminate) without ending the run. */
GD_NODISCARD gd_status gd_var_ask(gd_var *var, gd_link *criterion, bool *stop);

/* Named numbers and tensors: optimizer attributes (kept, for the user), and storage, which starts with the step's arguments,
 * is shared by a var and its clones, and is cleared after the step; links use it to pass values to later links. */
GD_NODISCARD gd_status gd_var_set_attr(gd_var *var, const char *name, double value);
GD_NODISCARD gd_status gd_var_set_attr_tensor(gd_var *var, const char *name, gd_tensor *value);
gd_tensor *gd_var_attr_tensor(const gd_var *var, const char *name); /* borrowed; NULL if there is none */
double gd_var_storage(const gd_var *var, const char *name, double otherwise);
gd_tensor *gd_var_storage_tensor(const gd_var *var, const char *name); /* borrowed; NULL if there is none */
/* For links that come later in the step. */
GD_NODISCARD gd_status gd_var_set_storage(gd_var *var, const char *name, double value);
/* The step holds a reference; NULL forgets the tensor. */
GD_NODISCARD gd_status gd_var_set_storage_tensor(gd_var *var, const char *name, gd_tensor *value);
/* Registers a function that runs after the parameters of this step are set.  If it fails, the step fails and the parameters are
 * restored: a step with hooks keeps a copy of them. */
typedef gd_status (*gd_hook_fn)(void *user, gd_optimizer *optimizer, gd_var *var);
GD_NODISCARD gd_status gd_var_after_step(gd_var *var, gd_hook_fn fn, void *user);

/* Events for gd_step_info. */
void gd_var_note_failed_search(gd_var *var);
void gd_var_note_skipped(gd_var *var);
/* The step belongs to a global search, which ends by gd_var_terminate: gd_minimize does not stop at a small gradient or step, or at a
 * loss that is not finite. */
void gd_var_note_search(gd_var *var);
/* True if so far a search failed away from a minimum, or the step was skipped. */
bool gd_var_failed(const gd_var *var);

/* ---- Hessian-vector products ---- */

/* How Hessian products are computed: by autograd, or by one-sided or central differences of gradients. */
typedef enum gd_hvp_method { GD_HVP_AUTOGRAD, GD_HVP_FORWARD, GD_HVP_CENTRAL } gd_hvp_method;
/* out[i] = (H v)[i] at the parameters of the step; at different parameters, use a clone with loss and gradient cleared.  The
 * gradient that it computes (autograd, forward) becomes the var's.  h: difference step; normalize: v is scaled to norm 1 before
 * and the product scaled back.  ARGUMENT: no such method.  New. */
GD_NODISCARD gd_status gd_var_hvp(gd_var *var, gd_hvp_method method, double h, bool normalize,
                                  gd_tensor *const *v, gd_tensor **out);
/* The full Hessian over all parameters, [n, n].  New. */
gd_tensor *gd_var_hessian(gd_var *var);

#ifdef __cplusplus
}
#endif
#endif
