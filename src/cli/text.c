/* JSON pieces; see text.h. */
#include "cli/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void gd__text_clear(gd_text *t)
{
    t->used = 0;
    t->failed = false;
    if (t->data) t->data[0] = 0;
}

/* ---- JSON ---- */

void gd__json_number(gd_text *t, double value)
{
    if (isnan(value))
        gd__text_add(t, "\"NaN\"");
    else if (isinf(value))
        gd__text_add(t, value > 0 ? "\"Infinity\"" : "\"-Infinity\"");
    else
        gd__text_put(t, "%.17g", value);
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
            gd__text_put(t, "\\%c", *s);
        else if (length == 1 && (*s < 0x20 || *s == 0x7F))
            gd__text_put(t, "\\u%04x", (unsigned)*s);
        else
            gd__text_append(t, s, length);
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
