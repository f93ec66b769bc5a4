/* gzip; see gzip.h. */
#include "file/gzip.h"

#ifdef GD_HAVE_ZLIB
#include <limits.h>
#include <zlib.h>
#endif

#ifdef GD_HAVE_ZLIB

typedef struct unpacking {
    gd_ctx *ctx;
    const char *source;
    gd_need_fn *need;
    uint64_t limit; /* the caller's limit, then the size in the header */
    bool known;     /* the latter */
    char *out;
    size_t size, block;
} unpacking;

/* Reads the size from the header as soon as possible, and never unpacks more than one byte beyond. */
static gd_status look_at_header(unpacking *u)
{
    uint64_t total = 0;
    if (!u->need || u->known || !u->size) return GD_OK;
    gd_status status = u->need(u->ctx, u->source, u->out, u->size, &total);
    if (status || !total) return status;
    u->known = true;
    if (total > u->limit) return gd__input_too_large(u->ctx, u->source, "its header wants", u->limit);
    u->limit = total;
    return GD_OK;
}

static gd_status make_room(unpacking *u)
{
    if (u->size < u->block) return GD_OK;
    gd_status status = look_at_header(u);
    if (status) return status;
    if (u->size > u->limit && !u->known)
        return gd__input_too_large(u->ctx, u->source, "unpacks to", u->limit);
    if (u->size > u->limit)
        return gd_fail(u->ctx, GD_FORMAT, "%s: unpacks to more than the %llu bytes that its header wants",
                       u->source, (unsigned long long)u->limit);
    size_t grown = u->block ? u->block * 2 : 4096;
    if (grown > u->limit + 1) grown = (size_t)u->limit + 1;
    if (grown <= u->size) grown = u->size + 1;
    char *next = gd__realloc(u->ctx, u->out, u->block, grown);
    if (!next) return GD_NOMEM;
    u->out = next;
    u->block = grown;
    return GD_OK;
}

static gd_status inflate_all(unpacking *u, z_stream *z)
{
    for (;;) {
        gd_status status = make_room(u);
        if (status) return status;
        size_t space = u->block - u->size;
        z->next_out = (Bytef *)(u->out + u->size);
        z->avail_out = space < INT_MAX ? (uInt)space : INT_MAX;
        size_t offered = z->avail_out;
        int result = inflate(z, Z_NO_FLUSH);
        u->size += offered - z->avail_out;
        if (result == Z_MEM_ERROR) return gd_fail(u->ctx, GD_NOMEM, "out of memory");
        if (result == Z_STREAM_END) {
            if (z->avail_in == 0) return GD_OK;
            /* several gzip members in one file are one text */
            if (!gd__is_gzip(z->next_in, z->avail_in) || inflateReset(z) != Z_OK)
                return gd_fail(u->ctx, GD_FORMAT, "%s: bytes follow the gzip data", u->source);
        } else if (result != Z_OK && !(result == Z_BUF_ERROR && z->avail_out == 0)) {
            return gd_fail(u->ctx, GD_FORMAT, "%s: the gzip data is %s", u->source,
                           z->avail_in ? "damaged" : "cut off");
        }
    }
}

static gd_status end_with_nul(gd_ctx *ctx, char **out, size_t size, size_t *block)
{
    if (size == *block) {
        char *grown = gd__realloc(ctx, *out, *block, size + 1);
        if (!grown) return GD_NOMEM;
        *out = grown;
        *block = size + 1;
    }
    (*out)[size] = 0;
    return GD_OK;
}

gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size, size_t limit,
                     gd_need_fn *need, char **out, size_t *out_size, size_t *block)
{
    *out = NULL;
    *out_size = *block = 0;
    if (size > UINT_MAX)
        return gd_fail(ctx, GD_FORMAT, "%s: gzip files of more than 4 GB are not read", source);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return gd_fail(ctx, GD_NOMEM, "out of memory");
    unpacking u = {.ctx = ctx, .source = source, .need = need, .limit = limit};
    gd_status status = inflate_all(&u, &z);
    (void)inflateEnd(&z);
    *out = u.out;
    *out_size = u.size;
    *block = u.block;
    if (!status && !u.known && u.size > u.limit)
        status = gd__input_too_large(ctx, source, "unpacks to", limit);
    if (!status) status = end_with_nul(ctx, out, *out_size, block);
    if (status) {
        gd__free(ctx, *out, *block);
        *out = NULL;
        *out_size = *block = 0;
    }
    return status;
}

#else

gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size, size_t limit,
                     gd_need_fn *need, char **out, size_t *out_size, size_t *block)
{
    (void)data, (void)size, (void)limit, (void)need;
    *out = NULL;
    *out_size = *block = 0;
    return gd_fail(ctx, GD_FORMAT, "%s: this gradus was built without zlib; unpack the file first", source);
}

#endif

gd_status gd__read_unpacked(gd_ctx *ctx, const char *path, const gd_input *how, uint64_t limit,
                            gd_need_fn *need, char **data, size_t *size, size_t *block)
{
    if (gd__input_limit(ctx) < limit) limit = gd__input_limit(ctx);
    gd_status status = gd__read_input(ctx, path, how, limit, need, data, size, block);
    if (status || !gd__is_gzip(*data, *size)) return status;
    char *packed = *data;
    size_t packed_size = *size, packed_block = *block;
    status = gd__gunzip(ctx, gd__input_name(path, how), packed, packed_size, (size_t)limit, need, data, size,
                        block);
    gd__free(ctx, packed, packed_block);
    return status;
}
