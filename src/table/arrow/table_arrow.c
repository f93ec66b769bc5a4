/* Tables over columns of Arrow streams; see gradus/table.h and arrow.h.
 *
 * All batches of the stream are fetched, then each column is made. A column of f64 without missing cells in one batch is borrowed: the batch
 * stays until the last of its columns is freed.  Others are converted. */
#include "base/object.h"
#include "base/text/compose.h"
#include "gradus/dlpack.h"
#include "table/arrow/arrow_cells.h"
#include "table/csv_inside.h"

#include <math.h>
#include <string.h>

/* A batch that columns borrow from. */
typedef struct batch {
    gd_ctx *ctx;
    gd_arrow_array array;
    int64_t users;
} batch;

typedef struct importer {
    gd_ctx *ctx;
    gd_arrow_stream *stream;
    gd_arrow_schema schema;
    batch **batch;
    size_t batch_bytes;
    int batches;
    int64_t rows;
    gd_table *table;
    char *text; /* of one cell */
    size_t text_bytes;
} importer;

static void leave_batch(void *user)
{
    batch *b = user;
    if (--b->users) return;
    if (b->array.release) b->array.release(&b->array);
    gd__free(b->ctx, b, sizeof *b);
}

/* ---- fetching ---- */

static gd_status stream_failed(importer *m, const char *what, int code)
{
    const char *why = m->stream->get_last_error ? m->stream->get_last_error(m->stream) : NULL;
    return gd_fail(m->ctx, GD_CALLBACK, "arrow: the stream gives no %s: error %d%s%.200s", what, code,
                   why ? ": " : "", why ? why : "");
}

static gd_status fetch_schema(importer *m)
{
    if (!m->stream->release || !m->stream->get_schema || !m->stream->get_next)
        return gd_fail(m->ctx, GD_ARGUMENT, "arrow: the stream was released already");
    int code = m->stream->get_schema(m->stream, &m->schema);
    if (code) {
        m->schema.release = NULL;
        return stream_failed(m, "schema", code);
    }
    const gd_arrow_schema *s = &m->schema;
    if (!s->format || strcmp(s->format, "+s") != 0 || s->n_children < 0 || s->n_children > INT32_MAX - 2 ||
        (s->n_children && !s->children))
        return gd_fail(m->ctx, GD_FORMAT,
                       "arrow: the stream is of format '%.40s', a table is a struct of columns, '+s'",
                       s->format ? s->format : "");
    for (int64_t i = 0; i < s->n_children; i++)
        if (!s->children[i])
            return gd_fail(m->ctx, GD_FORMAT, "arrow: column %lld has no schema", (long long)i + 1);
    return GD_OK;
}

/* Checks a batch as a whole. */
static gd_status check_batch(importer *m, const gd_arrow_array *a)
{
    const char *what = a->length < 0 || a->offset < 0 ? "an impossible length"
                       : a->n_children != m->schema.n_children
                           ? "a different number of columns than the schema"
                       : a->n_children && !a->children        ? "no columns"
                       : a->length > INT64_MAX / 16 - m->rows ? "an impossible length"
                       : a->null_count > 0 && a->n_buffers > 0 && a->buffers && a->buffers[0]
                           ? "rows that are missing as a whole"
                           : NULL;
    if (what) return gd_fail(m->ctx, GD_FORMAT, "arrow: batch %d has %s", m->batches, what);
    m->rows += a->length;
    return GD_OK;
}

/* True in *end: there are no more. */
static gd_status fetch_batch(importer *m, bool *end)
{
    batch *b = gd__calloc(m->ctx, sizeof *b);
    size_t need = ((size_t)m->batches + 1) * sizeof(batch *);
    if (!b || !gd__grow(m->ctx, &m->batch, &m->batch_bytes, need)) {
        gd__free(m->ctx, b, b ? sizeof *b : 0);
        return GD_NOMEM;
    }
    *b = (batch){.ctx = m->ctx, .users = 1};
    int code = m->stream->get_next(m->stream, &b->array);
    if (code) b->array.release = NULL;
    *end = code || !b->array.release;
    if (*end) {
        gd__free(m->ctx, b, sizeof *b);
        return code ? stream_failed(m, "batch", code) : GD_OK;
    }
    m->batch[m->batches++] = b;
    return check_batch(m, &b->array);
}

/* ---- columns ---- */

typedef struct column {
    const gd_arrow_schema *schema;
    int64_t at;                 /* among the children */
    gd_arrow_type type, values; /* values: of a dictionary */
} column;

static gd_status bad_column(importer *m, const column *c, int k, const char *what)
{
    return gd_fail(m->ctx, GD_FORMAT, "arrow: batch %d, column '%.60s': it %s", k + 1, c->schema->name, what);
}

static gd_status open_cells(importer *m, const column *c, int k, gd_arrow_cells *out)
{
    const gd_arrow_array *a = &m->batch[k]->array;
    const char *wrong = gd__arrow_cells(a->children[c->at], &c->type, a->offset, a->length, out);
    return wrong ? bad_column(m, c, k, wrong) : GD_OK;
}

