/* Results of a fit as text: a table for people, one JSON object for programs. */
#include "file/run_log.h"
#include "fit/fit_job.h"
#include "base/text/number.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Why it stopped, in words. */
const char *gd__fit_stop_text(const gd_fit *j)
{
    bool flat = j->fit.solve.reason == GD_STOP_UNDETERMINED && j->fit.says[0];
    return flat ? j->fit.says : gd_stop_text(j->fit.solve.reason);
}

/* ---- results, one row per element of a parameter ---- */

typedef struct row {
    char name[96];
    double value, error, low, high;
    bool active, flat; /* at an active bound; not determined */
} row;

/* One element; `at` counts elements over all parameters. */
static row make_row(const gd_fit *j, int param, int64_t element, int64_t at)
{
    row out = {.value = j->element.x[at],
               .error = j->element.error[at],
               .low = j->element.interval[2 * at],
               .high = j->element.interval[2 * at + 1],
               .active = j->element.active[at] != 0,
               .flat = j->element.flat[at] != 0};
    gd__fit_element_name(j, param, element, out.name);
    return out;
}

/* The name of element `at` of all. */
static void element_name(const gd_fit *j, int64_t at, char out[96])
{
    int param = 0;
    for (; at >= gd_numel(j->param[param]); param++) at -= gd_numel(j->param[param]);
    gd__fit_element_name(j, param, at, out);
}

static void each_row(const gd_fit *j, gd_text *out, void (*put)(gd_text *out, const row *r))
{
    int64_t at = 0;
    for (int i = 0; i < j->params; i++)
        for (int64_t k = 0; k < gd_numel(j->param[i]); k++, at++) {
            row r = make_row(j, i, k, at);
            put(out, &r);
        }
}

static void put_line(gd_text *out, const row *r)
{
    char error[32];
    (void)gd__format(error, sizeof error,
                     r->active         ? "at its bound"
                     : isnan(r->error) ? "-"
                                       : "%.4g",
                     r->error);
    gd__text_put(out, "%-16s %16.8g %14s   %.6g .. %.6g\n", r->name, r->value, error, r->low, r->high);
}

/* The units of columns of dates. */
static void put_dates(const gd_fit *j, gd_text *out)
{
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        const gd_fit_date *date = gd__fit_date_of(j, i);
        char text[GD_FIT_DATE_SIZE];
        if (!date) continue;
        gd__fit_date_print(text, date, " since ");
        gd__text_plain(out, j->name[i], strlen(j->name[i]), false);
        gd__text_put(out, " in %s\n", text);
    }
}

/* "dates": {column: "days since 2024-02-29"}, if there are any */
static void put_dates_json(const gd_fit *j, gd_text *out)
{
    bool any = false;
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv); i++) {
        const gd_fit_date *date = gd__fit_date_of(j, i);
        char text[GD_FIT_DATE_SIZE];
        if (!date) continue;
        if (!any) gd__json_key(out, "dates");
        if (!any) gd__text_char(out, '{');
        any = true;
        gd__fit_date_print(text, date, " since ");
        gd__json_put_string(out, j->name[i], text);
    }
    if (any) gd__text_char(out, '}');
}

/* Lines below the table: facts that its columns do not show. */
static void put_notes(const gd_fit *j, gd_text *out)
{
    put_dates(j, out);
    if (j->start.guess) gd__text_put(out, "start guessed: %s\n", j->start.guessed);
    if (j->start.count)
        gd__text_put(out, "best of %lld starts, %lld of them led here\n", (long long)j->start.count,
                     (long long)j->start.agreed);
    if (j->x_errors.count) {
        gd__text_add(out, "distances from the curve, with errors in ");
        for (int k = 0; k < j->x_errors.count; k++)
            gd__text_put(out, "%s%s", k ? ", " : "", j->name[j->x_errors.at[k]]);
        gd__text_char(out, '\n');
    }
    if (j->how.kind == GD_INTERVALS_PROFILE) gd__text_add(out, "intervals by profile\n");
    if (j->how.kind == GD_INTERVALS_BOOTSTRAP)
        gd__text_put(out, "intervals by %lld resampled %s, BCa, for %lld degrees of freedom\n",
                     (long long)j->how.resamples, j->how.of_residuals ? "sets of residuals" : "sets of rows",
                     (long long)j->fit.dof);
    if (j->fit.free < j->element.count && j->robust.loss)
        gd__text_add(out,
                     "at a bound: nothing is said but the bounds; errors of the others with these held\n");
    else if (j->fit.free < j->element.count)
        gd__text_add(out, "at a bound: intervals from the bound inwards, by profile; errors of the others "
                          "with these held\n");
    const struct {
        int64_t rows;
        const char *why;
    } left[] = {{j->left_out.weightless, "of weight 0 left out"},
                {j->left_out.missing, "with missing cells left out"},
                {j->left_out.excluded, "excluded"}};
    for (int i = 0; i < 3; i++)
        if (left[i].rows)
            gd__text_put(out, "%lld row%s %s\n", (long long)left[i].rows, left[i].rows > 1 ? "s" : "",
                         left[i].why);
}

