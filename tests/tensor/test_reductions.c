/* Reductions, scans and normalisations over the first, a middle and the last axis, of shapes that take each way through the kernels:
 * short rows, long ones, few long columns, many columns, and tensors whose axes lie in another order; against long double. */
#include "support/own_context.h"
#include "support/support.h"

#include <math.h>

typedef struct shape {
    int64_t outer, reduced, inner;
} shape;

static const shape shapes[] = {
    {1, 1, 1},   {7, 1, 5},    {200, 3, 1},  {130, 16, 1}, {70, 17, 1},   {3, 9000, 1},  {1, 3, 1000},
    {2, 5, 130}, {1, 9001, 3}, {2, 4097, 7}, {1, 300, 64}, {1, 5000, 40}, {3, 129, 200}, {65, 2, 2},
};

typedef enum kind {
    SUM,
    PROD,
    MAX,
    MIN,
    LSE,
    COUNT_OF_KINDS,
    ARGMAX,
    ARGMIN,
    SOFTMAX,
    LOG_SOFTMAX,
    CUMSUM,
    END
} kind;

static const char *names[] = {"sum",    "prod",   "max",     "min",         "logsumexp", "",
                              "argmax", "argmin", "softmax", "log_softmax", "cumsum"};

static gd_tensor *apply(kind k, gd_tensor *x, const char *axis)
{
    switch (k) {
    case SUM: return gd_sum(x, axis, false);
    case PROD: return gd_prod(x, axis, false);
    case MAX: return gd_max(x, axis, false);
    case MIN: return gd_min(x, axis, false);
    case LSE: return gd_logsumexp(x, axis, false);
    case ARGMAX: return gd_argmax(x, axis, false);
    case ARGMIN: return gd_argmin(x, axis, false);
    case SOFTMAX: return gd_softmax(x, axis);
    case LOG_SOFTMAX: return gd_log_softmax(x, axis);
    default: return gd_cumsum(x, axis);
    }
}

/* What a column gives: one number, or one for each of its n elements `step` apart. */
static void reference(kind k, const double *x, int64_t n, int64_t step, long double *out)
{
    long double sum = 0, product = 1, exps = 0, most = -INFINITY, least = INFINITY;
    int64_t high = 0, low = 0;
    for (int64_t i = 0; i < n; i++) {
        long double v = x[i * step];
        if (v > most) most = v, high = i;
        if (v < least) least = v, low = i;
        sum += v;
        product *= v;
        if (k == CUMSUM) out[i] = sum;
    }
    for (int64_t i = 0; i < n; i++) exps += expl((long double)x[i * step] - most);
    long double one[] = {
        sum, product, most, least, logl(exps) + most, 0, (long double)high, (long double)low};
    for (int64_t i = 0; i < n && (k == SOFTMAX || k == LOG_SOFTMAX); i++) {
        long double y = (long double)x[i * step] - most - logl(exps);
        out[i] = k == SOFTMAX ? expl(y) : y;
    }
    if (k <= ARGMIN) out[0] = one[k];
}

/* Some of the numbers are equal, and none of them large: products of thousands stay finite. */
static void fill(double *x, int64_t n, uint64_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        double v = random_unit(&seed) - 0.5;
        x[i] = (double)(float)(i % 7 ? 1 + 0.01 * v : floor(8 * v) / 8 + 1.0625);
    }
}

static void check_shape(gd_dtype dtype, const shape *s, kind k)
{
    int64_t n = s->outer * s->reduced * s->inner, each = k > ARGMIN ? s->reduced : 1;
    double *x = malloc((size_t)n * sizeof *x), *got = malloc((size_t)n * sizeof *got);
    long double *want = malloc((size_t)s->reduced * sizeof *want);
    fill(x, n, 7 + (uint64_t)k);
    gd_scope_begin(ctx);
    gd_tensor *t = gd_from_f64(ctx, dtype, 3, (int64_t[]){s->outer, s->reduced, s->inner}, x);
    gd_tensor *y = gd_cast(apply(k, t, "1"), GD_F64);
    assert_no_error(ctx);
    /* the same axes lying in another order of memory */
    gd_tensor *turned = gd_permute(gd_contiguous(gd_permute(t, (int[]){2, 0, 1})), (int[]){1, 2, 0});
    gd_tensor *z = gd_cast(apply(k, turned, "1"), GD_F64);
    assert_no_error(ctx);
    double tolerance = dtype == GD_F64 ? 1e-13 : 1e-5;
    for (int pass = 0; pass < 2; pass++) {
        assert_int_equal(gd_read_f64(pass ? z : y, got, gd_numel(y)), GD_OK);
        for (int64_t o = 0; o < s->outer; o++)
            for (int64_t i = 0; i < s->inner; i++) {
                reference(k, x + o * s->reduced * s->inner + i, s->reduced, s->inner, want);
                for (int64_t r = 0; r < each; r++) {
                    double v = got[(o * each + r) * s->inner + i];
                    if (!(fabsl(v - want[r]) <= tolerance * (1 + fabsl(want[r]) * (k == PROD ? 10 : 1))))
                        fail_msg("%s of %lld x %lld x %lld in %s: %g, not %Lg%s", names[k],
                                 (long long)s->outer, (long long)s->reduced, (long long)s->inner,
                                 gd_dtype_name(dtype), v, want[r], pass ? ", turned" : "");
                }
            }
    }
    gd_scope_end(ctx);
    free(x);
    free(got);
    free(want);
}

