/* A small stroke font for PNG and PDF files: each letter is a few strokes, drawn with a round pen.  Letters beyond ASCII are in
 * letters.c; an unknown one is a box with its number.
 *
 * A glyph is a text of strokes separated by '|'; a stroke is a list of points, two characters each: x and y + 4 in base 36, in
 * twentieths of the letter size, y upwards from the baseline (capitals are 14 high, small letters 10, tails go to -4).
 *
 *   04 5i a4       straight lines through the points
 *   (0b 0e 7e 74   a smooth curve: it begins and ends at the outer points, and the inner ones pull it towards them
 *   @04 74 7e 0e   the same, closed: a square gives a circle
 *
 * The curves are uniform quadratic B-splines. */
#include "plot/letters.h"
#include "plot/picture.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define UNIT        (1 / 20.0)
#define MAX_POINTS  16
#define CURVE_STEPS 6
#define SPACE       4   /* between letters */
#define SMALL       0.6 /* letters above and below the line */
#define DEPTH       6   /* of letters made of others */

static const char *const glyphs[95] = {
    /*   ! " # */ "",
    "0i 08|04 04",
    "0i 0f|3i 3f",
    "3i 14|8i 64|0e 9e|08 98",
    /* $ % & ' */ "(7f 7h 0h 0b 7b 75 05 07|3j 33",
    "@0c 4c 4i 0i|@64 a4 aa 6a|9i 14",
    "(a4 0f 2j 7j 7e 09 03 93 9a",
    /*         */ "0i 0f",
    /* ( ) * + */ "(3i 0g 06 31",
    "(0i 3g 36 01",
    "3i 3c|0h 6d|6h 0d",
    "45 4d|09 89",
    /* , - . / */ "14 02",
    "09 59",
    "04 04",
    "03 5i",
    /* 0 1 2 3 */ "@04 74 7i 0i",
    "1f 4i 44",
    "(0e 0i 7i 7b 04|04 74",
    "(0f 0i 6i 6b 3b|(3b 7b 74 04 07",
    /* 4 5 6 7 */ "54 5i 08 78",
    "7i 1i 0b|(0b 2d 7d 74 04 07",
    "@04 74 7d 0d|(6i 0g 08",
    "0i 7i 24",
    /* 8 9 : ; */ "@1b 6b 6i 1i|@04 74 7b 0b",
    "@09 79 7i 0i|(14 76 7e",
    "04 04|0d 0d",
    "14 02|1d 1d",
    /* < = > ? */ "8d 09 85",
    "0b 8b|07 87",
    "0d 89 05",
    "(0f 0i 6i 6c 3b 38|34 34",
    /* @ A B C */ "@47 87 8d 4d|(8d 87 c7 ci 0i 02 92",
    "04 5i a4|28 88",
    "04 0i|(0i 7i 7b 0b|(0b 8b 84 04",
    /*         */ "(9f 9i 0i 04 94 97",
    /* D E F G */ "04 0i|(0i 9i 94 04",
    "8i 0i 04 84|0b 7b",
    "8i 0i 04|0b 6b",
    "(9f 9i 0i 04 94 9a|5a 9a 94",
    /* H I J K */ "0i 04|9i 94|0b 9b",
    "0i 04",
    "(6i 64 04 08",
    "0i 04|8i 09|3c 94",
    /* L M N O */ "0i 04 84",
    "04 0i 56 ai a4",
    "04 0i 94 9i",
    "@04 a4 ai 0i",
    /* P Q R S */ "04 0i|(0i 8i 8a 0a",
    "@04 a4 ai 0i|68 a3",
    "04 0i|(0i 8i 8a 0a|4a 94",
    "(8f 8i 0i 0b 8b 84 04 07",
    /* T U V W */ "0i ai|5i 54",
    "(0i 0a 04 94 9a 9i",
    "0i 54 ai",
    "0i 34 7i b4 ei",
    /* X Y Z [ */ "0i 94|9i 04",
    "0i 5b ai|5b 54",
    "0i 9i 04 94",
    "3i 0i 01 31",
    /* \ ] ^ _ */ "0i 53",
    "0i 3i 31 01",
    "0e 3i 6e",
    "02 82",
    /* ` a b c */ "0i 2g",
    "@04 74 7e 0e|7e 74",
    "0i 04|@04 74 7e 0e",
    "(7c 7e 0e 04 74 76",
    /* d e f g */ "7i 74|@04 74 7e 0e",
    "09 79|(79 7e 0e 04 74 76",
    "(5i 2i 2e 24|0e 5e",
    "@04 74 7e 0e|(7e 70 00 02",
    /* h i j k */ "0i 04|(0b 0e 7e 74",
    "04 0e|0h 0h",
    "(2e 20 00|2h 2h",
    "0i 04|6e 08|2a 64",
    /* l m n o */ "0i 04",
    "0e 04|(0b 0e 5e 54|(5b 5e ae a4",
    "0e 04|(0b 0e 7e 74",
    "@04 74 7e 0e",
    /* p q r s */ "0e 00|@04 74 7e 0e",
    "7e 70|@04 74 7e 0e",
    "0e 04|(0a 0e 4e",
    "(6c 6e 0e 09 69 64 04 06",
    /* t u v w */ "(2h 24 54|0e 5e",
    "(0e 04 74 77|7e 74",
    "0e 34 6e",
    "0e 24 5e 84 ae",
    /* x y z { */ "0e 64|6e 04",
    "0e 34|6e 34 10",
    "0e 6e 04 64",
    "(4i 2i 2a 0a|(0a 2a 22 42",
    /* | } ~   */ "0i 00",
    "(0i 2i 2a 4a|(4a 2a 22 02",
    "(08 0b 4b 48 88 8b",
};

