/* Collectives and sums over microbatches in the world of threads, and alone. */
#include "support/ranks.h"
#include "world/world_internal.h"

#include <math.h>
#include <stdatomic.h>
#include <time.h>

/* ---- what the collectives do ---- */

/* Few numbers travel with the fingerprint, more after it. */
static const int64_t lengths[] = {1, 700};

static gd_status every_collective(gd_world *w, void *user)
{
    int64_t length = *(int64_t *)user, last = length - 1;
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w), n = gd_world_size(w);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_full(ctx, GD_F64, 2, (int64_t[]){3, length}, 10.0 * rank);
    TRY(gd_fill(gd_slice(x, "0", 1, 2, 1), 1));
    TRY(gd_world_all_reduce(w, x, GD_REDUCE_EXACT));
    double tens = 5.0 * n * (n - 1), *at = gd_data_mut(x);
    EXPECT(ctx, at[0] == tens && at[length] == n && at[3 * length - 1] == tens);

    gd_tensor *row = gd_full(ctx, GD_I32, 2, (int64_t[]){1, length}, rank + 1),
              *rows = gd_zeros(ctx, GD_I32, 2, (int64_t[]){n, length});
    TRY(gd_world_all_gather(w, row, rows));
    const int32_t *got = gd_data(rows);
    for (int64_t i = 0; i < n * length; i++) EXPECT(ctx, got[i] == i / length + 1);

    gd_tensor *all = gd_arange(ctx, GD_F32, 0, (double)(length * n), 1),
              *mine = gd_zeros(ctx, GD_F32, 1, (int64_t[]){length});
    TRY(gd_world_reduce_scatter(w, all, mine));
    const float *part = gd_data(mine);
    for (int64_t i = 0; i < length; i++) EXPECT(ctx, part[i] == (float)(n * (length * rank + i)));
    EXPECT(ctx, ((const float *)gd_data(all))[last] == (float)last); /* as it was */

    for (int root = 0; root < n; root++) {
        gd_tensor *t = gd_full(ctx, GD_F32, 1, (int64_t[]){length}, rank == root ? 7 : -1);
        TRY(gd_world_broadcast(w, t, root));
        EXPECT(ctx, ((const float *)gd_data(t))[last] == 7);
    }
    TRY(gd_world_barrier(w));
    gd_scope_end(ctx);
    return GD_OK;
}

static void collectives_do_what_they_say(void **state)
{
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        int64_t length = lengths[i];
        for (int n = 1; n <= 9; n++) run_in(CTX(state), n, every_collective, &length);
        assert_int_equal(gd_world_run(CTX(state), "self", NULL, every_collective, &length), GD_OK);
    }
}

/* Then rank 0 compares the sheets of all. */
static gd_status one_is_elsewhere(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *one = gd_scalar(ctx, GD_F32, 1);
    TRY(gd_world_all_reduce(w, one, GD_REDUCE_EXACT));
    EXPECT(ctx, gd_item(one) == gd_world_size(w));
    gd_release(one);
    gd_status status = gd_world_rank(w) == 40 ? gd_world_agree(w, GD_OK) : gd_world_broadcast(w, NULL, 0);
    EXPECT(ctx, status && strstr(gd_error_text(ctx), user));
    gd_clear_error(ctx);
    return GD_OK;
}

static void many_ranks_are_compared_by_the_first(void **state)
{
    run_in(CTX(state), GD_FINGERPRINT_ALL + 1, one_is_elsewhere, "the tensor is NULL");
}

