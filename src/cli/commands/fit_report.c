/* What gradus fit prints: a table, or one JSON object. */
#include "cli/commands/fit.h"
#include "base/number.h"

#include <math.h>
#include <stdio.h>

/* Why it stopped, in words. */
const char *gd__fit_stop_text(const gd_fit_job *j)
{
    bool flat = j->fit.solve.reason == GD_STOP_UNDETERMINED && j->fit.says[0];
    return flat ? j->fit.says : gd_stop_text(j->fit.solve.reason);
}

/* ---- results, one row an element of a parameter ---- */

typedef struct row {
    char name[96];
    double value, error, low, high;
    bool active, flat; /* at an active bound; not determined */
} row;

/* One element; `at` counts elements over all parameters. */
static row make_row(const gd_fit_job *j, int param, int64_t element, int64_t at)
{
    row out = {.value = j->x[at],
               .error = j->error[at],
               .low = j->interval[2 * at],
               .high = j->interval[2 * at + 1],
               .active = j->active[at] != 0,
               .flat = j->flat[at] != 0};
    if (gd_ndim(j->param[param]) == 0)
        (void)snprintf(out.name, sizeof out.name, "%.80s", j->name[param]);
    else
        (void)snprintf(out.name, sizeof out.name, "%.60s[%lld]", j->name[param], (long long)element);
    return out;
}

static void each_row(gd_fit_job *j, void (*put)(gd_fit_job *j, const row *r, bool *first))
{
    int64_t at = 0;
    bool first = true;
    for (int i = 0; i < j->params; i++)
        for (int64_t k = 0; k < gd_numel(j->param[i]); k++, at++) {
            row r = make_row(j, i, k, at);
            put(j, &r, &first);
        }
}

static void put_line(gd_fit_job *j, const row *r, bool *first)
{
    char error[32];
    (void)first;
    (void)gd__format(error, sizeof error,
                     r->active         ? "at its bound"
                     : isnan(r->error) ? "-"
                                       : "%.4g",
                     r->error);
    gd__text_put(&j->cli->out, "%-16s %16.8g %14s   %.6g .. %.6g\n", r->name, r->value, error, r->low,
                 r->high);
}

/* What the columns of the table do not say. */
static void put_notes(gd_fit_job *j)
{
    gd_text *out = &j->cli->out;
    if (j->fit.free < j->elements)
        gd__text_add(out, "at a bound: intervals from the bound inwards, by profile; errors of the others "
                          "with these held\n");
    if (j->weightless)
        gd__text_put(out, "%lld row%s of weight 0 left out\n", (long long)j->weightless,
                     j->weightless > 1 ? "s" : "");
}

void gd__fit_print_table(gd_fit_job *j)
{
    gd_text *out = &j->cli->out;
    const gd_solve_result *solve = &j->fit.solve;
    gd__text_put(out, "%-16s %16s %14s   %s\n", "parameter", "value", "std. error", "95 % interval");
    each_row(j, put_line);
    if (j->fit.dof > 0)
        gd__text_put(out, "\nresidual standard deviation %.6g with %lld degrees of freedom\n", j->fit.sigma,
                     (long long)j->fit.dof);
    else
        gd__text_add(out, "\nno degrees of freedom left: nothing says how sure the values are\n");
    if (isnan(j->r2))
        gd__text_add(out, "R2 not defined for a constant y");
    else
        gd__text_put(out, "R2 %.6f", j->r2);
    gd__text_put(out, ", sum of squares %.8g, %lld points\n", j->fit.rss, (long long)j->fit.residuals);
    put_notes(j);
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
static void put_figures(gd_fit_job *j, figure what)
{
    gd_text *out = &j->cli->out;
    bool first = true;
    int64_t at = 0;
    gd__text_char(out, '{');
    for (int i = 0; i < j->params; i++) {
        bool list = gd_ndim(j->param[i]) > 0;
        gd__json_key(out, &first, j->name[i]);
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

static void put_flat(gd_fit_job *j, const row *r, bool *first)
{
    if (!r->flat) return;
    if (!*first) gd__text_add(&j->cli->out, ", ");
    *first = false;
    gd__json_string(&j->cli->out, r->name);
}

static void put_active(gd_fit_job *j, const row *r, bool *first)
{
    row as_flat = *r;
    as_flat.flat = r->active;
    put_flat(j, &as_flat, first);
}

/* "key": [names] of the elements that put takes. */
static void put_names(gd_fit_job *j, bool *first, const char *key,
                      void (*put)(gd_fit_job *j, const row *r, bool *first))
{
    gd__json_key(&j->cli->out, first, key);
    gd__text_char(&j->cli->out, '[');
    each_row(j, put);
    gd__text_char(&j->cli->out, ']');
}

void gd__fit_print_json(gd_fit_job *j)
{
    gd_text *out = &j->cli->out;
    bool first = true;
    static const char *const keys[] = {"params", "stderr", "interval"};
    gd__text_char(out, '{');
    for (int k = 0; k < 3; k++) {
        gd__json_key(out, &first, keys[k]);
        put_figures(j, (figure)k);
    }
    put_names(j, &first, "active", put_active);
    put_names(j, &first, "undetermined", put_flat);
    enum { R2 = 2 };
    const char *const names[] = {"rss", "sigma", "r2", "dof", "points", "rank", "steps", "evals", "seconds"};
    const double numbers[] = {j->fit.rss,
                              j->fit.sigma,
                              j->r2,
                              (double)j->fit.dof,
                              (double)j->fit.residuals,
                              (double)j->fit.rank,
                              (double)j->fit.solve.steps,
                              (double)j->fit.solve.evals,
                              j->fit.solve.seconds};
    for (int k = 0; k < 9; k++) {
        gd__json_key(out, &first, names[k]);
        if (k == R2 && isnan(j->r2))
            gd__text_add(out, "null");
        else
            gd__json_number(out, numbers[k]);
    }
    gd__json_key(out, &first, "converged");
    gd__text_add(out, j->fit.solve.converged ? "true" : "false");
    gd__json_key(out, &first, "stop");
    gd__json_string(out, gd_stop_name(j->fit.solve.reason));
    gd__json_key(out, &first, "reason");
    gd__json_string(out, gd__fit_stop_text(j));
    gd__text_add(out, "}\n");
}
