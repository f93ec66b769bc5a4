/* Schedule-free learning (Defazio et al. 2024): gradients are taken at y between the steps z of a chain and their average x,
 *
 *     z = z - lr modules(u),   x = (1 - c) x + c z,   y = (1 - beta) z + beta x,   c = L^2 / sum L^2,  L the largest lr so far
 *
 * and no schedule that knows the end is needed.  The parameters are y; x is the point to evaluate at (gd_optimizer_evaluate); it is not
 * kept, because y and z determine it.  In terms of these y moves by c (y - z) + lr (1 - beta (1 - c)) modules(u).
 * It has its own learning rate: `schedule_free([adam(beta1=0)], 0.0025)`.  State: z, and two numbers.  Element-wise, fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_CHILD("modules", "the chain whose steps are averaged; none: gradient descent"),
    GD_REAL("lr", 1, 0, INFINITY, "learning rate; where it changes, later steps weigh by its square"),
    GD_REAL("beta", 0.9, 1e-3, 1, "share of the average in where gradients are taken"),
};

static const gd_slot slots[] = {{"z", GD_SLOT_EXACT}};
static const char *const scalars[] = {"largest_lr", "weights"};

/* c: the share of this step in the average. */
static gd_value share_of_step(gd_rule *r, gd_value lr)
{
    gd_value largest = gd_rule_max(r, gd_rule_scalar(r, "largest_lr"), lr), zero = gd_rule_const(r, 0);
    gd_value weight = gd_rule_square(r, largest);
    gd_value sum = gd_rule_add(r, gd_rule_scalar(r, "weights"), weight);
    gd_rule_set_scalar(r, "largest_lr", largest);
    gd_rule_set_scalar(r, "weights", sum);
    return gd_rule_where(r, gd_rule_gt(r, sum, zero), gd_rule_div(r, weight, sum), zero);
}

static gd_value schedule_free_rule(gd_rule *r, gd_value u)
{
    gd_value one = gd_rule_const(r, 1), y = gd_rule_param(r), lr = gd_rule_setting(r, "lr"),
             beta = gd_rule_setting(r, "beta");
    if (gd_rule_has_child(r, "modules")) u = gd_rule_child(r, "modules", u);
    gd_value step = gd_rule_mul(r, lr, u), c = share_of_step(r, lr);
    gd_value z = gd_rule_state_or(r, "z", y), to_z = gd_rule_mul(r, c, gd_rule_sub(r, y, z));
    gd_rule_set(r, "z", gd_rule_sub(r, z, step));
    gd_value part = gd_rule_sub(r, one, gd_rule_mul(r, beta, gd_rule_sub(r, one, c)));
    return gd_rule_add(r, to_z, gd_rule_mul(r, part, step));
}

/* x = (y - (1 - beta) z) / beta */
static gd_tensor *average_of(gd_link *link, gd_tensor *param)
{
    if (!gd_link_has_state(link, param, "z")) return param;
    double beta = gd_link_real(link, "beta", param);
    gd_tensor *z = gd_link_state(link, param, "z");
    return gd_mul_scalar(gd_sub(param, gd_mul_scalar(z, 1 - beta)), 1 / beta);
}

GD_LINK(misc, schedule_free,
    .summary = "averages the steps of a chain instead of lowering its learning rate",
    .formula =
        "z = z - lr modules(u);  c = l^2 / sum of l^2, l the largest lr so far;  x = (1 - c) x + c z;  p = (1 - beta) z + beta x",
    .paper = "Defazio et al., The road less scheduled, NeurIPS 2024",
    .example = "schedule_free(adam, lr=0.001)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    GD_SCALARS(scalars),
    .rule = schedule_free_rule,
    .evaluated = average_of);
