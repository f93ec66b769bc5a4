/* Losses by microbatches of a batch: the same bits with any number of ranks, and what they mean alone. */
#include "support/ranks.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define ROWS 37

/* ---- a network with dropout ---- */

typedef struct net {
    gd_tensor *x, *y, *w1, *w2; /* w2 is a half where the case says so */
    double dropout;
    int64_t calls;
} net;

static gd_tensor *mean_loss(void *user, int64_t first, int64_t count)
{
    net *n = user;
    n->calls++;
    gd_tensor *x = gd_slice(n->x, "0", first, first + count, 1),
              *y = gd_slice(n->y, "0", first, first + count, 1);
    gd_tensor *h = gd_tanh(gd_matmul(x, n->w1));
    if (n->dropout > 0) h = gd_dropout(h, n->dropout);
    gd_tensor *w2 = gd_cast(n->w2, gd_tensor_dtype(n->x));
    return gd_mean(gd_square(gd_sub(gd_matmul(h, w2), y)), NULL, false);
}
static gd_tensor *whole_loss(void *user) { return mean_loss(user, 0, ROWS); }
static gd_tensor *sum_loss(void *user, int64_t first, int64_t count)
{
    return gd_mul_scalar(mean_loss(user, first, count), (double)count * 2);
}

static gd_status open_net(gd_ctx *ctx, net *n, gd_dtype dtype, gd_dtype second, double dropout)
{
    gd_seed(ctx, 7);
    *n = (net){.dropout = dropout};
    n->x = gd_randn(ctx, dtype, 2, (int64_t[]){ROWS, 4});
    n->y = gd_randn(ctx, dtype, 2, (int64_t[]){ROWS, 2});
    n->w1 = gd_require_grad(gd_randn(ctx, dtype, 2, (int64_t[]){4, 9}));
    n->w2 = gd_require_grad(gd_detach(gd_cast(gd_randn(ctx, dtype, 2, (int64_t[]){9, 2}), second)));
    return n->w2 ? GD_OK : gd_error(ctx);
}

static gd_optimizer *optimizer_of(gd_ctx *ctx, net *n, const char *chain)
{
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (o && (gd_optimizer_add(o, "w1", n->w1) || gd_optimizer_add(o, "w2", n->w2))) {
        gd_optimizer_free(o);
        return NULL;
    }
    return o;
}

/* ---- the same bits ---- */

typedef struct bits_case {
    const char *chain;
    gd_dtype dtype, second;
    int64_t microbatch;
    double dropout;
    gd_shard shard;
    unsigned char want[1024];
} bits_case;

/* Parameters and losses of some steps, as bytes. */
static gd_status train_here(gd_world *w, const bits_case *c, unsigned char *out, size_t *used)
{
    gd_ctx *ctx = gd_world_ctx(w);
    net n;
    TRY(open_net(ctx, &n, c->dtype, c->second, c->dropout));
    gd_optimizer *o = optimizer_of(ctx, &n, c->chain);
    gd_batch batch = {.rows = ROWS, .microbatch = c->microbatch, .world = w, .user = &n, .loss = mean_loss};
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = c->shard;
    gd_status status = o ? gd_error(ctx) : GD_NOMEM;
    if (c->shard) status = gd_world_agree(w, status);
    if (!status && c->shard) status = gd_optimizer_distribute(o, w, &options);
    *used = 0;
    for (int i = 0; i < 4 && !status; i++) {
        gd_step_info info;
        status = gd_optimizer_step(o, &(gd_objective){.batch = &batch}, &info);
        memcpy(out + *used, &info.loss, sizeof info.loss);
        *used += sizeof info.loss;
    }
    gd_tensor *const all[] = {n.w1, n.w2};
    for (int i = 0; i < 2 && !status; i++) {
        size_t bytes = (size_t)gd_numel(all[i]) * gd_dtype_size(gd_tensor_dtype(all[i]));
        memcpy(out + *used, gd_data(all[i]), bytes);
        *used += bytes;
    }
    gd_optimizer_free(o);
    return status;
}

static gd_status same_bits(gd_world *w, void *user)
{
    bits_case *c = user;
    gd_ctx *ctx = gd_world_ctx(w);
    unsigned char here[1024];
    size_t used;
    gd_scope_begin(ctx);
    gd_status status = train_here(w, c, here, &used);
    gd_scope_end(ctx);
    TRY(status);
    EXPECT(ctx, used <= sizeof here);
    if (gd_world_size(w) == 1) memcpy(c->want, here, used);
    EXPECT(ctx, !memcmp(c->want, here, used));
    return GD_OK;
}

