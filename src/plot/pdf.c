/* Writing a picture as PDF: one page, one stream of drawing commands, letters as strokes, so that no font is needed and text looks
 * as in the PNG.  A unit of the picture is 0.75 pt, which makes 800 units 600 pt. */
#include "plot/picture.h"

#include <math.h>

#define UNIT   0.75
#define ARC    0.5522847498 /* of a quarter circle by a cubic curve */
#define LEVELS 20           /* opacities, in steps of 1 / LEVELS */

typedef struct page {
    gd_text *out;
    bool dark;
    double size, origin[2]; /* of letters */
    bool upwards;
} page;

static void number(gd_text *out, double v) { gd__text_put(out, "%.2f ", v); }

static void point(gd_text *out, double x, double y, const char *command)
{
    number(out, x);
    number(out, y);
    gd__text_add(out, command);
}

/* Ink of strokes and areas. */
static void use_ink(const page *p, int ink, double opacity)
{
    gd_rgb c = gd__ink(ink, p->dark);
    const double part[] = {c.r / 255.0, c.g / 255.0, c.b / 255.0};
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < 3; i++) gd__text_put(p->out, "%.4f ", part[i]);
        gd__text_add(p->out, k ? "RG " : "rg ");
    }
    gd__text_put(p->out, "/o%d gs\n", (int)fmin(fmax(round(opacity * LEVELS), 1), LEVELS));
}

static void outline(gd_text *out, const double *xy, size_t points)
{
    for (size_t i = 0; i < points; i++) point(out, xy[2 * i], xy[2 * i + 1], i ? "l\n" : "m\n");
}

static void circle(gd_text *out, double x, double y, double r)
{
    static const double turn[4][2] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};
    point(out, x + r, y, "m ");
    for (int k = 0; k < 4; k++) {
        const double *a = turn[k], *b = turn[(k + 1) % 4];
        point(out, x + r * (a[0] + ARC * b[0]), y + r * (a[1] + ARC * b[1]), "");
        point(out, x + r * (b[0] + ARC * a[0]), y + r * (b[1] + ARC * a[1]), "");
        point(out, x + r * b[0], y + r * b[1], "c ");
    }
    gd__text_char(out, '\n');
}

static void put_marks(const page *p, const gd_drawing *s, const double *xy)
{
    gd_text *out = p->out;
    for (size_t i = 0; i < s->points; i++, xy += 2) {
        double corner[20];
        switch (s->mark) {
        case GD_MARK_SQUARE:
            point(out, xy[0] - s->size, xy[1] - s->size, "");
            point(out, 2 * s->size, 2 * s->size, "re\n");
            break;
        case GD_MARK_STAR:
            gd__star(xy, s->size, corner);
            outline(out, corner, 10);
            break;
        default: circle(out, xy[0], xy[1], s->size);
        }
    }
    gd__text_add(out, s->mark == GD_MARK_RING ? "2 w S\n" : "f\n");
}

static void put_stroke(void *user, const double *xy, size_t points)
{
    const page *p = user;
    for (size_t i = 0; i < points; i++) {
        double along = xy[2 * i] * p->size, up = xy[2 * i + 1] * p->size;
        point(p->out, p->origin[0] + (p->upwards ? -up : along), p->origin[1] - (p->upwards ? along : up),
              i ? "l " : "m ");
    }
    /* a dot is a line of no length, which round ends make visible */
    if (points == 1) point(p->out, p->origin[0] + xy[0] * p->size, p->origin[1] - xy[1] * p->size, "l ");
}

static void put_text(page *p, const gd_drawing *s, const double *xy, const char *utf8)
{
    double shift = 0.5 * (s->anchor + 1) * s->size * gd__text_width(utf8, 1) / GD_TEXT_SPACE;
    p->size = s->size;
    p->upwards = s->flag;
    p->origin[0] = xy[0] - (s->flag ? 0 : shift);
    p->origin[1] = xy[1] + (s->flag ? shift : 0);
    gd__text_put(p->out, "%.3f w\n", 0.084 * s->size);
    (void)gd__font_strokes(utf8, put_stroke, p);
    gd__text_add(p->out, "S\n");
}

