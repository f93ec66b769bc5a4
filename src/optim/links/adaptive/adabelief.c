/* AdaBelief: Adam that divides by how far updates are from their average (Zhuang et al. 2020).  eps is added to the average
 * of squares at every step and stays in it, and again to its root, as the paper's algorithm has both.
 * State: exp_avg, exp_avg_var.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the average"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the squared distances from it"),
    GD_REAL("eps", 1e-16, 0, INFINITY, "added to the squares and to their corrected root"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_avg_var", GD_SLOT_SQUARE}};

static gd_value adabelief_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2"),
             eps = gd_rule_setting(r, "eps");
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1);
    gd_value s = gd_rule_average(r, "exp_avg_var", gd_rule_square(r, gd_rule_sub(r, u, m)), beta2);
    s = gd_rule_add(r, s, eps);
    gd_rule_set(r, "exp_avg_var", s);
    gd_value root = gd_rule_sqrt(r, gd_rule_div(r, s, gd_rule_bias(r, beta2)));
    return gd_rule_div(r, gd_rule_div(r, m, gd_rule_bias(r, beta1)), gd_rule_add(r, root, eps));
}

GD_LINK(adaptive, adabelief,
    .summary = "adaptive moments: long steps where updates are as expected",
    .formula = "m = beta1 m + (1 - beta1) u;  s = beta2 s + (1 - beta2) (u - m)^2 + eps;  "
               "m / (1 - beta1^t) / (sqrt(s / (1 - beta2^t)) + eps)",
    .paper =
        "Zhuang et al., AdaBelief optimizer: adapting stepsizes by the belief in observed gradients, NeurIPS 2020",
    .example = "adabelief | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adabelief_rule);
