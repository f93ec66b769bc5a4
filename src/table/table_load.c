#include "table/table_load.h"
#include "table/csv_inside.h"
#include "file/idx.h"
#include "file/zip.h"
#include "file/input.h"
#include "gradus/autograd.h"
#include "gradus/file.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static bool ends_in(const char *path, const char *end)
{
    size_t length = strlen(path), size = strlen(end);
    return length >= size && !strcmp(path + length - size, end);
}

/* ---- columns of numbers ---- */

/* Columns that a tensor has: one for a vector, the width of a matrix; -1 with SHAPE. */
static int width_of(gd_ctx *ctx, const char *path, const char *name, const gd_tensor *t)
{
    if (gd_ndim(t) == 1) return 1;
    if (gd_ndim(t) == 2 && gd_size(t, 1) < 1000000) return (int)gd_size(t, 1);
    (void)gd_fail(ctx, GD_SHAPE, "%s: '%.60s' has %d axes; vectors and matrices are columns", path, name,
                  gd_ndim(t));
    return -1;
}

/* The columns of one tensor from column `at` on. */
static gd_status take_columns(gd_csv *csv, const char *name, gd_tensor *t, int at, int width)
{
    gd_ctx *ctx = csv->ctx;
    if (at && gd_size(t, 0) != (int64_t)csv->lines)
        return gd_fail(ctx, GD_SHAPE, "%s: '%.60s' has %lld rows, '%.60s' has %zu", csv->source, name,
                       (long long)gd_size(t, 0), csv->name[0], csv->lines);
    csv->lines = (size_t)gd_size(t, 0);
    for (int i = 0; i < width; i++) {
        char text[200];
        int length = gd_ndim(t) == 1 ? snprintf(text, sizeof text, "%.180s", name)
                                     : snprintf(text, sizeof text, "%.180s%d", name, i + 1);
        if (!(csv->name[at + i] = gd__intern(ctx, text, (size_t)length))) return GD_NOMEM;
        gd__aside_begin(ctx);
        gd_tensor *column = gd_drop_names(gd_ndim(t) == 1 ? t : gd_index(t, "1", i));
        gd_tensor *numbers = gd_contiguous(gd_cast(column, GD_F64));
        csv->stored[at + i] = (gd_stored){.kind = GD_CELLS_NUMBERS, .value = gd_retain(numbers)};
        gd__aside_end(ctx);
        if (!numbers) return gd_error(ctx);
    }
    return GD_OK;
}

static gd_csv *table_of(gd_ctx *ctx, const char *path, const gd_archive *archive)
{
    int columns = 0, at = 0;
    for (int64_t i = 0; i < gd_archive_count(archive); i++) {
        int width = width_of(ctx, path, gd_archive_name(archive, i), gd_archive_get(archive, i));
        if (width < 0) return NULL;
        columns += width;
    }
    if (!columns) return gd__refuse(ctx, GD_FORMAT, "%s: no columns", path);
    gd_csv *csv = gd__csv_new(ctx, path, columns);
    if (!csv) return NULL;
    gd_status status = gd__csv_store(csv);
    for (int64_t i = 0; i < gd_archive_count(archive) && !status; i++) {
        gd_tensor *t = gd_archive_get(archive, i);
        int width = gd_ndim(t) == 1 ? 1 : (int)gd_size(t, 1);
        status = take_columns(csv, gd_archive_name(archive, i), t, at, width);
        at += width;
    }
    if (!status) status = gd__csv_index_names(csv);
    if (!status) return csv;
    gd__csv_free(csv);
    return NULL;
}

/* ---- files ---- */

/* A file of one array. */
static gd_archive *read_array(gd_ctx *ctx, const char *path, const gd_input *how)
{
    gd_archive *archive = gd_archive_new(ctx);
    gd_scope_begin(ctx);
    gd_tensor *t = !archive                ? NULL
                   : gd__idx_is_path(path) ? gd__idx_load(ctx, path, how)
                                           : gd_npy_load(ctx, path);
    if (t && gd_ndim(t) == 1) t = gd_unsqueeze(t, 1, NULL); /* c1, as that of a matrix */
    bool ok = t && gd_archive_put(archive, "c", t) == GD_OK;
    gd_scope_end(ctx);
    if (ok) return archive;
    gd_archive_free(archive);
    return NULL;
}

