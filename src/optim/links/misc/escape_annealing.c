/* Moves from a point where nothing changes any more to a lower one near by: after n_tol steps in a row in which no element changed by more
 * than tol, points p + U(-r, r) are tried, r growing to max_region over max_iter tries, and the first with a lower loss is taken.
 * That step ends there, and the count restarts, also where none was lower.  State: the parameters before.  Cost: a value for each try. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("max_region", 1, 0, INFINITY, "largest distance of an element"),
    GD_INT("max_iter", 1000, 1, 1e9, "tries"),
    GD_REAL("tol", 1e-6, 0, INFINITY, "largest change of an element that is none"),
    GD_INT("n_tol", 10, 1, 1e15, "steps without a change"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

static const gd_slot slots[] = {{"previous", GD_SLOT_EXACT}};

/* The largest change since the last step; infinite at the first. */
static gd_status change_of(gd_link *link, gd_var *var, double *most)
{
    gd_status status = GD_OK;
    *most = 0;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *p = gd_var_params(var)[i];
        if (!gd_numel(p)) continue;
        if (!gd_link_has_state(link, p, "previous"))
            *most = INFINITY;
        else {
            gd_tensor *d = gd_sub(gd_detach(p), gd_link_state(link, p, "previous"));
            *most = fmax(*most, gd_item(gd_norm(gd_drop_names(d), INFINITY, NULL, false)));
        }
        status = gd_error(gd_var_ctx(var));
        if (!status) status = gd_link_set_state(link, p, "previous", p);
    }
    return status;
}

/* One try; if its loss is lower, the parameters stay there. */
static gd_status try_at(gd_link *link, gd_var *var, double r, double loss, bool *lower)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    double there = NAN;
    gd_scope_begin(ctx);
    gd_tensor **z = gd_link_scratch(link, count);
    gd_status status = z ? gd_link_random_list(link, "uniform", gd_var_params(var), count, z) : gd_error(ctx);
    if (!status) status = gd_var_evaluate_moved(var, r, z, &there, NULL);
    *lower = !status && there < loss;
    if (*lower) status = gd_var_move(var, r, z);
    gd_scope_end(ctx);
    return status;
}

static gd_status escape(gd_link *link, gd_var *var)
{
    double tries = gd_link_real(link, "max_iter", NULL), region = gd_link_real(link, "max_region", NULL);
    double loss = gd_var_loss_value(var, false);
    gd_status status = gd_error(gd_var_ctx(var));
    bool lower = false;
    for (double i = 1; i <= tries && !status && !lower; i++)
        status = try_at(link, var, region * i / tries, loss, &lower);
    if (status || !lower) return status;
    gd_var_stop(var);
    gd_var_skip_update(var);
    return GD_OK;
}

static gd_status escape_annealing_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double most = 0, still = gd_link_kept(link, "still", 0);
    gd_no_grad_begin(ctx);
    gd_status status = change_of(link, var, &most);
    still = most <= gd_link_real(link, "tol", NULL) ? still + 1 : 0;
    bool stuck = still >= gd_link_real(link, "n_tol", NULL);
    if (!status && stuck) status = escape(link, var);
    gd_no_grad_end(ctx);
    return status ? status : gd_link_keep(link, "still", stuck ? 0 : still);
}

GD_LINK(misc, escape_annealing,
    .spread = GD_SPREAD_VECTOR,
    .summary = "random tries near by where nothing moves any more",
    .formula =
        "after n_tol steps with max|p - p'| <= tol: the first p + U(-r, r) with a lower loss, r = max_region i / max_iter",
    .cost = "up to max_iter evaluations of the value where nothing moves; a copy of the parameters",
    .example = "escape_annealing | adam | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = escape_annealing_step,
    .traits.needs_closure = true);
