/* Learning rate: multiplies the update.  step_size does too, under a name of its own, so that schedules and groups that set lr
 * leave it alone. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {GD_REAL_NEEDED("lr", -INFINITY, INFINITY, "factor of the update")};

static const gd_field step_size_fields[] = {
    GD_REAL_NEEDED("step_size", -INFINITY, INFINITY, "factor of the update"),
    GD_CHOICE("key", "step_size", "step_size", "the name that groups and schedules know it by"),
};

static gd_value lr_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_setting(r, "lr")); }

static gd_value step_size_rule(gd_rule *r, gd_value u)
{
    return gd_rule_mul(r, u, gd_rule_setting(r, "step_size"));
}

GD_LINK(step_size, lr,
    .summary = "learning rate",
    .formula = "u * lr",
    .example = "adam | lr(0.001)",
    GD_FIELDS(fields),
    .rule = lr_rule);

GD_LINK(step_size, step_size,
    .summary = "learning rate that is no lr to groups and schedules",
    .formula = "u * step_size",
    .example = "adam | step_size(0.001)",
    GD_FIELDS(step_size_fields),
    .rule = step_size_rule);
