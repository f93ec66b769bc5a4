/* Barzilai-Borwein step sizes: the scalar that fits the last pair best as inverse Hessian.
 *
 *   long    s s / s y        short   s y / y y        geom    sqrt(s s / y y), their geometric mean
 *
 * If there is no pair yet, or the formula gives no positive number, the step size is alpha_0; geom-fallback takes it
 * wherever s y is not positive.
 *
 * bb_stab (Burdakov, Dai & Huang 2019) also holds the length of the step below delta; none: c times the shortest of the first
 * inf_iters steps that such a formula gave.  The very first step, whose size is alpha_0, is none of them: with the default of
 * 1e-7 it would bound all others by next to nothing.
 *
 * State: previous_params, previous_update; the step size from update to apply; for bb_stab watched and shortest. */
#include "gradus/link.h"

#include <math.h>

#define TYPE    GD_CHOICE("type", "geom", "long|short|geom|geom-fallback", "formula of the step size")
#define ALPHA_0 GD_REAL("alpha_0", 1e-7, 0, INFINITY, "first step size")
#define USE     GD_FLAG("use_grad", true, "y is the change of the gradient; false: of the update")
#define INNER   GD_INNER("links that change the update before it is scaled")

static const gd_field fields[] = {TYPE, ALPHA_0, USE, INNER};
static const gd_field stab_fields[] = {
    GD_REAL("c", 0.2, 0, INFINITY, "share of the shortest of inf_iters steps"),
    GD_REAL_OR_NONE("delta", 0, INFINITY, "longest step; none: c times the shortest of inf_iters"),
    TYPE,
    ALPHA_0,
    USE,
    GD_INT("inf_iters", 3, 1, 1e9, "steps after the first that delta is set from"),
    INNER,
};
static const gd_slot slots[] = {GD_CHANGE_SLOTS};

static double step_size_of(const gd_link *link, const gd_change *c)
{
    double step = NAN;
    if (gd_link_is(link, "type", "long"))
        step = c->ss / c->sy;
    else if (gd_link_is(link, "type", "short"))
        step = c->sy / c->yy;
    else if (c->sy > 0 || gd_link_is(link, "type", "geom"))
        step = sqrt(c->ss / c->yy);
    return c->first || !isfinite(step) || step <= 0 ? gd_link_real(link, "alpha_0", NULL) : step;
}

static gd_status bb_update(const gd_transform *t)
{
    gd_change c;
    gd_status status = gd_transform_change(t, gd_link_flag(t->link, "use_grad") ? t->grads : t->tensors, &c);
    return status ? status : gd_link_keep(t->link, "step_size", step_size_of(t->link, &c));
}

static gd_status bb_apply(const gd_transform *t)
{
    return gd_transform_scale(t, gd_link_kept(t->link, "step_size", 1));
}

/* Watches the lengths of the first steps. */
static gd_status stab_update(const gd_transform *t)
{
    gd_change c;
    gd_status status = gd_transform_change(t, gd_link_flag(t->link, "use_grad") ? t->grads : t->tensors, &c);
    double watched = gd_link_kept(t->link, "watched", 0),
           shortest = gd_link_kept(t->link, "shortest", INFINITY);
    if (!c.first && watched >= 1 && watched <= gd_link_real(t->link, "inf_iters", NULL) && c.ss > 0)
        shortest = fmin(shortest, sqrt(c.ss));
    if (!status) status = gd_link_keep(t->link, "shortest", shortest);
    if (!status) status = gd_link_keep(t->link, "watched", watched + !c.first);
    return status ? status : gd_link_keep(t->link, "step_size", step_size_of(t->link, &c));
}

static gd_status stab_apply(const gd_transform *t)
{
    gd_link *link = t->link;
    double step = gd_link_kept(link, "step_size", 0), size = 0, delta = gd_link_real(link, "delta", NULL);
    bool watching = gd_link_kept(link, "watched", 0) <= gd_link_real(link, "inf_iters", NULL) + 1;
    if (isnan(delta))
        delta = watching ? INFINITY
                         : gd_link_real(link, "c", NULL) * gd_link_kept(link, "shortest", INFINITY);
    gd_status status = gd_list_norm(t->tensors, t->count, 2, &size);
    double length = step * size;
    if (!status) status = gd_link_keep(link, "step_size", length > delta ? step * delta / length : step);
    return status ? status : bb_apply(t);
}

GD_LINK(step_size, barzilai_borwein,
    .spread = GD_SPREAD_VECTOR,
    .summary = "step size from the last change of parameters and gradient",
    .formula = "u sqrt(s s / y y)",
    .paper = "Barzilai & Borwein, Two-point step size gradient methods, 1988",
    .cost = "a few dot products; two vectors",
    .example = "barzilai_borwein | backtracking",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .update_tensors = bb_update,
    .apply_tensors = bb_apply,
    .traits.whole_settings = true,
    .traits.reads_only = true,
    .traits.uses_grad = true);

GD_LINK(step_size, bb_stab,
    .spread = GD_SPREAD_VECTOR,
    .summary = "Barzilai-Borwein with steps of bounded length",
    .formula = "a = sqrt(s s / y y);  u min(a, delta / |u|)",
    .paper = "Burdakov, Dai & Huang, Stabilized Barzilai-Borwein method, 2019",
    .cost = "a few dot products; two vectors",
    .example = "bb_stab | backtracking",
    GD_FIELDS(stab_fields),
    GD_SLOTS(slots),
    .update_tensors = stab_update,
    .apply_tensors = stab_apply,
    .traits.whole_settings = true,
    .traits.reads_only = true,
    .traits.uses_grad = true);
