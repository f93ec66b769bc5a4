/* Optimizers: steps with and without an objective, what they return and count, what fails and what then is left. */
#include "gradus/layers.h"
#include "optim/optim_support.h"

/* ---- steps ---- */

static void a_step_with_an_objective_evaluates_and_moves(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.25)");
    gd_step_info info;
    OK(step(&x, &info));
    assert_values(x.p, 2, 0);
    assert_values(x.q, 0);
    assert_true(info.has_loss && info.finite && info.loss == 8.5);
    assert_int_equal(info.step, 1);
    assert_int_equal(info.evals, 1);
    assert_false(info.search_failed || info.skipped || info.terminate);
    assert_null(gd_grad_of(x.p)); /* gradients do not pile up on the parameters */
    OK(step(&x, &info));
    assert_true(info.loss == 2);
    assert_int_equal(gd_optimizer_steps(x.o), 2);
    assert_int_equal(gd_optimizer_evals(x.o), 2);
    close_problem(&x);
}

static void a_step_without_an_objective_takes_the_gradients_that_are_there(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.25)");
    gd_step_info info;
    OK(step_without(&x, &info));
    assert_values(x.p, 2, 0);
    assert_false(info.has_loss);
    assert_true(isnan(info.loss));
    assert_int_equal(info.evals, 1); /* a step counts as one evaluation */
    close_problem(&x);
}

static void a_parameter_without_a_gradient_has_zeros(void **state)
{
    problem x = open_problem(CTX(state), "weight_decay(0.5)");
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values(x.p, 1.5, -0.5);
    close_problem(&x);
}

static gd_status expect_given_loss(gd_link *link, gd_var *var)
{
    (void)link;
    assert_true(gd_var_loss_value(var, false) == 42);
    return GD_OK;
}

static void a_loss_given_to_the_step_is_not_evaluated(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.25)");
    probe.a = expect_given_loss;
    gd_tensor *loss = gd_scalar(x.ctx, GD_F64, 42);
    gd_step_info info;
    gd_optimizer_zero_grad(x.o);
    OK(gd_optimizer_step_with(x.o, NULL, &(gd_step_extra){.loss = loss}, &info));
    assert_int_equal(probe.ran_a, 1);
    assert_false(info.has_loss); /* nothing was evaluated inside */
    gd_release(loss);
    close_problem(&x);
}

static gd_status evaluate_twice(gd_link *link, gd_var *var)
{
    (void)link;
    double value;
    gd_tensor *one[2] = {gd_ones_like(gd_var_params(var)[0]), gd_ones_like(gd_var_params(var)[1])};
    gd_status status = gd_var_evaluate_at(var, &value);
    if (!status) status = gd_var_move(var, 1, one);
    if (!status) status = gd_var_evaluate_at(var, &value); /* when it fails, the parameters are elsewhere */
    return status ? status : gd_var_move(var, -1, one);
}

static void a_step_returns_its_first_evaluation(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.25)");
    probe.a = evaluate_twice;
    gd_step_info info;
    OK(step(&x, &info));
    assert_true(info.loss == 8.5);
    assert_int_equal(info.evals, 3);
    assert_values(x.p, 2, 0);
    close_problem(&x);
}

static void a_reformulated_step_returns_the_original_loss(void **state)
{
    problem x = open_problem(CTX(state), "sqrt_homotopy | lr(1)");
    gd_step_info info;
    OK(step(&x, &info));
    assert_true(info.loss == 8.5);
    double root = 1 / (2 * sqrt(8.5)); /* d sqrt(L) = dL / (2 sqrt L) */
    assert_values(x.p, 3 - 4 * root, -1 + 4 * root);
    assert_values(x.q, 0.5 - 2 * root);
    close_problem(&x);
}

static void a_single_link_is_a_chain(void **state)
{
    problem x = open_problem(CTX(state), "adam");
    OK(step(&x, NULL));
    assert_values_near(x.p, 1e-6, 2, 0); /* the first step of adam is the sign */
    close_problem(&x);
}

/* ---- parameters ---- */

static void frozen_parameters_are_skipped(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.25)");
    OK(gd_set_requires_grad(x.p, false));
    OK(step(&x, NULL));
    assert_values(x.p, 3, -1);
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(x.o), 0);
    assert_false(gd_link_has_state(adam, x.p, "exp_avg"));
    assert_true(gd_link_has_state(adam, x.q, "exp_avg"));
    OK(gd_set_requires_grad(x.p, true));
    OK(step(&x, NULL));
    assert_true(gd_link_has_state(adam, x.p, "exp_avg"));
    close_problem(&x);
}

