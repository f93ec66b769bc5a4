/* Problems; see problem.h. */
#include "problem/problem.h"
#include "base/spelling.h"

#include "expr/expr_advice.h"
#include "gradus/autograd.h"
#include "problem/constraints.h"

#include <stdio.h>
#include <string.h>

/* ---- names and values ---- */

static bool is_name(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (text[i] == '`' || (unsigned char)text[i] < 0x20) return false;
    return length > 0;
}

/* NAME=VALUE of an option into the next place. */
static gd_status add(gd_problem *p, const char *option, const char *spec)
{
    const char *equals = strchr(spec, '=');
    size_t length = equals ? (size_t)(equals - spec) : 0;
    if (!equals || !is_name(spec, length))
        return gd_fail(p->ctx, GD_ARGUMENT, "%s: NAME=VALUE expected, '%.60s' found",
                       gd__setting_of(p->ctx, option), spec);
    const char *name = gd__intern(p->ctx, spec, length);
    if (!name) return GD_NOMEM;
    for (int i = 0; i < p->count; i++)
        if (p->name[i] == name)
            return gd_fail(p->ctx, GD_ARGUMENT, "%s: '%.60s' is there already",
                           gd__setting_of(p->ctx, option), name);
    char what[GD_SETTING + 100];
    (void)snprintf(what, sizeof what, "%s %.80s", gd__setting_of(p->ctx, option), name);
    gd_tensor *t = gd__value_parse(p->ctx, what, equals + 1, p->spec.dtype, &p->tables);
    if (t && p->spec.device != gd_tensor_device(t)) {
        gd_tensor *moved = gd_to_device(t, p->spec.device);
        gd_release(t);
        t = moved;
    }
    if (!t) return gd_error(p->ctx);
    p->name[p->count] = name;
    p->value[p->count++] = t;
    return GD_OK;
}

static gd_status add_values(gd_problem *p, const char *option, const gd_words *list)
{
    gd_status status = GD_OK;
    for (int i = 0; list && i < list->count && !status; i++) status = add(p, option, list->word[i]);
    return status;
}

static gd_status read_values(gd_problem *p)
{
    gd_status status = add_values(p, "param", p->spec.params);
    p->params = p->count;
    if (!status) status = add_values(p, "data", p->spec.data);
    for (int i = 0; i < p->params && !status; i++)
        if (!gd_require_grad(p->value[i])) status = gd_error(p->ctx);
    return status;
}

static int words_in(const gd_words *list) { return list ? list->count : 0; }

gd_status gd__problem_open(gd_problem *p, gd_ctx *ctx, const gd_problem_spec *spec)
{
    *p = (gd_problem){.ctx = ctx, .spec = *spec, .tables = {.csv = spec->csv}};
    p->bytes = ((size_t)words_in(spec->params) + (size_t)words_in(spec->data) + 1) * sizeof(void *);
    p->name = gd__calloc(ctx, p->bytes);
    p->value = gd__calloc(ctx, p->bytes);
    if (!p->name || !p->value) return GD_NOMEM;
    gd_status status = read_values(p);
    if (status) return status;
    p->expr = gd__problem_expression(p, NULL, spec->expression);
    if (!p->expr) return gd_error(ctx);
    for (int i = p->params; i < p->count; i++) gd_expr_fix(p->expr, i);
    return gd__problem_read_constraints(p);
}

void gd__problem_close(gd_problem *p)
{
    gd__problem_free_constraints(p);
    gd_expr_free(p->expr);
    for (int i = 0; i < p->count; i++) gd_release(p->value[i]);
    gd__free(p->ctx, p->name, p->name ? p->bytes : 0);
    gd__free(p->ctx, p->value, p->value ? p->bytes : 0);
    *p = (gd_problem){.ctx = p->ctx};
}

/* ---- expressions in the names ---- */

static gd_expr_name_kind kind_of(const void *user, const char *name)
{
    const gd_problem *p = user;
    for (int i = 0; i < p->params; i++)
        if (!strcmp(p->name[i], name)) return GD_EXPR_NAME_PARAMETER;
    return GD_EXPR_NAME_CONSTANT;
}

/* The error about a text that cannot be parsed: lists the names, and how to define more. */
static gd_expr *advise(const gd_problem *p, const char *option, gd_expr *e)
{
    gd_expr_advice advice = {
        .option = option, .kind = kind_of, .user = p, .params = !p->spec.params_are_all, .constants = "data"};
    if (!e) gd__expr_advise(p->ctx, &advice, p->name, p->count);
    return e;
}

static gd_expr_options options_of(const gd_problem *p)
{
    return (gd_expr_options){.names = p->name,
                             .count = p->count,
                             .definitions = p->spec.definitions,
                             .file = p->spec.definitions_file};
}

gd_expr *gd__problem_expression(const gd_problem *p, const char *option, const char *text)
{
    gd_expr_options options = options_of(p);
    return advise(p, option, gd__expr_parse_form(p->ctx, text, &options, GD_EXPR_VALUE));
}

gd_expr *gd__problem_relation(const gd_problem *p, const char *option, const char *text, int part,
                              gd_expr_relation *out)
{
    gd_expr_options options = options_of(p);
    return advise(p, option, gd__expr_parse_relation(p->ctx, text, &options, part, out));
}

static bool uses(const gd_constraints *c, int name)
{
    bool any = false;
    for (int i = 0; i < c->count; i++) any = any || gd_expr_uses(c->item[i].expr, name);
    return any;
}

gd_status gd__problem_check_names(const gd_problem *p)
{
    for (int i = 0; i < p->count; i++)
        if (!gd_expr_uses(p->expr, i) && !uses(&p->equal, i) && !uses(&p->below, i))
            return gd_fail(p->ctx, GD_ARGUMENT, "%s %.60s: the expression does not use it%s",
                           gd__setting_of(p->ctx, i < p->params ? "params" : "data"), p->name[i],
                           gd__problem_is_constrained(p) ? ", nor does a constraint" : "");
    return GD_OK;
}

/* ---- evaluating ---- */

gd_tensor *gd__problem_value(gd_problem *p) { return gd_expr_eval(p->expr, p->value, p->spec.dtype); }

gd_tensor *gd__problem_loss_of(gd_tensor *value)
{
    if (!value || gd_ndim(value) == 0) return value;
    if (gd_numel(value) == 1) return gd_sum(value, NULL, false); /* the loss itself, whatever its shape */
    return gd_sum(gd_square(value), NULL, false);
}

gd_tensor *gd__problem_loss(gd_problem *p)
{
    gd_scope_begin(p->ctx);
    return gd__scope_leave(p->ctx, gd__problem_loss_of(gd__problem_value(p)));
}
