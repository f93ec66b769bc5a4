/* The plain dense products and factorisations against definitions evaluated in long double; eigenvalues and singular values
 * are in test_dense_spectral.c. */
#include "tensor/dense_support.h"

/* --- product --- */

typedef struct {
    int64_t m, n, k;
    long double alpha, beta;
    int transpose_a, transpose_b;
} product;

static const product products[] = {
    {1, 1, 1, 1, 0, 0, 0},     {1, 40, 300, 1, 0, 0, 0},     {2, 150, 7, -1, 1, 0, 0},
    {2, 150, 7, -1, 1, 0, 1},  {40, 1, 300, 2, 0.5L, 0, 0},  {40, 1, 300, 2, 0.5L, 1, 0},
    {13, 2, 129, 1, 1, 0, 1},  {3, 3, 3, 1, 1, 1, 1},        {33, 129, 257, 1, 0, 0, 0},
    {70, 37, 128, 1, 1, 1, 0}, {5, 200, 64, 0.25L, 2, 0, 1}, {65, 66, 130, -1, 1, 1, 1},
    {4, 16, 0, 1, 0.5L, 0, 0}, {6, 6, 9, 0, 2, 0, 0},        {0, 5, 3, 1, 0, 0, 0},
    {5, 0, 3, 1, 0, 0, 0},
};
enum { PRODUCTS = sizeof products / sizeof *products };

typedef struct {
    matrix a, b, c;
    int64_t ars, acs, brs, bcs;
} operands;

static operands make_operands(const type *t, const product *p)
{
    operands o;
    o.a = filled(t, p->transpose_a ? p->k : p->m, p->transpose_a ? p->m : p->k, noise);
    o.b = filled(t, p->transpose_b ? p->n : p->k, p->transpose_b ? p->k : p->n, other_noise);
    o.c = filled(t, p->m, p->n, noise);
    o.ars = p->transpose_a ? 1 : o.a.ld;
    o.acs = p->transpose_a ? o.a.ld : 1;
    o.brs = p->transpose_b ? 1 : o.b.ld;
    o.bcs = p->transpose_b ? o.b.ld : 1;
    return o;
}

/* Rows i .. i+m and columns j .. j+n of the product. */
static void multiply(const product *p, operands *o, int64_t i, int64_t m, int64_t j, int64_t n)
{
    const type *t = o->a.t;
    const char *a = o->a.data, *b = o->b.data;
    char *c = o->c.data;
    int info = t->gemm(m, n, p->k, p->alpha, a + (size_t)(i * o->ars) * t->size, o->ars, o->acs,
                       b + (size_t)(j * o->bcs) * t->size, o->brs, o->bcs, p->beta,
                       c + (size_t)(i * o->c.ld + j) * t->size, o->c.ld);
    assert_int_equal(info, 0);
}

static void product_equals_the_triple_loop_for_any_strides(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int which = 0; which < PRODUCTS; which++) {
        const product *p = products + which;
        operands o = make_operands(t, p);
        matrix before = copy_of(&o.c);
        multiply(p, &o, 0, p->m, 0, p->n);
        for (int64_t i = 0; i < p->m; i++)
            for (int64_t j = 0; j < p->n; j++) {
                long double sum = 0, size = 0;
                for (int64_t k = 0; k < p->k; k++) {
                    long double term = t->get(o.a.data, i * o.ars + k * o.acs) *
                                       t->get(o.b.data, k * o.brs + j * o.bcs);
                    sum += term;
                    size += fabsl(term);
                }
                long double expected = p->alpha * sum + p->beta * at(&before, i, j);
                long double bound = (long double)(p->k + 3) * t->eps * (fabsl(p->alpha) * size + 2);
                assert_at_most(fabsl(at(&o.c, i, j) - expected), bound, "product", t, i, j);
            }
        RELEASE(&o.a, &o.b, &o.c, &before);
    }
}

