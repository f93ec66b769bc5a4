/* Matrix links over the weight matrices of GPT-2 small's blocks on a GPU, against PyTorch (torch_matrices.py) where it is there, and
 * orthogonalize against the products that it consists of.  Prints nothing without a GPU.
 *
 * GD_BENCH_TINY=1 runs the same on the CPU with the matrices of one block, a sixteenth as wide, to see that all of it works. */
#include "bench.h"

#include "gradus/optim.h"

#include <stdlib.h>

#define BLOCKS 12
#define KINDS  4
#define STEPS  5 /* of Newton-Schulz */

typedef struct problem {
    gd_ctx *ctx;
    gd_device *device;
    gd_optimizer *o;
    gd_tensor *param[BLOCKS * KINDS], *grad[BLOCKS * KINDS];
    int count, share; /* share: sizes are divided by it */
} problem;

static gd_tensor *random_on(const problem *p, gd_dtype dtype, int64_t rows, int64_t columns)
{
    gd_tensor *host = gd_randn(p->ctx, GD_F32, 2, (int64_t[]){rows / p->share, columns / p->share});
    gd_tensor *t = gd_to_device(gd_cast(host, dtype), p->device);
    if (!t) bench_check(p->ctx);
    return gd_retain(t);
}

static void add_matrix(problem *p, int64_t rows, int64_t columns)
{
    gd_scope_begin(p->ctx);
    p->grad[p->count] = random_on(p, GD_F32, rows, columns);
    p->param[p->count] = gd_require_grad(random_on(p, GD_F32, rows, columns));
    gd_scope_end(p->ctx);
    char name[16];
    (void)snprintf(name, sizeof name, "w%d", p->count);
    if (gd_set_grad(p->param[p->count], p->grad[p->count]) ||
        gd_optimizer_add(p->o, name, p->param[p->count]))
        bench_check(p->ctx);
    p->count++;
}

static void release_all(problem *p)
{
    gd_optimizer_free(p->o);
    for (int i = 0; i < p->count; i++) {
        gd_zero_grad(p->param[i]);
        gd_release(p->param[i]);
        gd_release(p->grad[i]);
    }
    p->count = 0;
}

/* Mean time of a call in a round of several, the best of a few rounds; the first makes state and kernels. */
static double best_of(const problem *p, int calls, void (*fn)(const problem *p))
{
    double best = 1e9;
    for (int r = 0; r < 5; r++) {
        if (gd_device_sync(p->device)) bench_check(p->ctx);
        double begun = bench_now();
        for (int i = 0; i < calls; i++) fn(p);
        if (gd_device_sync(p->device)) bench_check(p->ctx);
        double took = (bench_now() - begun) / calls;
        if (r && took < best) best = took;
    }
    return best;
}

static void step_once(const problem *p)
{
    if (gd_optimizer_step(p->o, NULL, NULL)) bench_check(p->ctx);
}

/* ---- GPT-2 ---- */

static const struct {
    const char *name, *chain, *other;
    int calls;
    double ratio; /* of PyTorch's time to ours, at least */
} methods[] = {
    {"gpu muon, GPT-2", "nag(0.95) | orthogonalize(adjust_lr=true) | weight_decay(0.1) | lr(1e-3)",
     "torch.optim.Muon:", 5, 2},
    {"gpu shampoo, GPT-2", "shampoo(beta=0.95, update_freq=1000000) | lr(1e-3)", "PyTorch:", 5, 2},
    {"gpu shampoo, with roots", "shampoo(beta=0.95, update_freq=1) | lr(1e-3)", "PyTorch:", 1, 1},
    {"gpu soap, GPT-2", "soap(precond_freq=1000000) | lr(1e-3)", "PyTorch:", 5, 2},
    {"gpu soap, with bases", "soap(precond_freq=1) | lr(1e-3)", "PyTorch:", 1, 1},
};
#define METHODS ((int)(sizeof methods / sizeof *methods))

static double time_of(problem *p, int method)
{
    static const int64_t shape[KINDS][2] = {{768, 2304}, {768, 768}, {768, 3072}, {3072, 768}};
    p->o = gd_optimizer_new(p->ctx, gd_chain(p->ctx, methods[method].chain));
    if (!p->o) bench_check(p->ctx);
    gd_seed(p->ctx, 1);
    for (int i = 0; i < (p->share > 1 ? 1 : BLOCKS) * KINDS; i++)
        add_matrix(p, shape[i % KINDS][0], shape[i % KINDS][1]);
    double took = best_of(p, methods[method].calls, step_once);
    release_all(p);
    return took;
}

/* Seconds as torch_matrices.py prints them, one for each method; false where there is no PyTorch. */
static bool torch_times(double *times)
{
    FILE *out = bench_python("torch_matrices.py", 1);
    int count = 0;
    while (out && count < METHODS && fscanf(out, "%lf", &times[count]) == 1) count++;
    return out && pclose(out) == 0 && count == METHODS;
}

/* ---- products ---- */

/* X X^T, A A and B X, as often as orthogonalize has them, in bf16. */
static void products(const problem *p)
{
    gd_tensor *x = p->grad[1], *a = p->grad[2];
    for (int i = 0; i < STEPS; i++) {
        gd_scope_begin(p->ctx);
        if (!gd_matmul(x, gd_transpose(x, 0, 1)) || !gd_matmul(a, a) || !gd_matmul(a, x)) bench_check(p->ctx);
        gd_scope_end(p->ctx);
    }
}

static void report_orthogonalize(problem *p)
{
    p->o = gd_optimizer_new(p->ctx, gd_chain(p->ctx, "orthogonalize | lr(1e-3)"));
    if (!p->o) bench_check(p->ctx);
    add_matrix(p, 1024, 4096);
    gd_scope_begin(p->ctx);
    p->grad[1] = random_on(p, GD_BF16, 1024, 4096);
    p->grad[2] = random_on(p, GD_BF16, 1024, 1024);
    gd_scope_end(p->ctx);
    report r = {.name = "gpu orthogonalize 1024 x 4096",
                .value = 1e3 * best_of(p, 20, step_once),
                .unit = "ms",
                .against = "its products in bf16:",
                .other = 1e3 * best_of(p, 20, products),
                .ratio_limit = 0.7};
    bench_report(r);
    gd_release(p->grad[1]);
    gd_release(p->grad[2]);
    release_all(p);
}

void bench_gpu_matrices(void)
{
    bool tiny = getenv("GD_BENCH_TINY") != NULL;
    gd_ctx *ctx = bench_context(1);
    if (!tiny && gd_gpu_count(ctx) == 0) {
        gd_ctx_free(ctx);
        return;
    }
    problem p = {.ctx = ctx, .device = gd_device_get(ctx, tiny ? "cpu" : "gpu"), .share = tiny ? 16 : 1};
    if (!p.device) bench_check(ctx);
    report_orthogonalize(&p);
    double torch[METHODS];
    bool live = torch_times(torch);
    for (int i = 0; i < METHODS; i++)
        bench_report((report){.name = methods[i].name,
                              .value = 1e3 * time_of(&p, i),
                              .unit = "ms",
                              .against = live ? methods[i].other : NULL,
                              .other = live ? 1e3 * torch[i] : 0,
                              .ratio_limit = live ? methods[i].ratio : 0});
    bench_check(ctx);
    gd_ctx_free(ctx);
}
