/* Attributes of modules: finding, assigning, reading, deleting. */
#include "module/module_internal.h"

#include <string.h>

/* ---- finding ---- */

static uint32_t name_hash(const char *name, size_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++) hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    return hash;
}

static gd_attribute *find(const gd_module *module, const char *name, size_t length)
{
    uint32_t hash = name_hash(name, length);
    for (int i = 0; i < module->count; i++) {
        gd_attribute *a = &module->attribute[i];
        if (a->hash == hash && strncmp(a->name, name, length) == 0 && !a->name[length]) return a;
    }
    return NULL;
}

gd_attribute *gd__attribute_find(const gd_module *module, const char *name)
{
    return find(module, name, strlen(name));
}

static void no_attribute(const gd_module *module, const char *name, size_t length)
{
    char place[GD_PLACE_SIZE];
    (void)gd_fail(module->head.ctx, GD_ATTRIBUTE, "module '%s': no attribute '%.*s'",
                  gd__place(module, place), (int)length, name);
}

static const char *kind_text(int kind)
{
    static const char *const texts[] = {"nothing", "a tensor", "a module",  "a virtual tensor", "an int",
                                        "a real",  "a string", "a pointer", "an object"};
    return texts[kind];
}

static gd_status wrong_kind(const gd_module *module, const gd_attribute *a, const char *wanted)
{
    char place[GD_PLACE_SIZE];
    return gd_fail(module->head.ctx, GD_TYPE, "module '%s': attribute '%s' is %s, not %s",
                   gd__place(module, place), a->name, kind_text(a->kind), wanted);
}

/* Follows a path and the prefixes to the module that holds the attribute and its plain name.  NULL with the error
 * recorded when a module on the way is not there. */
static gd_module *attribute_holder(gd_module *module, const char *path, const char **name)
{
    if (!module) return NULL;
    if (!path)
        return gd__refuse(module->head.ctx, GD_ARGUMENT, "module '%s': no name given",
                          module->head.cls->name);
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        gd__note_read(module, path, (size_t)(dot - path));
        const gd_attribute *a = find(module, path, (size_t)(dot - path));
        if (!a) {
            no_attribute(module, path, (size_t)(dot - path));
            return NULL;
        }
        if (a->kind != GD_ATTRIBUTE_MODULE) {
            (void)wrong_kind(module, a, "a module");
            return NULL;
        }
        module = a->module;
    }
    *name = path;
    return module;
}

/* The attribute of the last part of a path, where "tensor:x" and "buffer:x" only find what is registered so. */
static gd_attribute *find_registered(const gd_module *module, const char *name)
{
    bool parameter = strncmp(name, GD_PARAMETER_PREFIX, strlen(GD_PARAMETER_PREFIX)) == 0;
    bool buffer = strncmp(name, GD_BUFFER_PREFIX, strlen(GD_BUFFER_PREFIX)) == 0;
    if (!parameter && !buffer) return gd__attribute_find(module, name);
    gd_attribute *a = gd__attribute_find(module, strchr(name, ':') + 1);
    return a && a->kind == GD_ATTRIBUTE_TENSOR && a->buffer == buffer ? a : NULL;
}

static void note_registered(gd_module *module, const char *name)
{
    const char *colon = strchr(name, ':');
    if (colon) name = colon + 1;
    gd__note_read(module, name, strlen(name));
}

/* The attribute of a path and the module that holds it. */
static gd_attribute *look(gd_module **module, const char *path)
{
    const char *name;
    *module = attribute_holder(*module, path, &name);
    if (!*module) return NULL;
    note_registered(*module, name);
    gd_attribute *a = find_registered(*module, name);
    if (!a) no_attribute(*module, name, strlen(name));
    return a;
}

gd_attribute_kind gd_module_kind(gd_module *module, const char *path)
{
    if (!module || !path) return GD_ATTRIBUTE_NONE;
    for (const char *dot; (dot = strchr(path, '.')); path = dot + 1) {
        gd__note_read(module, path, (size_t)(dot - path));
        const gd_attribute *a = find(module, path, (size_t)(dot - path));
        if (!a || a->kind != GD_ATTRIBUTE_MODULE) return GD_ATTRIBUTE_NONE;
        module = a->module;
    }
    note_registered(module, path);
    const gd_attribute *a = find_registered(module, path);
    return a ? (gd_attribute_kind)a->kind : GD_ATTRIBUTE_NONE;
}

