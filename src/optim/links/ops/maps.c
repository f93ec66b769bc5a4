/* Functions of every element: abs, exp, negate, reciprocal, sign, sqrt, nan_to_num; and identity and clone, which change
 * nothing.  No state, one pass. */
#include "gradus/link.h"
#include "gradus/link.h"

#define MAP(NAME, RULE, SUMMARY, FORMULA, EXAMPLE) \
    GD_LINK(ops, NAME, .summary = SUMMARY, .formula = FORMULA, .example = EXAMPLE, \
            GD_FIELDS(map_fields), .rule = RULE)

static const gd_field map_fields[] = {GD_TARGET};

MAP(abs, gd_rule_abs, "magnitude of every element", "abs(u)", "copy_sign([abs | ema]) | lr(0.1)");
MAP(exp, gd_rule_exp, "exponential of every element", "exp(u)",
    "normalize | mul([abs | negate | exp]) | lr(0.1)");
MAP(negate, gd_rule_neg, "turns the update round: steps go uphill", "-u", "negate | lr(0.1)");
MAP(sign, gd_rule_sign, "sign of every element: -1, 0 or 1", "sign(u)", "ema(0.9) | sign | lr(0.001)");
MAP(sqrt, gd_rule_sqrt, "root of every element, NaN of a negative one", "sqrt(u)",
    "div([pow(2) | ema(0.99) | sqrt | add(1e-8)]) | lr(0.01)");

static const gd_field reciprocal_fields[] = {
    GD_REAL("eps", 0, -INFINITY, INFINITY, "added to every element first"), GD_TARGET};

static gd_value reciprocal_rule(gd_rule *r, gd_value u)
{
    return gd_rule_reciprocal(r, gd_rule_add(r, u, gd_rule_setting(r, "eps")));
}

GD_LINK(ops, reciprocal,
    .summary = "reciprocal of every element",
    .formula = "1 / (u + eps)",
    .example = "mul([sqrt_ema_squared(0.999) | reciprocal(1e-8)]) | lr(0.01)",
    GD_FIELDS(reciprocal_fields),
    .rule = reciprocal_rule);

/* ---- NaN and infinities ---- */

static const gd_field nan_fields[] = {
    GD_REAL_OR_NONE("nan", -INFINITY, INFINITY, "in place of NaN; none: 0"),
    GD_REAL_OR_NONE("posinf", -INFINITY, INFINITY,
                    "in place of infinity; none: the largest number of the dtype"),
    GD_REAL_OR_NONE("neginf", -INFINITY, INFINITY,
                    "in place of -infinity; none: the lowest number of the dtype"),
    GD_TARGET,
};

static gd_value given_or(gd_rule *r, const char *name, gd_value otherwise)
{
    return gd_rule_is_none(r, name) ? otherwise : gd_rule_setting(r, name);
}

static gd_value nan_to_num_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0), largest = gd_rule_largest(r);
    gd_value nan = given_or(r, "nan", zero), up = given_or(r, "posinf", largest),
             down = given_or(r, "neginf", gd_rule_neg(r, largest));
    gd_value infinite = gd_rule_where(r, gd_rule_gt(r, u, zero), up, down);
    gd_value other = gd_rule_where(r, gd_rule_ne(r, u, u), nan, infinite);
    return gd_rule_where(r, gd_rule_isfinite(r, u), u, other);
}

GD_LINK(ops, nan_to_num,
    .summary = "puts numbers in place of NaN and infinities",
    .formula = "u where isfinite(u), nan where isnan(u), posinf where u > 0, else neginf",
    .example = "nan_to_num(posinf=0, neginf=0) | adam | lr(0.001)",
    GD_FIELDS(nan_fields),
    .rule = nan_to_num_rule);

/* ---- nothing ---- */

static gd_value same_rule(gd_rule *r, gd_value u)
{
    (void)r;
    return u;
}

/* The operator is the identity on all parameters: a trust region around it is one of the gradient. */
static gd_linop *identity_hessian(gd_link *link, gd_var *var)
{
    (void)link;
    gd_tensor *params = gd_list_vector(gd_var_params(var), gd_var_count(var));
    return gd_linop_diagonal(gd_ones_like(params));
}

GD_LINK(ops, identity,
    .summary = "changes nothing; as a Hessian, the identity",
    .formula = "u",
    .example = "lerp_modules(identity, ema(0.9), 0.5) | lr(0.1)",
    .rule = same_rule,
    .hessian = identity_hessian);

GD_LINK(ops, clone,
    .summary = "a copy of the update, which nothing that happens to it later changes",
    .formula = "u",
    .example = "sub_modules(clone, ema(0.9)) | lr(0.1)",
    .rule = same_rule);
