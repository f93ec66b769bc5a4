/* gradus/solve.h: minimising and fitting in one call.
 *
 *     gd_solve_result result;
 *     gd_status status = gd_minimize(&p, 1, &(gd_objective){.loss = loss, .user = p}, "lbfgs | strong_wolfe", NULL, &result);
 *     puts(gd_stop_text(result.reason));
 *
 *     gd_lsq_result fit;
 *     status = gd_least_squares(params, 3, residuals, user, NULL, &fit);
 *     gd_read_f64(fit.standard_errors, errors, 3);
 *     gd_lsq_result_clear(&fit);
 *
 * Parameters are changed in place and end at the best point.  Stopping without convergence is no error:
 * see the reason.
 *
 * If several ranks solve together (gd_batch.world, gd_rows.world, gd_optimizer_distribute), each has its own clock and callback, and
 * one rank with them is enough: if one stops, all stop after the same step, for the reason of the lowest rank that has one. */
#ifndef GRADUS_SOLVE_H
#define GRADUS_SOLVE_H

#include "gradus/optim.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Why a solver stopped: name, has it converged, text. */
#define GD_STOP_LIST(X)                                                                               \
    X(GRADIENT, true, "the gradient is as small as asked for")                                        \
    X(STEP, true, "the steps are as small as asked for")                                              \
    X(LOSS, true, "the loss no longer changes")                                                       \
    X(LINK, true, "a link of the chain said so")                                                      \
    X(SADDLE, false,                                                                                  \
      "the gradient vanishes where the loss still falls along some direction: a saddle or a maximum") \
    X(UNDETERMINED, false, "the residuals do not determine all parameters")                           \
    X(INFEASIBLE, false, "no point was found that satisfies the constraints")                         \
    X(UNBOUNDED, false, "the loss falls without end while the constraints hold")                      \
    X(DEGENERATE, false, "no multipliers exist here: the constraints hold, the loss is not exact")    \
    X(STUCK, false, "no better point was found")                                                      \
    X(DIVERGED, false, "the loss falls without end or is no longer finite")                           \
    X(MAX_STEPS, false, "the steps are used up")                                                      \
    X(MAX_EVALS, false, "the evaluations are used up")                                                \
    X(TIME, false, "the time is used up")                                                             \
    X(CALLER, false, "the callback said so")                                                          \
    X(NOT_FINITE, false, "the loss or its gradient is not finite at the start")                       \
    X(ERROR, false, "an error was recorded in the context")

/* Why a solver stopped. */
typedef enum gd_stop {
#define GD_STOP_ENUM(name, converged, text) GD_STOP_##name,
    GD_STOP_LIST(GD_STOP_ENUM)
#undef GD_STOP_ENUM
        GD_STOP_COUNT
} gd_stop;

const char *gd_stop_name(gd_stop reason); /* "GRADIENT"; static */
const char *gd_stop_text(gd_stop reason); /* static */
bool gd_stop_converged(gd_stop reason);   /* true if the reason means that a minimum was reached */

/* ---- stopping rules, for both ---- */

/* The state after a step, for callbacks. */
typedef struct gd_progress {
    int64_t step, evals;
    double loss;            /* at the start of the step (gd_minimize) or its end (gd_least_squares) */
    double loss_after;      /* at the end of the step; NAN if not known */
    double gradient_norm;   /* largest element, at the end of the step if possible; NAN if not known */
    double gradient_length; /* the same gradient's 2-norm; gd_least_squares: NAN */
    double violation;       /* of constraints, at the start of the step; NAN without */
    double step_norm;       /* of the change of all parameters */
    double seconds;
    bool failed; /* a search failed or a link skipped the update: the length of the step means nothing */
} gd_progress;

