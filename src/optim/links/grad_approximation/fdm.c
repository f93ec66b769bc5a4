/* Gradients by finite differences, one element after the other: for objectives without derivatives.
 * Cost: one to four evaluations an element, and one for the loss.  Parameters are put back bit for bit. */
#include "gradus/autograd.h"
#include "gradus/estimate.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "distance of the points"),
    GD_CHOICE("formula", "central", GD_DIFFERENCE_NAMES, "which points, and how many"),
    GD_ESTIMATE_TARGET,
};

/* One element of x, as a tensor on the same memory. */
static gd_tensor *element(gd_tensor *x, int64_t i)
{
    gd_tensor *flat = gd_reshape(gd_drop_names(gd_detach(x)), 1, (int64_t[]){gd_numel(x)});
    return gd_slice(flat, "0", i, i + 1, 1);
}

/* d f / d x[i]; x[i] is back at its value afterwards, also on failure. */
static gd_status derivative(gd_var *var, const gd_difference *d, double h, double f0, gd_tensor *one,
                            double *out)
{
    /* a copy, so that going back needs no memory */
    gd_tensor *kept = gd_copy(one);
    double x = kept ? gd_item(kept) : NAN;
    gd_status status = gd_error(gd_var_ctx(var));
    *out = 0;
    if (status) return status;
    for (int k = 0; k < d->points && !status; k++) {
        double f = f0;
        if (d->at[k] != 0) {
            status = gd_fill(one, x + d->at[k] * h);
            if (!status) status = gd_var_inner_value(var, &f);
        }
        *out += d->weight[k] * f / h;
    }
    gd_status back = gd_assign(one, kept);
    return status ? status : back;
}

static gd_status estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    gd_ctx *ctx = gd_var_ctx(var);
    const gd_difference *d = gd_link_difference(link);
    double h = gd_link_real(link, "h", NULL), f0 = NAN;
    /* first, also where the formula does without: the loss of a step is that of its first evaluation */
    gd_status status = gd_var_inner_evaluate(var, loss, NULL);
    if (!status) f0 = gd_item(*loss);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *x = gd_var_params(var)[i];
        if (!(grads[i] = gd_zeros_like(x))) status = gd_error(ctx);
        for (int64_t k = 0; k < gd_numel(x) && !status; k++) {
            gd_scope_begin(ctx);
            double slope = 0;
            gd_tensor *one = element(x, k), *to = element(grads[i], k);
            status = one && to ? derivative(var, d, h, f0, one, &slope) : gd_error(ctx);
            if (!status) status = gd_fill(to, slope);
            gd_scope_end(ctx);
        }
    }
    return status;
}

static gd_status fdm_step(gd_link *link, gd_var *var) { return gd_estimate_step(link, var, estimate); }

const gd_link_class gd_link_fdm = {
    .spread = GD_SPREAD_WHOLE,
    .name = "fdm",
    .family = "grad_approximation",
    .summary = "gradients by finite differences",
    .formula = "g_i = (f(p + h e_i) - f(p - h e_i)) / 2 h",
    .cost =
        "2 evaluations an element and step (1 and one more for forward and backward formulas), no gradients",
    .example = "fdm | lbfgs | strong_wolfe",
    GD_FIELDS(fields),
    .step = fdm_step,
    .needs_closure = true,
    .restores_params = true,
};
