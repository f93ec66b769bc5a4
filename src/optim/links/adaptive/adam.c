/* Adam: average of gradients over root of average of powers (Kingma & Ba 2015).  With c1 = 1 - beta1^t, c2 = 1 - beta2^t
 *
 *     eps_at "raw"         alpha m sqrt(c2) / c1 / (sqrt(v) + eps)       their efficient form, end of section 2
 *     eps_at "corrected"   alpha m / c1 / (sqrt(v / c2) + eps)           their algorithm 1, and PyTorch
 *
 * are the same except for the size of eps in the first steps: the second adds eps sqrt(c2) to sqrt(v), a number for the whole
 * step, so neither costs more than the other.  AMSGrad keeps the largest average (Reddi, Kale & Kumar 2018).
 * State: exp_avg, exp_avg_sq, with amsgrad max_exp_avg_sq.  `inner` acts between the two averages: the squares are of
 * what comes in, the average is of what inner makes of it. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the second moment"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the denominator"),
    GD_FLAG("amsgrad", false, "divide by the largest second moment so far"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of the result"),
    GD_POWER,
    GD_FLAG("debiased", true, "correct the averages for their start at zero"),
    GD_INNER("acts on the update after the second moment is taken"),
    GD_CHOICE(
        "eps_at", "raw", "raw|corrected",
        "eps is added to the root as it is, or to the root corrected for its start at zero (as PyTorch does)"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {
    {"exp_avg", false}, {"exp_avg_sq", GD_SLOT_SQUARE}, {"max_exp_avg_sq", GD_SLOT_SQUARE}};

static gd_value adam_rule(gd_rule *r, gd_value u)
{
    gd_value beta1 = gd_rule_setting(r, "beta1"), beta2 = gd_rule_setting(r, "beta2"),
             one = gd_rule_const(r, 1);
    double power = gd_rule_number(r, "pow");
    gd_value v = gd_rule_average(r, "exp_avg_sq", gd_rule_power(r, u, power), beta2);
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1);
    if (gd_rule_flag(r, "amsgrad")) {
        v = gd_rule_max(r, gd_rule_state(r, "max_exp_avg_sq"), v);
        gd_rule_set(r, "max_exp_avg_sq", v);
    }
    gd_value scale = gd_rule_setting(r, "alpha"), eps = gd_rule_setting(r, "eps");
    if (gd_rule_flag(r, "debiased")) {
        gd_value t = gd_rule_step(r);
        gd_value first = gd_rule_sub(r, one, gd_rule_pow(r, beta1, t));
        gd_value second = gd_rule_root(r, gd_rule_sub(r, one, gd_rule_pow(r, beta2, t)), power);
        scale = gd_rule_mul(r, scale, gd_rule_div(r, second, first));
        if (gd_rule_is(r, "eps_at", "corrected")) eps = gd_rule_mul(r, eps, second);
    }
    gd_value root = gd_rule_add(r, gd_rule_root(r, v, power), eps);
    return gd_rule_div(r, gd_rule_mul(r, m, scale), root);
}

GD_LINK(adaptive, adam,
    .summary = "adaptive moments",
    .formula = "m = beta1 m + (1 - beta1) u;  v = beta2 v + (1 - beta2) u^2;  "
               "alpha m sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + eps)",
    .paper = "Kingma & Ba, Adam: a method for stochastic optimization, ICLR 2015",
    .example = "adam | weight_decay(0.01) | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adam_rule);
