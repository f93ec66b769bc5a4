/* gradus minimize: its trace, its summary, and what it says of names. */
#include "program.h"

#define ROSENBROCK "minimize '(1-x)^2 + 100*(y-x^2)^2' --param x=-1.2 --param y=1 "

static double rosenbrock(double x, double y) { return (1 - x) * (1 - x) + 100 * (y - x * x) * (y - x * x); }

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * (1 + fabs(b)); }

/* ---- traces ---- */

static const char *const runs[] = {
    "",
    "--chain 'adam | lr(0.1)' --steps 6",
    "--chain 'newton | strong_wolfe'",
    "--chain 'polak_ribiere | backtracking' --steps 30",
    "--chain 'trust_cg(newton)'",
    "--chain 'lookahead([adam | lr(0.1)])' --steps 12",
    "--chain 'ema_weights | adam | lr(0.1)' --steps 5",
    "--chain 'svrg(3) | lr(0.001)' --steps 6",
    "--chain 'basin_hopping([lbfgs | strong_wolfe])' --steps 40",
    "--gradient differences", /* the loss of a step was that of a point beside it */
    "--gradient none --steps 20",
    "--bound 'x<0.5'",
    "--below 'x+y-1'", /* lines had no loss of their own */
    "--starts 3",
    "--until 'grad_norm<1e-3'",
    "--steps 0",
};

/* Every line has the loss of its parameters, and begins where the line before ended; the start is step 0. */
static void lines_of_a_trace_belong_together(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        char command[400], line[1000];
        snprintf(command, sizeof command, ROSENBROCK "--trace t.jsonl %s", runs[i]);
        works(command);
        FILE *f = fopen("t.jsonl", "r");
        double last = NAN;
        long lines = 0;
        for (; fgets(line, sizeof line, f); lines++) {
            const char *after = strstr(line, "\"loss_after\":"), *params = strstr(line, "\"params\":{\"x\":");
            const char *y = strstr(line, "\"y\":"), *loss = strstr(line, "\"loss\":");
            assert_true(loss && params && y && strtol(line + 8, NULL, 10) == lines);
            double here = rosenbrock(strtod(params + 14, NULL), strtod(y + 4, NULL));
            double before = strtod(loss + 7, NULL), own = after ? strtod(after + 13, NULL) : NAN;
            if (lines == 0 ? !near(before, here) || after : !near(own, here) || !near(before, last))
                fail_msg("%s: line %ld: %sthe loss there is %.17g, before %.17g", command, lines, line, here,
                         last);
            last = here;
        }
        fclose(f);
        assert_true(lines > (strcmp(runs[i], "--steps 0") ? 2 : 0));
    }
}

/* ---- the summary ---- */

/* Eigenvalues are known: of a diagonal quadratic its coefficients, of Rosenbrock's function at (1, 1) those of [802, -400; -400, 200],
 * of the chain (x_1)^2 + sum (x_i - x_(i+1))^2 + (x_n)^2 2 (2 - 2 cos(k pi / (n + 1))). */
static void the_condition_is_that_of_the_hessian(void **state)
{
    (void)state;
    double root = sqrt(602.0 * 602 / 4 + 400.0 * 400), pi = acos(-1);
    static const struct {
        const char *arguments;
        double tolerance;
    } cases[] = {
        {"minimize 'x^2 + 3*y^2' --param x=1 --param y=2 --json", 1e-9},
        {ROSENBROCK "--json", 1e-3},
        {"minimize 'x[0]^2 + sum((x[1:]-x[:-1])^2) + x[-1]^2' --param x='ones(12)' --json", 1e-6},
        {"minimize 'x^2 + 3*y^2' --param x=1 --param y=2 --json --dtype f32", 1e-4},
        {"minimize 'x[0]^2 + sum((x[1:]-x[:-1])^2) + x[-1]^2' --param x='ones(100)' --json", 1},
    };
    double want[] = {3, (501 + root) / (501 - root), 0, 3, 0};
    for (int k = 2; k < 5; k += 2) {
        double n = k == 2 ? 12 : 100;
        want[k] = (2 - 2 * cos(n * pi / (n + 1))) / (2 - 2 * cos(pi / (n + 1)));
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        works(cases[i].arguments);
        double got = json_number("condition_estimate");
        /* from below: the estimate of many numbers may be less */
        if (!(got <= want[i] * (1 + 1e-3)) || !(got >= want[i] * (1 - cases[i].tolerance)) ||
            got < 3 * (1 - 1e-3))
            fail_msg("%s: %.9g, want %.9g", cases[i].arguments, got, want[i]);
    }
    works("minimize '(x-y)^2' --param x=1 --param y=0");
    assert_non_null(strstr(out, "\ncondition inf (estimate)\n"));
    works("minimize 'x^2 + 3*y^2' --param x=1 --param y=2");
    assert_non_null(strstr(out, "\ncondition 3 (estimate)\n"));
    assert_true(strstr(out, "converged, gradient ") &&
                strstr(out, ": the gradient is as small as asked for"));
}

