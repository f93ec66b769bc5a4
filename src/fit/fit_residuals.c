/* gradus fit --residuals: fitted value and residual of each row, as a table. */
#include "file/output.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>

static void put_names(const gd_fit *j, gd_text *out)
{
    gd__text_add(out, "line,");
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        if (!j->value[i]) continue;
        gd__csv_put(out, j->name[i]);
        gd__text_char(out, ',');
    }
    if (j->y_name) {
        gd__csv_put(out, j->y_name);
        gd__text_add(out, ",fitted,residual,");
    }
    gd__text_put(out, "%sstandardized%s\n", j->x_errors.count ? "distance," : "",
                 j->robust.loss ? ",weight" : "");
}

double gd__fit_standardized(const gd_fit *j, int64_t i, double fitted)
{
    const double *y = gd_data(j->y), *scale = j->scale ? gd_data(j->scale) : NULL;
    if (j->x_errors.distance) return -j->x_errors.distance[i] / (j->absolute ? 1 : j->fit.sigma);
    return (y[i] - fitted) * (scale ? scale[i] : 1) / (j->absolute ? 1 : j->fit.sigma);
}

/* Dates in their original format. */
static void put_value(const gd_fit *j, gd_text *out, int place, double value)
{
    const gd_fit_date *date = gd__fit_date_of(j, place);
    if (date)
        gd__fit_date_cell(out, date, value);
    else
        gd__text_put(out, "%.17g", value);
    gd__text_char(out, ',');
}

static void put_row(gd_fit *j, void *user, int64_t line, int64_t i, double fitted)
{
    gd_text *out = user;
    double y = ((const double *)gd_data(j->y))[i], standardized = gd__fit_standardized(j, i, fitted);
    gd__text_put(out, "%lld,", (long long)line);
    for (int k = j->params; k < j->params + gd__csv_columns(j->csv); k++)
        if (j->value[k]) put_value(j, out, k, ((const double *)gd_data(j->value[k]))[i]);
    if (j->y_name) gd__text_put(out, "%.17g,%.17g,%.17g,", y, fitted, y - fitted);
    if (j->x_errors.distance) gd__text_put(out, "%.17g,", -j->x_errors.distance[i]);
    if (isfinite(standardized)) gd__text_put(out, "%.17g", standardized);
    if (j->robust.loss)
        gd__text_put(out, ",%.17g",
                     gd_lsq_loss_weight(j->robust.loss, standardized * (j->absolute ? 1 / j->fit.scale : 1)));
    gd__text_char(out, '\n');
}

gd_tensor *gd__fit_fitted(gd_fit *j)
{
    gd_no_grad_begin(j->ctx);
    gd_tensor *t = gd_copy(gd_expand(gd__fit_model(j, j->param), 1, (int64_t[]){gd_numel(j->y)}));
    gd_no_grad_end(j->ctx);
    return t;
}

gd_status gd__fit_each_row(gd_fit *j, void *user,
                           void (*see)(gd_fit *j, void *user, int64_t line, int64_t i, double fitted))
{
    gd_scope_begin(j->ctx);
    gd_tensor *fitted = gd__fit_fitted(j);
    gd_no_grad_begin(j->ctx);
    gd_tensor *distance = fitted && j->x_errors.count ? gd_copy(gd__fit_residuals(j)) : NULL;
    gd_no_grad_end(j->ctx);
    const double *f = fitted && (distance || !j->x_errors.count) ? gd_data(fitted) : NULL;
    j->x_errors.distance = distance ? gd_data(distance) : NULL;
    for (int64_t row = 0, i = 0; f && row < gd__csv_rows(j->csv); row++)
        if (!j->left_out.why[row]) see(j, user, gd__csv_line(j->csv, row), i, f[i]), i++;
    j->x_errors.distance = NULL;
    gd_scope_end(j->ctx);
    return f ? GD_OK : gd_error(j->ctx);
}

gd_status gd_fit_save_residuals(gd_fit *j, const char *path)
{
    gd_status done = gd__fit_check_done(j);
    if (done) return done;
    if (!path) return gd__null(j->ctx, "gd_fit_save_residuals");
    gd_text text = gd__text(j->ctx);
    put_names(j, &text);
    gd_status status = gd__fit_each_row(j, &text, put_row);
    if (!status && text.failed) status = GD_NOMEM;
    if (!status) status = gd__write_output(j->ctx, path, gd__text_string(&text), text.used);
    gd__text_free(&text);
    return status;
}
