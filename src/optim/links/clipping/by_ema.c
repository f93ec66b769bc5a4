/* Updates bounded by an exponential average of those before:
 *
 *   clip_norm_by_ema    scaled down to the norm of the average;   normalize_by_ema   scaled to it
 *   clip_value_by_ema   each element clipped to the average of its magnitudes
 *
 * The norm of the average may grow by max_ema_growth in a step, and the average is scaled to that; it is taken as eps at least.
 * The norms are of each tensor, or with tensorwise=false of all together.  `inner` acts after the average has taken the update.
 * State: ema, the norm as a number.  One pass for the norms; clip_value_by_ema is element-wise. */
#include "gradus/link.h"

#include <math.h>

#define INIT GD_CHOICE("ema_init", "zeros", "zeros|update", "where the average starts")

static const gd_field norm_fields[] = {
    GD_REAL("beta", 0.99, 0, 1, "decay of the average"),
    GD_NORM_ORDER,
    GD_REAL("eps", 1e-6, 0, INFINITY, "least norm of the average"),
    GD_FLAG("tensorwise", true, "norms of each tensor; false: of all together"),
    GD_REAL_OR_OFF("max_ema_growth", 1.5, 0, INFINITY,
                   "largest growth of the norm of the average in a step; none: any"),
    INIT,
    GD_INNER("acts on the update after the average has taken it"),
    GD_STATE_IN,
};
static const gd_field value_fields[] = {
    GD_REAL("beta", 0.99, 0, 1, "decay of the average"),
    INIT,
    GD_INNER("acts on the update after the average has taken it"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"ema", 0}};
static const gd_slot value_slots[] = {{"ema", GD_SLOT_POSITIVE}};
static const char *const scalars[] = {"norm"};

static gd_value averaged(gd_rule *r, gd_value x)
{
    gd_value before = gd_rule_is(r, "ema_init", "update") ? gd_rule_state_or(r, "ema", x)
                                                          : gd_rule_state(r, "ema");
    return gd_rule_lerp(r, before, x, gd_rule_sub(r, gd_rule_const(r, 1), gd_rule_setting(r, "beta")));
}

/* The norm of the average after this update, which may not grow too fast. */
static gd_value norm_of_average(gd_rule *r, gd_value u, double order, gd_extent extent)
{
    gd_value one = gd_rule_const(r, 1), ema = averaged(r, u), norm = gd_rule_norm(r, ema, order, extent);
    if (!gd_rule_is_none(r, "max_ema_growth")) {
        gd_value first = gd_rule_eq(r, gd_rule_step(r), one);
        gd_value before = gd_rule_where(r, first, norm, gd_rule_scalar(r, "norm"));
        gd_value most = gd_rule_mul(r, before, gd_rule_setting(r, "max_ema_growth"));
        gd_value over = gd_rule_max(r, gd_rule_div(r, norm, gd_rule_max(r, most, gd_rule_const(r, 1e-6))),
                                    one);
        ema = gd_rule_div(r, ema, over);
        norm = gd_rule_div(r, norm, over);
    }
    gd_rule_set(r, "ema", ema);
    gd_rule_set_scalar(r, "norm", norm);
    return gd_rule_max(r, norm, gd_rule_setting(r, "eps"));
}

static gd_value scaled(gd_rule *r, gd_value u, bool only_down)
{
    double order = gd_rule_number(r, "ord");
    gd_extent extent = gd_rule_flag(r, "tensorwise") ? GD_EACH : GD_ALL;
    gd_value one = gd_rule_const(r, 1), aim = norm_of_average(r, u, order, extent);
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    gd_value norm = gd_rule_norm(r, u, order, extent);
    gd_value changes = gd_rule_gt(r, norm, only_down ? aim : gd_rule_const(r, 0));
    return gd_rule_mul(r, u, gd_rule_where(r, changes, gd_rule_div(r, aim, norm), one));
}

static gd_value clip_norm_rule(gd_rule *r, gd_value u) { return scaled(r, u, true); }

static gd_value normalize_rule(gd_rule *r, gd_value u) { return scaled(r, u, false); }

static gd_value clip_value_rule(gd_rule *r, gd_value u)
{
    gd_value bound = averaged(r, gd_rule_abs(r, u));
    gd_rule_set(r, "ema", bound);
    if (gd_rule_has_child(r, "inner")) u = gd_rule_child(r, "inner", u);
    return gd_rule_clamp(r, u, gd_rule_neg(r, bound), bound);
}

#define NORM                                                                                               \
    "m = beta m + (1 - beta) u;  n_0 = norm(m);  k = max(1, norm(m) / max(n max_ema_growth, 0.000001));  " \
    "m = m / k;  n = norm(m);  "

GD_LINK(clipping, clip_norm_by_ema,
    .summary = "scales the update down to the norm of an average of updates",
    .formula = NORM "u min(1, max(n, eps) / norm(u))",
    .cost = "one more pass, for the norm",
    .example = "clip_norm_by_ema | adam | lr(0.001)",
    GD_FIELDS(norm_fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = clip_norm_rule);

GD_LINK(clipping, normalize_by_ema,
    .summary = "scales the update to the norm of an average of updates",
    .formula = NORM "u max(n, eps) / norm(u)",
    .cost = "one more pass, for the norm",
    .example = "normalize_by_ema | lr(0.1)",
    GD_FIELDS(norm_fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = normalize_rule);

GD_LINK(clipping, clip_value_by_ema,
    .summary = "clips elements to an average of their magnitudes",
    .formula = "m = beta m + (1 - beta) abs(u);  max(-m, min(m, u))",
    .example = "clip_value_by_ema | adam | lr(0.001)",
    GD_FIELDS(value_fields),
    GD_SLOTS(value_slots),
    .rule = clip_value_rule);
