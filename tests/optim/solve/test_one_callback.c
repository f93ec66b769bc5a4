/* gd_objective.evaluate: one call per point serves loss, constraints and their derivatives, made of operators or plain numbers. */
#include "gradus/solve.h"
#include "optim/optim_support.h"

#include <string.h>

/* (x - 2)^2 + (y - 1)^2 + (z - x)^2 with x - 2 y = -1 and x^2 / 4 + y^2 <= 1, z - 3 <= 0 (HS14 and one element more; the second
 * inequality has room).  In two parameters: x and y, z.  `style` picks what is made of operators. */
enum { N = 3 };
typedef enum style { OPERATORS, NUMBERS, SECOND, MIXED, STYLES } style;

typedef struct rollout {
    gd_ctx *ctx;
    gd_tensor *p, *z;
    style style;
    double shift[3]; /* right-hand sides of the constraints */
    int calls, points, firsts, seconds, stale, fail_at;
    double last[N];
} rollout;

static const unsigned values = GD_WANT_LOSS | GD_WANT_EQUAL | GD_WANT_BELOW,
                      jacobians = GD_WANT_EQUAL_JACOBIAN | GD_WANT_BELOW_JACOBIAN;

static unsigned gives(style s)
{
    if (s == OPERATORS) return values;
    if (s == MIXED) return values | GD_WANT_GRADIENT;
    return values | GD_WANT_GRADIENT | jacobians | (s == SECOND ? GD_WANT_HESSIAN : 0u);
}

static gd_tensor *at(gd_tensor *t, int i) { return gd_slice(t, "0", i, i + 1, 1); }

static gd_tensor *vector(rollout *r, int64_t n, const double *x)
{
    return gd_from_f64(r->ctx, GD_F64, 1, &n, x);
}

static gd_tensor *matrix(rollout *r, int64_t rows, const double *x)
{
    return gd_from_f64(r->ctx, GD_F64, 2, (int64_t[]){rows, N}, x);
}

static gd_status read_point(rollout *r, const gd_request *q, double *x)
{
    gd_status status = gd_read_f64(r->p, x, 2);
    if (!status) status = gd_read_f64(r->z, x + 2, 1);
    bool moved = !r->calls || memcmp(x, r->last, sizeof r->last) != 0;
    r->stale += moved && !q->new_point; /* work kept from another point would be wrong */
    memcpy(r->last, x, sizeof r->last);
    return status;
}

static void constraints_of_operators(rollout *r, gd_answer *out)
{
    gd_tensor *x = at(r->p, 0), *y = at(r->p, 1);
    out->equal = gd_add_scalar(gd_sub(x, gd_mul_scalar(y, 2)), 1 - r->shift[0]);
    gd_tensor *disc = gd_add(gd_mul_scalar(gd_square(x), 0.25), gd_square(y));
    out->below = gd_cat(
        (gd_tensor *[]){gd_add_scalar(disc, -1 - r->shift[1]), gd_add_scalar(r->z, -3 - r->shift[2])}, 2,
        "0");
}

static void of_operators(rollout *r, gd_answer *out)
{
    gd_tensor *x = at(r->p, 0), *y = at(r->p, 1);
    gd_tensor *loss = gd_add(gd_square(gd_add_scalar(x, -2)), gd_square(gd_add_scalar(y, -1)));
    out->loss = gd_add(loss, gd_square(gd_sub(r->z, x)));
    constraints_of_operators(r, out);
}

