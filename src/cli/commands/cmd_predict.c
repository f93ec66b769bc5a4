/* gradus predict: predictions of a trained model, or a fit, for new rows. */
#include "file/output.h"
#include "cli/fit/predict_fit.h"
#include "plot/plot_internal.h"
#include "cli/table_options.h"
#include "cli/keep.h"
#include "cli/metrics_text.h"
#include "train/model/predictor.h"

#include <math.h>
#include <stdio.h>

static const gd_option options[] = {
    GD_OUTPUT("out", "the predictions, as .csv (standard output)"),
    GD_KEEP_OPTION,
    GD_SWITCH("proba", "a column for the probability of each class"),
    GD_SWITCH("probabilities", "the same"),
    GD_SWITCH("score", "compare with the target, and print measures instead of predictions"),
    GD_PATH_OPTION("target", "COLUMN|FILE", GD_PATH_READ_ROWS,
                   "for --score, the target (the column of the training)"),
    GD_OUTPUT("roc", "with --score: the ROC curves of the classes, as .svg, .png or .pdf"),
    GD_OUTPUT("calibration",
              "with --score: the calibration curve, accuracy over confidence, as .svg, .png or .pdf"),
    GD_SWITCH("dark", "pictures with a dark background"),
    GD_SWITCH("json", "print one JSON object: predictions, or with --score loss, accuracy or rmse and r2"),
    GD_TABLE_OPTIONS,
    GD_OPTION("device", "NAME", "cpu, gpu or gpu:1 (cpu)"),
    GD_OPTION("threads", "N", "CPU threads (all cores); results do not depend on it"),
    {0},
};

typedef struct job {
    gd_cli *cli;
    gd_ctx *ctx;
    const gd_args *args;
    gd_checkpoint point;
    gd_predictor rows;
    gd_kept_columns kept;
    gd_device *device;
    const char *out;
    bool json, score, probabilities;
    gd_text text; /* the CSV or JSON */
    int64_t done; /* rows written */
} job;

/* ---- preparing ---- */

/* The name of the predicted column: that of the target. */
static const char *column_name(const gd_recipe *r) { return r->features.count ? r->target : "prediction"; }

static gd_status read_data(job *j)
{
    gd_recipe *r = &j->point.recipe;
    const char *target = gd__args_get(j->args, "target"), *path = j->args->argument[1];
    bool table = gd__dataset_is_table(path);
    if (target && !j->score) return gd_fail(j->ctx, GD_ARGUMENT, "predict: --target is for --score");
    if (j->score && !target && !table)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "predict: --score needs --target: a file with the target of each row");
    if (!j->score) target = NULL;
    if (j->score && !target) target = r->target;
    gd_data_request q = gd__predictor_request(r, NULL, path, target);
    q.keep_table = gd__args_has(j->args, "keep");
    gd_status status = gd__csv_options(j->args, &q.csv);
    if (!status) status = gd__predictor_open(j->ctx, &j->point, j->device, &q, &j->rows);
    if (!status && q.keep_table)
        status = table ? gd__keep_open(j->args, j->rows.data.csv, column_name(r), &j->kept)
                       : gd_fail(j->ctx, GD_ARGUMENT, "predict: --keep is for tables, %.200s is an array",
                                 path);
    return status;
}

static gd_status prepare_predict(job *j, gd_archive *archive)
{
    const char *device = gd__args_get(j->args, "device");
    j->json = gd__args_has(j->args, "json");
    j->score = gd__args_has(j->args, "score");
    j->probabilities = gd__args_has(j->args, "proba") || gd__args_has(j->args, "probabilities");
    j->device = gd_device_get(j->ctx, device ? device : "cpu");
    gd_status status = j->device ? GD_OK : gd_error(j->ctx);
    if (!status) status = gd__checkpoint_read(j->ctx, j->args->argument[0], archive, &j->point);
    if (!status && j->probabilities && j->point.recipe.task != GD_TASK_CLASSIFY)
        status = gd_fail(j->ctx, GD_ARGUMENT,
                         "predict: --probabilities is for classes, this model predicts numbers");
    if (!status && j->point.recipe.task != GD_TASK_CLASSIFY &&
        (gd__args_has(j->args, "roc") || gd__args_has(j->args, "calibration")))
        status = gd_fail(j->ctx, GD_ARGUMENT, "predict: --roc and --calibration are for classes");
    if (!status) status = gd__checkpoint_take_best(&j->point);
    if (!status) status = gd__checkpoint_move(&j->point, j->device);
    return status ? status : read_data(j);
}

/* ---- CSV ---- */