static gd_status open_dictionary(importer *m, const column *c, int k, gd_arrow_cells *out)
{
    const gd_arrow_array *d = m->batch[k]->array.children[c->at]->dictionary;
    const char *wrong = gd__arrow_cells(d, &c->values, 0, d ? d->length : 0, out);
    return wrong ? bad_column(m, c, k, "has a dictionary that cannot be read") : GD_OK;
}

/* A text as a word: the index among the column's words, NAN if missing. */
static gd_status read_word(importer *m, const column *c, int k, const gd_arrow_cells *cells, int64_t row,
                           gd_word_places *places, gd_frame_column *words, double *out)
{
    size_t size = 0;
    *out = NAN;
    if (!gd__arrow_valid(cells, row)) return GD_OK;
    const char *from = gd__arrow_text(cells, row, &size);
    if (!from) return bad_column(m, c, k, "has texts outside its buffers");
    if (!gd__grow(m->ctx, &m->text, &m->text_bytes, size + 1)) return GD_NOMEM;
    memcpy(m->text, from, size);
    m->text[size] = 0;
    size_t step = 1;
    for (const char *s = m->text; *s && step; s += step) step = gd__utf8_length(s);
    if (!step) return bad_column(m, c, k, "has a text that is not UTF-8");
    if (strlen(m->text) != size) return bad_column(m, c, k, "has a text with a zero byte");
    return gd__frame_word(m->ctx, places, words, m->text, out);
}

typedef struct coded {
    double *value; /* of each entry of the dictionary; signalling NaN: not read yet */
    bool *known;
    size_t count;
} coded;

/* The cell of a dictionary index; entries that no row uses do not become words. */
static gd_status read_coded(importer *m, const column *c, int k, const gd_arrow_cells *entries, int64_t code,
                            coded *d, gd_word_places *places, gd_frame_column *words, double *out)
{
    if (code < 0 || code >= entries->rows) return bad_column(m, c, k, "has places outside its dictionary");
    gd_status status = GD_OK;
    if (!d->known[code]) {
        if (c->values.cells == GD_CELLS_WORDS)
            status = read_word(m, c, k, entries, code, places, words, &d->value[code]);
        else
            d->value[code] = gd__arrow_number(entries, code);
        d->known[code] = true;
    }
    *out = d->value[code];
    return status;
}

static gd_status read_dictionary(importer *m, const column *c, int k, const gd_arrow_cells *cells,
                                 gd_word_places *places, gd_frame_column *words, double *out)
{
    gd_arrow_cells entries;
    gd_status status = open_dictionary(m, c, k, &entries);
    if (status) return status;
    coded d = {.count = (size_t)entries.rows + 1};
    d.value = gd__alloc_array(m->ctx, d.count, sizeof *d.value);
    d.known = d.value ? gd__calloc(m->ctx, d.count) : NULL;
    if (!d.known) status = gd_error(m->ctx) ? gd_error(m->ctx) : GD_NOMEM;
    for (int64_t row = 0; row < cells->rows && !status; row++) {
        out[row] = NAN;
        if (gd__arrow_valid(cells, row))
            status = read_coded(m, c, k, &entries, gd__arrow_whole(cells, row), &d, places, words, &out[row]);
    }
    gd__free(m->ctx, d.known, d.known ? d.count : 0);
    gd__free(m->ctx, d.value, d.value ? d.count * sizeof *d.value : 0);
    return status;
}

static gd_status read_batch(importer *m, const column *c, int k, gd_word_places *places,
                            gd_frame_column *words, double *out)
{
    gd_arrow_cells cells;
    gd_status status = open_cells(m, c, k, &cells);
    if (status) return status;
    if (c->schema->dictionary) return read_dictionary(m, c, k, &cells, places, words, out);
    bool texts = c->type.cells == GD_CELLS_WORDS;
    for (int64_t row = 0; row < cells.rows && !status; row++)
        if (texts)
            status = read_word(m, c, k, &cells, row, places, words, &out[row]);
        else
            out[row] = gd__arrow_number(&cells, row);
    return status;
}

static gd_cells cells_of(const column *c) { return c->schema->dictionary ? c->values.cells : c->type.cells; }

/* Reads a column of all batches. */
static gd_status convert(importer *m, const column *c)
{
    const gd_arrow_type *type = c->schema->dictionary ? &c->values : &c->type;
    gd_word_places places = {0};
    gd_frame_column words = {.kind = GD_CELLS_WORDS};
    gd_scope_begin(m->ctx);
    gd_tensor *t = gd_empty(m->ctx, GD_F64, 1, &m->rows);
    double *to = t ? gd_data_mut(t) : NULL;
    gd_status status = t ? GD_OK : gd_error(m->ctx);
    for (int k = 0; k < m->batches && !status; to += m->batch[k++]->array.length)
        status = read_batch(m, c, k, &places, &words, to);
    gd_stored stored = {.kind = cells_of(c), .value = t, .words = words.words};
    stored.day = type->day;
    stored.clock = type->clock;
    if (!status) status = gd__table_take(m->table, c->schema->name, &stored, m->rows);
    if (status) gd__words_free(m->ctx, &words.words);
    gd_scope_end(m->ctx);
    gd__frame_places_free(m->ctx, &places);
    return status;
}

