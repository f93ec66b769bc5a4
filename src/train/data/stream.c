/* Data sets in blocks; see stream.h. */
#include "train/data/stream.h"
#include "table/csv_inside.h"
#include "train/data/stream_array.h"
#include "file/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the file ---- */

gd_status gd__stream_bytes(gd_row_stream *s, uint64_t at, size_t size, char *out)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = pread(s->file, out + done, size - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return gd__io_error(s->ctx, s->path, "read", errno);
        if (got == 0) return gd_fail(s->ctx, GD_IO, "%s: became shorter while it was read", s->path);
        done += (size_t)got;
    }
    return GD_OK;
}

/* Room for a block and the NUL behind it. */
static gd_status room_for(gd_row_stream *s, size_t size)
{
    return gd__grow(s->ctx, &s->text, &s->text_bytes, size + 1) ? GD_OK : GD_NOMEM;
}

gd_status gd__stream_open_file(gd_row_stream *s)
{
    struct stat about;
    s->file = open(s->path, O_RDONLY | O_CLOEXEC);
    if (s->file < 0) return gd__io_error(s->ctx, s->path, "open", errno);
    if (fstat(s->file, &about)) return gd__io_error(s->ctx, s->path, "read", errno);
    if (S_ISDIR(about.st_mode)) return gd__io_error(s->ctx, s->path, "read", EISDIR);
    if (!S_ISREG(about.st_mode))
        return gd_fail(s->ctx, GD_ARGUMENT, "%s: only a file can be read again and again ({stream})",
                       s->path);
    s->size = (uint64_t)about.st_size;
    return GD_OK;
}

gd_status gd__stream_add_block(gd_row_stream *s, gd_block block)
{
    if (!gd__grow(s->ctx, &s->block, &s->block_bytes, ((size_t)s->blocks + 1) * sizeof block))
        return GD_NOMEM;
    s->block[s->blocks++] = block;
    return GD_OK;
}

/* ---- cutting a table ---- */

/* Where the lines of the header and some rows end, whose separator is not known yet: after a line end with balanced quotes before it. */
static size_t head_end(const char *text, size_t size)
{
    size_t end = 0;
    bool quoted = false;
    for (size_t i = 0; i < size; i++) {
        if (text[i] == '"') quoted = !quoted;
        if (text[i] == '\n' && !quoted) end = i + 1;
    }
    return end;
}

/* The header and what comes before it: from its own lines, with as many rows as are in the first piece. */
static gd_status read_head(gd_row_stream *s, const gd_data_request *q, uint64_t *at, int64_t *line)
{
    size_t size = s->size < GD_BLOCK ? (size_t)s->size : GD_BLOCK;
    gd_status status = room_for(s, size);
    if (!status) status = gd__stream_bytes(s, 0, size, s->text);
    if (status) return status;
    s->text[size] = 0;
    if (size >= 2 &&
        (!memcmp(s->text, "\xff\xfe", 2) || !memcmp(s->text, "\xfe\xff", 2) || q->csv.encoding != GD_UTF8))
        return gd_fail(s->ctx, GD_ARGUMENT, "%s: only UTF-8 can be streamed", s->path);
    if (memchr(s->text, '\r', size) &&
        !memchr(s->text, '\n', size)) /* the table's reader takes them in memory */
        return gd_fail(s->ctx, GD_ARGUMENT, "%s: lines that end in CR alone cannot be streamed", s->path);
    size_t end = size == s->size ? size : head_end(s->text, size);
    s->head = gd__csv_parse(s->ctx, s->path, s->text, end, &q->csv);
    if (!s->head) return gd_error(s->ctx);
    if (!gd__csv_rows(s->head)) return gd_fail(s->ctx, GD_FORMAT, "%s: no rows", s->path);
    if (s->head->separator == GD_CSV_WIDTHS)
        return gd_fail(
            s->ctx, GD_ARGUMENT,
            "%s: cells that stand under each other cannot be streamed, only those between separators",
            s->path);
    *line = gd__csv_line(s->head, 0);
    const char *from = s->text;
    for (int64_t i = 1; i < *line; i++) from = strchr(from, '\n') + 1;
    *at = (uint64_t)(from - s->text);
    s->layout = (gd_table_layout){.source = s->head->source,
                                  .separator = s->head->separator,
                                  .decimal = s->head->decimal,
                                  .columns = s->head->columns,
                                  .name = s->head->name,
                                  .missing = &s->head->missing};
    return GD_OK;
}

