/* Reading data sets; see dataset.h. */
#include "train/data/learnt_columns.h"
#include "file/idx.h"
#include "table/value.h"
#include "file/file_internal.h"
#include "file/safetensors.h"
#include "base/text/scan.h"
#include "base/text/suggest.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CLASSES 100000
#define FEW_CLASSES 20 /* at most so many different whole numbers, each in five rows, are classes */

/* ---- classes ---- */

typedef struct label {
    const char *text; /* NULL: a number */
    double value;
    int64_t row;
} label;

static int compare_labels(const void *a, const void *b)
{
    const label *x = a, *y = b;
    if (x->text) return strcmp(x->text, y->text);
    return x->value < y->value ? -1 : x->value > y->value;
}

static const char *label_name(const label *l, char out[GD_NUMBER_SIZE])
{
    return l->text ? l->text : gd__number_text(l->value, out);
}

/* A class that training did not see. */
static gd_status unknown_class(gd_dataset *d, const char *source, const char *name)
{
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (int i = 0; i < d->classes.count; i++) gd__suggest_try(&nearest, d->classes.word[i]);
    char hint[GD_HINT_SIZE];
    return gd_fail(d->ctx, GD_FORMAT, "%s: the model knows no class '%.60s'%s", source, name,
                   gd__suggest_hint(&nearest, hint));
}

/* Assigns a class to every sorted label: a new one, or its index among known ones. */
static gd_status number_labels(gd_dataset *d, const char *source, const label *sorted,
                               const gd_name_index *known, int64_t *out)
{
    int found = -1;
    gd_status status = GD_OK;
    for (int64_t i = 0; i < d->rows && !status; i++) {
        if (i == 0 || compare_labels(&sorted[i - 1], &sorted[i]) != 0) {
            char number[GD_NUMBER_SIZE];
            const char *name = label_name(&sorted[i], number);
            found = known ? gd__name_index_find(known, d->classes.word, name) : d->classes.count;
            if (found < 0) return unknown_class(d, source, name);
            if (!known) status = gd__words_add(d->ctx, &d->classes, name, strlen(name));
            if (d->classes.count > MAX_CLASSES)
                return gd_fail(d->ctx, GD_FORMAT, "%s: more than %d classes", source, MAX_CLASSES);
        }
        out[sorted[i].row] = found;
    }
    return status;
}

/* Makes y of labels, which it sorts. */
static gd_status set_classes(gd_dataset *d, const char *source, label *labels, bool known)
{
    qsort(labels, (size_t)d->rows, sizeof *labels, compare_labels);
    d->y = gd_empty(d->ctx, GD_I64, 1, (int64_t[]){d->rows});
    gd_name_index index = {.first_again = -1};
    gd_status status = d->y ? GD_OK : gd_error(d->ctx);
    if (!status && known) status = gd__name_index_build(d->ctx, d->classes.word, d->classes.count, &index);
    if (!status) status = number_labels(d, source, labels, known ? &index : NULL, gd_data_mut(d->y));
    gd__name_index_free(d->ctx, &index);
    if (!status && d->classes.count < 2)
        status = gd_fail(d->ctx, GD_FORMAT, "%s: every row is of class '%.60s': nothing to tell apart",
                         source, d->classes.word[0]);
    return status;
}

static gd_status label_all(gd_dataset *d, const char *source, const double *values,
                           const char *(*text)(void *user, int64_t row), void *user, bool known)
{
    label *labels = gd__alloc_array(d->ctx, (size_t)d->rows, sizeof *labels);
    if (!labels) return gd_error(d->ctx);
    for (int64_t i = 0; i < d->rows; i++)
        labels[i] = (label){.text = text ? text(user, i) : NULL, .value = values ? values[i] : 0, .row = i};
    gd_status status = set_classes(d, source, labels, known);
    gd__free(d->ctx, labels, (size_t)d->rows * sizeof *labels);
    return status;
}

/* ---- tables ---- */

