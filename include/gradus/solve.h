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
 * Parameters are changed in place and end at the best point.  A method that stops without having converged is no error:
 * the reason says what happened.
 *
 * Where several ranks solve together (gd_batch.world, gd_rows.world, gd_optimizer_distribute) clocks and callbacks are each rank's own,
 * and only one need have them: where one stops, all do after the same step, for the reason of the lowest rank that has one. */
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
bool gd_stop_converged(gd_stop reason);   /* does this reason mean that a minimum was reached? */

/* ---- stopping rules, for both ---- */

/* What a callback sees after each step. */
typedef struct gd_progress {
    int64_t step, evals;
    double loss;            /* where the step began (gd_minimize) or ended (gd_least_squares) */
    double loss_after;      /* where it ended; NAN where that is not known */
    double gradient_norm;   /* largest element, where it ended if that is known; NAN where it is not known */
    double gradient_length; /* the same gradient's 2-norm; gd_least_squares: NAN */
    double violation;       /* of constraints, where the step began; NAN without */
    double step_norm;       /* of the change of all parameters */
    double seconds;
    bool
        failed; /* a search found nothing or a link skipped the update: that the step is short means nothing */
} gd_progress;

/* Start from gd_solve_defaults().  A tolerance of 0 turns its rule off. */
typedef struct gd_solve_options {
    int64_t max_steps, max_evals; /* 1000, none; 0: no limit (with plain: no step) */
    double max_seconds;           /* none (0) */
    double gradient_tol;          /* largest element of the gradient; 1e-8 (gd_least_squares: 0) */
    double step_tol;              /* norm of a step by norm of the parameters; 0 (gd_least_squares: 1e-14) */
    double loss_tol;              /* change of the loss by its size; 0 (gd_least_squares: 1e-15) */
    int patience;                 /* gd_minimize: steps in a row that must be below step_tol or loss_tol; 3 */
    bool noisy; /* gd_minimize: the objective may differ at the same point, ask again each time; false */
    bool
        look; /* gd_minimize: loss and gradient after every step, also where that costs an evaluation; false */
    bool plain; /* gd_minimize: the steps of the chain as they are, see there; false */
    bool (*callback)(void *user, const gd_progress *progress); /* false stops; NULL: none */
    void *callback_user;
    /* gd_minimize: products with the Hessian, at most, that tell a minimum from a saddle where the gradient vanishes; 30; 0: do not
     * look.  See there. */
    int64_t curvature_products;
    /* gd_minimize: where multipliers go at the end, borrowed; NULL: nowhere.  Of the constraints, those of `equal` before those of `below`, multiplier_count
     * of them at most; of bounds [all elements], > 0 at low and < 0 at high ones, 0 where none is active.  The gradient of the loss is
     * - multipliers times those of the constraints + bound_multipliers.  NAN where the chain knows none. */
    double *multipliers, *bound_multipliers;
    int64_t multiplier_count;
} gd_solve_options;

gd_solve_options gd_solve_defaults(void); /* as the comments above say */

/* The chain that serves where nothing is known of a problem: that of gd_minimize without one, and of gradus minimize. */
#define GD_DEFAULT_CHAIN "lbfgs | strong_wolfe"

/* The chain for an objective where none is named: GD_DEFAULT_CHAIN; with constraints nlp, for up to 2000 elements and constraints together
 * and an objective with second derivatives that is not noisy, else augmented_lagrangian around GD_DEFAULT_CHAIN.  Calls the constraints once,
 * to count them.  New; NULL where that fails or an argument is NULL. */
gd_link *gd_chain_for(gd_tensor *const *params, int count, const gd_objective *objective, bool noisy);

