/* Loops over long vectors of f32 and f64, compiled once for every instruction set.
 *
 * Sums run in sixteen lanes of f64, lane k taking elements k, k + 16, ..., and are added in one order: the same bits
 * on every instruction set.  f32 is widened before it is multiplied. */
#include "optim/vector/layout.h"

#include <string.h>
#ifdef __SSE2__
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

#define LOAD_F64(p)     (*(const unaligned_wide *)(const void *)(p))
#define STORE_F64(p, x) (*(unaligned_wide *)(void *)(p) = (x))
/* A product of two f32 is exact in f64: fused or not, the bits are the same.  Compilers convert eight numbers in five
 * instructions when they are left alone. */
#define MULADD_F64(a, b, c) ((c) + (a) * (b))
#ifdef __AVX512F__
#define MULADD_F32(a, b, c) ((wide)_mm512_fmadd_pd((__m512d)(a), (__m512d)(b), (__m512d)(c)))
#define LOAD_F32(p)         ((wide)_mm512_cvtps_pd(_mm256_loadu_ps(p)))
#define STORE_F32(p, x)     _mm256_storeu_ps(p, _mm512_cvtpd_ps((__m512d)(x)))
/* Past the caches, to addresses that are a multiple of 64 bytes. */
#define STREAM_F64(p, x) _mm512_stream_pd(p, (__m512d)(x))
#define STREAM_F32(p, x) _mm256_stream_ps(p, _mm512_cvtpd_ps((__m512d)(x)))
#else
#define MULADD_F32      MULADD_F64
#define LOAD_F32(p)     __builtin_convertvector(*(const unaligned_narrow *)(const void *)(p), wide)
#define STORE_F32(p, x) (*(unaligned_narrow *)(void *)(p) = __builtin_convertvector(x, unaligned_narrow))
#define STREAM_F64      STORE_F64
#define STREAM_F32      STORE_F32
#endif
#ifdef __SSE2__
#define STREAM_END() _mm_sfence()
#else
#define STREAM_END() (void)0
#endif

/* 64 bytes past the caches, to an address that is a multiple of 64. */
static inline void stream_line(void *to, const void *from)
{
#if defined(__AVX512F__)
    _mm512_stream_si512(to, _mm512_loadu_si512(from));
#elif defined(__AVX__)
    for (int k = 0; k < 2; k++)
        _mm256_stream_si256((__m256i *)to + k, _mm256_loadu_si256((const __m256i *)from + k));
#elif defined(__SSE2__)
    for (int k = 0; k < 4; k++)
        _mm_stream_si128((__m128i *)to + k, _mm_loadu_si128((const __m128i *)from + k));
#else
    memcpy(to, from, 64);
#endif
}

static inline double add_lanes(const wide *lanes)
{
    wide c = *lanes;
    return ((c[0] + c[4]) + (c[1] + c[5])) + ((c[2] + c[6]) + (c[3] + c[7]));
}

/* Sixteen elements of a row are asked for some time before they are used, as far as the second cache: a history is more
 * streams than processors follow by themselves, and more than the first cache holds. */
#define AHEAD 2048
#define ASK(row)                                                                        \
    do {                                                                                \
        __builtin_prefetch((const char *)(row) + AHEAD, 0, 2);                          \
        if (sizeof(T) == 8) __builtin_prefetch((const char *)(row) + AHEAD + 64, 0, 2); \
    } while (0)

/* Magnitudes compare as integers do, and NaN is larger than all. */
#define MAGNITUDE_BITS(x) ((whole)(x)&INT64_MAX)
#define MAGNITUDE(x)      ((wide)MAGNITUDE_BITS(x))
#define ENLARGE(most, x)                                 \
    do {                                                 \
        __typeof__(most) bits = (x), take = bits > most; \
        most = (take & bits) | (~take & most);           \
    } while (0)

/* The elements of 64 bytes, and their bits. */
typedef float values_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double values_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int32_t bits_f32 __attribute__((vector_size(64)));
typedef int64_t bits_f64 __attribute__((vector_size(64)));

