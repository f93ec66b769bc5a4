/* Finite differences: a derivative as a weighted sum of values.
 *
 *     f'(x) = sum_k weight[k] f(x + at[k] h) / h
 *
 * Names: forward, backward and central with the number of points; forward and backward alone have two, central two. */
#ifndef GD_OPTIM_METHODS_DIFFERENCE_H
#define GD_OPTIM_METHODS_DIFFERENCE_H

#include "gradus/link.h"

#define GD_DIFFERENCE_POINTS 5
#define GD_DIFFERENCE_NAMES \
    "forward|forward2|backward|backward2|central|central2|central3|forward3|backward3|central4|forward4|forward5|bspsa4"

typedef struct gd_difference {
    const char *name;
    int points;
    double at[GD_DIFFERENCE_POINTS], weight[GD_DIFFERENCE_POINTS];
} gd_difference;

/* The formula of a link's setting "formula". */
const gd_difference *gd__difference(const gd_link *link);
/* True when it uses the value at x itself. */
bool gd__difference_at_zero(const gd_difference *d);
/* The loss of the closure below, at whatever the parameters are; for wrapped closures. */
GD_NODISCARD gd_status gd__value_below(gd_var *var, double *value);

/* A link that replaces the gradient.  estimate fills new gradients (owned) with the closure below, and *loss if it has
 * it, NULL otherwise.  target: the closure of all links after it, or only gradient or update of this step. */
typedef gd_status (*gd_estimate_fn)(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads);
GD_NODISCARD gd_status gd__estimate_step(gd_link *link, gd_var *var, gd_wrap_fn fn);
GD_NODISCARD gd_status gd__estimate(gd_link *link, gd_var *var, bool backward, gd_tensor **loss,
                                    gd_tensor **grads, gd_estimate_fn fn);

#define GD_ESTIMATE_TARGET GD_CHOICE("target", "closure", "closure|grad|update", "what the estimate replaces")

#endif
