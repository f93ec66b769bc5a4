/* Optimizers over a world of threads: the same bits as one process, and ranks that disagree. */
#include "optim/distribute.h"

#include <unistd.h>

/* ---- memory ---- */

enum { LARGE = 4 };
static const int64_t wide[LARGE][2] = {{1000, 400}, {300, 1000}, {1, 500}, {700, 500}};

/* As many as a small network has, so that whole ones can be shared out. */
enum { MATRICES = 12 };
static const int64_t square[MATRICES][2] = {{90, 90}, {80, 90}, {90, 70}, {60, 90}, {90, 60}, {90, 80},
                                            {70, 90}, {70, 80}, {80, 70}, {50, 90}, {90, 40}, {1, 80}};

typedef struct held {
    const char *chain;
    const int64_t (*shape)[2];
    int count;
    gd_distribute_options options;
    int64_t bytes; /* state and gradients of all ranks between steps */
} held;

static gd_tensor *squares(gd_tensor *const *p, int count)
{
    gd_tensor *sum = NULL;
    for (int i = 0; i < count; i++) {
        gd_tensor *part = gd_sum(gd_square(p[i]), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static gd_status hold(gd_world *w, void *user)
{
    held *h = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *p[MATRICES];
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, h->chain));
    for (int i = 0; i < h->count; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "p%d", i);
        p[i] = gd_require_grad(gd_full(ctx, GD_F32, 2, h->shape[i], 0.5));
        TRY(gd_optimizer_add(o, name, p[i]));
    }
    TRY(gd_optimizer_distribute(o, w, &h->options));
    TRY(gd_world_barrier(w));
    if (!gd_world_rank(w)) h->bytes = -live_of_all;
    TRY(gd_world_barrier(w));
    for (int step = 0; step < 2; step++) {
        gd_scope_begin(ctx);
        gd_optimizer_zero_grad(o);
        TRY(gd_backward(squares(p, h->count), NULL, 0));
        gd_scope_end(ctx);
        TRY(gd_optimizer_step(o, NULL, NULL));
    }
    TRY(gd_world_barrier(w));
    if (!gd_world_rank(w)) h->bytes += live_of_all;
    TRY(gd_world_barrier(w));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static int64_t held_with(const char *world, gd_shard shard, held h)
{
    live_of_all = 0;
    gd_options options = gd_options_default();
    options.allocator.fn = counted;
    options.pool = false;
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    h.options = gd_distribute_defaults();
    h.options.shard = shard;
    h.options.bucket = 100000;
    if (gd_world_run(ctx, world, NULL, hold, &h)) fail_msg("%s: %s", world, gd_error_text(ctx));
    gd_ctx_free(ctx);
    assert_int_equal(live_of_all, 0);
    return h.bytes;
}

static int64_t held_by(const char *world, gd_shard shard)
{
    held h = {.chain = "clip_norm(1, dim=\"global\") | adam | lr(0.1)", .shape = wide, .count = LARGE};
    return held_with(world, shard, h);
}

/* Vectors: at least so many bytes per element with one process, beside the gradient; a quarter of it with four. */
static void quarters_of(const char *chain, double least)
{
    held h = {.chain = chain, .shape = wide, .count = LARGE};
    double elements = 0, alone = (double)held_with("self", GD_SHARD_NONE, h);
    for (int i = 0; i < LARGE; i++) elements += (double)(wide[i][0] * wide[i][1]);
    if (alone < (least + 4) * elements) fail_msg("%s: %g bytes per element", chain, alone / elements);
    double kept = (double)held_with("threads:4", GD_SHARD_STATE, h) / 4,
           both = (double)held_with("threads:4", GD_SHARD_GRADIENTS, h) / 4;
    if (kept > 0.27 * (alone - 4 * elements) + 4 * elements || both > 0.27 * alone)
        fail_msg("%s: a rank of 4 holds %.3f of what one does, %.3f with gradients shared", chain,
                 kept / alone, both / alone);
}

static void four_ranks_hold_a_quarter_of_a_history_each(void **state)
{
    (void)state;
    quarters_of("lbfgs(history_size=2) | lr(0.1)", 32); /* three rows of s and y, what was before of both */
}

/* Functions of lists that are one vector each: conjugate gradients, Barzilai and Borwein. */
static void four_ranks_hold_a_quarter_of_previous_vectors_each(void **state)
{
    (void)state;
    int count = 0, seen = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        char chain[80];
        bool lists = all[i]->spread == GD_SPREAD_VECTOR && all[i]->apply_tensors &&
                     !all[i]->traits.needs_closure;
        if (!lists || !all[i]->slot_count || (seen++ && i % test_share())) continue;
        (void)snprintf(chain, sizeof chain, "%s | lr(0.1)", all[i]->name);
        quarters_of(chain, 4 * all[i]->slot_count);
    }
    assert_true(seen >= 11);
}

