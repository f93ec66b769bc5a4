/* gd_scan: the bits of an ordinary loop, its gradients and theirs, inside of traced functions, and steps that cannot be replayed. */
#include "gradus/trace.h"
#include "trace_support.h"
#include "support/own_context.h"

#include <math.h>

#define STEPS 40

/* ---- loops ---- */

/* A loop of one state vector and one list, captured tensors beside it. */
typedef struct model {
    gd_tensor *w, *b; /* of the innermost call */
    gd_scan_step step;
    int states, ys, calls;
    int64_t steps;
    bool backwards, lasts_only, no_loop;
    size_t most_bytes;
    double number;
} model;

typedef gd_tensor tensor;

/* The state is a result, too, as in a recurrent network. */
static gd_status recurrent(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    m->calls++;
    next[0] = gd_tanh(gd_add(gd_matmul(m->w, s[0]), gd_mul(x[0], m->b)));
    y[0] = next[0];
    y[1] = gd_sum(gd_square(gd_sub(next[0], x[0])), NULL, false);
    return GD_OK;
}

/* Two states that exchange their places, and one that the results do not depend on. */
static gd_status swapping(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    m->calls++;
    next[0] = gd_mul(s[1], m->b);
    next[1] = gd_add(gd_sin(s[0]), x[0]);
    next[2] = gd_add_scalar(s[2], 1);
    y[0] = gd_mul(s[0], x[0]);
    return GD_OK;
}

/* Long vectors, so that the body is a loop over elements. */
static gd_status spreading(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    (void)y;
    m->calls++;
    next[0] = gd_add(gd_mul_scalar(s[0], 0.9), gd_mul(gd_exp(gd_neg(gd_square(s[0]))), gd_mul(x[0], m->b)));
    return GD_OK;
}

/* What a step of a user does. */
static gd_status drifting(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    next[0] = gd_add_scalar(gd_mul(s[0], m->b), 0.01 * ++m->calls);
    y[0] = gd_add(next[0], x[0]);
    return GD_OK;
}

static gd_status looking(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    m->calls++;
    double sum = gd_item(gd_sum(s[0], NULL, false));
    next[0] = sum > 0 ? gd_mul(s[0], m->b) : gd_add(s[0], x[0]);
    y[0] = gd_square(next[0]);
    return GD_OK;
}

static gd_status noisy(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    model *m = user;
    m->calls++;
    next[0] = gd_add(gd_mul(s[0], m->b), gd_randn(ctx, GD_F64, 1, (int64_t[]){3}));
    y[0] = gd_add(next[0], x[0]);
    return GD_OK;
}

/* The definition. */
static gd_status plain_loop(model *m, tensor *const *state, tensor *x, tensor **last, tensor **ys)
{
    tensor *at[4], *next[4], *y[4], *all[4][STEPS];
    gd_status status = GD_OK;
    memcpy(at, state, (size_t)m->states * sizeof *at);
    for (int64_t i = 0; i < m->steps && !status; i++) {
        int64_t k = m->backwards ? m->steps - 1 - i : i;
        tensor *slice = gd_index(x, "0", k);
        status = m->step(m, at, &slice, next, y);
        memcpy(at, next, (size_t)m->states * sizeof *at);
        for (int j = 0; j < m->ys; j++) all[j][k] = y[j];
    }
    for (int j = 0; j < m->ys; j++) ys[j] = gd_stack(all[j], (int)m->steps, 0, NULL);
    memcpy(last, at, (size_t)m->states * sizeof *at);
    return status;
}

/* in: start, x, w, b. */
static tensor *loss_of(void *user, tensor *const *in, int count)
{
    model *m = user;
    (void)count;
    tensor *state[4], *last[4], *ys[4];
    m->w = in[2];
    m->b = in[3];
    for (int k = 0; k < m->states; k++) state[k] = k ? gd_mul_scalar(in[0], 0.5 + k) : in[0];
    gd_scan_body body = {.step = m->step,
                         .user = m,
                         .states = m->states,
                         .xs = 1,
                         .ys = m->ys,
                         .backwards = m->backwards,
                         .most_bytes = m->most_bytes};
    gd_status status = m->no_loop ? plain_loop(m, state, in[1], last, ys)
                                  : gd_scan(gd_tensor_ctx(in[0]), &body, state, &in[1], m->steps, last, ys);
    if (status) return NULL;
    tensor *sum = gd_sum(gd_square(last[0]), NULL, false);
    for (int j = 0; j < m->ys && !m->lasts_only; j++)
        sum = gd_add(sum, gd_mul_scalar(gd_sum(gd_sin(ys[j]), NULL, false), 0.3));
    return sum;
}

