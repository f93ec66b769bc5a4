/* Drawing a picture into pixels, for PNG.
 *
 * A line is drawn by distance: a pixel is covered as far as it is within half the width of the nearest point of the line,
 * with a soft edge of one pixel.  The pieces of one line go into a mask by maximum, and the mask is laid onto the image once, so
 * joints are neither doubled nor open.  Ends and joints come out round. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

#define AREA_ROWS 4 /* scan lines per pixel for filled areas */

typedef struct canvas {
    gd_ctx *ctx;
    int width, height;
    double scale;
    bool dark;
    uint8_t *rgb;
    float *mask;
    int x0, y0, x1, y1; /* touched part of the mask */
    gd_rgb ink;
    double pen; /* half the width, for letters */
    double origin[2];
    bool upwards;
    double size;
    double dash; /* length drawn so far */
} canvas;

static double clamp(double v, double low, double high) { return v < low ? low : v > high ? high : v; }

static int to_int(double v, int low, int high) { return (int)clamp(v, low, high); }

/* ---- mask ---- */

static void touch(canvas *c, int x0, int y0, int x1, int y1)
{
    if (x0 < c->x0) c->x0 = x0;
    if (y0 < c->y0) c->y0 = y0;
    if (x1 > c->x1) c->x1 = x1;
    if (y1 > c->y1) c->y1 = y1;
}

static void cover(canvas *c, int x, int y, double amount)
{
    float *m = &c->mask[(size_t)y * (size_t)c->width + (size_t)x];
    if ((float)amount > *m) *m = (float)amount;
}

/* The pixels within r + 1 of the segment a b; false if there are none. */
static bool box(const canvas *c, const double *a, const double *b, double r, int out[4])
{
    double x0 = fmin(a[0], b[0]) - r - 1, y0 = fmin(a[1], b[1]) - r - 1;
    double x1 = fmax(a[0], b[0]) + r + 1, y1 = fmax(a[1], b[1]) + r + 1;
    if (!(x1 >= 0 && y1 >= 0 && x0 < c->width && y0 < c->height)) return false;
    out[0] = to_int(floor(x0), 0, c->width);
    out[1] = to_int(floor(y0), 0, c->height);
    out[2] = to_int(ceil(x1), 0, c->width);
    out[3] = to_int(ceil(y1), 0, c->height);
    return true;
}

/* A straight piece with round ends; a == b is a disc. */
static void segment(canvas *c, const double *a, const double *b, double r)
{
    int e[4];
    if (!box(c, a, b, r, e)) return;
    touch(c, e[0], e[1], e[2], e[3]);
    double dx = b[0] - a[0], dy = b[1] - a[1], length2 = dx * dx + dy * dy;
    /* a pen thinner than a pixel is drawn one pixel wide and paler */
    double full = clamp(2 * r, 0.25, 1), radius = r < 0.5 ? 0.5 : r;
    for (int y = e[1]; y < e[3]; y++) {
        for (int x = e[0]; x < e[2]; x++) {
            double px = x + 0.5 - a[0], py = y + 0.5 - a[1];
            double t = length2 > 0 ? clamp((px * dx + py * dy) / length2, 0, 1) : 0;
            double distance = hypot(px - t * dx, py - t * dy);
            double amount = clamp(radius + 0.5 - distance, 0, 1);
            if (amount > 0) cover(c, x, y, full * amount);
        }
    }
}

static void ring(canvas *c, const double *centre, double radius, double r)
{
    int e[4];
    if (!box(c, centre, centre, radius + r, e)) return;
    touch(c, e[0], e[1], e[2], e[3]);
    for (int y = e[1]; y < e[3]; y++) {
        for (int x = e[0]; x < e[2]; x++) {
            double distance = fabs(hypot(x + 0.5 - centre[0], y + 0.5 - centre[1]) - radius);
            cover(c, x, y, clamp(r + 0.5 - distance, 0, 1));
        }
    }
}

