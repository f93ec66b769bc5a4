/* Expressions of a fit: its model, in every context that evaluates it, conditions and derived quantities. */
#include "expr/expr_advice.h"
#include "base/spelling.h"
#include "fit/fit_job.h"
#include "gradus/autograd.h"

#include <stdio.h>
#include <string.h>

/* Parameters, then columns, then constants. */
static gd_expr_name_kind kind_of(const void *user, const char *name)
{
    const gd_fit *j = user;
    int columns = j->params + gd__csv_columns(j->csv);
    for (int i = 0; i < j->params; i++)
        if (!strcmp(j->name[i], name)) return GD_EXPR_NAME_PARAMETER;
    for (int i = columns; i < j->names; i++)
        if (!strcmp(j->name[i], name)) return GD_EXPR_NAME_CONSTANT;
    return GD_EXPR_NAME_COLUMN;
}

static gd_expr *parse(const gd_fit *j, gd_ctx *ctx, const char *option, const char *text,
                      const char *const *names, int count, gd_expr_form form)
{
    gd_expr_options options = {
        .names = names,
        .count = count,
        .definitions = names == j->name || !j->function.tied_count ? j->spec.definitions : j->texts.given,
        .file = j->spec.definitions_file};
    gd_expr_advice advice = {
        .option = option, .kind = kind_of, .user = j, .params = true, .constants = "fixed"};
    gd_expr *e = gd__expr_parse_form(ctx, text, &options, form);
    if (!e && j->csv) gd__expr_advise(ctx, &advice, names, count);
    return e;
}

gd_expr *gd__fit_parse_model(const gd_fit *j, gd_ctx *ctx, gd_expr_form form)
{
    return parse(j, ctx, NULL, j->spec.model, j->name, j->names, form);
}

gd_expr *gd__fit_parse(const gd_fit *j, const char *option, const char *text, const char *const *names,
                       int count)
{
    return parse(j, j->ctx, option, text, names, count, GD_EXPR_VALUE);
}

/* ---- tied parameters ---- */

/* It may depend on parameters, constants and earlier tied parameters. */
static gd_status check_tied(gd_fit *j, const gd_fit_param *p, gd_expr **out)
{
    char option[80];
    (void)snprintf(option, sizeof option, "tied %.60s", p->name);
    gd_status status = GD_OK;
    gd_expr *e = parse(j, j->ctx, option, p->tied, j->name, j->names, GD_EXPR_VALUE);
    for (int i = j->params; i < j->params + gd__csv_columns(j->csv) && e && !status; i++)
        if (gd_expr_uses(e, i))
            status = gd_fail(j->ctx, GD_ARGUMENT, "%s: '%.60s' is a column; parameters only",
                             gd__setting_of(j->ctx, option), j->name[i]);
    for (int i = 0; i < j->names && !status; i++)
        if (!strcmp(j->name[i], p->name))
            status = gd_fail(j->ctx, GD_ARGUMENT, "%s: there is a %s of this name",
                             gd__setting_of(j->ctx, option),
                             i < j->params                             ? "parameter"
                             : i < j->params + gd__csv_columns(j->csv) ? "column"
                                                                       : "constant");
    *out = status ? NULL : e;
    if (status) gd_expr_free(e);
    return e ? status : gd_error(j->ctx);
}

gd_status gd__fit_read_tied(gd_fit *j)
{
    gd_status status = GD_OK;
    const char *given = j->texts.given = j->spec.definitions;
    int count = 0;
    for (int i = 0; i < j->spec.param_count; i++) count += j->spec.params[i].tied != NULL;
    if (!count) return GD_OK;
    j->function.call_bytes = ((size_t)j->spec.param_count + (size_t)gd__csv_columns(j->csv) + 1) *
                             sizeof(void *);
    if (!(j->function.tied = gd__calloc(j->ctx, j->function.call_bytes))) return GD_NOMEM;
    if (given) gd__text_put(&j->texts.definitions, "%s\n", given);
    for (int i = 0; i < j->spec.param_count && !status; i++) {
        const gd_fit_param *p = &j->spec.params[i];
        if (!p->tied) continue;
        status = check_tied(j, p, &j->function.tied[j->function.tied_count]);
        if (status) break;
        j->function.tied_count++;
        gd__text_put(&j->texts.definitions, "%s = %s;\n", p->name, p->tied);
        if (j->texts.definitions.failed) return GD_NOMEM;
        j->spec.definitions = gd__text_string(&j->texts.definitions);
    }
    return status;
}

