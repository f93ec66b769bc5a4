/* Several processes: exact sums against MPI_Allreduce, steps with state shared and whole, training against PyTorch's
 * DistributedDataParallel with ZeroRedundancyOptimizer; what microbatches cost one process; and what bench/world/scale_model.py wants to know.
 * Processes are those of bench/world/ranks.c, started by the launcher of MPI. */
#include "bench.h"
#include "gradus/layers.h"
#include "gradus/optim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- one process: microbatches against none ---- */

enum { BATCH = 1024, INPUTS = 784, HIDDEN = 256, CLASSES = 10, MICROBATCH = BATCH / 8 };

typedef struct training {
    gd_ctx *ctx;
    gd_optimizer *opt;
    gd_module *net;
    gd_tensor *x, *classes;
    gd_batch batch;
} training;

static gd_tensor *mean_loss(void *user, int64_t first, int64_t count)
{
    training *t = user;
    gd_tensor *x = gd_slice(t->x, "0", first, first + count, 1),
              *classes = gd_slice(t->classes, "0", first, first + count, 1);
    return gd_cross_entropy(gd_module_call(t->net, x), classes);
}

static gd_tensor *whole_loss(void *user)
{
    training *t = user;
    return gd_cross_entropy(gd_module_call(t->net, t->x), t->classes);
}

static void step(void *arg)
{
    training *t = arg;
    gd_objective microbatches = {.batch = &t->batch}, whole = {.loss = whole_loss, .user = t};
    gd_scope_begin(t->ctx);
    if (gd_optimizer_step(t->opt, t->batch.microbatch ? &microbatches : &whole, NULL)) bench_check(t->ctx);
    gd_scope_end(t->ctx);
}

static training open_training(gd_ctx *ctx, int64_t microbatch)
{
    training t = {.ctx = ctx};
    int64_t classes[BATCH];
    for (int i = 0; i < BATCH; i++) classes[i] = i * 7 % CLASSES;
    t.x = gd_rand(ctx, GD_F32, 2, (int64_t[]){BATCH, INPUTS});
    t.classes = gd_from_data(ctx, GD_I64, 1, (int64_t[]){BATCH}, classes);
    t.net = gd_mlp_new(ctx, (int64_t[]){INPUTS, HIDDEN, CLASSES}, 3, NULL);
    t.opt = gd_optimizer_new(ctx, gd_chain(ctx, "adam | lr(0.001)"));
    if (!t.opt || gd_optimizer_add_module(t.opt, t.net, NULL, NULL)) bench_check(ctx);
    t.batch = (gd_batch){.rows = BATCH, .microbatch = microbatch, .loss = mean_loss};
    return t;
}

static void close_training(training *t)
{
    gd_optimizer_free(t->opt);
    gd_module_release(t->net);
    gd_release(t->x);
    gd_release(t->classes);
}

static void compare_microbatches(void)
{
    gd_ctx *ctx = bench_context(bench_threads());
    training with = open_training(ctx, MICROBATCH), without = open_training(ctx, 0);
    double ours, whole;
    with.batch.user = &with;
    bench_compare(step, &with, step, &without, &ours, &whole);
    bench_report((report){.name = "784-256-10, batch 1024, 8 microbatches",
                          .value = 1e3 * ours,
                          .unit = "ms",
                          .against = "no microbatches",
                          .other = 1e3 * whole,
                          .ratio_limit = 1 / 1.1});
    close_training(&with);
    close_training(&without);
    gd_ctx_free(ctx);
}

/* ---- several processes ---- */

/* The numbers that bench/world/ranks.c prints with that many processes; how many there were. */
static int run_ranks(int ranks, const char *what, double number[4])
{
#ifdef GD_BENCH_RANKS
    char line[256] = "", command[2048];
    (void)snprintf(
        command, sizeof command,
        "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 '%s' -n %d --oversubscribe '%s' %s",
        GD_BENCH_MPIRUN, ranks, GD_BENCH_RANKS, what);
    FILE *out = popen(command, "r");
    if (!out) return 0;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    int code = pclose(out);
    return code ? 0 : sscanf(line, "%lf %lf %lf %lf", &number[0], &number[1], &number[2], &number[3]);
#else
    (void)ranks, (void)what, (void)number;
    return 0;
#endif
}

