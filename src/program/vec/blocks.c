/* The interpreter's loops: one for each instruction and compute type, compiled once for every instruction set. */
#include "base/narrow.h"
#include "base/rng.h"
#include "base/math/gamma.h"
#include "program/element.h"

#ifdef __AVX512F__
#include <immintrin.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)

#define LOOP(NAME, operands, expression)                                                                \
    static void JOIN(NAME, SUFFIX)(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, \
                                   const double *f)                                                     \
    {                                                                                                   \
        (void)f;                                                                                        \
        T *restrict o = o_;                                                                             \
        const T *x = a_, *y = b_ ? b_ : a_, *z = c_ ? c_ : a_;                                          \
        for (int64_t i = 0; i < n; i++) {                                                               \
            T a = x[i], b = y[i], c = z[i];                                                             \
            (void)b;                                                                                    \
            (void)c;                                                                                    \
            o[i] = (T)(expression);                                                                     \
        }                                                                                               \
    }

/* Rows of ops.def without loops among the operators. */
#define OWN_MAP_0(...)
#define OWN_MAP_1(X, name, element)      X(name, 2, element)
#define OWN_MAP_2(X, name, element)      X(name, 3, element)
#define OWN_MAP_CHOICE(X, name, element) X(name, 3, element)
#define OWN_TEST_0(X, name, element)     X(name, 2, element)

#define CONVERT(NAME, to_type, from_type, expression)                       \
    static void JOIN(NAME, SUFFIX)(void *to_, const void *from_, int64_t n) \
    {                                                                       \
        to_type *restrict to = to_;                                         \
        const from_type *from = from_;                                      \
        for (int64_t i = 0; i < n; i++) {                                   \
            from_type x = from[i];                                          \
            to[i] = (to_type)(expression);                                  \
        }                                                                   \
    }

#define BY_CHANCE(NAME, convert)                                                                          \
    static void JOIN(NAME, SUFFIX)(void *to_, const void *from_, int64_t n, double drawn, int64_t first,  \
                                   bool second)                                                           \
    {                                                                                                     \
        uint16_t *restrict to = to_;                                                                      \
        const T *from = from_;                                                                            \
        gd_noise noise = gd__noise_of(drawn, first);                                                      \
        for (int64_t i = 0; i < n; i++)                                                                   \
            to[i] = convert((float)from[i], gd__noise_bits(noise, (uint32_t)(first + i)) << 16 * second); \
    }

#define DECODE(NAME, value)                                                              \
    static void JOIN(NAME, SUFFIX)(void *to_, const void *code_, float scale, int64_t n) \
    {                                                                                    \
        T *restrict to = to_;                                                            \
        const uint8_t *code = code_;                                                     \
        for (int64_t i = 0; i < n; i++) to[i] = (T)(scale * value(code[i]));             \
    }

/* Lane k takes elements k, k + 16, ...: n is a multiple of sixteen except for the last block. */
#define REDUCE(NAME, expression)                                           \
    static void JOIN(NAME, SUFFIX)(void *lanes, const void *x_, int64_t n) \
    {                                                                      \
        T lane[GD_LANES];                                                  \
        const T *x = x_;                                                   \
        memcpy(lane, lanes, sizeof lane);                                  \
        int64_t i = 0;                                                     \
        for (; i + GD_LANES <= n; i += GD_LANES)                           \
            for (int k = 0; k < GD_LANES; k++) {                           \
                T a = lane[k], b = x[i + k];                               \
                lane[k] = expression;                                      \
            }                                                              \
        for (int k = 0; i + k < n; k++) {                                  \
            T a = lane[k], b = x[i + k];                                   \
            lane[k] = expression;                                          \
        }                                                                  \
        memcpy(lanes, lane, sizeof lane);                                  \
    }

/* Sixteen rows of n: number k of each in column[k]. */
#define TURNED(NAME, type)                                                            \
    static void NAME(type(*restrict column)[GD_LANES], const type *restrict x, int n) \
    {                                                                                 \
        for (int k = 0; k < n; k++)                                                   \
            for (int r = 0; r < GD_LANES; r++) column[k][r] = x[r * n + k];           \
    }
