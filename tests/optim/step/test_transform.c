/* Transforms: targets, parameters as one vector, update frequency, inner chains, update and apply apart, by hand. */
#include "optim/optim_support.h"

/* ---- a transform of tensors that keeps a sum: update adds the tensors, apply returns tensors times factor + sum ---- */

static int updates, applies, last_count;

static gd_status summer_update(const gd_transform *t)
{
    updates++;
    last_count = t->count;
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) {
        gd_init zeros = {.kind = GD_INIT_ZEROS, .tensor = t->tensors[i]};
        gd_tensor *sum = gd_link_state_from(t->link, t->keys[i], "sum", zeros);
        status = sum ? gd_add_into(sum, t->tensors[i], 1) : gd_error(gd_link_ctx(t->link));
    }
    return status;
}

static gd_status summer_apply(const gd_transform *t)
{
    applies++;
    for (int i = 0; i < t->count; i++) {
        double factor = gd_link_real(t->link, "factor", t->keys[i]);
        gd_init zeros = {.kind = GD_INIT_ZEROS, .tensor = t->tensors[i]};
        gd_tensor *sum = gd_link_state_from(t->link, t->keys[i], "sum", zeros);
        t->tensors[i] = gd_add(gd_mul_scalar(t->tensors[i], factor), sum);
        if (!t->tensors[i]) return gd_error(gd_link_ctx(t->link));
    }
    return GD_OK;
}

#define SUMMER_FIELDS                                                                                       \
    GD_REAL("factor", 0, -100, 100, "of the tensors"),                                                      \
        GD_INT("update_freq", 1, 1, 1000, "steps between updates"), GD_CHILD("inner", "acts before apply"), \
        GD_TARGET

static const gd_field summer_fields[] = {SUMMER_FIELDS};
static const gd_slot summer_slots[] = {{"sum", 0}};
static const gd_link_class summer = {.name = "summer",
                                     GD_FIELDS(summer_fields),
                                     GD_SLOTS(summer_slots),
                                     .update_tensors = summer_update,
                                     .apply_tensors = summer_apply};

static const gd_field flat_fields[] = {SUMMER_FIELDS,
                                       GD_FLAG("concat_params", true, "see the parameters as a vector")};
static const gd_link_class flat_summer = {.name = "flat_summer",
                                          GD_FIELDS(flat_fields),
                                          GD_SLOTS(summer_slots),
                                          .update_tensors = summer_update,
                                          .apply_tensors = summer_apply,
                                          .traits.concat_params = true};

/* The same as a rule: update_rule sums, the rule returns. */
static void rule_update(gd_rule *r, gd_value u)
{
    gd_rule_set(r, "sum", gd_rule_add(r, gd_rule_state(r, "sum"), u));
}

static gd_value rule_apply(gd_rule *r, gd_value u)
{
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    return gd_rule_add(r, gd_rule_mul(r, u, gd_rule_setting(r, "factor")), gd_rule_state(r, "sum"));
}

static const gd_link_class rule_summer = {.name = "rule_summer",
                                          GD_FIELDS(summer_fields),
                                          GD_SLOTS(summer_slots),
                                          .update_rule = rule_update,
                                          .rule = rule_apply};

/* Counts its own applications. */
static gd_value counter_apply(gd_rule *r, gd_value u)
{
    return gd_rule_add(r, gd_rule_mul(r, u, gd_rule_const(r, 0)), gd_rule_step(r));
}

static const gd_link_class counter = {
    .name = "counter", GD_SLOTS(summer_slots), .update_rule = rule_update, .rule = counter_apply};

static problem open_it(void **state, const char *chain)
{
    gd_ctx *ctx = CTX(state);
    OK(gd_link_class_register(ctx, &summer));
    OK(gd_link_class_register(ctx, &flat_summer));
    OK(gd_link_class_register(ctx, &rule_summer));
    OK(gd_link_class_register(ctx, &counter));
    updates = applies = last_count = 0;
    return open_problem(ctx, chain);
}

/* ---- targets, with a rule (gradients are p: (4, -4), q: 2) ---- */

static void target_update_replaces_the_update(void **state)
{
    problem x = open_it(state, "lr(0.5) | clip_value(1.5)");
    OK(step(&x, NULL));
    assert_values(x.p, 1.5, 0.5);
    assert_values(x.q, -0.5);
    close_problem(&x);
}