static void steps_over_microbatches_have_the_same_bits_with_1_to_8_ranks(void **state)
{
    bits_case cases[] = {
        {.chain = "adam | lr(0.1)", .dtype = GD_F32, .second = GD_F32, .microbatch = 5, .dropout = 0.3},
        {.chain = "adam | lr(0.1)", .dtype = GD_F64, .second = GD_F64, .microbatch = 5, .dropout = 0.3},
        {.chain = "adam | lr(0.1)", .dtype = GD_F32, .second = GD_BF16, .microbatch = 1},
        {.chain = "clip_norm(1) | lr(0.1)",
         .dtype = GD_F32,
         .second = GD_F64,
         .microbatch = 0,
         .dropout = 0.3},
        {.chain = "lbfgs | strong_wolfe", .dtype = GD_F64, .second = GD_F64, .microbatch = 8},
        {.chain = "newton_cg | backtracking", .dtype = GD_F64, .second = GD_F64, .microbatch = 8},
    };
    for (int i = 0; i < COUNT_OF(cases); i++)
        for (int n = 1; n <= 8; n += n < 4 ? 1 : 4) {
            cases[i].shard = GD_SHARD_NONE;
            run_in(CTX(state), n, same_bits, &cases[i]);
            cases[i].shard = GD_SHARD_GRADIENTS;
            if (n > 1) run_in(CTX(state), n, same_bits, &cases[i]);
        }
}

/* The microbatch is part of what is computed: another one has other last digits. */
/* Large parameters, whose gradients are summed where they lie: two of them have one gradient in one memory. */
typedef struct pair {
    gd_tensor *x, *p, *q;
} pair;

static gd_tensor *pair_loss(void *user, int64_t first, int64_t count)
{
    pair *t = user;
    gd_tensor *x = gd_slice(t->x, "0", first, first + count, 1);
    return gd_mean(gd_square(gd_matmul(x, gd_add(t->p, t->q))), NULL, false);
}

static gd_status large_ones(gd_world *w, void *user)
{
    enum { SIZE = 150 };
    gd_ctx *ctx = gd_world_ctx(w);
    float *want = user;
    gd_scope_begin(ctx);
    gd_seed(ctx, 3);
    pair t = {.x = gd_randn(ctx, GD_F32, 2, (int64_t[]){ROWS, SIZE})};
    t.p = gd_require_grad(gd_randn(ctx, GD_F32, 2, (int64_t[]){SIZE, SIZE}));
    t.q = gd_require_grad(gd_detach(gd_copy(t.p)));
    gd_batch batch = {.rows = ROWS, .microbatch = 5, .world = w, .user = &t, .loss = pair_loss};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.1)"));
    gd_status status = o ? gd_optimizer_add(o, "p", t.p) : gd_error(ctx);
    if (!status) status = gd_optimizer_add(o, "q", t.q);
    for (int i = 0; i < 2 && !status; i++)
        status = gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL);
    gd_optimizer_free(o);
    TRY(status);
    size_t bytes = SIZE * SIZE * sizeof *want;
    if (gd_world_size(w) == 1) memcpy(want, gd_data(t.p), bytes);
    EXPECT(ctx, !memcmp(gd_data(t.p), gd_data(t.q), bytes) && !memcmp(gd_data(t.p), want, bytes));
    gd_scope_end(ctx);
    return GD_OK;
}

static void gradients_of_large_parameters_have_the_same_bits_too(void **state)
{
    float *want = malloc(150 * 150 * sizeof *want);
    for (int n = 1; n <= 5; n++) run_in(CTX(state), n, large_ones, want);
    free(want);
}

static void another_microbatch_may_have_other_bits(void **state)
{
    bits_case a = {.chain = "adam | lr(0.1)",
                   .dtype = GD_F32,
                   .second = GD_F32,
                   .microbatch = 5,
                   .dropout = 0.3},
              b = a;
    b.microbatch = 7;
    run_in(CTX(state), 1, same_bits, &a);
    run_in(CTX(state), 1, same_bits, &b);
    assert_memory_not_equal(a.want, b.want, 64);
}

/* ---- what it means ---- */

typedef struct evaluation {
    double loss;
    gd_tensor *w1, *w2; /* after one step of gradient descent, lr 1 */
} evaluation;

