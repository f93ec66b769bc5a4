/* A picture as a list of drawing commands, and the ways to write it.  All draw the same list, so they agree.
 *
 *   gd_picture *p = gd__picture_new(ctx, 800, 500);
 *   gd__picture_line(p, GD_INK_SERIES, 2, false, xy, 3);        points x0 y0 x1 y1 x2 y2
 *   gd__picture_text(p, GD_INK_TEXT, 14, 400, 20, 0, false, "loss");
 *   gd__picture_svg(p, false, &text);                            or gd__picture_png, gd__picture_pdf
 *   gd__picture_free(p);
 *
 * Coordinates are pixels, y downwards.  Colours are inks: each has a value on light and on dark paper, and an SVG follows what
 * the reader's system prefers. */
#ifndef GD_PLOT_PICTURE_H
#define GD_PLOT_PICTURE_H

#include "base/text/compose.h"

enum {
    GD_INK_PAPER,
    GD_INK_TEXT,
    GD_INK_AXIS,
    GD_INK_GRID,
    GD_INK_SERIES,                                 /* the first of GD_SERIES_INKS */
    GD_SERIES_INKS = 8,                            /* distinct for the colour-blind too */
    GD_INK_LEVEL = GD_INK_SERIES + GD_SERIES_INKS, /* the first of GD_LEVEL_INKS, from low to high */
    GD_LEVEL_INKS = 16,
    GD_INK_COUNT = GD_INK_LEVEL + GD_LEVEL_INKS
};

typedef enum gd_mark_shape { GD_MARK_DISC, GD_MARK_RING, GD_MARK_STAR, GD_MARK_SQUARE } gd_mark_shape;

typedef struct gd_picture gd_picture;

/* New; NULL on no memory.  A failed addition is recorded in the context and the picture stays usable. */
gd_picture *gd__picture_new(gd_ctx *ctx, double width, double height);
void gd__picture_free(gd_picture *p); /* NULL is fine */

void gd__picture_line(gd_picture *p, int ink, double width, bool dashed, const double *xy, size_t points);
void gd__picture_area(gd_picture *p, int ink, double opacity, const double *xy, size_t points);
void gd__picture_marks(gd_picture *p, int ink, gd_mark_shape shape, double radius, const double *xy,
                       size_t points);
/* Squares of any opacity: the cells of a density. */
void gd__picture_cells(gd_picture *p, int ink, double opacity, double half, const double *xy, size_t points);
/* anchor: -1 begins at x, 0 is centred, 1 ends there; y is the baseline.  `upwards` turns it by a quarter: reads bottom to
 * top, x is the baseline. */
void gd__picture_text(gd_picture *p, int ink, double size, double x, double y, int anchor, bool upwards,
                      const char *utf8);

#define GD_TEXT_SPACE 1.12 /* additional width of other fonts */
/* The approximate width of a text; a little more than in most fonts. */
double gd__text_width(const char *utf8, double size);

/* All append to `out`.  SVG: without `dark` it follows what the reader's system prefers. */
gd_status gd__picture_svg(const gd_picture *p, bool dark, gd_text *out);
gd_status gd__picture_pdf(const gd_picture *p, bool dark, gd_text *out);
/* scale: pixels per unit. */
gd_status gd__picture_png(const gd_picture *p, bool dark, double scale, gd_text *out);

/* ---- common to the writers ---- */

typedef enum gd_drawing_kind { GD_DRAW_LINE, GD_DRAW_AREA, GD_DRAW_MARKS, GD_DRAW_TEXT } gd_drawing_kind;

typedef struct gd_drawing {
    uint8_t kind, ink;
    int8_t anchor;
    bool flag; /* dashed, upwards */
    gd_mark_shape mark;
    double size;          /* width, radius, letter size, opacity of an area */
    double opacity;       /* of marks */
    size_t first, points; /* in p->xy, two numbers each */
    size_t text;          /* offset in p->text */
} gd_drawing;

struct gd_picture {
    gd_ctx *ctx;
    double width, height;
    gd_drawing *shape;
    size_t shapes, shape_bytes;
    double *xy;
    size_t numbers, xy_bytes;
    gd_text text;
};

typedef struct gd_rgb {
    uint8_t r, g, b;
} gd_rgb;

gd_rgb gd__ink(int ink, bool dark);
/* The ten corners of a star. */
void gd__star(const double *centre, double radius, double corner[20]);

/* ---- the letters of the PNG and PDF writers (font.c) ---- */

/* Calls `stroke` for every stroke of a text, flattened to lines: points x y in units of the letter size, y upwards from the
 * baseline.  Returns the width. */
double gd__font_strokes(const char *utf8, void (*stroke)(void *user, const double *xy, size_t points),
                        void *user);

/* Has the font the character of `length` bytes?  If not, its number is drawn in a box. */
bool gd__font_knows(const char *utf8, size_t length);

/* PNG bytes of an image of rows of RGB (png.c). */
gd_status gd__png_encode(gd_text *out, const uint8_t *rgb, int width, int height);

#endif
