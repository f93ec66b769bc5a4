/* The cost of one operator when there is hardly anything to compute, of a small gradient, and of small problems. */
#include "bench.h"
#include "count.h"
#include "small/small_cases.h"

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

static void report_operators(void)
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

/* ---- instructions of small problems ---- */

typedef struct counted {
    const char *name, *text, *peer, *against;
    long repeats, per; /* steps per repeat */
    double limit, ratio_limit;
} counted;

static const counted problems[] = {
    {"step-10", "step of lbfgs, callback, n = 10", "liblbfgs-10", "liblbfgs:", 20, SMALL_ITERATIONS, 8e3, 0},
    {"step-10", "the same", "nlopt-10", "NLopt, per evaluation:", 20, SMALL_ITERATIONS, 0, 0},
    {"minimize-10", "the same in gd_minimize", "liblbfgs-10", "liblbfgs:", 20, SMALL_ITERATIONS, 0, 0},
    {"step-1000", "step of lbfgs, n = 1000", "liblbfgs-1000", "liblbfgs:", 2, SMALL_ITERATIONS, 0, 0},
    {"step-100000", "step of lbfgs, n = 1e5", "liblbfgs-100000", "liblbfgs:", 1, SMALL_ITERATIONS, 0, 0},
    {"box-100000", "the same in a box", "step-100000", "without:", 1, SMALL_ITERATIONS, 0, 1 / 1.5},
    {"box-active", "the same, bounds hold", "step-100000", "without:", 1, SMALL_ITERATIONS, 0, 1 / 1.5},
    {"fit-many", "fit, 20 x 3, errors, of many", "gsl-fit", "GSL:", 100, 1, 200e3, 0},
    {"fit-callbacks", "the same by callbacks", "gsl-fit", "GSL:", 100, 1, 200e3, 0},
    {"fit-callbacks", "the same", "minpack-fit", "MINPACK, no errors:", 100, 1, 0, 0},
};

/* By callgrind; nothing where there is no valgrind. */
static void report_problems(void)
{
    for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
        const counted *c = &problems[i];
        double count = bench_instructions(c->name, c->repeats) / (double)c->per,
               other = count > 0 && c->peer ? bench_instructions(c->peer, c->repeats) / (double)c->per : 0;
        if (!(count > 0)) continue;
        bench_report((report){.name = c->text,
                              .value = count,
                              .unit = "instructions",
                              .against = other > 0 ? c->against : NULL,
                              .other = other,
                              .limit = c->limit,
                              .ratio_limit = c->ratio_limit});
    }
}

void bench_small(void)
{
    report_operators();
    report_problems();
    bench_small_set();
    if (*bench_missing_peers())
        bench_note("not compared with, for they were not there at build time:", bench_missing_peers());
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
