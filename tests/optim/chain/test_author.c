/* What authors of links rely on: tensors they may write into, what a rule reads, storage, the model, random numbers. */
#include "optim/optim_support.h"

/* ---- the update may be changed in place ---- */

static gd_status negate(gd_tensor *t) { return gd_assign(t, gd_neg(t)); }

static gd_status flip_step(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *u = gd_var_update(var);
    gd_status status = u ? GD_OK : gd_error(gd_var_ctx(var));
    for (int i = 0; i < gd_var_count(var) && !status; i++) status = negate(u[i]);
    return status;
}

static gd_status flip_tensors(const gd_transform *t)
{
    gd_status status = GD_OK;
    for (int i = 0; i < t->count && !status; i++) status = negate(t->tensors[i]);
    return status;
}

static const gd_field flip_fields[] = {GD_TARGET};
static const gd_link_class flip_class = {.name = "flip", .step = flip_step};
static const gd_link_class flip_all_class = {
    .name = "flip_all", GD_FIELDS(flip_fields), .apply_tensors = flip_tensors};
static const gd_link_class flip_vector_class = {
    .name = "flip_vector", .apply_tensors = flip_tensors, .traits.concat_params = true};

static void register_flips(gd_ctx *ctx)
{
    OK(gd_link_class_register(ctx, &flip_class));
    OK(gd_link_class_register(ctx, &flip_all_class));
    OK(gd_link_class_register(ctx, &flip_vector_class));
}

/* p = (3, -1) has the gradient (4, -4). */
static void a_link_that_writes_into_the_update_leaves_the_gradient(void **state)
{
    static const char *const chains[] = {"flip | lr(0.5)", "flip_all | lr(0.5)", "flip_vector | lr(0.5)",
                                         "clip_norm(100, dim=0) | flip | lr(0.5)", "lr(1) | flip | lr(0.5)"};
    register_flips(CTX(state));
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem x = open_problem(CTX(state), chains[i]);
        OK(step_without(&x, NULL));
        assert_values(gd_grad_of(x.p), 4, -4);
        assert_values(x.p, 5, -3);
        close_problem(&x);
    }
}

/* Turned round, no element agrees with the gradient: cautious lets nothing through. */
static void cautious_compares_with_the_gradient_after_a_write_in_place(void **state)
{
    static const char *const chains[] = {"flip | cautious(normalize=false)",
                                         "flip_all | cautious(normalize=false)",
                                         "flip_vector | cautious(normalize=false)"};
    register_flips(CTX(state));
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem x = open_problem(CTX(state), chains[i]);
        OK(step(&x, NULL));
        assert_values(x.p, 3, -1);
        close_problem(&x);
    }
}

/* A writer must not reach a clone's update, a parameter or the state of the link before it. */
static gd_status lend_state(gd_link *link, gd_var *var)
{
    gd_tensor **mine = gd_link_scratch(link, gd_var_count(var));
    for (int i = 0; i < gd_var_count(var); i++) mine[i] = gd_link_state(link, gd_var_params(var)[i], "kept");
    return gd_var_set_update(var, mine);
}

static void a_write_in_place_reaches_no_state_and_no_clone(void **state)
{
    register_flips(CTX(state));
    problem x = open_problem(CTX(state), "probe_a | flip");
    gd_link *lender = gd_link_child_at(gd_optimizer_chain(x.o), 0);
    gd_scope_begin(x.ctx);
    OK(gd_link_set_state(lender, x.p, "kept", VECTOR(x.ctx, 1, 2)));
    gd_scope_end(x.ctx);
    probe.a = lend_state;
    OK(step(&x, NULL));
    assert_values(gd_link_state(lender, x.p, "kept"), 1, 2);
    assert_values(x.p, 4, 1);
    close_problem(&x);
}

static gd_status look_at_copies(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *const *read = gd_var_read_update(var), *const *grad = gd_var_grad(var);
    assert_ptr_equal(read[0], grad[0]); /* who only reads gets no copy */
    gd_tensor *own = gd_var_update(var)[0];
    assert_ptr_not_equal(own, grad[0]);
    assert_ptr_equal(gd_var_update(var)[0], own); /* once is enough */
    assert_ptr_equal(gd_var_read_update(var)[0], own);
    gd_var *clone = gd_var_clone(var, false, NULL);
    assert_ptr_equal(gd_var_read_update(clone)[0], own);
    OK(negate(gd_var_update(clone)[0]));
    assert_values(own, 4, -4);
    gd_var_free(clone);
    return GD_OK;
}

static void only_what_somebody_else_holds_is_copied(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = look_at_copies;
    OK(step(&x, NULL));
    close_problem(&x);
}

/* ---- what a rule reads is seen by itself ---- */

static gd_value add_grad(gd_rule *r, gd_value u) { return gd_rule_add(r, u, gd_rule_grad(r)); }

static gd_value times_loss(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_loss(r)); }