static void missing(const char *what)
{
    bench_report((report){.name = what, .value = 1, .unit = "", .limit = 0.5});
}

static void compare_sums(void)
{
    double t[4];
    for (int ranks = 2; ranks <= 4; ranks++) {
        char name[80];
        (void)snprintf(name, sizeof name, "exact all_reduce, 100 MB, %d processes", ranks);
        if (run_ranks(ranks, "sums 25000000", t) != 2) {
            missing("exact all_reduce did not run");
            return;
        }
        bench_report((report){.name = name,
                              .value = 1e3 * t[0],
                              .unit = "ms",
                              .against = "MPI_Allreduce in place",
                              .other = 1e3 * t[1],
                              .ratio_limit = 1});
    }
}

/* Microseconds per step by torch_ddp.py, or 0. */
static double torch_time(void)
{
    char line[128] = "";
    FILE *out = bench_python("torch_ddp.py", 2);
    if (!out) return 0;
    if (!fgets(line, sizeof line, out)) line[0] = 0;
    return pclose(out) == 0 ? 1e3 * strtod(line, NULL) : 0;
}

/* Medians with state whole, state shared and gradients shared, as many as there are. */
static void report_shared(const char *what, const double *took, int count)
{
    for (int i = 1; i < count; i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%s, %s shared", what, i == 1 ? "state" : "gradients");
        bench_report((report){.name = name,
                              .value = 1e3 * took[i],
                              .unit = "ms",
                              .against = "state whole",
                              .other = 1e3 * took[0],
                              .ratio_limit = 1});
    }
}

static void compare_steps(void)
{
    double t[4], adam[4];
    int modes = run_ranks(2, "steps", t), adam_modes = run_ranks(2, "adam 8000000", adam);
    if (modes < 2 || adam_modes < 2) {
        missing("steps with shared state did not run");
        return;
    }
    report_shared("784-256-10, 2 processes", t, modes);
    report_shared("adam, 8M parameters, 2 processes", adam, adam_modes);
    if (run_ranks(1, "adam 8000000", adam) > 0)
        bench_report(
            (report){.name = "adam, 8M parameters, 1 process", .value = 1e3 * adam[0], .unit = "ms"});
    double torch = torch_time();
    bench_report((report){.name = torch > 0 ? "784-256-10, 2 processes, state shared"
                                            : "784-256-10, 2 processes (no PyTorch: GRADUS_TORCH_PYTHON)",
                          .value = 1e3 * t[1],
                          .unit = "ms",
                          .against = torch > 0 ? "PyTorch DDP + ZeRO, gloo" : NULL,
                          .other = torch,
                          .ratio_limit = torch > 0 ? 1 : 0});
}

static void report_wires(void)
{
    double t[4];
    if (run_ranks(2, "wires", t) != 4) {
        missing("messages between two processes did not run");
        return;
    }
    bench_report((report){.name = "message of nothing, one way", .value = 1e6 * t[0], .unit = "us"});
    bench_report((report){.name = "messages of 32 MB, one way", .value = 1e-9 * t[1], .unit = "GB/s"});
    bench_report((report){.name = "exact all_reduce of one number",
                          .value = 1e6 * t[2],
                          .unit = "us",
                          .against = "MPI_Allreduce",
                          .other = 1e6 * t[3]});
}

void bench_world(void)
{
    compare_microbatches();
#ifdef GD_BENCH_RANKS
    compare_sums();
    compare_steps();
    report_wires();
#else
    bench_report((report){.name = "several processes: ./dev bench world, with MPI", .unit = ""});
    (void)compare_sums, (void)compare_steps, (void)report_wires;
#endif
}