static void csv_header(job *j)
{
    const gd_recipe *r = &j->point.recipe;
    gd_text *out = &j->text;
    gd__keep_names(out, &j->kept);
    gd__csv_put(out, column_name(r));
    if (r->task == GD_TASK_CLASSIFY) gd__text_add(out, ",probability");
    for (int i = 0; i < r->classes.count && j->probabilities; i++) {
        char name[300];
        (void)snprintf(name, sizeof name, "p(%.250s)", r->classes.word[i]);
        gd__text_char(out, ',');
        gd__csv_put(out, name);
    }
    for (int64_t k = 1; k < r->outputs && r->task == GD_TASK_REGRESS; k++) {
        char name[300];
        (void)snprintf(name, sizeof name, "%.250s_%lld", column_name(r), (long long)k + 1);
        gd__text_char(out, ',');
        gd__csv_put(out, name);
    }
    gd__text_char(out, '\n');
}

static int64_t best_of(const double *v, int64_t count)
{
    int64_t best = 0;
    for (int64_t i = 1; i < count; i++)
        if (v[i] > v[best]) best = i;
    return best;
}

static void csv_row(job *j, const double *v)
{
    const gd_recipe *r = &j->point.recipe;
    gd_text *out = &j->text;
    gd__keep_row(out, &j->kept, j->done);
    if (r->task == GD_TASK_CLASSIFY) {
        int64_t best = best_of(v, r->outputs);
        gd__csv_put(out, r->classes.word[best]);
        gd__text_put(out, ",%.9g", v[best]);
        for (int64_t i = 0; i < r->outputs && j->probabilities; i++) gd__text_put(out, ",%.9g", v[i]);
    } else {
        for (int64_t i = 0; i < r->outputs; i++) gd__text_put(out, "%s%.17g", i ? "," : "", v[i]);
    }
    gd__text_char(out, '\n');
}

/* ---- JSON ---- */

static void json_header(job *j)
{
    const gd_recipe *r = &j->point.recipe;
    gd__text_char(&j->text, '{');
    gd__json_put_string(&j->text, "task", gd__task_name(r->task));
    gd__json_put_string(&j->text, "target", column_name(r));
    gd__json_key(&j->text, "classes");
    gd__words_print(&j->text, &r->classes);
    gd__keep_json(&j->text, &j->kept);
    gd__text_add(&j->text, ", \"predictions\": [");
}

static void json_row(job *j, const double *v)
{
    const gd_recipe *r = &j->point.recipe;
    gd_text *out = &j->text;
    if (j->done) gd__text_add(out, ", ");
    if (r->task == GD_TASK_CLASSIFY) {
        int64_t best = best_of(v, r->outputs);
        gd__text_char(out, '{');
        gd__json_put_string(out, "class", r->classes.word[best]);
        gd__json_put_number(out, "probability", v[best]);
        if (j->probabilities) gd__text_add(out, ", \"probabilities\": [");
        for (int64_t i = 0; i < r->outputs && j->probabilities; i++) {
            if (i) gd__text_add(out, ", ");
            gd__json_number(out, v[i]);
        }
        gd__text_add(out, j->probabilities ? "]}" : "}");
        return;
    }
    if (r->outputs > 1) gd__text_char(out, '[');
    for (int64_t i = 0; i < r->outputs; i++) {
        if (i) gd__text_add(out, ", ");
        gd__json_number(out, v[i]);
    }
    if (r->outputs > 1) gd__text_char(out, ']');
}

/* ---- predicting ---- */

static gd_status write_rows(job *j, int64_t at, int64_t end)
{
    int64_t outputs = j->point.recipe.outputs;
    size_t bytes = (size_t)((end - at) * outputs) * sizeof(double);
    double *values = gd__alloc(j->ctx, bytes);
    if (!values) return GD_NOMEM;
    gd__aside_begin(j->ctx);
    gd_tensor *out = gd__predictor_rows(&j->rows, at, end);
    gd_status status = out ? gd_read_f64(out, values, (end - at) * outputs) : gd_error(j->ctx);
    gd__aside_end(j->ctx);
    for (int64_t i = 0; i < end - at && !status; i++) {
        (j->json ? json_row : csv_row)(j, values + i * outputs);
        j->done++;
    }
    gd__free(j->ctx, values, bytes);
    return status ? status : j->text.failed ? GD_NOMEM : GD_OK;
}

static gd_status predict(job *j)
{
    gd_status status = GD_OK;
    (j->json ? json_header : csv_header)(j);
    gd_meter meter = gd__meter_start(j->rows.data.rows);
    for (int64_t at = 0; at < j->rows.data.rows && !status; at += GD_PREDICT_ROWS) {
        status = write_rows(
            j, at, at + GD_PREDICT_ROWS < j->rows.data.rows ? at + GD_PREDICT_ROWS : j->rows.data.rows);
        gd__meter_show(&meter, "rows", j->done, NAN);
    }
    gd__meter_end(&meter);
    if (j->json) gd__text_add(&j->text, "]}\n");
    if (status) return status;
    if (j->text.failed) return GD_NOMEM;
    if (j->out) return gd__write_output(j->ctx, j->out, j->text.data, j->text.used);
    j->cli->raw = !j->json;
    gd__text_append(&j->cli->out, j->text.data, j->text.used);
    return j->cli->out.failed ? GD_NOMEM : GD_OK;
}

