/* gradus explain: the passes of a chain's step. */
#include "cli/cli.h"
#include "cli/table_options.h"
#include "table/value.h"
#include "gradus/autograd.h"
#include "gradus/optim.h"

static const gd_option options[] = {
    GD_PATH_OPTION("size", "VALUE", GD_PATH_READ_VALUE,
                   "a parameter to explain it for, as zeros(20000,1000) (zeros(1000,1000))"),
    GD_OPTION("dtype", "f32|f64", "its number type (f32)"),
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_TABLE_OPTIONS,
    GD_PLUGIN_OPTION,
    GD_SWITCH("source", "also the source of the fused programs"),
    {0},
};

/* gd_explain as one text. */
static gd_status explain(gd_cli *cli, gd_optimizer *optimizer, bool source)
{
    int need = gd_explain(optimizer, source, NULL, 0);
    if (need < 0) return gd_error(cli->ctx) ? gd_error(cli->ctx) : GD_INTERNAL;
    size_t bytes = (size_t)need + 1;
    char *text = gd__alloc(cli->ctx, bytes);
    if (!text) return GD_NOMEM;
    bool filled = gd_explain(optimizer, source, text, bytes) == need;
    if (filled) gd__text_add(&cli->out, text);
    if (filled && need && text[need - 1] != '\n') gd__text_char(&cli->out, '\n');
    gd__free(cli->ctx, text, bytes);
    return !filled || cli->out.failed ? GD_NOMEM : GD_OK;
}

static gd_tensor *make_param(gd_cli *cli, const gd_args *args)
{
    int dtype = 0;
    const char *size = gd__args_get(args, "size"), *name = gd__args_get(args, "device");
    if (gd__args_choice(args, "dtype", "f32 f64", &dtype)) return NULL;
    gd_device *device = gd_device_get(cli->ctx, name ? name : "cpu");
    gd_value_tables tables = {.used = false};
    if (!device || gd__csv_options(args, &tables.csv)) return NULL;
    gd_tensor *t = gd__value_parse(cli->ctx, "--size", size ? size : "zeros(1000,1000)",
                                   dtype ? GD_F64 : GD_F32, &tables);
    if (t && gd__csv_options_used(args, tables.used)) return NULL;
    return t ? gd_require_grad(gd_to_device(t, device)) : NULL;
}

static int run_explain(gd_cli *cli, const gd_args *args)
{
    gd_scope_begin(cli->ctx);
    gd_link *chain = gd_chain(cli->ctx, args->argument[0]);
    gd_tensor *param = chain ? make_param(cli, args) : NULL;
    gd_optimizer *optimizer = NULL;
    if (param)
        optimizer = gd_optimizer_new(cli->ctx, chain);
    else
        gd_link_release(chain);
    gd_status status = optimizer ? gd_optimizer_add(optimizer, "p", param) : gd_error(cli->ctx);
    if (!status) status = explain(cli, optimizer, gd__args_has(args, "source"));
    gd_optimizer_free(optimizer);
    gd_scope_end(cli->ctx);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_explain = {
    .name = "explain",
    .summary = "Show how a chain runs: passes over memory, bytes per parameter and step, state, source.",
    .arguments = "CHAIN",
    .description = "",
    .options = options,
    .examples =
        "gradus explain 'clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(1e-3)'\ngradus explain 'adam | lr(0.1)' --source\n",
    .least = 1,
    .most = 1,
    .run = run_explain,
};
