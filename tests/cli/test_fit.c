/* What `gradus fit` is made of: bounds and Student's t; and the command itself on lines, whose answer is known. */
#include "cli/data/table.h"
#include "program.h"

#include "cli/problem/bound.h"
#include "base/special.h"
#include "gradus/file.h"

static memory counted;
static gd_ctx *ctx;

static int start(void **state)
{
    if (enter_folder(state)) return -1;
    ctx = context(&counted, 1, NULL);
    gd_scope_begin(ctx);
    return 0;
}

static int stop(void **state)
{
    gd_scope_end(ctx);
    end_context(ctx, &counted);
    return leave_folder(state);
}

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

static void near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fabs(want))) fail_msg("%.17g, want %.17g", value, want);
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
    } cases[] = {{"b", "--bound: column 2: '<' or '>' expected"},
                 {"", "--bound: column 1: a parameter expected"},
                 {"b>", "--bound: column 3: a number expected"},
                 {"b>x", "--bound: column 3: a number expected"},
                 {"0<", "--bound: column 3: a parameter expected"},
                 {"0 b", "--bound: column 3: '<' or '>' expected"},
                 {"b>0,c>0", "--bound: column 4: nothing more expected"},
                 {"0<b>1", "--bound: column 6: 0 < x < 1: both signs the same way expected"},
                 {"1<b<0", "--bound: nothing lies between 1 and 0"}};
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
                 {"w[1,0]>0", "--bound: 'w' has one already; write low<w<high"},
                 {"w[2,0]>0", "--bound: 'w' has no such element"},
                 {"w[1]>0", "--bound: 'w' has no such element"},
                 {"a>[1,2,3]", "--bound: 3 numbers for 'a', which has 2 elements"},
                 {"a[0.5]>0", "--bound: column 6: the number of an element, from 0, and ']' expected"},
                 {"a[0]>5", "--bound: nothing lies between 5 and 3"},
                 {"v>0", "--bound: no parameter 'v'"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        gd_status status = gd__bounds_read(ctx, cases[i].text, names, params, 2, low, high);
        assert_int_equal(status, cases[i].error ? GD_PARSE : GD_OK);
        if (cases[i].error) assert_error(ctx, GD_PARSE, cases[i].error);
    }
    assert_true(low[4] == -1 && high[0] == 3 && high[1] == 4 && low[3] == 0 && high[3] == 2);
    assert_true(low[2] == -INFINITY && high[5] == INFINITY);
}

/* ---- the command ---- */

/* Prints its results, then fails with one sentence. */
static void admits(const char *arguments, const char *text)
{
    int got = gradus(arguments);
    if (got != 1) fail_msg("gradus %s: exit %d, want 1: %s", arguments, got, err);
    if (strncmp(err, "gradus: fit: not converged: ", 28) != 0 || !strstr(err, text))
        fail_msg("gradus %s says\n  %swant\n  %s", arguments, err, text);
    if (!*out) fail_msg("gradus %s prints nothing", arguments);
}

/* The number behind "key": in an object named by `object` ("" for the outer one). */
static void check(const char *object, const char *key, double want, double tolerance)
{
    double got = json_number_in(object, key);
    if (!(fabs(got - want) <= tolerance * fabs(want)))
        fail_msg("%s.%s is %.15g, want %.15g", object, key, got, want);
}

#define LINE_A    1.040000000000001
#define LINE_B    1.9899999999999998
#define LINE_SA   0.14628738838327787
#define LINE_SB   0.059721576223896365
#define LINE_RSS  0.10699999999999991
#define LINE_R2   0.9973053289009771
#define SIGMA_A   1.0145383104125743
#define SIGMA_B   2.0078585461689586
#define SIGMA_RSS 0.04658153241650304
#define SIGMA_SB  0.04133152035119252

static const char line_data[] = "x,y,s\n0,1.1,1\n1,2.9,1\n2,5.2,2\n3,6.8,2\n4,9.1,1\n";

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
    double likelihood = -0.5 * (4 * (log(2 * M_PI) + 1 - log(4) + log(chi)) - weights);
    check("", "log_likelihood", likelihood, 1e-12);
    check("", "aic", -2 * likelihood + 4, 1e-12);
    check("", "aicc", -2 * likelihood + 4 + 12, 1e-12);
    check("", "bic", -2 * likelihood + 2 * log(4), 1e-12);
    works("fit 'b*x' known.csv --sigma s --absolute-sigma --param b=1");
    assert_non_null(strstr(out, "chi-square "));
    works("fit 'b*x' known.csv --sigma s --param b=1 --json"); /* ratios only: scaled by what is left */
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

/* ---- after the fit ---- */

/* Cell of a line of a table of numbers, both from 0; the first line is the names. */
static double cell(const char *text, int line, int column)
{
    for (; line > 0; line--) text = strchr(text, '\n') + 1;
    for (; column > 0; column--) text = strchr(text, ',') + 1;
    return strtod(text, NULL);
}

