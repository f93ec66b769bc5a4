/* Parameters without a gradient: zeros or left out, and every parameter counts the steps it was part of. */
#include "gradus/chain.h"
#include "optim/optim_support.h"
#include "optim/plan/plan.h"
#include "optim/table_support.h"

#define PARAMS   3
#define ELEMENTS 4
#define STEPS    12

/* Parameter k has a gradient every k + 1 steps. */
static bool has_gradient(int k, int step) { return step % (k + 1) == 0; }

/* The gradient of a parameter at the n-th step it is part of: a wave, so that nothing dies out. */
static gd_tensor *gradient(gd_ctx *ctx, int k, int n)
{
    double g[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) g[i] = sin(1 + 3 * i + 1.7 * k + 0.9 * n) + 0.1;
    return gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 2}, g);
}

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[PARAMS];
    int own[PARAMS]; /* steps with a gradient so far */
} run;

static gd_tensor *parameter(gd_ctx *ctx, int k)
{
    double x[ELEMENTS];
    for (int i = 0; i < ELEMENTS; i++) x[i] = cos(2 + i + 5 * k);
    return gd_require_grad(gd_from_f64(ctx, GD_F64, 2, (int64_t[]){2, 2}, x));
}

/* Parameters of the bits in `which`; NULL in o with the error recorded where the chain cannot be. */
static run open_run(gd_ctx *ctx, const char *chain, int which)
{
    static const char *const names[PARAMS] = {"a", "b", "c"};
    run r = {.ctx = ctx, .o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    for (int k = 0; k < PARAMS; k++) {
        if (!(which >> k & 1)) continue;
        r.p[k] = parameter(ctx, k);
        if (r.o) OK(gd_optimizer_add(r.o, names[k], r.p[k]));
    }
    if (r.o) {
        r.o->test.interpret = true;
        OK(gd_optimizer_skip_missing(r.o, true));
    }
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    for (int k = 0; k < PARAMS; k++) gd_release(r->p[k]);
}

/* A step in which the parameters of the bits in `which` have a gradient. */
static gd_status step_with(run *r, int which)
{
    for (int k = 0; k < PARAMS; k++) {
        if (!r->p[k]) continue;
        gd_tensor *g = which >> k & 1 ? gradient(r->ctx, k, r->own[k]++) : NULL;
        if (g)
            OK(gd_set_grad(r->p[k], g));
        else
            gd_zero_grad(r->p[k]);
        gd_release(g);
    }
    return gd_optimizer_step(r->o, NULL, NULL);
}

static int due(int step)
{
    int which = 0;
    for (int k = 0; k < PARAMS; k++) which |= has_gradient(k, step) << k;
    return which;
}

static bool same_bits(const gd_tensor *a, const gd_tensor *b)
{
    return !memcmp(gd_data(a), gd_data(b), ELEMENTS * sizeof(double));
}

static gd_tensor *copy_of(gd_tensor *t) { return gd__own_copy(t, GD_F64, gd_tensor_device(t)); }

/* ---- through the table ---- */

static int tried;

/* Norms over all parameters, and random numbers that they share. */
static bool shares(const gd_program *p)
{
    bool any = false;
    for (int r = 0; r < p->reductions; r++) any = any || p->instr[p->reduction[r]].extent == GD_ALL;
    for (int u = 0; u < p->uniforms; u++) any = any || p->uniform[u].kind == GD_U_DRAW;
    return any;
}

static bool some_share(const gd_optimizer *o)
{
    bool any = false;
    for (const gd_plan *plan = o->plans; plan; plan = plan->next)
        for (int k = 0; k < plan->set.tables; k++) any = any || shares(plan->set.table[k].p);
    return any;
}

/* Do the parameters of a chain know nothing of each other? */
static bool is_separate(gd_ctx *ctx, const char *chain)
{
    run all = open_run(ctx, chain, 7);
    bool same = all.o;
    for (int step = 0; step < STEPS && same; step++) same = !step_with(&all, 7);
    same = same && !some_share(all.o);
    for (int k = 0; k < PARAMS && same; k++) {
        run alone = open_run(ctx, chain, 1 << k);
        for (int step = 0; step < STEPS && same; step++) same = !step_with(&alone, 1 << k);
        same = same && same_bits(all.p[k], alone.p[k]);
        close_run(&alone);
    }
    gd_clear_error(ctx);
    close_run(&all);
    return same;
}

/* Does a link of the chain read step counts?  Known after a step. */
static bool reads_steps(const gd_link *link)
{
    bool reads = link->reads_step;
    for (int i = 0; i < link->children && !reads; i++) reads = reads_steps(link->child[i]);
    return reads;
}

/* All together, some left out, against each alone with the steps it takes part in. */
static void compare_with_alone(gd_ctx *ctx, const char *chain, bool fused)
{
    run all = open_run(ctx, chain, 7);
    all.o->test.no_fusion = !fused;
    for (int step = 0; step < STEPS; step++) OK(step_with(&all, due(step)));
    tried += reads_steps(all.o->chain);
    for (int k = 0; k < PARAMS; k++) {
        run alone = open_run(ctx, chain, 1 << k);
        for (int step = 0; step < STEPS; step++)
            if (has_gradient(k, step)) OK(step_with(&alone, 1 << k));
        if (!same_bits(all.p[k], alone.p[k])) {
            double x[ELEMENTS], y[ELEMENTS];
            OK(gd_read_f64(all.p[k], x, ELEMENTS));
            OK(gd_read_f64(alone.p[k], y, ELEMENTS));
            fail_msg("%s, fused %d: parameter %d begins with %.17g, alone with %.17g", chain, fused, k, x[0],
                     y[0]);
        }
        close_run(&alone);
    }
    close_run(&all);
}

static void try_link(const gd_link_class *cls, const char *text)
{
    if (!cls->rule && !cls->update_rule) return;
    char chain[500];
    snprintf(chain, sizeof chain, "%s | lr(0.1)", text);
    gd_ctx *ctx = context(NULL, 1, NULL);
    if (is_separate(ctx, chain)) {
        compare_with_alone(ctx, chain, true);
        compare_with_alone(ctx, chain, false);
    }
    end_context(ctx, NULL);
}

static void every_rule_counts_for_each_parameter(void **state)
{
    (void)state;
    tried = 0;
    each_link_text(try_link);
    print_message("%d chains that count\n", tried);
    assert_true(tried * test_share() >= 30);
}

/* ---- a straight loop ---- */

/* Adam as its paper has it, each parameter with a count of its own; and what pytorch's tests have for the same gradients is this. */
static void adam_agrees_with_a_straight_loop(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "adam(beta1=0.9, beta2=0.99) | weight_decay(0.01) | lr(0.1)", 7);
    double p[PARAMS][ELEMENTS], m[PARAMS][ELEMENTS] = {{0}}, v[PARAMS][ELEMENTS] = {{0}};
    int t[PARAMS] = {0};
    for (int k = 0; k < PARAMS; k++) OK(gd_read_f64(r.p[k], p[k], ELEMENTS));
    for (int step = 0; step < STEPS; step++) {
        for (int k = 0; k < PARAMS; k++) {
            if (!has_gradient(k, step)) continue;
            double g[ELEMENTS];
            gd_tensor *now = gradient(ctx, k, t[k]++);
            OK(gd_read_f64(now, g, ELEMENTS));
            gd_release(now);
            for (int i = 0; i < ELEMENTS; i++) {
                m[k][i] = 0.9 * m[k][i] + 0.1 * g[i];
                v[k][i] = 0.99 * v[k][i] + 0.01 * g[i] * g[i];
                double up = m[k][i] / (1 - pow(0.9, t[k]));
                double root = sqrt(v[k][i] / (1 - pow(0.99, t[k]))) + 1e-8;
                p[k][i] -= 0.1 * (up / root + 0.01 * p[k][i]);
            }
        }
        OK(step_with(&r, due(step)));
        for (int k = 0; k < PARAMS; k++) {
            double x[ELEMENTS];
            OK(gd_read_f64(r.p[k], x, ELEMENTS));
            for (int i = 0; i < ELEMENTS; i++) assert_true(fabs(x[i] - p[k][i]) < 1e-7);
        }
    }
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    assert_int_equal(gd_link_steps(adam), STEPS);
    for (int k = 0; k < PARAMS; k++) assert_int_equal(gd_link_steps_of(adam, r.p[k]), t[k]);
    close_run(&r);
    end_context(ctx, NULL);
}

