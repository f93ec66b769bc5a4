/* Reading and writing numbers; see number.h. */
#include "base/text/number.h"

#include "base/text/ascii.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* newlocale returns a constant for "C": nothing is allocated, and nothing can fail. */
locale_t gd__c_locale_begin(void) { return uselocale(newlocale(LC_ALL_MASK, "C", (locale_t)0)); }

void gd__c_locale_end(locale_t before) { (void)uselocale(before); }

int gd__vformat(char *out, size_t size, const char *format, va_list args)
{
    locale_t before = gd__c_locale_begin();
    int length = vsnprintf(out, size, format, args);
    gd__c_locale_end(before);
    return length;
}

int gd__format(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int length = gd__vformat(out, size, format, args);
    va_end(args);
    return length;
}

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
    for (; at < length && gd__is_digit(s[at]); at++) {
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
    if (p >= length || !gd__is_digit(s[p])) return at;
    int64_t value = 0;
    for (; p < length && gd__is_digit(s[p]); p++)
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

static bool slow_number(const char *text, size_t length, double *value)
{
    char buf[1024];
    if (length >= sizeof buf) return false;
    memcpy(buf, text, length);
    buf[length] = 0;
    locale_t before = gd__c_locale_begin();
    *value = strtod(buf, NULL);
    gd__c_locale_end(before);
    return true;
}

static size_t special_number(const char *s, size_t length, double *value)
{
    size_t sign = length && (s[0] == '+' || s[0] == '-'), used = 0;
    double v = 0;
    if (length - sign >= 8 && gd__begins_with(s + sign, "infinity", 8))
        used = 8, v = INFINITY;
    else if (length - sign >= 3 && gd__begins_with(s + sign, "inf", 3))
        used = 3, v = INFINITY;
    else if (length - sign >= 3 && gd__begins_with(s + sign, "nan", 3))
        used = 3, v = NAN;
    if (!used) return 0;
    *value = sign && s[0] == '-' ? -v : v;
    return used + sign;
}

const double gd__tens[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                             1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

__extension__ typedef unsigned __int128 wide;

/* The double nearest to m * 2^exponent, of two the even one; `more`: m is a little larger than its bits say. */
static double round_wide(wide m, bool more, int exponent)
{
    uint64_t high = (uint64_t)(m >> 64);
    int bits = high ? 128 - __builtin_clzll(high) : 64 - __builtin_clzll((uint64_t)m), drop = bits - 53;
    if (drop > 0) {
        wide rest = m & (((wide)1 << drop) - 1), half = (wide)1 << (drop - 1);
        m >>= drop;
        m += rest > half || (rest == half && (more || (m & 1)));
        exponent += drop;
    }
    uint64_t power = (uint64_t)(1023 + exponent) << 52;
    double scale;
    memcpy(&scale, &power, sizeof scale);
    return (double)(uint64_t)m * scale;
}

/* 10^n is 5^n, which has 64 bits at most up to n = 27, and a shift; the product has 128, and so has the quotient with its remainder. */
bool gd__wide_decimal(uint64_t digits, int64_t exponent, double *value)
{
    uint64_t five = 1;
    if (exponent < -27 || exponent > 27) return false;
    for (int64_t i = exponent < 0 ? -exponent : exponent; i > 0; i--) five *= 5;
    if (!digits) {
        *value = 0;
    } else if (exponent >= 0) {
        *value = round_wide((wide)digits * five, false, (int)exponent);
    } else {
        int shift = __builtin_clzll(digits); /* at least 64 bits are in the quotient */
        wide over = (wide)(digits << shift) << 64, quotient = over / five;
        *value = round_wide(quotient, quotient * five != over, (int)exponent - shift - 64);
    }
    return true;
}

size_t gd__parse_number(const char *text, size_t length, bool special, double *value)
{
    decimal d = scan_decimal(text, length);
    if (!d.length) return special ? special_number(text, length, value) : 0;
    if (d.exact && gd__decimal(d.mantissa, d.exponent, value)) {
        if (d.negative) *value = -*value;
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
        if (!gd__is_digit(*s) || __builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_add_overflow(v, (int64_t)(*s - '0'), &v))
            return false;
    }
    *value = negative ? -v : v;
    return true;
}