TURNED(turned_f64, double)
#ifdef __AVX512F__
TURNED(turned_rows, float)
#define FEW 5
/* The largest is searched in all vectors of the rows: element e is in lane e % 16 of vector e / 16. */
static void turned_f32(float (*restrict column)[GD_LANES], const float *restrict x, int n)
{
    const __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = _mm512_mullo_epi32(_mm512_set1_epi32(n), row);
    if (n > FEW) {
        turned_rows(column, x, n);
        return;
    }
    for (int k = 0; k < n; k++) {
        __m512i e = _mm512_add_epi32(first, _mm512_set1_epi32(k)), vector = _mm512_srli_epi32(e, 4);
        __m512 all = _mm512_setzero_ps();
        for (int j = 0; j < n; j++)
            all = _mm512_mask_permutexvar_ps(all, _mm512_cmpeq_epi32_mask(vector, _mm512_set1_epi32(j)), e,
                                             _mm512_loadu_ps(x + GD_LANES * j));
        _mm512_storeu_ps(column[k], all);
    }
}
#else
TURNED(turned_f32, float)
#endif

/* Sixteen short rows side by side: the elements of each are joined in the order of lanes. */
#define SHORT_ROWS(NAME, begin, expression)                                      \
    static void JOIN(NAME, SUFFIX)(double *out, int64_t step, const T *x, int n) \
    {                                                                            \
        T lane[GD_LANES][GD_LANES];                                              \
        JOIN(turned, SUFFIX)(lane, x, n);                                        \
        for (int k = 0; k < n; k++)                                              \
            for (int r = 0; r < GD_LANES; r++) {                                 \
                T a = begin, b = lane[k][r];                                     \
                lane[k][r] = expression;                                         \
            }                                                                    \
        for (int width = GD_LANES / 2; width; width /= 2)                        \
            for (int k = 0; k < width && k + width < n; k++)                     \
                for (int r = 0; r < GD_LANES; r++) {                             \
                    T a = lane[k][r], b = lane[k + width][r];                    \
                    lane[k][r] = expression;                                     \
                }                                                                \
        for (int r = 0; r < GD_LANES; r++) out[r * step] = (double)lane[0][r];   \
    }

#define ROWS(NAME, SHORT, begin, expression)                                                           \
    static void JOIN(NAME, SUFFIX)(double *out, int64_t step, const void *x_, int64_t rows, int64_t n) \
    {                                                                                                  \
        const T *x = x_;                                                                               \
        int64_t r = 0;                                                                                 \
        for (; n <= GD_LANES && n > 0 && r + GD_LANES <= rows; r += GD_LANES, x += GD_LANES * n)       \
            JOIN(SHORT, SUFFIX)(out + r * step, step, x, (int)n);                                      \
        for (; r < rows; r++, x += n) {                                                                \
            T lane[GD_LANES];                                                                          \
            int64_t i = 0;                                                                             \
            for (int k = 0; k < GD_LANES; k++) lane[k] = begin;                                        \
            for (; i + GD_LANES <= n; i += GD_LANES)                                                   \
                for (int k = 0; k < GD_LANES; k++) {                                                   \
                    T a = lane[k], b = x[i + k];                                                       \
                    lane[k] = expression;                                                              \
                }                                                                                      \
            for (int k = 0; i < n && k < GD_LANES; k++) {                                              \
                T a = lane[k], b = x[i + k], both = expression;                                        \
                lane[k] = k < n - i ? both : a;                                                        \
            }                                                                                          \
            for (int width = GD_LANES / 2; width; width /= 2)                                          \
                for (int k = 0; k < width; k++) {                                                      \
                    T a = lane[k], b = lane[k + width];                                                \
                    lane[k] = expression;                                                              \
                }                                                                                      \
            out[r * step] = (double)lane[0];                                                           \
        }                                                                                              \
    }

