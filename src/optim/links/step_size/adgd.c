/* AdGD: the step size from an estimate of the local curvature, without knowing any constant (Malitsky & Mishchenko 2020,
 * 2023).  With L = |y| / |s| of the last pair and theta the last ratio of step sizes:
 *
 *   variant 1   a = min(sqrt(1 + theta) a, 1 / (sqrt(2) L))
 *   variant 2   a = min(sqrt(2/3 + theta) a, a / sqrt(max(0, 2 a^2 L^2 - 1)))
 *
 * sqrt false uses the factors of the growth without their root.  State: previous_params, previous_update, alpha, theta. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT("variant", 2, 1, 2, "1 or 2"),
    GD_REAL("alpha_0", 1e-7, 0, INFINITY, "first step size"),
    GD_FLAG("sqrt", true, "take the root of the growth"),
    GD_FLAG("use_grad", true, "y is the change of the gradient; false: of the update"),
    GD_INNER("links that change the update before it is scaled"),
};
static const gd_slot slots[] = {GD_CHANGE_SLOTS};

static gd_status adgd_update(const gd_transform *t)
{
    gd_link *link = t->link;
    bool second = gd_link_real(link, "variant", NULL) == 2;
    double a = gd_link_kept(link, "alpha", gd_link_real(link, "alpha_0", NULL)),
           theta = gd_link_kept(link, "theta", second ? 1.0 / 3 : 0);
    gd_change c;
    gd_status status = gd_transform_change(t, gd_link_flag(t->link, "use_grad") ? t->grads : t->tensors, &c);
    if (status) return status;
    if (!c.first && a > 0 && c.ss > 0 && isfinite(c.ss) && isfinite(c.yy)) {
        double growth = (second ? 2.0 / 3 : 1) + theta, square = c.yy / c.ss, before = a;
        if (gd_link_flag(link, "sqrt")) growth = sqrt(growth);
        double limit = second ? before / sqrt(fmax(0, 2 * before * before * square - 1))
                              : 1 / sqrt(2 * square);
        a = fmin(growth * before, limit);
        theta = a / before;
    }
    status = gd_link_keep(link, "alpha", a);
    if (!status) status = gd_link_keep(link, "theta", theta);
    return status ? status : gd_link_keep(link, "step_size", a);
}

static gd_status adgd_apply(const gd_transform *t)
{
    return gd_transform_scale(t, gd_link_kept(t->link, "step_size", 1));
}

GD_LINK(step_size, adgd,
    .spread = GD_SPREAD_VECTOR,
    .summary = "step size from the local curvature, adaptive gradient descent",
    .formula =
        "L = |y| / |s|;  a = min(sqrt(2/3 + r) a, a / sqrt(max(0, 2 a^2 L^2 - 1)));  r = a / (a before);  u a",
    .paper = "Malitsky & Mishchenko, Adaptive proximal gradient method for convex optimization, 2023",
    .cost = "a few dot products; two vectors",
    .example = "adgd",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .update_tensors = adgd_update,
    .apply_tensors = adgd_apply,
    .traits.whole_settings = true,
    .traits.reads_only = true,
    .traits.uses_grad = true);
