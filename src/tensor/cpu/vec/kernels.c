/* Vector kernels: one plain loop per operator and compute type, compiled once for every instruction set. */
#include "base/rng.h"
#include "base/special.h"
#include "base/vmath.h"
#include "base/math/gamma.h"
#include "tensor/cpu/cpu.h"
#include "tensor/cpu/images/convolution.h"
#include "tensor/cpu/images/pooling.h"
#include "tensor/cpu/row_kernels.h"
#include "tensor/cpu/source_kernels.h"

#include <string.h>

#ifdef __aarch64__
#include <arm_neon.h>
#endif

#define JOIN2(a, b) a##b
#define JOIN(a, b)  JOIN2(a, b)

typedef const double *settings;

/* ---- loops ---- */

/* One loop of an element-wise row of ops.def in the type T: LOOP(name, kind, inputs, settings, element). */
#define RESULT_MAP   T
#define RESULT_TEST  uint8_t
#define FIRST_0      T
#define FIRST_1      T
#define FIRST_2      T
#define FIRST_CHOICE uint8_t
#define POINTERS_1   (void)b_, (void)c_;
#define POINTERS_2    \
    const T *y_ = b_; \
    (void)c_;
#define POINTERS_3 const T *y_ = b_, *z_ = c_;
/* read before the loop, else a branch in it would prevent vectorisation */
#define SETTINGS_0      (void)f;
#define SETTINGS_1      const SETTING_T b = (SETTING_T)f[0];
#define SETTINGS_2      const SETTING_T b = (SETTING_T)f[0], c = (SETTING_T)f[1];
#define SETTINGS_CHOICE (void)f;
#define VALUES_1
#define VALUES_2 const T b = y_[i];
#define VALUES_3 const T b = y_[i], c = z_[i];
#define LOOP(name, kind, inputs, settings_, element)                                                    \
    static void JOIN(name, SUFFIX)(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, \
                                   settings f)                                                          \
    {                                                                                                   \
        RESULT_##kind *restrict o = o_;                                                                 \
        const FIRST_##settings_ *x_ = a_;                                                               \
        POINTERS_##inputs SETTINGS_##settings_ for (int64_t i = 0; i < n; i++)                          \
        {                                                                                               \
            const FIRST_##settings_ a = x_[i];                                                          \
            VALUES_##inputs o[i] = (RESULT_##kind)(element);                                            \
        }                                                                                               \
    }

