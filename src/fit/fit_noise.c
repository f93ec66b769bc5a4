/* Models that are equations, and columns with errors of their own (--x-errors): residuals are then distances from the curve. */
#include "expr/expr_advice.h"
#include "base/spelling.h"
#include "fit/fit_job.h"
#include "base/text/number.h"
#include "gradus/autograd.h"

#include <math.h>
#include <string.h>

/* ---- the form of the model ---- */

/* `y = f` with a column y that f does not use is the model f of that column. */
static gd_status read_left(gd_fit *j, const char *left, const char *given)
{
    int column = left ? gd__csv_find(j->csv, left) : -1;
    if (column < 0) return GD_OK;
    gd_expr *right = gd__fit_parse_model(j, j->ctx, GD_EXPR_RIGHT);
    if (!right) return gd_error(j->ctx);
    bool is_model = !gd_expr_uses(right, j->params + column);
    gd_expr_free(is_model ? j->model : right);
    if (!is_model) return GD_OK;
    j->model = right;
    j->form = GD_EXPR_RIGHT;
    j->y_name = left;
    if (given && strcmp(given, left) != 0)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: the model gives '%.60s', {y} says '%.60s': give one", left,
                       given);
    return GD_OK;
}

gd_status gd__fit_only_of_y(const gd_fit *j, const char *option)
{
    if (!option || j->y_name) return GD_OK;
    return gd_fail(j->ctx, GD_ARGUMENT, "fit: %s is for models of a y, this one is an equation",
                   gd__setting_of(j->ctx, option));
}

gd_status gd__fit_read_form(gd_fit *j)
{
    const char *left, *given = j->spec.y;
    j->form = GD_EXPR_EQUATION;
    j->model = gd__fit_parse_model(j, j->ctx, j->form);
    if (!j->model) return gd_error(j->ctx);
    gd_status refused = gd__expr_refuse_truth(
        j->ctx, NULL, j->model, "the value is true or false, which is no model; numbers are fitted");
    if (refused) return refused;
    if (!gd__expr_is_equation(j->model, &left)) {
        j->y_name = given ? given : "y";
        return GD_OK;
    }
    gd_status status = read_left(j, left, given);
    if (status || j->y_name) return status;
    return gd__fit_only_of_y(j, j->spec.y ? "y" : j->spec.sigma ? "sigma" : j->spec.guess ? "guess" : NULL);
}

/* ---- standard deviations of columns ---- */

/* A column of the table, or the same number for all rows. */
static gd_tensor *read_deviations(gd_fit *j, const char *name, const char *text)
{
    double number;
    int64_t rows = gd__csv_rows(j->csv);
    bool is_number = *text && gd__parse_number(text, strlen(text), true, &number) == strlen(text);
    gd_tensor *t = is_number ? gd_full(j->ctx, GD_F64, 1, &rows, number) : gd__fit_column(j, text);
    const double *v = t ? gd_data(t) : NULL;
    for (int64_t i = 0; v && i < rows; i++) {
        if (!(v[i] < 0) && !isinf(v[i])) continue;
        if (is_number)
            (void)gd_fail(j->ctx, GD_ARGUMENT, "{x_errors} %.60s: %g is not a standard deviation", name,
                          v[i]);
        else
            (void)gd_fail(j->ctx, GD_FORMAT, "%s: line %lld, column '%.60s': %g is not a standard deviation",
                          gd__csv_source_of(j->csv, i), (long long)gd__csv_line(j->csv, i), text, v[i]);
        gd_release(t);
        return NULL;
    }
    return t;
}

static gd_status add_noise(gd_fit *j, int place, const char *text)
{
    if (j->x_errors.count == GD_DISTANCE_COLUMNS)
        return gd_fail(j->ctx, GD_ARGUMENT, "{x_errors}: more than %d columns", GD_DISTANCE_COLUMNS);
    gd_tensor *t = read_deviations(j, j->name[place], text);
    if (!t) return gd_error(j->ctx);
    j->x_errors.at[j->x_errors.count] = place;
    j->x_errors.text[j->x_errors.count] = text;
    j->x_errors.value[j->x_errors.count++] = t;
    return GD_OK;
}

bool gd__fit_is_noisy(const gd_fit *j, int place)
{
    for (int k = 0; k < j->x_errors.count; k++)
        if (j->x_errors.at[k] == place) return true;
    return false;
}

const double *gd__fit_noise_of(const gd_fit *j, int place)
{
    for (int k = 0; k < j->x_errors.given; k++)
        if (j->x_errors.at[k] == place) return gd_data(j->x_errors.value[k]);
    return NULL;
}

