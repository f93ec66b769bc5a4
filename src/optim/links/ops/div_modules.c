/* The quotient of two chains on the same update. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_CHILD_NEEDED("input", "numerator"),
    GD_CHILD_NEEDED("other", "denominator"),
    GD_FLAG("other_first", false, "run the denominator first"),
};

static gd_value div_modules_rule(gd_rule *r, gd_value u)
{
    bool other_first = gd_rule_flag(r, "other_first");
    gd_value other = other_first ? gd_rule_child(r, "other", u) : -1;
    gd_value input = gd_rule_child(r, "input", u);
    if (!other_first) other = gd_rule_child(r, "other", u);
    return gd_rule_div(r, input, other);
}

const gd_link_class gd_link_div_modules = {
    .name = "div_modules",
    .family = "ops",
    .summary = "quotient of two chains",
    .formula = "input(u) / other(u)",
    GD_FIELDS(fields),
    .rule = div_modules_rule,
};
