/* Every operator on the GPU against the same on the CPU: values and gradients, in every layout.  Skipped without a GPU. */
#include "support/op_cases.h"
#include "tensor/device.h"

#include <inttypes.h>
#include <math.h>

static gd_device *gpu_of(gd_ctx *ctx) { return gd_gpu_count(ctx) > 0 ? gd_device_get(ctx, "gpu") : NULL; }

static double tolerance(gd_dtype dtype)
{
    return dtype == GD_F64    ? 1e-12
           : dtype == GD_F32  ? 1e-5
           : dtype == GD_F16  ? 4e-3
           : dtype == GD_BF16 ? 3e-2
                              : 0;
}

static int failures, checks;

static void complain(const op_case *c, layout l, gd_dtype dtype, const char *what)
{
    if (failures++ < 60)
        print_message("%s, %s, %s: %s\n", c->name, layout_names[l], gd_dtype_name(dtype), what);
}

/* Relative to the largest element: sums are added in another order.  apart: to each. */
static bool agree(const gd_tensor *a, const gd_tensor *b, double tol, bool apart, char *why, size_t size)
{
    array x = array_of(a), y = array_of(b);
    long double most = 0, worst = 0;
    bool good = x.numel == y.numel;
    for (int64_t i = 0; i < x.numel && good; i++)
        if (isfinite((double)x.v[i]) && fabsl(x.v[i]) > most) most = fabsl(x.v[i]);
    for (int64_t i = 0; i < x.numel && good; i++) {
        if (x.v[i] == y.v[i] || (isnan((double)x.v[i]) && isnan((double)y.v[i]))) continue;
        long double error = fabsl(x.v[i] - y.v[i]);
        long double scale = apart ? fabsl(x.v[i]) : most > 1 ? most : 1;
        if (!(error <= (long double)tol * scale)) good = false;
        if (error > worst) worst = error;
    }
    if (!good) snprintf(why, size, "differs by %.3Lg of %.3Lg", worst, most);
    array_free(&x);
    array_free(&y);
    return good;
}

/* Decompositions are only determined up to signs: their defining property is checked instead. */
static bool right(const op_case *c, const case_inputs *in, gd_tensor *cpu, gd_tensor *gpu, gd_dtype dtype,
                  char *why, size_t size)
{
    if (c->reference || !c->holds)
        return agree(cpu, gpu, tolerance(dtype) * (c->error > 100 ? 10 : 1), c->apart, why, size);
    array got = array_of(gpu);
    const char *fault = c->holds(in->value, &got, epsilon_of(gd_tensor_dtype(gpu)) * 10);
    array_free(&got);
    if (fault) snprintf(why, size, "%s", fault);
    return !fault;
}

static void check_gradients(gd_ctx *ctx, const op_case *c, layout l, gd_dtype dtype, case_inputs *in,
                            gd_device *gpu)
{
    gd_tensor *leaf[2][MAX_OPERANDS], *grad[2][MAX_OPERANDS];
    char why[256] = "";
    int wanted = 0, place[MAX_OPERANDS];
    for (int k = 0; k < c->operands; k++) {
        bool real = gd_dtype_is_float(gd_tensor_dtype(in->leaf[k]));
        leaf[0][k] = gd_detach(in->leaf[k]);
        leaf[1][k] = gd_detach(case_moved(in->leaf[k], gpu));
        if (real) {
            leaf[0][k] = gd_require_grad(leaf[0][k]);
            leaf[1][k] = gd_require_grad(leaf[1][k]);
            place[wanted++] = k;
        }
    }
    for (int d = 0; d < 2; d++) {
        gd_tensor *out = case_apply(in, ctx, leaf[d]), *x[MAX_OPERANDS];
        if (!out || !gd_requires_grad(out)) return;
        gd_tensor *weights = gd_linspace(ctx, gd_tensor_dtype(out), 0.5, 1.5, gd_numel(out));
        weights = gd_to_device(weights, gd_tensor_device(out));
        int64_t n = gd_numel(out);
        gd_tensor *loss = gd_sum(gd_mul(gd_reshape(out, 1, &n), weights), NULL, false);
        for (int k = 0; k < wanted; k++) x[k] = leaf[d][place[k]];
        if (!loss || gd_grad(loss, NULL, x, wanted, 0, grad[d])) {
            complain(c, l, dtype, gd_error_text(ctx));
            gd_clear_error(ctx);
            return;
        }
    }
    for (int k = 0; k < wanted; k++, checks++)
        if (!agree(grad[0][k], grad[1][k], 100 * tolerance(dtype), false, why, sizeof why)) {
            char text[400];
            snprintf(text, sizeof text, "gradient of operand %d %s", place[k], why);
            complain(c, l, dtype, text);
        }
}

