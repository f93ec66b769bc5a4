/* Operands of two dtypes: the dtype of the result, its values and the dtypes of gradients, for every pair.
 *
 * Within floats and within integers the table is NumPy 2.4's result_type (f16 with bf16: of ml_dtypes 0.5), between them PyTorch's
 * rule: the float, whatever its width. */
#include "support/own_context.h"
#include "gradus/autograd.h"

#include <string.h>

static const char *const names[] = {"bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"};
#define COUNT ((int)(sizeof names / sizeof *names))

static const char *const meets[COUNT][COUNT] = {
    /*           bool    u8     i32    i64    f16    bf16   f32    f64 */
    /* bool */ {"bool", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"},
    /* u8   */ {"u8", "u8", "i32", "i64", "f16", "bf16", "f32", "f64"},
    /* i32  */ {"i32", "i32", "i32", "i64", "f16", "bf16", "f32", "f64"},
    /* i64  */ {"i64", "i64", "i64", "i64", "f16", "bf16", "f32", "f64"},
    /* f16  */ {"f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64"},
    /* bf16 */ {"bf16", "bf16", "bf16", "bf16", "f32", "bf16", "f32", "f64"},
    /* f32  */ {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},
    /* f64  */ {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
};

static gd_tensor *of(gd_dtype dtype, double x, double y)
{
    return gd_cast(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){x, y}), dtype);
}

static gd_tensor *cat_both(gd_tensor *a, gd_tensor *b)
{
    return gd_slice(gd_cat((gd_tensor *[]){a, b}, 2, "0"), "0", 0, 2, 1);
}
static gd_tensor *stack_both(gd_tensor *a, gd_tensor *b)
{
    return gd_index(gd_stack((gd_tensor *[]){a, b}, 2, 0, NULL), "0", 0);
}
static gd_tensor *where_both(gd_tensor *a, gd_tensor *b) { return gd_where(gd_eq(a, a), a, b); }
static gd_tensor *einsum_both(gd_tensor *a, gd_tensor *b)
{
    return gd_einsum("i,i->i", (gd_tensor *[]){a, b}, 2);
}

/* What operators give of [1, 0] and [1, 1]; NULL: of the dtype that the operands meet in. */
static const struct {
    const char *name;
    gd_tensor *(*fn)(gd_tensor *a, gd_tensor *b);
    double value[2];
    const char *dtype;
    bool takes_bool; /* two of them */
} operators[] = {
    {"add", gd_add, {2, 1}, NULL, false},         {"sub", gd_sub, {0, -1}, NULL, false},
    {"mul", gd_mul, {1, 0}, NULL, false},         {"div", gd_div, {1, 0}, "f64", true},
    {"maximum", gd_maximum, {1, 1}, NULL, false}, {"eq", gd_eq, {1, 0}, "bool", true},
    {"lt", gd_lt, {0, 1}, "bool", true},          {"cat", cat_both, {1, 0}, NULL, true},
    {"stack", stack_both, {1, 0}, NULL, true},    {"where", where_both, {1, 0}, NULL, true},
    {"einsum", einsum_both, {1, 0}, NULL, false},
};

static void check(int op, int i, int j)
{
    gd_dtype a = gd_dtype_from_name(names[i]), b = gd_dtype_from_name(names[j]);
    const char *want = meets[i][j], *special = operators[op].dtype;
    bool whole = !gd_dtype_is_float(gd_dtype_from_name(want));
    if (special && (whole || !strcmp(special, "bool"))) want = special;
    gd_scope_begin(ctx);
    gd_tensor *out = operators[op].fn(of(a, 1, 0), of(b, 1, 1));
    if (i == 0 && j == 0 && !operators[op].takes_bool) {
        assert_null(out);
        assert_non_null(strstr(gd_error_text(ctx), "bool has no arithmetic"));
        gd_clear_error(ctx);
    } else {
        double got[2] = {0, 0};
        assert_no_error(ctx);
        bool wraps = !strcmp(operators[op].name, "sub") && !strcmp(want, "u8");
        assert_int_equal(gd_read_f64(out, got, 2), GD_OK);
        if (strcmp(gd_dtype_name(gd_tensor_dtype(out)), want) != 0 || got[0] != operators[op].value[0] ||
            got[1] != (wraps ? 255 : operators[op].value[1]))
            fail_msg("%s of %s and %s: %s [%g, %g]", operators[op].name, names[i], names[j],
                     gd_dtype_name(gd_tensor_dtype(out)), got[0], got[1]);
    }
    gd_scope_end(ctx);
}

