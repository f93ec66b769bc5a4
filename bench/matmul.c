/* f32 products against cblas_sgemm with its own threads. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>

#ifdef GD_BENCH_BLAS
#include <cblas.h>
#endif

typedef struct product {
    gd_tensor *a, *b;
    int n;
    float *out;
} product;

static void ours(void *arg)
{
    product *p = arg;
    gd_release(gd_matmul(p->a, p->b));
}

#ifdef GD_BENCH_BLAS
static void blas(void *arg)
{
    product *p = arg;
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, p->n, p->n, p->n, 1, gd_data(p->a), p->n,
                gd_data(p->b), p->n, 0, p->out, p->n);
}
#endif

static void measure(gd_ctx *ctx, int n)
{
    product p = {.n = n, .out = aligned_alloc(64, (size_t)n * (size_t)n * sizeof(float))};
    int64_t shape[2] = {n, n};
    p.a = gd_rand(ctx, GD_F32, 2, shape);
    p.b = gd_rand(ctx, GD_F32, 2, shape);
    bench_check(ctx);
    char name[32];
    snprintf(name, sizeof name, "matmul %d f32", n);
    report r = {.name = name, .unit = "us", .ratio_limit = 0.95};
#ifdef GD_BENCH_BLAS
    char against[48];
    openblas_set_num_threads(bench_threads());
    snprintf(against, sizeof against, "cblas_sgemm, %d threads:", bench_threads());
    bench_compare(ours, &p, blas, &p, &r.value, &r.other);
    r.against = against;
    r.other *= 1e6;
#else
    r.value = bench_time(ours, &p);
#endif
    r.value *= 1e6;
    bench_report(r);
    free(p.out);
    gd_release(p.a);
    gd_release(p.b);
}

void bench_matmul(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    measure(ctx, 512);
    measure(ctx, 1024);
    gd_ctx_free(ctx);
}
