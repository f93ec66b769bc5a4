/* Traced functions: which are not traced and why, what may change between replays, whose memory results are, errors, and that a
 * replay asks for no memory. */
#include "gradus/dlpack.h"
#include "gradus/module.h"
#include "gradus/optim.h"
#include "support/own_context.h"
#include "trace_support.h"

#include <math.h>

#define CALLS 6

/* ---- functions that must not be traced ---- */

typedef struct state {
    gd_ctx *ctx;
    gd_tensor *captured;
    gd_module *module;
    gd_optimizer *optimizer;
    gd_traced *other;
    double number;
    int calls;
} state;

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)
#define PREPARE           \
    state *s = user;      \
    gd_tensor *x = in[0]; \
    (void)count;          \
    (void)x;              \
    s->calls++

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

FUNCTION(branch_on_item)
{
    PREPARE;
    return gd_item(total(x)) > 0 ? total(gd_square(x)) : total(x);
}
FUNCTION(branch_on_element)
{
    PREPARE;
    return gd_at(x, (int64_t[]){0}) > 0 ? total(gd_exp(x)) : total(x);
}
FUNCTION(reads_input)
{
    PREPARE;
    double v[3];
    return gd_read_f64(x, v, 3) ? NULL : gd_mul_scalar(total(x), v[0]);
}
FUNCTION(reads_result)
{
    PREPARE;
    double v[3];
    return gd_read_f64(gd_square(x), v, 3) ? NULL : gd_mul_scalar(total(x), v[1]);
}
FUNCTION(looks_at_data)
{
    PREPARE;
    return gd_mul_scalar(total(x), ((const double *)gd_data(x))[2]);
}
FUNCTION(writes_result)
{
    PREPARE;
    gd_tensor *y = gd_copy(x);
    double *v = gd_data_mut(y);
    if (v) v[0] = 2 * v[1];
    return total(gd_detach(y));
}
FUNCTION(changes_captured)
{
    PREPARE;
    return gd_add_into(s->captured, gd_detach(x), 1) ? NULL : total(gd_mul(x, s->captured));
}
FUNCTION(fills_captured)
{
    PREPARE;
    return gd_fill(s->captured, s->calls) ? NULL : total(gd_mul(x, s->captured));
}
FUNCTION(writes_captured)
{
    PREPARE;
    double *v = gd_data_mut(s->captured);
    v[0] += 1;
    return total(gd_mul(x, s->captured));
}
FUNCTION(assigns_captured)
{
    PREPARE;
    return gd_assign(s->captured, gd_detach(x)) ? NULL : total(x);
}
FUNCTION(alternates)
{
    PREPARE;
    return total(s->calls % 2 ? gd_sin(x) : gd_cos(x));
}
FUNCTION(grows)
{
    PREPARE;
    for (int i = 0; i < s->calls; i++) x = gd_tanh(x);
    return total(x);
}
FUNCTION(counts)
{
    PREPARE;
    return gd_mul_scalar(total(x), s->calls);
}
FUNCTION(new_data)
{
    PREPARE;
    return total(gd_mul(x, gd_scalar(s->ctx, GD_F64, 1.0 / s->calls)));
}
FUNCTION(new_table)
{
    PREPARE;
    return total(gd_mul(x, VECTOR(s->ctx, s->calls, 1, 2)));
}
FUNCTION(other_slice)
{
    PREPARE;
    return total(gd_slice(x, "0", s->calls % 2, 3, 1));
}
FUNCTION(own_seed)
{
    PREPARE;
    gd_seed(s->ctx, 9);
    return total(gd_mul(x, gd_rand(s->ctx, GD_F64, 1, (int64_t[]){3})));
}
FUNCTION(permutes)
{
    PREPARE;
    return total(gd_mul(x, gd_cast(gd_permutation(s->ctx, 3), GD_F64)));
}
FUNCTION(masks)
{
    PREPARE;
    gd_key key = {.kind = GD_KEY_INDEX, .index = gd_gt(x, gd_zeros_like(x))};
    return total(gd_get(x, &key, 1));
}
FUNCTION(goes_backward)
{
    PREPARE;
    return gd_backward(total(gd_square(s->captured)), NULL, 0) ? NULL : total(x);
}
FUNCTION(steps)
{
    PREPARE;
    gd_zero_grad(s->captured);
    if (gd_set_grad(s->captured, gd_ones_like(s->captured)) || gd_optimizer_step(s->optimizer, NULL, NULL))
        return NULL;
    return total(gd_mul(x, s->captured));
}
FUNCTION(sets_attribute)
{
    PREPARE;
    return gd_module_set_tensor(s->module, "w", gd_detach(x)) ? NULL : total(x);
}
FUNCTION(prints)
{
    PREPARE;
    char text[100];
    gd_format(gd_exp(x), text, sizeof text);
    return gd_mul_scalar(total(x), text[1]);
}
FUNCTION(tries)
{
    PREPARE;
    gd_tensor *m = gd_reshape(gd_cat((gd_tensor *[]){x, gd_slice(x, "0", 0, 1, 1)}, 2, "0"), 2,
                              (int64_t[]){2, 2});
    gd_tensor *l = gd_cholesky(gd_neg(gd_square(m)));
    gd_clear_error(s->ctx);
    return l ? total(l) : total(x);
}
FUNCTION(exports)
{
    PREPARE;
    gd_tensor *outside = gd_from_memory(gd_tensor_device(x), GD_F64, 1, (int64_t[]){1}, NULL, &s->number, 0,
                                        NULL, NULL);
    return total(gd_mul(x, outside));
}

