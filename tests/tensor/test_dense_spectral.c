/* Plain eigenvalues and singular values: residuals, orthogonality, known spectra, extreme scales. */
#include "tensor/dense_support.h"

/* --- symmetric eigenvalues --- */

/* Checks residual, orthogonality and order; the eigenvalues stay in w (1 x n). */
static void check_eigh(const type *t, const matrix *a, matrix *w)
{
    int64_t n = a->rows;
    matrix lower = copy_of(a), v = new_matrix(t, n, n), av = new_matrix(t, n, n);
    void *work = new_work(t, gd__dense_eigh_work(n));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++) put(&lower, i, j, NAN); /* the upper triangle is not read */
    assert_int_equal(t->eigh(n, lower.data, lower.ld, w->data, v.data, v.ld, work), 0);
    for (int64_t i = 1; i < n; i++) assert_true(at(w, 0, i - 1) <= at(w, 0, i));
    long double bound = 8 * sqrtl((long double)(n + 1)) * t->eps;
    assert_at_most(orthogonality(&v, 0), bound, "V^T V - 1", t, n, n);
    assert_at_most(product_error(a, &v, w, &v, 1), bound * largest(w) + t->tiny * t->eps, "A - V w V^T", t, n,
                   n);
    free(work);
    RELEASE(&lower, &v, &av);
}

static void eigenvectors_diagonalise_symmetric_matrices(void **state)
{
    (void)state;
    static const entry symmetric[] = {symmetric_noise, zero,           one,    identity,          hilbert,
                                      graded,          graded_upwards, lehmer, second_difference, sparse};
    FOR_EACH_TYPE(t)
    for (size_t s = 0; s < sizeof symmetric / sizeof *symmetric; s++)
        for (int64_t n = 0; n <= 60; n += n < 20 ? 1 : 11) {
            matrix a = filled(t, n, n, symmetric[s]), w = new_matrix(t, 1, n);
            check_eigh(t, &a, &w);
            RELEASE(&a, &w);
        }
}

static void eigenvalues_of_the_second_difference_are_cosines(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        enum { N = 50 };
        const long double pi = 3.14159265358979323846264338327950288L;
        matrix a = filled(t, N, N, second_difference), w = new_matrix(t, 1, N);
        check_eigh(t, &a, &w);
        for (int64_t k = 0; k < N; k++)
            assert_at_most(fabsl(at(&w, 0, k) - (2 - 2 * cosl((long double)(k + 1) * pi / (N + 1)))),
                           20 * t->eps, "eigenvalue", t, N, k);
        RELEASE(&a, &w);
    }
}

static void eigenvalues_of_ones_are_zero_and_n(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        matrix a = filled(t, 30, 30, one), w = new_matrix(t, 1, 30);
        check_eigh(t, &a, &w);
        for (int64_t k = 0; k < 30; k++)
            assert_at_most(fabsl(at(&w, 0, k) - (k == 29 ? 30 : 0)), 8 * 30 * t->eps, "eigenvalue", t, 30, k);
        RELEASE(&a, &w);
    }
}

static void eigenvalues_survive_squares_that_overflow_or_underflow(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int large = 0; large < 2; large++) {
        matrix a = extreme(t, 11, 11, large), w = new_matrix(t, 1, 11);
        for (int64_t i = 0; i < 11; i++)
            for (int64_t j = 0; j < i; j++) put(&a, j, i, at(&a, i, j));
        check_eigh(t, &a, &w);
        RELEASE(&a, &w);
    }
}

/* --- singular values --- */

/* Checks residual, orthogonality and order; the singular values stay in s (1 x k). */
static void check_svd(const type *t, const matrix *a, matrix *s)
{
    int64_t m = a->rows, n = a->cols, k = m < n ? m : n;
    matrix u = new_matrix(t, m, k), vt = new_matrix(t, k, n);
    void *work = new_work(t, gd__dense_svd_work(m, n));
    assert_int_equal(t->svd(m, n, a->data, a->ld, u.data, u.ld, s->data, vt.data, vt.ld, work), 0);
    for (int64_t i = 0; i < k; i++)
        assert_true(at(s, 0, i) >= 0 && (i == 0 || at(s, 0, i - 1) >= at(s, 0, i)));
    long double bound = 10 * sqrtl((long double)(m + n + 1)) * t->eps;
    assert_at_most(orthogonality(&u, 0), bound, "U^T U - 1", t, m, n);
    assert_at_most(orthogonality(&vt, 1), bound, "V^T V - 1", t, m, n);
    assert_at_most(product_error(a, &u, s, &vt, 0), bound * largest(s) + t->tiny * t->eps, "A - U s VT", t, m,
                   n);
    free(work);
    RELEASE(&u, &vt);
}

static void singular_vectors_are_orthonormal_and_multiply_back_at_any_rank(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int f = 0; f < SHAPES; f++)
        for (int z = 0; z < SIZES; z++) {
            int64_t m = sizes[z][0], n = sizes[z][1];
            matrix a = filled(t, m, n, shapes[f]), s = new_matrix(t, 1, m < n ? m : n);
            check_svd(t, &a, &s);
            RELEASE(&a, &s);
        }
}

