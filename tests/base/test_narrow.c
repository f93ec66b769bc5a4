/* Numbers in fewer bits, against straight implementations in double: a code book built decade by decade and searched cell by
 * cell, and rounding whose mean is what theory says. */
#include "base/narrow.h"
#include "program/element.h"
#include "support/support.h"

#include <float.h>
#include <math.h>

/* ---- the code book ---- */

/* Magnitudes by place, from the definition: 0, the middles of the cells of seven decades, 1.  Their number. */
static int make_book(int first_cells, double *edge, double *value)
{
    int n = 0;
    edge[n] = 0;
    value[n++] = 0;
    for (int decade = 0; decade < 7; decade++) {
        int cells = first_cells << decade;
        double low = pow(10, decade - 7), high = pow(10, decade - 6);
        for (int k = 0; k < cells; k++, n++) {
            edge[n] = low + (high - low) * k / cells;
            value[n] = low + (high - low) * (k + 0.5) / cells;
        }
    }
    edge[n] = 1;
    value[n++] = 1;
    return n;
}

static void every_byte_has_its_value(void **state)
{
    (void)state;
    double edge[300], value[300];
    assert_int_equal(make_book(1, edge, value), 129);
    for (int byte = 0; byte < 256; byte++) {
        double want = byte <= 128 ? value[byte] : -value[256 - byte], got = (double)gd__value_signed(byte);
        if (fabs(got - want) > 1e-6 * fabs(want)) fail_msg("byte %d: %g, not %g", byte, got, want);
    }
    assert_int_equal(make_book(2, edge, value), 256);
    for (int byte = 0; byte < 256; byte++) {
        double got = (double)gd__value_positive(byte);
        if (fabs(got - value[byte]) > 1e-6 * value[byte]) fail_msg("byte %d: %g", byte, got);
    }
}

/* The place of a, which may be a neighbour where a lies at an edge up to rounding. */
static bool is_place(const double *edge, int places, double a, int place)
{
    double slack = 4e-6 * a;
    bool after = a >= edge[place] - slack, before = place + 1 == places || a <= edge[place + 1] + slack;
    return after && before;
}

static void numbers_go_to_the_cell_they_lie_in(void **state)
{
    (void)state;
    double edge[300], value[300], wide_edge[300];
    int places = make_book(1, edge, value), more = make_book(2, wide_edge, value);
    uint64_t seed = 5;
    for (int i = 0; i < 200000; i++) {
        float a = (float)pow(10, -8 * random_unit(&seed));
        int code = gd__code_signed(a), minus = gd__code_signed(-a), positive = gd__code_positive(a);
        if (!is_place(edge, places, (double)a, code)) fail_msg("%g has code %d", (double)a, code);
        assert_int_equal(minus, code == 128 ? -127 : -code);
        /* what would vanish becomes the smallest */
        bool small = positive == 1 && a < 1e-7f;
        if (!small && !is_place(wide_edge, more, (double)a, positive))
            fail_msg("%g has code %d among those never negative", (double)a, positive);
    }
    assert_int_equal(gd__code_signed(0), 0);
    assert_int_equal(gd__code_positive(0), 0);
    assert_int_equal(gd__code_positive(1e-30f), 1);
    assert_int_equal(gd__code_positive(-1), 0);
}

/* ---- blocks ---- */

typedef void (*code_fn)(const float *x, int n, float *scale, uint8_t *code);
typedef void (*value_fn)(const uint8_t *code, int n, float scale, float *x);

static void signed_code(const float *x, int n, float *scale, uint8_t *code)
{
    gd__code_block_signed(x, n, scale, code);
}
static void positive_code(const float *x, int n, float *scale, uint8_t *code)
{
    gd__code_block_positive(x, n, scale, code);
}
static void signed_value(const uint8_t *code, int n, float scale, float *x)
{
    gd__value_block_signed(code, n, scale, x);
}
static void positive_value(const uint8_t *code, int n, float scale, float *x)
{
    gd__value_block_positive(code, n, scale, x);
}

