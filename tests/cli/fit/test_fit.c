/* What `gradus fit` is made of: bounds and Student's t; and the command itself on lines, whose answer is known. */
#include "table/table_load.h"
#include "cli/fit_program.h"

#include "table/bound.h"
#include "base/special.h"
#include "gradus/file.h"

/* ---- Student's t: values of the usual tables, and of closed forms for one and two degrees of freedom ---- */

static void quantiles_agree_with_tables(void **state)
{
    (void)state;
    static const struct {
        double level, dof, t;
    } cases[] = {
        {0.95, 1, 12.706204736432102},  {0.95, 2, 4.302652729911275},   {0.95, 5, 2.5705818366147395},
        {0.95, 10, 2.2281388519649385}, {0.95, 30, 2.0422724563012373}, {0.95, 100, 1.9839715185235556},
        {0.95, 1e6, 1.9599663},         {0.99, 10, 3.1692726726169465}, {0.5, 1, 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double t = gd__student_quantile(cases[i].level, cases[i].dof);
        if (!(fabs(t - cases[i].t) <= (cases[i].dof > 1000 ? 1e-6 : 1e-9) * cases[i].t))
            fail_msg("t(%g, %g) = %.12g, want %.12g", cases[i].level, cases[i].dof, t, cases[i].t);
    }
    for (double t = -8; t <= 8; t += 0.37) {
        assert_true(fabs(gd__student_cdf(t, 1) - (0.5 + atan(t) / M_PI)) < 1e-13);
        assert_true(fabs(gd__student_cdf(t, 2) - (0.5 + t / (2 * sqrt(2 + t * t)))) < 1e-13);
    }
    assert_true(isinf(gd__student_quantile(0.95, 0)));
    assert_true(isinf(gd__student_quantile(0.95, -3)));
}

/* Chi-square with 2 and 4 degrees of freedom and F with 2 in front have closed forms. */
static void tails_agree_with_closed_forms(void **state)
{
    (void)state;
    near(gd__normal_quantile(0.95), 1.959963984540054, 1e-12);
    near(gd__chi_square_tail(3.841458820694124, 1), 0.05, 1e-12);
    near(gd__f_tail(4.964602743730714, 1, 10), 0.05, 1e-12);
    assert_true(gd__chi_square_tail(0, 3) == 1 && gd__f_tail(0, 3, 4) == 1);
    for (double x = 0.01; x < 300; x *= 1.7) {
        near(gd__chi_square_tail(x, 2), exp(-x / 2), 1e-12);
        near(gd__chi_square_tail(x, 4), exp(-x / 2) * (1 + x / 2), 1e-12);
        near(gd__f_tail(x, 2, 7), pow(1 + 2 * x / 7, -3.5), 1e-11);
    }
}

/* ---- bounds ---- */

static gd_bound bound(const char *text, const char *want)
{
    const char *name;
    size_t length;
    gd_bound b;
    if (gd__bound_parse(ctx, text, &name, &length, &b)) fail_msg("%s: %s", text, gd_error_text(ctx));
    assert_int_equal(length, strlen(want));
    assert_memory_equal(name, want, length);
    return b;
}

static void bounds_are_read_either_way_round(void **state)
{
    (void)state;
    gd_bound b = bound("b>0", "b");
    assert_true(b.has_low && !b.has_high && b.low == 0);
    b = bound(" rate <= -5e-1 ", "rate");
    assert_true(!b.has_low && b.has_high && b.high == -0.5);
    b = bound("0 < c < 1", "c");
    assert_true(b.has_low && b.has_high && b.low == 0 && b.high == 1);
    b = bound("1>c>0", "c");
    assert_true(b.has_low && b.has_high && b.low == 0 && b.high == 1);
    b = bound("3<x", "x");
    assert_true(b.has_low && !b.has_high && b.low == 3);
}

static void malformed_bounds_are_pointed_at(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {{"b", ".bounds: column 2: '<' or '>' expected"},
                 {"", ".bounds: column 1: a parameter expected"},
                 {"b>", ".bounds: column 3: a number expected"},
                 {"b>x", ".bounds: column 3: a number expected"},
                 {"0<", ".bounds: column 3: a parameter expected"},
                 {"0 b", ".bounds: column 3: '<' or '>' expected"},
                 {"b>0,c>0", ".bounds: column 4: nothing more expected"},
                 {"0<b>1", ".bounds: column 6: 0 < x < 1: both signs the same way expected"},
                 {"1<b<0", ".bounds: no number is between 1 and 0"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *name;
        size_t length;
        gd_bound b;
        assert_int_equal(gd__bound_parse(ctx, cases[i].text, &name, &length, &b), GD_PARSE);
        assert_error(ctx, GD_PARSE, cases[i].error);
    }
}

static void bounds_are_of_parameters_and_elements(void **state)
{
    (void)state;
    const char *const names[] = {"a", "w"};
    gd_tensor *const params[] = {VECTOR(ctx, 1, 2), gd_zeros(ctx, GD_F64, 2, (int64_t[]){2, 2})};
    double low[6], high[6];
    for (int i = 0; i < 6; i++) low[i] = -INFINITY, high[i] = INFINITY;
    static const struct {
        const char *text, *error;
    } cases[] = {{"w[1,0]>-1", NULL},
                 {"a<[3,4]", NULL},
                 {"0<w[0,1]<2", NULL},
                 {"w[1,0]>0", ".bounds: 'w' has one already; write low<w<high"},
                 {"w[2,0]>0", ".bounds: 'w' has no such element"},
                 {"w[1]>0", ".bounds: 'w' has no such element"},
                 {"a>[1,2,3]", ".bounds: 3 numbers for 'a', which has 2 elements"},
                 {"a[0.5]>0", ".bounds: column 6: the number of an element, from 0, and ']' expected"},
                 {"a[0]>5", ".bounds: no number is between 5 and 3"},
                 {"v>0", ".bounds: no parameter 'v'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_status status = gd__bounds_read(ctx, cases[i].text, names, params, 2, low, high);
        assert_int_equal(status, cases[i].error ? GD_PARSE : GD_OK);
        if (cases[i].error) assert_error(ctx, GD_PARSE, cases[i].error);
    }
    assert_true(low[4] == -1 && high[0] == 3 && high[1] == 4 && low[3] == 0 && high[3] == 2);
    assert_true(low[2] == -INFINITY && high[5] == INFINITY);
}

/* ---- the command ---- */

/* Expected numbers: the closed form of the straight line, computed in Python. */
static void a_straight_line_has_its_textbook_answer(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --json");
    check("params", "a", LINE_A, 1e-10);
    check("params", "b", LINE_B, 1e-10);
    check("stderr", "a", LINE_SA, 1e-9);
    check("stderr", "b", LINE_SB, 1e-9);
    check("interval", "b", LINE_B - 3.182446305284263 * LINE_SB, 1e-9);
    check("", "rss", LINE_RSS, 1e-10);
    check("", "r2", LINE_R2, 1e-12);
    check("", "dof", 3, 0);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --sigma s --json");
    check("params", "a", SIGMA_A, 1e-10);
    check("params", "b", SIGMA_B, 1e-10);
    check("", "rss", SIGMA_RSS, 1e-10);
    check("stderr", "b", SIGMA_SB, 1e-9);
    /* one vector parameter instead of two numbers */
    works("fit 'p[0] + p[1]*x' line.csv --param p=[0,0] --json");
    check("params", "p", LINE_A, 1e-10);
}

static void a_chain_reaches_the_same_answer(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --chain 'lbfgs | strong_wolfe' --json");
    check("params", "a", LINE_A, 1e-7);
    check("params", "b", LINE_B, 1e-7);
    check("stderr", "a", LINE_SA, 1e-6);
    check("", "rss", LINE_RSS, 1e-9);
    assert_true(json_number("steps") > 1);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --chain 'lr(1e-4)' --steps 3 --json");
    check("", "steps", 3, 0);
    assert_non_null(strstr(out, "\"converged\": false"));
    fails("fit 'a + b*x' line.csv --param a=0 --param b=0 --chain 'lm'", 2,
          "chain: column 1: link 'lm' unknown");
}

static void bounds_do_not_change_an_answer_inside(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0.5 --param b=1 --bound '0<a<5' --bound 'b>0' --json");
    check("params", "a", LINE_A, 1e-7);
    check("params", "b", LINE_B, 1e-7);
    check("stderr", "b", LINE_SB, 1e-6);
}

/* a held at 1.5.  By hand: b = sum x (y - 1.5) / sum x^2 = 55.1 / 30, its variance s^2 / sum x^2 with 4 degrees of freedom;
 * rss(a) = 0.107 + 5/3 (a - 1.04)^2, which has risen by t^2 s^2 at the end of the interval. */
#define HELD_B   (55.1 / 30)
#define HELD_RSS (0.107 + 5.0 / 3 * 0.46 * 0.46)
#define T4       2.7764451051977987

static void check_held(double tolerance)
{
    check("params", "a", 1.5, 0);
    check("params", "b", HELD_B, tolerance);
    check("", "rss", HELD_RSS, tolerance);
    check("", "dof", 4, 0);
    check("stderr", "b", sqrt(HELD_RSS / 4 / 30), tolerance);
    double end = 1.04 + sqrt((HELD_RSS - 0.107 + T4 * T4 * HELD_RSS / 4) * 3 / 5);
    char want[64], *interval = strstr(out, "\"interval\": {\"a\": [");
    assert_non_null(interval);
    double low = strtod(strchr(interval, '[') + 1, &interval), high = strtod(interval + 1, NULL);
    snprintf(want, sizeof want, "[1.5, %.9g]", end);
    if (low != 1.5 || fabs(high - end) > 1e-6) fail_msg("[%.9g, %.9g], want %s", low, high, want);
    assert_non_null(strstr(out, "\"stderr\": {\"a\": null"));
    assert_non_null(strstr(out, "\"active\": [\"a\"], \"undetermined\": []"));
}

static void a_parameter_held_by_its_bound_lies_on_it(void **state)
{
    (void)state;
    put("line.csv", line_data);
    static const char *const starts[] = {"2", "1.5", "1.500000000000001", "1e6"};
    for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
        char arguments[160];
        snprintf(arguments, sizeof arguments,
                 "fit 'a + b*x' line.csv --param a=%s --param b=0 --bound 'a>1.5' --bound 'b>=0' --json",
                 starts[i]);
        works(arguments);
        check_held(1e-9);
    }
    works("fit 'a + b*x' line.csv --param a=1.5 --param b=1 --bound 'a>1.5' --chain 'lbfgs | strong_wolfe' "
          "--json");
    check_held(1e-5);
    works("fit 'a + b*x' line.csv --param a=2 --param b=1 --bound 'a>1.5' --plot held.svg --out "
          "held.safetensors");
    assert_non_null(strstr(out, "at its bound   1.5 .. 1.9020"));
    assert_non_null(strstr(out, "from the bound inwards"));
    works("eval 'a' --param a=@held.safetensors:a --json");
    check("", "value", 1.5, 0);
}

/* Small, and no bound holds it: a chain comes near 0 and stays off it. */
static void a_small_value_next_to_its_bound_is_not_put_on_it(void **state)
{
    (void)state;
    put("small.csv", "x,y\n0,1\n1e6,1.3\n2e6,1.5\n3e6,1.9\n");
    works("fit '1 + b*x' small.csv --param b=1e-6 --bound 'b>0' --chain 'newton | strong_wolfe' --json");
    assert_non_null(strstr(out, "\"active\": []"));
    check("params", "b", (0.3 * 1 + 0.5 * 2 + 0.9 * 3) / 14e6, 1e-4);
}

/* ---- what a fit admits ---- */

static void a_fit_that_is_not_determined_fails_after_printing_all(void **state)
{
    (void)state;
    put("line.csv", line_data);
    admits("fit '(a+c) + b*x' line.csv --param a=0 --param b=0 --param c=0", "a and c cannot be told apart");
    assert_non_null(strstr(out, "95 % interval"));
    assert_non_null(strstr(out, "evaluations, "));
    admits("fit 'p[0]*p[1]*x + p[2]' line.csv --param p=[1,1,1] --json",
           "p[0] and p[1] cannot be told apart");
    assert_non_null(strstr(out, "\"undetermined\": [\"p[0]\", \"p[1]\"]"));
    assert_non_null(strstr(out, "\"converged\": false, \"stop\": \"UNDETERMINED\""));
    /* a model that is zero wherever there are data: no step was possible, and that is no convergence */
    admits("fit 'a*exp(-(x-m)^2)' line.csv --param a=1 --param m=1e4", "a and m have no effect");
    assert_non_null(strstr(out, "\n0 steps, "));
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --json");
    assert_non_null(strstr(out, "\"undetermined\": []"));
    assert_non_null(strstr(out, "\"stop\": \"LOSS\""));
}

static void the_default_limit_is_a_failure_and_one_asked_for_is_not(void **state)
{
    (void)state;
    put("line.csv", line_data);
    admits("fit 'a + b*x' line.csv --param a=0 --param b=0 --chain 'lr(1e-9)'", "the steps are used up");
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --chain 'lr(1e-9)' --steps 1000");
    assert_non_null(strstr(out, "the steps are used up"));
    works("fit 'exp(a + b*x)' line.csv --param a=0 --param b=0 --steps 1 --json");
    assert_non_null(strstr(out, "\"converged\": false, \"stop\": \"MAX_STEPS\""));
}

static void rows_of_weight_zero_do_not_count(void **state)
{
    (void)state;
    put("weights.csv", "x,y,w\n0,1.1,1\n1,2.9,1\n7,-50,0\n2,5.2,1\n3,6.8,1\n-1,1e300,0\n4,9.1,1\n");
    works("fit 'a + b*x' weights.csv --param a=0 --param b=0 --weights w --json");
    check("params", "b", LINE_B, 1e-10);
    check("stderr", "a", LINE_SA, 1e-9);
    check("", "r2", LINE_R2, 1e-12);
    check("", "dof", 3, 0);
    check("", "points", 5, 0);
    works("fit 'a + b*x' weights.csv --param a=0 --param b=0 --weights w");
    assert_non_null(strstr(out, "2 rows of weight 0 left out"));
    put("none.csv", "x,y,w\n0,1,0\n1,2,0\n");
    fails("fit 'b*x' none.csv --param b=0 --weights w", 1, "none.csv: all weights are 0");
}

/* y = b x with known sigma: b = sum(xy/s^2) / sum(x^2/s^2), its error the root of 1 / sum(x^2/s^2). */
static void known_deviations_are_taken_as_they_are(void **state)
{
    (void)state;
    put("known.csv", "x,y,s\n1,2.5,0.5\n2,3.5,1\n4,8.5,2\n5,9,1\n");
    const double x[] = {1, 2, 4, 5}, y[] = {2.5, 3.5, 8.5, 9}, s[] = {0.5, 1, 2, 1};
    double xx = 0, xy = 0, chi = 0, weights = 0;
    for (int i = 0; i < 4; i++) xx += x[i] * x[i] / (s[i] * s[i]), xy += x[i] * y[i] / (s[i] * s[i]);
    for (int i = 0; i < 4; i++) chi += pow((y[i] - xy / xx * x[i]) / s[i], 2), weights -= 2 * log(s[i]);
    works("fit 'b*x' known.csv --sigma s --absolute-sigma --param b=1 --json");
    check("params", "b", xy / xx, 1e-12);
    check("stderr", "b", 1 / sqrt(xx), 1e-12);
    check("", "rss", chi, 1e-12);
    check("", "chi_square_p", erfc(sqrt(chi / 2)) + sqrt(2 * chi / M_PI) * exp(-chi / 2),
          1e-12); /* 3 degrees */
    /* the product of the normal densities with these deviations; b alone is a parameter */
    double likelihood = -0.5 * (4 * log(2 * M_PI) + chi - weights);
    check("", "log_likelihood", likelihood, 1e-12);
    check("", "aic", -2 * likelihood + 2, 1e-12);
    check("", "aicc", -2 * likelihood + 2 + 2, 1e-12);
    check("", "bic", -2 * likelihood + log(4), 1e-12);
    works("fit 'b*x' known.csv --sigma s --absolute-sigma --param b=1 --out known.safetensors");
    assert_non_null(strstr(out, "chi-square "));
    works("compare known.safetensors known.safetensors --json");
    check("", "aic", -2 * likelihood + 2, 1e-12);
    check("", "bic", -2 * likelihood + log(4), 1e-12);
    works("fit 'b*x' known.csv --sigma s --param b=1 --json"); /* ratios only: scaled by what is left */
    likelihood = -0.5 * (4 * (log(2 * M_PI) + 1 - log(4) + log(chi)) - weights);
    check("", "log_likelihood", likelihood, 1e-12);
    check("", "aic", -2 * likelihood + 4, 1e-12);
    check("", "aicc", -2 * likelihood + 4 + 12, 1e-12);
    check("", "bic", -2 * likelihood + 2 * log(4), 1e-12);
    check("stderr", "b", sqrt(chi / 3 / xx), 1e-12);
    assert_non_null(strstr(out, "\"chi_square_p\": null"));
    put("two.csv", "x,y,s\n1,2.5,0.5\n"); /* no degrees of freedom: the error is known all the same */
    works("fit 'b*x' two.csv --sigma s --absolute-sigma --param b=1 --json");
    check("stderr", "b", 0.5, 1e-12);
    fails("fit 'b*x' known.csv --absolute-sigma --param b=1", 2,
          "--absolute-sigma says something of --sigma");
}

static void covariance_and_correlation_are_printed(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'p[0] + b*x' line.csv --param p=[0] --param b=0 --json");
    assert_non_null(strstr(out, "\"names\": [\"p[0]\", \"b\"]"));
    const char *at = strstr(out, "\"covariance\": [[");
    assert_non_null(at);
    double c[4], r[4];
    assert_int_equal(sscanf(at, "\"covariance\": [[%lf, %lf], [%lf, %lf]]", c, c + 1, c + 2, c + 3), 4);
    near(c[0], LINE_SA * LINE_SA, 1e-6);
    near(c[3], LINE_SB * LINE_SB, 1e-6);
    near(c[1], c[2], 1e-12);
    at = strstr(out, "\"correlation\": [[");
    assert_int_equal(sscanf(at, "\"correlation\": [[%lf, %lf], [%lf, %lf]]", r, r + 1, r + 2, r + 3), 4);
    near(r[1], c[1] / sqrt(c[0] * c[3]), 1e-12);
    put("far.csv", "x,y\n100,1\n101,2.1\n102,2.9\n103,4\n");
    works("fit 'a + b*x' far.csv --param a=0 --param b=0");
    assert_non_null(strstr(out, "correlated: a, b -0.99"));
}

static void two_fits_of_the_same_rows_are_compared(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + 0*x' line.csv --param a=0 --out small.safetensors");
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --out large.safetensors");
    works("fit 'm*exp(n*x)' line.csv --param m=1 --param n=0.1 --out other.safetensors");
    works("compare small.safetensors large.safetensors --json");
    /* one slope: F is the square of its t */
    check("", "f", pow(LINE_B / LINE_SB, 2), 1e-6);
    double p = json_number("p");
    works("compare large.safetensors small.safetensors --json");
    assert_true(json_number("p") == p);
    works("compare small.safetensors large.safetensors");
    assert_non_null(strstr(out, "F-test of A inside B"));
    works("compare other.safetensors large.safetensors");
    assert_non_null(strstr(out, "no F-test: both have as many parameters"));
    works("compare small.safetensors other.safetensors");
    assert_non_null(strstr(out, "not a special case"));
    put("other.csv", "x,y\n1,2\n2,3\n3,5\n4,4\n5,8\n");
    works("fit 'a + b*x' other.csv --param a=0 --param b=0 --out elsewhere.safetensors");
    fails("compare small.safetensors elsewhere.safetensors", 2, "compare: the fits are of different data");
    fails("compare small.safetensors line.csv", 1, "line.csv");
    works("minimize '(x-1)^2' --param x=0 --out point.safetensors");
    fails("compare small.safetensors point.safetensors", 1, "point.safetensors: no 'fit.rss'");
}

static void rows_are_left_out_by_condition_and_where_cells_are_missing(void **state)
{
    (void)state;
    put("gaps.csv", "x,y,other\n1,2,1\n2,,1\n3,6,1\n4,100,1\n5,NA,1\n6,12,\n");
    fails("fit 'b*x' gaps.csv --param b=1", 1, "line 3, column 'y': the cell is empty");
    works("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude 'x > 3 && y > 50' --json");
    check("params", "b", 2, 1e-12);
    check("", "points", 3, 0); /* a gap in a column that nothing needs is none */
    works("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude 'y == 100'");
    assert_non_null(strstr(out, "2 rows with missing cells left out"));
    assert_non_null(strstr(out, "1 row excluded"));
    assert_int_equal(gradus("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude 'x > 50'"), 0);
    assert_non_null(strstr(err, "--exclude 'x > 50': no row is like that"));
    fails("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude '1 > 0'", 2, "is not one condition a row");
    fails("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude 'x > 0'", 1, "no row is left to fit");
    fails("fit 'b*x' gaps.csv --param b=1 --missing drop --exclude 'z > 0'", 2, "unknown name 'z'");
    fails("fit 'b*x' gaps.csv --param b=1 --missing maybe", 2, "'maybe' is none of");
    put("endless.csv", "x,y\n1,2\n2,inf\n3,6\n");
    fails("fit 'b*x' endless.csv --param b=1 --missing drop", 1, "line 3, column 'y': 'inf' is not finite");
}

static void constants_are_held_and_quantities_derived(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works(
        "fit 'a + m*b*x' line.csv --param a=0 --param b=0 --fix m=2 --derive 'slope=m*b' --derive 'cut=-a/(m*b)' --json");
    check("params", "b", LINE_B / 2, 1e-9);
    check("slope", "value", LINE_B, 1e-9);
    check("slope", "stderr", LINE_SB, 1e-6);
    /* of -a/b: (da/a - db/b) a/b, with the covariance of a line */
    const char *at = strstr(out, "\"covariance\": [[");
    double c[4];
    assert_int_equal(sscanf(at, "\"covariance\": [[%lf, %lf], [%lf, %lf]]", c, c + 1, c + 2, c + 3), 4);
    double ga = -1 / LINE_B, gb = LINE_A / (LINE_B * LINE_B) * 2; /* by b/2 */
    check("cut", "value", -LINE_A / LINE_B, 1e-9);
    check("cut", "stderr", sqrt(ga * ga * c[0] + 2 * ga * gb * c[1] + gb * gb * c[3]), 1e-6);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --derive 'slope=b'");
    assert_non_null(strstr(out, "\nslope "));
    fails("fit 'a*x' line.csv --param a=1 --fix c=2", 2, "--fix c: the model does not use it");
    fails("fit 'a*x' line.csv --param a=1 --fix a=2", 2, "--fix: 'a' is there already");
    fails("fit 'a*x' line.csv --param a=1 --fix x=2", 2, "--fix: 'x' is also a column of line.csv");
    fails("fit 'a*x' line.csv --param a=1 --derive 'q=x*a'", 2,
          "--derive q: 'x' is a column; parameters only");
    fails("fit 'a*x' line.csv --param a=1 --derive 'q'", 2, "--derive: NAME=EXPRESSION expected");
    fails("fit 'a*x' line.csv --param a=1 --derive 'q=[a,a]'", 2, "--derive q: 2 numbers, one is wanted");
}

static void tables_of_blanks_and_of_decimal_commas_are_read(void **state)
{
    (void)state;
    put("blanks.txt", "  x   y\n  1   3.5\n\t2  5.5 \n 3\t7.5\n");
    works("fit 'a + b*x' blanks.txt --param a=0 --param b=0 --json");
    check("params", "b", 2, 1e-12);
    check("params", "a", 1.5, 1e-12);
    put("comma.csv", "x;y\n1;3,5\n2;5,5\n3;7,5\n");
    fails("fit 'a + b*x' comma.csv --param a=0 --param b=0", 1, "'3,5' is not a number (--decimal comma");
    works("fit 'a + b*x' comma.csv --param a=0 --param b=0 --decimal comma --json");
    check("params", "a", 1.5, 1e-12);
    put("both.txt", "x y\n1 3,5\n2 5,5\n3 7,5\n");
    works("fit 'a + b*x' both.txt --param a=0 --param b=0 --decimal comma --json");
    check("params", "b", 2, 1e-12);
    put("thousand.csv", "x;y\n1;1.000\n2;2.000\n");
    fails("fit 'b*x' thousand.csv --param b=1 --decimal comma", 1,
          "'1.000' is not a number (--decimal comma was asked");
    fails("fit 'b*x' comma.csv --param b=1 --decimal comma --separator ,", 2, "are both a comma");
    put("blanks.csv", "x y\n1 2\n3 4\n");
    works("eval 'sum(y)' --data y=@blanks.csv:y");
    assert_non_null(strstr(out, "6"));
    put("words.csv", "name of thing\n1\n2\n"); /* one column whose name has blanks */
    works("eval 'sum(v)' --data 'v=@words.csv:name of thing'");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(quantiles_agree_with_tables),
        TEST(tails_agree_with_closed_forms),
        TEST(bounds_are_read_either_way_round),
        TEST(malformed_bounds_are_pointed_at),
        TEST(bounds_are_of_parameters_and_elements),
        TEST(a_straight_line_has_its_textbook_answer),
        TEST(a_chain_reaches_the_same_answer),
        TEST(bounds_do_not_change_an_answer_inside),
        TEST(a_parameter_held_by_its_bound_lies_on_it),
        TEST(a_small_value_next_to_its_bound_is_not_put_on_it),
        TEST(a_fit_that_is_not_determined_fails_after_printing_all),
        TEST(the_default_limit_is_a_failure_and_one_asked_for_is_not),
        TEST(rows_of_weight_zero_do_not_count),
        TEST(known_deviations_are_taken_as_they_are),
        TEST(covariance_and_correlation_are_printed),
        TEST(two_fits_of_the_same_rows_are_compared),
        TEST(rows_are_left_out_by_condition_and_where_cells_are_missing),
        TEST(constants_are_held_and_quantities_derived),
        TEST(tables_of_blanks_and_of_decimal_commas_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
