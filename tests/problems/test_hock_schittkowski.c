/* nlp on seventy-one more problems of Hock and Schittkowski, beside IPOPT and SLSQP; what it calls converged is a KKT point. */
#include "problems/constrained_more.h"
#include "problems/constrained_run.h"

typedef struct totals {
    int solved, ipopt, slsqp, converged, wrong, by_ipopt, by_slsqp;
    double log_ipopt, log_slsqp; /* sums of logarithms of ratios */
} totals;

/* start 0: the problem's own. */
static void run_one(const constrained_problem *p, int start, totals *s)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance i;
    open_instance(ctx, p, &i);
    if (start) move_start(&i, start);
    gd_optimizer *o = optimizer_for(ctx, &i, "nlp");
    gd_objective objective = {
        .loss = loss, .user = &i, .equal = i.equals ? equal : NULL, .below = i.belows ? below : NULL};
    gd_solve_result r;
    gd_status status = gd_minimize_with(o, &objective, NULL, &r);
    if (start && status == GD_VALUE) { /* outside the domain */
        assert_non_null(strstr(gd_error_text(ctx), "where the parameters start"));
        gd_clear_error(ctx);
    } else
        assert_int_equal(status, GD_OK);
    int calls = i.calls;
    double worst = violation(ctx, &i), kkt = status || !r.converged ? 0 : kkt_here(&i);
    bool good = !status && i.reached && at_minimum(p, r.loss) && worst <= 1e-6;
    bool wrong = !status && r.converged && !(worst <= 1e-8 && kkt <= 1e-5);
    s->solved += good;
    s->converged += !status && r.converged;
    s->wrong += wrong;
    if (!start) {
        s->ipopt += p->ipopt > 0;
        s->slsqp += p->evals > 0;
        if (good && p->ipopt > 0) s->by_ipopt++, s->log_ipopt += log((double)calls / p->ipopt);
        if (good && p->evals > 0) s->by_slsqp++, s->log_slsqp += log((double)i.reached / p->evals);
    }
    if (wrong || getenv("GD_VERBOSE"))
        print_message(
            "%-6s start %d %s %s %3d evaluations of %3d (SLSQP %d, IPOPT %d), end: %.10g for %.10g, "
            "violation %.2g, kkt %.2g (%.2g), %s\n",
            p->name, start, good ? "      " : "NOT AT", wrong ? "WRONG" : "", i.reached, calls, p->evals,
            p->ipopt, r.loss, p->minimum, worst, kkt, r.gradient_norm, gd_stop_name(r.reason));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    close_instance(&i);
    end_context(ctx, NULL);
}

static void nlp_solves_as_many_as_ipopt_with_fewer_evaluations(void **state)
{
    totals s = {0};
    (void)state;
    for (int i = 0; i < MORE_COUNT; i++) run_one(&more_problems[i], 0, &s);
    double by_ipopt = exp(s.log_ipopt / s.by_ipopt), by_slsqp = exp(s.log_slsqp / s.by_slsqp);
    print_message(
        "%d of %d at the minimum (IPOPT %d, SLSQP %d), %d called converged; evaluations x IPOPT %.2f, x SLSQP %.2f\n",
        s.solved, MORE_COUNT, s.ipopt, s.slsqp, s.converged, by_ipopt, by_slsqp);
    assert_int_equal(s.wrong, 0);
    assert_true(s.solved >= s.ipopt && by_ipopt <= 1 && by_slsqp <= 1);
}

static void what_is_called_converged_is_a_kkt_point_from_any_start(void **state)
{
    totals s = {0};
    (void)state;
    for (int start = 1; start <= 3; start++) {
        for (int i = 0; i < MORE_COUNT; i++) run_one(&more_problems[i], start, &s);
        for (int i = 0; i < CONSTRAINED_COUNT; i++) run_one(&constrained_problems[i], start, &s);
    }
    print_message("%d starts: %d at the minimum, %d called converged\n", 3 * (MORE_COUNT + CONSTRAINED_COUNT),
                  s.solved, s.converged);
    assert_int_equal(s.wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nlp_solves_as_many_as_ipopt_with_fewer_evaluations),
        cmocka_unit_test(what_is_called_converged_is_a_kkt_point_from_any_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
