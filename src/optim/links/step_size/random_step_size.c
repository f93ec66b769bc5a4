/* Step sizes by chance: u a, a uniform from low to high, one per step or with parameterwise one per tensor and step.
 * No state but the number of steps.  Element-wise, fuses. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("low", 0, -INFINITY, INFINITY, "least step size"),
    GD_REAL("high", 1, -INFINITY, INFINITY, "largest step size"),
    GD_FLAG("parameterwise", false, "a step size for each tensor"),
    GD_SEED("of the step sizes; none: the context's"),
};

static gd_value random_step_size_rule(gd_rule *r, gd_value u)
{
    gd_value share = gd_rule_draw(r, gd_rule_flag(r, "parameterwise") ? GD_EACH : GD_ALL);
    gd_value a = gd_rule_lerp(r, gd_rule_setting(r, "low"), gd_rule_setting(r, "high"), share);
    return gd_rule_mul(r, u, a);
}

GD_LINK(step_size, random_step_size,
    .summary = "learning rate that is drawn anew at every step",
    .formula = "~ u U(low, high)",
    .example = "adam | random_step_size(0.0001, 0.01)",
    GD_FIELDS(fields),
    .rule = random_step_size_rule);
