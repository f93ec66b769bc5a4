/* What ranks send each other, how much and when: a transport that looks at every message. */
#include "support/ranks.h"
#include "world/world_internal.h"

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
    s.batch = (gd_batch){.rows = 4, .microbatch = 1, .world = w, .user = s.w, .loss = wide_loss};
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

/* Parameters of ones with gradients of ones, state shared; NULL: it failed. */
static gd_optimizer *layered(gd_world *w, gd_tensor **p)
{
    static const char *const names[LAYERS] = {"a", "b", "c", "d", "e", "f", "g", "h"};
    gd_ctx *ctx = gd_world_ctx(w);
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    options.joined = true;
    gd_scope_begin(ctx);
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.5)"));
    for (int i = 0; i < LAYERS; i++) {
        gd_tensor *t = gd_require_grad(gd_ones(ctx, GD_F32, 1, (int64_t[]){LAYER}));
        gd_status status = gd_optimizer_add(opt, names[i], t);
        if (!status) status = gd_set_grad(t, gd_ones(ctx, GD_F32, 1, (int64_t[]){LAYER}));
        if (p) p[i] = t; /* the optimizer holds it */
    }
    gd_scope_end(ctx);
    return gd_optimizer_distribute(opt, w, &options) ? NULL : opt;
}

static gd_status step_over_layers(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *p[LAYERS];
    gd_optimizer *opt = layered(w, p);
    EXPECT(ctx, opt);
    first_gather = -1;
    last_made = (const float *)gd_data(p[LAYERS - 1]) + (gd_world_rank(w) ? LAYER - 1 : 0);
    gd_status status = posted_by(w, looking_post, plain_step, opt);
    for (int i = 0; i < LAYERS && !status; i++)
        for (int64_t k = 0; k < LAYER; k += LAYER - 1) EXPECT(ctx, gd_at(p[i], &k) == 0.5);
    gd_optimizer_free(opt);
    return status;
}

static void parameters_travel_while_others_are_still_made(void **state)
{
    begun = early = 0;
    run_in(CTX(state), 2, step_over_layers, NULL);
    assert_int_equal(begun, 2);
    assert_int_equal(early, 2);
}

/* ---- a step that fails while parameters are on their way ---- */

static _Atomic bool cut; /* the wire of rank 1 */

/* The third gather: what was there before has arrived. */
static gd_status cut_post(gd_endpoint *e, gd_message *m)
{
    if (first_gather < 0) first_gather = m->op + 1;
    if (e->rank == 1 && m->op == first_gather + 2) cut = true;
    return e->rank == 1 && cut ? gd_fail(e->ctx, GD_IO, "the wire is cut") : below->post(e, m);
}

static gd_status refused_step(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    bool first = gd_world_rank(w) == 1;
    gd_status status = gd_optimizer_step(user, NULL, NULL);
    const char *text = gd_error_text(ctx);
    EXPECT(ctx, status == (first ? GD_IO : GD_STATE) && gd_error(ctx) == status);
    const char *why = first ? "the wire is cut; " : "all_gather: rank 1: the wire is cut; ";
    bool says = !strncmp(text, why, strlen(why)) && strstr(text, "parameters are partly changed");
    if (!says) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), text);
    gd_clear_error(ctx);
    EXPECT(ctx, says);
    EXPECT(ctx, gd_optimizer_steps(user) == 0);
    return GD_OK;
}

/* Steps and checkpoints of what is left. */
static gd_status nothing_goes_on(gd_ctx *ctx, gd_optimizer *opt)
{
    EXPECT(ctx, gd_optimizer_step(opt, NULL, NULL) == GD_STATE);
    EXPECT(ctx,
           strstr(gd_error_text(ctx), "a step is not possible") && strstr(gd_error_text(ctx), "checkpoint"));
    gd_clear_error(ctx);
    gd_archive *archive = gd_archive_new(ctx);
    EXPECT(ctx, gd_optimizer_pack(opt, archive, NULL) == GD_STATE);
    EXPECT(ctx, strstr(gd_error_text(ctx), "saving is not possible"));
    gd_clear_error(ctx);
    gd_archive_free(archive);
    return GD_OK;
}

static gd_status step_with_cut_wire(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *opt = layered(w, NULL);
    (void)user;
    EXPECT(ctx, opt);
    first_gather = -1;
    gd_status status = posted_by(w, cut_post, refused_step, opt);
    if (status == GD_STATE) { /* the barrier behind it: the world is given up */
        gd_clear_error(ctx);
        status = nothing_goes_on(ctx, opt);
    }
    gd_optimizer_free(opt);
    return status;
}

static void a_step_whose_parameters_did_not_arrive_is_the_last(void **state)
{
    for (int n = 2; n <= 3; n++) {
        cut = false;
        run_in(CTX(state), n, step_with_cut_wire, NULL);
        assert_true(cut);
    }
}

/* ---- a rank without memory ---- */

enum { SMALL = 700, SMALLS = 9, STEPS = 2 };

static _Thread_local int64_t until_none; /* allocations; 0: it has memory */

static void *sometimes_none(void *user, void *old, size_t old_size, size_t size)
{
    if (size > old_size && until_none > 0 && --until_none == 0) return NULL;
    return counted(user, old, old_size, size);
}

