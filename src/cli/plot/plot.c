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
#include "cli/plot/plot.h"
#include "cli/files.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WIDTH       800.0
#define HEIGHT      500.0
#define PANEL       150.0 /* of a plot below another */
#define MARGIN      18.0
#define TITLE_SIZE  18.0
#define LABEL_SIZE  15.0
#define TICK_SIZE   13.0
#define LEGEND_SIZE 14.0
#define TICK_LENGTH 5.0
#define SWATCH      26.0
#define MARK_RADIUS 3.2
#define LARGEST     8e307
#define CROWD       20000 /* points, from here on a density */
#define CELL        4.0
#define SHADES      8

typedef enum series_kind { LINE, POINTS, PATH, BAND, CONTOURS } series_kind;

typedef struct series {
    series_kind kind;
    char *label;
    int ink;
    double *x, *y;   /* z of contours is in y */
    double *x2, *y2; /* of points: half of their bars; y2 of a band: its upper edge */
    size_t count, count2;
    double box[4]; /* of contours: x0 x1 y0 y1 */
    int columns, rows;
} series;

typedef struct axis {
    bool log, given;
    bool zero;        /* logarithmic, with zeros at its foot */
    double low, high; /* in data units */
    double from, to;  /* in pixels */
    gd_ticks ticks;
} axis;

struct gd_plot {
    gd_ctx *ctx;
    char *title, *label[2];
    series *item;
    size_t items, item_bytes;
    int inks;
    axis axis[2];
    double top, bottom; /* of its part of the picture */
    gd_plot *below;     /* owned */
    bool failed;
    gd_picture *picture; /* while rendering */
    double *scratch;     /* points of the line being drawn */
    size_t points, scratch_bytes;
};

/* ---- building ---- */

gd_plot *gd__plot_new(gd_ctx *ctx, const char *title, const char *x_label, const char *y_label)
{
    gd_plot *p = gd__calloc(ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    p->bottom = HEIGHT;
    p->title = gd__strdup(ctx, title);
    p->label[0] = gd__strdup(ctx, x_label);
    p->label[1] = gd__strdup(ctx, y_label);
    if (p->title && p->label[0] && p->label[1]) return p;
    gd__plot_free(p);
    return NULL;
}

static void free_series(gd_ctx *ctx, series *s)
{
    gd__strfree(ctx, s->label);
    gd__free(ctx, s->x, s->count * sizeof *s->x);
    gd__free(ctx, s->y, s->count2 * sizeof *s->y);
    gd__free(ctx, s->x2, s->count * sizeof *s->x2);
    gd__free(ctx, s->y2, s->count * sizeof *s->y2);
}

void gd__plot_free(gd_plot *p)
{
    if (!p) return;
    gd__plot_free(p->below);
    for (size_t i = 0; i < p->items; i++) free_series(p->ctx, &p->item[i]);
    gd__free(p->ctx, p->item, p->item_bytes);
    gd__free(p->ctx, p->scratch, p->scratch_bytes);
    gd__strfree(p->ctx, p->title);
    gd__strfree(p->ctx, p->label[0]);
    gd__strfree(p->ctx, p->label[1]);
    gd__free(p->ctx, p, sizeof *p);
}

void gd__plot_log(gd_plot *p, bool x, bool y)
{
    if (!p) return;
    p->axis[0].log = x;
    p->axis[1].log = y;
}

void gd__plot_ink(gd_plot *p, int ink)
{
    if (p) p->inks = ink;
}

void gd__plot_limits(gd_plot *p, double x0, double x1, double y0, double y1)
{
    if (!p) return;
    p->axis[0] = (axis){.log = p->axis[0].log, .given = true, .low = x0, .high = x1};
    p->axis[1] = (axis){.log = p->axis[1].log, .given = true, .low = y0, .high = y1};
}

static double *copy_numbers(gd_plot *p, const double *from, size_t count)
{
    double *to = gd__alloc_array(p->ctx, count, sizeof *to);
    if (to && count) memcpy(to, from, count * sizeof *to);
    if (!to) p->failed = true;
    return to;
}

/* Takes s over. */
static void add_series(gd_plot *p, series s, const char *label)
{
    if (label && !(s.label = gd__strdup(p->ctx, label))) p->failed = true;
    p->failed = p->failed || !gd__grow(p->ctx, &p->item, &p->item_bytes, (p->items + 1) * sizeof s);
    if (p->failed) {
        free_series(p->ctx, &s);
        return;
    }
    s.ink = GD_INK_SERIES + p->inks++ % GD_SERIES_INKS;
    p->item[p->items++] = s;
}

static void add_curve(gd_plot *p, series_kind kind, const char *label, const double *x, const double *y,
                      const double *x2, const double *y2, size_t count)
{
    if (!p || p->failed) return;
    series s = {.kind = kind, .count = count, .count2 = count};
    s.x = copy_numbers(p, x, count);
    s.y = copy_numbers(p, y, count);
    if (x2) s.x2 = copy_numbers(p, x2, count);
    if (y2) s.y2 = copy_numbers(p, y2, count);
    add_series(p, s, label);
}

void gd__plot_line(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, LINE, label, x, y, NULL, NULL, count);
}

