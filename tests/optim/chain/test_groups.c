/* Parameter groups and schedules. */
#include "optim/optim_support.h"

static gd_value as_it_is(gd_rule *r, gd_value update)
{
    (void)r;
    return update;
}

static const gd_field narrow_fields[] = {GD_REAL("momentum", 0.5, 0, 1, "a number")};
static const gd_link_class narrow = {.name = "tx_narrow", GD_FIELDS(narrow_fields), .rule = as_it_is};

static gd_link *top(const problem *x, int i) { return gd_link_child_at(gd_optimizer_chain(x->o), i); }

static void groups_have_settings_of_their_own(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "lr(0.25)");
    gd_tensor *r = gd_require_grad(VECTOR(ctx, 1)), *s = gd_require_grad(VECTOR(ctx, 2));
    int group = -1;
    OK(gd_optimizer_add_group(x.o, (const char *const[]){"r", "s"}, (gd_tensor *const[]){r, s}, 2, "lr=0.5",
                              &group));
    assert_int_equal(group, 1);
    assert_int_equal(gd_optimizer_groups(x.o), 2);
    assert_int_equal(gd_optimizer_count(x.o), 4);
    gd_tensor *one = VECTOR(ctx, 1);
    OK(gd_set_grad(r, one));
    OK(gd_set_grad(s, one));
    OK(gd_set_grad(x.q, one));
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values(x.q, 0.5 - 0.25);
    assert_values(r, 1 - 0.5);
    assert_values(s, 2 - 0.5);
    gd_release(one);
    gd_zero_grad(r);
    gd_zero_grad(s);
    gd_zero_grad(x.q);
    close_problem(&x);
    gd_release(r);
    gd_release(s);
}

static void a_group_is_added_whole_or_not_at_all(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "adam | lr(0.25)");
    gd_tensor *r = gd_require_grad(VECTOR(ctx, 1));
    const char *const names[] = {"r", "p"};
    gd_tensor *const tensors[] = {r, x.p};
    assert_int_equal(gd_optimizer_add_group(x.o, names, tensors, 2, "lr=0.5", NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_add_group(x.o, names, tensors, 1, "beta1=2", NULL), GD_PARSE);
    assert_error(ctx, GD_PARSE, "group: adam: beta1 is 2, must be from 0 to 1");
    assert_int_equal(gd_optimizer_add_group(x.o, names, tensors, 1, "lrr=2", NULL), GD_ATTRIBUTE);
    assert_error(ctx, GD_ATTRIBUTE, "group: no link of the chain has a setting 'lrr'");
    assert_int_equal(gd_optimizer_add_group(x.o, names, tensors, 1, "lr 2", NULL), GD_PARSE);
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_add_group(x.o, names, tensors, 1, "inner=none", NULL), GD_TYPE);
    assert_error(ctx, GD_TYPE, "group: 'inner' of adam is a link, which groups cannot have");
    assert_int_equal(gd_optimizer_groups(x.o), 1);
    assert_int_equal(gd_optimizer_count(x.o), 2);
    gd_release(r);
    close_problem(&x);
}

static void a_key_that_several_links_have_is_warned_about_once(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball | nag | lr(1)");
    OK(gd_optimizer_set(x.o, 0, "momentum", 0.5));
    assert_int_equal(gd_warning_count(x.ctx), 1);
    assert_string_equal(gd_warning_text(x.ctx),
                        "group: 2 links have a setting 'momentum'; all of them get it");
    OK(gd_optimizer_set(x.o, 0, "momentum", 0.6));
    assert_int_equal(gd_warning_count(x.ctx), 1);
    assert_true(gd_link_real(top(&x, 0), "momentum", x.p) == 0.6);
    assert_true(gd_link_real(top(&x, 1), "momentum", x.p) == 0.6);
    close_problem(&x);
    /* not when a link has settings of single parameters for it */
    x = open_problem(CTX(state), "heavy_ball | nag | lr(1)");
    OK(gd_link_set_group(top(&x, 1), &x.p, 1, "momentum=0.1"));
    OK(gd_optimizer_set(x.o, 0, "momentum", 0.5));
    assert_int_equal(gd_warning_count(x.ctx), 1);
    close_problem(&x);
}

