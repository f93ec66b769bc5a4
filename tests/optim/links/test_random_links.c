/* Links that draw random numbers: each is known by name with the suite that compares mean and variance of what it makes with theory; a
 * link that draws and is not listed fails.  Those that no other suite has are compared here, on quadratics, within five standard
 * deviations, with fixed seeds. */
#include "optim/optim_support.h"
#include "optim/table_support.h"

#include <math.h>

#define N    6
#define RUNS 3000

static const double hessian_[N][N] = {{4, 1, 0.5, 0, 0, 0.25},    {1, 3, -0.5, 0.5, 0, 0},
                                      {0.5, -0.5, 2, 0, 0.25, 0}, {0, 0.5, 0, 2.5, 0.5, 0},
                                      {0, 0, 0.25, 0.5, 3, 1},    {0.25, 0, 0, 0, 1, 2}};
static const double start_[N] = {0.5, -1, 2, 0.25, -0.75, 1};

/* ---- a quadratic whose steps of length 1 are the estimates ---- */

typedef struct quadratic {
    gd_optimizer *o;
    gd_tensor *p, *h; /* h NULL: the identity */
    double calls;
} quadratic;

static gd_tensor *loss_of(void *user)
{
    quadratic *q = user;
    gd_tensor *hp = q->h ? gd_matmul(q->h, q->p) : q->p;
    return gd_mul_scalar(gd_sum(gd_mul(q->p, hp), NULL, false), 0.5);
}

static quadratic open_quadratic(gd_ctx *ctx, const char *chain, bool identity)
{
    quadratic q = {.o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    if (!q.o) fail_msg("%s: %s", chain, gd_error_text(ctx));
    q.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, start_));
    q.h = identity ? NULL : gd_from_f64(ctx, GD_F64, 2, (int64_t[]){N, N}, &hessian_[0][0]);
    OK(gd_optimizer_add(q.o, "p", q.p));
    return q;
}

static void close_quadratic(quadratic *q)
{
    gd_optimizer_free(q->o);
    gd_release(q->p);
    gd_release(q->h);
}

/* What a step takes off the start. */
static void draw(quadratic *q, const gd_objective *objective, double u[N])
{
    OK(gd_write_f64(q->p, start_, N));
    if (gd_optimizer_step(q->o, objective, NULL)) fail_msg("%s", gd_error_text(gd_optimizer_ctx(q->o)));
    OK(gd_read_f64(q->p, u, N));
    for (int i = 0; i < N; i++) u[i] = start_[i] - u[i];
}

typedef struct moments {
    double mean[N * N], variance[N * N];
} moments;

static void add_sample(moments *m, const double *x, int count)
{
    for (int i = 0; i < count; i++) m->mean[i] += x[i] / RUNS, m->variance[i] += x[i] * x[i] / RUNS;
}

/* want: mean and variance; the fourth moments are at most those of a gaussian times 6. */
static void compare(const char *what, moments *m, const moments *want, int count)
{
    for (int i = 0; i < count; i++) {
        double variance = m->variance[i] - m->mean[i] * m->mean[i];
        if (!(fabs(m->mean[i] - want->mean[i]) <= 5 * sqrt(want->variance[i] / RUNS) + 1e-9))
            fail_msg("%s: the mean of element %d is %g, not %g", what, i, m->mean[i], want->mean[i]);
        if (!(fabs(variance - want->variance[i]) <= 0.2 * want->variance[i] + 1e-9))
            fail_msg("%s: the variance of element %d is %g, not %g", what, i, variance, want->variance[i]);
    }
}

static void check(gd_ctx *ctx, const char *chain, bool identity, const moments *want)
{
    quadratic q = open_quadratic(ctx, chain, identity);
    gd_objective objective = {.loss = loss_of, .user = &q};
    moments got = {{0}, {0}};
    for (int t = 0; t < RUNS; t++) {
        double u[N];
        draw(&q, &objective, u);
        add_sample(&got, u, N);
    }
    compare(chain, &got, want, N);
    close_quadratic(&q);
}

static double total(void)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += start_[i] * start_[i];
    return sum;
}

/* ---- sketches ---- */

/* P g for the projection P on a random space of k dimensions: E P = k/n, E P_ii^2 = k (k + 2) / (n (n + 2)), and for i != j
 * E P_ij^2 = k (n - k) / (n (n - 1) (n + 2)); products of different elements have mean 0.  The result is a g + b P g. */
static moments of_projection(double k, double a, double b)
{
    moments m = {{0}, {0}};
    double n = N, off = k * (n - k) / (n * (n - 1) * (n + 2)),
           on = k * (k + 2) / (n * (n + 2)) - k * k / (n * n);
    for (int i = 0; i < N; i++) {
        double g = start_[i];
        m.mean[i] = (a + b * k / n) * g;
        m.variance[i] = b * b * (g * g * on + (total() - g * g) * off);
    }
    return m;
}

