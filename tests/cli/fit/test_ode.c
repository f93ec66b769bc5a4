/* Differential equations in expressions: closed forms, recorded solutions of scipy.integrate.solve_ivp, derivatives against
 * differences, fits, mistakes. */
#include "expr/expr_internal.h"
#include "gradus/autograd.h"
#include "cli/in_context.h"

#include <time.h>

static const char *const names[] = {"k", "x0", "s"};
enum { NAMES = 3 };

static void make_values(gd_tensor *values[NAMES], const double *v)
{
    for (int i = 0; i < NAMES; i++) values[i] = gd_require_grad(gd_scalar(ctx, GD_F64, v[i]));
}

static gd_tensor *value_at(const char *text, gd_tensor *const *values)
{
    gd_expr *e = gd_expr_parse(ctx, text, &(gd_expr_options){.names = names, .count = NAMES});
    if (!e) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_tensor *t = gd_expr_eval(e, values, GD_F64);
    if (!t) fail_msg("%s: %s", text, gd_error_text(ctx));
    gd_expr_free(e);
    return t;
}

static const double at[NAMES] = {0.7, 2, 0.3};

static void near_all(const char *text, const double *want, int64_t count, double tolerance)
{
    gd_tensor *values[NAMES];
    double got[64];
    make_values(values, at);
    gd_tensor *t = value_at(text, values);
    assert_int_equal(gd_numel(t), count);
    assert_int_equal(gd_read_f64(t, got, count), GD_OK);
    for (int64_t i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= tolerance * (1e-4 + fabs(want[i]))))
            fail_msg("%s: element %d is %.15g, want %.15g", text, (int)i, got[i], want[i]);
}

#define NEAR(text, tolerance, ...) \
    near_all(text, (double[]){__VA_ARGS__}, (int64_t)(sizeof((double[]){__VA_ARGS__}) / 8), tolerance)

static void solutions_have_their_closed_forms(void **state)
{
    (void)state;
    double e = exp(-0.7), w = 2;
    for (int stiff = 0; stiff < 2; stiff++) {
        char text[200];
#define ODE(rest) (snprintf(text, sizeof text, "%s(%s", stiff ? "ode_stiff" : "ode", rest), text)
        /* in any order, on both sides of the start, the start itself, one time twice */
        NEAR(ODE("\"x' = -k*x\", x0, [3, 0, -1, 1, 1])"), 1e-8, 2 * e * e * e, 2, 2 / e, 2 * e, 2 * e);
        NEAR(ODE("\"x' = -k*x\", x0, [3, 1], 1)"), 1e-8, 2 * e * e, 2);
        NEAR(ODE("\"x' = -k*x\", x0, 2)"), 1e-8, 2 * e * e);
        /* states first */
        NEAR(ODE("\"x' = v; v' = -4*x;\", [1, 0], [0.5, 2])"), 1e-7, cos(w * 0.5), cos(w * 2),
             -w * sin(w * 0.5), -w * sin(w * 2));
        /* the time itself */
        NEAR(ODE("\"x' = 2*t\", s, [1, 3])"), 1e-8, 1.3, 9.3);
        NEAR(ODE("\"y' = 1\", 0, [1, 3])"), 1e-8, 1, 3);
        /* names that are bound, and functions */
        NEAR((snprintf(text, sizeof text, "f(a) = -a; r = 2*k; %s(\"x' = -r*x\", x0, [1]) + f(0)",
                       stiff ? "ode_stiff" : "ode"),
              text),
             1e-8, 2 * e * e);
    }
}

/* scipy 1.17: Radau with the exact Jacobian, rtol 1e-12, atol 1e-18; BDF agrees to 6e-12. */
static void robertsons_problem_agrees_with_solve_ivp(void **state)
{
    (void)state;
    static const double want[] = {0.9851721138609905,     0.905518678584246,      0.7158270687194064,
                                  3.3863953789749476e-05, 2.2404756875600793e-05, 9.18553476455797e-06,
                                  0.014794022185218796,   0.09445891665887729,    0.28416374574583003};
    gd_tensor *values[NAMES];
    double got[9];
    make_values(values, (double[]){0.04, 1e4, 3e7});
    gd_tensor *t = value_at(
        "ode_stiff(\"a' = -k*a + x0*b*c; b' = k*a - x0*b*c - s*b^2; c' = s*b^2\", [1, 0, 0], "
        "[0.4, 4, 40])",
        values);
    assert_int_equal(gd_read_f64(t, got, 9), GD_OK);
    for (int i = 0; i < 9; i++) assert_true(fabs(got[i] - want[i]) <= 1e-10);
}