static gd_status expect_clipped_gradient(gd_link *link, gd_var *var)
{
    (void)link;
    assert_values(gd_var_grad(var)[0], 1, -1);
    assert_values(gd_var_update(var)[0], 2, -2);
    return GD_OK;
}

static void target_grad_replaces_the_gradient_and_not_an_update_that_is_there(void **state)
{
    problem x = open_it(state, "lr(0.5) | clip_value(1, target=\"grad\") | probe_a");
    probe.a = expect_clipped_gradient;
    OK(step(&x, NULL));
    assert_values(x.p, 1, 1);
    close_problem(&x);
    x = open_it(
        state, "clip_value(1, target=\"grad\") | lr(0.5)"); /* no update yet: it starts as the new gradient */
    OK(step(&x, NULL));
    assert_values(x.p, 2.5, -0.5);
    close_problem(&x);
}

static gd_status evaluate_elsewhere(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *ones[2] = {gd_ones_like(gd_var_params(var)[0]), gd_ones_like(gd_var_params(var)[1])};
    gd_tensor *loss = NULL, *grads[2];
    double value;
    OK(gd_var_move(var, -2, ones)); /* p = (1, -3): gradient (0, -8) */
    OK(gd_var_evaluate(var, &loss, grads));
    assert_values(grads[0], 0, -1);
    assert_true(gd_item(loss) == 20.5); /* the loss itself is not changed */
    OK(gd_var_evaluate_at(var, &value));
    assert_true(value == 20.5);
    gd_release(loss);
    gd_release(grads[0]);
    gd_release(grads[1]);
    return gd_var_move(var, 2, ones);
}

static void target_closure_changes_the_gradient_of_every_evaluation(void **state)
{
    problem x = open_it(state, "clip_value(1, target=\"closure\") | probe_a | lr(0.5)");
    probe.a = evaluate_elsewhere;
    gd_step_info info;
    OK(step(&x, &info));
    assert_true(info.loss == 20.5); /* the first evaluation */
    assert_values(x.p, 2.5, -0.5);
    close_problem(&x);
    x = open_it(state, "clip_value(1, target=\"closure\")");
    assert_int_equal(step_without(&x, NULL), GD_STATE);
    assert_error(x.ctx, GD_STATE, "target \"closure\" needs a step with an objective");
    gd_optimizer_zero_grad(x.o);
    close_problem(&x);
}

static void target_params_direct_changes_the_parameters_themselves(void **state)
{
    problem x = open_it(state, "clip_value(2, target=\"params_direct\") | lr(0.25)");
    OK(step(&x, NULL)); /* p -> (2, -1), then the gradient there */
    assert_values(x.p, 2 - 0.5, -1 + 1);
    close_problem(&x);
}

static void target_params_difference_makes_the_change_of_parameters_the_update(void **state)
{
    problem x = open_it(state, "clip_value(2, target=\"params_difference\") | lr(0.5)");
    OK(step(&x, NULL));
    assert_values(x.p, 2.5, -1); /* half of the way from 3 to 2 */
    assert_values(x.q, 0.5);
    assert_int_equal(x.calls, 0);
    close_problem(&x);
}

static void target_update_difference_makes_the_rest_the_update(void **state)
{
    problem x = open_it(state, "clip_value(1.5, target=\"update_difference\")");
    OK(step(&x, NULL)); /* u - clip(u) = (2.5, -2.5), 0.5 */
    assert_values(x.p, 0.5, 1.5);
    assert_values(x.q, 0);
    close_problem(&x);
}

static void targets_work_for_functions_of_tensors_too(void **state)
{
    static const struct {
        const char *target;
        double p0, q0; /* after a step of summer(factor=1): tensors + sum = twice the tensors */
    } cases[] = {{"update", 3 - 8, 0.5 - 4},      {"grad", 3 - 8, 0.5 - 4},
                 {"closure", 3 - 8, 0.5 - 4},     {"params_direct", 6 - 10, 1 - 4},
                 {"params_difference", 3 + 3, 1}, {"update_difference", 3 + 4, 0.5 + 2}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char chain[80];
        snprintf(chain, sizeof chain, "summer(factor=1, target=\"%s\")", cases[i].target);
        problem x = open_it(state, chain);
        OK(step(&x, NULL));
        double p[2];
        OK(gd_read_f64(x.p, p, 2));
        assert_true(p[0] == cases[i].p0);
        assert_values(x.q, cases[i].q0);
        close_problem(&x);
    }
}

