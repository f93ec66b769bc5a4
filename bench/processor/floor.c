#include "floor.h"

#include <arm_neon.h>

/* ---- f32 and f64 from one text: V is a vector, U one of bits, S a number, WIDTH how many ---- */

#define V         float32x4_t
#define U         uint32x4_t
#define S         float
#define BITS      uint32_t
#define TINY      24
#define WIDTH     4
#define F(name)   name##_f32
#define B(name)   name##_u32
#define AS_BITS   vreinterpretq_u32_f32
#define AS_REAL   vreinterpretq_f32_u32
#define FRACTION  23
#define ROUNDER   12583166.0f
#define LOWEST    -104.0f
#define HIGHEST   89.0f
#define LN2_HIGH  0.693359375f
#define LN2_LOW   -2.12194440e-4f
#define ROOT_HALF 0x3F3504F3u
static const float taylor[] = {1.f / 5040, 1.f / 720, 1.f / 120, 1.f / 24, 1.f / 6, 0.5f};
static const float log_series[] = {0.18181819f, 0.22222222f, 0.2857143f, 0.4f, 0.66666667f};
#define TAYLOR        taylor
#define LOG_SERIES    log_series
#define CONVERT       vcvtq_f32_s32(vreinterpretq_s32_u32(k))
#define ARITHMETIC(x) vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_u32(x), 23))
#include "floor_impl.h"

/* as gd__tanh_f32 */
static const float tanh_series[] = {-0.0060962995f, 0.020996894f, -0.0538508495f, 0.133327693f,
                                    -0.333333289f};
void floor_tanh_f32(void *o_, const void *a_, void *b, int64_t n)
{
    (void)b;
    float *o = o_;
    const float *x = a_;
    for (int64_t i = 0; i < n; i += 4) {
        float32x4_t v = vld1q_f32(x + i), a = vabsq_f32(v), e = exp_of_f32(a + a), z = a * a,
                    one = vdupq_n_f32(1);
        float32x4_t low = vfmaq_f32(a, polynomial_f32(tanh_series, 5, z) * z, a),
                    high = one - vdupq_n_f32(2) / (e + one);
        float32x4_t y = vbslq_f32(vcltq_f32(a, vdupq_n_f32(0.625f)), low, high);
        vst1q_f32(o + i, vbslq_f32(vdupq_n_u32(0x80000000), v, y));
    }
}

#undef V
#undef U
#undef S
#undef BITS
#undef TINY
#undef WIDTH
#undef F
#undef B
#undef AS_BITS
#undef AS_REAL
#undef FRACTION
#undef ROUNDER
#undef LOWEST
#undef HIGHEST
#undef LN2_HIGH
#undef LN2_LOW
#undef ROOT_HALF
#undef TAYLOR
#undef LOG_SERIES
#undef CONVERT
#undef ARITHMETIC

#define V         float64x2_t
#define U         uint64x2_t
#define S         double
#define BITS      uint64_t
#define TINY      54
#define WIDTH     2
#define F(name)   name##_f64
#define B(name)   name##_u64
#define AS_BITS   vreinterpretq_u64_f64
#define AS_REAL   vreinterpretq_f64_u64
#define FRACTION  52
#define ROUNDER   6755399441057790.0
#define LOWEST    -746.0
#define HIGHEST   710.0
#define LN2_HIGH  6.93147180369123816490e-01
#define LN2_LOW   1.90821492927058770002e-10
#define ROOT_HALF 0x3FE6A09E667F3BCDull
static const double taylor_wide[] = {1. / 479001600, 1. / 39916800, 1. / 3628800, 1. / 362880,
                                     1. / 40320,     1. / 5040,     1. / 720,     1. / 120,
                                     1. / 24,        1. / 6,        0.5};
static const double log_series_wide[] = {2. / 15, 2. / 13, 2. / 11, 2. / 9, 2. / 7, 2. / 5, 2. / 3};
#define TAYLOR        taylor_wide
#define LOG_SERIES    log_series_wide
#define CONVERT       vcvtq_f64_s64(vreinterpretq_s64_u64(k))
#define ARITHMETIC(x) vreinterpretq_u64_s64(vshrq_n_s64(vreinterpretq_s64_u64(x), 52))
#include "floor_impl.h"

