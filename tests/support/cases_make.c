/* Sources of numbers: no operands, f64 results. */
#include "support/op_cases.h"
#include "support/op_references.h"

#include <math.h>

#define MAKE(name, expression, axes, shape, value)                    \
    static gd_tensor *apply_##name(gd_ctx *ctx, gd_tensor *const *in) \
    {                                                                 \
        (void)in;                                                     \
        return expression;                                            \
    }                                                                 \
    static void ref_##name(const array *in, array *out)               \
    {                                                                 \
        (void)in;                                                     \
        *out = array_new(axes, (int64_t[]){EXPAND shape, 0});         \
        for (int64_t i = 0; i < out->numel; i++) out->v[i] = value;   \
    }
#define EXPAND(...) __VA_ARGS__
#define TWO_BY_THREE \
    2, (int64_t[]) { 2, 3 }

static gd_tensor *pattern(gd_ctx *ctx)
{
    gd_tensor *t = gd_empty(ctx, GD_F64, TWO_BY_THREE);
    return t && gd_fill(t, 5) == GD_OK ? t : NULL;
}

MAKE(empty, pattern(ctx), 2, (2, 3), 5)
MAKE(zeros, gd_zeros(ctx, GD_F64, TWO_BY_THREE), 2, (2, 3), 0)
MAKE(ones, gd_ones(ctx, GD_F64, TWO_BY_THREE), 2, (2, 3), 1)
MAKE(full, gd_full(ctx, GD_F64, TWO_BY_THREE, -1.5), 2, (2, 3), -1.5L)
MAKE(zeros_like, gd_zeros_like(pattern(ctx)), 2, (2, 3), 0)
MAKE(ones_like, gd_ones_like(pattern(ctx)), 2, (2, 3), 1)
MAKE(full_like, gd_full_like(pattern(ctx), 4), 2, (2, 3), 4)
MAKE(scalar, gd_scalar(ctx, GD_F64, 2.5), 0, (0), 2.5L)
MAKE(arange, gd_arange(ctx, GD_F64, 2, -1, -0.5), 1, (6), 2 - 0.5L * (long double)i)
MAKE(linspace, gd_linspace(ctx, GD_F64, -1, 2, 7), 1, (7), -1 + 0.5L * (long double)i)
MAKE(eye, gd_eye(ctx, GD_F64, 3, 4), 2, (3, 4), i / 4 == i % 4)
MAKE(from_data, gd_from_data(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){0, 2, 4}), 1, (3), 2 * (long double)i)
MAKE(from_f64, gd_from_f64(ctx, GD_F64, 1, (int64_t[]){3}, (double[]){0, 2, 4}), 1, (3), 2 * (long double)i)

/* ---- random numbers: element pair (2 k, 2 k + 1) comes from block k of the key ---- */

static void words_of(uint64_t block, uint32_t out[4])
{
    ref_philox((uint32_t[]){(uint32_t)block, (uint32_t)(block >> 32), 0, 0}, (uint32_t[]){11, 0}, out);
}

static gd_tensor *seeded(gd_ctx *ctx, gd_tensor *(*make)(gd_ctx *, gd_dtype, int, const int64_t *))
{
    gd_seed(ctx, 11);
    return make(ctx, GD_F64, 1, (int64_t[]){9});
}

static long double unit(const uint32_t *w)
{
    return (long double)(((uint64_t)w[0] << 32 | w[1]) >> 11) * 0x1p-53L;
}

static long double uniform_at(int64_t i)
{
    uint32_t w[4];
    words_of((uint64_t)i / 2, w);
    return unit(w + i % 2 * 2);
}

static long double normal_at(int64_t i)
{
    uint32_t w[4];
    words_of((uint64_t)i / 2, w);
    long double radius = sqrtl(-2 * logl(1 - unit(w))), angle = 2 * acosl(-1) * unit(w + 2);
    return radius * (i % 2 ? sinl(angle) : cosl(angle));
}

static long double sign_at(int64_t i)
{
    uint32_t w[4];
    words_of((uint64_t)i / 2, w);
    return w[i % 2 * 2] >> 31 ? 1 : -1;
}

MAKE(rand, seeded(ctx, gd_rand), 1, (9), uniform_at(i))
MAKE(randn, seeded(ctx, gd_randn), 1, (9), normal_at(i))
MAKE(rademacher, seeded(ctx, gd_rademacher), 1, (9), sign_at(i))

static gd_tensor *apply_permutation(gd_ctx *ctx, gd_tensor *const *in)
{
    (void)in;
    gd_seed(ctx, 11);
    return gd_permutation(ctx, 50);
}
static const char *holds_permutation(const array *in, const array *out, long double eps)
{
    (void)in;
    (void)eps;
    bool seen[50] = {false};
    for (int64_t i = 0; i < out->numel; i++) {
        int64_t p = (int64_t)out->v[i];
        if (p < 0 || p >= 50 || seen[p]) return "not a permutation";
        seen[p] = true;
    }
    return out->numel == 50 ? NULL : "not 50 elements";
}

/* ---- the table ---- */

#define MAKE_ROW(title, operator, tolerance)                                              \
    {                                                                                     \
        .name = #title, .op = operator, .apply = apply_##title, .reference = ref_##title, \
        .dtypes = 1 << GD_F64, .error = tolerance                                         \
    }

static const op_case rows[] = {
    MAKE_ROW(empty, GD_OP_fill, 0),
    MAKE_ROW(zeros, GD_OP_fill, 0),
    MAKE_ROW(ones, GD_OP_fill, 0),
    MAKE_ROW(full, GD_OP_fill, 0),
    MAKE_ROW(zeros_like, GD_OP_fill, 0),
    MAKE_ROW(ones_like, GD_OP_fill, 0),
    MAKE_ROW(full_like, GD_OP_fill, 0),
    MAKE_ROW(scalar, GD_OP_fill, 0),
    MAKE_ROW(arange, NO_OPERATOR, 0),
    MAKE_ROW(linspace, NO_OPERATOR, 0),
    MAKE_ROW(eye, GD_OP_fill, 0),
    MAKE_ROW(from_data, NO_OPERATOR, 0),
    MAKE_ROW(from_f64, NO_OPERATOR, 0),
    MAKE_ROW(rand, GD_OP_random, 0),
    MAKE_ROW(randn, GD_OP_random, 8),
    MAKE_ROW(rademacher, GD_OP_random, 0),
    {.name = "permutation",
     .op = NO_OPERATOR,
     .apply = apply_permutation,
     .holds = holds_permutation,
     .dtypes = 1 << GD_F64},
};

const op_case_table make_cases = {rows, COUNT_OF(rows)};