static gd_csv *load_one(gd_ctx *ctx, const char *path, const gd_csv_options *options)
{
    bool npz = ends_in(path, ".npz"), safe = ends_in(path, ".safetensors"), idx = gd__idx_is_path(path);
    const gd_input *how = options ? &options->input : NULL;
    if (!npz && !safe && !idx && !ends_in(path, ".npy")) return gd__csv_load(ctx, path, options);
    if (!idx && gd__input_fits(ctx, path))
        return NULL; /* the size of others is checked while they are read */
    gd_archive *archive = npz    ? gd__npz_load(ctx, path, how)
                          : safe ? gd_archive_load(ctx, path)
                                 : read_array(ctx, path, how);
    gd_csv *csv = archive ? table_of(ctx, path, archive) : NULL;
    gd_archive_free(archive);
    return csv;
}

/* ---- several ---- */

/* Positions of the columns of the first part in part k. */
static gd_status match_part(gd_csv *csv, int k)
{
    const gd_csv *first = csv->part[0], *part = csv->part[k];
    if (part->columns != first->columns)
        return gd_fail(csv->ctx, GD_FORMAT, "%s has %d columns, %s has %d", part->source, part->columns,
                       first->source, first->columns);
    for (int i = 0; i < first->columns; i++) {
        int there = gd__csv_find(part, first->name[i]);
        if (there < 0) there = gd__csv_find(part, first->word[i]);
        if (there < 0)
            return gd_fail(csv->ctx, GD_FORMAT, "%s: no column '%.60s', which %s has", part->source,
                           first->name[i], first->source);
        csv->place[k * csv->columns + i] = there;
    }
    csv->place[k * csv->columns + first->columns] = -1;
    csv->lines += part->lines;
    return GD_OK;
}

static gd_status name_all(gd_csv *csv)
{
    const gd_csv *first = csv->part[0];
    if (gd__csv_find(first, "set") >= 0)
        return gd_fail(csv->ctx, GD_ARGUMENT,
                       "%s has a column 'set', which is to be the number of the file of several",
                       first->source);
    for (int i = 0; i < first->columns; i++) csv->name[i] = first->name[i];
    csv->name[first->columns] = "set";
    return gd__csv_index_names(csv);
}

static gd_csv *join_tables(gd_ctx *ctx, gd_csv **part, int count)
{
    char source[64];
    (void)snprintf(source, sizeof source, "%d tables", count);
    gd_csv *csv = gd__csv_new(ctx, source, part[0]->columns + 1);
    if (!csv) return NULL;
    csv->parts = count;
    csv->place = gd__calloc(ctx, (size_t)count * (size_t)csv->columns * sizeof *csv->place);
    csv->part = gd__calloc(ctx, (size_t)count * sizeof *csv->part);
    gd_status status = csv->place && csv->part ? GD_OK : GD_NOMEM;
    for (int k = 0; k < count && csv->part; k++) csv->part[k] = part[k], part[k] = NULL;
    for (int k = 0; k < count && !status; k++) status = match_part(csv, k);
    if (!status) status = name_all(csv);
    if (!status) return csv;
    gd__csv_free(csv);
    return NULL;
}

static bool is_same_file(const char *a, const char *b)
{
    struct stat first, second;
    if (!strcmp(a, b)) return true;
    return !stat(a, &first) && !stat(b, &second) && S_ISREG(first.st_mode) && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

/* Duplicated rows make standard errors too small. */
static gd_status check_twice(gd_ctx *ctx, const char *const *paths, int count)
{
    for (int k = 1; k < count; k++)
        for (int i = 0; i < k; i++)
            if (is_same_file(paths[i], paths[k]))
                return gd_fail(ctx, GD_ARGUMENT, "%s: given twice, its rows would count twice", paths[k]);
    return GD_OK;
}

gd_csv *gd__table_load(gd_ctx *ctx, const char *const *paths, int count, const gd_csv_options *options)
{
    if (count == 1) return load_one(ctx, paths[0], options);
    if (check_twice(ctx, paths, count)) return NULL;
    size_t bytes = (size_t)count * sizeof(gd_csv *);
    gd_csv **part = gd__calloc(ctx, bytes), *csv = NULL;
    bool ok = part != NULL;
    for (int k = 0; k < count && ok; k++) ok = (part[k] = load_one(ctx, paths[k], options)) != NULL;
    if (ok) csv = join_tables(ctx, part, count);
    for (int k = 0; k < count && part; k++) gd__csv_free(part[k]);
    gd__free(ctx, part, part ? bytes : 0);
    return csv;
}