/* Lays the mask onto the image in the current ink and clears it. */
static void lay(canvas *c, double opacity)
{
    const double ink[3] = {c->ink.r, c->ink.g, c->ink.b};
    for (int y = c->y0; y < c->y1; y++) {
        for (int x = c->x0; x < c->x1; x++) {
            size_t at = (size_t)y * (size_t)c->width + (size_t)x;
            double amount = c->mask[at] * opacity;
            if (amount <= 0) continue;
            for (size_t k = 0; k < 3; k++) {
                uint8_t *p = &c->rgb[3 * at + k];
                *p = (uint8_t)lround(*p + (ink[k] - *p) * amount);
            }
            c->mask[at] = 0;
        }
    }
    c->x0 = c->width;
    c->y0 = c->height;
    c->x1 = c->y1 = 0;
}

/* ---- shapes ---- */

static void dashed(canvas *c, const double *a, const double *b, double r)
{
    double length = hypot(b[0] - a[0], b[1] - a[1]), on = 6 * c->scale, period = 10 * c->scale;
    for (double at = 0; at < length;) {
        double phase = fmod(c->dash + at, period), step = (phase < on ? on : period) - phase;
        if (step < 1e-6) step = 1e-6;
        double end = fmin(at + step, length);
        if (phase < on) {
            double p[2] = {a[0] + (b[0] - a[0]) * at / length, a[1] + (b[1] - a[1]) * at / length};
            double q[2] = {a[0] + (b[0] - a[0]) * end / length, a[1] + (b[1] - a[1]) * end / length};
            segment(c, p, q, r);
        }
        at = end;
    }
    c->dash = fmod(c->dash + length, period);
}

static void line(canvas *c, const gd_drawing *s, const double *xy)
{
    double r = s->size * c->scale / 2;
    c->dash = 0;
    for (size_t i = 0; i + 1 < s->points; i++) {
        double a[2] = {xy[2 * i] * c->scale, xy[2 * i + 1] * c->scale};
        double b[2] = {xy[2 * i + 2] * c->scale, xy[2 * i + 3] * c->scale};
        if (s->flag)
            dashed(c, a, b, r);
        else
            segment(c, a, b, r);
    }
    lay(c, 1);
}

/* Adds to a row of the mask the coverage of each pixel between x0 and x1. */
static void span(canvas *c, int y, double x0, double x1, double weight)
{
    x0 = clamp(x0, 0, c->width);
    x1 = clamp(x1, 0, c->width);
    float *row = c->mask + (size_t)y * (size_t)c->width;
    for (int x = (int)x0; x < c->width && x < x1; x++) {
        double share = fmin(x1, x + 1) - fmax(x0, x);
        if (share > 0) row[x] = (float)fmin(1, row[x] + share * weight);
    }
}

/* Where the outline crosses a scan line, next to the right of x; INFINITY if nowhere. */
static double next_crossing(const double *xy, size_t points, double scale, double y, double x)
{
    double best = INFINITY;
    for (size_t i = 0; i < points; i++) {
        const double *a = xy + 2 * i, *b = xy + 2 * ((i + 1) % points);
        double ay = a[1] * scale, by = b[1] * scale;
        if ((ay <= y) == (by <= y)) continue;
        double at = scale * (a[0] + (b[0] - a[0]) * (y - ay) / (by - ay));
        if (at > x && at < best) best = at;
    }
    return best;
}

/* Even-odd filling, four scan lines per pixel, exact along x. */
static void area(canvas *c, const double *xy, size_t points, double opacity)
{
    double top = INFINITY, bottom = -INFINITY;
    for (size_t i = 0; i < points; i++) {
        top = fmin(top, xy[2 * i + 1] * c->scale);
        bottom = fmax(bottom, xy[2 * i + 1] * c->scale);
    }
    int y0 = to_int(floor(top), 0, c->height), y1 = to_int(ceil(bottom), 0, c->height);
    touch(c, 0, y0, c->width, y1);
    for (int y = y0; y < y1; y++) {
        for (int k = 0; k < AREA_ROWS; k++) {
            double at = y + (k + 0.5) / AREA_ROWS, from = -INFINITY;
            for (;;) {
                double begin = next_crossing(xy, points, c->scale, at, from);
                double end = next_crossing(xy, points, c->scale, at, begin);
                if (!isfinite(begin) || !isfinite(end)) break;
                span(c, y, begin, end, 1.0 / AREA_ROWS);
                from = end;
            }
        }
    }
    lay(c, opacity);
}

static void star(canvas *c, const gd_drawing *s, const double *xy)
{
    double corner[20];
    gd__star(xy, s->size, corner);
    area(c, corner, 10, 1);
}