static void all_frozen_is_a_step_that_does_nothing(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.25)");
    OK(gd_set_requires_grad(x.p, false));
    OK(gd_set_requires_grad(x.q, false));
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 0);
    assert_int_equal(gd_optimizer_steps(x.o), 1);
    close_problem(&x);
}

static gd_tensor *sum_of_all(void *user)
{
    gd_optimizer *o = user;
    gd_tensor *sum = NULL;
    for (int i = 0; i < gd_optimizer_count(o); i++) {
        gd_tensor *part = gd_sum(gd_optimizer_param(o, i), NULL, false);
        sum = sum ? gd_add(sum, part) : part;
    }
    return sum;
}

static void an_optimizer_without_parameters_says_so(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
    assert_int_equal(gd_optimizer_step(opt, NULL, NULL), GD_STATE);
    assert_error(ctx, GD_STATE, "optimizer: it has no parameters");
    assert_int_equal(gd_optimizer_steps(opt), 0);
    gd_tensor *p = VECTOR(ctx, 1, 2);
    OK(gd_optimizer_add(opt, "p", p));
    OK(gd_optimizer_step(opt, NULL, NULL));
    assert_int_equal(gd_warning_count(ctx), 1);
    assert_non_null(strstr(gd_warning_text(ctx), "wants gradients"));
    OK(gd_optimizer_step(opt, NULL, NULL));
    assert_int_equal(gd_warning_count(ctx), 1);
    gd_optimizer_free(opt);
    gd_release(p);
    end_context(ctx, NULL);
}

static gd_tensor *square_of(void *user) { return gd_sum(gd_square(user), NULL, false); }

static void a_loss_that_depends_on_no_parameter_is_refused(void **state)
{
    static const char *const chains[] = {"lr(0.1)", "adam | lr(0.1)", "lbfgs | strong_wolfe", "newton",
                                         "newton_cg_steihaug"};
    gd_ctx *ctx = CTX(state);
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        problem x = open_problem(ctx, chains[i]);
        gd_tensor *other = gd_require_grad(VECTOR(ctx, 3)), *fixed = VECTOR(ctx, 3);
        for (int leads = 0; leads < 2; leads++) {
            gd_objective objective = {.loss = square_of, .user = leads ? other : fixed};
            assert_int_equal(gd_optimizer_step(x.o, &objective, NULL), GD_GRAPH);
            assert_error(ctx, GD_GRAPH, "step: the loss does not depend on any parameter");
        }
        assert_values(x.p, 3, -1);
        assert_int_equal(gd_optimizer_steps(x.o), 0);
        gd_release(other);
        gd_release(fixed);
        close_problem(&x);
    }
}

/* Chains, and whether their steps go uphill. */
static void a_learning_rate_below_0_is_warned_about_once(void **state)
{
    static const struct {
        const char *chain;
        int warnings;
    } rows[] = {{"lr(-0.1)", 1},          {"adam | lr(-0.1)", 1}, {"negate | lr(-0.1)", 0},
                {"lr(-1) | lr(-0.1)", 0}, {"lr(0.1)", 0},         {"negate | lr(0.1)", 0}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        problem x = open_problem(ctx, rows[i].chain);
        gd_objective objective = {.loss = square_of, .user = x.p};
        int64_t made = gd_warning_count(ctx); /* two lr are worth a word of their own */
        OK(gd_optimizer_step(x.o, &objective, NULL));
        OK(gd_optimizer_step(x.o, &objective, NULL));
        assert_int_equal(gd_warning_count(ctx) - made, rows[i].warnings);
        if (rows[i].warnings) assert_non_null(strstr(gd_warning_text(ctx), "below 0"));
        close_problem(&x);
        end_context(ctx, NULL);
    }
}

static void a_first_step_without_any_gradient_is_warned_about(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    problem x = open_problem(ctx, "lr(0.1)");
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_non_null(strstr(gd_warning_text(ctx), "none of its parameters has a gradient"));
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_int_equal(gd_warning_count(ctx), 1);
    close_problem(&x);
    end_context(ctx, NULL);
}

