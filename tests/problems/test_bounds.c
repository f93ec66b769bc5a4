/* Chains with bounds on thirty problems, against L-BFGS-B's evaluations. */
#include "expr/expr_internal.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "gradus/solve.h"
#include "problems/bounds.h"
#include "support/support.h"

#define CHAIN "lbfgs | strong_wolfe"

typedef struct instance {
    const bound_problem *p;
    gd_expr *expression;
    gd_tensor *value[1 + BOUND_DATA]; /* x, then data */
    bound_point point;
    int calls, reached; /* evaluations; how many to the first point within the target, 0: none yet */
    int outside;        /* evaluations outside the bounds */
    double scale;       /* largest element of the gradient at the start, at least 1 */
} instance;

/* Of a listed minimum. */
static bool within_target(const bound_problem *p, double f)
{
    for (int k = 0; k < 4 && !isnan(p->minimum[k]); k++) {
        double m = p->minimum[k], size = fabs(m);
        double tolerance = m == 0 ? 1e-8 : size < 0.01 ? 1e-4 * size : 1e-6 * fmax(1, size);
        /* listed with nine digits: another minimum is met as well as those allow */
        if (k && f < m - 1e-6 * size) continue;
        if (f <= m + tolerance) return true;
    }
    return false;
}

static bool is_inside(const instance *i, const double *x)
{
    for (int k = 0; k < i->p->n; k++)
        if (!(x[k] >= i->point.low[k] && x[k] <= i->point.high[k])) return false;
    return true;
}

static gd_tensor *evaluate(void *user)
{
    instance *i = user;
    double x[BOUND_MOST];
    gd_tensor *f = gd_expr_eval(i->expression, i->value, GD_F64);
    i->calls++;
    assert_int_equal(gd_read_f64(i->value[0], x, i->p->n), GD_OK);
    bool inside = is_inside(i, x);
    i->outside += !inside;
    if (!i->reached && f && inside && within_target(i->p, gd_item(f))) i->reached = i->calls;
    return f;
}

static void open_instance(gd_ctx *ctx, const bound_problem *p, instance *i)
{
    bound_data data = {.count = 0};
    const char *names[1 + BOUND_DATA] = {"x"};
    int64_t size[2] = {p->rows ? p->rows : p->n, p->rows ? p->n / p->rows : 1};
    *i = (instance){.p = p};
    bound_fill(p->start, 0, p->n, i->point.x);
    bound_fill(p->low, -INFINITY, p->n, i->point.low);
    bound_fill(p->high, INFINITY, p->n, i->point.high);
    if (p->fill) p->fill(&i->point);
    if (p->data) p->data(ctx, &data);
    for (int k = 0; k < data.count; k++) {
        names[1 + k] = data.name[k];
        i->value[1 + k] = data.value[k];
    }
    i->expression = gd_expr_parse(ctx, p->expression,
                                  &(gd_expr_options){.names = names, .count = 1 + data.count});
    i->value[0] = gd_require_grad(gd_from_f64(ctx, GD_F64, p->rows ? 2 : 1, size, i->point.x));
    assert_no_error(ctx);
}

/* The box with the bounds, before a chain. */
static gd_optimizer *optimizer_for(gd_ctx *ctx, instance *i, const char *chain)
{
    char text[200];
    gd_tensor *x = i->value[0];
    snprintf(text, sizeof text, "box | %s", chain);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, text));
    assert_no_error(ctx);
    assert_int_equal(gd_optimizer_add(o, "x", x), GD_OK);
    gd_link *box = gd_link_child_at(gd_optimizer_chain(o), 0);
    assert_int_equal(gd_link_set_for(box, x, "low", gd_setting_list(i->point.low, i->p->n)), GD_OK);
    assert_int_equal(gd_link_set_for(box, x, "high", gd_setting_list(i->point.high, i->p->n)), GD_OK);
    return o;
}

/* max |x - P(x - g)|, here, by itself. */
static double residual(gd_ctx *ctx, instance *i)
{
    double x[BOUND_MOST], g[BOUND_MOST], most = 0;
    gd_scope_begin(ctx);
    gd_tensor *grad = NULL, *f = gd_expr_eval(i->expression, i->value, GD_F64);
    assert_int_equal(gd_grad(f, NULL, i->value, 1, 0, &grad), GD_OK);
    assert_int_equal(gd_read_f64(i->value[0], x, i->p->n), GD_OK);
    assert_int_equal(gd_read_f64(grad, g, i->p->n), GD_OK);
    gd_scope_end(ctx);
    for (int k = 0; k < i->p->n; k++) {
        double to = fmin(fmax(x[k] - g[k], i->point.low[k]), i->point.high[k]);
        most = fmax(most, fabs(x[k] - to));
    }
    return most;
}

static double start_gradient(gd_ctx *ctx, instance *i)
{
    double x[BOUND_MOST], g[BOUND_MOST], most = 1;
    for (int k = 0; k < i->p->n; k++) x[k] = fmin(fmax(i->point.x[k], i->point.low[k]), i->point.high[k]);
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    assert_int_equal(gd_write_f64(i->value[0], x, i->p->n), GD_OK);
    gd_no_grad_end(ctx);
    gd_tensor *grad = NULL, *f = gd_expr_eval(i->expression, i->value, GD_F64);
    assert_int_equal(gd_grad(f, NULL, i->value, 1, 0, &grad), GD_OK);
    assert_int_equal(gd_read_f64(grad, g, i->p->n), GD_OK);
    for (int k = 0; k < i->p->n; k++) most = fmax(most, fabs(g[k]));
    gd_no_grad_begin(ctx);
    assert_int_equal(gd_write_f64(i->value[0], i->point.x, i->p->n), GD_OK);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return most;
}

typedef struct score {
    int solved, claimed;
    double log_ratio;
    int ran;
    int64_t evals, theirs;
} score;

static void run_one(const bound_problem *p, const char *chain, score *s)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_scope_begin(ctx);
    instance *i = malloc(sizeof *i);
    open_instance(ctx, p, i);
    i->scale = start_gradient(ctx, i);
    gd_optimizer *o = optimizer_for(ctx, i, chain);
    gd_solve_options options = gd_solve_defaults();
    options.max_steps = 3000;
    gd_solve_result r;
    gd_status status = gd_minimize_with(o, &(gd_objective){.loss = evaluate, .user = i}, &options, &r);
    assert_no_error(ctx);
    assert_int_equal(status, GD_OK);
    double x[BOUND_MOST], kkt = residual(ctx, i);
    assert_int_equal(gd_read_f64(i->value[0], x, p->n), GD_OK);
    assert_true(is_inside(i, x));
    assert_int_equal(i->outside, 0);
    /* what the solver says is what it is */
    assert_true(fabs(kkt - r.gradient_norm) <= 1e-12 * fmax(kkt, i->scale));
    bool good = i->reached && kkt <= 1e-5 * i->scale;
    s->solved += good;
    s->claimed += r.converged && !good;
    if (good) {
        s->log_ratio += log((double)i->reached / p->evals);
        s->evals += i->reached;
        s->theirs += p->evals;
    }
    if (!good || getenv("GD_VERBOSE"))
        print_message(
            "%-9s %-24s %s %4d evaluations (L-BFGS-B %d), end: %.10g, kkt %.2g, %d evaluations, %s\n",
            p->name, chain, good ? "      " : "NOT AT", i->reached, p->evals, r.loss, kkt, i->calls,
            gd_stop_name(r.reason));
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    gd_expr_free(i->expression);
    free(i);
    end_context(ctx, NULL);
}

/* Where suites are run once more, a third of the problems. */
static score run_all(const char *chain)
{
    score s = {0};
    for (int i = 0; i<BOUND_COUNT; i += test_share()> 1 ? 3 : 1, s.ran++)
        run_one(&bound_problems[i], chain, &s);
    print_message(
        "%s: %d of %d solved, geometric mean of evaluations by L-BFGS-B's %.3f, sums %lld and %lld\n", chain,
        s.solved, s.ran, exp(s.log_ratio / (s.solved ? s.solved : 1)), (long long)s.evals,
        (long long)s.theirs);
    return s;
}

static void the_default_chain_solves_all_with_at_most_1_2_of_their_evaluations(void **state)
{
    (void)state;
    score s = run_all(CHAIN);
    assert_int_equal(s.solved, s.ran);
    if (s.ran == BOUND_COUNT) assert_true(exp(s.log_ratio / s.solved) <= 1.2);
}

/* Those that are left end at other points where the residual is 0: EXPLIN and EXPQUAD have many. */
static void every_kind_of_chain_stays_inside_and_gets_there(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        int least;
    } cases[] = {
        {"bfgs | strong_wolfe", 30},
        {"bfgs(inverse=false) | strong_wolfe", 30},
        {"newton | strong_wolfe", 29},
        {"newton | backtracking", 29},
        {"newton_cg | strong_wolfe", 29},
        {"lsr1 | strong_wolfe", 30},
        {"trust_cg(newton)", 30},
        {"levenberg_marquardt(newton)", 29},
        {"dogleg(bfgs)", 30},
        {"cubic_regularization(newton)", 29},
        {"lbfgs | backtracking", 28},
        {"newton_cg_steihaug(hvp_method=\"autograd\")", 30},
    };
    for (int i = 0; i < COUNT_OF(cases); i += test_share()) {
        score s = run_all(cases[i].chain);
        assert_true(s.ran - s.solved <= BOUND_COUNT - cases[i].least);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_kind_of_chain_stays_inside_and_gets_there),
        cmocka_unit_test(the_default_chain_solves_all_with_at_most_1_2_of_their_evaluations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