static void product_has_the_same_bits_however_rows_and_columns_are_split(void **state)
{
    (void)state;
    static const int64_t steps[][2] = {{1, 1000}, {1000, 1}, {1, 1},    {2, 3},
                                       {5, 7},    {32, 64},  {1000, 2}, {33, 17}};
    FOR_EACH_TYPE(t)
    for (int which = 0; which < PRODUCTS; which++) {
        const product *p = products + which;
        operands whole = make_operands(t, p), split = make_operands(t, p);
        multiply(p, &whole, 0, p->m, 0, p->n);
        for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
            matrix fresh = filled(t, p->m, p->n, noise);
            memcpy(split.c.data, fresh.data, (size_t)(p->m * fresh.ld) * t->size);
            for (int64_t i = 0; i < p->m; i += steps[s][0])
                for (int64_t j = 0; j < p->n; j += steps[s][1])
                    multiply(p, &split, i, p->m - i < steps[s][0] ? p->m - i : steps[s][0], j,
                             p->n - j < steps[s][1] ? p->n - j : steps[s][1]);
            assert_memory_equal(whole.c.data, split.c.data, (size_t)(p->m * fresh.ld) * t->size);
            release(&fresh);
        }
        RELEASE(&whole.a, &whole.b, &whole.c, &split.a, &split.b, &split.c);
    }
}

static void product_has_the_same_bits_for_transposed_storage(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int64_t n = 1; n < 40; n += 3) {
        matrix a = filled(t, 37, 140, noise), at_ = new_matrix(t, 140, 37);
        matrix b = filled(t, 140, n, other_noise), bt = new_matrix(t, n, 140);
        matrix c = new_matrix(t, 37, n), ct = new_matrix(t, 37, n);
        for (int64_t k = 0; k < 140; k++) {
            for (int64_t i = 0; i < 37; i++) put(&at_, k, i, at(&a, i, k));
            for (int64_t j = 0; j < n; j++) put(&bt, j, k, at(&b, k, j));
        }
        t->gemm(37, n, 140, 1, a.data, a.ld, 1, b.data, b.ld, 1, 0, c.data, c.ld);
        t->gemm(37, n, 140, 1, at_.data, 1, at_.ld, bt.data, 1, bt.ld, 0, ct.data, ct.ld);
        assert_memory_equal(c.data, ct.data, (size_t)(37 * c.ld) * t->size);
        RELEASE(&a, &at_, &b, &bt, &c, &ct);
    }
}

static void product_accepts_broadcast_and_negative_strides(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        /* Every row of A is (1, 1, ..., 1) through stride 0; B is read backwards. */
        matrix a = filled(t, 1, 1, one), b = filled(t, 1, 50, noise), c = new_matrix(t, 6, 5);
        t->gemm(6, 5, 10, 1, a.data, 0, 0, (char *)b.data + 49 * t->size, -5, -1, 0, c.data, c.ld);
        for (int64_t i = 0; i < 6; i++)
            for (int64_t j = 0; j < 5; j++) {
                long double sum = 0;
                for (int64_t k = 0; k < 10; k++) sum += at(&b, 0, 49 - 5 * k - j);
                assert_at_most(fabsl(at(&c, i, j) - sum), 100 * t->eps, "strided product", t, i, j);
            }
        RELEASE(&a, &b, &c);
    }
}

static void product_with_beta_zero_ignores_what_c_held(void **state)
{
    (void)state;
    static const int64_t shape[][2] = {{1, 9}, {9, 1}, {9, 9}};
    FOR_EACH_TYPE(t)
    for (int s = 0; s < 3; s++)
        for (int64_t k = 0; k < 6; k += 5) {
            matrix a = filled(t, shape[s][0], k, one), b = filled(t, k, shape[s][1], one);
            matrix c = new_matrix(t, shape[s][0], shape[s][1]);
            for (int64_t i = 0; i < c.rows; i++)
                for (int64_t j = 0; j < c.cols; j++) put(&c, i, j, NAN);
            t->gemm(c.rows, c.cols, k, 1, a.data, a.ld, 1, b.data, b.ld, 1, 0, c.data, c.ld);
            for (int64_t i = 0; i < c.rows; i++)
                for (int64_t j = 0; j < c.cols; j++) assert_true(at(&c, i, j) == (long double)k);
            RELEASE(&a, &b, &c);
        }
}

