/* Raw columns; see frame.h. */
#include "table/frame.h"
#include "base/text/date.h"
#include "table/csv_inside.h"

#include <math.h>
#include <string.h>

#define ID_ROWS 20 /* fewer may increase by accident */

/* ---- kinds of columns ---- */

typedef struct tally {
    int64_t numbers, missing, dates, other;
    int64_t first_other; /* the first row that is not a number and not missing */
    bool day, clock;     /* of the first date */
} tally;

static void count_cell(const gd_csv *csv, int64_t row, int column, tally *c)
{
    double value;
    int kind = gd__csv_number(csv, row, column, &value);
    if (kind > 0) c->numbers++;
    if (kind == 0) c->missing++;
    if (kind >= 0) return;
    if (!c->other++) c->first_other = row;
    gd_date date;
    if (!gd__date_parse(gd__csv_cell(csv, row, column), &date)) return;
    if (!c->dates++) c->day = date.day, c->clock = date.clock;
    if (date.day != c->day) c->dates = INT64_MIN / 2; /* a mix of days and times of day is words */
    c->clock |= date.clock;
}

static gd_status find_kind(gd_ctx *ctx, const gd_csv *csv, int column, gd_cells *kind)
{
    tally c = {0};
    int64_t rows = gd__csv_rows(csv);
    for (int64_t row = 0; row < rows; row++) count_cell(csv, row, column, &c);
    *kind = !c.other ? GD_CELLS_NUMBERS : c.dates == c.other && !c.numbers ? GD_CELLS_DATES : GD_CELLS_WORDS;
    if (*kind != GD_CELLS_WORDS || c.numbers <= c.other) return GD_OK;
    return gd_fail(ctx, GD_FORMAT,
                   "%s: line %lld, column '%.60s': '%.60s' is not a number, as %lld other cells are ({text} "
                   "'%.60s' if all are words)",
                   gd__csv_source_of(csv, c.first_other), (long long)gd__csv_line(csv, c.first_other),
                   gd__csv_name(csv, column), gd__csv_cell(csv, c.first_other, column), (long long)c.numbers,
                   gd__csv_name(csv, column));
}

/* ---- reading ---- */

static gd_status own_values(gd_ctx *ctx, const gd_frame *f, gd_frame_column *c)
{
    c->value = gd__alloc_array(ctx, (size_t)f->row_room, sizeof *c->value);
    return c->value ? GD_OK : gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
}

/* Words are interned: equal words have equal addresses. */
gd_status gd__frame_word(gd_ctx *ctx, gd_word_places *places, gd_frame_column *c, const char *cell,
                         double *out)
{
    *out = NAN;
    if (gd__is_missing(c->missing, cell)) return GD_OK;
    const char *word = gd__intern(ctx, cell, strlen(cell));
    if (!word) return GD_NOMEM;
    int place = gd__map_find(&places->table, word);
    gd_status status = place < 0 ? gd__map_reserve(ctx, &places->table) : GD_OK;
    if (place < 0 && !status && !(status = gd__words_add(ctx, &c->words, word, strlen(word))))
        gd__map_put(&places->table, word, place = c->words.count - 1);
    *out = place;
    return status;
}

void gd__frame_places_free(gd_ctx *ctx, gd_word_places *places) { gd__map_free(ctx, &places->table); }

bool gd__frame_date(gd_frame_column *c, const char *cell, double *out)
{
    gd_date date;
    *out = NAN;
    if (gd__is_missing(c->missing, cell)) return true;
    bool any = c->day || c->clock;
    if (!gd__date_parse(cell, &date) || (any && date.day != c->day)) return false;
    *out = date.seconds;
    c->day = date.day;
    c->clock |= date.clock;
    return true;
}

static gd_status read_words(gd_ctx *ctx, const gd_csv *csv, int column, gd_frame_column *out)
{
    gd_word_places places = {0};
    gd_status status = GD_OK;
    char text[GD_CELL_SIZE];
    int64_t rows = gd__csv_rows(csv);
    for (int64_t row = 0; row < rows && !status; row++) {
        out->missing = &gd__csv_place(csv, row, column).table->missing;
        status = gd__frame_word(ctx, &places, out, gd__csv_text(csv, row, column, text), &out->value[row]);
    }
    gd__frame_places_free(ctx, &places);
    return status;
}

static gd_status read_dates(gd_ctx *ctx, const gd_csv *csv, int column, gd_frame_column *out)
{
    int64_t rows = gd__csv_rows(csv);
    char text[GD_CELL_SIZE];
    for (int64_t row = 0; row < rows; row++) {
        const char *cell = gd__csv_text(csv, row, column, text);
        out->missing = &gd__csv_place(csv, row, column).table->missing;
        if (!gd__frame_date(out, cell, &out->value[row]))
            return gd_fail(ctx, GD_FORMAT, "%s: line %lld, column '%.60s': '%.60s' is not a %s",
                           gd__csv_source_of(csv, row), (long long)gd__csv_line(csv, row), out->name, cell,
                           out->clock && !out->day ? "time as in 13:45"
                                                   : "date as in 2024-02-29 or 2024-02-29T13:45");
    }
    return GD_OK;
}

