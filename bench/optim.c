/* Optimizer steps: against the bytes they must move, and where there is hardly anything to move. */
#include "bench.h"
#include "optim/step/optimizer.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHAIN     "clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(1e-3)"
#define TWO_LINKS "adam | lr(1e-3)"
#define SEVEN_LINKS \
    "clip_value(1) | weight_decay(1e-3) | lr(2) | adam | weight_decay(0.01) | clip_value(10) | lr(1e-3)"

/* ---- a chain over tensors of given sizes, and the same memory for the plain loops ---- */

typedef struct model {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor **p;
    gd_tensor **grad[2]; /* two sets in turn */
    int turn;
    plain_step *plain;
    plain_pool *pool;
    int count;
    bool norm;
} model;

static void step_model(void *arg)
{
    model *m = arg;
    if (gd_optimizer_step(m->o, NULL, NULL)) bench_check(m->ctx);
}

/* As in training: every step finds other gradients. */
static void step_anew(void *arg)
{
    model *m = arg;
    m->turn = !m->turn;
    for (int i = 0; i < m->count; i++)
        if (gd_set_grad(m->p[i], m->grad[m->turn][i])) bench_check(m->ctx);
    step_model(m);
}

static void step_plain(void *arg)
{
    model *m = arg;
    plain_adam(m->pool, m->plain, m->count, m->norm);
}

static gd_link *find_adam(gd_link *link)
{
    if (!strcmp(link->cls->name, "adam")) return link;
    for (int i = 0; i < link->children; i++) {
        gd_link *found = find_adam(link->child[i]);
        if (found) return found;
    }
    return NULL;
}

/* Parameters and gradients with small numbers, and one step so that state is there. */
static model open_model(gd_ctx *ctx, const char *chain, const int64_t *sizes, int count)
{
    model m = {.ctx = ctx, .count = count, .norm = strstr(chain, "norm") != NULL};
    m.o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    m.p = calloc((size_t)count, sizeof *m.p);
    m.plain = calloc((size_t)count, sizeof *m.plain);
    for (int i = 0; m.p && m.o && i < count; i++) {
        char name[16];
        snprintf(name, sizeof name, "p%d", i);
        m.p[i] = gd_require_grad(gd_full(ctx, GD_F32, 1, &sizes[i], 0.5));
        gd_tensor *g = gd_full(ctx, GD_F32, 1, &sizes[i], 1e-3);
        if (gd_set_grad(m.p[i], g) || gd_optimizer_add(m.o, name, m.p[i])) break;
        gd_release(g);
    }
    bench_check(ctx);
    step_model(&m);
    gd_link *adam = find_adam(gd_optimizer_chain(m.o));
    for (int i = 0; m.plain && i < count; i++)
        m.plain[i] = (plain_step){.g = gd_data(gd_grad_of(m.p[i])),
                                  .p = gd_data_mut(m.p[i]),
                                  .m = gd_data_mut(gd_link_state(adam, m.p[i], "exp_avg")),
                                  .v = gd_data_mut(gd_link_state(adam, m.p[i], "exp_avg_sq")),
                                  .n = (long)sizes[i]};
    bench_check(ctx);
    return m;
}

static void close_model(model *m)
{
    gd_optimizer_free(m->o);
    for (int i = 0; i < m->count; i++) {
        gd_zero_grad(m->p[i]);
        gd_release(m->p[i]);
    }
    free(m->p);
    free(m->plain);
}

/* The shapes of GPT-2 small: 124,439,808 elements in 148 tensors. */
static int gpt2_sizes(int64_t *sizes)
{
    int n = 0;
    const int64_t d = 768,
                  layer[12] = {d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d};
    sizes[n++] = 50257 * d;
    sizes[n++] = 1024 * d;
    for (int i = 0; i < 12; i++)
        for (int k = 0; k < 12; k++) sizes[n++] = layer[k];
    sizes[n++] = d;
    sizes[n++] = d;
    return n;
}

static void against_floor(const char *name, const int64_t *sizes, int count, double most)
{
    int threads = bench_threads();
    gd_ctx *ctx = bench_context(threads);
    model m = open_model(ctx, CHAIN, sizes, count);
    m.pool = plain_start(threads);
    double ours, floor;
    bench_compare(step_model, &m, step_plain, &m, &ours, &floor);
    bench_report((report){.name = name,
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = "floor",
                          .other = 1e3 * floor,
                          .ratio_limit = 1 / most});
    plain_stop(m.pool);
    close_model(&m);
    gd_ctx_free(ctx);
}

static void seven_against_two(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    const int64_t size = 20000000;
    model seven = open_model(ctx, SEVEN_LINKS, &size, 1), two = open_model(ctx, TWO_LINKS, &size, 1);
    double ours, other;
    bench_compare(step_model, &seven, step_model, &two, &ours, &other);
    bench_report((report){.name = "seven links, 20M",
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = "adam | lr",
                          .other = 1e3 * other,
                          .ratio_limit = 1 / 1.15});
    close_model(&seven);
    close_model(&two);
    gd_ctx_free(ctx);
}

/* ---- small steps ---- */

