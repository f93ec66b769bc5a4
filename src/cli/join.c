/* Several processes: the launcher, joining their world, and output by one rank. */
#include "base/text/number.h"
#include "cli/cli.h"
#include "cli/outcome.h"
#include "file/safetensors.h"
#include "world/world_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Environment variables that launchers set: the rank, and the number of processes. */
static const char *const told[][2] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, /* Open MPI */
    {"PMI_RANK", "PMI_SIZE"},                         /* MPICH and its kin, Slurm's PMI2 */
    {"PMIX_RANK", "SLURM_STEP_NUM_TASKS"},            /* srun --mpi=pmix */
    {"PMIX_RANK", "SLURM_NTASKS"},
};

static int64_t env_number(const char *name)
{
    const char *text = getenv(name);
    int64_t value = -1;
    return text && gd__is_integer(text, &value) ? value : -1;
}

/* Number of processes of the launcher; 1: no launcher. */
static int64_t launched(int64_t *rank)
{
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        int64_t size = env_number(told[i][1]);
        *rank = env_number(told[i][0]);
        if (*rank >= 0 && size > 1) return size;
    }
    *rank = 0;
    return 1;
}

bool gd__cli_speaks(const gd_cli *cli)
{
    int64_t rank;
    if (cli->world) return gd_world_rank(cli->world) == 0;
    (void)launched(&rank);
    return cli->alone || rank == 0;
}

/* The launcher's processes cannot connect: the error says what to do. */
static gd_status not_joined(gd_cli *cli, int64_t size)
{
    gd_trouble why = {.status = GD_OK};
    gd__put_aside(cli->ctx, gd_error(cli->ctx), &why);
    return gd_fail(cli->ctx, why.status, "%s; %lld processes were started, --world self lets each run alone",
                   why.text, (long long)size);
}

/* ---- consistency of ranks ---- */

/* Options that may differ between processes: files, which are compared by content, and options of output, which only rank 0 writes. */
static bool is_own(const gd_option *o, const char *value)
{
    static const char *const own[] = {"threads", "device", "world", "json", "dark", "plugin"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcmp(o->name, own[i])) return true;
    if (o->path == GD_PATH_READ_VALUE) return value && strchr(value, '@');
    return o->path != GD_PATH_NONE;
}

/* "--epochs 5", "no --epochs". */
static void put_option(gd_text *out, const gd_args *args, const gd_option *o)
{
    bool given = false;
    for (int i = 0; i < args->options; i++) {
        const char *value = args->value[i];
        if (args->option[i] != o || is_own(o, value)) continue;
        gd__text_put(out, "%s--%s%s%s", given ? " " : "", o->name, value ? " " : "", value ? value : "");
        given = true;
    }
    if (!given) gd__text_put(out, "no --%s", o->name);
}

/* Have all ranks this text?  A long one is compared by its checksum. */
static gd_status same_text(gd_cli *cli, const char *command, const char *text)
{
    char name[110];
    size_t size = strlen(text);
    if (size < sizeof name - 1)
        (void)snprintf(name, sizeof name, "%s", text);
    else
        (void)snprintf(name, sizeof name, "%.70s... (%016llx)", text,
                       (unsigned long long)gd__checksum(0, text, size));
    return gd__world_same(cli->world, command, name);
}

/* All words that must be equal on all ranks, hashed into one number; or compared. */
static gd_status compare_words(gd_cli *cli, const gd_args *args, uint64_t *number)
{
    gd_text text = gd__text(cli->ctx);
    gd_status status = GD_OK;
    int files = args->command->reads_from ? args->command->reads_from - 1 : args->arguments;
    const gd_option *o = args->command->options;
    for (int i = 0; (i < args->arguments && i < files) || o->name; i++) {
        bool argument = i < args->arguments && i < files;
        text.used = 0;
        if (argument)
            gd__text_put(&text, "'%s'", args->argument[i]);
        else
            put_option(&text, args, o++);
        if (text.failed) break;
        if (number)
            *number = gd__checksum(*number, text.data, text.used);
        else if (!status)
            status = same_text(cli, args->command->name, text.data);
    }
    bool failed = text.failed;
    gd__text_free(&text);
    return failed ? gd_world_agree(cli->world, GD_NOMEM) : status;
}

/* One number suffices if all agree; if not, every word is compared to name the difference. */
static gd_status all_agree(gd_cli *cli, const gd_args *args)
{
    uint64_t number = 0;
    char name[40];
    gd_status status = compare_words(cli, args, &number);
    if (status) return status;
    (void)snprintf(name, sizeof name, "words with the sum %016llx", (unsigned long long)number);
    status = same_text(cli, args->command->name, name);
    if (status != GD_MISMATCH) return status;
    gd_clear_error(cli->ctx);
    status = compare_words(cli, args, NULL);
    return status ? status
                  : gd_fail(cli->ctx, GD_MISMATCH, "%s: ranks are given other words", args->command->name);
}

void gd__cli_tell(gd_cli *cli, int argc, char *const *argv, int code)
{
    int64_t rank;
    const char *name = gd_world_known(0);
    for (int i = 0; i < argc; i++)
        if (!strncmp(argv[i], "--world=", 8))
            name = argv[i] + 8;
        else if (!strcmp(argv[i], "--world") && i + 1 < argc)
            name = argv[i + 1];
    if (launched(&rank) == 1 || !strcmp(name, "self")) return;
    cli->world = gd_world_open(cli->ctx, name, NULL);
    if (cli->world) (void)gd__cli_leave(cli, code);
}

gd_status gd__cli_join(gd_cli *cli, gd_args *args)
{
    int64_t rank, size = launched(&rank);
    const char *name = gd__args_get(args, "world");
    cli->alone = name && !strcmp(name, "self");
    if (cli->alone || (!name && size == 1)) return GD_OK;
    if (name && !strncmp(name, "threads:", 8))
        return gd_fail(
            cli->ctx, GD_VALUE,
            "%s: --world %.40s is for programs (gd_world_run); here --threads N computes with more threads",
            args->command->name, name);
    cli->world = gd_world_open(cli->ctx, name ? name : gd_world_known(0), NULL);
    if (!cli->world) return name ? gd_error(cli->ctx) : not_joined(cli, size);
    gd_status status = all_agree(cli, args);
    if (gd_world_rank(cli->world) > 0) gd__args_drop_outputs(args);
    return status;
}

int gd__cli_leave(gd_cli *cli, int code)
{
    if (!cli->world) return code;
    gd_status mine = !code ? GD_OK : gd_error(cli->ctx) ? gd_error(cli->ctx) : GD_NOMEM;
    if (mine && cli->world->failed) return code; /* all have it from the collective before */
    gd_status status = gd_world_agree(cli->world, mine);
    return code || !status ? code : GD_EXIT_FAILED;
}

int gd__cli_any(gd_cli *cli, int bits) { return gd__world_any(cli->ctx, cli->world, bits); }

double gd__cli_first(gd_cli *cli, double number) { return gd__world_first(cli->ctx, cli->world, number); }
