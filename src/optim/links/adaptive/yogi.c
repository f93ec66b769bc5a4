/* Yogi: Adam whose second moment grows and shrinks by no more than the square of the update (Zaheer et al. 2018, algorithm 2,
 * which corrects no average for its start; libraries that do are followed with debiased and initial_accumulator_value=1e-6).
 * State: exp_avg, exp_avg_sq.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "1 less the share of a square that the second moment takes"),
    GD_REAL("eps", 1e-3, 0, INFINITY, "added to the root"),
    GD_REAL("initial_accumulator_value", 0, 0, INFINITY, "where the second moment starts"),
    GD_FLAG("debiased", false, "correct the averages for their start at zero"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}};

static gd_value yogi_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2");
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1), square = gd_rule_square(r, u);
    gd_value v = gd_rule_state_or(r, "exp_avg_sq", gd_rule_setting(r, "initial_accumulator_value"));
    gd_value share = gd_rule_sub(r, gd_rule_const(r, 1), beta2);
    gd_value change = gd_rule_mul(r, gd_rule_sign(r, gd_rule_sub(r, v, square)),
                                  gd_rule_mul(r, share, square));
    v = gd_rule_sub(r, v, change);
    gd_rule_set(r, "exp_avg_sq", v);
    if (gd_rule_flag(r, "debiased")) {
        m = gd_rule_div(r, m, gd_rule_bias(r, beta1));
        v = gd_rule_div(r, v, gd_rule_bias(r, beta2));
    }
    return gd_rule_div(r, m, gd_rule_add(r, gd_rule_sqrt(r, v), gd_rule_setting(r, "eps")));
}

GD_LINK(adaptive, yogi,
    .summary = "adaptive moments whose second one changes by bounded steps",
    .formula = "m = beta1 m + (1 - beta1) u;  v_0 = initial_accumulator_value;  "
               "v = v - (1 - beta2) sign(v - u^2) u^2;  m / (sqrt(v) + eps)",
    .paper = "Zaheer et al., Adaptive methods for nonconvex optimization, NeurIPS 2018",
    .example = "yogi | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = yogi_rule);
