/* What a step keeps for the next one: it must see every change.  Three optimizers go through the same events: one as it is, one
 * that looks at everything and fails where a change was not counted, and one that keeps nothing. */
#include "optim/optim_support.h"
#include "module/module_internal.h"
#include "optim/plan/plan.h"

#include <math.h>
#include <string.h>

#define CHAIN "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)"

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[3];
    gd_step_info info;
} run;

static gd_tensor *row(run *r, double a, double b)
{
    return gd_from_f64(r->ctx, GD_F32, 1, (int64_t[]){2}, (double[]){a, b});
}

static void new_grad(run *r, int k, double a, double b)
{
    gd_tensor *g = row(r, a, b);
    OK(gd_set_grad(r->p[k], g));
    gd_release(g);
}

static run open_run(memory *m)
{
    static const char *const names[3] = {"a", "b", "c"};
    run r = {.ctx = context(m, 2, NULL)};
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, CHAIN));
    r.o->test.always_look = false; /* as in a release build */
    for (int k = 0; k < 3; k++) {
        r.p[k] = gd_require_grad(row(&r, 1 + k, -2));
        new_grad(&r, k, 0.5, k - 1);
        OK(gd_optimizer_add(r.o, names[k], r.p[k]));
    }
    return r;
}

static void close_run(run *r, const memory *m)
{
    gd_optimizer_free(r->o);
    for (int k = 0; k < 3; k++) gd_release(r->p[k]);
    end_context(r->ctx, m);
}

static void forget_everything(run *r)
{
    gd__plans_free(r->ctx, r->o->plans);
    r->o->plans = NULL;
    r->o->looked.changes = r->o->looked.layouts = UINT64_MAX;
}

/* ---- what may happen between two steps ---- */

static void nothing(run *r) { (void)r; }
static void another_gradient(run *r) { new_grad(r, 1, -3, 4); }
static void no_gradient(run *r) { gd_zero_grad(r->p[2]); }
static void a_gradient_again(run *r) { new_grad(r, 2, 0.5, 0.5); }

static void gradients_add_up(run *r)
{
    gd_scope_begin(r->ctx);
    OK(gd_backward(gd_sum(gd_square(r->p[0]), NULL, false), NULL, 0));
    gd_scope_end(r->ctx);
}

/* Axes in another order in memory: programs cannot read it as it is. */
static void a_gradient_that_is_a_view(run *r)
{
    gd_scope_begin(r->ctx);
    gd_tensor *wide = gd_from_f64(r->ctx, GD_F32, 2, (int64_t[]){2, 2}, (double[]){1, 2, 3, 4});
    OK(gd_set_grad(r->p[1], gd_index(wide, "1", 0)));
    gd_scope_end(r->ctx);
}

/* As a module does that loads a state or moves: the same tensor, other memory. */
static void other_memory(run *r)
{
    gd_tensor *other = row(r, 3, 4), *grad = row(r, -1, 2);
    gd__swap_storage(r->p[0], other);
    if (gd_grad_of(r->p[1])) gd__swap_storage(gd_grad_of(r->p[1]), grad);
    gd_release(other);
    gd_release(grad);
}

/* The gradient stays, its elements lie apart from each other now, or are of another dtype. */
static void swap_gradient(run *r, int k, gd_tensor *with)
{
    if (gd_grad_of(r->p[k])) gd__swap_storage(gd_grad_of(r->p[k]), with);
}

static void a_gradient_gets_memory_with_gaps(run *r)
{
    gd_scope_begin(r->ctx);
    gd_tensor *wide = gd_from_f64(r->ctx, GD_F32, 2, (int64_t[]){2, 2}, (double[]){5, 6, 7, 8});
    swap_gradient(r, 1, gd_index(wide, "1", 1));
    gd_scope_end(r->ctx);
}

static void a_gradient_gets_another_dtype(run *r)
{
    gd_scope_begin(r->ctx);
    swap_gradient(r, 0, gd_cast(row(r, 0.1, -0.3), GD_F64));
    gd_scope_end(r->ctx);
}

