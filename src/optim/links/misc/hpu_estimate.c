/* The Hessian along the last step, from differences: with s the change of the parameters and y that of the update,
 *
 *     y / |s|     about     H s / |s|
 *
 * At the first step, previous parameters and update count as zero: u / |p|. If nothing moved, the result is y.
 * |s| is over all parameters.  State: previous_params, previous_update.  Two passes. */
#include "gradus/link.h"

static const gd_field fields[] = {GD_STATE_IN};
static const gd_slot slots[] = {{"previous_params", GD_SLOT_EXACT}, {"previous_update", 0}};

static gd_value hpu_rule(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r);
    gd_value s = gd_rule_sub(r, p, gd_rule_state(r, "previous_params"));
    gd_value y = gd_rule_sub(r, u, gd_rule_state(r, "previous_update"));
    gd_value length = gd_rule_norm(r, s, 2, GD_ALL);
    gd_value moved = gd_rule_gt(r, length, gd_rule_const(r, 0));
    gd_rule_set(r, "previous_params", p);
    gd_rule_set(r, "previous_update", u);
    return gd_rule_div(r, y, gd_rule_where(r, moved, length, gd_rule_const(r, 1)));
}

GD_LINK(misc, hpu_estimate,
    .summary = "the Hessian times the direction of the last step, by differences",
    .formula = "s = norm(p - q);  y = u - w;  q = p;  w = u;  y / s where s > 0, else y",
    .cost = "one more pass, for the norm",
    .example = "sub([hpu_estimate | lr(0.01)]) | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = hpu_rule);
