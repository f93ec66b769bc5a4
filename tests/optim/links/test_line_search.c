/* Line searches: the conditions they promise, and what they do when there is nothing to find. */
#include "optim/search_support.h"

/* ---- functions of one number ---- */

static double parabola(const double *x, double *g, int n)
{
    (void)n;
    g[0] = 10 * (x[0] - 3);
    return 5 * (x[0] - 3) * (x[0] - 3);
}

/* Decreases for ever, slower and slower. */
static double falling(const double *x, double *g, int n)
{
    (void)n;
    g[0] = -1 / (1 + fabs(x[0]));
    return -log1p(fabs(x[0]));
}

/* Not a number beyond 0.1, minimum at 0.05. */
static double fenced(const double *x, double *g, int n)
{
    (void)n;
    g[0] = x[0] < 0.1 ? -1 + 20 * x[0] : NAN;
    return x[0] < 0.1 ? -x[0] + 10 * x[0] * x[0] : NAN;
}

static double fenced_by_infinity(const double *x, double *g, int n)
{
    double f = fenced(x, g, n);
    return isnan(f) ? INFINITY : f;
}

/* Higher wherever one goes, although the slope at 0 says otherwise. */
static double liar(const double *x, double *g, int n)
{
    (void)n;
    g[0] = x[0] == 0 ? -1 : 1;
    return fabs(x[0]);
}

static double flat(const double *x, double *g, int n)
{
    (void)x;
    for (int i = 0; i < n; i++) g[i] = 0;
    return 1;
}

static double nothing_finite(const double *x, double *g, int n)
{
    for (int i = 0; i < n; i++) g[i] = NAN;
    return x[0] == 0 ? 1 : NAN;
}

/* Wavy, with many minima along any line. */
static double wavy(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        f += 0.05 * x[i] * x[i] + cos(3 * x[i] + i);
        g[i] = 0.1 * x[i] - 3 * sin(3 * x[i] + i);
    }
    return f;
}

/* ---- backtracking ---- */

static void backtracking_takes_the_first_step_that_decreases_enough(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    /* f = 5 (x - 3)^2 from 0: the update is -30, x = 30 a; f <= 45 - 1e-4 a 900 first for a = 1/8 */
    run r = run_open(ctx, "backtracking", parabola, 1, (double[]){0});
    run_steps(&r, 1);
    assert_true(first_of(&r) == 3.75);
    assert_int_equal(r.evals, 5); /* 0, 30, 15, 7.5, 3.75 */
    assert_false(r.info.search_failed);
    assert_true(r.seen[2][0] == 15);
    run_close(&r);
    end_context(ctx, NULL);
}

static void a_failed_backtracking_moves_nothing_and_goes_on_shrinking(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "backtracking(maxiter=3)", liar, 1, (double[]){0});
    run_steps(&r, 1);
    assert_true(r.info.search_failed);
    assert_true(first_of(&r) == 0);
    assert_int_equal(r.evals, 4);
    run_steps(&r, 1);
    assert_true(r.seen[5][0] == 0.125); /* 1, 1/2, 1/4, then 1/8 */
    run_close(&r);
    r = run_open(ctx, "backtracking(maxiter=3, adaptive=false)", liar, 1, (double[]){0});
    run_steps(&r, 2);
    assert_true(r.seen[5][0] == 1);
    run_close(&r);
    end_context(ctx, NULL);
}

static void adaptive_backtracking_learns_where_to_start(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "adaptive_backtracking", parabola, 1, (double[]){0});
    run_steps(&r, 2);
    /* found 1/8 after three rejections: the next starts at 1/4 */
    assert_true(r.seen[6][0] == 3.75 - 0.25 * 7.5);
    run_close(&r);
    r = run_open(ctx, "adaptive_backtracking", falling, 1, (double[]){0});
    run_steps(&r, 3);
    /* never rejected: twice as far every time, relative to the slope */
    double slope = 1 / (1 + r.seen[1][0]);
    assert_near(r.seen[3][0], r.seen[1][0] + 2 * slope, 1e-12);
    run_close(&r);
    end_context(ctx, NULL);
}