/* Start from gd_solve_defaults().  A tolerance of 0 turns its rule off. */
typedef struct gd_solve_options {
    int64_t max_steps, max_evals; /* 1000, none; 0: no limit (with plain: no step) */
    double max_seconds;           /* none (0) */
    double gradient_tol;          /* largest element of the gradient; 1e-8 (gd_least_squares: 0) */
    double step_tol; /* norm of a step relative to the norm of the parameters; 0 (gd_least_squares: 1e-14) */
    double loss_tol; /* change of the loss relative to its size; 0 (gd_least_squares: 1e-15) */
    int patience;    /* gd_minimize: steps in a row that must be below step_tol or loss_tol; 3 */
    bool
        noisy; /* gd_minimize: the objective may differ at the same point, so it is evaluated each time; false */
    bool look;  /* gd_minimize: loss and gradient after every step, even if that costs an evaluation; false */
    bool plain; /* gd_minimize: only the steps of the chain, see there; false */
    bool (*callback)(void *user, const gd_progress *progress); /* false stops; NULL: none */
    void *callback_user;
    /* gd_minimize: most products with the Hessian for telling a minimum from a saddle at a zero gradient; 30; 0: no
     * check.  See there. */
    int64_t curvature_products;
    /* gd_minimize: arrays for the multipliers at the end, borrowed; NULL: none.  multipliers: of the constraints, `equal` before `below`, at most
     * multiplier_count; bound_multipliers: [all elements], > 0 at low and < 0 at high bounds, 0 at no active bound.  The gradient of the loss is
     * - multipliers times the gradients of the constraints + bound_multipliers.  NAN if the chain has none. */
    double *multipliers, *bound_multipliers;
    int64_t multiplier_count;
    /* gd_minimize: more arrays about the constraints at the end, borrowed; NULL: none.  active: [multiplier_count], 1 for constraints that hold
     * with equality, else 0.  sensitivities: [all elements, multiplier_count], the derivative of the minimum's parameters by the right-hand
     * side b of equal = b and below <= b; that of the loss is - multipliers.  They solve the system of the optimality conditions with exact
     * second derivatives, or differences of first ones; an inactive constraint has 0.  NAN if the chain has no multipliers, the
     * run has not converged, or the conditions do not determine the parameters */
    int *active;
    double *sensitivities;
} gd_solve_options;

gd_solve_options gd_solve_defaults(void); /* as the comments above say */

/* The default chain of gd_minimize and gradus minimize. */
#define GD_DEFAULT_CHAIN "lbfgs | strong_wolfe"

/* The default chain for an objective: GD_DEFAULT_CHAIN; with constraints nlp, for up to 2000 elements and constraints together
 * and an objective with second derivatives that is not noisy, else augmented_lagrangian around GD_DEFAULT_CHAIN.  Calls the constraints or
 * `evaluate` once, to count them; gd_minimize uses that call for its start.  New; NULL if that fails or an argument is NULL. */
gd_link *gd_chain_for(gd_tensor *const *params, int count, const gd_objective *objective, bool noisy);

/* Where first derivatives came from, id and name.  NONE: no link asked for any, values were enough.  EXACT: from operators, or from the
 * callbacks and rows of the objective. */
#define GD_DERIVATIVES_LIST(X) \
    X(NONE, "none")            \
    X(EXACT, "exact")          \
    X(DIFFERENCES, "differences")

/* The derivatives that a run has used. */
typedef enum gd_derivatives {
#define GD_DERIVATIVES_ENUM(id, name) GD_DERIVATIVES_##id,
    GD_DERIVATIVES_LIST(GD_DERIVATIVES_ENUM)
#undef GD_DERIVATIVES_ENUM
        GD_DERIVATIVES_COUNT
} gd_derivatives;

const char *gd_derivatives_name(gd_derivatives derivatives); /* "differences"; static */

