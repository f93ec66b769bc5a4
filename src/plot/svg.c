/* Writing a picture as SVG: one element per shape, colours in a style sheet with a dark variant. */
#include "plot/picture.h"
#include "base/text/number.h"

#include <string.h>

/* A coordinate with at most two decimals and no trailing zeros. */
static void coordinate(gd_text *out, double value)
{
    char text[64];
    int length = gd__format(text, sizeof text, "%.2f", value);
    while (length > 1 && text[length - 1] == '0') length--;
    if (text[length - 1] == '.') length--;
    if (length == 2 && !memcmp(text, "-0", 2)) memcpy(text, "0", (size_t)(length = 1));
    gd__text_append(out, text, (size_t)length);
}

static void attribute(gd_text *out, const char *name, double value)
{
    gd__text_put(out, " %s=\"", name);
    coordinate(out, value);
    gd__text_char(out, '"');
}

static void points(gd_text *out, const double *xy, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        gd__text_char(out, i ? 'L' : 'M');
        coordinate(out, xy[2 * i]);
        gd__text_char(out, ' ');
        coordinate(out, xy[2 * i + 1]);
    }
}

/* Text for XML: reserved characters are escaped, forbidden ones dropped or replaced. */
static void escaped(gd_text *out, const char *text)
{
    for (const char *s = text; *s;) {
        size_t length = gd__utf8_length(s);
        if (length == 0 || (length == 3 && !memcmp(s, "\xEF\xBF", 2) && (s[2] & 0x3E) == 0x3E))
            gd__text_add(out, "\xEF\xBF\xBD");
        else if (*s == '&')
            gd__text_add(out, "&amp;");
        else if (*s == '<')
            gd__text_add(out, "&lt;");
        else if (*s == '>')
            gd__text_add(out, "&gt;");
        else if (!gd__is_control(s, length))
            gd__text_append(out, s, length);
        s += length ? length : 1;
    }
}

static void line(gd_text *out, const gd_drawing *s, const double *xy)
{
    gd__text_put(out, "<path class=\"l i%d\"", s->ink);
    attribute(out, "stroke-width", s->size);
    if (s->flag) gd__text_add(out, " stroke-dasharray=\"6 4\"");
    gd__text_add(out, " d=\"");
    points(out, xy, s->points);
    gd__text_add(out, "\"/>\n");
}

static void area(gd_text *out, const gd_drawing *s, const double *xy)
{
    gd__text_put(out, "<path class=\"a i%d\"", s->ink);
    if (s->size < 1) attribute(out, "fill-opacity", s->size);
    gd__text_add(out, " d=\"");
    points(out, xy, s->points);
    gd__text_add(out, "Z\"/>\n");
}

static void star(gd_text *out, const gd_drawing *s, const double *xy)
{
    double corner[20];
    gd__star(xy, s->size, corner);
    gd__text_put(out, "<path class=\"a i%d\" d=\"", s->ink);
    points(out, corner, 10);
    gd__text_add(out, "Z\"/>\n");
}

/* One path for all: a density has thousands. */
static void squares(gd_text *out, const gd_drawing *s, const double *xy)
{
    gd__text_put(out, "<path class=\"a i%d\"", s->ink);
    if (s->opacity < 1) attribute(out, "fill-opacity", s->opacity);
    gd__text_add(out, " d=\"");
    for (size_t i = 0; i < s->points; i++) {
        points(out, (const double[]){xy[2 * i] - s->size, xy[2 * i + 1] - s->size}, 1);
        gd__text_char(out, 'h');
        coordinate(out, 2 * s->size);
        gd__text_char(out, 'v');
        coordinate(out, 2 * s->size);
        gd__text_char(out, 'h');
        coordinate(out, -2 * s->size);
        gd__text_char(out, 'z');
    }
    gd__text_add(out, "\"/>\n");
}

