/* The variable of a step: what it computes when, what clones copy, and its flags. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

/* ---- lazy loss, gradient and update ---- */

static gd_status ask_loss_twice(gd_link *link, gd_var *var)
{
    (void)link;
    assert_false(gd_var_has_loss(var));
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 0);
    assert_true(gd_var_loss_value(var, false) == 8.5);
    assert_true(gd_var_has_loss(var));
    assert_false(gd_var_has_grad(var));
    assert_true(gd_var_loss_value(var, false) == 8.5);
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 1);
    gd_var_skip_update(var);
    return GD_OK;
}

static void the_loss_is_computed_when_first_asked_for(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_loss_twice;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 1);
    close_problem(&x);
}

static gd_status ask_gradient(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *g = gd_var_grad(var);
    assert_non_null(g);
    assert_values(g[0], 4, -4);
    assert_values(g[1], 2);
    assert_true(gd_var_has_loss(var));
    assert_true(gd_var_loss_value(var, true) == 8.5);
    assert_ptr_equal(gd_var_grad(var), g);
    gd_var_skip_update(var);
    return GD_OK;
}

static void the_gradient_brings_the_loss_in_one_evaluation(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_gradient;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 1);
    assert_int_equal(gd_warning_count(x.ctx), 0);
    close_problem(&x);
}

static gd_status ask_loss_then_gradient(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_loss(var, false);
    gd_var_grad(var);
    gd_var_skip_update(var);
    return GD_OK;
}

static void loss_and_then_gradient_evaluates_twice_and_warns(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_loss_then_gradient;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 2);
    assert_int_equal(gd_warning_count(x.ctx), 1);
    assert_string_equal(
        gd_warning_text(x.ctx),
        "the objective was evaluated without and then with its gradient; once would have served");
    close_problem(&x);
}

static void a_hint_is_given_once_an_optimizer(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_loss_then_gradient;
    for (int i = 0; i < 3; i++) OK(step(&x, NULL));
    assert_int_equal(gd_warning_count(x.ctx), 1);
    close_problem(&x);
}

static gd_tensor *some_residuals(void *user) { return gd_exp(user); }

/* newton asks for the gradient with its history, after whatever the link before it asked for. */
static void hints_before_newton(const gd_link_class *cls, const char *text)
{
    (void)cls;
    char chain[500];
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 1, 0.5));
    snprintf(chain, sizeof chain, "%s | newton | lr(0.1)", text);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    int64_t before = gd_warning_count(ctx); /* of settings that several links have */
    gd_status status = gd_optimizer_add(o, "p", p);
    for (int i = 0; i < 4 && !status; i++)
        status = gd_optimizer_step(o, &(gd_objective){.loss = some_residuals, .user = p}, NULL);
    if (gd_warning_count(ctx) > before + 2)
        fail_msg("%s: %lld hints in 4 steps", chain, (long long)gd_warning_count(ctx));
    gd_optimizer_free(o);
    gd_release(p);
    end_context(ctx, NULL);
}

static void no_link_of_the_table_repeats_its_hints(void **state)
{
    (void)state;
    each_link_text(hints_before_newton);
}

static gd_status ask_history_late(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_grad(var);
    gd_tensor *const *g = gd_var_grad_graph(var);
    assert_true(gd_requires_grad(g[0]));
    assert_ptr_equal(gd_var_grad_graph(var), g);
    gd_var_skip_update(var);
    return GD_OK;
}

static void asking_for_the_history_of_a_gradient_late_warns(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_history_late;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 2);
    assert_int_equal(gd_warning_count(x.ctx), 1);
    close_problem(&x);
}

static gd_status ask_update(gd_link *link, gd_var *var)
{
    (void)link;
    assert_false(gd_var_has_update(var));
    gd_tensor *const *u = gd_var_update(var);
    assert_values(u[0], 4, -4);
    assert_true(gd_var_has_update(var) && gd_var_has_grad(var) && gd_var_has_loss(var));
    return GD_OK;
}

static void the_update_starts_as_the_gradient_and_is_subtracted(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_update;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 1);
    assert_values(x.p, -1, 3);
    assert_values(x.q, -1.5);
    close_problem(&x);
}

