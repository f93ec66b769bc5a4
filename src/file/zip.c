/* A zip file ends in a directory; its entries say where each file is:
 *
 *   [header name bytes] [header name bytes] ... [entry name] [entry name] ... [end of the directory] */
#include "file/zip.h"
#include "file/input.h"
#include "file/npy.h"

#include <stdio.h>
#include <string.h>
#ifdef GD_HAVE_ZLIB
#include <zlib.h>
#endif

#define MAX_FILE   ((uint64_t)1 << 32)
#define END_SIZE   22
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define MOST_RATIO 1040 /* deflate cannot compress more: a file that claims it is malicious */

typedef struct zip {
    gd_ctx *ctx;
    const char *path;
    const unsigned char *data;
    size_t size;
    gd_archive *archive;
} zip;

static uint32_t number(const unsigned char *at, int bytes)
{
    uint32_t value = 0;
    for (int i = bytes; i-- > 0;) value = value << 8 | at[i];
    return value;
}

static gd_status bad_zip(const zip *z, const char *what)
{
    return gd_fail(z->ctx, GD_FORMAT, "%s: %s", z->path, what);
}

/* The end of the directory, which a comment may follow; NULL with the error. */
static const unsigned char *find_end(const zip *z)
{
    static const unsigned char mark[4] = {'P', 'K', 5, 6};
    for (size_t back = END_SIZE; back <= z->size && back <= END_SIZE + 65535; back++) {
        const unsigned char *at = z->data + z->size - back;
        if (!memcmp(at, mark, 4) && number(at + 20, 2) == back - END_SIZE) return at;
    }
    (void)bad_zip(z, "not an .npz file, or cut off");
    return NULL;
}

/* An entry of the directory: the packed bytes and what they become. */
typedef struct entry {
    char name[256]; /* without .npy */
    int method;
    uint32_t crc;
    size_t packed, whole;
    const unsigned char *data;
} entry;

static gd_status read_entry(const zip *z, const unsigned char *at, size_t left, entry *e, size_t *length)
{
    static const unsigned char mark[4] = {'P', 'K', 1, 2}, local_mark[4] = {'P', 'K', 3, 4};
    if (left < ENTRY_SIZE || memcmp(at, mark, 4) != 0) return bad_zip(z, "its directory is damaged");
    size_t name = number(at + 28, 2), from = number(at + 42, 4);
    *length = ENTRY_SIZE + name + number(at + 30, 2) + number(at + 32, 2);
    e->method = (int)number(at + 10, 2);
    e->crc = number(at + 16, 4);
    e->packed = number(at + 20, 4);
    e->whole = number(at + 24, 4);
    if (*length > left || name >= sizeof e->name) return bad_zip(z, "its directory is damaged");
    if (e->packed == UINT32_MAX || e->whole == UINT32_MAX || from == UINT32_MAX)
        return bad_zip(z, "files of more than 4 GB are not read");
    if (number(at + 8, 2) & 1) return bad_zip(z, "it is encrypted");
    memcpy(e->name, at + ENTRY_SIZE, name);
    e->name[name] = 0;
    if (name > 4 && !strcmp(e->name + name - 4, ".npy")) e->name[name - 4] = 0;
    if (from + LOCAL_SIZE > z->size || memcmp(z->data + from, local_mark, 4) != 0)
        return bad_zip(z, "its directory is damaged");
    from += LOCAL_SIZE + number(z->data + from + 26, 2) + number(z->data + from + 28, 2);
    if (from > z->size || e->packed > z->size - from) return bad_zip(z, "it is cut off");
    e->data = z->data + from;
    return GD_OK;
}

#ifdef GD_HAVE_ZLIB
static gd_status unpack(const zip *z, const entry *e, unsigned char *out)
{
    z_stream s = {.next_in = (Bytef *)(uintptr_t)e->data, .avail_in = (uInt)e->packed};
    if (inflateInit2(&s, -15) != Z_OK) return gd_fail(z->ctx, GD_NOMEM, "out of memory");
    s.next_out = out;
    s.avail_out = (uInt)e->whole;
    int result = inflate(&s, Z_FINISH);
    bool all = result == Z_STREAM_END && s.avail_out == 0;
    (void)inflateEnd(&s);
    return all ? GD_OK : bad_zip(z, "its bytes are damaged");
}
#else
static gd_status unpack(const zip *z, const entry *e, unsigned char *out)
{
    (void)e, (void)out;
    return bad_zip(z, "this gradus was built without zlib; save the arrays with numpy.savez");
}
#endif

static gd_status add_array(const zip *z, const entry *e, const unsigned char *bytes)
{
    char source[600];
#ifdef GD_HAVE_ZLIB
    if ((uint32_t)crc32(0, bytes, (uInt)e->whole) != e->crc) return bad_zip(z, "its bytes are damaged");
#endif
    (void)snprintf(source, sizeof source, "%.300s: %.200s", z->path, e->name);
    gd_scope_begin(z->ctx);
    gd_tensor *t = gd__npy_tensor(z->ctx, source, bytes, e->whole);
    gd_status status = t ? gd_archive_put(z->archive, e->name, t) : gd_error(z->ctx);
    gd_scope_end(z->ctx);
    return status;
}

static gd_status read_array(const zip *z, const entry *e)
{
    if (e->method != 0 && e->method != 8) return bad_zip(z, "it is packed in a way that is not known");
    if (e->method == 0 && e->packed != e->whole) return bad_zip(z, "its directory is damaged");
    if (e->whole / MOST_RATIO > e->packed + 64)
        return bad_zip(z, "it is damaged: nothing unpacks to so much");
    if (e->method == 0) return add_array(z, e, e->data);
    unsigned char *out = gd__alloc(z->ctx, e->whole + 1);
    if (!out) return GD_NOMEM;
    gd_status status = unpack(z, e, out);
    if (!status) status = add_array(z, e, out);
    gd__free(z->ctx, out, e->whole + 1);
    return status;
}

static gd_status read_arrays(const zip *z)
{
    const unsigned char *end = find_end(z);
    if (!end) return gd_error(z->ctx);
    size_t at = number(end + 16, 4), stop = (size_t)(end - z->data), taken = 0, whole = 0;
    uint64_t limit = gd__input_limit(z->ctx);
    gd_status status = GD_OK;
    for (uint32_t left = number(end + 10, 2); left && !status; left--) {
        entry e;
        size_t length = 0;
        if (at > stop) return bad_zip(z, "its directory is damaged");
        status = read_entry(z, z->data + at, stop - at, &e, &length);
        /* overlapping entries: a small file would unpack to any size */
        if (!status && (taken += e.packed) > z->size)
            status = bad_zip(z, "it is damaged: its files share bytes");
        if (!status && (whole += e.whole) > limit)
            status = gd__input_too_large(z->ctx, z->path, "unpacks to", limit);
        if (!status) status = read_array(z, &e);
        at += length;
    }
    return status;
}

gd_archive *gd__npz_read(gd_ctx *ctx, const char *source, const void *data, size_t size)
{
    zip z = {.ctx = ctx, .path = source, .data = data, .size = size, .archive = gd_archive_new(ctx)};
    if (z.archive && !read_arrays(&z)) return z.archive;
    gd_archive_free(z.archive);
    return NULL;
}

gd_archive *gd__npz_load(gd_ctx *ctx, const char *path, const gd_input *how)
{
    char *data;
    size_t size, block;
    if (gd__read_input(ctx, path, how, MAX_FILE, NULL, &data, &size, &block)) return NULL;
    gd_archive *archive = gd__npz_read(ctx, path, data, size);
    gd__free(ctx, data, block);
    return archive;
}
