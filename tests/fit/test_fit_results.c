/* gd_fit: what is found, how it is made of a text or a function, and what comes of it. */
#include "fit/line.h"
#include "gradus/file.h"

#include <unistd.h>

static void near(double value, double want, double tolerance)
{
    if (!(fabs(value - want) <= tolerance * fmax(1, fabs(want)))) fail_msg("%.17g, want %.17g", value, want);
}

static gd_fit *run(gd_ctx *ctx, const gd_fit_spec *spec)
{
    gd_fit *fit = gd_fit_new(ctx, spec);
    if (fit && gd_fit_run(fit)) print_error("%s\n", gd_error_text(ctx));
    assert_no_error(ctx);
    return fit;
}

static gd_fit *run_line(gd_ctx *ctx)
{
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    gd_fit *fit = run(ctx, &spec);
    gd_table_free(table); /* the fit has a reference */
    return fit;
}

static gd_fit_estimate get(gd_fit *fit, int64_t i)
{
    gd_fit_estimate e;
    assert_int_equal(gd_fit_get(fit, i, &e), GD_OK);
    return e;
}

static void check_line(gd_fit *fit)
{
    gd_fit_estimate a = get(fit, 0);
    assert_string_equal(a.name, "a");
    near(a.value, LINE_A, 1e-12);
    near(a.error, LINE_SA, 1e-12);
    near(a.low, LINE_A - T_95 * LINE_SA, 1e-10);
    near(a.high, LINE_A + T_95 * LINE_SA, 1e-10);
    near(a.t, 7.109293641056476, 1e-10);
    near(a.p, 0.005726526198623515, 1e-10);
    gd_fit_estimate b = get(fit, 1);
    near(b.value, LINE_B, 1e-12);
    near(b.error, LINE_SB, 1e-12);
    near(b.p, 5.9415391117553654e-05, 1e-10);
    assert_false(b.undetermined || b.active);
}

static void a_line_has_the_estimates_of_linear_regression(void **state)
{
    gd_fit *fit = run_line(CTX(state));
    check_line(fit);
    gd_fit_summary s;
    assert_int_equal(gd_fit_summarise(fit, &s), GD_OK);
    near(s.rss, LINE_RSS, 1e-12);
    assert_true(s.points == 5 && s.dof == 3 && s.rank == 2 && s.converged && gd_stop_converged(s.stop));
    gd_tensor *c = gd_fit_covariance(fit), *r = gd_fit_correlation(fit);
    near(((const double *)gd_data(c))[0], LINE_SA * LINE_SA, 1e-12);
    near(((const double *)gd_data(r))[1], -0.8164965809277259, 1e-12);
    near(((const double *)gd_data(r))[3], 1, 0);
    gd_tensor *left = gd_fit_residuals(fit), *fitted = gd_fit_fitted(fit), *z = gd_fit_standardized(fit);
    assert_values_near(left, 1e-12, 0.06, -0.13, 0.18, -0.21, 0.1);
    assert_values_near(fitted, 1e-12, 1.04, 3.03, 5.02, 7.01, 9);
    near(((const double *)gd_data(z))[0], 0.06 / sqrt(LINE_RSS / 3), 1e-11);
    gd_tensor *all[] = {c, r, left, fitted, z};
    for (int i = 0; i < COUNT_OF(all); i++) gd_release(all[i]);
    gd_fit_free(fit);
}

/* params: a, k, b; k = 1 is a constant, b may be tied. */
static gd_tensor *line_of(void *user, gd_tensor *const *params, gd_tensor *const *columns)
{
    int *calls = user;
    ++*calls;
    return gd_add(gd_mul(params[1], params[0]), gd_mul(params[2], columns[0]));
}

