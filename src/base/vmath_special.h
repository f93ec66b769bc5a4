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

/* ---- logarithms and powers ---- */

/* What p = x y lost, exactly: by the instruction for it, or by products of halves of 26 bits (Dekker), which gives the same. */
static inline double gd__lost_f64(double p, double x, double y)
{
#if defined __FMA__ || defined __aarch64__
    return __builtin_fma(x, y, -p);
#else
    double a = gd__bits_f64((gd__f64_bits(x) + 0x4000000) & 0xFFFFFFFFF8000000ull), b = x - a;
    double c = gd__bits_f64((gd__f64_bits(y) + 0x4000000) & 0xFFFFFFFFF8000000ull), d = y - c;
    return ((a * c - p) + a * d + b * c) + b * d;
#endif
}

/* log of a positive normal number times 2^shift, as the result and *low, off by 2^-66 of it.  x = 2^k (1 + f), s = f / (2 + f):
 * log(1 + f) = 2 s + s z (2/3 + z q(z)), z = s^2; all but q with what rounding loses.  q interpolates at Chebyshev's points. */
static inline double gd__log_pair_f64(double x, double shift, double *low)
{
    uint64_t bits = gd__f64_bits(x), above;
    above = (bits - 0x3FE6A09E667F3BCDull + (1024ull << 52)) >> 52;
    double m = gd__bits_f64(bits - ((above - 1024) << 52));
    double k = gd__bits_f64(above | 0x4330000000000000ull) - 4503599627371520.0 + shift;
    double f = m - 1.0, t = 2.0 + f, t_low = f - (t - 2.0), inverse = 1.0 / t, s = f * inverse, p = s * t;
    double s_low = (((f - p) - gd__lost_f64(p, s, t)) - s * t_low) * inverse;
    double z = s * s, z_low = gd__lost_f64(z, s, s) + 2.0 * s * s_low;
    double q = 0.10762424419609365;
    q = q * z + 0.1045632726947894;
    q = q * z + 0.11766813121034499;
    q = q * z + 0.13333296534432934;
    q = q * z + 0.15384615761170173;
    q = q * z + 0.18181818179656925;
    q = q * z + 0.2222222222222843;
    q = q * z + 0.28571428571428564;
    q = q * z + 0.4;
    double u = z * q, a = 0.66666666666666663 + u,
           a_low = ((0.66666666666666663 - a) + u) + 3.7007434154171886e-17;
    double w = z * a, w_low = gd__lost_f64(w, z, a) + (z * a_low + z_low * a);
    double v = s * w, v_low = gd__lost_f64(v, s, w) + (s * w_low + s_low * w);
    double whole = k * 0.693147180559890330187045037746429443359375, twice = 2.0 * s;
    double sum = whole + twice, lost = (whole - sum) + twice;
    double all = sum + v, rest = (sum - all) + v;
    double below = lost + rest + (2.0 * s_low + v_low + k * 5.497923018708371174712471e-14), y = all + below;
    *low = (all - y) + below;
    return y;
}

/* The same of any number that is not below 0: subnormal ones are scaled, of 0 it is -infinity, of infinity itself. */
static inline double gd__log_any_pair_f64(double x, double *low)
{
    uint64_t raw = gd__f64_bits(x), tiny = -(uint64_t)(raw < 1ull << 52);
    double scaled = x * gd__bits_f64((1023ull << 52) + (tiny & 54ull << 52)), rest;
    double y = gd__log_pair_f64(scaled, gd__bits_f64(tiny & 0xC04B000000000000ull), &rest); /* -54 */
    y = raw == 0 ? -INFINITY : y;
    y = raw >= 0x7FF0000000000000ull ? x : y;
    *low = raw == 0 || raw >= 0x7FF0000000000000ull ? 0.0 : rest;
    return y;
}