/* The result of a solver. */
typedef struct gd_solve_result {
    gd_stop reason;
    bool converged;
    double loss; /* at the end */
    /* largest element of the gradient at the end; with bounds of x - P(x - gradient), P the projection onto them; with constraints
     * of the gradient of the Lagrangian; NAN if no gradient was computed */
    double gradient_norm;
    double violation; /* largest violation of constraints at the end; 0 without constraints */
    int64_t steps, evals;
    int64_t
        constraint_evals; /* points at which `equal` and `below` were called, once each; with `evaluate`: its calls for them */
    double seconds;
    /* DIFFERENCES if they were taken at least once: by a link (fdm, spsa and their like), of an objective that gives values alone, or of
     * constraints that are numbers; derivatives that a callback gives are EXACT, however it computes them; a gradient that only this
     * result shows does not count */
    gd_derivatives derivatives;
} gd_solve_result;

/* Runs steps of a chain until a stopping rule ends them.  The parameters end at the best point that was evaluated with its loss,
 * even if an evaluation fails; its status is then returned.
 *
 * A point is evaluated once (unless noisy): the next step reuses the last evaluation of a search.  (A point counts twice if the
 * search needed its value and the next step a graph for its Hessian.)  Settings that links leave open are set: searches ensure that
 * their update points downhill (descent), first steps of quasi-Newton links are short (scale_first).  After a failed search,
 * quasi-Newton and conjugate links restart.  Failed and skipped steps never count as small.  Several in a row are STUCK, unless the
 * gradient is within rounding errors: then it is LOSS.  LOSS also applies if the gradient times the size of the parameters is below
 * the rounding errors of the loss, or after ten steps in which neither loss nor gradient fell by more than rounding errors (not if
 * gradient_tol is 0).  With constraints the best point is that of the lowest loss among those whose violation is within the tolerance
 * of augmented_lagrangian, else that of the least violation.  None of this applies with plain: the parameters end after the last step.
 * A chain for global search (cma_es, multi_start and others) ends by itself, LINK; small gradients and small or failed steps do not
 * end it.
 *
 * If a run would converge with a gradient below gradient_tol, it checks the curvature and returns SADDLE if the loss falls along some
 * direction.  That takes one product with the Hessian per element, for more than 16 elements one per 16 evaluations of the run (none for
 * fewer than two), and one evaluation for the graph, which counts.  With few products a saddle may be missed; SADDLE is always true.
 * There is no check with noisy or plain, at active bounds, with constraints, or if the objective has neither loss, hvp nor batch, or no
 * second derivatives.  Parameters that do not want gradients stay as they are, with a warning that says which.  ARGUMENT: no parameter
 * wants gradients, an option is below 0 or not a number; GRAPH: the loss depends on none of them.  chain NULL: that of gd_chain_for;
 * options NULL: the defaults; result may be NULL. */
GD_NODISCARD gd_status gd_minimize(gd_tensor *const *params, int count, const gd_objective *objective,
                                   const char *chain, const gd_solve_options *options,
                                   gd_solve_result *result);
/* The same with a gd_link, which is consumed, on failure too. */
GD_NODISCARD gd_status gd_minimize_link(gd_tensor *const *params, int count, const gd_objective *objective,
                                        gd_link *chain, const gd_solve_options *options,
                                        gd_solve_result *result);

/* The same with an optimizer and its parameters, groups and schedules; it is borrowed and keeps its state.  Limits count from
 * this call. */
GD_NODISCARD gd_status gd_minimize_with(gd_optimizer *optimizer, const gd_objective *objective,
                                        const gd_solve_options *options, gd_solve_result *result);

/* ---- nonlinear least squares ---- */

/* Loss functions rho(z) of a residual z in units of the scale: id, name, and the constant with 95 % efficiency for normal errors.
 * All are squares for small residuals; beyond the constant huber and soft_l1 grow like |z|, cauchy like log |z|, and tukey is
 * constant. */
#define GD_LSQ_LOSS_LIST(X)      \
    X(SQUARES, "squares", 1)     \
    X(HUBER, "huber", 1.345)     \
    X(SOFT_L1, "soft_l1", 1.287) \
    X(CAUCHY, "cauchy", 2.385)   \
    X(TUKEY, "tukey", 4.685)