static void make_inputs(tensor **in, gd_dtype dtype, int64_t n, int64_t steps)
{
    in[0] = gd_cast(gd_randn(ctx, GD_F64, 1, &n), dtype);
    in[1] = gd_cast(gd_randn(ctx, GD_F64, 2, (int64_t[]){steps, n}), dtype);
    in[2] = gd_cast(gd_mul_scalar(gd_randn(ctx, GD_F64, 2, (int64_t[]){n, n}), 0.4), dtype);
    in[3] = gd_cast(gd_randn(ctx, GD_F64, 1, &n), dtype);
}

/* Bits but for the sign of zeros. */
static bool alike(tensor *a, tensor *b) { return same_bits(gd_add_scalar(a, 0), gd_add_scalar(b, 0)); }

static bool close_to(tensor *a, tensor *b)
{
    return gd_item(gd_max(gd_abs(gd_sub(a, b)), NULL, false)) <=
           1e-11 * (1 + gd_item(gd_max(gd_abs(b), NULL, false)));
}

static const struct {
    gd_scan_step step;
    int states, ys;
    int64_t n;
} cases[] = {{recurrent, 1, 2, 3}, {swapping, 3, 1, 3}, {spreading, 1, 0, 200}, {recurrent, 1, 2, 50}};

#define CASES (sizeof cases / sizeof *cases)

static model model_of(size_t k, int64_t steps)
{
    return (model){.step = cases[k].step, .states = cases[k].states, .ys = cases[k].ys, .steps = steps};
}

static void values_and_gradients_have_the_bits_of_a_loop(void **unused)
{
    (void)unused;
    for (size_t k = 0; k < 8 * CASES; k++) {
        gd_scope_begin(ctx);
        model a = model_of(k % CASES, k % 5 == 4 ? 7 : STEPS), b;
        a.backwards = k / CASES % 2;
        a.lasts_only = k / CASES / 2 % 2;
        b = a;
        b.no_loop = true;
        tensor *in[4], *v[2] = {NULL}, *g[2][4];
        make_inputs(in, k / CASES / 4 ? GD_F32 : GD_F64, cases[k % CASES].n, a.steps);
        assert_int_equal(eager_gradient(loss_of, &a, in, 4, &v[0], g[0]), GD_OK);
        assert_int_equal(eager_gradient(loss_of, &b, in, 4, &v[1], g[1]), GD_OK);
        assert_true(same_bits(v[0], v[1]));
        for (int i = 0; i < 4; i++)
            if (!alike(g[0][i], g[1][i])) fail_msg("case %zu, gradient %d", k, i);
        bool turns = cases[k % CASES].step == swapping &&
                     a.lasts_only; /* gradients come to one state, then to the other */
        if (a.steps == STEPS && a.calls >= STEPS && !turns) fail_msg("case %zu: %d calls", k, a.calls);
        gd_scope_end(ctx);
    }
}

static void traced_functions_give_the_bits_of_eager_ones(void **unused)
{
    (void)unused;
    for (size_t k = 0; k <= CASES; k++) {
        gd_scope_begin(ctx);
        model m = model_of(k % CASES, STEPS);
        gd_trace_options o = gd_trace_defaults();
        o.compile = k < CASES ? GD_TRACE_INTERPRET : GD_TRACE_AT_ONCE;
        gd_traced *f = gd_trace(ctx, loss_of, &m, &o);
        tensor *in[4], *v[4], *value = NULL, *g[4], *expected = NULL, *e[4];
        for (int call = 0; call < 6; call++) {
            make_inputs(in, GD_F64, cases[k % CASES].n, STEPS);
            make_inputs(v, GD_F64, cases[k % CASES].n, STEPS);
            assert_int_equal(eager_gradient(loss_of, &m, in, 4, &expected, e), GD_OK);
            assert_int_equal(gd_traced_gradient(f, in, 4, &value, g), GD_OK);
            assert_true(same_bits(value, expected));
            for (int i = 0; i < 4; i++) assert_true(same_bits(g[i], e[i]));
            assert_true(same_bits(gd_traced_value(f, in, 4), expected));
            assert_int_equal(gd_hvp(loss_of, &m, in, 4, v, e), GD_OK);
            assert_int_equal(gd_traced_hvp(f, in, 4, v, g), GD_OK);
            for (int i = 0; i < 4; i++)
                if (!same_bits(g[i], e[i])) fail_msg("case %zu, call %d, product %d", k, call, i);
        }
        if (!replays(f) || explained(f, "not traced")) {
            char text[4096];
            (void)gd_explain_trace(f, text, sizeof text);
            fail_msg("%s", text);
        }
        gd_traced_free(f);
        gd_scope_end(ctx);
    }
}

