/* libFuzzer target: any bytes as an npy file in memory.
 *
 *   cmake --preset fuzz && cmake --build --preset fuzz
 *   build/fuzz/fuzz/fuzz_npy -max_len=512 NEW_FOLDER tests/file/corpus/npy */
#include "file/from_memory.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    gd_npy npy;
    gd_status status = parse_npy(ctx, data, size, &npy);
    if ((status == GD_OK) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    if (status) return 0;
    /* the elements are all of the rest, so this is at most four times the input */
    if (npy.data_at > size || npy.data_size != size - npy.data_at) abort();
    size_t bytes = (size_t)npy.count * gd_dtype_size(npy.dtype);
    void *out = malloc(bytes + 1); /* + 1: not an empty block, whose address means nothing */
    gd__npy_unpack(&npy, data + npy.data_at, out);
    free(out);
    return 0;
}
