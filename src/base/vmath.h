/* Element functions as straight-line arithmetic, so that a plain loop over them becomes vector code and gives the same
 * bits whatever the vector width.  f32 results are within 2 ULP.  No fused multiply-add is implied anywhere. */
#ifndef GD_BASE_VMATH_H
#define GD_BASE_VMATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float gd__bits_f32(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint32_t gd__f32_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static inline double gd__bits_f64(uint64_t u)
{
    double f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static inline uint64_t gd__f64_bits(double f)
{
    uint64_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* x cut to [low, high]; a NaN becomes high.  On ARM by its instructions: for a conditional gcc tests for NaN repeatedly. */
#ifdef __aarch64__
static inline float gd__cut_f32(float x, float low, float high) { return fmaxf(fminf(x, high), low); }
static inline double gd__cut_f64(double x, double low, double high) { return fmax(fmin(x, high), low); }
#else
static inline float gd__cut_f32(float x, float low, float high)
{
    float c = x < high ? x : high;
    return c < low ? low : c;
}
static inline double gd__cut_f64(double x, double low, double high)
{
    double c = x < high ? x : high;
    return c < low ? low : c;
}
#endif

/* The polynomial of x with these coefficients, the highest first, by Horner's rule: ((a x + b) x + c) x + ...  A macro, so that it stays
 * straight-line where no compiler would unroll a loop. */
#define GD_HORNER_2(x, p, c)       ((p) * (x) + (c))
#define GD_HORNER_3(x, p, c, ...)  GD_HORNER_2(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_4(x, p, c, ...)  GD_HORNER_3(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_5(x, p, c, ...)  GD_HORNER_4(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_6(x, p, c, ...)  GD_HORNER_5(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_7(x, p, c, ...)  GD_HORNER_6(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_8(x, p, c, ...)  GD_HORNER_7(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_9(x, p, c, ...)  GD_HORNER_8(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_10(x, p, c, ...) GD_HORNER_9(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_11(x, p, c, ...) GD_HORNER_10(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_12(x, p, c, ...) GD_HORNER_11(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_13(x, p, c, ...) GD_HORNER_12(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_14(x, p, c, ...) GD_HORNER_13(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_15(x, p, c, ...) GD_HORNER_14(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_16(x, p, c, ...) GD_HORNER_15(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_17(x, p, c, ...) GD_HORNER_16(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_18(x, p, c, ...) GD_HORNER_17(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_19(x, p, c, ...) GD_HORNER_18(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_20(x, p, c, ...) GD_HORNER_19(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_21(x, p, c, ...) GD_HORNER_20(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_22(x, p, c, ...) GD_HORNER_21(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_23(x, p, c, ...) GD_HORNER_22(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_24(x, p, c, ...) GD_HORNER_23(x, (p) * (x) + (c), __VA_ARGS__)
#define GD_HORNER_OF(c1, c2, c3, c4, c5, c6, c7, c8, c9, c10, c11, c12, c13, c14, c15, c16, c17, c18, c19, \
                     c20, c21, c22, c23, c24, name, ...)                                                   \
    name
#define GD_HORNER(x, ...)                                                                            \
    GD_HORNER_OF(__VA_ARGS__, GD_HORNER_24, GD_HORNER_23, GD_HORNER_22, GD_HORNER_21, GD_HORNER_20,  \
                 GD_HORNER_19, GD_HORNER_18, GD_HORNER_17, GD_HORNER_16, GD_HORNER_15, GD_HORNER_14, \
                 GD_HORNER_13, GD_HORNER_12, GD_HORNER_11, GD_HORNER_10, GD_HORNER_9, GD_HORNER_8,   \
                 GD_HORNER_7, GD_HORNER_6, GD_HORNER_5, GD_HORNER_4, GD_HORNER_3, GD_HORNER_2, 0, 0) \
    (x, __VA_ARGS__)

/* Operations of every processor, with the names used in tensor/ops.def. */
static inline float gd__abs_f32(float x) { return __builtin_fabsf(x); }
static inline double gd__abs_f64(double x) { return __builtin_fabs(x); }
static inline float gd__sqrt_f32(float x) { return __builtin_sqrtf(x); }
static inline double gd__sqrt_f64(double x) { return __builtin_sqrt(x); }
static inline float gd__floor_f32(float x) { return __builtin_floorf(x); }
static inline double gd__floor_f64(double x) { return __builtin_floor(x); }
static inline float gd__ceil_f32(float x) { return __builtin_ceilf(x); }
static inline double gd__ceil_f64(double x) { return __builtin_ceil(x); }
static inline float gd__round_f32(float x) { return __builtin_rintf(x); }
static inline double gd__round_f64(double x) { return __builtin_rint(x); }
static inline float gd__trunc_f32(float x) { return __builtin_truncf(x); }
static inline double gd__trunc_f64(double x) { return __builtin_trunc(x); }
static inline float gd__copysign_f32(float x, float y) { return __builtin_copysignf(x, y); }
static inline double gd__copysign_f64(double x, double y) { return __builtin_copysign(x, y); }
static inline float gd__fma_f32(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
static inline double gd__fma_f64(double x, double y, double z) { return __builtin_fma(x, y, z); }

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2: Taylor to r^7.  Adding 3/2 2^23 rounds to an integer, which is then in the lowest
 * bits; with 254 more those are the exponents of two powers of two whose product is 2^n, so that subnormals come out. */
static inline float gd__exp_f32(float x)
{
    float c = gd__cut_f32(x, -104.0f, 89.0f), t = c * 1.44269504f + 12583166.0f, n = t - 12583166.0f;
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = GD_HORNER(r, 1.0f / 5040, 1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f);
    p = (p * r * r + r) + 1.0f;
    uint32_t k = gd__f32_bits(t), half = k >> 1;
    float e = p * gd__bits_f32(half << 23) * gd__bits_f32((k - half) << 23);
    return x != x ? x : e;
}

/* x = 2^k (1 + f), log(1 + f) by s = f / (2 + f).  Numbers that are not positive and normal are detected by their bits, with masks, because compilers
 * evaluate both sides of a conditional. */
static inline float gd__log_f32(float x)
{
    uint32_t raw = gd__f32_bits(x), tiny = -(uint32_t)(raw < 0x800000u), none = -(raw >> 31);
    uint32_t bits = gd__f32_bits(x * gd__bits_f32(0x3F800000u + (tiny & 24u << 23)));
    int32_t k = (int32_t)(bits - 0x3F3504F3u) >> 23; /* so that 1 + f is in [sqrt(1/2), sqrt(2)) */
    float m = gd__bits_f32(bits - (uint32_t)k * 8388608u);
    float e = (float)(k - (int32_t)(tiny & 24));
    float f = m - 1.0f, s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
    float r = z * (0.66666667f + z * (0.4f + z * (0.2857143f + z * (0.22222222f + z * 0.18181819f))));
    float y = e * 0.693359375f - ((h - (s * (h + r) + e * -2.12194440e-4f)) - f);
    y = gd__bits_f32(gd__f32_bits(y) | none);
    y = raw << 1 == 0 ? -INFINITY : y;
    return (int32_t)raw >= 0x7F800000 ? x : y;
}

/* c = n ln 2 + r + lost, |r| <= ln 2 / 2; returns a number whose lowest bits are n + 2046 (see gd__exp_f32). */
static inline double gd__split_f64(double c, double *r, double *lost)
{
    double t = c * 1.4426950408889634 + 6755399441057790.0, n = t - 6755399441057790.0;
    double high = c - n * 6.93147180369123816490e-01, low = n * 1.90821492927058770002e-10;
    *r = high - low;
    *lost = (high - *r) - low;
    return t;
}

/* exp(r + lost) - 1 - r: r^2 q(r), q interpolating at Chebyshev's points of |r| <= 0.34665; off by 2^-62. */
static inline double gd__exp_rest(double r, double lost)
{
    double q = GD_HORNER(r, 2.0914696114722443e-09, 2.510522981321569e-08, 2.755727362113095e-07,
                         2.7557255369427714e-06, 2.4801587325565073e-05, 1.9841269874844894e-04,
                         1.3888888888883744e-03, 8.333333333326129e-03, 4.166666666666667e-02,
                         0.1666666666666667, 0.5);
    return r * r * q + lost;
}

/* Normal results within 0.54 ULP: the rounding error of 1 + r is added with the rest. With less precision, line searches that end at
 * rounding take more steps. */
static inline double gd__exp_f64(double x)
{
    double r, lost;
    uint64_t k = gd__f64_bits(gd__split_f64(gd__cut_f64(x, -746.0, 710.0), &r, &lost)), half = k >> 1;
    double sum = 1.0 + r, p = sum + (gd__exp_rest(r, lost) + (r - (sum - 1.0)));
    double e = p * gd__bits_f64(half << 52) * gd__bits_f64((k - half) << 52);
    return x != x ? x : e;
}

/* tanh |x| = -e / (2 + e), e = exp(-2 |x|) - 1: within 2 epsilons */
static inline double gd__tanh_f64(double x)
{
    double r, lost, t = gd__split_f64(-2.0 * gd__cut_f64(fabs(x), 0, 22.0), &r, &lost);
    double power = gd__bits_f64((gd__f64_bits(t) - 1023) << 52);
    double e = power * (gd__exp_rest(r, lost) + r) + (power - 1.0), y = copysign(-e / (2.0 + e), x);
    return x != x ? x : y;
}

/* x + x^3 p(x^2) below 5/8 and for NaN, p interpolating at Chebyshev's points; 1 - 2 / (e^2x + 1) above */
static inline float gd__tanh_f32(float x)
{
    float a = fabsf(x), z = a * a, e = gd__exp_f32(2.0f * gd__cut_f32(a, 0, 10.0f));
    float p = GD_HORNER(z, -0.0060962995f, 0.020996894f, -0.0538508495f, 0.133327693f, -0.333333289f);
    float low = p * z * a + a, high = 1.0f - 2.0f / (e + 1.0f);
    return copysignf(gd__f32_bits(a) - 0x3F200000u < 0x40600000u ? high : low, x); /* 5/8 <= a, no NaN */
}

/* e^-|x| over 1 + e^-|x| or 1 over it; the rounding error of the sum is added back, else f32 would be off by more than 2 ULP. */
static inline float gd__sigmoid_f32(float x)
{
    float e = gd__exp_f32(-fabsf(x)), sum = 1.0f + e, lost = e - (sum - 1.0f);
    float y = (x < 0 ? e : 1.0f) / sum;
    return y - y * lost;
}

static inline double gd__sigmoid_f64(double x)
{
    double e = gd__exp_f64(-fabs(x));
    return (x < 0 ? e : 1.0) / (1.0 + e);
}

/* ---- halves ---- */

#if defined(__aarch64__) && \
    defined(__ARM_FP16_FORMAT_IEEE) /* instructions for them: as below, but NaNs become quiet */

typedef union gd_half {
    uint16_t bits;
    __fp16 value;
} gd_half;

static inline float gd__f16_to_f32(uint16_t h) { return (float)(gd_half){.bits = h}.value; }

static inline uint16_t gd__f32_to_f16(float f)
{
    gd_half h = {.value = (__fp16)f};
    return f != f ? (uint16_t)(gd__f32_bits(f) >> 16 & 0x8000) | 0x7E00 : h.bits;
}

#else

static inline float gd__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7FFF;
    float normal = gd__bits_f32((rest << 13) + 0x38000000u);
    float subnormal = (float)rest * 5.9604644775390625e-8f; /* 2^-24 */
    float special = gd__bits_f32((rest << 13) | 0x7F800000u);
    float v = rest < 0x0400 ? subnormal : rest >= 0x7C00 ? special : normal;
    return gd__bits_f32(gd__f32_bits(v) | sign);
}

/* To nearest, ties to even. */
static inline uint16_t gd__f32_to_f16(float f)
{
    uint32_t u = gd__f32_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7FFFFFFF;
    uint32_t normal = (a - 0x38000000u + 0xFFFu + (a >> 13 & 1)) >> 13;
    /* adding 0.5 lets the hardware round a subnormal's bits */
    uint32_t subnormal = gd__f32_bits(gd__bits_f32(a) + 0.5f) - 0x3F000000u;
    uint32_t h = a < 0x38800000u ? subnormal : normal;
    h = a >= 0x47800000u ? 0x7C00u
                         : h; /* 65536 and beyond; values below may round up to infinity by themselves */
    h = a > 0x7F800000u ? 0x7E00u : h;
    return (uint16_t)(h | sign);
}

#endif

static inline float gd__bf16_to_f32(uint16_t h) { return gd__bits_f32((uint32_t)h << 16); }

static inline uint16_t gd__f32_to_bf16(float f)
{
    uint32_t u = gd__f32_bits(f), rounded = (u + 0x7FFFu + (u >> 16 & 1)) >> 16;
    return (uint16_t)((u & 0x7FFFFFFF) > 0x7F800000u ? (u >> 16 | 0x40u) : rounded);
}

/* Rounded to halves and back. */
static inline float gd__as_f16_f32(float x) { return gd__f16_to_f32(gd__f32_to_f16(x)); }
static inline double gd__as_f16_f64(double x) { return (double)gd__as_f16_f32((float)x); }
static inline float gd__as_bf16_f32(float x) { return gd__bf16_to_f32(gd__f32_to_bf16(x)); }
static inline double gd__as_bf16_f64(double x) { return (double)gd__as_bf16_f32((float)x); }

#endif