static void settings_of_groups_can_shape_programs(void **state)
{
    problem x = open_problem(CTX(state), "weight_decay(0.5) | heavy_ball(0.5) | lr(1)");
    OK(gd_optimizer_regroup(x.o, "q",
                            "ord=1, ema_init=\"zeros\"")); /* ord is a number, and shapes all the same */
    OK(step(&x, NULL));
    assert_values(x.p, 3 - 1.5 * (4 + 1.5), -1 + 1.5 * (4 + 0.5));
    assert_values(x.q, 0.5 - (2 + 0.5));
    OK(gd_optimizer_set(x.o, 1, "ord", 2));
    OK(step(&x, NULL)); /* u = -8 + 0.5 * -2, v = 0.5 * 2.5 + u */
    assert_values(x.q, -2 - (1.25 - 9));
    close_problem(&x);
}

static void a_setting_that_a_link_does_not_take_in_that_kind_is_left_to_others(void **state)
{
    problem x = open_problem(CTX(state), "lr(1)");
    assert_int_equal(gd_optimizer_regroup(x.o, "p", "lr=true"), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_regroup(x.o, "nobody*", "lr=1"), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "group: no parameter matches 'nobody*'");
    assert_int_equal(gd_optimizer_set(x.o, 7, "lr", 1), GD_INDEX);
    assert_error(x.ctx, GD_INDEX, "group 7 is not one of 1");
    close_problem(&x);
}

static void regroup_moves_parameters_by_name(void **state)
{
    problem x = open_problem(CTX(state), "lr(0)");
    OK(gd_optimizer_regroup(x.o, "p", "lr=0.25"));
    OK(step(&x, NULL));
    assert_values(x.p, 2, 0);
    assert_values(x.q, 0.5);
    OK(gd_optimizer_set(x.o, -1, "lr", 0.5)); /* in all groups but those with their own */
    OK(step(&x, NULL));
    assert_values(x.p, 1.5, 0.5);
    assert_values(x.q, -0.5);
    close_problem(&x);
}

/* div([sqrt_ema_squared | add(1e-8)]): `other` is a link in one and a number in the other, which is meant. */
static void a_number_is_for_links_that_have_no_link_there(void **state)
{
    problem x = open_problem(CTX(state), "div([sqrt_ema_squared(0.5) | add(1)]) | lr(1)");
    const gd_link *div = top(&x, 0), *add = gd_link_child_at(gd_link_child_at(div, 0), 1);
    OK(gd_optimizer_regroup(x.o, "p", "other=0.5"));
    OK(gd_optimizer_schedule(x.o, 0, "other", "linear(2, 0, 4)"));
    assert_int_equal(gd_warning_count(x.ctx), 0);
    assert_true(gd_link_real(add, "other", x.p) == 0.5 && gd_link_real(add, "other", x.q) == 2);
    assert_int_equal(gd_link_get(div, "other", x.p)->kind, GD_SET_CHAIN);
    OK(step(&x, NULL));
    close_problem(&x);
    x = open_problem(CTX(state), "div(sqrt_ema_squared(0.5)) | lr(1)");
    assert_int_equal(gd_optimizer_regroup(x.o, "p", "other=0.5"), GD_TYPE);
    assert_error(x.ctx, GD_TYPE, "group: 'other' of div is a link, which groups cannot have");
    close_problem(&x);
}

static void a_number_for_all_leaves_groups_their_own(void **state)
{
    problem x = open_problem(CTX(state), "lr(7)");
    gd_link *lr = gd_optimizer_chain(x.o);
    OK(gd_optimizer_regroup(x.o, "q", "lr=0.125"));
    OK(gd_optimizer_set(x.o, -1, "lr", 2));
    assert_true(gd_link_real(lr, "lr", x.p) == 2 && gd_link_real(lr, "lr", x.q) == 0.125);
    OK(gd_optimizer_regroup(x.o, "p", "lr=0.25"));
    assert_int_equal(gd_optimizer_set(x.o, -1, "lr", 3), GD_VALUE);
    assert_error(x.ctx, GD_VALUE,
                 "set: every group has its own 'lr', which wins; set the groups or unset theirs");
    OK(gd_optimizer_unset(x.o, -1, "lr"));
    OK(gd_optimizer_set(x.o, -1, "lr", 3));
    assert_true(gd_link_real(lr, "lr", x.p) == 3 && gd_link_real(lr, "lr", x.q) == 3);
    close_problem(&x);
}