typedef struct table {
    gd_csv *csv;
    int target, key, *feature; /* columns; target -1: none */
    int features;
    size_t feature_bytes;
} table;

/* A missing column of a model: lists its columns, after those of the table. */
static gd_status lacks_column(const gd_dataset *d, const gd_data_request *q)
{
    char why[400], names[240];
    gd_status status = gd_error(d->ctx);
    if (!q->columns || !q->columns->count) return status;
    (void)snprintf(why, sizeof why, "%s", gd_error_text(d->ctx));
    gd__names_list(q->features->word, q->features->count, names, sizeof names);
    gd_clear_error(d->ctx);
    return gd_fail(d->ctx, status, "%s; the model has learnt from %s, in any order", why, names);
}

/* The columns asked for, in that order. */
static gd_status find_wanted(gd_dataset *d, const gd_data_request *q, table *t)
{
    for (int i = 0; i < q->features->count; i++) {
        t->feature[i] = gd__csv_column(t->csv, q->features->word[i]);
        if (t->feature[i] < 0) return lacks_column(d, q);
        if (t->feature[i] == t->target)
            return gd_fail(d->ctx, GD_ARGUMENT, "%s: column '%.60s' is feature and target", q->path,
                           q->features->word[i]);
    }
    t->features = q->features->count;
    return GD_OK;
}

/* All columns but the target and those ignored.  Their names must be distinct afterwards. */
static gd_status find_others(gd_dataset *d, const gd_data_request *q, table *t)
{
    int columns = gd__csv_columns(t->csv);
    bool *ignored = gd__calloc(d->ctx, (size_t)columns * sizeof *ignored);
    gd_status status = ignored ? gd__csv_check_names(t->csv) : GD_NOMEM;
    for (int i = 0; q->ignored && i < q->ignored->count && !status; i++)
        ignored[gd__csv_find(t->csv, q->ignored->word[i])] = true;
    if (!status && q->key && q->key_apart) ignored[t->key] = true;
    for (int i = 0; i < columns && !status; i++)
        if (i != t->target && !ignored[i]) t->feature[t->features++] = i;
    gd__free(d->ctx, ignored, (size_t)columns * sizeof *ignored);
    return status;
}

static gd_status find_columns(gd_dataset *d, const gd_data_request *q, table *t)
{
    for (int i = 0; q->ignored && i < q->ignored->count; i++)
        if (gd__csv_column(t->csv, q->ignored->word[i]) < 0) return gd_error(d->ctx);
    bool wanted = q->features && q->features->count;
    gd_status status = wanted ? find_wanted(d, q, t) : find_others(d, q, t);
    if (!status && !t->features)
        status = gd_fail(d->ctx, GD_ARGUMENT, "%s: no column is left to learn from", q->path);
    return status;
}

/* The kinds that are known: those of the encoding, or of --text. */
static gd_status known_kinds(gd_dataset *d, const gd_data_request *q, const table *t, gd_cells *kind)
{
    for (int i = 0; i < t->features; i++)
        kind[i] = q->columns && q->columns->count ? gd__column_cells(&q->columns->column[i]) : GD_CELLS_FOUND;
    for (int k = 0; q->text && k < q->text->count; k++) {
        int column = gd__csv_column(t->csv, q->text->word[k]), i = 0;
        if (column < 0) return gd_error(d->ctx);
        while (i < t->features && t->feature[i] != column) i++;
        if (i == t->features && column != t->target)
            return gd_fail(d->ctx, GD_ARGUMENT, "{text} '%.60s': nothing is learnt from that column",
                           q->text->word[k]);
        if (i < t->features && kind[i] == GD_CELLS_FOUND) kind[i] = GD_CELLS_WORDS;
    }
    return GD_OK;
}

