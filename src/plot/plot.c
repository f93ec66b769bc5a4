/* Plots: layout and axes, then the data clipped to the frame; see plot.h.
 *
 *   +--------------------------------+
 *   |  title                         |
 *   |  -- legend  -- legend          |
 *   |  y  +----------------------+   |
 *   |  l  |                      |   |
 *   |  a  |        frame         |   |
 *   |  b  +----------------------+   |
 *   |  el    ticks     x label       |
 *   +--------------------------------+ */
#include "plot/plot_layout.h"

#include <math.h>
#include <string.h>

#define WIDTH       800.0
#define HEIGHT      500.0
#define PANEL       150.0 /* of a panel below a plot */
#define MARGIN      18.0
#define TITLE_SIZE  18.0
#define LABEL_SIZE  15.0
#define TICK_SIZE   13.0
#define LEGEND_SIZE 14.0
#define TICK_LENGTH 5.0
#define SWATCH      26.0
#define LARGEST     8e307

/* ---- building ---- */

gd_plot *gd_plot_new(gd_ctx *ctx, const char *title, const char *x_label, const char *y_label)
{
    if (!ctx) return NULL;
    gd_plot *p = gd__calloc(ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    p->bottom = HEIGHT;
    p->title = gd__strdup(ctx, title ? title : "");
    p->label[0] = gd__strdup(ctx, x_label ? x_label : "");
    p->label[1] = gd__strdup(ctx, y_label ? y_label : "");
    if (p->title && p->label[0] && p->label[1]) return p;
    gd_plot_free(p);
    return NULL;
}

static void free_series(gd_ctx *ctx, gd_series *s)
{
    gd__strfree(ctx, s->label);
    gd__free(ctx, s->x, s->count * sizeof *s->x);
    gd__free(ctx, s->y, s->count2 * sizeof *s->y);
    gd__free(ctx, s->x2, s->count * sizeof *s->x2);
    gd__free(ctx, s->y2, s->count * sizeof *s->y2);
}

void gd_plot_free(gd_plot *p)
{
    if (!p) return;
    gd_plot_free(p->below);
    for (size_t i = 0; i < p->items; i++) free_series(p->ctx, &p->item[i]);
    gd__free(p->ctx, p->item, p->item_bytes);
    gd__free(p->ctx, p->scratch, p->scratch_bytes);
    gd__strfree(p->ctx, p->title);
    gd__strfree(p->ctx, p->label[0]);
    gd__strfree(p->ctx, p->label[1]);
    gd__free(p->ctx, p, sizeof *p);
}

void gd_plot_log(gd_plot *p, bool x, bool y)
{
    if (!p) return;
    p->axis[0].log = x;
    p->axis[1].log = y;
}

void gd_plot_dates(gd_plot *p, int axis, double origin, double unit, bool day)
{
    if (p && (axis == 0 || axis == 1))
        p->axis[axis].date = (gd_date_scale){.unit = unit, .origin = origin, .day = day};
}

void gd_plot_ink(gd_plot *p, int ink)
{
    if (!p) return;
    p->inks = (ink % GD_SERIES_INKS + GD_SERIES_INKS) % GD_SERIES_INKS;
    p->second = ink >= GD_SERIES_INKS;
}

void gd_plot_limits(gd_plot *p, double x0, double x1, double y0, double y1)
{
    if (!p) return;
    const double ends[2][2] = {{x0, x1}, {y0, y1}};
    for (int k = 0; k < 2; k++) {
        gd_plot_axis *a = &p->axis[k];
        a->given = true;
        a->low = ends[k][0];
        a->high = ends[k][1];
    }
}

/* Recorded, and reported again by gd_plot_save. */
static void refuse(gd_plot *p, const char *what)
{
    p->failed = true;
    (void)gd_fail(p->ctx, GD_ARGUMENT, "plot: %s", what);
}

static double *copy_numbers(gd_plot *p, const double *from, size_t count)
{
    double *to = gd__alloc_array(p->ctx, count, sizeof *to);
    if (to && count) memcpy(to, from, count * sizeof *to);
    if (!to) p->failed = true;
    return to;
}

/* Consumes s. */
static void add_series(gd_plot *p, gd_series s, const char *label)
{
    if (label && !(s.label = gd__strdup(p->ctx, label))) p->failed = true;
    p->failed = p->failed || !gd__grow(p->ctx, &p->item, &p->item_bytes, (p->items + 1) * sizeof s);
    if (p->failed) {
        free_series(p->ctx, &s);
        return;
    }
    s.ink = GD_INK_SERIES + p->inks++ % GD_SERIES_INKS;
    s.second = p->second;
    p->second = false;
    p->item[p->items++] = s;
}

static void add_curve(gd_plot *p, gd_series_kind kind, const char *label, const double *x, const double *y,
                      const double *x2, const double *y2, size_t count)
{
    if (!p || p->failed) return;
    if (count && (!x || !y || (kind == GD_SERIES_BAND && !y2))) {
        refuse(p, "a series without numbers");
        return;
    }
    gd_series s = {.kind = kind, .count = count, .count2 = count};
    s.x = copy_numbers(p, x, count);
    s.y = copy_numbers(p, y, count);
    if (x2) s.x2 = copy_numbers(p, x2, count);
    if (y2) s.y2 = copy_numbers(p, y2, count);
    add_series(p, s, label);
}

void gd_plot_line(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, GD_SERIES_LINE, label, x, y, NULL, NULL, count);
}

