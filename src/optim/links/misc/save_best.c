/* Remembers the parameters with the lowest loss so far.  They are state of the link, slot best, and optimizer attributes:
 * best_loss, and a tensor best_params.NAME for each parameter (shared with the state: do not change them).
 * The loss is that of the parameters before the step. */
#include "optim/methods/line.h"
#include "optim/step/optimizer.h"

#include <math.h>
#include <stdio.h>

static const gd_slot slots[] = {{"best", 0}};

static gd_status publish(gd_link *link, gd_var *var, double loss)
{
    gd_optimizer *o = gd_var_optimizer(var);
    gd_status status = gd__set_attr(o, "best_loss", loss, NULL);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *p = gd_var_params(var)[i];
        int index = gd__param_index(o, p);
        char name[256];
        snprintf(name, sizeof name, "best_params.%s", index < 0 ? "" : gd_optimizer_param_name(o, index));
        if (index >= 0) status = gd__set_attr(o, name, 0, gd_link_state(link, p, "best"));
    }
    return status;
}

static gd_status save_best_step(gd_link *link, gd_var *var)
{
    /* with its gradient: the chain will most likely need that too */
    double loss = gd_var_loss_value(var, !gd_var_has_loss(var) && var->update_is_grad);
    gd_status status = gd_error(gd_var_ctx(var));
    if (status || !(loss < gd__kept(link, "best_loss", INFINITY))) return status;
    for (int i = 0; i < gd_var_count(var) && !status; i++)
        status = gd_link_set_state(link, gd_var_params(var)[i], "best", gd_var_params(var)[i]);
    if (!status) status = gd__keep_number(link, "best_loss", loss);
    return status ? status : publish(link, var, loss);
}

const gd_link_class gd_link_save_best = {
    .spread = GD_SPREAD_VECTOR,
    .name = "save_best",
    .family = "misc",
    .summary = "remembers the parameters with the lowest loss",
    .formula = "best = p where f(p) < f(best)",
    .cost = "a copy of the parameters whenever the loss is the lowest so far",
    .example = "adam | lr(0.01) | save_best",
    GD_SLOTS(slots),
    .step = save_best_step,
};
