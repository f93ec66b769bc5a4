/* Random updates, independent of the incoming update, except for the signs that noise_sign takes from it: new numbers every step, the same on
 * every device and number of threads. No state but the number of steps. */
#include "gradus/link.h"

static gd_value randn_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return gd_rule_random(r, GD_RANDOM_NORMAL);
}

GD_LINK(ops, randn,
    .summary = "standard normal random numbers",
    .formula = "~ N(0, 1)",
    .example = "add(randn, 0.01) | lr(0.1)",
    .rule = randn_rule);

static const gd_field uniform_fields[] = {GD_REAL_NEEDED("low", -INFINITY, INFINITY, "least number"),
                                          GD_REAL_NEEDED("high", -INFINITY, INFINITY, "largest number")};

static gd_value uniform_rule(gd_rule *r, gd_value u)
{
    (void)u;
    gd_value low = gd_rule_setting(r, "low"), width = gd_rule_sub(r, gd_rule_setting(r, "high"), low);
    return gd_rule_add(r, low, gd_rule_mul(r, width, gd_rule_random(r, GD_RANDOM_UNIFORM)));
}

GD_LINK(ops, uniform,
    .summary = "random numbers that are uniform between two",
    .formula = "~ U(low, high)",
    .example = "mul(uniform(0, 2)) | lr(0.1)",
    GD_FIELDS(uniform_fields),
    .rule = uniform_rule);

/* ---- a distribution by its name ---- */

static const gd_field sample_fields[] = {
    GD_CHOICE(
        "distribution", "normal", "normal|gaussian|uniform|rademacher|sphere",
        "normal (gaussian) with variance 1; uniform from -1 to 1; rademacher: -1 or 1; sphere: a unit vector of all "
        "parameters together"),
    GD_REAL_OR_NONE("variance", 0, INFINITY, "of every element; none: that of the distribution"),
};

/* Numbers of the distribution, and their variance. */
static gd_value drawn(gd_rule *r, gd_value *variance)
{
    gd_value one = gd_rule_const(r, 1);
    *variance = one;
    if (gd_rule_is(r, "distribution", "rademacher")) return gd_rule_random(r, GD_RANDOM_SIGN);
    if (gd_rule_is(r, "distribution", "uniform")) {
        *variance = gd_rule_const(r, 1.0 / 3);
        gd_value x = gd_rule_random(r, GD_RANDOM_UNIFORM);
        return gd_rule_sub(r, gd_rule_add(r, x, x), one);
    }
    gd_value z = gd_rule_random(r, GD_RANDOM_NORMAL);
    if (!gd_rule_is(r, "distribution", "sphere")) return z;
    *variance = gd_rule_reciprocal(r, gd_rule_count(r, GD_ALL));
    return gd_rule_div(r, z, gd_rule_norm(r, z, 2, GD_ALL));
}

static gd_value sample(gd_rule *r)
{
    gd_value variance, z = drawn(r, &variance);
    if (gd_rule_is_none(r, "variance")) return z;
    gd_value ratio = gd_rule_div(r, gd_rule_setting(r, "variance"), variance);
    return gd_rule_mul(r, z, gd_rule_sqrt(r, ratio));
}

static gd_value random_sample_rule(gd_rule *r, gd_value u)
{
    (void)u;
    return sample(r);
}

static gd_value noise_sign_rule(gd_rule *r, gd_value u) { return gd_rule_copysign(r, sample(r), u); }

#define COST "element-wise, one pass with its neighbours; sphere: one more, for the norm"

GD_LINK(ops, random_sample,
    .summary = "random numbers of a distribution",
    .formula = "~ distribution",
    .cost = COST,
    .example = "add(random_sample(\"rademacher\", variance=1e-4)) | lr(0.1)",
    GD_FIELDS(sample_fields),
    .rule = random_sample_rule);

GD_LINK(ops, noise_sign,
    .summary = "random magnitudes with the signs of the update",
    .formula = "~ distribution, with the sign of u",
    .cost = COST,
    .example = "noise_sign | lr(0.001)",
    GD_FIELDS(sample_fields),
    .rule = noise_sign_rule);
