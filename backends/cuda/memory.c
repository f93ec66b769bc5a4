/* The pool: freed blocks wait in bins by size and are given out again without a word to the driver.  All work of a device
 * goes to one stream, so a block may be used again as soon as it was freed: what was queued before reads it before. */
#include "plugin.h"

#include <string.h>

/* Sizes are rounded up to an eighth of their power of two, small ones to 512 bytes. */
static size_t rounded(size_t bytes, int *bin)
{
    size_t least = 512;
    if (bytes <= least) {
        *bin = 0;
        return least;
    }
    int power = 63 - __builtin_clzll((unsigned long long)bytes - 1); /* 2^power < bytes <= 2^(power + 1) */
    size_t step = (size_t)1 << power >> 3, steps = (bytes - ((size_t)1 << power) + step - 1) / step;
    *bin = (power - 9) * 8 + (int)steps;
    return ((size_t)1 << power) + steps * step;
}

static CUresult take_new(cuda_state *s, size_t bytes, CUdeviceptr *data)
{
    return s->api.cuMemAllocAsync(data, bytes, s->stream);
}

void cuda_pool_empty(gd_device *device)
{
    cuda_state *s = cuda_of(device);
    for (int i = 0; i < CUDA_BINS; i++) {
        cuda_bin *bin = &s->bin[i];
        for (int k = 0; k < bin->count; k++) (void)s->api.cuMemFreeAsync(bin->block[k], s->stream);
        device->host->free(device->ctx, bin->block, (size_t)bin->room * sizeof *bin->block);
        *bin = (cuda_bin){.block = NULL};
    }
}

static bool pool_holds(const cuda_state *s)
{
    for (int i = 0; i < CUDA_BINS; i++)
        if (s->bin[i].count) return true;
    return false;
}

static void report_full(gd_device *device, size_t bytes)
{
    cuda_state *s = cuda_of(device);
    size_t left = 0, total = 0;
    if (s->api.cuMemGetInfo_v2(&left, &total) != CUDA_SUCCESS) left = total = 0;
    (void)device->host->fail(device->ctx, GD_NOMEM, "%s: no memory for %zu bytes; %zu of %zu MiB are free",
                             device->name, bytes, left >> 20, total >> 20);
}

void *cuda_pool_take(gd_device *device, size_t bytes)
{
    int number = CUDA_BINS;
    if (device->ctx->pool_on) (void)rounded(bytes, &number);
    cuda_bin *bin = number < CUDA_BINS ? &cuda_of(device)->bin[number] : NULL;
    return bin && bin->count ? (void *)(uintptr_t)bin->block[--bin->count] : NULL;
}

void *cuda_alloc(gd_device *device, size_t bytes)
{
    cuda_state *s = cuda_of(device);
    CUdeviceptr data = 0;
    int number;
    if (cuda_enter(device)) return NULL;
    if (s->capturing) return cuda_graph_take(device, bytes);
    void *waiting = cuda_pool_take(device, bytes);
    if (waiting) return waiting;
    size_t size = device->ctx->pool_on ? rounded(bytes, &number) : bytes;
    CUresult result = take_new(s, size, &data);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && pool_holds(s)) {
        cuda_pool_empty(device);
        result = take_new(s, size, &data);
    }
    if (result == CUDA_SUCCESS) return (void *)(uintptr_t)data;
    if (result == CUDA_ERROR_OUT_OF_MEMORY)
        report_full(device, bytes);
    else
        (void)cuda_fail(device, "cuMemAllocAsync", result);
    return NULL;
}

/* Room for one more block in a bin, without an error where there is none. */
static bool bin_grows(gd_device *device, cuda_bin *bin)
{
    if (bin->count < bin->room) return true;
    if (device->ctx->status) return false;
    int room = bin->room ? 2 * bin->room : 16;
    CUdeviceptr *more = device->host->alloc(device->ctx, (size_t)room * sizeof *more);
    if (!more) {
        device->ctx->status = GD_OK; /* the block goes to the driver instead: nothing failed */
        return false;
    }
    if (bin->count) memcpy(more, bin->block, (size_t)bin->count * sizeof *more);
    device->host->free(device->ctx, bin->block, (size_t)bin->room * sizeof *more);
    bin->block = more;
    bin->room = room;
    return true;
}

void cuda_free(gd_device *device, void *data, size_t bytes)
{
    cuda_state *s = cuda_of(device);
    int number = CUDA_BINS;
    if (s->capturing && cuda_graph_give(device, data, bytes)) return;
    if (device->ctx->pool_on) (void)rounded(bytes, &number);
    cuda_bin *bin = number < CUDA_BINS ? &s->bin[number] : NULL;
    if (bin && bin_grows(device, bin)) {
        bin->block[bin->count++] = (CUdeviceptr)(uintptr_t)data;
        return;
    }
    (void)s->api.cuCtxSetCurrent(s->context);
    (void)s->api.cuMemFreeAsync((CUdeviceptr)(uintptr_t)data, s->stream);
}
