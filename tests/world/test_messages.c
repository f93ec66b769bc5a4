/* What ranks send each other, how much and when: a transport that looks at every message. */
#include "support/ranks.h"
#include "world/world.h"

#include <stdatomic.h>

/* ---- how many messages ---- */

static _Atomic int64_t posted, posted_bytes;
static const gd_transport *below;

static gd_status counting_post(gd_endpoint *e, gd_message *m)
{
    if (m->sends) {
        atomic_fetch_add(&posted, 1);
        atomic_fetch_add(&posted_bytes, (int64_t)m->bytes);
    }
    return below->post(e, m);
}

/* What all ranks send while fn runs goes by `post`. */
static gd_status posted_by(gd_world *w, gd_status (*post)(gd_endpoint *e, gd_message *m),
                           gd_status (*fn)(gd_world *w, void *user), void *user)
{
    static gd_transport counting;
    TRY(gd_world_barrier(w));
    if (gd_world_rank(w) == 0) {
        below = w->end.transport;
        counting = *below;
        counting.post = post;
        atomic_store(&posted, 0);
        atomic_store(&posted_bytes, 0);
    }
    TRY(gd_world_barrier(w));
    const gd_transport *before = w->end.transport;
    w->end.transport = &counting;
    gd_status status = fn(w, user);
    w->end.transport = before;
    TRY(status);
    return gd_world_barrier(w);
}

static gd_status sum_two(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    int n = gd_world_size(w);
    double x[2] = {gd_world_rank(w), 1};
    gd_tensor *t = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, x);
    TRY(gd_world_all_reduce(w, t, GD_REDUCE_EXACT));
    EXPECT(ctx, gd_at(t, (int64_t[]){0}) == n * (n - 1) / 2.0 && gd_at(t, (int64_t[]){1}) == n);
    gd_release(t);
    return GD_OK;
}

static gd_status count_messages(gd_world *w, void *user)
{
    int *sent = user;
    TRY(posted_by(w, counting_post, sum_two, NULL));
    if (gd_world_rank(w) == 0) *sent = (int)atomic_load(&posted);
    return GD_OK;
}

static void a_few_numbers_take_one_message_from_each_to_each(void **state)
{
    for (int n = 2; n <= 5; n++) {
        int sent = 0;
        run_in(CTX(state), n, count_messages, &sent);
        assert_int_equal(sent, n * (n - 1));
    }
}

#define WIDE 50000

typedef struct wide_step {
    const char *chain;
    gd_shard shard;
    int64_t bytes; /* that a step sends */
    gd_tensor *w;
    gd_optimizer *opt;
    gd_batch batch;
} wide_step;

static gd_tensor *wide_loss(void *user, int64_t first, int64_t count)
{
    gd_tensor *w = user;
    return gd_mul_scalar(gd_mean(gd_square(w), NULL, false), (double)(first + count));
}

static gd_status one_step(gd_world *w, void *user)
{
    wide_step *s = user;
    (void)w;
    return gd_optimizer_step(s->opt, &(gd_objective){.batch = &s->batch}, NULL);
}

static gd_status count_step(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    wide_step s = *(wide_step *)user;
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = s.shard;
    gd_scope_begin(ctx);
    s.w = gd_require_grad(gd_ones(ctx, GD_F32, 1, (int64_t[]){WIDE}));
    s.opt = gd_optimizer_new(ctx, gd_chain(ctx, s.chain));
    s.batch = (gd_batch){.rows = 4, .grain = 1, .world = w, .user = s.w, .loss = wide_loss};
    gd_status status = gd_optimizer_add(s.opt, "w", s.w);
    if (!status) status = gd_optimizer_distribute(s.opt, w, &options);
    if (!status) status = one_step(w, &s); /* makes state */
    if (!status) status = posted_by(w, counting_post, one_step, &s);
    double moved = status ? 0 : gd_at(s.w, (int64_t[]){WIDE - 1});
    gd_optimizer_free(s.opt);
    gd_scope_end(ctx);
    TRY(status);
    EXPECT(ctx, moved < 1);
    if (gd_world_rank(w) == 0) ((wide_step *)user)->bytes = atomic_load(&posted_bytes);
    return GD_OK;
}

