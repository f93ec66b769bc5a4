/* Random graphs: functions put together of operators, views and branches of the graph by a seed, traced.  Values, gradients and
 * products have the bits of the function at every point.
 *
 * GD_TRACE_GRAPHS: how many graphs, 1000 where it is not set. */
#include "trace_support.h"

#include <math.h>

#define MOST_NODES   24
#define CALLS        5
#define MOST_HESSIAN 10 /* elements of an input */
#define PROBLEMS     21 /* in lanes */

typedef struct graph {
    gd_ctx *ctx;
    uint64_t seed;
    gd_dtype dtype;
    gd_tensor *captured;
    int64_t rows, columns;
} graph;

static gd_tensor *unary(gd_tensor *x, int64_t which)
{
    switch (which) {
    case 0: return gd_neg(x);
    case 1: return gd_square(x);
    case 2: return gd_tanh(x);
    case 3: return gd_sin(x);
    case 4: return gd_cos(x);
    case 5: return gd_exp(gd_mul_scalar(gd_tanh(x), 0.5));
    case 6: return gd_log(gd_add_scalar(gd_square(x), 1));
    case 7: return gd_sqrt(gd_add_scalar(gd_square(x), 0.25));
    case 8: return gd_sigmoid(x);
    case 9: return gd_softplus(x);
    case 10: return gd_abs(x);
    case 11: return gd_relu(x);
    case 12: return gd_reciprocal(gd_add_scalar(gd_square(x), 1));
    case 13: return gd_mul_scalar(x, 0.7);
    case 14: return gd_add_scalar(x, -0.3);
    case 15: return gd_pow_scalar(gd_add_scalar(gd_abs(x), 0.5), 1.7);
    case 16: return gd_pow_scalar(x, 2);
    case 17: return gd_clamp(x, -1, 1.5);
    case 18: return gd_erf(x);
    case 19: return gd_atan(x);
    default: return gd_gelu(x);
    }
}

static gd_tensor *binary(gd_tensor *a, gd_tensor *b, int64_t which)
{
    switch (which) {
    case 0: return gd_add(a, b);
    case 1: return gd_sub(a, b);
    case 2: return gd_mul(a, b);
    case 3: return gd_div(a, gd_add_scalar(gd_square(b), 1));
    case 4: return gd_minimum(a, b);
    case 5: return gd_maximum(a, b);
    case 6: return gd_where(gd_gt(a, b), gd_mul_scalar(a, 2), b);
    case 7: return gd_lerp(a, b, gd_sigmoid(a));
    default: return gd_fma(a, b, a);
    }
}

/* Every element with the one behind it, and with none for the last. */
static gd_tensor *neighbours(gd_tensor *x, int64_t n, const int64_t *size)
{
    gd_tensor *flat = gd_reshape(x, 1, &n);
    if (n < 2) return x;
    gd_tensor *a = gd_slice(flat, "0", 0, n - 1, 1), *b = gd_slice(flat, "0", 1, n, 1);
    gd_tensor *d = gd_sub(gd_square(a), gd_mul_scalar(b, 0.5));
    return gd_reshape(gd_pad(d, (int64_t[]){0}, (int64_t[]){1}, 0.25), 2, size);
}

/* Rows but the last and but the first, and a row of zeros. */
static gd_tensor *between_rows(const graph *g, gd_tensor *x)
{
    gd_tensor *a = gd_slice(x, "0", 0, g->rows - 1, 1), *b = gd_slice(x, "0", 1, g->rows, 1);
    return gd_pad(gd_mul(gd_tanh(a), gd_add_scalar(b, 2)), (int64_t[]){1, 0}, (int64_t[]){0, 0}, 0);
}

