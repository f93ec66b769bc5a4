/* Traced functions of long arrays: element-wise work, broadcasts, slices, embedded gradients and sums in one pass have the bits of
 * the operators, make nothing on the way, and ask for no memory. */
#include "support/own_context.h"
#include "trace_support.h"

typedef struct shape {
    int64_t rows, columns;
} shape;

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)
#define PREPARE            \
    const shape *s = user; \
    gd_tensor *x = in[0];  \
    (void)count, (void)s

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

FUNCTION(chained)
{
    PREPARE;
    gd_tensor *flat = gd_reshape(x, 1, (int64_t[]){s->rows * s->columns});
    int64_t n = s->rows * s->columns;
    gd_tensor *a = gd_slice(flat, "0", 0, n - 1, 1), *b = gd_slice(flat, "0", 1, n, 1);
    gd_tensor *u = gd_add_scalar(gd_neg(a), 1), *v = gd_sub(b, gd_square(a));
    return total(gd_add(gd_square(u), gd_mul_scalar(gd_square(v), 100)));
}
FUNCTION(dear_and_moved) /* what is dear is not computed again for another place */
{
    PREPARE;
    int64_t n = s->rows * s->columns;
    gd_tensor *e = gd_exp(gd_tanh(gd_reshape(x, 1, &n)));
    gd_tensor *a = gd_slice(e, "0", 0, n - 3, 1), *b = gd_slice(e, "0", 3, n, 1);
    return total(gd_mul(gd_sin(a), gd_square(b)));
}
FUNCTION(rows_of_a_matrix)
{
    PREPARE;
    gd_tensor *a = gd_slice(x, "0", 0, s->rows - 1, 1), *b = gd_slice(x, "0", 1, s->rows, 1);
    return total(
        gd_square(gd_pad(gd_mul(a, gd_add_scalar(b, 2)), (int64_t[]){1, 0}, (int64_t[]){0, 0}, 0.5)));
}
FUNCTION(columns_of_a_matrix)
{
    PREPARE;
    gd_tensor *a = gd_slice(x, "1", 0, s->columns - 1, 1), *b = gd_slice(x, "1", 1, s->columns, 1);
    return total(gd_abs(gd_sub(gd_square(a), b)));
}
FUNCTION(sums_of_rows)
{
    PREPARE;
    return total(gd_tanh(gd_mul(x, gd_sum(gd_sigmoid(x), "1", true))));
}
FUNCTION(sums_of_columns)
{
    PREPARE;
    return total(gd_square(gd_sub(x, gd_mean(gd_cos(x), "0", true))));
}
FUNCTION(ends_in_bool)
{
    PREPARE;
    gd_tensor *mask = gd_gt(gd_square(x), gd_mean(x, "0", true));
    return total(gd_where(mask, gd_mul_scalar(x, 3), gd_cumsum(x, "0")));
}
FUNCTION(turned)
{
    PREPARE;
    return total(gd_mul(gd_transpose(gd_tanh(x), 0, 1), gd_flip(gd_transpose(x, 0, 1), "0")));
}
FUNCTION(of_numbers_alone)
{
    PREPARE;
    gd_tensor *one = gd_full(gd_tensor_ctx(x), gd_tensor_dtype(x), 2, (int64_t[]){s->rows, s->columns}, 0.3);
    return total(gd_mul(gd_exp(gd_mul_scalar(one, 2)), gd_square(x)));
}
FUNCTION(by_its_own_sum)
{
    PREPARE;
    return total(gd_div(gd_exp(x), gd_add_scalar(total(gd_exp(x)), 1)));
}
FUNCTION(inside_of_a_matrix) /* slices of both axes: gradients are no range of the matrix */
{
    PREPARE;
    int64_t n = s->rows, m = s->columns;
    gd_tensor *up = gd_slice(gd_slice(x, "0", 0, n - 1, 1), "1", 1, m, 1);
    gd_tensor *down = gd_slice(gd_slice(x, "0", 1, n, 1), "1", 0, m - 1, 1);
    gd_tensor *to = gd_slice(gd_slice(x, "0", 0, n - 1, 1), "1", 0, m - 1, 1);
    gd_tensor *edges = gd_add(gd_square(gd_sub(up, to)), gd_square(gd_sub(down, to)));
    return total(gd_sqrt(gd_add_scalar(edges, 1e-3)));
}
FUNCTION(every_other) /* and every third of a row */
{
    PREPARE;
    int64_t n = s->rows * s->columns / 6 * 6;
    gd_tensor *flat = gd_slice(gd_reshape(x, 1, (int64_t[]){-1}), "0", 0, n, 1);
    gd_tensor *a = gd_slice(flat, "0", 0, n, 2), *b = gd_slice(flat, "0", 1, n, 2);
    gd_tensor *third = gd_slice(x, "1", 1, s->columns, 3);
    return gd_add(total(gd_square(gd_sub(b, gd_square(a)))), total(gd_mul(gd_exp(third), third)));
}
FUNCTION(padded_in_steps)
{
    PREPARE;
    gd_tensor *odd = gd_slice(gd_slice(x, "0", 1, s->rows, 2), "1", 0, s->columns, 2);
    gd_tensor *wide = gd_pad(odd, (int64_t[]){1, 2}, (int64_t[]){0, 3}, -0.25);
    return total(gd_square(gd_add_scalar(wide, 0.5)));
}
FUNCTION(pairs_of_rows) /* sums of few elements: operands are broadcast along both leading axes */
{
    PREPARE;
    int64_t few = s->columns < 3 ? s->columns : 3, n = s->rows < 70 ? s->rows : 70;
    gd_tensor *at = gd_slice(gd_slice(x, "0", 0, n, 1), "1", 0, few, 1);
    gd_tensor *apart = gd_sub(gd_unsqueeze(at, 1, NULL), gd_unsqueeze(at, 0, NULL));
    return total(gd_sqrt(gd_add_scalar(gd_sum(gd_square(apart), "2", false), 0.1)));
}
FUNCTION(mean_of_squares)
{
    PREPARE;
    return gd_mean(gd_square(gd_softplus(gd_sub(x, gd_index(x, "0", 0)))), NULL, false);
}
FUNCTION(softmax_of_rows)
{
    PREPARE;
    gd_tensor *share = gd_softmax(gd_mul(x, gd_tanh(x)), "1");
    return total(gd_mul(share, gd_add_scalar(gd_square(x), 0.5)));
}
FUNCTION(log_softmax_of_rows)
{
    PREPARE;
    gd_tensor *level = gd_mul_scalar(gd_square(x), -0.5);
    return gd_neg(gd_add(gd_mean(gd_log_softmax(level, "1"), NULL, false),
                         gd_mean(gd_log_softmax(gd_neg(level), "0"), NULL, false)));
}
FUNCTION(mixture) /* a likelihood: sums of few elements, then logarithms of sums along short rows */
{
    PREPARE;
    int64_t few = s->columns < 8 ? s->columns : 8;
    gd_tensor *parts = gd_slice(gd_slice(x, "0", 0, 3, 1), "1", 0, few, 1);
    gd_tensor *apart = gd_sub(gd_unsqueeze(gd_slice(x, "1", 0, few, 1), 1, NULL), parts);
    gd_tensor *z = gd_mul(apart, gd_exp(gd_neg(parts)));
    gd_tensor *near = gd_mul_scalar(gd_sum(gd_square(z), "2", false), -0.5);
    return gd_mean(gd_logsumexp(gd_sub(near, gd_sum(parts, "1", false)), "1", false), NULL, false);
}
FUNCTION(extremes)
{
    PREPARE;
    gd_tensor *y = gd_sin(gd_mul_scalar(x, 3));
    gd_tensor *rows = gd_sub(gd_max(y, "1", true), gd_min(y, "1", true));
    return gd_add(total(gd_mul(rows, y)),
                  gd_mul(gd_max(gd_square(y), NULL, false), total(gd_max(y, "0", false))));
}
FUNCTION(products)
{
    PREPARE;
    gd_tensor *y = gd_add_scalar(gd_mul_scalar(gd_tanh(x), 0.01), 1);
    return gd_add(total(gd_prod(y, "1", false)), total(gd_square(gd_prod(y, "0", false))));
}
FUNCTION(norms)
{
    PREPARE;
    gd_tensor *y = gd_sub(x, gd_mul_scalar(gd_abs(x), 0.3));
    return gd_add(total(gd_norm(y, 2, "1", false)), gd_norm(gd_square(y), 2, NULL, false));
}

