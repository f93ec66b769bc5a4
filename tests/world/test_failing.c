/* Ranks that fail, leave or are late while others have collectives under way. */
#include "base/ctx.h"
#include "support/ranks.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define MOST 5

static void sleep_for(double seconds)
{
    nanosleep(
        &(struct timespec){.tv_sec = (time_t)seconds, .tv_nsec = (long)(1e9 * (seconds - (int)seconds))},
        NULL);
}

/* More elements than travel on a sheet. */
static gd_tensor *ones(gd_ctx *ctx) { return gd_ones(ctx, GD_F64, 1, (int64_t[]){3000}); }

static gd_exchange *start_sum(gd_world *w, gd_tensor *t)
{
    return gd_world_start(w, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = t, .name = "gradients"});
}

/* All are at the same collective again. */
static gd_status goes_on(gd_world *w)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_clear_error(ctx);
    gd_tensor *t = ones(ctx);
    TRY(gd_world_all_reduce(w, t, GD_REDUCE_EXACT));
    EXPECT(ctx, gd_at(t, (int64_t[]){2999}) == gd_world_size(w));
    TRY(gd_world_barrier(w));
    gd_release(t);
    return GD_OK;
}

/* Every rank but one starts some sums, rank r one more or fewer than the next; that one starts the first of them, or none. */
typedef struct failure {
    int rank, started;
} failure;

static gd_status fails_alone(gd_world *w, void *user)
{
    const failure *f = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *t[MOST];
    gd_exchange *work[MOST];
    bool fails = gd_world_rank(w) == f->rank;
    int count = fails ? f->started : 2 + gd_world_rank(w) % (MOST - 1);
    for (int i = 0; i < count; i++) work[i] = start_sum(w, t[i] = ones(ctx));
    if (fails) {
        (void)!gd_fail(ctx, GD_VALUE, "there is no loss");
        EXPECT(ctx, gd_world_agree(w, GD_VALUE) == GD_VALUE);
    }
    for (int i = 0; i < count; i++) {
        gd_status status = work[i] ? gd_world_wait(work[i]) : gd_error(ctx);
        double wanted = i < f->started ? gd_world_size(w) : 1;
        EXPECT(ctx, status == (i < f->started ? GD_OK : GD_VALUE));
        EXPECT(ctx, gd_at(t[i], (int64_t[]){0}) == wanted);
        gd_release(t[i]);
    }
    char wanted[60];
    (void)snprintf(wanted, sizeof wanted, fails ? "there is no loss" : "rank %d: there is no loss", f->rank);
    EXPECT(ctx, !strcmp(gd_error_text(ctx), wanted));
    return goes_on(w);
}

static void a_failure_is_heard_at_everything_that_others_have_started(void **state)
{
    gd_world_options o = {.timeout = 20};
    for (int n = 2; n <= 4; n++)
        for (int i = 0; i < 2 * n; i++) {
            char name[16];
            (void)snprintf(name, sizeof name, "threads:%d", n);
            failure f = {.rank = i / 2, .started = i % 2};
            gd_status status = gd_world_run(CTX(state), name, &o, fails_alone, &f);
            if (status) fail_msg("%d ranks, rank %d: %s", n, f.rank, gd_error_text(CTX(state)));
        }
}

/* Where sheets go to rank 0. */
static void a_failure_is_heard_in_a_large_world(void **state)
{
    gd_world_options o = {.timeout = 60};
    for (int rank = 0; rank < 2; rank++) {
        failure f = {.rank = 40 * rank};
        gd_status status = gd_world_run(CTX(state), "threads:66", &o, fails_alone, &f);
        if (status) fail_msg("%s", gd_error_text(CTX(state)));
    }
}

/* Whoever has not looked at what it has started gets the error at whatever it does next. */
static gd_status does_not_look(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    if (gd_world_rank(w) == 1) {
        (void)!gd_fail(ctx, GD_VALUE, "there is no loss");
        EXPECT(ctx, gd_world_agree(w, GD_VALUE) == GD_VALUE);
        return goes_on(w);
    }
    gd_tensor *t = ones(ctx);
    gd_exchange *work = start_sum(w, t);
    for (int i = 0; i < 2 + gd_world_rank(w); i++) {
        EXPECT(ctx, gd_world_barrier(w) == GD_VALUE);
        EXPECT(ctx, strstr(gd_error_text(ctx), "there is no loss"));
        gd_clear_error(ctx);
    }
    EXPECT(ctx, gd_world_wait(work) == GD_VALUE);
    gd_release(t);
    return goes_on(w);
}

