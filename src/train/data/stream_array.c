/* Arrays in ranges of rows; see stream.h. */
#include "train/data/stream_array.h"
#include "file/idx.h"
#include "table/value.h"
#include "file/npy.h"
#include "file/safetensors.h"

#include <stdio.h>
#include <string.h>

/* The array in the file whose rows are read. */
typedef struct array {
    gd_npy npy;         /* of an npy file */
    gd_widen_fn *widen; /* of a safetensors file; NULL: the bytes are the numbers */
    bool is_npy;
    size_t item; /* bytes of a number in the file */
    gd_dtype dtype;
    int ndim;
    int64_t shape[GD_MAX_DIMS];
    char path[4096]; /* of the file alone */
} array;

void gd__stream_close_array(gd_row_stream *s)
{
    gd__free(s->ctx, s->array, s->array ? sizeof(array) : 0);
    s->array = NULL;
}

static gd_status read_npy(gd_row_stream *s, array *a)
{
    char first[GD_NPY_PREFIX];
    size_t at, length, had = s->size < sizeof first ? (size_t)s->size : sizeof first;
    gd_status status = gd__stream_bytes(s, 0, had, first);
    if (!status) status = gd__npy_prefix(s->ctx, s->path, first, s->size, &at, &length);
    char *text = status ? NULL : gd__alloc(s->ctx, length + 1);
    if (!status && !text) status = GD_NOMEM;
    if (!status) status = gd__stream_bytes(s, at, length, text);
    if (!status) status = gd__npy_header(s->ctx, s->path, text, at, length, s->size, &a->npy);
    gd__free(s->ctx, text, text ? length + 1 : 0);
    if (!status && a->npy.fortran && a->npy.ndim > 1)
        status = gd_fail(s->ctx, GD_ARGUMENT,
                         "%s: its columns lie one after the other: rows cannot be streamed", s->path);
    if (status) return status;
    a->is_npy = true;
    a->item = a->npy.item;
    a->dtype = a->npy.dtype;
    a->ndim = a->npy.ndim;
    memcpy(a->shape, a->npy.shape, sizeof a->shape);
    s->data_at = a->npy.data_at;
    return GD_OK;
}

static gd_status choose_entry(gd_row_stream *s, const gd_safetensors *file, const char *inner,
                              uint64_t data_at, array *a)
{
    for (size_t i = 0; i < file->count; i++) {
        const gd_safetensors_entry *e = &file->entry[i];
        if (inner ? strcmp(e->name, inner) != 0 : file->count > 1) continue;
        if (e->dtype == GD_DTYPE_COUNT)
            return gd_fail(s->ctx, GD_DTYPE, "%s: numbers of type %s", s->path, e->dtype_name);
        a->widen = e->widen;
        a->item = e->item;
        a->dtype = e->dtype;
        a->ndim = e->ndim;
        memcpy(a->shape, e->shape, sizeof a->shape);
        s->data_at = data_at + e->offset;
        return GD_OK;
    }
    return inner ? gd_fail(s->ctx, GD_PARSE, "data: %s has no tensor '%.80s'", s->path, inner)
                 : gd_fail(s->ctx, GD_PARSE, "data: %s has %zu tensors, choose one with FILE:NAME", s->path,
                           file->count);
}

static gd_status read_safetensors(gd_row_stream *s, const char *inner, array *a)
{
    char first[8];
    size_t length;
    gd_status status = s->size < 8 ? gd_fail(s->ctx, GD_FORMAT, "%s: not a safetensors file", s->path)
                                   : gd__stream_bytes(s, 0, 8, first);
    if (!status) status = gd__safetensors_length(s->ctx, s->path, first, s->size, &length);
    char *text = status ? NULL : gd__alloc(s->ctx, length + 9);
    if (!status && !text) status = GD_NOMEM;
    if (!status) status = gd__stream_bytes(s, 0, length + 8, text);
    if (!status) {
        text[length + 8] = 0;
        gd_safetensors *file = gd__safetensors_header(s->ctx, s->path, text, length, s->size);
        status = file ? choose_entry(s, file, inner, length + 8, a) : gd_error(s->ctx);
        gd__safetensors_free(file);
    }
    gd__free(s->ctx, text, text ? length + 9 : 0);
    return status;
}

/* Ranges of about GD_BLOCK bytes, of small files a 64th. */
static gd_status cut_rows(gd_row_stream *s, const array *a)
{
    uint64_t row = (uint64_t)s->row_numbers * a->item;
    int64_t rows = (int64_t)(GD_BLOCK / (row ? row : 1)), most = s->rows / 64;
    if (rows > most) rows = most;
    if (rows < 1) rows = 1;
    gd_status status = GD_OK;
    for (int64_t at = 0; at < s->rows && !status; at += rows) {
        int64_t count = at + rows < s->rows ? rows : s->rows - at;
        status = gd__stream_add_block(
            s, (gd_block){.at = (uint64_t)at, .rows = count, .size = (size_t)((uint64_t)count * row)});
    }
    return status;
}

