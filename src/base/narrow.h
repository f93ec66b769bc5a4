/* Numbers stored in fewer bits than they are computed in: 16 bits with stochastic rounding, and codes of eight bits.
 *
 * Stochastic rounding: up with the probability of the truncated fraction, so that the mean is exact and an average can
 * change by steps far smaller than its last digit.  A finite number never becomes infinite.
 *
 * Codes of eight bits (Dettmers, Lewis, Shleifer and Zettlemoyer, 8-bit optimizers via block-wise quantization, ICLR 2022):
 * blocks of 256 numbers are divided by the largest of them, its sign included, which becomes the code of 1; the others
 * are rounded to the middle of their cell, of seven decades with 1, 2, 4 ... 64 equal cells each (numbers that are never
 * negative: 2, 4 ... 128 cells):
 *
 *     code   0    1       2 3           4 5 6 7       ...   64 ... 127    128
 *     value  0    .55e-6  .325e-5 ...   .2125e-4 ...        .107 ... .993  1        -code is the negative of it; -128 is 1
 *
 * A block of zeros is zero bytes.  What is not finite has no code: a NaN becomes 0, an infinity the largest of the block, and
 * neither changes the others.  Numbers that are never negative do not become 0: below the smallest value they become that value,
 * because a second moment of 0 would make the step of its element far too long.
 *
 * With feedback, the error of the codes is kept in separate codes, and added when they are read.
 *
 * In memory, from one pointer both ways:   ... scale 2 | scale 1 | scale 0 | code 0 | code 1 | ...
 *
 * Only additions, multiplications, one division per block and comparisons: same bits everywhere. Emitted programs and kernels of
 * devices include this text (GD_RNG_TEXT: without headers). */
#ifndef GD_BASE_NARROW_H
#define GD_BASE_NARROW_H

#ifdef GD_RNG_TEXT
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
static inline float gd__bits_f32(uint32_t u) { return __uint_as_float(u); }
static inline uint32_t gd__f32_bits(float f) { return __float_as_uint(f); }
#elif !defined GD_BASE_VMATH_H
#include "base/vmath.h"
#endif

/* ---- chance ---- */

typedef struct gd_noise {
    uint32_t a, b;
} gd_noise;

/* The key of the noise of one array at one step: from a random number in [0, 1), for elements near `first`. */
static inline gd_noise gd__noise_of(double drawn, int64_t first)
{
    uint64_t bits = (uint64_t)(drawn * 9007199254740992.0);
    gd_noise n = {(uint32_t)bits + (uint32_t)((uint64_t)first >> 32) * 0x9E3779B1u, (uint32_t)(bits >> 21)};
    return n;
}

/* 32 random bits of element i: two rounds of multiply and xorshift of the counter, with a key before each.  Rounding takes the
 * upper sixteen of them: two arrays that are written together share the word, the second takes it shifted up. */
static inline uint32_t gd__noise_bits(gd_noise n, uint32_t i)
{
    uint32_t x = i + n.a;
    x = (x ^ x >> 16) * 0x7FEB352Du;
    x = ((x ^ x >> 15) + n.b) * 0x846CA68Bu;
    return x ^ x >> 16;
}

static inline uint16_t gd__f32_to_bf16_by_chance(float f, uint32_t noise)
{
    uint32_t u = gd__f32_bits(f), a = u & 0x7FFFFFFFu;
    u += a < 0x7F7F0000u ? noise >> 16 : 0u; /* what follows has no neighbour but infinity */
    u = a > 0x7F800000u ? 0x7FC00000u : u;
    return (uint16_t)(u >> 16);
}

static inline uint16_t gd__f32_to_f16_by_chance(float f, uint32_t noise)
{
    uint32_t u = gd__f32_bits(f), a = u & 0x7FFFFFFFu;
    uint32_t normal = (a - 0x38000000u + (noise >> 19)) >> 13;
    /* subnormals are whole multiples of 2^-24: sixteen bits more than that */
    float small = gd__bits_f32(a < 0x38800000u ? a : 0u) * 1099511627776.0f;
    uint32_t subnormal = (uint32_t)((int32_t)small + (int32_t)(noise >> 16)) >> 16;
    uint32_t h = a < 0x38800000u ? subnormal : normal;
    h = a >= 0x477FE000u ? 0x7BFFu : h;
    h = a == 0x7F800000u ? 0x7C00u : h;
    h = a > 0x7F800000u ? 0x7E00u : h;
    return (uint16_t)(h | (u >> 16 & 0x8000u));
}

/* ---- codes ---- */

