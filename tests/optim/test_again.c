/* Steps like the last one take a short way: they must see every change that the long way sees.  Two optimizers go through the
 * same events, one of them held to the long way. */
#include "optim/optim_support.h"
#include "optim/step/optimizer.h"

#include <math.h>
#include <string.h>

#define CHAIN "clip_norm(1) | adam | weight_decay(0.01) | lr(0.1)"

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p[3];
    gd_step_info info;
} run;

static gd_status look(void *user, gd_optimizer *o, gd_var *var)
{
    (void)user, (void)o, (void)var;
    return GD_OK;
}

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

static run open_run(bool the_long_way)
{
    static const char *const names[3] = {"a", "b", "c"};
    run r = {.ctx = context(NULL, 2, NULL)};
    r.o = gd_optimizer_new(r.ctx, gd_chain(r.ctx, CHAIN));
    if (the_long_way) r.o->watch = look;
    for (int k = 0; k < 3; k++) {
        r.p[k] = gd_require_grad(row(&r, 1 + k, -2));
        new_grad(&r, k, 0.5, k - 1);
        OK(gd_optimizer_add(r.o, names[k], r.p[k]));
    }
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    for (int k = 0; k < 3; k++) gd_release(r->p[k]);
    end_context(r->ctx, NULL);
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

static void gradient_in_place(run *r) { OK(gd_write_f64(gd_grad_of(r->p[0]), (double[]){7, 8}, 2)); }
static void parameter_in_place(run *r) { OK(gd_write_f64(r->p[0], (double[]){0.25, 0.5}, 2)); }
static void frozen(run *r) { OK(gd_set_requires_grad(r->p[0], false)); }
static void thawed(run *r)
{
    OK(gd_set_requires_grad(r->p[0], true));
    new_grad(r, 0, 1, 1);
}
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
    frozen,
    thawed,
    another_rate,
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

static void steps_like_the_last_see_every_change(void **state)
{
    (void)state;
    run quick = open_run(false), slow = open_run(true);
    int taken = 0;
    for (int e = 0; e < COUNT_OF(events); e++) {
        if (e) taken += quick.o->again.plan != NULL;
        events[e](&quick);
        events[e](&slow);
        for (int s = 0; s < 4; s++) {
            OK(gd_optimizer_step(quick.o, NULL, &quick.info));
            OK(gd_optimizer_step(slow.o, NULL, &slow.info));
            compare(&quick, &slow, e, s);
        }
    }
    assert_true(taken >= COUNT_OF(events) - 2); /* without a gradient there is no short way */
    close_run(&quick);
    close_run(&slow);
}

/* A link that is no rule has its say at every step. */
static void links_that_are_no_rules_are_not_left_out(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "restart_every([heavy_ball(0.5)], 2) | lr(1)"));
    gd_tensor *p = gd_require_grad(gd_scalar(ctx, GD_F64, 0)), *g = gd_scalar(ctx, GD_F64, 1);
    OK(gd_set_grad(p, g));
    OK(gd_optimizer_add(o, "p", p));
    for (int i = 0; i < 5; i++) OK(gd_optimizer_step(o, NULL, NULL));
    assert_null(o->again.plan);
    gd_optimizer_free(o);
    gd_release(g);
    gd_release(p);
    end_context(ctx, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_like_the_last_see_every_change),
        cmocka_unit_test(links_that_are_no_rules_are_not_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
