/* libFuzzer target: any bytes as an IDX file, plain or gzip. */
#include "file/idx.h"

#include <stdlib.h>

#define LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    gd_tensor *t = gd__idx_tensor(ctx, "file.idx", data, size, LIMIT);
    if ((t != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    /* i8 becomes i32: at most four times the bytes */
    if (t && (size_t)gd_numel(t) > (size < LIMIT ? LIMIT : size)) abort();
    gd_release(t);
    return 0;
}
