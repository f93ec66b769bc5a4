/* The best point; see kept.h. */
#include "problem/kept.h"

#include "gradus/autograd.h"

/* Copies of the parameters, in memory that is there after the first time. */
static gd_status copy_values(const gd_problem *p, gd_tensor **list)
{
    gd_status status = GD_OK;
    gd_scope_begin(p->ctx);
    gd_no_grad_begin(p->ctx);
    for (int i = 0; i < p->params && !status; i++) {
        if (list[i])
            status = gd_assign(list[i], p->value[i]);
        else if (!(list[i] = gd_keep(gd_copy(p->value[i]))))
            status = gd_error(p->ctx);
    }
    gd_no_grad_end(p->ctx);
    gd_scope_end(p->ctx);
    return status;
}

gd_status gd__kept_step(gd_kept *k, const gd_problem *p, double loss)
{
    if (!k->before) return GD_OK;
    if (loss < k->loss) {
        gd_tensor **list = k->best;
        k->best = k->before;
        k->before = list;
        k->loss = loss;
    }
    return copy_values(p, k->before);
}

gd_status gd__kept_start(gd_kept *k, const gd_problem *p)
{
    k->bytes = ((size_t)p->params + 1) * sizeof *k->best;
    k->before = gd__calloc(p->ctx, k->bytes);
    k->best = gd__calloc(p->ctx, k->bytes);
    return k->before && k->best ? copy_values(p, k->before) : GD_NOMEM;
}

void gd__kept_stop(gd_kept *k, const gd_problem *p)
{
    for (int i = 0; i < p->params; i++) {
        if (k->before) gd_release(k->before[i]);
        if (k->best) gd_release(k->best[i]);
    }
    gd__free(p->ctx, k->before, k->bytes);
    gd__free(p->ctx, k->best, k->bytes);
}
