/* One trace replayed by several threads, each with a context of its own: the bits of the function, whatever the others do. */
#include "support/own_context.h"
#include "trace_support.h"

#include <math.h>
#include <pthread.h>

#define THREADS 4
#define CALLS   300

typedef struct state {
    gd_tensor *captured, *weights;
    double number;
} state;

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)

FUNCTION(tape)
{
    (void)count;
    const state *s = user;
    return total(gd_mul(gd_square(gd_slice(in[0], "0", 0, 3, 1)), gd_exp(gd_sin(s->captured))));
}
FUNCTION(loop)
{
    (void)user, (void)count;
    gd_tensor *a = gd_slice(in[0], "0", 0, 599, 1), *b = gd_slice(in[0], "0", 1, 600, 1);
    gd_tensor *d = gd_sub(b, gd_square(a));
    return gd_add(gd_mul_scalar(total(gd_square(d)), 100), total(gd_square(gd_add_scalar(gd_neg(a), 1))));
}
FUNCTION(calls)
{
    (void)count;
    const state *s = user;
    gd_tensor *x = gd_reshape(in[0], 2, (int64_t[]){30, 20});
    return gd_mean(gd_square(gd_softmax(gd_matmul(x, s->weights), "1")), NULL, false);
}
FUNCTION(noise)
{
    (void)user, (void)count;
    return total(gd_mul(gd_square(in[0]), gd_rand(gd_tensor_ctx(in[0]), GD_F64, 1, (int64_t[]){600})));
}
FUNCTION(reads_again)
{
    (void)count;
    const state *s = user;
    return gd_mul(total(gd_tanh(in[0])), gd_traced_input(gd_tensor_ctx(in[0]), GD_F64, 0, NULL, &s->number));
}
static gd_status step(void *user, gd_tensor *const *at, gd_tensor *const *x, gd_tensor **next, gd_tensor **y)
{
    (void)user;
    gd_tensor *moved = gd_tanh(gd_add(gd_mul_scalar(at[0], 0.9), x[0]));
    *next = moved;
    *y = gd_square(moved);
    return moved ? GD_OK : GD_NOMEM;
}
FUNCTION(scan)
{
    (void)user, (void)count;
    gd_ctx *c = gd_tensor_ctx(in[0]);
    gd_tensor *xs = gd_reshape(in[0], 2, (int64_t[]){100, 6}),
              *first = gd_full(c, GD_F64, 1, (int64_t[]){6}, 0.1);
    gd_tensor *last = NULL, *ys = NULL;
    const gd_scan_body body = {.step = step, .states = 1, .xs = 1, .ys = 1};
    if (gd_scan(c, &body, &first, &xs, 100, &last, &ys)) return NULL;
    return gd_add(total(last), total(ys));
}

static const struct {
    const char *name;
    gd_function function;
} cases[] = {{"tape", tape}, {"loop", loop}, {"calls", calls}, {"noise", noise}, {"reads_again", reads_again},
             {"scan", scan}};

static gd_tensor *point(gd_ctx *c, int call)
{
    double v[600];
    for (int i = 0; i < 600; i++) v[i] = sin(0.37 * i + call);
    return gd_from_data(c, GD_F64, 1, (int64_t[]){600}, v);
}

static gd_tensor *weights(gd_ctx *c)
{
    double v[20 * 25];
    for (int i = 0; i < 500; i++) v[i] = cos(0.71 * i);
    return gd_from_data(c, GD_F64, 2, (int64_t[]){20, 25}, v);
}

typedef struct thread {
    pthread_t id;
    int number, calls;
    gd_function function;
    gd_ctx *ctx, *eager;
    gd_traced *mine;
    const char *wrong;
} thread;

/* The function with operators, in a context of this thread, against the trace of the other one. */
static void one_call(thread *t, const state *own, int call)
{
    gd_tensor *value = NULL, *grad = NULL, *got = NULL, *got_grad = NULL;
    gd_tensor *x = point(t->eager, call), *y = point(t->ctx, call);
    gd_seed(t->eager, (uint64_t)call);
    gd_seed(t->ctx, (uint64_t)call);
    void *user = (void *)(uintptr_t)own;
    if (eager_gradient(t->function, user, &x, 1, &value, &grad)) t->wrong = "the function fails";
    if (gd_traced_gradient(t->mine, &y, 1, &got, &got_grad)) t->wrong = "the replay fails";
    if (!t->wrong && !same_bits(got, value)) t->wrong = "a value differs";
    if (!t->wrong && !same_bits(got_grad, grad)) t->wrong = "a gradient differs";
}

