/* Several steps of a chain inside one: the update is the distance they went. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_CHILD_NEEDED("module", "the chain that steps"),
    GD_INT_NEEDED("steps", 1, 1e15, "steps it takes"),
};

/* One step of the child from where the parameters are; moves them. */
static gd_status inner_step(gd_link *child, gd_var *var)
{
    gd_var *inner = gd_var_clone(var, false, NULL);
    if (!inner) return gd_error(gd_var_ctx(var));
    gd_status status = gd_var_set_update(inner, NULL);
    if (!status) status = gd_link_step(child, inner);
    if (!status) status = gd_var_finish(inner);
    gd_var_take_from(var, inner);
    gd_var_free(inner);
    return status;
}

/* Loss and gradient belong to the point where the outer step began. */
static gd_status forget(gd_var *var)
{
    gd_var_set_loss(var, NULL);
    return gd_var_set_grad(var, NULL);
}

static gd_status multistep_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_link *child = gd_link_child(link, "module");
    int count = gd_var_count(var), steps = (int)gd_link_real(link, "steps", NULL);
    gd_tensor **start = gd_link_scratch(link, count);
    gd_status status = start ? gd_var_save_params(var, start) : gd_error(ctx);
    if (status) return status;
    gd_var *walker = gd_var_clone(var, false, NULL);
    if (!walker) status = gd_error(ctx);
    for (int i = 0; i < steps && !status; i++) {
        status = inner_step(child, walker);
        if (!status && i == 0) gd_var_take_from(var, walker);
        if (!status && i < steps - 1) status = forget(walker);
    }
    /* back to the start: the optimizer subtracts the whole distance */
    if (!status) {
        for (int i = 0; i < count && !status; i++) {
            gd_tensor *end = gd_var_params(var)[i], *distance = gd_sub(start[i], end);
            status = distance ? gd_assign(end, start[i]) : gd_error(ctx);
            gd_release(start[i]);
            start[i] = distance;
        }
        if (!status) status = gd_var_set_update(var, start);
    } else {
        gd_status back = gd_var_restore_params(var, start);
        (void)back;
        for (int i = 0; i < count; i++) gd_release(start[i]);
    }
    gd_var_free(walker);
    return status;
}

const gd_link_class gd_link_multistep = {
    .name = "multistep",
    .family = "misc",
    .summary = "several steps of a chain as one",
    .formula = "p_0 - p_steps",
    .fields = fields,
    .field_count = 2,
    .step = multistep_step,
    .needs_closure = true,
};
