/* Grafts between update, gradient and parameters: the norm of one on the direction of another (Agarwal et al. 2020).
 *
 *   graft_to_grad         direction of the update, norm of the gradient
 *   graft_grad_to_update  direction of the gradient, norm of the update
 *   graft_to_params       direction of the update, norm of the parameters, eps at least: parameters that begin at zero move
 *
 * Norms are of all tensors together, or of each with tensorwise.  The first two divide by eps at least; a direction that is
 * zero stays zero.  No state.  Two passes: the norms, then the rest. */
#include "gradus/link.h"

#define GRAFT_FIELDS(EPS, HELP)                                                               \
    GD_FLAG("tensorwise", false, "norms of each tensor; false: one over all"), GD_NORM_ORDER, \
        GD_REAL("eps", EPS, 0, INFINITY, HELP), GD_TARGET

static const gd_field fields[] = {GRAFT_FIELDS(1e-6, "least norm of the direction to divide by")};
static const gd_field params_fields[] = {GRAFT_FIELDS(1e-4, "least norm of the update")};

static gd_value norm_of(gd_rule *r, gd_value x)
{
    return gd_rule_norm(r, x, gd_rule_number(r, "ord"), gd_rule_flag(r, "tensorwise") ? GD_EACH : GD_ALL);
}

static gd_value grafted(gd_rule *r, gd_value direction, gd_value magnitude)
{
    gd_value own = gd_rule_max(r, norm_of(r, direction), gd_rule_setting(r, "eps"));
    return gd_rule_mul(r, direction, gd_rule_div(r, norm_of(r, magnitude), own));
}

static gd_value graft_to_grad_rule(gd_rule *r, gd_value u) { return grafted(r, u, gd_rule_grad(r)); }

static gd_value graft_grad_to_update_rule(gd_rule *r, gd_value u) { return grafted(r, gd_rule_grad(r), u); }

static gd_value graft_to_params_rule(gd_rule *r, gd_value u)
{
    gd_value own = norm_of(r, u), zero = gd_rule_const(r, 0);
    gd_value norm = gd_rule_max(r, norm_of(r, gd_rule_param(r)), gd_rule_setting(r, "eps"));
    gd_value factor = gd_rule_where(r, gd_rule_eq(r, own, zero), zero, gd_rule_div(r, norm, own));
    return gd_rule_mul(r, u, factor);
}

#define PAPER \
    "Agarwal, Anil, Hazan, Koren & Zhang, Disentangling adaptive gradient methods from learning rates, 2020"
#define GRAFT(NAME, FIELDS, SUMMARY, FORMULA, EXAMPLE)                  \
    GD_RULE_LINK(misc, NAME, SUMMARY, FORMULA, EXAMPLE, .paper = PAPER, \
                 .cost = "one more pass, for the norms", GD_FIELDS(FIELDS))

GRAFT(graft_to_grad, fields, "direction of the update, norm of the gradient", "u norm(g) / max(norm(u), eps)",
      "adam | graft_to_grad | lr(0.01)");
GRAFT(graft_grad_to_update, fields, "direction of the gradient, norm of the update",
      "g norm(u) / max(norm(g), eps)", "adam | graft_grad_to_update | lr(0.1)");
GRAFT(graft_to_params, params_fields, "direction of the update, norm of the parameters",
      "u max(norm(p), eps) / norm(u) where norm(u) > 0, else 0", "adam | graft_to_params | lr(0.01)");
