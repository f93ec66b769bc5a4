/* What gd_explain says about chains. */
#include "optim/optim_support.h"

static char text[60000];

static gd_ctx *new_context(bool compile)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compile = compile;
    return gd_ctx_new(&options);
}

/* Two f32 tensors, 1010 elements. */
static gd_optimizer *open_chain(gd_ctx *ctx, const char *chain, gd_tensor **p, gd_dtype dtype)
{
    OK(gd_link_class_register(ctx, &probe_a_class));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!o) fail_msg("%s", gd_error_text(ctx));
    p[0] = gd_require_grad(gd_ones(ctx, GD_F32, 1, (int64_t[]){1000}));
    p[1] = gd_require_grad(gd_ones(ctx, dtype, 2, (int64_t[]){2, 5}));
    OK(gd_optimizer_add(o, "a", p[0]));
    OK(gd_optimizer_add(o, "b", p[1]));
    return o;
}

static void explain(const char *chain, bool source)
{
    gd_ctx *ctx = new_context(false);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, chain, p, GD_F32);
    int need = gd_explain(o, source, NULL, 0);
    assert_int_equal(gd_explain(o, source, text, sizeof text), need);
    assert_int_equal(strlen(text), need);
    for (int i = 0; i < 2; i++) assert_false(gd_link_has_state(gd_optimizer_chain(o), p[i], "exp_avg"));
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

#define assert_says(part)                                                                                \
    do {                                                                                                 \
        if (!strstr(text, part)) fail_msg("this is not in the text:\n%s\nthe text is:\n%s", part, text); \
    } while (0)

static void the_chain_of_the_design_takes_two_passes_of_4_and_28_bytes(void **state)
{
    (void)state;
    explain("clip_norm(1) | adam | weight_decay(0.01) | lr(1e-3)", false);
    assert_string_equal(
        text,
        "chain: clip_norm(1) | adam | weight_decay(0.01) | lr(0.001)\n"
        "parameters: 2 tensors, 1010 elements\n"
        "segment 1: clip_norm, adam, weight_decay, lr; subtracted from the parameters\n"
        "  pass 1: 4 bytes per element: reads gradient (4); built in\n"
        "  pass 2: 28 bytes per element: reads gradient, exp_avg_sq, exp_avg, parameter (16), writes exp_avg_sq, exp_avg, "
        "parameter (12); built in\n"
        "  state: 8 bytes per element (exp_avg_sq, exp_avg), 8080 bytes\n"
        "total: 2 passes, 32 bytes per element and step, 8080 bytes of state\n");
}

static void how_links_spread_over_processes_is_said(void **state)
{
    (void)state;
    explain(
        "clip_norm(1) | nag | split(\"axes>=2\", [shampoo | adafactor], adam) | lbfgs | adgd | lr(0.1) | strong_wolfe",
        false);
    assert_non_null(
        strstr(text, "\nover several processes: clip_norm, nag, adam, lr by shards of tensors; "
                     "shampoo, adafactor by whole tensors; lbfgs, adgd by elements, their products joined; "
                     "strong_wolfe done by each\n"));
    explain("clip_norm(1) | adam", false);
    assert_null(strstr(text, "processes"));
}

static void the_text_is_the_same_after_steps(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(false);
    gd_tensor *p[2];
    static char before[4000];
    gd_optimizer *o = open_chain(ctx, "clip_value(1) | adam | lr(0.1)", p, GD_F32);
    assert_true(gd_explain(o, false, before, sizeof before) > 0);
    for (int i = 0; i < 3; i++) OK(gd_optimizer_step(o, NULL, NULL));
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_string_equal(text, before);
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

static void links_that_cannot_be_fused_are_named_as_breaks(void **state)
{
    (void)state;
    explain("adam | gradient_accumulation(4) | lr(0.1)", false);
    assert_says("segment 1: adam; an update in memory\n");
    assert_says("break: gradient_accumulation; works on whole tensors; holds 4040 bytes of state\n");
    assert_says(
        "segment 2: lr; subtracted from the parameters\n"
        "  pass 1: 12 bytes per element: reads update, parameter (8), writes parameter (4); built in\n");
    assert_says("total: 2 passes, 36 bytes per element and step, 12120 bytes of state\n");
    explain("gradient_accumulation(4)", false);
    assert_says("break: gradient_accumulation; works on whole tensors; holds 4040 bytes of state\n"
                "segment 1: subtracted from the parameters\n");
}

static void targets_and_children_are_shown(void **state)
{
    (void)state;
    explain("clip_value(1, target=\"grad\") | lr(0.1)", false);
    assert_says(
        "break: clip_value; target grad\n  pass 1: 8 bytes per element: reads gradient (4), writes update (4); ");
    explain("multistep([adam | lr(0.1)], 3)", false);
    assert_says("break: multistep; works on whole tensors\n"
                "  module:\n"
                "    segment 1: adam, lr; an update in memory\n"
                "      pass 1: 24 bytes per element:");
    explain("adam(inner=[gradient_accumulation(2)]) | lr(0.1)", false);
    assert_says("break: adam\n  pass 1: ");
    assert_says("  child: gradient_accumulation\n");
    assert_says("result of a child");
}

/* Rows and columns are few beside elements: explain lists them, but they are not passes. */
static void sums_along_axes_cost_one_pass_a_level(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(false);
    static const struct {
        const char *chain, *says;
    } cases[] = {
        {"centralize(dim=0) | lr(0.1)", "total: 2 passes, 16.16 bytes per element"},
        {"clip_norm(1, dim=1) | adam | lr(0.1)", "total: 2 passes, 32.16 bytes per element"},
        {"agc | adam | lr(0.1)", "total: 2 passes, 36.24 bytes per element"},
        {"adafactor | lr(0.1)", "total: 3 passes, "},
        {"adafactor | lr(0.1)", "state: 0.08 bytes per element (row, column), 800 bytes"},
        {"adafactor | lr(0.1)", "between: 100 values along axes"},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F32, 2, (int64_t[]){100, 100}));
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, cases[i].chain));
        assert_no_error(ctx);
        OK(gd_optimizer_add(o, "p", p));
        assert_true(gd_explain(o, false, text, sizeof text) > 0);
        assert_says(cases[i].says);
        gd_optimizer_free(o);
        gd_release(p);
    }
    end_context(ctx, NULL);
}

