/* The other element functions, gd__NAME_f32 and gd__NAME_f64, as in base/vmath.h: rows of tensor/ops.def name them.  Compiled programs
 * get this text, with that of base/rng.h before it, where they use one of them. */
#ifndef GD_BASE_VMATH_SPECIAL_H
#define GD_BASE_VMATH_SPECIAL_H

#ifndef GD_PROGRAM_TEXT
#include "base/rng.h"
#include "base/vmath.h"
#endif

/* as gd__log_f32 */
static inline double gd__log_f64(double x)
{
    uint64_t raw = gd__f64_bits(x), tiny = -(uint64_t)(raw < 1ull << 52), none = -(raw >> 63);
    double scaled = x * gd__bits_f64((1023ull << 52) + (tiny & 54ull << 52));
    double y = gd__log_normal(scaled, gd__bits_f64(tiny & 0xC04B000000000000ull)); /* -54 */
    y = gd__bits_f64(gd__f64_bits(y) | none);
    y = raw << 1 == 0 ? -INFINITY : y;
    return (int64_t)raw >= 0x7FF0000000000000 ? x : y;
}

static inline float gd__expm1_f32(float x)
{
    double d = (double)x, e = gd__exp_f64(d) - 1.0;
    e = fabs(d) < 1e-4 ? d + d * d * 0.5 + d * d * d * (1.0 / 6) : e;
    return x != x || x == 0.0f ? x : (float)e;
}

static inline double gd__expm1_f64(double x) { return expm1(x); }

/* By way of f64. */
#define GD_BY_F64(name)                                                 \
    static inline double gd__##name##_f64(double x) { return name(x); } \
    static inline float gd__##name##_f32(float x) { return (float)name((double)x); }
GD_BY_F64(log1p)
GD_BY_F64(log2)
GD_BY_F64(log10)
GD_BY_F64(sin)
GD_BY_F64(cos)
GD_BY_F64(tan)
GD_BY_F64(asin)
GD_BY_F64(acos)
GD_BY_F64(atan)
GD_BY_F64(sinh)
GD_BY_F64(cosh)
GD_BY_F64(erfc)
#undef GD_BY_F64
static inline double gd__erf_f64(double x) { return erf(x); }
static inline float gd__erf_f32(float x) { return erff(x); }
static inline double gd__lgamma_f64(double x)
{
    int sign; /* lgamma() would write it to a global */
    return lgamma_r(x, &sign);
}
static inline float gd__lgamma_f32(float x) { return (float)gd__lgamma_f64((double)x); }
static inline double gd__pow_f64(double x, double y) { return pow(x, y); }
static inline float gd__pow_f32(float x, float y) { return (float)pow((double)x, (double)y); }
static inline double gd__atan2_f64(double y, double x) { return atan2(y, x); }
static inline float gd__atan2_f32(float y, float x) { return (float)atan2((double)y, (double)x); }
static inline double gd__mod_f64(double x, double y)
{
    double r = fmod(x, y);
    return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}
static inline float gd__mod_f32(float x, float y) { return (float)gd__mod_f64((double)x, (double)y); }

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|) */
static inline double gd__softplus_f64(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x))) + (x != x ? x : 0);
}

static inline float gd__softplus_f32(float x) { return (float)gd__softplus_f64((double)x); }

/* x Phi(x); erfc keeps the digits of the lower tail, which 1 + erf would lose.  It also makes 2 z^2 of a relative error of its
 * argument z = -x / sqrt(2), 16 epsilons at x = -5 of z's rounding alone: what that lost (Dekker's product: 26 bits of x, 26 of
 * sqrt(1/2)) is put back by the slope.  -erfc' / erfc = z + sqrt(z^2 + 4 / pi) to a few hundredths where z > 0. */
static inline double gd__gelu_f64(double x)
{
    double z = x * -0.70710678118654752, high = gd__bits_f64(gd__f64_bits(x) & 0xFFFFFFFFF8000000ull);
    double lost = ((high * -0x1.6a09e6p-1 - z) + (x - high) * -0x1.6a09e6p-1) + x * -1.210161710447897e-08;
    double e = erfc(z);
    e -= z > 0 ? e * lost * (z + sqrt(z * z + 1.2732395447351628)) : 0;
    return 0.5 * x * e;
}

static inline float gd__gelu_f32(float x)
{
    return (float)(0.5 * (double)x * erfc((double)x * -0.70710678118654752));
}

/* Phi(x) + x phi(x) */
static inline float gd__gelu_slope_f32(float x)
{
    return 0.5f * erfcf(-0.70710678f * x) + 0.39894228f * x * gd__exp_f32(-0.5f * x * x);
}
static inline double gd__gelu_slope_f64(double x)
{
    return 0.5 * erfc(-0.70710678118654752 * x) + 0.39894228040143268 * x * exp(-0.5 * x * x);
}

#endif
