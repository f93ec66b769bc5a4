/* Traced functions: instructions by callgrind, where valgrind is installed, and times beside jax.jit, where Python has JAX
 * (GRADUS_TORCH_PYTHON).  "At most" is what the library promises. */
#include "bench.h"
#include "small/small_cases.h"
#include "trace/trace_cases.h"
#include "trace/trace_models.h"
#include "trace/trace_work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- instructions ---- */

#define AROUND 12 /* instructions of the loop that calls the replay */

typedef struct counted {
    const char *name, *text;
    long repeats;
    double most;
    const char *peer, *against;
    double steps; /* of a repeat of the peer; 0: one */
} counted;

static const counted counts[] = {
    {"valley", "rosenbrock, value + gradient, compiled", 20000, 100 + AROUND, "casadi-valley",
     "CasADi's C:", 0},
    {"valley-interpreted", "rosenbrock, value + gradient, interpreted", 5000, 300 + AROUND, NULL, NULL, 0},
    {"scan", "200 Runge-Kutta steps + gradient by scan, compiled", 20, 60e3, "casadi-rollout",
     "CasADi's C:", 0},
    {"scan-interpreted", "200 Runge-Kutta steps + gradient by scan, interpreted", 20, 350e3, NULL, NULL, 0},
    {"rollout-interpreted", "the same, unrolled, interpreted", 20, 350e3, NULL, NULL, 0},
    {"adam", "step of adam on rosenbrock, traced", 4000, 3e3, NULL, NULL, 0},
    {"lbfgs", "step of lbfgs | strong_wolfe, traced", 1000, 25e3, "liblbfgs-10",
     "liblbfgs, n = 10:", SMALL_ITERATIONS},
    {"fit-many", "fit, 20 x 3, errors, traced, of many", 100, 200e3, "gsl-fit", "GSL:", 0},
    {"fit-callbacks", "fit, 20 x 3, errors, callbacks", 100, 200e3, "minpack-fit", "MINPACK, no errors:", 0},
};

static void report_counts(void)
{
    if (!(bench_instructions("valley", 1000) > 0)) bench_note("instructions are not counted:", "no valgrind");
    (void)bench_casadi_open();
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        const counted *c = &counts[i];
        double count = bench_instructions(c->name, c->repeats);
        if (!(count > 0)) continue;
        double other = c->peer ? bench_instructions(c->peer, c->repeats) / (c->steps > 0 ? c->steps : 1) : 0;
        bench_report((report){.name = c->text,
                              .value = count,
                              .unit = "instructions",
                              .limit = c->most,
                              .against = other > 0 ? c->against : NULL,
                              .other = other});
    }
    bench_casadi_close();
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

#define MOST_PEERS 48

typedef struct peers {
    char name[MOST_PEERS][40];
    double time[MOST_PEERS]; /* milliseconds */
    int count;
} peers;

