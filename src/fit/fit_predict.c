/* Predictions of a saved fit for new rows: the model, a confidence interval of its curve and a prediction interval of a new
 * measurement: value -+ t sqrt(g' C g) and value -+ t sqrt(g' C g + s^2), s the standard deviation of a measurement, with
 * errors in x the root of sy^2 + (f' sx)^2. */
#include "base/text/number.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"
#include "optim/vector/jacobian.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- errors of values ---- */

double gd__fit_error(const double *covariance, int64_t n, const double *g)
{
    double sum = 0;
    for (int64_t a = 0; a < n; a++)
        for (int64_t b = 0; b < n && g[a] != 0; b++)
            if (g[b] != 0) sum += g[a] * covariance[a * n + b] * g[b];
    return sqrt(sum);
}

gd_status gd__fit_band(gd_tensor *values, gd_tensor *const *params, int count, const gd_tensor *covariance,
                       double *error)
{
    gd_ctx *ctx = gd_tensor_ctx(values);
    int64_t rows = gd_numel(values), n = gd_size(covariance, 0);
    gd_tensor *slopes = gd__jacobian_matrix(values, params, count);
    double *g = slopes ? gd__alloc_array(ctx, (size_t)(rows * n), sizeof *g) : NULL;
    gd_status status = !slopes ? gd_error(ctx) : !g ? GD_NOMEM : gd_read_f64(slopes, g, rows * n);
    for (int64_t i = 0; i < rows && !status; i++) error[i] = gd__fit_error(gd_data(covariance), n, g + i * n);
    gd__free(ctx, g, (size_t)(rows * n) * sizeof *g);
    return status;
}

/* ---- a prediction ---- */

typedef gd_fit_prediction saved;

struct gd_fit_prediction {
    gd_ctx *ctx;
    const gd_archive *archive; /* borrowed, like everything derived from it */
    const char *path;          /* of the fit */
    const gd_csv *csv;         /* borrowed */
    gd_fit *function;          /* whose model is one; NULL: the archive has the model */
    gd_expr *model;
    /* parameters, columns, constants; borrowed from the archive; followed by the y of 'y = f', which has no value */
    const char *name[2 * GD_FIT_PARAMS + 1];
    gd_tensor *value[2 * GD_FIT_PARAMS + 1]; /* owned */
    int params, columns, names;
    const char *y;
    double t, sigma; /* NAN: not known */
    double *curve, *error,
        *spread; /* values, their errors, deviations of measurements (NAN: not known), [rows]; one block */
    int64_t rows;
};

bool gd__fit_is_saved(const gd_archive *archive)
{
    return gd_archive_get_meta(archive, "model") && gd_archive_get_meta(archive, "fit.param.0");
}

/* ---- reading the file ---- */

static gd_status broken(const saved *s, const char *what)
{
    return gd_fail(s->ctx, GD_FORMAT, "predict: %.200s: its %s does not fit the model", s->path, what);
}

/* A number of the file, NAN if it is missing. */
static double saved_number(const saved *s, const char *key)
{
    const char *text = gd_archive_get_meta(s->archive, key);
    double value;
    return text && gd__parse_number(text, strlen(text), true, &value) == strlen(text) ? value : NAN;
}

/* Names fit.WHAT.0, fit.WHAT.1, ... after the existing ones; returns their number. */
static int take_names(saved *s, const char *what)
{
    const char *name;
    char key[40];
    int count = 0;
    for (; s->names < 2 * GD_FIT_PARAMS; s->name[s->names++] = name, count++) {
        (void)snprintf(key, sizeof key, "fit.%s.%d", what, count);
        if (!(name = gd_archive_get_meta(s->archive, key))) break;
    }
    return count;
}

/* A copy of a tensor of the file; parameters want gradients. */
static gd_status take_value(saved *s, int i, gd_tensor *t, bool wants_grad)
{
    if (!t || gd_tensor_dtype(t) != GD_F64) return broken(s, s->name[i]);
    s->value[i] = gd_copy(t);
    return s->value[i] && (!wants_grad || gd_require_grad(s->value[i])) ? GD_OK : gd_error(s->ctx);
}

