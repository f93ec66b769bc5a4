/* Reading the cells of a table; see csv.h. */
#include "base/text/date.h"
#include "base/spelling.h"
#include "base/text/number.h"
#include "base/text/scan.h"
#include "base/text/suggest.h"
#include "table/csv_inside.h"

#include <math.h>
#include <string.h>

int64_t gd__csv_rows(const gd_csv *csv) { return (int64_t)csv->lines; }
int gd__csv_columns(const gd_csv *csv) { return csv->columns; }
const char *gd__csv_name(const gd_csv *csv, int column) { return csv->name[column]; }
const char *gd__csv_source(const gd_csv *csv) { return csv->source; }
const char *gd__csv_word(const gd_csv *csv, int column) { return csv->word[column]; }

const char *gd__csv_part(const gd_csv *csv, int k)
{
    while (csv->base) csv = csv->base;
    return k >= 0 && k < csv->parts ? csv->part[k]->source : NULL;
}

bool gd__csv_is_text(const gd_csv *csv)
{
    if (csv->base) return gd__csv_is_text(csv->base);
    bool text = csv->data != NULL;
    for (int i = 0; i < csv->parts; i++) text = text || gd__csv_is_text(csv->part[i]);
    return text;
}

/* ---- where a cell is ---- */

/* The part of a row; the row index becomes one of that part. */
static int part_of(const gd_csv *csv, int64_t *row)
{
    int k = 0;
    for (; k + 1 < csv->parts && *row >= (int64_t)csv->part[k]->lines; k++)
        *row -= (int64_t)csv->part[k]->lines;
    return k;
}

gd_cell_place gd__csv_place(const gd_csv *csv, int64_t row, int column)
{
    while (csv->base || csv->parts) {
        if (csv->base) {
            if (csv->pick) row = csv->pick[row];
            if (column >= 0) column = csv->place[column];
            csv = csv->base;
            continue;
        }
        int k = part_of(csv, &row), there = column < 0 ? 0 : csv->place[k * csv->columns + column];
        if (there < 0) return (gd_cell_place){csv, k, -1};
        if (column >= 0) column = there;
        csv = csv->part[k];
    }
    return (gd_cell_place){csv, row, column};
}

static const gd_stored *stored_here(const gd_csv *csv, int column)
{
    return csv->stored && csv->stored[column].value ? &csv->stored[column] : NULL;
}

const gd_stored *gd__csv_stored(const gd_csv *csv, int column, const int64_t **pick)
{
    *pick = NULL;
    const gd_stored *s = stored_here(csv, column);
    if (s || !csv->base) return s;
    *pick = csv->pick;
    return stored_here(csv->base, csv->place[column]);
}

gd_cells gd__csv_told(const gd_csv *csv, int column)
{
    while (column >= 0) {
        if (csv->stored && csv->stored[column].kind) return csv->stored[column].kind;
        if (!csv->base && !csv->parts) return GD_CELLS_FOUND;
        column = csv->place[column];
        csv = csv->base ? csv->base : csv->part[0];
    }
    return GD_CELLS_NUMBERS;
}

/* The line of a row after resolving parts and selections. */
int64_t gd__csv_line(const gd_csv *csv, int64_t row)
{
    gd_cell_place p = gd__csv_place(csv, row, -1);
    return p.table->line ? p.table->line[p.row] : p.row + 1;
}

const char *gd__csv_source_of(const gd_csv *csv, int64_t row)
{
    return gd__csv_place(csv, row, -1).table->source;
}

/* ---- columns by name ---- */

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
    return csv->columns > 0;
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
                  nearest.best ? ")"
                  : header_is_numbers(csv)
                      ? gd__spell_of(csv->ctx, " (numbers: {no_header} if the first line is data)")
                      : "");
    return -1;
}

/* ---- cells ---- */

static double stored_value(gd_cell_place p)
{
    return ((const double *)gd_data(p.table->stored[p.column].value))[p.row];
}

/* A cell of a text that is read by rows. Without memory for the column, the context has an error. */
static const char *found_text(gd_cell_place p)
{
    gd_csv *csv = (gd_csv *)(uintptr_t)p.table; /* the result is kept */
    if (!csv->text || !csv->text[p.column].cells)
        if (gd__whole_text_find(csv, p.column)) return "";
    return csv->text[p.column].cells + csv->text[p.column].at[p.row];
}

/* The text or the word at a place; "" for numbers and dates. */
static const char *text_at(gd_cell_place p)
{
    if (p.column < 0) return "";
    if (p.table->row_at) return found_text(p);
    if (p.table->data)
        return p.table->data + p.table->cell[(size_t)p.row * (size_t)p.table->columns + (size_t)p.column];
    const gd_stored *s = &p.table->stored[p.column];
    double value = s->kind == GD_CELLS_WORDS ? stored_value(p) : NAN;
    return isnan(value) ? "" : s->words.word[(int)value];
}

const char *gd__csv_cell(const gd_csv *csv, int64_t row, int column)
{
    return text_at(gd__csv_place(csv, row, column));
}

