/* Children that step over stand-ins: see gradus/link/projection.h and link/stand_in.c. */
#include "gradus/autograd.h"
#include "gradus/link/projection.h"
#include "optim/step/optimizer.h"
#include "optim/vector/origin.h"

#include <string.h>

int64_t gd_project_each(const gd_tensor *param)
{
    (void)param;
    return 1;
}

/* A step over stand-ins.  Memory belongs to the step. */
typedef struct projected {
    gd_link *link;
    gd_var *var; /* over the parameters */
    const gd_projection *by;
    gd_tensor **stand_in, **scratch; /* as many of each */
    uint32_t *version;               /* of the stand-ins when they were set */
    int count;
    gd_origin here; /* where the parameters are while the closure moves them */
} projected;

/* ---- projection and back ---- */

static gd_status all_there(gd_ctx *ctx, gd_status status, gd_tensor *const *list, int count)
{
    for (int i = 0; i < count && !status; i++)
        if (!list[i])
            status = gd_error(ctx) ? gd_error(ctx) : gd_fail(ctx, GD_CALLBACK, "a projection gave NULL");
    return status;
}

/* Tensors of the innermost scope. */
static gd_status there(projected *p, gd_tensor *const *tensors, gd_tensor **out)
{
    gd_ctx *ctx = p->var->ctx;
    memset(out, 0, (size_t)p->count * sizeof *out);
    gd_no_grad_begin(ctx);
    gd_status status = p->by->project(p->link, tensors, p->var->count, out);
    gd_no_grad_end(ctx);
    return all_there(ctx, status, out, p->count);
}

static gd_status back(projected *p, gd_tensor *const *stand_ins, gd_tensor ***out)
{
    gd_ctx *ctx = p->var->ctx;
    if (!(*out = gd_link_scratch(p->link, p->var->count))) return gd_error(ctx);
    gd_no_grad_begin(ctx);
    gd_status status = p->by->unproject(p->link, stand_ins, p->var->params, p->var->count, *out);
    gd_no_grad_end(ctx);
    return all_there(ctx, status, *out, p->var->count);
}

/* ---- the closure of the child ---- */

static gd_status evaluate_there(projected *p, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    gd_tensor **params;
    bool history = p->var->grad_history;
    gd_status status = back(p, p->stand_in, &params);
    if (!status) status = gd_var_restore_params(p->var, params);
    if (!status) status = gd_var_evaluate(p->var, loss, backward ? grads : NULL);
    p->var->grad_history = history;
    return status;
}

/* The objective at the point of the stand-ins; afterwards the parameters are restored bit for bit. */
static gd_status see_through(void *user, gd_var *child, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    projected *p = user;
    (void)child;
    gd_tensor **list = gd_link_scratch(p->link, p->var->count);
    gd_status status = list ? gd__origin_keep(&p->here, p->var->ctx, p->var->params, p->var->count)
                            : gd_error(p->var->ctx);
    if (!status) {
        status = evaluate_there(p, backward, loss, list);
        gd_status returned = gd__origin_return(&p->here);
        if (!status) status = returned;
    }
    return status || !backward ? status : there(p, list, grads);
}

/* ---- the step ---- */

/* For each parameter its stand-ins, shaped like the scratch tensors whose values they will hold. */
static gd_status gather(projected *p)
{
    gd_status status = GD_OK;
    for (int i = 0, k = 0; k < p->count && !status; i++) {
        gd_tensor *param = p->by->parts ? p->var->params[i] : NULL;
        int n = p->by->parts ? (int)p->by->parts(param) : 1;
        gd_tensor *const *list = NULL;
        status = n ? gd__stand_ins(p->link, param, p->scratch + k, n, &list) : GD_OK;
        if (!status && n) memcpy(p->stand_in + k, list, (size_t)n * sizeof *list);
        k += n;
    }
    return status;
}

