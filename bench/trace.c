/* Traced functions: instructions by callgrind, where valgrind is installed, and times beside jax.jit, where Python has JAX
 * (GRADUS_TORCH_PYTHON).  "At most" is what the library promises. */
#include "bench.h"
#include "trace_cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- instructions ---- */

static void report_count(const char *name, const char *text, long repeats, double most)
{
    double count = bench_instructions(name, repeats);
    if (count > 0)
        bench_report((report){.name = text, .value = count, .unit = "instructions", .limit = most});
}

#define AROUND 12 /* instructions of the loop that calls the replay */

static void report_counts(void)
{
    report_count("valley", "rosenbrock, value + gradient, compiled", 5000, 100 + AROUND);
    report_count("valley-interpreted", "rosenbrock, value + gradient, interpreted", 5000, 300 + AROUND);
    report_count("scan", "200 Runge-Kutta steps + gradient by scan, compiled", 20, 60e3);
    report_count("scan-interpreted", "200 Runge-Kutta steps + gradient by scan, interpreted", 20, 350e3);
    report_count("rollout-interpreted", "200 Runge-Kutta steps + gradient, unrolled, interpreted", 20, 350e3);
    report_count("adam", "step of adam on rosenbrock, traced", 400, 3e3);
    report_count("lbfgs", "step of lbfgs | strong_wolfe, traced", 400, 25e3);
}

/* ---- times ---- */

typedef struct subject {
    gd_tensor *x, *v, *value, *grad;
    gd_traced *f;
} subject;

static void run_gradient(void *arg)
{
    subject *s = arg;
    (void)!gd_traced_gradient(s->f, &s->x, 1, &s->value, &s->grad);
}

static void run_product(void *arg)
{
    subject *s = arg;
    (void)!gd_traced_hvp(s->f, &s->x, 1, &s->v, &s->grad);
}

#define MOST_PEERS 8

typedef struct peers {
    char name[MOST_PEERS][40];
    double time[MOST_PEERS]; /* milliseconds */
    int count;
} peers;

static void ask_jax(peers *p)
{
    FILE *out = bench_python("trace_jax.py", bench_threads());
    if (!out) return;
    while (p->count < MOST_PEERS && fscanf(out, "%39s %lf", p->name[p->count], &p->time[p->count]) == 2)
        p->count++;
    (void)pclose(out);
}

static double peer_time(const peers *p, const char *name)
{
    for (int i = 0; i < p->count; i++)
        if (!strcmp(p->name[i], name)) return p->time[i];
    return 0;
}

static subject subject_of(gd_ctx *ctx, gd_function function, gd_dtype dtype, int64_t n)
{
    gd_trace_options o = gd_trace_defaults();
    o.compile = GD_TRACE_AT_ONCE;
    return (subject){.x = gd_full(ctx, dtype, 1, &n, 0.7),
                     .v = gd_full(ctx, dtype, 1, &n, 0.7),
                     .f = gd_trace(ctx, function, NULL, &o)};
}

static void end_subject(subject *s)
{
    gd_traced_free(s->f);
    gd_release(s->x);
    gd_release(s->v);
}

/* Of the fastest call, as trace_jax.py takes it: other work on the machine makes medians of two programs no ratio. */
static double fastest(bench_fn run, subject *s)
{
    double best = 1e30, end;
    for (int i = 0; i < 5; i++) run(s);
    end = bench_now() + 0.5;
    for (int i = 0; i < 8 || bench_now() < end; i++) {
        double begin = bench_now();
        run(s);
        double took = bench_now() - begin;
        best = took < best ? took : best;
    }
    return best;
}

/* ratio: JAX's time over ours must be at least this. */
static void report_beside(const peers *p, const char *text, const char *name, double seconds, double ratio)
{
    double other = peer_time(p, name);
    bench_report((report){.name = text,
                          .value = 1e3 * seconds,
                          .unit = "ms",
                          .against = other > 0 ? "jax.jit:" : NULL,
                          .other = other,
                          .ratio_limit = other > 0 ? ratio : 0});
}

static void report_chained(gd_ctx *ctx, const peers *p)
{
    static const int64_t sizes[] = {1000, 100000, 1000000, 10000000};
    char text[80], name[40];
    for (int i = 0; i < 4; i++) {
        subject s = subject_of(ctx, bench_chained, GD_F64, sizes[i]);
        (void)snprintf(text, sizeof text, "chained rosenbrock, gradient, n = %lld", (long long)sizes[i]);
        (void)snprintf(name, sizeof name, "chained-%lld", (long long)sizes[i]);
        report_beside(p, text, name, fastest(run_gradient, &s), 2);
        if (sizes[i] == 1000000)
            report_beside(p, "its Hessian product, n = 1000000", "product-1000000", fastest(run_product, &s),
                          1);
        end_subject(&s);
    }
}

typedef struct bytes {
    plain_pool *pool;
    float *from, *to;
    long n;
} bytes;

static void move_bytes(void *arg)
{
    bytes *b = arg;
    plain_run(b->pool, PLAIN_ADD, b->to, b->from, b->from, b->n);
}

/* Against a loop that reads as many floats and writes as many. */
static void report_ten(gd_ctx *ctx)
{
    const long n = 10000000;
    subject s = subject_of(ctx, bench_ten, GD_F32, n);
    bytes b = {plain_start(bench_threads()), calloc((size_t)n, sizeof(float)),
               calloc((size_t)n, sizeof(float)), n};
    double ours = fastest(run_gradient, &s), floor = ours;
    if (b.from && b.to) bench_compare(run_gradient, &s, move_bytes, &b, &ours, &floor);
    bench_report((report){.name = "ten operators over 1e7 f32, with gradient",
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = "a loop over its bytes:",
                          .other = 1e3 * floor,
                          .ratio_limit = 1 / 1.3});
    plain_stop(b.pool);
    free(b.from);
    free(b.to);
    end_subject(&s);
}

void bench_trace(void)
{
    peers p = {.count = 0};
    report_counts();
    ask_jax(&p);
    gd_ctx *ctx = bench_context(bench_threads());
    report_chained(ctx, &p);
    report_ten(ctx);
    bench_check(ctx);
    gd_ctx_free(ctx);
}
