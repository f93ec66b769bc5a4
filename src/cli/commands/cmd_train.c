/* gradus train: a model from a table or arrays. */
#include "base/number.h"
#include "cli/files.h"
#include "cli/train/trainer.h"
#include "cli/commands/tuning.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_CHAIN "adam | lr(1e-3)"
#define DEFAULT_MODEL "mlp(64, 64)"

static const gd_option options[] = {
    GD_PATH_OPTION("target", "COLUMN|FILE", GD_PATH_READ_ROWS,
                   "what is to be predicted: a column of the table; for arrays, a file with as many rows"),
    GD_OPTION("task", "auto|class|regress",
              "classes or numbers (auto: classes for text, for at most 20 whole numbers that are each there "
              "in five rows and for whole-number types of arrays, else numbers)"),
    GD_OPTION("model", "MODEL",
              "linear, mlp(64, 64, activation=tanh, dropout=0.1) or conv(16, 32, kernel=3, pool=2, dense=64) "
              "(" DEFAULT_MODEL ")"),
    GD_TUNING_OPTIONS(DEFAULT_CHAIN),
    GD_OPTION(
        "loss", "LOSS",
        "cross_entropy; squares, absolute, huber:D, quantile:Q (of standardised numbers) or poisson (of "
        "counts) (cross_entropy for classes, squares for numbers)"),
    GD_OPTION(
        "class-weights", "balanced|CLASS=W,...",
        "how much a row of a class counts in the loss; balanced: all classes alike; others 1 (all rows alike)"),
    GD_OPTION("epochs", "N", "passes over the data (20)"),
    GD_OPTION("batch", "N", "rows a step; 0: all (32)"),
    GD_OPTION("validation", "SHARE", "of the rows, kept apart to judge by (0.1)"),
    GD_OPTION("patience", "N", "stop when --stop-on has not improved for N epochs; 0: never (0)"),
    GD_OPTION(
        "stop-on", "METRIC",
        "of the validation, for the best epoch and --patience: loss, accuracy, f1, auc, rmse, mae or r2 (loss)"),
    GD_OPTION("time", "SECONDS", "stop after so long; --resume goes on (any time)"),
    GD_OPTION(
        "standardise", "auto|none|each|all",
        "to mean 0 and deviation 1: each number of a row, or all alike (auto: each; all for rows with several axes)"),
    GD_PATH_OPTION("out", "FILE", GD_PATH_WRITE_CONTINUED,
                   "the model, with all that going on needs, as .safetensors"),
    GD_PATH_OPTION(
        "resume", "FILE", GD_PATH_CONTINUE,
        "go on from such a file, with the same bits as if never stopped; also the default of --out"),
    GD_OPTION("save-every", "SECONDS", "how often --out is written in between (60)"),
    GD_OUTPUT("trace", "one JSON object a line and epoch: step, epoch, evals, loss, val_loss, ..."),
    GD_PATH_OPTION("events", "FOLDER", GD_PATH_FOLDER, "the same numbers as an event file for TensorBoard"),
    GD_SWITCH("json", "print one JSON object"),
    GD_REPEATED("features", "COLUMNS",
                "to learn from, joined by commas (all but the target and columns that only number the rows)"),
    GD_REPEATED("ignore", "COLUMNS", "not to learn from, joined by commas"),
    GD_REPEATED("text", "COLUMNS", "numbers that are names, as postcodes are: taken as words"),
    GD_OPTION("shape", "SIZES", "of a row, as 28,28 or 3,32,32, for conv"),
    GD_TABLE_OPTIONS,
    GD_OPTION("dtype", "f32|f64", "number type of the model (f32)"),
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("seed", "N", "of initial values, order, split and dropout (0)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    {0},
};

typedef struct job {
    gd_trainer t;
    const gd_args *args;
    const char *resume;
    gd_archive *archive; /* of --resume */
    gd_dataset data;
    int64_t *order; /* its rows: those to validate with, then those to learn from */
    size_t order_bytes;
    gd_metrics trained; /* of the model in the end, on what it learnt from */
} job;

/* ---- the recipe: options, or the checkpoint where they are not given ---- */

/* has: what the checkpoint was made with, given: the option. */
static gd_status differs(const job *j, const char *option, const char *has, const char *given)
{
    return gd_fail(j->t.ctx, GD_ARGUMENT,
                   "train: --%s is '%.200s', %s was made with '%.200s'; leave it out, or train anew without "
                   "--resume",
                   option, given, j->resume, has);
}

static gd_status number_differs(const job *j, const char *option, double has)
{
    char text[40];
    gd__format(text, sizeof text, "%.15g", has);
    return differs(j, option, text, gd__args_get(j->args, option));
}

static gd_status words_differ(const job *j, const char *option, const gd_words *has, const gd_words *given)
{
    gd_text there = gd__text(j->t.ctx), here = gd__text(j->t.ctx);
    gd__words_print(&there, has);
    gd__words_print(&here, given);
    gd_status status = there.failed || here.failed ? GD_NOMEM : differs(j, option, there.data, here.data);
    gd__text_free(&there);
    gd__text_free(&here);
    return status;
}

/* Do two texts of an option say the same?  One that cannot be read fails as when it is used. */
static gd_status compare_texts(job *j, gd_print_option print, const char *a, const char *b, bool *same)
{
    gd_text one = gd__text(j->t.ctx), other = gd__text(j->t.ctx);
    gd_status status = print(j->t.ctx, a, &one);
    if (!status) status = print(j->t.ctx, b, &other);
    *same = !status && !strcmp(gd__text_string(&one), gd__text_string(&other));
    gd__text_free(&one);
    gd__text_free(&other);
    return status;
}

static gd_status set_chain(job *j)
{
    const char **chain = &j->t.point.recipe.chain, *given = gd__args_get(j->args, "chain");
    bool same = true;
    if (j->resume) {
        gd_status status = given ? compare_texts(j, gd__tune_print_chain, *chain, given, &same) : GD_OK;
        return status || same ? status : differs(j, "chain", *chain, given);
    }
    if (!given) given = DEFAULT_CHAIN;
    *chain = gd__intern(j->t.ctx, given, strlen(given));
    return *chain ? GD_OK : GD_NOMEM;
}

static gd_status set_whole(job *j, const char *option, int64_t low, int64_t *value)
{
    int64_t before = *value;
    gd_status status = gd__args_integer(j->args, option, low, INT64_MAX / 4, value);
    return !status && j->resume && *value != before ? number_differs(j, option, (double)before) : status;
}

static gd_status set_choice(job *j, const char *option, const char *choices, int *value)
{
    int before = *value;
    gd_status status = gd__args_choice(j->args, option, choices, value);
    if (status || !j->resume || *value == before || !gd__args_has(j->args, option)) return status;
    char has[32];
    for (; before > 0; before--) choices += strcspn(choices, " ") + 1;
    snprintf(has, sizeof has, "%.*s", (int)strcspn(choices, " "), choices);
    return differs(j, option, has, gd__args_get(j->args, option));
}

static gd_status compare_words(job *j, gd_print_option print, const gd_words *a, const gd_words *b,
                               bool *same)
{
    gd_status status = GD_OK;
    *same = print ? a->count == b->count : gd__words_equal(a, b);
    for (int i = 0; print && i < a->count && *same && !status; i++)
        status = compare_texts(j, print, a->word[i], b->word[i], same);
    return status;
}

/* Takes the values of a repeated option; print: they are compared by what they say. */
static gd_status set_words(job *j, const char *option, bool split, gd_print_option print, gd_words *words)
{
    gd_words given = {0};
    bool same = true;
    gd_status status = gd__words_of_option(j->args, option, split, &given);
    if (!status && j->resume && given.count) status = compare_words(j, print, words, &given, &same);
    if (!status && !same) status = words_differ(j, option, words, &given);
    if (j->resume || status) {
        gd__words_free(j->t.ctx, &given);
        return status;
    }
    *words = given;
    return GD_OK;
}

/* The model's text as it is printed, so that equal models have equal texts. */
static gd_status set_model(job *j, gd_model_spec *spec)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *given = gd__args_get(j->args, "model");
    gd_status status = gd__model_parse(j->t.ctx, given ? given : r->model ? r->model : DEFAULT_MODEL, spec);
    if (status) return status;
    gd_text text = gd__text(j->t.ctx);
    gd__model_print(&text, spec);
    if (j->resume && strcmp(text.data ? text.data : "", r->model) != 0)
        status = differs(j, "model", r->model, text.data ? text.data : "");
    else if (text.failed || !(r->model = gd__intern(j->t.ctx, text.data, text.used)))
        status = GD_NOMEM;
    gd__text_free(&text);
    return status;
}