static gd_value grad_after_child(gd_rule *r, gd_value u)
{
    u = gd_rule_child(r, "child", u);
    return gd_rule_add(r, u, gd_rule_grad(r));
}

static const gd_field target_field[] = {GD_TARGET};
static const gd_field child_field[] = {GD_CHILD_NEEDED("child", "goes first")};
static const gd_link_class add_grad_class = {.name = "add_grad", GD_FIELDS(target_field), .rule = add_grad};
static const gd_link_class times_loss_class = {
    .name = "times_loss", GD_FIELDS(target_field), .rule = times_loss};
static const gd_link_class grad_after_class = {
    .name = "grad_after", GD_FIELDS(child_field), .rule = grad_after_child};

/* u = 4 for p0 = 3; the loss is 8.5. */
static void a_rule_may_read_gradient_and_loss_without_saying_so(void **state)
{
    static const struct {
        const char *chain;
        double p0;
    } cases[] = {{"lr(0.5) | add_grad", 3 - (0.5 * 4 + 4)},
                 {"add_grad", 3 - 2 * 4},
                 {"lr(0.1) | times_loss", 3 - 0.4 * 8.5},
                 {"lr(0.5) | add_grad | times_loss", 3 - 6 * 8.5},
                 {"lr(0.5) | add_grad(\"update_difference\")", 3 + 4},
                 {"lr(0.1) | times_loss(\"update_difference\")", 3 - (0.4 - 0.4 * 8.5)},
                 {"lr(0.5) | grad_after(probe_a)", 3 - (0.5 * 4 + 4)}};
    gd_ctx *ctx = CTX(state);
    OK(gd_link_class_register(ctx, &add_grad_class));
    OK(gd_link_class_register(ctx, &times_loss_class));
    OK(gd_link_class_register(ctx, &grad_after_class));
    for (int i = 0; i < COUNT_OF(cases); i++) {
        problem x = open_problem(ctx, cases[i].chain);
        char text[2048];
        assert_true(gd_explain(x.o, false, text, sizeof text) > 0);
        OK(step(&x, NULL));
        assert_no_error(ctx);
        double p[2];
        OK(gd_read_f64(x.p, p, 2));
        assert_true(fabs(p[0] - cases[i].p0) < 1e-12);
        assert_true(probe.ran_a <= 1); /* finding out runs no child twice */
        close_problem(&x);
    }
}

/* ---- products with the Hessian ---- */

static gd_status ask_unknown_method(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *out[2];
    assert_int_equal(gd_var_hvp(var, (gd_hvp_method)7, 1e-3, false, gd_var_grad(var), out), GD_ARGUMENT);
    assert_error(gd_var_ctx(var), GD_ARGUMENT, "a Hessian-vector product: there is no method 7");
    gd_clear_error(gd_var_ctx(var));
    return GD_OK;
}

static void an_unknown_method_of_products_is_an_error(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_unknown_method;
    OK(step(&x, NULL));
    close_problem(&x);
}

/* ---- storage, model, gradients, random numbers ---- */

static gd_status put_storage(gd_link *link, gd_var *var)
{
    (void)link;
    gd_var *clone = gd_var_clone(var, false, NULL);
    assert_true(gd_var_storage(var, "given", 0) == 5);
    OK(gd_var_set_storage(clone, "given", 6));
    OK(gd_var_set_storage(var, "mine", 7));
    OK(gd_var_set_storage_tensor(clone, "vector", VECTOR(gd_var_ctx(var), 1, 2)));
    gd_var_free(clone);
    return GD_OK;
}

static gd_status read_storage(gd_link *link, gd_var *var)
{
    (void)link;
    bool first = gd_var_step(var) == 0;
    assert_true(gd_var_storage(var, "given", 0) == (first ? 6 : 0));
    assert_true(gd_var_storage(var, "mine", 0) == (first ? 7 : 0));
    if (first)
        assert_values(gd_var_storage_tensor(var, "vector"), 1, 2);
    else
        assert_null(gd_var_storage_tensor(var, "vector"));
    return GD_OK;
}

static void what_a_link_stores_later_ones_read_until_the_step_ends(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | probe_b");
    probe.a = put_storage;
    probe.b = read_storage;
    gd_objective objective = {.loss = problem_loss, .user = &x};
    gd_step_extra extra = {.names = (const char *const[]){"given"}, .values = (double[]){5}, .count = 1};
    OK(gd_optimizer_step_with(x.o, &objective, &extra, NULL));
    probe.a = NULL;
    OK(step(&x, NULL));
    close_problem(&x);
}

static gd_module *expected_model;

static gd_status look_at_model(gd_link *link, gd_var *var)
{
    (void)link;
    assert_ptr_equal(gd_var_model(var), expected_model);
    return GD_OK;
}

static gd_tensor *model_loss(void *user) { return gd_sum(gd_square(user), NULL, false); }