static void marks(gd_text *out, const gd_drawing *s, const double *xy)
{
    if (s->mark == GD_MARK_SQUARE) {
        squares(out, s, xy);
        return;
    }
    for (size_t i = 0; i < s->points; i++) {
        if (s->mark == GD_MARK_STAR) {
            star(out, s, xy + 2 * i);
            continue;
        }
        gd__text_put(out, "<circle class=\"%s i%d\"", s->mark == GD_MARK_RING ? "r" : "a", s->ink);
        attribute(out, "cx", xy[2 * i]);
        attribute(out, "cy", xy[2 * i + 1]);
        attribute(out, "r", s->size);
        gd__text_add(out, "/>\n");
    }
}

static void text(gd_text *out, const gd_drawing *s, const double *xy, const char *utf8)
{
    gd__text_put(out, "<text class=\"a i%d\"", s->ink);
    attribute(out, "font-size", s->size);
    if (s->anchor >= 0) gd__text_put(out, " text-anchor=\"%s\"", s->anchor ? "end" : "middle");
    if (s->flag) {
        gd__text_add(out, " transform=\"translate(");
        coordinate(out, xy[0]);
        gd__text_char(out, ' ');
        coordinate(out, xy[1]);
        gd__text_add(out, ") rotate(-90)\"");
    } else {
        attribute(out, "x", xy[0]);
        attribute(out, "y", xy[1]);
    }
    gd__text_char(out, '>');
    escaped(out, utf8);
    gd__text_add(out, "</text>\n");
}

/* One rule per ink: letters, areas and discs are filled with it, lines and rings drawn. */
static void ink_rules(gd_text *out, const bool *used, bool dark)
{
    for (int i = 0; i < GD_INK_COUNT; i++) {
        if (!used[i]) continue;
        gd_rgb c = gd__ink(i, dark);
        gd__text_put(out, ".a.i%d{fill:#%02x%02x%02x}.l.i%d,.r.i%d{stroke:#%02x%02x%02x}\n", i, c.r, c.g, c.b,
                     i, i, c.r, c.g, c.b);
    }
}

static void style(gd_text *out, const bool *used, bool dark)
{
    gd__text_add(out, "<style>\n"
                      "text{font-family:Helvetica,Arial,\"Liberation Sans\",sans-serif}\n"
                      ".l{fill:none;stroke-linejoin:round;stroke-linecap:round}\n"
                      ".r{fill:none;stroke-width:2}\n");
    ink_rules(out, used, dark);
    if (!dark) {
        gd__text_add(out, "@media (prefers-color-scheme:dark){\n");
        ink_rules(out, used, true);
        gd__text_add(out, "}\n");
    }
    gd__text_add(out, "</style>\n");
}

gd_status gd__picture_svg(const gd_picture *p, bool dark, gd_text *out)
{
    bool used[GD_INK_COUNT] = {[GD_INK_PAPER] = true};
    for (size_t i = 0; i < p->shapes; i++) used[p->shape[i].ink] = true;
    gd__text_put(out,
                 "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" "
                 "viewBox=\"0 0 %.0f %.0f\">\n",
                 p->width, p->height, p->width, p->height);
    style(out, used, dark);
    gd__text_put(out, "<rect class=\"a i%d\" width=\"%.0f\" height=\"%.0f\"/>\n", GD_INK_PAPER, p->width,
                 p->height);
    for (size_t i = 0; i < p->shapes; i++) {
        const gd_drawing *s = &p->shape[i];
        const double *xy = p->xy + s->first;
        switch ((gd_drawing_kind)s->kind) {
        case GD_DRAW_LINE: line(out, s, xy); break;
        case GD_DRAW_AREA: area(out, s, xy); break;
        case GD_DRAW_MARKS: marks(out, s, xy); break;
        case GD_DRAW_TEXT: text(out, s, xy, p->text.data + s->text); break;
        }
    }
    gd__text_add(out, "</svg>\n");
    return gd_error(p->ctx);
}