/* ---- scoring ---- */

static void print_score(job *j, const gd_metrics *m, const gd_report *report)
{
    gd_text *out = &j->cli->out;
    const gd_recipe *r = &j->point.recipe;
    if (!j->json) {
        gd__text_put(out, "%lld rows: ", (long long)j->rows.data.rows);
        gd__metrics_print(out, r->task, m);
        if (report->p) gd__report_print(out, report, &r->classes);
        return;
    }
    gd__text_char(out, '{');
    gd__json_put_whole(out, "rows", j->rows.data.rows);
    gd__json_metrics(out, m);
    if (report->p) gd__json_report(out, report, &r->classes);
    gd__text_add(out, "}\n");
}

static gd_status score(job *j)
{
    const gd_words *names = &j->point.recipe.classes;
    const char *roc = gd__args_get(j->args, "roc"), *calibration = gd__args_get(j->args, "calibration");
    bool dark = gd__args_has(j->args, "dark");
    gd_metrics m;
    gd_report report;
    gd_status status = gd__predictor_score(&j->rows, &m, &report);
    if (!status && roc) status = gd__report_roc(&report, names, roc, dark);
    if (!status && calibration) status = gd__report_calibration(&report, names, calibration, dark);
    if (!status) print_score(j, &m, &report);
    gd__report_close(&report);
    return status;
}

static gd_status check_pictures(job *j)
{
    static const char *const names[] = {"roc", "calibration", "dark"};
    gd_status status = GD_OK;
    bool any = false;
    for (int i = 0; i < 3 && !status; i++) {
        const char *path = gd__args_get(j->args, names[i]);
        if (!gd__args_has(j->args, names[i])) continue;
        if (!j->score || (i == 2 && !any))
            return gd_fail(j->ctx, GD_ARGUMENT, "predict: --%s is for %s", names[i],
                           i < 2 ? "--score" : "--roc and --calibration");
        any = true;
        status = path ? gd_plot_check_path(j->ctx, path) : GD_OK;
        if (!status && path) status = gd__check_output(j->ctx, path);
    }
    return status;
}

static gd_status check_output(job *j)
{
    j->score = gd__args_has(j->args, "score");
    j->out = gd__args_get(j->args, "out");
    static const char *const of_rows[] = {"out", "proba", "probabilities", "keep"};
    for (int i = 0; i < 4 && j->score; i++)
        if (gd__args_has(j->args, of_rows[i]))
            return gd_fail(j->ctx, GD_ARGUMENT, "predict: --score prints no predictions for --%s",
                           of_rows[i]);
    gd_status status = check_pictures(j);
    if (status) return status;
    return j->out ? gd__check_output(j->ctx, j->out) : GD_OK;
}

static gd_status predict_trained(job *j, gd_archive *archive)
{
    j->text = gd__text(j->ctx);
    gd_status status = prepare_predict(j, archive);
    if (!status) {
        j->cli->running = true;
        status = j->score ? score(j) : predict(j);
    }
    gd__text_free(&j->text);
    gd__keep_close(&j->kept);
    gd__predictor_close(&j->rows);
    gd__checkpoint_close(&j->point);
    return status;
}

static int run_predict(gd_cli *cli, const gd_args *args)
{
    job j = {
        .cli = cli, .ctx = cli->ctx, .args = args, .point = {.ctx = cli->ctx}, .kept = {.ctx = cli->ctx}};
    gd_status status = check_output(&j);
    gd_archive *archive = status ? NULL : gd_archive_load(cli->ctx, args->argument[0]);
    if (archive)
        status = gd__fit_is_saved(archive) ? gd__cli_predict_fit(cli, args, archive)
                                           : predict_trained(&j, archive);
    else if (!status)
        status = gd_error(cli->ctx);
    gd_archive_free(archive);
    return gd__cli_code(cli, status);
}

const gd_command gd__command_predict = {
    .name = "predict",
    .summary = "Predict with a model of gradus train, or with a fit.",
    .arguments = "MODEL.safetensors DATA",
    .description =
        "Reads model, standardisation and classes from the file. A table must have the columns the model was "
        "trained on, in any order; others are ignored, unknown words count as no known word, and missing "
        "cells are filled as in training. Writes one CSV line per row: the class and its probability, or the "
        "number; --keep puts columns of the table in front. For a file of gradus fit --out: the value of the "
        "model with its 95 % confidence band (of the curve) and prediction band (of a new measurement); a "
        "fit with --sigma or --weights needs their column for the latter.",
    .options = options,
    .examples =
        "gradus predict flowers.safetensors examples/data/flowers.csv --out kinds.csv\n"
        "gradus predict flowers.safetensors examples/data/flowers.csv --score\n"
        "gradus predict fit.safetensors new.csv --out bands.csv\n"
        "gradus predict flowers.safetensors examples/data/flowers.csv --keep petal_length,petal_width --out kinds.csv\n",
    .least = 2,
    .most = 2,
    .reads_from = 1,
    .run = run_predict,
};
