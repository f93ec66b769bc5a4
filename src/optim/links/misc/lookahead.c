/* Lookahead: the chain takes k fast steps, then the slow weights go a share alpha of the way there and the fast ones start again
 * from them (Zhang et al. 2019).  The learning rate belongs inside the chain: a factor after it scales the return too.
 * State: slow.  Element-wise, fuses with its chain. */
#include "gradus/link.h"

static const gd_field fields[] = {
    GD_CHILD_NEEDED("modules", "the chain of the fast steps, with its learning rate"),
    GD_INT("k", 5, 1, 1e15, "fast steps to a slow one"),
    GD_REAL("alpha", 0.5, 0, 1, "share of the way that the slow weights go"),
};

static const gd_slot slots[] = {{"slow", GD_SLOT_EXACT}};

static gd_value lookahead_rule(gd_rule *r, gd_value u)
{
    gd_value p = gd_rule_param(r), t = gd_rule_step(r), k = gd_rule_setting(r, "k");
    gd_value fast = gd_rule_child(r, "modules", u), slow = gd_rule_state_or(r, "slow", p);
    gd_value due = gd_rule_eq(r, t, gd_rule_mul(r, k, gd_rule_floor(r, gd_rule_div(r, t, k))));
    gd_value there = gd_rule_lerp(r, slow, gd_rule_sub(r, p, fast), gd_rule_setting(r, "alpha"));
    slow = gd_rule_where(r, due, there, slow);
    gd_rule_set(r, "slow", slow);
    return gd_rule_where(r, due, gd_rule_sub(r, p, slow), fast);
}

GD_LINK(misc, lookahead,
    .summary = "slow weights that follow the fast ones of a chain",
    .formula = "every k steps: slow + alpha (p - modules(u) - slow), and p goes there; else modules(u)",
    .paper = "Zhang, Lucas, Hinton & Ba, Lookahead optimizer: k steps forward, 1 step back, NeurIPS 2019",
    .example = "lookahead([adam | lr(0.001)], k=5)",
    GD_FIELDS(fields),
    GD_SLOTS(slots),
    .rule = lookahead_rule);
