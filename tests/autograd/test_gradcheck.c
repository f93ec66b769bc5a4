/* Every differentiable operator case against central differences in f64, over every layout, to second
 * order. */
#include "support/op_cases.h"

#include <inttypes.h>

#define SAMPLES 20

/* The floating operands of a case are the inputs of a function; the others are fixed. */
typedef struct problem {
    case_inputs inputs;
    gd_ctx *ctx;
    int place[MAX_OPERANDS]; /* operand of each input */
} problem;

static gd_tensor *function(void *user, gd_tensor *const *inputs, int count)
{
    problem *p = user;
    gd_tensor *leaf[MAX_OPERANDS];
    memcpy(leaf, p->inputs.leaf, sizeof leaf);
    for (int k = 0; k < count; k++) leaf[p->place[k]] = inputs[k];
    return case_apply(&p->inputs, p->ctx, leaf);
}

static void check(gd_ctx *ctx, const op_case *c, layout l, uint64_t seed, int order)
{
    problem p = {.ctx = ctx};
    gd_scope_begin(ctx);
    assert_true(case_build(&p.inputs, ctx, c, l, GD_F64, seed, false, false));
    gd_tensor *inputs[MAX_OPERANDS];
    int count = 0;
    for (int k = 0; k < c->operands; k++) {
        if (!gd_dtype_is_float(gd_tensor_dtype(p.inputs.leaf[k]))) continue;
        inputs[count] = p.inputs.leaf[k];
        p.place[count++] = k;
    }
    gd_gradcheck_options options = gd_gradcheck_defaults();
    assert_true(options.eps == 1e-6 && options.atol == 1e-5 && options.rtol == 1e-3);
    if (c->eps > 0) options.eps = c->eps;
    options.order = order;
    if (gd_gradcheck(function, &p, inputs, count, &options))
        fail_msg("%s, %s, sample %" PRIu64 ", order %d: %s", c->name, layout_names[l], seed, order,
                 gd_error_text(ctx));
    gd_scope_end(ctx);
}

static void run(layout l)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    int64_t first = 0, second = 0;
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        if (c->order == 0 || !case_has_layout(c, l)) continue;
        for (uint64_t seed = 0; seed < SAMPLES; seed++) check(ctx, c, l, seed, c->order);
        first += SAMPLES;
        if (c->order == 2) second += SAMPLES;
    }
    print_message("%s: %" PRId64 " checks to first order, %" PRId64 " to second\n", layout_names[l], first,
                  second);
    end_context(ctx, NULL);
}

DEFINE_LAYOUT_TESTS(run)

/* At least 95 of 100 differentiable operators are differentiable twice. */
static void few_operators_stop_at_first_order(void **state)
{
    (void)state;
    int differentiable = 0, twice = 0;
    for (int k = 0; k < op_case_count(); k++) {
        const op_case *c = op_case_at(k);
        differentiable += c->order >= 1;
        twice += c->order >= 2;
        if (c->order == 1) print_message("%s: first order only: %s\n", c->name, c->why);
        if (c->eps > 0) print_message("%s: difference quotient with step %g\n", c->name, c->eps);
    }
    print_message("%d differentiable cases, %d of them to second order\n", differentiable, twice);
    assert_true(twice * 100 >= differentiable * 95);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LAYOUT_TESTS,
        cmocka_unit_test(few_operators_stop_at_first_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
