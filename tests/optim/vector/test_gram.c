/* The operator J^T J: products and solutions against the matrix, with residuals and without, tall and wide, and what is made
 * from operators: diagonals, S A S, forms for products. */
#include "gradus/link.h"
#include "support/support.h"

#include <math.h>

typedef struct gram {
    gd_ctx *ctx;
    gd_tensor *j, *r, *matrix; /* matrix = J^T J, by a product of its own */
} gram;

static gram open_gram(int64_t m, int64_t n)
{
    gram g = {.ctx = context(NULL, 1, NULL)};
    gd_scope_begin(g.ctx);
    gd_seed(g.ctx, 11);
    g.j = gd_randn(g.ctx, GD_F64, 2, (int64_t[]){m, n});
    g.r = gd_randn(g.ctx, GD_F64, 1, &m);
    g.matrix = gd_matmul(gd_transpose(g.j, 0, 1), g.j);
    return g;
}

static void close_gram(gram *g)
{
    gd_scope_end(g->ctx);
    assert_no_error(g->ctx);
    end_context(g->ctx, NULL);
}

static void assert_near(gd_tensor *got, gd_tensor *want, double tolerance)
{
    assert_non_null(got);
    assert_true(gd_item(gd_max(gd_abs(gd_sub(got, want)), NULL, false)) <= tolerance);
}

/* (factor A + shift I) x - b */
static gd_tensor *defect(gram *g, double factor, double shift, gd_tensor *x, gd_tensor *b)
{
    gd_tensor *ax = gd_mul_scalar(gd_matmul(g->matrix, x), factor);
    return gd_sub(gd_add(ax, gd_mul_scalar(x, shift)), b);
}

static void solutions_fit_the_matrix(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{7, 3}, {4, 4}, {2, 5}, {40, 3}};
    for (int k = 0; k < COUNT_OF(shapes); k++)
        for (int with_r = 0; with_r < 2; with_r++)
            for (int shifted = 0; shifted < 2; shifted++) {
                gram g = open_gram(shapes[k][0], shapes[k][1]);
                int64_t n = shapes[k][1];
                double factor = shifted ? 0.7 : 1, shift = shifted ? 0.3 : 0;
                if (!shifted && shapes[k][0] < n) {
                    close_gram(&g);
                    continue;
                }
                gd_linop *a = gd_linop_gram(g.j, with_r ? g.r : NULL);
                gd_tensor *b = gd_matmul(gd_transpose(g.j, 0, 1), g.r),
                          *other = gd_randn(g.ctx, GD_F64, 1, &n);
                assert_near(gd_linop_matvec(a, other), gd_matmul(g.matrix, other), 1e-13);
                assert_near(gd_linop_rmatvec(a, other), gd_matmul(g.matrix, other), 1e-13);
                assert_near(gd_linop_to_dense(a), g.matrix, 1e-13);
                assert_near(gd_linop_diagonal_of(a), gd_diagonal(g.matrix), 1e-13);
                if (shifted) a = gd_linop_shifted(gd_linop_scaled(a, factor), shift);
                gd_tensor *zero = gd_zeros(g.ctx, GD_F64, 1, &n);
                gd_tensor *x = gd_linop_solve(a, b);
                assert_near(defect(&g, factor, shift, x, b), zero, 1e-11);
                assert_near(defect(&g, factor, shift, gd_linop_solve(a, other), other), zero, 1e-11);
                /* an operator has one solution, whatever it was asked for in between */
                assert_near(gd_linop_solve(a, b), x, 0);
                gd_linop_release(a);
                close_gram(&g);
            }
}

/* Columns nearly the same: the normal equations have lost all digits, QR of J has not. */
static void dependent_columns_are_solved_through_qr(void **state)
{
    (void)state;
    gram g = open_gram(3, 2);
    double e = 1e-8;
    gd_tensor *j = MATRIX(g.ctx, 3, 2, 1, 1, e, 0, 0, e), *r = VECTOR(g.ctx, 3, 2 * e, 1 * e);
    /* r is J (2, 1) exactly, so the solution is (2, 1) */
    gd_linop *a = gd_linop_gram(j, r);
    gd_tensor *x = gd_linop_solve(a, gd_matmul(gd_transpose(j, 0, 1), r));
    assert_values_near(x, 1e-7, 2, 1);
    gd_linop_release(a);
    close_gram(&g);
}

