/* Split: other chains for other parameters.  Those that the filter selects go through one chain, the rest through the other,
 * each as a step over its own parameters: a norm over all covers these alone, and a line search moves only these.
 * Without a chain the update stays as it is.
 *
 *     split("axes>=2", orthogonalize, adam) | lr(0.001)
 *
 * Chains of rules fuse with adjacent links, in one pass over all parameters, unless they reduce over all parameters.
 * A filter in a group's settings (--group 'head.*: filter="*"') applies to the parameters of the group. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_SELECTION("filter",
                 "the parameters of the first chain: a glob of names, axes>=2, numel<1000, axis=NAME, "
                 "label=AXIS.LABEL; not, and, or"),
    GD_CHILD("true", "the chain of those that match; none: unchanged"),
    GD_CHILD("false", "the chain of all others; none: unchanged"),
};

static int split_part(const gd_link *link, const gd_tensor *param)
{
    bool yes = gd_link_selects(link, "filter", param);
    if (!gd_link_child(link, yes ? "true" : "false")) return -1;
    return !yes && gd_link_child(link, "true") ? 1 : 0;
}

GD_LINK(misc, split,
    .spread = GD_SPREAD_TENSOR,
    .summary = "other chains for other parameters",
    .formula = "true(u) for parameters that the filter selects, false(u) for the others",
    .cost = "that of each chain for its own parameters",
    .example = "split(\"axes>=2\", adam, lion) | lr(0.001)",
    GD_FIELDS(fields),
    .part = split_part,
    .traits.no_child_hessian = true);
