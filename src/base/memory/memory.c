/* Memory of a context: the allocator, a pool of small blocks, string copies, interned names. */
#include "base/memory/pool.h"

#include <stdlib.h>
#include <string.h>
#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#endif

#define ALIGNMENT 64
#define HUGE_PAGE ((size_t)1 << 21)

/* Large blocks lie on huge pages where the system has them: loops over many of them run out of small ones' addresses long
 * before they run out of bandwidth. */
static void *new_block(size_t size)
{
    void *block = NULL;
    bool large = size >= 2 * HUGE_PAGE;
    if (posix_memalign(&block, large ? HUGE_PAGE : ALIGNMENT, size)) return NULL;
#ifdef MADV_HUGEPAGE
    if (large) (void)madvise(block, size & ~(HUGE_PAGE - 1), MADV_HUGEPAGE); /* a wish */
#endif
    return block;
}

void *gd__system_alloc(void *user, void *old, size_t old_size, size_t new_size)
{
    (void)user;
    if (new_size == 0) {
        free(old);
        return NULL;
    }
    void *block = new_block(new_size); /* there is no aligned realloc, so copy */
    if (block && old) {
        memcpy(block, old, old_size < new_size ? old_size : new_size);
        free(old);
    }
    return block;
}

/* ---- large blocks ---- */

#define LARGE_BYTES  ((size_t)1 << 13)  /* from this size on: larger than the pool of small blocks */
#define LARGE_KEPT   ((size_t)1 << 29)  /* limit of all together */
#define LARGE_ALWAYS ((size_t)24 << 20) /* whatever is in use */
#define LARGE_ROOM   ((size_t)16 << 20) /* blocks that are a share of the peak */

/* Rounded up to one of eight steps between powers of two, so that nearly equal sizes use the same blocks; from 16 MiB on to one of
 * 64, where an eighth is a lot of memory. */
static size_t large_class(size_t size)
{
    int fine = size >= (size_t)1 << 24 ? 3 : 0;
    size_t step = (size_t)1 << (60 - fine - __builtin_clzll(size));
    return (size + step - 1) & ~(step - 1);
}

static void *take_large(gd_ctx *ctx, size_t size)
{
    for (int i = ctx->large.count; i-- > 0;) {
        if (ctx->large.item[i].size != size) continue;
        void *block = ctx->large.item[i].block;
        ctx->large.bytes -= size;
        ctx->large.count--;
        memmove(&ctx->large.item[i], &ctx->large.item[i + 1],
                (size_t)(ctx->large.count - i) * sizeof ctx->large.item[0]);
        return block;
    }
    return NULL;
}

static void drop_oldest_large(gd_ctx *ctx)
{
    gd_large_block oldest = ctx->large.item[0];
    ctx->large.bytes -= oldest.size;
    ctx->large.count--;
    memmove(&ctx->large.item[0], &ctx->large.item[1], (size_t)ctx->large.count * sizeof ctx->large.item[0]);
    ctx->allocator.fn(ctx->allocator.user, oldest.block, oldest.size, 0);
}

/* How much to keep: enough for the next pass over the same data, less after the data was freed. */
static size_t large_limit(const gd_ctx *ctx)
{
    size_t limit = LARGE_ALWAYS, share = ctx->large.most / 16;
    limit = share > limit ? share : limit;
    limit = ctx->large.used > limit ? ctx->large.used : limit;
    return limit < LARGE_KEPT ? limit : LARGE_KEPT;
}

/* What is kept does not raise the peak: blocks of other sizes go before there is more memory than was ever in use. */
static void stay_below_peak(gd_ctx *ctx, size_t size)
{
    while (ctx->large.count && ctx->large.used + ctx->large.bytes + size > ctx->large.most)
        drop_oldest_large(ctx);
}