/* DOP853, rtol and atol 1e-13 */
static void lotka_and_volterra_agree_with_solve_ivp(void **state)
{
    (void)state;
    NEAR("ode(\"x' = 1.1*x - 0.4*x*y; y' = 0.1*x*y - 0.4*y\", [10, 5], [1, 5, 10, 20])", 1e-8,
         2.881093313737835, 0.6826686607389981, 13.633639243920193, 10.214110659315423, 6.067427711830113,
         1.7361664879709102, 2.551950971187607, 1.3338083105639613);
}

/* Sums of squares and their gradients, against differences of the sums. */
static void gradients_agree_with_differences(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "sum(ode(\"x' = -k*x + s*sin(t)\", x0, [0.5, 1, 3])^2)",
        "sum(ode(\"x' = v; v' = k*(1 - x^2)*v - x\", [x0, s], [0.5, 4, -1])^2)",
        "sum(ode(\"x' = -k*x\", x0, [0.5, 1] - s, 0.1)^2)",
        "sum(ode_stiff(\"x' = -k*x\", x0, [0.5, 1] - s, 0.1)^2)",
        "sum(ode_stiff(\"x' = -k*x + s*sin(t)\", x0, [0.5, 1, 3])^2)",
        "sum(ode_stiff(\"x' = v; v' = 20*k*(1 - x^2)*v - x\", [x0, s], [0.5, 4])^2)",
        "p = [k, s]; sum(ode_stiff(\"x' = -p[0]*x + p[1]\", x0, [0.5, 1, 3])^2)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        gd_tensor *values[NAMES], *grads[NAMES];
        make_values(values, at);
        gd_tensor *f = value_at(texts[i], values);
        assert_int_equal(gd_grad(f, NULL, values, NAMES, GD_ALLOW_UNUSED, grads), GD_OK);
        for (int k = 0; k < NAMES; k++) {
            double x[NAMES], two[2];
            for (int side = 0; side < 2; side++) {
                memcpy(x, at, sizeof x);
                x[k] += side ? 1e-4 : -1e-4;
                gd_tensor *moved[NAMES];
                make_values(moved, x);
                two[side] = gd_item(value_at(texts[i], moved));
            }
            double slope = (two[1] - two[0]) / 2e-4, got = grads[k] ? gd_item(grads[k]) : 0;
            if (!(fabs(got - slope) <= 1e-6 * (1 + fabs(slope))))
                fail_msg("%s: d/d%s is %.12g, differences give %.12g", texts[i], names[k], got, slope);
        }
    }
}

/* x' = x^2 from 1 is 1 / (1 - t): there is nothing beyond 1. */
static void what_blows_up_is_nan_beyond(void **state)
{
    (void)state;
    gd_tensor *values[NAMES];
    make_values(values, at);
    for (int stiff = 0; stiff < 2; stiff++) {
        double got[3];
        gd_tensor *t = value_at(stiff ? "ode_stiff(\"x' = x^2\", 1, [2, 0.5, 0.9])"
                                      : "ode(\"x' = x^2\", 1, [2, 0.5, 0.9])",
                                values);
        assert_int_equal(gd_read_f64(t, got, 3), GD_OK);
        assert_true(isnan(got[0]) && fabs(got[1] - 2) < 1e-7 && fabs(got[2] - 10) < 1e-6);
    }
}

static double seconds_of(const char *text)
{
    gd_tensor *values[NAMES];
    make_values(values, at);
    clock_t begun = clock();
    assert_true(isnan(gd_item(value_at(text, values))));
    return (double)(clock() - begun) / CLOCKS_PER_SEC;
}

/* Both take more steps than are allowed; one that has hardly moved after a tenth of them need not take the others. */
static void what_gets_nowhere_is_given_up_early(void **state)
{
    (void)state;
    double far = seconds_of("ode(\"x' = v; v' = -x\", [1, 0], 2500)[0]"),
           nowhere = seconds_of("ode(\"x' = v; v' = -x\", [1, 0], 1e9)[0]");
    if (!(nowhere < 0.5 * far)) fail_msg("%g s, the other %g s", nowhere, far);
}