static void fill_block(float *x, int n, bool positive, uint64_t *seed)
{
    double size = pow(10, 20 * random_unit(seed) - 10);
    for (int i = 0; i < n; i++) {
        x[i] = (float)(size * pow(10, -4 * random_unit(seed)));
        if (!positive && random_below(seed, 2)) x[i] = -x[i];
    }
}

/* A number is off by half a cell at most: 0.45 of its decade's end over the number of cells there. */
static double most_off(double a, int first_cells)
{
    int decade = (int)floor(log10(a) + 7 + 1e-6); /* at an edge the coarser one */
    decade = decade < 0 ? 0 : decade > 6 ? 6 : decade;
    return 0.45 * pow(10, decade - 6) / (first_cells << decade);
}

static void check_block(code_fn code, value_fn value, bool positive, uint64_t *seed)
{
    float x[256], back[256], scale, again;
    uint8_t bytes[256], same[256];
    int n = 1 + (int)random_below(seed, 256), largest = 0;
    fill_block(x, n, positive, seed);
    for (int i = 0; i < n; i++)
        if (fabsf(x[i]) > fabsf(x[largest])) largest = i;
    code(x, n, &scale, bytes);
    value(bytes, n, scale, back);
    assert_true(fabsf(scale) == fabsf(x[largest]));
    assert_true(back[largest] == x[largest]); /* the largest keeps its bits */
    for (int i = 0; i < n; i++) {
        double a = fabs((double)x[i] / (double)scale), off = fabs((double)x[i] - (double)back[i]);
        /* one as large as the largest, of the other sign, is in the last cell */
        double most = most_off(a, positive ? 2 : 1) * (a > 0.98 ? 2.01 : 1.001);
        if (off > most * fabs((double)scale))
            fail_msg("%g of %g comes back as %g", (double)x[i], (double)scale, (double)back[i]);
    }
    /* numbers that came from codes go back to them: state that a step leaves as it is stays as it is */
    code(back, n, &again, same);
    assert_true(scale == again);
    assert_memory_equal(bytes, same, (size_t)n);
}

static void blocks_are_off_by_half_a_cell_and_stay_what_they_are(void **state)
{
    (void)state;
    uint64_t seed = 6;
    for (int i = 0; i < 2000; i++) {
        check_block(signed_code, signed_value, false, &seed);
        check_block(positive_code, positive_value, true, &seed);
    }
}

static void what_is_not_finite_changes_nothing_else_in_its_block(void **state)
{
    (void)state;
    float x[256], scale, with;
    uint8_t bytes[256], others[256];
    uint64_t seed = 7;
    fill_block(x, 256, false, &seed);
    x[3] = x[100] = x[200] = 0;
    gd__code_block_signed(x, 256, &scale, bytes);
    x[3] = NAN;
    x[100] = INFINITY;
    x[200] = -INFINITY;
    gd__code_block_signed(x, 256, &with, others);
    assert_true(scale == with);
    for (int i = 0; i < 256; i++)
        if (i != 100 && i != 200) assert_int_equal(bytes[i], others[i]);
    assert_true(fabsf(scale * gd__value_signed(others[100])) >= 0.99f * fabsf(scale));
    assert_true(scale * gd__value_signed(others[100]) > 0);
    assert_true(scale * gd__value_signed(others[200]) < 0);
    for (int i = 0; i < 256; i++) x[i] = i % 2 ? NAN : INFINITY;
    gd__code_block_positive(x, 256, &scale, bytes);
    assert_true(scale == 0);
}

static void zeros_and_subnormals_are_zero_bytes(void **state)
{
    (void)state;
    static const float values[] = {0.0f, -0.0f, 1e-39f, -1e-45f};
    for (int i = 0; i < 4; i++) {
        float x[256], scale = 1;
        uint8_t bytes[256], none[256] = {0};
        for (int k = 0; k < 256; k++) x[k] = values[i];
        gd__code_block_signed(x, 256, &scale, bytes);
        assert_memory_equal(bytes, none, 256);
        assert_true(scale == 0);
    }
    assert_true(gd__value_signed(0) == 0 && !signbit(gd__value_signed(0)));
    assert_true(gd__value_positive(0) == 0);
}