static const struct {
    const char *name;
    gd_function function;
    const char *reason;
} refused[] = {
    {"branch_on_item", branch_on_item, "on the host what it computed"},
    {"branch_on_element", branch_on_element, "reads an input on the host"},
    {"reads_input", reads_input, "reads an input on the host (gd_read)"},
    {"reads_result", reads_result, "on the host what it computed from an input"},
    {"looks_at_data", looks_at_data, "reads an input on the host (gd_data)"},
    {"writes_result", writes_result, "on the host what it computed"},
    {"changes_captured", changes_captured, "changes a tensor in place that was made outside"},
    {"fills_captured", fills_captured, "changes a tensor in place that was made outside"},
    {"writes_captured", writes_captured, "changes a tensor in place that was made outside"},
    {"assigns_captured", assigns_captured, "changes a tensor in place that was made outside"},
    {"alternates", alternates, "operators differ from call to call"},
    {"grows", grows, "operators differ from call to call: sum, then tanh"},
    {"counts", counts, "a number of mul_scalar differs"},
    {"new_data", new_data, "a number of fill differs"},
    {"new_table", new_table, "data that it makes on the host differ"},
    {"other_slice", other_slice, "a number of sum differs"},
    {"own_seed", own_seed, "generator"},
    {"permutes", permutes, "draws a permutation"},
    {"masks", masks, "on the host what it computed"},
    {"goes_backward", goes_backward, "leaves gradients on tensors"},
    {"steps", steps, "runs a step of an optimizer"},
    {"sets_attribute", sets_attribute, "changes"},
    {"prints", prints, "on the host what it computed"},
    {"tries", tries, "cholesky fails"},
    {"exports", exports, "takes memory of others"},
};

static gd_tensor *point(int call)
{
    return VECTOR(ctx, 0.3 + call, call % 2 ? -1.7 : 2.2 - call, 0.7 * call - 1);
}

static void free_state(state *s)
{
    gd_optimizer_free(s->optimizer);
    gd_zero_grad(s->captured);
}

static state new_state(void)
{
    state s = {.ctx = ctx, .captured = gd_require_grad(VECTOR(ctx, 1, 2, 3)), .number = 3};
    s.module = gd_module_new(gd_class_module(ctx));
    s.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "sgd | lr(0.1)"));
    assert_int_equal(gd_optimizer_add(s.optimizer, "captured", s.captured), GD_OK);
    assert_int_equal(gd_module_set_tensor(s.module, "w", s.captured), GD_OK);
    return s;
}

