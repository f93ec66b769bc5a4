/* Remembers the parameters with the lowest loss so far.  They are state of the link, slot best, and optimizer attributes:
 * best_loss, and a tensor best_params.NAME for each parameter (shared with the state: do not change them).
 * The loss is that of the parameters before the step. */
#include "gradus/link.h"

#include <math.h>
#include <stdio.h>

static const gd_slot slots[] = {{"best", 0}};

static gd_status publish(gd_link *link, gd_var *var, double loss)
{
    gd_status status = gd_var_set_attr(var, "best_loss", loss);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        const char *param = gd_var_param_name(var, i);
        char name[256];
        snprintf(name, sizeof name, "best_params.%s", param ? param : "");
        if (param && gd_link_has_state(link, gd_var_params(var)[i], "best"))
            status = gd_var_set_attr_tensor(var, name, gd_link_state(link, gd_var_params(var)[i], "best"));
    }
    return status;
}

static gd_status save_best_step(gd_link *link, gd_var *var)
{
    /* with its gradient: the chain will most likely need that too */
    double loss = gd_var_loss_value(var, gd_var_wants_gradient(var));
    gd_status status = gd_error(gd_var_ctx(var));
    double best = gd_link_kept(link, "best_loss", INFINITY);
    if (status || (!(loss < best) && best == INFINITY)) return status;
    if (!(loss < best)) return publish(link, var, best); /* after a load it is not published yet */
    for (int i = 0; i < gd_var_count(var) && !status; i++)
        status = gd_link_set_state(link, gd_var_params(var)[i], "best", gd_var_params(var)[i]);
    if (!status) status = gd_link_keep(link, "best_loss", loss);
    return status ? status : publish(link, var, loss);
}

GD_LINK(misc, save_best,
    .spread = GD_SPREAD_VECTOR,
    .summary = "remembers the parameters with the lowest loss",
    .formula = "best = p where f(p) < f(best)",
    .cost = "a copy of the parameters whenever the loss is the lowest so far",
    .example = "adam | lr(0.01) | save_best",
    GD_SLOTS(slots),
    .step = save_best_step);