void gd_plot_points(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, GD_SERIES_POINTS, label, x, y, NULL, NULL, count);
}

void gd_plot_errors(gd_plot *p, const char *label, const double *x, const double *y, const double *across,
                    const double *up, size_t count)
{
    add_curve(p, GD_SERIES_POINTS, label, x, y, across, up, count);
}

void gd_plot_below(gd_plot *p, gd_plot *panel)
{
    if (p && panel && !p->below)
        p->below = panel;
    else
        gd_plot_free(panel);
}

void gd_plot_path(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, GD_SERIES_PATH, label, x, y, NULL, NULL, count);
}

void gd_plot_band(gd_plot *p, const char *label, const double *x, const double *low, const double *high,
                  size_t count)
{
    add_curve(p, GD_SERIES_BAND, label, x, low, NULL, high, count);
}

void gd_plot_contours(gd_plot *p, double x0, double x1, int columns, double y0, double y1, int rows,
                      const double *z)
{
    if (!p || p->failed) return;
    if (!z || columns < 2 || rows < 2) {
        refuse(p, "contours take a grid of at least 2 x 2 numbers");
        return;
    }
    gd_series s = {.kind = GD_SERIES_CONTOURS, .columns = columns, .rows = rows, .box = {x0, x1, y0, y1}};
    s.count2 = (size_t)columns * (size_t)rows;
    s.y = copy_numbers(p, z, s.count2);
    add_series(p, s, NULL);
}

/* ---- ranges ---- */

static void widen(gd_plot_axis *a, double v)
{
    if (a->log && v == 0) a->zero = true;
    if (!isfinite(v) || (a->log && v <= 0)) return;
    if (v < a->low) a->low = v;
    if (v > a->high) a->high = v;
}

static double backward(const gd_plot_axis *a, double v) { return a->log ? pow(10, v) : v; }

/* The data with a little space around it; a default range if there is no data, or only one value. */
static void settle_range(gd_plot_axis *a, double space)
{
    if (!(a->low <= a->high)) a->low = a->log ? 0.1 : 0, a->high = a->log ? 10 : 1;
    double low = gd__axis_forward(a, a->low), high = gd__axis_forward(a, a->high);
    if (high - low <= 1e-13 * fmax(fabs(low), fabs(high))) {
        double half = a->log ? 0.5 : low != 0 ? 0.1 * fabs(low) : 1;
        low -= half;
        high += half;
    }
    double pad = fmin(space * (high / 2 - low / 2) * 2, LARGEST);
    a->low = backward(a, low - (a->zero ? fmax(2 * pad, 0.1) : pad));
    a->high = backward(a, high + pad);
    /* the very largest and smallest doubles have no space around them */
    a->low = fmax(a->low, a->log ? 1e-300 : -LARGEST);
    a->high = fmin(a->high, LARGEST);
    if (!(a->low < a->high)) a->low = a->high / 10;
}

