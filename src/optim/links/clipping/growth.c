/* Bounds the growth of updates: clip_norm_growth bounds the norm of each tensor (or with parameterwise=false of all
 * together), clip_value_growth the magnitude of each element.  With w the previous result, at least min_value,
 *
 *     bound = min(w mul, w + add),   w = max(result, w / max_decay)
 *
 * so that a step near zero does not hold down all that follow.  The first update passes.
 * State: a number, or a slot, previous.  One pass for the norm; clip_value_growth is element-wise. */
#include "gradus/link.h"

#include <math.h>

#define OR_NONE(n, d, lo, h) GD_REAL_OR_OFF(n, d, lo, INFINITY, h)
#define GROWTH                                                             \
    GD_REAL_OR_NONE("add", 0, INFINITY, "largest growth as a difference"), \
        OR_NONE("mul", 1.5, 0, "largest growth as a factor"),              \
        OR_NONE("min_value", 1e-4, 0, "what growth starts from at least"), \
        OR_NONE("max_decay", 2, 1, "largest factor by which the bound itself falls in a step")

static const gd_field norm_fields[] = {
    GROWTH,
    GD_NORM_ORDER,
    GD_FLAG("parameterwise", true, "norms of each tensor; false: of all together"),
    GD_TARGET,
};
static const gd_field value_fields[] = {GROWTH, GD_TARGET, GD_STATE_IN};

static const gd_slot slots[] = {{"previous", 0}};
static const char *const scalars[] = {"previous"};

/* The bound after `before`. */
static gd_value bound_after(gd_rule *r, gd_value before)
{
    if (!gd_rule_is_none(r, "min_value")) before = gd_rule_max(r, before, gd_rule_setting(r, "min_value"));
    bool adds = !gd_rule_is_none(r, "add"), multiplies = !gd_rule_is_none(r, "mul");
    gd_value sum = adds ? gd_rule_add(r, before, gd_rule_setting(r, "add")) : -1;
    gd_value product = multiplies ? gd_rule_mul(r, before, gd_rule_setting(r, "mul")) : -1;
    return adds && multiplies ? gd_rule_min(r, sum, product) : adds ? sum : product;
}

/* The number from which the next bound grows. */
static gd_value next(gd_rule *r, gd_value before, gd_value let_through)
{
    if (gd_rule_is_none(r, "max_decay")) return let_through;
    return gd_rule_max(r, let_through, gd_rule_div(r, before, gd_rule_setting(r, "max_decay")));
}

static gd_value norm_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), first = gd_rule_eq(r, gd_rule_step(r), one);
    gd_extent extent = gd_rule_flag(r, "parameterwise") ? GD_EACH : GD_ALL;
    gd_value norm = gd_rule_norm(r, u, gd_rule_number(r, "ord"), extent);
    gd_value before = gd_rule_where(r, first, norm, gd_rule_scalar(r, "previous"));
    gd_value most = bound_after(r, before), over = gd_rule_gt(r, norm, most);
    gd_rule_set_scalar(r, "previous", next(r, before, gd_rule_min(r, norm, most)));
    return gd_rule_mul(r, u, gd_rule_where(r, over, gd_rule_div(r, most, norm), one));
}

static gd_value value_rule(gd_rule *r, gd_value u)
{
    gd_value size = gd_rule_abs(r, u), before = gd_rule_state_or(r, "previous", size),
             most = bound_after(r, before);
    gd_rule_set(r, "previous", next(r, before, gd_rule_min(r, size, most)));
    return gd_rule_clamp(r, u, gd_rule_neg(r, most), most);
}

static gd_status check(gd_link *link)
{
    if (!gd_link_is_none(link, "add") || !gd_link_is_none(link, "mul")) return GD_OK;
    return gd_fail(gd_link_ctx(link), GD_VALUE, "%s: without add and mul it bounds nothing; give one of them",
                   gd_link_class_of(link)->name);
}

GD_LINK(clipping, clip_norm_growth,
    .summary = "bounds how fast the norm of the update grows",
    .formula =
        "w_0 = norm(u);  b = max(w, min_value) mul;  x = u min(1, b / norm(u));  w = max(norm(x), w / max_decay);  x",
    .cost = "one more pass, for the norm",
    .example = "clip_norm_growth | adam | lr(0.001)",
    GD_FIELDS(norm_fields),
    GD_SCALARS(scalars),
    .rule = norm_rule,
    .check = check);

GD_LINK(clipping, clip_value_growth,
    .summary = "bounds how fast the elements of the update grow",
    .formula =
        "w_0 = abs(u);  b = max(w, min_value) mul;  x = max(-b, min(b, u));  w = max(abs(x), w / max_decay);  x",
    .example = "clip_value_growth | adam | lr(0.001)",
    GD_FIELDS(value_fields),
    GD_SLOTS(slots),
    .rule = value_rule,
    .check = check);
