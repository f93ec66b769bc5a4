/* Links that replace the update: a number, the parameters, the gradient; and those that forget.
 * No state. */
#include "gradus/link.h"

static const gd_field fill_fields[] = {
    GD_REAL_NEEDED("value", -INFINITY, INFINITY, "what every element becomes")};

static gd_value fill_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_setting(r, "value");
}

/* A number among the inputs of sum, mean and the like is a link of this class. */
GD_LINK(ops, fill,
    .summary = "a number in every element",
    .formula = "value",
    .example = "sum(ema(0.9), fill(0.01)) | lr(0.1)",
    GD_FIELDS(fill_fields),
    .rule = fill_rule);

#define SOURCE(NAME, RULE, SUMMARY, FORMULA, EXAMPLE, GRAD) \
    GD_LINK(ops, NAME, .summary = SUMMARY, .formula = FORMULA, .example = EXAMPLE, .rule = RULE, \
            .traits.uses_grad = GRAD)

static gd_value zeros_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_const(r, 0);
}

static gd_value ones_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_const(r, 1);
}

static gd_value params_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_param(r);
}

/* An update that is forgotten is the gradient again. */
static gd_value grad_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_grad(r);
}

SOURCE(zeros, zeros_rule, "zero in every element", "0", "maximum(zeros) | lr(0.1)", false);
SOURCE(ones, ones_rule, "one in every element", "1", "minimum(ones) | lr(0.1)", false);
SOURCE(params, params_rule, "the parameters", "p", "add(params, 0.01) | lr(0.1)", false);
SOURCE(grad, grad_rule, "the gradient, whatever the update has become", "g",
       "sign | mul([grad | abs]) | lr(0.1)", true);
SOURCE(update_to_none, grad_rule, "forgets the update: the next link sees the gradient", "g",
       "save_best | update_to_none | lr(0.1)", true);
#undef SOURCE

static gd_status grad_to_none_step(gd_link *link, gd_var *var)
{
    (void)link;
    return gd_var_set_grad(var, NULL);
}

GD_LINK(ops, grad_to_none,
    .spread = GD_SPREAD_FLAT,
    .summary = "forgets the gradient; whoever asks for it next evaluates again",
    .formula = "u",
    .example = "adam | lr(0.1) | grad_to_none",
    .cost = "one more evaluation where a later link asks for the gradient",
    .step = grad_to_none_step,
    .traits.acts_first = true);