/* A loss of numbers says that the target is numbers. */
static gd_status set_loss(job *j, int *task)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *text = gd__args_get(j->args, "loss");
    gd_loss before = r->loss;
    gd_status status = text ? gd__loss_parse(j->t.ctx, text, &r->loss) : GD_OK;
    if (status || !text) return status;
    bool classes = r->loss.kind == GD_LOSS_CROSS_ENTROPY;
    if (j->resume && (before.kind != r->loss.kind || before.number != r->loss.number)) {
        gd_text has = gd__text(j->t.ctx);
        gd__loss_print(&has, &before);
        status = has.failed ? GD_NOMEM : differs(j, "loss", has.data, text);
        gd__text_free(&has);
        return status;
    }
    if (*task && classes != (*task == GD_TASK_CLASSIFY))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --loss %.60s is for %s, --task says %s", text,
                       classes ? "classes" : "numbers", classes ? "numbers" : "classes");
    *task = classes ? GD_TASK_CLASSIFY : GD_TASK_REGRESS;
    return GD_OK;
}

/* A text that cannot change in a resumed run. */
static gd_status set_text(job *j, const char *option, const char **value)
{
    const char *given = gd__args_get(j->args, option);
    if (given && j->resume && strcmp(given, *value) != 0) return differs(j, option, *value, given);
    if (given && !(*value = gd__intern(j->t.ctx, given, strlen(given)))) return GD_NOMEM;
    return GD_OK;
}

