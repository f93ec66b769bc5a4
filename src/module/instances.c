/* Public functions of objects: references, classes, conversions, and instances of the user's own structs. */
#include "module/class_internal.h"
#include "tensor/tensor_internal.h"

typedef struct instance {
    gd_object head;
    void *pointer;
    void (*destroy)(void *pointer);
} instance;

static void instance_destroy(void *object)
{
    instance *i = object;
    if (i->destroy) i->destroy(i->pointer);
    gd__free(i->head.ctx, i, sizeof *i);
}

static const gd_object_type instance_type = {"Instance", instance_destroy};

gd_object *gd_instance_new(gd_class *cls, void *pointer, void (*destroy)(void *pointer))
{
    if (!cls) return NULL;
    gd_ctx *ctx = cls->ctx;
    if (cls->is_tensor || cls->is_module)
        return gd__refuse(ctx, GD_TYPE, "instance: class '%s' is below %s, which has a maker of its own",
                          cls->name, cls->is_tensor ? "Tensor" : "Module");
    instance *i = gd__alloc(ctx, sizeof *i);
    if (!i) return NULL;
    if (gd__object_init(ctx, i, &instance_type)) {
        gd__free(ctx, i, sizeof *i);
        return NULL;
    }
    i->head.cls = cls;
    i->pointer = pointer;
    i->destroy = destroy;
    return &i->head;
}

/* Records that an object has the wrong type. */
static void not_a(const gd_object *object, const char *what)
{
    const gd_class *cls = gd__class_of(object);
    (void)gd_fail(object->ctx, GD_TYPE, "object: %s was expected, this is of class '%s'", what,
                  cls ? cls->name : "?");
}

void *gd_instance_pointer(const gd_object *object)
{
    if (!object) return NULL;
    if (object->type == &instance_type) return ((const instance *)object)->pointer;
    not_a(object, "an instance");
    return NULL;
}

gd_object *gd_object_retain(gd_object *object)
{
    gd__user_retain(object);
    return object;
}

void gd_object_release(gd_object *object) { gd__user_release(object); }

gd_object *gd_object_keep(gd_object *object)
{
    gd__keep(object);
    return object;
}

gd_object *gd__carry_out(gd_ctx *ctx, gd_object *result)
{
    gd__own(result);
    gd_scope_end(ctx);
    return gd__scope_take(result) ? NULL : result;
}

gd_ctx *gd_object_ctx(const gd_object *object) { return object ? object->ctx : NULL; }

const gd_class *gd__class_of(const gd_object *object)
{
    return object->cls ? object->cls : gd_class_tensor(object->ctx);
}

const gd_class *gd_object_class(const gd_object *object) { return object ? gd__class_of(object) : NULL; }

bool gd_object_is(const gd_object *object, const gd_class *cls)
{
    return object && gd_class_is(gd__class_of(object), cls);
}

gd_object *gd_tensor_object(gd_tensor *tensor) { return (gd_object *)tensor; }

gd_object *gd_module_object(gd_module *module) { return (gd_object *)module; }

gd_tensor *gd_object_tensor(gd_object *object)
{
    if (!object) return NULL;
    if (object->type == &gd__tensor_type) return (gd_tensor *)object;
    not_a(object, "a tensor");
    return NULL;
}

gd_module *gd_object_module(gd_object *object)
{
    if (!object) return NULL;
    if (object->type == &gd__module_type) return (gd_module *)object;
    not_a(object, "a module");
    return NULL;
}

gd_status gd_tensor_set_class(gd_tensor *tensor, gd_class *cls)
{
    if (!tensor || !cls) return gd__null(gd_tensor_ctx(tensor), "tensor: the class is NULL");
    gd_ctx *ctx = tensor->head.ctx;
    if (cls->ctx != ctx || !cls->is_tensor || cls->is_module)
        return gd_fail(ctx, GD_TYPE, "tensor: class '%s' is not a class of tensors in this context",
                       cls->name);
    tensor->head.cls = cls;
    return GD_OK;
}
