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
static float32x4_t high_brain(uint16x8_t x)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_u16(x), vdupq_n_u32(0xFFFF0000)));
}

void floor_add_f16(void *o_, const void *a_, void *b_, int64_t n)
{
    uint16_t *o = o_;
    const uint16_t *a = a_, *b = b_;
    for (int64_t i = 0; i < n; i += 8) {
        uint16x8_t x = vld1q_u16(a + i), y = vld1q_u16(b + i);
        float16x4_t low = vcvt_f16_f32(low_half(x) + low_half(y));
        vst1q_u16(o + i, vreinterpretq_u16_f16(vcvt_high_f16_f32(low, high_half(x) + high_half(y))));
    }
}

/* To nearest, ties to even; NaNs are left out. */
static uint32x4_t rounded(float32x4_t x)
{
    uint32x4_t u = vreinterpretq_u32_f32(x), odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    return vaddq_u32(vaddq_u32(u, odd), vdupq_n_u32(0x7FFF));
}

void floor_add_bf16(void *o_, const void *a_, void *b_, int64_t n)
{
    uint16_t *o = o_;
    const uint16_t *a = a_, *b = b_;
    for (int64_t i = 0; i < n; i += 8) {
        uint16x8_t x = vld1q_u16(a + i), y = vld1q_u16(b + i);
        uint32x4_t low = rounded(low_brain(x) + low_brain(y)), high = rounded(high_brain(x) + high_brain(y));
        vst1q_u16(o + i, vtrn2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high)));
    }
}

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
