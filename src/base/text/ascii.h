/* Letters as ASCII has them, whatever the locale: in a Turkish one tolower('I') is not 'i', in a Latin-1 one bytes of UTF-8 are
 * letters. */
#ifndef GD_BASE_ASCII_H
#define GD_BASE_ASCII_H

#include <stdbool.h>
#include <stddef.h>

static inline bool gd__is_digit(char c) { return c >= '0' && c <= '9'; }
static inline char gd__lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }
static inline bool gd__is_letter(char c) { return gd__lower(c) >= 'a' && gd__lower(c) <= 'z'; }
static inline bool gd__is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* text begins with word[0..length), capitals or not. */
static inline bool gd__begins_with(const char *text, const char *word, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (gd__lower(text[i]) != gd__lower(word[i]) || !text[i]) return false;
    return true;
}

#endif