/* Rank r has r + 1 elements or as many times more, the last one none. */
static gd_status uneven(gd_world *w, void *user)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int64_t times = *(int64_t *)user;
    int rank = gd_world_rank(w), n = gd_world_size(w);
    int64_t cuts[10] = {0};
    for (int r = 0; r < n; r++) cuts[r + 1] = cuts[r] + (r == n - 1 && r ? 0 : (r + 1) * times);
    int64_t all = cuts[n], first = cuts[rank], own = cuts[rank + 1] - first;
    gd_scope_begin(ctx);
    gd_tensor *whole = gd_full(ctx, GD_F32, 1, &all, -1), *part = gd_full(ctx, GD_F32, 1, &own, rank + 1);
    gd_collective gather = {.kind = GD_ALL_GATHER, .tensor = part, .out = whole, .cuts = cuts};
    TRY(gd_world_wait(gd_world_start(w, &gather)));
    for (int r = 0; r < n; r++)
        for (int64_t i = cuts[r]; i < cuts[r + 1]; i++) EXPECT(ctx, gd_at(whole, &i) == r + 1);
    /* in its place, and back again as sums */
    TRY(gd_fill(whole, -1));
    for (int64_t i = first; i < first + own; i++) ((float *)gd_data_mut(whole))[i] = (float)i;
    gather.tensor = NULL;
    TRY(gd_world_wait(gd_world_start(w, &gather)));
    for (int64_t i = 0; i < all; i++) EXPECT(ctx, gd_at(whole, &i) == (double)i);
    gd_collective scatter = {.kind = GD_REDUCE_SCATTER, .tensor = whole, .out = part, .cuts = cuts};
    TRY(gd_world_wait(gd_world_start(w, &scatter)));
    for (int64_t i = 0; i < own; i++) EXPECT(ctx, gd_at(part, &i) == n * (first + i));
    /* cuts that do not fit, and such as differ */
    int64_t others[10];
    memcpy(others, cuts, sizeof others);
    others[n] = all + 1;
    gather.cuts = others;
    EXPECT(ctx, gd_world_wait(gd_world_start(w, &gather)) == GD_VALUE);
    gd_clear_error(ctx);
    others[n] = all;
    if (n > 2 && rank == 1) others[1] = 0;
    EXPECT(ctx, gd_world_wait(gd_world_start(w, &gather)) == (n > 2 ? GD_MISMATCH : GD_OK));
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    return GD_OK;
}

static void shards_of_different_lengths_are_gathered_and_scattered(void **state)
{
    for (int i = 0; i < COUNT_OF(lengths); i++) {
        int64_t length = lengths[i];
        for (int n = 1; n <= 9; n++) run_in(CTX(state), n, uneven, &length);
    }
}

/* Rank r sends rank s the numbers 100 r + s, (r + 2 s) % 4 of them. */
static int64_t lot(int from, int to) { return (from + 2 * to) % 4; }

static gd_status to_each(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w), n = gd_world_size(w);
    int64_t cuts[10] = {0}, out_cuts[10] = {0};
    for (int r = 0; r < n; r++) {
        cuts[r + 1] = cuts[r] + lot(rank, r);
        out_cuts[r + 1] = out_cuts[r] + lot(r, rank);
    }
    gd_scope_begin(ctx);
    /* every second of a column: neither lies in one piece */
    gd_tensor *whole = gd_full(ctx, GD_F32, 1, (int64_t[]){2 * cuts[n]}, -1);
    gd_tensor *from = gd_slice(whole, "0", 0, 2 * cuts[n], 2);
    gd_tensor *to = gd_slice(gd_full(ctx, GD_F32, 1, (int64_t[]){2 * out_cuts[n]}, -1), "0", 0,
                             2 * out_cuts[n], 2);
    for (int r = 0; r < n; r++)
        for (int64_t i = cuts[r]; i < cuts[r + 1]; i++)
            ((float *)gd_data_mut(whole))[2 * i] = (float)(100 * rank + r);
    TRY(gd_world_all_to_all(w, from, cuts, to, out_cuts));
    for (int r = 0; r < n; r++)
        for (int64_t i = out_cuts[r]; i < out_cuts[r + 1]; i++) EXPECT(ctx, gd_at(to, &i) == 100 * r + rank);
    /* a rank expects more than a different rank sends: all get the error, and nothing has changed */
    TRY(gd_fill(to, 7));
    if (rank == n - 1 && n > 1) {
        for (int r = 1; r <= n; r++) out_cuts[r]++;
        to = gd_full(ctx, GD_F32, 1, &out_cuts[n], 7);
    }
    gd_status status = gd_world_all_to_all(w, from, cuts, to, out_cuts);
    EXPECT(ctx, status == (n > 1 ? GD_MISMATCH : GD_OK));
    gd_clear_error(ctx);
    for (int64_t i = 0; i < out_cuts[n] && n > 1; i++) EXPECT(ctx, gd_at(to, &i) == 7);
    EXPECT(ctx, gd_world_all_to_all(w, from, cuts, to, NULL) == GD_ARGUMENT);
    gd_clear_error(ctx);
    cuts[n]++;
    EXPECT(ctx, gd_world_all_to_all(w, from, cuts, to, out_cuts) == GD_VALUE);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    return GD_OK;
}