/* A rank's share of what grows with the parameters. */
static double share_of_matrices(const char *chain, const char *world, gd_shard shard, int ranks)
{
    static const int64_t tiny[MATRICES][2] = {{2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2},
                                              {2, 2}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {1, 2}};
    held h = {.chain = chain, .shape = square, .count = MATRICES}, other = h;
    other.shape = tiny;
    return (double)(held_with(world, shard, h) - held_with(world, shard, other)) / ranks;
}

/* Factors, moments and gradients of a tensor are all at its owner: with many tensors of like size that is a quarter. */
static void four_ranks_hold_a_quarter_where_links_work_on_whole_tensors(void **state)
{
    static const char *const chains[] = {"nag(0.9) | shampoo(max_dim=90) | lr(0.1)", "muon(0.1)",
                                         "clip_norm(1, dim=\"global\") | soap(max_dim=90) | adafactor"};
    (void)state;
    double grads = 0;
    for (int i = 0; i < MATRICES; i++) grads += 4.0 * (double)(square[i][0] * square[i][1]);
    for (int k = 0; k < COUNT_OF(chains); k++) {
        double alone = share_of_matrices(chains[k], "self", GD_SHARD_NONE, 1),
               kept = share_of_matrices(chains[k], "threads:4", GD_SHARD_STATE, 4),
               both = share_of_matrices(chains[k], "threads:4", GD_SHARD_GRADIENTS, 4);
        assert_true(alone >= 1.99 * grads); /* at least an average and a gradient */
        if (both > 0.27 * alone)
            fail_msg("%s: a rank of 4 holds %.3f of what one does", chains[k], both / alone);
        if (kept > 0.27 * (alone - grads) + grads)
            fail_msg("%s: a rank of 4 holds %.3f of what one does", chains[k], kept / alone);
    }
}

static void four_ranks_hold_a_quarter_of_state_and_gradients_each(void **state)
{
    (void)state;
    int64_t elements = 0, alone = held_by("self", GD_SHARD_NONE);
    for (int i = 0; i < LARGE; i++) elements += wide[i][0] * wide[i][1];
    assert_true(alone >= 12 * elements); /* two moments and a gradient */
    int64_t state_only = held_by("threads:4", GD_SHARD_STATE),
            both = held_by("threads:4", GD_SHARD_GRADIENTS);
    if ((double)both / 4 > 0.27 * (double)alone)
        fail_msg("a rank of 4 holds %.3f of the %lld bytes of one", (double)both / 4 / (double)alone,
                 (long long)alone);
    assert_true((double)state_only / 4 <= (0.27 * 8 + 4) / 12 * (double)alone);
    assert_true((double)held_by("threads:4", GD_SHARD_NONE) / 4 >= 0.99 * (double)alone);
}