static evaluation evaluate(gd_ctx *ctx, const gd_objective *objective, net *n, const char *chain)
{
    gd_step_info info;
    gd_optimizer *o = optimizer_of(ctx, n, chain);
    assert_int_equal(gd_optimizer_step(o, objective, &info), GD_OK);
    gd_optimizer_free(o);
    return (evaluation){info.loss, n->w1, n->w2};
}

static void assert_near(gd_tensor *a, gd_tensor *b, double factor)
{
    gd_no_grad_begin(gd_tensor_ctx(a));
    double off = gd_item(gd_max(gd_abs(gd_sub(gd_mul_scalar(a, factor), b)), NULL, false));
    gd_no_grad_end(gd_tensor_ctx(a));
    assert_true(off < 1e-13);
}

/* The sum over microbatches of share times mean is the mean over all rows, whatever the last microbatch has. */
static void microbatches_add_up_to_the_loss_of_all_rows(void **state)
{
    gd_ctx *ctx = CTX(state);
    net n;
    assert_int_equal(open_net(ctx, &n, GD_F64, GD_F64, 0), GD_OK);
    evaluation want = evaluate(ctx, &(gd_objective){.loss = whole_loss, .user = &n}, &n, "lr(0.01)");
    for (int64_t microbatch = 0; microbatch < 40; microbatch += 4) {
        net m;
        assert_int_equal(open_net(ctx, &m, GD_F64, GD_F64, 0), GD_OK);
        gd_batch batch = {.rows = ROWS, .microbatch = microbatch, .user = &m, .loss = mean_loss};
        evaluation got = evaluate(ctx, &(gd_objective){.batch = &batch}, &m, "lr(0.01)");
        assert_true(fabs(got.loss - want.loss) < 1e-14 * want.loss);
        assert_near(got.w1, want.w1, 1);
        assert_near(got.w2, want.w2, 1);
        assert_int_equal(m.calls, microbatch ? (ROWS + microbatch - 1) / microbatch : 1);
    }
}

/* sums: 2 rows times the mean; one step of lr / (2 rows) is one of the mean. */
static void sums_and_residuals_add_up_without_shares(void **state)
{
    gd_ctx *ctx = CTX(state);
    net n, m;
    char chain[40];
    (void)snprintf(chain, sizeof chain, "lr(%.17g)", 0.01 / (2 * ROWS));
    assert_int_equal(open_net(ctx, &n, GD_F64, GD_F64, 0), GD_OK);
    evaluation want = evaluate(ctx, &(gd_objective){.loss = whole_loss, .user = &n}, &n, "lr(0.01)");
    assert_int_equal(open_net(ctx, &m, GD_F64, GD_F64, 0), GD_OK);
    gd_batch batch = {.rows = ROWS, .microbatch = 6, .user = &m, .loss = sum_loss, .sums = true};
    evaluation got = evaluate(ctx, &(gd_objective){.batch = &batch}, &m, chain);
    assert_true(fabs(got.loss - 2 * ROWS * want.loss) < 1e-12 * got.loss);
    assert_near(got.w1, want.w1, 1);
}

static gd_tensor *line_residuals(void *user, int64_t first, int64_t count)
{
    gd_tensor *p = user;
    gd_tensor *t = gd_arange(gd_tensor_ctx(p), GD_F64, (double)first, (double)(first + count), 1);
    gd_tensor *line = gd_add(gd_index(p, "0", 0), gd_mul(gd_index(p, "0", 1), t));
    return gd_sub(line, gd_add_scalar(gd_mul_scalar(t, 3), -2));
}

static void residuals_by_microbatches_are_a_sum_of_squares(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){2}));
    gd_batch batch = {.rows = 10, .microbatch = 3, .user = p, .loss = line_residuals};
    gd_solve_result result;
    /* newton: the Hessian comes from products microbatch by microbatch, and a line is at its minimum after one step */
    assert_int_equal(gd_minimize(&p, 1, &(gd_objective){.batch = &batch}, "newton", NULL, &result), GD_OK);
    assert_true(fabs(gd_at(p, (int64_t[]){0}) + 2) < 1e-9 && fabs(gd_at(p, (int64_t[]){1}) - 3) < 1e-9);
    assert_true(result.loss < 1e-15);
}

/* ---- random numbers ---- */

typedef struct draws {
    gd_tensor *p;
    double first[2][5]; /* of each evaluation and microbatch */
    int evaluation, microbatch;
} draws;

