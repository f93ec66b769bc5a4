/* Operations on the update and a second operand, a number or the result of a chain on the update:
 *
 *     ema(0.9) | div(sqrt_ema_squared(0.999)) | lr(0.1)
 *
 * No state of their own; with element-wise chains one pass for all of it. */
#include "gradus/link.h"

#define BINARY(NAME, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(ops, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(NAME##_fields))

/* ---- sums ---- */

#define ALPHA GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of other")

static const gd_field add_fields[] = {GD_OPERAND("other", "the summand"), ALPHA};
static const gd_field sub_fields[] = {GD_OPERAND("other", "the subtrahend"), ALPHA};
static const gd_field rsub_fields[] = {GD_OPERAND("other", "the minuend")};

static gd_value scaled_other(gd_rule *r, gd_value u)
{
    return gd_rule_mul(r, gd_rule_setting(r, "alpha"), gd_rule_operand(r, "other", u));
}

static gd_value add_rule(gd_rule *r, gd_value u) { return gd_rule_add(r, u, scaled_other(r, u)); }

static gd_value sub_rule(gd_rule *r, gd_value u) { return gd_rule_sub(r, u, scaled_other(r, u)); }

static gd_value rsub_rule(gd_rule *r, gd_value u)
{
    return gd_rule_sub(r, gd_rule_operand(r, "other", u), u);
}

BINARY(add, "adds a number or a chain", "u + alpha other(u)", "add(params, 0.01) | adam | lr(0.001)");
BINARY(sub, "subtracts a number or a chain", "u - alpha other(u)", "sub(ema(0.9)) | lr(0.1)");
BINARY(rsub, "the update subtracted from a number or a chain", "other(u) - u", "rsub(ema(0.9)) | lr(-0.1)");

/* ---- products and powers ---- */

static const gd_field mul_fields[] = {GD_OPERAND("other", "factor")};
static const gd_field div_fields[] = {GD_OPERAND("other", "denominator")};
static const gd_field rdiv_fields[] = {GD_OPERAND("other", "numerator")};
/* The exponent shapes the program, because a square is much cheaper than a power. */
static const gd_field pow_fields[] = {{.name = "exponent",
                                       .kinds = GD_SET_REAL | GD_SET_CHAIN,
                                       .low = -INFINITY,
                                       .high = INFINITY,
                                       .structural = true,
                                       .help = "power to take"}};
static const gd_field rpow_fields[] = {GD_OPERAND("other", "the base")};

static gd_value mul_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, gd_rule_operand(r, "other", u)); }

static gd_value div_rule(gd_rule *r, gd_value u) { return gd_rule_div(r, u, gd_rule_operand(r, "other", u)); }

static gd_value rdiv_rule(gd_rule *r, gd_value u)
{
    return gd_rule_div(r, gd_rule_operand(r, "other", u), u);
}

static gd_value pow_rule(gd_rule *r, gd_value u)
{
    if (gd_rule_has_child(r, "exponent")) return gd_rule_pow(r, u, gd_rule_child(r, "exponent", u));
    double exponent = gd_rule_number(r, "exponent");
    if (exponent == 1) return u;
    if (exponent == 2) return gd_rule_square(r, u);
    if (exponent == -1) return gd_rule_reciprocal(r, u);
    return gd_rule_pow(r, u, gd_rule_const(r, exponent));
}

static gd_value rpow_rule(gd_rule *r, gd_value u)
{
    return gd_rule_pow(r, gd_rule_operand(r, "other", u), u);
}

BINARY(mul, "multiplies by a number or a chain", "u other(u)", "mul(abs) | lr(0.1)");
BINARY(div, "divides by a number or a chain", "u / other(u)",
       "ema(0.9) | div([sqrt_ema_squared(0.999) | add(1e-8)]) | lr(0.1)");
BINARY(rdiv, "a number or a chain divided by the update", "other(u) / u", "rdiv(pow(2)) | lr(0.1)");
BINARY(pow, "raises the update to a power; NaN of a negative element to one that is not whole",
       "u^exponent(u)", "div([pow(2) | accumulate_sum | sqrt | add(1e-10)]) | lr(0.5)");
BINARY(rpow, "raises a number or a chain to the update", "other(u)^u", "rpow(2) | sub(1) | lr(0.1)");

/* ---- choices ---- */

static const gd_field maximum_fields[] = {GD_OPERAND("other", "the second operand")};
static const gd_field minimum_fields[] = {GD_OPERAND("other", "the second operand")};
static const gd_field clip_fields[] = {GD_OPERAND_OR_NONE("min", "least value of an element"),
                                       GD_OPERAND_OR_NONE("max", "largest value of an element")};
