/* The variable of a step: its hooks, attributes, storage and events. */
#include "optim/optim_support.h"

static char order[8];

static gd_status hook_x(void *user, gd_optimizer *o, gd_var *var)
{
    problem *x = user;
    assert_ptr_equal(o, x->o);
    assert_int_equal(gd_var_step(var), 0);
    assert_values(x->p, 1, 1); /* after the update, before the step counts */
    assert_int_equal(gd_optimizer_steps(o), 0);
    strcat(order, "x");
    return GD_OK;
}

static gd_status hook_y(void *user, gd_optimizer *o, gd_var *var)
{
    (void)user;
    (void)o;
    (void)var;
    strcat(order, "y");
    return GD_OK;
}

static problem *hooked_problem;

static gd_status add_hooks(gd_link *link, gd_var *var)
{
    (void)link;
    OK(gd_var_after_step(var, hook_x, hooked_problem));
    return gd_var_after_step(var, hook_y, NULL);
}

static void hooks_run_after_the_update_in_their_order(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.5)");
    hooked_problem = &x;
    order[0] = 0;
    probe.a = add_hooks;
    OK(step(&x, NULL));
    assert_string_equal(order, "xy");
    probe.a = NULL;
    OK(step(&x, NULL)); /* hooks are for one step */
    assert_string_equal(order, "xy");
    close_problem(&x);
}

static gd_status failing_hook(void *user, gd_optimizer *o, gd_var *var)
{
    (void)user;
    (void)var;
    return gd_fail(gd_optimizer_ctx(o), GD_CALLBACK, "hook failed");
}

static gd_status add_failing_hook(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_after_step(var, failing_hook, NULL);
}

/* Also where a link searches: then the parameters have moved before the hooks run. */
static void a_failing_hook_leaves_the_parameters_and_is_no_step(void **state)
{
    static const char *const chains[] = {"probe_a | lr(0.5)", "probe_a | backtracking"};
    for (int i = 0; i < 2; i++) {
        problem x = open_problem(CTX(state), chains[i]);
        double before[2];
        OK(gd_read_f64(x.p, before, 2));
        probe.a = add_failing_hook;
        assert_int_equal(step(&x, NULL), GD_CALLBACK);
        assert_error(x.ctx, GD_CALLBACK, "hook failed");
        assert_values(x.p, before[0], before[1]);
        assert_int_equal(gd_optimizer_steps(x.o), 0);
        probe.a = NULL;
        OK(step(&x, NULL)); /* and goes on */
        assert_int_equal(gd_optimizer_steps(x.o), 1);
        close_problem(&x);
    }
}

static gd_status set_attributes(gd_link *link, gd_var *var)
{
    (void)link;
    OK(gd_var_set_attr(var, "best", gd_var_loss_value(var, true)));
    return gd_var_set_attr_tensor(var, "copy", gd_copy(gd_var_params(var)[0]));
}

static void attributes_stay_with_the_optimizer(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.5)");
    probe.a = set_attributes;
    assert_true(gd_optimizer_attr(x.o, "best", -1) == -1);
    assert_null(gd_optimizer_attr_tensor(x.o, "copy"));
    OK(step(&x, NULL));
    probe.a = NULL;
    OK(step(&x, NULL));
    assert_true(gd_optimizer_attr(x.o, "best", -1) == 8.5);
    assert_values(gd_optimizer_attr_tensor(x.o, "copy"), 3, -1);
    close_problem(&x);
}

static gd_status read_storage(gd_link *link, gd_var *var)
{
    (void)link;
    assert_true(gd_var_storage(var, "temperature", 0) == 0.5);
    assert_true(gd_var_storage(var, "nothing", -1) == -1);
    return GD_OK;
}

static void numbers_given_to_the_step_are_in_storage(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = read_storage;
    gd_objective objective = {.loss = problem_loss, .user = &x};
    gd_step_extra extra = {
        .names = (const char *const[]){"temperature"}, .values = (double[]){0.5}, .count = 1};
    OK(gd_optimizer_step_with(x.o, &objective, &extra, NULL));
    assert_int_equal(probe.ran_a, 1);
    close_problem(&x);
}

static gd_status note_events(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_note_failed_search(var);
    gd_var_note_skipped(var);
    return GD_OK;
}

static void events_are_in_the_step_info(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_step_info info;
    OK(step(&x, &info));
    assert_false(info.search_failed || info.skipped);
    probe.a = note_events;
    OK(step(&x, &info));
    assert_true(info.search_failed && info.skipped);
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(hooks_run_after_the_update_in_their_order),
        CASE(a_failing_hook_leaves_the_parameters_and_is_no_step),
        CASE(attributes_stay_with_the_optimizer),
        CASE(numbers_given_to_the_step_are_in_storage),
        CASE(events_are_in_the_step_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