static gd_status set_stop_on(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    int k = 0;
    gd_status status = gd__args_choice(j->args, "stop-on", "loss accuracy f1 auc rmse mae r2", &k);
    if (status || !gd__args_has(j->args, "stop-on")) return status;
    if (!(r->validation > 0))
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --stop-on %s wants rows to validate with",
                       gd__metric[k].name);
    return set_text(j, "stop-on", &r->stop_on);
}

/* class is the word, classify an older one. */
static gd_status set_task(job *j, int *task)
{
    static const char *const names[] = {"auto", "class", "regress"};
    int before = *task;
    gd_status status = gd__args_choice(j->args, "task", "auto class regress classify", task);
    if (*task == 3) *task = GD_TASK_CLASSIFY;
    if (status || !j->resume || *task == before) return status;
    return differs(j, "task", names[before], gd__args_get(j->args, "task"));
}

/* What depends on neither data nor model. */
static gd_status set_settings(job *j, int *task, int *standardise, gd_model_spec *spec)
{
    gd_recipe *r = &j->t.point.recipe;
    int dtype = r->dtype == GD_F64;
    double validation = r->validation;
    gd_status status = set_choice(j, "dtype", "f32 f64", &dtype);
    r->dtype = dtype ? GD_F64 : GD_F32;
    if (!status) status = set_model(j, spec);
    if (!status) status = set_chain(j);
    if (!status) status = set_words(j, "group", false, gd__tune_print_group, &r->groups);
    if (!status) status = set_words(j, "schedule", false, gd__tune_print_schedule, &r->schedules);
    if (!status) status = set_words(j, "features", true, NULL, &r->features);
    if (!status) status = set_words(j, "ignore", true, NULL, &r->ignored);
    if (!status) status = set_words(j, "text", true, NULL, &r->text);
    if (!status) status = set_whole(j, "batch", 0, &r->batch);
    if (!status) status = set_whole(j, "seed", 0, &r->seed);
    if (!status) status = gd__args_real(j->args, "validation", 0, 0.9, &r->validation);
    if (!status && j->resume && r->validation != validation)
        status = number_differs(j, "validation", validation);
    if (!status) status = set_task(j, task);
    if (!status) status = set_loss(j, task);
    if (!status) status = set_text(j, "class-weights", &r->class_weights);
    if (!status) status = set_stop_on(j);
    if (!status) status = set_choice(j, "standardise", "none each all auto", standardise);
    /* these may change */
    if (!status) status = gd__args_integer(j->args, "epochs", 0, INT64_MAX / 4, &r->epochs);
    if (!status) status = gd__args_integer(j->args, "patience", 0, INT64_MAX / 4, &r->patience);
    return status;
}

