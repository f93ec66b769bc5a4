/* Results of a fit for programs, and saved fits. */
#include "base/special.h"
#include "base/text/number.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

gd_status gd__fit_check_done(gd_fit *j)
{
    if (!j) return GD_ARGUMENT;
    if (gd_error(j->ctx)) return gd_error(j->ctx);
    if (j->state == GD_FIT_DONE) return GD_OK;
    return gd_fail(j->ctx, GD_VALUE, "fit: %s",
                   j->state == GD_FIT_LOADED  ? "a fit that was loaded has no data"
                   : j->state == GD_FIT_READY ? "it was not run"
                                              : "it did not run to its end");
}

/* The same, but loaded fits are fine. */
static gd_status check_known(gd_fit *j)
{
    return j && j->state == GD_FIT_LOADED ? gd_error(j->ctx) : gd__fit_check_done(j);
}

/* ---- estimates ---- */

int64_t gd_fit_count(const gd_fit *fit) { return fit ? fit->element.count : 0; }
int64_t gd_fit_derived(const gd_fit *fit) { return fit ? fit->derived_count : 0; }

void gd__fit_element_name(const gd_fit *j, int param, int64_t element, char out[96])
{
    if (gd_ndim(j->param[param]) == 0)
        (void)snprintf(out, 96, "%.80s", j->name[param]);
    else
        (void)snprintf(out, 96, "%.60s[%lld]", j->name[param], (long long)element);
}

/* The probability of a larger |t| if the true value is 0. */
static void test_zero(const gd_fit *j, gd_fit_estimate *e)
{
    e->t = e->value / e->error;
    if (!isfinite(e->error) || !(e->error > 0))
        e->t = e->p = NAN;
    else if (j->absolute)
        e->p = erfc(fabs(e->t) / sqrt(2));
    else
        e->p = j->fit.dof > 0 ? gd__f_tail(e->t * e->t, 1, (double)j->fit.dof) : NAN;
}

static void get_derived(const gd_fit *j, int64_t i, gd_fit_estimate *out)
{
    const gd_derived *d = &j->derived[i];
    *out = (gd_fit_estimate){.name = d->name,
                             .value = d->value,
                             .error = d->error,
                             .low = d->value - j->t * d->error,
                             .high = d->value + j->t * d->error};
}

gd_status gd_fit_get(gd_fit *j, int64_t i, gd_fit_estimate *out)
{
    gd_status status = check_known(j);
    if (status) return status;
    if (!out) return gd__null(j->ctx, "gd_fit_get");
    if (i < 0 || i >= j->element.count + j->derived_count)
        return gd_fail(j->ctx, GD_INDEX, "fit: there is no estimate %lld of %lld", (long long)i,
                       (long long)(j->element.count + j->derived_count));
    if (i >= j->element.count) {
        get_derived(j, i - j->element.count, out);
    } else {
        int64_t element = i;
        int param = 0;
        for (; element >= gd_numel(j->param[param]); param++) element -= gd_numel(j->param[param]);
        gd__fit_element_name(j, param, element, j->shown);
        *out = (gd_fit_estimate){.name = j->shown,
                                 .value = j->element.x[i],
                                 .error = j->element.active[i] != 0 ? NAN : j->element.error[i],
                                 .low = j->element.interval[2 * i],
                                 .high = j->element.interval[2 * i + 1],
                                 .active = (int)j->element.active[i],
                                 .undetermined = j->element.flat[i] != 0};
    }
    test_zero(j, out);
    return GD_OK;
}

gd_status gd_fit_summarise(gd_fit *j, gd_fit_summary *out)
{
    gd_status status = check_known(j);
    if (status) return status;
    if (!out) return gd__null(j->ctx, "gd_fit_summarise");
    const gd_fit_numbers *n = &j->numbers;
    *out = (gd_fit_summary){.points = j->fit.residuals,
                            .dof = j->fit.dof,
                            .free = j->fit.free,
                            .rank = j->fit.rank,
                            .rss = j->fit.rss,
                            .sigma = j->fit.sigma,
                            .r2 = j->r2,
                            .log_likelihood = n->log_likelihood,
                            .aic = n->aic,
                            .aicc = n->aicc,
                            .bic = n->bic,
                            .chi_square_p = n->p,
                            .scale = j->fit.scale,
                            .missing = j->left_out.missing,
                            .excluded = j->left_out.excluded,
                            .weightless = j->left_out.weightless,
                            .steps = j->fit.solve.steps,
                            .evals = j->fit.solve.evals,
                            .seconds = j->fit.solve.seconds,
                            .stop = j->fit.solve.reason,
                            .converged = gd_stop_converged(j->fit.solve.reason),
                            .reason = gd__fit_stop_text(j)};
    return GD_OK;
}

static gd_status check_covariance(gd_fit *j)
{
    gd_status status = check_known(j);
    if (status || j->fit.covariance) return status;
    return gd_fail(j->ctx, GD_VALUE, "fit: there is no covariance");
}

