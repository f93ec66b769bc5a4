/* Traced functions of tensors on the GPU: the bits of the function itself there, what is refused and why, what may change between
 * replays.  Skipped without a GPU; plain/gpu_traced runs them on the device of backends/plain. */
#include "trace/trace_cases.h"

#include "gradus/optim.h"
#include "tensor/device.h"

#define CALLS 6 /* the first three run the function */

static gd_device *gpu_of(gd_ctx *ctx) { return gd_gpu_count(ctx) > 0 ? gd_device_get(ctx, "gpu") : NULL; }

static void need_gpu(void)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    bool there = gpu_of(ctx);
    if (!there) print_message("skipped: %s\n", gd_error(ctx) ? gd_error_text(ctx) : "there is no GPU");
    end_context(ctx, NULL);
    if (!there) skip();
}

/* ---- every operator ---- */

/* They draw or read on the host, or move tensors to a different device. */
static bool may_be_refused(const char *name)
{
    static const char *const reads[] = {"to_device", "dropout", "rand", "rademacher", "permutation", "prod"};
    for (int i = 0; i < COUNT_OF(reads); i++)
        if (!strncmp(name, reads[i], strlen(reads[i]))) return true;
    return false;
}

static void settle(const job *j, const char *what, const gd_traced *f)
{
    settle_as(j, what, f, may_be_refused(j->c->name));
}

static void build(job *j, case_inputs *in, layout l, gd_dtype dtype, int call)
{
    j->now = in;
    assert_true(case_build(in, j->ctx, j->c, l, dtype, (uint64_t)(7 * call + 3), false, false));
    for (int k = 0; k < j->c->operands; k++) {
        j->there[k] = case_moved(in->leaf[k], gpu_of(j->ctx));
        assert_non_null(j->there[k]);
    }
}

static void values(job *j, layout l, gd_dtype dtype)
{
    gd_traced *f = gd_trace(j->ctx, operator_of, j, NULL);
    for (int call = 0; call < CALLS; call++) {
        case_inputs in;
        gd_scope_begin(j->ctx);
        build(j, &in, l, dtype, call);
        gd_seed(j->ctx, 5);
        gd_no_grad_begin(j->ctx);
        gd_tensor *want = operator_of(j, j->there, j->c->operands);
        gd_no_grad_end(j->ctx);
        gd_seed(j->ctx, 5);
        gd_tensor *got = gd_traced_value(f, j->there, j->c->operands);
        assert_no_error(j->ctx);
        if (!same_bits(got, want)) differs(j, "value", call);
        case_free(&in);
        gd_scope_end(j->ctx);
    }
    settle(j, "value", f);
    gd_traced_free(f);
}

static bool all_floats(const job *j)
{
    bool floats = j->c->operands > 0;
    for (int i = 0; i < j->c->operands && floats; i++)
        floats = gd_dtype_is_float(gd_tensor_dtype(j->there[i]));
    return floats;
}

static void gradients(job *j, layout l, gd_dtype dtype)
{
    gd_traced *f = gd_trace(j->ctx, loss_of, j, NULL);
    int n = j->c->operands, done = 0;
    for (int call = 0; call < CALLS; call++) {
        case_inputs in;
        gd_tensor *value = NULL, *grad[MAX_OPERANDS] = {0}, *got_value = NULL, *got[MAX_OPERANDS] = {0};
        gd_scope_begin(j->ctx);
        build(j, &in, l, dtype, call);
        if (all_floats(j)) {
            gd_seed(j->ctx, 5);
            gd_status status = eager_gradient(loss_of, j, j->there, n, &value, grad);
            assert_no_error(j->ctx);
            gd_seed(j->ctx, 5);
            if (!status) status = gd_traced_gradient(f, j->there, n, &got_value, got);
            assert_no_error(j->ctx);
            if (!same_bits(got_value, value)) differs(j, "value beside the gradient", call);
            for (int i = 0; i < n; i++)
                if (!same_bits(got[i], grad[i])) differs(j, "gradient", call);
            done++;
        }
        case_free(&in);
        gd_scope_end(j->ctx);
    }
    if (done) settle(j, "gradient", f);
    gd_traced_free(f);
}

