/* AdaDelta: scales the update by the ratio of past results to past updates, root mean squares both (Zeiler 2012).
 * State: square_avg, acc_delta.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("rho", 0.9, 0, 1, "decay of both averages"),
    GD_REAL("eps", 1e-6, 0, INFINITY, "added to both averages under their roots"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"square_avg", GD_SLOT_SQUARE}, {"acc_delta", GD_SLOT_SQUARE}};

static gd_value adadelta_rule(gd_rule *r, gd_value u)
{
    gd_value rho = gd_rule_setting(r, "rho"), eps = gd_rule_setting(r, "eps");
    gd_value v = gd_rule_average(r, "square_avg", gd_rule_square(r, u), rho);
    gd_value above = gd_rule_sqrt(r, gd_rule_add(r, gd_rule_state(r, "acc_delta"), eps));
    gd_value out = gd_rule_mul(r, u, gd_rule_div(r, above, gd_rule_sqrt(r, gd_rule_add(r, v, eps))));
    gd_rule_average(r, "acc_delta", gd_rule_square(r, out), rho);
    return out;
}

GD_LINK(adaptive, adadelta,
    .summary = "updates in units of past steps",
    .formula =
        "v = rho v + (1 - rho) u^2;  x = u sqrt(d + eps) / sqrt(v + eps);  d = rho d + (1 - rho) x^2;  x",
    .paper = "Zeiler, ADADELTA: an adaptive learning rate method, 2012",
    .example = "adadelta | lr(1)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adadelta_rule);
