/* A text that grows. */
#include "base/text/text.h"
#include "base/text/number.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* FNV-1a, then mixed so that all bits depend on all. */
static uint64_t add_to_hash(uint64_t hash, const char *text)
{
    if (!hash) hash = 14695981039346656037u;
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 1099511628211u;
    return hash ^ hash >> 32;
}

/* Makes room for `length` more characters and a NUL. */
static bool make_room(gd_text *t, size_t length)
{
    if (length < t->capacity - t->used) return true;
    size_t capacity = t->capacity * 2 + length + 1024;
    char *data = gd__realloc(t->ctx, t->data, t->capacity, capacity);
    if (!data) return false;
    t->data = data;
    t->capacity = capacity;
    return true;
}

void gd__text_put(gd_text *t, const char *format, ...)
{
    char piece[1024];
    va_list args;
    if (t->failed) return;
    va_start(args, format);
    int length = gd__vformat(piece, sizeof piece, format, args);
    va_end(args);
    if (t->hash_only) {
        t->hash = add_to_hash(t->hash, piece);
        return;
    }
    t->failed = length < 0 || !make_room(t, (size_t)length);
    if (t->failed) return;
    va_start(args, format);
    gd__vformat(t->data + t->used, (size_t)length + 1, format, args);
    va_end(args);
    t->used += (size_t)length;
}

void gd__text_append(gd_text *t, const char *data, size_t size)
{
    t->failed = t->failed || !make_room(t, size);
    if (t->failed) return;
    memcpy(t->data + t->used, data, size);
    t->used += size;
    t->data[t->used] = 0;
}

void gd__text_add(gd_text *t, const char *added) { gd__text_append(t, added, strlen(added)); }

void gd__text_comma(gd_text *t)
{
    char last = t->used ? t->data[t->used - 1] : '{';
    if (last != '{' && last != '[') gd__text_add(t, ", ");
}

void gd__text_number(gd_text *text, uint64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%" PRIu64, number);
    gd__text_add(text, digits);
}

void gd__text_quote(gd_text *text, const char *string)
{
    gd__text_append(text, "\"", 1);
    for (const char *next = string; *next;) {
        /* a run of what needs no escape, then one character that does */
        const char *run = next;
        while ((unsigned char)*next >= 0x20 && *next != '"' && *next != '\\') next++;
        gd__text_append(text, run, (size_t)(next - run));
        if (!*next) break;
        char escape[8];
        bool plain = *next == '"' || *next == '\\';
        snprintf(escape, sizeof escape, plain ? "\\%c" : "\\u%04x", (unsigned char)*next++);
        gd__text_add(text, escape);
    }
    gd__text_append(text, "\"", 1);
}

void gd__text_free(gd_text *t)
{
    gd__free(t->ctx, t->data, t->capacity);
    *t = (gd_text){.ctx = t->ctx};
}
