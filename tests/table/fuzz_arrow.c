/* libFuzzer target: any bytes as an Arrow stream of record batches. */
#include "table/arrow_random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    random_stream(ctx, data, size);
    if (gd_ctx_live(ctx)) abort();
    return 0;
}
