/* Fast reading; see scan.h. */
#include "cli/rows/scan.h"
#include "base/number.h"
#include "cli/data/csv_inside.h"
#include "cli/text.h"

#include <math.h>
#include <string.h>

typedef struct scanner {
    gd_ctx *ctx;
    const gd_table_layout *layout;
    const char *at, *end;
    int64_t line;
    int *slot; /* of each column of a row: its place among those wanted, -1: none */
    gd_frame *out;
    gd_word_places *places; /* of each wanted column of words */
} scanner;

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* ---- numbers ---- */

/* A number at s: its end, or NULL where it is of a kind that takes more care.  Digits fit 64 bits; both the digits as a number and
 * the power of ten are exact, so their product is rounded once. */
static const char *plain_number(const char *s, double *out)
{
    bool minus = *s == '-';
    uint64_t digits = 0;
    int count = 0, after = 0;
    s += minus;
    for (; *s >= '0' && *s <= '9'; s++, count++) digits = 10 * digits + (uint64_t)(*s - '0');
    if (*s == '.')
        for (s++; *s >= '0' && *s <= '9'; s++, count++, after++) digits = 10 * digits + (uint64_t)(*s - '0');
    if (!count || count > 19 || digits > (UINT64_C(1) << 53) || after > 22) return NULL;
    if (*s == 'e' || *s == 'E') return NULL;
    double value = (double)digits / powers[after];
    *out = minus ? -value : value;
    return s;
}