/* Two lines with one slope: that of the sums about the means of each, and a level for each. */
static void several_tables_share_parameters_and_have_their_own(void **state)
{
    (void)state;
    static const double y[2][4] = {{1, 2.2, 2.9, 4.1}, {5.2, 5.9, 7.1, 8}};
    double sxy = 0, mean[2] = {0};
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 4; i++) mean[k] += y[k][i] / 4, sxy += (i - 1.5) * y[k][i];
    double slope = sxy / 10;
    put("one.csv", "t [s],S [mM]\n0,1\n1,2.2\n2,2.9\n3,4.1\n");
    put("two.csv", "S [mM],t [s]\n5.2,0\n5.9,1\n7.1,2\n8,3\n");
    put("both.csv", "t,S,which\n0,1,0\n1,2.2,0\n2,2.9,0\n3,4.1,0\n0,5.2,1\n1,5.9,1\n2,7.1,1\n3,8,1\n");
    static const char *const commands[] = {
        "fit 'a[set] + b*t' one.csv two.csv --y S --param 'a[set]=0' --param b=0 --json",
        "fit 'a[set] + b*t' one.csv two.csv --y 'S [mM]' --param a=[1,2] --param b=0 --json",
        "fit 'a[which] + b*t' both.csv --y S --param 'a[which]=[5,6]' --param b=0 --json",
        ("fit 'a[which] + b*t' both.csv --y S --param 'a[which]=0' --param b=0 --json --chain "
         "'levenberg_marquardt(gauss_newton)'")};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        works(commands[i]);
        double tolerance = i == 3 ? 1e-6 : 1e-12;
        check("params", "b", slope, tolerance);
        check("params", "a", mean[0] - 1.5 * slope, tolerance);
        const char *second = strchr(strstr(strstr(out, "\"params\""), "\"a\""), ',') + 1;
        near(strtod(second, NULL), mean[1] - 1.5 * slope, tolerance);
        check("", "dof", 5, 0);
    }
    works(
        "fit 'a[set] + b*t' one.csv two.csv --y S --param 'a[set]=0' --param b=0 --plot s.svg --out s.safetensors");
    slurp("s.svg", out, sizeof out);
    assert_non_null(strstr(out, "S [mM]"));
    assert_non_null(strstr(out, "t [s]"));
    assert_non_null(strstr(out, "set 1"));
    put("new.csv", "t,set\n10,1\n");
    works("predict s.safetensors new.csv --out p.csv");
    slurp("p.csv", out, sizeof out);
    near(strtod(strchr(out, '\n') + 1, NULL), mean[1] + 8.5 * slope, 1e-9);
}

/* The files are of numpy.savez and savez_compressed. */
static void arrays_of_numpy_and_safetensors_are_tables(void **state)
{
    (void)state;
    char command[400];
    static const char *const files[] = {GD_TEST_DIR "/cli/tables/line.npz",
                                        GD_TEST_DIR "/cli/tables/line_packed.npz", "line.safetensors"};
    static const double x[] = {0, 1, 2, 3, 4}, y[] = {1.1, 2.9, 5.2, 6.8, 9.1}, s[] = {1, 1, 2, 2, 1};
    gd_archive *archive = gd_archive_new(ctx);
    int64_t five = 5;
    assert_int_equal(gd_archive_put(archive, "x", gd_from_f64(ctx, GD_F64, 1, &five, x)), GD_OK);
    assert_int_equal(gd_archive_put(archive, "y", gd_from_f64(ctx, GD_F64, 1, &five, y)), GD_OK);
    assert_int_equal(gd_archive_put(archive, "s", gd_from_f64(ctx, GD_F32, 1, &five, s)), GD_OK);
    assert_int_equal(gd_archive_save(archive, "line.safetensors"), GD_OK);
    gd_archive_free(archive);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        (void)snprintf(command, sizeof command, "fit 'a + b*x' %s --param a=0 --param b=0 --sigma s --json",
                       files[i]);
        works(command);
        check("params", "a", SIGMA_A, 1e-10);
        check("params", "b", SIGMA_B, 1e-10);
    }
    gd_tensor *matrix = gd_transpose(gd_stack((gd_tensor *[]){gd_from_f64(ctx, GD_F64, 1, &five, x),
                                                              gd_from_f64(ctx, GD_F64, 1, &five, y)},
                                              2, 0, NULL),
                                     0, 1);
    assert_int_equal(gd_npy_save(matrix, "line.npy"), GD_OK);
    works("fit 'a + b*c1' line.npy --y c2 --param a=0 --param b=0 --json --out line_fit.safetensors");
    check("params", "a", LINE_A, 1e-10);
    fails("fit 'a + b*c1' line.npy --y c2 --param a=0 --param b=0 --separator ,", 2, "--separator: ");
    works("predict line_fit.safetensors line.npy --score");
}