static gd_tensor *random_loss(void *user, int64_t first, int64_t count)
{
    draws *d = user;
    (void)count;
    gd_ctx *ctx = gd_tensor_ctx(d->p);
    gd_tensor *u = gd_rand(ctx, GD_F64, 0, NULL);
    d->first[d->evaluation][first] = gd_item(u);
    return gd_mul(u, gd_sum(gd_square(d->p), NULL, false));
}

static void every_microbatch_and_evaluation_has_a_stream_of_its_own(void **state)
{
    gd_ctx *ctx = CTX(state);
    draws d[2] = {{0}, {0}};
    for (int k = 0; k < 2; k++) { /* equal seeds, equal numbers; another place, others */
        gd_seed(ctx, 3);
        d[k].p = gd_require_grad(gd_ones(ctx, GD_F64, 1, (int64_t[]){2}));
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.1)"));
        assert_int_equal(gd_optimizer_add(o, "p", d[k].p), GD_OK);
        gd_batch batch = {.rows = 5, .microbatch = 1, .user = &d[k], .loss = random_loss};
        for (; d[k].evaluation < 2; d[k].evaluation++)
            assert_int_equal(gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL), GD_OK);
        gd_optimizer_free(o);
    }
    const double *all = d[0].first[0];
    assert_memory_equal(d[0].first, d[1].first, sizeof d[0].first);
    for (int i = 0; i < 10; i++)
        for (int k = 0; k < i; k++) assert_true(all[i] != all[k]);
}

/* ---- failures ---- */

static gd_tensor *fails_late(void *user, int64_t first, int64_t count)
{
    if (first >= 30) {
        (void)gd_fail(gd_tensor_ctx(((net *)user)->x), GD_VALUE, "row %d is broken", (int)first);
        return NULL;
    }
    return mean_loss(user, first, count);
}

static gd_status one_fails(gd_world *w, void *user)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = *(const gd_shard *)user;
    gd_ctx *ctx = gd_world_ctx(w);
    net n;
    gd_scope_begin(ctx);
    TRY(open_net(ctx, &n, GD_F64, GD_F64, 0));
    gd_optimizer *o = optimizer_of(ctx, &n, "adam");
    TRY(gd_optimizer_distribute(o, w, &options));
    double before = gd_at(n.w1, (int64_t[]){0, 0});
    gd_batch batch = {.rows = ROWS, .microbatch = 5, .world = w, .user = &n, .loss = fails_late};
    gd_status status = gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL);
    const char *want = gd_world_rank(w) == 2 ? "row 30 is broken"
                                             : "rank 2 cannot take part: row 30 is broken";
    bool told = strstr(gd_error_text(ctx), want) != NULL;
    if (!told) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    gd_clear_error(ctx);
    batch.loss = mean_loss; /* and the world goes on */
    gd_status next = gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL);
    bool stayed = gd_optimizer_steps(o) == 1 && gd_at(n.w1, (int64_t[]){0, 0}) != before;
    gd_optimizer_free(o);
    EXPECT(ctx, status == GD_VALUE && told && next == GD_OK && stayed);
    gd_scope_end(ctx);
    return GD_OK;
}

static void where_one_rank_fails_all_are_told_and_nothing_changes(void **state)
{
    for (gd_shard shard = GD_SHARD_NONE; shard <= GD_SHARD_GRADIENTS; shard++)
        run_in(CTX(state), 3, one_fails, &shard);
}

static void broken_batches_are_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    net n;
    assert_int_equal(open_net(ctx, &n, GD_F64, GD_F64, 0), GD_OK);
    gd_optimizer *o = optimizer_of(ctx, &n, "adam");
    gd_batch bad[] = {{.rows = ROWS, .user = &n},
                      {.rows = 0, .user = &n, .loss = mean_loss},
                      {.rows = ROWS, .microbatch = -1, .user = &n, .loss = mean_loss}};
    const char *const text[] = {"batch: no function for the loss", "batch: there are 0 rows",
                                "batch: a microbatch of -1 rows"};
    for (int i = 0; i < 3; i++) {
        assert_true(gd_optimizer_step(o, &(gd_objective){.batch = &bad[i]}, NULL) != GD_OK);
        assert_error(ctx, gd_error(ctx), text[i]);
    }
    gd_optimizer_free(o);
}

static gd_status agreeing(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w);
    TRY(gd_world_agree(w, GD_OK));
    gd_status mine = rank == 1 ? gd_fail(ctx, GD_IO, "no such file") : GD_OK;
    gd_status all = gd_world_agree(w, mine);
    bool told = !strcmp(gd_error_text(ctx), rank == 1 ? "no such file" : "rank 1: no such file");
    gd_clear_error(ctx);
    EXPECT(ctx, all == GD_IO && told);
    return gd_world_agree(w, GD_OK);
}