static void second_derivatives_are_right(void **unused)
{
    (void)unused;
    gd_gradcheck_options o = gd_gradcheck_defaults();
    o.order = 2;
    for (size_t k = 0; k < 3; k++) {
        gd_scope_begin(ctx);
        model m = model_of(k == 2 ? 0 : k, 9);
        m.backwards = k == 2;
        tensor *in[4];
        make_inputs(in, GD_F64, 3, 9);
        if (gd_gradcheck(loss_of, &m, in, 4, &o)) fail_msg("%s", gd_error_text(ctx));
        gd_scope_end(ctx);
    }
}

static void large_states_are_kept_in_pieces(void **unused)
{
    (void)unused;
    for (int k = 0; k < 8; k++) {
        gd_scope_begin(ctx);
        model a = model_of((size_t)k % 2, k < 4 ? 36 : 40), b;
        a.backwards = k / 2 % 2;
        b = a;
        a.most_bytes = 1;
        b.no_loop = true;
        tensor *in[4], *v[2] = {NULL}, *g[2][4];
        make_inputs(in, GD_F64, 3, a.steps);
        assert_int_equal(eager_gradient(loss_of, &a, in, 4, &v[0], g[0]), GD_OK);
        assert_int_equal(eager_gradient(loss_of, &b, in, 4, &v[1], g[1]), GD_OK);
        assert_true(same_bits(v[0], v[1]));
        for (int i = 0; i < 4; i++) assert_true(close_to(g[0][i], g[1][i]));
        gd_trace_options o = gd_trace_defaults();
        gd_traced *f = gd_trace(ctx, loss_of, &a, &o);
        for (int call = 0; call < 5; call++) {
            assert_int_equal(gd_traced_gradient(f, in, 4, NULL, g[1]), GD_OK);
            for (int i = 0; i < 4; i++) assert_true(same_bits(g[0][i], g[1][i]));
        }
        assert_true(replays(f));
        gd_traced_free(f);
        gd_scope_end(ctx);
    }
}

static void steps_that_differ_run_as_they_are(void **unused)
{
    static const gd_scan_step steps[] = {drifting, looking, noisy};
    (void)unused;
    for (size_t k = 0; k < 3; k++) {
        gd_scope_begin(ctx);
        model a = {.step = steps[k], .states = 1, .ys = 1, .steps = STEPS}, b = a;
        b.no_loop = true;
        tensor *in[4], *v[2] = {NULL}, *g[2][4];
        make_inputs(in, GD_F64, 3, STEPS);
        gd_seed(ctx, 7);
        assert_int_equal(eager_gradient(loss_of, &a, in, 4, &v[0], g[0]), GD_OK);
        gd_seed(ctx, 7);
        assert_int_equal(eager_gradient(loss_of, &b, in, 4, &v[1], g[1]), GD_OK);
        assert_int_equal(a.calls, STEPS);
        assert_true(same_bits(v[0], v[1]));
        for (int i = 0; i < 4; i++) assert_true(same_bits(g[0][i], g[1][i]));
        gd_scope_end(ctx);
    }
}

static gd_status forgetful(void *user, tensor *const *s, tensor *const *x, tensor **next, tensor **y)
{
    (void)user, (void)s, (void)x, (void)next, (void)y;
    return GD_OK;
}

static void mistakes_are_errors(void **unused)
{
    (void)unused;
    gd_scope_begin(ctx);
    tensor *in[4], *last[1], *ys[1];
    make_inputs(in, GD_F64, 3, 8);
    gd_scan_body body = {.step = forgetful, .states = 1, .xs = 1, .ys = 1};
    assert_int_equal(gd_scan(ctx, &body, in, &in[1], 8, last, ys), GD_CALLBACK);
    assert_null(last[0]);
    gd_clear_error(ctx);
    assert_int_equal(gd_scan(ctx, &body, in, &in[1], 9, last, ys), GD_SHAPE);
    gd_clear_error(ctx);
    assert_int_equal(gd_scan(ctx, &body, in, &in[1], 0, last, ys), GD_VALUE);
    gd_clear_error(ctx);
    body.states = 65;
    assert_int_equal(gd_scan(ctx, &body, in, &in[1], 8, last, ys), GD_VALUE);
    gd_clear_error(ctx);
    gd_scope_end(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(values_and_gradients_have_the_bits_of_a_loop, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(traced_functions_give_the_bits_of_eager_ones, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(second_derivatives_are_right, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(large_states_are_kept_in_pieces, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(steps_that_differ_run_as_they_are, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(mistakes_are_errors, start_scope, stop_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