static void product_keeps_nan_in_its_own_row(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        matrix a = filled(t, 7, 7, noise), b = filled(t, 7, 7, noise), c = new_matrix(t, 7, 7);
        put(&a, 5, 3, NAN);
        t->gemm(7, 7, 7, 1, a.data, a.ld, 1, b.data, b.ld, 1, 0, c.data, c.ld);
        for (int64_t i = 0; i < 7; i++)
            for (int64_t j = 0; j < 7; j++) assert_int_equal(isnan(at(&c, i, j)) != 0, i == 5);
        RELEASE(&a, &b, &c);
    }
}

/* --- LU --- */

/* max |P A - L U| from the factors and pivots that getrf left. */
static long double lu_error(const matrix *a, const matrix *lu, const int *piv)
{
    matrix pa = copy_of(a);
    long double worst = 0;
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            long double v = at(&pa, i, j);
            put(&pa, i, j, at(&pa, piv[i] - 1, j));
            put(&pa, piv[i] - 1, j, v);
        }
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < a->cols; j++) {
            long double sum = at(&pa, i, j);
            for (int64_t k = 0; k <= i && k <= j; k++) sum -= (k == i ? 1 : at(lu, i, k)) * at(lu, k, j);
            worst = fmaxl(worst, fabsl(sum));
        }
    release(&pa);
    return worst;
}

static void lu_multiplies_back_with_multipliers_at_most_one(void **state)
{
    (void)state;
    int piv[100];
    FOR_EACH_TYPE(t)
    for (int s = 0; s < SHAPES; s++)
        for (int64_t n = 0; n <= 100; n = n * 2 + 1) {
            matrix a = filled(t, n, n, shapes[s]), lu = copy_of(&a);
            int info = t->getrf(n, lu.data, lu.ld, piv);
            for (int64_t i = 0; i < n; i++) {
                assert_true(piv[i] > i && piv[i] <= n);
                for (int64_t j = 0; j < i; j++) assert_true(fabsl(at(&lu, i, j)) <= 1);
                /* info is the first zero on U's diagonal. */
                if (at(&lu, i, i) == 0) assert_true(info > 0 && info <= i + 1);
            }
            assert_true(info == 0 || at(&lu, info - 1, info - 1) == 0);
            assert_at_most(lu_error(&a, &lu, piv), (long double)(4 * n) * t->eps * largest(&a), "P A - L U",
                           t, n, s);
            RELEASE(&a, &lu);
        }
}

static void lu_chooses_the_pivots_that_lapack_chooses(void **state)
{
    (void)state;
    static const long double values[] = {1, 2, 3, 4, 5, 6, 7, 8, 10};
    FOR_EACH_TYPE(t)
    {
        int piv[3];
        matrix a = new_matrix(t, 3, 3);
        for (int i = 0; i < 9; i++) put(&a, i / 3, i % 3, values[i]);
        assert_int_equal(t->getrf(3, a.data, a.ld, piv), 0);
        /* By hand: 7 first, then 2 - 8/7 = 6/7 against 5 - 32/7 = 3/7. */
        assert_int_equal(piv[0], 3);
        assert_int_equal(piv[1], 3);
        assert_int_equal(piv[2], 3);
        assert_at_most(fabsl(at(&a, 1, 1) - 6 / 7.0L), 4 * t->eps, "u11", t, 3, 3);
        assert_at_most(fabsl(at(&a, 2, 2) + 0.5L), 16 * t->eps, "u22", t, 3, 3);
        release(&a);
    }
}