static void parameters_come_and_go_between_steps(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "heavy_ball(momentum=1) | lr(1)");
    gd_objective sum = {.loss = sum_of_all, .user = x.o};
    OK(gd_optimizer_step(x.o, &sum, NULL)); /* first velocity: 2 (it starts at the gradient) */
    assert_values(x.p, 1, -3);
    gd_tensor *r = gd_require_grad(VECTOR(ctx, 10));
    OK(gd_optimizer_add(x.o, "r", r));
    OK(gd_optimizer_step(x.o, &sum, NULL)); /* 3, and for r the first */
    assert_values(x.p, -2, -6);
    assert_values(r, 8);
    OK(gd_optimizer_remove(x.o, "p"));
    assert_int_equal(gd_optimizer_count(x.o), 2);
    assert_string_equal(gd_optimizer_param_name(x.o, 1), "r");
    OK(gd_optimizer_step(x.o, &sum, NULL));
    assert_values(x.p, -2, -6);
    assert_values(r, 5);
    OK(gd_optimizer_add(x.o, "p", x.p)); /* back, without its state */
    OK(gd_optimizer_step(x.o, &sum, NULL));
    assert_values(x.p, -4, -8);
    assert_int_equal(gd_optimizer_remove(x.o, "nobody"), GD_ATTRIBUTE);
    assert_error(ctx, GD_ATTRIBUTE, "optimizer: there is no parameter 'nobody'");
    gd_release(r);
    close_problem(&x);
}

static void wrong_parameters_are_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    problem x = open_problem(ctx, "lr(1)");
    gd_scope_begin(ctx);
    assert_int_equal(gd_optimizer_add(x.o, "p", VECTOR(ctx, 1)), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "optimizer: there is already a parameter 'p'");
    assert_int_equal(gd_optimizer_add(x.o, "again", x.p), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "optimizer: parameter 'again' is already there under a different name");
    assert_int_equal(gd_optimizer_add(x.o, "i", INDEX(ctx, 1)), GD_DTYPE);
    assert_error(ctx, GD_DTYPE, "optimizer: parameter 'i' is i64, not floating");
    assert_int_equal(gd_optimizer_add(x.o, "r", gd_square(x.p)), GD_GRAPH);
    assert_error(ctx, GD_GRAPH, "optimizer: parameter 'r' is a result, not a leaf");
    gd_tensor *column = gd_slice(MATRIX(ctx, 2, 2, 1, 2, 3, 4), "1", 0, 1, 1);
    assert_int_equal(gd_optimizer_add(x.o, "t", gd_detach(column)), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "optimizer: parameter 't' has gaps in its memory");
    assert_int_equal(gd_optimizer_add(x.o, "n", NULL), GD_ARGUMENT);
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_count(x.o), 2);
    gd_scope_end(ctx);
    close_problem(&x);
}

static void the_parameters_of_a_module_are_named_by_their_places(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_module *mlp = gd_mlp_new(ctx, (int64_t[]){2, 3, 1}, 3, NULL);
    assert_no_error(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
    OK(gd_optimizer_add_module(o, mlp, NULL, NULL));
    assert_int_equal(gd_optimizer_count(o), 4);
    assert_non_null(strchr(gd_optimizer_param_name(o, 0), '.'));
    assert_int_equal(gd_optimizer_add_module(o, mlp, "*none*", NULL), GD_ATTRIBUTE);
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_add_module(o, mlp, NULL, "lr=1"), GD_ARGUMENT); /* they are there already */
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_groups(o), 1); /* and nothing is left of the group */
    gd_optimizer_free(o);
    gd_module_release(mlp);
}

static void half_precision_parameters_have_state_in_f32(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "heavy_ball | lr(0.5)"));
    gd_tensor *p = gd_require_grad(gd_ones(ctx, GD_BF16, 1, (int64_t[]){3}));
    gd_tensor *g = gd_full(ctx, GD_BF16, 1, (int64_t[]){3}, 0.5);
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_set_grad(p, g));
    OK(gd_optimizer_step(o, NULL, NULL));
    assert_values(p, 0.5234375, 0.5234375, 0.5234375); /* 1 - 0.5 * 0.95 rounded to eight bits */
    gd_tensor *v = gd_link_child_at(gd_optimizer_chain(o), 0)->entry[0]->slot[0];
    assert_int_equal(gd_tensor_dtype(v), GD_F32);
    gd_release(g);
    gd_optimizer_free(o);
    gd_release(p);
}

