/* RAdam: Adam whose first steps, while the second moment is poorly known, are steps of plain momentum (Liu et al. 2020).
 *
 *     R = 2 / (1 - beta2) - 1,   q = R - 2 t beta2^t / (1 - beta2^t)
 *     q > 5:   r m_hat / (sqrt(v_hat) + eps),   r^2 = (q - 4) (q - 2) R / ((R - 4) (R - 2) q);   else  m_hat
 *
 * The paper has no eps; eps_at as in adam: the corrected root gets it, or the raw one as in PyTorch.
 * State: exp_avg, exp_avg_sq.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta1", 0.9, 0, 1, "decay of the first moment"),
    GD_REAL("beta2", 0.999, 0, 1, "decay of the second moment"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the denominator"),
    GD_CHOICE(
        "eps_at", "corrected", "raw|corrected",
        "eps is added to the root corrected for its start at zero, or to the root as it is (as PyTorch does)"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"exp_avg", 0}, {"exp_avg_sq", GD_SLOT_SQUARE}};

/* q: how many independent samples the second moment is worth; limit is its R. */
static gd_value samples(gd_rule *r, gd_value beta2, gd_value bias, gd_value limit)
{
    gd_value t = gd_rule_step(r), twice = gd_rule_mul(r, gd_rule_const(r, 2), t);
    gd_value lost = gd_rule_div(r, gd_rule_mul(r, twice, gd_rule_pow(r, beta2, t)), bias);
    return gd_rule_sub(r, limit, lost);
}

/* (x - 4) (x - 2) / x */
static gd_value variance_factor(gd_rule *r, gd_value x)
{
    gd_value by_four = gd_rule_sub(r, x, gd_rule_const(r, 4)),
             by_two = gd_rule_sub(r, x, gd_rule_const(r, 2));
    return gd_rule_div(r, gd_rule_mul(r, by_four, by_two), x);
}

static gd_value radam_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), two = gd_rule_const(r, 2), beta1 = gd_rule_setting(r, "beta1"),
             beta2 = gd_rule_setting(r, "beta2"), eps = gd_rule_setting(r, "eps");
    gd_value m = gd_rule_average(r, "exp_avg", u, beta1);
    gd_value v = gd_rule_average(r, "exp_avg_sq", gd_rule_square(r, u), beta2);
    gd_value bias = gd_rule_bias(r, beta2), root_bias = gd_rule_sqrt(r, bias);
    gd_value limit = gd_rule_sub(r, gd_rule_div(r, two, gd_rule_sub(r, one, beta2)), one);
    gd_value known = samples(r, beta2, bias, limit);
    gd_value square = gd_rule_div(r, variance_factor(r, known), variance_factor(r, limit));
    gd_value scale = gd_rule_mul(r, gd_rule_sqrt(r, square), root_bias);
    if (gd_rule_is(r, "eps_at", "corrected")) eps = gd_rule_mul(r, eps, root_bias);
    gd_value first = gd_rule_div(r, m, gd_rule_bias(r, beta1));
    gd_value whole = gd_rule_div(r, gd_rule_mul(r, first, scale), gd_rule_add(r, gd_rule_sqrt(r, v), eps));
    return gd_rule_where(r, gd_rule_gt(r, known, gd_rule_const(r, 5)), whole, first);
}

GD_LINK(adaptive, radam,
    .summary = "adaptive moments, with plain momentum while the second one is uncertain",
    .formula = "m = beta1 m + (1 - beta1) u;  v = beta2 v + (1 - beta2) u^2;  R = 2 / (1 - beta2) - 1;  "
               "q = R - 2 t beta2^t / (1 - beta2^t);  "
               "s = sqrt((q - 4) (q - 2) R / ((R - 4) (R - 2) q)) / (sqrt(v / (1 - beta2^t)) + eps) "
               "where q > 5, else 1;  m / (1 - beta1^t) s",
    .paper = "Liu et al., On the variance of the adaptive learning rate and beyond, ICLR 2020",
    .example = "radam | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = radam_rule);
