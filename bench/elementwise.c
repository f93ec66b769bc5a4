/* Ten million floats: as fast as a plain vectorised loop on as many threads? */
#include "bench.h"

#include <stdio.h>

#define N 10000000

typedef struct arrays {
    gd_ctx *ctx;
    gd_tensor *x, *y, *out; /* the same kind of memory for both */
    plain_pool *pool;
    plain_op op;
    float *o;
    const float *a, *b;
} arrays;

static void ours(void *arg)
{
    arrays *s = arg;
    gd_release(s->op == PLAIN_ADD   ? gd_add(s->x, s->y)
               : s->op == PLAIN_MUL ? gd_mul(s->x, s->y)
                                    : gd_exp(s->x));
}

static void plain(void *arg)
{
    arrays *s = arg;
    plain_run(s->pool, s->op, s->o, s->a, s->b, N);
}

void bench_elementwise(void)
{
    static const char *const names[] = {"add, 10M f32", "mul, 10M f32", "exp, 10M f32"};
    int threads = bench_threads();
    gd_ctx *ctx = bench_context(threads);
    arrays s = {.ctx = ctx, .pool = plain_start(threads)};
    s.x = gd_rand(ctx, GD_F32, 1, (int64_t[]){N});
    s.y = gd_rand(ctx, GD_F32, 1, (int64_t[]){N});
    s.out = gd_zeros(ctx, GD_F32, 1, (int64_t[]){N});
    bench_check(ctx);
    s.o = gd_data_mut(s.out);
    s.a = gd_data(s.x);
    s.b = gd_data(s.y);
    char against[32];
    snprintf(against, sizeof against, "plain loop, %d threads:", threads);
    for (int op = PLAIN_ADD; op <= PLAIN_EXP; op++) {
        double mine, other;
        s.op = (plain_op)op;
        bench_compare(ours, &s, plain, &s, &mine, &other);
        bench_report((report){.name = names[op],
                              .value = 1e3 * mine,
                              .unit = "ms",
                              .against = against,
                              .other = 1e3 * other,
                              .ratio_limit = 0.9});
    }
    plain_stop(s.pool);
    gd_release(s.out);
    gd_release(s.x);
    gd_release(s.y);
    gd_ctx_free(ctx);
}
