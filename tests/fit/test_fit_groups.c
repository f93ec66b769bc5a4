/* gd_fit_by: each group has the numbers of a fit of its rows alone, by either way; what a group cannot do is one row. */
#include "gradus/fit.h"
#include "support/own_context.h"

#include <math.h>

#define GROUPS 12

static const gd_fit_param params[] = {{.name = "a", .start = 1}, {.name = "b", .start = 1}};

/* Lines of groups of words and numbers, whose rows are mixed; group 5 has one row only. */
static gd_table *mixed(bool one_row)
{
    enum { N = 200 };
    static double x[N], y[N], set[N];
    static const char *word[N];
    int64_t rows = 0;
    uint32_t seed = 3;
    for (int i = 0; i < N; i++) {
        int g = i * 7 % GROUPS;
        if (one_row && g == 5 && i > 12) continue;
        seed = seed * 1664525u + 1013904223u;
        x[rows] = i % 17;
        y[rows] = 1 + g + (2 - 0.1 * g) * x[rows] + (double)(seed >> 8) / (1 << 24);
        set[rows] = g / 2;
        word[rows] = g % 2 ? "south" : "north";
        rows++;
    }
    gd_table *t = gd_table_new(ctx, "mixed");
    assert_int_equal(gd_table_add_numbers(t, "x", x, rows, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "y", y, rows, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "set", set, rows, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_words(t, "site", word, rows), GD_OK);
    return t;
}

static gd_fit_spec line(gd_table *t)
{
    gd_fit_spec spec = gd_fit_defaults();
    spec.model = "a + b*x";
    spec.table = t;
    spec.params = params;
    spec.param_count = 2;
    return spec;
}

static double cell(gd_table *t, const char *name, int64_t row)
{
    gd_tensor *v = gd_table_numbers(t, gd_table_find(t, name));
    double x = ((const double *)gd_data(v))[row];
    gd_release(v);
    return x;
}

/* The fit of one group's rows, chosen by conditions. */
static void check_group(gd_table *fits, int64_t row, const gd_fit_spec *how, gd_table *t)
{
    char other[2][60];
    int words = 0;
    const char *const *word = gd_table_words(fits, gd_table_find(fits, "site"), &words);
    bool south = !strcmp(word[(int64_t)cell(fits, "site", row)], "south");
    (void)snprintf(other[0], sizeof other[0], "set != %g", cell(fits, "set", row));
    gd_tensor *site = gd_table_numbers(t, gd_table_find(t, "site"));
    int count = 0;
    const char *const *all = gd_table_words(t, gd_table_find(t, "site"), &count);
    gd_tensor *mask = gd_empty(ctx, GD_BOOL, 1, (int64_t[]){gd_numel(site)});
    for (int64_t i = 0; i < gd_numel(site); i++)
        ((bool *)gd_data_mut(mask))[i] = !strcmp(all[(int64_t)((const double *)gd_data(site))[i]], "south") ==
                                         south;
    gd_fit_spec spec = *how;
    spec.table = gd_table_select_rows(t, mask);
    spec.exclude = (const char *const[]){other[0], NULL};
    gd_fit *fit = gd_fit_new(ctx, &spec);
    assert_int_equal(gd_fit_run(fit), GD_OK);
    for (int k = 0; k < 2; k++) {
        gd_fit_estimate e;
        char error[20];
        assert_int_equal(gd_fit_get(fit, k, &e), GD_OK);
        (void)snprintf(error, sizeof error, "%s_error", e.name);
        if (!(fabs(cell(fits, e.name, row) - e.value) <= 1e-12 * (1 + fabs(e.value))))
            fail_msg("%s of row %d", e.name, (int)row);
        bool none = isnan(e.error) && isnan(cell(fits, error, row)); /* at a bound */
        if (!none && !(fabs(cell(fits, error, row) / e.error - 1) <= 1e-11))
            fail_msg("%s of row %d: %.17g, %.17g", error, (int)row, cell(fits, error, row), e.error);
    }
    gd_fit_free(fit);
    gd_table_free(spec.table);
    gd_release(site);
    gd_release(mask);
}

/* ---- own starts and bounds ---- */

/* A model with a minimum per start: only the own one finds the angle that the data have. */
static void each_group_begins_at_its_own_start(void **state)
{
    (void)state;
    enum { N = 60 };
    static double x[N], y[N], set[N];
    static const char *word[N];
    for (int i = 0; i < N; i++) {
        int g = i / 20;
        x[i] = 0.3 * (i % 20);
        set[i] = g % 2;
        word[i] = g == 2 ? "south" : "north";
        y[i] = 2 * sin((1 + 2 * g) * x[i]);
    }
    gd_table *t = gd_table_new(ctx, "waves"), *own = gd_table_new(ctx, "starts");
    assert_int_equal(gd_table_add_numbers(t, "x", x, N, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "y", y, N, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(t, "set", set, N, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_words(t, "site", word, N), GD_OK);
    /* other order, another group, words in other order, one missing cell */
    assert_int_equal(gd_table_add_words(own, "site", (const char *const[]){"west", "south", "north"}, 3),
                     GD_OK);
    assert_int_equal(gd_table_add_numbers(own, "set", (double[]){0, 0, 1}, 3, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(own, "w", (double[]){7, 4.9, 2.9}, 3, 1, NULL, NULL), GD_OK);
    assert_int_equal(gd_table_add_numbers(own, "a_high", (double[]){7, 1.5, NAN}, 3, 1, NULL, NULL), GD_OK);
    static const gd_fit_param waves[] = {{.name = "a", .start = 1}, {.name = "w", .start = 1.1}};
    for (int way = 0; way < 2; way++) {
        gd_fit_spec spec = gd_fit_defaults();
        spec.model = "a*sin(w*x)";
        spec.table = t;
        spec.params = waves;
        spec.param_count = 2;
        spec.group_starts = own;
        if (way) spec.loss = "huber:0.5"; /* one fit per group */
        gd_table *fits = gd_fit_by(ctx, &spec, (const char *const[]){"set", "site", NULL});
        assert_non_null(fits);
        assert_non_null(strstr(gd_warning_text(ctx), "1 of 3 rows of .group_starts belong to no group"));
        assert_int_equal(gd_table_rows(fits), 3);
        const double w[] = {1, 5, 3}, a[] = {2, 1.5, 2}; /* (0, north), (0, south), (1, north) */
        for (int i = 0; i < 3; i++)
            if (fabs(cell(fits, "w", i) - w[i]) > (a[i] < 2 ? 0.1 : 1e-6) ||
                fabs(cell(fits, "a", i) - a[i]) > 1e-6)
                fail_msg("way %d, group %d: a %g, w %g", way, i, cell(fits, "a", i), cell(fits, "w", i));
        spec.group_starts = fits; /* where they ended */
        gd_table *again = gd_fit_by(ctx, &spec, (const char *const[]){"set", "site", NULL});
        assert_non_null(again);
        for (int i = 0; i < 3; i++)
            assert_true(fabs(cell(again, "w", i) - cell(fits, "w", i)) < 1e-6 || i == 1);
        gd_table_free(again);
        gd_table_free(fits);
    }
    gd_table_free(own);
    gd_table_free(t);
}

static void starts_of_groups_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *column, *error;
        double low, high;
        int rows;
    } bad[] = {{"c", "no column is named like a parameter", 0, 0, 1},
               {"a", "two rows for set = 1", 1, 1, 2},
               {"a_low", "the low bound 3 of a is above the high one, 2", 3, 2, 1}};
    gd_table *t = mixed(false);
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
        gd_table *own = gd_table_new(ctx, "starts");
        assert_int_equal(gd_table_add_numbers(own, "set", (double[]){1, 1}, bad[k].rows, 1, NULL, NULL),
                         GD_OK);
        assert_int_equal(gd_table_add_numbers(own, bad[k].column, (double[]){bad[k].low, bad[k].low},
                                              bad[k].rows, 1, NULL, NULL),
                         GD_OK);
        if (k == 2)
            assert_int_equal(gd_table_add_numbers(own, "a_high", &bad[k].high, 1, 1, NULL, NULL), GD_OK);
        gd_fit_spec spec = line(t);
        spec.group_starts = own;
        assert_null(gd_fit_by(ctx, &spec, (const char *const[]){"set", NULL}));
        assert_non_null(strstr(gd_error_text(ctx), bad[k].error));
        gd_clear_error(ctx);
        assert_null(gd_fit_by(ctx, &spec, (const char *const[]){"site", NULL})); /* it has none */
        assert_int_equal(gd_error(ctx), k == 0 ? GD_ARGUMENT : gd_error(ctx));
        gd_clear_error(ctx);
        assert_null(gd_fit_new(ctx, &spec));
        assert_non_null(strstr(gd_error_text(ctx), ".group_starts: for fits of groups"));
        gd_clear_error(ctx);
        gd_table_free(own);
    }
    gd_table_free(t);
}

static void each_group_has_the_numbers_of_a_fit_of_its_rows(void **state)
{
    (void)state;
    for (int way = 0; way < 3; way++) {
        gd_table *t = mixed(false);
        gd_fit_spec spec = line(t);
        if (way == 1) spec.starts = 2; /* one fit per group */
        if (way == 2) spec.errors = "hc3";
        gd_table *fits = gd_fit_by(ctx, &spec, (const char *const[]){"set", "site", NULL});
        assert_non_null(fits);
        assert_int_equal(gd_table_rows(fits), GROUPS);
        for (int64_t i = 0; i < GROUPS; i++) {
            assert_true(cell(fits, "converged", i) == 1);
            check_group(fits, i, &spec, t);
        }
        gd_table_free(fits);
        gd_table_free(t);
    }
}

static void a_group_that_cannot_be_fitted_is_a_row(void **state)
{
    (void)state;
    gd_table *t = mixed(true);
    gd_fit_spec spec = line(t);
    gd_table *fits = gd_fit_by(ctx, &spec, (const char *const[]){"set", "site", NULL});
    assert_non_null(fits);
    int64_t poor = 0;
    for (int64_t i = 0; i < gd_table_rows(fits); i++) poor += cell(fits, "converged", i) == 0;
    assert_int_equal(poor, 1); /* a line through one point is not determined */
    gd_table_free(fits);
    spec.exclude = (const char *const[]){"set == 3", NULL};
    fits = gd_fit_by(ctx, &spec, (const char *const[]){"set", NULL});
    assert_int_equal(gd_table_rows(fits), 6);
    assert_true(isnan(cell(fits, "a", 3)) && cell(fits, "points", 3) == 0 && cell(fits, "points", 2) > 0);
    gd_table_free(fits);
    gd_table_free(t);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    gd_table *t = mixed(false);
    gd_fit_spec spec = line(t);
    assert_null(gd_fit_by(ctx, &spec, (const char *const[]){"sit", NULL}));
    expect_error(ctx, GD_ARGUMENT, "no column 'sit'");
    assert_null(gd_fit_by(ctx, &spec, NULL));
    expect_error(ctx, GD_ARGUMENT, "by: one to 8 columns");
    spec.errors = "hc4";
    assert_null(gd_fit_by(ctx, &spec, (const char *const[]){"set", NULL}));
    expect_error(ctx, GD_ARGUMENT, "'hc4' is neither usual nor hc3");
    spec.errors = "hc3";
    spec.loss = "huber";
    assert_null(gd_fit_by(ctx, &spec, (const char *const[]){"set", NULL}));
    expect_error(ctx, GD_ARGUMENT, "hc3: not with .loss");
    gd_table_free(t);
}

/* Bounds, weights and a robust loss are of each group; lengths differ. */
static void settings_are_of_each_group(void **state)
{
    (void)state;
    static const char *const bounds[] = {"b<1.5", NULL}, *const exclude[] = {"x > 3 + set", NULL};
    for (int way = 0; way < 4; way++) {
        gd_table *t = mixed(false);
        gd_fit_spec spec = line(t);
        if (way == 0) spec.bounds = bounds; /* active in some groups only */
        if (way == 1) spec.weights = "x";
        if (way == 2) spec.loss = "huber";
        if (way == 3) spec.exclude = exclude;
        gd_table *fits = gd_fit_by(ctx, &spec, (const char *const[]){"set", "site", NULL});
        assert_non_null(fits);
        assert_int_equal(gd_table_rows(fits), GROUPS);
        if (way == 3) assert_true(cell(fits, "points", 0) < cell(fits, "points", GROUPS - 1));
        for (int64_t i = 0; i < GROUPS && way < 3; i++) check_group(fits, i, &spec, t);
        gd_table_free(fits);
        gd_table_free(t);
    }
}

static int64_t marks(gd_plot *plot)
{
    int64_t length = gd_plot_svg(plot, false, NULL, 0), found = 0;
    assert_true(length > 0);
    char *text = malloc((size_t)length + 1);
    assert_int_equal(gd_plot_svg(plot, false, text, (size_t)length + 1), length);
    for (const char *at = text; (at = strstr(at, "<circle")); at++) found++;
    free(text);
    return found;
}

static void groups_have_a_picture(void **state)
{
    (void)state;
    static const char *const by[] = {"set", "site", NULL};
    gd_table *t = mixed(true);
    gd_fit_spec spec = line(t);
    for (int way = 0; way < 2; way++) {
        if (way) spec.starts = 2;
        gd_table *fits = gd_fit_by(ctx, &spec, by);
        assert_non_null(fits);
        int64_t points = (int64_t)(cell(fits, "points", 2) + cell(fits, "points", 5));
        gd_plot *plot = gd_fit_by_plot(ctx, &spec, by, fits,
                                       (const char *const[]){"1/north", "2/south", NULL}, NULL);
        assert_non_null(plot);
        assert_int_equal(marks(plot), points + 2);
        gd_plot_free(plot);
        assert_null(gd_fit_by_plot(ctx, &spec, by, fits, (const char *const[]){"1/east", NULL}, NULL));
        expect_error(ctx, GD_ARGUMENT, "groups: no group '1/east', there are 0/north, 0/south");
        assert_null(gd_fit_by_plot(ctx, &spec, (const char *const[]){"set", NULL}, fits, NULL, NULL));
        expect_error(ctx, GD_ARGUMENT, "the table of fits is not that of these groups");
        gd_table_free(fits);
    }
    gd_table_free(t);
}

static bool few_groups(gd_ctx *other)
{
    static const double x[] = {0, 1, 2, 3, 0, 1, 2, 3}, y[] = {1, 2, 3, 5, 2, 2, 2, 3},
                        set[] = {0, 0, 0, 0, 1, 1, 1, 1};
    gd_table *t = gd_table_new(other, "few");
    bool ok = t && !gd_table_add_numbers(t, "x", x, 8, 1, NULL, NULL) &&
              !gd_table_add_numbers(t, "y", y, 8, 1, NULL, NULL) &&
              !gd_table_add_numbers(t, "set", set, 8, 1, NULL, NULL);
    gd_table *own = ok ? gd_table_new(other, "starts") : NULL;
    ok = own && !gd_table_add_numbers(own, "set", set + 3, 2, 1, NULL, NULL) &&
         !gd_table_add_numbers(own, "a", x, 2, 1, NULL, NULL);
    gd_fit_spec spec = line(t);
    spec.max_steps = 1;
    spec.group_starts = own;
    gd_table *fits = ok ? gd_fit_by(other, &spec, (const char *const[]){"set", NULL}) : NULL;
    gd_plot *plot = fits ? gd_fit_by_plot(other, &spec, (const char *const[]){"set", NULL}, fits, NULL, NULL)
                         : NULL;
    ok = plot != NULL;
    gd_plot_free(plot);
    gd_table_free(fits);
    gd_table_free(own);
    gd_table_free(t);
    return ok;
}

static void failed_allocations_are_errors(void **state)
{
    (void)state;
    fail_each_allocation(1, few_groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(each_group_has_the_numbers_of_a_fit_of_its_rows, start_scope,
                                        stop_scope),
        cmocka_unit_test_setup_teardown(a_group_that_cannot_be_fitted_is_a_row, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(settings_are_of_each_group, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(each_group_begins_at_its_own_start, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(starts_of_groups_that_cannot_be_are_refused, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(groups_have_a_picture, start_scope, stop_scope),
        cmocka_unit_test_setup_teardown(what_cannot_be_is_refused, start_scope, stop_scope),
        cmocka_unit_test(failed_allocations_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
