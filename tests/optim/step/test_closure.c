/* Objectives: by autograd and by callbacks, residuals, Hessian-vector products three ways, reformulations. */
#include "optim/closure_support.h"
#include "optim/table_support.h"

/* ---- callbacks ---- */

static void an_objective_by_callbacks_gives_the_same_run(void **state)
{
    rosenbrock a = open_it(CTX(state), "clip_norm(5) | adam | lr(0.1)"),
               b = open_it(CTX(state), "clip_norm(5) | adam | lr(0.1)");
    gd_objective graph = by_graph(&a), callbacks = by_callbacks(&b);
    for (int i = 0; i < 30; i++) {
        gd_step_info left, right;
        OK(gd_optimizer_step(a.o, &graph, &left));
        OK(gd_optimizer_step(b.o, &callbacks, &right));
        assert_true(fabs(left.loss - right.loss) <= 1e-10 * fabs(right.loss));
    }
    double x, y;
    at(&b, &x, &y);
    assert_values_near(a.p, 1e-9, x, y);
    assert_int_equal(b.gradients, 30);
    assert_int_equal(b.values, 0);
    assert_int_equal(gd_optimizer_evals(b.o), 30);
    close_it(&a);
    close_it(&b);
}

static gd_status ask_value(gd_link *link, gd_var *var)
{
    (void)link;
    double value;
    gd_status status = gd_var_evaluate_at(var, &value);
    if (!status) assert_true(value == f(-1.1, 2.5));
    gd_var_skip_update(var);
    return status;
}

static void the_value_alone_is_asked_of_the_value_callback(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = ask_value;
    gd_objective o = by_callbacks(&r);
    OK(gd_optimizer_step(r.o, &o, NULL));
    assert_true(r.values == 1 && r.gradients == 0);
    o.value = NULL; /* then of value and gradient together */
    OK(gd_optimizer_step(r.o, &o, NULL));
    assert_true(r.values == 1 && r.gradients == 1);
    o.gradient = NULL;
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_NOT_IMPLEMENTED);
    assert_error(r.ctx, GD_NOT_IMPLEMENTED, "the objective has no value");
    close_it(&r);
}

static void a_failing_callback_is_named(void **state)
{
    rosenbrock r = open_it(CTX(state), "adam | lr(0.1)");
    gd_objective o = by_callbacks(&r);
    r.fail = GD_IO;
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_IO);
    assert_error(r.ctx, GD_IO, "the objective failed (IO)");
    assert_values(r.p, -1.1, 2.5);
    assert_int_equal(gd_optimizer_evals(r.o), 0);
    o.gradient = NULL; /* differences of values fail as values do */
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_IO);
    assert_error(r.ctx, GD_IO, "the objective failed (IO)");
    o.value = NULL;
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_NOT_IMPLEMENTED);
    assert_error(r.ctx, GD_NOT_IMPLEMENTED, "the objective has no value");
    assert_values(r.p, -1.1, 2.5);
    close_it(&r);
}

/* ---- residuals ---- */

static gd_status ask_residuals(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *r = NULL;
    OK(gd_var_residuals(var, &r, true));
    assert_values(r, 2.1, 10 * (2.5 - 1.21));
    assert_true(gd_requires_grad(r));
    gd_release(r);
    OK(gd_var_residuals(var, &r, false));
    assert_false(gd_requires_grad(r));
    gd_release(r);
    return GD_OK;
}

static void a_vector_means_residuals_whose_squares_are_minimised(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a | lr(0)");
    gd_objective o = {.loss = residual_graph, .user = &r};
    gd_step_info info;
    OK(gd_optimizer_step(r.o, &o, &info));
    assert_true(fabs(info.loss - f(-1.1, 2.5)) < 1e-10);
    probe.a = ask_residuals;
    OK(gd_optimizer_step(r.o, &o, &info));
    assert_true(fabs(info.loss - f(-1.1, 2.5)) < 1e-10); /* from the residuals, which came first */
    assert_int_equal(info.evals, 4);
    close_it(&r);
}

static gd_status want_residuals(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *r;
    return gd_var_residuals(var, &r, false);
}

