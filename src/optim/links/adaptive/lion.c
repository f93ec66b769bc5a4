/* Lion: the sign of an interpolation between momentum and update (Chen et al. 2023).  State: exp_avg. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "weight of the momentum in the sign"),
    GD_REAL("beta2", 0.99, 0, 1, "decay of the momentum"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", false}};

static gd_value lion_rule(gd_rule *r, gd_value u)
{
    gd_value weight = gd_rule_sub(r, gd_rule_const(r, 1), gd_rule_setting(r, "beta1"));
    gd_value mix = gd_rule_lerp(r, gd_rule_state(r, "exp_avg"), u, weight);
    gd_rule_average(r, "exp_avg", u, gd_rule_setting(r, "beta2"));
    return gd_rule_sign(r, mix);
}

GD_LINK(adaptive, lion,
    .summary = "sign of momentum",
    .formula = "d = sign(beta1 m + (1 - beta1) u);  m = beta2 m + (1 - beta2) u;  d",
    .paper = "Chen et al., Symbolic discovery of optimization algorithms, NeurIPS 2023",
    .example = "lion | weight_decay(0.1) | lr(0.0001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = lion_rule);
