/* What gradus fit draws. */
#include "cli/fit/fit.h"

#include <math.h>

#define CURVE 241 /* points of a drawn curve */

/* Half the width of the band of the curve. */
static gd_status band(gd_fit_job *j, gd_tensor *curve, double *half)
{
    curve = gd_reshape(gd_expand(curve, 1, (int64_t[]){CURVE}), 1, (int64_t[]){CURVE});
    gd_status status = curve ? gd__fit_band(curve, j->param, j->params, j->fit.covariance, half)
                             : gd_error(j->ctx);
    for (int i = 0; i < CURVE && !status; i++) {
        half[i] *= j->t;
        if (!isfinite(half[i])) status = GD_VALUE; /* parameters that are not determined: no band */
    }
    return status;
}

/* The curve over the range of the one column, with its band, under the points. */
static gd_status draw_curve(gd_fit_job *j, gd_plot *plot, int x)
{
    double xs[CURVE], ys[CURVE], half[CURVE], low[CURVE], high[CURVE];
    gd_tensor *data = j->value[x];
    const double *v = gd_data(data);
    double first = INFINITY, last = -INFINITY;
    for (int64_t i = 0; i < gd_numel(data); i++) first = fmin(first, v[i]), last = fmax(last, v[i]);
    gd_scope_begin(j->ctx);
    j->value[x] = gd_linspace(j->ctx, GD_F64, first, last, CURVE);
    gd__expr_forget(j->model);
    gd_tensor *curve = j->value[x] ? gd__fit_model(j, j->param) : NULL;
    gd_status status = curve ? gd_read_f64(j->value[x], xs, CURVE) : gd_error(j->ctx);
    if (!status) status = gd_read_f64(curve, ys, CURVE);
    bool has_band = !status && j->fit.covariance && isfinite(j->t) && band(j, curve, half) == GD_OK;
    if (!status && !has_band) gd_clear_error(j->ctx);
    for (int i = 0; i < CURVE && has_band; i++) low[i] = ys[i] - half[i], high[i] = ys[i] + half[i];
    gd__expr_forget(j->model);
    j->value[x] = data;
    gd_scope_end(j->ctx);
    if (status) return status;
    if (has_band) gd__plot_band(plot, "95 % band of the curve", xs, low, high, CURVE);
    gd__plot_line(plot, "fit", xs, ys, CURVE);
    gd__plot_points(plot, "data", v, gd_data(j->y), (size_t)gd_numel(j->y));
    return GD_OK;
}

/* Several columns: measured over fitted values, with the line where they agree. */
static gd_status draw_agreement(gd_fit_job *j, gd_plot *plot)
{
    int64_t rows = gd_numel(j->y);
    double ends[2] = {INFINITY, -INFINITY};
    const double *y = gd_data(j->y);
    gd_scope_begin(j->ctx);
    gd_tensor *fitted = gd__fit_fitted(j);
    if (fitted) {
        const double *f = gd_data(fitted);
        for (int64_t i = 0; i < rows; i++)
            ends[0] = fmin(ends[0], fmin(y[i], f[i])), ends[1] = fmax(ends[1], fmax(y[i], f[i]));
        gd__plot_line(plot, "agreement", ends, ends, 2);
        gd__plot_points(plot, "data", f, y, (size_t)rows);
    }
    gd_scope_end(j->ctx);
    return fitted ? GD_OK : gd_error(j->ctx);
}

/* The name of a column with its unit. */
static const char *axis_name(const gd_fit_job *j, const char *name)
{
    int column = gd__csv_find(j->csv, name);
    return column < 0 ? name : gd__csv_name(j->csv, column);
}

gd_status gd__fit_draw(gd_fit_job *j)
{
    int x = gd__fit_only_column(j), set = -1;
    bool sets = x < 0 && gd__fit_has_sets(j, &x, &set);
    if (!sets) x = gd__fit_only_column(j);
    const char *y = gd__args_get(j->args, "y");
    gd_plot *plot = gd__plot_new(j->ctx, j->args->argument[0], x >= 0 ? axis_name(j, j->name[x]) : "fitted",
                                 axis_name(j, y ? y : "y"));
    if (!plot) return GD_NOMEM;
    gd_status status = sets     ? gd__fit_draw_sets(j, plot, x, set)
                       : x >= 0 ? draw_curve(j, plot, x)
                                : draw_agreement(j, plot);
    if (!status) status = gd__plot_save(plot, j->plot, false);
    gd__plot_free(plot);
    return status;
}