/* The loss of residuals: squares, or a robust loss that grows more slowly. */
typedef enum gd_lsq_loss {
#define GD_LSQ_LOSS_ENUM(id, name, constant) GD_LSQ_##id,
    GD_LSQ_LOSS_LIST(GD_LSQ_LOSS_ENUM)
#undef GD_LSQ_LOSS_ENUM
        GD_LSQ_LOSS_COUNT
} gd_lsq_loss;

const char *gd_lsq_loss_name(gd_lsq_loss loss); /* "huber"; static */
/* The weight of a residual of z scales relative to squares: rho'(z) / z, 1 at 0.  NAN for an unknown loss. */
double gd_lsq_loss_weight(gd_lsq_loss loss, double z);

/* The assumption of covariances about the variances of residuals: all equal, or none. */
typedef enum gd_lsq_errors {
    GD_LSQ_USUAL, /* sigma^2 (J^T J)^-1 */
    /* (J^T J)^-1 J^T diag((r_i / (1 - h_i))^2) J (J^T J)^-1, h_i the leverage of a residual (MacKinnon & White 1985): squares only */
    GD_LSQ_HC3,
    GD_LSQ_ERRORS_COUNT
} gd_lsq_errors;

/* Options of a fit.  Start from gd_lsq_defaults(). */
typedef struct gd_lsq_options {
    gd_solve_options solve;
    double first_radius; /* of the trust region, relative to the scaled start; 1 */
    bool acceleration;   /* second-order correction along the step (Transtrum & Sethna 2012); true */
    bool polish;         /* Newton steps at the end, for the last digits; true */
    bool covariance;     /* fill covariance and standard_errors; true */
    bool leave_saddles;  /* continue from a saddle, at a stop or at a start with equal columns; true */
    /* Bounds, one number per element of all parameters in order, -INFINITY and INFINITY for none; borrowed; NULL: none.
     * Rounded to the parameter's dtype.  Equal ones fix the element.  A start outside is put on its bound. */
    const double *low, *high;
    const char *const *names; /* of the parameters, for messages; borrowed; NULL: p0, p1, ... */
    int64_t weightless;       /* number of residuals of weight 0, which do not count in dof; 0 */
    double
        sigma; /* known standard deviation of a residual, for covariance and profiles; 0: estimated by the fit */
    gd_lsq_loss loss; /* SQUARES */
    /* s of rho(r / s); 0: 1.4826 median|r| m / (m - n) of a Huber fit, m residuals and n free parameters.  Found in two runs, from
     * the start and from the fit of squares if that converges; of two minima the one with the lower loss at the smaller scale is kept, with a
     * warning if their losses differ by more than 1 % */
    double loss_scale;
    gd_lsq_errors errors; /* USUAL */
    /* The elements of the covariance, in its order; borrowed; NULL: all; for a sparse problem with more than 2000 parameters none, only
     * standard errors */
    const int64_t *chosen;
    int64_t chosen_count;
    /* Residuals by ranges of rows instead of the function, which may then be NULL: memory for a range only; borrowed;
     * NULL: none */
    const gd_rows *rows;
} gd_lsq_options;

gd_lsq_options gd_lsq_defaults(void); /* as the comments above say */

#define GD_LSQ_TEXT 256 /* bytes of gd_lsq_result.says */