/* Gradients go to who owns them, and parameters come back: together what sums of gradients take that all have. */
static void a_step_with_state_shared_sends_no_more_bytes(void **state)
{
    for (int n = 2; n <= 4; n += 2) {
        int64_t sums = 2 * (int64_t)(n - 1) * WIDE * 4;
        wide_step none = {.chain = "adam | lr(0.1)", .shard = GD_SHARD_NONE};
        run_in(CTX(state), n, count_step, &none);
        assert_in_range(none.bytes, sums, sums + sums / 20);
        static const char *const chains[] = {"adam | lr(0.1)", "lbfgs | lr(0.1)", "polak_ribiere | lr(0.1)",
                                             "clip_norm(1) | adgd | lsr1 | adam | lr(0.1)"};
        for (int k = 0; k < 8; k++) {
            wide_step shared = {.chain = chains[k / 2], .shard = k % 2 ? GD_SHARD_STATE : GD_SHARD_GRADIENTS};
            run_in(CTX(state), n, count_step, &shared);
            if (shared.bytes < sums || shared.bytes > sums + sums / 4) /* a vector more is half of it */
                fail_msg("%s: %lld bytes instead of %lld", shared.chain, (long long)shared.bytes,
                         (long long)sums);
        }
    }
}

/* ---- parameters of a step travel while others are still made ---- */

enum { LAYERS = 8, LAYER = 200000 };

static _Atomic int begun,
    early; /* gathers of the first parameter; those begun while the last one was as before */
static _Thread_local const float *last_made;
static _Thread_local int64_t first_gather;

/* A step begins with the agreement that all are there; the next collective is the first gather. */
static gd_status looking_post(gd_endpoint *e, gd_message *m)
{
    if (first_gather < 0) first_gather = m->op + 1;
    if (m->op == first_gather && m->sends && m->bytes < LAYER) {
        atomic_fetch_add(&begun, 1);
        atomic_fetch_add(&early, *last_made == 1);
    }
    return below->post(e, m);
}

static gd_status plain_step(gd_world *w, void *user)
{
    (void)w;
    return gd_optimizer_step(user, NULL, NULL);
}

static gd_status step_over_layers(gd_world *w, void *user)
{
    (void)user;
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    gd_ctx *ctx = gd_world_ctx(w);
    gd_distribute_options options = gd_distribute_defaults();
    gd_tensor *p[LAYERS];
    options.shard = GD_SHARD_STATE;
    options.joined = true;
    gd_scope_begin(ctx);
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.5)"));
    for (int i = 0; i < LAYERS; i++) {
        p[i] = gd_require_grad(gd_ones(ctx, GD_F32, 1, (int64_t[]){LAYER}));
        TRY(gd_optimizer_add(opt, names[i], p[i]));
        TRY(gd_set_grad(p[i], gd_ones(ctx, GD_F32, 1, (int64_t[]){LAYER})));
    }
    TRY(gd_optimizer_distribute(opt, w, &options));
    first_gather = -1;
    last_made = (const float *)gd_data(p[LAYERS - 1]) + (gd_world_rank(w) ? LAYER - 1 : 0);
    gd_status status = posted_by(w, looking_post, plain_step, opt);
    for (int i = 0; i < LAYERS && !status; i++)
        for (int64_t k = 0; k < LAYER; k += LAYER - 1) EXPECT(ctx, gd_at(p[i], &k) == 0.5);
    gd_optimizer_free(opt);
    gd_scope_end(ctx);
    return status;
}

static void parameters_travel_while_others_are_still_made(void **state)
{
    begun = early = 0;
    run_in(CTX(state), 2, step_over_layers, NULL);
    assert_int_equal(begun, 2);
    assert_int_equal(early, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(a_few_numbers_take_one_message_from_each_to_each),
        TEST(a_step_with_state_shared_sends_no_more_bytes),
        TEST(parameters_travel_while_others_are_still_made),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
