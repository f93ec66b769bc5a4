/* gd_var_evaluate_many: losses of many points, by gd_objective.values or one after the other. */
#include "optim/optim_support.h"

/* f = sum (p - 1)^2 + 2 q^2 of a row (p_0, p_1, q), as problem_loss has it. */
static double loss_at(const double *x)
{
    return (x[0] - 1) * (x[0] - 1) + (x[1] - 1) * (x[1] - 1) + 2 * x[2] * x[2];
}

static const double rows[4][3] = {{0, 0, 0}, {1, 1, 2}, {-3, 0.5, 0.25}, {3, -1, 0.5}};

static gd_tensor *points_of(gd_ctx *ctx) { return gd_from_f64(ctx, GD_F64, 2, (int64_t[]){4, 3}, rows[0]); }

static struct {
    double losses[4];
    gd_status status;
    int64_t evals;
} got;

static gd_status ask_many(gd_link *link, gd_var *var)
{
    (void)link;
    gd_optimizer *o = gd_var_optimizer(var);
    for (int i = 0; i < 4; i++) got.losses[i] = -7;
    int64_t before = gd_optimizer_evals(o);
    got.status = gd_var_evaluate_many(var, points_of(gd_var_ctx(var)), got.losses);
    got.evals = gd_optimizer_evals(o) - before;
    gd_var_skip_update(var);
    return got.status;
}

static void assert_stayed(const problem *x)
{
    assert_values(x->p, 3, -1);
    assert_values(x->q, 0.5);
}

static void assert_losses(void)
{
    for (int i = 0; i < 4; i++) assert_true(fabs(got.losses[i] - loss_at(rows[i])) < 1e-15 * 100);
}

static void points_are_visited_and_the_parameters_come_back(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_step_info info;
    probe.a = ask_many;
    OK(step(&x, &info));
    assert_losses();
    assert_stayed(&x);
    assert_int_equal(x.calls, 4);
    assert_int_equal(got.evals, 4);
    assert_false(info.has_loss); /* nobody evaluated where the step is */
    close_problem(&x);
}

/* ---- all at once ---- */

typedef struct batched {
    problem x;
    int calls, at_most; /* at_most: losses that it gives, -1: as many as points; -2: NULL */
} batched;

static gd_tensor *values(void *user, gd_tensor *points)
{
    batched *b = user;
    double v[12], f[4];
    int64_t k = gd_size(points, 0);
    b->calls++;
    if (b->at_most == -2) return NULL;
    OK(gd_read_f64(points, v, 3 * k));
    for (int i = 0; i < k; i++) f[i] = loss_at(v + 3 * i);
    if (b->at_most >= 0) k = b->at_most;
    return gd_from_f64(gd_tensor_ctx(points), GD_F64, 1, &k, f);
}

static gd_status step_batched(batched *b)
{
    gd_objective objective = {.user = b, .values = values};
    return gd_optimizer_step(b->x.o, &objective, NULL);
}

static void an_objective_with_values_is_called_once_for_all(void **state)
{
    batched b = {.x = open_problem(CTX(state), "probe_a"), .at_most = -1};
    probe.a = ask_many;
    OK(step_batched(&b));
    assert_losses();
    assert_stayed(&b.x);
    assert_int_equal(b.calls, 1);
    assert_int_equal(got.evals, 4);
    close_problem(&b.x);
}

static gd_status ask_one(gd_link *link, gd_var *var)
{
    (void)link;
    got.losses[0] = gd_var_loss_value(var, false);
    gd_var_skip_update(var);
    return gd_error(gd_var_ctx(var));
}

/* Of p = (3, -1), q = 0.5. */
static void values_alone_give_the_loss_of_a_step_too(void **state)
{
    batched b = {.x = open_problem(CTX(state), "probe_a"), .at_most = -1};
    probe.a = ask_one;
    OK(step_batched(&b));
    assert_true(got.losses[0] == 8.5);
    close_problem(&b.x);
}

static void too_few_losses_or_none_are_told(void **state)
{
    batched b = {.x = open_problem(CTX(state), "probe_a"), .at_most = 3};
    probe.a = ask_many;
    assert_int_equal(step_batched(&b), GD_SHAPE);
    assert_string_equal(gd_error_text(b.x.ctx), "the objective returned 3 losses for 4 points");
    gd_clear_error(b.x.ctx);
    b.at_most = -2;
    assert_int_equal(step_batched(&b), GD_CALLBACK);
    assert_string_equal(gd_error_text(b.x.ctx), "the objective returned NULL for the losses of 4 points");
    gd_clear_error(b.x.ctx);
    for (int i = 0; i < 4; i++) assert_true(got.losses[i] == -7);
    assert_stayed(&b.x);
    close_problem(&b.x);
}

