/* Sparse least squares with a plugin's Cholesky: the answers of the own factor, and what happens where the plugin is missing or fails.
 * Run with GRADUS_SUITESPARSE set, the suite checks that plugin (backends/suitesparse/CMakeLists.txt); else a fake. */
#include "gradus/lsq.h"
#include "support/own_context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pairs drawn at random, r = x_a^2 - x_b - y, and a row for each column alone: a factor is so full that a plugin is asked. */
enum { COLUMNS = 220, ROWS = 9 * COLUMNS };
static int64_t row_start[ROWS + 1], column[2 * ROWS];
static double y[ROWS];

static void make_rows(void)
{
    uint32_t seed = 7;
    int64_t at = 0;
    for (int64_t i = 0; i < ROWS; i++) {
        seed = seed * 1664525u + 1013904223u;
        int64_t a = i % COLUMNS, b = (int64_t)((double)(seed >> 8) / (1 << 24) * COLUMNS);
        bool single = i >= 8 * COLUMNS;
        if (b == a) b = (a + 1) % COLUMNS;
        column[at++] = single || a < b ? a : b;
        if (!single) column[at++] = a < b ? b : a;
        row_start[i + 1] = at;
        double xa = 1 + (double)column[row_start[i]] / COLUMNS,
               xb = single ? 0 : 1 + (double)column[at - 1] / COLUMNS;
        y[i] = xa * xa - xb + 0.01 * sin(3 * (double)i);
    }
}

static int64_t dead; /* a column without effect; -1: none */

static gd_status residual(void *user, const double *x, double *r)
{
    (void)user;
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t a = column[row_start[i]], b = column[row_start[i + 1] - 1];
        double xa = a == dead ? 0 : x[a], xb = b == dead || a == b ? 0 : x[b];
        r[i] = xa * xa - xb - y[i];
    }
    return GD_OK;
}

static gd_status jacobian(void *user, const double *x, double *value)
{
    (void)user;
    for (int64_t i = 0; i < ROWS; i++) {
        int64_t a = column[row_start[i]], b = column[row_start[i + 1] - 1];
        value[row_start[i]] = a == dead ? 0 : 2 * x[a];
        if (b != a) value[row_start[i] + 1] = b == dead ? 0 : -1;
    }
    return GD_OK;
}

typedef struct answer {
    gd_status status;
    gd_lsq_result fit;
    double x[COLUMNS], errors[COLUMNS];
    char error[200];
} answer;

/* kind: free, inside bounds that some elements reach, another loss, an element that is not determined. */
enum { FREE, BOUNDED, ROBUST, DEAD, KINDS };

static answer fit_once(gd_ctx *in, int kind)
{
    static double low[COLUMNS], high[COLUMNS];
    answer out = {.status = GD_OK};
    gd_lsq_problem p = {.residuals = ROWS,
                        .params = COLUMNS,
                        .residual = residual,
                        .jacobian = jacobian,
                        .row_start = row_start,
                        .column = column};
    gd_lsq_options o = gd_lsq_defaults();
    for (int i = 0; i < COLUMNS; i++) {
        low[i] = i % 7 == 2 ? 1.1 + (double)i / COLUMNS : 0, high[i] = i % 7 == 3 ? 1.3 : 5;
        out.x[i] = i % 7 == 2 ? 2.2 : 1.25;
    }
    if (kind == BOUNDED) o.low = low, o.high = high;
    if (kind == ROBUST) o.loss = GD_LSQ_HUBER, o.loss_scale = 0.005;
    dead = kind == DEAD ? 7 : -1;
    out.status = gd_lsq_solve(in, &p, out.x, &o, &out.fit);
    if (!out.status) out.status = gd_read_f64(out.fit.standard_errors, out.errors, COLUMNS);
    (void)snprintf(out.error, sizeof out.error, "%s", gd_error_text(in));
    gd_clear_error(in);
    gd_lsq_result_clear(&out.fit);
    return out;
}

static answer fit_with(const char *plugin, const char *wrong, int kind)
{
    memory m = {0};
    (void)setenv("GRADUS_SUITESPARSE", plugin, 1);
    wrong ? (void)setenv("GD_FAKE_CHOLESKY", wrong, 1) : (void)unsetenv("GD_FAKE_CHOLESKY");
    gd_ctx *own = context(&m, 1, NULL);
    answer out = fit_once(own, kind);
    end_context(own, &m);
    return out;
}

static char real[4000]; /* "": the fake */
static const char *plugin(void) { return *real ? real : GD_FAKE_PLUGIN; }

