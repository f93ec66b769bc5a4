/* Step sizes from closed forms, and objectives that links change: homotopies and sharpness. */
#include "optim/search_support.h"

/* ---- step sizes ---- */

/* On f = x^2 / 2 the Polyak step is 1/2, whatever x. */
static void the_polyak_step_of_a_parabola_is_a_half(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "polyak_step_size", bowl, 1, (double[]){8});
    run_steps(&r, 3);
    assert_near(first_of(&r), 1, 1e-12);
    run_close(&r);
    r = run_open(ctx, "polyak_step_size(max=0.25, alpha=0.5)", bowl, 1, (double[]){8});
    run_steps(&r, 1);
    assert_near(first_of(&r), 7, 1e-12);
    run_close(&r);
    /* an update twice as long: <u, g> doubles, so the step is the same; <u, u> makes it half */
    r = run_open(ctx, "lr(2) | polyak_step_size", bowl, 1, (double[]){8});
    run_steps(&r, 1);
    assert_near(first_of(&r), 4, 1e-12);
    run_close(&r);
    r = run_open(ctx, "lr(2) | polyak_step_size(use_grad=false)", bowl, 1, (double[]){8});
    run_steps(&r, 1);
    assert_near(first_of(&r), 6, 1e-12);
    run_close(&r);
    /* f_star unknown: best - y, y shrinking by a tenth */
    r = run_open(ctx, "polyak_step_size(f_star=none, y=2, y_decay=0.1)", bowl, 1, (double[]){8});
    run_steps(&r, 1);
    assert_near(first_of(&r), 8 - 2.0 / 8, 1e-12);
    double x = first_of(&r);
    run_steps(&r, 1);
    assert_near(first_of(&r), x - 1.8 / x, 1e-12);
    run_close(&r);
    /* an update that points uphill moves nothing */
    r = run_open(ctx, "lr(-1) | polyak_step_size", bowl, 1, (double[]){8});
    run_steps(&r, 1);
    assert_near(first_of(&r), 8, 0);
    run_close(&r);
    end_context(ctx, NULL);
}

/* bowl in two dimensions: s = (a, b), y = (a, 2 b). */
static void barzilai_borwein_steps_are_quotients_of_the_last_pair(void **state)
{
    (void)state;
    const char *const types[] = {"long", "short", "geom", "geom-fallback"};
    for (int k = 0; k < 4; k++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        char chain[80];
        snprintf(chain, sizeof chain, "barzilai_borwein(type=\"%s\", alpha_0=0.1)", types[k]);
        run r = run_open(ctx, chain, bowl, 2, (double[]){1, 1});
        run_steps(&r, 1);
        double x[MOST];
        params_of(&r, x);
        assert_near(x[0], 0.9, 1e-12);
        assert_near(x[1], 0.8, 1e-12);
        /* s = -(0.1, 0.2), y = -(0.1, 0.4) */
        double ss = 0.05, sy = 0.09, yy = 0.17, a = k == 0 ? ss / sy : k == 1 ? sy / yy : sqrt(ss / yy);
        run_steps(&r, 1);
        params_of(&r, x);
        assert_near(x[0], 0.9 - a * 0.9, 1e-12);
        assert_near(x[1], 0.8 - a * 1.6, 1e-12);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void stabilised_steps_are_no_longer_than_delta(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "bb_stab(delta=0.05, alpha_0=0.1)", bowl, 3, (double[]){1, 1, 1});
    double before[MOST], x[MOST];
    for (int t = 0; t < 10; t++) {
        params_of(&r, before);
        run_steps(&r, 1);
        params_of(&r, x);
        double length = 0;
        for (int i = 0; i < 3; i++) length += (x[i] - before[i]) * (x[i] - before[i]);
        assert_true(sqrt(length) <= 0.05 * (1 + 1e-12));
    }
    run_close(&r);
    end_context(ctx, NULL);
}

static void adaptive_steps_find_the_curvature(void **state)
{
    (void)state;
    for (int variant = 1; variant <= 2; variant++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        char chain[60];
        snprintf(chain, sizeof chain, "adgd(variant=%d, alpha_0=1e-3)", variant);
        run r = run_open(ctx, chain, bowl, 3, (double[]){1, -1, 2});
        run_steps(&r, 200);
        double x[MOST];
        params_of(&r, x);
        for (int i = 0; i < 3; i++) assert_near(x[i], 0, 1e-6);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static const char *const all[] = {"polyak_step_size(f_star=none)",
                                  "barzilai_borwein(alpha_0=1e-3)",
                                  "bb_stab(alpha_0=1e-3)",
                                  "adgd(alpha_0=1e-3)",
                                  "sam | lr(1e-3)",
                                  "asam | adam | lr(1e-2)",
                                  "log_homotopy | lr(1e-3)",
                                  "square_homotopy | lr(1e-6)",
                                  "sqrt_homotopy | lbfgs | strong_wolfe"};
static const double start[] = {-1.2, 1, 0.5};

static void they_continue_after_loading_and_survive_failures(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all); i++) {
        check_continues(all[i], rosenbrock, 3, start, 4, 5);
        check_failing_evaluations(all[i], rosenbrock, 3, start, 2, 0);
    }
}

static void a_step_without_memory_leaves_them_usable(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all); i++) check_failing_memory(all[i], rosenbrock, 3, start, 1);
}

