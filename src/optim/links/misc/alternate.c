/* Chains that take turns:
 *
 *   alternate   `steps` steps with each, from the first to the last, and then the first again
 *   switch      the same, and then the last one forever
 *
 * steps is a number for all of them or a list with one for each. A waiting chain keeps its state and learns nothing.
 * State: whose turn it is, and for how many steps it has been. */
#include "gradus/link.h"

#define STEPS                                                                                     \
    .name = "steps", .kinds = GD_SET_REAL | GD_SET_LIST, .low = 1, .high = 1e15, .integer = true, \
    .help = "steps of a turn; a list: of the turn of each chain"

static const gd_field alternate_fields[] = {
    GD_CHILDREN("modules", "the chains that take turns"),
    {STEPS, .fallback = {.kind = GD_SET_REAL, .real = 1}},
};
static const gd_field switch_fields[] = {
    GD_CHILDREN("modules", "the chains, one after the other"),
    {STEPS},
};

static gd_status check_turns(gd_link *link)
{
    const gd_setting *steps = gd_link_get(link, "steps", NULL);
    int count = gd_link_children(link);
    const char *name = gd_link_class_of(link)->name;
    if (count < 1) return gd_fail(gd_link_ctx(link), GD_VALUE, "%s: there are no chains", name);
    if (!steps || steps->kind != GD_SET_LIST || steps->list_count == count) return GD_OK;
    return gd_fail(gd_link_ctx(link), GD_VALUE, "%s: steps has %d numbers for %d chains", name,
                   steps->list_count, count);
}

static double turn_of(const gd_link *link, int child)
{
    const gd_setting *steps = gd_link_get(link, "steps", NULL);
    return steps->kind == GD_SET_LIST ? steps->list[child] : steps->real;
}

static gd_status take_turn(gd_link *link, gd_var *var, bool again)
{
    int count = gd_link_children(link);
    double *turn = gd_link_global(link, "turn", 0), *done = gd_link_global(link, "done", 0);
    if (!turn || !done) return gd_error(gd_var_ctx(var));
    int child = *turn < count ? (int)*turn : count - 1;
    gd_status status = gd_link_step(gd_link_child_at(link, child), var);
    if (status) return status;
    *done += 1;
    if (*done < turn_of(link, child)) return GD_OK;
    *done = 0;
    *turn = child + 1 < count ? child + 1 : again ? 0 : child;
    return GD_OK;
}

static gd_status alternate_step(gd_link *link, gd_var *var) { return take_turn(link, var, true); }

static gd_status switch_step(gd_link *link, gd_var *var) { return take_turn(link, var, false); }

GD_LINK(misc, alternate,
    .spread = GD_SPREAD_VECTOR,
    .summary = "chains that take turns, again and again",
    .formula = "module_i(u), i the next one every `steps` steps, after the last the first",
    .cost = "that of the chain whose turn it is; the state of all of them",
    .example = "alternate(adam, lion, steps=10) | lr(0.001)",
    GD_FIELDS(alternate_fields),
    .step = alternate_step,
    .check = check_turns);

GD_LINK(misc, switch,
    .spread = GD_SPREAD_VECTOR,
    .summary = "one chain after the other, and then the last",
    .formula = "module_i(u), i the next one every `steps` steps, up to the last",
    .cost = "that of the chain whose turn it is; the state of all of them",
    .example = "switch(adam, [heavy_ball | lr(0.1)], steps=100) | lr(0.001)",
    GD_FIELDS(switch_fields),
    .step = switch_step,
    .check = check_turns);
