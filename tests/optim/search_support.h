/* An optimizer on a plain C function of one vector, with every evaluation remembered; and saving, loading, failing. */
#ifndef GD_TESTS_SEARCH_SUPPORT_H
#define GD_TESTS_SEARCH_SUPPORT_H

#include "gradus/autograd.h"
#include "gradus/optim.h"
#include "support/support.h"

#include <math.h>
#include <unistd.h>

#define OK(call) assert_int_equal(call, GD_OK)
#define MOST     64 /* elements */
/* cmocka compares floats only. */
#define assert_near(a, b, tolerance) assert_near_at(a, b, tolerance, __FILE__, __LINE__)
__attribute__((unused)) static void assert_near_at(double a, double b, double tolerance, const char *file,
                                                   int line)
{
    if (fabs(a - b) <= tolerance) return;
    print_error("%.17g is not within %g of %.17g\n", a, tolerance, b);
    _fail(file, line);
}

/* Value, and the gradient into g (never NULL). */
typedef double (*plain_fn)(const double *x, double *g, int n);

typedef struct run {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    plain_fn fn;
    int n, evals, fail_at; /* this evaluation fails; 0: none */
    double seen[256][2];   /* first element and value of each evaluation */
    gd_step_info info;
} run;

static gd_status run_gradient(void *user, double *loss, gd_tensor *const *grads)
{
    run *r = user;
    double x[MOST], g[MOST];
    if (++r->evals == r->fail_at) return gd_fail(r->ctx, GD_CALLBACK, "made to fail");
    gd_status status = gd_read_f64(r->p, x, r->n);
    *loss = r->fn(x, g, r->n);
    if (r->evals <= 256) {
        r->seen[r->evals - 1][0] = x[0];
        r->seen[r->evals - 1][1] = *loss;
    }
    return status || !grads ? status : gd_write_f64(grads[0], g, r->n);
}

static gd_status run_value(void *user, double *loss) { return run_gradient(user, loss, NULL); }

static run run_open(gd_ctx *ctx, const char *chain, plain_fn fn, int n, const double *start)
{
    run r = {.ctx = ctx, .fn = fn, .n = n};
    r.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){n}, start));
    r.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    assert_no_error(ctx);
    OK(gd_optimizer_add(r.o, "p", r.p));
    return r;
}

static void run_close(run *r)
{
    gd_optimizer_free(r->o);
    gd_release(r->p);
}

static gd_status run_step(run *r)
{
    gd_objective objective = {.value = run_value, .gradient = run_gradient, .user = r};
    return gd_optimizer_step(r->o, &objective, &r->info);
}

__attribute__((unused)) static void run_steps(run *r, int count)
{
    for (int i = 0; i < count; i++) {
        gd_status status = run_step(r);
        assert_no_error(r->ctx);
        OK(status);
    }
}

__attribute__((unused)) static void params_of(const run *r, double *x) { OK(gd_read_f64(r->p, x, r->n)); }

__attribute__((unused)) static double first_of(const run *r)
{
    double x[MOST];
    params_of(r, x);
    return x[0];
}

/* Steps, saves, loads into a new optimizer and goes on: the same bits as without stopping. */
__attribute__((unused)) static void check_continues(const char *chain, plain_fn fn, int n,
                                                    const double *start, int before, int after)
{
    char path[] = "/tmp/gradus_test_XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    close(file);
    double through[MOST], again[MOST], middle[MOST];
    gd_ctx *ctx = context(NULL, 1, NULL);
    run r = run_open(ctx, chain, fn, n, start);
    run_steps(&r, before);
    params_of(&r, middle);
    OK(gd_optimizer_save(r.o, path));
    run_steps(&r, after);
    params_of(&r, through);
    run_close(&r);
    end_context(ctx, NULL);
    ctx = context(NULL, 1, NULL);
    r = run_open(ctx, chain, fn, n, middle);
    gd_status status = gd_optimizer_load(r.o, path, true);
    assert_no_error(ctx);
    OK(status);
    run_steps(&r, after);
    params_of(&r, again);
    for (int i = 0; i < n; i++)
        if (memcmp(&through[i], &again[i], sizeof through[i]))
            fail_msg("%s: element %d is %.17g after loading, %.17g without", chain, i, again[i], through[i]);
    run_close(&r);
    end_context(ctx, NULL);
    unlink(path);
}

/* Allocation k of a step fails, for every k: nothing leaks, and the next step works. */
__attribute__((unused)) static void check_failing_memory(const char *chain, plain_fn fn, int n,
                                                         const double *start, int warm)
{
    for (int64_t k = 1, failed = 1; failed; k++) {
        memory m = {0};
        gd_ctx *ctx = context(&m, 1, NULL);
        run r = run_open(ctx, chain, fn, n, start);
        run_steps(&r, warm);
        m.requests = 0;
        m.fail_at = k;
        (void)!run_step(&r);
        failed = m.failed;
        m.fail_at = 0;
        gd_clear_error(ctx);
        run_steps(&r, 1);
        assert_true(isfinite(first_of(&r)));
        run_close(&r);
        end_context(ctx, &m);
    }
}

/* Evaluation k of a step fails, for every k: the step reports it, the parameters are where they were bit for bit (within
 * `slack`), and the next step works. */
__attribute__((unused)) static void check_failing_evaluations(const char *chain, plain_fn fn, int n,
                                                              const double *start, int warm, double slack)
{
    for (int k = 1;; k++) {
        gd_ctx *ctx = context(NULL, 1, NULL);
        run r = run_open(ctx, chain, fn, n, start);
        run_steps(&r, warm);
        double before[MOST], after[MOST];
        params_of(&r, before);
        r.fail_at = r.evals + k;
        gd_status status = run_step(&r);
        bool failed = r.evals >= r.fail_at;
        if (failed) {
            assert_int_equal(status, GD_CALLBACK);
            gd_clear_error(ctx);
            params_of(&r, after);
            for (int i = 0; i < n; i++)
                if (fabs(after[i] - before[i]) > slack * fabs(before[i]) ||
                    (slack == 0 && after[i] != before[i]))
                    fail_msg("%s: evaluation %d fails and moves element %d", chain, k, i);
            run_steps(&r, 2);
        }
        run_close(&r);
        end_context(ctx, NULL);
        if (!failed) return;
    }
}

/* ---- functions ---- */

__attribute__((unused)) static double rosenbrock(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) g[i] = 0;
    for (int i = 0; i + 1 < n; i++) {
        double a = x[i + 1] - x[i] * x[i], b = 1 - x[i];
        f += 100 * a * a + b * b;
        g[i] -= 400 * a * x[i] + 2 * b;
        g[i + 1] += 200 * a;
    }
    return f;
}

/* sum of (i + 1) x_i^2 / 2, and its square root where a slope is everywhere the same. */
__attribute__((unused)) static double bowl(const double *x, double *g, int n)
{
    double f = 0;
    for (int i = 0; i < n; i++) {
        g[i] = (i + 1) * x[i];
        f += x[i] * g[i] / 2;
    }
    return f;
}

#endif
