/* Public functions of tables; see gradus/table.h. */
#include "base/ctx.h"
#include "table/csv_inside.h"
#include "table/frame.h"
#include "table/table_load.h"

#include <math.h>
#include <string.h>

/* ---- reading ---- */

static gd_csv_options csv_options(const gd_table_options *o)
{
    static const gd_table_options defaults;
    if (!o) o = &defaults;
    return (gd_csv_options){.separator = o->separator,
                            .decimal = o->decimal == ',' ? ',' : 0,
                            .no_header = o->no_header,
                            .encoding = o->encoding,
                            .missing = o->missing,
                            .missing_count = o->missing ? o->missing_count : 0,
                            .words = o->words,
                            .words_count = o->words ? o->words_count : 0,
                            .input = {.observer = o->observer}};
}

static gd_status check_list(gd_ctx *ctx, const char *const *list, int count, const char *what)
{
    for (int i = 0; list && i < count; i++)
        if (!list[i]) return gd__null(ctx, what);
    return GD_OK;
}

static gd_status check_options(gd_ctx *ctx, const gd_table_options *o)
{
    if (gd_error(ctx)) return gd_error(ctx);
    if (!o) return GD_OK;
    gd_status status = check_list(ctx, o->missing, o->missing_count,
                                  "table: a word for missing cells is NULL");
    if (!status)
        status = check_list(ctx, o->words, o->words_count, "table: a name of a column of words is NULL");
    if (!status && o->decimal && o->decimal != '.' && o->decimal != ',')
        status = gd_fail(ctx, GD_ARGUMENT, "table: decimals are written with . or ,");
    if (!status && o->decimal == ',' && o->separator == ',')
        status = gd_fail(ctx, GD_ARGUMENT, "table: separator and decimal are both a comma");
    if (!status && (unsigned)o->encoding > GD_UTF16)
        status = gd_fail(ctx, GD_ARGUMENT, "table: encoding %d is none of gd_encoding", (int)o->encoding);
    if (!status && o->separator && strchr("\"\r\n", o->separator))
        status = gd_fail(ctx, GD_ARGUMENT, "table: the separator is a quote or the end of a line");
    return status;
}

/* Sets the limit of the call. Returns the context's. */
static uint64_t limit_input(gd_ctx *ctx, const gd_table_options *o)
{
    uint64_t before = ctx->input_limit;
    if (o && o->max_bytes) ctx->input_limit = o->max_bytes;
    return before;
}

gd_table *gd_table_load_all(gd_ctx *ctx, const char *const *paths, int count, const gd_table_options *o)
{
    if (!ctx) return NULL;
    if (!paths || count < 1 || check_list(ctx, paths, count, "table: a path is NULL"))
        return gd__none(gd__null(ctx, "table: the path is NULL"));
    if (check_options(ctx, o)) return NULL;
    gd_csv_options csv = csv_options(o);
    uint64_t before = limit_input(ctx, o);
    gd_table *table = gd__table_load(ctx, paths, count, &csv);
    ctx->input_limit = before;
    return table;
}

gd_table *gd_table_load(gd_ctx *ctx, const char *path, const gd_table_options *o)
{
    return gd_table_load_all(ctx, path ? &path : NULL, 1, o);
}

gd_table *gd_table_parse(gd_ctx *ctx, const char *text, size_t size, const gd_table_options *o)
{
    if (!ctx) return NULL;
    if (!text) return gd__none(gd__null(ctx, "table: the text is NULL"));
    if (check_options(ctx, o)) return NULL;
    if (o && o->max_bytes && size > o->max_bytes)
        return gd__refuse(ctx, GD_FORMAT, "table: %zu bytes, more than the %llu allowed", size,
                          (unsigned long long)o->max_bytes);
    gd_csv_options csv = csv_options(o);
    return gd__csv_parse(ctx, "table", text, size, &csv);
}

void gd_table_free(gd_table *table) { gd__csv_free(table); }

/* ---- looking ---- */

int gd_table_columns(const gd_table *table) { return table ? gd__csv_columns(table) : 0; }
int64_t gd_table_rows(const gd_table *table) { return table ? gd__csv_rows(table) : 0; }

const char *gd_table_name(const gd_table *table, int column)
{
    return table && column >= 0 && column < table->columns ? table->name[column] : NULL;
}

int gd_table_find(gd_table *table, const char *name)
{
    if (!table) return -1;
    if (name) return gd__csv_column(table, name);
    (void)gd__null(table->ctx, "table: the name of a column is NULL");
    return -1;
}