/* The result of a fit.  Free it with gd_lsq_result_clear. */
typedef struct gd_lsq_result {
    /* its loss is the sum of squares, with a robust loss 2 s^2 sum rho(r / s); residuals and Jacobian together are one evaluation;
     * gradient_norm is the largest element of x - P(x - gradient), P the projection onto the bounds */
    gd_solve_result solve;
    double rss;             /* sum of squared residuals */
    int64_t residuals, dof; /* number of residuals; those with a weight, minus the free parameters */
    int64_t free;           /* parameters that are not at an active bound */
    int64_t rank;           /* of the Jacobian of the free parameters at the end */
    double sigma;           /* sqrt(rss / dof), NAN for dof <= 0; with a robust loss its scale */
    double scale;           /* of the loss; NAN for squares */
    /* sigma^2 (J^T J)^-1, with sigma of the options if given; for a robust loss that of an M-estimator, s^2 A^-1 B A^-1 m / dof with A the
     * Hessian of the loss and B the sum of psi^2 J J^T.  Over the free parameters; 0 at an active bound.  [n, n] f64 over all parameters
     * in order; new or NULL */
    gd_tensor *covariance;
    /* roots of its diagonal, [n]; INFINITY for undetermined elements, NAN at an active bound; new or NULL */
    gd_tensor *standard_errors;
    /* [n] i32: -1 and 1 at an active low or high bound (the loss falls beyond it), else 0; new or NULL */
    gd_tensor *active;
    gd_tensor *undetermined; /* [n] i32: 1 for elements that make the stop UNDETERMINED; new or NULL */
    char says[GD_LSQ_TEXT];  /* then: "a and c cannot be told apart"; else "" */
    char linear
        [48]; /* what solved for the steps: "QR", "LDL", "Schur complement", "LSMR", of a plugin "CHOLMOD 3.0.14"; "": none yet */
} gd_lsq_result;

/* Releases the tensors of a result. */
void gd_lsq_result_clear(gd_lsq_result *result);

/* Minimises the sum of squares of residuals(user), a tensor made with operators from the parameters (floating leaves that
 * want gradients): Levenberg-Marquardt in a trust region scaled by the columns of the exact Jacobian (More 1978), by QR and
 * SVD, never through normal equations.  Bounds are kept by an active set.  Fewer residuals than parameters, dependent columns,
 * and trial points that are not finite are allowed.  At the end the full Hessian is checked: saddles are left, and
 * undetermined parameters give UNDETERMINED.  Robust losses reduce the weight of outliers: their scale comes from Huber fits
 * unless it is given, and tukey starts at the result of huber.  These are several fits: max_steps, max_evals, max_seconds and the
 * numbers of the callback count over all of them; after a limit, describing the point may take two more evaluations.  VALUE: half of the residuals are 0, or there are too few of them
 * for a scale.  ARGUMENT: a parameter does not want gradients, an option is below 0 or not a number.  Long tables: see options->rows.
 * With at least 100 parameters and 2 million elements of the Jacobian, the graph says which of them can differ from zero; if these are at most a tenth, the
 * fit is that of gd_lsq_solve (gradus/lsq.h): no second derivatives, so neither `acceleration` nor `leave_saddles`.  A function that fails leaves the parameters at the best point so far and returns
 * its status. */
GD_NODISCARD gd_status gd_least_squares(gd_tensor *const *params, int count,
                                        gd_tensor *(*residuals)(void *user), void *user,
                                        const gd_lsq_options *options, gd_lsq_result *result);

#define GD_DISTANCE_COLUMNS 8 /* most columns with errors in a model */

/* Measured points and the equation of a curve or surface. */
typedef struct gd_distance {
    /* The equation at columns shaped like x: one number per row, [rows] f64, made with operators from them and the parameters; each
     * row depends only on the same row of the columns. */
    gd_tensor *(*equation)(void *user, gd_tensor *const *x);
    void *user;
    gd_tensor *const *x; /* measured columns, f64 [rows] each; borrowed */
    gd_tensor *const
        *sigma; /* their standard deviations: [rows], or one number for all; 0: exact; borrowed */
    int count;  /* of columns, GD_DISTANCE_COLUMNS at most */
    bool
        implicit; /* true: the curve is equation = 0; false: the equation has an error of standard deviation 1 */
} gd_distance;

/* Orthogonal distance regression: the distance of each point from the curve, with a sign, in standard deviations of the point, [rows]
 * with history in the parameters.  As residuals of gd_least_squares they give a fit with errors in x, with the equation (f(x; p) - y) / sigma_y for
 * y = f(x; p), or with `implicit` a fit of F(x, y; p) = 0.  Derivatives to second order are exact, so covariances are those of the fit of
 * parameters and points together.  NaN in rows where the equation is not finite.  New.  ARGUMENT, SHAPE, CALLBACK. */
