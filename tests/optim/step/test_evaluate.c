/* Parameters to evaluate with: the averages of links are put in the place of the parameters, and these come back bit for bit. */
#include "optim/optim_support.h"
#include "optim/reference.h"

#include <stdio.h>
#include <unistd.h>

#define STEPS 30

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q; /* q is in no loss: it has no gradient and no state */
} run;

static gd_tensor *loss_of(void *user)
{
    const run *r = user;
    return gd_sum(gd_mul(gd_square(gd_square(gd_add_scalar(r->p, -1))), r->p), NULL, false);
}

/* Of loss_of: d/dx (x - 1)^4 x. */
static double slope(double x) { return pow(x - 1, 4) + 4 * pow(x - 1, 3) * x; }

static const double start[2] = {2, 0.1};

static run open_run(gd_ctx *ctx, const char *chain)
{
    run r = {.ctx = ctx, .p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, start))};
    r.q = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, start);
    r.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(r.o, "p", r.p));
    OK(gd_optimizer_add(r.o, "q", r.q));
    return r;
}

static void close_run(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
    gd_release(r->q);
}

static gd_status step_run(run *r)
{
    return gd_optimizer_step(r->o, &(gd_objective){.loss = loss_of, .user = r}, NULL);
}

/* What the links should say after step t of plain gradient descent, from the parameters p after it. */
typedef void (*average_fn)(int t, double p, double *average);

static void ema(int t, double p, double *a) { *a = t == 1 ? p : 0.9 * *a + 0.1 * p; }

static void mean_of_every_third_after_five(int t, double p, double *a)
{
    int n = (t - 6) / 3 + 1; /* 6, 9, 12, ... */
    if (t < 6)
        *a = p; /* nothing better yet */
    else if (t % 3 == 0)
        *a = n == 1 ? p : *a + (p - *a) / n;
}

static const struct {
    const char *chain;
    average_fn fn;
} averages[] = {
    {"lr(0.01) | ema_weights(0.9)", ema},
    {"lr(0.01) | swa(5, 3)", mean_of_every_third_after_five},
    {"ema_weights(0.5) | lr(0.01) | ema_weights(0.9)", ema}, /* the last one says it */
};

static void the_average_is_put_in_and_the_parameters_come_back(void **state)
{
    for (int c = 0; c < COUNT_OF(averages); c++) {
        run r = open_run(CTX(state), averages[c].chain);
        double p[2], want[2] = {0}, got[2], before[2], after[2], untouched[2];
        memcpy(p, start, sizeof p);
        for (int t = 1; t <= STEPS; t++) {
            OK(step_run(&r));
            OK(gd_read_f64(r.p, before, 2));
            OK(gd_optimizer_evaluate(r.o, true));
            OK(gd_read_f64(r.p, got, 2));
            OK(gd_read_f64(r.q, untouched, 2));
            OK(gd_optimizer_evaluate(r.o, false));
            OK(gd_read_f64(r.p, after, 2));
            assert_memory_equal(before, after, sizeof after);
            assert_memory_equal(untouched, start, sizeof start);
            for (int i = 0; i < 2; i++) {
                p[i] -= 0.01 * slope(p[i]);
                averages[c].fn(t, p[i], &want[i]);
                if (!(fabs(got[i] - want[i]) <= 1e-12))
                    fail_msg("%s, step %d: %.17g, want %.17g", averages[c].chain, t, got[i], want[i]);
            }
        }
        close_run(&r);
    }
}

/* Polyak & Juditsky: the mean of the parameters from step t0 on; PyTorch's mu is 1 / max(1, t - 1 - t0). */
static void asgd_and_schedule_free_evaluate_at_their_averages(void **state)
{
    run a = open_run(CTX(state), "asgd(0.01, 0, 0.75, 8)"),
        f = open_run(CTX(state), "schedule_free([lr(0.01)], beta=0.9)");
    double p[2], ax[2] = {0}, y[2], z[2], x[2], got[2];
    memcpy(p, start, sizeof p);
    memcpy(y, start, sizeof y);
    memcpy(z, start, sizeof z);
    memcpy(x, start, sizeof x);
    for (int t = 1; t <= STEPS; t++) {
        OK(step_run(&a));
        OK(step_run(&f));
        for (int i = 0; i < 2; i++) {
            p[i] -= 0.01 * slope(p[i]);
            ax[i] += (p[i] - ax[i]) / fmax(1, t - 1 - 8);
            z[i] -= 0.01 * slope(y[i]);
            x[i] += (z[i] - x[i]) / t;
            y[i] = 0.1 * z[i] + 0.9 * x[i];
        }
        OK(gd_optimizer_evaluate(a.o, true));
        OK(gd_read_f64(a.p, got, 2));
        OK(gd_optimizer_evaluate(a.o, false));
        for (int i = 0; i < 2; i++) assert_float_equal(got[i], ax[i], 1e-12);
        OK(gd_optimizer_evaluate(f.o, true));
        OK(gd_read_f64(f.p, got, 2));
        OK(gd_optimizer_evaluate(f.o, false));
        for (int i = 0; i < 2; i++) assert_float_equal(got[i], x[i], 1e-12);
    }
    close_run(&a);
    close_run(&f);
}

static void refused(gd_ctx *ctx, gd_status status)
{
    assert_int_equal(status, GD_STATE);
    assert_non_null(strstr(gd_error_text(ctx), "gd_optimizer_evaluate"));
    gd_clear_error(ctx);
}

static void while_parameters_are_there_to_evaluate_nothing_steps_saves_or_is_added(void **state)
{
    gd_ctx *ctx = CTX(state);
    run r = open_run(ctx, "lr(0.01) | ema_weights(0.5)");
    char path[] = "/tmp/gradus-test-evaluate-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 3; i++) OK(step_run(&r));
    OK(gd_optimizer_save(r.o, path));
    OK(gd_optimizer_evaluate(r.o, true));
    OK(gd_optimizer_evaluate(r.o, true));
    refused(ctx, step_run(&r));
    refused(ctx, gd_optimizer_save(r.o, path));
    refused(ctx, gd_optimizer_load(r.o, path, true));
    refused(ctx, gd_optimizer_remove(r.o, "p"));
    OK(gd_optimizer_evaluate(r.o, false));
    OK(gd_optimizer_evaluate(r.o, false));
    OK(step_run(&r));
    OK(gd_optimizer_save(r.o, path));
    unlink(path);
    /* freed with its parameters away: they belong to the optimizer no longer */
    OK(gd_optimizer_evaluate(r.o, true));
    close_run(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(the_average_is_put_in_and_the_parameters_come_back),
        CASE(asgd_and_schedule_free_evaluate_at_their_averages),
        CASE(while_parameters_are_there_to_evaluate_nothing_steps_saves_or_is_added),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