/* Where a solver stopped, and what it took. */
typedef struct gd_solve_result {
    gd_stop reason;
    bool converged;
    double loss; /* at the end */
    /* largest element of the gradient at the end, with bounds of x - P(x - gradient), P being the way into them, with constraints
     * of the Lagrangian's; NAN where nothing asked for one */
    double gradient_norm;
    double violation; /* largest violation of constraints at the end; 0 where there are none */
    int64_t steps, evals;
    int64_t constraint_evals; /* points at which `equal` and `below` were called, once each */
    double seconds;
} gd_solve_result;

/* Steps of a chain until a rule stops them.  The parameters end at the best point that was evaluated with its loss, also
 * when an evaluation fails: then its status is returned.
 *
 * A point is evaluated once (unless noisy): what a search evaluated last serves the next step.  (A point of
 * which a search wanted the value, and the next step a graph for its Hessian, counts twice.)  Settings that links leave
 * open are taken to be set: searches make sure that their update points downhill (descent), first steps of quasi-Newton
 * links are short (scale_first).  After a search that failed, quasi-Newton and conjugate links start again; steps that fail
 * or are skipped never count as small ones, and some in a row are STUCK, unless the gradient is as small as rounding lets
 * it be: then the loss no longer changes (LOSS).  The same is said where the gradient times the size of the parameters is below the rounding
 * of the loss, and after ten steps in which neither loss nor gradient fell by more than rounding (not if gradient_tol is 0).  With constraints the best point is the one of the lowest loss among those that violate
 * them by no more than the tolerance of augmented_lagrangian, else the one of the least violation.  None of this with plain: then the parameters end where the last step left them.
 * A chain that searches among many minima (cma_es, multi_start and the like) says itself when it has ended, LINK; gradients and
 * steps that are small or fail do not end it.
 *
 * A run that would say that it has converged with a gradient below gradient_tol looks at the curvature there: where the loss falls along some
 * direction it says SADDLE.  That takes as many products with the Hessian as there are numbers, of more than 16 one for 16 evaluations of the run (fewer than two: none), and one evaluation
 * for the graph, which counts.  A saddle may be overlooked by few products, none is made up.  Nobody looks with noisy or plain, inside bounds, with
 * constraints, or where the objective has neither loss, hvp nor batch, or no second derivatives.  ARGUMENT: no parameter wants gradients, an option is below 0 or not a number; GRAPH: the loss
 * depends on none of them.  chain NULL: that of gd_chain_for; options NULL: the defaults; result may be NULL. */
GD_NODISCARD gd_status gd_minimize(gd_tensor *const *params, int count, const gd_objective *objective,
                                   const char *chain, const gd_solve_options *options,
                                   gd_solve_result *result);
/* The same with a chain already built; it is consumed, also on failure. */
GD_NODISCARD gd_status gd_minimize_link(gd_tensor *const *params, int count, const gd_objective *objective,
                                        gd_link *chain, const gd_solve_options *options,
                                        gd_solve_result *result);

/* The same with an optimizer that has its parameters, groups and schedules; it is borrowed, and keeps its state.  Limits
 * count from here on. */
GD_NODISCARD gd_status gd_minimize_with(gd_optimizer *optimizer, const gd_objective *objective,
                                        const gd_solve_options *options, gd_solve_result *result);

/* ---- nonlinear least squares ---- */

/* What a residual of z scales costs, rho(z): id, name, and the constant at which 5 % of efficiency is lost where errors are normal.
 * Of small residuals all are squares; from the constant on huber and soft_l1 grow like |z|, cauchy like log |z|, tukey not at
 * all. */
#define GD_LSQ_LOSS_LIST(X)      \
    X(SQUARES, "squares", 1)     \
    X(HUBER, "huber", 1.345)     \
    X(SOFT_L1, "soft_l1", 1.287) \
    X(CAUCHY, "cauchy", 2.385)   \
    X(TUKEY, "tukey", 4.685)

/* What residuals cost: squares, or something that grows more slowly. */
typedef enum gd_lsq_loss {
#define GD_LSQ_LOSS_ENUM(id, name, constant) GD_LSQ_##id,
    GD_LSQ_LOSS_LIST(GD_LSQ_LOSS_ENUM)
#undef GD_LSQ_LOSS_ENUM
        GD_LSQ_LOSS_COUNT
} gd_lsq_loss;

