/* Reading and writing safetensors headers; see safetensors.h for the layout. */
#include "file/safetensors.h"
#include "base/text/json.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "elements are written as they lie in memory");

#define OWN            "gradus."
#define OWN_TENSOR     "gradus.tensor:"
#define FORMAT_VERSION "2" /* 1: a tensor's checksum is of all its bytes */
#define SUM_DIGITS     (GD_SAFETENSORS_SUM_SIZE - 1)

/* The beginning of every header that gradus writes; the digits of its checksum follow. */
static const char own_start[] = "{\"__metadata__\":{\"gradus.header\":\"";
#define SUM_AT (8 + sizeof own_start - 1)

/* Every dtype of the format, in bits (safetensors 0.8), and what it is read as. */
typedef struct format_dtype {
    const char *name;
    unsigned bits;
    gd_dtype dtype;
    gd_widen_fn *widen;
} format_dtype;

static const format_dtype format_dtypes[] = {
#define FORMAT_DTYPE(NAME, name, bytes, kind, st, np) {st, 8 * bytes, GD_##NAME, NULL},
    GD_DTYPE_LIST(FORMAT_DTYPE)
#undef FORMAT_DTYPE
        {"I8", 8, GD_I32, gd__widen_i8},
    {"I16", 16, GD_I32, gd__widen_i16},
    {"U16", 16, GD_I32, gd__widen_u16},
    {"U32", 32, GD_I64, gd__widen_u32},
    {"U64", 64, GD_I64, gd__widen_u64},
    {"F8_E4M3", 8, GD_F32, gd__widen_e4m3},
    {"F8_E5M2", 8, GD_F32, gd__widen_e5m2},
    {"F8_E8M0", 8, GD_F32, gd__widen_e8m0},
    {"F8_E4M3FNUZ", 8, GD_F32, gd__widen_e4m3fnuz},
    {"F8_E5M2FNUZ", 8, GD_F32, gd__widen_e5m2fnuz},
    {"C64", 64, GD_DTYPE_COUNT, NULL},
    {"F6_E2M3", 6, GD_DTYPE_COUNT, NULL},
    {"F6_E3M2", 6, GD_DTYPE_COUNT, NULL},
    {"F4", 4, GD_DTYPE_COUNT, NULL},
};

/* ---- checksum ---- */

