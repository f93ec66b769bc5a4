/* Reading CSV; see csv.h.
 *
 * A scan walks over the bytes and writes each cell back in place, unquoted and ended by a NUL (it is never longer than it
 * was), so a cell is an offset:
 *
 *   x;"a ""b""";3\r\n        becomes        x\0a "b"\0...3\0 */
#include "table/csv_inside.h"
#include "base/observer.h"
#include "base/text/number.h"
#include "file/gzip.h"
#include "table/widths.h"
#include "base/text/compose.h"
#include "base/text/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE    ((uint64_t)1 << 36)
#define MAX_COLUMNS 1000000

/* ---- scanning ---- */

typedef struct scan {
    gd_csv *csv;
    char *data;
    size_t at, end;
    int64_t line;
    char separator;
    bool more;        /* another cell follows on the line */
    gd_widths widths; /* of a separator GD_CSV_WIDTHS */
} scan;

static gd_status GD_PRINTF(3, 4) bad_table(const gd_csv *csv, int64_t line, const char *format, ...);

static gd_status bad_table(const gd_csv *csv, int64_t line, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    (void)gd__vformat(text, sizeof text, format, args);
    va_end(args);
    return gd_fail(csv->ctx, GD_FORMAT, "%s: line %lld: %s", csv->source, (long long)line, text);
}

static gd_status grow(gd_ctx *ctx, void *array, size_t *bytes, size_t need)
{
    void **block = array;
    if (need <= *bytes) return GD_OK;
    size_t grown = *bytes < 1024 ? 2048 : *bytes + *bytes / 2;
    if (grown < need) grown = need;
    void *next = gd__realloc(ctx, *block, *bytes, grown);
    if (!next) return GD_NOMEM;
    *block = next;
    *bytes = grown;
    return GD_OK;
}

static gd_status add_cell(gd_csv *csv, size_t offset)
{
    gd_status status = grow(csv->ctx, &csv->cell, &csv->cell_bytes, (csv->cells + 1) * sizeof *csv->cell);
    if (!status) csv->cell[csv->cells++] = offset;
    return status;
}

static gd_status add_line(gd_csv *csv, int64_t line)
{
    gd_status status = grow(csv->ctx, &csv->line, &csv->line_bytes, (csv->lines + 1) * sizeof *csv->line);
    if (!status) csv->line[csv->lines++] = line;
    return status;
}

static bool at_line_end(const scan *s)
{
    if (s->at >= s->end || s->data[s->at] == '\n') return true;
    return s->data[s->at] == '\r' && (s->at + 1 >= s->end || s->data[s->at + 1] == '\n');
}