const char *gd_lsq_loss_name(gd_lsq_loss loss); /* "huber"; static */
/* How much a residual of z scales counts beside a square: rho'(z) / z, 1 at 0.  NAN for a loss that is none. */
double gd_lsq_loss_weight(gd_lsq_loss loss, double z);

/* What covariances assume of the residuals: that all have the same variance, or nothing. */
typedef enum gd_lsq_errors {
    GD_LSQ_USUAL, /* sigma^2 (J^T J)^-1 */
    /* (J^T J)^-1 J^T diag((r_i / (1 - h_i))^2) J (J^T J)^-1, h_i the leverage of a residual (MacKinnon & White 1985): squares only */
    GD_LSQ_HC3,
    GD_LSQ_ERRORS_COUNT
} gd_lsq_errors;

/* How to fit.  Start from gd_lsq_defaults(). */
typedef struct gd_lsq_options {
    gd_solve_options solve;
    double first_radius; /* of the trust region, by the size of the scaled start; 1 */
    bool acceleration;   /* second-order correction along the step (Transtrum & Sethna 2012); true */
    bool polish;         /* Newton steps at the end, for the last digits; true */
    bool covariance;     /* fill covariance and standard_errors; true */
    bool leave_saddles;  /* search on where a stop, or a start with equal columns, is a saddle; true */
    /* Bounds, one number an element of all parameters in their order, -INFINITY and INFINITY for none; borrowed; NULL: none.
     * Rounded to the parameter's dtype.  Equal ones fix the element.  A start outside is put on its bound. */
    const double *low, *high;
    const char *const
        *names;         /* of the parameters, for the sentence about them; borrowed; NULL: p0, p1, ... */
    int64_t weightless; /* residuals of weight 0 among them: they do not count in dof; 0 */
    double sigma; /* of a residual, where it is known: covariance and profiles go by it; 0: that of the fit */
    gd_lsq_loss loss; /* SQUARES */
    /* s of rho(r / s); 0: 1.4826 median|r| m / (m - n) of a Huber fit, m residuals and n free parameters.  It is looked for in two runs, from
     * the start and from the fit of squares if that converges; of two minima the one with the lower loss at the smaller scale is kept, with a
     * warning if their losses differ by more than 1 % */
    double loss_scale;
    gd_lsq_errors errors; /* USUAL */
    /* Elements whose covariance is wanted, in the order in which it has them; borrowed; NULL: all, of a sparse problem with more than 2000
     * parameters none, only standard errors */
    const int64_t *chosen;
    int64_t chosen_count;
    /* Residuals by ranges of rows, in place of the function (which may be NULL then): memory for a range, not for all; borrowed;
     * NULL: none */
    const gd_rows *rows;
} gd_lsq_options;

gd_lsq_options gd_lsq_defaults(void); /* as the comments above say */

#define GD_LSQ_TEXT 256 /* bytes of gd_lsq_result.says */