static uint64_t load_word(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* A bijection of 64 bits: xors with shifts and odd factors. */
static uint64_t mix(uint64_t h)
{
    h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
    h = (h ^ (h >> 29)) * 0x9fb21c651e98df25u;
    return h ^ (h >> 32);
}

/* Four independent lanes take 32 bytes a round; then lanes and the last words are folded in one by one. */
uint64_t gd__checksum(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *p = data;
    uint64_t h = mix(seed ^ ((uint64_t)size * 0x9e3779b97f4a7c15u));
    size_t left = size;
    if (left >= 32) {
        uint64_t lane[4] = {1, 2, 3, 4};
        for (; left >= 32; p += 32, left -= 32) {
            for (int i = 0; i < 4; i++) {
                uint64_t sum = lane[i] + load_word(p + 8 * i) * 0xc2b2ae3d27d4eb4fu;
                lane[i] = ((sum << 31) | (sum >> 33)) * 0x9e3779b185ebca87u;
            }
        }
        for (int i = 0; i < 4; i++) h = mix(h ^ lane[i]);
    }
    for (; left >= 8; p += 8, left -= 8) h = mix(h ^ load_word(p));
    if (left) {
        unsigned char last[8] = {0};
        memcpy(last, p, left);
        h = mix(h ^ load_word(last));
    }
    return h;
}

static uint64_t chunk_sum(const void *data, size_t size, size_t at, size_t step)
{
    return gd__checksum(0, (const char *)data + at, size - at < step ? size - at : step);
}

uint64_t gd__tensor_sum(const void *data, size_t size, size_t item)
{
    uint64_t sum = 0;
    size_t step = item * GD_CHECKSUM_CHUNK;
    for (size_t at = 0; at < size; at += step) {
        uint64_t chunk = chunk_sum(data, size, at, step);
        sum = gd__checksum(sum, &chunk, sizeof chunk);
    }
    return sum;
}

void gd__chunk_sums(const void *data, size_t size, size_t item, uint64_t *out)
{
    size_t step = item * GD_CHECKSUM_CHUNK;
    for (size_t at = 0; at < size; at += step) *out++ = chunk_sum(data, size, at, step);
}

uint64_t gd__sum_of_sums(const uint64_t *chunk, size_t count)
{
    uint64_t sum = 0;
    while (count--) sum = gd__checksum(sum, chunk++, sizeof *chunk);
    return sum;
}

void gd__checksum_text(uint64_t sum, char out[GD_SAFETENSORS_SUM_SIZE])
{
    snprintf(out, GD_SAFETENSORS_SUM_SIZE, "%016" PRIx64, sum);
}

/* The length and the header without the digits themselves. */
static void header_sum(const char *data, size_t size, char out[GD_SAFETENSORS_SUM_SIZE])
{
    size_t rest = SUM_AT + SUM_DIGITS;
    gd__checksum_text(gd__checksum(gd__checksum(0, data, SUM_AT), data + rest, size - rest), out);
}

static bool starts_as_own(const char *data, size_t size)
{
    return size >= SUM_AT + SUM_DIGITS && memcmp(data + 8, own_start, sizeof own_start - 1) == 0;
}

/* ---- small helpers ---- */

/* One character of UTF-8 as RFC 3629 has it; its length, 0 if it is none. */
static int utf8_length(const unsigned char *p)
{
    if (p[0] < 0x80) return 1;
    int length = p[0] >= 0xc2 && p[0] < 0xe0   ? 2
                 : (p[0] & 0xf0) == 0xe0       ? 3
                 : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                               : 0;
    for (int i = 1; i < length; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
    bool beyond = (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf4 && p[1] >= 0x90);
    return overlong || beyond ? 0 : length;
}

bool gd__is_utf8(const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        int length = utf8_length(p);
        if (!length) return false;
        p += length;
    }
    return true;
}

static const format_dtype *find_dtype(const char *name)
{
    for (size_t i = 0; i < sizeof format_dtypes / sizeof *format_dtypes; i++)
        if (strcmp(format_dtypes[i].name, name) == 0) return &format_dtypes[i];
    return NULL;
}

static bool has_prefix(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* JSON text to a value; NULL with FORMAT or NOMEM. */
static json_t *parse_json(gd_ctx *ctx, const char *source, const char *what, const char *text, size_t length)
{
    json_error_t error;
    json_t *value = gd__json_read(text, length, &error);
    if (value) return value;
    /* without memory jansson usually fails before it has a message */
    if (json_error_code(&error) == json_error_out_of_memory || !error.text[0])
        (void)gd_fail(ctx, GD_NOMEM, "%s: out of memory in %s", source, what);
    else
        (void)gd_fail(ctx, GD_FORMAT, "%s: %s is not JSON: line %d, column %d: %s", source, what, error.line,
                      error.column, error.text);
    return NULL;
}

/* ---- reading: one tensor ---- */

#define BAD(...) gd_fail(file->ctx, GD_FORMAT, __VA_ARGS__)

static gd_status read_shape(const gd_safetensors *file, gd_safetensors_entry *entry, const json_t *shape)
{
    size_t ndim = json_array_size(shape);
    if (!json_is_array(shape)) return BAD("%s: tensor '%s' has no shape", file->source, entry->name);
    if (ndim > GD_MAX_DIMS)
        return gd_fail(file->ctx, GD_SHAPE, "%s: tensor '%s' has %zu axes, at most %d are possible",
                       file->source, entry->name, ndim, GD_MAX_DIMS);
    for (size_t i = 0; i < ndim; i++) {
        const json_t *size = json_array_get(shape, i);
        if (!json_is_integer(size) || json_integer_value(size) < 0)
            return BAD("%s: tensor '%s': size %zu of the shape is not a number of elements", file->source,
                       entry->name, i);
        entry->shape[i] = json_integer_value(size);
    }
    entry->ndim = (int)ndim;
    return GD_OK;
}

/* Bytes of all elements; FORMAT when they overflow or end inside a byte. */
static gd_status count_bytes(const gd_safetensors *file, const gd_safetensors_entry *entry,
                             unsigned item_bits, uint64_t *bytes)
{
    uint64_t bits = 1;
    bool overflow = false;
    for (int i = 0; i < entry->ndim; i++)
        overflow |= __builtin_mul_overflow(bits, (uint64_t)entry->shape[i], &bits);
    overflow |= __builtin_mul_overflow(bits, item_bits, &bits);
    if (overflow)
        return BAD("%s: tensor '%s': the product of the sizes overflows", file->source, entry->name);
    if (bits % 8)
        return BAD("%s: tensor '%s': %s elements end inside a byte", file->source, entry->name,
                   entry->dtype_name);
    *bytes = bits / 8;
    return GD_OK;
}

static gd_status read_offsets(const gd_safetensors *file, gd_safetensors_entry *entry, const json_t *offsets)
{
    const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
    if (json_array_size(offsets) != 2 || !json_is_integer(first) || !json_is_integer(last) ||
        json_integer_value(first) < 0 || json_integer_value(last) < json_integer_value(first))
        return BAD("%s: tensor '%s': data_offsets are not two increasing numbers", file->source, entry->name);
    entry->offset = (uint64_t)json_integer_value(first);
    entry->size = (uint64_t)json_integer_value(last) - entry->offset;
    return GD_OK;
}

static gd_status read_entry(const gd_safetensors *file, gd_safetensors_entry *entry, const json_t *value)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    if (!dtype) return BAD("%s: tensor '%s' has no dtype", file->source, entry->name);
    const format_dtype *row = find_dtype(dtype);
    if (!row) return BAD("%s: tensor '%s' has an unknown dtype '%s'", file->source, entry->name, dtype);
    entry->dtype_name = row->name;
    entry->dtype = row->dtype;
    entry->widen = row->widen;
    entry->item = row->bits < 8 ? 1 : row->bits / 8;
    gd_status status = read_shape(file, entry, json_object_get(value, "shape"));
    if (!status) status = read_offsets(file, entry, json_object_get(value, "data_offsets"));
    uint64_t bytes = 0;
    if (!status) status = count_bytes(file, entry, row->bits, &bytes);
    if (!status && bytes != entry->size)
        return BAD("%s: tensor '%s': data_offsets span %" PRIu64 " bytes, shape and dtype need %" PRIu64,
                   file->source, entry->name, entry->size, bytes);
    return status;
}

/* ---- reading: what gradus adds ---- */

static gd_status check_axis(const gd_safetensors *file, const gd_safetensors_entry *entry, int axis,
                            const json_t *value)
{
    if (json_is_null(value)) return GD_OK;
    const json_t *name = json_object_get(value, "name"), *labels = json_object_get(value, "labels");
    if (!json_is_object(value) || (name && !json_is_string(name)) || (labels && !json_is_array(labels)))
        return BAD("%s: tensor '%s': axis %d is malformed", file->source, entry->name, axis);
    if (!labels) return GD_OK;
    if (json_array_size(labels) != (uint64_t)entry->shape[axis])
        return BAD("%s: tensor '%s': axis %d has %zu labels for %" PRId64 " elements", file->source,
                   entry->name, axis, json_array_size(labels), entry->shape[axis]);
    for (size_t i = 0; i < json_array_size(labels); i++)
        if (!json_is_string(json_array_get(labels, i)))
            return BAD("%s: tensor '%s': axis %d: label %zu is not a text", file->source, entry->name, axis,
                       i);
    return GD_OK;
}

static gd_status read_note(const gd_safetensors *file, gd_safetensors_entry *entry, const char *text)
{
    entry->note = parse_json(file->ctx, file->source, "the note on a tensor", text, strlen(text));
    if (!entry->note) return GD_FORMAT;
    entry->sum = json_string_value(json_object_get(entry->note, "sum"));
    if (!entry->sum) return BAD("%s: tensor '%s' has no checksum", file->source, entry->name);
    const json_t *axes = json_object_get(entry->note, "axes");
    if (!axes) return GD_OK;
    if (json_array_size(axes) != (size_t)entry->ndim || !json_is_array(axes))
        return BAD("%s: tensor '%s': the axes do not fit the shape", file->source, entry->name);
    for (int i = 0; i < entry->ndim; i++) {
        gd_status status = check_axis(file, entry, i, json_array_get(axes, (size_t)i));
        if (status) return status;
    }
    return GD_OK;
}

/* The note of every tensor; a note on a missing tensor counts as damage, too. */
static gd_status read_notes(gd_safetensors *file, json_t *metadata)
{
    size_t notes = 0;
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value) notes += has_prefix(key, OWN_TENSOR);
    if (notes != file->count)
        return BAD("%s: %zu tensors, but notes on %zu", file->source, file->count, notes);
    for (size_t i = 0; i < file->count; i++) {
        gd_safetensors_entry *entry = &file->entry[i];
        size_t length = strlen(entry->name), prefix = sizeof OWN_TENSOR - 1;
        char *wanted = gd__alloc(file->ctx, prefix + length + 1);
        if (!wanted) return GD_NOMEM;
        memcpy(wanted, OWN_TENSOR, prefix);
        memcpy(wanted + prefix, entry->name, length + 1);
        const char *text = json_string_value(json_object_get(metadata, wanted));
        gd__strfree(file->ctx, wanted);
        if (!text) return BAD("%s: no note on tensor '%s'", file->source, entry->name);
        gd_status status = read_note(file, entry, text);
        if (status) return status;
    }
    return GD_OK;
}