static void a_function_gives_what_its_text_gives(void **state)
{
    gd_ctx *ctx = CTX(state);
    int calls = 0;
    static const gd_fit_param params[] = {
        {.name = "a", .start = 1}, {.name = "k", .start = 1, .fixed = true}, {.name = "b", .start = 1}};
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.model = NULL;
    spec.function = line_of;
    spec.user = &calls;
    spec.columns = (const char *const[]){"x", NULL};
    spec.params = params;
    spec.param_count = 3;
    gd_fit *fit = run(ctx, &spec);
    assert_true(calls > 0);
    check_line(fit);
    gd_tensor *bands = gd_fit_predict(fit, table);
    assert_non_null(bands);
    near(((const double *)gd_data(bands))[5], 3.03, 1e-12);
    gd_release(bands);
    assert_int_equal(gd_fit_draw(fit, "function.svg", NULL), GD_OK);
    assert_int_equal(unlink("function.svg"), 0);
    assert_int_equal(gd_fit_save(fit, "function.safetensors"), GD_VALUE);
    expect_error(ctx, GD_VALUE, "the model is a function");
    assert_int_equal(gd_fit_export(fit, "function.c"), GD_ARGUMENT);
    expect_error(ctx, GD_ARGUMENT, "export: the model is a function");
    gd_fit_free(fit);
    gd_table_free(table);
}

static gd_tensor *wrong_shape(void *user, gd_tensor *const *params, gd_tensor *const *columns)
{
    (void)user;
    return gd_mul(gd_slice(columns[0], "0", 0, 3, 1), params[0]);
}

static gd_tensor *nothing(void *user, gd_tensor *const *params, gd_tensor *const *columns)
{
    (void)user, (void)params, (void)columns;
    return NULL;
}

static void what_a_function_gives_is_checked(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_fit_function wrong[] = {wrong_shape, nothing};
    static const char *const says[] = {"the model gives 3 numbers for 5 rows", "the model gives no tensor"};
    gd_table *table = line_table(ctx);
    for (int i = 0; i < 2; i++) {
        gd_fit_spec spec = line_spec(table);
        spec.function = wrong[i];
        spec.columns = (const char *const[]){"x", NULL};
        gd_fit *fit = gd_fit_new(ctx, &spec);
        assert_true(gd_fit_run(fit) != GD_OK);
        expect_error(ctx, i ? GD_CALLBACK : GD_SHAPE, says[i]);
        gd_fit_free(fit);
    }
    gd_table_free(table);
}

/* y = a + b x with a = b / 2 is y = b (x + 1/2). */
static void tied_parameters_follow_others(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_fit_param params[] = {{.name = "b", .start = 1}, {.name = "a", .tied = "b/2"}};
    for (int of_function = 0; of_function < 2; of_function++) {
        int calls = 0;
        static const gd_fit_param three[] = {{.name = "a", .tied = "b/2"},
                                             {.name = "k", .start = 1, .fixed = true},
                                             {.name = "b", .start = 1}};
        gd_table *table = line_table(ctx);
        gd_fit_spec spec = line_spec(table);
        spec.exclude = (const char *const[]){"x > 99", NULL}; /* knows no parameters */
        spec.params = of_function ? three : params;
        spec.param_count = of_function ? 3 : 2;
        spec.function = of_function ? line_of : NULL;
        spec.user = &calls;
        spec.columns = (const char *const[]){"x", NULL};
        gd_fit *fit = run(ctx, &spec);
        assert_true(gd_fit_count(fit) == 1 && gd_fit_derived(fit) == 1);
        gd_fit_estimate b = get(fit, 0), a;
        near(b.value, 2.003636363636364, 1e-12);
        near(b.error, 0.025755793164697928, 1e-11);
        a = get(fit, 1);
        assert_string_equal(a.name, "a");
        near(a.value, 2.003636363636364 / 2, 1e-12);
        near(a.error, 0.025755793164697928 / 2, 1e-11);
        gd_fit_free(fit);
        gd_table_free(table);
    }
}

static void bounds_and_level_are_kept(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.level = 0.9;
    gd_fit *fit = run(ctx, &spec);
    near(get(fit, 0).high, LINE_A + T_90 * LINE_SA, 1e-10);
    char text[4000];
    assert_true(gd_fit_report(fit, false, text, sizeof text) > 0);
    assert_non_null(strstr(text, "90 % interval"));
    gd_fit_free(fit);
    static const gd_fit_param held[] = {{.name = "a", .start = 0.2, .low = -INFINITY, .high = 0.5},
                                        {.name = "b", .start = 1}};
    spec.params = held;
    fit = run(ctx, &spec);
    gd_fit_estimate a = get(fit, 0);
    assert_true(a.active == 1 && isnan(a.error) && isnan(a.p));
    near(a.value, 0.5, 1e-12);
    gd_fit_free(fit);
    gd_table_free(table);
}

