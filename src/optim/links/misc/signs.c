/* Signs of one, magnitudes of the other: grad_sign is the update with the signs of the gradient, update_sign the gradient with
 * those of the update.  The sign of a zero is its sign bit.  No state.  Element-wise, fuse. */
#include "gradus/link.h"

static const gd_field fields[] = {GD_TARGET};

static gd_value grad_sign_rule(gd_rule *r, gd_value u) { return gd_rule_copysign(r, u, gd_rule_grad(r)); }

static gd_value update_sign_rule(gd_rule *r, gd_value u) { return gd_rule_copysign(r, gd_rule_grad(r), u); }

#define SIGNS(NAME, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(misc, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(fields))

SIGNS(grad_sign, "the update with the signs of the gradient", "copysign(u, g)",
      "adam | grad_sign | lr(0.001)");
SIGNS(update_sign, "the gradient with the signs of the update", "copysign(g, u)",
      "heavy_ball | update_sign | lr(0.01)");