/* Drops columns that only number the rows, unless they were requested or are the only ones. */
static gd_status drop_ids(gd_dataset *d, const gd_data_request *q)
{
    gd_status status = GD_OK;
    bool asked = q->features && q->features->count;
    for (int i = d->frame.count - 1; i >= 0 && !asked && d->frame.count > 1 && !status; i--) {
        if (!gd__frame_is_id(&d->frame, i)) continue;
        const char *name = d->frame.column[i].name;
        status = gd__words_add(d->ctx, &d->ids, name, strlen(name));
        gd__frame_drop(&d->frame, i);
    }
    for (int i = 0; i < d->frame.count && !status; i++)
        status = gd__words_add(d->ctx, &d->features, d->frame.column[i].name,
                               strlen(d->frame.column[i].name));
    return status;
}

static gd_status read_features(gd_dataset *d, const gd_data_request *q, const table *t)
{
    size_t bytes = (size_t)t->features * sizeof(gd_cells);
    gd_cells *kind = gd__alloc(d->ctx, bytes);
    if (!kind) return GD_NOMEM;
    gd_status status = known_kinds(d, q, t, kind);
    if (!status) status = gd__frame_read(d->ctx, t->csv, t->feature, t->features, kind, &d->frame);
    gd__free(d->ctx, kind, bytes);
    return status ? status : drop_ids(d, q);
}

static const char *cell_of(void *user, int64_t row)
{
    const table *t = user;
    return gd__csv_cell(t->csv, row, t->target);
}

/* An empty cell is no class. */
static gd_status check_cells(const gd_dataset *d, const table *t)
{
    char text[GD_CELL_SIZE];
    double value;
    bool numbers = gd__csv_told(t->csv, t->target) == GD_CELLS_NUMBERS; /* read already: no text is needed */
    for (int64_t i = 0; i < d->rows; i++)
        if (!(numbers && gd__csv_number(t->csv, i, t->target, &value) > 0) &&
            !*gd__csv_text(t->csv, i, t->target, text))
            return gd_fail(d->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': the cell is empty",
                           gd__csv_source(t->csv), (long long)gd__csv_line(t->csv, i),
                           gd__csv_name(t->csv, t->target));
    return GD_OK;
}

/* Few whole numbers, each of them often: more likely names of classes than a quantity. */
static bool few_whole_numbers(const double *v, int64_t rows)
{
    double seen[FEW_CLASSES];
    int count = 0;
    for (int64_t i = 0; i < rows; i++) {
        int k = 0;
        while (k < count && seen[k] != v[i]) k++;
        if (v[i] != floor(v[i]) || k == FEW_CLASSES) return false;
        if (k == count) seen[count++] = v[i];
    }
    return rows >= 5 * (int64_t)count;
}

static bool is_named_text(const gd_data_request *q, const char *name)
{
    return q->text && gd__words_find(q->text, name) >= 0;
}

/* Are the cells of the target numbers? Not if most of them are texts; a few texts are mistakes. */
static bool target_is_numeric(const gd_dataset *d, const gd_data_request *q, const table *t)
{
    int64_t numbers = 0;
    double value;
    if (is_named_text(q, gd__csv_name(t->csv, t->target))) return false;
    for (int64_t i = 0; i < d->rows; i++) numbers += gd__csv_number(t->csv, i, t->target, &value) >= 0;
    return q->task == GD_TASK_CLASSIFY ? numbers == d->rows : 2 * numbers > d->rows;
}

static gd_status number_target(gd_dataset *d, const gd_data_request *q, table *t)
{
    bool known = q->classes && q->classes->count;
    gd_tensor *y = gd__csv_tensor(t->csv, &t->target, 1);
    if (!y) return gd_error(d->ctx);
    d->numeric = true;
    d->guessed = !q->task && few_whole_numbers(gd_data(y), d->rows);
    d->task = q->task ? q->task : d->guessed ? GD_TASK_CLASSIFY : GD_TASK_REGRESS;
    if (d->task == GD_TASK_REGRESS) {
        d->y = y;
        return GD_OK;
    }
    gd_status status = label_all(d, q->path, gd_data(y), NULL, NULL, known);
    gd_release(y);
    return status;
}

