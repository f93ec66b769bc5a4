/* gradus train: a model from a table or arrays. */
#include "cli/commands/train_screen.h"
#include "cli/commands/tuning_options.h"
#include "file/output.h"
#include "plot/plot_internal.h"

#include <math.h>
#include <string.h>

#define GRACE 5 /* seconds from a signal to the end of its step */

static const gd_option options[] = {
    GD_PATH_OPTION("target", "COLUMN|FILE", GD_PATH_READ_ROWS,
                   "the target: a column of the table; for arrays, a file with as many rows"),
    GD_OPTION("task", "auto|class|regress",
              "classes or numbers (auto: classes for text, for at most 20 whole numbers that are each there "
              "in five rows and for whole-number types of arrays, else numbers)"),
    GD_OPTION("model", "linear|mlp(N, ...)|conv(N, ...)",
              "linear, mlp(64, 64, activation=tanh, dropout=0.1) or conv(16, 32, kernel=3, pool=2, dense=64) "
              "(" GD_TRAIN_MODEL ")"),
    GD_TUNING_OPTIONS(GD_TRAIN_CHAIN),
    GD_OPTION(
        "loss", "cross_entropy|squares|absolute|huber:D|quantile:Q|poisson",
        "cross_entropy; squares, absolute, huber:D, quantile:Q (of standardised numbers) or poisson (of "
        "counts) (cross_entropy for classes, squares for numbers)"),
    GD_OPTION(
        "class-weights", "balanced|CLASS=W,...",
        "weight of the rows of a class in the loss; balanced: equal total weight per class; other classes 1 (equal weights)"),
    GD_OPTION("epochs", "N",
              "passes over the data (100; 20 to 100 for more than 20,000 rows; with --time unlimited)"),
    GD_OPTION("batch", "N", "rows per step; 0: all (32)"),
    GD_OPTION("validation", "SHARE", "fraction of the rows for validation (0.1)"),
    GD_OPTION(
        "split", "random|ordered[:COLUMN]|group:COLUMN",
        "validation rows, and folds: random; ordered, the last rows by COLUMN (the only column of dates, "
        "else the order of the file), where a fold learns from earlier rows; or group, all rows of some "
        "values of COLUMN, which is no feature unless --features has it (random)"),
    GD_OPTION(
        "patience", "N",
        "stop when --stop-on has not improved for N epochs; 0: never (20; 0 with --epochs, --time or without a validation)"),
    GD_OPTION(
        "stop-on", "loss|accuracy|f1|auc|rmse|mae|r2",
        "measure of the validation, for the best epoch and --patience: loss, accuracy, f1, auc, rmse, mae or r2 (loss)"),
    GD_OPTION("time", "SECONDS", "stop after this time; --resume continues (unlimited)"),
    GD_OPTION(
        "standardise", "auto|none|each|all",
        "to mean 0 and deviation 1: each number of a row, or all alike (auto: each; all for rows with several axes)"),
    GD_OPTION("folds", "K",
              "cross-validation: train K models, each without one fold, and print mean and deviation of the "
              "measures on that fold; folds depend only on --seed"),
    GD_OPTION("seeds", "N", "train N models with different seeds; predict averages their predictions (1)"),
    GD_SWITCH(
        "importance",
        "importance of each column: the change of the measure of --stop-on (default accuracy or R2) if it is "
        "shuffled among the validation rows"),
    GD_SWITCH("find-lr", "find a learning rate for the chain in 100 steps, without training"),
    GD_OUTPUT("plot", "the loss over the learning rate of --find-lr, as .svg, .png or .pdf"),
    GD_OUTPUT("roc", "the ROC curves of the classes on the validation rows, as .svg, .png or .pdf"),
    GD_OUTPUT("calibration", "the calibration curve, accuracy over confidence, as .svg, .png or .pdf"),
    GD_SWITCH("dark", "pictures with a dark background"),
    GD_PATH_OPTION("out", "FILE", GD_PATH_WRITE_CONTINUED,
                   "the model and the state for --resume, as .safetensors"),
    GD_PATH_OPTION(
        "resume", "FILE", GD_PATH_CONTINUE,
        "continue such a file, with the same bits as without the stop; --epochs, --chain, --group and "
        "--schedule may differ; also the default of --out"),
    GD_OPTION("save-every", "SECONDS", "time between two saves of --out (60)"),
    GD_OUTPUT("trace", "one JSON object per line and epoch: step, epoch, evals, loss, val_loss, ..."),
    GD_PATH_OPTION("events", "FOLDER", GD_PATH_FOLDER, "the same numbers as an event file for TensorBoard"),
    GD_SWITCH("json", "print one JSON object"),
    GD_REPEATED("features", "COLUMNS",
                "input columns, joined by commas (all except the target and columns of row numbers)"),
    GD_REPEATED("ignore", "COLUMNS", "columns to leave out, joined by commas"),
    GD_REPEATED("text", "COLUMNS", "columns of numbers that are categories, such as postcodes"),
    GD_SWITCH("stream",
              "read the data in shuffled blocks in each epoch instead of into memory: CSV, npy, safetensors "
              "(tables of more than a sixteenth of the memory always)"),
    GD_OPTION("shape", "SIZES", "of a row, as 28,28 or 3,32,32, for conv"),
    GD_TABLE_OPTIONS,
    GD_OPTION("dtype", "f32|f64", "number type of the model (f32)"),
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of initial values, order, split and dropout (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    GD_WORLD_OPTION,
    GD_OPTION("microbatch", "ROWS",
              "rows of a batch evaluated at a time; equal microbatches give equal bits for any number of "
              "processes; 0: all (0; with several processes an eighth of the batch)"),
    GD_OPTION("shard", "none|state|gradients",
              "data of the optimizer that is sharded over processes: its state, or also gradients (none)"),
    GD_OPTION("reduce", "exact|fast",
              "sums over processes: in a fixed order, or in any order without equal bits (exact)"),
    {0},
};

typedef gd_train_screen screen;

/* ---- from options to a spec ---- */

/* Lists of a spec end with NULL. */
static gd_status read_list(const gd_args *args, const char *option, bool split, gd_words *kept,
                           const char *const **out)
{
    gd_status status = gd__words_of_option(args, option, split, kept);
    if (!status && kept->count) status = gd__words_add(args->ctx, kept, "", 0);
    if (status || !kept->count) return status;
    kept->word[kept->count - 1] = NULL;
    *out = kept->word;
    return GD_OK;
}

static gd_status read_lists(screen *s)
{
    gd_train_spec *t = &s->spec;
    const struct {
        const char *option;
        bool split;
        const char *const **out;
    } lists[GD_TRAIN_LISTS] = {{"group", false, &t->groups},
                               {"schedule", false, &t->schedules},
                               {"features", true, &t->features},
                               {"ignore", true, &t->ignore},
                               {"text", true, &t->text}};
    gd_status status = GD_OK;
    for (int i = 0; i < GD_TRAIN_LISTS && !status; i++)
        status = read_list(s->args, lists[i].option, lists[i].split, &s->list[i], lists[i].out);
    return status;
}

static gd_status read_numbers(screen *s)
{
    const gd_args *args = s->args;
    gd_train_spec *t = &s->spec;
    const int64_t most = INT64_MAX / 4;
    const struct {
        const char *option;
        int64_t low, high, *out;
    } whole[] = {{"folds", 2, 1000, &s->folds},      {"seeds", 1, 1000, &t->seeds},
                 {"batch", 0, most, &t->batch},      {"seed", 0, most, &t->seed},
                 {"epochs", 0, most, &t->epochs},    {"microbatch", 0, most, &t->microbatch},
                 {"patience", 0, most, &t->patience}};
    const struct {
        const char *option;
        double high, *out;
    } real[] = {
        {"time", 1e9, &t->time}, {"save-every", 1e9, &t->save_every}, {"validation", 0.9, &t->validation}};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof whole / sizeof *whole && !status; i++)
        status = gd__args_integer(args, whole[i].option, whole[i].low, whole[i].high, whole[i].out);
    for (size_t i = 0; i < sizeof real / sizeof *real && !status; i++)
        status = gd__args_real(args, real[i].option, 0, real[i].high, real[i].out);
    return status;
}

