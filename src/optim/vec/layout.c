/* Loops over long vectors of f32 and f64, compiled once for every instruction set.
 *
 * Sums run in sixteen lanes of f64, lane k taking elements k, k + 16, ..., and are added in one order: the same bits
 * on every instruction set.  f32 is widened before it is multiplied. */
#include "optim/layout.h"

#include <string.h>
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

/* Eight numbers at a time, whatever the registers are.  No functions take or return them: how that is done differs. */
typedef double wide __attribute__((vector_size(64)));
typedef int64_t whole __attribute__((vector_size(64)));
typedef double unaligned_wide __attribute__((vector_size(64), aligned(8), may_alias));
typedef float unaligned_narrow __attribute__((vector_size(32), aligned(4), may_alias));
#define LANES 16 /* two of them */

/* A product of two f32 is exact in f64: fused or not, the bits are the same. */
#define MULADD_F64(a, b, c) ((c) + (a) * (b))
#ifdef __AVX512F__
#define MULADD_F32(a, b, c) ((wide)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#else
#define MULADD_F32 MULADD_F64
#endif

#define LOAD_F64(p) (*(const unaligned_wide *)(const void *)(p))
#define LOAD_F32(p) __builtin_convertvector(*(const unaligned_narrow *)(const void *)(p), wide)

static inline double add_lanes(const wide *a, const wide *b)
{
    wide c = *a + *b;
    return ((c[0] + c[4]) + (c[1] + c[5])) + ((c[2] + c[6]) + (c[3] + c[7]));
}

/* How far ahead rows are asked for: processors do not look beyond a page, and a history is many short streams. */
#define AHEAD 2048

/* Magnitudes compare as integers do, and NaN is larger than all. */
#define MAGNITUDE_BITS(x) ((whole)(x)&INT64_MAX)
#define MAGNITUDE(x)      ((wide)MAGNITUDE_BITS(x))
#define ENLARGE(most, x)                                    \
    do {                                                    \
        whole bits = MAGNITUDE_BITS(x), take = bits > most; \
        most = (take & bits) | (~take & most);              \
    } while (0)

