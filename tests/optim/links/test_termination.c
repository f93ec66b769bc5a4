/* Links that say when to stop, that remember the best point, that start again. */
#include "optim/search_support.h"

/* Steps until the chain says stop; at most `most`. */
static int steps_until_stop(const char *chain, plain_fn fn, int n, const double *start, int most)
{
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, chain, fn, n, start);
    int steps = 0;
    while (steps < most && !r.info.terminate) {
        run_steps(&r, 1);
        steps++;
        assert_int_equal(gd_optimizer_should_terminate(r.o), r.info.terminate);
    }
    run_close(&r);
    end_context(ctx, NULL);
    return steps;
}

static const double one[] = {1};

static void counts_stop(void **state)
{
    (void)state;
    assert_int_equal(steps_until_stop("lr(0.1) | terminate_after_n_steps(7)", bowl, 1, one, 50), 7);
    assert_int_equal(steps_until_stop("lr(0.1) | terminate_never", bowl, 1, one, 50), 50);
    /* strong_wolfe: at least two evaluations per step */
    int steps = steps_until_stop("strong_wolfe | terminate_after_n_evaluations(10)", rosenbrock, 2,
                                 (double[]){-1.2, 1}, 50);
    assert_true(steps >= 1 && steps <= 5);
    assert_int_equal(steps_until_stop("lr(0.1) | terminate_after_n_seconds(0)", bowl, 1, one, 50), 1);
    assert_int_equal(steps_until_stop("lr(0.1) | terminate_after_n_seconds(1e6)", bowl, 1, one, 50), 50);
}

/* f = x^2 / 2 with lr 1/2: x halves every step, and g = x. */
static void norms_stop_after_some_steps_in_a_row(void **state)
{
    (void)state;
    /* |g| before step k is 2^-(k-1): below 1e-3 from step 11, for the third time in step 13 */
    assert_int_equal(steps_until_stop("lr(0.5) | terminate_by_gradient_norm(1e-3)", bowl, 1, one, 50), 13);
    assert_int_equal(steps_until_stop("lr(0.5) | terminate_by_gradient_norm(1e-3, n=1)", bowl, 1, one, 50),
                     11);
    /* the change that is seen in step k is 2^-(k-1) too */
    assert_int_equal(steps_until_stop("lr(0.5) | terminate_by_update_norm(1e-3, n=2)", bowl, 1, one, 50), 12);
    /* four equal elements: the 2-norm is twice, the 1-norm four times one of them, the largest one */
    const double four[] = {1, 0.5, 1.0 / 3, 0.25}; /* bowl's gradient is (i + 1) x */
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(1.99, n=1, ord=2) | lr(1e-9)", bowl, 4, four, 5), 5);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(2.01, n=1, ord=2) | lr(1e-9)", bowl, 4, four, 5), 1);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(3.99, n=1, ord=1) | lr(1e-9)", bowl, 4, four, 5), 5);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(4.01, n=1, ord=1) | lr(1e-9)", bowl, 4, four, 5), 1);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(1.01, n=1, ord=1e30) | lr(1e-9)", bowl, 4, four, 5), 1);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(1.6, n=1, ord=3) | lr(1e-9)", bowl, 4, four, 5), 1);
    assert_int_equal(
        steps_until_stop("terminate_by_gradient_norm(1.58, n=1, ord=3) | lr(1e-9)", bowl, 4, four, 5), 5);
}

/* The update points uphill, so every search fails and nothing moves: that is no small step and no loss that rests. */
static void a_failed_search_satisfies_no_rule(void **state)
{
    (void)state;
    static const char *const rules[] = {"terminate_by_update_norm(n=2)", "terminate_on_no_improvement(n=2)",
                                        "terminate_any(terminate_by_update_norm(n=2))"};
    static const char *const failing[] = {"lr(-1) | strong_wolfe", "lr(-1) | backtracking(init=1e-3)"};
    for (int i = 0; i < COUNT_OF(rules); i++)
        for (int k = 0; k < COUNT_OF(failing); k++) {
            char chain[160];
            snprintf(chain, sizeof chain, "%s | %s", failing[k], rules[i]);
            assert_int_equal(steps_until_stop(chain, bowl, 1, one, 12), 12);
            snprintf(chain, sizeof chain, "%s | %s", rules[i], failing[k]);
            assert_int_equal(steps_until_stop(chain, bowl, 1, one, 12), 12);
        }
    /* where the steps do go on, the rules hold as before */
    assert_true(steps_until_stop("strong_wolfe | terminate_by_update_norm(n=2)", bowl, 1, one, 12) < 12);
}

static void losses_stop(void **state)
{
    (void)state;
    /* the loss before step k is 4^-(k-1) / 2 */
    assert_int_equal(steps_until_stop("lr(0.5) | terminate_on_loss_reached(0.01)", bowl, 1, one, 50), 4);
    /* gains of 3/8 4^-(k-2) in step k: more than 0.01 up to step 4 (0.0234), not in 5 and later */
    assert_int_equal(
        steps_until_stop("lr(0.5) | terminate_on_no_improvement(tol=0.01, n=3)", bowl, 1, one, 50), 7);
    assert_int_equal(steps_until_stop("lr(-0.5) | terminate_on_no_improvement(n=4)", bowl, 1, one, 50), 5);
}