/* A fit: where it ended and how well that is determined.  End it with gd_lsq_result_clear. */
typedef struct gd_lsq_result {
    /* its loss is the sum of squares, with another loss 2 s^2 sum rho(r / s); a residual and its Jacobian are one evaluation; its gradient_norm is the largest element
     * of x - P(x - gradient), P being the way into the bounds */
    gd_solve_result solve;
    double rss;             /* sum of squared residuals */
    int64_t residuals, dof; /* number of residuals; those of some weight less the free parameters */
    int64_t free;           /* parameters that are not at an active bound */
    int64_t rank;           /* of the Jacobian of the free parameters at the end */
    double sigma;           /* sqrt(rss / dof), NAN for dof <= 0; with another loss than squares its scale */
    double scale;           /* of the loss; NAN for squares */
    /* sigma^2 (J^T J)^-1 (another loss: that of an M-estimator, s^2 A^-1 B A^-1 m / dof with A the Hessian of the loss and B the sum of
     * psi^2 J J^T), sigma that of the options if given, over the free parameters, 0 for those at an active bound, [n, n] f64 over all parameters in their
     * order; new or NULL */
    gd_tensor *covariance;
    /* roots of its diagonal, [n]; INFINITY for what the residuals do not determine, NAN at an active bound; new or NULL */
    gd_tensor *standard_errors;
    /* [n] i32: -1 and 1 at a low or high bound that is active, which means that the loss rises into the bounds; new or NULL */
    gd_tensor *active;
    gd_tensor *undetermined; /* [n] i32: 1 where the stop is UNDETERMINED because of it; new or NULL */
    char says[GD_LSQ_TEXT];  /* then: "a and c cannot be told apart"; else "" */
} gd_lsq_result;

/* Releases the tensors of a result. */
void gd_lsq_result_clear(gd_lsq_result *result);

/* Minimises the sum of squares of residuals(user), a tensor made with operators from the parameters (floating leaves that
 * want gradients): Levenberg-Marquardt in a trust region scaled by the columns of the exact Jacobian (More 1978), by QR and
 * SVD, never through normal equations.  Bounds are kept by an active set.  Fewer residuals than parameters, dependent columns,
 * and trial points that are not finite are all fine.  Where it stops the full Hessian is looked at: saddles are left, and
 * parameters that are not determined end it as UNDETERMINED.  With another loss than squares outliers pull less: their scale comes
 * from Huber fits unless it is given, and tukey starts where huber ends.  These are fits of their own: max_steps, max_evals, max_seconds
 * and the numbers of the callback count over all of them; what is said of a point where a limit stopped them may take two evaluations more.  VALUE: half of the residuals are 0, or there are too few of them
 * for a scale.  ARGUMENT: a parameter does not want gradients, an option is below 0 or not a number.  Long tables: see options->rows.  A function that fails leaves the parameters at the best point so far and returns
 * its status. */
GD_NODISCARD gd_status gd_least_squares(gd_tensor *const *params, int count,
                                        gd_tensor *(*residuals)(void *user), void *user,
                                        const gd_lsq_options *options, gd_lsq_result *result);

#define GD_DISTANCE_COLUMNS 8 /* columns with errors of their own that a model may have */

/* Measured points, and a curve or surface that should go through them. */
typedef struct gd_distance {
    /* At columns like x: one number a row, [rows] f64, made with operators from them and from parameters; a row of it depends on the
     * same row of the columns alone. */
    gd_tensor *(*equation)(void *user, gd_tensor *const *x);
    void *user;
    gd_tensor *const *x; /* columns as they were measured, f64 [rows] each; borrowed */
    gd_tensor *const
        *sigma; /* their standard deviations: [rows], or one number for all; 0: exact; borrowed */
    int count;  /* of columns, GD_DISTANCE_COLUMNS at most */
    bool
        implicit; /* true: the curve is where the equation is 0; false: the equation, too, has an error, of standard deviation 1 */
} gd_distance;

/* Orthogonal distance regression: the distance of each point from the curve, with a sign, in standard deviations of the point, [rows]
 * with history in the parameters.  As residuals of gd_least_squares they make a fit with errors in x, y = f(x; p) being the equation
 * (f - y) / sigma_y, or with `implicit` a fit of F(x, y; p) = 0.  Derivatives to second order are exact, so covariances are those of the fit of
 * parameters and points together.  NaN in rows where the equation is not finite.  New.  ARGUMENT, SHAPE, CALLBACK. */
gd_tensor *gd_distances(const gd_distance *d);

