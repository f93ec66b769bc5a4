/* Links that forget the state of their children from time to time. */
#include "gradus/link.h"

#include <float.h>
#include <math.h>

static const gd_field every_fields[] = {
    GD_CHILD_NEEDED("modules", "the links to reset"),
    {.name = "steps",
     .kinds = GD_SET_REAL | GD_SET_STRING,
     .low = 1,
     .high = 1e15,
     .integer = true,
     .choices = "ndim",
     .help = "steps from reset to reset; ndim: the number of elements"},
};

static gd_status restart_every_step(gd_link *link, gd_var *var)
{
    const gd_setting *s = gd_link_get(link, "steps", NULL);
    double interval = s->real, steps = gd_link_kept(link, "steps", 0) + 1;
    if (s->kind == GD_SET_STRING) {
        interval = 0;
        for (int i = 0; i < gd_var_count(var); i++) interval += (double)gd_numel(gd_var_params(var)[i]);
    }
    gd_link *child = gd_link_child(link, "modules");
    if (steps >= interval) {
        gd_link_reset(child);
        steps = 0;
    }
    gd_status status = gd_link_step(child, var);
    return status ? status : gd_link_keep(link, "steps", steps);
}

GD_LINK(restarts, restart_every,
    .spread = GD_SPREAD_VECTOR,
    .summary = "resets its links every few steps",
    .formula = "state = 0 every `steps` steps",
    .cost = "that of its chain",
    .example = "restart_every(lbfgs, 20) | strong_wolfe",
    GD_FIELDS(every_fields),
    .step = restart_every_step);

/* ---- when nothing moves ---- */

static const gd_field stuck_fields[] = {
    GD_CHILD_NEEDED("modules", "the links to reset"),
    GD_REAL_OR_NONE(
        "tol", 0, INFINITY,
        "largest change of an element that is no progress; none: twice the smallest normal number"),
    GD_INT("n_tol", 10, 1, 1e15, "steps without progress in a row that make a reset"),
};

static const gd_slot stuck_slots[] = {{"previous", false}};

/* The largest change since the last step; parameters are kept for the next. */
static gd_status change_of(gd_link *link, gd_var *var, double *change)
{
    gd_tensor *const *params = gd_var_params(var);
    int count = gd_var_count(var);
    gd_tensor **previous = gd_link_scratch(link, count), **moved = gd_link_scratch(link, count);
    gd_status status = previous && moved ? GD_OK : gd_error(gd_var_ctx(var));
    bool known = true;
    for (int i = 0; i < count && !status; i++) {
        known = known && gd_link_has_state(link, params[i], "previous");
        previous[i] = gd_link_state(link, params[i], "previous");
        if (!previous[i]) status = gd_error(gd_var_ctx(var));
    }
    *change = INFINITY;
    if (!status && known) status = gd_list_combined(params, 1, previous, -1, count, moved);
    if (!status && known) status = gd_list_norm(moved, count, INFINITY, change);
    for (int i = 0; i < count && !status; i++)
        status = gd_link_set_state(link, params[i], "previous", params[i]);
    return status;
}

static double stuck_below(const gd_link *link, const gd_var *var)
{
    if (!gd_link_is_none(link, "tol")) return gd_link_real(link, "tol", NULL);
    bool wide = gd_var_count(var) && gd_tensor_dtype(gd_var_params(var)[0]) == GD_F64;
    return 2 * (wide ? DBL_MIN : FLT_MIN);
}

static gd_status stuck_step(gd_link *link, gd_var *var)
{
    gd_link *child = gd_link_child(link, "modules");
    double change;
    gd_status status = change_of(link, var, &change);
    if (status) return status;
    double still = change <= stuck_below(link, var) ? gd_link_kept(link, "still", 0) + 1 : 0;
    if (still >= gd_link_real(link, "n_tol", NULL)) {
        gd_link_reset(child);
        still = 0;
    }
    status = gd_link_step(child, var);
    return status ? status : gd_link_keep(link, "still", still);
}

GD_LINK(restarts, restart_on_stuck,
    .spread = GD_SPREAD_VECTOR,
    .summary = "resets its links when the parameters have not moved for some steps",
    .formula = "state = 0 after n_tol steps in a row with max|p_t - p_(t-1)| <= tol",
    .cost = "that of its chain, and a pass over the parameters of two steps",
    .example = "restart_on_stuck(bfgs, n_tol=3) | strong_wolfe",
    GD_FIELDS(stuck_fields),
    GD_SLOTS(stuck_slots),
    .step = stuck_step);

/* ---- for conjugate gradients ---- */

static const gd_field powell_fields[] = {
    GD_CHILD_NEEDED("modules", "the links to reset"),
    GD_REAL_OR_OFF("cond1", 0.2, 0, INFINITY,
                   "of gradients that are no longer orthogonal; none: not looked at"),
    GD_REAL_OR_OFF("cond2", 0.2, 0, INFINITY, "of a step that is no descent any more; none: not looked at"),
};

static const gd_slot powell_slots[] = {{"previous_grad", false}};