gd_status gd__stream_open_array(gd_row_stream *s, const gd_data_request *q)
{
    array *a = s->array = gd__calloc(s->ctx, sizeof *a);
    if (!a) return GD_NOMEM;
    const char *inner;
    size_t length = gd__value_file(q->path, &inner);
    if (length >= sizeof a->path) return gd_fail(s->ctx, GD_PARSE, "data: a path of %zu bytes", length);
    memcpy(a->path, q->path, length);
    s->path = a->path;
    if (gd__idx_is_path(a->path))
        return gd_fail(s->ctx, GD_ARGUMENT, "%s: IDX files are not streamed; npy and safetensors are",
                       a->path);
    gd_status status = gd__stream_open_file(s);
    if (!status)
        status = length > 4 && !strcmp(a->path + length - 4, ".npy") ? read_npy(s, a)
                                                                     : read_safetensors(s, inner, a);
    if (status) return status;
    if (a->ndim < 1 || a->shape[0] < 1) return gd_fail(s->ctx, GD_FORMAT, "%s: no rows", s->path);
    s->rows = a->shape[0];
    s->row_numbers = 1;
    for (int i = 1; i < a->ndim; i++) s->row_numbers *= a->shape[i];
    if (s->row_numbers < 1) return gd_fail(s->ctx, GD_FORMAT, "%s: rows without numbers", s->path);
    return cut_rows(s, a);
}

/* The rows of a block, [rows, ...] in the array's dtype.  New. */
static gd_tensor *read_rows(gd_row_stream *s, int64_t k)
{
    const array *a = s->array;
    const gd_block *b = &s->block[k];
    uint64_t row = (uint64_t)s->row_numbers * a->item;
    int64_t shape[GD_MAX_DIMS] = {b->rows, 1};
    memcpy(shape + 1, a->shape + 1, (size_t)(a->ndim - 1) * sizeof *shape);
    gd_tensor *x = gd_empty(s->ctx, a->dtype, a->ndim > 1 ? a->ndim : 2, shape);
    if (!x || !gd__grow(s->ctx, &s->text, &s->text_bytes, b->size) ||
        gd__stream_bytes(s, s->data_at + b->at * row, b->size, s->text)) {
        gd_release(x);
        return NULL;
    }
    size_t numbers = (size_t)(b->rows * s->row_numbers);
    if (a->is_npy) {
        gd_npy part = a->npy;
        part.shape[0] = b->rows;
        part.count = numbers;
        part.data_size = b->size;
        gd__npy_unpack(&part, s->text, gd_data_mut(x));
    } else if (a->widen) {
        (void)a->widen(s->text, numbers, gd_data_mut(x));
    } else {
        memcpy(gd_data_mut(x), s->text, b->size);
    }
    return x;
}

gd_status gd__stream_read_array(gd_row_stream *s, int64_t k, gd_tensor **x, gd_tensor **y)
{
    const gd_block *b = &s->block[k];
    if (!(*x = read_rows(s, k))) return gd_error(s->ctx) ? gd_error(s->ctx) : GD_NOMEM;
    gd__aside_begin(s->ctx);
    *y = gd_keep(gd_contiguous(gd_slice(s->y, "0", (int64_t)b->at, (int64_t)b->at + b->rows, 1)));
    gd__aside_end(s->ctx);
    return *y ? gd__dataset_check_finite(s->ctx, s->path, *x) : gd_error(s->ctx);
}

gd_status gd__stream_sample_array(gd_row_stream *s, const gd_data_request *q, const int64_t *blocks,
                                  int64_t count, gd_dataset *out)
{
    gd_tensor *piece[2][GD_SAMPLE_BLOCKS] = {{0}};
    gd_status status = gd__dataset_open_target(s->ctx, q, s->rows, out);
    if (status) return status;
    s->y = out->y;
    out->y = NULL;
    gd__aside_begin(s->ctx);
    for (int64_t i = 0; i < count && !status; i++) {
        status = gd__stream_read_array(s, blocks[i], &piece[0][i], &piece[1][i]);
        (void)gd__scope_take(piece[0][i]);
        (void)gd__scope_take(piece[1][i]);
    }
    if (!status) {
        out->x = gd_keep(gd_cat(piece[0], (int)count, "0"));
        out->y = gd_keep(gd_cat(piece[1], (int)count, "0"));
        if (!out->x || !out->y) status = gd_error(s->ctx);
    }
    gd__aside_end(s->ctx);
    if (status) return status;
    out->rows = gd_size(out->x, 0);
    return gd__dataset_shape(out);
}
