/* agc: adaptive gradient clipping (Brock, De, Smith & Simonyan, High-performance large-scale image recognition without
 * normalization, ICML 2021).  For each unit i, a position on the axes in dim (the first: the output units of a linear or
 * convolution layer), with norms over all elements of the unit:
 *   u_i * min(1, clipping max(norm(p_i), eps) / norm(u_i))
 * Of a vector each element is a unit, and the norms are absolute values.
 * State: none.  Cost: a pass that reads update and parameter, then fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("clipping", 0.01, 0, INFINITY, "largest norm of the update of a unit, in norms of the unit"),
    GD_REAL("eps", 1e-3, 0, INFINITY, "least norm of a unit, so that units at zero can move"),
    {.name = "dim",
     .kinds = GD_SET_REAL | GD_SET_LIST,
     .fallback = {.kind = GD_SET_REAL, .real = 0},
     .low = -GD_MAX_DIMS,
     .high = GD_MAX_DIMS - 1,
     .integer = true,
     .structural = true,
     .help = "axes whose positions are the units"},
    GD_TARGET};

static gd_value agc_rule(gd_rule *r, gd_value u)
{
    unsigned units = gd_rule_axes(r, "dim", NULL);
    gd_value norm = gd_rule_norm_along(r, u, 2, ~units),
             own = gd_rule_norm_along(r, gd_rule_param(r), 2, ~units);
    gd_value most = gd_rule_mul(r, gd_rule_setting(r, "clipping"),
                                gd_rule_max(r, own, gd_rule_setting(r, "eps")));
    gd_value over = gd_rule_gt(r, norm, most);
    return gd_rule_mul(r, u, gd_rule_where(r, over, gd_rule_div(r, most, norm), gd_rule_const(r, 1)));
}

static bool along_axes(const gd_link *link) { return link != NULL; }

GD_LINK(clipping, agc,
    .summary =
        "scales the update of each unit (an element of a vector, a row of a matrix) down to a part of the unit's norm",
    .formula = "u min(1, clipping max(abs(p), eps) / abs(u))",
    .paper =
        "Brock, De, Smith & Simonyan, High-performance large-scale image recognition without normalization, "
        "ICML 2021",
    .cost = "one more pass, for the norms of units that are more than an element",
    GD_FIELDS(fields),
    .rule = agc_rule,
    .along_axes = along_axes);
