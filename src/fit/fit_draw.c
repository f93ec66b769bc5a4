/* What gradus fit draws: data with their errors, the curve over them with its band and that of new measurements, and in a panel below
 * the residual of each row. */
#include "base/text/number.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>

enum { DATA, FIT, MEASURED = 7 }; /* inks */

/* Standard errors of the curve; VALUE where parameters are not determined. */
static gd_status band(gd_fit *j, gd_tensor *curve, int64_t count, double *error)
{
    curve = gd_reshape(gd_expand(curve, 1, &count), 1, &count);
    gd_status status = curve ? gd__fit_band(curve, j->param, j->params, j->fit.covariance, error)
                             : gd_error(j->ctx);
    for (int64_t i = 0; i < count && !status; i++)
        if (!isfinite(error[i])) status = GD_VALUE;
    return status;
}

/* The value that all rows share; NAN if they differ. */
static double common(const double *v, int64_t rows)
{
    for (int64_t i = 1; i < rows; i++)
        if (v[i] != v[0]) return NAN;
    return rows ? v[0] : NAN;
}

/* Standard deviations of a new measurement along the curve: of y, and of x times the slope.  False: rows have different deviations, so that
 * there is no common band. errors: memory for as many. */
static bool measured_spread(const gd_fit *j, gd_tensor *curve, const gd_fit_line *line, double *spread,
                            double *errors)
{
    const double *noise = gd__fit_noise_of(j, line->x), unit = j->absolute ? 1 : j->fit.sigma;
    int64_t rows = gd_numel(j->y);
    double of_y = j->scale ? 1 / common(gd_data(j->scale), rows) : 1;
    for (int64_t i = 0; i < line->count; i++) spread[i] = 0, errors[i] = noise ? common(noise, rows) : 0;
    if (!isfinite(of_y * unit * errors[0])) return false;
    if (noise && gd__fit_noise_in_y(curve, j->value[line->x], errors, spread)) return false;
    for (int64_t i = 0; i < line->count; i++) spread[i] = unit * hypot(of_y, spread[i]);
    return true;
}

/* value -+ t sqrt(error^2 + spread^2); low and high: room for as many. */
static void put_band(const gd_fit *j, gd_plot *plot, int ink, const char *label, const gd_fit_line *line,
                     const double *error, const double *spread, double *low, double *high)
{
    for (int64_t i = 0; i < line->count; i++) {
        double half = j->t * hypot(error[i], spread ? spread[i] : 0);
        low[i] = line->ys[i] - half, high[i] = line->ys[i] + half;
    }
    gd_plot_ink(plot, ink);
    gd_plot_band(plot, label, line->xs, low, high, (size_t)line->count);
}

gd_status gd__fit_bars(const gd_fit *j, double **half)
{
    size_t rows = (size_t)gd_numel(j->y);
    *half = NULL;
    if (!j->spec.sigma) return GD_OK;
    if (!(*half = gd__alloc_array(j->ctx, rows, sizeof **half))) return GD_NOMEM;
    for (size_t i = 0; i < rows; i++) (*half)[i] = 1 / ((const double *)gd_data(j->scale))[i];
    return GD_OK;
}

/* Data over x: with bars where --sigma, and of the column at `place` --x-errors, give their lengths. */
static gd_status put_data(gd_fit *j, gd_plot *plot, const double *x, int place)
{
    size_t rows = (size_t)gd_numel(j->y);
    double *half;
    gd_status status = gd__fit_bars(j, &half);
    if (status) return status;
    gd_plot_ink(plot, DATA);
    gd_plot_errors(plot, "data", x, gd_data(j->y), place < 0 ? NULL : gd__fit_noise_of(j, place), half, rows);
    gd__free(j->ctx, half, half ? rows * sizeof *half : 0);
    return GD_OK;
}

