/* Coordinate descent: a derivative along one element per step, from values.
 *
 *     u = e_i (f(p + h e_i) - f(p - h e_i)) / 2 h, with threepoint; else (f(p + h e_i) - f(p)) / h; grad=false: its sign
 *
 * Elements of all parameters are numbered one after the other.  cyclic: 1 .. n, 1 .. n; cyclic2: 1 .. n, n .. 1; random.
 * adaptive: every element has an h of its own.  If what the curvature adds to the values, |f(p + h) - 2 f(p) + f(p - h)| (two points:
 * their difference), is below a thousand roundings of f, h doubles; above 1e9 of them, or where a value is not finite, it halves;
 * within a factor of 1e6 of the setting.  A value that is not finite makes no step.
 * State: h of each element.  Cost: two values per step and the value at p where that is used. */
#include "gradus/autograd.h"
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("h", 1e-3, 1e-300, INFINITY, "distance of the points, at first"),
    GD_FLAG("grad", true, "the derivative; false: its sign"),
    GD_FLAG("adaptive", true, "a distance for each element, as the values need"),
    GD_CHOICE("index", "cyclic2", "cyclic|cyclic2|random", "which element is next"),
    GD_FLAG("threepoint", true, "points on both sides"),
    GD_SEED("of its own random numbers; none: those of the context"),
};

static const gd_slot slots[] = {{"h", 0}};

/* ---- which element ---- */

static int64_t next_index(gd_link *link, gd_var *var, int64_t n)
{
    double at = gd_link_kept(link, "at", 0), size = (double)n;
    if (gd_link_is(link, "index", "cyclic")) return (int64_t)fmod(at, size);
    if (gd_link_is(link, "index", "random")) {
        gd_tensor *draw = gd_link_random(link, GD_RANDOM_UNIFORM, gd_scalar(gd_var_ctx(var), GD_F64, 0));
        int64_t i = draw ? (int64_t)(gd_item(draw) * size) : 0;
        return i < n ? i : n - 1;
    }
    double k = fmod(at, 2 * size);
    return (int64_t)(k < size ? k : 2 * size - 1 - k);
}

/* One element of a tensor, on the same memory. */
static gd_tensor *element(gd_tensor *t, int64_t i)
{
    gd_tensor *flat = gd_reshape(gd_drop_names(gd_detach(t)), 1, (int64_t[]){gd_numel(t)});
    return flat ? gd_slice(flat, "0", i, i + 1, 1) : NULL;
}

/* ---- values and what they say ---- */

typedef struct values {
    double ahead, here, behind;
    double h, rounding; /* of one of the values */
    bool three;
} values;

/* An element inside bounds has points on both sides always: ahead alone may be outside. */
static gd_status evaluate(gd_link *link, gd_var *var, int tensor, gd_tensor *const *unit, values *v)
{
    bool adaptive = gd_link_flag(link, "adaptive");
    v->three = gd_link_flag(link, "threepoint") || gd_var_bounds(var, tensor, NULL, NULL);
    v->here = 0;
    gd_tensor *loss = adaptive || !v->three ? gd_var_loss(var, false) : NULL;
    if (loss) v->here = gd_item(loss);
    gd_status status = gd_error(gd_var_ctx(var));
    double both[2] = {0, 0};
    if (!status)
        status = v->three ? gd_var_evaluate_around(var, &v->h, unit, both, NULL, NULL)
                          : gd_var_evaluate_moved(var, v->h, unit, both, NULL);
    v->ahead = both[0];
    v->behind = both[1];
    double most = fmax(fabs(v->ahead), fmax(fabs(v->here), fabs(v->behind)));
    v->rounding = loss ? most * gd_vector_epsilon(loss) : 0;
    return status;
}

static double slope(const values *v)
{
    double d = v->three ? (v->ahead - v->behind) / (2 * v->h) : (v->ahead - v->here) / v->h;
    return isfinite(d) ? d : 0;
}

static double next_h(const values *v, double setting)
{
    double seen = v->three ? fabs(v->ahead - 2 * v->here + v->behind) : fabs(v->ahead - v->here);
    double h = !isfinite(seen)                         ? v->h / 2
               : seen < 1e3 * v->rounding || seen == 0 ? v->h * 2
               : seen > 1e9 * v->rounding              ? v->h / 2
                                                       : v->h;
    return fmin(fmax(h, setting * 1e-6), setting * 1e6);
}

/* ---- the step ---- */

static gd_tensor *kept_h(gd_link *link, gd_tensor *key)
{
    const gd_init init = {.kind = GD_INIT_CONSTANT, .value = gd_link_real(link, "h", key)};
    return gd_link_state_from(link, key, "h", init);
}

static gd_status step_along(gd_link *link, gd_var *var, int tensor, int64_t i)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int count = gd_var_count(var);
    gd_tensor *key = gd_var_params(var)[tensor], **unit = gd_link_scratch(link, count);
    bool adaptive = gd_link_flag(link, "adaptive");
    for (int k = 0; unit && k < count; k++) {
        if (!(unit[k] = gd_zeros_like(gd_var_params(var)[k]))) return gd_error(ctx);
        if (adaptive && !kept_h(link, gd_var_params(var)[k])) return gd_error(ctx);
    }
    gd_tensor *one = unit ? element(unit[tensor], i) : NULL,
              *h = adaptive ? element(kept_h(link, key), i) : NULL;
    if (!one || (adaptive && !h)) return gd_error(ctx);
    values v = {.h = adaptive ? gd_item(h) : gd_link_real(link, "h", key)};
    gd_status status = gd_fill(one, 1);
    if (!status) status = evaluate(link, var, tensor, unit, &v);
    if (!status && adaptive) status = gd_fill(h, next_h(&v, gd_link_real(link, "h", key)));
    double d = slope(&v);
    if (!status) status = gd_fill(one, gd_link_flag(link, "grad") ? d : (d > 0) - (d < 0));
    return status ? status : gd_var_set_update(var, unit);
}

static gd_status cd_step(gd_link *link, gd_var *var)
{
    gd_ctx *ctx = gd_var_ctx(var);
    int64_t n = 0;
    int tensor = 0;
    for (int i = 0; i < gd_var_count(var); i++) n += gd_numel(gd_var_params(var)[i]);
    if (!n) return gd_var_set_zero_update(var);
    int64_t at = next_index(link, var, n);
    for (; at >= gd_numel(gd_var_params(var)[tensor]); tensor++) at -= gd_numel(gd_var_params(var)[tensor]);
    gd_no_grad_begin(ctx);
    gd_status status = gd_error(ctx) ? gd_error(ctx) : gd_var_flush(var);
    if (!status) status = step_along(link, var, tensor, at);
    gd_no_grad_end(ctx);
    return status ? status : gd_link_keep(link, "at", gd_link_kept(link, "at", 0) + 1);
}

/* Without adaptive there is no h to keep. */
static int64_t cd_bytes(const gd_link *link, gd_tensor *const *params, int count)
{
    return gd_link_slot_bytes(gd_link_flag(link, "adaptive"), params, count);
}

GD_LINK(zeroth_order, cd,
    .spread = GD_SPREAD_VECTOR,
    .summary = "coordinate descent: a derivative along one element per step, from values",
    .formula = "u = e_i (f(p + h e_i) - f(p - h e_i)) / 2 h",
    .cost = "two values per step, three with adaptive; no gradients",
    .example = "cd | lr(0.1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .step = cd_step,
    .state_bytes = cd_bytes,
    .traits.needs_closure = true,
    .traits.restores_params = true);