#define GD_CODED_BLOCK 256

/* The size of a number for comparisons in its block: its bits with the sign last, shifted so that values that are not finite come
 * last. Without branches, so that the loop for the largest is vectorised. */
static inline uint32_t gd__code_size_signed(float x)
{
    uint32_t u = gd__f32_bits(x);
    return (u << 1 | u >> 31) + 0x01000000u;
}
/* a negative one counts as zero */
static inline uint32_t gd__code_size_positive(float x) { return gd__code_size_signed(x < 0.0f ? 0.0f : x); }

/* The divisor of a block, from the largest of its sizes; blocks of subnormals are zero. */
static inline float gd__code_scale(uint32_t size)
{
    uint32_t u = size - 0x01000000u;
    return size < 0x02000000u ? 0.0f : gd__bits_f32(u >> 1 | u << 31);
}
static inline float gd__code_inverse(float scale) { return scale == 0.0f ? 0.0f : 1.0f / scale; }

/* A number between -1 and 1 to its code.  Within a decade the place of a number among all cells is a line; the lines of two
 * decades meet where these do, each less steep than the one before, so the place is the least of all lines.  Values beyond 1 stay at the
 * end, NaN is 0.
 *
 * If tables can be looked up, two lines suffice: the square of two that contains a number, from [2^-31, 2^-29) to [1/2, 2),
 * contains no more than two decades.  X(n, slope, start): n squares begin in the decade of this line. */
#define GD_LINES_SIGNED(X)            \
    X(6, 1.11111111e6f, 0.888888889f) \
    X(2, 2.22222222e5f, 1.77777778f)  \
    X(1, 4.44444444e4f, 3.55555556f)  \
    X(2, 8.88888889e3f, 7.11111111f)  \
    X(2, 1.77777778e3f, 14.2222222f)  \
    X(1, 3.55555556e2f, 28.4444444f)  \
    X(3, 7.11111111e1f, 56.8888889f)
#define GD_LINES_POSITIVE(X)          \
    X(6, 2.22222222e6f, 0.777777778f) \
    X(2, 4.44444444e5f, 2.55555556f)  \
    X(1, 8.88888889e4f, 6.11111111f)  \
    X(2, 1.77777778e4f, 13.2222222f)  \
    X(2, 3.55555556e3f, 27.4444444f)  \
    X(1, 7.11111111e2f, 55.8888889f)  \
    X(3, 1.42222222e2f, 112.777778f)
/* Slopes and starts for every square: the decade that it begins in is at its number, the one that it ends in at the next. */
#define GD_SQUARES                 17
#define GD_TIMES_1(v)              v,
#define GD_TIMES_2(v)              v, v,
#define GD_TIMES_3(v)              v, v, v,
#define GD_TIMES_6(v)              v, v, v, v, v, v,
#define GD_SLOPES(n, slope, start) GD_TIMES_##n(slope)
#define GD_STARTS(n, slope, start) GD_TIMES_##n(start)

#define GD_LEAST(n, slope, start)            \
    {                                        \
        float line = a * (slope) + (start);  \
        place = line < place ? line : place; \
    }

static inline int32_t gd__code_signed(float x)
{
    uint32_t u = gd__f32_bits(x), size = u & 0x7FFFFFFFu;
    size = size > 0x7F800000u ? 0u : size;
    float a = gd__bits_f32(size), place = 128.0f;
    GD_LINES_SIGNED(GD_LEAST)
    /* -1 has no code of its own, as 128 and -128 are the same byte */
    int32_t code = (int32_t)place, minus = (int32_t)(u >> 31), most = 128 - minus;
    code = code < most ? code : most;
    return (code ^ -minus) + minus;
}

static inline int32_t gd__code_positive(float x)
{
    float a = x > 0.0f ? x : 0.0f, place = 255.0f;
    GD_LINES_POSITIVE(GD_LEAST)
    int32_t code = (int32_t)place, least = a > 0.0f ? 1 : 0;
    return code > least ? code : least;
}

/* And back: the middles of cells lie on lines that become steeper from decade to decade, of which the largest counts.
 * X(k, slope, start): that of decade k. */
#define GD_MIDDLES_SIGNED(X) X(0, 9e-7f, -3.5e-7f) GD_LATER_SIGNED(X)
#define GD_LATER_SIGNED(X)          \
    X(1, 4.5e-6f, -5.75e-6f)        \
    X(2, 2.25e-5f, -6.875e-5f)      \
    X(3, 1.125e-4f, -7.4375e-4f)    \
    X(4, 5.625e-4f, -7.71875e-3f)   \
    X(5, 2.8125e-3f, -7.859375e-2f) \
    X(6, 1.40625e-2f, -7.9296875e-1f)