static void of_numbers(rollout *r, const gd_request *q, const double *x, gd_answer *out)
{
    unsigned w = q->wanted;
    double f = (x[0] - 2) * (x[0] - 2) + (x[1] - 1) * (x[1] - 1) + (x[2] - x[0]) * (x[2] - x[0]);
    double below[2] = {x[0] * x[0] / 4 + x[1] * x[1] - 1 - r->shift[1], x[2] - 3 - r->shift[2]};
    if (w & GD_WANT_LOSS) out->loss = gd_scalar(r->ctx, GD_F64, f);
    if (w & GD_WANT_GRADIENT)
        out->gradient = vector(
            r, N, (double[]){2 * (x[0] - 2) - 2 * (x[2] - x[0]), 2 * (x[1] - 1), 2 * (x[2] - x[0])});
    if (w & GD_WANT_EQUAL && r->style != MIXED)
        out->equal = vector(r, 1, (double[]){x[0] - 2 * x[1] + 1 - r->shift[0]});
    if (w & GD_WANT_BELOW && r->style != MIXED) out->below = vector(r, 2, below);
    if (w & GD_WANT_EQUAL_JACOBIAN) out->equal_jacobian = matrix(r, 1, (double[]){1, -2, 0});
    if (w & GD_WANT_BELOW_JACOBIAN)
        out->below_jacobian = matrix(r, 2, (double[]){x[0] / 2, 2 * x[1], 0, 0, 0, 1});
    if (!(w & GD_WANT_HESSIAN)) return;
    const double *m = q->multipliers, s = q->weight, y = m ? m[1] : 0;
    assert_true(!m || q->multiplier_count == 3);
    out->hessian = matrix(r, N, (double[]){4 * s + y / 2, 0, -2 * s, 0, 2 * s + 2 * y, 0, -2 * s, 0, 2 * s});
}

static gd_status evaluate(void *user, const gd_request *q, gd_answer *out)
{
    rollout *r = user;
    double x[N];
    gd_status status = read_point(r, q, x);
    if (status || ++r->calls == r->fail_at)
        return status ? status : gd_fail(r->ctx, GD_VALUE, "the simulator broke");
    assert_true(q->wanted && !(q->wanted & ~gives(r->style)));
    r->points += q->new_point;
    r->firsts += (q->wanted & (GD_WANT_GRADIENT | jacobians)) != 0;
    r->seconds += (q->wanted & GD_WANT_HESSIAN) != 0;
    if (r->style == OPERATORS) {
        of_operators(r, out);
        return gd_error(r->ctx);
    }
    of_numbers(r, q, x, out);
    if (r->style == MIXED && q->wanted & values) constraints_of_operators(r, out);
    return gd_error(r->ctx);
}

static rollout open_rollout(gd_ctx *ctx, style s)
{
    rollout r = {.ctx = ctx, .style = s};
    r.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){2, 2}));
    r.z = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){1}, (double[]){0}));
    return r;
}

static void close_rollout(rollout *r)
{
    gd_release(r->p);
    gd_release(r->z);
}

static gd_objective objective_of(rollout *r)
{
    return (gd_objective){.user = r, .evaluate = evaluate, .gives = gives(r->style)};
}

static gd_status solve(rollout *r, const char *chain, const gd_solve_options *options, gd_solve_result *is)
{
    gd_objective o = objective_of(r);
    return gd_minimize((gd_tensor *[]){r->p, r->z}, 2, &o, chain, options, is);
}

static const double solution[N] = {0.8228756555, 0.9114378278, 0.8228756555};

static void one_call_per_point_serves_loss_and_constraints(void **state)
{
    (void)state;
    const char *const chains[] = {NULL, "nlp", "nlp(method=\"interior_point\")",
                                  "augmented_lagrangian([lbfgs | strong_wolfe])"};
    for (int s = 0; s < STYLES; s++)
        for (int c = 0; c < 4; c++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            rollout r = open_rollout(ctx, (style)s);
            gd_solve_result is;
            double x[N], m[3];
            gd_solve_options options = gd_solve_defaults();
            options.multipliers = m;
            options.multiplier_count = 3;
            OK(solve(&r, chains[c], &options, &is));
            OK(gd_read_f64(r.p, x, 2));
            OK(gd_read_f64(r.z, x + 2, 1));
            bool fine = is.converged && fabs(m[0] - 1.594491) < 1e-3 && fabs(m[1] - 1.846591) < 1e-3;
            for (int i = 0; i < N; i++) fine = fine && fabs(x[i] - solution[i]) < 1e-5;
            if (!fine)
                fail_msg("style %d, %s: %s at %.9g %.9g %.9g, %g %g", s, chains[c] ? chains[c] : "default",
                         gd_stop_text(is.reason), x[0], x[1], x[2], m[0], m[1]);
            if (r.stale || r.points != is.evals || is.constraint_evals < r.points)
                fail_msg("style %d, %s: %d points of %d calls, %d with stale work; counted %lld, %lld", s,
                         chains[c] ? chains[c] : "default", r.points, r.calls, r.stale, (long long)is.evals,
                         (long long)is.constraint_evals);
            /* more calls than points are derivatives of numbers at the same point */
            assert_true(s == OPERATORS ? r.calls == r.points : r.calls <= r.points + r.firsts + r.seconds);
            close_rollout(&r);
            end_context(ctx, NULL);
        }
}