/* Columns in units twenty orders of magnitude apart are independent all the same. */
static void units_of_the_columns_do_not_matter(void **state)
{
    (void)state;
    gram g = open_gram(3, 2);
    gd_tensor *j = MATRIX(g.ctx, 3, 2, 1e12, 1e-12, 1e12, 0, 0, 1e-12), *x = VECTOR(g.ctx, 2e-12, 3e12);
    gd_tensor *r = gd_matmul(j, x);
    gd_linop *a = gd_linop_gram(j, r);
    gd_tensor *solved = gd_linop_solve(a, gd_matmul(gd_transpose(j, 0, 1), r));
    assert_no_error(g.ctx);
    assert_values_near(gd_div(solved, x), 1e-12, 1, 1);
    gd_linop_release(a);
    close_gram(&g);
}

/* The Hessian of an inverse that is singular: known directions as they are, the others stiff. */
static void a_singular_inverse_serves_products(void **state)
{
    (void)state;
    gram g = open_gram(2, 2);
    gd_linop *a = gd_linop_dense_inverse(MATRIX(g.ctx, 2, 2, 0.5, 0, 0, 0)), *h = gd_linop_for_products(a);
    assert_no_error(g.ctx);
    gd_tensor *y = gd_linop_matvec(h, VECTOR(g.ctx, 1, 1));
    assert_true(fabs(gd_at(y, (int64_t[]){0}) - 2) < 1e-6 && gd_at(y, (int64_t[]){1}) > 1e6);
    gd_linop_release(h);
    gd_linop_release(a);
    close_gram(&g);
}

static void what_has_no_solution_is_singular(void **state)
{
    (void)state;
    gram g = open_gram(2, 3);
    gd_linop *a = gd_linop_gram(g.j, g.r);
    gd_tensor *b = gd_ones(g.ctx, GD_F64, 1, (int64_t[]){3});
    assert_null(gd_linop_solve(a, b));
    assert_error(g.ctx, GD_SINGULAR, "linop: solve: J has fewer rows than columns");
    gd_linop_release(a);
    gd_tensor *same = MATRIX(g.ctx, 3, 2, 1, 2, 2, 4, 3, 6);
    a = gd_linop_gram(same, NULL);
    assert_null(gd_linop_solve(a, gd_ones(g.ctx, GD_F64, 1, (int64_t[]){2})));
    assert_error(g.ctx, GD_SINGULAR, "linop: solve: the columns of J are dependent");
    gd_linop_release(a);
    assert_null(gd_linop_gram(g.j, b));
    assert_error(g.ctx, GD_SHAPE, "linop: r has 3 elements, needs 2");
    close_gram(&g);
}

static void scaling_on_both_sides(void **state)
{
    (void)state;
    gram g = open_gram(5, 3);
    gd_tensor *s = VECTOR(g.ctx, 2, 0.5, -1), *d = VECTOR(g.ctx, 1, 2, 3);
    gd_tensor *want = gd_mul(gd_mul(g.matrix, s), gd_unsqueeze(s, 1, NULL));
    gd_linop *ops[] = {gd_linop_gram(g.j, g.r), gd_linop_dense(g.matrix), gd_linop_diagonal(d)};
    for (int i = 0; i < 2; i++) {
        gd_linop *scaled = gd_linop_congruent(ops[i], s);
        assert_near(gd_linop_to_dense(scaled), want, 1e-13);
        gd_linop_release(scaled);
    }
    gd_linop *scaled = gd_linop_congruent(ops[2], s);
    assert_values(gd_linop_to_dense(scaled), 4, 0, 0, 0, 0.5, 0, 0, 0, 3);
    gd_linop_release(scaled);
    assert_values(gd_linop_diagonal_of(ops[2]), 1, 2, 3);
    for (int i = 0; i < 3; i++) gd_linop_release(ops[i]);
    close_gram(&g);
}

static void an_inverse_is_inverted_once_for_products(void **state)
{
    (void)state;
    gram g = open_gram(5, 3);
    gd_linop *inverse = gd_linop_dense_inverse(gd_inverse(g.matrix)),
             *forward = gd_linop_for_products(inverse);
    gd_tensor *x = VECTOR(g.ctx, 1, -2, 3);
    assert_near(gd_linop_matvec(forward, x), gd_matmul(g.matrix, x), 1e-10);
    gd_linop *same = gd_linop_for_products(forward);
    assert_ptr_equal(same, forward);
    gd_linop_release(same);
    gd_linop_release(forward);
    gd_linop_release(inverse);
    close_gram(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(solutions_fit_the_matrix),
        cmocka_unit_test(dependent_columns_are_solved_through_qr),
        cmocka_unit_test(units_of_the_columns_do_not_matter),
        cmocka_unit_test(a_singular_inverse_serves_products),
        cmocka_unit_test(what_has_no_solution_is_singular),
        cmocka_unit_test(scaling_on_both_sides),
        cmocka_unit_test(an_inverse_is_inverted_once_for_products),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
