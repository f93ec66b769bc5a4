/* Averages of squares, or of other powers of magnitudes, and their roots; centered subtracts the power of the average, which leaves
 * a variance. They are the denominators of RMSprop and Adam as separate links:
 *
 *     div([sqrt_ema_squared(0.99) | add(1e-8)]) | lr(0.01)
 *
 * amsgrad: the largest value so far (Reddi, Kale & Kumar 2018).  debiased: divided by the root of 1 - beta^t.
 * State: exp_avg_sq, centered: exp_avg, amsgrad: max_exp_avg_sq.  One pass. */
#include "gradus/link.h"

#define BETA(first) GD_REAL("beta", first, 0, 1, "decay of the averages")
#define AMSGRAD     GD_FLAG("amsgrad", false, "the largest value so far")
#define DEBIASED    GD_FLAG("debiased", false, "correct the average for its start at zero")

static const gd_field ema_fields[] = {BETA(0.999), AMSGRAD, GD_POWER, GD_STATE_IN};
static const gd_field sqrt_fields[] = {BETA(0.999), AMSGRAD, DEBIASED, GD_POWER, GD_STATE_IN};
static const gd_field centered_fields[] = {BETA(0.99), AMSGRAD, GD_POWER, GD_STATE_IN};
static const gd_field centered_sqrt_fields[] = {BETA(0.99), AMSGRAD, DEBIASED, GD_POWER, GD_STATE_IN};

static const gd_slot slots[] = {{"exp_avg_sq", GD_SLOT_SQUARE}, {"max_exp_avg_sq", GD_SLOT_SQUARE}};
static const gd_slot centered_slots[] = {
    {"exp_avg_sq", GD_SLOT_SQUARE}, {"exp_avg", 0}, {"max_exp_avg_sq", GD_SLOT_SQUARE}};

static gd_value largest(gd_rule *r, gd_value v)
{
    if (!gd_rule_flag(r, "amsgrad")) return v;
    v = gd_rule_max(r, gd_rule_state(r, "max_exp_avg_sq"), v);
    gd_rule_set(r, "max_exp_avg_sq", v);
    return v;
}

static gd_value average_of_powers(gd_rule *r, gd_value u)
{
    gd_value power = gd_rule_power(r, u, gd_rule_number(r, "pow"));
    return gd_rule_average(r, "exp_avg_sq", power, gd_rule_setting(r, "beta"));
}

static gd_value variance(gd_rule *r, gd_value u)
{
    gd_value v = average_of_powers(r, u), m = gd_rule_average(r, "exp_avg", u, gd_rule_setting(r, "beta"));
    return gd_rule_sub(r, v, gd_rule_power(r, m, gd_rule_number(r, "pow")));
}

static gd_value rooted(gd_rule *r, gd_value v)
{
    double power = gd_rule_number(r, "pow");
    gd_value root = gd_rule_root(r, v, power);
    if (!gd_rule_flag(r, "debiased")) return root;
    gd_value past = gd_rule_pow(r, gd_rule_setting(r, "beta"), gd_rule_step(r));
    return gd_rule_div(r, root, gd_rule_root(r, gd_rule_sub(r, gd_rule_const(r, 1), past), power));
}

static gd_value ema_squared_rule(gd_rule *r, gd_value u) { return largest(r, average_of_powers(r, u)); }

static gd_value sqrt_ema_squared_rule(gd_rule *r, gd_value u) { return rooted(r, ema_squared_rule(r, u)); }

static gd_value centered_ema_squared_rule(gd_rule *r, gd_value u) { return largest(r, variance(r, u)); }

/* A variance that rounding made negative has no root: 0. */
static gd_value centered_sqrt_ema_squared_rule(gd_rule *r, gd_value u)
{
    return rooted(r, gd_rule_max(r, centered_ema_squared_rule(r, u), gd_rule_const(r, 0)));
}

#define EMA(NAME, FIELDS, SLOTS, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(ops, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(FIELDS), GD_SLOTS(SLOTS))
#define AVERAGE "v = beta v + (1 - beta) abs(u)^pow;  "
#define FIRST   "m = beta m + (1 - beta) u;  "

EMA(ema_squared, ema_fields, slots, "average of squares", AVERAGE "v",
    "div([ema_squared(0.999) | sqrt | debias2(0.999) | add(1e-8)]) | lr(0.01)");
EMA(sqrt_ema_squared, sqrt_fields, slots, "root of the average of squares", AVERAGE "v^(1 / pow)",
    "ema(0.9) | div([sqrt_ema_squared(0.999) | add(1e-8)]) | lr(0.1)");
EMA(centered_ema_squared, centered_fields, centered_slots,
    "average of squares less the square of the average", AVERAGE FIRST "v - abs(m)^pow",
    "div([centered_ema_squared(0.99) | sqrt | add(1e-4)]) | lr(0.01)");
EMA(centered_sqrt_ema_squared, centered_sqrt_fields, centered_slots,
    "root of the average of squares less the square of the average",
    AVERAGE FIRST "max(v - abs(m)^pow, 0)^(1 / pow)",
    "div([centered_sqrt_ema_squared(0.99) | add(1e-8)]) | lr(0.1)");