void gd__plot_points(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, POINTS, label, x, y, NULL, NULL, count);
}

void gd__plot_errors(gd_plot *p, const char *label, const double *x, const double *y, const double *across,
                     const double *up, size_t count)
{
    add_curve(p, POINTS, label, x, y, across, up, count);
}

void gd__plot_below(gd_plot *p, gd_plot *panel)
{
    if (p && panel && !p->below)
        p->below = panel;
    else
        gd__plot_free(panel);
}

void gd__plot_path(gd_plot *p, const char *label, const double *x, const double *y, size_t count)
{
    add_curve(p, PATH, label, x, y, NULL, NULL, count);
}

void gd__plot_band(gd_plot *p, const char *label, const double *x, const double *low, const double *high,
                   size_t count)
{
    add_curve(p, BAND, label, x, low, NULL, high, count);
}

void gd__plot_contours(gd_plot *p, double x0, double x1, int columns, double y0, double y1, int rows,
                       const double *z)
{
    if (!p || p->failed) return;
    series s = {.kind = CONTOURS, .columns = columns, .rows = rows, .box = {x0, x1, y0, y1}};
    s.count2 = (size_t)columns * (size_t)rows;
    s.y = copy_numbers(p, z, s.count2);
    add_series(p, s, NULL);
}

/* ---- ranges ---- */

static void widen(axis *a, double v)
{
    if (a->log && v == 0) a->zero = true;
    if (!isfinite(v) || (a->log && v <= 0)) return;
    if (v < a->low) a->low = v;
    if (v > a->high) a->high = v;
}

static double forward(const axis *a, double v) { return a->log ? log10(v) : v; }
static double backward(const axis *a, double v) { return a->log ? pow(10, v) : v; }