#define SHOWN 10 /* outliers, at most */

/* The loss and the rows that it treats as outliers. */
static void put_loss(const gd_fit *j, gd_text *out)
{
    gd__text_put(out, "loss %s, scale of the residuals %.6g, %lld points\n", gd_lsq_loss_name(j->robust.loss),
                 j->fit.scale, (long long)j->fit.residuals);
    for (int64_t i = 0; i < j->robust.outliers && i < SHOWN; i++)
        gd__text_put(out, "%sline %lld (%.3g)",
                     i ? ", " : "more than 3 standard deviations off: ", (long long)j->robust.outlier[i].line,
                     j->robust.outlier[i].standardized);
    if (j->robust.outliers > SHOWN)
        gd__text_put(out, " and %lld more", (long long)(j->robust.outliers - SHOWN));
    if (j->robust.outliers) gd__text_char(out, '\n');
}

static void put_r2(const gd_fit *j, gd_text *out)
{
    if (j->x_errors.count) {
        gd__text_put(out, "sum of squared distances %.8g, %lld points\n", j->fit.rss,
                     (long long)j->fit.residuals);
        return;
    }
    if (isnan(j->r2))
        gd__text_add(out, "R2 not defined for a constant y");
    else
        gd__text_put(out, "R2 %.6f", j->r2);
    gd__text_put(out, ", sum of squares %.8g, %lld points\n", j->fit.rss, (long long)j->fit.residuals);
}

static void put_criteria(const gd_fit *j, gd_text *out)
{
    const gd_fit_numbers *n = &j->numbers;
    if (isfinite(n->p) && !j->robust.loss)
        gd__text_put(out, "chi-square %.6g, reduced %.6g, p = %.4g\n", j->fit.rss,
                     j->fit.rss / (double)j->fit.dof, n->p);
    if (isfinite(n->aicc)) gd__text_put(out, "AIC %.6g, AICc %.6g, BIC %.6g\n", n->aic, n->aicc, n->bic);
}

/* ---- the covariance ---- */

/* The correlation of two elements, or the covariance itself; NAN if a parameter has none. */
static double covariance_of(const gd_fit *j, int64_t a, int64_t b, bool correlation)
{
    const double *c = gd_data(j->fit.covariance);
    return correlation ? gd__fit_correlation(j, c, a, b) : c[a * j->element.count + b];
}

#define CORRELATED 0.9 /* pairs from here on are named */
#define PAIRS      10  /* at most */

/* Pairs that are hardly distinguishable. */
static void put_correlations(const gd_fit *j, gd_text *out)
{
    int shown = 0;
    if (!j->fit.covariance) return;
    for (int64_t a = 0; a < j->element.count; a++)
        for (int64_t b = a + 1; b < j->element.count; b++) {
            double c = covariance_of(j, a, b, true);
            if (!(fabs(c) >= CORRELATED) || shown == PAIRS) continue;
            char first[96], second[96];
            element_name(j, a, first);
            element_name(j, b, second);
            gd__text_put(out, "%s%s, %s %.4f", shown++ ? "; " : "correlated: ", first, second, c);
        }
    if (shown) gd__text_char(out, '\n');
}

/* "derived": {"thalf": {"value": ..., "stderr": ..., "interval": [...]}} */
static void put_derived(const gd_fit *j, gd_text *out)
{
    gd__json_key(out, "derived");
    gd__text_char(out, '{');
    for (int i = 0; i < j->derived_count; i++) {
        const gd_derived *d = &j->derived[i];
        const double number[] = {d->value, d->error, d->value - j->t * d->error, d->value + j->t * d->error};
        static const char *const before[] = {"{\"value\": ", ", \"stderr\": ", ", \"interval\": [", ", "};
        gd__json_key(out, d->name);
        for (int k = 0; k < 4; k++) {
            gd__text_add(out, before[k]);
            gd__json_number(out, number[k]);
        }
        gd__text_add(out, "]}");
    }
    gd__text_char(out, '}');
}

