/* Suites whose cases run in every rank of a world of threads. */
#ifndef GD_TEST_RANKS_H
#define GD_TEST_RANKS_H

#include "support/support.h"

#include <stdatomic.h>

#include <gradus/gradus.h>

/* ---- memory ---- */

/* Bytes alive, and the most at a time, of this thread: a rank whose context computes with one thread has all of its memory there;
 * and of all. */
static _Thread_local int64_t live, peak;
static _Atomic int64_t live_of_all, peak_of_all;

static inline void most_of(_Atomic int64_t *most, int64_t bytes)
{
    int64_t before = *most;
    while (before < bytes && !atomic_compare_exchange_weak(most, &before, bytes)) {}
}

/* A gd_allocator's function that counts them. */
static inline void *counted(void *user, void *old, size_t old_size, size_t size)
{
    (void)user;
    void *block = size ? aligned_alloc(64, (size + 63) & ~(size_t)63) : NULL;
    if (size && !block) return NULL;
    if (size && old) memcpy(block, old, old_size < size ? old_size : size);
    free(old);
    int64_t more = (int64_t)size - (old ? (int64_t)old_size : 0);
    live += more;
    if (live > peak) peak = live;
    most_of(&peak_of_all, live_of_all += more);
    return block;
}

/* ---- ranks ---- */

static inline void run_in(gd_ctx *ctx, int n, gd_world_fn fn, void *user)
{
    char name[16];
    (void)snprintf(name, sizeof name, "threads:%d", n);
    gd_status status = gd_world_run(ctx, name, NULL, fn, user);
    if (status) fail_msg("%d ranks: %s", n, gd_error_text(ctx));
}

#define TRY(call)                    \
    do {                             \
        gd_status status_ = (call);  \
        if (status_) return status_; \
    } while (0)
/* In a rank's thread cmocka cannot leave the test. */
#define EXPECT(ctx, condition) \
    TRY((condition) ? GD_OK : gd_fail(ctx, GD_INTERNAL, "line %d: %s", __LINE__, #condition))

/* Sums of it depend on their order. */
static inline double value_of(int64_t seed, int64_t i)
{
    uint64_t h = (uint64_t)(seed * 7919 + i * 104729 + 1) * 0x9E3779B97F4A7C15u;
    return ((double)(h >> 11) / 9007199254740992.0 - 0.5) * (double)(1 << (h % 20));
}

#endif
