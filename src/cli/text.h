/* Text that grows, numbers as text and back, and the nearest known name.
 *
 *   gd_text t = gd__text(ctx);
 *   gd__text_add(&t, "loss ");
 *   gd__text_number(&t, loss);                 %.17g: reads back as the same number
 *   if (t.failed) ...                          no memory: recorded in the context, later additions do nothing
 *   gd__text_free(&t); */
#ifndef GD_CLI_TEXT_H
#define GD_CLI_TEXT_H

#include "base/ctx.h"

typedef struct gd_text {
    gd_ctx *ctx;
    char *data; /* NUL-terminated once something was added; NULL before */
    size_t size, capacity;
    bool failed;
} gd_text;

gd_text gd__text(gd_ctx *ctx);
void gd__text_free(gd_text *t);
void gd__text_clear(gd_text *t); /* keeps the memory */
void gd__text_add(gd_text *t, const char *text);
void gd__text_add_bytes(gd_text *t, const void *data, size_t size);
void gd__text_char(gd_text *t, char c);
void gd__text_format(gd_text *t, const char *format, ...) GD_PRINTF(2, 3);
/* What was added, "" if nothing.  Borrowed. */
const char *gd__text_string(const gd_text *t);

/* ---- JSON, written piece by piece ----
 * A number has 17 significant digits.  JSON knows no NaN and no infinities: they become the strings "NaN", "Infinity" and
 * "-Infinity", as in the JSON form of protocol buffers. */
void gd__json_number(gd_text *t, double value);
void gd__json_string(gd_text *t, const char *utf8);
void gd__json_key(gd_text *t, bool *first, const char *key); /* the comma, if one is due, and "key": */

/* Bytes of the UTF-8 character at a NUL-terminated text, 0 if it is malformed (overlong, surrogate, beyond U+10FFFF). */
size_t gd__utf8_length(const char *text);

/* ---- numbers ---- */

/* Reads a decimal number at the start of text[0..length), whatever the locale: digits with '.' and exponent, and where
 * `special` is set also nan, inf and infinity in any case, with a sign.  Returns how many bytes it took, 0 if there is no
 * number (no leading spaces, no hexadecimal). */
size_t gd__parse_number(const char *text, size_t length, bool special, double *value);
/* All of text[0..length) is one number. */
bool gd__is_number(const char *text, size_t length, bool special, double *value);
/* All of a NUL-terminated text is one whole number that fits. */
bool gd__is_integer(const char *text, int64_t *value);

/* ---- names ---- */

/* The candidate nearest to text[0..length) by edit distance, if it is near enough to be what was meant; else NULL.  Feed
 * candidates one by one, or use the array form. */
typedef struct gd_nearest {
    const char *text;
    size_t length;
    const char *best;
    int distance;
} gd_nearest;

gd_nearest gd__nearest(const char *text, size_t length);
void gd__nearest_try(gd_nearest *n, const char *candidate);
/* ", did you mean 'exp'?" or "" in buf, which is returned. */
const char *gd__nearest_hint(const gd_nearest *n, char buf[96]);

#endif
