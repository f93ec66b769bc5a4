/* Loops over long vectors of f32 and f64, compiled once for every instruction set.
 *
 * Sums run in sixteen lanes of f64, lane k taking elements k, k + 16, ..., and are added in one order: the same bits
 * on every instruction set.  f32 is widened before it is multiplied. */
#include "optim/layout.h"

#include <math.h>

#define LANES 16

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)
#define NAME(name)  JOIN(name, SUFFIX)

static inline double lanes_sum(const double *lane)
{
    double s[4];
    for (int k = 0; k < 4; k++) s[k] = (lane[k] + lane[k + 4]) + (lane[k + 8] + lane[k + 12]);
    return (s[0] + s[2]) + (s[1] + s[3]);
}

#define SUM_LOOP(name, term)                                                 \
    static double NAME(name)(const void *x_, const void *y_, int64_t n)      \
    {                                                                        \
        const T *x = x_, *y = y_;                                            \
        (void)y;                                                             \
        double lane[LANES] = {0};                                            \
        int64_t i = 0;                                                       \
        for (; i + LANES <= n; i += LANES)                                   \
            for (int k = 0; k < LANES; k++) lane[k] += term(i + k);          \
        for (int k = 0; i + k < n; k++) lane[k] += term(i + k);              \
        return lanes_sum(lane);                                              \
    }

#define PRODUCT(j)   ((double)x[j] * (double)y[j])
#define MAGNITUDE(j) fabs((double)x[j])

/* out[0] = row x, out[1] = row y; the row is read once. */
#define DOT2                                                                                              \
    static void NAME(dot2)(const void *row_, const void *x_, const void *y_, int64_t n, double out[2])   \
    {                                                                                                     \
        const T *row = row_, *x = x_, *y = y_;                                                            \
        double a[LANES] = {0}, b[LANES] = {0};                                                            \
        int64_t i = 0;                                                                                    \
        for (; i + LANES <= n; i += LANES)                                                                \
            for (int k = 0; k < LANES; k++) {                                                             \
                double r = (double)row[i + k];                                                            \
                a[k] += r * (double)x[i + k];                                                             \
                b[k] += r * (double)y[i + k];                                                             \
            }                                                                                             \
        for (int k = 0; i + k < n; k++) {                                                                 \
            double r = (double)row[i + k];                                                                \
            a[k] += r * (double)x[i + k];                                                                 \
            b[k] += r * (double)y[i + k];                                                                 \
        }                                                                                                 \
        out[0] = lanes_sum(a);                                                                            \
        out[1] = lanes_sum(b);                                                                            \
    }

/* NaN wins. */
#define LARGEST                                                            \
    static double NAME(largest)(const void *x_, const void *y_, int64_t n) \
    {                                                                      \
        const T *x = x_;                                                   \
        (void)y_;                                                          \
        double lane[LANES] = {0};                                          \
        for (int64_t i = 0; i < n; i++) {                                  \
            double v = MAGNITUDE(i), *most = &lane[i % LANES];             \
            *most = v <= *most ? *most : v;                                \
            if (v != v) return v;                                          \
        }                                                                  \
        for (int k = 1; k < LANES; k++) lane[0] = fmax(lane[0], lane[k]);  \
        return lane[0];                                                    \
    }

#define MAPS                                                                                                      \
    static void NAME(move)(void *o_, const void *x_, const void *u_, double a_, int64_t n)                        \
    {                                                                                                             \
        T *o = o_, a = (T)a_;                                                                                     \
        const T *x = x_, *u = u_;                                                                                 \
        for (int64_t i = 0; i < n; i++) o[i] = x[i] - a * u[i];                                                   \
    }                                                                                                             \
    static void NAME(scale)(void *o_, const void *x_, double a_, int64_t n)                                       \
    {                                                                                                             \
        T *o = o_, a = (T)a_;                                                                                     \
        const T *x = x_;                                                                                          \
        for (int64_t i = 0; i < n; i++) o[i] = a * x[i];                                                          \
    }                                                                                                             \
    static void NAME(pair)(void *s_, void *y_, void *before_p_, void *before_g_, const void *p_, const void *g_,  \
                           int64_t n)                                                                             \
    {                                                                                                             \
        T *restrict s = s_, *restrict y = y_, *restrict bp = before_p_, *restrict bg = before_g_;                 \
        const T *restrict p = p_, *restrict g = g_;                                                               \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            T pi = p[i], gi = g[i];                                                                               \
            s[i] = pi - bp[i];                                                                                    \
            y[i] = gi - bg[i];                                                                                    \
            bp[i] = pi;                                                                                           \
            bg[i] = gi;                                                                                           \
        }                                                                                                         \
    }

