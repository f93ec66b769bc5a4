/* Estimated gradients: exactness of the differences, mean and variance of random directions, memory, repeatability. */
#include "optim/search_support.h"

#define N 6

/* ---- finite differences ---- */

static double quartic(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        f += x[i] * x[i] * x[i] * x[i] + (i + 1) * x[i];
        g[i] = 4 * x[i] * x[i] * x[i] + i + 1;
    }
    return f;
}

static double square(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        f += x[i] * x[i] + (i + 1) * x[i];
        g[i] = 2 * x[i] + i + 1;
    }
    return f;
}

static double linear(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        f += (i + 1) * x[i];
        g[i] = i + 1;
    }
    return f;
}

/* Step without learning rate: the parameter moves by the gradient. */
static void gradient_by(const char *chain, plain_fn fn, double *out, int *evals)
{
    const double start[N] = {0.5, -1, 2, 0.25, -0.75, 1};
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, chain, fn, N, start);
    run_steps(&r, 1);
    double x[MOST];
    params_of(&r, x);
    for (int i = 0; i < N; i++) out[i] = start[i] - x[i];
    *evals = r.evals;
    run_close(&r);
    end_context(ctx, NULL);
}

static void differences_are_exact_for_polynomials_of_their_order(void **state)
{
    (void)state;
    static const struct {
        const char *formula;
        plain_fn exact;
        int evals; /* an element */
    } rows[] = {{"forward", linear, 1},  {"backward", linear, 1},  {"central", square, 2},
                {"forward3", square, 2}, {"backward3", square, 2}, {"central4", quartic, 4},
                {"forward4", square, 3}, {"forward5", quartic, 4}, {"central2", square, 2},
                {"forward2", linear, 1}};
    const double start[N] = {0.5, -1, 2, 0.25, -0.75, 1};
    for (int k = 0; k < COUNT_OF(rows); k++) {
        char chain[80];
        double got[N], want[N];
        int evals;
        snprintf(chain, sizeof chain, "fdm(h=0.125, formula=\"%s\")", rows[k].formula);
        gradient_by(chain, rows[k].exact, got, &evals);
        rows[k].exact(start, want, N);
        for (int i = 0; i < N; i++) assert_near(got[i], want[i], 1e-10);
        assert_int_equal(evals, 1 + rows[k].evals * N);
    }
}

static void fdm_puts_parameters_back_and_serves_line_searches(void **state)
{
    (void)state;
    const double start[] = {-1.2, 1, 0.3};
    const char *const chains[] = {"fdm | lbfgs | strong_wolfe", "fdm(formula=\"forward\") | backtracking",
                                  "fdm(target=\"grad\") | lr(1e-3)", "fdm(target=\"update\") | lr(1e-3)"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        check_failing_evaluations(chains[i], rosenbrock, 3, start, 1, 0);
        check_continues(chains[i], rosenbrock, 3, start, 3, 3);
    }
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "fdm(h=1e-5) | lbfgs | strong_wolfe", rosenbrock, 3, start);
    run_steps(&r, 60);
    assert_near(first_of(&r), 1, 1e-4);
    run_close(&r);
    end_context(ctx, NULL);
}

/* f' = 1 / x, whatever the size of x. */
static double logarithm(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        f += log(fabs(x[i]));
        g[i] = 1 / x[i];
    }
    return f;
}

