/* The parts of Rprop that act on elements whose sign has changed, as separate links (rprop.c is the whole method):
 *
 *   sign_consistency_mask       1 where the sign stays, else 0: a factor for mul
 *   sign_consistency_lrs        the step sizes alone: alpha, times nplus while the sign stays, times nminus where it turns
 *   scale_lr_by_sign_change     u times these
 *   backtrack_on_sign_change    u, but where the sign turns the last update taken back, or 0; the step after counts as no turn
 *
 * The sign is that of the update, or with use_grad of the gradient.  An element that was 0 has not turned.
 * State: previous, step_size; element-wise, fuse. */
#include "gradus/link.h"

#include <math.h>

#define SIZES                                                                         \
    GD_REAL("nplus", 1.2, 0, INFINITY, "factor of a step size while the sign stays"), \
        GD_REAL("nminus", 0.5, 0, INFINITY, "factor where the sign turns"),           \
        GD_REAL("lb", 1e-6, 0, INFINITY, "least step size"),                          \
        GD_REAL("ub", 50, 0, INFINITY, "largest step size"),                          \
        GD_REAL("alpha", 1, 0, INFINITY, "first step size")
#define USE_GRAD GD_FLAG("use_grad", false, "look at the sign of the gradient, not of the update")

static const gd_field mask_fields[] = {GD_TARGET, GD_STATE_IN};
static const gd_field lrs_fields[] = {SIZES, GD_TARGET, GD_STATE_IN};
static const gd_field scale_fields[] = {SIZES, USE_GRAD, GD_TARGET, GD_STATE_IN};
static const gd_field backtrack_fields[] = {
    USE_GRAD,
    GD_FLAG("backtrack", true, "take the last update back where the sign turns; false: 0"),
    GD_TARGET,
    GD_STATE_IN,
};

static const gd_slot mask_slots[] = {{"previous", 0}};
static const gd_slot size_slots[] = {{"previous", 0}, {"step_size", GD_SLOT_POSITIVE}};
static const gd_slot backtrack_slots[] = {{"previous", 0}, {"previous_update", 0}};

/* 1: the sign of x is that of the step before, -1: it turned, 0: one of them is 0.  x is kept for the next step. */
static gd_value agreement(gd_rule *r, gd_value x)
{
    gd_value sign = gd_rule_sign(r, x);
    gd_value agree = gd_rule_mul(r, sign, gd_rule_state(r, "previous"));
    gd_rule_set(r, "previous", sign);
    return agree;
}

static gd_value mask_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0);
    return gd_rule_where(r, gd_rule_lt(r, agreement(r, u), zero), zero, gd_rule_const(r, 1));
}

static gd_value step_size(gd_rule *r, gd_value x)
{
    gd_value zero = gd_rule_const(r, 0), agree = agreement(r, x);
    gd_value factor = gd_rule_where(r, gd_rule_lt(r, agree, zero), gd_rule_setting(r, "nminus"),
                                    gd_rule_const(r, 1));
    factor = gd_rule_where(r, gd_rule_gt(r, agree, zero), gd_rule_setting(r, "nplus"), factor);
    gd_value size = gd_rule_mul(r, gd_rule_state_or(r, "step_size", gd_rule_setting(r, "alpha")), factor);
    size = gd_rule_clamp(r, size, gd_rule_setting(r, "lb"), gd_rule_setting(r, "ub"));
    gd_rule_set(r, "step_size", size);
    return size;
}

static gd_value lrs_rule(gd_rule *r, gd_value u) { return step_size(r, u); }

static gd_value scale_rule(gd_rule *r, gd_value u)
{
    return gd_rule_mul(r, u, step_size(r, gd_rule_flag(r, "use_grad") ? gd_rule_grad(r) : u));
}

static gd_value backtrack_rule(gd_rule *r, gd_value u)
{
    gd_value zero = gd_rule_const(r, 0), before = gd_rule_state(r, "previous_update");
    gd_value turned = gd_rule_lt(r, agreement(r, gd_rule_flag(r, "use_grad") ? gd_rule_grad(r) : u), zero);
    gd_rule_set(r, "previous", gd_rule_where(r, turned, zero, gd_rule_state(r, "previous")));
    gd_value back = gd_rule_flag(r, "backtrack") ? gd_rule_neg(r, before) : zero;
    gd_value out = gd_rule_where(r, turned, back, u);
    gd_rule_set(r, "previous_update", out);
    return out;
}

#define PAPER "Riedmiller & Braun, A direct adaptive method for faster backpropagation learning, 1993"

GD_LINK(adaptive, sign_consistency_mask,
    .summary = "1, or 0 for elements whose sign turned",
    .formula = "s = sign(u) w;  w = sign(u);  0 where 0 > s, else 1",
    .paper = PAPER,
    .example = "mul(sign_consistency_mask) | lr(0.01)",
    GD_FIELDS(mask_fields),
    GD_SLOTS(mask_slots),
    .rule = mask_rule);

GD_LINK(adaptive, sign_consistency_lrs,
    .summary = "step sizes from the signs of successive updates",
    .formula =
        "s = sign(u) w;  w = sign(u);  k = nplus where s > 0, else 1;  k = nminus where 0 > s, else k;  "
        "m_0 = alpha;  m = min(ub, max(lb, m k));  m",
    .paper = PAPER,
    .example = "mul(sign_consistency_lrs) | lr(0.01)",
    GD_FIELDS(lrs_fields),
    GD_SLOTS(size_slots),
    .rule = lrs_rule);

GD_LINK(adaptive, scale_lr_by_sign_change,
    .summary = "scales elements by how long their sign has stayed",
    .formula =
        "s = sign(u) w;  w = sign(u);  k = nplus where s > 0, else 1;  k = nminus where 0 > s, else k;  "
        "m_0 = alpha;  m = min(ub, max(lb, m k));  u m",
    .paper = PAPER,
    .example = "scale_lr_by_sign_change | lr(0.01)",
    GD_FIELDS(scale_fields),
    GD_SLOTS(size_slots),
    .rule = scale_rule);

GD_LINK(adaptive, backtrack_on_sign_change,
    .summary = "takes the last update back where the sign turned",
    .formula = "s = sign(u) w;  w = 0 where 0 > s, else sign(u);  d = -d where 0 > s, else u;  d",
    .paper = PAPER,
    .example = "backtrack_on_sign_change | lr(0.01)",
    GD_FIELDS(backtrack_fields),
    GD_SLOTS(backtrack_slots),
    .rule = backtrack_rule);
