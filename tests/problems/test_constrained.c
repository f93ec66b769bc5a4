/* nlp and augmented_lagrangian on twenty problems of Hock and Schittkowski, and on degenerate ones. */
#include "problems/constrained_run.h"
#include "problems/degenerate.h"

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
                r.converged && kkt_here(&i) <= 1e-5;
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
    if (r.converged && !(kkt_here(&i) <= 1e-5))
        right = false, print_message("no KKT point: %.2g\n", kkt_here(&i));
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
