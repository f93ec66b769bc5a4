/* Conjugate gradients: their formulas on gradients that nobody chose, and finite termination on a quadratic. */
#include "optim/search_support.h"

#define N      5
#define POINTS 18

typedef double (*beta_fn)(const double *u, const double *v, const double *d);

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int i = 0; i < N; i++) sum += x[i] * y[i];
    return sum;
}

/* With the direction of the literature, p = -d, and y = u - v. */
static double py(const double *u, const double *v, const double *d) { return -(dot(d, u) - dot(d, v)); }
static double uy(const double *u, const double *v) { return dot(u, u) - dot(u, v); }
static double fletcher_reeves(const double *u, const double *v, const double *d)
{
    (void)d;
    return dot(u, u) / dot(v, v);
}
static double polak_ribiere(const double *u, const double *v, const double *d)
{
    (void)d;
    return fmax(0, uy(u, v) / dot(v, v));
}
static double hestenes_stiefel(const double *u, const double *v, const double *d)
{
    return uy(u, v) / py(u, v, d);
}
static double dai_yuan(const double *u, const double *v, const double *d) { return dot(u, u) / py(u, v, d); }
static double liu_storey(const double *u, const double *v, const double *d) { return uy(u, v) / dot(d, v); }
static double conjugate_descent(const double *u, const double *v, const double *d)
{
    return dot(u, u) / dot(d, v);
}
static double hager_zhang(const double *u, const double *v, const double *d)
{
    double y[N], p[N], z[N];
    for (int i = 0; i < N; i++) {
        y[i] = u[i] - v[i];
        p[i] = -d[i];
    }
    double yp = dot(y, p), yy = dot(y, y);
    for (int i = 0; i < N; i++) z[i] = y[i] - 2 * p[i] * yy / yp;
    return dot(z, u) / yp;
}
static double dyhs(const double *u, const double *v, const double *d)
{
    return fmax(0, fmin(dai_yuan(u, v, d), hestenes_stiefel(u, v, d)));
}

static const struct {
    const char *name;
    beta_fn beta;
} formulas[] = {{"fletcher_reeves", fletcher_reeves},
                {"polak_ribiere", polak_ribiere},
                {"hestenes_stiefel", hestenes_stiefel},
                {"dai_yuan", dai_yuan},
                {"liu_storey", liu_storey},
                {"conjugate_descent", conjugate_descent},
                {"hager_zhang", hager_zhang},
                {"dyhs", dyhs}};

/* Runs a chain on given gradients; out holds what it made of them. */
static void directions(gd_ctx *ctx, const char *chain, double g[][N], int count, double out[][N])
{
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){N}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(o, "p", p));
    for (int t = 0; t < count; t++) {
        gd_tensor *grad = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, g[t]);
        OK(gd_fill(p, 0));
        OK(gd_set_grad(p, grad));
        OK(gd_optimizer_step(o, NULL, NULL));
        OK(gd_read_f64(p, out[t], N));
        for (int i = 0; i < N; i++) out[t][i] = -out[t][i];
        gd_release(grad);
    }
    gd_optimizer_free(o);
    gd_release(p);
}

static void random_gradients(double g[][N])
{
    uint64_t seed = 21;
    for (int t = 0; t < POINTS; t++)
        for (int i = 0; i < N; i++) g[t][i] = (2 * random_unit(&seed) - 1) * (1 + i);
}

static void formulas_are_those_of_the_papers(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double g[POINTS][N], got[POINTS][N];
    random_gradients(g);
    for (int k = 0; k < COUNT_OF(formulas); k++) {
        directions(ctx, formulas[k].name, g, POINTS, got);
        for (int t = 0; t < POINTS; t++) {
            /* restarted after as many steps as there are elements, and one */
            double beta = t % (N + 1) ? formulas[k].beta(g[t], g[t - 1], got[t - 1]) : 0;
            for (int i = 0; i < N; i++) {
                double want = g[t][i] + (beta == 0 ? 0 : beta * got[t - 1][i]);
                if (!(fabs(got[t][i] - want) <= 1e-10 * (1 + fabs(want) + fabs(beta))))
                    fail_msg("%s: step %d, element %d is %.15g, want %.15g", formulas[k].name, t, i,
                             got[t][i], want);
            }
        }
    }
    end_context(ctx, NULL);
}

static void restarts_and_clipping(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double g[POINTS][N], got[POINTS][N];
    random_gradients(g);
    directions(ctx, "fletcher_reeves(restart_interval=2)", g, POINTS, got);
    for (int t = 0; t < POINTS; t += 2)
        for (int i = 0; i < N; i++) assert_true(got[t][i] == g[t][i]);
    assert_true(got[1][0] != g[1][0]);
    directions(ctx, "hestenes_stiefel(clip_beta=true, restart_interval=none)", g, POINTS, got);
    int clipped = 0;
    for (int t = 1; t < POINTS; t++) {
        double beta = hestenes_stiefel(g[t], g[t - 1], got[t - 1]);
        for (int i = 0; i < N && beta < 0; i++) assert_true(got[t][i] == g[t][i]);
        clipped += beta < 0;
    }
    assert_true(clipped > 0);
    end_context(ctx, NULL);
}

/* With exact searches all of them are linear conjugate gradients, done after as many steps as there are eigenvalues. */
static void a_quadratic_is_solved_in_as_many_steps_as_it_has_dimensions(void **state)
{
    (void)state;
    const double start[N] = {1, -2, 3, 0.5, -1};
    for (int k = 0; k < COUNT_OF(formulas); k++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        char chain[80];
        snprintf(chain, sizeof chain, "%s | strong_wolfe(c2=1e-3)", formulas[k].name);
        run r = run_open(ctx, chain, bowl, N, start);
        run_steps(&r, N + 1);
        double x[MOST], g[MOST];
        params_of(&r, x);
        if (!(bowl(x, g, N) < 1e-8)) fail_msg("%s: %g is left", chain, bowl(x, g, N));
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void zero_gradients_give_no_beta(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double g[POINTS][N] = {{0}}, got[POINTS][N];
    g[2][0] = 1; /* zeros, then something, then zeros */
    for (int k = 0; k < COUNT_OF(formulas); k++) {
        directions(ctx, formulas[k].name, g, 6, got);
        for (int t = 0; t < 6; t++)
            for (int i = 0; i < N; i++) assert_true(isfinite(got[t][i]));
        assert_true(got[2][0] == 1);
    }
    end_context(ctx, NULL);
}

static void they_continue_after_loading_and_survive_failures(void **state)
{
    (void)state;
    const double start[] = {-1.2, 1, 0.5};
    for (int k = 0; k < COUNT_OF(formulas); k++) {
        char chain[80];
        snprintf(chain, sizeof chain, "%s | strong_wolfe(c2=0.1)", formulas[k].name);
        check_continues(chain, rosenbrock, 3, start, 3, 5);
        check_failing_evaluations(chain, rosenbrock, 3, start, 2, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_are_those_of_the_papers),
        cmocka_unit_test(restarts_and_clipping),
        cmocka_unit_test(a_quadratic_is_solved_in_as_many_steps_as_it_has_dimensions),
        cmocka_unit_test(zero_gradients_give_no_beta),
        cmocka_unit_test(they_continue_after_loading_and_survive_failures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
