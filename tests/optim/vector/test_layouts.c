/* Parameters and gradients that lie in memory in another order than that of their axes, with gaps, off the usual addresses or in
 * another dtype: the numbers of rows after rows, in place. */
#include "gradus/chain.h"
#include "gradus/dlpack.h"
#include "optim/optim_support.h"
#include "optim/plan/plan.h"
#include "optim/table_support.h"

#define STEPS 4
#define N     (2 * 3 * 4 * 5)
static const int64_t shape[4] = {2, 3, 4, 5};
static const int64_t rows[4] = {60, 20, 5, 1};
static const int64_t channels_last[4] = {60, 1, 15, 3}; /* of the second axis neighbours are neighbours */
static const int64_t gaps[4] = {2 * 60, 2, 2 * 15, 2 * 3};
#define ROOM (2 * N + 8)

static int64_t place_of(int64_t i, const int64_t *stride)
{
    int64_t at = 0;
    for (int k = 4; k-- > 0; i /= shape[k]) at += i % shape[k] * stride[k];
    return at;
}

static double start_of(int64_t i) { return cos(1 + 0.7 * (double)i); }
static double slope_of(int64_t i, int step) { return sin(2 + 0.3 * (double)i + step) + 0.05; }

/* A parameter over memory of its own, and its gradient. */
typedef struct laid {
    gd_ctx *ctx;
    gd_optimizer *o;
    double value[N], slope[ROOM];
    const int64_t *stride, *slope_stride;
    int offset; /* of the gradient */
    gd_tensor *p;
} laid;

static bool open_laid(laid *l, gd_ctx *ctx, const char *chain, const int64_t *stride,
                      const int64_t *slope_stride)
{
    *l = (laid){.ctx = ctx, .stride = stride, .slope_stride = slope_stride};
    for (int64_t i = 0; i < N; i++) l->value[place_of(i, stride)] = start_of(i);
    l->o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    gd_device *cpu = gd_device_get(ctx, "cpu");
    l->p = l->o ? gd_from_memory(cpu, GD_F64, 4, shape, stride, l->value, 0, NULL, NULL) : NULL;
    if (!l->p || gd_optimizer_add(l->o, "p", gd_require_grad(l->p))) return false;
    l->o->test.interpret = true;
    return true;
}

static gd_status step_laid(laid *l, int step)
{
    double *slope = l->slope + l->offset;
    for (int64_t i = 0; i < N; i++) slope[place_of(i, l->slope_stride)] = slope_of(i, step);
    gd_device *cpu = gd_device_get(l->ctx, "cpu");
    gd_tensor *g = gd_from_memory(cpu, GD_F64, 4, shape, l->slope_stride, slope, 0, NULL, NULL);
    gd_status status = g ? gd_set_grad(l->p, g) : gd_error(l->ctx);
    gd_release(g);
    return status ? status : gd_optimizer_step(l->o, NULL, NULL);
}

static void close_laid(laid *l)
{
    if (l->p) gd_zero_grad(l->p);
    gd_optimizer_free(l->o);
    gd_release(l->p);
}

/* The largest difference to another one, relative to 1; -1: none, bit for bit. */
static double difference(const laid *a, const laid *b)
{
    double most = -1;
    for (int64_t i = 0; i < N; i++) {
        double x = a->value[place_of(i, a->stride)], y = b->value[place_of(i, b->stride)];
        if (memcmp(&x, &y, sizeof x)) most = fmax(most, fabs(x - y) / fmax(1, fabs(x)));
    }
    return most;
}

/* ---- every rule ---- */

static int tried;

/* Do sums go over memory as it lies?  Then their last digits are others. */
static bool sums_as_it_lies(const gd_optimizer *o)
{
    bool sums = false;
    for (const gd_plan *plan = o->plans; plan && !sums; plan = plan->next)
        for (int k = 0; k < plan->set.tables && !plan->in_order; k++)
            sums = sums || plan->set.table[k].p->reductions;
    return sums;
}

