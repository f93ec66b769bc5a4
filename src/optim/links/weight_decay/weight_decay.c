/* Weight decay: adds a multiple of the parameter (of its sign for ord 1) to the update.  After adam it is decoupled
 * (Loshchilov & Hutter 2019), before adam it is L2 regularisation.
 *
 *   cautious_weight_decay   only where update and parameter have the same sign: where the step shrinks it anyway (Chen et al.
 *                           2025); of p |p|^(ord - 2) in general
 *   relative_weight_decay   in units of a norm over all parameters of update, gradient or parameters; one pass for it
 *   direct_weight_decay     off the parameters themselves, before the objective is evaluated */
#include "gradus/link.h"

#include <math.h>

#define DECAY GD_REAL_NEEDED("weight_decay", -INFINITY, INFINITY, "factor of the parameter")
#define ORDER                                                                                         \
    {                                                                                                 \
        .name = "ord", .kinds = GD_SET_REAL, .fallback = {.kind = GD_SET_REAL, .real = 2}, .low = 1,  \
        .high = 2, .integer = true, .structural = true, .help = "2: of the parameter, 1: of its sign" \
    }

static const gd_field fields[] = {DECAY, ORDER, GD_TARGET};
static const gd_field direct_fields[] = {DECAY, ORDER};
static const gd_field cautious_fields[] = {
    DECAY,
    {.name = "ord",
     .kinds = GD_SET_REAL,
     .fallback = {.kind = GD_SET_REAL, .real = 2},
     .low = 1,
     .high = 100,
     .structural = true,
     .help = "2: of the parameter, 1: of its sign, n: of the sign times the magnitude to the power n - 1"},
};
static const gd_field relative_fields[] = {
    GD_REAL("weight_decay", 0.1, -INFINITY, INFINITY, "factor of the parameter, times the norm"),
    ORDER,
    GD_CHOICE("norm_input", "update", "update|grad|params", "the tensor whose norm is used"),
    GD_CHOICE(
        "metric", "mad", "mad|rms|l1|l2|linf",
        "the norm: mean magnitude, root of the mean square, sum of magnitudes, root of the sum of squares, largest "
        "magnitude"),
    GD_TARGET,
};

/* The gradient of |p|^ord / ord. */
static gd_value pull(gd_rule *r)
{
    gd_value p = gd_rule_param(r);
    double order = gd_rule_number(r, "ord");
    if (order == 2) return p;
    if (order == 1) return gd_rule_sign(r, p);
    return gd_rule_copysign(r, gd_rule_pow(r, gd_rule_abs(r, p), gd_rule_const(r, order - 1)), p);
}

static gd_value weight_decay_rule(gd_rule *r, gd_value u)
{
    return gd_rule_add(r, u, gd_rule_mul(r, pull(r), gd_rule_setting(r, "weight_decay")));
}

static gd_value cautious_rule(gd_rule *r, gd_value u)
{
    gd_value agree = gd_rule_gt(r, gd_rule_mul(r, u, gd_rule_param(r)), gd_rule_const(r, 0));
    return gd_rule_where(r, agree, weight_decay_rule(r, u), u);
}

static gd_value direct_rule(gd_rule *r, gd_value p)
{
    (void)p; /* the parameter: its target */
    return gd_rule_sub(r, gd_rule_param(r), gd_rule_mul(r, pull(r), gd_rule_setting(r, "weight_decay")));
}

static gd_value metric_of(gd_rule *r, gd_value x)
{
    if (gd_rule_is(r, "metric", "l1")) return gd_rule_norm(r, x, 1, GD_ALL);
    if (gd_rule_is(r, "metric", "l2")) return gd_rule_norm(r, x, 2, GD_ALL);
    if (gd_rule_is(r, "metric", "linf")) return gd_rule_norm(r, x, INFINITY, GD_ALL);
    gd_value count = gd_rule_count(r, GD_ALL);
    if (gd_rule_is(r, "metric", "mad")) return gd_rule_div(r, gd_rule_norm(r, x, 1, GD_ALL), count);
    return gd_rule_sqrt(r, gd_rule_div(r, gd_rule_sum(r, gd_rule_square(r, x), GD_ALL), count));
}

static gd_value relative_rule(gd_rule *r, gd_value u)
{
    gd_value of = gd_rule_is(r, "norm_input", "update") ? u
                  : gd_rule_is(r, "norm_input", "grad") ? gd_rule_grad(r)
                                                        : gd_rule_param(r);
    gd_value factor = gd_rule_mul(r, gd_rule_setting(r, "weight_decay"), metric_of(r, of));
    return gd_rule_add(r, u, gd_rule_mul(r, pull(r), factor));
}

GD_LINK(weight_decay, weight_decay,
    .summary = "adds a multiple of the parameter to the update",
    .formula = "u + weight_decay * p",
    .paper = "Loshchilov & Hutter, Decoupled weight decay regularization, ICLR 2019",
    .example = "adam | weight_decay(0.01) | lr(0.001)",
    GD_FIELDS(fields),
    .rule = weight_decay_rule);

GD_LINK(weight_decay, cautious_weight_decay,
    .summary = "decays parameters that the update shrinks anyway",
    .formula = "u + weight_decay p where u p > 0, else u",
    .paper = "Chen et al., Cautious weight decay, arXiv 2510.12402, 2025",
    .example = "adam | cautious_weight_decay(0.01) | lr(0.001)",
    GD_FIELDS(cautious_fields),
    .rule = cautious_rule);

GD_LINK(weight_decay, relative_weight_decay,
    .summary = "weight decay in units of a norm of the update",
    .formula = "u + weight_decay mean(abs(u)) p",
    .cost = "one more pass, for the mean",
    .example = "adam | relative_weight_decay(0.01) | lr(0.001)",
    GD_FIELDS(relative_fields),
    .rule = relative_rule);

GD_LINK(weight_decay, direct_weight_decay,
    .summary = "shrinks the parameters before the objective is evaluated",
    .formula = "p - weight_decay p",
    .paper = "Loshchilov & Hutter, Decoupled weight decay regularization, ICLR 2019",
    .cost = "one more pass, over the parameters",
    .example = "adam | lr(0.001) | direct_weight_decay(1e-5)",
    GD_FIELDS(direct_fields),
    .target = "params_direct",
    .rule = direct_rule);