static void ranks_agree_on_who_failed(void **state) { run_in(CTX(state), 3, agreeing, NULL); }

/* ---- memory ---- */

enum { LAYERS = 100, BROAD = 256, NARROW = 2, MOST_ROWS = 8 };

/* Layers that are much larger than what they make of a row. */
typedef struct deep {
    gd_tensor *x, *w[LAYERS];
} deep;

static gd_tensor *deep_loss(void *user, int64_t first, int64_t count)
{
    const deep *d = user;
    gd_tensor *h = gd_slice(d->x, "0", first, first + count, 1);
    for (int i = 0; i < LAYERS; i++) h = gd_tanh(gd_matmul(h, d->w[i]));
    return gd_mean(gd_square(h), NULL, false);
}

/* Bytes beside the parameters: the most inside steps, and those between them, of the rank that has most. */
typedef struct held {
    gd_shard shard;
    int64_t rows, width; /* a row is a microbatch */
    _Atomic int64_t inside, between;
    float want; /* of a parameter, with one process */
} held;

static gd_status open_deep(gd_ctx *ctx, deep *d, gd_optimizer *o, int64_t width)
{
    gd_seed(ctx, 5);
    d->x = gd_randn(ctx, GD_F32, 2, (int64_t[]){MOST_ROWS, width});
    for (int i = 0; i < LAYERS; i++) {
        char name[16];
        (void)snprintf(name, sizeof name, "w%d", i);
        d->w[i] = gd_mul_scalar(gd_randn(ctx, GD_F32, 2, (int64_t[]){width, width}), 0.1);
        d->w[i] = gd_require_grad(gd_detach(d->w[i]));
        TRY(gd_optimizer_add(o, name, d->w[i]));
    }
    return gd_error(ctx);
}

static gd_status hold(gd_world *w, void *user)
{
    held *h = user;
    gd_ctx *ctx = gd_world_ctx(w);
    deep d;
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1, dim=\"global\") | adam | lr(0.01)"));
    gd_distribute_options options = gd_distribute_defaults();
    gd_batch batch = {.rows = h->rows, .microbatch = 1, .world = w, .user = &d, .loss = deep_loss};
    options.shard = h->shard;
    options.bucket = 100000; /* little beside the model, as 25 MB are beside large ones */
    TRY(open_deep(ctx, &d, o, h->width));
    TRY(gd_optimizer_distribute(o, w, &options));
    int64_t before = peak = live;
    for (int i = 0; i < 3; i++) TRY(gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL));
    most_of(&h->inside, peak - before);
    most_of(&h->between, live - before);
    float got = ((const float *)gd_data(d.w[LAYERS / 2]))[3];
    if (gd_world_size(w) == 1) h->want = got;
    EXPECT(ctx, got == h->want);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return GD_OK;
}

static void hold_in(const char *world, held *h, int64_t width)
{
    gd_options options = gd_options_default();
    options.allocator.fn = counted;
    options.pool = false;
    options.threads = 1;
    options.compile = false;
    h->width = width;
    h->inside = h->between = 0;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (gd_world_run(ctx, world, NULL, hold, h)) fail_msg("%s: %s", world, gd_error_text(ctx));
    gd_ctx_free(ctx);
}

/* What grows with the parameters: programs and tables are there for narrow layers too. */
static void hold_growing(const char *world, held *h)
{
    held narrow = *h;
    narrow.want = NAN;
    hold_in("self", &narrow, NARROW);
    hold_in(world, &narrow, NARROW);
    hold_in(world, h, BROAD);
    h->inside -= narrow.inside;
    h->between -= narrow.between;
}

/* State (two moments) and gradients of one process are 12 bytes per element. */
static void four_ranks_hold_a_quarter_of_state_and_gradients_inside_steps_too(void **state)
{
    (void)state;
    const double all = 12.0 * LAYERS * (BROAD * BROAD - NARROW * NARROW);
    for (int rows = 4; rows <= MOST_ROWS; rows += 4) { /* a microbatch for each rank; two, as by default */
        held one = {.shard = GD_SHARD_NONE, .rows = rows};
        hold_growing("self", &one);
        held four = {.shard = GD_SHARD_GRADIENTS, .rows = rows, .want = one.want};
        hold_growing("threads:4", &four);
        double inside = (double)four.inside / (rows == 4 ? all : (double)one.inside),
               between = (double)four.between / all;
        assert_true((double)one.inside >= all);
        if (inside > 0.27 || between > 0.27)
            fail_msg("%d microbatches: %.3f inside steps, %.3f between", rows, inside, between);
    }
}