/* Texts are strings here, whatever is in them. */
static void groups_take_settings_as_values(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(1)");
    gd_link *adam = top(&x, 0), *lr = top(&x, 1);
    gd_tensor *r = gd_require_grad(VECTOR(x.ctx, 1));
    const char *const names[] = {"r"};
    const gd_link_option good[] = {gd_number_option("lr", 0.5),
                                   gd_string_option("eps_at", "corrected"),
                                   gd_flag_option("amsgrad", true),
                                   {.field = "beta1"}},
                         bad[] = {gd_number_option("lr", 0.25), gd_string_option("eps_at", "raw, lr=4")};
    int group = 0;
    OK(gd_optimizer_add_group_with(x.o, names, &r, 1, good, 4, &group));
    assert_int_equal(group, 1);
    assert_true(gd_link_real(lr, "lr", r) == 0.5 && gd_link_real(lr, "lr", x.p) == 1);
    assert_string_equal(gd_link_get(adam, "eps_at", r)->string, "corrected");
    assert_true(gd_link_get(adam, "amsgrad", r)->real == 1 && gd_link_real(adam, "beta1", r) == 0.9);
    OK(gd_optimizer_group_settings(x.o, 0, good, 1));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.5);
    OK(gd_optimizer_regroup_with(x.o, "q", &(gd_link_option){.field = "lr", .value = gd_setting_real(2)}, 1));
    assert_true(gd_link_real(lr, "lr", x.q) == 2 && gd_link_real(lr, "lr", x.p) == 0.5);
    /* all or nothing */
    gd_tensor *s = gd_require_grad(VECTOR(x.ctx, 1));
    const char *const more[] = {"s"};
    assert_int_equal(gd_optimizer_add_group_with(x.o, more, &s, 1, bad, 2, NULL), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_group_settings(x.o, 0, bad, 2), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_regroup_with(x.o, "*", bad, 2), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_group_settings(x.o, -1, good, 1), GD_INDEX);
    gd_clear_error(x.ctx);
    assert_true(gd_link_real(lr, "lr", x.p) == 0.5 && gd_optimizer_groups(x.o) == 3);
    assert_int_equal(gd_optimizer_count(x.o), 3);
    close_problem(&x);
    gd_release(r);
    gd_release(s);
}

static void rates_that_multiply_are_warned_about(void **state)
{
    problem x = open_problem(CTX(state), "lr(2) | [adam | lr(1)]");
    assert_int_equal(gd_warning_count(x.ctx), 1);
    assert_non_null(strstr(gd_warning_text(x.ctx), "2 links of the chain have a setting 'lr'"));
    close_problem(&x);
    x = open_problem(CTX(state), "split(\"p\", lr(1), lr(2))"); /* a parameter goes through one */
    assert_int_equal(gd_warning_count(x.ctx), 1);
    close_problem(&x);
}

static void settings_of_globs_that_overlap_add_up(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(0.5) | weight_decay(0) | lr(1)");
    gd_link *momentum = top(&x, 0), *decay = top(&x, 1), *lr = top(&x, 2);
    OK(gd_optimizer_set(x.o, 0, "momentum", 0.25));
    OK(gd_optimizer_regroup(x.o, "*", "lr=0.5, weight_decay=0.125"));
    OK(gd_optimizer_schedule_matching(x.o, "p", "weight_decay", "0.0625"));
    OK(gd_optimizer_regroup(x.o, "q", "weight_decay=0.75"));
    OK(gd_optimizer_regroup(x.o, "?", "momentum=0.375"));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.5 && gd_link_real(lr, "lr", x.q) == 0.5);
    assert_true(gd_link_real(decay, "weight_decay", x.p) == 0.0625);
    assert_true(gd_link_real(decay, "weight_decay", x.q) == 0.75);
    assert_true(gd_link_real(momentum, "momentum", x.p) == 0.375);
    assert_true(gd_link_real(momentum, "momentum", x.q) == 0.375);
    /* the first group keeps what it says for those that join it */
    gd_tensor *r = gd_require_grad(VECTOR(x.ctx, 1));
    OK(gd_optimizer_add(x.o, "r", r));
    assert_true(gd_link_real(momentum, "momentum", r) == 0.25 && gd_link_real(lr, "lr", r) == 1);
    OK(gd_optimizer_remove(x.o, "r"));
    gd_release(r);
    close_problem(&x);
}