static const struct {
    const char *name;
    gd_function function;
    bool one; /* one pass and nothing else, without memory of its own */
} functions[] = {
    {"chained", chained, true},
    {"dear_and_moved", dear_and_moved, false},
    {"rows_of_a_matrix", rows_of_a_matrix, true},
    {"columns_of_a_matrix", columns_of_a_matrix, false},
    {"sums_of_rows", sums_of_rows, false},
    {"sums_of_columns", sums_of_columns, false},
    {"ends_in_bool", ends_in_bool, false},
    {"turned", turned, false},
    {"of_numbers_alone", of_numbers_alone, true},
    {"by_its_own_sum", by_its_own_sum, false},
    {"mean_of_squares", mean_of_squares, false},
    {"inside_of_a_matrix", inside_of_a_matrix, false},
    {"every_other", every_other, false},
    {"padded_in_steps", padded_in_steps, false},
    {"pairs_of_rows", pairs_of_rows, false},
    {"softmax_of_rows", softmax_of_rows, false},
    {"log_softmax_of_rows", log_softmax_of_rows, false},
    {"mixture", mixture, false},
    {"extremes", extremes, false},
    {"products", products, false},
    {"norms", norms, false},
};

static gd_tensor *numbers(gd_ctx *c, gd_dtype dtype, const shape *s, int seed)
{
    int64_t n = s->rows * s->columns;
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = (double)((i + seed) * 7919 % 1009) / 400 - 1.2;
    gd_tensor *t = gd_from_f64(c, dtype, 2, (int64_t[]){s->rows, s->columns}, v);
    free(v);
    return t;
}

