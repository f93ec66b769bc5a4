/* Links that evaluate elsewhere, draw directions or move the parameters by chance: formulas beside straight loops, mean and variance
 * where numbers are random, and the same numbers from the same seed. */
#include "optim/optim_support.h"

#include <string.h>

#define N 4

/* f = p H p / 2 + 1 */
static const double h_[N][N] = {{3, 1, -0.5, 0}, {1, 2, 0.25, 0.5}, {-0.5, 0.25, 4, -1}, {0, 0.5, -1, 1.5}};
static const double start_[N] = {1.3, -0.7, 0.4, 2.1};

typedef struct quadratic {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *h;
    gd_objective objective;
    int calls;
} quadratic;

static gd_tensor *bowl(void *user)
{
    quadratic *q = user;
    q->calls++;
    return gd_add_scalar(gd_mul_scalar(gd_sum(gd_mul(q->p, gd_matmul(q->h, q->p)), NULL, false), 0.5), 1);
}

static quadratic *open_quadratic(gd_ctx *ctx, const char *chain)
{
    quadratic *q = calloc(1, sizeof *q);
    *q = (quadratic){.ctx = ctx};
    q->p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, start_));
    q->h = gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, N}, &h_[0][0]);
    q->o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    if (!q->o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    OK(gd_optimizer_add(q->o, "p", q->p));
    q->objective = (gd_objective){.loss = bowl, .user = q};
    return q;
}

static void close_quadratic(quadratic *q)
{
    gd_optimizer_free(q->o);
    gd_release(q->p);
    gd_release(q->h);
    free(q);
}

static void go(quadratic *q)
{
    if (gd_optimizer_step(q->o, &q->objective, NULL)) fail_msg("%s", gd_error_text(q->ctx));
}

static void read_p(quadratic *q, double out[N]) { OK(gd_read_f64(q->p, out, N)); }

static double value(const double *p, double *g)
{
    double f = 1;
    for (int i = 0; i < N; i++) {
        g[i] = 0;
        for (int j = 0; j < N; j++) g[i] += h_[i][j] * p[j];
        f += 0.5 * p[i] * g[i];
    }
    return f;
}

/* ---- mean and variance: steps of length 1 from the same point are the estimates ---- */

#define RUNS 3000

static void draw_estimates(gd_ctx *ctx, const char *chain, double mean[N], double variance[N])
{
    quadratic *q = open_quadratic(ctx, chain);
    double sum[N] = {0}, square[N] = {0}, p[N];
    for (int t = 0; t < RUNS; t++) {
        OK(gd_write_f64(q->p, start_, N));
        go(q);
        read_p(q, p);
        for (int i = 0; i < N; i++) {
            double u = start_[i] - p[i];
            sum[i] += u;
            square[i] += u * u;
        }
    }
    for (int i = 0; i < N; i++) {
        mean[i] = sum[i] / RUNS;
        variance[i] = square[i] / RUNS - mean[i] * mean[i];
    }
    close_quadratic(q);
}

static void check(const char *chain, const double *mean, const double *variance, const double *want,
                  const double *spread)
{
    for (int i = 0; i < N; i++) {
        if (!(fabs(mean[i] - want[i]) <= 5 * sqrt(spread[i] / RUNS) + 1e-9))
            fail_msg("%s: the mean of element %d is %g, not %g", chain, i, mean[i], want[i]);
        if (!(fabs(variance[i] - spread[i]) <= 0.2 * spread[i] + 1e-9))
            fail_msg("%s: the variance of element %d is %g, not %g", chain, i, variance[i], spread[i]);
    }
}

/* (g.z) z: |g|^2 - g_i^2 for signs, |g|^2 + g_i^2 for gaussians, n (|g|^2 + g_i^2 (1 - 2/n)) n / (n + 2) - g_i^2 ... on a sphere of
 * radius sqrt n: E z_i^2 (g.z)^2 = n / (n + 2) (|g|^2 + 2 g_i^2).  spsa1: f(p + h z)^2 / h^2 - g_i^2 with f(p + h z) = f + h g.z +
 * h^2 z H z / 2, to be summed over all signs. */
