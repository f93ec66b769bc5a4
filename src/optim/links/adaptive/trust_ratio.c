/* The trust ratio of LARS and LAMB: the update of each tensor in proportion to the norm of the tensor.
 *
 *     eta |p| / (|u| + weight_decay |p| + eps) (u + weight_decay p)
 *
 * LAMB (You et al. 2020) is  adam(eps=1e-6, eps_at="corrected") | weight_decay(w) | trust_ratio | lr ,  LARS (You, Gitman &
 * Ginsburg 2017) is  trust_ratio(0.001, weight_decay=w) | heavy_ball(ema_init="zeros") | lr .  If |p| or the denominator is 0,
 * the ratio is 1, so that tensors which start at zero move.  No state.  One pass for the norms. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("eta", 1, 0, INFINITY, "share of the norm of the parameter; LARS has 0.001"),
    GD_REAL("weight_decay", 0, 0, INFINITY,
            "factor of the parameter that is added to the update, as LARS has it"),
    GD_REAL("eps", 0, 0, INFINITY, "added to the denominator"),
};

static gd_value trust_ratio_rule(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r), zero = gd_rule_const(r, 0), decay = gd_rule_setting(r, "weight_decay");
    gd_value size = gd_rule_norm(r, p, 2, GD_EACH), length = gd_rule_norm(r, u, 2, GD_EACH);
    gd_value below = gd_rule_add(r, gd_rule_add(r, length, gd_rule_mul(r, decay, size)),
                                 gd_rule_setting(r, "eps"));
    gd_value ratio = gd_rule_div(r, gd_rule_mul(r, gd_rule_setting(r, "eta"), size), below);
    gd_value known = gd_rule_and(r, gd_rule_gt(r, size, zero), gd_rule_gt(r, below, zero));
    ratio = gd_rule_where(r, known, ratio, gd_rule_const(r, 1));
    return gd_rule_mul(r, ratio, gd_rule_add(r, u, gd_rule_mul(r, decay, p)));
}

GD_LINK(adaptive, trust_ratio,
    .summary = "updates in proportion to the norm of their tensor: LAMB and LARS",
    .formula = "eta norm(p) / (norm(u) + weight_decay norm(p) + eps) (u + weight_decay p)",
    .paper =
        "You et al., Large batch optimization for deep learning: training BERT in 76 minutes, ICLR 2020; You, Gitman & "
        "Ginsburg, Large batch training of convolutional networks, 2017",
    .cost = "one more pass, for the norms",
    .example = "adam | trust_ratio | lr(0.001)",
    GD_FIELDS(fields),
    .rule = trust_ratio_rule);