/* Every prefix, and every byte changed, is refused or read, and nothing worse. */
static void damaged_archives_of_numpy_are_refused(void **state)
{
    (void)state;
    static const char *const files[] = {GD_TEST_DIR "/cli/tables/line.npz",
                                        GD_TEST_DIR "/cli/tables/line_packed.npz"};
    for (size_t k = 0; k < 2; k++) {
        char bytes[2048];
        FILE *f = fopen(files[k], "rb");
        size_t size = fread(bytes, 1, sizeof bytes, f);
        fclose(f);
        assert_true(size > 100 && size < sizeof bytes);
        for (size_t i = 0; i < 2 * size; i += 1 + (size_t)(test_share() > 1)) {
            bool cut = i >= size;
            bytes[i % size] ^= cut ? 0 : 0x55;
            put_bytes("broken.npz", bytes, cut ? i - size : size);
            const char *paths[] = {"broken.npz"};
            gd_csv *csv = gd__table_load(ctx, paths, 1, NULL);
            if (cut) assert_null(csv);
            double v[5];
            for (int c = 0; csv && c < gd__csv_columns(csv) && gd__csv_rows(csv) == 5; c++)
                if (gd__csv_numbers(csv, c, true, v)) gd_clear_error(ctx);
            gd__csv_free(csv);
            gd_clear_error(ctx);
            bytes[i % size] ^= cut ? 0 : 0x55;
        }
    }
}

static void residuals_of_the_fitted_rows_are_written(void **state)
{
    (void)state;
    put("gaps.csv", "x,y,s\n0,1.1,1\n9,,1\n1,2.9,1\n\n2,5.2,2\n3,6.8,2\n4,9.1,1\n");
    works("fit 'a + b*x' gaps.csv --param a=0 --param b=0 --missing drop --residuals r.csv");
    slurp("r.csv", out, sizeof out);
    assert_ptr_equal(strstr(out, "line,x,y,fitted,residual,standardized\n"), out);
    const double x[] = {0, 1, 2, 3, 4}, y[] = {1.1, 2.9, 5.2, 6.8, 9.1}, lines[] = {2, 4, 6, 7, 8};
    for (int i = 0; i < 5; i++) {
        double fitted = LINE_A + LINE_B * x[i], sigma = sqrt(LINE_RSS / 3);
        const double want[] = {lines[i], x[i], y[i], fitted, y[i] - fitted, (y[i] - fitted) / sigma};
        for (int k = 0; k < 6; k++)
            if (!(fabs(cell(out, i + 1, k) - want[k]) < 1e-9))
                fail_msg("row %d, %d: %g, want %g", i, k, cell(out, i + 1, k), want[k]);
    }
    works("fit 'a + b*x' gaps.csv --param a=0 --param b=0 --missing drop --sigma s --residuals r.csv");
    slurp("r.csv", out, sizeof out);
    double sigma = sqrt(SIGMA_RSS / 3);
    assert_true(fabs(cell(out, 3, 5) - (5.2 - SIGMA_A - 2 * SIGMA_B) / 2 / sigma) < 1e-6);
    fails("fit 'a*x' gaps.csv --param a=1 --residuals gaps.csv", 2, "are the same file");
}

/* Bands of a straight line from the textbook: s sqrt(1/n + (x - mean)^2 / Sxx), and with 1 more under the root. */
static void a_saved_fit_predicts_with_its_bands(void **state)
{
    (void)state;
    const double t3 = 3.182446305284263, s = sqrt(LINE_RSS / 3);
    put("line.csv", line_data);
    put("new.csv", "z,x,a\n1,10,7\n2,-3.5,7\n");
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --out fit.safetensors");
    works("predict fit.safetensors new.csv");
    assert_ptr_equal(strstr(out, "y,confidence_low,confidence_high,prediction_low,prediction_high\n"), out);
    const double x[] = {10, -3.5};
    for (int i = 0; i < 2; i++) {
        double value = LINE_A + LINE_B * x[i], core = 1.0 / 5 + (x[i] - 2) * (x[i] - 2) / 10;
        const double half[] = {t3 * s * sqrt(core), t3 * s * sqrt(1 + core)};
        near(cell(out, i + 1, 0), value, 1e-9);
        for (int k = 0; k < 2; k++) {
            near(cell(out, i + 1, 1 + 2 * k), value - half[k], 1e-8);
            near(cell(out, i + 1, 2 + 2 * k), value + half[k], 1e-8);
        }
    }
    works("predict fit.safetensors line.csv --score --json");
    check("", "r2", LINE_R2, 1e-9);
    check("", "rmse", sqrt(LINE_RSS / 5), 1e-9);
    works("predict fit.safetensors line.csv --score --target s");
    works("predict fit.safetensors new.csv --json --out p.json");
    fails("predict fit.safetensors new.csv --probabilities", 2,
          "--probabilities is for models of gradus train");
    fails("predict fit.safetensors new.csv --device cpu", 2, "--device is for models of gradus train");
    fails("predict fit.safetensors new.csv --target y", 2, "--target is for --score");
    fails("predict fit.safetensors new.csv --score", 2, "new.csv: no column 'y'");
    put("other.csv", "u\n1\n");
    fails("predict fit.safetensors other.csv", 2, "other.csv: no column 'x'");
}

