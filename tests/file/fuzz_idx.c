/* libFuzzer target: any bytes as an IDX file, plain or gzip. */
#include "base/ctx.h"
#include "file/idx.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LIMIT ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    char path[] = "/tmp/gradus_fuzz_idx_XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || write(file, data, size) != (ssize_t)size || close(file)) abort();
    if (!ctx) ctx = gd_ctx_new(NULL);
    ctx->input_limit = LIMIT;
    gd_tensor *t = gd__idx_load(ctx, path, NULL);
    unlink(path);
    if ((t != NULL) != (gd_error(ctx) == GD_OK)) abort();
    gd_clear_error(ctx);
    /* i8 becomes i32: at most four times the bytes */
    if (t && (size_t)gd_numel(t) > (size < LIMIT ? LIMIT : size)) abort();
    gd_release(t);
    return 0;
}
