/* Writing PNG: a header, the rows packed by zlib (or stored as they are if there is none), an end. */
#include "plot/picture.h"

#ifdef GD_HAVE_ZLIB
#include <zlib.h>
#endif

static uint32_t crc_bytes(uint32_t crc, const void *data, size_t size)
{
    const uint8_t *b = data;
    for (size_t i = 0; i < size; i++) {
        crc ^= b[i];
        for (int k = 0; k < 8; k++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return crc;
}

static void put32(uint8_t out[4], uint32_t v)
{
    for (int i = 0; i < 4; i++) out[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void chunk(gd_text *out, const char *kind, const void *data, size_t size)
{
    uint8_t word[4];
    put32(word, (uint32_t)size);
    gd__text_append(out, (const char *)word, 4);
    gd__text_append(out, kind, 4);
    if (size) gd__text_append(out, data, size);
    put32(word, ~crc_bytes(crc_bytes(0xFFFFFFFFu, kind, 4), data, size));
    gd__text_append(out, (const char *)word, 4);
}

/* Rows with their filter byte: each row as the difference to the one above (filter 2), which packs well. */
static void filtered(uint8_t *out, const uint8_t *rgb, size_t stride, int height)
{
    for (size_t y = 0; y < (size_t)height; y++) {
        uint8_t *to = out + y * (stride + 1);
        const uint8_t *row = rgb + y * stride;
        to[0] = y ? 2 : 0;
        for (size_t x = 0; x < stride; x++) to[x + 1] = (uint8_t)(row[x] - (y ? row[x - stride] : 0));
    }
}

#ifdef GD_HAVE_ZLIB

static gd_status pack(gd_text *out, const uint8_t *data, size_t size)
{
    uLongf room = compressBound((uLong)size);
    uint8_t *packed = gd__alloc(out->ctx, room);
    if (!packed) return GD_NOMEM;
    uLongf used = room;
    gd_status status = GD_OK;
    if (compress2(packed, &used, data, (uLong)size, 6) == Z_OK)
        chunk(out, "IDAT", packed, used);
    else
        status = gd_fail(out->ctx, GD_NOMEM, "out of memory");
    gd__free(out->ctx, packed, room);
    return status;
}

#else

/* A zlib stream of stored blocks. */
static gd_status pack(gd_text *out, const uint8_t *data, size_t size)
{
    gd_text body = gd__text(out->ctx);
    uint32_t a = 1, b = 0;
    gd__text_append(&body, "\x78\x01", 2);
    for (size_t at = 0; at < size || at == 0;) {
        size_t n = size - at < 65535 ? size - at : 65535;
        uint8_t head[5] = {at + n >= size, (uint8_t)n, (uint8_t)(n >> 8), (uint8_t)~n, (uint8_t)(~n >> 8)};
        gd__text_append(&body, (const char *)head, 5);
        gd__text_append(&body, (const char *)data + at, n);
        for (size_t i = 0; i < n; i++) {
            a = (a + data[at + i]) % 65521;
            b = (b + a) % 65521;
        }
        at += n ? n : 1;
    }
    uint8_t sum[4];
    put32(sum, b << 16 | a);
    gd__text_append(&body, (const char *)sum, 4);
    if (!body.failed) chunk(out, "IDAT", body.data, body.used);
    gd_status status = body.failed ? GD_NOMEM : GD_OK;
    gd__text_free(&body);
    return status;
}

#endif

gd_status gd__png_encode(gd_text *out, const uint8_t *rgb, int width, int height)
{
    size_t stride = 3 * (size_t)width, bytes = (stride + 1) * (size_t)height;
    uint8_t header[13] = {0};
    put32(header, (uint32_t)width);
    put32(header + 4, (uint32_t)height);
    header[8] = 8; /* bits a channel */
    header[9] = 2; /* RGB */
    uint8_t *rows = gd__alloc(out->ctx, bytes);
    if (!rows) return GD_NOMEM;
    filtered(rows, rgb, stride, height);
    gd__text_append(out, "\x89PNG\r\n\x1a\n", 8);
    chunk(out, "IHDR", header, sizeof header);
    gd_status status = pack(out, rows, bytes);
    gd__free(out->ctx, rows, bytes);
    chunk(out, "IEND", header, 0);
    return status ? status : out->failed ? GD_NOMEM : GD_OK;
}
