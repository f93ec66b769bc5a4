/* Encodings; see encoding.h. */
#include "table/encoding.h"

#include <string.h>

/* Windows-1252 between 0x80 and 0x9F, where Latin-1 has control characters; 0: no character. */
static const uint16_t windows_1252[32] = {
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178,
};

typedef struct converter {
    gd_ctx *ctx;
    const char *source;
    const unsigned char *from;
    size_t size, at;
    bool big_endian;
    int64_t line;
} converter;

static gd_status bad(const converter *c, const char *what, uint32_t value, const char *encoding)
{
    return gd_fail(c->ctx, GD_FORMAT, "%s: line %lld: %s 0x%02X is not %s", c->source, (long long)c->line,
                   what, value, encoding);
}

/* One character of UTF-8; its bytes, at most 4. */
static size_t put(uint32_t code, char *out)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t bytes = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = bytes - 1; i > 0; i--, code >>= 6) out[i] = (char)(uint8_t)(0x80 | (code & 0x3F));
    out[0] = (char)(uint8_t)(lead[bytes] | code);
    return bytes;
}

/* ---- one character of each encoding: read at c->at, which moves on ---- */

static gd_status next_latin1(converter *c, uint32_t *code)
{
    *code = c->from[c->at++];
    return GD_OK;
}

static gd_status next_windows(converter *c, uint32_t *code)
{
    unsigned char byte = c->from[c->at++];
    *code = byte >= 0x80 && byte < 0xA0 ? windows_1252[byte - 0x80] : byte;
    return byte && !*code ? bad(c, "byte", byte, "Windows-1252") : GD_OK;
}

static uint32_t unit(const converter *c, size_t at)
{
    return c->big_endian ? (uint32_t)c->from[at] << 8 | c->from[at + 1]
                         : (uint32_t)c->from[at + 1] << 8 | c->from[at];
}

static gd_status next_utf16(converter *c, uint32_t *code)
{
    if (c->size - c->at < 2)
        return gd_fail(c->ctx, GD_FORMAT, "%s: half a character of UTF-16 at the end", c->source);
    uint32_t first = *code = unit(c, c->at);
    c->at += 2;
    if (first < 0xD800 || first > 0xDFFF) return GD_OK;
    uint32_t second = c->size - c->at < 2 ? 0 : unit(c, c->at);
    if (first > 0xDBFF || second < 0xDC00 || second > 0xDFFF) return bad(c, "unit", first, "UTF-16");
    c->at += 2;
    *code = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
    return GD_OK;
}

/* ---- all ---- */

static gd_status convert(converter *c, gd_status (*next)(converter *, uint32_t *), char *out, size_t *size)
{
    *size = 0;
    for (c->line = 1; c->at < c->size;) {
        uint32_t code = 0;
        gd_status status = next(c, &code);
        if (status) return status;
        c->line += code == '\n';
        *size += put(code, out + *size);
    }
    out[*size] = 0;
    return GD_OK;
}

/* A byte of Latin-1 becomes at most two of UTF-8, one of Windows-1252 three, two of UTF-16 three. */
static gd_status replace(converter *c, gd_encoding encoding, char **data, size_t *size, size_t *block)
{
    gd_status (*next)(converter *, uint32_t *) = encoding == GD_LATIN1         ? next_latin1
                                                 : encoding == GD_WINDOWS_1252 ? next_windows
                                                                               : next_utf16;
    size_t room = (c->size - c->at) * (encoding == GD_LATIN1 || encoding == GD_UTF16 ? 2 : 3) + 8, used;
    char *out = gd__alloc(c->ctx, room);
    gd_status status = out ? convert(c, next, out, &used) : GD_NOMEM;
    if (status) {
        gd__free(c->ctx, out, room);
        return status;
    }
    gd__free(c->ctx, *data, *block);
    *data = out;
    *size = used;
    *block = room;
    return GD_OK;
}

bool gd__is_utf16(const char *data, size_t size)
{
    return size >= 2 && (!memcmp(data, "\xFF\xFE", 2) || !memcmp(data, "\xFE\xFF", 2));
}

gd_status gd__to_utf8(gd_ctx *ctx, const char *source, gd_encoding encoding, char **data, size_t *size,
                      size_t *block)
{
    const unsigned char *b = (const unsigned char *)*data;
    bool mark8 = *size >= 3 && b[0] == 0xEF && b[1] == 0xBB && b[2] == 0xBF;
    bool little = *size >= 2 && b[0] == 0xFF && b[1] == 0xFE;
    bool big = *size >= 2 && b[0] == 0xFE && b[1] == 0xFF;
    converter c = {.ctx = ctx, .source = source, .from = b, .size = *size, .big_endian = big};
    if (encoding != GD_UTF8 && mark8)
        return gd_fail(ctx, GD_FORMAT, "%s: begins with the mark of UTF-8; leave out {encoding}", source);
    if ((encoding == GD_LATIN1 || encoding == GD_WINDOWS_1252) && (little || big))
        return gd_fail(ctx, GD_FORMAT, "%s: begins with the mark of UTF-16; leave out {encoding}", source);
    if (encoding == GD_UTF8 && (little || big)) encoding = GD_UTF16;
    if (mark8) {
        *size -= 3;
        memmove(*data, *data + 3, *size + 1);
    }
    if (encoding == GD_UTF8) return GD_OK;
    c.at = little || big ? 2 : 0;
    return replace(&c, encoding, data, size, block);
}