/* by exp(high + low), low being less than the last digit of high: as gd__exp_f64, but for a low that is part of what is reduced. */
static inline double gd__exp_pair_f64(double high, double low, double by)
{
    double c = gd__cut_f64(high, -746.0, 710.0), t = c * 1.4426950408889634 + 6755399441057790.0;
    double n = t - 6755399441057790.0, first = c - n * 6.93147180369123816490e-01;
    double second = n * 1.90821492927058770002e-10 - low, r = first - second, lost = (first - r) - second;
    uint64_t k = gd__f64_bits(t), half = k >> 1;
    double sum = 1.0 + r, p = sum * by + (gd__exp_rest(r, lost) + (r - (sum - 1.0))) * by;
    return p * gd__bits_f64(half << 52) * gd__bits_f64((k - half) << 52);
}

/* What is special about x^y, given |x|^y: IEEE 754 says it. */
static inline double gd__power_of_f64(double x, double y, double size)
{
    double half = 0.5 * y,
           whole = fabs(y) < 4503599627370496.0 ? (fabs(y) + 4503599627370496.0) - 4503599627370496.0
                                                : fabs(y),
           even = fabs(half) < 4503599627370496.0 ? (fabs(half) + 4503599627370496.0) - 4503599627370496.0
                                                  : fabs(half);
    uint64_t negative = gd__f64_bits(x) >> 63, odd = whole == fabs(y) && even != fabs(half);
    double r = gd__bits_f64(gd__f64_bits(size) | (negative & odd) << 63);
    r = x < 0 && x > -INFINITY && whole != fabs(y) ? NAN : r;
    r = x != x || y != y ? x + y : r;
    return x == 1.0 || y == 0.0 || (x == -1.0 && fabs(y) == INFINITY) ? 1.0 : r;
}

/* e^(y log |x|), within 0.6 ULP. */
static inline double gd__pow_f64(double x, double y)
{
    double low, log_x = gd__log_any_pair_f64(fabs(x), &low), p = y * log_x;
    double rest = fabs(p) < 1000.0 && fabs(y) < 1e290 ? gd__lost_f64(p, y, log_x) + y * low : 0.0;
    return gd__power_of_f64(x, y, gd__exp_pair_f64(p, rest, 1.0));
}

/* In f64, which has digits to spare. */
static inline float gd__power_f32(float x, double y)
{
    double size = gd__exp_f64(y * gd__log_f64(fabs((double)x)));
    return (float)gd__power_of_f64((double)x, y, size);
}
static inline float gd__pow_f32(float x, float y) { return gd__power_f32(x, (double)y); }

/* Whole and half powers of numbers that keep what they lost: x^k as high + low, within 0.6 ULP.  What products lost is not a number
 * where they are infinite, and not all of it where they are next to nothing. */
static inline double gd__products_f64(double x, double k)
{
    double size = fabs(k), p, y, low = 0.0, power = 1.0, power_low = 0.0;
    if (k < 0) {
        y = 1.0 / x;
        p = x * y;
        low = ((1.0 - p) - gd__lost_f64(p, x, y)) * y;
        x = y;
    }
    if (gd__floor_f64(size) != size) {
        power = gd__sqrt_f64(x);
        p = power * power;
        power_low = (((x - p) - gd__lost_f64(p, power, power)) + low) / (2.0 * power);
    }
    for (int n = (int)size; n; n >>= 1) {
        if (n & 1) {
            p = power * x;
            power_low = gd__lost_f64(p, power, x) + (power * low + power_low * x);
            power = p;
        }
        p = x * x;
        low = gd__lost_f64(p, x, x) + 2.0 * x * low;
        x = p;
    }
    return fabs(power) > 1e-290 && fabs(power_low) < fabs(power) ? power + power_low : power;
}

/* In f64, which keeps all but the last of its digits and has room for all powers that f32 can hold. */
static inline float gd__products_f32(float x_, float k)
{
    double x = k < 0 ? 1.0 / (double)x_ : (double)x_, size = fabs((double)k);
    double power = gd__floor_f64(size) != size ? gd__sqrt_f64(x) : 1.0;
    for (int n = (int)size; n; n >>= 1) {
        power = n & 1 ? power * x : power;
        x *= x;
    }
    return (float)power;
}

/* x^k with the bits of gd_pow_scalar: products and roots where k is a whole or half number of 32 at most.  As roots of powers see
 * x: sqrt(-0) is -0 and sqrt(-inf) NaN, but pow(-0, 0.5) is 0 and pow(-inf, 0.5) inf. */
