/* Modules: lifetime, weak references, paths for messages, local scopes, calling. */
#include "module/module_internal.h"
#include "tensor/shape.h"

#include <string.h>

/* ---- life ---- */

static void end_module(gd_module *module)
{
    gd_ctx *ctx = module->head.ctx;
    if (module->weak) {
        module->weak->module =
            NULL; /* virtual tensors learn that their owner is gone before anything else is freed */
        gd__weak_release(module->weak);
    }
    while (module->count) gd__attribute_remove(module, &module->attribute[module->count - 1]);
    gd__free(ctx, module->attribute, (size_t)module->capacity * sizeof *module->attribute);
    gd__free(ctx, module, sizeof *module);
}

/* Children that die with their parent wait in a list, so that deep trees do not become deep stacks. */
static void module_destroy(void *object)
{
    gd_module *module = object;
    gd_registry *registry = module->head.cls->registry;
    module->doomed = registry->doomed;
    registry->doomed = module;
    if (registry->destroying) return;
    registry->destroying = true;
    while (registry->doomed) {
        gd_module *next = registry->doomed;
        registry->doomed = next->doomed;
        end_module(next);
    }
    registry->destroying = false;
}

const gd_object_type gd__module_type = {"Module", module_destroy};

gd_module *gd_module_new(gd_class *cls)
{
    if (!cls) return NULL;
    gd_ctx *ctx = cls->ctx;
    if (!cls->is_module || cls->is_tensor)
        return gd__refuse(ctx, GD_TYPE, "module: class '%s' is not a class of modules", cls->name);
    gd_device *cpu = gd__cpu(ctx);
    gd_module *module = cpu ? gd__calloc(ctx, sizeof *module) : NULL;
    if (!module) return NULL;
    if (gd__object_init(ctx, module, &gd__module_type)) {
        gd__free(ctx, module, sizeof *module);
        return NULL;
    }
    module->head.cls = cls;
    module->device = cpu;
    return module;
}

gd_module *gd_module_retain(gd_module *module)
{
    gd__user_retain(module);
    return module;
}

void gd_module_release(gd_module *module) { gd__user_release(module); }

gd_module *gd_module_keep(gd_module *module)
{
    gd__keep(module);
    return module;
}

gd_ctx *gd_module_ctx(const gd_module *module) { return module ? module->head.ctx : NULL; }

const gd_class *gd_module_class(const gd_module *module) { return module ? module->head.cls : NULL; }

gd_device *gd_module_device(const gd_module *module) { return module ? module->device : NULL; }

gd_tensor *gd_module_call_with(gd_module *module, gd_tensor *x, const gd_kwargs *kwargs)
{
    gd_object *result = gd_invoke(gd_module_object(module), gd_tensor_object(x), kwargs);
    gd_tensor *tensor = gd_object_tensor(result);
    if (!tensor) gd_object_release(result);
    return tensor;
}

gd_tensor *gd_module_call(gd_module *module, gd_tensor *x) { return gd_module_call_with(module, x, NULL); }

/* ---- weak references ---- */

gd_weak *gd__weak_of(gd_module *module)
{
    if (!module->weak) {
        gd_weak *weak = gd__alloc(module->head.ctx, sizeof *weak);
        if (!weak) return NULL;
        *weak = (gd_weak){module->head.ctx, module, 1};
        module->weak = weak;
    }
    module->weak->refs++;
    return module->weak;
}

void gd__weak_release(gd_weak *weak)
{
    if (weak && --weak->refs == 0) gd__free(weak->ctx, weak, sizeof *weak);
}

/* ---- places ---- */

const char *gd__place(const gd_module *module, char buf[GD_PLACE_SIZE])
{
    /* written from the end: the innermost name always fits, a very long beginning is cut off */
    char text[GD_PLACE_SIZE];
    size_t at = sizeof text - 1;
    text[at] = 0;
    for (const gd_module *m = module; m; m = m->parent) {
        const char *segment = m->parent ? m->name_in_parent : m->head.cls->name;
        size_t length = strlen(segment);
        if (length + 4 > at) {
            memcpy(text + (at -= 3), "...", 3);
            break;
        }
        if (m != module) text[--at] = '.';
        memcpy(text + (at -= length), segment, length);
    }
    return memcpy(buf, text + at, sizeof text - at);
}

/* ---- local scopes ---- */

bool gd__local_begin(gd_ctx *ctx)
{
    gd_scope_begin(ctx);
    if (!ctx->scope.lost) return true;
    gd_scope_end(ctx);
    return false;
}

gd_tensor *gd__another_handle(gd_tensor *t)
{
    gd_tensor *handle = gd__same(t);
    if (handle) handle->head.cls = t->head.cls;
    return handle;
}

gd_tensor *gd__local_end(gd_ctx *ctx, gd_tensor *result)
{
    if (result) {
        bool inside = result->head.slot > ctx->scope.mark[ctx->scope.depth - 1].count;
        if (!inside) result = gd__another_handle(result);
        gd__keep(result);
    }
    gd_scope_end(ctx);
    return result;
}