static gd_status take_constants(saved *s)
{
    gd_status status = GD_OK;
    for (int64_t i = 0; i < gd_archive_count(s->archive) && !status; i++) {
        const char *name = gd_archive_name(s->archive, i);
        if (strncmp(name, "fit.fix.", 8) != 0) continue;
        if (s->names == 2 * GD_FIT_PARAMS) return broken(s, "list of constants");
        s->name[s->names++] = name + 8;
        status = take_value(s, s->names - 1, gd_archive_get(s->archive, i), false);
    }
    return status;
}

static gd_status take_model(saved *s)
{
    const char *text = gd_archive_get_meta(s->archive, "model"),
               *defined = gd_archive_get_meta(s->archive, "fit.def");
    s->params = take_names(s, "param");
    gd_status status = GD_OK;
    for (int i = 0; i < s->params && !status; i++)
        status = take_value(s, i, gd_archive_find(s->archive, s->name[i]), true);
    s->columns = take_names(s, "column");
    if (!status) status = take_constants(s);
    if (status) return status;
    s->y = gd_archive_get_meta(s->archive, "fit.y");
    if (!s->y && gd_archive_get_meta(s->archive, "fit.noise.0"))
        return gd_fail(s->ctx, GD_VALUE, "predict: %.200s is a fit of an equation: there is no y to predict",
                       s->path);
    s->name[s->names] = s->y ? s->y : "";
    gd_expr_options options = {
        .names = s->name, .count = s->names + 1, .definitions = defined, .file = defined ? s->path : NULL};
    if (!s->function) s->model = gd__expr_parse_form(s->ctx, text, &options, GD_EXPR_RIGHT);
    s->t = saved_number(s, "fit.t");
    s->sigma = saved_number(s, "fit.sigma");
    if (!s->model && !s->function) return gd_error(s->ctx);
    return s->y ? GD_OK : broken(s, "'fit.y'");
}

/* ---- new rows ---- */

/* The origin of a column of dates: days:2024-02-29; NULL: the column has no dates. */
static const char *saved_date(const saved *s, const char *name)
{
    gd_text key = gd__text(s->ctx);
    gd__text_put(&key, "fit.date.%s", name);
    const char *text = key.failed ? NULL : gd_archive_get_meta(s->archive, key.data);
    gd__text_free(&key);
    return text;
}

static gd_status read_column(const saved *s, const char *name, int index, double *out)
{
    const char *text = saved_date(s, name);
    gd_fit_date date;
    if (gd_error(s->ctx)) return gd_error(s->ctx);
    if (!text) return gd__csv_numbers(s->csv, index, false, out);
    if (!gd__fit_date_parse(text, &date) || isnan(date.origin)) return broken(s, "origin of dates");
    return gd__fit_dates(s->ctx, NULL, s->csv, index, false, &date, out);
}

static gd_tensor *new_column(const saved *s, const char *name)
{
    int index = gd__csv_column(s->csv, name);
    gd_tensor *t = index < 0 ? NULL : gd_empty(s->ctx, GD_F64, 1, &s->rows);
    if (t && read_column(s, name, index, gd_data_mut(t)) == GD_OK) return t;
    gd_release(t);
    return NULL;
}

/* A column of the fit; NULL with a warning, not an error, if the new table lacks it. */
static gd_tensor *old_column(const saved *s, const char *name)
{
    if (gd__csv_find(s->csv, name) >= 0) return new_column(s, name);
    gd_warn(s->ctx, "predict: no column '%.60s' in %s: no prediction bands", name, gd__csv_source(s->csv));
    return NULL;
}

/* Standard deviations of new measurements: sigma, by the weights or deviations of the rows if the fit had such a column; unknown if the
 * new table lacks it. */
static gd_status read_spread(saved *s)
{
    const char *weights = gd_archive_get_meta(s->archive, "fit.weights"),
               *deviations = gd_archive_get_meta(s->archive, "fit.deviations"),
               *name = weights ? weights : deviations;
    for (int64_t i = 0; i < s->rows; i++) s->spread[i] = s->sigma;
    if (!name) return GD_OK;
    gd_tensor *t = old_column(s, name);
    if (gd_error(s->ctx)) return gd_error(s->ctx);
    const double *v = t ? gd_data(t) : NULL;
    for (int64_t i = 0; i < s->rows; i++) s->spread[i] *= !v ? NAN : weights ? 1 / sqrt(v[i]) : v[i];
    gd_release(t);
    return GD_OK;
}

