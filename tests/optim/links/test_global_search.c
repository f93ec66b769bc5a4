/* Links that look for the lowest of many minima: generations as their papers have them, given the same random numbers; starts and hops;
 * bounds; how they end. */
#include "optim/optim_support.h"

#include "gradus/link/search.h"
#include "gradus/solve.h"

#include <stdlib.h>
#include <unistd.h>

#define N 3

/* ---- a function of three elements in two parameters ---- */

typedef struct world {
    gd_ctx *ctx, *same; /* same: the same stream of random numbers, for the reference */
    gd_tensor *p, *q;
    gd_optimizer *o;
    double (*f)(const double *x);
    double low[N], high[N];
    int calls, outside;
    double at[6000][N];
} world;

static world w;

static double bowls(const double *x)
{
    double f = 0;
    for (int i = 0; i < N; i++) f += (i + 1) * pow(x[i] - 0.3 * (i + 1), 2) - 0.2 * cos(5 * x[i]);
    return f;
}

static double flat(const double *x) { return (void)x, 7; }
static double endless(const double *x) { return -exp(x[0]) - x[1] + x[2]; }
/* No number where the start is. */
static double half_space(const double *x) { return x[0] > 1.5 ? NAN : bowls(x); }
/* The lower well is at -1. */
static double wells(const double *x)
{
    double f = pow(x[1], 2) + pow(x[2], 2);
    return f + pow(x[0] * x[0] - 1, 2) + 0.3 * x[0];
}

static double note(const double *x)
{
    for (int i = 0; i < N; i++) w.outside += !(x[i] >= w.low[i] && x[i] <= w.high[i]);
    assert_true(w.calls < COUNT_OF(w.at));
    memcpy(w.at[w.calls++], x, sizeof w.at[0]);
    return w.f(x);
}

static void read_params(double *x)
{
    OK(gd_read_f64(w.p, x, 2));
    OK(gd_read_f64(w.q, x + 2, 1));
}

static gd_status value(void *user, double *loss)
{
    double x[N];
    (void)user;
    read_params(x);
    *loss = note(x);
    return GD_OK;
}

static gd_status gradient(void *user, double *loss, gd_tensor *const *grads)
{
    double x[N], g[N];
    (void)user;
    read_params(x);
    *loss = note(x);
    for (int i = 0; i < N; i++) {
        double at = x[i], h = 1e-6;
        x[i] = at + h;
        double ahead = w.f(x);
        x[i] = at - h;
        g[i] = (ahead - w.f(x)) / (2 * h);
        x[i] = at;
    }
    OK(gd_write_f64(grads[0], g, 2));
    return gd_write_f64(grads[1], g + 2, 1);
}

static const gd_objective by_value = {.value = value}, by_gradient = {.value = value, .gradient = gradient};

static gd_ctx *seeded(void)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    options.seed = 11;
    return gd_ctx_new(&options);
}

static void open_world(const char *chain, double (*f)(const double *x), const double *start)
{
    static const double usual[N] = {2, -1, 0.5};
    if (!start) start = usual;
    w = (world){.ctx = seeded(), .same = seeded(), .f = f};
    for (int i = 0; i < N; i++) w.low[i] = -INFINITY, w.high[i] = INFINITY;
    w.p = gd_require_grad(gd_from_f64(w.ctx, GD_F64, 1, (int64_t[]){2}, start));
    w.q = gd_require_grad(gd_from_f64(w.ctx, GD_F64, 1, (int64_t[]){1}, start + 2));
    w.o = gd_optimizer_new(w.ctx, gd_chain(w.ctx, chain));
    if (!w.o) fail_msg("%s: %s", chain, gd_error_text(w.ctx));
    OK(gd_optimizer_add(w.o, "p", w.p));
    OK(gd_optimizer_add(w.o, "q", w.q));
}

static void close_world(void)
{
    gd_optimizer_free(w.o);
    gd_release(w.p);
    gd_release(w.q);
    gd_ctx_free(w.ctx);
    gd_ctx_free(w.same);
}