static void solving_finds_a_known_solution(void **state)
{
    (void)state;
    int piv[100];
    FOR_EACH_TYPE(t)
    for (int64_t n = 0; n <= 100; n += n < 5 ? 1 : 19)
        for (int64_t nrhs = 0; nrhs <= 6; nrhs += 3)
            for (int transpose = 0; transpose < 2; transpose++) {
                matrix a = filled(t, n, n, dominant), x = filled(t, n, nrhs, other_noise),
                       b = new_matrix(t, n, nrhs);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < nrhs; j++) {
                        long double sum = 0;
                        for (int64_t k = 0; k < n; k++)
                            sum += (transpose ? at(&a, k, i) : at(&a, i, k)) * at(&x, k, j);
                        put(&b, i, j, sum);
                    }
                assert_int_equal(t->getrf(n, a.data, a.ld, piv), 0);
                assert_int_equal(t->getrs(n, nrhs, a.data, a.ld, piv, b.data, b.ld, transpose), 0);
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < nrhs; j++)
                        assert_at_most(fabsl(at(&b, i, j) - at(&x, i, j)), 200 * t->eps, "solution", t, n,
                                       nrhs);
                RELEASE(&a, &x, &b);
            }
}

static void solving_needs_pivoting_and_gets_it(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int transpose = 0; transpose < 2; transpose++) {
        /* A cyclic shift has zeros on the diagonal all the way. */
        enum { N = 70 };
        int piv[N];
        matrix a = filled(t, N, N, zero), b = new_matrix(t, N, 1);
        for (int64_t i = 0; i < N; i++) {
            put(&a, i, (i + 1) % N, 1);
            put(&b, i, 0, (long double)i);
        }
        assert_int_equal(t->getrf(N, a.data, a.ld, piv), 0);
        assert_int_equal(t->getrs(N, 1, a.data, a.ld, piv, b.data, b.ld, transpose), 0);
        for (int64_t i = 0; i < N; i++)
            assert_true(at(&b, i, 0) == (long double)((transpose ? i + 1 : i + N - 1) % N));
        RELEASE(&a, &b);
    }
}

static void solving_a_hilbert_system_has_a_small_residual(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        enum { N = 12 };
        int piv[N];
        matrix a = filled(t, N, N, hilbert), lu = copy_of(&a), b = filled(t, N, 1, one), x = copy_of(&b);
        assert_int_equal(t->getrf(N, lu.data, lu.ld, piv), 0);
        assert_int_equal(t->getrs(N, 1, lu.data, lu.ld, piv, x.data, x.ld, 0), 0);
        assert_at_most(product_error(&b, &a, NULL, &x, 0), N * 4 * t->eps * (1 + largest(&x)), "b - A x", t,
                       N, 1);
        RELEASE(&a, &lu, &b, &x);
    }
}

static void a_singular_matrix_is_reported_and_leaves_the_right_hand_side(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        int piv[40];
        matrix a = filled(t, 40, 40, identity), b = filled(t, 40, 2, noise), before = copy_of(&b);
        put(&a, 36, 36, 0);
        assert_int_equal(t->getrf(40, a.data, a.ld, piv), 37);
        assert_int_equal(t->getrs(40, 2, a.data, a.ld, piv, b.data, b.ld, 0), 37);
        assert_int_equal(t->getrs(40, 2, a.data, a.ld, piv, b.data, b.ld, 1), 37);
        assert_memory_equal(b.data, before.data, (size_t)(40 * b.ld) * t->size);
        RELEASE(&a, &b, &before);
    }
}

/* --- Cholesky --- */

static void cholesky_multiplies_back_and_leaves_the_upper_triangle(void **state)
{
    (void)state;
    static const entry definite[] = {lehmer, second_difference, identity};
    FOR_EACH_TYPE(t)
    for (int s = 0; s < 3; s++)
        for (int64_t n = 0; n <= 110; n += n < 4 ? 1 : 31) {
            matrix a = filled(t, n, n, definite[s]), l = copy_of(&a);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = i + 1; j < n; j++) put(&l, i, j, GUARD);
            assert_int_equal(t->potrf(n, l.data, l.ld), 0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = i + 1; j < n; j++) {
                    assert_true(at(&l, i, j) == GUARD);
                    put(&l, i, j, 0);
                }
            assert_at_most(product_error(&a, &l, NULL, &l, 1), (long double)(n + 4) * t->eps * largest(&a),
                           "A - L L^T", t, n, s);
            RELEASE(&a, &l);
        }
}