/* Moves words that are no longer needed elsewhere to the column. */
static gd_status keep_column(gd_table *table, gd_frame_column *from, gd_stored *out)
{
    gd_scope_begin(table->ctx);
    gd_tensor *value = gd_from_f64(table->ctx, GD_F64, 1, (int64_t[]){gd__csv_rows(table)}, from->value);
    if (value) out->value = gd_retain(value);
    gd_scope_end(table->ctx);
    if (!value) return gd_error(table->ctx);
    out->kind = from->kind;
    out->words = from->words;
    from->words = (gd_words){0};
    out->day = from->day;
    out->clock = from->clock || (from->kind == GD_CELLS_DATES && !from->day);
    return GD_OK;
}

/* The column in memory, read if that was not done before; NULL: an error is recorded. */
static const gd_stored *column_of(gd_table *table, int column)
{
    if (!table || gd_error(table->ctx)) return NULL;
    if (column < 0 || column >= table->columns)
        return gd__refuse(table->ctx, GD_INDEX, "%s: there is no column %d, the last one is %d",
                          table->source, column, table->columns - 1);
    if (gd__csv_store(table)) return NULL;
    gd_stored *stored = &table->stored[column];
    if (stored->value) return stored;
    gd_frame frame = {.ctx = table->ctx};
    gd_status status = gd__frame_read(table->ctx, table, &column, 1, NULL, &frame);
    if (!status) status = keep_column(table, &frame.column[0], stored);
    gd__frame_close(&frame);
    return status ? NULL : stored;
}

gd_cells gd_table_kind(gd_table *table, int column)
{
    const gd_stored *s = column_of(table, column);
    return s ? s->kind : GD_CELLS_FOUND;
}

gd_tensor *gd_table_numbers(gd_table *table, int column)
{
    const gd_stored *s = column_of(table, column);
    if (!s) return NULL;
    const double *v = s->kind == GD_CELLS_NUMBERS ? gd_data(s->value) : NULL;
    for (int64_t i = 0; v && i < gd_numel(s->value); i++)
        if (isinf(v[i]))
            return gd__refuse(table->ctx, GD_FORMAT, "%s: row %lld of '%.60s': %g is not finite",
                              gd__csv_source_of(table, i), (long long)gd__csv_line(table, i),
                              table->name[column], v[i]);
    return gd_detach(s->value);
}

const char *const *gd_table_words(gd_table *table, int column, int *count)
{
    const gd_stored *s = column_of(table, column);
    if (count) *count = s ? s->words.count : 0;
    return s && s->words.count ? (const char *const *)s->words.word : NULL;
}

bool gd_table_dates(gd_table *table, int column, bool *day, bool *clock)
{
    const gd_stored *s = column_of(table, column);
    bool dates = s && s->kind == GD_CELLS_DATES;
    if (day) *day = dates && s->day;
    if (clock) *clock = dates && s->clock;
    return dates;
}

/* Places of columns by name; names NULL: all.  New: [count + 1]. */
static int *places_of(gd_table *table, const char *const *names, int count)
{
    int *place = gd__alloc(table->ctx, ((size_t)count + 1) * sizeof *place);
    for (int i = 0; i < count && place; i++) {
        place[i] = !names ? i : names[i] ? gd__csv_column(table, names[i]) : -1;
        if (place[i] >= 0) continue;
        if (names && !names[i]) (void)gd__null(table->ctx, "table: the name of a column is NULL");
        gd__free(table->ctx, place, ((size_t)count + 1) * sizeof *place);
        return NULL;
    }
    return place;
}

gd_tensor *gd_table_matrix(gd_table *table, const char *const *names, int count)
{
    if (!table || gd_error(table->ctx)) return NULL;
    if (!names) count = table->columns;
    if (count < 0) return gd__refuse(table->ctx, GD_ARGUMENT, "table: %d columns", count);
    int *place = places_of(table, names, count);
    if (!place) return NULL;
    gd_tensor *t = gd__csv_tensor(table, place, count);
    gd__free(table->ctx, place, ((size_t)count + 1) * sizeof *place);
    return t;
}

/* ---- parts ---- */