const char *gd__csv_text(const gd_csv *csv, int64_t row, int column, char out[GD_CELL_SIZE])
{
    gd_cell_place p = gd__csv_place(csv, row, column);
    if (p.column < 0) return gd__number_text((double)p.row, out);
    if (p.table->data || p.table->stored[p.column].kind == GD_CELLS_WORDS) return text_at(p);
    const gd_stored *s = &p.table->stored[p.column];
    double value = stored_value(p);
    if (isnan(value)) return "";
    const gd_date date = {.seconds = value, .day = s->day, .clock = s->clock || !s->day};
    if (s->kind == GD_CELLS_DATES && gd__date_format(out, &date)) return out;
    return gd__number_text(value, out);
}

/* ---- missing cells and numbers ---- */

bool gd__csv_is_missing(const char *cell)
{
    static const char *const words[] = {"", "NA", "N/A", "NaN", "nan", "NAN", "null", "NULL", "-nan"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(cell, words[i])) return true;
    return false;
}

bool gd__is_missing(const gd_words *own, const char *cell)
{
    return gd__csv_is_missing(cell) || (own && own->count && gd__words_find(own, cell) >= 0);
}

int gd__csv_text_number(const gd_csv *csv, const char *cell, double *value)
{
    char with_point[64];
    if (csv->missing.count &&
        gd__is_missing(&csv->missing, cell)) { /* even a text that looks like a number */
        *value = NAN;
        return 0;
    }
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

static int number_at(gd_cell_place p, double *value)
{
    if (p.column < 0) {
        *value = (double)p.row;
        return 1;
    }
    const gd_stored *s = p.table->stored ? &p.table->stored[p.column] : NULL;
    bool read = p.table->row_at && s && s->kind == GD_CELLS_NUMBERS && s->value;
    if (!read && (p.table->data || s->kind == GD_CELLS_WORDS))
        return gd__csv_text_number(p.table, text_at(p), value);
    bool number = p.table->stored[p.column].kind == GD_CELLS_NUMBERS;
    *value = number ? stored_value(p) : NAN;
    return !number ? -1 : isnan(*value) ? 0 : 1;
}

int gd__csv_number(const gd_csv *csv, int64_t row, int column, double *value)
{
    return number_at(gd__csv_place(csv, row, column), value);
}

bool gd__csv_ready_number(const gd_csv *csv, int64_t row, int column, double *value)
{
    gd_cell_place p = gd__csv_place(csv, row, column);
    if (p.column >= 0 && (p.table->data || p.table->stored[p.column].kind != GD_CELLS_NUMBERS)) return false;
    (void)number_at(p, value);
    return true;
}

/* ---- columns of numbers ---- */

static gd_status cell_error(const gd_csv *csv, int64_t row, int column, int kind)
{
    gd_cell_place p = gd__csv_place(csv, row, column);
    const gd_csv *from = p.table;
    char text[256];
    const char *cell = from->row_at ? gd__whole_text_cell(from, p.row, p.column, text, sizeof text)
                                    : gd__csv_text(csv, row, column, text);
    if (kind >= 0 && !from->data)
        return gd_fail(csv->ctx, GD_FORMAT, "%s: row %lld of '%.60s': %s is not finite", from->source,
                       (long long)p.row + 1, csv->name[column], kind ? cell : "nan");
    const char *comma = kind < 0 && !from->decimal ? strchr(cell, ',') : NULL;
    return gd_fail(csv->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': %s%.60s%s%s", from->source,
                   (long long)gd__csv_line(csv, row), csv->name[column], *cell ? "'" : "",
                   *cell ? cell : "the cell is empty",
                   !*cell      ? ""
                   : kind < 0  ? "' is not a number"
                   : kind == 0 ? "' stands for a missing number"
                               : "' is not finite",
                   comma ? gd__spell_of(csv->ctx, " ({decimal} comma if this is a decimal comma)")
                   : from->decimal && strchr(cell, '.')
                       ? gd__spell_of(csv->ctx, " ({decimal} comma was asked for)")
                       : "");
}

/* A column in memory as numbers; false: it is not, or a cell of it is not accepted. */
static bool ready_numbers(const gd_csv *csv, int column, bool missing, double *out)
{
    const int64_t *pick;
    const gd_stored *s = gd__csv_stored(csv, column, &pick);
    const double *from = s && s->kind == GD_CELLS_NUMBERS ? gd_data(s->value) : NULL;
    if (!from) return false;
    for (int64_t i = 0; i < gd__csv_rows(csv); i++) {
        out[i] = from[pick ? pick[i] : i];
        if (!isfinite(out[i]) && !(missing && isnan(out[i]))) return false;
    }
    return true;
}

gd_status gd__csv_numbers(const gd_csv *csv, int column, bool missing, double *out)
{
    if (ready_numbers(csv, column, missing, out)) return GD_OK;
    for (int64_t row = 0; row < gd__csv_rows(csv); row++) {
        int kind = gd__csv_number(csv, row, column, &out[row]);
        if (kind == 1 && isfinite(out[row])) continue;
        if (kind || !missing) return cell_error(csv, row, column, kind); /* an infinity is not missing */
    }
    return GD_OK;
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