static void gradient_in_place(run *r) { OK(gd_write_f64(gd_grad_of(r->p[0]), (double[]){7, 8}, 2)); }
static void parameter_in_place(run *r) { OK(gd_write_f64(r->p[0], (double[]){0.25, 0.5}, 2)); }
static void frozen(run *r) { OK(gd_set_requires_grad(r->p[0], false)); }
static void thawed(run *r)
{
    OK(gd_set_requires_grad(r->p[0], true));
    new_grad(r, 0, 1, 1);
}
static void a_schedule(run *r) { OK(gd_optimizer_schedule(r->o, -1, "lr", "cosine(0.1, 0.01, 40)")); }
static void no_schedule(run *r) { OK(gd_optimizer_unschedule(r->o, -1, "lr")); }
static void another_rate(run *r) { OK(gd_optimizer_set(r->o, -1, "lr", 0.03)); }
static void own_rate(run *r) { OK(gd_optimizer_regroup(r->o, "b", "lr=0.5")); }
static void without_one(run *r) { OK(gd_optimizer_remove(r->o, "c")); }
static void with_it_again(run *r) { OK(gd_optimizer_add(r->o, "c", r->p[2])); }
static void forgotten(run *r) { gd_optimizer_reset(r->o); }
static void state_of_ones(run *r)
{
    gd_tensor *ones = row(r, 1, 1);
    gd_link *adam = gd_link_child_at(gd_optimizer_chain(r->o), 1);
    OK(gd_link_set_state(adam, r->p[1], "exp_avg", ones));
    gd_release(ones);
}
static void not_a_number(run *r) { new_grad(r, 1, NAN, 0); }
static void a_number_again(run *r) { new_grad(r, 1, 1, 0); }
static gd_tensor *square_sum(void *user) { return gd_sum(gd_square(user), NULL, false); }

static void with_an_objective_between(run *r)
{
    gd_tensor *p = r->p[0];
    OK(gd_optimizer_step(r->o, &(gd_objective){.loss = square_sum, .user = p}, NULL));
}

static void (*const events[])(run *) = {
    nothing,
    another_gradient,
    no_gradient,
    a_gradient_again,
    gradients_add_up,
    gradients_add_up,
    gradient_in_place,
    a_gradient_that_is_a_view,
    other_memory,
    a_gradient_gets_memory_with_gaps,
    another_gradient,
    a_gradient_gets_another_dtype,
    frozen,
    thawed,
    another_rate,
    a_schedule,
    no_schedule,
    own_rate,
    without_one,
    with_it_again,
    state_of_ones,
    parameter_in_place,
    forgotten,
    not_a_number,
    a_number_again,
    with_an_objective_between,
};

static void compare(run *a, run *b, int event, int step)
{
    for (int k = 0; k < 3; k++)
        if (memcmp(gd_data(a->p[k]), gd_data(b->p[k]), 8))
            fail_msg("event %d, step %d: parameter %d differs", event, step, k);
    assert_int_equal(a->info.finite, b->info.finite);
    assert_int_equal(a->info.step, b->info.step);
    assert_int_equal(a->info.evals, b->info.evals);
}

static void every_change_between_steps_is_seen(void **state)
{
    (void)state;
    run kept = open_run(NULL), looks = open_run(NULL), anew = open_run(NULL);
    looks.o->test.always_look = true;
    for (int e = 0; e < COUNT_OF(events); e++) {
        events[e](&kept);
        events[e](&looks);
        events[e](&anew);
        for (int s = 0; s < 4; s++) {
            OK(gd_optimizer_step(kept.o, NULL, &kept.info));
            OK(gd_optimizer_step(looks.o, NULL, &looks.info));
            forget_everything(&anew);
            OK(gd_optimizer_step(anew.o, NULL, &anew.info));
            compare(&kept, &anew, e, s);
            compare(&looks, &anew, e, s);
        }
    }
    close_run(&kept, NULL);
    close_run(&looks, NULL);
    close_run(&anew, NULL);
}

/* Two sets of gradients in turn, as training gives them: all that a step needs is there from the third on. */
static void a_step_with_other_gradients_asks_for_no_memory(void **state)
{
    (void)state;
    memory m = {0};
    run r = open_run(&m);
    gd_tensor *grad[2][3];
    for (int k = 0; k < 6; k++) grad[k / 3][k % 3] = row(&r, k, 1 - k);
    for (int s = 0; s < 8; s++) {
        for (int k = 0; k < 3; k++) OK(gd_set_grad(r.p[k], grad[s % 2][k]));
        int64_t before = m.requests;
        OK(gd_optimizer_step(r.o, NULL, NULL));
        if (s >= 2) assert_int_equal(m.requests, before);
    }
    for (int k = 0; k < 6; k++) gd_release(grad[k / 3][k % 3]);
    close_run(&r, &m);
}

/* Freezing in turn, as when two models are trained by one optimizer: each of the two plans is kept. */
static void parameters_frozen_in_turn_find_their_plans(void **state)
{
    (void)state;
    run r = open_run(NULL);
    const gd_plan *plan[2];
    for (int s = 0; s < 8; s++) {
        OK(gd_set_requires_grad(r.p[0], s % 2));
        OK(gd_optimizer_step(r.o, NULL, NULL));
        if (s >= 2) assert_ptr_equal(r.o->plans, plan[s % 2]);
        plan[s % 2] = r.o->plans;
    }
    assert_ptr_not_equal(plan[0], plan[1]);
    close_run(&r, NULL);
}

