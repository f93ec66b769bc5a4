/* Composition of texts: JSON, cells of CSV, text for a terminal.  The growing text itself is base/text/text.h.
 *
 *   gd_text t = gd__text(ctx);
 *   gd__text_add(&t, "{\"loss\": ");
 *   gd__json_number(&t, loss);                 %.17g: reads back as the same number
 *   if (t.failed) ...                          no memory: recorded in the context, later additions do nothing
 *   gd__text_free(&t); */
#ifndef GD_BASE_TEXT_COMPOSE_H
#define GD_BASE_TEXT_COMPOSE_H

#include "base/text/number.h"
#include "base/text/text.h"

static inline gd_text gd__text(gd_ctx *ctx) { return (gd_text){.ctx = ctx}; }
static inline void gd__text_char(gd_text *t, char c) { gd__text_append(t, &c, 1); }
/* The text so far, "" if empty.  Borrowed. */
static inline const char *gd__text_string(const gd_text *t) { return t->data ? t->data : ""; }
/* Empties it and keeps the memory. */
void gd__text_clear(gd_text *t);

/* ---- JSON, written piece by piece ----
 * A number has 17 significant digits.  JSON knows no NaN and no infinities: they become the strings "NaN", "Infinity" and
 * "-Infinity", as in the JSON form of protocol buffers. */
void gd__json_number(gd_text *t, double value);
void gd__json_string(gd_text *t, const char *utf8);
/* Members of an object: the comma and "key":, and the value. */
void gd__json_key(gd_text *t, const char *key);
void gd__json_put_number(gd_text *t, const char *key, double value);
void gd__json_put_whole(gd_text *t, const char *key, int64_t value);
void gd__json_put_string(gd_text *t, const char *key, const char *utf8);

/* A cell of a table, quoted where it must be. */
void gd__csv_put(gd_text *out, const char *text);

/* ---- data on a terminal ----
 * Names and texts that came from files and command lines may hold control characters, and a terminal obeys them.  Everything that the
 * program writes for people goes through here: characters that control a terminal or the writing direction become \u001b, bytes that are not UTF-8
 * become \xff.  Line ends and tabs stay only with `lines`. */
void gd__text_plain(gd_text *out, const char *text, size_t size, bool lines);
/* Is the character of `length` bytes (0: malformed) one that must not reach a terminal? */
bool gd__is_control(const char *character, size_t length);
/* The same for one character, at text[*at], which moves on: the bytes written. */
#define GD_PLAIN_PIECE 16
size_t gd__plain_piece(const char *text, size_t size, size_t *at, bool lines, char out[GD_PLAIN_PIECE]);

/* Bytes of the UTF-8 character at a NUL-terminated text, 0 if it is malformed (overlong, surrogate, beyond U+10FFFF). */
size_t gd__utf8_length(const char *text);
/* Bytes of the letter, digit or _ at the beginning of `size` bytes, 0 if there is none.  Beyond ASCII: letters of all scripts, their
 * marks and subscripts, but no operators, arrows, punctuation, superscripts, pictures. */
size_t gd__name_letter(const char *text, size_t size);

#endif
