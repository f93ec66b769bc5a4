/* The interpreter's loops for short rows, of every instruction set that this CPU has, against straight ones. */
#include "base/vmath.h"
#include "program/element.h"
#include "support/support.h"

#include <math.h>

#define MOST_COLUMNS 40
#define MOST_ROWS    70

static const gd_block_table *const tables[] = {
    &gd__blocks_base,
#ifdef GD_HAVE_AVX2
    &gd__blocks_avx2,
#endif
#ifdef GD_HAVE_AVX512
    &gd__blocks_avx512,
#endif
};

static bool runs_here(const gd_block_table *table)
{
#ifdef GD_HAVE_AVX2
    if (table == &gd__blocks_avx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#ifdef GD_HAVE_AVX512
    if (table == &gd__blocks_avx512)
        return __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq");
#endif
    return table == &gd__blocks_base;
}

/* Sixteen lanes, each taking every sixteenth number, joined 8 + 8, 4 + 4, ... */
static double row_result(const float *x, int64_t n, bool largest)
{
    float lane[16];
    for (int k = 0; k < 16; k++) lane[k] = largest ? -INFINITY : 0;
    for (int64_t i = 0; i < n; i++) lane[i % 16] = largest ? fmaxf(lane[i % 16], x[i]) : lane[i % 16] + x[i];
    for (int width = 8; width; width /= 2)
        for (int k = 0; k < width; k++)
            lane[k] = largest ? fmaxf(lane[k], lane[k + width]) : lane[k] + lane[k + width];
    return (double)lane[0];
}

static void check_rows(const gd_block_table *table, int64_t rows, int64_t n, uint64_t *seed)
{
    float x[MOST_ROWS * MOST_COLUMNS + 16];
    double out[2 * MOST_ROWS];
    for (int64_t i = 0; i < rows * n; i++) x[i] = (float)random_unit(seed) - 0.5f;
    for (int largest = 0; largest < 2; largest++) {
        table->rows[GD_ELEMENT_F32][largest](out, 2, x, rows, n);
        for (int64_t r = 0; r < rows; r++)
            if (out[2 * r] != row_result(x + r * n, n, largest))
                fail_msg("table %d: row %d of %d: %a", (int)(table != tables[0]), (int)r, (int)n, out[2 * r]);
    }
}

static void rows_of_every_length_are_joined_in_the_same_order(void **state)
{
    (void)state;
    uint64_t seed = 4;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int64_t n = 1; n <= MOST_COLUMNS && runs_here(tables[t]); n++)
            for (int64_t rows = 1; rows <= MOST_ROWS; rows += rows < 34 ? 1 : 12)
                check_rows(tables[t], rows, n, &seed);
}

static void check_spread(const gd_block_table *table, int kind, int64_t columns, int64_t column, int64_t n)
{
    size_t item = (size_t)2 << kind;
    char from[600 * 8], to[(600 + 16) * 8];
    for (size_t i = 0; i < sizeof from; i++) from[i] = (char)(i * 37 % 251);
    table->spread[kind](to, from, columns, column, n);
    for (int64_t i = 0; i < n; i++)
        if (memcmp(to + (size_t)i * item, from + (size_t)((column + i) / columns) * item, item))
            fail_msg("%zu bytes, rows of %d from %d on: number %d", item, (int)columns, (int)column, (int)i);
}

static void a_number_a_row_reaches_all_of_the_row(void **state)
{
    (void)state;
    for (int t = 0; t < COUNT_OF(tables); t++)
        for (int kind = 0; kind < 3 && runs_here(tables[t]); kind++)
            for (int64_t columns = 1; columns <= MOST_COLUMNS; columns++)
                for (int64_t n = 1; n < 600; n += 1 + n / 5)
                    check_spread(tables[t], kind, columns, n % columns, n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_every_length_are_joined_in_the_same_order),
        cmocka_unit_test(a_number_a_row_reaches_all_of_the_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
