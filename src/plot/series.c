/* Series of a plot: from data to pixels, cut to the frame. */
#include "plot/plot_layout.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define CELL   4.0
#define SHADES 8

/* ---- from data to pixels ---- */

double gd__axis_forward(const gd_plot_axis *a, double v) { return a->log ? log10(v) : v; }

double gd__axis_place(const gd_plot_axis *a, double v)
{
    if (a->log && v == 0) return a->from;
    /* halves, so that the largest doubles do not overflow; far outside is far enough */
    double low = gd__axis_forward(a, a->low) / 2, high = gd__axis_forward(a, a->high) / 2;
    double share = (gd__axis_forward(a, v) / 2 - low) / (high - low);
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

/* The segment clipped to the frame (Liang and Barsky 1984); false if there is none. */
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
    gd__picture_line(p->picture, ink, width, p->dashed, p->scratch, p->points);
    p->points = 0;
}

/* All segments in order; those outside the frame are left out, those across its edge are clipped. */
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

static void draw_line(gd_plot *p, const gd_series *s, double width)
{
    tracer t = {.p = p, .ink = s->ink, .width = width};
    bool thin = s->kind == GD_SERIES_LINE && s->count > 3000;
    for (size_t i = 0; i < s->count; i++) {
        if (!placeable(p, s->x[i], s->y[i])) {
            close_column(&t);
            t.begun = false;
            flush_line(p, s->ink, width);
            continue;
        }
        double x = gd__axis_place(&p->axis[0], s->x[i]), y = gd__axis_place(&p->axis[1], s->y[i]);
        if (thin)
            thinned(&t, x, y);
        else
            trace_to(&t, x, y);
    }
    close_column(&t);
    flush_line(p, s->ink, width);
}

/* ---- other series ---- */

static void draw_marks(gd_plot *p, const gd_series *s, gd_mark_shape shape, double radius, size_t first,
                       size_t last)
{
    for (size_t i = first; i < last; i++) {
        if (!placeable(p, s->x[i], s->y[i])) continue;
        double at[2] = {gd__axis_place(&p->axis[0], s->x[i]), gd__axis_place(&p->axis[1], s->y[i])};
        if (inside(p, at)) (void)keep_point(p, at);
    }
    gd__picture_marks(p->picture, s->ink, shape, radius, p->scratch, p->points);
    p->points = 0;
}

/* Bars of errors along an axis, under their points. */
static void draw_bars(gd_plot *p, const gd_series *s, int along)
{
    const gd_plot_axis *a = &p->axis[along];
    const double *middle = along ? s->y : s->x, *half = along ? s->y2 : s->x2;
    for (size_t i = 0; i < s->count && half; i++) {
        double low = middle[i] - half[i], foot = a->log && !(low > 0) ? a->low : low;
        if (!placeable(p, s->x[i], s->y[i]) || !isfinite(half[i])) continue;
        double from[2] = {gd__axis_place(&p->axis[0], s->x[i]), gd__axis_place(&p->axis[1], s->y[i])},
               to[2] = {from[0], from[1]};
        from[along] = gd__axis_place(a, foot);
        to[along] = gd__axis_place(a, middle[i] + half[i]);
        draw_segment(p, s->ink, 1.2, from, to);
        flush_line(p, s->ink, 1.2);
    }
}

/* The number of points in each cell of the frame. */
static uint32_t *count_cells(gd_plot *p, const gd_series *s, int columns, int rows, uint32_t *most)
{
    uint32_t *cell = gd__calloc(p->ctx, (size_t)columns * (size_t)rows * sizeof *cell);
    *most = 0;
    for (size_t i = 0; i < s->count && cell; i++) {
        if (!placeable(p, s->x[i], s->y[i])) continue;
        double at[2] = {gd__axis_place(&p->axis[0], s->x[i]), gd__axis_place(&p->axis[1], s->y[i])};
        int across = (int)((at[0] - p->axis[0].from) / CELL), down = (int)((at[1] - p->axis[1].to) / CELL);
        if (!inside(p, at) || across >= columns || down >= rows) continue;
        uint32_t *here = &cell[down * columns + across];
        if (++*here > *most) *most = *here;
    }
    return cell;
}

/* Too many points to draw each: the darkness of a cell is the logarithm of its count. */
static void draw_density(gd_plot *p, const gd_series *s)
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

static void draw_points(gd_plot *p, const gd_series *s)
{
    if (s->count > GD_PLOT_CROWD) {
        draw_density(p, s);
        return;
    }
    for (int along = 0; along < 2; along++) draw_bars(p, s, along);
    draw_marks(p, s, s->second ? GD_MARK_RING : GD_MARK_DISC,
               s->count > GD_PLOT_CROWD / 20 ? 0.5 * GD_PLOT_MARK : GD_PLOT_MARK, 0, s->count);
}

static void draw_path(gd_plot *p, const gd_series *s)
{
    draw_line(p, s, 2);
    if (s->count > 2 && s->count <= 400) draw_marks(p, s, GD_MARK_DISC, 2.4, 1, s->count - 1);
    if (s->count) draw_marks(p, s, GD_MARK_RING, 5.5, 0, 1);
    if (s->count > 1) draw_marks(p, s, GD_MARK_STAR, 9, s->count - 1, s->count);
}

/* Points beyond the frame are moved onto its edge. */
static void draw_band(gd_plot *p, const gd_series *s)
{
    const gd_plot_axis *x = &p->axis[0], *y = &p->axis[1];
    for (int side = 0; side < 2; side++) {
        for (size_t k = 0; k < s->count; k++) {
            size_t i = side ? s->count - 1 - k : k;
            double v = side ? s->y2[i] : s->y[i];
            if (y->log && v <= 0) v = y->low;
            if (!placeable(p, s->x[i], v)) continue;
            double at[2] = {fmin(fmax(gd__axis_place(x, s->x[i]), x->from), x->to),
                            fmin(fmax(gd__axis_place(y, v), y->to), y->from)};
            (void)keep_point(p, at);
        }
    }
    gd__picture_area(p->picture, s->ink, 0.22, p->scratch, p->points);
    p->points = 0;
}

typedef struct contour_line {
    gd_plot *p;
    const gd_series *s;
    int ink;
} contour_line;

static void draw_contour_line(void *user, const double *xy, size_t points)
{
    contour_line *c = user;
    const gd_series *s = c->s;
    double last[2] = {0, 0};
    if (points < 6) return; /* specks where the grid is too coarse for the curve */
    for (size_t i = 0; i < points; i++) {
        double x = s->box[0] + (s->box[1] - s->box[0]) * xy[2 * i] / (s->columns - 1);
        double y = s->box[2] + (s->box[3] - s->box[2]) * xy[2 * i + 1] / (s->rows - 1);
        double at[2] = {gd__axis_place(&c->p->axis[0], x), gd__axis_place(&c->p->axis[1], y)};
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

/* Levels at quantiles of the values, denser where they are low: so that lines cover the whole area. */
static void draw_contours(gd_plot *p, const gd_series *s)
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

void gd__series_draw(gd_plot *p, const gd_series *s)
{
    p->dashed = s->second && s->kind == GD_SERIES_LINE;
    switch (s->kind) {
    case GD_SERIES_LINE: draw_line(p, s, 2); break;
    case GD_SERIES_POINTS: draw_points(p, s); break;
    case GD_SERIES_PATH: draw_path(p, s); break;
    case GD_SERIES_BAND: draw_band(p, s); break;
    case GD_SERIES_CONTOURS: draw_contours(p, s); break;
    }
}