static gd_status update_child(gd_link *link, gd_var *var)
{
    return gd_link_update(gd_link_child(link, "child"), var);
}
static gd_status apply_child(gd_link *link, gd_var *var)
{
    return gd_link_apply(gd_link_child(link, "child"), var);
}

static void update_and_apply_want_the_target_update(void **state)
{
    problem x = open_it(state, "probe_a(child=clip_value(1, target=\"grad\"))");
    probe.a = update_child;
    assert_int_equal(step(&x, NULL), GD_VALUE);
    assert_error(x.ctx, GD_VALUE, "clip_value: with target \"grad\" only whole steps are possible");
    probe.a = apply_child;
    assert_int_equal(step(&x, NULL), GD_VALUE);
    gd_clear_error(x.ctx);
    close_problem(&x);
}

/* ---- parameters as one vector ---- */

static void concat_params_shows_all_parameters_as_a_vector(void **state)
{
    problem x = open_it(state, "flat_summer(factor=1)");
    OK(step(&x, NULL));
    assert_int_equal(last_count, 1);
    assert_values(x.p, 3 - 8, -1 + 8);
    assert_values(x.q, 0.5 - 4);
    gd_link *link = gd_optimizer_chain(x.o);
    assert_values(gd_link_state(link, x.p, "sum"), 4, -4, 2); /* kept under the first parameter */
    assert_false(gd_link_has_state(link, x.q, "sum"));
    OK(step(&x, NULL));
    assert_int_equal(link->entries, 1); /* and found again */
    close_problem(&x);
    x = open_it(state, "flat_summer(concat_params=false)");
    OK(step(&x, NULL));
    assert_int_equal(last_count, 2);
    close_problem(&x);
}

/* f32 parameters beside f64 ones: the vector is f64, and every update has its parameter's dtype. */
static void a_vector_of_mixed_dtypes_is_of_the_widest(void **state)
{
    problem x = open_it(state, "flat_summer(factor=1)");
    gd_tensor *half = gd_from_f64(x.ctx, GD_F32, 1, (int64_t[]){2}, (double[]){1, -2}),
              *p = gd_require_grad(half),
              *g = gd_from_f64(x.ctx, GD_F32, 1, (int64_t[]){2}, (double[]){0.5, 4});
    OK(gd_optimizer_add(x.o, "half", p));
    gd_tensor *gp = VECTOR(x.ctx, 4, -4), *gq = VECTOR(x.ctx, 2);
    OK(gd_set_grad(x.p, gp));
    OK(gd_set_grad(x.q, gq));
    OK(gd_set_grad(p, g));
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values(x.p, 3 - 8, -1 + 8);
    assert_values(p, 1 - 1, -2 - 8);
    gd_tensor *sum = gd_link_state(gd_optimizer_chain(x.o), x.p, "sum");
    assert_int_equal(gd_tensor_dtype(sum), GD_F64);
    assert_values(sum, 4, -4, 2, 0.5, 4);
    gd_tensor *const made[] = {g, gp, gq};
    for (int i = 0; i < COUNT_OF(made); i++) gd_release(made[i]);
    close_problem(&x);
    gd_release(p);
}

/* ---- update frequency ---- */

static void update_freq_updates_every_nth_step_and_applies_every_step(void **state)
{
    problem x = open_it(state, "summer(update_freq=3) | lr(0)");
    for (int i = 0; i < 7; i++) OK(step(&x, NULL));
    assert_int_equal(updates, 3); /* steps 0, 3, 6 */
    assert_int_equal(applies, 7);
    gd_optimizer_reset(x.o);
    OK(step(&x, NULL));
    assert_int_equal(updates, 4); /* the count starts again */
    close_problem(&x);
}

