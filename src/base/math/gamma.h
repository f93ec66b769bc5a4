/* log |Gamma(x)|.  The C library's if x is not positive or out of range (far).  Elsewhere (near, straight-line) Stirling's
 * series at x >= 8, or at x + 8 less the logarithm of x (x + 1) ... (x + 7); near its zeros 1 and 2 polynomials.  As base/vmath_special.h. */
#ifndef GD_BASE_MATH_GAMMA_H
#define GD_BASE_MATH_GAMMA_H

#ifndef GD_PROGRAM_TEXT
#include "base/math/short.h"
#endif

/* Else gcc does not inline large functions, and loops over them are not vectorised. */
#define GD_STRAIGHT static inline __attribute__((always_inline))

/* ---- f64, with the rounding errors of additions and products ---- */

/* a + b; adds its rounding error to *lost. */
static inline double gd__sum_f64(double a, double b, double *lost)
{
    double here, sum = gd__two_sum_f64(a, b, &here);
    *lost += here;
    return sum;
}

/* (a + a_low) (b + b_low) */
static inline double gd__product_f64(double a, double a_low, double b, double b_low, double *low)
{
    double p = a * b;
    *low = gd__lost_f64(p, a, b) + (a * b_low + a_low * b);
    return p;
}

/* log of x (x + 1) ... (x + 7): x (x + 7) = u, and the other pairs of factors are u + 6, u + 10 and u + 12. */
GD_STRAIGHT double gd__log_of_eight_f64(double x, double *log_low)
{
    double low = 0.0, square = x * x, seven = 7.0 * x, v_low, w_low, q_low, a_low, b_low, all_low;
    double u = gd__sum_f64(square, seven, &low);
    low += gd__lost_f64(square, x, x) + gd__lost_f64(seven, 7.0, x);
    double v = gd__two_sum_f64(u, 6.0, &v_low), w = gd__two_sum_f64(u, 10.0, &w_low),
           q = gd__two_sum_f64(u, 12.0, &q_low);
    double a = gd__product_f64(u, low, v, v_low + low, &a_low),
           b = gd__product_f64(w, w_low + low, q, q_low + low, &b_low);
    double all = gd__product_f64(a, a_low, b, b_low, &all_low), y = gd__log_pair_f64(all, 0.0, log_low);
    *log_low += all_low / all;
    return y;
}

/* d (first + d q), whose first two terms keep their rounding errors; first is 4.9e-18 more. */
static inline double gd__zero_times_f64(double d, double first, double q)
{
    double step = q * d, p = first + step, low = ((first - p) + step) + 4.942915152430645e-18, y = d * p;
    return 0.0 + (y + (gd__lost_f64(y, d, p) + d * low));
}

/* log Gamma(1 + d) and log Gamma(2 + d), |d| <= 1/8: polynomials that interpolate at Chebyshev's points. */
GD_STRAIGHT double gd__lgamma_at_one_f64(double d)
{
    double q = GD_HORNER(d, -0.07022659734497104, 0.07521244656279079, -0.07684826542129629,
                         0.08326434783781689, -0.09095502774481004, 0.10010053095217802, -0.11133425939176178,
                         0.12550966264426572, -0.14404989679013636, 0.16955717702002163, -0.20738555102864314,
                         0.2705808084277518, -0.40068563438653143, 0.8224670334241132);
    return gd__zero_times_f64(d, -0.5772156649015329, q);
}
GD_STRAIGHT double gd__lgamma_at_two_f64(double d)
{
    double q = GD_HORNER(d, -2.065746992575958e-06, 4.431271665427457e-06, -9.43886484824005e-06,
                         2.0505887405659712e-05, -4.492624418843814e-05, 9.945752862059494e-05,
                         -0.00022315475840592355, 0.0005096695246417303, -0.0011927539117034174,
                         0.002890510330741856, -0.007385551028673985, 0.020580808427784546,
                         -0.0673523010531981, 0.3224670334241132);
    return gd__zero_times_f64(d, 0.42278433509846713, q);
}

