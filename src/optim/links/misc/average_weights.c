/* Averages of the parameters themselves, while the chain continues without them: gd_optimizer_evaluate puts them in the place
 * of the parameters and takes them out again.
 *
 *   ema_weights   a = decay a + (1 - decay) p       (Polyak & Juditsky 1992 for the idea; with the usual decay)
 *   swa           the mean of all p                  (Izmailov et al. 2018)
 *
 * p are the parameters after this step, so these links come last, after the learning rate.  The first average is the first p that counts:
 * of step start + 1, then every `every` steps.  State: average, how many as a number.  Element-wise, fuse. */
#include "gradus/link.h"

#include <math.h>

#define WHEN                                                           \
    GD_INT("start", 0, 0, 1e15, "steps before the first that counts"), \
        GD_INT("every", 1, 1, 1e15, "steps from one that counts to the next")

static const gd_field ema_fields[] = {GD_REAL("decay", 0.999, 0, 1, "weight of the average so far"), WHEN,
                                      GD_WIDE_STATE_IN};
static const gd_field swa_fields[] = {WHEN, GD_WIDE_STATE_IN};

static const gd_slot slots[] = {{"average", GD_SLOT_WIDE}};
static const char *const scalars[] = {"averaged"};

/* The average goes a share of the way to the new parameters; at the first all of it. */
static gd_value averaged(gd_rule *r, gd_value u, bool mean)
{
    gd_value one = gd_rule_const(r, 1), every = gd_rule_setting(r, "every"),
             count = gd_rule_scalar(r, "averaged");
    gd_value late = gd_rule_sub(r, gd_rule_sub(r, gd_rule_step(r), gd_rule_setting(r, "start")), one);
    gd_value round = gd_rule_mul(r, every, gd_rule_floor(r, gd_rule_div(r, late, every)));
    gd_value due = gd_rule_and(r, gd_rule_ge(r, late, gd_rule_const(r, 0)), gd_rule_eq(r, late, round));
    gd_value after = gd_rule_add(r, count, one);
    gd_value share = mean ? gd_rule_reciprocal(r, after) : gd_rule_sub(r, one, gd_rule_setting(r, "decay"));
    share = gd_rule_where(r, gd_rule_eq(r, count, gd_rule_const(r, 0)), one, share);
    gd_value a = gd_rule_state(r, "average"), p = gd_rule_sub(r, gd_rule_param(r), u);
    gd_rule_set(r, "average", gd_rule_where(r, due, gd_rule_lerp(r, a, p, share), a));
    gd_rule_set_scalar(r, "averaged", gd_rule_where(r, due, after, count));
    return u;
}

static gd_value ema_weights_rule(gd_rule *r, gd_value u) { return averaged(r, u, false); }

static gd_value swa_rule(gd_rule *r, gd_value u) { return averaged(r, u, true); }

/* Before the first that counts there is no average. */
static gd_tensor *average_of(gd_link *link, gd_tensor *param)
{
    if (!gd_link_has_state(link, param, "average")) return param;
    const double *count = gd_link_scalar(link, param, "averaged");
    if (!count) return NULL;
    return *count > 0 ? gd_link_state(link, param, "average") : param;
}

GD_LINK(misc, ema_weights,
    .summary = "a decaying average of the parameters, to evaluate with",
    .formula = "x = p - u;  a_0 = x;  a = decay a + (1 - decay) x;  u",
    .paper = "Polyak & Juditsky, Acceleration of stochastic approximation by averaging, 1992",
    .example = "adam | lr(0.001) | ema_weights(0.999)",
    GD_FIELDS(ema_fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = ema_weights_rule,
    .evaluated = average_of);

GD_LINK(misc, swa,
    .summary = "the mean of the parameters so far, to evaluate with",
    .formula = "x = p - u;  a = a + (x - a) / t;  u",
    .paper = "Izmailov et al., Averaging weights leads to wider optima and better generalization, UAI 2018",
    .example = "adam | lr(0.001) | swa",
    GD_FIELDS(swa_fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = swa_rule,
    .evaluated = average_of);