/* The function goes on as it is: equal results, call by call, of two functions in equal states. */
static void functions_that_cannot_be_traced_are_recognised(void **unused)
{
    (void)unused;
    for (int k = 0; k < COUNT_OF(refused); k++) {
        state a = new_state(), b = new_state();
        gd_traced *f = gd_trace(ctx, refused[k].function, &a, NULL);
        for (int call = 0; call < CALLS; call++) {
            gd_scope_begin(ctx);
            gd_tensor *x = point(call);
            gd_seed(ctx, (uint64_t)call);
            gd_no_grad_begin(ctx);
            bool needs_grad = refused[k].function == goes_backward;
            int previous = needs_grad ? gd_enable_grad_begin(ctx) : 0;
            gd_tensor *want = needs_grad ? total(x) : refused[k].function(&b, &x, 1);
            if (needs_grad) gd_enable_grad_end(ctx, previous);
            gd_no_grad_end(ctx);
            assert_no_error(ctx);
            gd_seed(ctx, (uint64_t)call);
            gd_tensor *got = needs_grad ? NULL : gd_traced_value(f, &x, 1), *grad = NULL;
            if (needs_grad) assert_int_equal(gd_traced_gradient(f, &x, 1, &got, &grad), GD_OK);
            assert_no_error(ctx);
            if (!same_bits(got, want)) fail_msg("%s: call %d differs", refused[k].name, call);
            gd_scope_end(ctx);
        }
        char text[1000];
        (void)gd_explain_trace(f, text, sizeof text);
        if (!strstr(text, refused[k].reason)) fail_msg("%s: %s", refused[k].name, text);
        gd_traced_free(f);
        free_state(&a);
        free_state(&b);
    }
}

/* ---- what may change ---- */

FUNCTION(with_captured)
{
    PREPARE;
    return total(gd_mul(gd_square(x), gd_exp(gd_sin(s->captured))));
}
FUNCTION(with_noise)
{
    PREPARE;
    return total(gd_mul(gd_square(x), gd_randn(s->ctx, GD_F64, 1, (int64_t[]){3})));
}
FUNCTION(with_input)
{
    PREPARE;
    return total(gd_mul(gd_square(x), gd_traced_input(s->ctx, GD_F64, 0, NULL, &s->number)));
}
FUNCTION(with_number)
{
    PREPARE;
    return gd_mul_scalar(total(gd_square(x)), s->number);
}
FUNCTION(with_branch)
{
    PREPARE;
    return gd_item(total(s->captured)) > 0 ? total(gd_square(x)) : total(gd_exp(x));
}
FUNCTION(with_module)
{
    PREPARE;
    return total(gd_mul(gd_square(x), gd_module_get_tensor(s->module, "w")));
}
FUNCTION(in_place)
{
    PREPARE;
    gd_tensor *sum = gd_zeros(s->ctx, GD_F64, 1, (int64_t[]){3});
    if (gd_assign(gd_slice(sum, "0", 1, 3, 1), gd_detach(gd_slice(x, "0", 0, 2, 1)))) return NULL;
    if (gd_add_into(sum, gd_detach(x), 2)) return NULL;
    return total(gd_mul(x, gd_detach(sum)));
}
FUNCTION(makes_data)
{
    PREPARE;
    gd_tensor *table = gd_zeros(s->ctx, GD_F64, 1, (int64_t[]){3});
    double *v = gd_data_mut(table);
    for (int i = 0; v && i < 3; i++) v[i] = 0.5 * i;
    return total(gd_mul(gd_square(x), gd_add(table, VECTOR(s->ctx, 3, 2, 1))));
}
FUNCTION(captures_input)
{
    PREPARE;
    return total(gd_mul(gd_square(x), s->captured));
}

/* Value and gradient of one call, against the function itself in the same state. */
static void check_call(gd_traced *f, gd_function function, state *s, gd_tensor *x, int k)
{
    gd_tensor *value = NULL, *grad = NULL, *got = NULL, *got_grad = NULL;
    uint64_t seed = (uint64_t)s->calls;
    gd_scope_begin(ctx);
    gd_seed(ctx, seed);
    assert_int_equal(eager_gradient(function, s, &x, 1, &value, &grad), GD_OK);
    gd_tensor *after = gd_rand(ctx, GD_F64, 0, NULL);
    gd_seed(ctx, seed);
    assert_int_equal(gd_traced_gradient(f, &x, 1, &got, &got_grad), GD_OK);
    assert_no_error(ctx);
    if (!same_bits(got, value)) fail_msg("value of function %d in call %d", k, s->calls);
    if (!same_bits(got_grad, grad)) fail_msg("gradient of function %d in call %d", k, s->calls);
    assert_true(same_bits(after, gd_rand(ctx, GD_F64, 0, NULL)));
    gd_scope_end(ctx);
}