static gd_status expect_waiting_update(gd_link *link, gd_var *var)
{
    (void)link;
    assert_true(gd_var_has_update(var)); /* lr waits */
    assert_false(gd_var_has_grad(var));
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 0);
    assert_values(gd_var_update(var)[0], 0.4, -0.4);
    assert_values(gd_var_grad(var)[0], 4, -4);
    return GD_OK;
}

static void element_wise_links_wait_until_somebody_needs_numbers(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.1) | probe_a");
    probe.a = expect_waiting_update;
    OK(step(&x, NULL));
    assert_values(x.p, 2.6, -0.6);
    close_problem(&x);
}

static gd_status replace_gradient(gd_link *link, gd_var *var)
{
    gd_tensor **twos = gd_link_scratch(link, 2);
    for (int i = 0; i < 2; i++) twos[i] = gd_full_like(gd_var_params(var)[i], 2);
    return gd_var_set_grad(var, twos);
}

static void a_new_gradient_is_the_update_of_nobody_who_waited(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.1) | probe_a");
    probe.a = replace_gradient;
    OK(step(&x, NULL));
    assert_values(x.p, 2.6, -0.6); /* lr had the old gradient */
    close_problem(&x);
    problem y = open_problem(CTX(state), "probe_a | lr(0.1)");
    probe.a = replace_gradient;
    OK(step(&y, NULL));
    assert_values(y.p, 2.8, -1.2); /* and here the new one */
    close_problem(&y);
}

static gd_status forget_everything(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_grad(var);
    gd_var_set_loss(var, NULL);
    OK(gd_var_set_grad(var, NULL));
    OK(gd_var_set_update(var, NULL));
    assert_false(gd_var_has_loss(var) || gd_var_has_grad(var) || gd_var_has_update(var));
    return GD_OK;
}

static void what_is_forgotten_is_computed_again(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.5)");
    probe.a = forget_everything;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 2);
    assert_values(x.p, 1, 1);
    close_problem(&x);
}

static gd_status set_wrong_shape(gd_link *link, gd_var *var)
{
    gd_tensor **wrong = gd_link_scratch(link, 2);
    for (int i = 0; i < 2; i++) wrong[i] = gd_zeros(gd_var_ctx(var), GD_F64, 1, (int64_t[]){5});
    return gd_var_set_update(var, wrong);
}

static void an_update_of_another_shape_is_refused(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = set_wrong_shape;
    assert_int_equal(step(&x, NULL), GD_SHAPE);
    assert_error(x.ctx, GD_SHAPE, "update: tensor 0 is [5], its parameter [2]");
    assert_values(x.p, 3, -1);
    close_problem(&x);
}

static gd_status want_loss(gd_link *link, gd_var *var)
{
    (void)link;
    assert_false(gd_var_has_closure(var));
    assert_values(gd_var_grad(var)[0], 4, -4);
    return gd_var_loss(var, false) ? GD_OK : gd_error(gd_var_ctx(var));
}

static void without_an_objective_there_are_gradients_but_no_loss(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = want_loss;
    assert_int_equal(step_without(&x, NULL), GD_STATE);
    assert_error(x.ctx, GD_STATE, "loss: the step was called without an objective");
    close_problem(&x);
}

/* ---- evaluating elsewhere ---- */

static gd_status look_around(gd_link *link, gd_var *var)
{
    gd_tensor **start = gd_link_scratch(link, 2), **direction = gd_link_scratch(link, 2), *loss = NULL;
    gd_tensor **grads = gd_link_scratch(link, 2);
    double value;
    OK(gd_var_save_params(var, start));
    for (int i = 0; i < 2; i++) direction[i] = gd_ones_like(gd_var_params(var)[i]);
    OK(gd_var_move(var, -2, direction));
    OK(gd_var_evaluate_at(var, &value)); /* p = (1, -3), q = -1.5 */
    assert_true(value == 20.5);
    OK(gd_var_evaluate(var, &loss, grads));
    assert_true(gd_item(loss) == 20.5);
    assert_values(grads[0], 0, -8);
    OK(gd_var_restore_params(var, start));
    assert_values(gd_var_params(var)[0], 3, -1);
    assert_false(gd_var_has_loss(var) || gd_var_has_grad(var));
    gd_release(loss);
    for (int i = 0; i < 2; i++) {
        gd_release(grads[i]);
        gd_release(start[i]);
    }
    gd_var_skip_update(var);
    return GD_OK;
}

