/* Inputs of a fit: table, parameters, constants, bounds, weights, model. */
#include "fit/fit_job.h"
#include "base/spelling.h"
#include "base/text/number.h"
#include "table/bound.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* The name of a new parameter or constant; interned. */
static const char *new_name(gd_fit *j, const char *option, const char *text, size_t length)
{
    const char *name = gd__intern(j->ctx, text, length);
    if (!name) return NULL;
    bool again = false;
    for (int i = 0; i < j->params; i++) again = again || j->name[i] == name;
    for (int i = j->params + gd__csv_columns(j->csv); i < j->names; i++) again = again || j->name[i] == name;
    if (again)
        return gd__refuse(j->ctx, GD_ARGUMENT, "%s: '%.60s' is there already", gd__setting_of(j->ctx, option),
                          name);
    if (gd__csv_find(j->csv, name) >= 0)
        return gd__refuse(j->ctx, GD_ARGUMENT, "%s: '%.60s' is also a column of %s",
                          gd__setting_of(j->ctx, option), name, gd__csv_source(j->csv));
    return name;
}

/* The start of a parameter, or the value of a constant. New. */
static gd_tensor *start_of(gd_fit *j, const gd_fit_param *p)
{
    if (!p->value) return gd_scalar(j->ctx, GD_F64, p->start);
    gd__aside_begin(j->ctx);
    gd_no_grad_begin(j->ctx);
    gd_tensor *t = gd_copy(
        gd_cast(gd_to_device((gd_tensor *)(uintptr_t)p->value, gd_device_get(j->ctx, "cpu")), GD_F64));
    gd_no_grad_end(j->ctx);
    return gd__aside_leave(j->ctx, t);
}

/* A constant of the model, behind the columns. */
static gd_status read_fixed(gd_fit *j, const gd_fit_param *p)
{
    const char *name = new_name(j, "fixed", p->name, strlen(p->name));
    gd_tensor *t = name ? start_of(j, p) : NULL;
    if (!t) return gd_error(j->ctx);
    j->name[j->names] = name;
    j->value[j->names++] = t;
    return GD_OK;
}

/* The number of values of a column of numbers from 0 on. */
static gd_status count_sets(gd_fit *j, const char *name, int64_t *sets)
{
    gd_tensor *t = gd__fit_column(j, name);
    if (!t) return gd_error(j->ctx);
    const double *v = gd_data(t);
    gd_status status = GD_OK;
    *sets = 0;
    for (int64_t i = 0; i < gd_numel(t) && !status; i++) {
        if (isnan(v[i])) continue; /* a row that is dropped */
        if (v[i] < 0 || v[i] != floor(v[i]) || v[i] >= GD_FIT_SETS)
            status = gd_fail(j->ctx, GD_FORMAT,
                             "%s: line %lld, column '%.60s': %g is not the number of a set",
                             gd__csv_source_of(j->csv, i), (long long)gd__csv_line(j->csv, i), name, v[i]);
        else if ((double)*sets <= v[i])
            *sets = (int64_t)v[i] + 1;
    }
    gd_release(t);
    return status;
}

/* 'A[set]': an A for every number of the column; one value for all, or one for each. */
static gd_tensor *read_sets(gd_fit *j, const gd_fit_param *p, const char *name, const char *open)
{
    char column[100];
    const char *close = strchr(open, ']');
    int64_t sets = 0;
    if (!close || close[1] || close - open > 90)
        return gd__refuse(j->ctx, GD_ARGUMENT, "{params}: 'NAME[COLUMN]=VALUE' expected, '%.60s' found",
                          p->name);
    (void)snprintf(column, sizeof column, "%.*s", (int)(close - open - 1), open + 1);
    if (count_sets(j, column, &sets)) return NULL;
    if (!j->set && !(j->set = gd__intern(j->ctx, column, strlen(column)))) return NULL;
    gd_tensor *t = start_of(j, p);
    if (!t || gd_ndim(t) > 0) {
        if (!t || (gd_ndim(t) == 1 && gd_numel(t) == sets)) return t;
        (void)gd_fail(j->ctx, GD_SHAPE, "{params} %.60s: %lld values for the %lld of '%.60s'", name,
                      (long long)gd_numel(t), (long long)sets, column);
        gd_release(t);
        return NULL;
    }
    gd_tensor *all = gd_full(j->ctx, GD_F64, 1, &sets, gd_item(t));
    gd_release(t);
    return all;
}

