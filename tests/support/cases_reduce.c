/* Reductions and operators along an axis. */
#include "support/op_cases.h"
#include "support/op_references.h"

#include <math.h>

/* ---- one number from many ---- */

static long double sum_of(const long double *v, int64_t n, long double *scale)
{
    long double sum = 0;
    *scale = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += v[i];
        *scale += fabsl(v[i]);
    }
    return sum;
}

static long double mean_of(const long double *v, int64_t n, long double *scale)
{
    long double sum = sum_of(v, n, scale);
    *scale /= (long double)n;
    return sum / (long double)n;
}

static long double prod_of(const long double *v, int64_t n, long double *scale)
{
    (void)scale;
    long double product = 1;
    for (int64_t i = 0; i < n; i++) product *= v[i];
    return product;
}

static int64_t place_of(const long double *v, int64_t n, int sign)
{
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (sign * v[i] > sign * v[best]) best = i;
    return best;
}

static long double max_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, v[place_of(v, n, 1)];
}

static long double min_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, v[place_of(v, n, -1)];
}

static long double argmax_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, (long double)place_of(v, n, 1);
}

static long double argmin_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, (long double)place_of(v, n, -1);
}

static long double any_of(const long double *v, int64_t n, long double *scale)
{
    (void)scale;
    for (int64_t i = 0; i < n; i++)
        if (v[i] != 0) return 1;
    return 0;
}

static long double all_of(const long double *v, int64_t n, long double *scale)
{
    (void)scale;
    for (int64_t i = 0; i < n; i++)
        if (v[i] == 0) return 0;
    return 1;
}

static long double power_norm(const long double *v, int64_t n, long double p)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += powl(fabsl(v[i]), p);
    return powl(sum, 1 / p);
}

static long double norm1_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, power_norm(v, n, 1);
}

static long double norm2_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, power_norm(v, n, 2);
}

static long double norm3_of(const long double *v, int64_t n, long double *scale)
{
    return (void)scale, power_norm(v, n, 3);
}

static long double norm_max_of(const long double *v, int64_t n, long double *scale)
{
    (void)scale;
    long double most = 0;
    for (int64_t i = 0; i < n; i++) most = fabsl(v[i]) > most ? fabsl(v[i]) : most;
    return most;
}

static long double spread_of(const long double *v, int64_t n, int correction, long double *scale)
{
    long double mean = mean_of(v, n, scale), sum = 0;
    *scale = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (v[i] - mean) * (v[i] - mean);
        *scale += v[i] * v[i];
    }
    int64_t degrees = n > correction ? n - correction : 0;
    *scale /= (long double)(degrees ? degrees : 1);
    return sum / (long double)degrees;
}

static long double var0_of(const long double *v, int64_t n, long double *scale)
{
    return spread_of(v, n, 0, scale);
}

static long double var1_of(const long double *v, int64_t n, long double *scale)
{
    return spread_of(v, n, 1, scale);
}

static long double logsumexp_of(const long double *v, int64_t n, long double *scale)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += expl(v[i]);
    *scale = 1 + fabsl(logl(sum));
    return logl(sum);
}

/* ---- rows ---- */

static void softmax_along(long double *v, int64_t n, long double *scale)
{
    (void)scale;
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += v[i] = expl(v[i]);
    for (int64_t i = 0; i < n; i++) v[i] /= sum;
}

static void log_softmax_along(long double *v, int64_t n, long double *scale)
{
    long double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += expl(v[i]);
    for (int64_t i = 0; i < n; i++) {
        scale[i] = 1 + fabsl(v[i]) + fabsl(logl(sum));
        v[i] -= logl(sum);
    }
}

static void cumsum_along(long double *v, int64_t n, long double *scale)
{
    for (int64_t i = 0; i < n; i++) {
        scale[i] = fabsl(v[i]) + (i ? scale[i - 1] : 0);
        if (i) v[i] += v[i - 1];
    }
}

/* Insertion: each element behind those that are not larger (smaller). */
static void places_of(const long double *v, int64_t n, int64_t *at, bool descending)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t k = i;
        for (; k > 0 && (descending ? v[at[k - 1]] < v[i] : v[at[k - 1]] > v[i]); k--) at[k] = at[k - 1];
        at[k] = i;
    }
}