/* ---- what is left out ---- */

static void what_has_no_gradient_is_left_alone(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int skips = 0; skips < 2; skips++) {
        run r = open_run(ctx, "heavy_ball(0.9) | weight_decay(0.1) | lr(0.1)", 3);
        OK(gd_optimizer_skip_missing(r.o, skips));
        OK(step_with(&r, 3));
        gd_link *ball = gd_link_child_at(gd_optimizer_chain(r.o), 0);
        const char *slot = ball->cls->slots[0].name;
        gd_tensor *before = copy_of(r.p[1]), *moment = copy_of(gd_link_state(ball, r.p[1], slot));
        OK(step_with(&r, 1));
        assert_int_equal(same_bits(r.p[1], before), skips);
        assert_int_equal(same_bits(gd_link_state(ball, r.p[1], slot), moment), skips);
        assert_int_equal(gd_link_steps_of(ball, r.p[0]), 2);
        gd__release(before), gd__release(moment);
        close_run(&r);
    }
    end_context(ctx, NULL);
}

static void a_step_without_any_gradient_changes_nothing(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "adam | lr(0.1)", 3);
    gd_tensor *before = copy_of(r.p[0]);
    OK(step_with(&r, 0));
    assert_true(same_bits(r.p[0], before));
    assert_int_equal(gd_optimizer_steps(r.o), 1);
    assert_int_equal(gd_link_steps(gd_link_child_at(gd_optimizer_chain(r.o), 0)), 0);
    gd__release(before);
    close_run(&r);
    end_context(ctx, NULL);
}

