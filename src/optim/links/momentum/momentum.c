/* heavy_ball, ema and nag: the three momenta.
 *   heavy_ball, ema   v = momentum v + (1 - dampening) u, or with lerp v + (1 - momentum)((1 - dampening) u - v); out v
 *   nag               the same v, out u + momentum v (Nesterov 1983, as Sutskever et al. 2013 write it)
 * ema_init says what v is before the first step: zeros, or the first update; "first": v after the first step is the first update.
 * State: velocity. */
#include "gradus/link.h"

#include <math.h>

#define MOMENTUM  GD_REAL("momentum", 0.9, -INFINITY, INFINITY, "weight of the past")
#define DAMPENING GD_REAL("dampening", 0, -INFINITY, INFINITY, "taken off the weight of the update")
#define INIT(first)                                                                                     \
    GD_CHOICE(                                                                                          \
        "ema_init", first, "zeros|update|first",                                                        \
        "where the velocity starts: at zero; at the first update, which makes the first step of a sum " \
        "1 + momentum times as long; first: it is the first update without dampening, as in PyTorch's SGD")

static const gd_field heavy_ball_fields[] = {
    MOMENTUM,
    DAMPENING,
    GD_FLAG("debiased", false, "divide by 1 - momentum^t"),
    GD_FLAG("lerp", false, "an average instead of a sum"),
    INIT("update"),
    GD_TARGET,
    GD_STATE_IN,
};
static const gd_field ema_fields[] = {
    MOMENTUM,
    DAMPENING,
    GD_FLAG("debiased", false, "divide by 1 - momentum^t"),
    GD_FLAG("lerp", true, "an average instead of a sum"),
    INIT("zeros"),
    GD_TARGET,
    GD_STATE_IN,
};
static const gd_field nag_fields[] = {
    MOMENTUM, DAMPENING, GD_FLAG("lerp", false, "an average instead of a sum"), GD_TARGET, GD_STATE_IN,
};

static const gd_slot slots[] = {{"velocity", false}};

static gd_value velocity(gd_rule *r, gd_value u, gd_value before)
{
    gd_value one = gd_rule_const(r, 1), momentum = gd_rule_setting(r, "momentum");
    gd_value input = gd_rule_mul(r, u, gd_rule_sub(r, one, gd_rule_setting(r, "dampening")));
    if (gd_rule_flag(r, "lerp")) return gd_rule_lerp(r, before, input, gd_rule_sub(r, one, momentum));
    return gd_rule_add(r, gd_rule_mul(r, before, momentum), input);
}

static gd_value momentum_rule(gd_rule *r, gd_value u)
{
    bool at_update = gd_rule_is(r, "ema_init", "update");
    gd_value v = velocity(r, u,
                          at_update ? gd_rule_state_or(r, "velocity", u) : gd_rule_state(r, "velocity"));
    if (gd_rule_is(r, "ema_init", "first")) v = gd_rule_where(r, gd_rule_fresh(r, "velocity"), u, v);
    gd_rule_set(r, "velocity", v);
    if (!gd_rule_flag(r, "debiased")) return v;
    gd_value rest = gd_rule_pow(r, gd_rule_setting(r, "momentum"), gd_rule_step(r));
    return gd_rule_div(r, v, gd_rule_sub(r, gd_rule_const(r, 1), rest));
}

static gd_value nag_rule(gd_rule *r, gd_value u)
{
    gd_value v = velocity(r, u, gd_rule_state(r, "velocity"));
    gd_rule_set(r, "velocity", v);
    return gd_rule_add(r, u, gd_rule_mul(r, v, gd_rule_setting(r, "momentum")));
}

GD_LINK(momentum, heavy_ball,
    .summary = "momentum: a decaying sum of updates",
    .formula = "v_0 = u;  v = momentum v + (1 - dampening) u;  v",
    .paper = "Polyak, Some methods of speeding up the convergence of iteration methods, 1964",
    .example = "heavy_ball(0.9) | lr(0.01)",
    GD_FIELDS(heavy_ball_fields),
    GD_SLOTS(slots),
    .rule = momentum_rule);

GD_LINK(momentum, ema,
    .summary = "exponential moving average of updates",
    .formula = "v = momentum v + (1 - momentum) (1 - dampening) u;  v",
    .example = "ema(0.9) | lr(0.1)",
    GD_FIELDS(ema_fields),
    GD_SLOTS(slots),
    .rule = momentum_rule);

GD_LINK(momentum, nag,
    .summary = "Nesterov momentum",
    .formula = "v = momentum v + (1 - dampening) u;  u + momentum v",
    .paper = "Nesterov 1983; Sutskever et al., On the importance of initialization and momentum, ICML 2013",
    .example = "nag(0.9) | lr(0.01)",
    GD_FIELDS(nag_fields),
    GD_SLOTS(slots),
    .rule = nag_rule);