/* ---- data ---- */

static gd_status read_data(job *j, gd_task task)
{
    gd_recipe *r = &j->t.point.recipe;
    const char *path = j->args->argument[0], *target = gd__args_get(j->args, "target");
    bool table = gd__dataset_is_table(path);
    if (!target && !j->resume)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --target is missing: %s",
                       table ? "the column to predict" : "a file with what to predict for each row");
    if (target && j->resume && table && strcmp(target, r->target) != 0)
        return differs(j, "target", r->target, target);
    if (target && !(r->target = gd__intern(j->t.ctx, target, strlen(target)))) return GD_NOMEM;
    gd_data_request q = {.path = path,
                         .target = r->target,
                         .task = task,
                         .features = &r->features,
                         .ignored = &r->ignored,
                         .text = &r->text,
                         .columns = &r->columns,
                         .classes = &r->classes};
    gd_status status = gd__csv_options(j->args, &q.csv);
    if (!status) status = gd__shape_option(j->args, &q.row_axes, q.row);
    if (!status && !q.row_axes && j->resume) {
        q.row_axes = r->row_axes;
        memcpy(q.row, r->row, sizeof q.row);
    }
    return status ? status : gd__dataset_open(j->t.ctx, &q, &j->data);
}

static gd_status copy_words(gd_ctx *ctx, const gd_words *from, gd_words *to)
{
    gd_status status = GD_OK;
    gd__words_free(ctx, to);
    for (int i = 0; i < from->count && !status; i++)
        status = gd__words_add(ctx, to, from->word[i], strlen(from->word[i]));
    return status;
}

/* Which rows are for what; then the table is numbers, learnt from those to learn from. */
static gd_status split_and_encode(job *j)
{
    gd_trainer *t = &j->t;
    gd_recipe *r = &t->point.recipe;
    gd_dataset *d = &j->data;
    if (!j->resume) r->stratified = d->task == GD_TASK_CLASSIFY;
    gd_classes classes = {.of = r->stratified ? gd_data(d->y) : NULL, .count = d->classes.count};
    j->order_bytes = (size_t)d->rows * sizeof *j->order;
    if (!(j->order = gd__alloc(t->ctx, j->order_bytes))) return GD_NOMEM;
    gd_status status = gd__split_rows(t->ctx, j->order, d->rows, r->seed, r->validation, &classes,
                                      &t->check_rows);
    t->rows = d->rows - t->check_rows;
    return status ? status : gd__dataset_encode(d, &r->columns, j->order + t->check_rows, t->rows);
}

/* What the data says about the recipe; for a checkpoint, is it the same data? */
static gd_status describe_data(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    uint64_t sum = 0;
    gd_status status = gd__dataset_sum(&j->data, &sum);
    if (!status && j->resume && sum != r->data)
        status = gd_fail(j->t.ctx, GD_MISMATCH, "%s: not the data that %s was trained on",
                         j->args->argument[0], j->resume);
    if (status || j->resume) return status;
    r->data = sum;
    r->task = j->data.task;
    r->row_axes = gd_ndim(j->data.x) - 1;
    memcpy(r->row, gd_shape(j->data.x) + 1, (size_t)r->row_axes * sizeof *r->row);
    r->outputs = r->task == GD_TASK_CLASSIFY ? j->data.classes.count : gd_size(j->data.y, 1);
    status = copy_words(j->t.ctx, &j->data.features, &r->features);
    return status ? status : copy_words(j->t.ctx, &j->data.classes, &r->classes);
}

/* ---- what depends on the task ---- */

