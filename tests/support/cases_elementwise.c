/* Element-wise operators. */
#include "support/op_cases.h"
#include "support/op_references.h"

#include <math.h>

#define ELEMENTS(domain, broadcast)                                               \
    {                                                                             \
        domain, "row=2 col=3", broadcast, "row=0 col=3", "", "row=300 col=400", 0 \
    }

/* Integers follow other rules: clamp cuts to the whole numbers inside the bounds, pow to a whole part. */
static bool whole(long double x) { return x == rintl(x); }

/* ---- one operand: name, domain, dtypes, order of derivatives, what it is ---- */

#define UNARY_CASES(X)                                          \
    X(neg, ANY, NUMBERS, 2, -x)                                 \
    X(abs, ANY, NUMBERS, 2, fabsl(x))                           \
    X(sign, FEW, NUMBERS, 0, (long double)((x > 0) - (x < 0)))  \
    X(sqrt, POSITIVE, FLOATS, 2, sqrtl(x))                      \
    X(rsqrt, POSITIVE, FLOATS, 2, 1 / sqrtl(x))                 \
    X(exp, ANY, FLOATS, 2, expl(x))                             \
    X(expm1, ANY, FLOATS, 2, expm1l(x))                         \
    X(log, POSITIVE, FLOATS, 2, logl(x))                        \
    X(log1p, ABOVE_ONE, FLOATS, 2, log1pl(x))                   \
    X(sin, ANY, FLOATS, 2, sinl(x))                             \
    X(cos, ANY, FLOATS, 2, cosl(x))                             \
    X(tan, POSITIVE, FLOATS, 0, tanl(x))                        \
    X(atan, ANY, FLOATS, 2, atanl(x))                           \
    X(tanh, ANY, FLOATS, 2, tanhl(x))                           \
    X(sigmoid, ANY, FLOATS, 2, 1 / (1 + expl(-x)))              \
    X(softplus, ANY, FLOATS, 2, log1pl(expl(x)))                \
    X(relu, ANY, NUMBERS, 2, x > 0 ? x : 0)                     \
    X(gelu, ANY, FLOATS, 2, 0.5L * x * erfcl(-x * sqrtl(0.5L))) \
    X(erf, ANY, FLOATS, 2, erfl(x))                             \
    X(square, ANY, NUMBERS, 2, x *x)                            \
    X(reciprocal, ANY, FLOATS, 2, 1 / x)                        \
    X(floor, ANY, NUMBERS, 0, floorl(x))                        \
    X(ceil, ANY, NUMBERS, 0, ceill(x))                          \
    X(round, ANY, NUMBERS, 0, rintl(x))                         \
    X(trunc, ANY, NUMBERS, 0, truncl(x))                        \
    X(isnan, FEW, EVERYTHING, 0, isnan(x) ? 1 : 0)              \
    X(isinf, FEW, EVERYTHING, 0, isinf(x) ? 1 : 0)              \
    X(signbit, FEW, EVERYTHING, 0, x < 0)                       \
    X(isfinite, FEW, EVERYTHING, 0, isfinite(x) ? 1 : 0)        \
    X(logical_not, FEW, EVERYTHING, 0, x == 0)                  \
    X(bit_not, FEW, INTEGERS, 0, (long double)~(int64_t)x)

#define ELEMENT(name, expression)                                                \
    static long double value_##name(long double x, long double y, long double z) \
    {                                                                            \
        (void)x;                                                                 \
        (void)y;                                                                 \
        (void)z;                                                                 \
        return expression;                                                       \
    }
#define UNARY_FUNCTIONS(name, domain, dtypes, order, expression)                               \
    ELEMENT(name, expression)                                                                  \
    static void ref_##name(const array *in, array *out) { ref_map(in, 1, value_##name, out); } \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) { return (void)ctx, gd_##name(in[0]); }
UNARY_CASES(UNARY_FUNCTIONS)

/* The tangent away from its poles, which the other domains reach. */
static gd_tensor *apply_small_tan(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_tan(gd_mul_scalar(in[0], 0.5));
}
ELEMENT(small_tan, tanl(0.5L * x))
static void ref_small_tan(const array *in, array *out) { ref_map(in, 1, value_small_tan, out); }

/* ---- one operand and a number ---- */

