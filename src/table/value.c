/* Values of the command line; see value.h. */
#include "table/value.h"
#include "base/text/number.h"
#include "file/gzip.h"
#include "file/idx.h"
#include "gradus/autograd.h"
#include "gradus/file.h"
#include "file/npy.h"
#include "file/safetensors.h"
#include "base/text/suggest.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAX_FILE ((uint64_t)1 << 36)

typedef struct reader {
    gd_ctx *ctx;
    const char *what, *text;
    size_t at, size;
    gd_dtype dtype;
    gd_value_tables *tables; /* may be NULL */
    /* of a list */
    double *item;
    size_t items, bytes;
    int64_t shape[GD_MAX_DIMS]; /* -1: not known yet */
    int ndim;                   /* 0: not known yet */
} reader;

static bool GD_PRINTF(3, 4) fail_at(reader *r, size_t at, const char *format, ...)
{
    char text[300];
    va_list args;
    va_start(args, format);
    (void)gd__vformat(text, sizeof text, format, args);
    va_end(args);
    (void)gd_fail(r->ctx, GD_PARSE, "%s: column %zu: %s", r->what, at + 1, text);
    return false;
}

static char peek(reader *r)
{
    while (r->at < r->size && strchr(" \t\r\n", r->text[r->at])) r->at++;
    return r->at < r->size ? r->text[r->at] : 0;
}

static bool accept(reader *r, char c)
{
    if (peek(r) != c) return false;
    r->at++;
    return true;
}

static bool expect_end(reader *r)
{
    (void)peek(r);
    return r->at == r->size || fail_at(r, r->at, "nothing more expected, '%.20s' found", r->text + r->at);
}

/* ---- numbers and lists ---- */

static bool read_number(reader *r, double *value)
{
    (void)peek(r);
    size_t used = gd__parse_number(r->text + r->at, r->size - r->at, false, value);
    if (!used) {
        if (r->at == r->size) return fail_at(r, r->at, "a number expected, the end found");
        return fail_at(r, r->at, "a number expected, '%.20s' found", r->text + r->at);
    }
    if (!isfinite(*value))
        return fail_at(r, r->at, "the number %.*s is too large", used < 40 ? (int)used : 40, r->text + r->at);
    r->at += used;
    return true;
}

static bool add_item(reader *r, double value)
{
    if (!gd__grow(r->ctx, &r->item, &r->bytes, (r->items + 1) * sizeof *r->item)) return false;
    r->item[r->items++] = value;
    return true;
}

/* The items of a list nested `depth` lists deep; all lists of one depth have one length. */
static bool read_list(reader *r, int depth)
{
    size_t begin = r->at - 1;
    if (depth == GD_MAX_DIMS) return fail_at(r, begin, "more than %d lists deep", GD_MAX_DIMS);
    int64_t count = 0;
    if (!accept(r, ']')) {
        do {
            char c = peek(r);
            if (r->ndim && (c == '[') != (depth + 1 < r->ndim))
                return fail_at(r, r->at, "a ragged list: %s expected here", c == '[' ? "a number" : "a list");
            if (c == '[') {
                r->at++;
                if (!read_list(r, depth + 1)) return false;
            } else {
                double value = 0;
                if (!read_number(r, &value) || !add_item(r, value)) return false;
                r->ndim = depth + 1;
            }
            count++;
        } while (accept(r, ','));
        if (!accept(r, ']')) return fail_at(r, r->at, "',' or ']' expected");
    } else if (r->ndim && depth + 1 != r->ndim) {
        return fail_at(r, begin, "a ragged list: an empty list among lists");
    } else {
        r->ndim = depth + 1;
    }
    if (r->shape[depth] >= 0 && r->shape[depth] != count)
        return fail_at(r, begin, "a ragged list: %lld parts here, %lld in the list before", (long long)count,
                       (long long)r->shape[depth]);
    r->shape[depth] = count;
    return true;
}

static gd_tensor *list_value(reader *r)
{
    for (int i = 0; i < GD_MAX_DIMS; i++) r->shape[i] = -1;
    gd_tensor *t = NULL;
    if (read_list(r, 0) && expect_end(r))
        t = gd_from_f64(r->ctx, r->dtype, r->ndim, r->shape, r->items ? r->item : &(double){0});
    gd__free(r->ctx, r->item, r->bytes);
    return t;
}

/* ---- made arrays ---- */

static gd_tensor *make_eye(gd_ctx *ctx, gd_dtype dtype, int ndim, const int64_t *shape)
{
    return gd_eye(ctx, dtype, shape[0], shape[ndim - 1]);
}

