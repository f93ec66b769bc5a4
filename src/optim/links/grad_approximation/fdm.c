/* Gradients by finite differences, one element after the other: for objectives without derivatives.  How far the points lie, and what
 * happens at bounds, is said at gd_difference_gradient, which objectives that give values alone need no link for.
 *
 * Cost: one to four evaluations per element, and one for the loss.  Parameters are put back bit for bit. */
#include "gradus/link/estimate.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL_OR_NONE("h", 1e-300, INFINITY,
                    "distance of the points; none: by the size of each element and the dtype"),
    GD_CHOICE("formula", "central", GD_DIFFERENCE_NAMES, "which points, and how many"),
    GD_ESTIMATE_TARGET,
    GD_REAL("typical", 1, 1e-300, INFINITY, "with h none: elements below it count as of this size"),
};

static gd_status estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    gd_difference_of of = {gd_link_difference(link), 0, gd_link_real(link, "typical", NULL), NAN,
                           gd_var_inner_value};
    if (!gd_link_is_none(link, "h")) of.h = gd_link_real(link, "h", NULL);
    /* first, even if the formula does not need it: the loss of a step is that of its first evaluation */
    gd_status status = gd_var_inner_evaluate(var, loss, NULL);
    if (!status) of.loss = gd_item(*loss);
    for (int i = 0; i < gd_var_count(var) && !status; i++)
        if (!(grads[i] = gd_zeros_like(gd_var_params(var)[i]))) status = gd_error(gd_var_ctx(var));
    return status ? status : gd_difference_gradient(var, &of, grads);
}

static gd_status fdm_step(gd_link *link, gd_var *var) { return gd_estimate_step(link, var, estimate); }

GD_LINK(grad_approximation, fdm,
    .spread = GD_SPREAD_WHOLE,
    .summary = "gradients by finite differences",
    .formula = "g_i = (f(p + h e_i) - f(p - h e_i)) / 2 h",
    .cost =
        "2 evaluations per element and step (1 and one more for forward and backward formulas), no gradients",
    .example = "fdm | lbfgs | strong_wolfe",
    GD_FIELDS(fields),
    .step = fdm_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
