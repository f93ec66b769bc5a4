/* Small blocks of a context, inline, for objects made and freed many times per step.  As gd__alloc and gd__free. */
#ifndef GD_BASE_POOL_H
#define GD_BASE_POOL_H

#include "base/ctx.h"

/* Pool class of a size: blocks of 64 << class bytes; -1 if too large. */
static inline int gd__pool_class(size_t size)
{
    if (size > ((size_t)64 << (GD_POOL_CLASSES - 1))) return -1;
    return size <= 64 ? 0 : 64 - __builtin_clzll((size - 1) >> 6);
}

static inline void *gd__pool_take(gd_ctx *ctx, size_t size)
{
    int class = gd__pool_class(size);
    gd_pool_block *block = class >= 0 && ctx->pool_on ? ctx->pool[class] : NULL;
    if (!block) return gd__alloc(ctx, size);
    ctx->pool[class] = block->next;
    return block;
}

/* block: not NULL. */
static inline void gd__pool_give(gd_ctx *ctx, void *block, size_t size)
{
    int class = gd__pool_class(size);
    if (class < 0 || !ctx->pool_on) {
        gd__free_block(ctx, block, size);
        return;
    }
    gd_pool_block *head = block;
    head->next = ctx->pool[class];
    ctx->pool[class] = head;
}

#endif