static void check_case(gd_ctx *ctx, const op_case *c, layout l, gd_dtype dtype, gd_device *gpu)
{
    case_inputs in;
    char why[256] = "";
    gd_scope_begin(ctx);
    assert_true(case_build(&in, ctx, c, l, dtype, 7, false, true));
    gd_tensor *there[MAX_OPERANDS];
    for (int k = 0; k < c->operands; k++) there[k] = case_moved(in.leaf[k], gpu);
    gd_tensor *cpu = case_apply(&in, ctx, in.leaf), *out = case_apply(&in, ctx, there);
    checks++;
    if (!cpu || !out)
        complain(c, l, dtype, gd_error_text(ctx));
    else if (!right(c, &in, cpu, out, dtype, why, sizeof why))
        complain(c, l, dtype, why);
    if (gd_error(ctx)) complain(c, l, dtype, gd_error_text(ctx));
    gd_clear_error(ctx);
    if (cpu && out && c->order > 0 && dtype == GD_F64 && c->reference)
        check_gradients(ctx, c, l, dtype, &in, gpu);
    gd_clear_error(ctx);
    case_free(&in);
    gd_scope_end(ctx);
}

static void operators_agree_with_the_cpu(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_device *gpu = gpu_of(ctx);
    if (!gpu) {
        end_context(ctx, NULL);
        skip();
    }
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        if (c->operands == 0) continue;
        for (layout l = 0; l < LAYOUTS; l++)
            for (gd_dtype d = 0; d < GD_DTYPE_COUNT && case_has_layout(c, l); d++)
                if (c->dtypes >> d & 1) check_case(ctx, c, l, d, gpu);
    }
    int64_t by_host = gd_device_host_calls(gpu);
    print_message("%d results compared, %d differ, %lld calls by the host\n", checks, failures,
                  (long long)by_host);
    /* what a plugin lacks is counted, and nothing else is */
    bool lacks = false;
    for (int op = 0; op < GD_OP_COUNT; op++)
        lacks = lacks || (gpu->backend->has && !gpu->backend->has((gd_op_id)op));
    assert_int_equal(by_host > 0, lacks);
    end_context(ctx, NULL);
    assert_int_equal(failures, 0);
}

/* A stream of the device of backends/plain is a number that counts its work; on a GPU the default stream serves. */
static void work_goes_to_the_stream_of_the_caller(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_device *gpu = gpu_of(ctx);
    if (!gpu) {
        end_context(ctx, NULL);
        skip();
    }
    int64_t work = 0;
    char what[200];
    bool plain = gd_gpu_describe(ctx, 0, what, sizeof what) && strstr(what, "plain");
    void *own = gd_device_stream(gpu), *callers = plain ? &work : NULL;
    gd_scope_begin(ctx);
    gd_tensor *x = gd_to_device(VECTOR(ctx, 1, 2, 3), gpu);
    assert_int_equal(gd_device_use_stream(gpu, callers), GD_OK);
    assert_ptr_equal(gd_device_stream(gpu), callers);
    gd_tensor *y = gd_mul_scalar(gd_neg(x), 2);
    assert_true(work > 0 || !plain);
    assert_int_equal(gd_device_use_stream(gpu, own), GD_OK);
    work = 0;
    gd_tensor *z = gd_add(gd_neg(y), x); /* behind what was queued there */
    double sum = gd_item(gd_sum(z, NULL, false));
    assert_true(sum == 18);
    assert_int_equal(work, 0);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(operators_agree_with_the_cpu),
                                       cmocka_unit_test(work_goes_to_the_stream_of_the_caller)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