/* A matrix of the elements, filled from the covariance c[a, b]. */
static gd_tensor *matrix(gd_fit *j, double (*of)(const gd_fit *j, const double *c, int64_t a, int64_t b))
{
    if (check_covariance(j)) return NULL;
    int64_t n = j->element.count, size[] = {n, n};
    gd_tensor *out = gd_empty(j->ctx, GD_F64, 2, size);
    const double *c = gd_data(j->fit.covariance);
    double *to = out ? gd_data_mut(out) : NULL;
    for (int64_t k = 0; to && k < n * n; k++) to[k] = of(j, c, k / n, k % n);
    return out;
}

static double as_it_is(const gd_fit *j, const double *c, int64_t a, int64_t b)
{
    return c[a * j->element.count + b];
}

double gd__fit_correlation(const gd_fit *j, const double *c, int64_t a, int64_t b)
{
    int64_t n = j->element.count;
    double value = c[a * n + b];
    if (a == b) return isfinite(value) && value > 0 ? 1 : NAN;
    double scale = sqrt(c[a * n + a]) * sqrt(c[b * n + b]);
    return isfinite(scale) && scale > 0 ? value / scale : NAN;
}

gd_tensor *gd_fit_covariance(gd_fit *fit) { return matrix(fit, as_it_is); }
gd_tensor *gd_fit_correlation(gd_fit *fit) { return matrix(fit, gd__fit_correlation); }

/* ---- rows ---- */

typedef enum of_row { FITTED, RESIDUAL, STANDARDIZED, ROW_KINDS } of_row;

static const char *const row_names[] = {"fit.fitted", "fit.residuals", "fit.standardized"};

typedef struct rows {
    of_row what;
    double *out;
} rows;

static void take_row(gd_fit *j, void *user, int64_t line, int64_t i, double fitted)
{
    rows *r = user;
    (void)line;
    double y = ((const double *)gd_data(j->y))[i];
    r->out[i] = r->what == FITTED     ? fitted
                : r->what == RESIDUAL ? (j->x_errors.distance ? -j->x_errors.distance[i] : y - fitted)
                                      : gd__fit_standardized(j, i, fitted);
}

/* The rows of a fit that was loaded: files of gd_fit_save have them. */
static gd_tensor *saved_rows(gd_fit *j, of_row what)
{
    gd_tensor *t = gd_archive_find(j->texts.archive, row_names[what]);
    if (t && gd_tensor_dtype(t) == GD_F64 && gd_ndim(t) == 1) return gd_copy(t);
    return gd__refuse(j->ctx, GD_VALUE, "fit: %.200s has no '%s'", j->texts.path, row_names[what]);
}

static gd_tensor *of_rows(gd_fit *j, of_row what)
{
    if (j && j->state == GD_FIT_LOADED && !gd_error(j->ctx)) return saved_rows(j, what);
    if (gd__fit_check_done(j)) return NULL;
    int64_t count = gd_numel(j->y);
    gd_tensor *t = gd_empty(j->ctx, GD_F64, 1, &count);
    rows r = {.what = what, .out = t ? gd_data_mut(t) : NULL};
    if (t && gd__fit_each_row(j, &r, take_row) == GD_OK) return t;
    gd_release(t);
    return NULL;
}

gd_tensor *gd_fit_fitted(gd_fit *fit) { return of_rows(fit, FITTED); }
gd_tensor *gd_fit_residuals(gd_fit *fit) { return of_rows(fit, RESIDUAL); }
gd_tensor *gd_fit_standardized(gd_fit *fit) { return of_rows(fit, STANDARDIZED); }

gd_status gd__fit_put_rows(gd_fit *j, gd_archive *archive)
{
    gd_status status = GD_OK;
    gd_scope_begin(j->ctx);
    for (int what = 0; what < ROW_KINDS && !status; what++) {
        gd_tensor *t = of_rows(j, (of_row)what);
        status = t ? gd_archive_put(archive, row_names[what], t) : gd_error(j->ctx);
    }
    gd_scope_end(j->ctx);
    return status;
}

/* ---- text ---- */

int64_t gd_fit_report(gd_fit *fit, bool json, char *out, size_t size)
{
    if (gd__fit_check_done(fit)) return -1;
    gd_text text = gd__text(fit->ctx);
    (json ? gd__fit_put_json : gd__fit_put_table)(fit, &text);
    int64_t length = text.failed ? -1 : (int64_t)text.used;
    if (!text.failed && out && size) (void)snprintf(out, size, "%s", gd__text_string(&text));
    gd__text_free(&text);
    return length;
}

/* ---- fits that were saved ---- */

static double saved_number(const gd_fit *j, const char *key)
{
    const char *text = gd_archive_get_meta(j->texts.archive, key);
    double value;
    return text && gd__parse_number(text, strlen(text), true, &value) == strlen(text) ? value : NAN;
}

static int64_t saved_count(const gd_fit *j, const char *key)
{
    double value = saved_number(j, key);
    return value >= 0 && value < 0x1p53 ? (int64_t)value : 0;
}

