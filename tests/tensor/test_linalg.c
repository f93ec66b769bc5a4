/* Factorisations and solvers: what defines each is checked in long double (A = L L^T, A V = V diag(w), ...), with
 * batches, names, zero sizes, bits on any number of threads, gradients to second order, and errors. */
#include "support/support.h"
#include "tensor/cpu/dense.h"

#include <math.h>

/* ---- making matrices ---- */

/* Noise of any shape; `diagonal` is added to the last two axes' diagonal, which makes a matrix regular. */
static gd_tensor *noise(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int ndim, const int64_t *shape,
                        double diagonal)
{
    int64_t n = 1;
    for (int i = 0; i < ndim; i++) n *= shape[i];
    double *values = malloc((size_t)(n + 1) * sizeof *values);
    if (!values) abort();
    for (int64_t i = 0; i < n; i++) {
        values[i] = 2 * random_unit(state) - 1;
        if (ndim > 1 && i / shape[ndim - 1] % shape[ndim - 2] == i % shape[ndim - 1]) values[i] += diagonal;
    }
    gd_tensor *t = gd_from_f64(ctx, dtype, ndim, shape, values);
    free(values);
    return t;
}

static gd_tensor *positive(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int ndim, const int64_t *shape)
{
    gd_tensor *a = noise(ctx, state, dtype, ndim, shape, 2);
    return gd_matmul(a, gd_transpose(a, -1, -2));
}

/* ---- one matrix of a batch in long double ---- */

typedef struct view {
    const array *a;
    int64_t rows, cols, start;
} view;

static view matrix_of(const array *a, int64_t batch)
{
    int64_t rows = a->size[a->ndim - 2], cols = a->size[a->ndim - 1];
    return (view){a, rows, cols, batch * rows * cols};
}

static long double at(view m, int64_t i, int64_t j) { return m.a->v[m.start + i * m.cols + j]; }

static void assert_close(long double got, long double want, long double bound, const char *what)
{
    if (!(fabsl(got - want) <= bound)) fail_msg("%s: wanted %.12Lg, got %.12Lg", what, want, got);
}

/* a = x y, or x y^T, or with a diagonal between */
static void check_factors(view a, view x, view y, bool transposed, const long double *middle,
                          long double bound)
{
    for (int64_t i = 0; i < a.rows; i++)
        for (int64_t j = 0; j < a.cols; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < x.cols; k++)
                sum += at(x, i, k) * (middle ? middle[k] : 1) * (transposed ? at(y, j, k) : at(y, k, j));
            assert_close(sum, at(a, i, j), bound, "product of the factors");
        }
}

/* Orthonormal columns, or rows. */
static void check_orthonormal(view q, bool rows, long double bound)
{
    int64_t count = rows ? q.rows : q.cols, length = rows ? q.cols : q.rows;
    for (int64_t i = 0; i < count; i++)
        for (int64_t j = 0; j <= i; j++) {
            long double sum = 0;
            for (int64_t k = 0; k < length; k++)
                sum += rows ? at(q, i, k) * at(q, j, k) : at(q, k, i) * at(q, k, j);
            assert_close(sum, i == j, bound, "orthonormality");
        }
}

/* The first component at least half as large as the largest is positive. */
static void check_signs(view v)
{
    for (int64_t j = 0; j < v.cols; j++) {
        long double largest = 0;
        for (int64_t i = 0; i < v.rows; i++) largest = fmaxl(largest, fabsl(at(v, i, j)));
        int64_t i = 0;
        while (2 * fabsl(at(v, i, j)) < largest) i++;
        assert_true(at(v, i, j) > 0);
    }
}

static const int64_t orders[] = {1, 2, 3, 5, 8, 17, 40};
static const gd_dtype reals[] = {GD_F64, GD_F32};