static void singular_values_of_a_constructed_matrix_are_found(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int wide = 0; wide < 2; wide++) {
        /* Two reflections 1 - 2 x x^T / x.x around 4^-j: seven singular values, the last one a repeat of
         * the sixth. */
        enum { M = 12, N = 7 };
        matrix a = new_matrix(t, wide ? N : M, wide ? M : N), s = new_matrix(t, 1, N);
        long double x = 0, y = 0, left[M], right[N];
        for (int i = 0; i < M; i++) left[i] = noise(i, 5), x += left[i] * left[i];
        for (int i = 0; i < N; i++) right[i] = noise(i, 6), y += right[i] * right[i];
        for (int64_t i = 0; i < M; i++)
            for (int64_t j = 0; j < N; j++) {
                long double sum = 0;
                for (int64_t k = 0; k < N; k++)
                    sum += ((i == k) - 2 * left[i] * left[k] / x) * powl(4, -(long double)(k < 6 ? k : 5)) *
                           ((j == k) - 2 * right[j] * right[k] / y);
                put(&a, wide ? j : i, wide ? i : j, sum);
            }
        check_svd(t, &a, &s);
        for (int64_t k = 0; k < N; k++)
            assert_at_most(fabsl(at(&s, 0, k) - powl(4, -(long double)(k < 6 ? k : 5))), 8 * t->eps,
                           "singular value", t, M, k);
        RELEASE(&a, &s);
    }
}

static void singular_values_of_the_hilbert_matrix_match_exact_arithmetic(void **state)
{
    (void)state;
    /* Extreme roots of the characteristic polynomial of the 5 x 5 Hilbert matrix, in exact rational
     * arithmetic. */
    FOR_EACH_TYPE(t)
    {
        matrix a = filled(t, 5, 5, hilbert), s = new_matrix(t, 1, 5);
        check_svd(t, &a, &s);
        assert_at_most(fabsl(at(&s, 0, 0) - 1.5670506910982307955L), 4 * t->eps, "largest", t, 5, 5);
        assert_at_most(fabsl(at(&s, 0, 4) - 3.287928772171862957e-6L), 2 * t->eps, "smallest", t, 5, 5);
        RELEASE(&a, &s);
    }
}

static void singular_values_of_graded_columns_are_relatively_accurate(void **state)
{
    (void)state;
    /* Columns 1, 2^-12, 2^-24, ... times an orthogonal matrix: norms are exact powers of two, up to
     * rounding. */
    FOR_EACH_TYPE(t)
    {
        enum { N = 5 };
        matrix a = new_matrix(t, N, N), s = new_matrix(t, 1, N);
        for (int64_t i = 0; i < N; i++)
            for (int64_t j = 0; j < N; j++)
                put(&a, i, j, ((i == j) - 2.0L / N) * powl(2, -12 * (long double)j));
        check_svd(t, &a, &s);
        for (int64_t k = 0; k < N; k++)
            assert_at_most(fabsl(at(&s, 0, k) * powl(2, 12 * (long double)k) - 1), 16 * t->eps, "graded", t,
                           N, k);
        RELEASE(&a, &s);
    }
}

static void singular_values_survive_squares_that_overflow_or_underflow(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int large = 0; large < 2; large++) {
        matrix a = extreme(t, 9, 12, large), s = new_matrix(t, 1, 9);
        check_svd(t, &a, &s);
        RELEASE(&a, &s);
    }
}

static void singular_values_span_the_whole_exponent_range(void **state)
{
    (void)state;
    /* Rows whose squares underflow beside one that does not: directions must still be orthonormal. */
    FOR_EACH_TYPE(t)
    {
        matrix a = filled(t, 8, 8, noise), s = new_matrix(t, 1, 8);
        for (int64_t i = 1; i < 8; i++)
            for (int64_t j = 0; j < 8; j++) put(&a, i, j, at(&a, i, j) * t->tiny * (i > 4 ? 1 : 1e10L));
        check_svd(t, &a, &s);
        RELEASE(&a, &s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eigenvectors_diagonalise_symmetric_matrices),
        cmocka_unit_test(eigenvalues_of_the_second_difference_are_cosines),
        cmocka_unit_test(eigenvalues_of_ones_are_zero_and_n),
        cmocka_unit_test(eigenvalues_survive_squares_that_overflow_or_underflow),
        cmocka_unit_test(singular_vectors_are_orthonormal_and_multiply_back_at_any_rank),
        cmocka_unit_test(singular_values_of_a_constructed_matrix_are_found),
        cmocka_unit_test(singular_values_of_the_hilbert_matrix_match_exact_arithmetic),
        cmocka_unit_test(singular_values_of_graded_columns_are_relatively_accurate),
        cmocka_unit_test(singular_values_survive_squares_that_overflow_or_underflow),
        cmocka_unit_test(singular_values_span_the_whole_exponent_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
