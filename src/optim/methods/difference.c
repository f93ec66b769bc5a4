/* Finite differences, and what links that estimate gradients share. */
#include "gradus/link/estimate.h"
#include "optim/step/optimizer.h"

#include <string.h>

/* One-sided formulas, used if only one side has room, have the order of the central ones. */
#define ONE_SIDED(k) &formulas[k]
static const gd_difference formulas[] = {
    {"forward", 2, {0, 1}, {-1, 1}, 1, ONE_SIDED(0)},
    {"backward", 2, {0, -1}, {1, -1}, 1, ONE_SIDED(1)},
    {"central", 2, {1, -1}, {1.0 / 2, -1.0 / 2}, 2, ONE_SIDED(3)},
    {"forward3", 3, {0, 1, 2}, {-3.0 / 2, 2, -1.0 / 2}, 2, ONE_SIDED(3)},
    {"backward3", 3, {0, -1, -2}, {3.0 / 2, -2, 1.0 / 2}, 2, ONE_SIDED(4)},
    {"central4", 4, {1, 2, -1, -2}, {2.0 / 3, -1.0 / 12, -2.0 / 3, 1.0 / 12}, 4, ONE_SIDED(7)},
    {"forward4", 4, {0, 1, 2, 3}, {-11.0 / 6, 3, -3.0 / 2, 1.0 / 3}, 3, ONE_SIDED(6)},
    {"forward5", 5, {0, 1, 2, 3, 4}, {-25.0 / 12, 4, -3, 4.0 / 3, -1.0 / 4}, 4, ONE_SIDED(7)},
    /* bias of fourth order in h (Pradeep & Bhatnagar 2023) */
    {"bspsa4", 4, {1, -1, 3, -3}, {27.0 / 48, -27.0 / 48, -1.0 / 48, 1.0 / 48}, 4, ONE_SIDED(7)},
};

const gd_difference *gd_link_difference(const gd_link *link)
{
    const gd_setting *formula = gd_link_get(link, "formula", NULL);
    if (!formula) return NULL;
    const char *name = formula->string;
    if (!strcmp(name, "forward2")) name = "forward";
    if (!strcmp(name, "backward2")) name = "backward";
    if (!strcmp(name, "central2") || !strcmp(name, "central3")) name = "central";
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].name, name)) return &formulas[i];
    return &formulas[2];
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
    asked->estimated |= backward && !asked->exact; /* an estimate may be made of exact slopes */
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
    /* once, here: through a wrapped closure that is taken off again */
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
