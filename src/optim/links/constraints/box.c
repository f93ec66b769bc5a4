/* Bounds: every element of the parameters stays between low and high.
 *
 * It is the first link.  A start outside is moved onto its bounds; from then on elements at a bound, with the loss
 * falling beyond it, are held: links after it see a gradient of 0 there, links with a model of the curvature use its free
 * block, line searches and trust regions stay inside, and every step ends inside, with held elements on their bounds bit for bit
 * (Bertsekas 1982; projecting the update alone is no descent method).  The distance from the solution is measured by the KKT residual
 * x - P(x - g), with P the projection into the bounds: step info, gd_minimize and `--until kkt<X` use it.
 *
 * Several boxes of a chain, and those that --bound, gd_minimize's callers or Python's bounds= put before it, all hold: their
 * intersection; an empty one is an error that names both.
 *
 * A bound is a number, or a list: one number per element of all parameters in their order (as in gd_lsq_options), or of the parameter
 * for which it is set by a group or gd_link_set_for.  Equal bounds fix an element.  No state: the optimizer keeps the bounds in force. */
#include "gradus/link.h"

#include <math.h>

#define BOUND(n, h) \
    .name = n, .kinds = GD_SET_REAL | GD_SET_LIST | GD_SET_NONE, .low = -INFINITY, .high = INFINITY, .help = h

static const gd_field fields[] = {
    {BOUND("low", "least value; a list: of each element of all parameters, in order; none: there is none"),
     .fallback = {.kind = GD_SET_NONE}},
    {BOUND("high", "largest value; a list: of each element of all parameters, in order; none: there is none"),
     .fallback = {.kind = GD_SET_NONE}},
};

/* Where the numbers of a parameter begin in a list: -1 if the list fits neither the parameter nor all of them together. */
static int64_t place_in_list(gd_var *var, int index, int64_t listed)
{
    gd_tensor *const *params = gd_var_params(var);
    int64_t before = 0, all = 0;
    if (listed == gd_numel(params[index])) return 0;
    for (int i = 0, count = gd_var_count(var); i < count; i++) {
        if (i == index) before = all;
        all += gd_numel(params[i]);
    }
    return listed == all ? before : -1;
}

/* A bound of one parameter as a tensor; *out is NULL if there is none. */
static gd_status bound_of(gd_link *link, gd_var *var, int index, const char *field, gd_tensor **out)
{
    gd_ctx *ctx = gd_var_ctx(var);
    gd_tensor *param = gd_var_params(var)[index];
    const gd_setting *s = gd_link_get(link, field, param);
    *out = NULL;
    if (!s) return gd_error(ctx);
    if (s->kind == GD_SET_NONE) return GD_OK;
    if (s->kind == GD_SET_REAL) {
        *out = gd_scalar(ctx, GD_F64, s->real);
        return *out ? GD_OK : gd_error(ctx);
    }
    int64_t first = place_in_list(var, index, s->list_count);
    if (first < 0) {
        const char *name = gd_var_param_name(var, index);
        return gd_fail(
            ctx, GD_VALUE,
            "box: %s has %d numbers, parameter '%.60s' %lld elements; a list has one number per element of the "
            "parameter or of all parameters",
            field, s->list_count, name ? name : "", (long long)gd_numel(param));
    }
    int64_t size[GD_MAX_DIMS];
    for (int i = 0; i < gd_ndim(param); i++) size[i] = gd_size(param, i);
    *out = gd_from_f64(ctx, GD_F64, gd_ndim(param), size, s->list + first);
    return *out ? GD_OK : gd_error(ctx);
}

static gd_status box_step(gd_link *link, gd_var *var)
{
    int count = gd_var_count(var);
    gd_tensor **low = gd_link_scratch(link, 2 * count), **high = low ? low + count : NULL;
    gd_status status = low ? GD_OK : gd_error(gd_var_ctx(var));
    for (int i = 0; i < count && !status; i++) {
        status = bound_of(link, var, i, "low", &low[i]);
        if (!status) status = bound_of(link, var, i, "high", &high[i]);
    }
    return status ? status : gd_var_set_bounds(var, low, high);
}

GD_LINK(constraints, box,
    .spread = GD_SPREAD_VECTOR,
    .summary = "keeps the parameters between bounds",
    .formula = "low <= p <= high; the links after it see g with 0 where a bound holds",
    .paper = "Bertsekas, Projected Newton methods for optimization problems with simple constraints, 1982",
    .cost =
        "some passes over the parameters a step and a byte an element; links with pairs read their history once more",
    .example = "box(0, 1) | lbfgs | strong_wolfe",
    GD_FIELDS(fields),
    .step = box_step,
    .traits.own_settings = true,
    .traits.acts_first = true,
    .traits.moves_params = true);
