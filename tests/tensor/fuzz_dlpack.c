/* libFuzzer target: any bytes as the shape, strides and numbers of a DLPack capsule over one small block.
 *
 *   cmake --preset fuzz && cmake --build --preset fuzz
 *   build/fuzz/fuzz/fuzz_dlpack -max_len=256 NEW_FOLDER */
#include "gradus/dlpack.h"
#include "tensor/dlpack_support.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Do all elements lie in the block? */
static bool inside(const gd_tensor *t, const char *block, size_t bytes)
{
    int64_t shape[GD_MAX_DIMS], low = 0, high = 0;
    if (!gd_numel(t)) return false;
    for (int i = 0; i < gd_ndim(t); i++) {
        shape[i] = gd_size(t, i);
        __int128 reach = (__int128)(shape[i] - 1) * gd_strides(t)[i];
        if (reach > (int64_t)bytes || reach < -(int64_t)bytes) return false;
        *(reach < 0 ? &low : &high) += (int64_t)reach;
    }
    int64_t item = (int64_t)gd_dtype_size(gd_tensor_dtype(t)), at = (const char *)gd_data(t) - block;
    return at + low * item >= 0 && at + (high + 1) * item <= (int64_t)bytes && gd_numel(t) <= 4096;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static gd_ctx *ctx;
    static _Alignas(64) char block[512];
    if (!ctx) ctx = gd_ctx_new(NULL);
    int64_t numbers[24] = {0};
    uint8_t head[16] = {0};
    memcpy(head, data, size < sizeof head ? size : sizeof head);
    if (size > sizeof head)
        memcpy(numbers, data + sizeof head,
               size - sizeof head < sizeof numbers ? size - sizeof head : sizeof numbers);
    int deleted = 0;
    dl_versioned c = {.major = head[0] & 3,
                      .deleter = count_deleted,
                      .manager = &deleted,
                      .flags = head[1],
                      .tensor = {block + 256, head[2] & 3, head[3], (int8_t)head[4], head[5] & 7, head[6],
                                 head[7], head[8] & 1 ? NULL : numbers, head[8] & 2 ? NULL : numbers + 12,
                                 head[9]}};
    gd_tensor *t = gd_from_dlpack(ctx, (struct DLManagedTensorVersioned *)&c);
    if (!t != (gd_error(ctx) != GD_OK)) abort();
    gd_clear_error(ctx);
    if (t && inside(t, block, sizeof block)) {
        gd_tensor *copy = gd_copy(t);
        if (!copy || gd_numel(copy) != gd_numel(t)) abort();
        gd_release(copy);
    }
    gd_release(t);
    if (deleted != (t ? 1 : 0) || gd_error(ctx)) abort();
    return 0;
}