static void every_rank_gets_what_others_have_for_it(void **state)
{
    for (int n = 1; n <= 9; n++) run_in(CTX(state), n, to_each, NULL);
    assert_int_equal(gd_world_run(CTX(state), "self", NULL, to_each, NULL), GD_OK);
}

/* A transposed view is summed and written where it lies. */
static gd_status strided(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *m = gd_reshape(gd_arange(ctx, GD_F32, 0, 6, 1), 2, (int64_t[]){2, 3});
    TRY(gd_world_all_reduce(w, gd_transpose(m, 0, 1), GD_REDUCE_EXACT));
    const float *at = gd_data(m);
    for (int i = 0; i < 6; i++) EXPECT(ctx, at[i] == (float)(i * gd_world_size(w)));
    gd_scope_end(ctx);
    return GD_OK;
}

static void views_are_summed_in_place(void **state) { run_in(CTX(state), 3, strided, NULL); }

/* Several under way, waited for in another order. */
static gd_status several(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *t[4];
    gd_exchange *work[4];
    for (int i = 0; i < 4; i++) {
        t[i] = gd_full(ctx, GD_F64, 1, (int64_t[]){1000 + i}, i);
        work[i] = gd_world_start(w, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = t[i]});
    }
    for (int i = 3; i >= 0; i--) {
        TRY(gd_world_wait(work[i]));
        EXPECT(ctx, ((const double *)gd_data(t[i]))[999] == i * gd_world_size(w));
    }
    gd_scope_end(ctx);
    return GD_OK;
}

static void collectives_overlap_and_are_waited_for_in_any_order(void **state)
{
    run_in(CTX(state), 4, several, NULL);
}

/* ---- the tree ---- */

/* The sum over microbatches [from, to) of a complete tree of that width, as its definition reads. */
static float tree_sum(const float *x, int64_t from, int64_t width, int64_t total)
{
    if (width == 1) return x[from];
    float left = tree_sum(x, from, width / 2, total);
    return from + width / 2 < total ? left + tree_sum(x, from + width / 2, width / 2, total) : left;
}

typedef struct microbatch_case {
    gd_dtype dtype;
    int64_t numel, total;
    unsigned char *want; /* bytes of the result of one rank */
} microbatch_case;

static gd_tensor *microbatch_of(gd_ctx *ctx, const microbatch_case *c, int64_t g)
{
    double *x = malloc((size_t)(c->numel + 1) * sizeof *x);
    for (int64_t i = 0; i < c->numel; i++) x[i] = value_of(g, i);
    gd_tensor *t = gd_from_f64(ctx, c->dtype, 1, &c->numel, x);
    free(x);
    return t;
}

