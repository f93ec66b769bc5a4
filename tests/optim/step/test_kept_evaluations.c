/* Objectives with products and Jacobians of their own: products are of the evaluation that the objective kept, Jacobians give the run
 * of residuals, and what fails leaves the parameters. */
#include "gradus/solve.h"
#include "optim/closure_support.h"

/* ---- callbacks ---- */

/* Of (1 - x, 10 (y - x^2)) */
static gd_status jacobian_callback(void *user, gd_tensor **j, gd_tensor **r)
{
    rosenbrock *b = user;
    double x, y;
    at(b, &x, &y);
    b->jacobians++;
    if (b->fail) return b->fail;
    *j = gd_reshape(VECTOR(b->ctx, -1, 0, -20 * x, 10), 2, (int64_t[]){2, 2});
    *r = VECTOR(b->ctx, 1 - x, 10 * (y - x * x));
    return gd_error(b->ctx);
}

static gd_status flat_jacobian(void *user, gd_tensor **j, gd_tensor **r)
{
    gd_status status = jacobian_callback(user, j, r);
    *j = *r;
    return status;
}

static gd_status failing_product(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    (void)v;
    (void)out;
    return gd_fail(((rosenbrock *)user)->ctx, GD_CALLBACK, "no product today");
}

/* ---- tests ---- */

static gd_status kept_failing(void *user, double *loss, gd_tensor *const *grads)
{
    (void)loss;
    (void)grads;
    return gd_fail(((rosenbrock *)user)->ctx, GD_CALLBACK, "nothing kept today");
}

static gd_status several_products_fail(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *v = VECTOR(gd_var_ctx(var), 1, 0), *out = NULL;
    gd_status status = gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out);
    assert_null(out);
    return status;
}

/* Products before the gradient, after it, and after another evaluation was kept: always of the var's own gradient. */
static gd_status products_and_gradients(gd_link *link, gd_var *var)
{
    (void)link;
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *v = VECTOR(ctx, 1, 0), *out = NULL;
    OK(gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out));
    gd_release(out);
    assert_non_null(gd_var_grad(var));
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 1);
    gd_var *there = gd_var_clone(var, false, NULL);
    OK(gd_var_move(there, 1, &v));
    OK(gd_var_set_grad(there, NULL));
    OK(gd_var_hvp(there, GD_HVP_AUTOGRAD, 0, false, &v, &out));
    assert_values_near(out, 1e-9, fxx(-0.1, 2.5), fxy(-0.1));
    gd_release(out);
    OK(gd_var_move(there, -1, &v));
    gd_var_free(there);
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 2);
    OK(gd_var_hvp(var, GD_HVP_AUTOGRAD, 0, false, &v, &out));
    assert_values_near(out, 1e-9, fxx(-1.1, 2.5), fxy(-1.1));
    gd_release(out);
    assert_int_equal(gd_optimizer_evals(gd_var_optimizer(var)), 3);
    assert_null(gd_var_grad_graph(var)); /* there is none */
    assert_error(
        ctx, GD_NOT_IMPLEMENTED,
        "a link asks for the graph of a gradient, and the objective has products with its Hessian alone");
    gd_var_skip_update(var);
    return GD_OK;
}

static void products_are_of_the_evaluation_that_was_kept(void **state)
{
    rosenbrock r = open_it(CTX(state), "probe_a");
    probe.a = products_and_gradients;
    gd_objective o = by_kept(&r);
    OK(gd_optimizer_step(r.o, &o, NULL));
    assert_int_equal(r.kept, 3);
    assert_int_equal(r.gradients, 3);
    gd_step_info info;
    o.gradient_kept = kept_failing;
    probe.a = several_products_fail;
    assert_int_equal(gd_optimizer_step(r.o, &o, &info), GD_CALLBACK);
    gd_clear_error(r.ctx);
    close_it(&r);
}

