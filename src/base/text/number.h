/* Numbers from text and in text, whatever the locale: that of the program (setlocale) or of the thread (uselocale).  Everything
 * that reads or writes a number with a fraction goes through here; tools/check_locale finds exceptions. */
#ifndef GD_BASE_NUMBER_H
#define GD_BASE_NUMBER_H

#include "gradus/base.h"

#include <locale.h>
#include <stdarg.h>

/* Reads a decimal number at the start of text[0..length), whatever the locale: digits with '.' and exponent, and where
 * `special` is set also nan, inf and infinity in any case, with a sign.  Returns the number of bytes read, 0 if there is no
 * number (no leading spaces, no hexadecimal) or it has more than a thousand characters. */
size_t gd__parse_number(const char *text, size_t length, bool special, double *value);
/* All of text[0..length) is one number. */
bool gd__is_number(const char *text, size_t length, bool special, double *value);
/* All of a NUL-terminated text is one whole number that fits. */
bool gd__is_integer(const char *text, int64_t *value);

extern const double gd__tens[23]; /* powers of ten that are exact */
bool gd__wide_decimal(uint64_t digits, int64_t exponent, double *value);
/* digits * 10^exponent, correctly rounded; false where that takes more than 128 bits. */
static inline bool gd__decimal(uint64_t digits, int64_t exponent, double *value)
{
    if (digits > (UINT64_C(1) << 53) || exponent < -22 || exponent > 22)
        return gd__wide_decimal(digits, exponent, value);
    /* both are exact doubles, so one rounding (Clinger 1990) */
    *value = exponent < 0 ? (double)digits / gd__tens[-exponent] : (double)digits * gd__tens[exponent];
    return true;
}

/* snprintf and vsnprintf with a decimal point. */
int gd__format(char *out, size_t size, const char *format, ...) GD_PRINTF(3, 4);
int gd__vformat(char *out, size_t size, const char *format, va_list args) GD_PRINTF(3, 0);

/* For foreign code that reads or writes numbers: the thread is in the C locale between the two. */
locale_t gd__c_locale_begin(void);
void gd__c_locale_end(locale_t before);

#endif
