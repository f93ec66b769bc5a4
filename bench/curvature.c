/* Links that learn from products with the Hessian, beside steps that only take the gradient: a network 784-256-10 with tanh, batch
 * 512, f32.  adahessian has a product at every step, sophia_h one in ten. */
#include "bench.h"

#include "gradus/optim.h"

enum { BATCH = 512, INPUTS = 784, HIDDEN = 256, CLASSES = 10, ROUND = 10 };

typedef struct network {
    gd_tensor *x, *labels, *param[4]; /* weights and biases of two layers */
} network;

typedef struct stepping {
    gd_optimizer *optimizer;
    network *n;
    int steps;
} stepping;

static gd_tensor *loss_of(void *user)
{
    network *n = user;
    gd_tensor *hidden = gd_tanh(gd_add(gd_matmul(n->x, n->param[0]), n->param[1]));
    return gd_cross_entropy(gd_add(gd_matmul(hidden, n->param[2]), n->param[3]), n->labels);
}

static void round_of_steps(void *arg)
{
    stepping *s = arg;
    for (int i = 0; i < s->steps; i++)
        if (gd_optimizer_step(s->optimizer, &(gd_objective){.loss = loss_of, .user = s->n}, NULL))
            bench_check(gd_optimizer_ctx(s->optimizer));
}

static network make(gd_ctx *ctx)
{
    network n;
    int64_t label[BATCH];
    for (int i = 0; i < BATCH; i++) label[i] = i * 7 % CLASSES;
    n.x = gd_rand(ctx, GD_F32, 2, (int64_t[]){BATCH, INPUTS});
    n.labels = gd_from_data(ctx, GD_I64, 1, (int64_t[]){BATCH}, label);
    for (int k = 0; k < 4; k++) {
        int64_t shape[2] = {k < 2 ? INPUTS : HIDDEN, k < 2 ? HIDDEN : CLASSES};
        gd_tensor *raw = k % 2 ? gd_zeros(ctx, GD_F32, 1, shape + 1) : gd_randn(ctx, GD_F32, 2, shape);
        gd_tensor *scaled = gd_mul_scalar(raw, 0.05);
        gd_release(raw);
        n.param[k] = gd_require_grad(scaled);
    }
    bench_check(ctx);
    return n;
}

static stepping start(gd_ctx *ctx, network *n, const char *chain, int steps)
{
    static const char *const names[] = {"w1", "b1", "w2", "b2"};
    stepping s = {.optimizer = gd_optimizer_new(ctx, gd_chain(ctx, chain)), .n = n, .steps = steps};
    bench_check(ctx);
    for (int k = 0; k < 4; k++)
        if (gd_optimizer_add(s.optimizer, names[k], n->param[k])) bench_check(ctx);
    return s;
}

/* At most `most` times what as many gradients take. */
static void compare(gd_ctx *ctx, network *n, const char *name, const char *chain, int steps, double most)
{
    stepping ours = start(ctx, n, chain, steps), plain = start(ctx, n, "lr(0)", steps);
    report r = {.name = name, .unit = "us", .against = "as many gradients:", .ratio_limit = 1 / most};
    bench_compare(round_of_steps, &ours, round_of_steps, &plain, &r.value, &r.other);
    r.value *= 1e6;
    r.other *= 1e6;
    bench_report(r);
    gd_optimizer_free(ours.optimizer);
    gd_optimizer_free(plain.optimizer);
}

void bench_curvature(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    network n = make(ctx);
    compare(ctx, &n, "adahessian, a product each step", "adahessian | lr(0)", 1, 3.5);
    compare(ctx, &n, "sophia_h, ten steps", "sophia_h | lr(0)", ROUND, 1.5);
    gd_release(n.x);
    gd_release(n.labels);
    for (int k = 0; k < 4; k++) gd_release(n.param[k]);
    gd_ctx_free(ctx);
}