gd_status gd__fit_noise_in_y(gd_tensor *values, gd_tensor *x, const double *errors, double *out)
{
    gd_tensor *slope = NULL;
    int64_t rows = gd_numel(values);
    /* a value depends on its own x alone, so the gradient of their sum has all slopes */
    gd_status status = gd_grad(gd_sum(values, NULL, false), NULL, &x, 1, GD_RETAIN_GRAPH, &slope);
    if (!status) status = gd_read_f64(slope, out, rows);
    for (int64_t i = 0; i < rows && !status; i++) out[i] *= errors[i];
    return status;
}

/* NAME=COLUMN or NAME=NUMBER; of a model of one column without NAME=. */
static gd_status read_noise(gd_fit *j, const char *spec)
{
    const char *equals = strchr(spec, '='), *text = equals ? equals + 1 : spec;
    int place = gd__fit_only_column(j);
    if (equals) {
        const char *name = gd__intern(j->ctx, spec, (size_t)(equals - spec));
        int column = name ? gd__csv_column(j->csv, name) : -1;
        if (column < 0) return gd_error(j->ctx);
        place = j->params + column;
    }
    if (place < 0)
        return gd_fail(
            j->ctx, GD_ARGUMENT,
            "{x_errors}: NAME=COLUMN or NAME=NUMBER expected, '%.60s' does not say whose errors these are",
            spec);
    if (!gd__fit_uses(j, place) || (j->set && !strcmp(j->name[place], j->set)))
        return gd_fail(j->ctx, GD_ARGUMENT, "{x_errors} %.60s: the model does not use it", j->name[place]);
    if (gd__fit_is_noisy(j, place))
        return gd_fail(j->ctx, GD_ARGUMENT, "{x_errors}: '%.60s' is there already", j->name[place]);
    return add_noise(j, place, text);
}

/* All exact? */
static bool is_silent(const gd_fit *j)
{
    for (int k = 0; k < j->x_errors.count; k++) {
        const double *v = gd_data(j->x_errors.value[k]);
        for (int64_t i = 0; i < gd_numel(j->x_errors.value[k]); i++)
            if (v[i] != 0) return false;
    }
    return true;
}

gd_status gd__fit_read_noise(gd_fit *j)
{
    int end = j->params + gd__csv_columns(j->csv);
    gd_status status = GD_OK;
    for (const char *const *each = j->spec.x_errors; each && *each && !status; each++)
        status = read_noise(j, *each);
    j->x_errors.given = j->x_errors.count;
    for (int i = j->params; i < end && !status && !j->y_name; i++)
        if (gd__fit_uses(j, i) && !gd__fit_is_noisy(j, i) && !(j->set && !strcmp(j->name[i], j->set)))
            status = add_noise(j, i, "1");
    if (status || (!j->x_errors.count && j->y_name)) return status;
    if (!j->x_errors.count || is_silent(j))
        return gd_fail(j->ctx, GD_ARGUMENT,
                       j->y_name ? "{x_errors}: all are 0: leave them out"
                                 : "fit: an equation whose columns are all exact has nothing to fit");
    if (!gd__fit_rows_apart(j))
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: errors in columns are for models that look at one row at a time");
    return GD_OK;
}

/* ---- residuals ---- */

typedef struct curve {
    const gd_fit *j;
    gd_expr *model;
    gd_tensor **value, *y, *scale;
} curve;

/* The model less y, by the scale, where the noisy columns are x. */
static gd_tensor *off_curve(void *user, gd_tensor *const *x)
{
    const curve *c = user;
    for (int k = 0; k < c->j->x_errors.count; k++) c->value[c->j->x_errors.at[k]] = x[k];
    gd_tensor *f = gd__fit_eval(c->j, c->model, c->value);
    if (!c->j->y_name) return f;
    f = gd_sub(f, c->y);
    return c->scale ? gd_mul(f, c->scale) : f;
}

gd_tensor *gd__fit_off_curve(const gd_fit *j, gd_expr *model, gd_tensor **value, gd_tensor *const *noise,
                             gd_tensor *y, gd_tensor *scale)
{
    curve c = {j, model, value, y, scale};
    if (!j->x_errors.count) return off_curve(&c, NULL);
    gd_tensor *x[GD_DISTANCE_COLUMNS];
    for (int k = 0; k < j->x_errors.count; k++) x[k] = value[j->x_errors.at[k]];
    gd_tensor *out = gd_distances(&(gd_distance){.equation = off_curve,
                                                 .user = &c,
                                                 .x = x,
                                                 .sigma = noise,
                                                 .count = j->x_errors.count,
                                                 .implicit = !j->y_name});
    for (int k = 0; k < j->x_errors.count; k++) value[j->x_errors.at[k]] = x[k];
    return !j->y_name && scale ? gd_mul(out, scale) : out;
}