static void a_regrouping_that_fails_changes_nothing(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(1)");
    OK(gd_optimizer_regroup(x.o, "p", "lr=0.5"));
    assert_int_equal(gd_optimizer_regroup(x.o, "*", "lr=0.25, beta1=2"), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "group: adam: beta1 is 2, must be from 0 to 1");
    assert_int_equal(gd_optimizer_groups(x.o), 2);
    assert_true(gd_link_real(top(&x, 1), "lr", x.p) == 0.5 && gd_link_real(top(&x, 1), "lr", x.q) == 1);
    /* again and again: groups do not pile up */
    for (int i = 0; i < 5; i++) OK(gd_optimizer_regroup(x.o, "*", "lr=0.25"));
    assert_int_equal(gd_optimizer_groups(x.o), 3);
    close_problem(&x);
}

static void a_schedule_sets_a_number_every_step(void **state)
{
    problem x = open_problem(CTX(state), "lr(7)");
    gd_scope_begin(x.ctx);
    OK(gd_optimizer_schedule(x.o, 0, "lr", "linear(1, 0, 4)"));
    double want = 0.5;
    for (int i = 0; i < 6; i++) {
        OK(gd_set_grad(x.q, VECTOR(x.ctx, 1)));
        OK(gd_optimizer_step(x.o, NULL, NULL));
        want -= i < 4 ? 1 - i / 4.0 : 0;
        assert_values(x.q, want);
    }
    gd_zero_grad(x.q);
    gd_scope_end(x.ctx);
    close_problem(&x);
}

static void any_number_can_have_a_schedule(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(0.5) | lr(1)");
    gd_link *momentum = top(&x, 0);
    OK(gd_optimizer_schedule(x.o, -1, "momentum", "linear(0, 1, 2)"));
    const double want[] = {0, 0.5, 1, 1};
    for (int i = 0; i < 4; i++) {
        OK(step(&x, NULL));
        assert_true(gd_link_real(momentum, "momentum", x.p) == want[i]);
    }
    close_problem(&x);
}

static void a_schedule_may_change_what_shapes_a_program(void **state)
{
    problem x = open_problem(CTX(state), "weight_decay(1)");
    OK(gd_optimizer_schedule(x.o, 0, "ord", "multistep(2, [1], factor=0.5)"));
    gd_optimizer_zero_grad(x.o);
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values(x.p, 0, 0); /* p - p */
    OK(gd_write_f64(x.p, (double[]){3, -2}, 2));
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values(x.p, 2, -1); /* p - sign(p) */
    close_problem(&x);
}

static void a_number_set_by_hand_ends_its_schedule(void **state)
{
    problem x = open_problem(CTX(state), "lr(1)");
    OK(gd_optimizer_schedule(x.o, 0, "lr", "linear(1, 0, 4)"));
    OK(step(&x, NULL));
    OK(gd_optimizer_set(x.o, 0, "lr", 0.125));
    OK(step(&x, NULL));
    assert_true(gd_link_real(gd_optimizer_chain(x.o), "lr", x.p) == 0.125);
    close_problem(&x);
}

