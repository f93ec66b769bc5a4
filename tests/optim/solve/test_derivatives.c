/* gd_solve_result.derivatives: which first derivatives a run has used. */
#include "gradus/lsq.h"
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

static gd_tensor *of_operators(void *user) { return gd_sum(gd_square(gd_add_scalar(user, -1)), NULL, false); }

static gd_tensor *residuals(void *user) { return gd_add_scalar(user, -1); }

static gd_status value(void *user, double *loss)
{
    double x[2];
    gd_status status = gd_read_f64(user, x, 2);
    *loss = (x[0] - 1) * (x[0] - 1) + (x[1] - 1) * (x[1] - 1);
    return status;
}

static gd_status gradient(void *user, double *loss, gd_tensor *const *grads)
{
    double x[2];
    gd_status status = gd_read_f64(user, x, 2);
    for (int i = 0; i < 2; i++) x[i] = 2 * (x[i] - 1);
    *loss = (x[0] * x[0] + x[1] * x[1]) / 4;
    return status ? status : gd_write_f64(grads[0], x, 2);
}

static gd_status jacobian(void *user, gd_tensor **j, gd_tensor **r)
{
    gd_ctx *ctx = gd_tensor_ctx(user);
    *r = gd_add_scalar(gd_detach(user), -1);
    *j = gd_eye(ctx, GD_F64, 2, 2);
    return gd_error(ctx);
}

enum { OPERATORS, VALUE, GRADIENT, RESIDUALS, JACOBIAN, KINDS };

static gd_objective objective_of(int kind, gd_tensor *x)
{
    gd_objective o = {.user = x};
    if (kind == OPERATORS) o.loss = of_operators;
    if (kind == VALUE || kind == GRADIENT) o.value = value;
    if (kind == GRADIENT) o.gradient = gradient;
    if (kind == RESIDUALS) o.loss = residuals;
    if (kind == JACOBIAN) o.jacobian = jacobian;
    return o;
}

static const struct {
    const char *chain;
    int kind;
    bool look; /* a gradient that only the result shows */
    gd_derivatives used;
} cases[] = {
    {NULL, OPERATORS, false, GD_DERIVATIVES_EXACT},
    {NULL, GRADIENT, false, GD_DERIVATIVES_EXACT},
    {NULL, JACOBIAN, false, GD_DERIVATIVES_EXACT},
    {"newton", OPERATORS, false, GD_DERIVATIVES_EXACT},
    {"levenberg_marquardt(gauss_newton)", RESIDUALS, false, GD_DERIVATIVES_EXACT},
    {"levenberg_marquardt(gauss_newton)", JACOBIAN, false, GD_DERIVATIVES_EXACT},
    {"forward_gradient | lr(0.1)", OPERATORS, false, GD_DERIVATIVES_EXACT},
    {"fdm | lbfgs | strong_wolfe", VALUE, false, GD_DERIVATIVES_DIFFERENCES},
    {"fdm | lbfgs | strong_wolfe", OPERATORS, false, GD_DERIVATIVES_DIFFERENCES},
    {"fdm | lbfgs | strong_wolfe", OPERATORS, true, GD_DERIVATIVES_DIFFERENCES},
    {"fdm(target=\"grad\") | lr(0.1)", GRADIENT, false, GD_DERIVATIVES_DIFFERENCES},
    {"spsa | lr(0.01)", VALUE, false, GD_DERIVATIVES_DIFFERENCES},
    {"forward_gradient(jvp_method=\"central\") | lr(0.1)", VALUE, false, GD_DERIVATIVES_DIFFERENCES},
    {NULL, VALUE, false, GD_DERIVATIVES_DIFFERENCES},
    {"newton", VALUE, false, GD_DERIVATIVES_DIFFERENCES},
    {"adam | lr(0.1)", VALUE, true, GD_DERIVATIVES_DIFFERENCES},
    {"nelder_mead", VALUE, false, GD_DERIVATIVES_NONE},
    {"nelder_mead", VALUE, true, GD_DERIVATIVES_NONE},
    {"nelder_mead", OPERATORS, false, GD_DERIVATIVES_NONE},
    {"nelder_mead", OPERATORS, true, GD_DERIVATIVES_NONE},
    {"nelder_mead", GRADIENT, false, GD_DERIVATIVES_NONE},
    {"box(-5, 5) | cma_es(seed=1)", VALUE, false, GD_DERIVATIVES_NONE},
    {"box(-5, 5) | cma_es(seed=1)", OPERATORS, false, GD_DERIVATIVES_NONE},
    {"box(-5, 5) | multi_start([lbfgs | strong_wolfe], 3, seed=1)", OPERATORS, false, GD_DERIVATIVES_EXACT},
};