static inline double gd__scalar_pow_f64(double x, double k)
{
    double root = x == -INFINITY ? INFINITY : x + 0.0;
    if (!(fabs(k) <= 32.0) || gd__floor_f64(2.0 * k) != 2.0 * k) return gd__pow_f64(x, k);
    if (k == 0.0) return 1.0;
    if (k == 1.0) return x;
    if (k == 2.0) return x * x;
    if (k == 3.0) return x * x * x;
    if (k == -1.0) return 1.0 / x;
    if (k == 0.5) return gd__sqrt_f64(root);
    if (k == -0.5) return 1.0 / gd__sqrt_f64(root);
    if (k == 1.5) return root * gd__sqrt_f64(root);
    return gd__products_f64(gd__floor_f64(k) == k ? x : root, k);
}
static inline float gd__scalar_pow_f32(float x, float k)
{
    float root = x == -INFINITY ? INFINITY : x + 0.0f;
    if (!(fabs((double)k) <= 32.0) || gd__floor_f32(2.0f * k) != 2.0f * k) return gd__pow_f32(x, k);
    if (k == 0.0f) return 1.0f;
    if (k == 1.0f) return x;
    if (k == 2.0f) return x * x;
    if (k == 3.0f) return x * x * x;
    if (k == -1.0f) return 1.0f / x;
    if (k == 0.5f) return gd__sqrt_f32(root);
    if (k == -0.5f) return 1.0f / gd__sqrt_f32(root);
    if (k == 1.5f) return root * gd__sqrt_f32(root);
    return gd__products_f32(gd__floor_f32(k) == k ? x : root, k);
}

/* log(x) times a number that is given with what it lost. */
static inline double gd__log_times_f64(double x, double by, double by_low)
{
    double low, y = gd__log_any_pair_f64(fabs(x), &low), p = y * by;
    double r = p + (gd__lost_f64(p, y, by) + (y * by_low + low * by));
    r = fabs(y) < INFINITY ? r : y;
    return x < 0 ? NAN : x != x ? x : r;
}

static inline double gd__log2_f64(double x)
{
    return gd__log_times_f64(x, 1.4426950408889634, 2.0355273740931033e-17);
}
static inline double gd__log10_f64(double x)
{
    return gd__log_times_f64(x, 0.4342944819032518, 1.098319650216765e-17);
}
static inline float gd__log2_f32(float x) { return (float)(gd__log_f64((double)x) * 1.4426950408889634); }
static inline float gd__log10_f32(float x) { return (float)(gd__log_f64((double)x) * 0.43429448190325182); }

/* log(1 + x) = log u + c / u, u being 1 + x and c what that lost. */
static inline double gd__log1p_f64(double x)
{
    double u = 1.0 + x, larger = fabs(x) > 1.0 ? x : 1.0, smaller = fabs(x) > 1.0 ? 1.0 : x,
           c = smaller - (u - larger);
    double safe = u > 0 && u < INFINITY ? u : 1.0, low, high = gd__log_pair_f64(safe, 0.0, &low);
    double y = high + (low + c / safe);
    y = u == 0 ? -INFINITY : u < 0 ? NAN : y;
    return x != x || x == 0 || x == INFINITY ? x : y;
}
static inline float gd__log1p_f32(float x) { return (float)gd__log1p_f64((double)x); }

/* 2^k (e^r - 1) + (2^k - 1), by half of 2^k, which does not overflow. */
static inline double gd__expm1_f64(double x)
{
    double r, lost, c = gd__cut_f64(x, -60.0, 710.0), t = gd__split_f64(c, &r, &lost);
    double half = gd__bits_f64((gd__f64_bits(t) - 1024) << 52), rest = gd__exp_rest(r, lost);
    double base = half - 0.5, step = half * r, sum = base + step;
    /* of two sums the larger operand's rounding is known */
    double back = fabs(base) >= fabs(step) ? step - (sum - base) : base - (sum - step);
    double y = 2.0 * (sum + (half * rest + back));
    return x != x || x == 0 ? x : y;
}
static inline float gd__expm1_f32(float x) { return (float)gd__expm1_f64((double)x); }