/* Can the numbers be borrowed in place? */
static const double *lent_numbers(importer *m, const column *c, gd_status *status)
{
    gd_arrow_cells cells;
    if (m->batches != 1 || c->schema->dictionary || c->type.kind != 'f' || c->type.bytes != 8) return NULL;
    if ((*status = open_cells(m, c, 0, &cells))) return NULL;
    const unsigned char *data = cells.data ? cells.data + 8 * cells.first : NULL;
    bool ready = data && cells.rows && (uintptr_t)data % sizeof(double) == 0;
    for (int64_t row = 0; cells.valid && row < cells.rows && ready; row++)
        ready = gd__arrow_valid(&cells, row);
    return ready ? (const double *)(const void *)data : NULL;
}

static gd_status add_column(importer *m, const column *c)
{
    gd_status status = GD_OK;
    const double *lent = lent_numbers(m, c, &status);
    if (status) return status;
    if (!lent) return convert(m, c);
    m->batch[0]->users++;
    status = gd_table_add_numbers(m->table, c->schema->name, lent, m->rows, 1, leave_batch, m->batch[0]);
    if (status) m->batch[0]->users--;
    return status;
}

/* ---- which columns ---- */

static gd_status describe(importer *m, int64_t at, column *out)
{
    const gd_arrow_schema *s = m->schema.children[at];
    *out = (column){.schema = s, .at = at};
    bool known = gd__arrow_type(s->format, &out->type);
    if (known && s->dictionary)
        known = (out->type.kind == 'i' || out->type.kind == 'u') && !s->dictionary->dictionary &&
                gd__arrow_type(s->dictionary->format, &out->values);
    if (known) return GD_OK;
    const char *format = s->dictionary ? s->dictionary->format : s->format;
    return gd_fail(m->ctx, GD_FORMAT,
                   "arrow: column '%.60s' is of format '%.40s'; numbers, bools, strings, dates, times and "
                   "dictionaries of them are columns",
                   s->name, format ? format : "");
}

/* The index of a pandas table in the stream. */
static bool is_index(const char *name)
{
    static const char front[] = "__index_level_";
    if (strncmp(name, front, sizeof front - 1) != 0) return false;
    const char *digits = name + sizeof front - 1;
    size_t count = strspn(digits, "0123456789");
    return count && !strcmp(digits + count, "__");
}

static gd_status add_named(importer *m, const char *name)
{
    int64_t found = -1;
    column c;
    for (int64_t i = 0; i < m->schema.n_children; i++) {
        const char *other = m->schema.children[i]->name;
        if (!other || strcmp(other, name) != 0) continue;
        if (found >= 0) return gd_fail(m->ctx, GD_ARGUMENT, "arrow: two columns are called '%.60s'", name);
        found = i;
    }
    if (found < 0) return gd_fail(m->ctx, GD_ARGUMENT, "arrow: there is no column '%.60s'", name);
    gd_status status = describe(m, found, &c);
    return status ? status : add_column(m, &c);
}

static gd_status add_all(importer *m)
{
    gd_status status = GD_OK;
    column c;
    for (int64_t i = 0; i < m->schema.n_children && !status; i++) {
        const char *name = m->schema.children[i]->name;
        if (!name || !*name)
            return gd_fail(m->ctx, GD_FORMAT, "arrow: column %lld has no name", (long long)i + 1);
        if (is_index(name)) continue;
        status = describe(m, i, &c);
        if (!status) status = add_column(m, &c);
    }
    return status;
}

/* ---- all of it ---- */

static gd_status import(importer *m, const char *const *names, int count)
{
    gd_status status = fetch_schema(m);
    for (bool end = false; !status && !end;) status = fetch_batch(m, &end);
    if (!status && !(m->table = gd_table_new(m->ctx, "arrow"))) status = GD_NOMEM;
    for (int i = 0; i < count && names && !status; i++)
        status = names[i] ? add_named(m, names[i]) : gd__null(m->ctx, "arrow: the name of a column is NULL");
    if (!status && !names) status = add_all(m);
    if (!status) {
        m->table->lines = (size_t)m->rows;
        m->table->built = false;
    }
    return status;
}

gd_table *gd_table_from_arrow(gd_ctx *ctx, struct ArrowArrayStream *stream, const char *const *names,
                              int count)
{
    gd_arrow_stream *s = (gd_arrow_stream *)(void *)stream;
    importer m = {.ctx = ctx, .stream = s};
    gd_status status = !ctx ? GD_ARGUMENT : !s ? gd__null(ctx, "arrow: the stream is NULL") : gd_error(ctx);
    if (!status) status = import(&m, names, count);
    for (int k = 0; k < m.batches; k++) leave_batch(m.batch[k]);
    if (m.schema.release) m.schema.release(&m.schema);
    if (s && s->release) s->release(s);
    if (!ctx) return NULL;
    gd__free(ctx, m.batch, m.batch_bytes);
    gd__free(ctx, m.text, m.text_bytes);
    if (!status) return m.table;
    gd_table_free(m.table);
    return NULL;
}
