/* gradus predict with a saved fit: its values and bands at the rows of a table, or their score. */
#include "cli/fit/predict_fit.h"
#include "cli/keep.h"
#include "cli/table_options.h"
#include "file/output.h"
#include "table/table_load.h"

#include <math.h>
#include <stdio.h>

typedef struct job {
    gd_cli *cli;
    gd_ctx *ctx;
    const gd_args *args;
    gd_csv *csv;
    gd_kept_columns kept;
    gd_fit_prediction *p;
    gd_tensor *measured; /* for --score */
    int64_t rows;
    const char *y;
} job;

static gd_meter start_writing(const job *j)
{
    gd_meter meter = gd__meter_start(j->rows);
    (void)snprintf(meter.note, sizeof meter.note, "writing ");
    return meter;
}

static void put_csv(const job *j, gd_text *out)
{
    gd_meter meter = start_writing(j);
    gd__keep_names(out, &j->kept);
    gd__csv_put(out, j->y);
    gd__text_add(out, ",confidence_low,confidence_high,prediction_low,prediction_high\n");
    for (int64_t i = 0; i < j->rows && !out->failed; i++) {
        double v[5];
        gd__fit_bands(j->p, i, v);
        gd__keep_row(out, &j->kept, i);
        for (int k = 0; k < 5; k++) gd__text_put(out, "%s%.17g", k ? "," : "", v[k]);
        gd__text_char(out, '\n');
        gd__meter_show(&meter, "rows", i + 1, NAN);
    }
    gd__meter_end(&meter);
}

static void put_json(const job *j, gd_text *out)
{
    static const char *const before[] = {"{\"value\": ", ", \"confidence\": [", ", ", "], \"prediction\": [",
                                         ", "};
    gd_meter meter = start_writing(j);
    gd__text_char(out, '{');
    gd__json_put_string(out, "task", "fit");
    gd__json_put_string(out, "target", j->y);
    gd__keep_json(out, &j->kept);
    gd__text_add(out, ", \"predictions\": [");
    for (int64_t i = 0; i < j->rows && !out->failed; i++) {
        double v[5];
        gd__fit_bands(j->p, i, v);
        if (i) gd__text_add(out, ", ");
        for (int k = 0; k < 5; k++) {
            gd__text_add(out, before[k]);
            gd__json_number(out, v[k]);
        }
        gd__text_add(out, "]}");
        gd__meter_show(&meter, "rows", i + 1, NAN);
    }
    gd__meter_end(&meter);
    gd__text_add(out, "]}\n");
}

/* --score: the deviation of the model from the measurements. */
static void put_score(const job *j, const double *y, gd_text *out)
{
    double mean = 0, total = 0, rss = 0, rows = (double)j->rows;
    for (int64_t i = 0; i < j->rows; i++) mean += y[i] / rows;
    for (int64_t i = 0; i < j->rows; i++) {
        double v[5];
        gd__fit_bands(j->p, i, v);
        total += (y[i] - mean) * (y[i] - mean), rss += (y[i] - v[0]) * (y[i] - v[0]);
    }
    const double rmse = sqrt(rss / rows), r2 = total > 0 ? 1 - rss / total : NAN;
    if (!gd__args_has(j->args, "json")) {
        gd__text_put(out, "%lld rows: rmse %.6g, R2 %.6f\n", (long long)j->rows, rmse, r2);
        return;
    }
    gd__text_char(out, '{');
    gd__json_put_whole(out, "rows", j->rows);
    gd__json_put_number(out, "rmse", rmse);
    gd__json_put_number(out, "r2", r2);
    gd__text_add(out, "}\n");
}

static gd_status put_results(job *j)
{
    const char *path = gd__args_get(j->args, "out");
    bool json = gd__args_has(j->args, "json");
    if (j->measured) {
        put_score(j, gd_data(j->measured), &j->cli->out);
        return GD_OK;
    }
    gd_text text = gd__text(j->ctx);
    (json ? put_json : put_csv)(j, &text);
    gd_status status = text.failed ? GD_NOMEM : GD_OK;
    if (!status && path) status = gd__write_output(j->ctx, path, text.data, text.used);
    j->cli->raw = !json && !path;
    if (!status && !path) gd__text_append(&j->cli->out, text.data, text.used);
    gd__text_free(&text);
    return status;
}

/* Options without a meaning for a fit. */
static gd_status check_options(const gd_args *args)
{
    static const char *const other[] = {"probabilities", "proba", "roc", "calibration", "device"};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (gd__args_has(args, other[i]))
            return gd_fail(args->ctx, GD_ARGUMENT,
                           "predict: --%s is for models of gradus train, %.200s is a fit", other[i],
                           args->argument[0]);
    if (gd__args_has(args, "target") && !gd__args_has(args, "score"))
        return gd_fail(args->ctx, GD_ARGUMENT, "predict: --target is for --score");
    return GD_OK;
}

/* The new rows, and their columns to print with the predictions. */
static gd_status open_rows(job *j, const gd_archive *archive)
{
    gd_csv_options how;
    const char *target = gd__args_get(j->args, "target");
    gd_status status = gd__csv_options(j->args, &how);
    if (status) return status;
    if (!(j->csv = gd__table_load(j->ctx, j->args->argument + 1, 1, &how))) return gd_error(j->ctx);
    j->p = gd__fit_predict(j->ctx, archive, j->args->argument[0], j->csv, NULL);
    if (!j->p) return gd_error(j->ctx) ? gd_error(j->ctx) : GD_NOMEM;
    j->y = gd__fit_prediction_y(j->p);
    j->rows = gd__fit_prediction_rows(j->p);
    if (!gd__args_has(j->args, "score")) return gd__keep_open(j->args, j->csv, j->y, &j->kept);
    j->measured = gd__fit_prediction_column(j->p, target ? target : j->y);
    return j->measured ? GD_OK : gd_error(j->ctx);
}

gd_status gd__cli_predict_fit(gd_cli *cli, const gd_args *args, const gd_archive *archive)
{
    job j = {.cli = cli, .ctx = cli->ctx, .args = args, .kept = {.ctx = cli->ctx}};
    gd_status status = check_options(args);
    if (!status) status = open_rows(&j, archive);
    if (!status) {
        cli->running = true;
        status = gd__fit_prediction_run(j.p);
    }
    if (!status) status = put_results(&j);
    gd_release(j.measured);
    gd__keep_close(&j.kept);
    gd__fit_prediction_free(j.p);
    gd__csv_free(j.csv);
    return status;
}