static void conditions_of_backtracking_hold_where_it_ends(void **state)
{
    (void)state;
    const char *const names[] = {"armijo",       "decrease",  "wolfe",
                                 "strong_wolfe", "curvature", "strong_curvature"};
    for (int c = 0; c < COUNT_OF(names); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        char chain[80];
        snprintf(chain, sizeof chain, "backtracking(init=4, c=0.2, condition=\"%s\", maxiter=30)", names[c]);
        run r = run_open(ctx, chain, wavy, 1, (double[]){0.4});
        double x = 0.4, g, h, f = wavy(&x, &g, 1);
        run_steps(&r, 1);
        if (!r.info.search_failed) {
            double end = first_of(&r), value = wavy(&end, &h, 1);
            if (c != 4 && c != 5) assert_true(value < f);
            if (c == 0 || c == 2 || c == 3) assert_true(value <= f + 0.2 * (end - x) * g + 1e-12);
            if (c == 2 || c == 4) assert_true(-h * g >= -0.9 * g * g);
            if (c == 3 || c == 5) assert_true(fabs(h) <= 0.9 * fabs(g));
        }
        run_close(&r);
        end_context(ctx, NULL);
    }
}

/* ---- strong Wolfe ---- */

static void strong_wolfe_conditions_hold_where_it_ends(void **state)
{
    (void)state;
    const char *const how[] = {"cubic", "quadratic", "bisection", "polynomial", "polynomial2"};
    const plain_fn functions[] = {wavy, rosenbrock, bowl};
    uint64_t seed = 5;
    int found = 0, tried = 0;
    for (int i = 0; i < 300; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        double x[3], end[3], g[3], h[3], c2 = i % 2 ? 0.1 : 0.9, slope = 0, later = 0;
        char chain[120];
        for (int k = 0; k < 3; k++) x[k] = 4 * random_unit(&seed) - 2;
        snprintf(chain, sizeof chain, "strong_wolfe(c2=%g, interpolation=\"%s\", maxzoom=40)", c2,
                 how[i % 5]);
        plain_fn fn = functions[i % 3];
        run r = run_open(ctx, chain, fn, 3, x);
        run_steps(&r, 1);
        params_of(&r, end);
        double f = fn(x, g, 3), value = fn(end, h, 3);
        for (int k = 0; k < 3; k++) {
            slope -= g[k] * g[k];
            later -= h[k] * g[k];
        }
        tried++;
        found += !r.info.search_failed;
        if (!r.info.search_failed) {
            double a = (x[0] - end[0]) / g[0];
            assert_true(a > 0);
            assert_true(value <= f + 1e-4 * a * slope + 1e-9 * fabs(f));
            assert_true(fabs(later) <= c2 * fabs(slope) * (1 + 1e-9));
        }
        run_close(&r);
        end_context(ctx, NULL);
    }
    assert_true(found >= 0.97 * tried);
}

static void strong_wolfe_finds_the_minimum_of_a_parabola_at_once(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "strong_wolfe(c2=0.1)", parabola, 1, (double[]){0});
    run_steps(&r, 1);
    assert_near(first_of(&r), 3, 1e-6);
    assert_int_equal(r.evals, 3);
    run_close(&r);
    end_context(ctx, NULL);
}

static void what_is_not_finite_bounds_the_search(void **state)
{
    (void)state;
    const plain_fn functions[] = {fenced, fenced_by_infinity};
    const char *const chains[] = {"strong_wolfe(c2=0.1)", "backtracking", "lbfgs | strong_wolfe",
                                  "adaptive_backtracking", "strong_wolfe(c2=0.1, init_value=1e12)"};
    for (int i = 0; i < 2 * COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, chains[i / 2], functions[i % 2], 1, (double[]){0});
        run_steps(&r, 4);
        double x = first_of(&r), g;
        assert_true(isfinite(x) && x < 0.1);
        assert_true(fenced(&x, &g, 1) < 0);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void a_search_that_finds_nothing_says_so_and_moves_nothing(void **state)
{
    (void)state;
    const char *const chains[] = {
        "strong_wolfe",         "backtracking",        "adaptive_backtracking", "strong_wolfe(fallback=true)",
        "lbfgs | strong_wolfe", "bfgs | backtracking", "strong_wolfe | lr(0.5)"};
    const plain_fn functions[] = {liar, nothing_finite, flat};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (int k = 0; k < COUNT_OF(functions); k++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            run r = run_open(ctx, chains[i], functions[k], 1, (double[]){0});
            run_steps(&r, 3);
            assert_true(first_of(&r) == 0);
            assert_true(r.info.search_failed);
            run_close(&r);
            end_context(ctx, NULL);
        }
}

static void after_a_failure_strong_wolfe_starts_at_half(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "strong_wolfe(maxzoom=1)", liar, 1, (double[]){0});
    run_steps(&r, 3);
    assert_true(r.seen[1][0] == 1);
    assert_true(r.seen[4][0] == 0.5);
    assert_true(r.seen[7][0] == 0.25);
    run_close(&r);
    end_context(ctx, NULL);
}