/* ---- errors in x ---- */

/* Column and errors of fit.noise.K, NAME=COLUMN or NAME=NUMBER: the place of the column, its errors in the new rows (new; NULL without an
 * error: not known); -1: there is no such K. */
static int saved_noise(const saved *s, int k, gd_tensor **errors)
{
    char key[40];
    (void)snprintf(key, sizeof key, "fit.noise.%d", k);
    const char *text = gd_archive_get_meta(s->archive, key), *equals = text ? strchr(text, '=') : NULL;
    double number;
    *errors = NULL;
    for (int i = s->params; equals && i < s->params + s->columns; i++) {
        size_t length = (size_t)(equals - text);
        if (strlen(s->name[i]) != length || memcmp(s->name[i], text, length) != 0) continue;
        *errors = gd__is_number(equals + 1, strlen(equals + 1), false, &number)
                      ? gd_full(s->ctx, GD_F64, 1, &s->rows, number)
                      : old_column(s, equals + 1);
        return i;
    }
    return -1;
}

/* Adds to the spread of new measurements what errors in x do to them. */
static gd_status add_noise_of_x(saved *s, gd_tensor *curve)
{
    gd_tensor *errors;
    double *more = gd__alloc_array(s->ctx, (size_t)s->rows, sizeof *more);
    gd_status status = more ? GD_OK : GD_NOMEM;
    for (int k = 0, at; !status && (at = saved_noise(s, k, &errors)) >= 0; k++) {
        status = gd_error(s->ctx);
        if (!status && errors) status = gd__fit_noise_in_y(curve, s->value[at], gd_data(errors), more);
        for (int64_t i = 0; i < s->rows && !status; i++)
            s->spread[i] = errors ? hypot(s->spread[i], s->sigma * more[i]) : NAN;
        gd_release(errors);
    }
    gd__free(s->ctx, more, (size_t)s->rows * sizeof *more);
    return status;
}

static gd_status read_rows(saved *s)
{
    if (!(s->rows = gd__csv_rows(s->csv)))
        return gd_fail(s->ctx, GD_FORMAT, "%s: no rows", gd__csv_source(s->csv));
    for (int i = s->params; i < s->params + s->columns; i++)
        if (!(s->value[i] = new_column(s, s->name[i]))) return gd_error(s->ctx);
    if (!(s->curve = gd__alloc_array(s->ctx, (size_t)s->rows, 3 * sizeof(double)))) return GD_NOMEM;
    s->error = s->curve + s->rows;
    s->spread = s->error + s->rows;
    return read_spread(s);
}

/* The model at the rows. */
static gd_tensor *curve_of(saved *s)
{
    gd_fit *j = s->function;
    if (!j) return gd_expr_eval(s->model, s->value, GD_F64);
    gd_tensor **value = gd__calloc(s->ctx, j->name_bytes);
    if (!value) return NULL;
    for (int i = 0; i < j->names; i++)
        value[i] = i < j->params + gd__csv_columns(j->csv) ? NULL : j->value[i];
    for (int i = 0; i < s->params; i++) value[i] = s->value[i];
    for (int i = s->params; i < s->params + s->columns; i++)
        value[j->params + gd__csv_find(j->csv, s->name[i])] = s->value[i];
    gd_tensor *curve = gd__fit_eval(j, NULL, value);
    gd__free(s->ctx, value, j->name_bytes);
    return curve;
}