/* Few columns: a vector of them stays in registers, and elements beyond the last one are discarded. */
#define COLUMNS(NAME, expression)                                                         \
    static void JOIN(NAME, SUFFIX)(void *result, const void *x_, int64_t rows, int64_t n) \
    {                                                                                     \
        T *restrict o = result;                                                           \
        const T *x = x_;                                                                  \
        for (int64_t at = 0; n < 4 * GD_LANES && at < n; at += GD_LANES) {                \
            T lane[GD_LANES];                                                             \
            for (int k = 0; k < GD_LANES; k++) lane[k] = o[at + k];                       \
            for (int64_t r = 0; r < rows; r++)                                            \
                for (int k = 0; k < GD_LANES; k++) {                                      \
                    T a = lane[k], b = x[r * n + at + k];                                 \
                    lane[k] = expression;                                                 \
                }                                                                         \
            for (int k = 0; k < GD_LANES; k++) o[at + k] = lane[k];                       \
        }                                                                                 \
        for (int64_t r = 0; n >= 4 * GD_LANES && r < rows; r++, x += n)                   \
            for (int64_t i = 0; i < n; i++) {                                             \
                T a = o[i], b = x[i];                                                     \
                o[i] = expression;                                                        \
            }                                                                             \
    }

/* Items, `columns` of each, from column `column` of the first on; the last vector may go beyond the end. */
#define SPREAD(NAME, type, many)                                                               \
    static void NAME(void *to_, const void *from_, int64_t columns, int64_t column, int64_t n) \
    {                                                                                          \
        type *to = to_;                                                                        \
        const type *from = from_;                                                              \
        for (int64_t done = -column; done < n; done += columns, from++) {                      \
            int64_t rows = columns < GD_LANES && done >= 0                                     \
                               ? many(to + done, from, (int)columns, (n - done) / columns)     \
                               : 0;                                                            \
            done += rows * columns;                                                            \
            from += rows;                                                                      \
            if (done >= n) break;                                                              \
            int64_t end = done + columns < n ? done + columns : n, at = done < 0 ? 0 : done;   \
            for (; at < end; at += GD_LANES)                                                   \
                for (int k = 0; k < GD_LANES; k++) to[at + k] = *from;                         \
        }                                                                                      \
    }
/* Sixteen rows of fewer than sixteen at a time; returns the number of rows done. */
#define NONE(to, from, columns, rows) 0
#ifdef __AVX512F__
static int64_t spread_many(uint32_t *to, const uint32_t *from, int columns, int64_t rows)
{
    __m512i row[GD_LANES];
    int64_t r = 0;
    if (rows < GD_LANES) return 0;
    for (int j = 0; j < columns; j++) {
        uint32_t of[GD_LANES];
        for (int k = 0; k < GD_LANES; k++) of[k] = (uint32_t)(GD_LANES * j + k) / (uint32_t)columns;
        row[j] = _mm512_loadu_si512(of);
    }
    for (; r + GD_LANES <= rows; r += GD_LANES, to += GD_LANES * columns) {
        __m512i all = _mm512_loadu_si512(from + r);
        for (int j = 0; j < columns; j++)
            _mm512_storeu_si512(to + GD_LANES * j, _mm512_permutexvar_epi32(row[j], all));
    }
    return r;
}
#else
#define spread_many NONE
#endif
SPREAD(spread_2, uint16_t, NONE)
SPREAD(spread_4, uint32_t, spread_many)
SPREAD(spread_8, uint64_t, NONE)

/* x - x is 0 for finite x and NaN otherwise: no branch in the loop. */
#define RESULTS(NAME, begin, expression)                                  \
    static bool JOIN(NAME, SUFFIX)(void *to_, const double *x, int64_t n) \
    {                                                                     \
        T *restrict to = to_;                                             \
        int64_t wrong = 0;                                                \
        for (int64_t i = 0; i < n; i++) {                                 \
            double a = begin, b = x[i], v = expression;                   \
            wrong |= v - v != 0;                                          \
            to[i] = (T)v;                                                 \
        }                                                                 \
        return !wrong;                                                    \
    }

/* Blocks of the generator side by side: the compiler makes vectors of them. */
#define STREAM 128