static void *work(void *arg)
{
    thread *t = arg;
    state own = {.captured = VECTOR(t->eager, 1, 2, 3), .weights = weights(t->eager), .number = 0.7};
    for (int k = 0; k < t->calls && !t->wrong; k++) {
        gd_scope_begin(t->eager);
        gd_scope_begin(t->ctx);
        one_call(t, &own, k * THREADS + t->number);
        gd_scope_end(t->ctx);
        gd_scope_end(t->eager);
    }
    return NULL;
}

static gd_ctx *own_context(int threads)
{
    gd_ctx *c = context(NULL, threads, NULL);
    gd_scope_begin(c);
    return c;
}

static void record(gd_traced *f, int threads)
{
    (void)threads;
    for (int call = 0; call < 4; call++) {
        gd_tensor *x = point(ctx, call), *value, *grad;
        assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
    }
    assert_true(replays(f));
}

static void run_threads(int k, gd_traced *f, state *s)
{
    thread all[THREADS];
    (void)s;
    for (int i = 0; i < THREADS; i++) {
        all[i] = (thread){.number = i, .calls = CALLS / test_share() + 1, .function = cases[k].function};
        all[i].ctx = own_context(1 + i % 2);
        all[i].eager = own_context(1);
        assert_non_null(all[i].mine = gd_traced_share(f, all[i].ctx));
    }
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&all[i].id, NULL, work, &all[i]), 0);
    for (int call = 0; call < CALLS / test_share(); call++) { /* and the one that recorded */
        gd_tensor *x = point(ctx, call), *value, *grad;
        gd_scope_begin(ctx);
        assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        gd_scope_end(ctx);
    }
    for (int i = 0; i < THREADS; i++) pthread_join(all[i].id, NULL);
    for (int i = 0; i < THREADS; i++) {
        if (all[i].wrong)
            fail_msg("%s: thread %d: %s: %s", cases[k].name, i, all[i].wrong, gd_error_text(all[i].ctx));
        gd_traced_free(all[i].mine);
        gd_scope_end(all[i].ctx);
        gd_scope_end(all[i].eager);
        end_context(all[i].ctx, NULL);
        end_context(all[i].eager, NULL);
    }
}

static void threads_replay_one_trace(void **unused)
{
    (void)unused;
    static const gd_trace_compile compile[] = {GD_TRACE_INTERPRET, GD_TRACE_AT_ONCE};
    for (int k = 0; k < COUNT_OF(cases); k++)
        for (int how = 0; how < COUNT_OF(compile); how++) {
            gd_scope_begin(ctx);
            state s = {.captured = VECTOR(ctx, 1, 2, 3), .weights = weights(ctx), .number = 0.7};
            gd_trace_options o = gd_trace_defaults();
            o.compile = compile[how];
            gd_traced *f = gd_trace(ctx, cases[k].function, &s, &o);
            record(f, 1);
            run_threads(k, f, &s);
            gd_traced_free(f);
            gd_scope_end(ctx);
        }
}

static void what_is_captured_may_change_between_runs(void **unused)
{
    (void)unused;
    state s = {.captured = VECTOR(ctx, 1, 2, 3)};
    gd_traced *f = gd_trace(ctx, tape, &s, NULL), *mine;
    record(f, 1);
    gd_ctx *c = own_context(1);
    assert_non_null(mine = gd_traced_share(f, c));
    for (int call = 0; call < 6; call++) {
        gd_tensor *x = point(ctx, call), *y = point(c, call), *value, *grad, *got, *got_grad;
        assert_int_equal(gd_fill(s.captured, 0.3 * call), GD_OK);
        assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        assert_int_equal(gd_traced_gradient(mine, &y, 1, &got, &got_grad), GD_OK);
        assert_true(same_bits(got, value) && same_bits(got_grad, grad));
    }
    gd_traced_free(mine);
    gd_scope_end(c);
    end_context(c, NULL);
    gd_traced_free(f);
}

