/* gzip; see gzip.h. */
#include "cli/gzip.h"
#include "cli/files.h"

#ifdef GD_HAVE_ZLIB
#include <limits.h>
#include <zlib.h>
#endif

bool gd__is_gzip(const void *data, size_t size)
{
    const unsigned char *b = data;
    return size >= 2 && b[0] == 0x1F && b[1] == 0x8B;
}

#ifdef GD_HAVE_ZLIB

static gd_status inflate_all(gd_ctx *ctx, z_stream *z, const char *source, size_t limit, char **out,
                             size_t *size, size_t *block)
{
    for (;;) {
        if (*size == *block) {
            if (*block >= limit)
                return gd_fail(ctx, GD_FORMAT, "%s: unpacks to more than %zu bytes", source, limit);
            size_t grown = *block ? *block * 2 : 4096;
            if (grown > limit) grown = limit;
            char *next = gd__realloc(ctx, *out, *block, grown);
            if (!next) return GD_NOMEM;
            *out = next;
            *block = grown;
        }
        size_t space = *block - *size;
        z->next_out = (Bytef *)(*out + *size);
        z->avail_out = space < INT_MAX ? (uInt)space : INT_MAX;
        size_t offered = z->avail_out;
        int result = inflate(z, Z_NO_FLUSH);
        *size += offered - z->avail_out;
        if (result == Z_MEM_ERROR) return gd_fail(ctx, GD_NOMEM, "out of memory");
        if (result == Z_STREAM_END) {
            if (z->avail_in == 0) return GD_OK;
            /* several gzip members in one file are one text */
            if (!gd__is_gzip(z->next_in, z->avail_in) || inflateReset(z) != Z_OK)
                return gd_fail(ctx, GD_FORMAT, "%s: bytes follow the gzip data", source);
        } else if (result != Z_OK && !(result == Z_BUF_ERROR && z->avail_out == 0)) {
            return gd_fail(ctx, GD_FORMAT, "%s: the gzip data is %s", source,
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

gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size, size_t limit, char **out,
                     size_t *out_size, size_t *block)
{
    *out = NULL;
    *out_size = *block = 0;
    if (size > UINT_MAX)
        return gd_fail(ctx, GD_FORMAT, "%s: gzip files of more than 4 GB are not read", source);
    z_stream z = {.next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)size};
    if (inflateInit2(&z, 15 + 16) != Z_OK) return gd_fail(ctx, GD_NOMEM, "out of memory");
    gd_status status = inflate_all(ctx, &z, source, limit, out, out_size, block);
    (void)inflateEnd(&z);
    if (!status) status = end_with_nul(ctx, out, *out_size, block);
    if (status) {
        gd__free(ctx, *out, *block);
        *out = NULL;
        *out_size = *block = 0;
    }
    return status;
}

#else

gd_status gd__gunzip(gd_ctx *ctx, const char *source, const void *data, size_t size, size_t limit, char **out,
                     size_t *out_size, size_t *block)
{
    (void)data, (void)size, (void)limit;
    *out = NULL;
    *out_size = *block = 0;
    return gd_fail(ctx, GD_FORMAT, "%s: this gradus was built without zlib; unpack the file first", source);
}

#endif

gd_status gd__read_unpacked(gd_ctx *ctx, const char *path, uint64_t limit, char **data, size_t *size,
                            size_t *block)
{
    gd_status status = gd__read_input(ctx, path, limit, data, size, block);
    if (status || !gd__is_gzip(*data, *size)) return status;
    char *packed = *data;
    size_t packed_size = *size, packed_block = *block;
    status = gd__gunzip(ctx, path, packed, packed_size, (size_t)limit, data, size, block);
    gd__free(ctx, packed, packed_block);
    return status;
}
