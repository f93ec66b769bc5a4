/* Adan: Nesterov momentum written with differences of gradients (Xie et al. 2022).  The betas here are decays, as in the
 * authors' program; the paper's are 1 less these.  All averages are corrected for their start.
 * State: exp_avg, exp_avg_diff, exp_avg_sq, previous.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.98, 0, 1, "decay of the average"),
    GD_REAL("beta2", 0.92, 0, 1, "decay of the differences, and their weight"),
    GD_REAL("beta3", 0.99, 0, 1, "decay of the second moment"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the corrected root"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {
    {"exp_avg", 0}, {"exp_avg_diff", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}, {"previous", GD_SLOT_ONLINE}};

static gd_value adan_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2"),
             beta3 = gd_rule_setting(r, "beta3");
    gd_value change = gd_rule_sub(r, u, gd_rule_state_or(r, "previous", u));
    gd_rule_set(r, "previous", u);
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1);
    gd_value d = gd_rule_average(r, "exp_avg_diff", change, beta2);
    gd_value ahead = gd_rule_add(r, u, gd_rule_mul(r, beta2, change));
    gd_value n = gd_rule_average(r, "exp_avg_sq", gd_rule_square(r, ahead), beta3);
    gd_value of_d = gd_rule_div(r, beta2, gd_rule_bias(r, beta2));
    gd_value sum = gd_rule_add(r, gd_rule_div(r, m, gd_rule_bias(r, beta1)), gd_rule_mul(r, of_d, d));
    gd_value root = gd_rule_sqrt(r, gd_rule_div(r, n, gd_rule_bias(r, beta3)));
    return gd_rule_div(r, sum, gd_rule_add(r, root, gd_rule_setting(r, "eps")));
}

GD_LINK(adaptive, adan,
    .summary = "adaptive Nesterov momentum",
    .formula = "w_0 = u;  d = u - w;  w = u;  m = beta1 m + (1 - beta1) u;  v = beta2 v + (1 - beta2) d;  "
               "n = beta3 n + (1 - beta3) (u + beta2 d)^2;  "
               "(m / (1 - beta1^t) + beta2 v / (1 - beta2^t)) / (sqrt(n / (1 - beta3^t)) + eps)",
    .paper = "Xie et al., Adan: adaptive Nesterov momentum algorithm for faster optimizing deep models, 2022",
    .example = "adan | weight_decay(0.02) | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adan_rule);