/* The last n < 16 elements of x, followed by zeros. */
#define TAIL(x, at, n)       \
    T x##_tail[LANES] = {0}; \
    memcpy(x##_tail, (x) + (at), (size_t)(n) * sizeof(T))

/* Sixteen elements of a and b times those of x and y. */
#define DOT4(a, b, x, y)                                     \
    for (int k = 0; k < 2; k++) {                            \
        wide av = LOAD((a) + 8 * k), bv = LOAD((b) + 8 * k); \
        wide xv = LOAD((x) + 8 * k), yv = LOAD((y) + 8 * k); \
        sum[k] = MULADD(av, xv, sum[k]);                     \
        sum[2 + k] = MULADD(av, yv, sum[2 + k]);             \
        sum[4 + k] = MULADD(bv, xv, sum[4 + k]);             \
        sum[6 + k] = MULADD(bv, yv, sum[6 + k]);             \
    }

#define SUMS                                                                                          \
    static double NAME(dot)(const void *x_, const void *y_, int64_t n)                                \
    {                                                                                                 \
        const T *x = x_, *y = y_;                                                                     \
        wide a = {0}, b = {0};                                                                        \
        int64_t i = 0;                                                                                \
        for (; i + LANES <= n; i += LANES) {                                                          \
            a += LOAD(x + i) * LOAD(y + i);                                                           \
            b += LOAD(x + i + 8) * LOAD(y + i + 8);                                                   \
        }                                                                                             \
        if (i < n) {                                                                                  \
            TAIL(x, i, n - i);                                                                        \
            TAIL(y, i, n - i);                                                                        \
            a += LOAD(x_tail) * LOAD(y_tail);                                                         \
            b += LOAD(x_tail + 8) * LOAD(y_tail + 8);                                                 \
        }                                                                                             \
        return add_lanes(&a, &b);                                                                     \
    }                                                                                                 \
    /* a x, a y, b x, b y; everything is read once */                                                 \
    static void NAME(dot4)(const void *a_, const void *b_, const void *x_, const void *y_, int64_t n, \
                           double out[4])                                                             \
    {                                                                                                 \
        const T *a = a_, *b = b_, *x = x_, *y = y_;                                                   \
        wide sum[8] = {{0}};                                                                          \
        int64_t i = 0;                                                                                \
        for (; i + LANES <= n; i += LANES) {                                                          \
            __builtin_prefetch((const char *)(a + i) + AHEAD);                                        \
            __builtin_prefetch((const char *)(b + i) + AHEAD);                                        \
            DOT4(a + i, b + i, x + i, y + i);                                                         \
        }                                                                                             \
        if (i < n) {                                                                                  \
            TAIL(a, i, n - i);                                                                        \
            TAIL(b, i, n - i);                                                                        \
            TAIL(x, i, n - i);                                                                        \
            TAIL(y, i, n - i);                                                                        \
            DOT4(a_tail, b_tail, x_tail, y_tail);                                                     \
        }                                                                                             \
        for (int k = 0; k < 4; k++) out[k] = add_lanes(&sum[2 * k], &sum[2 * k + 1]);                 \
    }                                                                                                 \
    static double NAME(sum)(const void *x_, const void *y_, int64_t n)                                \
    {                                                                                                 \
        const T *x = x_;                                                                              \
        (void)y_;                                                                                     \
        wide a = {0}, b = {0};                                                                        \
        int64_t i = 0;                                                                                \
        for (; i + LANES <= n; i += LANES) {                                                          \
            a += MAGNITUDE(LOAD(x + i));                                                              \
            b += MAGNITUDE(LOAD(x + i + 8));                                                          \
        }                                                                                             \
        if (i < n) {                                                                                  \
            TAIL(x, i, n - i);                                                                        \
            a += MAGNITUDE(LOAD(x_tail));                                                             \
            b += MAGNITUDE(LOAD(x_tail + 8));                                                         \
        }                                                                                             \
        return add_lanes(&a, &b);                                                                     \
    }                                                                                                 \
    static double NAME(largest)(const void *x_, const void *y_, int64_t n)                            \
    {                                                                                                 \
        const T *x = x_;                                                                              \
        (void)y_;                                                                                     \
        whole a = {0};                                                                                \
        int64_t i = 0;                                                                                \
        for (; i + 8 <= n; i += 8) ENLARGE(a, LOAD(x + i));                                           \
        if (i < n) {                                                                                  \
            TAIL(x, i, n - i);                                                                        \
            ENLARGE(a, LOAD(x_tail));                                                                 \
        }                                                                                             \
        int64_t most = a[0];                                                                          \
        for (int k = 1; k < 8; k++) most = a[k] > most ? a[k] : most;                                 \
        double value;                                                                                 \
        memcpy(&value, &most, sizeof value);                                                          \
        return value;                                                                                 \
    }

#define MAPS                                                                                      \
    static void NAME(move)(void *o_, const void *x_, const void *u_, double a_, int64_t n)        \
    {                                                                                             \
        T *o = o_, a = (T)a_;                                                                     \
        const T *x = x_, *u = u_;                                                                 \
        for (int64_t i = 0; i < n; i++) o[i] = x[i] - a * u[i];                                   \
    }                                                                                             \
    static void NAME(scale)(void *o_, const void *x_, double a_, int64_t n)                       \
    {                                                                                             \
        T *o = o_, a = (T)a_;                                                                     \
        const T *x = x_;                                                                          \
        for (int64_t i = 0; i < n; i++) o[i] = a * x[i];                                          \
    }                                                                                             \
    static void NAME(pair)(void *s_, void *y_, void *before_p_, void *before_g_, const void *p_,  \
                           const void *g_, int64_t n)                                             \
    {                                                                                             \
        T *restrict s = s_, *restrict y = y_, *restrict bp = before_p_, *restrict bg = before_g_; \
        const T *restrict p = p_, *restrict g = g_;                                               \
        for (int64_t i = 0; i < n; i++) {                                                         \
            T pi = p[i], gi = g[i];                                                               \
            s[i] = pi - bp[i];                                                                    \
            y[i] = gi - bg[i];                                                                    \
            bp[i] = pi;                                                                           \
            bg[i] = gi;                                                                           \
        }                                                                                         \
    }

/* o = c x + sum_r coef[r] row[r], in f64, rounded once at the end.  o may be x.  Short pieces stay in cache. */
#define PIECE 512
#define COMBINE                                                                             \
    static void NAME(combine)(void *o_, const void *x_, double c, const void *const *rows,  \
                              const double *coef, int count, int64_t n)                     \
    {                                                                                       \
        T *o = o_;                                                                          \
        const T *x = x_;                                                                    \
        double sum[PIECE];                                                                  \
        for (int64_t at = 0; at < n; at += PIECE) {                                         \
            int m = n - at < PIECE ? (int)(n - at) : PIECE;                                 \
            for (int i = 0; i < m; i++) sum[i] = c * (double)x[at + i];                     \
            int r = 0;                                                                      \
            for (; r + 4 <= count; r += 4) {                                                \
                const T *a = (const T *)rows[r] + at, *b = (const T *)rows[r + 1] + at;     \
                const T *d = (const T *)rows[r + 2] + at, *e = (const T *)rows[r + 3] + at; \
                double ca = coef[r], cb = coef[r + 1], cd = coef[r + 2], ce = coef[r + 3];  \
                for (int i = 0; i < m; i++)                                                 \
                    sum[i] += (ca * (double)a[i] + cb * (double)b[i]) +                     \
                              (cd * (double)d[i] + ce * (double)e[i]);                      \
            }                                                                               \
            for (; r < count; r++) {                                                        \
                const T *a = (const T *)rows[r] + at;                                       \
                double ca = coef[r];                                                        \
                for (int i = 0; i < m; i++) sum[i] += ca * (double)a[i];                    \
            }                                                                               \
            for (int i = 0; i < m; i++) o[at + i] = (T)sum[i];                              \
        }                                                                                   \
    }

/* One row of A += a s s^T + b (s z^T + z s^T) + d z z^T, with s and z at the row's number; A stays symmetric to the bit. */
#define RANK_TWO                                                                                       \
    static void NAME(rank_two)(void *row_, double s_row, double z_row, const void *s_, const void *z_, \
                               const double c[3], int64_t n)                                           \
    {                                                                                                  \
        T *restrict row = row_;                                                                        \
        const T *restrict s = s_, *restrict z = z_;                                                    \
        double a = c[0], b = c[1], d = c[2];                                                           \
        for (int64_t i = 0; i < n; i++) {                                                              \
            double si = (double)s[i], zi = (double)z[i];                                               \
            double change = (a * (s_row * si) + b * (s_row * zi + z_row * si)) + d * (z_row * zi);     \
            row[i] = (T)((double)row[i] + change);                                                     \
        }                                                                                              \
    }

#define ALL_LOOPS SUMS MAPS COMBINE RANK_TWO

#define SUFFIX _f32
#define T      float
#define LOAD   LOAD_F32
#define MULADD MULADD_F32
ALL_LOOPS
#undef SUFFIX
#undef T
#undef LOAD
#undef MULADD
#define SUFFIX _f64
#define T      double
#define LOAD   LOAD_F64
#define MULADD MULADD_F64
ALL_LOOPS

#define TABLE(suffix)                                                                                       \
    {                                                                                                       \
        dot##suffix, sum##suffix, largest##suffix, dot4##suffix, move##suffix, scale##suffix, pair##suffix, \
            combine##suffix, rank_two##suffix                                                               \
    }

const gd_vector_loops JOIN(gd__vector_loops_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
