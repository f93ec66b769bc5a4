/* See trace_work.h. */
#include "trace/trace_work.h"
#include "bench.h"
#include "small/small_cases.h"
#include "trace/trace_cases.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a training step ---- */

static gd_tensor *training_loss(void *user)
{
    transformer *t = user;
    gd_tensor *x = gd_add(gd_module_call(t->symbols, t->in), gd_module_call(t->places, t->place));
    x = gd_reshape(gd_module_call(t->layers, x), 2, (int64_t[]){t->of.rows * t->of.time, t->of.symbols});
    return gd_cross_entropy(x, t->next);
}

void bench_training_open(bench_training *run, gd_ctx *ctx)
{
    static const transformer_sizes sizes = {8, 64, 128, 4, 2, 65};
    gd_seed(ctx, 1);
    run->t = transformer_new(ctx, "TracedBlock", sizes, GD_F32, NULL);
}

void bench_training_step(void *arg)
{
    bench_training *run = arg;
    gd_objective objective = {.loss = training_loss, .user = &run->t, .traced = true};
    (void)!gd_optimizer_step(run->t.optimizer, &objective, NULL);
}

void bench_training_close(bench_training *run) { transformer_end(&run->t); }

/* ---- logistic regression ---- */

#define ROWS    100000
#define COLUMNS 100

static gd_tensor *cross_entropy_of(void *user, gd_tensor *const *in, int count)
{
    bench_logistic *run = user;
    (void)count;
    gd_tensor *z = gd_matmul(run->table, in[0]);
    gd_tensor *fit = gd_mean(gd_sub(gd_softplus(z), gd_mul(run->label, z)), NULL, false);
    return gd_add(fit, gd_mul_scalar(gd_sum(gd_square(in[0]), NULL, false), 0.5e-3));
}

static gd_tensor *loss_of_fit(void *user)
{
    bench_logistic *run = user;
    return cross_entropy_of(user, &run->w, 1);
}

void bench_logistic_open(bench_logistic *run, gd_ctx *ctx)
{
    gd_seed(ctx, 1);
    gd_scope_begin(ctx);
    run->table = gd_randn(ctx, GD_F64, 2, (int64_t[]){ROWS, COLUMNS});
    gd_tensor *truth = gd_mul_scalar(gd_randn(ctx, GD_F64, 1, (int64_t[]){COLUMNS}), 0.3);
    gd_tensor *level = gd_add(gd_matmul(run->table, truth), gd_randn(ctx, GD_F64, 1, (int64_t[]){ROWS}));
    run->label = gd_keep(gd_cast(gd_gt(level, gd_zeros_like(level)), GD_F64));
    run->w = gd_keep(gd_require_grad(gd_zeros(ctx, GD_F64, 1, (int64_t[]){COLUMNS})));
    run->table = gd_keep(run->table);
    gd_scope_end(ctx);
    run->loss = gd_trace(ctx, cross_entropy_of, run, NULL);
}

void bench_logistic_fit(void *arg)
{
    bench_logistic *run = arg;
    gd_objective objective = {.loss = loss_of_fit, .user = run, .traced = true};
    gd_solve_options o = gd_solve_defaults();
    gd_solve_result result;
    o.gradient_tol = 1e-4;
    o.curvature_products = 0;
    if (gd_fill(run->w, 0) || gd_minimize(&run->w, 1, &objective, "lbfgs(10) | strong_wolfe", &o, &result))
        return;
}

void bench_logistic_gradient(void *arg)
{
    bench_logistic *run = arg;
    gd_tensor *value, *grad;
    (void)!gd_traced_gradient(run->loss, &run->w, 1, &value, &grad);
}

void bench_logistic_close(bench_logistic *run)
{
    gd_traced_free(run->loss);
    gd_tensor *all[] = {run->table, run->label, run->w};
    for (int k = 0; k < 3; k++) gd_release(all[k]);
}

/* ---- many small fits ---- */

#define FITS    10000
#define SINGLES 200 /* of which so many are also fitted one by one */

typedef struct small_fits {
    gd_ctx *ctx;
    gd_tensor *table[2], *p[3];
    int64_t first[FITS + 1];
    double x[3 * FITS], errors[3 * FITS];
    gd_lsq_one out[FITS];
} small_fits;

