/* Random graphs: functions put together of operators, views and branches of the graph by a seed, traced.  Values, gradients and
 * products have the bits of the function at every point.
 *
 * GD_TRACE_GRAPHS: how many graphs, 1000 where it is not set. */
#include "random_graph.h"

#include <math.h>

#define CALLS        5
#define MOST_HESSIAN 10 /* elements of an input */
#define PROBLEMS     21 /* in lanes */

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
