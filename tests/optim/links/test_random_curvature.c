/* Links that learn from random products with the Hessian: their formulas beside straight loops where the products are known, mean and
 * variance of their estimates where they are not, and the same numbers from the same seed. */
#include "optim/optim_support.h"

#include <string.h>

#define N 4

/* f = p H p / 2, or for the curved problem sum w (p - c)^2 / 2 - cos(3 p) / 10, whose Hessian is diagonal. */
static const double h_[N][N] = {{3, 1, -0.5, 0}, {1, 2, 0.25, 0.5}, {-0.5, 0.25, 4, -1}, {0, 0.5, -1, 1.5}};
static const double weight_[N] = {1, 0.3, 2, 0.5}, centre_[N] = {0.2, 0.5, -0.6, 0.1},
                    start_[N] = {1.3, -0.7, 0.4, 2.1};

typedef struct quadratic {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *h, *weight, *centre;
    gd_objective objective;
} quadratic;

static gd_tensor *bowl(void *user)
{
    quadratic *q = user;
    gd_tensor *p = gd_reshape(q->p, 1, (int64_t[]){N});
    if (q->h) return gd_mul_scalar(gd_sum(gd_mul(p, gd_matmul(q->h, p)), NULL, false), 0.5);
    gd_tensor *d = gd_square(gd_sub(p, q->centre));
    return gd_sub(gd_mul_scalar(gd_sum(gd_mul(q->weight, d), NULL, false), 0.5),
                  gd_mul_scalar(gd_sum(gd_cos(gd_mul_scalar(p, 3)), NULL, false), 0.1));
}

static quadratic *open_quadratic(gd_ctx *ctx, const char *chain, bool curved, bool matrix)
{
    quadratic *q = calloc(1, sizeof *q);
    *q = (quadratic){.ctx = ctx};
    q->p = gd_require_grad(
        gd_from_f64(ctx, GD_F64, matrix ? 2 : 1, matrix ? (int64_t[]){2, 2} : (int64_t[]){N}, start_));
    q->h = curved ? NULL : gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, N}, &h_[0][0]);
    q->weight = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, weight_);
    q->centre = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, centre_);
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
    gd_release(q->weight);
    gd_release(q->centre);
    free(q);
}

static void go(quadratic *q)
{
    if (gd_optimizer_step(q->o, &q->objective, NULL)) fail_msg("%s", gd_error_text(q->ctx));
}

static gd_link *first_link(const quadratic *q)
{
    gd_link *chain = gd_optimizer_chain(q->o);
    return gd__is_chain(chain) ? gd_link_child_at(chain, 0) : chain;
}

static void slot_of(quadratic *q, const char *slot, double out[N])
{
    OK(gd_read_f64(gd_link_state(first_link(q), q->p, slot), out, N));
}

static void slopes(const double *p, double *g, double *diagonal)
{
    for (int i = 0; i < N; i++) {
        g[i] = weight_[i] * (p[i] - centre_[i]) + 0.3 * sin(3 * p[i]);
        diagonal[i] = weight_[i] + 0.9 * cos(3 * p[i]);
    }
}

/* ---- formulas, where products are known: z (H z) = H_ii for signs and a diagonal Hessian ---- */

