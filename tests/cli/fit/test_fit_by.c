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
    gradus(MODEL "--by plate --plot fit.svg");
    assert_non_null(strstr(err, "--plot fit.svg has no effect here"));
    assert_int_not_equal(gradus(MODEL "--errors white"), 0);
    assert_non_null(strstr(err, "--errors: 'white' is neither usual nor hc3"));
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
        PROGRAM_TEST(what_is_for_one_fit_is_refused),
        PROGRAM_TEST(errors_may_hold_for_unequal_variances),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
