/* Small steps at first.  warmup multiplies the update, warmup_norm_clip bounds the norm of all of it, by what grows in a
 * straight line from its first value to its last over `steps` steps; after them warmup stays, the bound is gone.
 * State: the number of steps.  warmup is element-wise and fuses; warmup_norm_clip takes a pass for the norm. */
#include "gradus/link.h"

#define STEPS GD_INT("steps", 100, 1, 1e15, "steps until the last value is reached")

static const gd_field fields[] = {
    STEPS,
    GD_REAL("start_lr", 1e-5, -INFINITY, INFINITY, "factor of the first update"),
    GD_REAL("end_lr", 1, -INFINITY, INFINITY, "factor from then on"),
};
static const gd_field clip_fields[] = {
    STEPS,
    GD_REAL("start_norm", 1e-5, 0, INFINITY, "largest norm of the first update"),
    GD_REAL("end_norm", 1, 0, INFINITY, "largest norm of the last one that is bounded"),
};

/* Steps done before this one. */
static gd_value done(gd_rule *r) { return gd_rule_sub(r, gd_rule_step(r), gd_rule_const(r, 1)); }

static gd_value between(gd_rule *r, const char *start, const char *end)
{
    gd_value share = gd_rule_div(r, done(r), gd_rule_setting(r, "steps"));
    share = gd_rule_min(r, share, gd_rule_const(r, 1));
    return gd_rule_lerp(r, gd_rule_setting(r, start), gd_rule_setting(r, end), share);
}

static gd_value warmup_rule(gd_rule *r, gd_value u)
{
    return gd_rule_mul(r, u, between(r, "start_lr", "end_lr"));
}

static gd_value clip_rule(gd_rule *r, gd_value u)
{
    gd_value norm = gd_rule_norm(r, u, 2, GD_ALL), most = between(r, "start_norm", "end_norm");
    gd_value over = gd_rule_and(r, gd_rule_gt(r, norm, most),
                                gd_rule_le(r, done(r), gd_rule_setting(r, "steps")));
    return gd_rule_mul(r, u, gd_rule_where(r, over, gd_rule_div(r, most, norm), gd_rule_const(r, 1)));
}

GD_LINK(step_size, warmup,
    .summary = "learning rate that grows over the first steps",
    .formula = "s = min((t - 1) / steps, 1);  u (start_lr + s (end_lr - start_lr))",
    .example = "adam | warmup(100, 1e-5, 1e-3)",
    GD_FIELDS(fields),
    .rule = warmup_rule);

GD_LINK(step_size, warmup_norm_clip,
    .summary = "bounds the norm of the first updates",
    .formula = "s = min((t - 1) / steps, 1);  b = start_norm + s (end_norm - start_norm);  "
               "u where t - 1 > steps, u where norm(u) <= b, else u b / norm(u)",
    .cost = "one more pass, for the norm",
    .example = "adam | warmup_norm_clip(100, 1e-3, 1) | lr(0.01)",
    GD_FIELDS(clip_fields),
    .rule = clip_rule);