/* The same of a function that has a straight-line form for operands that are not far: blocks without far ones take it. */
#define BLOCK      128
#define OPERANDS_1 (x_[i + k])
#define OPERANDS_2 (x_[i + k], y_[i + k])
#define LOOP_RANGED(name, inputs)                                                                       \
    static void JOIN(name, SUFFIX)(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, \
                                   settings f)                                                          \
    {                                                                                                   \
        T *restrict o = o_;                                                                             \
        const T *x_ = a_;                                                                               \
        (void)f;                                                                                        \
        POINTERS_##inputs for (int64_t i = 0; i < n; i += BLOCK)                                        \
        {                                                                                               \
            int64_t count = n - i < BLOCK ? n - i : BLOCK;                                              \
            int far = 0;                                                                                \
            for (int64_t k = 0; k < count; k++) far |= F(far_##name) OPERANDS_##inputs;                 \
            if (far)                                                                                    \
                for (int64_t k = 0; k < count; k++) o[i + k] = F(name) OPERANDS_##inputs;               \
            else                                                                                        \
                for (int64_t k = 0; k < count; k++) o[i + k] = F(near_##name) OPERANDS_##inputs;        \
        }                                                                                               \
    }

/* Integers wrap: arithmetic in u64. */
#define U(v) ((uint64_t)(v))

/* Towards zero, cut to the range; NaN becomes 0. */
static inline int64_t to_i64(double x)
{
    return x >= 9223372036854775807.0    ? INT64_MAX
           : x <= -9223372036854775808.0 ? INT64_MIN
           : x != x                      ? 0
                                         : (int64_t)x;
}

/* As in NumPy: by 0 both are 0, the least number by -1 is itself. */
static inline int64_t mod_of(int64_t x, int64_t y)
{
    int64_t r = y == 0 || y == -1 ? 0 : x % y;
    return r && (r < 0) != (y < 0) ? r + y : r;
}
static inline int64_t floor_of(int64_t x, int64_t y)
{
    if (y == 0) return 0;
    if (y == -1) return (int64_t)(0 - U(x));
    int64_t q = x / y;
    return x % y && (x < 0) != (y < 0) ? q - 1 : q;
}

/* By squaring; with an exponent below 0 the whole part of the quotient. */
static inline int64_t power_of(int64_t x, int64_t n)
{
    if (n < 0) return x == 1 ? 1 : x == -1 ? (n % 2 ? -1 : 1) : 0;
    uint64_t y = 1, square = U(x);
    for (; n; n >>= 1, square *= square)
        if (n & 1) y *= square;
    return (int64_t)y;
}

#define REAL_FLOATS LOOP
#define REAL_INTS   LOOP
#define REAL_ANY    LOOP
#define REAL_WHOLE(...)
#define WHOLE_FLOATS(...)
#define WHOLE_INTS  LOOP
#define WHOLE_ANY   LOOP
#define WHOLE_WHOLE LOOP

#define SUFFIX                       _f32
#define T                            float
#define SETTING_T                    float
#define F(name)                      gd__##name##_f32
#define ELEMENT_R(name, inputs, ...) LOOP_RANGED(name, inputs)
#define V                            F
#define ELEMENT(name, inputs, settings_, kind, needs, takes, batch, element, ...) \
    REAL_##takes(name, kind, inputs, settings_, element)
#define ELEMENT0(name, inputs, settings_, kind, takes, element, ...) \
    REAL_##takes(name, kind, inputs, settings_, element)
#include "tensor/ops.def"
#undef SUFFIX
#undef T
#undef SETTING_T
#undef F

#define SUFFIX                       _f64
#define T                            double
#define SETTING_T                    double
#define F(name)                      gd__##name##_f64
#define ELEMENT_R(name, inputs, ...) LOOP_RANGED(name, inputs)
#define ELEMENT(name, inputs, settings_, kind, needs, takes, batch, element, ...) \
    REAL_##takes(name, kind, inputs, settings_, element)
#define ELEMENT0(name, inputs, settings_, kind, takes, element, ...) \
    REAL_##takes(name, kind, inputs, settings_, element)
#include "tensor/ops.def"
#undef SUFFIX
#undef T
#undef F

#define SUFFIX _i64
#define T      int64_t
#define ELEMENT(name, inputs, settings_, kind, needs, takes, batch, element, whole, ...) \
    WHOLE_##takes(name, kind, inputs, settings_, whole)
#define ELEMENT0(name, inputs, settings_, kind, takes, element, whole, ...) \
    WHOLE_##takes(name, kind, inputs, settings_, whole)
#include "tensor/ops.def"
#undef T

#include "tensor/cpu/power_impl.h"

#include "tensor/cpu/gamma_impl.h"

#ifdef __aarch64__ /* gcc tests for NaN twice in that conditional */
#define RELU(name, type, suffix, bits, vector)                                                        \
    static void name(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, settings f) \
    {                                                                                                 \
        (void)b_;                                                                                     \
        (void)c_;                                                                                     \
        (void)f;                                                                                      \
        type *restrict o = o_;                                                                        \
        const type *a = a_;                                                                           \
        int64_t i = 0, width = 16 / (int64_t)sizeof *a;                                               \
        for (; i + width <= n; i += width) {                                                          \
            vector x = vld1q_##bits((const void *)(a + i));                                           \
            vst1q_##bits((void *)(o + i),                                                             \
                         vbicq_##bits(x, vcltzq_##suffix(vreinterpretq_##suffix##_##bits(x))));       \
        }                                                                                             \
        for (; i < n; i++) o[i] = a[i] < 0 ? 0 : a[i];                                                \
    }
RELU(neon_relu_f32, float, f32, u32, uint32x4_t)
RELU(neon_relu_f64, double, f64, u64, uint64x2_t)
/* those of the row are not used here */
static __attribute__((unused)) const gd_vec_fn plain_relu[] = {relu_f32, relu_f64};
#define relu_f32 neon_relu_f32
#define relu_f64 neon_relu_f64
#endif

/* ---- conversions ---- */

#define CONVERT(name, to_type, from_type, expression)         \
    static void name(void *to_, const void *from_, int64_t n) \
    {                                                         \
        to_type *restrict to = to_;                           \
        const from_type *from = from_;                        \
        for (int64_t i = 0; i < n; i++) {                     \
            from_type x = from[i];                            \
            to[i] = (to_type)(expression);                    \
        }                                                     \
    }
CONVERT(load_i32, int64_t, int32_t, x)
CONVERT(load_u8, int64_t, uint8_t, x)
#ifdef __aarch64__
/* Eight halves, as four numbers and four, and back. */
static inline float32x4_t lower_f16(uint16x8_t h)
{
    return vcvt_f32_f16(vget_low_f16(vreinterpretq_f16_u16(h)));
}
static inline float32x4_t upper_f16(uint16x8_t h) { return vcvt_high_f32_f16(vreinterpretq_f16_u16(h)); }
static inline uint16x8_t narrowed_f16(float32x4_t a, float32x4_t b)
{
    uint16x8_t h = vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(a), b));
    uint16x8_t nan = vcgtq_u16(vshlq_n_u16(h, 1), vdupq_n_u16(0xF800));
    return vbicq_u16(
        h, vandq_u16(nan, vdupq_n_u16(0x01FF))); /* NaNs are quiet already; their payload is cut off */
}

