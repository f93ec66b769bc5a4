/* The factorisation of the interior point: in blocks and column by column. */
#include "optim/methods/nlp/ldl.h"
#include "support/support.h"

#include <math.h>

/* [W J'; J -d] with zeros on the diagonal, so that pivots of two columns are needed; of some n columns are zero but for J. */
static void fill(int64_t n, int64_t m, double d, double *a)
{
    uint64_t seed = 88172645463325252u + (uint64_t)n;
    int64_t order = n + m;
    for (int64_t j = 0; j < order; j++)
        for (int64_t i = j; i < order; i++) {
            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            double u = (double)(seed >> 11) / 9007199254740992.0 - 0.5;
            bool corner = j >= n;
            a[j * order + i] = corner ? (i == j ? -d : 0) : i < n && (i + j) % 3 ? 0 : u;
            if (i == j && j < n && j % 2) a[j * order + i] = 0;
        }
}

static void blocks_solve_as_single_columns_do(void **state)
{
    (void)state;
    static const int64_t sizes[][2] = {{150, 42}, {192, 0}, {200, 33}, {257, 100}, {300, 300}};
    for (int s = 0; s < COUNT_OF(sizes); s++) {
        int64_t n = sizes[s][0], m = sizes[s][1], order = n + m;
        size_t bytes = (size_t)(order * order) * sizeof(double);
        double *a = test_calloc((size_t)(order * order), sizeof *a),
               *b = test_calloc((size_t)(order * order), sizeof *b),
               *work = test_calloc((size_t)(5 * order), sizeof *work);
        double *x = work + 2 * order, *y = x + order, most = 0, left = 0;
        int64_t *pivot = test_calloc((size_t)(2 * order), sizeof *pivot);
        fill(n, m, 1e-8, a);
        memcpy(b, a, bytes);
        for (int64_t i = 0; i < order; i++) x[i] = y[i] = 1 + (double)(i % 7);
        double *copy = test_calloc((size_t)(order * order), sizeof *copy);
        memcpy(copy, a, bytes);
        gd_ldl one = {.n = order, .a = a, .pivot = pivot},
               many = {.n = order, .a = b, .pivot = pivot + order, .work = work};
        gd__ldl_factor(&one);
        gd__ldl_factor(&many);
        assert_int_equal(one.positive, many.positive);
        assert_int_equal(one.negative, many.negative);
        assert_int_equal(one.zero, many.zero);
        gd__ldl_solve(&one, x);
        gd__ldl_solve(&many, y);
        for (int64_t i = 0; i < order; i++) {
            double sum = -(1 + (double)(i % 7));
            for (int64_t j = 0; j < order; j++)
                sum += y[j] * (i >= j ? copy[j * order + i] : copy[i * order + j]);
            left = fmax(left, fabs(sum)), most = fmax(most, fabs(y[i]));
            assert_true(fabs(x[i] - y[i]) <= 1e-6 * fmax(1, fabs(x[i])));
        }
        assert_true(left <= 1e-9 * fmax(1, most));
        test_free(a), test_free(b), test_free(work), test_free(pivot), test_free(copy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(blocks_solve_as_single_columns_do)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
