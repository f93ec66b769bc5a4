/* Gradient correction: the gradient at the minimum along the last step, assuming that the function is quadratic.  For directions that assume
 * exact searches, after inexact ones.
 *
 *     u - y (s u) / (s y)        over all parameters as one vector
 *
 * The first update, and one after a step without curvature, stays as it is.  State: previous_params, previous_update. */
#include "gradus/link.h"

static const gd_slot slots[] = {{"previous_params", GD_SLOT_ONLINE | GD_SLOT_EXACT},
                                {"previous_update", GD_SLOT_ONLINE | GD_SLOT_EXACT}};

static gd_value corrected(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r);
    gd_value s = gd_rule_sub(r, p, gd_rule_state_or(r, "previous_params", p));
    gd_value y = gd_rule_sub(r, u, gd_rule_state_or(r, "previous_update", u));
    gd_rule_set(r, "previous_params", p);
    gd_rule_set(r, "previous_update", u);
    gd_value su = gd_rule_sum(r, gd_rule_mul(r, s, u), GD_ALL),
             sy = gd_rule_sum(r, gd_rule_mul(r, s, y), GD_ALL);
    gd_value zero = gd_rule_const(r, 0), none = gd_rule_eq(r, sy, zero);
    gd_value share = gd_rule_where(r, none, zero,
                                   gd_rule_div(r, su, gd_rule_where(r, none, gd_rule_const(r, 1), sy)));
    return gd_rule_sub(r, u, gd_rule_mul(r, y, share));
}

GD_LINK(quasi_newton, gradient_correction,
    .summary = "the gradient at the minimum along the last step, were the function quadratic",
    .formula = "v_0 = p;  w_0 = u;  s = p - v;  y = u - w;  v = p;  w = u;  "
               "u - y dot(s, u) / dot(s, y) where abs(dot(s, y)) > 0, else u",
    .paper = "Powell, Restart procedures for the conjugate gradient method, 1977",
    .cost = "one more pass, for two dot products",
    .example = "gradient_correction | fletcher_reeves | strong_wolfe",
    GD_SLOTS(slots),
    .rule = corrected);