/* The same points as with single callbacks, for what autograd differentiates. */
static gd_tensor *single_loss(void *user)
{
    gd_answer out = {0};
    of_operators(user, &out);
    return out.loss;
}
static gd_tensor *single_equal(void *user)
{
    gd_answer out = {0};
    of_operators(user, &out);
    return out.equal;
}
static gd_tensor *single_below(void *user)
{
    gd_answer out = {0};
    of_operators(user, &out);
    return out.below;
}

static void it_is_the_same_run_as_with_single_callbacks(void **state)
{
    (void)state;
    const char *const chains[] = {"nlp", "augmented_lagrangian([lbfgs | strong_wolfe])"};
    for (int c = 0; c < 2; c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        rollout one = open_rollout(ctx, OPERATORS), three = open_rollout(ctx, OPERATORS);
        gd_objective o = {.user = &three, .loss = single_loss, .equal = single_equal, .below = single_below};
        gd_solve_result a, b;
        double x[4];
        OK(solve(&one, chains[c], NULL, &a));
        OK(gd_minimize((gd_tensor *[]){three.p, three.z}, 2, &o, chains[c], NULL, &b));
        OK(gd_read_f64(one.p, x, 2));
        OK(gd_read_f64(three.p, x + 2, 2));
        if (a.steps != b.steps || a.evals != b.evals || memcmp(x, x + 2, 2 * sizeof *x) != 0)
            fail_msg("%s: %lld steps of %lld, %lld evaluations of %lld", chains[c], (long long)a.steps,
                     (long long)b.steps, (long long)a.evals, (long long)b.evals);
        close_rollout(&one);
        close_rollout(&three);
        end_context(ctx, NULL);
    }
}

static void exact_hessians_are_used_and_make_it_short(void **state)
{
    (void)state;
    int evals[2];
    for (int second = 0; second < 2; second++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        rollout r = open_rollout(ctx, second ? SECOND : NUMBERS);
        gd_solve_result is;
        OK(solve(&r, "nlp", NULL, &is));
        evals[second] = (int)is.evals;
        assert_true(is.converged && second == (r.seconds > 0));
        close_rollout(&r);
        end_context(ctx, NULL);
    }
    assert_true(evals[1] < evals[0]);
}

/* ---- without constraints: Rosenbrock's function as loss, as residuals, and with numbers ---- */

typedef struct valley {
    gd_ctx *ctx;
    gd_tensor *x;
    unsigned gives;
    int points, calls;
} valley;

static gd_status evaluate_valley(void *user, const gd_request *q, gd_answer *out)
{
    valley *v = user;
    double x[2];
    v->calls++;
    v->points += q->new_point;
    if (gd_read_f64(v->x, x, 2)) return gd_error(v->ctx);
    double a = 10 * (x[1] - x[0] * x[0]), b = 1 - x[0];
    if (!(v->gives & (GD_WANT_GRADIENT | GD_WANT_RESIDUAL_JACOBIAN))) {
        gd_tensor *r1 = gd_mul_scalar(gd_sub(at(v->x, 1), gd_square(at(v->x, 0))), 10),
                  *r2 = gd_add_scalar(gd_neg(at(v->x, 0)), 1);
        out->residuals = gd_cat((gd_tensor *[]){r1, r2}, 2, "0");
        out->loss = gd_sum(gd_square(out->residuals), NULL, false);
        return gd_error(v->ctx);
    }
    const int64_t two = 2, square[] = {2, 2};
    out->loss = gd_scalar(v->ctx, GD_F64, a * a + b * b);
    out->gradient = gd_from_f64(v->ctx, GD_F64, 1, &two, (double[]){-40 * a * x[0] - 2 * b, 20 * a});
    out->residuals = gd_from_f64(v->ctx, GD_F64, 1, &two, (double[]){a, b});
    out->residual_jacobian = gd_from_f64(v->ctx, GD_F64, 2, square, (double[]){-20 * x[0], 10, -1, 0});
    out->hessian = gd_from_f64(v->ctx, GD_F64, 2, square,
                               (double[]){800 * x[0] * x[0] - 40 * a + 2, -400 * x[0], -400 * x[0], 200});
    return gd_error(v->ctx);
}

