/* Stochastic variance reduction: gradients of batches corrected by what they were at a point whose full gradient is known
 * (Johnson & Zhang 2013).
 *
 *     g = g_b(x) - alpha (g_b(x0) - full),   the same for the loss with svrg_loss
 *
 * For accum_steps steps (none: svrg_steps) the parameters stay and gradients are added up: their mean is the full gradient of
 * x0; with the last of them the first of svrg_steps steps is taken.  reset_before_accum: the other links forget their state
 * before each such round but the first.  alpha may fall from 1 to 0 by a schedule (Yin et al. 2023).  State: x0, its full gradient or
 * the sum so far.  Cost: two evaluations per step except for those that gather. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_INT_NEEDED("svrg_steps", 1, 1e15, "steps that a full gradient serves"),
    GD_INT_OR_NONE("accum_steps", 1, 1e15, "batches that make a full gradient; none: svrg_steps"),
    GD_FLAG("reset_before_accum", true,
            "the other links forget their state before a full gradient is gathered again"),
    GD_FLAG("svrg_loss", true, "the loss is corrected too"),
    GD_REAL("alpha", 1, -INFINITY, INFINITY, "weight of the correction"),
};

static const gd_slot slots[] = {{"full_grad", 0}, {"start", GD_SLOT_EXACT}};

/* ---- gathering ---- */

static gd_status gather_full(gd_link *link, gd_var *var)
{
    gd_tensor *const *grad = gd_var_grad(var);
    if (!grad) return gd_error(gd_var_ctx(var));
    double gathered = gd_link_kept(link, "gathered", 0);
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *key = gd_var_params(var)[i], *g = gd_detach(grad[i]);
        if (gathered > 0) g = gd_add(g, gd_link_state(link, key, "full_grad"));
        status = g ? gd_link_set_state(link, key, "full_grad", g) : gd_error(gd_var_ctx(var));
        if (!status && gathered == 0) status = gd_link_set_state(link, key, "start", key);
    }
    double loss = gd_var_loss_value(var, true) + gd_link_kept(link, "loss", 0);
    if (!status) status = gd_error(gd_var_ctx(var));
    if (!status) status = gd_link_keep(link, "loss", loss);
    return status ? status : gd_link_keep(link, "gathered", gathered + 1);
}

/* The sum becomes a mean. */
static gd_status finish(gd_link *link, gd_var *var, double batches)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *key = gd_var_params(var)[i];
        gd_tensor *mean = gd_mul_scalar(gd_link_state(link, key, "full_grad"), 1 / batches);
        status = mean ? gd_link_set_state(link, key, "full_grad", mean) : gd_error(gd_var_ctx(var));
    }
    if (!status) status = gd_link_keep(link, "loss", gd_link_kept(link, "loss", 0) / batches);
    return status ? status : gd_link_keep(link, "left", gd_link_real(link, "svrg_steps", NULL));
}

/* ---- corrected evaluations ---- */

/* a - alpha (b - c) for every gradient; b NULL: a itself, the batch at x0. */
static gd_status corrected(gd_link *link, gd_var *var, gd_tensor *const *a, gd_tensor *const *b,
                           gd_tensor **out)
{
    for (int i = 0; i < gd_var_count(var); i++) {
        gd_tensor *key = gd_var_params(var)[i], *full = gd_link_state(link, key, "full_grad");
        gd_tensor *off = gd_sub(gd_detach(b[i]), full);
        out[i] = gd_sub(gd_detach(a[i]), gd_mul_scalar(off, gd_link_real(link, "alpha", key)));
        if (!out[i]) return gd_error(gd_var_ctx(var));
    }
    return GD_OK;
}

/* From here to x0. */
static gd_status way_back(gd_link *link, gd_var *var, gd_tensor **out)
{
    for (int i = 0; i < gd_var_count(var); i++) {
        gd_tensor *key = gd_var_params(var)[i];
        if (!(out[i] = gd_sub(gd_link_state(link, key, "start"), gd_detach(key))))
            return gd_error(gd_var_ctx(var));
    }
    return GD_OK;
}

