/* Reading and writing small texts; see scan.h. */
#include "base/text/scan.h"
#include "base/text/number.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

size_t gd__name_length(const char *text)
{
    size_t n = 0;
    if (!is_letter(text[0])) return 0;
    while (is_letter(text[n]) || is_digit(text[n])) n++;
    return n;
}

static bool same(const char *text, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(text, word, length);
}

/* ---- errors ---- */

const char *gd__scan_where(const gd_text_scan *s, size_t at, char out[GD_WHERE_SIZE])
{
    size_t column = 1;
    for (size_t i = 0; i < at; i++)
        column += ((unsigned char)s->text[i] & 0xC0) != 0x80; /* UTF-8 characters */
    (void)snprintf(out, GD_WHERE_SIZE, "%.24s: column %zu: ", s->what, column);
    return out;
}

gd_status gd__scan_fail(gd_text_scan *s, size_t at, const char *format, ...)
{
    char where[GD_WHERE_SIZE], text[512];
    va_list args;
    va_start(args, format);
    (void)gd__vformat(text, sizeof text, format, args);
    va_end(args);
    return gd_fail(s->ctx, GD_PARSE, "%s%s", gd__scan_where(s, at, where), text);
}

gd_status gd__scan_expected(gd_text_scan *s, const char *what)
{
    if (!gd__scan_peek(s)) return gd__scan_fail(s, s->at, "expected %s, but the text ends", what);
    /* a whole word or a whole character */
    const char *got = s->text + s->at;
    size_t length = gd__name_length(got);
    if (!length) length = 1;
    while (((unsigned char)got[length] & 0xC0) == 0x80) length++;
    return gd__scan_fail(s, s->at, "expected %s, got '%.*s'", what, (int)(length < 60 ? length : 60), got);
}

/* ---- reading ---- */

gd_status gd__scan_begin(gd_text_scan *s, gd_ctx *ctx, const char *what, const char *text)
{
    *s = (gd_text_scan){.ctx = ctx, .what = what, .text = text};
    if (!text) return gd_fail(ctx, GD_ARGUMENT, "%s: no text", what);
    if (strnlen(text, GD_SCAN_MAX_TEXT + 1) <= GD_SCAN_MAX_TEXT) return GD_OK;
    return gd_fail(ctx, GD_PARSE, "%s: longer than %d bytes", what, GD_SCAN_MAX_TEXT);
}

char gd__scan_peek(gd_text_scan *s)
{
    while (is_space(s->text[s->at])) s->at++;
    return s->text[s->at];
}

bool gd__scan_take(gd_text_scan *s, char c)
{
    if (gd__scan_peek(s) != c) return false;
    s->at++;
    return true;
}

gd_status gd__scan_open(gd_text_scan *s)
{
    if (s->depth >= GD_SCAN_MAX_DEPTH)
        return gd__scan_fail(s, s->at, "nested deeper than %d levels", GD_SCAN_MAX_DEPTH);
    s->at++;
    s->depth++;
    return GD_OK;
}

gd_status gd__scan_close(gd_text_scan *s, char close, size_t open)
{
    char next = gd__scan_peek(s), expected[] = {'\'', ',', '\'', ' ', 'o', 'r', ' ', '\'', close, '\'', 0};
    if (next == close) {
        s->at++;
        s->depth--;
        return GD_OK;
    }
    if (!next) return gd__scan_fail(s, open, "'%c' is not closed", s->text[open]);
    return gd__scan_expected(s, expected);
}

/* Length of a number word at text, 0 if there is none. */
static size_t number_word(const char *text)
{
    size_t n = gd__name_length(text);
    return same(text, n, "inf") || same(text, n, "nan") ? n : 0;
}

bool gd__scan_is_name(gd_text_scan *s)
{
    char c = gd__scan_peek(s);
    return is_letter(c) && !number_word(s->text + s->at);
}

bool gd__scan_is_number(gd_text_scan *s)
{
    char c = gd__scan_peek(s);
    return is_digit(c) || c == '.' || c == '-' || c == '+' || number_word(s->text + s->at);
}

gd_status gd__scan_name(gd_text_scan *s, char name[GD_NAME_SIZE])
{
    if (!is_letter(gd__scan_peek(s))) return gd__scan_expected(s, "a name");
    size_t length = gd__name_length(s->text + s->at);
    if (length >= GD_NAME_SIZE)
        return gd__scan_fail(s, s->at, "the name '%.20s...' is longer than %d letters", s->text + s->at,
                             GD_NAME_SIZE - 1);
    memcpy(name, s->text + s->at, length);
    name[length] = 0;
    s->at += length;
    return GD_OK;
}

bool gd__scan_is_assignment(gd_text_scan *s)
{
    if (!is_letter(gd__scan_peek(s))) return false;
    const char *next = s->text + s->at + gd__name_length(s->text + s->at);
    while (is_space(*next)) next++;
    return *next == '=';
}

