/* Gradient accumulation: sums (or averages) n updates, then passes the result on; until then nothing moves. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_INT_NEEDED("n", 1, 1e15, "updates to gather"),
    GD_FLAG("mean", true, "divide by n"),
    GD_FLAG("stop", true, "skip the links after it until n are gathered"),
};

static const gd_slot slots[] = {{"accumulator", false}};

/* The accumulator of every parameter plus its update. */
static gd_status gather(gd_link *link, gd_var *var, gd_tensor *const *update)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_var_count(var) && !status; i++) {
        gd_tensor *sum = gd_link_state(link, gd_var_params(var)[i], "accumulator");
        status = sum ? gd_add_into(sum, update[i], 1) : gd_error(gd_var_ctx(var));
    }
    return status;
}

/* The accumulated updates become the update, and the accumulators are reset. */
static gd_status let_through(gd_link *link, gd_var *var, double scale)
{
    gd_status status = GD_OK;
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    gd_tensor **sums = gd_link_scratch(link, count);
    if (!sums) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count && !status; i++) {
        sums[i] = gd_mul_scalar(gd_link_state(link, params[i], "accumulator"), scale);
        if (!sums[i]) status = gd_error(gd_var_ctx(var));
    }
    if (!status) status = gd_var_set_update(var, sums);
    for (int i = 0; i < count && !status; i++)
        status = gd_fill(gd_link_state(link, params[i], "accumulator"), 0);
    return status;
}

static gd_status accumulation_step(gd_link *link, gd_var *var)
{
    gd_tensor *const *update = gd_var_read_update(var);
    double *gathered = gd_link_global(link, "gathered", 0);
    if (!update || !gathered) return gd_error(gd_var_ctx(var));
    double n = gd_link_real(link, "n", NULL);
    gd_status status = gather(link, var, update);
    if (status) return status;
    *gathered += 1;
    if (*gathered >= n) {
        status = let_through(link, var, gd_link_flag(link, "mean") ? 1 / n : 1);
        if (!status) *gathered = 0;
        return status;
    }
    if (gd_link_flag(link, "stop")) gd_var_hold(var);
    return GD_OK;
}

GD_LINK(misc, gradient_accumulation,
    .spread = GD_SPREAD_VECTOR,
    .summary = "gathers n updates before one is let through",
    .formula = "every n-th step: (u_1 + ... + u_n) / n",
    .cost = "one pass; the links after it run every n-th step",
    .example = "gradient_accumulation(4) | adam | lr(0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = accumulation_step);