static const struct {
    const char *name;
    gd_tensor *(*make)(gd_ctx *, gd_dtype, int, const int64_t *);
    int least, most;
} makers[] = {
    {"zeros", gd_zeros, 0, GD_MAX_DIMS},
    {"ones", gd_ones, 0, GD_MAX_DIMS},
    {"randn", gd_randn, 0, GD_MAX_DIMS},
    {"rand", gd_rand, 0, GD_MAX_DIMS},
    {"eye", make_eye, 1, 2},
};

#define MAKERS (sizeof makers / sizeof *makers)

static bool read_sizes(reader *r, int64_t *shape, int *ndim)
{
    if (!accept(r, '(')) return fail_at(r, r->at, "'(' expected");
    *ndim = 0;
    if (accept(r, ')')) return true;
    do {
        double value = 0;
        (void)peek(r);
        size_t at = r->at;
        if (!read_number(r, &value)) return false;
        if (*ndim == GD_MAX_DIMS) return fail_at(r, at, "more than %d sizes", GD_MAX_DIMS);
        if (!(value >= 0 && value <= 1e15) || value != (double)(int64_t)value)
            return fail_at(r, at, "a size is a whole number from 0");
        shape[(*ndim)++] = (int64_t)value;
    } while (accept(r, ','));
    return accept(r, ')') || fail_at(r, r->at, "',' or ')' expected");
}

/* An allocation that the machine could never satisfy is a mistake in the text. */
static bool sane_size(reader *r, size_t at, const int64_t *shape, int ndim)
{
    double count = 1;
    for (int i = 0; i < ndim; i++) count *= (double)shape[i];
    return count <= 1e11 || fail_at(r, at, "an array of %.3g elements is too large", count);
}

static gd_tensor *made_value(reader *r)
{
    (void)peek(r);
    size_t begin = r->at, length = 0;
    while (r->at + length < r->size && strchr("abcdefghijklmnopqrstuvwxyz_", r->text[r->at + length]))
        length++;
    size_t k = 0;
    while (k < MAKERS &&
           (strlen(makers[k].name) != length || memcmp(makers[k].name, r->text + begin, length) != 0))
        k++;
    if (k == MAKERS) {
        gd_suggest nearest = gd__suggest(r->text + begin, length);
        for (size_t i = 0; i < MAKERS; i++) gd__suggest_try(&nearest, makers[i].name);
        char hint[GD_HINT_SIZE];
        (void)fail_at(
            r, begin,
            "a number, a list, @FILE, zeros(..), ones(..), rand(..), randn(..) or eye(..) expected%s",
            gd__suggest_hint(&nearest, hint));
        return NULL;
    }
    r->at += length;
    int64_t shape[GD_MAX_DIMS];
    int ndim = 0;
    if (!read_sizes(r, shape, &ndim) || !expect_end(r)) return NULL;
    if (ndim < makers[k].least || ndim > makers[k].most) {
        (void)fail_at(r, begin, "%s takes %d to %d sizes", makers[k].name, makers[k].least, makers[k].most);
        return NULL;
    }
    return sane_size(r, begin, shape, ndim) ? makers[k].make(r->ctx, r->dtype, ndim, shape) : NULL;
}

/* A number, or a number times a made array. */
static gd_tensor *number_value(reader *r)
{
    double value = 0;
    if (!read_number(r, &value)) return NULL;
    if (!accept(r, '*')) return expect_end(r) ? gd_scalar(r->ctx, r->dtype, value) : NULL;
    gd__aside_begin(r->ctx);
    return gd__aside_leave(r->ctx, gd_mul_scalar(made_value(r), value));
}

/* ---- files ---- */

/* PATH.csv:INNER -> PATH.csv and INNER; NULL otherwise. */
static const char *split_inner(const char *path, const char *extension, size_t *length)
{
    *length = strlen(path);
    size_t size = strlen(extension);
    for (const char *s = strstr(path, extension); s; s = strstr(s + 1, extension)) {
        if (s[size] != ':') continue;
        *length = (size_t)(s - path) + size;
        return s + size + 1;
    }
    return NULL;
}

static bool ends_with(const char *text, size_t length, const char *end)
{
    size_t size = strlen(end);
    return length >= size && !memcmp(text + length - size, end, size);
}

/* The tensor of a safetensors file. */
typedef struct choice {
    const char *what, *path, *inner; /* inner NULL: the only tensor */
} choice;