bool gd_module_has(gd_module *module, const char *name)
{
    return gd_module_kind(module, name) != GD_ATTRIBUTE_NONE;
}

int gd_module_count(gd_module *module)
{
    if (!module) return 0;
    gd__note_names(module);
    return module->count;
}

const char *gd_module_name(gd_module *module, int index)
{
    if (!module) return NULL;
    gd__note_names(module);
    return index >= 0 && index < module->count ? module->attribute[index].name : NULL;
}

void gd_module_touch(gd_module *module)
{
    if (!module) return;
    module->stamp = ++module->head.cls->registry->stamp;
    module->head.ctx->structure++;
}

/* ---- values ---- */

/* Ends a value that is no longer an attribute of the module. */
static void end_value(gd_module *module, gd_attribute *a)
{
    switch ((gd_attribute_kind)a->kind) {
    case GD_ATTRIBUTE_TENSOR:
        if (!a->tied) gd__put_dropped(a->tensor);
        gd__release(a->tensor);
        break;
    case GD_ATTRIBUTE_MODULE:
        if (a->module->parent == module && a->module->name_in_parent == a->name) a->module->parent = NULL;
        gd__release(a->module);
        break;
    case GD_ATTRIBUTE_VIRTUAL: gd__release(a->virtual_tensor); break;
    case GD_ATTRIBUTE_OBJECT: gd__release(a->object); break;
    case GD_ATTRIBUTE_STRING: gd__strfree(module->head.ctx, a->string); break;
    case GD_ATTRIBUTE_POINTER:
        if (a->destroy) a->destroy(a->pointer);
        break;
    case GD_ATTRIBUTE_INT:
    case GD_ATTRIBUTE_REAL:
    case GD_ATTRIBUTE_NONE: break;
    }
}

void gd__attribute_remove(gd_module *module, gd_attribute *attribute)
{
    gd_attribute old = *attribute;
    int at = (int)(attribute - module->attribute);
    memmove(attribute, attribute + 1, (size_t)(module->count - at - 1) * sizeof *attribute);
    module->count--;
    gd_module_touch(module);
    end_value(module, &old);
}

/* Checks the name and allocates memory, so that gd__attribute_put cannot fail afterwards. */
static gd_status prepare(gd_module *module, const char *name)
{
    gd_ctx *ctx = module->head.ctx;
    char place[GD_PLACE_SIZE];
    if (!gd__is_name(name))
        return gd_fail(ctx, GD_ARGUMENT, "module '%s': '%s' is no attribute name: letters, digits and '_'",
                       gd__place(module, place), name);
    const gd_attribute *there = gd__attribute_find(module, name);
    if (there && there->reference_of)
        return gd_fail(ctx, GD_STATE, "module '%s': '%s' belongs to the virtual tensor '%s'",
                       gd__place(module, place), name, gd_virtual_name(there->reference_of));
    if (there) return GD_OK;
    bool room = gd__intern(ctx, name, strlen(name)) &&
                gd__reserve(ctx, &module->attribute, module->count, &module->capacity,
                            sizeof *module->attribute);
    return room ? GD_OK : GD_NOMEM;
}

gd_status gd__attribute_put(gd_module *module, const char *name, const gd_attribute *value)
{
    gd_status status = prepare(module, name);
    if (status) return status;
    gd_attribute *a = gd__attribute_find(module, name), old = {.kind = GD_ATTRIBUTE_NONE}, fresh = *value;
    if (a)
        old = *a;
    else
        a = &module->attribute[module->count++];
    fresh.name = old.name ? old.name : gd__intern(module->head.ctx, name, strlen(name));
    fresh.hash = name_hash(name, strlen(name));
    gd_module_touch(module);
    fresh.stamp = module->stamp;
    *a = fresh;
    bool same = old.kind == GD_ATTRIBUTE_POINTER && value->kind == GD_ATTRIBUTE_POINTER &&
                old.pointer == value->pointer;
    if (!same) end_value(module, &old);
    return GD_OK;
}

static gd_status put_at(gd_module *module, const char *path, const gd_attribute *value)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    return holder ? gd__attribute_put(holder, name, value) : gd__failure(module, GD_ATTRIBUTE);
}

/* ---- tensors ---- */