static void compare(quadratic *q, const double *want, int t, const char *chain)
{
    double got[N];
    OK(gd_read_f64(q->p, got, N));
    for (int i = 0; i < N; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
            fail_msg("%s, step %d, element %d: %.17g, not %.17g", chain, t, i, got[i], want[i]);
}

static void adahessian_follows_its_formula(void **state)
{
    static const struct {
        const char *chain;
        int every, block; /* block: 2 x 2, rows to average over */
        double power;
    } cases[] = {
        {"adahessian(0.8, 0.95, averaging=false) | lr(0.1)", 1, 1, 1},
        {"adahessian(0.8, 0.95, false, update_freq=3, eps=0.01, hessian_power=0.5) | lr(0.1)", 3, 1, 0.5},
        {"adahessian(0.8, 0.95, n_samples=3) | lr(0.1)", 1, 2, 1},
        {"adahessian(0.8, 0.95, block_size=1) | lr(0.1)", 1, 1, 1},
    };
    for (int c = 0; c < COUNT_OF(cases); c++) {
        quadratic *q = open_quadratic(CTX(state), cases[c].chain, true, true);
        double p[N], g[N], d[N], m[N] = {0}, v[N] = {0}, eps = c == 1 ? 0.01 : 1e-8;
        int learnt = 0;
        memcpy(p, start_, sizeof p);
        for (int t = 1; t <= 50; t++) {
            slopes(p, g, d);
            bool due = (t - 1) % cases[c].every == 0;
            learnt += due;
            for (int i = 0; i < N; i++) {
                double mean = cases[c].block == 2 ? (d[i % 2] + d[i % 2 + 2]) / 2 : d[i];
                if (due) v[i] = 0.95 * v[i] + 0.05 * mean * mean;
                m[i] = 0.8 * m[i] + 0.2 * g[i];
            }
            for (int i = 0; i < N; i++) {
                double root = pow(sqrt(v[i] / (1 - pow(0.95, learnt))), cases[c].power) + eps;
                p[i] -= 0.1 * m[i] / (1 - pow(0.8, t)) / root;
            }
            go(q);
            compare(q, p, t, cases[c].chain);
        }
        close_quadratic(q);
    }
}

/* What is made of the estimate that the link holds. */
static void sophia_and_esgd_divide_by_what_they_hold(void **state)
{
    static const char *const chains[] = {
        "sophia_h(0.8, 0.9, update_freq=2, precond_scale=0.5, clip=0.7, eps=0.1) | lr(0.1)",
        "esgd(0.05, update_freq=3, n_samples=2) | lr(0.1)"};
    for (int c = 0; c < 2; c++) {
        quadratic *q = open_quadratic(CTX(state), chains[c], true, false);
        double p[N], g[N], d[N], m[N] = {0}, held[N], before[N] = {0};
        memcpy(p, start_, sizeof p);
        for (int t = 1; t <= 50; t++) {
            slopes(p, g, d);
            go(q);
            slot_of(q, c ? "squares" : "diagonal", held);
            bool due = (t - 1) % (c ? 3 : 2) == 0;
            assert_int_equal(memcmp(before, held, sizeof held) != 0, due);
            for (int i = 0; i < N; i++) {
                m[i] = 0.8 * m[i] + 0.2 * g[i];
                double u = c ? g[i] / (sqrt(held[i] / ((t + 2) / 3)) + 0.05)
                             : m[i] / fmax(0.5 * held[i], 0.1);
                p[i] -= 0.1 * (c ? u : fmax(-0.7, fmin(0.7, u)));
            }
            memcpy(before, held, sizeof held);
            compare(q, p, t, chains[c]);
        }
        close_quadratic(q);
    }
}

/* ---- mean and variance ---- */

#define RUNS 4000

/* Numbers drawn at steps that leave the parameters where they are: within five sigma of what theory says, also their
 * variance, whose own spread needs the fourth moments: a third at most. */
static void check_moments(const char *what, double sum[N], double square[N], const double *mean,
                          const double *variance)
{
    for (int i = 0; i < N; i++) {
        double got = sum[i] / RUNS, spread = square[i] / RUNS - got * got;
        if (!(fabs(got - mean[i]) <= 5 * sqrt(variance[i] / RUNS) + 1e-12))
            fail_msg("%s: the mean of element %d is %g, not %g", what, i, got, mean[i]);
        if (!(fabs(spread - variance[i]) <= 0.2 * variance[i] + 1e-12))
            fail_msg("%s: the variance of element %d is %g, not %g", what, i, spread, variance[i]);
    }
}

static double row_square(int i)
{
    double sum = 0;
    for (int j = 0; j < N; j++) sum += h_[i][j] * h_[i][j];
    return sum;
}

/* Samples of adahessian are seen in the square root of the average, which is its last square. */
static void estimates_have_the_mean_and_the_variance_of_theory(void **state)
{
    enum { SIGNS, GAUSSIAN, ROWS, PRODUCT };
    static const struct {
        const char *chain, *slot;
        int kind, samples;
    } cases[] = {
        {"adahessian(0, 0, false, seed=3, n_samples=1) | lr(0)", "diagonal", SIGNS, 1},
        {"sophia_h(0, 0, update_freq=1, seed=3) | lr(0)", "diagonal", GAUSSIAN, 1},
        {"sophia_h(0, 0, update_freq=1, n_samples=5, seed=4) | lr(0)", "diagonal", GAUSSIAN, 5},
        {"esgd(update_freq=1, seed=5) | lr(0)", "squares", ROWS, 1},
        {"random_hvp(n_samples=2, update_freq=2, seed=6) | lr(0)", "product", PRODUCT, 2},
        {"random_hvp(1, \"uniform\", update_freq=2, seed=6) | lr(0)", "product", PRODUCT, 3},
        {"random_hvp(1, \"sphere\", update_freq=2, seed=6) | lr(0)", "product", PRODUCT, N},
    };
    for (int c = 0; c < COUNT_OF(cases); c++) {
        quadratic *q = open_quadratic(CTX(state), cases[c].chain, false, false);
        double sum[N] = {0}, square[N] = {0}, before[N] = {0}, x[N], mean[N], variance[N];
        for (int t = 0; t < RUNS; t++) {
            go(q);
            if (cases[c].kind == PRODUCT) go(q); /* each serves two steps */
            slot_of(q, cases[c].slot, x);
            for (int i = 0; i < N; i++) {
                double one = cases[c].kind == SIGNS  ? sqrt(x[i])
                             : cases[c].kind == ROWS ? x[i] - before[i]
                                                     : x[i];
                sum[i] += one;
                square[i] += one * one;
            }
            memcpy(before, x, sizeof x);
        }
        for (int i = 0; i < N; i++) {
            double rows = row_square(i), off = rows - h_[i][i] * h_[i][i];
            mean[i] = cases[c].kind == ROWS ? rows : cases[c].kind == PRODUCT ? 0 : h_[i][i];
            variance[i] = cases[c].kind == SIGNS      ? off
                          : cases[c].kind == GAUSSIAN ? (off + 2 * h_[i][i] * h_[i][i]) / cases[c].samples
                          : cases[c].kind == ROWS     ? 2 * rows * rows
                                                      : rows / cases[c].samples;
        }
        check_moments(cases[c].chain, sum, square, mean, variance);
        close_quadratic(q);
    }
}

static void the_same_seed_gives_the_same_numbers(void **state)
{
    static const char *const chains[] = {
        "adahessian(seed=%d) | lr(0.1)", "sophia_h(update_freq=2, seed=%d) | lr(0.1)",
        "esgd(update_freq=2, seed=%d) | lr(0.1)", "random_hvp(seed=%d) | lr(0.01)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        double end[3][N];
        for (int run = 0; run < 3; run++) {
            char chain[100];
            snprintf(chain, sizeof chain, chains[c], run < 2 ? 7 : 8);
            quadratic *q = open_quadratic(CTX(state), chain, false, false);
            for (int t = 0; t < 10; t++) go(q);
            OK(gd_read_f64(q->p, end[run], N));
            close_quadratic(q);
        }
        assert_memory_equal(end[0], end[1], sizeof end[0]);
        assert_memory_not_equal(end[0], end[2], sizeof end[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(adahessian_follows_its_formula),
        CASE(sophia_and_esgd_divide_by_what_they_hold),
        CASE(estimates_have_the_mean_and_the_variance_of_theory),
        CASE(the_same_seed_gives_the_same_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
