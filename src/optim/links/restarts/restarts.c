/* Links that forget the state of their children from time to time. */
#include "gradus/link.h"

static const gd_field every_fields[] = {
    GD_CHILD_NEEDED("modules", "the links to reset"),
    {.name = "steps",
     .kinds = GD_SET_REAL | GD_SET_STRING,
     .low = 1,
     .high = 1e15,
     .integer = true,
     .choices = "ndim",
     .help = "steps from reset to reset; ndim: the number of elements"},
};

static gd_status restart_every_step(gd_link *link, gd_var *var)
{
    const gd_setting *s = gd_link_get(link, "steps", NULL);
    double interval = s->real, steps = gd_link_kept(link, "steps", 0) + 1;
    if (s->kind == GD_SET_STRING) {
        interval = 0;
        for (int i = 0; i < gd_var_count(var); i++) interval += (double)gd_numel(gd_var_params(var)[i]);
    }
    gd_link *child = gd_link_child(link, "modules");
    if (steps >= interval) {
        gd_link_reset(child);
        steps = 0;
    }
    gd_status status = gd_link_step(child, var);
    return status ? status : gd_link_keep(link, "steps", steps);
}

const gd_link_class gd_link_restart_every = {
    .spread = GD_SPREAD_VECTOR,
    .name = "restart_every",
    .family = "restarts",
    .summary = "resets its links every few steps",
    .formula = "state = 0 every `steps` steps",
    .cost = "that of its chain",
    .example = "restart_every(lbfgs, 20) | strong_wolfe",
    GD_FIELDS(every_fields),
    .step = restart_every_step,
};
