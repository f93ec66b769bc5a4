/* augmented_lagrangian on twenty problems of Hock and Schittkowski. */
#include "expr/expr.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/bounds.h"
#include "problems/constrained.h"
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
    snprintf(text, sizeof text, "augmented_lagrangian([box | %s])", inner);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", i->x), GD_OK);
    gd_link *box = gd_link_child_at(gd_link_child(gd_optimizer_chain(o), "inner"), 0);
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

static void all_twenty_are_solved_with_their_multipliers(void **state)
{
    (void)state;
    score s = run_all("lbfgs | strong_wolfe");
    assert_int_equal(s.solved, CONSTRAINED_COUNT);
    assert_true(s.calls <= 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_twenty_are_solved_with_their_multipliers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