gd_status gd__fit_prediction_run(saved *s)
{
    gd_tensor *covariance = gd_archive_find(s->archive, "fit.covariance");
    int64_t n = 0;
    for (int i = 0; i < s->params; i++) n += gd_numel(s->value[i]);
    if (covariance && (gd_ndim(covariance) != 2 || gd_size(covariance, 0) != n ||
                       gd_size(covariance, 1) != n || gd_tensor_dtype(covariance) != GD_F64))
        return broken(s, "covariance");
    gd_scope_begin(s->ctx);
    bool noisy = gd_archive_get_meta(s->archive, "fit.noise.0") != NULL;
    for (int i = s->params; i < s->params + s->columns && noisy; i++) (void)gd_require_grad(s->value[i]);
    gd_tensor *curve = gd_expand(curve_of(s), 1, &s->rows);
    curve = gd_reshape(curve, 1, &s->rows);
    gd_status status = curve ? gd_read_f64(curve, s->curve, s->rows) : gd_error(s->ctx);
    for (int64_t i = 0; i < s->rows; i++) s->error[i] = NAN;
    if (!status && covariance && gd_requires_grad(curve))
        status = gd__fit_band(curve, s->value, s->params, covariance, s->error);
    if (!status && noisy) status = add_noise_of_x(s, curve);
    gd_scope_end(s->ctx);
    return status;
}

/* ---- results ---- */

void gd__fit_bands(const gd_fit_prediction *s, int64_t i, double out[5])
{
    const double half[2] = {s->t * s->error[i], s->t * hypot(s->error[i], s->spread[i])};
    out[0] = s->curve[i];
    for (int k = 0; k < 4; k++) {
        double h = isnan(half[k / 2]) ? INFINITY : half[k / 2];
        out[1 + k] = k % 2 ? out[0] + h : out[0] - h;
    }
}

const char *gd__fit_prediction_y(const gd_fit_prediction *s) { return s->y; }
int64_t gd__fit_prediction_rows(const gd_fit_prediction *s) { return s->rows; }
gd_tensor *gd__fit_prediction_column(const gd_fit_prediction *s, const char *name)
{
    return new_column(s, name);
}

gd_fit_prediction *gd__fit_predict(gd_ctx *ctx, const gd_archive *archive, const char *path,
                                   const gd_csv *csv, gd_fit *function)
{
    saved *s = gd__calloc(ctx, sizeof *s);
    if (!s) return NULL;
    *s = (saved){.ctx = ctx, .archive = archive, .path = path, .csv = csv, .function = function};
    gd_status status = take_model(s);
    if (!status) status = read_rows(s);
    if (!status) return s;
    gd__fit_prediction_free(s);
    return NULL;
}

void gd__fit_prediction_free(gd_fit_prediction *s)
{
    if (!s) return;
    gd_expr_free(s->model);
    for (int i = 0; i < s->names; i++) gd_release(s->value[i]);
    gd__free(s->ctx, s->curve, (size_t)s->rows * 3 * sizeof(double));
    gd__free(s->ctx, s, sizeof *s);
}

/* ---- for programs ---- */

static gd_tensor *bands_of(const gd_fit_prediction *p)
{
    static const char *const labels[] = {"value", "confidence_low", "confidence_high", "prediction_low",
                                         "prediction_high"};
    int64_t size[] = {p->rows, 5};
    gd_tensor *t = gd_empty(p->ctx, GD_F64, 2, size);
    double *to = t ? gd_data_mut(t) : NULL;
    for (int64_t i = 0; i < p->rows && to; i++) gd__fit_bands(p, i, to + 5 * i);
    gd__aside_begin(p->ctx);
    gd_tensor *named = gd_with_labels(gd_rename(t, "row, band"), "band", labels);
    named = gd__aside_leave(p->ctx, named);
    gd_release(t);
    return named;
}

gd_tensor *gd_fit_predict(gd_fit *fit, gd_table *table)
{
    if (!fit || gd_error(fit->ctx)) return NULL;
    if (!table) return gd__refuse(fit->ctx, GD_ARGUMENT, "gd_fit_predict: no table");
    if (fit->state != GD_FIT_LOADED && gd__fit_check_done(fit)) return NULL;
    gd_archive *archive = fit->texts.archive ? fit->texts.archive : gd__fit_archive(fit);
    gd_fit_prediction *p = archive ? gd__fit_predict(fit->ctx, archive,
                                                     fit->texts.path ? fit->texts.path : "the fit", table,
                                                     fit->spec.function ? fit : NULL)
                                   : NULL;
    gd_tensor *t = p && gd__fit_prediction_run(p) == GD_OK ? bands_of(p) : NULL;
    gd__fit_prediction_free(p);
    if (!fit->texts.archive) gd_archive_free(archive);
    return t;
}
