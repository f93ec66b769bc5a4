/* gradus train: a model from a table or arrays. */
#include "cli/commands/train_modes.h"
#include "file/output.h"
#include "plot/plot.h"
#include "cli/train/explore.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const gd_option options[] = {
    GD_PATH_OPTION("target", "COLUMN|FILE", GD_PATH_READ_ROWS,
                   "what is to be predicted: a column of the table; for arrays, a file with as many rows"),
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
        "how much a row of a class counts in the loss; balanced: all classes alike; others 1 (all rows alike)"),
    GD_OPTION(
        "epochs", "N",
        "passes over the data (100, for more than 20,000 rows fewer, at least 20; with --time any number)"),
    GD_OPTION("batch", "N", "rows a step; 0: all (32)"),
    GD_OPTION("validation", "SHARE", "of the rows, kept apart to judge by (0.1)"),
    GD_OPTION(
        "split", "random|ordered[:COLUMN]|group:COLUMN",
        "which rows those are, of --folds too: random ones; the last by COLUMN (the only column of dates, else "
        "the order of the file), of which a fold learns from what is before it; or all rows of some values of "
        "COLUMN, from which nothing is learnt unless --features has it (random)"),
    GD_OPTION(
        "patience", "N",
        "stop when --stop-on has not improved for N epochs; 0: never (20; 0 with --epochs, --time or without a validation)"),
    GD_OPTION(
        "stop-on", "loss|accuracy|f1|auc|rmse|mae|r2",
        "of the validation, for the best epoch and --patience: loss, accuracy, f1, auc, rmse, mae or r2 (loss)"),
    GD_OPTION("time", "SECONDS", "stop after so long; --resume goes on (any time)"),
    GD_OPTION(
        "standardise", "auto|none|each|all",
        "to mean 0 and deviation 1: each number of a row, or all alike (auto: each; all for rows with several axes)"),
    GD_OPTION(
        "folds", "K",
        "train K models, each without one part of the rows, and print how good they are on that part: mean "
        "and deviation; the parts depend on --seed alone"),
    GD_OPTION("seeds", "N", "train N models from other seeds; predict takes the mean of what they say (1)"),
    GD_SWITCH(
        "importance",
        "by how much the measure of --stop-on (without it accuracy or R2) gets worse when a column is shuffled "
        "among the rows to validate with"),
    GD_SWITCH("find-lr", "find a learning rate for the chain in 100 steps, and train nothing"),
    GD_OUTPUT("plot", "the loss over the learning rate of --find-lr, as .svg, .png or .pdf"),
    GD_OUTPUT("roc", "the ROC curves of the classes, on the rows to validate with, as .svg, .png or .pdf"),
    GD_OUTPUT("calibration", "how often answers are right against how sure they are, as .svg, .png or .pdf"),
    GD_SWITCH("dark", "pictures on dark paper"),
    GD_PATH_OPTION("out", "FILE", GD_PATH_WRITE_CONTINUED,
                   "the model, with all that going on needs, as .safetensors"),
    GD_PATH_OPTION(
        "resume", "FILE", GD_PATH_CONTINUE,
        "go on from such a file, with the same bits as if never stopped; --epochs, --chain, --group and --schedule may "
        "be others; also the default of --out"),
    GD_OPTION("save-every", "SECONDS", "how often --out is written in between (60)"),
    GD_OUTPUT("trace", "one JSON object a line and epoch: step, epoch, evals, loss, val_loss, ..."),
    GD_PATH_OPTION("events", "FOLDER", GD_PATH_FOLDER, "the same numbers as an event file for TensorBoard"),
    GD_SWITCH("json", "print one JSON object"),
    GD_REPEATED("features", "COLUMNS",
                "to learn from, joined by commas (all but the target and columns that only number the rows)"),
    GD_REPEATED("ignore", "COLUMNS", "not to learn from, joined by commas"),
    GD_REPEATED("text", "COLUMNS", "numbers that are names, as postcodes are: taken as words"),
    GD_SWITCH(
        "stream",
        "read the data in blocks that are shuffled, every epoch anew, instead of into memory: CSV, npy, safetensors "
        "(tables of more than a sixteenth of the memory always)"),
    GD_OPTION("shape", "SIZES", "of a row, as 28,28 or 3,32,32, for conv"),
    GD_TABLE_OPTIONS,
    GD_OPTION("dtype", "f32|f64", "number type of the model (f32)"),
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of initial values, order, split and dropout (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    GD_WORLD_OPTION,
    GD_OPTION(
        "microbatch", "ROWS",
        "rows of a batch that are evaluated at a time; equal microbatches give equal bits with any number of processes; 0: "
        "all (0; with several processes an eighth of the batch)"),
    GD_OPTION("shard", "none|state|gradients",
              "what of the optimizer each process keeps a part of only: its state, gradients too (none)"),
    GD_OPTION("reduce", "exact|fast",
              "sums over processes: in one order, or in any, which promises nothing about bits (exact)"),
    {0},
};