static gd_status read_param(gd_fit *j, const gd_fit_param *p)
{
    const char *open = strchr(p->name, '[');
    size_t length = open && open > p->name ? (size_t)(open - p->name) : strlen(p->name);
    if (j->params == GD_FIT_PARAMS)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: more than %d parameters", GD_FIT_PARAMS);
    const char *name = new_name(j, "params", p->name, length);
    gd_tensor *t = !name ? NULL : p->name[length] ? read_sets(j, p, name, open) : start_of(j, p);
    if (!t) return gd_error(j->ctx);
    j->start.given = j->start.given || !p->open;
    j->name[j->params] = name;
    j->param[j->params++] = t;
    return GD_OK;
}

/* The options of one kind. */
static gd_status read_all(gd_fit *j, bool fixed, gd_status (*read)(gd_fit *j, const gd_fit_param *p))
{
    gd_status status = GD_OK;
    for (int i = 0; i < j->spec.param_count && !status; i++)
        if (j->spec.params[i].fixed == fixed && !j->spec.params[i].tied) status = read(j, &j->spec.params[i]);
    return status;
}

/* The bounds given with parameters. */
static void take_bounds(gd_fit *j)
{
    int64_t k = 0;
    int at = 0;
    for (int i = 0; i < j->spec.param_count; i++) {
        const gd_fit_param *p = &j->spec.params[i];
        if (p->fixed || p->tied) continue;
        for (int64_t end = k + gd_numel(j->param[at]); k < end; k++) {
            if (p->low == 0 && p->high == 0) continue;
            j->element.low[k] = p->low, j->element.high[k] = p->high;
            j->bounded = true;
        }
        at++;
    }
}

static gd_status read_bounds(gd_fit *j)
{
    gd_status status = GD_OK;
    take_bounds(j);
    for (const char *const *each = j->spec.bounds; each && *each && !status; each++, j->bounded = true)
        status = gd__bounds_read(j->ctx, *each, j->name, j->param, j->params, j->element.low,
                                 j->element.high);
    int64_t k = 0;
    for (int i = 0; i < j->params && !status; i++) {
        if (!status) status = gd_read_f64(j->param[i], j->element.x + k, gd_numel(j->param[i]));
        for (int64_t end = k + gd_numel(j->param[i]); k < end && !status; k++)
            if (!j->start.guess &&
                (j->element.x[k] < j->element.low[k] || j->element.x[k] > j->element.high[k]))
                status = gd_fail(j->ctx, GD_VALUE, "{bounds}: %.60s starts at %g, outside its bound",
                                 j->name[i], j->element.x[k]);
    }
    return status;
}

/* Factors of the residuals: roots of weights, or one over sigma. */
static gd_status read_scale(gd_fit *j)
{
    const char *weights = j->spec.weights, *sigma = j->spec.sigma;
    bool x_errors = j->spec.x_errors && *j->spec.x_errors;
    if (weights && sigma)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {weights} and {sigma} say the same: give one");
    j->absolute = j->spec.absolute_sigma;
    if (j->absolute && !(j->y_name ? sigma != NULL : x_errors))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {absolute_sigma} says something of %s, which is not given",
                       gd__setting_of(j->ctx, j->y_name ? "sigma" : "x_errors"));
    if (!weights && !sigma) return GD_OK;
    j->scale = gd__fit_column(j, weights ? weights : sigma);
    if (!j->scale) return gd_error(j->ctx);
    double *v = gd_data_mut(j->scale);
    for (int64_t i = 0; i < gd__csv_rows(j->csv); i++) {
        if (weights ? v[i] < 0 : v[i] <= 0)
            return gd_fail(j->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': %g is not %s",
                           gd__csv_source_of(j->csv, i), (long long)gd__csv_line(j->csv, i),
                           weights ? weights : sigma, v[i], weights ? "a weight" : "positive");
        v[i] = weights ? sqrt(v[i]) : 1 / v[i];
    }
    return GD_OK;
}

/* --loss NAME[:SCALE] */
static gd_status read_loss(gd_fit *j)
{
    const char *text = j->spec.loss;
    if (!text) return GD_OK;
    size_t length = strcspn(text, ":");
    int loss = 0;
    while (loss < GD_LSQ_LOSS_COUNT && (strlen(gd_lsq_loss_name((gd_lsq_loss)loss)) != length ||
                                        strncmp(text, gd_lsq_loss_name((gd_lsq_loss)loss), length) != 0))
        loss++;
    if (loss == GD_LSQ_LOSS_COUNT)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {loss}: '%.60s' is none of squares, huber, soft_l1, cauchy, tukey", text);
    j->robust.loss = (gd_lsq_loss)loss;
    const char *scale = text[length] ? text + length + 1 : NULL;
    if (scale && (!loss || gd__parse_number(scale, strlen(scale), true, &j->robust.scale) != strlen(scale) ||
                  !*scale || !(j->robust.scale > 0) || isinf(j->robust.scale)))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {loss} %.60s: %s", text,
                       loss ? "the scale is a positive number" : "squares have no scale");
    if (loss && j->spec.chain)
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {chain} minimises squares, {loss} %.60s is for the method of fit itself",
                       gd_lsq_loss_name(j->robust.loss));
    if (loss && !scale && j->spec.absolute_sigma) j->robust.scale = 1;
    return GD_OK;
}