/* On the identity a Newton step in a space is the part of the gradient there. */
static void sketches_are_projections_on_random_spaces(void **state)
{
    moments two = of_projection(2, 0, 1), one = of_projection(1, 0, 1);
    check(CTX(state), "rsn(2)", true, &two);
    check(CTX(state), "rsn(1, sketch_type=\"gaussian\")", true, &one);
    check(CTX(state), "subspace_newton(2, sketch_type=\"orthonormal\")", true, &two);
    check(CTX(state), "subspace_newton(2, sketch_type=\"gaussian\")", true, &two);
    /* Q (1 + reg)^-1 Q^T g + (g - Q Q^T g) / reg */
    moments sketch = of_projection(3, 1 / 0.5, 1 / 1.5 - 1 / 0.5);
    check(CTX(state), "nystrom_sketch_and_solve(3, reg=0.5)", true, &sketch);
}

/* k of n elements, each as likely as any other. */
static void rows_are_drawn_without_putting_back(void **state)
{
    moments m = {{0}, {0}};
    double share = 2.0 / N;
    for (int i = 0; i < N; i++) {
        m.mean[i] = share * start_[i];
        m.variance[i] = share * (1 - share) * start_[i] * start_[i];
    }
    check(CTX(state), "subspace_newton(2, sketch_type=\"rows\")", true, &m);
}

/* The preconditioner is random, the solution is not. */
static void a_random_preconditioner_leaves_the_newton_step(void **state)
{
    quadratic q = open_quadratic(CTX(state), "nystrom_pcg(2, reg=0, tol=1e-13)", false);
    gd_objective objective = {.loss = loss_of, .user = &q};
    for (int t = 0; t < 50; t++) {
        double u[N];
        draw(&q, &objective, u);
        for (int i = 0; i < N; i++) assert_true(fabs(u[i] - start_[i]) < 1e-6); /* the minimum is 0 */
    }
    close_quadratic(&q);
}

/* ---- estimates ---- */

/* Forward differences along gaussians with a short h: (g.z) z, of variance (|g|^2 + g_i^2) / samples. */
static void smoothing_has_the_variance_of_gaussians(void **state)
{
    moments m = {{0}, {0}};
    for (int i = 0; i < N; i++) {
        m.mean[i] = start_[i];
        m.variance[i] = (total() + start_[i] * start_[i]) / 5;
    }
    check(CTX(state), "gaussian_smoothing(h=1e-5, n_samples=5)", true, &m);
}

/* A sample of sg2 on a quadratic is H z z^T made symmetric: for i != j of variance
 * ((H_ii + H_jj)^2 + sum over other k of H_ik^2 + H_jk^2) / 4, on the diagonal sum over k != i of H_ik^2. */
static void samples_of_a_hessian_have_the_variance_of_theory(void **state)
{
    moments want = {{0}, {0}}, got = {{0}, {0}};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double *variance = &want.variance[i * N + j];
            want.mean[i * N + j] = hessian_[i][j];
            if (i != j) *variance = pow(hessian_[i][i] + hessian_[j][j], 2) / 4;
            for (int k = 0; k < N; k++)
                if (k != i && k != j)
                    *variance += (pow(hessian_[i][k], 2) + pow(hessian_[j][k], 2)) / (i == j ? 2 : 4);
        }
    quadratic q = open_quadratic(CTX(state), "sg2(n_first_step_samples=1, start_step=9) | lr(0)", false);
    gd_objective objective = {.loss = loss_of, .user = &q};
    gd_link *link = gd_link_child_at(gd_optimizer_chain(q.o), 0);
    for (int t = 0; t < RUNS; t++) {
        double u[N], h[N * N];
        gd_optimizer_reset(q.o);
        draw(&q, &objective, u);
        OK(gd_read_f64(gd_link_global_tensor(link, "hessian"), h, N * N));
        add_sample(&got, h, N * N);
    }
    compare("sg2", &got, &want, N * N);
    close_quadratic(&q);
}

/* ---- searching at random ---- */

/* Every evaluation is lower than those before. */
static gd_status ever_lower(void *user, double *loss)
{
    *loss = -(((quadratic *)user)->calls += 1);
    return GD_OK;
}

static gd_status ever_lower_and_flat(void *user, double *loss, gd_tensor *const *grads)
{
    gd_status status = gd_fill(grads[0], 0);
    return status ? status : ever_lower(user, loss);
}

/* Uniform in a box of half width 0.5: variance 0.25 / 3. */
static void escapes_are_uniform_in_their_region(void **state)
{
    moments want = {{0}, {0}}, got = {{0}, {0}};
    for (int i = 0; i < N; i++) want.variance[i] = 0.25 / 3;
    quadratic q = open_quadratic(
        CTX(state), "escape_annealing(max_region=0.5, max_iter=1, tol=1e9, n_tol=1) | lr(0)", true);
    gd_objective objective = {.value = ever_lower, .gradient = ever_lower_and_flat, .user = &q};
    for (int t = 0, tries = 0; t < RUNS; tries++) {
        double u[N];
        draw(&q, &objective, u);
        assert_true(tries < 4 * RUNS);
        if (u[0] == 0) continue; /* it only counted */
        add_sample(&got, u, N);
        t++;
    }
    compare("escape_annealing", &got, &want, N);
    close_quadratic(&q);
}

