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

/* exp(x) = 2^n exp(r), |r| <= ln 2 / 2: Taylor to r^7; 2^n in two halves so that subnormals come out. */
static inline float gd__exp_f32(float x)
{
    float c = x < 89.0f ? x : 89.0f; /* NaN becomes 89 here: it has no integer part */
    c = c < -104.0f ? -104.0f : c;
    float n = (c * 1.44269504f + 12582912.0f) - 12582912.0f; /* rounds to an integer */
    float r = (c - n * 0.693359375f) - n * -2.12194440e-4f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = (p * r * r + r) + 1.0f;
    int32_t k = (int32_t)n, half = k >> 1, rest = k - half;
    float e = p * gd__bits_f32((uint32_t)(half + 127) << 23) * gd__bits_f32((uint32_t)(rest + 127) << 23);
    return x != x ? x : e;
}

/* log of a positive normal or subnormal: x = 2^k (1 + f), log(1 + f) by s = f / (2 + f). */
static inline float gd__log_f32(float x)
{
    float scaled = x < 1.17549435e-38f ? x * 16777216.0f : x;
    uint32_t bits = gd__f32_bits(scaled);
    int32_t k = (int32_t)(bits - 0x3F3504F3u) >> 23; /* so that 1 + f is in [sqrt(1/2), sqrt(2)) */
    float m = gd__bits_f32(bits - (uint32_t)k * 8388608u);
    float e = (float)(x < 1.17549435e-38f ? k - 24 : k);
    float f = m - 1.0f, s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
    float r = z * (0.66666667f + z * (0.4f + z * (0.2857143f + z * (0.22222222f + z * 0.18181819f))));
    float y = e * 0.693359375f - ((h - (s * (h + r) + e * -2.12194440e-4f)) - f);
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x == INFINITY || x != x ? x : y;
}

/* exp in f64 good to about 1e-13, for f32 functions only; |x| is cut at 700. */
static inline double gd__exp_wide(double x)
{
    double c = x < 700.0 ? x : 700.0; /* NaN becomes 700 here: it has no integer part */
    c = c < -700.0 ? -700.0 : c;
    double n = (c * 1.4426950408889634 + 6755399441055744.0) - 6755399441055744.0;
    double r = (c - n * 0.6931471805599453);
    double p = 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = (p * r + 1.0) * r + 1.0;
    int64_t k = (int64_t)n;
    double e = p * gd__bits_f64((uint64_t)(k + 1023) << 52);
    return x != x ? x : e;
}

static inline float gd__tanh_f32(float x)
{
    double a = fabs((double)x), e = gd__exp_wide(-2.0 * (a > 20.0 ? 20.0 : a));
    double t = (1.0 - e) / (1.0 + e);
    t = a < 1e-4 ? a - a * a * a * (1.0 / 3) : t;
    float y = (float)(x < 0 ? -t : t);
    return x != x || x == 0.0f ? x : y;
}

static inline float gd__expm1_f32(float x)
{
    double d = (double)x, e = gd__exp_wide(d) - 1.0;
    e = fabs(d) < 1e-4 ? d + d * d * 0.5 + d * d * d * (1.0 / 6) : e;
    return x != x || x == 0.0f ? x : (float)e;
}

static inline float gd__sigmoid_f32(float x) { return (float)(1.0 / (1.0 + gd__exp_wide(-(double)x))); }

static inline double gd__sigmoid_f64(double x)
{
    double e = exp(-fabs(x)), s = 1.0 / (1.0 + e);
    return x < 0 ? e * s : s;
}

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|) */
static inline double gd__softplus_f64(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}

static inline float gd__softplus_f32(float x) { return (float)gd__softplus_f64((double)x); }

/* x Phi(x); erfc keeps the digits of the lower tail, which 1 + erf would lose */
static inline double gd__gelu_f64(double x) { return 0.5 * x * erfc(x * -0.70710678118654752); }

static inline float gd__gelu_f32(float x) { return (float)gd__gelu_f64((double)x); }

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

#endif