static const gd_field threshold_fields[] = {
    GD_OPERAND("threshold", "what elements are compared with"),
    GD_OPERAND("value", "what those that fail become"),
    {.name = "update_above",
     .kinds = GD_SET_BOOL,
     .help = "true: elements above the threshold stay; false: elements below it"},
};

static gd_value maximum_rule(gd_rule *r, gd_value u)
{
    return gd_rule_max(r, u, gd_rule_operand(r, "other", u));
}

static gd_value minimum_rule(gd_rule *r, gd_value u)
{
    return gd_rule_min(r, u, gd_rule_operand(r, "other", u));
}

static gd_value clip_rule(gd_rule *r, gd_value u)
{
    gd_value low = gd_rule_is_none(r, "min") ? -1 : gd_rule_operand(r, "min", u);
    gd_value high = gd_rule_is_none(r, "max") ? -1 : gd_rule_operand(r, "max", u);
    gd_value x = low < 0 ? u : gd_rule_max(r, u, low);
    return high < 0 ? x : gd_rule_min(r, x, high);
}

static gd_value threshold_rule(gd_rule *r, gd_value u)
{
    gd_value limit = gd_rule_operand(r, "threshold", u), value = gd_rule_operand(r, "value", u);
    bool above = gd_rule_flag(r, "update_above");
    return gd_rule_where(r, above ? gd_rule_gt(r, u, limit) : gd_rule_lt(r, u, limit), u, value);
}

BINARY(maximum, "the larger of the update and a number or chain", "max(u, other(u))",
       "maximum(-1) | lr(0.1)");
BINARY(minimum, "the smaller of the update and a number or chain", "min(u, other(u))",
       "minimum(1) | lr(0.1)");
BINARY(clip, "keeps elements between two numbers or chains", "clamp(u, min(u), max(u))",
       "clip(-1, 1) | adam | lr(0.001)");
BINARY(threshold, "keeps elements above (or below) a threshold, the others become a value",
       "u where u > threshold(u), else value(u)", "threshold(0.001, 0, true) | lr(0.1)");

/* ---- signs ---- */

static const gd_field copy_sign_fields[] = {GD_OPERAND("other", "what has the sign")};
static const gd_field rcopy_sign_fields[] = {GD_OPERAND("other", "what has the magnitude")};
#define copy_magnitude_fields rcopy_sign_fields

static gd_value copy_sign_rule(gd_rule *r, gd_value u)
{
    return gd_rule_copysign(r, u, gd_rule_operand(r, "other", u));
}

static gd_value rcopy_sign_rule(gd_rule *r, gd_value u)
{
    return gd_rule_copysign(r, gd_rule_operand(r, "other", u), u);
}
#define copy_magnitude_rule rcopy_sign_rule

BINARY(copy_sign, "magnitude of the update, sign of a chain", "copysign(u, other(u))",
       "copy_sign(ema(0.9)) | lr(0.1)");
BINARY(rcopy_sign, "magnitude of a chain, sign of the update", "copysign(other(u), u)",
       "rcopy_sign(ema(0.9)) | lr(0.1)");
BINARY(copy_magnitude, "magnitude of a chain, sign of the update; rcopy_sign", "copysign(other(u), u)",
       "copy_magnitude(adam) | lr(0.01)");

/* ---- projection ---- */

static const gd_field gram_schmidt_fields[] = {
    GD_CHILD_NEEDED("other", "the direction that is taken out of the update")};

/* A zero direction removes nothing. */
static gd_value gram_schmidt_rule(gd_rule *r, gd_value u)
{
    gd_value other = gd_rule_child(r, "other", u), zero = gd_rule_const(r, 0);
    gd_value along = gd_rule_sum(r, gd_rule_mul(r, u, other), GD_EACH);
    gd_value square = gd_rule_sum(r, gd_rule_square(r, other), GD_EACH);
    gd_value share = gd_rule_where(r, gd_rule_eq(r, square, zero), zero, gd_rule_div(r, along, square));
    return gd_rule_sub(r, u, gd_rule_mul(r, other, share));
}

GD_LINK(ops, gram_schmidt,
    .summary = "makes the update orthogonal to a chain, tensor by tensor",
    .formula = "o = other(u);  u - o dot(u, o) / dot(o, o)",
    .paper = "Golub & Van Loan, Matrix computations, 2013, 5.2.7",
    .cost = "one more pass, for the dot products",
    .example = "gram_schmidt(params) | lr(0.1)",
    GD_FIELDS(gram_schmidt_fields),
    .rule = gram_schmidt_rule);