int gd__fit_only_column(const gd_fit *j)
{
    int found = -1;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        if (!gd__fit_uses(j, i)) continue;
        if (found >= 0) return -1;
        found = i;
    }
    return found;
}

#define MOST_STARTS 100000

/* --starts and --guess */
static gd_status read_starts(gd_fit *j)
{
    j->start.guess = j->spec.guess;
    j->start.count = j->spec.starts == 1 ? 0 : j->spec.starts; /* the one that is given */
    if (j->spec.starts < 1 || j->spec.starts > MOST_STARTS)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {starts}: %lld is not between 1 and %d",
                       (long long)j->spec.starts, MOST_STARTS);
    if (j->spec.chain && (j->start.count || j->start.guess))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: %s is for the method of fit itself, not for {chain}",
                       gd__setting_of(j->ctx, j->start.guess ? "guess" : "starts"));
    return GD_OK;
}

const char *const gd__fit_intervals[] = {"normal", "profile", "bootstrap", NULL};

#define RESAMPLES 2000
#define MOST      1000000

/* :N and :residuals behind bootstrap. */
static gd_status read_bootstrap(gd_fit *j, const char *text)
{
    j->how.resamples = RESAMPLES;
    for (bool counted = false; *text;) {
        size_t length = strcspn(++text, ":");
        double number;
        if (length == 9 && !memcmp(text, "residuals", 9) && !j->how.of_residuals)
            j->how.of_residuals = true;
        else if (!counted && length && gd__parse_number(text, length, true, &number) == length &&
                 number >= 100 && number <= MOST && number == floor(number))
            j->how.resamples = (int64_t)number, counted = true;
        else
            return gd_fail(
                j->ctx, GD_ARGUMENT,
                "fit: {intervals} bootstrap: '%.60s' is neither a number of resamples, 100 to %d, nor residuals",
                text, MOST);
        text += length;
    }
    return GD_OK;
}

/* --intervals normal|profile|bootstrap[:N][:residuals] */
static gd_status read_intervals(gd_fit *j)
{
    const char *text = j->spec.intervals;
    size_t length = text ? strcspn(text, ":") : 0;
    int which = 0;
    while (
        text && gd__fit_intervals[which] &&
        (strlen(gd__fit_intervals[which]) != length || strncmp(text, gd__fit_intervals[which], length) != 0))
        which++;
    if (text && (!gd__fit_intervals[which] || (text[length] && which != GD_INTERVALS_BOOTSTRAP)))
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {intervals}: '%.60s' is none of normal, profile, bootstrap[:N][:residuals]",
                       text);
    j->how.kind = (gd_fit_intervals)which;
    if (which == GD_INTERVALS_PROFILE && j->robust.loss)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {intervals} profile is for squares, not for {loss} %s",
                       gd_lsq_loss_name(j->robust.loss));
    return which == GD_INTERVALS_BOOTSTRAP ? read_bootstrap(j, text + length) : GD_OK;
}

/* A name shared by two columns is ambiguous. */
static gd_tensor *model_column(gd_fit *j, int place)
{
    int column = gd__csv_column(j->csv, j->name[place]);
    return column < 0 ? NULL : gd__fit_model_column(j, column);
}

/* The model in parameters and columns; the columns it uses become vectors. */
static gd_status read_model(gd_fit *j)
{
    for (int i = 0; i < gd__csv_columns(j->csv); i++) j->name[j->params + i] = gd__csv_word(j->csv, i);
    j->names = j->params + gd__csv_columns(j->csv);
    gd_status status = read_all(j, true, read_fixed);
    if (status) return status;
    status = gd__fit_read_tied(j);
    if (!status) status = j->spec.function ? gd__fit_read_function(j) : gd__fit_read_form(j);
    if (status) return status;
    int columns = j->params + gd__csv_columns(j->csv);
    for (int i = 0; i < j->names; i++) {
        if (i < j->params && !gd__fit_uses(j, i))
            return gd_fail(j->ctx, GD_ARGUMENT, "{params} %.60s: the model does not use it", j->name[i]);
        if (i >= columns && !gd__fit_uses(j, i))
            return gd_fail(j->ctx, GD_ARGUMENT, "{fixed} %.60s: the model does not use it", j->name[i]);
        if (i >= columns) gd_expr_fix(j->model, i);
        if (i < j->params || i >= columns || !gd__fit_uses(j, i)) continue;
        if (!(j->value[i] = model_column(j, i))) return gd_error(j->ctx);
    }
    if ((status = gd__fit_read_noise(j))) return status;
    for (int i = j->params; i < columns; i++)
        if (j->value[i] && !gd__fit_is_noisy(j, i)) gd_expr_fix(j->model, i);
    return GD_OK;
}

