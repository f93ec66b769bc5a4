/* Loops over long vectors of f32 and f64, compiled once for every instruction set.
 *
 * Sums run in sixteen lanes of f64, lane k taking elements k, k + 16, ..., and are added in one order: the same bits
 * on every instruction set.  f32 is widened before it is multiplied. */
#include "optim/vector/layout.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

/* Eight numbers at a time, whatever the register width. No functions take or return them: calling conventions differ. */
typedef double wide __attribute__((vector_size(64)));
typedef int64_t whole __attribute__((vector_size(64)));
typedef double unaligned_wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef float unaligned_narrow __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 16 /* two of them */
/* Few of them at the end of a vector, or in a short one. */
typedef double four __attribute__((vector_size(32)));
typedef double pair __attribute__((vector_size(16)));
typedef double unaligned_four __attribute__((vector_size(32), aligned(8), may_alias));
typedef float narrow_four __attribute__((vector_size(16), aligned(4), may_alias));

#define LOAD_F64(p)          (*(const unaligned_wide *)(const void *)(p))
#define STORE_F64(p, x)      (*(unaligned_wide *)(void *)(p) = (x))
#define LOAD_FOUR_F64(p)     (*(const unaligned_four *)(const void *)(p))
#define STORE_FOUR_F64(p, x) (*(unaligned_four *)(void *)(p) = (x))
#define LOAD_FOUR_F32(p)     __builtin_convertvector(*(const narrow_four *)(const void *)(p), four)
#define STORE_FOUR_F32(p, x) (*(narrow_four *)(void *)(p) = __builtin_convertvector(x, narrow_four))
/* A product of two f32 is exact in f64: fused or not, the bits are the same.  Compilers convert eight numbers in five
 * instructions without help. */
#define MULADD_F64(a, b, c) ((c) + (a) * (b))
#ifdef __AVX512F__
#define MULADD_F32(a, b, c) ((wide)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define LOAD_F32(p)         ((wide)_mm512_cvtps_pd(_mm256_loadu_ps(p)))
#define STORE_F32(p, x)     _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)(x)))
/* Non-temporal stores, to addresses that are a multiple of 64 bytes. */
#define STREAM_F64(p, x) _mm512_stream_pd(p, (__m512d)(x))
#define STREAM_F32(p, x) _mm256_stream_ps(p, _mm512_cvtpd_ps((__m512d)(x)))
#else
#define MULADD_F32      MULADD_F64
#define LOAD_F32(p)     __builtin_convertvector(*(const unaligned_narrow *)(const void *)(p), wide)
#define STORE_F32(p, x) (*(unaligned_narrow *)(void *)(p) = __builtin_convertvector(x, unaligned_narrow))
#define STREAM_F64      STORE_F64
#define STREAM_F32      STORE_F32
#endif
#ifdef __SSE2__
#define STREAM_END() _mm_sfence()
#else
#define STREAM_END() (void)0
#endif

/* 64 bytes past the caches, to an address that is a multiple of 64. */
static inline void stream_line(void *to, const void *from)
{
#if defined(__AVX512F__)
    _mm512_stream_si512(to, _mm512_loadu_si512(from));
#elif defined(__AVX__)
    for (int k = 0; k < 2; k++)
        _mm256_stream_si256((__m256i *)to + k, _mm256_loadu_si256((const __m256i *)from + k));
#elif defined(__SSE2__)
    for (int k = 0; k < 4; k++)
        _mm_stream_si128((__m128i *)to + k, _mm_loadu_si128((const __m128i *)from + k));
#else
    memcpy(to, from, 64);
#endif
}

static inline double add_lanes(const wide *lanes)
{
    wide c = *lanes;
    return ((c[0] + c[4]) + (c[1] + c[5])) + ((c[2] + c[6]) + (c[3] + c[7]));
}

/* Sixteen elements of a row are prefetched into the L2 cache: a history is more streams than hardware prefetchers follow, and
 * larger than the L1 cache. */
#define AHEAD 2048
#define ASK(row)                                                                        \
    do {                                                                                \
        __builtin_prefetch((const char *)(row) + AHEAD, 0, 2);                          \
        if (sizeof(T) == 8) __builtin_prefetch((const char *)(row) + AHEAD + 64, 0, 2); \
    } while (0)

/* Magnitudes compare as integers do, and NaN is larger than all. */
#define MAGNITUDE_BITS(x) ((whole)(x)&INT64_MAX)
#define MAGNITUDE(x)      ((wide)MAGNITUDE_BITS(x))
#define ENLARGE(most, x)                                 \
    do {                                                 \
        __typeof__(most) bits = (x), take = bits > most; \
        most = (take & bits) | (~take & most);           \
    } while (0)

/* The elements of 64 bytes, and their bits. */
typedef float values_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double values_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int32_t bits_f32 __attribute__((vector_size(64)));
typedef int64_t bits_f64 __attribute__((vector_size(64)));

/* The last n < 16 elements of x, followed by zeros. */
#define TAIL(x, at, n)       \
    T x##_tail[LANES] = {0}; \
    memcpy(x##_tail, (x) + (at), (size_t)(n) * sizeof(T))

/* Rows that are multiplied at a time: as many as there are registers for the sums. */
#if defined(__AVX512F__)
#define GROUP 10
#else
#define GROUP 2
#endif

/* A pair is made piece by piece, and the history is read in between: prefetches the next piece. */
#define ASK_NEXT(from, write) __builtin_prefetch((const char *)(from) + GD_PIECE_BYTES, write, 2)

#define USUAL 20 /* rows of a history of ten pairs: a constant, so that the coefficients stay in registers */
#define FOUR(sum, at)                                                  \
    sum += (coef[r] * LOAD(a + (at)) + coef[r + 1] * LOAD(b + (at))) + \
           (coef[r + 2] * LOAD(d + (at)) + coef[r + 3] * LOAD(e + (at)))

#define SUFFIX         _f32
#define T              float
#define LOAD           LOAD_F32
#define STORE          STORE_F32
#define STREAM         STREAM_F32
#define LOAD_FOUR      LOAD_FOUR_F32
#define STORE_FOUR     STORE_FOUR_F32
#define MULADD         MULADD_F32
#define MAGNITUDE_MASK INT32_MAX
#include "optim/vector/vec/layout_impl.h"
#define SUFFIX         _f64
#define T              double
#define LOAD           LOAD_F64
#define STORE          STORE_F64
#define STREAM         STREAM_F64
#define LOAD_FOUR      LOAD_FOUR_F64
#define STORE_FOUR     STORE_FOUR_F64
#define MULADD         MULADD_F64
#define MAGNITUDE_MASK INT64_MAX
#include "optim/vector/vec/layout_impl.h"

#define TABLE(suffix)                                                                                        \
    {                                                                                                        \
        dot##suffix, apart##suffix, sum##suffix, largest##suffix, dots##suffix, move##suffix, scale##suffix, \
            free_part##suffix, pair##suffix, combine##suffix, outside##suffix, move_inside##suffix,          \
            rank_two##suffix                                                                                 \
    }

const gd_vector_loops JOIN(gd__vector_loops_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
