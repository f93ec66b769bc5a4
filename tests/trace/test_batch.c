/* Many problems of a traced function at once: each has the bits that it has alone, in lanes and one by one, on any number of
 * threads. */
#include "support/own_context.h"
#include "trace_support.h"

#include <math.h>

typedef struct state {
    gd_tensor *captured;
} state;

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)
#define UNUSED         (void)user, (void)count

FUNCTION(rosenbrock)
{
    UNUSED;
    gd_tensor *x = gd_index(in[0], "0", 0), *y = gd_index(in[0], "0", 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100));
}
/* Residuals of 20 points: a e^(-b t) + c - y. */
FUNCTION(residuals)
{
    UNUSED;
    gd_tensor *a = gd_index(in[0], "0", 0), *b = gd_index(in[0], "0", 1), *c = gd_index(in[0], "0", 2);
    gd_tensor *decay = gd_exp(gd_neg(gd_mul(b, in[1])));
    return gd_sub(gd_add(gd_mul(a, decay), c), in[2]);
}
FUNCTION(squares) { return total(gd_square(residuals(user, in, count))); }
FUNCTION(with_captured)
{
    (void)count;
    const state *s = user;
    return total(gd_mul(gd_tanh(in[0]), gd_exp(gd_sin(s->captured))));
}
FUNCTION(chooses)
{
    UNUSED;
    gd_tensor *x = in[0], *half = gd_mul_scalar(x, 0.5);
    return gd_where(gd_gt(x, gd_mean(x, NULL, false)), gd_gelu(x), gd_softplus(half));
}
FUNCTION(constant)
{
    UNUSED;
    return gd_full(gd_tensor_ctx(in[0]), GD_F64, 1, (int64_t[]){3}, 7);
}
FUNCTION(part_of_result)
{
    UNUSED;
    return gd_slice(gd_transpose(gd_square(gd_reshape(in[0], 2, (int64_t[]){1, 3})), 0, 1), "0", 1, 3, 1);
}
FUNCTION(product)
{
    UNUSED;
    gd_tensor *m = gd_reshape(in[0], 2, (int64_t[]){3, 1});
    return total(gd_square(gd_matmul(m, gd_transpose(m, 0, 1))));
}
FUNCTION(draws)
{
    UNUSED;
    return total(gd_mul(in[0], gd_rand(gd_tensor_ctx(in[0]), GD_F64, 1, (int64_t[]){3})));
}
FUNCTION(reads)
{
    UNUSED;
    return gd_item(total(in[0])) > 0 ? total(gd_square(in[0])) : total(in[0]);
}

static const struct {
    const char *name;
    gd_function function;
    int inputs;
    int64_t size[3];
    bool vector;      /* the value is no number */
    const char *says; /* what gd_explain_trace says of many */
} cases[] = {
    {"rosenbrock", rosenbrock, 1, {2}, false, "many at once: 16 problems"},
    {"residuals", residuals, 3, {3, 20, 20}, true, "many at once: 16 problems"},
    {"squares", squares, 3, {3, 20, 20}, false, "many at once: 16 problems"},
    {"with_captured", with_captured, 1, {3}, false, "many at once: 16 problems"},
    {"chooses", chooses, 1, {20}, true, "many at once: 16 problems"},
    {"constant", constant, 1, {3}, true, "many at once: 16 problems"},
    {"part_of_result", part_of_result, 1, {3}, true, "many at once: 16 problems"},
    {"product", product, 1, {3}, false, "many one by one: "},
    {"draws", draws, 1, {3}, false, "many one by one: it draws random numbers"},
    {"reads", reads, 1, {3}, false, "not traced: "},
};

static gd_tensor *numbers(gd_ctx *c, gd_dtype dtype, int64_t rows, int64_t columns, uint64_t *seed)
{
    double *v = malloc((size_t)(rows * columns) * sizeof *v);
    for (int64_t i = 0; i < rows * columns; i++) v[i] = 3 * random_unit(seed) - 1.5;
    gd_tensor *t = gd_from_f64(c, dtype, 2, (int64_t[]){rows, columns}, v);
    free(v);
    return t;
}