/* A number without a fraction bar. */
static gd_status scan_plain_number(gd_text_scan *s, double *value)
{
    char c = gd__scan_peek(s);
    size_t begin = s->at, sign = c == '-' || c == '+';
    const char *digits = s->text + begin + sign;
    size_t word = number_word(digits), length = word;
    if (word)
        *value = *digits == 'i' ? INFINITY : NAN;
    else if (*digits != '-' && *digits != '+')
        length = gd__parse_number(digits, strlen(digits), false, value);
    if (!length && !sign) return gd__scan_expected(s, "a number");
    char after = digits[length];
    if (!length || is_letter(after) || is_digit(after) || after == '.') {
        size_t all = length;
        while (is_letter(digits[all]) || is_digit(digits[all]) || digits[all] == '.') all++;
        return gd__scan_fail(s, begin, "malformed number '%.*s'", (int)(all + sign < 40 ? all + sign : 40),
                             s->text + begin);
    }
    if (isinf(*value) && !word)
        return gd__scan_fail(s, begin, "the number %.*s is too large", (int)(length < 40 ? length : 40),
                             digits);
    if (c == '-') *value = -*value;
    s->at += sign + length;
    return GD_OK;
}

gd_status gd__scan_number(gd_text_scan *s, double *value)
{
    gd_status status = scan_plain_number(s, value);
    if (status || gd__scan_peek(s) != '/') return status;
    size_t bar = s->at++;
    double divisor;
    status = scan_plain_number(s, &divisor);
    if (!status && divisor == 0) status = gd__scan_fail(s, bar, "division by zero");
    if (!status) *value /= divisor;
    return status;
}

/* The character that a backslash and c stand for; 0 if nothing. */
static char escaped(char c) { return c == 'n' ? '\n' : c == 't' ? '\t' : c == '"' || c == '\\' ? c : 0; }

gd_status gd__scan_string(gd_text_scan *s, char **out, size_t *size)
{
    if (gd__scan_peek(s) != '"') return gd__scan_expected(s, "a string");
    size_t begin = s->at, end = begin + 1, length = 0;
    for (; s->text[end] && s->text[end] != '"'; end++, length++) {
        if (s->text[end] != '\\') continue;
        if (!s->text[++end]) break;
        if (!escaped(s->text[end])) return gd__scan_fail(s, end - 1, "unknown escape in a string");
    }
    if (!s->text[end]) return gd__scan_fail(s, begin, "the string is not closed");
    char *copy = gd__alloc(s->ctx, length + 1);
    if (!copy) return GD_NOMEM;
    char *to = copy;
    for (const char *from = s->text + begin + 1; *from != '"'; from++) {
        bool escape = *from == '\\';
        if (escape) from++;
        *to++ = escape ? escaped(*from) : *from;
    }
    *to = 0;
    *out = copy;
    *size = length + 1;
    s->at = end + 1;
    return GD_OK;
}

bool gd__is_link_name(const char *text)
{
    size_t n = text ? gd__name_length(text) : 0;
    return n && !text[n] && n < GD_NAME_SIZE;
}

bool gd__is_reserved(const char *name)
{
    static const char *const words[] = {"true", "false", "none", "inf", "nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(name, words[i])) return true;
    return false;
}

/* ---- writing ---- */

const char *gd__number_text(double value, char out[GD_NUMBER_SIZE])
{
    if (!isfinite(value)) {
        (void)snprintf(out, GD_NUMBER_SIZE, "%s", isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
        return out;
    }
    double read = 0;
    for (int digits = 15; digits <= 17; digits++) {
        int length = gd__format(out, GD_NUMBER_SIZE, "%.*g", digits, value);
        if (gd__is_number(out, (size_t)length, false, &read) && read == value) break;
    }
    return out;
}

gd_print gd__print(char *out, size_t size)
{
    if (!out) size = 0;
    if (size) out[0] = 0;
    return (gd_print){.out = out, .size = size};
}

static void print_bytes(gd_print *p, const char *text, size_t length)
{
    if (p->used + 1 < p->size) {
        size_t room = p->size - p->used - 1, fits = length < room ? length : room;
        memcpy(p->out + p->used, text, fits);
        p->out[p->used + fits] = 0;
    }
    p->used += length;
}

void gd__print_text(gd_print *p, const char *text) { print_bytes(p, text, strlen(text)); }

void gd__print_number(gd_print *p, double value)
{
    char text[GD_NUMBER_SIZE];
    gd__print_text(p, gd__number_text(value, text));
}

void gd__print_string(gd_print *p, const char *string)
{
    gd__print_text(p, "\"");
    for (const char *c = string; *c; c++) {
        if (*c == '"' || *c == '\\' || *c == '\n' || *c == '\t') {
            char escape[] = {'\\', *c == '\n' ? 'n' : *c == '\t' ? 't' : *c, 0};
            gd__print_text(p, escape);
        } else
            print_bytes(p, c, 1);
    }
    gd__print_text(p, "\"");
}

int gd__print_end(const gd_print *p) { return p->used > INT32_MAX ? -1 : (int)p->used; }
