/* gradus fit with errors in x, and of equations: answers of York, ODRPACK and scipy.odr; what is printed, written and drawn; what is
 * refused. */
#include "base/text/compose.h"
#include "cli/fit_program.h"

static const char york[] =
    "x,y,sx,sy\n"
    "0,5.9,0.0316227766016837933,1\n0.9,5.4,0.0316227766016837933,0.745355992499929899\n"
    "1.8,4.4,0.0447213595499957939,0.5\n2.6,4.6,0.0353553390593273762,0.353553390593273762\n"
    "3.3,3.5,0.0707106781186547524,0.223606797749978970\n"
    "4.4,3.7,0.111803398874989485,0.223606797749978970\n"
    "5.2,2.8,0.129099444873580563,0.119522860933439364\n"
    "6.1,2.8,0.223606797749978970,0.119522860933439364\n6.5,2.4,0.745355992499929899,0.1\n"
    "7.4,1.5,1,0.0447213595499957939\n";
static const char ellipse[] =
    "x,y\n0.5,-0.12\n1.2,-0.6\n1.6,-1\n1.86,-1.4\n2.12,-2.54\n2.36,-3.36\n2.44,-4\n2.36,-4.75\n2.06,-5.25\n1.74,-5.64\n"
    "1.34,-5.97\n0.9,-6.32\n-0.28,-6.44\n-0.78,-6.44\n-1.36,-6.41\n-1.9,-6.25\n-2.5,-5.88\n-2.88,-5.5\n-3.18,-5.24\n"
    "-3.44,-4.86\n";

#define LINE " --param a=5 --param b=-0.5 --sigma sy"
#define ELLIPSE                                                                                         \
    "fit 'c*(x-p)^2 + 2*d*(x-p)*(y-q) + f*(y-q)^2 = 1' e.csv --param p=-1 --param q=-3 --param c=0.09 " \
    "--param d=0.02 --param f=0.08"

/* ---- errors in x ---- */

static void check_york(void)
{
    check("params", "a", 5.47991022403, 1e-8);
    check("params", "b", -0.480533407446, 1e-8);
    check("", "rss", 11.8663531941, 1e-8);
    check("", "dof", 8, 0);
    assert_non_null(strstr(out, "\"aic\": null"));
    assert_non_null(strstr(out, "\"r2\": null"));
    assert_non_null(strstr(out, "\"x_errors\": [\"x\"]"));
}

static void a_line_through_points_with_errors_is_yorks(void **state)
{
    (void)state;
    put("york.csv", york);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --json");
    check_york();
    check("stderr", "a", 0.35924652216, 1e-6);
    check("stderr", "b", 0.07062026942, 1e-6);
    works("fit 'a + b*x' york.csv" LINE " --x-errors x=sx --chain 'lbfgs | strong_wolfe' --json");
    check("params", "b", -0.480533407446, 1e-6);
    /* as they are: errors by 1 / sqrt(11.866 / 8), and a test of their size */
    works("fit 'y = a + b*x' york.csv" LINE " --x-errors x=sx --absolute-sigma --json");
    check_york();
    check("stderr", "a", 0.35924652216 / sqrt(11.8663531941 / 8), 1e-6);
    check("", "chi_square_p", 0.15726722869125895, 1e-6);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx");
    assert_non_null(strstr(out, "distances from the curve, with errors in x\n"));
    assert_non_null(strstr(out, "sum of squared distances 11.866353, 10 points\n"));
}

/* The least distance is that of the normal to the line. */
static void distances_are_written(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=1 --x-errors x=1 --residuals r.csv --json");
    double a = json_number_in("params", "a"), b = json_number_in("params", "b"), sigma = json_number("sigma");
    static char text[4096];
    slurp("r.csv", text, sizeof text);
    assert_ptr_equal(strstr(text, "line,x,y,fitted,residual,distance,standardized\n"), text);
    double want = (5.2 - a - 2 * b) / sqrt(1 + b * b), distance, standardized;
    const char *row = strstr(text, "\n4,2,");
    assert_non_null(row);
    assert_int_equal(sscanf(row, "\n4,2,%*[^,],%*[^,],%*[^,],%lf,%lf", &distance, &standardized), 2);
    near(distance, want, 1e-9);
    near(standardized, want / sigma, 1e-9);
}

