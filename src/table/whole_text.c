/* Reads a text in memory with the fast reader (scan_rows.h).
 *
 * Every column is read as numbers on all threads, and stays one if all of its cells are numbers. Of other columns only the text is kept:
 * their cells are located on first use.  If a row is wrong, or a cell is not UTF-8, nothing is read here,
 * and the slower reader (csv.c) reports it; both accept the same texts (tests/table/test_readers.c). */
#include "base/object.h"
#include "base/observer.h"
#include "base/text/compose.h"
#include "table/csv_inside.h"
#include "table/scan_rows.h"

#include <string.h>

#define SLAB         ((size_t)1 << 24) /* bytes between two calls of the observer */
#define MOST_COLUMNS 20000             /* with more columns, rows are few and long: for the slower reader */

typedef struct reader {
    gd_csv *csv;
    gd_table_layout layout;
    gd_frame_column *column;
    gd_frame_column **open; /* of each column; NULL: it is not one of numbers */
    gd_tensor *block; /* [columns, lines], owned: one block takes fewer pages than a block of each column */
    int64_t lines, rows;
    int64_t *first_line; /* cells before: those of the header */
    size_t first_bytes, first_lines;
} reader;

static gd_table_layout layout_of(const gd_csv *csv)
{
    return (gd_table_layout){.source = csv->source,
                             .separator = csv->separator,
                             .decimal = csv->decimal,
                             .columns = csv->columns,
                             .name = csv->name,
                             .missing = &csv->missing};
}

/* ---- reading ---- */

static size_t column_bytes(const reader *r) { return (size_t)r->csv->columns * sizeof *r->column; }
static size_t pointer_bytes(const reader *r) { return (size_t)r->csv->columns * sizeof(void *); }

static gd_status begin_reading(reader *r, const char *text, size_t size)
{
    gd_csv *csv = r->csv;
    gd_ctx *ctx = csv->ctx;
    r->layout = layout_of(csv);
    r->lines = gd__scan_lines(text, size);
    r->first_line = csv->line;
    r->first_bytes = csv->line_bytes;
    r->first_lines = csv->lines;
    csv->line_bytes = (size_t)r->lines * sizeof *csv->line;
    csv->line = gd__alloc(ctx, csv->line_bytes);
    csv->row_at = csv->line ? gd__alloc(ctx, csv->line_bytes) : NULL;
    r->column = csv->row_at ? gd__calloc(ctx, column_bytes(r)) : NULL;
    r->open = r->column ? gd__calloc(ctx, pointer_bytes(r)) : NULL;
    if (!r->open) return GD_NOMEM;
    gd_tensor *block = gd_empty(ctx, GD_F64, 2, (int64_t[]){csv->columns, r->lines});
    if (!block) return gd_error(ctx);
    r->block = gd_retain(block);
    for (int i = 0; i < csv->columns; i++) {
        if (csv->stored && csv->stored[i].kind == GD_CELLS_WORDS) continue; /* as declared */
        r->column[i] = (gd_frame_column){.name = csv->name[i], .kind = GD_CELLS_NUMBERS};
        r->open[i] = &r->column[i];
    }
    return GD_OK;
}

/* Some rows.  *rows: -1 if one is wrong. */
static gd_status read_slab(reader *r, const char *text, size_t size, size_t at, int64_t line, int64_t *rows)
{
    gd_csv *csv = r->csv;
    double *block = gd_data_mut(r->block);
    for (int64_t i = 0; i < csv->columns; i++) r->column[i].value = block + i * r->lines + r->rows;
    gd_status status = gd__scan_numbers(csv->ctx, &r->layout, text, size, line, r->open,
                                        csv->row_at + r->rows, csv->line + r->rows, rows);
    for (int64_t k = 0; !status && k < *rows; k++) csv->row_at[r->rows + k] += at;
    return status;
}