/* The k-th allocation of rank 1 in its first step, or the one behind it, fails. */
typedef struct lack {
    gd_shard shard;
    int64_t kth;
    bool later;
    _Atomic bool hit;
    int done[2];                          /* steps of each rank */
    float made[2][STEPS][SMALLS * SMALL]; /* parameters after each */
} lack;

typedef struct small_model {
    gd_tensor *p[SMALLS];
} small_model;

static gd_tensor *small_loss(void *user, int64_t first, int64_t count)
{
    small_model *m = user;
    gd_tensor *sum = gd_mean(gd_square(m->p[0]), NULL, false);
    for (int i = 1; i < SMALLS; i++) sum = gd_add(sum, gd_mean(gd_square(m->p[i]), NULL, false));
    return gd_mul_scalar(sum, (double)(first + count));
}

static void copy_model(const small_model *m, float *to)
{
    for (int i = 0; i < SMALLS; i++) memcpy(to + i * SMALL, gd_data(m->p[i]), SMALL * sizeof *to);
}

/* Steps until so many were made, or it is hopeless; a step that fails leaves the parameters as they were. */
static gd_status steps_of(lack *l, gd_world *w, gd_optimizer *opt, small_model *m)
{
    static _Thread_local float before[SMALLS * SMALL], after[SMALLS * SMALL];
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w);
    gd_batch batch = {.rows = 4, .microbatch = 1, .world = w, .user = m, .loss = small_loss};
    for (int i = 0; i < STEPS + 2 && l->done[rank] < STEPS; i++) {
        copy_model(m, before);
        if (rank == 1 && !l->hit && l->done[rank] == l->later) until_none = l->kth;
        gd_status status = gd_optimizer_step(opt, &(gd_objective){.batch = &batch}, NULL);
        if (rank == 1 && !until_none && l->done[rank] == l->later) l->hit = true;
        until_none = 0;
        copy_model(m, after);
        if (!status) memcpy(l->made[rank][l->done[rank]++], after, sizeof after);
        if (!status) continue;
        gd_clear_error(ctx);
        EXPECT(ctx, !memcmp(before, after, sizeof before));
    }
    return GD_OK;
}

static gd_status lacks_memory(gd_world *w, void *user)
{
    lack *l = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_distribute_options options = gd_distribute_defaults();
    small_model m;
    options.shard = l->shard;
    options.bucket = 3 * SMALL * 4;
    gd_scope_begin(ctx);
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
    for (int i = 0; i < SMALLS; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "p%d", i);
        m.p[i] = gd_require_grad(gd_full(ctx, GD_F32, 1, (int64_t[]){SMALL}, 1 + i));
        TRY(gd_optimizer_add(opt, name, m.p[i]));
    }
    gd_status status = gd_optimizer_distribute(opt, w, &options);
    if (!status) status = steps_of(l, w, opt, &m);
    gd_optimizer_free(opt);
    gd_scope_end(ctx);
    return status;
}

/* Ranks that have both made a step have made the same one. */
static void check_lack(const lack *l, const lack *whole)
{
    int least = l->done[0] < l->done[1] ? l->done[0] : l->done[1];
    for (int r = 0; r < 2; r++)
        for (int i = 0; i < least; i++)
            if (memcmp(l->made[r][i], whole->made[0][i], sizeof whole->made[0][i]))
                fail_msg("shard %d, allocation %d of step %d: rank %d has made another step %d",
                         (int)l->shard, (int)l->kth, 1 + l->later, r, i + 1);
    if (l->shard != GD_SHARD_NONE && least < STEPS)
        fail_msg("shard %d, allocation %d of step %d: %d steps", (int)l->shard, (int)l->kth, 1 + l->later,
                 least);
}

static void a_rank_without_memory_leaves_all_parameters_as_they_were(void **state)
{
    (void)state;
    gd_options options = gd_options_default();
    options.allocator.fn = sometimes_none;
    options.pool = false;
    options.threads = 1;
    options.compile = false;
    gd_ctx *ctx = gd_ctx_new(&options);
    for (int shard = GD_SHARD_NONE; shard <= GD_SHARD_GRADIENTS; shard++) {
        lack *whole = calloc(1, sizeof *whole);
        whole->shard = (gd_shard)shard;
        run_in(ctx, 2, lacks_memory, whole);
        assert_int_equal(whole->done[0] + whole->done[1], 2 * STEPS);
        for (int later = 0; later < 2; later++) {
            lack *l = malloc(sizeof *l);
            int64_t kth = 0;
            do {
                memset(l, 0, sizeof *l);
                l->shard = (gd_shard)shard;
                l->later = later;
                l->kth = ++kth;
                run_in(ctx, 2, lacks_memory, l);
                check_lack(l, whole);
            } while (l->hit);
            assert_true(kth > 5);
            free(l);
        }
        free(whole);
    }
    gd_ctx_free(ctx);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(a_few_numbers_take_one_message_from_each_to_each),
        TEST(a_step_with_state_shared_sends_no_more_bytes),
        TEST(parameters_travel_while_others_are_still_made),
        TEST(a_step_whose_parameters_did_not_arrive_is_the_last),
        TEST(a_rank_without_memory_leaves_all_parameters_as_they_were),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