static void pass_line_end(scan *s)
{
    if (s->at < s->end && s->data[s->at] == '\r') s->at++;
    if (s->at < s->end && s->data[s->at] == '\n') s->at++;
    s->line++;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

static void skip_blanks(scan *s)
{
    while (s->at < s->end && is_blank(s->data[s->at]) &&
           (s->separator == ' ' || s->data[s->at] != s->separator))
        s->at++;
}

static bool at_separator(const scan *s)
{
    char c = s->data[s->at];
    return s->separator == ' ' ? is_blank(c) : c == s->separator;
}

/* The text between quotes moves down onto the opening one, at s->at; *end is its new end, s->at is left behind the closing
 * quote. */
static gd_status unquote(scan *s, size_t *end)
{
    size_t out = s->at;
    int64_t begin = s->line;
    for (s->at++; s->at < s->end; s->at++) {
        if (s->data[s->at] == '"') {
            s->at++;
            if (s->at >= s->end || s->data[s->at] != '"') {
                *end = out;
                return GD_OK;
            }
        } else if (s->data[s->at] == '\n') {
            s->line++;
        }
        s->data[out++] = s->data[s->at];
    }
    return bad_table(s->csv, begin, "a quote is never closed");
}

/* Between blanks a name has its unit behind one of them: S [mM]. */
static void pass_unit(scan *s)
{
    scan look = *s;
    skip_blanks(&look);
    if (look.at == look.end || look.data[look.at] != '[') return;
    while (!at_line_end(&look) && look.data[look.at] != ']') look.at++;
    if (at_line_end(&look)) return;
    s->at = look.at;
    while (!at_line_end(s) && !at_separator(s)) s->at++;
}

/* One cell and what ends it. */
static gd_status read_cell(scan *s)
{
    skip_blanks(s);
    size_t begin = s->at, end = s->at;
    if (s->at < s->end && s->data[s->at] == '"') {
        gd_status status = unquote(s, &end);
        if (status) return status;
        if (s->separator != ' ') skip_blanks(s);
        if (!at_line_end(s) && !at_separator(s))
            return bad_table(s->csv, s->line, "text follows a closing quote");
    } else {
        while (!at_line_end(s) && !at_separator(s)) s->at++;
        if (s->separator == ' ' && s->csv->lines == 1) pass_unit(s);
        for (end = s->at; end > begin && is_blank(s->data[end - 1]);) end--;
    }
    /* the NUL may fall on the separator, so that is passed first */
    s->more = !at_line_end(s);
    if (s->more) s->at++;
    if (s->more && s->separator == ' ') { /* blanks at the end of a line separate nothing */
        skip_blanks(s);
        s->more = !at_line_end(s);
    }
    if (!s->more) pass_line_end(s);
    s->data[end] = 0;
    return add_cell(s->csv, begin);
}

/* Nothing but spaces up to the end of the line?  Then it is passed. */
static bool empty_line(scan *s)
{
    scan look = *s;
    skip_blanks(&look);
    if (!at_line_end(&look)) return false;
    pass_line_end(&look);
    *s = look;
    return true;
}

/* A line whose cells are where the columns are. */
static gd_status read_fixed_row(scan *s)
{
    gd_csv *csv = s->csv;
    size_t from = s->at, first = csv->cells, length;
    gd_status status = add_line(csv, s->line);
    while (!at_line_end(s)) s->at++;
    size_t size = s->at - from;
    pass_line_end(s); /* a NUL may fall on it */
    csv->columns = s->widths.columns;
    for (int i = 0; i < csv->columns && !status; i++) status = add_cell(csv, from);
    /* from the right: a NUL stands behind what is still to be found */
    for (int i = csv->columns; i-- > 0 && !status;) {
        size_t begin = from + gd__widths_cell(&s->widths, i, s->data + from, size, &length);
        csv->cell[first + (size_t)i] = begin;
        s->data[begin + length] = 0;
    }
    return status;
}

static gd_status read_row(scan *s)
{
    gd_csv *csv = s->csv;
    if (s->separator == GD_CSV_WIDTHS) return read_fixed_row(s);
    size_t first = csv->cells;
    int64_t line = s->line;
    gd_status status = add_line(csv, line);
    do {
        if (!status) status = read_cell(s);
        if (!status && csv->cells - first > MAX_COLUMNS)
            return bad_table(csv, line, "more than %d cells", MAX_COLUMNS);
    } while (!status && s->more);
    if (status) return status;
    size_t count = csv->cells - first;
    if (csv->columns == 0) csv->columns = (int)count;
    if (count != (size_t)csv->columns)
        return bad_table(csv, line, "%zu cell%s, but line %lld has %d", count, count == 1 ? "" : "s",
                         (long long)csv->line[0], csv->columns);
    return GD_OK;
}

/* ---- the first line ---- */

/* The words of the first or second line at s->at, a unit with the word before it; 0 where a line has quotes or is not there. */
static size_t words(const scan *s, int line)
{
    size_t from = s->at;
    for (; line && from < s->end; from++) line -= s->data[from] == '\n';
    const char *begin = s->data + from, *end = memchr(begin, '\n', s->end - from);
    size_t size = end ? (size_t)(end - begin) : s->end - from;
    return memchr(begin, '"', size) ? 0 : gd__header_words(begin, size);
}

/* Tabs and spaces beside each other on the first line: both are blanks. */
static bool is_mixed(const scan *s)
{
    for (size_t i = s->at; i + 1 < s->end && s->data[i + 1] != '\n'; i++)
        if ((s->data[i] == '\t' && s->data[i + 1] == ' ') || (s->data[i] == ' ' && s->data[i + 1] == '\t'))
            return true;
    return false;
}

/* Blanks; else the most frequent of , ; and tab outside quotes on the line at s->at; a comma where there is none. */
static char find_separator(const scan *s, bool decimal_comma)
{
    size_t count[3] = {0};
    bool in_quotes = false;
    for (size_t i = s->at; i < s->end && (in_quotes || s->data[i] != '\n'); i++) {
        char c = s->data[i];
        if (c == '"') in_quotes = !in_quotes;
        if (!in_quotes) count[0] += c == ',' && !decimal_comma, count[1] += c == ';', count[2] += c == '\t';
    }
    if (!count[0] && !count[1] && (!count[2] || is_mixed(s)) && words(s, 0) > 1 && words(s, 0) == words(s, 1))
        return ' ';
    return count[1] > count[0] && count[1] >= count[2] ? ';'
           : count[2] > count[0]                       ? '\t'
           : decimal_comma                             ? ';'
                                                       : ',';
}

/* Cells that stand under each other, where that was asked for, or where blanks, or no separator at all, do not explain the lines. */
static gd_status find_widths(scan *s, char asked)
{
    if (asked ? asked != GD_CSV_WIDTHS : s->separator == '\t' || s->separator == ';') return GD_OK;
    gd_status status = gd__widths_find(s->csv->ctx, s->data + s->at, s->end - s->at, asked, &s->widths);
    if (s->widths.columns) s->separator = GD_CSV_WIDTHS;
    if (!status && asked && !s->widths.columns) status = bad_table(s->csv, s->line, "nothing but blanks");
    return status;
}

static gd_status refuse_zero(const gd_csv *csv, const char *data, const char *zero)
{
    int64_t line = 1;
    for (const char *c = data; c < zero; c++) line += *c == '\n';
    return bad_table(csv, line, "a zero byte: this is not a text file");
}

/* Line ends that other programs write; what is no text at all is refused. */
static gd_status prepare(scan *s)
{
    const char *nul = memchr(s->data, 0, s->end);
    if (nul) return refuse_zero(s->csv, s->data, nul);
    if (!memchr(s->data, '\n', s->end))
        for (size_t i = 0; i < s->end; i++)
            if (s->data[i] == '\r') s->data[i] = '\n';
    return GD_OK;
}

/* Empty lines and comments before the first row. */
static void skip_preamble(scan *s)
{
    while (s->at < s->end) {
        if (s->data[s->at] == '#') {
            while (!at_line_end(s)) s->at++;
            pass_line_end(s);
        } else if (!empty_line(s)) {
            break;
        }
    }
}

/* The word in front of a unit: S of "S [mM]"; NULL where there is none. */
static const char *word_of(gd_ctx *ctx, const char *name)
{
    size_t length = strlen(name);
    const char *open = strrchr(name, '[');
    if (!length || name[length - 1] != ']' || !open || open == name || open + 2 > name + length) return name;
    while (open > name && is_blank(open[-1])) open--;
    return open == name ? name : gd__intern(ctx, name, (size_t)(open - name));
}

gd_status gd__csv_index_names(gd_csv *csv)
{
    gd_status status = gd__name_index_build(csv->ctx, csv->name, csv->columns, &csv->index);
    for (int i = 0; i < csv->columns && !status; i++)
        if (!(csv->word[i] = word_of(csv->ctx, csv->name[i]))) status = GD_NOMEM;
    /* a word that two columns share is none of them; nor are words of more columns than a person names */
    for (int i = 0; i < csv->columns && !status; i++) {
        if (csv->columns > 1000) csv->word[i] = csv->name[i];
        bool other = csv->word[i] != csv->name[i] &&
                     gd__name_index_find(&csv->index, csv->name, csv->word[i]) >= 0;
        for (int k = 0; k < csv->columns && csv->word[i] != csv->name[i] && !other; k++)
            other = k != i && word_of(csv->ctx, csv->name[k]) == csv->word[i];
        if (other) csv->word[i] = csv->name[i];
    }
    return status;
}

/* c1 for the first column, with as many _ behind it as keep it apart from the names that the file has. */
static const char *position_name(gd_csv *csv, const gd_name_index *taken, int column)
{
    char text[64];
    int length = snprintf(text, sizeof text, "c%d", column + 1);
    while (taken && length < (int)sizeof text - 1 && gd__name_index_find(taken, csv->name, text) >= 0)
        text[length++] = '_', text[length] = 0;
    return gd__intern(csv->ctx, text, (size_t)length);
}

/* Columns whose cell of the header is empty are called by their position, as all are without a header. */
static gd_status name_empty(gd_csv *csv)
{
    int empty = 0;
    for (int i = 0; i < csv->columns; i++) empty += !*csv->name[i];
    if (!empty) return GD_OK;
    gd_name_index taken = {.first_again = -1};
    gd_status status = gd__name_index_build(csv->ctx, csv->name, csv->columns, &taken);
    size_t bytes = (size_t)csv->columns * sizeof *csv->name;
    const char **name = status ? NULL : gd__alloc(csv->ctx, bytes);
    if (!status && !name) status = GD_NOMEM;
    for (int i = 0; i < csv->columns && !status; i++) {
        name[i] = *csv->name[i] ? csv->name[i] : position_name(csv, &taken, i);
        if (!name[i]) status = GD_NOMEM;
    }
    if (!status) memcpy(csv->name, name, bytes);
    if (!status) csv->unnamed = empty;
    gd__free(csv->ctx, name, name ? bytes : 0);
    gd__name_index_free(csv->ctx, &taken);
    return status;
}

/* Names from the first row, which is then taken away, or c1, c2, ... */
static gd_status name_columns(gd_csv *csv, bool header)
{
    csv->name_bytes = 2 * (size_t)csv->columns * sizeof *csv->name;
    csv->name = gd__alloc(csv->ctx, csv->name_bytes);
    if (!csv->name) return GD_NOMEM;
    csv->word = csv->name + csv->columns;
    for (int i = 0; i < csv->columns; i++) {
        csv->name[i] = header ? csv->data + csv->cell[i] : position_name(csv, NULL, i);
        if (!csv->name[i]) return GD_NOMEM;
    }
    gd_status status = header ? name_empty(csv) : GD_OK;
    return status ? status : gd__csv_index_names(csv);
}

/* Every cell is UTF-8: other bytes would all look the same to whoever reads the result. */
static gd_status check_utf8(const gd_csv *csv, const gd_csv_options *options)
{
    for (size_t i = 0; i < csv->cells; i++) {
        const char *s = csv->data + csv->cell[i];
        size_t length = 1;
        while (*s && (length = gd__utf8_length(s))) s += length;
        if (length) continue;
        size_t row = i / (size_t)csv->columns, column = i % (size_t)csv->columns;
        char name[80];
        bool header = row == 0 && !options->no_header;
        if (header)
            (void)snprintf(name, sizeof name, "%zu", column + 1);
        else
            (void)snprintf(name, sizeof name, "'%.60s'", csv->name[column]);
        return gd_fail(
            csv->ctx, GD_FORMAT,
            "%s: line %lld, column %s: byte 0x%02X is not UTF-8; --encoding latin1 or windows-1252 may "
            "be what it is",
            csv->source, (long long)csv->line[row], name, (unsigned)(unsigned char)*s);
    }
    return GD_OK;
}

static bool is_ascii(const char *data, size_t size)
{
    uint64_t all = 0, word;
    size_t i = 0;
    for (; i + sizeof word <= size; i += sizeof word) {
        memcpy(&word, data + i, sizeof word);
        all |= word;
    }
    for (; i < size; i++) all |= (unsigned char)data[i];
    return !(all & UINT64_C(0x8080808080808080));
}

#define SOME_ROWS 4096 /* between looks at the clock */

static gd_status scan_all(gd_csv *csv, size_t size, const gd_csv_options *options)
{
    scan s = {.csv = csv, .data = csv->data, .end = size, .line = 1, .separator = options->separator};
    gd_status status = prepare(&s);
    if (status) return status;
    bool ascii = is_ascii(csv->data, size);
    skip_preamble(&s);
    if (s.at >= s.end) return gd_fail(csv->ctx, GD_FORMAT, "%s: the file is empty", csv->source);
    if (!s.separator) s.separator = find_separator(&s, options->decimal == ',');
    status = find_widths(&s, options->separator);
    csv->separator = s.separator;
    if (!status) status = read_row(&s);
    if (!status) status = name_columns(csv, !options->no_header);
    const gd_observer *observer = options->input.observer;
    const char *label = gd__input_label(csv->source);
    while (!status && s.at < s.end) {
        if (empty_line(&s)) continue;
        status = read_row(&s);
        if (csv->lines % SOME_ROWS) continue;
        gd__progress(observer, label, "MB", (int64_t)(s.at >> 20), (int64_t)(size >> 20), NAN);
        if (!status && gd__is_interrupted(observer))
            status = gd_fail(csv->ctx, GD_INTERRUPTED, "%s: interrupted", csv->source);
    }
    gd__progress_end(observer);
    gd__widths_free(csv->ctx, &s.widths);
    return status || ascii ? status : check_utf8(csv, options);
}

/* ---- making ---- */

/* The rows of a block of UTF-8, which it takes over, also when it fails. */
static gd_csv *parse_text(gd_ctx *ctx, const char *source, char *data, size_t size, size_t block,
                          const gd_csv_options *options)
{
    gd_csv *csv = gd__calloc(ctx, sizeof *csv);
    if (!csv) {
        gd__free(ctx, data, block);
        return NULL;
    }
    csv->ctx = ctx;
    csv->data = data;
    csv->block = block;
    csv->decimal = options->decimal;
    csv->source = gd__strdup(ctx, source);
    if (csv->source && scan_all(csv, size, options) == GD_OK) {
        /* rows of the header: its cells stay in front, so rows are counted from behind it */
        if (!options->no_header) {
            csv->cells -= (size_t)csv->columns;
            csv->lines--;
            memmove(csv->cell, csv->cell + csv->columns, csv->cells * sizeof *csv->cell);
            memmove(csv->line, csv->line + 1, csv->lines * sizeof *csv->line);
        }
        return csv;
    }
    gd__csv_free(csv);
    return NULL;
}

static gd_csv *parse_block(gd_ctx *ctx, const char *source, char *data, size_t size, size_t block,
                           const gd_csv_options *options)
{
    static const gd_csv_options defaults;
    if (!options) options = &defaults;
    if (!gd__to_utf8(ctx, source, options->encoding, &data, &size, &block))
        return parse_text(ctx, source, data, size, block, options);
    gd__free(ctx, data, block);
    return NULL;
}

gd_csv *gd__csv_parse(gd_ctx *ctx, const char *source, const void *data, size_t size,
                      const gd_csv_options *options)
{
    char *copy = gd__alloc(ctx, size + 1);
    if (!copy) return NULL;
    if (size) memcpy(copy, data, size);
    copy[size] = 0;
    return parse_block(ctx, source, copy, size, size + 1, options);
}

#define HEAD ((size_t)1 << 16)

/* Bytes that are no text are refused before the rest of them is read or unpacked: /dev/zero has no end. */
static gd_status look_for_zeros(gd_ctx *ctx, const char *source, const char *data, size_t size,
                                uint64_t *total)
{
    (void)total;
    const char *zero = memchr(data, 0, size < HEAD ? size : HEAD);
    if (!zero || gd__is_utf16(data, size)) return GD_OK;
    gd_csv csv = {.ctx = ctx, .source = (char *)(uintptr_t)source};
    return refuse_zero(&csv, data, zero);
}

gd_csv *gd__csv_load(gd_ctx *ctx, const char *path, const gd_csv_options *options)
{
    char *data;
    size_t size, block;
    gd_need_fn *look = options && options->encoding == GD_UTF16 ? NULL : look_for_zeros;
    const gd_input *how = options ? &options->input : NULL;
    if (gd__read_unpacked(ctx, path, how, MAX_FILE, look, &data, &size, &block)) return NULL;
    return parse_block(ctx, gd__input_name(path, how), data, size, block, options);
}

void gd__csv_free(gd_csv *csv)
{
    if (!csv) return;
    for (int i = 0; csv->number && i < csv->columns; i++) gd_release(csv->number[i]);
    gd__free(csv->ctx, csv->number, csv->number ? (size_t)csv->columns * sizeof *csv->number : 0);
    for (int i = 0; csv->part && i < csv->parts; i++) gd__csv_free(csv->part[i]);
    gd__free(csv->ctx, csv->part, csv->part ? (size_t)csv->parts * sizeof *csv->part : 0);
    gd__free(csv->ctx, csv->place, csv->place ? (size_t)(csv->parts * csv->columns) * sizeof *csv->place : 0);
    gd__strfree(csv->ctx, csv->source);
    gd__free(csv->ctx, csv->data, csv->block);
    gd__free(csv->ctx, csv->cell, csv->cell_bytes);
    gd__free(csv->ctx, csv->line, csv->line_bytes);
    gd__free(csv->ctx, csv->name, csv->name_bytes);
    gd__name_index_free(csv->ctx, &csv->index);
    gd__free(csv->ctx, csv, sizeof *csv);
}

/* ---- looking ---- */

int64_t gd__csv_rows(const gd_csv *csv) { return (int64_t)csv->lines; }
int gd__csv_columns(const gd_csv *csv) { return csv->columns; }
const char *gd__csv_name(const gd_csv *csv, int column) { return csv->name[column]; }
const char *gd__csv_source(const gd_csv *csv) { return csv->source; }
const char *gd__csv_word(const gd_csv *csv, int column) { return csv->word[column]; }

const char *gd__csv_part(const gd_csv *csv, int k)
{
    return k >= 0 && k < csv->parts ? csv->part[k]->source : NULL;
}

bool gd__csv_is_text(const gd_csv *csv)
{
    bool text = csv->data != NULL;
    for (int i = 0; i < csv->parts; i++) text = text || gd__csv_is_text(csv->part[i]);
    return text;
}

/* The part that a row is of; the row becomes one of that part. */
static int part_of(const gd_csv *csv, int64_t *row)
{
    int k = 0;
    for (; k + 1 < csv->parts && *row >= (int64_t)csv->part[k]->lines; k++)
        *row -= (int64_t)csv->part[k]->lines;
    return k;
}

int64_t gd__csv_line(const gd_csv *csv, int64_t row)
{
    int k = part_of(csv, &row);
    if (csv->parts) return gd__csv_line(csv->part[k], row);
    return csv->line ? csv->line[row] : row + 1;
}

const char *gd__csv_source_of(const gd_csv *csv, int64_t row)
{
    int k = part_of(csv, &row);
    return csv->parts ? csv->part[k]->source : csv->source;
}

const char *gd__csv_cell(const gd_csv *csv, int64_t row, int column)
{
    if (csv->parts) {
        int k = part_of(csv, &row), there = csv->place[k * csv->columns + column];
        return there < 0 ? "" : gd__csv_cell(csv->part[k], row, there);
    }
    if (!csv->data) return "";
    return csv->data + csv->cell[(size_t)row * (size_t)csv->columns + (size_t)column];
}

int gd__csv_find(const gd_csv *csv, const char *name)
{
    int found = gd__name_index_find(&csv->index, csv->name, name);
    for (int i = 0; i < csv->columns && found < 0; i++)
        if (csv->word[i] != csv->name[i] && !strcmp(csv->word[i], name)) found = i;
    return found;
}

static gd_status called_twice(const gd_csv *csv, int column)
{
    const char *name = csv->name[column];
    return gd_fail(csv->ctx, GD_ARGUMENT, "%s: two columns are called '%.60s'", csv->source, name);
}

gd_status gd__csv_check_names(const gd_csv *csv)
{
    return csv->index.first_again < 0 ? GD_OK : called_twice(csv, csv->index.first_again);
}

static bool header_is_numbers(const gd_csv *csv)
{
    double value;
    for (int i = 0; i < csv->columns; i++)
        if (!gd__is_number(csv->name[i], strlen(csv->name[i]), true, &value)) return false;
    return true;
}

int gd__csv_column(const gd_csv *csv, const char *name)
{
    int found = gd__csv_find(csv, name);
    if (found >= 0 && gd__name_index_is_twice(&csv->index, csv->name, name)) {
        (void)called_twice(csv, found);
        return -1;
    }
    if (found >= 0) return found;
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (int i = 0; i < csv->columns; i++) gd__suggest_try(&nearest, csv->name[i]);
    char hint[GD_HINT_SIZE], names[240];
    gd__names_list(csv->name, csv->columns, names, sizeof names);
    (void)gd_fail(csv->ctx, GD_ARGUMENT, "%s: no column '%.60s'%s%sthe columns are %s%s%s", csv->source, name,
                  gd__suggest_hint(&nearest, hint), nearest.best ? " (" : ", ", names,
                  csv->unnamed ? "; one without a name is called by its position, c1 for the first" : "",
                  nearest.best             ? ")"
                  : header_is_numbers(csv) ? " (numbers: --no-header if the first line is data)"
                                           : "");
    return -1;
}

/* ---- numbers ---- */

bool gd__csv_is_missing(const char *cell)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "-nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(cell, words[i])) return true;
    return false;
}

