/* Reductions of small integers: the same numbers as of i64, without a copy as i64.  Sums of half floats: the same bits as of f32, rounded
 * once, without a copy as f32.  Norms of them: rounded once. */
#include "support/support.h"

#include <math.h>

#define assert_near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

#define ROWS    1031
#define COLUMNS 2053

/* Numbers of every sign and size that the dtype has. */
static gd_tensor *numbers(gd_ctx *ctx, gd_dtype dtype)
{
    gd_tensor *t = gd_empty(ctx, dtype, 2, (int64_t[]){ROWS, COLUMNS});
    assert_non_null(t);
    uint64_t bits = 7;
    for (int64_t i = 0; i < (int64_t)ROWS * COLUMNS; i++) {
        bits = bits * 6364136223846793005u + 1442695040888963407u;
        if (dtype == GD_I32)
            ((int32_t *)gd_data_mut(t))[i] = (int32_t)(bits >> 32);
        else
            ((uint8_t *)gd_data_mut(t))[i] = (uint8_t)(dtype == GD_BOOL ? bits >> 63 : bits >> 56);
    }
    return t;
}

static gd_tensor *sum(gd_tensor *t, const char *axis) { return gd_sum(t, axis, false); }
static gd_tensor *prod(gd_tensor *t, const char *axis) { return gd_prod(t, axis, false); }
static gd_tensor *argmax(gd_tensor *t, const char *axis) { return gd_argmax(t, axis, false); }
static gd_tensor *argmin(gd_tensor *t, const char *axis) { return gd_argmin(t, axis, false); }

typedef gd_tensor *reduction(gd_tensor *t, const char *axis);
static reduction *const reductions[] = {sum, prod, argmax, argmin};

/* One, a row and a column at a time, against plain loops over i64. */
static int64_t expected(reduction *fn, const int64_t *v, int64_t count, int64_t step)
{
    uint64_t total = 0, product = 1;
    int64_t low = 0, high = 0;
    for (int64_t i = 0; i < count; i++) {
        total += (uint64_t)v[i * step];
        product *= (uint64_t)v[i * step];
        if (v[i * step] > v[high * step]) high = i;
        if (v[i * step] < v[low * step]) low = i;
    }
    return fn == sum ? (int64_t)total : fn == prod ? (int64_t)product : fn == argmax ? high : low;
}

static void check(reduction *fn, gd_tensor *t, const int64_t *wide, const char *axis)
{
    gd_tensor *got = fn(t, axis);
    if (!got) fail_msg("%s", gd_error_text(gd_tensor_ctx(t)));
    const int64_t *v = gd_data(got);
    int64_t count = !axis ? 1 : *axis == '0' ? COLUMNS : ROWS;
    assert_int_equal(gd_numel(got), count);
    for (int64_t i = 0; i < count; i++) {
        int64_t want = !axis          ? expected(fn, wide, (int64_t)ROWS * COLUMNS, 1)
                       : *axis == '0' ? expected(fn, wide + i, ROWS, COLUMNS)
                                      : expected(fn, wide + i * COLUMNS, COLUMNS, 1);
        if (v[i] != want)
            fail_msg("%s, axis %s, %lld: %lld, want %lld", gd_dtype_name(gd_tensor_dtype(t)),
                     axis ? axis : "all", (long long)i, (long long)v[i], (long long)want);
    }
    gd_release(got);
}

static void small_integers_are_reduced_where_they_lie(void **state)
{
    (void)state;
    static const gd_dtype dtypes[] = {GD_U8, GD_BOOL, GD_I32};
    static const char *const axes[] = {NULL, "0", "1"};
    for (int d = 0; d < 3; d++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 2, NULL);
        gd_tensor *t = numbers(ctx, dtypes[d]), *cast = gd_cast(t, GD_I64);
        int64_t bytes = (int64_t)ROWS * COLUMNS, *wide = malloc((size_t)bytes * 8);
        assert_non_null(wide);
        memcpy(wide, gd_data(cast), (size_t)bytes * 8);
        gd_release(cast);
        for (int k = 0; k < 4; k++) {
            if (dtypes[d] == GD_BOOL && k >= 2) continue; /* has no order */
            for (int a = 0; a < 3; a++) {
                m.most = m.bytes;
                int64_t before = m.bytes;
                check(reductions[k], t, wide, axes[a]);
                /* an axis that is not the last one may be turned, which is a copy; i64 would be two or eight times as much */
                int64_t own = bytes * (int64_t)gd_dtype_size(dtypes[d]),
                        most = k < 2 ? own / 4 : own + own / 4;
                if (m.most - before > most)
                    fail_msg("%lld bytes for %lld", (long long)(m.most - before), (long long)own);
            }
        }
        free(wide);
        gd_release(t);
        end_context(ctx, &m);
    }
}

