/* What the suites of tests/optim share: parameters, objectives, and links that call back into the test. */
#ifndef GD_TESTS_OPTIM_SUPPORT_H
#define GD_TESTS_OPTIM_SUPPORT_H

#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "optim/step/optimizer.h"
#include "support/support.h"

#include <math.h>

#define UNUSED     __attribute__((unused))
#define OK(call)   assert_int_equal(call, GD_OK)
#define TEST(name) cmocka_unit_test(name)

/* ---- links that call back: probe_a, probe_b and probe_c run the function the test gives ---- */

typedef gd_status (*probe_fn)(gd_link *link, gd_var *var);

typedef struct probes {
    probe_fn a, b, c;
    int ran_a, ran_b, ran_c;
} probes;

static probes probe;

#define PROBE_STEP(x)                                             \
    static gd_status probe_##x##_step(gd_link *link, gd_var *var) \
    {                                                             \
        probe.ran_##x++;                                          \
        return probe.x ? probe.x(link, var) : GD_OK;              \
    }
PROBE_STEP(a)
PROBE_STEP(b)
PROBE_STEP(c)

static const gd_slot probe_slots[] = {{"kept", 0}, {"previous", GD_SLOT_ONLINE}};
static const char *const probe_scalars[] = {"number"};
static const gd_field probe_fields[] = {GD_REAL("knob", 1, -10, 10, "a number"), GD_CHILD("child", "a chain"),
                                        GD_INT_OR_NONE("seed", 0, 1e15, "of the generator"),
                                        GD_FLAG("flag", false, "a flag")};

#define PROBE_CLASS(x)                                                         \
    static const gd_link_class probe_##x##_class = {.name = "probe_" #x,       \
                                                    GD_FIELDS(probe_fields),   \
                                                    GD_SLOTS(probe_slots),     \
                                                    GD_SCALARS(probe_scalars), \
                                                    .step = probe_##x##_step};
PROBE_CLASS(a)
PROBE_CLASS(b)
PROBE_CLASS(c)

/* ---- a problem: f(p, q) = sum (p - 1)^2 + 2 sum q^2, with its evaluations counted ---- */

typedef struct problem {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p, *q;
    int calls, fail_at; /* fail_at: this call fails; 0: none */
    gd_objective objective;
} problem;

UNUSED static gd_tensor *problem_loss(void *user)
{
    problem *x = user;
    if (++x->calls == x->fail_at) return NULL;
    gd_tensor *a = gd_sum(gd_square(gd_add_scalar(x->p, -1)), NULL, false);
    return gd_add(a, gd_mul_scalar(gd_sum(gd_square(x->q), NULL, false), 2));
}

/* p = (3, -1), q = (0.5), in f64, with the chain given. */
UNUSED static problem open_problem(gd_ctx *ctx, const char *chain)
{
    problem x = {.ctx = ctx};
    probe = (probes){0};
    OK(gd_link_class_register(ctx, &probe_a_class));
    OK(gd_link_class_register(ctx, &probe_b_class));
    OK(gd_link_class_register(ctx, &probe_c_class));
    x.p = gd_require_grad(VECTOR(ctx, 3, -1));
    x.q = gd_require_grad(VECTOR(ctx, 0.5));
    x.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(x.o, "p", x.p));
    OK(gd_optimizer_add(x.o, "q", x.q));
    return x;
}

/* Steps with the objective; the problem must not move in memory meanwhile. */
UNUSED static gd_status step(problem *x, gd_step_info *info)
{
    gd_objective objective = {.loss = problem_loss, .user = x};
    return gd_optimizer_step(x->o, &objective, info);
}

/* The gradients as gd_backward would leave them, then a step without objective. */
UNUSED static gd_status step_without(problem *x, gd_step_info *info)
{
    gd_optimizer_zero_grad(x->o);
    gd_scope_begin(x->ctx);
    OK(gd_backward(problem_loss(x), NULL, 0));
    gd_scope_end(x->ctx);
    return gd_optimizer_step(x->o, NULL, info);
}

UNUSED static void close_problem(problem *x)
{
    gd_optimizer_free(x->o);
    gd_release(x->p);
    gd_release(x->q);
}

/* ---- files that are not forced to the disk: suites that save thousands of times ---- */

UNUSED static int no_sync(void *user, int fd)
{
    (void)user;
    (void)fd;
    return 0;
}

UNUSED static const gd_file_ops *quick_files(void)
{
    static gd_file_ops files;
    files = gd__posix_files;
    files.sync = no_sync;
    return &files;
}

/* A test with a context of its own. */
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_test, end_test)

#endif
