/* Growing text, JSON pieces, numbers, nearest names; see text.h. */
#include "cli/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

gd_text gd__text(gd_ctx *ctx) { return (gd_text){.ctx = ctx}; }

void gd__text_free(gd_text *t)
{
    gd__free(t->ctx, t->data, t->capacity);
    *t = gd__text(t->ctx);
}

void gd__text_clear(gd_text *t)
{
    t->size = 0;
    t->failed = false;
    if (t->data) t->data[0] = 0;
}

/* Room for `more` bytes and the final NUL. */
static bool reserve(gd_text *t, size_t more)
{
    if (t->failed) return false;
    size_t need;
    if (__builtin_add_overflow(t->size, more, &need) || need >= SIZE_MAX / 2) {
        (void)gd_fail(t->ctx, GD_OVERFLOW, "a text grows too long");
        t->failed = true;
        return false;
    }
    if (need < t->capacity) return true;
    size_t capacity = t->capacity ? t->capacity * 2 : 256;
    while (capacity <= need) capacity *= 2;
    char *data = gd__realloc(t->ctx, t->data, t->capacity, capacity);
    if (!data) {
        t->failed = true;
        return false;
    }
    t->data = data;
    t->capacity = capacity;
    return true;
}

void gd__text_add_bytes(gd_text *t, const void *data, size_t size)
{
    if (!size || !reserve(t, size)) return;
    memcpy(t->data + t->size, data, size);
    t->size += size;
    t->data[t->size] = 0;
}

void gd__text_add(gd_text *t, const char *text) { gd__text_add_bytes(t, text, strlen(text)); }

void gd__text_char(gd_text *t, char c) { gd__text_add_bytes(t, &c, 1); }

void gd__text_format(gd_text *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int need = vsnprintf(NULL, 0, format, args);
    va_end(args);
    if (need < 0 || !reserve(t, (size_t)need)) return;
    va_start(args, format);
    (void)vsnprintf(t->data + t->size, (size_t)need + 1, format, args);
    va_end(args);
    t->size += (size_t)need;
}

const char *gd__text_string(const gd_text *t) { return t->data ? t->data : ""; }

/* ---- JSON ---- */

