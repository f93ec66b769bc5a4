/* Internals of a plot: its layout (plot.c) and the drawing of series (series.c). */
#ifndef GD_PLOT_PLOT_INSIDE_H
#define GD_PLOT_PLOT_INSIDE_H

#include "plot/plot_internal.h"

#define GD_PLOT_MARK  3.2
#define GD_PLOT_CROWD 20000 /* number of points from which on a density is drawn */

typedef enum gd_series_kind {
    GD_SERIES_LINE,
    GD_SERIES_POINTS,
    GD_SERIES_PATH,
    GD_SERIES_BAND,
    GD_SERIES_CONTOURS
} gd_series_kind;

typedef struct gd_series {
    gd_series_kind kind;
    char *label;
    int ink;
    bool second;     /* the ink is used a second time: rings, dashed lines */
    double *x, *y;   /* z of contours is in y */
    double *x2, *y2; /* of points: half of their bars; y2 of a band: its upper edge */
    size_t count, count2;
    double box[4]; /* of contours: x0 x1 y0 y1 */
    int columns, rows;
} gd_series;

typedef struct gd_plot_axis {
    bool log, given;
    bool zero;          /* logarithmic, with zeros at its foot */
    double low, high;   /* in data units */
    double from, to;    /* in pixels */
    gd_date_scale date; /* unit 0: plain numbers */
    gd_ticks ticks;
} gd_plot_axis;

struct gd_plot {
    gd_ctx *ctx;
    char *title, *label[2];
    gd_series *item;
    size_t items, item_bytes;
    int inks;
    bool second; /* the next series, see gd_plot_ink */
    bool dashed; /* the line being drawn */
    gd_plot_axis axis[2];
    double top, bottom; /* of its panel */
    gd_plot *below;     /* owned */
    bool failed;
    gd_picture *picture; /* while rendering */
    double *scratch;     /* points of the line being drawn */
    size_t points, scratch_bytes;
};

/* On a logarithmic axis: the logarithm to base 10. */
double gd__axis_forward(const gd_plot_axis *axis, double v);
/* The position of a number, in pixels. */
double gd__axis_place(const gd_plot_axis *axis, double v);
/* Draws a series into p->picture, cut to the frame. */
void gd__series_draw(gd_plot *p, const gd_series *s);

#endif