static gd_status check_counts(job *j)
{
    const double *y = gd_data(j->data.y);
    double sum = 0;
    for (int64_t i = 0; i < gd_numel(j->data.y); i++) {
        sum += y[i];
        if (y[i] < 0)
            return gd_fail(j->t.ctx, GD_VALUE, "%s: row %lld of '%.60s' is %g: poisson wants counts from 0",
                           j->args->argument[0], (long long)(i / gd_size(j->data.y, 1)) + 1,
                           j->t.point.recipe.target, y[i]);
    }
    return sum > 0 ? GD_OK
                   : gd_fail(j->t.ctx, GD_VALUE, "%s: every count of '%.60s' is 0", j->args->argument[0],
                             j->t.point.recipe.target);
}

/* Are loss, weights and metric those of the task? */
static gd_status check_task(job *j)
{
    gd_recipe *r = &j->t.point.recipe;
    bool classes = r->task == GD_TASK_CLASSIFY;
    const gd_metric *metric = gd__metric_find(r->stop_on);
    if (!j->resume && !gd__args_has(j->args, "loss"))
        r->loss.kind = classes ? GD_LOSS_CROSS_ENTROPY : GD_LOSS_SQUARES;
    if (metric->task && metric->task != r->task)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --stop-on %s is for %s", r->stop_on,
                       classes ? "numbers, the target is classes" : "classes, the target is numbers");
    if (*r->class_weights && !classes)
        return gd_fail(j->t.ctx, GD_ARGUMENT, "train: --class-weights is for classes, the target is numbers");
    if (j->resume || (!*r->class_weights && r->loss.kind != GD_LOSS_POISSON)) return GD_OK;
    return classes ? gd__class_weights(&j->t.point, j->data.y) : check_counts(j);
}

/* Some rows, standardised where they are numbers, on the device.  New. */
static gd_tensor *prepared_rows(job *j, gd_tensor *from, gd_tensor *rows, const gd_scaling *scaling)
{
    gd_trainer *t = &j->t;
    gd_scope_begin(t->ctx);
    gd_tensor *v = gd_index_select(from, "0", rows);
    if (scaling)
        v = gd__scaling_apply(scaling, v, t->point.recipe.dtype);
    else
        v = gd_contiguous(v);
    return gd__scope_leave(t->ctx, gd_to_device(v, t->device));
}

static gd_tensor *on_device(gd_trainer *t, gd_tensor *from)
{
    return gd_to_device(gd_cast(from, t->point.recipe.dtype), t->device);
}

static gd_status measure_scales(job *j, gd_tensor *rows)
{
    gd_checkpoint *c = &j->t.point;
    if (j->resume) return GD_OK;
    gd_tensor *x = gd_index_select(j->data.x, "0", rows), *y = gd_index_select(j->data.y, "0", rows);
    if (!x || !y) return gd_error(j->t.ctx);
    const gd_columns *columns = &c->recipe.columns;
    gd_status status = columns->count && c->recipe.row_axes == 1
                           ? gd__columns_scaling(columns, x, c->recipe.standardise, &c->input)
                           : gd__scaling_measure(x, c->recipe.standardise, &c->input);
    if (!status && c->recipe.loss.kind == GD_LOSS_POISSON)
        status = gd__scaling_of_rates(y, &c->output);
    else if (!status && c->recipe.task == GD_TASK_REGRESS && c->recipe.standardise != GD_SCALE_NONE)
        status = gd__scaling_measure(y, GD_SCALE_EACH, &c->output);
    gd_tensor *const kept[] = {c->input.mean, c->input.scale, c->output.mean, c->output.scale};
    for (int i = 0; i < 4; i++) (void)gd_keep(kept[i]);
    return status;
}

