/* Suites whose cases run in every rank of a world of threads. */
#ifndef GD_TEST_RANKS_H
#define GD_TEST_RANKS_H

#include "support/support.h"

#include <gradus/gradus.h>

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