typedef gd_train_job job;

/* ---- results ---- */

gd_status gd__train_take_best(job *j)
{
    gd_trainer *t = &j->t;
    return t->point.best ? gd__checkpoint_take_best(&t->point) : gd_optimizer_evaluate(t->optimizer, true);
}

static gd_status measure_end(job *j)
{
    gd_trainer *t = &j->t;
    gd_status status = j->seeds > 1 ? GD_OK : gd__train_take_best(j);
    if (!status) status = gd__measure(&t->point, t->x, t->y, &j->trained);
    if (status || !t->check_x) return status;
    status = gd__measure(&t->point, t->check_x, t->check_y, &t->checked);
    if (status || t->point.recipe.task != GD_TASK_CLASSIFY) return status;
    status = gd__report_make(&t->point, t->check_x, t->check_y, &j->report);
    t->checked.f1 = j->report.mean_f1;
    t->checked.auc = j->report.mean_auc;
    return status;
}

static gd_status draw_report(job *j)
{
    const char *roc = gd__args_get(j->args, "roc"), *calibration = gd__args_get(j->args, "calibration");
    const gd_words *names = &j->t.point.recipe.classes;
    bool dark = gd__args_has(j->args, "dark");
    gd_status status = roc ? gd__report_roc(&j->report, names, roc, dark) : GD_OK;
    return !status && calibration ? gd__report_calibration(&j->report, names, calibration, dark) : status;
}

/* ---- importance ---- */

static int features_of(const gd_recipe *r) { return r->columns.count ? r->columns.count : (int)r->row[0]; }

static const char *feature_name(const gd_recipe *r, int feature, char out[24])
{
    if (r->features.count) return r->features.word[feature];
    (void)snprintf(out, 24, "c%d", feature + 1);
    return out;
}

/* The measure of --stop-on; without it accuracy of classes, R2 of numbers. */
static const gd_metric *importance_metric(const job *j)
{
    const gd_recipe *r = &j->t.point.recipe;
    bool given = gd__args_has(j->args, "stop-on") || strcmp(r->stop_on, "loss") != 0;
    return gd__metric_find(given ? r->stop_on : r->task == GD_TASK_CLASSIFY ? "accuracy" : "r2");
}

static void print_importance(gd_text *out, const gd_recipe *r, const gd_metric *by, const gd_importance *all,
                             int count)
{
    bool r2 = !strcmp(by->name, "r2");
    gd__text_put(out, "%s %s when a column is shuffled among the rows:\n", r2 ? "R2" : by->name,
                 by->more ? "lost" : "gained");
    for (int i = 0; i < count; i++) {
        char number[24];
        const char *name = feature_name(r, all[i].feature, number);
        gd__text_put(out, "  %8.4f +- %.4f  ", all[i].mean, all[i].deviation);
        gd__text_plain(out, name, strlen(name), false);
        gd__text_char(out, '\n');
    }
}

static void json_importance(gd_text *out, const gd_recipe *r, const gd_metric *by, const gd_importance *all,
                            int count)
{
    gd__json_put_string(out, "importance_of", by->name);
    gd__text_add(out, ", \"importance\": [");
    for (int i = 0; i < count; i++) {
        char number[24];
        gd__text_add(out, i ? ", {" : "{");
        gd__json_put_string(out, "column", feature_name(r, all[i].feature, number));
        gd__json_put_number(out, "mean", all[i].mean);
        gd__json_put_number(out, "deviation", all[i].deviation);
        gd__text_char(out, '}');
    }
    gd__text_char(out, ']');
}

