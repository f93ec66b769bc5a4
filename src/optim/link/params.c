/* Parameters and attributes of an optimizer; see owner.h. */
#include "optim/link/owner.h"
#include "gradus/dlpack.h"

#include <string.h>

int gd__param_index(const gd_optimizer *o, const gd_tensor *param) { return gd__map_find(&o->table, param); }

gd_ctx *gd_optimizer_ctx(const gd_optimizer *o) { return o ? o->ctx : NULL; }
gd_link *gd_optimizer_chain(const gd_optimizer *o) { return o ? o->chain : NULL; }
int gd_optimizer_count(const gd_optimizer *o) { return o ? o->count : 0; }
int gd_optimizer_groups(const gd_optimizer *o) { return o ? o->grouping.count : 0; }

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

/* ---- parameters ---- */

static void drop_bounds(gd_param *p)
{
    gd__release(p->low);
    gd__release(p->high);
    if (p->side) gd__free(p->tensor->head.ctx, p->side, (size_t)p->tensor->numel + 1);
    p->low = p->high = NULL;
    p->side = NULL;
}

void gd__param_drop(gd_param *p)
{
    drop_bounds(p);
    gd__free(p->tensor->head.ctx, p->cut, (size_t)(p->ranks + 1) * sizeof *p->cut);
    gd__release(p->own_grad);
}

/* Parameters and groups stay as they are while a step runs. */
gd_status gd__not_stepping(gd_optimizer *o, const char *what)
{
    if (!o->stepping && !o->evaluating) return GD_OK;
    return gd_fail(o->ctx, GD_STATE, "optimizer: %s is not possible %s", what,
                   o->stepping ? "inside a step" : "until gd_optimizer_evaluate has put the parameters back");
}

gd_status gd__refuse_partial(gd_optimizer *o, const char *what)
{
    if (!o->shared.partial) return GD_OK;
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
        return gd_fail(ctx, GD_ARGUMENT, "optimizer: parameter '%.80s' is of a different context", name);
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
        return gd_fail(ctx, GD_ARGUMENT,
                       "optimizer: parameter '%.80s' is already there under a different name", name);
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
    if (o->shared.call) o->shared.call->forget(o);
    while (o->count > count) {
        gd_param *p = &o->param[--o->count];
        gd__param_drop(p);
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
    if (o->shared.call) o->shared.call->forget(o); /* running code refers to parameters by index */
    gd__entries_drop(o->chain, t);
    gd__param_drop(&o->param[i]);
    gd__strfree(o->ctx, o->param[i].name);
    memmove(&o->param[i], &o->param[i + 1], (size_t)(o->count - i - 1) * sizeof *o->param);
    o->count--;
    gd__params_truncate(o, o->count);
    gd__release(t);
    return GD_OK;
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
