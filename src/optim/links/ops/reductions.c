/* Combines any number of operands: sum, mean, product, largest, smallest, weighted.  Each is a number or the result of a
 * chain on the same update.  No state of their own; with element-wise chains one pass for all of it. */
#include "gradus/link.h"

typedef gd_value (*join_fn)(gd_rule *r, gd_value a, gd_value b);

static gd_value joined(gd_rule *r, gd_value u, join_fn join)
{
    gd_value out = gd_rule_child_at(r, 0, u);
    for (int i = 1; i < gd_rule_children(r); i++) out = join(r, out, gd_rule_child_at(r, i, u));
    return out;
}

static gd_value sum_rule(gd_rule *r, gd_value u) { return joined(r, u, gd_rule_add); }

static gd_value prod_rule(gd_rule *r, gd_value u) { return joined(r, u, gd_rule_mul); }

static gd_value maximum_modules_rule(gd_rule *r, gd_value u) { return joined(r, u, gd_rule_max); }

static gd_value minimum_modules_rule(gd_rule *r, gd_value u) { return joined(r, u, gd_rule_min); }

static gd_value mean_rule(gd_rule *r, gd_value u)
{
    return gd_rule_div(r, joined(r, u, gd_rule_add), gd_rule_const(r, gd_rule_children(r)));
}

static const gd_field fields[] = {GD_OPERANDS("inputs", "numbers and chains")};

#define REDUCTION(NAME, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(ops, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(fields))

REDUCTION(sum, "sum of chains", "sum(inputs(u))", "sum(heavy_ball, rmsprop) | lr(0.005)");
REDUCTION(mean, "mean of chains", "mean(inputs(u))", "mean(adam, lion) | lr(0.001)");
REDUCTION(prod, "product of chains", "prod(inputs(u))", "prod(sign, abs) | lr(0.1)");
REDUCTION(maximum_modules, "largest of chains, element by element", "max(inputs(u))",
          "maximum_modules(heavy_ball, rmsprop) | lr(0.005)");
REDUCTION(minimum_modules, "smallest of chains, element by element", "min(inputs(u))",
          "minimum_modules(heavy_ball, rmsprop) | lr(0.005)");

/* ---- with weights ---- */

static const gd_field weighted_fields[] = {
    GD_OPERANDS("inputs", "numbers and chains"),
    {.name = "weights", .kinds = GD_SET_LIST, .whole = true, .help = "as many numbers as inputs"},
};

static gd_status check_weights(gd_link *link)
{
    int inputs = gd_link_children(link), weights = gd_link_get(link, "weights", NULL)->list_count;
    if (inputs == weights) return GD_OK;
    return gd_fail(gd_link_ctx(link), GD_VALUE, "%s: %d inputs need as many weights, not %d",
                   gd_link_class_of(link)->name, inputs, weights);
}

static gd_value weighted_sum_rule(gd_rule *r, gd_value u)
{
    int count;
    const double *weights = gd_rule_list(r, "weights", &count);
    gd_value out = -1;
    for (int i = 0; i < count && i < gd_rule_children(r); i++) {
        gd_value term = gd_rule_mul(r, gd_rule_const(r, weights[i]), gd_rule_child_at(r, i, u));
        out = i ? gd_rule_add(r, out, term) : term;
    }
    return out;
}

static gd_value weighted_mean_rule(gd_rule *r, gd_value u)
{
    int count;
    double sum = 0;
    const double *weights = gd_rule_list(r, "weights", &count);
    for (int i = 0; i < count; i++) sum += weights[i];
    return gd_rule_div(r, weighted_sum_rule(r, u), gd_rule_const(r, sum));
}

#define WEIGHTED(NAME, SUMMARY, FORMULA, EXAMPLE) \
    GD_RULE_LINK(ops, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(weighted_fields), .check = check_weights)

WEIGHTED(weighted_sum, "sum of chains with weights", "sum(weights inputs(u))",
         "weighted_sum(ema(0.9), ema(0.99), weights=[2, -1]) | lr(0.1)");
WEIGHTED(weighted_mean, "mean of chains with weights", "sum(weights inputs(u)) / sum(weights)",
         "weighted_mean(adam, lion, weights=[3, 1]) | lr(0.001)");