static void estimates_of_gradients_have_the_moments_of_theory(void **state)
{
    double g[N], f = value(start_, g), all = 0, mean[N], variance[N], spread[N];
    for (int i = 0; i < N; i++) all += g[i] * g[i];
    static const struct {
        const char *chain;
        int kind, samples;
    } cases[] = {{"forward_gradient(1, \"rademacher\", seed=1)", 0, 1},
                 {"forward_gradient(seed=2)", 1, 1},
                 {"forward_gradient(4, \"normal\", false, \"central\", seed=3)", 1, 4},
                 {"forward_gradient(1, \"sphere\", jvp_method=\"forward\", h=1e-6, seed=4)", 2, 1},
                 {"forward_gradient(1, \"uniform\", seed=5)", 3, 1}};
    for (int c = 0; c < COUNT_OF(cases); c++) {
        for (int i = 0; i < N; i++) {
            double own = g[i] * g[i];
            double one = cases[c].kind == 0   ? all - own
                         : cases[c].kind == 1 ? all + own
                         : cases[c].kind == 2 ? N / (N + 2.0) * (all + 2 * own) - own
                                              : all - own + (9.0 / 5 - 1) * own;
            spread[i] = one / cases[c].samples;
        }
        draw_estimates(CTX(state), cases[c].chain, mean, variance);
        check(cases[c].chain, mean, variance, g, spread);
    }
    double h = 0.2, square = 0;
    for (int s = 0; s < 1 << N; s++) {
        double p[N], other[N];
        for (int i = 0; i < N; i++) p[i] = start_[i] + h * (s >> i & 1 ? 1 : -1);
        double there = value(p, other) / h;
        square += there * there / (1 << N);
    }
    (void)f;
    for (int i = 0; i < N; i++) spread[i] = square - g[i] * g[i];
    draw_estimates(CTX(state), "spsa1(0.2, eps=0, seed=6)", mean, variance);
    check("spsa1", mean, variance, g, spread);
}

/* H (p + d): the gradient at weights that are p + d, of mean H p and covariance H cov(d) H. */
static void weights_with_noise_give_the_gradient_there(void **state)
{
    double g[N], mean[N], variance[N], spread[N], size = 0;
    (void)value(start_, g);
    for (int i = 0; i < N; i++) size += fabs(start_[i]) / N;
    for (int i = 0; i < N; i++) {
        spread[i] = 0;
        for (int j = 0; j < N; j++) spread[i] += pow(0.3 * size * h_[i][j], 2);
    }
    draw_estimates(CTX(state), "perturb_weights(0.3, seed=7)", mean, variance);
    check("perturb_weights", mean, variance, g, spread);
    for (int i = 0; i < N; i++) spread[i] *= 1 / (size * size);
    draw_estimates(CTX(state), "perturb_weights(0.3, false, seed=8)", mean, variance);
    check("perturb_weights(relative=false)", mean, variance, g, spread);
    double kept[N];
    for (int i = 0; i < N; i++) {
        kept[i] = 0.75 * g[i];
        spread[i] = 0;
        for (int j = 0; j < N; j++) spread[i] += 0.1875 * pow(h_[i][j] * start_[j], 2);
    }
    draw_estimates(CTX(state), "weight_dropout(0.25, false, seed=9)", mean, variance);
    check("weight_dropout", mean, variance, kept, spread);
    draw_estimates(CTX(state), "gradient_sampling(sigma=0.5, n=3, include_x0=false, fixed=false, seed=10)",
                   mean, variance);
    for (int i = 0; i < N; i++) {
        spread[i] = 0;
        for (int j = 0; j < N; j++) spread[i] += 0.25 / 3 * h_[i][j] * h_[i][j];
    }
    check("gradient_sampling", mean, variance, g, spread);
}