static gd_status read_world(screen *s)
{
    static const char *const shared[] = {"shard", "reduce"};
    int shard = 0, reduce = 0;
    gd_status status = gd__args_choice(s->args, "shard", "none state gradients", &shard);
    if (!status) status = gd__args_choice(s->args, "reduce", "exact fast", &reduce);
    s->spec.world = s->cli->world;
    s->spec.shard = (gd_shard)shard;
    s->spec.reduce = (gd_reduce)reduce;
    for (int i = 0; i < 2 && !status && !s->cli->world; i++)
        if (gd__args_has(s->args, shared[i]))
            gd_warn(s->cli->ctx, "train: --%s has no effect: this process is alone", shared[i]);
    return status;
}

static gd_status read_spec(screen *s)
{
    const gd_args *args = s->args;
    gd_train_spec *t = &s->spec;
    *t = gd_train_defaults();
    const struct {
        const char *option;
        const char **out;
    } texts[] = {{"target", &t->target},   {"task", &t->task},     {"model", &t->model},
                 {"chain", &t->chain},     {"loss", &t->loss},     {"class-weights", &t->class_weights},
                 {"split", &t->split},     {"dtype", &t->dtype},   {"standardise", &t->standardise},
                 {"stop-on", &t->stop_on}, {"out", &t->out},       {"resume", &t->resume},
                 {"trace", &t->trace},     {"events", &t->events}, {"device", &t->device}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        *texts[i].out = gd__args_get(args, texts[i].option);
    if (!t->out) t->out = t->resume;
    t->path = args->argument[0];
    t->stream = gd__args_has(args, "stream");
    t->observer = &s->observer;
    gd_status status = gd__csv_options(args, &s->csv);
    if (!status) status = gd__shape_option(args, &t->row_axes, t->row);
    if (!status) status = read_lists(s);
    if (!status) status = read_numbers(s);
    return status ? status : read_world(s);
}

/* Which options go together. */
static gd_status check_options(const screen *s)
{
    /* the first excludes all others */
    static const char *const apart[][11] = {
        {"find-lr", "out", "resume", "trace", "events", "folds", "seeds", "importance", "roc", "calibration"},
        {"folds", "out", "resume", "trace", "events", "seeds", "importance", "roc", "calibration"},
        {"seeds", "resume", "trace", "events"},
        {"features", "ignore"},
    };
    const gd_args *args = s->args;
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (int k = 1; apart[i][k] && gd__args_has(args, apart[i][0]); k++)
            if (gd__args_has(args, apart[i][k]))
                return gd_fail(args->ctx, GD_ARGUMENT, "train: --%s and --%s do not go together", apart[i][0],
                               apart[i][k]);
    static const char *const needs[][4] = {
        {"plot", "find-lr"}, {"save-every", "out", "resume"}, {"dark", "plot", "roc", "calibration"}};
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        bool met = !gd__args_has(args, needs[i][0]);
        for (int k = 1; k < 4 && needs[i][k]; k++) met = met || gd__args_has(args, needs[i][k]);
        if (!met)
            return gd_fail(args->ctx, GD_ARGUMENT, "train: --%s is for --%s, which is not given", needs[i][0],
                           needs[i][1]);
    }
    /* the rule that ends a training, if there is none */
    static const char *const of_training[] = {"epochs", "patience", "stop-on", "time"};
    for (size_t i = 0; i < sizeof of_training / sizeof *of_training; i++)
        if (gd__args_has(args, "find-lr") && gd__args_has(args, of_training[i]))
            gd_warn(args->ctx, "train: --%s has no effect with --find-lr, which trains nothing",
                    of_training[i]);
    return GD_OK;
}