/* The same numbers whether the schedule stands in the chain, in a group's text or is set; and they go on after loading. */
static void a_schedule_may_stand_in_texts(void **state)
{
    problem by_chain = open_problem(CTX(state), "lr(schedule=linear(1, 0, 4))"),
            by_group = open_problem(CTX(state), "lr(7)");
    OK(gd_optimizer_regroup(by_group.o, "*", "lr=linear(1, 0, 4)"));
    for (int i = 0; i < 6; i++) {
        OK(step(&by_chain, NULL));
        OK(step(&by_group, NULL));
        double want = i < 4 ? 1 - i / 4.0 : 0;
        assert_true(gd_link_real(gd_optimizer_chain(by_chain.o), "lr", by_chain.p) == want);
        assert_true(gd_link_real(gd_optimizer_chain(by_group.o), "lr", by_group.p) == want);
    }
    char text[80];
    gd_link_print(gd_optimizer_chain(by_chain.o), text, sizeof text);
    assert_string_equal(text, "lr(linear(1, 0, 4))");
    /* a number takes its place */
    OK(gd_link_set_real(gd_optimizer_chain(by_chain.o), "lr", 3));
    OK(step(&by_chain, NULL));
    assert_true(gd_link_real(gd_optimizer_chain(by_chain.o), "lr", by_chain.p) == 3);
    gd_schedule wrong = gd_schedule_linear(0, 1, -1);
    assert_int_equal(gd_link_set_schedule(gd_optimizer_chain(by_chain.o), "lr", &wrong), GD_VALUE);
    gd_clear_error(by_chain.ctx);
    /* what a group says is above it, as it is above every number of a link */
    OK(gd_link_set_schedule(gd_optimizer_chain(by_chain.o), "lr",
                            &(gd_schedule){.kind = GD_SCHEDULE_CONSTANT}));
    OK(gd_optimizer_set(by_chain.o, -1, "lr", 0.5));
    OK(step(&by_chain, NULL));
    assert_true(gd_link_real(gd_optimizer_chain(by_chain.o), "lr", by_chain.p) == 0.5);
    close_problem(&by_chain);
    close_problem(&by_group);
}

static void wrong_schedules_are_refused(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(1)");
    assert_int_equal(gd_optimizer_schedule(x.o, 0, "lr", "cosin(1, 0, 4)"), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_schedule(x.o, 0, "amsgrad", "linear(1, 0, 4)"), GD_PARSE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_schedule(x.o, 0, "beta1", "linear(3, 0, 4)"), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "schedule: step 0: adam: beta1 is 3, must be from 0 to 1");
    assert_int_equal(gd_optimizer_schedule(x.o, 0, "none", "linear(3, 0, 4)"), GD_ATTRIBUTE);
    gd_clear_error(x.ctx);
    assert_int_equal(gd_optimizer_schedule(x.o, 3, "lr", "1"), GD_INDEX);
    gd_clear_error(x.ctx);
    assert_true(gd_link_real(top(&x, 1), "lr", x.p) == 1);
    close_problem(&x);
}

static void a_schedule_that_leaves_the_range_at_any_step_is_refused(void **state)
{
    problem x = open_problem(CTX(state), "adam | lbfgs | lr(1)");
    assert_int_equal(gd_optimizer_schedule(x.o, -1, "beta1", "linear(0.5, 1.5, 4)"), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "schedule: step 3: adam: beta1 is 1.25, must be from 0 to 1");
    assert_int_equal(gd_optimizer_schedule(x.o, -1, "beta1", "exponential(0.5, 2)"), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "schedule: step 2: adam: beta1 is 2, must be from 0 to 1");
    assert_int_equal(gd_optimizer_schedule(x.o, -1, "history_size", "linear(2, 5, 2)"), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "schedule: step 1: lbfgs: history_size is 3.5, must be a whole number");
    OK(gd_optimizer_schedule(x.o, -1, "history_size", "linear(2, 8, 3)"));
    for (int i = 0; i < 4; i++) {
        OK(step(&x, NULL));
        assert_true(gd_link_real(top(&x, 1), "history_size", NULL) == 2 + 2 * i);
    }
    OK(gd_optimizer_schedule(x.o, -1, "beta1", "exponential(0.5, 0.9)"));
    OK(gd_optimizer_schedule(x.o, -1, "lr", "exponential(1, 1.01)")); /* which has no range */
    close_problem(&x);
}