/* The rows to learn from and those to validate with. */
static gd_status make_rows(job *j)
{
    gd_trainer *t = &j->t;
    static const gd_scaling as_it_is;
    bool poisson = t->point.recipe.loss.kind == GD_LOSS_POISSON;
    const gd_scaling *of_y = t->point.recipe.task != GD_TASK_REGRESS ? NULL
                             : poisson                               ? &as_it_is
                                                                     : &t->point.output;
    gd__aside_begin(t->ctx);
    gd_tensor *learn = gd_from_data(t->ctx, GD_I64, 1, &t->rows, j->order + t->check_rows);
    gd_tensor *check = gd_from_data(t->ctx, GD_I64, 1, &t->check_rows, j->order);
    gd_status status = learn && check ? measure_scales(j, learn) : gd_error(t->ctx);
    if (!status) {
        t->x = gd_keep(prepared_rows(j, j->data.x, learn, &t->point.input));
        t->y = gd_keep(prepared_rows(j, j->data.y, learn, of_y));
        if (t->check_rows) t->check_x = gd_keep(prepared_rows(j, j->data.x, check, &t->point.input));
        if (t->check_rows) t->check_y = gd_keep(prepared_rows(j, j->data.y, check, of_y));
        if (t->point.weight) t->weight = gd_keep(on_device(t, t->point.weight));
        if (poisson) t->offset = gd_keep(on_device(t, t->point.output.mean));
        status = gd_error(t->ctx);
    }
    gd__aside_end(t->ctx);
    /* without a validation a run that failed leaves its best model for predict; going on goes on from the last one */
    if (!t->check_rows) gd__checkpoint_free_copies(&t->point, &t->point.best);
    gd_release(j->data.x);
    gd_release(j->data.y);
    j->data.x = j->data.y = NULL;
    gd__frame_close(&j->data.frame);
    return status;
}

/* ---- preparing ---- */

static gd_status make_optimizer(job *j)
{
    gd_trainer *t = &j->t;
    const gd_recipe *r = &t->point.recipe;
    gd_link *chain = gd_chain(t->ctx, r->chain);
    gd_status status = chain ? GD_OK : gd_error(t->ctx);
    for (int i = 0; i < r->groups.count && !status; i++)
        status = gd__tune_split(t->ctx, &chain, r->groups.word[i]);
    if (status) gd_link_release(chain);
    t->optimizer = status ? NULL : gd_optimizer_new(t->ctx, chain);
    if (!t->optimizer) return gd_error(t->ctx);
    status = gd_optimizer_add_module(t->optimizer, t->point.model.module, NULL, NULL);
    for (int i = 0; i < r->groups.count && !status; i++)
        status = gd__tune_group(t->optimizer, r->groups.word[i]);
    for (int i = 0; i < r->schedules.count && !status; i++)
        status = gd__tune_schedule(t->optimizer, r->schedules.word[i]);
    if (!status && j->archive) status = gd_optimizer_unpack(t->optimizer, j->archive, "optimizer/", true);
    gd_archive_free(j->archive);
    j->archive = NULL;
    return status;
}

static gd_status check_outputs(job *j)
{
    gd_trainer *t = &j->t;
    double most = 1e9;
    t->out = gd__args_get(j->args, "out");
    if (!t->out) t->out = j->resume;
    t->quiet = gd__args_has(j->args, "json");
    t->save_every = 60;
    t->time = INFINITY;
    gd_status status = t->out ? gd__check_file(t->ctx, t->out) : GD_OK;
    if (!status) status = gd__args_real(j->args, "time", 0, most, &t->time);
    return status ? status : gd__args_real(j->args, "save-every", 0, most, &t->save_every);
}

static gd_status open_records(job *j)
{
    gd_trainer *t = &j->t;
    const char *trace = gd__args_get(j->args, "trace"), *folder = gd__args_get(j->args, "events");
    if (trace)
        t->tracer = j->resume ? gd__tracer_resume(t->ctx, trace, gd_optimizer_steps(t->optimizer))
                              : gd__tracer_open(t->ctx, trace);
    if (trace && !t->tracer) return gd_error(t->ctx);
    if (folder && !(t->events = gd__events_open(t->ctx, folder))) return gd_error(t->ctx);
    return GD_OK;
}