static void halves_are_summed_where_they_lie(void **state)
{
    (void)state;
    static const gd_dtype dtypes[] = {GD_F16, GD_BF16};
    static const char *const axes[] = {NULL, "0", "1"}, *const sets[] = {"base", "avx2", "avx512"};
    for (int k = 0; k < COUNT_OF(dtypes) * COUNT_OF(sets); k++) {
        memory m = {0};
        gd_dtype dtype = dtypes[k % 2];
        gd_ctx *ctx = context(&m, 2, sets[k / 2]);
        gd_scope_begin(ctx);
        int64_t own = (int64_t)ROWS * COLUMNS * (int64_t)gd_dtype_size(dtype);
        gd_tensor *t = gd_cast(gd_mul_scalar(gd_cast(numbers(ctx, GD_I32), GD_F32), 0x1p-30), dtype);
        for (int a = 0; a < COUNT_OF(axes); a++) {
            m.most = m.bytes;
            int64_t before = m.bytes;
            gd_tensor *got = gd_sum(t, axes[a], false);
            assert_no_error(ctx);
            if (m.most - before > own / 4) /* f32 would be twice as much */
                fail_msg("%lld bytes for %lld", (long long)(m.most - before), (long long)own);
            gd_tensor *want = gd_cast(gd_sum(gd_cast(t, GD_F32), axes[a], false), dtype);
            assert_int_equal(gd_tensor_dtype(got), dtype);
            assert_int_equal(gd_numel(got), gd_numel(want));
            assert_memory_equal(gd_data(got), gd_data(want), (size_t)gd_numel(want) * gd_dtype_size(dtype));
        }
        /* none at all, and lengths that are no multiple of anything */
        for (int64_t n = 0; n < 40; n++) {
            gd_tensor *some = gd_slice(gd_reshape(t, 1, (int64_t[]){-1}), "0", 1, 1 + n, 1);
            gd_tensor *got = gd_sum(some, NULL, false),
                      *want = gd_cast(gd_sum(gd_cast(some, GD_F32), NULL, false), dtype);
            assert_no_error(ctx);
            assert_memory_equal(gd_data(got), gd_data(want), gd_dtype_size(dtype));
        }
        gd_scope_end(ctx);
        end_context(ctx, &m);
    }
}

/* Squares in the dtype itself are not finite from 256 on (f16), and each has an error of its own (bf16). */
static void norms_of_half_floats_are_rounded_once(void **state)
{
    (void)state;
    gd_ctx *ctx = gd_ctx_new(NULL);
    gd_scope_begin(ctx);
    static const gd_dtype dtypes[] = {GD_F16, GD_BF16};
    double x[600];
    for (int i = 0; i < 600; i++) x[i] = 256 + i % 37;
    for (int d = 0; d < 2; d++) {
        gd_tensor *t = gd_from_f64(ctx, dtypes[d], 1, (int64_t[]){600}, x);
        double sum = 0, square = 0, cube = 0, spread = 0, v[600];
        assert_int_equal(gd_read_f64(t, v, 600), GD_OK);
        for (int i = 0; i < 600; i++) {
            sum += v[i];
            square += v[i] * v[i];
            cube += pow(v[i], 3);
        }
        for (int i = 0; i < 600; i++) spread += pow(v[i] - sum / 600, 2);
        double ulp = dtypes[d] == GD_F16 ? 0x1p-10 : 0x1p-7;
        assert_near(gd_item(gd_norm(t, 2, NULL, false)) / sqrt(square), 1, ulp / 2);
        assert_near(gd_item(gd_norm(t, 3, NULL, false)) / cbrt(cube), 1, ulp / 2);
        assert_near(gd_item(gd_variance(t, NULL, 1, false)) / (spread / 599), 1, ulp / 2);
    }
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(small_integers_are_reduced_where_they_lie),
                                       cmocka_unit_test(halves_are_summed_where_they_lie),
                                       cmocka_unit_test(norms_of_half_floats_are_rounded_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
