/* Signum: the sign of an average of updates (Bernstein et al. 2018).  State: exp_avg.  Element-wise, fuses. */
#include "gradus/link.h"

static const gd_field fields[] = {GD_REAL("momentum", 0.9, 0, 1, "decay of the average"), GD_STATE_IN};

static const gd_slot slots[] = {{"exp_avg", 0}};

static gd_value signum_rule(gd_rule *r, gd_value u)
{
    return gd_rule_sign(r, gd_rule_average(r, "exp_avg", u, gd_rule_setting(r, "momentum")));
}

GD_LINK(adaptive, signum,
    .summary = "sign of an average of updates",
    .formula = "m = momentum m + (1 - momentum) u;  sign(m)",
    .paper = "Bernstein et al., signSGD: compressed optimisation for non-convex problems, ICML 2018",
    .example = "signum | lr(0.0001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = signum_rule);