/* ---- functions ---- */

gd_status gd__fit_read_function(gd_fit *j)
{
    j->y_name = j->spec.y ? j->spec.y : "y";
    j->function.call_bytes = ((size_t)j->spec.param_count + (size_t)gd__csv_columns(j->csv) + 1) *
                             sizeof(void *);
    int columns = 0;
    for (const char *const *name = j->spec.columns; *name; name++, columns++)
        if (gd__csv_column(j->csv, *name) < 0) return gd_error(j->ctx);
    if (columns > gd__csv_columns(j->csv))
        return gd_fail(j->ctx, GD_ARGUMENT, "fit: {columns}: %d of them, the table has %d", columns,
                       gd__csv_columns(j->csv));
    j->function.call = gd__calloc(j->ctx, j->function.call_bytes);
    return j->function.call ? GD_OK : GD_NOMEM;
}

/* Places of columns among the names, for the function. */
static int column_place(const gd_fit *j, const char *name) { return j->params + gd__csv_find(j->csv, name); }

bool gd__fit_uses(const gd_fit *j, int place)
{
    if (!j->spec.function) return gd_expr_uses(j->model, place);
    bool used = place < j->params || place >= j->params + gd__csv_columns(j->csv);
    for (const char *const *name = j->spec.columns; *name && !used; name++)
        used = column_place(j, *name) == place;
    return used;
}

/* The arguments of a function. */
static gd_status fill_call(const gd_fit *j, gd_tensor **value)
{
    int free = 0, fixed = j->params + gd__csv_columns(j->csv), tied = 0, at = 0;
    for (; at < j->spec.param_count; at++) {
        const gd_fit_param *p = &j->spec.params[at];
        j->function.call[at] = p->tied    ? gd_expr_eval(j->function.tied[tied++], value, GD_F64)
                               : p->fixed ? value[fixed++]
                                          : value[free++];
        if (!j->function.call[at]) return gd_error(j->ctx);
    }
    for (const char *const *name = j->spec.columns; *name; name++)
        j->function.call[at++] = value[column_place(j, *name)];
    return GD_OK;
}

/* A function's value as that of an expression: one number, or a vector of a number for each row. */
static gd_tensor *check_value(const gd_fit *j, gd_tensor *t)
{
    gd_tensor *column = *j->spec.columns ? j->function.call[j->spec.param_count] : NULL;
    if (!t) {
        if (!gd_error(j->ctx)) (void)gd_fail(j->ctx, GD_CALLBACK, "fit: the model gives no tensor");
        return NULL;
    }
    int64_t count = gd_numel(t), rows = column ? gd_numel(column) : count;
    if (count != 1 && count != rows)
        return gd__refuse(j->ctx, GD_SHAPE, "fit: the model gives %lld numbers for %lld rows",
                          (long long)count, (long long)rows);
    t = gd_cast(gd_drop_names(t), GD_F64);
    return count == 1 && rows != 1 ? gd_reshape(t, 0, NULL) : gd_reshape(t, 1, &count);
}

gd_tensor *gd__fit_eval(const gd_fit *j, gd_expr *model, gd_tensor **value)
{
    if (!j->spec.function) return gd_expr_eval(model, value, GD_F64);
    if (fill_call(j, value)) return NULL;
    return check_value(
        j, j->spec.function(j->spec.user, j->function.call, j->function.call + j->spec.param_count));
}
