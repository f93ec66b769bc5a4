/* Updates scaled by a cosine similarity, over all parameters as one vector:
 *
 *   scale_by_grad_cosine_similarity      u cos(u, g), g the gradient
 *   scale_modules_by_cosine_similarity   main(u) cos(main(u), compare(u))
 *
 * The product of the norms is at least eps.  No state.  One pass for the products. */
#include "gradus/link.h"

#include <math.h>

#define EPS GD_REAL("eps", 1e-6, 0, INFINITY, "least product of the norms")

static const gd_field grad_fields[] = {EPS};
static const gd_field modules_fields[] = {GD_CHILD_NEEDED("main", "the chain whose result is scaled"),
                                          GD_CHILD_NEEDED("compare", "the chain it is compared with"), EPS};

static gd_value scaled(gd_rule *r, gd_value x, gd_value other)
{
    gd_value norms = gd_rule_mul(r, gd_rule_norm(r, x, 2, GD_ALL), gd_rule_norm(r, other, 2, GD_ALL));
    gd_value along = gd_rule_sum(r, gd_rule_mul(r, x, other), GD_ALL);
    gd_value cosine = gd_rule_div(r, along, gd_rule_max(r, norms, gd_rule_setting(r, "eps")));
    return gd_rule_mul(r, x, cosine);
}

static gd_value by_grad_rule(gd_rule *r, gd_value u) { return scaled(r, u, gd_rule_grad(r)); }

static gd_value modules_rule(gd_rule *r, gd_value u)
{
    gd_value x = gd_rule_child(r, "main", u);
    return scaled(r, x, gd_rule_child(r, "compare", u));
}

GD_LINK(momentum, scale_by_grad_cosine_similarity,
    .summary = "scales the update by its cosine with the gradient",
    .formula = "u sum(u g) / max(norm(u) norm(g), eps)",
    .cost = "one more pass, for the norms",
    .example = "heavy_ball | scale_by_grad_cosine_similarity | lr(0.01)",
    GD_FIELDS(grad_fields),
    .rule = by_grad_rule,
    .traits.uses_grad = true);

GD_LINK(momentum, scale_modules_by_cosine_similarity,
    .summary = "scales the result of a chain by its cosine with that of a second chain",
    .formula = "m = main(u);  c = compare(u);  m dot(m, c) / max(norm(m) norm(c), eps)",
    .cost = "one more pass, for the norms",
    .example = "scale_modules_by_cosine_similarity(heavy_ball, ema(0.99)) | lr(0.01)",
    GD_FIELDS(modules_fields),
    .rule = modules_rule);