static void cholesky_reports_the_first_minor_that_is_not_positive(void **state)
{
    (void)state;
    static const int64_t bad[] = {0, 1, 31, 32, 50, 69};
    static const long double values[] = {0, -1, NAN};
    FOR_EACH_TYPE(t)
    for (int b = 0; b < 6; b++)
        for (int v = 0; v < 3; v++) {
            matrix a = filled(t, 70, 70, identity);
            put(&a, bad[b], bad[b], values[v]);
            assert_int_equal(t->potrf(70, a.data, a.ld), bad[b] + 1);
            release(&a);
        }
}

/* --- triangular solve --- */

static void triangular_solve_undoes_the_product_for_every_kind(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int kind = 0; kind < 8; kind++)
        for (int64_t n = 0; n <= 70; n += n < 4 ? 1 : 22) {
            int lower = kind & 1, transpose = kind >> 1 & 1, unit = kind >> 2;
            matrix a = new_matrix(t, n, n), x = filled(t, n, 5, noise), b = new_matrix(t, n, 5);
            /* What may not be read is NaN. */
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < n; j++)
                    put(&a, i, j,
                        i == j             ? (unit ? NAN : 2 + noise(i, j))
                        : (i > j) == lower ? noise(i, j) / (long double)n
                                           : NAN);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < 5; j++) {
                    long double sum = 0;
                    for (int64_t k = 0; k < n; k++) {
                        int64_t r = transpose ? k : i, c = transpose ? i : k;
                        if (r == c)
                            sum += (unit ? 1 : at(&a, r, c)) * at(&x, k, j);
                        else if ((r > c) == lower)
                            sum += at(&a, r, c) * at(&x, k, j);
                    }
                    put(&b, i, j, sum);
                }
            assert_int_equal(t->trsm(lower, transpose, unit, n, 5, a.data, a.ld, b.data, b.ld), 0);
            for (int64_t i = 0; i < n; i++)
                for (int64_t j = 0; j < 5; j++)
                    assert_at_most(fabsl(at(&b, i, j) - at(&x, i, j)), 40 * t->eps, "triangle", t, n, kind);
            RELEASE(&a, &x, &b);
        }
}

static void triangular_solve_reports_a_zero_on_the_diagonal(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        matrix a = filled(t, 6, 6, identity), b = filled(t, 6, 2, noise), before = copy_of(&b);
        put(&a, 3, 3, 0);
        put(&a, 5, 5, 0);
        assert_int_equal(t->trsm(1, 0, 0, 6, 2, a.data, a.ld, b.data, b.ld), 4);
        assert_memory_equal(b.data, before.data, (size_t)(6 * b.ld) * t->size);
        assert_int_equal(t->trsm(1, 0, 1, 6, 2, a.data, a.ld, b.data, b.ld), 0);
        RELEASE(&a, &b, &before);
    }
}

/* --- QR --- */

static void check_qr(const type *t, const matrix *a)
{
    int64_t m = a->rows, n = a->cols, k = m < n ? m : n;
    matrix q = new_matrix(t, m, k), r = new_matrix(t, k, n);
    void *work = new_work(t, gd__dense_qr_work(m, n));
    assert_int_equal(t->qr(m, n, a->data, a->ld, q.data, q.ld, r.data, r.ld, work), 0);
    for (int64_t i = 0; i < k; i++)
        for (int64_t j = 0; j < i; j++) assert_true(at(&r, i, j) == 0);
    assert_at_most(orthogonality(&q, 0), 10 * sqrtl((long double)(m + 1)) * t->eps, "Q^T Q - 1", t, m, n);
    long double bound = 10 * sqrtl((long double)(m + 1)) * t->eps * largest(&r) + t->tiny * t->eps;
    assert_at_most(product_error(a, &q, NULL, &r, 0), bound, "A - Q R", t, m, n);
    free(work);
    RELEASE(&q, &r);
}

