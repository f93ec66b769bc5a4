/* centralize: subtracts the mean from the update (Yong, Huang, Hua & Zhang, Gradient Centralization, ECCV 2020).
 *   u - mean(u)
 * dim none: one mean per tensor; "global": one of all tensors together; a number or list: along those axes, for each position
 * on the others.  With fewer than min_size elements per mean, the update stays as it is.
 * State: none.  Cost: a pass that reads the update, then fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    {.name = "dim",
     .kinds = GD_SET_NONE | GD_SET_REAL | GD_SET_LIST | GD_SET_STRING,
     .fallback = {.kind = GD_SET_NONE},
     .low = -GD_MAX_DIMS,
     .high = GD_MAX_DIMS - 1,
     .integer = true,
     .choices = "global",
     .structural = true,
     .whole = true,
     .help = "axes that the mean is taken along; none: all of each tensor; \"global\": all tensors together"},
    GD_FLAG("inverse_dims", false, "take the mean along the axes that dim does not name"),
    GD_INT("min_size", 2, 0, INFINITY, "updates with fewer elements under the mean are left alone"),
    GD_TARGET};

static gd_value less_mean(gd_rule *r, gd_value u, gd_value sum, gd_value count)
{
    gd_value enough = gd_rule_ge(r, count, gd_rule_setting(r, "min_size"));
    return gd_rule_sub(r, u, gd_rule_where(r, enough, gd_rule_div(r, sum, count), gd_rule_const(r, 0)));
}

static gd_value centralize_rule(gd_rule *r, gd_value u)
{
    if (gd_rule_is(r, "dim", "global"))
        return less_mean(r, u, gd_rule_sum(r, u, GD_ALL), gd_rule_count(r, GD_ALL));
    unsigned axes = gd_rule_is_none(r, "dim") ? ~0u : gd_rule_axes(r, "dim", "inverse_dims");
    return less_mean(r, u, gd_rule_sum_along(r, u, axes), gd_rule_count_along(r, axes));
}

static bool along_axes(const gd_link *link)
{
    unsigned kind = gd_link_get(link, "dim", NULL)->kind;
    return kind != GD_SET_NONE && kind != GD_SET_STRING;
}

GD_LINK(clipping, centralize,
    .summary = "takes the mean off the update",
    .formula = "u - sum(u) / sum(1)",
    .paper = "Yong, Huang, Hua & Zhang, Gradient Centralization, ECCV 2020",
    .cost = "one more pass, for the means",
    GD_FIELDS(fields),
    .rule = centralize_rule,
    .along_axes = along_axes);
