/* Tables from memory; see gradus/table.h.
 *
 * A column is added in two steps: everything that may fail comes first, so that a table never has half a column, and the caller's memory is
 * taken only when nothing can fail any more. */
#include "base/object.h"
#include "base/text/compose.h"
#include "gradus/autograd.h"
#include "gradus/dlpack.h"
#include "table/csv_inside.h"
#include "table/frame.h"

#include <stdio.h>
#include <string.h>

#define FIRST_ROOM 8 /* columns */

gd_table *gd_table_new(gd_ctx *ctx, const char *name)
{
    if (!ctx || gd_error(ctx)) return NULL;
    gd_table *table = gd__csv_new(ctx, name ? name : "table", 0);
    if (table) table->built = true;
    return table;
}

/* ---- room for a column ---- */

/* Names and their words are two halves of one array. */
static gd_status room_for_names(gd_table *t)
{
    size_t room = t->name_bytes / (2 * sizeof *t->name), want = room ? 2 * room : FIRST_ROOM;
    if ((size_t)t->columns < room) return GD_OK;
    size_t bytes = 2 * want * sizeof *t->name;
    const char **name = gd__alloc(t->ctx, bytes);
    if (!name) return GD_NOMEM;
    for (int i = 0; i < t->columns; i++) name[i] = t->name[i], name[want + (size_t)i] = t->word[i];
    gd__free(t->ctx, t->name, t->name_bytes);
    t->name = name;
    t->word = name + want;
    t->name_bytes = bytes;
    return GD_OK;
}

static gd_status check_column(gd_table *t, const char *name, int64_t rows)
{
    if (gd_error(t->ctx)) return gd_error(t->ctx);
    if (!name) return gd__null(t->ctx, "table: the name of a column is NULL");
    if (!t->built)
        return gd_fail(t->ctx, GD_ARGUMENT, "%s: a table that was read or selected takes no columns",
                       t->source);
    if (!*name) return gd_fail(t->ctx, GD_ARGUMENT, "%s: a column without a name", t->source);
    for (const char *s = name; *s;) {
        size_t length = gd__utf8_length(s);
        if (!length)
            return gd_fail(t->ctx, GD_FORMAT, "%s: the name of column %d is not UTF-8", t->source,
                           t->columns + 1);
        s += length;
    }
    if (rows < 0 || (t->columns && rows != (int64_t)t->lines))
        return gd_fail(t->ctx, GD_SHAPE, "%s: '%.60s' has %lld rows, '%.60s' has %zu", t->source, name,
                       (long long)rows, t->columns ? t->name[0] : "a table", t->lines);
    return GD_OK;
}

/* Checks the name and makes room.  *interned: the stored name. */
static gd_status reserve(gd_table *t, const char *name, int64_t rows, const char **interned)
{
    gd_status status = check_column(t, name, rows);
    if (!status) status = room_for_names(t);
    size_t columns = (size_t)t->columns + 1;
    if (!status && !gd__grow(t->ctx, &t->stored, &t->stored_bytes, columns * sizeof *t->stored))
        status = GD_NOMEM;
    if (!status && !(*interned = gd__intern(t->ctx, name, strlen(name)))) status = GD_NOMEM;
    if (!status && !gd__csv_word_of(t->ctx, *interned)) status = GD_NOMEM;
    if (!status) status = gd__name_index_reserve(t->ctx, &t->index, t->name, t->columns);
    if (!status && gd__name_index_find(&t->index, t->name, *interned) >= 0)
        status = gd_fail(t->ctx, GD_ARGUMENT, "%s: there is a column '%.60s' already", t->source, name);
    return status;
}

/* After reserve: cannot fail. */
static void commit(gd_table *t, const char *interned, gd_stored stored, int64_t rows)
{
    int at = t->columns++;
    t->name[at] = t->word[at] = interned;
    t->stored[at] = stored;
    t->lines = (size_t)rows;
    gd__name_index_add(&t->index, t->name, at);
    gd__csv_add_word(t, at);
}

gd_status gd__table_take(gd_table *t, const char *name, gd_stored *stored, int64_t rows)
{
    const char *interned = NULL;
    gd_status status = reserve(t, name, rows, &interned);
    if (status) return status;
    (void)gd_retain(stored->value);
    commit(t, interned, *stored, rows);
    return GD_OK;
}

/* ---- tensors ---- */

/* A reference on the numbers as contiguous f64 on the CPU, without names. */
static gd_tensor *numbers_of(gd_ctx *ctx, gd_tensor *values)
{
    gd__aside_begin(ctx);
    gd_tensor *host = gd_to_device(gd_detach(values), gd_device_get(ctx, "cpu"));
    gd_tensor *numbers = gd_contiguous(gd_cast(gd_drop_names(host), GD_F64));
    if (numbers) (void)gd_retain(numbers);
    gd__aside_end(ctx);
    return numbers;
}

static gd_status add_vector(gd_table *t, const char *name, gd_tensor *values, gd_stored stored)
{
    const char *interned = NULL;
    gd_status status = reserve(t, name, gd_size(values, 0), &interned);
    if (status) return status;
    stored.value = numbers_of(t->ctx, values);
    if (!stored.value) return gd_error(t->ctx);
    commit(t, interned, stored, gd_size(values, 0));
    return GD_OK;
}

/* Removes columns from `first` on. */
static void drop_from(gd_table *t, int first)
{
    for (int i = first; i < t->columns; i++) gd_release(t->stored[i].value);
    if (t->columns > first) {
        t->columns = first;
        gd__name_index_free(t->ctx, &t->index); /* built again by the next column */
    }
    if (!first) t->lines = 0;
}