/* "covariance": [[...]] */
static void put_matrix(const gd_fit *j, gd_text *out, const char *key, bool correlation)
{
    gd__json_key(out, key);
    if (!j->fit.covariance) {
        gd__text_add(out, "null");
        return;
    }
    for (int64_t a = 0; a < j->element.count; a++)
        for (int64_t b = 0; b < j->element.count; b++) {
            gd__text_add(out, b ? ", " : a ? "], [" : "[[");
            gd__json_number(out, covariance_of(j, a, b, correlation));
        }
    gd__text_add(out, "]]");
}

void gd__fit_put_table(const gd_fit *j, gd_text *out)
{
    const gd_solve_result *solve = &j->fit.solve;
    gd__text_put(out, "%-16s %16s %14s   %g %% interval\n", "parameter", "value", "std. error",
                 100 * j->spec.level);
    each_row(j, out, put_line);
    if (j->derived_count) gd__text_add(out, "derived\n");
    for (int i = 0; i < j->derived_count; i++) {
        const gd_derived *d = &j->derived[i];
        gd__text_put(out, "%-16s %16.8g %14.4g   %.6g .. %.6g\n", d->name, d->value, d->error,
                     d->value - j->t * d->error, d->value + j->t * d->error);
    }
    if (j->fit.dof > 0 && !j->robust.loss)
        gd__text_put(out, "\nresidual standard deviation %.6g with %lld degrees of freedom\n", j->fit.sigma,
                     (long long)j->fit.dof);
    else
        gd__text_add(out, j->fit.dof > 0
                              ? "\n"
                              : "\nno degrees of freedom left: nothing says how sure the values are\n");
    (j->robust.loss ? put_loss : put_r2)(j, out);
    put_criteria(j, out);
    put_notes(j, out);
    put_correlations(j, out);
    gd__text_put(out, "%lld steps, %lld evaluations, %.3g s: %s\n", (long long)solve->steps,
                 (long long)solve->evals, solve->seconds, gd__fit_stop_text(j));
}

typedef enum figure { VALUE, ERROR, INTERVAL } figure;

static void put_figure(gd_text *out, figure what, const row *r)
{
    if (what == ERROR && r->active) {
        gd__text_add(out, "null");
        return;
    }
    if (what != INTERVAL) {
        gd__json_number(out, what == VALUE ? r->value : r->error);
        return;
    }
    gd__text_char(out, '[');
    gd__json_number(out, r->low);
    gd__text_add(out, ", ");
    gd__json_number(out, r->high);
    gd__text_char(out, ']');
}

/* {name: number or list, ...}; lists are flat, in row-major order. */
static void put_figures(const gd_fit *j, gd_text *out, figure what)
{
    int64_t at = 0;
    gd__text_char(out, '{');
    for (int i = 0; i < j->params; i++) {
        bool list = gd_ndim(j->param[i]) > 0;
        gd__json_key(out, j->name[i]);
        if (list) gd__text_char(out, '[');
        for (int64_t k = 0; k < gd_numel(j->param[i]); k++, at++) {
            row r = make_row(j, i, k, at);
            if (k) gd__text_add(out, ", ");
            put_figure(out, what, &r);
        }
        if (list) gd__text_char(out, ']');
    }
    gd__text_char(out, '}');
}

static void put_name(gd_text *out, const row *r)
{
    gd__text_comma(out);
    gd__json_string(out, r->name);
}

static void put_flat(gd_text *out, const row *r)
{
    if (r->flat) put_name(out, r);
}

static void put_active(gd_text *out, const row *r)
{
    if (r->active) put_name(out, r);
}

/* "key": [names] of the elements that put takes. */
static void put_names(const gd_fit *j, gd_text *out, const char *key, void (*put)(gd_text *out, const row *r))
{
    gd__json_key(out, key);
    gd__text_char(out, '[');
    each_row(j, out, put);
    gd__text_char(out, ']');
}