/* The lines of a script: a name and a time each.  Whoever is not there gets a sentence. */
static void ask(peers *p, const char *script, const char *who)
{
    int before = p->count;
    FILE *out = bench_python(script, bench_threads());
    while (out && p->count < MOST_PEERS &&
           fscanf(out, "%39s %lf", p->name[p->count], &p->time[p->count]) == 2)
        p->count++;
    if (out) (void)pclose(out);
    if (p->count == before) bench_note("not compared with, because Python does not have it:", who);
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
static double fastest(bench_fn run, void *s)
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

/* Our time may be at most so many times the peer's; 0: no limit. */
static void report_beside(const peers *p, const char *text, const char *who, const char *name, double seconds,
                          double at_most)
{
    double other = peer_time(p, name);
    bench_report((report){.name = text,
                          .value = 1e3 * seconds,
                          .unit = "ms",
                          .against = other > 0 ? who : NULL,
                          .other = other,
                          .ratio_limit = other > 0 && at_most > 0 ? 1 / at_most : 0});
}

static void report_chained(gd_ctx *ctx, const peers *p)
{
    static const int64_t sizes[] = {1000, 100000, 1000000, 10000000};
    char text[80], name[40];
    for (int i = 0; i < 4; i++) {
        subject s = subject_of(ctx, bench_chained, GD_F64, sizes[i]);
        (void)snprintf(text, sizeof text, "chained rosenbrock, gradient, n = %lld", (long long)sizes[i]);
        (void)snprintf(name, sizeof name, "chained-%lld", (long long)sizes[i]);
        report_beside(p, text, "jax.jit:", name, fastest(run_gradient, &s), 0.5);
        if (sizes[i] == 1000000)
            report_beside(p, "its Hessian product, n = 1000000", "jax.jit:", "product-1000000",
                          fastest(run_product, &s), 1);
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
    bench_report((report){.name = "its memory over that of input and gradient",
                          .value = bench_replay_memory(bench_ten, GD_F32, n),
                          .unit = "x",
                          .limit = 1.3});
    plain_stop(b.pool);
    free(b.from);
    free(b.to);
    end_subject(&s);
}

static void report_models(gd_ctx *ctx, const peers *p)
{
    for (const bench_model *m = bench_models; m->name; m++) {
        model_run run;
        char eager[48];
        bench_model_open(&run, ctx, m);
        double seconds = fastest(bench_model_gradient, &run);
        report_beside(p, m->text, m->network ? "torch.compile:" : "jax.jit:", m->name, seconds, m->at_most);
        (void)snprintf(eager, sizeof eager, "%s-eager", m->name);
        if (m->network) report_beside(p, "the same", "PyTorch:", eager, seconds, 1);
        bench_check(ctx);
        bench_model_close(&run);
    }
}

static void report_transformer(gd_ctx *ctx, const peers *p)
{
    bench_training run;
    bench_training_open(&run, ctx);
    double seconds = fastest(bench_training_step, &run);
    report_beside(p, "transformer, training step", "torch.compile:", "transformer", seconds, 0.9);
    report_beside(p, "the same", "PyTorch:", "transformer-eager", seconds, 0.9);
    bench_check(ctx);
    bench_training_close(&run);
}

static void report_logistic(gd_ctx *ctx, const peers *p)
{
    bench_logistic run;
    bench_logistic_open(&run, ctx);
    double whole = fastest(bench_logistic_fit, &run), evaluation = fastest(bench_logistic_gradient, &run);
    report_beside(p, "logistic regression, 1e5 x 100, L-BFGS", "scikit-learn's lbfgs:", "sklearn", whole, 1);
    report_beside(p, "the same", "jax.jit, the same chain by Optax:", "logistic-chain", whole, 1);
    report_beside(p, "one value and gradient of it", "jax.jit:", "logistic", evaluation, 1);
    bench_check(ctx);
    bench_logistic_close(&run);
}

static void report_fits(void)
{
    int threads = bench_threads();
    double scipy = bench_scipy_rows();
    bench_report((report){.name = "fit, 1e6 rows, 6 parameters",
                          .value = 1e3 * bench_fit_rows(threads, true),
                          .unit = "ms",
                          .limit = 150,
                          .against = scipy > 0 ? "SciPy's curve_fit:" : NULL,
                          .other = 1e3 * scipy});
    double many, single;
    bench_lanes(&many, &single);
    bench_report((report){.name = "1e4 fits of 20 points",
                          .value = 1e3 * many,
                          .unit = "ms",
                          .against = "one by one:",
                          .other = 1e3 * single,
                          .ratio_limit = 4});
}

static void report_first(const char *text, double milliseconds, double most)
{
    bench_report((report){.name = text, .value = milliseconds, .unit = "ms", .limit = most});
}

static void report_first_calls(void)
{
    bench_first first;
    bench_first_calls(&first);
    report_first("50 operators on numbers, first call, cold", 1e3 * first.numbers[0], 250);
    report_first("the same from the cache", 1e3 * first.numbers[1], 3);
    report_first("50 operators on 2000 elements, cold", 1e3 * first.vectors[0], 250);
    report_first("the same from the cache", 1e3 * first.vectors[1], 3);
    bench_report((report){.name = "24000 operators, the slowest of 20 calls",
                          .value = 1e3 * first.usable,
                          .unit = "ms",
                          .against = "with operators:",
                          .other = 1e3 * first.eager});
    report_first("24000 operators, compiled", 1e3 * first.compiled, 4000);
}

void bench_trace(void)
{
    peers p = {.count = 0};
    report_counts();
    ask(&p, "trace_jax.py", "JAX");
    ask(&p, "trace_torch.py", "PyTorch");
    ask(&p, "scipy_logistic.py", "scikit-learn");
    gd_ctx *ctx = bench_context(bench_threads());
    report_chained(ctx, &p);
    report_ten(ctx);
    report_models(ctx, &p);
    report_transformer(ctx, &p);
    report_logistic(ctx, &p);
    bench_check(ctx);
    gd_ctx_free(ctx);
    report_fits();
    report_first_calls();
    if (*bench_missing_peers())
        bench_note("not compared with, for they were not there at build time:", bench_missing_peers());
}