/* log(1 + e^x) = max(x, 0) + log1p(e^-|x|) */
static inline double gd__softplus_f64(double x)
{
    double y = gd__log1p_f64(gd__exp_f64(-fabs(x)));
    return x != x ? x : (x > 0 ? x : 0) + y;
}
static inline float gd__softplus_f32(float x)
{
    double d = (double)x, e = gd__exp_f64(-fabs(d)), u = 1.0 + e;
    double y = gd__log_normal(u, 0) + (e - (u - 1.0)) / u;
    return x != x ? x : (float)((d > 0 ? d : 0) + y);
}

/* ---- the error function ---- */

/* erf(x) / x - 1 of z = x^2 below 1, interpolating at Chebyshev's points. */
static inline double gd__erf_rest_f64(double z)
{
    double p = -4.230945824295338e-12;
    p = p * z + 8.709045129053106e-11;
    p = p * z + -1.216456005728345e-09;
    p = p * z + 1.4792401209404813e-08;
    p = p * z + -1.6364642158167616e-07;
    p = p * z + 1.6462045441468418e-06;
    p = p * z + -1.4925647567519332e-05;
    p = p * z + 0.00012055332902888736;
    p = p * z + -0.000854832702193483;
    p = p * z + 0.0052239776254232985;
    p = p * z + -0.02686617064512984;
    p = p * z + 0.1128379167095512;
    p = p * z + -0.37612638903183754;
    p = p * z + 0.1283791670955126;
    return p;
}

/* erfc(a) of a >= 0.4: e^(-a^2) / (1 + 2 a) times a polynomial of t = (a - 4) / (a + 4) (Shepherd and Laframboise 1981), with what a^2,
 * 1 + 2 a and t have lost; of a + a_low, which is next to a: erfc' / erfc = -2 / sqrt(pi) / (e^(a^2) erfc(a)). */
static inline double gd__erfc_tail_f64(double a, double a_low)
{
    double top = a - 4.0, under = a + 4.0, under_low = under > 8.0 ? 4.0 - (under - a) : a - (under - 4.0);
    double top_low = a > 4.0 ? a - (top + 4.0) : (a - top) - 4.0;
    double inverse = 1.0 / under, t = top * inverse, q = t * under;
    double t_low = (((top - q) - gd__lost_f64(q, t, under)) + top_low - t * under_low) * inverse;
    double p = 1.622076129232884e-09;
    p = p * t + 2.4648731166231284e-09;
    p = p * t + -1.50220397572075e-08;
    p = p * t + -1.990330195683548e-08;
    p = p * t + 1.1099722259643903e-07;
    p = p * t + 7.736199321509648e-08;
    p = p * t + -8.258783760363212e-07;
    p = p * t + 2.9168882953849386e-07;
    p = p * t + 5.709791291327358e-06;
    p = p * t + -1.122101019674402e-05;
    p = p * t + -2.439917145229231e-05;
    p = p * t + 0.00015062136335040674;
    p = p * t + -0.00019925671831761451;
    p = p * t + -0.0007577732274875879;
    p = p * t + 0.005031969983273886;
    p = p * t + -0.016197734065239094;
    p = p * t + 0.03716751553687788;
    p = p * t + -0.06633036581168635;
    p = p * t + 0.0937328349983844;
    p = p * t + -0.10103906603632397;
    p = p * t + 0.06809705425469181;
    p = p * t + 0.01537965210262003;
    p = p * t + -0.1396211168405625;
    double first = 1.2329951186255526, product = p * t, sum = first + product;
    double rest = ((first - sum) + product) + gd__lost_f64(product, p, t) +
                  t_low * (p + t * 0.01537965210262003);
    double twice = 2.0 * a, d = 1.0 + twice, d_low = twice > 1.0 ? 1.0 - (d - twice) : twice - (d - 1.0);
    double y = sum / d, back = y * d;
    double square = a * a, y_low = (((sum - back) - gd__lost_f64(back, y, d)) + rest - y * d_low) / sum;
    return gd__exp_pair_f64(-square, (y_low - gd__lost_f64(square, a, a)) - a_low * 1.1283791670955126 / y,
                            y);
}

