/* Optimizers over a world of threads, whose ranks bring gradients that can be told apart. */
#ifndef GD_TESTS_OPTIM_DISTRIBUTE_H
#define GD_TESTS_OPTIM_DISTRIBUTE_H

#include "support/ranks.h"

enum { PARAMS = 3 };
static const int64_t lengths[PARAMS] = {5, 40000, 3};

/* Left and right half of the ranks, as the tree's definition reads. */
static inline float summed(int64_t i, int from, int width, int ranks)
{
    if (width == 1) return (float)value_of(from, i);
    float left = summed(i, from, width / 2, ranks);
    return from + width / 2 < ranks ? left + summed(i, from + width / 2, width / 2, ranks) : left;
}

static inline gd_status set_grad(gd_tensor *p, int rank, int ranks)
{
    gd_ctx *ctx = gd_tensor_ctx(p);
    int width = 1;
    while (width < ranks) width *= 2;
    gd_tensor *g = gd_zeros_like(gd_detach(p));
    float *at = gd_data_mut(g);
    for (int64_t i = 0; at && i < gd_numel(g); i++)
        at[i] = rank < 0 ? summed(i, 0, width, ranks) : (float)value_of(rank, i);
    if (!at) return gd_error(ctx);
    return gd_set_grad(p, g);
}

static inline gd_status make(gd_ctx *ctx, const char *chain, gd_optimizer **o, gd_tensor **p)
{
    static const char *const names[PARAMS] = {"a", "b", "c"};
    *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    for (int i = 0; i < PARAMS; i++) {
        p[i] = gd_require_grad(gd_full(ctx, GD_F32, 1, &lengths[i], 0.5 + i));
        TRY(gd_optimizer_add(*o, names[i], p[i]));
    }
    return gd_error(ctx);
}

/* The same over a world: plain steps, bucket 0: of the default size. */
static inline gd_status make_shared(gd_world *w, gd_shard shard, int64_t bucket, gd_optimizer **o,
                                    gd_tensor **p)
{
    gd_distribute_options options = gd_distribute_defaults();
    options.shard = shard;
    if (bucket) options.bucket = bucket;
    TRY(make(gd_world_ctx(w), "lr(1)", o, p));
    return gd_optimizer_distribute(*o, w, &options);
}

#endif