static void the_dtype_of_state_can_be_chosen_before_there_is_any(void **state)
{
    problem x = open_problem(CTX(state), "heavy_ball | lr(0.5)");
    assert_int_equal(gd_optimizer_state_dtype(x.o, GD_I32), GD_DTYPE);
    gd_clear_error(x.ctx);
    OK(gd_optimizer_state_dtype(x.o, GD_BF16));
    OK(step(&x, NULL));
    assert_int_equal(gd_tensor_dtype(gd_link_child_at(gd_optimizer_chain(x.o), 0)->entry[0]->slot[0]),
                     GD_BF16);
    assert_int_equal(gd_optimizer_state_dtype(x.o, GD_F32), GD_STATE);
    assert_error(x.ctx, GD_STATE, "optimizer: there is state already");
    gd_optimizer_reset(x.o);
    OK(gd_optimizer_state_dtype(x.o, GD_F32));
    OK(step(&x, NULL));
    close_problem(&x);
}

/* ---- what must not be ---- */

static void an_empty_chain_is_refused(void **state)
{
    gd_ctx *ctx = CTX(state);
    assert_null(gd_optimizer_new(ctx, gd_chain(ctx, "[]")));
    assert_error(ctx, GD_ARGUMENT, "optimizer: the chain is empty");
    assert_null(gd_optimizer_new(ctx, NULL));
    assert_error(ctx, GD_ARGUMENT, "optimizer: there is no chain");
    assert_null(gd_optimizer_new(ctx, gd_chain(ctx, "adm")));
    assert_error(ctx, GD_PARSE, "chain: column 1: link 'adm' unknown"); /* the first error sticks */
}

/* When the optimizer is made, where both were given, and when one name means them.  Two of which a parameter meets one are fine. */
static void several_learning_rates_are_warned_about(void **state)
{
    problem x = open_problem(CTX(state), "prodigy | lr(1)");
    assert_int_equal(gd_warning_count(x.ctx), 0);
    close_problem(&x);
    x = open_problem(CTX(state), "lr(1) | probe_a(child=[adam | lr(0.5)])");
    assert_int_equal(gd_warning_count(x.ctx), 1);
    assert_non_null(strstr(gd_warning_text(x.ctx), "2 links of the chain have a setting 'lr'"));
    OK(gd_optimizer_set(x.o, -1, "lr", 0.5));
    assert_int_equal(gd_warning_count(x.ctx), 2);
    assert_string_equal(gd_warning_text(x.ctx), "group: 2 links have a setting 'lr'; all of them get it");
    OK(gd_optimizer_schedule(x.o, -1, "lr", "linear(1, 0, 10)"));
    assert_int_equal(gd_warning_count(x.ctx), 2); /* once */
    close_problem(&x);
    problem y = open_problem(CTX(state), "split(\"axes>=2\", [adam | lr(1)], lr(2))");
    OK(gd_optimizer_set(y.o, -1, "lr", 0.5));
    assert_int_equal(gd_warning_count(y.ctx), 2);
    close_problem(&y);
}

static gd_status step_inside(gd_link *link, gd_var *var)
{
    (void)link;
    gd_optimizer *o = gd_var_optimizer(var);
    gd_ctx *ctx = gd_var_ctx(var);
    assert_int_equal(gd_optimizer_step(o, NULL, NULL), GD_STATE);
    assert_error(ctx, GD_STATE, "optimizer: a step is not possible inside a step");
    assert_int_equal(gd_optimizer_remove(o, "p"), GD_STATE);
    gd_clear_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "r", gd_zeros(ctx, GD_F64, 0, NULL)), GD_STATE);
    gd_clear_error(ctx);
    return GD_OK;
}

static void a_step_inside_a_step_is_refused(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.25)");
    probe.a = step_inside;
    OK(step(&x, NULL));
    assert_values(x.p, 2, 0);
    close_problem(&x);
}

static void an_error_that_is_there_stops_a_step(void **state)
{
    problem x = open_problem(CTX(state), "lr(0.25)");
    (void)gd_fail(x.ctx, GD_VALUE, "from before");
    assert_int_equal(step(&x, NULL), GD_VALUE);
    assert_int_equal(x.calls, 0);
    gd_clear_error(x.ctx);
    close_problem(&x);
}

/* ---- failing evaluations ---- */

static gd_tensor *failing_loss(void *user)
{
    problem *x = user;
    (void)gd_fail(x->ctx, GD_CALLBACK, "no data");
    return gd_sum(x->p, NULL, false); /* what is recorded counts, not only what is returned */
}

/* Says that it needs an objective, so that the optimizer puts back what it moved. */
static const gd_link_class mover_class = {
    .name = "mover", .step = evaluate_twice, .traits.needs_closure = true};