/* ---- changed objectives ---- */

/* One step without learning rate moves by the gradient of the changed loss. */
static double slope_of(const char *chain, plain_fn fn, double x)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, chain, fn, 1, &x);
    run_steps(&r, 1);
    double slope = x - first_of(&r), g;
    assert_near(r.info.loss, fn(&x, &g, 1), 1e-12); /* what the step reports is the loss itself */
    run_close(&r);
    end_context(ctx, NULL);
    return slope;
}

static double negative_bowl(const double *x, double *g, int n) { return bowl(x, g, n) - 10; }
static double zero(const double *x, double *g, int n)
{
    (void)n;
    g[0] = 1;
    return 0 * x[0];
}

static void homotopies_multiply_the_gradient_by_their_slope(void **state)
{
    (void)state;
    /* f = x^2 / 2 at 2: f = 2, g = 2 */
    assert_near(slope_of("log_homotopy", bowl, 2), 2.0 / 2, 1e-10);
    assert_near(slope_of("sqrt_homotopy", bowl, 2), 2 / (2 * sqrt(2)), 1e-10);
    assert_near(slope_of("square_homotopy", bowl, 2), 2 * 2 * 2, 1e-10);
    assert_near(slope_of("exp_homotopy", bowl, 2), 2 * exp(2), 1e-9);
    /* below zero the square keeps its sign: the slope is 2 |f| g */
    assert_near(slope_of("square_homotopy", negative_bowl, 2), 2 * 8 * 2, 1e-10);
    /* a loss of zero still has a slope */
    assert_true(isfinite(slope_of("log_homotopy", zero, 1)) && isfinite(slope_of("sqrt_homotopy", zero, 1)));
}

/* f = sum (i + 1) x_i^2 / 2, whose gradient at x + e is known. */
static void sam_takes_the_gradient_at_the_worst_point(void **state)
{
    (void)state;
    const double x[] = {1, -2}, g[] = {1, -4};
    static const struct {
        const char *chain;
        double p;
        bool relative;
    } rows[] = {{"sam(rho=0.5)", 2, false},
                {"asam(rho=0.5)", 2, true},
                {"sam(rho=0.5, asam=true)", 2, true},
                {"sam(rho=0.5, p=3)", 3, false},
                {"sam(rho=0.5, p=1.5)", 1.5, false},
                {"sam(rho=0.5, p=1)", 1, false},
                {"sam(rho=0.5, p=1, asam=true)", 1, true},
                {"sam(rho=0.5, p=inf)", INFINITY, false}};
    for (int k = 0; k < COUNT_OF(rows); k++) {
        double p = rows[k].p, q = isinf(p) ? 1 : p / (p - 1), w[2], e[2], sum = 0, got[MOST];
        for (int i = 0; i < 2; i++) {
            w[i] = rows[k].relative ? fabs(x[i]) : 1;
            sum += pow(fabs(w[i] * g[i]), q);
        }
        for (int i = 0; i < 2; i++) {
            double u = w[i] * g[i];
            e[i] = 0.5 * w[i] * copysign(pow(fabs(u), q - 1), u) / pow(sum, 1 / p);
            if (p == 1) e[i] = i ? -0.5 * w[i] : 0; /* the second coordinate is the steepest */
        }
        if (!rows[k].relative && !isinf(p)) /* it lies on the sphere of the norm */
            assert_near(pow(pow(fabs(e[0]), p) + pow(fabs(e[1]), p), 1 / p), 0.5, 1e-12);
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, rows[k].chain, bowl, 2, x);
        run_steps(&r, 1);
        params_of(&r, got);
        for (int i = 0; i < 2; i++) assert_near(x[i] - got[i], (i + 1) * (x[i] + e[i]), 1e-8);
        assert_int_equal(r.evals, 2);
        assert_near(r.info.loss, 0.5 + 4, 1e-12);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void sam_at_a_minimum_moves_nothing(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "sam | lr(0.1)", bowl, 2, (double[]){0, 0});
    run_steps(&r, 3);
    assert_true(first_of(&r) == 0);
    run_close(&r);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_polyak_step_of_a_parabola_is_a_half),
        cmocka_unit_test(barzilai_borwein_steps_are_quotients_of_the_last_pair),
        cmocka_unit_test(stabilised_steps_are_no_longer_than_delta),
        cmocka_unit_test(adaptive_steps_find_the_curvature),
        cmocka_unit_test(they_continue_after_loading_and_survive_failures),
        cmocka_unit_test(a_step_without_memory_leaves_them_usable),
        cmocka_unit_test(homotopies_multiply_the_gradient_by_their_slope),
        cmocka_unit_test(sam_takes_the_gradient_at_the_worst_point),
        cmocka_unit_test(sam_at_a_minimum_moves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
