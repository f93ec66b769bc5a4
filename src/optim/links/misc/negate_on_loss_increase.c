/* Evaluates the loss at p - u and undoes an update that leads up: if the loss there is not below or equal to the one here (NaN is
 * not) the update becomes zero, or with backtrack its opposite.  An update that is not finite becomes
 * zero without an evaluation.  No state.  Cost: an evaluation of the loss. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_FLAG("backtrack", false, "go as far in the opposite direction; false: stay"),
};

typedef enum verdict { KEEP, STAY, TURN } verdict;

static bool is_finite(gd_tensor *const *list, int count)
{
    bool finite = true;
    for (int i = 0; i < count && finite; i++)
        finite = gd_item(gd_all(gd_isfinite(list[i]), NULL, false)) == 1;
    return finite;
}

static gd_status judge(gd_link *link, gd_var *var, verdict *out)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *const *update = gd_var_read_update(var);
    double here = update ? gd_var_loss_value(var, false) : NAN, there = NAN;
    bool finite = update && is_finite(update, gd_var_count(var));
    gd_status status = gd_error(ctx);
    if (!status && finite) status = gd_var_evaluate_moved(var, -1, update, &there, NULL);
    *out = there <= here ? KEEP : finite && gd_link_flag(link, "backtrack") ? TURN : STAY;
    return status;
}

static gd_status negate_step(gd_link *link, gd_var *var)
{
    verdict it = KEEP;
    gd_status status = judge(link, var, &it);
    gd_tensor *const *update = status || it == KEEP ? NULL : gd_var_update(var);
    if (!update) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < gd_var_count(var) && !status; i++)
        status = it == STAY ? gd_fill(update[i], 0) : gd_assign(update[i], gd_neg(update[i]));
    return status;
}

GD_LINK(misc, negate_on_loss_increase,
    .summary = "undoes updates that lead to a higher loss",
    .formula = "u where f(p - u) <= f(p), else 0",
    .cost = "an evaluation of the loss",
    .example = "adam | lr(0.1) | negate_on_loss_increase",
    GD_FIELDS(fields),
    .step = negate_step,
    .traits.needs_closure = true,
    .traits.restores_params = true,
    .spread = GD_SPREAD_VECTOR);