static void long_tables_have_the_same_digits_on_any_number_of_threads(void **state)
{
    (void)state;
    gd_text t = gd__text(ctx);
    gd__text_add(&t, "t,y\n");
    uint64_t seed = 3;
    for (int i = 0; i < 3000; i++) {
        double x = i / 600.0;
        gd__text_put(&t, "%.6f,%.6f\n", x + 0.2 * (random_unit(&seed) - 0.5),
                     2 * exp(-0.7 * x) + 0.3 + 0.1 * (random_unit(&seed) - 0.5));
    }
    put("long.csv", gd__text_string(&t));
    gd__text_free(&t);
    static char one[4096];
    for (int threads = 1; threads <= 3; threads += 2) {
        char command[200];
        (void)snprintf(
            command, sizeof command,
            "fit 'a*exp(-b*t)+c' long.csv --param a=1 --param b=1 --param c=0 --x-errors t=2 --json --threads %d",
            threads);
        works(command);
        check("params", "a", 2, 0.01);
        check("params", "b", 0.7, 0.01);
        *strstr(out, "\"seconds\"") = 0;
        if (threads == 1) (void)snprintf(one, sizeof one, "%s", out);
        assert_string_equal(out, one);
    }
}

static void intervals_and_losses_go_by_distances(void **state)
{
    (void)state;
    put("york.csv", york);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --intervals profile --absolute-sigma --json");
    const char *ends = strstr(out, "\"interval\": {\"a\": [");
    double low, high;
    assert_non_null(ends);
    assert_int_equal(sscanf(ends, "\"interval\": {\"a\": [%lf, %lf]", &low, &high), 2);
    /* where the sum of squares of York's line has risen by 1.96^2 (a scan of scipy.optimize) */
    near(low, 4.934431113975143, 1e-6);
    near(high, 6.077388027414986, 1e-6);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --intervals bootstrap:100 --json --threads 2");
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --loss huber:1 --json");
    assert_non_null(strstr(out, "\"loss\": \"huber\""));
    put("holes.csv", "x,y,sx\n0,1.1,0.1\n1,2.9,\n2,5.2,0.2\n3,6.8,0.1\n4,9.1,0.1\n");
    works("fit 'a + b*x' holes.csv --param a=0 --param b=1 --x-errors sx --missing drop --json");
    check("", "points", 4, 0);
}

/* ---- equations ---- */

static void an_ellipse_is_fitted_and_drawn(void **state)
{
    (void)state;
    put("e.csv", ellipse);
    works(ELLIPSE " --json");
    static const char *const names[] = {"p", "q", "c", "d", "f"};
    static const double value[] = {-0.9993801652440636, -2.931049286090999, 0.08757306942314363,
                                   0.01622995594625817, 0.07975382908555152},
                        error[] = {0.11138567025631887, 0.10976889083817604, 0.004106134400327882,
                                   0.002750077100317404, 0.003496299430044719};
    for (int i = 0; i < 5; i++) {
        check("params", names[i], value[i], 1e-6);
        check("stderr", names[i], error[i], 1e-5);
    }
    check("", "rss", 0.08824708868838108, 1e-8);
    /* only ratios count without --absolute-sigma */
    works(ELLIPSE " --x-errors x=0.1 --x-errors y=0.1 --json --plot e.svg --residuals r.csv");
    check("params", "p", value[0], 1e-6);
    check("", "rss", 100 * 0.08824708868838108, 1e-8);
    static char text[1 << 18];
    slurp("r.csv", text, sizeof text);
    assert_ptr_equal(strstr(text, "line,x,y,distance,standardized\n"), text);
    slurp("e.svg", text, sizeof text);
    assert_non_null(strstr(text, ">fit<"));
    works(ELLIPSE " --out e.safetensors");
    assert_non_null(strstr(out, "distances from the curve, with errors in x, y\n"));
    fails("predict e.safetensors e.csv", 2,
          "e.safetensors is a fit of an equation: there is no y to predict");
    fails("compare e.safetensors e.safetensors", 2, "fitted with errors in x: no likelihoods to compare");
}

