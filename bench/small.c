/* The cost of one operator when there is hardly anything to compute, and of a small gradient. */
#include "bench.h"

#include <stdio.h>

typedef struct pair {
    gd_ctx *ctx;
    gd_tensor *x, *y;
} pair;

static void add_two(void *arg)
{
    pair *p = arg;
    gd_release(gd_add(p->x, p->y));
}

static void mul_two(void *arg)
{
    pair *p = arg;
    gd_release(gd_mul(p->x, p->y));
}

static void exp_two(void *arg)
{
    pair *p = arg;
    gd_release(gd_exp(p->x));
}

void bench_small(void)
{
    gd_ctx *ctx = bench_context(1);
    pair p = {.ctx = ctx,
              .x = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){0.5, 1.5}),
              .y = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){2, 3})};
    (void)bench_time(add_two, &p); /* half a second for the processor to wake up */
    bench_report((report){
        .name = "add, 2 elements", .value = 1e9 * bench_time(add_two, &p), .unit = "ns", .limit = 80});
    bench_report((report){
        .name = "mul, 2 elements", .value = 1e9 * bench_time(mul_two, &p), .unit = "ns", .limit = 80});
    bench_report((report){
        .name = "exp, 2 elements", .value = 1e9 * bench_time(exp_two, &p), .unit = "ns", .limit = 80});
    (void)gd_require_grad(p.x);
    bench_report(
        (report){.name = "add, 2 elements, recorded", .value = 1e9 * bench_time(add_two, &p), .unit = "ns"});
    bench_check(ctx);
    gd_release(p.x);
    gd_release(p.y);
    gd_ctx_free(ctx);
}

/* (1 - x)^2 + 100 (y - x^2)^2: ten operators forward, two of them indexing. */
static void rosenbrock_step(void *arg)
{
    pair *p = arg;
    gd_scope_begin(p->ctx);
    gd_tensor *x = gd_index(p->x, "0", 0), *y = gd_index(p->x, "0", 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    gd_tensor *value = gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), valley);
    gd_status status = gd_backward(value, NULL, 0);
    gd_zero_grad(p->x);
    gd_scope_end(p->ctx);
    if (status) bench_check(p->ctx);
}

static void rosenbrock_value(void *arg)
{
    pair *p = arg;
    gd_scope_begin(p->ctx);
    gd_tensor *x = gd_index(p->x, "0", 0), *y = gd_index(p->x, "0", 1);
    gd_tensor *valley = gd_mul_scalar(gd_square(gd_sub(y, gd_square(x))), 100);
    (void)gd_add(gd_square(gd_add_scalar(gd_neg(x), 1)), valley);
    gd_scope_end(p->ctx);
}

void bench_rosenbrock(void)
{
    gd_ctx *ctx = bench_context(1);
    pair p = {.ctx = ctx, .x = gd_from_f64(ctx, GD_F64, 1, (int64_t[]){2}, (double[]){-1.1, 2.5})};
    bench_report(
        (report){.name = "rosenbrock, value", .value = 1e6 * bench_time(rosenbrock_value, &p), .unit = "us"});
    (void)gd_require_grad(p.x);
    bench_report((report){.name = "rosenbrock, value + gradient",
                          .value = 1e6 * bench_time(rosenbrock_step, &p),
                          .unit = "us",
                          .limit = 3});
    bench_check(ctx);
    gd_release(p.x);
    gd_ctx_free(ctx);
}
