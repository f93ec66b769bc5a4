/* MARS: adds a multiple of the change of the gradient, and bounds the norm of the sum over all parameters (Yuan et al. 2024,
 * algorithm 1, with the gradient of the last batch in place of a second evaluation).  Before adam, lion or muon.
 * State: previous.  One pass for the norm. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("beta", 0.9, 0, 1, "decay of the momentum of the link that follows"),
    GD_REAL("scaling", 0.025, -INFINITY, INFINITY, "weight of the correction"),
    GD_REAL_OR_OFF("max_norm", 1, 0, INFINITY, "largest norm over all parameters; none: any"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"previous", GD_SLOT_ONLINE}};

static gd_value mars_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), beta = gd_rule_setting(r, "beta");
    gd_value weight = gd_rule_div(r, gd_rule_mul(r, gd_rule_setting(r, "scaling"), beta),
                                  gd_rule_sub(r, one, beta));
    gd_value change = gd_rule_sub(r, u, gd_rule_state_or(r, "previous", u));
    gd_rule_set(r, "previous", u);
    gd_value c = gd_rule_add(r, u, gd_rule_mul(r, weight, change));
    if (gd_rule_is_none(r, "max_norm")) return c;
    gd_value norm = gd_rule_norm(r, c, 2, GD_ALL), most = gd_rule_setting(r, "max_norm");
    gd_value over = gd_rule_gt(r, norm, most);
    return gd_rule_mul(r, c, gd_rule_where(r, over, gd_rule_div(r, most, norm), one));
}

GD_LINK(adaptive, mars_correction,
    .summary = "adds the change of the gradient, to reduce its variance",
    .formula = "w_0 = u;  c = u + scaling beta / (1 - beta) (u - w);  w = u;  c min(1, max_norm / norm(c))",
    .paper = "Yuan et al., MARS: unleashing the power of variance reduction for training large models, 2024",
    .cost = "one more pass, for the norm",
    .example = "mars_correction | adam | lr(0.003)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = mars_rule);
