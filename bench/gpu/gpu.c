/* Fused optimizer steps on a GPU against the time to move the bytes they must, and a training step; PyTorch is measured
 * beside them by torch_gpu.py where it is there.  Prints nothing without a GPU. */
#include "gpu/gpu.h"
#include "gradus/optim.h"

#include <stdio.h>
#include <stdlib.h>

#define MAX_TENSORS 1000

typedef struct problem {
    gd_ctx *ctx;
    gd_device *gpu;
    gd_optimizer *opt;
    gd_tensor *param[MAX_TENSORS], *grad[MAX_TENSORS];
    int count;
    int64_t numel;
} problem;

static gd_tensor *filled(problem *p, gd_dtype dtype, int64_t n, double value)
{
    gd_tensor *t = gd_empty_on(p->gpu, dtype, 1, &n);
    if (!t || gd_fill(t, value)) bench_check(p->ctx);
    return t;
}

static void add_tensor(problem *p, gd_dtype dtype, int64_t n)
{
    p->param[p->count] = gd_require_grad(filled(p, dtype, n, 0.5));
    p->grad[p->count] = filled(p, dtype, n, 1e-3);
    if (gd_set_grad(p->param[p->count], p->grad[p->count])) bench_check(p->ctx);
    p->numel += n;
    p->count++;
}

/* The tensors of GPT-2 small: 148 of them, 124 million numbers. */
static void add_gpt2(problem *p, gd_dtype dtype)
{
    add_tensor(p, dtype, 50257 * 768);
    add_tensor(p, dtype, 1024 * 768);
    for (int layer = 0; layer < 12; layer++) {
        static const int64_t sizes[12] = {768, 768, 768 * 2304, 2304, 768 * 768,  768,
                                          768, 768, 768 * 3072, 3072, 3072 * 768, 768};
        for (int i = 0; i < 12; i++) add_tensor(p, dtype, sizes[i]);
    }
    add_tensor(p, dtype, 768);
    add_tensor(p, dtype, 768);
}

static void start(problem *p, const char *chain)
{
    p->opt = gd_optimizer_new(p->ctx, gd_chain(p->ctx, chain));
    if (!p->opt) bench_check(p->ctx);
    for (int i = 0; i < p->count; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        if (gd_optimizer_add(p->opt, name, p->param[i])) bench_check(p->ctx);
    }
}

/* Mean time of a step: many queued, one wait at the end. */
static double step_time(problem *p, int steps)
{
    double best = 1e9;
    for (int r = 0; r < 7; r++) {
        if (gd_device_sync(p->gpu)) bench_check(p->ctx);
        double begun = bench_now();
        for (int i = 0; i < steps; i++)
            if (gd_optimizer_step(p->opt, NULL, NULL)) bench_check(p->ctx);
        if (gd_device_sync(p->gpu)) bench_check(p->ctx);
        double took = (bench_now() - begun) / steps;
        if (r && took < best) best = took; /* the first round makes state and kernels */
    }
    return best;
}

static void stop(problem *p)
{
    gd_optimizer_free(p->opt);
    for (int i = 0; i < p->count; i++) {
        gd_zero_grad(p->param[i]);
        gd_release(p->param[i]);
        gd_release(p->grad[i]);
    }
    p->count = 0;
    p->numel = 0;
}

/* Bytes a second of copies from one place on the device to another, reads and writes counted. */
static double copy_speed(problem *p)
{
    int64_t n = 256 << 20;
    gd_tensor *a = filled(p, GD_F32, n, 1), *b = filled(p, GD_F32, n, 2);
    double best = 1e9;
    for (int r = 0; r < 5; r++) {
        if (gd_device_sync(p->gpu)) bench_check(p->ctx);
        double begun = bench_now();
        for (int i = 0; i < 10; i++)
            if (gd_assign(b, a)) bench_check(p->ctx);
        if (gd_device_sync(p->gpu)) bench_check(p->ctx);
        double took = (bench_now() - begun) / 10;
        if (took < best) best = took;
    }
    gd_release(a);
    gd_release(b);
    return 2.0 * 4 * (double)n / best;
}

#define CLIPPED "clip_norm(1) | adam | weight_decay(0.01) | lr(1e-3)"
#define SEVEN \
    "clip_value(1) | adam | weight_decay(0.01) | clip_value(10) | cautious | weight_decay(1e-4) | lr(1e-3)"

static double time_of(problem *p, void (*add)(problem *, gd_dtype), gd_dtype dtype, const char *chain,
                      int steps, bool capture)
{
    add(p, dtype);
    start(p, chain);
    if (capture && gd_optimizer_capture(p->opt, true)) bench_check(p->ctx);
    double took = step_time(p, steps);
    stop(p);
    return took;
}

static void add_thousand(problem *p, gd_dtype dtype)
{
    for (int i = 0; i < 1000; i++) add_tensor(p, dtype, 1000);
}