static void when_the_kth_evaluation_fails_the_parameters_are_as_before(void **state)
{
    static const char *const chains[] = {"adam | lr(0.1)",
                                         "multistep([adam | lr(0.1)], 3) | lr(1)",
                                         "online(adam, lr(0.1))",
                                         "sqrt_homotopy | multistep([heavy_ball | lr(0.1)], 2)",
                                         "heavy_ball | mover | lr(0.1)",
                                         "gradient_accumulation(2) | adam | lr(0.1)"};
    for (int c = 0; c < COUNT_OF(chains); c++)
        for (int k = 1; k <= 9; k++) {
            OK(gd_link_class_register(CTX(state), &mover_class));
            problem x = open_problem(CTX(state), chains[c]);
            x.fail_at = k;
            double before[3], after[3];
            gd_status status = GD_OK;
            for (int i = 0; i < 4 && !status; i++) {
                OK(gd_read_f64(x.p, before, 2));
                OK(gd_read_f64(x.q, before + 2, 1));
                int64_t steps = gd_optimizer_steps(x.o), evals = gd_optimizer_evals(x.o);
                status = step(&x, NULL);
                if (!status) continue;
                assert_int_equal(status, GD_CALLBACK);
                assert_error(x.ctx, GD_CALLBACK, "the objective returned NULL");
                OK(gd_read_f64(x.p, after, 2));
                OK(gd_read_f64(x.q, after + 2, 1));
                assert_memory_equal(before, after, sizeof before);
                assert_int_equal(gd_optimizer_steps(x.o), steps);
                assert_true(gd_optimizer_evals(x.o) >= evals);
                assert_int_equal(gd_optimizer_evals(x.o), k - 1); /* the failed one does not count */
            }
            x.fail_at = 0;
            OK(step(&x, NULL)); /* and on it goes */
            close_problem(&x);
        }
}

static void a_failed_evaluation_changes_no_state_of_element_wise_links(void **state)
{
    problem x = open_problem(CTX(state), "clip_norm(1) | adam | lr(0.1)");
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(x.o), 1);
    OK(step(&x, NULL));
    double before[2], after[2];
    OK(gd_read_f64(gd_link_state(adam, x.p, "exp_avg"), before, 2));
    x.fail_at = 2;
    assert_int_equal(step(&x, NULL), GD_CALLBACK);
    gd_clear_error(x.ctx);
    OK(gd_read_f64(gd_link_state(adam, x.p, "exp_avg"), after, 2));
    assert_memory_equal(before, after, sizeof before);
    assert_int_equal(adam->step, 1);
    close_problem(&x);
}

static void the_error_of_the_objective_is_the_error_of_the_step(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.1)");
    gd_objective objective = {.loss = failing_loss, .user = &x};
    assert_int_equal(gd_optimizer_step(x.o, &objective, NULL), GD_CALLBACK);
    assert_error(x.ctx, GD_CALLBACK, "no data");
    close_problem(&x);
}

/* ---- numbers that are not finite ---- */

static void step_with_gradient(problem *x, double first, gd_step_info *info)
{
    gd_scope_begin(x->ctx);
    OK(gd_set_grad(x->p, VECTOR(x->ctx, first, 1)));
    OK(gd_set_grad(x->q, VECTOR(x->ctx, 1)));
    gd_scope_end(x->ctx);
    OK(gd_optimizer_step(x->o, NULL, info));
}

static void a_gradient_that_is_not_finite_spoils_its_own_elements_only(void **state)
{
    const double bad[] = {NAN, INFINITY, -INFINITY};
    for (int i = 0; i < 3; i++) {
        problem x = open_problem(CTX(state), "adam | lr(0.5)");
        gd_step_info info;
        step_with_gradient(&x, bad[i], &info);
        double p[2];
        OK(gd_read_f64(x.p, p, 2));
        assert_true(!isfinite(p[0]) && fabs(p[1] + 1.5) < 1e-6);
        assert_values_near(x.q, 1e-6, 0);
        assert_true(info.finite); /* nobody looked at the gradient */
        close_problem(&x);
    }
}

static void a_norm_that_is_not_finite_is_in_the_step_info(void **state)
{
    const double bad[] = {NAN, INFINITY};
    for (int i = 0; i < 2; i++) {
        problem x = open_problem(CTX(state), "clip_norm(1) | lr(0.5)");
        gd_step_info info;
        step_with_gradient(&x, 1, &info);
        assert_true(info.finite);
        step_with_gradient(&x, bad[i], &info);
        assert_false(info.finite);
        assert_values(x.q, 0.5 - 1); /* another tensor, another norm */
        close_problem(&x);
    }
}