/* The bands around the line.  part: four times room for its points. */
static gd_status draw_bands(gd_fit *j, gd_plot *plot, const gd_fit_line *line, double *part)
{
    int64_t count = line->count;
    double *error = part, *spread = part + count, *low = part + 2 * count, *high = part + 3 * count;
    gd_tensor *data = j->value[line->x];
    gd_scope_begin(j->ctx);
    j->value[line->x] = gd_from_f64(j->ctx, GD_F64, 1, &count, line->xs);
    gd_expr_forget(j->model);
    if (gd__fit_noise_of(j, line->x)) j->value[line->x] = gd_require_grad(j->value[line->x]);
    gd_tensor *curve = j->value[line->x] ? gd__fit_model(j, j->param) : NULL;
    gd_status status = curve ? GD_OK : gd_error(j->ctx);
    bool has_band = !status && band(j, curve, count, error) == GD_OK;
    bool has_spread = has_band && measured_spread(j, curve, line, spread, low);
    if (gd_error(j->ctx) == GD_NOMEM) status = GD_NOMEM;
    if (!status) gd_clear_error(j->ctx); /* a picture without the unknown parts */
    gd_expr_forget(j->model);
    j->value[line->x] = data;
    gd_scope_end(j->ctx);
    if (status) return status;
    char of_measurements[60], of_curve[60];
    (void)gd__format(of_measurements, sizeof of_measurements, "%g %% of new measurements",
                     100 * j->spec.level);
    (void)gd__format(of_curve, sizeof of_curve, "%g %% band of the curve", 100 * j->spec.level);
    if (has_spread) put_band(j, plot, MEASURED, of_measurements, line, error, spread, low, high);
    if (has_band) put_band(j, plot, FIT, of_curve, line, error, NULL, low, high);
    return GD_OK;
}

/* The curve over the range of the one column. */
static gd_status draw_curve(gd_fit *j, gd_plot *plot, int x)
{
    gd_fit_line line = {.x = x, .set = -1};
    const double *data = gd_data(j->value[x]);
    gd_status status = gd__fit_curve(j, &line, data, gd_numel(j->value[x]));
    if (!status && j->fit.covariance && isfinite(j->t)) {
        size_t bytes = 4 * (size_t)line.count * sizeof(double);
        double *part = gd__alloc(j->ctx, bytes);
        status = part ? draw_bands(j, plot, &line, part) : GD_NOMEM;
        gd__free(j->ctx, part, part ? bytes : 0);
    }
    if (!status) status = put_data(j, plot, data, x);
    gd_plot_ink(plot, FIT);
    if (!status) gd_plot_line(plot, "fit", line.xs, line.ys, (size_t)line.count);
    gd__fit_curve_close(&line);
    return status;
}

/* Several columns: measured over fitted values, with the line where they agree. */
static gd_status draw_agreement(gd_fit *j, gd_plot *plot, const double *fitted)
{
    double ends[2] = {INFINITY, -INFINITY};
    const double *y = gd_data(j->y);
    for (int64_t i = 0; i < gd_numel(j->y); i++)
        ends[0] = fmin(ends[0], fmin(y[i], fitted[i])), ends[1] = fmax(ends[1], fmax(y[i], fitted[i]));
    gd_status status = put_data(j, plot, fitted, -1);
    gd_plot_ink(plot, FIT);
    gd_plot_line(plot, "agreement", ends, ends, 2);
    return status;
}