static void every_pair_of_dtypes_meets(void **state)
{
    (void)state;
    for (int op = 0; op < (int)(sizeof operators / sizeof *operators); op++)
        for (int i = 0; i < COUNT; i++)
            for (int j = 0; j < COUNT; j++) check(op, i, j);
}

/* d sum(a b) and d sum(a / b): b and 1, a and -a, whatever the other's dtype. */
static void gradients_come_back_in_each_operand_s_dtype(void **state)
{
    (void)state;
    for (int i = 4; i < COUNT; i++)
        for (int j = 0; j < COUNT; j++)
            for (int divides = 0; divides < 2; divides++) {
                gd_scope_begin(ctx);
                gd_tensor *a = gd_require_grad(of(gd_dtype_from_name(names[i]), 3, 2));
                gd_tensor *b = of(gd_dtype_from_name(names[j]), 1, 1);
                bool both = gd_dtype_is_float(gd_tensor_dtype(b));
                if (both) b = gd_require_grad(b);
                gd_tensor *loss = gd_sum(divides ? gd_div(a, b) : gd_mul(a, b), NULL, false), *grad[2];
                assert_int_equal(gd_grad(loss, NULL, (gd_tensor *[]){a, b}, both ? 2 : 1, 0, grad), GD_OK);
                assert_int_equal(gd_tensor_dtype(grad[0]), gd_tensor_dtype(a));
                assert_values(grad[0], 1, 1);
                if (both) assert_int_equal(gd_tensor_dtype(grad[1]), gd_tensor_dtype(b));
                if (both && divides) assert_values(grad[1], -3, -2);
                if (both && !divides) assert_values(grad[1], 3, 2);
                gd_scope_end(ctx);
            }
}

static void products_of_matrices_meet_too(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    gd_tensor *wide = gd_require_grad(gd_reshape(of(GD_F64, 1, 2), 2, (int64_t[]){1, 2}));
    gd_tensor *narrow = gd_require_grad(gd_reshape(of(GD_F32, 3, 4), 2, (int64_t[]){2, 1}));
    gd_tensor *whole = gd_reshape(of(GD_I32, 3, 4), 2, (int64_t[]){2, 1}), *grad[2];
    assert_int_equal(gd_tensor_dtype(gd_matmul(wide, whole)), GD_F64);
    assert_values(gd_contract(gd_rename(wide, "r, k"), gd_rename(whole, "k, c"), "k"), 11);
    gd_tensor *product = gd_matmul(wide, narrow);
    assert_int_equal(gd_tensor_dtype(product), GD_F64);
    assert_values(product, 11);
    assert_int_equal(gd_grad(product, NULL, (gd_tensor *[]){wide, narrow}, 2, 0, grad), GD_OK);
    assert_int_equal(gd_tensor_dtype(grad[1]), GD_F32);
    assert_values(grad[1], 1, 2);
    gd_tensor *two = gd_reshape(gd_cat((gd_tensor *[]){of(GD_F32, 2, 0), of(GD_F32, 0, 4)}, 2, "0"), 2,
                                (int64_t[]){2, 2});
    gd_tensor *solved = gd_solve(two, of(GD_F64, 1, 1));
    assert_int_equal(gd_tensor_dtype(solved), GD_F64);
    assert_values(solved, 0.5, 0.25);
    gd_scope_end(ctx);
}

static void three_operands_meet(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    gd_tensor *out = gd_fma(of(GD_I32, 2, 3), of(GD_F32, 1, 1), of(GD_F64, 0.5, 0.5));
    assert_int_equal(gd_tensor_dtype(out), GD_F64);
    assert_values(out, 2.5, 3.5);
    gd_scope_end(ctx);
}

/* A tensor without axes is no number of the host: its dtype counts. */
static void a_tensor_without_axes_is_not_weak(void **state)
{
    (void)state;
    gd_scope_begin(ctx);
    assert_int_equal(gd_tensor_dtype(gd_add(of(GD_F32, 1, 2), gd_scalar(ctx, GD_F64, 1))), GD_F64);
    gd_scope_end(ctx);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_pair_of_dtypes_meets),        TEST(gradients_come_back_in_each_operand_s_dtype),
        TEST(products_of_matrices_meet_too),     TEST(three_operands_meet),
        TEST(a_tensor_without_axes_is_not_weak),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