static gd_status sum_microbatches(gd_world *w, gd_tensor *out, const microbatch_case *c)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int64_t first, count;
    gd_world_share(w, c->total, &first, &count);
    gd_microbatches *sum = gd_microbatches_new(w, out, c->total);
    gd_status status = sum ? GD_OK : gd_error(ctx);
    for (int64_t g = first; g < first + count && !status; g++)
        status = gd_microbatches_add(sum, microbatch_of(ctx, c, g));
    if (!status) status = gd_microbatches_sum(sum, out);
    gd_microbatches_free(sum);
    return status;
}

static gd_status same_bits(gd_world *w, void *user)
{
    microbatch_case *c = user;
    gd_ctx *ctx = gd_world_ctx(w);
    size_t bytes = (size_t)c->numel * gd_dtype_size(c->dtype);
    gd_scope_begin(ctx);
    gd_tensor *out = gd_full(ctx, c->dtype, 1, &c->numel, -1);
    TRY(sum_microbatches(w, out, c));
    if (gd_world_size(w) == 1 && bytes) memcpy(c->want, gd_data(out), bytes);
    EXPECT(ctx, !bytes || !memcmp(c->want, gd_data(out), bytes));
    gd_scope_end(ctx);
    return GD_OK;
}

static void check_one_rank(const microbatch_case *c)
{
    float x[64];
    int64_t width = 1;
    while (width < c->total) width *= 2;
    for (int64_t i = 0; c->dtype == GD_F32 && i < c->numel; i += c->numel / 50 + 1) {
        for (int64_t g = 0; g < c->total; g++) x[g] = (float)value_of(g, i);
        float want = tree_sum(x, 0, width, c->total);
        assert_memory_equal(c->want + 4 * i, &want, 4);
    }
}

static void sums_over_microbatches_have_the_same_bits_with_1_to_8_ranks(void **state)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    static const int64_t sizes[] = {0, 1, 17, 64, 129, 1031, 40003}, totals[] = {1, 2, 3, 5, 8, 13, 64};
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int s = 0; s < COUNT_OF(sizes); s++)
            for (int t = 0; t < COUNT_OF(totals); t++) {
                if (sizes[s] > 2000 && (totals[t] != 8 || d > 1)) continue;
                microbatch_case c = {.dtype = dtypes[d], .numel = sizes[s], .total = totals[t]};
                c.want = malloc((size_t)sizes[s] * 8 + 1);
                for (int n = 1; n <= 8; n++) run_in(CTX(state), n, same_bits, &c);
                check_one_rank(&c);
                free(c.want);
            }
}

/* Halves: partial sums in f32 keep what sums in bf16 would lose. */
static gd_status small_ones(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_full(ctx, GD_BF16, 0, NULL, gd_world_rank(w) ? 0.5 : 256);
    TRY(gd_world_all_reduce(w, t, GD_REDUCE_EXACT));
    EXPECT(ctx, gd_item(t) == 258); /* 256 + 5 * 0.5 = 258.5, rounded once; 256 + 0.5 is 256 in bf16 */
    gd_scope_end(ctx);
    return GD_OK;
}

static void halves_are_summed_in_f32_and_rounded_once(void **state)
{
    run_in(CTX(state), 6, small_ones, NULL);
}

static void a_tree_without_siblings_is_cut_where_the_microbatches_end(void **state)
{
    (void)state;
    gd_tree t;
    gd__tree_of(&t, 5, 3, 2); /* microbatch 3 waits for 2; microbatch 4 stands for (2, 1) */
    assert_int_equal(t.count, 2);
    assert_true(t.node[0].level == 0 && t.node[0].index == 3);
    assert_true(t.node[1].level == 2 && t.node[1].index == 1);
    gd__tree_of(&t, 5, 0, 5);
    assert_true(t.count == 1 && t.node[0].level == 3 && t.node[0].index == 0);
}

/* ---- mistakes ---- */

typedef struct mistake {
    gd_status (*make)(gd_world *w); /* what rank 2 does while the others add three f32 */
    const char *text;
} mistake;

