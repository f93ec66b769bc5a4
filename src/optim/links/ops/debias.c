/* Adam's corrections for averages that start at zero, as separate links (Kingma & Ba 2015, section 3).  No state
 * but the number of steps.  One pass. */
#include "gradus/link.h"

#define BETA(n, h) GD_REAL_OR_NONE(n, 0, 1, h)

static const gd_field debias_fields[] = {
    BETA("beta1", "decay of the average that the update is; none: it is not corrected"),
    BETA("beta2",
         "decay of the average of powers that the update was divided by a root of; none: not corrected"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of the result"),
    GD_POWER,
    GD_TARGET,
};
static const gd_field debias2_fields[] = {
    GD_REAL("beta", 0.999, 0, 1, "decay of the average of powers that the update is a root of"), GD_POWER,
    GD_TARGET};

/* 1 - beta^t: the weight that an average has after t steps */
static gd_value weight(gd_rule *r, const char *beta)
{
    gd_value past = gd_rule_pow(r, gd_rule_setting(r, beta), gd_rule_step(r));
    return gd_rule_sub(r, gd_rule_const(r, 1), past);
}

static gd_value debias_rule(gd_rule *r, gd_value u)
{
    gd_value scale = gd_rule_setting(r, "alpha");
    if (!gd_rule_is_none(r, "beta1")) scale = gd_rule_div(r, scale, weight(r, "beta1"));
    if (!gd_rule_is_none(r, "beta2"))
        scale = gd_rule_mul(r, scale, gd_rule_root(r, weight(r, "beta2"), gd_rule_number(r, "pow")));
    return gd_rule_mul(r, u, scale);
}

static gd_value debias2_rule(gd_rule *r, gd_value u)
{
    return gd_rule_div(r, u, gd_rule_root(r, weight(r, "beta"), gd_rule_number(r, "pow")));
}

GD_LINK(ops, debias,
    .summary = "corrects an average, or a quotient of averages, for its start at zero",
    .formula = "alpha u (1 - beta2^t)^(1 / pow) / (1 - beta1^t)",
    .paper = "Kingma & Ba, Adam: a method for stochastic optimization, ICLR 2015",
    .example = "ema(0.9) | debias(0.9) | lr(0.1)",
    GD_FIELDS(debias_fields),
    .rule = debias_rule);

GD_LINK(ops, debias2,
    .summary = "corrects the root of an average of squares for its start at zero",
    .formula = "u / (1 - beta^t)^(1 / pow)",
    .paper = "Kingma & Ba, Adam: a method for stochastic optimization, ICLR 2015",
    .example = "div([ema_squared(0.999) | sqrt | debias2(0.999) | add(1e-8)]) | lr(0.01)",
    GD_FIELDS(debias2_fields),
    .rule = debias2_rule);
