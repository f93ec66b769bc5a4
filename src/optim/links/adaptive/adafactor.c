/* adafactor: Adam's second moment kept as a number per row and one per column (Shazeer & Stern, ICML 2018, algorithms 4 and 5).
 * Of the two longest axes, the rows being the one that comes first, with g2 = g^2 + eps1 and b = 1 - t^-decay:
 *   R = b R + (1 - b) mean of g2 along columns     C = b C + (1 - b) mean of g2 along rows     V = R C / mean(R)
 * Tensors with no second axis longer than 1 keep V = b V + (1 - b) g2 itself.
 *   u = g / sqrt(V);   u / max(1, RMS(u) / clip);   times max(eps2, RMS(p)) if scale_parameter is set
 * State: row and column, or exp_avg_sq.  Cost: a pass that reads gradient and parameter, one that reads the gradient for
 * RMS(u), then fuses. */
#include "gradus/link.h"

#include <math.h>

static const gd_field fields[] = {
    GD_REAL("decay", 0.8, 0, INFINITY, "the second moment's decay is 1 - t^-decay"),
    GD_REAL("eps1", 1e-30, 0, INFINITY, "added to squares"),
    GD_REAL("eps2", 1e-3, 0, INFINITY, "least size of a parameter"),
    GD_REAL("clip", 1, 1e-30, INFINITY, "largest root mean square of the update"),
    GD_FLAG("scale_parameter", true, "steps in sizes of the parameter"),
    GD_STATE_IN,
};

static const gd_slot slots[] = {
    {"row", GD_SLOT_PARTIAL}, {"column", GD_SLOT_PARTIAL}, {"exp_avg_sq", GD_SLOT_SQUARE}};

/* The two longest axes in their order; false: the second moment is kept whole. */
static bool find_factors(gd_rule *r, int *row, int *column)
{
    int first = 0, second = -1;
    for (int i = 1; i < gd_rule_ndim(r); i++) {
        if (gd_rule_size(r, i) > gd_rule_size(r, first)) {
            second = first;
            first = i;
        } else if (second < 0 || gd_rule_size(r, i) > gd_rule_size(r, second))
            second = i;
    }
    *row = first < second ? first : second;
    *column = first < second ? second : first;
    return second >= 0 && gd_rule_size(r, second) > 1;
}

static gd_value averaged(gd_rule *r, const char *slot, gd_value x)
{
    gd_value fall = gd_rule_pow(r, gd_rule_step(r), gd_rule_neg(r, gd_rule_setting(r, "decay")));
    gd_value v = gd_rule_lerp(r, gd_rule_state(r, slot), x, fall);
    gd_rule_set(r, slot, v);
    return v;
}

static gd_value mean_along(gd_rule *r, gd_value x, unsigned axes)
{
    return gd_rule_div(r, gd_rule_sum_along(r, x, axes), gd_rule_count_along(r, axes));
}

/* 1 / sqrt(V). */
static gd_value factored(gd_rule *r, gd_value g2, int row, int column)
{
    gd_rule_slot_without(r, "row", 1u << column);
    gd_rule_slot_without(r, "column", 1u << row);
    gd_value rows = averaged(r, "row", mean_along(r, g2, 1u << column));
    gd_value columns = averaged(r, "column", mean_along(r, g2, 1u << row));
    gd_value share = gd_rule_div(r, rows, mean_along(r, rows, 1u << row)), one = gd_rule_const(r, 1);
    return gd_rule_mul(r, gd_rule_div(r, one, gd_rule_sqrt(r, share)),
                       gd_rule_div(r, one, gd_rule_sqrt(r, columns)));
}

static gd_value root_mean_square(gd_rule *r, gd_value x)
{
    return gd_rule_sqrt(r, gd_rule_div(r, gd_rule_sum(r, gd_rule_square(r, x), GD_EACH), gd_rule_numel(r)));
}

static gd_value adafactor_rule(gd_rule *r, gd_value g)
{
    int row, column;
    gd_value g2 = gd_rule_add(r, gd_rule_square(r, g), gd_rule_setting(r, "eps1")), one = gd_rule_const(r, 1);
    gd_value u = find_factors(r, &row, &column)
                     ? gd_rule_mul(r, g, factored(r, g2, row, column))
                     : gd_rule_div(r, g, gd_rule_sqrt(r, averaged(r, "exp_avg_sq", g2)));
    gd_value size = gd_rule_div(r, root_mean_square(r, u), gd_rule_setting(r, "clip"));
    gd_value factor = gd_rule_div(r, one, gd_rule_max(r, one, size));
    if (gd_rule_flag(r, "scale_parameter"))
        factor = gd_rule_mul(
            r, factor, gd_rule_max(r, gd_rule_setting(r, "eps2"), root_mean_square(r, gd_rule_param(r))));
    return gd_rule_mul(r, u, factor);
}

static bool along_axes(const gd_link *link) { return link != NULL; }

GD_LINK(adaptive, adafactor,
    .summary = "Adam's scaling, the squares of matrices kept as a number per row and one per column",
    .formula = "v = (1 - t^(-decay)) v + t^(-decay) (u^2 + eps1);  w = u / sqrt(v);  "
               "w / max(1, sqrt(sum(w^2) / sum(1)) / clip) max(eps2, sqrt(sum(p^2) / sum(1)))",
    .paper = "Shazeer & Stern, Adafactor: adaptive learning rates with sublinear memory cost, ICML 2018",
    .cost = "one more pass for the norms; for matrices one more for the sums along rows and columns",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = adafactor_rule,
    .along_axes = along_axes);