static void try_link(const gd_link_class *cls, const char *text)
{
    char chain[500];
    snprintf(chain, sizeof chain, "%s | lr(0.01)", text);
    if (!cls->rule && !cls->update_rule && !cls->apply_tensors) return;
    static laid a, b;
    gd_ctx *ctx = context(NULL, 1, NULL);
    bool good = open_laid(&a, ctx, chain, rows, rows) &&
                open_laid(&b, ctx, chain, channels_last, channels_last);
    for (int step = 0; step < STEPS && good; step++) {
        good = step_laid(&a, step) == GD_OK; /* some need an objective, or matrices */
        if (good) OK(step_laid(&b, step));
    }
    if (good) {
        double d = difference(&a, &b), bound = sums_as_it_lies(b.o) || !cls->rule ? 1e-9 : -1;
        if (!(d <= bound)) fail_msg("%s: %g", chain, d);
        assert_ptr_equal(gd_data(b.p), b.value);
        tried++;
    }
    gd_clear_error(ctx);
    close_laid(&a);
    close_laid(&b);
    end_context(ctx, NULL);
}

static void every_rule_steps_in_any_layout(void **state)
{
    (void)state;
    tried = 0;
    each_link_text(try_link);
    print_message("%d links\n", tried);
    assert_true(tried * test_share() >= 100);
}

/* ---- gradients that lie otherwise ---- */

static void gradients_may_lie_otherwise(void **state)
{
    (void)state;
    static const struct {
        const int64_t *param, *slope;
        int offset;
    } cases[] = {{rows, channels_last, 0},
                 {channels_last, rows, 0},
                 {channels_last, gaps, 0},
                 {rows, gaps, 3},
                 {rows, rows, 1},
                 {channels_last, channels_last, 5},
                 {channels_last, channels_last, 0}};
    static const char *const chains[] = {"lr(0.1)",
                                         "clip_value(0.5) | adam | weight_decay(0.1) | lr(0.1)",
                                         "clip_norm(1) | adam | lr(0.1)",
                                         "adafactor | lr(0.1)",
                                         "lbfgs | lr(0.1)",
                                         "adam | muon | lr(0.1)"};
    static laid want, got;
    for (int c = 0; c < COUNT_OF(chains); c++)
        for (int k = 0; k < COUNT_OF(cases); k++) {
            gd_ctx *ctx = context(NULL, 1, NULL);
            assert_true(open_laid(&want, ctx, chains[c], rows, rows));
            assert_true(open_laid(&got, ctx, chains[c], cases[k].param, cases[k].slope));
            got.offset = cases[k].offset;
            for (int step = 0; step < STEPS; step++) {
                OK(step_laid(&want, step));
                OK(step_laid(&got, step));
            }
            double d = difference(&want, &got),
                   bound = c < 2 || (c < 4 && cases[k].param == rows) ? -1 : 1e-12;
            if (!(d <= bound)) fail_msg("%s, case %d: %g", chains[c], k, d);
            assert_ptr_equal(gd_data(got.p), got.value);
            close_laid(&want);
            close_laid(&got);
            end_context(ctx, NULL);
        }
}