/* Functions, constants and deviations come along; where the deviations of new rows are not known there is no band for them. */
static void what_the_model_needs_is_in_the_saved_fit(void **state)
{
    (void)state;
    put("line.csv", line_data);
    put("f.gd", "rise(x, k) = k * x; # a function\n");
    put("new.csv", "x\n5\n");
    put("known.csv", "x,s\n5,3\n");
    works(
        "fit 'p[0] + rise(x, m*p[1])' line.csv --param p=[0,0] --fix m=2 --def f.gd --sigma s --absolute-sigma --out "
        "fit.safetensors");
    (void)remove("f.gd");
    assert_int_equal(gradus("predict fit.safetensors new.csv"), 0);
    assert_non_null(strstr(err, "no column 's' in new.csv: no prediction bands"));
    near(cell(out, 1, 0), SIGMA_A + 5 * SIGMA_B, 1e-9);
    double low = cell(out, 1, 1), value = cell(out, 1, 0);
    assert_true(isinf(cell(out, 1, 3)) && isinf(cell(out, 1, 4)));
    works("predict fit.safetensors known.csv");
    near(cell(out, 1, 1), low, 1e-12);
    double z = 1.959963984540054, error = (value - low) / z;
    near(cell(out, 1, 4), value + z * sqrt(error * error + 9), 1e-9);
    works("minimize '(x-1)^2' --param x=0 --out point.safetensors");
    fails("predict point.safetensors new.csv", 1, "point.safetensors: not a model of gradus train");
}

/* Numbers of statsmodels: see tests/optim/test_robust.c. */
static void outliers_pull_less_by_another_loss_and_are_listed(void **state)
{
    (void)state;
    put("rough.csv",
        "x,y\n0,1.041\n1,1.583\n2,1.836\n3,2.474\n4,5.902\n5,3.483\n6,3.871\n7,4.502\n8,4.996\n9,5.47\n10,3.895\n11,"
        "6.46\n");
    works(
        "fit 'a + b*x' rough.csv --param a=0 --param b=0 --loss tukey:0.04454060126087615 --json --out t.safetensors");
    check("params", "a", 1.0341100374872734, 1e-12);
    check("params", "b", 0.4923831283927873, 1e-12);
    check("", "scale", 0.04454060126087615, 1e-15);
    assert_non_null(strstr(out, "\"r2\": null"));
    assert_non_null(strstr(out, "\"aicc\": null"));
    assert_non_null(strstr(out, "\"loss\": \"tukey\""));
    assert_non_null(strstr(out, "\"outliers\": [{\"line\": "));
    works("fit 'a + b*x' rough.csv --param a=0 --param b=0 --loss huber --residuals r.csv");
    assert_non_null(strstr(out, "more than 3 standard deviations off: line 6 ("));
    assert_null(strstr(out, "R2"));
    assert_null(strstr(out, "AIC"));
    slurp("r.csv", out, sizeof out);
    assert_non_null(strstr(out, ",standardized,weight\n"));
    /* huber: weight 1.345 / |z|, or 1 */
    near(cell(out, 5, 6), 1.345 / fabs(cell(out, 5, 5)), 1e-12);
    assert_true(cell(out, 1, 6) == 1 || fabs(cell(out, 1, 5)) > 1.345);
    fails("compare t.safetensors t.safetensors", 2, "t.safetensors: fitted by --loss tukey: no likelihoods");
    works("predict t.safetensors rough.csv --score");
    works("fit 'a + b*x' rough.csv --param a=2 --param b=0 --loss cauchy --bound 'a>1.5'");
    assert_non_null(strstr(out, "nothing is said but the bounds"));
    fails("fit 'a*x' rough.csv --param a=1 --loss hubert", 2, "'hubert' is none of squares, huber");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber:", 2,
          "--loss huber:: the scale is a positive number");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber:-1", 2, "the scale is a positive number");
    fails("fit 'a*x' rough.csv --param a=1 --loss squares:2", 2, "squares have no scale");
    fails("fit 'a*x' rough.csv --param a=1 --loss huber --chain 'lbfgs | strong_wolfe'", 2,
          "--chain minimises squares");
    put("few.csv", "x,y\n1,2\n");
    fails("fit 'a*x' few.csv --param a=1 --loss huber", 1, "say nothing of their scale");
}

