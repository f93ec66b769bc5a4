/* augmented_lagrangian on twenty problems of Hock and Schittkowski. */
#include "expr/expr_internal.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/bounds.h"
#include "problems/constrained.h"
#include "problems/degenerate.h"
#include "support/support.h"

#define N 10

typedef struct instance {
    const constrained_problem *p;
    gd_expr *f, *equal[CONSTRAINTS_MOST], *below[CONSTRAINTS_MOST];
    int equals, belows;
    gd_tensor *x;
    double low[N], high[N];
    int calls, reached;
} instance;

static gd_tensor *stacked(instance *i, gd_expr *const *list, int count)
{
    gd_tensor *value[CONSTRAINTS_MOST];
    for (int k = 0; k < count; k++) value[k] = gd_expr_eval(list[k], &i->x, GD_F64);
    return gd_stack(value, count, 0, NULL);
}

static gd_tensor *equal(void *user)
{
    return stacked(user, ((instance *)user)->equal, ((instance *)user)->equals);
}
static gd_tensor *below(void *user)
{
    return stacked(user, ((instance *)user)->below, ((instance *)user)->belows);
}

static double violation(gd_ctx *ctx, instance *i)
{
    double most = 0, v[CONSTRAINTS_MOST];
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    if (i->equals) assert_int_equal(gd_read_f64(equal(i), v, i->equals), GD_OK);
    for (int k = 0; k < i->equals; k++) most = fmax(most, fabs(v[k]));
    if (i->belows) assert_int_equal(gd_read_f64(below(i), v, i->belows), GD_OK);
    for (int k = 0; k < i->belows; k++) most = fmax(most, v[k]);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return most;
}

static bool at_minimum(const constrained_problem *p, double f)
{
    return f <= p->minimum + (p->minimum == 0 ? 1e-8 : 1e-6 * fmax(1, fabs(p->minimum)));
}

static gd_tensor *loss(void *user)
{
    instance *i = user;
    gd_tensor *f = gd_expr_eval(i->f, &i->x, GD_F64);
    i->calls++;
    if (f && !i->reached && at_minimum(i->p, gd_item(f)) && violation(gd_tensor_ctx(f), i) <= 1e-6)
        i->reached = i->calls;
    return f;
}

static gd_expr *parsed(gd_ctx *ctx, const char *text)
{
    gd_expr *e = gd_expr_parse(ctx, text, &(gd_expr_options){.names = (const char *[]){"x"}, .count = 1});
    assert_no_error(ctx);
    return e;
}

static void open_instance(gd_ctx *ctx, const constrained_problem *p, instance *i)
{
    double x[N];
    *i = (instance){.p = p, .f = parsed(ctx, p->expression)};
    for (; p->equal[i->equals]; i->equals++) i->equal[i->equals] = parsed(ctx, p->equal[i->equals]);
    for (; p->below[i->belows]; i->belows++) i->below[i->belows] = parsed(ctx, p->below[i->belows]);
    bound_fill(p->start, 0, p->n, x);
    bound_fill(p->low, -INFINITY, p->n, i->low);
    bound_fill(p->high, INFINITY, p->n, i->high);
    i->x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){p->n}, x));
}

static void close_instance(instance *i)
{
    gd_expr_free(i->f);
    for (int k = 0; k < i->equals; k++) gd_expr_free(i->equal[k]);
    for (int k = 0; k < i->belows; k++) gd_expr_free(i->below[k]);
}

static gd_optimizer *optimizer_for(gd_ctx *ctx, instance *i, const char *inner)
{
    char text[300];
    bool nlp = strstr(inner, "nlp") != NULL;
    snprintf(text, sizeof text, nlp ? "box | %s" : "augmented_lagrangian([box | %s])", inner);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", i->x), GD_OK);
    gd_link *chain = gd_optimizer_chain(o);
    gd_link *box = gd_link_child_at(nlp ? chain : gd_link_child(chain, "inner"), 0);
    assert_int_equal(gd_link_set_for(box, i->x, "low", gd_setting_list(i->low, i->p->n)), GD_OK);
    assert_int_equal(gd_link_set_for(box, i->x, "high", gd_setting_list(i->high, i->p->n)), GD_OK);
    return o;
}