/* The covariance of parameters (floating leaves that want gradients) from residuals with history, wherever they come from: sigma^2
 * (J^T J)^-1, [n, n] f64 over all elements of the parameters in their order, by QR and SVD of the exact Jacobian J.  sigma: standard
 * deviation of a residual; NAN: sqrt(rss / (m - elements not fixed)), NAN itself for too few residuals m.  fixed: [n], elements that
 * are known, with rows and columns of zeros; borrowed; NULL: none.  INFINITY on the diagonal for what the residuals do not
 * determine.  The graph stays.  New.  DTYPE, ARGUMENT, VALUE: residuals or derivatives that are not finite. */
gd_tensor *gd_covariance(gd_tensor *residuals, gd_tensor *const *params, int count, const bool *fixed,
                         double sigma);

/* The profile interval of one element after a fit with the same arguments: the others are fitted again under their bounds
 * with it held, and the interval ends where the sum of squares has risen by (t sigma)^2, sigma that of the options if given.  t: of Student's distribution with
 * fit->dof degrees of freedom.  An end at a bound is the bound, one that nothing limits is infinite; an element at an active
 * bound has its interval on the inner side.  The parameters stay as they were, unless a lower sum of squares was found on the
 * way: then *better is true (better may be NULL), they are there, and the fit should be done again.  max_evals and max_seconds are limits
 * of the whole call, max_steps of each fit with the element held; an end that they do not reach is NAN, with a warning.  INDEX, and what the
 * residuals fail with; INTERRUPTED where the callback stops it; ARGUMENT for another loss than squares. */
GD_NODISCARD gd_status gd_lsq_profile(gd_tensor *const *params, int count,
                                      gd_tensor *(*residuals)(void *user), void *user,
                                      const gd_lsq_options *options, const gd_lsq_result *fit,
                                      int64_t element, double t, double *interval, bool *better);

/* ---- intervals by resampling ---- */

/* Fits of data made from the data after a fit with the same arguments: numbers first, ..., first + number - 1 of a series that seed
 * determines, so several contexts may share the work.  Each draws as many residuals as there are with replacement: rows, or with
 * of_residuals what is left of them (divided by the root of 1 - leverage) around the fitted values.  out: [number, n] over all elements
 * of the parameters, NAN for a fit that did not converge.  A loss other than squares keeps the scale of the fit.  max_evals and max_seconds are
 * limits of the whole call, max_steps of each fit; what they leave out is NAN too, with a warning.  The parameters
 * stay as they were.  ARGUMENT, VALUE: nothing is determined; what the residuals fail with; INTERRUPTED where the callback stops
 * it. */
GD_NODISCARD gd_status gd_lsq_resample(gd_tensor *const *params, int count,
                                       gd_tensor *(*residuals)(void *user), void *user,
                                       const gd_lsq_options *options, const gd_lsq_result *fit,
                                       bool of_residuals, uint64_t seed, int64_t first, int64_t number,
                                       double *out);
/* Intervals of that level, [n, 2], from such samples [number, n], corrected for bias and acceleration (BCa, Efron 1987).  Of few rows
 * they are too narrow: gd_lsq_bca_level.  VALUE: more than a tenth of the fits did not converge. */
GD_NODISCARD gd_status gd_lsq_bca(gd_tensor *const *params, int count, gd_tensor *(*residuals)(void *user),
                                  void *user, const gd_lsq_options *options, const gd_lsq_result *fit,
                                  const double *samples, int64_t number, double level, double *intervals);
/* The level to ask gd_lsq_bca for where intervals are to hold the truth as often as `level` says: fits of resampled rows spread by
 * sqrt(dof / rows) of what the data do, and their quantiles know nothing of degrees of freedom, so the normal quantile z is replaced by
 * t sqrt(rows / dof), for resampled residuals, which have the spread of the errors, by t (Hesterberg 2015, the expanded percentile).
 * `level` itself for dof <= 0, and what is no level as it is. */
double gd_lsq_bca_level(const gd_lsq_result *fit, bool of_residuals, double level);

#ifdef __cplusplus
}
#endif
#endif