/* ---- what an optimizer that always looks is for ---- */

static void a_gradient_behind_the_back(run *r)
{
    gd_tensor *mine = r->p[1]->grad;
    r->p[1]->grad = r->p[0]->grad;
    r->p[0]->grad = mine;
}

static void frozen_behind_the_back(run *r) { r->p[1]->leaf_grad = false; }

static void memory_behind_the_back(run *r)
{
    uint64_t changes = r->ctx->changes;
    gd_tensor *other = row(r, 3, 4);
    gd__swap_storage(r->p[2], other);
    gd_release(other);
    r->ctx->changes = changes;
}

static void gaps_behind_the_back(run *r)
{
    uint64_t changes = r->ctx->changes, layouts = r->ctx->layouts;
    a_gradient_gets_memory_with_gaps(r);
    r->ctx->changes = changes + 1; /* of a gradient of a different optimizer */
    r->ctx->layouts = layouts;
}

static void strides_behind_the_back(run *r)
{
    gd_grad_of(r->p[1])->stride[0] = 0;
    r->ctx->changes++;
}

static void state_behind_the_back(run *r)
{
    gd_entry *e = gd__entry_find(gd_link_child_at(gd_optimizer_chain(r->o), 1), r->p[0]);
    gd_tensor *other = row(r, 1, 1);
    gd__release(e->slot[0]);
    e->slot[0] = other;
}

static void (*const secrets[])(run *) = {a_gradient_behind_the_back, frozen_behind_the_back,
                                         memory_behind_the_back,     gaps_behind_the_back,
                                         strides_behind_the_back,    state_behind_the_back};

static void a_change_that_was_not_counted_is_an_error_where_steps_always_look(void **state)
{
    (void)state;
    for (int k = 0; k < COUNT_OF(secrets); k++) {
        run r = open_run(NULL);
        r.o->test.always_look = true;
        for (int s = 0; s < 4; s++) OK(gd_optimizer_step(r.o, NULL, NULL));
        secrets[k](&r);
        double before[2], after[2];
        OK(gd_read_f64(r.p[0], before, 2));
        assert_int_equal(gd_optimizer_step(r.o, NULL, NULL), GD_INTERNAL);
        assert_error(r.ctx, GD_INTERNAL, "a step finds other tensors than the last one");
        OK(gd_read_f64(r.p[0], after, 2));
        assert_memory_equal(before, after, sizeof before);
        close_run(&r, NULL);
    }
}

/* ---- links that are no rules ---- */

/* One has its say at every step. */
static void links_that_are_no_rules_are_not_left_out(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "restart_every([heavy_ball(0.5)], 2) | lr(1)"));
    gd_tensor *p = gd_require_grad(gd_scalar(ctx, GD_F64, 0)), *g = gd_scalar(ctx, GD_F64, 1);
    /* the speed starts with the gradient, 1: 1.5, then 1.75; it is forgotten before every second step */
    static const double want[] = {-1.5, -3, -4.75, -6.25, -8};
    OK(gd_set_grad(p, g));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 5; i++) {
        OK(gd_optimizer_step(o, NULL, NULL));
        assert_true(gd_item(p) == want[i]);
    }
    gd_optimizer_free(o);
    gd_release(g);
    gd_release(p);
    end_context(ctx, NULL);
}

/* A link that takes the gradients of the leaves away meets rules before it that still have to run with them. */
static gd_status take_away(gd_link *link, gd_var *var)
{
    (void)link;
    OK(gd_var_zero_grad(var, false));
    return GD_OK;
}

static void gradients_taken_away_in_a_step_still_serve_it(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    static const gd_link_class thief = {.name = "thief", .step = take_away};
    OK(gd_link_class_register(ctx, &thief));
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(2) | thief | lr(3)"));
    gd_tensor *p = gd_require_grad(gd_scalar(ctx, GD_F64, 0));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 3; i++) {
        gd_tensor *g = gd_scalar(ctx, GD_F64, 1);
        OK(gd_set_grad(p, g));
        gd_release(g);
        OK(gd_optimizer_step(o, NULL, NULL));
        assert_null(gd_grad_of(p));
        assert_true(gd_item(p) == -6 * (i + 1));
    }
    gd_optimizer_free(o);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_change_between_steps_is_seen),
        TEST(a_step_with_other_gradients_asks_for_no_memory),
        TEST(parameters_frozen_in_turn_find_their_plans),
        TEST(a_change_that_was_not_counted_is_an_error_where_steps_always_look),
        TEST(links_that_are_no_rules_are_not_left_out),
        TEST(gradients_taken_away_in_a_step_still_serve_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
