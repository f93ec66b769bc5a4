/* How many instructions an element operators and steps take on 64-bit ARM, beside the shortest loops we know (floor.c), as rows of
 * docs/processors.md.  Run by qemu-aarch64 with plugin.c, which counts: ./dev cross count. */
#include "floor.h"

#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 8192, SIDE = 96, COUNTER = 1000000 };

static uint64_t instructions(void)
{
    uint64_t n = 0;
    (void)!read(COUNTER, &n, sizeof n); /* see plugin.c */
    return n;
}

static void check(gd_ctx *ctx)
{
    if (!gd_error(ctx)) return;
    fprintf(stderr, "count: %s\n", gd_error_text(ctx));
    exit(1);
}

/* ---- operators ---- */

static gd_tensor *apply_relu(gd_tensor *a, gd_tensor *b) { return (void)b, gd_relu(a); }
static gd_tensor *apply_sqrt(gd_tensor *a, gd_tensor *b) { return (void)b, gd_sqrt(a); }
static gd_tensor *apply_square(gd_tensor *a, gd_tensor *b) { return (void)b, gd_square(a); }
static gd_tensor *apply_exp(gd_tensor *a, gd_tensor *b) { return (void)b, gd_exp(a); }
static gd_tensor *apply_log(gd_tensor *a, gd_tensor *b) { return (void)b, gd_log(a); }
static gd_tensor *apply_tanh(gd_tensor *a, gd_tensor *b) { return (void)b, gd_tanh(a); }
static gd_tensor *apply_sigmoid(gd_tensor *a, gd_tensor *b) { return (void)b, gd_sigmoid(a); }
static gd_tensor *apply_sum(gd_tensor *a, gd_tensor *b) { return (void)b, gd_sum(a, NULL, false); }
static gd_tensor *apply_max(gd_tensor *a, gd_tensor *b) { return (void)b, gd_max(a, NULL, false); }
static gd_tensor *apply_argmax(gd_tensor *a, gd_tensor *b) { return (void)b, gd_argmax(a, NULL, false); }
static gd_tensor *apply_softmax(gd_tensor *a, gd_tensor *b) { return (void)b, gd_softmax(a, "0"); }

typedef struct operator_row {
    const char *name;
    gd_tensor *(*apply)(gd_tensor *a, gd_tensor *b);
    floor_loop *floor[4]; /* f32, f64, f16, bf16; NULL: not counted */
} operator_row;

#define BOTH(name)                             \
    {                                          \
        floor_##name##_f32, floor_##name##_f64 \
    }
static const operator_row rows[] = {
    {"add", gd_add, {floor_add_f32, floor_add_f64, floor_add_f16, floor_add_bf16}},
    {"mul", gd_mul, BOTH(mul)},
    {"div", gd_div, BOTH(div)},
    {"sqrt", apply_sqrt, BOTH(sqrt)},
    {"square", apply_square, BOTH(square)},
    {"relu", apply_relu, BOTH(relu)},
    {"exp", apply_exp, BOTH(exp)},
    {"log", apply_log, BOTH(log)},
    {"tanh", apply_tanh, BOTH(tanh)},
    {"sigmoid", apply_sigmoid, BOTH(sigmoid)},
    {"sum", apply_sum, {floor_sum_f32, floor_sum_f64, floor_sum_f16, floor_sum_bf16}},
    {"max", apply_max, BOTH(max)},
    {"argmax", apply_argmax, BOTH(max)},
    {"softmax", apply_softmax, BOTH(softmax)},
};

static const gd_dtype dtypes[] = {GD_F32, GD_F64, GD_F16, GD_BF16};

static gd_tensor *numbers(gd_ctx *ctx, gd_dtype dtype)
{
    gd_tensor *x = gd_arange(ctx, GD_F64, 1, N + 1, 1);
    return gd_cast(gd_mul_scalar(x, 3.0 / N), dtype);
}