static void both_give_the_same_answers(void **state)
{
    (void)state;
    for (int kind = 0; kind < KINDS; kind++) {
        answer own = fit_with("/nonexistent", NULL, kind), other = fit_with(plugin(), NULL, kind);
        if (own.status || other.status) fail_msg("kind %d: %s, %s", kind, own.error, other.error);
        assert_string_equal(own.fit.linear, "LDL");
        if (strncmp(other.fit.linear, *real ? "CHOLMOD " : "fake 1.0", 8)) fail_msg("%s", other.fit.linear);
        assert_int_equal(own.fit.solve.reason, other.fit.solve.reason);
        assert_int_equal(own.fit.rank, other.fit.rank);
        assert_int_equal(own.fit.rank, kind == DEAD ? COLUMNS - 1 : own.fit.free);
        assert_true(fabs(own.fit.rss / other.fit.rss - 1) < 1e-10);
        for (int i = 0; i < COLUMNS; i++) {
            bool flat = kind == DEAD && i == 7;
            bool none = isnan(own.errors[i]) && isnan(other.errors[i]); /* at a bound */
            if (!flat && !(fabs(own.x[i] - other.x[i]) < 1e-10))
                fail_msg("kind %d: x%d is %.17g, %.17g", kind, i, own.x[i], other.x[i]);
            if (!flat && !none && !(fabs(own.errors[i] / other.errors[i] - 1) < 1e-9))
                fail_msg("kind %d: error %d is %.17g, %.17g", kind, i, own.errors[i], other.errors[i]);
        }
    }
}

static void a_plugin_that_is_not_there_is_no_error(void **state)
{
    (void)state;
    answer own = fit_with("/nonexistent", NULL, FREE), empty = fit_with(GD_FAKE_EMPTY, NULL, FREE),
           large = fit_with(GD_FAKE_PLUGIN, "large", FREE);
    assert_true(!own.status && !empty.status && !large.status);
    assert_string_equal(empty.fit.linear, "LDL");
    assert_string_equal(large.fit.linear, "LDL");
    assert_memory_equal(own.x, empty.x, sizeof own.x);
    assert_memory_equal(own.x, large.x, sizeof own.x);
}

static void what_goes_wrong_in_a_plugin_is_said(void **state)
{
    (void)state;
    static const struct {
        const char *what, *error;
        gd_status status;
    } rows[] = {{"version", "another version of gradus", GD_DEVICE},
                {"open", "out of memory in the fake", GD_NOMEM},
                {"factor", "out of memory in the fake", GD_NOMEM},
                {"solve", "out of memory in the fake", GD_NOMEM}};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        answer bad = fit_with(GD_FAKE_PLUGIN, rows[k].what, FREE);
        if (bad.status != rows[k].status || !strstr(bad.error, rows[k].error))
            fail_msg("%s: %s, '%s'", rows[k].what, gd_status_name(bad.status), bad.error);
        for (int i = 0; i < COLUMNS; i++) assert_true(isfinite(bad.x[i]));
    }
    /* a pivot lost to rounding is damped a little more, and the fit ends where it would */
    answer own = fit_with("/nonexistent", NULL, FREE), once = fit_with(GD_FAKE_PLUGIN, "indefinite", FREE);
    assert_int_equal(once.status, GD_OK);
    for (int i = 0; i < COLUMNS; i++) assert_true(fabs(own.x[i] - once.x[i]) < 1e-8);
}

static void every_failed_allocation_is_an_error(void **state)
{
    (void)state;
    bool failed = true;
    (void)setenv("GRADUS_SUITESPARSE", plugin(), 1);
    (void)unsetenv("GD_FAKE_CHOLESKY");
    for (int64_t k = 1; failed; k += k < 200 ? 1 : 17) {
        memory m = {0};
        gd_ctx *own = context(&m, 1, NULL);
        m.fail_at = m.requests + k;
        answer a = fit_once(own, FREE);
        failed = m.failed;
        m.fail_at = 0;
        assert_true(a.status == GD_OK || a.status == GD_NOMEM);
        end_context(own, &m);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_give_the_same_answers),
        cmocka_unit_test(a_plugin_that_is_not_there_is_no_error),
        cmocka_unit_test(what_goes_wrong_in_a_plugin_is_said),
        cmocka_unit_test(every_failed_allocation_is_an_error),
    };
    const char *given = getenv("GRADUS_SUITESPARSE");
    if (given) (void)snprintf(real, sizeof real, "%s", given);
    make_rows();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