static void other_links_take_it_too(void **state)
{
    (void)state;
    const unsigned loss = GD_WANT_LOSS, gradient = loss | GD_WANT_GRADIENT, all = gradient | GD_WANT_HESSIAN,
                   residuals = GD_WANT_RESIDUALS, linear = residuals | GD_WANT_RESIDUAL_JACOBIAN;
    const struct {
        const char *chain;
        unsigned gives;
    } rows[] = {{"lbfgs | strong_wolfe", loss},
                {"lbfgs | strong_wolfe", gradient},
                {"lbfgs | strong_wolfe", residuals},
                {"newton | backtracking", loss},
                {"newton | backtracking", all},
                {"newton_cg | strong_wolfe", all},
                {"levenberg_marquardt(gauss_newton)", residuals},
                {"levenberg_marquardt(gauss_newton)", linear},
                {"levenberg_marquardt(gauss_newton)", gradient | linear},
                {"nelder_mead", loss},
                {"nelder_mead", gradient}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        valley v = {.ctx = ctx, .gives = rows[i].gives};
        v.x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.2, 1}));
        gd_objective o = {.user = &v, .evaluate = evaluate_valley, .gives = v.gives};
        gd_solve_result is;
        double x[2] = {0};
        gd_status status = gd_minimize(&v.x, 1, &o, rows[i].chain, NULL, &is);
        if (!status) status = gd_read_f64(v.x, x, 2);
        if (status || fabs(x[0] - 1) > 1e-4 || fabs(x[1] - 1) > 1e-4 || is.evals != v.points)
            fail_msg("%s, %u: %s, %s at %g %g, %d points, %lld counted", rows[i].chain, rows[i].gives,
                     gd_error_text(ctx), status ? "" : gd_stop_text(is.reason), x[0], x[1], v.points,
                     (long long)is.evals);
        gd_release(v.x);
        end_context(ctx, NULL);
    }
}

static void steps_take_it_and_count_it(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    rollout r = open_rollout(ctx, NUMBERS);
    gd_optimizer *opt = gd_optimizer_new(ctx, gd_chain(ctx, "nlp"));
    OK(gd_optimizer_add(opt, "p", r.p));
    OK(gd_optimizer_add(opt, "z", r.z));
    gd_objective o = objective_of(&r);
    gd_step_info info;
    for (int i = 0; i < 5; i++) OK(gd_optimizer_step(opt, &o, &info));
    assert_true(info.evals == r.points && info.constraint_evals > 0 && r.stale == 0 && info.violation < 0.1);
    gd_optimizer_free(opt);
    close_rollout(&r);
    end_context(ctx, NULL);
}

/* ---- mistakes ---- */

static gd_status gives_nothing(void *user, const gd_request *q, gd_answer *out)
{
    (void)user, (void)q, (void)out;
    return GD_OK;
}

static gd_status too_many(void *user, const gd_request *q, gd_answer *out)
{
    rollout *r = user;
    (void)q;
    out->loss = gd_scalar(r->ctx, GD_F64, 1);
    out->gradient = vector(r, 2, (double[]){1, 2});
    return gd_error(r->ctx);
}