gd_tensor *gd_distances(const gd_distance *d);

/* The covariance of parameters (floating leaves that want gradients) from any residuals with history: sigma^2
 * (J^T J)^-1, [n, n] f64 over all elements of the parameters in their order, by QR and SVD of the exact Jacobian J.  sigma: standard
 * deviation of a residual; NAN: sqrt(rss / (m - elements not fixed)), NAN for too few residuals m.  fixed: [n], known
 * elements, with rows and columns of zeros; borrowed; NULL: none.  INFINITY on the diagonal for undetermined
 * elements.  The graph stays.  New.  DTYPE, ARGUMENT, VALUE: residuals or derivatives that are not finite. */
gd_tensor *gd_covariance(gd_tensor *residuals, gd_tensor *const *params, int count, const bool *fixed,
                         double sigma);

/* The profile interval of one element after a fit with the same arguments: the others are fitted again with it fixed,
 * within their bounds, and the interval ends where the sum of squares has risen by (t sigma)^2, with sigma of the options if given.  t: of Student's distribution with
 * fit->dof degrees of freedom.  An end at a bound is the bound, an unlimited end is infinite; an element at an active
 * bound has its interval on the inner side.  The parameters are restored, unless a lower sum of squares was found: then *better
 * is true (better may be NULL), the parameters are at that point, and the fit should be repeated.  max_evals and max_seconds are limits
 * of the whole call, max_steps of each fit with the element held; an end that is not reached is NAN, with a warning.  INDEX; errors of the
 * residuals; INTERRUPTED if the callback stops it; ARGUMENT for a robust loss. */
GD_NODISCARD gd_status gd_lsq_profile(gd_tensor *const *params, int count,
                                      gd_tensor *(*residuals)(void *user), void *user,
                                      const gd_lsq_options *options, const gd_lsq_result *fit,
                                      int64_t element, double t, double *interval, bool *better);

/* ---- intervals by resampling ---- */

/* Fits of resampled data after a fit with the same arguments: numbers first, ..., first + number - 1 of a series given by the
 * seed, so several contexts may share the work.  Each draws all rows with replacement, or with of_residuals adds residuals drawn
 * with replacement (divided by the root of 1 - leverage) to the fitted values.  out: [number, n] over all elements
 * of the parameters, NAN for a fit that did not converge.  A loss other than squares keeps the scale of the fit.  max_evals and max_seconds are
 * limits of the whole call, max_steps of each fit; fits that are not run are NAN too, with a warning.  The parameters
 * are restored.  ARGUMENT; VALUE: nothing is determined; errors of the residuals; INTERRUPTED if the callback stops
 * it. */
GD_NODISCARD gd_status gd_lsq_resample(gd_tensor *const *params, int count,
                                       gd_tensor *(*residuals)(void *user), void *user,
                                       const gd_lsq_options *options, const gd_lsq_result *fit,
                                       bool of_residuals, uint64_t seed, int64_t first, int64_t number,
                                       double *out);
/* Intervals of that level, [n, 2], from such samples [number, n], corrected for bias and acceleration (BCa, Efron 1987).  For few rows
 * they are too narrow: see gd_lsq_bca_level.  VALUE: more than a tenth of the fits did not converge. */
GD_NODISCARD gd_status gd_lsq_bca(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                                  void *user, const gd_lsq_options *options, const gd_lsq_result *fit,
                                  const double *samples, int64_t number, double level, double *intervals);
/* The level to pass to gd_lsq_bca for intervals with coverage `level`.  Fits of resampled rows vary by sqrt(dof / rows) of the
 * variation of the data, and their quantiles ignore degrees of freedom; so the normal quantile z is replaced by t sqrt(rows / dof), or
 * by t for resampled residuals (Hesterberg 2015, the expanded percentile).  `level` itself for dof <= 0 or an invalid level. */
double gd_lsq_bca_level(const gd_lsq_result *fit, bool of_residuals, double level);

#ifdef __cplusplus
}
#endif
#endif
