/* Dates as columns of a model: what they are to it, what is said of them, and how an axis shows them. */
#include "base/text/date.h"
#include "plot/plot_internal.h"
#include "cli/program.h"

/* y is 2 + days / 10, from 2024-02-27 on over the day that comes and goes. */
static const char days[] = ",day,y\n0,2024-02-27,2\n1,2024-02-28,2.1\n2,2024-02-29,2.2\n3,2024-03-01,2.3\n"
                           "4,2024-03-08,3.0\n";
#define FIT "fit 'a+b*day' d.csv --param a=1 --param b=1 "

static void is_line(double a, double b)
{
    if (fabs(json_number_in("params", "a") - a) > 1e-8 * fabs(a) ||
        fabs(json_number_in("params", "b") - b) > 1e-8 * fabs(b))
        fail_msg("want %g, %g: %s", a, b, out);
}

static void a_column_of_dates_counts_days_from_its_origin(void **state)
{
    (void)state;
    put("d.csv", days);
    works(FIT);
    assert_non_null(strstr(out, "\nday in days since 2024-02-27\n"));
    works(FIT "--json");
    assert_non_null(strstr(out, "\"dates\": {\"day\": \"days since 2024-02-27\"}"));
    is_line(2, 0.1);
    works(FIT "--json --dates days:2024-02-17");
    assert_non_null(strstr(out, "\"days since 2024-02-17\""));
    is_line(1, 0.1);
    works(FIT "--json --dates seconds");
    assert_non_null(strstr(out, "\"seconds since 2024-02-27\""));
    is_line(2, 0.1 / 86400);
    works(FIT "--json --exclude 'day > 5'");
    assert_int_equal((int)json_number("points"), 4);
}

static void times_count_seconds(void **state)
{
    (void)state;
    put("d.csv",
        "day,y\n2024-02-28T23:59:58,2\n2024-02-28T23:59:59,3\n2024-02-29T00:00:00,4\n2024-02-29 00:00:04.5,8.5\n");
    works(FIT "--json");
    assert_non_null(strstr(out, "\"seconds since 2024-02-28\""));
    is_line(2 - 86398, 1);
    works(FIT "--json --dates seconds:2024-02-28T23:59:58");
    assert_non_null(strstr(out, "\"seconds since 2024-02-28T23:59:58\""));
    is_line(2, 1);
    put("d.csv", "day,y\n00:01,2\n00:02,3\n00:03,4\n00:04,5\n");
    works(FIT "--json");
    assert_non_null(strstr(out, "\"seconds since 00:00\""));
    is_line(1, 1.0 / 60);
}

static void a_saved_fit_reads_dates_from_the_same_origin(void **state)
{
    (void)state;
    put("d.csv", days);
    works(FIT "--out f.safetensors --residuals r.csv --plot f.png");
    slurp("r.csv", out, sizeof out);
    assert_non_null(strstr(out, "\n4,2024-02-29,2.2"));
    put("n.csv", "day\n2024-03-18\n2023-12-31\n");
    works("predict f.safetensors n.csv");
    double value[2];
    assert_int_equal(sscanf(out, "y,%*[^\n]\n%lf,%*[^\n]\n%lf", &value[0], &value[1]), 2);
    assert_true(fabs(value[0] - 4) < 1e-8 && fabs(value[1] + 3.8) < 1e-8);
    put("n.csv", "day\n2024-03-18\n2024-02-30\n");
    fails("predict f.safetensors n.csv", 1, "n.csv: line 3, column 'day': '2024-02-30' is not a date");
    works(FIT "--export f.py --export f.c --export f.tex");
    slurp("f.c", out, sizeof out);
    assert_non_null(strstr(out, "by gradus fit. day in days since 2024-02-27. */"));
}

static void what_is_no_date_is_named(void **state)
{
    (void)state;
    put("d.csv", days);
    fails(FIT "--dates weeks", 2,
          "--dates: 'weeks' is neither days nor seconds, with an origin as in days:2000-01-01");
    fails(FIT "--dates days:2024-02-30", 2, "--dates: 'days:2024-02-30' is neither days nor seconds");
    fails(FIT "--dates days:12:30", 1, "d.csv: column 'day' holds dates, its origin is a time of day");
    fails("fit 'a+b*y' d.csv --y day --param a=1 --param b=1", 1,
          "column 'day': '2024-02-27' is not a number");
    assert_int_equal(gradus("fit 'a+b*c1' d.csv --param a=1 --param b=1 --dates days"), 0);
    assert_non_null(strstr(err, "--dates")); /* has no effect */
    put("d.csv", "day,y\n2024-02-27,2\n,2.1\n2024-02-29,2.2\n2024-03-01,2.3\n");
    fails(FIT, 1, "d.csv: line 3, column 'day': the cell has no date");
    works(FIT "--missing drop");
    put("d.csv", "day,y\n2024-02-27,2\n3,2.1\n2024-02-29,2.2\n2024-03-01,2.3\n");
    fails(FIT, 1, "d.csv: line 3, column 'day': '3' is not a date");
}