static gd_status check_tensor(const gd_module *module, const char *name, const gd_tensor *tensor)
{
    gd_ctx *ctx = module->head.ctx;
    char place[GD_PLACE_SIZE];
    if (!tensor) {
        (void)gd_fail(ctx, GD_ARGUMENT, "module '%s': no tensor given for '%s'", gd__place(module, place),
                      name);
        return gd_error(ctx); /* the first error, which is the cause */
    }
    if (tensor->head.ctx != ctx)
        return gd_fail(ctx, GD_ARGUMENT, "module '%s': the tensor for '%s' is of a different context",
                       gd__place(module, place), name);
    return GD_OK;
}

typedef enum tensor_role { AS_CLASS_SAYS, PARAMETER, BUFFER } tensor_role;

static gd_status put_tensor(gd_module *module, const char *name, gd_tensor *tensor, tensor_role role)
{
    gd_status status = check_tensor(module, name, tensor);
    if (!status) status = prepare(module, name);
    if (status) return status;
    bool buffer = role == BUFFER || !gd_dtype_is_float(tensor->dtype) ||
                  gd_class_is_no_grad(module->head.cls, name);
    bool wants_grad = !buffer && (role == PARAMETER || gd_requires_grad(tensor));
    const gd_attribute *there = gd__attribute_find(module, name);
    if (there && there->kind == GD_ATTRIBUTE_TENSOR && there->tensor == tensor && there->buffer == buffer) {
        if (wants_grad != tensor->leaf_grad) gd__put_wants_grad(tensor, wants_grad);
        return GD_OK; /* the existing one stays */
    }
    gd_attribute value = {.kind = GD_ATTRIBUTE_TENSOR, .buffer = buffer};
    value.tensor = gd__own_copy(tensor, tensor->dtype, module->device);
    if (!value.tensor) return gd__failure(module, GD_NOMEM);
    value.tensor->head.cls = tensor->head.cls;
    gd__put_wants_grad(value.tensor, wants_grad);
    return gd__attribute_put(module, name, &value);
}

gd_status gd_module_set_tensor(gd_module *module, const char *path, gd_tensor *tensor)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    if (!holder) return gd__failure(module, GD_ATTRIBUTE);
    return put_tensor(holder, name, tensor, AS_CLASS_SAYS);
}

gd_status gd_module_set_buffer(gd_module *module, const char *path, gd_tensor *tensor)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    return holder ? put_tensor(holder, name, tensor, BUFFER) : gd__failure(module, GD_ATTRIBUTE);
}

gd_status gd_module_set_parameter(gd_module *module, const char *path, gd_tensor *tensor)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    if (!holder) return gd__failure(module, GD_ATTRIBUTE);
    gd_status status = check_tensor(holder, name, tensor);
    if (status) return status;
    gd_ctx *ctx = holder->head.ctx;
    char place[GD_PLACE_SIZE];
    if (gd_class_is_no_grad(holder->head.cls, name))
        return gd_fail(ctx, GD_ARGUMENT,
                       "module '%s': '%s' is declared without gradients and cannot be a parameter",
                       gd__place(holder, place), name);
    if (!gd_dtype_is_float(tensor->dtype))
        return gd_fail(ctx, GD_DTYPE, "module '%s': parameter '%s' is %s, which cannot have gradients",
                       gd__place(holder, place), name, gd_dtype_name(tensor->dtype));
    return put_tensor(holder, name, tensor, PARAMETER);
}

gd_status gd_module_tie(gd_module *module, const char *path, gd_tensor *tensor)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    if (!holder) return gd__failure(module, GD_ATTRIBUTE);
    gd_status status = check_tensor(holder, name, tensor);
    if (!status) status = prepare(holder, name);
    if (status) return status;
    gd_ctx *ctx = holder->head.ctx;
    char place[GD_PLACE_SIZE];
    if (tensor->node || !gd_dtype_is_float(tensor->dtype) || gd_class_is_no_grad(holder->head.cls, name))
        return gd_fail(ctx, GD_ARGUMENT, "module '%s': '%s' can only be tied to a parameter",
                       gd__place(holder, place), name);
    if (gd_tensor_device(tensor) != holder->device)
        return gd_fail(ctx, GD_DEVICE, "module '%s': the parameter that '%s' is to be tied to is on %s",
                       gd__place(holder, place), name, gd_device_name(gd_tensor_device(tensor)));
    const gd_attribute *there = gd__attribute_find(holder, name);
    if (there && there->kind == GD_ATTRIBUTE_TENSOR && there->tensor == tensor) return GD_OK;
    gd__retain(tensor);
    status = gd__attribute_put(holder, name,
                               &(gd_attribute){.kind = GD_ATTRIBUTE_TENSOR, .tied = true, .tensor = tensor});
    if (status) gd__release(tensor);
    return status;
}

