/* The part of the update that is orthogonal to the parameters, all of them as one vector, at the length it had before
 * (Prieto et al. 2025).  No state.  Passes: one for the products, with renormalize one more for the norm of what is left. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("eps", 1e-8, 0, INFINITY, "added to the denominator"),
    GD_FLAG("renormalize", true, "scale to the norm of the update"),
    GD_TARGET,
};

static gd_value ortho_grad_rule(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r), eps = gd_rule_setting(r, "eps");
    gd_value pu = gd_rule_sum(r, gd_rule_mul(r, p, u), GD_ALL),
             pp = gd_rule_sum(r, gd_rule_square(r, p), GD_ALL);
    gd_value along = gd_rule_div(r, pu, gd_rule_add(r, pp, eps));
    gd_value rest = gd_rule_sub(r, u, gd_rule_mul(r, along, p));
    if (!gd_rule_flag(r, "renormalize")) return rest;
    gd_value before = gd_rule_norm(r, u, 2, GD_ALL), after = gd_rule_norm(r, rest, 2, GD_ALL);
    return gd_rule_mul(r, rest, gd_rule_div(r, before, gd_rule_add(r, after, eps)));
}

GD_LINK(adaptive, ortho_grad,
    .summary = "removes the part of the update parallel to the parameters",
    .formula = "x = u - sum(p u) / (sum(p^2) + eps) p;  x norm(u) / (norm(x) + eps)",
    .paper = "Prieto, Barsbey, Mediano & Birdal, Grokking at the edge of numerical stability, ICLR 2025",
    .cost = "two more passes, for the sums and the norm",
    .example = "ortho_grad | adam | lr(0.001)",
    GD_FIELDS(fields),
    .rule = ortho_grad_rule);