static bool ends_cell(const scanner *s, const char *at)
{
    char c = *at;
    if (at >= s->end || c == '\n' || (c == '\r' && at[1] == '\n')) return true;
    return s->layout->separator == ' ' ? c == ' ' || c == '\t' : c == s->layout->separator;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static gd_status bad_cell(const scanner *s, int column, const char *cell, size_t length, const char *what)
{
    return gd_fail(s->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': '%.*s' %s", s->layout->source,
                   (long long)s->line, s->layout->name[column], length < 60 ? (int)length : 60, cell, what);
}

/* Everything that is not digits with a point: exponents, decimal commas, holes, words. */
static gd_status careful_number(const scanner *s, int column, const char *cell, size_t length, double *out)
{
    char text[128];
    const gd_csv csv = {.ctx = s->ctx, .decimal = s->layout->decimal};
    if (length >= sizeof text) return bad_cell(s, column, cell, length, "is not a number");
    memcpy(text, cell, length);
    text[length] = 0;
    int kind = gd__csv_text_number(&csv, text, out);
    if (kind < 0) return bad_cell(s, column, cell, length, "is not a number");
    return kind > 0 && isinf(*out) ? bad_cell(s, column, cell, length, "is not finite") : GD_OK;
}

/* ---- cells ---- */

static gd_status put_cell(scanner *s, int column, const char *cell, size_t length, int64_t row)
{
    gd_frame_column *c = &s->out->column[s->slot[column]];
    if (c->kind == GD_CELLS_NUMBERS) return careful_number(s, column, cell, length, &c->value[row]);
    char text[512];
    if (length >= sizeof text) return bad_cell(s, column, cell, length, "is too long a word");
    memcpy(text, cell, length);
    text[length] = 0;
    for (const char *u = text; *u; u += gd__utf8_length(u))
        if (!gd__utf8_length(u)) return bad_cell(s, column, "?", 1, "is not UTF-8");
    if (c->kind == GD_CELLS_WORDS)
        return gd__frame_word(s->ctx, &s->places[s->slot[column]], c, text, &c->value[row]);
    return gd__frame_date(c, text, &c->value[row])
               ? GD_OK
               : bad_cell(s, column, cell, length, "is not a date as in 2024-02-29 or 2024-02-29T13:45");
}

/* One cell; s->at is left at what ends it. */
static gd_status take_cell(scanner *s, int column, int64_t row)
{
    int slot = s->slot[column];
    while (is_blank(*s->at) && !(s->layout->separator == *s->at)) s->at++;
    const char *begin = s->at, *end;
    if (slot >= 0 && s->out->column[slot].kind == GD_CELLS_NUMBERS && !s->layout->decimal) {
        end = plain_number(begin, &s->out->column[slot].value[row]);
        if (end && ends_cell(s, end)) {
            s->at = end;
            return GD_OK;
        }
    }
    for (end = begin; !ends_cell(s, end);) end++;
    s->at = end;
    if (slot < 0) return GD_OK;
    while (end > begin && is_blank(end[-1])) end--;
    return put_cell(s, column, begin, (size_t)(end - begin), row);
}

static gd_status wrong_width(const scanner *s, int cells)
{
    return gd_fail(s->ctx, GD_FORMAT, "%s: line %lld: %d cell%s, but the first line has %d",
                   s->layout->source, (long long)s->line, cells, cells == 1 ? "" : "s", s->layout->columns);
}

static gd_status take_row(scanner *s, int64_t row)
{
    int column = 0;
    bool blanks = s->layout->separator == ' ';
    for (;; column++) {
        if (column >= s->layout->columns) break;
        gd_status status = take_cell(s, column, row);
        if (status) return status;
        while (blanks && is_blank(*s->at)) s->at++;
        if (s->at >= s->end || *s->at == '\n' || *s->at == '\r') break;
        if (!blanks) s->at++;
    }
    if (column + 1 != s->layout->columns) {
        while (s->at < s->end && *s->at != '\n') column += *s->at++ == s->layout->separator;
        return wrong_width(s, column + 1);
    }
    return GD_OK;
}

/* A line of nothing but blanks is no row. */
static bool skip_empty(scanner *s)
{
    const char *at = s->at;
    while (at < s->end && (is_blank(*at) || *at == '\r')) at++;
    if (at < s->end && *at != '\n') return false;
    s->at = at < s->end ? at + 1 : at;
    s->line++;
    return true;
}

static gd_status take_rows(scanner *s)
{
    int64_t row = 0;
    gd_status status = GD_OK;
    while (s->at < s->end && !status) {
        if (skip_empty(s)) continue;
        status = take_row(s, row++);
        while (s->at < s->end && *s->at != '\n') s->at++; /* \r */
        if (s->at < s->end) s->at++;
        s->line++;
    }
    s->out->rows = row;
    return status;
}

/* ---- making ---- */

static int64_t count_lines(const char *text, size_t size)
{
    int64_t lines = size > 0 && text[size - 1] != '\n';
    for (size_t i = 0; i < size; i++) lines += text[i] == '\n';
    return lines;
}

static gd_status scan_plain(scanner *s, const int *wanted, const gd_cells *kind, int count, int64_t room)
{
    gd_status status = gd__frame_new(s->ctx, room, kind, count, s->out);
    size_t slot_bytes = (size_t)s->layout->columns * sizeof *s->slot,
           bytes = (size_t)count * sizeof *s->places;
    s->slot = status ? NULL : gd__alloc(s->ctx, slot_bytes);
    s->places = s->slot ? gd__calloc(s->ctx, bytes) : NULL;
    if (!status && !s->places) status = GD_NOMEM;
    for (int i = 0; i < s->layout->columns && !status; i++) s->slot[i] = -1;
    for (int i = 0; i < count && !status; i++) {
        s->slot[wanted[i]] = i;
        s->out->column[i].name = s->layout->name[wanted[i]];
    }
    if (!status) status = take_rows(s);
    for (int i = 0; i < count && s->places; i++) gd__frame_places_free(s->ctx, &s->places[i]);
    gd__free(s->ctx, s->places, s->places ? bytes : 0);
    gd__free(s->ctx, s->slot, s->slot ? slot_bytes : 0);
    return status;
}

/* Text with quotes: as any table. */
static gd_status scan_quoted(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                             int64_t first_line, const int *wanted, const gd_cells *kind, int count,
                             gd_frame *out)
{
    gd_csv_options options = {.separator = layout->separator, .decimal = layout->decimal, .no_header = true};
    gd_csv *csv = gd__csv_parse(ctx, layout->source, text, size, &options);
    if (!csv) return gd_error(ctx);
    gd_status status = GD_OK;
    if (csv->columns != layout->columns)
        status = gd_fail(ctx, GD_FORMAT, "%s: line %lld: %d cells, but the first line has %d", layout->source,
                         (long long)first_line, csv->columns, layout->columns);
    for (int i = 0; i < csv->columns && !status; i++) csv->name[i] = layout->name[i];
    for (size_t i = 0; i < csv->lines; i++) csv->line[i] += first_line - 1;
    if (!status) status = gd__frame_read(ctx, csv, wanted, count, kind, out);
    gd__csv_free(csv);
    return status;
}

gd_status gd__scan_rows(gd_ctx *ctx, const gd_table_layout *layout, const char *text, size_t size,
                        int64_t first_line, const int *wanted, const gd_cells *kind, int count, gd_frame *out)
{
    *out = (gd_frame){.ctx = ctx};
    if (memchr(text, '"', size))
        return scan_quoted(ctx, layout, text, size, first_line, wanted, kind, count, out);
    scanner s = {
        .ctx = ctx, .layout = layout, .at = text, .end = text + size, .line = first_line, .out = out};
    return scan_plain(&s, wanted, kind, count, count_lines(text, size));
}
