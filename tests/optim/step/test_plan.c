/* Plans: kept while they fit, cut where they are too large, and what goes wrong in rules. */
#include "optim/same_bits.h"

static void a_chain_too_long_for_one_program_runs_in_several(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[0];
    writer w = {0};
    for (int i = 0; i < 20; i++) put(&w, "%sadam", i ? " | " : "");
    put(&w, " | multistep([");
    for (int i = 0; i < 20; i++) put(&w, "%sema(0.5)", i ? " | " : "");
    put(&w, "], 1)");
    trial a, b;
    open_trial(&a, ctx, w.text, GD_F32);
    open_trial(&b, ctx, w.text, GD_F32);
    b.o->test.no_fusion = true;
    run_trial(&a, w.text);
    run_trial(&b, w.text);
    compare(&a, &b, "twenty adams", "link by link", 1);
    char text[20000];
    assert_true(gd_explain(a.o, false, text, sizeof text) > 0);
    close_trial(&a);
    close_trial(&b);
    /* more links than may wait */
    w = (writer){0};
    for (int i = 0; i < 150; i++) put(&w, "%slr(1)", i ? "|" : "");
    open_trial(&a, ctx, w.text, GD_F64);
    run_trial(&a, w.text);
    close_trial(&a);
}

static int plans_of(const gd_optimizer *o)
{
    int n = 0;
    for (const gd_plan *p = o->plans; p; p = *(gd_plan *const *)p) n++; /* next comes first */
    return n;
}

static void plans_are_made_once_and_dropped_when_links_change(void **state)
{
    (void)state;
    trial t;
    open_trial(&t, contexts[0], "clip_norm(1) | adam | gradient_accumulation(1) | lr(0.1)", GD_F32);
    run_trial(&t, "");
    const gd_plan *before = t.o->plans;
    int count = plans_of(t.o);
    assert_int_equal(count, 2);
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    OK(gd_optimizer_set(t.o, 0, "lr", 0.2)); /* a new key */
    run_trial(&t, "");
    assert_int_equal(plans_of(t.o), 2);
    before = t.o->plans;
    OK(gd_optimizer_set(t.o, 0, "lr", 0.3)); /* a number only */
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    gd_optimizer_reset(t.o); /* state is no part of a plan */
    run_trial(&t, "");
    assert_ptr_equal(t.o->plans, before);
    close_trial(&t);
}

static void parameters_of_several_dtypes_share_a_norm(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[1];
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "normalize(1, dim=\"global\") | lr(1)"));
    gd_tensor *p[3];
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16};
    static const char *const names[] = {"a", "b", "c"};
    gd_scope_begin(ctx);
    for (int i = 0; i < 3; i++) {
        p[i] = gd_require_grad(gd_zeros(ctx, dtypes[i], 1, (int64_t[]){1}));
        OK(gd_set_grad(p[i], gd_full(ctx, dtypes[i], 1, (int64_t[]){1}, i == 2 ? 12 : 3 + i)));
        OK(gd_optimizer_add(o, names[i], p[i]));
    }
    OK(gd_optimizer_step(o, NULL, NULL)); /* the norm of (3, 4, 12) is 13 */
    assert_values_near(p[0], 1e-7, -3.0 / 13);
    assert_values_near(p[1], 1e-15, -4.0 / 13);
    assert_values_near(p[2], 1e-2, -12.0 / 13);
    for (int i = 0; i < 3; i++) gd_zero_grad(p[i]);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
}

/* A rule whose result is the same everywhere, and one that the gradient must reach whatever the update is. */
static gd_value third(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_div(r, gd_rule_const(r, 1), gd_rule_const(r, 3));
}

static gd_value unknown(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_setting(r, "nothing")); }

static const gd_link_class third_class = {.name = "third", .rule = third};
static const gd_link_class unknown_class = {.name = "unknown", .rule = unknown};

static void a_uniform_update_is_rounded_between_links(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) OK(gd_link_class_register(contexts[i], &third_class));
    every_way("third | lr(0.1) | lr(3)", GD_F32);
    every_way("third | adam | normalize | lr(0.1)", GD_F32);
}

static void wrong_rules_are_named(void **state)
{
    (void)state;
    gd_ctx *ctx = contexts[0];
    OK(gd_link_class_register(ctx, &unknown_class));
    static const struct {
        const char *chain, *text;
    } cases[] = {{"lr(1) | unknown", "rule of 'unknown': there is no setting nothing"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        trial t;
        open_trial(&t, ctx, cases[i].chain, GD_F32);
        gd_objective objective = {.loss = trial_loss, .user = &t};
        assert_int_equal(gd_optimizer_step(t.o, &objective, NULL), GD_INTERNAL);
        assert_error(ctx, GD_INTERNAL, cases[i].text);
        close_trial(&t);
    }
}

/* Numbers are computed once for all tensors where these have the same settings, which may end and begin again. */
static void settings_that_part_and_meet_again_reach_every_tensor(void **state)
{
    (void)state;
    const double lr[][3] = {{0.1, 0.1, 0.1}, {0.1, 0.1, 0.1}, {0.1, 0.4, 0.1}, {0.1, 0.4, 0.2},
                            {0.2, 0.2, 0.2}, {0.2, 0.2, 0.2}, {0.3, 0.2, 0.2}, {0.3, 0.3, 0.3}};
    for (int each = 0; each < 2; each++) { /* also with a number that differs between tensors: the norm */
        gd_ctx *ctx = contexts[0];
        const char *chain = each ? "normalize(1) | weight_decay(0.5) | lr(0.1)"
                                 : "weight_decay(0.5) | lr(0.1)";
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
        assert_non_null(o);
        gd_tensor *p[3];
        int group[3];
        double x[3] = {1, 2, 3}, g[3] = {0.5, -1, 4};
        for (int i = 0; i < 3; i++) {
            const char *name = (const char *[]){"a", "b", "c"}[i];
            p[i] = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){1}, &x[i]));
            gd_tensor *grad = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){1}, &g[i]);
            OK(gd_set_grad(p[i], grad));
            OK(gd_optimizer_add_group(o, &name, &p[i], 1, "lr=0.1", &group[i]));
            gd_release(grad);
            if (each) g[i] /= fabs(g[i]);
        }
        for (size_t s = 0; s < sizeof lr / sizeof *lr; s++) {
            for (int i = 0; i < 3; i++) OK(gd_optimizer_set(o, group[i], "lr", lr[s][i]));
            OK(gd_optimizer_step(o, NULL, NULL));
            for (int i = 0; i < 3; i++) {
                x[i] -= lr[s][i] * (g[i] + 0.5 * x[i]);
                assert_float_equal(*(const double *)gd_data(p[i]), x[i], 1e-14);
            }
        }
        gd_optimizer_free(o);
        for (int i = 0; i < 3; i++) gd_release(p[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_too_long_for_one_program_runs_in_several),
        TEST(plans_are_made_once_and_dropped_when_links_change),
        TEST(parameters_of_several_dtypes_share_a_norm),
        TEST(a_uniform_update_is_rounded_between_links),
        TEST(wrong_rules_are_named),
        TEST(settings_that_part_and_meet_again_reach_every_tensor),
    };
    return cmocka_run_group_tests(tests, open_contexts, close_contexts);
}
