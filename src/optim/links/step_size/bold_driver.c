/* Bold driver: a step size that grows while the loss falls and drops when it does not (Battiti 1989).  With f the loss of this
 * step and f' that of the step before,
 *
 *     a = a_init at first,   a nplus where f < f',   a nminus elsewhere (also where f is NaN)
 *
 * and then u a.  State: step_size, loss.  Element-wise, fuses. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_REAL("a_init", 1e-3, 0, INFINITY, "first step size"),
    GD_REAL("nplus", 1.1, 0, INFINITY, "factor of the step size where the loss fell"),
    GD_REAL("nminus", 0.1, 0, INFINITY, "factor of the step size elsewhere"),
    GD_INNER("links that change the update before it is scaled"),
};

static const char *const scalars[] = {"step_size", "loss"};

static gd_value bold_rule(gd_rule *r, gd_value u)
{
    gd_value loss = gd_rule_loss(r), first = gd_rule_eq(r, gd_rule_step(r), gd_rule_const(r, 1));
    gd_value fell = gd_rule_lt(r, loss, gd_rule_scalar(r, "loss"));
    gd_value factor = gd_rule_where(r, fell, gd_rule_setting(r, "nplus"), gd_rule_setting(r, "nminus"));
    gd_value a = gd_rule_where(r, first, gd_rule_setting(r, "a_init"),
                               gd_rule_mul(r, gd_rule_scalar(r, "step_size"), factor));
    gd_rule_set_scalar(r, "step_size", a);
    gd_rule_set_scalar(r, "loss", loss);
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    return gd_rule_mul(r, u, a);
}

GD_LINK(step_size, bold_driver,
    .summary = "step size that grows while the loss falls and drops when it does not",
    .formula = "a = a_init where t <= 1, a nplus where f < h, else a nminus;  h = f;  u a",
    .paper = "Battiti, Accelerated backpropagation learning: two optimization methods, 1989",
    .example = "bold_driver(1e-3, inner=[adam])",
    GD_FIELDS(fields),
    GD_SCALARS(scalars),
    .rule = bold_rule,
    .traits.uses_loss = true);