/* The pairs of a vector of all parameters are forgotten when it gets another length. */
static void a_history_of_all_parameters_begins_anew(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "lbfgs | lr(0.01)", 7);
    gd_link *lbfgs = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    for (int step = 0; step < 4; step++) OK(step_with(&r, 7));
    double pairs = gd_link_kept(lbfgs, "pairs", 0);
    assert_true(pairs > 1);
    OK(step_with(&r, 3));
    assert_true(gd_link_kept(lbfgs, "pairs", 0) <= 1);
    close_run(&r);
    end_context(ctx, NULL);
}

/* With an objective every parameter has a gradient. */
static gd_tensor *sum_of_squares(void *user)
{
    run *r = user;
    return gd_add(gd_sum(gd_square(r->p[0]), NULL, false), gd_sum(gd_square(r->p[1]), NULL, false));
}

static void steps_with_an_objective_leave_nobody_out(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "adam | lr(0.1)", 3);
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    gd_objective objective = {.loss = sum_of_squares, .user = &r};
    OK(gd_optimizer_step(r.o, &objective, NULL));
    OK(step_with(&r, 1));
    OK(gd_optimizer_step(r.o, &objective, NULL));
    assert_int_equal(gd_link_steps_of(adam, r.p[0]), 3);
    assert_int_equal(gd_link_steps_of(adam, r.p[1]), 2);
    close_run(&r);
    end_context(ctx, NULL);
}

/* Added, or no longer frozen, later: bias correction begins with it. */
static void a_parameter_that_comes_later_begins_at_one(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    for (int frozen = 0; frozen < 2; frozen++) {
        run r = open_run(ctx, "adam | lr(0.1)", 7), alone = open_run(ctx, "adam | lr(0.1)", 4);
        OK(gd_optimizer_skip_missing(r.o, false));
        if (frozen)
            OK(gd_set_requires_grad(r.p[2], false));
        else
            OK(gd_optimizer_remove(r.o, "c"));
        for (int step = 0; step < 5; step++) OK(step_with(&r, 3));
        if (frozen)
            OK(gd_set_requires_grad(r.p[2], true));
        else
            OK(gd_optimizer_add(r.o, "c", r.p[2]));
        for (int step = 0; step < 5; step++) {
            OK(step_with(&r, 7));
            OK(step_with(&alone, 4));
        }
        assert_true(same_bits(r.p[2], alone.p[2]));
        close_run(&r);
        close_run(&alone);
    }
    end_context(ctx, NULL);
}

/* ---- on disk ---- */

static void counts_are_saved_and_loaded(void **state)
{
    (void)state;
    static const char *const chains[] = {"adam | lr(0.1)", "adam | debias | lr(0.1)",
                                         "warmup(5, 1e-3) | lr(1)", "nadam | radam | lr(0.1)"};
    const char *path = "missing.safetensors";
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = open_run(ctx, chains[c], 7);
        for (int step = 0; step < 7; step++) OK(step_with(&r, due(step)));
        OK(gd_optimizer_save(r.o, path));
        run back = open_run(ctx, chains[c], 7);
        for (int k = 0; k < PARAMS; k++) {
            OK(gd_assign(back.p[k], r.p[k]));
            back.own[k] = r.own[k];
        }
        if (gd_optimizer_load(back.o, path, true)) fail_msg("%s: %s", chains[c], gd_error_text(ctx));
        for (int step = 7; step < STEPS; step++) {
            OK(step_with(&r, due(step)));
            OK(step_with(&back, due(step)));
            for (int k = 0; k < PARAMS; k++)
                if (!same_bits(r.p[k], back.p[k])) fail_msg("%s, step %d, parameter %d", chains[c], step, k);
        }
        close_run(&r);
        close_run(&back);
        end_context(ctx, NULL);
    }
    remove(path);
}