static gd_status other_shape(gd_world *w)
{
    return gd_world_all_reduce(w, gd_ones(gd_world_ctx(w), GD_F32, 1, (int64_t[]){4}), GD_REDUCE_EXACT);
}
static gd_status other_dtype(gd_world *w)
{
    return gd_world_all_reduce(w, gd_ones(gd_world_ctx(w), GD_F64, 1, (int64_t[]){3}), GD_REDUCE_EXACT);
}
static gd_status other_collective(gd_world *w) { return gd_world_barrier(w); }
static gd_status other_way(gd_world *w)
{
    return gd_world_all_reduce(w, gd_ones(gd_world_ctx(w), GD_F32, 1, (int64_t[]){3}), GD_REDUCE_FAST);
}
static gd_status no_tensor(gd_world *w) { return gd_world_all_reduce(w, NULL, GD_REDUCE_EXACT); }
static gd_status no_sum(gd_world *w)
{
    return gd_world_all_reduce(w, gd_ones(gd_world_ctx(w), GD_U8, 1, (int64_t[]){3}), GD_REDUCE_EXACT);
}

static gd_status one_mistake(gd_world *w, void *user)
{
    const mistake *m = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_F32, 1, (int64_t[]){3});
    gd_status status = gd_world_rank(w) == 2 ? m->make(w) : gd_world_all_reduce(w, x, GD_REDUCE_EXACT);
    bool told = gd_world_rank(w) == 2 || strstr(gd_error_text(ctx), m->text);
    if (!status || !told) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status && told);
    EXPECT(ctx, ((const float *)gd_data(x))[0] == 1);
    TRY(gd_world_all_reduce(w, x, GD_REDUCE_EXACT)); /* the world goes on */
    EXPECT(ctx, ((const float *)gd_data(x))[0] == 4);
    gd_scope_end(ctx);
    return GD_OK;
}

static void ranks_that_disagree_are_named_and_the_world_goes_on(void **state)
{
    static const mistake mistakes[] = {
        {other_shape, "all_reduce: rank 2 brings f32 [4], rank 0 f32 [3]"},
        {other_dtype, "all_reduce: rank 2 brings f64 [3], rank 0 f32 [3]"},
        {other_collective, "world: rank 2 is at barrier where rank 0 is at all_reduce"},
        {other_way, "all_reduce: rank 2 asks for a fast sum, rank 0 for an exact one"},
        {no_tensor, "all_reduce: rank 2 cannot take part: world: the tensor is NULL"},
        {no_sum, "all_reduce: rank 2 cannot take part: all_reduce: there are no sums of u8"},
    };
    for (int i = 0; i < COUNT_OF(mistakes); i++)
        run_in(CTX(state), 4, one_mistake, (void *)(uintptr_t)&mistakes[i]);
}

/* Microbatches that disagree are still there. */
static gd_status other_microbatches(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_F32, 1, (int64_t[]){3});
    gd_microbatches *g = gd_microbatches_new(w, x, 2);
    gd_status status = gd_microbatches_sum(g, x); /* nothing was added */
    gd_clear_error(ctx);
    if (status == GD_STATE) status = gd_microbatches_add(g, x);
    if (!status) status = gd_microbatches_add(g, x) == GD_STATE ? GD_OK : GD_INTERNAL;
    gd_clear_error(ctx);
    if (!status) status = gd_microbatches_sum(g, x);
    gd_microbatches_free(g);
    TRY(status);
    EXPECT(ctx, ((const float *)gd_data(x))[2] == 2);
    gd_scope_end(ctx);
    return GD_OK;
}

static void microbatches_must_all_be_there_and_no_more(void **state)
{
    run_in(CTX(state), 2, other_microbatches, NULL);
}

