/* The structure of Jacobians and Hessians from the recorded graph. */
#include "support/own_context.h"
#include "trace_support.h"

#include <math.h>

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)
#define UNUSED         (void)user, (void)count

/* Element k with the one behind it: the Hessian has three diagonals. */
FUNCTION(chained)
{
    UNUSED;
    int64_t n = gd_numel(in[0]);
    gd_tensor *a = gd_slice(in[0], "0", 0, n - 1, 1), *b = gd_slice(in[0], "0", 1, n, 1);
    gd_tensor *d = gd_sub(b, gd_square(a)), *e = gd_add_scalar(gd_neg(a), 1);
    return gd_add(gd_mul_scalar(gd_sum(gd_square(d), NULL, false), 100), gd_sum(gd_square(e), NULL, false));
}
/* Residuals x[k] y[k], and one of the first of each. */
FUNCTION(products)
{
    UNUSED;
    gd_tensor *both = gd_mul(in[0], in[1]);
    gd_tensor *first = gd_sin(gd_sub(gd_slice(in[0], "0", 0, 1, 1), gd_slice(in[1], "0", 0, 1, 1)));
    return gd_cat((gd_tensor *[]){both, first}, 2, "0");
}
FUNCTION(chooses)
{
    UNUSED;
    return gd_where(gd_gt(in[0], gd_flip(in[0], "0")), gd_square(in[0]), gd_exp(gd_neg(in[0])));
}
FUNCTION(multiplies)
{
    UNUSED;
    return gd_sum(gd_square(gd_matmul(in[0], in[0])), NULL, false);
}
FUNCTION(reads)
{
    UNUSED;
    return gd_item(gd_sum(in[0], NULL, false)) > 0 ? in[0] : gd_neg(in[0]);
}

static void assert_entries(gd_tensor *rows, gd_tensor *columns, int64_t count, const int64_t (*want)[2])
{
    assert_int_equal(gd_numel(rows), count);
    assert_int_equal(gd_numel(columns), count);
    for (int64_t k = 0; k < count; k++) {
        assert_int_equal((int64_t)gd_at(rows, &k), want[k][0]);
        assert_int_equal((int64_t)gd_at(columns, &k), want[k][1]);
    }
}

static void a_chain_has_three_diagonals(void **unused)
{
    (void)unused;
    static const int64_t sizes[] = {2, 20, 300};
    for (int s = 0; s < COUNT_OF(sizes); s++) {
        int64_t n = sizes[s], count = 0, want[900][2];
        gd_tensor *x = gd_slice(gd_linspace(ctx, GD_F64, -1, 1, 2 * n), "0", 0, 2 * n, 2), *rows, *columns;
        gd_traced *f = gd_trace(ctx, chained, NULL, NULL);
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = i ? i - 1 : 0; j < n && j <= i + 1; j++)
                want[count][0] = i, want[count++][1] = j;
        assert_int_equal(gd_traced_sparsity(f, GD_TRACED_HESSIAN, &x, 1, &rows, &columns), GD_OK);
        assert_entries(rows, columns, count, (const int64_t(*)[2])want);
        gd_traced_free(f);
    }
}

static void a_jacobian_goes_over_all_inputs_but_data(void **unused)
{
    (void)unused;
    gd_tensor *in[2] = {VECTOR(ctx, 1, 2, 3), VECTOR(ctx, 4, 5, 6)}, *rows, *columns;
    static const int64_t want[][2] = {{0, 0}, {0, 3}, {1, 1}, {1, 4}, {2, 2}, {2, 5}, {3, 0}, {3, 3}};
    static const int64_t first[][2] = {{0, 0}, {1, 1}, {2, 2}, {3, 0}};
    gd_trace_options o = gd_trace_defaults();
    for (int by = 0; by < 2; by++) {
        o.by = by;
        gd_traced *f = gd_trace(ctx, products, NULL, &o);
        assert_int_equal(gd_traced_sparsity(f, GD_TRACED_JACOBIAN, in, 2, &rows, &columns), GD_OK);
        assert_entries(rows, columns, by ? 4 : 8, by ? first : want);
        gd_traced_free(f);
    }
}

static void truth_has_no_derivatives(void **unused)
{
    (void)unused;
    gd_tensor *x = VECTOR(ctx, 1, 2, 3), *rows, *columns;
    gd_traced *f = gd_trace(ctx, chooses, NULL, NULL);
    assert_int_equal(gd_traced_sparsity(f, GD_TRACED_JACOBIAN, &x, 1, &rows, &columns), GD_OK);
    assert_entries(rows, columns, 3, (const int64_t[][2]){{0, 0}, {1, 1}, {2, 2}});
    gd_traced_free(f);
}

static void what_cannot_be_followed_is_refused(void **unused)
{
    (void)unused;
    gd_tensor *x = MATRIX(ctx, 2, 2, 1, 2, 3, 4), *rows, *columns;
    gd_traced *f = gd_trace(ctx, multiplies, NULL, NULL), *g = gd_trace(ctx, reads, NULL, NULL);
    assert_int_equal(gd_traced_sparsity(f, GD_TRACED_HESSIAN, &x, 1, &rows, &columns), GD_NOT_IMPLEMENTED);
    assert_error(ctx, GD_NOT_IMPLEMENTED, "traced_sparsity: matmul is not element by element");
    assert_null(rows);
    assert_int_equal(gd_traced_sparsity(g, GD_TRACED_JACOBIAN, &x, 1, &rows, &columns), GD_NOT_IMPLEMENTED);
    assert_error(ctx, GD_NOT_IMPLEMENTED, "traced_sparsity: not traced: it reads on the host");
    assert_int_equal(gd_traced_sparsity(f, GD_TRACED_VALUE, &x, 1, &rows, &columns), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "traced_sparsity: kind is 0");
    gd_traced_free(f);
    gd_traced_free(g);
}

static bool scenario(gd_ctx *c)
{
    gd_tensor *x = VECTOR(c, 1, 2, 3), *rows = NULL, *columns = NULL;
    gd_traced *f = x ? gd_trace(c, chained, NULL, NULL) : NULL;
    bool good = f && gd_traced_sparsity(f, GD_TRACED_HESSIAN, &x, 1, &rows, &columns) == GD_OK;
    gd_traced_free(f);
    return good;
}

static void every_allocation_fails_once(void **unused)
{
    (void)unused;
    for (int64_t k = 1;; k += test_share()) {
        memory m = {.fail_at = k};
        gd_ctx *c = context(&m, 1, NULL);
        if (!c) continue;
        gd_scope_begin(c);
        bool good = scenario(c);
        if (!good) assert_true(gd_error(c) == GD_NOMEM || gd_error(c) == GD_NOT_IMPLEMENTED);
        gd_clear_error(c);
        gd_scope_end(c);
        bool failed = m.failed;
        end_context(c, &m);
        if (!failed) break;
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_has_three_diagonals),
        TEST(a_jacobian_goes_over_all_inputs_but_data),
        TEST(truth_has_no_derivatives),
        TEST(what_cannot_be_followed_is_refused),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
