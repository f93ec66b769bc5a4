/* gradus fit --by and --errors: a row per group, as text, JSON and CSV, with the numbers of single fits. */
#include "cli/program.h"

static void put_wells(void)
{
    FILE *f = fopen("wells.csv", "w");
    fprintf(f, "plate,well,t,y\n");
    for (int i = 0; i < 60; i++) {
        int g = i % 4;
        double t = i / 4 * 0.3;
        fprintf(f, "%s,%d,%g,%.17g\n", g / 2 ? "B" : "A", g % 2, t,
                (2 + g) * exp(-(0.5 + 0.1 * g) * t) + 0.3 + 0.02 * sin(7 * i));
    }
    fclose(f);
}

#define MODEL "fit 'a*exp(-b*t)+c' wells.csv --param a=1 --param b=1 --param c=0 "

static double after(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtod(at + strlen(name), NULL);
}

static void each_group_is_a_row_with_the_numbers_of_its_own_fit(void **state)
{
    (void)state;
    put_wells();
    assert_int_equal(gradus(MODEL "--by plate,well --json --out fits.csv"), 0);
    const char *row = strstr(out, "\"plate\": \"B\", \"well\": 0, \"points\": 15");
    assert_non_null(row);
    double a = after(row, "\"a\": "), error = after(row, "\"b_error\": ");
    assert_non_null(strstr(row, "\"converged\": true"));
    /* the same group alone */
    assert_int_equal(system("(head -1 wells.csv; grep '^B,0,' wells.csv) > one.csv"), 0);
    assert_int_equal(gradus("fit 'a*exp(-b*t)+c' one.csv --param a=1 --param b=1 --param c=0 --json"), 0);
    assert_true(fabs(after(out, "\"a\": ") - a) < 1e-12);
    const char *errors = strstr(out, "\"stderr\"");
    assert_true(fabs(after(errors, "\"b\": ") / error - 1) < 1e-11);
    slurp("fits.csv", out, sizeof out);
    assert_non_null(
        strstr(out, "plate,well,points,a,a_error,b,b_error,c,c_error,rss,sigma,dof,converged,stop\n"));
    assert_int_equal(gradus(MODEL "--by plate"), 0);
    assert_non_null(strstr(out, "\n    A      30  "));
}

static void groups_that_do_not_converge_end_it_with_status_1(void **state)
{
    (void)state;
    put_wells();
    assert_int_equal(gradus(MODEL "--by plate,well --steps 1 --json"), 1);
    assert_non_null(strstr(err, "fit: not converged: 4 of 4 groups, the first in row 1"));
    assert_non_null(strstr(out, "\"stop\": \"MAX_STEPS\""));
}

/* A slope of three measurements in one place, and of one alone: the other group has its numbers all the same. */
static void what_a_group_does_not_determine_has_no_error(void **state)
{
    (void)state;
    put("half.csv", "half,t,y\n0.5,0,1\n0.5,1,2\n0.5,2,3.3\n1.5,1,2\n1.5,1,2.1\n1.5,1,2.2\n2.5,1,2\n");
    assert_int_equal(gradus("fit 'a*t+b' half.csv --param a=1 --param b=1 --by half --json"), 1);
    assert_non_null(strstr(err, "fit: not converged: 2 of 3 groups, the first in row 2"));
    assert_true(fabs(after(strstr(out, "\"half\": 0.5"), "\"a\": ") - 1.15) < 1e-9);
    for (int i = 0; i < 2; i++) {
        const char *row = strstr(out, i ? "\"half\": 2.5" : "\"half\": 1.5");
        assert_non_null(row);
        row = strstr(row, "\"a_error\": ");
        assert_non_null(row);
        assert_int_equal(strncmp(row, "\"a_error\": \"NaN\"", 16), 0);
    }
}

/* A fit that begins where another ended needs fewer steps than --steps allows; bounds of one group hold for it alone. */
static void groups_start_where_a_table_says(void **state)
{
    (void)state;
    put_wells();
    assert_int_equal(gradus(MODEL "--by plate,well --out fits.csv"), 0);
    assert_int_equal(gradus(MODEL "--by plate,well --steps 1 --json"), 1);
    assert_int_equal(gradus(MODEL "--by plate,well --steps 2 --json --group-starts fits.csv"), 0);
    put("own.csv", "plate,well,b_low,b_high\nB,1,0.2,0.3\n");
    assert_int_equal(gradus(MODEL "--by plate,well --json --group-starts own.csv"), 0);
    const char *row = strstr(out, "\"plate\": \"B\", \"well\": 1");
    assert_non_null(row);
    assert_true(after(row, "\"b\": ") == 0.3 && after(out, "\"b\": ") > 0.45);
    assert_int_not_equal(gradus(MODEL "--group-starts own.csv"), 0);
    assert_non_null(strstr(err, "--group-starts is for --by, which is not given"));
    put("own.csv", "plate,q\nB,1\n");
    assert_int_not_equal(gradus(MODEL "--by plate --group-starts own.csv"), 0);
    assert_non_null(strstr(err, "--group-starts: no column is named like a parameter"));
    assert_int_not_equal(gradus(MODEL "--by plate --group-starts none.csv"), 0);
    assert_non_null(strstr(err, "none.csv"));
}