static void every_way_gives_the_same_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(shapes); i++)
        for (int k = 0; k < END; k++)
            for (int wide = 0; wide < 2 && k != COUNT_OF_KINDS; wide++)
                check_shape(wide ? GD_F64 : GD_F32, &shapes[i], (kind)k);
}

/* Long rows and columns with one special number. */
static void the_first_nan_is_the_extreme(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(shapes); i++) {
        const shape *s = &shapes[i];
        int64_t n = s->outer * s->reduced * s->inner, first = s->reduced / 3, second = s->reduced - 1;
        double *x = malloc((size_t)n * sizeof *x);
        fill(x, n, 3);
        x[first * s->inner] = x[second * s->inner] = NAN;
        gd_scope_begin(ctx);
        gd_tensor *t = gd_from_f64(ctx, GD_F64, 3, (int64_t[]){s->outer, s->reduced, s->inner}, x);
        for (int k = MAX; k <= MIN; k++) {
            gd_tensor *value = gd_reshape(apply((kind)k, t, "1"), 1, (int64_t[]){-1});
            gd_tensor *place = gd_reshape(apply(k == MAX ? ARGMAX : ARGMIN, t, "1"), 1, (int64_t[]){-1});
            assert_true(isnan(gd_item(gd_index(value, "0", 0))));
            assert_int_equal((int64_t)gd_item(gd_index(place, "0", 0)), first);
            if (gd_numel(value) > 1) assert_true(!isnan(gd_item(gd_index(value, "0", 1))));
        }
        assert_no_error(ctx);
        gd_scope_end(ctx);
        free(x);
    }
}

static void infinities_are_numbers(void **state)
{
    (void)state;
    gd_tensor *none = gd_full(ctx, GD_F64, 2, (int64_t[]){3, 2}, -INFINITY), *all = gd_neg(none);
    assert_values(gd_isfinite(gd_softmax(all, "1")), 0, 0, 0, 0, 0, 0);
    for (int axis = 0; axis < 2; axis++) {
        const char *text = axis ? "1" : "0";
        assert_true(gd_item(gd_max(gd_logsumexp(none, text, false), NULL, false)) == -INFINITY);
        assert_true(gd_item(gd_min(gd_logsumexp(all, text, false), NULL, false)) == INFINITY);
        assert_true(gd_item(gd_max(gd_max(none, text, false), NULL, false)) == -INFINITY);
    }
}

/* Of several axes at once: softmax over all of them. */
static void logsumexp_of_all_has_the_gradient_softmax(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(MATRIX(ctx, 2, 2, 0, log(2), log(3), log(4))), *g;
    assert_int_equal(gd_grad(gd_logsumexp(x, NULL, false), NULL, &x, 1, 0, &g), GD_OK);
    assert_values(g, 0.1, 0.2, 0.3, 0.4);
}

static void the_gradient_of_an_extreme_goes_to_the_first(void **state)
{
    (void)state;
    gd_tensor *x = gd_require_grad(MATRIX(ctx, 2, 3, 5, 1, 5, 0, 5, 7)), *g;
    assert_int_equal(gd_grad(gd_sum(gd_max(x, "1", false), NULL, false), NULL, &x, 1, 0, &g), GD_OK);
    assert_values(g, 1, 0, 0, 0, 0, 1);
    assert_int_equal(gd_grad(gd_sum(gd_min(x, "0", false), NULL, false), NULL, &x, 1, 0, &g), GD_OK);
    assert_values(g, 0, 1, 1, 1, 0, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_way_gives_the_same_numbers),
        TEST(the_first_nan_is_the_extreme),
        TEST(infinities_are_numbers),
        TEST(logsumexp_of_all_has_the_gradient_softmax),
        TEST(the_gradient_of_an_extreme_goes_to_the_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
