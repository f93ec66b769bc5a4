/* Updates in units of the parameters: large weights take large steps, at least min_value times the update.
 * No state.  Element-wise, fuses. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("min_value", 1e-4, 0, INFINITY, "least magnitude that a parameter counts as"), GD_TARGET};

static gd_value relative_rule(gd_rule *r, gd_value u)
{
    gd_value size = gd_rule_max(r, gd_rule_abs(r, gd_rule_param(r)), gd_rule_setting(r, "min_value"));
    return gd_rule_mul(r, u, size);
}

GD_LINK(misc, relative,
    .summary = "multiplies the update by the magnitudes of the parameters",
    .formula = "u max(abs(p), min_value)",
    .example = "adam | relative | lr(0.01)",
    GD_FIELDS(fields),
    .rule = relative_rule);