static void evaluating_elsewhere_leaves_the_memory_of_the_step_alone(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = look_around;
    OK(step(&x, NULL));
    assert_int_equal(gd_optimizer_evals(x.o), 2);
    close_problem(&x);
}

/* The graph of the gradient outlives a look elsewhere: the second derivatives come from it, without another evaluation. */
static gd_status look_and_differentiate(gd_link *link, gd_var *var)
{
    gd_tensor **direction = gd_link_scratch(link, 2), **grads = gd_link_scratch(link, 2),
              **product = gd_link_scratch(link, 2);
    double value = 0;
    gd_tensor *const *graph = gd_var_grad_graph(var);
    assert_non_null(graph);
    for (int i = 0; i < 2; i++) direction[i] = gd_ones_like(gd_var_params(var)[i]);
    OK(gd_var_evaluate_moved(var, -2, direction, &value, grads)); /* p = (1, -3), q = -1.5 */
    assert_true(value == 20.5);
    assert_values(grads[0], 0, -8);
    assert_values(gd_var_params(var)[0], 3, -1);
    for (int i = 0; i < 2; i++) gd_release(grads[i]);
    assert_ptr_equal(gd_var_grad_graph(var), graph);
    int previous = gd_enable_grad_begin(gd_var_ctx(var));
    OK(gd_grad(gd_sum(graph[0], NULL, false), NULL, gd_var_params(var), 1, 0, product));
    gd_enable_grad_end(gd_var_ctx(var), previous);
    assert_values(product[0], 2, 2);
    gd_var_skip_update(var);
    return GD_OK;
}

static void graphs_outlive_a_look_elsewhere(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = look_and_differentiate;
    OK(step(&x, NULL));
    assert_int_equal(gd_optimizer_evals(x.o), 2);
    close_problem(&x);
}

static gd_status look_and_fail(gd_link *link, gd_var *var)
{
    gd_tensor **direction = gd_link_scratch(link, 2);
    double value = 0;
    for (int i = 0; i < 2; i++) direction[i] = gd_ones_like(gd_var_params(var)[i]);
    return gd_var_evaluate_moved(var, 1, direction, &value, NULL);
}

static void a_look_elsewhere_that_fails_leaves_the_parameters(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = look_and_fail;
    x.fail_at = 1;
    assert_int_not_equal(step(&x, NULL), GD_OK);
    assert_values(x.p, 3, -1);
    gd_clear_error(x.ctx);
    close_problem(&x);
}

/* ---- clones ---- */

static gd_status do_nothing_after(void *user, gd_optimizer *o, gd_var *var)
{
    (void)o;
    (void)var;
    ++*(int *)user;
    return GD_OK;
}

static int hooked;

static gd_status compare_clone(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *u = gd_var_read_update(var);
    gd_var_set_loss_approx(var, gd_scalar(gd_var_ctx(var), GD_F64, 9));
    OK(gd_var_set_attr(var, "seen", 1));
    gd_var_skip_update(var);
    gd_var_terminate(var, true);
    gd_var *clone = gd_var_clone(var, false, NULL);
    /* copied: parameters, closure, step, loss, gradient, approximate loss, update, flags of control, attrs, storage */
    assert_ptr_equal(gd_var_params(clone), gd_var_params(var));
    assert_int_equal(gd_var_count(clone), 2);
    assert_int_equal(gd_var_step(clone), gd_var_step(var));
    assert_ptr_equal(gd_var_optimizer(clone), gd_var_optimizer(var));
    assert_true(gd_var_has_closure(clone) && gd_var_has_loss(clone) && gd_var_has_grad(clone));
    assert_ptr_equal(gd_var_loss(clone, true), gd_var_loss(var, true));
    assert_ptr_equal(gd_var_loss_approx(clone), gd_var_loss_approx(var));
    assert_ptr_equal(gd_var_grad(clone)[0], gd_var_grad(var)[0]);
    assert_ptr_equal(gd_var_read_update(clone)[0], u[0]);
    assert_true(clone->skip && clone->terminate == 1 && clone->share == var->share);
    assert_true(gd_var_storage(clone, "given", 0) == 5);
    /* reset: what says that a link is the last */
    assert_true(gd_var_is_last(var));
    assert_non_null(gd_var_last_lrs(var));
    assert_false(gd_var_is_last(clone) || gd_var_nested_is_last(clone));
    assert_null(gd_var_last_lrs(clone));
    assert_null(gd_var_parent(clone));
    /* hooks are shared: added through the clone, they run */
    OK(gd_var_after_step(clone, do_nothing_after, &hooked));
    gd_var_free(clone);
    return GD_OK;
}