/* Long tables go by ranges of rows, unless the model looks at several rows at once; threads change no bit. */
static void long_tables_are_fitted_by_ranges_of_rows(void **state)
{
    (void)state;
    FILE *f = fopen("long.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y,s,w\n");
    for (int i = 0; i < 4000; i++) {
        double x = i / 400.0, wave = ((i * 7919) % 1000 - 499.5) / 1000;
        fprintf(f, "%.17g,%.17g,%g,%d\n", x, 3 * exp(-0.4 * x) + 0.5 + wave, i % 2 ? 0.5 : 1.0, i % 3);
    }
    assert_int_equal(fclose(f), 0);
    static const char *const models[] = {"a*exp(-b*x)+c", "k*a*exp(-b*x)+c"};
    static const char *const more[] = {"", " --sigma s", " --loss huber",
                                       " --chain 'levenberg_marquardt(gauss_newton)'"};
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
            char command[300], *alone;
            /* sum(x) - sum(x) looks at all rows, and says nothing */
            (void)snprintf(
                command, sizeof command,
                "fit '%s+0*(sum(x)-sum(x))' long.csv --param a=1 --param b=1 --param c=0 --json%s%s",
                models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            double a = json_number_in("params", "a"), rss = json_number_in("", "rss");
            (void)snprintf(command, sizeof command,
                           "fit '%s' long.csv --param a=1 --param b=1 --param c=0 --json --threads 1%s%s",
                           models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            near(json_number_in("params", "a"), a, i == 3 ? 1e-7 : 1e-10);
            near(json_number_in("", "rss"), rss, 1e-11);
            alone = strdup(out);
            *strstr(alone, "\"seconds\"") = 0;
            (void)snprintf(command, sizeof command,
                           "fit '%s' long.csv --param a=1 --param b=1 --param c=0 --json --threads 3%s%s",
                           models[m], m ? " --fix k=1" : "", more[i]);
            works(command);
            assert_memory_equal(out, alone, strlen(alone));
            free(alone);
        }
}

/* Puromycin as in tests/optim/test_intervals.c, where the numbers come from; the bootstrap does not depend on threads. */
static void intervals_are_by_profile_or_bootstrap_on_request(void **state)
{
    (void)state;
    char first[4096];
    put("rate.csv",
        "c,y\n0.02,76\n0.02,47\n0.06,97\n0.06,107\n0.11,123\n0.11,139\n0.22,159\n0.22,152\n0.56,191\n0.56,201\n1.10,"
        "207\n1.10,200\n");
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals profile --json");
    double low, high;
    const char *at = strstr(out, "\"interval\": {\"V\": [");
    assert_non_null(at);
    assert_int_equal(sscanf(strchr(at, '['), "[%lf, %lf]", &low, &high), 2);
    near(low, 197.3019329, 1e-7);
    near(high, 229.2890551, 1e-7);
    assert_non_null(strstr(out, "\"intervals\": \"profile\""));
    works(
        "fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --threads 1 --seed 5");
    assert_non_null(strstr(out, "intervals by 300 resampled sets of rows, BCa"));
    *strstr(out, "steps, ") = 0;
    snprintf(first, sizeof first, "%s", out);
    works(
        "fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --threads 3 --seed 5");
    *strstr(out, "steps, ") = 0;
    assert_string_equal(out, first);
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:300 --seed 6");
    *strstr(out, "steps, ") = 0;
    assert_string_not_equal(out, first);
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --intervals bootstrap:residuals:200");
    assert_non_null(strstr(out, "200 resampled sets of residuals"));
    works("fit 'V*c/(K+c)' rate.csv --param V=200 --param K=0.05 --loss huber --intervals bootstrap:100");
    works("fit 'V*c/(K+c)' rate.csv --param V=240 --param K=0.05 --bound 'V>230' --intervals bootstrap:100");
    assert_non_null(strstr(out, "at its bound   230 .. "));
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bayes", 2,
          "'bayes' is none of normal, profile");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals profile:3", 2,
          "'profile:3' is none of");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bootstrap:7", 2,
          "'7' is neither a number of resamples");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals bootstrap:", 2, "'' is neither");
    fails("fit 'V*c/(K+c)' rate.csv --param V=1 --param K=1 --intervals profile --loss huber", 2,
          "is for squares");
    put("two.csv", "x,y\n1,2\n2,3\n");
    fails("fit 'a + b*x' two.csv --param a=1 --param b=1 --intervals bootstrap", 1,
          "wants more rows than parameters");
}

/* ---- where a fit starts ---- */

/* count rows of x from low to high, y(x) and a little that looks like chance. */
static void put_curve(const char *name, double (*y)(double), double low, double high, int count, double noise)
{
    FILE *f = fopen(name, "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < count; i++) {
        double x = low + (high - low) * i / (count - 1);
        fprintf(f, "%.17g,%.17g\n", x, y(x) + noise * (((i * 7919) % 1000) / 499.5 - 1));
    }
    assert_int_equal(fclose(f), 0);
}

static double falling(double x) { return 5 * exp(-0.6 * x) + 2; }
static double rising(double x) { return 3 * (1 - exp(-x / 2.5)); }
static double powered(double x) { return 0.03 * pow(x, 2.7); }
static double bell(double x) { return 120 * exp(-pow((x - 417) / 9.5, 2) / 2) + 15; }
static double dip(double x) { return 100 - 40 / (1 + pow((x - 355) / 4, 2)); }
static double turn(double x) { return 7 / (1 + exp(-3 * (x - 6.2))) - 2; }
static double wave(double x) { return 2.5 * sin(2 * M_PI * 1.37 * x + 0.8) + 4; }
static double straight(double x) { return 1e5 - 3e3 * x; }