static void a_groups_own_value_wins_over_a_schedule_for_all(void **state)
{
    problem x = open_problem(CTX(state), "lr(7)");
    gd_link *lr = gd_optimizer_chain(x.o);
    OK(gd_optimizer_regroup(x.o, "q", "lr=0.125"));
    OK(gd_optimizer_schedule(x.o, -1, "lr", "linear(1, 0, 4)"));
    OK(step(&x, NULL));
    OK(step(&x, NULL));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.75);
    assert_true(gd_link_real(lr, "lr", x.q) == 0.125);
    /* a group that comes later is one of all */
    gd_tensor *r = gd_require_grad(VECTOR(x.ctx, 1));
    OK(gd_optimizer_add_group(x.o, (const char *const[]){"r"}, &r, 1, NULL, NULL));
    assert_true(gd_link_real(lr, "lr", r) == 0.75);
    OK(gd_optimizer_remove(x.o, "r"));
    gd_release(r);
    close_problem(&x);
}

static void a_schedule_for_all_that_reaches_no_group_is_refused(void **state)
{
    problem x = open_problem(CTX(state), "lr(7)");
    OK(gd_optimizer_regroup(x.o, "*", "lr=0.125"));
    assert_int_equal(gd_optimizer_schedule(x.o, -1, "lr", "linear(1, 0, 4)"), GD_VALUE);
    assert_error(x.ctx, GD_VALUE,
                 "schedule: every group has its own 'lr', which wins; schedule the groups or unset theirs");
    OK(gd_optimizer_unset(x.o, 1, "lr"));
    OK(gd_optimizer_schedule(x.o, -1, "lr", "linear(1, 0, 4)"));
    close_problem(&x);
}

static void a_schedule_for_some_parameters_splits_their_groups(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(0.5) | lr(0.5)");
    gd_link *momentum = top(&x, 0), *lr = top(&x, 1);
    OK(gd_optimizer_set(x.o, 0, "momentum", 0.25));
    OK(gd_optimizer_schedule_matching(x.o, "q", "lr", "linear(1, 0, 4)"));
    assert_int_equal(gd_optimizer_groups(x.o), 2);
    for (int i = 0; i < 3; i++) OK(step(&x, NULL));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.5);
    assert_true(gd_link_real(lr, "lr", x.q) == 0.5); /* 1 - 2 / 4 */
    OK(step(&x, NULL));
    assert_true(gd_link_real(lr, "lr", x.q) == 0.25);
    assert_true(gd_link_real(momentum, "momentum", x.q) == 0.25);
    /* all of a group: it stays one */
    OK(gd_optimizer_schedule_matching(x.o, "q", "momentum", "0.75"));
    assert_int_equal(gd_optimizer_groups(x.o), 2);
    assert_true(gd_link_real(momentum, "momentum", x.q) == 0.75);
    assert_true(gd_link_real(momentum, "momentum", x.p) == 0.25);
    assert_int_equal(gd_optimizer_schedule_matching(x.o, "z*", "lr", "1"), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "schedule: no parameter matches 'z*'");
    close_problem(&x);
}

static void settings_and_schedules_can_be_taken_back(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.5)");
    gd_link *lr = gd_optimizer_chain(x.o);
    gd_setting local = {.kind = GD_SET_REAL, .real = 0.0625};
    OK(gd_optimizer_schedule(x.o, 0, "lr", "linear(1, 0, 4)"));
    OK(step(&x, NULL));
    OK(step(&x, NULL));
    OK(gd_optimizer_unschedule(x.o, 0, "lr")); /* the last number stays */
    OK(step(&x, NULL));
    assert_true(gd_link_real(lr, "lr", x.p) == 0.75);
    assert_int_equal(gd_optimizer_unschedule(x.o, 0, "lr"), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "group: group 0 has no schedule of 'lr'");
    OK(gd_optimizer_unset(x.o, -1, "lr"));
    OK(gd_write_f64(x.q, (double[]){1}, 1));
    OK(step(&x, NULL));
    assert_values(x.q, 1 - 0.5 * 4);
    assert_int_equal(gd_optimizer_unset(x.o, -1, "lr"), GD_ATTRIBUTE);
    assert_error(x.ctx, GD_ATTRIBUTE, "group: no group has a setting 'lr'");
    OK(gd_link_set_for(lr, x.q, "lr", local));
    assert_true(gd_link_real(lr, "lr", x.q) == 0.0625);
    OK(gd_link_unset_for(lr, x.q, "lr"));
    OK(gd_write_f64(x.q, (double[]){1}, 1));
    OK(step(&x, NULL));
    assert_values(x.q, 1 - 0.5 * 4);
    assert_int_equal(gd_link_unset_for(lr, x.q, NULL), GD_ATTRIBUTE);
    gd_clear_error(x.ctx);
    close_problem(&x);
}