int gd__csv_text_number(const gd_csv *csv, const char *cell, double *value)
{
    char with_point[64];
    if (csv->decimal == ',' && strchr(cell, '.')) return -1; /* of thousands, perhaps */
    if (csv->decimal == ',' && strchr(cell, ',') && strlen(cell) < sizeof with_point) {
        strcpy(with_point, cell);
        *strchr(with_point, ',') = '.';
        cell = with_point;
    }
    if (gd__is_number(cell, strlen(cell), true, value)) return isnan(*value) ? 0 : 1;
    *value = NAN;
    return gd__csv_is_missing(cell) ? 0 : -1;
}

static gd_status cell_error(const gd_csv *csv, int64_t row, int column, int kind)
{
    const char *cell = gd__csv_cell(csv, row, column);
    const char *comma = kind < 0 && !csv->decimal ? strchr(cell, ',') : NULL;
    return gd_fail(csv->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': %s%.60s%s%s", csv->source,
                   (long long)csv->line[row], csv->name[column], *cell ? "'" : "",
                   *cell ? cell : "the cell is empty",
                   !*cell      ? ""
                   : kind < 0  ? "' is not a number"
                   : kind == 0 ? "' stands for a missing number"
                               : "' is not finite",
                   comma                               ? " (--decimal comma if this is a decimal comma)"
                   : csv->decimal && strchr(cell, '.') ? " (--decimal comma was asked for)"
                                                       : "");
}

