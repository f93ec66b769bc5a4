/* Steps that ranks share, over tables on a device: each runs the chunks it owns of the kernels that a GPU would get (host_gpu.h), and all
 * end with the bits of one that runs them all. */
#include "host_gpu.h"
#include "support/ranks.h"

enum { PARAMS = 3, STEPS = 3 };
static const int64_t shapes[PARAMS][2] = {{2, 3}, {170, 100}, {300, 130}};

static const char *const chains[] = {
    "clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(0.1)", /* sums over all chunks */
    "clip_norm(1) | heavy_ball | lr(0.1)",                                /* of each tensor */
    "adafactor | lr(0.1)",            /* along axes: tensors have an owner each */
    "adam(state=\"8bit\") | lr(0.1)", /* blocks of codes */
    "dropout(0.3) | sign | lr(0.01)", /* random numbers by their place */
};

typedef struct outcome {
    float *param[PARAMS];
} outcome;

typedef struct job {
    const char *chain;
    gd_shard shard;
    outcome *want;
} job;

static gd_status set_grads(gd_tensor **p, gd_device *device, int step)
{
    for (int i = 0; i < PARAMS; i++) {
        gd_ctx *ctx = gd_tensor_ctx(p[i]);
        double numel = (double)(shapes[i][0] * shapes[i][1]);
        gd_tensor *g = gd_sin(gd_mul_scalar(gd_arange(ctx, GD_F64, 0, numel, 1), 0.7 + 0.1 * step));
        g = gd_to_device(gd_reshape(gd_cast(g, GD_F32), 2, shapes[i]), device);
        TRY(gd_set_grad(p[i], gd_detach(g)));
    }
    return GD_OK;
}

/* The same gradients at every rank, of which one brings them and the others zeros: exact, whatever is added first. */
static gd_status make_steps(gd_ctx *ctx, gd_world *w, const job *j, gd_device *device, gd_tensor **p)
{
    gd_distribute_options options = gd_distribute_defaults();
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, j->chain));
    gd_seed(ctx, 5);
    for (int i = 0; i < PARAMS; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "p%d", i);
        gd_tensor *first = gd_to_device(gd_full(ctx, GD_F32, 2, shapes[i], 0.5), device);
        p[i] = gd_require_grad(gd_detach(first));
        TRY(gd_optimizer_add(o, name, p[i]));
    }
    options.shard = j->shard;
    options.bucket = 30000;
    if (w) TRY(gd_optimizer_distribute(o, w, &options));
    for (int step = 0; step < STEPS; step++) {
        TRY(set_grads(p, device, step));
        for (int i = 0; w && gd_world_rank(w) && i < PARAMS; i++)
            TRY(gd_set_grad(p[i], gd_zeros_like(gd_detach(p[i]))));
        TRY(gd_optimizer_step(o, NULL, NULL));
    }
    gd_optimizer_free(o);
    return gd_error(ctx);
}

static gd_status take_share(gd_world *w, void *user)
{
    const job *j = user;
    gd_ctx *ctx = gd_world_ctx(w);
    gd_tensor *p[PARAMS];
    host_gpu *gpu = host_gpu_open(ctx);
    gd_scope_begin(ctx);
    TRY(make_steps(ctx, w, j, &gpu->device, p));
    for (int i = 0; i < PARAMS; i++) {
        const gd_tensor *here = gd_to_device(gd_detach(p[i]), gd_device_get(ctx, "cpu"));
        EXPECT(ctx, !memcmp(gd_data(here), j->want->param[i], (size_t)gd_numel(here) * sizeof(float)));
    }
    gd_scope_end(ctx);
    host_gpu_close(gpu);
    return GD_OK;
}

static void run_alone(gd_ctx *ctx, const job *j)
{
    gd_tensor *p[PARAMS];
    host_gpu *gpu = host_gpu_open(ctx);
    gd_scope_begin(ctx);
    assert_int_equal(make_steps(ctx, NULL, j, &gpu->device, p), GD_OK);
    for (int i = 0; i < PARAMS; i++) {
        const gd_tensor *here = gd_to_device(gd_detach(p[i]), gd_device_get(ctx, "cpu"));
        size_t bytes = (size_t)gd_numel(here) * sizeof(float);
        assert_non_null(j->want->param[i] = malloc(bytes));
        memcpy(j->want->param[i], gd_data(here), bytes);
    }
    gd_scope_end(ctx);
    host_gpu_close(gpu);
}

static void ranks_run_the_chunks_they_own(void **state)
{
    if (!host_can_compile()) skip();
    for (int i = 0; i < COUNT_OF(chains); i++) {
        outcome want;
        job j = {.chain = chains[i], .want = &want};
        run_alone(CTX(state), &j);
        for (int shard = GD_SHARD_STATE; shard <= GD_SHARD_GRADIENTS; shard++) {
            j.shard = (gd_shard)shard;
            run_in(CTX(state), 2 + i % 2, take_share, &j);
        }
        for (int k = 0; k < PARAMS; k++) free(want.param[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(ranks_run_the_chunks_they_own, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