static void a_clone_shares_everything_but_being_last(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.1)");
    probe.a = compare_clone;
    hooked = 0;
    gd_objective objective = {.loss = problem_loss, .user = &x};
    gd_step_extra extra = {.names = (const char *const[]){"given"}, .values = (double[]){5}, .count = 1};
    OK(gd_optimizer_step_with(x.o, &objective, &extra, NULL));
    assert_int_equal(hooked, 1);
    assert_true(gd_optimizer_attr(x.o, "seen", 0) == 1);
    assert_values(x.p, 3, -1);
    close_problem(&x);
}

static gd_status clone_with_update(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *u = gd_var_update(var);
    gd_var *clone = gd_var_clone(var, true, var);
    assert_ptr_equal(gd_var_parent(clone), var);
    assert_ptr_not_equal(gd_var_update(clone)[0], u[0]);
    OK(gd_fill(gd_var_update(clone)[0], 77));
    assert_values(u[0], 4, -4);
    gd_var_free(clone);
    return GD_OK;
}

static void a_clone_with_its_update_has_a_copy(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = clone_with_update;
    OK(step(&x, NULL));
    close_problem(&x);
}

static gd_status evaluate_in_child(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var *child = gd_var_clone(var, false, var);
    gd_var_grad(child);
    assert_true(gd_var_has_loss(var) && gd_var_has_grad(var));
    assert_ptr_equal(gd_var_grad(var)[0], gd_var_grad(child)[0]);
    gd_var_free(child);
    gd_var_skip_update(var);
    return GD_OK;
}

static void what_a_child_evaluates_its_parent_knows(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = evaluate_in_child;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 1);
    close_problem(&x);
}

/* A view on the parameters: p and q as one vector z, whose closure evaluates the parent and gives it its gradient. */
typedef struct view {
    gd_tensor *z;
    bool tell;
} view;

static gd_status view_closure(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    const view *v = user;
    gd_var *parent = gd_var_parent(var);
    gd_tensor *const *params = gd_var_params(parent), *below[2] = {NULL, NULL};
    OK(gd_assign(params[0], gd_slice(v->z, "0", 0, 2, 1)));
    OK(gd_assign(params[1], gd_slice(v->z, "0", 2, 3, 1)));
    gd_status status = gd_var_evaluate(parent, loss, backward ? below : NULL);
    if (status || !backward) return status;
    if (v->tell) OK(gd_var_set_grad(parent, below));
    grads[0] = gd_cat(below, 2, "0");
    return GD_OK;
}

static view the_view;

static gd_status through_a_view(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *params = gd_var_params(var);
    the_view.z = gd_cat(params, 2, "0");
    gd_var *child = gd_var_clone(var, false, var);
    gd_var_set_params(child, &the_view.z, 1);
    OK(gd_var_wrap_closure(child, view_closure, &the_view));
    gd_tensor *const *g = gd_var_grad(child);
    assert_int_equal(gd_var_count(child), 1);
    assert_values(g[0], 4, -4, 2);
    assert_true(gd_var_has_loss(var));
    assert_int_equal(gd_var_has_grad(var), the_view.tell);
    gd_var_free(child);
    gd_var_skip_update(var);
    return GD_OK;
}

static void a_view_on_the_parameters_gives_its_parent_loss_and_gradient(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = through_a_view;
    the_view = (view){.tell = true};
    OK(step(&x, NULL));
    assert_int_equal(gd_warning_count(x.ctx), 0);
    the_view = (view){.tell = false};
    OK(step(&x, NULL));
    assert_string_equal(gd_warning_text(x.ctx), "the parent has no gradient after its child's was computed");
    close_problem(&x);
}