static const gd_function traceable[] = {with_captured, with_noise, with_input, with_branch,
                                        with_module,   in_place,   makes_data, captures_input};

static void change(state *s, int call)
{
    if (call % 7 == 1) assert_int_equal(gd_fill(s->captured, 0.1 * call - 0.5), GD_OK);
    if (call % 4 == 2) s->number = 0.3 * call;
    if (call % 9 == 4) assert_int_equal(gd_module_set_tensor(s->module, "w", s->captured), GD_OK);
}

static void what_is_captured_may_change(void **unused)
{
    (void)unused;
    for (int k = 0; k < COUNT_OF(traceable); k++) {
        state s = new_state();
        gd_traced *f = gd_trace(ctx, traceable[k], &s, NULL);
        for (int call = 0; call < 40; call++) {
            gd_scope_begin(ctx);
            gd_tensor *x = point(call);
            if (k == COUNT_OF(traceable) - 1 && call % 2) x = s.captured;
            check_call(f, traceable[k], &s, x, k);
            change(&s, call);
            gd_scope_end(ctx);
        }
        for (int call = 0; call < 4; call++) check_call(f, traceable[k], &s, point(call), k);
        char text[1000];
        (void)gd_explain_trace(f, text, sizeof text);
        if (!replays(f)) fail_msg("function %d: %s", k, text);
        gd_traced_free(f);
        free_state(&s);
    }
}

/* A captured tensor is replaced, and the old one released: the recordings of all evaluations notice it. */
static void a_replaced_tensor_is_noticed(void **unused)
{
    (void)unused;
    state s = {.ctx = ctx};
    gd_traced *f = gd_trace(ctx, with_captured, &s, NULL);
    for (int call = 0; call < 24; call++) {
        if (call % 6 == 0) {
            gd_release(s.captured);
            gd_scope_begin(ctx);
            s.captured = gd_retain(VECTOR(ctx, 1 + call, 2, 3));
            gd_scope_end(ctx);
        }
        gd_scope_begin(ctx);
        gd_tensor *x = point(call);
        check_call(f, with_captured, &s, x, 0);
        gd_no_grad_begin(ctx);
        gd_tensor *want = with_captured(&s, &x, 1);
        gd_no_grad_end(ctx);
        assert_true(same_bits(gd_traced_value(f, &x, 1), want));
        gd_scope_end(ctx);
    }
    assert_true(replays(f));
    gd_traced_free(f);
    gd_release(s.captured);
}

static void a_changed_number_is_found_by_checking(void **unused)
{
    (void)unused;
    state s = new_state();
    gd_trace_options o = gd_trace_defaults();
    o.check = true;
    gd_traced *f = gd_trace(ctx, with_number, &s, &o);
    gd_tensor *x = point(1);
    for (int call = 0; call < 5; call++) assert_non_null(gd_traced_value(f, &x, 1));
    assert_true(replays(f));
    s.number = 4;
    assert_null(gd_traced_value(f, &x, 1));
    assert_error(ctx, GD_MISMATCH, "trace: a replay of the value has other bits than the function");
    gd_traced_free(f);
    setenv("GRADUS_TRACE", "check", 1);
    f = gd_trace(ctx, with_number, &s, NULL);
    for (int call = 0; call < 5; call++) assert_non_null(gd_traced_value(f, &x, 1));
    s.number = 5;
    assert_null(gd_traced_value(f, &x, 1));
    assert_error(ctx, GD_MISMATCH, "trace: ");
    gd_traced_free(f);
    setenv("GRADUS_TRACE", "off", 1);
    f = gd_trace(ctx, with_number, &s, NULL);
    for (int call = 0; call < 5; call++) assert_non_null(gd_traced_value(f, &x, 1));
    assert_true(explained(f, "not traced: GRADUS_TRACE=off"));
    unsetenv("GRADUS_TRACE");
    gd_traced_free(f);
    free_state(&s);
}

