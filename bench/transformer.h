/* The character transformer of examples/chars.c as the benchmarks train it, on the CPU or a GPU; torch_transformer.py is the same in PyTorch. */
#ifndef GD_BENCH_TRANSFORMER_H
#define GD_BENCH_TRANSFORMER_H

#include <gradus/gradus.h>

typedef struct transformer_sizes {
    int64_t rows, time, size, heads, blocks, symbols;
} transformer_sizes;

typedef struct transformer {
    transformer_sizes of;
    gd_module *symbols, *places, *layers; /* of model */
    gd_module *model;
    gd_optimizer *optimizer;
    gd_tensor *in, *next, *place;
} transformer;

/* With AdamW and a batch.  name: that of its class of blocks, one a context; gpu: NULL for the CPU.  What fails sticks in the context. */
transformer transformer_new(gd_ctx *ctx, const char *name, transformer_sizes of, gd_dtype dtype,
                            gd_device *gpu);
/* A training step inside the caller's scope: its loss, NULL where it failed. */
gd_tensor *transformer_step(transformer *t);
void transformer_end(transformer *t);

/* count labels below that number, the same in every benchmark; of as many as there are, 0, 1, 2, ... */
gd_tensor *bench_labels(gd_ctx *ctx, int64_t count, int64_t below);

#endif