/* Checks options against the data, which is known by now. */
static gd_status check_wishes(const screen *s)
{
    static const char *const pictures[] = {"plot", "roc", "calibration"};
    const gd_trainer *t = &s->job.t;
    const gd_recipe *r = &t->point.recipe;
    gd_status status = GD_OK;
    for (int i = 0; i < 3 && !status; i++) {
        const char *path = gd__args_get(s->args, pictures[i]);
        if (!path) continue;
        if (i > 0 && (r->task != GD_TASK_CLASSIFY || !t->check_rows))
            return gd_fail(t->ctx, GD_ARGUMENT, "train: --%s is for classes, with rows to validate with",
                           pictures[i]);
        status = gd_plot_check_path(t->ctx, path);
        if (!status) status = gd__check_output(t->ctx, path);
    }
    if (!status && s->job.whole_rows && r->row_axes != 1)
        status = gd_fail(t->ctx, GD_ARGUMENT, "train: --importance is for tables and rows with one axis");
    return status;
}

/* ---- running ---- */

static gd_status draw_report(const screen *s)
{
    const char *roc = gd__args_get(s->args, "roc"), *calibration = gd__args_get(s->args, "calibration");
    const gd_words *names = &s->job.t.point.recipe.classes;
    bool dark = gd__args_has(s->args, "dark");
    gd_status status = roc ? gd__report_roc(&s->job.report, names, roc, dark) : GD_OK;
    return !status && calibration ? gd__report_calibration(&s->job.report, names, calibration, dark) : status;
}

static gd_status train_one(screen *s)
{
    const gd_trainer *t = &s->job.t;
    gd__interrupt_catch(GRACE);
    gd_status status = gd__train_run(&s->job);
    if (!status) status = draw_report(s);
    if (!status) status = gd__train_print(s);
    if (status) return status;
    if (s->cli->out.failed) return GD_NOMEM;
    if (strcmp(t->stopped, "interrupted") != 0) return GD_OK;
    status = gd__cli_flush(s->cli);
    if (status) return status;
    if (s->job.seeds > 1)
        return gd_fail(t->ctx, GD_INTERRUPTED, "interrupted%s%s", t->out ? "; the models so far are in " : "",
                       t->out ? t->out : "");
    return gd_fail(t->ctx, GD_INTERRUPTED, "interrupted after %lld steps%s%s%s",
                   (long long)gd_optimizer_steps(t->optimizer),
                   t->out ? "; continue with --resume " : ", nothing saved", t->out ? t->out : "",
                   t->out ? "" : " without --out");
}