static gd_status late(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    if (gd_world_rank(w) == 1 || gd_world_rank(w) == 3)
        nanosleep(&(struct timespec){.tv_sec = 2, .tv_nsec = 500000000}, NULL);
    gd_status status = gd_world_barrier(w);
    bool named = strstr(gd_error_text(ctx), "waited 1 seconds for rank 1, rank 3") != NULL;
    if (!named) fprintf(stderr, "rank %d: %s\n", gd_world_rank(w), gd_error_text(ctx));
    EXPECT(ctx, status == GD_STATE && named);
    gd_clear_error(ctx);
    EXPECT(ctx, gd_world_barrier(w) == GD_STATE); /* it stays given up */
    gd_clear_error(ctx);
    return GD_OK;
}

static void a_time_out_names_who_is_missing(void **state)
{
    gd_status status = gd_world_run(CTX(state), "threads:4", &(gd_world_options){.timeout = 1}, late, NULL);
    if (status) fail_msg("%s", gd_error_text(CTX(state)));
}

static gd_status leaves(gd_world *w, void *user)
{
    (void)user;
    if (gd_world_rank(w) == 2) return gd_fail(gd_world_ctx(w), GD_VALUE, "no more of this");
    return gd_world_barrier(w);
}

static void a_rank_that_fails_is_not_waited_for(void **state)
{
    assert_int_equal(gd_world_run(CTX(state), "threads:4", NULL, leaves, NULL), GD_VALUE);
    assert_error(CTX(state), GD_VALUE, "rank 2: no more of this");
}

static void worlds_that_are_not_there_are_one_clear_error(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_null(gd_world_open(ctx, "everything", NULL));
    assert_error(ctx, GD_VALUE,
                 "world 'everything' is not one of 'self', 'threads:1' to 'threads:256', 'mpi', 'nccl'");
    assert_null(gd_world_open(ctx, "threads:0", NULL));
    assert_error(ctx, GD_VALUE, "world 'threads:0' is not one of");
    assert_null(gd_world_open(ctx, "threads:2", NULL));
    assert_error(ctx, GD_STATE, "world 'threads:2': its threads are started by gd_world_run");
    setenv("GRADUS_NCCL", "/nonexistent.so", 1);
    assert_null(gd_world_open(ctx, "nccl", NULL));
    assert_error(ctx, GD_DEVICE, "world 'nccl': the NCCL plugin could not be loaded (/nonexistent.so:");
    assert_null(gd_world_open(ctx, "self", &(gd_world_options){.timeout = -1}));
    assert_error(ctx, GD_VALUE, "world: the time-out is above 0, not -1");
}

/* ---- modules ---- */

/* A network whose numbers are those of its rank's seed. */
static gd_module *network(gd_ctx *ctx, int64_t hidden)
{
    return gd_mlp_new(ctx, (int64_t[]){3, hidden, 2}, 3, NULL);
}

static gd_status equal_starts(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    int rank = gd_world_rank(w);
    gd_scope_begin(ctx);
    gd_module *m = network(ctx, 4);
    gd_named *all = gd_module_parameters(m, NULL);
    for (int64_t i = 0; i < gd_named_count(all); i++)
        TRY(gd_fill(gd_named_tensor(all, i), (double)(10 * i + rank)));
    TRY(gd_module_broadcast(m, w, 1));
    for (int64_t i = 0; i < gd_named_count(all); i++) {
        gd_tensor *sum = gd_max(gd_abs(gd_add_scalar(gd_named_tensor(all, i), -(double)(10 * i + 1))), NULL,
                                false);
        EXPECT(ctx, gd_item(sum) == 0);
    }
    gd_scope_end(ctx);
    return GD_OK;
}

static void a_broadcast_module_is_the_same_everywhere(void **state)
{
    run_in(CTX(state), 3, equal_starts, NULL);
}

