/* gradus plot: pictures of runs. */
#include "cli/cli.h"
#include "file/output.h"
#include "cli/problem_options.h"
#include "expr/expr_advice.h"
#include "plot/plot_internal.h"
#include "file/run_log.h"
#include "cli/table_options.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const gd_option options[] = {
    GD_OUTPUT("out", "the picture, " GD_PICTURES " (the name of the first trace, with .svg)"),
    GD_OPTION("expr", "EXPR", "draw the path of two parameters over contours of this expression"),
    GD_SWITCH("path", "draw the path of two parameters, without contours"),
    GD_REPEATED("y", "KEY",
                "keys of the trace to draw, such as val_loss or val_accuracy, one curve each (loss)"),
    GD_OPTION("x", "step|evals|epoch", "the x axis (step)"),
    GD_OPTION("scale", "auto|log|linear",
              "of the drawn numbers (auto: logarithmic if they span more than two powers of ten)"),
    GD_REPEATED("label", "TEXT",
                "name of a run in the legend, in the order of the traces (their file names)"),
    GD_OPTION("title", "TEXT", "above the picture"),
    GD_DARK_OPTION,
    GD_DATA_OPTIONS,
    {0},
};

typedef struct job {
    gd_cli *cli;
    const gd_args *args;
    gd_run_log *trace; /* file after file, for each key */
    int count, files;
    gd_words keys;
    char out[4096];
    int x, scale;
    bool plane;
} job;

/* ---- names ---- */

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* The --label of a file, or its name without its ending; if several are drawn, with the key. */
static const char *label_of(const job *j, int k, char buf[128])
{
    int at = 0, file = k % j->files;
    const char *label = NULL, *name = base_name(j->args->argument[file]);
    for (int i = 0; i <= file; i++) label = gd__args_next(j->args, "label", &at);
    size_t length = strlen(name);
    if (length > 6 && !strcmp(name + length - 6, ".jsonl")) length -= 6;
    if (label) name = label, length = strlen(label);
    (void)snprintf(buf, 128, "%.*s%s%.30s", length > 90 ? 90 : (int)length, name,
                   j->keys.count > 1 ? ": " : "", j->keys.count > 1 ? j->keys.word[k / j->files] : "");
    return buf;
}

static gd_status choose_output(job *j)
{
    const char *out = gd__args_get(j->args, "out"), *first = j->args->argument[0];
    size_t length = strlen(first);
    if (length > 6 && !strcmp(first + length - 6, ".jsonl")) length -= 6;
    int need = out ? snprintf(j->out, sizeof j->out, "%s", out)
                   : snprintf(j->out, sizeof j->out, "%.*s.svg", (int)length,
                              !strcmp(first, "-") ? "trace" : first);
    if (need < 0 || (size_t)need >= sizeof j->out)
        return gd_fail(j->cli->ctx, GD_ARGUMENT, "plot: a path of %d bytes", need);
    gd_status status = gd_plot_check_path(j->cli->ctx, j->out);
    if (!status) status = gd__paths_check_output(j->args, j->out);
    return status ? status : gd__check_output(j->cli->ctx, j->out);
}

/* ---- loss curves ---- */

static bool spans_decades(const job *j)
{
    double low = INFINITY, high = 0;
    bool yes = false;
    for (int k = 0; k < j->count; k++)
        yes = gd__spans_decades(j->trace[k].loss, j->trace[k].count, &low, &high);
    return yes;
}

static void loss_curves(job *j, gd_plot *plot)
{
    gd_plot_log(plot, false, j->scale == 1 || (j->scale == 0 && spans_decades(j)));
    for (int k = 0; k < j->count; k++) {
        const gd_run_log *t = &j->trace[k];
        char buf[128];
        bool few = t->count == 1;
        const double *x[] = {t->step, t->evals, t->epoch};
        (few ? gd_plot_points : gd_plot_line)(plot, label_of(j, k, buf), x[j->x], t->loss, t->count);
    }
}

/* ---- paths ---- */

/* The parameters that the two numbers of a trace belong to, as NAME=VALUE: "p=[0,0]", or "x=0" and "y=0". */
static gd_status plane_params(const job *j, char spec[2][120], int *count)
{
    const gd_run_log *t = &j->trace[0];
    size_t length[2];
    int depth[2] = {0, 0};
    for (int k = 0; k < 2; k++) {
        length[k] = strcspn(t->axis[k], "[");
        for (const char *s = t->axis[k]; *s; s++) depth[k] += *s == '[';
        if (depth[k] > 1)
            return gd_fail(j->cli->ctx, GD_ARGUMENT, "plot: %s: only vectors and scalars can be drawn",
                           t->axis[k]);
    }
    bool one = length[0] == length[1] && !strncmp(t->axis[0], t->axis[1], length[0]);
    *count = one ? 1 : 2;
    for (int k = 0; k < *count; k++)
        (void)snprintf(spec[k], 120, "%.*s=%s", (int)length[k], t->axis[k],
                       one        ? "[0,0]"
                       : depth[k] ? "[0]"
                                  : "0");
    return GD_OK;
}

static gd_status contours(job *j, gd_plot *plot, const double box[4])
{
    char spec[2][120];
    int count = 0;
    gd_status status = plane_params(j, spec, &count);
    if (status) return status;
    gd_problem_arguments a;
    status = gd__problem_arguments_read(&a, j->args, gd__args_get(j->args, "expr"));
    for (int k = 0; k < count && !status; k++)
        status = gd__words_add(j->cli->ctx, &a.list[GD_LIST_PARAM], spec[k], strlen(spec[k]));
    if (!status) status = gd__problem_arguments_open(&a);
    if (!status) status = gd__problem_check_names(&a.problem);
    if (!status)
        status = gd__expr_refuse_truth(j->cli->ctx, "expr", a.problem.expr,
                                       "the value is true or false, which has no contours");
    if (!status) status = gd__problem_contours(&a.problem, plot, box);
    gd__problem_arguments_close(&a);
    return status;
}