static gd_status train_folds(screen *s)
{
    gd_metrics mean = {0}, deviation = {0};
    gd_metrics *all = gd__calloc(s->cli->ctx, (size_t)s->folds * sizeof *all);
    if (!all) return GD_NOMEM;
    gd__interrupt_catch(GRACE);
    gd_status status = gd__train_folds(&s->job, all, &mean, &deviation);
    if (!status) gd__train_print_folds(s, all, &mean, &deviation);
    gd__free(s->cli->ctx, all, (size_t)s->folds * sizeof *all);
    return !status && s->cli->out.failed ? GD_NOMEM : status;
}

static gd_status find_rate(screen *s)
{
    gd_ctx *ctx = s->cli->ctx;
    gd_rates *r = gd__calloc(ctx, sizeof *r);
    const char *plot = gd__args_get(s->args, "plot");
    gd_status status = r ? gd__find_rate(&s->job.t, r) : GD_NOMEM;
    if (!status && plot) status = gd__draw_rates(ctx, r, plot, gd__args_has(s->args, "dark"));
    if (!status) gd__train_print_rates(s, r, plot);
    gd__free(ctx, r, r ? sizeof *r : 0);
    return !status && s->cli->out.failed ? GD_NOMEM : status;
}

static gd_status run_wanted(screen *s)
{
    gd_status status = s->folds ? GD_OK : check_wishes(s);
    if (status) return status;
    s->cli->running = true;
    if (s->folds) return train_folds(s);
    return gd__args_has(s->args, "find-lr") ? find_rate(s) : train_one(s);
}

static int run_train(gd_cli *cli, const gd_args *args)
{
    screen s = {.cli = cli, .args = args, .json = gd__args_has(args, "json")};
    s.observer = gd__train_observer(&s);
    gd_status status = check_options(&s);
    if (!status) status = read_spec(&s);
    if (!status) {
        gd__train_init(cli->ctx, NULL, &s.spec, &s.csv, &s.job);
        s.job.folds = s.folds;
        s.job.whole_rows = gd__args_has(args, "importance");
        gd__train_watch(&s);
        status = gd__train_open(&s.job);
        if (!status) status = run_wanted(&s);
        gd__train_close(&s.job);
    }
    for (int i = 0; i < GD_TRAIN_LISTS; i++) gd__words_free(cli->ctx, &s.list[i]);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_train = {
    .name = "train",
    .summary = "Train a model on a table or on arrays.",
    .arguments = "DATA",
    .description =
        "DATA is a CSV table, or rows as an npy, IDX or safetensors (FILE:NAME) file; gzip too. Columns of "
        "words are encoded as one number per word (more than 50 words: learnt embeddings), ISO dates and "
        "times as days since 1970 with sine and cosine of the time of year, week and day, missing cells "
        "(empty, NA, NaN) as the median with an indicator; columns of row numbers are left out. Ctrl-C, "
        "SIGTERM and SIGHUP save and end; --resume continues. A run that fails saves its state; after a step "
        "without a finite loss that is the best model. `gradus predict` uses the model; with validation rows "
        "it is that of the best epoch. Parameters are called conv0.weight, dense0.weight, dense0.bias, ..., "
        "out.weight, out.bias. Several processes of mpirun or srun share every batch by microbatches, and "
        "rank 0 writes and prints; parameters, losses and files have the same bits for any number of "
        "processes and the same microbatch, and --resume may use a different number.",
    .options = options,
    .examples =
        "gradus train examples/data/flowers.csv --target kind --model 'mlp(32)' --epochs 60 --out flowers.safetensors\n"
        "gradus train examples/data/digits-images.idx3-ubyte.gz --target examples/data/digits-labels.idx1-ubyte.gz "
        "--model 'conv(8, 16)' --chain 'clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(3e-3)'\n"
        "gradus train data.csv --resume model.safetensors --epochs 100\n"
        "gradus train examples/data/flowers.csv --target kind --folds 5\n"
        "mpirun -n 4 gradus train examples/data/flowers.csv --target kind --batch 64 --microbatch 8\n",
    .least = 1,
    .most = 1,
    .reads_from = 1,
    .run = run_train,
};