static gd_status cut_table(gd_row_stream *s, uint64_t at, int64_t line)
{
    size_t size = (size_t)((s->size - at) / 64);
    size = size < GD_SMALL_BLOCK ? GD_SMALL_BLOCK : size > GD_BLOCK ? GD_BLOCK : size;
    gd_status status = GD_OK;
    while (at < s->size && !status) {
        size_t piece = s->size - at < size ? (size_t)(s->size - at) : size, end;
        int64_t lines = 0;
        status = room_for(s, piece);
        if (!status) status = gd__stream_bytes(s, at, piece, s->text);
        if (status) break;
        end = at + piece == s->size ? piece : gd__scan_whole_rows(&s->layout, s->text, piece, &lines);
        if (memchr(s->text, 0, piece))
            return gd_fail(s->ctx, GD_FORMAT, "%s: near line %lld: a zero byte: this is not a text file",
                           s->path, (long long)line);
        if (!end) { /* a row longer than a piece */
            if (size > (size_t)1 << 30)
                return gd_fail(s->ctx, GD_FORMAT, "%s: line %lld: a row of a gigabyte", s->path,
                               (long long)line);
            size *= 2;
            continue;
        }
        status = gd__stream_add_block(s, (gd_block){.at = at, .size = end, .first_line = line});
        at += end;
        line += lines;
    }
    return status;
}

/* ---- the sample ---- */

/* The lines of the header and some blocks as one text, read as any table. */
static gd_status sample_table(gd_row_stream *s, const gd_data_request *q, const int64_t *blocks,
                              int64_t count, gd_dataset *out)
{
    size_t head = (size_t)s->block[0].at, size = head, at = head;
    for (int64_t i = 0; i < count; i++) size += s->block[blocks[i]].size + 1;
    char *text = gd__alloc(s->ctx, size + 1);
    gd_status status = text ? gd__stream_bytes(s, 0, head, text) : GD_NOMEM;
    for (int64_t i = 0; i < count && !status; i++) {
        const gd_block *b = &s->block[blocks[i]];
        status = gd__stream_bytes(s, b->at, b->size, text + at);
        if (status) break;
        at += b->size;
        if (text[at - 1] != '\n') text[at++] = '\n';
    }
    if (!status) status = gd__dataset_open_text(s->ctx, q, text, at, out);
    gd__free(s->ctx, text, text ? size + 1 : 0);
    return status;
}

gd_status gd__stream_sample(gd_row_stream *s, const gd_data_request *q, const int64_t *blocks, int64_t count,
                            gd_dataset *out)
{
    return s->table ? sample_table(s, q, blocks, count, out)
                    : gd__stream_sample_array(s, q, blocks, count, out);
}

/* ---- all rows ---- */

static gd_status want_columns(gd_row_stream *s, const gd_dataset *d, const gd_columns *columns)
{
    s->wanted_count = d->features.count + 1;
    s->wanted = gd__alloc(s->ctx, (size_t)s->wanted_count * sizeof *s->wanted);
    s->kind = s->wanted ? gd__alloc(s->ctx, (size_t)s->wanted_count * sizeof *s->kind) : NULL;
    if (!s->kind) return GD_NOMEM;
    for (int i = 0; i < d->features.count; i++) {
        s->wanted[i] = gd__csv_column(s->head, d->features.word[i]);
        if (s->wanted[i] < 0) return gd_error(s->ctx);
        s->kind[i] = gd__column_cells(&columns->column[i]);
    }
    s->wanted[s->wanted_count - 1] = gd__csv_column(s->head, d->target);
    s->kind[s->wanted_count - 1] = d->numeric ? GD_CELLS_NUMBERS : GD_CELLS_WORDS;
    return s->wanted[s->wanted_count - 1] < 0 ? gd_error(s->ctx) : GD_OK;
}

/* The columns of a block from the `first` wanted on.  gd__frame_close also after a failure. */
static gd_status scan_block(gd_row_stream *s, int64_t k, int first, gd_frame *out)
{
    const gd_block *b = &s->block[k];
    *out = (gd_frame){.ctx = s->ctx};
    gd_status status = room_for(s, b->size);
    if (!status) status = gd__stream_bytes(s, b->at, b->size, s->text);
    if (status) return status;
    s->text[b->size] = 0;
    return gd__scan_rows(s->ctx, &s->layout, s->text, b->size, b->first_line, s->wanted + first,
                         s->kind + first, s->wanted_count - first, out);
}

/* Labels of a block: a hole is an error that names its row. */
static gd_status check_target(const gd_row_stream *s, int64_t k, const gd_frame *f, const gd_frame_column *y)
{
    for (int64_t i = 0; i < f->rows; i++)
        if (!(y->value[i] == y->value[i]))
            return gd_fail(s->ctx, GD_FORMAT,
                           "%s: row %lld behind line %lld, column '%.60s': the cell is empty", s->path,
                           (long long)i + 1, (long long)s->block[k].first_line, y->name);
    return GD_OK;
}