/* Appends what it finds: the text for people, or a member of the JSON object. */
static gd_status add_importance(job *j, gd_text *out, bool json)
{
    const gd_recipe *r = &j->t.point.recipe;
    int count = features_of(r);
    size_t bytes = (size_t)count * sizeof(gd_importance);
    gd_importance *all = gd__calloc(j->t.ctx, bytes);
    const gd_metric *by = importance_metric(j);
    gd_status status = all ? gd__importance(&j->t, by, all, count) : GD_NOMEM;
    if (!status) (json ? json_importance : print_importance)(out, r, by, all, count);
    gd__free(j->t.ctx, all, all ? bytes : 0);
    return status;
}

/* ---- for people and programs ---- */

static void print_metrics(gd_text *out, gd_task task, const char *where, const gd_metrics *m)
{
    gd__text_put(out, "%s: ", where);
    gd__metrics_print(out, task, m);
}

static gd_status print_text(job *j)
{
    gd_trainer *t = &j->t;
    gd_text *out = &t->cli->out;
    const gd_recipe *r = &t->point.recipe;
    const gd_progress_state *p = &t->point.progress;
    if (t->check_x && p->best_epoch) gd__text_put(out, "best epoch %lld\n", (long long)p->best_epoch);
    print_metrics(out, r->task, "training", &j->trained);
    if (t->check_x) print_metrics(out, r->task, "validation", &t->checked);
    if (j->report.p) gd__report_print(out, &j->report, &r->classes);
    gd_status status = gd__args_has(j->args, "importance") ? add_importance(j, out, false) : GD_OK;
    gd__text_put(out, "%lld epochs, %lld steps, %.3g s, %.0f rows/s", (long long)p->epoch,
                 (long long)gd_optimizer_steps(t->optimizer), t->seconds,
                 t->seconds > 0 ? (double)t->trained_rows / t->seconds : 0);
    if (strcmp(t->stopped, "epochs") != 0) gd__text_put(out, " (%s)", t->stopped);
    gd__text_char(out, '\n');
    if (t->out) gd__text_put(out, "%s\n", t->out);
    return status;
}

static void json_metrics(gd_text *out, const char *where, const gd_metrics *m, const gd_report *report,
                         const gd_words *classes)
{
    gd__json_key(out, where);
    gd__text_char(out, '{');
    gd__json_metrics(out, m);
    if (report) gd__json_report(out, report, classes);
    gd__text_char(out, '}');
}

static gd_status print_json(job *j)
{
    gd_trainer *t = &j->t;
    gd_text *out = &t->cli->out;
    const gd_recipe *r = &t->point.recipe;
    const struct {
        const char *key;
        int64_t value;
    } numbers[] = {{"parameters", gd__model_parameters(&t->point.model)},
                   {"rows", t->rows},
                   {"validation_rows", t->check_rows},
                   {"epochs", t->point.progress.epoch},
                   {"best_epoch", t->point.progress.best_epoch},
                   {"steps", gd_optimizer_steps(t->optimizer)},
                   {"evals", gd_optimizer_evals(t->optimizer)},
                   {"seeds", r->seeds},
                   {"microbatch", r->microbatch},
                   {"processes", t->point.world ? gd_world_size(t->point.world) : 1}};
    gd__text_char(out, '{');
    gd__json_put_string(out, "task", gd__task_name(r->task));
    gd__json_put_string(out, "model", r->model);
    gd__json_put_string(out, "chain", r->chain);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gd__json_put_whole(out, numbers[i].key, numbers[i].value);
    json_metrics(out, "training", &j->trained, NULL, NULL);
    if (t->check_x)
        json_metrics(out, "validation", &t->checked, j->report.p ? &j->report : NULL, &r->classes);
    gd_status status = gd__args_has(j->args, "importance") ? add_importance(j, out, true) : GD_OK;
    gd__json_key(out, "classes");
    gd__words_print(out, &r->classes);
    gd__json_key(out, "features");
    gd__words_print(out, &r->features);
    gd__json_key(out, "ids");
    gd__words_print(out, &j->data.ids);
    gd__json_key(out, "changed");
    gd__words_print(out, &j->changed);
    gd__json_put_string(out, "split", r->split);
    gd__json_put_string(out, "stopped", t->stopped);
    gd__json_put_number(out, "seconds", t->seconds);
    gd__text_add(out, "}\n");
    return status;
}