/* ---- names ---- */

static void a_column_without_a_name_is_called_by_its_position(void **state)
{
    (void)state;
    put("d.csv", days);
    works("fit 'a+b*c1' d.csv --param a=1 --param b=1");
    fails("fit 'a+b*x' d.csv --param a=1 --param b=1", 2, "columns: c1, day, y;");
    fails("fit 'a+b*c1' d.csv --param a=1 --param b=1 --y z", 2,
          "the columns are c1, day, y; one without a name is called by its position, c1 for the first");
    put("d.csv", ",c1,,y\n0,5,1,1\n1,3,2,2\n2,4,1,3\n3,9,2,4\n");
    works("fit 'a + b*c1_ + c*c1 + d*c3' d.csv --param a=1 --param b=1 --param c=0 --param d=0 --json");
    is_line(1, 1);
}

/* ---- text and axes ---- */

static void dates_are_written_as_they_are_read(void **state)
{
    (void)state;
    static const char *const same[] = {
        "1970-01-01", "0000-01-15",     "1969-12-31",       "2024-02-29",          "2023-02-28",
        "0000-03-01", "9999-12-31",     "2000-01-01T00:00", "1912-04-15T02:20:01", "2024-02-29T13:45:10.5",
        "00:00",      "23:59:59.000001"};
    for (int i = 0; i < COUNT_OF(same); i++) {
        gd_date d;
        char text[GD_DATE_SIZE];
        assert_true(gd__date_parse(same[i], &d) && gd__date_format(text, &d));
        assert_string_equal(text, same[i]);
    }
    for (int day = -800000; day < 3000000; day += 997) {
        int y, m, d;
        gd__date_of_days(day, &y, &m, &d);
        if (gd__days_since_1970(y, m, d) != day) fail_msg("day %d is %d-%d-%d", day, y, m, d);
    }
    char text[GD_DATE_SIZE];
    assert_false(gd__date_format(text, &(gd_date){.seconds = 1e15, .day = true}));
    assert_false(gd__date_format(text, &(gd_date){.seconds = NAN, .day = true}));
}

static void axes_of_dates_have_round_marks(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to, *labels;
    } ranges[] = {
        {"2019-02-10", "2021-01-15", "2019-07 2020-01 2020-07 2021-01"},
        {"1900-01-01", "2024-01-01", "1900 1950 2000"},
        {"2024-02-27", "2024-03-03", "2024-02-27 2024-02-28 2024-02-29 2024-03-01 2024-03-02 2024-03-03"},
        {"2024-02-27", "2024-03-20", "2024-03-04 2024-03-11 2024-03-18"},
        {"2024-02-28T22:00", "2024-02-29T04:00",
         "2024-02-28T22:00 2024-02-29T00:00 2024-02-29T02:00 2024-02-29T04:00"},
        {"12:00", "12:00:10", "12:00 12:00:02 12:00:04 12:00:06 12:00:08 12:00:10"},
    };
    for (int i = 0; i < COUNT_OF(ranges); i++) {
        gd_date from, to;
        char labels[400] = "";
        gd_ticks ticks;
        assert_true(gd__date_parse(ranges[i].from, &from) && gd__date_parse(ranges[i].to, &to));
        gd_date_scale scale = {.unit = 3600, .origin = 7, .day = from.day};
        assert_true(
            gd__date_ticks(&ticks, (from.seconds - 7) / 3600, (to.seconds - 7) / 3600 + 1e-9, 6, &scale));
        for (int k = 0; k < ticks.count; k++) {
            if (k) strcat(labels, " ");
            char *space = strchr(ticks.label[k], ' ');
            if (space) *space = 'T';
            strcat(labels, ticks.label[k]);
            assert_true(ticks.at[k] >= (from.seconds - 7) / 3600 - 1e-6);
        }
        assert_string_equal(labels, ranges[i].labels);
    }
    gd_ticks ticks;
    const gd_date_scale scale = {.unit = 1, .day = true};
    assert_false(gd__date_ticks(&ticks, 0, 0.5, 6, &scale));
    assert_false(gd__date_ticks(&ticks, 0, 1e300, 6, &scale));
    assert_false(gd__date_ticks(&ticks, NAN, 1, 6, &scale));
}

static void pictures_of_dates_have_dates_on_their_axis(void **state)
{
    (void)state;
    put("d.csv", days);
    works(FIT "--plot f.svg");
    slurp("f.svg", out, sizeof out);
    assert_non_null(strstr(out, ">2024-03-0"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PROGRAM_TEST(a_column_of_dates_counts_days_from_its_origin),
        PROGRAM_TEST(times_count_seconds),
        PROGRAM_TEST(a_saved_fit_reads_dates_from_the_same_origin),
        PROGRAM_TEST(what_is_no_date_is_named),
        PROGRAM_TEST(a_column_without_a_name_is_called_by_its_position),
        cmocka_unit_test(dates_are_written_as_they_are_read),
        cmocka_unit_test(axes_of_dates_have_round_marks),
        PROGRAM_TEST(pictures_of_dates_have_dates_on_their_axis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
