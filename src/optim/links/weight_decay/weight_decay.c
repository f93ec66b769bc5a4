/* Weight decay: adds a multiple of the parameter (of its sign for ord 1) to the update.  After adam it is decoupled
 * (Loshchilov & Hutter 2019), before adam it is L2 regularisation. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL_NEEDED("weight_decay", -INFINITY, INFINITY, "factor of the parameter"),
    {.name = "ord",
     .kinds = GD_SET_REAL,
     .fallback = {.kind = GD_SET_REAL, .real = 2},
     .low = 1,
     .high = 2,
     .integer = true,
     .structural = true,
     .help = "2: of the parameter, 1: of its sign"},
    GD_TARGET,
};

static gd_value weight_decay_rule(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r);
    if (gd_rule_number(r, "ord") == 1) p = gd_rule_sign(r, p);
    return gd_rule_add(r, u, gd_rule_mul(r, p, gd_rule_setting(r, "weight_decay")));
}

const gd_link_class gd_link_weight_decay = {
    .name = "weight_decay",
    .family = "weight_decay",
    .summary = "adds a multiple of the parameter to the update",
    .formula = "u + weight_decay * p",
    .paper = "Loshchilov & Hutter, Decoupled weight decay regularization, ICLR 2019",
    GD_FIELDS(fields),
    .rule = weight_decay_rule,
};
