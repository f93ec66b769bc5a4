/* Quasi-Newton links against dense matrices computed here from the textbook, pair by pair; and their invariants. */
#include "gradus/solve.h"
#include "optim/step/optimizer.h"
#include "optim/search_support.h"

#define N 7

/* ---- dense references in long double ---- */

typedef struct matrix {
    long double a[N][N];
} matrix;

static matrix scaled_identity(long double value)
{
    matrix m = {0};
    for (int i = 0; i < N; i++) m.a[i][i] = value;
    return m;
}

static void times(const matrix *m, const double *x, long double *out)
{
    for (int i = 0; i < N; i++) {
        out[i] = 0;
        for (int j = 0; j < N; j++) out[i] += m->a[i][j] * x[j];
    }
}

static long double dot(const double *x, const double *y)
{
    long double sum = 0;
    for (int i = 0; i < N; i++) sum += (long double)x[i] * y[i];
    return sum;
}

/* (I - s y^T / s y) H (I - y s^T / s y) + s s^T / s y, by products of matrices. */
static void bfgs_update(matrix *h, const double *s, const double *y)
{
    long double sy = dot(s, y);
    matrix left = scaled_identity(1), half = {0}, out = {0};
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) left.a[i][j] -= s[i] * y[j] / sy;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++)
            for (int k = 0; k < N; k++) half.a[i][j] += left.a[i][k] * h->a[k][j];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) {
            for (int k = 0; k < N; k++) out.a[i][j] += half.a[i][k] * left.a[j][k];
            out.a[i][j] += (long double)s[i] * s[j] / sy;
        }
    *h = out;
}

static void dfp_update(matrix *h, const double *s, const double *y)
{
    long double hy[N], yhy = 0, sy = dot(s, y);
    times(h, y, hy);
    for (int i = 0; i < N; i++) yhy += y[i] * hy[i];
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) h->a[i][j] += (long double)s[i] * s[j] / sy - hy[i] * hy[j] / yhy;
}

static void sr1_update(matrix *h, const double *s, const double *y)
{
    long double v[N], vy = 0, vv = 0;
    times(h, y, v);
    for (int i = 0; i < N; i++) {
        v[i] = s[i] - v[i];
        vy += v[i] * y[i];
        vv += v[i] * v[i];
    }
    if (fabsl(vy) <= 1e-8L * sqrtl(vv * dot(y, y))) return;
    for (int i = 0; i < N; i++)
        for (int j = 0; j < N; j++) h->a[i][j] += v[i] * v[j] / vy;
}

/* ---- driving a link by hand ---- */

/* Points and gradients that no optimizer chose: a convex function's, at random places. */
#define POINTS 44 /* more than are looked at together */
typedef struct walk {
    double x[POINTS][N], g[POINTS][N];
} walk;

static walk random_walk(uint64_t seed)
{
    walk w;
    for (int t = 0; t < POINTS; t++)
        for (int i = 0; i < N; i++) w.x[t][i] = 2 * random_unit(&seed) - 1;
    for (int t = 0; t < POINTS; t++)
        for (int i = 0; i < N; i++) {
            double before = i ? w.x[t][i - 1] : 0, after = i + 1 < N ? w.x[t][i + 1] : 0;
            w.g[t][i] = (2 + i) * w.x[t][i] - 0.9 * before - 0.9 * after + sinh(w.x[t][i]);
        }
    return w;
}

/* What the link makes of the gradient at each point. */
static void directions(gd_ctx *ctx, const char *chain, const walk *w, int count, double out[][N])
{
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){N}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(o, "p", p));
    for (int t = 0; t < count; t++) {
        gd_tensor *g = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, w->g[t]);
        double x[N];
        OK(gd_write_f64(p, w->x[t], N));
        OK(gd_set_grad(p, g));
        gd_status status = gd_optimizer_step(o, NULL, NULL);
        assert_no_error(ctx);
        OK(status);
        OK(gd_read_f64(p, x, N));
        for (int i = 0; i < N; i++) out[t][i] = w->x[t][i] - x[i];
        gd_release(g);
    }
    gd_optimizer_free(o);
    gd_release(p);
}