static inline float32x4_t lower_bf16(uint16x8_t h)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
}
static inline float32x4_t upper_bf16(uint16x8_t h) { return vreinterpretq_f32_u32(vshll_high_n_u16(h, 16)); }
/* What is added before the upper half is taken, less the 0x8000 that the instruction adds: to nearest, ties to even. */
static inline uint32x4_t less_if_even(uint32x4_t u) { return vmvnq_u32(vtstq_u32(u, vdupq_n_u32(0x10000))); }
/* Not for NaNs whose lower sixteen bits are more than zero: they might become -0.  Sums, products and roots of numbers that were bf16
 * are no such NaNs: they are those of an operand or the processor's own. */
static inline uint16x8_t narrowed_bf16(float32x4_t a, float32x4_t b)
{
    uint32x4_t u = vreinterpretq_u32_f32(a), v = vreinterpretq_u32_f32(b);
    return vraddhn_high_u32(vraddhn_u32(u, less_if_even(u)), v, less_if_even(v));
}

/* any f32: NaNs lose their lower bits before, and become quiet */
static inline float32x4_t careful(float32x4_t x)
{
    uint32x4_t u = vreinterpretq_u32_f32(x);
    uint32x4_t quiet = vandq_u32(vorrq_u32(u, vdupq_n_u32(0x00400000)), vdupq_n_u32(0xFFFF0000));
    return vreinterpretq_f32_u32(vbslq_u32(vceqq_f32(x, x), u, quiet));
}