static gd_status correct_loss(gd_link *link, gd_var *var, gd_tensor *there, gd_tensor **loss)
{
    if (!gd_link_flag(link, "svrg_loss")) return GD_OK;
    double off = gd_item(there) - gd_link_kept(link, "loss", 0);
    *loss = gd_add_scalar(*loss, -gd_link_real(link, "alpha", NULL) * off);
    return *loss ? GD_OK : gd_error(gd_var_ctx(var));
}

static gd_status reduced(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_link *link = user;
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *there = NULL, **here = gd_link_scratch(link, 3 * count);
    if (!here) return gd_error(ctx);
    gd_tensor **at_start = here + count, **way = at_start + count;
    gd_status status = gd_var_inner_evaluate(var, loss, backward ? here : NULL);
    if (!status && !backward && !gd_link_flag(link, "svrg_loss")) return GD_OK;
    gd_no_grad_begin(ctx);
    if (!status) status = way_back(link, var, way);
    if (!status) status = gd_var_inner_evaluate_at(var, 1, way, &there, backward ? at_start : NULL);
    if (!status) status = correct_loss(link, var, there, loss);
    if (!status && backward) status = corrected(link, var, here, at_start, grads);
    gd_no_grad_end(ctx);
    return status;
}

/* ---- the step ---- */

/* The step at which the full gradient is complete: the batch at hand is the one at x0, and needs no evaluation. */
static gd_status first_of_round(gd_link *link, gd_var *var)
{
    gd_tensor **g = gd_link_scratch(link, gd_var_count(var));
    gd_tensor *const *grad = gd_var_grad(var);
    if (!g || !grad) return gd_error(gd_var_ctx(var));
    gd_status status = corrected(link, var, grad, grad, g);
    return status ? status : gd_var_set_grad(var, g);
}

static gd_status take_step(gd_link *link, gd_var *var, bool first)
{
    double left = gd_link_kept(link, "left", 0) - 1;
    gd_status status = gd_var_wrap_closure(var, reduced, link);
    if (!status && first) status = first_of_round(link, var);
    if (!status) status = gd_link_keep(link, "left", left);
    if (!status && left <= 0) status = gd_link_keep(link, "gathered", 0);
    return status      ? status
           : left <= 0 ? gd_link_keep(link, "rounds", gd_link_kept(link, "rounds", 0) + 1)
                       : GD_OK;
}

static gd_status svrg_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    if (gd_link_kept(link, "left", 0) > 0) return take_step(link, var, false);
    double batches = gd_link_real(link, gd_link_is_none(link, "accum_steps") ? "svrg_steps" : "accum_steps",
                                  NULL);
    bool begins = gd_link_kept(link, "gathered", 0) == 0;
    if (begins && gd_link_kept(link, "rounds", 0) > 0 && gd_link_flag(link, "reset_before_accum"))
        gd_link_reset_others(link);
    gd_status status = begins ? gd_link_keep(link, "loss", 0) : GD_OK;
    gd_no_grad_begin(ctx);
    if (!status) status = gather_full(link, var);
    bool complete = !status && gd_link_kept(link, "gathered", 0) >= batches;
    if (complete) status = finish(link, var, batches);
    if (complete && !status) status = take_step(link, var, true);
    gd_no_grad_end(ctx);
    if (!status && !complete) gd_var_hold(var);
    return status;
}

GD_LINK(variance_reduction, svrg,
    .spread = GD_SPREAD_VECTOR,
    .summary = "gradients of batches corrected by a full gradient near by",
    .formula = "g = g_b(p) - alpha (g_b(p_0) - G)",
    .paper =
        "Johnson & Zhang, Accelerating stochastic gradient descent using predictive variance reduction, NeurIPS 2013",
    .cost = "two evaluations with gradient per step; one for each that gathers the full gradient",
    .example = "svrg(3) | lr(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = svrg_step,
    .traits.needs_closure = true,
    .traits.restores_params = true);