static void nothing_is_started_before_a_failure_is_seen(void **state)
{
    for (int i = 0; i < 20; i++) run_in(CTX(state), 3, does_not_look, NULL);
}

/* Rank 2 does not go on in the middle of a broadcast: rank 1 waits for it there, and rank 0, which has all it needs, for both at
 * the next barrier. */
static gd_status stops(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *t = ones(ctx);
    gd_exchange *work = gd_world_start(w, &(gd_collective){.kind = GD_BROADCAST, .tensor = t, .root = 1});
    if (gd_world_rank(w) == 2) sleep_for(1.7);
    gd_status status = gd_world_wait(work);
    if (!status) status = gd_world_barrier(w);
    const char *text = gd_error_text(ctx), *named = strstr(text, "waited 1 seconds for rank 2");
    bool only = named && !strcmp(named, "waited 1 seconds for rank 2");
    if (!only) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), text);
    EXPECT(ctx, status == GD_STATE && only);
    gd_release(t);
    gd_clear_error(ctx);
    return GD_OK;
}

static void a_time_out_does_not_name_who_waits_too(void **state)
{
    gd_status status = gd_world_run(CTX(state), "threads:3", &(gd_world_options){.timeout = 1}, stops, NULL);
    if (status) fail_msg("%s", gd_error_text(CTX(state)));
}

/* A rank that has waited, and comes late to the next one: that it waited is long ago. */
static gd_status late_once(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    if (gd_world_rank(w) == 1) sleep_for(0.7);
    TRY(gd_world_barrier(w)); /* the others say that they wait */
    if (gd_world_rank(w) == 2) sleep_for(1.7);
    gd_status status = gd_world_barrier(w);
    EXPECT(ctx, status == GD_STATE);
    EXPECT(ctx, !strcmp(gd_error_text(ctx), "barrier: rank 0 waited 1 seconds for rank 2"));
    gd_clear_error(ctx);
    return GD_OK;
}

static void who_has_waited_before_is_named_where_it_is_missing(void **state)
{
    gd_status status = gd_world_run(CTX(state), "threads:3", &(gd_world_options){.timeout = 1}, late_once,
                                    NULL);
    if (status) fail_msg("%s", gd_error_text(CTX(state)));
}

/* ---- a rank that stands still ---- */

typedef struct heard {
    pthread_mutex_t lock;
    int lines, missing;
    char text[200];
} heard;

static void hear(void *user, const char *text)
{
    heard *h = user;
    pthread_mutex_lock(&h->lock);
    h->lines++;
    snprintf(h->text, sizeof h->text, "%s", text);
    pthread_mutex_unlock(&h->lock);
}

/* One rank comes late, but before the time-out. */
static gd_status stands_still(gd_world *w, void *user)
{
    heard *h = user;
    gd_ctx *ctx = gd_world_ctx(w);
    ctx->tell = hear;
    ctx->tell_user = h;
    if (gd_world_rank(w) == h->missing) sleep_for(2.6);
    gd_status status = gd_world_barrier(w);
    ctx->tell = NULL;
    return status;
}

/* One line, of the lowest rank that waits, long before anybody gives up. */
static void who_waits_long_is_told_once_for_whom(void **state)
{
    for (int late = 0; late < 3; late++) {
        heard h = {.lock = PTHREAD_MUTEX_INITIALIZER, .missing = late};
        gd_status status = gd_world_run(CTX(state), "threads:3", &(gd_world_options){.timeout = 4},
                                        stands_still, &h);
        if (status) fail_msg("%s", gd_error_text(CTX(state)));
        char want[100];
        int speaker = late ? 0 : 1;
        snprintf(want, sizeof want,
                 "barrier: rank %d has waited 2 seconds for rank %d; after 4 seconds it gives up", speaker,
                 late);
        if (h.lines != 1 || strcmp(h.text, want) != 0)
            fail_msg("%d lines, the last: %s; want %s", h.lines, h.text, want);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_failure_is_heard_at_everything_that_others_have_started),
        TEST(a_failure_is_heard_in_a_large_world),
        TEST(nothing_is_started_before_a_failure_is_seen),
        TEST(a_time_out_does_not_name_who_waits_too),
        TEST(who_has_waited_before_is_named_where_it_is_missing),
        TEST(who_waits_long_is_told_once_for_whom),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