static gd_step_info go(void)
{
    gd_step_info info;
    OK(gd_optimizer_step(w.o, &by_value, &info));
    return info;
}

static void kept(const char *name, double *out, int64_t count)
{
    gd_tensor *t = gd_link_global_tensor(gd_optimizer_chain(w.o), name);
    assert_non_null(t);
    OK(gd_read_f64(t, out, count));
}

static double number(const char *name) { return gd_link_kept(gd_optimizer_chain(w.o), name, NAN); }

static void draw(gd_random_kind kind, int64_t count, double *out)
{
    gd_scope_begin(w.same);
    gd_tensor *t = kind == GD_RANDOM_NORMAL ? gd_randn(w.same, GD_F64, 1, &count)
                                            : gd_rand(w.same, GD_F64, 1, &count);
    OK(gd_read_f64(t, out, count));
    gd_scope_end(w.same);
}

static void assert_near(const char *what, const double *got, const double *want, int count)
{
    for (int i = 0; i < count; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))))
            fail_msg("%s[%d]: %.17g, the reference has %.17g", what, i, got[i], want[i]);
}

/* ---- a generation of CMA-ES, from the tutorial: equations 5, 9, 24, 30, 31, 37 and its table of constants ---- */

#define LAMBDA 7 /* 4 + floor(3 log 3) */
#define MU     3

typedef struct strategy {
    double mean[N], ps[N], pc[N], c[N * N], b[N * N], d[N], sigma, g;
} strategy;

static void read_strategy(strategy *s)
{
    kept("mean", s->mean, N);
    kept("path_sigma", s->ps, N);
    kept("path_c", s->pc, N);
    kept("covariance", s->c, N * N);
    kept("basis", s->b, N * N);
    kept("axes", s->d, N);
    s->sigma = number("sigma");
    s->g = number("generation");
}

static void tutorial_generation(strategy *s, const double *start)
{
    double z[LAMBDA][N], y[LAMBDA][N], f[LAMBDA], weight[MU], total = 0, squares = 0, yw[N] = {0}, x[N];
    int order[LAMBDA];
    draw(GD_RANDOM_NORMAL, LAMBDA * N, z[0]);
    for (int k = 0; k < LAMBDA; k++) {
        for (int i = 0; i < N; i++) {
            y[k][i] = 0;
            for (int j = 0; j < N; j++) y[k][i] += s->b[i * N + j] * s->d[j] * z[k][j];
            x[i] = s->mean[i] + s->sigma * fmax(1, fabs(start[i])) * y[k][i];
        }
        f[k] = w.f(x);
        int at = k;
        for (; at > 0 && f[order[at - 1]] > f[k]; at--) order[at] = order[at - 1];
        order[at] = k;
    }
    for (int k = 0; k < MU; k++) total += weight[k] = log((LAMBDA + 1) / 2.0 - 0.5) - log(k + 1);
    for (int k = 0; k < MU; k++) weight[k] /= total, squares += weight[k] * weight[k];
    for (int k = 0; k < MU; k++)
        for (int i = 0; i < N; i++) yw[i] += weight[k] * y[order[k]][i];
    double n = N, mueff = 1 / squares, cs = (mueff + 2) / (n + mueff + 5),
           cc = (4 + mueff / n) / (n + 4 + 2 * mueff / n);
    double ds = 1 + 2 * fmax(0, sqrt((mueff - 1) / (n + 1)) - 1) + cs, c1 = 2 / (pow(n + 1.3, 2) + mueff);
    double cmu = fmin(1 - c1, 2 * (mueff - 2 + 1 / mueff) / (pow(n + 2, 2) + mueff));
    double chi = sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n * n)), length = 0;
    for (int i = 0; i < N; i++) {
        double white = 0; /* of C^-1/2 yw */
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) white += s->b[i * N + k] / s->d[k] * s->b[j * N + k] * yw[j];
        s->mean[i] += s->sigma * fmax(1, fabs(start[i])) * yw[i];
        s->ps[i] = (1 - cs) * s->ps[i] + sqrt(cs * (2 - cs) * mueff) * white;
        length += s->ps[i] * s->ps[i];
    }
    length = sqrt(length);
    s->g++;
    double h = length / sqrt(1 - pow(1 - cs, 2 * s->g)) < (1.4 + 2 / (n + 1)) * chi;
    for (int i = 0; i < N; i++) s->pc[i] = (1 - cc) * s->pc[i] + h * sqrt(cc * (2 - cc) * mueff) * yw[i];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            double *c = &s->c[i * N + j], one = s->pc[i] * s->pc[j] + (1 - h) * cc * (2 - cc) * *c, rank = 0;
            for (int k = 0; k < MU; k++) rank += weight[k] * y[order[k]][i] * y[order[k]][j];
            *c = (1 - c1 - cmu) * *c + c1 * one + cmu * rank;
        }
    s->sigma *= exp(cs / ds * (length / chi - 1));
}