static void a_trace_is_freed_after_those_that_replay_it(void **unused)
{
    (void)unused;
    state s = {.captured = VECTOR(ctx, 1, 2, 3)};
    gd_traced *f = gd_trace(ctx, tape, &s, NULL);
    record(f, 1);
    gd_ctx *c = own_context(1);
    gd_traced *first = gd_traced_share(f, c), *second = gd_traced_share(first, c);
    assert_non_null(second);
    gd_traced_free(f);
    assert_error(ctx, GD_STATE, "traced_free: 1 functions of gd_traced_share still replay it");
    gd_traced_free(first);
    assert_error(c, GD_STATE, "traced_free: 1 functions of gd_traced_share still replay it");
    for (int call = 0; call < 3; call++) { /* all of them still work */
        gd_tensor *x = point(ctx, call), *y = point(c, call), *value, *grad, *got, *got_grad;
        assert_int_equal(gd_traced_gradient(f, &x, 1, &value, &grad), GD_OK);
        assert_int_equal(gd_traced_gradient(second, &y, 1, &got, &got_grad), GD_OK);
        assert_true(same_bits(got, value) && same_bits(got_grad, grad));
    }
    gd_traced_free(second);
    gd_traced_free(first);
    assert_no_error(c);
    gd_scope_end(c);
    end_context(c, NULL);
    gd_traced_free(f);
    assert_no_error(ctx);
}

static gd_tensor *named(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    return gd_tanh(in[0]);
}

static void only_what_was_recorded_is_shared(void **unused)
{
    (void)unused;
    gd_traced *f = gd_trace(ctx, named, NULL, NULL);
    for (int call = 0; call < 4; call++) {
        gd_tensor *x = gd_rename(gd_arange(ctx, GD_F64, 0, 5, 1), "k");
        assert_non_null(gd_traced_value(f, &x, 1));
    }
    gd_ctx *c = own_context(1);
    gd_traced *mine = gd_traced_share(f, c);
    gd_tensor *x = gd_rename(gd_arange(c, GD_F64, 0, 5, 1), "k"), *y = gd_traced_value(mine, &x, 1), *grad;
    assert_non_null(y);
    assert_string_equal(gd_axis_name(y, 0), "k");
    assert_values_near(y, 1e-15, 0, tanh(1), tanh(2), tanh(3), tanh(4));
    x = gd_arange(c, GD_F64, 0, 6, 1);
    assert_null(gd_traced_value(mine, &x, 1));
    assert_error(c, GD_STATE, "traced function: there was no recording of the value for such inputs");
    assert_int_equal(gd_traced_gradient(mine, &x, 1, &y, &grad), GD_STATE);
    assert_error(c, GD_STATE, "traced function: there was no recording of the gradient");
    x = gd_arange(ctx, GD_F64, 0, 5, 1);
    assert_null(gd_traced_value(mine, &x, 1));
    assert_error(c, GD_ARGUMENT, "traced_value: input 0 is of a different context");
    assert_null(gd_traced_share(NULL, c));
    assert_error(c, GD_ARGUMENT, "traced_share: the traced function is NULL");
    gd_traced_free(mine);
    gd_scope_end(c);
    end_context(c, NULL);
    gd_traced_free(f);
}

static void sharing_may_fail_for_want_of_memory(void **unused)
{
    (void)unused;
    for (int k = 0; k < COUNT_OF(cases); k++) {
        state s = {.captured = VECTOR(ctx, 1, 2, 3), .weights = weights(ctx), .number = 0.7};
        gd_traced *f = gd_trace(ctx, cases[k].function, &s, NULL);
        record(f, 1);
        for (int64_t n = 1;; n += test_share()) {
            memory m = {.fail_at = n};
            gd_ctx *c = context(&m, 1, NULL);
            if (!c) continue;
            gd_traced *mine = gd_traced_share(f, c);
            if (!mine) assert_int_equal(gd_error(c), GD_NOMEM);
            if (mine) assert_no_error(c);
            gd_clear_error(c);
            gd_traced_free(mine);
            bool failed = m.failed;
            end_context(c, &m);
            if (!failed) break;
        }
        gd_traced_free(f);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start_scope, stop_scope)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(threads_replay_one_trace),
        TEST(what_is_captured_may_change_between_runs),
        TEST(a_trace_is_freed_after_those_that_replay_it),
        TEST(only_what_was_recorded_is_shared),
        TEST(sharing_may_fail_for_want_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
