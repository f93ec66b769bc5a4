#include "table/widths.h"

#include "base/ctx.h"
#include "base/text/compose.h"

#include <string.h>

#define WIDEST 65536 /* characters of a line; longer ones are not a table of this kind */

/* Places of words, over all lines so far. */
typedef struct places {
    unsigned char *seen; /* of each place: TOP, BELOW */
    size_t bytes, widest;
    size_t words; /* of the first line */
    bool ragged;  /* some line has more or fewer */
    bool asked;   /* fits this kind of table */
    bool
        others; /* the first line is one word, has separators or quotes, or a line has a tab or is too long */
} places;

enum { TOP = 1, BELOW = 2 };

static bool begins(char c) { return ((unsigned char)c & 0xC0) != 0x80; }
static bool is_space(char c) { return c == ' ' || c == '\r'; }

size_t gd__header_words(const char *line, size_t size)
{
    size_t words = 0;
    bool inside = false, unit = false;
    for (size_t i = 0; i < size; i++) {
        bool blank = is_space(line[i]) || line[i] == '\t';
        unit = unit || (line[i] == '[' && !inside && words && memchr(line + i, ']', size - i));
        words += !blank && !inside && !unit;
        inside = !blank;
        if (line[i] == ']') unit = false;
    }
    return words;
}

/* One line, without its end. */
static gd_status see_line(gd_ctx *ctx, places *p, const char *line, size_t size, bool first)
{
    size_t at = 0, words = 0;
    bool inside = false;
    for (size_t i = 0; i < size; i++) {
        if (!begins(line[i])) continue;
        if (!p->asked && (line[i] == '\t' || (first && strchr(",;\"", line[i])))) p->others = true;
        bool blank = is_space(line[i]);
        words += !blank && !inside;
        inside = !blank;
        at++;
        if (blank) continue;
        if (at > p->widest) {
            if (at > WIDEST) p->others = !p->asked;
            if (p->others || at > WIDEST) return GD_OK;
            if (!gd__grow(ctx, &p->seen, &p->bytes, at)) return GD_NOMEM;
            memset(p->seen + p->widest, 0, at - p->widest);
            p->widest = at;
        }
        p->seen[at - 1] |= first ? TOP : BELOW;
    }
    if (first) p->words = words = gd__header_words(line, size);
    if (first && words < 2 && !p->asked) p->others = true;
    p->ragged = p->ragged || (words && words != p->words);
    return GD_OK;
}

static gd_status see_all(gd_ctx *ctx, places *p, const char *text, size_t size)
{
    gd_status status = GD_OK;
    bool first = true;
    for (size_t at = 0; at < size && !status && !p->others;) {
        const char *end = memchr(text + at, '\n', size - at);
        size_t length = end ? (size_t)(end - text) - at : size - at;
        status = see_line(ctx, p, text + at, length, first);
        at += length + 1;
        first = false;
    }
    return status;
}

/* The runs of positions that some line fills; `hollow` if one has only the first line: with `join` it is one more word of
 * the name before it, like a unit. */
static gd_status cut(gd_ctx *ctx, const places *p, bool join, gd_widths *out, bool *hollow)
{
    *hollow = false;
    for (size_t i = 0, end; i < p->widest; i = end) {
        int kinds = 0;
        for (end = i; end < p->widest && p->seen[end]; end++) kinds |= p->seen[end];
        if (end++ == i) continue;
        *hollow = *hollow || !(kinds & BELOW);
        if (join && !(kinds & BELOW) && out->columns) {
            out->edge[2 * out->columns - 1] = end - 1;
            continue;
        }
        if (!gd__grow(ctx, &out->edge, &out->bytes, (size_t)(2 * out->columns + 2) * sizeof *out->edge))
            return GD_NOMEM;
        out->edge[2 * out->columns] = i;
        out->edge[2 * out->columns++ + 1] = end - 1;
    }
    return GD_OK;
}

gd_status gd__widths_find(gd_ctx *ctx, const char *text, size_t size, bool asked, gd_widths *out)
{
    places p = {.asked = asked};
    bool hollow = false;
    *out = (gd_widths){0};
    gd_status status = see_all(ctx, &p, text, size);
    if (!status && !p.others && (asked || p.ragged)) status = cut(ctx, &p, asked, out, &hollow);
    if (!asked && (hollow || out->columns < 2 || (size_t)out->columns != p.words)) out->columns = 0;
    gd__free(ctx, p.seen, p.bytes);
    return status;
}

void gd__widths_free(gd_ctx *ctx, gd_widths *w)
{
    gd__free(ctx, w->edge, w->bytes);
    *w = (gd_widths){0};
}

size_t gd__widths_cell(const gd_widths *w, int column, const char *line, size_t size, size_t *length)
{
    size_t first = w->edge[2 * column], last = w->edge[2 * column + 1], at = 0, i = 0;
    /* the byte of a position counted in characters */
    while (i < size && (at < first || !begins(line[i]))) at += begins(line[i++]);
    size_t begin = i;
    for (; i < size && (at < last || !begins(line[i])); i++) at += begins(line[i]);
    while (begin < i && is_space(line[begin])) begin++;
    while (i > begin && is_space(line[i - 1])) i--;
    *length = i - begin;
    return begin;
}