static void a_link_sees_the_module_whose_parameters_are_optimised(void **state)
{
    gd_ctx *ctx = CTX(state);
    probe = (probes){.a = look_at_model};
    OK(gd_link_class_register(ctx, &probe_a_class));
    gd_module *m[2];
    gd_scope_begin(ctx);
    for (int i = 0; i < 2; i++) {
        m[i] = gd_module_new(gd_class_module(ctx));
        OK(gd_module_set_parameter(m[i], i ? "v" : "w", VECTOR(ctx, 1, 2)));
    }
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "probe_a | lr(0.1)"));
    OK(gd_optimizer_add_module(o, m[0], NULL, NULL));
    expected_model = m[0];
    gd_objective objective = {.loss = model_loss, .user = gd_module_get_tensor(m[0], "w")};
    OK(gd_optimizer_step(o, &objective, NULL));
    OK(gd_optimizer_add_module(o, m[1], NULL, NULL)); /* of two, neither is the model */
    expected_model = NULL;
    assert_null(gd_optimizer_model(o));
    OK(gd_optimizer_step(o, &objective, NULL));
    assert_int_equal(probe.ran_a, 2);
    gd_optimizer_free(o);
    for (int i = 0; i < 2; i++) gd_module_release(m[i]);
    gd_scope_end(ctx);
}

static gd_status zero_in_place(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_zero_grad(var, true);
}

static gd_status zero_away(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_zero_grad(var, false);
}

static void gradients_are_forgotten_or_set_to_zero_where_they_lie(void **state)
{
    problem x = open_problem(CTX(state), "probe_a | lr(0.5)");
    OK(step_without(&x, NULL));
    gd_tensor *grad = gd_grad_of(x.p);
    OK(gd_optimizer_zero_grad_in_place(x.o));
    assert_ptr_equal(gd_grad_of(x.p), grad);
    assert_values(grad, 0, 0);
    probe.a = zero_in_place;
    OK(step_without(&x, NULL));
    assert_values(gd_grad_of(x.p), 0, 0);
    probe.a = zero_away;
    OK(step_without(&x, NULL));
    assert_null(gd_grad_of(x.p));
    OK(gd_optimizer_zero_grad_in_place(x.o)); /* nothing there: nothing happens */
    assert_null(gd_grad_of(x.p));
    close_problem(&x);
}

static void random_numbers_are_of_the_kind_that_was_asked_for(void **state)
{
    problem x = open_problem(CTX(state), "probe_a(seed=3)");
    gd_link *link = gd_optimizer_chain(x.o);
    gd_scope_begin(x.ctx);
    gd_tensor *like = gd_zeros(x.ctx, GD_F64, 1, (int64_t[]){1000});
    double v[1000];
    OK(gd_read_f64(gd_link_random(link, GD_RANDOM_SIGN, like), v, 1000));
    for (int i = 0; i < 1000; i++) assert_true(v[i] == 1 || v[i] == -1);
    OK(gd_read_f64(gd_link_random(link, GD_RANDOM_UNIFORM, like), v, 1000));
    for (int i = 0; i < 1000; i++) assert_true(v[i] >= 0 && v[i] < 1);
    OK(gd_read_f64(gd_link_random(link, GD_RANDOM_NORMAL, like), v, 1000));
    double square = 0;
    for (int i = 0; i < 1000; i++) square += v[i] * v[i] / 1000;
    assert_true(square > 0.8 && square < 1.2);
    assert_null(gd_link_random(link, (gd_random_kind)9, like));
    assert_error(x.ctx, GD_ARGUMENT, "probe_a: there is no kind 9 of random numbers");
    gd_scope_end(x.ctx);
    close_problem(&x);
}

/* What a rule reads is seen when its program is made: the second reader of a chain finds it there already. */
static void rules_find_out_one_after_the_other_that_they_read_more(void **state)
{
    static const char *const chains[] = {
        "backtrack_on_sign_change(use_grad=true) | cautious | lr(0.1)",
        "cautious | backtrack_on_sign_change(use_grad=true) | cautious | lr(0.1)",
        "mul_by_loss | bold_driver | div_by_loss | cautious | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        problem x = open_problem(CTX(state), chains[i]);
        OK(step(&x, NULL));
        OK(step(&x, NULL));
        close_problem(&x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(rules_find_out_one_after_the_other_that_they_read_more),
        CASE(a_link_that_writes_into_the_update_leaves_the_gradient),
        CASE(cautious_compares_with_the_gradient_after_a_write_in_place),
        CASE(a_write_in_place_reaches_no_state_and_no_clone),
        CASE(only_what_somebody_else_holds_is_copied),
        CASE(a_rule_may_read_gradient_and_loss_without_saying_so),
        CASE(an_unknown_method_of_products_is_an_error),
        CASE(what_a_link_stores_later_ones_read_until_the_step_ends),
        CASE(a_link_sees_the_module_whose_parameters_are_optimised),
        CASE(gradients_are_forgotten_or_set_to_zero_where_they_lie),
        CASE(random_numbers_are_of_the_kind_that_was_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