static gd_status take_over(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var *clone = gd_var_clone(var, false, NULL);
    gd_var_grad(clone);
    gd_var_terminate(clone, true);
    gd_var_take_from(var, clone);
    assert_ptr_equal(gd_var_loss(var, false), gd_var_loss(clone, false));
    assert_ptr_equal(gd_var_loss_approx(var), gd_var_loss_approx(clone));
    assert_ptr_equal(gd_var_grad(var)[1], gd_var_grad(clone)[1]);
    /* what is there stays */
    gd_var_set_loss(clone, gd_scalar(gd_var_ctx(var), GD_F64, 1));
    gd_var_take_from(var, clone);
    assert_true(gd_var_loss_value(var, false) == 8.5);
    gd_var_free(clone);
    return GD_OK;
}

static void loss_gradient_and_termination_are_taken_over_from_a_clone(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = take_over;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 1);
    assert_true(gd_optimizer_should_terminate(x.o));
    close_problem(&x);
}

static gd_status approximate(gd_link *link, gd_var *var)
{
    (void)link;
    assert_null(gd_var_loss_approx(var));
    gd_var_set_loss_approx(var, gd_scalar(gd_var_ctx(var), GD_F64, 8));
    assert_false(gd_var_has_loss(var));
    assert_true(gd_item(gd_var_loss_approx(var)) == 8);
    gd_tensor *loss = gd_var_loss(var, false);
    assert_ptr_equal(gd_var_loss_approx(var), loss); /* an evaluation sets both */
    gd_var_skip_update(var);
    return GD_OK;
}

static void the_approximate_loss_is_apart_from_the_loss(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = approximate;
    OK(step(&x, NULL));
    close_problem(&x);
}

/* ---- flags ---- */

static gd_status stop(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_stop(var);
    return GD_OK;
}

static void stop_skips_the_links_after(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.5) | probe_a | lr(100) | probe_b");
    probe.a = stop;
    OK(step(&x, NULL));
    assert_int_equal(probe.ran_b, 0);
    assert_values(x.p, 1, 1); /* the update so far is applied */
    assert_int_equal(gd_optimizer_steps(x.o), 1);
    close_problem(&x);
}

static gd_status run_child(gd_link *link, gd_var *var)
{
    return gd_link_step(gd_link_child(link, "child"), var);
}

static void stop_in_a_nested_chain_ends_only_that_chain(void **state)
{
    problem x = open_problem(CTX(state), "probe_a(child=[probe_b | lr(100)]) | probe_c | lr(0.5)");
    probe.a = run_child;
    probe.b = stop;
    OK(step(&x, NULL));
    assert_int_equal(probe.ran_c, 1);
    assert_values(x.p, 1, 1);
    close_problem(&x);
}

static gd_status skip_it(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var_skip_update(var);
    return GD_OK;
}

static void skip_update_leaves_the_parameters(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | heavy_ball | lr(0.5)");
    probe.a = skip_it;
    OK(step(&x, NULL));
    assert_values(x.p, 3, -1);
    assert_int_equal(gd_optimizer_steps(x.o), 1);
    /* rules that waited still count: the velocity is there */
    gd_link *momentum = gd_link_child_at(gd_optimizer_chain(x.o), 1);
    assert_true(gd_link_has_state(momentum, x.p, "velocity"));
    close_problem(&x);
}

static gd_status terminate(gd_link *link, gd_var *var)
{
    int64_t n = gd_var_step(var);
    (void)link;
    if (n == 1) gd_var_terminate(var, true);
    if (n == 3) gd_var_terminate(var, false);
    return GD_OK;
}

static void should_terminate_is_what_was_said_last(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.1)");
    probe.a = terminate;
    const bool want[] = {false, true, true, false};
    for (int i = 0; i < 4; i++) {
        gd_step_info info;
        OK(step(&x, &info));
        assert_int_equal(gd_optimizer_should_terminate(x.o), want[i]);
        assert_int_equal(info.terminate, want[i]);
    }
    close_problem(&x);
}

/* What the flags were when a probe ran. */
typedef struct flags {
    bool last, nested;
    double lr; /* of p; NaN: none */
} flags;

static flags seen[3];

static flags flags_of(const gd_var *var)
{
    const double *lrs = gd_var_last_lrs(var);
    return (flags){gd_var_is_last(var), gd_var_nested_is_last(var), lrs ? lrs[0] : NAN};
}

