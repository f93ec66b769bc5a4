/* RMSprop: divides by the root of an average of squares (Tieleman & Hinton 2012); eps is added outside the root.
 * centered subtracts the square of the average first (Graves 2013).
 * State: exp_avg_sq, centered: exp_avg, amsgrad: max_exp_avg_sq. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("smoothing", 0.99, 0, 1, "decay of the average of squares"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the root"),
    GD_FLAG("centered", false, "divide by a deviation, not a second moment"),
    GD_FLAG("debiased", false, "correct the average for its start at zero"),
    GD_FLAG("amsgrad", false, "divide by the largest average so far"),
    GD_POWER,
    GD_CHOICE("init", "zeros", "zeros|update", "where the averages start"),
    GD_INNER("acts on the update before it is divided"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {
    {"exp_avg_sq", GD_SLOT_SQUARE}, {"exp_avg", false}, {"max_exp_avg_sq", GD_SLOT_SQUARE}};

/* An average that may start at its first input. */
static gd_value average(gd_rule *r, const char *slot, gd_value x, gd_value weight)
{
    gd_value before = gd_rule_is(r, "init", "update") ? gd_rule_state_or(r, slot, x) : gd_rule_state(r, slot);
    gd_value after = gd_rule_lerp(r, before, x, weight);
    gd_rule_set(r, slot, after);
    return after;
}

static gd_value rmsprop_rule(gd_rule *r, gd_value u)
{
    gd_value beta = gd_rule_setting(r, "smoothing"), one = gd_rule_const(r, 1),
             weight = gd_rule_sub(r, one, beta);
    double power = gd_rule_number(r, "pow");
    gd_value v = average(r, "exp_avg_sq", gd_rule_power(r, u, power), weight);
    if (gd_rule_flag(r, "centered"))
        v = gd_rule_sub(r, v, gd_rule_power(r, average(r, "exp_avg", u, weight), power));
    if (gd_rule_flag(r, "amsgrad")) {
        v = gd_rule_max(r, gd_rule_state(r, "max_exp_avg_sq"), v);
        gd_rule_set(r, "max_exp_avg_sq", v);
    }
    gd_value root = gd_rule_root(r, v, power);
    if (gd_rule_flag(r, "debiased")) {
        gd_value rest = gd_rule_sub(r, one, gd_rule_pow(r, beta, gd_rule_step(r)));
        root = gd_rule_div(r, root, gd_rule_root(r, rest, power));
    }
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    return gd_rule_div(r, u, gd_rule_add(r, root, gd_rule_setting(r, "eps")));
}

GD_LINK(adaptive, rmsprop,
    .summary = "divides by the root of an average of squares",
    .formula = "v = smoothing v + (1 - smoothing) u^2;  u / (sqrt(v) + eps)",
    .paper = "Tieleman & Hinton, Lecture 6.5, Coursera 2012",
    .example = "rmsprop(0.99) | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = rmsprop_rule);
