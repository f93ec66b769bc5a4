/* Components of letters beyond ASCII, for the stroke font (font.c). */
#ifndef GD_PLOT_LETTERS_H
#define GD_PLOT_LETTERS_H

#include "gradus/base.h"

typedef struct gd_accent {
    uint16_t code; /* of the combining character */
    enum { GD_ACCENT_ABOVE, GD_ACCENT_BELOW, GD_ACCENT_RIGHT } where;
    const char *strokes; /* six units wide, from its own baseline */
} gd_accent;

typedef struct gd_letter {
    const char *strokes;     /* its own, as those of font.c; NULL: it is composed of others */
    uint32_t base;           /* drawn in its place, or 0 */
    const gd_accent *accent; /* on the base, or NULL */
    int small;               /* the base is small: 1 above the line, -1 below it */
    const char *text;        /* the letters that replace it, or NULL */
} gd_letter;

/* The number of a character of UTF-8; U+FFFD if it is none. */
uint32_t gd__letter_code(const char *utf8, size_t length);
/* False: nothing is known about the letter. */
bool gd__letter_find(uint32_t code, gd_letter *out);
/* A combining character; NULL: unknown. */
const gd_accent *gd__letter_accent(uint32_t code);

#endif
