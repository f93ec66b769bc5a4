/* Expressions of a fit: its model, in as many contexts as it is computed in, conditions and derived quantities. */
#include "expr/expr_advice.h"
#include "fit/fit_job.h"

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
        .names = names, .count = count, .definitions = j->spec.definitions, .file = j->spec.definitions_file};
    gd_expr_advice advice = {
        .option = option, .kind = kind_of, .user = j, .params = true, .constants = "fix"};
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

bool gd__fit_uses(const gd_fit *j, int place) { return gd_expr_uses(j->model, place); }