static void check_direction(const char *what, int t, const double *got, const matrix *h, const double *g,
                            double tolerance)
{
    long double want[N], size = 0;
    times(h, g, want);
    for (int i = 0; i < N; i++) size = fmaxl(size, fabsl(want[i]));
    for (int i = 0; i < N; i++)
        if (!(fabsl(got[i] - want[i]) <= tolerance * size))
            fail_msg("%s: point %d, element %d is %.15g, want %.15Lg", what, t, i, got[i], want[i]);
}

static void pair_of(const walk *w, int t, double *s, double *y)
{
    for (int i = 0; i < N; i++) {
        s[i] = w->x[t][i] - w->x[t - 1][i];
        y[i] = w->g[t][i] - w->g[t - 1][i];
    }
}

typedef void (*update_fn)(matrix *h, const double *s, const double *y);

/* scale: the first pair scales the identity. */
static void check_dense(const char *chain, update_fn update, bool scale)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(11);
    double got[POINTS][N], s[N], y[N];
    directions(ctx, chain, &w, POINTS, got);
    matrix h = scaled_identity(1);
    for (int t = 0; t < POINTS; t++) {
        if (t) {
            pair_of(&w, t, s, y);
            if (t == 1 && scale) h = scaled_identity(dot(s, y) / dot(y, y));
            update(&h, s, y);
        }
        check_direction(chain, t, got[t], &h, w.g[t], 1e-9);
    }
    end_context(ctx, NULL);
}

static void dense_links_follow_their_formulas(void **state)
{
    (void)state;
    check_dense("bfgs", bfgs_update, true);
    check_dense("bfgs(inverse=false)", bfgs_update, true);
    check_dense("bfgs(init_scale=1)", bfgs_update, false);
    check_dense("dfp", dfp_update, true);
    check_dense("dfp(inverse=false)", dfp_update, true);
    check_dense("sr1", sr1_update, true);
    check_dense("sr1(init_scale=1)", sr1_update, false);
    check_dense("sr1(init_scale=1, inverse=false)", sr1_update, false);
}

/* The last pairs on an identity scaled by the newest of them (lbfgs), or not (lsr1). */
static void check_limited(const char *chain, int most, update_fn update, bool scale)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(12);
    double got[POINTS][N], s[N], y[N];
    directions(ctx, chain, &w, POINTS, got);
    for (int t = 1; t < POINTS; t++) {
        pair_of(&w, t, s, y);
        matrix h = scaled_identity(scale ? dot(s, y) / dot(y, y) : 1);
        for (int k = t > most ? t - most + 1 : 1; k <= t; k++) {
            pair_of(&w, k, s, y);
            update(&h, s, y);
        }
        check_direction(chain, t, got[t], &h, w.g[t], 1e-8);
    }
    end_context(ctx, NULL);
}

static void limited_memory_links_follow_their_formulas(void **state)
{
    (void)state;
    check_limited("lbfgs", 10, bfgs_update, true);
    check_limited("lbfgs(3)", 3, bfgs_update, true);
    check_limited("lbfgs(1)", 1, bfgs_update, true);
    check_limited("lbfgs(50)", 50, bfgs_update, true);
    check_limited("lsr1", 10, sr1_update, false);
    check_limited("lsr1(4)", 4, sr1_update, false);
}

