/* gradus bench: the benchmarks that need no other library, built into the program. */
#include "bench.h"
#include "cli/cli.h"
#include "base/text/suggest.h"

#include <string.h>

#define GRACE 5 /* seconds from a signal to the end of a measurement */

static const gd_option options[] = {
    GD_OPTION("device", "cpu|gpu", "which benchmarks to run where none are named (cpu)"),
    GD_SWITCH("list", "only list them: those named, or all"),
    GD_SWITCH("json",
              "print a JSON list: name, value, unit, against, other, ratio, limit, ratio_limit, good"),
    {0},
};

typedef struct job {
    gd_cli *cli;
    gd_status status;
} job;

/* A line at a time: a run takes a while. */
static void show(void *user, const char *text)
{
    job *j = user;
    if (j->status) return;
    gd__text_add(&j->cli->out, text);
    j->status = j->cli->out.failed ? GD_NOMEM : gd__cli_flush(j->cli);
}

static gd_status find(gd_cli *cli, const char *name, const bench_row **row)
{
    *row = bench_find(name);
    if (*row) return GD_OK;
    gd_suggest nearest = gd__suggest(name, strlen(name));
    for (const bench_row *r = bench_rows; r->name; r++) gd__suggest_try(&nearest, r->name);
    char hint[GD_HINT_SIZE];
    return gd_fail(cli->ctx, GD_ARGUMENT, "bench: no benchmark '%.60s'%s", name,
                   gd__suggest_hint(&nearest, hint));
}

static bool wants_gpu(const bench_row *row) { return !strcmp(row->name, "gpu"); }

static gd_status check(gd_cli *cli, const gd_args *args, bool gpu)
{
    const bench_row *row;
    gd_status status = GD_OK;
    for (int i = 0; i < args->arguments && !status; i++) {
        status = find(cli, args->argument[i], &row);
        gpu = gpu || (!status && wants_gpu(row));
    }
    if (!status && gpu && !gd_gpu_count(cli->ctx))
        status = gd_fail(cli->ctx, GD_DEVICE,
                         "bench: no GPU: the CUDA plugin, a driver or a card is missing");
    return status;
}

static void run_all(const job *j, const gd_args *args, bool gpu)
{
    const bench_row *row = NULL;
    for (int i = 0; i < args->arguments && !j->status && !gd__interrupted(); i++)
        if (!find(j->cli, args->argument[i], &row)) row->run();
    if (args->arguments) return;
    for (row = bench_rows; row->name && !j->status && !gd__interrupted(); row++)
        if (wants_gpu(row) == gpu) row->run();
}

/* Those named, or all. */
static gd_status list(gd_cli *cli, const gd_args *args)
{
    const bench_row *row = NULL;
    for (int i = 0; i < args->arguments; i++) {
        gd_status status = find(cli, args->argument[i], &row);
        if (status) return status;
        gd__text_put(&cli->out, "%-14s %s\n", row->name, row->help);
    }
    for (row = args->arguments ? NULL : bench_rows; row && row->name; row++)
        gd__text_put(&cli->out, "%-14s %s\n", row->name, row->help);
    return cli->out.failed ? GD_NOMEM : GD_OK;
}

static int run(gd_cli *cli, const gd_args *args)
{
    int gpu = 0;
    gd_status status = gd__args_choice(args, "device", "cpu gpu", &gpu);
    if (!status && gd__args_has(args, "list")) return gd__cli_code(cli, list(cli, args));
    if (!status) status = check(cli, args, gpu != 0);
    if (status) return gd__cli_code(cli, status);
    job j = {.cli = cli};
    bench_run r = {.json = gd__args_has(args, "json"), .line = show, .user = &j};
    cli->running = true;
    gd__interrupt_catch(GRACE);
    bench_begin(&r);
    run_all(&j, args, gpu != 0);
    bench_end(&r);
    if (!j.status && gd__interrupted()) j.status = gd_fail(cli->ctx, GD_INTERRUPTED, "bench: interrupted");
    return gd__cli_code(cli, j.status);
}

const gd_command gd__command_bench = {
    .name = "bench",
    .summary = "Measure the library on this machine.",
    .arguments = "[NAME...]",
    .description =
        "Prints one line per measurement, compared with loops that only move the bytes of a step, or with "
        "plain loops. A line that misses its limit ends in MISSED. Let nothing else run meanwhile. (./dev "
        "bench also compares with OpenBLAS, liblbfgs and PyTorch where they are there.)",
    .options = options,
    .examples = "gradus bench optim\ngradus bench --json\ngradus bench --device gpu\n",
    .most = 64,
    .run = run,
};
