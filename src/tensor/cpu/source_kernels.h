/* Kernels that make numbers: random ones and evenly spaced ones.  Compiled once for each instruction set by vec/source_kernels.c, with the same bits. */
#ifndef GD_TENSOR_CPU_SOURCE_KERNELS_H
#define GD_TENSOR_CPU_SOURCE_KERNELS_H

#include <stdint.h>

typedef struct gd_sources_table {
    /* n numbers (gd_random_kind) of the stream `key` from block `first` on, two per block; scale: 2 to the number of bits that the dtype
     * holds */
    void (*random_f32)(float *to, uint64_t key, uint64_t first, int64_t n, int kind, double scale);
    void (*random_f64)(double *to, uint64_t key, uint64_t first, int64_t n, int kind, double scale);
    /* The first 64 bits of each of n blocks. */
    void (*random_u64)(uint64_t *to, uint64_t key, uint64_t first, int64_t n);
    /* first + i step of n numbers i from `start` on, computed in f64 */
    void (*steps_f32)(float *to, double first, double step, int64_t start, int64_t n);
    void (*steps_f64)(double *to, double first, double step, int64_t start, int64_t n);
} gd_sources_table;

extern const gd_sources_table gd__sources_base, gd__sources_avx2, gd__sources_avx512;

#endif
