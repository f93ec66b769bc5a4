/* The counter-based generator: known answers, independence of threads, distributions. */
#include "support/op_references.h"
#include "support/support.h"

#include "base/rng.h"

#include <math.h>

/* Answers from the paper's reference code (Random123, kat_vectors), and our form against them. */
static void philox_gives_the_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } known[] = {
        {{0}, {0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < COUNT_OF(known); i++) {
        uint32_t got[4];
        ref_philox(known[i].counter, known[i].key, got);
        assert_memory_equal(got, known[i].want, sizeof got);
    }
    uint32_t ours[4];
    gd__philox(0, 0, ours);
    assert_memory_equal(ours, known[0].want, sizeof ours);
    uint64_t seed = 1;
    for (int i = 0; i < 1000; i++) {
        uint64_t key = random_bits(&seed), block = random_bits(&seed);
        uint32_t want[4], counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
        ref_philox(counter, (uint32_t[]){(uint32_t)key, (uint32_t)(key >> 32)}, want);
        gd__philox(key, block, ours);
        assert_memory_equal(ours, want, sizeof ours);
    }
}

typedef gd_tensor *(*maker)(gd_ctx *, gd_dtype, int, const int64_t *);
static const maker makers[] = {gd_rand, gd_randn, gd_rademacher};

static void numbers_do_not_depend_on_threads_or_instructions(void **state)
{
    (void)state;
    static const char *const sets[] = {"base", "avx2", NULL};
    enum { N = 100003 };
    static double first[N], other[N];
    for (int k = 0; k < COUNT_OF(makers); k++)
        for (int threads = 1; threads <= 4; threads++) {
            gd_ctx *ctx = context(NULL, threads, sets[threads % 3]);
            gd_seed(ctx, 123456789012345u);
            gd_tensor *t = makers[k](ctx, GD_F64, 1, (int64_t[]){N});
            assert_int_equal(gd_read_f64(t, threads == 1 ? first : other, N), GD_OK);
            if (threads > 1) assert_memory_equal(first, other, sizeof first);
            gd_release(t);
            end_context(ctx, NULL);
        }
}

/* One call of 2 n numbers gives the same as two of n: the stream goes on where it stopped. */
static void the_stream_goes_on_and_a_seed_starts_it_again(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    double whole[20], half[2][10], again[20];
    gd_seed(ctx, 5);
    assert_int_equal(gd_read_f64(gd_rand(ctx, GD_F64, 1, (int64_t[]){20}), whole, 20), GD_OK);
    gd_seed(ctx, 5);
    for (int i = 0; i < 2; i++)
        assert_int_equal(gd_read_f64(gd_rand(ctx, GD_F64, 2, (int64_t[]){2, 5}), half[i], 10), GD_OK);
    assert_memory_equal(whole, half, sizeof whole);
    gd_seed(ctx, 5);
    assert_int_equal(gd_read_f64(gd_rand(ctx, GD_F64, 1, (int64_t[]){20}), again, 20), GD_OK);
    assert_memory_equal(whole, again, sizeof whole);
    gd_seed(ctx, 6);
    assert_int_equal(gd_read_f64(gd_rand(ctx, GD_F64, 1, (int64_t[]){20}), again, 20), GD_OK);
    for (int i = 0; i < 20; i++) assert_true(whole[i] != again[i]);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

typedef struct moments {
    double mean, variance, skew, kurtosis, low, high;
} moments;

static moments moments_of(const double *x, int64_t n)
{
    moments m = {.low = INFINITY, .high = -INFINITY};
    for (int64_t i = 0; i < n; i++) m.mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++) {
        double d = x[i] - m.mean;
        m.variance += d * d / (double)n;
        m.skew += d * d * d / (double)n;
        m.kurtosis += d * d * d * d / (double)n;
        m.low = x[i] < m.low ? x[i] : m.low;
        m.high = x[i] > m.high ? x[i] : m.high;
    }
    m.skew /= pow(m.variance, 1.5);
    m.kurtosis /= m.variance * m.variance;
    return m;
}

/* Deviations are given in standard errors of a million samples: five of them are one case in a million. */
static void distributions_have_the_right_moments(void **state)
{
    (void)state;
    enum { N = 1000000 };
    static double x[N];
    static const struct {
        double mean, mean_error, variance, variance_error, kurtosis, kurtosis_error, low, high;
    } want[] = {
        {0.5, 0.29, 1.0 / 12, 0.0745, 1.8, 1.5, 0, 1},
        {0, 1, 1, 1.42, 3, 9.8, -7, 7},
        {0, 1, 1, 1e-3, 1, 1e-2, -1, 1},
    };
    gd_dtype dtypes[] = {GD_F64, GD_F32};
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < COUNT_OF(makers); k++) {
            gd_ctx *ctx = context(NULL, 2, NULL);
            gd_tensor *t = makers[k](ctx, dtypes[d], 1, (int64_t[]){N});
            assert_int_equal(gd_read_f64(t, x, N), GD_OK);
            moments m = moments_of(x, N);
            double error = 5 / sqrt(N);
            assert_true(fabs(m.mean - want[k].mean) < error * want[k].mean_error);
            assert_true(fabs(m.variance - want[k].variance) < error * want[k].variance_error);
            assert_true(fabs(m.skew) < error * 2.5);
            assert_true(fabs(m.kurtosis - want[k].kurtosis) < error * want[k].kurtosis_error);
            assert_true(m.low >= want[k].low && m.high <= want[k].high);
            if (k == 0) assert_true(m.high < 1);
            gd_release(t);
            end_context(ctx, NULL);
        }
}