void gd__json_number(gd_text *t, double value)
{
    if (isnan(value))
        gd__text_add(t, "\"NaN\"");
    else if (isinf(value))
        gd__text_add(t, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        gd__text_format(t, "%.17g", value);
}

size_t gd__utf8_length(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    if (s[0] < 0x80) return 1;
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    for (size_t i = 1; i < length; i++)
        if ((s[i] & 0xC0) != 0x80) return 0;
    if ((s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
        (s[0] == 0xF4 && s[1] > 0x8F))
        return 0;
    return length;
}

void gd__json_string(gd_text *t, const char *utf8)
{
    gd__text_char(t, '"');
    for (const char *s = utf8; *s;) {
        size_t length = gd__utf8_length(s);
        if (length == 0)
            gd__text_add(t, "\\ufffd");
        else if (*s == '"' || *s == '\\')
            gd__text_format(t, "\\%c", *s);
        else if (length == 1 && (*s < 0x20 || *s == 0x7F))
            gd__text_format(t, "\\u%04x", (unsigned)*s);
        else
            gd__text_add_bytes(t, s, length);
        s += length ? length : 1;
    }
    gd__text_char(t, '"');
}

void gd__json_key(gd_text *t, bool *first, const char *key)
{
    if (!*first) gd__text_add(t, ", ");
    *first = false;
    gd__json_string(t, key);
    gd__text_add(t, ": ");
}

/* ---- numbers ---- */

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* The shape of a decimal number: [sign] digits [. digits] [e [sign] digits], with at least one digit before the e. */
typedef struct decimal {
    size_t length;
    bool negative;
    bool exact;        /* mantissa holds every digit */
    uint64_t mantissa; /* all digits without the point */
    int64_t exponent;  /* of ten */
} decimal;

static size_t scan_digits(const char *s, size_t at, size_t length, decimal *d, bool fraction)
{
    for (; at < length && is_digit(s[at]); at++) {
        unsigned digit = (unsigned)(s[at] - '0');
        if (d->mantissa > (UINT64_MAX - digit) / 10)
            d->exact = false;
        else
            d->mantissa = d->mantissa * 10 + digit;
        if (fraction) d->exponent--;
    }
    return at;
}

static size_t scan_exponent(const char *s, size_t at, size_t length, decimal *d)
{
    size_t p = at + 1;
    bool negative = p < length && s[p] == '-';
    if (p < length && (s[p] == '+' || s[p] == '-')) p++;
    if (p >= length || !is_digit(s[p])) return at;
    int64_t value = 0;
    for (; p < length && is_digit(s[p]); p++)
        if (value < 1000000) value = value * 10 + (s[p] - '0');
    d->exponent += negative ? -value : value;
    return p;
}

static decimal scan_decimal(const char *s, size_t length)
{
    decimal d = {.exact = true};
    size_t at = 0;
    if (at < length && (s[at] == '+' || s[at] == '-')) d.negative = s[at++] == '-';
    size_t begin = at;
    at = scan_digits(s, at, length, &d, false);
    size_t digits = at - begin;
    if (at < length && s[at] == '.') {
        size_t point = ++at;
        at = scan_digits(s, at, length, &d, true);
        digits += at - point;
    }
    if (digits == 0) return d;
    if (at < length && (s[at] == 'e' || s[at] == 'E')) at = scan_exponent(s, at, length, &d);
    d.length = at;
    return d;
}

/* strtod in the C locale, whatever the program's is.  (newlocale returns a constant for "C": nothing is allocated.) */
static bool slow_number(const char *text, size_t length, double *value)
{
    char buf[1024];
    if (length >= sizeof buf) return false;
    memcpy(buf, text, length);
    buf[length] = 0;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return false;
    locale_t own = uselocale(c);
    *value = strtod(buf, NULL);
    (void)uselocale(own);
    freelocale(c);
    return true;
}

static size_t special_number(const char *s, size_t length, double *value)
{
    size_t sign = length && (s[0] == '+' || s[0] == '-'), used = 0;
    double v = 0;
    if (length - sign >= 8 && !strncasecmp(s + sign, "infinity", 8))
        used = 8, v = INFINITY;
    else if (length - sign >= 3 && !strncasecmp(s + sign, "inf", 3))
        used = 3, v = INFINITY;
    else if (length - sign >= 3 && !strncasecmp(s + sign, "nan", 3))
        used = 3, v = NAN;
    if (!used) return 0;
    *value = sign && s[0] == '-' ? -v : v;
    return used + sign;
}

size_t gd__parse_number(const char *text, size_t length, bool special, double *value)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                  1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    decimal d = scan_decimal(text, length);
    if (!d.length) return special ? special_number(text, length, value) : 0;
    /* both factors are exact doubles, so one rounding: correct (Clinger 1990) */
    if (d.exact && d.mantissa <= (1ull << 53) && d.exponent >= -22 && d.exponent <= 22) {
        double m = (double)d.mantissa;
        m = d.exponent < 0 ? m / tens[-d.exponent] : m * tens[d.exponent];
        *value = d.negative ? -m : m;
        return d.length;
    }
    return slow_number(text, d.length, value) ? d.length : 0;
}

bool gd__is_number(const char *text, size_t length, bool special, double *value)
{
    return length && gd__parse_number(text, length, special, value) == length;
}

bool gd__is_integer(const char *text, int64_t *value)
{
    bool negative = *text == '-';
    const char *s = text + (*text == '-' || *text == '+');
    int64_t v = 0;
    if (!*s) return false;
    for (; *s; s++) {
        if (!is_digit(*s) || __builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_add_overflow(v, (int64_t)(*s - '0'), &v))
            return false;
    }
    *value = negative ? -v : v;
    return true;
}

/* ---- names ---- */

#define NAME_LIMIT 48

static int lower(char c) { return c >= 'A' && c <= 'Z' ? c + 32 : c; }

static int least(int a, int b) { return a < b ? a : b; }

/* Edits (insert, delete, replace, swap of neighbours) from a to b; case counts half a step, so distances are doubled. */
static int edit_distance(const char *a, size_t m, const char *b, size_t n)
{
    int row[3][NAME_LIMIT + 1];
    for (size_t j = 0; j <= n; j++) row[0][j] = (int)(2 * j);
    for (size_t i = 1; i <= m; i++) {
        int *now = row[i % 3], *above = row[(i + 2) % 3], *above2 = row[(i + 1) % 3];
        now[0] = (int)(2 * i);
        for (size_t j = 1; j <= n; j++) {
            int same = a[i - 1] == b[j - 1] ? 0 : lower(a[i - 1]) == lower(b[j - 1]) ? 1 : 2;
            now[j] = least(above[j - 1] + same, 2 + least(above[j], now[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], above2[j - 2] + 2);
        }
    }
    return row[m % 3][n];
}

gd_nearest gd__nearest(const char *text, size_t length)
{
    /* one edit in three letters is near: two for a name of five */
    int limit = length < 2 ? 1 : 2 * (int)((length + 1) / 3);
    return (gd_nearest){.text = text, .length = length, .distance = (limit > 6 ? 6 : limit) + 1};
}

void gd__nearest_try(gd_nearest *n, const char *candidate)
{
    size_t length = strlen(candidate);
    if (length > NAME_LIMIT || n->length > NAME_LIMIT || n->length == 0) return;
    int distance = edit_distance(n->text, n->length, candidate, length);
    /* nothing of the shorter one would be left: not a misspelling */
    if (distance >= 2 * (int)(length < n->length ? length : n->length)) return;
    if (distance < n->distance) {
        n->distance = distance;
        n->best = candidate;
    }
}

const char *gd__nearest_hint(const gd_nearest *n, char buf[96])
{
    buf[0] = 0;
    if (n->best) (void)snprintf(buf, 96, ", did you mean '%.60s'?", n->best);
    return buf;
}