/* The largest difference of a multiplier from the one listed, by its size. */
static double multiplier_error(gd_optimizer *o, const instance *i)
{
    double m[2 * CONSTRAINTS_MOST], most = 0;
    gd_tensor *t = gd_optimizer_attr_tensor(o, "multipliers");
    assert_non_null(t);
    assert_int_equal(gd_numel(t), i->equals + i->belows);
    assert_int_equal(gd_read_f64(t, m, gd_numel(t)), GD_OK);
    for (int k = 0; k < i->equals + i->belows; k++) {
        double want = i->p->multipliers[k];
        most = fmax(most, fabs(m[k] - want) / fmax(fabs(want), 1e-2));
        if (k >= i->equals) assert_true(m[k] >= 0);
    }
    return most;
}

typedef struct score {
    int solved;
    int64_t reached, calls;
    double hessians;
} score;

static void run_one(const constrained_problem *p, const char *inner, score *s)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i;
    open_instance(ctx, p, &i);
    gd_optimizer *o = optimizer_for(ctx, &i, inner);
    gd_objective objective = {
        .loss = loss, .user = &i, .equal = i.equals ? equal : NULL, .below = i.belows ? below : NULL};
    gd_solve_result r;
    gd_status status = gd_minimize_with(o, &objective, NULL, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    double worst = violation(ctx, &i), error = multiplier_error(o, &i);
    bool good = i.reached && at_minimum(p, r.loss) &&
                r.loss >= p->minimum - 1e-5 * fmax(1, fabs(p->minimum)) && worst <= 1e-6 && error <= 1e-3 &&
                r.converged;
    assert_true(fabs(worst - r.violation) <= 1e-12 * fmax(1, worst));
    s->solved += good;
    s->reached += i.reached;
    s->calls += i.calls;
    s->hessians += gd_optimizer_attr(o, "hessians", 0);
    if (!good || getenv("GD_VERBOSE"))
        print_message(
            "%-6s %s %4d evaluations (SLSQP %d), end: %.10g for %.10g, violation %.2g, multipliers %.2g, kkt %.2g, %d "
            "evaluations, %s\n",
            p->name, good ? "      " : "NOT AT", i.reached, p->evals, r.loss, p->minimum, worst, error,
            r.gradient_norm, i.calls, gd_stop_name(r.reason));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    close_instance(&i);
    end_context(ctx, NULL);
}

static score run_all(const char *inner)
{
    score s = {0};
    for (int i = 0; i < CONSTRAINED_COUNT; i++) run_one(&constrained_problems[i], inner, &s);
    print_message("%s: %d of %d solved, %lld evaluations to the targets, %lld in all\n", inner, s.solved,
                  CONSTRAINED_COUNT, (long long)s.reached, (long long)s.calls);
    return s;
}

static void nlp_solves_all_twenty(void **state)
{
    (void)state;
    score s = run_all("nlp");
    print_message("%.0f Hessians\n", s.hessians);
    assert_int_equal(s.solved, CONSTRAINED_COUNT);
    assert_true(s.calls <= 220 && s.hessians <= 190);
}

/* Without stage 1, and without second derivatives. */
static void the_interior_point_alone_and_a_model_solve_them_too(void **state)
{
    (void)state;
    assert_int_equal(run_all("nlp(method=\"interior_point\")").solved, CONSTRAINED_COUNT);
    assert_true(run_all("nlp(hessian=\"bfgs\")").solved >= CONSTRAINED_COUNT - 1);
}

static void all_twenty_are_solved_with_their_multipliers(void **state)
{
    (void)state;
    score s = run_all("lbfgs | strong_wolfe");
    assert_int_equal(s.solved, CONSTRAINED_COUNT);
    assert_true(s.calls <= 4000);
}

/* ---- from anywhere ---- */

/* Five starts a problem: every element moved by up to its size, at least 1. */
static void move_start(instance *i, int number)
{
    uint64_t seed = 88172645463325252u + 1000003u * (uint64_t)number;
    double x[N];
    assert_int_equal(gd_read_f64(i->x, x, i->p->n), GD_OK);
    for (int k = 0; k < i->p->n; k++) {
        for (int r = 0; r < 4; r++) seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        double u = 2 * (double)(seed >> 11) / 9007199254740992.0 - 1;
        x[k] = fmin(fmax(x[k] + u * fmax(1, fabs(x[k])), i->low[k]), i->high[k]);
    }
    gd_no_grad_begin(gd_tensor_ctx(i->x));
    assert_int_equal(gd_write_f64(i->x, x, i->p->n), GD_OK);
    gd_no_grad_end(gd_tensor_ctx(i->x));
}