static void qr_multiplies_back_with_orthonormal_q(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int s = 0; s < SHAPES; s++)
        for (int z = 0; z < SIZES; z++) {
            matrix a = filled(t, sizes[z][0], sizes[z][1], shapes[s]);
            check_qr(t, &a);
            release(&a);
        }
}

static void qr_survives_squares_that_overflow_or_underflow(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    for (int large = 0; large < 2; large++) {
        matrix a = extreme(t, 12, 9, large);
        check_qr(t, &a);
        release(&a);
    }
}

static void qr_has_the_signs_of_lapack(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        /* (3, 4) reflects to (-5, 0); the last row of a square matrix has no tail and keeps its sign. */
        matrix a = filled(t, 2, 1, one), q = new_matrix(t, 2, 1), r = new_matrix(t, 1, 1);
        void *work = new_work(t, gd__dense_qr_work(2, 1));
        put(&a, 0, 0, 3);
        put(&a, 1, 0, 4);
        t->qr(2, 1, a.data, a.ld, q.data, q.ld, r.data, r.ld, work);
        assert_at_most(fabsl(at(&r, 0, 0) + 5), 8 * t->eps, "r", t, 2, 1);
        assert_at_most(fabsl(at(&q, 0, 0) + 0.6L), 2 * t->eps, "q", t, 2, 1);
        put(&a, 0, 0, -3);
        t->qr(1, 1, a.data, a.ld, q.data, q.ld, r.data, r.ld, work);
        assert_true(at(&r, 0, 0) == -3 && at(&q, 0, 0) == 1);
        free(work);
        RELEASE(&a, &q, &r);
    }
}

/* --- everything --- */

static void nan_and_infinity_end_without_an_endless_loop(void **state)
{
    (void)state;
    static const long double bad[] = {NAN, INFINITY, -INFINITY};
    enum { N = 36 };
    FOR_EACH_TYPE(t)
    for (int b = 0; b < 3; b++)
        for (int64_t where = 0; where < N * N; where += 7 * N + 5) {
            int piv[N];
            matrix a = filled(t, N, N, lehmer);
            put(&a, where / N, where % N, bad[b]);
            put(&a, where % N, where / N, bad[b]);
            matrix lu = copy_of(&a), l = copy_of(&a), x = filled(t, N, 2, one), q = new_matrix(t, N, N);
            matrix r = new_matrix(t, N, N), w = new_matrix(t, 1, N);
            void *work = new_work(t, gd__dense_svd_work(N, N));
            t->getrf(N, lu.data, lu.ld, piv);
            for (int i = 0; i < N; i++) assert_in_range((uintmax_t)piv[i], i + 1, N);
            t->getrs(N, 2, lu.data, lu.ld, piv, x.data, x.ld, 0);
            t->potrf(N, l.data, l.ld);
            t->trsm(1, 1, 0, N, 2, a.data, a.ld, x.data, x.ld);
            assert_int_equal(t->qr(N, N, a.data, a.ld, q.data, q.ld, r.data, r.ld, work), 0);
            /* The damage shows. */
            assert_true(!isfinite((double)product_error(&a, &q, NULL, &r, 0)));
            assert_true(t->eigh(N, a.data, a.ld, w.data, q.data, q.ld, work) > 0);
            assert_true(isnan(at(&w, 0, 0)) && isnan(at(&q, N - 1, N - 1)));
            put(&w, 0, N - 1, 0);
            assert_true(t->svd(N, N, a.data, a.ld, q.data, q.ld, w.data, r.data, r.ld, work) > 0);
            assert_true(isnan(at(&w, 0, N - 1)) && isnan(at(&r, 0, 0)));
            free(work);
            RELEASE(&a, &lu, &l, &x, &q, &r, &w);
        }
}