static void mistakes_are_named(void **state)
{
    (void)state;
    const unsigned loss = GD_WANT_LOSS, gradient = GD_WANT_GRADIENT;
    const struct {
        gd_objective o;
        gd_status status;
        const char *text;
    } rows[] = {
        {{.evaluate = evaluate}, GD_ARGUMENT, "objective: `gives` of `evaluate` is 0"},
        {{.evaluate = evaluate, .gives = 1024 + loss},
         GD_ARGUMENT,
         "objective: `gives` of `evaluate` is 1025"},
        {{.evaluate = evaluate, .gives = loss, .loss = single_loss},
         GD_ARGUMENT,
         "`evaluate` and `loss` exclude"},
        {{.evaluate = evaluate, .gives = loss, .equal = single_equal},
         GD_ARGUMENT,
         "`evaluate` and `equal` exclude"},
        {{.evaluate = evaluate, .gives = loss, .traced = true},
         GD_ARGUMENT,
         "`evaluate` and `traced` exclude"},
        {{.evaluate = evaluate, .gives = loss | GD_WANT_EQUAL_JACOBIAN},
         GD_ARGUMENT,
         "equal_jacobian without its values"},
        {{.evaluate = evaluate, .gives = loss | GD_WANT_HESSIAN},
         GD_ARGUMENT,
         "the Hessian without the gradient"},
        {{.evaluate = gives_nothing, .gives = loss}, GD_CALLBACK, "evaluate: loss is wanted, and is NULL"},
        {{.evaluate = too_many, .gives = loss | gradient},
         GD_SHAPE,
         "evaluate: gradient has 1 axes and 2 elements"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        rollout r = open_rollout(ctx, OPERATORS);
        gd_objective o = rows[i].o;
        double x[2];
        o.user = &r;
        gd_status status = gd_minimize((gd_tensor *[]){r.p, r.z}, 2, &o, "lbfgs | strong_wolfe", NULL, NULL);
        if (status != rows[i].status || !strstr(gd_error_text(ctx), rows[i].text))
            fail_msg("row %zu: %s, %s", i, gd_status_name(status), gd_error_text(ctx));
        gd_clear_error(ctx);
        OK(gd_read_f64(r.p, x, 2));
        assert_true(x[0] == 2 && x[1] == 2);
        close_rollout(&r);
        end_context(ctx, NULL);
    }
}

static void a_failing_call_ends_the_run_at_the_best_point(void **state)
{
    (void)state;
    for (int s = 0; s < STYLES; s++)
        for (int k = 1; k < 8; k += 2) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            rollout r = open_rollout(ctx, (style)s);
            double x[2];
            gd_solve_result is;
            r.fail_at = k;
            gd_status status = solve(&r, NULL, NULL, &is);
            if (status != (r.calls < k ? GD_OK : GD_VALUE))
                fail_msg("style %d, call %d of %d: %s", s, k, r.calls, gd_error_text(ctx));
            assert_true(!status || strstr(gd_error_text(ctx), "the simulator broke"));
            gd_clear_error(ctx);
            OK(gd_read_f64(r.p, x, 2));
            assert_true(isfinite(x[0]) && isfinite(x[1]));
            close_rollout(&r);
            end_context(ctx, NULL);
        }
}

static const char *name_of(void *user, bool below, int64_t index)
{
    (void)user;
    return below && index == 0 ? "depth of the beam" : NULL;
}

static gd_status outside(void *user, const gd_request *q, gd_answer *out)
{
    rollout *r = user;
    of_operators(r, out);
    (void)q;
    out->below = gd_log(gd_neg(at(r->p, 0)));
    return gd_error(r->ctx);
}

static void a_start_outside_the_domain_names_the_constraint(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    rollout r = open_rollout(ctx, OPERATORS);
    gd_objective o = {.user = &r, .evaluate = outside, .gives = values, .constraint_name = name_of};
    assert_int_equal(gd_minimize((gd_tensor *[]){r.p, r.z}, 2, &o, NULL, NULL, NULL), GD_VALUE);
    assert_error(ctx, GD_VALUE,
                 "nlp: the constraint 'depth of the beam' is not a number where the parameters start");
    close_rollout(&r);
    end_context(ctx, NULL);
}

/* ---- active constraints and sensitivities ---- */