static void residuals_of_one_number_are_refused(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = want_residuals;
    gd_objective o = by_graph(&r);
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_SHAPE);
    assert_error(r.ctx, GD_SHAPE, "a link needs a vector of residuals, the objective returned one number");
    o = by_callbacks(&r);
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_NOT_IMPLEMENTED);
    assert_error(r.ctx, GD_NOT_IMPLEMENTED, "the objective gives no residuals");
    o.residuals = residual_graph;
    probe.a = ask_residuals;
    OK(gd_optimizer_step(r.o, &o, NULL));
    close_it(&r);
}

/* ---- Hessian-vector products ---- */

typedef struct product {
    gd_hvp_method method;
    double h, v[2], got[2];
    bool normalize;
} product;

static product asked;

static gd_status ask_product(gd_link *link, gd_var *var)
{
    (void)link;
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *v = VECTOR(ctx, asked.v[0], asked.v[1]), *out = NULL;
    gd_status status = gd_var_hvp(var, asked.method, asked.h, asked.normalize, &v, &out);
    if (status) return status;
    OK(gd_read_f64(out, asked.got, 2));
    gd_release(out);
    assert_values(gd_var_params(var)[0], -1.1, 2.5); /* back where they were, bit for bit */
    gd_var_skip_update(var);
    return GD_OK;
}

