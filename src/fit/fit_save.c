/* The file of gradus fit --out: parameters, their covariance, fitted rows, and the data of gradus compare and gradus predict. */
#include "fit/fit_job.h"
#include "gradus/file.h"

#include <math.h>
#include <stdio.h>

/* The numbers that gradus compare reads. */
static gd_status save_numbers(const gd_fit *j, gd_archive *archive)
{
    const struct {
        const char *key;
        double value;
    } numbers[] = {{"fit.rss", j->fit.rss},
                   {"fit.dof", (double)j->fit.dof},
                   {"fit.points", (double)j->fit.residuals},
                   {"fit.free", (double)j->fit.free},
                   {"fit.active", (double)(j->element.count - j->fit.free)},
                   {"fit.log_likelihood", j->numbers.log_likelihood},
                   {"fit.r2", j->r2},
                   {"fit.rank", (double)j->fit.rank}};
    char text[40];
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && !status; i++) {
        (void)gd__format(text, sizeof text, "%.17g", numbers[i].value);
        status = gd_archive_set_meta(archive, numbers[i].key, text);
    }
    /* gradus compare counts the standard deviation as a parameter unless this is there */
    if (!status && j->absolute) status = gd_archive_set_meta(archive, "fit.known_sigma", "1");
    if (!status) status = gd_archive_set_meta(archive, "fit.stop", gd_stop_name(j->fit.solve.reason));
    (void)snprintf(text, sizeof text, "%016llx", (unsigned long long)j->numbers.rows);
    return status ? status : gd_archive_set_meta(archive, "fit.rows", text);
}

/* fit.param.0, fit.param.1, ...: names in the order of the covariance. */
static gd_status save_names(gd_archive *archive, const char *what, const char *const *name, int count,
                            gd_tensor *const *wanted)
{
    gd_status status = GD_OK;
    for (int i = 0, k = 0; i < count && !status; i++) {
        char key[40];
        if (!wanted[i]) continue;
        (void)snprintf(key, sizeof key, "fit.%s.%d", what, k++);
        status = gd_archive_set_meta(archive, key, name[i]);
    }
    return status;
}

/* fit.date.COLUMN: days:2024-02-29, so that readers convert dates to the same numbers. */
static gd_status save_dates(const gd_fit *j, gd_archive *archive)
{
    gd_status status = GD_OK;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv) && !status; i++) {
        const gd_fit_date *date = gd__fit_date_of(j, i);
        char text[GD_FIT_DATE_SIZE];
        if (!date) continue;
        gd_text key = gd__text(j->ctx);
        gd__text_put(&key, "fit.date.%s", j->name[i]);
        gd__fit_date_print(text, date, ":");
        status = key.failed ? GD_NOMEM : gd_archive_set_meta(archive, key.data, text);
        gd__text_free(&key);
    }
    return status;
}

/* fit.noise.K: NAME=COLUMN or NAME=NUMBER, as in --x-errors. */
static gd_status save_noise(const gd_fit *j, gd_archive *archive, int k)
{
    char key[40];
    gd_text text = gd__text(j->ctx);
    (void)snprintf(key, sizeof key, "fit.noise.%d", k);
    gd__text_put(&text, "%s=%s", j->name[j->x_errors.at[k]], j->x_errors.text[k]);
    gd_status status = text.failed ? GD_NOMEM : gd_archive_set_meta(archive, key, text.data);
    gd__text_free(&text);
    return status;
}

