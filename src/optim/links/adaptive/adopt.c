/* ADOPT: divides by the second moment of the steps before, clips, and averages the result, so it converges with any
 * beta2 (Taniguchi et al. 2024, algorithm 2).  The paper's step 0 only fills the second moment: here the first step, whose
 * bound 0^(1/4) makes its result zero.  State: exp_avg, exp_avg_sq.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the average"),
    GD_REAL("beta2", 0.9999, 0, 1, "decay of the second moment"),
    GD_REAL("eps", 1e-6, 0, INFINITY, "least value of the root"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}};

static gd_value adopt_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), before = gd_rule_state(r, "exp_avg_sq"),
             square = gd_rule_square(r, u);
    gd_value root = gd_rule_max(r, gd_rule_sqrt(r, before), gd_rule_setting(r, "eps"));
    gd_value bound = gd_rule_pow(r, gd_rule_sub(r, gd_rule_step(r), one), gd_rule_const(r, 0.25));
    gd_value c = gd_rule_clamp(r, gd_rule_div(r, u, root), gd_rule_neg(r, bound), bound);
    gd_value first = gd_rule_state_or(r, "exp_avg_sq", square);
    gd_rule_set(r, "exp_avg_sq",
                gd_rule_lerp(r, first, square, gd_rule_sub(r, one, gd_rule_setting(r, "beta2"))));
    return gd_rule_average(r, "exp_avg", c, gd_rule_setting(r, "beta1"));
}

GD_LINK(adaptive, adopt,
    .summary = "adaptive moments that converge with any beta2",
    .formula =
        "b = (t - 1)^0.25;  c = max(-b, min(b, u / max(sqrt(v), eps)));  m = beta1 m + (1 - beta1) c;  "
        "v_0 = u^2;  v = beta2 v + (1 - beta2) u^2;  m",
    .paper =
        "Taniguchi et al., ADOPT: modified Adam can converge with any beta2 with the optimal rate, NeurIPS 2024",
    .example = "adopt | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adopt_rule);