static void the_first_update_is_scaled_to_one(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(3);
    double got[1][N], sum = 0;
    for (int i = 0; i < N; i++) sum += fabs(w.g[0][i]);
    const char *const scaled[] = {"lbfgs", "bfgs(scale_first=true)"}, *const plain[] = {
                                                                          "lsr1", "bfgs",
                                                                          "lbfgs(scale_first=false)"};
    for (int k = 0; k < COUNT_OF(scaled); k++) {
        directions(ctx, scaled[k], &w, 1, got);
        for (int i = 0; i < N; i++) assert_near(got[0][i], w.g[0][i] / sum, 1e-12);
    }
    for (int k = 0; k < COUNT_OF(plain); k++) {
        directions(ctx, plain[k], &w, 1, got);
        for (int i = 0; i < N; i++) assert_near(got[0][i], w.g[0][i], 1e-12);
    }
    /* a small update stays as it is */
    for (int i = 0; i < N; i++) w.g[0][i] *= 1e-3;
    directions(ctx, "lbfgs", &w, 1, got);
    for (int i = 0; i < N; i++) assert_near(got[0][i], w.g[0][i], 1e-15);
    end_context(ctx, NULL);
}

/* A pair with negative curvature in the middle: left out by those that need it. */
static void pairs_without_curvature_are_left_out(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    const char *const chains[] = {"lbfgs",
                                  "bfgs",
                                  "dfp",
                                  "bfgs(inverse=false)",
                                  "lbfgs(damping=\"powell\")",
                                  "lbfgs(damping=\"double\")"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        walk w = random_walk(4);
        double got[POINTS][N];
        for (int t = 0; t < POINTS; t++)
            for (int i = 0; i < N; i++)
                if (t % 3 == 0) w.g[t][i] = -w.g[t][i];
        directions(ctx, chains[c], &w, POINTS, got);
        for (int t = 0; t < POINTS; t++) assert_true(dot(got[t], w.g[t]) > 0); /* H stays positive definite */
    }
    end_context(ctx, NULL);
}

static void steps_that_do_not_move_give_no_pair(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    const char *const chains[] = {"lbfgs", "lsr1(ptol=1e-10)", "bfgs", "sr1", "dfp"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        walk w = random_walk(6), twice = w;
        double got[POINTS][N], again[POINTS][N];
        /* every point twice */
        for (int t = 0; t < POINTS; t++)
            for (int i = 0; i < N; i++) {
                twice.x[t][i] = w.x[t / 2][i];
                twice.g[t][i] = w.g[t / 2][i];
            }
        directions(ctx, chains[c], &w, POINTS / 2, got);
        directions(ctx, chains[c], &twice, POINTS, again);
        for (int t = 0; t < POINTS; t++)
            for (int i = 0; i < N; i++) assert_near(again[t][i], got[t / 2][i], 1e-9);
    }
    end_context(ctx, NULL);
}

static void restarts_forget(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(8);
    for (int i = 0; i < N; i++) { /* no movement in the fourth step */
        w.x[4][i] = w.x[3][i];
        w.g[4][i] = w.g[3][i];
    }
    double got[POINTS][N];
    const char *const chains[] = {"bfgs(ptol_restart=true)", "lbfgs(ptol_restart=true, scale_first=false)"};
    for (int c = 0; c < 2; c++) {
        directions(ctx, chains[c], &w, 6, got);
        for (int i = 0; i < N; i++) assert_near(got[4][i], w.g[4][i], 1e-12);
    }
    /* every third step starts with a scaled identity */
    directions(ctx, "bfgs(restart_interval=3)", &w, 6, got);
    for (int t = 2; t < 6; t += 3)
        for (int i = 1; i < N; i++) assert_near(got[t][i] / w.g[t][i], got[t][0] / w.g[t][0], 1e-12);
    end_context(ctx, NULL);
}

