/* `gradus train` in every rank of a world of threads: the files of one process, and what it holds. */
#include "cli/cli.h"
#include "cli/program.h"
#include "support/ranks.h"

#include <gradus/gradus.h>
#include <stdatomic.h>

/* ---- the command in a rank ---- */

typedef struct launch {
    const char *words;
    _Atomic int64_t most; /* bytes of the rank that has most at a time */
} launch;

static gd_status train_here(gd_world *w, void *user)
{
    launch *l = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_cli cli = {.ctx = ctx, .out = gd__text(ctx), .world = gd_world_size(w) > 1 ? w : NULL};
    char text[1000], *words[64];
    (void)snprintf(text, sizeof text, "train %s --json --world self", l->words);
    peak = live;
    int code = gd__cli_dispatch(&cli, split_words(text, words, 64), words);
    most_of(&l->most, peak);
    gd__text_free(&cli.out);
    return !code ? GD_OK : gd_error(ctx) ? gd_error(ctx) : GD_NOMEM;
}

static int64_t train_in(int ranks, int threads, const char *words)
{
    gd_options options = gd_options_default();
    launch l = {.words = words};
    char world[16];
    options.threads = threads;
    options.pool = options.compile = false;
    if (threads == 1) options.allocator.fn = counted;
    gd_ctx *ctx = gd_ctx_new(&options);
    (void)snprintf(world, sizeof world, "threads:%d", ranks);
    if (gd_world_run(ctx, world, NULL, train_here, &l))
        fail_msg("%s, %s: %s", world, words, gd_error_text(ctx));
    gd_ctx_free(ctx);
    return l.most;
}

/* ---- the same files ---- */

static void put_table(int rows)
{
    FILE *f = fopen("table.csv", "w");
    assert_non_null(f);
    fprintf(f, "a,b,c,y\n");
    for (int i = 0; i < rows; i++) {
        int a = i * 37 % 101, b = i * 53 % 97, c = i * 71 % 89;
        fprintf(f, "%d,%d,%d,%d\n", a, b, c, a * b / 50 - c);
    }
    assert_int_equal(fclose(f), 0);
}

static void put_images(int64_t rows)
{
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_rand(ctx, GD_F32, 3, (int64_t[]){rows, 6, 6});
    gd_tensor *y = gd_cast(gd_gt(gd_mean(gd_reshape(x, 2, (int64_t[]){rows, 36}), "1", false),
                                 gd_full(ctx, GD_F32, 0, NULL, 0.5)),
                           GD_I64);
    assert_int_equal(gd_npy_save(x, "images.npy"), GD_OK);
    assert_int_equal(gd_npy_save(y, "labels.npy"), GD_OK);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

static const char *const shards[] = {"none", "state", "gradients"};
static const int sizes[] = {1, 2, 3, 4, 8};
static const char *const models[] = {
    "table.csv --target y --model 'mlp(9, dropout=0.2)' --batch 50 --microbatch 7 --validation 0.4 --epochs 2",
    "images.npy --target labels.npy --model 'conv(4, dense=5)' --microbatch 7 --batch 40 --epochs 2"};

static size_t read_file(const char *path, char **data)
{
    *data = malloc(1 << 20);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(*data, 1, 1 << 20, f);
    fclose(f);
    return size;
}

static void assert_same_file(const char *path, const char *want, size_t size, const char *what)
{
    char *got;
    size_t has = read_file(path, &got);
    if (has != size || memcmp(got, want, size)) fail_msg("%s: another %s than one process has", what, path);
    free(got);
}

/* One way for each number of ranks and model; with GD_WORLD_ALL every way. */
static void every_number_of_ranks_gives_the_files_of_one(void **state)
{
    (void)state;
    char words[400], *want;
    put_table(200);
    put_images(90);
    for (int m = 0; m < COUNT_OF(models); m++) {
        (void)snprintf(words, sizeof words, "%s --out one.safetensors", models[m]);
        (void)train_in(1, 1, words);
        size_t size = read_file("one.safetensors", &want);
        for (int way = 0; way < COUNT_OF(sizes) * COUNT_OF(shards) * 2; way++) {
            int n = way % COUNT_OF(sizes), shard = way / COUNT_OF(sizes) % COUNT_OF(shards),
                threads = 1 + way / (COUNT_OF(sizes) * COUNT_OF(shards));
            bool chosen = shard == (n + m) % COUNT_OF(shards) && threads == 1 + (n / 2 + m) % 2;
            if (!chosen && !getenv("GD_WORLD_ALL")) continue;
            (void)snprintf(words, sizeof words, "%s --out many.safetensors --shard %s", models[m],
                           sizes[n] > 1 ? shards[shard] : "none");
            (void)train_in(sizes[n], threads, words);
            (void)snprintf(words, sizeof words, "model %d, %d ranks of %d threads, shard %s", m, sizes[n],
                           threads, shards[shard]);
            assert_same_file("many.safetensors", want, size, words);
        }
        free(want);
    }
}

/* ---- memory ---- */

/* What grows with the parameters, in bytes for each but for itself. */
static double bytes_beside(int ranks, const char *options)
{
    enum { SIZES = 16 };
    int64_t most[2], wide = 600;
    for (int k = 0; k < 2; k++) {
        char words[600];
        int used = snprintf(
            words, sizeof words,
            "table.csv --target y --validation 0 --epochs 2 --chain 'adam | lr(0.01)' %s --model 'mlp(",
            options);
        for (int i = 0; i < SIZES; i++)
            used += snprintf(words + used, sizeof words - (size_t)used, "%s%d", i ? "," : "",
                             k ? (int)wide : 1);
        (void)snprintf(words + used, sizeof words - (size_t)used, ")'");
        most[k] = train_in(ranks, 1, words);
    }
    double parameters = (double)((SIZES - 1) * wide * wide + (SIZES + 4) * wide);
    return (double)(most[1] - most[0]) / parameters - 4;
}

/* adam, microbatches as many as ranks: state and gradients are 12 bytes, of four ranks 3 each; the largest of 15 matrices is whole while
 * its gradient is made, in the buckets on their way and in those of the parameters that come back. */
static void four_ranks_hold_a_quarter_of_state_and_gradients(void **state)
{
    (void)state;
    put_table(8);
    double one = bytes_beside(1, "--batch 8 --microbatch 2"),
           four = bytes_beside(4, "--batch 8 --microbatch 2 --shard gradients"),
           whole = bytes_beside(4, "--batch 8 --microbatch 2 --shard none");
    assert_true(one >= 12 && whole >= 12);
    if (four > 0.27 * one || four > 0.3 * 12)
        fail_msg("%.2f bytes per parameter, one process has %.2f", four, one);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, enter_folder, leave_folder)
    const struct CMUnitTest tests[] = {
        TEST(every_number_of_ranks_gives_the_files_of_one),
        TEST(four_ranks_hold_a_quarter_of_state_and_gradients),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