/* The recipe from options or checkpoint, then the data, then the model. */
static gd_status prepare_model(job *j)
{
    gd_trainer *t = &j->t;
    gd_recipe *r = &t->point.recipe;
    gd_model_spec spec;
    int task = (int)r->task, standardise = j->resume ? (int)r->standardise : 3;
    gd_status status = set_settings(j, &task, &standardise, &spec);
    if (!status) status = read_data(j, (gd_task)task);
    if (!status) status = split_and_encode(j);
    if (!status) status = describe_data(j);
    if (!status) status = check_task(j);
    if (status) return status;
    spec.columns = &r->columns;
    r->standardise = standardise < 3    ? (gd_standardise)standardise
                     : r->row_axes == 1 ? GD_SCALE_EACH
                                        : GD_SCALE_ALL;
    if (!j->resume) {
        gd_seed(t->ctx, (uint64_t)r->seed);
        status = gd__model_open(t->ctx, &spec, r->row_axes, r->row, r->outputs, r->dtype, &t->point.model);
    }
    return status ? status : gd__checkpoint_move(&t->point, t->device);
}

static gd_status prepare_train(job *j)
{
    gd_trainer *t = &j->t;
    int64_t threads = 0;
    const char *device = gd__args_get(j->args, "device");
    j->resume = gd__args_get(j->args, "resume");
    gd_status status = gd__args_integer(j->args, "threads", 1, 1024, &threads);
    if (!status && !(t->device = gd_device_get(t->ctx, device ? device : "cpu"))) status = gd_error(t->ctx);
    if (!status) status = check_outputs(j);
    t->point.recipe = (gd_recipe){.columns = {.ctx = t->ctx},
                                  .class_weights = "",
                                  .stop_on = "loss",
                                  .seeds = 1,
                                  .batch = 32,
                                  .validation = 0.1,
                                  .epochs = 20,
                                  .dtype = GD_F32};
    t->point.progress = (gd_progress_state){.last_loss = NAN, .best_loss = INFINITY};
    if (!status && j->resume) status = gd__checkpoint_load(t->ctx, j->resume, &t->point, &j->archive);
    if (!status) status = prepare_model(j);
    if (!status) status = make_optimizer(j);
    if (!status) status = make_rows(j);
    return status ? status : open_records(j);
}

/* ---- results ---- */

/* The best parameters, or those to evaluate with, become the model's, and are measured. */
static gd_status measure_end(job *j)
{
    gd_trainer *t = &j->t;
    gd_status status = t->point.best ? gd__checkpoint_take_best(&t->point)
                                     : gd_optimizer_evaluate(t->optimizer, true);
    if (!status) status = gd__measure(&t->point, t->x, t->y, &j->trained);
    if (!status && t->check_x) status = gd__measure(&t->point, t->check_x, t->check_y, &t->checked);
    return status;
}

static void print_metrics(gd_text *out, gd_task task, const char *where, const gd_metrics *m)
{
    gd__text_put(out, "%s: ", where);
    gd__metrics_print(out, task, m);
}

static void print_text(job *j)
{
    gd_trainer *t = &j->t;
    gd_text *out = &t->cli->out;
    const gd_recipe *r = &t->point.recipe;
    const gd_progress_state *p = &t->point.progress;
    if (t->check_x && p->best_epoch) gd__text_put(out, "best epoch %lld\n", (long long)p->best_epoch);
    print_metrics(out, r->task, "training", &j->trained);
    if (t->check_x) print_metrics(out, r->task, "validation", &t->checked);
    gd__text_put(out, "%lld epochs, %lld steps, %.3g s, %.0f rows/s", (long long)p->epoch,
                 (long long)gd_optimizer_steps(t->optimizer), t->seconds,
                 t->seconds > 0 ? (double)t->trained_rows / t->seconds : 0);
    if (strcmp(t->stopped, "epochs") != 0) gd__text_put(out, " (%s)", t->stopped);
    gd__text_char(out, '\n');
    if (t->out) gd__text_put(out, "%s\n", t->out);
}

static void json_metrics(gd_text *out, const char *where, const gd_metrics *m)
{
    gd__json_key(out, where);
    gd__text_char(out, '{');
    gd__json_metrics(out, m);
    gd__text_char(out, '}');
}

