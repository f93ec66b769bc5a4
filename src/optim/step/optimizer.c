/* Optimizers: their life.  Parameters and attributes are in link/params.c, groups in link/groups.c. */
#include "gradus/dlpack.h"
#include "optim/step/objective/evaluator.h"
#include "optim/step/objective/traced.h"
#include "optim/step/optimizer.h"
#include "optim/step/distribute.h"
#include "gradus/autograd.h"
#include "optim/text/setting.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

/* ---- life ---- */

/* The optimizer takes the chain, if possible. */
static gd_status take_chain(gd_optimizer *o, gd_link *chain)
{
    gd_ctx *ctx = o->ctx;
    if (chain->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: the chain is of a different context");
    if (chain->owned)
        return gd_fail(ctx, GD_STATE, "optimizer: the link '%s' is already in use", chain->cls->name);
    if (gd__is_chain(chain) && !chain->children)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: the chain is empty");
    gd_status status = gd__link_adopt(chain, o);
    if (status) return status;
    o->chain = chain;
    chain->owned = true;
    return GD_OK;
}

gd_optimizer *gd_optimizer_new(gd_ctx *ctx, gd_link *chain)
{
    if (!ctx) gd_link_release(chain);
    if (!ctx || !chain) return gd__null(ctx, "optimizer: there is no chain"), NULL;
    gd_optimizer *o = gd__calloc(ctx, sizeof *o);
    gd_group *group = o ? gd__calloc(ctx, sizeof *group) : NULL;
    if (!group) {
        gd__free(ctx, o, sizeof *o);
        gd_link_release(chain);
        return NULL;
    }
    *o = (gd_optimizer){.ctx = ctx,
                        .grouping.list = group,
                        .grouping.count = 1,
                        .grouping.room = 1,
                        .structure = 1,
                        .numbers = 1,
                        .slots = 1,
                        .form = 1,
                        .most_pending = GD_MAX_PENDING,
#ifdef GD_ALWAYS_LOOK
                        .test.always_look = true,
#endif
                        .state_dtype = GD_DTYPE_COUNT};
    ctx->live++;
    if (take_chain(o, chain)) {
        gd_link_release(chain);
        gd_optimizer_free(o);
        return NULL;
    }
    gd__warn_of_rates(o);
    return o;
}

void gd_optimizer_free(gd_optimizer *o)
{
    if (!o) return;
    gd_ctx *ctx = o->ctx;
    gd__plans_free(ctx, o->plans);
    gd__share_free(o);
    if (o->chain) {
        (void)!gd__link_adopt(o->chain, NULL);
        o->chain->owned = false;
        gd__release(o->chain);
    }
    for (int i = 0; i < o->count; i++) {
        gd__param_drop(&o->param[i]);
        gd__release(o->param[i].tensor);
        gd__release(o->param[i].aside);
        gd__strfree(ctx, o->param[i].name);
    }
    gd__free(ctx, o->param, (size_t)o->capacity * sizeof *o->param);
    gd__map_free(ctx, &o->table);
    for (int i = 0; i < o->grouping.count; i++) gd__group_free(ctx, &o->grouping.list[i]);
    gd__group_free(ctx, &o->grouping.all);
    gd__free(ctx, o->grouping.list, (size_t)o->grouping.room * sizeof *o->grouping.list);
    for (int i = 0; i < o->attrs; i++) gd__release(o->attr[i].tensor);
    gd__free(ctx, o->attr, (size_t)o->attrs * sizeof *o->attr);
    gd__free(ctx, o->looked.active, (size_t)o->looked.room * 2 * sizeof *o->looked.active);
    gd__traced_objective_free(o);
    gd__evaluator_free(o->asked.evaluator);
    gd__release(o->asked.first_loss);
    gd__free(ctx, o->asked.spare, (size_t)o->asked.spares * sizeof *o->asked.spare);
    gd__release(o->model);
    ctx->live--;
    gd__free(ctx, o, sizeof *o);
}

int64_t gd_optimizer_steps(const gd_optimizer *o) { return o ? o->step : 0; }
int64_t gd_optimizer_evals(const gd_optimizer *o) { return o ? o->evals : 0; }
bool gd_optimizer_should_terminate(const gd_optimizer *o) { return o && o->should_terminate; }

void gd_optimizer_zero_grad(gd_optimizer *o)
{
    if (!o) return;
    for (int i = 0; i < o->count; i++) gd_zero_grad(o->param[i].tensor);
    if (o->shared.call) o->shared.call->forget(o);
}

gd_status gd_optimizer_zero_grad_in_place(gd_optimizer *o)
{
    if (!o) return GD_ARGUMENT;
    gd_status status = GD_OK;
    for (int i = 0; i < o->count && !status; i++) status = gd_zero_grad_in_place(o->param[i].tensor);
    if (o->shared.call) o->shared.call->forget(o);
    return status;
}

gd_status gd_optimizer_skip_missing(gd_optimizer *o, bool on)
{
    if (!o) return GD_ARGUMENT;
    gd_status status = gd__not_stepping(o, "skipping parameters");
    if (!status) o->skips_missing = on;
    return status;
}

void gd_optimizer_reset(gd_optimizer *o)
{
    if (!o) return;
    gd_link_reset(o->chain);
    o->step = o->evals = o->constraint_evals = o->held = 0;
    o->should_terminate = o->shared.partial = false;
}

/* ---- updating to the module's present tensors ---- */

static gd_status check_rebind(gd_optimizer *o, int i, gd_tensor *now)
{
    const gd_tensor *old = o->param[i].tensor;
    char a[256], b[256];
    if (!gd__same_shape(old, now) || !gd__same_axes(now, old))
        return gd_fail(o->ctx, GD_SHAPE, "rebind: parameter '%.80s' was %s and is %s now", o->param[i].name,
                       gd__shape_text(old, a, sizeof a), gd__shape_text(now, b, sizeof b));
    if (gd__param_index(o, now) >= 0)
        return gd_fail(o->ctx, GD_ARGUMENT, "rebind: '%.80s' is already there under a different name",
                       o->param[i].name);
    return GD_OK;
}

static void rebind_one(gd_optimizer *o, int i, gd_tensor *now)
{
    gd_tensor *old = o->param[i].tensor;
    gd__entries_rekey(o->chain, old, now);
    gd__retain(now);
    o->param[i].tensor = now;
    gd__release(old);
}

gd_status gd_optimizer_rebind(gd_optimizer *o, gd_module *module)
{
    if (!o || !module) return gd__null(gd_optimizer_ctx(o), "rebind: the module is NULL");
    gd_status status = gd__not_stepping(o, "rebinding");
    gd_named *named = status ? NULL : gd_module_parameters(module, NULL);
    if (!named) return status ? status : gd_error(o->ctx);
    int found = 0;
    for (int i = 0; i < o->count && !status; i++) {
        gd_tensor *now = gd_named_find(named, o->param[i].name);
        found += now != NULL;
        if (now && now != o->param[i].tensor) status = check_rebind(o, i, now);
    }
    if (!status && !found)
        status = gd_fail(o->ctx, GD_ATTRIBUTE,
                         "rebind: the module has no parameter of the optimizer's names");
    for (int i = 0; i < o->count && !status; i++) {
        gd_tensor *now = gd_named_find(named, o->param[i].name);
        if (now && now != o->param[i].tensor) rebind_one(o, i, now);
    }
    gd_named_release(named);
    if (status) return status;
    gd__params_truncate(o, o->count); /* the table of addresses again */
    return GD_OK;
}

/* ---- state ---- */

static bool has_state(const gd_link *link)
{
    for (int i = 0; i < link->entries; i++)
        for (int k = 0; k < link->cls->slot_count; k++)
            if (link->entry[i]->slot[k] || link->entry[i]->parted) return true;
    for (int i = 0; i < link->children; i++)
        if (has_state(link->child[i])) return true;
    return false;
}

gd_status gd_optimizer_state_dtype(gd_optimizer *o, gd_dtype dtype)
{
    if (!o) return GD_ARGUMENT;
    if (dtype != GD_DTYPE_COUNT && dtype != GD_U8 && !gd_dtype_is_float(dtype))
        return gd_fail(o->ctx, GD_DTYPE, "optimizer: state cannot be %s", gd_dtype_name(dtype));
    if (dtype == o->state_dtype) return GD_OK;
    if (has_state(o->chain))
        return gd_fail(o->ctx, GD_STATE,
                       "optimizer: there is state already; reset it before choosing a different dtype");
    o->state_dtype = dtype;
    gd__optimizer_changed(o, true);
    return GD_OK;
}