/* Numbers at the ends of decades and of what tables are looked up by, beside others and what is not finite. */
static float awkward_number(uint64_t *seed)
{
    static const float special[] = {0,     1,     0.1f, 1e-2f,   1e-3f,    1e-4f, 1e-5f,
                                    1e-6f, 1e-7f, 0.5f, 0x1p-3f, 0x1p-31f, 1e-39f};
    float x = special[random_below(seed, COUNT_OF(special))];
    int bits = (int)gd__f32_bits(x) + (int)random_below(seed, 5) - 2;
    if (random_below(seed, 2))
        x = (float)pow(10, -12 * random_unit(seed));
    else if (x > 0)
        x = gd__bits_f32((uint32_t)bits);
    if (!random_below(seed, 2000)) x = random_below(seed, 2) ? INFINITY : NAN;
    return random_below(seed, 2) ? -x : x;
}

static void check_table(const gd_block_table *table, const char *isa)
{
    uint64_t seed = 31;
    for (int i = 0; i < 4000; i++) {
        float x[256], scale[2] = {7, 8};
        uint8_t bytes[2][256] = {{0}};
        int n = i % 3 ? 256 : 1 + (int)random_below(&seed, 256);
        bool positive = i % 2;
        for (int k = 0; k < n; k++) x[k] = awkward_number(&seed);
        table->code[positive](x, n, &scale[0], bytes[0]);
        (positive ? gd__code_plain_positive : gd__code_plain_signed)(x, n, &scale[1], bytes[1]);
        assert_memory_equal(&scale[0], &scale[1], sizeof *scale);
        for (int k = 0; k < 256; k++)
            if (bytes[0][k] != bytes[1][k])
                fail_msg("%s: %a of %a has code %d, not %d", isa, (double)x[k], (double)scale[1], bytes[0][k],
                         bytes[1][k]);
    }
}

static void blocks_have_the_same_bytes_in_every_instruction_set(void **state)
{
    (void)state;
    check_table(&gd__blocks_base, "base");
#ifdef GD_HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        check_table(&gd__blocks_avx2, "avx2");
#endif
#ifdef GD_HAVE_AVX512
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512dq"))
        check_table(&gd__blocks_avx512, "avx512");
#endif
}

/* ---- chance ---- */

#define DRAWS 40000

typedef uint16_t (*round_fn)(float x, uint32_t noise);
typedef float (*widen_fn)(uint16_t h);

/* Between neighbours low and high it is high with probability (x - low) / (high - low): the mean is x, and five standard
 * deviations off happen once in a million. */
static void check_mean(round_fn round, widen_fn widen, float x, int number)
{
    int shift = number % 2 ? 16 : 0; /* what shares the word of another takes its lower bits */
    gd_noise noise = gd__noise_of((number + 0.5) / 1000, 0);
    double sum = 0, low = INFINITY, high = -INFINITY;
    for (uint32_t i = 0; i < DRAWS; i++) {
        double y = (double)widen(round(x, gd__noise_bits(noise, i) << shift));
        sum += y - (double)x;
        low = y < low ? y : low;
        high = y > high ? y : high;
    }
    double step = high - low, share = step > 0 ? ((double)x - low) / step : 0;
    assert_true(low <= (double)x && (double)x <= high);
    double deviation = step * sqrt(share * (1 - share) / DRAWS),
           cut = step * 0x1p-12; /* of bits beyond the noise's */
    if (fabs(sum / DRAWS) > 5 * deviation + cut)
        fail_msg("%g: the mean is off by %g, which is %g deviations", (double)x, sum / DRAWS,
                 fabs(sum / DRAWS) / deviation);
}