static inline double gd__erf_f64(double x)
{
    double a = fabs(x), large = 1.0 - gd__erfc_tail_f64(gd__cut_f64(a, 0.4, 27.3), 0.0),
           small = x + x * gd__erf_rest_f64(gd__cut_f64(a * a, 0.0, 1.0));
    double y = a < 1.0 ? small : copysign(large, x);
    return x != x ? x : y;
}

static inline double gd__erfc_f64(double x)
{
    double a = fabs(x), large = gd__erfc_tail_f64(gd__cut_f64(a, 0.4, 27.3), 0.0),
           p = gd__erf_rest_f64(gd__cut_f64(a * a, 0.0, 1.0));
    double small = 1.0 - (x + x * p), y = a < 0.4 ? small : x < 0 ? 2.0 - large : large;
    return x != x ? x : y;
}
static inline float gd__erf_f32(float x) { return (float)gd__erf_f64((double)x); }
static inline float gd__erfc_f32(float x) { return (float)gd__erfc_f64((double)x); }

/* By way of f64. */
#define GD_BY_F64(name)                                                 \
    static inline double gd__##name##_f64(double x) { return name(x); } \
    static inline float gd__##name##_f32(float x) { return (float)name((double)x); }
GD_BY_F64(sin)
GD_BY_F64(cos)
GD_BY_F64(tan)
GD_BY_F64(asin)
GD_BY_F64(acos)
GD_BY_F64(atan)
GD_BY_F64(sinh)
GD_BY_F64(cosh)
GD_BY_F64(asinh)
GD_BY_F64(acosh)
GD_BY_F64(atanh)
#undef GD_BY_F64
double lgamma_r(double x, int *sign); /* macOS has it, and hides its declaration */
static inline double gd__lgamma_f64(double x)
{
    int sign; /* lgamma() would write it to a global */
    return lgamma_r(x, &sign);
}
static inline float gd__lgamma_f32(float x) { return (float)gd__lgamma_f64((double)x); }
static inline double gd__atan2_f64(double y, double x) { return atan2(y, x); }
static inline float gd__atan2_f32(float y, float x) { return (float)atan2((double)y, (double)x); }
static inline double gd__hypot_f64(double x, double y) { return hypot(x, y); }
static inline float gd__hypot_f32(float x, float y) { return (float)hypot((double)x, (double)y); }
static inline double gd__nextafter_f64(double x, double y) { return nextafter(x, y); }
static inline float gd__nextafter_f32(float x, float y) { return nextafterf(x, y); }
static inline double gd__mod_f64(double x, double y)
{
    double r = fmod(x, y);
    return r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
}
static inline float gd__mod_f32(float x, float y) { return (float)gd__mod_f64((double)x, (double)y); }

/* x Phi(x); erfc keeps the digits of the lower tail, which 1 + erf would lose, and what rounding -x / sqrt(2) has lost goes with it.
 * Within 2.1 ULP: the product of x and erfc is rounded after what each of them has lost. */
static inline double gd__gelu_f64(double x)
{
    double z = x * -0.70710678118654752,
           z_low = gd__lost_f64(z, x, -0.70710678118654752) + x * 4.833646656726457e-17;
    double tail = gd__erfc_tail_f64(gd__cut_f64(z, 0.4, 27.3), z < 27.3 ? z_low : 0.0),
           e = z > 0.4 ? tail : gd__erfc_f64(z);
    return x != x ? x : x > -INFINITY ? 0.5 * x * e : -0.0;
}
static inline float gd__gelu_f32(float x)
{
    double y = 0.5 * (double)x * gd__erfc_f64((double)x * -0.70710678118654752);
    return x != x ? x : x > -INFINITY ? (float)y : -0.0f;
}

/* Phi(x) + x phi(x) */
static inline double gd__gelu_slope_f64(double x)
{
    return 0.5 * gd__erfc_f64(-0.70710678118654752 * x) + 0.39894228040143268 * x * gd__exp_f64(-0.5 * x * x);
}
static inline float gd__gelu_slope_f32(float x) { return (float)gd__gelu_slope_f64((double)x); }

#endif