/* Eigenvectors have no sign: every generation begins with those of the link, which must be eigenvectors. */
static void cma_es_generates_as_the_tutorial_says(void **state)
{
    (void)state;
    double start[N];
    open_world("cma_es", bowls, NULL);
    read_params(start);
    strategy s = {.sigma = 0.3}, got;
    memcpy(s.mean, start, sizeof start);
    for (int i = 0; i < N; i++) s.c[i * (N + 1)] = s.b[i * (N + 1)] = s.d[i] = 1;
    for (int t = 0; t < 40; t++) {
        tutorial_generation(&s, start);
        go();
        read_strategy(&got);
        assert_near("mean", got.mean, s.mean, N);
        assert_near("path", got.ps, s.ps, N);
        assert_near("path of C", got.pc, s.pc, N);
        assert_near("C", got.c, s.c, N * N);
        assert_near("sigma", &got.sigma, &s.sigma, 1);
        for (int i = 0; i < N * N; i++) {
            double sum = 0;
            for (int k = 0; k < N; k++)
                sum += got.b[i / N * N + k] * got.d[k] * got.d[k] * got.b[i % N * N + k];
            assert_near("B D^2 B'", &sum, &got.c[i], 1);
        }
        s = got;
    }
    assert_int_equal(w.calls, 1 + 40 * LAMBDA);
    close_world();
}

/* ---- a generation of differential evolution ---- */

#define MEMBERS 8

static int other_than(double u, const int *but, int count)
{
    int left[MEMBERS], n = 0;
    for (int i = 0; i < MEMBERS; i++) {
        bool taken = false;
        for (int k = 0; k < count; k++) taken = taken || but[k] == i;
        if (!taken) left[n++] = i;
    }
    return left[(int)(u * n)];
}

static void reference_generation(const char *how, double x[MEMBERS][N], double *f)
{
    double u[MEMBERS][5 + N], trial[MEMBERS][N];
    int lowest = 0;
    draw(GD_RANDOM_UNIFORM, MEMBERS * (5 + N), u[0]);
    for (int i = 0; i < MEMBERS; i++)
        if (f[i] < f[lowest]) lowest = i;
    for (int i = 0; i < MEMBERS; i++) {
        int of[4] = {i};
        double factor = 0.5 + 0.5 * u[i][3];
        for (int k = 1; k < 4; k++) of[k] = other_than(u[i][k - 1], of, k);
        for (int j = 0; j < N; j++) {
            double v = x[lowest][j] + factor * (x[of[1]][j] - x[of[2]][j]);
            if (!strcmp(how, "rand1bin")) v = x[of[1]][j] + factor * (x[of[2]][j] - x[of[3]][j]);
            if (!strcmp(how, "current_to_best1bin"))
                v = x[i][j] + factor * (x[lowest][j] - x[i][j]) + factor * (x[of[1]][j] - x[of[2]][j]);
            trial[i][j] = u[i][5 + j] < 0.7 || j == (int)(u[i][4] * N) ? v : x[i][j];
        }
    }
    for (int i = 0; i < MEMBERS; i++)
        if (w.f(trial[i]) <= f[i]) {
            f[i] = w.f(trial[i]);
            memcpy(x[i], trial[i], sizeof x[i]);
        }
}

