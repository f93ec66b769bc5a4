/* Heavy ball with Polyak step sizes and the momentum that makes it conjugate gradients on quadratics (Goujaud, Taylor &
 * Dieuleveut 2022): with f* known, F = f - f*, F' and u' of the step before,
 *
 *     h = 2 F / |u|^2,   m = -F <u, u'> / (F' |u|^2 + F <u, u'>),   (1 + m) h u - m (p - p')
 *
 * If F or |u| is 0, nothing moves.  State: previous_params, previous_update, and F' as a number.  One pass for its products. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {GD_REAL("f_star", 0, -INFINITY, INFINITY, "the minimum of the loss"),
                                  GD_STATE_IN};

static const gd_slot slots[] = {{"previous_params", GD_SLOT_EXACT | GD_SLOT_ONLINE},
                                {"previous_update", GD_SLOT_ONLINE}};
static const char *const scalars[] = {"previous_gap"};

static gd_value adaptive_heavy_ball_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0), one = gd_rule_const(r, 1), p = gd_rule_param(r);
    gd_value gap = gd_rule_sub(r, gd_rule_loss(r), gd_rule_setting(r, "f_star"));
    gd_value gap_before = gd_rule_scalar(r, "previous_gap");
    gd_value uu = gd_rule_sum(r, gd_rule_square(r, u), GD_ALL);
    gd_value across = gd_rule_sum(r, gd_rule_mul(r, u, gd_rule_state(r, "previous_update")), GD_ALL);
    gd_value top = gd_rule_mul(r, gap, across);
    gd_value below = gd_rule_add(r, gd_rule_mul(r, gap_before, uu), top);
    /* the first step has no previous update, so no momentum */
    gd_value m = gd_rule_where(r, gd_rule_ne(r, below, zero), gd_rule_neg(r, gd_rule_div(r, top, below)),
                               zero);
    gd_value move = gd_rule_sub(r, p, gd_rule_state_or(r, "previous_params", p));
    gd_value h = gd_rule_div(r, gd_rule_mul(r, gd_rule_const(r, 2), gap), uu);
    gd_value step = gd_rule_mul(r, gd_rule_mul(r, gd_rule_add(r, one, m), h), u);
    gd_rule_set(r, "previous_params", p);
    gd_rule_set(r, "previous_update", u);
    gd_rule_set_scalar(r, "previous_gap", gap);
    gd_value goes = gd_rule_and(r, gd_rule_gt(r, gap, zero), gd_rule_gt(r, uu, zero));
    return gd_rule_where(r, goes, gd_rule_sub(r, step, gd_rule_mul(r, m, move)), zero);
}

GD_LINK(adaptive, adaptive_heavy_ball,
    .summary = "Polyak step sizes with the momentum of conjugate gradients",
    .formula =
        "F = f - f_star;  c = F sum(u w);  b = e sum(u^2) + c;  m = -c / b where abs(b) > 0, else 0;  q_0 = p;  "
        "x = (1 + m) 2 F / sum(u^2) u - m (p - q);  q = p;  w = u;  e = F;  x where F > 0, else 0",
    .paper =
        "Goujaud, Taylor & Dieuleveut, Quadratic minimization: from conjugate gradient to an adaptive heavy-ball "
        "method with Polyak step-sizes, 2022",
    .cost = "one more pass, for sums over all parameters",
    .example = "adaptive_heavy_ball",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = adaptive_heavy_ball_rule,
    .traits.uses_loss = true);
