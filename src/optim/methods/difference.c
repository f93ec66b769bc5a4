/* What links that estimate gradients share. */
#include "gradus/link/estimate.h"
#include "optim/step/optimizer.h"

const gd_difference *gd_link_difference(const gd_link *link)
{
    const gd_setting *formula = gd_link_get(link, "formula", NULL);
    return formula ? gd_difference_named(formula->string) : NULL;
}

/* ---- estimates ---- */

static gd_status estimated(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    const gd_closure *c = user;
    gd_asked *asked = &var->optimizer->asked;
    bool exact = asked->exact;
    *loss = NULL;
    asked->exact = false;
    gd_status status = backward ? c->estimate(c->link, var, loss, grads) : GD_OK;
    asked->estimated |= backward && !asked->exact; /* an estimate may use exact slopes */
    asked->exact |= exact;
    return status || *loss ? status : gd_var_inner_evaluate(var, loss, NULL);
}

static gd_status wrap(gd_link *link, gd_var *var, gd_estimate_fn fn)
{
    gd_status status = gd_var_wrap_closure(var, estimated, NULL);
    if (status) return status;
    var->closure->link = link;
    var->closure->estimate = fn;
    var->closure->user = var->closure;
    return GD_OK;
}

gd_status gd_estimate_step(gd_link *link, gd_var *var, gd_estimate_fn fn)
{
    if (!link || !var || !fn)
        return gd__null(link ? gd_link_ctx(link) : gd_var_ctx(var), "estimate: no link, step or function");
    if (gd_link_is(link, "target", "closure")) return wrap(link, var, fn);
    /* once, here: through a wrapped closure that is removed again */
    int count = gd_var_count(var);
    gd_closure *below = var->closure;
    gd_tensor *loss = NULL, **grads = gd_link_scratch(link, count);
    gd_status status = grads ? wrap(link, var, fn) : gd_error(gd_var_ctx(var));
    if (!status) status = gd__var_evaluate(var, &loss, grads);
    var->closure = below;
    if (status) return status;
    if (!gd_var_has_loss(var)) gd_var_set_loss(var, loss);
    status = gd_link_is(link, "target", "grad") ? gd_var_set_grad(var, grads) : gd_var_set_update(var, grads);
    gd__release(loss);
    for (int i = 0; i < count; i++) gd__release(grads[i]);
    return status;
}