static void differential_evolution_generates_as_its_paper_says(void **state)
{
    (void)state;
    static const char *const strategies[] = {"best1bin", "rand1bin", "current_to_best1bin"};
    for (int k = 0; k < COUNT_OF(strategies); k++) {
        char chain[100];
        double x[MEMBERS][N], f[MEMBERS], got[MEMBERS * N], skipped[2 * MEMBERS];
        snprintf(chain, sizeof chain, "differential_evolution(%d, \"%s\")", MEMBERS, strategies[k]);
        open_world(chain, bowls, NULL);
        go();
        assert_int_equal(w.calls, MEMBERS);
        for (int i = 0; i < N; i++) draw(GD_RANDOM_UNIFORM, 2 * MEMBERS, skipped); /* of the spread */
        kept("population", x[0], MEMBERS * N);
        for (int i = 0; i < MEMBERS; i++) f[i] = bowls(x[i]);
        for (int t = 0; t < 50; t++) {
            reference_generation(strategies[k], x, f);
            go();
            kept("population", got, MEMBERS * N);
            assert_near(strategies[k], got, x[0], MEMBERS * N);
            assert_int_equal(w.calls, MEMBERS * (t + 2));
        }
        close_world();
    }
}

static void the_first_population_is_a_latin_hypercube(void **state)
{
    (void)state;
    double x[10][N], all[11][N], start[N];
    open_world("differential_evolution(11)", bowls, NULL);
    read_params(start);
    go();
    kept("population", all[0], 11 * N);
    assert_memory_equal(all[0], start, sizeof start);
    memcpy(x, all[1], sizeof x);
    /* eleven slices of start - size .. start + size, one of them the member that the start took the place of */
    for (int i = 0; i < N; i++) {
        int seen[11] = {0}, twice = 0;
        for (int k = 0; k < 10; k++) {
            double size = fmax(1, fabs(start[i])), part = (x[k][i] - start[i] + size) / (2 * size);
            assert_true(part >= 0 && part < 1);
            twice += seen[(int)(part * 11)]++;
        }
        assert_int_equal(twice, 0);
    }
    close_world();
}

/* ---- values alone, each point once ---- */

static int by_numbers(const void *a, const void *b) { return memcmp(a, b, sizeof w.at[0]); }

static void generations_ask_for_values_alone_and_for_no_point_twice(void **state)
{
    (void)state;
    static const char *const chains[] = {"cma_es", "differential_evolution(12)",
                                         "cma_es(sigma=1e-9, population=5)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        open_world(chains[k], bowls, NULL);
        gd_solve_options o = gd_solve_defaults();
        gd_solve_result r;
        o.max_steps = 40;
        OK(gd_minimize_with(w.o, &by_value, &o, &r));
        assert_int_equal(r.evals, w.calls);
        double x[N], lowest = INFINITY;
        read_params(x);
        for (int i = 0; i < w.calls; i++) lowest = fmin(lowest, bowls(w.at[i]));
        assert_true(r.loss == lowest && bowls(x) == lowest);
        qsort(w.at, (size_t)w.calls, sizeof w.at[0], by_numbers);
        for (int i = 1; i < w.calls; i++) assert_true(memcmp(w.at[i], w.at[i - 1], sizeof w.at[0]) != 0);
        close_world();
    }
}

/* The loss of a step belongs to where it begins, and falls. */
static void the_loss_of_a_step_is_that_of_the_lowest_point_before(void **state)
{
    (void)state;
    static const char *const chains[] = {"cma_es", "differential_evolution(12)", "nelder_mead"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        open_world(chains[k], bowls, NULL);
        for (int t = 0; t < 20; t++) {
            double x[N];
            read_params(x);
            gd_step_info info = go();
            assert_true(info.has_loss && info.loss == bowls(x));
            double after[N];
            read_params(after);
            assert_true(bowls(after) <= info.loss);
        }
        close_world();
    }
}

/* ---- bounds ---- */