static void pairs_span_the_steps_between_updates(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(9);
    double got[POINTS][N], s[N], y[N];
    const char *const chains[] = {"lbfgs(update_freq=3)", "bfgs(update_freq=3)"};
    for (int c = 0; c < 2; c++) {
        directions(ctx, chains[c], &w, 5, got);
        for (int i = 0; i < N; i++) {
            s[i] = w.x[3][i] - w.x[0][i];
            y[i] = w.g[3][i] - w.g[0][i];
        }
        matrix h = scaled_identity(dot(s, y) / dot(y, y));
        bfgs_update(&h, s, y);
        check_direction(chains[c], 3, got[3], &h, w.g[3], 1e-10);
        check_direction(chains[c], 4, got[4], &h, w.g[4], 1e-10);
    }
    end_context(ctx, NULL);
}

static void inner_links_change_only_what_the_matrix_is_applied_to(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(10);
    double plain[POINTS][N], inner[POINTS][N];
    const char *const chains[][2] = {{"lbfgs(scale_first=false)", "lbfgs(scale_first=false, inner=[lr(3)])"},
                                     {"bfgs", "bfgs(inner=[lr(3)])"},
                                     {"lsr1", "lsr1(inner=[lr(3)])"}};
    for (int c = 0; c < 3; c++) {
        directions(ctx, chains[c][0], &w, POINTS, plain);
        directions(ctx, chains[c][1], &w, POINTS, inner);
        for (int t = 0; t < POINTS; t++)
            for (int i = 0; i < N; i++) assert_near(inner[t][i], 3 * plain[t][i], 1e-8);
    }
    end_context(ctx, NULL);
}

/* ---- Hessian operators ---- */

static gd_linop *hessian_of(gd_optimizer *o, gd_tensor *const *params)
{
    gd_var var;
    gd_step_share share = {0};
    gd__var_init(&var, o, gd_optimizer_ctx(o), params, 1);
    var.share = &share;
    gd_linop *h = gd_link_hessian(gd_optimizer_chain(o), &var);
    gd__var_clear(&var);
    return h;
}

static void hessians_satisfy_the_secant_equation_and_invert_the_update(void **state)
{
    (void)state;
    const char *const chains[] = {"lbfgs",   "lbfgs(3)", "lsr1",
                                  "lsr1(3)", "bfgs",     "bfgs(inverse=false)",
                                  "sr1",     "dfp",      "dfp(inverse=false)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        walk w = random_walk(13);
        gd_scope_begin(ctx);
        gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){N}));
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chains[c]));
        OK(gd_optimizer_add(o, "p", p));
        gd_linop *h = hessian_of(o, &p);
        assert_no_error(ctx);
        assert_int_equal(gd_linop_size(h), N);
        gd_linop_release(h);
        double s[N], y[N], got[N], step[N];
        for (int t = 0; t < POINTS; t++) {
            OK(gd_write_f64(p, w.x[t], N));
            gd_tensor *g = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, w.g[t]);
            OK(gd_set_grad(p, g));
            OK(gd_optimizer_step(o, NULL, NULL));
            OK(gd_read_f64(p, step, N));
            for (int i = 0; i < N; i++) step[i] = w.x[t][i] - step[i];
            if (!t) continue;
            pair_of(&w, t, s, y);
            h = hessian_of(o, &p);
            assert_no_error(ctx);
            gd_tensor *bs = gd_linop_matvec(h, gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, s));
            OK(gd_read_f64(bs, got, N));
            /* sr1 leaves out the pair that set its scale */
            for (int i = 0; i < N && (t > 1 || strcmp(chains[c], "sr1")); i++)
                assert_near(got[i], y[i], 1e-7 * (1 + fabs(y[i])));
            gd_tensor *x = gd_linop_solve(h, g);
            assert_no_error(ctx);
            OK(gd_read_f64(x, got, N));
            for (int i = 0; i < N; i++) assert_near(got[i], step[i], 1e-7 * (1 + fabs(step[i])));
            gd_linop_release(h);
        }
        gd_optimizer_free(o);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- matrices of other kinds ---- */

