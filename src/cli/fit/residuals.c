/* gradus fit --residuals: what the model says of each row that was fitted, as a table. */
#include "cli/files.h"
#include "cli/fit/fit.h"
#include "gradus/autograd.h"

#include <math.h>

static void put_names(const gd_fit_job *j, gd_text *out)
{
    const char *y = gd__args_get(j->args, "y");
    gd__text_add(out, "line,");
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        if (!j->value[i]) continue;
        gd__csv_put(out, j->name[i]);
        gd__text_char(out, ',');
    }
    gd__csv_put(out, y ? y : "y");
    gd__text_add(out, ",fitted,residual,standardized\n");
}

/* standardized: by the standard deviation of the row's residual; empty where nothing says what that is. */
static void put_row(const gd_fit_job *j, gd_text *out, int64_t i, double fitted)
{
    const double *y = gd_data(j->y), *scale = j->scale ? gd_data(j->scale) : NULL;
    double sigma = j->absolute ? 1 : j->fit.sigma, residual = y[i] - fitted,
           standardized = residual * (scale ? scale[i] : 1) / sigma;
    for (int k = j->params; k < j->params + gd__csv_columns(j->csv); k++)
        if (j->value[k]) gd__text_put(out, "%.17g,", ((const double *)gd_data(j->value[k]))[i]);
    gd__text_put(out, "%.17g,%.17g,%.17g,", y[i], fitted, residual);
    if (isfinite(standardized)) gd__text_put(out, "%.17g", standardized);
    gd__text_char(out, '\n');
}

gd_tensor *gd__fit_fitted(gd_fit_job *j)
{
    gd_no_grad_begin(j->ctx);
    gd_tensor *t = gd_copy(gd_expand(gd__fit_model(j, j->param), 1, (int64_t[]){gd_numel(j->y)}));
    gd_no_grad_end(j->ctx);
    return t;
}

gd_status gd__fit_write_residuals(gd_fit_job *j)
{
    gd_text text = gd__text(j->ctx);
    gd_scope_begin(j->ctx);
    gd_tensor *fitted = gd__fit_fitted(j);
    gd_status status = fitted ? GD_OK : gd_error(j->ctx);
    const double *f = fitted ? gd_data(fitted) : NULL;
    if (f) put_names(j, &text);
    for (int64_t row = 0, i = 0; f && row < gd__csv_rows(j->csv) && !text.failed; row++) {
        if (j->drop[row]) continue;
        gd__text_put(&text, "%lld,", (long long)gd__csv_line(j->csv, row));
        put_row(j, &text, i, f[i]);
        i++;
    }
    gd_scope_end(j->ctx);
    if (!status && text.failed) status = GD_NOMEM;
    if (!status) status = gd__write_output(j->ctx, j->residuals, gd__text_string(&text), text.used);
    gd__text_free(&text);
    return status;
}
