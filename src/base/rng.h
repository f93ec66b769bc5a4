/* Counter-based random numbers: Philox 4x32 with 10 rounds (Salmon, Moraes, Dror and Shaw, SC 2011).
 * Block number i of a key is a pure function, so any thread or device can make any part of the stream.
 *
 * Every number here comes from additions, multiplications, divisions and roots that IEEE 754 rounds in one way, so it has the
 * same bits wherever it is made; kernels of devices are given this text (GD_RNG_TEXT: without headers). */
#ifndef GD_BASE_RNG_H
#define GD_BASE_RNG_H

#ifndef GD_RNG_TEXT
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef struct gd_rng {
    uint64_t key;
    uint64_t counter; /* next unused block; a block is four 32-bit words */
} gd_rng;

/* Takes `blocks` blocks from the stream; returns the number of the first. */
static inline uint64_t gd__rng_take(gd_rng *rng, uint64_t blocks)
{
    uint64_t first = rng->counter;
    rng->counter += blocks;
    return first;
}
#else
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#endif

/* The block of a counter of 128 bits: `block` and, above it, `high`. */
static inline void gd__philox_at(uint64_t key, uint64_t block, uint64_t high, uint32_t out[4])
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    uint32_t c0 = (uint32_t)block, c1 = (uint32_t)(block >> 32), c2 = (uint32_t)high,
             c3 = (uint32_t)(high >> 32);
    for (int round = 0; round < 10; round++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)p1;
        c3 = (uint32_t)p0;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

static inline void gd__philox(uint64_t key, uint64_t block, uint32_t out[4])
{
    gd__philox_at(key, block, 0, out);
}

/* 53 random bits in [0, 1). */
static inline double gd__unit_f64(uint32_t hi, uint32_t lo)
{
    return (double)(((uint64_t)hi << 21) | (lo >> 11)) * 1.1102230246251565e-16; /* 2^-53 */
}

/* log of a positive normal number times 2^shift: 2^k (1 + f), log(1 + f) by s = f / (2 + f) as in fdlibm; within 1 ULP.  k is read
 * from the bits of 2^52 + 1024 + k: vectors have no conversion of 64-bit integers everywhere. */
static inline double gd__log_normal(double x, double shift)
{
    uint64_t bits, above;
    memcpy(&bits, &x, sizeof bits);
    above = (bits - 0x3FE6A09E667F3BCDull + (1024ull << 52)) >>
            52; /* so that 1 + f is in [sqrt(1/2), sqrt(2)) */
    bits -= (above - 1024) << 52;
    above |= 0x4330000000000000ull;
    double m, e;
    memcpy(&m, &bits, sizeof m);
    memcpy(&e, &above, sizeof e);
    e = e - 4503599627371520.0 + shift;
    double f = m - 1, s = f / (2 + f), z = s * s, w = z * z, half = 0.5 * f * f;
    double even = w *
                  (3.999999999940941908e-01 + w * (2.222219843214978396e-01 + w * 1.531383769920937332e-01));
    double odd = z * (6.666666666666735130e-01 +
                      w * (2.857142874366239149e-01 +
                           w * (1.818357216161805012e-01 + w * 1.479819860511658591e-01)));
    return e * 6.93147180369123816490e-01 -
           ((half - (s * (half + (even + odd)) + e * 1.90821492927058770002e-10)) - f);
}

/* Sine and cosine of v turns, v in [0, 1): the nearest quarter, and Taylor-like polynomials of the rest. */
static inline void gd__turn(double v, double *sine, double *cosine)
{
    double quarter = floor(v * 4 + 0.5), x = (v * 4 - quarter) * 1.57079632679489661923, z = x * x;
    int n = (int)quarter & 3;
    double s = x + x * z *
                       (-1.66666666666666324348e-01 +
                        z * (8.33333333332248946124e-03 +
                             z * (-1.98412698298579493134e-04 +
                                  z * (2.75573137070700676789e-06 +
                                       z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
    double c = 1 -
               (0.5 * z -
                z * z *
                    (4.16666666666666019037e-02 +
                     z * (-1.38888888888741095749e-03 +
                          z * (2.48015872894767294178e-05 +
                               z * (-2.75573143513906633035e-07 +
                                    z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
    double a = n & 1 ? c : s, b = n & 1 ? s : c;
    *sine = n & 2 ? -a : a;
    *cosine = n == 1 || n == 2 ? -b : b;
}

/* The two numbers of one block.  kind (gd_random_kind): 0 uniform in [0, 1) with log2(scale) bits, 1 normal by Box and Muller,
 * 2 signs. */
static inline void gd__random_pair(int kind, double scale, const uint32_t w[4], double pair[2])
{
    double u = gd__unit_f64(w[0], w[1]), v = gd__unit_f64(w[2], w[3]);
    if (kind == 1) {
        double r = sqrt(-2 * gd__log_normal(1 - u, 0)), sine, cosine;
        gd__turn(v, &sine, &cosine);
        pair[0] = r * cosine;
        pair[1] = r * sine;
    } else if (kind == 2) {
        pair[0] = w[0] >> 31 ? 1 : -1;
        pair[1] = w[2] >> 31 ? 1 : -1;
    } else {
        pair[0] = floor(u * scale) / scale;
        pair[1] = floor(v * scale) / scale;
    }
}

#endif
