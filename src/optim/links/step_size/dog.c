/* DoG: distance over gradients (Ivgi, Hinder & Carmon 2023).  The step size is the largest distance from the first parameters q
 * so far over the root of the sum of all squared gradients; the first distance is r0 (1 + |q|).  All parameters as one vector,
 * or with tensorwise each tensor by itself (their L-DoG).  State: initial; distance and sum as numbers.  One pass for them. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("r0", 1e-6, 0, INFINITY, "first distance, in units of 1 + the norm of the parameters"),
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the sum of squares"),
    GD_FLAG("tensorwise", false, "a step size for each tensor"),
};

static const gd_slot slots[] = {{"initial", GD_SLOT_EXACT}};
static const char *const scalars[] = {"distance", "squares"};

static gd_value dog_rule(gd_rule *r, gd_value u)
{
    gd_extent extent = gd_rule_flag(r, "tensorwise") ? GD_EACH : GD_ALL;
    gd_value one = gd_rule_const(r, 1), p = gd_rule_param(r), start = gd_rule_state_or(r, "initial", p);
    gd_rule_set(r, "initial", start);
    gd_value first = gd_rule_mul(r, gd_rule_setting(r, "r0"),
                                 gd_rule_add(r, one, gd_rule_norm(r, start, 2, extent)));
    gd_value before = gd_rule_where(r, gd_rule_eq(r, gd_rule_step(r), one), first,
                                    gd_rule_scalar(r, "distance"));
    gd_value distance = gd_rule_max(r, before, gd_rule_norm(r, gd_rule_sub(r, p, start), 2, extent));
    gd_value squares = gd_rule_add(r, gd_rule_scalar(r, "squares"),
                                   gd_rule_sum(r, gd_rule_square(r, u), extent));
    gd_rule_set_scalar(r, "distance", distance);
    gd_rule_set_scalar(r, "squares", squares);
    gd_value root = gd_rule_sqrt(r, gd_rule_add(r, squares, gd_rule_setting(r, "eps")));
    return gd_rule_mul(r, u, gd_rule_div(r, distance, root));
}

GD_LINK(step_size, dog,
    .summary = "step size: distance from the start over the root of all squared gradients",
    .formula =
        "q_0 = p;  d_0 = r0 (1 + norm(q));  d = max(d, norm(p - q));  s = s + sum(u^2);  u d / sqrt(s + eps)",
    .paper =
        "Ivgi, Hinder & Carmon, DoG is SGD's best friend: a parameter-free dynamic step size schedule, ICML 2023",
    .cost = "one more pass, for sums over all parameters",
    .example = "dog",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = dog_rule);
