/* Matrix links against the products that they consist of. */
#include "bench.h"

#include "gradus/optim.h"

#define ROWS    1024
#define COLUMNS 4096
#define STEPS   5

typedef struct problem {
    gd_ctx *ctx;
    gd_optimizer *o;
    gd_tensor *x, *a;
} problem;

static void step_once(void *arg)
{
    problem *p = arg;
    if (gd_optimizer_step(p->o, NULL, NULL)) bench_check(p->ctx);
}

/* X X^T, A A and B X, as often. */
static void products(void *arg)
{
    problem *p = arg;
    for (int i = 0; i < STEPS; i++) {
        gd_scope_begin(p->ctx);
        (void)gd_matmul(p->x, gd_transpose(p->x, 0, 1));
        (void)gd_matmul(p->a, p->a);
        (void)gd_matmul(p->a, p->x);
        gd_scope_end(p->ctx);
    }
}

static void measure(gd_ctx *ctx, const char *name, const char *chain)
{
    problem p = {.ctx = ctx, .o = gd_optimizer_new(ctx, gd_chain(ctx, chain))};
    p.x = gd_randn(ctx, GD_F32, 2, (int64_t[]){ROWS, COLUMNS});
    p.a = gd_randn(ctx, GD_F32, 2, (int64_t[]){ROWS, ROWS});
    gd_tensor *w = gd_require_grad(gd_copy(p.x));
    if (gd_set_grad(w, p.x) || gd_optimizer_add(p.o, "w", w)) bench_check(ctx);
    report r = {.name = name, .unit = "ms", .against = "its products in f32:", .ratio_limit = 0.7};
    bench_compare(step_once, &p, products, &p, &r.value, &r.other);
    r.value *= 1e3;
    r.other *= 1e3;
    bench_report(r);
    gd_optimizer_free(p.o);
    gd_release(w);
    gd_release(p.x);
    gd_release(p.a);
}

void bench_matrices(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    measure(ctx, "orthogonalize 1024 x 4096", "orthogonalize | lr(1e-3)");
    measure(ctx, "orthogonalize 1024 x 4096, full", "orthogonalize(precision=\"full\") | lr(1e-3)");
    gd_ctx_free(ctx);
}