static const char *const all_links[] = {"cma_es", "differential_evolution(12)", "nelder_mead",
                                        "multi_start([lbfgs | strong_wolfe], steps=2)",
                                        "basin_hopping([lbfgs | strong_wolfe], steps=2, reach=3)"};

/* q is fixed by equal bounds; of p one element has one bound. */
static void no_point_is_outside_the_bounds_and_a_fixed_element_stays(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(all_links); k++) {
        char chain[200];
        snprintf(chain, sizeof chain, "box | %s", all_links[k]);
        open_world(chain, bowls, NULL);
        static const double low[N] = {0.5, -INFINITY, 0.75}, high[N] = {0.9, -0.5, 0.75};
        memcpy(w.low, low, sizeof low);
        memcpy(w.high, high, sizeof high);
        gd_link *box = gd_link_child_at(gd_optimizer_chain(w.o), 0);
        OK(gd_link_set_for(box, w.p, "low", gd_setting_list(low, 2)));
        OK(gd_link_set_for(box, w.p, "high", gd_setting_list(high, 2)));
        OK(gd_link_set_for(box, w.q, "low", gd_setting_real(0.75)));
        OK(gd_link_set_for(box, w.q, "high", gd_setting_real(0.75)));
        gd_solve_options o = gd_solve_defaults();
        gd_solve_result r;
        o.max_steps = 60;
        OK(gd_minimize_with(w.o, &by_gradient, &o, &r));
        assert_int_equal(w.outside, 0);
        assert_true(w.calls > 10);
        double x[N];
        read_params(x);
        assert_true(x[2] == 0.75);
        /* the lowest point of the box is at its corner, but for an element between its bounds */
        assert_true(fabs(x[1] + 0.5) < 1e-2);
        close_world();
    }
}

/* ---- starts and hops ---- */

/* From the higher well; the lower one is found, the end is there, and the links say stop. */
static void starts_and_hops_end_in_the_lower_well(void **state)
{
    (void)state;
    static const double start[N] = {1.5, 0.5, -0.5};
    static const char *const chains[] = {"box(-2, 2) | multi_start([lbfgs | strong_wolfe], 6)",
                                         "multi_start([box(-2, 2) | bfgs | strong_wolfe], 6)",
                                         "basin_hopping([lbfgs | strong_wolfe], 40, reach=1)",
                                         "box(-2, 2) | multi_start(cma_es(restarts=0), 3)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        open_world(chains[k], wells, start);
        gd_solve_options o = gd_solve_defaults();
        gd_solve_result r;
        OK(gd_minimize_with(w.o, &by_gradient, &o, &r));
        double x[N];
        read_params(x);
        if (r.reason != GD_STOP_LINK || !(x[0] < -1 && fabs(4 * x[0] * (x[0] * x[0] - 1) + 0.3) < 1e-5))
            fail_msg("%s: %s at %g after %lld steps", chains[k], gd_stop_name(r.reason), x[0],
                     (long long)r.steps);
        assert_true(r.loss == wells(x));
        /* nothing moves any more */
        int calls = w.calls;
        gd_step_info info = {0};
        OK(gd_optimizer_step(w.o, &by_gradient, &info));
        double y[N];
        read_params(y);
        assert_memory_equal(x, y, sizeof x);
        assert_true(info.terminate && w.calls <= calls + 1);
        close_world();
    }
}

/* A bowl around 0 with a deep hole beside it. */
static double hole(const double *x)
{
    double square = x[1] * x[1] + x[2] * x[2], beside = pow(x[0] - 1, 2) + square;
    return x[0] * x[0] + square - 2 * exp(-30 * beside);
}

