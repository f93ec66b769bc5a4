/* Which links may be one program, and which inputs of the step their rules read. */
#include "optim/rule/build.h"

#include <string.h>

bool gd__is_rule(const gd_link *link)
{
    if (link->cls->part) return gd__parts_fuse((gd_link *)link); /* which caches its result */
    return link->cls->rule && (!link->cls->element_wise || link->cls->element_wise(link));
}

bool gd__fusable_inside(gd_link *link)
{
    if (!gd__is_chain(link) && !gd__is_rule(link)) return false;
    const gd_setting *target = gd__in_force(link, "target"), *freq = gd__in_force(link, "update_freq");
    if (link->cls->target || (target && strcmp(target->string, "update"))) return false;
    if (freq && freq->kind == GD_SET_REAL && freq->real != 1) return false;
    for (int i = 0; i < link->children; i++)
        if (!gd__fusable(link->child[i])) return false;
    return true;
}

static bool is_fusable(gd_link *link)
{
    return !link->cls->pre_step && !link->cls->post_step && gd__fusable_inside(link);
}

static gd_needs needs_below(const gd_link *link)
{
    gd_needs n = {.grad = link->cls->traits.uses_grad || link->reads_grad,
                  .loss = link->cls->traits.uses_loss || link->reads_loss};
    for (int i = 0; i < link->children && !(n.grad && n.loss); i++) {
        gd_needs below = needs_below(link->child[i]);
        n.grad = n.grad || below.grad;
        n.loss = n.loss || below.loss;
    }
    return n;
}

void gd__find_facts(gd_link *link)
{
    link->found.fuses = is_fusable(link); /* may find which inputs rules below read */
    gd_needs needs = needs_below(link);
    link->found.needs_grad = needs.grad;
    link->found.needs_loss = needs.loss;
    link->found.structure = link->optimizer ? link->optimizer->structure : 0;
}

bool gd__rules_need_more(gd_ctx *ctx, const gd_pending *pending, int pendings, gd_needs *had)
{
    gd_needs now = gd__rules_need(pending, pendings);
    if (now.grad == had->grad && now.loss == had->loss) return false;
    *had = now;
    gd_clear_error(ctx);
    return true;
}