gd_tensor *gd_module_get_tensor(gd_module *module, const char *path)
{
    const gd_attribute *a = look(&module, path);
    if (!a) return NULL;
    if (a->kind == GD_ATTRIBUTE_TENSOR) return a->tensor;
    if (a->kind == GD_ATTRIBUTE_VIRTUAL) return gd__virtual_read(a->virtual_tensor);
    (void)wrong_kind(module, a, "a tensor");
    return NULL;
}

/* ---- modules ---- */

static gd_status is_parent(gd_module *module, const char *prefix, void *user)
{
    (void)prefix;
    return module == user ? GD_CYCLE : GD_OK;
}

static gd_status put_module(gd_module *module, const char *name, gd_module *child)
{
    gd_ctx *ctx = module->head.ctx;
    char place[GD_PLACE_SIZE];
    if (!child || child->head.ctx != ctx) {
        (void)gd_fail(ctx, GD_ARGUMENT, "module '%s': no module of this context given for '%s'",
                      gd__place(module, place), name);
        return gd_error(ctx);
    }
    gd_status status = gd__walk(child, is_parent, module);
    if (status == GD_CYCLE)
        return gd_fail(ctx, GD_CYCLE, "module '%s': assigning '%s' would put the module inside itself",
                       gd__place(module, place), name);
    if (!status) status = prepare(module, name);
    if (!status) status = gd_module_to_device(child, module->device);
    if (status) return status;
    gd__retain(child);
    status = gd__attribute_put(module, name, &(gd_attribute){.kind = GD_ATTRIBUTE_MODULE, .module = child});
    if (!status && !child->parent) {
        child->parent = module;
        child->name_in_parent = gd__attribute_find(module, name)->name;
    }
    return status;
}

gd_status gd_module_set_module(gd_module *module, const char *path, gd_module *child)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    return holder ? put_module(holder, name, child) : gd__failure(module, GD_ATTRIBUTE);
}

gd_module *gd_module_get_module(gd_module *module, const char *path)
{
    const gd_attribute *a = look(&module, path);
    if (!a) return NULL;
    if (a->kind == GD_ATTRIBUTE_MODULE) return a->module;
    (void)wrong_kind(module, a, "a module");
    return NULL;
}

gd_virtual *gd_module_get_virtual(gd_module *module, const char *path)
{
    const gd_attribute *a = look(&module, path);
    if (!a) return NULL;
    if (a->kind == GD_ATTRIBUTE_VIRTUAL) return a->virtual_tensor;
    (void)wrong_kind(module, a, "a virtual tensor");
    return NULL;
}

/* ---- objects ---- */

static gd_status put_object(gd_module *module, const char *name, gd_object *object)
{
    gd_ctx *ctx = module->head.ctx;
    char place[GD_PLACE_SIZE];
    if (!object || object->ctx != ctx) {
        (void)gd_fail(ctx, GD_ARGUMENT, "module '%s': no object of this context given for '%s'",
                      gd__place(module, place), name);
        return gd_error(ctx);
    }
    if (object->type == &gd__tensor_type) return put_tensor(module, name, (gd_tensor *)object, AS_CLASS_SAYS);
    if (object->type == &gd__module_type) return put_module(module, name, (gd_module *)object);
    gd_status status = prepare(module, name);
    if (status) return status;
    gd_attribute value = {.kind = GD_ATTRIBUTE_OBJECT};
    value.object = gd__moved_object(object, module->device, GD_DTYPE_COUNT);
    if (!value.object) return gd__failure(module, GD_CALLBACK);
    status = gd__attribute_put(module, name, &value);
    if (status) gd__release(value.object); /* the mover used the memory */
    return status;
}

gd_status gd_module_set_object(gd_module *module, const char *path, gd_object *object)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    return holder ? put_object(holder, name, object) : gd__failure(module, GD_ATTRIBUTE);
}