static void a_matrix_for_each_parameter_is_a_block_of_its_own(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    walk w = random_walk(14);
    double joint[POINTS][N];
    /* two parameters with one matrix each, against each alone */
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){N}));
    gd_tensor *q = gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){N}));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "bfgs(concat_params=false)"));
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_optimizer_add(o, "q", q));
    directions(ctx, "bfgs", &w, POINTS, joint);
    for (int t = 0; t < POINTS; t++) {
        double x[N];
        gd_tensor *g = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){N}, w.g[t]);
        OK(gd_write_f64(p, w.x[t], N));
        OK(gd_write_f64(q, w.x[t], N));
        OK(gd_set_grad(p, g));
        OK(gd_set_grad(q, g));
        OK(gd_optimizer_step(o, NULL, NULL));
        OK(gd_read_f64(q, x, N));
        for (int i = 0; i < N; i++) assert_near(w.x[t][i] - x[i], joint[t][i], 1e-12);
        gd_release(g);
    }
    gd_optimizer_free(o);
    gd_release(p);
    gd_release(q);
    end_context(ctx, NULL);
}

static const char *const all[] = {
    "lbfgs | strong_wolfe",         "lsr1 | backtracking",
    "bfgs | strong_wolfe",          "dfp | strong_wolfe",
    "sr1 | backtracking",           "bfgs(inverse=false) | strong_wolfe",
    "lbfgs(2) | strong_wolfe",      "lbfgs(update_freq=2, damping=\"powell\") | backtracking",
    "bfgs(beta=0.5) | strong_wolfe"};
static const double start[] = {-1.2, 1, 0.5, 2};

static void they_minimise(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, all[i], bowl, 4, start);
        run_steps(&r, 60);
        double x[MOST];
        params_of(&r, x);
        for (int k = 0; k < 4; k++)
            if (!(fabs(x[k]) < 1e-3)) fail_msg("%s: element %d is %g", all[i], k, x[k]);
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void they_continue_after_loading_bit_for_bit(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all); i++) check_continues(all[i], rosenbrock, 4, start, 5, 7);
    check_continues("online([lbfgs]) | lr(0.01)", rosenbrock, 4, start, 5, 7);
}

static void an_evaluation_that_fails_leaves_them_usable(void **state)
{
    (void)state;
    for (int i = 0; i < COUNT_OF(all); i++) check_failing_evaluations(all[i], rosenbrock, 4, start, 3, 0);
}

static void a_step_without_memory_leaves_them_usable(void **state)
{
    (void)state;
    const char *const chains[] = {"lbfgs | lr(0.01)", "bfgs | lr(0.01)", "lsr1 | lr(0.01)",
                                  "sr1(inverse=false) | lr(0.01)",
                                  "lbfgs(damping=\"double\", inner=[lr(2)]) | lr(0.01)"};
    for (int i = 0; i < COUNT_OF(chains); i++) check_failing_memory(chains[i], rosenbrock, 4, start, 2);
}

/* What is not finite gives no pair, and no matrix takes harm. */
static double sometimes_nan(const double *x, double *g, int n)
{
    double f = rosenbrock(x, g, n);
    if (x[0] > -1.1) {
        for (int i = 0; i < n; i++) g[i] = NAN;
        return NAN;
    }
    return f;
}

static void gradients_that_are_not_finite_give_no_pair(void **state)
{
    (void)state;
    const char *const chains[] = {"lbfgs", "lsr1", "bfgs", "sr1", "dfp", "bfgs(inverse=false)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        walk w = random_walk(15), clean = w;
        double got[POINTS][N], want[POINTS][N];
        w.g[3][2] = NAN;
        w.g[7][0] = INFINITY;
        directions(ctx, chains[c], &w, POINTS, got);
        for (int t = 9; t < POINTS; t++)
            for (int i = 0; i < N; i++) assert_true(isfinite(got[t][i]));
        (void)clean;
        (void)want;
        end_context(ctx, NULL);
    }
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, "lbfgs | strong_wolfe", sometimes_nan, 4, start);
    run_steps(&r, 20);
    assert_true(isfinite(first_of(&r)) && first_of(&r) <= -1.1);
    run_close(&r);
    end_context(ctx, NULL);
}

