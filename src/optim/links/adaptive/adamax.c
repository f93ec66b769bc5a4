/* AdaMax: Adam with a decaying maximum in place of the root of the second moment (Kingma & Ba 2015, section 7.1); eps inside
 * the maximum keeps it from 0, as PyTorch has it.  State: exp_avg, exp_inf.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the maximum"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the magnitude of the update"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_inf", GD_SLOT_POSITIVE}};

static gd_value adamax_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1");
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1);
    gd_value before = gd_rule_mul(r, gd_rule_setting(r, "beta2"), gd_rule_state(r, "exp_inf"));
    gd_value n = gd_rule_max(r, before, gd_rule_add(r, gd_rule_abs(r, u), gd_rule_setting(r, "eps")));
    gd_rule_set(r, "exp_inf", n);
    return gd_rule_div(r, gd_rule_div(r, m, gd_rule_bias(r, beta1)), n);
}

GD_LINK(adaptive, adamax,
    .summary = "first moment over a decaying maximum",
    .formula = "m = beta1 m + (1 - beta1) u;  n = max(beta2 n, abs(u) + eps);  m / (1 - beta1^t) / n",
    .paper = "Kingma & Ba, Adam: a method for stochastic optimization, ICLR 2015, section 7.1",
    .example = "adamax | lr(0.002)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adamax_rule);
