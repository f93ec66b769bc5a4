/* The loss along the update, for line searches: phi(a) = f(x - a u), with x where the parameters are and u the update.
 *
 *     gd_line line;
 *     gd_status status = gd__line_begin(&line, link, var);        phi(0) and its slope, without evaluating what is known
 *     if (!status) status = gd__line_descend(&line);              the update points downhill from here on
 *     if (!status) status = gd__line_value(&line, 1, &f);         moves the parameters and evaluates
 *     return gd__line_end(&line, accepted ? 1 : 0, status);       moves them back, bit for bit; the update becomes a u
 *
 * A value that is not finite counts as infinite.  Ending with step 0 says that the search failed: the update is zero.
 * When an evaluation fails, the parameters are moved back and the update stays as it was. */
#ifndef GD_OPTIM_METHODS_LINE_H
#define GD_OPTIM_METHODS_LINE_H

#include "optim/vector/layout.h"
#include "optim/vector/origin.h"

/* A point of the line. */
typedef struct gd_trial {
    double a, f, slope; /* slope NAN: not known */
} gd_trial;

typedef struct gd_line {
    gd_link *link;
    gd_var *var;
    gd_layout layout;
    gd_tensor *const *params, *const *update;
    gd_origin start;     /* kept before the first evaluation */
    gd_tensor **grads;   /* room for gradients */
    double value, slope; /* at 0 */
    double noise;        /* values that differ by less are the same */
    gd_trial best;       /* the lowest value seen; a = 0 to begin with */
    int evals;
} gd_line;

#define GD_LINE_DESCENT \
    GD_OPEN_FLAG("descent", "replace an update that points uphill; none: only where gd_minimize runs it")

GD_NODISCARD gd_status gd__line_begin(gd_line *line, gd_link *link, gd_var *var);
/* Makes sure that the update points downhill, g u > 1e-8 |g| |u|.  Where it does not, the link before that has a matrix of
 * curvature is asked for a solution with the sizes of its eigenvalues, at least 1e-8 of the largest; without one, or where
 * that does not point downhill either, the update becomes the gradient.  Nothing changes where the gradient is 0 or not
 * finite. */
GD_NODISCARD gd_status gd__line_descend(gd_line *line);
GD_NODISCARD gd_status gd__line_value(gd_line *line, double a, double *value);
/* Value and slope; the slope is NAN where the value is not finite. */
GD_NODISCARD gd_status gd__line_try(gd_line *line, double a, gd_trial *trial);
GD_NODISCARD gd_status gd__line_end(gd_line *line, double a, gd_status status);

/* Numbers of a link that are kept between steps. */
double gd__kept(gd_link *link, const char *name, double first);
GD_NODISCARD gd_status gd__keep_number(gd_link *link, const char *name, double value);

#endif
