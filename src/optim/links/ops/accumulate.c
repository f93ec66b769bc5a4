/* Accumulators of all updates so far: sum, mean, product, largest, smallest.  The accumulator is multiplied by 1 - decay
 * after its use, so that old updates fade; the mean divides by the sum of the same weights, the number of updates
 * when nothing fades.  Largest and smallest start at zero, the product at one.
 * State: one tensor, for the mean also the weight.  One pass. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("decay", 0, 0, 1, "fraction of the sum that decays at every step"),
    GD_TARGET,
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"accumulated", 0}};
static const char *const scalars[] = {"weight"};

/* value, of which 1 - decay is kept */
static gd_value kept(gd_rule *r, gd_value value)
{
    gd_value rest = gd_rule_sub(r, gd_rule_const(r, 1), gd_rule_setting(r, "decay"));
    gd_rule_set(r, "accumulated", gd_rule_mul(r, rest, value));
    return value;
}

static gd_value accumulate_sum_rule(gd_rule *r, gd_value u)
{
    return kept(r, gd_rule_add(r, gd_rule_state(r, "accumulated"), u));
}

static gd_value accumulate_product_rule(gd_rule *r, gd_value u)
{
    return kept(r, gd_rule_mul(r, gd_rule_state_or(r, "accumulated", gd_rule_const(r, 1)), u));
}

static gd_value accumulate_maximum_rule(gd_rule *r, gd_value u)
{
    return kept(r, gd_rule_max(r, gd_rule_state(r, "accumulated"), u));
}

static gd_value accumulate_minimum_rule(gd_rule *r, gd_value u)
{
    return kept(r, gd_rule_min(r, gd_rule_state(r, "accumulated"), u));
}

static gd_value accumulate_mean_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), rest = gd_rule_sub(r, one, gd_rule_setting(r, "decay"));
    gd_value weight = gd_rule_add(r, gd_rule_scalar(r, "weight"), one);
    gd_rule_set_scalar(r, "weight", gd_rule_mul(r, rest, weight));
    return gd_rule_div(r, accumulate_sum_rule(r, u), weight);
}

#define ACCUMULATE(NAME, SUMMARY, FORMULA, EXAMPLE, SCALARS) \
    const gd_link_class gd_link_accumulate_##NAME = {        \
        .name = "accumulate_" #NAME,                         \
        .family = "ops",                                     \
        .summary = SUMMARY,                                  \
        .formula = FORMULA,                                  \
        .example = EXAMPLE,                                  \
        GD_FIELDS(fields),                                   \
        GD_SLOTS(slots),                                     \
        .rule = accumulate_##NAME##_rule,                    \
        .scalars = SCALARS ? scalars : NULL,                 \
        .scalar_count = SCALARS,                             \
    }

ACCUMULATE(sum, "sum of all updates", "b = a + u;  a = (1 - decay) b;  b",
           "div([pow(2) | accumulate_sum | sqrt | add(1e-10)]) | lr(0.5)", 0);
ACCUMULATE(mean, "mean of all updates",
           "b = a + u;  n = w + 1;  a = (1 - decay) b;  w = (1 - decay) n;  b / n",
           "accumulate_mean | lr(0.1)", 1);
ACCUMULATE(product, "product of all updates", "a_0 = 1;  b = a u;  a = (1 - decay) b;  b",
           "sign | mul(accumulate_product) | lr(0.1)", 0);
ACCUMULATE(maximum, "largest of zero and all updates", "b = max(a, u);  a = (1 - decay) b;  b",
           "div([abs | accumulate_maximum | add(1e-8)]) | lr(0.01)", 0);
ACCUMULATE(minimum, "smallest of zero and all updates", "b = min(a, u);  a = (1 - decay) b;  b",
           "sub(accumulate_minimum(0.1)) | lr(0.01)", 0);