static gd_status check_observer(const gd_csv *csv, const gd_csv_options *o, size_t at, size_t size)
{
    gd__progress(o->input.observer, gd__input_label(csv->source), "MB", (int64_t)(at >> 20),
                 (int64_t)(size >> 20), NAN);
    if (!gd__is_interrupted(o->input.observer)) return GD_OK;
    gd__progress_end(o->input.observer);
    return gd_fail(csv->ctx, GD_INTERRUPTED, "%s: interrupted", csv->source);
}

static gd_status read_slabs(reader *r, size_t at, size_t size, int64_t line, const gd_csv_options *o,
                            bool *done)
{
    gd_csv *csv = r->csv;
    gd_status status = GD_OK;
    for (int64_t rows = 0, lines = 0; at < size && !status && rows >= 0; line += lines) {
        size_t most = o->slab ? o->slab : SLAB, some = size - at < most ? size - at : most;
        size_t end = some == size - at ? some : gd__scan_whole_rows(&r->layout, csv->data + at, some, &lines);
        if (!end) end = size - at; /* a row longer than a slab */
        status = check_observer(csv, o, at, size);
        if (!status) status = read_slab(r, csv->data + at, end, at, line, &rows);
        r->rows += rows;
        at += end;
        *done = at == size && rows >= 0;
    }
    return status;
}

/* Columns of numbers become those of the table. */
static gd_status keep_columns(reader *r)
{
    gd_csv *csv = r->csv;
    gd_status status = gd__csv_store(csv);
    int numbers = 0;
    for (int i = 0; i < csv->columns; i++) numbers += r->open[i] != NULL;
    for (int i = 0; i < csv->columns && !status; i++) {
        if (!r->open[i]) continue;
        gd__aside_begin(csv->ctx);
        gd_tensor *value = gd_slice(gd_index(r->block, "0", i), "0", 0, r->rows, 1);
        if (2 * numbers < csv->columns) value = gd_copy(value); /* most of the block would be unused */
        if (value)
            csv->stored[i] = (gd_stored){.kind = GD_CELLS_NUMBERS, .value = gd_retain(value)};
        else
            status = gd_error(csv->ctx);
        gd__aside_end(csv->ctx);
    }
    csv->lines = (size_t)r->rows;
    return status;
}

static void end(reader *r, bool keep)
{
    gd_csv *csv = r->csv;
    gd_release(r->block);
    gd__free(csv->ctx, r->open, r->open ? pointer_bytes(r) : 0);
    gd__free(csv->ctx, r->column, r->column ? column_bytes(r) : 0);
    if (keep) {
        gd__free(csv->ctx, r->first_line, r->first_bytes);
        return;
    }
    gd__free(csv->ctx, csv->row_at, csv->row_at ? csv->line_bytes : 0);
    gd__free(csv->ctx, csv->line, csv->line ? csv->line_bytes : 0);
    csv->row_at = NULL;
    csv->line = r->first_line;
    csv->line_bytes = r->first_bytes;
    csv->lines = r->first_lines;
}

static bool is_utf8(const char *text, const char *end)
{
    while (text < end) {
        if (!(*text & 0x80)) {
            text++;
            continue;
        }
        size_t length = gd__utf8_length(text);
        if (!length) return false;
        text += length;
    }
    return true;
}

gd_status gd__whole_text_read(gd_csv *csv, size_t at, size_t size, int64_t line, bool ascii,
                              const gd_csv_options *o, bool *done)
{
    *done = false;
    if (o->one_by_one || csv->separator == GD_CSV_WIDTHS || csv->columns > MOST_COLUMNS) return GD_OK;
    if (!ascii && !is_utf8(csv->data + at, csv->data + size)) return GD_OK;
    reader r = {.csv = csv};
    gd_scope_begin(csv->ctx);
    gd_status status = begin_reading(&r, csv->data + at, size - at);
    *done = at == size;
    if (!status) status = read_slabs(&r, at, size, line, o, done);
    if (!status && *done) status = keep_columns(&r);
    csv->size = size;
    *done = *done && !status;
    end(&r, *done);
    gd_scope_end(csv->ctx);
    return status;
}

