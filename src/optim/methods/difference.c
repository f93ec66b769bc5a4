/* Finite differences, and what links that estimate gradients share. */
#include "optim/methods/difference.h"
#include "optim/step/optimizer.h"

#include <math.h>
#include <string.h>

static const gd_difference formulas[] = {
    {"forward", 2, {0, 1}, {-1, 1}},
    {"backward", 2, {0, -1}, {1, -1}},
    {"central", 2, {1, -1}, {1.0 / 2, -1.0 / 2}},
    {"forward3", 3, {0, 1, 2}, {-3.0 / 2, 2, -1.0 / 2}},
    {"backward3", 3, {0, -1, -2}, {3.0 / 2, -2, 1.0 / 2}},
    {"central4", 4, {1, 2, -1, -2}, {2.0 / 3, -1.0 / 12, -2.0 / 3, 1.0 / 12}},
    {"forward4", 4, {0, 1, 2, 3}, {-11.0 / 6, 3, -3.0 / 2, 1.0 / 3}},
    {"forward5", 5, {0, 1, 2, 3, 4}, {-25.0 / 12, 4, -3, 4.0 / 3, -1.0 / 4}},
    /* bias of fourth order in h (Pradeep & Bhatnagar 2023) */
    {"bspsa4", 4, {1, -1, 3, -3}, {27.0 / 48, -27.0 / 48, -1.0 / 48, 1.0 / 48}},
};

const gd_difference *gd__difference(const gd_link *link)
{
    const char *name = gd_link_get(link, "formula", NULL)->string;
    if (!strcmp(name, "forward2")) name = "forward";
    if (!strcmp(name, "backward2")) name = "backward";
    if (!strcmp(name, "central2") || !strcmp(name, "central3")) name = "central";
    for (size_t i = 0; i < sizeof formulas / sizeof *formulas; i++)
        if (!strcmp(formulas[i].name, name)) return &formulas[i];
    return &formulas[2];
}

bool gd__difference_at_zero(const gd_difference *d) { return d->at[0] == 0; }

gd_status gd__value_below(gd_var *var, double *value)
{
    gd_tensor *loss = NULL;
    gd_status status = gd__var_inner_evaluate(var, &loss, NULL);
    *value = status ? NAN : gd_item(loss);
    gd__release(loss);
    return status ? status : gd_error(gd_var_ctx(var));
}

gd_status gd__estimate(gd_link *link, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads,
                       gd_estimate_fn fn)
{
    *loss = NULL;
    if (!backward) return gd__var_inner_evaluate(var, loss, NULL);
    for (int i = 0; i < gd_var_count(var); i++) grads[i] = NULL;
    gd_status status = fn(link, var, loss, grads);
    if (!status && !*loss) status = gd__var_inner_evaluate(var, loss, NULL);
    if (!status) return GD_OK;
    for (int i = 0; i < gd_var_count(var); i++) {
        gd__release(grads[i]);
        grads[i] = NULL;
    }
    gd__release(*loss);
    *loss = NULL;
    return status;
}

gd_status gd__estimate_step(gd_link *link, gd_var *var, gd_wrap_fn fn)
{
    if (gd_link_is(link, "target", "closure")) return gd__var_wrap_closure(var, fn, link);
    /* once, here: through a wrapped closure that is taken off again */
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_closure *below = var->closure;
    gd_tensor *loss = NULL, **grads = gd_link_scratch(link, count);
    gd_status status = grads ? gd__var_wrap_closure(var, fn, link) : gd_error(ctx);
    if (!status) status = gd__var_evaluate(var, &loss, grads);
    var->closure = below;
    if (status) return status;
    if (!gd_var_has_loss(var)) gd_var_set_loss(var, loss);
    status = gd_link_is(link, "target", "grad") ? gd_var_set_grad(var, grads) : gd_var_set_update(var, grads);
    gd__release(loss);
    for (int i = 0; i < count; i++) gd__release(grads[i]);
    return status;
}