static void a_grafted_tensor_keeps_its_norm(void **state)
{
    quadratic *q = open_quadratic(CTX(state), "weight_dropout(0.5, true, seed=3)");
    double p[N], g[N], norm = 0;
    for (int i = 0; i < N; i++) norm += start_[i] * start_[i];
    int seen = 0;
    for (int t = 0; t < 40; t++) {
        OK(gd_write_f64(q->p, start_, N));
        go(q);
        read_p(q, p);
        for (int i = 0; i < N; i++) g[i] = start_[i] - p[i];
        for (int s = 1; s < 1 << N; s++) { /* the mask is one of these */
            double w[N], at[N], left = 0, off = 0;
            for (int i = 0; i < N; i++) left += s >> i & 1 ? start_[i] * start_[i] : 0;
            for (int i = 0; i < N; i++) w[i] = s >> i & 1 ? start_[i] * sqrt(norm / left) : 0;
            (void)value(w, at);
            for (int i = 0; i < N; i++) off = fmax(off, fabs(at[i] - g[i]));
            seen += off < 1e-12;
        }
    }
    assert_true(seen >= 30); /* but for masks without a weight: one in sixteen */
    close_quadratic(q);
}

/* ---- gradient sampling ---- */

/* Samples that are kept make a function of p: its value and slope agree, and do not change from step to step. */
static void fixed_samples_make_a_smooth_function(void **state)
{
    quadratic *q = open_quadratic(CTX(state),
                                  "gradient_sampling(sigma=0.5, n=4, include_x0=false, seed=3) | lr(0.1)");
    go(q);
    double z[4][N], p[N], at[N], g[N], want[N], now[N];
    OK(gd_read_f64(gd_link_global_tensor(gd_link_child_at(gd_optimizer_chain(q->o), 0), "z"), &z[0][0],
                   4 * N));
    memcpy(p, start_, sizeof p);
    for (int t = 0; t < 20; t++) {
        memset(want, 0, sizeof want);
        for (int k = 0; k < 4; k++) {
            for (int i = 0; i < N; i++) at[i] = p[i] + 0.5 * z[k][i];
            (void)value(at, g);
            for (int i = 0; i < N; i++) want[i] += g[i] / 4;
        }
        for (int i = 0; i < N; i++) p[i] -= 0.1 * want[i];
        read_p(q, now);
        for (int i = 0; i < N; i++) assert_true(fabs(now[i] - p[i]) < 1e-12);
        go(q);
    }
    close_quadratic(q);
}

static double sigma_after(gd_ctx *ctx, const char *chain, int steps)
{
    quadratic *q = open_quadratic(ctx, chain);
    for (int t = 0; t < steps; t++) go(q);
    gd_link *link = gd_link_child_at(gd_optimizer_chain(q->o), 0);
    double sigma = gd_link_kept(link, "sigma", NAN);
    close_quadratic(q);
    return sigma;
}

static void a_criterion_and_a_strategy_change_sigma(void **state)
{
    double sigma = sigma_after(
        CTX(state),
        "gradient_sampling(sigma=0.9, n=2, termination=terminate_after_n_steps(2), decay=0.5, seed=1) | lr(0.01)",
        3);
    assert_true(sigma <= 0.45 && sigma > 0);
    /* at the minimum no sample is lower */
    sigma = sigma_after(
        CTX(state),
        "gradient_sampling(sigma=0.3, n=4, sigma_strategy=\"value\", sigma_nminus=0.5, seed=1) | lr(0)", 1);
    assert_true(sigma == 0.3 * 0.5 || fabs(sigma - 0.3 * 4 / 3) < 1e-15);
    sigma = sigma_after(
        CTX(state),
        "gradient_sampling(sigma=1e-9, n=4, sigma_strategy=\"value\", sigma_target=4, sigma_nminus=0.5, seed=1) | lr(0)",
        1);
    assert_true(fabs(sigma / 1e-9 - 0.5) < 1e-12 || fabs(sigma / 1e-9 - 4.0 / 3) < 1e-12);
}

/* ---- coordinate descent ---- */