/* f -+ t s sqrt(g' (X'X)^-1 g), and with 1 under the root for a new measurement; from NumPy. */
static void predictions_have_the_bands_of_linear_regression(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const double x[] = {5, 0.5};
    static const double want[2][5] = {
        {10.99, 10.359639938869895, 11.620360061130102, 10.11903241162346, 11.860967588376537},
        {2.035, 1.643179809520792, 2.426820190479204, 1.3175365549370048, 2.752463445062991}};
    gd_fit *fit = run_line(ctx);
    assert_int_equal(gd_fit_save(fit, "line.safetensors"), GD_OK);
    gd_fit *loaded = gd_fit_load(ctx, "line.safetensors");
    check_line(loaded);
    gd_fit *both[] = {fit, loaded};
    gd_table *table = gd_table_new(ctx, NULL);
    assert_int_equal(gd_table_add_numbers(table, "x", x, 2, 1, NULL, NULL), GD_OK);
    for (int k = 0; k < 2; k++) {
        gd_tensor *bands = gd_fit_predict(both[k], table);
        assert_non_null(bands);
        for (int i = 0; i < 10; i++) near(((const double *)gd_data(bands))[i], want[i / 5][i % 5], 1e-10);
        assert_string_equal(gd_axis_label(bands, 1, 3), "prediction_low");
        gd_release(bands);
    }
    gd_fit_summary s, again;
    assert_true(!gd_fit_summarise(fit, &s) && !gd_fit_summarise(loaded, &again));
    assert_true(s.rss == again.rss && s.aicc == again.aicc && s.dof == again.dof && s.stop == again.stop);
    gd_tensor *(*const rows[])(gd_fit *) = {gd_fit_fitted, gd_fit_residuals, gd_fit_standardized};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        gd_tensor *before = rows[k](fit), *after = rows[k](loaded);
        assert_true(before && after && gd_numel(after) == 5);
        assert_memory_equal(gd_data(before), gd_data(after), 5 * sizeof(double));
        gd_release(before);
        gd_release(after);
    }
    assert_int_equal(gd_fit_report(loaded, false, NULL, 0), -1);
    expect_error(ctx, GD_VALUE, "a fit that was loaded has no data");
    gd_table_free(table);
    gd_fit_free(fit);
    gd_fit_free(loaded);
    unlink("line.safetensors");
}

static void nested_fits_are_compared_by_the_f_test(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_fit_param slope[] = {{.name = "b", .start = 1}};
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.model = "b*x";
    spec.params = slope;
    spec.param_count = 1;
    gd_fit *small = run(ctx, &spec), *large = run_line(ctx);
    gd_fit_comparison c;
    assert_int_equal(gd_fit_compare(small, large, &c), GD_OK);
    assert_true(c.nested && !c.why);
    near(c.f, 50.54205607476629, 1e-10);
    near(c.p, 0.0057265261986234745, 1e-10);
    spec.exclude = (const char *const[]){"x > 3", NULL};
    gd_fit *fewer = run(ctx, &spec);
    assert_int_equal(gd_fit_compare(fewer, large, &c), GD_VALUE);
    expect_error(ctx, GD_VALUE, "different data: 4 and 5 rows");
    gd_fit_free(small);
    gd_fit_free(large);
    gd_fit_free(fewer);
    gd_table_free(table);
}

/* ---- the caller ---- */

typedef struct seen {
    int told, asked, stop_at;
    bool ended;
} seen;

static void note_progress(void *user, const char *what, const char *unit, int64_t done, int64_t total,
                          double loss)
{
    seen *s = user;
    (void)what, (void)done, (void)total, (void)loss;
    s->told++;
    s->ended = !unit;
}

static bool ask(void *user)
{
    seen *s = user;
    return ++s->asked >= s->stop_at;
}