/* Checks the header's own checksum before using anything in it. */
static gd_status check_seal(const gd_safetensors *file, const char *data, size_t size)
{
    char sum[GD_SAFETENSORS_SUM_SIZE];
    header_sum(data, size, sum);
    if (memcmp(sum, data + SUM_AT, SUM_DIGITS) == 0) return GD_OK;
    return BAD("%s: the header is damaged: its checksum does not fit", file->source);
}

static gd_status read_metadata(gd_safetensors *file, json_t *metadata, bool sealed)
{
    if (!json_is_object(metadata)) return BAD("%s: __metadata__ is not an object", file->source);
    file->meta_capacity = json_object_size(metadata);
    file->meta = gd__alloc_array(file->ctx, file->meta_capacity, sizeof *file->meta);
    if (!file->meta) return GD_NOMEM;
    const char *key;
    json_t *value;
    json_object_foreach(metadata, key, value)
    {
        const char *text = json_string_value(value);
        if (!text) return BAD("%s: __metadata__: '%s' is not a text", file->source, key);
        if (has_prefix(key, OWN))
            file->own = true;
        else
            file->meta[file->meta_count++] = (gd_safetensors_meta){key, text};
    }
    if (!file->own) return GD_OK;
    if (!sealed)
        return BAD("%s: the header is damaged: its checksum is not where gradus writes it", file->source);
    const char *version = json_string_value(json_object_get(metadata, OWN "format"));
    file->by_chunk = version && strcmp(version, FORMAT_VERSION) == 0;
    if (!file->by_chunk && (!version || strcmp(version, "1") != 0))
        return BAD("%s: format version '%s', this gradus reads 1 and " FORMAT_VERSION, file->source,
                   version ? version : "none");
    return read_notes(file, metadata);
}