/* Rank 2's hidden layer is wider. */
static gd_status other_module(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_module *m = network(ctx, gd_world_rank(w) == 2 ? 5 : 4);
    gd_tensor *first = gd_named_tensor(gd_module_parameters(m, NULL), 0);
    TRY(gd_fill(first, gd_world_rank(w)));
    gd_status status = gd_module_broadcast(m, w, 0);
    bool told = strstr(gd_error_text(ctx), "module_broadcast: rank 2 brings f32 [") &&
                strstr(gd_error_text(ctx), "for '") && strstr(gd_error_text(ctx), "rank 0 f32 [");
    if (!told) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_MISMATCH && told);
    EXPECT(ctx, gd_item(gd_max(first, NULL, false)) == gd_world_rank(w));
    gd_module *bare = gd_world_rank(w) == 1 ? gd_linear_new(ctx, 3, 2, NULL) : m;
    status = gd_module_broadcast(bare, w, 0);
    told = strstr(gd_error_text(ctx),
                  "module_broadcast: rank 1 brings a module of 2 parameters and buffers, rank 0 "
                  "a module of 4 parameters and buffers") != NULL;
    if (!told) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_clear_error(ctx);
    EXPECT(ctx, status == GD_MISMATCH && told);
    gd_scope_end(ctx);
    return GD_OK;
}

static void modules_that_differ_are_named_and_stay_as_they_are(void **state)
{
    run_in(CTX(state), 3, other_module, NULL);
}

/* ---- devices ---- */

/* A transposed view too, which is staged through a second copy there. */
static gd_status on_device(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_device *gpu = gd_device_get(ctx, "gpu");
    gd_tensor *m = gd_to_device(gd_reshape(gd_arange(ctx, GD_F32, 0, 6, 1), 2, (int64_t[]){2, 3}), gpu);
    TRY(gd_world_all_reduce(w, m, GD_REDUCE_EXACT));
    TRY(gd_world_all_reduce(w, gd_transpose(m, 0, 1), GD_REDUCE_EXACT));
    gd_tensor *rows = gd_zeros_like(gd_cat((gd_tensor *[]){m, m}, 2, "0"));
    TRY(gd_world_all_gather(w, m, rows));
    for (int64_t i = 0; i < 12; i++)
        EXPECT(ctx, gd_at(rows, (int64_t[]){i / 3, i % 3}) == (double)(4 * (i % 6)) &&
                        gd_tensor_device(rows) == gpu);
    TRY(gd_fill(m, gd_world_rank(w)));
    gd_tensor *mixed = gd_zeros_like(m); /* its first row goes to the first rank */
    TRY(gd_world_all_to_all(w, m, (int64_t[]){0, 3, 6},
                            gd_transpose(gd_reshape(mixed, 2, (int64_t[]){3, 2}), 0, 1),
                            (int64_t[]){0, 3, 6}));
    EXPECT(ctx, gd_at(mixed, (int64_t[]){0, 0}) == 0 && gd_at(mixed, (int64_t[]){1, 2}) == 1);
    TRY(gd_world_broadcast(w, m, 1));
    EXPECT(ctx, gd_at(m, (int64_t[]){1, 2}) == 1);
    gd_scope_end(ctx);
    return GD_OK;
}

static void tensors_on_a_device_are_staged(void **state)
{
    setenv("GRADUS_CUDA", "./libgradus_plain.so", 1);
    run_in(CTX(state), 2, on_device, NULL);
}