/* A file of before counts had parameters: nothing is kept for those of a link without state, and all have its count. */
static void a_file_without_counts_means_every_step(void **state)
{
    (void)state;
    const char *path = "missing.safetensors";
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "warmup(50, 1e-3) | lr(1)", 3);
    for (int step = 0; step < 4; step++) OK(step_with(&r, 3));
    gd_link *warmup = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    for (int k = 0; k < 2; k++) gd__entry_drop(warmup, r.p[k]);
    OK(gd_optimizer_save(r.o, path));
    run back = open_run(ctx, "warmup(50, 1e-3) | lr(1)", 3);
    OK(gd_optimizer_load(back.o, path, true));
    gd_link *loaded = gd_link_child_at(gd_optimizer_chain(back.o), 0);
    assert_int_equal(gd_link_steps_of(loaded, back.p[0]), 4);
    OK(step_with(&back, 3));
    assert_int_equal(gd_link_steps_of(loaded, back.p[0]), 5);
    assert_int_equal(gd_link_steps_of(loaded, back.p[1]), 5);
    close_run(&r);
    close_run(&back);
    end_context(ctx, NULL);
    remove(path);
}

/* ---- setting counts ---- */

static void counts_can_be_taken_from_elsewhere(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = open_run(ctx, "adam | lr(0.1)", 3);
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(r.o), 0);
    OK(gd_link_set_steps_of(adam, r.p[0], 10));
    OK(gd_link_set_steps_of(adam, r.p[1], 3));
    assert_int_equal(gd_link_steps_of(adam, r.p[0]), 10);
    assert_int_equal(gd_link_steps_of(adam, r.p[1]), 3);
    OK(step_with(&r, 3));
    assert_int_equal(gd_link_steps_of(adam, r.p[0]), 11);
    OK(gd_link_set_steps_of(adam, r.p[1], 20));
    assert_int_equal(gd_link_steps_of(adam, r.p[0]), 11);
    assert_int_equal(gd_link_steps_of(adam, r.p[1]), 20);
    assert_int_equal(gd_link_set_steps_of(adam, r.p[1], -1), GD_VALUE);
    gd_clear_error(ctx);
    gd_optimizer_reset(r.o);
    assert_int_equal(gd_link_steps_of(adam, r.p[1]), 0);
    close_run(&r);
    end_context(ctx, NULL);
}

/* ---- allocations ---- */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    for (int64_t k = 1;; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        run r = open_run(ctx, "adam | debias | lr(0.1)", 7);
        gd_tensor *before = copy_of(r.p[2]);
        OK(step_with(&r, 3));
        for (int i = 0; i < PARAMS; i++) gd_zero_grad(r.p[i]);
        gd_tensor *g = gradient(ctx, 2, 0);
        OK(gd_set_grad(r.p[2], g));
        gd_release(g);
        m.fail_at = m.requests + k;
        gd_status status = gd_optimizer_step(r.o, NULL, NULL);
        bool done = !m.failed;
        m.fail_at = 0;
        if (status) assert_true(same_bits(r.p[2], before));
        gd_clear_error(ctx);
        OK(gd_optimizer_step(r.o, NULL, NULL));
        assert_false(same_bits(r.p[2], before));
        gd__release(before);
        close_run(&r);
        end_context(ctx, &m);
        if (done) break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_rule_counts_for_each_parameter),
        TEST(adam_agrees_with_a_straight_loop),
        TEST(what_has_no_gradient_is_left_alone),
        TEST(a_step_without_any_gradient_changes_nothing),
        TEST(a_history_of_all_parameters_begins_anew),
        TEST(steps_with_an_objective_leave_nobody_out),
        TEST(a_parameter_that_comes_later_begins_at_one),
        TEST(counts_are_saved_and_loaded),
        TEST(a_file_without_counts_means_every_step),
        TEST(counts_can_be_taken_from_elsewhere),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