/* The gradient alone does not tell them from minima: (0, 0) is none of x^2 - y^2 + y^4, which are at y = -+1/sqrt(2), nor is 0 of
 * cos, nor the plain far from the well of -exp(-x^2). */
static void a_saddle_is_not_called_a_minimum(void **state)
{
    (void)state;
    static const char *const ends[] = {
        "minimize 'x^2 - y^2 + y^4' --param x=0 --param y=0",
        "minimize 'x^2 - y^2 + y^4' --param x=1 --param y=0",
        "minimize 'x^2 - y^2 + y^4' --param x=1 --param y=0 --dtype f32",
        "minimize 'cos(x)' --param x=0",
        "minimize '-exp(-x^2)' --param x=6",
        "minimize 'sum(x^2) - 2*x[0]^2 + x[0]^4' --param x='zeros(16)'",
    };
    for (int i = 0; i < COUNT_OF(ends); i++) {
        char command[400];
        assert_int_equal(gradus(ends[i]), 1);
        assert_non_null(strstr(err, "saddle after 1 steps: there is no gradient, but a direction in which"));
        assert_non_null(strstr(out, "\nnot converged, gradient "));
        assert_null(strstr(out, "condition"));
        snprintf(command, sizeof command, "%s --json", ends[i]);
        assert_int_equal(gradus(command), 1);
        assert_non_null(strstr(out, "\"converged\": false, \"stopped\": \"saddle\""));
        snprintf(command, sizeof command, "%s --steps 2 --json", ends[i]);
        works(command); /* as many steps as asked for */
        assert_non_null(strstr(out, "\"converged\": false"));
    }
    /* a valley is none, nor is a minimum whose curvature is 0 */
    works("minimize '(x-y)^2' --param x=1 --param y=0");
    works("minimize 'x^4 + (y-1)^4' --param x=1 --param y=0");
    works("minimize 'x^2 - y^2 + y^4' --param x=1 --param y=0.1");
}

static void a_loss_that_is_no_number_has_no_sign(void **state)
{
    (void)state;
    assert_int_equal(gradus("minimize 'log(x)' --param x=-1"), 1);
    assert_true(!strncmp(out, "loss nan after 1 steps", 22) && strstr(err, "the loss is nan after 1 steps"));
}

/* Where it would be that of another problem, or cost more than the run. */
static void no_condition_is_said_where_none_is_known(void **state)
{
    (void)state;
    static const char *const without[] = {"--bound 'x<0.5'", "--below 'x+y-1'", "--gradient none --steps 5",
                                          "--gradient differences", NULL};
    for (int i = 0; without[i]; i++) {
        char command[400];
        snprintf(command, sizeof command, ROSENBROCK "--json %s", without[i]);
        works(command);
        assert_non_null(strstr(out, "\"condition_estimate\": \"NaN\""));
    }
    works("minimize 'sum(x^2)' --param x='ones(1000)' --steps 1 --chain 'lr(0.1)'");
    assert_null(strstr(out, "condition"));
}

/* ---- bounds ---- */

/* (x - 5)^2 within 0 and 2: those of --bound hold whatever the chain has of its own. */
static void bounds_hold_beside_a_box_of_the_chain(void **state)
{
    (void)state;
    static const char *const chains[] = {"box | lbfgs | strong_wolfe", "box(-1, 3) | newton | backtracking",
                                         "box(high=9) | adam | lr(0.5)",
                                         "augmented_lagrangian([box(-3, 3) | lbfgs | strong_wolfe])",
                                         "multi_start([box | lbfgs | strong_wolfe], n=3)"};
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        char command[400];
        snprintf(command, sizeof command,
                 "minimize '(x-5)^2' --param x=1 --bound '0<x<2' --json --chain '%s'", chains[i]);
        works(command);
        assert_true(json_number_in("params", "x") == 2);
    }
    works("minimize '(x-5)^2' --param x=1 --bound '0<x<4' --json --chain 'box(1, 3) | lbfgs | strong_wolfe'");
    assert_true(json_number_in("params", "x") == 3);
    assert_int_equal(
        gradus("minimize '(x-5)^2' --param x=1 --bound '0<x<2' --chain 'box(3, 4) | lbfgs | strong_wolfe'"),
        1);
    assert_non_null(strstr(err, "between 0 and 2"));
    assert_non_null(strstr(err, "between 3 and 4"));
}

/* ---- names ---- */