static void minimising_says_which_derivatives_it_used(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_tensor *x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){3, -2}));
        gd_objective o = objective_of(cases[i].kind, x);
        gd_solve_options options = gd_solve_defaults();
        options.max_steps = 20;
        options.look = cases[i].look;
        gd_solve_result r;
        gd_status status = gd_minimize(&x, 1, &o, cases[i].chain, &options, &r);
        if (status || r.derivatives != cases[i].used)
            fail_msg("%s, kind %d: %s, status %d (%s)", cases[i].chain ? cases[i].chain : "default",
                     cases[i].kind, gd_derivatives_name(r.derivatives), (int)status, gd_error_text(ctx));
        gd_release(x);
        end_context(ctx, NULL);
    }
}

/* An optimizer that was used before with another objective. */
static void each_run_speaks_of_itself(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){3, -2}));
    gd_optimizer *with = gd_optimizer_new(ctx, gd_chain(ctx, "lbfgs | strong_wolfe"));
    assert_int_equal(gd_optimizer_add(with, "x", x), GD_OK);
    gd_objective o = objective_of(OPERATORS, x);
    gd_solve_options options = gd_solve_defaults();
    gd_solve_result r;
    assert_int_equal(gd_minimize_with(with, &o, &options, &r), GD_OK);
    assert_int_equal(r.derivatives, GD_DERIVATIVES_EXACT);
    options.max_steps = 0;
    options.plain = true;
    assert_int_equal(gd_minimize_with(with, &o, &options, &r), GD_OK);
    assert_int_equal(r.derivatives, GD_DERIVATIVES_NONE);
    gd_optimizer_free(with);
    assert_string_equal(gd_derivatives_name(GD_DERIVATIVES_DIFFERENCES), "differences");
    assert_string_equal(gd_derivatives_name(GD_DERIVATIVES_COUNT), "?");
    gd_release(x);
    end_context(ctx, NULL);
}

static gd_status numbers(void *user, const double *x, double *r)
{
    (void)user;
    for (int i = 0; i < 2; i++) r[i] = x[i] - 1;
    return GD_OK;
}

static gd_status slopes(void *user, const double *x, double *values)
{
    (void)user, (void)x;
    values[0] = values[3] = 1;
    values[1] = values[2] = 0;
    return GD_OK;
}

static void fits_say_it_too(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int own = 0; own < 2; own++) {
        gd_lsq_problem p = {
            .residuals = 2, .params = 2, .residual = numbers, .jacobian = own ? slopes : NULL};
        double x[2] = {3, -2};
        gd_lsq_result fit;
        assert_int_equal(gd_lsq_solve(ctx, &p, x, NULL, &fit), GD_OK);
        assert_int_equal(fit.solve.derivatives, own ? GD_DERIVATIVES_EXACT : GD_DERIVATIVES_DIFFERENCES);
        gd_lsq_result_clear(&fit);
    }
    gd_tensor *x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){3, -2}));
    gd_lsq_result fit;
    assert_int_equal(gd_least_squares(&x, 1, residuals, x, NULL, &fit), GD_OK);
    assert_int_equal(fit.solve.derivatives, GD_DERIVATIVES_EXACT);
    gd_lsq_result_clear(&fit);
    gd_release(x);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(minimising_says_which_derivatives_it_used),
        cmocka_unit_test(each_run_speaks_of_itself),
        cmocka_unit_test(fits_say_it_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