/* A gradient of 32 bits for a parameter of 16, and the other way round. */
static void gradients_may_have_another_dtype(void **state)
{
    (void)state;
    static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};
    gd_ctx *ctx = context(NULL, 1, NULL);
    const double slope[4] = {0.5, -1, 2, 0.25}; /* the same number in every dtype */
    for (int d = 0; d < COUNT_OF(dtypes); d++)
        for (int g = 0; g < COUNT_OF(dtypes); g++) {
            double x[2][4];
            for (int k = 0; k < 2; k++) {
                gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "clip_norm(1) | adam | lr(0.1)"));
                gd_tensor *p = gd_require_grad(gd_from_f64(ctx, dtypes[d], 1, (int64_t[]){4}, slope));
                gd_tensor *s = gd_from_f64(ctx, dtypes[k ? g : d], 1, (int64_t[]){4}, slope);
                OK(gd_optimizer_add(o, "p", p));
                OK(gd_set_grad(p, s));
                for (int step = 0; step < 3; step++) OK(gd_optimizer_step(o, NULL, NULL));
                assert_true(gd_tensor_dtype(gd_grad_of(p)) == dtypes[k ? g : d]);
                OK(gd_read_f64(p, x[k], 4));
                gd_zero_grad(p);
                gd_optimizer_free(o);
                gd_release(p), gd_release(s);
            }
            double most = 0;
            for (int i = 0; i < 4; i++) most = fmax(most, fabs(x[0][i] - x[1][i]));
            if (!(most <= 1e-6))
                fail_msg("%s, gradient %s: %g", gd_dtype_name(dtypes[d]), gd_dtype_name(dtypes[g]), most);
        }
    end_context(ctx, NULL);
}

/* As in a bucket of gradients, where one begins behind the other. */
static void gradients_may_begin_at_any_element(void **state)
{
    (void)state;
    enum { COUNT = 20000 };
    gd_ctx *ctx = context(NULL, 1, NULL);
    gd_device *cpu = gd_device_get(ctx, "cpu");
    float *bucket = malloc((COUNT + 4) * sizeof *bucket), *value = malloc((COUNT + 4) * sizeof *value);
    float *want = malloc(COUNT * sizeof *want);
    assert_true(bucket && value && want);
    for (int offset = 0; offset < 4; offset++) {
        gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.1)"));
        for (int i = 0; i < COUNT; i++)
            bucket[offset + i] = (float)slope_of(i, 0), value[offset + i] = (float)start_of(i);
        gd_tensor *p = gd_from_memory(cpu, GD_F32, 1, (int64_t[]){COUNT}, NULL, value + offset, 0, NULL,
                                      NULL);
        gd_tensor *g = gd_from_memory(cpu, GD_F32, 1, (int64_t[]){COUNT}, NULL, bucket + offset, 0, NULL,
                                      NULL);
        OK(gd_optimizer_add(o, "p", gd_require_grad(p)));
        OK(gd_set_grad(p, g));
        for (int step = 0; step < 3; step++) OK(gd_optimizer_step(o, NULL, NULL));
        if (offset == 0) memcpy(want, value, COUNT * sizeof *want);
        assert_memory_equal(value + offset, want, COUNT * sizeof *want);
        gd_zero_grad(p);
        gd_optimizer_free(o);
        gd_release(p), gd_release(g);
    }
    free(bucket), free(value), free(want);
    end_context(ctx, NULL);
}

/* ---- in place ---- */

/* In memory as it lies nothing is copied: a step asks for as much memory as with rows. */
static void a_step_in_another_layout_copies_nothing(void **state)
{
    (void)state;
    static laid l;
    int64_t requests[2];
    for (int k = 0; k < 2; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        const int64_t *stride = k ? channels_last : rows;
        assert_true(open_laid(&l, ctx, "clip_norm(1) | adam | lr(0.1)", stride, stride));
        OK(step_laid(&l, 0));
        OK(step_laid(&l, 1));
        int64_t before = m.requests;
        OK(gd_optimizer_step(l.o, NULL, NULL));
        requests[k] = m.requests - before;
        close_laid(&l);
        end_context(ctx, &m);
    }
    assert_int_equal(requests[0], requests[1]);
}