/* ---- frame ---- */

/* The text, cut with dots if it is wider than `width`. */
static void fitted_text(gd_plot *p, double size, double x, double y, int anchor, bool upwards,
                        const char *text, double width)
{
    char buf[256];
    size_t length = strlen(text);
    if (length >= sizeof buf) length = sizeof buf - 1;
    memcpy(buf, text, length);
    buf[length] = 0;
    for (bool cut = length < strlen(text); cut || gd__text_width(buf, size) > width; cut = false) {
        if (length < 4) return;
        length--;
        /* not in the middle of a character */
        while (length > 3 && ((unsigned char)buf[length - 3] & 0xC0) == 0x80) length--;
        memcpy(buf + length - 3, "...", 4);
    }
    gd__picture_text(p->picture, GD_INK_TEXT, size, x, y, anchor, upwards, buf);
}

static double widest(const gd_ticks *t)
{
    double width = 0;
    for (int i = 0; i < t->count; i++) width = fmax(width, gd__text_width(t->label[i], TICK_SIZE));
    return width;
}

/* How long the sign of a gd_series in the legend is, with its label. */
static double entry_width(const gd_series *s, double limit)
{
    return fmin(SWATCH + 8 + gd__text_width(s->label, LEGEND_SIZE), limit);
}

static void legend_sign(gd_plot *p, const gd_series *s, double x, double y)
{
    double line[4] = {x, y, x + SWATCH, y}, centre[2] = {x + SWATCH / 2, y};
    double patch[8] = {x, y - 6, x + SWATCH, y - 6, x + SWATCH, y + 6, x, y + 6};
    if (s->kind == GD_SERIES_BAND)
        gd__picture_area(p->picture, s->ink, 0.22, patch, 4);
    else if (s->kind != GD_SERIES_POINTS)
        gd__picture_line(p->picture, s->ink, 2, s->second, line, 2);
    if (s->kind == GD_SERIES_POINTS)
        gd__picture_marks(p->picture, s->ink, s->second ? GD_MARK_RING : GD_MARK_DISC, GD_PLOT_MARK, centre,
                          1);
    if (s->kind == GD_SERIES_PATH) gd__picture_marks(p->picture, s->ink, GD_MARK_DISC, 2.4, centre, 1);
}

/* Entries in rows from `top`; returns where the rows end.  Draws nothing with draw false. */
static double legend(gd_plot *p, double top, bool draw)
{
    double x = MARGIN, limit = WIDTH - 2 * MARGIN, row = LEGEND_SIZE + 7;
    bool any = false;
    for (size_t i = 0; i < p->items; i++) {
        const gd_series *s = &p->item[i];
        if (!s->label) continue;
        double width = entry_width(s, limit);
        if (any && x + width > WIDTH - MARGIN) {
            x = MARGIN;
            top += row;
        }
        if (draw) {
            legend_sign(p, s, x, top + row / 2);
            fitted_text(p, LEGEND_SIZE, x + SWATCH + 8, top + row / 2 + 0.36 * LEGEND_SIZE, -1, false,
                        s->label, limit - SWATCH - 8);
        }
        x += width + 18;
        any = true;
    }
    return any ? top + row + 6 : top;
}

static void find_ticks(gd_plot_axis *a, int wanted)
{
    if (a->log || a->date.unit == 0 || !gd__date_ticks(&a->ticks, a->low, a->high, wanted, &a->date))
        gd__ticks(&a->ticks, a->low, a->high, a->log, wanted);
}

/* Ticks of the x axis: as many as leave space between their labels. */
static void spaced_ticks(gd_plot_axis *a, double width)
{
    for (int wanted = 8; wanted > 0; wanted--) {
        find_ticks(a, wanted);
        if ((widest(&a->ticks) + 18) * a->ticks.count <= width || a->ticks.count <= 2) return;
    }
}

