/* Errors and warnings of fits name settings as the caller writes them. */
#include "fit/line.h"
#include "support/spellings.h"

#define LIST(...) \
    (const char *const[]) { __VA_ARGS__, NULL }
#define PARAMS(...)                \
    (gd_fit_param[]){__VA_ARGS__}, \
        .param_count = (int)(sizeof((gd_fit_param[]){__VA_ARGS__}) / sizeof(gd_fit_param))
#define A                       \
    {                           \
        .name = "a", .start = 1 \
    }
#define B                       \
    {                           \
        .name = "b", .start = 1 \
    }

/* A spec with the members that are wrong; model and parameters, where it has none, are those of the line. */
typedef struct mistake {
    gd_fit_spec spec;
    const char *want;
    bool warns;
} mistake;

static const mistake mistakes[] = {
    {{.params = PARAMS({.start = 1}, B)}, "fit: <params>: number 1 has no name", 0},
    {{.params = PARAMS(A, A)}, "<params>: 'a' is there already", 0},
    {{.params = PARAMS(A, {.name = "x"})}, "<params>: 'x' is also a column of line", 0},
    {{.params = PARAMS(A, B, {.name = "q"})}, "<params> q: the model does not use it", 0},
    {{.params = PARAMS(A, {.name = "b[x"})}, "<params>: 'NAME[COLUMN]=VALUE' expected", 0},
    {{.params = PARAMS(A, {.name = "b", .low = 2, .high = 1})},
     "<params> b: no number is between 2 and 1",
     0},
    {{.params = PARAMS(A, {.name = "b", .fixed = true, .tied = "a"})}, "<params> b: it is fixed and tied", 0},
    {{.params = PARAMS({.name = "a", .fixed = true}, {.name = "b", .fixed = true})},
     "fit: no <params> given",
     0},
    {{.params = PARAMS(A, B, {.name = "q", .fixed = true})}, "<fixed> q: the model does not use it", 0},
    {{.params = PARAMS(A, {.name = "b", .tied = "2*x"})}, "<tied> b: 'x' is a column; parameters only", 0},
    {{.params = PARAMS(A, {.name = "b", .tied = "2*"})}, "<tied> b: column 3: ", 0},
    {{.params = PARAMS(A, {.name = "a", .tied = "2"}, B)}, "<tied> a: there is a parameter of this name", 0},
    {{.bounds = LIST("q>1")}, "<bounds>: no parameter 'q'", 0},
    {{.bounds = LIST("a>")}, "<bounds>: column 3: ", 0},
    {{.bounds = LIST("a>[1,2]")}, "<bounds>: 2 numbers for 'a'", 0},
    {{.bounds = LIST("2<a<1")}, "<bounds>: no number is between 2 and 1", 0},
    {{.bounds = LIST("a>2")}, "<bounds>: a starts at 1, outside its bound", 0},
    {{.bounds = LIST("a>0", "a>-1")}, "<bounds>: 'a' has one already", 0},
    {{.weights = "x", .sigma = "x"}, "fit: <weights> and <sigma> say the same", 0},
    {{.absolute_sigma = true}, "fit: <absolute_sigma> says something of <sigma>", 0},
    {{.loss = "sum"}, "fit: <loss>: 'sum' is none of", 0},
    {{.loss = "huber:-1"}, "fit: <loss> huber:-1: the scale", 0},
    {{.loss = "huber", .chain = "bfgs"}, "fit: <chain> minimises squares, <loss> huber", 0},
    {{.errors = "white"}, "fit: <errors>: 'white' is neither", 0},
    {{.errors = "hc3", .absolute_sigma = true}, "fit: <errors> hc3: not with <absolute_sigma>", 0},
    {{.errors = "hc3", .loss = "huber"}, "fit: <errors> hc3: not with <loss>", 0},
    {{.intervals = "wide"}, "fit: <intervals>: 'wide' is none of", 0},
    {{.intervals = "bootstrap:7"}, "fit: <intervals> bootstrap: '7' is neither", 0},
    {{.intervals = "profile", .loss = "huber"},
     "fit: <intervals> profile is for squares, not for <loss> huber",
     0},
    {{.starts = -1}, "fit: <starts>: -1 is not between", 0},
    {{.starts = 5, .chain = "bfgs"}, "fit: <starts> is for the method of fit itself, not for <chain>", 0},
    {{.guess = true, .chain = "bfgs"}, "fit: <guess> is for the method of fit itself, not for <chain>", 0},
    {{.level = 2}, "fit: <level>: 2 is not between 0 and 1", 0},
    {{.max_steps = -1}, "fit: <max_steps>: ", 0},
    {{.x_errors = LIST("1")}, NULL, 0}, /* the only column: its name may be left out */
    {{.x_errors = LIST("y=1")}, "<x_errors> y: the model does not use it", 0},
    {{.x_errors = LIST("x=1", "x=2")}, "<x_errors>: 'x' is there already", 0},
    {{.x_errors = LIST("x=-1")}, "<x_errors> x: -1 is not a standard deviation", 0},
    {{.x_errors = LIST("x=0")}, "<x_errors>: all are 0", 0},
    {{.exclude = LIST("sum(x) > 1")}, "<exclude>: ", 0},
    {{.exclude = LIST("x>")}, "<exclude>: column 3: ", 0},
    {{.exclude = LIST("x>7")}, "<exclude> 'x>7': no row is like that", true},
    {{.derive = LIST("half")}, "<derive>: NAME=EXPRESSION expected, 'half' found", 0},
    {{.derive = LIST("h=a", "h=b")}, "<derive>: 'h' is there already", 0},
    {{.derive = LIST("h=x")}, "<derive> h: 'x' is a column", 0},
    {{.dates = "weeks"}, "<dates>: 'weeks' is neither days nor seconds", 0},
    {{.dates = "days"}, "fit: <dates> has no effect: the model uses no column of dates", true},
    {{.derive = LIST(" half = log(2)/b")}, NULL, false},
    {{.derive = LIST("h=a", " h =b")}, "<derive>: 'h' is there already", false},
    {{.derive = LIST(" =b")}, "<derive>: NAME=EXPRESSION expected", false},
    {{.y = "x", .model = "y = a + b*x"}, "fit: the model gives 'y', <y> says 'x'", 0},
    {{.sigma = "x", .model = "x^2 + b*y^2 = a"}, "fit: <sigma> is for models of a y", 0},
    {{.model = "a + b*x + q"}, "expression: column 11: unknown name 'q'", 0},
};

