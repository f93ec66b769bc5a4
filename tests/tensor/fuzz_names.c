/* libFuzzer target: any bytes as the words that the Python package hands on: axes, labels, specifications of einsum, dtypes and
 * devices.  The first byte chooses what they are.
 *
 *   ./dev fuzz names 60 */
#include "gradus/gradus.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static gd_tensor *matrix(gd_ctx *ctx, const char *names)
{
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 3}, (double[]){1, 2, 3, 4, 5, 6});
    return names ? gd_rename(t, names) : t;
}

static gd_tensor *apply(gd_ctx *ctx, int which, const char *text, gd_tensor *a, gd_tensor *b)
{
    static const char *const labels[] = {"u", "v", NULL};
    gd_tensor *const both[] = {a, b};
    switch (which) {
    case 0: return gd_sum(a, text, false);
    case 1: return gd_mean(b, text, true);
    case 2: return gd_softmax(a, text);
    case 3: return gd_squeeze(a, text);
    case 4: return gd_index(b, text, 1);
    case 5: return gd_slice(a, text, 0, 2, 1);
    case 6: return gd_flip(a, text);
    case 7: return gd_rename(a, text);
    case 8: return gd_rename_axis(b, "1", text);
    case 9: return gd_with_labels(a, text, labels);
    case 10: return gd_index_label(gd_with_labels(a, "0", labels), "0", text);
    case 11: return gd_contract(a, b, text);
    case 12: return gd_einsum(text, both, 2);
    case 13: return gd_einsum(text, both, 1);
    case 14: return gd_unsqueeze(a, 0, text);
    default: return gd_zeros(ctx, gd_dtype_from_name(text), 1, (int64_t[]){2});
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    if (!ctx) {
        gd_options options = gd_options_default();
        options.threads = 1;
        ctx = gd_ctx_new(&options);
    }
    if (!size || size > 512) return 0;
    char *text = malloc(size);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    gd_scope_begin(ctx);
    gd_tensor *t;
    if (data[0] % 17 == 16)
        (void)gd_device_get(ctx, text);
    else if ((t = apply(ctx, data[0] % 17, text, matrix(ctx, "i,j"), matrix(ctx, NULL))) != NULL)
        (void)gd_contiguous(t);
    bool none = gd_error(ctx) == GD_OK;
    if (!none && strlen(gd_error_text(ctx)) < 8) abort();
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    if (gd_ctx_live(ctx) != 0) abort();
    free(text);
    return 0;
}