/* Something of the shape [rows, columns] again. */
static gd_tensor *reshaped(const graph *g, gd_tensor *x, int64_t which)
{
    int64_t size[2] = {g->rows, g->columns}, n = g->rows * g->columns, turned[2] = {g->columns, g->rows};
    switch (which) {
    case 0: return gd_add(x, gd_sum(x, "0", true));
    case 1: return gd_sub(x, gd_mean(x, "1", true));
    case 2: return gd_reshape(gd_transpose(x, 0, 1), 2, size);
    case 3: return gd_transpose(gd_reshape(x, 2, turned), 0, 1);
    case 4: return gd_reshape(gd_flip(gd_reshape(x, 1, &n), "0"), 2, size);
    case 5: return gd_softmax(x, "1");
    case 6: return gd_mul_scalar(gd_cumsum(x, "0"), 0.5);
    case 7: return gd_mul_scalar(gd_matmul(x, gd_matmul(gd_transpose(x, 0, 1), x)), 0.1);
    case 8:
        return g->rows < 2
                   ? x
                   : gd_cat((gd_tensor *[]){gd_slice(x, "0", 1, g->rows, 1), gd_slice(x, "0", 0, 1, 1)}, 2,
                            "0");
    case 9: return gd_add(x, gd_max(x, "1", true));
    case 10: return gd_expand(gd_sum(gd_tanh(x), "0", true), 2, size);
    case 11: return gd_add(x, gd_index(x, "0", g->rows - 1));
    case 12: return gd_sub(x, gd_logsumexp(x, "1", true));
    case 13: return neighbours(x, n, size);
    case 14: return g->rows < 2 ? x : between_rows(g, x);
    case 15: return gd_add(x, gd_mul_scalar(gd_sum(gd_square(x), NULL, false), 1e-3));
    case 16: return gd_mul(x, gd_sum(gd_sigmoid(x), "1", true));
    case 17: return gd_where(gd_gt(x, gd_mean(x, "0", true)), x, gd_neg(x));
    default: return gd_mul(x, gd_detach(gd_sigmoid(x)));
    }
}

static gd_tensor *build(void *user, gd_tensor *const *in, int count)
{
    const graph *g = user;
    uint64_t state = g->seed;
    gd_tensor *node[MOST_NODES + 4];
    int n = 0;
    for (int i = 0; i < count; i++) node[n++] = in[i];
    if (random_below(&state, 2)) node[n++] = g->captured;
    int64_t most = 1 + random_below(&state, MOST_NODES - 4);
    for (int64_t k = 0; k < most; k++) {
        gd_tensor *a = node[random_below(&state, n)], *b = node[random_below(&state, n)];
        int64_t what = random_below(&state, 10);
        node[n] = what < 4   ? unary(a, random_below(&state, 21))
                  : what < 7 ? binary(a, b, random_below(&state, 9))
                             : reshaped(g, a, random_below(&state, 19));
        if (!node[n++]) return NULL;
    }
    gd_tensor *sum = gd_mean(gd_square(node[n - 1]), NULL, false);
    return gd_add(sum, gd_sum(gd_tanh(node[random_below(&state, n)]), NULL, false));
}

static gd_tensor *numbers(const graph *g, uint64_t *state)
{
    int64_t n = g->rows * g->columns;
    double *v = malloc((size_t)n * sizeof *v);
    for (int64_t i = 0; i < n; i++) v[i] = 4 * random_unit(state) - 2;
    gd_tensor *t = gd_from_f64(g->ctx, g->dtype, 2, (int64_t[]){g->rows, g->columns}, v);
    free(v);
    return t;
}

static void wrong(const graph *g, const char *what, int call)
{
    fail_msg("%s of graph %llu (%s [%lld, %lld]) differs in call %d", what, (unsigned long long)g->seed,
             gd_dtype_name(g->dtype), (long long)g->rows, (long long)g->columns, call + 1);
}

static void one_call(const graph *g, gd_traced *f, uint64_t *state, int call, bool second)
{
    gd_tensor *in[2], *v[2], *value = NULL, *grad[2], *got = NULL, *got_grad[2], *want[2], *product[2];
    for (int i = 0; i < 2; i++) {
        in[i] = numbers(g, state);
        v[i] = numbers(g, state);
    }
    void *user = (void *)(uintptr_t)g;
    assert_int_equal(eager_gradient(build, user, in, 2, &value, grad), GD_OK);
    assert_int_equal(gd_traced_gradient(f, in, 2, &got, got_grad), GD_OK);
    assert_no_error(g->ctx);
    if (!same_bits(got, value)) wrong(g, "value", call);
    for (int i = 0; i < 2; i++)
        if (!same_bits(got_grad[i], grad[i])) wrong(g, "gradient", call);
    gd_no_grad_begin(g->ctx);
    value = build(user, in, 2);
    gd_no_grad_end(g->ctx);
    if (!same_bits(gd_traced_value(f, in, 2), value)) wrong(g, "value alone", call);
    if (!second) return;
    assert_int_equal(gd_hvp(build, user, in, 2, v, want), GD_OK);
    assert_int_equal(gd_traced_hvp(f, in, 2, v, product), GD_OK);
    assert_no_error(g->ctx);
    if (gd_numel(in[0]) < MOST_HESSIAN &&
        !same_bits(gd_traced_hessian(f, in, 2), gd_hessian(build, user, in, 2)))
        wrong(g, "Hessian", call);
    for (int i = 0; i < 2; i++)
        if (!same_bits(product[i], want[i])) wrong(g, "product", call);
}

