/* A training that is killed by tests/world/kill.py: steps over microbatches in the world of MPI, state over all ranks, and a checkpoint
 * after each into which every rank writes its own.
 *
 *     mpirun -n 3 test_world_steps train FILE STEPS TIMEOUT    prints "step N" from rank 0
 *     test_world_steps check FILE                              loads it, and takes as many steps alone: the same bits? */
#include <gradus/gradus.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUTS = 24, HIDDEN = 1024, CLASSES = 4, BATCH = 48, MICROBATCHES = 6, MOST_PARAMETERS = 16 };

typedef struct training {
    gd_ctx *ctx;
    gd_world *world;
    gd_module *net;
    gd_optimizer *opt;
    gd_named *params;
    gd_microbatches *sum[MOST_PARAMETERS];
    int count;
} training;

#define CHECK(ctx, condition)                                                                        \
    do {                                                                                             \
        if (!(condition)) {                                                                          \
            fprintf(stderr, "steps.c, line %d: %s: %s\n", __LINE__, #condition, gd_error_text(ctx)); \
            exit(3);                                                                                 \
        }                                                                                            \
    } while (0)

/* ---- data and model: the same in every process ---- */

static double number(uint64_t i)
{
    uint64_t h = (i + 1) * 0x9E3779B97F4A7C15u;
    h = (h ^ (h >> 29)) * 0xBF58476D1CE4E5B9u;
    return (double)(h >> 11) / 9007199254740992.0 - 0.5;
}

static gd_tensor *rows_of(gd_ctx *ctx, int64_t step, int64_t first, int64_t count)
{
    float x[BATCH * INPUTS];
    for (int64_t i = 0; i < count * INPUTS; i++)
        x[i] = (float)number((uint64_t)((step * BATCH + first) * INPUTS + i));
    return gd_from_data(ctx, GD_F32, 2, (int64_t[]){count, INPUTS}, x);
}

static gd_tensor *classes_of(gd_ctx *ctx, int64_t first, int64_t count)
{
    int64_t y[BATCH];
    for (int64_t i = 0; i < count; i++) y[i] = (first + i) % CLASSES;
    return gd_from_data(ctx, GD_I64, 1, &count, y);
}

static void open_training(training *t, gd_ctx *ctx, gd_world *world)
{
    *t = (training){.ctx = ctx, .world = world};
    t->net = gd_mlp_new(ctx, (int64_t[]){INPUTS, HIDDEN, CLASSES}, 3, NULL);
    t->params = gd_module_parameters(t->net, NULL);
    t->opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.01)"));
    CHECK(ctx, t->opt && gd_optimizer_add_module(t->opt, t->net, NULL, NULL) == GD_OK);
    t->count = (int)gd_named_count(t->params);
    for (int i = 0; i < t->count; i++) {
        gd_tensor *p = gd_named_tensor(t->params, i);
        float *data = gd_data_mut(p);
        for (int64_t k = 0; k < gd_numel(p); k++)
            data[k] = (float)(0.3 * number((uint64_t)(k + 1000003 * i)));
        t->sum[i] = gd_microbatches_new(world, p, MICROBATCHES);
    }
    CHECK(ctx, !gd_error(ctx));
}

static void close_training(training *t)
{
    for (int i = 0; i < t->count; i++) gd_microbatches_free(t->sum[i]);
    gd_optimizer_free(t->opt);
    gd_named_release(t->params);
    gd_module_release(t->net);
}

/* ---- steps ---- */

static void one_microbatch(training *t, int64_t step, int64_t microbatch)
{
    enum { ROWS = BATCH / MICROBATCHES };
    gd_scope_begin(t->ctx);
    gd_tensor *logits = gd_module_call(t->net, rows_of(t->ctx, step, microbatch * ROWS, ROWS));
    gd_tensor *loss = gd_cross_entropy(logits, classes_of(t->ctx, microbatch * ROWS, ROWS));
    gd_optimizer_zero_grad(t->opt);
    CHECK(t->ctx, gd_backward(loss, gd_scalar(t->ctx, GD_F32, 1.0 / MICROBATCHES), 0) == GD_OK);
    for (int i = 0; i < t->count; i++)
        CHECK(t->ctx, gd_microbatches_add(t->sum[i], gd_grad_of(gd_named_tensor(t->params, i))) == GD_OK);
    gd_scope_end(t->ctx);
}