static void open_gradients(model *m)
{
    for (int k = 0; k < 2; k++) {
        m->grad[k] = calloc((size_t)m->count, sizeof *m->grad[k]);
        for (int i = 0; m->grad[k] && i < m->count; i++) m->grad[k][i] = gd_full_like(m->p[i], 1e-3);
    }
    bench_check(m->ctx);
}

static void close_gradients(model *m)
{
    for (int k = 0; k < 2; k++) {
        for (int i = 0; i < m->count; i++) gd_release(m->grad[k][i]);
        free(m->grad[k]);
    }
}

/* Steps that compute hardly anything, with the gradients of before and with others. */
static void small_steps(const char *name, const char *anew, const int64_t *sizes, int count, double limit)
{
    gd_ctx *ctx = bench_context(bench_threads());
    model m = open_model(ctx, CHAIN, sizes, count);
    double same, other;
    open_gradients(&m);
    bench_compare(step_anew, &m, step_model, &m, &other, &same);
    bench_report((report){.name = name, .value = 1e6 * same, .unit = "us", .limit = limit});
    bench_report((report){.name = anew,
                          .value = 1e6 * other,
                          .unit = "us",
                          .against = "the same ones",
                          .other = 1e6 * same,
                          .ratio_limit = 1 / 1.5});
    close_gradients(&m);
    close_model(&m);
    gd_ctx_free(ctx);
}

typedef struct rosenbrock {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *p;
    gd_objective objective;
} rosenbrock;

static gd_tensor *rosenbrock_loss(void *user)
{
    gd_tensor *p = user, *x = gd_index(p, "0", 0), *y = gd_index(p, "0", 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    return gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), valley);
}

static void rosenbrock_step(void *arg)
{
    rosenbrock *r = arg;
    if (gd_optimizer_step(r->o, &r->objective, NULL)) bench_check(r->ctx);
}

static void rosenbrock_with_adam(void)
{
    gd_ctx *ctx = bench_context(1);
    rosenbrock r = {.ctx = ctx, .o = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.01)"))};
    r.p = gd_require_grad(gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.1, 2.5}));
    r.objective = (gd_objective){.loss = rosenbrock_loss, .user = r.p};
    if (gd_optimizer_add(r.o, "p", r.p)) bench_check(ctx);
    bench_report((report){.name = "Rosenbrock + adam",
                          .value = 1e6 * bench_time(rosenbrock_step, &r),
                          .unit = "us",
                          .limit = 5});
    gd_optimizer_free(r.o);
    gd_release(r.p);
    gd_ctx_free(ctx);
}

/* ---- first steps ---- */

static void delete_folder(const char *path)
{
    DIR *dir = opendir(path);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        char inside[512];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inside, sizeof inside, "%s/%s", path, e->d_name);
        if (unlink(inside)) delete_folder(inside);
    }
    if (dir) closedir(dir);
    (void)!rmdir(path);
}

/* The first step of a chain in a context that has seen nothing, with an empty cache. */
static double first_step(const char *chain)
{
    char folder[] = "/tmp/gradus-bench-XXXXXX";
    gd_options options = gd_options_default();
    options.threads = bench_threads();
    options.cache_dir = mkdtemp(folder);
    gd_ctx *ctx = gd_ctx_new(&options);
    gd_optimizer *o = ctx ? gd_optimizer_new(ctx, gd_chain(ctx, chain)) : NULL;
    gd_tensor *p = ctx ? gd_require_grad(gd_ones(ctx, GD_F32, 1, (int64_t[]){1000})) : NULL;
    if (!o || gd_optimizer_add(o, "p", p)) abort();
    double start = bench_now();
    gd_status status = gd_optimizer_step(o, NULL, NULL);
    double took = bench_now() - start;
    if (status) bench_check(ctx);
    gd_optimizer_free(o);
    gd_release(p);
    gd_ctx_free(ctx);
    delete_folder(folder);
    return took;
}

static double median_first_step(const char *chain)
{
    double took[5];
    for (int i = 0; i < 5; i++) {
        double now = first_step(chain);
        int at = i;
        for (; at > 0 && took[at - 1] > now; at--) took[at] = took[at - 1];
        took[at] = now;
    }
    return took[2];
}

void bench_optim(void)
{
    static int64_t sizes[1000];
    for (int i = 0; i < 1000; i++) sizes[i] = 1000;
    int count = 1000;
    against_floor("1000 tensors of 1000", sizes, count, 1.5);
    sizes[0] = 20000000;
    against_floor("20M in one tensor", sizes, 1, 1.2);
    count = gpt2_sizes(sizes);
    against_floor("GPT-2, 148 tensors, 124M", sizes, count, 1.2);
    small_steps("one tensor of 2", "  gradients set anew", (int64_t[]){2}, 1, 1);
    for (int i = 0; i < 1000; i++) sizes[i] = 2;
    small_steps("1000 tensors of 2", "  gradients set anew", sizes, 1000, 0);
    seven_against_two();
    rosenbrock_with_adam();
    bench_report((report){
        .name = "first step, built in", .value = 1e3 * median_first_step(CHAIN), .unit = "ms", .limit = 5});
    bench_report((report){.name = "first step, compiled",
                          .value = 1e3 * median_first_step(SEVEN_LINKS),
                          .unit = "ms",
                          .limit = 500});
}