static void update_freq_of_a_rule_is_the_same(void **state)
{
    for (int i = 0; i < 2; i++) {
        problem x = open_it(state,
                            i ? "rule_summer(update_freq=3) | lr(0)" : "summer(update_freq=3) | lr(0)");
        for (int k = 0; k < 7; k++) OK(step(&x, NULL));
        gd_link *link = gd_link_child_at(gd_optimizer_chain(x.o), 0);
        assert_values(gd_link_state(link, x.p, "sum"), 12, -12);
        assert_int_equal(link->step, 7);
        close_problem(&x);
    }
}

/* ---- inner chains ---- */

static void inner_acts_on_what_apply_sees_and_not_on_what_update_sees(void **state)
{
    static const char *const outer[] = {"summer", "flat_summer", "rule_summer"};
    static const char *const inner[] = {"lr(10)", "[lr(5) | lr(2)]",
                                        "[clip_value(100) | lr(5) | summer(factor=1)]"};
    for (int i = 0; i < COUNT_OF(outer); i++)
        for (int k = 0; k < COUNT_OF(inner); k++) {
            char chain[120];
            snprintf(chain, sizeof chain, "%s(factor=1, inner=%s)", outer[i], inner[k]);
            problem x = open_it(state, chain);
            OK(step(&x, NULL)); /* 10 u + sum(u) */
            assert_values(x.p, 3 - 44, -1 + 44);
            assert_values(x.q, 0.5 - 22);
            close_problem(&x);
        }
}

/* A rule with two children that are no rules, whose results it needs at different places. */
static void a_rule_may_have_several_children_that_are_not_element_wise(void **state)
{
    problem x = open_it(state, "div_modules([lr(6) | summer], summer(factor=1))");
    OK(step(&x, NULL)); /* 6 u / 2 u */
    assert_values(x.p, 0, -4);
    assert_values(x.q, -2.5);
    OK(step(&x, NULL)); /* each keeps its own sum: p: u = -2, 6 (4 - 2) / (-2 + 4 - 2) */
    gd_link *link = gd_optimizer_chain(x.o);
    gd_link *second = gd_link_child(link, "other");
    assert_values(gd_link_state(second, x.p, "sum"), 4 - 2, -4 - 10);
    assert_int_equal(link->step, 2);
    assert_int_equal(second->step, 2);
    close_problem(&x);
}

static void a_child_that_is_no_rule_changes_no_state_of_its_rule_twice(void **state)
{
    problem x = open_it(state, "adam(inner=summer(factor=1)) | lr(0)");
    problem y = open_it(state, "adam(inner=lr(2)) | lr(0)");
    OK(step(&x, NULL));
    OK(step(&y, NULL));
    gd_link *a = gd_link_child_at(gd_optimizer_chain(x.o), 0),
            *b = gd_link_child_at(gd_optimizer_chain(y.o), 0);
    static const char *const slots[] = {"exp_avg", "exp_avg_sq"};
    for (int i = 0; i < 2; i++) {
        double left[2], right[2];
        OK(gd_read_f64(gd_link_state(a, x.p, slots[i]), left, 2));
        OK(gd_read_f64(gd_link_state(b, y.p, slots[i]), right, 2));
        assert_memory_equal(left, right, sizeof left);
    }
    assert_int_equal(a->step, 1);
    close_problem(&x);
    close_problem(&y);
}

/* ---- update and apply apart ---- */

static gd_status update_twice_apply_once(gd_link *link, gd_var *var)
{
    gd_link *child = gd_link_child(link, "child");
    OK(gd_link_update(child, var));
    assert_values(gd_var_update(var)[0], 4, -4); /* update leaves the update alone */
    OK(gd_link_update(child, var));
    return gd_link_apply(child, var);
}

static void update_may_be_called_several_times_before_apply(void **state)
{
    static const char *const links[] = {"summer", "flat_summer", "rule_summer"};
    for (int i = 0; i < 3; i++) {
        char chain[60];
        snprintf(chain, sizeof chain, "probe_a(child=%s(factor=1))", links[i]);
        problem x = open_it(state, chain);
        probe.a = update_twice_apply_once;
        OK(step(&x, NULL)); /* u + 2 u */
        assert_values(x.p, 3 - 12, -1 + 12);
        close_problem(&x);
    }
}

static void a_chain_updates_all_its_links_and_then_applies_all(void **state)
{
    problem x = open_it(state, "probe_a(child=[rule_summer(factor=1) | summer(factor=1)])");
    probe.a = update_twice_apply_once;
    OK(step(&x, NULL));
    /* both were updated with u; applied in turn: u + 2 u = 3 u, then 3 u + 2 u */
    assert_values(x.p, 3 - 20, -1 + 20);
    close_problem(&x);
}

