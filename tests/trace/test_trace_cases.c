/* Every operator case in every layout, traced: values, gradients and products with the Hessian have the bits of the function
 * itself, on the first calls and in replays, at points that differ from call to call. */
#include "trace_cases.h"

#define CALLS 5 /* the first three run the function */

/* Cases that seed the generator or move to another device, and second derivatives of products, whose rule looks for zeros. */
static bool may_be_refused(const char *name)
{
    static const char *const reads[] = {"to_device", "dropout", "rand", "rademacher", "permutation"};
    for (int i = 0; i < COUNT_OF(reads); i++)
        if (!strncmp(name, reads[i], strlen(reads[i]))) return true;
    return false;
}

/* Strides of the strided layout differ from call to call: then each shape has fewer calls. */
static void settle(const job *j, const char *what, const gd_traced *f)
{
    settle_as(j, what, f,
              may_be_refused(j->c->name) || (!strncmp(j->c->name, "prod", 4) && !strcmp(what, "product")));
}

static bool build(job *j, case_inputs *in, layout l, gd_dtype dtype, int call)
{
    j->now = in;
    return case_build(in, j->ctx, j->c, l, dtype, (uint64_t)(7 * call + 3), false, false);
}

static void values(job *j, layout l, gd_dtype dtype)
{
    gd_traced *f = gd_trace(j->ctx, operator_of, j, NULL);
    for (int call = 0; call < CALLS; call++) {
        case_inputs in;
        gd_scope_begin(j->ctx);
        assert_true(build(j, &in, l, dtype, call));
        gd_seed(j->ctx, 5);
        gd_no_grad_begin(j->ctx);
        gd_tensor *want = operator_of(j, in.leaf, j->c->operands);
        gd_no_grad_end(j->ctx);
        gd_seed(j->ctx, 5);
        gd_tensor *got = gd_traced_value(f, in.leaf, j->c->operands);
        assert_no_error(j->ctx);
        if (!same_bits(got, want)) differs(j, "value", call);
        case_free(&in);
        gd_scope_end(j->ctx);
    }
    settle(j, "value", f);
    gd_traced_free(f);
}

/* The operands that gradients can be taken by; others are captured. */
static bool all_floats(const case_inputs *in, int count)
{
    for (int i = 0; i < count; i++)
        if (!gd_dtype_is_float(gd_tensor_dtype(in->leaf[i]))) return false;
    return count > 0;
}

static void gradients(job *j, layout l, gd_dtype dtype)
{
    gd_traced *f = gd_trace(j->ctx, loss_of, j, NULL);
    int n = j->c->operands, done = 0;
    for (int call = 0; call < CALLS; call++) {
        case_inputs in;
        gd_tensor *value = NULL, *grad[MAX_OPERANDS] = {0}, *got_value = NULL, *got[MAX_OPERANDS] = {0};
        gd_scope_begin(j->ctx);
        assert_true(build(j, &in, l, dtype, call));
        if (all_floats(&in, n)) {
            gd_seed(j->ctx, 5);
            gd_status status = eager_gradient(loss_of, j, in.leaf, n, &value, grad);
            assert_no_error(j->ctx);
            gd_seed(j->ctx, 5);
            if (!status) status = gd_traced_gradient(f, in.leaf, n, &got_value, got);
            assert_no_error(j->ctx);
            assert_int_equal(status, GD_OK);
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

static void products(job *j, layout l)
{
    gd_traced *f = gd_trace(j->ctx, loss_of, j, NULL);
    int n = j->c->operands, done = 0;
    for (int call = 0; call < CALLS; call++) {
        case_inputs in, v;
        gd_tensor *want[MAX_OPERANDS] = {0}, *got[MAX_OPERANDS] = {0};
        gd_scope_begin(j->ctx);
        assert_true(build(j, &v, l, GD_F64, call + 50));
        assert_true(build(j, &in, l, GD_F64, call));
        if (all_floats(&in, n)) {
            gd_seed(j->ctx, 5);
            gd_status status = gd_hvp(loss_of, j, in.leaf, n, v.leaf, want);
            assert_no_error(j->ctx);
            gd_seed(j->ctx, 5);
            if (!status) status = gd_traced_hvp(f, in.leaf, n, v.leaf, got);
            assert_no_error(j->ctx);
            assert_int_equal(status, GD_OK);
            for (int i = 0; i < n; i++)
                if (!same_bits(got[i], want[i])) differs(j, "product with the Hessian", call);
            done++;
        }
        case_free(&in);
        case_free(&v);
        gd_scope_end(j->ctx);
    }
    if (done) settle(j, "product", f);
    gd_traced_free(f);
}

static void run(layout l)
{
    gd_ctx *ctx = context(NULL, 2, NULL);
    traced = untraced = wrong = 0;
    for (int k = 0; k < op_case_count(); k += test_share()) {
        const op_case *c = op_case_at(k);
        if (!case_has_layout(c, l)) continue;
        job j = {.c = c, .ctx = ctx};
        for (int dtype = 0; dtype < GD_DTYPE_COUNT; dtype++) {
            if (!(c->dtypes >> dtype & 1)) continue;
            values(&j, l, (gd_dtype)dtype);
            if (c->order >= 1 && gd_dtype_is_float((gd_dtype)dtype)) gradients(&j, l, (gd_dtype)dtype);
        }
        if (c->order >= 2) products(&j, l);
    }
    printf("%d functions replayed, %d run as they are\n", traced, untraced);
    assert_int_equal(wrong, 0);
    assert_true(traced > 20 * untraced);
    gd_ctx_free(ctx);
}

DEFINE_LAYOUT_TESTS(run)

int main(void)
{
    const struct CMUnitTest tests[] = {LAYOUT_TESTS};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