/* Rows and columns of a table, which may itself be a selection.  pick is consumed; NULL: all rows. */
static gd_table *part_of_table(gd_table *table, int64_t *pick, int64_t rows, const int *place, int columns)
{
    gd_ctx *ctx = table->ctx;
    gd_table *base = table->base ? table->base : table;
    gd_table *out = gd__csv_new(ctx, table->source, columns);
    size_t bytes = ((size_t)rows + 1) * sizeof *pick;
    bool all = !pick && !table->pick;
    if (!pick && !all && (pick = gd__alloc(ctx, bytes)))
        for (int64_t i = 0; i < rows; i++) pick[i] = i;
    for (int64_t i = 0; i < rows && pick && table->pick; i++) pick[i] = table->pick[pick[i]];
    if (out && columns) out->place = gd__alloc(ctx, (size_t)columns * sizeof *out->place);
    if (!out || (columns && !out->place) || (!pick && !all)) {
        gd__free(ctx, pick, pick ? bytes : 0);
        gd__csv_free(out);
        return NULL;
    }
    out->base = base;
    base->references++;
    out->pick = pick;
    out->lines = (size_t)rows;
    for (int i = 0; i < columns; i++) {
        out->place[i] = table->base ? table->place[place ? place[i] : i] : place ? place[i] : i;
        out->name[i] = table->name[place ? place[i] : i];
    }
    if (gd__csv_index_names(out) == GD_OK) return out;
    gd__csv_free(out);
    return NULL;
}

/* Indices of rows.  New: [*count + 1]. */
static int64_t *chosen_rows(gd_table *table, gd_tensor *rows, int64_t *count)
{
    gd_ctx *ctx = table->ctx;
    int64_t have = gd__csv_rows(table), given = gd_numel(rows);
    bool mask = gd_tensor_dtype(rows) == GD_BOOL;
    if (!mask && gd_tensor_dtype(rows) != GD_I64)
        return gd__refuse(ctx, GD_DTYPE, "table: rows are chosen by i64 or bool, not by %s",
                          gd_dtype_name(gd_tensor_dtype(rows)));
    if (gd_ndim(rows) != 1 || (mask && given != have))
        return gd__refuse(ctx, GD_SHAPE, "table: rows are chosen by a vector%s, %s has %lld rows",
                          mask ? " with a flag for each" : "", table->source, (long long)have);
    size_t bytes = ((size_t)given + 1) * sizeof(int64_t);
    int64_t *pick = gd__alloc(ctx, bytes), used = 0;
    gd_tensor *flat = pick ? gd_contiguous(rows) : NULL;
    const void *data = flat ? gd_data(flat) : NULL;
    gd_status status = data ? GD_OK : gd_error(ctx);
    for (int64_t i = 0; i < given && !status; i++) {
        int64_t at = mask ? i : ((const int64_t *)data)[i];
        if (mask && !((const bool *)data)[i]) continue;
        if (at < -have || at >= have)
            status = gd_fail(ctx, GD_INDEX, "table: row %lld, but %s has %lld", (long long)at, table->source,
                             (long long)have);
        pick[used++] = at < 0 ? at + have : at;
    }
    *count = used;
    if (!status && used < given) { /* the size with which it is freed */
        int64_t *fewer = gd__realloc(ctx, pick, bytes, ((size_t)used + 1) * sizeof *pick);
        if (fewer) return fewer;
        status = GD_NOMEM;
    }
    if (!status) return pick;
    gd__free(ctx, pick, pick ? bytes : 0);
    return NULL;
}

gd_table *gd_table_select_rows(gd_table *table, gd_tensor *rows)
{
    if (!table || gd_error(table->ctx)) return NULL;
    if (!rows) return gd__none(gd__null(table->ctx, "table: the rows are NULL"));
    int64_t count = 0;
    gd_scope_begin(table->ctx);
    int64_t *pick = chosen_rows(table, rows, &count);
    gd_scope_end(table->ctx);
    return pick ? part_of_table(table, pick, count, NULL, table->columns) : NULL;
}

gd_table *gd_table_select(gd_table *table, const char *const *names, int count)
{
    if (!table || gd_error(table->ctx)) return NULL;
    if (!names) return gd__none(gd__null(table->ctx, "table: the names of columns are NULL"));
    if (count < 0) return gd__refuse(table->ctx, GD_ARGUMENT, "table: %d columns", count);
    int *place = places_of(table, names, count);
    if (!place) return NULL;
    gd_table *out = part_of_table(table, NULL, gd__csv_rows(table), place, count);
    gd__free(table->ctx, place, ((size_t)count + 1) * sizeof *place);
    if (!out || gd__csv_check_names(out) == GD_OK) return out;
    gd_table_free(out);
    return NULL;
}