static gd_status read_target(gd_dataset *d, const gd_data_request *q, table *t)
{
    gd_status status = check_cells(d, t);
    if (status) return status;
    if (q->task == GD_TASK_REGRESS || target_is_numeric(d, q, t)) return number_target(d, q, t);
    if (!gd__csv_is_text(t->csv) && gd__csv_told(t->csv, t->target) == GD_CELLS_DATES)
        return gd_fail(d->ctx, GD_ARGUMENT, "%s: column '%.60s' holds dates: a target is words or numbers",
                       q->path, gd__csv_name(t->csv, t->target));
    d->task = GD_TASK_CLASSIFY;
    return label_all(d, q->path, NULL, cell_of, t, q->classes && q->classes->count);
}

static gd_status read_table(gd_dataset *d, const gd_data_request *q, table *t)
{
    if (!t->csv) return gd_error(d->ctx);
    d->rows = gd__csv_rows(t->csv);
    if (!d->rows) return gd_fail(d->ctx, GD_FORMAT, "%s: no rows", q->path);
    t->target = q->target ? gd__csv_column(t->csv, q->target) : -1;
    if (q->target && t->target < 0) return gd_error(d->ctx);
    size_t room = (size_t)gd__csv_columns(t->csv) + (q->features ? (size_t)q->features->count : 0);
    t->feature_bytes = room * sizeof *t->feature;
    if (!(t->feature = gd__alloc(d->ctx, t->feature_bytes))) return GD_NOMEM;
    gd_status status = q->key && (t->key = gd__csv_column(t->csv, q->key)) < 0 ? gd_error(d->ctx) : GD_OK;
    if (!status) status = find_columns(d, q, t);
    if (!status) status = read_features(d, q, t);
    if (!status && q->key) status = gd__frame_read(d->ctx, t->csv, &t->key, 1, NULL, &d->key);
    if (!status && q->target) status = read_target(d, q, t);
    return status;
}

/* csv is consumed unless it belongs to the request; NULL: reading it failed. */
static gd_status open_table(gd_dataset *d, const gd_data_request *q, gd_csv *csv)
{
    table t = {.target = -1, .csv = csv};
    gd_status status = read_table(d, q, &t);
    if (q->keep_table)
        d->csv = t.csv;
    else if (csv != q->table)
        gd__csv_free(t.csv);
    gd__free(d->ctx, t.feature, t.feature_bytes);
    return status;
}

/* ---- arrays ---- */

gd_status gd__dataset_check_finite(gd_ctx *ctx, const char *path, gd_tensor *t)
{
    if (!gd_dtype_is_float(gd_tensor_dtype(t))) return GD_OK;
    gd_scope_begin(ctx);
    gd_tensor *all = gd_all(gd_isfinite(t), NULL, false);
    bool finite = all && gd_item(all) != 0;
    gd_scope_end(ctx);
    if (gd_error(ctx)) return gd_error(ctx);
    return finite ? GD_OK : gd_fail(ctx, GD_FORMAT, "%s: holds numbers that are not finite", path);
}

static gd_tensor *load_array(gd_dataset *d, const char *path, gd_value_tables *tables)
{
    gd_tensor *t = gd__value_load(d->ctx, "data", path, tables);
    if (!t) return NULL;
    gd_status status = GD_OK;
    if (gd_ndim(t) == 0) status = gd_fail(d->ctx, GD_FORMAT, "%s: one number is not rows", path);
    if (!status && gd_size(t, 0) == 0) status = gd_fail(d->ctx, GD_FORMAT, "%s: no rows", path);
    if (!status && gd_numel(t) == 0) status = gd_fail(d->ctx, GD_FORMAT, "%s: rows without numbers", path);
    if (!status) status = gd__dataset_check_finite(d->ctx, path, t);
    if (!status) return t;
    gd_release(t);
    return NULL;
}

static gd_status set_numbers(gd_dataset *d, gd_tensor *y)
{
    gd_scope_begin(d->ctx);
    d->y = gd_keep(gd_contiguous(gd_cast(gd_reshape(y, 2, (int64_t[]){d->rows, -1}), GD_F64)));
    gd_scope_end(d->ctx);
    return d->y ? GD_OK : gd_error(d->ctx);
}