static void compare(gd_ctx *c, int k, gd_dtype dtype, shape *s, gd_trace_compile compile, bool second)
{
    gd_trace_options o = gd_trace_defaults();
    o.compile = compile;
    gd_traced *f = gd_trace(c, functions[k].function, s, &o);
    for (int call = 0; call < 5; call++) {
        gd_scope_begin(c);
        gd_tensor *x = numbers(c, dtype, s, call), *v = numbers(c, dtype, s, 50 - call), *value = NULL, *grad,
                  *got, *got_grad;
        assert_int_equal(eager_gradient(functions[k].function, s, &x, 1, &value, &grad), GD_OK);
        assert_int_equal(gd_traced_gradient(f, &x, 1, &got, &got_grad), GD_OK);
        bool same = same_bits(got, value) && same_bits(got_grad, grad);
        gd_no_grad_begin(c); /* where some operators are others */
        value = functions[k].function(s, &x, 1);
        gd_no_grad_end(c);
        same = same && same_bits(gd_traced_value(f, &x, 1), value);
        if (second && functions[k].function != products) { /* whose second derivatives look for zeros */
            assert_int_equal(gd_hvp(functions[k].function, s, &x, 1, &v, &grad), GD_OK);
            assert_int_equal(gd_traced_hvp(f, &x, 1, &v, &got_grad), GD_OK);
            same = same && same_bits(got_grad, grad);
        }
        if (!same)
            fail_msg("%s of %s [%lld, %lld], way %d, differs in call %d", functions[k].name,
                     gd_dtype_name(dtype), (long long)s->rows, (long long)s->columns, (int)compile, call);
        gd_scope_end(c);
    }
    /* the rule of products looks for zeros in long rows */
    if (explained(f, "not traced") && functions[k].function != products)
        fail_msg("%s is not traced", functions[k].name);
    if (functions[k].one && (!explained(f, "as one pass") || !explained(f, "memory: 0 bytes"))) {
        char text[2000];
        (void)gd_explain_trace(f, text, sizeof text);
        fail_msg("%s [%lld, %lld] is not one pass: %s", functions[k].name, (long long)s->rows,
                 (long long)s->columns, text);
    }
    gd_traced_free(f);
}