static void the_observer_is_told_and_may_end_it(void **state)
{
    gd_ctx *ctx = CTX(state);
    seen s = {.stop_at = 1000000};
    gd_observer observer = {.progress = note_progress, .interrupted = ask, .user = &s};
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.model = "a + exp(b)*x";
    spec.observer = &observer;
    spec.intervals = "bootstrap:200";
    gd_fit *fit = run(ctx, &spec);
    assert_true(s.told > 3 && s.ended && s.asked > 3);
    gd_fit_free(fit);
    for (int stop = 1; stop < s.asked; stop += s.asked / 5 + 1) {
        seen end = {.stop_at = stop};
        observer.user = &end;
        fit = gd_fit_new(ctx, &spec);
        assert_int_equal(gd_fit_run(fit), GD_INTERRUPTED);
        expect_error(ctx, GD_INTERRUPTED, "fit: interrupted after");
        gd_fit_free(fit);
    }
    gd_table_free(table);
}

/* Also in the middle of the first of several starts. */
static void an_interrupted_fit_has_the_best_point(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = line_table(ctx);
    for (int starts = 1; starts < 6; starts += 3) {
        seen whole = {.stop_at = 1000000};
        gd_observer observer = {.interrupted = ask, .user = &whole};
        gd_fit_spec spec = line_spec(table);
        spec.model = "a + exp(b)*x";
        spec.observer = &observer;
        spec.starts = starts;
        gd_fit_free(run(ctx, &spec));
        for (int part = 2; part < 8; part++) {
            seen end = {.stop_at = part * whole.asked / 10};
            observer.user = &end;
            gd_fit *fit = gd_fit_new(ctx, &spec);
            assert_int_equal(gd_fit_run(fit), GD_INTERRUPTED);
            expect_error(ctx, GD_INTERRUPTED, "fit: interrupted after");
            if (gd_fit_save(fit, "interrupted.safetensors"))
                fail_msg("%d starts, interrupted at question %d: %s", starts, end.stop_at,
                         gd_error_text(ctx));
            (void)unlink("interrupted.safetensors");
            gd_fit_free(fit);
        }
    }
    gd_table_free(table);
}

static double saved_number(gd_ctx *ctx, const char *name)
{
    gd_tensor *t = gd_archive_load_tensor(ctx, "interrupted.safetensors", name);
    assert_non_null(t);
    double value = gd_item(t);
    gd_release(t);
    return value;
}

/* At every question: a later interruption never gives a worse point, also one before the first evaluation of a start. */
static void a_later_interruption_never_loses_the_best_start(void **state)
{
    gd_ctx *ctx = CTX(state);
    gd_table *table = line_table(ctx);
    seen whole = {.stop_at = 1000000};
    gd_observer observer = {.interrupted = ask, .user = &whole};
    gd_fit_spec spec = line_spec(table);
    spec.model = "a + exp(b)*x";
    spec.observer = &observer;
    spec.starts = 4;
    gd_fit_free(run(ctx, &spec));
    double least = INFINITY;
    for (int at = 1; at < whole.asked; at++) {
        seen end = {.stop_at = at};
        observer.user = &end;
        gd_fit *fit = gd_fit_new(ctx, &spec);
        assert_int_equal(gd_fit_run(fit), GD_INTERRUPTED);
        gd_clear_error(ctx);
        gd_status saved = gd_fit_save(fit, "interrupted.safetensors");
        gd_fit_free(fit);
        if (saved) { /* before anything was evaluated */
            assert_true(isinf(least));
            gd_clear_error(ctx);
            continue;
        }
        double rss = 0, a = saved_number(ctx, "a"), b = exp(saved_number(ctx, "b"));
        for (int i = 0; i < 5; i++) rss += (line_y[i] - a - b * line_x[i]) * (line_y[i] - a - b * line_x[i]);
        if (rss > least * (1 + 1e-9)) fail_msg("question %d of %d: %g after %g", at, whole.asked, rss, least);
        least = rss;
    }
    (void)unlink("interrupted.safetensors");
    assert_true(least < 1.001 * LINE_RSS);
    gd_table_free(table);
}

static void save_each(void *user, gd_fit *fit)
{
    int *saved = user;
    if (gd_fit_save(fit, "steps.safetensors") == GD_OK) ++*saved;
}

static void each_step_can_be_saved(void **state)
{
    gd_ctx *ctx = CTX(state);
    int saved = 0;
    gd_table *table = line_table(ctx);
    gd_fit_spec spec = line_spec(table);
    spec.model = "a + exp(b)*x";
    spec.step = save_each;
    spec.step_user = &saved;
    gd_fit *fit = run(ctx, &spec);
    assert_true(saved > 2);
    assert_int_equal(gd_fit_run(fit), GD_VALUE);
    expect_error(ctx, GD_VALUE, "it was run already");
    gd_fit_free(fit);
    gd_table_free(table);
    unlink("steps.safetensors");
}

