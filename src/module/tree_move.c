/* Operations on whole trees: freezing, moving, casting, exporting.  Each prepares everything first and then changes
 * everything, so that a failure changes nothing. */
#include "module/module_internal.h"

#include <stdio.h>

/* ---- freezing ---- */

static gd_status set_gradients(gd_module *module, bool on)
{
    if (!module) return GD_ARGUMENT;
    gd_named *all = gd__list(module, GD_WANT_PARAMETERS, NULL);
    if (!all) return gd__failure(module, GD_NOMEM);
    for (int i = 0; i < all->count; i++) gd__put_wants_grad(all->tensors[i], on);
    gd__release(all);
    return GD_OK;
}

gd_status gd_module_freeze(gd_module *module) { return set_gradients(module, false); }

gd_status gd_module_unfreeze(gd_module *module) { return set_gradients(module, true); }

/* ---- training and evaluating ---- */

static gd_status set_mode(gd_module *module, const char *prefix, void *evaluates)
{
    (void)prefix;
    if (module->evaluates != *(bool *)evaluates) gd_module_touch(module);
    module->evaluates = *(bool *)evaluates;
    return GD_OK;
}

static gd_status set_modes(gd_module *module, bool evaluates)
{
    return module ? gd__walk(module, set_mode, &evaluates) : GD_ARGUMENT;
}

gd_status gd_module_train(gd_module *module) { return set_modes(module, false); }

gd_status gd_module_eval(gd_module *module) { return set_modes(module, true); }

bool gd_module_is_training(const gd_module *module) { return module && !module->evaluates; }

/* ---- moving and casting ---- */

/* The new dtype and device of a tensor of the tree; GD_DTYPE_COUNT and NULL: unchanged. */
typedef struct target {
    gd_dtype dtype;
    gd_device *device;
} target;

static gd_dtype dtype_after(const gd_tensor *t, target to)
{
    bool cast = to.dtype != GD_DTYPE_COUNT && gd_dtype_is_float(t->dtype);
    return cast ? to.dtype : t->dtype;
}

static gd_device *device_after(const gd_tensor *t, target to)
{
    return to.device ? to.device : gd_tensor_device(t);
}

static bool stays(const gd_tensor *t, target to)
{
    return dtype_after(t, to) == t->dtype && device_after(t, to) == gd_tensor_device(t);
}

/* The new storage of one tensor of the tree and of its gradient, before anything is changed. */
typedef struct moved {
    gd_tensor *value, *grad; /* NULL: stays */
} moved;

static gd_status prepare_move(gd_tensor *t, target to, moved *out)
{
    if (!stays(t, to) && !(out->value = gd__own_copy(t, dtype_after(t, to), device_after(t, to))))
        return GD_NOMEM;
    gd_tensor *grad = t->grad;
    if (grad && !stays(grad, to) &&
        !(out->grad = gd__own_copy(grad, dtype_after(grad, to), device_after(grad, to))))
        return GD_NOMEM;
    return GD_OK;
}

static void commit_move(gd_tensor *t, moved *m)
{
    if (m->value) gd__swap_storage(t, m->value);
    if (m->grad) gd__put_grad(t, m->grad);
    m->grad = NULL;
}

/* Moves every tensor of the list, or none. */
static gd_status move_all(gd_module *module, const gd_named *all, target to)
{
    gd_ctx *ctx = module->head.ctx;
    size_t bytes = (size_t)all->count * sizeof(moved);
    moved *list = gd__calloc(ctx, bytes);
    gd_status status = list ? GD_OK : GD_NOMEM;
    for (int i = 0; i < all->count && !status; i++) status = prepare_move(all->tensors[i], to, &list[i]);
    for (int i = 0; i < all->count && !status; i++) commit_move(all->tensors[i], &list[i]);
    for (int i = 0; i < all->count && list; i++) {
        gd__release(list[i].value);
        gd__release(list[i].grad);
    }
    gd__free(ctx, list, bytes);
    return status ? gd__failure(module, status) : GD_OK;
}

/* ---- objects with movers ---- */

