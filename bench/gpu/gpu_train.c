/* A training step of the character transformer, of about ten million parameters, on a GPU. */
#include "gpu/gpu.h"
#include "transformer.h"

static double train_step(gd_ctx *ctx, transformer *t, bool look)
{
    gd_scope_begin(ctx);
    gd_tensor *loss = transformer_step(t);
    double value = look ? gd_item(loss) : 0;
    gd_scope_end(ctx);
    bench_check(ctx);
    return value;
}

double bench_gpu_train(gd_ctx *ctx, gd_device *gpu, gd_dtype dtype, double *first, double *last)
{
    static const transformer_sizes sizes = {16, 256, 384, 6, 6, 65};
    double best = 1e9;
    gd_scope_begin(ctx);
    transformer t = transformer_new(ctx, dtype == GD_F32 ? "Block" : "HalfBlock", sizes, dtype, gpu);
    bench_check(ctx);
    *first = train_step(ctx, &t, true);
    for (int r = 0; r < 7; r++) {
        if (gd_device_sync(gpu)) bench_check(ctx);
        double begun = bench_now();
        for (int i = 0; i < 20; i++) (void)train_step(ctx, &t, false);
        if (gd_device_sync(gpu)) bench_check(ctx);
        double took = (bench_now() - begun) / 20;
        if (r && took < best) best = took;
    }
    *last = train_step(ctx, &t, true);
    transformer_end(&t);
    gd_scope_end(ctx);
    return best;
}