/* ---- cells as text ---- */

/* The first column is located alone; a second request locates all. */
static int want_columns(const gd_csv *csv, int column, int *slot)
{
    int count = 0;
    bool any = false;
    for (int i = 0; i < csv->columns; i++) any = any || csv->text[i].cells;
    for (int i = 0; i < csv->columns; i++) {
        bool wanted = !csv->text[i].cells && (i == column || any);
        slot[i] = wanted ? count++ : -1;
    }
    return count;
}

static gd_status copy_cells(gd_csv *csv, int column, const size_t *place)
{
    gd_column_text *t = &csv->text[column];
    size_t bytes = 1, used = 0;
    for (size_t row = 0; row < csv->lines; row++) bytes += place[2 * row + 1] + 1;
    size_t *at = gd__alloc(csv->ctx, (csv->lines + 1) * sizeof *at);
    char *cells = at ? gd__alloc(csv->ctx, bytes) : NULL;
    if (!cells) {
        gd__free(csv->ctx, at, at ? (csv->lines + 1) * sizeof *at : 0);
        return GD_NOMEM;
    }
    for (size_t row = 0; row < csv->lines; row++) {
        gd__scan_copy(csv->data + place[2 * row], place[2 * row + 1], cells + used);
        at[row] = used;
        used += strlen(cells + used) + 1;
    }
    *t = (gd_column_text){.cells = cells, .bytes = bytes, .at = at};
    return GD_OK;
}

gd_status gd__whole_text_find(gd_csv *csv, int column)
{
    gd_ctx *ctx = csv->ctx;
    gd_table_layout layout = layout_of(csv);
    size_t columns = (size_t)csv->columns;
    if (!csv->text && !(csv->text = gd__calloc(ctx, columns * sizeof *csv->text))) return GD_NOMEM;
    if (csv->text[column].cells) return GD_OK;
    int *slot = gd__alloc(ctx, columns * sizeof *slot);
    size_t count = slot ? (size_t)want_columns(csv, column, slot) : 0;
    size_t bytes = (2 * count * csv->lines + 1) * sizeof(size_t);
    size_t *place = slot ? gd__calloc(ctx, bytes) : NULL;
    gd_status status = place ? GD_OK : GD_NOMEM;
    if (!status)
        gd__scan_find(ctx, &layout, csv->data, csv->size, csv->row_at, (int64_t)csv->lines, slot, place);
    for (int i = 0; i < csv->columns && !status; i++)
        if (slot[i] >= 0) status = copy_cells(csv, i, place + 2 * (size_t)slot[i] * csv->lines);
    gd__free(ctx, place, place ? bytes : 0);
    gd__free(ctx, slot, slot ? columns * sizeof *slot : 0);
    return status;
}

const char *gd__whole_text_cell(const gd_csv *csv, int64_t row, int column, char *out, size_t size)
{
    gd_table_layout layout = layout_of(csv);
    size_t place[2] = {0};
    gd__scan_find_one(&layout, csv->data, csv->size, csv->row_at[row], column, place);
    gd__scan_copy(csv->data + place[0], place[1] < size ? place[1] : size - 1, out);
    return out;
}

void gd__whole_text_close(gd_csv *csv)
{
    for (int i = 0; csv->text && i < csv->columns; i++) {
        gd_column_text *t = &csv->text[i];
        gd__free(csv->ctx, t->cells, t->bytes);
        gd__free(csv->ctx, t->at, t->at ? (csv->lines + 1) * sizeof *t->at : 0);
    }
    gd__free(csv->ctx, csv->text, csv->text ? (size_t)csv->columns * sizeof *csv->text : 0);
    gd__free(csv->ctx, csv->row_at, csv->row_at ? csv->line_bytes : 0);
}
