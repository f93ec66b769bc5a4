/* What the benchmarks of traced functions run: see trace.c. */
#include "trace/trace_cases.h"
#include "bench.h"
#include "gradus/optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gd_tensor *bench_valley(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    gd_tensor *x = gd_index(in[0], "0", 0), *y = gd_index(in[0], "0", 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100));
}

gd_tensor *bench_chained(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    int64_t n = gd_size(in[0], 0);
    gd_tensor *x = gd_slice(in[0], "0", 0, n - 1, 1), *y = gd_slice(in[0], "0", 1, n, 1);
    gd_tensor *a = gd_add_scalar(gd_neg(x), 1), *b = gd_sub(y, gd_square(x));
    return gd_sum(gd_add(gd_square(a), gd_mul_scalar(gd_square(b), 100)), NULL, false);
}

gd_tensor *bench_ten(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    gd_tensor *x = in[0], *y = gd_mul(gd_add_scalar(gd_square(x), 1), gd_mul_scalar(x, 0.5));
    y = gd_sub(gd_square(y), gd_neg(x));
    return gd_sum(gd_add(gd_mul_scalar(y, 0.1), gd_square(gd_add_scalar(x, 2))), NULL, false);
}

/* x' = a x - b x y, y' = d x y - c y, of in[0] = x, y, a, b, c, d. */
static void slope(gd_tensor *const *rate, gd_tensor *const *at, gd_tensor **out)
{
    gd_tensor *meet = gd_mul(at[0], at[1]);
    out[0] = gd_sub(gd_mul(rate[0], at[0]), gd_mul(rate[1], meet));
    out[1] = gd_sub(gd_mul(rate[3], meet), gd_mul(rate[2], at[1]));
}

static void moved(gd_tensor *const *at, gd_tensor *const *by, double h, gd_tensor **out)
{
    for (int i = 0; i < 2; i++) out[i] = gd_add(at[i], gd_mul_scalar(by[i], h));
}

#define ROLLOUT_STEPS 200

typedef struct rollout {
    gd_tensor *rate[4];
} rollout;

static gd_status step_of(const rollout *r, gd_tensor *const *state, gd_tensor **next)
{
    const double h = 0.05;
    gd_tensor *k[4][2], *at[2];
    slope(r->rate, state, k[0]);
    moved(state, k[0], h / 2, at);
    slope(r->rate, at, k[1]);
    moved(state, k[1], h / 2, at);
    slope(r->rate, at, k[2]);
    moved(state, k[2], h, at);
    slope(r->rate, at, k[3]);
    for (int i = 0; i < 2; i++) {
        gd_tensor *ends = gd_add(k[0][i], k[3][i]), *middle = gd_mul_scalar(gd_add(k[1][i], k[2][i]), 2);
        next[i] = gd_add(state[i], gd_mul_scalar(gd_add(ends, middle), h / 6));
    }
    return next[0] && next[1] ? GD_OK : GD_NOMEM;
}

gd_tensor *bench_rollout(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    rollout r = {.rate = {NULL}};
    gd_tensor *state[2], *next[2];
    for (int i = 0; i < 6; i++) *(i < 2 ? &state[i] : &r.rate[i - 2]) = gd_index(in[0], "0", i);
    for (int step = 0; step < ROLLOUT_STEPS; step++) {
        if (step_of(&r, state, next)) return NULL;
        memcpy(state, next, sizeof state);
    }
    return gd_add(gd_square(state[0]), gd_square(state[1]));
}

static gd_status rolled(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                        gd_tensor **y)
{
    (void)x, (void)y;
    return step_of(user, state, next);
}

static void end_rollout(void *user)
{
    rollout *r = user;
    for (int i = 0; i < 4; i++) gd_release(r->rate[i]);
    free(r);
}

/* The same as a loop. */
gd_tensor *bench_scan(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    rollout *r = calloc(1, sizeof *r);
    gd_tensor *state[2], *last[2];
    for (int i = 0; i < 6 && r; i++) *(i < 2 ? &state[i] : &r->rate[i - 2]) = gd_index(in[0], "0", i);
    for (int i = 0; i < 4 && r; i++) gd_retain(r->rate[i]);
    gd_scan_body body = {.step = rolled, .user = r, .destroy = end_rollout, .states = 2};
    if (!r || gd_scan(gd_tensor_ctx(in[0]), &body, state, NULL, ROLLOUT_STEPS, last, NULL)) return NULL;
    return gd_add(gd_square(last[0]), gd_square(last[1]));
}

/* ---- counting ---- */

static void count_function(gd_function function, int64_t n, gd_trace_compile compile, long repeats)
{
    gd_ctx *ctx = bench_context(1);
    static const double start[6] = {0.7, 0.9, 0.6, 0.4, 0.5, 0.3};
    gd_tensor *x = gd_from_f64(ctx, GD_F64, 1, &n, start), *value, *grad;
    gd_trace_options o = gd_trace_defaults();
    o.compile = compile;
    gd_traced *f = gd_trace(ctx, function, NULL, &o);
    for (long i = 0; i < 5 + repeats; i++)
        if (gd_traced_gradient(f, &x, 1, &value, &grad)) break;
    bench_check(ctx);
    gd_traced_free(f);
    gd_release(x);
    gd_ctx_free(ctx);
}

typedef struct stepped {
    gd_tensor *x;
} stepped;

static gd_tensor *loss_of(void *user)
{
    stepped *s = user;
    return bench_valley(NULL, &s->x, 1);
}

static void count_steps(const char *chain, long repeats)
{
    gd_ctx *ctx = bench_context(1);
    stepped s = {gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.2, 1}))};
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    gd_objective objective = {.loss = loss_of, .user = &s, .traced = true};
    gd_status status = gd_optimizer_add(o, "x", s.x);
    for (long i = 0; i < 10 + repeats && !status; i++) {
        /* from the start again: a search that has arrived does something else */
        if (i % 8 == 0) status = gd_write_f64(s.x, (double[]){-1.2 + 1e-5 * (double)i, 1}, 2);
        if (!status) status = gd_optimizer_step(o, &objective, NULL);
    }
    bench_check(ctx);
    gd_optimizer_free(o);
    gd_release(s.x);
    gd_ctx_free(ctx);
}

static void count_valley(long repeats) { count_function(bench_valley, 2, GD_TRACE_AT_ONCE, repeats); }
static void interpret_valley(long repeats) { count_function(bench_valley, 2, GD_TRACE_INTERPRET, repeats); }
static void count_rollout(long repeats) { count_function(bench_rollout, 6, GD_TRACE_AT_ONCE, repeats); }
static void interpret_rollout(long repeats) { count_function(bench_rollout, 6, GD_TRACE_INTERPRET, repeats); }
static void count_scan(long repeats) { count_function(bench_scan, 6, GD_TRACE_AT_ONCE, repeats); }
static void interpret_scan(long repeats) { count_function(bench_scan, 6, GD_TRACE_INTERPRET, repeats); }
static void count_adam(long repeats) { count_steps("adam | lr(1e-6)", repeats); }
static void count_lbfgs(long repeats) { count_steps("lbfgs | strong_wolfe", repeats); }

const bench_case bench_trace_cases[] = {
    {"valley", count_valley},
    {"valley-interpreted", interpret_valley},
    {"rollout", count_rollout},
    {"rollout-interpreted", interpret_rollout},
    {"scan", count_scan},
    {"scan-interpreted", interpret_scan},
    {"adam", count_adam},
    {"lbfgs", count_lbfgs},
    {0},
};
