/* gradus/link/line.h: the loss along the update, for line searches: phi(a) = f(x - a u), with x the parameters and u the
 * update.
 *
 *     static gd_status half_or_nothing(gd_link *link, gd_var *var)
 *     {
 *         double f = 0;
 *         gd_line *line = gd_line_begin(link, var);
 *         if (!line) return gd_error(gd_var_ctx(var));
 *         gd_status status = gd_line_value(line, 0.5, &f);
 *         return gd_line_end(line, f < line->value ? 0.5 : 0, status);
 *     }
 *
 * It is the .step of a class with needs_closure and restores_params (gradus/link.h).  A value that is not finite counts as
 * infinite.  Ending with step 0 means that the search failed: the update is zero.  If an evaluation fails, the parameters are
 * restored bit for bit, and the update stays as it was. */
#ifndef GRADUS_LINE_H
#define GRADUS_LINE_H

#include "gradus/link.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A point on the line. */
typedef struct gd_trial {
    double a, f, slope; /* slope NAN: not known */
} gd_trial;

/* The values known so far; read only. */
typedef struct gd_line {
    gd_link *link;
    gd_var *var;
    double value, slope; /* at 0 */
    double noise;        /* differences below it are rounding errors */
    double most;         /* the longest step inside the bounds, at least 1; INFINITY without bounds */
    gd_trial best;       /* the lowest value so far; initially a = 0 */
    int evals;
} gd_line;

/* A setting `descent`: whether gd_line_descend is to be called. */
#define GD_LINE_DESCENT \
    GD_OPEN_FLAG("descent", "replace an update that points uphill; none: only under gd_minimize")

/* phi(0) and its slope, without evaluating known values.  With bounds (gd_var_set_bounds) the update is replaced by one that
 * stays inside and points downhill: x - P(x - u), a part of u, or the same for the gradient.  NULL on failure; end with gd_line_end. */
gd_line *gd_line_begin(gd_link *link, gd_var *var);
/* Makes sure that the update points downhill, g u > 1e-8 |g| |u|.  If it does not, an earlier link with a matrix of
 * curvature solves with the absolute values of its eigenvalues, at least 1e-8 of the largest; without such a link, or if the
 * result does not point downhill either, the update becomes the gradient.  Nothing changes if the gradient is 0 or not
 * finite. */
GD_NODISCARD gd_status gd_line_descend(gd_line *line);
/* Moves the parameters to x - a u and evaluates. */
GD_NODISCARD gd_status gd_line_value(gd_line *line, double a, double *value);
/* Value and slope; the slope is NAN if the value is not finite. */
GD_NODISCARD gd_status gd_line_try(gd_line *line, double a, gd_trial *trial);
/* Restores the parameters; without an error in status the update becomes a u.  The line is consumed.  Returns status or a new
 * error; ARGUMENT for NULL. */
GD_NODISCARD gd_status gd_line_end(gd_line *line, double a, gd_status status);

#ifdef __cplusplus
}
#endif
#endif