/* The residual of each row, over x or over the fitted values. */
static gd_status draw_residuals(gd_fit *j, gd_plot *plot, const double *x, const double *fitted,
                                const char *name)
{
    size_t rows = (size_t)gd_numel(j->y);
    const double *y = gd_data(j->y);
    double *left = gd__alloc_array(j->ctx, rows, sizeof *left), ends[2] = {INFINITY, -INFINITY};
    gd_plot *panel = left ? gd_plot_new(j->ctx, "", name, "residual") : NULL;
    for (size_t i = 0; i < rows && panel; i++) {
        left[i] = y[i] - fitted[i];
        if (!j->log[0] || x[i] > 0) ends[0] = fmin(ends[0], x[i]), ends[1] = fmax(ends[1], x[i]);
    }
    gd_plot_ink(panel, DATA);
    gd_plot_points(panel, NULL, x, left, rows);
    gd_plot_ink(panel, FIT);
    gd_plot_line(panel, NULL, ends, (const double[]){0, 0}, 2);
    gd_status status = panel ? GD_OK : GD_NOMEM;
    gd_plot_below(plot, panel);
    gd__free(j->ctx, left, rows * sizeof *left);
    return status;
}

/* Numbers below 0 have no place on a logarithmic axis. */
static gd_status check_log(gd_fit *j, const char *axis, const double *v, bool log)
{
    for (int64_t i = 0; i < gd_numel(j->y) && log; i++)
        if (v[i] < 0)
            return gd_fail(j->ctx, GD_VALUE, "fit: %g has no place on a logarithmic %s axis", v[i], axis);
    return GD_OK;
}

const char *gd__fit_axis_name(const gd_fit *j, const char *name)
{
    int column = gd__csv_find(j->csv, name);
    return column < 0 ? name : gd__csv_name(j->csv, column);
}

/* The whole picture, except for equations. */
static gd_status fill_plot(gd_fit *j, gd_plot *plot, gd_tensor *fitted, int x, int set)
{
    const double *f = gd_data(fitted), *xs = x >= 0 ? gd_data(j->value[x]) : f;
    gd_plot_log(plot, j->log[0], j->log[1]);
    if (x >= 0) gd__fit_date_axis(j, plot, 0, x);
    gd_status status = check_log(j, "x", xs, j->log[0]);
    if (!status) status = check_log(j, "y", gd_data(j->y), j->log[1]);
    if (!status)
        status = set >= 0 ? gd__fit_draw_sets(j, plot, x, set)
                 : x >= 0 ? draw_curve(j, plot, x)
                          : draw_agreement(j, plot, f);
    if (!status)
        status = draw_residuals(j, plot, xs, f, x >= 0 ? gd__fit_axis_name(j, j->name[x]) : "fitted");
    return status;
}

gd_plot *gd__fit_plot(gd_fit *j, const gd_fit_picture *how)
{
    j->log[0] = how && how->log_x, j->log[1] = how && how->log_y;
    if (!j->y_name) return gd__fit_plot_equation(j);
    int x = gd__fit_only_column(j), set = -1;
    if (x < 0 && !gd__fit_has_sets(j, &x, &set)) x = set = -1;
    gd_scope_begin(j->ctx);
    gd_tensor *fitted = gd__fit_fitted(j);
    gd_plot *plot = fitted ? gd_plot_new(j->ctx, j->spec.model, "", gd__fit_axis_name(j, j->y_name)) : NULL;
    gd_status status = plot ? fill_plot(j, plot, fitted, x, set) : GD_NOMEM;
    gd_scope_end(j->ctx);
    if (!status) return plot;
    gd_plot_free(plot);
    return NULL;
}

gd_plot *gd_fit_plot(gd_fit *fit, const gd_fit_picture *how)
{
    return gd__fit_check_done(fit) ? NULL : gd__fit_plot(fit, how);
}

gd_status gd_fit_draw(gd_fit *fit, const char *path, const gd_fit_picture *how)
{
    gd_status status = gd__fit_check_done(fit);
    if (status) return status;
    if (!path) return gd__null(fit->ctx, "gd_fit_draw");
    gd_plot *plot = gd_fit_plot(fit, how);
    status = plot                 ? gd_plot_save(plot, path, how && how->dark)
             : gd_error(fit->ctx) ? gd_error(fit->ctx)
                                  : GD_NOMEM;
    gd_plot_free(plot);
    return status;
}