#define GD_MIDDLES_POSITIVE(X)        \
    X(0, 4.5e-7f, -1.25e-7f)          \
    X(1, 2.25e-6f, -4.625e-6f)        \
    X(2, 1.125e-5f, -6.3125e-5f)      \
    X(3, 5.625e-5f, -7.15625e-4f)     \
    X(4, 2.8125e-4f, -7.578125e-3f)   \
    X(5, 1.40625e-3f, -7.7890625e-2f) \
    X(6, 7.03125e-3f, -7.89453125e-1f)

#define GD_LARGEST(k, slope, start)          \
    {                                        \
        float line = m * (slope) + (start);  \
        value = line > value ? line : value; \
    }

/* Devices make tables of these when they compile (GD_FORMULA: constexpr). */
#ifdef __cplusplus
#define GD_FORMULA static constexpr inline
#else
#define GD_FORMULA static inline
#endif

GD_FORMULA float gd__value_signed(int32_t code)
{
    float byte = (float)code, rest = 256.0f - byte, m = byte < rest ? byte : rest, value = 0.0f;
    GD_MIDDLES_SIGNED(GD_LARGEST)
    value = value < 1.0f ? value : 1.0f;
    return byte > 128.0f ? -value : value;
}

GD_FORMULA float gd__value_positive(int32_t code)
{
    float m = (float)code, value = 0.0f;
    GD_MIDDLES_POSITIVE(GD_LARGEST)
    return value < 1.0f ? value : 1.0f;
}

/* A block of codes to numbers.  The other way it must be all of a block; codes become bytes only at the end, because a vector of bytes
 * has four times as many numbers as registers hold. */
#define GD_CODE_BLOCKS(kind)                                                                     \
    static inline void gd__value_plain_##kind(const uint8_t *code, int n, float scale, float *x) \
    {                                                                                            \
        for (int i = 0; i < n; i++) x[i] = scale * gd__value_##kind(code[i]);                    \
    }                                                                                            \
    static inline void gd__code_plain_##kind(const float *x, int n, float *scale, uint8_t *code) \
    {                                                                                            \
        uint32_t largest = 0;                                                                    \
        int32_t wide[GD_CODED_BLOCK];                                                            \
        for (int i = 0; i < n; i++) {                                                            \
            uint32_t size = gd__code_size_##kind(x[i]);                                          \
            largest = size > largest ? size : largest;                                           \
        }                                                                                        \
        float by = gd__code_scale(largest), inverse = gd__code_inverse(by);                      \
        *scale = by;                                                                             \
        for (int i = 0; i < n; i++) wide[i] = gd__code_##kind(x[i] * inverse);                   \
        for (int i = 0; i < n; i++) code[i] = (uint8_t)wide[i];                                  \
    }
GD_CODE_BLOCKS(signed)
GD_CODE_BLOCKS(positive)
#undef GD_CODE_BLOCKS

#if defined __AVX512BW__ && defined __AVX512VL__ && defined __AVX512DQ__ && !defined __cplusplus && \
    !defined GD_NO_CODES /* the header takes longer to compile than a program */
#include <immintrin.h>

/* The same with tables of sixteen numbers in a register, of which an instruction looks sixteen up.  The rest of a block after whole
 * vectors uses masks, because on some processors a masked store of bytes takes as long as all the rest. */

static inline __mmask16 gd__mask_of(int left) { return (__mmask16)((1u << left) - 1); }

/* Numbers on the lines of the decades that exponents say, in tables by their last four bits. */
#define GD_SLOPE_OF(k, slope, start) slope,
#define GD_START_OF(k, slope, start) start,
static inline __m512 gd__middles(__m512 m, __m512 decade, const float *slope, const float *start)
{
    __m512i k = _mm512_srli_epi32(_mm512_castps_si512(decade), 23);
    return _mm512_add_ps(_mm512_mul_ps(m, _mm512_permutexvar_ps(k, _mm512_loadu_ps(slope))),
                         _mm512_permutexvar_ps(k, _mm512_loadu_ps(start)));
}

