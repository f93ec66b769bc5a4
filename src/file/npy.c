/* NumPy files; see npy.h for the layout.  The header is a Python literal of which only the syntax that NumPy writes
 * is read: a dict with three keys, of a text, a bool and a tuple of integers. */
#include "file/npy.h"
#include "gradus/file.h"
#include "file/file_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie in memory");

static const unsigned char magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

/* What an element of the file becomes.  NumPy's other types (u8, c8, c16, f16, S, U, V, M, m, O) are not
 * supported. */
typedef struct element {
    char kind;
    size_t bytes;
    gd_dtype dtype;
} element;

static const element elements[] = {
    {'f', 4, GD_F32}, {'f', 8, GD_F64}, {'f', 2, GD_F16},  {'i', 4, GD_I32},
    {'i', 8, GD_I64}, {'u', 1, GD_U8},  {'b', 1, GD_BOOL}, {'i', 1, GD_I32},
    {'i', 2, GD_I32}, {'u', 2, GD_I32}, {'u', 4, GD_I64},
};

/* ---- the header: a cursor over text that need not end in 0 ---- */

typedef struct cursor {
    gd_ctx *ctx;
    const char *source;
    const char *start, *at, *end;
} cursor;

static gd_status bad(const cursor *c, const char *wanted)
{
    return gd_fail(c->ctx, GD_FORMAT, "%s: header, column %td: %s expected", c->source, c->at - c->start + 1,
                   wanted);
}

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\t' || *c->at == '\n' || *c->at == '\r')) c->at++;
}

/* Takes one character after any space. */
static bool accept(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool accept_word(cursor *c, const char *word)
{
    size_t length = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0) return false;
    c->at += length;
    return true;
}

/* A quoted text without escapes, into out. */
static gd_status read_text(cursor *c, char *out, size_t size)
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return bad(c, "a text");
    char quote = *c->at++;
    const char *close = memchr(c->at, quote, (size_t)(c->end - c->at));
    if (!close) return bad(c, "the end of the text");
    size_t length = (size_t)(close - c->at);
    if (length >= size || memchr(c->at, '\\', length) || memchr(c->at, 0, length))
        return bad(c, "a short plain text");
    memcpy(out, c->at, length);
    out[length] = 0;
    c->at = close + 1;
    return GD_OK;
}

static gd_status read_integer(cursor *c, int64_t *out)
{
    skip_space(c);
    const char *first = c->at;
    int64_t value = 0;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *c->at - '0', &value))
            return bad(c, "a size that fits 63 bits");
    if (c->at == first) return bad(c, "a size");
    if (c->at < c->end && *c->at == 'L') c->at++; /* Python 2 wrote long integers with an L */
    *out = value;
    return GD_OK;
}

/* "(", integers with commas between them, one more comma allowed, needed after a single one. */
static gd_status read_shape(cursor *c, gd_npy *npy)
{
    if (!accept(c, '(')) return bad(c, "'('");
    bool comma = true;
    while (!accept(c, ')')) {
        if (!comma) return bad(c, "',' or ')'");
        int64_t size = 0;
        gd_status status = read_integer(c, &size);
        if (status) return status;
        if (npy->ndim == GD_MAX_DIMS)
            return gd_fail(c->ctx, GD_SHAPE, "%s: more than %d axes", c->source, GD_MAX_DIMS);
        npy->shape[npy->ndim++] = size;
        comma = accept(c, ',');
    }
    if (npy->ndim == 1 && !comma) return bad(c, "',' in a tuple of one");
    return GD_OK;
}

/* "<f4" and the like; without a byte order, or with '=' or '|', it is that of the machine. */
static gd_status read_descr(cursor *c, gd_npy *npy)
{
    skip_space(c);
    if (c->at < c->end && *c->at == '[')
        return gd_fail(c->ctx, GD_DTYPE, "%s: records (a structured dtype) cannot be read", c->source);
    char descr[32];
    gd_status status = read_text(c, descr, sizeof descr);
    if (status) return status;
    const char *type = descr;
    if (*type == '<' || *type == '>' || *type == '|' || *type == '=') type++;
    if (*type == 'O') return gd_fail(c->ctx, GD_DTYPE, "%s: Python objects cannot be read", c->source);
    for (size_t i = 0; i < sizeof elements / sizeof *elements; i++) {
        const element *e = &elements[i];
        if (type[0] != e->kind || type[1] != (char)('0' + e->bytes) || type[2]) continue;
        npy->kind = e->kind;
        npy->item = e->bytes;
        npy->dtype = e->dtype;
        npy->swap = descr[0] == '>' && e->bytes > 1;
        return GD_OK;
    }
    return gd_fail(c->ctx, GD_DTYPE, "%s: gradus has no dtype for '%s'", c->source, descr);
}