static void cholesky_gives_a_lower_factor(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 1;
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < COUNT_OF(orders); s++) {
            gd_scope_begin(ctx);
            int64_t n = orders[s];
            gd_tensor *a = positive(ctx, &state, reals[d], 3, (int64_t[]){3, n, n}), *l = gd_cholesky(a);
            assert_no_error(ctx);
            array x = array_of(a), y = array_of(l);
            for (int64_t b = 0; b < 3; b++) {
                view f = matrix_of(&y, b);
                check_factors(matrix_of(&x, b), f, f, true, NULL,
                              40 * epsilon_of(reals[d]) * (long double)(n * n + 4));
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = i + 1; j < n; j++) assert_true(at(f, i, j) == 0);
            }
            array_free(&x);
            array_free(&y);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void check_qr(gd_ctx *ctx, uint64_t *state, gd_dtype dtype, int64_t rows, int64_t cols)
{
    gd_scope_begin(ctx);
    gd_tensor *a = noise(ctx, state, dtype, 3, (int64_t[]){2, rows, cols}, 0), *q, *r;
    assert_int_equal(gd_qr(a, &q, &r), GD_OK);
    int64_t k = rows < cols ? rows : cols;
    assert_shape(q, 2, rows, k);
    assert_shape(r, 2, k, cols);
    array x = array_of(a), y = array_of(q), z = array_of(r);
    long double bound = 20 * epsilon_of(dtype) * (long double)(rows + cols);
    for (int64_t b = 0; b < 2; b++) {
        view upper = matrix_of(&z, b);
        check_factors(matrix_of(&x, b), matrix_of(&y, b), upper, false, NULL, bound);
        check_orthonormal(matrix_of(&y, b), false, bound);
        for (int64_t i = 0; i < k; i++)
            for (int64_t j = 0; j < i; j++) assert_true(at(upper, i, j) == 0);
    }
    array_free(&x);
    array_free(&y);
    array_free(&z);
    gd_scope_end(ctx);
}

static void qr_gives_orthonormal_columns_and_an_upper_factor(void **unused)
{
    (void)unused;
    static const int64_t shapes[][2] = {{1, 1}, {3, 3}, {5, 2},   {2, 5},    {40, 17}, {17, 40},
                                        {1, 6}, {6, 1}, {90, 70}, {6001, 7}, {700, 43}};
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 2;
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < COUNT_OF(shapes); s++)
            check_qr(ctx, &state, reals[d], shapes[s][0], shapes[s][1]);
    end_context(ctx, &m);
}

/* Tall matrices are factored in blocks; the signs are those of one sweep of reflections, as of small ones. */
static void tall_qr_has_the_signs_of_reflections(void **unused)
{
    (void)unused;
    enum { ROWS = 6001, COLS = 7 };
    gd_ctx *ctx = context(NULL, 1, NULL);
    uint64_t state = 3;
    gd_scope_begin(ctx);
    gd_tensor *a = noise(ctx, &state, GD_F64, 2, (int64_t[]){ROWS, COLS}, 0), *q, *r;
    assert_int_equal(gd_qr(a, &q, &r), GD_OK);
    array x = array_of(a), y = array_of(r);
    int64_t size = gd__dense_qr_work(ROWS, COLS);
    double *room = malloc((size_t)(size + 2 * ROWS * COLS + COLS * COLS) * sizeof *room);
    assert_non_null(room);
    double *in = room + size, *its_q = in + ROWS * COLS, *its_r = its_q + ROWS * COLS;
    for (int i = 0; i < ROWS * COLS; i++) in[i] = (double)x.v[i];
    assert_int_equal(gd__dense_qr_f64(ROWS, COLS, in, COLS, its_q, COLS, its_r, COLS, room), 0);
    for (int i = 0; i < COLS * COLS; i++) assert_true(fabsl(y.v[i] - its_r[i]) < 1e-10L);
    free(room);
    array_free(&x);
    array_free(&y);
    gd_scope_end(ctx);
    gd_ctx_free(ctx);
}