static void what_is_for_one_fit_is_refused(void **state)
{
    (void)state;
    put_wells();
    assert_int_not_equal(gradus(MODEL "--by plat"), 0);
    assert_non_null(strstr(err, "did you mean 'plate'?"));
    assert_int_not_equal(gradus(MODEL "--by plate, --json"), 0);
    assert_non_null(strstr(err, "--by: COLUMN[,COLUMN] expected"));
    assert_int_not_equal(gradus(MODEL "--by plate --out fits.safetensors"), 0);
    assert_non_null(strstr(err, "--out: with --by a .csv or .tsv file"));
    gradus(MODEL "--by plate --residuals left.csv");
    assert_non_null(strstr(err, "--residuals left.csv has no effect here"));
    assert_int_not_equal(gradus(MODEL "--errors white"), 0);
    assert_non_null(strstr(err, "--errors: 'white' is neither usual nor hc3"));
}

/* A[set] has as many numbers as a group has sets, and the table has as many columns as the first group needs. */
static void a_group_with_other_parameters_is_a_row_without_a_fit(void **state)
{
    (void)state;
    put("one.csv", "x,y\n0,1\n1,3\n2,5.1\n");
    put("two.csv", "x,y\n0,1\n1,3\n2,5.4\n");
    assert_int_equal(
        gradus(
            "fit 'p[set]+q*x' one.csv two.csv --param 'p[set]=1' --param q=1 --by set --json --plot f.svg"),
        1);
    assert_non_null(strstr(err, "set = 1: a fit of 3 numbers, other groups have 2"));
    assert_true(fabs(after(strstr(out, "\"set\": 0"), "\"q\": ") - 2.05) < 1e-9);
    assert_non_null(strstr(strstr(out, "\"set\": 1"), "\"stop\": \"ERROR\""));
    assert_true(exists("f.svg"));
}

static int count(const char *text, const char *part)
{
    int found = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) found++;
    return found;
}

/* Points on lines: the curve of each group begins at its first point and ends at its last. */
static void chosen_groups_are_drawn_with_their_curves(void **state)
{
    (void)state;
    static char svg[200000];
    put("lines.csv",
        "who,x,y\na,0,1\nb,0,9\n\"c,d\",0,0\na,1,3.01\nb,1,5.1\n\"c,d\",1,1\na,2,5\nb,2,1\n\"c,d\",2,2.1\n");
#define LINES "fit 'p+q*x' lines.csv --param p=1 --param q=1 --by who --plot f.svg "
    assert_int_equal(gradus(LINES "--groups 'c,d,a'"), 0);
    assert_string_equal(err, "");
    slurp("f.svg", svg, sizeof svg);
    assert_int_equal(count(svg, "<circle"), 2 * 3 + 2); /* and the legend */
    assert_int_equal(count(svg, "stroke-width=\"2\""), 2);
    assert_true(strstr(svg, ">c,d<") && strstr(svg, ">a<") && !strstr(svg, ">b<"));
    assert_int_equal(
        gradus("fit 'p+q*x' lines.csv --param p=1 --param q=1 --by who --exclude 'x == 1' --plot f.svg"), 0);
    slurp("f.svg", svg, sizeof svg);
    const char *at = svg;
    for (int group = 0; group < 3; group++) {
        double x[3], y[3];
        at = strstr(at, "stroke-width=\"2\" d=\"M");
        assert_non_null(at);
        at += strlen("stroke-width=\"2\" d=\"M");
        assert_int_equal(sscanf(at, "%lf %lf", &x[2], &y[2]), 2);
        for (int i = 0; i < 2; i++) {
            at = strstr(at, "<circle");
            assert_int_equal(sscanf(strstr(at, "cx="), "cx=\"%lf\" cy=\"%lf\"", &x[i], &y[i]), 2);
            at++;
        }
        assert_true(fabs(x[0] - x[2]) < 0.02 && fabs(y[0] - y[2]) < 0.02);
    }
}

/* Each way of fitting groups has its own origin of dates; the picture is the same. */
static void dates_of_groups_share_an_axis(void **state)
{
    (void)state;
    static char svg[2][200000];
    put("d.csv", "who,d,y\na,2024-01-01,1\na,2024-01-02,3\na,2024-01-03,5.1\nb,2024-02-01,0\nb,2024-02-02,1\n"
                 "b,2024-02-03,2.1\nb,2024-02-06,5\n");
    for (int k = 0; k < 2; k++) {
        assert_int_equal(
            gradus(k ? "fit 'p+q*d' d.csv --param p=1 --param q=1 --by who --starts 2 --plot f.svg"
                     : "fit 'p+q*d' d.csv --param p=1 --param q=1 --by who --plot f.svg"),
            0);
        slurp("f.svg", svg[k], sizeof svg[k]);
        assert_non_null(strstr(svg[k], ">2024-02-05<"));
    }
    const char *a = svg[0], *b = svg[1];
    for (int i = 0; i < 7; i++) {
        double at[4];
        a = strstr(a, "<circle"), b = strstr(b, "<circle");
        assert_int_equal(sscanf(strstr(a++, "cx="), "cx=\"%lf\" cy=\"%lf\"", &at[0], &at[1]), 2);
        assert_int_equal(sscanf(strstr(b++, "cx="), "cx=\"%lf\" cy=\"%lf\"", &at[2], &at[3]), 2);
        assert_true(fabs(at[0] - at[2]) < 0.02 && fabs(at[1] - at[3]) < 0.02);
    }
}

