/* ASGD: gradient descent with a step size that falls slowly, and the mean of its parameters (Polyak & Juditsky 1992, as Xu 2011
 * and PyTorch have it).  With e = lr / (1 + lambd lr (t - 1))^alpha the update is e (u + lambd p); from step t0 on the average is the
 * mean of the parameters, before that it equals them. It applies its steps itself, so it is the last link.
 * State: average.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("lr", 0.01, 0, INFINITY, "first step size"),
    GD_REAL("lambd", 1e-4, 0, INFINITY, "weight decay, and how fast the step size falls"),
    GD_REAL("alpha", 0.75, 0, INFINITY, "power of its fall"),
    GD_REAL("t0", 1e6, 0, INFINITY, "step where averaging begins"),
    GD_WIDE_STATE_IN,
};

static const gd_slot slots[] = {{"average", GD_SLOT_WIDE}};

static gd_value asgd_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), p = gd_rule_param(r), lr = gd_rule_setting(r, "lr"),
             lambda = gd_rule_setting(r, "lambd"), before = gd_rule_sub(r, gd_rule_step(r), one);
    gd_value fall = gd_rule_add(r, one, gd_rule_mul(r, gd_rule_mul(r, lambda, lr), before));
    gd_value size = gd_rule_div(r, lr, gd_rule_pow(r, fall, gd_rule_setting(r, "alpha")));
    gd_value out = gd_rule_mul(r, size, gd_rule_add(r, u, gd_rule_mul(r, lambda, p)));
    gd_value share = gd_rule_reciprocal(
        r, gd_rule_max(r, one, gd_rule_sub(r, before, gd_rule_setting(r, "t0"))));
    gd_rule_set(r, "average", gd_rule_lerp(r, gd_rule_state(r, "average"), gd_rule_sub(r, p, out), share));
    return out;
}

static gd_tensor *average_of(gd_link *link, gd_tensor *param)
{
    return gd_link_has_state(link, param, "average") ? gd_link_state(link, param, "average") : param;
}

GD_LINK(misc, asgd,
    .summary = "averaged gradient descent",
    .formula = "e = lr / (1 + lambd lr (t - 1))^alpha;  x = e (u + lambd p);  "
               "a = a + (p - x - a) / max(1, t - 1 - t0);  x",
    .paper = "Polyak & Juditsky, Acceleration of stochastic approximation by averaging, 1992",
    .example = "asgd(0.01)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = asgd_rule,
    .evaluated = average_of);