static void fallback_takes_the_lowest_point_seen(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    /* the slope never gets small enough within three trials */
    run r = run_open(ctx, "strong_wolfe(c2=1e-9, maxiter=3, fallback=true)", falling, 1, (double[]){0});
    run_steps(&r, 1);
    double lowest = 0, at = 0;
    for (int i = 0; i < r.evals; i++)
        if (r.seen[i][1] < lowest) {
            lowest = r.seen[i][1];
            at = r.seen[i][0];
        }
    assert_true(first_of(&r) == at && at > 0);
    run_close(&r);
    r = run_open(ctx, "strong_wolfe(c2=1e-9, maxiter=3)", falling, 1, (double[]){0});
    run_steps(&r, 1);
    assert_true(first_of(&r) == 0 && r.info.search_failed);
    run_close(&r);
    end_context(ctx, NULL);
}

static void an_update_that_points_uphill_is_not_searched(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "lr(-1) | strong_wolfe", parabola, 1, (double[]){0});
    run_steps(&r, 1);
    assert_true(first_of(&r) == 0 && r.info.search_failed);
    assert_int_equal(r.evals, 1);
    run_close(&r);
    r = run_open(ctx, "lr(-1) | strong_wolfe(plus_minus=true, c2=0.1)", parabola, 1, (double[]){0});
    run_steps(&r, 1);
    assert_near(first_of(&r), 3, 1e-6);
    run_close(&r);
    end_context(ctx, NULL);
}

static void the_evaluations_are_limited(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "strong_wolfe(maxeval=4)", liar, 1, (double[]){0});
    run_steps(&r, 1);
    assert_int_equal(r.evals, 5);
    run_close(&r);
    r = run_open(ctx, "strong_wolfe", nothing_finite, 1, (double[]){0});
    run_steps(&r, 1);
    assert_true(r.evals < 100);
    run_close(&r);
    end_context(ctx, NULL);
}

static void first_steps_follow_the_last_one(void **state)
{
    (void)state;
    /* Nocedal & Wright 2006, 3.5: a slope'_before / slope', and 2 (f - f_before) / slope' */
    const char *const names[] = {"first-order", "quadratic", "previous"};
    for (int i = 0; i < COUNT_OF(names); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        char chain[80];
        snprintf(chain, sizeof chain, "strong_wolfe(a_init=\"%s\", init_value=0.01)", names[i]);
        run r = run_open(ctx, chain, parabola, 1, (double[]){0});
        double x = 0, y, g, h, f = parabola(&x, &g, 1);
        run_steps(&r, 1);
        y = first_of(&r);
        double a = -y / g, value = parabola(&y, &h, 1);
        int evals = r.evals;
        run_steps(&r, 1);
        double first = (y - r.seen[evals + 1][0]) / h;
        double want = i == 0 ? a * g * g / (h * h) : i == 1 ? -2 * (value - f) / (h * h) : a;
        assert_near(first, want, 1e-9 * want);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

/* ---- all of them ---- */

static const char *const searches[] = {"backtracking",
                                       "adaptive_backtracking",
                                       "strong_wolfe",
                                       "polak_ribiere | strong_wolfe(c2=0.1)",
                                       "lbfgs | strong_wolfe(a_init=\"quadratic\")",
                                       "bfgs | backtracking(condition=\"strong_wolfe\")",
                                       "adam | lr(0.1) | backtracking"};
static const double start[] = {-1.2, 1, 0.5};

static void known_values_are_not_evaluated_again(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(searches); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, searches[i], rosenbrock, 3, start);
        run_steps(&r, 1);
        for (int a = 0; a < r.evals; a++)
            for (int b = 0; b < a; b++) assert_false(r.seen[a][0] == r.seen[b][0]);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void an_evaluation_that_fails_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(searches); i++)
        check_failing_evaluations(searches[i], rosenbrock, 3, start, 2, 0);
}

static void searches_continue_after_loading_bit_for_bit(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(searches); i++) check_continues(searches[i], rosenbrock, 3, start, 4, 5);
}