/* One coordinate a step, each as likely as any other: g_i with probability 1/n. */
static void coordinates_are_equally_likely(void **state)
{
    moments want = {{0}, {0}};
    for (int i = 0; i < N; i++) {
        want.mean[i] = start_[i] / N;
        want.variance[i] = start_[i] * start_[i] * (1.0 / N) * (1 - 1.0 / N);
    }
    check(CTX(state), "cd(h=1e-3, adaptive=false, index=\"random\")", true, &want);
}

/* ---- every link of the table ---- */

static const struct {
    const char *link,
        *suite; /* where mean and variance, or what they are replaced by, are compared with theory */
} listed[] = {
    {"adahessian", "optim/random_curvature"},
    {"basin_hopping", "optim/global_search"},
    {"cd", "here"},
    {"cma_es", "optim/global_search: a generation against the tutorial's formulas"},
    {"differential_evolution", "optim/global_search: a generation against the paper's"},
    {"dropout", "optim/ops: share of elements"},
    {"escape_annealing", "here"},
    {"esgd", "optim/random_curvature"},
    {"forward_gradient", "optim/changed_objectives"},
    {"gaussian_smoothing", "here"},
    {"gradient_sampling", "optim/changed_objectives"},
    {"higher_order_newton", "optim/trust_region: the minimum that differential evolution finds"},
    {"mezo", "optim/gradient_estimates"},
    {"multi_start", "optim/global_search"},
    {"noise_sign", "optim/ops"},
    {"nystrom_pcg", "here: none is left"},
    {"nystrom_sketch_and_solve", "here"},
    {"perturb_weights", "optim/changed_objectives"},
    {"psgd_dense_newton", "optim/psgd: the fixed point"},
    {"psgd_kron_newton", "optim/psgd: the fixed point"},
    {"psgd_kron_whiten", "optim/psgd: the fixed point"},
    {"psgd_lra_newton", "optim/psgd: the fixed point"},
    {"psgd_lra_whiten", "optim/psgd: the fixed point"},
    {"randn", "optim/ops"},
    {"random_hvp", "optim/random_curvature"},
    {"random_reinitialize", "optim/changed_objectives: share of weights"},
    {"random_sample", "optim/ops"},
    {"random_step_size", "optim/rule_random"},
    {"randomized_fdm", "optim/gradient_estimates"},
    {"rdsa", "optim/gradient_estimates"},
    {"rsn", "here"},
    {"sg2", "here"},
    {"sophia_h", "optim/random_curvature"},
    {"spsa", "optim/gradient_estimates"},
    {"spsa1", "optim/changed_objectives"},
    {"subspace_newton", "here"},
    {"uniform", "optim/ops"},
    {"weight_dropout", "optim/changed_objectives"},
};

static bool is_listed(const char *name)
{
    for (int i = 0; i < COUNT_OF(listed); i++)
        if (!strcmp(listed[i].link, name)) return true;
    return false;
}

/* Where three steps lead. */
static void walk(const char *chain, uint64_t seed, double x[N])
{
    gd_options options = gd_options_default();
    options.seed = seed;
    options.threads = 1;
    options.compile = false;
    gd_ctx *ctx = gd_ctx_new(&options);
    quadratic q = open_quadratic(ctx, chain, false);
    gd_objective objective = {.loss = loss_of, .user = &q};
    for (int i = 0; i < 3; i++)
        if (gd_optimizer_step(q.o, &objective, NULL))
            gd_clear_error(ctx); /* some need residuals, or constraints */
    OK(gd_read_f64(q.p, x, N));
    close_quadratic(&q);
    gd_ctx_free(ctx);
}

static int unlisted;

static void draws_only_if_listed(const gd_link_class *cls, const char *text)
{
    char chain[500];
    double a[N], b[N], again[N];
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    walk(chain, 1, a);
    walk(chain, 2, b);
    walk(chain, 1, again);
    if (memcmp(a, again, sizeof a) != 0) fail_msg("%s: the same seed leads elsewhere", chain);
    if (!memcmp(a, b, sizeof a) || is_listed(cls->name)) return;
    print_error("%s draws random numbers: compare mean and variance with theory, and list it\n", cls->name);
    unlisted++;
}

static void every_link_that_draws_is_compared_with_theory(void **state)
{
    (void)state;
    unlisted = 0;
    each_link_text(draws_only_if_listed);
    assert_int_equal(unlisted, 0);
    for (int i = 0; i < COUNT_OF(listed); i++)
        if (!gd_link_class_find(listed[i].link)) fail_msg("%s is listed and no link", listed[i].link);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(sketches_are_projections_on_random_spaces),
        CASE(rows_are_drawn_without_putting_back),
        CASE(a_random_preconditioner_leaves_the_newton_step),
        CASE(smoothing_has_the_variance_of_gaussians),
        CASE(samples_of_a_hessian_have_the_variance_of_theory),
        CASE(escapes_are_uniform_in_their_region),
        CASE(coordinates_are_equally_likely),
        TEST(every_link_that_draws_is_compared_with_theory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