static gd_tensor *decay(void *state, gd_tensor *const *p, gd_tensor *const *column, int64_t first)
{
    (void)state, (void)first;
    return gd_sub(gd_add(gd_mul(p[0], gd_exp(gd_neg(gd_mul(p[1], column[0])))), p[2]), column[1]);
}

static void fit_all(void *arg)
{
    small_fits *s = arg;
    for (int i = 0; i < 3 * FITS; i++) s->x[i] = 1;
    gd_rows rows = {.count = FITS * SMALL_POINTS, .data = s->table, .columns = 2, .residuals = decay};
    gd_lsq_many many = {
        .fits = FITS, .rows = &rows, .like = s->p, .like_count = 3, .first = s->first, .errors = s->errors};
    if (gd_least_squares_many(s->ctx, &many, NULL, s->x, s->out)) bench_check(s->ctx);
}

static void fit_single(small_fits *s, int64_t k)
{
    gd_lsq_options o = gd_lsq_defaults();
    gd_lsq_result r;
    gd_tensor *part[2];
    int64_t begin = k * SMALL_POINTS;
    gd_scope_begin(s->ctx);
    for (int c = 0; c < 2; c++) part[c] = gd_slice(s->table[c], "0", begin, begin + SMALL_POINTS, 1);
    gd_rows rows = {.count = SMALL_POINTS, .data = part, .columns = 2, .residuals = decay, .traced = true};
    o.rows = &rows;
    for (int i = 0; i < 3; i++)
        if (gd_fill(s->p[i], 1)) bench_check(s->ctx);
    if (gd_least_squares(s->p, 3, NULL, NULL, &o, &r)) bench_check(s->ctx);
    gd_lsq_result_clear(&r);
    gd_scope_end(s->ctx);
}

static void fit_singles(void *arg)
{
    for (int64_t k = 0; k < SINGLES; k++) fit_single(arg, k);
}

void bench_lanes(double *many, double *single)
{
    static small_fits s;
    int64_t rows = FITS * SMALL_POINTS;
    s.ctx = bench_context(1);
    for (int k = 0; k < 2; k++) s.table[k] = gd_zeros(s.ctx, GD_F64, 1, &rows);
    for (int k = 0; k < 3; k++) s.p[k] = gd_require_grad(gd_scalar(s.ctx, GD_F64, 1));
    bench_check(s.ctx);
    double *t = gd_data_mut(s.table[0]), *y = gd_data_mut(s.table[1]);
    for (int i = 0; i < FITS; i++) bench_small_points(t + i * SMALL_POINTS, y + i * SMALL_POINTS, i);
    for (int64_t i = 0; i <= FITS; i++) s.first[i] = i * SMALL_POINTS;
    bench_compare(fit_all, &s, fit_singles, &s, many, single);
    *single *= (double)FITS / SINGLES;
    for (int k = 0; k < 2; k++) gd_release(s.table[k]);
    for (int k = 0; k < 3; k++) gd_release(s.p[k]);
    gd_ctx_free(s.ctx);
}

/* ---- memory ---- */

typedef struct meter {
    int64_t now, most;
} meter;

static void *metered(void *user, void *old, size_t old_size, size_t new_size)
{
    meter *m = user;
    void *block = new_size ? aligned_alloc(64, (new_size + 63) / 64 * 64) : NULL;
    if (new_size && !block) return NULL;
    if (old && block) memcpy(block, old, old_size < new_size ? old_size : new_size);
    free(old);
    m->now += (int64_t)new_size - (old ? (int64_t)old_size : 0);
    if (m->now > m->most) m->most = m->now;
    return block;
}

double bench_replay_memory(gd_function function, gd_dtype dtype, int64_t n)
{
    meter m = {0, 0};
    gd_options o = gd_options_default();
    o.threads = 1;
    o.pool = false; /* what it keeps for reuse is not in use */
    o.allocator = (gd_allocator){metered, &m};
    gd_ctx *ctx = gd_ctx_new(&o);
    if (!ctx) exit(1);
    gd_tensor *x = gd_full(ctx, dtype, 1, &n, 0.7), *value, *grad;
    gd_traced *f = gd_trace(ctx, function, NULL, NULL);
    for (int i = 0; i < 8; i++) {
        if (i == 4) m.most = m.now;
        if (gd_traced_gradient(f, &x, 1, &value, &grad)) break;
    }
    bench_check(ctx);
    gd_traced_free(f);
    gd_release(x);
    gd_ctx_free(ctx);
    return (double)m.most / (2.0 * (double)n * (double)gd_dtype_size(dtype));
}