gd_object *gd__moved_object(gd_object *object, gd_device *device, gd_dtype dtype)
{
    gd_ctx *ctx = object->ctx;
    const gd_class *cls = gd__class_of(object), *with = NULL;
    for (int i = 0; i < cls->order_count && !with; i++)
        if (cls->order[i]->mover) with = cls->order[i];
    if (!with) {
        gd__retain(object);
        return object;
    }
    if (!gd__local_begin(ctx)) return NULL;
    gd_object *made = with->mover(object, device, dtype, with->mover_user);
    if (!made && !gd_error(ctx))
        (void)gd_fail(ctx, GD_CALLBACK, "move: the function of class '%s' returned nothing", with->name);
    if (made && made->type != object->type) {
        (void)gd_fail(ctx, GD_TYPE,
                      "move: the function of class '%s' returned something else than an instance",
                      with->name);
        made = NULL;
    }
    gd__own(made);
    gd_scope_end(ctx);
    return made;
}

/* One object attribute of the tree, its old and new value. */
typedef struct moved_object {
    gd_module *module;         /* held by the list of modules */
    const char *name;          /* interned */
    gd_object *before, *after; /* owned */
} moved_object;

typedef struct moved_objects {
    moved_object *item;
    int count, capacity;
} moved_objects;

static void free_objects(gd_ctx *ctx, moved_objects *all)
{
    for (int i = 0; i < all->count; i++) {
        gd__release(all->item[i].before);
        gd__release(all->item[i].after);
    }
    gd__free(ctx, all->item, (size_t)all->capacity * sizeof *all->item);
}

/* The result for an object: the same as at its other positions in the tree. */
static gd_object *becomes(const moved_objects *all, gd_object *object, target to)
{
    for (int i = 0; i < all->count; i++)
        if (all->item[i].before == object) {
            gd__retain(all->item[i].after);
            return all->item[i].after;
        }
    return gd__moved_object(object, to.device, to.dtype);
}

static gd_status prepare_objects(gd_module *module, target to, moved_objects *all)
{
    gd_ctx *ctx = module->head.ctx;
    for (int k = 0; k < module->count; k++) {
        if (module->attribute[k].kind != GD_ATTRIBUTE_OBJECT) continue;
        gd_object *before = module->attribute[k].object;
        const char *name = module->attribute[k].name;
        if (!gd__reserve(ctx, &all->item, all->count, &all->capacity, sizeof *all->item)) return GD_NOMEM;
        gd__retain(before);
        gd_object *after = becomes(all, before, to);
        all->item[all->count++] = (moved_object){module, name, before, after};
        if (!after) return gd__failure(module, GD_CALLBACK);
    }
    return GD_OK;
}

static void commit_objects(moved_objects *all)
{
    for (int i = 0; i < all->count; i++) {
        moved_object *m = &all->item[i];
        gd_attribute *a = gd__attribute_find(m->module, m->name);
        if (!a || a->kind != GD_ATTRIBUTE_OBJECT || a->object != m->before || m->after == m->before) continue;
        a->object = m->after; /* swaps the references */
        gd_module_touch(m->module);
        a->stamp = m->module->stamp;
        m->after = m->before;
    }
}

static gd_status move_tree(gd_module *module, target to)
{
    moved_objects objects = {0};
    gd_named *all = gd__list(module, GD_WANT_PARAMETERS | GD_WANT_BUFFERS, NULL);
    gd_named *modules = all ? gd__list(module, GD_WANT_MODULES, NULL) : NULL;
    gd_status status = modules ? GD_OK : gd__failure(module, GD_NOMEM);
    for (int i = 0; modules && i < modules->count && !status; i++)
        status = prepare_objects((gd_module *)modules->item[i].object, to, &objects);
    if (!status) status = move_all(module, all, to);
    if (!status) commit_objects(&objects);
    for (int i = 0; modules && i < modules->count && !status && to.device; i++)
        ((gd_module *)modules->item[i].object)->device = to.device;
    free_objects(module->head.ctx, &objects);
    gd__release(all);
    gd__release(modules);
    return status;
}

