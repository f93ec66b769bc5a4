/* gd_minimize: what it evaluates, when it stops and what it says then. */
#include "gradus/solve.h"
#include "support/support.h"

#include <math.h>

#define MOST_CALLS                   4000
#define assert_near(a, b, tolerance) assert_true(fabs((double)(a) - (double)(b)) <= (tolerance))

/* A function of a vector that writes down where it was called. */
typedef struct call_log {
    gd_tensor *p;
    gd_tensor *(*f)(gd_tensor *p);
    double at[MOST_CALLS][4], loss[MOST_CALLS];
    int calls;
} call_log;

static gd_tensor *at(gd_tensor *x, int i) { return gd_index(x, "0", i); }
static gd_tensor *plus(gd_tensor *x, double c) { return gd_add_scalar(x, c); }

static gd_tensor *rosenbrock(gd_tensor *p)
{
    gd_tensor *bent = gd_sub(at(p, 1), gd_square(at(p, 0)));
    return gd_add(gd_square(plus(at(p, 0), -1)), gd_mul_scalar(gd_square(bent), 100));
}
static gd_tensor *cube(gd_tensor *p)
{
    gd_tensor *bent = gd_sub(at(p, 1), gd_mul(gd_square(at(p, 0)), at(p, 0)));
    return gd_add(gd_square(plus(at(p, 0), -1)), gd_mul_scalar(gd_square(bent), 100));
}
static gd_tensor *bowl(gd_tensor *p) { return gd_sum(gd_square(p), NULL, false); }
static gd_tensor *hill(gd_tensor *p) { return gd_neg(bowl(p)); }
static gd_tensor *slope(gd_tensor *p) { return gd_sum(p, NULL, false); }
static gd_tensor *fourth(gd_tensor *p) { return gd_sum(gd_square(gd_square(p)), NULL, false); }
static gd_tensor *pit(gd_tensor *p) { return gd_sum(gd_log(p), NULL, false); }

static gd_tensor *logged(void *user)
{
    call_log *l = user;
    assert_true(l->calls < MOST_CALLS);
    assert_int_equal(gd_read_f64(l->p, l->at[l->calls], gd_numel(l->p)), GD_OK);
    gd_tensor *f = l->f(l->p);
    if (f) l->loss[l->calls++] = gd_item(gd_detach(f));
    return f;
}

static call_log record; /* too large for a stack */