/* One line for each column that is no plain number, and one for those left out. */
static void describe_columns(gd_text *out, const gd_dataset *d, const gd_recipe *r)
{
    for (int i = 0; i < r->columns.count; i++) {
        const gd_column *c = &r->columns.column[i];
        if (c->kind == GD_COLUMN_NUMBER && !c->missing) continue;
        gd__text_add(out, "  ");
        gd__text_plain(out, r->features.word[i], strlen(r->features.word[i]), false);
        gd__column_describe(out, c);
        gd__text_char(out, '\n');
    }
    for (int i = 0; i < d->ids.count; i++) {
        gd__text_add(out, "  ");
        gd__text_plain(out, d->ids.word[i], strlen(d->ids.word[i]), false);
        gd__text_add(out, ": left out, it only numbers the rows (--features takes it)\n");
    }
}

/* Who computes, and how a batch is cut. */
static void introduce_world(gd_text *out, const gd_trainer *t)
{
    const gd_world *w = t->point.world;
    const gd_recipe *r = &t->point.recipe;
    long long microbatch = (long long)r->microbatch;
    int size = w ? gd_world_size(w) : 1;
    int64_t batch = r->batch && r->batch < t->rows ? r->batch : t->rows;
    int64_t microbatches = microbatch && batch ? (batch - 1) / microbatch + 1 : size;
    if (w) gd__text_put(out, "%d process%s (%s); ", size, size == 1 ? "" : "es", gd_world_about(w));
    if (microbatch) gd__text_put(out, "microbatches of %lld row%s", microbatch, microbatch == 1 ? "" : "s");
    if (microbatch && microbatches < size)
        gd__text_put(out, ", %lld in a batch: %lld of %d processes without work", (long long)microbatches,
                     (long long)(size - microbatches), size);
    if (microbatch) gd__text_char(out, '\n');
    if (w && !microbatch) gd__text_add(out, "each computes all of a batch: --microbatch shares it\n");
}

/* Rows to validate with that are no random ones. */
static void introduce_split(gd_text *out, const job *j)
{
    const char *column = j->split.column;
    if (j->split.kind == GD_SPLIT_RANDOM) return;
    bool group = j->split.kind == GD_SPLIT_GROUP;
    gd__text_add(out, group    ? "  all rows with the same "
                      : column ? "  validated by the last rows in the order of "
                               : "  validated by the last rows of the file");
    if (column) gd__text_plain(out, column, strlen(column), false);
    gd__text_add(out, group ? " are on one side of the validation\n" : "\n");
}

/* In front of the lines about epochs. */
void gd__train_introduce(job *j)
{
    gd_trainer *t = &j->t;
    gd_text *out = &t->cli->out;
    const gd_recipe *r = &t->point.recipe;
    if (gd__args_has(j->args, "json")) return;
    if (r->task == GD_TASK_CLASSIFY) gd__text_put(out, "%d classes of ", r->classes.count);
    gd__text_plain(out, r->target, strlen(r->target) < 60 ? strlen(r->target) : 60, false);
    gd__text_add(out, j->data.guessed ? " (--task regress if they are quantities) from rows of "
                                      : " from rows of ");
    for (int i = 0; i < r->row_axes; i++) gd__text_put(out, "%s%lld", i ? " x " : "", (long long)r->row[i]);
    gd__text_put(out, "; %lld rows to learn from, %lld to validate\n", (long long)t->rows,
                 (long long)t->check_rows);
    introduce_split(out, j);
    if (j->stream)
        gd__text_put(out, "  read in %lld blocks; columns and scales are those of %lld rows\n",
                     (long long)gd__train_stream_blocks(j), (long long)j->data.rows);
    describe_columns(out, &j->data, r);
    gd__text_put(out, "%s with %lld parameters; %s\n", r->model,
                 (long long)gd__model_parameters(&t->point.model), r->chain);
    introduce_world(out, t);
    for (int i = 0; i < j->changed.count; i++) {
        gd__text_plain(out, j->changed.word[i], strlen(j->changed.word[i]), false);
        gd__text_char(out, '\n');
    }
}