static void order_along(long double *v, int64_t n, long double *scale, bool descending, bool places)
{
    int64_t at[256];
    long double out[256];
    places_of(v, n, at, descending);
    for (int64_t i = 0; i < n; i++) out[i] = places ? (long double)at[i] : v[at[i]];
    for (int64_t i = 0; i < n; i++) scale[i] = v[i] = out[i];
}
static void argsort_along(long double *v, int64_t n, long double *scale)
{
    order_along(v, n, scale, false, true);
}
static void argsort_down(long double *v, int64_t n, long double *scale)
{
    order_along(v, n, scale, true, true);
}
static void sort_along(long double *v, int64_t n, long double *scale)
{
    order_along(v, n, scale, false, false);
}
static void sort_down(long double *v, int64_t n, long double *scale)
{
    order_along(v, n, scale, true, false);
}

/* ---- name, variant, operator, call, reference ---- */

#define ALL    7u
#define FIRST  1u
#define MIDDLE 2u
#define LAST   4u
#define ENDS   5u

#define REDUCTIONS(X)                                                                       \
    X(sum, all, sum, gd_sum(x, NULL, false), ALL, false, sum_of)                            \
    X(sum, first, sum, gd_sum(x, "0", false), FIRST, false, sum_of)                         \
    X(sum, middle, sum, gd_sum(x, "1", true), MIDDLE, true, sum_of)                         \
    X(sum, last, sum, gd_sum(x, "-1", false), LAST, false, sum_of)                          \
    X(sum, ends, sum, gd_sum(x, "2, 0", true), ENDS, true, sum_of)                          \
    X(mean, all, sum, gd_mean(x, NULL, false), ALL, false, mean_of)                         \
    X(mean, last, sum, gd_mean(x, "-1", true), LAST, true, mean_of)                         \
    X(prod, all, prod, gd_prod(x, NULL, false), ALL, false, prod_of)                        \
    X(prod, first, prod, gd_prod(x, "0", false), FIRST, false, prod_of)                     \
    X(prod, zero, prod, gd_prod(x, "-1", false), LAST, false, prod_of)                      \
    X(max, all, gather, gd_max(x, "", false), ALL, false, max_of)                           \
    X(max, ends, gather, gd_max(x, "0, 2", true), ENDS, true, max_of)                       \
    X(min, first, gather, gd_min(x, "0", false), FIRST, false, min_of)                      \
    X(argmax, last, argmax, gd_argmax(x, "2", false), LAST, false, argmax_of)               \
    X(argmax, all, argmax, gd_argmax(x, NULL, false), ALL, false, argmax_of)                \
    X(argmin, first, argmin, gd_argmin(x, "0", true), FIRST, true, argmin_of)               \
    X(any, last, any, gd_any(x, "2", false), LAST, false, any_of)                           \
    X(any, first, any, gd_any(x, "0", true), FIRST, true, any_of)                           \
    X(all, last, all, gd_all(x, "2", false), LAST, false, all_of)                           \
    X(all, ends, all, gd_all(x, "0, 2", false), ENDS, false, all_of)                        \
    X(norm, 1, sum, gd_norm(x, 1, "2", false), LAST, false, norm1_of)                       \
    X(norm, 2, sum, gd_norm(x, 2, NULL, false), ALL, false, norm2_of)                       \
    X(norm, alone, sum_squares, gd_norm(gd_detach(x), 2, "0", true), FIRST, true, norm2_of) \
    X(norm, 3, pow_scalar, gd_norm(x, 3, "0", true), FIRST, true, norm3_of)                 \
    X(norm, max, gather, gd_norm(x, INFINITY, "2", false), LAST, false, norm_max_of)        \
    X(variance, 0, sum, gd_variance(x, "2", 0, false), LAST, false, var0_of)                \
    X(variance, 1, sum, gd_variance(x, "0", 1, true), FIRST, true, var1_of)                 \
    X(logsumexp, last, logsumexp, gd_logsumexp(x, "2", false), LAST, false, logsumexp_of)   \
    X(logsumexp, all, logsumexp, gd_logsumexp(x, NULL, true), ALL, true, logsumexp_of)      \
    X(logsumexp, first, logsumexp, gd_logsumexp(x, "0", true), FIRST, true, logsumexp_of)

