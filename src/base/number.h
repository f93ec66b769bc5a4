/* Numbers from text, whatever the locale. */
#ifndef GD_BASE_NUMBER_H
#define GD_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads a decimal number at the start of text[0..length), whatever the locale: digits with '.' and exponent, and where
 * `special` is set also nan, inf and infinity in any case, with a sign.  Returns how many bytes it took, 0 if there is no
 * number (no leading spaces, no hexadecimal) or it has more than a thousand characters. */
size_t gd__parse_number(const char *text, size_t length, bool special, double *value);
/* All of text[0..length) is one number. */
bool gd__is_number(const char *text, size_t length, bool special, double *value);
/* All of a NUL-terminated text is one whole number that fits. */
bool gd__is_integer(const char *text, int64_t *value);

#endif
