/* gradus/plot.h: pictures of numbers: axes with round ticks, lines, points, bands, contours, a legend; SVG, PNG, PDF.
 *
 *     double steps[] = {1, 2, 3}, losses[] = {9, 0.5, 0.02};
 *     gd_plot *plot = gd_plot_new(ctx, "Rosenbrock", "step", "loss");
 *     gd_plot_log(plot, false, true);
 *     gd_plot_line(plot, "adam", steps, losses, 3);
 *     if (gd_plot_save(plot, "run.svg", false)) puts(gd_error_text(ctx));     .svg, .png or .pdf
 *     gd_plot_free(plot);
 *
 * Data is copied.  Points that are not finite, or negative on a logarithmic axis, break a line.  Zeros are drawn at the bottom of a
 * logarithmic axis, which is then marked 0.  A failed addition is recorded in the context and reported by gd_plot_save. */
#ifndef GRADUS_PLOT_H
#define GRADUS_PLOT_H

#include "gradus/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A picture with two axes.  It belongs to its context. */
typedef struct gd_plot gd_plot;

/* An empty plot; texts NULL: none.  New: gd_plot_free.  NULL if there is no memory. */
gd_plot *gd_plot_new(gd_ctx *ctx, const char *title, const char *x_label, const char *y_label);
void gd_plot_free(gd_plot *plot); /* NULL is fine */

/* Makes axes logarithmic. */
void gd_plot_log(gd_plot *plot, bool x, bool y);
/* Sets the limits of the axes; without this call the data decides. */
void gd_plot_limits(gd_plot *plot, double x0, double x1, double y0, double y1);
/* Makes the numbers of an axis (0: x, 1: y) dates: multiples of `unit` seconds since the origin, in seconds since 1970 or, for times
 * of day (day false), since midnight.  A logarithmic axis keeps numbers. */
void gd_plot_dates(gd_plot *plot, int axis, double origin, double unit, bool day);
/* Gives the next series the colour of this number, 0 to 7; higher numbers repeat the colours, with rings for points and
 * dashed lines; without this call each series has its own. */
void gd_plot_ink(gd_plot *plot, int ink);

/* A line through points.  Here and below label NULL leaves the series out of the legend. */
void gd_plot_line(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* Points.  More than 20000 are drawn as a density: the darker a cell, the more points it has. */
void gd_plot_points(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* Points with bars from x - across to x + across and from y - up to y + up; NULL: none. */
void gd_plot_errors(gd_plot *plot, const char *label, const double *x, const double *y, const double *across,
                    const double *up, size_t count);
/* A line with a ring at its start, a dot at each step and a star at its end. */
void gd_plot_path(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* The area between two curves. */
void gd_plot_band(gd_plot *plot, const char *label, const double *x, const double *low, const double *high,
                  size_t count);
/* Contour lines of z[row * columns + column] over a regular grid, at levels spread over the area. */
void gd_plot_contours(gd_plot *plot, double x0, double x1, int columns, double y0, double y1, int rows,
                      const double *z);

/* Draws a second plot over the same x below this one.  panel: consumed. */
void gd_plot_below(gd_plot *plot, gd_plot *panel);

/* Writes .svg, .png or .pdf by the ending of the path, with a dark background if asked.  A light SVG follows the
 * viewer's colour scheme.  ARGUMENT: a different ending.  IO: the path cannot be written; an existing file stays. */
GD_NODISCARD gd_status gd_plot_save(gd_plot *plot, const char *path, bool dark);
/* The picture as SVG.  Returns the length of the text; if that is not less than size, only its beginning was written.  -1 with the error
 * recorded. */
int64_t gd_plot_svg(gd_plot *plot, bool dark, char *out, size_t size);
/* Checks the ending of a path; ARGUMENT if it is a different one. */
GD_NODISCARD gd_status gd_plot_check_path(gd_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif
