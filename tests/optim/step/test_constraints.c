/* Constraints of an objective: refused where nobody honours them, multipliers as attribute, states that go on after a file. */
#include "gradus/solve.h"
#include "optim/optim_support.h"

#include <unistd.h>

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    int losses, equals, belows; /* calls */
} run;

/* (x - 2)^2 + (y - 1)^2 with x - 2 y = -1 and x^2 / 4 + y^2 <= 1 (HS14): multipliers 1.594491, 1.846591. */
static gd_tensor *at(const run *r, int i) { return gd_slice(r->p, "0", i, i + 1, 1); }
static gd_tensor *loss(void *user)
{
    run *r = user;
    r->losses++;
    gd_tensor *to = gd_from_f64(r->ctx, GD_F64, 1, (int64_t[]){2}, (double[]){2, 1});
    return gd_sum(gd_square(gd_sub(r->p, to)), NULL, false);
}
static gd_tensor *equal(void *user)
{
    run *r = user;
    r->equals++;
    return gd_add_scalar(gd_sub(at(r, 0), gd_mul_scalar(at(r, 1), 2)), 1);
}
static gd_tensor *below(void *user)
{
    run *r = user;
    r->belows++;
    return gd_add_scalar(gd_add(gd_mul_scalar(gd_square(at(r, 0)), 0.25), gd_square(at(r, 1))), -1);
}
/* No number is both. */
static gd_tensor *impossible(void *user)
{
    run *r = user;
    return gd_add_scalar(gd_square(at(r, 0)), 1);
}

static run open_run(const char *chain)
{
    run r = {.ctx = context(NULL, 1, NULL)};
    r.p = gd_require_grad(gd_from_f64(r.ctx, GD_F64, 1, (int64_t[]){2}, (double[]){2, 2}));
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, chain));
    if (!r.o) fail_msg("%s: %s", chain, gd_error_text(r.ctx));
    OK(gd_optimizer_add(r.o, "p", r.p));
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    end_context(r->ctx, NULL);
}

static gd_objective objective_of(run *r)
{
    return (gd_objective){.loss = loss, .user = r, .equal = equal, .below = below};
}

static void a_chain_that_honours_none_is_refused_and_nothing_moves(void **state)
{
    (void)state;
    double x[2];
    run r = open_run("adam | lr(0.1)");
    gd_objective objective = objective_of(&r);
    assert_int_equal(gd_optimizer_step(r.o, &objective, NULL), GD_STATE);
    assert_error(
        r.ctx, GD_STATE,
        "the objective has constraints, and no link of the chain looks at them: nlp and augmented_lagrangian(...) do");
    OK(gd_read_f64(r.p, x, 2));
    assert_true(x[0] == 2 && x[1] == 2);
    close_run(&r);
}

static void many_chains_may_be_inside(void **state)
{
    (void)state;
    static const char *const inner[] = {"lbfgs | strong_wolfe",
                                        "newton | strong_wolfe",
                                        "bfgs | backtracking",
                                        "trust_cg(newton)",
                                        "box(-5, 5) | lbfgs | strong_wolfe",
                                        "newton_cg | strong_wolfe"};
    for (int i = 0; i < COUNT_OF(inner); i++) {
        char chain[200];
        double m[2], x[2];
        snprintf(chain, sizeof chain, "augmented_lagrangian([%s])", inner[i]);
        run r = open_run(chain);
        gd_objective objective = objective_of(&r);
        gd_solve_result result;
        OK(gd_minimize_with(r.o, &objective, NULL, &result));
        OK(gd_read_f64(gd_optimizer_attr_tensor(r.o, "multipliers"), m, 2));
        OK(gd_read_f64(r.p, x, 2));
        if (!result.converged || fabs(result.loss - 1.39346498069) > 2e-6 || result.violation > 1e-6 ||
            fabs(m[0] - 1.594491) > 1e-3 || fabs(m[1] - 1.846591) > 1e-3 || fabs(x[0] - 0.822875655) > 1e-5)
            fail_msg("%s: %s, %.10g at %g %g, violation %g, multipliers %g %g", chain,
                     gd_stop_name(result.reason), result.loss, x[0], x[1], result.violation, m[0], m[1]);
        close_run(&r);
    }
}

/* Multipliers, penalty, violation and the choice of the best point all ask for the constraints. */
static void constraints_are_computed_once_per_point_and_counted(void **state)
{
    (void)state;
    static const char *const inner[] = {"lbfgs | strong_wolfe",
                                        "newton | strong_wolfe",
                                        "bfgs | backtracking",
                                        "trust_cg(newton)",
                                        "adam | lr(0.1)",
                                        "box(-5, 5) | lbfgs | strong_wolfe",
                                        "nlp"};
    for (int i = 0; i < COUNT_OF(inner); i++) {
        char chain[200];
        bool whole = !strcmp(inner[i], "nlp");
        snprintf(chain, sizeof chain, whole ? "%s" : "augmented_lagrangian([%s])", inner[i]);
        run r = open_run(chain);
        gd_objective objective = objective_of(&r);
        gd_solve_options options = gd_solve_defaults();
        gd_solve_result is;
        gd_step_info info;
        options.max_steps = 30;
        OK(gd_minimize_with(r.o, &objective, &options, &is));
        if (r.equals != r.belows || r.equals != is.constraint_evals || is.constraint_evals > is.evals)
            fail_msg("%s: %d and %d calls, %lld counted, %lld evaluations", chain, r.equals, r.belows,
                     (long long)is.constraint_evals, (long long)is.evals);
        /* a step of its own, where nothing is remembered from the one before */
        r.equals = r.belows = r.losses = 0;
        OK(gd_optimizer_step(r.o, &objective, &info));
        if (r.equals != r.belows || r.equals != info.constraint_evals - is.constraint_evals ||
            r.equals > r.losses)
            fail_msg("%s: in a step %d and %d calls, %d of the loss", chain, r.equals, r.belows, r.losses);
        close_run(&r);
    }
}

static void the_step_info_has_violation_and_residual(void **state)
{
    (void)state;
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    gd_objective objective = objective_of(&r);
    gd_step_info info;
    OK(gd_optimizer_step(r.o, &objective, &info));
    assert_true(info.violation == 4 && info.loss == 1); /* (2, 2): 1 + 4 - 1, and 2 - 4 + 1 */
    assert_true(info.kkt > 0);
    for (int i = 0; i < 60; i++) OK(gd_optimizer_step(r.o, &objective, &info));
    assert_true(info.violation <= 1e-6 && info.kkt <= 1e-5);
    close_run(&r);
}

/* Not that of the function with penalties, which augmented_lagrangian divides by the slope at the start. */
static void the_loss_of_a_step_is_the_objective(void **state)
{
    (void)state;
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    gd_no_grad_begin(r.ctx);
    OK(gd_fill(r.p, 40));
    gd_no_grad_end(r.ctx);
    gd_objective objective = objective_of(&r);
    for (int i = 0; i < 12; i++) {
        double x[2];
        gd_step_info info;
        OK(gd_read_f64(r.p, x, 2));
        OK(gd_optimizer_step(r.o, &objective, &info));
        double f = (x[0] - 2) * (x[0] - 2) + (x[1] - 1) * (x[1] - 1);
        if (!(fabs(info.loss - f) <= 1e-12 * f)) fail_msg("step %d: %.17g, not %.17g", i, info.loss, f);
    }
    close_run(&r);
}

static void constraints_that_cannot_be_met_end_it(void **state)
{
    (void)state;
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    gd_solve_result result;
    OK(gd_minimize_with(r.o, &(gd_objective){.loss = loss, .user = &r, .equal = impossible}, NULL, &result));
    assert_int_equal(result.reason, GD_STOP_INFEASIBLE);
    assert_false(result.converged);
    assert_true(fabs(result.violation - 1) < 1e-3);
    close_run(&r);
}

static gd_tensor *bowl(void *user)
{
    run *r = user;
    return gd_sum(gd_square(r->p), NULL, false);
}

/* |p|^2 + 1: its least value is where the loss is least too, and every gradient is 0 there. */
static gd_tensor *bowl_and_one(void *user) { return gd_add_scalar(bowl(user), 1); }

static gd_tensor *no_number(void *user) { return gd_log(gd_neg(bowl_and_one(user))); }

static void nothing_converges_while_a_constraint_is_broken(void **state)
{
    (void)state;
    gd_solve_result result;
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    OK(gd_minimize_with(r.o, &(gd_objective){.loss = bowl, .user = &r, .below = bowl_and_one}, NULL,
                        &result));
    assert_int_equal(result.reason, GD_STOP_INFEASIBLE);
    assert_false(result.converged);
    assert_true(fabs(result.violation - 1) < 1e-6);
    close_run(&r);
}

static void a_constraint_that_is_no_number_counts_as_broken(void **state)
{
    (void)state;
    gd_step_info info;
    gd_solve_result result;
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    gd_objective objective = {.loss = bowl, .user = &r, .below = no_number};
    OK(gd_optimizer_step(r.o, &objective, &info));
    assert_true(isinf(info.violation));
    OK(gd_minimize_with(r.o, &objective, NULL, &result));
    assert_false(result.converged);
    assert_true(isinf(result.violation));
    close_run(&r);
}

static gd_tensor *holds(void *user) { return gd_gt(bowl(user), gd_ones_like(bowl(user))); }

/* Whether it holds says nothing of how far it is from holding. */
static void what_is_true_or_false_is_neither_a_constraint_nor_a_loss(void **state)
{
    (void)state;
    static const struct {
        gd_tensor *(*loss)(void *user), *(*equal)(void *user), *(*below)(void *user);
        const char *chain, *text;
    } rows[] = {
        {bowl, holds, NULL, "augmented_lagrangian([lbfgs | strong_wolfe])",
         "the constraints 'equal' are of dtype bool"},
        {bowl, NULL, holds, "augmented_lagrangian([lbfgs | strong_wolfe])",
         "the constraints 'below' are of dtype bool"},
        {holds, NULL, NULL, "lbfgs | strong_wolfe", "the objective returned true or false"},
        {holds, NULL, NULL, "cma_es", "the objective returned true or false"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        run r = open_run(rows[i].chain);
        double p[2];
        gd_objective objective = {
            .loss = rows[i].loss, .user = &r, .equal = rows[i].equal, .below = rows[i].below};
        assert_int_equal(gd_minimize_with(r.o, &objective, NULL, NULL), GD_DTYPE);
        if (!strstr(gd_error_text(r.ctx), rows[i].text)) fail_msg("%zu: %s", i, gd_error_text(r.ctx));
        gd_clear_error(r.ctx);
        OK(gd_read_f64(r.p, p, 2));
        assert_true(p[0] == 2 && p[1] == 2);
        close_run(&r);
    }
}

/* ---- what a run says, and the numbers beside it ---- */

static gd_tensor *sum(void *user) { return gd_sum(((run *)user)->p, NULL, false); }
/* x y >= 0.3 */
static gd_tensor *hyperbola(void *user)
{
    run *r = user;
    return gd_add_scalar(gd_neg(gd_mul(at(r, 0), at(r, 1))), 0.3);
}
static gd_tensor *nothing_below(void *user) { return gd_add_scalar(at(user, 0), -5); }

static void no_outcome_contradicts_the_numbers_beside_it(void **state)
{
    (void)state;
    static const struct {
        gd_tensor *(*loss)(void *user), *(*equal)(void *user), *(*below)(void *user);
        double start;
        const char *box;
        gd_stop reason; /* GD_STOP_COUNT: whatever is true */
    } rows[] = {{sum, NULL, hyperbola, 0.9, "", GD_STOP_COUNT},
                {sum, NULL, hyperbola, 0.9, "box(0, 1) | ", GD_STOP_COUNT},
                {sum, NULL, hyperbola, 0.9, "box(0.1, 1) | ", GD_STOP_GRADIENT},
                {sum, NULL, hyperbola, 0, "box(0, 1) | ", GD_STOP_COUNT},
                {sum, NULL, nothing_below, 1, "", GD_STOP_COUNT},
                {sum, NULL, impossible, 2, "", GD_STOP_COUNT},
                {bowl, NULL, impossible, 2, "", GD_STOP_INFEASIBLE},
                {bowl, impossible, NULL, 2, "", GD_STOP_INFEASIBLE},
                {bowl, NULL, hyperbola, 2, "box(-0.1, 0.1) | ", GD_STOP_INFEASIBLE},
                {bowl, NULL, nothing_below, 2, "", GD_STOP_GRADIENT},
                {loss, equal, below, 2, "", GD_STOP_GRADIENT}};
    static const char *const chains[] = {"lbfgs | strong_wolfe", "bfgs | backtracking", "trust_cg(newton)"};
    for (int i = 0; i < COUNT_OF(rows) * COUNT_OF(chains); i++) {
        int k = i / COUNT_OF(chains);
        char chain[120];
        snprintf(chain, sizeof chain, "augmented_lagrangian([%s%s])", rows[k].box,
                 chains[i % COUNT_OF(chains)]);
        run r = open_run(chain);
        gd_no_grad_begin(r.ctx);
        OK(gd_fill(r.p, rows[k].start));
        gd_no_grad_end(r.ctx);
        gd_objective o = {.loss = rows[k].loss, .equal = rows[k].equal, .below = rows[k].below, .user = &r};
        gd_solve_result is;
        OK(gd_minimize_with(r.o, &o, NULL, &is));
        double x[2];
        OK(gd_read_f64(r.p, x, 2));
        bool broken = !(is.violation <= 1e-6), far = fmax(fabs(x[0]), fabs(x[1])) > 1e6;
        bool wrong = rows[k].reason != GD_STOP_COUNT && is.reason != rows[k].reason;
        if (wrong || (is.converged && (broken || far || !(is.gradient_norm <= 1e-4))) ||
            (is.reason == GD_STOP_INFEASIBLE && !broken))
            fail_msg("row %d, %s: %s at %g, %g, loss %g, gradient %g, violation %g", k, chain,
                     gd_stop_name(is.reason), x[0], x[1], is.loss, is.gradient_norm, is.violation);
        close_run(&r);
    }
}

/* ---- several starts ---- */

/* (x^2 - 1)^2 + 0.3 x + y^2: the lower well is on the left. */
static gd_tensor *wells(void *user)
{
    run *r = user;
    gd_tensor *x = at(r, 0), *well = gd_square(gd_add_scalar(gd_square(x), -1));
    return gd_sum(gd_add(gd_add(well, gd_mul_scalar(x, 0.3)), gd_square(at(r, 1))), NULL, false);
}
static gd_tensor *left_of_minus_half(void *user) { return gd_add_scalar(at(user, 0), 0.5); }
static gd_tensor *y_follows_x(void *user) { return gd_sub(at(user, 1), at(user, 0)); }
/* x^2 >= 3 and y = x: the wells are outside, and the left end is the lower one. */
static gd_tensor *beyond_the_wells(void *user) { return gd_add_scalar(gd_neg(gd_square(at(user, 0))), 3); }

/* The lowest of the ends that satisfy the constraints counts, with its multipliers. */
static void starts_under_constraints_end_at_the_best_feasible_minimum(void **state)
{
    (void)state;
    static const struct {
        const char *chain;
        gd_tensor *(*equal)(void *user), *(*below)(void *user);
        double x; /* in closed form: NAN where only the lower well is known */
    } rows[] = {
        {"box(-2, 2) | multi_start(augmented_lagrangian([lbfgs | strong_wolfe]), 8)", NULL,
         left_of_minus_half, NAN},
        {"multi_start(augmented_lagrangian([box(-2, 2) | bfgs | strong_wolfe]), 8)", NULL, left_of_minus_half,
         NAN},
        {"box(-2, 2) | multi_start(augmented_lagrangian([lbfgs | strong_wolfe]), 8)", y_follows_x,
         beyond_the_wells, -1.7320508075688772},
        {"basin_hopping(augmented_lagrangian([lbfgs | strong_wolfe]), 40, reach=2)", y_follows_x,
         beyond_the_wells, -1.7320508075688772},
    };
    for (int k = 0; k < COUNT_OF(rows); k++) {
        run r = open_run(rows[k].chain);
        gd_no_grad_begin(r.ctx);
        OK(gd_fill(r.p, 1.9));
        gd_no_grad_end(r.ctx);
        gd_objective o = {.loss = wells, .equal = rows[k].equal, .below = rows[k].below, .user = &r};
        gd_solve_result is;
        OK(gd_minimize_with(r.o, &o, NULL, &is));
        double x[2], m[2] = {NAN, NAN};
        OK(gd_read_f64(r.p, x, 2));
        gd_tensor *multipliers = gd_optimizer_attr_tensor(r.o, "multipliers");
        assert_non_null(multipliers);
        OK(gd_read_f64(multipliers, m, gd_numel(multipliers)));
        bool right = isnan(rows[k].x) ? fabs(4 * x[0] * (x[0] * x[0] - 1) + 0.3) < 1e-4 && x[0] < -1
                                      : fabs(x[0] - rows[k].x) < 1e-5 && fabs(x[1] - rows[k].x) < 1e-5;
        if (!right || is.reason != GD_STOP_LINK || !(is.violation <= 1e-6) || !(is.gradient_norm <= 1e-4))
            fail_msg("%s: %s at %g, %g, violation %g, gradient %g", rows[k].chain, gd_stop_name(is.reason),
                     x[0], x[1], is.violation, is.gradient_norm);
        /* the gradient of the loss is - l grad h - m grad g: of y, 2 y + l = 0; of x, 4 x (x^2 - 1) + 0.3 - l - 2 x m = 0 */
        double slope = 4 * x[0] * (x[0] * x[0] - 1) + 0.3;
        if (rows[k].equal)
            assert_true(fabs(2 * x[1] + m[0]) < 1e-3 && fabs(slope - m[0] - 2 * x[0] * m[1]) < 1e-3);
        else
            assert_true(fabs(m[0]) < 1e-6);
        assert_true(gd_optimizer_attr(r.o, "solved", 0) == 1);
        close_run(&r);
    }
}

/* Every start fails to satisfy them: the end is where they are violated least. */
static void starts_that_find_nothing_feasible_are_infeasible(void **state)
{
    (void)state;
    run r = open_run("multi_start(augmented_lagrangian([lbfgs | strong_wolfe]), 3)");
    gd_objective o = {.loss = bowl, .below = impossible, .user = &r};
    gd_solve_result is;
    double x[2];
    OK(gd_minimize_with(r.o, &o, NULL, &is));
    OK(gd_read_f64(r.p, x, 2));
    assert_int_equal(is.reason, GD_STOP_INFEASIBLE);
    assert_true(fabs(is.violation - 1) < 1e-6 && fabs(x[0]) < 1e-3);
    close_run(&r);
    r = open_run("augmented_lagrangian([multi_start([lbfgs | strong_wolfe], 3)])");
    o.user = &r;
    assert_int_equal(gd_minimize_with(r.o, &o, NULL, &is), GD_NOT_IMPLEMENTED);
    assert_error(
        r.ctx, GD_NOT_IMPLEMENTED,
        "multi_start: it is inside augmented_lagrangian; write multi_start(augmented_lagrangian([...]))");
    close_run(&r);
}

/* (x - 2)^2 with y = x: the loss does not know y. */
static gd_tensor *of_x_alone(void *user)
{
    return gd_sum(gd_square(gd_add_scalar(at(user, 0), -2)), NULL, false);
}
static gd_tensor *first_of_two(void *user) { return gd_square(gd_add_scalar(((gd_tensor **)user)[0], -2)); }
static gd_tensor *difference_of_two(void *user)
{
    return gd_sub(((gd_tensor **)user)[0], ((gd_tensor **)user)[1]);
}

static void a_parameter_may_be_in_constraints_alone(void **state)
{
    (void)state;
    double x[2];
    run r = open_run("augmented_lagrangian([lbfgs | strong_wolfe])");
    gd_objective o = {.loss = of_x_alone, .equal = y_follows_x, .user = &r};
    gd_solve_result is;
    OK(gd_minimize_with(r.o, &o, NULL, &is));
    OK(gd_read_f64(r.p, x, 2));
    assert_true(is.converged && fabs(x[0] - 2) < 1e-5 && fabs(x[1] - 2) < 1e-5);
    close_run(&r);
    /* and as a tensor of its own, which the graph of the loss does not reach */
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_tensor *both[2] = {gd_require_grad(gd_scalar(ctx, GD_F64, 7)),
                          gd_require_grad(gd_scalar(ctx, GD_F64, -3))};
    o = (gd_objective){.loss = first_of_two, .equal = difference_of_two, .user = both};
    OK(gd_minimize(both, 2, &o, "augmented_lagrangian([lbfgs | strong_wolfe])", NULL, &is));
    assert_true(is.converged && fabs(gd_item(both[0]) - 2) < 1e-5 && fabs(gd_item(both[1]) - 2) < 1e-5);
    gd_release(both[0]);
    gd_release(both[1]);
    end_context(ctx, NULL);
}

/* Some steps, a file, and as many again: whole, and in two parts. */
static void check_resumed(const char *chain, int steps)
{
    char path[] = "/tmp/gradus_constraints_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    double middle[2], whole[2], resumed[2];
    run r = open_run(chain);
    gd_objective objective = objective_of(&r);
    for (int i = 0; i < steps; i++) OK(gd_optimizer_step(r.o, &objective, NULL));
    OK(gd_optimizer_save(r.o, path));
    OK(gd_read_f64(r.p, middle, 2));
    for (int i = 0; i < steps; i++) OK(gd_optimizer_step(r.o, &objective, NULL));
    OK(gd_read_f64(r.p, whole, 2));
    close_run(&r);
    r = open_run(chain);
    objective = objective_of(&r);
    gd_no_grad_begin(r.ctx);
    OK(gd_write_f64(r.p, middle, 2));
    gd_no_grad_end(r.ctx);
    OK(gd_optimizer_load(r.o, path, true));
    for (int i = 0; i < steps; i++) OK(gd_optimizer_step(r.o, &objective, NULL));
    OK(gd_read_f64(r.p, resumed, 2));
    if (memcmp(whole, resumed, sizeof whole) != 0)
        fail_msg("%s: %.17g %.17g, resumed %.17g %.17g", chain, whole[0], whole[1], resumed[0], resumed[1]);
    assert_true(memcmp(middle, whole, sizeof whole) != 0);
    close_run(&r);
    unlink(path);
}

static void saved_and_loaded_it_goes_on_with_the_same_bits(void **state)
{
    (void)state;
    check_resumed("augmented_lagrangian([lbfgs | strong_wolfe])", 9);
    check_resumed("nlp", 2);
    check_resumed("box(-5, 5) | nlp(method=\"interior_point\")", 3);
    check_resumed("nlp(hessian=\"bfgs\")", 3);
}

/* Infeasible problems are restored, from step to step. */
static void a_restoration_goes_on_after_a_file_too(void **state)
{
    (void)state;
    char path[] = "/tmp/gradus_constraints_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    double whole[2], resumed[2], middle[2];
    for (int at = 8; at < 24; at += 5)
        for (int turn = 0; turn < 2; turn++) {
            run r = open_run("nlp(method=\"interior_point\")");
            gd_objective o = {.loss = sum, .user = &r, .equal = impossible};
            for (int i = 0; i < 30; i++) {
                if (turn && i < at) continue;
                if (turn && i == at) {
                    gd_no_grad_begin(r.ctx);
                    OK(gd_write_f64(r.p, middle, 2));
                    gd_no_grad_end(r.ctx);
                    OK(gd_optimizer_load(r.o, path, true));
                }
                OK(gd_optimizer_step(r.o, &o, NULL));
                if (turn || i + 1 != at) continue;
                OK(gd_optimizer_save(r.o, path));
                OK(gd_read_f64(r.p, middle, 2));
            }
            OK(gd_read_f64(r.p, turn ? resumed : whole, 2));
            close_run(&r);
            if (turn) assert_memory_equal(whole, resumed, sizeof whole);
        }
    unlink(path);
}

/* x + y under x^2 + y^2 <= 2: at (-1, -1) with multiplier 1/2; inside x, y >= -1/2 at that corner, with multipliers 1 of the bounds. */
static gd_tensor *disc(void *user)
{
    run *r = user;
    return gd_add_scalar(gd_sum(gd_square(r->p), NULL, false), -2);
}

static void without_a_chain_constraints_take_nlp_and_give_multipliers(void **state)
{
    (void)state;
    double m[1], b[2], x[2];
    run r = open_run("box(-0.5, 3) | nlp");
    gd_solve_options options = gd_solve_defaults();
    options.multipliers = m;
    options.multiplier_count = 1;
    options.bound_multipliers = b;
    gd_solve_result is;
    gd_objective o = {.loss = sum, .user = &r, .below = disc};
    OK(gd_minimize_with(r.o, &o, &options, &is));
    OK(gd_read_f64(r.p, x, 2));
    assert_true(is.converged && fabs(x[0] + 0.5) < 1e-6 && fabs(x[1] + 0.5) < 1e-6);
    assert_true(fabs(m[0]) < 1e-6 && fabs(b[0] - 1) < 1e-6 && fabs(b[1] - 1) < 1e-6);
    gd_link *chain = gd_chain_for(&r.p, 1, &o, false);
    assert_string_equal(gd_link_class_of(chain)->name, "nlp");
    gd_link_release(chain);
    chain = gd_chain_for(&r.p, 1, &o, true);
    assert_string_equal(gd_link_class_of(chain)->name, "augmented_lagrangian");
    gd_link_release(chain);
    OK(gd_minimize(&r.p, 1, &o, NULL, &options, &is));
    OK(gd_read_f64(r.p, x, 2));
    assert_true(is.converged && fabs(x[0] + 1) < 1e-6 && fabs(x[1] + 1) < 1e-6);
    assert_true(fabs(m[0] - 0.5) < 1e-6 && b[0] == 0 && b[1] == 0);
    close_run(&r);
}

static gd_tensor *root(void *user) { return gd_add_scalar(gd_sqrt(gd_add_scalar(at(user, 0), -5)), -1); }

static void a_start_outside_the_domain_is_refused_by_name(void **state)
{
    (void)state;
    double x[2];
    run r = open_run("nlp");
    gd_solve_result is;
    gd_objective o = {.loss = bowl, .user = &r, .below = root};
    assert_int_equal(gd_minimize_with(r.o, &o, NULL, &is), GD_VALUE);
    assert_error(r.ctx, GD_VALUE, "nlp: constraint 0 of 'below' is not a number where the parameters start");
    OK(gd_read_f64(r.p, x, 2));
    assert_true(x[0] == 2 && x[1] == 2);
    close_run(&r);
}

static gd_status bowl_numbers(void *user, double *loss, gd_tensor *const *grads)
{
    run *r = user;
    double x[2], g[2];
    gd_status status = gd_read_f64(r->p, x, 2);
    r->losses++;
    g[0] = 2 * (x[0] - 2), g[1] = 2 * (x[1] - 1);
    *loss = (x[0] - 2) * (x[0] - 2) + (x[1] - 1) * (x[1] - 1);
    return status ? status : gd_write_f64(grads[0], g, 2);
}

static void objectives_of_numbers_get_a_model_of_the_curvature(void **state)
{
    (void)state;
    double x[2];
    run r = open_run("nlp");
    gd_solve_result is;
    gd_objective o = {.gradient = bowl_numbers, .user = &r, .equal = equal, .below = below};
    OK(gd_minimize_with(r.o, &o, NULL, &is));
    OK(gd_read_f64(r.p, x, 2));
    if (!is.converged || fabs(is.loss - 1.39346498069) > 1e-7 || fabs(x[0] - 0.822875655) > 1e-6)
        fail_msg("%s, %.10g", gd_stop_name(is.reason), is.loss);
    assert_true(is.evals == r.losses && is.evals <= 40);
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_chain_that_honours_none_is_refused_and_nothing_moves),
        TEST(many_chains_may_be_inside),
        TEST(constraints_are_computed_once_per_point_and_counted),
        TEST(the_step_info_has_violation_and_residual),
        TEST(the_loss_of_a_step_is_the_objective),
        TEST(constraints_that_cannot_be_met_end_it),
        TEST(nothing_converges_while_a_constraint_is_broken),
        TEST(a_constraint_that_is_no_number_counts_as_broken),
        TEST(what_is_true_or_false_is_neither_a_constraint_nor_a_loss),
        TEST(no_outcome_contradicts_the_numbers_beside_it),
        TEST(starts_under_constraints_end_at_the_best_feasible_minimum),
        TEST(starts_that_find_nothing_feasible_are_infeasible),
        TEST(a_parameter_may_be_in_constraints_alone),
        TEST(saved_and_loaded_it_goes_on_with_the_same_bits),
        TEST(a_restoration_goes_on_after_a_file_too),
        TEST(without_a_chain_constraints_take_nlp_and_give_multipliers),
        TEST(a_start_outside_the_domain_is_refused_by_name),
        TEST(objectives_of_numbers_get_a_model_of_the_curvature),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