static void the_mean_of_roundings_is_the_number(void **state)
{
    (void)state;
    uint64_t seed = 8;
    for (int i = 0; i < 60; i++) {
        float x = (float)((random_unit(&seed) - 0.5) * pow(10, 60 * random_unit(&seed) - 30));
        check_mean(gd__f32_to_bf16_by_chance, gd__bf16_to_f32, x, i);
        x = (float)((random_unit(&seed) - 0.5) * pow(10, 11 * random_unit(&seed) - 7)); /* subnormals too */
        check_mean(gd__f32_to_f16_by_chance, gd__f16_to_f32, x, i);
    }
}

static void what_halves_have_stays_whatever_the_chance(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (uint32_t h = 0; h < 0x10000; h++) {
        uint32_t noise = (uint32_t)random_bits(&seed);
        if ((h & 0x7F80) != 0x7F80)
            assert_int_equal(gd__f32_to_bf16_by_chance(gd__bf16_to_f32((uint16_t)h), noise), h);
        if ((h & 0x7C00) != 0x7C00)
            assert_int_equal(gd__f32_to_f16_by_chance(gd__f16_to_f32((uint16_t)h), noise), h);
    }
}

static void finite_numbers_never_become_infinite(void **state)
{
    (void)state;
    for (uint32_t k = 0; k < 100; k++) {
        uint32_t noise = k * 0x28F5C28Fu;
        assert_int_equal(gd__f32_to_bf16_by_chance(FLT_MAX, noise), 0x7F7F);
        assert_int_equal(gd__f32_to_bf16_by_chance(-FLT_MAX, noise), 0xFF7F);
        assert_int_equal(gd__f32_to_f16_by_chance(65519.0f, noise), 0x7BFF);
        assert_int_equal(gd__f32_to_f16_by_chance(-1e30f, noise), 0xFBFF);
        assert_int_equal(gd__f32_to_bf16_by_chance(INFINITY, noise), 0x7F80);
        assert_int_equal(gd__f32_to_f16_by_chance(-INFINITY, noise), 0xFC00);
        assert_true(isnan(gd__bf16_to_f32(gd__f32_to_bf16_by_chance(NAN, noise))));
        assert_true(isnan(gd__f16_to_f32(gd__f32_to_f16_by_chance(NAN, noise))));
    }
}

/* Chi-squared with 255 degrees of freedom is below 350 but once in 30000 times. */
static double chi_squared(const int *count, int bins, double expected)
{
    double sum = 0;
    for (int i = 0; i < bins; i++) sum += (count[i] - expected) * (count[i] - expected) / expected;
    return sum;
}

static void noise_is_even_and_that_of_neighbours_independent(void **state)
{
    (void)state;
    for (int key = 0; key < 8; key++) {
        gd_noise one = gd__noise_of(key / 8.0, 0), next = gd__noise_of(key / 8.0 + 0x1p-53, 0);
        int high[256] = {0}, pairs[256] = {0}, steps[256] = {0};
        for (uint32_t i = 0; i < 256000; i++) {
            uint32_t bits = gd__noise_bits(one, i);
            high[bits >> 24]++;
            pairs[(bits >> 28 << 4) | gd__noise_bits(one, i + 1) >> 28]++;
            steps[(bits >> 28 << 4) | gd__noise_bits(next, i) >> 28]++; /* keys that differ in one bit */
        }
        assert_true(chi_squared(high, 256, 1000) < 350);
        assert_true(chi_squared(pairs, 256, 1000) < 350);
        assert_true(chi_squared(steps, 256, 1000) < 350);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_has_its_value),
        cmocka_unit_test(numbers_go_to_the_cell_they_lie_in),
        cmocka_unit_test(blocks_are_off_by_half_a_cell_and_stay_what_they_are),
        cmocka_unit_test(what_is_not_finite_changes_nothing_else_in_its_block),
        cmocka_unit_test(zeros_and_subnormals_are_zero_bytes),
        cmocka_unit_test(blocks_have_the_same_bytes_in_every_instruction_set),
        cmocka_unit_test(the_mean_of_roundings_is_the_number),
        cmocka_unit_test(what_halves_have_stays_whatever_the_chance),
        cmocka_unit_test(finite_numbers_never_become_infinite),
        cmocka_unit_test(noise_is_even_and_that_of_neighbours_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