static double slope_of_loss(instance *i)
{
    gd_tensor *f = gd_expr_eval(i->f, &i->x, GD_F64), *g = NULL;
    assert_int_equal(gd_grad(f, NULL, &i->x, 1, 0, &g), GD_OK);
    return gd_item(gd_max(gd_abs(g), NULL, false));
}

static bool reaches_from(const constrained_problem *p, int number)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i;
    open_instance(ctx, p, &i);
    move_start(&i, number);
    double slope = slope_of_loss(&i);
    gd_optimizer *o = optimizer_for(ctx, &i, "nlp");
    gd_objective objective = {
        .loss = loss, .user = &i, .equal = i.equals ? equal : NULL, .below = i.belows ? below : NULL};
    gd_solve_result r;
    assert_int_equal(gd_minimize_with(o, &objective, NULL, &r), GD_OK);
    assert_true(!r.converged || (violation(ctx, &i) <= 1e-8 && r.gradient_norm <= 1e-5 * fmax(1, slope)));
    bool reached = i.reached && at_minimum(p, r.loss);
    if (!reached)
        print_message("%s from start %d: %.10g for %.10g, %s, violation %.2g\n", p->name, number, r.loss,
                      p->minimum, gd_stop_name(r.reason), r.violation);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    close_instance(&i);
    end_context(ctx, NULL);
    return reached;
}

static void nlp_reaches_the_minima_from_random_starts(void **state)
{
    int reached = 0;
    (void)state;
    for (int i = 0; i < 5 * CONSTRAINED_COUNT; i++) reached += reaches_from(&constrained_problems[i / 5], i);
    print_message("%d of %d starts\n", reached, 5 * CONSTRAINED_COUNT);
    assert_true(reached >= 95);
}

/* ---- what is said of problems that have no ordinary end ---- */

static void run_degenerate(const degenerate_problem *d, int *wrong)
{
    constrained_problem p = {.name = d->name,
                             .n = d->n,
                             .start = d->start,
                             .low = d->low,
                             .high = d->high,
                             .expression = d->expression};
    memcpy(p.equal, d->equal, sizeof d->equal);
    memcpy(p.below, d->below, sizeof d->below);
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i;
    open_instance(ctx, &p, &i);
    gd_optimizer *o = optimizer_for(ctx, &i, "nlp");
    gd_objective objective = {
        .loss = loss, .user = &i, .equal = i.equals ? equal : NULL, .below = i.belows ? below : NULL};
    gd_solve_result r;
    gd_status status = gd_minimize_with(o, &objective, NULL, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    double worst = violation(ctx, &i), m = d->minimum;
    if (fabs(r.loss - d->other) < fabs(r.loss - m)) m = d->other;
    bool right = d->ends >> r.reason & 1;
    if (r.converged) right = right && worst <= 1e-8 && fabs(r.loss - m) <= 1e-6 * fmax(1, fabs(m));
    if (r.reason == GD_STOP_INFEASIBLE) right = right && worst > 1e-7;
    if (r.reason == GD_STOP_UNBOUNDED) right = right && r.loss < -1e6;
    if (!right || getenv("GD_VERBOSE"))
        print_message("%-34s %s %s, %.10g for %.10g, violation %.2g, kkt %.2g, %d evaluations\n", d->name,
                      right ? "     " : "WRONG", gd_stop_name(r.reason), r.loss, m, worst, r.gradient_norm,
                      i.calls);
    *wrong += !right;
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    close_instance(&i);
    end_context(ctx, NULL);
}

static void nlp_says_what_is_true_of_degenerate_problems(void **state)
{
    int wrong = 0;
    (void)state;
    for (int i = 0; i < DEGENERATE_COUNT; i++) run_degenerate(&degenerate_problems[i], &wrong);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nlp_solves_all_twenty),
        cmocka_unit_test(the_interior_point_alone_and_a_model_solve_them_too),
        cmocka_unit_test(nlp_reaches_the_minima_from_random_starts),
        cmocka_unit_test(nlp_says_what_is_true_of_degenerate_problems),
        cmocka_unit_test(all_twenty_are_solved_with_their_multipliers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
