/* gradus fit --export: the C and Python it writes compute what gradus predict computes. */
#include "expr/expr_internal.h"

#include "cli/program.h"

#define ROWS 7

static const double places[ROWS] = {-2.5, -1, -0.25, 0, 0.5, 1.75, 3};

/* Functions over arrays and those that C and Python lack. */
static const char *const without_form[] = {"besselj", "digamma",  "sum",     "mean",      "prod",
                                           "dot",     "norm",     "softmax", "logsumexp", "log_softmax",
                                           "cumsum",  "T",        "reshape", "solve",     "inverse",
                                           "logdet",  "diagonal", "ode",     "ode_stiff"};

static bool takes_two(const char *name)
{
    static const char *const names[] = {"atan2", "hypot", "logaddexp", "max", "min"};
    for (int i = 0; i < COUNT_OF(names); i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

static bool is_without(const char *name)
{
    for (int i = 0; i < COUNT_OF(without_form); i++)
        if (!strcmp(without_form[i], name)) return true;
    return false;
}

/* Operators, precedence, parts used twice, conditions, indices, functions of one's own, odd names. */
static const char *const models[] = {
    "a - (b - x) - -x",
    "-x^2 + (-x)^2 - a^-2 * b^x",
    "a / (b / (x + 9)) / 2 - a/b*x",
    "2^3^x + (2^x)^3 + a^2.5 - b^0.5",
    "x > 0 ? a*x : b > 1 ? x/2 : -x",
    "(x > 0 && x < 2) + 2*(x <= -1 || !(x != 0)) + (x >= 3)*a - (x == 0)*b",
    "x % a + x % -b + (x+8) % 3",
    "u = exp(-a*x^2); v = u/(1 + u); v*(1 - v) + b*u",
    "f(t, k) = k*t^2/(1 + t^2); f(x, a) - f(x - b, 2)",
    "sum(k=1..4, a^k * x^k / k) + b",
    "max(a*x, b, -1) - min(x, a, 0.5)",
    "atan2(a*x, b + x^2) + 1e-300*b + 1e22*a*0 + 123456789012*x*1e-12",
    "a*1.5e-7 - b*(x - 1) * -2 + -3*x - 2*-x",
    "where(x < a, x^3, b) * -(x - 1)",
};

static char all[1 << 16];

static double expected[100][ROWS];

static void write_tables(void)
{
    FILE *f = fopen("d.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < ROWS; i++) fprintf(f, "%.17g,%g\n", places[i], 1 + 0.1 * i);
    assert_int_equal(fclose(f), 0);
}

/* Exports the model as f0.c, f0.py; what it gives goes to expected[0].  False: there is no form. */
static bool export_model(int number, const char *model)
{
    char command[600];
    (void)snprintf(
        command, sizeof command,
        "fit '%s' d.csv --param a=0.8 --param b=1.7 --steps 1 --out fit.safetensors --export f%d.c --export "
        "f%d.py --export f%d.tex",
        model, number, number, number);
    if (gradus(command)) {
        if (!strstr(err, "this has no form in C")) fail_msg("gradus %s: %s", command, err);
        assert_false(exists("fit.safetensors")); /* said before the fit */
        return false;
    }
    works("predict fit.safetensors d.csv");
    const char *line = out;
    for (int i = 0; i < ROWS; i++) {
        line = strchr(line, '\n') + 1;
        expected[number][i] = strtod(line, NULL);
    }
    (void)remove("fit.safetensors");
    return true;
}

static void compare(const char *what, int count)
{
    char *at = all;
    for (int k = 0; k < count; k++)
        for (int i = 0; i < ROWS; i++) {
            double got = strtod(at, &at), want = expected[k][i];
            if (!(fabs(got - want) <= 1e-12 * fmax(1, fabs(want))) && !(isnan(got) && isnan(want)))
                fail_msg("%s: f%d(%g) = %.17g, want %.17g", what, k, places[i], got, want);
        }
}

#ifndef GD_TEST_RUN /* what runs a program that was compiled here; see tests/CMakeLists.txt */
#define GD_TEST_RUN ""
#endif

static void run_c(int count)
{
    FILE *f = fopen("main.c", "w");
    assert_non_null(f);
    fprintf(f, "#include <stdio.h>\n");
    for (int k = 0; k < count; k++) fprintf(f, "double f%d(double x);\n", k);
    fprintf(f, "int main(void)\n{\n    const double x[] = {");
    for (int i = 0; i < ROWS; i++) fprintf(f, "%.17g,", places[i]);
    fprintf(f, "};\n");
    for (int k = 0; k < count; k++)
        fprintf(f, "    for (int i = 0; i < %d; i++) printf(\"%%.17g\\n\", f%d(x[i]));\n", ROWS, k);
    fprintf(f, "    return 0;\n}\n");
    assert_int_equal(fclose(f), 0);
    /* without warnings, too */
    assert_int_equal(
        system(
            "cc -std=c11 -Wall -Wextra -Werror -Wno-unused-variable -o main main.c f*.c -lm && " GD_TEST_RUN
            "./main >values.txt"),
        0);
    slurp("values.txt", all, sizeof all);
    compare("C", count);
}

static void run_python(int count)
{
    if (system("python3 -c 'import math' 2>/dev/null") != 0) return;
    FILE *f = fopen("main.py", "w");
    assert_non_null(f);
    for (int k = 0; k < count; k++) fprintf(f, "from f%d import f%d\n", k, k);
    fprintf(f, "for f in [");
    for (int k = 0; k < count; k++) fprintf(f, "f%d,", k);
    fprintf(f, "]:\n    for x in [");
    for (int i = 0; i < ROWS; i++) fprintf(f, "%.17g,", places[i]);
    fprintf(f, "]:\n        print(repr(float(f(x))))\n");
    assert_int_equal(fclose(f), 0);
    assert_int_equal(system("python3 main.py >values.txt"), 0);
    slurp("values.txt", all, sizeof all);
    compare("Python", count);
}

static void what_is_exported_computes_the_same(void **state)
{
    (void)state;
    write_tables();
    for (int k = 0; k < COUNT_OF(models); k++)
        if (!export_model(k, models[k])) fail_msg("%s: %s", models[k], err);
    run_c(COUNT_OF(models));
    run_python(COUNT_OF(models));
}

/* Every function of the language has a form, or is known to have none. */
static void every_function_of_a_number_is_exported(void **state)
{
    (void)state;
    int count = 0;
    write_tables();
    for (int i = 0; gd_expr_function(i, NULL); i++) {
        const char *name = gd_expr_function(i, NULL);
        char model[200];
        bool two = takes_two(name), three = !strcmp(name, "where"), whole = !strcmp(name, "besselj");
        /* inside (0.1, 0.9): defined for all of them but one, which wants more than 1 */
        (void)snprintf(model, sizeof model, "a + b*%s(%s%s + 0.08*x%s)", name, whole ? "2, " : "",
                       strcmp(name, "acosh") ? "0.5" : "1.5",
                       three ? ", x, 2"
                       : two ? ", 0.4*b"
                             : "");
        if (is_without(name)) {
            if (whole || !strcmp(name, "digamma")) assert_false(export_model(count, model));
            continue;
        }
        if (!export_model(count, model)) fail_msg("%s: %s", name, err);
        count++;
    }
    assert_true(count > 30);
    run_c(count);
    run_python(count);
}

/* Vectors, constants, several columns, names that mean something elsewhere. */
static void names_and_arrays_are_made_to_fit(void **state)
{
    (void)state;
    put("odd.csv", "the time,lambda,y\n1,2,3\n2,1,4\n3,5,2\n4,4,7\n5,1,2\n");
    works(
        "fit 'p[0]*`the time` + p[-1]*lambda + q[1,0]*double + exp(tau_max)*0' odd.csv --param p=[1,2,3] --param q=[[0,1],[2,3]] "
        "--param double=1 --param tau_max=1 --steps 1 --export while.c --export my-fit.py --export t.tex --json");
    double p0 = json_number_in("params", "p");
    assert_int_equal(system("cc -std=c11 -Wall -Werror -Wno-unused-variable -c while.c"), 0);
    slurp("while.c", out, sizeof out);
    assert_non_null(strstr(out, "double while_(double the_time, double lambda_)"));
    assert_non_null(strstr(out, "const double q[4] = {"));
    assert_non_null(strstr(out, "p[2] * lambda_"));
    assert_non_null(strstr(out, "q[2] * double_"));
    double back = strtod(strstr(out, "p[3] = {") + 8, NULL);
    assert_true(back == p0);
    slurp("my-fit.py", out, sizeof out);
    assert_non_null(strstr(out, "def my_fit(the_time, lambda_, p=("));
    slurp("t.tex", out, sizeof out);
    assert_non_null(strstr(out, "p_{0} \\, \\mathrm{thetime}"));
    assert_non_null(strstr(out, "\\tau_{max}"));
    assert_non_null(strstr(out, "\\begin{tabular}"));
    fails("fit 'a*lambda' odd.csv --param a=1 --export f.rs", 2,
          "--export f.rs: .c, .py or .tex is expected");
    fails("fit 'a*lambda' odd.csv --param a=1 --export .c", 2, ".c, .py or .tex is expected");
    fails("fit 'a*lambda/mean(lambda)' odd.csv --param a=1 --export f.c", 2,
          "expression: column 10: this has no form in C");
    fails("fit 'a*lambda' odd.csv --param a=1 --export no/f.c", 1, "no/f.c");
    fails("fit 'a*lambda' odd.csv --param a=1 --export f.c --export f.c", 2, "are the same file");
    assert_false(exists("f.c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(what_is_exported_computes_the_same),
        PROGRAM_TEST(every_function_of_a_number_is_exported),
        PROGRAM_TEST(names_and_arrays_are_made_to_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