static void an_unknown_name_lists_what_there_is(void **state)
{
    (void)state;
    put("t.csv", "t,y,other one\n0,1,2\n1,2,3\n");
    fails(
        "fit 'a*exp(-k*t)' t.csv --param a=1", 2,
        "column 8: unknown name 'k'; parameters: a; columns: t, y, other one; --param k=1 makes it a parameter, "
        "--fix k=1 a constant");
    fails("fit 'a*exp(-rat*t)' t.csv --param a=1 --fix rate=1", 2,
          "unknown name 'rat', did you mean 'rate'?; parameters: a; constants: rate; columns: t");
    fails("fit 'a*t' t.csv --param a=1 --exclude 'q>1'", 2,
          "--exclude: column 1: unknown name 'q'; columns: t, y");
    assert_null(strstr(err, "--param"));
    fails(
        "minimize 'x^2+q' --param x=1 --data z=1", 2,
        "unknown name 'q'; parameters: x; constants: z; --param q=1 makes it a parameter, --data q=1 a constant");
    fails(ROSENBROCK "--equal 'x-q'", 2,
          "--equal: column 3: unknown name 'q'; parameters: x, y; --param q=1");
    fails("eval 'q'", 2, "unknown name 'q'; --param q=1 makes it a parameter");
}

/* Of many only some, and no more than a line of the error holds. */
static void many_names_are_listed_in_part(void **state)
{
    (void)state;
    FILE *f = fopen("wide.csv", "w");
    for (int i = 0; i < 2000; i++) fprintf(f, "%sa_column_with_a_long_name_%d", i ? "," : "", i);
    fputc('\n', f);
    for (int i = 0; i < 2000; i++) fprintf(f, "%s1", i ? "," : "");
    fputc('\n', f);
    fclose(f);
    fails("fit 'a*q' wide.csv --y a_column_with_a_long_name_0 --param a=1", 2,
          "a_column_with_a_long_name_11 and 1988 more; --param q=1 makes it a parameter");
}

/* ---- replayed ---- */

/* Expressions are recorded once and replayed: the same numbers as without, in as many evaluations. */
static void a_replayed_run_has_the_numbers_of_one_that_is_not(void **state)
{
    (void)state;
    static const char *const commands[] = {
        ROSENBROCK "--json",
        "minimize 'log(cosh(x - y)) + (x + 0.3)^2 + exp(-y)' --param x=2 --param y=-1 --json",
        "minimize '[x - 1, 10*(y - x^2), sin(x)*y]' --param x=-1.2 --param y=1 --json",
        "minimize 'sum((x[1:] - x[:-1]^2)^2) + sum(tanh(x)^2)' --param x='0.3*ones(300)' --steps 20 --json"};
    static const char *const ways[] = {"off", "check", "on"};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        double loss = 0, evaluations = 0;
        for (int way = 0; way < 3; way++) {
            assert_int_equal(setenv("GRADUS_TRACE", ways[way], 1), 0);
            (void)gradus(commands[i]);
            assert_int_equal(unsetenv("GRADUS_TRACE"), 0);
            if (!*out || strstr(err, "trace")) fail_msg("gradus %s: %s", commands[i], err);
            if (way && (json_number("loss") != loss || json_number("evals") != evaluations))
                fail_msg("gradus %s: GRADUS_TRACE=%s differs", commands[i], ways[way]);
            loss = json_number("loss");
            evaluations = json_number("evals");
        }
    }
}

static void the_report_says_which_derivatives_were_used(void **state)
{
    (void)state;
    static const struct {
        const char *options, *used;
    } cases[] = {{"", "exact"},
                 {"--gradient differences", "differences"},
                 {"--gradient none --steps 20", "none"},
                 {"--chain 'nelder_mead' --gradient none --steps 20", "none"},
                 {"--chain 'fdm | bfgs | backtracking'", "differences"},
                 {"--chain 'newton'", "exact"},
                 {"--subject 'x+y <= 1'", "exact"}};
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char command[200], line[60];
        snprintf(command, sizeof command, "minimize '(x-1)^2+y^2' --param x=5 --param y=3 %s --json",
                 cases[i].options);
        works(command);
        snprintf(line, sizeof line, "\"derivatives\": \"%s\"", cases[i].used);
        if (!strstr(out, line)) fail_msg("%s: %s is not in %s", cases[i].options, line, out);
        command[strlen(command) - strlen(" --json")] = 0;
        works(command); /* the text says it unless they are exact */
        snprintf(line, sizeof line, "derivatives: %s\n", cases[i].used);
        if (!strstr(out, line) != !strcmp(cases[i].used, "exact")) fail_msg("%s: %s", cases[i].options, out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_replayed_run_has_the_numbers_of_one_that_is_not),
        PROGRAM_TEST(lines_of_a_trace_belong_together),
        PROGRAM_TEST(the_condition_is_that_of_the_hessian),
        PROGRAM_TEST(a_saddle_is_not_called_a_minimum),
        PROGRAM_TEST(a_loss_that_is_no_number_has_no_sign),
        PROGRAM_TEST(no_condition_is_said_where_none_is_known),
        PROGRAM_TEST(the_report_says_which_derivatives_were_used),
        PROGRAM_TEST(bounds_hold_beside_a_box_of_the_chain),
        PROGRAM_TEST(an_unknown_name_lists_what_there_is),
        PROGRAM_TEST(many_names_are_listed_in_part),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