static void run(layout l)
{
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    traced = untraced = wrong = 0;
    for (int k = 0; k < op_case_count(); k += test_share()) {
        const op_case *c = op_case_at(k);
        if (!case_has_layout(c, l) || !c->operands) continue;
        job j = {.c = c, .ctx = ctx};
        for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
            if (!(c->dtypes >> dtype & 1)) continue;
            values(&j, l, (gd_dtype)dtype);
            if (c->order >= 1 && gd_dtype_is_float((gd_dtype)dtype)) gradients(&j, l, (gd_dtype)dtype);
        }
    }
    print_message("%d functions replayed, %d run as they are\n", traced, untraced);
    assert_int_equal(wrong, 0);
    assert_true(traced > 10 * untraced);
    end_context(ctx, NULL);
}

DEFINE_LAYOUT_TESTS(run)

/* ---- functions ---- */

typedef struct state {
    gd_ctx *ctx;
    gd_tensor *captured;
    double number;
} state;

#define FUNCTION(name) static gd_tensor *name(void *user, gd_tensor *const *in, int count)
#define PREPARE            \
    const state *s = user; \
    gd_tensor *x = in[0];  \
    (void)count, (void)s

static gd_tensor *total(gd_tensor *x) { return gd_sum(x, NULL, false); }

FUNCTION(valley)
{
    PREPARE;
    int64_t n = gd_size(x, 0);
    gd_tensor *a = gd_slice(x, "0", 0, n - 1, 1), *b = gd_slice(x, "0", 1, n, 1);
    return total(gd_add(gd_square(gd_add_scalar(gd_neg(a), 1)),
                        gd_mul_scalar(gd_square(gd_sub(b, gd_square(a))), 100)));
}
FUNCTION(mixed) /* broadcasts, truth, dtypes, a product of captured data */
{
    PREPARE;
    gd_tensor *m = gd_mul(gd_reshape(x, 2, (int64_t[]){-1, 1}), gd_reshape(x, 2, (int64_t[]){1, -1}));
    gd_tensor *big = gd_gt(m, gd_mean(m, "1", true));
    gd_tensor *y = gd_where(big, gd_tanh(m), gd_exp(gd_neg(gd_square(m))));
    gd_tensor *z = gd_matmul(y, gd_sigmoid(s->captured));
    return total(gd_mul(gd_softmax(z, "1"), gd_cast(gd_cast(y, GD_F32), gd_tensor_dtype(x))));
}
FUNCTION(picks)
{
    PREPARE;
    gd_tensor *order = gd_argsort(x, "0", false), *sorted = gd_gather(x, "0", order);
    return total(gd_mul(sorted, gd_cumsum(sorted, "0")));
}

static const struct {
    const char *name;
    gd_function f;
} functions[] = {{"valley", valley}, {"mixed", mixed}, {"picks", picks}};

enum { N = 6 };

static gd_tensor *point(gd_ctx *ctx, int call, gd_dtype dtype)
{
    double v[N];
    for (int i = 0; i < N; i++) v[i] = 0.3 * (i + 1) * (i % 2 ? -1 : 1) + 0.07 * call * (i + 1);
    return gd_to_device(gd_from_f64(ctx, dtype, 1, (int64_t[]){N}, v), gpu_of(ctx));
}

static gd_tensor *matrix_there(gd_ctx *ctx, gd_dtype dtype)
{
    gd_seed(ctx, 3);
    return gd_to_device(gd_cast(gd_randn(ctx, GD_F64, 2, (int64_t[]){N, N}), dtype), gpu_of(ctx));
}

static void assert_same(const char *name, const char *what, int call, const gd_tensor *a, const gd_tensor *b)
{
    if (!same_bits(a, b)) fail_msg("%s: %s, call %d", name, what, call + 1);
}