static void eigh_diagonalises_in_ascending_order(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 3;
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < COUNT_OF(orders); s++) {
            gd_scope_begin(ctx);
            int64_t n = orders[s];
            gd_tensor *a = noise(ctx, &state, reals[d], 3, (int64_t[]){3, n, n}, 0), *w, *v;
            a = gd_add(a, gd_transpose(a, -1, -2));
            assert_int_equal(gd_eigh(a, &w, &v), GD_OK);
            assert_shape(w, 3, n);
            array x = array_of(a), y = array_of(w), z = array_of(v);
            long double bound = 20 * epsilon_of(reals[d]) * (long double)(n + 2);
            for (int64_t b = 0; b < 3; b++) {
                view vectors = matrix_of(&z, b);
                check_factors(matrix_of(&x, b), vectors, vectors, true, y.v + b * n, bound * 4);
                check_orthonormal(vectors, false, bound);
                check_signs(vectors);
                for (int64_t i = 1; i < n; i++) assert_true(y.v[b * n + i - 1] <= y.v[b * n + i]);
            }
            array_free(&x);
            array_free(&y);
            array_free(&z);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void check_svd(gd_ctx *ctx, gd_tensor *a)
{
    gd_dtype dtype = gd_tensor_dtype(a);
    int64_t rows = gd_size(a, -2), cols = gd_size(a, -1), k = rows < cols ? rows : cols;
    gd_tensor *u, *s, *vt;
    assert_int_equal(gd_svd(a, &u, &s, &vt), GD_OK);
    assert_no_error(ctx);
    array x = array_of(a), y = array_of(u), w = array_of(s), z = array_of(vt);
    long double bound = 20 * epsilon_of(dtype) * (long double)(rows + cols);
    for (int64_t b = 0; b < gd_numel(a) / rows / cols; b++) {
        check_factors(matrix_of(&x, b), matrix_of(&y, b), matrix_of(&z, b), false, w.v + b * k, bound * 2);
        check_orthonormal(matrix_of(&y, b), false, bound);
        check_orthonormal(matrix_of(&z, b), true, bound);
        check_signs(matrix_of(&y, b));
        for (int64_t i = 0; i < k; i++)
            assert_true(w.v[b * k + i] >= 0 && (i == 0 || w.v[b * k + i] <= w.v[b * k + i - 1]));
    }
    array_free(&x);
    array_free(&y);
    array_free(&w);
    array_free(&z);
}

static void svd_gives_descending_singular_values(void **unused)
{
    (void)unused;
    static const int64_t shapes[][2] = {{1, 1},   {3, 3}, {5, 2}, {2, 5},    {40, 17},
                                        {17, 40}, {1, 6}, {6, 1}, {6001, 7}, {700, 43}};
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 4;
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < COUNT_OF(shapes); s++) {
            gd_scope_begin(ctx);
            check_svd(ctx, noise(ctx, &state, reals[d], 3, (int64_t[]){2, shapes[s][0], shapes[s][1]}, 0));
            gd_scope_end(ctx);
        }
    gd_scope_begin(ctx);
    check_svd(ctx, gd_outer(VECTOR(ctx, 1, 2, 3), VECTOR(ctx, 1, -1, 0, 2))); /* rank 1 */
    check_svd(ctx, gd_zeros(ctx, GD_F64, 2, (int64_t[]){3, 2}));
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

/* ---- solving ---- */

static void check_solution(const array *a, const array *x, const array *b, long double eps)
{
    for (int64_t k = 0; k < a->numel / (a->size[a->ndim - 1] * a->size[a->ndim - 1]); k++) {
        view m = matrix_of(a, k), y = matrix_of(x, k);
        check_factors(matrix_of(b, k), m, y, false, NULL, 200 * eps * (long double)(m.rows + 2));
    }
}

static void solve_finds_what_the_matrix_maps_to_the_right_side(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 5;
    for (int d = 0; d < 2; d++)
        for (int s = 0; s < COUNT_OF(orders); s++)
            for (int64_t columns = 1; columns <= 4; columns += 3) {
                gd_scope_begin(ctx);
                int64_t n = orders[s];
                gd_tensor *a = noise(ctx, &state, reals[d], 3, (int64_t[]){3, n, n}, 3);
                gd_tensor *b = noise(ctx, &state, reals[d], 3, (int64_t[]){3, n, columns}, 0);
                gd_tensor *x = gd_solve(a, b), *one = gd_inverse(a);
                gd_tensor *eye = gd_expand(gd_eye(ctx, reals[d], n, n), 3, (int64_t[]){3, n, n});
                assert_no_error(ctx);
                array p = array_of(a), q = array_of(x), r = array_of(b), i = array_of(one), e = array_of(eye);
                check_solution(&p, &q, &r, epsilon_of(reals[d]));
                check_solution(&p, &i, &e, epsilon_of(reals[d]));
                array_free(&p);
                array_free(&q);
                array_free(&r);
                array_free(&i);
                array_free(&e);
                gd_scope_end(ctx);
            }
    end_context(ctx, &m);
}

static void right_sides_are_vectors_matrices_or_batches(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = MATRIX(ctx, 2, 2, 0, 2, 4, 0); /* needs a pivot */
    assert_shape(gd_solve(a, VECTOR(ctx, 2, 4)), 2);
    assert_values(gd_solve(a, VECTOR(ctx, 2, 4)), 1, 1);
    assert_values(gd_solve(a, MATRIX(ctx, 2, 1, 2, 4)), 1, 1);
    gd_tensor *b = gd_from_f64(ctx, GD_F64, 3, (int64_t[]){2, 2, 1}, (double[]){2, 4, 4, 8});
    assert_shape(gd_solve(a, b), 2, 2, 1); /* one matrix, a batch of right sides */
    assert_values(gd_solve(a, b), 1, 1, 2, 2);
    gd_tensor *stack = gd_stack((gd_tensor *[]){a, gd_mul_scalar(a, 2)}, 2, 0, NULL);
    assert_shape(gd_solve(stack, VECTOR(ctx, 2, 4)), 2, 2);
    assert_values(gd_solve(stack, VECTOR(ctx, 2, 4)), 1, 1, 0.5, 0.5);
    assert_shape(gd_solve(stack, MATRIX(ctx, 2, 2, 2, 4, 4, 8)), 2, 2); /* a vector for each matrix */
    assert_values(gd_solve(stack, MATRIX(ctx, 2, 2, 2, 4, 4, 8)), 1, 1, 1, 1);
    assert_values(gd_inverse(a), 0, 0.25, 0.5, 0);
    assert_values(gd_logdet(a), log(8));
    assert_values(gd_logdet(stack), log(8), log(32));
    assert_values(gd_logdet(MATRIX(ctx, 2, 2, 1, 2, 2, 4)), -INFINITY);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* The triangle that is read, transposed or not, times x must be b. */
static void triangular_solve_reads_one_triangle(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    uint64_t state = 6;
    for (int flags = 0; flags < 16; flags++)
        for (int s = 0; s < 5; s++) {
            bool lower = flags & 1, transposed = flags & 2, unit = flags & 4;
            gd_dtype dtype = reals[flags >> 3];
            int64_t n = orders[s];
            gd_scope_begin(ctx);
            gd_tensor *a = noise(ctx, &state, dtype, 3, (int64_t[]){2, n, n}, 3);
            gd_tensor *b = noise(ctx, &state, dtype, 3, (int64_t[]){2, n, 3}, 0);
            gd_tensor *x = gd_triangular_solve(a, b, lower, transposed, unit);
            assert_no_error(ctx);
            array p = array_of(a), q = array_of(x), r = array_of(b), t = array_new(3, p.size);
            for (int64_t k = 0; k < 2; k++)
                for (int64_t i = 0; i < n; i++)
                    for (int64_t j = 0; j < n; j++) {
                        long double v = lower ? (j <= i) : (j >= i);
                        v *= i == j && unit ? 1 : at(matrix_of(&p, k), i, j);
                        t.v[k * n * n + (transposed ? j * n + i : i * n + j)] = v;
                    }
            long double scale = powl(2, (long double)(unit ? n : 1)); /* unit triangles are ill-conditioned */
            check_solution(&t, &q, &r, epsilon_of(dtype) * scale);
            array_free(&p);
            array_free(&q);
            array_free(&r);
            array_free(&t);
            gd_scope_end(ctx);
        }
    end_context(ctx, &m);
}

static void halves_are_factored_in_single_precision(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_cast(MATRIX(ctx, 2, 2, 4, 2, 2, 5), GD_F16), *l = gd_cholesky(a);
    assert_int_equal(gd_tensor_dtype(l), GD_F16);
    assert_values(l, 2, 0, 1, 2);
    assert_values(gd_solve(gd_cast(a, GD_BF16), gd_cast(VECTOR(ctx, 8, 12), GD_BF16)), 1, 2);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void empty_matrices_have_empty_factors(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *none = gd_zeros(ctx, GD_F64, 2, (int64_t[]){0, 0}),
              *flat = gd_zeros(ctx, GD_F64, 2, (int64_t[]){0, 3});
    gd_tensor *no_batch = gd_zeros(ctx, GD_F64, 3, (int64_t[]){0, 2, 2}), *q, *r, *s;
    assert_shape(gd_cholesky(none), 0, 0);
    assert_shape(gd_cholesky(no_batch), 0, 2, 2);
    assert_shape(gd_solve(none, flat), 0, 3);
    assert_shape(gd_inverse(no_batch), 0, 2, 2);
    assert_values(gd_logdet(none), 0); /* the determinant of nothing is 1 */
    assert_shape(gd_logdet(no_batch), 0);
    assert_int_equal(gd_qr(flat, &q, &r), GD_OK);
    assert_shape(q, 0, 0);
    assert_shape(r, 0, 3);
    assert_int_equal(gd_eigh(none, &q, &r), GD_OK);
    assert_shape(q, 0);
    assert_int_equal(gd_svd(flat, &q, &s, &r), GD_OK);
    assert_shape(s, 0);
    assert_shape(r, 0, 3);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

static void rows_and_columns_keep_their_names(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    uint64_t state = 7;
    const char *labels[] = {"x", "y", "z"};
    gd_tensor *a = gd_rename(positive(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 3}), "b, i, j"), *q, *r, *s;
    a = gd_with_labels(a, "i", labels);
    gd_tensor *l = gd_cholesky(a);
    assert_string_equal(gd_axis_name(l, 0), "b");
    assert_string_equal(gd_axis_name(l, 1), "i");
    assert_string_equal(gd_axis_label(l, 1, 2), "z");
    assert_null(gd_axis_name(l, 2));
    assert_int_equal(gd_qr(a, &q, &r), GD_OK);
    assert_string_equal(gd_axis_name(q, 1), "i");
    assert_null(gd_axis_name(q, 2));
    assert_null(gd_axis_name(r, 1));
    assert_string_equal(gd_axis_name(r, 2), "j");
    assert_int_equal(gd_svd(a, &q, &s, &r), GD_OK);
    assert_string_equal(gd_axis_name(s, 0), "b");
    assert_string_equal(gd_axis_name(r, 2), "j");
    assert_int_equal(gd_eigh(a, &s, &q), GD_OK);
    assert_string_equal(gd_axis_name(s, 0), "b");
    assert_string_equal(gd_axis_name(q, 1), "i");
    gd_tensor *inverse = gd_inverse(a);
    assert_string_equal(gd_axis_name(inverse, 1), "j");
    assert_string_equal(gd_axis_name(inverse, 2), "i");
    assert_string_equal(gd_axis_label(inverse, 2, 0), "x");
    gd_tensor *x = gd_solve(a, gd_rename(noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 4}, 0), "b, i, k"));
    assert_string_equal(gd_axis_name(x, 1), "j");
    assert_string_equal(gd_axis_name(x, 2), "k");
    assert_string_equal(gd_axis_name(gd_logdet(a), 0), "b");
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void labelled_right_sides_are_put_in_order(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    const char *xy[] = {"x", "y"}, *yx[] = {"y", "x"};
    gd_tensor *a = gd_with_labels(gd_rename(MATRIX(ctx, 2, 2, 1, 0, 0, 2), "row, col"), "row", xy);
    gd_tensor *b = gd_with_labels(gd_rename(VECTOR(ctx, 20, 10), "row"), "row", yx);
    assert_values(gd_solve(a, b), 10, 10);
    assert_values(gd_triangular_solve(a, b, true, false, false), 10, 10);
    assert_no_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- determinism ---- */

static void run_all(gd_ctx *ctx, gd_dtype dtype, char *out, size_t bytes)
{
    uint64_t state = 8;
    int64_t shape[3] = {12, 20, 20};
    gd_scope_begin(ctx);
    gd_tensor *a = noise(ctx, &state, dtype, 3, shape, 3), *p = positive(ctx, &state, dtype, 3, shape);
    gd_tensor *t[10] = {gd_cholesky(p), gd_solve(a, p), gd_triangular_solve(a, p, true, false, false),
                        gd_inverse(a)};
    assert_int_equal(gd_qr(a, &t[4], &t[5]), GD_OK);
    assert_int_equal(gd_eigh(p, NULL, &t[6]), GD_OK);
    assert_int_equal(gd_svd(a, &t[7], NULL, &t[8]), GD_OK);
    t[9] = gd_logdet(a);
    size_t used = 0;
    for (int i = 0; i < 10; i++) {
        size_t size = (size_t)gd_numel(t[i]) * gd_dtype_size(dtype);
        assert_true(used + size <= bytes);
        assert_int_equal(gd_read(t[i], out + used, size), GD_OK);
        used += size;
    }
    assert_no_error(ctx);
    gd_scope_end(ctx);
}

static void bits_do_not_depend_on_the_threads(void **unused)
{
    (void)unused;
    size_t bytes = 10 * 12 * 20 * 20 * sizeof(double);
    char *first = calloc(1, bytes), *other = calloc(1, bytes);
    if (!first || !other) abort();
    for (int d = 0; d < 2; d++)
        for (int round = 0; round < 8; round++) {
            gd_ctx *ctx = context(NULL, 1 << round % 3, NULL);
            run_all(ctx, reals[d], round ? other : first, bytes);
            if (round) assert_memory_equal(first, other, bytes);
            end_context(ctx, NULL);
        }
    free(first);
    free(other);
}

/* ---- gradients ---- */

enum {
    CHOLESKY,
    QR_Q,
    QR_R,
    EIGH_W,
    EIGH_V,
    SVD_U,
    SVD_S,
    SVD_V,
    SVD_ALL,
    SOLVE,
    TRIANGULAR,
    INVERSE,
    LOGDET
};

typedef struct scene {
    int kind, flags;
} scene;

static gd_tensor *function_of(void *user, gd_tensor *const *in, int count)
{
    const scene *s = user;
    gd_tensor *x = NULL, *y = NULL, *z = NULL;
    gd_status status = GD_OK;
    (void)count;
    switch (s->kind) {
    case CHOLESKY: return gd_cholesky(in[0]);
    case SOLVE: return gd_solve(in[0], in[1]);
    case TRIANGULAR: return gd_triangular_solve(in[0], in[1], s->flags & 1, s->flags & 2, s->flags & 4);
    case INVERSE: return gd_inverse(in[0]);
    case LOGDET: return gd_logdet(in[0]);
    case QR_Q:
    case QR_R: status = gd_qr(in[0], &x, &y); return status ? NULL : s->kind == QR_Q ? x : y;
    case EIGH_W:
    case EIGH_V: status = gd_eigh(in[0], &x, &y); return status ? NULL : s->kind == EIGH_W ? x : y;
    default: break;
    }
    if (gd_svd(in[0], &x, &y, &z)) return NULL;
    if (s->kind == SVD_ALL)
        return gd_matmul(gd_mul(x, gd_unsqueeze(gd_square(y), -2, gd_axis_name(x, -2))), z);
    return s->kind == SVD_U ? x : s->kind == SVD_S ? y : z;
}

static void check_gradient(gd_ctx *ctx, scene s, gd_tensor *const *in, int count)
{
    gd_gradcheck_options o = gd_gradcheck_defaults();
    o.order = 2;
    gd_status status = gd_gradcheck(function_of, &s, in, count, &o);
    if (status) print_error("kind %d, flags %d\n", s.kind, s.flags);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
}

static void gradients_of_factorisations_pass_the_check_to_second_order(void **unused)
{
    (void)unused;
    static const int64_t shapes[][3] = {{1, 3, 3}, {2, 2, 2}, {1, 1, 1}, {1, 4, 2}, {1, 2, 4}, {2, 3, 2}};
    uint64_t state = 9;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int s = 0; s < COUNT_OF(shapes); s++)
        for (int round = 0; round < 3; round++)
            for (int kind = CHOLESKY; kind <= SVD_ALL; kind++) {
                bool square = shapes[s][1] == shapes[s][2],
                     symmetric = kind == CHOLESKY || kind == EIGH_W || kind == EIGH_V;
                if (symmetric && !square) continue;
                gd_scope_begin(ctx);
                gd_tensor *a = symmetric ? positive(ctx, &state, GD_F64, 3, shapes[s])
                                         : noise(ctx, &state, GD_F64, 3, shapes[s], 1);
                if (round == 1) a = gd_transpose(gd_copy(gd_transpose(a, 1, 2)), 1, 2);
                if (round == 2) a = gd_rename(gd_copy(a), "batch, i, j");
                check_gradient(ctx, (scene){kind, 0}, &a, 1);
                gd_scope_end(ctx);
            }
    end_context(ctx, NULL);
}

static void gradients_of_solvers_pass_the_check_to_second_order(void **unused)
{
    (void)unused;
    uint64_t state = 10;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int round = 0; round < 4; round++)
        for (int flags = 0; flags < 8; flags++) {
            gd_scope_begin(ctx);
            gd_tensor *a = noise(ctx, &state, GD_F64, round & 1 ? 3 : 2,
                                 round & 1 ? (int64_t[]){2, 3, 3} : (int64_t[]){3, 3}, 3);
            gd_tensor *b = noise(ctx, &state, GD_F64, round & 2 ? 3 : 2,
                                 round & 2 ? (int64_t[]){2, 3, 2} : (int64_t[]){3, 2}, 0);
            check_gradient(ctx, (scene){TRIANGULAR, flags}, (gd_tensor *[]){a, b}, 2);
            if (flags == 0) {
                check_gradient(ctx, (scene){SOLVE, 0}, (gd_tensor *[]){a, b}, 2);
                check_gradient(ctx, (scene){SOLVE, 0}, (gd_tensor *[]){a, VECTOR(ctx, 1, 2, 3)}, 2);
                check_gradient(ctx, (scene){INVERSE, 0}, &a, 1);
                check_gradient(ctx, (scene){LOGDET, 0}, &a, 1);
            }
            gd_scope_end(ctx);
        }
    end_context(ctx, NULL);
}

static void gradients_of_equal_eigenvalues_are_finite(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *a = gd_require_grad(gd_eye(ctx, GD_F64, 3, 3)), *w, *v;
    assert_int_equal(gd_eigh(a, &w, &v), GD_OK);
    gd_tensor *loss = gd_add(gd_sum(gd_square(w), NULL, false), gd_sum(gd_square(v), NULL, false));
    assert_int_equal(gd_backward(loss, NULL, 0), GD_OK);
    assert_values(gd_grad_of(a), 2, 0, 0, 0, 2, 0, 0, 0, 2);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- errors ---- */

static void singular_matrices_are_named(void **unused)
{
    (void)unused;
    memory m = {0};
    gd_ctx *ctx = context(&m, 2, NULL);
    gd_scope_begin(ctx);
    gd_tensor *bad = MATRIX(ctx, 3, 3, 4, 2, 0, 2, 5, 0, 0, 0, -1), *one = gd_eye(ctx, GD_F64, 3, 3), *q, *r,
              *s;
    assert_null(gd_cholesky(bad));
    assert_error(ctx, GD_SINGULAR,
                 "cholesky: the matrix is not positive definite (leading minor 3 of batch 0)");
    assert_null(gd_cholesky(gd_stack((gd_tensor *[]){one, gd_neg(one)}, 2, 0, NULL)));
    assert_error(ctx, GD_SINGULAR,
                 "cholesky: the matrix is not positive definite (leading minor 1 of batch 1)");
    gd_tensor *flat = MATRIX(ctx, 2, 2, 1, 2, 2, 4);
    assert_null(gd_solve(flat, VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SINGULAR, "solve: the matrix is singular (pivot 2 of batch 0 is zero)");
    assert_null(gd_inverse(flat));
    assert_error(ctx, GD_SINGULAR, "inverse: the matrix is singular (pivot 2");
    assert_null(gd_triangular_solve(MATRIX(ctx, 2, 2, 1, 0, 3, 0), VECTOR(ctx, 1, 2), true, false, false));
    assert_error(ctx, GD_SINGULAR,
                 "triangular_solve: the matrix is singular (diagonal 2 of batch 0 is zero)");
    gd_tensor *wrong = gd_copy(one);
    ((double *)gd_data_mut(wrong))[4] = NAN;
    assert_null(gd_cholesky(wrong));
    assert_error(ctx, GD_SINGULAR, "cholesky: the matrix is not positive definite");
    assert_int_equal(gd_eigh(wrong, &q, &r), GD_VALUE);
    assert_error(ctx, GD_VALUE, "eigh: matrix 0 of the batch holds NaN or infinity");
    assert_null(q);
    assert_int_equal(gd_svd(gd_stack((gd_tensor *[]){one, wrong}, 2, 0, NULL), &q, &s, &r), GD_VALUE);
    assert_error(ctx, GD_VALUE, "svd: matrix 1 of the batch holds NaN or infinity");
    assert_null(s);
    assert_int_equal(gd_qr(wrong, &q, &r), GD_OK); /* direct methods carry NaN along */
    assert_non_null(gd_solve(wrong, VECTOR(ctx, 1, 2, 3)));
    assert_non_null(gd_logdet(wrong));
    gd_clear_error(ctx);
    gd_scope_end(ctx);
    end_context(ctx, &m);
}

static void bad_operands_are_named(void **unused)
{
    (void)unused;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *wide = gd_ones(ctx, GD_F64, 2, (int64_t[]){2, 3}), *q, *r;
    gd_tensor *square = gd_eye(ctx, GD_F64, 3, 3), *whole = gd_eye(ctx, GD_I64, 3, 3);
    assert_null(gd_cholesky(wide));
    assert_error(ctx, GD_SHAPE, "cholesky: needs a square matrix, got [2, 3]");
    assert_null(gd_logdet(VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "logdet: needs a matrix, got 1 axes");
    assert_null(gd_inverse(whole));
    assert_error(ctx, GD_DTYPE, "inverse: needs a floating dtype, got i64; cast it first");
    assert_int_equal(gd_eigh(wide, &q, &r), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "eigh: needs a square matrix, got [2, 3]");
    assert_int_equal(gd_qr(whole, &q, &r), GD_DTYPE);
    assert_error(ctx, GD_DTYPE, "qr: needs a floating dtype");
    assert_null(gd_solve(square, VECTOR(ctx, 1, 2)));
    assert_error(ctx, GD_SHAPE, "solve: the matrix has 3 rows, the right side 2; shapes [3, 3] and [2, 1]");
    assert_null(gd_solve(square, NULL));
    assert_error(ctx, GD_ARGUMENT, "solve: an operand is NULL");
    assert_null(gd_cholesky(NULL));
    assert_int_equal(gd_qr(NULL, &q, &r), GD_ARGUMENT);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* Every operator of this file, with gradients; true when all of it worked. */
static bool touch_everything(gd_ctx *ctx)
{
    uint64_t state = 11;
    gd_tensor *a = noise(ctx, &state, GD_F64, 3, (int64_t[]){2, 3, 3}, 3), *q, *r, *s, *w, *v;
    a = gd_require_grad(gd_detach(gd_rename(gd_matmul(a, gd_transpose(a, 1, 2)), "b, i, j")));
    if (!a || gd_qr(a, &q, &r) || gd_eigh(a, &w, &v)) return false;
    gd_tensor *parts[] = {gd_cholesky(a),
                          gd_solve(a, gd_cholesky(a)),
                          gd_triangular_solve(a, a, true, false, false),
                          gd_inverse(a),
                          gd_logdet(a),
                          q,
                          r,
                          w,
                          v};
    gd_tensor *loss = gd_scalar(ctx, GD_F64, 0), *u, *vt;
    for (int i = 0; i < COUNT_OF(parts); i++) loss = gd_add(loss, gd_sum(parts[i], NULL, false));
    if (!loss || gd_svd(a, &u, &s, &vt)) return false;
    loss = gd_add(loss, gd_sum(gd_matmul(u, vt), NULL, false));
    return loss && gd_backward(loss, NULL, 0) == GD_OK;
}

static void every_failed_allocation_is_an_error_without_a_leak(void **unused)
{
    (void)unused;
    fail_each_allocation(2, touch_everything);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cholesky_gives_a_lower_factor),
        cmocka_unit_test(qr_gives_orthonormal_columns_and_an_upper_factor),
        cmocka_unit_test(tall_qr_has_the_signs_of_reflections),
        cmocka_unit_test(eigh_diagonalises_in_ascending_order),
        cmocka_unit_test(svd_gives_descending_singular_values),
        cmocka_unit_test(solve_finds_what_the_matrix_maps_to_the_right_side),
        cmocka_unit_test(right_sides_are_vectors_matrices_or_batches),
        cmocka_unit_test(triangular_solve_reads_one_triangle),
        cmocka_unit_test(halves_are_factored_in_single_precision),
        cmocka_unit_test(empty_matrices_have_empty_factors),
        cmocka_unit_test(rows_and_columns_keep_their_names),
        cmocka_unit_test(labelled_right_sides_are_put_in_order),
        cmocka_unit_test(bits_do_not_depend_on_the_threads),
        cmocka_unit_test(gradients_of_factorisations_pass_the_check_to_second_order),
        cmocka_unit_test(gradients_of_solvers_pass_the_check_to_second_order),
        cmocka_unit_test(gradients_of_equal_eigenvalues_are_finite),
        cmocka_unit_test(singular_matrices_are_named),
        cmocka_unit_test(bad_operands_are_named),
        cmocka_unit_test(every_failed_allocation_is_an_error_without_a_leak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
