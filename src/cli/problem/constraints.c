/* Constraints; see constraints.h. */
#include "cli/problem/constraints.h"

gd_status gd__constraints_read(const gd_problem *p, const gd_args *args, const char *option,
                               gd_constraints *c)
{
    int at = 0, room = 0;
    while (gd__args_next(args, option, &at)) room++;
    if (!room) return GD_OK;
    c->bytes = (size_t)room * sizeof *c->expr;
    if (!(c->expr = gd__calloc(p->ctx, c->bytes))) return GD_NOMEM;
    at = 0;
    for (const char *text; (text = gd__args_next(args, option, &at));) {
        gd_expr *e = c->expr[c->count] = gd__problem_expression(p->ctx, args, option, text, p->name,
                                                                p->count);
        if (!e) return gd_error(p->ctx);
        c->count++;
        bool any = false;
        for (int i = 0; i < p->params; i++) any = any || gd__expr_uses(e, i);
        if (!any)
            return gd_fail(p->ctx, GD_ARGUMENT, "--%s '%.60s': no parameter is in it: nothing can change it",
                           option, text);
    }
    return GD_OK;
}

static bool uses(const gd_constraints *c, int name)
{
    bool any = false;
    for (int i = 0; c && i < c->count; i++) any = any || gd__expr_uses(c->expr[i], name);
    return any;
}

gd_status gd__data_check(const gd_problem *p, const gd_constraints *equal, const gd_constraints *below)
{
    for (int i = p->params; i < p->count; i++)
        if (!gd__expr_uses(p->expr, i) && !uses(equal, i) && !uses(below, i))
            return gd_fail(p->ctx, GD_ARGUMENT, "--data %.60s: the expression does not use it", p->name[i]);
    return GD_OK;
}

void gd__constraints_free(gd_ctx *ctx, gd_constraints *c)
{
    for (int i = 0; i < c->count; i++) gd__expr_free(c->expr[i]);
    gd__free(ctx, c->expr, c->bytes);
    *c = (gd_constraints){0};
}

gd_tensor *gd__constraints_values(const gd_problem *p, const gd_constraints *c)
{
    gd_tensor *all = NULL;
    for (int i = 0; i < c->count; i++) {
        gd_tensor *v = gd__expr_eval(c->expr[i], p->value, p->dtype);
        int64_t n = v ? gd_numel(v) : 0;
        v = v ? gd_reshape(gd_drop_names(v), 1, &n) : NULL;
        all = i && all ? gd_cat((gd_tensor *[]){all, v}, 2, "0") : v;
        if (!all) return NULL;
    }
    return all;
}
