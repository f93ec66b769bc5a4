/* Spelling of settings; see spelling.h. */
#include "base/spelling.h"
#include "base/text/ascii.h"

#include <stdio.h>
#include <string.h>

/* Members as in C, which need a dot in front, and arguments of functions, which do not. */
static const char *const arguments[][2] = {
    {"by", "by"}, {"chosen_groups", "groups"}, {"folds", "folds"}, {"export", "export"}, {NULL, NULL}};
static const gd_vocabulary in_c = {.before = ".", .after = "", .join = '_', .names = arguments};

static size_t name_length(const char *text)
{
    size_t length = 0;
    while (gd__is_letter(text[length]) || (length && (text[length] == '_' || gd__is_digit(text[length]))))
        length++;
    return length;
}

/* The bytes written, without a NUL; size if there is no room. */
static size_t put_setting(const gd_vocabulary *v, const char *name, size_t length, char *out, size_t size)
{
    for (const char *const(*own)[2] = v->names; own && (*own)[0]; own++)
        if (strlen((*own)[0]) == length && !memcmp((*own)[0], name, length)) {
            int used = snprintf(out, size, "%s", (*own)[1]);
            return (size_t)used < size ? (size_t)used : size;
        }
    int used = snprintf(out, size, "%s%.*s%s", v->before, (int)length, name, v->after);
    if ((size_t)used >= size) return size;
    for (size_t i = strlen(v->before); i < strlen(v->before) + length; i++)
        if (out[i] == '_') out[i] = v->join;
    return (size_t)used;
}

static const gd_vocabulary *vocabulary(const gd_ctx *ctx)
{
    return ctx && ctx->vocabulary ? ctx->vocabulary : &in_c;
}

const char *gd__setting(const gd_ctx *ctx, const char *name, char out[GD_SETTING])
{
    size_t length = name_length(name), used = put_setting(vocabulary(ctx), name, length, out, GD_SETTING);
    if (used < GD_SETTING) (void)snprintf(out + used, GD_SETTING - used, "%s", name + length);
    return out;
}

const char *gd__spell(const gd_ctx *ctx, const char *format, char *out, size_t size)
{
    size_t used = 0;
    if (!strchr(format, '{')) return format;
    for (const char *s = format; *s;) {
        size_t length = *s == '{' ? name_length(s + 1) : 0;
        bool setting = length && s[1 + length] == '}';
        if (used + 1 >= size) return format;
        if (setting)
            used += put_setting(vocabulary(ctx), s + 1, length, out + used, size - used), s += length + 2;
        else
            out[used++] = *s++;
        if (used >= size) return format;
    }
    out[used] = 0;
    return out;
}
