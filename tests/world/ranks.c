/* A program for any world, started by a launcher or not: every collective, exact and fast, the same bits as alone on the host, and
 * a rank that is missing.  One launch loops over all cases.
 *
 *     mpirun -n 3 test_world_ranks mpi
 *     test_world_ranks nccl gpu                  77: there is no such world or device */
#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "rank %d, line %d: %s: %s\n", gd_world_rank(w), __LINE__, #condition, \
                    gd_error_text(gd_world_ctx(w)));                                              \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

/* Depends on the order in which it is summed. */
static double value_of(int64_t microbatch, int64_t i)
{
    uint64_t h = (uint64_t)(microbatch * 7919 + i * 104729 + 1) * 0x9E3779B97F4A7C15u;
    return ((double)(h >> 11) / 9007199254740992.0 - 0.5) * (double)(1 << (h % 20));
}

static gd_tensor *microbatch_of(gd_device *device, gd_ctx *ctx, gd_dtype dtype, int64_t numel, int64_t g)
{
    double *x = malloc((size_t)(numel + 1) * sizeof *x);
    for (int64_t i = 0; i < numel; i++) x[i] = value_of(g, i);
    gd_tensor *t = gd_from_f64(ctx, dtype, 1, &numel, x);
    free(x);
    return gd_to_device(t, device);
}

static gd_tensor *sum_of(gd_world *w, gd_device *device, gd_dtype dtype, int64_t numel, int64_t total)
{
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *out = gd_to_device(gd_zeros(ctx, dtype, 1, &numel), device);
    gd_microbatches *sum = gd_microbatches_new(w, out, total);
    int64_t first, count;
    gd_world_share(w, total, &first, &count);
    for (int64_t g = first; g < first + count; g++)
        CHECK(gd_microbatches_add(sum, microbatch_of(device, ctx, dtype, numel, g)) == GD_OK);
    CHECK(gd_microbatches_sum(sum, out) == GD_OK);
    gd_microbatches_free(sum);
    return gd_to_device(out, gd_device_get(ctx, "cpu"));
}

static void same_bits_as_alone(gd_world *w, gd_world *alone, gd_device *device, bool quick)
{
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16};
    static const int64_t sizes[] = {0, 1, 17, 40003}, totals[] = {1, 3, 8, 13};
    for (int d = 0; d < 3; d++)
        for (int s = 0; s < (quick ? 3 : 4); s++)
            for (int t = 0; t < 4; t++) {
                gd_ctx *ctx = gd_world_ctx(w);
                gd_scope_begin(ctx);
                gd_tensor *here = sum_of(alone, gd_device_get(ctx, "cpu"), dtypes[d], sizes[s], totals[t]);
                gd_tensor *there = sum_of(w, device, dtypes[d], sizes[s], totals[t]);
                size_t bytes = (size_t)sizes[s] * gd_dtype_size(dtypes[d]);
                CHECK(!bytes || !memcmp(gd_data(here), gd_data(there), bytes));
                gd_scope_end(ctx);
            }
}

static void every_collective(gd_world *w, gd_device *device)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int n = gd_world_size(w), rank = gd_world_rank(w);
    gd_scope_begin(ctx);
    for (int how = GD_REDUCE_EXACT; how <= GD_REDUCE_FAST; how++)
        for (int d = 0; d < 3; d++) {
            static const gd_dtype dtypes[] = {GD_F32, GD_I64, GD_BF16};
            gd_tensor *x = gd_to_device(gd_full(ctx, dtypes[d], 1, (int64_t[]){33}, rank + 1), device);
            CHECK(gd_world_all_reduce(w, x, (gd_reduce)how) == GD_OK);
            CHECK(gd_at(x, (int64_t[]){32}) == n * (n + 1) / 2);
        }
    gd_tensor *row = gd_to_device(gd_full(ctx, GD_U8, 1, (int64_t[]){2}, rank), device),
              *rows = gd_to_device(gd_zeros(ctx, GD_U8, 2, (int64_t[]){n, 2}), device);
    CHECK(gd_world_all_gather(w, row, rows) == GD_OK);
    for (int r = 0; r < n; r++) CHECK(gd_at(rows, (int64_t[]){r, 1}) == r);
    gd_tensor *all = gd_to_device(gd_arange(ctx, GD_F64, 0, 3 * n, 1), device),
              *mine = gd_to_device(gd_zeros(ctx, GD_F64, 1, (int64_t[]){3}), device);
    CHECK(gd_world_reduce_scatter(w, all, mine) == GD_OK);
    CHECK(gd_at(mine, (int64_t[]){2}) == n * (3 * rank + 2));
    int64_t cuts[65] = {0},
            out_cuts[65] = {
                0}; /* rank r has 1000 (r + s) numbers for rank s: nothing from the first to itself */
    CHECK(n < 65);
    for (int r = 0; r < n; r++) {
        cuts[r + 1] = cuts[r] + 1000 * (rank + r);
        out_cuts[r + 1] = out_cuts[r] + 1000 * (r + rank);
    }
    gd_tensor *from = gd_to_device(gd_full(ctx, GD_F32, 1, &cuts[n], rank), device),
              *to = gd_to_device(gd_full(ctx, GD_F32, 1, &out_cuts[n], -1), device);
    CHECK(gd_world_all_to_all(w, from, cuts, to, out_cuts) == GD_OK);
    for (int r = 0; r < n; r++)
        for (int64_t i = out_cuts[r]; i < out_cuts[r + 1]; i += 999) CHECK(gd_at(to, &i) == r);
    for (int root = 0; root < n; root++) {
        gd_tensor *t = gd_to_device(gd_full(ctx, GD_F32, 1, (int64_t[]){100000}, rank == root ? 7 : -1),
                                    device);
        CHECK(gd_world_broadcast(w, t, root) == GD_OK);
        CHECK(gd_at(t, (int64_t[]){99999}) == 7);
    }
    gd_scope_end(ctx);
}