/* ---- reading: the whole header ---- */

/* For qsort, which takes no context: the items contain their keys. */
typedef struct place {
    uint64_t offset, size;
    size_t index;
} place;

static int compare_places(const void *left, const void *right)
{
    const place *a = left, *b = right;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

/* Sorts by offset, then checks that each tensor begins where the one before ends. */
static gd_status check_cover(gd_safetensors *file, uint64_t data_size)
{
    size_t bytes = file->count * sizeof(place);
    place *places = gd__alloc(file->ctx, bytes);
    if (!places) return GD_NOMEM;
    for (size_t i = 0; i < file->count; i++)
        places[i] = (place){file->entry[i].offset, file->entry[i].size, i};
    qsort(places, file->count, sizeof *places, compare_places);
    gd_status status = GD_OK;
    uint64_t end = 0;
    for (size_t i = 0; i < file->count && !status; i++) {
        file->by_offset[i] = places[i].index;
        if (places[i].offset != end)
            status = BAD("%s: tensor '%s' begins at byte %" PRIu64
                         " of the data, the one before ends at %" PRIu64,
                         file->source, file->entry[places[i].index].name, places[i].offset, end);
        end = places[i].offset + places[i].size;
    }
    gd__free(file->ctx, places, bytes);
    if (!status && end > data_size)
        status = BAD("%s: cut off: %" PRIu64 " bytes of data, the tensors need %" PRIu64, file->source,
                     data_size, end);
    if (!status && end < data_size)
        status = BAD("%s: %" PRIu64 " bytes of data belong to no tensor", file->source, data_size - end);
    return status;
}

static gd_status read_entries(gd_safetensors *file)
{
    size_t capacity = json_object_size(file->root) - (json_object_get(file->root, "__metadata__") ? 1 : 0);
    file->entry = gd__alloc_array(file->ctx, capacity, sizeof *file->entry);
    if (!file->entry) return GD_NOMEM;
    memset(file->entry, 0, capacity * sizeof *file->entry);
    file->count = capacity; /* from here on gd__safetensors_free knows the size of both arrays */
    file->by_offset = gd__alloc_array(file->ctx, capacity, sizeof *file->by_offset);
    if (!file->by_offset) return GD_NOMEM;
    size_t i = 0;
    const char *name;
    json_t *value;
    json_object_foreach(file->root, name, value)
    {
        if (strcmp(name, "__metadata__") == 0) continue;
        file->entry[i].name = name;
        gd_status status = read_entry(file, &file->entry[i++], value);
        if (status) return status;
    }
    return GD_OK;
}

static gd_status read_header(gd_safetensors *file, const char *data, size_t length, uint64_t file_size)
{
    bool sealed = starts_as_own(data, 8 + length);
    gd_status status = sealed ? check_seal(file, data, 8 + length) : GD_OK;
    if (status) return status;
    if (length == 0 || data[8] != '{') return BAD("%s: the header does not begin with '{'", file->source);
    file->root = parse_json(file->ctx, file->source, "the header", data + 8, length);
    if (!file->root) return GD_FORMAT;
    status = read_entries(file);
    if (!status) status = check_cover(file, file_size - 8 - length);
    json_t *metadata = json_object_get(file->root, "__metadata__");
    if (!status && metadata) status = read_metadata(file, metadata, sealed);
    return status;
}

gd_status gd__safetensors_length(gd_ctx *ctx, const char *source, const void *first8, uint64_t file_size,
                                 size_t *length)
{
    uint64_t stated = load_word(first8), turned = __builtin_bswap64(stated);
    if (stated > GD_SAFETENSORS_MAX_HEADER && file_size >= 8 && turned <= file_size - 8)
        return gd_fail(ctx, GD_FORMAT, "%s: written big-endian: safetensors files are little-endian", source);
    if (stated > GD_SAFETENSORS_MAX_HEADER)
        return gd_fail(ctx, GD_FORMAT, "%s: a header of %" PRIu64 " bytes, at most %u are allowed", source,
                       stated, GD_SAFETENSORS_MAX_HEADER);
    if (file_size < 8 || stated > file_size - 8)
        return gd_fail(ctx, GD_FORMAT, "%s: cut off: a header of %" PRIu64 " bytes in a file of %" PRIu64,
                       source, stated, file_size);
    *length = (size_t)stated;
    return GD_OK;
}

gd_safetensors *gd__safetensors_header(gd_ctx *ctx, const char *source, const void *data, size_t length,
                                       uint64_t file_size)
{
    gd_safetensors *file = gd__calloc(ctx, sizeof *file);
    if (!file) return NULL;
    file->ctx = ctx;
    file->source = source;
    if (!read_header(file, data, length, file_size)) return file;
    gd__safetensors_free(file);
    return NULL;
}

gd_status gd__safetensors_check(const gd_safetensors *file, const gd_safetensors_entry *entry,
                                const void *elements)
{
    size_t size = (size_t)entry->size;
    if (!entry->sum) return GD_OK;
    return gd__safetensors_compare(file, entry,
                                   file->by_chunk ? gd__tensor_sum(elements, size, entry->item)
                                                  : gd__checksum(0, elements, size));
}

gd_status gd__safetensors_compare(const gd_safetensors *file, const gd_safetensors_entry *entry,
                                  uint64_t found)
{
    if (!entry->sum) return GD_OK;
    char sum[GD_SAFETENSORS_SUM_SIZE];
    gd__checksum_text(found, sum);
    if (strcmp(sum, entry->sum) == 0) return GD_OK;
    return BAD("%s: tensor '%s' is damaged: its checksum is %s, written was %s", file->source, entry->name,
               sum, entry->sum);
}

const char *gd__safetensors_axis(const gd_safetensors_entry *entry, int axis)
{
    json_t *axes = json_object_get(entry->note, "axes");
    return json_string_value(json_object_get(json_array_get(axes, (size_t)axis), "name"));
}

const char *gd__safetensors_label(const gd_safetensors_entry *entry, int axis, int64_t index)
{
    json_t *axes = json_object_get(entry->note, "axes");
    json_t *labels = json_object_get(json_array_get(axes, (size_t)axis), "labels");
    return json_string_value(json_array_get(labels, (size_t)index));
}

void gd__safetensors_free(gd_safetensors *file)
{
    if (!file) return;
    gd_ctx *ctx = file->ctx;
    for (size_t i = 0; i < file->count; i++) json_decref(file->entry[i].note);
    gd__free(ctx, file->entry, file->count * sizeof *file->entry);
    gd__free(ctx, file->by_offset, file->count * sizeof *file->by_offset);
    gd__free(ctx, file->meta, file->meta_capacity * sizeof *file->meta);
    json_decref(file->root);
    gd__free(ctx, file, sizeof *file);
}

/* ---- writing ---- */

static void print_pair(gd_text *text, const char *key, const char *value)
{
    gd__text_add(text, ",");
    gd__text_quote(text, key);
    gd__text_add(text, ":");
    gd__text_quote(text, value);
}

static const char *format_name(gd_dtype dtype)
{
    static const char *const names[] = {
#define FORMAT_NAME(NAME, name, bytes, kind, st, np) st,
        GD_DTYPE_LIST(FORMAT_NAME)
#undef FORMAT_NAME
    };
    return names[dtype];
}

size_t gd__safetensors_bytes(const gd_safetensors_item *item)
{
    size_t bytes = gd_dtype_size(item->dtype);
    for (int i = 0; i < item->ndim; i++) bytes *= (size_t)item->shape[i]; /* of a tensor: does not overflow */
    return bytes;
}

/* Numbers of the items, those with the largest dtype first, otherwise as they came. */
static void lay_out(const gd_safetensors_item *item, size_t count, size_t *order)
{
    size_t next = 0;
    for (size_t bytes = 8; bytes; bytes /= 2)
        for (size_t i = 0; i < count; i++)
            if (gd_dtype_size(item[i].dtype) == bytes) order[next++] = i;
}

/* Key and note of every tensor, then the user's texts. */
static void print_metadata(gd_text *text, const gd_safetensors_item *item, size_t count,
                           const gd_safetensors_meta *meta, size_t meta_count)
{
    gd__text_add(text, own_start);
    gd__text_add(text, "0000000000000000\",\"" OWN "format\":\"" FORMAT_VERSION "\"");
    gd_text key = {.ctx = text->ctx}, note = {.ctx = text->ctx};
    for (size_t i = 0; i < count; i++) {
        char sum[GD_SAFETENSORS_SUM_SIZE];
        gd__checksum_text(item[i].sum, sum);
        key.used = note.used = 0;
        gd__text_add(&key, OWN_TENSOR);
        gd__text_add(&key, item[i].name);
        gd__text_add(&note, "{\"sum\":\"");
        gd__text_add(&note, sum);
        gd__text_add(&note, item[i].axes ? "\",\"axes\":" : "\"");
        if (item[i].axes) gd__text_add(&note, item[i].axes);
        gd__text_add(&note, "}");
        text->failed |= key.failed || note.failed;
        if (text->failed) break;
        print_pair(text, key.data, note.data);
    }
    gd__text_free(&key);
    gd__text_free(&note);
    for (size_t i = 0; i < meta_count; i++) print_pair(text, meta[i].key, meta[i].value);
    gd__text_add(text, "}");
}

static void print_entry(gd_text *text, const gd_safetensors_item *item, size_t offset)
{
    gd__text_add(text, ",");
    gd__text_quote(text, item->name);
    gd__text_add(text, ":{\"dtype\":\"");
    gd__text_add(text, format_name(item->dtype));
    gd__text_add(text, "\",\"shape\":[");
    for (int i = 0; i < item->ndim; i++) {
        if (i) gd__text_add(text, ",");
        gd__text_number(text, (uint64_t)item->shape[i]);
    }
    gd__text_add(text, "],\"data_offsets\":[");
    gd__text_number(text, offset);
    gd__text_add(text, ",");
    gd__text_number(text, offset + gd__safetensors_bytes(item));
    gd__text_add(text, "]}");
}

/* Offsets follow the order of the data, the text that of the items. */
static void print_entries(gd_text *text, const gd_safetensors_item *item, size_t count, const size_t *order)
{
    size_t *offset = gd__alloc_array(text->ctx, count, sizeof *offset), end = 0;
    if (!offset) {
        text->failed = true;
        return;
    }
    for (size_t i = 0; i < count; i++) {
        offset[order[i]] = end;
        end += gd__safetensors_bytes(&item[order[i]]);
    }
    for (size_t i = 0; i < count; i++) print_entry(text, &item[i], offset[i]);
    gd__free(text->ctx, offset, count * sizeof *offset);
}

bool gd__safetensors_seal(void *data, size_t size)
{
    char *header = data;
    if (!starts_as_own(header, size)) return false;
    char sum[GD_SAFETENSORS_SUM_SIZE];
    header_sum(header, size, sum);
    memcpy(header + SUM_AT, sum, SUM_DIGITS);
    return true;
}

/* Length, JSON, spaces up to a multiple of 8, checksum. */
gd_status gd__safetensors_write(gd_ctx *ctx, const gd_safetensors_item *item, size_t count,
                                const gd_safetensors_meta *meta, size_t meta_count, size_t *order,
                                char **header, size_t *size)
{
    gd_text text = {.ctx = ctx};
    lay_out(item, count, order);
    gd__text_add(&text, "LENGTH  ");
    print_metadata(&text, item, count, meta, meta_count);
    print_entries(&text, item, count, order);
    gd__text_add(&text, "}");
    while (!text.failed && text.used % 8) gd__text_add(&text, " ");
    gd_status status = text.failed ? GD_NOMEM : GD_OK;
    if (!status && text.used - 8 > GD_SAFETENSORS_MAX_HEADER)
        status = gd_fail(ctx, GD_VALUE,
                         "save: names, labels and metadata need %zu bytes, at most %u are allowed",
                         text.used - 8, GD_SAFETENSORS_MAX_HEADER);
    if (!status) {
        uint64_t length = text.used - 8;
        memcpy(text.data, &length, 8);
        (void)gd__safetensors_seal(text.data, text.used);
        *header = gd__alloc(ctx, text.used);
        *size = text.used;
        if (*header)
            memcpy(*header, text.data, text.used);
        else
            status = GD_NOMEM;
    }
    gd__text_free(&text);
    return status;
}
