/* What links leave in a step beside the update: attributes, which the optimizer keeps, storage and hooks, which end with the step. */
#include "optim/step/objective/memo.h"
#include "optim/step/optimizer.h"
#include "optim/step/var_internal.h"

#include <math.h>
#include <string.h>

static gd_status set_attr(gd_var *var, const char *name, double value, gd_tensor *tensor)
{
    if (!var || !name) return gd__null(gd_var_ctx(var), "var: the name of an attribute is NULL");
    if (!var->optimizer)
        return gd_fail(var->ctx, GD_STATE, "attribute '%.80s': there is no optimizer to keep it", name);
    return gd__set_attr(var->optimizer, name, value, tensor);
}

gd_status gd_var_set_attr(gd_var *var, const char *name, double value)
{
    return set_attr(var, name, value, NULL);
}

gd_status gd_var_set_attr_tensor(gd_var *var, const char *name, gd_tensor *value)
{
    return set_attr(var, name, NAN, value);
}

gd_tensor *gd_var_attr_tensor(const gd_var *var, const char *name)
{
    return var && name && var->optimizer ? gd_optimizer_attr_tensor(var->optimizer, name) : NULL;
}

void gd__share_clear(gd_ctx *ctx, gd_step_share *share)
{
    gd__free(ctx, share->hook, (size_t)share->hooks * sizeof *share->hook);
    for (int i = 0; i < share->stores; i++) gd__release(share->stored[i].tensor);
    gd__free(ctx, share->stored, (size_t)share->stores * sizeof *share->stored);
    gd__memo_free(share->points);
}

static gd_attr *stored(const gd_var *var, const char *name)
{
    for (int i = 0; var && name && var->share && i < var->share->stores; i++)
        if (!strcmp(var->share->stored[i].name, name)) return &var->share->stored[i];
    return NULL;
}

static gd_status store(gd_var *var, const char *name, double value, gd_tensor *tensor)
{
    if (!var || !name) return gd__null(gd_var_ctx(var), "storage: its name is NULL");
    gd_step_share *share = var->share;
    gd_attr *a = stored(var, name);
    if (!share) return gd_fail(var->ctx, GD_STATE, "storage '%.80s': there is no step to keep it", name);
    if (!a) {
        size_t n = (size_t)share->stores, size = sizeof *a;
        const char *interned = gd__intern(var->ctx, name, strlen(name));
        gd_attr *list = interned ? gd__realloc(var->ctx, share->stored, n * size, (n + 1) * size) : NULL;
        if (!list) return GD_NOMEM;
        share->stored = list;
        a = &list[share->stores++];
        *a = (gd_attr){.name = interned};
    }
    gd__retain(tensor);
    gd__release(a->tensor);
    a->tensor = tensor;
    a->value = value;
    return GD_OK;
}

gd_status gd_var_set_storage(gd_var *var, const char *name, double value)
{
    return store(var, name, value, NULL);
}

gd_status gd_var_set_storage_tensor(gd_var *var, const char *name, gd_tensor *value)
{
    return store(var, name, NAN, value);
}

gd_tensor *gd_var_storage_tensor(const gd_var *var, const char *name)
{
    const gd_attr *a = stored(var, name);
    return a ? a->tensor : NULL;
}

double gd_var_storage(const gd_var *var, const char *name, double otherwise)
{
    if (!var) return NAN;
    const gd_attr *a = stored(var, name);
    if (a) return a->value;
    const gd_step_extra *extra = var->share ? var->share->extra : NULL;
    for (int i = 0; extra && i < extra->count; i++)
        if (!strcmp(extra->names[i], name)) return extra->values[i];
    return otherwise;
}

gd_status gd_var_after_step(gd_var *var, gd_hook_fn fn, void *user)
{
    if (!var || !fn) return gd__null(gd_var_ctx(var), "var: the function after the step is NULL");
    gd_step_share *share = var->share;
    size_t n = (size_t)share->hooks, size = sizeof *share->hook;
    void *list = gd__realloc(var->ctx, share->hook, n * size, (n + 1) * size);
    if (!list) return GD_NOMEM;
    share->hook = list;
    share->hook[n].fn = fn;
    share->hook[n].user = user;
    share->hooks++;
    return GD_OK;
}
