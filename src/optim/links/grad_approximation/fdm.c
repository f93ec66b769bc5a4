/* Gradients by finite differences, one element after the other: for objectives without derivatives.
 *
 * The distance is, by the dtype of the parameter, where rounding of the loss and the error of the formula are alike (Dennis &
 * Schnabel 1996, 5.6): eps^(1 / (order + 1)) max(|x|, typical), so sqrt(eps) for forward and cbrt(eps) for central differences,
 * as a power of 2, that x + h is what was meant.  Inside bounds no point lies outside: where the formula would need one its
 * mirror image or a one-sided formula of the same order is taken, between near bounds with a smaller distance.
 *
 * Cost: one to four evaluations per element, and one for the loss.  Parameters are put back bit for bit. */
#include "gradus/autograd.h"
#include "gradus/link/estimate.h"
#include "gradus/link/list.h"

#include <math.h>
#include <stdio.h>

static const gd_field fields[] = {
    GD_REAL_OR_NONE("h", 1e-300, INFINITY,
                    "distance of the points; none: by the size of each element and the dtype"),
    GD_CHOICE("formula", "central", GD_DIFFERENCE_NAMES, "which points, and how many"),
    GD_ESTIMATE_TARGET,
    GD_REAL("typical", 1, 1e-300, INFINITY, "with h none: elements below it count as of this size"),
};

/* One element of x, the i-th in the order of its axes, as a tensor on the same memory, however that lies. */
static gd_tensor *element(gd_tensor *x, int64_t i)
{
    gd_tensor *one = gd_drop_names(gd_detach(x));
    for (int axis = gd_ndim(x) - 1; axis >= 0 && one; axis--) {
        int64_t size = gd_size(x, axis);
        char name[12];
        snprintf(name, sizeof name, "%d", axis);
        one = gd_index(one, name, i % size);
        i /= size;
    }
    return one;
}

/* ---- which points ---- */

/* Where an element is, and where it may be. */
typedef struct range {
    double x, low, high;
} range;

static bool fits(const gd_difference *d, double h, const range *r)
{
    for (int k = 0; k < d->points; k++)
        if (r->x + d->at[k] * h < r->low || r->x + d->at[k] * h > r->high) return false;
    return true;
}

/* The formula and the distance, below 0 for the other way round, that stay inside; a distance of 0: there is no room. */
static const gd_difference *inside(const gd_difference *d, const range *r, double *h)
{
    if (fits(d, *h, r)) return d;
    if (fits(d, -*h, r)) {
        *h = -*h;
        return d;
    }
    const gd_difference *one = d->one_sided;
    double reach = 0;
    for (int k = 0; k < one->points; k++) reach = fabs(one->at[k]) > fabs(reach) ? one->at[k] : reach;
    double above = r->high - r->x, below = r->x - r->low, room = fmax(above, below) / fabs(reach);
    *h = copysign(fmin(*h, room), above >= below ? reach : -reach);
    return one;
}

static double distance(const gd_link *link, const gd_difference *d, const gd_tensor *x, double at)
{
    if (!gd_link_is_none(link, "h")) return gd_link_real(link, "h", NULL);
    double size = fmax(isfinite(at) ? fabs(at) : 0, gd_link_real(link, "typical", NULL));
    return exp2(round(log2(pow(gd_vector_epsilon(x), 1.0 / (d->order + 1)) * size)));
}

/* ---- derivatives ---- */

/* d f / d x[i]; x[i] is back at its value afterwards, also on failure. */
static gd_status derivative(gd_var *var, const gd_difference *d, double h, const range *r, double f0,
                            gd_tensor *one, double *out)
{
    /* a copy, so that going back needs no memory */
    gd_tensor *kept = gd_copy(one);
    gd_status status = gd_error(gd_var_ctx(var));
    *out = 0;
    if (status || h == 0) return status;
    for (int k = 0; k < d->points && !status; k++) {
        double f = f0;
        if (d->at[k] != 0) {
            double at = r->x + d->at[k] * h;
            status = gd_fill(one, at < r->low ? r->low : at > r->high ? r->high : at);
            if (!status) status = gd_var_inner_value(var, &f);
        }
        *out += d->weight[k] * f / h;
    }
    gd_status back = gd_assign(one, kept);
    return status ? status : back;
}

/* Bounds are f64 on the CPU, of one element or of all. */
static double bound_at(const gd_tensor *bound, int64_t i, double none)
{
    if (!bound) return none;
    const double *numbers = gd_data(bound);
    return numbers[gd_numel(bound) > 1 ? i : 0];
}

static gd_status of_param(gd_link *link, gd_var *var, int index, double f0, gd_tensor *grad)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *x = gd_var_params(var)[index], *low = NULL, *high = NULL;
    gd_status status = GD_OK;
    (void)gd_var_bounds(var, index, &low, &high);
    for (int64_t k = 0; k < gd_numel(x) && !status; k++) {
        gd_scope_begin(ctx);
        double slope = 0;
        gd_tensor *one = element(x, k), *to = element(grad, k);
        range r = {one ? gd_item(one) : NAN, bound_at(low, k, -INFINITY), bound_at(high, k, INFINITY)};
        status = gd_error(ctx);
        if (!status) {
            const gd_difference *d = gd_link_difference(link);
            double h = distance(link, d, x, r.x);
            d = inside(d, &r, &h);
            status = derivative(var, d, h, &r, f0, one, &slope);
        }
        if (!status) status = gd_fill(to, slope);
        gd_scope_end(ctx);
    }
    return status;
}

static gd_status estimate(gd_link *link, gd_var *var, gd_tensor **loss, gd_tensor **grads)
{
    double f0 = NAN;
    /* first, also where the formula does without: the loss of a step is that of its first evaluation */
    gd_status status = gd_var_inner_evaluate(var, loss, NULL);
    if (!status) f0 = gd_item(*loss);
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        grads[i] = gd_zeros_like(gd_var_params(var)[i]);
        status = grads[i] ? of_param(link, var, i, f0, grads[i]) : gd_error(gd_var_ctx(var));
    }
    return status;
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
