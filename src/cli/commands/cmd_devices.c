/* gradus devices: devices for tensors. */
#include "cli/cli.h"
#include "gradus/world.h"

#include <stdio.h>
#include <unistd.h>

static const gd_option options[] = {
    GD_SWITCH("json", "print one JSON object"),
    GD_OPTION("threads", "N", "CPU threads (all cores)"),
    {0},
};

static void add_device(gd_text *out, bool json, const char *name, const char *text)
{
    if (json) {
        gd__text_char(out, '{');
        gd__json_put_string(out, "name", name);
        gd__json_put_string(out, "description", text);
        gd__text_char(out, '}');
    } else {
        gd__text_put(out, "%-8s %s\n", name, text);
    }
}

/* The devices that can be opened here, by name. */
static void add_worlds(gd_cli *cli)
{
    char why[600];
    gd__text_add(&cli->out, "worlds   self, threads:N");
    for (int i = 0; gd_world_known(i); i++)
        if (gd_world_describe(cli->ctx, gd_world_known(i), why, sizeof why))
            gd__text_put(&cli->out, ", %s", gd_world_known(i));
    gd__text_add(&cli->out, " (gradus world)\n");
}

static int run_devices(gd_cli *cli, const gd_args *args)
{
    bool json = gd__args_has(args, "json");
    char text[128];
    cli->running = true;
    if (json) gd__text_add(&cli->out, "{\"devices\": [");
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    (void)snprintf(text, sizeof text, "%d thread%s on %ld core%s", gd_ctx_threads(cli->ctx),
                   gd_ctx_threads(cli->ctx) == 1 ? "" : "s", cores, cores == 1 ? "" : "s");
    add_device(&cli->out, json, "cpu", text);
    int gpus = gd_gpu_count(cli->ctx);
    for (int i = 0; i < gpus; i++) {
        char name[24];
        (void)snprintf(name, sizeof name, "gpu:%d", i);
        if (json) gd__text_add(&cli->out, ", ");
        if (!gd_gpu_describe(cli->ctx, i, text, sizeof text)) (void)snprintf(text, sizeof text, "GPU");
        add_device(&cli->out, json, name, text);
    }
    if (json)
        gd__text_add(&cli->out, "]}\n");
    else if (!gpus)
        gd__text_add(&cli->out, "no GPU: its plugin, a driver or a card is missing\n");
    if (!json) add_worlds(cli);
    return gd__cli_code(cli, cli->out.failed ? GD_NOMEM : GD_OK);
}

const gd_command gd__command_devices = {
    .name = "devices",
    .summary = "List the devices that --device can name.",
    .arguments = "",
    .description = "",
    .options = options,
    .examples = "gradus devices\ngradus devices --json\n",
    .run = run_devices,
};