static gd_status set_stand_ins(projected *p, bool values)
{
    gd_status status = there(p, p->var->params, p->scratch);
    if (!status) status = gather(p);
    for (int k = 0; k < p->count && !status; k++) {
        status = values ? gd_assign(p->stand_in[k], p->scratch[k]) : gd_fill(p->stand_in[k], 0);
        p->version[k] = gd__version(p->stand_in[k]);
    }
    return status;
}

static gd_status open_projected(projected *p, unsigned what)
{
    int64_t count = p->by->parts ? 0 : 1;
    for (int i = 0; p->by->parts && i < p->var->count; i++) count += p->by->parts(p->var->params[i]);
    if (count > INT32_MAX / 4)
        return gd_fail(p->var->ctx, GD_OVERFLOW, "%s: %lld tensors are too many", p->link->cls->name,
                       (long long)count);
    p->count = (int)count;
    p->stand_in = gd_link_scratch(p->link, 2 * p->count);
    p->version = gd_link_memory(p->link, (size_t)p->count * sizeof *p->version);
    if (!p->stand_in || !p->version) return gd_error(p->var->ctx);
    p->scratch = p->stand_in + p->count;
    return set_stand_ins(p, what & GD_PROJECT_PARAMS);
}

/* The step as the child sees it. */
static gd_status give(projected *p, gd_var *child, unsigned what)
{
    gd_var *var = p->var;
    gd_var_set_params(child, p->stand_in, p->count);
    bool evaluates = what & GD_PROJECT_PARAMS && var->closure;
    gd_status status = evaluates ? gd_var_wrap_closure(child, see_through, p) : GD_OK;
    if (!evaluates) child->closure = NULL;
    if (!status && what & GD_PROJECT_UPDATE) {
        gd_tensor *const *update = gd_var_read_update(var);
        status = update ? there(p, update, p->scratch) : gd_error(var->ctx);
        if (!status) status = gd_var_set_update(child, p->scratch);
    }
    if (!status && what & GD_PROJECT_GRAD && var->grad) {
        status = there(p, var->grad, p->scratch);
        if (!status) status = gd_var_set_grad(child, p->scratch);
    }
    return status;
}

static bool moved(const projected *p)
{
    for (int k = 0; k < p->count; k++)
        if (gd__version(p->stand_in[k]) != p->version[k]) return true;
    return false;
}

/* The result belongs to the var. */
static gd_status take_over(projected *p, gd_var *child)
{
    gd_var *var = p->var;
    gd_tensor **list;
    gd_tensor *const *update = gd_var_read_update(child);
    gd_status status = update ? back(p, update, &list) : gd_error(var->ctx);
    if (!status) status = gd_var_set_update(var, list);
    if (!status && moved(p)) {
        status = back(p, p->stand_in, &list);
        if (!status) status = gd_var_restore_params(var, list);
    }
    gd_var_take_from(var, child);
    var->skip = var->skip || child->skip;
    var->held = var->held || child->held;
    var->stop = var->stop || child->held;
    return status;
}

static gd_status step(projected *p, gd_link *link, unsigned what)
{
    gd_status status = open_projected(p, what);
    gd_var *child = status ? NULL : gd_var_clone(p->var, false, NULL);
    if (!status && !child) status = gd_error(p->var->ctx);
    if (!status) status = give(p, child, what);
    if (!status) status = gd_link_step(link, child);
    if (!status) status = take_over(p, child);
    gd_var_free(child);
    return status;
}

gd_status gd_link_step_projected(gd_link *link, gd_link *child, gd_var *var, const gd_projection *projection,
                                 unsigned what)
{
    if (!link || !child || !var || !projection || !projection->project || !projection->unproject)
        return gd__null(gd_link_ctx(link), "a projection: its link, child, step or functions are NULL");
    gd_ctx *ctx = var->ctx;
    /* later links request the closure again, but not that of this child: it ends here */
    projected *p = gd_link_memory(link, sizeof *p);
    if (!p) return gd_error(ctx);
    *p = (projected){.link = link, .var = var, .by = projection};
    gd_status status = step(p, child, what);
    gd__origin_free(&p->here);
    return status;
}
