/* libFuzzer target: any bytes as the text of a model.
 *
 *   cmake --preset fuzz && cmake --build --preset fuzz --target fuzz_model
 *   build/fuzz/fuzz/fuzz_model -max_len=128 NEW_FOLDER tests/train/corpus/model */
#include "model_property.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) ctx = gd_ctx_new(NULL);
    char *text = malloc(size + 1);
    if (size) memcpy(text, data, size);
    text[size] = 0;
    if (model_fault(ctx, text)) abort();
    free(text);
    return 0;
}
