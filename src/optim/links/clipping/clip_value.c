/* Clips every element of the update. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {GD_REAL_NEEDED("value", 0, INFINITY, "largest magnitude of an element"),
                                  GD_TARGET};

static gd_value clip_value_rule(gd_rule *r, gd_value u)
{
    gd_value limit = gd_rule_setting(r, "value");
    return gd_rule_clamp(r, u, gd_rule_neg(r, limit), limit);
}

GD_LINK(clipping, clip_value,
    .summary = "clips the elements of the update",
    .formula = "max(-value, min(value, u))",
    .example = "clip_value(1) | adam | lr(0.001)",
    GD_FIELDS(fields),
    .rule = clip_value_rule);