static gd_status read_order(cursor *c, gd_npy *npy)
{
    npy->fortran = accept_word(c, "True");
    return npy->fortran || accept_word(c, "False") ? GD_OK : bad(c, "True or False");
}

/* One "'key': value"; `seen` has a bit for each key. */
static gd_status read_pair(cursor *c, gd_npy *npy, unsigned *seen)
{
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    static gd_status (*const readers[])(cursor *, gd_npy *) = {read_descr, read_order, read_shape};
    char key[16];
    gd_status status = read_text(c, key, sizeof key);
    if (status) return status;
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(key, keys[i]) != 0) continue;
        if (*seen & 1u << i) return gd_fail(c->ctx, GD_FORMAT, "%s: header: '%s' twice", c->source, key);
        *seen |= 1u << i;
        return accept(c, ':') ? readers[i](c, npy) : bad(c, "':'");
    }
    return gd_fail(c->ctx, GD_FORMAT, "%s: header: unknown key '%s'", c->source, key);
}

static gd_status read_dict(cursor *c, gd_npy *npy)
{
    if (!accept(c, '{')) return bad(c, "'{'");
    unsigned seen = 0;
    bool comma = true;
    while (!accept(c, '}')) {
        if (!comma) return bad(c, "',' or '}'");
        gd_status status = read_pair(c, npy, &seen);
        if (status) return status;
        comma = accept(c, ',');
    }
    skip_space(c);
    if (c->at != c->end) return bad(c, "nothing more");
    if (seen != 7)
        return gd_fail(c->ctx, GD_FORMAT, "%s: header: needs descr, fortran_order and shape", c->source);
    return GD_OK;
}

/* ---- parsing ---- */

gd_status gd__npy_prefix(gd_ctx *ctx, const char *source, const void *first, uint64_t file_size, size_t *at,
                         size_t *length)
{
    const unsigned char *p = first;
    if (file_size < 10 || memcmp(p, magic, sizeof magic) != 0)
        return gd_fail(ctx, GD_FORMAT, "%s: not a NumPy file", source);
    if (p[6] < 1 || p[6] > 3 || p[7] != 0)
        return gd_fail(ctx, GD_FORMAT, "%s: npy version %d.%d, known are 1.0, 2.0 and 3.0", source, p[6],
                       p[7]);
    bool wide = p[6] > 1;
    if (wide && file_size < 12) return gd_fail(ctx, GD_FORMAT, "%s: cut off in the header", source);
    *at = wide ? 12 : 10;
    *length = (size_t)p[8] | (size_t)p[9] << 8;
    if (wide) *length |= (size_t)p[10] << 16 | (size_t)p[11] << 24;
    if (*length > GD_NPY_MAX_HEADER)
        return gd_fail(ctx, GD_FORMAT, "%s: a header of %zu bytes, at most %u are read", source, *length,
                       GD_NPY_MAX_HEADER);
    if (*length > file_size - *at) return gd_fail(ctx, GD_FORMAT, "%s: cut off in the header", source);
    return GD_OK;
}

/* Elements and bytes of the shape. */
static gd_status count_bytes(gd_ctx *ctx, const char *source, gd_npy *npy)
{
    npy->count = 1;
    bool overflow = false;
    for (int i = 0; i < npy->ndim; i++)
        overflow |= __builtin_mul_overflow(npy->count, (uint64_t)npy->shape[i], &npy->count);
    overflow |= __builtin_mul_overflow(npy->count, npy->item, &npy->data_size);
    /* the elements in memory may be larger than in the file; both must fit */
    overflow |= npy->count > INT64_MAX / 8;
    return overflow ? gd_fail(ctx, GD_FORMAT, "%s: the product of the sizes overflows", source) : GD_OK;
}

/* The elements must fill the file. */
static gd_status check_size(gd_ctx *ctx, const char *source, uint64_t file_size, gd_npy *npy)
{
    gd_status status = count_bytes(ctx, source, npy);
    if (status) return status;
    uint64_t rest = file_size - npy->data_at;
    if (npy->data_size > rest)
        return gd_fail(ctx, GD_FORMAT, "%s: cut off: %" PRIu64 " bytes of elements, the shape needs %" PRIu64,
                       source, rest, npy->data_size);
    if (npy->data_size < rest)
        return gd_fail(ctx, GD_FORMAT, "%s: %" PRIu64 " bytes follow the elements", source,
                       rest - npy->data_size);
    return GD_OK;
}

