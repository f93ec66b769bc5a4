/* Several steps inside one: the update is their total displacement.
 *
 *   multistep    steps of a chain
 *   sequential   each of some links by itself, one after the other, and that several times: every link takes a step of its
 *                own, with its own evaluation, from the point that the previous link reached */
#include "gradus/link.h"

#include <string.h>

static const gd_field multistep_fields[] = {
    GD_CHILD_NEEDED("module", "the chain that steps"),
    GD_INT_NEEDED("steps", 1, 1e15, "steps it takes"),
};

static const gd_field sequential_fields[] = {
    GD_CHILD_NEEDED("modules", "the links, each of which steps by itself"),
    GD_INT("steps", 1, 1, 1e15, "rounds that they take"),
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

/* The displacement from start becomes the update; the parameters go back, because the optimizer subtracts all of it. */
static gd_status turn_back(gd_link *link, gd_var *var, gd_tensor *const *start)
{
    int count = gd_var_count(var);
    gd_tensor **distance = gd_link_scratch(link, count);
    if (!distance) return gd_error(gd_var_ctx(var));
    for (int i = 0; i < count; i++) {
        distance[i] = gd_sub(start[i], gd_var_params(var)[i]);
        if (!distance[i]) return gd_error(gd_var_ctx(var));
    }
    gd_status status = gd_var_restore_params(var, start);
    return status ? status : gd_var_set_update(var, distance);
}

/* links: that many children of the chain step in turn; 0: the chain does. */
static gd_status walk(gd_link *link, gd_var *var, gd_link *chain, int links)
{
    int64_t steps = (int64_t)gd_link_real(link, "steps", NULL) * (links ? links : 1);
    gd_var *walker = gd_var_clone(var, false, NULL);
    gd_status status = walker ? GD_OK : gd_error(gd_var_ctx(var));
    for (int64_t i = 0; i < steps && !status; i++) {
        status = inner_step(links ? gd_link_child_at(chain, (int)(i % links)) : chain, walker);
        if (!status && i == 0) gd_var_take_from(var, walker);
        if (!status && i < steps - 1) status = forget(walker);
    }
    gd_var_free(walker);
    return status;
}

static gd_status go(gd_link *link, gd_var *var, gd_link *chain, int links)
{
    int count = gd_var_count(var);
    gd_tensor **start = gd_link_scratch(link, count);
    gd_status status = start ? gd_var_save_params(var, start) : gd_error(gd_var_ctx(var));
    if (status) return status;
    status = walk(link, var, chain, links);
    if (!status) status = turn_back(link, var, start);
    for (int i = 0; i < count; i++) gd_release(start[i]);
    return status;
}

static gd_status multistep_step(gd_link *link, gd_var *var)
{
    return go(link, var, gd_link_child(link, "module"), 0);
}

static gd_status sequential_step(gd_link *link, gd_var *var)
{
    gd_link *modules = gd_link_child(link, "modules");
    bool several = !strcmp(gd_link_class_of(modules)->name, "chain");
    return go(link, var, modules, several ? gd_link_children(modules) : 0);
}

GD_LINK(misc, multistep,
    .spread = GD_SPREAD_VECTOR,
    .summary = "several steps of a chain as one",
    .formula = "p_0 - p_steps",
    .cost = "steps times the cost of its chain, with an evaluation each",
    .example = "multistep([heavy_ball | lr(0.01)], 3)",
    GD_FIELDS(multistep_fields),
    .step = multistep_step,
    .traits.needs_closure = true);

GD_LINK(misc, sequential,
    .spread = GD_SPREAD_VECTOR,
    .summary = "each link takes a step of its own, one after the other, as one step",
    .formula = "p_0 - p_n, p_(i+1) = p_i - link_i(gradient at p_i)",
    .cost = "steps times that of its links, with an evaluation for each link",
    .example = "sequential([lr(0.01) | signum | clip_value(0.01)], 2)",
    GD_FIELDS(sequential_fields),
    .step = sequential_step,
    .traits.needs_closure = true);
