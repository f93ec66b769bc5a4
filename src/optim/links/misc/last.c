/* The update against the one before it: difference, product, ratio.  The first update is compared with a neutral value: zero for
 * the difference, one for product and ratio.
 *
 * last_grad_difference is about gradients, whatever earlier links did to the update: at the first step it is the gradient.  A ratio
 * to zero is infinite, of two zeros NaN; last_absolute_ratio divides by eps at least.
 * State: previous.  Element-wise, fuse. */
#include "gradus/link.h"

#define NUMERATOR GD_CHOICE("numerator", "cur", "cur|prev", "the numerator: this update or the last one")

static const gd_field grad_fields[] = {GD_STATE_IN};
static const gd_field target_fields[] = {GD_TARGET, GD_STATE_IN};
static const gd_field ratio_fields[] = {NUMERATOR, GD_TARGET, GD_STATE_IN};
static const gd_field absolute_fields[] = {
    NUMERATOR,
    GD_REAL("eps", 1e-8, 0, INFINITY, "least magnitude to divide by"),
    GD_TARGET,
    GD_STATE_IN,
};

static const gd_slot slots[] = {{"previous", 0}};

/* The value before; `first` if there is none. */
static gd_value exchange(gd_rule *r, gd_value now, double first)
{
    gd_value before = gd_rule_state_or(r, "previous", gd_rule_const(r, first));
    gd_rule_set(r, "previous", now);
    return before;
}

static gd_value last_difference_rule(gd_rule *r, gd_value u) { return gd_rule_sub(r, u, exchange(r, u, 0)); }

static gd_value last_grad_difference_rule(gd_rule *r, gd_value u)
{
    (void)u;
    gd_value g = gd_rule_grad(r);
    return gd_rule_sub(r, g, exchange(r, g, 0));
}

static gd_value last_product_rule(gd_rule *r, gd_value u) { return gd_rule_mul(r, u, exchange(r, u, 1)); }

/* now over before, or before over now; the first update as it is. */
static gd_value ratio(gd_rule *r, gd_value now, gd_value eps)
{
    bool other = gd_rule_is(r, "numerator", "prev");
    gd_value fresh = gd_rule_fresh(r, "previous"), before = exchange(r, now, 1);
    gd_value over = other ? before : now, under = other ? now : before;
    gd_value x = gd_rule_div(r, over, eps < 0 ? under : gd_rule_max(r, under, eps));
    return gd_rule_where(r, fresh, now, x);
}

static gd_value last_ratio_rule(gd_rule *r, gd_value u) { return ratio(r, u, -1); }

static gd_value last_absolute_ratio_rule(gd_rule *r, gd_value u)
{
    return ratio(r, gd_rule_abs(r, u), gd_rule_setting(r, "eps"));
}

#define LAST(NAME, SUMMARY, FORMULA, EXAMPLE, FIELDS) \
    GD_RULE_LINK(misc, NAME, SUMMARY, FORMULA, EXAMPLE, GD_FIELDS(FIELDS), GD_SLOTS(slots))

LAST(last_difference, "the update less the last one", "x = u - w;  w = u;  x",
     "add([last_difference | lr(0.9)]) | lr(0.01)", target_fields);
LAST(last_grad_difference, "the gradient less the last one", "x = g - w;  w = g;  x",
     "add([last_grad_difference | lr(0.9)]) | lr(0.01)", grad_fields);
LAST(last_product, "the update times the last one", "w_0 = 1;  x = u w;  w = u;  x",
     "mul([last_product | sign]) | lr(0.01)", target_fields);
LAST(last_ratio, "the update over the last one", "w_0 = 1;  x = u / w;  w = u;  x",
     "mul([last_ratio | clip(0.5, 2)]) | lr(0.01)", ratio_fields);
LAST(last_absolute_ratio, "magnitude of the update over that of the last one",
     "x = abs(u) where t <= 1, else abs(u) / max(w, eps);  w = abs(u);  x",
     "mul([last_absolute_ratio | clip(0.5, 2)]) | lr(0.01)", absolute_fields);