static void stream_words(const gd_stream *s, uint64_t first, uint32_t (*restrict w)[STREAM])
{
    for (int i = 0; i < STREAM; i++) {
        uint32_t word[4];
        gd__philox_at(s->key, first + (uint64_t)i, s->high, word);
        for (int k = 0; k < 4; k++) w[k][i] = word[k];
    }
}

#define RANDOM(NAME, scale)                                                                              \
    static void JOIN(NAME, SUFFIX)(void *o_, const gd_stream *s, int64_t first, int64_t n)               \
    {                                                                                                    \
        T *restrict o = o_;                                                                              \
        uint32_t w[4][STREAM];                                                                           \
        for (int64_t at = 0; at < n; at += 2 * STREAM) {                                                 \
            int blocks = n - at < 2 * STREAM ? (int)(n - at + 1) / 2 : STREAM;                           \
            stream_words(s, (uint64_t)(first + at) / 2, w);                                              \
            for (int i = 0; i < blocks; i++) {                                                           \
                double pair[2];                                                                          \
                gd__random_pair(s->kind, scale, (uint32_t[]){w[0][i], w[1][i], w[2][i], w[3][i]}, pair); \
                o[at + 2 * i] = (T)pair[0];                                                              \
                o[at + 2 * i + 1] = (T)pair[1];                                                          \
            }                                                                                            \
        }                                                                                                \
    }

#define ALL_LOOPS                                                                              \
    GD_MORE_ELEMENTS(LOOP)                                                                     \
    CONVERT(load_f32, T, float, x)                                                             \
    CONVERT(load_f64, T, double, x)                                                            \
    CONVERT(load_f16, T, uint16_t, gd__f16_to_f32(x))                                          \
    CONVERT(load_bf16, T, uint16_t, gd__bf16_to_f32(x))                                        \
    CONVERT(store_f32, float, T, x)                                                            \
    CONVERT(store_f64, double, T, x)                                                           \
    CONVERT(store_f16, uint16_t, T, gd__f32_to_f16((float)x))                                  \
    CONVERT(store_bf16, uint16_t, T, gd__f32_to_bf16((float)x))                                \
    BY_CHANCE(f16_by_chance, gd__f32_to_f16_by_chance)                                         \
    BY_CHANCE(bf16_by_chance, gd__f32_to_bf16_by_chance)                                       \
    DECODE(decode_signed, gd__value_signed)                                                    \
    DECODE(decode_positive, gd__value_positive)                                                \
    REDUCE(sum, a + b)                                                                         \
    REDUCE(maximum, a != a ? a : ((b > a) | (b != b)) ? b : a)                                 \
    SHORT_ROWS(sum_short, 0, a + b)                                                            \
    SHORT_ROWS(maximum_short, (T)-INFINITY, a != a ? a : ((b > a) | (b != b)) ? b : a)         \
    ROWS(sum_rows, sum_short, 0, a + b)                                                        \
    ROWS(maximum_rows, maximum_short, (T)-INFINITY, a != a ? a : ((b > a) | (b != b)) ? b : a) \
    RESULTS(sum_results, 0, a + b)                                                             \
    RESULTS(maximum_results, -INFINITY, a != a ? a : ((b > a) | (b != b)) ? b : a)             \
    COLUMNS(sum_columns, a + b)                                                                \
    COLUMNS(maximum_columns, a != a ? a : ((b > a) | (b != b)) ? b : a)

/* Of exp, log, tanh and pow, those of the C library: for f32 computed in f64, or operators' own if those were used before. */
#define libm_exp_f32       gd__exp_f32
#define libm_log_f32       gd__log_f32
#define libm_tanh_f32      gd__tanh_f32
#define libm_pow_f32(a, b) ((float)pow((double)(a), (double)(b)))
#define libm_exp_f64       exp
#define libm_log_f64       log
#define libm_tanh_f64      tanh
#define libm_pow_f64       pow

#define SUFFIX  _f32
#define T       float
#define F(name) gd__##name##_f32
#define V(name) libm_##name##_f32
ALL_LOOPS
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, ...) \
    OWN_##kind##_##settings(LOOP, name, element)
