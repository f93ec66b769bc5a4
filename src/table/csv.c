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
    bool ascii;       /* all of it */
    bool more;        /* one more cell follows on the line */
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

/* In tables with blanks, a unit may follow a name after a blank: S [mM]. */
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
    if (s->more && s->separator == ' ') { /* blanks at the end of a line are not separators */
        skip_blanks(s);
        s->more = !at_line_end(s);
    }
    if (!s->more) pass_line_end(s);
    s->data[end] = 0;
    return add_cell(s->csv, begin);
}

/* Only spaces up to the end of the line? Then skips it. */
static bool empty_line(scan *s)
{
    scan look = *s;
    skip_blanks(&look);
    if (!at_line_end(&look)) return false;
    pass_line_end(&look);
    *s = look;
    return true;
}

/* A line of a fixed-width table. */
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
    /* from the right, so that a NUL ends the remaining text */
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

/* The words of the first or second line at s->at, a unit with the word before it; 0 if a line has quotes or is missing. */
static size_t words(const scan *s, int line)
{
    size_t from = s->at;
    for (; line && from < s->end; from++) line -= s->data[from] == '\n';
    const char *begin = s->data + from, *end = memchr(begin, '\n', s->end - from);
    size_t size = end ? (size_t)(end - begin) : s->end - from;
    return memchr(begin, '"', size) ? 0 : gd__header_words(begin, size);
}

/* Adjacent tabs and spaces on the first line: both are blanks. */
static bool is_mixed(const scan *s)
{
    for (size_t i = s->at; i + 1 < s->end && s->data[i + 1] != '\n'; i++)
        if ((s->data[i] == '\t' && s->data[i + 1] == ' ') || (s->data[i] == ' ' && s->data[i + 1] == '\t'))
            return true;
    return false;
}

/* Blanks; else the most frequent of , ; and tab outside quotes on the line at s->at; a comma if there is none. */
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

/* Fixed-width cells, if requested, or if blanks, or no separator, do not fit the lines. */
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

/* Converts line ends of other systems; refuses data that are not text. */
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

const char *gd__csv_word_of(gd_ctx *ctx, const char *name)
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
        if (!(csv->word[i] = gd__csv_word_of(csv->ctx, csv->name[i]))) status = GD_NOMEM;
    /* a word shared by two columns is ambiguous; words are not used for more columns than people name */
    for (int i = 0; i < csv->columns && !status; i++) {
        if (csv->columns > 1000) csv->word[i] = csv->name[i];
        bool other = csv->word[i] != csv->name[i] &&
                     gd__name_index_find(&csv->index, csv->name, csv->word[i]) >= 0;
        for (int k = 0; k < csv->columns && csv->word[i] != csv->name[i] && !other; k++)
            other = k != i && gd__csv_word_of(csv->ctx, csv->name[k]) == csv->word[i];
        if (other) csv->word[i] = csv->name[i];
    }
    return status;
}

void gd__csv_add_word(gd_csv *csv, int column)
{
    const char *mine = gd__csv_word_of(csv->ctx, csv->name[column]);
    csv->word[column] = mine;
    for (int k = 0; k < column && csv->columns <= 1000; k++) {
        if (gd__csv_word_of(csv->ctx, csv->name[k]) != mine) continue;
        csv->word[k] = csv->name[k];
        csv->word[column] = csv->name[column];
    }
    if (csv->columns > 1000) csv->word[column] = csv->name[column];
    for (int k = 0; k < column && csv->columns == 1001; k++) csv->word[k] = csv->name[k];
}

/* c1 for the first column, followed by enough _ to differ from the names in the file. */
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

/* Every cell is UTF-8: other bytes would be indistinguishable in results. */
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
            "%s: line %lld, column %s: byte 0x%02X is not UTF-8; {encoding} latin1 or windows-1252 may "
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

/* Options of a text: further texts for missing cells, columns of words. */
static gd_status heed_options(gd_csv *csv, const gd_csv_options *o)
{
    gd_status status = GD_OK;
    for (int i = 0; i < o->missing_count && !status; i++)
        status = gd__words_add(csv->ctx, &csv->missing, o->missing[i], strlen(o->missing[i]));
    if (!status && o->words_count) status = gd__csv_store(csv);
    for (int i = 0; i < o->words_count && !status; i++) {
        int column = gd__csv_column(csv, o->words[i]);
        if (column < 0) return gd_error(csv->ctx);
        csv->stored[column].kind = GD_CELLS_WORDS;
    }
    return status;
}

/* ---- all rows ---- */

static gd_status start_table(scan *s, const gd_csv_options *options)
{
    gd_status status = read_row(s);
    if (!status) status = name_columns(s->csv, !options->no_header);
    if (!status && !s->ascii && !options->no_header) status = check_utf8(s->csv, options);
    return status ? status : heed_options(s->csv, options);
}

#define FIRST_ROW ((size_t)1 << 20) /* bytes of a row that both readers may read */

static void exchange(char *a, char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        char c = a[i];
        a[i] = b[i];
        b[i] = c;
    }
}

/* The first row without a header is data: it is restored for the fast reader. */
static gd_status start_without_header(scan *s, const gd_csv_options *options, bool *done)
{
    size_t from = s->at, size = s->end - from < FIRST_ROW ? s->end - from : FIRST_ROW;
    int64_t line = s->line;
    char *before = gd__alloc(s->csv->ctx, size + 1);
    if (!before) return GD_NOMEM;
    memcpy(before, s->data + from, size);
    gd_status status = start_table(s, options);
    size_t used = s->at - from;
    if (!status && used <= size) {
        exchange(before, s->data + from, used);
        status = gd__whole_text_read(s->csv, from, s->end, line, s->ascii, options, done);
        if (!*done) exchange(before, s->data + from, used);
    }
    gd__free(s->csv->ctx, before, size + 1);
    return status;
}