/* Detects that the file was changed since it was cut. */
static gd_status check_unchanged(const gd_row_stream *s, int64_t k, const gd_frame *f)
{
    const gd_block *b = &s->block[k];
    if (f->rows == b->rows) return GD_OK;
    return gd_fail(s->ctx, GD_IO,
                   "%s: changed while it was read: %lld rows from line %lld on instead of %lld", s->path,
                   (long long)f->rows, (long long)b->first_line, (long long)b->rows);
}

gd_status gd__stream_survey(gd_row_stream *s, gd_dataset *d, const gd_columns *columns, bool known)
{
    if (!s->table) return GD_OK;
    gd_class_names labels = {.ctx = s->ctx};
    gd_status status = want_columns(s, d, columns);
    s->rows = 0;
    for (int64_t k = 0; k < s->blocks && !status; k++) {
        gd_frame f;
        status = scan_block(s, k, s->wanted_count - 1, &f);
        if (!status) status = check_target(s, k, &f, &f.column[0]);
        if (!status && d->task == GD_TASK_CLASSIFY && !known)
            status = gd__labels_add(&labels, &f.column[0], f.rows);
        s->rows += s->block[k].rows = f.rows;
        gd__frame_close(&f);
    }
    if (!status && d->task == GD_TASK_CLASSIFY && !known)
        status = gd__labels_take(&labels, d->numeric, &d->classes);
    gd__labels_close(&labels);
    return status;
}

/* ---- one block ---- */

static gd_tensor *block_target(gd_row_stream *s, const gd_frame *f, const gd_dataset *d)
{
    const gd_frame_column *y = &f->column[f->count - 1];
    if (d->task == GD_TASK_REGRESS) return gd_from_f64(s->ctx, GD_F64, 2, (int64_t[]){f->rows, 1}, y->value);
    gd_tensor *t = gd_empty(s->ctx, GD_I64, 1, &f->rows);
    if (!t) return NULL;
    if (gd__labels_number(s->ctx, s->path, y, f->rows, d->numeric, &d->classes, gd_data_mut(t)) == GD_OK)
        return t;
    gd_release(t);
    return NULL;
}

static gd_status read_table_block(gd_row_stream *s, int64_t k, const gd_columns *columns, const gd_dataset *d,
                                  gd_tensor **x, gd_tensor **y)
{
    gd_frame f;
    gd_status status = scan_block(s, k, 0, &f);
    if (!status) status = check_unchanged(s, k, &f);
    if (!status) status = check_target(s, k, &f, &f.column[f.count - 1]);
    if (!status) {
        f.count--; /* the last one is the target */
        *x = gd__columns_apply(columns, &f);
        f.count++;
        *y = *x ? block_target(s, &f, d) : NULL;
        if (!*y) status = gd_error(s->ctx) ? gd_error(s->ctx) : GD_NOMEM;
    }
    gd__frame_close(&f);
    return status;
}

gd_status gd__stream_read(gd_row_stream *s, int64_t k, const gd_columns *columns, const gd_dataset *d,
                          gd_tensor **x, gd_tensor **y)
{
    *x = *y = NULL;
    gd_status status = s->table ? read_table_block(s, k, columns, d, x, y)
                                : gd__stream_read_array(s, k, x, y);
    if (!status) return GD_OK;
    gd_release(*x);
    gd_release(*y);
    *x = *y = NULL;
    return status;
}

/* ---- opening ---- */

gd_status gd__stream_open(gd_ctx *ctx, const gd_data_request *q, gd_row_stream *s)
{
    *s = (gd_row_stream){.ctx = ctx, .path = q->path, .file = -1, .table = gd__dataset_is_table(q->path)};
    size_t length = strlen(q->path);
    bool packed = length > 3 && !strcmp(q->path + length - 3, ".gz");
    if (packed || (q->csv.input.standard && !strcmp(q->path, "-")))
        return gd_fail(ctx, GD_ARGUMENT, "%s: %s cannot be read again and again ({stream})", q->path,
                       packed ? "a packed file" : "standard input");
    uint64_t at = 0;
    int64_t line = 1;
    gd_status status = s->table ? gd__stream_open_file(s) : gd__stream_open_array(s, q);
    if (!s->table || status) return status;
    status = read_head(s, q, &at, &line);
    return status ? status : cut_table(s, at, line);
}

void gd__stream_close(gd_row_stream *s)
{
    if (s->file >= 0) (void)close(s->file);
    gd__csv_free(s->head);
    gd__free(s->ctx, s->block, s->block_bytes);
    gd__free(s->ctx, s->wanted, s->wanted ? (size_t)s->wanted_count * sizeof *s->wanted : 0);
    gd__free(s->ctx, s->kind, s->kind ? (size_t)s->wanted_count * sizeof *s->kind : 0);
    gd__free(s->ctx, s->text, s->text_bytes);
    gd_release(s->y);
    gd__stream_close_array(s);
    *s = (gd_row_stream){.ctx = s->ctx, .file = -1};
}