static void check_product(rosenbrock *r, const gd_objective *o, double tolerance)
{
    double x, y, *v = asked.v;
    at(r, &x, &y);
    OK(gd_optimizer_step(r->o, o, NULL));
    double want[2] = {fxx(x, y) * v[0] + fxy(x) * v[1], fxy(x) * v[0] + 200 * v[1]};
    for (int i = 0; i < 2; i++)
        if (!(fabs(asked.got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("element %d: %.12g, want %.12g", i, asked.got[i], want[i]);
}

static void hessian_vector_products_agree_with_the_closed_form_three_ways(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = ask_product;
    gd_objective graph = by_graph(&r), callbacks = by_callbacks(&r);
    static const double v[][2] = {{1, 0}, {0, 1}, {-0.5, 2}, {300, 1e-3}, {0, 0}};
    for (int i = 0; i < COUNT_OF(v); i++)
        for (int normalize = 0; normalize < 2; normalize++) {
            asked = (product){.method = GD_HVP_AUTOGRAD, .v = {v[i][0], v[i][1]}, .normalize = normalize};
            check_product(&r, &graph, 1e-12);
            check_product(&r, &callbacks, 1e-12);
            asked.method = GD_HVP_FORWARD;
            asked.h = 1e-6 / (normalize ? 1 : 1 + v[i][0]);
            check_product(&r, &graph, 1e-3);
            check_product(&r, &callbacks, 1e-3);
            asked.method = GD_HVP_CENTRAL;
            asked.h = 1e-4 / (normalize ? 1 : 1 + v[i][0]);
            check_product(&r, &graph, 1e-5);
            check_product(&r, &callbacks, 1e-5);
        }
    close_it(&r);
}

static int64_t evals_of(rosenbrock *r, const gd_objective *o, gd_hvp_method method, double first,
                        bool normalize)
{
    int64_t before = gd_optimizer_evals(r->o);
    asked = (product){.method = method, .h = 1e-4, .v = {first, 0}, .normalize = normalize};
    OK(gd_optimizer_step(r->o, o, NULL));
    return gd_optimizer_evals(r->o) - before;
}

static void products_cost_the_evaluations_they_must(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = ask_product;
    gd_objective o = by_graph(&r), c = by_callbacks(&r);
    assert_int_equal(evals_of(&r, &o, GD_HVP_AUTOGRAD, 1, false), 1);
    assert_int_equal(evals_of(&r, &o, GD_HVP_FORWARD, 1, false), 2); /* here, and one step away */
    assert_int_equal(evals_of(&r, &o, GD_HVP_CENTRAL, 1, false), 2); /* on both sides */
    assert_int_equal(evals_of(&r, &o, GD_HVP_CENTRAL, 0, true), 0);  /* of nothing */
    assert_int_equal(evals_of(&r, &c, GD_HVP_AUTOGRAD, 1, false), 0);
    assert_int_equal(r.products, 1);
    close_it(&r);
}

static gd_status several_products(gd_link *link, gd_var *var)
{
    (void)link;
    gd_ctx *ctx = gd_var_ctx(var);
    for (int i = 0; i < 3; i++) {
        gd_tensor *v = VECTOR(ctx, i, 1), *out = NULL;
        OK(gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out));
        gd_release(out);
    }
    assert_true(gd_var_has_grad(var)); /* the gradient it needed is the var's */
    gd_var_skip_update(var);
    return GD_OK;
}

static void several_products_share_one_evaluation(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = several_products;
    gd_objective o = by_graph(&r);
    OK(gd_optimizer_step(r.o, &o, NULL));
    assert_int_equal(gd_optimizer_evals(r.o), 1);
    close_it(&r);
}

/* Twelve steps; the evaluations they were. */
static int64_t walk(gd_ctx *ctx, const char *chain, gd_objective (*by)(rosenbrock *r), double *x, double *y)
{
    rosenbrock r = open_it(ctx, chain);
    gd_objective o = by(&r);
    for (int k = 0; k < 12; k++) {
        gd_status status = gd_optimizer_step(r.o, &o, NULL);
        assert_no_error(r.ctx);
        OK(status);
    }
    at(&r, x, y);
    int64_t evals = gd_optimizer_evals(r.o);
    assert_int_equal(evals, r.values + r.gradients);
    close_it(&r);
    return evals;
}

/* Value, gradient and products by callbacks are all that second-order links need: the way is that of autograd. */
static void second_order_links_work_on_callbacks(void **state)
{
    static const char *const chains[] = {"newton | backtracking",
                                         "newton_cg | backtracking",
                                         "newton_cg_steihaug",
                                         "trust_cg(newton)",
                                         "two_point_newton | backtracking",
                                         "inverse_free_newton | backtracking",
                                         "newton_cg(hvp_method=\"central\") | backtracking"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        double x, y, want[2];
        int64_t evals = walk(CTX(state), chains[i], by_graph, &want[0], &want[1]);
        (void)walk(CTX(state), chains[i], by_callbacks, &x, &y);
        if (!(fabs(x - want[0]) < 1e-6 && fabs(y - want[1]) < 1e-6))
            fail_msg("%s ends at %g, %g instead of %g, %g", chains[i], x, y, want[0], want[1]);
        int64_t kept = walk(CTX(state), chains[i], by_kept, &x, &y);
        if (!(fabs(x - want[0]) < 1e-6 && fabs(y - want[1]) < 1e-6) || kept != evals)
            fail_msg("%s, kept: ends at %g, %g after %d evaluations instead of %g, %g after %d", chains[i], x,
                     y, (int)kept, want[0], want[1], (int)evals);
    }
}

static bool has_field(const gd_link_class *cls, const char *name)
{
    for (int i = 0; i < cls->field_count; i++)
        if (!strcmp(cls->fields[i].name, name)) return true;
    return false;
}

/* No differences of gradients unless a chain asks for them. */
static void products_of_the_objective_serve_every_link(void **state)
{
    int count = 0;
    const gd_link_class *const *all = gd_link_classes(&count);
    for (int i = 0; i < count; i++) {
        if (!has_field(all[i], "hvp_method")) continue;
        char text[200], chain[220];
        link_text(all[i], NULL, text, sizeof text);
        snprintf(chain, sizeof chain, "%s | lr(1e-3)", text);
        rosenbrock r = open_it(CTX(state), chain);
        gd_objective o = by_callbacks(&r);
        for (int k = 0; k < 3; k++) OK(gd_optimizer_step(r.o, &o, NULL));
        if (!r.products || r.gradients > 3)
            fail_msg("%s: %d products, %d gradients", chain, r.products, r.gradients);
        close_it(&r);
    }
}

static void steihaug_takes_differences_where_there_are_only_gradients(void **state)
{
    double x, y, want[2];
    (void)walk(CTX(state), "newton_cg_steihaug", by_graph, &want[0], &want[1]);
    rosenbrock r = open_it(CTX(state), "newton_cg_steihaug");
    gd_objective o = by_callbacks(&r);
    o.hvp = NULL;
    for (int k = 0; k < 12; k++) OK(gd_optimizer_step(r.o, &o, NULL));
    at(&r, &x, &y);
    assert_true(fabs(x - want[0]) < 1e-4 && fabs(y - want[1]) < 1e-4);
    close_it(&r);
}

static void products_without_a_way_to_them_are_refused(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = ask_product;
    gd_objective o = by_callbacks(&r);
    o.hvp = NULL;
    asked = (product){.method = GD_HVP_AUTOGRAD, .v = {1, 0}};
    assert_int_equal(gd_optimizer_step(r.o, NULL, NULL), GD_STATE);
    assert_error(r.ctx, GD_STATE, "a Hessian-vector product needs a step with an objective");
    asked = (product){.method = GD_HVP_FORWARD, .v = {1, 0}};
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_VALUE);
    gd_clear_error(r.ctx);
    close_it(&r);
}

static gd_status ask_hessian(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *h = gd_var_hessian(var);
    assert_non_null(h);
    assert_values_near(h, 1e-10, fxx(-1.1, 2.5), fxy(-1.1), fxy(-1.1), 200);
    gd_var_skip_update(var);
    return GD_OK;
}

static void the_full_hessian_agrees_with_the_closed_form(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = ask_hessian;
    gd_objective o = by_graph(&r);
    OK(gd_optimizer_step(r.o, &o, NULL));
    close_it(&r);
}

static gd_tensor *linear(void *user) { return gd_sum(((rosenbrock *)user)->p, NULL, false); }

static gd_status zero_curvature(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *v = VECTOR(gd_var_ctx(var), 1, 2), *out = NULL;
    OK(gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out));
    assert_values(out, 0, 0);
    gd_release(out);
    assert_values(gd_var_hessian(var), 0, 0, 0, 0);
    return GD_OK;
}