static void cd_takes_one_derivative_a_step_in_its_order(void **state)
{
    static const struct {
        const char *chain;
        int order[9];
        double scale; /* 0: the sign */
    } cases[] = {
        {"cd(adaptive=false) | lr(0.1)", {0, 1, 2, 3, 3, 2, 1, 0, 0}, 1},
        {"cd(adaptive=false, index=\"cyclic\", grad=false) | lr(0.1)", {0, 1, 2, 3, 0, 1, 2, 3, 0}, 0}};
    for (int c = 0; c < 2; c++) {
        quadratic *q = open_quadratic(CTX(state), cases[c].chain);
        double p[N], g[N], now[N];
        memcpy(p, start_, sizeof p);
        for (int t = 0; t < 9; t++) {
            (void)value(p, g);
            int i = cases[c].order[t];
            p[i] -= 0.1 * (cases[c].scale != 0 ? g[i] : (g[i] > 0) - (g[i] < 0));
            go(q);
            read_p(q, now);
            for (int k = 0; k < N; k++) assert_true(fabs(now[k] - p[k]) < 1e-10);
        }
        assert_int_equal(q->calls, 18);
        close_quadratic(q);
    }
}

/* A distance at which nothing is to be seen grows until something is. */
static void cd_finds_a_distance_at_which_there_is_something_to_see(void **state)
{
    quadratic *q = open_quadratic(CTX(state), "cd(h=1e-10) | lr(0)");
    for (int t = 0; t < 200; t++) go(q);
    double h[N];
    OK(gd_read_f64(gd_link_state(gd_link_child_at(gd_optimizer_chain(q->o), 0), q->p, "h"), h, N));
    for (int i = 0; i < N; i++) {
        double seen = h_[i][i] * h[i] * h[i];
        assert_true(seen > 1e-15 && seen < 1e-3);
    }
    close_quadratic(q);
}

/* ---- by chance ---- */

static void escape_leaves_a_place_where_nothing_moves_for_a_lower_one(void **state)
{
    quadratic *q = open_quadratic(CTX(state),
                                  "escape_annealing(max_region=0.5, max_iter=50, n_tol=3, seed=2) | lr(0)");
    double p[N], g[N], before = value(start_, g);
    for (int t = 0; t < 4; t++) { /* the first has no step before it */
        read_p(q, p);
        assert_memory_equal(p, start_, sizeof p);
        go(q);
    }
    read_p(q, p);
    assert_true(value(p, g) < before);
    for (int i = 0; i < N; i++) assert_true(fabs(p[i] - start_[i]) <= 0.5);
    double there[N];
    for (int t = 0; t < 3; t++) go(q); /* the count begins anew */
    read_p(q, there);
    assert_memory_equal(there, p, sizeof p);
    close_quadratic(q);
}

/* Shares of steps and of weights are binomial: five sigma. */
static void weights_go_back_as_often_as_said(void **state)
{
    quadratic *q = open_quadratic(CTX(state), "random_reinitialize(0.3, 0.25, seed=4) | lr(0)");
    double away[N] = {9, 9, 9, 9}, p[N];
    int steps = 0, weights = 0, runs = 2000;
    go(q); /* stores the first parameters */
    for (int t = 0; t < runs; t++) {
        OK(gd_write_f64(q->p, away, N));
        go(q);
        read_p(q, p);
        int back = 0;
        for (int i = 0; i < N; i++) {
            assert_true(p[i] == 9 || p[i] == start_[i]);
            back += p[i] == start_[i];
        }
        steps += back > 0;
        weights += back;
    }
    double some = 0.3 * (1 - pow(0.75, N));
    assert_true(fabs(steps - some * runs) < 5 * sqrt(some * (1 - some) * runs));
    assert_true(fabs(weights - 0.3 * 0.25 * N * runs) < 5 * sqrt(0.3 * N * 0.25 * runs * 2));
    close_quadratic(q);
}