static void keep_large(gd_ctx *ctx, void *block, size_t size)
{
    size_t limit = large_limit(ctx);
    while (ctx->large.count && (ctx->large.count == GD_LARGE_BLOCKS || ctx->large.bytes + size > limit))
        drop_oldest_large(ctx);
    if (size > limit) {
        ctx->allocator.fn(ctx->allocator.user, block, size, 0);
        return;
    }
    ctx->large.item[ctx->large.count++] = (gd_large_block){block, size};
    ctx->large.bytes += size;
}

/* ---- all blocks ---- */

/* From the allocator; blocks kept for reuse are returned before reporting "no memory". */
static void *fresh(gd_ctx *ctx, size_t size)
{
    void *block = ctx->allocator.fn(ctx->allocator.user, NULL, 0, size);
    if (!block && ctx->large.count) {
        while (ctx->large.count) drop_oldest_large(ctx);
        block = ctx->allocator.fn(ctx->allocator.user, NULL, 0, size);
    }
    if (!block) (void)gd_fail(ctx, GD_NOMEM, "out of memory: %zu bytes", size);
    return block;
}

void *gd__alloc(gd_ctx *ctx, size_t size)
{
    if (size == 0) size = 1;
    if (!ctx->pool_on || size > PTRDIFF_MAX) return fresh(ctx, size);
    int class = gd__pool_class(size);
    if (class >= 0) {
        gd_pool_block *block = ctx->pool[class];
        if (!block) return fresh(ctx, (size_t)64 << class);
        ctx->pool[class] = block->next;
        return block;
    }
    if (size < LARGE_BYTES) return fresh(ctx, size);
    size = large_class(size);
    void *block = take_large(ctx, size);
    if (!block) {
        if (size >= LARGE_ROOM) stay_below_peak(ctx, size);
        if (!(block = fresh(ctx, size))) return NULL;
    }
    ctx->large.used += size;
    if (ctx->large.used > ctx->large.most) ctx->large.most = ctx->large.used;
    return block;
}

void gd__free_block(gd_ctx *ctx, void *block, size_t size)
{
    if (size == 0) size = 1;
    int class = ctx->pool_on ? gd__pool_class(size) : -1;
    if (class >= 0) {
        gd_pool_block *head = block;
        head->next = ctx->pool[class];
        ctx->pool[class] = head;
    } else if (ctx->pool_on && size >= LARGE_BYTES) {
        ctx->large.used -= large_class(size);
        keep_large(ctx, block, large_class(size));
    } else
        ctx->allocator.fn(ctx->allocator.user, block, size, 0);
}

void *gd__calloc(gd_ctx *ctx, size_t size)
{
    void *block = gd__alloc(ctx, size);
    if (block) memset(block, 0, size);
    return block;
}

void *gd__realloc(gd_ctx *ctx, void *old, size_t old_size, size_t new_size)
{
    void *block = gd__alloc(ctx, new_size);
    if (!block) return NULL;
    if (old) {
        memcpy(block, old, old_size < new_size ? old_size : new_size);
        gd__free(ctx, old, old_size);
    }
    return block;
}

bool gd__grow(gd_ctx *ctx, void *array, size_t *bytes, size_t need)
{
    if (need <= *bytes) return true;
    void *block;
    memcpy(&block, array, sizeof block); /* a pointer of any type */
    size_t grown = *bytes * 2 > need ? *bytes * 2 : need < 256 ? 256 : need;
    if (!(block = gd__realloc(ctx, block, *bytes, grown))) return false;
    memcpy(array, &block, sizeof block);
    *bytes = grown;
    return true;
}

bool gd__reserve(gd_ctx *ctx, void *array, int count, int *capacity, size_t item)
{
    if (count < *capacity) return true;
    int wanted = *capacity ? *capacity * 2 : 4;
    void *block;
    memcpy(&block, array, sizeof block);
    if (!(block = gd__realloc(ctx, block, (size_t)*capacity * item, (size_t)wanted * item))) return false;
    memcpy(array, &block, sizeof block);
    *capacity = wanted;
    return true;
}