#define ELEMENT0(name, inputs, settings, kind, takes, element, ...) \
    GD_IF_##takes(OWN_##kind##_##settings(LOOP, name, element))
#define ELEMENT_C(...)
#define ELEMENT_V(name, inputs, settings, kind, needs, takes, batch, element, ...) LOOP(name, inputs, element)
#include "tensor/ops.def"
RANDOM(random_numbers, 0x1p24)

#undef SUFFIX
#undef T
#undef F
#undef V
#define SUFFIX  _f64
#define T       double
#define F(name) gd__##name##_f64
#define V(name) libm_##name##_f64
ALL_LOOPS
#define ELEMENT(name, inputs, settings, kind, needs, takes, batch, element, ...) \
    OWN_##kind##_##settings(LOOP, name, element)
#define ELEMENT0(name, inputs, settings, kind, takes, element, ...) \
    GD_IF_##takes(OWN_##kind##_##settings(LOOP, name, element))
#define ELEMENT_C(...)
#define ELEMENT_V(name, inputs, settings, kind, needs, takes, batch, element, ...) LOOP(name, inputs, element)
#include "tensor/ops.def"
RANDOM(random_numbers, 0x1p53)

static void code_signed(const float *from, int n, float *scale, uint8_t *code)
{
    gd__code_block_signed(from, n, scale, code);
}

static void code_positive(const float *from, int n, float *scale, uint8_t *code)
{
    gd__code_block_positive(from, n, scale, code);
}

#define PLACE(name, operands, expression) [GD_I_##name] = JOIN(name, SUFFIX),
const gd_block_table JOIN(gd__blocks_, GD_ISA) = {
    .vec = &JOIN(gd__vec_, GD_ISA),
    .op = {{
#undef SUFFIX
#define SUFFIX                                     _f32
#define ELEMENT(name, inputs, settings, kind, ...) OWN_##kind##_##settings(PLACE, name, )
#define ELEMENT0(name, inputs, settings, kind, takes, ...) \
    GD_IF_##takes(OWN_##kind##_##settings(PLACE, name, ))
#define ELEMENT_C(...)
#define ELEMENT_V(name, inputs, ...) PLACE(name, inputs, )
#include "tensor/ops.def"
               GD_MORE_ELEMENTS(PLACE)},
           {
#undef SUFFIX
#define SUFFIX                                     _f64
#define ELEMENT(name, inputs, settings, kind, ...) OWN_##kind##_##settings(PLACE, name, )
#define ELEMENT0(name, inputs, settings, kind, takes, ...) \
    GD_IF_##takes(OWN_##kind##_##settings(PLACE, name, ))
#define ELEMENT_C(...)
#define ELEMENT_V(name, inputs, ...) PLACE(name, inputs, )
#include "tensor/ops.def"
               GD_MORE_ELEMENTS(PLACE)}},
    .load = {{load_f32_f32, load_f64_f32, load_f16_f32, load_bf16_f32},
             {load_f32_f64, load_f64_f64, load_f16_f64, load_bf16_f64}},
    .store = {{store_f32_f32, store_f64_f32, store_f16_f32, store_bf16_f32},
              {store_f32_f64, store_f64_f64, store_f16_f64, store_bf16_f64}},
    .by_chance = {{f16_by_chance_f32, bf16_by_chance_f32}, {f16_by_chance_f64, bf16_by_chance_f64}},
    .decode = {{decode_signed_f32, decode_positive_f32}, {decode_signed_f64, decode_positive_f64}},
    .code = {code_signed, code_positive},
    .sum = {sum_f32, sum_f64},
    .maximum = {maximum_f32, maximum_f64},
    .random = {random_numbers_f32, random_numbers_f64},
    .rows = {{sum_rows_f32, maximum_rows_f32}, {sum_rows_f64, maximum_rows_f64}},
    .results = {{sum_results_f32, maximum_results_f32}, {sum_results_f64, maximum_results_f64}},
    .spread = {spread_2, spread_4, spread_8},
    .columns = {{sum_columns_f32, maximum_columns_f32}, {sum_columns_f64, maximum_columns_f64}},
};