/* The second call: the first one takes memory that later ones find. */
static double count_operator(gd_ctx *ctx, const operator_row *row, gd_dtype dtype)
{
    uint64_t from = 0, to = 0;
    gd_scope_begin(ctx);
    gd_tensor *a = numbers(ctx, dtype), *b = numbers(ctx, dtype);
    for (int i = 0; i < 2; i++) {
        from = instructions();
        row->apply(a, b);
        to = instructions();
    }
    check(ctx);
    gd_scope_end(ctx);
    return (double)(to - from) / N;
}

static double count_floor(floor_loop *loop)
{
    static double o[N], a[N], b[2 * N];
    uint64_t from = instructions();
    loop(o, a, b, N);
    return (double)(instructions() - from) / N;
}

static void print_operator(gd_ctx *ctx, const operator_row *row)
{
    printf("| %s |", row->name);
    for (int k = 0; k < 4; k++)
        if (row->floor[k])
            printf(" %.1f | %.1f |", count_operator(ctx, row, dtypes[k]), count_floor(row->floor[k]));
        else
            printf(" | |");
    printf("\n");
}

/* ---- products and steps ---- */

static double count_product(gd_ctx *ctx, gd_dtype dtype)
{
    uint64_t from = 0, to = 0;
    gd_scope_begin(ctx);
    gd_tensor *a = gd_full(ctx, dtype, 2, (int64_t[]){SIDE, SIDE}, 0.5);
    for (int i = 0; i < 2; i++) {
        from = instructions();
        gd_matmul(a, a);
        to = instructions();
    }
    check(ctx);
    gd_scope_end(ctx);
    return (double)(to - from) / SIDE / SIDE / SIDE;
}

static double count_step(gd_ctx *ctx, const char *chain, gd_dtype dtype)
{
    uint64_t from = 0, to = 0;
    int64_t n = N;
    gd_scope_begin(ctx);
    gd_optimizer *o = gd_optimizer_new(ctx, gd_chain(ctx, chain));
    gd_tensor *p = gd_require_grad(gd_full(ctx, dtype, 1, &n, 0.5));
    gd_status status = gd_set_grad(p, gd_full(ctx, dtype, 1, &n, 1e-3));
    if (!status) status = gd_optimizer_add(o, "p", p);
    for (int i = 0; i < 4 && !status; i++) {
        from = instructions();
        status = gd_optimizer_step(o, NULL, NULL);
        to = instructions();
    }
    check(ctx);
    gd_optimizer_free(o);
    gd_scope_end(ctx);
    return (double)(to - from) / N;
}

static void print_step(gd_ctx *ctx, const char *chain, floor_loop *f32, floor_loop *f64)
{
    printf("| `%s` | %.1f | %.1f | %.1f | %.1f | | | | |\n", chain, count_step(ctx, chain, GD_F32),
           count_floor(f32), count_step(ctx, chain, GD_F64), count_floor(f64));
}

int main(void)
{
    gd_options options = gd_options_default();
    options.threads = 1;
    gd_ctx *ctx = gd_ctx_new(&options);
    if (!ctx) return 1;
    if (!instructions()) {
        fprintf(stderr, "count: to be run by qemu-aarch64 -plugin (./dev cross count)\n");
        return 1;
    }
    printf(
        "| what | f32 | needed | f64 | needed | f16 | needed | bf16 | needed |\n|---|---|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) print_operator(ctx, &rows[i]);
    printf("| matmul | %.2f | | %.2f | | | | | |\n", count_product(ctx, GD_F32), count_product(ctx, GD_F64));
    print_step(ctx, "adam | lr(1e-3)", floor_adam_f32, floor_adam_f64);
    print_step(ctx, "clip_norm(1) | adam | weight_decay(0.01) | lr(1e-3)", floor_clipped_adam_f32,
               floor_clipped_adam_f64);
    gd_ctx_free(ctx);
    return 0;
}