/* 1/2 more than codes of 0 and 1 has the exponents 126 and 127.  -128 is 1: its sign turns -1 over. */
static inline __m512 gd__values_signed(__m128i codes, float scale)
{
    static const float slope[16] = {GD_LATER_SIGNED(GD_SLOPE_OF) 0, 0, 0, 0, 0, 0, 0, 0, 0, 9e-7f},
                       start[16] = {GD_LATER_SIGNED(GD_START_OF) - 1, 0, 0, 0, 0, 0, 0, 0, 0, -3.5e-7f};
    __m512 code = _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(codes)), m = _mm512_abs_ps(code);
    __m512 value = gd__middles(m, _mm512_add_ps(m, _mm512_set1_ps(0.5f)), slope, start);
    return _mm512_xor_ps(_mm512_mul_ps(value, _mm512_set1_ps(scale)),
                         _mm512_and_ps(code, _mm512_set1_ps(-0.0f)));
}

/* 1 more than codes of 1 and 2 has the exponent 128. */
static inline __m512 gd__values_positive(__m128i codes, float scale)
{
    static const float slope[16] = {GD_MIDDLES_POSITIVE(GD_SLOPE_OF) 0},
                       start[16] = {GD_MIDDLES_POSITIVE(GD_START_OF) 1};
    __m512 m = _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(codes));
    __m512 value = gd__middles(m, _mm512_add_ps(m, _mm512_set1_ps(1.0f)), slope, start);
    return _mm512_mul_ps(value, _mm512_set1_ps(scale));
}

/* The place of numbers from 2^-31 on among all cells.  If a decade begins within a square of two, what is added to the bits
 * carries those beyond it into the next square. */
#define GD_CARRY(square, bits) (((square) + 49u) << 24) - (bits)
static inline __m512 gd__places(__m512 a, const float *slope, const float *start)
{
    /* 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1 */
    static const uint32_t carry[16] = {0,
                                       0,
                                       0,
                                       0,
                                       0,
                                       GD_CARRY(5, 0x358637BDu),
                                       0,
                                       GD_CARRY(7, 0x3727C5ACu),
                                       GD_CARRY(8, 0x38D1B717u),
                                       0,
                                       GD_CARRY(10, 0x3A83126Fu),
                                       0,
                                       GD_CARRY(12, 0x3C23D70Au),
                                       GD_CARRY(13, 0x3DCCCCCDu),
                                       0,
                                       0};
    __m512i bits = _mm512_castps_si512(a);
    bits = _mm512_add_epi32(bits,
                            _mm512_permutexvar_epi32(_mm512_srli_epi32(bits, 24), _mm512_loadu_si512(carry)));
    __m512i k = _mm512_srli_epi32(bits, 24);
    return _mm512_add_ps(_mm512_mul_ps(a, _mm512_permutexvar_ps(k, _mm512_loadu_ps(slope))),
                         _mm512_permutexvar_ps(k, _mm512_loadu_ps(start)));
}