static void distances_go_by_the_size_of_the_element(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        double x, error; /* of the slope, relative */
    } rows[] = {{"fdm", 1e6, 1e-9},
                {"fdm", -1e3, 1e-9},
                {"fdm", 3, 1e-9},
                {"fdm(typical=1e-6)", 1e-6, 1e-9},
                {"fdm(formula=\"forward\")", 1e6, 3e-7},
                {"fdm(formula=\"forward\")", 1, 3e-8},
                {"fdm(formula=\"central4\")", 1e6, 1e-10},
                {"fdm(formula=\"forward5\")", 1e6, 1e-9}};
    for (int k = 0; k < COUNT_OF(rows); k++) {
        char chain[80];
        gd_ctx *ctx = context(NULL, 1, NULL);
        snprintf(chain, sizeof chain, "%s | mul(%g)", rows[k].chain, rows[k].x * rows[k].x / 2);
        run r = run_open(ctx, chain, logarithm, 1, &rows[k].x);
        run_steps(&r, 1); /* x - x^2 g / 2 = x / 2 */
        double off = fabs(first_of(&r) / rows[k].x - 0.5) * 2;
        if (!(off <= rows[k].error)) fail_msg("%s at %g: slope wrong by %g", chain, rows[k].x, off);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static const double fence[2][4] = {{0, -1, 2, 1e-7}, {1, 3, 2, 2e-7}};

/* (x0^1.5 + x0) + (x1 - 4)^2 + x2 + (1e7 x3 - 1.5)^2, not a number outside the fence. */
static double fenced(const double *x, double *g, int n)
{
    (void)g;
    for (int i = 0; i < n; i++)
        if (!(x[i] >= fence[0][i] && x[i] <= fence[1][i])) fail_msg("element %d: %.17g is outside", i, x[i]);
    double a = 1e7 * x[3] - 1.5;
    return pow(x[0], 1.5) + x[0] + (x[1] - 4) * (x[1] - 4) + x[2] + a * a;
}

static void differences_stay_inside_bounds(void **state)
{
    (void)state;
    const double start[] = {0.5, 0, 2, 1.1e-7};
    const char *const formulas[] = {"forward",  "backward", "central",  "forward3", "backward3",
                                    "central4", "forward4", "forward5", "bspsa4"};
    for (int k = 0; k < COUNT_OF(formulas); k++) {
        char chain[200];
        snprintf(chain, sizeof chain,
                 "box([0, -1, 2, 1e-7], [1, 3, 2, 2e-7]) | fdm(formula=\"%s\") | lbfgs | strong_wolfe",
                 formulas[k]);
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, chain, fenced, 4, start);
        run_steps(&r, 25);
        double x[MOST];
        params_of(&r, x);
        assert_true(x[0] == 0 && x[1] == 3 && x[2] == 2);
        if (!(fabs(x[3] - 1.5e-7) < 1e-9)) fail_msg("%s ends at %g", chain, x[3]);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

/* ---- random directions ---- */

/* Mean and second moment of estimates of a linear function's gradient c:
 *   E g = c,   E (g_i - c_i)^2 = |c|^2 + (E z^4 - 2) c_i^2, with E z^4 = 1, 3, 9/5 for signs, gaussians and uniforms;
 *   on the sphere of radius sqrt n: E z_i^4 = 3 n / (n + 2), E z_i^2 z_j^2 = n / (n + 2). */
static void check_moments(const char *link, const char *distribution, double fourth, double mixed)
{
    enum { SAMPLES = 20000 };
    char chain[120];
    snprintf(chain, sizeof chain, "%s(h=0.5, distribution=\"%s\", seed=3) | lr(1)", link, distribution);
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, chain, linear, N, (double[N]){0});
    double mean[N] = {0}, square_sum[N] = {0}, x[MOST] = {0}, before[MOST] = {0}, norm = 0;
    for (int t = 0; t < SAMPLES; t++) {
        run_steps(&r, 1);
        params_of(&r, x);
        for (int i = 0; i < N; i++) {
            double g = before[i] - x[i];
            mean[i] += g / SAMPLES;
            square_sum[i] += (g - (i + 1)) * (g - (i + 1)) / SAMPLES;
            before[i] = x[i];
        }
    }
    for (int i = 0; i < N; i++) norm += (i + 1) * (i + 1);
    for (int i = 0; i < N; i++) {
        double c = i + 1, variance = mixed * (norm - c * c) + (fourth - 1) * c * c;
        assert_near(mean[i], c, 5 * sqrt(variance / SAMPLES));
        assert_near(square_sum[i], variance, 0.06 * variance);
    }
    run_close(&r);
    end_context(ctx, NULL);
}

static void mean_and_variance_are_those_of_the_theory(void **state)
{
    (void)state;
    double n = N;
    check_moments("spsa", "rademacher", 1, 1);
    check_moments("spsa", "gaussian", 3, 1);
    check_moments("rdsa", "uniform", 9.0 / 5, 1);
    check_moments("randomized_fdm", "sphere", 3 * n / (n + 2), n / (n + 2));
}

/* One step from the same point for each of many seeds.  Central differences are exact for a quadratic, so each estimate is
 * z (z g) / 1 with g its gradient there: mean g, variance |g|^2 - g_i^2 for signs, |g|^2 + g_i^2 for gaussians. */
static void check_seeds(const char *link, double sign)
{
    enum { SEEDS = 4000 };
    const double start[N] = {0.5, -1, 2, 0.25, -0.75, 1};
    double mean[N] = {0}, spread[N] = {0}, g[N], x[MOST], norm = 0, last = NAN;
    int same = 0;
    square(start, g, N);
    for (int i = 0; i < N; i++) norm += g[i] * g[i];
    for (int seed = 1; seed <= SEEDS; seed++) {
        char chain[120];
        gd_options options = gd_options_default();
        options.threads = 1;
        options.seed = (uint64_t)seed; /* mezo draws from the context */
        gd_ctx *ctx = gd_ctx_new(&options);
        snprintf(chain, sizeof chain, link, seed);
        run r = run_open(ctx, chain, square, N, start);
        run_steps(&r, 1);
        params_of(&r, x);
        for (int i = 0; i < N; i++) {
            double estimate = start[i] - x[i];
            mean[i] += estimate / SEEDS;
            spread[i] += (estimate - g[i]) * (estimate - g[i]) / SEEDS;
        }
        same += x[0] == last;
        last = x[0];
        run_close(&r);
        end_context(ctx, NULL);
    }
    /* with signs one in 16 neighbours agrees by chance */
    assert_true(same < SEEDS / 8);
    for (int i = 0; i < N; i++) {
        double variance = norm + sign * g[i] * g[i];
        assert_near(mean[i], g[i], 5 * sqrt(variance / SEEDS));
        assert_near(spread[i], variance, 0.12 * variance);
    }
}

static void mean_and_variance_over_seeds_are_those_of_the_theory(void **state)
{
    (void)state;
    check_seeds("spsa(seed=%d)", -1);
    check_seeds("spsa(distribution=\"gaussian\", seed=%d)", 1);
    check_seeds("mezo", -1); /* in place */
    check_seeds("mezo(distribution=\"gaussian\") | lr(1)", 1);
    check_seeds("mezo | clip_value(1e9)", -1); /* a gradient that is handed on */
}

/* Averaging divides the variance: with signs, g - c has variance (|c|^2 - c_i^2) / samples. */
static void averaging_reduces_the_variance(void **state)
{
    (void)state;
    enum { STEPS = 3000, SAMPLES = 8 };
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "spsa(n_samples=8, seed=11)", linear, N, (double[N]){0});
    double x[MOST] = {0}, before[MOST] = {0}, spread = 0;
    for (int t = 0; t < STEPS; t++) {
        run_steps(&r, 1);
        params_of(&r, x);
        spread += pow(before[0] - x[0] - 1, 2) / STEPS;
        memcpy(before, x, sizeof x);
    }
    assert_near(spread, (4 + 9 + 16 + 25 + 36.0) / SAMPLES, 1);
    assert_int_equal(r.evals, STEPS * (2 * SAMPLES + 1));
    run_close(&r);
    end_context(ctx, NULL);
}