static gd_tensor *not_a_number(void *user)
{
    problem *x = user;
    return gd_mul_scalar(gd_sum(x->p, NULL, false), NAN);
}

static void a_loss_that_is_not_finite_is_data_not_an_error(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.5)");
    gd_step_info info;
    gd_objective objective = {.loss = not_a_number, .user = &x};
    OK(gd_optimizer_step(x.o, &objective, &info));
    assert_true(info.has_loss && isnan(info.loss) && !info.finite);
    assert_no_error(x.ctx);
    close_problem(&x);
}

/* ---- a parameter whose shape changed ---- */

static void a_parameter_of_another_shape_than_its_state_is_refused(void **state)
{
    problem x = open_problem(CTX(state), "adam | lr(0.5)");
    OK(step(&x, NULL));
    /* tensors have no public way to change shape: as a loader that replaces storage might do it */
    gd_tensor *larger = gd_ones(x.ctx, GD_F64, 1, (int64_t[]){3});
    char *data = x.p->data;
    x.p->size[0] = x.p->numel = 3;
    x.p->data = larger->data;
    gd_scope_begin(x.ctx);
    gd_tensor *g = gd_ones_like(larger);
    gd_zero_grad(x.p);
    gd__retain(g);
    gd__put_grad(x.p, g);
    gd_zero_grad(x.q);
    gd_scope_end(x.ctx);
    double q[1], after[1];
    OK(gd_read_f64(x.q, q, 1));
    assert_int_equal(gd_optimizer_step(x.o, NULL, NULL), GD_MISMATCH);
    assert_error(
        x.ctx, GD_MISMATCH,
        "adam: a parameter is f64 [3] now, its state 'exp_avg_sq' is f64 [2]; reset the optimizer or remove the "
        "parameter");
    OK(gd_read_f64(x.q, after, 1));
    assert_true(q[0] == after[0]); /* nobody moved */
    assert_values(larger, 1, 1, 1);
    gd_optimizer_reset(x.o);
    OK(gd_optimizer_step(x.o, NULL, NULL));
    assert_values_near(larger, 1e-6, 0.5, 0.5, 0.5);
    x.p->size[0] = x.p->numel = 2;
    x.p->data = data;
    gd_zero_grad(x.p);
    gd_release(larger);
    gd_optimizer_reset(x.o);
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_step_with_an_objective_evaluates_and_moves),
        CASE(a_step_without_an_objective_takes_the_gradients_that_are_there),
        CASE(a_parameter_without_a_gradient_has_zeros),
        CASE(a_loss_given_to_the_step_is_not_evaluated),
        CASE(a_step_returns_its_first_evaluation),
        CASE(a_reformulated_step_returns_the_original_loss),
        CASE(a_single_link_is_a_chain),
        CASE(frozen_parameters_are_skipped),
        CASE(all_frozen_is_a_step_that_does_nothing),
        cmocka_unit_test(an_optimizer_without_parameters_says_so),
        CASE(a_loss_that_depends_on_no_parameter_is_refused),
        cmocka_unit_test(a_learning_rate_below_0_is_warned_about_once),
        cmocka_unit_test(a_first_step_without_any_gradient_is_warned_about),
        CASE(parameters_come_and_go_between_steps),
        CASE(wrong_parameters_are_refused),
        CASE(the_parameters_of_a_module_are_named_by_their_places),
        CASE(half_precision_parameters_have_state_in_f32),
        CASE(the_dtype_of_state_can_be_chosen_before_there_is_any),
        CASE(an_empty_chain_is_refused),
        CASE(several_learning_rates_are_warned_about),
        CASE(a_step_inside_a_step_is_refused),
        CASE(an_error_that_is_there_stops_a_step),
        CASE(when_the_kth_evaluation_fails_the_parameters_are_as_before),
        CASE(a_failed_evaluation_changes_no_state_of_element_wise_links),
        CASE(the_error_of_the_objective_is_the_error_of_the_step),
        CASE(a_gradient_that_is_not_finite_spoils_its_own_elements_only),
        CASE(a_norm_that_is_not_finite_is_in_the_step_info),
        CASE(a_loss_that_is_not_finite_is_data_not_an_error),
        CASE(a_parameter_of_another_shape_than_its_state_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