static gd_status finish_train(job *j)
{
    gd_trainer *t = &j->t;
    gd_status closed = gd__run_writer_close(t->tracer), status = gd__events_close(t->events);
    t->tracer = NULL;
    t->events = NULL;
    if (closed || status) return closed ? closed : status;
    status = measure_end(j);
    if (status) return status;
    status = draw_report(j);
    if (!status) status = (gd__args_has(j->args, "json") ? print_json : print_text)(j);
    if (status) return status;
    if (t->cli->out.failed) return GD_NOMEM;
    if (strcmp(t->stopped, "interrupted") != 0) return GD_OK;
    status = gd__cli_flush(t->cli);
    if (status) return status;
    if (j->seeds > 1)
        return gd_fail(t->ctx, GD_INTERRUPTED, "interrupted%s%s", t->out ? "; the models so far are in " : "",
                       t->out ? t->out : "");
    return gd_fail(t->ctx, GD_INTERRUPTED, "interrupted after %lld steps%s%s%s",
                   (long long)gd_optimizer_steps(t->optimizer),
                   t->out ? "; go on with --resume " : ", nothing saved", t->out ? t->out : "",
                   t->out ? "" : " without --out");
}

/* What an option wants of data that is known by now. */
static gd_status check_wishes(job *j)
{
    static const char *const pictures[] = {"plot", "roc", "calibration"};
    const gd_recipe *r = &j->t.point.recipe;
    gd_status status = GD_OK;
    for (int i = 0; i < 3 && !status; i++) {
        const char *path = gd__args_get(j->args, pictures[i]);
        if (!path) continue;
        if (i > 0 && (r->task != GD_TASK_CLASSIFY || !j->t.check_rows))
            return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --%s is for classes, with rows to validate with",
                           pictures[i]);
        status = gd_plot_check_path(j->t.ctx, path);
        if (!status) status = gd__check_output(j->t.ctx, path);
    }
    if (!status && gd__args_has(j->args, "importance") && r->row_axes != 1)
        status = gd_fail(j->t.ctx, GD_ARGUMENT, "train: --importance is for tables and rows with one axis");
    return status;
}

static gd_status run_one(job *j)
{
    gd_status status = check_wishes(j);
    if (status) return status;
    j->t.cli->running = true;
    if (gd__args_has(j->args, "find-lr")) return gd__train_find_rate(j);
    gd__train_introduce(j);
    status = j->seeds > 1 ? gd__train_seeds(j) : gd__trainer_run(&j->t);
    return status ? status : finish_train(j);
}

static int run_train(gd_cli *cli, const gd_args *args)
{
    job j = {.args = args,
             .t = {.cli = cli, .ctx = cli->ctx, .point = {.ctx = cli->ctx, .world = cli->world}},
             .report = {.ctx = cli->ctx},
             .seeds = 1,
             .data = {.ctx = cli->ctx}};
    gd_status status = gd__train_check_options(&j);
    if (!status) status = gd__train_open(&j);
    if (!status && j.folds) {
        cli->running = true;
        status = gd__train_folds(&j);
    } else if (!status) {
        status = run_one(&j);
    }
    gd__train_close(&j);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_train = {
    .name = "train",
    .summary = "Train a model on a table or on arrays.",
    .arguments = "DATA",
    .description =
        "DATA is a CSV table, or rows as an npy, IDX or safetensors (FILE:NAME) file; gzip too. Columns of words become one "
        "number a word (more than 50 words: numbers that are learnt), ISO dates and times days since 1970 with sine and cosine of "
        "the part of the year, the week and the day; missing cells (empty, NA, NaN) the median, with a number that marks them; "
        "columns that only number the rows are left out. Ctrl-C, SIGTERM and SIGHUP "
        "save and end; --resume goes on. A run that fails saves what it has; after a step without a finite loss that "
        "is the best model. `gradus predict` uses the model; with a validation it is that of the best epoch. Parameters "
        "are called conv0.weight, dense0.weight, dense0.bias, ..., out.weight, out.bias. Started by mpirun or srun as several processes, "
        "these share every batch by microbatches, the first one writes and tells; parameters, losses and files have the same bits with any "
        "number of processes and the same microbatch, and --resume may have another number.",
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