#define SCALAR_CASES(X)                                                     \
    X(add_scalar, , ANY, NUMBERS, gd_add_scalar(t, 3), x + 3)               \
    X(mul_scalar, , ANY, NUMBERS, gd_mul_scalar(t, -2), x * -2)             \
    X(pow_scalar, , POSITIVE, FLOATS, gd_pow_scalar(t, 2.5), powl(x, 2.5L)) \
    X(pow_scalar, _cube, ANY, FLOATS, gd_pow_scalar(t, 3), x *x *x)         \
    X(pow_scalar, _one, ANY, FLOATS, gd_pow_scalar(t, 1), x)                \
    X(pow_scalar, _zero, ANY, FLOATS, gd_pow_scalar(t, 0), 1)               \
    X(clamp, , ANY, NUMBERS, gd_clamp(t, -1, 1), x<-1 ? -1 : x> 1 ? 1 : x)  \
    X(clamp, _below, ANY, NUMBERS, gd_clamp(t, 0.5, INFINITY), x < 0.5L ? (whole(x) ? 1 : 0.5L) : x)

#define SCALAR_FUNCTIONS(name, variant, domain, dtypes, call, expression)      \
    ELEMENT(name##variant, expression)                                         \
    static void ref_##name##variant(const array *in, array *out)               \
    {                                                                          \
        ref_map(in, 1, value_##name##variant, out);                            \
    }                                                                          \
    static gd_tensor *apply_##name##variant(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                          \
        (void)ctx;                                                             \
        gd_tensor *t = in[0];                                                  \
        return call;                                                           \
    }
SCALAR_CASES(SCALAR_FUNCTIONS)

/* ---- special functions: name, variant, operands, domain, call, what it is; errors of the C library's are larger ---- */

#define SPECIAL_CASES(X)                                                             \
    X(log2, , 1, POSITIVE, gd_log2(in[0]), log2l(x))                                 \
    X(log10, , 1, POSITIVE, gd_log10(in[0]), log10l(x))                              \
    X(asin, , 1, INSIDE, gd_asin(in[0]), asinl(x))                                   \
    X(acos, , 1, INSIDE, gd_acos(in[0]), acosl(x))                                   \
    X(sinh, , 1, ANY, gd_sinh(in[0]), sinhl(x))                                      \
    X(cosh, , 1, ANY, gd_cosh(in[0]), coshl(x))                                      \
    X(asinh, , 1, ANY, gd_asinh(in[0]), asinhl(x))                                   \
    X(acosh, , 1, POSITIVE, gd_acosh(gd_add_scalar(in[0], 2)), acoshl(x + 2))        \
    X(atanh, , 1, INSIDE, gd_atanh(in[0]), atanhl(x))                                \
    X(hypot, , 2, ANY, gd_hypot(in[0], in[1]), hypotl(x, y))                         \
    X(logaddexp, , 2, POSITIVE, gd_logaddexp(in[0], in[1]), logl(expl(x) + expl(y))) \
    X(erfc, , 1, ANY, gd_erfc(in[0]), erfcl(x))                                      \
    X(lgamma, , 1, POSITIVE, gd_lgamma(in[0]), lgammal(x))                           \
    X(bessel_j, , 1, ANY, gd_bessel_j(in[0], 0), j0l(x))                             \
    X(bessel_j, _three, 1, ANY, gd_bessel_j(in[0], 3), jnl(3, x))                    \
    X(mod, , 2, ANY, gd_mod(in[0], in[1]), x - y * floorl(x / y))

#define SPECIAL_FUNCTIONS(name, variant, operands, domain, call, expression) \
    ELEMENT(name##variant, expression)                                       \
    static void ref_##name##variant(const array *in, array *out)             \
    {                                                                        \
        ref_map(in, operands, value_##name##variant, out);                   \
    }                                                                        \
    static gd_tensor *apply_##name##variant(gd_ctx *ctx, gd_tensor *const *in) { return (void)ctx, call; }
SPECIAL_CASES(SPECIAL_FUNCTIONS)

/* ---- polygamma: its sum over poles, the tail by Euler and Maclaurin ---- */

/* f(y) = y^-p: what sum_{k >= 0} f(y + k) is but for its integral. */
static long double tail(long double y, int p)
{
    long double slope = p / 12.0L / y, third = (long double)p * (p + 1) * (p + 2) / 720 / (y * y * y);
    return powl(y, -p) * (0.5L + slope - third);
}

#define POLES 300
static long double digamma_sum(long double x)
{
    long double sum = -0.57721566490153286060651209L + logl((POLES + x) / (POLES + 1));
    for (int k = 0; k < POLES; k++) sum += 1 / (k + 1.0L) - 1 / (k + x);
    return sum + tail(POLES + 1, 1) - tail(POLES + x, 1);
}

static long double trigamma_sum(long double x)
{
    long double sum = 0;
    for (int k = 0; k < POLES; k++) sum += 1 / ((k + x) * (k + x));
    return sum + 1 / (POLES + x) + tail(POLES + x, 2);
}

/* Errors are small beside what the sum is made of: digamma has a zero at 1.46. */
#define POLYGAMMA_CASE(variant, order, sum)                                                     \
    ELEMENT(polygamma##variant, sum(x))                                                         \
    ELEMENT(polygamma##variant##_scale, 2 + fabsl(sum(x)))                                      \
    static void ref_polygamma##variant(const array *in, array *out)                             \
    {                                                                                           \
        ref_map_scaled(in, 1, value_polygamma##variant, value_polygamma##variant##_scale, out); \
    }                                                                                           \
    static gd_tensor *apply_polygamma##variant(gd_ctx *ctx, gd_tensor *const *in)               \
    {                                                                                           \
        return (void)ctx, gd_polygamma(in[0], order);                                           \
    }
POLYGAMMA_CASE(_zero, 0, digamma_sum)
POLYGAMMA_CASE(_one, 1, trigamma_sum)

/* ---- two operands: name, domains, dtypes, order, what it is ---- */

#define BINARY_CASES(X)                                                                      \
    X(add, ANY, ANY, NUMBERS, 2, x + y)                                                      \
    X(sub, ANY, ANY, NUMBERS, 2, x - y)                                                      \
    X(mul, ANY, ANY, NUMBERS, 2, x *y)                                                       \
    X(div, ANY, ANY, FLOATS, 2, x / y)                                                       \
    X(pow, POSITIVE, ANY, NUMBERS, 2, whole(x) && whole(y) && y < 0 ? (x == 1) : powl(x, y)) \
    X(copysign, ANY, ANY, FLOATS, 2, copysignl(x, y))                                        \
    X(nextafter, ANY, ANY, FLOATS, 0, x)                                                     \
    X(atan2, ANY, ANY, FLOATS, 2, atan2l(x, y))                                              \
    X(minimum, ANY, ANY, NUMBERS, 2, x < y ? x : y)                                          \
    X(maximum, ANY, ANY, NUMBERS, 2, x > y ? x : y)                                          \
    X(eq, FEW, FEW, EVERYTHING, 0, x == y)                                                   \
    X(ne, FEW, FEW, EVERYTHING, 0, x != y)                                                   \
    X(lt, FEW, FEW, EVERYTHING, 0, x < y)                                                    \
    X(le, FEW, FEW, EVERYTHING, 0, x <= y)                                                   \
    X(gt, FEW, FEW, EVERYTHING, 0, x > y)                                                    \
    X(ge, FEW, FEW, EVERYTHING, 0, x >= y)                                                   \
    X(logical_and, FEW, FEW, EVERYTHING, 0, (x != 0) && (y != 0))                            \
    X(logical_or, FEW, FEW, EVERYTHING, 0, (x != 0) || (y != 0))                             \
    X(logical_xor, FEW, FEW, EVERYTHING, 0, (x != 0) != (y != 0))                            \
    X(floor_div, ANY, ANY, NUMBERS, 0, y == 0 ? 0 : floorl(x / y))                           \
    X(bit_and, FEW, ANY, WHOLES, 0, (long double)((int64_t)x & (int64_t)y))                  \
    X(bit_or, FEW, ANY, WHOLES, 0, (long double)((int64_t)x | (int64_t)y))                   \
    X(bit_xor, FEW, ANY, WHOLES, 0, (long double)((int64_t)x ^ (int64_t)y))                  \
    X(shift_left, FEW, POSITIVE, INTEGERS, 0, ldexpl(x, (int)y))                             \
    X(shift_right, ANY, POSITIVE, INTEGERS, 0, floorl(ldexpl(x, -(int)y)))

#define WHOLES (INTEGERS | 1 << GD_BOOL)

#define BINARY_FUNCTIONS(name, first, second, dtypes, order, expression)                       \
    ELEMENT(name, expression)                                                                  \
    static void ref_##name(const array *in, array *out) { ref_map(in, 2, value_##name, out); } \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in)                          \
    {                                                                                          \
        return (void)ctx, gd_##name(in[0], in[1]);                                             \
    }
BINARY_CASES(BINARY_FUNCTIONS)

/* The same tensor on both sides: gradients of both operands meet. */
static gd_tensor *apply_mul_self(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_mul(in[0], in[0]);
}
ELEMENT(mul_self, x *x)
static void ref_mul_self(const array *in, array *out) { ref_map(in, 1, value_mul_self, out); }

/* ---- three operands ---- */

#define TERNARY_FUNCTIONS(name, expression, magnitude)                  \
    ELEMENT(name, expression)                                           \
    ELEMENT(name##_scale, magnitude)                                    \
    static void ref_##name(const array *in, array *out)                 \
    {                                                                   \
        ref_map_scaled(in, 3, value_##name, value_##name##_scale, out); \
    }                                                                   \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in)   \
    {                                                                   \
        return (void)ctx, gd_##name(in[0], in[1], in[2]);               \
    }
TERNARY_FUNCTIONS(where, x != 0 ? y : z, fabsl(x != 0 ? y : z))
TERNARY_FUNCTIONS(fma, x *y + z, fabsl(x *y + z))
TERNARY_FUNCTIONS(lerp, x + z * (y - x), fabsl(x) + fabsl(z) * (fabsl(x) + fabsl(y)))

#define TERNARY_ROW(title, first, allowed)                                                                   \
    {                                                                                                        \
        .name = #title, .op = GD_OP_##title, .apply = apply_##title, .reference = ref_##title,               \
        .operands = 3,                                                                                       \
        .in = {ELEMENTS(first, "row=2 col=1"), ELEMENTS(ANY, "col=3"), ELEMENTS(ANY, "deep=2 row=1 col=1")}, \
        .dtypes = allowed, .order = 2, .scramble = true                                                      \
    }

/* ---- the table ---- */

#define SPECIAL_ROW(title, variant, count, domain, call, expression)  \
    {.name = sizeof #variant > 1 ? #title "/" #variant : #title,      \
     .op = GD_OP_##title,                                             \
     .apply = apply_##title##variant,                                 \
     .reference = ref_##title##variant,                               \
     .operands = count,                                               \
     .in = {ELEMENTS(domain, "row=2 col=1"), ELEMENTS(ANY, "col=3")}, \
     .dtypes = FLOATS,                                                \
     .order = 2,                                                      \
     .error = 8,                                                      \
     .scramble = count == 2},

/* erfc of the C library is within 5 units of it on some processors, and magnifies the rounding of its argument. */
#define UNARY_ROW(title, domain, allowed, derivatives, expression) \
    {.name = #title,                                               \
     .op = GD_OP_##title,                                          \
     .apply = apply_##title,                                       \
     .reference = ref_##title,                                     \
     .operands = 1,                                                \
     .in = {ELEMENTS(domain, NULL)},                               \
     .dtypes = allowed,                                            \
     .order = derivatives,                                         \
     .error = GD_OP_##title == GD_OP_gelu ? 3 : 0}, /* the C library's erfc is off by 2.5 */
#define SCALAR_ROW(title, variant, domain, allowed, call, expression) \
    {.name = sizeof #variant > 1 ? #title "/" #variant : #title,      \
     .op = GD_OP_##title,                                             \
     .apply = apply_##title##variant,                                 \
     .reference = ref_##title##variant,                               \
     .operands = 1,                                                   \
     .in = {ELEMENTS(domain, NULL)},                                  \
     .dtypes = allowed,                                               \
     .order = 2},
#define BINARY_ROW(title, first, second, allowed, derivatives, expression) \
    {.name = #title,                                                       \
     .op = GD_OP_##title,                                                  \
     .apply = apply_##title,                                               \
     .reference = ref_##title,                                             \
     .operands = 2,                                                        \
     .in = {ELEMENTS(first, "row=2 col=1"), ELEMENTS(second, "col=3")},    \
     .dtypes = allowed,                                                    \
     .order = derivatives,                                                 \
     .scramble = true},

static const op_case rows[] = {UNARY_CASES(UNARY_ROW) SCALAR_CASES(SCALAR_ROW)
                                   BINARY_CASES(BINARY_ROW){.name = "tan/small",
                                                            .op = GD_OP_tan,
                                                            .apply = apply_small_tan,
                                                            .reference = ref_small_tan,
                                                            .operands = 1,
                                                            .in = {ELEMENTS(ANY, NULL)},
                                                            .dtypes = FLOATS,
                                                            .order = 2,
                                                            .error = 4},
                               {.name = "gelu/tail",
                                .op = GD_OP_gelu,
                                .apply = apply_gelu,
                                .reference = ref_gelu,
                                .operands = 1,
                                .in = {ELEMENTS(LOW_TAIL, NULL)},
                                .dtypes = 1 << GD_F32 | 1 << GD_F64,
                                .error = 4,
                                .apart = true},
                               {.name = "mul/self",
                                .op = GD_OP_mul,
                                .apply = apply_mul_self,
                                .reference = ref_mul_self,
                                .operands = 1,
                                .in = {ELEMENTS(ANY, NULL)},
                                .dtypes = NUMBERS,
                                .order = 2},
                               TERNARY_ROW(where, TRUTH, EVERYTHING),
                               TERNARY_ROW(fma, ANY, FLOATS),
                               TERNARY_ROW(lerp, ANY, FLOATS),
                               SPECIAL_CASES(SPECIAL_ROW) SPECIAL_ROW(polygamma, _zero, 1, POSITIVE, , )
                                   SPECIAL_ROW(polygamma, _one, 1, POSITIVE, , )};

const op_case_table elementwise_cases = {rows, COUNT_OF(rows)};