/* Numbers below 2^-31, and NaN, are at the beginning. */
static inline __m128i gd__codes_signed(__m512 v)
{
    static const float slope[GD_SQUARES] = {GD_LINES_SIGNED(GD_SLOPES)},
                       start[GD_SQUARES] = {GD_LINES_SIGNED(GD_STARTS)};
    /* the larger of both without its sign: 11.  Not optimised it is a macro of gcc's with a conversion that is warned of. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
    __m512 larger = _mm512_range_ps(v, _mm512_set1_ps(0x1p-31f), 11);
#pragma GCC diagnostic pop
    __m512 place = gd__places(larger, slope, start);
    place = _mm512_or_ps(place, _mm512_and_ps(v, _mm512_set1_ps(-0.0f)));
    return _mm512_cvtepi32_epi8(_mm512_cvttps_epi32(_mm512_max_ps(place, _mm512_set1_ps(-127.0f))));
}

static inline __m128i gd__codes_positive(__m512 v)
{
    static const float slope[GD_SQUARES] = {GD_LINES_POSITIVE(GD_SLOPES)},
                       start[GD_SQUARES] = {GD_LINES_POSITIVE(GD_STARTS)};
    __m512 place = gd__places(_mm512_max_ps(v, _mm512_set1_ps(0x1p-31f)), slope, start);
    __mmask16 more = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_GT_OQ);
    return _mm512_cvtepi32_epi8(
        _mm512_cvttps_epi32(_mm512_mask_max_ps(place, more, place, _mm512_set1_ps(1.0f))));
}

/* The number of a block furthest from zero; of those never negative, the largest.  NaN is ignored. */
static inline float gd__furthest_signed(const float *x, int n)
{
    __m512 most = _mm512_setzero_ps(), least = most;
    int i = 0;
    for (; i + 16 <= n; i += 16) {
        most = _mm512_max_ps(_mm512_loadu_ps(x + i), most); /* what was there, for a NaN */
        least = _mm512_min_ps(_mm512_loadu_ps(x + i), least);
    }
    __m512 rest = _mm512_maskz_loadu_ps(gd__mask_of(n - i), x + i);
    float high = _mm512_reduce_max_ps(_mm512_max_ps(rest, most)),
          low = _mm512_reduce_min_ps(_mm512_min_ps(rest, least));
    return high > -low ? high : low;
}
static inline float gd__furthest_positive(const float *x, int n)
{
    __m512 most = _mm512_setzero_ps();
    int i = 0;
    for (; i + 16 <= n; i += 16) most = _mm512_max_ps(_mm512_loadu_ps(x + i), most);
    return _mm512_reduce_max_ps(_mm512_max_ps(_mm512_maskz_loadu_ps(gd__mask_of(n - i), x + i), most));
}

#define GD_CODE_BLOCKS(kind)                                                                                 \
    static inline void gd__value_block_##kind(const uint8_t *code, int n, float scale, float *x)             \
    {                                                                                                        \
        int i = 0;                                                                                           \
        for (; i + 16 <= n; i += 16)                                                                         \
            _mm512_storeu_ps(x + i, gd__values_##kind(_mm_loadu_si128((const __m128i *)(code + i)), scale)); \
        __mmask16 left = gd__mask_of(n - i);                                                                 \
        if (left)                                                                                            \
            _mm512_mask_storeu_ps(x + i, left,                                                               \
                                  gd__values_##kind(_mm_maskz_loadu_epi8(left, code + i), scale));           \
    }                                                                                                        \
    static inline void gd__code_block_##kind(const float *x, int n, float *scale, uint8_t *code)             \
    {                                                                                                        \
        float by = gd__furthest_##kind(x, n);                                                                \
        if (by - by != 0.0f) { /* an infinity is ignored */                                                  \
            gd__code_plain_##kind(x, n, scale, code);                                                        \
            return;                                                                                          \
        }                                                                                                    \
        by = by > -1.17549435e-38f && by < 1.17549435e-38f ? 0.0f : by;                                      \
        *scale = by;                                                                                         \
        const __m512 inverse = _mm512_set1_ps(gd__code_inverse(by));                                         \
        int i = 0;                                                                                           \
        for (; i + 16 <= n; i += 16)                                                                         \
            _mm_storeu_si128((__m128i *)(code + i),                                                          \
                             gd__codes_##kind(_mm512_mul_ps(_mm512_loadu_ps(x + i), inverse)));              \
        __mmask16 left = gd__mask_of(n - i);                                                                 \
        if (left)                                                                                            \
            _mm_mask_storeu_epi8(                                                                            \
                code + i, left,                                                                              \
                gd__codes_##kind(_mm512_mul_ps(_mm512_maskz_loadu_ps(left, x + i), inverse)));               \
    }
GD_CODE_BLOCKS(signed)
GD_CODE_BLOCKS(positive)
#undef GD_CODE_BLOCKS
#else
#define gd__value_block_signed   gd__value_plain_signed
#define gd__value_block_positive gd__value_plain_positive
#define gd__code_block_signed    gd__code_plain_signed
#define gd__code_block_positive  gd__code_plain_positive
#endif

/* The error of the codes of a block. */
#define GD_REST_BLOCK(kind)                                                                           \
    static inline void gd__rest_block_##kind(const float *x, int n, float scale, const uint8_t *code, \
                                             float *rest)                                             \
    {                                                                                                 \
        gd__value_block_##kind(code, n, scale, rest);                                                 \
        for (int i = 0; i < n; i++) rest[i] = x[i] - rest[i];                                         \
    }
GD_REST_BLOCK(signed)
GD_REST_BLOCK(positive)
#undef GD_REST_BLOCK

/* Bytes before and after the pointer to n codes: whole lines of a cache before it. */
static inline int64_t gd__coded_before(int64_t n) { return ((n + 255) / 256 * 4 + 63) / 64 * 64; }
static inline int64_t gd__coded_bytes(int64_t n) { return gd__coded_before(n) + n; }
/* With feedback, the codes of the error begin there, and this is the size of both. */
static inline int64_t gd__rest_begins(int64_t n) { return (gd__coded_bytes(n) + 63) / 64 * 64; }
static inline int64_t gd__fed_back_bytes(int64_t n) { return gd__rest_begins(n) + gd__coded_bytes(n); }
/* A number that is never negative must stay so after its rounded error is added. */
#define GD_LEAST_OF_POSITIVE 0.25f

#endif