static const gd_field birgin_fields[] = {
    GD_CHILD_NEEDED("module", "the link to reset"),
    GD_REAL("cond", 1e-3, 0, 1, "least cosine between the update and the gradient"),
};

/* Birgin & Martinez 2001, (12): along the gradient where the direction is not clearly downhill. */
static gd_status birgin_step(gd_link *link, gd_var *var)
{
    gd_link *child = gd_link_child(link, "module");
    int count = gd_var_count(var);
    gd_status status = gd_link_step(child, var);
    gd_tensor *const *d = status ? NULL : gd_var_read_update(var), *const *g = d ? gd_var_grad(var) : NULL;
    if (status || !g) return status ? status : gd_error(gd_var_ctx(var));
    double dg = 0, dd = 0, gg = 0;
    status = gd_list_dot(d, g, count, &dg);
    if (!status) status = gd_list_norm(d, count, 2, &dd);
    if (!status) status = gd_list_norm(g, count, 2, &gg);
    if (status || dg >= gd_link_real(link, "cond", NULL) * dd * gg) return status;
    gd_link_reset(child);
    return gd_var_set_update(var, g);
}

GD_LINK(restarts, birgin_martinez_restart,
    .spread = GD_SPREAD_VECTOR,
    .summary = "resets a link, and takes the gradient, where its update is hardly downhill",
    .formula = "u where u.g >= cond |u| |g|, else g, and state = 0",
    .paper = "Birgin & Martinez 2001, A spectral conjugate gradient method for unconstrained optimization",
    .cost = "that of its chain, and three dot products",
    .example = "birgin_martinez_restart(fletcher_reeves) | strong_wolfe(c2=0.1)",
    GD_FIELDS(birgin_fields),
    .step = birgin_step);

/* Has the gradient turned less than a conjugate one would have?  It is kept for the next step. */
static gd_status lost_orthogonality(gd_link *link, gd_var *var, gd_tensor *const *g, double gg, bool *lost)
{
    gd_tensor *const *params = gd_var_params(var);
    int count = gd_var_count(var);
    gd_tensor **previous = gd_link_scratch(link, count);
    gd_status status = previous ? GD_OK : gd_error(gd_var_ctx(var));
    bool known = true;
    double dot = 0;
    for (int i = 0; i < count && !status; i++) {
        known = known && gd_link_has_state(link, params[i], "previous_grad");
        previous[i] = gd_link_state(link, params[i], "previous_grad");
        if (!previous[i]) status = gd_error(gd_var_ctx(var));
    }
    if (!status) status = gd_list_dot(previous, g, count, &dot);
    *lost = known && !gd_link_is_none(link, "cond1") && fabs(dot) >= gd_link_real(link, "cond1", NULL) * gg;
    for (int i = 0; i < count && !status; i++)
        status = gd_link_set_state(link, params[i], "previous_grad", g[i]);
    return status;
}

/* The step after the gradient was checked: g is kept, because the child may evaluate again and drop it. */
static gd_status powell_with(gd_link *link, gd_var *var, gd_tensor *const *g)
{
    gd_link *child = gd_link_child(link, "modules");
    int count = gd_var_count(var);
    double gg = 0, dg = 0, cond2 = gd_link_real(link, "cond2", NULL);
    bool lost = false;
    gd_status status = gd_list_dot(g, g, count, &gg);
    if (!status) status = lost_orthogonality(link, var, g, gg, &lost);
    if (status) return status;
    if (lost) gd_link_reset(child);
    status = gd_link_step(child, var);
    if (status || lost || gd_link_is_none(link, "cond2")) return status;
    gd_tensor *const *d = gd_var_read_update(var);
    status = d ? gd_list_dot(d, g, count, &dg) : gd_error(gd_var_ctx(var));
    if (status || (dg >= (1 - cond2) * gg && dg <= (1 + cond2) * gg)) return status;
    gd_link_reset(child);
    status = gd_var_set_update(var, g);
    return status ? status : gd_link_step(child, var);
}

/* Powell 1977, (3.2) and (3.3).  A reset link returns the gradient, or its result of a first step. */
static gd_status powell_step(gd_link *link, gd_var *var)
{
    gd_tensor *const *now = gd_var_grad(var);
    int count = gd_var_count(var);
    gd_tensor **g = now ? gd_link_scratch(link, count) : NULL;
    if (!g) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++) g[i] = gd_retain(now[i]);
    gd_status status = powell_with(link, var, g);
    for (int i = 0; i < count; i++) gd_release(g[i]);
    return status;
}

GD_LINK(restarts, powell_restart,
    .spread = GD_SPREAD_VECTOR,
    .summary = "resets its links when gradients are not orthogonal, or the update is not like the gradient",
    .formula = "state = 0 where |g_t.g_(t-1)| >= cond1 |g_t|^2, or u.g is not within (1 +- cond2) |g|^2",
    .paper = "Powell 1977, Restart procedures for the conjugate gradient method",
    .cost = "that of its chain, and three dot products",
    .example = "powell_restart(polak_ribiere) | strong_wolfe(c2=0.1)",
    GD_FIELDS(powell_fields),
    GD_SLOTS(powell_slots),
    .step = powell_step);