/* Minimises f from (x, y); the parameters are left in record.p until the context ends. */
static gd_solve_result minimise(gd_ctx *ctx, gd_tensor *(*f)(gd_tensor *), double x, double y,
                                const char *chain, const gd_solve_options *options)
{
    record.calls = 0;
    record.f = f;
    record.p = gd_require_grad(VECTOR(ctx, x, y));
    gd_solve_result r;
    gd_status status = gd_minimize(&record.p, 1, &(gd_objective){.loss = logged, .user = &record}, chain,
                                   options, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    assert_int_equal(r.evals, record.calls);
    return r;
}

static int repeated_calls(void)
{
    int repeats = 0;
    for (int i = 0; i < record.calls; i++)
        for (int k = 0; k < i; k++)
            if (record.at[i][0] == record.at[k][0] && record.at[i][1] == record.at[k][1]) {
                repeats++;
                break;
            }
    return repeats;
}

/* ---- evaluations ---- */

static void no_point_is_evaluated_twice(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe",
                                         "bfgs | strong_wolfe",
                                         "polak_ribiere | strong_wolfe(c2=0.1)",
                                         "lbfgs | backtracking(condition=\"wolfe\")",
                                         "adam | lr(0.1)",
                                         "heavy_ball(0.5) | lr(1e-3)",
                                         "lbfgs | backtracking",
                                         "trust_cg(bfgs)",
                                         "levenberg_marquardt(bfgs(inverse=false))",
                                         "newton | strong_wolfe",
                                         "strong_wolfe"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_options o = gd_solve_defaults();
        o.max_steps = 100;
        o.curvature_products = 0; /* the end is looked at once more for them */
        gd_solve_result r = minimise(ctx, rosenbrock, -1.2, 1, chains[i], &o);
        if (repeated_calls())
            fail_msg("%s: %d of %lld evaluations were known", chains[i], repeated_calls(),
                     (long long)r.evals);
        /* what it says is true of the point where it ends */
        double end[2];
        assert_int_equal(gd_read_f64(record.p, end, 2), GD_OK);
        double bent = end[1] - end[0] * end[0], left = 1 - end[0];
        assert_near(r.loss, left * left + 100 * bent * bent, 1e-12);
        double gx = fabs(-2 * left - 400 * end[0] * bent), gy = fabs(200 * bent);
        assert_near(r.gradient_norm, fmax(gx, gy), 1e-9 * fmax(1, gx));
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
    /* 47 are what SciPy's L-BFGS-B needs here */
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_result r = minimise(ctx, rosenbrock, -1.2, 1, "lbfgs | strong_wolfe", NULL);
    assert_true(r.converged && r.evals <= 47);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* With noise the same point is asked for again, once per step at least. */
static void a_noisy_objective_is_asked_again(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_options o = gd_solve_defaults();
    o.noisy = true;
    o.max_steps = 10;
    minimise(ctx, rosenbrock, -1.2, 1, "lbfgs | strong_wolfe", &o);
    assert_true(repeated_calls() >= 9);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

typedef struct mover {
    double loss, loss_after, gradient; /* in the step after the change */
    int64_t steps;
} mover;

static bool move_once(void *user, const gd_progress *progress)
{
    mover *m = user;
    m->steps = progress->step;
    if (progress->step == 3) {
        gd_scope_begin(gd_tensor_ctx(record.p));
        assert_int_equal(gd_assign(record.p, VECTOR(gd_tensor_ctx(record.p), 3, 4)), GD_OK);
        gd_scope_end(gd_tensor_ctx(record.p));
    }
    m->loss = progress->loss;
    m->loss_after = progress->loss_after;
    m->gradient = progress->gradient_length;
    return progress->step < 4;
}

/* lr(0.1) on |p|^2 multiplies p by 0.8: from (3, 4) the loss goes from 25 to 16, the gradient is 2 * 4 long. */
static void parameters_that_the_caller_moves_are_evaluated_where_they_are(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    mover m = {0};
    gd_solve_options o = gd_solve_defaults();
    o.callback = move_once;
    o.callback_user = &m;
    gd_solve_result r = minimise(ctx, bowl, 1, 1, "lr(0.1)", &o);
    assert_int_equal(r.reason, GD_STOP_CALLER);
    assert_near(m.loss, 25, 1e-12);
    assert_near(m.loss_after, 16, 1e-12);
    assert_near(m.gradient, 8, 1e-12);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- reasons ---- */

/* Where a link moves the parameters before anything is evaluated, an evaluation where a step ends serves nobody. */
static void a_link_that_moves_the_parameters_first_costs_no_evaluation_more(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = 10;
    o.plain = true;
    gd_solve_result r = minimise(ctx, bowl, 1, 1, "direct_weight_decay(0.01) | lr(0.05)", &o);
    assert_int_equal(r.steps, 10);
    assert_int_equal(r.evals, 11); /* one a step, and one where the last ends */
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static void runs_say_why_they_stop(void **state)
{
    (void)state;
    static const struct {
        gd_tensor *(*f)(gd_tensor *);
        double x, y;
        const char *chain;
        gd_stop reason;
        int most; /* evaluations */
    } cases[] = {
        {rosenbrock, -1.2, 1, "lbfgs | strong_wolfe", GD_STOP_GRADIENT, 60},
        {bowl, 1, 2, "newton", GD_STOP_GRADIENT, 5},
        {bowl, 0, 0, "lbfgs | strong_wolfe", GD_STOP_GRADIENT, 2}, /* it starts at the minimum */
        {hill, 1, 2, "lbfgs | strong_wolfe", GD_STOP_DIVERGED, 100},
        {hill, 1, 2, "bfgs | strong_wolfe", GD_STOP_DIVERGED, 100},
        {hill, 1, 2, "newton | strong_wolfe", GD_STOP_DIVERGED, 100},
        {slope, 1, 2, "lbfgs | strong_wolfe", GD_STOP_DIVERGED, 100},
        {fourth, 3, 3, "lr(10)", GD_STOP_DIVERGED, 20},              /* overshoots to infinity */
        {pit, 1, 1, "lbfgs | strong_wolfe", GD_STOP_DIVERGED, 4000}, /* it has no value at 0 */
        {pit, 1, 1, "newton | strong_wolfe", GD_STOP_DIVERGED, 4000},
        {pit, 1, 1, "lbfgs | backtracking", GD_STOP_DIVERGED, 4000},
        {bowl, 1, 2, "lr(-1) | strong_wolfe(descent=false)", GD_STOP_STUCK, 10},
        {pit, -1, 1, "lbfgs | strong_wolfe", GD_STOP_NOT_FINITE, 2},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_result r = minimise(ctx, cases[i].f, cases[i].x, cases[i].y, cases[i].chain, NULL);
        if (r.reason != cases[i].reason || r.evals > cases[i].most)
            fail_msg("case %d, %s: %s after %lld evaluations", i, cases[i].chain, gd_stop_name(r.reason),
                     (long long)r.evals);
        assert_int_equal(r.converged, gd_stop_converged(r.reason));
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* Rosenbrock in units of a millionth: a first step of length 1 is a million times too long. */
static gd_tensor *small_rosenbrock(gd_tensor *p) { return rosenbrock(gd_mul_scalar(p, 1e6)); }
/* The same in units of a million, whose first step is short. */
static gd_tensor *large_rosenbrock(gd_tensor *p) { return rosenbrock(gd_mul_scalar(p, 1e-6)); }

static void units_do_not_decide_whether_a_run_ends_well(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe",
                                         "bfgs | strong_wolfe",
                                         "lbfgs | backtracking",
                                         "bfgs | adaptive_backtracking",
                                         "newton | backtracking",
                                         "box(-1e9, 1e9) | lbfgs | strong_wolfe",
                                         "trust_cg(newton)",
                                         "newton_cg_steihaug",
                                         "box(-1e9, 1e9) | lbfgs | backtracking"};
    for (int i = 0; i < 2 * COUNT_OF(chains); i++) {
        const char *chain = chains[i / 2];
        double unit = i % 2 ? 1e6 : 1e-6;
        if (i % 2 && !strcmp(chain, "newton_cg_steihaug")) continue; /* its reg is added to the curvature */
        gd_solve_options o = gd_solve_defaults();
        o.gradient_tol = 1e-8 * fmin(1, 1 / unit);
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_result r = minimise(ctx, i % 2 ? large_rosenbrock : small_rosenbrock, -1.2 * unit, unit,
                                     chain, &o);
        if (!r.converged || r.loss > 1e-10 || r.evals > 120)
            fail_msg("%s, units of %g: %s at %g after %lld evaluations", chain, unit, gd_stop_name(r.reason),
                     r.loss, (long long)r.evals);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* e^u - 3 u and a hyperbolic cosine, whose minima are no doubles, in units of 1e-9 and 1e-12: at the minimum rounding leaves a gradient of
 * 1e-6 and more, and a first step of length 1 has no value. */
static double unit_of_curve;
static gd_tensor *curve(gd_tensor *p)
{
    gd_tensor *u = gd_mul_scalar(p, 1 / unit_of_curve);
    gd_tensor *one = gd_sub(gd_exp(u), gd_mul_scalar(u, 3));
    gd_tensor *two = gd_add(gd_cosh(gd_add_scalar(u, -3.14159)), gd_sin(u));
    return gd_sum(gd_add(one, two), NULL, false);
}

static void a_minimum_at_the_limit_of_rounding_is_no_failure(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        unit_of_curve = i < 2 ? 1e-9 : 1e-12;
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_result r = minimise(ctx, curve, (i % 2 ? 2.5 : 1) * unit_of_curve,
                                     (i % 2 ? 2.5 : 1) * unit_of_curve, "lbfgs | strong_wolfe", NULL);
        double least = 3.5884046474614144; /* of one element: SciPy, minimize_scalar */
        if (!r.converged || fabs(r.loss - 2 * least) > 1e-9)
            fail_msg("unit %g: %s at %.9g", unit_of_curve, gd_stop_name(r.reason), r.loss);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

static void a_failed_search_satisfies_no_tolerance(void **state)
{
    (void)state;
    gd_solve_options o = gd_solve_defaults();
    o.step_tol = 1e-10;
    o.loss_tol = 1e-10;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_result r = minimise(ctx, bowl, 1, 2, "lr(-1) | strong_wolfe(descent=false)", &o);
    assert_int_equal(r.reason, GD_STOP_STUCK);
    /* the first step of bfgs is far too long here: it stopped at 749 and called it converged */
    r = minimise(ctx, cube, -1.2, 1, "bfgs | strong_wolfe", &o);
    assert_true(r.converged && r.loss < 1e-12);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* A loss that rounding keeps from getting lower has converged, whatever its gradient is in absolute terms. */
static gd_tensor *tall(gd_tensor *p) { return plus(gd_mul_scalar(bowl(plus(p, -3)), 1e6), 1e12); }

static void a_search_that_fails_for_rounding_has_converged(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_options o = gd_solve_defaults();
    o.gradient_tol = 1e-300;
    gd_solve_result r = minimise(ctx, tall, 1.1, 2.7, "lbfgs | strong_wolfe", &o);
    assert_true(r.converged);
    assert_near(r.loss, 1e12, 1);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* A sum over many rows, whose gradient is not below 1e-8 but by rounding: counts of a Poisson distribution. */
static gd_tensor *counts(gd_tensor *p)
{
    enum { ROWS = 20190 };
    static double x[ROWS], y[ROWS];
    for (int i = 0; i < ROWS; i++) {
        x[i] = sin(1.0 + 0.37 * i);
        y[i] = floor(exp(7 + 0.5 * x[i]) * (1 + 0.03 * cos(3.1 * i)));
    }
    gd_ctx *ctx = gd_tensor_ctx(p);
    gd_tensor *xs = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, x),
              *ys = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){ROWS}, y);
    gd_tensor *e = gd_add(gd_mul(xs, at(p, 1)), at(p, 0));
    return gd_sum(gd_sub(gd_exp(e), gd_mul(ys, e)), NULL, false);
}

static void a_sum_over_many_rows_converges(void **state)
{
    (void)state;
    static const char *const chains[] = {"lbfgs | strong_wolfe", "bfgs | backtracking",
                                         "newton | strong_wolfe", "trust_cg(newton)",
                                         "box(-20, 20) | lbfgs | strong_wolfe"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_result r = minimise(ctx, counts, 6, 0, chains[i], NULL);
        double end[2];
        assert_int_equal(gd_read_f64(record.p, end, 2), GD_OK);
        if (!r.converged || r.steps > 100 || fabs(end[0] - 7) > 1e-3 || fabs(end[1] - 0.5) > 1e-3)
            fail_msg("%s: %s after %lld steps at %g %g, gradient %g", chains[i], gd_stop_name(r.reason),
                     (long long)r.steps, end[0], end[1], r.gradient_norm);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- saddles ---- */

/* x^2 - y^2 + y^4: minima at y = -+1/sqrt(2), a saddle at (0, 0), to which everything without a y goes. */
static gd_tensor *two_wells(gd_tensor *p)
{
    gd_tensor *y = gd_square(at(p, 1));
    return gd_add(gd_sub(gd_square(at(p, 0)), y), gd_square(y));
}
static gd_tensor *waves(gd_tensor *p) { return gd_sum(gd_cos(p), NULL, false); }
static gd_tensor *valley(gd_tensor *p) { return gd_square(gd_sub(at(p, 0), at(p, 1))); }

/* The gradient alone does not tell them from minima. */
static void a_saddle_is_not_called_a_minimum(void **state)
{
    (void)state;
    static const struct {
        gd_tensor *(*f)(gd_tensor *);
        double x, y;
        const char *chain;
        gd_stop want;
    } cases[] = {
        {two_wells, 0, 0, NULL, GD_STOP_SADDLE},
        {two_wells, 1, 0, NULL, GD_STOP_SADDLE},
        {two_wells, 1, 0, "newton", GD_STOP_SADDLE},
        {two_wells, 1, 0, "trust_cg(newton)", GD_STOP_SADDLE},
        {two_wells, 1, 0, "lr(0.1)", GD_STOP_SADDLE},
        {waves, 0, 0, NULL, GD_STOP_SADDLE},
        {hill, 0, 0, NULL, GD_STOP_SADDLE},
        /* these are minima, also where nothing curves: a valley, and where the curvature itself is 0 */
        {two_wells, 1, 0.1, NULL, GD_STOP_GRADIENT},
        {two_wells, 0, 0.70710678118654752, NULL, GD_STOP_GRADIENT},
        {valley, 1, 0, NULL, GD_STOP_GRADIENT},
        {fourth, 1, 2, NULL, GD_STOP_GRADIENT},
        {fourth, 0, 0, NULL, GD_STOP_GRADIENT},
        {bowl, 3, 4, NULL, GD_STOP_GRADIENT},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        for (int off = 0; off < 3; off++) { /* looking; told not to; noisy */
            gd_ctx *ctx = context(NULL, 1, NULL);
            gd_scope_begin(ctx);
            gd_solve_options o = gd_solve_defaults();
            if (off == 1) o.curvature_products = 0;
            if (off == 2) o.noisy = true;
            gd_solve_result r = minimise(ctx, cases[i].f, cases[i].x, cases[i].y, cases[i].chain, &o);
            gd_stop want = off ? GD_STOP_GRADIENT : cases[i].want;
            if (r.reason != want || r.converged != gd_stop_converged(want))
                fail_msg("case %d, %d: %s", i, off, gd_stop_name(r.reason));
            gd_scope_end(ctx);
            end_context(ctx, NULL);
        }
    }
}

typedef struct long_vector {
    gd_tensor *p;
    int calls, products;
    bool fails;
} long_vector;

/* sum of x_i^2 with x_0^4 - x_0^2 in place of the first; far more numbers than products. */
static gd_tensor *long_wells(void *user)
{
    long_vector *l = user;
    gd_tensor *first = gd_square(at(l->p, 0));
    l->calls++;
    return gd_add(bowl(l->p), gd_sub(gd_square(first), gd_mul_scalar(first, 2)));
}
static gd_status wells_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    long_vector *l = user;
    const double *x = gd_data(l->p);
    double *g = gd_data_mut(grads[0]), square = x[0] * x[0];
    *loss = square * square - 2 * square;
    for (int64_t i = 0; i < gd_numel(l->p); i++) g[i] = 2 * x[i], *loss += x[i] * x[i];
    g[0] += 4 * x[0] * square - 4 * x[0];
    return GD_OK;
}
static gd_status wells_product(void *user, gd_tensor *const *v, gd_tensor *const *out)
{
    long_vector *l = user;
    const double *x = gd_data(l->p), *u = gd_data(v[0]);
    double *h = gd_data_mut(out[0]);
    l->products++;
    if (l->fails) return gd_fail(gd_tensor_ctx(l->p), GD_VALUE, "no product today");
    for (int64_t i = 0; i < gd_numel(l->p); i++) h[i] = 2 * u[i];
    h[0] += (12 * x[0] * x[0] - 4) * u[0];
    return GD_OK;
}

/* Of many numbers a look takes no more than a part of the run's evaluations; products of the objective's own serve, and where there is
 * neither a graph nor products nobody looks. */
static void looking_for_saddles_costs_little(void **state)
{
    (void)state;
    static const struct {
        int64_t n;
        bool graph, product;
        double rate;
        gd_stop want;
        int most; /* products */
    } cases[] = {
        {3, true, false, 0.3, GD_STOP_SADDLE, 0},     {3, false, true, 0.3, GD_STOP_SADDLE, 3},
        {3, false, false, 0.3, GD_STOP_GRADIENT, 0},  {1000, false, true, 0.05, GD_STOP_SADDLE, 30},
        {1000, true, false, 0.05, GD_STOP_SADDLE, 0}, {1000, false, true, 0.5, GD_STOP_GRADIENT, 0},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        char chain[40];
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        long_vector l = {.p = gd_ones(ctx, GD_F64, 1, &cases[i].n)};
        assert_int_equal(gd_fill(at(l.p, 0), 0), GD_OK);
        l.p = gd_require_grad(l.p);
        gd_solve_result r;
        gd_objective o = {.loss = cases[i].graph ? long_wells : NULL,
                          .gradient = cases[i].graph ? NULL : wells_gradient,
                          .hvp = cases[i].product ? wells_product : NULL,
                          .user = &l};
        snprintf(chain, sizeof chain, "lr(%g)", cases[i].rate);
        assert_int_equal(gd_minimize(&l.p, 1, &o, chain, NULL, &r), GD_OK);
        if (r.reason != cases[i].want || l.products > cases[i].most ||
            l.products > (cases[i].n < 16 ? 3 : r.evals / 16))
            fail_msg("case %d: %s, %d products after %lld evaluations", i, gd_stop_name(r.reason), l.products,
                     (long long)r.evals);
        if (cases[i].graph) assert_int_equal(r.evals, l.calls);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* One of the objective's own is an error of the run, which has its best point all the same. */
static void a_product_that_fails_at_the_end_is_an_error(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    long_vector l = {.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){0, 1})),
                     .fails = true};
    gd_solve_result r;
    gd_objective o = {.gradient = wells_gradient, .hvp = wells_product, .user = &l};
    assert_int_equal(gd_minimize(&l.p, 1, &o, NULL, NULL, &r), GD_VALUE);
    assert_error(ctx, GD_VALUE, "no product today");
    assert_int_equal(r.reason, GD_STOP_ERROR);
    assert_true(!r.converged && fabs(r.loss) < 1e-15);
    assert_values_near(l.p, 1e-8, 0, 0);
    gd_release(l.p);
    end_context(ctx, NULL);
}

/* ---- settings that links leave open ---- */

/* x^2 / 2 - 2 y^2: gradient (x, -4 y), Hessian diag(1, -4).  At (1, 0.5) Newton's update is (1, 0.5), across the gradient;
 * with the sizes of the eigenvalues it is (1, -0.5). */
static gd_tensor *saddle(gd_tensor *p)
{
    return gd_sub(gd_mul_scalar(gd_square(at(p, 0)), 0.5), gd_mul_scalar(gd_square(at(p, 1)), 2));
}

static void an_uphill_update_is_replaced_by_the_links_curvature_or_the_gradient(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        bool careful; /* as gd_minimize runs it */
        double x, y;  /* after one step */
    } cases[] = {
        {"newton | backtracking", true, 0, 1},
        {"newton | backtracking(descent=true)", false, 0, 1},
        {"newton | adaptive_backtracking", true, 0, 1},
        {"newton | lr(-1) | backtracking", true, 0, 1},
        {"lr(-1) | backtracking", true, 0, 2.5}, /* no curvature there: the gradient (1, -2) */
        {"lr(-1) | backtracking(descent=true)", false, 0, 2.5},
        {"newton | strong_wolfe(descent=false)", true, 1, 0.5}, /* told not to: no search */
        {"newton | strong_wolfe", false, 1, 0.5},               /* plain steps are as they were */
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_options o = gd_solve_defaults();
        o.max_steps = 1;
        o.plain = !cases[i].careful;
        minimise(ctx, saddle, 1, 0.5, cases[i].chain, &o);
        double end[2];
        assert_int_equal(gd_read_f64(record.p, end, 2), GD_OK);
        if (fabs(end[0] - cases[i].x) + fabs(end[1] - cases[i].y) > 1e-12)
            fail_msg("%s: (%.9g, %.9g)", cases[i].chain, end[0], end[1]);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* |p|^2 at (3, 4) has the gradient (6, 8): as it is, or with a 1-norm of 1. */
static void first_steps_are_short_unless_told_otherwise(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        bool careful, is_short;
    } cases[] = {
        {"bfgs | backtracking", true, true},
        {"bfgs | backtracking", false, false},
        {"bfgs(scale_first=false) | backtracking", true, false},
        {"bfgs(scale_first=true) | backtracking", false, true},
        {"dfp | backtracking", true, true},
        {"lsr1 | backtracking", true, true},
        {"lsr1 | backtracking", false, false},
    };
    for (int i = 0; i < COUNT_OF(cases); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        gd_scope_begin(ctx);
        gd_solve_options o = gd_solve_defaults();
        o.max_steps = 1;
        o.plain = !cases[i].careful;
        minimise(ctx, bowl, 3, 4, cases[i].chain, &o);
        double scale = cases[i].is_short ? 14 : 1;
        if (fabs(record.at[1][0] - (3 - 6 / scale)) > 1e-12 ||
            fabs(record.at[1][1] - (4 - 8 / scale)) > 1e-12)
            fail_msg("%s: first trial (%.9g, %.9g)", cases[i].chain, record.at[1][0], record.at[1][1]);
        gd_scope_end(ctx);
        end_context(ctx, NULL);
    }
}

/* ---- plain steps, and optimizers of the caller's ---- */

static gd_status bowl_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    const double *x = gd_data(user);
    double *g = gd_data_mut(grads[0]);
    *loss = x[0] * x[0] + x[1] * x[1];
    g[0] = 2 * x[0], g[1] = 2 * x[1];
    return GD_OK;
}

/* Memory asked for by so many steps. */
static int64_t requests_for(int64_t steps)
{
    memory m = {0};
    gd_ctx *ctx = context(&m, 1, NULL);
    gd_solve_options o = gd_solve_defaults();
    gd_solve_result r;
    gd_tensor *x = gd_require_grad(VECTOR(ctx, 3, -2));
    gd_optimizer *optimizer = gd_optimizer_new(ctx, gd_chain(ctx, "lr(1e-3)"));
    assert_int_equal(gd_optimizer_add(optimizer, "x", x), GD_OK);
    o.max_steps = steps;
    assert_int_equal(
        gd_minimize_with(optimizer, &(gd_objective){.gradient = bowl_gradient, .user = x}, &o, &r), GD_OK);
    assert_int_equal(r.steps, steps);
    int64_t asked = m.requests;
    gd_optimizer_free(optimizer);
    gd_release(x);
    end_context(ctx, &m);
    return asked;
}

/* Norms of the step and of the point are loops, not a dozen tensors: on small problems looking must not cost more than stepping. */
static void looking_at_a_step_asks_for_little_memory(void **state)
{
    (void)state;
    assert_in_range(requests_for(60) - requests_for(20), 1, 40 * 25);
}

static void plain_steps_are_exactly_those_of_the_chain(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_solve_options o = gd_solve_defaults();
    o.plain = true;
    o.max_steps = 7;
    /* x grows by 1.2 in size with every step: the start was best, and it does not go back there */
    gd_solve_result r = minimise(ctx, bowl, 1, 0, "lr(1.1)", &o);
    assert_int_equal(r.steps, 7);
    assert_int_equal(r.reason, GD_STOP_MAX_STEPS);
    assert_near(r.loss, pow(1.2, 14), 1e-12);
    assert_near(r.gradient_norm, 2 * pow(1.2, 7), 1e-12);
    assert_values_near(record.p, 1e-12, -pow(1.2, 7), 0);
    /* at the minimum it goes on */
    r = minimise(ctx, bowl, 0, 0, "lr(0.1)", &o);
    assert_int_equal(r.steps, 7);
    /* an update that points uphill is what it is */
    r = minimise(ctx, bowl, 1, 2, "lr(-1) | strong_wolfe", &o);
    assert_int_equal(r.steps, 7);
    assert_values(record.p, 1, 2);
    o.max_steps = 0;
    r = minimise(ctx, bowl, 1, 2, "lr(0.1)", &o);
    assert_int_equal(r.steps, 0);
    assert_near(r.loss, 5, 1e-15);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

static gd_tensor *two_bowls(void *user)
{
    gd_tensor **p = user;
    return gd_add(bowl(p[0]), bowl(p[1]));
}

/* Rates 0.1 and 0.25 multiply by 0.8 and 0.5. */
static void groups_of_the_callers_optimizer_hold_and_limits_count_anew(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    gd_tensor *p[2] = {gd_require_grad(VECTOR(ctx, 1, 1)), gd_require_grad(VECTOR(ctx, 1, 1))};
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "lr(0.1)"));
    assert_int_equal(gd_optimizer_add(opt, "a", p[0]), GD_OK);
    assert_int_equal(gd_optimizer_add(opt, "b", p[1]), GD_OK);
    assert_int_equal(gd_optimizer_regroup(opt, "b", "lr=0.25"), GD_OK);
    gd_solve_options o = gd_solve_defaults();
    o.max_steps = 3;
    gd_solve_result r;
    for (int i = 1; i <= 2; i++) {
        gd_objective objective = {.loss = two_bowls, .user = p};
        assert_int_equal(gd_minimize_with(opt, &objective, &o, &r), GD_OK);
        assert_int_equal(r.steps, 3);
        assert_int_equal(r.evals, 4);
        assert_values_near(p[0], 1e-12, pow(0.8, 3 * i), pow(0.8, 3 * i));
        assert_values_near(p[1], 1e-12, pow(0.5, 3 * i), pow(0.5, 3 * i));
    }
    assert_int_equal(gd_optimizer_steps(opt), 6);
    gd_optimizer_free(opt);
    gd_scope_end(ctx);
    end_context(ctx, NULL);
}

/* ---- what cannot be meant ---- */

static gd_tensor *of_nothing(void *user) { return bowl(gd_detach(user)); }
static gd_tensor *of_params(void *user) { return bowl(user); }
static gd_tensor *squares(void *user) { return gd_square(user); }

/* Each was OK, and "converged" where it started. */
static void a_loss_that_no_parameter_can_change_is_no_minimum(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){3, 4});
    gd_solve_result r;
    gd_objective plain = {.loss = of_params, .user = p}, detached = {.loss = of_nothing, .user = p};
    assert_int_equal(gd_minimize(&p, 1, &plain, NULL, NULL, &r), GD_ARGUMENT);
    assert_error(ctx, GD_ARGUMENT, "minimize: no parameter wants gradients");
    assert_non_null(gd_require_grad(p));
    static const char *const chains[] = {"lbfgs | strong_wolfe", "adam | lr(0.1)", "newton"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        assert_int_equal(gd_minimize(&p, 1, &detached, chains[i], NULL, &r), GD_GRAPH);
        assert_int_equal(r.reason, GD_STOP_ERROR);
        assert_error(ctx, GD_GRAPH, "minimize: the loss does not depend on any parameter");
        assert_int_equal(gd_minimize(&p, 1, &plain, chains[i], &(gd_solve_options){.max_steps = 3}, &r),
                         GD_OK);
    }
    gd_release(p);
    end_context(ctx, NULL);
}

static void a_frozen_parameter_stays_with_a_warning_that_names_it(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p[] = {gd_require_grad(VECTOR(ctx, 3, 4)), VECTOR(ctx, 5, 6)};
    gd_objective o = {.loss = of_params, .user = p[0]};
    assert_int_equal(gd_minimize(p, 1, &o, NULL, NULL, NULL), GD_OK);
    assert_int_equal(gd_warning_count(ctx), 0);
    assert_int_equal(gd_minimize(p, 2, &o, NULL, NULL, NULL), GD_OK);
    assert_int_equal(gd_warning_count(ctx), 1);
    assert_non_null(strstr(gd_warning_text(ctx), "1 of 2 parameters, first params[1], "));
    assert_true(gd_at(p[1], (int64_t[]){0}) == 5);
    gd_release(p[0]);
    gd_release(p[1]);
    end_context(ctx, NULL);
}

/* One row a number of the options: what is below 0 or no number is refused by name, and nothing is evaluated. */
static void options_that_are_no_limits_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){3, 4}));
    gd_objective objective = {.loss = of_params, .user = p};
    gd_solve_options o[8];
    for (int i = 0; i < COUNT_OF(o); i++) o[i] = gd_solve_defaults();
    o[0].max_steps = -1, o[1].max_evals = -1, o[2].max_seconds = -1, o[3].gradient_tol = NAN;
    o[4].step_tol = -1e-9, o[5].loss_tol = NAN, o[6].patience = -1, o[7].curvature_products = -1;
    static const char *const names[] = {"max_steps", "max_evals", "max_seconds", "gradient_tol",
                                        "step_tol",  "loss_tol",  "patience",    "curvature_products"};
    gd_lsq_result fit;
    char text[80];
    for (int i = 0; i < COUNT_OF(o); i++) {
        snprintf(text, sizeof text, "minimize: %s is ", names[i]);
        assert_int_equal(gd_minimize(&p, 1, &objective, NULL, &o[i], NULL), GD_ARGUMENT);
        assert_error(ctx, GD_ARGUMENT, text);
        gd_lsq_options f = gd_lsq_defaults();
        f.solve = o[i];
        snprintf(text, sizeof text, "least squares: %s is ", names[i]);
        assert_int_equal(gd_least_squares(&p, 1, squares, p, &f, &fit), GD_ARGUMENT);
        assert_error(ctx, GD_ARGUMENT, text);
    }
    gd_lsq_options f[3] = {gd_lsq_defaults(), gd_lsq_defaults(), gd_lsq_defaults()};
    f[0].sigma = NAN, f[1].first_radius = 0, f[2].weightless = -1;
    static const char *const more[] = {"sigma", "first_radius", "weightless"};
    for (int i = 0; i < 3; i++) {
        snprintf(text, sizeof text, "least squares: %s is ", more[i]);
        assert_int_equal(gd_least_squares(&p, 1, squares, p, &f[i], &fit), GD_ARGUMENT);
        assert_error(ctx, GD_ARGUMENT, text);
    }
    assert_true(gd_at(p, (int64_t[]){0}) == 3);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_loss_that_no_parameter_can_change_is_no_minimum),
        cmocka_unit_test(a_frozen_parameter_stays_with_a_warning_that_names_it),
        cmocka_unit_test(options_that_are_no_limits_are_refused),
        cmocka_unit_test(no_point_is_evaluated_twice),
        cmocka_unit_test(a_noisy_objective_is_asked_again),
        cmocka_unit_test(parameters_that_the_caller_moves_are_evaluated_where_they_are),
        cmocka_unit_test(a_link_that_moves_the_parameters_first_costs_no_evaluation_more),
        cmocka_unit_test(runs_say_why_they_stop),
        cmocka_unit_test(units_do_not_decide_whether_a_run_ends_well),
        cmocka_unit_test(a_minimum_at_the_limit_of_rounding_is_no_failure),
        cmocka_unit_test(a_sum_over_many_rows_converges),
        cmocka_unit_test(a_failed_search_satisfies_no_tolerance),
        cmocka_unit_test(a_search_that_fails_for_rounding_has_converged),
        cmocka_unit_test(a_saddle_is_not_called_a_minimum),
        cmocka_unit_test(looking_for_saddles_costs_little),
        cmocka_unit_test(a_product_that_fails_at_the_end_is_an_error),
        cmocka_unit_test(an_uphill_update_is_replaced_by_the_links_curvature_or_the_gradient),
        cmocka_unit_test(first_steps_are_short_unless_told_otherwise),
        cmocka_unit_test(looking_at_a_step_asks_for_little_memory),
        cmocka_unit_test(plain_steps_are_exactly_those_of_the_chain),
        cmocka_unit_test(groups_of_the_callers_optimizer_hold_and_limits_count_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