/* x known, y not: the ordinary fit of y, however it is written. */
static void an_equation_with_one_exact_column_is_an_ordinary_fit(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x - y = 0' line.csv --param a=0 --param b=1 --x-errors x=0 --json");
    check("params", "a", LINE_A, 1e-8);
    check("stderr", "b", LINE_SB, 1e-8);
    check("", "rss", LINE_RSS, 1e-8);
}

static void the_left_side_may_name_the_column(void **state)
{
    (void)state;
    put("line.csv", "x,z\n0,1.1\n1,2.9\n2,5.2\n3,6.8\n4,9.1\n");
    works(
        "fit 'f(u) = b*u; z = a + f(x)' line.csv --param a=0 --param b=1 --out z.safetensors --json --residuals r.csv "
        "--plot z.svg --export z.tex");
    check("params", "a", LINE_A, 1e-9);
    check("", "r2", LINE_R2, 1e-9);
    put("new.csv", "x\n10\n");
    works("predict z.safetensors new.csv");
    assert_ptr_equal(strstr(out, "z,confidence_low"), out);
    near(strtod(strchr(out, '\n'), NULL), LINE_A + 10 * LINE_B, 1e-9);
    works("fit 'z = a + b*x' line.csv --param a=0 --param b=1 --y z");
    fails("fit 'z = a + b*x' line.csv --param a=0 --param b=1 --y x", 2, "the model gives 'z', --y says 'x'");
}

/* ---- bands and pictures ---- */

/* Half of the confidence and of the prediction interval in the first row of a prediction. */
static void halves(double *confidence, double *prediction)
{
    double v[5];
    const char *row = strchr(out, '\n');
    assert_true(row && sscanf(row + 1, "%lf,%lf,%lf,%lf,%lf", &v[0], &v[1], &v[2], &v[3], &v[4]) == 5);
    near((v[1] + v[2]) / 2, v[0], 1e-9);
    near((v[3] + v[4]) / 2, v[0], 1e-9);
    *confidence = (v[2] - v[1]) / 2;
    *prediction = (v[4] - v[3]) / 2;
}

/* A new measurement is as uncertain as its y, and as its x is where the curve is steep. */
static void predictions_have_bands_for_errors_in_x(void **state)
{
    (void)state;
    const double t3 = 3.182446305284263, t8 = 2.306004135204166;
    double confidence, prediction;
    put("line.csv", "x,z\n0,1.1\n1,2.9\n2,5.2\n3,6.8\n4,9.1\n");
    put("new.csv", "x\n10\n");
    works("fit 'z = a + b*x' line.csv --param a=0 --param b=1 --x-errors 0.5 --out n.safetensors --json");
    double b = json_number_in("params", "b"), sigma = json_number("sigma");
    works("predict n.safetensors new.csv");
    assert_string_equal(err, "");
    halves(&confidence, &prediction);
    near(sqrt(prediction * prediction - confidence * confidence), t3 * sigma * hypot(1, 0.5 * b), 1e-8);
    /* of a curve with errors in columns: slope -b a exp(-b x) */
    put("york.csv", york);
    works(
        "fit 'a*exp(-b*x)' york.csv --param a=6 --param b=0.1 --sigma sy --x-errors x=sx --out y.safetensors --json");
    double a = json_number_in("params", "a");
    b = json_number_in("params", "b"), sigma = json_number("sigma");
    put("new.csv", "x,sx,sy\n3,0.4,0.2\n");
    works("predict y.safetensors new.csv");
    halves(&confidence, &prediction);
    near(sqrt(prediction * prediction - confidence * confidence),
         t8 * sigma * hypot(0.2, 0.4 * a * b * exp(-3 * b)), 1e-8);
    put("bare.csv", "x,sy\n3,0.2\n");
    assert_int_equal(gradus("predict y.safetensors bare.csv"), 0);
    assert_non_null(strstr(err, "no column 'sx' in bare.csv: no prediction bands"));
    assert_non_null(strstr(out, ",-inf,inf\n"));
}

static int bars_in(const char *path)
{
    static char text[1 << 18];
    int bars = 0;
    slurp(path, text, sizeof text);
    for (const char *at = text; (at = strstr(at, "stroke-width=\"1.2\"")); at++) bars++;
    return strstr(text, "95 % of new measurements") ? 1000 + bars : bars;
}