static void a_product_that_fails_leaves_the_parameters(void **state)
{
    static const char *const chains[] = {"newton | backtracking", "newton_cg | lr(1)", "trust_cg(newton)",
                                         "newton_cg_steihaug"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        rosenbrock r = open_it(CTX(state), chains[i]);
        gd_objective o = by_callbacks(&r);
        o.hvp = failing_product;
        assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_CALLBACK);
        assert_error(r.ctx, GD_CALLBACK, "no product today");
        assert_values(r.p, -1.1, 2.5);
        o.hvp = hvp_callback;
        OK(gd_optimizer_step(r.o, &o, NULL));
        close_it(&r);
    }
}

static void a_jacobian_by_callback_gives_the_run_of_residuals(void **state)
{
    static const char *const chains[] = {"gauss_newton | lr(0.5)", "levenberg_marquardt(gauss_newton)",
                                         "natural_gradient | lr(0.1)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        rosenbrock a = open_it(CTX(state), chains[i]), b = open_it(CTX(state), chains[i]);
        gd_objective graph = {.loss = residual_graph, .user = &a}, callbacks = by_callbacks(&b);
        callbacks.jacobian = jacobian_callback;
        for (int k = 0; k < 6; k++) {
            gd_step_info left, right;
            OK(gd_optimizer_step(a.o, &graph, &left));
            OK(gd_optimizer_step(b.o, &callbacks, &right));
            assert_true(fabs(left.loss - right.loss) <= 1e-9 * fabs(left.loss) + 1e-20);
            assert_int_equal(left.evals, right.evals);
        }
        double x, y;
        at(&a, &x, &y);
        assert_values_near(b.p, 1e-9, x, y);
        assert_int_equal(b.jacobians, 6);
        close_it(&a);
        close_it(&b);
    }
}

/* As GSL's users have it: nothing else is given.  Rosenbrock's function has its minimum at (1, 1). */
static void a_jacobian_alone_is_an_objective(void **state)
{
    static const char *const chains[] = {"gauss_newton | strong_wolfe",
                                         "levenberg_marquardt(gauss_newton)",
                                         "lbfgs | strong_wolfe",
                                         "sum_of_squares | bfgs | strong_wolfe",
                                         "box([-2, -2], [2, 2]) | lbfgs | strong_wolfe",
                                         "dogleg(gauss_newton)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        rosenbrock a = open_it(CTX(state), chains[i]);
        gd_objective o = {.jacobian = jacobian_callback, .user = &a};
        gd_solve_options options = gd_solve_defaults();
        gd_solve_result result;
        gd_status status = gd_minimize_with(a.o, &o, &options, &result);
        if (status) fail_msg("%s: %s", chains[i], gd_error_text(a.ctx));
        if (!result.converged) fail_msg("%s: %s", chains[i], gd_stop_text(result.reason));
        assert_values_near(a.p, 1e-5, 1, 1);
        close_it(&a);
    }
}

static void a_jacobian_that_fails_or_has_another_shape_leaves_the_parameters(void **state)
{
    rosenbrock r = open_it(CTX(state), "gauss_newton");
    gd_objective o = by_callbacks(&r);
    o.jacobian = flat_jacobian;
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_SHAPE);
    assert_error(r.ctx, GD_SHAPE, "the objective gives residuals [m] and a Jacobian [m, 2]");
    o.jacobian = jacobian_callback;
    r.fail = GD_VALUE;
    assert_int_equal(gd_optimizer_step(r.o, &o, NULL), GD_VALUE);
    assert_error(r.ctx, GD_VALUE, "the objective failed");
    assert_values(r.p, -1.1, 2.5);
    r.fail = GD_OK;
    OK(gd_optimizer_step(r.o, &o, NULL));
    close_it(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(products_are_of_the_evaluation_that_was_kept),
        CASE(a_product_that_fails_leaves_the_parameters),
        CASE(a_jacobian_alone_is_an_objective),
        CASE(a_jacobian_by_callback_gives_the_run_of_residuals),
        CASE(a_jacobian_that_fails_or_has_another_shape_leaves_the_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
