/* Kernels of convolutions of f32 and of f64 (cpu/images/convolution.h), compiled once for every instruction set. */
#include "tensor/cpu/images/convolution.h"

#include <math.h>
#include <string.h>
#if defined __AVX512F__ || defined __FMA__
#include <immintrin.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

/* Vectors of positions in registers with the block's outputs; outputs and taps whose sums are in registers. */
#if defined __AVX512F__
#define VECTOR   64
#define FOLD_F32 fold_floats_16
#define FOLD_F64 fold_doubles_8
#define TILES_8  3
#define TILES_4  5
#define TILES_2  6
#define TILES_1  8
#define DOT_ROWS 4
#define DOT_TAPS 4
#elif defined __AVX2__
#define VECTOR   32
#define FOLD_F32 fold_floats_8
#define FOLD_F64 fold_doubles_4
#define TILES_8  1
#define TILES_4  3
#define TILES_2  4
#define TILES_1  6
#define DOT_ROWS 2
#define DOT_TAPS 2
#else
#define VECTOR   16
#define FOLD_F32 fold_floats_4
#define FOLD_F64 fold_doubles_2
#define TILES_8  1
#define TILES_4  2
#define TILES_2  3
#define TILES_1  4
#define DOT_ROWS 2
#define DOT_TAPS 1
#endif

/* The outputs of a block of `used`, with padding. */
static int64_t block_of(int64_t used) { return used > 4 ? 8 : used > 2 ? 4 : used; }

/* The sum of a vector: its halves are added until one number is left. */
typedef float floats_4 __attribute__((vector_size(16)));
typedef double doubles_2 __attribute__((vector_size(16)));
static inline float fold_floats_4(floats_4 v)
{
    floats_4 w = v + __builtin_shufflevector(v, v, 2, 3, 0, 1);
    return w[0] + w[1];
}
static inline double fold_doubles_2(doubles_2 v) { return v[0] + v[1]; }
#if VECTOR >= 32
typedef float floats_8 __attribute__((vector_size(32)));
typedef double doubles_4 __attribute__((vector_size(32)));
static inline float fold_floats_8(floats_8 v)
{
    return fold_floats_4(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                         __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
static inline double fold_doubles_4(doubles_4 v)
{
    return fold_doubles_2(__builtin_shufflevector(v, v, 0, 1) + __builtin_shufflevector(v, v, 2, 3));
}
#endif
#if VECTOR == 64
typedef float floats_16 __attribute__((vector_size(64)));
typedef double doubles_8 __attribute__((vector_size(64)));
static inline float fold_floats_16(floats_16 v)
{
    return fold_floats_8(__builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7) +
                         __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15));
}
static inline double fold_doubles_8(doubles_8 v)
{
    return fold_doubles_4(__builtin_shufflevector(v, v, 0, 1, 2, 3) +
                          __builtin_shufflevector(v, v, 4, 5, 6, 7));
}
#endif

#define T      float
#define SUFFIX _f32
#define FOLD   FOLD_F32
#if defined __AVX512F__
#define FMA(a, b, c) ((NAME(vector))_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#elif defined __FMA__
#define FMA(a, b, c) ((NAME(vector))_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#else
#define FMA(a, b, c) NAME(fused)(a, b, c)
typedef float four __attribute__((vector_size(VECTOR)));
static inline four fused_f32(four a, four b, four c)
{
    for (int i = 0; i < 4; i++) c[i] = fmaf(a[i], b[i], c[i]);
    return c;
}
#endif
#include "tensor/cpu/images/convolution_impl.h"
#undef T
#undef SUFFIX
#undef FMA
#undef FOLD

#define T      double
#define SUFFIX _f64
#define FOLD   FOLD_F64
#if defined __AVX512F__
#define FMA(a, b, c) ((NAME(vector))_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#elif defined __FMA__
#define FMA(a, b, c) ((NAME(vector))_mm256_fmadd_pd((__m256d)(a), (__m256d)(b), (__m256d)(c)))
#else
#define FMA(a, b, c) NAME(fused)(a, b, c)
typedef double two __attribute__((vector_size(VECTOR)));
static inline two fused_f64(two a, two b, two c)
{
    for (int i = 0; i < 2; i++) c[i] = fma(a[i], b[i], c[i]);
    return c;
}
#endif
#include "tensor/cpu/images/convolution_impl.h"
#undef T
#undef SUFFIX
#undef FMA
#undef FOLD

#define TABLE(suffix)                                                            \
    {                                                                            \
        .pack = pack##suffix, .correlate = correlate##suffix, .sum = sum##suffix \
    }

const gd_conv_table JOIN(gd__conv_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