/* Names and, if that is possible, all rows by the fast reader. */
static gd_status start_rows(scan *s, const gd_csv_options *options, bool *done)
{
    *done = false;
    if (options->no_header) return start_without_header(s, options, done);
    gd_status status = start_table(s, options);
    return status ? status : gd__whole_text_read(s->csv, s->at, s->end, s->line, s->ascii, options, done);
}

#define SOME_ROWS 4096 /* between reads of the clock */

static gd_status scan_rows(scan *s, const gd_csv_options *options)
{
    gd_csv *csv = s->csv;
    gd_status status = GD_OK;
    const gd_observer *observer = options->input.observer;
    const char *label = gd__input_label(csv->source);
    while (!status && s->at < s->end) {
        if (empty_line(s)) continue;
        status = read_row(s);
        if (csv->lines % SOME_ROWS) continue;
        gd__progress(observer, label, "MB", (int64_t)(s->at >> 20), (int64_t)(s->end >> 20), NAN);
        if (!status && gd__is_interrupted(observer))
            status = gd_fail(csv->ctx, GD_INTERRUPTED, "%s: interrupted", csv->source);
    }
    return status;
}

static gd_status scan_all(gd_csv *csv, size_t size, const gd_csv_options *options)
{
    scan s = {.csv = csv, .data = csv->data, .end = size, .line = 1, .separator = options->separator};
    gd_status status = prepare(&s);
    if (status) return status;
    bool done = false;
    s.ascii = is_ascii(csv->data, size);
    skip_preamble(&s);
    if (s.at >= s.end) return gd_fail(csv->ctx, GD_FORMAT, "%s: the file is empty", csv->source);
    if (!s.separator) s.separator = find_separator(&s, options->decimal == ',');
    status = find_widths(&s, options->separator);
    csv->separator = s.separator;
    if (!status) status = start_rows(&s, options, &done);
    if (!status && !done) status = scan_rows(&s, options);
    gd__progress_end(options->input.observer);
    gd__widths_free(csv->ctx, &s.widths);
    return status || done || s.ascii ? status : check_utf8(csv, options);
}

/* ---- making ---- */

gd_csv *gd__csv_new(gd_ctx *ctx, const char *source, int columns)
{
    gd_csv *csv = gd__calloc(ctx, sizeof *csv);
    if (!csv) return NULL;
    csv->ctx = ctx;
    csv->references = 1;
    csv->index.first_again = -1;
    csv->columns = columns;
    csv->source = gd__strdup(ctx, source);
    csv->name_bytes = 2 * (size_t)columns * sizeof *csv->name;
    csv->name = csv->source && columns ? gd__calloc(ctx, csv->name_bytes) : NULL;
    if (csv->source && (csv->name || !columns)) {
        csv->word = csv->name ? csv->name + columns : NULL;
        return csv;
    }
    gd__csv_free(csv);
    return NULL;
}

gd_status gd__csv_store(gd_csv *csv)
{
    if (csv->stored || !csv->columns) return GD_OK;
    size_t bytes = (size_t)csv->columns * sizeof *csv->stored;
    if (!(csv->stored = gd__calloc(csv->ctx, bytes))) return GD_NOMEM;
    csv->stored_bytes = bytes;
    return GD_OK;
}

/* The rows of a block of UTF-8, which it takes over, also when it fails. */
static gd_csv *parse_text(gd_ctx *ctx, const char *source, char *data, size_t size, size_t block,
                          const gd_csv_options *options)
{
    gd_csv *csv = gd__csv_new(ctx, source, 0);
    if (!csv) {
        gd__free(ctx, data, block);
        return NULL;
    }
    csv->data = data;
    csv->block = block;
    csv->decimal = options->decimal;
    if (scan_all(csv, size, options) == GD_OK) {
        /* rows of the header: its cells stay in front, so rows are counted after it */
        if (!options->no_header && !csv->row_at) {
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

/* Bytes that are not text are refused before the rest of them is read or unpacked: /dev/zero has no end. */
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

static void free_stored(gd_csv *csv)
{
    for (int i = 0; csv->stored && i < csv->columns; i++) {
        gd_release(csv->stored[i].value);
        gd__words_free(csv->ctx, &csv->stored[i].words);
    }
    gd__free(csv->ctx, csv->stored, csv->stored_bytes);
}

gd_csv *gd__csv_retain(gd_csv *csv)
{
    csv->references++;
    return csv;
}

void gd__csv_free(gd_csv *csv)
{
    if (!csv || --csv->references > 0) return;
    gd_ctx *ctx = csv->ctx;
    size_t places = (size_t)(csv->base ? 1 : csv->parts) * (size_t)csv->columns;
    free_stored(csv);
    gd__whole_text_close(csv);
    for (int i = 0; csv->part && i < csv->parts; i++) gd__csv_free(csv->part[i]);
    gd__free(ctx, csv->part, csv->part ? (size_t)csv->parts * sizeof *csv->part : 0);
    gd__free(ctx, csv->place, csv->place ? places * sizeof *csv->place : 0);
    gd__free(ctx, csv->pick, csv->pick ? (csv->lines + 1) * sizeof *csv->pick : 0);
    gd__csv_free(csv->base);
    gd__strfree(ctx, csv->source);
    gd__free(ctx, csv->data, csv->block);
    gd__free(ctx, csv->cell, csv->cell_bytes);
    gd__free(ctx, csv->line, csv->line_bytes);
    gd__free(ctx, csv->name, csv->name_bytes);
    gd__words_free(ctx, &csv->missing);
    gd__name_index_free(ctx, &csv->index);
    gd__free(ctx, csv, sizeof *csv);
}