/* A logarithmic axis with zeros has a tick 0 at its bottom; ticks too near to it are dropped. */
static void mark_zero(gd_plot_axis *a)
{
    gd_ticks all = a->ticks;
    if (!a->zero) return;
    a->ticks.count = 1;
    a->ticks.at[0] = 0;
    memcpy(a->ticks.label[0], "0", 2);
    for (int i = 0; i < all.count && a->ticks.count < GD_MAX_TICKS; i++) {
        if (fabs(gd__axis_place(a, all.at[i]) - a->from) < 1.5 * TICK_SIZE) continue;
        a->ticks.at[a->ticks.count] = all.at[i];
        memcpy(a->ticks.label[a->ticks.count++], all.label[i], sizeof all.label[i]);
    }
}

/* Space above and below the data: a fraction of the frame, enough for marks of points. */
static double space_above(const gd_plot *p)
{
    double height = p->axis[1].from - p->axis[1].to, mark = GD_PLOT_MARK + 4, space = 0.05;
    for (size_t i = 0; i < p->items; i++)
        if (p->item[i].kind == GD_SERIES_POINTS) space = fmax(space, mark / (height - 2 * mark));
    return space;
}

/* Top and bottom of the frame, which do not depend on the numbers of its axes. */
static void lay_out_rows(gd_plot *p)
{
    gd_plot_axis *y = &p->axis[1];
    double top = p->top + MARGIN;
    if (*p->title) top += TITLE_SIZE + 10;
    y->to = legend(p, top, false);
    y->from = p->bottom - MARGIN - TICK_LENGTH - TICK_SIZE - 6 - (*p->label[0] ? LABEL_SIZE + 8 : 0);
    if (y->to > y->from - 60) y->to = y->from - 60;
}

static void find_ranges(gd_plot *p)
{
    gd_plot_axis *x = &p->axis[0], *y = &p->axis[1];
    for (int k = 0; k < 2; k++)
        if (!p->axis[k].given) p->axis[k].low = INFINITY, p->axis[k].high = -INFINITY;
    for (size_t i = 0; i < p->items; i++) {
        const gd_series *s = &p->item[i];
        for (size_t k = 0; k < s->count; k++) {
            bool shown = isfinite(s->x[k]) && isfinite(s->y[k]);
            if (!x->given && shown) widen(x, s->x[k]);
            if (!y->given) widen(y, s->y[k]);
            if (!y->given && s->y2 && s->kind == GD_SERIES_BAND) widen(y, s->y2[k]);
            for (int side = -1; side < 2 && s->kind == GD_SERIES_POINTS; side += 2) {
                if (!x->given && shown && s->x2) widen(x, s->x[k] + side * s->x2[k]);
                if (!y->given && s->y2) widen(y, s->y[k] + side * s->y2[k]);
            }
        }
        for (int k = 0; k < 2 && s->kind == GD_SERIES_CONTOURS; k++) {
            if (!x->given) widen(x, s->box[k]);
            if (!y->given) widen(y, s->box[2 + k]);
        }
    }
    bool grid = p->items && p->item[0].kind == GD_SERIES_CONTOURS;
    if (!x->given) settle_range(x, grid ? 0 : 0.03);
    if (!y->given) settle_range(y, grid ? 0 : space_above(p));
}

static void lay_out(gd_plot *p)
{
    gd_plot_axis *x = &p->axis[0], *y = &p->axis[1];
    find_ticks(y, (int)fmax((y->from - y->to) / 55, 3));
    mark_zero(y);
    x->from = MARGIN + (*p->label[1] ? LABEL_SIZE + 8 : 0) + widest(&y->ticks) + TICK_LENGTH + 4;
    x->to = WIDTH - MARGIN;
    spaced_ticks(x, x->to - x->from);
    x->to -= widest(&x->ticks) / 2;
}