/* A column that is numbers already. */
static gd_status ready_numbers(const gd_csv *csv, int column, bool missing, double *out)
{
    memcpy(out, gd_data(csv->number[column]), csv->lines * sizeof *out);
    for (size_t i = 0; i < csv->lines; i++)
        if (!isfinite(out[i]) && !(missing && isnan(out[i])))
            return gd_fail(csv->ctx, GD_FORMAT, "%s: row %zu of '%.60s': %g is not finite", csv->source,
                           i + 1, csv->name[column], out[i]);
    return GD_OK;
}

static gd_status joined_numbers(const gd_csv *csv, int column, bool missing, double *out)
{
    gd_status status = GD_OK;
    for (int k = 0; k < csv->parts && !status; out += csv->part[k++]->lines) {
        int there = csv->place[k * csv->columns + column];
        if (there >= 0)
            status = gd__csv_numbers(csv->part[k], there, missing, out);
        else
            for (size_t i = 0; i < csv->part[k]->lines; i++) out[i] = k;
    }
    return status;
}

gd_status gd__csv_numbers(const gd_csv *csv, int column, bool missing, double *out)
{
    if (csv->parts) return joined_numbers(csv, column, missing, out);
    if (csv->number) return ready_numbers(csv, column, missing, out);
    for (int64_t row = 0; row < gd__csv_rows(csv); row++) {
        int kind = gd__csv_text_number(csv, gd__csv_cell(csv, row, column), &out[row]);
        if (kind == 1 && isfinite(out[row])) continue;
        if (kind || !missing) return cell_error(csv, row, column, kind); /* an infinity is not missing */
    }
    return GD_OK;
}