gd_status gd_module_to_device(gd_module *module, gd_device *device)
{
    if (!module) return GD_ARGUMENT;
    if (!device) {
        (void)gd_fail(module->head.ctx, GD_DEVICE, "module '%s': no device to move to",
                      module->head.cls->name);
        return gd__failure(module, GD_DEVICE);
    }
    return move_tree(module, (target){GD_DTYPE_COUNT, device});
}

gd_status gd_module_cpu(gd_module *module)
{
    return module ? gd_module_to_device(module, gd__cpu(module->head.ctx)) : GD_ARGUMENT;
}

gd_status gd_module_gpu(gd_module *module, int index)
{
    if (!module) return GD_ARGUMENT;
    char name[32] = "gpu";
    if (index >= 0) snprintf(name, sizeof name, "gpu:%d", index);
    return gd_module_to_device(module, gd_device_get(module->head.ctx, name));
}

gd_status gd_module_to(gd_module *module, gd_dtype dtype)
{
    if (!module) return GD_ARGUMENT;
    if (!gd_dtype_is_float(dtype))
        return gd_fail(module->head.ctx, GD_DTYPE,
                       "module '%s': a module is cast to a floating dtype, not %s", module->head.cls->name,
                       gd_dtype_name(dtype));
    return move_tree(module, (target){dtype, NULL});
}

/* ---- exporting ---- */

/* A detached copy of an attribute's tensor, computed if it is virtual.  Owned by the caller, outside scopes. */
static gd_tensor *snapshot(gd_object *object)
{
    gd_ctx *ctx = object->ctx;
    if (!gd__local_begin(ctx)) return NULL;
    gd_no_grad_begin(ctx);
    bool stored = object->type == &gd__tensor_type;
    gd_tensor *t = stored ? (gd_tensor *)object : gd_virtual_value((gd_virtual *)object);
    gd_tensor *copy = t ? gd__own_copy(t, t->dtype, gd_tensor_device(t)) : NULL;
    gd_no_grad_end(ctx);
    if (copy) copy->head.cls = t->head.cls;
    gd_scope_end(ctx);
    return copy;
}

gd_tensor *gd_module_export(gd_module *module, const char *name)
{
    if (!module) return NULL;
    gd_object *object;
    if (gd_module_kind(module, name) == GD_ATTRIBUTE_VIRTUAL)
        object = (gd_object *)gd_module_get_virtual(module, name);
    else
        object = gd_tensor_object(gd_module_get_tensor(module, name)); /* records the error, if any */
    if (!object) return NULL;
    gd__retain(object); /* a materializer may remove the attribute */
    gd_tensor *copy = snapshot(object), *result = NULL;
    gd__release(object);
    if (!copy) return NULL;
    result = gd__alias(copy); /* in the innermost scope, like every new object */
    if (result) result->head.cls = copy->head.cls;
    gd__release(copy);
    return result;
}

/* Replaces each item of a fresh list by its snapshot. */
static gd_status take_snapshots(gd_named *all)
{
    for (int i = 0; i < all->count; i++) {
        gd_tensor *copy = snapshot(all->item[i].object);
        if (!copy) return GD_NOMEM;
        gd__release(all->item[i].object);
        all->item[i].object = &copy->head;
        all->tensors[i] = copy;
    }
    return GD_OK;
}

/* The references of virtual tensors are not the user's tensors. */
static void drop_references(gd_named *all)
{
    int kept = 0;
    for (int i = 0; i < all->count; i++) {
        gd_named_item item = all->item[i];
        if (!item.attribute->reference_of) {
            all->tensors[kept] = all->tensors[i];
            all->item[kept++] = item;
            continue;
        }
        gd__named_item_end(all->head.ctx, &item);
    }
    all->count = kept;
}

gd_named *gd_module_export_all(gd_module *module)
{
    gd_named *all = gd__list(module, GD_WANT_PARAMETERS | GD_WANT_BUFFERS | GD_WANT_VIRTUAL, NULL);
    if (!all) return NULL;
    drop_references(all);
    if (take_snapshots(all) == GD_OK) return all;
    gd__release(all);
    return NULL;
}