gd_object *gd_module_get_object(gd_module *module, const char *path)
{
    const gd_attribute *a = look(&module, path);
    if (!a) return NULL;
    if (a->kind == GD_ATTRIBUTE_OBJECT) return a->object;
    if (a->kind == GD_ATTRIBUTE_TENSOR) return &a->tensor->head;
    if (a->kind == GD_ATTRIBUTE_MODULE) return &a->module->head;
    (void)wrong_kind(module, a, "an object");
    return NULL;
}

/* ---- plain values ---- */

gd_status gd_module_set_int(gd_module *module, const char *path, int64_t number)
{
    return put_at(module, path, &(gd_attribute){.kind = GD_ATTRIBUTE_INT, .integer = number});
}

gd_status gd_module_set_real(gd_module *module, const char *path, double number)
{
    return put_at(module, path, &(gd_attribute){.kind = GD_ATTRIBUTE_REAL, .real = number});
}

gd_status gd_module_set_string(gd_module *module, const char *path, const char *text)
{
    if (!module) return GD_ARGUMENT;
    gd_ctx *ctx = module->head.ctx;
    if (!text)
        return gd_fail(ctx, GD_ARGUMENT, "module '%s': no string given for '%s'", module->head.cls->name,
                       path ? path : "");
    gd_attribute value = {.kind = GD_ATTRIBUTE_STRING, .string = gd__strdup(ctx, text)};
    if (!value.string) return GD_NOMEM;
    gd_status status = put_at(module, path, &value);
    if (status) gd__strfree(ctx, value.string);
    return status;
}

gd_status gd_module_set_pointer(gd_module *module, const char *path, void *pointer,
                                void (*destroy)(void *pointer))
{
    return put_at(module, path,
                  &(gd_attribute){.kind = GD_ATTRIBUTE_POINTER, .pointer = pointer, .destroy = destroy});
}

gd_status gd_module_get_int(gd_module *module, const char *path, int64_t *out)
{
    gd_module *holder = module;
    const gd_attribute *a = look(&holder, path);
    if (!a) return gd__failure(module, GD_ATTRIBUTE);
    if (a->kind != GD_ATTRIBUTE_INT) return wrong_kind(holder, a, "an int");
    *out = a->integer;
    return GD_OK;
}

gd_status gd_module_get_real(gd_module *module, const char *path, double *out)
{
    gd_module *holder = module;
    const gd_attribute *a = look(&holder, path);
    if (!a) return gd__failure(module, GD_ATTRIBUTE);
    if (a->kind != GD_ATTRIBUTE_REAL && a->kind != GD_ATTRIBUTE_INT) return wrong_kind(holder, a, "a real");
    *out = a->kind == GD_ATTRIBUTE_INT ? (double)a->integer : a->real;
    return GD_OK;
}

gd_status gd_module_get_string(gd_module *module, const char *path, const char **out)
{
    gd_module *holder = module;
    const gd_attribute *a = look(&holder, path);
    if (!a) return gd__failure(module, GD_ATTRIBUTE);
    if (a->kind != GD_ATTRIBUTE_STRING) return wrong_kind(holder, a, "a string");
    *out = a->string;
    return GD_OK;
}

gd_status gd_module_get_pointer(gd_module *module, const char *path, void **out)
{
    gd_module *holder = module;
    const gd_attribute *a = look(&holder, path);
    if (!a) return gd__failure(module, GD_ATTRIBUTE);
    if (a->kind != GD_ATTRIBUTE_POINTER) return wrong_kind(holder, a, "a pointer");
    *out = a->pointer;
    return GD_OK;
}

gd_status gd_module_delete(gd_module *module, const char *path)
{
    const char *name;
    gd_module *holder = attribute_holder(module, path, &name);
    if (!holder) return gd__failure(module, GD_ATTRIBUTE);
    gd_attribute *a = gd__attribute_find(holder, name);
    if (!a) {
        no_attribute(holder, name, strlen(name));
        return GD_ATTRIBUTE;
    }
    char place[GD_PLACE_SIZE];
    if (a->reference_of)
        return gd_fail(holder->head.ctx, GD_STATE, "module '%s': '%s' belongs to the virtual tensor '%s'",
                       gd__place(holder, place), name, gd_virtual_name(a->reference_of));
    gd__attribute_remove(holder, a);
    return GD_OK;
}
