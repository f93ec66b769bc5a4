/* gradus minimize under constraints that are written as comparisons; where each solution is known in closed form. */
#include "program.h"

#define RANGE "minimize '(x-2)^2+(y-1)^2' --param x=2 --param y=2 --json "

static void ends_near(const char *arguments, const char *key, double want)
{
    works(arguments);
    double got = json_number_in("params", key);
    if (!(fabs(got - want) <= 1e-5)) fail_msg("gradus %s: %s is %.10g, not %.10g", arguments, key, got, want);
}

/* The nearest point of a line, a half-plane, a strip or a hyperbola to (2, 1): the same whichever way it is written. */
static void every_way_to_write_a_constraint_means_it(void **state)
{
    (void)state;
    static const struct {
        const char *option;
        double x, y;
    } rows[] = {
        {"--below 'x+y-1'", 1, 0},
        {"--below 'x+y<=1'", 1, 0},
        {"--below 'x+y<1'", 1, 0},
        {"--below 'x + y <= 1;'", 1, 0},
        {"--below '1 >= x+y'", 1, 0},
        {"--below '1 > x+y'", 1, 0},
        {"--below '0 >= x+y-1'", 1, 0},
        {"--subject 'x+y <= 1'", 1, 0},
        {"--subject 's = x+y; s <= 1'", 1, 0},
        {"--subject 's = x+y; 1 >= s'", 1, 0},
        {"--subject 'both(u) = u + y; both(x) <= 1'", 1, 0},
        {"--subject 'x+y <= 1 # a comment; with a semicolon'", 1, 0},
        {"--equal 'x+y-1'", 1, 0},
        {"--equal 'x+y=1'", 1, 0},
        {"--equal 'x+y==1'", 1, 0},
        {"--equal '1 = x+y'", 1, 0},
        {"--subject 'x+y = 1'", 1, 0},
        {"--subject 'x+y == 1'", 1, 0},
        {"--subject 'x = 1'", 1, 1},
        {"--subject 'x == 1'", 1, 1},
        {"--subject 'x = y = 1'", 1, 1},
        {"--subject 'x = 0 = y'", 0, 0},
        {"--subject '-1 <= x <= 1'", 1, 1},
        {"--subject '5 >= x+y >= 4'", 2.5, 1.5},
        {"--subject '4 <= x+y <= 5 <= 2*x'", 2.5, 1.5},
        {"--subject 'x <= 1' --subject 'y = 3'", 1, 3},
        {"--below 'x <= 1' --equal 'y = 3' --subject '0 <= x'", 1, 3},
        {"--subject '[x, y] <= [1, 0.5]'", 1, 0.5},
        {"--subject '[x, y] = 0.5'", 0.5, 0.5},
        {"--below '[x, y] - [1, 0.5]'", 1, 0.5},
        {"--subject '(x > 0 ? x : -x) <= 1'", 1, 1},
        {"--data c=1 --subject 'x <= c'", 1, 1},
        {"--subject 'x <= 1 + 0*y'", 1, 1},
        {"--subject 'exp(x) = 1'", 0, 1},
        {"--equal 'sum(x)=1'", 1, 1},
        {"--subject 'twice(u) = 2*u; twice(x) = 2'", 1, 1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[400];
        snprintf(command, sizeof command, RANGE "%s", rows[i].option);
        ends_near(command, "x", rows[i].x);
        ends_near(command, "y", rows[i].y);
        assert_true(json_number("violation") <= 1e-6);
        assert_true(json_number("constraint_evals") >= 1);
        assert_true(json_number("constraint_evals") <= json_number("evals"));
    }
}

static void an_operator_that_contradicts_its_option_says_what_to_write(void **state)
{
    (void)state;
    static const struct {
        const char *option, *text;
    } rows[] = {
        {"--equal 'x+y <= 1'", "--equal: column 5: '<=' is an inequality; write --below 'x+y <= 1'"},
        {"--equal 'x > 1'", "--equal: column 3: '>' is an inequality; write --below 'x > 1'"},
        {"--below 'x+y==1'", "--below: column 4: '==' is an equality; write --equal 'x+y==1'"},
        {"--below 'x = 1'", "--below: column 3: '=' is an equality; write --equal 'x = 1'"},
        {"--below '0 <= x = y'", "--below: column 8: '=' is an equality; write --subject '0 <= x = y'"},
        {"--equal '0 = x <= y'", "--equal: column 7: '<=' is an inequality; write --subject '0 = x <= y'"},
        {"--subject 'x != 1'", "--subject: column 3: '!=' leaves nothing to hold on to"},
        {"--subject 'x + y'", "--subject 'x + y': there is no comparison in it"},
        {"--subject '1 <= 2 <= x'", "--subject '1 <= 2 <= x': no parameter is in it"},
        {"--subject 'x <= '", "--subject: column 6: a number, a name or '(' expected"},
        {"--subject 'x + q <= 1'", "--subject: column 5: unknown name 'q'; parameters: x, y"},
        {"--subject '[x,y,x] <= [1,2]'", "--subject: column 9: "},
        {"--subject ''", "--subject: column 1"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[400];
        snprintf(command, sizeof command, RANGE "%s", rows[i].option);
        fails(command, 2, rows[i].text);
    }
}

/* True and false count as 1 and 0 in arithmetic, and as nothing where a loss, a constraint or a model is wanted. */
static void what_is_true_or_false_is_no_number(void **state)
{
    (void)state;
    put("d.csv", "t,y\n0,1\n1,2\n2,3\n3,5\n");
    put("t.jsonl", "{\"step\":1,\"loss\":2,\"evals\":1,\"params\":{\"x\":1,\"y\":2}}\n"
                   "{\"step\":2,\"loss\":1,\"evals\":2,\"params\":{\"x\":2,\"y\":1}}\n");
#define X "minimize 'x^2' --param x=2 "
    static const struct {
        const char *command, *text;
    } rows[] = {
        {"minimize 'x > 1' --param x=2",
         "expression: column 3: the value is true or false, which is no loss"},
        {"minimize 'x > 1 && x < 3' --param x=2", "expression: column 7: the value is true or false"},
        {"minimize '!(x > 1)' --param x=2", "expression: column 1: the value is true or false"},
        {"minimize 'b = x > 1; b' --param x=2", "expression: column 7: the value is true or false"},
        {"minimize '[x > 1, x < 2]' --param x=2", "expression: column 1: the value is true or false"},
        {"minimize '(x > [1, 2])[0]' --param x=2", "expression: column 13: the value is true or false"},
        {"minimize 'max(x > [1, 2])' --param x=2", "expression: column 1: the value is true or false"},
        {"minimize 'x > 1 ? x : x < 3' --param x=2", "expression: column 7: the value is true or false"},
        {"minimize 'x > 1' --param x=2 --gradient none", "the value is true or false, which is no loss"},
        {X "--below '(x <= 1)'", "--below: column 4: the value is true or false, which is no constraint"},
        {X "--equal '(x == 1)'", "--equal: column 4: the value is true or false, which is no constraint"},
        {X "--subject 'x <= 1 && x >= 0'", "--subject: column 8: the value is true or false"},
        {X "--below 'x > 0 ? x : -x <= 1'", "--below: column 7: the value is true or false"},
        {X "--subject '(x > 0) <= 1'", "--subject: column 9: one side is a comparison"},
        {X "--subject '0 <= 1 <= (x < 1)'", "--subject: column 8: one side is a comparison"},
        {X "--below 'sum(x > [0, 1]) - 1'",
         "--below 'sum(x > [0, 1]) - 1': it has no derivative by any parameter"},
        {"fit 'a*t > 1' d.csv --param a=1",
         "expression: column 5: the value is true or false, which is no model"},
        {"fit 'y = a*t > 1' d.csv --param a=1", "one side is a comparison, true or false"},
        {"fit '2*y = a*t > 1' d.csv --param a=1", "one side is a comparison, true or false"},
        {"fit 'a*t' d.csv --param a=1 --derive 'big=a>1'", "--derive: column 2: the value is true or false"},
        {"plot t.jsonl --expr 'x > y' --out p.svg", "--expr: column 3: the value is true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int code = gradus(rows[i].command);
        if (code == 0 || !strstr(err, rows[i].text) || *out)
            fail_msg("gradus %s: exit %d, says %s%s, want %s", rows[i].command, code, out, err, rows[i].text);
    }
    assert_false(exists("p.svg"));
    works("minimize '(x-2)^2*(x > 1) + (x-2)^2*(x <= 1)' --param x=3");
    works("eval 'x > 1' --param x=2");
}

static void constraints_have_names_in_the_results(void **state)
{
    (void)state;
    works(RANGE
          "--below 'x*y <= 100' --subject '0 <= x + y <= 1' --equal 'x - y = 1' --subject '[x, y] >= -9'");
    static const char *const texts[] = {
        "\"constraints\": [{\"text\": \"x - y = 1\", \"option\": \"equal\", \"kind\": \"equal\", \"values\": [",
        "{\"text\": \"x*y <= 100\", \"option\": \"below\", \"kind\": \"below\", \"values\": [",
        "{\"text\": \"0 <= x + y\", \"option\": \"subject\", \"kind\": \"below\", \"values\": [",
        "{\"text\": \"x + y <= 1\", \"option\": \"subject\", \"kind\": \"below\", \"values\": [",
        "{\"text\": \"[x, y] >= -9\", \"option\": \"subject\", \"kind\": \"below\", \"values\": [",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!strstr(out, texts[i])) fail_msg("no %s in %s", texts[i], out);
    const char *multipliers = strstr(out, "\"multipliers\": {\"equal\": ["), *end;
    assert_non_null(multipliers);
    double l = strtod(multipliers + 26, (char **)&end);
    assert_non_null(strstr(end, "], \"below\": ["));
    /* (2(x-2), 2(y-1)) = -m (1, 1) - l (1, -1) at (1, 0) */
    assert_true(fabs(l) < 1e-4);
    works("minimize '(x-2)^2' --param x=0 --below 'x <= 1'");
    const char *one = strstr(out, "\nmultiplier of --below 'x <= 1': ");
    assert_true(one && fabs(strtod(one + 33, NULL) - 2) < 1e-4);
    works("minimize 'sum((x-2)^2)' --param x=[0,0] --subject 'x <= 1'");
    const char *two = strstr(out, "\nmultipliers of --subject 'x <= 1': ");
    assert_true(two && fabs(strtod(two + 36, (char **)&end) - 2) < 1e-4 &&
                fabs(strtod(end, NULL) - 2) < 1e-4);
    assert_int_equal(gradus("minimize 'x^2' --param x=0 --subject 'x^2 <= -1'"), 1);
    assert_non_null(strstr(out, "multiplier of --subject 'x^2 <= -1': "));
    assert_non_null(strstr(out, "; violated by 1\n"));
}

/* x + y least on the circle of radius^2 2 + b: -sqrt((2 + b) / 2) each, so d x / d b = -1/4; z stays where its constraint has room. */
static void sensitivities_are_printed_if_they_are_asked_for(void **state)
{
    (void)state;
#define CIRCLE                                                                              \
    "minimize 'x + y + (z-1)^2' --param x=-0.5 --param y=-0.7 --param z=0 --sensitivities " \
    "--below 'x^2 + y^2 <= 2' --below '[z - 5]' "
    works(CIRCLE "--json");
    const char *x = strstr(out, "\"sensitivities\": {\"x\": [["), *y = x ? strstr(x, "\"y\": [[") : NULL;
    assert_true(y && fabs(strtod(x + 25, NULL) + 0.25) < 1e-6 && fabs(strtod(y + 7, NULL) + 0.25) < 1e-6);
    assert_non_null(strstr(y, "\"sensitivities\": {\"x\": [[0]], \"y\": [[0]], \"z\": [[0]]}"));
    works(CIRCLE);
    assert_non_null(strstr(out, "\n  moves x -0.25 per unit of its right-hand side\n"));
    works("minimize '(x-2)^2' --param x=0 --below 'x - 1' --json");
    assert_null(strstr(out, "sensitivities"));
    assert_int_equal(gradus("minimize 'x^2' --param x=1 --sensitivities"), 2);
    assert_non_null(
        strstr(err, "--sensitivities are those of --subject, --equal and --below, and none is given"));
}

/* (x^2 - 1)^2 + 0.3 x: from the higher well on the right. */
static void several_starts_go_with_constraints(void **state)
{
    (void)state;
#define WELLS \
    "minimize '(x^2-1)^2 + 0.3*x + (y-x)^2' --param x=1 --param y=1 --bound '-2<x<2' --starts 8 --json "
    static const struct {
        const char *option;
        double x;
    } rows[] = {
        {"--subject 'x >= -0.5' --subject 'y <= 9'", 0.96014954},
        {"--subject 'x <= 5'", -1.03557880},
        {"--subject 'x^2 >= 3'", -1.7320508},
        {"--equal 'x + y = 0' --below 'x <= 0'", 0}, /* 4 x (x^2 - 1) + 0.3 + 8 x = 0 has its root beside 0 */
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char command[400];
        snprintf(command, sizeof command, WELLS "%s", rows[i].option);
        works(command);
        double x = json_number_in("params", "x"), want = rows[i].x;
        if (i == 3 ? !(fabs(4 * x * x * x + 4 * x + 0.3) < 1e-4) : !(fabs(x - want) < 1e-5))
            fail_msg("gradus %s: x is %.10g, not %.10g", command, x, want);
        assert_true(json_number("violation") <= 1e-6);
        assert_non_null(strstr(out, "\"converged\": true"));
        assert_non_null(strstr(out, "the lowest of 8 starts"));
    }
    assert_int_equal(gradus("minimize 'x^2' --param x=1 --subject 'x^2 <= -1' --starts 3"), 1);
    assert_non_null(strstr(err, "no point was found that satisfies the constraints"));
    assert_int_equal(gradus("minimize 'x' --param x=1 --subject 'x <= 1' --starts 2"), 1);
    assert_non_null(strstr(err, "the loss falls without end"));
    fails("minimize 'x^2' --param x=1 --subject 'x >= 0.5' --chain 'multi_start([lbfgs | strong_wolfe])'", 1,
          "multi_start: it is inside augmented_lagrangian");
}

/* A constraint that is no number where the run starts is named as it was written; one of several starts may be such a point. */
static void constraints_have_a_domain(void **state)
{
    (void)state;
    fails("minimize '(x-5)^2' --param x=-1 --subject 'x <= 9' --subject 'sqrt(x-1) >= 0.1'", 1,
          "--subject 'sqrt(x-1) >= 0.1': it is not a number where the parameters start");
    fails("minimize '(x-5)^2' --param x=0 --equal '1/x - 0.5'", 1,
          "--equal '1/x - 0.5': it is infinite where the parameters start");
    works("minimize '(x-5)^2' --param x=2 --bound '-3<x<6' --subject 'log(x) <= 1' --starts 6 --json");
    assert_true(fabs(json_number_in("params", "x") - exp(1)) < 1e-6);
    works("minimize '(x-5)^2' --param x=2 --bound '-3<x<6' --subject 'sqrt(x-1) >= 0.1' --starts 6 --json");
    assert_true(fabs(json_number_in("params", "x") - 5) < 1e-6);
}

/* x is in the loss, y in a constraint. */
static void a_parameter_may_be_in_a_constraint_alone(void **state)
{
    (void)state;
    static const char *const options[] = {"", "--starts 3", "--chain 'bfgs | backtracking'",
                                          "--gradient differences"};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char command[200];
        snprintf(command, sizeof command,
                 "minimize '(x-2)^2' --param x=0 --param y=5 --equal 'y = x+1' --json %s", options[i]);
        ends_near(command, "x", 2);
        ends_near(command, "y", 3);
    }
    works("minimize '(x-2)^2' --param x=0 --param y=5 --subject 'x <= y' --json --bound 'y<1'");
    assert_true(fabs(json_number_in("params", "x") - 1) < 1e-5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(every_way_to_write_a_constraint_means_it),
        PROGRAM_TEST(an_operator_that_contradicts_its_option_says_what_to_write),
        PROGRAM_TEST(what_is_true_or_false_is_no_number),
        PROGRAM_TEST(constraints_have_names_in_the_results),
        PROGRAM_TEST(sensitivities_are_printed_if_they_are_asked_for),
        PROGRAM_TEST(several_starts_go_with_constraints),
        PROGRAM_TEST(constraints_have_a_domain),
        PROGRAM_TEST(a_parameter_may_be_in_a_constraint_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