static void a_linear_objective_has_no_curvature(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = zero_curvature;
    gd_objective o = {.loss = linear, .user = &r};
    OK(gd_optimizer_step(r.o, &o, NULL));
    close_it(&r);
}

/* ---- reformulations ---- */

static gd_tensor *logarithm(void *user, gd_tensor *loss)
{
    ++*(int *)user;
    return gd_log(loss);
}

static int reformulated;

static gd_status take_logarithm(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_reformulate(var, logarithm, &reformulated);
}

static gd_status expect_logarithm(gd_link *link, gd_var *var)
{
    (void)link;
    double l = f(-1.1, 2.5), a = fx(-1.1, 2.5), b = fy(-1.1, 2.5), value;
    assert_values_near(gd_var_grad(var)[0], 1e-12, a / l, b / l);
    assert_true(fabs(gd_var_loss_value(var, true) - log(l)) < 1e-12);
    OK(gd_var_evaluate_at(var, &value));
    assert_true(fabs(value - log(l)) < 1e-12);
    return GD_OK;
}

static void a_reformulated_loss_has_its_gradient_by_the_chain_rule(void **state)
{
    for (int i = 0; i < 2; i++) {
        rosenbrock r = open_it(CTX(state), "probe_a | probe_b | lr(0)");
        probe.a = take_logarithm;
        probe.b = expect_logarithm;
        reformulated = 0;
        gd_objective o = i ? by_callbacks(&r) : by_graph(&r);
        gd_step_info info;
        OK(gd_optimizer_step(r.o, &o, &info));
        assert_true(fabs(info.loss - f(-1.1, 2.5)) < 1e-10); /* what is returned is the original */
        assert_int_equal(reformulated, 2);
        close_it(&r);
    }
}

static gd_status product_of_logarithm(gd_link *link, gd_var *var)
{
    (void)link;
    double x = -1.1, y = 2.5, l = f(x, y), a = fx(x, y), b = fy(x, y);
    gd_tensor *v = VECTOR(gd_var_ctx(var), 1, 0), *out = NULL;
    gd_status status = gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out);
    if (status) return status;
    /* H = H_f / f - g g^T / f^2 */
    assert_values_near(out, 1e-10, fxx(x, y) / l - a * a / (l * l), fxy(x) / l - a * b / (l * l));
    gd_release(out);
    gd_var_skip_update(var);
    return GD_OK;
}

static void a_reformulated_loss_has_second_derivatives(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a | probe_b");
    probe.a = take_logarithm;
    probe.b = product_of_logarithm;
    gd_objective o = by_graph(&r);
    OK(gd_optimizer_step(r.o, &o, NULL));
    close_it(&r);
}

/* Products are differences of gradients where there is no graph, and those differences of values where there is no gradient. */
static gd_status nearly_the_product(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *v = VECTOR(gd_var_ctx(var), 1, 0), *out = NULL;
    gd_status status = gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out);
    if (status) return status;
    double found[2];
    OK(gd_read_f64(out, found, 2));
    assert_true(fabs(found[0] / fxx(-1.1, 2.5) - 1) < 1e-4 && fabs(found[1] / fxy(-1.1) - 1) < 1e-4);
    gd_release(out);
    gd_var_skip_update(var);
    return GD_OK;
}