/* The same curve in the ways people write it; the parameters' names say nothing. */
static void starts_are_guessed_for_known_shapes(void **state)
{
    (void)state;
    static const struct {
        double (*y)(double);
        double low, high, noise;
        int params;
        const char *model, *shape, *param;
        double want;
    } cases[] = {
        {falling, 0, 10, 0.05, 3, "p*exp(-q*x)+r", "exponential", "q", 0.6},
        {falling, 0, 10, 0.05, 3, "p+q*2^(-x/r)", "exponential", "r", 0.6931471805599453 / 0.6},
        {rising, 0, 10, 0.05, 2, "p*(1-exp(-x/q))", "exponential", "q", 2.5},
        {powered, 0.1, 10, 0.02, 2, "p*x^q", "power", "q", 2.7},
        {bell, 300, 500, 2, 4, "p*exp(-(x-q)^2/(2*r^2))+s", "peak", "q", 417},
        {bell, 300, 500, 2, 4, "p+q/(r*sqrt(2*pi))*exp(-0.5*((x-s)/r)^2)", "peak", "q",
         120 * 9.5 * 2.5066282746310002},
        {dip, 300, 500, 0.5, 4, "p+q/(1+((x-r)/s)^2)", "peak", "r", 355},
        {turn, 0, 10, 0.1, 4, "p/(1+exp(-q*(x-r)))+s", "step", "r", 6.2},
        {wave, 0, 50, 0.5, 4, "p*sin(2*pi*q*x+r)+s", "sine", "q", 1.37},
        {wave, 0, 50, 0.5, 4, "p+q*cos(r*x-s)", "sine", "r", 2 * M_PI * 1.37},
        {straight, 0, 10, 100, 2, "p+q*x", "line", "q", -3e3},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[300];
        put_curve("c.csv", cases[i].y, cases[i].low, cases[i].high, 300, cases[i].noise);
        (void)snprintf(arguments, sizeof arguments, "fit '%s' c.csv --guess --param p --param q%.*s --json",
                       cases[i].model, 10 * (cases[i].params - 2), " --param r --param s");
        works(arguments);
        double got = json_number_in("params", cases[i].param);
        if (!(fabs(fabs(got) - fabs(cases[i].want)) <= 0.02 * fabs(cases[i].want)))
            fail_msg("%s: %s is %g, want %g", cases[i].model, cases[i].param, got, cases[i].want);
        (void)snprintf(arguments, sizeof arguments, "\"guess\": \"%s\"", cases[i].shape);
        if (!strstr(out, arguments)) fail_msg("%s: no %s", cases[i].model, arguments);
    }
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --guess --param a=7 --param b --bound 'b>0'");
    assert_non_null(strstr(out, "start guessed: line"));
    fails("fit 'a*x + b*s' line.csv --guess --param a --param b", 2, "--guess knows shapes over one column");
    fails("fit 'a[0]*x' line.csv --guess --param a=[1,2]", 2, "each one number");
    fails("fit 'a*x' line.csv --param a", 2, "--param: NAME=VALUE expected, 'a' found");
    fails("fit 'a*x' line.csv --param a --guess --chain 'lbfgs | strong_wolfe'", 2,
          "--guess is for the method of fit itself");
    put("two.csv", "x,y\n1,2\n2,3\n");
    fails("fit 'a*x' two.csv --param a --guess", 2, "--guess wants three rows");
    fails("fit 'sqrt(-1-a^2)*x' line.csv --param a --guess", 2, "finite for none of the shapes");
}

/* A sine has a minimum every half turn: from 1 the frequency 5 is out of reach. */
static void several_starts_find_the_lowest_minimum(void **state)
{
    (void)state;
    char first[4096];
    FILE *f = fopen("s.csv", "w");
    assert_non_null(f);
    fprintf(f, "x,y\n");
    for (int i = 0; i < 60; i++) fprintf(f, "%g,%.17g\n", 0.1 * i, 2 * sin(5 * 0.1 * i));
    assert_int_equal(fclose(f), 0);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --json");
    assert_true(fabs(json_number_in("params", "w") - 5) > 1);
    works(
        "fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --bound '0<w<10' --bound '0<a<5' --starts 30 --json");
    check("params", "w", 5, 1e-9);
    check("params", "a", 2, 1e-9);
    check("", "starts", 30, 0);
    assert_true(json_number("agreed") >= 1);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --starts 30 --seed 4"); /* around the start */
    assert_non_null(strstr(out, "best of 30 starts, "));
    *strstr(out, "steps, ") = 0;
    snprintf(first, sizeof first, "%s", out);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --starts 30 --seed 4 --threads 1");
    *strstr(out, "steps, ") = 0;
    assert_string_equal(out, first);
    works("fit 'a*sin(w*x)' s.csv --param a=1 --param w=1 --bound '0.1<w<1000' --starts 20 --loss huber:1");
    fails("fit 'a*x' s.csv --param a=1 --starts 1", 2, "--starts");
    fails("fit 'a*x' s.csv --param a=1 --starts 3 --chain 'lbfgs | strong_wolfe'", 2,
          "--starts is for the method of fit itself");
}

static void a_constant_y_has_no_r2(void **state)
{
    (void)state;
    put("flat.csv", "x,y\n0,5\n1,5\n2,5\n");
    works("fit 'a + b*x' flat.csv --param a=0 --param b=0");
    assert_non_null(strstr(out, "R2 not defined for a constant y"));
    assert_null(strstr(out, "nan"));
    works("fit 'a + b*x' flat.csv --param a=0 --param b=0 --json");
    assert_non_null(strstr(out, "\"r2\": null"));
}