/* Many problems at once, in lanes where the graph allows it. */
static int many_calls(const graph *g, gd_traced *f, uint64_t *state)
{
    gd_tensor *one[2][PROBLEMS], *in[2], *out[3];
    void *user = (void *)(uintptr_t)g;
    gd_scope_begin(g->ctx);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < PROBLEMS; k++) one[i][k] = numbers(g, state);
        in[i] = gd_stack(one[i], PROBLEMS, 0, NULL);
    }
    assert_int_equal(gd_traced_batch(f, GD_TRACED_GRADIENT, in, 2, NULL, out), GD_OK);
    for (int k = 0; k < PROBLEMS; k++) {
        gd_tensor *x[2] = {one[0][k], one[1][k]}, *value = NULL, *grad[2];
        assert_int_equal(eager_gradient(build, user, x, 2, &value, grad), GD_OK);
        bool same = same_bits(gd_index(out[0], "0", k), value);
        for (int i = 0; i < 2; i++) same = same && same_bits(gd_index(out[1 + i], "0", k), grad[i]);
        if (!same) wrong(g, "one of many", k);
    }
    gd_scope_end(g->ctx);
    return explained(f, "many at once");
}

static void random_graphs(int threads, uint64_t first, int64_t graphs)
{
    gd_ctx *ctx = context(NULL, threads, NULL);
    int64_t laned = 0;
    for (int64_t k = 0; k < graphs; k++) {
        uint64_t state = first + (uint64_t)k;
        graph g = {.ctx = ctx, .seed = random_bits(&state)};
        bool large = k % 50 == 49, middle = !large && k % 3 == 1; /* loops rather than tapes */
        g.dtype = random_below(&state, 3) ? GD_F64 : GD_F32;
        g.rows = large    ? 150 + random_below(&state, 50)
                 : middle ? 4 + random_below(&state, 9)
                          : 1 + random_below(&state, 4);
        g.columns = large    ? 100 + random_below(&state, 90)
                    : middle ? 9 + random_below(&state, 40)
                             : 1 + random_below(&state, 5);
        gd_scope_begin(ctx);
        g.captured = numbers(&g, &state);
        gd_trace_options o = gd_trace_defaults();
        if (k % 97 == 5 || k == 49) o.compile = GD_TRACE_AT_ONCE;
        if (k % 7 == 3) o.compile = GD_TRACE_INTERPRET;
        gd_traced *f = gd_trace(ctx, build, &g, &o);
        for (int call = 0; call < CALLS; call++) {
            gd_scope_begin(ctx);
            one_call(&g, f, &state, call, !large && k % 3 < 2);
            if (call == 3) assert_int_equal(gd_fill(g.captured, 0.25), GD_OK);
            gd_scope_end(ctx);
        }
        if (!large && k % 4 == 0) laned += many_calls(&g, f, &state);
        if (explained(f, "not traced")) {
            char text[4000];
            (void)gd_explain_trace(f, text, sizeof text);
            fail_msg("graph %llu: %s", (unsigned long long)g.seed, text);
        }
        gd_traced_free(f);
        gd_scope_end(ctx);
    }
    assert_true(laned * 20 >= graphs);
    gd_ctx_free(ctx);
}

static int64_t wanted(void)
{
    const char *text = getenv("GD_TRACE_GRAPHS");
    int64_t n = text ? atoll(text) : 1000;
    return n / test_share() + 3;
}

static void graphs_on_one_thread(void **state) { (void)state, random_graphs(1, 1000000, wanted() / 2); }
static void graphs_on_two_threads(void **state) { (void)state, random_graphs(2, 2000000, wanted() / 4); }
static void graphs_on_three_threads(void **state) { (void)state, random_graphs(3, 3000000, wanted() / 4); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(graphs_on_one_thread),
        cmocka_unit_test(graphs_on_two_threads),
        cmocka_unit_test(graphs_on_three_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