#define REDUCTION_FUNCTIONS(title, variant, operator, call, axes, keep, fn)        \
    static gd_tensor *apply_##title##_##variant(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                              \
        (void)ctx;                                                                 \
        gd_tensor *x = in[0];                                                      \
        return call;                                                               \
    }                                                                              \
    static void ref_##title##_##variant(const array *in, array *out) { ref_reduce(in, axes, keep, fn, out); }
REDUCTIONS(REDUCTION_FUNCTIONS)

#define ROWS(X)                                                          \
    X(softmax, last, gd_softmax(x, "-1"), 2, softmax_along)              \
    X(softmax, first, gd_softmax(x, "0"), 0, softmax_along)              \
    X(log_softmax, last, gd_log_softmax(x, "2"), 2, log_softmax_along)   \
    X(log_softmax, middle, gd_log_softmax(x, "1"), 1, log_softmax_along) \
    X(cumsum, last, gd_cumsum(x, "2"), 2, cumsum_along)                  \
    X(cumsum, first, gd_cumsum(x, "0"), 0, cumsum_along)                 \
    X(argsort, last, gd_argsort(x, "-1", false), 2, argsort_along)       \
    X(argsort, middle, gd_argsort(x, "1", true), 1, argsort_down)        \
    X(sort, last, gd_sort(x, "2", true), 2, sort_down)                   \
    X(sort, first, gd_sort(x, "0", false), 0, sort_along)

#define ROW_FUNCTIONS(title, variant, call, axis, fn)                              \
    static gd_tensor *apply_##title##_##variant(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                              \
        (void)ctx;                                                                 \
        gd_tensor *x = in[0];                                                      \
        return call;                                                               \
    }                                                                              \
    static void ref_##title##_##variant(const array *in, array *out) { ref_along(in, axis, fn, out); }
ROWS(ROW_FUNCTIONS)

/* A 0-dimensional operand is reduced over all of its no axes. */
static gd_tensor *apply_sum_number(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_sum(in[0], NULL, false);
}
static gd_tensor *apply_max_number(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_max(in[0], NULL, true);
}
static gd_tensor *apply_prod_number(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_prod(in[0], NULL, true);
}
static gd_tensor *apply_lse_number(gd_ctx *ctx, gd_tensor *const *in)
{
    return (void)ctx, gd_logsumexp(in[0], NULL, false);
}
static void ref_number(const array *in, array *out)
{
    *out = array_new(0, NULL);
    out->v[0] = in->v[0];
}

/* ---- the table ---- */

#define CUBE(domain, empty)                                                                       \
    {                                                                                             \
        domain, "row=2 mid=2 col=3", NULL, empty, "row=1 mid=1 col=1", "row=40 mid=20 col=150", 0 \
    }
#define EMPTY_ROWS   "row=0 mid=2 col=3"
#define EMPTY_MIDDLE "row=2 mid=0 col=3"

#define REDUCTION(title, variant, operator, numbers, none, allowed, derivatives, tolerance)                  \
    {                                                                                                        \
        .name = #title "/" #variant, .op = GD_OP_##operator, .apply = apply_##title##_##variant,             \
        .reference = ref_##title##_##variant, .operands = 1, .in = {CUBE(numbers, none)}, .dtypes = allowed, \
        .order = derivatives, .error = tolerance                                                             \
    }
#define NUMBER(title, operator)                                                                           \
    {                                                                                                     \
        .name = #title "/number", .op = GD_OP_##operator, .apply = apply_##title##_number,                \
        .reference = ref_number, .operands = 1, .in = {{ANY, "", "", NULL, "", "", 0}}, .dtypes = FLOATS, \
        .order = 2                                                                                        \
    }

