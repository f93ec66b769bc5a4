/* Resets random weights to their first values: with probability p_reinit per step, each weight with probability
 * p_weights, in the parameters themselves, before links that come after evaluate.  These values are the first parameters;
 * every store_every steps stored = beta stored + (1 - beta) p.  reset: the other links forget their state then.
 * State: the stored values. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("p_reinit", 0.01, 0, 1, "probability that a step does it"),
    GD_REAL("p_weights", 0.1, 0, 1, "probability of a weight then"),
    GD_INT_OR_NONE("store_every", 1, 1e15,
                   "steps from one look at the parameters to the next; none: the first ones stay"),
    GD_REAL("beta", 0, 0, 1, "weight of the stored values"),
    GD_FLAG("reset", false, "the other links forget their state"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

static const gd_slot slots[] = {{"stored", GD_SLOT_EXACT}};

static gd_status store(gd_link *link, gd_var *var, bool due)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *p = gd_var_params(var)[i], *now = gd_detach(p);
        bool known = gd_link_has_state(link, p, "stored");
        if (known && !due) continue;
        double beta = gd_link_real(link, "beta", p);
        if (known && beta > 0)
            now = gd_add(gd_mul_scalar(gd_link_state(link, p, "stored"), beta), gd_mul_scalar(now, 1 - beta));
        status = now ? gd_link_set_state(link, p, "stored", now) : gd_error(gd_var_ctx(var));
    }
    return status;
}

/* stored where the draw is below p_weights, p elsewhere. */
static gd_status put_back(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_tensor **mixed = gd_link_scratch(link, count);
    if (!mixed) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++) {
        gd_tensor *p = gd_var_params(var)[i], *draw = gd_link_random(link, GD_RANDOM_UNIFORM, p);
        gd_tensor *limit = draw ? gd_full_like(draw, gd_link_real(link, "p_weights", p)) : NULL;
        gd_tensor *first = gd_drop_names(gd_link_state(link, p, "stored"));
        mixed[i] = limit ? gd_where(gd_lt(draw, limit), first, gd_drop_names(gd_detach(p))) : NULL;
        if (!mixed[i]) return gd_error(gd_var_ctx(var));
    }
    return gd_var_restore_params(var, mixed);
}

/* Values at the parameters before are dropped if there is a closure to evaluate them again. */
static gd_status forget(gd_var *var)
{
    if (!gd_var_has_closure(var)) return GD_OK;
    gd_var_set_loss(var, NULL);
    gd_var_set_loss_approx(var, NULL);
    return gd_var_set_grad(var, NULL);
}

static gd_status random_reinitialize_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    double steps = gd_link_kept(link, "steps", 0);
    bool due = !gd_link_is_none(link, "store_every") && steps > 0 &&
               fmod(steps, gd_link_real(link, "store_every", NULL)) == 0;
    gd_no_grad_begin(ctx);
    gd_status status = gd_var_flush(var);
    if (!status) status = store(link, var, due);
    gd_tensor *one = status ? NULL : gd_link_random(link, GD_RANDOM_UNIFORM, gd_scalar(ctx, GD_F64, 0));
    if (!status && !one) status = gd_error(ctx);
    if (!status && gd_item(one) < gd_link_real(link, "p_reinit", NULL)) {
        status = put_back(link, var);
        if (!status) status = forget(var);
        if (!status && gd_link_flag(link, "reset")) gd_link_reset_others(link);
    }
    gd_no_grad_end(ctx);
    return status ? status : gd_link_keep(link, "steps", steps + 1);
}

GD_LINK(misc, random_reinitialize,
    .spread = GD_SPREAD_WHOLE,
    .summary = "now and then some weights go back to what they were at first",
    .formula = "with probability p_reinit: p = stored with probability p_weights, element by element",
    .cost = "a copy of the parameters",
    .example = "random_reinitialize | adam | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = random_reinitialize_step,
    .traits.acts_first = true);