/* Bytes that a rank needs to save model and optimizer in one archive. */
static gd_status save_in_one_file(gd_world *w, void *user)
{
    static _Atomic int failed;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *p[LARGE];
    char path[64];
    (void)snprintf(path, sizeof path, "/tmp/gradus-one-file-%ld.safetensors", (long)getpid());
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    gd_archive *archive = gd_archive_new(ctx);
    for (int i = 0; i < LARGE; i++) {
        const char name[] = {'p', (char)('0' + i), 0};
        p[i] = gd_require_grad(gd_full(ctx, GD_F32, 2, wide[i], 0.5));
        TRY(gd_optimizer_add(o, name, p[i]));
        TRY(gd_archive_put(archive, name, p[i]));
    }
    TRY(gd_optimizer_distribute(o, w, &options));
    TRY(gd_backward(squares(p, LARGE), NULL, 0));
    TRY(gd_optimizer_step(o, NULL, NULL));
    int64_t before = peak = live;
    TRY(gd_optimizer_save_in(o, archive, "optimizer/", path));
    most_of(user, peak - before);
    gd_archive_free(archive);
    /* one that has no archive does not leave the others waiting */
    archive = gd_world_rank(w) == 2 ? NULL : gd_archive_new(ctx);
    gd_status status = gd_optimizer_save_in(o, archive, NULL, "/tmp/gradus-never-written");
    failed += status == GD_ARGUMENT && strstr(gd_error_text(ctx), "the archive is NULL");
    gd_clear_error(ctx);
    TRY(gd_world_barrier(w));
    EXPECT(ctx, failed == gd_world_size(w) && access("/tmp/gradus-never-written", F_OK));
    gd_archive_free(archive);
    gd_optimizer_free(o);
    (void)remove(path);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_file_of_model_and_optimizer_needs_no_room_for_what_others_keep(void **state)
{
    (void)state;
    _Atomic int64_t most = 0;
    double elements = 0;
    for (int i = 0; i < LARGE; i++) elements += (double)(wide[i][0] * wide[i][1]);
    gd_options options = gd_options_default();
    options.allocator.fn = counted;
    options.pool = false;
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (gd_world_run(ctx, "threads:4", NULL, save_in_one_file, &most)) fail_msg("%s", gd_error_text(ctx));
    gd_ctx_free(ctx);
    /* both moments of all are 8 bytes per element */
    if ((double)most > 0.05 * 8 * elements)
        fail_msg("%lld bytes, %.3f of the state", (long long)most, (double)most / (8 * elements));
}

/* ---- ranks that disagree ---- */

static gd_status differ(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int kind = *(const int *)user;
    bool other = gd_world_rank(w) == 1;
    static const char *const said[] = {"the chain", "parameters",  "'q",        "[4]",
                                       "f64",       "bucket",      "generator", "the settings lr=0.5",
                                       "p, values", "1 steps done"};
    gd_scope_begin(ctx);
    int64_t length = other && kind == 3 ? 4 : 3;
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, other && kind == 0 ? "lr(0.2)" : "lr(0.1)"));
    gd_tensor *t = gd_zeros(ctx, other && kind == 4 ? GD_F64 : GD_F32, 1, &length);
    TRY(gd_optimizer_add(o, other && kind == 2 ? "q" : "p", gd_require_grad(t)));
    if (other && kind == 1) TRY(gd_optimizer_add(o, "more", gd_require_grad(gd_detach(gd_copy(t)))));
    if (other && kind == 6) gd_seed(ctx, 5);
    if (other && kind == 7) TRY(gd_optimizer_set(o, -1, "lr", 0.5));
    if (other && kind == 8) TRY(gd_fill(t, 2));
    if (other && kind == 9) TRY(gd_optimizer_step(o, NULL, NULL));
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
    for (int kind = 0; kind < 10; kind++) run_in(CTX(state), 3, differ, &kind);
}

/* Changes of rank 1 to its optimizer between steps, and the error of all ranks at the next step. */
static gd_status set_lr(gd_optimizer *o, gd_tensor **p)
{
    (void)p;
    return gd_optimizer_set(o, -1, "lr", 0.5);
}
static gd_status schedule_lr(gd_optimizer *o, gd_tensor **p)
{
    (void)p;
    return gd_optimizer_schedule(o, -1, "lr", "linear(0.5, 0.1, 9)");
}
static gd_status regroup_one(gd_optimizer *o, gd_tensor **p)
{
    (void)p;
    return gd_optimizer_regroup(o, gd_optimizer_param_name(o, 0), "lr=0.25");
}
static gd_status set_link(gd_optimizer *o, gd_tensor **p)
{
    (void)p;
    return gd_link_set(gd_optimizer_chain(o), "lr", gd_setting_real(0.5));
}
static gd_status forget(gd_optimizer *o, gd_tensor **p)
{
    (void)p;
    gd_optimizer_reset(o);
    return GD_OK;
}
static gd_status freeze_one(gd_optimizer *o, gd_tensor **p)
{
    (void)o;
    return gd_set_requires_grad(p[0], false);
}

