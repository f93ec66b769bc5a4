/* gradus/link/estimate.h: links that replace the gradient by an estimate: finite differences, random directions.
 *
 *     static gd_status zeros(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
 *     {
 *         (void)link, (void)loss;
 *         for (int i = 0; i < gd_var_count(var); i++)
 *             if (!(grads[i] = gd_zeros_like(gd_var_params(var)[i]))) return gd_error(gd_var_ctx(var));
 *         return GD_OK;
 *     }
 *     static gd_status no_gradient_step(gd_link *link, gd_var *var) { return gd_estimate_step(link, var, zeros); }
 *
 * It is the .step of a class with needs_closure and a field GD_ESTIMATE_TARGET (gradus/link.h). */
#ifndef GRADUS_ESTIMATE_H
#define GRADUS_ESTIMATE_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sets grads[0 .. count) to new tensors like the parameters, and *loss if it is known.  It runs in a scope of its own, so it
 * releases nothing.  It evaluates with gd_var_inner_evaluate, gd_var_inner_value and gd_var_inner_evaluate_at, and leaves the
 * parameters as they were. */
typedef gd_status (*gd_estimate_fn)(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads);
/* The step function: the closure of all later links gives the estimate as gradient; with target "grad" or "update" only this
 * step uses it. */
GD_NODISCARD gd_status gd_estimate_step(gd_link *link, gd_var *var, gd_estimate_fn fn);
#define GD_ESTIMATE_TARGET GD_CHOICE("target", "closure", "closure|grad|update", "what the estimate replaces")

/* A derivative as a weighted sum of values: f'(x) = sum_k weight[k] f(x + at[k] h) / h.  Names: forward, backward and central with
 * the number of points, by default two. */
#define GD_DIFFERENCE_POINTS 5
#define GD_DIFFERENCE_NAMES \
    "forward|forward2|backward|backward2|central|central2|central3|forward3|backward3|central4|forward4|forward5|bspsa4"
typedef struct gd_difference {
    const char *name;
    int points;
    double at[GD_DIFFERENCE_POINTS],
        weight[GD_DIFFERENCE_POINTS]; /* at[0] is 0 if the value at x itself is used */
    int order;                        /* the error is of this order in h */
    const struct gd_difference
        *one_sided; /* of the same order with points on one side of x; itself if they are */
} gd_difference;
/* The formula of that name, "central" for an unknown one; static. */
const gd_difference *gd_difference_named(const char *name);
/* The formula of a link's setting "formula".  Borrowed. */
const gd_difference *gd_link_difference(const gd_link *link);

/* What to take differences of, and how. */
typedef struct gd_difference_of {
    const gd_difference *formula;
    /* The distance of the points; 0: eps^(1 / (order + 1)) max(|x|, typical) by the dtype of each parameter, a power of 2 */
    double h, typical;
    double loss; /* at the parameters as they are */
    gd_status (*value)(gd_var *var,
                       double *loss); /* at the parameters as they are moved: gd_var_inner_value */
} gd_difference_of;
/* Writes the gradient by differences into grads[0 .. count), one per parameter: one element after the other is moved, inside its
 * bounds with one-sided formulas or a smaller distance, and put back bit for bit, also on failure.  Errors of `value`. */
GD_NODISCARD gd_status gd_difference_gradient(gd_var *var, const gd_difference_of *of,
                                              gd_tensor *const *grads);

/* ---- random directions ---- */

/* g = mean over samples of z (D_z f), D_z f the difference along z.  z has mean 0 and unit covariance.  It is never stored: each
 * element is a function of a counter and recomputed when it is needed.  The link has settings h, n_samples, formula,
 * distribution ("rademacher|gaussian|normal|uniform|sphere") and perhaps pre_generate and seed; its class has
 * .data_size = sizeof(gd_directions). */
typedef struct gd_directions {
    uint64_t first; /* the counter at which the directions of the step start */
} gd_directions;
/* Draws the directions for all evaluations of this step. */
GD_NODISCARD gd_status gd_directions_draw(gd_link *link, gd_var *var);
/* Estimates for gd_estimate_step; in_place moves the parameters there and back without a copy, which restores them up to
 * rounding errors. */
GD_NODISCARD gd_status gd_directions_estimate(gd_link *link, gd_var *var, gd_tensor **loss,
                                              gd_tensor **grads);
GD_NODISCARD gd_status gd_directions_estimate_in_place(gd_link *link, gd_var *var, gd_tensor **loss,
                                                       gd_tensor **grads);
/* A step without memory of the parameters' size: all derivatives, then x -= lr D z per direction, with lr of the last link
 * (gd_var_last_lrs).  For the last link of a chain. */
GD_NODISCARD gd_status gd_directions_step(gd_link *link, gd_var *var);

#ifdef __cplusplus
}
#endif
#endif
