/* Lists of words; see words.h. */
#include "table/words.h"
#include "file/safetensors.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

gd_status gd__words_add(gd_ctx *ctx, gd_words *w, const char *text, size_t length)
{
    const char *word = gd__intern(ctx, text, length);
    if (!word) return gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
    if (w->count == INT_MAX - 1) return gd_fail(ctx, GD_OVERFLOW, "too many names");
    if (!gd__grow(ctx, &w->word, &w->bytes, ((size_t)w->count + 1) * sizeof *w->word)) return GD_NOMEM;
    w->word[w->count++] = word;
    return GD_OK;
}

void gd__words_free(gd_ctx *ctx, gd_words *w)
{
    gd__free(ctx, w->word, w->bytes);
    *w = (gd_words){0};
}

int gd__words_find(const gd_words *w, const char *text)
{
    for (int i = 0; i < w->count; i++)
        if (!strcmp(w->word[i], text)) return i;
    return -1;
}

bool gd__words_equal(const gd_words *a, const gd_words *b)
{
    if (a->count != b->count) return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->word[i], b->word[i]) != 0) return false;
    return true;
}

/* ---- many names ---- */

/* The slot of a name, or the free one where it belongs. */
static size_t find_slot(const gd_name_index *x, const char *const *names, const char *name)
{
    size_t mask = x->slots - 1, at = (size_t)gd__checksum(0, name, strlen(name)) & mask;
    while (x->slot[at] && strcmp(names[abs(x->slot[at]) - 1], name) != 0) at = (at + 1) & mask;
    return at;
}

static gd_status build_index(gd_ctx *ctx, const char *const *names, int count, size_t room,
                             gd_name_index *out)
{
    *out = (gd_name_index){.slots = 4, .first_again = -1};
    while (out->slots < 2 * room) out->slots *= 2;
    out->slot = gd__calloc(ctx, out->slots * sizeof *out->slot);
    if (!out->slot) return GD_NOMEM;
    for (int i = 0; i < count; i++) {
        int32_t *slot = &out->slot[find_slot(out, names, names[i])];
        if (*slot && out->first_again < 0) out->first_again = i;
        *slot = *slot ? -abs(*slot) : i + 1;
    }
    return GD_OK;
}

gd_status gd__name_index_build(gd_ctx *ctx, const char *const *names, int count, gd_name_index *out)
{
    return build_index(ctx, names, count, (size_t)count, out);
}

gd_status gd__name_index_reserve(gd_ctx *ctx, gd_name_index *x, const char *const *names, int count)
{
    gd_name_index grown;
    if (x->slot && x->slots >= 2 * ((size_t)count + 1)) return GD_OK;
    gd_status status = build_index(ctx, names, count, 2 * ((size_t)count + 1), &grown);
    if (status) return status;
    gd__name_index_free(ctx, x);
    *x = grown;
    return GD_OK;
}

void gd__name_index_add(gd_name_index *x, const char *const *names, int place)
{
    x->slot[find_slot(x, names, names[place])] = place + 1;
}

void gd__name_index_free(gd_ctx *ctx, gd_name_index *x)
{
    gd__free(ctx, x->slot, x->slot ? x->slots * sizeof *x->slot : 0);
    *x = (gd_name_index){.first_again = -1};
}

int gd__name_index_find(const gd_name_index *x, const char *const *names, const char *name)
{
    return x->slot ? abs(x->slot[find_slot(x, names, name)]) - 1 : -1;
}

bool gd__name_index_is_twice(const gd_name_index *x, const char *const *names, const char *name)
{
    return x->slot && x->slot[find_slot(x, names, name)] < 0;
}

void gd__names_list(const char *const *names, int count, char *out, size_t size)
{
    size_t used = 0;
    out[0] = 0;
    for (int i = 0; i < count; i++) {
        if (used > size / 2) {
            (void)snprintf(out + used, size - used, " and %d more", count - i);
            return;
        }
        int n = snprintf(out + used, size - used, "%s%.40s", i ? ", " : "", names[i]);
        used += n > 0 ? (size_t)n : 0;
    }
}

void gd__words_print(gd_text *out, const gd_words *w)
{
    gd__text_char(out, '[');
    for (int i = 0; i < w->count; i++) {
        if (i) gd__text_add(out, ", ");
        gd__json_string(out, w->word[i]);
    }
    gd__text_char(out, ']');
}

gd_status gd__words_read(gd_ctx *ctx, const json_t *list, gd_words *out)
{
    gd_status status = json_is_array(list) ? GD_OK : gd_fail(ctx, GD_FORMAT, "a list of words expected");
    for (size_t i = 0; i < json_array_size(list) && !status; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        status = text ? gd__words_add(ctx, out, text, strlen(text))
                      : gd_fail(ctx, GD_FORMAT, "a word expected");
    }
    return status;
}
