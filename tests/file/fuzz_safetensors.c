/* libFuzzer target: any bytes as a safetensors file in memory.
 *
 *   cmake --preset fuzz && cmake --build --preset fuzz
 *   build/fuzz/fuzz/fuzz_safetensors -max_len=1024 NEW_FOLDER tests/file/corpus/safetensors */
#include "in_memory.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink; /* keeps reads that nothing else uses */

static void require(bool holds)
{
    if (!holds) abort();
}

/* By its chunks the checksum is the same. */
static void check_parts(const gd_safetensors *file, const gd_safetensors_entry *entry, gd_status whole)
{
    size_t step = entry->item * GD_CHECKSUM_CHUNK, count = ((size_t)entry->size + step - 1) / step;
    uint64_t *sum = malloc((count + 1) * sizeof *sum);
    gd__chunk_sums(entry->data, (size_t)entry->size, entry->item, sum);
    gd_status parts = gd__safetensors_compare(file, entry, gd__sum_of_sums(sum, count));
    require(!file->by_chunk || parts == whole);
    free(sum);
}

static void look_at(const gd_safetensors *file, const gd_safetensors_entry *entry, const uint8_t *data,
                    size_t size)
{
    const uint8_t *first = entry->data;
    require(first >= data && entry->size <= size && (size_t)(first - data) <= size - entry->size);
    require(entry->ndim >= 0 && entry->ndim <= GD_MAX_DIMS && (entry->sum != NULL) == file->own);
    sink += strlen(entry->name) + gd__checksum(0, first, (size_t)entry->size);
    check_parts(file, entry, gd__safetensors_check(file, entry, first));
    for (int axis = 0; axis < entry->ndim; axis++) {
        const char *name = gd__safetensors_axis(entry, axis), *label = gd__safetensors_label(entry, axis, 0);
        require(entry->shape[axis] >= 0 && (file->own || (!name && !label)));
        sink += name ? strlen(name) : 0;
        for (int64_t i = 0; label && i < entry->shape[axis]; i++)
            sink += strlen(gd__safetensors_label(entry, axis, i));
    }
}

static void parse(gd_ctx *ctx, const uint8_t *data, size_t size)
{
    gd_safetensors *file = parse_in_memory(ctx, data, size);
    require((file == NULL) == (gd_error(ctx) != GD_OK));
    for (size_t i = 0; file && i < file->count; i++)
        look_at(file, &file->entry[file->by_offset[i]], data, size);
    for (size_t i = 0; file && i < file->meta_count; i++)
        sink += strlen(file->meta[i].key) + strlen(file->meta[i].value);
    gd__safetensors_free(file);
    gd_clear_error(ctx);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    parse(ctx, data, size);
    /* a checksum cannot be guessed: set the right one, so that what lies behind it is reached */
    uint64_t length;
    if (size < 8 || (memcpy(&length, data, 8), length > size - 8)) return 0;
    uint8_t *copy = malloc(size);
    memcpy(copy, data, size);
    if (gd__safetensors_seal(copy, (size_t)length + 8)) parse(ctx, copy, size);
    free(copy);
    return 0;
}