static gd_status separately(gd_link *link, gd_var *var)
{
    gd_link *child = gd_link_child(link, "child");
    OK(gd_link_update(child, var));
    OK(gd_var_flush(var)); /* so that apply is a different program */
    OK(gd_link_apply(child, var));
    return gd_var_flush(var);
}

static gd_status together(gd_link *link, gd_var *var)
{
    gd_link *child = gd_link_child(link, "child");
    gd_status status = gd_link_update(child, var);
    return status ? status : gd_link_apply(child, var);
}

static gd_status whole(gd_link *link, gd_var *var) { return gd_link_step(gd_link_child(link, "child"), var); }

static void the_step_count_of_a_rule_is_that_of_its_updates(void **state)
{
    problem x = open_it(state, "probe_a(child=counter)");
    static const probe_fn how[] = {whole, separately, together};
    for (int i = 0; i < 3; i++) {
        probe.a = how[i];
        OK(gd_write_f64(x.p, (double[]){3, -1}, 2));
        OK(step(&x, NULL));
        assert_values(x.p, 3 - (i + 1), -1 - (i + 1));
    }
    close_problem(&x);
}

static void links_without_halves_do_all_in_apply(void **state)
{
    problem x = open_it(state, "probe_a(child=probe_b)");
    probe.a = update_twice_apply_once;
    OK(step(&x, NULL));
    assert_int_equal(probe.ran_b, 1);
    close_problem(&x);
}

/* ---- hooks around a transform ---- */

static char log_text[32];

static gd_status log_pre(gd_link *link, gd_var *var)
{
    strcat(log_text, "<");
    *gd_link_global(link, "steps", 0) += 1;
    return gd_var_grad(var) ? GD_OK : gd_error(gd_var_ctx(var));
}

static gd_status log_post(gd_link *link, gd_var *var)
{
    (void)link;
    strcat(log_text, ">");
    assert_values(gd_var_update(var)[0], 8, -8); /* the target is set */
    return GD_OK;
}

static gd_value twice(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_const(r, 2)); }

static gd_status twice_tensors(const gd_transform *t)
{
    for (int i = 0; i < t->count; i++) t->tensors[i] = gd_mul_scalar(t->tensors[i], 2);
    return GD_OK;
}

static const gd_link_class hooked_rule = {
    .name = "hooked_rule", .rule = twice, .pre_step = log_pre, .post_step = log_post};
static const gd_link_class hooked_tensors = {
    .name = "hooked_tensors", .apply_tensors = twice_tensors, .pre_step = log_pre, .post_step = log_post};

static void pre_and_post_hooks_run_around_a_transform(void **state)
{
    OK(gd_link_class_register(CTX(state), &hooked_rule));
    OK(gd_link_class_register(CTX(state), &hooked_tensors));
    static const char *const chains[] = {"hooked_rule", "hooked_tensors", "probe_a(child=hooked_rule)",
                                         "probe_a(child=hooked_tensors)"};
    for (int i = 0; i < 4; i++) {
        problem x = open_it(state, chains[i]);
        log_text[0] = 0;
        probe.a = update_twice_apply_once;
        OK(step(&x, NULL));
        assert_string_equal(log_text, i < 2 ? "<>" : "<<>");
        assert_values(x.p, -5, 7);
        close_problem(&x);
    }
}

static void a_rule_with_hooks_still_shares_its_pass(void **state)
{
    OK(gd_link_class_register(CTX(state), &hooked_rule));
    problem x = open_it(state, "lr(1) | hooked_rule | lr(1)");
    log_text[0] = 0;
    OK(step(&x, NULL));
    assert_string_equal(log_text, "<>");
    close_problem(&x);
}

/* ---- by hand ---- */