static int outputs_of(gd_traced_kind kind, int inputs)
{
    return kind == GD_TRACED_VALUE || kind == GD_TRACED_HESSIAN ? 1
           : kind == GD_TRACED_GRADIENT                         ? 1 + inputs
                                                                : inputs;
}

/* One problem, by the function itself. */
static void alone(gd_function function, void *user, gd_traced_kind kind, gd_tensor **in, int inputs,
                  gd_tensor **out)
{
    gd_ctx *c = gd_tensor_ctx(in[0]);
    if (kind == GD_TRACED_GRADIENT)
        assert_int_equal(eager_gradient(function, user, in, inputs, &out[0], out + 1), GD_OK);
    else if (kind == GD_TRACED_HVP)
        assert_int_equal(gd_hvp(function, user, in, inputs, in + inputs, out), GD_OK);
    else if (kind == GD_TRACED_JACOBIAN)
        assert_int_equal(gd_jacobian(function, user, in, inputs, out), GD_OK);
    else if (kind == GD_TRACED_HESSIAN)
        out[0] = gd_hessian(function, user, in, inputs);
    else {
        gd_no_grad_begin(c);
        out[0] = function(user, in, inputs);
        gd_no_grad_end(c);
    }
    assert_no_error(c);
}

static bool wanted(int k, gd_traced_kind kind)
{
    return kind == GD_TRACED_VALUE || kind == GD_TRACED_JACOBIAN ? cases[k].function != constant || !kind
                                                                 : !cases[k].vector;
}

static void compare(gd_ctx *c, int k, gd_traced_kind kind, gd_dtype dtype, int64_t problems, int shared)
{
    uint64_t seed = (uint64_t)(100 * k + 10 * (int)kind + problems);
    int inputs = cases[k].inputs, given = kind == GD_TRACED_HVP ? 2 * inputs : inputs;
    state s = {.captured = numbers(c, dtype, 1, 3, &seed)};
    gd_traced *f = gd_trace(c, cases[k].function, &s, NULL);
    for (int call = 0; call < 3; call++) {
        gd_scope_begin(c);
        gd_tensor *in[6], *out[4] = {0};
        bool same[6] = {false};
        for (int i = 0; i < given; i++) {
            in[i] = numbers(c, dtype, problems, cases[k].size[i % inputs], &seed);
            if (call == 1 && problems > 1) /* strided */
                in[i] = gd_slice(gd_cat((gd_tensor *[]){in[i], in[i]}, 2, "1"), "1", 0,
                                 cases[k].size[i % inputs], 1);
            if (i == shared) {
                in[i] = gd_index(in[i], "0", 0);
                same[i] = true;
            }
        }
        gd_seed(c, (uint64_t)call);
        assert_int_equal(gd_traced_batch(f, kind, in, given, shared >= 0 ? same : NULL, out), GD_OK);
        assert_no_error(c);
        gd_seed(c, (uint64_t)call);
        for (int64_t i = 0; i < problems; i++) {
            gd_tensor *row[6], *want[4] = {0};
            gd_scope_begin(c);
            for (int j = 0; j < given; j++) row[j] = same[j] ? in[j] : gd_index(in[j], "0", i);
            alone(cases[k].function, &s, kind, row, inputs, want);
            for (int o = 0; o < outputs_of(kind, inputs); o++)
                if (!same_bits(gd_index(out[o], "0", i), want[o]))
                    fail_msg("%s: kind %d, output %d of problem %lld of %lld differs (%s, call %d)",
                             cases[k].name, (int)kind, o, (long long)i, (long long)problems,
                             gd_dtype_name(dtype), call);
            gd_scope_end(c);
        }
        assert_int_equal(gd_fill(s.captured, 0.3 * call), GD_OK);
        gd_scope_end(c);
    }
    char text[2000];
    (void)gd_explain_trace(f, text, sizeof text);
    bool wide = kind == GD_TRACED_HESSIAN && cases[k].inputs > 1; /* more than 1024 elements */
    if (problems > 3 && !wide && !strstr(text, cases[k].says)) fail_msg("%s: %s", cases[k].name, text);
    gd_traced_free(f);
}

