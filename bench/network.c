/* Forward and backward of a 784-256-10 network, batch 128, f32, against PyTorch on the same machine.
 *
 * PyTorch is measured live by torch_mlp.py when `python3` (or GRADUS_TORCH_PYTHON) has it; otherwise the measurement
 * recorded below is shown, without a limit: it was taken on another machine. */
#include "bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Microseconds of PyTorch 2.15 on two threads of an AMD EPYC; gradus took 740 at the same time. */
#define RECORDED_TORCH 846.0

enum { BATCH = 128, INPUTS = 784, HIDDEN = 256, CLASSES = 10 };

typedef struct network {
    gd_ctx *ctx;
    gd_tensor *x, *labels;
    gd_tensor *w1, *b1, *w2, *b2;
} network;

static gd_tensor *weight(gd_ctx *ctx, int64_t rows, int64_t columns, double scale)
{
    gd_tensor *raw = gd_randn(ctx, GD_F32, 2, (int64_t[]){rows, columns}), *w = gd_mul_scalar(raw, scale);
    gd_release(raw);
    return gd_require_grad(w);
}

static void step(void *arg)
{
    network *n = arg;
    gd_scope_begin(n->ctx);
    gd_tensor *hidden = gd_relu(gd_add(gd_matmul(n->x, gd_transpose(n->w1, 0, 1)), n->b1));
    gd_tensor *logits = gd_add(gd_matmul(hidden, gd_transpose(n->w2, 0, 1)), n->b2);
    gd_status status = gd_backward(gd_cross_entropy(logits, n->labels), NULL, 0);
    gd_tensor *all[] = {n->w1, n->b1, n->w2, n->b2};
    for (int i = 0; i < 4; i++) gd_zero_grad(all[i]);
    gd_scope_end(n->ctx);
    if (status) bench_check(n->ctx);
}

static network make(gd_ctx *ctx)
{
    network n = {.ctx = ctx};
    int64_t label[BATCH];
    for (int i = 0; i < BATCH; i++) label[i] = i * 7 % CLASSES;
    n.x = gd_rand(ctx, GD_F32, 2, (int64_t[]){BATCH, INPUTS});
    n.labels = gd_from_data(ctx, GD_I64, 1, (int64_t[]){BATCH}, label);
    n.w1 = weight(ctx, HIDDEN, INPUTS, 0.05);
    n.w2 = weight(ctx, CLASSES, HIDDEN, 0.05);
    n.b1 = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){HIDDEN}));
    n.b2 = gd_require_grad(gd_zeros(ctx, GD_F32, 1, (int64_t[]){CLASSES}));
    bench_check(ctx);
    return n;
}

/* Microseconds per step as torch_mlp.py prints them, or 0. */
static double torch_time(void)
{
    char line[128] = "";
    FILE *out = bench_python("torch_mlp.py", bench_threads());
    if (!out) return 0;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    return pclose(out) == 0 ? strtod(line, NULL) : 0;
}

void bench_network(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    network n = make(ctx);
    report r = {.name = "network 784-256-10", .unit = "us"};
    double first = torch_time();
    r.value = 1e6 * bench_time(step, &n);
    if (first > 0) {
        double again = torch_time(); /* before and after: the machine may be busy */
        r.against = "PyTorch:";
        r.other = again > 0 && again < first ? again : first;
        r.ratio_limit = 1;
    } else {
        r.against = "PyTorch as recorded on another machine:";
        r.other = RECORDED_TORCH;
    }
    bench_report(r);
    bench_check(ctx);
    gd_tensor *all[] = {n.x, n.labels, n.w1, n.b1, n.w2, n.b2};
    for (int i = 0; i < 6; i++) gd_release(all[i]);
    gd_ctx_free(ctx);
}