int gd__csv_number(const gd_csv *csv, int64_t row, int column, double *value)
{
    return gd__csv_text_number(csv, gd__csv_cell(csv, row, column), value);
}

bool gd__csv_ready_number(const gd_csv *csv, int64_t row, int column, double *value)
{
    if (csv->parts) {
        int k = part_of(csv, &row), there = csv->place[k * csv->columns + column];
        if (there >= 0) return gd__csv_ready_number(csv->part[k], row, there, value);
        *value = k;
        return true;
    }
    if (csv->number) *value = ((const double *)gd_data(csv->number[column]))[row];
    return csv->number != NULL;
}

gd_tensor *gd__csv_tensor(const gd_csv *csv, const int *columns, int count)
{
    int64_t rows = gd__csv_rows(csv);
    size_t bytes = (size_t)(rows ? rows : 1) * sizeof(double);
    double *values = gd__alloc(csv->ctx, bytes);
    gd_tensor *t = values ? gd_empty(csv->ctx, GD_F64, 2, (int64_t[]){rows, count}) : NULL;
    gd_status status = t ? GD_OK : GD_NOMEM;
    double *data = t ? gd_data_mut(t) : NULL;
    for (int i = 0; i < count && !status; i++) {
        status = gd__csv_numbers(csv, columns ? columns[i] : i, false, values);
        for (int64_t row = 0; row < rows && !status; row++) data[row * count + i] = values[row];
    }
    gd__free(csv->ctx, values, bytes);
    if (!status) return t;
    gd_release(t);
    return NULL;
}