/* A generation may see the hole while its run goes to the bowl: the end is at a minimum all the same. */
static void cma_es_ends_at_a_minimum(void **state)
{
    (void)state;
    static const double start[N] = {0.25, 0.5, -0.5};
    for (uint64_t seed = 0; seed < 60; seed++) {
        open_world("cma_es(restarts=0)", hole, start);
        gd_seed(w.ctx, seed);
        gd_solve_options o = gd_solve_defaults();
        gd_solve_result r;
        OK(gd_minimize_with(w.o, &by_value, &o, &r));
        double x[N];
        read_params(x);
        if (r.reason != GD_STOP_LINK || (fabs(x[0]) > 1e-4 && fabs(x[0] - 0.98347) > 1e-4))
            fail_msg("seed %d: %s at %g, loss %g", (int)seed, gd_stop_name(r.reason), x[0], r.loss);
        close_world();
    }
}

/* A minimum that is higher is never accepted at temperature 0, and mostly at a high one. */
static void hops_are_accepted_by_metropolis(void **state)
{
    (void)state;
    for (int hot = 0; hot < 2; hot++) {
        char chain[100];
        int rises = 0, falls = 0;
        snprintf(chain, sizeof chain, "basin_hopping([lbfgs | strong_wolfe], 60, reach=2, temperature=%s)",
                 hot ? "1e9" : "0");
        open_world(chain, wells, NULL);
        double last = INFINITY;
        for (int t = 0; t < 400; t++) {
            gd_step_info info;
            OK(gd_optimizer_step(w.o, &by_gradient, &info));
            double now = number("accepted_loss");
            if (isnan(now)) continue;
            rises += now > last + 1e-9;
            falls += now < last - 1e-9;
            last = now;
        }
        assert_true(hot ? rises > 3 && falls > 3 : rises == 0);
        close_world();
    }
}

/* ---- how they end ---- */

static gd_solve_result minimise(const char *chain, double (*f)(const double *x), int64_t steps)
{
    open_world(chain, f, NULL);
    gd_solve_options o = gd_solve_defaults();
    gd_solve_result r;
    o.max_steps = steps;
    OK(gd_minimize_with(w.o, &by_gradient, &o, &r));
    return r;
}

static void on_a_flat_function_nothing_moves_and_the_search_ends(void **state)
{
    (void)state;
    static const char *const chains[] = {"cma_es(restarts=1)", "differential_evolution(12, restarts=1)",
                                         "nelder_mead(restarts=1)", "multi_start([lbfgs | strong_wolfe], 3)",
                                         "basin_hopping([lbfgs | strong_wolfe], 3)"};
    for (int k = 0; k < COUNT_OF(chains); k++) {
        gd_solve_result r = minimise(chains[k], flat, 1000);
        double x[N];
        read_params(x);
        if (r.reason != GD_STOP_LINK || x[0] != 2 || x[1] != -1 || x[2] != 0.5)
            fail_msg("%s: %s at %g %g %g", chains[k], gd_stop_name(r.reason), x[0], x[1], x[2]);
        close_world();
    }
}

static double units = 1, height; /* of plain_bowl */

/* A minimum of `height` at (1, 0, 0). */
static double plain_bowl(const double *x)
{
    return height + units * ((x[0] - 1) * (x[0] - 1) + x[1] * x[1] + x[2] * x[2]);
}
static double bowl_at_0(const double *x) { return units * (x[0] * x[0] + x[1] * x[1] + x[2] * x[2]); }

/* Around a minimum of 0 each new simplex finds a smaller number: it took all steps. */
static void simplices_end_at_a_minimum_whatever_its_value_and_units(void **state)
{
    (void)state;
    static const double heights[] = {0, 7, -1e6, 0, 0}, unit[] = {1, 1, 1, 1e12, 1e-12};
    for (int i = 0; i < 2 * COUNT_OF(unit); i++) {
        bool at_0 = i >= COUNT_OF(unit);
        units = unit[i % COUNT_OF(unit)];
        height = heights[i % COUNT_OF(unit)];
        gd_solve_result r = minimise("nelder_mead", at_0 ? bowl_at_0 : plain_bowl, 1000);
        double x[N];
        read_params(x);
        double away = fabs(x[0] - !at_0) + fabs(x[1]) + fabs(x[2]), most = fabs(height) > 1 ? 1e-3 : 1e-6;
        if (r.reason != GD_STOP_LINK || r.evals > 900 || away > most)
            fail_msg("%d: %s after %lld evaluations, %g away", i, gd_stop_name(r.reason), (long long)r.evals,
                     away);
        close_world();
    }
}