static void all_functions(int threads, gd_trace_compile compile, shape s, bool second)
{
    gd_ctx *c = context(NULL, threads, NULL);
    gd_scope_begin(c);
    for (int k = 0; k < (int)(sizeof functions / sizeof *functions); k++) {
        compare(c, k, GD_F64, &s, compile, second);
        compare(c, k, GD_F32, &s, compile, second);
    }
    gd_scope_end(c);
    gd_ctx_free(c);
}

static void small_arrays(void **state)
{
    (void)state;
    all_functions(1, GD_TRACE_INTERPRET, (shape){5, 9}, true);
    all_functions(2, GD_TRACE_INTERPRET, (shape){40, 3}, true);
}

/* More than a chunk of a sum, more than 128 rows, rows longer than a chunk. */
static void chunks_are_added_as_operators_add_them(void **state)
{
    (void)state;
    all_functions(1, GD_TRACE_INTERPRET, (shape){300, 37}, true);
    all_functions(3, GD_TRACE_INTERPRET, (shape){6, 8192}, false);
    all_functions(2, GD_TRACE_INTERPRET, (shape){3, 5000}, false);
    all_functions(2, GD_TRACE_INTERPRET, (shape){257, 300}, false);
}

static void compiled(void **state)
{
    (void)state;
    gd_ctx *c = context(NULL, 2, NULL);
    gd_scope_begin(c);
    shape s = {190, 90};
    /* a compiler takes a tenth of a second for each region */
    for (int k = 0; k < (int)(sizeof functions / sizeof *functions); k++) {
        if (k % test_share() == 0) compare(c, k, GD_F64, &s, GD_TRACE_AT_ONCE, false);
        if ((k + 1) % test_share() == 0) compare(c, k, GD_F32, &s, GD_TRACE_AT_ONCE, false);
    }
    gd_scope_end(c);
    gd_ctx_free(c);
}

static void a_replay_asks_for_no_memory(void **unused)
{
    (void)unused;
    for (int k = 0; k < (int)(sizeof functions / sizeof *functions); k++) {
        shape s = {60, 50};
        gd_tensor *x = numbers(ctx, GD_F64, &s, 1), *value, *grad;
        gd_traced *f = gd_trace(ctx, functions[k].function, &s, NULL);
        for (int call = 0; call < 5; call++)
            assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        int64_t before = test_memory()->requests;
        for (int call = 0; call < 20 && functions[k].one; call++)
            assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        assert_int_equal(test_memory()->requests - before, 0);
        gd_traced_free(f);
    }
}

static bool scenario(gd_ctx *c)
{
    shape s = {30, 20};
    gd_traced *f = gd_trace(c, sums_of_rows, &s, NULL);
    bool good = f != NULL;
    for (int call = 0; call < 5 && good; call++) {
        gd_tensor *x = numbers(c, GD_F64, &s, call), *value = NULL, *grad, *got, *got_grad;
        good = x && eager_gradient(sums_of_rows, &s, &x, 1, &value, &grad) == GD_OK &&
               gd_traced_gradient(f, &x, 1, &got, &got_grad) == GD_OK;
        if (good) assert_true(same_bits(got, value) && same_bits(got_grad, grad));
    }
    gd_traced_free(f);
    return good;
}

static void every_allocation_fails_once(void **unused)
{
    (void)unused;
    for (int64_t k = 1;; k += 3 * test_share()) {
        memory m = {.fail_at = k};
        gd_ctx *c = context(&m, 1, NULL);
        if (!c) continue;
        gd_scope_begin(c);
        if (scenario(c))
            assert_no_error(c);
        else
            assert_int_equal(gd_error(c), GD_NOMEM);
        gd_clear_error(c);
        gd_scope_end(c);
        bool failed = m.failed;
        end_context(c, &m);
        if (!failed) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_arrays),
        cmocka_unit_test(chunks_are_added_as_operators_add_them),
        cmocka_unit_test(compiled),
        cmocka_unit_test_setup_teardown(a_replay_asks_for_no_memory, start_scope, stop_scope),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