/* Three optimizer steps of the same gradient are one step of it. */
static void under_gradient_accumulation_schedules_and_counters_count_what_comes_out(void **state)
{
    const char *const chains[] = {"adam | lr(1)", "gradient_accumulation(4) | adam | lr(1)",
                                  "[gradient_accumulation(4)] | adam | lr(1)"};
    for (int chain = 1; chain < COUNT_OF(chains); chain++) {
        problem a = open_problem(CTX(state), chains[0]), b = open_problem(CTX(state), chains[chain]);
        OK(gd_optimizer_schedule(a.o, -1, "lr", "linear(0.5, 0, 4)"));
        OK(gd_optimizer_schedule(b.o, -1, "lr", "linear(0.5, 0, 4)"));
        for (int i = 0; i < 12; i++) {
            if (i % 4 == 3) OK(step(&a, NULL));
            OK(step(&b, NULL));
        }
        double one[3], other[3];
        OK(gd_read_f64(a.p, one, 2));
        OK(gd_read_f64(a.q, one + 2, 1));
        OK(gd_read_f64(b.p, other, 2));
        OK(gd_read_f64(b.q, other + 2, 1));
        assert_memory_equal(one, other, sizeof one);
        assert_int_equal(gd_optimizer_steps(b.o), 12);
        close_problem(&b);
        close_problem(&a);
    }
}

static void a_link_that_joins_later_has_what_the_groups_say(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball(0.5) | probe_a");
    OK(gd_optimizer_set(x.o, -1, "momentum", 0.75));
    OK(gd_optimizer_schedule(x.o, 0, "knob", "linear(2, 8, 3)"));
    gd_link *child = gd_chain(x.ctx, "nag(0.5)");
    OK(gd_link_set_child(top(&x, 1), "child", child));
    assert_true(gd_link_real(child, "momentum", x.p) == 0.75);
    /* what it does not take is said now, and it does not join */
    OK(gd_optimizer_set(x.o, -1, "momentum", 7));
    assert_int_equal(gd_link_set_child(top(&x, 1), "child", gd_link_new(x.ctx, &narrow)), GD_PARSE);
    assert_error(x.ctx, GD_PARSE, "group: tx_narrow: momentum is 7, must be from 0 to 1");
    assert_ptr_equal(gd_link_child(top(&x, 1), "child"), child);
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(groups_have_settings_of_their_own),
        CASE(a_group_is_added_whole_or_not_at_all),
        CASE(a_key_that_several_links_have_is_warned_about_once),
        CASE(settings_of_groups_can_shape_programs),
        CASE(a_setting_that_a_link_does_not_take_in_that_kind_is_left_to_others),
        CASE(regroup_moves_parameters_by_name),
        CASE(a_number_is_for_links_that_have_no_link_there),
        CASE(a_number_for_all_leaves_groups_their_own),
        CASE(groups_take_settings_as_values),
        CASE(rates_that_multiply_are_warned_about),
        CASE(settings_of_globs_that_overlap_add_up),
        CASE(a_regrouping_that_fails_changes_nothing),
        CASE(a_schedule_sets_a_number_every_step),
        CASE(any_number_can_have_a_schedule),
        CASE(a_schedule_may_change_what_shapes_a_program),
        CASE(a_number_set_by_hand_ends_its_schedule),
        CASE(a_schedule_may_stand_in_texts),
        CASE(wrong_schedules_are_refused),
        CASE(a_link_that_joins_later_has_what_the_groups_say),
        CASE(a_schedule_that_leaves_the_range_at_any_step_is_refused),
        CASE(a_groups_own_value_wins_over_a_schedule_for_all),
        CASE(a_schedule_for_all_that_reaches_no_group_is_refused),
        CASE(a_schedule_for_some_parameters_splits_their_groups),
        CASE(settings_and_schedules_can_be_taken_back),
        CASE(under_gradient_accumulation_schedules_and_counters_count_what_comes_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