/* Steps of the chain over the tensors of GPT-2 in a dtype, against the bytes they must move. */
static void against_floor(problem *p, const char *name, gd_dtype dtype, const char *what, double floor)
{
    bench_report((report){.name = name,
                          .value = 1e3 * time_of(p, add_gpt2, dtype, CLIPPED, 50, false),
                          .unit = "ms",
                          .against = what,
                          .other = 1e3 * floor,
                          .ratio_limit = 1 / 1.15});
}

/* adam with state in fewer bytes, against those; most: times the floor. */
static void narrow_state(problem *p, const char *name, const char *chain, double bytes, double speed,
                         double most)
{
    bench_report((report){.name = name,
                          .value = 1e3 * time_of(p, add_gpt2, GD_F32, chain, 50, false),
                          .unit = "ms",
                          .against = "floor of its bytes:",
                          .other = 1e3 * bytes * 124.439808e6 / speed,
                          .ratio_limit = 1 / most});
}

static void report_thousand(problem *p, bool capture, double torch)
{
    report r = {.name = capture ? "gpu 1000 x 1000, captured" : "gpu the same, 1000 x 1000",
                .value = 1e6 * time_of(p, add_thousand, GD_F32, CLIPPED, 500, capture),
                .unit = "us",
                .limit = 30};
    if (torch > 0) {
        r.against = "torch fused AdamW:";
        r.other = 1e6 * torch;
    }
    bench_report(r);
}

static void report_training(problem *p, const char *name, gd_dtype dtype, double torch)
{
    double first, last;
    report r = {
        .name = name, .value = 1e3 * bench_gpu_train(p->ctx, p->gpu, dtype, &first, &last), .unit = "ms"};
    if (torch > 0) {
        r.against = "PyTorch eager:";
        r.other = 1e3 * torch;
        r.ratio_limit = 1;
    }
    bench_report(r);
    /* what is fast and learns nothing is not a training step */
    if (!(last < 0.7 * first)) {
        fprintf(stderr, "%s: the loss went from %g to %g\n", name, first, last);
        exit(1);
    }
}

static void report_steps(problem *p, const double *torch)
{
    double speed = copy_speed(p), millions = 124.439808;
    bench_report((report){.name = "gpu copy", .value = speed / 1e12, .unit = "TB/s"});
    against_floor(p, "gpu clip|adam|wd|lr, GPT-2", GD_F32,
                  "floor (32 B a parameter):", 32 * millions * 1e6 / speed);
    if (torch)
        bench_report((report){.name = "gpu the same again",
                              .value = 1e3 * time_of(p, add_gpt2, GD_F32, CLIPPED, 50, false),
                              .unit = "ms",
                              .against = "torch fused AdamW, no clipping:",
                              .other = 1e3 * torch[0],
                              .ratio_limit = 1});
    against_floor(p, "gpu the same, bf16 params", GD_BF16,
                  "floor (24 B a parameter):", 24 * millions * 1e6 / speed);
    report_thousand(p, false, torch ? torch[1] : 0);
    report_thousand(p, true, torch ? torch[1] : 0);
    narrow_state(p, "gpu adam|lr, bf16 state", "adam(state=\"bf16\") | lr(1e-3)", 20, speed, 1.3);
    narrow_state(p, "gpu adam|lr, 8-bit state", "adam(state=\"8bit\") | lr(1e-3)", 16.0625, speed, 1.3);
    double two = time_of(p, add_gpt2, GD_F32, "adam | lr(1e-3)", 50, false);
    bench_report((report){.name = "gpu seven links, GPT-2",
                          .value = 1e3 * time_of(p, add_gpt2, GD_F32, SEVEN, 50, false),
                          .unit = "ms",
                          .against = "adam | lr:",
                          .other = 1e3 * two,
                          .ratio_limit = 1 / 1.2});
}

/* Seconds as torch_gpu.py prints them; false where there is no PyTorch. */
static bool torch_times(double times[4])
{
    FILE *out = bench_python("torch_gpu.py", 1);
    int count = 0;
    while (out && count < 4 && fscanf(out, "%lf", &times[count]) == 1) count++;
    return out && pclose(out) == 0 && count == 4;
}

void bench_gpu(void)
{
    gd_ctx *ctx = bench_context(1);
    if (gd_gpu_count(ctx) == 0) {
        gd_ctx_free(ctx);
        return;
    }
    problem p = {.ctx = ctx, .gpu = gd_device_get(ctx, "gpu")};
    if (!p.gpu) bench_check(ctx);
    double torch[4];
    bool live = torch_times(torch);
    report_steps(&p, live ? torch : NULL);
    report_training(&p, "gpu transformer step, f32", GD_F32, live ? torch[2] : 0);
    report_training(&p, "gpu transformer step, bf16", GD_BF16, live ? torch[3] : 0);
    bench_check(ctx);
    gd_ctx_free(ctx);
}
