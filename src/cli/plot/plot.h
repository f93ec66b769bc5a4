/* Plots: axes with round ticks, lines, points, bands, contours, a legend.
 *
 *   gd_plot *plot = gd__plot_new(ctx, "Rosenbrock", "step", "loss");
 *   gd__plot_log(plot, false, true);
 *   gd__plot_line(plot, "adam", steps, losses, n);
 *   gd__plot_save(plot, "run.svg", false);            .svg, .png or .pdf
 *   gd__plot_free(plot);
 *
 * Data is copied.  Points that are not finite, or negative on a logarithmic axis, break a line; zeros stand at the foot of a
 * logarithmic axis, which is marked 0 then.  A failed addition is
 * recorded in the context and reported by gd__plot_save. */
#ifndef GD_CLI_PLOT_PLOT_H
#define GD_CLI_PLOT_PLOT_H

#include "cli/plot/picture.h"

typedef struct gd_plot gd_plot;

gd_plot *gd__plot_new(gd_ctx *ctx, const char *title, const char *x_label, const char *y_label);
void gd__plot_free(gd_plot *plot); /* NULL is fine */

void gd__plot_log(gd_plot *plot, bool x, bool y);
/* Limits of the axes; without, the data decides. */
void gd__plot_limits(gd_plot *plot, double x0, double x1, double y0, double y1);

/* Numbers on an axis (0: x, 1: y) are dates: units of so many seconds since an origin, which counts in seconds since 1970, or for
 * times of day (day false) since midnight.  A logarithmic axis stays one of numbers. */
void gd__plot_dates(gd_plot *plot, int axis, double origin, double unit, bool day);

/* The next series has the ink of this number; without, each has one of its own. */
void gd__plot_ink(gd_plot *plot, int ink);
/* label NULL: not in the legend. */
void gd__plot_line(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* More than 20000 of them are drawn as a density: cells, the darker the more points lie there. */
void gd__plot_points(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* Points with bars from x - across to x + across and from y - up to y + up; NULL: none. */
void gd__plot_errors(gd_plot *plot, const char *label, const double *x, const double *y, const double *across,
                     const double *up, size_t count);
/* A line with a ring at its start, a dot at each step and a star at its end. */
void gd__plot_path(gd_plot *plot, const char *label, const double *x, const double *y, size_t count);
/* The area between two curves. */
void gd__plot_band(gd_plot *plot, const char *label, const double *x, const double *low, const double *high,
                   size_t count);
/* Contour lines of z[row * columns + column] over a regular grid, at levels that spread over the area. */
void gd__plot_contours(gd_plot *plot, double x0, double x1, int columns, double y0, double y1, int rows,
                       const double *z);

/* Another plot over the same x, below; it is consumed. */
void gd__plot_below(gd_plot *plot, gd_plot *panel);

/* The picture.  New. */
gd_picture *gd__plot_render(gd_plot *plot);
/* Writes .svg, .png or .pdf by the ending of the path, on dark paper or not; an SVG that is not asked to be dark follows its
 * reader.  ARGUMENT for another ending. */
GD_NODISCARD gd_status gd__plot_save(gd_plot *plot, const char *path, bool dark);
/* Is the ending one of these?  Otherwise ARGUMENT. */
GD_NODISCARD gd_status gd__plot_check_path(gd_ctx *ctx, const char *path);

/* ---- ticks (ticks.c) ---- */

#define GD_MAX_TICKS 16

typedef struct gd_ticks {
    int count;
    double at[GD_MAX_TICKS];
    char label[GD_MAX_TICKS][32];
} gd_ticks;

/* Round values inside [low, high], about `wanted` of them, with labels that tell them apart. */
void gd__ticks(gd_ticks *out, double low, double high, bool log, int wanted);

typedef struct gd_date_scale {
    double unit, origin; /* as for gd__plot_dates */
    bool day;
} gd_date_scale;

/* The same at round times, days, months or years (dates.c); false: the range is too short, too long or too far away. */
bool gd__date_ticks(gd_ticks *out, double low, double high, int wanted, const gd_date_scale *scale);

/* Is a logarithmic axis better for these numbers?  Yes where none is negative and the positive ones span more than two
 * powers of ten.  Begin with *low = INFINITY and *high = 0 and call it for each list; the last answer is for all. */
bool gd__spans_decades(const double *values, size_t count, double *low, double *high);

/* ---- contours (contour.c) ---- */

/* Calls `line` for each piece of the curve z == level, in grid units (column, row). */
GD_NODISCARD gd_status gd__contour(gd_ctx *ctx, const double *z, int columns, int rows, double level,
                                   void (*line)(void *user, const double *xy, size_t points), void *user);

#endif