/* The halves hold 11 and 8 bits: uniform numbers are multiples of 2^-11 and 2^-8, never rounded up to 1. */
static void uniform_halves_stay_below_one(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_dtype halves[] = {GD_F16, GD_BF16};
    for (int h = 0; h < 2; h++) {
        gd_tensor *t = gd_rand(ctx, halves[h], 1, (int64_t[]){200000});
        array a = array_of(t);
        long double unit = h == 0 ? 2048 : 256, sum = 0;
        for (int64_t i = 0; i < a.numel; i++) {
            assert_true(a.v[i] >= 0 && a.v[i] < 1 && a.v[i] * unit == floorl(a.v[i] * unit));
            sum += a.v[i];
        }
        assert_true(fabsl(sum / 200000 - 0.5L + 0.5L / unit) < 0.005L);
        array_free(&a);
        gd_release(t);
    }
    end_context(ctx, NULL);
}

/* Every element goes to every place equally often, and all 24 orders of four are equally likely
 * (chi-squared). */
static void permutations_are_uniform(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    enum { ROUNDS = 24000 };
    int place[10][10] = {{0}}, order[256] = {0};
    for (int round = 0; round < ROUNDS; round++) {
        gd_tensor *ten = gd_permutation(ctx, 10), *four = gd_permutation(ctx, 4);
        const int64_t *p = gd_data(ten), *q = gd_data(four);
        for (int i = 0; i < 10; i++) place[i][p[i]]++;
        order[q[0] + 4 * q[1] + 16 * q[2] + 64 * q[3]]++;
        gd_release(ten);
        gd_release(four);
    }
    double by_place = 0, by_order = 0, expected = ROUNDS / 10.0;
    for (int i = 0; i < 100; i++) by_place += pow(place[i / 10][i % 10] - expected, 2) / expected;
    int kinds = 0;
    for (int i = 0; i < 256; i++) {
        kinds += order[i] > 0;
        if (order[i]) by_order += pow(order[i] - ROUNDS / 24.0, 2) / (ROUNDS / 24.0);
    }
    assert_int_equal(kinds, 24);
    assert_true(by_place < 81 + 5 * sqrt(2 * 81.0)); /* 81 degrees of freedom */
    assert_true(by_order < 23 + 5 * sqrt(2 * 23.0));
    gd_tensor *none = gd_permutation(ctx, 0), *one = gd_permutation(ctx, 1);
    assert_int_equal(gd_numel(none), 0);
    assert_values(one, 0);
    gd_release(none);
    gd_release(one);
    end_context(ctx, NULL);
}

/* Neighbouring seeds and neighbouring blocks have nothing in common. */
static void streams_are_not_correlated(void **state)
{
    (void)state;
    enum { N = 200000 };
    static double x[N], y[N];
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (uint64_t seed = 0; seed < 3; seed++) {
        gd_seed(ctx, seed);
        gd_tensor *a = gd_randn(ctx, GD_F64, 1, (int64_t[]){N});
        gd_seed(ctx, seed + 1);
        gd_tensor *b = gd_randn(ctx, GD_F64, 1, (int64_t[]){N});
        assert_int_equal(gd_read_f64(a, x, N), GD_OK);
        assert_int_equal(gd_read_f64(b, y, N), GD_OK);
        double across = 0, along = 0;
        for (int i = 0; i < N; i++) {
            across += x[i] * y[i] / N;
            if (i) along += x[i] * x[i - 1] / N;
        }
        assert_true(fabs(across) < 5 / sqrt(N) && fabs(along) < 5 / sqrt(N));
        gd_release(a);
        gd_release(b);
    }
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_gives_the_known_answers),
        cmocka_unit_test(numbers_do_not_depend_on_threads_or_instructions),
        cmocka_unit_test(the_stream_goes_on_and_a_seed_starts_it_again),
        cmocka_unit_test(distributions_have_the_right_moments),
        cmocka_unit_test(uniform_halves_stay_below_one),
        cmocka_unit_test(permutations_are_uniform),
        cmocka_unit_test(streams_are_not_correlated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
