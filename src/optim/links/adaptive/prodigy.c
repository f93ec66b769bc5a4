/* Prodigy: Adam that finds its own learning rate from an estimate d of the distance to the solution (Mishchenko & Defazio
 * 2024, algorithm 4).  With e = lr d sqrt(1 - beta2^t) / (1 - beta1^t) and q the first parameters
 *
 *     m = EMA(d u),  v = EMA(d^2 u^2),  s = beta3 s + d/d0 e u,  r = beta3 r + d/d0 e <u, q - p>
 *     e m / (sqrt(v) + d eps),   then   d = max(d, r / |s|_1)
 *
 * The sums go over all parameters.  eps is scaled by the d that made the step, as in the paper; the authors' program takes the
 * next one.  No `lr` after it except for schedules, whose numbers are shares of its own step.
 * State: exp_avg, exp_avg_sq, s, initial; d and r as numbers.  One pass for the sums. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("lr", 1, 0, INFINITY, "factor of the estimated learning rate"),
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the second moment"),
    GD_REAL_OR_NONE("beta3", 0, 1, "decay of the sums for the estimate; none: the root of beta2"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "times d, added to the root"),
    GD_REAL("d0", 1e-6, 1e-300, INFINITY, "first estimate of the distance"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {
    {"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}, {"s", 0}, {"initial", GD_SLOT_EXACT}};
static const char *const scalars[] = {"d", "r"};

/* d, m and v are those of the step; the rest makes the next d. */
static void estimate(gd_rule *r, gd_value u, gd_value d, gd_value step)
{
    gd_value zero = gd_rule_const(r, 0), p = gd_rule_param(r), start = gd_rule_state_or(r, "initial", p);
    gd_rule_set(r, "initial", start);
    gd_value beta3 = gd_rule_is_none(r, "beta3") ? gd_rule_sqrt(r, gd_rule_setting(r, "beta2"))
                                                 : gd_rule_setting(r, "beta3");
    gd_value weight = gd_rule_mul(r, gd_rule_div(r, d, gd_rule_setting(r, "d0")), step);
    gd_value s = gd_rule_add(r, gd_rule_mul(r, beta3, gd_rule_state(r, "s")), gd_rule_mul(r, weight, u));
    gd_rule_set(r, "s", s);
    gd_value along = gd_rule_sum(r, gd_rule_mul(r, u, gd_rule_sub(r, start, p)), GD_ALL);
    gd_value sum = gd_rule_add(r, gd_rule_mul(r, beta3, gd_rule_scalar(r, "r")),
                               gd_rule_mul(r, weight, along));
    gd_rule_set_scalar(r, "r", sum);
    gd_value size = gd_rule_norm(r, s, 1, GD_ALL), larger = gd_rule_max(r, d, gd_rule_div(r, sum, size));
    gd_rule_set_scalar(r, "d", gd_rule_where(r, gd_rule_gt(r, size, zero), larger, d));
}

static gd_value prodigy_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2");
    gd_value first = gd_rule_eq(r, gd_rule_step(r), gd_rule_const(r, 1));
    gd_value d = gd_rule_where(r, first, gd_rule_setting(r, "d0"), gd_rule_scalar(r, "d"));
    gd_value correction = gd_rule_div(r, gd_rule_sqrt(r, gd_rule_bias(r, beta2)), gd_rule_bias(r, beta1));
    gd_value step = gd_rule_mul(r, gd_rule_mul(r, d, gd_rule_setting(r, "lr")), correction);
    gd_value scaled = gd_rule_mul(r, d, u);
    gd_value m = gd_rule_average(r, "exp_avg", scaled, beta1);
    gd_value v = gd_rule_average(r, "exp_avg_sq", gd_rule_square(r, scaled), beta2);
    estimate(r, u, d, step);
    gd_value eps = gd_rule_mul(r, d, gd_rule_setting(r, "eps"));
    return gd_rule_div(r, gd_rule_mul(r, step, m), gd_rule_add(r, gd_rule_sqrt(r, v), eps));
}

GD_LINK(adaptive, prodigy,
    .summary = "Adam that finds its own learning rate",
    .formula =
        "d_0 = d0;  q_0 = p;  e = lr d sqrt(1 - beta2^t) / (1 - beta1^t);  m = beta1 m + (1 - beta1) d u;  "
        "v = beta2 v + (1 - beta2) d^2 u^2;  x = e m / (sqrt(v) + d eps);  b = sqrt(beta2);  "
        "s = b s + d / d0 e u;  r = b r + d / d0 e sum(u (q - p));  d = max(d, r / sum(abs(s)));  x",
    .paper = "Mishchenko & Defazio, Prodigy: an expeditiously adaptive parameter-free learner, ICML 2024",
    .cost = "one more pass, for sums over all parameters",
    .example = "prodigy",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = prodigy_rule);
