/* Reading the texts of chains and schedules: spaces, names, numbers, strings, and errors with a column.
 *
 *   gd_text_scan s;
 *   if (gd__scan_begin(&s, ctx, "chain", text)) return ...;
 *   if (!gd__scan_take(&s, '(')) return gd__scan_fail(&s, s.at, "expected '('");     chain: column 5: expected '('
 *
 * Every function skips spaces before what it reads.  Nothing depends on the locale. */
#ifndef GD_BASE_TEXT_SCAN_H
#define GD_BASE_TEXT_SCAN_H

#include "base/ctx.h"

#define GD_SCAN_MAX_TEXT  65536
#define GD_SCAN_MAX_DEPTH 64
#define GD_NAME_SIZE      64 /* of names, the NUL included */
#define GD_NUMBER_SIZE    32
#define GD_WHERE_SIZE     64

typedef struct gd_text_scan {
    gd_ctx *ctx;
    const char *what; /* leads the errors */
    const char *text;
    size_t at; /* the next byte; text[at] is 0 at the end */
    int depth; /* brackets and parentheses that are open */
} gd_text_scan;

/* Fails for no text and for a text that is too long. */
gd_status gd__scan_begin(gd_text_scan *s, gd_ctx *ctx, const char *what, const char *text);
/* The next character that is not a space; 0 at the end. */
char gd__scan_peek(gd_text_scan *s);
/* Takes c if it is next. */
bool gd__scan_take(gd_text_scan *s, char c);
/* Takes an opening bracket that is next, or its closing one. */
gd_status gd__scan_open(gd_text_scan *s);
/* `open` is the position of the opening bracket, for the error. */
gd_status gd__scan_close(gd_text_scan *s, char close, size_t open);
/* Is the next thing a name?  A number word (inf, nan) counts as a number. */
bool gd__scan_is_name(gd_text_scan *s);
bool gd__scan_is_number(gd_text_scan *s);
/* Copies the next name. */
gd_status gd__scan_name(gd_text_scan *s, char name[GD_NAME_SIZE]);
/* Is there a '=' after the next name? Consumes nothing. */
bool gd__scan_is_assignment(gd_text_scan *s);
/* A number, or a fraction of two such as -1/2. */
gd_status gd__scan_number(gd_text_scan *s, double *value);
/* "text" with \" \\ \n \t.  *out is new, of *size bytes with its NUL: gd__free it. */
gd_status gd__scan_string(gd_text_scan *s, char **out, size_t *size);

/* Records PARSE: "WHAT: column N: ..." for the byte `at`; columns count characters from 1.  Returns PARSE. */
gd_status gd__scan_fail(gd_text_scan *s, size_t at, const char *format, ...) GD_PRINTF(3, 4);
/* The lead of such an error, "WHAT: column N: ", for others to add to.  Returns out. */
const char *gd__scan_where(const gd_text_scan *s, size_t at, char out[GD_WHERE_SIZE]);
/* "expected WHAT, got 'x'" for what is next. */
gd_status gd__scan_expected(gd_text_scan *s, const char *what);

/* Bytes of the name that a text begins with: a letter or _, then letters, digits and _. */
size_t gd__name_length(const char *text);
/* A letter or _, then letters, digits and _; not longer than fits.  False for NULL. */
bool gd__is_link_name(const char *text);
/* true, false, none, inf, nan. */
bool gd__is_reserved(const char *name);

/* The shortest of %.15g, %.16g, %.17g that reads back as the same number; inf, -inf, nan.  Returns out. */
const char *gd__number_text(double value, char out[GD_NUMBER_SIZE]);

/* ---- writing, as snprintf does ---- */

typedef struct gd_print {
    char *out;
    size_t size, used; /* used may exceed size: the length needed */
} gd_print;

gd_print gd__print(char *out, size_t size);
void gd__print_text(gd_print *p, const char *text);
void gd__print_number(gd_print *p, double value);
void gd__print_string(gd_print *p, const char *string); /* quoted */
/* The return value: the length, or -1 if it does not fit an int. */
int gd__print_end(const gd_print *p);

#endif