static const op_case rows[] = {
    REDUCTION(sum, all, sum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(sum, first, sum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(sum, middle, sum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(sum, last, sum, ANY, EMPTY_MIDDLE, EVERYTHING, 2, 4),
    REDUCTION(sum, ends, sum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(mean, all, sum, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(mean, last, sum, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(prod, all, prod, ANY, EMPTY_ROWS, EVERYTHING, 2, 12),
    REDUCTION(prod, first, prod, ANY, EMPTY_ROWS, EVERYTHING, 2, 12),
    REDUCTION(prod, zero, prod, WITH_ZERO, EMPTY_ROWS, NUMBERS, 2, 12),
    REDUCTION(max, all, highest, ANY, NULL, NUMBERS, 2, 0),
    REDUCTION(max, ends, highest, ANY, EMPTY_MIDDLE, NUMBERS, 2, 0),
    REDUCTION(min, first, lowest, ANY, EMPTY_MIDDLE, NUMBERS, 2, 0),
    REDUCTION(argmax, last, argmax, FEW, EMPTY_ROWS, NUMBERS, 0, 0),
    REDUCTION(argmax, all, argmax, ANY, NULL, NUMBERS, 0, 0),
    REDUCTION(argmin, first, argmin, FEW, EMPTY_MIDDLE, NUMBERS, 0, 0),
    REDUCTION(any, last, any, FEW, EMPTY_ROWS, EVERYTHING, 0, 0),
    REDUCTION(any, first, any, FEW, EMPTY_ROWS, EVERYTHING, 0, 0),
    REDUCTION(all, last, all, FEW, EMPTY_ROWS, EVERYTHING, 0, 0),
    REDUCTION(all, ends, all, FEW, EMPTY_ROWS, EVERYTHING, 0, 0),
    REDUCTION(norm, 1, sum, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    REDUCTION(norm, 2, sum, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    REDUCTION(norm, alone, sum_squares, ANY, EMPTY_MIDDLE, FLOATS, 0, 8),
    REDUCTION(norm, 3, pow_scalar, ANY, EMPTY_MIDDLE, FLOATS, 2, 8),
    REDUCTION(norm, max, highest, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    REDUCTION(variance, 0, sum, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    /* one sample has no spread with correction 1 */
    {.name = "variance/1",
     .op = GD_OP_sum,
     .apply = apply_variance_1,
     .reference = ref_variance_1,
     .operands = 1,
     .in = {{ANY, "row=2 mid=2 col=3", NULL, EMPTY_MIDDLE, NULL, "row=40 mid=20 col=150", 0}},
     .dtypes = FLOATS,
     .order = 2,
     .error = 8},
    REDUCTION(logsumexp, last, logsumexp, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(logsumexp, all, logsumexp, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(logsumexp, first, logsumexp, ANY, EMPTY_MIDDLE, FLOATS, 2, 4),
    REDUCTION(softmax, last, softmax, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    REDUCTION(softmax, first, softmax, ANY, EMPTY_ROWS, FLOATS, 2, 8),
    REDUCTION(log_softmax, last, log_softmax, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(log_softmax, middle, log_softmax, ANY, EMPTY_ROWS, FLOATS, 2, 4),
    REDUCTION(cumsum, last, cumsum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(cumsum, first, cumsum, ANY, EMPTY_ROWS, EVERYTHING, 2, 4),
    REDUCTION(argsort, last, argsort, FEW, EMPTY_ROWS, EVERYTHING, 0, 0),
    REDUCTION(argsort, middle, argsort, ANY, EMPTY_MIDDLE, EVERYTHING, 0, 0),
    REDUCTION(sort, last, gather, ANY, EMPTY_ROWS, NUMBERS, 2, 0),
    REDUCTION(sort, first, gather, ANY, EMPTY_MIDDLE, NUMBERS, 2, 0),
    NUMBER(sum, sum),
    NUMBER(max, highest),
    NUMBER(prod, prod),
    {.name = "logsumexp/number",
     .op = GD_OP_logsumexp,
     .apply = apply_lse_number,
     .reference = ref_number,
     .operands = 1,
     .in = {{ANY, "", "", NULL, "", "", 0}},
     .dtypes = FLOATS,
     .order = 2},
};

const op_case_table reduce_cases = {rows, COUNT_OF(rows)};