static void groups_that_are_not_there_are_refused(void **state)
{
    (void)state;
    put_wells();
    static const struct {
        const char *options, *says;
    } wrong[] = {
        {"--by plate --plot f.svg --groups A,Q", "--groups: no group 'Q', there are A, B"},
        {"--by plate,well --plot f.svg --groups A", "--groups: no group 'A', there are A/0, A/1, B/0, B/1"},
        {"--by plate --plot f.svg --groups A,A", "--groups: 'A' is there twice"},
        {"--by plate --plot f.svg --groups A,", "--groups: no group ''"},
        {"--by plate --groups A", "--groups is for --plot, which is not given"},
        {"--plot f.svg --groups A", "--groups is for --by, which is not given"},
        {"--by plate --log y", "--log is for --plot, which is not given"},
        {"--by plate --plot f.gif", "a picture ends in .svg, .png or .pdf"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char command[300];
        (void)snprintf(command, sizeof command, MODEL "%s", wrong[i].options);
        assert_int_equal(gradus(command), 2);
        if (!strstr(err, wrong[i].says)) fail_msg("%s: %s", wrong[i].options, err);
        assert_string_equal(out, ""); /* nothing was fitted */
        assert_false(exists("f.svg"));
    }
    assert_int_equal(gradus("fit 't^2/a^2 + y^2 = 1' wells.csv --param a=1 --by plate --plot f.svg"), 2);
    assert_non_null(strstr(err, "a picture of groups is for models of a y"));
}

static void more_groups_than_colours_are_told(void **state)
{
    (void)state;
    static char svg[400000];
    FILE *f = fopen("many.csv", "w");
    fprintf(f, "g,x,y\n");
    for (int i = 0; i < 40; i++)
        fprintf(f, "%d,%d,%g\n", 1000000 + i / 4, i % 4, i / 4 + i % 4 + 0.1 * (i * i % 3));
    fclose(f);
    assert_int_equal(gradus("fit 'p+q*x' many.csv --param p=1 --param q=1 --by g --plot f.svg"), 0);
    assert_non_null(strstr(err, "the picture shows the first 8 of 10 groups"));
    slurp("f.svg", svg, sizeof svg);
    assert_int_equal(count(svg, "stroke-width=\"2\""), 8);
    assert_null(strstr(svg, "stroke-dasharray"));
    assert_int_equal(
        gradus(
            "fit 'p+q*x' many.csv --param p=1 --param q=1 --by g --plot f.svg --groups 1000000,1000001,1000002,"
            "1000003,1000004,1000005,1000006,1000007,1000008"),
        0);
    slurp("f.svg", svg, sizeof svg);
    assert_non_null(strstr(svg, "stroke-dasharray")); /* the ninth has the colour of the first */
    assert_int_not_equal(
        gradus("fit 'p+q*x' many.csv --param p=1 --param q=1 --by g --plot f.svg --groups 1e+06"), 0);
}

/* y = 1, 2, 4, 8, 16 about their mean: the closed form of HC3. */
static void errors_may_hold_for_unequal_variances(void **state)
{
    (void)state;
    put("y.csv", "x,y\n0,1\n1,2\n2,4\n3,8\n4,16\n");
    assert_int_equal(gradus("fit 'm + 0*x' y.csv --param m=1 --errors hc3 --json"), 0);
    double sum = 0, y[] = {1, 2, 4, 8, 16};
    for (int i = 0; i < 5; i++) sum += pow((y[i] - 6.2) / 0.8, 2) / 25;
    assert_true(fabs(after(strstr(out, "\"stderr\""), "\"m\": ") - sqrt(sum)) < 1e-12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(each_group_is_a_row_with_the_numbers_of_its_own_fit),
        PROGRAM_TEST(groups_that_do_not_converge_end_it_with_status_1),
        PROGRAM_TEST(what_a_group_does_not_determine_has_no_error),
        PROGRAM_TEST(groups_start_where_a_table_says),
        PROGRAM_TEST(what_is_for_one_fit_is_refused),
        PROGRAM_TEST(a_group_with_other_parameters_is_a_row_without_a_fit),
        PROGRAM_TEST(chosen_groups_are_drawn_with_their_curves),
        PROGRAM_TEST(dates_of_groups_share_an_axis),
        PROGRAM_TEST(groups_that_are_not_there_are_refused),
        PROGRAM_TEST(more_groups_than_colours_are_told),
        PROGRAM_TEST(errors_may_hold_for_unequal_variances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