static void square(canvas *c, const double *at, double half)
{
    double top = clamp(at[1] - half, 0, c->height), bottom = clamp(at[1] + half, 0, c->height);
    touch(c, to_int(floor(at[0] - half), 0, c->width), (int)top, to_int(ceil(at[0] + half), 0, c->width),
          (int)ceil(bottom));
    for (int y = (int)top; y < bottom; y++)
        span(c, y, at[0] - half, at[0] + half, fmin(bottom, y + 1) - fmax(top, y));
}

static void marks(canvas *c, const gd_drawing *s, const double *xy)
{
    for (size_t i = 0; i < s->points; i++) {
        double at[2] = {xy[2 * i] * c->scale, xy[2 * i + 1] * c->scale};
        if (s->mark == GD_MARK_DISC)
            segment(c, at, at, s->size * c->scale);
        else if (s->mark == GD_MARK_RING)
            ring(c, at, s->size * c->scale, c->scale);
        else if (s->mark == GD_MARK_SQUARE)
            square(c, at, s->size * c->scale);
        else
            star(c, s, xy + 2 * i);
    }
    lay(c, s->opacity);
}

/* ---- letters ---- */

static void letter_stroke(void *user, const double *xy, size_t points)
{
    canvas *c = user;
    double last[2] = {0, 0};
    for (size_t i = 0; i < points; i++) {
        double along = xy[2 * i] * c->size, up = xy[2 * i + 1] * c->size;
        double at[2] = {c->origin[0] + (c->upwards ? -up : along), c->origin[1] - (c->upwards ? along : up)};
        if (i) segment(c, last, at, c->pen);
        memcpy(last, at, sizeof last);
    }
}

static void no_stroke(void *user, const double *xy, size_t points) { (void)user, (void)xy, (void)points; }

static void text(canvas *c, const gd_drawing *s, const double *xy, const char *utf8)
{
    c->size = s->size * c->scale;
    c->pen = 0.042 * c->size;
    c->upwards = s->flag;
    c->origin[0] = xy[0] * c->scale;
    c->origin[1] = xy[1] * c->scale;
    double shift = 0.5 * (s->anchor + 1) * c->size * gd__font_strokes(utf8, no_stroke, NULL);
    if (s->flag)
        c->origin[1] += shift;
    else
        c->origin[0] -= shift;
    (void)gd__font_strokes(utf8, letter_stroke, c);
    lay(c, 1);
}

/* ---- the picture ---- */

static void draw(canvas *c, const gd_picture *p)
{
    gd_rgb paper = gd__ink(GD_INK_PAPER, c->dark);
    for (size_t i = 0; i < (size_t)c->width * (size_t)c->height; i++)
        memcpy(c->rgb + 3 * i, (uint8_t[]){paper.r, paper.g, paper.b}, 3);
    for (size_t i = 0; i < p->shapes; i++) {
        const gd_drawing *s = &p->shape[i];
        const double *xy = p->xy + s->first;
        c->ink = gd__ink(s->ink, c->dark);
        switch ((gd_drawing_kind)s->kind) {
        case GD_DRAW_LINE: line(c, s, xy); break;
        case GD_DRAW_AREA: area(c, xy, s->points, s->size); break;
        case GD_DRAW_MARKS: marks(c, s, xy); break;
        case GD_DRAW_TEXT: text(c, s, xy, p->text.data + s->text); break;
        }
    }
}

gd_status gd__picture_png(const gd_picture *p, bool dark, double scale, gd_text *out)
{
    canvas c = {.ctx = p->ctx, .scale = scale, .dark = dark};
    c.width = to_int(ceil(p->width * scale), 1, 8192);
    c.height = to_int(ceil(p->height * scale), 1, 8192);
    c.x0 = c.width;
    c.y0 = c.height;
    size_t pixels = (size_t)c.width * (size_t)c.height;
    c.rgb = gd__alloc(c.ctx, 3 * pixels);
    c.mask = gd__calloc(c.ctx, pixels * sizeof *c.mask);
    gd_status status = c.rgb && c.mask ? GD_OK : GD_NOMEM;
    if (!status) {
        draw(&c, p);
        status = gd__png_encode(out, c.rgb, c.width, c.height);
    }
    gd__free(c.ctx, c.rgb, 3 * pixels);
    gd__free(c.ctx, c.mask, pixels * sizeof *c.mask);
    return status;
}