void *gd__alloc_array(gd_ctx *ctx, size_t count, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes))
        return gd__refuse(ctx, GD_OVERFLOW, "%zu items of %zu bytes do not fit in memory", count, size);
    return gd__alloc(ctx, bytes);
}

char *gd__strdup(gd_ctx *ctx, const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = gd__alloc(ctx, size);
    return copy ? memcpy(copy, text, size) : NULL;
}

void gd__strfree(gd_ctx *ctx, char *text)
{
    if (text) gd__free(ctx, text, strlen(text) + 1);
}

/* ---- interned names: a chained hash table that only grows ---- */

typedef struct name {
    struct name *next;
    uint64_t hash;
    char text[];
} name;

struct gd_intern {
    size_t count, buckets;
    name **bucket;
};

static uint64_t hash_bytes(const char *text, size_t length)
{
    uint64_t hash = 14695981039346656037u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
    return hash;
}

static bool intern_grow(gd_ctx *ctx, gd_intern *table)
{
    size_t buckets = table->buckets ? table->buckets * 2 : 32;
    name **bucket = gd__calloc(ctx, buckets * sizeof *bucket);
    if (!bucket) return false;
    for (size_t i = 0; i < table->buckets; i++) {
        for (name *n = table->bucket[i], *next; n; n = next) {
            next = n->next;
            n->next = bucket[n->hash & (buckets - 1)];
            bucket[n->hash & (buckets - 1)] = n;
        }
    }
    gd__free(ctx, table->bucket, table->buckets * sizeof *bucket);
    table->bucket = bucket;
    table->buckets = buckets;
    return true;
}

const char *gd__intern(gd_ctx *ctx, const char *text, size_t length)
{
    if (!ctx->names && !(ctx->names = gd__calloc(ctx, sizeof *ctx->names))) return NULL;
    gd_intern *table = ctx->names;
    uint64_t hash = hash_bytes(text, length);
    if (table->buckets) {
        for (name *n = table->bucket[hash & (table->buckets - 1)]; n; n = n->next)
            if (n->hash == hash && strncmp(n->text, text, length) == 0 && n->text[length] == 0)
                return n->text;
    }
    if (table->count >= table->buckets && !intern_grow(ctx, table)) return NULL;
    name *n = gd__alloc(ctx, sizeof *n + length + 1);
    if (!n) return NULL;
    n->hash = hash;
    memcpy(n->text, text, length);
    n->text[length] = 0;
    n->next = table->bucket[hash & (table->buckets - 1)];
    table->bucket[hash & (table->buckets - 1)] = n;
    table->count++;
    return n->text;
}

void gd__intern_free(gd_ctx *ctx)
{
    gd_intern *table = ctx->names;
    if (!table) return;
    for (size_t i = 0; i < table->buckets; i++) {
        for (name *n = table->bucket[i], *next; n; n = next) {
            next = n->next;
            gd__free(ctx, n, sizeof *n + strlen(n->text) + 1);
        }
    }
    gd__free(ctx, table->bucket, table->buckets * sizeof *table->bucket);
    gd__free(ctx, table, sizeof *table);
    ctx->names = NULL;
}

void gd__pool_free(gd_ctx *ctx)
{
    while (ctx->large.count) drop_oldest_large(ctx);
    for (int class = 0; class < GD_POOL_CLASSES; class ++) {
        for (gd_pool_block *block = ctx->pool[class], *next; block; block = next) {
            next = block->next;
            ctx->allocator.fn(ctx->allocator.user, block, (size_t)64 << class, 0);
        }
        ctx->pool[class] = NULL;
    }
}

void gd_ctx_trim(gd_ctx *ctx)
{
    if (!ctx) return;
    gd__pool_free(ctx);
    ctx->large.most = ctx->large.used;
}
