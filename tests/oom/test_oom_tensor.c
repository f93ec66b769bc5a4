/* Every allocation of a scenario fails once: the error is NOMEM, nothing leaks, nothing crashes, and the
 * context works afterwards.  The scenarios together touch every operator case with its gradient, and every
 * derivative function. */
#include "support/op_cases.h"

#include <inttypes.h>

static int64_t points; /* failures so far */

typedef struct scenario {
    const char *name;
    void (*run)(gd_ctx *ctx, const struct scenario *s);
    const op_case *c;
    layout layout;
    int threads;
    bool all_after; /* not only one allocation fails, but all that follow too */
} scenario;

/* ---- scenarios ---- */

static void apply_and_differentiate(gd_ctx *ctx, const scenario *s)
{
    case_inputs inputs;
    if (!case_build(&inputs, ctx, s->c, s->layout, case_dtype(s->c), 1, false, false)) return;
    bool wanted = s->c->order > 0;
    for (int k = 0; k < s->c->operands && wanted; k++)
        if (gd_dtype_is_float(gd_tensor_dtype(inputs.leaf[k]))) wanted = gd_require_grad(inputs.leaf[k]);
    gd_tensor *y = case_apply(&inputs, ctx, inputs.leaf);
    if (!y || !wanted) return;
    gd_tensor *loss = gd_sum(gd_drop_names(y), NULL, false);
    if (loss && gd_backward(loss, NULL, 0) == GD_OK)
        for (int k = 0; k < s->c->operands; k++) gd_zero_grad(inputs.leaf[k]);
}

/* x y + sum of exp(x), with names. */
static gd_tensor *smooth(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *product = gd_sum(gd_mul(in[0], in[1]), NULL, false);
    return gd_add(product, gd_sum(gd_exp(in[0]), NULL, false));
}

static gd_tensor *vector_valued(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    return gd_mul(gd_exp(in[0]), in[1]);
}

static bool two_inputs(gd_ctx *ctx, gd_tensor **in)
{
    in[0] = gd_rename(VECTOR(ctx, 0.5, -0.25, 1), "i");
    in[1] = gd_rename(VECTOR(ctx, 1.5, 0.75, -1), "i");
    return in[0] && in[1];
}

static void derivatives(gd_ctx *ctx, const scenario *s)
{
    gd_tensor *in[2], *out[2];
    if (!two_inputs(ctx, in)) return;
    switch (s->name[0]) {
    case 'v': (void)!gd_hvp(smooth, NULL, in, 2, in, out); break;
    case 'p': (void)gd_jvp(vector_valued, NULL, in, 2, in); break;
    case 'j': (void)!gd_jacobian(vector_valued, NULL, in, 2, out); break;
    case 'h': (void)gd_hessian(smooth, NULL, in, 2); break;
    default: (void)!gd_gradcheck(vector_valued, NULL, in, 2, &(gd_gradcheck_options){1e-6, 1e-5, 1e-3, 2});
    }
}

/* Gradients that flow twice, are kept, accumulate; a deep nest of scopes; results kept out of scopes. */
static void graph_and_scopes(gd_ctx *ctx, const scenario *s)
{
    (void)s;
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, 2, 3)), *grad = NULL, *second = NULL;
    if (!x) return;
    for (int i = 0; i < 40; i++) gd_scope_begin(ctx);
    gd_tensor *y = gd_sum(gd_mul(gd_square(x), x), NULL, false);
    for (int i = 0; i < 40; i++) {
        (void)gd_keep(y);
        gd_scope_end(ctx);
    }
    if (y && !gd_backward(y, NULL, GD_RETAIN_GRAPH) && !gd_backward(y, NULL, GD_RETAIN_GRAPH) &&
        !gd_grad(y, NULL, &x, 1, GD_CREATE_GRAPH, &grad))
        (void)!gd_grad(gd_sum(grad, NULL, false), NULL, &x, 1, 0, &second);
    gd_zero_grad(x);
}

/* Changes in place, reading, formatting. */
static void in_place(gd_ctx *ctx, const scenario *s)
{
    (void)s;
    char text[200];
    double number[6];
    gd_tensor *x = gd_zeros(ctx, GD_F32, 2, (int64_t[]){2, 3}), *row = gd_index(x, "0", 1);
    if (!row) return;
    if (gd_fill(row, 2) || gd_add_into(row, gd_scalar(ctx, GD_F32, 1), 3)) return;
    if (gd_assign(gd_transpose(x, 0, 1), gd_scalar(ctx, GD_F64, 4))) return;
    if (gd_write_f64(x, (double[]){1, 2, 3, 4, 5, 6}, 6) || gd_read_f64(gd_transpose(x, 0, 1), number, 6))
        return;
    gd_format(x, text, sizeof text);
    (void)gd_set_grad(x, x);
    gd_zero_grad(x);
}