/* Where no message has to leave it, sums are made on the device, views and microbatches too, with the bits that the host has. */
static gd_status stay_there(gd_world *w, void *user)
{
    const microbatch_case *c = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_device *gpu = gd_device_get(ctx, "gpu"), *cpu = gd_device_get(ctx, "cpu");
    gd_scope_begin(ctx);
    gd_tensor *there = gd_to_device(gd_zeros(ctx, c->dtype, 1, &c->numel), gpu);
    gd_microbatches *sum = gd_microbatches_new(w, there, c->total);
    gd_status status = sum ? GD_OK : gd_error(ctx);
    for (int64_t g = 0; g < c->total && !status; g++)
        status = gd_microbatches_add(sum, gd_to_device(microbatch_of(ctx, c, g), gpu));
    if (!status) status = gd_microbatches_sum(sum, there);
    gd_microbatches_free(sum);
    TRY(status);
    gd_tensor *here = gd_zeros(ctx, c->dtype, 1, &c->numel);
    TRY(sum_microbatches(w, here, c));
    size_t bytes = (size_t)c->numel * gd_dtype_size(c->dtype);
    EXPECT(ctx, !memcmp(gd_data(here), gd_data(gd_to_device(there, cpu)), bytes));
    gd_tensor *m = gd_transpose(gd_reshape(gd_arange(ctx, GD_F32, 0, 6, 1), 2, (int64_t[]){2, 3}), 0, 1);
    gd_tensor *view = gd_to_device(m, gpu), *all = gd_zeros_like(view);
    TRY(gd_world_all_reduce(w, view, GD_REDUCE_EXACT));
    TRY(gd_world_reduce_scatter(w, view, all));
    TRY(gd_world_all_gather(w, all, view));
    TRY(gd_world_broadcast(w, view, 0));
    EXPECT(ctx, gd_at(view, (int64_t[]){2, 1}) == 5 && gd_device_host_calls(gpu) == 0);
    gd_scope_end(ctx);
    return GD_OK;
}

static void alone_tensors_are_summed_where_they_are(void **state)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_I64};
    setenv("GRADUS_CUDA", "./libgradus_plain.so", 1);
    for (int d = 0; d < COUNT_OF(dtypes); d++) {
        microbatch_case c = {.dtype = dtypes[d], .numel = 1031, .total = 5};
        gd_status status = gd_world_run(CTX(state), "self", NULL, stay_there, &c);
        if (status) fail_msg("%s: %s", gd_dtype_name(dtypes[d]), gd_error_text(CTX(state)));
    }
}

/* ---- memory ---- */

static gd_status a_sum(gd_world *w, void *user)
{
    (void)user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_ones(ctx, GD_BF16, 1, (int64_t[]){15});
    gd_status status = gd_world_all_reduce(w, x, GD_REDUCE_EXACT);
    if (!status)
        status = sum_microbatches(w, x, &(microbatch_case){.dtype = GD_BF16, .numel = 15, .total = 5});
    gd_module *m = status ? NULL : network(ctx, 2);
    if (!status) status = m ? gd_module_broadcast(m, w, 0) : gd_error(ctx);
    gd_scope_end(ctx);
    return status;
}

static bool sums_alone(gd_ctx *ctx)
{
    return gd_world_run(ctx, "self", NULL, a_sum, NULL) == GD_OK && !gd_error(ctx);
}
static bool sums_together(gd_ctx *ctx) { return gd_world_run(ctx, "threads:3", NULL, a_sum, NULL) == GD_OK; }

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, sums_alone);
    fail_each_allocation(1, sums_together);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        TEST(collectives_do_what_they_say),
        TEST(many_ranks_are_compared_by_the_first),
        TEST(shards_of_different_lengths_are_gathered_and_scattered),
        TEST(every_rank_gets_what_others_have_for_it),
        TEST(views_are_summed_in_place),
        TEST(collectives_overlap_and_are_waited_for_in_any_order),
        TEST(sums_over_microbatches_have_the_same_bits_with_1_to_8_ranks),
        TEST(halves_are_summed_in_f32_and_rounded_once),
        TEST(a_tree_without_siblings_is_cut_where_the_microbatches_end),
        TEST(ranks_that_disagree_are_named_and_the_world_goes_on),
        TEST(microbatches_must_all_be_there_and_no_more),
        TEST(a_time_out_names_who_is_missing),
        TEST(a_rank_that_fails_is_not_waited_for),
        TEST(worlds_that_are_not_there_are_one_clear_error),
        TEST(a_broadcast_module_is_the_same_everywhere),
        TEST(modules_that_differ_are_named_and_stay_as_they_are),
        TEST(tensors_on_a_device_are_staged),
        TEST(alone_tensors_are_summed_where_they_are),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