static void each_problem_has_the_bits_that_it_has_alone(void **unused)
{
    (void)unused;
    static const int64_t problems[] = {1, 2, 5, 16, 37, 200};
    for (int threads = 1; threads <= 3; threads++) {
        gd_ctx *c = context(NULL, threads, NULL);
        gd_scope_begin(c);
        for (int k = 0; k < COUNT_OF(cases); k++)
            for (int kind = 0; kind <= GD_TRACED_HESSIAN; kind++)
                for (int n = 0; n < COUNT_OF(problems); n++) {
                    if (!wanted(k, (gd_traced_kind)kind)) continue;
                    bool random = cases[k].function == draws;
                    compare(c, k, (gd_traced_kind)kind, n % 2 && !random ? GD_F32 : GD_F64, problems[n],
                            cases[k].inputs > 1 ? n % 4 - 1 : -1);
                }
        gd_scope_end(c);
        end_context(c, NULL);
    }
}

/* Data are inputs without derivatives. */
static void derivatives_may_be_by_the_first_inputs_only(void **unused)
{
    (void)unused;
    uint64_t seed = 4;
    gd_trace_options o = gd_trace_defaults();
    o.by = 1;
    gd_traced *f = gd_trace(ctx, squares, NULL, &o), *r = gd_trace(ctx, residuals, NULL, &o), *bad;
    for (int call = 0; call < 5; call++) {
        gd_tensor *in[4] = {numbers(ctx, GD_F64, 30, 3, &seed), numbers(ctx, GD_F64, 30, 20, &seed),
                            numbers(ctx, GD_F64, 30, 20, &seed), numbers(ctx, GD_F64, 30, 3, &seed)};
        gd_tensor *gradient[2], *jacobian, *product, *hessian;
        assert_int_equal(gd_traced_batch(f, GD_TRACED_GRADIENT, in, 3, NULL, gradient), GD_OK);
        assert_int_equal(gd_traced_batch(r, GD_TRACED_JACOBIAN, in, 3, NULL, &jacobian), GD_OK);
        assert_int_equal(gd_traced_batch(f, GD_TRACED_HVP, in, 4, NULL, &product), GD_OK);
        assert_int_equal(gd_traced_batch(f, GD_TRACED_HESSIAN, in, 3, NULL, &hessian), GD_OK);
        for (int k = 0; k < 30; k++) {
            gd_tensor *x[4], *value = NULL, *grad[3], *all[3], *one[3], *h;
            for (int i = 0; i < 4; i++) x[i] = gd_index(in[i], "0", k);
            assert_int_equal(eager_gradient(squares, NULL, x, 3, &value, grad), GD_OK);
            assert_true(same_bits(gd_index(gradient[0], "0", k), value));
            assert_true(same_bits(gd_index(gradient[1], "0", k), grad[0]));
            assert_int_equal(gd_jacobian(residuals, NULL, x, 3, all), GD_OK);
            assert_true(same_bits(gd_index(jacobian, "0", k), all[0]));
            assert_int_equal(gd_traced_hvp(f, x, 3, &x[3], one), GD_OK);
            assert_true(same_bits(gd_index(product, "0", k), one[0]));
            assert_true(!one[1] && !one[2]);
            h = gd_traced_hessian(f, x, 3);
            assert_true(same_bits(gd_index(hessian, "0", k), h));
            gd_tensor *column = gd_matmul(h, gd_reshape(x[3], 2, (int64_t[]){3, 1}));
            for (int64_t i = 0; i < 3; i++)
                assert_true(fabs(gd_at(column, (int64_t[]){i, 0}) - gd_at(one[0], &i)) <
                            1e-9 * (1 + fabs(gd_at(one[0], &i))));
        }
        assert_no_error(ctx);
    }
    assert_true(explained(f, "many at once") && explained(r, "many at once"));
    gd_tensor *x = numbers(ctx, GD_F64, 2, 3, &seed);
    o.by = -1;
    assert_null(gd_trace(ctx, squares, NULL, &o));
    assert_error(ctx, GD_VALUE, "trace: by is -1");
    o.by = 2;
    bad = gd_trace(ctx, squares, NULL, &o);
    assert_null(gd_traced_value(bad, &x, 1));
    assert_error(ctx, GD_ARGUMENT, "traced_value: 1 inputs, derivatives are by the first 2");
    gd_traced_free(bad);
    gd_traced_free(f);
    gd_traced_free(r);
}

