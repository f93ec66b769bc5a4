/* Sequential: children "0", "1", ... called one after the other. */
#include "module/layers/layer.h"

#include <stdio.h>

static int64_t length(const gd_module *m)
{
    int64_t modules = 0;
    for (int i = 0; i < m->count; i++) modules += m->attribute[i].kind == GD_ATTRIBUTE_MODULE;
    return modules;
}

static gd_object *sequential_forward(gd_object *self, gd_object *argument, const gd_kwargs *kwargs,
                                     void *user)
{
    (void)user;
    gd_module *m = (gd_module *)self;
    if (gd_kwargs_only(self->ctx, kwargs, NULL)) return NULL;
    int64_t count = length(m);
    gd_tensor *x = count ? (gd_tensor *)argument : gd__another_handle((gd_tensor *)argument);
    for (int64_t i = 0; i < count && x; i++) {
        char name[24];
        snprintf(name, sizeof name, "%lld", (long long)i);
        x = gd_module_call(gd_module_get_module(m, name), x);
    }
    return gd_tensor_object(x);
}

gd_class *gd_class_sequential(gd_ctx *ctx) { return gd__layer_class(ctx, "Sequential", sequential_forward); }

gd_status gd_sequential_add(gd_module *sequential, gd_module *module)
{
    gd_class *cls = sequential ? gd_class_sequential(sequential->head.ctx) : NULL;
    if (!cls || !gd_class_is(sequential->head.cls, cls)) {
        gd__user_release(module);
        if (!sequential) return GD_ARGUMENT;
        return cls ? gd_fail(sequential->head.ctx, GD_TYPE, "sequential: a module of class '%s' was given",
                             sequential->head.cls->name)
                   : GD_NOMEM;
    }
    if (!module) {
        (void)gd_fail(sequential->head.ctx, GD_ARGUMENT, "sequential: no module given");
        return gd_error(sequential->head.ctx);
    }
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)length(sequential));
    return gd__add_child(sequential, name, module);
}

gd_module *gd_sequential_new(gd_ctx *ctx, gd_module *const *modules, int count)
{
    if (count > 0 && !modules) return gd__none(gd__null(ctx, "sequential: the modules are NULL"));
    gd_module *m = gd_module_new(gd_class_sequential(ctx));
    gd_status status = m ? GD_OK : GD_NOMEM;
    for (int i = 0; i < count; i++) {
        if (status)
            gd__user_release(modules[i]);
        else
            status = gd_sequential_add(m, modules[i]);
    }
    return status ? gd__give_up(m) : m;
}
