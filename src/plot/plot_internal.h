/* Internals of plots: the picture, ticks and contours. gradus/plot.h has the rest. */
#ifndef GD_PLOT_PLOT_INTERNAL_H
#define GD_PLOT_PLOT_INTERNAL_H

#include "gradus/plot.h"
#include "plot/picture.h"

/* The picture.  New. */
gd_picture *gd__plot_render(gd_plot *plot);
/* ---- ticks (ticks.c) ---- */

#define GD_MAX_TICKS 16

typedef struct gd_ticks {
    int count;
    double at[GD_MAX_TICKS];
    char label[GD_MAX_TICKS][32];
} gd_ticks;

/* Round values inside [low, high], about `wanted` of them, with distinguishable labels. */
void gd__ticks(gd_ticks *out, double low, double high, bool log, int wanted);

typedef struct gd_date_scale {
    double unit, origin; /* as for gd_plot_dates */
    bool day;
} gd_date_scale;

/* The same at round times, days, months or years (dates.c); false: the range is too short, too long or too far away. */
bool gd__date_ticks(gd_ticks *out, double low, double high, int wanted, const gd_date_scale *scale);

/* Is a logarithmic axis better for these numbers? Yes if none is negative and the positive ones span more than two
 * powers of ten.  Begin with *low = INFINITY and *high = 0 and call it for each list; the last answer is for all. */
bool gd__spans_decades(const double *values, size_t count, double *low, double *high);

/* ---- contours (contour.c) ---- */

/* Calls `line` for each piece of the curve z == level, in grid units (column, row). */
GD_NODISCARD gd_status gd__contour(gd_ctx *ctx, const double *z, int columns, int rows, double level,
                                   void (*line)(void *user, const double *xy, size_t points), void *user);

#endif