/* o = c x + sum_r coef[r] row[r], in f64, rounded once at the end.  o may be x.  Short pieces stay in cache. */
#define PIECE 512
#define COMBINE                                                                                                   \
    static void NAME(combine)(void *o_, const void *x_, double c, const void *const *rows, const double *coef,    \
                              int count, int64_t n)                                                               \
    {                                                                                                             \
        T *o = o_;                                                                                                \
        const T *x = x_;                                                                                          \
        double sum[PIECE];                                                                                        \
        for (int64_t at = 0; at < n; at += PIECE) {                                                               \
            int m = n - at < PIECE ? (int)(n - at) : PIECE;                                                       \
            for (int i = 0; i < m; i++) sum[i] = c * (double)x[at + i];                                           \
            int r = 0;                                                                                            \
            for (; r + 4 <= count; r += 4) {                                                                      \
                const T *a = (const T *)rows[r] + at, *b = (const T *)rows[r + 1] + at;                           \
                const T *d = (const T *)rows[r + 2] + at, *e = (const T *)rows[r + 3] + at;                       \
                double ca = coef[r], cb = coef[r + 1], cd = coef[r + 2], ce = coef[r + 3];                        \
                for (int i = 0; i < m; i++)                                                                       \
                    sum[i] += (ca * (double)a[i] + cb * (double)b[i]) + (cd * (double)d[i] + ce * (double)e[i]);  \
            }                                                                                                     \
            for (; r < count; r++) {                                                                              \
                const T *a = (const T *)rows[r] + at;                                                             \
                double ca = coef[r];                                                                              \
                for (int i = 0; i < m; i++) sum[i] += ca * (double)a[i];                                          \
            }                                                                                                     \
            for (int i = 0; i < m; i++) o[at + i] = (T)sum[i];                                                    \
        }                                                                                                         \
    }

/* One row of A += a s s^T + b (s z^T + z s^T) + d z z^T, with s and z at the row's number; A stays symmetric to the bit. */
#define RANK_TWO                                                                                                  \
    static void NAME(rank_two)(void *row_, double s_row, double z_row, const void *s_, const void *z_,            \
                               const double c[3], int64_t n)                                                      \
    {                                                                                                             \
        T *restrict row = row_;                                                                                   \
        const T *restrict s = s_, *restrict z = z_;                                                               \
        double a = c[0], b = c[1], d = c[2];                                                                      \
        for (int64_t i = 0; i < n; i++) {                                                                         \
            double si = (double)s[i], zi = (double)z[i];                                                          \
            double change = (a * (s_row * si) + b * (s_row * zi + z_row * si)) + d * (z_row * zi);                \
            row[i] = (T)((double)row[i] + change);                                                                \
        }                                                                                                         \
    }

#define ALL_LOOPS            \
    SUM_LOOP(dot, PRODUCT)   \
    SUM_LOOP(sum, MAGNITUDE) \
    DOT2                     \
    LARGEST                  \
    MAPS                     \
    COMBINE                  \
    RANK_TWO

#define SUFFIX _f32
#define T      float
ALL_LOOPS
#undef SUFFIX
#undef T
#define SUFFIX _f64
#define T      double
ALL_LOOPS

#define TABLE(suffix)                                                                                      \
    {dot##suffix,  sum##suffix,  largest##suffix, dot2##suffix,    move##suffix,                           \
     scale##suffix, pair##suffix, combine##suffix, rank_two##suffix}

const gd_vector_loops JOIN(gd__vector_loops_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
