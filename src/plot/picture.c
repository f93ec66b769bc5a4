/* Pictures as lists of commands, and their inks; see picture.h. */
#include "plot/picture.h"

#include <math.h>
#include <string.h>

/* ---- inks ---- */

/* Series: the Okabe-Ito palette, which colour-blind readers can distinguish, with lighter variants for dark paper. */
static const gd_rgb inks[GD_INK_LEVEL][2] = {
    {{255, 255, 255}, {22, 24, 29}},  {{31, 35, 40}, {230, 232, 236}},   {{87, 96, 106}, {150, 158, 168}},
    {{225, 228, 232}, {52, 57, 65}},  {{0, 98, 163}, {86, 180, 233}},    {{213, 94, 0}, {255, 150, 66}},
    {{0, 138, 100}, {64, 201, 162}},  {{180, 85, 145}, {229, 147, 199}}, {{170, 120, 0}, {240, 200, 80}},
    {{70, 60, 160}, {160, 150, 255}}, {{120, 80, 50}, {205, 165, 130}},  {{80, 80, 80}, {190, 190, 190}},
};

/* From deep to pale, so that the lowest levels stand out on either paper. */
static gd_rgb level_ink(int level, bool dark)
{
    static const double ends[2][2][3] = {{{30, 60, 140}, {190, 205, 215}}, {{120, 200, 255}, {58, 70, 84}}};
    double t = (double)level / (GD_LEVEL_INKS - 1), c[3];
    for (int i = 0; i < 3; i++) c[i] = ends[dark][0][i] * (1 - t) + ends[dark][1][i] * t;
    return (gd_rgb){(uint8_t)lround(c[0]), (uint8_t)lround(c[1]), (uint8_t)lround(c[2])};
}

gd_rgb gd__ink(int ink, bool dark)
{
    return ink >= GD_INK_LEVEL ? level_ink(ink - GD_INK_LEVEL, dark) : inks[ink][dark];
}

/* ---- lists ---- */

gd_picture *gd__picture_new(gd_ctx *ctx, double width, double height)
{
    gd_picture *p = gd__calloc(ctx, sizeof *p);
    if (!p) return NULL;
    p->ctx = ctx;
    p->width = width;
    p->height = height;
    p->text = gd__text(ctx);
    return p;
}

void gd__picture_free(gd_picture *p)
{
    if (!p) return;
    gd__free(p->ctx, p->shape, p->shape_bytes);
    gd__free(p->ctx, p->xy, p->xy_bytes);
    gd__text_free(&p->text);
    gd__free(p->ctx, p, sizeof *p);
}

static gd_drawing *add(gd_picture *p, gd_drawing shape, const double *xy, size_t points)
{
    if (!p || !gd__grow(p->ctx, &p->shape, &p->shape_bytes, (p->shapes + 1) * sizeof *p->shape) ||
        !gd__grow(p->ctx, &p->xy, &p->xy_bytes, (p->numbers + 2 * points) * sizeof *p->xy))
        return NULL;
    shape.first = p->numbers;
    shape.points = points;
    memcpy(p->xy + p->numbers, xy, 2 * points * sizeof *xy);
    p->numbers += 2 * points;
    p->shape[p->shapes] = shape;
    return &p->shape[p->shapes++];
}

void gd__picture_line(gd_picture *p, int ink, double width, bool dashed, const double *xy, size_t points)
{
    if (points > 1)
        (void)add(p, (gd_drawing){.kind = GD_DRAW_LINE, .ink = (uint8_t)ink, .flag = dashed, .size = width},
                  xy, points);
}

void gd__picture_area(gd_picture *p, int ink, double opacity, const double *xy, size_t points)
{
    if (points > 2)
        (void)add(p, (gd_drawing){.kind = GD_DRAW_AREA, .ink = (uint8_t)ink, .size = opacity}, xy, points);
}

void gd__picture_marks(gd_picture *p, int ink, gd_mark_shape shape, double radius, const double *xy,
                       size_t points)
{
    if (points)
        (void)add(
            p,
            (gd_drawing){
                .kind = GD_DRAW_MARKS, .ink = (uint8_t)ink, .mark = shape, .size = radius, .opacity = 1},
            xy, points);
}

void gd__picture_cells(gd_picture *p, int ink, double opacity, double half, const double *xy, size_t points)
{
    if (points)
        (void)add(p,
                  (gd_drawing){.kind = GD_DRAW_MARKS,
                               .ink = (uint8_t)ink,
                               .mark = GD_MARK_SQUARE,
                               .size = half,
                               .opacity = opacity},
                  xy, points);
}

void gd__star(const double *centre, double radius, double corner[20])
{
    for (int i = 0; i < 10; i++) {
        double angle = M_PI * i / 5, r = i % 2 ? 0.45 * radius : radius;
        corner[2 * i] = centre[0] + r * sin(angle);
        corner[2 * i + 1] = centre[1] - r * cos(angle);
    }
}

void gd__picture_text(gd_picture *p, int ink, double size, double x, double y, int anchor, bool upwards,
                      const char *utf8)
{
    if (!p || !*utf8) return;
    size_t at = p->text.used;
    gd__text_append(&p->text, utf8, strlen(utf8) + 1);
    if (p->text.failed) return;
    gd_drawing shape = {.kind = GD_DRAW_TEXT,
                        .ink = (uint8_t)ink,
                        .anchor = (int8_t)anchor,
                        .flag = upwards,
                        .size = size,
                        .text = at};
    (void)add(p, shape, (double[]){x, y}, 1);
}

static void no_stroke(void *user, const double *xy, size_t points) { (void)user, (void)xy, (void)points; }

double gd__text_width(const char *utf8, double size)
{
    return GD_TEXT_SPACE * size * gd__font_strokes(utf8, no_stroke, NULL);
}
