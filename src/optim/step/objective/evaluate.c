/* Parameters for evaluation: links that keep averages provide them, and they replace the parameters until those are restored.
 * The parameters of steps are kept as copies, not computed back: they return bit for bit. */
#include "optim/ranks/share.h"
#include "optim/step/optimizer.h"

/* The replacement of the parameter by the last link; the parameter itself if no link does. */
static gd_tensor *weights_of(gd_link *link, gd_tensor *param)
{
    gd_tensor *found = param;
    for (int i = 0; i < link->children && found; i++) {
        gd_tensor *one = weights_of(link->child[i], param);
        if (one != param) found = one;
    }
    gd_tensor *own = found && link->cls->evaluated ? link->cls->evaluated(link, param) : param;
    return own == param ? found : own;
}

/* Swaps a parameter and its replacement. On failure nothing has changed. */
static gd_status put_in(gd_optimizer *o, gd_param *p)
{
    gd_tensor *weights = weights_of(o->chain, p->tensor);
    if (!weights) return gd_error(o->ctx);
    if (weights == p->tensor) return GD_OK;
    gd_tensor *same = gd_cast(weights, p->tensor->dtype);
    gd_tensor *aside = same ? gd__copy_on(p->tensor, p->tensor->storage->device) : NULL;
    if (!aside) return gd_error(o->ctx);
    gd_status status = gd_assign(p->tensor, same);
    if (status)
        gd__release(aside);
    else
        p->aside = aside;
    return status;
}

static gd_status put_back(gd_optimizer *o)
{
    gd_status status = GD_OK;
    for (int i = 0; i < o->count && !status; i++) {
        gd_param *p = &o->param[i];
        if (!p->aside) continue;
        status = gd_assign(p->tensor, p->aside);
        if (status) return status; /* restored ones stay restored: calling again continues */
        gd__release(p->aside);
        p->aside = NULL;
    }
    o->evaluating = false;
    return status;
}

gd_status gd_optimizer_evaluate(gd_optimizer *o, bool on)
{
    if (!o) return GD_ARGUMENT;
    if (gd_error(o->ctx)) return gd_error(o->ctx);
    if (on == o->evaluating) return GD_OK;
    if (!on) return put_back(o);
    gd_status status = gd__not_stepping(o, "evaluating");
    if (!status) status = gd__refuse_partial(o, "evaluating");
    if (status) return status;
    gd_no_grad_begin(o->ctx);
    gd_scope_begin(o->ctx);
    if (o->shared.share) o->shared.share->together = true; /* averages that are sharded are gathered */
    for (int i = 0; i < o->count && !status; i++) status = put_in(o, &o->param[i]);
    if (o->shared.share) o->shared.share->together = false;
    gd_scope_end(o->ctx);
    gd_no_grad_end(o->ctx);
    o->evaluating = true;
    if (status) (void)!put_back(o);
    return status;
}