/* What was saved with one layout goes on with another. */
static void state_goes_from_layout_to_layout(void **state)
{
    (void)state;
    const char *path = "layouts.safetensors";
    static laid from, to;
    static const int64_t *const layouts[] = {rows, channels_last};
    for (int k = 0; k < 4; k++) {
        const int64_t *a = layouts[k / 2], *b = layouts[k % 2];
        gd_ctx *ctx = context(NULL, 1, NULL);
        assert_true(open_laid(&from, ctx, "adam | lr(0.1)", a, a));
        assert_true(open_laid(&to, ctx, "adam | lr(0.1)", b, b));
        for (int step = 0; step < 3; step++) OK(step_laid(&from, step));
        OK(gd_optimizer_save(from.o, path));
        OK(gd_optimizer_load(to.o, path, true));
        for (int64_t i = 0; i < N; i++) to.value[place_of(i, b)] = from.value[place_of(i, a)];
        for (int step = 3; step < 6; step++) {
            OK(step_laid(&from, step));
            OK(step_laid(&to, step));
        }
        assert_true(difference(&from, &to) == -1);
        close_laid(&from);
        close_laid(&to);
        end_context(ctx, NULL);
    }
    remove(path);
}

/* Steps with an objective made of operators, and what links make that look at all elements. */
static gd_tensor *distance(void *user)
{
    laid *l = user;
    return gd_sum(gd_square(gd_add_scalar(l->p, -0.3)), NULL, false);
}

static void objectives_find_the_same_minimum(void **state)
{
    (void)state;
    static const char *const chains[] = {
        "lbfgs | strong_wolfe",    "adam | lr(0.1)", "newton_cg | backtracking",
        "shampoo | lr(0.1)",       "soap | lr(0.1)", "sam(0.05) | lr(0.1)",
        "box(-1, 0.25) | lr(0.1)", "fdm | lr(0.1)",  "spsa(seed=1) | lr(0.002)"};
    static laid a, b;
    for (int c = 0; c < COUNT_OF(chains); c++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        assert_true(open_laid(&a, ctx, chains[c], rows, rows) &&
                    open_laid(&b, ctx, chains[c], channels_last, rows));
        gd_objective fa = {.loss = distance, .user = &a}, fb = {.loss = distance, .user = &b};
        for (int step = 0; step < 5; step++) {
            if (gd_optimizer_step(a.o, &fa, NULL)) fail_msg("%s: %s", chains[c], gd_error_text(ctx));
            if (gd_optimizer_step(b.o, &fb, NULL)) fail_msg("%s: %s", chains[c], gd_error_text(ctx));
        }
        double d = difference(&a, &b);
        if (!(d <= 1e-8)) fail_msg("%s: %g", chains[c], d);
        assert_ptr_equal(gd_data(b.p), b.value);
        close_laid(&a);
        close_laid(&b);
        end_context(ctx, NULL);
    }
}

/* ---- what is refused, and allocations ---- */

static void parameters_with_gaps_are_refused(void **state)
{
    (void)state;
    gd_ctx *ctx = context(NULL, 1, NULL);
    double values[ROOM] = {0};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, "lr(1)"));
    gd_tensor *p = gd_from_memory(gd_device_get(ctx, "cpu"), GD_F64, 4, shape, gaps, values, 0, NULL, NULL);
    assert_int_equal(gd_optimizer_add(o, "p", p), GD_SHAPE);
    assert_error(ctx, GD_SHAPE, "optimizer: parameter 'p' has gaps in its memory");
    gd_release(p);
    gd_optimizer_free(o);
    end_context(ctx, NULL);
}

static bool steps_with_copies(gd_ctx *ctx)
{
    static laid l;
    const char *const chains[] = {"clip_norm(1) | adam | lr(0.1)", "adafactor | lr(0.1)"};
    bool good = true;
    for (int c = 0; c < 2 && good; c++) {
        good = open_laid(&l, ctx, chains[c], channels_last, gaps);
        for (int step = 0; step < 2 && good; step++) good = step_laid(&l, step) == GD_OK;
        close_laid(&l);
    }
    return good;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    fail_each_allocation(1, steps_with_copies);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_rule_steps_in_any_layout),
        TEST(gradients_may_lie_otherwise),
        TEST(gradients_may_have_another_dtype),
        TEST(gradients_may_begin_at_any_element),
        TEST(a_step_in_another_layout_copies_nothing),
        TEST(state_goes_from_layout_to_layout),
        TEST(objectives_find_the_same_minimum),
        TEST(parameters_with_gaps_are_refused),
        TEST(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