static void one_by_one_matrices_are_exact(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        int piv[1];
        matrix a = filled(t, 1, 1, one), x = filled(t, 1, 1, one), q = new_matrix(t, 1, 1),
               w = new_matrix(t, 1, 1);
        void *work = new_work(t, gd__dense_svd_work(1, 1));
        put(&a, 0, 0, -4);
        assert_int_equal(t->eigh(1, a.data, a.ld, w.data, q.data, q.ld, work), 0);
        assert_true(at(&w, 0, 0) == -4 && at(&q, 0, 0) == 1);
        assert_int_equal(t->svd(1, 1, a.data, a.ld, q.data, q.ld, w.data, x.data, x.ld, work), 0);
        assert_true(at(&w, 0, 0) == 4 && at(&q, 0, 0) * at(&x, 0, 0) == -1);
        put(&x, 0, 0, 8);
        assert_int_equal(t->getrf(1, a.data, a.ld, piv), 0);
        assert_int_equal(t->getrs(1, 1, a.data, a.ld, piv, x.data, x.ld, 1), 0);
        assert_true(at(&x, 0, 0) == -2 && piv[0] == 1);
        assert_int_equal(t->potrf(1, a.data, a.ld), 1);
        put(&a, 0, 0, 9);
        assert_int_equal(t->potrf(1, a.data, a.ld), 0);
        assert_true(at(&a, 0, 0) == 3);
        free(work);
        RELEASE(&a, &x, &q, &w);
    }
}

static void empty_matrices_touch_nothing(void **state)
{
    (void)state;
    FOR_EACH_TYPE(t)
    {
        assert_int_equal(t->gemm(0, 0, 0, 1, NULL, 1, 1, NULL, 1, 1, 0, NULL, 1), 0);
        assert_int_equal(t->getrf(0, NULL, 1, NULL), 0);
        assert_int_equal(t->getrs(0, 2, NULL, 1, NULL, NULL, 1, 1), 0);
        assert_int_equal(t->potrf(0, NULL, 1), 0);
        assert_int_equal(t->trsm(1, 0, 0, 0, 0, NULL, 1, NULL, 1), 0);
        assert_int_equal(t->qr(0, 3, NULL, 3, NULL, 1, NULL, 3, NULL), 0);
        assert_int_equal(t->qr(3, 0, NULL, 1, NULL, 1, NULL, 1, NULL), 0);
        assert_int_equal(t->eigh(0, NULL, 1, NULL, NULL, 1, NULL), 0);
        assert_int_equal(t->svd(0, 3, NULL, 3, NULL, 1, NULL, NULL, 3, NULL), 0);
        assert_int_equal(t->svd(3, 0, NULL, 1, NULL, 1, NULL, NULL, 1, NULL), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(product_equals_the_triple_loop_for_any_strides),
        cmocka_unit_test(product_has_the_same_bits_however_rows_and_columns_are_split),
        cmocka_unit_test(product_has_the_same_bits_for_transposed_storage),
        cmocka_unit_test(product_accepts_broadcast_and_negative_strides),
        cmocka_unit_test(product_with_beta_zero_ignores_what_c_held),
        cmocka_unit_test(product_keeps_nan_in_its_own_row),
        cmocka_unit_test(lu_multiplies_back_with_multipliers_at_most_one),
        cmocka_unit_test(lu_chooses_the_pivots_that_lapack_chooses),
        cmocka_unit_test(solving_finds_a_known_solution),
        cmocka_unit_test(solving_needs_pivoting_and_gets_it),
        cmocka_unit_test(solving_a_hilbert_system_has_a_small_residual),
        cmocka_unit_test(a_singular_matrix_is_reported_and_leaves_the_right_hand_side),
        cmocka_unit_test(cholesky_multiplies_back_and_leaves_the_upper_triangle),
        cmocka_unit_test(cholesky_reports_the_first_minor_that_is_not_positive),
        cmocka_unit_test(triangular_solve_undoes_the_product_for_every_kind),
        cmocka_unit_test(triangular_solve_reports_a_zero_on_the_diagonal),
        cmocka_unit_test(qr_multiplies_back_with_orthonormal_q),
        cmocka_unit_test(qr_survives_squares_that_overflow_or_underflow),
        cmocka_unit_test(qr_has_the_signs_of_lapack),
        cmocka_unit_test(nan_and_infinity_end_without_an_endless_loop),
        cmocka_unit_test(one_by_one_matrices_are_exact),
        cmocka_unit_test(empty_matrices_touch_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
