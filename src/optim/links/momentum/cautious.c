/* Elements that agree in sign with the gradient, or with the result of a second chain:
 *
 *   cautious                            elements that disagree with the gradient are dropped (Liang et al. 2024), replaced by
 *                                       the gradient, or negated
 *   intermodule_cautious                the same for main(u), where it disagrees with compare(u)
 *   update_gradient_sign_consistency    the mask itself: 1 where they agree, else 0
 *
 * normalize divides by the share of elements that agree: over all parameters, of the mask in each tensor.  No state. */
#include "gradus/link.h"

#include <math.h>

#define NORMALIZE GD_FLAG("normalize", false, "divide by the share of elements that agree")
#define EPS       GD_REAL("eps", 1e-6, 0, INFINITY, "least share to divide by")
#define MODE      GD_CHOICE("mode", "zero", "zero|grad|backtrack", "what becomes of elements that disagree")

static const gd_field fields[] = {NORMALIZE, EPS, MODE};
static const gd_field modules_fields[] = {GD_CHILD_NEEDED("main", "the chain whose result is passed on"),
                                          GD_CHILD_NEEDED("compare", "the chain it is compared with"),
                                          NORMALIZE, EPS, MODE};
static const gd_field mask_fields[] = {NORMALIZE, EPS};

/* x over the share of elements that agree. */
static gd_value over_share(gd_rule *r, gd_value x, gd_value agree, gd_extent extent)
{
    if (!gd_rule_flag(r, "normalize")) return x;
    gd_value share = gd_rule_div(r, gd_rule_sum(r, agree, extent), gd_rule_count(r, extent));
    return gd_rule_div(r, x, gd_rule_max(r, share, gd_rule_setting(r, "eps")));
}

static gd_value agreement(gd_rule *r, gd_value x, gd_value other)
{
    return gd_rule_gt(r, gd_rule_mul(r, x, other), gd_rule_const(r, 0));
}

static gd_value careful(gd_rule *r, gd_value u, gd_value agree)
{
    if (gd_rule_is(r, "mode", "grad")) return gd_rule_where(r, agree, u, gd_rule_grad(r));
    if (gd_rule_is(r, "mode", "backtrack")) return gd_rule_where(r, agree, u, gd_rule_neg(r, u));
    return over_share(r, gd_rule_mul(r, u, agree), agree, GD_ALL);
}

static gd_value cautious_rule(gd_rule *r, gd_value u)
{
    return careful(r, u, agreement(r, u, gd_rule_grad(r)));
}

static gd_value intermodule_rule(gd_rule *r, gd_value u)
{
    gd_value x = gd_rule_child(r, "main", u);
    return careful(r, x, agreement(r, x, gd_rule_child(r, "compare", u)));
}

static gd_value mask_rule(gd_rule *r, gd_value u)
{
    gd_value agree = agreement(r, u, gd_rule_grad(r));
    return over_share(r, agree, agree, GD_EACH);
}

GD_LINK(momentum, cautious,
    .summary = "drops elements whose sign disagrees with the gradient",
    .formula = "u where u g > 0, else 0",
    .paper = "Liang et al., Cautious optimizers: improving training with one line of code, 2024",
    .cost = "element-wise, one pass with its neighbours; normalize: one more, for the share",
    .example = "adam | cautious | lr(0.001)",
    GD_FIELDS(fields),
    .rule = cautious_rule,
    .traits.uses_grad = true);

GD_LINK(momentum, intermodule_cautious,
    .summary = "drops elements whose sign disagrees with a second chain",
    .formula = "m = main(u);  m where m compare(u) > 0, else 0",
    .paper = "Liang et al., Cautious optimizers: improving training with one line of code, 2024",
    .example = "intermodule_cautious(nag, heavy_ball(0.99)) | lr(0.01)",
    GD_FIELDS(modules_fields),
    .rule = intermodule_rule);

GD_LINK(momentum, update_gradient_sign_consistency,
    .summary = "1 where update and gradient have the same sign, else 0",
    .formula = "1 where u g > 0, else 0",
    .example = "adam | mul(update_gradient_sign_consistency) | lr(0.001)",
    GD_FIELDS(mask_fields),
    .rule = mask_rule,
    .traits.uses_grad = true);
