/* gradus world: the available worlds, and a test of joining one. */
#include "cli/cli.h"
#include "gradus/world.h"

#include <stdio.h>

static const gd_option options[] = {
    GD_OPTION("join", "NAME", "join this world and list its processes"),
    GD_SWITCH("json", "print one JSON object"),
    {0},
};

typedef struct world_line {
    const char *name, *text;
    int ranks; /* 0: not joined */
    bool there;
} world_line;

static void add_line(gd_text *out, bool json, const world_line *line)
{
    char ranks[32] = "";
    if (line->ranks)
        (void)snprintf(ranks, sizeof ranks, "%d rank%s, ", line->ranks, line->ranks == 1 ? "" : "s");
    if (!json) {
        gd__text_put(out, "%-10s %s%s%s\n", line->name, line->there ? "" : "not there: ", ranks, line->text);
        return;
    }
    gd__text_char(out, '{');
    gd__json_put_string(out, "name", line->name);
    gd__text_put(out, ", \"there\": %s", line->there ? "true" : "false");
    if (line->ranks) gd__text_put(out, ", \"ranks\": %d", line->ranks);
    gd__json_put_string(out, "description", line->text);
    gd__text_char(out, '}');
}

static void list_worlds(gd_cli *cli, bool json)
{
    char text[600];
    if (json) gd__text_add(&cli->out, "{\"worlds\": [");
    add_line(&cli->out, json, &(world_line){"self", "this process alone", 0, true});
    if (json) gd__text_add(&cli->out, ", ");
    add_line(&cli->out, json, &(world_line){"threads:N", "threads of this process", 0, true});
    for (int i = 0; gd_world_known(i); i++) {
        if (json) gd__text_add(&cli->out, ", ");
        bool there = gd_world_describe(cli->ctx, gd_world_known(i), text, sizeof text);
        add_line(&cli->out, json, &(world_line){gd_world_known(i), text, 0, there});
    }
    if (json) gd__text_add(&cli->out, "]}\n");
}

/* ---- joining ---- */

typedef struct visit {
    bool told; /* by rank 0 of this process */
    int ranks;
    char about[96];
} visit;

/* The sum over ranks of 1 is their number. */
static gd_status count_ranks(gd_world *world, void *user)
{
    gd_ctx *ctx = gd_world_ctx(world);
    gd_scope_begin(ctx);
    gd_tensor *one = gd_ones(ctx, GD_I64, 0, NULL);
    gd_status status = gd_world_all_reduce(world, one, GD_REDUCE_EXACT);
    if (!status && gd_world_rank(world) == 0) {
        visit *v = user;
        *v = (visit){.told = true, .ranks = (int)gd_item(one)};
        (void)snprintf(v->about, sizeof v->about, "%s", gd_world_about(world));
    }
    gd_scope_end(ctx);
    return status;
}

static gd_status join_world(gd_cli *cli, const char *name, bool json)
{
    visit v = {0};
    gd_status status = gd_world_run(cli->ctx, name, NULL, count_ranks, &v);
    if (status || !v.told) return status;
    add_line(&cli->out, json, &(world_line){name, v.about, v.ranks, true});
    if (json) gd__text_char(&cli->out, '\n');
    return GD_OK;
}

static int run_world(gd_cli *cli, const gd_args *args)
{
    bool json = gd__args_has(args, "json");
    const char *name = gd__args_get(args, "join");
    gd_status status = GD_OK;
    cli->running = true;
    if (name)
        status = join_world(cli, name, json);
    else
        list_worlds(cli, json);
    return gd__cli_code(cli, cli->out.failed ? GD_NOMEM : status);
}

const gd_command gd__command_world = {
    .name = "world",
    .summary = "List the sets of processes that can compute together.",
    .arguments = "",
    .description =
        "A world is a set of processes, or of threads with a context each. Processes of a launcher such as mpirun need "
        "a plugin. With --join every process joins, and rank 0 prints their number.",
    .options = options,
    .examples = "gradus world\ngradus world --join threads:4\nmpirun -n 4 gradus world --join mpi\n",
    .run = run_world,
};