static gd_status add_matrix(gd_table *t, const char *name, gd_tensor *values)
{
    gd_status status = GD_OK;
    int before = t->columns;
    gd_tensor *const detached = gd_detach(values);
    for (int64_t i = 0; i < gd_size(values, 1) && !status; i++) {
        char text[208];
        (void)snprintf(text, sizeof text, "%.180s%lld", name, (long long)i + 1);
        gd_scope_begin(t->ctx);
        gd_tensor *column = gd_index(gd_drop_names(detached), "1", i);
        status = column ? add_vector(t, text, column, (gd_stored){.kind = GD_CELLS_NUMBERS})
                        : gd_error(t->ctx);
        gd_scope_end(t->ctx);
    }
    if (status) drop_from(t, before);
    return status;
}

gd_status gd_table_add(gd_table *t, const char *name, gd_tensor *values)
{
    if (!t) return GD_ARGUMENT;
    if (!values || !name)
        return gd__null(t->ctx, values ? "table: the name of a column is NULL" : "table: a column is NULL");
    if (gd_error(t->ctx)) return gd_error(t->ctx);
    if (gd_ndim(values) == 1) return add_vector(t, name, values, (gd_stored){.kind = GD_CELLS_NUMBERS});
    if (gd_ndim(values) != 2)
        return gd_fail(t->ctx, GD_SHAPE, "%s: '%.60s' has %d axes; vectors and matrices are columns",
                       t->source, name, gd_ndim(values));
    gd_scope_begin(t->ctx);
    gd_status status = add_matrix(t, name, values);
    gd_scope_end(t->ctx);
    return status;
}

gd_status gd_table_add_dates(gd_table *t, const char *name, gd_tensor *values, bool day, bool clock)
{
    if (!t) return GD_ARGUMENT;
    if (!values) return gd__null(t->ctx, "table: a column is NULL");
    if (gd_error(t->ctx)) return gd_error(t->ctx);
    if (gd_ndim(values) != 1)
        return gd_fail(t->ctx, GD_SHAPE, "%s: dates are a vector, '%.60s' has %d axes", t->source,
                       name ? name : "", gd_ndim(values));
    gd_stored dates = {.kind = GD_CELLS_DATES, .day = day, .clock = clock || !day};
    return add_vector(t, name, values, dates);
}

/* ---- memory ---- */

static gd_tensor *copy_numbers(gd_ctx *ctx, const double *values, int64_t rows, int64_t stride)
{
    gd_tensor *t = gd_empty(ctx, GD_F64, 1, &rows);
    double *to = t ? gd_data_mut(t) : NULL;
    for (int64_t i = 0; i < rows && to; i++) to[i] = values[i * stride];
    return t;
}

gd_status gd_table_add_numbers(gd_table *t, const char *name, const double *values, int64_t rows,
                               int64_t stride, void (*release)(void *user), void *user)
{
    if (!t) return GD_ARGUMENT;
    if (!values && rows) return gd__null(t->ctx, "table: the numbers are NULL");
    const char *interned = NULL;
    gd_status status = reserve(t, name, rows, &interned);
    if (status) return status;
    bool lent = stride == 1 && values;
    gd_scope_begin(t->ctx);
    gd_tensor *n = lent ? gd_from_memory(gd_device_get(t->ctx, "cpu"), GD_F64, 1, &rows, NULL,
                                         (void *)(uintptr_t)values, GD_READ_ONLY, release, user)
                        : copy_numbers(t->ctx, values, rows, stride);
    if (n) commit(t, interned, (gd_stored){.kind = GD_CELLS_NUMBERS, .value = gd_retain(n)}, rows);
    gd_scope_end(t->ctx);
    if (!n) return gd_error(t->ctx);
    if (!lent && release) release(user);
    return GD_OK;
}

/* ---- words ---- */

static gd_status read_words(gd_table *t, const char *name, const char *const *words, int64_t rows,
                            gd_frame_column *out)
{
    gd_word_places places = {0};
    gd_status status = GD_OK;
    for (int64_t i = 0; i < rows && !status; i++) {
        size_t length = 1;
        for (const char *s = words[i]; s && *s && length; s += length) length = gd__utf8_length(s);
        status = length ? gd__frame_word(t->ctx, &places, out, words[i] ? words[i] : "", &out->value[i])
                        : gd_fail(t->ctx, GD_FORMAT, "%s: row %lld of '%.60s' is not UTF-8", t->source,
                                  (long long)i + 1, name);
    }
    gd__frame_places_free(t->ctx, &places);
    return status;
}

gd_status gd_table_add_words(gd_table *t, const char *name, const char *const *words, int64_t rows)
{
    if (!t) return GD_ARGUMENT;
    if (!words && rows) return gd__null(t->ctx, "table: the words are NULL");
    const char *interned = NULL;
    gd_status status = reserve(t, name, rows, &interned);
    if (status) return status;
    gd_stored stored = {.kind = GD_CELLS_WORDS};
    gd_scope_begin(t->ctx);
    gd_tensor *places = gd_empty(t->ctx, GD_F64, 1, &rows);
    if (places) {
        gd_frame_column column = {.kind = GD_CELLS_WORDS, .value = gd_data_mut(places)};
        status = read_words(t, name, words, rows, &column);
        stored.words = column.words;
    } else {
        status = gd_error(t->ctx);
    }
    if (!status) stored.value = gd_retain(places);
    gd_scope_end(t->ctx);
    if (!status)
        commit(t, interned, stored, rows);
    else
        gd__words_free(t->ctx, &stored.words);
    return status;
}