/* ---- long vectors ---- */

#define LONG 200000

static void long_run(const char *chain, int threads, const char *isa, gd_dtype dtype, double out[4])
{
    gd_ctx *ctx = context(NULL, threads, isa);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_cast(gd_randn(ctx, GD_F64, 1, (int64_t[]){LONG}), dtype));
    gd_tensor *q = gd_require_grad(gd_cast(gd_randn(ctx, GD_F64, 2, (int64_t[]){77, 3}), dtype));
    gd_tensor *scale = gd_cast(gd_add_scalar(gd_rand(ctx, GD_F64, 1, (int64_t[]){LONG}), 0.5), dtype);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_optimizer_add(o, "q", q));
    for (int i = 0; i < 6; i++) {
        gd_no_grad_begin(ctx);
        OK(gd_set_grad(p, gd_mul(gd_detach(p), scale)));
        OK(gd_set_grad(q, gd_copy(gd_detach(q))));
        gd_no_grad_end(ctx);
        OK(gd_optimizer_step(o, NULL, NULL));
    }
    assert_no_error(ctx);
    out[0] = gd_at(p, (int64_t[]){0});
    out[1] = gd_at(p, (int64_t[]){LONG - 1});
    out[2] = gd_at(q, (int64_t[]){76, 2});
    out[3] = gd_item(gd_sum(gd_detach(p), NULL, false));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void threads_and_instruction_sets_change_no_bit(void **state)
{
    (void)state;
    const char *const chains[] = {"lbfgs(4)", "lsr1(4) | lr(0.5)", "hager_zhang | lr(0.1)"};
    for (int c = 0; c < COUNT_OF(chains); c++)
        for (gd_dtype dtype = GD_F32; dtype <= GD_F64; dtype++) {
            double one[4], other[4];
            long_run(chains[c], 1, NULL, dtype, one);
            const char *const isas[] = {NULL, "base", "avx2"};
            for (int i = 0; i < 3; i++)
                for (int threads = 1; threads <= 4; threads++) {
                    long_run(chains[c], threads, isas[i], dtype, other);
                    if (memcmp(one, other, sizeof one))
                        fail_msg("%s: %d threads, %s: %.17g instead of %.17g", chains[c], threads,
                                 isas[i] ? isas[i] : "best", other[0], one[0]);
                }
        }
}

/* Parameters after some steps on n numbers, followed by `zeros` that never move. */
static char *very_long_run(const char *chain, gd_dtype dtype, int64_t n, int64_t zeros)
{
    gd_ctx *ctx = context(NULL, 2, NULL);
    gd_scope_begin(ctx);
    int64_t size = n + zeros;
    gd_tensor *p = gd_require_grad(gd_zeros(ctx, dtype, 1, &size)), *g = gd_zeros_like(p);
    OK(gd_set_grad(p, g));
    gd_no_grad_begin(ctx);
    OK(gd_assign(gd_slice(gd_detach(p), "0", 0, n, 1), gd_add_scalar(gd_rand(ctx, dtype, 1, &n), 0.5)));
    gd_tensor *w = gd_add_scalar(gd_rand(ctx, dtype, 1, &size), 0.5);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 5; i++) {
        gd_scope_begin(ctx);
        OK(gd_assign(g, gd_mul(gd_detach(p), w)));
        gd_scope_end(ctx);
        OK(gd_optimizer_step(o, NULL, NULL));
    }
    gd_no_grad_end(ctx);
    assert_true(*gd_link_global(gd_link_child_at(gd_optimizer_chain(o), 0), "pairs", 0) == 2);
    size_t bytes = (size_t)n * gd_dtype_size(dtype);
    char *out = malloc(bytes);
    assert_non_null(out);
    memcpy(out, gd_data(p), bytes);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
    return out;
}

