/* Several processes: who started them, joining their world, and who speaks. */
#include "base/text/number.h"
#include "cli/cli.h"
#include "cli/outcome.h"
#include "world/world.h"

#include <stdlib.h>
#include <string.h>

/* What launchers tell the processes that they start: a name of the rank, and one of how many there are. */
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

/* Processes that a launcher has started; 1: none did. */
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

/* Its own processes cannot meet: that is told with the way out. */
static gd_status not_joined(gd_cli *cli, int64_t size)
{
    gd_trouble why = {.status = GD_OK};
    gd__put_aside(cli->ctx, gd_error(cli->ctx), &why);
    return gd_fail(cli->ctx, why.status, "%s; %lld processes were started, --world self lets each run alone",
                   why.text, (long long)size);
}

gd_status gd__cli_join(gd_cli *cli, gd_args *args)
{
    int64_t rank, size = launched(&rank);
    const char *name = gd__args_get(args, "world");
    cli->alone = name && !strcmp(name, "self");
    if (cli->alone || (!name && size == 1)) return GD_OK;
    cli->world = gd_world_open(cli->ctx, name ? name : gd_world_known(0), NULL);
    if (!cli->world) return name ? gd_error(cli->ctx) : not_joined(cli, size);
    if (gd_world_rank(cli->world) > 0) gd__args_drop_outputs(args);
    return GD_OK;
}

int gd__cli_leave(gd_cli *cli, int code)
{
    if (!cli->world) return code;
    gd_status mine = !code ? GD_OK : gd_error(cli->ctx) ? gd_error(cli->ctx) : GD_NOMEM;
    if (mine && cli->world->failed) return code; /* all have it from the collective before */
    gd_status status = gd_world_agree(cli->world, mine);
    return code || !status ? code : GD_EXIT_FAILED;
}

int gd__cli_any(gd_cli *cli, int bits)
{
    if (!cli->world) return bits;
    gd__aside_begin(cli->ctx);
    gd_tensor *of_all = gd_from_data(cli->ctx, GD_I64, 1, (int64_t[]){2}, (int64_t[]){bits & 1, bits >> 1});
    gd_status status = gd_world_all_reduce(cli->world, of_all, GD_REDUCE_EXACT);
    const int64_t *count = status ? NULL : gd_data(of_all);
    if (count) bits = (count[0] > 0) | (count[1] > 0) << 1;
    gd__aside_end(cli->ctx);
    return bits;
}

double gd__cli_first(gd_cli *cli, double number)
{
    if (!cli->world) return number;
    gd__aside_begin(cli->ctx);
    gd_tensor *of_all = gd_scalar(cli->ctx, GD_F64, number);
    if (!gd_world_broadcast(cli->world, of_all, 0)) number = gd_item(of_all);
    gd__aside_end(cli->ctx);
    return number;
}
