/* adagrad divides by the root of the sum of all squares so far (Duchi, Hazan & Singer 2011); adagrad_norm by that of the sum
 * over all elements of all parameters, one number (Ward, Wu & Bottou 2019).
 *
 *     v += |u|^pow,   alpha / (1 + t lr_decay) inner(u) / (v^(1/pow) + eps)
 *
 * beta makes the sum an average, decay shrinks it before every step, divide takes v / t, without use_sqrt v itself divides.
 * PyTorch counts lr_decay from step 0: its factor lr / (1 + (t - 1) c) is ours with lr_decay = c / (1 - c), alpha = 1 / (1 - c).
 * State: accumulator; of adagrad_norm a number.  Element-wise, fuses; adagrad_norm after a pass for its sum. */
#include "gradus/link.h"

#include <math.h>

#define FIELDS                                                                                   \
    GD_REAL("lr_decay", 0, 0, INFINITY, "the result is divided by 1 + lr_decay times the step"), \
        GD_REAL("initial_accumulator_value", 0, 0, INFINITY, "where the sum starts"),            \
        GD_REAL("eps", 1e-10, 0, INFINITY, "added to the root"),                                 \
        GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of the result"), GD_POWER,              \
        GD_FLAG("use_sqrt", true, "divide by the root of the sum, not by the sum"),              \
        GD_FLAG("divide", false, "divide the sum by the number of steps"),                       \
        GD_REAL_OR_NONE("beta", 0, 1, "an average with this decay instead of a sum"),            \
        GD_REAL_OR_NONE("decay", 0, 1, "share of the sum that is forgotten before every step"),  \
        GD_INNER("acts on the update after it went into the sum")
static const gd_field fields[] = {FIELDS, GD_STATE_IN};
static const gd_field norm_fields[] = {FIELDS};

static const gd_slot slots[] = {{"accumulator", GD_SLOT_SQUARE}};
static const char *const scalars[] = {"accumulator"};

/* The sum after x was added. */
static gd_value accumulated(gd_rule *r, gd_value before, gd_value x)
{
    gd_value one = gd_rule_const(r, 1);
    if (!gd_rule_is_none(r, "decay"))
        before = gd_rule_mul(r, before, gd_rule_sub(r, one, gd_rule_setting(r, "decay")));
    if (gd_rule_is_none(r, "beta")) return gd_rule_add(r, before, x);
    return gd_rule_lerp(r, before, x, gd_rule_sub(r, one, gd_rule_setting(r, "beta")));
}

static gd_value divided(gd_rule *r, gd_value u, gd_value v)
{
    gd_value t = gd_rule_step(r), one = gd_rule_const(r, 1);
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    if (gd_rule_flag(r, "divide")) v = gd_rule_div(r, v, t);
    if (gd_rule_flag(r, "use_sqrt")) v = gd_rule_root(r, v, gd_rule_number(r, "pow"));
    gd_value slower = gd_rule_add(r, one, gd_rule_mul(r, t, gd_rule_setting(r, "lr_decay")));
    gd_value scale = gd_rule_div(r, gd_rule_setting(r, "alpha"), slower);
    return gd_rule_div(r, gd_rule_mul(r, u, scale), gd_rule_add(r, v, gd_rule_setting(r, "eps")));
}

static gd_value adagrad_rule(gd_rule *r, gd_value u)
{
    gd_value before = gd_rule_state_or(r, "accumulator", gd_rule_setting(r, "initial_accumulator_value"));
    gd_value v = accumulated(r, before, gd_rule_power(r, u, gd_rule_number(r, "pow")));
    gd_rule_set(r, "accumulator", v);
    return divided(r, u, v);
}

static gd_value adagrad_norm_rule(gd_rule *r, gd_value u)
{
    gd_value first = gd_rule_eq(r, gd_rule_step(r), gd_rule_const(r, 1));
    gd_value before = gd_rule_where(r, first, gd_rule_setting(r, "initial_accumulator_value"),
                                    gd_rule_scalar(r, "accumulator"));
    gd_value sum = gd_rule_sum(r, gd_rule_power(r, u, gd_rule_number(r, "pow")), GD_ALL);
    gd_value v = accumulated(r, before, sum);
    gd_rule_set_scalar(r, "accumulator", v);
    return divided(r, u, v);
}

GD_LINK(adaptive, adagrad,
    .summary = "divides by the root of the sum of squares so far",
    .formula = "v_0 = initial_accumulator_value;  v = v + u^2;  alpha u / (1 + t lr_decay) / (sqrt(v) + eps)",
    .paper = "Duchi, Hazan & Singer, Adaptive subgradient methods for online learning, JMLR 2011",
    .example = "adagrad | lr(0.1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adagrad_rule);

GD_LINK(adaptive, adagrad_norm,
    .summary = "divides by the root of the sum of all squared norms so far",
    .formula =
        "v_0 = initial_accumulator_value;  v = v + sum(u^2);  alpha u / (1 + t lr_decay) / (sqrt(v) + eps)",
    .paper = "Ward, Wu & Bottou, AdaGrad stepsizes: sharp convergence over nonconvex landscapes, ICML 2019",
    .cost = "one more pass, for the norm",
    .example = "adagrad_norm | lr(0.1)",
    GD_FIELDS(norm_fields),
    GD_SCALARS(scalars),
    .rule = adagrad_norm_rule);