static void a_function_without_end_is_said_to_be_one(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        gd_solve_result r = minimise(all_links[k], endless, 500);
        if (r.reason != GD_STOP_DIVERGED) fail_msg("%s: %s", all_links[k], gd_stop_name(r.reason));
        close_world();
    }
}

/* The start is no number, and what is found is. */
static void a_start_that_is_not_finite_is_left(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(all_links); k++) {
        gd_solve_result r = minimise(all_links[k], half_space, 100);
        if (!isfinite(r.loss)) fail_msg("%s: %s, loss %g", all_links[k], gd_stop_name(r.reason), r.loss);
        close_world();
    }
}

/* ---- again ---- */

static char path[64];

/* Saved in the middle of restarts, starts and hops, and loaded: the same bits as without. */
static void a_search_goes_on_from_a_file_with_the_same_bits(void **state)
{
    (void)state;
    static const char *const chains[] = {"cma_es(sigma=1e-10)",
                                         "cma_es(seed=5)",
                                         "differential_evolution(6, tol=0.5)",
                                         "nelder_mead",
                                         "nelder_mead(tol=0.05)",
                                         "multi_start([lbfgs | strong_wolfe], 7, steps=3)",
                                         "basin_hopping([lbfgs | strong_wolfe], 50, steps=3)"};
    strcpy(path, "/tmp/gradus-test-search-XXXXXX");
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int k = 0; k < COUNT_OF(chains); k++) {
        double x[2][N], middle[N];
        for (int loads = 0; loads < 2; loads++) {
            open_world(chains[k], bowls, NULL);
            for (int t = 0; t < 14; t++) {
                gd_step_info info;
                if (t == 7 && !loads) {
                    OK(gd_optimizer_save(w.o, path));
                    read_params(middle);
                }
                if (t < 7 && loads) continue;
                if (t == 7) {
                    OK(gd_write_f64(w.p, middle, 2));
                    OK(gd_write_f64(w.q, middle + 2, 1));
                    OK(gd_optimizer_load(w.o, path, true));
                }
                OK(gd_optimizer_step(w.o, &by_gradient, &info));
            }
            read_params(x[loads]);
            close_world();
        }
        if (memcmp(x[0], x[1], sizeof x[0]) != 0) fail_msg("%s: other bits after loading", chains[k]);
    }
    unlink(path);
}

/* With one parameter less the search begins anew. */
static void other_parameters_begin_another_search(void **state)
{
    (void)state;
    for (int k = 0; k < 3; k++) {
        open_world(all_links[k], bowls, NULL);
        gd_step_info info;
        OK(gd_optimizer_step(w.o, &by_value, &info));
        OK(gd_optimizer_remove(w.o, "q"));
        w.calls = 0;
        OK(gd_optimizer_step(w.o, &by_value, &info));
        assert_int_equal(gd_numel(gd_link_global_tensor(gd_optimizer_chain(w.o), "best")), 2);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(cma_es_generates_as_the_tutorial_says),
        TEST(differential_evolution_generates_as_its_paper_says),
        TEST(the_first_population_is_a_latin_hypercube),
        TEST(generations_ask_for_values_alone_and_for_no_point_twice),
        TEST(the_loss_of_a_step_is_that_of_the_lowest_point_before),
        TEST(no_point_is_outside_the_bounds_and_a_fixed_element_stays),
        TEST(starts_and_hops_end_in_the_lower_well),
        TEST(cma_es_ends_at_a_minimum),
        TEST(hops_are_accepted_by_metropolis),
        TEST(on_a_flat_function_nothing_moves_and_the_search_ends),
        TEST(simplices_end_at_a_minimum_whatever_its_value_and_units),
        TEST(a_function_without_end_is_said_to_be_one),
        TEST(a_start_that_is_not_finite_is_left),
        TEST(a_search_goes_on_from_a_file_with_the_same_bits),
        TEST(other_parameters_begin_another_search),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