static gd_status array_classes(gd_dataset *d, const gd_data_request *q, gd_tensor *y)
{
    if (gd_numel(y) != d->rows)
        return gd_fail(d->ctx, GD_FORMAT, "%s: classes are one number per row, here are %lld", q->target,
                       (long long)(gd_numel(y) / d->rows));
    size_t bytes = (size_t)d->rows * sizeof(double);
    double *values = gd__alloc(d->ctx, bytes);
    gd_status status = values ? gd_read_f64(y, values, d->rows) : GD_NOMEM;
    if (!status) status = label_all(d, q->target, values, NULL, NULL, q->classes && q->classes->count);
    gd__free(d->ctx, values, bytes);
    return status;
}

static gd_status read_array_target(gd_dataset *d, const gd_data_request *q, gd_value_tables *tables)
{
    gd_tensor *y = load_array(d, q->target, tables);
    if (!y) return gd_error(d->ctx);
    gd_status status = GD_OK;
    if (gd_size(y, 0) != d->rows)
        status = gd_fail(d->ctx, GD_FORMAT, "%s has %lld rows, %s has %lld", q->target,
                         (long long)gd_size(y, 0), q->path, (long long)d->rows);
    bool whole = !gd_dtype_is_float(gd_tensor_dtype(y));
    d->task = q->task ? q->task : whole ? GD_TASK_CLASSIFY : GD_TASK_REGRESS;
    if (!status) status = d->task == GD_TASK_CLASSIFY ? array_classes(d, q, y) : set_numbers(d, y);
    gd_release(y);
    return status;
}

static gd_status open_arrays(gd_dataset *d, const gd_data_request *q)
{
    gd_value_tables tables = {.csv = q->csv};
    d->x = load_array(d, q->path, &tables);
    if (!d->x) return gd_error(d->ctx);
    d->rows = gd_size(d->x, 0);
    if (gd_ndim(d->x) == 1) {
        gd_tensor *column = gd_reshape(d->x, 2, (int64_t[]){d->rows, 1});
        gd_release(d->x);
        if (!(d->x = column)) return gd_error(d->ctx);
    }
    gd_status status = q->target ? read_array_target(d, q, &tables) : GD_OK;
    bool asked = q->csv.separator || q->csv.decimal || q->csv.no_header || q->csv.encoding != GD_UTF8;
    if (!status && asked && !tables.used)
        return gd_fail(d->ctx, GD_ARGUMENT,
                       "%s is no table: {separator}, {decimal}, {no_header} and {encoding} say nothing here",
                       q->path);
    return status;
}

/* ---- both ---- */

/* Rows as the shape asked for. */
static gd_status reshape_rows(gd_dataset *d)
{
    int64_t shape[GD_MAX_DIMS + 1] = {d->rows}, wanted = 1, have = gd_numel(d->x) / d->rows;
    for (int i = 0; i < d->row_axes; i++) wanted *= shape[i + 1] = d->row[i];
    if (wanted != have)
        return gd_fail(d->ctx, GD_SHAPE, "%s: rows have %lld numbers, %lld are wanted", d->path,
                       (long long)have, (long long)wanted);
    gd_tensor *x = gd_reshape(d->x, d->row_axes + 1, shape);
    if (!x) return gd_error(d->ctx);
    gd_release(d->x);
    d->x = x;
    return GD_OK;
}

/* A model without medians cannot fill missing cells. */
static gd_status check_holes(const gd_dataset *d, const gd_columns *columns)
{
    for (int i = 0; i < columns->count; i++)
        for (int64_t row = 0; row < d->rows && isnan(columns->column[i].median); row++)
            if (isnan(d->frame.column[i].value[row]))
                return gd_fail(d->ctx, GD_FORMAT, "%s: row %lld, column '%.60s': missing", d->path,
                               (long long)row + 1, d->frame.column[i].name);
    return GD_OK;
}