/* Value, gradient, product with the Hessian, Jacobian and Hessian; replayed at the end. */
static void every_kind_has_the_bits_of_the_function(void **unused)
{
    (void)unused;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int k = 0; k < 3 * COUNT_OF(functions); k++) {
        static const gd_dtype dtypes[] = {GD_F64, GD_F32, GD_BF16};
        const char *name = functions[k / 3].name;
        gd_function f = functions[k / 3].f;
        gd_dtype dtype = dtypes[k % 3];
        gd_scope_begin(ctx);
        state s = {.ctx = ctx, .captured = matrix_there(ctx, dtype)};
        gd_traced *t = gd_trace(ctx, f, &s, NULL);
        for (int call = 0; call < CALLS; call++) {
            gd_tensor *x = point(ctx, call, dtype), *v = point(ctx, call + 20, dtype), *want = NULL,
                      *got = NULL, *grad = NULL, *product = NULL, *rows = NULL;
            gd_scope_begin(ctx);
            assert_int_equal(eager_gradient(f, &s, &x, 1, &want, &grad), GD_OK);
            assert_same(name, "value", call, gd_traced_value(t, &x, 1), want);
            assert_int_equal(gd_traced_gradient(t, &x, 1, &got, &product), GD_OK);
            assert_same(name, "value beside the gradient", call, got, want);
            assert_same(name, "gradient", call, product, grad);
            if (f != picks) {
                assert_int_equal(gd_hvp(f, &s, &x, 1, &v, &product), GD_OK);
                assert_int_equal(gd_traced_hvp(t, &x, 1, &v, &got), GD_OK);
                assert_same(name, "product", call, got, product);
                want = gd_hessian(f, &s, &x, 1);
                assert_same(name, "Hessian", call, gd_traced_hessian(t, &x, 1), want);
            }
            assert_int_equal(gd_jacobian(f, &s, &x, 1, &rows), GD_OK);
            assert_int_equal(gd_traced_jacobian(t, &x, 1, &got), GD_OK);
            assert_same(name, "Jacobian", call, got, rows);
            assert_no_error(ctx);
            gd_scope_end(ctx);
        }
        assert_false(explained(t, "not traced"));
        assert_true(explained(t, "replayed 4 times"));
        assert_true(explained(t, "on gpu"));
        gd_traced_free(t);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

/* ---- what is refused ---- */

FUNCTION(branches)
{
    PREPARE;
    return gd_item(total(x)) > 0 ? total(gd_square(x)) : total(x);
}
FUNCTION(looks)
{
    PREPARE;
    double v[N];
    return gd_read_f64(x, v, N) ? NULL : gd_mul_scalar(total(x), v[0]);
}
FUNCTION(moves)
{
    PREPARE;
    gd_tensor *here = gd_to_device(gd_square(x), gd_device_get(s->ctx, "cpu"));
    return total(gd_to_device(gd_exp(here), gpu_of(s->ctx)));
}
FUNCTION(changes)
{
    PREPARE;
    return gd_add_into(s->captured, gd_detach(x), 1) ? NULL : total(gd_mul(x, s->captured));
}
FUNCTION(draws_on_the_host)
{
    PREPARE;
    gd_tensor *noise = gd_to_device(gd_randn(s->ctx, GD_F64, 1, (int64_t[]){N}), gpu_of(s->ctx));
    return total(gd_mul(x, noise));
}
FUNCTION(ends_on_the_host)
{
    PREPARE;
    (void)x;
    return gd_from_data(s->ctx, GD_F64, 0, NULL, &s->number);
}

static const struct {
    gd_function f;
    const char *why;
} refused[] = {
    {branches,
     "it reads on the host what it computed from an input or from random numbers (gd_item or gd_at)"},
    {looks, "it reads an input on the host (gd_read)"},
    {moves, "it reads on the host what it computed from an input or from random numbers (from gpu"},
    {changes, "it changes a tensor in place that was made outside of it"},
    {draws_on_the_host, "it draws random numbers on the CPU (random)"},
    {ends_on_the_host, "its result is on cpu, its inputs are on gpu"},
};

static void what_the_host_does_is_refused_with_the_reason(void **unused)
{
    (void)unused;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int k = 0; k < COUNT_OF(refused); k++) {
        gd_scope_begin(ctx);
        state s = {.ctx = ctx, .captured = point(ctx, 0, GD_F64)};
        gd_traced *t = gd_trace(ctx, refused[k].f, &s, NULL);
        for (int call = 0; call < CALLS; call++) {
            gd_tensor *x = point(ctx, call, GD_F64);
            assert_non_null(gd_traced_value(t, &x, 1));
        }
        assert_no_error(ctx);
        if (!explained(t, refused[k].why)) {
            char text[1000];
            (void)gd_explain_trace(t, text, sizeof text);
            fail_msg("function %d: %s", k, text);
        }
        gd_traced_free(t);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

FUNCTION(of_both)
{
    PREPARE;
    return gd_add(total(x), gd_to_device(total(in[1]), gpu_of(s->ctx)));
}
FUNCTION(adds_captured)
{
    PREPARE;
    return total(gd_mul(x, s->captured));
}

static void tensors_of_two_devices_are_named(void **unused)
{
    (void)unused;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_scope_begin(ctx);
    state s = {.ctx = ctx, .captured = VECTOR(ctx, 1, 2, 3, 4, 5, 6)};
    gd_traced *t = gd_trace(ctx, of_both, &s, NULL), *u = gd_trace(ctx, adds_captured, &s, NULL);
    gd_tensor *in[] = {point(ctx, 0, GD_F64), VECTOR(ctx, 1, 2, 3)};
    for (int call = 0; call < 3; call++) assert_non_null(gd_traced_value(t, in, 2));
    assert_true(explained(t, "its inputs are on two devices, gpu"));
    assert_null(gd_traced_value(u, in, 1)); /* as the function itself */
    assert_error(ctx, GD_DEVICE, "mul: one operand is on");
    gd_traced_free(t);
    gd_traced_free(u);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- what may change ---- */

FUNCTION(noisy)
{
    PREPARE;
    gd_tensor *y = gd_dropout(gd_mul(x, s->captured), 0.4);
    return total(gd_square(y));
}
FUNCTION(with_number)
{
    PREPARE;
    gd_tensor *number = gd_traced_input(s->ctx, GD_F64, 0, NULL, &s->number);
    gd_tensor *ones = gd_to_device(gd_ones(s->ctx, GD_F64, 1, (int64_t[]){N}), gpu_of(s->ctx));
    return total(gd_mul(gd_mul(x, gd_to_device(number, gpu_of(s->ctx))), gd_add(ones, s->captured)));
}

/* Random numbers go on as in the function; captured tensors, numbers of the host and inputs may change, results may be kept. */
static void what_may_change_between_replays_is_seen(void **unused)
{
    (void)unused;
    need_gpu();
    static const gd_function all[] = {noisy, with_number, mixed};
    for (int k = 0; k < COUNT_OF(all); k++) {
        gd_ctx *ctx = context(NULL, 2, NULL);
        gd_scope_begin(ctx);
        state s = {.ctx = ctx, .captured = k == 2 ? matrix_there(ctx, GD_F64) : point(ctx, 9, GD_F64)};
        gd_traced *t = gd_trace(ctx, all[k], &s, NULL);
        gd_tensor *kept[12], *copy[12], *x[3];
        for (int i = 0; i < 3; i++) x[i] = point(ctx, i, GD_F64);
        for (int call = 0; call < 12; call++) {
            gd_tensor *value = NULL, *grad = NULL, *want = NULL, *slope = NULL;
            s.number = call;
            if (call % 4 == 3) assert_int_equal(gd_add_into(s.captured, s.captured, 0.5), GD_OK);
            gd_seed(ctx, (uint64_t)call);
            assert_int_equal(eager_gradient(all[k], &s, &x[call % 3], 1, &want, &slope), GD_OK);
            gd_seed(ctx, (uint64_t)call);
            assert_int_equal(gd_traced_gradient(t, &x[call % 3], 1, &value, &grad), GD_OK);
            assert_same("a function", "value", call, value, want);
            assert_same("a function", "gradient", call, grad, slope);
            kept[call] = grad;
            gd_retain(grad);
            copy[call] = gd_copy(slope);
        }
        assert_true(explained(t, "replayed 10 times"));
        for (int call = 0; call < 12; call++) {
            assert_same("a result", "that is kept", call, kept[call], copy[call]);
            gd_release(kept[call]);
        }
        gd_traced_free(t);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- others ---- */

static gd_tensor *objective(void *user)
{
    const state *s = user;
    gd_tensor *x = s->captured;
    return valley(user, &x, 1);
}

static void steps_of_traced_objectives_have_the_same_bits(void **unused)
{
    (void)unused;
    need_gpu();
    static const char *const chains[] = {"adam | lr(0.05)", "lbfgs | strong_wolfe", "clip_norm(1) | lr(0.01)",
                                         "newton | backtracking"};
    gd_ctx *ctx = context(NULL, 2, NULL);
    for (int k = 0; k < COUNT_OF(chains); k++) {
        gd_tensor *end[2] = {NULL};
        gd_scope_begin(ctx);
        for (int with = 0; with < 2; with++) {
            state s = {.ctx = ctx, .captured = gd_require_grad(point(ctx, 1, GD_F64))};
            gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chains[k]));
            assert_int_equal(gd_optimizer_add(o, "x", s.captured), GD_OK);
            const gd_objective j = {.loss = objective, .user = &s, .traced = with};
            for (int step = 0; step < 12; step++) assert_int_equal(gd_optimizer_step(o, &j, NULL), GD_OK);
            end[with] = gd_copy(gd_detach(s.captured));
            gd_optimizer_free(o);
        }
        assert_same(chains[k], "parameters", 11, end[1], end[0]);
        gd_scope_end(ctx);
    }
    end_context(ctx, NULL);
}

static void batches_run_one_by_one_and_threads_are_refused(void **unused)
{
    (void)unused;
    need_gpu();
    gd_ctx *ctx = context(NULL, 2, NULL), *other = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    state s = {.ctx = ctx};
    gd_traced *t = gd_trace(ctx, valley, &s, NULL);
    gd_tensor *row[7], *all, *out[2] = {NULL}, *rows = NULL, *columns = NULL;
    for (int i = 0; i < 7; i++) row[i] = point(ctx, i, GD_F64);
    all = gd_stack(row, 7, 0, NULL);
    assert_int_equal(gd_traced_batch(t, GD_TRACED_GRADIENT, &all, 1, NULL, out), GD_OK);
    for (int i = 0; i < 7; i++) {
        gd_tensor *want = NULL, *slope = NULL;
        assert_int_equal(eager_gradient(valley, &s, &row[i], 1, &want, &slope), GD_OK);
        assert_same("a batch", "values", i, gd_index(out[0], "0", i), want);
        assert_same("a batch", "gradients", i, gd_index(out[1], "0", i), slope);
    }
    assert_true(explained(t, "many one by one: they are on gpu"));
    assert_null(gd_traced_share(t, other));
    assert_error(other, GD_DEVICE, "traced_share: the recording of the gradient is on gpu");
    /* the structure follows from the recording: band of three */
    assert_int_equal(gd_traced_sparsity(t, GD_TRACED_HESSIAN, row, 1, &rows, &columns), GD_OK);
    assert_int_equal(gd_numel(rows), 3 * N - 2);
    gd_traced_free(t);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    end_context(other, NULL);
}

/* Whatever allocation fails, a call gives the function's result or an error, and nothing is left. */
static void failing_allocations_leave_nothing(void **unused)
{
    (void)unused;
    need_gpu();
    int64_t points = 0;
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        gd_scope_begin(ctx);
        state s = {.ctx = ctx, .captured = point(ctx, 9, GD_F64)};
        gd_tensor *x = point(ctx, 1, GD_F64), *want = NULL, *slope = NULL;
        s.number = 2;
        assert_int_equal(eager_gradient(with_number, &s, &x, 1, &want, &slope), GD_OK);
        gd_traced *t = gd_trace(ctx, with_number, &s, NULL);
        m.fail_at = m.requests + k;
        for (int call = 0; call < CALLS; call++) {
            gd_tensor *value = NULL, *grad = NULL;
            gd_status status = gd_traced_gradient(t, &x, 1, &value, &grad);
            if (status) assert_int_equal(status, GD_NOMEM);
            gd_clear_error(ctx);
            if (status) continue;
            int64_t at = m.fail_at;
            m.fail_at = 0;
            assert_same("a function", "value", call, value, want);
            assert_same("a function", "gradient", call, grad, slope);
            m.fail_at = m.failed ? 0 : at;
        }
        m.fail_at = 0;
        gd_traced_free(t);
        gd_scope_end(ctx);
        bool failed = m.failed;
        end_context(ctx, &m);
        if (!failed) break;
        points++;
    }
    print_message("%lld failures\n", (long long)points);
    assert_true(points > 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TESTS,
        cmocka_unit_test(every_kind_has_the_bits_of_the_function),
        cmocka_unit_test(what_the_host_does_is_refused_with_the_reason),
        cmocka_unit_test(tensors_of_two_devices_are_named),
        cmocka_unit_test(what_may_change_between_replays_is_seen),
        cmocka_unit_test(steps_of_traced_objectives_have_the_same_bits),
        cmocka_unit_test(batches_run_one_by_one_and_threads_are_refused),
        cmocka_unit_test(failing_allocations_leave_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