/* ---- first calls ---- */

static gd_tensor *fifty(void *user, gd_tensor *const *in, int count)
{
    (void)user, (void)count;
    gd_tensor *x = in[0];
    for (int k = 0; k < 12; k++) {
        gd_tensor *y = gd_mul_scalar(gd_square(x), 0.25 + k);
        x = k % 3 ? gd_add(gd_tanh(y), x) : gd_sub(gd_exp(gd_neg(y)), x);
    }
    return gd_sum(x, NULL, false);
}

static gd_ctx *context_in(const char *cache)
{
    gd_options o = gd_options_default();
    o.threads = 1;
    o.cache_dir = cache;
    gd_ctx *ctx = gd_ctx_new(&o);
    if (!ctx) exit(1);
    return ctx;
}

/* All of the first calls that an answer from a compiled replay takes; slowest: of single calls. */
static double calls_of(const char *cache, gd_function function, int64_t n, gd_trace_compile compile,
                       int calls, double *slowest)
{
    static const double start[8] = {0.7, 0.9, 0.6, 0.4, 0.5, 0.3, 0.2, 0.1};
    gd_ctx *ctx = context_in(cache);
    gd_tensor *x = n > 8 ? gd_full(ctx, GD_F64, 1, &n, 0.3) : gd_from_f64(ctx, GD_F64, 1, &n, start), *value,
              *grad;
    gd_trace_options o = gd_trace_defaults();
    double begin = bench_now(), last = begin;
    o.compile = compile;
    gd_traced *f = gd_trace(ctx, function, NULL, &o);
    for (int i = 0; i < calls; i++) {
        if (gd_traced_gradient(f, &x, 1, &value, &grad)) break;
        double now = bench_now();
        if (slowest && now - last > *slowest) *slowest = now - last;
        last = now;
    }
    bench_check(ctx);
    gd_traced_free(f);
    gd_release(x);
    gd_ctx_free(ctx);
    return last - begin;
}

static void empty_folder(const char *path)
{
    DIR *folder = opendir(path);
    char name[600];
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        (void)snprintf(name, sizeof name, "%s/%s", path, e->d_name);
        if (e->d_name[0] != '.') (void)unlink(name);
    }
    if (folder) (void)closedir(folder);
}

static double once_with_operators(void)
{
    gd_ctx *ctx = bench_context(1);
    static const double start[6] = {0.7, 0.9, 0.6, 0.4, 0.5, 0.3};
    double took = 1e30;
    gd_tensor *x = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){6}, start));
    for (int i = 0; i < 3; i++) {
        double begin = bench_now();
        gd_scope_begin(ctx);
        if (gd_backward(bench_rollout(NULL, &x, 1), NULL, 0)) bench_check(ctx);
        gd_scope_end(ctx);
        took = bench_now() - begin < took ? bench_now() - begin : took;
    }
    gd_release(x);
    gd_ctx_free(ctx);
    return took;
}

void bench_first_calls(bench_first *out)
{
    char cache[] = "/tmp/gradus_bench_XXXXXX";
    *out = (bench_first){.eager = once_with_operators()};
    if (!mkdtemp(cache)) return;
    for (int k = 0; k < 2; k++) out->numbers[k] = calls_of(cache, fifty, 4, GD_TRACE_AT_ONCE, 5, NULL);
    for (int k = 0; k < 2; k++) out->vectors[k] = calls_of(cache, fifty, 2000, GD_TRACE_AT_ONCE, 5, NULL);
    empty_folder(cache);
    (void)calls_of(cache, bench_rollout, 6, GD_TRACE_LATER, 20, &out->usable);
    empty_folder(cache);
    out->compiled = calls_of(cache, bench_rollout, 6, GD_TRACE_AT_ONCE, 5, NULL);
    empty_folder(cache);
    (void)rmdir(cache);
}