/* Long rows are written past the caches where they lie on multiples of 64 bytes; one number more, and they do not. */
static void how_a_pair_reaches_its_rows_changes_no_bit(void **state)
{
    (void)state;
    const char *const chains[] = {"lbfgs(2, scale_first=false) | lr(0.1)",
                                  "lsr1(2, scale_first=false) | lr(0.1)"};
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_dtype dtype = c ? GD_F64 : GD_F32;
        int64_t n = ((int64_t)1 << (c ? 22 : 23)) + 80;
        char *far = very_long_run(chains[c], dtype, n, 0), *near = very_long_run(chains[c], dtype, n, 1);
        assert_memory_equal(far, near, (size_t)n * gd_dtype_size(dtype));
        free(far);
        free(near);
    }
}

/* Once matrix and history are there a step asks for nothing of their size: updates are in place, rings are not copied. */
static void check_in_place(const char *chain, int64_t n, gd_dtype dtype, size_t limit)
{
    memory watch = {0};
    gd_ctx *ctx = context(&watch, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *p = gd_require_grad(gd_cast(gd_randn(ctx, GD_F64, 1, &n), dtype));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 8; i++) {
        gd_scope_begin(ctx);
        gd_no_grad_begin(ctx);
        OK(gd_set_grad(
            p, gd_mul(gd_detach(p), gd_add_scalar(gd_cast(gd_rand(ctx, GD_F64, 1, &n), dtype), 0.5))));
        gd_no_grad_end(ctx);
        gd_scope_end(ctx);
        if (i < 2) watch.largest = 0;
        OK(gd_optimizer_step(o, NULL, NULL));
        if (i >= 2 && watch.largest > limit)
            fail_msg("%s in %s: step %d asks for %zu bytes", chain, gd_dtype_name(dtype), i, watch.largest);
    }
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    end_context(ctx, &watch);
}

static void matrices_and_histories_are_changed_in_place(void **state)
{
    (void)state;
    const char *const dense[] = {"bfgs | lr(0.1)", "dfp | lr(0.1)", "sr1 | lr(0.1)"};
    const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_BF16};
    for (int k = 0; k < COUNT_OF(dtypes); k++) {
        for (int i = 0; i < COUNT_OF(dense); i++) check_in_place(dense[i], 300, dtypes[k], 300 * 300 / 2);
        check_in_place("lbfgs(20) | lr(0.1)", 20000, dtypes[k], 20000 * 20);
        check_in_place("lsr1(20) | lr(0.1)", 20000, dtypes[k], 20000 * 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dense_links_follow_their_formulas),
        cmocka_unit_test(limited_memory_links_follow_their_formulas),
        cmocka_unit_test(the_first_update_is_scaled_to_one),
        cmocka_unit_test(pairs_without_curvature_are_left_out),
        cmocka_unit_test(steps_that_do_not_move_give_no_pair),
        cmocka_unit_test(restarts_forget),
        cmocka_unit_test(pairs_span_the_steps_between_updates),
        cmocka_unit_test(inner_links_change_only_what_the_matrix_is_applied_to),
        cmocka_unit_test(hessians_satisfy_the_secant_equation_and_invert_the_update),
        cmocka_unit_test(a_matrix_for_each_parameter_is_a_block_of_its_own),
        cmocka_unit_test(they_minimise),
        cmocka_unit_test(they_continue_after_loading_bit_for_bit),
        cmocka_unit_test(an_evaluation_that_fails_leaves_them_usable),
        cmocka_unit_test(a_step_without_memory_leaves_them_usable),
        cmocka_unit_test(gradients_that_are_not_finite_give_no_pair),
        cmocka_unit_test(threads_and_instruction_sets_change_no_bit),
        cmocka_unit_test(how_a_pair_reaches_its_rows_changes_no_bit),
        cmocka_unit_test(matrices_and_histories_are_changed_in_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