static void tables_and_pictures_are_made(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --plot fit.svg --out fit.safetensors");
    assert_non_null(strstr(out, "parameter"));
    assert_non_null(strstr(out, "95 % interval"));
    assert_non_null(strstr(out, "residual standard deviation"));
    assert_int_equal(access("fit.svg", F_OK), 0);
    works("fit 'a*s + b*x' line.csv --param a=0 --param b=0 --plot two.png");
    works("eval 'b' --param b=@fit.safetensors:b --json");
    check("", "value", LINE_B, 1e-10);
    put("odd.csv", "the time;y\n0;1\n1;3\n2;5.1\n");
    works("fit 'a + b*`the time`' odd.csv --param a=0 --param b=0 --json");
    put("bare.csv", "0,1\n1,3\n2,5.1\n");
    works("fit 'a + b*c1' bare.csv --y c2 --param a=0 --param b=0 --no-header --json");
}

/* The curve lies over the points, bands under them; long tables make no large files. */
static void pictures_show_errors_bands_and_residuals(void **state)
{
    (void)state;
    put("line.csv", line_data);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --plot fit.svg");
    slurp("fit.svg", out, sizeof out);
    const char *band = strstr(out, "95 % of new measurements"),
               *circle = strstr(out, "<circle class=\"a i4\""),
               *curve = strstr(out, "<path class=\"l i5\" stroke-width=\"2\"");
    assert_true(band && circle && curve && strstr(out, ">residual</text>"));
    assert_true(strstr(out, "fill-opacity=\"0.22\"") < circle && circle < curve);
    works("fit 'a + b*x' line.csv --param a=0 --param b=0 --sigma s --plot bars.svg --dark");
    slurp("bars.svg", out, sizeof out);
    assert_non_null(strstr(out, "<path class=\"l i4\" stroke-width=\"1.2\""));
    assert_null(strstr(out, "new measurements"));
    assert_null(strstr(out, "prefers-color-scheme"));
    works("fit 'a*exp(b*x)' line.csv --param a=1 --param b=0.1 --plot log.pdf --log y");
    works("fit 'a*s + b*x' line.csv --param a=0 --param b=0 --plot two.pdf --dark");
    slurp("two.pdf", out, sizeof out);
    assert_memory_equal(out, "%PDF", 4);
    put_curve("many.csv", falling, 0, 10, 60000, 0.5);
    works("fit 'a*exp(-b*x)+c' many.csv --param a=4 --param b=1 --param c=0 --plot many.svg");
    struct stat info;
    assert_int_equal(stat("many.svg", &info), 0);
    if (info.st_size > 500000) fail_msg("%ld bytes", (long)info.st_size);
    fails("fit 'a*x' line.csv --param a=1 --log x", 2, "--log is for --plot");
    fails("fit 'a*x' line.csv --param a=1 --dark", 2, "--dark is for --plot");
    fails("fit 'a*x' line.csv --param a=1 --plot p.svg --log z", 2, "'z' is none of");
    put("below.csv", "x,y\n-1,2\n1,3\n2,5\n");
    assert_int_equal(gradus("fit 'a*x' below.csv --param a=1 --plot p.svg --log x"), 1);
    assert_non_null(strstr(err, "-1 has no place on a logarithmic x axis"));
    assert_non_null(strstr(out, "parameter")); /* the fit is not lost for its picture */
    works("minimize '(x-1)^2' --param x=0 --plot run.pdf --dark");
    fails("minimize '(x-1)^2' --param x=0 --dark", 2, "--dark is for --plot");
}

static void one_row_is_fitted_without_errors_to_give(void **state)
{
    (void)state;
    put("one.csv", "x,y\n2,6\n");
    works("fit 'b*x' one.csv --param b=1 --json");
    check("params", "b", 3, 1e-10);
    admits("fit 'a + b*x' one.csv --param a=0 --param b=1", "a and b cannot be told apart");
    assert_non_null(strstr(out, "no degrees of freedom left"));
    assert_null(strstr(out, "nan"));
}