/* Fast sums go to MPI in the same order on all ranks, whichever hears first that it may begin. */
static void several_under_way(gd_world *w, gd_device *device, int rounds)
{
    gd_ctx *ctx = gd_world_ctx(w);
    for (int round = 0; round < rounds; round++) {
        gd_tensor *t[6];
        gd_exchange *work[6];
        gd_scope_begin(ctx);
        for (int i = 0; i < 6; i++) {
            t[i] = gd_to_device(gd_full(ctx, GD_F64, 1, (int64_t[]){1000}, i + 1), device);
            gd_reduce how = i % 3 == 2 ? GD_REDUCE_EXACT : GD_REDUCE_FAST;
            work[i] = gd_world_start(w, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = t[i], .how = how});
        }
        for (int i = 5; i >= 0; i--) {
            CHECK(gd_world_wait(work[i]) == GD_OK);
            CHECK(gd_at(t[i], (int64_t[]){999}) == (i + 1) * gd_world_size(w));
        }
        gd_scope_end(ctx);
    }
}

static void disagreeing(gd_world *w, gd_device *device)
{
    gd_ctx *ctx = gd_world_ctx(w);
    int last = gd_world_size(w) - 1;
    char want[100];
    if (!last) return;
    gd_scope_begin(ctx);
    gd_tensor *x = gd_to_device(gd_ones(ctx, GD_F32, 1, (int64_t[]){gd_world_rank(w) == last ? 4 : 3}),
                                device);
    CHECK(gd_world_all_reduce(w, x, GD_REDUCE_EXACT) == GD_MISMATCH);
    snprintf(want, sizeof want, "all_reduce: rank %d brings f32 [4], rank 0 f32 [3]", last);
    CHECK(!strcmp(gd_error_text(ctx), want));
    gd_clear_error(ctx);
    gd_scope_end(ctx);
}

/* The last rank fails where the others have started several sums: all of these end, and all go on together. */
static void failing_alone(gd_world *w, gd_device *device)
{
    gd_ctx *ctx = gd_world_ctx(w);
    bool fails = gd_world_rank(w) == gd_world_size(w) - 1;
    gd_exchange *work[4] = {NULL};
    if (gd_world_size(w) == 1) return;
    for (int count = 1; count <= 4; count++) {
        gd_scope_begin(ctx);
        for (int i = 0; i < count && !fails; i++) {
            gd_tensor *t = gd_to_device(gd_ones(ctx, GD_F64, 1, (int64_t[]){1000}), device);
            work[i] = gd_world_start(w, &(gd_collective){.kind = GD_ALL_REDUCE, .tensor = t});
        }
        if (fails) CHECK(gd_world_agree(w, gd_fail(ctx, GD_VALUE, "there is no loss")) == GD_VALUE);
        for (int i = 0; i < count && !fails; i++)
            CHECK((work[i] ? gd_world_wait(work[i]) : gd_error(ctx)) == GD_VALUE);
        CHECK(strstr(gd_error_text(ctx), "there is no loss"));
        gd_clear_error(ctx);
        CHECK(gd_world_barrier(w) == GD_OK);
        gd_scope_end(ctx);
    }
}

/* What a rank does. */
typedef struct job {
    const char *device; /* "gpu"; NULL: on the host */
    bool quick;         /* for valgrind */
    bool missing;       /* rank 2 comes too late */
    bool leaves;        /* rank 2 does not come: it has failed, and ends */
} job;

static gd_status run_rank(gd_world *w, void *user)
{
    const job *j = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_device *device = gd_device_get(ctx, j->device ? j->device : "cpu");
    gd_world *alone = device ? gd_world_open(ctx, "self", NULL) : NULL;
    if (!alone) return gd_error(ctx);
    if (j->missing) {
        if (gd_world_rank(w) == 2) nanosleep(&(struct timespec){.tv_sec = 20}, NULL);
        gd_world_free(alone);
        return gd_world_barrier(w);
    }
    if (j->leaves) {
        gd_world_free(alone);
        return gd_world_rank(w) == 2 ? gd_fail(ctx, GD_VALUE, "no such file") : gd_world_barrier(w);
    }
    every_collective(w, device);
    several_under_way(w, device, j->quick ? 3 : 30);
    disagreeing(w, device);
    failing_alone(w, device);
    same_bits_as_alone(w, alone, device, j->quick);
    CHECK(gd_world_barrier(w) == GD_OK && !gd_error(ctx));
    gd_world_free(alone);
    return GD_OK;
}

int main(int argc, char **argv)
{
    job j = {0};
    gd_options options = gd_options_default();
    options.threads = 1;
    for (int i = 2; i < argc; i++) {
        if (!strcmp(argv[i], "quick"))
            j.quick = true;
        else if (!strcmp(argv[i], "missing"))
            j.missing = true;
        else if (!strcmp(argv[i], "leaves"))
            j.leaves = true;
        else
            j.device = argv[i];
    }
    if (argc < 2) {
        fprintf(stderr, "test_world_ranks WORLD [DEVICE] [quick] [missing] [leaves]\n");
        return 2;
    }
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_world_options o = gd_world_defaults();
    o.timeout = j.missing ? 0.5 : 60;
    gd_status status = gd_world_run(ctx, argv[1], &o, run_rank, &j);
    if (status) fprintf(stderr, "%s\n", gd_error_text(ctx));
    gd_ctx_free(ctx);
    return status == GD_DEVICE ? 77 : status != GD_OK;
}
