/* Polyak's step size: a = alpha (f - f_star) / <u, g>, at most max before alpha (Polyak 1987).
 *
 * Without f_star it is guessed as the lowest loss so far less y, where y shrinks by y_decay every step.  With use_grad
 * false <u, u> divides instead.  If that product is not positive the update is multiplied by 0.
 *
 * State: f_best, y, and the step size from update to apply. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL_OR_OFF("f_star", 0, -INFINITY, INFINITY, "the minimum of the loss; none: the best so far less y"),
    GD_REAL("y", 1, 0, INFINITY, "distance of the estimated minimum below the best loss"),
    GD_REAL("y_decay", 1e-3, 0, 1, "how much y shrinks in a step"),
    GD_REAL_OR_NONE("max", 0, INFINITY, "largest step size"),
    GD_FLAG("use_grad", true, "divide by update times gradient; false: by update times update"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "factor of the step size"),
    GD_INNER("links that change the update before it is scaled"),
};

/* The minimum that the step aims at. */
static gd_status target(gd_link *link, double loss, double *out)
{
    *out = gd_link_real(link, "f_star", NULL);
    if (!isnan(*out)) return GD_OK;
    double best = fmin(gd_link_kept(link, "f_best", INFINITY), loss),
           y = gd_link_kept(link, "y", gd_link_real(link, "y", NULL));
    *out = best - y;
    gd_status status = gd_link_keep(link, "f_best", best);
    return status ? status : gd_link_keep(link, "y", y * (1 - gd_link_real(link, "y_decay", NULL)));
}

static gd_status polyak_update(const gd_transform *t)
{
    gd_link *link = t->link;
    double loss = gd_item(t->loss), aim = 0, product = 0;
    gd_status status = target(link, loss, &aim);
    if (!status)
        status = gd_list_dot(t->tensors, gd_link_flag(link, "use_grad") ? t->grads : t->tensors, t->count,
                             &product);
    double step = (loss - aim) / product, most = gd_link_real(link, "max", NULL);
    if (step > most) step = most;
    if (!isfinite(step) || !(product > 0)) step = 0;
    if (!status) status = gd_link_keep(link, "step_size", step * gd_link_real(link, "alpha", NULL));
    return status;
}

static gd_status polyak_apply(const gd_transform *t)
{
    return gd_transform_scale(t, gd_link_kept(t->link, "step_size", 1));
}

GD_LINK(step_size, polyak_step_size,
    .spread = GD_SPREAD_VECTOR,
    .summary = "the step that would reach the minimum of a linear model",
    .formula = "u alpha (f - f_star) / <u, g>",
    .paper = "Polyak, Introduction to optimization, 1987",
    .cost = "a dot product",
    .example = "polyak_step_size",
    GD_FIELDS(fields),
    .update_tensors = polyak_update,
    .apply_tensors = polyak_apply,
    .traits.whole_settings = true,
    .traits.reads_only = true,
    .traits.uses_grad = true,
    .traits.uses_loss = true);