gd_status gd__npy_header(gd_ctx *ctx, const char *source, const char *text, size_t at, size_t length,
                         uint64_t file_size, gd_npy *npy)
{
    *npy = (gd_npy){.data_at = at + length};
    cursor c = {.ctx = ctx, .source = source, .start = text, .at = text, .end = text + length};
    gd_status status = read_dict(&c, npy);
    return status ? status : check_size(ctx, source, file_size, npy);
}

gd_status gd__npy_total(gd_ctx *ctx, const char *source, const char *data, size_t size, uint64_t *total)
{
    size_t at = 0, length = 0;
    if (size < GD_NPY_PREFIX) return GD_OK;
    gd_status status = gd__npy_prefix(ctx, source, data, UINT64_MAX, &at, &length);
    if (status || size < at + length) return status;
    gd_npy npy = {.data_at = at + length};
    cursor c = {.ctx = ctx, .source = source, .start = data + at, .at = data + at, .end = data + at + length};
    status = read_dict(&c, &npy);
    if (!status) status = count_bytes(ctx, source, &npy);
    if (!status) *total = npy.data_at + npy.data_size; /* under 2^63 and 2^20 */
    return status;
}

/* ---- elements ---- */

static bool npy_is_plain(const gd_npy *npy)
{
    return !npy->swap && (!npy->fortran || npy->ndim < 2) && npy->item == gd_dtype_size(npy->dtype);
}

/* One element of the file in the machine's byte order, as bits; signed ones are extended. */
static uint64_t load_element(const gd_npy *npy, const unsigned char *from)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < npy->item; i++)
        bits |= (uint64_t)from[npy->swap ? npy->item - 1 - i : i] << (8 * i);
    unsigned unused = (unsigned)(64 - 8 * npy->item);
    if (npy->kind == 'i') bits = (uint64_t)((int64_t)(bits << unused) >> unused);
    return npy->kind == 'b' ? bits != 0 : bits;
}

void gd__npy_unpack(const gd_npy *npy, const void *data, void *out)
{
    size_t stride[GD_MAX_DIMS], item = gd_dtype_size(npy->dtype), step = 1, from = 0;
    for (int i = 0; i < npy->ndim; i++) {
        int axis = npy->fortran ? i : npy->ndim - 1 - i;
        stride[axis] = step;
        step *= (size_t)npy->shape[axis];
    }
    /* an odometer over the result, with the element's place in the file beside it */
    int64_t index[GD_MAX_DIMS] = {0};
    char *to = out;
    for (uint64_t n = 0; n < npy->count; n++, to += item) {
        uint64_t bits = load_element(npy, (const unsigned char *)data + from * npy->item);
        memcpy(to, &bits, item);
        for (int axis = npy->ndim; axis-- > 0;) {
            from += stride[axis];
            if (++index[axis] < npy->shape[axis]) break;
            from -= stride[axis] * (size_t)npy->shape[axis];
            index[axis] = 0;
        }
    }
}

/* ---- files ---- */

/* Fills a tensor with the elements, which are next in the file. */
static gd_status read_elements(gd_file_reader *reader, const gd_npy *npy, gd_tensor *t)
{
    gd_ctx *ctx = reader->ctx;
    size_t size = (size_t)npy->data_size;
    if (!size) return GD_OK;
    void *out = gd_data_mut(t);
    if (!out) return GD_DEVICE;
    if (npy_is_plain(npy)) {
        gd_status status = gd__file_read(reader, out, size);
        if (!status && npy->kind == 'b') gd__normalise_bools(out, size);
        return status;
    }
    void *block = gd__alloc(ctx, size);
    if (!block) return GD_NOMEM;
    gd_status status = gd__file_read(reader, block, size);
    if (!status) gd__npy_unpack(npy, block, out);
    gd__free(ctx, block, size);
    return status;
}

