/* AdEMAMix: Adam with a second, slow average of updates that is not corrected for its start (Pagliardini, Ablin & Grangier
 * 2024).  The paper warms alpha and beta3 up: schedules of those settings.
 * State: exp_avg_fast, exp_avg_slow, exp_avg_sq.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the fast average"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the second moment"),
    GD_REAL("beta3", 0.9999, 0, 1, "decay of the slow average"),
    GD_REAL("alpha", 5, -INFINITY, INFINITY, "weight of the slow average"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the corrected root"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg_fast", 0}, {"exp_avg_slow", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}};

static gd_value ademamix_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2");
    gd_value fast = gd_rule_average(r, "exp_avg_fast", u, beta1);
    gd_value slow = gd_rule_average(r, "exp_avg_slow", u, gd_rule_setting(r, "beta3"));
    gd_value v = gd_rule_average(r, "exp_avg_sq", gd_rule_square(r, u), beta2);
    gd_value sum = gd_rule_add(r, gd_rule_div(r, fast, gd_rule_bias(r, beta1)),
                               gd_rule_mul(r, gd_rule_setting(r, "alpha"), slow));
    gd_value root = gd_rule_sqrt(r, gd_rule_div(r, v, gd_rule_bias(r, beta2)));
    return gd_rule_div(r, sum, gd_rule_add(r, root, gd_rule_setting(r, "eps")));
}

GD_LINK(adaptive, ademamix,
    .summary = "adaptive moments with a fast and a slow average",
    .formula = "m = beta1 m + (1 - beta1) u;  l = beta3 l + (1 - beta3) u;  v = beta2 v + (1 - beta2) u^2;  "
               "(m / (1 - beta1^t) + alpha l) / (sqrt(v / (1 - beta2^t)) + eps)",
    .paper = "Pagliardini, Ablin & Grangier, The AdEMAMix optimizer: better, faster, older, 2024",
    .example = "ademamix | weight_decay(0.1) | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = ademamix_rule);
