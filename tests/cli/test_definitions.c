/* Definitions of --def and what they may not do: need themselves, or nest so deep that the stack ends. */
#include "expr/expr_internal.h"
#include "fit_program.h"

/* ode inside definitions: u' = -k u from 1 is exp(-k t), x'' = -k x from 1 is cos(sqrt(k) t). */
static void an_ode_may_be_a_definition(void **state)
{
    (void)state;
    put("one.gd", "c = ode(\"u' = -u\", 1, [0,1]);\n");
    works("eval 'sum(c)' --def one.gd --json");
    check("", "value", 1 + exp(-1), 1e-8);
    put("more.gd", "k = 2; # the rate; of decay\n"
                   "c = ode(\"u' = -k*u\", 1, [0,1]);\n"
                   "d = ode(\"u' = -c[1]*u\", 1, [0,1]);\n" /* needs another one */
                   "f(t) = ode(\"x' = v; v' = -x*k\", [1, 0], t)[0];\n");
    works("eval 'd[1]' --def more.gd --json");
    check("", "value", exp(-exp(-2)), 1e-8);
    works("eval 'f(3)' --def more.gd --json");
    check("", "value", cos(3 * sqrt(2)), 1e-8);
    works("eval 'ode(\"u'\"'\"' = -d[1]*k*u\", 1, 1)' --def more.gd --json");
    check("", "value", exp(-2 * exp(-exp(-2))), 1e-8);
}

/* c_i = exp(-c_(i-1) c_(i-2) / 2): read once each, whatever needs them. */
static void many_odes_that_need_each_other_are_read_once(void **state)
{
    (void)state;
    char text[8000];
    size_t used = (size_t)snprintf(text, sizeof text, "c0 = 1; c1 = 0.5;\n");
    double c[60] = {1, 0.5};
    for (int i = 2; i < 60; i++) {
        c[i] = exp(-c[i - 1] * c[i - 2] / 2);
        used += (size_t)snprintf(text + used, sizeof text - used, "c%d = ode(\"u' = -c%d*c%d*u\", 1, 0.5);\n",
                                 i, i - 1, i - 2);
    }
    put("many.gd", text);
    works("eval 'c59' --def many.gd --json");
    check("", "value", c[59], 1e-8);
}

/* A name in a function is that of the function's own place, in the equations of an ode too. */
static void names_in_an_ode_are_those_of_their_place(void **state)
{
    (void)state;
    put("place.gd", "k = 2;\ng(u) = -k*u;\nf(k, t) = ode(\"v' = g(v)\", 1, k*t);\nk = 5;\n");
    works("eval 'f(3, 0.1)' --def place.gd --json");
    check("", "value", exp(-2 * 0.3), 1e-8);
    put("p.gd", "r = 2*b;\nf(a, t) = a*ode(\"u' = -r*u\", 1, t);\n");
    put("l.csv", "x,y\n0,3\n1,1.1036383235143269\n2,0.40600584970983811\n3,0.14936120510359183\n");
    works("fit 'f(a, x)' l.csv --def p.gd --param a=1 --param b=1 --json");
    check("params", "a", 3, 1e-7);
    check("params", "b", 0.5, 1e-7);
}

static void a_circle_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *value, *says;
    } rows[] = {
        {"c = 2*c;", "c", "c.gd: line 1, column 7: 'c' needs itself: c -> c"},
        {"c = ode(\"u' = -c*u\", 1, [0,1]);", "sum(c)", "'c' needs itself: c -> c"},
        {"f(x) = f(x-1);", "f(2)", "'f' needs itself: f -> f"},
        {"f(x) = ode(\"u' = f(u)\", 1, x);", "f(2)", "'f' needs itself: f -> f"},
        {"a = 2*b;\nb = 3*a;", "a", "line 1, column 7: 'a' needs itself: a -> b -> a"},
        {"a(x) = b(x)+1;\nb(x) = c(x)*2; # a comment; a = b\nc(x) = a(x)", "a(1)",
         "'a' needs itself: a -> b -> c -> a"},
        {"a = b;\nb = ode(\"u' = -a*u\", 1, 1);", "a", "'a' needs itself: a -> b -> a"},
        {"a(x) = d + x;\nd = 3", "a(1)",
         "'d' is defined after its use: its definition belongs before that of 'a'"},
        {"d = 3;", "a = a + 1; a", "'a' needs itself: a -> a"},
        {"d = 3;", "a = e2 + 1; a", "unknown name 'e2'"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[200];
        put("c.gd", rows[i].text);
        (void)snprintf(command, sizeof command, "eval '%s' --def c.gd", rows[i].value);
        fails(command, 2, rows[i].says);
    }
}

