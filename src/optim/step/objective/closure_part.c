/* The objective as a chain sees it that has some of the parameters. */
#include "optim/link/owner.h"
#include "optim/step/var_internal.h"

/* A graph is of everything: autograd is asked for the derivatives of the part alone. */
static gd_status part_eval(gd_closure *c, gd_var *var, int flags, gd_tensor **loss, gd_tensor **grads)
{
    gd_var *whole = c->user;
    if (flags & (GD_EVAL_GRAPH | GD_EVAL_HISTORY)) return gd__closure_eval(c->below, var, flags, loss, grads);
    gd_tensor **all = grads ? gd__tensors_new(var->ctx, whole->count) : NULL;
    if (grads && !all) return GD_NOMEM;
    gd_status status = gd__closure_eval(c->below, whole, flags, loss, all);
    for (int i = 0, k = 0; i < whole->count && k < var->count && grads && !status; i++)
        if (whole->params[i] == var->params[k]) gd__retain(grads[k++] = all[i]);
    gd__tensors_free(var->ctx, all, whole->count);
    return status;
}

gd_status gd__closure_part(gd_var *part, gd_var *whole)
{
    gd_closure *c = gd__closure_push(part);
    if (!c) return GD_NOMEM;
    c->eval = part_eval;
    c->user = whole;
    part->closure = c;
    return GD_OK;
}
