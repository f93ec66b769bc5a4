/* From a spec to a fit: everything that the spec points to is copied, so that the caller may free it. */
#include "base/text/ascii.h"
#include "base/spelling.h"
#include "fit/fit_job.h"

#include <math.h>
#include <string.h>

gd_fit_spec gd_fit_defaults(void)
{
    return (gd_fit_spec){.level = 0.95, .starts = 1, .max_steps = gd_solve_defaults().max_steps};
}

/* ---- copies ---- */

static gd_status keep_text(gd_fit *j, const char **text)
{
    if (*text) *text = gd__intern(j->ctx, *text, strlen(*text));
    return gd_error(j->ctx);
}

static gd_status keep_texts(gd_fit *j)
{
    gd_fit_spec *s = &j->spec;
    const char **const text[] = {
        &s->model, &s->definitions, &s->definitions_file, &s->y,      &s->weights, &s->sigma, &s->dates,
        &s->loss,  &s->chain,       &s->intervals,        &s->device, &s->errors};
    gd_status status = GD_OK;
    for (size_t i = 0; i < sizeof text / sizeof *text && !status; i++) status = keep_text(j, text[i]);
    return status;
}

static gd_status keep_list(gd_fit *j, int k, const char *const **list)
{
    size_t count = 0;
    while (*list && (*list)[count]) count++;
    j->texts.list_bytes[k] = (count + 1) * sizeof(char *);
    if (!(j->texts.list[k] = gd__calloc(j->ctx, j->texts.list_bytes[k]))) return GD_NOMEM;
    gd_status status = GD_OK;
    for (size_t i = 0; i < count && !status; i++) {
        j->texts.list[k][i] = (*list)[i];
        status = keep_text(j, &j->texts.list[k][i]);
    }
    *list = j->texts.list[k];
    return status;
}

static gd_status keep_params(gd_fit *j)
{
    gd_fit_spec *s = &j->spec;
    gd_status status = GD_OK;
    if (s->param_count < 0 || (s->param_count && !s->params))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {params}: %d of them, but no list", s->param_count);
    if (!(j->texts.params = gd__alloc_array(j->ctx, (size_t)s->param_count + 1, sizeof *j->texts.params)))
        return GD_NOMEM;
    for (int i = 0; i < s->param_count && !status; i++) {
        j->texts.params[i] = s->params[i];
        if (!s->params[i].name || !*s->params[i].name)
            return gd_fail(j->ctx, GD_ARGUMENT, "fit: {params}: number %d has no name", i + 1);
        if (s->params[i].fixed && s->params[i].tied)
            return gd_fail(j->ctx, GD_ARGUMENT, "{params} %.60s: it is fixed and tied: one of them",
                           s->params[i].name);
        if (!(s->params[i].low <= s->params[i].high))
            return gd_fail(j->ctx, GD_ARGUMENT, "{params} %.60s: no number is between %g and %g",
                           s->params[i].name, s->params[i].low, s->params[i].high);
        status = keep_text(j, &j->texts.params[i].name);
        if (!status) status = keep_text(j, &j->texts.params[i].tied);
    }
    s->params = j->texts.params;
    return status;
}

static gd_status keep_spec(gd_fit *j)
{
    gd_fit_spec *s = &j->spec;
    if ((!s->model && !s->function) || !s->table)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: a model and a table are needed");
    if (!(s->level > 0 && s->level < 1))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {level}: %g is not between 0 and 1", s->level);
    if (s->max_steps < 1 || s->max_evals < 0 || !(s->max_seconds >= 0))
        return gd_fail(j->ctx, GD_ARGUMENT,
                       "fit: {max_steps}: steps, evaluations and seconds are numbers above 0");
    if (s->group_starts)
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {group_starts}: for fits of groups, this is one fit");
    if (s->errors && strcmp(s->errors, "usual") && strcmp(s->errors, "hc3"))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {errors}: '%.60s' is neither usual nor hc3", s->errors);
    if (s->errors && !strcmp(s->errors, "hc3") &&
        (s->absolute_sigma || (s->loss && strcmp(s->loss, "squares"))))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {errors} hc3: not with %s",
                       gd__setting_of(j->ctx, s->absolute_sigma ? "absolute_sigma" : "loss"));
    gd_status status = gd__fit_check_dates(j->ctx, s->dates);
    if (!status) status = keep_texts(j);
    if (!status) status = keep_list(j, 0, &s->x_errors);
    if (!status) status = keep_list(j, 1, &s->exclude);
    if (!status) status = keep_list(j, 2, &s->bounds);
    if (!status) status = keep_list(j, 3, &s->derive);
    if (!status) status = keep_list(j, 4, &s->columns);
    if (!s->model) s->model = "function";
    return status ? status : keep_params(j);
}

/* ---- a fit ---- */

gd_fit *gd__fit_make(gd_ctx *ctx)
{
    gd_fit *j = gd__calloc(ctx, sizeof *j);
    if (!j) return NULL;
    j->ctx = ctx;
    j->reached = j->fit.rss = j->numbers.aic = NAN;
    j->texts.definitions = gd__text(ctx);
    gd__fit_watch(j);
    return j;
}

gd_fit *gd_fit_new(gd_ctx *ctx, const gd_fit_spec *spec)
{
    if (!ctx || gd_error(ctx)) return NULL;
    if (!spec) return gd__refuse(ctx, GD_ARGUMENT, "fit: no spec");
    gd_fit *j = gd__fit_make(ctx);
    if (!j) return NULL;
    j->spec = *spec;
    gd__fit_watch(j);
    gd_status status = keep_spec(j);
    if (!status) {
        j->csv = gd__csv_retain(spec->table);
        status = gd__csv_rows(j->csv) ? gd__fit_read(j)
                                      : gd_fail(ctx, GD_FORMAT, "%s: no rows", gd__csv_source(j->csv));
    }
    if (!status) status = gd__fit_prepare(j);
    if (!status && j->spec.dates && !gd__fit_has_dates(j))
        gd_warn(ctx, "fit: {dates} has no effect: the model uses no column of dates");
    if (!status) return j;
    gd_fit_free(j);
    return NULL;
}

void gd_fit_free(gd_fit *j)
{
    if (!j) return;
    gd__fit_close(j);
    for (int k = 0; k < GD_FIT_LISTS; k++)
        gd__free(j->ctx, j->texts.list[k], j->texts.list[k] ? j->texts.list_bytes[k] : 0);
    gd__free(j->ctx, j->texts.params,
             j->texts.params ? ((size_t)j->spec.param_count + 1) * sizeof *j->texts.params : 0);
    gd__text_free(&j->texts.definitions);
    gd_archive_free(j->texts.archive);
    gd__strfree(j->ctx, j->texts.path);
    gd__csv_free(j->csv);
    gd__free(j->ctx, j, sizeof *j);
}
