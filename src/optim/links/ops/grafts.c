/* Grafts: the direction of one update with the norm of a second (Agarwal et al. 2020).  Norms are of each tensor, or of
 * all together with tensorwise=false; a direction shorter than eps counts as eps long.
 * No state of their own.  Two passes: the norms, then the rest. */
#include "gradus/link.h"

#define GRAFT_FIELDS                                                                         \
    GD_FLAG("tensorwise", true, "norms of each tensor; false: one over all"), GD_NORM_ORDER, \
        GD_REAL("eps", 1e-6, 0, INFINITY, "least norm of the direction to divide by")

static const gd_field magnitude_fields[] = {GD_CHILD_NEEDED("magnitude", "has the norm"), GRAFT_FIELDS};
static const gd_field direction_fields[] = {GD_CHILD_NEEDED("direction", "has the direction"), GRAFT_FIELDS};
static const gd_field modules_fields[] = {
    GD_CHILD_NEEDED("direction", "has the direction"), GD_CHILD_NEEDED("magnitude", "has the norm"),
    GRAFT_FIELDS,
    GD_REAL("strength", 1, -INFINITY, INFINITY, "share of the other norm; 0: the direction keeps its own")};

static gd_value norm_of(gd_rule *r, gd_value x)
{
    return gd_rule_norm(r, x, gd_rule_number(r, "ord"), gd_rule_flag(r, "tensorwise") ? GD_EACH : GD_ALL);
}

/* direction, scaled from its norm to a different one */
static gd_value scaled(gd_rule *r, gd_value direction, gd_value own, gd_value norm)
{
    gd_value factor = gd_rule_div(r, norm, gd_rule_max(r, own, gd_rule_setting(r, "eps")));
    return gd_rule_mul(r, direction, factor);
}

static gd_value graft_rule(gd_rule *r, gd_value u)
{
    return scaled(r, u, norm_of(r, u), norm_of(r, gd_rule_child(r, "magnitude", u)));
}

static gd_value rgraft_rule(gd_rule *r, gd_value u)
{
    gd_value direction = gd_rule_child(r, "direction", u);
    return scaled(r, direction, norm_of(r, direction), norm_of(r, u));
}

static gd_value graft_modules_rule(gd_rule *r, gd_value u)
{
    gd_value direction = gd_rule_child(r, "direction", u), own = norm_of(r, direction);
    gd_value norm = norm_of(r, gd_rule_child(r, "magnitude", u)), share = gd_rule_setting(r, "strength");
    gd_value rest = gd_rule_mul(r, gd_rule_sub(r, gd_rule_const(r, 1), share), own);
    return scaled(r, direction, own, gd_rule_add(r, rest, gd_rule_mul(r, share, norm)));
}

#define PAPER \
    "Agarwal, Anil, Hazan, Koren & Zhang, Disentangling adaptive gradient methods from learning rates, 2020"
#define GRAFT(NAME, RULE, FIELDS, SUMMARY, FORMULA, EXAMPLE) \
    GD_LINK(ops, NAME, .summary = SUMMARY, .formula = FORMULA, .paper = PAPER, \
            .cost = "one more pass, for the norms", .example = EXAMPLE, GD_FIELDS(FIELDS), \
            .rule = RULE)

GRAFT(graft, graft_rule, magnitude_fields, "direction of the update, norm of a chain",
      "m = magnitude(u);  u norm(m) / max(norm(u), eps)", "heavy_ball | graft(adam) | lr(0.001)");
GRAFT(rgraft, rgraft_rule, direction_fields, "direction of a chain, norm of the update",
      "d = direction(u);  d norm(u) / max(norm(d), eps)", "rgraft(adam) | lr(0.1)");
GRAFT(graft_to_update, rgraft_rule, direction_fields, "direction of a chain, norm of the update; rgraft",
      "d = direction(u);  d norm(u) / max(norm(d), eps)", "graft_to_update(ema(0.9)) | lr(0.1)");
GRAFT(graft_modules, graft_modules_rule, modules_fields, "direction of one chain, norm of a second",
      "d = direction(u);  m = magnitude(u);  n = (1 - strength) norm(d) + strength norm(m);  "
      "d n / max(norm(d), eps)",
      "graft_modules(lion, adam) | lr(0.001)");
