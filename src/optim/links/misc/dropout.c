/* Dropout of the update: each element becomes 0 with probability p, drawn at every step; the others stay as they are, without
 * a factor 1 / (1 - p).  graft: the remaining update is scaled to the old norm of the tensor.
 * No state but the number of steps.  Element-wise, fuses; with graft a pass for the norms. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("p", 0.5, 0, 1, "probability of an element to be dropped"),
    GD_FLAG("graft", false, "rescale each tensor to its norm before"),
    GD_TARGET,
};

static gd_value dropout_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0);
    gd_value dropped = gd_rule_lt(r, gd_rule_random(r, GD_RANDOM_UNIFORM), gd_rule_setting(r, "p"));
    gd_value left = gd_rule_where(r, dropped, zero, u);
    if (!gd_rule_flag(r, "graft")) return left;
    gd_value norm = gd_rule_norm(r, left, 2, GD_EACH);
    gd_value scale = gd_rule_div(r, gd_rule_norm(r, u, 2, GD_EACH), norm);
    return gd_rule_mul(r, left, gd_rule_where(r, gd_rule_eq(r, norm, zero), zero, scale));
}

GD_LINK(misc, dropout,
    .summary = "sets random elements of the update to zero",
    .formula = "~ 0 with probability p, else u",
    .cost = "element-wise, one pass with its neighbours; graft: one more, for the norms",
    .example = "dropout(0.2) | adam | lr(0.001)",
    GD_FIELDS(fields),
    .rule = dropout_rule);
