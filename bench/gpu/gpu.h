/* The parts of the GPU benchmark. */
#ifndef GD_BENCH_GPU_H
#define GD_BENCH_GPU_H

#include "bench.h"

/* Seconds of a training step of a small transformer, and the loss before and after. */
double bench_gpu_train(gd_ctx *ctx, gd_device *gpu, gd_dtype dtype, double *first, double *last);

#endif