/* Every allocation of a step fails once: an error, nothing moved, nothing lost. */
static void a_step_without_memory_moves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(searches); i++)
        for (int64_t k = 1;; k++) {
            memory m = {0};
            gd_ctx *ctx = context(&m, 1, NULL);
            run r = run_open(ctx, searches[i], rosenbrock, 3, start);
            run_steps(&r, 2);
            double before[MOST], after[MOST];
            params_of(&r, before);
            m.requests = 0;
            m.fail_at = k;
            gd_status status = run_step(&r);
            bool failed = m.failed;
            m.fail_at = 0;
            gd_clear_error(ctx);
            params_of(&r, after);
            for (int e = 0; e < 3 && status; e++)
                if (after[e] != before[e])
                    fail_msg("%s: allocation %lld fails and moves", searches[i], (long long)k);
            if (failed) (void)!run_step(&r);
            gd_clear_error(ctx);
            run_close(&r);
            end_context(ctx, &m);
            if (!failed) break;
        }
}

/* ---- several parameters, other dtypes ---- */

typedef struct pieces {
    gd_tensor *a, *b;
} pieces;

static gd_tensor *pieces_loss(void *user)
{
    pieces *q = user;
    gd_tensor *x = gd_sum(gd_square(gd_add_scalar(gd_cast(q->a, GD_F64), -1)), NULL, false);
    return gd_add(x, gd_mul_scalar(gd_sum(gd_square(gd_cast(q->b, GD_F64)), NULL, false), 3));
}

static void run_pieces(const char *chain, gd_dtype first, gd_dtype second, double out[5])
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    pieces q = {.a = gd_require_grad(gd_full(ctx, first, 2, (int64_t[]){2, 2}, 0.25)),
                .b = gd_require_grad(gd_full(ctx, second, 0, NULL, 0.5))};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "a", q.a));
    OK(gd_optimizer_add(o, "b", q.b));
    for (int i = 0; i < 3; i++) {
        gd_status status = gd_optimizer_step(o, &(gd_objective){.loss = pieces_loss, .user = &q}, NULL);
        assert_no_error(ctx);
        OK(status);
    }
    OK(gd_read_f64(q.a, out, 4));
    OK(gd_read_f64(q.b, out + 4, 1));
    gd_optimizer_free(o);
    gd_release(q.a);
    gd_release(q.b);
    end_context(ctx, NULL);
}

static void lists_of_any_dtypes_take_the_same_steps(void **state)
{
    (void)state;
    const gd_dtype first[] = {GD_F32, GD_F32, GD_F64, GD_BF16}, second[] = {GD_F32, GD_F64, GD_F32, GD_F32};
    for (int i = 0; i < COUNT_OF(searches) - 1; i++) {
        double want[5], got[5];
        run_pieces(searches[i], GD_F64, GD_F64, want);
        for (int k = 0; k < 4; k++) {
            run_pieces(searches[i], first[k], second[k], got);
            for (int e = 0; e < 5; e++) assert_near(got[e], want[e], k == 3 ? 2e-2 : 2e-4);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backtracking_takes_the_first_step_that_decreases_enough),
        cmocka_unit_test(a_failed_backtracking_moves_nothing_and_goes_on_shrinking),
        cmocka_unit_test(adaptive_backtracking_learns_where_to_start),
        cmocka_unit_test(conditions_of_backtracking_hold_where_it_ends),
        cmocka_unit_test(strong_wolfe_conditions_hold_where_it_ends),
        cmocka_unit_test(strong_wolfe_finds_the_minimum_of_a_parabola_at_once),
        cmocka_unit_test(what_is_not_finite_bounds_the_search),
        cmocka_unit_test(a_search_that_finds_nothing_says_so_and_moves_nothing),
        cmocka_unit_test(after_a_failure_strong_wolfe_starts_at_half),
        cmocka_unit_test(fallback_takes_the_lowest_point_seen),
        cmocka_unit_test(an_update_that_points_uphill_is_not_searched),
        cmocka_unit_test(the_evaluations_are_limited),
        cmocka_unit_test(first_steps_follow_the_last_one),
        cmocka_unit_test(known_values_are_not_evaluated_again),
        cmocka_unit_test(an_evaluation_that_fails_moves_nothing),
        cmocka_unit_test(searches_continue_after_loading_bit_for_bit),
        cmocka_unit_test(a_step_without_memory_moves_nothing),
        cmocka_unit_test(lists_of_any_dtypes_take_the_same_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