static const struct later {
    gd_status (*change)(gd_optimizer *o, gd_tensor **p);
    const char *said;
    bool gradients_only; /* it is of the gradients, which other shards cut up */
} laters[] = {{set_lr, "lr=0.5", false},
              {schedule_lr, "lr=linear(0.5, 0.1, 9)", false},
              {regroup_one, "group 1: lr=0.25", false},
              {set_link, "chain", false},
              {forget, "step 1", false},
              {freeze_one, "2 parameters", true}};

static gd_status changes_later(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    const struct later *l = &laters[((const int *)user)[0]];
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make_shared(w, (gd_shard)((const int *)user)[1], 0, &o, p));
    for (int i = 0; i < PARAMS; i++) TRY(gd_backward(gd_sum(p[i], NULL, false), NULL, 0));
    TRY(gd_optimizer_step(o, NULL, NULL));
    gd_optimizer_zero_grad(o);
    float before = ((const float *)gd_data(p[1]))[0];
    if (gd_world_rank(w) == 1) TRY(l->change(o, p));
    for (int i = 0; i < PARAMS; i++)
        if (gd_requires_grad(p[i])) TRY(gd_set_grad(p[i], gd_ones_like(p[i])));
    gd_status status = gd_optimizer_step(o, NULL, NULL);
    const char *text = gd_error_text(ctx);
    bool told = strstr(text, "rank 1 brings") && strstr(text, l->said);
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), text);
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_MISMATCH && told && ((const float *)gd_data(p[1]))[0] == before);
    TRY(gd_world_barrier(w));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void what_one_rank_changes_between_steps_is_told_at_the_next(void **state)
{
    for (int i = 0; i < COUNT_OF(laters); i++)
        for (int shard = 0; shard < (laters[i].gradients_only ? 1 : 3); shard++)
            run_in(CTX(state), 3, changes_later, (int[]){i, shard});
}

/* Two optimizers of one chain over equal parameters, which rank 1 steps the other way round. */
static gd_status changes_places(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o[2];
    gd_tensor *p[2][PARAMS];
    gd_scope_begin(ctx);
    for (int k = 0; k < 2; k++) TRY(make_shared(w, *(const gd_shard *)user, 0, &o[k], p[k]));
    int first = gd_world_rank(w) == 1;
    gd_status status = GD_OK;
    for (int i = 0; i < PARAMS && !status; i++)
        status = gd_backward(gd_sum(p[first][i], NULL, false), NULL, 0);
    if (!status) status = gd_optimizer_step(o[first], NULL, NULL);
    bool told = strstr(gd_error_text(ctx), "optimizer 2") && strstr(gd_error_text(ctx), "optimizer 1");
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_MISMATCH && told);
    for (int k = 0; k < 2; k++) gd_optimizer_free(o[k]);
    gd_scope_end(ctx);
    return GD_OK;
}

static void optimizers_that_ranks_step_in_another_order_are_told_apart(void **state)
{
    for (int shard = 0; shard < 3; shard++)
        run_in(CTX(state), 3, changes_places, &(gd_shard){(gd_shard)shard});
}

static gd_status fails_alone(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make(ctx, "adam | lr(0.1)", &o, p));
    TRY(gd_optimizer_distribute(o, w, user));
    for (int i = 0; i < PARAMS; i++) TRY(set_grad(p[i], 0, 1));
    if (gd_world_rank(w) == 1) (void)!gd_fail(ctx, GD_CALLBACK, "no such file");
    EXPECT(ctx, gd_optimizer_step(o, NULL, NULL) == GD_CALLBACK);
    EXPECT(ctx, strstr(gd_error_text(ctx), "no such file"));
    gd_clear_error(ctx);
    for (int i = 0; i < PARAMS; i++)
        for (int64_t k = 0; k < lengths[i]; k++)
            EXPECT(ctx, ((const float *)gd_data(p[i]))[k] == (float)(0.5 + i));
    for (int i = 0; i < PARAMS; i++) TRY(set_grad(p[i], 0, 1));
    TRY(gd_optimizer_step(o, NULL, NULL));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_rank_that_fails_in_a_step_tells_the_others_and_nothing_changes(void **state)
{
    gd_distribute_options options = gd_distribute_defaults();
    for (options.shard = GD_SHARD_NONE; options.shard <= GD_SHARD_GRADIENTS; options.shard++)
        run_in(CTX(state), 3, fails_alone, &options);
    options.shard = GD_SHARD_STATE;
    options.joined = true;
    run_in(CTX(state), 3, fails_alone, &options);
}