/* ---- mistakes ---- */

static void mistakes_name_members_of_the_spec(void **state)
{
    gd_ctx *ctx = CTX(state);
    static const gd_fit_param twice[] = {{.name = "a", .start = 1}, {.name = "a", .start = 1}};
    static const gd_fit_param column[] = {{.name = "x", .start = 1}, {.name = "a", .start = 1}};
    static const gd_fit_param tied[] = {{.name = "a", .start = 1}, {.name = "b", .tied = "2*x"}};
    static const gd_fit_param bent[] = {{.name = "a", .start = 1}, {.name = "b", .tied = "2*"}};
    static const gd_fit_param nameless[] = {{.start = 1}, {.name = "b"}};
    static const gd_fit_param flat[] = {{.name = "a", .low = 2, .high = 1}, {.name = "b"}};
    gd_table *table = line_table(ctx);
    gd_fit_spec ok = line_spec(table);
    struct {
        gd_fit_spec spec;
        const char *says;
    } wrong[12];
    for (int i = 0; i < COUNT_OF(wrong); i++) wrong[i].spec = ok;
    wrong[0].spec.params = twice, wrong[0].says = ".params: 'a' is there already";
    wrong[1].spec.params = column, wrong[1].says = ".params: 'x' is also a column of line";
    wrong[2].spec.params = tied, wrong[2].says = ".tied b: 'x' is a column; parameters only";
    wrong[3].spec.params = bent, wrong[3].says = ".tied b: column 3:";
    wrong[4].spec.params = nameless, wrong[4].says = "fit: .params: number 1 has no name";
    wrong[5].spec.params = flat, wrong[5].says = ".params a: no number is between 2 and 1";
    wrong[6].spec.x_errors = (const char *const[]){"q=1", NULL}, wrong[6].says = "no column 'q'";
    wrong[7].spec.bounds = (const char *const[]){"q>1", NULL}, wrong[7].says = ".bounds: no parameter 'q'";
    wrong[8].spec.absolute_sigma = true, wrong[8].says = ".absolute_sigma says something of .sigma";
    wrong[9].spec.level = 95, wrong[9].says = "fit: .level: 95 is not between 0 and 1";
    wrong[10].spec.table = NULL, wrong[10].says = "a model and a table are needed";
    wrong[11].spec.model = "a + b*x + q", wrong[11].says = "unknown name 'q'";
    for (int i = 0; i < COUNT_OF(wrong); i++) {
        assert_null(gd_fit_new(ctx, &wrong[i].spec));
        if (!strstr(gd_error_text(ctx), wrong[i].says))
            fail_msg("%d says '%s', want '%s'", i, gd_error_text(ctx), wrong[i].says);
        if (strstr(gd_error_text(ctx), "--")) fail_msg("%d names an option: %s", i, gd_error_text(ctx));
        gd_clear_error(ctx);
    }
    gd_table_free(table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_has_the_estimates_of_linear_regression, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_function_gives_what_its_text_gives, begin_test, end_test),
        cmocka_unit_test_setup_teardown(what_a_function_gives_is_checked, begin_test, end_test),
        cmocka_unit_test_setup_teardown(tied_parameters_follow_others, begin_test, end_test),
        cmocka_unit_test_setup_teardown(bounds_and_level_are_kept, begin_test, end_test),
        cmocka_unit_test_setup_teardown(predictions_have_the_bands_of_linear_regression, begin_test,
                                        end_test),
        cmocka_unit_test_setup_teardown(nested_fits_are_compared_by_the_f_test, begin_test, end_test),
        cmocka_unit_test_setup_teardown(the_observer_is_told_and_may_end_it, begin_test, end_test),
        cmocka_unit_test_setup_teardown(an_interrupted_fit_has_the_best_point, begin_test, end_test),
        cmocka_unit_test_setup_teardown(a_later_interruption_never_loses_the_best_start, begin_test,
                                        end_test),
        cmocka_unit_test_setup_teardown(each_step_can_be_saved, begin_test, end_test),
        cmocka_unit_test_setup_teardown(mistakes_name_members_of_the_spec, begin_test, end_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
