/* IDX files; see idx.h.
 *
 *   0 0 TYPE NDIM | size 0 (u32, big-endian) | size 1 | ... | elements, big-endian, last axis fastest */
#include "file/idx.h"
#include "file/gzip.h"

#include <string.h>

#define MAX_FILE ((uint64_t)1 << 36)

static const struct {
    uint8_t code, size;
    gd_dtype dtype;
} types[] = {{0x08, 1, GD_U8},  {0x09, 1, GD_I32}, {0x0B, 2, GD_I32},
             {0x0C, 4, GD_I32}, {0x0D, 4, GD_F32}, {0x0E, 8, GD_F64}};

static uint32_t big_endian32(const unsigned char *b)
{
    return (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
}

/* The header; *known false: it is incomplete. */
static gd_status parse_header(gd_ctx *ctx, const char *source, const unsigned char *b, size_t size,
                              gd_idx *out, bool *known)
{
    *out = (gd_idx){.count = 1};
    *known = false;
    if (size < 4) return GD_OK;
    if (b[0] || b[1]) return gd_fail(ctx, GD_FORMAT, "%s: not an IDX file", source);
    size_t k = 0, kinds = sizeof types / sizeof *types;
    while (k < kinds && types[k].code != b[2]) k++;
    if (k == kinds) return gd_fail(ctx, GD_FORMAT, "%s: IDX element type 0x%02X is not known", source, b[2]);
    out->dtype = types[k].dtype;
    out->file_size = types[k].size;
    out->ndim = b[3];
    if (out->ndim > GD_MAX_DIMS)
        return gd_fail(ctx, GD_FORMAT, "%s: %d axes, at most %d are possible", source, out->ndim,
                       GD_MAX_DIMS);
    out->data_at = 4 + 4 * (size_t)out->ndim;
    if (size < out->data_at) return GD_OK;
    for (int i = 0; i < out->ndim; i++) {
        out->shape[i] = big_endian32(b + 4 + 4 * i);
        if (__builtin_mul_overflow(out->count, out->shape[i], &out->count) || out->count > INT64_MAX / 8)
            return gd_fail(ctx, GD_FORMAT, "%s: the product of the sizes overflows", source);
    }
    *known = true;
    return GD_OK;
}

static uint64_t element_bytes(const gd_idx *idx) { return (uint64_t)idx->count * (uint64_t)idx->file_size; }

static gd_status idx_total(gd_ctx *ctx, const char *source, const char *data, size_t size, uint64_t *total)
{
    gd_idx idx;
    bool known;
    gd_status status = parse_header(ctx, source, (const unsigned char *)data, size, &idx, &known);
    if (!status && known) *total = idx.data_at + element_bytes(&idx);
    return status;
}

/* Reads the header; FORMAT (with `source` in front) when it is malformed or the elements are not exactly the rest. */
static gd_status idx_parse(gd_ctx *ctx, const char *source, const void *data, size_t size, gd_idx *out)
{
    bool known;
    gd_status status = parse_header(ctx, source, data, size, out, &known);
    if (status) return status;
    if (size < 4) return gd_fail(ctx, GD_FORMAT, "%s: not an IDX file", source);
    if (!known) return gd_fail(ctx, GD_FORMAT, "%s: cut off inside the IDX header", source);
    uint64_t need = element_bytes(out), rest = size - out->data_at;
    if (rest != need)
        return gd_fail(ctx, GD_FORMAT, "%s: %llu bytes of elements, the header wants %llu", source,
                       (unsigned long long)rest, (unsigned long long)need);
    return GD_OK;
}

/* One element of 1, 2, 4 or 8 bytes, sign-extended where the tensor is wider. */
static void unpack_one(const gd_idx *idx, const unsigned char *from, void *to, size_t width)
{
    uint64_t bits = 0;
    for (int i = 0; i < idx->file_size; i++) bits = bits << 8 | from[i];
    if (idx->dtype == GD_I32 && idx->file_size < 4) {
        uint64_t sign = (uint64_t)1 << (8 * idx->file_size - 1);
        bits = (bits ^ sign) - sign;
    }
    if (width == 4) {
        uint32_t narrow = (uint32_t)bits;
        memcpy(to, &narrow, 4);
    } else {
        memcpy(to, &bits, 8);
    }
}

/* The elements of a parsed file as out->dtype. */
static void idx_unpack(const gd_idx *idx, const void *elements, void *out)
{
    size_t width = gd_dtype_size(idx->dtype), count = (size_t)idx->count;
    if (width == 1) {
        if (count) memcpy(out, elements, count);
        return;
    }
    const unsigned char *from = elements;
    for (size_t i = 0; i < count; i++)
        unpack_one(idx, from + i * (size_t)idx->file_size, (char *)out + i * width, width);
}

/* ---- tensors ---- */

static gd_tensor *plain_tensor(gd_ctx *ctx, const char *source, const void *data, size_t size)
{
    gd_idx idx;
    if (idx_parse(ctx, source, data, size, &idx)) return NULL;
    gd_tensor *t = gd_empty(ctx, idx.dtype, idx.ndim, idx.shape);
    if (t) idx_unpack(&idx, (const char *)data + idx.data_at, gd_data_mut(t));
    return t;
}

gd_tensor *gd__idx_load(gd_ctx *ctx, const char *path, const gd_input *how)
{
    char *data;
    size_t size, block;
    if (gd__read_unpacked(ctx, path, how, MAX_FILE, idx_total, &data, &size, &block)) return NULL;
    gd_tensor *t = plain_tensor(ctx, path, data, size);
    gd__free(ctx, data, block);
    return t;
}

bool gd__idx_is_path(const char *path)
{
    size_t length = strlen(path);
    if (length > 3 && !strcmp(path + length - 3, ".gz")) length -= 3;
    return (length >= 4 && !memcmp(path + length - 4, ".idx", 4)) ||
           (length >= 6 && !memcmp(path + length - 6, "-ubyte", 6));
}