static void transforms_work_by_hand_keyed_by_parameters(void **state)
{
    static const char *const links[] = {"summer(factor=10)", "flat_summer(factor=10)",
                                        "rule_summer(factor=10)"};
    for (int i = 0; i < 3; i++) {
        problem x = open_it(state, "lr(1)");
        gd_link *link = gd_chain(x.ctx, links[i]);
        gd_tensor *params[2] = {x.p, x.q};
        gd_scope_begin(x.ctx);
        gd_tensor *t[2] = {VECTOR(x.ctx, 1, 2), VECTOR(x.ctx, 3)}, *first = t[0];
        OK(gd_link_keyed_update(link, t, params, NULL, NULL, 2));
        OK(gd_link_keyed_update(link, t, params, NULL, NULL, 2));
        assert_ptr_equal(t[0], first);
        OK(gd_link_keyed_apply(link, t, params, NULL, NULL, 2));
        assert_values(t[0], 12, 24);
        assert_values(t[1], 36);
        assert_values(first, 1, 2); /* replaced, not changed */
        /* the parameters are keys: the same again finds the state */
        gd_tensor *again[2] = {VECTOR(x.ctx, 0, 0), VECTOR(x.ctx, 0)};
        OK(gd_link_keyed_apply(link, again, params, NULL, NULL, 2));
        assert_values(again[0], 2, 4);
        gd_scope_end(x.ctx);
        gd_link_release(link);
        close_problem(&x);
    }
}

static void explicit_states_are_kept_by_the_caller(void **state)
{
    static const char *const links[] = {"summer(factor=10)", "flat_summer(factor=10)",
                                        "rule_summer(factor=10)"};
    for (int i = 0; i < 3; i++) {
        problem x = open_it(state, "lr(1)");
        gd_link *link = gd_chain(x.ctx, links[i]);
        gd_states *one = gd_states_new(link, 2), *two = gd_states_new(link, 2);
        gd_tensor *params[2] = {x.p, x.q};
        gd_scope_begin(x.ctx);
        gd_tensor *t[2] = {VECTOR(x.ctx, 1, 2), VECTOR(x.ctx, 3)}, *s[2] = {t[0], t[1]};
        assert_null(gd_states_get(one, 0, "sum"));
        OK(gd_states_update(one, t, params, NULL, NULL));
        OK(gd_states_update(two, t, params, NULL, NULL));
        OK(gd_states_update(two, t, params, NULL, NULL));
        OK(gd_states_apply(one, t, params, NULL, NULL));
        assert_values(t[0], 11, 22);
        OK(gd_states_apply(two, s, params, NULL, NULL));
        assert_values(s[1], 36);
        if (i != 1)
            assert_values(gd_states_get(two, 1, "sum"), 6);
        else
            assert_values(gd_states_get(two, 0, "sum"), 2, 4, 6);
        assert_false(gd_link_has_state(link, x.p, "sum")); /* not the link's */
        gd_scope_end(x.ctx);
        gd_states_free(one);
        assert_int_equal(link->entries, i == 1 ? 1 : 2);
        gd_states_free(two);
        assert_int_equal(link->entries, 0);
        gd_link_release(link);
        close_problem(&x);
    }
}

static void a_chain_by_hand_runs_whole(void **state)
{
    problem x = open_it(state, "lr(1)");
    gd_link *link = gd_chain(x.ctx, "lr(2) | summer(factor=1) | rule_summer(factor=1)");
    gd_tensor *in[2] = {VECTOR(x.ctx, 1, 2), VECTOR(x.ctx, 3)}, *t[2] = {in[0], in[1]};
    gd_tensor *params[2] = {x.p, x.q};
    OK(gd_link_transform(link, t, params, NULL, NULL, 2));
    assert_values(t[0], 8, 16); /* doubled three times */
    assert_values(in[0], 1, 2);
    for (int i = 0; i < 2; i++) {
        gd_release(in[i]);
        gd_release(t[i]);
    }
    gd_link_release(link);
    close_problem(&x);
}

