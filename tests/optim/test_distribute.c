/* Optimizers over a world of threads: the same bits as one process, and ranks that disagree. */
#include "support/support.h"

#include <gradus/gradus.h>

static void run_in(gd_ctx *ctx, int n, gd_world_fn fn, void *user)
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
static double value_of(int64_t seed, int64_t i)
{
    uint64_t h = (uint64_t)(seed * 7919 + i * 104729 + 1) * 0x9E3779B97F4A7C15u;
    return ((double)(h >> 11) / 9007199254740992.0 - 0.5) * (double)(1 << (h % 20));
}

/* ---- gradients of all ranks are added ---- */

enum { PARAMS = 3 };
static const int64_t lengths[PARAMS] = {5, 40000, 3};

/* Left and right half of the ranks, as the tree's definition reads. */
static float summed(int64_t i, int from, int width, int ranks)
{
    if (width == 1) return (float)value_of(from, i);
    float left = summed(i, from, width / 2, ranks);
    return from + width / 2 < ranks ? left + summed(i, from + width / 2, width / 2, ranks) : left;
}

static gd_status set_grad(gd_tensor *p, int rank, int ranks)
{
    gd_ctx *ctx = gd_tensor_ctx(p);
    int width = 1;
    while (width < ranks) width *= 2;
    gd_tensor *g = gd_zeros_like(gd_detach(p));
    float *at = gd_data_mut(g);
    for (int64_t i = 0; at && i < gd_numel(g); i++)
        at[i] = rank < 0 ? summed(i, 0, width, ranks) : (float)value_of(rank, i);
    if (!at) return gd_error(ctx);
    return gd_set_grad(p, g);
}

static gd_status make(gd_ctx *ctx, const char *chain, gd_optimizer **o, gd_tensor **p)
{
    static const char *const names[PARAMS] = {"a", "b", "c"};
    *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    for (int i = 0; i < PARAMS; i++) {
        p[i] = gd_require_grad(gd_full(ctx, GD_F32, 1, &lengths[i], 0.5 + i));
        TRY(gd_optimizer_add(*o, names[i], p[i]));
    }
    return gd_error(ctx);
}

/* `how` options; every rank brings its own gradient, and one that is alone their sum. */
static gd_status sums_gradients(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o, *alone;
    gd_tensor *p[PARAMS], *q[PARAMS];
    gd_scope_begin(ctx);
    TRY(make(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.1)", &o, p));
    TRY(make(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.1)", &alone, q));
    TRY(gd_optimizer_distribute(o, w, user));
    for (int step = 0; step < 3; step++) {
        for (int i = 0; i < PARAMS; i++) {
            TRY(set_grad(p[i], gd_world_rank(w), gd_world_size(w)));
            TRY(set_grad(q[i], -1, gd_world_size(w)));
        }
        TRY(gd_optimizer_step(o, NULL, NULL));
        TRY(gd_optimizer_step(alone, NULL, NULL));
    }
    for (int i = 0; i < PARAMS; i++)
        EXPECT(ctx, !memcmp(gd_data(p[i]), gd_data(q[i]), (size_t)lengths[i] * sizeof(float)));
    gd_optimizer_free(o);
    gd_optimizer_free(alone);
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_of_all_ranks_are_added_in_one_order(void **state)
{
    gd_distribute_options options = gd_distribute_defaults();
    for (int n = 1; n <= 5; n++) run_in(CTX(state), n, sums_gradients, &options);
    options.bucket = 1; /* each by itself */
    run_in(CTX(state), 3, sums_gradients, &options);
}

/* ---- ranks that disagree ---- */

static gd_status differ(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int kind = *(const int *)user;
    bool other = gd_world_rank(w) == 1;
    static const char *const said[] = {"the chain", "parameters", "'q'", "[4]", "f64", "bucket", "generator"};
    gd_scope_begin(ctx);
    int64_t length = other && kind == 3 ? 4 : 3;
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, other && kind == 0 ? "lr(0.2)" : "lr(0.1)"));
    gd_tensor *t = gd_zeros(ctx, other && kind == 4 ? GD_F64 : GD_F32, 1, &length);
    TRY(gd_optimizer_add(o, other && kind == 2 ? "q" : "p", gd_require_grad(t)));
    if (other && kind == 1) TRY(gd_optimizer_add(o, "more", gd_require_grad(gd_detach(gd_copy(t)))));
    if (other && kind == 6) gd_seed(ctx, 5);
    gd_distribute_options options = gd_distribute_defaults();
    if (other && kind == 5) options.bucket = 77;
    EXPECT(ctx, gd_optimizer_distribute(o, w, &options) == GD_MISMATCH);
    EXPECT(ctx, strstr(gd_error_text(ctx), "distribute: ") && strstr(gd_error_text(ctx), "rank 1"));
    EXPECT(ctx, strstr(gd_error_text(ctx), said[kind]));
    gd_clear_error(ctx);
    TRY(gd_world_barrier(w)); /* the world goes on */
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void ranks_that_differ_are_named_when_work_is_distributed(void **state)
{
    for (int kind = 0; kind < 7; kind++) run_in(CTX(state), 3, differ, &kind);
}

static gd_status fails_alone(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make(ctx, "adam | lr(0.1)", &o, p));
    TRY(gd_optimizer_distribute(o, w, NULL));
    if (gd_world_rank(w) == 1) (void)!gd_fail(ctx, GD_CALLBACK, "no such file");
    EXPECT(ctx, gd_optimizer_step(o, NULL, NULL) == GD_CALLBACK);
    EXPECT(ctx, strstr(gd_error_text(ctx), "no such file"));
    gd_clear_error(ctx);
    TRY(gd_optimizer_step(o, NULL, NULL));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_rank_that_fails_in_a_step_tells_the_others(void **state)
{
    run_in(CTX(state), 3, fails_alone, NULL);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(gradients_of_all_ranks_are_added_in_one_order),
        TEST(ranks_that_differ_are_named_when_work_is_distributed),
        TEST(a_rank_that_fails_in_a_step_tells_the_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