/* Whatever opens a level; with a small stack, too. */
static void deep_nesting_is_an_error(void **state)
{
    (void)state;
    static const struct {
        const char *open, *close;
    } levels[] = {{"(", ")"},   {"[", "]"}, {"sin(", ")"}, {"max(1,", ")"},     {"-", ""},
                  {"1?", ":0"}, {"2^", ""}, {"[1][", "]"}, {"sum(k=1..1,", ")"}};
#ifdef __SANITIZE_ADDRESS__
    static const int stacks[] = {0}; /* a sanitizer wants a stack of its own size */
#else
    static const int stacks[] = {0, 256, 128};
#endif
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
        for (int n = 150; n <= 5000; n *= 33)
            for (size_t s = 0; s < sizeof stacks / sizeof *stacks; s++) {
                FILE *f = fopen("deep.sh", "w");
                assert_non_null(f);
                if (stacks[s]) (void)fprintf(f, "ulimit -s %d\n", stacks[s]);
                (void)fprintf(f, "%s eval '0+", GD_CLI);
                for (int k = 0; k < n; k++) (void)fputs(levels[i].open, f);
                (void)fputs("0", f);
                for (int k = 0; k < n; k++) (void)fputs(levels[i].close, f);
                (void)fputs("' >stdout.txt 2>stderr.txt\n", f);
                (void)fclose(f);
                int code = system("sh deep.sh");
                slurp("stderr.txt", err, sizeof err);
                if (!WIFEXITED(code) || WEXITSTATUS(code) > 2 || (n > 400 && !strstr(err, "nested too deep")))
                    fail_msg("%d x %s, stack of %d kB: %d: %.200s", n, levels[i].open, stacks[s], code, err);
            }
}

/* A shell may allow less stack than a step needs: 192 kB. */
static void a_small_stack_is_enough(void **state)
{
    (void)state;
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    static const char *const commands[] = {
        "minimize '(x-1)^2 + (y-2)^2' --param x=5 --param y=5",
        "minimize '(x-1)^2 + (y-2)^2' --param x=5 --param y=5 --subject 'x <= 0' --bound 'y<1'",
        "fit 'a + b*x' s.csv --param a=1 --param b=1 --intervals bootstrap:200 --threads 2",
        "fit 'a + b*x' s.csv --param a=1 --param b=1 --chain 'adam | lr(0.1)'",
        "train s.csv --target y --epochs 2 --validation 0 --threads 2"};
    put("s.csv", "x,y\n1,2\n2,3\n3,5\n4,5.5\n5,7\n6,7.5\n");
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        for (int size = 64; size <= 128; size += 64) {
            char text[600];
            snprintf(text, sizeof text, "ulimit -s %d\n%s %s >stdout.txt 2>stderr.txt\n", size, GD_CLI,
                     commands[i]);
            put("small.sh", text);
            int code = system("sh small.sh");
            slurp("stderr.txt", err, sizeof err);
            if (code) fail_msg("%s, stack of %d kB: %d: %.200s", commands[i], size, code, err);
        }
}

/* A sum of many terms is a deep tree, which is written by recursion. */
static void long_sums_are_exported_or_refused(void **state)
{
    (void)state;
    put("l.csv", "x,y\n1,2\n2,3\n3,5\n4,5.5\n");
    put("l.sh",
        "ulimit -s 256\n" GD_CLI
        " fit 'a*x + sum(k=1..3000, exp(-k*x*x))' l.csv --param a=1 --export m.c >stdout.txt 2>stderr.txt\n");
#ifdef __SANITIZE_ADDRESS__
    skip();
#endif
    int code = system("sh l.sh");
    slurp("stderr.txt", err, sizeof err);
    assert_true(WIFEXITED(code) && WEXITSTATUS(code) == 2);
    assert_non_null(strstr(err, "has no form in C"));
}

static bool reads(gd_ctx *own)
{
    static const char *const good = "c = ode(\"u' = -u\", 1, 1); d = ode(\"u' = -c*u\", 1, 1);";
    gd_expr *e = gd_expr_parse(
        own, "c + d",
        &(gd_expr_options){.names = (const char *[]){"x"}, .count = 1, .definitions = good, .file = "x.gd"});
    bool ok = e != NULL;
    gd_expr_free(e);
    if (!ok) return false;
    assert_null(gd_expr_parse(own, "a",
                              &(gd_expr_options){.names = (const char *[]){"x"},
                                                 .count = 1,
                                                 .definitions = "a = b; b = c; c = a",
                                                 .file = "x.gd"}));
    ok = gd_error(own) == GD_PARSE;
    if (ok) assert_non_null(strstr(gd_error_text(own), "a -> b -> c -> a"));
    if (ok) gd_clear_error(own);
    return ok;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, reads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(an_ode_may_be_a_definition),
        TEST(many_odes_that_need_each_other_are_read_once),
        TEST(names_in_an_ode_are_those_of_their_place),
        TEST(a_circle_is_named),
        TEST(deep_nesting_is_an_error),
        TEST(a_small_stack_is_enough),
        TEST(long_sums_are_exported_or_refused),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