/* Sixteen at a time: gcc does not vectorise f16, and uses longer vectors for bf16. */
#define LOAD_HALVES(type)                                                    \
    static void load_##type(void *to_, const void *from_, int64_t n)         \
    {                                                                        \
        float *restrict to = to_;                                            \
        const uint16_t *from = from_;                                        \
        int64_t i = 0;                                                       \
        for (; i + 16 <= n; i += 16) {                                       \
            uint16x8_t a = vld1q_u16(from + i), b = vld1q_u16(from + i + 8); \
            vst1q_f32(to + i, lower_##type(a));                              \
            vst1q_f32(to + i + 4, upper_##type(a));                          \
            vst1q_f32(to + i + 8, lower_##type(b));                          \
            vst1q_f32(to + i + 12, upper_##type(b));                         \
        }                                                                    \
        for (; i < n; i++) to[i] = gd__##type##_to_f32(from[i]);             \
    }
#define STORE_HALVES(type, before)                                                                         \
    static void store_##type(void *to_, const void *from_, int64_t n)                                      \
    {                                                                                                      \
        uint16_t *restrict to = to_;                                                                       \
        const float *from = from_;                                                                         \
        int64_t i = 0;                                                                                     \
        for (; i + 16 <= n; i += 16) {                                                                     \
            float32x4_t a = vld1q_f32(from + i), b = vld1q_f32(from + i + 4), c = vld1q_f32(from + i + 8), \
                        d = vld1q_f32(from + i + 12);                                                      \
            vst1q_u16(to + i, narrowed_##type(before(a), before(b)));                                      \
            vst1q_u16(to + i + 8, narrowed_##type(before(c), before(d)));                                  \
        }                                                                                                  \
        for (; i < n; i++) to[i] = gd__f32_to_##type(from[i]);                                             \
    }
LOAD_HALVES(f16)
LOAD_HALVES(bf16)
STORE_HALVES(f16, )
STORE_HALVES(bf16, careful)
#else
CONVERT(load_f16, float, uint16_t, gd__f16_to_f32(x))
CONVERT(load_bf16, float, uint16_t, gd__bf16_to_f32(x))
CONVERT(store_f16, uint16_t, float, gd__f32_to_f16(x))
CONVERT(store_bf16, uint16_t, float, gd__f32_to_bf16(x))
#endif
CONVERT(store_i32, int32_t, int64_t, (uint32_t)(uint64_t)x)
CONVERT(store_u8, uint8_t, int64_t, (uint64_t)x & 255)
CONVERT(store_bool, uint8_t, int64_t, x != 0)
CONVERT(f32_to_f64, double, float, x)
CONVERT(f64_to_f32, float, double, x)
CONVERT(i64_to_f32, float, int64_t, x)
CONVERT(i64_to_f64, double, int64_t, x)

CONVERT(f32_to_i64, int64_t, float, to_i64((double)x))
CONVERT(f64_to_i64, int64_t, double, to_i64(x))

/* ---- 16-bit floats in one pass ---- */

/* Operators that take no longer than the conversions, from memory to memory: same bits as through f32, in a third of the
 * instructions.  e: of numbers x and y; v: of four of them at a time. */
#ifdef __aarch64__
#define EIGHT_AT_A_TIME(type, v)                                                 \
    for (; i + 8 <= n; i += 8) {                                                 \
        uint16x8_t p = vld1q_u16(a + i), q = vld1q_u16(b + i);                   \
        float32x4_t x = lower_##type(p), y = lower_##type(q), first = v, second; \
        (void)y;                                                                 \
        x = upper_##type(p);                                                     \
        y = upper_##type(q);                                                     \
        second = v;                                                              \
        vst1q_u16(o + i, narrowed_##type(first, second));                        \
    }
#else
#define EIGHT_AT_A_TIME(type, v)
#endif
#define HALVES(op, type, e, v)                                                                               \
    static void op##_##type(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, settings f) \
    {                                                                                                        \
        (void)c_;                                                                                            \
        (void)f;                                                                                             \
        uint16_t *restrict o = o_;                                                                           \
        const uint16_t *a = a_, *b = b_ ? b_ : a_;                                                           \
        int64_t i = 0;                                                                                       \
        EIGHT_AT_A_TIME(type, v)                                                                             \
        for (; i < n; i++) {                                                                                 \
            float x = gd__##type##_to_f32(a[i]), y = gd__##type##_to_f32(b[i]);                              \
            (void)y;                                                                                         \
            o[i] = gd__f32_to_##type(e);                                                                     \
        }                                                                                                    \
    }
#define BOTH_HALVES(op, e, v) HALVES(op, f16, e, v) HALVES(op, bf16, e, v)
/* without the payload of a NaN; see narrowed_bf16 */
static inline float factor(settings f) { return f[0] == f[0] ? (float)f[0] : NAN; }

BOTH_HALVES(square, x *x, x *x)
BOTH_HALVES(sqrt, sqrtf(x), vsqrtq_f32(x))
BOTH_HALVES(add_scalar, x + factor(f), vaddq_f32(x, vdupq_n_f32(factor(f))))
BOTH_HALVES(mul_scalar, x *factor(f), vmulq_n_f32(x, factor(f)))
BOTH_HALVES(add, x + y, x + y)
BOTH_HALVES(sub, x - y, x - y)
BOTH_HALVES(mul, x *y, x *y)
BOTH_HALVES(div, x / y, x / y)

/* The sign is tested in the bits: negative numbers are from 0x8001 to the bits of -infinity, positive ones from 1 to those of infinity. */
#define BITS(op, type, infinity, e)                                                                          \
    static void op##_##type(void *o_, const void *a_, const void *b_, const void *c_, int64_t n, settings f) \
    {                                                                                                        \
        (void)c_;                                                                                            \
        (void)f;                                                                                             \
        const unsigned most = infinity;                                                                      \
        (void)most;                                                                                          \
        uint16_t *restrict o = o_;                                                                           \
        const uint16_t *a = a_, *b = b_ ? b_ : a_;                                                           \
        for (int64_t i = 0; i < n; i++) {                                                                    \
            uint16_t x = a[i], y = b[i];                                                                     \
            (void)y;                                                                                         \
            o[i] = (uint16_t)(e);                                                                            \
        }                                                                                                    \
    }
#define BOTH_BITS(op, e) BITS(op, f16, 0x7C00, e) BITS(op, bf16, 0x7F80, e)
BOTH_BITS(neg, x ^ 0x8000)
BOTH_BITS(abs, x & 0x7FFF)
BOTH_BITS(relu, (uint16_t)(x - 0x8001) < most ? 0 : x)
BOTH_BITS(relu_grad, (uint16_t)(y - 1) < most ? x : 0)

/* ---- strided operands ---- */

/* Of those that cost less than copying them. */
#define SPACED(op, type, suffix, e)                                                              \
    static void op##_spaced_##suffix(void *o_, const void *a_, int64_t across_a, const void *b_, \
                                     int64_t across_b, int64_t n)                                \
    {                                                                                            \
        type *restrict o = o_;                                                                   \
        const type *a = a_, *b = b_;                                                             \
        if (across_a == 0 && across_b == 1) {                                                    \
            const type one = *a;                                                                 \
            for (int64_t i = 0; i < n; i++) o[i] = one e b[i];                                   \
        } else if (across_a == 1 && across_b == 0) {                                             \
            const type one = *b;                                                                 \
            for (int64_t i = 0; i < n; i++) o[i] = a[i] e one;                                   \
        } else                                                                                   \
            for (int64_t i = 0; i < n; i++) o[i] = a[i * across_a] e b[i * across_b];            \
    }
#define BOTH_SPACED(op, e) SPACED(op, float, f32, e) SPACED(op, double, f64, e)
BOTH_SPACED(add, +)
BOTH_SPACED(sub, -)
BOTH_SPACED(mul, *)
BOTH_SPACED(div, /)

/* ---- sums: sixteen lanes, then the lanes pairwise; the same order for every vector width ---- */

#define LANES 16
#define JOIN_LANES(type)                                                \
    static inline type type##_of_lanes(type *lane)                      \
    {                                                                   \
        for (int width = LANES / 2; width; width /= 2)                  \
            for (int k = 0; k < width; k++) lane[k] += lane[k + width]; \
        return lane[0];                                                 \
    }
JOIN_LANES(float)
JOIN_LANES(double)

#define SUM(name, type, from_type, number)                               \
    static type name(const from_type *x, int64_t n)                      \
    {                                                                    \
        type lane[LANES] = {0};                                          \
        int64_t i = 0;                                                   \
        for (; i + LANES <= n; i += LANES)                               \
            for (int k = 0; k < LANES; k++) lane[k] += number(x[i + k]); \
        for (int k = 0; i + k < n; k++) lane[k] += number(x[i + k]);     \
        return type##_of_lanes(lane);                                    \
    }
SUM(sum_f32, float, float, )
SUM(sum_f64, double, double, )
#ifdef __aarch64__ /* not vectorised either */
static float sum_f16(const uint16_t *x, int64_t n)
{
    float lane[LANES];
    float32x4_t sum[LANES / 4] = {vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0), vdupq_n_f32(0)};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        uint16x8_t p = vld1q_u16(x + i), q = vld1q_u16(x + i + 8);
        sum[0] += lower_f16(p);
        sum[1] += upper_f16(p);
        sum[2] += lower_f16(q);
        sum[3] += upper_f16(q);
    }
    for (int k = 0; k < LANES / 4; k++) vst1q_f32(lane + 4 * k, sum[k]);
    for (int k = 0; i + k < n; k++) lane[k] += gd__f16_to_f32(x[i + k]);
    return float_of_lanes(lane);
}
#else
SUM(sum_f16, float, uint16_t, gd__f16_to_f32)
#endif
SUM(sum_bf16, float, uint16_t, gd__bf16_to_f32)

static void sum_rows_f16(float *out, const uint16_t *x, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++) out[r] = sum_f16(x + r * n, n);
}

/* Four rows together: one alone would wait for its own sums. */
typedef uint16_t halves __attribute__((vector_size(GD_REGISTER / 2), aligned(2), may_alias));
typedef uint32_t words __attribute__((vector_size(GD_REGISTER)));
typedef float floats __attribute__((vector_size(GD_REGISTER)));
static void sum_rows_bf16(float *out, const uint16_t *x, int64_t rows, int64_t n)
{
    enum { V = LANES * 4 / GD_REGISTER, ROWS = V < 4 ? 4 / V : 1 };
    int64_t r = 0;
    for (; r + ROWS <= rows; r += ROWS, x += ROWS * n) {
        floats sum[ROWS * V] = {{0}};
        int64_t i = 0;
        for (; i + LANES <= n; i += LANES)
#pragma GCC unroll 4
            for (int k = 0; k < ROWS; k++)
#pragma GCC unroll 4
                for (int v = 0; v < V; v++) {
                    const halves h = *(const halves *)(const void *)(x + k * n + i + v * (GD_REGISTER / 4));
                    sum[k * V + v] += (floats)(__builtin_convertvector(h, words) << 16);
                }
        for (int k = 0; k < ROWS; k++) {
            float lane[LANES];
            memcpy(lane, &sum[k * V], sizeof lane);
            for (int j = 0; i + j < n; j++) lane[j] += gd__bf16_to_f32(x[k * n + i + j]);
            out[r + k] = float_of_lanes(lane);
        }
    }
    for (; r < rows; r++, x += n) out[r] = sum_bf16(x, n);
}

/* The first of n numbers that equals one of them; the first NaN where it is one.  In vectors of gcc and clang, because a loop that may
 * end early is not vectorised. */
#define FIRST(name, type, bits)                                                                    \
    typedef type name##_vector __attribute__((vector_size(16), aligned(sizeof(type)), may_alias)); \
    typedef bits name##_mask __attribute__((vector_size(16)));                                     \
    static int64_t name(const type *x, int64_t n, type wanted)                                     \
    {                                                                                              \
        enum { WIDTH = 16 / sizeof(type) };                                                        \
        int64_t i = 0;                                                                             \
        for (; wanted == wanted && i + LANES <= n; i += LANES) {                                   \
            name##_mask some = {0};                                                                \
            for (int k = 0; k < LANES; k += WIDTH)                                                 \
                some |= *(const name##_vector *)(const void *)(x + i + k) == wanted;               \
            uint64_t any[2];                                                                       \
            memcpy(any, &some, sizeof any);                                                        \
            if (any[0] | any[1]) break;                                                            \
        }                                                                                          \
        while (i < n && x[i] != wanted && (x[i] == x[i] || wanted == wanted)) i++;                 \
        return i;                                                                                  \
    }
FIRST(first_f32, float, int32_t)
FIRST(first_f64, double, int64_t)

static void add_into_f32(float *acc, const float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) acc[i] += x[i];
}

static void add_into_f64(double *acc, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) acc[i] += x[i];
}

/* ---- the table ---- */

#define STRING2(x) #x
#define STRING(x)  STRING2(x)

/* Rows of ops.def: the compute types of an element-wise operator follow from its dtypes. */
#define FLOATS(op)      [GD_OP_##op] = {op##_f32, op##_f64, NULL},
#define INTS(op)        [GD_OP_##op] = {op##_f32, op##_f64, op##_i64},
#define WHOLE(op)       [GD_OP_##op] = {NULL, NULL, op##_i64},
#define ANY             INTS
#define MAP(op, takes)  takes(op)
#define TEST(op, takes) takes(op)
#define VIEW(op, takes)
#define FULL(op, takes)
#define LAID(op, takes)

const gd_vec_table JOIN(gd__vec_, GD_ISA) = {
    .isa = STRING(GD_ISA),
    .rows = JOIN(gd__rows_, GD_ISA),
    .conv = JOIN(gd__conv_, GD_ISA),
    .pool = JOIN(gd__pool_, GD_ISA),
    .sources = &JOIN(gd__sources_, GD_ISA),
    .map =
        {
#define OP(name, nin, nout, kind, needs, takes, batch, reads) kind(name, takes)
#define OP0(name, nin, nout, kind, needs, takes)              kind(name, takes)
#include "tensor/ops.def"
        },
    .slopes = JOIN(gd__slopes_, GD_ISA),
    .load = {[GD_F16] = load_f16,
             [GD_BF16] = load_bf16,
             [GD_I32] = load_i32,
             [GD_U8] = load_u8,
             [GD_BOOL] = load_u8},
    .store = {[GD_F16] = store_f16,
              [GD_BF16] = store_bf16,
              [GD_I32] = store_i32,
              [GD_U8] = store_u8,
              [GD_BOOL] = store_bool},
    .between = {[GD_AS_F32] = {NULL, f32_to_f64, f32_to_i64},
                [GD_AS_F64] = {f64_to_f32, NULL, f64_to_i64},
                [GD_AS_I64] = {i64_to_f32, i64_to_f64, NULL}},
    .spaced =
        {
#define APART(op) [GD_OP_##op] = {op##_spaced_f32, op##_spaced_f64},
            APART(add) APART(sub) APART(mul) APART(div)
#undef APART
        },
    .halves =
        {
#define HALF(op) [GD_OP_##op] = {op##_f16, op##_bf16},
            HALF(neg) HALF(abs) HALF(square) HALF(sqrt) HALF(relu) HALF(relu_grad) HALF(add_scalar)
                HALF(mul_scalar) HALF(add) HALF(sub) HALF(mul) HALF(div)
#undef HALF
        },
    .sum_f32 = sum_f32,
    .sum_f64 = sum_f64,
    .sum_halves = {sum_rows_f16, sum_rows_bf16},
    .first_f32 = first_f32,
    .first_f64 = first_f64,
    .add_f32 = add_into_f32,
    .add_f64 = add_into_f64,
};