/* Copies of the parameters, in their order. */
static gd_status take_params(gd_fit *j)
{
    char key[40];
    const char *name;
    j->name_bytes = (size_t)GD_FIT_PARAMS * sizeof(void *);
    j->name = gd__calloc(j->ctx, j->name_bytes);
    j->value = gd__calloc(j->ctx, j->name_bytes);
    j->param = gd__calloc(j->ctx, j->name_bytes);
    if (!j->name || !j->value || !j->param) return GD_NOMEM;
    for (; j->params < GD_FIT_PARAMS; j->names = ++j->params) {
        (void)snprintf(key, sizeof key, "fit.param.%d", j->params);
        if (!(name = gd_archive_get_meta(j->texts.archive, key))) break;
        gd_tensor *t = gd_archive_find(j->texts.archive, name);
        if (!t || gd_tensor_dtype(t) != GD_F64)
            return gd_fail(j->ctx, GD_FORMAT, "%.200s: parameter '%.60s' is missing", j->texts.path, name);
        j->name[j->params] = name;
        if (!(j->param[j->params] = gd_copy(t))) return gd_error(j->ctx);
    }
    return gd__fit_make_elements(j);
}

/* The numbers of a tensor of the file, if their count matches. */
static gd_status take_numbers(const gd_fit *j, const char *name, int64_t count, double *out)
{
    gd_tensor *t = gd_archive_find(j->texts.archive, name);
    return t && gd_numel(t) == count ? gd_read_f64(t, out, count) : GD_OK;
}

static gd_status take_spread(gd_fit *j)
{
    int64_t n = j->element.count;
    j->t = saved_number(j, "fit.t");
    gd_status status = GD_OK;
    for (int64_t i = 0, k = 0; i < j->params && !status; k += gd_numel(j->param[i++]))
        status = gd_read_f64(j->param[i], j->element.x + k, gd_numel(j->param[i]));
    for (int64_t i = 0; i < n; i++) j->element.error[i] = NAN;
    if (!status) status = take_numbers(j, "fit.standard_errors", n, j->element.error);
    for (int64_t i = 0; i < n; i++) {
        double half = isfinite(j->t * j->element.error[i]) ? j->t * j->element.error[i] : INFINITY;
        j->element.interval[2 * i] = j->element.x[i] - half,
                                j->element.interval[2 * i + 1] = j->element.x[i] + half;
    }
    if (!status) status = take_numbers(j, "fit.interval", 2 * n, j->element.interval);
    if (!status) status = take_numbers(j, "fit.at_bound", n, j->element.active);
    gd_tensor *c = gd_archive_find(j->texts.archive, "fit.covariance");
    if (c && gd_tensor_dtype(c) == GD_F64 && gd_ndim(c) == 2 && gd_size(c, 0) == n && gd_size(c, 1) == n)
        j->fit.covariance = gd_copy(c);
    return status ? status : gd_error(j->ctx);
}

static void take_summary(gd_fit *j)
{
    j->absolute = gd_archive_get_meta(j->texts.archive, "fit.known_sigma") != NULL;
    j->fit.rss = saved_number(j, "fit.rss");
    j->fit.sigma = saved_number(j, "fit.sigma");
    j->fit.scale = NAN;
    j->fit.dof = saved_count(j, "fit.dof");
    j->fit.residuals = saved_count(j, "fit.points");
    j->fit.free = saved_count(j, "fit.free");
    j->fit.rank = saved_count(j, "fit.rank");
    j->r2 = saved_number(j, "fit.r2");
    j->numbers = gd__fit_numbers(saved_number(j, "fit.log_likelihood"), (double)j->fit.free,
                                 (double)j->fit.residuals, j->absolute);
    j->numbers.p = NAN;
    j->fit.solve.reason = GD_STOP_CALLER;
    const char *stop = gd_archive_get_meta(j->texts.archive, "fit.stop");
    for (int i = 0; stop && i < GD_STOP_COUNT; i++)
        if (!strcmp(gd_stop_name((gd_stop)i), stop)) j->fit.solve.reason = (gd_stop)i;
}

gd_fit *gd_fit_load(gd_ctx *ctx, const char *path)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!path) return gd__refuse(ctx, GD_ARGUMENT, "gd_fit_load: no path");
    gd_archive *archive = gd_archive_load(ctx, path);
    gd_fit *j = archive ? gd__fit_make(ctx) : NULL;
    if (!j) {
        gd_archive_free(archive);
        return NULL;
    }
    j->texts.archive = archive;
    j->state = GD_FIT_LOADED;
    j->texts.path = gd__strdup(ctx, path);
    gd_status status = !j->texts.path ? GD_NOMEM
                       : gd__fit_is_saved(archive)
                           ? take_params(j)
                           : gd_fail(ctx, GD_FORMAT, "%.200s: a file that a fit was saved in is needed",
                                     path);
    if (!status) status = take_spread(j);
    if (!status) {
        take_summary(j);
        return j;
    }
    gd_fit_free(j);
    return NULL;
}
