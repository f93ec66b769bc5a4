/* Bounds of the parameters of a step, and moves inside them.
 *
 * An element is *held* if it is at a bound (or so near that the step would not differ) and the loss falls beyond it; the others are
 * free. Held elements are determined once per step, from the gradient at its start, at the first request.  The
 * first update is the gradient with held elements 0, so links without support for bounds work on the free elements; links with a
 * model of the curvature use its free block; searches go along the result of gd__bounds_within; and every point a search tries, and the end of a
 * step, come from gd__bounds_move, which puts elements onto their bounds bit for bit.
 * Other points outside are evaluated on the bounds instead (inside.c): the objective never sees a point outside. */
#ifndef GD_OPTIM_STEP_BOUNDS_H
#define GD_OPTIM_STEP_BOUNDS_H

#include "optim/step/var_internal.h"

/* Is this var's step inside bounds? */
static inline bool gd__bounded(const gd_var *var) { return var->bounded; }
/* The sides of a parameter [numel]: 0 free, 1 held at its low bound, 2 at its high one.  NULL: no bounds, or not known. */
const uint8_t *gd__bounds_sides(const gd_var *var, const gd_tensor *param);
/* Is some element held? */
GD_NODISCARD gd_status gd__bounds_hold(gd_var *var, bool *any);
/* out = from, 0 where held.  New, over the same memory where none is held. */
GD_NODISCARD gd_status gd__bounds_mask(gd_var *var, gd_tensor *const *from, gd_tensor **out);
/* The same in place. */
GD_NODISCARD gd_status gd__bounds_mask_here(gd_var *var, gd_tensor *const *list);
/* gd_var_free_mask of some of the parameters. */
gd_tensor *gd__bounds_vector(gd_var *var, gd_tensor *const *params, int count);
/* Gradients for curvature pairs: whole ones, with the held elements too. */
static inline gd_tensor *const *gd__bounds_learnt(const gd_var *var, gd_tensor *const *update)
{
    return var->bounded && var->masked ? var->grad : update;
}
/* The update becomes the gradient, 0 where held. */
GD_NODISCARD gd_status gd__bounds_first_update(gd_var *var);

/* An update inside the bounds. */
typedef struct gd_within {
    double slope;   /* g u */
    double length;  /* |u| */
    double most;    /* the largest multiple that stays inside */
    int64_t joined; /* elements at a bound that the update pushes outwards: they are held now */
} gd_within;

/* out = x - P(x - u), or without project u itself; 0 where held.  New. */
GD_NODISCARD gd_status gd__bounds_within(gd_var *var, gd_tensor *const *u, bool project, gd_tensor **out,
                                         gd_within *within);
/* params = x - a u inside the bounds: held elements, and what is within rounding of its bound, on it. */
GD_NODISCARD gd_status gd__bounds_move(gd_var *var, gd_tensor *const *x, gd_tensor *const *u, double a);
/* The end of a step: the update is subtracted. */
GD_NODISCARD gd_status gd__bounds_finish(gd_var *var);
/* Values for these parameters of an optimizer are moved to their bounds; those that are inside stay.  *moved may be NULL. */
GD_NODISCARD gd_status gd__bounds_clamp(gd_optimizer *optimizer, gd_tensor *const *params,
                                        gd_tensor *const *values, int count, bool *moved);
/* Does one of the parameters lie outside? */
GD_NODISCARD gd_status gd__bounds_outside(gd_var *var, bool *outside);
/* Moves parameters to the middle of x - h v and x + h v, both inside; v becomes 0 where bounds are equal, *h the distance that the others allow. */
GD_NODISCARD gd_status gd__bounds_centre(gd_var *var, gd_tensor *const *v, double *h);
/* x - P(x - g) for each parameter: in out, new. */
GD_NODISCARD gd_status gd__bounds_residual(gd_optimizer *optimizer, gd_tensor *const *params,
                                           gd_tensor *const *grads, int count, gd_tensor **out);
/* The bounds of all elements of the parameters, one after the other; infinite if there is none. */
GD_NODISCARD gd_status gd__var_bound_numbers(const gd_var *var, double *low, double *high);

#endif