static void one_step(training *t, int64_t step)
{
    int64_t first, count;
    gd_world_share(t->world, MICROBATCHES, &first, &count);
    for (int64_t g = first; g < first + count; g++) one_microbatch(t, step, g);
    gd_scope_begin(t->ctx);
    for (int i = 0; i < t->count; i++) {
        gd_tensor *p = gd_named_tensor(t->params, i), *grad = gd_zeros_like(p);
        CHECK(t->ctx, gd_microbatches_sum(t->sum[i], grad) == GD_OK && gd_set_grad(p, grad) == GD_OK);
    }
    CHECK(t->ctx, gd_optimizer_step(t->opt, NULL, NULL) == GD_OK);
    gd_scope_end(t->ctx);
}

/* ---- on disk ---- */

static gd_archive *state_of(training *t)
{
    gd_archive *a = gd_archive_new(t->ctx);
    CHECK(t->ctx, a && gd_optimizer_pack(t->opt, a, NULL) == GD_OK);
    return a;
}

static int64_t steps_in(gd_ctx *ctx, const gd_archive *file)
{
    const char *text = gd_archive_get_meta(file, "optimizer"), *at = text ? strstr(text, "\"step\": ") : NULL;
    CHECK(ctx, at);
    return strtoll(at + 8, NULL, 10);
}

static void compare(gd_ctx *ctx, const gd_archive *want, const gd_archive *got)
{
    CHECK(ctx, gd_archive_count(want) > 0 && gd_archive_count(want) == gd_archive_count(got));
    for (int64_t i = 0; i < gd_archive_count(want); i++) {
        gd_tensor *a = gd_archive_get(want, i), *b = gd_archive_find(got, gd_archive_name(want, i));
        CHECK(ctx, b && gd_numel(a) == gd_numel(b) && gd_tensor_dtype(a) == gd_tensor_dtype(b));
        CHECK(ctx, !memcmp(gd_data(a), gd_data(b), (size_t)gd_numel(a) * gd_dtype_size(gd_tensor_dtype(a))));
    }
}

static int check(gd_ctx *ctx, const char *path)
{
    training t;
    gd_archive *file = gd_archive_load(ctx, path);
    gd_world *alone = gd_world_open(ctx, "self", NULL);
    CHECK(ctx, file && alone);
    int64_t steps = steps_in(ctx, file);
    open_training(&t, ctx, alone);
    for (int64_t s = 0; s < steps; s++) one_step(&t, s);
    gd_archive *want = state_of(&t);
    compare(ctx, want, file);
    gd_archive_free(want);
    gd_archive_free(file);
    close_training(&t);
    gd_world_free(alone);
    printf("whole at step %" PRId64 "\n", steps);
    return 0;
}

static int train(gd_ctx *ctx, char **arg)
{
    training t;
    int64_t steps = strtoll(arg[3], NULL, 10);
    gd_world *world = gd_world_open(ctx, "mpi", &(gd_world_options){.timeout = strtod(arg[4], NULL)});
    CHECK(ctx, world);
    open_training(&t, ctx, world);
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = GD_SHARD_STATE;
    options.joined = true; /* the microbatches are */
    CHECK(ctx, gd_optimizer_distribute(t.opt, world, &options) == GD_OK);
    for (int64_t s = 0; s < steps; s++) {
        one_step(&t, s);
        CHECK(ctx, gd_optimizer_save(t.opt, arg[2]) == GD_OK);
        if (gd_world_rank(world)) continue;
        printf("step %" PRId64 "\n", s + 1);
        fflush(stdout);
    }
    close_training(&t);
    gd_world_free(world);
    return 0;
}

int main(int argc, char **argv)
{
    bool trains = argc == 5 && !strcmp(argv[1], "train"), checks = argc == 3 && !strcmp(argv[1], "check");
    if (!trains && !checks) {
        fprintf(stderr, "test_world_steps train FILE STEPS TIMEOUT | check FILE\n");
        return 2;
    }
    gd_options options = gd_options_default();
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    int code = trains ? train(ctx, argv) : check(ctx, argv[2]);
    gd_ctx_free(ctx);
    return code;
}
