/* Medians are those of sorted numbers, whatever they are. */
#include "train/data/median.h"
#include "support/support.h"

#include <math.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void check(double *v, int64_t n)
{
    double *sorted = malloc((size_t)n * sizeof *v), changed = 0;
    memcpy(sorted, v, (size_t)n * sizeof *v);
    qsort(sorted, (size_t)n, sizeof *v, by_value);
    double want = (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
    double got = gd__median(v, n);
    if (got != want) fail_msg("%lld numbers: %.17g, want %.17g", (long long)n, got, want);
    qsort(v, (size_t)n, sizeof *v, by_value); /* they are the same numbers in another order */
    for (int64_t i = 0; i < n; i++) changed += sorted[i] != v[i];
    assert_true(changed == 0);
    free(sorted);
}

static void medians_are_those_of_sorted_numbers(void **state)
{
    (void)state;
    uint64_t seed = 7;
    double v[2000];
    for (int round = 0; round < 400; round++) {
        int64_t n = 1 + (int64_t)(seed >> 33) % (round < 200 ? 12 : 2000);
        for (int64_t i = 0; i < n; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
            double u = (double)(int64_t)(seed >> 11) * 0x1p-53 - 0.5;
            double of[] = {u, floor(8 * u), u * 1e300, u * 1e-310, 1 + u * 1e-12, (double)(i % 3), -1};
            v[i] = of[round % COUNT_OF(of)];
        }
        check(v, n);
    }
    double same[] = {-0.0, 0.0, 5e-324, -5e-324, 1.7976931348623157e308, -1.7976931348623157e308};
    check(same, 6);
    check(same, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(medians_are_those_of_sorted_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
