/* Rprop: a step size for every element, which grows while the sign of its update stays and shrinks when it turns (Riedmiller &
 * Braun 1993).  If it turns, the previous step is undone, or with backtrack=false the element stays, as in PyTorch; the
 * step after that neither grows nor shrinks.  It has its own step sizes: no `lr` after it.
 * State: previous (the last move, 0 after a turn), magnitude.  Element-wise, fuses.
 *
 * sign_change.c has its parts as links. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("nplus", 1.2, 0, INFINITY, "factor of a step size while the sign stays"),
    GD_REAL("nminus", 0.5, 0, INFINITY, "factor where the sign turns"),
    GD_REAL("lb", 1e-6, 0, INFINITY, "least step size"),
    GD_REAL("ub", 50, 0, INFINITY, "largest step size"),
    GD_FLAG("backtrack", true, "take the last step back where the sign turns; false: stay"),
    GD_REAL("alpha", 1, 0, INFINITY, "first step size"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"previous", 0}, {"magnitude", GD_SLOT_POSITIVE}};

static gd_value rprop_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0), one = gd_rule_const(r, 1);
    gd_value sign = gd_rule_sign(r, u), before = gd_rule_state(r, "previous"),
             agree = gd_rule_mul(r, sign, before);
    gd_value turned = gd_rule_lt(r, agree, zero);
    gd_value factor = gd_rule_where(r, turned, gd_rule_setting(r, "nminus"), one);
    factor = gd_rule_where(r, gd_rule_gt(r, agree, zero), gd_rule_setting(r, "nplus"), factor);
    gd_value size = gd_rule_mul(r, gd_rule_state_or(r, "magnitude", gd_rule_setting(r, "alpha")), factor);
    size = gd_rule_clamp(r, size, gd_rule_setting(r, "lb"), gd_rule_setting(r, "ub"));
    gd_rule_set(r, "magnitude", size);
    gd_value move = gd_rule_mul(r, sign, size);
    gd_rule_set(r, "previous", gd_rule_where(r, turned, zero, move));
    gd_value back = gd_rule_flag(r, "backtrack") ? gd_rule_neg(r, before) : zero;
    return gd_rule_where(r, turned, back, move);
}

GD_LINK(adaptive, rprop,
    .summary = "step sizes from the signs of successive updates",
    .formula =
        "s = sign(u) d;  m_0 = alpha;  k = nplus where s > 0, else 1;  k = nminus where 0 > s, else k;  "
        "m = min(ub, max(lb, m k));  x = -d where 0 > s, else sign(u) m;  d = 0 where 0 > s, else x;  x",
    .paper = "Riedmiller & Braun, A direct adaptive method for faster backpropagation learning, 1993",
    .example = "rprop | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = rprop_rule);