static void draw_ticks(gd_plot *p, const gd_plot_axis *a, int which)
{
    const gd_plot_axis *other = &p->axis[!which];
    for (int i = 0; i < a->ticks.count; i++) {
        double at = gd__axis_place(a, a->ticks.at[i]);
        if (!(at >= fmin(a->from, a->to) - 0.5 && at <= fmax(a->from, a->to) + 0.5)) continue;
        if (which == 0) {
            gd__picture_line(p->picture, GD_INK_GRID, 1, false, (double[]){at, other->from, at, other->to},
                             2);
            gd__picture_line(p->picture, GD_INK_AXIS, 1, false,
                             (double[]){at, other->from, at, other->from + TICK_LENGTH}, 2);
            gd__picture_text(p->picture, GD_INK_TEXT, TICK_SIZE, at,
                             other->from + TICK_LENGTH + TICK_SIZE + 1, 0, false, a->ticks.label[i]);
        } else {
            gd__picture_line(p->picture, GD_INK_GRID, 1, false, (double[]){other->from, at, other->to, at},
                             2);
            gd__picture_line(p->picture, GD_INK_AXIS, 1, false,
                             (double[]){other->from - TICK_LENGTH, at, other->from, at}, 2);
            gd__picture_text(p->picture, GD_INK_TEXT, TICK_SIZE, other->from - TICK_LENGTH - 4,
                             at + 0.35 * TICK_SIZE, 1, false, a->ticks.label[i]);
        }
    }
}

static void draw_frame(gd_plot *p)
{
    const gd_plot_axis *x = &p->axis[0], *y = &p->axis[1];
    double frame[10] = {x->from, y->from, x->to, y->from, x->to, y->to, x->from, y->to, x->from, y->from};
    gd__picture_line(p->picture, GD_INK_AXIS, 1, false, frame, 5);
    fitted_text(p, TITLE_SIZE, MARGIN, p->top + MARGIN + 0.8 * TITLE_SIZE, -1, false, p->title,
                WIDTH - 2 * MARGIN);
    fitted_text(p, LABEL_SIZE, (x->from + x->to) / 2, p->bottom - MARGIN, 0, false, p->label[0],
                x->to - x->from);
    fitted_text(p, LABEL_SIZE, MARGIN + 0.8 * LABEL_SIZE, (y->from + y->to) / 2, 0, true, p->label[1],
                y->from - y->to);
    (void)legend(p, p->top + MARGIN + (*p->title ? TITLE_SIZE + 10 : 0), true);
}

/* ---- rendering ---- */

static void draw_plot(gd_plot *p, gd_picture *picture)
{
    p->picture = picture;
    draw_ticks(p, &p->axis[0], 0);
    draw_ticks(p, &p->axis[1], 1);
    for (size_t i = 0; i < p->items; i++) gd__series_draw(p, &p->item[i]);
    draw_frame(p);
    p->picture = NULL;
}

/* The panel below gets the x axis of the plot; their frames begin and end at the same places. */
static void lay_out_below(gd_plot *p, gd_plot *panel)
{
    gd_plot_axis *above = &p->axis[0], *x = &panel->axis[0];
    panel->top = HEIGHT - MARGIN;
    panel->bottom = HEIGHT + PANEL;
    *x = (gd_plot_axis){.log = above->log,
                        .zero = above->zero,
                        .given = true,
                        .low = above->low,
                        .high = above->high,
                        .date = above->date};
    lay_out_rows(panel);
    find_ranges(panel);
    lay_out(panel);
    above->from = x->from = fmax(above->from, x->from);
    above->to = x->to = fmin(above->to, x->to);
}

gd_picture *gd__plot_render(gd_plot *p)
{
    if (!p || p->failed || (p->below && p->below->failed) || gd_error(p->ctx)) return NULL;
    gd_picture *picture = gd__picture_new(p->ctx, WIDTH, p->below ? HEIGHT + PANEL : HEIGHT);
    if (!picture) return NULL;
    lay_out_rows(p);
    find_ranges(p);
    lay_out(p);
    if (p->below) lay_out_below(p, p->below);
    draw_plot(p, picture);
    if (p->below) draw_plot(p->below, picture);
    if (!gd_error(p->ctx)) return picture;
    gd__picture_free(picture);
    return NULL;
}