/* "scale": ..., "outliers": [{"line": ..., "residual": ..., "standardized": ...}] */
static void put_outliers(const gd_fit *j, gd_text *out)
{
    gd__json_put_number(out, "scale", j->fit.scale);
    gd__text_add(out, ", \"outliers\": [");
    for (int64_t i = 0; i < j->robust.outliers; i++) {
        gd__text_add(out, i ? ", {" : "{");
        gd__json_put_whole(out, "line", j->robust.outlier[i].line);
        gd__json_put_number(out, "residual", j->robust.outlier[i].residual);
        gd__json_put_number(out, "standardized", j->robust.outlier[i].standardized);
        gd__text_char(out, '}');
    }
    gd__text_char(out, ']');
}

/* "x_errors": [columns] */
static void put_noisy(const gd_fit *j, gd_text *out)
{
    gd__json_key(out, "x_errors");
    for (int k = 0; k < j->x_errors.count; k++) {
        gd__text_add(out, k ? ", " : "[");
        gd__json_string(out, j->name[j->x_errors.at[k]]);
    }
    gd__text_char(out, ']');
}

void gd__fit_put_json(const gd_fit *j, gd_text *out)
{
    static const char *const keys[] = {"params", "stderr", "interval"};
    gd__text_char(out, '{');
    for (int k = 0; k < 3; k++) {
        gd__json_key(out, keys[k]);
        put_figures(j, out, (figure)k);
    }
    put_names(j, out, "active", put_active);
    put_names(j, out, "undetermined", put_flat);
    put_names(j, out, "names", put_name);
    put_derived(j, out);
    put_matrix(j, out, "covariance", false);
    put_matrix(j, out, "correlation", true);
    const char *const names[] = {"rss", "sigma", "r2",  "dof",          "points", "rank",  "log_likelihood",
                                 "aic", "aicc",  "bic", "chi_square_p", "steps",  "evals", "seconds"};
    const double numbers[] = {j->fit.rss,
                              j->fit.sigma,
                              j->r2,
                              (double)j->fit.dof,
                              (double)j->fit.residuals,
                              (double)j->fit.rank,
                              j->numbers.log_likelihood,
                              j->numbers.aic,
                              j->numbers.aicc,
                              j->numbers.bic,
                              j->numbers.p,
                              (double)j->fit.solve.steps,
                              (double)j->fit.solve.evals,
                              j->fit.solve.seconds};
    for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++) {
        gd__json_key(out, names[k]);
        if (isnan(numbers[k]) && (j->robust.loss || j->x_errors.count || !strcmp(names[k], "r2") ||
                                  !strcmp(names[k], "chi_square_p")))
            gd__text_add(out, "null");
        else
            gd__json_number(out, numbers[k]);
    }
    put_dates_json(j, out);
    if (j->start.guess) gd__json_put_string(out, "guess", j->start.guessed);
    if (j->start.count) gd__json_put_whole(out, "starts", j->start.count);
    if (j->start.count) gd__json_put_whole(out, "agreed", j->start.agreed);
    gd__json_put_string(out, "intervals", gd__fit_intervals[j->how.kind]);
    gd__json_put_string(out, "loss", gd_lsq_loss_name(j->robust.loss));
    if (j->x_errors.count) put_noisy(j, out);
    if (j->robust.loss) put_outliers(j, out);
    gd__json_key(out, "converged");
    gd__text_add(out, j->fit.solve.converged ? "true" : "false");
    gd__json_put_string(out, "stop", gd_stop_name(j->fit.solve.reason));
    gd__json_put_string(out, "reason", gd__fit_stop_text(j));
    gd__text_add(out, "}\n");
}

void gd__fit_put_point(const gd_fit *j, gd_text *out, bool json)
{
    if (json) {
        gd__text_char(out, '{');
        gd__json_key(out, "params");
        gd__text_char(out, '{');
    } else
        gd__text_put(out, "not at its end, sum of squares %.8g at\n", j->reached);
    for (int i = 0; i < j->params; i++) {
        if (json)
            gd__json_key(out, j->name[i]);
        else
            gd__text_put(out, "%s = ", j->name[i]);
        if (gd__json_tensor(out, j->param[i])) out->failed = true;
        if (!json) gd__text_char(out, '\n');
    }
    if (!json) return;
    gd__text_char(out, '}');
    gd__json_put_number(out, "rss", j->reached);
    gd__json_key(out, "converged");
    gd__text_add(out, "false");
    gd__json_put_string(out, "stopped", "interrupted");
    gd__text_add(out, "}\n");
}