static void put_shape(page *p, const gd_drawing *s, const double *xy, const char *text)
{
    gd_text *out = p->out;
    use_ink(p, s->ink, s->kind == GD_DRAW_AREA ? s->size : s->kind == GD_DRAW_MARKS ? s->opacity : 1);
    switch ((gd_drawing_kind)s->kind) {
    case GD_DRAW_LINE:
        gd__text_put(out, "%.2f w %s d\n", s->size, s->flag ? "[6 4] 0" : "[] 0");
        outline(out, xy, s->points);
        gd__text_add(out, s->flag ? "S [] 0 d\n" : "S\n");
        break;
    case GD_DRAW_AREA:
        outline(out, xy, s->points);
        gd__text_add(out, "h f*\n");
        break;
    case GD_DRAW_MARKS: put_marks(p, s, xy); break;
    case GD_DRAW_TEXT: put_text(p, s, xy, text + s->text); break;
    }
}

static void put_page(const gd_picture *picture, page *p)
{
    gd_text *out = p->out;
    /* y downwards, round joints and ends */
    gd__text_put(out, "%.2f 0 0 -%.2f 0 %.2f cm 1 j 1 J\n", UNIT, UNIT, UNIT * picture->height);
    use_ink(p, GD_INK_PAPER, 1);
    gd__text_put(out, "0 0 %.2f %.2f re f\n", picture->width, picture->height);
    for (size_t i = 0; i < picture->shapes; i++) {
        const gd_drawing *s = &picture->shape[i];
        put_shape(p, s, picture->xy + s->first, picture->text.data);
    }
}

/* An object of the file, and where it begins. */
static void begin_object(gd_text *out, size_t first, size_t *place, int number)
{
    place[number] = out->used - first;
    gd__text_put(out, "%d 0 obj\n", number);
}

gd_status gd__picture_pdf(const gd_picture *picture, bool dark, gd_text *out)
{
    enum { CATALOGUE = 1, PAGES, PAGE, STREAM, OBJECTS };
    size_t place[OBJECTS] = {0}, first = out->used;
    gd_text content = gd__text(picture->ctx);
    page p = {.out = &content, .dark = dark};
    put_page(picture, &p);
    gd__text_add(out, "%PDF-1.4\n");
    begin_object(out, first, place, CATALOGUE);
    gd__text_put(out, "<</Type/Catalog/Pages %d 0 R>>\nendobj\n", PAGES);
    begin_object(out, first, place, PAGES);
    gd__text_put(out, "<</Type/Pages/Count 1/Kids[%d 0 R]>>\nendobj\n", PAGE);
    begin_object(out, first, place, PAGE);
    gd__text_put(out,
                 "<</Type/Page/Parent %d 0 R/MediaBox[0 0 %.2f %.2f]/Contents %d 0 R/Resources<</ExtGState<<",
                 PAGES, UNIT * picture->width, UNIT * picture->height, STREAM);
    for (int k = 1; k <= LEVELS; k++)
        gd__text_put(out, "/o%d<</ca %.2f/CA %.2f>>", k, (double)k / LEVELS, (double)k / LEVELS);
    gd__text_add(out, ">>>>>>\nendobj\n");
    begin_object(out, first, place, STREAM);
    gd__text_put(out, "<</Length %zu>>\nstream\n", content.used);
    gd__text_append(out, gd__text_string(&content), content.used);
    gd__text_add(out, "endstream\nendobj\n");
    size_t table = out->used - first;
    gd__text_put(out, "xref\n0 %d\n0000000000 65535 f \n", OBJECTS);
    for (int k = 1; k < OBJECTS; k++) gd__text_put(out, "%010zu 00000 n \n", place[k]);
    gd__text_put(out, "trailer\n<</Size %d/Root %d 0 R>>\nstartxref\n%zu\n%%%%EOF\n", OBJECTS, CATALOGUE,
                 table);
    bool failed = content.failed || out->failed;
    gd__text_free(&content);
    return failed ? GD_NOMEM : gd_error(picture->ctx);
}