/* A step of f = 1/2 x^2 in n dimensions along signs with central differences: D_z f = z x exactly. */
static void mezo_follows_its_formula_with_the_same_numbers(void **state)
{
    (void)state;
    const char *const tails[] = {"", " | lr(0.5)", " | lr(0.25) | lr(2)"};
    const double factor[] = {1, 0.5, 0.5};
    double got[3][N];
    for (int k = 0; k < 3; k++) {
        char chain[60];
        gd_ctx *ctx = context(NULL, 1, NULL);
        snprintf(chain, sizeof chain, "mezo(n_samples=3)%s", tails[k]);
        run r = run_open(ctx, chain, square, N, (double[N]){1, 2, 3, 4, 5, 6});
        run_steps(&r, 1);
        double x[MOST];
        params_of(&r, x);
        for (int i = 0; i < N; i++) got[k][i] = (i + 1 - x[i]) / factor[k];
        /* the whole step in place needs no loss at x; with a gradient handed on it is evaluated too */
        assert_int_equal(r.evals, k < 2 ? 6 : 7);
        run_close(&r);
        end_context(ctx, NULL);
    }
    for (int k = 1; k < 3; k++)
        for (int i = 0; i < N; i++) assert_near(got[k][i], got[0][i], 1e-9);
}

static void the_same_seed_gives_the_same_run(void **state)
{
    (void)state;
    const char *const chains[] = {
        "spsa(seed=5) | lr(1e-4)", "spsa(distribution=\"sphere\", seed=5) | lr(1e-4)",
        "mezo | lr(1e-4)",         "gaussian_smoothing(n_samples=4, seed=2) | lr(1e-5)",
        "mezo | adam | lr(1e-3)",  "spsa(pre_generate=false, seed=1) | lr(1e-4)"};
    const double start[] = {-1.2, 1, 0.5};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        double x[2][MOST];
        for (int k = 0; k < 2; k++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            run r = run_open(ctx, chains[c], rosenbrock, 3, start);
            run_steps(&r, 20);
            params_of(&r, x[k]);
            run_close(&r);
            end_context(ctx, NULL);
        }
        assert_memory_equal(x[0], x[1], 3 * sizeof(double));
        check_continues(chains[c], rosenbrock, 3, start, 6, 6);
        bool in_place = !strncmp(chains[c], "mezo", 4);
        check_failing_evaluations(chains[c], rosenbrock, 3, start, 2, in_place ? 1e-15 : 0);
    }
}

/* ---- memory ---- */