static size_t date_bytes(const gd_fit *j) { return (size_t)gd__csv_columns(j->csv) * sizeof *j->date; }

static gd_status make_fit_room(gd_fit *j)
{
    /* parameters, columns, constants; or of rows the columns, y, their factors and errors */
    size_t count = (size_t)j->spec.param_count + (size_t)gd__csv_columns(j->csv) + 2 + GD_DISTANCE_COLUMNS;
    j->name_bytes = count * sizeof(void *);
    j->name = gd__calloc(j->ctx, j->name_bytes);
    j->value = gd__calloc(j->ctx, j->name_bytes);
    j->param = gd__calloc(j->ctx, j->name_bytes);
    j->date = gd__calloc(j->ctx, date_bytes(j));
    return j->name && j->value && j->param && j->date ? GD_OK : GD_NOMEM;
}

static size_t element_bytes(const gd_fit *j) { return (size_t)j->element.count * 8 * sizeof(double); }

gd_status gd__fit_make_elements(gd_fit *j)
{
    j->element.count = gd__list_numel(j->param, j->params);
    if (!(j->element.x = gd__calloc(j->ctx, element_bytes(j)))) return GD_NOMEM;
    j->element.low = j->element.x + j->element.count;
    j->element.high = j->element.low + j->element.count;
    j->element.error = j->element.high + j->element.count;
    j->element.active = j->element.error + j->element.count;
    j->element.flat = j->element.active + j->element.count;
    j->element.interval = j->element.flat + j->element.count;
    for (int64_t i = 0; i < j->element.count; i++) {
        j->element.low[i] = -INFINITY;
        j->element.high[i] = INFINITY;
    }
    return GD_OK;
}
gd_status gd__fit_read(gd_fit *j)
{
    gd_status status = read_loss(j);
    if (!status) status = read_intervals(j);
    if (!status) status = read_starts(j);
    if (!status) status = make_fit_room(j);
    if (!status) status = read_all(j, false, read_param);
    if (!status && gd__csv_part(j->csv, 0) && !j->set && !(j->set = gd__intern(j->ctx, "set", 3)))
        status = GD_NOMEM;
    if (!status && !j->params)
        status = gd_fail(j->ctx, GD_ARGUMENT, "fit: no {params} given: nothing to fit");
    if (!status) status = read_model(j);
    if (!status) status = gd__fit_make_elements(j);
    if (!status) status = read_bounds(j);
    int64_t rows = status ? 0 : gd__csv_rows(j->csv);
    if (!status) j->y = j->y_name ? gd__fit_column(j, j->y_name) : gd_zeros(j->ctx, GD_F64, 1, &rows);
    if (!status && !j->y) status = gd_error(j->ctx);
    if (!status) status = read_scale(j);
    if (!status) status = gd__fit_choose_rows(j);
    if (!status) status = gd__fit_read_derived(j);
    for (int i = 0; i < j->params && !status; i++)
        if (!gd_require_grad(j->param[i])) status = gd_error(j->ctx);
    return status;
}

void gd__fit_close(gd_fit *j)
{
    gd_link_release(j->chain);
    gd_lsq_result_clear(&j->fit);
    gd_expr_free(j->model);
    for (int i = 0; i < j->params; i++) gd_release(j->param[i]);
    for (int i = j->params; i < j->names; i++) gd_release(j->value[i]);
    gd_release(j->y);
    gd_release(j->scale);
    for (int k = 0; k < j->x_errors.count; k++) gd_release(j->x_errors.value[k]);
    for (int k = 0; k < j->function.tied_count; k++) gd_expr_free(j->function.tied[k]);
    gd__free(j->ctx, j->function.tied, j->function.tied ? j->function.call_bytes : 0);
    gd__free(j->ctx, j->function.call, j->function.call ? j->function.call_bytes : 0);
    gd__free(j->ctx, j->name, j->name_bytes);
    gd__free(j->ctx, j->value, j->name_bytes);
    gd__free(j->ctx, j->param, j->name_bytes);
    gd__free(j->ctx, j->row_data, j->row_data ? j->name_bytes : 0);
    if (j->element.x) gd__free(j->ctx, j->element.x, element_bytes(j));
    if (j->csv) gd__free(j->ctx, j->date, j->date ? date_bytes(j) : 0);
    if (j->csv) gd__free(j->ctx, j->left_out.why, j->left_out.why ? (size_t)gd__csv_rows(j->csv) : 0);
    gd__free(j->ctx, j->robust.outlier, j->robust.outlier_bytes);
}
