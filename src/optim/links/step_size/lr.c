/* Learning rate: multiplies the update. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {GD_REAL_NEEDED("lr", -INFINITY, INFINITY, "factor of the update")};

static gd_value lr_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_setting(r, "lr")); }

const gd_link_class gd_link_lr = {
    .name = "lr",
    .family = "step_size",
    .summary = "learning rate",
    .formula = "u * lr",
    .example = "adam | lr(0.001)",
    GD_FIELDS(fields),
    .rule = lr_rule,
};