static gd_status see_a(gd_link *link, gd_var *var)
{
    seen[0] = flags_of(var);
    gd_link *child = gd_link_child(link, "child");
    return child ? gd_link_step(child, var) : GD_OK;
}

static gd_status see_b(gd_link *link, gd_var *var)
{
    (void)link;
    seen[1] = flags_of(var);
    return GD_OK;
}

static gd_status see_c(gd_link *link, gd_var *var)
{
    (void)link;
    seen[2] = flags_of(var);
    return GD_OK;
}

static problem see_flags(gd_ctx *ctx, const char *chain)
{
    problem x = open_problem(ctx, chain);
    probe = (probes){.a = see_a, .b = see_b, .c = see_c};
    memset(seen, 0, sizeof seen);
    OK(step(&x, NULL));
    return x;
}

static void the_last_link_knows_that_it_is(void **state)
{
    problem x = see_flags(CTX(state), "probe_a | probe_b | probe_c");
    assert_false(seen[0].last || seen[1].last);
    assert_true(seen[2].last && !seen[2].nested && isnan(seen[2].lr));
    close_problem(&x);
}

static void the_link_before_a_final_learning_rate_is_last_and_knows_the_rates(void **state)
{
    problem x = see_flags(CTX(state), "probe_a | probe_b | lr(0.25)");
    assert_false(seen[0].last);
    assert_true(seen[1].last && seen[1].lr == 0.25);
    close_problem(&x);
}

static void learning_rates_of_groups_reach_the_last_link(void **state)
{
    problem x = open_problem(CTX(state), "probe_b | lr(0.25)");
    probe.b = see_b;
    OK(gd_optimizer_regroup(x.o, "p", "lr=0.75"));
    OK(step(&x, NULL));
    assert_true(seen[1].lr == 0.75);
    close_problem(&x);
}

static void a_last_link_with_children_is_nested_last_and_its_children_see_it(void **state)
{
    problem x = see_flags(CTX(state), "probe_c | probe_a(child=probe_b)");
    assert_false(seen[2].last || seen[2].nested);
    assert_true(!seen[0].last && seen[0].nested);
    assert_true(!seen[1].last && seen[1].nested); /* the same var: nobody cloned it */
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_loss_is_computed_when_first_asked_for),
        CASE(the_gradient_brings_the_loss_in_one_evaluation),
        CASE(loss_and_then_gradient_evaluates_twice_and_warns),
        CASE(a_hint_is_given_once_an_optimizer),
        cmocka_unit_test(no_link_of_the_table_repeats_its_hints),
        CASE(asking_for_the_history_of_a_gradient_late_warns),
        CASE(the_update_starts_as_the_gradient_and_is_subtracted),
        CASE(element_wise_links_wait_until_somebody_needs_numbers),
        CASE(a_new_gradient_is_the_update_of_nobody_who_waited),
        CASE(what_is_forgotten_is_computed_again),
        CASE(an_update_of_another_shape_is_refused),
        CASE(without_an_objective_there_are_gradients_but_no_loss),
        CASE(evaluating_elsewhere_leaves_the_memory_of_the_step_alone),
        CASE(graphs_outlive_a_look_elsewhere),
        CASE(a_look_elsewhere_that_fails_leaves_the_parameters),
        CASE(a_clone_shares_everything_but_being_last),
        CASE(a_clone_with_its_update_has_a_copy),
        CASE(what_a_child_evaluates_its_parent_knows),
        CASE(a_view_on_the_parameters_gives_its_parent_loss_and_gradient),
        CASE(loss_gradient_and_termination_are_taken_over_from_a_clone),
        CASE(the_approximate_loss_is_apart_from_the_loss),
        CASE(stop_skips_the_links_after),
        CASE(stop_in_a_nested_chain_ends_only_that_chain),
        CASE(skip_update_leaves_the_parameters),
        CASE(should_terminate_is_what_was_said_last),
        CASE(the_last_link_knows_that_it_is),
        CASE(the_link_before_a_final_learning_rate_is_last_and_knows_the_rates),
        CASE(learning_rates_of_groups_reach_the_last_link),
        CASE(a_last_link_with_children_is_nested_last_and_its_children_see_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