static void pictures_have_bars_across_and_bands_for_errors_in_x(void **state)
{
    (void)state;
    put("york.csv", york);
    put("line.csv", line_data);
    put("again.csv", york);
    put("e.csv", ellipse);
    works("fit 'a + b*x' york.csv" LINE " --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 10);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 20);
    works("fit 'a + b*x' york.csv --param a=5 --param b=-0.5 --x-errors sx --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 10);
    /* the same errors in all rows: a band for new measurements, 5 points */
    works("fit 'a + b*x' line.csv --param a=0 --param b=1 --x-errors 0.5 --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 1000 + 5);
    works(ELLIPSE " --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 0);
    works(ELLIPSE " --x-errors x=0.1 --x-errors y=0.1 --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 40);
    works(
        "fit 'a[set] + b*x' york.csv again.csv --param 'a[set]=5' --param b=-0.5 --x-errors x=sx --sigma sy --plot p.svg");
    assert_int_equal(bars_in("p.svg"), 40);
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --plot p.pdf --dark");
    works("fit 'a + b*x' york.csv" LINE " --x-errors sx --plot p.png");
}

/* ---- what is refused ---- */

static void mistakes_are_named(void **state)
{
    (void)state;
    put("d.csv", "t,y,s\n1,2,1\n2,3,1\n3,5,-1\n");
    static const struct {
        const char *arguments, *text;
        int code;
    } cases[] = {
        {"'a*t' --x-errors q=1", "no column 'q', the columns are t, y, s", 2},
        {"'a*t' --x-errors y=1", "--x-errors y: the model does not use it", 2},
        {"'a*t' --x-errors t=q", "no column 'q'", 2},
        {"'a*t' --x-errors t=-1", "--x-errors t: -1 is not a standard deviation", 2},
        {"'a*t' --x-errors s", "d.csv: line 4, column 's': -1 is not a standard deviation", 1},
        {"'a*t' --x-errors t=inf", "--x-errors t: inf is not a standard deviation", 2},
        {"'a*t' --x-errors 0", "--x-errors: all are 0: leave them out", 2},
        {"'a*t' --x-errors 1 --x-errors t=2", "--x-errors: 't' is there already", 2},
        {"'a*t + s' --x-errors 1", "'1' does not say whose errors these are", 2},
        {"'a*t + sum(s)' --x-errors t=1", "errors in columns are for models that look at one row at a time",
         2},
        {"'a*t = y*y' --y y", "--y is for models of a y, this one is an equation", 2},
        {"'a*t = y*y' --sigma s", "--sigma is for models of a y", 2},
        {"'a*t = y*y' --guess", "--guess is for models of a y", 2},
        {"'a*t = y*y' --export f.c", "--export is for models of a y", 2},
        {"'a*t = y*y' --plot f.svg --log x", "--log is for models of a y", 2},
        {"'a*t = y*y' --absolute-sigma", "says something of --x-errors, which is not given", 2},
        {"'a*t = y*y' --x-errors t=0 --x-errors y=0", "all exact has nothing to fit", 2},
        {"'a*t + s = y*y' --plot f.svg", "a picture shows an equation of two columns, this one has 3", 2},
        {"'a*t = y = 2'", "column 9: an operator expected, '=' found", 2},
        {"'a*t = '", "a number, a name or '(' expected, the end found", 2},
        {"'q = a*t'", "unknown name 'q'", 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char command[200];
        const char *model_end = strchr(cases[i].arguments + 1, '\'') + 1;
        (void)snprintf(command, sizeof command, "fit %.*s d.csv%s --param a=1",
                       (int)(model_end - cases[i].arguments), cases[i].arguments, model_end);
        fails(command, cases[i].code, cases[i].text);
    }
    fails("eval 'y = 2'", 2, "';' and the value expected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_line_through_points_with_errors_is_yorks),
        TEST(distances_are_written),
        TEST(long_tables_have_the_same_digits_on_any_number_of_threads),
        TEST(intervals_and_losses_go_by_distances),
        TEST(an_ellipse_is_fitted_and_drawn),
        TEST(an_equation_with_one_exact_column_is_an_ordinary_fit),
        TEST(the_left_side_may_name_the_column),
        TEST(predictions_have_bands_for_errors_in_x),
        TEST(pictures_have_bars_across_and_bands_for_errors_in_x),
        TEST(mistakes_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