/* A column in memory: all of its rows are borrowed. The words are interned, so only the list is copied. */
static gd_status take_column(gd_frame *f, const gd_stored *s, const int64_t *pick, gd_frame_column *out)
{
    const double *from = gd_data(s->value);
    gd_status status = from ? GD_OK : gd_error(f->ctx);
    if (!status && !pick) {
        out->lent = gd_retain(s->value);
        out->value = (double *)(uintptr_t)from;
    } else if (!status) {
        status = own_values(f->ctx, f, out);
    }
    for (int64_t i = 0; !status && pick && i < f->rows; i++) out->value[i] = from[pick[i]];
    for (int k = 0; k < s->words.count && !status; k++)
        status = gd__words_add(f->ctx, &out->words, s->words.word[k], strlen(s->words.word[k]));
    out->day = s->day;
    out->clock = s->clock;
    return status;
}

static gd_status refuse_infinity(const gd_csv *csv, int column, const double *value)
{
    int64_t row = 0;
    while (!isinf(value[row])) row++;
    return gd_fail(csv->ctx, GD_FORMAT, "%s: row %lld of '%.60s': %g is not finite",
                   gd__csv_source_of(csv, row), (long long)gd__csv_line(csv, row), gd__csv_name(csv, column),
                   value[row]);
}

/* A column of numbers that is in memory may have infinities. */
static bool is_finite_or_missing(const gd_frame_column *column, int64_t rows)
{
    for (int64_t i = 0; i < rows; i++)
        if (isinf(column->value[i])) return false;
    return true;
}

static gd_status read_column(gd_frame *f, const gd_csv *csv, int column, gd_frame_column *out)
{
    const char *name = gd__csv_name(csv, column);
    const int64_t *pick;
    const gd_stored *s = gd__csv_stored(csv, column, &pick);
    if (!(out->name = gd__intern(f->ctx, name, strlen(name)))) return GD_NOMEM;
    if (out->kind == GD_CELLS_FOUND) out->kind = gd__csv_told(csv, column);
    gd_status status = out->kind == GD_CELLS_FOUND ? find_kind(f->ctx, csv, column, &out->kind) : GD_OK;
    if (status) return status;
    if (s && s->kind == out->kind && !(pick && s->words.count)) { /* words of excluded rows do not count */
        status = take_column(f, s, pick, out);
        if (status || out->kind != GD_CELLS_NUMBERS || is_finite_or_missing(out, f->rows)) return status;
        return refuse_infinity(csv, column, out->value);
    }
    if ((status = own_values(f->ctx, f, out))) return status;
    switch (out->kind) {
    case GD_CELLS_WORDS: return read_words(f->ctx, csv, column, out);
    case GD_CELLS_DATES: return read_dates(f->ctx, csv, column, out);
    default: return gd__csv_numbers(csv, column, true, out->value);
    }
}

/* Columns without values. */
static gd_status new_columns(gd_ctx *ctx, int64_t rows, const gd_cells *kind, int count, gd_frame *out)
{
    *out = (gd_frame){.ctx = ctx, .rows = rows, .row_room = rows > 0 ? rows : 1};
    out->column = gd__calloc(ctx, (size_t)count * sizeof *out->column);
    if (!out->column) return GD_NOMEM;
    out->count = out->room = count;
    for (int i = 0; i < count && kind; i++) out->column[i].kind = kind[i];
    return GD_OK;
}

gd_status gd__frame_new(gd_ctx *ctx, int64_t rows, const gd_cells *kind, int count, gd_frame *out)
{
    gd_status status = new_columns(ctx, rows, kind, count, out);
    for (int i = 0; i < count && !status; i++) status = own_values(ctx, out, &out->column[i]);
    return status;
}

gd_status gd__frame_read(gd_ctx *ctx, const gd_csv *csv, const int *columns, int count, const gd_cells *kind,
                         gd_frame *out)
{
    gd_status status = new_columns(ctx, gd__csv_rows(csv), kind, count, out);
    for (int i = 0; i < count && !status; i++) status = read_column(out, csv, columns[i], &out->column[i]);
    return status;
}

static void close_column(gd_frame *f, gd_frame_column *c)
{
    if (!c->lent) gd__free(f->ctx, c->value, c->value ? (size_t)f->row_room * sizeof *c->value : 0);
    gd_release(c->lent);
    gd__words_free(f->ctx, &c->words);
}

void gd__frame_close(gd_frame *f)
{
    for (int i = 0; i < f->count; i++) close_column(f, &f->column[i]);
    gd__free(f->ctx, f->column, (size_t)f->room * sizeof *f->column);
    *f = (gd_frame){.ctx = f->ctx};
}

void gd__frame_drop(gd_frame *f, int column)
{
    close_column(f, &f->column[column]);
    f->count--;
    memmove(f->column + column, f->column + column + 1, (size_t)(f->count - column) * sizeof *f->column);
}

/* ---- ids ---- */

/* Whole numbers that increase or decrease strictly; equal steps are a grid, unless the step is 1. */
static bool numbers_rows(const double *v, int64_t rows)
{
    double first = v[1] - v[0];
    bool grid = true;
    for (int64_t i = 0; i < rows; i++) {
        if (!(v[i] == floor(v[i]) && fabs(v[i]) < 0x1p53)) return false;
        if (i && !((v[i] - v[i - 1]) * first > 0)) return false;
        grid = grid && (!i || v[i] - v[i - 1] == first);
    }
    return !grid || fabs(first) == 1;
}

bool gd__frame_is_id(const gd_frame *f, int column)
{
    const gd_frame_column *c = &f->column[column];
    if (f->rows < ID_ROWS) return false;
    if (c->kind == GD_CELLS_NUMBERS) return numbers_rows(c->value, f->rows);
    return c->kind == GD_CELLS_WORDS && c->words.count == f->rows;
}