static inline int gd__far_lgamma_f64(double x) { return !((x > 1e-290) & (x < 1e300)); }

/* Within 0.8 ULP. */
GD_STRAIGHT double gd__near_lgamma_f64(double x)
{
    double at_low, by_low, log_low, p_low, below_low, low;
    double at = gd__two_sum_f64(x, x < 8.0 ? 8.0 : 0.0, &at_low), by = gd__two_sum_f64(at, -0.5, &by_low);
    double log_at = gd__log_pair_f64(at, 0.0, &log_low), y = 1.0 / at, z = y * y,
           tail = GD_HORNER(z, -0.020855820385832984, 0.006208136739721902, -0.0019149659115403873,
                            0.0008417325267947927, -0.0005952380234290776, 0.000793650793511728,
                            -0.0027777777777776747, 0.08333333333333333);
    double p = gd__product_f64(by, by_low + at_low, log_at, log_low + at_low * y, &p_low);
    double below = gd__log_of_eight_f64(x < 8.0 ? x : 1.0, &below_low);
    low = (p_low - at_low) + (tail * y - 3.8782941580672414e-17);
    double sum = gd__sum_f64(gd__sum_f64(p, -at, &low), 0.9189385332046728, &low);
    double far = gd__sum_f64(sum, x < 8.0 ? -below : 0.0, &low);
    far += low - (x < 8.0 ? below_low : 0.0);
    double one = x - 1.0, two = x - 2.0, at_one = gd__lgamma_at_one_f64(gd__cut_f64(one, -0.125, 0.125)),
           at_two = gd__lgamma_at_two_f64(gd__cut_f64(two, -0.125, 0.125));
    far = fabs(two) <= 0.125 ? at_two : far;
    return fabs(one) <= 0.125 ? at_one : far;
}

double lgamma_r(double x, int *sign); /* macOS has it, and hides its declaration */
static inline double gd__lgamma_f64(double x)
{
    int sign; /* lgamma() would write the sign to a global variable */
    return gd__far_lgamma_f64(x) ? lgamma_r(x, &sign) : gd__near_lgamma_f64(x);
}

/* ---- f32, computed in f64 ---- */

static inline int gd__far_lgamma_f32(float x) { return !(x > 0 && x < INFINITY); }
static inline float gd__near_lgamma_f32(float x)
{
    double d = (double)x, at = d < 8.0 ? d + 8.0 : d, c = d < 8.0 ? d : 1.0;
    double pairs = c * c + 7.0 * c; /* c (c + 7), and (c + 1) (c + 6) is 6 more */
    double product = pairs * (pairs + 6.0) * ((pairs + 10.0) * (pairs + 12.0));
    double y = 1.0 / at, z = y * y,
           tail = GD_HORNER(z, 0.0008417508417508417, -0.0005952380952380953, 0.0007936507936507937,
                            -0.002777777777777778, 0.08333333333333333);
    double below = d < 8.0 ? gd__log_normal(product, 0) : 0.0;
    double far = (((at - 0.5) * gd__log_normal(at, 0) - at) + (0.9189385332046727 + tail * y)) - below;
    double one = d - 1.0, two = d - 2.0,
           p = GD_HORNER(one, -0.20738555102867398, 0.27058080842778454, -0.40068563438653143,
                         0.8224670334241132, -0.5772156649015329),
           q = GD_HORNER(two, -0.007385551028673986, 0.020580808427784546, -0.0673523010531981,
                         0.3224670334241132, 0.42278433509846713);
    return (float)(0.0 + (fabs(one) < 0.0078125 ? p * one : fabs(two) < 0.0078125 ? q * two : far));
}
static inline float gd__lgamma_f32(float x)
{
    return gd__far_lgamma_f32(x) ? (float)gd__lgamma_f64((double)x) : gd__near_lgamma_f32(x);
}

#undef GD_STRAIGHT

#endif