/* The data with a little space around it; something to look at where there is no data, or only one value. */
static void settle_range(axis *a, double space)
{
    if (!(a->low <= a->high)) a->low = a->log ? 0.1 : 0, a->high = a->log ? 10 : 1;
    double low = forward(a, a->low), high = forward(a, a->high);
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

static void find_ranges(gd_plot *p)
{
    axis *x = &p->axis[0], *y = &p->axis[1];
    for (int k = 0; k < 2; k++)
        if (!p->axis[k].given) p->axis[k].low = INFINITY, p->axis[k].high = -INFINITY;
    for (size_t i = 0; i < p->items; i++) {
        const series *s = &p->item[i];
        for (size_t k = 0; k < s->count; k++) {
            bool shown = isfinite(s->x[k]) && isfinite(s->y[k]);
            if (!x->given && shown) widen(x, s->x[k]);
            if (!y->given) widen(y, s->y[k]);
            if (!y->given && s->y2 && s->kind == BAND) widen(y, s->y2[k]);
            for (int side = -1; side < 2 && s->kind == POINTS; side += 2) {
                if (!x->given && shown && s->x2) widen(x, s->x[k] + side * s->x2[k]);
                if (!y->given && s->y2) widen(y, s->y[k] + side * s->y2[k]);
            }
        }
        for (int k = 0; k < 2 && s->kind == CONTOURS; k++) {
            if (!x->given) widen(x, s->box[k]);
            if (!y->given) widen(y, s->box[2 + k]);
        }
    }
    bool grid = p->items && p->item[0].kind == CONTOURS;
    if (!x->given) settle_range(x, grid ? 0 : 0.03);
    if (!y->given) settle_range(y, grid ? 0 : 0.05);
}

/* ---- from data to pixels ---- */

static double place(const axis *a, double v)
{
    if (a->log && v == 0) return a->from;
    /* halves, so that the largest doubles do not overflow; far outside is far enough */
    double low = forward(a, a->low) / 2, high = forward(a, a->high) / 2;
    double share = (forward(a, v) / 2 - low) / (high - low);
    return a->from + fmin(fmax(share, -1e6), 1e6) * (a->to - a->from);
}

static bool placeable(const gd_plot *p, double x, double y)
{
    return isfinite(x) && isfinite(y) && (!p->axis[0].log || x >= 0) && (!p->axis[1].log || y >= 0);
}

static bool inside(const gd_plot *p, const double *at)
{
    return at[0] >= p->axis[0].from && at[0] <= p->axis[0].to && at[1] <= p->axis[1].from &&
           at[1] >= p->axis[1].to;
}

/* The part of a segment inside the frame (Liang and Barsky 1984); false if there is none. */
static bool clip(const gd_plot *p, double a[2], double b[2])
{
    double low[2] = {p->axis[0].from, p->axis[1].to}, high[2] = {p->axis[0].to, p->axis[1].from};
    double t0 = 0, t1 = 1, d[2] = {b[0] - a[0], b[1] - a[1]};
    for (int k = 0; k < 2; k++) {
        if (d[k] == 0) {
            if (a[k] < low[k] || a[k] > high[k]) return false;
            continue;
        }
        double enter = ((d[k] > 0 ? low[k] : high[k]) - a[k]) / d[k],
               leave = ((d[k] > 0 ? high[k] : low[k]) - a[k]) / d[k];
        if (enter > t0) t0 = enter;
        if (leave < t1) t1 = leave;
    }
    if (!(t0 <= t1)) return false;
    for (int k = 0; k < 2; k++) {
        double from = a[k];
        a[k] = t0 > 0 ? fmin(fmax(from + t0 * d[k], low[k]), high[k]) : a[k];
        b[k] = t1 < 1 ? fmin(fmax(from + t1 * d[k], low[k]), high[k]) : b[k];
    }
    return true;
}

/* ---- lines ---- */

static bool keep_point(gd_plot *p, const double *at)
{
    size_t need = (p->points + 1) * 2 * sizeof *p->scratch;
    if (!gd__grow(p->ctx, &p->scratch, &p->scratch_bytes, need)) return false;
    memcpy(p->scratch + 2 * p->points++, at, 2 * sizeof *at);
    return true;
}

static void flush_line(gd_plot *p, int ink, double width)
{
    gd__picture_line(p->picture, ink, width, false, p->scratch, p->points);
    p->points = 0;
}

/* One segment after another; those outside the frame are left out, those across its edge are cut. */
static void draw_segment(gd_plot *p, int ink, double width, const double *from, const double *to)
{
    double a[2] = {from[0], from[1]}, b[2] = {to[0], to[1]};
    if (!clip(p, a, b)) {
        flush_line(p, ink, width);
        return;
    }
    const double *last = p->points ? p->scratch + 2 * (p->points - 1) : NULL;
    if (!last || last[0] != a[0] || last[1] != a[1]) {
        flush_line(p, ink, width);
        (void)keep_point(p, a);
    }
    (void)keep_point(p, b);
}

/* A long line has many points in one pixel column: of those only the first, the extremes and the last are drawn. */
typedef struct column {
    double x;
    double y[4]; /* first, lowest, highest, last */
    bool open;
} column;

typedef struct tracer {
    gd_plot *p;
    int ink;
    double width;
    double last[2];
    bool begun;
    column column;
} tracer;

static void trace_to(tracer *t, double x, double y)
{
    double at[2] = {x, y};
    if (t->begun) draw_segment(t->p, t->ink, t->width, t->last, at);
    memcpy(t->last, at, sizeof at);
    t->begun = true;
}

static void close_column(tracer *t)
{
    column *c = &t->column;
    if (!c->open) return;
    trace_to(t, c->x, c->y[0]);
    if (c->y[1] != c->y[0] && c->y[1] != c->y[3]) trace_to(t, c->x, c->y[1]);
    if (c->y[2] != c->y[0] && c->y[2] != c->y[3]) trace_to(t, c->x, c->y[2]);
    if (c->y[3] != c->y[0]) trace_to(t, c->x, c->y[3]);
    c->open = false;
}

static void thinned(tracer *t, double x, double y)
{
    column *c = &t->column;
    if (c->open && fabs(c->x - x) < 0.5) {
        c->y[1] = fmin(c->y[1], y);
        c->y[2] = fmax(c->y[2], y);
        c->y[3] = y;
        return;
    }
    close_column(t);
    *c = (column){.x = x, .y = {y, y, y, y}, .open = true};
}

static void draw_line(gd_plot *p, const series *s, double width)
{
    tracer t = {.p = p, .ink = s->ink, .width = width};
    bool thin = s->kind == LINE && s->count > 3000;
    for (size_t i = 0; i < s->count; i++) {
        if (!placeable(p, s->x[i], s->y[i])) {
            close_column(&t);
            t.begun = false;
            flush_line(p, s->ink, width);
            continue;
        }
        double x = place(&p->axis[0], s->x[i]), y = place(&p->axis[1], s->y[i]);
        if (thin)
            thinned(&t, x, y);
        else
            trace_to(&t, x, y);
    }
    close_column(&t);
    flush_line(p, s->ink, width);
}

/* ---- other series ---- */

static void draw_marks(gd_plot *p, const series *s, gd_mark_shape shape, double radius, size_t first,
                       size_t last)
{
    for (size_t i = first; i < last; i++) {
        if (!placeable(p, s->x[i], s->y[i])) continue;
        double at[2] = {place(&p->axis[0], s->x[i]), place(&p->axis[1], s->y[i])};
        if (inside(p, at)) (void)keep_point(p, at);
    }
    gd__picture_marks(p->picture, s->ink, shape, radius, p->scratch, p->points);
    p->points = 0;
}

/* Bars of errors along an axis, under their points. */
static void draw_bars(gd_plot *p, const series *s, int along)
{
    const axis *a = &p->axis[along];
    const double *middle = along ? s->y : s->x, *half = along ? s->y2 : s->x2;
    for (size_t i = 0; i < s->count && half; i++) {
        double low = middle[i] - half[i], foot = a->log && !(low > 0) ? a->low : low;
        if (!placeable(p, s->x[i], s->y[i]) || !isfinite(half[i])) continue;
        double from[2] = {place(&p->axis[0], s->x[i]), place(&p->axis[1], s->y[i])},
               to[2] = {from[0], from[1]};
        from[along] = place(a, foot);
        to[along] = place(a, middle[i] + half[i]);
        draw_segment(p, s->ink, 1.2, from, to);
        flush_line(p, s->ink, 1.2);
    }
}

/* How many points lie in each cell of the frame. */
static uint32_t *count_cells(gd_plot *p, const series *s, int columns, int rows, uint32_t *most)
{
    uint32_t *cell = gd__calloc(p->ctx, (size_t)columns * (size_t)rows * sizeof *cell);
    *most = 0;
    for (size_t i = 0; i < s->count && cell; i++) {
        if (!placeable(p, s->x[i], s->y[i])) continue;
        double at[2] = {place(&p->axis[0], s->x[i]), place(&p->axis[1], s->y[i])};
        int across = (int)((at[0] - p->axis[0].from) / CELL), down = (int)((at[1] - p->axis[1].to) / CELL);
        if (!inside(p, at) || across >= columns || down >= rows) continue;
        uint32_t *here = &cell[down * columns + across];
        if (++*here > *most) *most = *here;
    }
    return cell;
}

/* Too many points to draw each: the logarithm of how many lie in a cell is how dark it is. */
static void draw_density(gd_plot *p, const series *s)
{
    int columns = (int)((p->axis[0].to - p->axis[0].from) / CELL) + 1,
        rows = (int)((p->axis[1].from - p->axis[1].to) / CELL) + 1;
    uint32_t most, *cell = count_cells(p, s, columns, rows, &most);
    for (int shade = 1; shade <= SHADES && cell && most; shade++) {
        for (int i = 0; i < columns * rows; i++) {
            double share = cell[i] ? log1p(cell[i]) / log1p(most) : 0;
            if ((int)ceil(share * SHADES) != shade) continue;
            double at[2] = {fmin(p->axis[0].from + (i % columns + 0.5) * CELL, p->axis[0].to - CELL / 2),
                            fmin(p->axis[1].to + (i / columns + 0.5) * CELL, p->axis[1].from - CELL / 2)};
            (void)keep_point(p, at);
        }
        gd__picture_cells(p->picture, s->ink, 0.12 + 0.88 * shade / SHADES, CELL / 2, p->scratch, p->points);
        p->points = 0;
    }
    gd__free(p->ctx, cell, (size_t)columns * (size_t)rows * sizeof *cell);
}

static void draw_points(gd_plot *p, const series *s)
{
    if (s->count > CROWD) {
        draw_density(p, s);
        return;
    }
    for (int along = 0; along < 2; along++) draw_bars(p, s, along);
    draw_marks(p, s, GD_MARK_DISC, s->count > CROWD / 20 ? 0.5 * MARK_RADIUS : MARK_RADIUS, 0, s->count);
}

static void draw_path(gd_plot *p, const series *s)
{
    draw_line(p, s, 2);
    if (s->count > 2 && s->count <= 400) draw_marks(p, s, GD_MARK_DISC, 2.4, 1, s->count - 1);
    if (s->count) draw_marks(p, s, GD_MARK_RING, 5.5, 0, 1);
    if (s->count > 1) draw_marks(p, s, GD_MARK_STAR, 9, s->count - 1, s->count);
}

/* Points beyond the frame are moved onto its edge. */
static void draw_band(gd_plot *p, const series *s)
{
    const axis *x = &p->axis[0], *y = &p->axis[1];
    for (int side = 0; side < 2; side++) {
        for (size_t k = 0; k < s->count; k++) {
            size_t i = side ? s->count - 1 - k : k;
            double v = side ? s->y2[i] : s->y[i];
            if (y->log && v <= 0) v = y->low;
            if (!placeable(p, s->x[i], v)) continue;
            double at[2] = {fmin(fmax(place(x, s->x[i]), x->from), x->to),
                            fmin(fmax(place(y, v), y->to), y->from)};
            (void)keep_point(p, at);
        }
    }
    gd__picture_area(p->picture, s->ink, 0.22, p->scratch, p->points);
    p->points = 0;
}

typedef struct contour_line {
    gd_plot *p;
    const series *s;
    int ink;
} contour_line;

static void draw_contour_line(void *user, const double *xy, size_t points)
{
    contour_line *c = user;
    const series *s = c->s;
    double last[2] = {0, 0};
    if (points < 6) return; /* specks where the grid is too coarse for the curve */
    for (size_t i = 0; i < points; i++) {
        double x = s->box[0] + (s->box[1] - s->box[0]) * xy[2 * i] / (s->columns - 1);
        double y = s->box[2] + (s->box[3] - s->box[2]) * xy[2 * i + 1] / (s->rows - 1);
        double at[2] = {place(&c->p->axis[0], x), place(&c->p->axis[1], y)};
        if (i) draw_segment(c->p, c->ink, 1.2, last, at);
        memcpy(last, at, sizeof last);
    }
    flush_line(c->p, c->ink, 1.2);
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Levels at quantiles of the values, denser where they are low: the lines spread over the whole area. */
static void draw_contours(gd_plot *p, const series *s)
{
    double *sorted = gd__alloc_array(p->ctx, s->count2, sizeof *sorted);
    if (!sorted) return;
    size_t count = 0;
    for (size_t i = 0; i < s->count2; i++)
        if (isfinite(s->y[i])) sorted[count++] = s->y[i];
    qsort(sorted, count, sizeof *sorted, ascending);
    contour_line c = {.p = p, .s = s};
    double last = NAN;
    for (int k = 0; k < GD_LEVEL_INKS && count; k++) {
        double level =
            sorted[(size_t)(pow((k + 1.0) / ((int)GD_LEVEL_INKS + 0.5), 1.8) * (double)(count - 1))];
        if (level == last || level == sorted[0]) continue;
        c.ink = GD_INK_LEVEL + k;
        if (gd__contour(p->ctx, s->y, s->columns, s->rows, level, draw_contour_line, &c)) break;
        last = level;
    }
    gd__free(p->ctx, sorted, s->count2 * sizeof *sorted);
}

static void draw_series(gd_plot *p, const series *s)
{
    switch (s->kind) {
    case LINE: draw_line(p, s, 2); break;
    case POINTS: draw_points(p, s); break;
    case PATH: draw_path(p, s); break;
    case BAND: draw_band(p, s); break;
    case CONTOURS: draw_contours(p, s); break;
    }
}

/* ---- frame ---- */

/* The text, cut with dots where it is wider than `width`. */
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

/* How long the sign of a series in the legend is, with its label. */
static double entry_width(const series *s, double limit)
{
    return fmin(SWATCH + 8 + gd__text_width(s->label, LEGEND_SIZE), limit);
}

static void legend_sign(gd_plot *p, const series *s, double x, double y)
{
    double line[4] = {x, y, x + SWATCH, y}, centre[2] = {x + SWATCH / 2, y};
    double patch[8] = {x, y - 6, x + SWATCH, y - 6, x + SWATCH, y + 6, x, y + 6};
    if (s->kind == BAND)
        gd__picture_area(p->picture, s->ink, 0.22, patch, 4);
    else if (s->kind != POINTS)
        gd__picture_line(p->picture, s->ink, 2, false, line, 2);
    if (s->kind == POINTS) gd__picture_marks(p->picture, s->ink, GD_MARK_DISC, MARK_RADIUS, centre, 1);
    if (s->kind == PATH) gd__picture_marks(p->picture, s->ink, GD_MARK_DISC, 2.4, centre, 1);
}

/* Entries in rows from `top`; returns where the rows end.  Draws nothing with draw false. */
static double legend(gd_plot *p, double top, bool draw)
{
    double x = MARGIN, limit = WIDTH - 2 * MARGIN, row = LEGEND_SIZE + 7;
    bool any = false;
    for (size_t i = 0; i < p->items; i++) {
        const series *s = &p->item[i];
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

/* Ticks of the x axis: as many as leave space between their labels. */
static void spaced_ticks(axis *a, double width)
{
    for (int wanted = 8; wanted > 0; wanted--) {
        gd__ticks(&a->ticks, a->low, a->high, a->log, wanted);
        if ((widest(&a->ticks) + 18) * a->ticks.count <= width || a->ticks.count <= 2) return;
    }
}

/* The foot of a logarithmic axis with zeros says so; ticks that would be too near to it go. */
static void mark_zero(axis *a)
{
    gd_ticks all = a->ticks;
    if (!a->zero) return;
    a->ticks.count = 1;
    a->ticks.at[0] = 0;
    memcpy(a->ticks.label[0], "0", 2);
    for (int i = 0; i < all.count && a->ticks.count < GD_MAX_TICKS; i++) {
        if (fabs(place(a, all.at[i]) - a->from) < 1.5 * TICK_SIZE) continue;
        a->ticks.at[a->ticks.count] = all.at[i];
        memcpy(a->ticks.label[a->ticks.count++], all.label[i], sizeof all.label[i]);
    }
}

static void lay_out(gd_plot *p)
{
    axis *x = &p->axis[0], *y = &p->axis[1];
    double top = p->top + MARGIN;
    if (*p->title) top += TITLE_SIZE + 10;
    y->to = legend(p, top, false);
    y->from = p->bottom - MARGIN - TICK_LENGTH - TICK_SIZE - 6 - (*p->label[0] ? LABEL_SIZE + 8 : 0);
    if (y->to > y->from - 60) y->to = y->from - 60;
    gd__ticks(&y->ticks, y->low, y->high, y->log, (int)fmax((y->from - y->to) / 55, 3));
    mark_zero(y);
    x->from = MARGIN + (*p->label[1] ? LABEL_SIZE + 8 : 0) + widest(&y->ticks) + TICK_LENGTH + 4;
    x->to = WIDTH - MARGIN;
    spaced_ticks(x, x->to - x->from);
    x->to -= widest(&x->ticks) / 2;
}

static void draw_ticks(gd_plot *p, const axis *a, int which)
{
    const axis *other = &p->axis[!which];
    for (int i = 0; i < a->ticks.count; i++) {
        double at = place(a, a->ticks.at[i]);
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
    const axis *x = &p->axis[0], *y = &p->axis[1];
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

/* ---- the whole ---- */

static void draw_plot(gd_plot *p, gd_picture *picture)
{
    p->picture = picture;
    draw_ticks(p, &p->axis[0], 0);
    draw_ticks(p, &p->axis[1], 1);
    for (size_t i = 0; i < p->items; i++) draw_series(p, &p->item[i]);
    draw_frame(p);
    p->picture = NULL;
}

/* The panel below gets the x axis of the plot; their frames begin and end at the same places. */
static void lay_out_below(gd_plot *p, gd_plot *panel)
{
    axis *above = &p->axis[0], *x = &panel->axis[0];
    panel->top = HEIGHT - MARGIN;
    panel->bottom = HEIGHT + PANEL;
    *x = (axis){
        .log = above->log, .zero = above->zero, .given = true, .low = above->low, .high = above->high};
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
    find_ranges(p);
    lay_out(p);
    if (p->below) lay_out_below(p, p->below);
    draw_plot(p, picture);
    if (p->below) draw_plot(p->below, picture);
    if (!gd_error(p->ctx)) return picture;
    gd__picture_free(picture);
    return NULL;
}

static bool ends_with(const char *path, const char *end)
{
    size_t length = strlen(path), size = strlen(end);
    return length >= size && !strcmp(path + length - size, end);
}

gd_status gd__plot_check_path(gd_ctx *ctx, const char *path)
{
    if (ends_with(path, ".svg") || ends_with(path, ".png") || ends_with(path, ".pdf")) return GD_OK;
    return gd_fail(ctx, GD_ARGUMENT, "%s: a picture ends in .svg, .png or .pdf", path);
}

gd_status gd__plot_save(gd_plot *p, const char *path, bool dark)
{
    if (!p) return GD_NOMEM;
    gd_status status = gd__plot_check_path(p->ctx, path);
    if (status) return status;
    gd_picture *picture = gd__plot_render(p);
    if (!picture) return gd_error(p->ctx) ? gd_error(p->ctx) : GD_NOMEM;
    gd_text bytes = gd__text(p->ctx);
    status = ends_with(path, ".svg")   ? gd__picture_svg(picture, dark, &bytes)
             : ends_with(path, ".pdf") ? gd__picture_pdf(picture, dark, &bytes)
                                       : gd__picture_png(picture, dark, 2, &bytes);
    if (!status) status = gd__write_output(p->ctx, path, gd__text_string(&bytes), bytes.used);
    gd__text_free(&bytes);
    gd__picture_free(picture);
    return status;
}