static void shapes_have_recordings_of_their_own(void **unused)
{
    (void)unused;
    state s = new_state();
    gd_trace_options o = gd_trace_defaults();
    o.shapes = 3;
    gd_traced *f = gd_trace(ctx, with_number, &s, &o);
    for (int call = 0; call < 40; call++) {
        gd_scope_begin(ctx);
        gd_tensor *x = gd_arange(ctx, call % 2 ? GD_F32 : GD_F64, 0, 1 + call % 4 + (call > 30), 1);
        if (call % 3 == 2) x = gd_rename(x, "k");
        gd_no_grad_begin(ctx);
        gd_tensor *want = with_number(&s, &x, 1);
        gd_no_grad_end(ctx);
        assert_true(same_bits(gd_traced_value(f, &x, 1), want));
        gd_scope_end(ctx);
    }
    gd_traced_free(f);
    free_state(&s);
}

/* ---- results ---- */

FUNCTION(doubles)
{
    PREPARE;
    return gd_mul_scalar(x, 2);
}
FUNCTION(itself)
{
    PREPARE;
    return x;
}
FUNCTION(constant)
{
    PREPARE;
    return gd_full(s->ctx, GD_F64, 1, (int64_t[]){2}, 7);
}

static void results_that_are_held_stay(void **unused)
{
    (void)unused;
    state s = new_state();
    gd_traced *f = gd_trace(ctx, doubles, &s, NULL);
    gd_tensor *kept[8], *views[8];
    for (int call = 0; call < 8; call++) {
        gd_tensor *x = gd_full(ctx, GD_F64, 1, (int64_t[]){3}, call), *y = gd_traced_value(f, &x, 1);
        kept[call] = call % 2 ? gd_retain(y) : NULL;
        views[call] = call % 2 ? NULL : gd_slice(y, "0", 1, 2, 1);
    }
    for (int call = 0; call < 8; call++) {
        if (kept[call]) assert_values(kept[call], 2.0 * call, 2.0 * call, 2.0 * call);
        if (views[call]) assert_values(views[call], 2.0 * call);
        if (kept[call]) gd_release(kept[call]);
    }
    gd_traced_free(f);
    free_state(&s);
}

static void results_may_be_changed_by_who_has_them(void **unused)
{
    (void)unused;
    static const gd_function all[] = {doubles, itself, constant};
    for (int k = 0; k < 3; k++) {
        state s = new_state();
        gd_traced *f = gd_trace(ctx, all[k], &s, NULL);
        for (int call = 0; call < 8; call++) {
            gd_tensor *x = gd_full(ctx, GD_F64, 1, (int64_t[]){2}, call), *y = gd_traced_value(f, &x, 1);
            double want = k == 2 ? 7 : k == 1 ? call : 2 * call;
            assert_values(y, want, want);
            if (k != 1) assert_int_equal(gd_fill(y, -1), GD_OK);
        }
        gd_traced_free(f);
        free_state(&s);
    }
}

/* ---- errors ---- */

FUNCTION(factor)
{
    PREPARE;
    return total(gd_cholesky(x));
}
FUNCTION(fails)
{
    PREPARE;
    return s->calls == 5 ? NULL : total(gd_mul(x, gd_rand(s->ctx, GD_F64, 1, (int64_t[]){3})));
}

static void a_kernel_that_fails_says_what_the_function_says(void **unused)
{
    (void)unused;
    state s = new_state();
    gd_traced *f = gd_trace(ctx, factor, &s, NULL);
    for (int call = 0; call < 9; call++) {
        bool bad = call % 4 == 3;
        gd_tensor *x = MATRIX(ctx, 2, 2, 2, 1, 1, bad ? -3 : 2 + call);
        gd_tensor *y = gd_traced_value(f, &x, 1);
        assert_int_equal(y == NULL, bad);
        if (bad) assert_error(ctx, GD_SINGULAR, "cholesky: ");
    }
    assert_true(replays(f));
    gd_traced_free(f);
    free_state(&s);
}