static void wrong_use_by_hand_is_refused(void **state)
{
    problem x = open_it(state, "probe_a");
    gd_ctx *ctx = x.ctx;
    gd_tensor *params[2] = {x.p, x.q};
    gd_scope_begin(ctx);
    gd_tensor *t[2] = {VECTOR(ctx, 1, 2, 3), VECTOR(ctx, 3)}, *none[2] = {NULL, NULL};
    assert_int_equal(gd_link_keyed_apply(gd_optimizer_chain(x.o), t, params, NULL, NULL, 2), GD_TYPE);
    assert_error(ctx, GD_TYPE, "probe_a: is no transform of tensors");
    gd_link *rule = gd_chain(ctx, "adam"), *caution = gd_chain(ctx, "cautious");
    assert_int_equal(gd_link_keyed_apply(rule, t, params, NULL, NULL, 2), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "adam: tensor 0 is [3], its parameter [2]");
    assert_int_equal(gd_link_keyed_apply(rule, none, params, NULL, NULL, 2), GD_ARGUMENT);
    gd_clear_error(ctx);
    gd_tensor *good[2] = {VECTOR(ctx, 1, 2), VECTOR(ctx, 3)};
    assert_int_equal(gd_link_keyed_apply(caution, good, params, NULL, NULL, 2), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "cautious: needs the gradients");
    OK(gd_link_keyed_apply(caution, good, params, good, NULL, 2));
    gd_link_release(rule);
    gd_link_release(caution);
    gd_scope_end(ctx);
    close_problem(&x);
}

static gd_status wrong_result(const gd_transform *t)
{
    t->tensors[0] = gd_zeros(gd_link_ctx(t->link), GD_F64, 1, (int64_t[]){5});
    return GD_OK;
}

static gd_status no_result(const gd_transform *t)
{
    t->tensors[0] = NULL;
    return GD_OK;
}

static gd_status half_failure(const gd_transform *t)
{
    t->tensors[0] = gd_neg(t->tensors[0]);
    return gd_fail(gd_link_ctx(t->link), GD_VALUE, "on purpose");
}

static void a_transform_that_returns_nonsense_fails_the_step(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_link_class shape = {.name = "shape_link", .apply_tensors = wrong_result},
                               nothing = {.name = "nothing_link", .apply_tensors = no_result},
                               failure = {.name = "failure_link", .apply_tensors = half_failure};
    OK(gd_link_class_register(ctx, &shape));
    OK(gd_link_class_register(ctx, &nothing));
    OK(gd_link_class_register(ctx, &failure));
    static const struct {
        const char *chain, *text;
        gd_status status;
    } cases[] = {{"shape_link", "shape_link: tensor 0 is [5]", GD_SHAPE},
                 {"nothing_link", "nothing_link: tensor 0 is NULL", GD_ARGUMENT},
                 {"failure_link", "on purpose", GD_VALUE}};
    for (int i = 0; i < 3; i++) {
        problem x = open_it(state, cases[i].chain);
        assert_int_equal(step(&x, NULL), cases[i].status);
        assert_error(ctx, cases[i].status, cases[i].text);
        assert_values(x.p, 3, -1);
        close_problem(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(target_update_replaces_the_update),
        CASE(target_grad_replaces_the_gradient_and_not_an_update_that_is_there),
        CASE(target_closure_changes_the_gradient_of_every_evaluation),
        CASE(target_params_direct_changes_the_parameters_themselves),
        CASE(target_params_difference_makes_the_change_of_parameters_the_update),
        CASE(target_update_difference_makes_the_rest_the_update),
        CASE(targets_work_for_functions_of_tensors_too),
        CASE(update_and_apply_want_the_target_update),
        CASE(concat_params_shows_all_parameters_as_a_vector),
        CASE(a_vector_of_mixed_dtypes_is_of_the_widest),
        CASE(update_freq_updates_every_nth_step_and_applies_every_step),
        CASE(update_freq_of_a_rule_is_the_same),
        CASE(inner_acts_on_what_apply_sees_and_not_on_what_update_sees),
        CASE(a_rule_may_have_several_children_that_are_not_element_wise),
        CASE(a_child_that_is_no_rule_changes_no_state_of_its_rule_twice),
        CASE(update_may_be_called_several_times_before_apply),
        CASE(a_chain_updates_all_its_links_and_then_applies_all),
        CASE(the_step_count_of_a_rule_is_that_of_its_updates),
        CASE(links_without_halves_do_all_in_apply),
        CASE(pre_and_post_hooks_run_around_a_transform),
        CASE(a_rule_with_hooks_still_shares_its_pass),
        CASE(transforms_work_by_hand_keyed_by_parameters),
        CASE(explicit_states_are_kept_by_the_caller),
        CASE(a_chain_by_hand_runs_whole),
        CASE(wrong_use_by_hand_is_refused),
        CASE(a_transform_that_returns_nonsense_fails_the_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