/* Data of the model besides its parameters: definitions, constants, names, and for bands the deviation of a value. */
static gd_status save_model(const gd_fit *j, gd_archive *archive)
{
    char text[40];
    const gd_fit_spec *spec = &j->spec;
    gd_status status = spec->definitions ? gd_archive_set_meta(archive, "fit.def", spec->definitions) : GD_OK;
    int columns = gd__csv_columns(j->csv), first = j->params + columns;
    for (int i = first; i < j->names && !status; i++) {
        char name[GD_LSQ_TEXT];
        (void)snprintf(name, sizeof name, "fit.fix.%.200s", j->name[i]);
        status = gd_archive_put(archive, name, j->value[i]);
    }
    if (!status) status = save_names(archive, "param", j->name, j->params, j->param);
    if (!status) status = save_names(archive, "column", j->name + j->params, columns, j->value + j->params);
    if (!status && j->y_name) status = gd_archive_set_meta(archive, "fit.y", j->y_name);
    if (!status) status = save_dates(j, archive);
    for (int k = 0; k < j->x_errors.count && !status; k++) status = save_noise(j, archive, k);
    if (!status && j->robust.loss)
        status = gd_archive_set_meta(archive, "fit.loss", gd_lsq_loss_name(j->robust.loss));
    if (!status && spec->weights) status = gd_archive_set_meta(archive, "fit.weights", spec->weights);
    if (!status && spec->sigma) status = gd_archive_set_meta(archive, "fit.deviations", spec->sigma);
    const double number[] = {j->t, j->absolute ? 1 : j->fit.sigma};
    for (int k = 0; k < 2 && !status && j->t > 0; k++) {
        (void)gd__format(text, sizeof text, "%.17g", number[k]);
        status = gd_archive_set_meta(archive, k ? "fit.sigma" : "fit.t", text);
    }
    return status;
}

/* The interval of each element, and which of its bounds is active. */
static gd_status save_intervals(const gd_fit *j, gd_archive *archive)
{
    int64_t size[] = {j->element.count, 2};
    gd_tensor *interval = gd_from_f64(j->ctx, GD_F64, 2, size, j->element.interval),
              *active = gd_from_f64(j->ctx, GD_F64, 1, size, j->element.active);
    gd_status status = interval && active ? gd_archive_put(archive, "fit.interval", interval)
                                          : gd_error(j->ctx);
    return status ? status : gd_archive_put(archive, "fit.at_bound", active);
}

gd_archive *gd__fit_archive(const gd_fit *j)
{
    gd_archive *archive = gd_archive_new(j->ctx);
    if (!archive) return NULL;
    gd_status status = GD_OK;
    gd__aside_begin(j->ctx);
    for (int i = 0; i < j->params && !status; i++) status = gd_archive_put(archive, j->name[i], j->param[i]);
    if (j->fit.covariance && !status) status = gd_archive_put(archive, "fit.covariance", j->fit.covariance);
    if (j->fit.standard_errors && !status)
        status = gd_archive_put(archive, "fit.standard_errors", j->fit.standard_errors);
    if (!status) status = gd_archive_set_meta(archive, "model", j->spec.model);
    if (!status) status = save_model(j, archive);
    if (!status && isfinite(j->numbers.aic)) status = save_numbers(j, archive);
    if (!status && j->state == GD_FIT_DONE) status = save_intervals(j, archive);
    gd__aside_end(j->ctx);
    if (!status) return archive;
    gd_archive_free(archive);
    return NULL;
}

gd_status gd_fit_save(gd_fit *fit, const char *path)
{
    if (!fit) return GD_ARGUMENT;
    if (gd_error(fit->ctx)) return gd_error(fit->ctx);
    if (!path) return gd__null(fit->ctx, "gd_fit_save");
    if (fit->texts.archive) return gd_archive_save(fit->texts.archive, path);
    if (fit->spec.function)
        return gd_fail(fit->ctx, GD_VALUE, "fit: the model is a function, which no file can have");
    if (fit->state != GD_FIT_DONE && !isfinite(fit->reached))
        return gd_fail(fit->ctx, GD_VALUE, "fit: no point was found to save");
    gd_archive *archive = gd__fit_archive(fit);
    gd_status status = archive ? GD_OK : gd_error(fit->ctx) ? gd_error(fit->ctx) : GD_NOMEM;
    if (!status && fit->state == GD_FIT_DONE) status = gd__fit_put_rows(fit, archive);
    if (!status) status = gd_archive_save(archive, path);
    gd_archive_free(archive);
    return status;
}