/* The last n < 16 elements of x, followed by zeros. */
#define TAIL(x, at, n)       \
    T x##_tail[LANES] = {0}; \
    memcpy(x##_tail, (x) + (at), (size_t)(n) * sizeof(T))

#define SUMS                                                                \
    static double NAME(dot)(const void *x_, const void *y_, int64_t n)      \
    {                                                                       \
        const T *x = x_, *y = y_;                                           \
        wide a = {0}, b = {0};                                              \
        int64_t i = 0;                                                      \
        for (; i + LANES <= n; i += LANES) {                                \
            a += LOAD(x + i) * LOAD(y + i);                                 \
            b += LOAD(x + i + 8) * LOAD(y + i + 8);                         \
        }                                                                   \
        if (i < n) {                                                        \
            TAIL(x, i, n - i);                                              \
            TAIL(y, i, n - i);                                              \
            a += LOAD(x_tail) * LOAD(y_tail);                               \
            b += LOAD(x_tail + 8) * LOAD(y_tail + 8);                       \
        }                                                                   \
        a += b;                                                             \
        return add_lanes(&a);                                               \
    }                                                                       \
    static double NAME(sum)(const void *x_, const void *y_, int64_t n)      \
    {                                                                       \
        const T *x = x_;                                                    \
        (void)y_;                                                           \
        wide a = {0}, b = {0};                                              \
        int64_t i = 0;                                                      \
        for (; i + LANES <= n; i += LANES) {                                \
            a += MAGNITUDE(LOAD(x + i));                                    \
            b += MAGNITUDE(LOAD(x + i + 8));                                \
        }                                                                   \
        if (i < n) {                                                        \
            TAIL(x, i, n - i);                                              \
            a += MAGNITUDE(LOAD(x_tail));                                   \
            b += MAGNITUDE(LOAD(x_tail + 8));                               \
        }                                                                   \
        a += b;                                                             \
        return add_lanes(&a);                                               \
    }                                                                       \
    static double NAME(largest)(const void *x_, const void *y_, int64_t n)  \
    {                                                                       \
        const T *x = x_;                                                    \
        (void)y_;                                                           \
        whole a = {0};                                                      \
        int64_t i = 0;                                                      \
        for (; i + 8 <= n; i += 8) ENLARGE(a, MAGNITUDE_BITS(LOAD(x + i))); \
        if (i < n) {                                                        \
            TAIL(x, i, n - i);                                              \
            ENLARGE(a, MAGNITUDE_BITS(LOAD(x_tail)));                       \
        }                                                                   \
        int64_t most = a[0];                                                \
        for (int k = 1; k < 8; k++) most = a[k] > most ? a[k] : most;       \
        double value;                                                       \
        memcpy(&value, &most, sizeof value);                                \
        return value;                                                       \
    }

/* Products of `count` rows, a constant, with x and y: as many at a time as there are registers for the sums. */
#if defined(__AVX512F__)
#define GROUP 10
#else
#define GROUP 2
#endif
#define DOTS                                                                                            \
    static inline __attribute__((always_inline)) void NAME(dots_of)(                                    \
        const void *const *rows, int count, const T *x, const T *y, int64_t n, double *out)             \
    {                                                                                                   \
        wide sum[2 * GROUP] = {{0}};                                                                    \
        int64_t i = 0;                                                                                  \
        for (; i + LANES <= n; i += LANES) {                                                            \
            for (int r = 0; r < count; r++) ASK((const T *)rows[r] + i);                                \
            for (int k = 0; k < LANES; k += 8) {                                                        \
                wide xv = LOAD(x + i + k), yv = LOAD(y + i + k);                                        \
                for (int r = 0; r < count; r++) {                                                       \
                    wide a = LOAD((const T *)rows[r] + i + k);                                          \
                    sum[2 * r] = MULADD(a, xv, sum[2 * r]);                                             \
                    sum[2 * r + 1] = MULADD(a, yv, sum[2 * r + 1]);                                     \
                }                                                                                       \
            }                                                                                           \
        }                                                                                               \
        for (int r = 0; r < count; r++) {                                                               \
            for (int k = 0; k < 2; k++) out[2 * r + k] = add_lanes(&sum[2 * r + k]);                    \
            const T *row = rows[r];                                                                     \
            for (int64_t k = i; k < n; k++) {                                                           \
                out[2 * r] += (double)row[k] * (double)x[k];                                            \
                out[2 * r + 1] += (double)row[k] * (double)y[k];                                        \
            }                                                                                           \
        }                                                                                               \
    }                                                                                                   \
    static void NAME(dots)(const void *const *rows, int count, const void *x, const void *y, int64_t n, \
                           double *out)                                                                 \
    {                                                                                                   \
        int r = 0;                                                                                      \
        for (; r + GROUP <= count; r += GROUP) NAME(dots_of)(rows + r, GROUP, x, y, n, out + 2 * r);    \
        for (; r + 2 <= count; r += 2) NAME(dots_of)(rows + r, 2, x, y, n, out + 2 * r);                \
        for (; r < count; r++) NAME(dots_of)(rows + r, 1, x, y, n, out + 2 * r);                        \
    }

/* A pair is made piece by piece, and the history is read in between: the next piece is asked for now. */
#define ASK_NEXT(from, write) __builtin_prefetch((const char *)(from) + GD_PIECE_BYTES, write, 2)

/* 64 bytes, or what is left of them. */
#define COPY(to, from)              \
    do {                            \
        if (size == 64)             \
            memcpy(to, from, 64);   \
        else                        \
            memcpy(to, from, size); \
    } while (0)

#define MAPS                                                                                          \
    static void NAME(move)(void *o_, const void *x_, const void *u_, double a_, int64_t n)            \
    {                                                                                                 \
        T *o = o_, a = (T)a_;                                                                         \
        const T *x = x_, *u = u_;                                                                     \
        for (int64_t i = 0; i < n; i++) o[i] = x[i] - a * u[i];                                       \
    }                                                                                                 \
    static void NAME(scale)(void *o_, const void *x_, double a_, int64_t n)                           \
    {                                                                                                 \
        T *o = o_, a = (T)a_;                                                                         \
        const T *x = x_;                                                                              \
        for (int64_t i = 0; i < n; i++) o[i] = a * x[i];                                              \
    }                                                                                                 \
    static double NAME(most_of)(NAME(bits) * lanes)                                                   \
    {                                                                                                 \
        __typeof__((*lanes)[0]) most = 0;                                                             \
        for (unsigned k = 0; k < 64 / sizeof(T); k++) most = (*lanes)[k] > most ? (*lanes)[k] : most; \
        T value;                                                                                      \
        memcpy(&value, &most, sizeof value);                                                          \
        return (double)value;                                                                         \
    }                                                                                                 \
    /* most: the largest magnitudes of s and y; far: NULL, or where they go too, past the caches */   \
    static void NAME(pair)(void *s_, void *y_, void *before_p_, void *before_g_, const void *p_,      \
                           const void *g_, int64_t n, double most[2], void *const *far)               \
    {                                                                                                 \
        enum { WIDTH = 64 / sizeof(T) };                                                              \
        T *s = s_, *y = y_, *bp = before_p_, *bg = before_g_;                                         \
        const T *p = p_, *g = g_;                                                                     \
        T *far_s = far ? far[0] : NULL, *far_y = far ? far[1] : NULL;                                 \
        NAME(bits) of_s = {0}, of_y = {0};                                                            \
        for (int64_t i = 0; i < n; i += WIDTH) {                                                      \
            ASK_NEXT(p + i, 0);                                                                       \
            ASK_NEXT(g + i, 0);                                                                       \
            ASK_NEXT(bp + i, 0);                                                                      \
            ASK_NEXT(bg + i, 0);                                                                      \
            NAME(values) pi = {0}, gi = {0}, bpi = {0}, bgi = {0}, si, yi;                            \
            size_t size = (n - i < WIDTH ? (size_t)(n - i) : WIDTH) * sizeof(T);                      \
            COPY(&pi, p + i);                                                                         \
            COPY(&gi, g + i);                                                                         \
            COPY(&bpi, bp + i);                                                                       \
            COPY(&bgi, bg + i);                                                                       \
            si = pi - bpi;                                                                            \
            yi = gi - bgi;                                                                            \
            COPY(s + i, &si);                                                                         \
            COPY(y + i, &yi);                                                                         \
            COPY(bp + i, &pi);                                                                        \
            COPY(bg + i, &gi);                                                                        \
            if (!far) {                                                                               \
                ASK_NEXT(s + i, 1);                                                                   \
                ASK_NEXT(y + i, 1);                                                                   \
            } else if (size == 64) {                                                                  \
                stream_line(far_s + i, &si);                                                          \
                stream_line(far_y + i, &yi);                                                          \
            } else {                                                                                  \
                memcpy(far_s + i, &si, size);                                                         \
                memcpy(far_y + i, &yi, size);                                                         \
            }                                                                                         \
            ENLARGE(of_s, (NAME(bits))si &MAGNITUDE_MASK);                                            \
            ENLARGE(of_y, (NAME(bits))yi &MAGNITUDE_MASK);                                            \
        }                                                                                             \
        if (far) STREAM_END();                                                                        \
        most[0] = NAME(most_of)(&of_s);                                                               \
        most[1] = NAME(most_of)(&of_y);                                                               \
    }

/* o = c x + sum_r coef[r] row[r], in f64, rounded once at the end.  o may be x.  past: o is too long to be found in a cache
 * later, and need not be read before it is written. */
#define USUAL 20 /* rows of a history of ten pairs: a constant, so that the coefficients stay in registers */
#define FOUR(sum, at)                                                  \
    sum += (coef[r] * LOAD(a + (at)) + coef[r + 1] * LOAD(b + (at))) + \
           (coef[r + 2] * LOAD(d + (at)) + coef[r + 3] * LOAD(e + (at)))
#define COMBINE                                                                                         \
    static inline __attribute__((always_inline)) void NAME(combine_blocks)(                             \
        T * o, const T *x, double c, const void *const *rows, const double *coef, int count, int64_t n, \
        bool past)                                                                                      \
    {                                                                                                   \
        for (int64_t i = 0; i < n; i += LANES) {                                                        \
            wide first = c * LOAD(x + i), second = c * LOAD(x + i + 8);                                 \
            int r = 0;                                                                                  \
            for (; r + 4 <= count; r += 4) {                                                            \
                const T *a = (const T *)rows[r] + i, *b = (const T *)rows[r + 1] + i;                   \
                const T *d = (const T *)rows[r + 2] + i, *e = (const T *)rows[r + 3] + i;               \
                ASK(a);                                                                                 \
                ASK(b);                                                                                 \
                ASK(d);                                                                                 \
                ASK(e);                                                                                 \
                FOUR(first, 0);                                                                         \
                FOUR(second, 8);                                                                        \
            }                                                                                           \
            for (; r < count; r++) {                                                                    \
                const T *a = (const T *)rows[r] + i;                                                    \
                ASK(a);                                                                                 \
                first += coef[r] * LOAD(a);                                                             \
                second += coef[r] * LOAD(a + 8);                                                        \
            }                                                                                           \
            if (past) {                                                                                 \
                STREAM(o + i, first);                                                                   \
                STREAM(o + i + 8, second);                                                              \
            } else {                                                                                    \
                STORE(o + i, first);                                                                    \
                STORE(o + i + 8, second);                                                               \
            }                                                                                           \
        }                                                                                               \
        if (past) STREAM_END();                                                                         \
    }                                                                                                   \
    static void NAME(combine)(void *o_, const void *x_, double c, const void *const *rows,              \
                              const double *coef, int count, int64_t n, bool past)                      \
    {                                                                                                   \
        T *o = o_;                                                                                      \
        const T *x = x_;                                                                                \
        int64_t whole_blocks = n & ~(int64_t)(LANES - 1);                                               \
        bool stream = past && (uintptr_t)o % 64 == 0;                                                   \
        if (stream && count == USUAL)                                                                   \
            NAME(combine_blocks)(o, x, c, rows, coef, USUAL, whole_blocks, true);                       \
        else if (stream)                                                                                \
            NAME(combine_blocks)(o, x, c, rows, coef, count, whole_blocks, true);                       \
        else                                                                                            \
            NAME(combine_blocks)(o, x, c, rows, coef, count, whole_blocks, false);                      \
        for (int64_t i = whole_blocks; i < n; i++) {                                                    \
            double sum = c * (double)x[i];                                                              \
            int r = 0;                                                                                  \
            for (; r + 4 <= count; r += 4) {                                                            \
                const T *a = rows[r], *b = rows[r + 1], *d = rows[r + 2], *e = rows[r + 3];             \
                sum += (coef[r] * (double)a[i] + coef[r + 1] * (double)b[i]) +                          \
                       (coef[r + 2] * (double)d[i] + coef[r + 3] * (double)e[i]);                       \
            }                                                                                           \
            for (; r < count; r++) sum += coef[r] * (double)((const T *)rows[r])[i];                    \
            o[i] = (T)sum;                                                                              \
        }                                                                                               \
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

#define ALL_LOOPS SUMS DOTS MAPS COMBINE RANK_TWO

#define SUFFIX         _f32
#define T              float
#define LOAD           LOAD_F32
#define STORE          STORE_F32
#define STREAM         STREAM_F32
#define MULADD         MULADD_F32
#define MAGNITUDE_MASK INT32_MAX
ALL_LOOPS
#undef SUFFIX
#undef T
#undef LOAD
#undef STORE
#undef STREAM
#undef MULADD
#undef MAGNITUDE_MASK
#define SUFFIX         _f64
#define T              double
#define LOAD           LOAD_F64
#define STORE          STORE_F64
#define STREAM         STREAM_F64
#define MULADD         MULADD_F64
#define MAGNITUDE_MASK INT64_MAX
ALL_LOOPS

#define TABLE(suffix)                                                                                       \
    {                                                                                                       \
        dot##suffix, sum##suffix, largest##suffix, dots##suffix, move##suffix, scale##suffix, pair##suffix, \
            combine##suffix, rank_two##suffix                                                               \
    }

const gd_vector_loops JOIN(gd__vector_loops_, GD_ISA)[2] = {TABLE(_f32), TABLE(_f64)};
