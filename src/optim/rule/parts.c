/* Links whose children have parameters of their own: may these be one program with the others?
 *
 * Reductions over all parameters are joined over everything that a plan runs over.  A chain that has one, over the parameters
 * that are its own, therefore runs by itself.  Whether it has one depends on its settings and is seen in its programs. */
#include "optim/rule/build.h"

static bool reduces_all(const gd_program *p)
{
    for (int k = 0; k < p->reductions; k++)
        if (p->instr[p->reduction[k]].extent == GD_ALL) return true;
    for (int u = 0; u < p->uniforms; u++)
        if (p->uniform[u].kind == GD_U_NUMEL && p->uniform[u].index == GD_ALL) return true;
    return false;
}

/* New, or NULL, with no error: whoever runs the chain by itself finds out why. */
static gd_program *program_of(gd_link *link, gd_tensor *param)
{
    gd_ctx *ctx = link->head.ctx;
    gd_pending pending = {.link = link, .mode = GD_MODE_STEP};
    gd_build build = {.ctx = ctx,
                      .optimizer = link->optimizer,
                      .pending = &pending,
                      .pendings = 1,
                      .param = param,
                      .key = param,
                      .input_dtype = param->dtype,
                      .grad_dtype = param->dtype,
                      .input_is_grad = true};
    gd_needs needs = gd__rules_need(&pending, 1);
    gd_program *p;
    do p = gd__build(&build);
    while (!p && gd__rules_need_more(ctx, &pending, 1, &needs));
    if (!p) gd_clear_error(ctx);
    return p;
}

/* A program that cannot be made is none that fuses. */
static bool joins_others(gd_link *link, gd_tensor *param)
{
    gd_program *p = program_of(link, param);
    bool joins = p && !reduces_all(p);
    gd__program_free(p);
    return joins;
}

/* Outside of an optimizer nothing is known about parameters: one element represents them. */
static bool joins_anyway(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *one = gd_zeros(ctx, GD_F32, 1, (int64_t[]){1});
    bool joins = one != NULL;
    for (int i = 0; i < link->children && joins; i++) joins = joins_others(link->child[i], one);
    gd_scope_end(ctx);
    if (!one) gd_clear_error(ctx);
    return joins;
}

static bool look_at_parts(gd_link *link)
{
    const gd_optimizer *o = link->optimizer;
    for (int i = 0; i < link->children; i++)
        if (!gd__fusable(link->child[i])) return false;
    if (!o) return joins_anyway(link);
    for (int i = 0; i < o->count; i++) {
        int child = link->cls->part(link, o->param[i].tensor);
        if (child >= 0 && child < link->children && !joins_others(link->child[child], o->param[i].tensor))
            return false;
    }
    return true;
}

bool gd__parts_fuse(gd_link *link)
{
    const gd_optimizer *o = link->optimizer;
    if (o && link->found.parts == o->structure) return link->found.parts_fuse;
    link->found.parts_fuse = look_at_parts(link);
    link->found.parts = o ? o->structure : 0;
    return link->found.parts_fuse;
}

/* ---- pieces of tensors ---- */

/* Does an element need only values at its own position? */
static bool stays_in_place(const gd_program *p)
{
    bool stays = p && !p->reductions && !p->axes;
    for (int k = 0; stays && k < p->arrays; k++)
        stays = p->array[k].kind != GD_ARRAY_RANDOM && !p->array[k].by_chance;
    for (int u = 0; stays && u < p->uniforms; u++) stays = p->uniform[u].kind != GD_U_NUMEL;
    return stays;
}

static bool rule_is_local(gd_link *link)
{
    gd_ctx *ctx = link->head.ctx;
    gd_scope_begin(ctx);
    gd_tensor *one = gd_zeros(ctx, GD_F32, 1, (int64_t[]){1});
    gd_program *p = one ? program_of(link, one) : NULL;
    bool local = stays_in_place(p);
    gd__program_free(p);
    gd_scope_end(ctx);
    if (!one) gd_clear_error(ctx);
    return local;
}

bool gd_link_is_local(gd_link *link)
{
    if (!link) return false;
    bool local = gd__is_chain(link) || (gd__is_rule(link) && gd_link_spread(link) == GD_SPREAD_FLAT);
    for (int i = 0; local && i < link->children; i++) local = gd_link_is_local(link->child[i]);
    /* what chooses among children or calls them is a rule too; what it does with them is in its program */
    return local && (gd__is_chain(link) || rule_is_local(link));
}