/* Large enough for the thread pool: without memory for it the caller works alone. */
static void with_threads(gd_ctx *ctx, const scenario *s)
{
    (void)s;
    gd_tensor *x = gd_require_grad(gd_ones(ctx, GD_F64, 2, (int64_t[]){300, 400}));
    gd_tensor *y = x ? gd_sum(gd_exp(x), NULL, false) : NULL;
    if (y) (void)!gd_backward(y, NULL, 0);
    gd_zero_grad(x);
}

/* ---- the loop ---- */

static void assert_usable(gd_ctx *ctx)
{
    gd_clear_error(ctx);
    gd_scope_begin(ctx);
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 1, 2));
    gd_tensor *y = gd_sum(gd_square(x), NULL, false);
    assert_true(gd_item(y) == 5);
    assert_int_equal(gd_backward(y, NULL, 0), GD_OK);
    assert_values(gd_grad_of(x), 2, 4);
    gd_zero_grad(x);
    gd_scope_end(ctx);
    assert_no_error(ctx);
}

/* Runs the scenario with its k-th allocation failing; false when there are not that many. */
static bool fails_well(const scenario *s, int64_t k)
{
    memory m = {0};
    gd_ctx *ctx = context(&m, s->threads, NULL);
    assert_non_null(ctx);
    m.fail_at = m.requests + k;
    m.fail_on = s->all_after;
    gd_scope_begin(ctx);
    s->run(ctx, s);
    gd_scope_end(ctx);
    bool failed = m.failed;
    m.fail_at = 0;
    if (failed && gd_error(ctx) != GD_NOMEM && s->threads == 1)
        fail_msg("%s: allocation %" PRId64 " failed, but the error is %s (%s)", s->name, k,
                 gd_status_name(gd_error(ctx)), gd_error_text(ctx));
    if (!failed) assert_no_error(ctx);
    if (gd_ctx_live(ctx))
        fail_msg("%s: %" PRId64 " objects left after allocation %" PRId64 " failed", s->name,
                 gd_ctx_live(ctx), k);
    assert_usable(ctx);
    end_context(ctx, &m);
    points += failed;
    return failed;
}

static void exhaust(scenario s)
{
    if (s.threads == 0) s.threads = 1;
    for (int64_t k = 1; fails_well(&s, k); k++) assert_true(k < 5000);
}

/* ---- tests ---- */

static void operators_survive(layout l, bool all_after)
{
    int64_t before = points;
    for (int i = 0; i < op_case_count(); i++) {
        const op_case *c = op_case_at(i);
        if (!case_has_layout(c, l)) continue;
        scenario s = {
            .name = c->name, .run = apply_and_differentiate, .c = c, .layout = l, .all_after = all_after};
        exhaust(s);
    }
    print_message("%s: %" PRId64 " failure points\n", layout_names[l], points - before);
}

static void contiguous_operators_survive(void **state) { (void)state, operators_survive(CONTIGUOUS, false); }
static void strided_operators_survive(void **state) { (void)state, operators_survive(STRIDED, false); }
static void broadcast_operators_survive(void **state) { (void)state, operators_survive(BROADCAST, false); }
static void labelled_operators_survive(void **state) { (void)state, operators_survive(LABELLED, false); }
static void operators_survive_without_any_memory(void **state)
{
    (void)state, operators_survive(LABELLED, true);
}

static void derivative_functions_survive(void **state)
{
    (void)state;
    int64_t before = points;
    static const char *const names[] = {"vector times Hessian", "product with Jacobian", "jacobian",
                                        "hessian", "check"};
    for (int i = 0; i < COUNT_OF(names); i++) exhaust((scenario){.name = names[i], .run = derivatives});
    exhaust((scenario){.name = "graph and scopes", .run = graph_and_scopes});
    exhaust((scenario){.name = "in place", .run = in_place});
    exhaust((scenario){.name = "threads", .run = with_threads, .threads = 3});
    print_message("derivatives: %" PRId64 " failure points\n", points - before);
}

static void making_a_context_survives(void **state)
{
    (void)state;
    memory m;
    gd_ctx *ctx = NULL;
    for (int64_t k = 1; !ctx; k++) {
        m = (memory){.fail_at = k};
        gd_options options = gd_options_default();
        options.allocator = memory_allocator(&m);
        options.pool = k % 2;
        options.cache_dir = "/nowhere";
        ctx = gd_ctx_new(&options);
        points += m.failed;
        if (!ctx) assert_true(m.failed && m.blocks == 0 && m.bytes == 0);
    }
    end_context(ctx, &m);
}

static void there_were_at_least_2000_failures(void **state)
{
    (void)state;
    print_message("%" PRId64 " failure points in all\n", points);
    assert_true(points >= 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(making_a_context_survives),
        cmocka_unit_test(contiguous_operators_survive),
        cmocka_unit_test(strided_operators_survive),
        cmocka_unit_test(broadcast_operators_survive),
        cmocka_unit_test(labelled_operators_survive),
        cmocka_unit_test(operators_survive_without_any_memory),
        cmocka_unit_test(derivative_functions_survive),
        cmocka_unit_test(there_were_at_least_2000_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