gd_status gd__dataset_encode(gd_dataset *d, gd_columns *columns, const int64_t *rows, int64_t count)
{
    if (!d->frame.count) return GD_OK;
    gd_status status = columns->count ? check_holes(d, columns)
                                      : gd__columns_learn(d->ctx, &d->frame, rows, count, columns);
    if (!status && d->row_axes > 1 && columns->codes)
        status = gd_fail(d->ctx, GD_SHAPE, "%s: rows with a column of many words have no shape", d->path);
    if (status) return status;
    gd_release(d->x);
    if (!(d->x = gd__columns_apply(columns, &d->frame)))
        return gd_error(d->ctx) ? gd_error(d->ctx) : GD_NOMEM;
    return d->row_axes ? reshape_rows(d) : GD_OK;
}

bool gd__dataset_is_table(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && !strcmp(path + length - 3, ".gz")) length -= 3;
    bool npy = length >= 4 && !memcmp(path + length - 4, ".npy", 4);
    return !npy && !gd__idx_is_path(path) && !strstr(path, ".safetensors");
}

static gd_status begin_dataset(gd_ctx *ctx, const gd_data_request *q, gd_dataset *d)
{
    *d = (gd_dataset){.ctx = ctx,
                      .path = q->path,
                      .target = q->target,
                      .row_axes = q->row_axes,
                      .frame = {.ctx = ctx},
                      .key = {.ctx = ctx}};
    memcpy(d->row, q->row, sizeof d->row);
    gd_status status = GD_OK;
    for (int i = 0; q->classes && i < q->classes->count && !status; i++)
        status = gd__words_add(ctx, &d->classes, q->classes->word[i], strlen(q->classes->word[i]));
    return status;
}

gd_status gd__dataset_shape(gd_dataset *d) { return d->x && d->row_axes ? reshape_rows(d) : GD_OK; }

gd_status gd__dataset_open(gd_ctx *ctx, const gd_data_request *q, gd_dataset *d)
{
    gd_status status = begin_dataset(ctx, q, d);
    if (status) return status;
    status = q->table                        ? open_table(d, q, q->table)
             : gd__dataset_is_table(q->path) ? open_table(d, q, gd__csv_load(ctx, q->path, &q->csv))
                                             : open_arrays(d, q);
    return status ? status : gd__dataset_shape(d);
}

gd_status gd__dataset_open_text(gd_ctx *ctx, const gd_data_request *q, const char *text, size_t size,
                                gd_dataset *d)
{
    gd_status status = begin_dataset(ctx, q, d);
    return status ? status : open_table(d, q, gd__csv_parse(ctx, q->path, text, size, &q->csv));
}

gd_status gd__dataset_open_target(gd_ctx *ctx, const gd_data_request *q, int64_t rows, gd_dataset *d)
{
    gd_value_tables tables = {.csv = q->csv};
    gd_status status = begin_dataset(ctx, q, d);
    d->rows = rows;
    return status ? status : read_array_target(d, q, &tables);
}

void gd__dataset_close(gd_dataset *d)
{
    gd_release(d->x);
    gd_release(d->y);
    gd__frame_close(&d->frame);
    gd__frame_close(&d->key);
    gd__csv_free(d->csv);
    gd__words_free(d->ctx, &d->ids);
    gd__words_free(d->ctx, &d->features);
    gd__words_free(d->ctx, &d->classes);
    *d = (gd_dataset){.ctx = d->ctx};
}

gd_status gd__dataset_sum(const gd_dataset *d, uint64_t *sum)
{
    gd_tensor *const both[] = {d->x, d->y};
    gd_status status = GD_OK;
    *sum = (uint64_t)d->rows;
    for (int k = 0; k < 2 && !status; k++) {
        gd_bytes bytes;
        if (!both[k]) continue;
        status = gd__bytes_of(both[k], &bytes);
        if (status) break;
        *sum = gd__checksum(*sum, bytes.data, bytes.size);
        gd__bytes_free(d->ctx, &bytes);
    }
    return status;
}
