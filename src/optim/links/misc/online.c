/* Online: makes links that compare with the previous step correct for mini-batches.  The objective of this step is also
 * evaluated at the previous parameters, the links are updated there, then here, and then applied; so differences of
 * gradients and losses come from one batch.  State: previous parameters. */
#include "gradus/link.h"

static const gd_field fields[] = {GD_CHILDREN("modules", "the links to run")};
static const gd_slot slots[] = {{"previous", false}};

typedef gd_status (*link_fn)(gd_link *, gd_var *);

static gd_status each_child(gd_link *link, gd_var *var, link_fn fn)
{
    gd_status status = GD_OK;
    for (int i = 0; i < gd_link_children(link) && !status && !gd_var_stopped(var); i++)
        status = fn(gd_link_child_at(link, i), var);
    return status;
}

/* Updates the children at the parameters of the step before, with this step's objective. */
static gd_status update_before(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *const *params = gd_var_params(var);
    gd_tensor **now = gd_link_scratch(link, count);
    gd_status status = now ? gd_var_save_params(var, now) : gd_error(ctx);
    if (status) return status;
    for (int i = 0; i < count && !status; i++)
        status = gd_assign(params[i], gd_link_state(link, params[i], "previous"));
    gd_var *before = status ? NULL : gd_var_clone(var, false, NULL);
    if (before) {
        gd_var_set_loss(before, NULL);
        status = gd_var_set_grad(before, NULL);
        if (!status) status = gd_var_set_update(before, NULL);
        if (!status) status = each_child(link, before, gd_link_update);
        if (!status) status = gd_var_flush(before);
    } else if (!status)
        status = gd_error(ctx);
    gd_status back = gd_var_restore_params(var, now);
    for (int i = 0; i < count; i++) gd_release(now[i]);
    gd_var_free(before);
    return status ? status : back;
}

static gd_status online_step(gd_link *link, gd_var *var)
{
    gd_tensor *const *params = gd_var_params(var);
    int count = gd_var_count(var);
    bool first = count > 0 && !gd_link_has_state(link, params[0], "previous");
    gd_status status = GD_OK;
    if (!first) {
        gd_link_reset_for_online(link);
        status = update_before(link, var);
    }
    for (int i = 0; i < count && !status; i++)
        status = gd_link_set_state(link, params[i], "previous", params[i]);
    if (!status) status = each_child(link, var, gd_link_update);
    return status ? status : each_child(link, var, gd_link_apply);
}

GD_LINK(misc, online,
    .spread = GD_SPREAD_VECTOR,
    .summary = "evaluates at the previous parameters too, for mini-batches",
    .formula = "update at p_(t-1), update at p_t, apply",
    .cost = "one more evaluation per step, at the parameters of the step before",
    .example = "online(polak_ribiere, lr(0.001))",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = online_step,
    .traits.needs_closure = true);
