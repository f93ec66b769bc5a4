/* Functions of f32 that are computed in f64 with the digits that f32 needs: polynomials off by 2^-32.  As base/vmath_special.h. */
#ifndef GD_BASE_MATH_SHORT_H
#define GD_BASE_MATH_SHORT_H

#ifndef GD_PROGRAM_TEXT
#include "base/vmath_special.h"
#endif

/* e^c, c in [-700, 700] */
static inline double gd__short_exp(double c)
{
    double t = c * 1.4426950408889634 + 6755399441056767.0, n = t - 6755399441056767.0;
    double r = c - n * 0.6931471805599453,
           q = GD_HORNER(r, 0.00019890990824673654, 0.0013933649996309251, 0.0083333109254809,
                         0.041666464925285904, 0.16666666681623232, 0.500000001346581);
    return (1.0 + (r + r * r * q)) * gd__bits_f64(gd__f64_bits(t) << 52);
}

/* log of a positive normal number; k as in gd__log_normal */
static inline double gd__short_log(double x)
{
    uint64_t bits = gd__f64_bits(x), above = (bits - 0x3FE6A09E667F3BCDull + (1024ull << 52)) >> 52;
    double k = gd__bits_f64(above | 0x4330000000000000ull) - 4503599627371520.0;
    double f = gd__bits_f64(bits - ((above - 1024) << 52)) - 1.0, s = f / (2.0 + f), z = s * s;
    double p = GD_HORNER(z, 0.11665807255163965, 0.14275389315604622, 0.2000006110591991,
                         0.33333333277020954);
    return k * 0.6931471805599453 + 2.0 * (s + s * z * p);
}

static inline float gd__log1p_f32(float x)
{
    double d = (double)x, u = 1.0 + d, lost = fabs(d) < 1.0 ? d - (u - 1.0) : 0.0;
    double y = gd__short_log(u > 0 && u < INFINITY ? u : 1.0) + lost;
    y = u == 0 ? -INFINITY : u < 0 ? NAN : y;
    return x != x || x == 0 || x == INFINITY ? x : (float)y;
}

static inline float gd__softplus_f32(float x)
{
    double d = (double)x, e = gd__short_exp(gd__cut_f64(-fabs(d), -700.0, 0.0)), u = 1.0 + e;
    double y = gd__short_log(u) + (e - (u - 1.0));
    return x != x ? x : (float)((d > 0 ? d : 0) + y);
}

/* e^(a^2) erfc(a), a in [0, 10.2], interpolating at Chebyshev's points of t */
static inline double gd__short_erfcx(double a)
{
    double t = (a - 3.0) / (a + 3.0),
           p = GD_HORNER(t, -6.334434737640325e-06, -8.668092981321218e-06, 6.42936083390175e-05,
                         4.2631560996342675e-05, -0.0005977272278732474, 0.0007084818615040142,
                         0.004269358866124111, -0.024392600191181602, 0.07166580996197248,
                         -0.1501159301884893, 0.24560380281920888, -0.3262335601671032);
    return p * t + 0.1790011511747033;
}

/* erfc(a), a >= 0: beyond 10.2 it is 0 in f32 */
static inline double gd__short_erfc(double a)
{
    return gd__short_exp(gd__cut_f64(-a * a, -700.0, 0.0)) * gd__short_erfcx(gd__cut_f64(a, 0.0, 10.2));
}

/* erf(x) / x of z = x^2 below 1 */
static inline double gd__short_erf_rest(double z)
{
    double p = GD_HORNER(z, -9.667044567144147e-06, 0.00011265959023975363, -0.0008484080405289949,
                         0.005221031807839253, -0.026865430727662544, 0.11283782495236683,
                         -0.376126384680287);
    return p * z + 1.1283791670615435;
}

/* In f32 alone, within 1 ULP: below 1 by what erf(x) / x differs from 1, above by the logarithm to the base 2 of erfc, which is small
 * beside 1 and needs few digits; 2^t is that of its whole part and a polynomial. */
static inline float gd__erf_f32(float x)
{
    float a = fabsf(x), z = gd__cut_f32(a * a, 0.0f, 1.0f), t = gd__cut_f32(a, 1.0f, 4.0f) - 1.0f;
    float p = 7.875874871388078e-05f;
    p = p * z + -0.000801686430349946f;
    p = p * z + 0.005189087241888046f;
    p = p * z + -0.02685421146452427f;
    p = p * z + 0.11283594369888306f;
    p = p * z + -0.3761262595653534f;
    p = p * z + 0.12837916612625122f;
    float q = 2.361910219406127e-06f;
    q = q * t + -4.7552428441122174e-05f;
    q = q * t + 0.00046200802898965776f;
    q = q * t + -0.002963729901239276f;
    q = q * t + 0.014539203606545925f;
    q = q * t + -0.05998111516237259f;
    q = q * t + -1.2163430452346802f;
    q = q * t + -3.8072257041931152f;
    q = q * t + -2.668416738510132f;
    float whole = q + 12583039.0f, r = q - (whole - 12583039.0f), e = 0.00015461444854736328f;
    e = e * r + 0.0013400427997112274f;
    e = e * r + 0.009618056938052177f;
    e = e * r + 0.05550327152013779f;
    e = e * r + 0.24022650718688965f;
    e = e * r + 0.6931471824645996f;
    e = e * r + 1.0f;
    float large = copysignf(1.0f - e * gd__bits_f32(gd__f32_bits(whole) << 23), x);
    float y = a < 1.0f ? x + x * p : large;
    return x != x ? x : y;
}

static inline float gd__erfc_f32(float x)
{
    double d = (double)x, a = fabs(d), large = gd__short_erfc(a);
    double small = 1.0 - d * gd__short_erf_rest(gd__cut_f64(a * a, 0.0, 1.0));
    double y = a < 0.4 ? small : d < 0 ? 2.0 - large : large;
    return x != x ? x : (float)y;
}

/* x Phi(x), Phi of the side on which it is small */
static inline float gd__gelu_f32(float x)
{
    double d = (double)x, tail = 0.5 * gd__short_erfc(fabs(d) * 0.70710678118654752);
    double y = d * (d > 0 ? 1.0 - tail : tail);
    return x != x ? x : x > -INFINITY ? (float)y : -0.0f;
}

/* Phi(x) + x phi(x) */
static inline float gd__gelu_slope_f32(float x)
{
    double d = gd__cut_f64((double)x, -100.0, 100.0), a = fabs(d) * 0.70710678118654752;
    double e = gd__short_exp(gd__cut_f64(-a * a, -700.0, 0.0));
    double tail = 0.5 * e * gd__short_erfcx(gd__cut_f64(a, 0.0, 10.2));
    double y = (d > 0 ? 1.0 - tail : tail) + 0.39894228040143268 * d * e;
    return x != x ? x : (float)y;
}

#endif