/* The box around all traces. */
static void common_box(const job *j, double box[4])
{
    gd__plane_box(j->trace[0].x, j->trace[0].y, j->trace[0].count, box);
    for (int k = 1; k < j->count; k++) {
        double next[4];
        gd__plane_box(j->trace[k].x, j->trace[k].y, j->trace[k].count, next);
        box[0] = fmin(box[0], next[0]), box[1] = fmax(box[1], next[1]);
        box[2] = fmin(box[2], next[2]), box[3] = fmax(box[3], next[3]);
    }
}

static gd_status check_plane(const job *j)
{
    for (int k = 0; k < j->count; k++) {
        if (!j->trace[k].x)
            return gd_fail(j->cli->ctx, GD_FORMAT, "%s: a path wants two numbers as parameters in every line",
                           j->args->argument[k]);
        if (strcmp(j->trace[k].axis[0], j->trace[0].axis[0]) != 0 ||
            strcmp(j->trace[k].axis[1], j->trace[0].axis[1]) != 0)
            return gd_fail(j->cli->ctx, GD_FORMAT, "%s: other parameters than in %s", j->args->argument[k],
                           j->args->argument[0]);
    }
    return GD_OK;
}

static gd_status paths(job *j, gd_plot *plot)
{
    double box[4];
    common_box(j, box);
    gd_plot_limits(plot, box[0], box[1], box[2], box[3]);
    gd_status status = gd__args_has(j->args, "expr") ? contours(j, plot, box) : GD_OK;
    for (int k = 0; k < j->count && !status; k++) {
        char buf[128];
        gd_plot_path(plot, label_of(j, k, buf), j->trace[k].x, j->trace[k].y, j->trace[k].count);
    }
    return status;
}

/* ---- the command ---- */

static gd_status draw(job *j)
{
    const char *title = gd__args_get(j->args, "title"), *expr = gd__args_get(j->args, "expr");
    gd_status status = j->plane ? check_plane(j) : GD_OK;
    if (status) return status;
    static const char *const over[] = {"step", "evaluations", "epoch"};
    const char *x = j->plane ? j->trace[0].axis[0] : over[j->x];
    const char *y = j->keys.count > 1 ? "value" : j->keys.word[0];
    gd_plot *plot = gd_plot_new(j->cli->ctx,
                                title  ? title
                                : expr ? expr
                                       : "",
                                x, j->plane ? j->trace[0].axis[1] : y);
    if (!plot) return GD_NOMEM;
    if (j->plane)
        status = paths(j, plot);
    else
        loss_curves(j, plot);
    if (!status) status = gd_plot_save(plot, j->out, gd__args_has(j->args, "dark"));
    gd_plot_free(plot);
    if (!status) gd__text_put(&j->cli->out, "%s\n", j->out);
    return !status && j->cli->out.failed ? GD_NOMEM : status;
}

static gd_status prepare_plot(job *j)
{
    gd_ctx *ctx = j->cli->ctx;
    gd_status status = gd__args_choice(j->args, "x", "step evals epoch", &j->x);
    if (!status) status = gd__args_choice(j->args, "scale", "auto log linear", &j->scale);
    j->plane = gd__args_has(j->args, "expr") || gd__args_has(j->args, "path");
    if (!status) status = gd__words_of_option(j->args, "y", true, &j->keys);
    if (!status && j->plane && j->keys.count)
        status = gd_fail(ctx, GD_ARGUMENT, "plot: --y is for curves, not for paths");
    if (!status && !j->keys.count) status = gd__words_add(ctx, &j->keys, "loss", 4);
    j->files = j->args->arguments;
    j->count = j->files * j->keys.count;
    for (int i = 0; i < j->files && !status && j->keys.count > 1; i++)
        if (!strcmp(j->args->argument[i], "-"))
            status = gd_fail(ctx, GD_ARGUMENT, "plot: standard input can be read for one --y only");
    return status ? status : choose_output(j);
}

static int run_plot(gd_cli *cli, const gd_args *args)
{
    job j = {.cli = cli, .args = args};
    gd_status status = prepare_plot(&j);
    size_t bytes = (size_t)j.count * sizeof *j.trace;
    int read = 0;
    const gd_input input = {.observer = args->observer, .standard = true};
    if (!status && !(j.trace = gd__alloc(cli->ctx, bytes))) status = GD_NOMEM;
    for (; read < j.count && !status; read++)
        status = gd__run_log_load(cli->ctx, args->argument[read % j.files], &input,
                                  j.keys.word[read / j.files], &j.trace[read]);
    if (!status) status = draw(&j);
    for (int k = 0; k < read; k++) gd__run_log_free(&j.trace[k]);
    gd__free(cli->ctx, j.trace, bytes);
    gd__words_free(cli->ctx, &j.keys);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_plot = {
    .name = "plot",
    .summary = "Draw the loss curves of runs, or the path of two parameters.",
    .arguments = "TRACE.jsonl...",
    .description =
        "A trace is written by `gradus minimize` and `gradus train` with --trace: one JSON object per line "
        "with step, loss and more. Prints the name of the picture.",
    .options = options,
    .examples = "gradus plot adam.jsonl lbfgs.jsonl --out loss.svg\n"
                "gradus plot train.jsonl --y loss,val_loss --x epoch\n"
                "gradus plot run.jsonl --expr '(1-p[0])^2 + 100*(p[1]-p[0]^2)^2' --out path.png\n",
    .least = 1,
    .most = 64,
    .reads_from = 1,
    .run = run_plot,
};