static void print_json(job *j)
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
                   {"evals", gd_optimizer_evals(t->optimizer)}};
    gd__text_char(out, '{');
    gd__json_put_string(out, "task", gd__task_name(r->task));
    gd__json_put_string(out, "model", r->model);
    gd__json_put_string(out, "chain", r->chain);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        gd__json_put_whole(out, numbers[i].key, numbers[i].value);
    json_metrics(out, "training", &j->trained);
    if (t->check_x) json_metrics(out, "validation", &t->checked);
    gd__json_key(out, "classes");
    gd__words_print(out, &r->classes);
    gd__json_key(out, "features");
    gd__words_print(out, &r->features);
    gd__json_key(out, "ids");
    gd__words_print(out, &j->data.ids);
    gd__json_put_string(out, "stopped", t->stopped);
    gd__json_put_number(out, "seconds", t->seconds);
    gd__text_add(out, "}\n");
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

/* What is learnt from what, in front of the lines about epochs. */
static void introduce(job *j)
{
    gd_trainer *t = &j->t;
    gd_text *out = &t->cli->out;
    const gd_recipe *r = &t->point.recipe;
    if (t->quiet) return;
    if (r->task == GD_TASK_CLASSIFY) gd__text_put(out, "%d classes of ", r->classes.count);
    gd__text_plain(out, r->target, strlen(r->target) < 60 ? strlen(r->target) : 60, false);
    gd__text_add(out, j->data.guessed ? " (--task regress if they are quantities) from rows of "
                                      : " from rows of ");
    for (int i = 0; i < r->row_axes; i++) gd__text_put(out, "%s%lld", i ? " x " : "", (long long)r->row[i]);
    gd__text_put(out, "; %lld rows to learn from, %lld to validate\n", (long long)t->rows,
                 (long long)t->check_rows);
    describe_columns(out, &j->data, r);
    gd__text_put(out, "%s with %lld parameters; %s\n", r->model,
                 (long long)gd__model_parameters(&t->point.model), r->chain);
}

static gd_status finish_train(job *j)
{
    gd_trainer *t = &j->t;
    gd_status closed = gd__tracer_close(t->tracer), status = gd__events_close(t->events);
    t->tracer = NULL;
    t->events = NULL;
    if (closed || status) return closed ? closed : status;
    status = measure_end(j);
    if (status) return status;
    if (t->quiet)
        print_json(j);
    else
        print_text(j);
    if (t->cli->out.failed) return GD_NOMEM;
    if (strcmp(t->stopped, "interrupted") != 0) return GD_OK;
    status = gd__cli_flush(t->cli);
    if (status) return status;
    return gd_fail(t->ctx, GD_INTERRUPTED, "interrupted after %lld steps%s%s%s",
                   (long long)gd_optimizer_steps(t->optimizer),
                   t->out ? "; go on with --resume " : ", nothing saved", t->out ? t->out : "",
                   t->out ? "" : " without --out");
}

static int run_train(gd_cli *cli, const gd_args *args)
{
    job j = {.args = args,
             .t = {.cli = cli, .ctx = cli->ctx, .point = {.ctx = cli->ctx}},
             .data = {.ctx = cli->ctx}};
    gd_status status = prepare_train(&j);
    if (!status) {
        cli->running = true;
        introduce(&j);
        status = gd__trainer_run(&j.t);
    }
    if (!status) status = finish_train(&j);
    gd_archive_free(j.archive);
    gd__free(cli->ctx, j.order, j.order_bytes);
    gd__dataset_close(&j.data);
    gd__trainer_close(&j.t);
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
        "are called conv0.weight, dense0.weight, dense0.bias, ..., out.weight, out.bias.",
    .options = options,
    .examples =
        "gradus train examples/data/flowers.csv --target kind --model 'mlp(32)' --epochs 60 --out flowers.safetensors\n"
        "gradus train examples/data/digits-images.idx3-ubyte.gz --target examples/data/digits-labels.idx1-ubyte.gz "
        "--model 'conv(8, 16)' --chain 'clip_norm(1, dim=\"global\") | adam | weight_decay(0.01) | lr(3e-3)'\n"
        "gradus train data.csv --resume model.safetensors --epochs 100\n",
    .least = 1,
    .most = 1,
    .reads_from = 1,
    .run = run_train,
};
