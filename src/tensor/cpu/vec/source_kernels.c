/* The kernels of cpu/source_kernels.h.  Random numbers are those of base/rng.h, bit for bit: Philox and conversions of its words; there block after
 * block, here an array of blocks per operation. */
#include "tensor/cpu/source_kernels.h"
#include "base/rng.h"

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)

enum { BLOCKS = 64 }; /* blocks made together */

typedef struct random_words {
    uint32_t word[4][BLOCKS];
} random_words;

static void make_words(random_words *w, uint64_t key, uint64_t first)
{
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32), *restrict c0 = w->word[0],
             *restrict c1 = w->word[1], *restrict c2 = w->word[2], *restrict c3 = w->word[3];
    for (int i = 0; i < BLOCKS; i++) {
        c0[i] = (uint32_t)(first + (uint64_t)i);
        c1[i] = (uint32_t)((first + (uint64_t)i) >> 32);
        c2[i] = c3[i] = 0;
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (int i = 0; i < BLOCKS; i++) {
            uint64_t p0 = (uint64_t)0xD2511F53u * c0[i], p1 = (uint64_t)0xCD9E8D57u * c2[i];
            uint32_t n0 = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0, n2 = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
            c1[i] = (uint32_t)p1;
            c3[i] = (uint32_t)p0;
            c0[i] = n0;
            c2[i] = n2;
        }
}

/* A whole number below 2^52, without the conversion of 64-bit integers that not all vectors have. */
static inline double whole_f64(uint64_t x)
{
    double d;
    x |= 0x4330000000000000ull;
    memcpy(&d, &x, sizeof d);
    return d - 4503599627370496.0;
}

/* gd__unit_f64: both parts and their sum are exact. */
static inline double unit_f64(uint32_t high, uint32_t low)
{
    return whole_f64(high) * 2.3283064365386963e-10 + whole_f64(low >> 11) * 1.1102230246251565e-16;
}

/* gd__turn, choosing by masks; `quarter` is 0 to 4. */
static inline void turned(double v, double *sine, double *cosine)
{
    double four = v * 4, whole = (four + 0.5 + 4503599627370496.0) - 4503599627370496.0;
    double quarter = whole > four + 0.5 ? whole - 1 : whole, s, c; /* the whole number below */
    double x = (four - quarter) * 1.57079632679489661923, z = x * x;
    s = x + x * z *
                (-1.66666666666666324348e-01 +
                 z * (8.33333333332248946124e-03 +
                      z * (-1.98412698298579493134e-04 +
                           z * (2.75573137070700676789e-06 +
                                z * (-2.50507602534068634195e-08 + z * 1.58969099521155010221e-10)))));
    c = 1 - (0.5 * z -
             z * z *
                 (4.16666666666666019037e-02 +
                  z * (-1.38888888888741095749e-03 +
                       z * (2.48015872894767294178e-05 +
                            z * (-2.75573143513906633035e-07 +
                                 z * (2.08757232129817482790e-09 + z * -1.13596475577881948265e-11))))));
    double odd = ((quarter == 1) | (quarter == 3)) ? 1 : 0, a = odd != 0 ? c : s, b = odd != 0 ? s : c;
    *sine = ((quarter == 2) | (quarter == 3)) ? -a : a;
    *cosine = ((quarter == 1) | (quarter == 2)) ? -b : b;
}

static void normal_pairs(const random_words *w, double *restrict a, double *restrict b)
{
    for (int i = 0; i < BLOCKS; i++) {
        double u = unit_f64(w->word[0][i], w->word[1][i]), v = unit_f64(w->word[2][i], w->word[3][i]);
        double r = __builtin_sqrt(-2 * gd__log_normal(1 - u, 0)), sine, cosine;
        turned(v, &sine, &cosine);
        a[i] = r * cosine;
        b[i] = r * sine;
    }
}

/* floor(u scale) / scale of the numbers u of 53 bits; scale is a power of two. */
static void uniform_pairs(const random_words *w, double scale, double *restrict a, double *restrict b)
{
    if (scale == 0x1p53)
        for (int i = 0; i < BLOCKS; i++) {
            a[i] = unit_f64(w->word[0][i], w->word[1][i]);
            b[i] = unit_f64(w->word[2][i], w->word[3][i]);
        }
    else {
        uint32_t left_out = (uint32_t)(0x1p32 / scale), kept = ~(left_out - 1);
        for (int i = 0; i < BLOCKS; i++) {
            a[i] = whole_f64(w->word[0][i] & kept) * 2.3283064365386963e-10;
            b[i] = whole_f64(w->word[2][i] & kept) * 2.3283064365386963e-10;
        }
    }
}

static void random_pairs(const random_words *w, int kind, double scale, double *restrict a,
                         double *restrict b)
{
    if (kind == 1)
        normal_pairs(w, a, b);
    else if (kind == 2)
        for (int i = 0; i < BLOCKS; i++) {
            a[i] = w->word[0][i] >> 31 ? 1 : -1;
            b[i] = w->word[2][i] >> 31 ? 1 : -1;
        }
    else
        uniform_pairs(w, scale, a, b);
}

#define RANDOM(name, type)                                                                      \
    static void name(type *to, uint64_t key, uint64_t first, int64_t n, int kind, double scale) \
    {                                                                                           \
        random_words words;                                                                     \
        double a[BLOCKS], b[BLOCKS];                                                            \
        for (int64_t i = 0; i < n; i += 2 * BLOCKS) {                                           \
            make_words(&words, key, first + (uint64_t)i / 2);                                   \
            random_pairs(&words, kind, scale, a, b);                                            \
            type pair[2 * BLOCKS], *restrict put = n - i < 2 * BLOCKS ? pair : to + i;          \
            for (int k = 0; k < BLOCKS; k++) {                                                  \
                put[2 * k] = (type)a[k];                                                        \
                put[2 * k + 1] = (type)b[k];                                                    \
            }                                                                                   \
            if (put == pair) memcpy(to + i, pair, (size_t)(n - i) * sizeof *to);                \
        }                                                                                       \
    }
RANDOM(random_f32, float)
RANDOM(random_f64, double)

static void random_u64(uint64_t *to, uint64_t key, uint64_t first, int64_t n)
{
    random_words words;
    for (int64_t i = 0; i < n; i += BLOCKS) {
        make_words(&words, key, first + (uint64_t)i);
        for (int k = 0; k < BLOCKS && i + k < n; k++)
            to[i + k] = (uint64_t)words.word[0][k] << 32 | words.word[1][k];
    }
}

/* ---- evenly spaced ---- */

#define STEPS 32

/* Numbers i are kept in f64, where vectors add them. */
#define EVEN(name, type)                                                                     \
    static void name(type *restrict to, double first, double step, int64_t start, int64_t n) \
    {                                                                                        \
        double at[STEPS];                                                                    \
        int64_t i = 0;                                                                       \
        for (int k = 0; k < STEPS; k++) at[k] = (double)(start + k);                         \
        for (; i + STEPS <= n; i += STEPS)                                                   \
            for (int k = 0; k < STEPS; k++) {                                                \
                to[i + k] = (type)(first + at[k] * step);                                    \
                at[k] += STEPS;                                                              \
            }                                                                                \
        for (int k = 0; i + k < n; k++) to[i + k] = (type)(first + at[k] * step);            \
    }
EVEN(steps_f32, float)
EVEN(steps_f64, double)

const gd_sources_table JOIN(gd__sources_, GD_ISA) = {random_f32, random_f64, random_u64, steps_f32,
                                                     steps_f64};