static int base36(char c) { return c >= 'a' ? c - 'a' + 10 : c - '0'; }

typedef struct pen {
    double x, y, scale; /* where the strokes begin, in units of the letter size, and their unit */
    void (*stroke)(void *, const double *, size_t);
    void *user;
    double top; /* the highest point since it was last set, in units of the font */
    double out[2 * (MAX_POINTS * CURVE_STEPS + 4)];
    size_t points;
} pen;

static void put(pen *p, double x, double y)
{
    p->out[2 * p->points] = p->x + x * p->scale;
    p->out[2 * p->points + 1] = p->y + y * p->scale;
    p->points++;
}

/* From a to c, pulled towards b. */
static void put_curve(pen *p, const double *a, const double *b, const double *c)
{
    for (int i = 1; i <= CURVE_STEPS; i++) {
        double t = (double)i / CURVE_STEPS, u = 1 - t;
        put(p, u * u * a[0] + 2 * u * t * b[0] + t * t * c[0],
            u * u * a[1] + 2 * u * t * b[1] + t * t * c[1]);
    }
}

static void middle(double *out, const double *a, const double *b)
{
    out[0] = (a[0] + b[0]) / 2;
    out[1] = (a[1] + b[1]) / 2;
}

static void smooth(pen *p, double (*point)[2], int count, bool closed)
{
    double from[2], to[2];
    int first = closed ? 0 : 1, last = closed ? count : count - 1;
    middle(from, point[closed ? count - 1 : 0], point[closed ? 0 : 1]);
    if (!closed) put(p, point[0][0], point[0][1]);
    put(p, from[0], from[1]);
    for (int i = first; i < last; i++) {
        middle(to, point[i], point[(i + 1) % count]);
        put_curve(p, from, point[i], to);
        memcpy(from, to, sizeof from);
    }
    if (!closed) put(p, point[count - 1][0], point[count - 1][1]);
}

/* Draws one stroke; returns where the next one begins, NULL at the end. */
static const char *draw_stroke(pen *p, const char *s, double *width)
{
    char kind = *s == '(' || *s == '@' ? *s++ : 0;
    double point[MAX_POINTS][2];
    int count = 0;
    for (; *s && *s != '|'; s += s[2] == ' ' ? 3 : 2) {
        point[count][0] = base36(s[0]);
        point[count][1] = base36(s[1]) - 4;
        *width = fmax(*width, point[count][0]);
        p->top = fmax(p->top, point[count][1]);
        count++;
    }
    p->points = 0;
    if (kind)
        smooth(p, point, count, kind == '@');
    else
        for (int i = 0; i < count; i++) put(p, point[i][0], point[i][1]);
    p->stroke(p->user, p->out, p->points);
    return *s ? s + 1 : NULL;
}

static double draw_strokes(pen *p, const char *strokes)
{
    double width = *strokes ? 0 : 1.5;
    for (const char *next = *strokes ? strokes : NULL; next;) next = draw_stroke(p, next, &width);
    return width;
}

/* ---- letters made of others ---- */

static double draw_letter(pen *p, uint32_t code, int depth);