static int64_t choose(void *user, const gd_safetensors *file)
{
    const choice *c = user;
    gd_suggest nearest = gd__suggest(c->inner ? c->inner : "", c->inner ? strlen(c->inner) : 0);
    for (size_t i = 0; i < file->count; i++) {
        if (c->inner ? strcmp(file->entry[i].name, c->inner) == 0 : file->count == 1) return (int64_t)i;
        gd__suggest_try(&nearest, file->entry[i].name);
    }
    char hint[GD_HINT_SIZE];
    if (c->inner)
        (void)gd_fail(file->ctx, GD_PARSE, "%s: %s has no tensor '%.80s'%s", c->what, c->path, c->inner,
                      gd__suggest_hint(&nearest, hint));
    else
        (void)gd_fail(file->ctx, GD_PARSE, "%s: %s has %zu tensors, choose one with %s:NAME", c->what,
                      c->path, file->count, c->path);
    return -1;
}

static gd_tensor *archive_inner(gd_ctx *ctx, const char *what, const char *path, const char *inner)
{
    choice c = {.what = what, .path = path, .inner = inner};
    return gd__archive_pick(ctx, path, choose, &c);
}

static gd_tensor *csv_columns(gd_ctx *ctx, const char *path, const char *inner, gd_value_tables *tables)
{
    if (tables) tables->used = true;
    gd_csv *csv = gd__csv_load(ctx, path, tables ? &tables->csv : NULL);
    if (!csv) return NULL;
    int column = inner ? gd__csv_column(csv, inner) : -1;
    gd_tensor *t = NULL;
    if (inner && column >= 0)
        t = gd__csv_tensor(csv, &column, 1);
    else if (!inner)
        t = gd__csv_tensor(csv, NULL, gd__csv_columns(csv));
    if (t && gd_size(t, 1) == 1) {
        gd_tensor *flat = gd_reshape(t, 1, (int64_t[]){gd_size(t, 0)});
        gd_release(t);
        t = flat;
    }
    gd__csv_free(csv);
    return t;
}

/* A NumPy file packed with gzip. */
static gd_tensor *packed_npy(gd_ctx *ctx, const char *path, const gd_input *how)
{
    char *data;
    size_t size, block;
    if (gd__read_unpacked(ctx, path, how, MAX_FILE, gd__npy_total, &data, &size, &block)) return NULL;
    gd_tensor *t = gd__npy_tensor(ctx, path, data, size);
    gd__free(ctx, data, block);
    return t;
}

size_t gd__value_file(const char *path, const char **inner)
{
    size_t length;
    *inner = split_inner(path, ".csv", &length);
    if (!*inner) *inner = split_inner(path, ".csv.gz", &length);
    if (!*inner) *inner = split_inner(path, ".safetensors", &length);
    return length;
}

gd_tensor *gd__value_load(gd_ctx *ctx, const char *what, const char *path, gd_value_tables *tables)
{
    const char *inner;
    size_t length = gd__value_file(path, &inner);
    char file[4096];
    if (length >= sizeof file) return gd__refuse(ctx, GD_PARSE, "%s: a path of %zu bytes", what, length);
    memcpy(file, path, length);
    file[length] = 0;
    if (ends_with(file, length, ".csv") || ends_with(file, length, ".csv.gz"))
        return csv_columns(ctx, file, inner, tables);
    /* files read by their size; the size of others is checked while they are read */
    bool packed = ends_with(file, length, ".gz");
    if (!packed && !gd__idx_is_path(file) && gd__input_fits(ctx, file)) return NULL;
    if (ends_with(file, length, ".safetensors")) return archive_inner(ctx, what, file, inner);
    const gd_input *how = tables ? &tables->csv.input : NULL;
    if (gd__idx_is_path(file)) return gd__idx_load(ctx, file, how);
    return packed ? packed_npy(ctx, file, how) : gd_npy_load(ctx, file);
}

static gd_tensor *file_value(reader *r)
{
    gd_scope_begin(r->ctx);
    gd_tensor *loaded = gd__value_load(r->ctx, r->what, r->text + r->at, r->tables);
    gd_no_grad_begin(r->ctx);
    gd_tensor *t = gd_keep(gd_cast(loaded, r->dtype));
    gd_no_grad_end(r->ctx);
    gd_scope_end(r->ctx);
    return t;
}

gd_tensor *gd__value_parse(gd_ctx *ctx, const char *what, const char *text, gd_dtype dtype,
                           gd_value_tables *tables)
{
    reader r = {
        .ctx = ctx, .what = what, .text = text, .size = strlen(text), .dtype = dtype, .tables = tables};
    if (gd_error(ctx)) return NULL;
    char c = peek(&r);
    if (accept(&r, '@')) return file_value(&r);
    if (accept(&r, '[')) return list_value(&r);
    if ((c >= '0' && c <= '9') || c == '.' || c == '-' || c == '+') return number_value(&r);
    if (!c) {
        (void)fail_at(&r, r.at, "a value expected, the end found");
        return NULL;
    }
    return made_value(&r);
}