static void bad_calls_are_refused(void **unused)
{
    (void)unused;
    state s = new_state();
    gd_tensor *x = point(0), *none = NULL, *out;
    assert_null(gd_trace(ctx, NULL, NULL, NULL));
    assert_error(ctx, GD_ARGUMENT, "trace: the function is NULL");
    assert_null(gd_trace(ctx, doubles, &s, &(gd_trace_options){.shapes = 0, .compile = GD_TRACE_LATER}));
    assert_error(ctx, GD_VALUE, "trace: shapes is 0");
    gd_traced *f = gd_trace(ctx, fails, &s, NULL);
    assert_null(gd_traced_value(f, &none, 1));
    assert_error(ctx, GD_ARGUMENT, "traced function: an input is NULL");
    assert_int_equal(gd_traced_gradient(f, &x, 1, &out, NULL), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "traced_gradient: ");
    for (int call = 1; call < 5; call++) {
        s.calls = call - 1;
        assert_non_null(gd_traced_value(f, &x, 1));
        if (call == 2) { /* fails while it is recorded for the second time, which counts for nothing */
            s.calls = 4;
            assert_null(gd_traced_value(f, &x, 1));
            assert_error(ctx, GD_CALLBACK, "trace: the function returned NULL");
        }
    }
    assert_true(replays(f));
    gd_traced_free(f);
    free_state(&s);
}

/* ---- memory ---- */

static gd_tensor *rosenbrock(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *x = gd_index(in[0], "0", 0), *y = gd_index(in[0], "0", 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100));
}

static void replay_often(gd_trace_compile compile)
{
    gd_trace_options o = gd_trace_defaults();
    o.compile = compile; /* the compiler wants memory, at the first replay or never */
    gd_traced *f = gd_trace(ctx, rosenbrock, NULL, &o);
    gd_tensor *x = VECTOR(ctx, -1.2, 1), *value, *grad;
    for (int call = 0; call < 5; call++) assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
    assert_true(replays(f));
    memory *m = test_memory();
    int64_t before = m->requests;
    int64_t most = 1000000 / test_share();
    for (int64_t call = 0; call < most; call++) {
        if (gd_write_f64(x, (double[]){-1.2 + 1e-7 * (double)call, 1}, 2)) break;
        int64_t writing = m->requests - before;
        assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        assert_int_equal(m->requests - before, writing);
        before = m->requests;
    }
    double u = -1.2 + 1e-7 * (double)(most - 1);
    assert_values(value, 100 * (1 - u * u) * (1 - u * u) + (1 - u) * (1 - u));
    assert_values_near(grad, 1e-9, -400 * u * (1 - u * u) - 2 * (1 - u), 200 * (1 - u * u));
    gd_traced_free(f);
}

static void a_replay_asks_for_no_memory(void **unused)
{
    (void)unused;
    replay_often(GD_TRACE_INTERPRET);
    replay_often(GD_TRACE_AT_ONCE);
}

static bool scenario(gd_ctx *c)
{
    state s = {.ctx = c, .captured = VECTOR(c, 1, 2, 3)};
    gd_tensor *x = VECTOR(c, 0.3, -1, 2), *value, *grad, *product, *jacobian;
    bool good = s.captured && x;
    gd_traced *f = good ? gd_trace(c, with_captured, &s, NULL) : NULL;
    for (int call = 0; call < 5 && good; call++) {
        good = f && gd_traced_gradient(f, &x, 1, &value, &grad) == GD_OK && gd_traced_value(f, &x, 1) &&
               gd_traced_hvp(f, &x, 1, &x, &product) == GD_OK &&
               gd_traced_jacobian(f, &x, 1, &jacobian) == GD_OK;
        if (good) assert_values_near(grad, 1e-6, 0.6 * exp(sin(1)), -2 * exp(sin(2)), 4 * exp(sin(3)));
    }
    gd_traced_free(f);
    return good;
}

/* Recording without memory is given up; the function's own failure is its own. */
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
        TEST(functions_that_cannot_be_traced_are_recognised),
        TEST(what_is_captured_may_change),
        TEST(a_replaced_tensor_is_noticed),
        TEST(a_changed_number_is_found_by_checking),
        TEST(shapes_have_recordings_of_their_own),
        TEST(results_that_are_held_stay),
        TEST(results_may_be_changed_by_who_has_them),
        TEST(a_kernel_that_fails_says_what_the_function_says),
        TEST(bad_calls_are_refused),
        TEST(a_replay_asks_for_no_memory),
        cmocka_unit_test(every_allocation_fails_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
