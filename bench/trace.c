/* Traced functions against the same functions run each time. */
#include "bench.h"
#include "gradus/optim.h"
#include "gradus/trace.h"

#include <stdio.h>

typedef struct subject {
    gd_ctx *ctx;
    gd_tensor *x, *value, *grad;
    gd_traced *f;
    gd_optimizer *optimizer;
    gd_objective objective;
} subject;

static gd_tensor *valley(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    gd_tensor *x = gd_index(in[0], "0", 0), *y = gd_index(in[0], "0", 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100));
}

static gd_tensor *chained(void *user, gd_tensor *const *in, int count)
{
    (void)user;
    (void)count;
    int64_t n = gd_size(in[0], 0);
    gd_tensor *x = gd_slice(in[0], "0", 0, n - 1, 1), *y = gd_slice(in[0], "0", 1, n, 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_sum(gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100)), NULL, false);
}

static void replay(void *arg)
{
    subject *s = arg;
    (void)!gd_traced_gradient(s->f, &s->x, 1, &s->value, &s->grad);
}

/* The same by operators: GRADUS_TRACE does not matter, and nothing is recorded. */
static void run_function(void *arg)
{
    subject *s = arg;
    gd_tensor *grad;
    gd_function function = gd_size(s->x, 0) == 2 ? valley : chained;
    gd_scope_begin(s->ctx);
    gd_tensor *x = gd_require_grad(gd_detach(s->x));
    (void)!gd_grad(function(NULL, &x, 1), NULL, &x, 1, 0, &grad);
    gd_scope_end(s->ctx);
}

static void report_function(gd_ctx *ctx, const char *name, int64_t n)
{
    static const struct {
        gd_trace_compile compile;
        const char *name;
    } ways[] = {{GD_TRACE_INTERPRET, "interpreted"}, {GD_TRACE_AT_ONCE, "compiled"}};
    subject s = {.ctx = ctx, .x = gd_full(ctx, GD_F64, 1, &n, 0.7)};
    char line[96];
    double eager = bench_time(run_function, &s);
    (void)snprintf(line, sizeof line, "%s, value + gradient by operators", name);
    bench_report((report){.name = line, .value = 1e9 * eager, .unit = "ns"});
    for (int i = 0; i < 2; i++) {
        gd_trace_options o = gd_trace_defaults();
        o.compile = ways[i].compile;
        s.f = gd_trace(ctx, n == 2 ? valley : chained, NULL, &o);
        for (int call = 0; call < 4; call++) replay(&s);
        (void)snprintf(line, sizeof line, "%s, replayed, %s", name, ways[i].name);
        bench_report((report){.name = line, .value = 1e9 * bench_time(replay, &s), .unit = "ns"});
        gd_traced_free(s.f);
    }
    gd_release(s.x);
}

static gd_tensor *loss(void *user)
{
    subject *s = user;
    return valley(NULL, &s->x, 1);
}

static void step(void *arg)
{
    subject *s = arg;
    (void)!gd_optimizer_step(s->optimizer, &s->objective, NULL);
}

static void report_step(gd_ctx *ctx, const char *chain, bool traced)
{
    subject s = {.ctx = ctx,
                 .x = gd_require_grad(gd_full(ctx, GD_F64, 1, (int64_t[]){2}, 0.7)),
                 .optimizer = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    s.objective = (gd_objective){.loss = loss, .user = &s, .traced = traced};
    char line[96];
    (void)!gd_optimizer_add(s.optimizer, "x", s.x);
    for (int i = 0; i < 5; i++) step(&s);
    (void)snprintf(line, sizeof line, "step of %s%s", chain, traced ? ", traced" : "");
    bench_report((report){.name = line, .value = 1e9 * bench_time(step, &s), .unit = "ns"});
    gd_optimizer_free(s.optimizer);
    gd_release(s.x);
}

void bench_trace(void)
{
    gd_ctx *ctx = bench_context(1);
    report_function(ctx, "rosenbrock", 2);
    report_function(ctx, "chained rosenbrock, n = 10", 10);
    report_function(ctx, "chained rosenbrock, n = 1000", 1000);
    report_step(ctx, "adam | lr(1e-6)", false);
    report_step(ctx, "adam | lr(1e-6)", true);
    bench_check(ctx);
    gd_ctx_free(ctx);
}