/* d x / d b against differences of problems that are solved again. */
static void sensitivities_are_those_of_problems_solved_again(void **state)
{
    (void)state;
    const double h = 1e-4;
    for (int s = 0; s < STYLES; s++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        double d[N * 3], m[3], losses[2];
        int active[3];
        gd_solve_options options = gd_solve_defaults();
        options.multipliers = m;
        options.multiplier_count = 3;
        options.active = active;
        options.sensitivities = d;
        gd_solve_result is;
        rollout r = open_rollout(ctx, (style)s);
        OK(solve(&r, "nlp", &options, &is));
        assert_true(is.converged && active[0] == 1 && active[1] == 1 && active[2] == 0);
        close_rollout(&r);
        for (int k = 0; k < 3; k++) {
            double x[2][N];
            for (int side = 0; side < 2; side++) {
                rollout moved = open_rollout(ctx, SECOND);
                moved.shift[k] = side ? h : -h;
                OK(solve(&moved, "nlp", NULL, &is));
                OK(gd_read_f64(moved.p, x[side], 2));
                OK(gd_read_f64(moved.z, x[side] + 2, 1));
                losses[side] = is.loss;
                close_rollout(&moved);
            }
            for (int i = 0; i < N; i++) {
                double found = (x[1][i] - x[0][i]) / (2 * h);
                if (fabs(d[i * 3 + k] - found) > 1e-5 * fmax(1, fabs(found)))
                    fail_msg("style %d, constraint %d: d x%d is %.9g, differences %.9g", s, k, i,
                             d[i * 3 + k], found);
            }
            assert_true(fabs((losses[1] - losses[0]) / (2 * h) + m[k]) < 1e-5);
        }
        end_context(ctx, NULL);
    }
}

/* x + y with x + y >= 1 has no single minimum, and x - y = 0 twice no single multiplier. */
static gd_tensor *flat(void *user) { return gd_sum(((rollout *)user)->p, NULL, false); }
static gd_tensor *above_one(void *user) { return gd_add_scalar(gd_neg(flat(user)), 1); }

static void what_is_not_determined_has_no_sensitivity(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    rollout r = open_rollout(ctx, OPERATORS);
    gd_objective o = {.user = &r, .loss = flat, .below = above_one};
    double d[2], m[1];
    int active[1];
    gd_solve_options options = gd_solve_defaults();
    options.multipliers = m;
    options.multiplier_count = 1;
    options.active = active;
    options.sensitivities = d;
    gd_solve_result is;
    OK(gd_minimize(&r.p, 1, &o, "box(-5, 5) | nlp", &options, &is));
    assert_true(fabs(m[0] - 1) < 1e-6 && active[0] == 1 && isnan(d[0]) && isnan(d[1]));
    close_rollout(&r);
    end_context(ctx, NULL);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int s = 0; s < STYLES; s++) {
        bool failed = true;
        for (int64_t k = 1; failed; k += k < 40 ? 1 : 97) {
            memory m = {0};
            gd_ctx *ctx = context(&m, 1, NULL);
            rollout r = open_rollout(ctx, (style)s);
            double d[N * 3], y[3];
            gd_solve_options options = gd_solve_defaults();
            options.multipliers = y;
            options.multiplier_count = 3;
            options.sensitivities = d;
            m.fail_at = m.requests + k;
            gd_status status = solve(&r, NULL, &options, NULL);
            failed = m.failed;
            m.fail_at = 0;
            if (status && status != GD_NOMEM)
                fail_msg("style %d, %lld: %s, %s", s, (long long)k, gd_status_name(status),
                         gd_error_text(ctx));
            gd_clear_error(ctx);
            close_rollout(&r);
            end_context(ctx, &m);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_call_per_point_serves_loss_and_constraints),
        TEST(it_is_the_same_run_as_with_single_callbacks),
        TEST(exact_hessians_are_used_and_make_it_short),
        TEST(other_links_take_it_too),
        TEST(steps_take_it_and_count_it),
        TEST(mistakes_are_named),
        TEST(a_failing_call_ends_the_run_at_the_best_point),
        TEST(a_start_outside_the_domain_names_the_constraint),
        TEST(sensitivities_are_those_of_problems_solved_again),
        TEST(what_is_not_determined_has_no_sensitivity),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
