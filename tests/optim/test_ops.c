/* Links that optimizers are written with as text: settings that are a number or a chain, and any number of them. */
#include "gradus/chain.h"
#include "optim/optim_support.h"

#include <float.h>

static gd_link *link_at(const problem *x, int i) { return gd_link_child_at(gd_optimizer_chain(x->o), i); }

/* What the chain makes of one update, in the dtype given. */
static double made_of(gd_ctx *ctx, const char *chain, gd_dtype dtype, double update)
{
    gd_scope_begin(ctx);
    gd_link *link = gd_chain(ctx, chain);
    gd_tensor *p = gd_ones(ctx, dtype, 1, (int64_t[]){1}),
              *u = gd_from_f64(ctx, dtype, 1, (int64_t[]){1}, &update);
    double out;
    OK(gd_link_keyed_apply(link, &u, &p, NULL, NULL, 1));
    OK(gd_read_f64(u, &out, 1));
    gd_link_release(link);
    gd_scope_end(ctx);
    return out;
}

static void an_optimizer_written_as_text_is_one_pass(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(
        ctx, "ema(0.9) | div([sqrt_ema_squared(0.999) | add(1e-8)]) | clip(min=-1, max=sum(1, abs)) | "
             "sub(mul(0.5)) | lr(0.1)");
    char text[4000];
    assert_in_range(gd_explain(x.o, false, text, sizeof text), 1, sizeof text - 1);
    assert_non_null(strstr(text, "total: 1 pass"));
    close_problem(&x);
}

static void a_number_in_place_of_a_chain_is_a_setting_of_groups_and_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(2) | lr(0.25)");
    OK(gd_optimizer_regroup(x.o, "q", "other=4"));
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 0.25 * 2 * 4, -1 - 0.25 * 2 * -4);
    assert_values(x.q, 0.5 - 0.25 * 4 * 2);
    close_problem(&x);
}

static void a_chain_is_no_setting_of_groups_and_parameters(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(sign) | lr(0.25)");
    assert_int_equal(gd_optimizer_regroup(x.o, "q", "other=4"), GD_TYPE);
    assert_error(ctx, GD_TYPE, "group: 'other' of mul is a link, which groups cannot have");
    assert_int_equal(
        gd_link_set_for(link_at(&x, 0), x.q, "other", (gd_setting){.kind = GD_SET_REAL, .real = 4}), GD_TYPE);
    assert_error(ctx, GD_TYPE, "mul: 'other' is a link, which no single parameter can have");
    /* a number again: then it is one */
    OK(gd_link_set_real(link_at(&x, 0), "other", 2));
    assert_int_equal(gd_link_children(link_at(&x, 0)), 0);
    OK(gd_optimizer_regroup(x.o, "q", "other=4"));
    /* and cannot become a chain that the group would not see */
    assert_int_equal(gd_link_set_child(link_at(&x, 0), "other", gd_chain(ctx, "sign")), GD_STATE);
    assert_error(ctx, GD_STATE,
                 "mul: 'other' cannot become a link while parameters or groups have a number for it");
    OK(step(&x, NULL));
    assert_values(x.q, 0.5 - 0.25 * 4 * 2);
    close_problem(&x);
}

static void any_number_of_chains_may_have_numbers_among_them(void **state)
{
    gd_ctx *ctx = CTX(state);
    char text[200];
    gd_link *link = gd_chain(ctx, "sum(1, [sign | abs], fill(2.5), lr(0.5))");
    assert_int_equal(gd_link_children(link), 4);
    (void)gd_link_print(link, text, sizeof text);
    assert_string_equal(text, "sum(1, [sign | abs], 2.5, lr(0.5))");
    OK(gd_link_set_real(link, "inputs", -3)); /* one more */
    (void)gd_link_print(link, text, sizeof text);
    assert_string_equal(text, "sum(1, [sign | abs], 2.5, lr(0.5), -3)");
    assert_int_equal(gd_link_set_real(link, "inputs", NAN), GD_VALUE);
    gd_clear_error(ctx);
    assert_int_equal(gd_link_set_bool(link, "inputs", true), GD_TYPE);
    gd_clear_error(ctx);
    assert_int_equal(gd_link_children(link), 5);
    gd_link_release(link);
    assert_float_equal(made_of(ctx, "sum(1, [sign | abs], fill(2.5), lr(0.5))", GD_F64, 4), 1 + 1 + 2.5 + 2,
                       0);
}

static void weights_are_as_many_as_what_they_weigh(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_null(gd_chain(ctx, "lr(1) | weighted_sum(ema, 1, weights=[1, 2, 3])"));
    assert_error(ctx, GD_PARSE, "chain: column 9: weighted_sum: 2 inputs need as many weights, not 3");
    assert_null(gd_chain(ctx, "weighted_mean(weights=[1])"));
    gd_clear_error(ctx);
}

static void what_is_no_number_becomes_the_largest_of_the_dtype(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const struct {
        gd_dtype dtype;
        double largest;
    } cases[] = {{GD_F64, DBL_MAX}, {GD_F32, FLT_MAX}, {GD_F16, 65504}, {GD_BF16, 0x1.fep127}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, INFINITY) == cases[i].largest);
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, -INFINITY) == -cases[i].largest);
        assert_true(made_of(ctx, "nan_to_num", cases[i].dtype, NAN) == 0);
        assert_true(made_of(ctx, "nan_to_num(nan=2)", cases[i].dtype, NAN) == 2);
        assert_true(made_of(ctx, "nan_to_num(posinf=3, neginf=-4)", cases[i].dtype, -INFINITY) == -4);
    }
}

static void a_forgotten_gradient_is_evaluated_again_and_the_update_stays(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "mul(2) | grad_to_none | add(grad) | lr(0.125)");
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 2);
    assert_values(x.p, 3 - 0.125 * 3 * 4, -1 - 0.125 * 3 * -4);
    close_problem(&x);
}

/* With the identity as Hessian a step to the edge of a small region is along the gradient (4, -4, 2). */
static void identity_is_the_identity_as_a_hessian(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "trust_cg(identity, init=0.06)");
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 0.04, -1 + 0.04);
    assert_values(x.q, 0.5 - 0.02);
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_optimizer_written_as_text_is_one_pass),
        CASE(a_number_in_place_of_a_chain_is_a_setting_of_groups_and_parameters),
        CASE(a_chain_is_no_setting_of_groups_and_parameters),
        CASE(any_number_of_chains_may_have_numbers_among_them),
        CASE(weights_are_as_many_as_what_they_weigh),
        CASE(what_is_no_number_becomes_the_largest_of_the_dtype),
        CASE(a_forgotten_gradient_is_evaluated_again_and_the_update_stays),
        CASE(identity_is_the_identity_as_a_hessian),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