/* ---- fast sums ---- */

static gd_status fast_here(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    net n;
    gd_scope_begin(ctx);
    TRY(open_net(ctx, &n, GD_F64, GD_F64, 0));
    gd_optimizer *o = optimizer_of(ctx, &n, "lr(0.1)");
    gd_batch batch = {
        .rows = ROWS, .microbatch = 5, .world = w, .how = GD_REDUCE_FAST, .user = &n, .loss = mean_loss};
    gd_status status = gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL);
    gd_optimizer_free(o);
    TRY(status);
    double *want = user, got = gd_at(n.w1, (int64_t[]){1, 2});
    if (gd_world_size(w) == 1) *want = got;
    EXPECT(ctx, fabs(got - *want) < 1e-14);
    gd_scope_end(ctx);
    return GD_OK;
}

static void fast_sums_differ_by_rounding_alone(void **state)
{
    double want;
    for (int n = 1; n <= 8; n++) run_in(CTX(state), n, fast_here, &want); /* 8 microbatches: one each */
}

/* ---- memory ---- */

#define WIDE (1 << 20)

static gd_tensor *wide_loss(void *user, int64_t first, int64_t count)
{
    (void)first, (void)count;
    return gd_sum(user, NULL, false);
}

/* The sum over the microbatches is made in the first one's gradient, and the step reads it there. */
static void gradients_of_a_batch_are_not_copied(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_tensor *w = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){WIDE}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(1)"));
    gd_batch batch = {.rows = 2, .microbatch = 1, .user = w, .loss = wide_loss};
    assert_int_equal(gd_optimizer_add(o, "w", w), GD_OK);
    assert_int_equal(gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL), GD_OK);
    int64_t before = test_memory()->most = test_memory()->bytes;
    assert_int_equal(gd_optimizer_step(o, &(gd_objective){.batch = &batch}, NULL), GD_OK);
    assert_true(test_memory()->most - before < 4 * WIDE * 5 / 2); /* two gradients and little else */
    assert_true(gd_at(w, (int64_t[]){WIDE - 1}) == -2);
    gd_optimizer_free(o);
}

static gd_status some_steps(gd_world *w, void *user)
{
    unsigned char out[1024];
    size_t used;
    bits_case c = {.chain = "adam | lr(0.1)", .dtype = GD_F32, .second = GD_BF16, .microbatch = 13};
    gd_ctx *ctx = gd_world_ctx(w);
    if (user) c.shard = GD_SHARD_GRADIENTS;
    gd_scope_begin(ctx);
    gd_status status = train_here(w, &c, out, &used);
    gd_scope_end(ctx);
    return status;
}
static bool alone(gd_ctx *ctx)
{
    return gd_world_run(ctx, "self", NULL, some_steps, NULL) == GD_OK && !gd_error(ctx);
}
static bool together(gd_ctx *ctx) { return gd_world_run(ctx, "threads:2", NULL, some_steps, NULL) == GD_OK; }
static bool sharded(gd_ctx *ctx) { return gd_world_run(ctx, "threads:2", NULL, some_steps, ctx) == GD_OK; }

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, alone);
    fail_each_allocation(1, together);
    fail_each_allocation(1, sharded);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_scoped_test, end_scoped_test)
    const struct CMUnitTest tests[] = {
        TEST(steps_over_microbatches_have_the_same_bits_with_1_to_8_ranks),
        TEST(gradients_of_large_parameters_have_the_same_bits_too),
        TEST(another_microbatch_may_have_other_bits),
        TEST(microbatches_add_up_to_the_loss_of_all_rows),
        TEST(sums_and_residuals_add_up_without_shares),
        TEST(residuals_by_microbatches_are_a_sum_of_squares),
        TEST(every_microbatch_and_evaluation_has_a_stream_of_its_own),
        TEST(where_one_rank_fails_all_are_told_and_nothing_changes),
        TEST(broken_batches_are_refused),
        TEST(ranks_agree_on_who_failed),
        TEST(fast_sums_differ_by_rounding_alone),
        TEST(gradients_of_a_batch_are_not_copied),
        cmocka_unit_test(four_ranks_hold_a_quarter_of_state_and_gradients_inside_steps_too),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