static void broken_input_is_named(void **state)
{
    (void)state;
    put("line.csv", line_data);
    put("bad.csv", "x,y\n1,2\n3,abc\n");
    put("nan.csv", "x,y\n1,2\n3,NaN\n");
    put("gap.csv", "x,y\n1,2\n3,\n");
    put("ragged.csv", "x,y\n1,2\n3\n");
    put("none.csv", "x,y\n");
    put("empty.csv", "");
    put("zero.csv", "x,y,s\n1,2,0\n");
    put("wide.csv", "x,y\n1,2\n");
    put("other.csv", "x,y,t\n1,2,0\n");
    put("second.csv", "s,y,x\n1,2,0\n1,abc,0\n");
    put("sets.csv", "x,y,set\n1,2,0\n2,3,0\n");
    put("half.csv", "x,y\n1,2\n0.5,3\n");
    put("zeros.npz", "PK");
    works("minimize 'p^2' --param p=1 --out point.safetensors");
    static const char *const tail = " --param a=0 --param b=0";
    static const struct {
        const char *arguments;
        int code;
        const char *text;
    } cases[] = {
        {"'a+b*x' missing.csv", 1, "missing.csv: cannot open: No such file or directory"},
        {"'a+b*x' .", 1, ".: cannot read: Is a directory"},
        {"'a+b*x' empty.csv", 1, "empty.csv: the file is empty"},
        {"'a+b*x' none.csv", 1, "none.csv: no rows"},
        {"'a+b*x' bad.csv", 1, "bad.csv: line 3, column 'y': 'abc' is not a number"},
        {"'a+b*x' nan.csv", 1, "nan.csv: line 3, column 'y': 'NaN' stands for a missing number"},
        {"'a+b*x' gap.csv", 1, "gap.csv: line 3, column 'y': the cell is empty"},
        {"'a+b*x' ragged.csv", 1, "ragged.csv: line 3: 1 cell, but line 1 has 2"},
        {"'a+b*x' line.csv --y z", 2, "line.csv: no column 'z', the columns are x, y, s"},
        {"'a+b*q' line.csv", 2, "expression: column 5: unknown name 'q'"},
        {"'a*x' line.csv", 2, "--param b: the model does not use it"},
        {"'a+b*x' line.csv --param x=1", 2, "--param: 'x' is also a column of line.csv"},
        {"'a+b*x' line.csv --bound 'c>0'", 2, "--bound: no parameter 'c'"},
        {"'a+b*x' line.csv --bound 'b>1'", 2, "--bound: b starts at 0, outside its bound"},
        {"'a+b*x' line.csv --sigma s --weights s", 2, "--weights and --sigma say the same"},
        {"'a+b*x' zero.csv --sigma s", 1, "zero.csv: line 2, column 's': 0 is not positive"},
        {"'a+b*x' line.csv --plot x.gif", 2, "x.gif: a picture ends in .svg, .png or .pdf"},
        {"'a+b*x' line.csv --separator ab", 2, "--separator: 'ab' is not one character"},
        {"'a+b*log(x-9)' line.csv", 1, "not finite"},
        {"'a+b*x' line.csv more.csv", 1, "more.csv: cannot open: No such file or directory"},
        {"'a+b*x' line.csv wide.csv", 1, "wide.csv has 2 columns, line.csv has 3"},
        {"'a+b*x' line.csv other.csv", 1, "other.csv: no column 's', which line.csv has"},
        {"'a+b*x' sets.csv sets.csv", 2,
         "sets.csv has a column 'set', which is to be the number of the file"},
        {"'a+b*x' line.csv second.csv", 1, "second.csv: line 3, column 'y': 'abc' is not a number"},
        {"'a+b*x' line.csv line.csv --sigma x", 1, "line.csv: line 2, column 'x': 0 is not positive"},
        {"'a+b*x+c[set]' line.csv line.csv --param c[set]=[1,2,3]", 2,
         "--param c: 3 values for the 2 of 'set'"},
        {"'a+b*x+c[x]' half.csv --param c[x]=1", 1,
         "half.csv: line 3, column 'x': 0.5 is not the number of a set"},
        {"'a+b*x+c[q]' line.csv --param c[q]=1", 2, "line.csv: no column 'q'"},
        {"'a+b*x' line.csv --param c[x=1", 2, "--param: 'NAME[COLUMN]=VALUE' expected"},
        {"'a+b*x' zeros.npz", 1, "zeros.npz: not an .npz file, or cut off"},
        {"'a+b*x' point.safetensors", 2,
         "point.safetensors: 'p' has 0 axes; vectors and matrices are columns"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char arguments[256];
        snprintf(arguments, sizeof arguments, "fit %s%s", cases[i].arguments, tail);
        fails(arguments, cases[i].code, cases[i].text);
    }
    fails("fit 'x' line.csv", 2, "no --param given");
    fails("fit 'a*x' line.csv --param a=1 --device gpu:77", 1, "device 'gpu:77'");
    fails("fit 'a*x' line.csv --param a=1 --device tpu", 1, "device 'tpu' is not one of 'cpu', 'gpu'");
    fails("fit 'a*x'", 2, "'MODEL' DATA.csv [MORE.csv...] is missing");
}

/* The shipped data set, as ./dev run shows it: the parameters it was made with lie within their errors. */
static void the_shipped_decay_is_recovered(void **state)
{
    (void)state;
    works("fit 'a*exp(-b*t)+c' " GD_TEST_DIR
          "/../examples/data/decay.csv --y y --param a=1 --param b=1 --param c=0 --json");
    check("params", "a", 5, 0.04);
    check("params", "b", 0.5, 0.08);
    check("params", "c", 1, 0.08);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, start, stop)

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
        TEST(several_tables_share_parameters_and_have_their_own),
        TEST(arrays_of_numpy_and_safetensors_are_tables),
        TEST(damaged_archives_of_numpy_are_refused),
        TEST(residuals_of_the_fitted_rows_are_written),
        TEST(a_saved_fit_predicts_with_its_bands),
        TEST(what_the_model_needs_is_in_the_saved_fit),
        TEST(outliers_pull_less_by_another_loss_and_are_listed),
        TEST(long_tables_are_fitted_by_ranges_of_rows),
        TEST(intervals_are_by_profile_or_bootstrap_on_request),
        TEST(starts_are_guessed_for_known_shapes),
        TEST(several_starts_find_the_lowest_minimum),
        TEST(a_constant_y_has_no_r2),
        TEST(tables_and_pictures_are_made),
        TEST(pictures_show_errors_bands_and_residuals),
        TEST(one_row_is_fitted_without_errors_to_give),
        TEST(broken_input_is_named),
        TEST(the_shipped_decay_is_recovered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
