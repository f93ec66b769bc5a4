/* Cautious updates: what disagrees in sign with the gradient is dropped (Liang et al. 2024), replaced by the gradient, or
 * turned round.  normalize divides by the share of elements that agree, over all parameters. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_FLAG("normalize", false, "divide by the share of elements that agree"),
    GD_REAL("eps", 1e-6, 0, INFINITY, "least share to divide by"),
    GD_CHOICE("mode", "zero", "zero|grad|backtrack", "what becomes of elements that disagree"),
};

static gd_value cautious_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0), grad = gd_rule_grad(r);
    gd_value agree = gd_rule_gt(r, gd_rule_mul(r, u, grad), zero);
    if (gd_rule_is(r, "mode", "grad")) return gd_rule_where(r, agree, u, grad);
    if (gd_rule_is(r, "mode", "backtrack")) return gd_rule_where(r, agree, u, gd_rule_neg(r, u));
    gd_value out = gd_rule_mul(r, u, agree);
    if (!gd_rule_flag(r, "normalize")) return out;
    gd_value share = gd_rule_div(r, gd_rule_sum(r, agree, GD_ALL), gd_rule_count(r, GD_ALL));
    return gd_rule_div(r, out, gd_rule_max(r, share, gd_rule_setting(r, "eps")));
}

const gd_link_class gd_link_cautious = {
    .name = "cautious",
    .family = "momentum",
    .summary = "drops elements whose sign disagrees with the gradient",
    .formula = "u where u g > 0, else 0",
    .paper = "Liang et al., Cautious optimizers: improving training with one line of code, 2024",
    GD_FIELDS(fields),
    .rule = cautious_rule,
    .uses_grad = true,
};