static void criteria_combine(void **state)
{
    (void)state;
    const char *any = "lr(0.5) | terminate_any(terminate_after_n_steps(5), terminate_on_loss_reached(1e-9))";
    const char *all = "lr(0.5) | terminate_all(terminate_after_n_steps(5), terminate_on_loss_reached(1e-4))";
    assert_int_equal(steps_until_stop(any, bowl, 1, one, 50), 5);
    assert_int_equal(steps_until_stop(all, bowl, 1, one, 50), 8);
}

static void criteria_evaluate_nothing_extra(void **state)
{
    (void)state;
    const char *const chains[] = {"terminate_on_loss_reached(0) | lr(0.1)",
                                  "terminate_on_no_improvement | lr(0.1)",
                                  "terminate_by_gradient_norm | lr(0.1)",
                                  "save_best | lr(0.1)",
                                  "lr(0.1) | save_best",
                                  "lr(0.1) | terminate_by_update_norm"};
    for (int i = 0; i < COUNT_OF(chains); i++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, chains[i], bowl, 1, one);
        run_steps(&r, 4);
        assert_int_equal(r.evals, 4);
        assert_int_equal(gd_warning_count(ctx), 0);
        assert_near(first_of(&r), 0.9 * 0.9 * 0.9 * 0.9, 1e-12); /* and change nothing */
        run_close(&r);
        end_context(ctx, NULL);
    }
}

static void counts_continue_after_loading(void **state)
{
    (void)state;
    char path[] = "/tmp/gradus_test_XXXXXX";
    int file = mkstemp(path);
    close(file);
    gd_ctx *ctx = context(NULL, 1, NULL);
    const char *chain =
        "lr(0.1) | terminate_any(terminate_after_n_steps(6), terminate_by_gradient_norm(0.1))";
    run r = run_open(ctx, chain, bowl, 1, one);
    run_steps(&r, 4);
    OK(gd_optimizer_save(r.o, path));
    run_close(&r);
    r = run_open(ctx, chain, bowl, 1, one);
    OK(gd_optimizer_load(r.o, path, true));
    run_steps(&r, 1);
    assert_false(r.info.terminate);
    run_steps(&r, 1);
    assert_true(r.info.terminate);
    run_close(&r);
    end_context(ctx, NULL);
    unlink(path);
}

/* ---- the best point ---- */

static void the_best_point_is_remembered(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    /* from 1 with lr 1.5: 1, -0.5, 0.25, ... and then it goes up with a larger one */
    run r = run_open(ctx, "lr(1.5) | save_best", bowl, 1, one);
    run_steps(&r, 3);
    OK(gd_optimizer_set(r.o, -1, "lr", 4));
    run_steps(&r, 5); /* -0.125, 0.375, ... */
    assert_near(gd_optimizer_attr(r.o, "best_loss", -1), 0.125 * 0.125 / 2, 1e-12);
    gd_tensor *best = gd_optimizer_attr_tensor(r.o, "best_params.p");
    assert_values(best, -0.125);
    assert_true(fabs(first_of(&r)) > 1);
    run_close(&r);
    end_context(ctx, NULL);
    check_continues("save_best | lr(0.001)", rosenbrock, 3, (double[]){-1.2, 1, 0.5}, 3, 3);
}

/* ---- starting again ---- */

static void restarts_forget_the_state_of_the_links_below(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    /* heavy ball on a constant slope: 1, 1.9, 2.71, and from the third step again */
    static const double want[] = {1, 1.9, 1, 1.9, 2.71, 1, 1.9, 2.71};
    run r = run_open(ctx, "restart_every([heavy_ball(0.9)], 3)", bowl, 1, (double[]){0});
    (void)r.evals;
    run_close(&r);
    gd_tensor *p = gd_require_grad(VECTOR(ctx, 0.0)), *g = VECTOR(ctx, 1.0);
    gd_optimizer *o = gd_optimizer_new(
        ctx, gd_chain(ctx, "restart_every([heavy_ball(0.9, ema_init=\"zeros\")], 3)"));
    OK(gd_optimizer_add(o, "p", p));
    OK(gd_set_grad(p, g));
    double before = 0;
    for (int i = 0; i < COUNT_OF(want); i++) {
        OK(gd_optimizer_step(o, NULL, NULL));
        assert_near(before - gd_item(p), want[i], 1e-12);
        before = gd_item(p);
    }
    gd_optimizer_free(o);
    gd_release(p);
    gd_release(g);
    end_context(ctx, NULL);
    check_continues("restart_every([bfgs], 4) | strong_wolfe", rosenbrock, 3, (double[]){-1.2, 1, 0.5}, 5, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_stop),
        cmocka_unit_test(norms_stop_after_some_steps_in_a_row),
        cmocka_unit_test(a_failed_search_satisfies_no_rule),
        cmocka_unit_test(losses_stop),
        cmocka_unit_test(criteria_combine),
        cmocka_unit_test(criteria_evaluate_nothing_extra),
        cmocka_unit_test(counts_continue_after_loading),
        cmocka_unit_test(the_best_point_is_remembered),
        cmocka_unit_test(restarts_forget_the_state_of_the_links_below),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
