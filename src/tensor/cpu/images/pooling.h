/* Kernels of poolings: rows of windows, compiled once for each instruction set by vec/pool_kernels.c. */
#ifndef GD_TENSOR_CPU_IMAGES_POOLING_H
#define GD_TENSOR_CPU_IMAGES_POOLING_H

#include <stdint.h>

typedef struct gd_pooling {
    int64_t planes, height, width; /* images and their channels */
    int64_t size, stride, padding;
    int64_t down, across; /* windows */
    const char *x, *g;    /* images, gradients of windows */
    char *to;
    int64_t group; /* planes of a task */
} gd_pooling;

typedef struct gd_pool_table {
    /* of gd_pooling: a task is a group of planes */
    void (*highest)(void *arg, int64_t task);
    void (*mean)(void *arg, int64_t task);
    void (*highest_grad)(void *arg, int64_t task);
    void (*mean_grad)(void *arg, int64_t task);
} gd_pool_table;

/* f32 and f64 */
extern const gd_pool_table gd__pool_base[2], gd__pool_avx2[2], gd__pool_avx512[2];

#endif
