/* The default chain. */
#include "optim/solve/solve_internal.h"

#include "base/ctx.h"
#include "gradus/autograd.h"
#include "optim/vector/layout.h"

/* Parameters and constraints beyond which nlp, whose systems are dense and of that order, is not the default: a factorisation takes 0.4 s
 * and the run 190 MB at 2000, 3 s and four times the memory at 4000. */
#define MOST 2000

static int64_t numel_of(gd_tensor *(*fn)(void *user), void *user)
{
    gd_tensor *t = fn ? fn(user) : NULL;
    return t ? gd_numel(t) : 0;
}

/* Counts the constraints by calling them. */
static gd_status count_constraints(gd_ctx *ctx, const gd_objective *o, int64_t *count)
{
    gd_scope_begin(ctx);
    gd_no_grad_begin(ctx);
    *count = numel_of(o->equal, o->user);
    if (!gd_error(ctx)) *count += numel_of(o->below, o->user);
    gd_no_grad_end(ctx);
    gd_scope_end(ctx);
    return gd_error(ctx);
}

static bool has_second_derivatives(const gd_objective *o, const gd_evaluator *e)
{
    return e ? gd__evaluator_bends(e) : o->loss || (o->hvp && o->gradient);
}

/* As optimizers call it; *e: new, or NULL. */
static const gd_objective *single_callbacks(gd_tensor *const *params, int count, const gd_objective *given,
                                            gd_evaluator **e)
{
    gd_ctx *ctx = gd_tensor_ctx(params[0]);
    gd_tensor **wanted = gd__calloc(ctx, (size_t)count * sizeof *wanted);
    int active = 0;
    for (int i = 0; i < count && wanted; i++)
        if (params[i] && gd_requires_grad(params[i])) wanted[active++] = params[i];
    const gd_objective *single = wanted ? gd__evaluator_new(ctx, wanted, active, given, e) : NULL;
    gd__free(ctx, wanted, (size_t)count * sizeof *wanted);
    return single;
}

gd_link *gd__chain_for(gd_tensor *const *params, int count, const gd_objective *objective, bool noisy,
                       gd_evaluator **e)
{
    *e = NULL;
    if (!params || count <= 0 || !params[0] || !objective) return NULL;
    gd_ctx *ctx = gd_tensor_ctx(params[0]);
    int64_t rows = 0, n = 0;
    for (int i = 0; i < count; i++) n += gd_numel(params[i]);
    const gd_objective *o = single_callbacks(params, count, objective, e);
    if (!o) return NULL;
    if (!o->equal && !o->below) return gd_chain(ctx, GD_DEFAULT_CHAIN);
    bool dense = !noisy && !o->batch && has_second_derivatives(o, *e) && n <= MOST;
    if (dense && count_constraints(ctx, o, &rows)) return NULL;
    return gd_chain(ctx, dense && n + rows <= MOST ? "nlp" : "augmented_lagrangian([" GD_DEFAULT_CHAIN "])");
}

gd_link *gd_chain_for(gd_tensor *const *params, int count, const gd_objective *objective, bool noisy)
{
    gd_evaluator *e;
    gd_link *link = gd__chain_for(params, count, objective, noisy, &e);
    gd__evaluator_free(e);
    return link;
}