static void norms_over_norms_are_passes_of_their_own(void **state)
{
    (void)state;
    explain("clip_norm(1) | normalize(1) | adam | normalize(1) | lr(0.1)", false);
    assert_says("pass 4: ");
    assert_says("total: 4 passes, ");
}

static void parameters_of_different_dtypes_are_told_apart(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(false);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, "adam | lr(0.1)", p, GD_F64);
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_says("  for 1 tensor of f32, 1000 elements:\n  pass 1: 28 bytes per element");
    assert_says("  for 1 tensor of f64, 10 elements:\n  pass 1: 56 bytes per element");
    assert_says("8160 bytes of state\n");
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

static void the_dtype_of_state_shows_in_bytes(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(false);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, "adam | lr(0.1)", p, GD_F32);
    OK(gd_optimizer_state_dtype(o, GD_BF16));
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_says("pass 1: 20 bytes per element: ");
    assert_says("state: 4 bytes per element (exp_avg_sq, exp_avg), 4040 bytes\n");
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

static void executors_and_their_troubles_are_named(void **state)
{
    (void)state;
    const char *unusual = "adam | clip_value(1) | lion | heavy_ball | lr(0.1)";
    explain(unusual, false);
    assert_says("; interpreted (compiling is switched off)\n");
    gd_options options = gd_options_default();
    options.threads = 1;
    options.compiler = "/nowhere/cc";
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, unusual, p, GD_F32);
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_says("; interpreted (");
    assert_says("/nowhere/cc");
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

static void a_program_that_is_not_built_in_is_compiled(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(true);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, "adam | clip_value(1) | lion | heavy_ball | lr(0.1)", p, GD_F32);
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    if (ctx->compile) assert_says("; compiled\n");
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

static void the_source_is_shown_on_request(void **state)
{
    (void)state;
    explain("clip_norm(1) | lr(0.1)", false);
    assert_null(strstr(text, "pass_1("));
    explain("clip_norm(1) | lr(0.1)", true);
    assert_says("pass_1(");
    assert_says("pass_2(");
}

static void frozen_parameters_and_none_at_all_are_fine(void **state)
{
    (void)state;
    gd_ctx *ctx = new_context(false);
    gd_tensor *p[2];
    gd_optimizer *o = open_chain(ctx, "adam | lr(0.1)", p, GD_F32);
    OK(gd_set_requires_grad(p[0], false));
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_says("parameters: 1 tensor, 10 elements\n");
    OK(gd_set_requires_grad(p[1], false));
    assert_true(gd_explain(o, false, text, sizeof text) > 0);
    assert_string_equal(text, "chain: adam | lr(0.1)\nparameters: 0 tensors, 0 elements\n");
    char small[10];
    assert_true(gd_explain(o, false, small, sizeof small) > 10); /* as snprintf */
    assert_string_equal(small, "chain: ad");
    gd_optimizer_free(o);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(the_chain_of_the_design_takes_two_passes_of_4_and_28_bytes),
        TEST(how_links_spread_over_processes_is_said),
        TEST(the_text_is_the_same_after_steps),
        TEST(links_that_cannot_be_fused_are_named_as_breaks),
        TEST(targets_and_children_are_shown),
        TEST(sums_along_axes_cost_one_pass_a_level),
        TEST(norms_over_norms_are_passes_of_their_own),
        TEST(parameters_of_different_dtypes_are_told_apart),
        TEST(the_dtype_of_state_shows_in_bytes),
        TEST(executors_and_their_troubles_are_named),
        TEST(a_program_that_is_not_built_in_is_compiled),
        TEST(the_source_is_shown_on_request),
        TEST(frozen_parameters_and_none_at_all_are_fine),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
