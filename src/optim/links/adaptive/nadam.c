/* NAdam: Adam with Nesterov's look-ahead (Dozat 2016).  With k_t the momentum of step t and P the product of k_1 ... k_t
 *
 *     (k_(t+1) m / (1 - P k_(t+1)) + (1 - k_t) u / (1 - P)) / (sqrt(v / (1 - beta2^t)) + eps)
 *
 * k is beta1.  momentum_decay above 0 makes it beta1 (1 - 0.96^(t momentum_decay) / 2), which grows from about beta1 / 2
 * towards beta1; PyTorch has 0.004.  State: exp_avg, exp_avg_sq, and the product as a number.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the second moment"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the corrected root"),
    GD_REAL(
        "momentum_decay", 0, 0, INFINITY,
        "0: the momentum is beta1; above: it grows from about half of that at this rate (PyTorch has 0.004)"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}};
static const char *const scalars[] = {"momentum_product"};

/* The momentum of step t. */
static gd_value momentum_at(gd_rule *r, gd_value t)
{
    gd_value zero = gd_rule_const(r, 0), one = gd_rule_const(r, 1),
             rate = gd_rule_setting(r, "momentum_decay");
    gd_value decay = gd_rule_pow(r, gd_rule_const(r, 0.96), gd_rule_mul(r, t, rate));
    decay = gd_rule_mul(r, gd_rule_const(r, 0.5), decay);
    gd_value factor = gd_rule_sub(r, one, gd_rule_where(r, gd_rule_gt(r, rate, zero), decay, zero));
    return gd_rule_mul(r, gd_rule_setting(r, "beta1"), factor);
}

static gd_value nadam_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), t = gd_rule_step(r), beta2 = gd_rule_setting(r, "beta2");
    gd_value m = gd_rule_average(r, "exp_avg", u, gd_rule_setting(r, "beta1"));
    gd_value v = gd_rule_average(r, "exp_avg_sq", gd_rule_square(r, u), beta2);
    gd_value now = momentum_at(r, t), next = momentum_at(r, gd_rule_add(r, t, one));
    gd_value before = gd_rule_where(r, gd_rule_eq(r, t, one), one, gd_rule_scalar(r, "momentum_product"));
    gd_value product = gd_rule_mul(r, before, now);
    gd_rule_set_scalar(r, "momentum_product", product);
    gd_value of_m = gd_rule_div(r, next, gd_rule_sub(r, one, gd_rule_mul(r, product, next)));
    gd_value of_u = gd_rule_div(r, gd_rule_sub(r, one, now), gd_rule_sub(r, one, product));
    gd_value mix = gd_rule_add(r, gd_rule_mul(r, of_m, m), gd_rule_mul(r, of_u, u));
    gd_value root = gd_rule_sqrt(r, gd_rule_div(r, v, gd_rule_bias(r, beta2)));
    return gd_rule_div(r, mix, gd_rule_add(r, root, gd_rule_setting(r, "eps")));
}

GD_LINK(adaptive, nadam,
    .summary = "adaptive moments with Nesterov momentum",
    .formula = "m = beta1 m + (1 - beta1) u;  v = beta2 v + (1 - beta2) u^2;  "
               "d = 0.96^(t momentum_decay) / 2 where momentum_decay > 0, else 0;  "
               "e = 0.96^((t + 1) momentum_decay) / 2 where momentum_decay > 0, else 0;  "
               "k = beta1 (1 - d);  l = beta1 (1 - e);  P_0 = 1;  P = P k;  "
               "(l m / (1 - P l) + (1 - k) u / (1 - P)) / (sqrt(v / (1 - beta2^t)) + eps)",
    .paper = "Dozat, Incorporating Nesterov momentum into Adam, 2016",
    .example = "nadam | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = nadam_rule);