static gd_status read_npy_header(gd_file_reader *reader, gd_npy *npy)
{
    gd_ctx *ctx = reader->ctx;
    char source[300];
    snprintf(source, sizeof source, "load '%.280s'", reader->path);
    /* the first 12 bytes of the smallest header hold no element: it has more than 2 */
    unsigned char first[GD_NPY_PREFIX] = {0};
    size_t known = reader->size < sizeof first ? (size_t)reader->size : sizeof first, at = 0, length = 0;
    gd_status status = gd__file_read(reader, first, known);
    if (!status) status = gd__npy_prefix(ctx, source, first, reader->size, &at, &length);
    if (status) return status;
    if (at + length < known) return gd_fail(ctx, GD_FORMAT, "%s: the header is empty", source);
    char *text = gd__alloc(ctx, length);
    if (!text) return GD_NOMEM;
    memcpy(text, first + at, known - at);
    status = gd__file_read(reader, text + (known - at), length - (known - at));
    if (!status) status = gd__npy_header(ctx, source, text, at, length, reader->size, npy);
    gd__free(ctx, text, length);
    return status;
}

gd_tensor *gd_npy_load(gd_ctx *ctx, const char *path)
{
    if (!ctx) return NULL;
    gd_file_reader reader;
    if (gd__file_open(ctx, path, UINT64_MAX, &reader)) return NULL;
    gd_npy npy;
    gd_tensor *t = NULL;
    if (!read_npy_header(&reader, &npy)) t = gd_empty(ctx, npy.dtype, npy.ndim, npy.shape);
    if (t && (read_elements(&reader, &npy, t) || gd__file_at_end(&reader))) {
        gd_release(t);
        t = NULL;
    }
    gd__file_close(&reader);
    return t;
}

gd_tensor *gd__npy_tensor(gd_ctx *ctx, const char *source, const void *data, size_t size)
{
    size_t at, length;
    gd_npy npy;
    gd_status status = gd__npy_prefix(ctx, source, data, size, &at, &length);
    if (!status) status = gd__npy_header(ctx, source, (const char *)data + at, at, length, size, &npy);
    gd_tensor *t = status ? NULL : gd_empty(ctx, npy.dtype, npy.ndim, npy.shape);
    if (t) gd__npy_unpack(&npy, (const char *)data + npy.data_at, gd_data_mut(t));
    if (t && npy.dtype == GD_BOOL) gd__normalise_bools(gd_data_mut(t), (size_t)npy.count);
    return t;
}

size_t gd__npy_print(gd_dtype dtype, int ndim, const int64_t *shape, char out[GD_NPY_WRITTEN])
{
    static const char *const descr[] = {
#define DTYPE_DESCR(NAME, name, bytes, kind, st, np) np,
        GD_DTYPE_LIST(DTYPE_DESCR)
#undef DTYPE_DESCR
    };
    /* at most 8 sizes of 19 digits: version 1, whose header may have 65535 bytes, always does */
    char *text = out + 10, *end = out + GD_NPY_WRITTEN;
    char *next = text + snprintf(text, (size_t)(end - text),
                                 "{'descr': '%s', 'fortran_order': False, 'shape': (", descr[dtype]);
    for (int i = 0; i < ndim; i++)
        next += snprintf(next, (size_t)(end - next), "%s%" PRId64, i ? ", " : "", shape[i]);
    next += snprintf(next, (size_t)(end - next), "%s), }", ndim == 1 ? "," : "");
    size_t size = ((size_t)(next - out) + 1 + 63) / 64 * 64; /* the elements begin at a multiple of 64 */
    memset(next, ' ', (size_t)(out + size - next));
    out[size - 1] = '\n';
    memcpy(out, magic, sizeof magic);
    out[6] = 1;
    out[7] = 0;
    out[8] = (char)((size - 10) & 255);
    out[9] = (char)((size - 10) >> 8);
    return size;
}

gd_status gd_npy_save(const gd_tensor *tensor, const char *path)
{
    if (!tensor) return GD_ARGUMENT;
    gd_ctx *ctx = gd_tensor_ctx(tensor);
    gd_dtype dtype = gd_tensor_dtype(tensor);
    if (dtype == GD_BF16)
        return gd_fail(ctx, GD_DTYPE, "npy_save '%s': NumPy has no bf16; cast to f32 first",
                       path ? path : "");
    char header[GD_NPY_WRITTEN];
    size_t size = gd__npy_print(dtype, gd_ndim(tensor), gd_shape(tensor), header);
    gd_bytes bytes;
    gd_status status = gd__bytes_of(tensor, &bytes);
    if (status) return status;
    gd_file_writer writer;
    status = gd__file_create(ctx, path, &writer);
    if (!status) {
        status = gd__file_write(&writer, header, size);
        if (!status) status = gd__file_write(&writer, bytes.data, bytes.size);
        if (!status)
            status = gd__file_commit(&writer);
        else
            gd__file_discard(&writer);
    }
    gd__bytes_free(ctx, &bytes);
    return status;
}
