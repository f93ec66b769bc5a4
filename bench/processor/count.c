/* How many instructions per element operators and steps take on 64-bit ARM, beside the shortest loops we know (floor.c), as tables of
 * docs/processors.md.  Run by qemu-aarch64 with plugin.c, which counts: ./dev cross count. */
#include "floor.h"

#include <gradus/gradus.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COUNT_OF(array) ((int)(sizeof(array) / sizeof *(array)))

enum { N = 65536, SIDE = 96, COUNTER = 1000000 };

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

/* Two columns of a table: f32 and f64, or f16 and bf16. */
typedef struct operator_row {
    const char *name;
    gd_tensor *(*apply)(gd_tensor *a, gd_tensor *b);
    floor_loop *floor[2];
    const char *note;
} operator_row;

#define WIDE(name)                             \
    {                                          \
        floor_##name##_f32, floor_##name##_f64 \
    }
#define HALF(name)                              \
    {                                           \
        floor_##name##_f16, floor_##name##_bf16 \
    }
static const operator_row wide[] = {
    {"add", gd_add, WIDE(add), "vectors that gcc makes, as those of the next four"},
    {"mul", gd_mul, WIDE(mul), ""},
    {"div", gd_div, WIDE(div), ""},
    {"sqrt", apply_sqrt, WIDE(sqrt), ""},
    {"square", apply_square, WIDE(square), ""},
    {"relu", apply_relu, WIDE(relu),
     "NEON's functions, keeping -0 and NaN: gcc looks for NaN twice in a choice (2.9 and 5.6)"},
    {"exp", apply_exp, WIDE(exp), "was 14 and 43 (the C library, an element at a time, in f64)"},
    {"log", apply_log, WIDE(log), "was 15 and 57"},
    {"tanh", apply_tanh, WIDE(tanh), "was 58 (by way of f64) and 132"},
    {"sigmoid", apply_sigmoid, WIDE(sigmoid), "was 34 and 49"},
    {"sum", apply_sum, WIDE(sum), "in sixteen lanes of a fixed tree, the same bits everywhere"},
    {"max", apply_max, WIDE(max),
     "which it is, then in the first block of 1024 that has it, where; needed: only which"},
    {"argmax", apply_argmax, WIDE(max), "the same"},
    {"softmax", apply_softmax, WIDE(softmax), "was 21 and 55"},
};
static const operator_row half[] = {
    {"add", gd_add, HALF(add),
     "in one pass, in NEON's functions; was 5.7 and 7.0: each operand widened by a loop of its own"},
    {"mul", gd_mul, HALF(mul),
     "the same, as are `sub`, `div`, `square`, `sqrt` and products and sums with a number"},
    {"relu", apply_relu, HALF(relu), "from the bits, as are `neg` and the gradient of `relu`"},
    {"exp", apply_exp, HALF(exp),
     "widened, computed and rounded in three loops over blocks that stay in cache, as all others"},
    {"sum", apply_sum, HALF(sum), "as they lie, with the same bits; was 2.8 and 2.7: of a copy in f32"},
};

static const gd_dtype wide_dtypes[] = {GD_F32, GD_F64}, half_dtypes[] = {GD_F16, GD_BF16};

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

/* n: what the loop is called with; per: what the count is divided by. */
static double count_floor(floor_loop *loop, int64_t n, double per)
{
    static double o[N], a[N], b[2 * N]; /* N > SIDE * SIDE */
    uint64_t from = instructions();
    loop(o, a, b, n);
    return (double)(instructions() - from) / per;
}

/* Names what takes more than one and a half of what is needed. */
static void print_row(const char *name, int digits, const double *taken, const double *needed,
                      const char *note)
{
    printf("| %s |", name);
    for (int k = 0; k < 2; k++) printf(" %.*f | %.*f |", digits, taken[k], digits, needed[k]);
    printf(" %s |\n", note);
    for (int k = 0; k < 2; k++)
        if (taken[k] > 1.5 * needed[k])
            fprintf(stderr, "%s, column %d: %.2f times what is needed\n", name, k + 1, taken[k] / needed[k]);
}

static void print_operators(gd_ctx *ctx, const operator_row *rows, int count, const gd_dtype *dtypes)
{
    printf("| what | %s | needed | %s | needed | |\n|---|---|---|---|---|---|\n", gd_dtype_name(dtypes[0]),
           gd_dtype_name(dtypes[1]));
    for (int i = 0; i < count; i++) {
        double taken[2], needed[2];
        for (int k = 0; k < 2; k++) {
            taken[k] = count_operator(ctx, &rows[i], dtypes[k]);
            needed[k] = count_floor(rows[i].floor[k], N, N);
        }
        print_row(rows[i].name, 1, taken, needed, rows[i].note);
    }
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

static void print_product(gd_ctx *ctx)
{
    double products = (double)SIDE * SIDE * SIDE;
    print_row("matmul", 2, (double[]){count_product(ctx, GD_F32), count_product(ctx, GD_F64)},
              (double[]){count_floor(floor_product_f32, SIDE, products),
                         count_floor(floor_product_f64, SIDE, products)},
              "OpenBLAS has NEON kernels of its own; packing not needed");
}

static void print_step(gd_ctx *ctx, const char *chain, floor_loop *f32, floor_loop *f64, const char *note)
{
    char name[100];
    snprintf(name, sizeof name, "`%s`", chain);
    for (char *bar = name; (bar = strchr(bar, '|')); bar += 2) { /* a bar would end the cell */
        memmove(bar + 1, bar, strlen(bar) + 1);
        *bar = '\\';
    }
    print_row(name, 1, (double[]){count_step(ctx, chain, GD_F32), count_step(ctx, chain, GD_F64)},
              (double[]){count_floor(f32, N, N), count_floor(f64, N, N)}, note);
}

/* Of one element. */
static uint64_t count_call(gd_ctx *ctx, gd_tensor *(*apply)(gd_tensor *a, gd_tensor *b))
{
    uint64_t from = 0, to = 0;
    gd_scope_begin(ctx);
    gd_tensor *one = gd_ones(ctx, GD_F32, 1, (int64_t[]){1});
    for (int i = 0; i < 2; i++) {
        from = instructions();
        apply(one, one);
        to = instructions();
    }
    check(ctx);
    gd_scope_end(ctx);
    return to - from;
}

static void print_calls(gd_ctx *ctx)
{
    static const struct {
        const char *name;
        gd_tensor *(*apply)(gd_tensor *a, gd_tensor *b);
    } calls[] = {{"add", gd_add},
                 {"exp", apply_exp},
                 {"sum", apply_sum},
                 {"max", apply_max},
                 {"softmax", apply_softmax}};
    printf("\nA call itself, of one element, takes");
    for (int i = 0; i < COUNT_OF(calls); i++)
        printf("%s %llu (`%s`)", i ? "," : "", (unsigned long long)count_call(ctx, calls[i].apply),
               calls[i].name);
    printf(" instructions.\n");
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
    print_operators(ctx, wide, COUNT_OF(wide), wide_dtypes);
    print_product(ctx);
    print_step(ctx, "adam | lr(1e-3)", floor_adam_f32, floor_adam_f64, "one pass, built in");
    print_step(ctx, "clip_norm(1) | adam | weight_decay(0.01) | lr(1e-3)", floor_clipped_adam_f32,
               floor_clipped_adam_f64, "two passes, built in");
    printf("\n");
    print_operators(ctx, half, COUNT_OF(half), half_dtypes);
    print_calls(ctx);
    gd_ctx_free(ctx);
    return 0;
}