/* as gd__tanh_f64 */
void floor_tanh_f64(void *o_, const void *a_, void *b, int64_t n)
{
    (void)b;
    double *o = o_;
    const double *x = a_;
    float64x2_t one = vdupq_n_f64(1), rounder = vdupq_n_f64(ROUNDER);
    for (int64_t i = 0; i < n; i += 2) {
        float64x2_t v = vld1q_f64(x + i), c = vminq_f64(vabsq_f64(v), vdupq_n_f64(22)) * vdupq_n_f64(-2);
        float64x2_t t = vfmaq_f64(rounder, c, vdupq_n_f64(1.4426950408889634)), m = t - rounder;
        float64x2_t r = vfmsq_f64(vfmsq_f64(c, m, vdupq_n_f64(LN2_HIGH)), m, vdupq_n_f64(LN2_LOW));
        float64x2_t p = vfmaq_f64(r, polynomial_f64(taylor_wide, 11, r) * r, r);
        float64x2_t power = vreinterpretq_f64_u64(
            vshlq_n_u64(vreinterpretq_u64_f64(t) - vdupq_n_u64(1023), 52));
        float64x2_t e = vfmaq_f64(power - one, power, p), y = vnegq_f64(e) / (e + vdupq_n_f64(2));
        vst1q_f64(o + i, vbslq_f64(vdupq_n_u64(1ull << 63), v, y));
    }
}

/* ---- halves ---- */

static float32x4_t low_half(uint16x8_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(vget_low_u16(x))); }
static float32x4_t high_half(uint16x8_t x) { return vcvt_high_f32_f16(vreinterpretq_f16_u16(x)); }
static float32x4_t low_brain(uint16x8_t x) { return vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(x), 16)); }
static float32x4_t high_brain(uint16x8_t x) { return vreinterpretq_f32_u32(vshll_high_n_u16(x, 16)); }

static uint16x8_t narrow_half(float32x4_t a, float32x4_t b)
{
    return vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a), b));
}
/* To nearest, ties to even: the instruction adds half a place, one less where that is to be even. */
static uint32x4_t less_if_even(uint32x4_t u) { return vmvnq_u32(vtstq_u32(u, vdupq_n_u32(0x10000))); }
static uint16x8_t narrow_brain(float32x4_t a, float32x4_t b)
{
    uint32x4_t u = vreinterpretq_u32_f32(a), v = vreinterpretq_u32_f32(b);
    return vraddhn_high_u32(vraddhn_u32(u, less_if_even(u)), v, less_if_even(v));
}

#define HALVES(name, kind, expression)                                          \
    void name(void *o_, const void *a_, void *b_, int64_t n)                    \
    {                                                                           \
        uint16_t *restrict o = o_;                                              \
        const uint16_t *a = a_, *b = b_;                                        \
        for (int64_t i = 0; i < n; i += 8) {                                    \
            uint16x8_t p = vld1q_u16(a + i), q = vld1q_u16(b + i);              \
            float32x4_t x = low_##kind(p), y = low_##kind(q), low = expression; \
            (void)y;                                                            \
            x = high_##kind(p);                                                 \
            y = high_##kind(q);                                                 \
            vst1q_u16(o + i, narrow_##kind(low, expression));                   \
        }                                                                       \
    }
HALVES(floor_add_f16, half, x + y)
HALVES(floor_add_bf16, brain, x + y)
HALVES(floor_mul_f16, half, x *y)
HALVES(floor_mul_bf16, brain, x *y)
HALVES(floor_exp_f16, half, exp_of_f32(x))
HALVES(floor_exp_bf16, brain, exp_of_f32(x))

/* less than 0: from 0x8001 to -infinity */
#define RELU(name, infinity)                                                                              \
    void name(void *o_, const void *a_, void *b, int64_t n)                                               \
    {                                                                                                     \
        (void)b;                                                                                          \
        uint16_t *o = o_;                                                                                 \
        const uint16_t *a = a_;                                                                           \
        for (int64_t i = 0; i < n; i += 8) {                                                              \
            uint16x8_t x = vld1q_u16(a + i);                                                              \
            vst1q_u16(o + i,                                                                              \
                      vbicq_u16(x, vcltq_u16(vsubq_u16(x, vdupq_n_u16(0x8001)), vdupq_n_u16(infinity)))); \
        }                                                                                                 \
    }
RELU(floor_relu_f16, 0x7C00)
RELU(floor_relu_bf16, 0x7F80)

#define SUM_HALVES(name, low, high)                        \
    void name(void *o, const void *a_, void *b, int64_t n) \
    {                                                      \
        (void)b;                                           \
        const uint16_t *a = a_;                            \
        float32x4_t s = vdupq_n_f32(0), t = s;             \
        for (int64_t i = 0; i < n; i += 8) {               \
            uint16x8_t x = vld1q_u16(a + i);               \
            s += low(x);                                   \
            t += high(x);                                  \
        }                                                  \
        *(float *)o = vaddvq_f32(s + t);                   \
    }
SUM_HALVES(floor_sum_f16, low_half, high_half)
SUM_HALVES(floor_sum_bf16, low_brain, high_brain)