static gd_status large_value(void *user, double *loss)
{
    double sum = 0;
    for (int64_t i = 0; i < gd_numel(user); i++) sum += gd_at(user, &i) * gd_at(user, &i);
    *loss = sum;
    return GD_OK;
}

static void check_memory(const char *chain, gd_dtype dtype, int threads)
{
    memory watch = {0};
    gd_ctx *ctx = context(&watch, threads, NULL);
    int64_t n = 1 << 18;
    gd_tensor *p = gd_require_grad(gd_ones(ctx, dtype, 1, &n));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "p", p));
    watch.largest = 0;
    for (int i = 0; i < 3; i++) {
        gd_status status = gd_optimizer_step(o, &(gd_objective){.value = large_value, .user = p}, NULL);
        assert_no_error(ctx);
        OK(status);
    }
    if (watch.largest >= (size_t)n / 4) fail_msg("%s: a block of %zu bytes", chain, watch.largest);
    gd_optimizer_free(o);
    gd_release(p);
    end_context(ctx, &watch);
}

static void mezo_allocates_nothing_of_the_size_of_the_parameters(void **state)
{
    (void)state;
    static const char *const chains[] = {"mezo", "mezo(n_samples=2, distribution=\"gaussian\") | lr(1e-9)",
                                         "mezo(distribution=\"sphere\", formula=\"forward\") | lr(1e-9)",
                                         "mezo(target=\"update\") | lr(1e-9)"};
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16, GD_F16};
    for (int i = 0; i < COUNT_OF(chains); i++)
        for (int k = 0; k < COUNT_OF(dtypes); k++) check_memory(chains[i], dtypes[k], 1 + (i + k) % 2);
}

/* ---- several parameters, other dtypes, threads ---- */

static gd_tensor *loss_of_two(void *user)
{
    gd_tensor *const *t = user;
    return gd_add(gd_sum(gd_square(gd_cast(t[0], GD_F64)), NULL, false),
                  gd_sum(gd_cast(t[1], GD_F64), NULL, false));
}

static void numbers_do_not_depend_on_dtype_or_threads(void **state)
{
    (void)state;
    const gd_dtype first[] = {GD_F64, GD_F32, GD_F64, GD_F32}, second[] = {GD_F64, GD_F32, GD_F32, GD_BF16};
    const char *const chains[] = {"spsa(seed=9) | lr(0.01)",
                                  "spsa(seed=9, distribution=\"gaussian\") | lr(0.01)",
                                  "rdsa(seed=9, distribution=\"uniform\") | lr(0.01)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        double want[4] = {0}, got[4];
        for (int k = 0; k < 4; k++) {
            gd_ctx *ctx = context(NULL, 1 + k % 3, NULL);
            gd_tensor *t[2] = {gd_require_grad(gd_full(ctx, first[k], 1, (int64_t[]){70001}, 0.01)),
                               gd_require_grad(gd_full(ctx, second[k], 2, (int64_t[]){3, 5}, 0.5))};
            gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chains[c]));
            OK(gd_optimizer_add(o, "a", t[0]));
            OK(gd_optimizer_add(o, "b", t[1]));
            gd_status status = gd_optimizer_step(o, &(gd_objective){.loss = loss_of_two, .user = t}, NULL);
            assert_no_error(ctx);
            OK(status);
            got[0] = gd_at(t[0], (int64_t[]){0});
            got[1] = gd_at(t[0], (int64_t[]){70000});
            got[2] = gd_at(t[1], (int64_t[]){0, 0});
            got[3] = gd_at(t[1], (int64_t[]){2, 4});
            for (int i = 0; i < 4; i++) {
                if (!k) want[i] = got[i];
                assert_near(got[i], want[i],
                            k == 3 ? 0.05 * (1 + fabs(want[i])) : 2e-3 * (1 + fabs(want[i])));
            }
            gd_optimizer_free(o);
            gd_release(t[0]);
            gd_release(t[1]);
            end_context(ctx, NULL);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_are_exact_for_polynomials_of_their_order),
        cmocka_unit_test(distances_go_by_the_size_of_the_element),
        cmocka_unit_test(differences_stay_inside_bounds),
        cmocka_unit_test(fdm_puts_parameters_back_and_serves_line_searches),
        cmocka_unit_test(mean_and_variance_are_those_of_the_theory),
        cmocka_unit_test(mean_and_variance_over_seeds_are_those_of_the_theory),
        cmocka_unit_test(averaging_reduces_the_variance),
        cmocka_unit_test(mezo_follows_its_formula_with_the_same_numbers),
        cmocka_unit_test(the_same_seed_gives_the_same_run),
        cmocka_unit_test(mezo_allocates_nothing_of_the_size_of_the_parameters),
        cmocka_unit_test(numbers_do_not_depend_on_dtype_or_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
