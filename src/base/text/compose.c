/* JSON, CSV cells and text for terminals; see compose.h. */
#include "base/text/compose.h"
#include "base/text/ascii.h"

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

static uint32_t code_of(const char *text, size_t length)
{
    const unsigned char *s = (const unsigned char *)text;
    if (length == 1) return s[0];
    uint32_t code = s[0] & (0xFFu >> (length + 1));
    for (size_t i = 1; i < length; i++) code = code << 6 | (s[i] & 0x3Fu);
    return code;
}

/* Ranges that hold no letters, first and last. */
static const uint32_t no_letters[][2] = {
    {0x80, 0xA9},     {0xAB, 0xB4},     {0xB6, 0xB9},       {0xBB, 0xBF},       {0xD7, 0xD7},
    {0xF7, 0xF7},     {0x37E, 0x37E},   {0x2000, 0x207F},   {0x208A, 0x208F},   {0x20A0, 0x20CF},
    {0x2150, 0x2BFF}, {0x2E00, 0x2E7F}, {0x3000, 0x3004},   {0x3007, 0x3030},   {0xE000, 0xF8FF},
    {0xFD3E, 0xFD3F}, {0xFE00, 0xFE6F}, {0xFEFF, 0xFF0F},   {0xFF1A, 0xFF20},   {0xFF3B, 0xFF40},
    {0xFF5B, 0xFF65}, {0xFFE0, 0xFFFF}, {0x1F000, 0x1FAFF}, {0xE0000, 0x10FFFF}};

size_t gd__name_letter(const char *text, size_t size)
{
    char few[5] = {0};
    memcpy(few, text, size < 4 ? size : 4);
    if (gd__is_letter(*few) || gd__is_digit(*few) || *few == '_') return 1;
    size_t length = gd__utf8_length(few);
    if (length < 2) return 0;
    uint32_t code = code_of(few, length);
    for (size_t i = 0; i < sizeof no_letters / sizeof *no_letters; i++)
        if (code >= no_letters[i][0] && code <= no_letters[i][1]) return 0;
    return length;
}

/* ---- data on a terminal ---- */

/* Ranges that end a line, change the direction of writing, or are invisible: they could hide one name inside a second. */
static const uint32_t controls[][2] = {{0x00, 0x1F},     {0x7F, 0x9F},      {0xAD, 0xAD},
                                       {0x061C, 0x061C}, {0x180E, 0x180E},  {0x200B, 0x200F},
                                       {0x2028, 0x202E}, {0x2060, 0x206F},  {0xFEFF, 0xFEFF},
                                       {0xFFF9, 0xFFFB}, {0xE0000, 0xE0FFF}};

bool gd__is_control(const char *character, size_t length)
{
    if (!length) return true;
    uint32_t c = code_of(character, length);
    for (size_t i = 0; i < sizeof controls / sizeof *controls; i++)
        if (c >= controls[i][0] && c <= controls[i][1]) return true;
    return false;
}

size_t gd__plain_piece(const char *text, size_t size, size_t *at, bool lines, char out[GD_PLAIN_PIECE])
{
    char few[5] = {0};
    memcpy(few, text + *at, size - *at < 4 ? size - *at : 4);
    size_t length = few[0] ? gd__utf8_length(few) : 1;
    *at += length ? length : 1;
    if (!gd__is_control(few, length) || (lines && (few[0] == '\n' || few[0] == '\t'))) {
        memcpy(out, few, length);
        return length;
    }
    int written = length == 4 ? snprintf(out, GD_PLAIN_PIECE, "\\U%08x", code_of(few, length))
                  : length    ? snprintf(out, GD_PLAIN_PIECE, "\\u%04x", code_of(few, length))
                              : snprintf(out, GD_PLAIN_PIECE, "\\x%02x", (unsigned)(unsigned char)few[0]);
    return (size_t)written;
}

void gd__text_plain(gd_text *out, const char *text, size_t size, bool lines)
{
    char piece[GD_PLAIN_PIECE];
    for (size_t at = 0, begin = 0; at < size; begin = at) {
        /* plain letters by the run */
        while (at < size && text[at] >= 0x20 && text[at] < 0x7F) at++;
        gd__text_append(out, text + begin, at - begin);
        if (at < size) gd__text_append(out, piece, gd__plain_piece(text, size, &at, lines, piece));
    }
}

/* ---- JSON strings ---- */

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

/* ---- JSON objects ---- */

void gd__json_key(gd_text *t, const char *key)
{
    gd__text_comma(t);
    gd__json_string(t, key);
    gd__text_add(t, ": ");
}

void gd__json_put_number(gd_text *t, const char *key, double value)
{
    gd__json_key(t, key);
    gd__json_number(t, value);
}

void gd__json_put_whole(gd_text *t, const char *key, int64_t value)
{
    gd__json_key(t, key);
    gd__text_put(t, "%lld", (long long)value);
}

void gd__json_put_string(gd_text *t, const char *key, const char *utf8)
{
    gd__json_key(t, key);
    gd__json_string(t, utf8);
}

/* ---- CSV ---- */

void gd__csv_put(gd_text *out, const char *text)
{
    if (!strpbrk(text, ",\"\r\n") && *text != ' ' && *text != '#') {
        gd__text_add(out, text);
        return;
    }
    gd__text_char(out, '"');
    for (const char *s = text; *s; s++) {
        if (*s == '"') gd__text_char(out, '"');
        gd__text_char(out, *s);
    }
    gd__text_char(out, '"');
}