static void axes_keep_their_names(void **unused)
{
    (void)unused;
    gd_traced *f = gd_trace(ctx, chooses, NULL, NULL);
    gd_tensor *x = gd_rename(gd_arange(ctx, GD_F64, 0, 20, 1), "k"), *out;
    gd_tensor *all = gd_stack((gd_tensor *[]){x, x, x, x, x, x}, 6, 0, "problem");
    assert_int_equal(gd_traced_batch(f, GD_TRACED_VALUE, &all, 1, NULL, &out), GD_OK);
    assert_int_equal(gd_ndim(out), 2);
    assert_null(gd_axis_name(out, 0));
    assert_string_equal(gd_axis_name(out, 1), "k");
    gd_traced_free(f);
}

static void bad_batches_are_refused(void **unused)
{
    (void)unused;
    gd_traced *f = gd_trace(ctx, residuals, NULL, NULL);
    gd_tensor *p = gd_zeros(ctx, GD_F64, 2, (int64_t[]){4, 3}),
              *t = gd_zeros(ctx, GD_F64, 2, (int64_t[]){5, 20});
    gd_tensor *in[3] = {p, t, t}, *out[4] = {p, p, p, p};
    assert_int_equal(gd_traced_batch(f, GD_TRACED_VALUE, in, 3, NULL, out), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "traced_batch: input 1 has 5 problems, others 4");
    assert_null(out[0]);
    in[0] = gd_zeros(ctx, GD_F64, 0, NULL);
    assert_int_equal(gd_traced_batch(f, GD_TRACED_VALUE, in, 3, NULL, out), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "traced_batch: input 0 has no axis of problems");
    in[0] = p;
    assert_int_equal(gd_traced_batch(f, GD_TRACED_VALUE, in, 3, (bool[]){true, true, true}, out), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "traced_batch: there are no problems");
    assert_int_equal(gd_traced_batch(f, GD_TRACED_HVP, in, 3, NULL, out), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "traced_batch: 3 inputs and vectors");
    assert_int_equal(gd_traced_batch(f, (gd_traced_kind)9, in, 3, NULL, out), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "traced_batch: unknown kind 9");
    gd_traced_free(f);
}

static bool scenario(gd_ctx *c)
{
    uint64_t seed = 3;
    gd_tensor *x = numbers(c, GD_F64, 40, 2, &seed), *out[2] = {0};
    gd_traced *f = x ? gd_trace(c, rosenbrock, NULL, NULL) : NULL;
    bool good = f && gd_traced_batch(f, GD_TRACED_GRADIENT, &x, 1, NULL, out) == GD_OK &&
                gd_traced_batch(f, GD_TRACED_GRADIENT, &x, 1, NULL, out) == GD_OK;
    if (!good) assert_true(!out[0] && !out[1]);
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
        if (!good) assert_int_equal(gd_error(c), GD_NOMEM);
        if (good) assert_no_error(c);
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
        cmocka_unit_test(each_problem_has_the_bits_that_it_has_alone),
        TEST(derivatives_may_be_by_the_first_inputs_only),
        TEST(axes_keep_their_names),
        TEST(bad_batches_are_refused),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