/* ---- decisions ---- */

/* All make as many steps, and have the same time in their state. */
static gd_status by_the_clock(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_scope_begin(ctx);
    TRY(make(ctx, "lr(0.1) | terminate_after_n_seconds(0.03)", &o, p));
    TRY(gd_optimizer_distribute(o, w, NULL));
    int64_t steps = 0;
    double time = 0;
    while (!gd_optimizer_should_terminate(o) && steps < 100000) {
        TRY(gd_optimizer_step(o, NULL, NULL));
        steps++;
    }
    gd_tensor *all = gd_full(ctx, GD_F64, 1, (int64_t[]){2}, (double)steps);
    time = gd_link_kept(gd_link_child_at(gd_optimizer_chain(o), 1), "seconds", 0);
    ((double *)gd_data_mut(all))[1] = time;
    TRY(gd_world_broadcast(w, all, 0));
    EXPECT(ctx,
           ((const double *)gd_data(all))[0] == (double)steps && ((const double *)gd_data(all))[1] == time);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void ranks_decide_the_same_by_the_time(void **state) { run_in(CTX(state), 3, by_the_clock, NULL); }

/* ---- memory that is not there ---- */

static gd_status some_steps(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    const gd_distribute_options *options = user;
    gd_tensor *p[2];
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(
        ctx,
        gd_chain(
            ctx,
            "clip_norm(1, dim=\"global\") | adam | split(\"a\", shampoo(precondition_1d=false)) | lbfgs | adgd | lr(0.1)"));
    gd_status status = gd_error(ctx);
    for (int i = 0; i < 2 && !status; i++) {
        int64_t length = i ? 17000 : 3;
        p[i] = gd_require_grad(gd_full(ctx, GD_F32, 1, &length, 1));
        status = gd_optimizer_add(o, i ? "a" : "b", p[i]);
    }
    status = gd_world_agree(w, status);
    if (!status) status = gd_optimizer_distribute(o, w, options);
    bool there = !status;
    if (there)
        status = gd_backward(
            gd_add(gd_sum(gd_square(p[0]), NULL, false), gd_sum(gd_square(p[1]), NULL, false)), NULL, 0);
    if (there) status = gd_optimizer_step(o, NULL, NULL); /* which tells of an error before */
    if (!status) status = gd_optimizer_distribute(o, NULL, NULL);
    if (status && !gd_error(ctx)) status = gd_fail(ctx, GD_INTERNAL, "an error without text");
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return status;
}

/* ---- links that cannot be run for some tensors alone ---- */

static gd_status draw(const gd_transform *t)
{
    t->tensors[0] = gd_link_random(t->link, GD_RANDOM_NORMAL, t->tensors[0]);
    return gd_error(gd_link_ctx(t->link));
}

static gd_status widen(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) t->tensors[i] = gd_cast(t->tensors[i], GD_F64);
    return gd_error(gd_link_ctx(t->link));
}

static gd_status add_some(const gd_transform *t)
{
    double sum;
    return gd_list_dot(t->tensors, t->tensors, 1, &sum);
}

