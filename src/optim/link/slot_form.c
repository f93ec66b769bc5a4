/* Conversion of existing state to a different form: from codes of eight bits to numbers and back.
 *
 * Programs read and write state as it lies.  This happens on the host, between two steps at most. */
#include "base/narrow.h"
#include "gradus/autograd.h"
#include "optim/link/owner.h"

/* A tensor on the CPU whose memory is in order; borrowed, or new in the innermost scope. */
static gd_tensor *on_host(gd_tensor *t)
{
    return t ? gd_contiguous(gd_to_device(t, gd__cpu(t->head.ctx))) : NULL;
}

static float value_of(const uint8_t *code, int64_t i, bool positive)
{
    const float *scale = (const float *)(const void *)code - 1;
    float value = positive ? gd__value_positive(code[i]) : gd__value_signed(code[i]);
    return scale[-(i / GD_CODED_BLOCK)] * value;
}

static gd_tensor *decoded(gd_tensor *t, const gd_tensor *param, bool positive)
{
    gd_tensor *codes = on_host(t), *out = gd_zeros(t->head.ctx, GD_F32, param->ndim, param->size);
    if (!codes || !out) return NULL;
    const uint8_t *code = (const uint8_t *)codes->data + gd__coded_before(param->numel);
    const uint8_t *rest = gd__is_fed_back(t, param) ? code + gd__rest_begins(param->numel) : NULL;
    float *to = (float *)(void *)out->data;
    for (int64_t i = 0; i < param->numel; i++) {
        float value = value_of(code, i, positive), sum = rest ? value + value_of(rest, i, false) : value;
        float least = GD_LEAST_OF_POSITIVE * value;
        to[i] = positive && sum < least ? least : sum;
    }
    return out;
}

static void code_block(const float *x, int n, bool positive, float *scale, uint8_t *code)
{
    if (positive)
        gd__code_block_positive(x, n, scale, code);
    else
        gd__code_block_signed(x, n, scale, code);
}

static gd_tensor *coded(gd_tensor *t, bool positive, bool feedback)
{
    gd_tensor *numbers = on_host(gd_cast(t, GD_F32));
    int64_t bytes = feedback ? gd__fed_back_bytes(t->numel) : gd__coded_bytes(t->numel);
    gd_tensor *out = gd_zeros(t->head.ctx, GD_U8, 1, &bytes);
    if (!numbers || !out) return NULL;
    uint8_t *code = (uint8_t *)out->data + gd__coded_before(t->numel);
    const float *from = (const float *)(const void *)numbers->data;
    for (int64_t b = 0; b < t->numel; b += GD_CODED_BLOCK) {
        int n = (int)(t->numel - b < GD_CODED_BLOCK ? t->numel - b : GD_CODED_BLOCK);
        float rest[GD_CODED_BLOCK], *scale = (float *)(void *)code - 1 - b / GD_CODED_BLOCK;
        code_block(from + b, n, positive, scale, code + b);
        if (!feedback) continue;
        for (int i = 0; i < n; i++) rest[i] = from[b + i] - value_of(code, b + i, positive);
        uint8_t *there = code + gd__rest_begins(t->numel);
        code_block(rest, n, false, (float *)(void *)there - 1 - b / GD_CODED_BLOCK, there + b);
    }
    return out;
}

gd_tensor *gd__slot_in(gd_link *link, int slot, gd_tensor *t, const gd_tensor *param, gd_dtype dtype,
                       bool feedback)
{
    gd_ctx *ctx = link->head.ctx;
    bool positive = link->cls->slots[slot].flags & (GD_SLOT_SQUARE | GD_SLOT_POSITIVE);
    gd_no_grad_begin(ctx);
    gd_scope_begin(ctx);
    if (gd__is_coded_for(t, param)) t = decoded(t, param, positive);
    t = t && dtype == GD_U8 ? coded(t, positive, feedback) : gd_cast(t, dtype);
    t = gd_copy(gd_to_device(t, param->storage->device));
    if (t) gd__own(t);
    gd_scope_end(ctx);
    gd_no_grad_end(ctx);
    return t;
}

gd_tensor *gd__slot_numbers(gd_link *link, gd_tensor *key, const char *name, const gd_tensor *param)
{
    gd_tensor *t = gd_link_state(link, key, name);
    if (!t || !gd__is_coded_for(t, param)) return t;
    int slot = gd__slot_index(link->cls, name);
    gd_tensor *numbers = gd__slot_in(link, slot, t, param, GD_F32, false);
    if (numbers) gd__entry_put(link, gd__entry_find(link, key), slot, numbers, false);
    return numbers;
}