static gd_tensor *twice(void *user, gd_tensor *loss) { return (void)user, gd_mul_scalar(loss, 2); }

static gd_status ask_changed(gd_link *link, gd_var *var)
{
    gd_status status = gd_var_reformulate(var, twice, NULL);
    return status ? status : ask_many(link, var);
}

/* The losses are those of the changed objective, which values knows nothing of. */
static void a_changed_objective_is_not_asked_for_values(void **state)
{
    batched b = {.x = open_problem(CTX(state), "probe_a"), .at_most = -1};
    gd_objective objective = {.user = &b.x, .loss = problem_loss, .values = values};
    probe.a = ask_changed;
    OK(gd_optimizer_step(b.x.o, &objective, NULL));
    for (int i = 0; i < 4; i++) assert_true(fabs(got.losses[i] - 2 * loss_at(rows[i])) < 1e-13);
    assert_int_equal(b.calls, 0);
    close_problem(&b.x);
}

/* ---- what goes wrong ---- */

static gd_tensor *logarithm(void *user)
{
    problem *x = user;
    return gd_sum(gd_log(gd_cat((gd_tensor *[]){x->p, x->q}, 2, "0")), NULL, false);
}

static void a_loss_that_is_not_finite_is_the_worst(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    gd_objective objective = {.loss = logarithm, .user = &x};
    probe.a = ask_many;
    OK(gd_optimizer_step(x.o, &objective, NULL));
    assert_true(got.losses[0] == INFINITY && got.losses[2] == INFINITY && got.losses[3] == INFINITY);
    assert_true(fabs(got.losses[1] - log(2)) < 1e-15);
    close_problem(&x);
}

static void a_failure_halfway_leaves_everything_as_it_was(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_many;
    for (x.fail_at = 1; x.fail_at <= 4; x.fail_at++) {
        x.calls = 0;
        assert_int_equal(step(&x, NULL), GD_CALLBACK);
        gd_clear_error(x.ctx);
        assert_stayed(&x);
        for (int i = 0; i < 4; i++) assert_true(got.losses[i] == -7);
    }
    close_problem(&x);
}

static gd_status ask_wrong(gd_link *link, gd_var *var)
{
    (void)link;
    double losses[4];
    gd_ctx *ctx = gd_var_ctx(var);
    assert_int_equal(gd_var_evaluate_many(var, gd_zeros(ctx, GD_F64, 2, (int64_t[]){4, 2}), losses),
                     GD_SHAPE);
    assert_string_equal(gd_error_text(ctx),
                        "points to evaluate: not a matrix with a column for each of the 3 elements");
    gd_clear_error(ctx);
    assert_int_equal(gd_var_evaluate_many(var, gd_zeros(ctx, GD_F64, 1, (int64_t[]){3}), losses), GD_SHAPE);
    gd_clear_error(ctx);
    OK(gd_var_evaluate_many(var, gd_zeros(ctx, GD_F64, 2, (int64_t[]){0, 3}), losses));
    gd_var_skip_update(var);
    return GD_OK;
}

static gd_status ask_without(gd_link *link, gd_var *var)
{
    double losses[4];
    assert_int_equal(gd_var_evaluate_many(var, points_of(gd_var_ctx(var)), losses), GD_STATE);
    return (void)link, gd_error(gd_var_ctx(var));
}

static void points_of_another_size_and_steps_without_objective_are_refused(void **state)
{
    problem x = open_problem(CTX(state), "probe_a");
    probe.a = ask_wrong;
    OK(step(&x, NULL));
    assert_int_equal(x.calls, 0);
    probe.a = ask_without;
    assert_int_equal(step_without(&x, NULL), GD_STATE);
    gd_clear_error(x.ctx);
    close_problem(&x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(points_are_visited_and_the_parameters_come_back),
        CASE(an_objective_with_values_is_called_once_for_all),
        CASE(values_alone_give_the_loss_of_a_step_too),
        CASE(too_few_losses_or_none_are_told),
        CASE(a_changed_objective_is_not_asked_for_values),
        CASE(a_loss_that_is_not_finite_is_the_worst),
        CASE(a_failure_halfway_leaves_everything_as_it_was),
        CASE(points_of_another_size_and_steps_without_objective_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