static gd_fit_spec spec_of(const mistake *m, gd_table *table)
{
    gd_fit_spec s = m->spec, line = line_spec(table);
    s.table = table;
    if (!s.model) s.model = line.model;
    if (!s.params) s.params = line.params, s.param_count = line.param_count;
    if (!s.level) s.level = line.level;
    if (!s.max_steps) s.max_steps = line.max_steps;
    if (!s.starts) s.starts = line.starts;
    return s;
}

static void mistakes_are_named_as_the_caller_writes_them(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = line_table(ctx);
    for (int k = 0; k < COUNT_OF(spellings); k++)
        for (int i = 0; i < COUNT_OF(mistakes); i++) {
            const mistake *m = &mistakes[i];
            gd_fit_spec spec = spec_of(m, table);
            ctx->vocabulary = &spellings[k];
            gd_fit *fit = gd_fit_new(ctx, &spec);
            if ((fit != NULL) != (m->warns || !m->want))
                fail_msg("%s: %s", m->want, fit ? "accepted" : gd_error_text(ctx));
            if (m->want) expect_spelling(ctx, &spellings[k], m->want, m->warns);
            gd_fit_free(fit);
        }
    gd_table_free(table);
}

static void advice_names_what_would_make_a_name_known(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.model = "a + b*x + q";
    static const char *const want[] = {".params q=1 makes it a parameter, .fixed q=1 a constant",
                                       "--param q=1 makes it a parameter, --fix q=1 a constant",
                                       "params= q=1 makes it a parameter, fix= q=1 a constant"};
    for (int k = 0; k < COUNT_OF(spellings); k++) {
        ctx->vocabulary = &spellings[k];
        assert_null(gd_fit_new(ctx, &spec));
        expect_error(ctx, GD_PARSE, want[k]);
    }
    gd_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(mistakes_are_named_as_the_caller_writes_them, begin_test, end_test),
        cmocka_unit_test_setup_teardown(advice_names_what_would_make_a_name_known, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
