/* AEGD: adaptive gradient descent with energy (Liu & Tian 2020).  With g the update and f + c > 0,
 *
 *     v = g / (2 sqrt(f + c)),   r = r / (1 + 2 lr v^2),   2 lr r v,     r starts at sqrt(f + c)
 *
 * r falls and the method is stable for any lr, which is its own: no `lr` after it.  If f + c is negative the result is NaN.
 * State: energy.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("lr", 0.1, 0, INFINITY, "step size"),
    GD_REAL("c", 1, -INFINITY, INFINITY, "added to the loss to make it positive"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"energy", GD_SLOT_POSITIVE}};

static gd_value aegd_rule(gd_rule *r, gd_value u)
{
    gd_value two = gd_rule_const(r, 2), twice = gd_rule_mul(r, two, gd_rule_setting(r, "lr"));
    gd_value root = gd_rule_sqrt(r, gd_rule_add(r, gd_rule_loss(r), gd_rule_setting(r, "c")));
    gd_value v = gd_rule_div(r, u, gd_rule_mul(r, two, root));
    gd_value shrink = gd_rule_add(r, gd_rule_const(r, 1), gd_rule_mul(r, twice, gd_rule_square(r, v)));
    gd_value energy = gd_rule_div(r, gd_rule_state_or(r, "energy", root), shrink);
    gd_rule_set(r, "energy", energy);
    return gd_rule_mul(r, twice, gd_rule_mul(r, energy, v));
}

GD_LINK(adaptive, aegd,
    .summary = "gradient descent with an energy that falls",
    .formula = "s = sqrt(f + c);  v = u / (2 s);  r_0 = s;  r = r / (1 + 2 lr v^2);  2 lr r v",
    .paper = "Liu & Tian, AEGD: adaptive gradient descent with energy, 2020",
    .example = "aegd(0.1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = aegd_rule,
    .traits.uses_loss = true);