static void products_of_callbacks_are_differences(void **state)
{
    for (int values = 0; values < 2; values++) {
        rosenbrock r = open_it(CTX(state), "probe_a");
        probe.a = nearly_the_product;
        gd_objective o = by_callbacks(&r);
        o.hvp = NULL;
        if (values) o.gradient = NULL;
        OK(gd_optimizer_step(r.o, &o, NULL));
        assert_values(r.p, -1.1, 2.5);
        close_it(&r);
    }
}

static void reformulations_stack_and_last_one_step(void **state)
{
    rosenbrock r = open_it(CTX(state), "sqrt_homotopy | probe_a | probe_b | lr(0)");
    probe.a = take_logarithm;
    reformulated = 0;
    gd_objective o = by_graph(&r);
    for (int i = 0; i < 3; i++) OK(gd_optimizer_step(r.o, &o, NULL)); /* log sqrt f: once each */
    assert_int_equal(reformulated, 3);
    close_it(&r);
}

static gd_tensor *fails(void *user, gd_tensor *loss)
{
    (void)user;
    (void)loss;
    return NULL;
}

static gd_status take_failure(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_reformulate(var, fails, NULL);
}

static void a_failing_reformulation_fails_the_step(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a | adam | lr(1)");
    probe.a = take_failure;
    gd_objective o = by_graph(&r);
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_CALLBACK);
    gd_clear_error(r.ctx);
    assert_values(r.p, -1.1, 2.5);
    assert_int_equal(gd_optimizer_step(r.o, NULL, NULL), GD_STATE);
    assert_error(r.ctx, GD_STATE, "a reformulation needs a step with an objective");
    close_it(&r);
}

/* ---- wrapped closures ---- */

static gd_status double_it(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    (void)user;
    gd_status status = gd_var_inner_evaluate(var, loss, grads);
    if (status) return status;
    *loss = gd_mul_scalar(*loss, 2);
    for (int i = 0; backward && i < gd_var_count(var); i++) grads[i] = gd_mul_scalar(grads[i], 2);
    return GD_OK;
}

static gd_status wrap_twice(gd_link *link, gd_var *var)
{
    (void)link;
    OK(gd_var_wrap_closure(var, double_it, NULL));
    return gd_var_wrap_closure(var, double_it, NULL);
}

static gd_status expect_four_times(gd_link *link, gd_var *var)
{
    (void)link;
    assert_values_near(gd_var_grad(var)[0], 1e-12, 4 * fx(-1.1, 2.5), 4 * fy(-1.1, 2.5));
    assert_true(fabs(gd_var_loss_value(var, false) - 4 * f(-1.1, 2.5)) < 1e-9);
    return GD_OK;
}

static void closures_can_be_wrapped_again_and_again(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a | probe_b | lr(0)");
    probe.a = wrap_twice;
    probe.b = expect_four_times;
    gd_objective o = by_graph(&r);
    gd_step_info info;
    OK(gd_optimizer_step(r.o, &o, &info));
    assert_true(fabs(info.loss - f(-1.1, 2.5)) < 1e-10);
    close_it(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(an_objective_by_callbacks_gives_the_same_run),
        CASE(the_value_alone_is_asked_of_the_value_callback),
        CASE(a_failing_callback_is_named),
        CASE(a_vector_means_residuals_whose_squares_are_minimised),
        CASE(residuals_of_one_number_are_refused),
        CASE(hessian_vector_products_agree_with_the_closed_form_three_ways),
        CASE(products_cost_the_evaluations_they_must),
        CASE(several_products_share_one_evaluation),
        CASE(second_order_links_work_on_callbacks),
        CASE(products_of_the_objective_serve_every_link),
        CASE(steihaug_takes_differences_where_there_are_only_gradients),
        CASE(products_without_a_way_to_them_are_refused),
        CASE(the_full_hessian_agrees_with_the_closed_form),
        CASE(a_linear_objective_has_no_curvature),
        CASE(a_reformulated_loss_has_its_gradient_by_the_chain_rule),
        CASE(a_reformulated_loss_has_second_derivatives),
        CASE(products_of_callbacks_are_differences),
        CASE(reformulations_stack_and_last_one_step),
        CASE(a_failing_reformulation_fails_the_step),
        CASE(closures_can_be_wrapped_again_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
