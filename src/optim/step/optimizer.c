/* Optimizers: their life, attributes and parameters.  Groups are in groups.c. */
#include "gradus/dlpack.h"
#include "optim/step/objective/traced.h"
#include "optim/step/optimizer.h"
#include "optim/step/objective/bounds.h"
#include "optim/step/distribute.h"
#include "gradus/autograd.h"
#include "optim/plan/plan.h"
#include "optim/text/setting.h"
#include "tensor/device.h"
#include "tensor/elementwise.h"

#include <string.h>

int gd__param_index(const gd_optimizer *o, const gd_tensor *param) { return gd__map_find(&o->table, param); }

/* ---- life ---- */

/* The chain becomes the optimizer's, if it can. */
static gd_status take_chain(gd_optimizer *o, gd_link *chain)
{
    gd_ctx *ctx = o->ctx;
    if (chain->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: the chain is of another context");
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
                        .group = group,
                        .groups = 1,
                        .group_room = 1,
                        .structure = 1,
                        .numbers = 1,
                        .slots = 1,
                        .form = 1,
                        .most_pending = GD_MAX_PENDING,
#ifdef GD_ALWAYS_LOOK
                        .always_look = true,
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

/* What is kept for a parameter besides its name and state. */
static void param_drop(gd_param *p)
{
    gd__bounds_drop(p);
    gd__free(p->tensor->head.ctx, p->cut, (size_t)(p->ranks + 1) * sizeof *p->cut);
    gd__release(p->own_grad);
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
        param_drop(&o->param[i]);
        gd__release(o->param[i].tensor);
        gd__release(o->param[i].aside);
        gd__strfree(ctx, o->param[i].name);
    }
    gd__free(ctx, o->param, (size_t)o->capacity * sizeof *o->param);
    gd__map_free(ctx, &o->table);
    for (int i = 0; i < o->groups; i++) gd__group_free(ctx, &o->group[i]);
    gd__group_free(ctx, &o->all);
    gd__free(ctx, o->group, (size_t)o->group_room * sizeof *o->group);
    for (int i = 0; i < o->attrs; i++) gd__release(o->attr[i].tensor);
    gd__free(ctx, o->attr, (size_t)o->attrs * sizeof *o->attr);
    gd__free(ctx, o->looked.active, (size_t)o->looked.room * 2 * sizeof *o->looked.active);
    gd__traced_objective_free(o);
    gd__release(o->first_loss);
    gd__release(o->model);
    ctx->live--;
    gd__free(ctx, o, sizeof *o);
}

gd_ctx *gd_optimizer_ctx(const gd_optimizer *o) { return o ? o->ctx : NULL; }
gd_link *gd_optimizer_chain(const gd_optimizer *o) { return o ? o->chain : NULL; }
int gd_optimizer_count(const gd_optimizer *o) { return o ? o->count : 0; }
int gd_optimizer_groups(const gd_optimizer *o) { return o ? o->groups : 0; }
int64_t gd_optimizer_steps(const gd_optimizer *o) { return o ? o->step : 0; }
int64_t gd_optimizer_evals(const gd_optimizer *o) { return o ? o->evals : 0; }
bool gd_optimizer_should_terminate(const gd_optimizer *o) { return o && o->should_terminate; }

gd_tensor *gd_optimizer_param(const gd_optimizer *o, int i)
{
    if (!o) return NULL;
    return i >= 0 && i < o->count ? o->param[i].tensor : NULL;
}

const char *gd_optimizer_param_name(const gd_optimizer *o, int i)
{
    if (!o) return NULL;
    return i >= 0 && i < o->count ? o->param[i].name : NULL;
}

void gd_optimizer_zero_grad(gd_optimizer *o)
{
    if (!o) return;
    for (int i = 0; i < o->count; i++) gd_zero_grad(o->param[i].tensor);
    if (o->ranks) o->ranks->forget(o);
}

gd_status gd_optimizer_zero_grad_in_place(gd_optimizer *o)
{
    if (!o) return GD_ARGUMENT;
    gd_status status = GD_OK;
    for (int i = 0; i < o->count && !status; i++) status = gd_zero_grad_in_place(o->param[i].tensor);
    if (o->ranks) o->ranks->forget(o);
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
    o->should_terminate = o->partially_updated = false;
}

/* ---- attributes ---- */

gd_status gd__set_attr(gd_optimizer *o, const char *name, double value, gd_tensor *tensor)
{
    int i = 0;
    while (i < o->attrs && strcmp(o->attr[i].name, name)) i++;
    if (i == o->attrs) {
        size_t n = (size_t)o->attrs, size = sizeof *o->attr;
        const char *interned = gd__intern(o->ctx, name, strlen(name));
        gd_attr *list = interned ? gd__realloc(o->ctx, o->attr, n * size, (n + 1) * size) : NULL;
        if (!list) return GD_NOMEM;
        o->attr = list;
        list[o->attrs++] = (gd_attr){.name = interned};
    }
    gd__retain(tensor);
    gd__release(o->attr[i].tensor);
    o->attr[i].value = value;
    o->attr[i].tensor = tensor;
    return GD_OK;
}

double gd_optimizer_attr(const gd_optimizer *o, const char *name, double otherwise)
{
    for (int i = 0; o && name && i < o->attrs; i++)
        if (!strcmp(o->attr[i].name, name)) return o->attr[i].value;
    return otherwise;
}

gd_tensor *gd_optimizer_attr_tensor(const gd_optimizer *o, const char *name)
{
    for (int i = 0; o && name && i < o->attrs; i++)
        if (!strcmp(o->attr[i].name, name)) return o->attr[i].tensor;
    return NULL;
}

/* ---- parameters ---- */

/* Parameters and groups stay as they are while a step runs. */
gd_status gd__not_stepping(gd_optimizer *o, const char *what)
{
    if (!o->stepping && !o->evaluating) return GD_OK;
    return gd_fail(o->ctx, GD_STATE, "optimizer: %s is not possible %s", what,
                   o->stepping ? "inside a step" : "until gd_optimizer_evaluate has put the parameters back");
}

gd_status gd__refuse_partial(gd_optimizer *o, const char *what)
{
    if (!o->partially_updated) return GD_OK;
    return gd_fail(o->ctx, GD_STATE,
                   "optimizer: %s is not possible: a step failed while parameters were on their way between "
                   "ranks, and they are partly changed; load model and optimizer from a checkpoint",
                   what);
}

static gd_status check_param(gd_optimizer *o, const char *name, gd_tensor *t)
{
    gd_ctx *ctx = o->ctx;
    gd_status status = gd__not_stepping(o, "adding a parameter");
    if (status) return status;
    if (!t || !name)
        return gd_error(ctx) ? gd_error(ctx)
                             : gd_fail(ctx, GD_ARGUMENT, "optimizer: a parameter or its name is NULL");
    if (t->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: parameter '%.80s' is of another context", name);
    if (!gd_dtype_is_float(t->dtype))
        return gd_fail(ctx, GD_DTYPE, "optimizer: parameter '%.80s' is %s, not floating", name,
                       gd_dtype_name(t->dtype));
    if (gd_is_read_only(t)) return gd_fail(ctx, GD_STATE, "optimizer: parameter '%.80s' is read-only", name);
    if (t->node) return gd_fail(ctx, GD_GRAPH, "optimizer: parameter '%.80s' is a result, not a leaf", name);
    if (!gd__dense(t))
        return gd_fail(ctx, GD_SHAPE, "optimizer: parameter '%.80s' has gaps in its memory", name);
    for (int i = 0; i < o->count; i++)
        if (!strcmp(o->param[i].name, name))
            return gd_fail(ctx, GD_ARGUMENT, "optimizer: there is already a parameter '%.80s'", name);
    if (gd__param_index(o, t) >= 0)
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: parameter '%.80s' is already there under another name",
                       name);
    return GD_OK;
}

gd_status gd__param_add(gd_optimizer *o, const char *name, gd_tensor *t, int group)
{
    gd_status status = check_param(o, name, t);
    if (status) return status;
    if (o->count == o->capacity) {
        size_t old = (size_t)o->capacity, capacity = old ? old * 2 : 8;
        gd_param *list = gd__realloc(o->ctx, o->param, old * sizeof *list, capacity * sizeof *list);
        if (!list) return GD_NOMEM;
        o->param = list;
        o->capacity = (int)capacity;
    }
    if (gd__map_reserve(o->ctx, &o->table)) return GD_NOMEM;
    char *copy = gd__strdup(o->ctx, name);
    if (!copy) return GD_NOMEM;
    gd__retain(t);
    gd__map_put(&o->table, t, o->count);
    o->param[o->count++] = (gd_param){
        .tensor = t, .name = copy, .group = group, .device = t->storage->device, .dtype = t->dtype};
    o->vectors = gd__vectors_dtype(o);
    gd__optimizer_changed(o, true);
    return GD_OK;
}

gd_status gd_optimizer_add(gd_optimizer *o, const char *name, gd_tensor *param)
{
    if (!o) return GD_ARGUMENT;
    return gd__param_add(o, name, param, 0);
}

/* Forgets the last parameters down to `count`: a group is added whole or not at all. */
void gd__params_truncate(gd_optimizer *o, int count)
{
    if (o->ranks) o->ranks->forget(o);
    while (o->count > count) {
        gd_param *p = &o->param[--o->count];
        param_drop(p);
        gd__release(p->tensor);
        gd__strfree(o->ctx, p->name);
    }
    gd__map_clear(&o->table);
    for (int i = 0; i < o->count; i++) gd__map_put(&o->table, o->param[i].tensor, i);
    gd__optimizer_changed(o, true);
}

gd_status gd_optimizer_remove(gd_optimizer *o, const char *name)
{
    if (!o || !name) return gd__null(gd_optimizer_ctx(o), "optimizer: the name of a parameter is NULL");
    int i = 0;
    gd_status status = gd__not_stepping(o, "removing a parameter");
    if (status) return status;
    while (i < o->count && strcmp(o->param[i].name, name)) i++;
    if (i == o->count) return gd_fail(o->ctx, GD_ATTRIBUTE, "optimizer: there is no parameter '%.80s'", name);
    gd_tensor *t = o->param[i].tensor;
    if (o->ranks) o->ranks->forget(o); /* what is under way knows parameters by their numbers */
    gd__entries_drop(o->chain, t);
    param_drop(&o->param[i]);
    gd__strfree(o->ctx, o->param[i].name);
    memmove(&o->param[i], &o->param[i + 1], (size_t)(o->count - i - 1) * sizeof *o->param);
    o->count--;
    gd__params_truncate(o, o->count);
    gd__release(t);
    return GD_OK;
}

/* ---- taking the tensors a module has now ---- */

static gd_status check_rebind(gd_optimizer *o, int i, gd_tensor *now)
{
    const gd_tensor *old = o->param[i].tensor;
    char a[256], b[256];
    if (!gd__same_shape(old, now) || !gd__same_axes(now, old))
        return gd_fail(o->ctx, GD_SHAPE, "rebind: parameter '%.80s' was %s and is %s now", o->param[i].name,
                       gd__shape_text(old, a, sizeof a), gd__shape_text(now, b, sizeof b));
    if (gd__param_index(o, now) >= 0)
        return gd_fail(o->ctx, GD_ARGUMENT, "rebind: '%.80s' is already there under another name",
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
    gd__params_truncate(o, o->count); /* the table of addresses anew */
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
                       "optimizer: there is state already; reset it before choosing another dtype");
    o->state_dtype = dtype;
    gd__optimizer_changed(o, true);
    return GD_OK;
}