static void what_weights_go_back_to_is_looked_at_again(void **state)
{
    quadratic *q = open_quadratic(
        CTX(state), "random_reinitialize(1, 1, store_every=2, beta=0.5, reset=true) | heavy_ball | lr(0)");
    double p[N], away[N] = {1, 2, 3, 4};
    go(q);
    OK(gd_write_f64(q->p, away, N));
    go(q); /* back at the start */
    OK(gd_write_f64(q->p, away, N));
    go(q); /* stored is half of both */
    read_p(q, p);
    for (int i = 0; i < N; i++) assert_true(fabs(p[i] - 0.5 * (start_[i] + away[i])) < 1e-15);
    close_quadratic(q);
}

/* ---- variance reduction ---- */

/* Batches: f_b = f + c_b p_0, b = 0, 1, 2 in turn, c = 1, -2, 4. */
typedef struct batches {
    quadratic *q;
    int b;
} batches;

static const double slope_[3] = {1, -2, 4};

static gd_tensor *batch_loss(void *user)
{
    batches *x = user;
    return gd_add(bowl(x->q),
                  gd_mul_scalar(gd_sum(gd_slice(x->q->p, "0", 0, 1, 1), NULL, false), slope_[x->b]));
}

/* Corrected gradients of batches whose differences are constant are the full ones: the path is that of the whole function. */
static void svrg_takes_the_noise_of_batches_away(void **state)
{
    quadratic *q = open_quadratic(CTX(state), "svrg(3) | lr(0.05)");
    batches x = {.q = q};
    double p[N], g[N], now[N];
    memcpy(p, start_, sizeof p);
    for (int t = 0; t < 20; t++) {
        x.b = t % 3;
        OK(gd_optimizer_step(q->o, &(gd_objective){.loss = batch_loss, .user = &x}, NULL));
        if (t % 5 >= 2) { /* three that gather, the last of which steps, and two more */
            (void)value(p, g);
            g[0] += 1;
            for (int i = 0; i < N; i++) p[i] -= 0.05 * g[i];
        }
        read_p(q, now);
        for (int i = 0; i < N; i++) assert_true(fabs(now[i] - p[i]) < 1e-12);
    }
    close_quadratic(q);
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    static const char *const chains[] = {"forward_gradient(seed=%d) | lr(0.01)",
                                         "spsa1(0.1, seed=%d) | lr(1e-4)",
                                         "perturb_weights(seed=%d) | lr(0.01)",
                                         "weight_dropout(seed=%d) | lr(0.01)",
                                         "cd(index=\"random\", seed=%d) | lr(0.1)",
                                         "random_reinitialize(0.5, 0.5, seed=%d) | lr(0.1)",
                                         "gradient_sampling(n=3, sigma=0.3, seed=%d) | lr(0.1)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        double end[3][N];
        for (int run = 0; run < 3; run++) {
            char chain[100];
            snprintf(chain, sizeof chain, chains[c], run < 2 ? 7 : 8);
            quadratic *q = open_quadratic(CTX(state), chain);
            for (int t = 0; t < 10; t++) go(q);
            read_p(q, end[run]);
            close_quadratic(q);
        }
        assert_memory_equal(end[0], end[1], sizeof end[0]);
        assert_memory_not_equal(end[0], end[2], sizeof end[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(estimates_of_gradients_have_the_moments_of_theory),
        CASE(weights_with_noise_give_the_gradient_there),
        CASE(a_grafted_tensor_keeps_its_norm),
        CASE(fixed_samples_make_a_smooth_function),
        CASE(a_criterion_and_a_strategy_change_sigma),
        CASE(cd_takes_one_derivative_a_step_in_its_order),
        CASE(cd_finds_a_distance_at_which_there_is_something_to_see),
        CASE(escape_leaves_a_place_where_nothing_moves_for_a_lower_one),
        CASE(weights_go_back_as_often_as_said),
        CASE(what_weights_go_back_to_is_looked_at_again),
        CASE(svrg_takes_the_noise_of_batches_away),
        CASE(the_same_seed_gives_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
