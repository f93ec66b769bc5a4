/* Two or three operands, each a number or the result of a chain on the same update.  No state of their own; with
 * element-wise chains one pass for all of it. */
#include "gradus/link.h"

#define INPUT(help) GD_OPERAND("input", help)

static const gd_field sub_fields[] = {
    INPUT("the minuend"),
    GD_OPERAND("other", "the subtrahend"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of other"),
};
static const gd_field div_fields[] = {
    INPUT("numerator"),
    GD_OPERAND("other", "denominator"),
    GD_FLAG("other_first", false, "run the denominator first"),
};
static const gd_field pow_fields[] = {INPUT("base"), GD_OPERAND("exponent", "power")};
static const gd_field clip_fields[] = {
    INPUT("the chain to clip"),
    GD_OPERAND_OR_NONE("min", "least value of an element"),
    GD_OPERAND_OR_NONE("max", "largest value of an element"),
};
static const gd_field lerp_fields[] = {
    INPUT("what weight 0 gives"),
    GD_OPERAND("end", "what weight 1 gives"),
    GD_REAL_NEEDED("weight", -INFINITY, INFINITY, "share of end"),
};

static gd_value sub_modules_rule(gd_rule *r, gd_value u)
{
    gd_value input = gd_rule_operand(r, "input", u), other = gd_rule_operand(r, "other", u);
    return gd_rule_sub(r, input, gd_rule_mul(r, gd_rule_setting(r, "alpha"), other));
}

static gd_value div_modules_rule(gd_rule *r, gd_value u)
{
    bool other_first = gd_rule_flag(r, "other_first");
    gd_value other = other_first ? gd_rule_operand(r, "other", u) : -1;
    gd_value input = gd_rule_operand(r, "input", u);
    if (!other_first) other = gd_rule_operand(r, "other", u);
    return gd_rule_div(r, input, other);
}

static gd_value pow_modules_rule(gd_rule *r, gd_value u)
{
    gd_value input = gd_rule_operand(r, "input", u);
    return gd_rule_pow(r, input, gd_rule_operand(r, "exponent", u));
}

static gd_value clip_modules_rule(gd_rule *r, gd_value u)
{
    gd_value x = gd_rule_operand(r, "input", u);
    if (!gd_rule_is_none(r, "min")) x = gd_rule_max(r, x, gd_rule_operand(r, "min", u));
    if (!gd_rule_is_none(r, "max")) x = gd_rule_min(r, x, gd_rule_operand(r, "max", u));
    return x;
}

static gd_value lerp_modules_rule(gd_rule *r, gd_value u)
{
    gd_value input = gd_rule_operand(r, "input", u), end = gd_rule_operand(r, "end", u);
    return gd_rule_lerp(r, input, end, gd_rule_setting(r, "weight"));
}

#define MODULES(NAME, SUMMARY, FORMULA, EXAMPLE)                              \
    const gd_link_class gd_link_##NAME##_modules = {.name = #NAME "_modules", \
                                                    .family = "ops",          \
                                                    .summary = SUMMARY,       \
                                                    .formula = FORMULA,       \
                                                    .example = EXAMPLE,       \
                                                    GD_FIELDS(NAME##_fields), \
                                                    .rule = NAME##_modules_rule}

MODULES(sub, "difference of two chains", "input(u) - alpha other(u)",
        "sub_modules(ema(0.9), ema(0.99)) | lr(0.1)");
MODULES(
    div, "quotient of two chains", "input(u) / other(u)",
    "div_modules(ema(0.9, debiased=true), [sqrt_ema_squared(0.999, debiased=true) | add(1e-8)]) | lr(0.01)");
MODULES(pow, "one chain to the power of a second", "input(u)^exponent(u)",
        "mul(pow_modules(abs, 0.5)) | lr(0.1)");
MODULES(clip, "a chain, its elements kept between two others", "clamp(input(u), min(u), max(u))",
        "clip_modules(heavy_ball, min=-1, max=1) | lr(0.05)");
MODULES(lerp, "between two chains", "a = input(u);  a + weight (end(u) - a)",
        "lerp_modules(heavy_ball, ema, 0.5) | lr(0.01)");