/* Data made of the closed form: x0 exp(-k t). */
static void a_rate_is_fitted(void **state)
{
    (void)state;
    FILE *f = fopen("decay.csv", "w");
    fprintf(f, "t,y\n");
    for (int i = 0; i <= 20; i++) fprintf(f, "%g,%.17g\n", 0.25 * i, 3 * exp(-0.8 * 0.25 * i));
    fclose(f);
    static const char *const calls[] = {"ode", "ode_stiff"};
    for (int i = 0; i < 2; i++) {
        char command[300];
        snprintf(command, sizeof command,
                 "fit '%s(\"x'\\'' = -k*x\", x0, t)' decay.csv --param k=0.3 --param x0=1 --json", calls[i]);
        works(command);
        double k = json_number_in("params", "k"), x0 = json_number_in("params", "x0");
        if (!(fabs(k - 0.8) < 1e-6 && fabs(x0 - 3) < 1e-6))
            fail_msg("%s: k %.12g, x0 %.12g", calls[i], k, x0);
    }
}

static void mistakes_in_equations_are_pointed_at(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"ode(\"x = -k*x\", 1, [1])", "expression: column 5: ode: NAME' = ... expected, 'x = -k*x' found"},
        {"ode(\"\", 1, [1])", "expression: column 5: ode: no equation"},
        {"ode(\"x' = -k*x; x' = 2\", 1, [1])", "expression: column 5: ode: x' is there twice"},
        {"ode(\"t' = 1\", 1, [1])", "expression: column 5: ode: t is the time, not a state"},
        {"ode(\"x' = -q*x\", 1, [1])", "expression: column 5: unknown name 'q'"},
        {"ode(\"x' = -k*\", 1, [1])", "expression: column 5: ode: expression: column"},
        {"ode(\"x' = -k*x\", 1)", "expression: column 1: ode takes equations, start values, times"},
        {"ode(\"x' = -k*x, 1)", "expression: column 5: a quote is never closed"},
        {"ode(k, 1, [1])", "expression: column 5: equations between \"quotes\" expected"},
        {"ode(\"x' = -k*x\")", "expression: column 16: ',' and the start values expected"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_null(gd_expr_parse(ctx, cases[i].text, &(gd_expr_options){.names = names, .count = NAMES}));
        assert_error(ctx, GD_PARSE, cases[i].error);
    }
    static const struct {
        const char *text;
        gd_status status;
        const char *error;
    } failing[] = {
        {"ode(\"x' = -k*x\", [1, 2], [1])", GD_SHAPE,
         "expression: column 1: ode: 1 equations and 2 start values"},
        {"ode(\"x' = [1, 2]\", 1, [1])", GD_SHAPE,
         "expression: column 1: ode: the right side of x' is an array"},
        {"ode(\"x' = -k*x\", 1, [1, 2], s)", GD_ARGUMENT,
         "expression: column 1: ode: the time of the start may not depend on parameters"},
        {"ode(\"x' = -k*x\", 1, [[1], [2]])", GD_SHAPE,
         "expression: column 1: ode: times are a number or a vector"},
    };
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        gd_tensor *values[NAMES];
        make_values(values, at);
        gd_expr *e = gd_expr_parse(ctx, failing[i].text, &(gd_expr_options){.names = names, .count = NAMES});
        if (!e) fail_msg("%s: %s", failing[i].text, gd_error_text(ctx));
        assert_null(gd_expr_eval(e, values, GD_F64));
        assert_error(ctx, failing[i].status, failing[i].error);
        gd_expr_free(e);
    }
}

static bool solves(gd_ctx *own)
{
    static const char *const texts[] = {"ode(\"x' = -k*x\", x0, [1e-3, -1e-3]) + s",
                                        "ode_stiff(\"x' = -k*x\", x0, [1e-3]) + s"};
    bool ok = true;
    for (int i = 0; i < 2 && ok; i++) {
        gd_tensor *values[NAMES];
        for (int k = 0; k < NAMES && ok; k++)
            ok = (values[k] = gd_require_grad(gd_scalar(own, GD_F64, at[k]))) != NULL;
        gd_expr *e = ok ? gd_expr_parse(own, texts[i], &(gd_expr_options){.names = names, .count = NAMES})
                        : NULL;
        ok = e && gd_expr_eval(e, values, GD_F64);
        gd_expr_free(e);
    }
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, solves);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(solutions_have_their_closed_forms),
        TEST(robertsons_problem_agrees_with_solve_ivp),
        TEST(lotka_and_volterra_agree_with_solve_ivp),
        TEST(gradients_agree_with_differences),
        TEST(what_blows_up_is_nan_beyond),
        TEST(what_gets_nowhere_is_given_up_early),
        TEST(a_rate_is_fitted),
        TEST(mistakes_in_equations_are_pointed_at),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
