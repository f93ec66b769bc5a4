/* The other element functions, gd__NAME_f32 and gd__NAME_f64, as in base/vmath.h: rows of tensor/ops.def name them.  Compiled programs
 * get this text, with that of base/rng.h before it, if they use one of them. */
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

/* The exact rounding error of p = x y: by fma, or by products of halves of 26 bits (Dekker), which gives the same. */
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
 * log(1 + f) = 2 s + s z (2/3 + z q(z)), z = s^2; all except q with their rounding errors.  q interpolates at Chebyshev's points. */
static inline double gd__log_pair_f64(double x, double shift, double *low)
{
    uint64_t bits = gd__f64_bits(x), above;
    above = (bits - 0x3FE6A09E667F3BCDull + (1024ull << 52)) >> 52;
    double m = gd__bits_f64(bits - ((above - 1024) << 52));
    double k = gd__bits_f64(above | 0x4330000000000000ull) - 4503599627371520.0 + shift;
    double f = m - 1.0, t = 2.0 + f, t_low = f - (t - 2.0), inverse = 1.0 / t, s = f * inverse, p = s * t;
    double s_low = (((f - p) - gd__lost_f64(p, s, t)) - s * t_low) * inverse;
    double z = s * s, z_low = gd__lost_f64(z, s, s) + 2.0 * s * s_low;
    double q = GD_HORNER(z, 0.10762424419609365, 0.1045632726947894, 0.11766813121034499, 0.13333296534432934,
                         0.15384615761170173, 0.18181818179656925, 0.2222222222222843, 0.28571428571428564,
                         0.4);
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

/* by exp(high + low), low being less than the last digit of high: as gd__exp_f64, except for a low that is part of what is reduced. */
static inline double gd__exp_pair_f64(double high, double low, double by)
{
    double c = gd__cut_f64(high, -746.0, 710.0), t = c * 1.4426950408889634 + 6755399441057790.0;
    double n = t - 6755399441057790.0, first = c - n * 6.93147180369123816490e-01;
    double second = n * 1.90821492927058770002e-10 - low, r = first - second, lost = (first - r) - second;
    uint64_t k = gd__f64_bits(t), half = k >> 1;
    double sum = 1.0 + r, p = sum * by + (gd__exp_rest(r, lost) + (r - (sum - 1.0))) * by;
    return p * gd__bits_f64(half << 52) * gd__bits_f64((k - half) << 52);
}

/* Special cases of x^y by IEEE 754, given |x|^y. */
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

/* Of f32, in f64 with digits to spare: the logarithm is off by 2^-36, the exponential by 2^-37. */
static inline float gd__power_f32(float x_, double y)
{
    double x = fabs((double)x_);
    uint64_t bits = gd__f64_bits(x), above = (bits - 0x3FE6A09E667F3BCDull + (1024ull << 52)) >> 52;
    double k = gd__bits_f64(above | 0x4330000000000000ull) - 4503599627371520.0;
    double f = gd__bits_f64(bits - ((above - 1024) << 52)) - 1.0, s = f / (2.0 + f), z = s * s;
    double p = GD_HORNER(z, 0.09681326857121647, 0.11095700415152886, 0.14285877267957275, 0.1999999939866879,
                         0.3333333333368754);
    double log_x = k * 0.6931471805599453 + 2.0 * (s + s * z * p);
    log_x = x == 0 ? -INFINITY : x == INFINITY ? INFINITY : log_x;
    double c = gd__cut_f64(y * log_x, -200.0, 200.0), t = c * 1.4426950408889634 + 6755399441056767.0;
    double r = c - (t - 6755399441056767.0) * 0.6931471805599453,
           q = GD_HORNER(r, 2.4859578222625295e-05, 0.0001989927395864936, 0.001388885404961482,
                         0.008333298483754886, 0.041666666718980845, 0.16666666718997508, 0.5);
    double size = (1.0 + (r + r * r * q)) * gd__bits_f64(gd__f64_bits(t) << 52);
    return (float)gd__power_of_f64((double)x_, y, size);
}
static inline float gd__pow_f32(float x, float y) { return gd__power_f32(x, (double)y); }

/* Whole and half powers, with rounding errors kept: x^k as high + low, within 0.6 ULP.  Rounding errors of products are NaN if
 * they are infinite, and incomplete if they are subnormal. */
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

/* log(x) times a number that is given with its rounding error. */
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

/* log(1 + x) = log u + c / u, with u = 1 + x and c its rounding error. */
static inline double gd__log1p_f64(double x)
{
    double u = 1.0 + x, larger = fabs(x) > 1.0 ? x : 1.0, smaller = fabs(x) > 1.0 ? 1.0 : x,
           c = smaller - (u - larger);
    double safe = u > 0 && u < INFINITY ? u : 1.0, low, high = gd__log_pair_f64(safe, 0.0, &low);
    double y = high + (low + c / safe);
    y = u == 0 ? -INFINITY : u < 0 ? NAN : y;
    return x != x || x == 0 || x == INFINITY ? x : y;
}

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

/* log(1 + e^x) = max(x, 0) + log(1 + e), e = e^-|x|, which is 2 artanh(e / (2 + e)): a polynomial that interpolates at Chebyshev's
 * points. */
static inline double gd__softplus_f64(double x)
{
    double e = gd__exp_f64(-fabs(x)), t = 2.0 + e, s = e / t, p = s * t, z = s * s,
           q = GD_HORNER(z, 0.07615631309758114, 0.03167055425857287, 0.04971012448285089,
                         0.05240199617181416, 0.05883998883620639, 0.06666588474569081, 0.07692310126902081,
                         0.09090909043002827, 0.11111111111665993, 0.1428571428571097, 0.20000000000000007,
                         0.3333333333333333);
    double low = (((e - p) - gd__lost_f64(p, s, t)) - s * (e - (t - 2.0))) / t;
    double y = e < 1e-200 ? e : 2.0 * s + 2.0 * (low + s * z * q);
    return x != x ? x : (x > 0 ? x : 0) + y;
}

/* ---- the error function ---- */

/* erf(x) / x - 1 of z = x^2 below 1, interpolating at Chebyshev's points. */
static inline double gd__erf_rest_f64(double z)
{
    double p = GD_HORNER(z, -4.230945824295338e-12, 8.709045129053106e-11, -1.216456005728345e-09,
                         1.4792401209404813e-08, -1.6364642158167616e-07, 1.6462045441468418e-06,
                         -1.4925647567519332e-05, 0.00012055332902888736, -0.000854832702193483,
                         0.0052239776254232985, -0.02686617064512984, 0.1128379167095512,
                         -0.37612638903183754, 0.1283791670955126);
    return p;
}

/* erfc(a) of a >= 0.4: e^(-a^2) / (1 + 2 a) times a polynomial of t = (a - 4) / (a + 4) (Shepherd and Laframboise 1981), with the rounding
 * errors of a^2, 1 + 2 a and t; of a + a_low, which is next to a: erfc' / erfc = -2 / sqrt(pi) / (e^(a^2) erfc(a)). */
static inline double gd__erfc_tail_f64(double a, double a_low)
{
    double top = a - 4.0, under = a + 4.0, under_low = under > 8.0 ? 4.0 - (under - a) : a - (under - 4.0);
    double top_low = a > 4.0 ? a - (top + 4.0) : (a - top) - 4.0;
    double inverse = 1.0 / under, t = top * inverse, q = t * under;
    double t_low = (((top - q) - gd__lost_f64(q, t, under)) + top_low - t * under_low) * inverse;
    double p = GD_HORNER(t, 1.622076129232884e-09, 2.4648731166231284e-09, -1.50220397572075e-08,
                         -1.990330195683548e-08, 1.1099722259643903e-07, 7.736199321509648e-08,
                         -8.258783760363212e-07, 2.9168882953849386e-07, 5.709791291327358e-06,
                         -1.122101019674402e-05, -2.439917145229231e-05, 0.00015062136335040674,
                         -0.00019925671831761451, -0.0007577732274875879, 0.005031969983273886,
                         -0.016197734065239094, 0.03716751553687788, -0.06633036581168635, 0.0937328349983844,
                         -0.10103906603632397, 0.06809705425469181, 0.01537965210262003, -0.1396211168405625);
    double first = 1.2329951186255526, product = p * t, sum = first + product;
    double rest = ((first - sum) + product) + gd__lost_f64(product, p, t) +
                  t_low * (p + t * 0.01537965210262003);
    double twice = 2.0 * a, d = 1.0 + twice, d_low = twice > 1.0 ? 1.0 - (d - twice) : twice - (d - 1.0);
    double y = sum / d, back = y * d;
    double square = a * a, y_low = (((sum - back) - gd__lost_f64(back, y, d)) + rest - y * d_low) / sum;
    return gd__exp_pair_f64(-square, (y_low - gd__lost_f64(square, a, a)) - a_low * 1.1283791670955126 / y,
                            y);
}

/* erfc(a), 1 <= a <= 6, for a sum with 1, beside which it is small: e^(-a^2) times a polynomial that interpolates at Chebyshev's points
 * of t. */
static inline double gd__erfc_beside_one_f64(double a)
{
    double t = (a - 2.5) / (a + 2.5),
           p = GD_HORNER(t, 3.3657006736237105e-07, 1.2966926825389417e-07, -1.79706306540687e-06,
                         -2.3140931150942177e-06, 7.5513017799442535e-06, 1.8617072081910595e-05,
                         -3.4182063549802165e-05, -0.00012887741536369735, 0.00022838036598153182,
                         0.0008759154630794508, -0.002642365963784453, -0.003993701166223159,
                         0.039922539075574935, -0.1250330523788247, 0.2517131932174494, -0.3717367339489734,
                         0.2108063640611436);
    return gd__exp_f64(-a * a) * p;
}

static inline double gd__erf_f64(double x)
{
    double a = fabs(x), large = 1.0 - gd__erfc_beside_one_f64(gd__cut_f64(a, 1.0, 6.0)),
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

/* ---- angles ---- */

/* a + b and its rounding error (Knuth). */
static inline double gd__two_sum_f64(double a, double b, double *lost)
{
    double sum = a + b, part = sum - a;
    *lost = (a - (sum - part)) + (b - part);
    return sum;
}

/* x = n pi / 2 + r + low, |r| <= pi / 4, for |x| up to GD_NEAR_ANGLE: n has 20 bits, three parts of pi / 2 have 33, so that their
 * products with n are exact.  Returns a number whose lowest bits are n. */
#define GD_NEAR_ANGLE 1647099.0
static inline double gd__near_turns_f64(double x, double *r, double *low)
{
    double t = x * 0.6366197723675814 + 6755399441055744.0, n = t - 6755399441055744.0, lost, below, last;
    double first = gd__two_sum_f64(x - n * 1.5707963267341256, -(n * 6.077100506303966e-11), &lost);
    double second = gd__two_sum_f64(lost, -(n * 2.0222662487111665e-21), &below);
    *r = gd__two_sum_f64(first, second, &last);
    *low = last + (below - n * 8.4784276603689e-32);
    return t;
}

/* The upper half of a product. */
static inline uint64_t gd__high_u64(uint64_t a, uint64_t b)
{
    uint64_t a0 = a & 0xFFFFFFFFull, a1 = a >> 32, b0 = b & 0xFFFFFFFFull, b1 = b >> 32;
    uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = a0 * b1 + (middle & 0xFFFFFFFFull);
    return a1 * b1 + (middle >> 32) + (other >> 32);
}

/* The same for any larger finite x, exact to 2^-70 of r (Payne and Hanek 1983): x = m 2^e times those 192 bits of 2 / pi that do not
 * give whole multiples of four.  Returns n. */
static inline uint64_t gd__far_turns_f64(double x, double *r, double *low)
{
    static const uint64_t bits[20] = {/* of 2 / pi, after 64 zeros */
                                      0,
                                      0xa2f9836e4e441529ull,
                                      0xfc2757d1f534ddc0ull,
                                      0xdb6295993c439041ull,
                                      0xfe5163abdebbc561ull,
                                      0xb7246e3a424dd2e0ull,
                                      0x06492eea09d1921cull,
                                      0xfe1deb1cb129a73eull,
                                      0xe88235f52ebb4484ull,
                                      0xe99c7026b45f7e41ull,
                                      0x3991d639835339f4ull,
                                      0x9c845f8bbdf9283bull,
                                      0x1ff897ffde05980full,
                                      0xef2f118b5a0a6d1full,
                                      0x6d367ecf27cb09b7ull,
                                      0x4f463f669e5fea2dull,
                                      0x7527bac7ebe5f17bull,
                                      0x3d0739f78a5292eaull,
                                      0x6bfb5fb11f8d5d08ull,
                                      0x56033046fc7b6babull};
    uint64_t raw = gd__f64_bits(x), e = raw >> 52 & 0x7FF, m = (raw & 0xFFFFFFFFFFFFFull) | 1ull << 52;
    uint64_t at = e - 1075 + 62, s = at & 63, mask;
    const uint64_t *t = bits + (at >> 6);
    uint64_t a = t[0] << s | t[1] >> 1 >> (63 - s), b = t[1] << s | t[2] >> 1 >> (63 - s),
             c = t[2] << s | t[3] >> 1 >> (63 - s);
    uint64_t p2 = m * c, carry = gd__high_u64(m, c), p1 = m * b + carry;
    uint64_t p0 = m * a + gd__high_u64(m, b) + (p1 < carry), n = p0 >> 62;
    p0 = p0 << 2 | p1 >> 62;
    p1 = p1 << 2 | p2 >> 62;
    p2 <<= 2;
    mask = -(p0 >> 63); /* from a half on: one more, and the rest is negative */
    n += p0 >> 63;
    p0 ^= mask;
    p1 ^= mask;
    p2 ^= mask;
    uint64_t zeros = (uint64_t)__builtin_clzll(p0 | 1);
    p0 = p0 << zeros | p1 >> 1 >> (63 - zeros);
    p1 = p1 << zeros | p2 >> 1 >> (63 - zeros);
    double scale = gd__bits_f64((1023 - 53 - zeros) << 52);
    double high = (double)(p0 >> 11) * scale,
           less = (double)((p0 & 0x7FF) << 42 | p1 >> 22) * scale * 0x1p-53;
    double y = high * 1.5707963267948966;
    double rest = gd__lost_f64(y, high, 1.5707963267948966) +
                  (less * 1.5707963267948966 + high * 6.123233995736766e-17);
    uint64_t sign = (raw ^ mask) >> 63 << 63;
    *r = gd__bits_f64(gd__f64_bits(y + rest) ^ sign);
    *low = gd__bits_f64(gd__f64_bits((y - (y + rest)) + rest) ^ sign);
    return raw >> 63 ? 0 - n : n;
}

/* sin(r) and cos(r), |r| <= pi / 4, each as the first number plus the second. */
typedef struct gd_wave {
    double sine, sine_low, cosine, cosine_low;
} gd_wave;

/* r + r z S(z) and 1 - z / 2 + z^2 C(z), z = r^2; S and C interpolate at Chebyshev's points. */
static inline gd_wave gd__wave_f64(double r, double low)
{
    double z = r * r, half = 0.5 * z, one = 1.0 - half,
           s = GD_HORNER(z, -7.586516414447219e-13, 1.6058528548923512e-10, -2.505210621304946e-08,
                         2.7557319219283238e-06, -0.00019841269841264992, 0.008333333333333331,
                         -0.16666666666666666),
           c = GD_HORNER(z, 4.74577143419974e-14, -1.147045918071599e-11, 2.087675578029551e-09,
                         -2.7557319221371733e-07, 2.4801587301584608e-05, -0.0013888888888888887,
                         0.041666666666666664);
    return (gd_wave){r, r * z * s + low * one, one, ((1.0 - one) - half) + (z * z * c - r * low)};
}

/* sin(r + n pi / 2) */
static inline double gd__sine_at_f64(double r, double low, uint64_t n)
{
    gd_wave w = gd__wave_f64(r, low);
    double sine = w.sine + w.sine_low, cosine = w.cosine + w.cosine_low, y = n & 1 ? cosine : sine;
    return gd__bits_f64(gd__f64_bits(y) ^ (n & 2) << 62);
}

/* sin / cos or -cos / sin, with the rounding errors of the division and of both. */
static inline double gd__tangent_at_f64(double r, double low, uint64_t n)
{
    gd_wave w = gd__wave_f64(r, low);
    double sine = w.sine + w.sine_low, sine_low = (w.sine - sine) + w.sine_low;
    double cosine = w.cosine + w.cosine_low, cosine_low = (w.cosine - cosine) + w.cosine_low;
    double top = n & 1 ? -cosine : sine, top_low = n & 1 ? -cosine_low : sine_low;
    double under = n & 1 ? sine : cosine, under_low = n & 1 ? sine_low : cosine_low;
    double y = top / under, p = y * under;
    return y + (((top - p) - gd__lost_f64(p, y, under)) + (top_low - y * under_low)) / under;
}

/* near_NAME is NAME where gd__far_angle does not hold of x: straight-line, and the same bits. */
static inline double gd__near_sin_f64(double x)
{
    double r, low, t = gd__near_turns_f64(x, &r, &low), y = gd__sine_at_f64(r, low, gd__f64_bits(t));
    return x == 0 ? x : y;
}
static inline double gd__near_cos_f64(double x)
{
    double r, low, t = gd__near_turns_f64(x, &r, &low);
    return gd__sine_at_f64(r, low, gd__f64_bits(t) + 1);
}
static inline double gd__near_tan_f64(double x)
{
    double r, low, t = gd__near_turns_f64(x, &r, &low), y = gd__tangent_at_f64(r, low, gd__f64_bits(t));
    return x == 0 ? x : y;
}
static inline double gd__sin_f64(double x)
{
    double r, low;
    if (!(fabs(x) > GD_NEAR_ANGLE)) return gd__near_sin_f64(x);
    uint64_t n = gd__far_turns_f64(x, &r, &low);
    return x - x == 0 ? gd__sine_at_f64(r, low, n) : NAN;
}
static inline double gd__cos_f64(double x)
{
    double r, low;
    if (!(fabs(x) > GD_NEAR_ANGLE)) return gd__near_cos_f64(x);
    uint64_t n = gd__far_turns_f64(x, &r, &low);
    return x - x == 0 ? gd__sine_at_f64(r, low, n + 1) : NAN;
}
static inline double gd__tan_f64(double x)
{
    double r, low;
    if (!(fabs(x) > GD_NEAR_ANGLE)) return gd__near_tan_f64(x);
    uint64_t n = gd__far_turns_f64(x, &r, &low);
    return x - x == 0 ? gd__tangent_at_f64(r, low, n) : NAN;
}

/* Of f32 in f64: pi / 2 in two parts, polynomials off by 2^-35. */
static inline double gd__near_wave_f32(float x, double *cosine, uint64_t *n)
{
    double d = (double)x, t = d * 0.6366197723675814 + 6755399441055744.0, whole = t - 6755399441055744.0;
    double r = (d - whole * 1.5707963267341256) - whole * 6.077100506506192e-11, z = r * r;
    double s = GD_HORNER(z, 2.7249008644084165e-06, -0.0001984007965150078, 0.008333331861577543,
                         -0.1666666666382147),
           c = GD_HORNER(z, -2.730019371359329e-07, 2.4800594464887587e-05, -0.0013888887661056624,
                         0.04166666666429298);
    *cosine = 1.0 - (0.5 * z - z * z * c);
    *n = gd__f64_bits(t);
    return r + r * z * s;
}
static inline float gd__near_sin_f32(float x)
{
    uint64_t n;
    double cosine, sine = gd__near_wave_f32(x, &cosine, &n), y = n & 1 ? cosine : sine;
    return x == 0 ? x : (float)gd__bits_f64(gd__f64_bits(y) ^ (n & 2) << 62);
}
static inline float gd__near_cos_f32(float x)
{
    uint64_t n;
    double cosine, sine = gd__near_wave_f32(x, &cosine, &n), y = n & 1 ? sine : cosine;
    return (float)gd__bits_f64(gd__f64_bits(y) ^ ((n + 1) & 2) << 62);
}
static inline float gd__near_tan_f32(float x)
{
    uint64_t n;
    double cosine, sine = gd__near_wave_f32(x, &cosine, &n);
    return x == 0 ? x : (float)((n & 1 ? -cosine : sine) / (n & 1 ? sine : cosine));
}
#define GD_ANGLE_F32(name)                                                          \
    static inline float gd__##name##_f32(float x)                                   \
    {                                                                               \
        return fabsf(x) > (float)GD_NEAR_ANGLE ? (float)gd__##name##_f64((double)x) \
                                               : gd__near_##name##_f32(x);          \
    }
GD_ANGLE_F32(sin)
GD_ANGLE_F32(cos)
GD_ANGLE_F32(tan)
#undef GD_ANGLE_F32
static inline int gd__far_sin_f64(double x) { return fabs(x) > GD_NEAR_ANGLE; }
static inline int gd__far_sin_f32(float x) { return fabsf(x) > (float)GD_NEAR_ANGLE; }
#define gd__far_cos_f64 gd__far_sin_f64
#define gd__far_cos_f32 gd__far_sin_f32
#define gd__far_tan_f64 gd__far_sin_f64
#define gd__far_tan_f32 gd__far_sin_f32

/* (asin(x) / x - 1) of z = x^2 up to 1/4, interpolating at Chebyshev's points. */
static inline double gd__asin_rest_f64(double z)
{
    double p = GD_HORNER(z, 0.028799050522138873, -0.014910967384172082, 0.01743786618606299,
                         0.005444236358400044, 0.010325825844686153, 0.011478727335132069,
                         0.013971257700218363, 0.01735238980570733, 0.022372173062100795, 0.03038194413563282,
                         0.04464285714639142, 0.07499999999998415, 0.16666666666666669);
    return p * z;
}

/* From a half on asin(x) = pi / 2 - 2 asin(s), s = sqrt((1 - x) / 2), with the rounding error of the root. */
static inline double gd__half_root_f64(double a, double *rest)
{
    double z = 0.5 * (1.0 - a), s = __builtin_sqrt(z), square = s * s;
    double lost = ((z - square) - gd__lost_f64(square, s, s)) / (s + s + (s == 0 ? 1.0 : 0.0));
    *rest = lost + s * gd__asin_rest_f64(z);
    return s;
}
static inline double gd__asin_f64(double x)
{
    double a = fabs(x), rest, lost, s = gd__half_root_f64(a > 0.5 ? a : a == a ? 0.5 : a, &rest);
    double sum = gd__two_sum_f64(1.5707963267948966, -2.0 * s, &lost);
    double large = sum + (lost + (6.123233995736766e-17 - 2.0 * rest)),
           small = x + x * gd__asin_rest_f64(a * a);
    return a < 0.5 ? small : copysign(large, x);
}
static inline double gd__acos_f64(double x)
{
    double a = fabs(x), rest, lost, s = gd__half_root_f64(a > 0.5 ? a : a == a ? 0.5 : a, &rest);
    double from = a < 0.5 ? 1.5707963267948966 : x < 0 ? 3.141592653589793 : 0.0;
    double from_low = a < 0.5 ? 6.123233995736766e-17 : x < 0 ? 1.2246467991473532e-16 : 0.0;
    double sum = gd__two_sum_f64(from, a < 0.5 ? -x : x < 0 ? -2.0 * s : 2.0 * s, &lost);
    double tail = a < 0.5 ? -x * gd__asin_rest_f64(a * a) : x < 0 ? -2.0 * rest : 2.0 * rest;
    return sum + (lost + (from_low + tail));
}

/* The same with a polynomial that is off by 2^-32. */
static inline double gd__asin_rest_f32(double z)
{
    double p = GD_HORNER(z, 0.030996385256657273, 0.010559473855409748, 0.023615613781587094,
                         0.03026869911475286, 0.0446476865690981, 0.07499992362386085, 0.16666666686208717);
    return p * z;
}
static inline float gd__asin_f32(float x)
{
    double d = (double)x, a = fabs(d), z = a < 0.5 ? a * a : 0.5 * (1.0 - a),
           s = a < 0.5 ? a : __builtin_sqrt(z);
    double y = s + s * gd__asin_rest_f32(z);
    return x == 0 ? x : (float)copysign(a < 0.5 ? y : 1.5707963267948966 - 2.0 * y, d);
}
static inline float gd__acos_f32(float x)
{
    double d = (double)x, a = fabs(d), z = a < 0.5 ? a * a : 0.5 * (1.0 - a),
           s = a < 0.5 ? d : __builtin_sqrt(z);
    double y = s + s * gd__asin_rest_f32(z);
    return (float)(a < 0.5 ? 1.5707963267948966 - y : d < 0 ? 3.141592653589793 - 2.0 * y : 2.0 * y);
}

/* (atan(t) / t - 1) of z = t^2, |t| <= 7/16, interpolating at Chebyshev's points. */
static inline double gd__atan_rest_f64(double z)
{
    double p = GD_HORNER(z, 0.014759380407779155, -0.033114228762660534, 0.044916556747777434,
                         -0.05216532007308444, 0.05876924062763387, -0.06666239748865294, 0.07692285419714515,
                         -0.09090908350382436, 0.111111110965279, -0.14285714285565465, 0.19999999999999404,
                         -0.3333333333333333);
    return p * z;
}

/* The angle of the point (x, y): atan(a / b) of the smaller and the larger, which is atan(c) + atan((a - c b) / (b + c a)), c being
 * 0, 1/2 or 1; from 0, pi / 2 or pi. */
static inline double gd__atan2_f64(double y, double x)
{
    double ay = fabs(y), ax = fabs(x), small = ay > ax ? ax : ay, large = ay > ax ? ay : ax;
    double infinite = large == INFINITY ? 1.0 : 0.0, scale = large > 1e300    ? 0x1p-64
                                                             : large < 1e-280 ? 0x1p128
                                                                              : 1.0;
    double a = infinite == 0 ? small * scale : small == INFINITY ? 1.0 : 0.0;
    double b = infinite == 0 ? large * scale : 1.0;
    b = b == 0 ? 1.0 : b;
    double c = a < 0.4375 * b ? 0.0 : a < 0.6875 * b ? 0.5 : 1.0;
    double first = c == 0 ? 0.0 : c < 1 ? 0.4636476090008061 : 0.7853981633974483;
    double first_low = c == 0 ? 0.0 : c < 1 ? 2.2698777452961687e-17 : 3.061616997868383e-17;
    double t = (a - c * b) / (b + c * a), sum = first + t;
    double rest = ((first - sum) + t) + (first_low + t * gd__atan_rest_f64(t * t));
    double from = ay > ax ? 1.5707963267948966 : 0.0, from_low = ay > ax ? 6.123233995736766e-17 : 0.0;
    uint64_t back = gd__f64_bits(x) >> 63, turned = (uint64_t)(ay > ax) ^ back;
    from = back ? 3.141592653589793 - from : from;
    from_low = back ? 1.2246467991473532e-16 - from_low : from_low;
    double lost, all = gd__two_sum_f64(from, turned ? -sum : sum, &lost);
    double angle = copysign(all + (lost + (from_low + (turned ? -rest : rest))), y);
    return x != x || y != y ? x + y : angle;
}
static inline double gd__atan_f64(double x) { return gd__atan2_f64(x, 1.0); }

/* atan(a / b), 0 <= a <= b, b > 0 */
static inline double gd__angle_f32(double a, double b)
{
    double c = a < 0.4375 * b ? 0.0 : a < 0.6875 * b ? 0.5 : 1.0;
    double first = c == 0 ? 0.0 : c < 1 ? 0.4636476090008061 : 0.7853981633974483;
    double t = (a - c * b) / (b + c * a), z = t * t,
           p = GD_HORNER(z, 0.04820186573277753, -0.0853121155632205, 0.1105809039007656, -0.142833917531889,
                         0.19999962312654093, -0.3333333323327772);
    return first + (t + t * z * p);
}
static inline float gd__atan2_f32(float y_, float x_)
{
    double y = (double)y_, x = (double)x_, ay = fabs(y), ax = fabs(x), small = ay > ax ? ax : ay,
           large = ay > ax ? ay : ax;
    double a = large == INFINITY ? (small == INFINITY ? 1.0 : 0.0) : small;
    double b = large == INFINITY || large == 0 ? 1.0 : large, angle = gd__angle_f32(a, b);
    angle = ay > ax ? 1.5707963267948966 - angle : angle;
    angle = gd__f64_bits(x) >> 63 ? 3.141592653589793 - angle : angle;
    return x_ != x_ || y_ != y_ ? x_ + y_ : (float)copysign(angle, y);
}
static inline float gd__atan_f32(float x)
{
    double d = (double)x, a = gd__cut_f64(fabs(d), 0.0, 1e60); /* infinity: as near pi / 2 as f32 is */
    double angle = gd__angle_f32(a > 1.0 ? 1.0 : a, a > 1.0 ? a : 1.0);
    return x != x ? x : (float)copysign(a > 1.0 ? 1.5707963267948966 - angle : angle, d);
}

/* ---- hyperbolic functions ---- */

/* e^|x| / 2 with its rounding error; as gd__exp_f64, but the halves of the power are finite where the result is. */
static inline double gd__half_exp_f64(double x, double *low)
{
    double r, lost;
    uint64_t k = gd__f64_bits(gd__split_f64(gd__cut_f64(fabs(x), 0.0, 712.0), &r, &lost)) - 1, half = k >> 1;
    double a = gd__bits_f64(half << 52), b = gd__bits_f64((k - half) << 52);
    double sum = 1.0 + r, tail = gd__exp_rest(r, lost) + (r - (sum - 1.0)), p = sum + tail;
    *low = ((sum - p) + tail) * a * b;
    return p * a * b;
}
static inline double gd__sinh_f64(double x)
{
    double low, lost, z = x * x, h = gd__half_exp_f64(x, &low),
                      p = GD_HORNER(z, 7.746178593018827e-13, 1.6057679623801638e-10, 2.5052117695907823e-08,
                                    2.7557319191381816e-06, 0.00019841269841324198, 0.008333333333333299,
                                    0.16666666666666666);
    double difference = gd__two_sum_f64(h, -0.25 / h, &lost), large = difference + (lost + low);
    double y = fabs(x) < 1.0 ? x + x * (z * p) : copysign(h < INFINITY ? large : h, x);
    return x != x ? x : y;
}
static inline double gd__cosh_f64(double x)
{
    double low, lost, z = x * x, h = gd__half_exp_f64(x, &low),
                      p = GD_HORNER(z, 4.83445137390608e-14, 1.146998832606381e-11, 2.0876762155587967e-09,
                                    2.7557319205890157e-07, 2.480158730161747e-05, 0.001388888888888887,
                                    0.041666666666666664);
    double sum = gd__two_sum_f64(h, 0.25 / h, &lost), large = sum + (lost + low);
    double y = fabs(x) < 1.0 ? 1.0 + (0.5 * z + z * z * p) : h < INFINITY ? large : h;
    return x != x ? x : y;
}
static inline float gd__sinh_f32(float x)
{
    double d = (double)x, z = d * d, e = gd__exp_f64(fabs(d));
    double y = fabs(d) < 0.0625
                   ? d + d * z *
                             (0.16666666666666666 + z * (0.008333333333333333 + z * 0.0001984126984126984))
                   : copysign(0.5 * (e - 1.0 / e), d);
    return x != x || x == 0 ? x : (float)y;
}
static inline float gd__cosh_f32(float x)
{
    double e = gd__exp_f64(fabs((double)x));
    return x != x ? x : (float)(0.5 * (e + 1.0 / e));
}

/* In f64, from the C library. */
#define GD_BY_F64(name)                                                 \
    static inline double gd__##name##_f64(double x) { return name(x); } \
    static inline float gd__##name##_f32(float x) { return (float)name((double)x); }
GD_BY_F64(asinh)
GD_BY_F64(acosh)
GD_BY_F64(atanh)
#undef GD_BY_F64

static inline double gd__hypot_f64(double x, double y) { return hypot(x, y); }
static inline float gd__hypot_f32(float x, float y) { return (float)hypot((double)x, (double)y); }
static inline double gd__nextafter_f64(double x, double y) { return nextafter(x, y); }
static inline float gd__nextafter_f32(float x, float y) { return nextafterf(x, y); }

/* x - y floor(x / y), of fmod's remainder. */
static inline double gd__mod_any_f64(double x, double y)
{
    double r = fmod(x, y);
    return r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
}
/* If the quotient is a whole number that f64 holds and no product is out of range: as x - q y is exact, the same bits.  A quotient
 * that was rounded up gives a remainder of the other sign. */
static inline int gd__far_mod_f64(double x, double y)
{
    double q = fabs(x / y);
    return !((q < 4503599627370496.0) & ((fabs(x) > 1e-250) | (x == 0)) & (fabs(y) < 1e250) &
             (fabs(y) > 1e-250));
}
static inline double gd__near_mod_f64(double x, double y)
{
    double q = __builtin_trunc(x / y), p = q * y, r = (x - p) - gd__lost_f64(p, q, y);
    return r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r;
}
static inline double gd__mod_f64(double x, double y)
{
    return gd__far_mod_f64(x, y) ? gd__mod_any_f64(x, y) : gd__near_mod_f64(x, y);
}
static inline int gd__far_mod_f32(float x, float y)
{
    return !((fabsf(x / y) < 268435456.0f) & (fabsf(y) < INFINITY));
}
static inline float gd__near_mod_f32(float x_, float y_)
{
    double x = (double)x_, y = (double)y_, r = x - __builtin_trunc(x / y) * y;
    return (float)(r == 0 ? copysign(0.0, y) : (r < 0) != (y < 0) ? r + y : r);
}
static inline float gd__mod_f32(float x, float y)
{
    return gd__far_mod_f32(x, y) ? (float)gd__mod_any_f64((double)x, (double)y) : gd__near_mod_f32(x, y);
}

/* x Phi(x); erfc keeps the digits of the lower tail, which 1 + erf would lose, and the rounding error of -x / sqrt(2) is included. Within
 * 2.1 ULP: the product of x and erfc is rounded after their own errors. */
static inline double gd__gelu_f64(double x)
{
    double z = x * -0.70710678118654752, a = fabs(z),
           z_low = gd__lost_f64(z, x, -0.70710678118654752) + x * 4.833646656726457e-17;
    double tail = gd__erfc_tail_f64(gd__cut_f64(a, 0.4, 27.3), ((z > 0.4) & (z < 27.3)) ? z_low : 0.0);
    double small = 1.0 - (z + z * gd__erf_rest_f64(gd__cut_f64(a * a, 0.0, 1.0)));
    double e = z > 0.4 ? tail : a < 0.4 ? small : 2.0 - tail;
    return x != x ? x : x > -INFINITY ? 0.5 * x * e : -0.0;
}

/* Phi(x) + x phi(x) */
static inline double gd__gelu_slope_f64(double x)
{
    return 0.5 * gd__erfc_f64(-0.70710678118654752 * x) + 0.39894228040143268 * x * gd__exp_f64(-0.5 * x * x);
}

#endif