/* The width of the drawn letter, in font units of the original pen. */
static double draw_small(pen *p, uint32_t code, double up, int depth)
{
    pen before = *p;
    p->y += up * p->scale;
    p->scale *= SMALL;
    double width = SMALL * draw_letter(p, code, depth);
    p->y = before.y;
    p->scale = before.scale;
    p->top = fmax(before.top, up + SMALL * p->top);
    return width;
}

static double draw_text(pen *p, const char *utf8, int depth)
{
    double width = 0, left = p->x;
    for (const char *s = utf8; *s;) {
        size_t length = gd__utf8_length(s);
        p->x = left + width * p->scale;
        width += draw_letter(p, gd__letter_code(s, length), depth);
        s += length ? length : 1;
        if (*s) width += SPACE;
    }
    p->x = left;
    return width;
}

/* Over, under or beside a letter of that width that is as high as p->top. */
static void draw_accent(pen *p, const gd_accent *accent, double width)
{
    double left = p->x, line = p->y, top = p->top;
    p->x += (accent->where == GD_ACCENT_RIGHT ? width - 1 : width / 2 - 3) * p->scale;
    if (accent->where == GD_ACCENT_ABOVE) p->y += (fmax(top, 10) + 2) * p->scale;
    if (accent->where == GD_ACCENT_RIGHT) p->y += 10 * p->scale;
    p->top = 0;
    (void)draw_strokes(p, accent->strokes);
    p->top = accent->where == GD_ACCENT_ABOVE ? fmax(top, 10) + 2 + p->top : top;
    p->x = left;
    p->y = line;
}

/* A box with the number of the letter in two rows. */
static double draw_number(pen *p, uint32_t code)
{
    char digits[12];
    (void)snprintf(digits, sizeof digits, code > 0xFFFF ? "%06X" : "%04X", (unsigned)code);
    size_t half = strlen(digits) / 2;
    double left = p->x, line = p->y, unit = p->scale, width = 2 + 6 * (double)half;
    double frame[5][2] = {{0, 0}, {width, 0}, {width, 18}, {0, 18}, {0, 0}};
    p->points = 0;
    for (int i = 0; i < 5; i++) put(p, frame[i][0], frame[i][1] - 2);
    p->stroke(p->user, p->out, p->points);
    for (size_t i = 0; digits[i]; i++) {
        p->x = left + (2 + 6 * (double)(i % half)) * unit;
        p->y = line + (i < half ? 8.5 : 0) * unit;
        p->scale = 0.4 * unit;
        (void)draw_strokes(p, glyphs[digits[i] - ' ']);
        p->scale = unit;
    }
    p->x = left;
    p->y = line;
    return width;
}

/* Draws a letter, and returns its width in units of the font. */
static double draw_letter(pen *p, uint32_t code, int depth)
{
    gd_letter letter;
    p->top = 0;
    if (code >= ' ' && code <= '~') return draw_strokes(p, glyphs[code - ' ']);
    const gd_accent *accent = gd__letter_accent(code);
    if (accent) { /* alone */
        p->top = 10;
        draw_accent(p, accent, 6);
        return 6;
    }
    if (depth > DEPTH || !gd__letter_find(code, &letter)) return draw_number(p, code);
    if (letter.strokes) return draw_strokes(p, letter.strokes);
    if (letter.text) return draw_text(p, letter.text, depth + 1);
    if (letter.small) return draw_small(p, letter.base, letter.small > 0 ? 7 : -3, depth + 1);
    double width = draw_letter(p, letter.base, depth + 1);
    if (letter.accent) draw_accent(p, letter.accent, width);
    return width;
}

double gd__font_strokes(const char *utf8, void (*stroke)(void *user, const double *xy, size_t points),
                        void *user)
{
    pen p = {.stroke = stroke, .user = user, .scale = UNIT};
    double x = 0, width = 0;
    for (const char *s = utf8; *s;) {
        size_t length = gd__utf8_length(s);
        uint32_t code = gd__letter_code(s, length);
        const gd_accent *accent = s > utf8 ? gd__letter_accent(code) : NULL;
        if (accent) { /* of the letter before it */
            draw_accent(&p, accent, width);
        } else {
            p.x = x + 2 * UNIT;
            width = draw_letter(&p, code, 0);
            x += (width + SPACE) * UNIT;
        }
        s += length ? length : 1;
    }
    return x;
}

bool gd__font_knows(const char *utf8, size_t length)
{
    gd_letter letter;
    uint32_t code = gd__letter_code(utf8, length);
    return (code >= ' ' && code <= '~') || gd__letter_accent(code) || gd__letter_find(code, &letter);
}