static gd_status refuse(gd_world *w, void *user)
{
    static const gd_link_class classes[] = {
        {.name = "drawing", .apply_tensors = draw, .traits.reads_only = true, .spread = GD_SPREAD_TENSOR},
        {.name = "widening", .apply_tensors = widen, .traits.reads_only = true, .spread = GD_SPREAD_TENSOR},
        {.name = "drawing_elements",
         .apply_tensors = draw,
         .traits.reads_only = true,
         .spread = GD_SPREAD_VECTOR},
        {.name = "widening_elements",
         .apply_tensors = widen,
         .traits.reads_only = true,
         .spread = GD_SPREAD_VECTOR},
        {.name = "adding_some",
         .apply_tensors = add_some,
         .traits.reads_only = true,
         .spread = GD_SPREAD_VECTOR}};
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    gd_scope_begin(ctx);
    for (int i = 0; i < COUNT_OF(classes); i++) TRY(gd_link_class_register(ctx, &classes[i]));
    TRY(make(ctx, user, &o, p));
    TRY(gd_optimizer_distribute(o, w, &options));
    for (int i = 0; i < PARAMS; i++) TRY(set_grad(p[i], gd_world_rank(w), gd_world_size(w)));
    EXPECT(ctx, gd_optimizer_step(o, NULL, NULL) != GD_OK);
    EXPECT(ctx, strstr(gd_error_text(ctx), "spreads by tensors, and") ||
                    strstr(gd_error_text(ctx), "spreads as a vector, and"));
    gd_clear_error(ctx);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_link_that_says_how_it_spreads_and_does_not_is_told_so(void **state)
{
    static const char *const chains[] = {"drawing | lr(1)", "widening | lr(1)", "drawing_elements | lr(1)",
                                         "widening_elements | lr(1)", "adding_some | lr(1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) run_in(CTX(state), 2, refuse, (void *)(uintptr_t)chains[i]);
}

/* ---- state of whole tensors, asked for by one rank ---- */

static gd_status ask(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    gd_scope_begin(ctx);
    TRY(make(ctx, "shampoo(precondition_1d=false)", &o, p));
    TRY(gd_optimizer_distribute(o, w, &options));
    for (int i = 0; i < PARAMS; i++) TRY(set_grad(p[i], gd_world_rank(w), gd_world_size(w)));
    TRY(gd_optimizer_step(o, NULL, NULL));
    gd_link *link = gd_optimizer_chain(o);
    if (gd_link_children(link)) link = gd_link_child_at(link, 0);
    EXPECT(ctx, !gd_link_state(link, p[1], "squares"));
    EXPECT(ctx, gd_error(ctx) == GD_STATE && strstr(gd_error_text(ctx), "kept by several ranks"));
    gd_clear_error(ctx);
    TRY(gd_optimizer_distribute(o, NULL, NULL));
    EXPECT(ctx, gd_link_state(link, p[1], "squares") && *gd_link_scalar(link, p[1], "step") == 1);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void state_that_another_rank_keeps_is_refused_until_work_is_no_longer_shared(void **state)
{
    run_in(CTX(state), 3, ask, NULL);
}

static bool shares_state(gd_ctx *ctx)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    return gd_world_run(ctx, "threads:2", NULL, some_steps, &options) == GD_OK;
}

static bool shares_gradients(gd_ctx *ctx)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_GRADIENTS;
    options.bucket = 40000;
    return gd_world_run(ctx, "threads:2", NULL, some_steps, &options) == GD_OK;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, shares_state);
    fail_each_allocation(1, shares_gradients);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(four_ranks_hold_a_quarter_of_state_and_gradients_each),
        TEST(four_ranks_hold_a_quarter_where_links_work_on_whole_tensors),
        TEST(four_ranks_hold_a_quarter_of_a_history_each),
        TEST(four_ranks_hold_a_quarter_of_previous_vectors_each),
        TEST(a_file_of_model_and_optimizer_needs_no_room_for_what_others_keep),
        TEST(ranks_that_differ_are_named_when_work_is_distributed),
        TEST(what_one_rank_changes_between_steps_is_told_at_the_next),
        TEST(optimizers_that_ranks_step_in_another_order_are_told_apart),
        TEST(a_rank_that_fails_in_a_step_tells_the_others_and_nothing_changes),
        TEST(ranks_decide_the_same_by_the_time),
        TEST(a_link_that_says_how_it_spreads_and_does_not_is_told_so),
        TEST(state_that_another_rank_keeps_is_refused_until_work_is_no_longer_shared),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
