/* Classes: the registry of a context, making, names without gradients, methods. */
#include "module/class_internal.h"

#include <string.h>

/* ---- small helpers of this layer ---- */

static bool name_byte(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c >= 0x80;
}

bool gd__is_name(const char *text)
{
    if (!text || !*text) return false;
    for (; *text; text++)
        if (!name_byte((unsigned char)*text)) return false;
    return true;
}

bool gd__is_identifier(const char *text) { return gd__is_name(text) && !(*text >= '0' && *text <= '9'); }

const char *gd__next_name(const char **text, size_t *length)
{
    const char *at = *text;
    while (at && (*at == ' ' || *at == ',')) at++;
    if (!at || !*at) return NULL;
    size_t n = strcspn(at, ", ");
    *text = at + n;
    *length = n;
    return at;
}

/* ---- the registry ---- */

static const char registry_key = 'c';

static void class_free(gd_ctx *ctx, gd_class *cls)
{
    gd__free(ctx, cls->order, (size_t)cls->order_capacity * sizeof *cls->order);
    gd__free(ctx, cls->registration, (size_t)cls->registration_capacity * sizeof *cls->registration);
    gd__free(ctx, cls->method, (size_t)cls->method_capacity * sizeof *cls->method);
    gd__free(ctx, cls->no_grad, (size_t)cls->no_grad_capacity * sizeof *cls->no_grad);
    gd__free(ctx, cls, sizeof *cls);
}

static void registry_free(gd_ctx *ctx, void *data)
{
    gd_registry *registry = data;
    for (gd_class *cls = registry->classes, *next; cls; cls = next) {
        next = cls->next;
        class_free(ctx, cls);
    }
    gd__free(ctx, registry->by_id, registry->by_id_bytes);
    gd__free(ctx, registry->layer, (size_t)registry->layer_capacity * sizeof *registry->layer);
    gd__free(ctx, registry->cache, registry->cache_capacity * sizeof *registry->cache);
    gd__free(ctx, registry, sizeof *registry);
}

static bool reserve_id(gd_ctx *ctx, gd_registry *registry)
{
    size_t need = (registry->class_count + 1) * sizeof *registry->by_id;
    return gd__grow(ctx, &registry->by_id, &registry->by_id_bytes, need);
}

/* Makes a class of checked bases and puts it into the registry. */
static gd_class *class_make(gd_ctx *ctx, gd_registry *registry, const char *name, gd_class *const *bases,
                            int count)
{
    gd_class *cls = gd__calloc(ctx, sizeof *cls);
    if (!cls) return NULL;
    cls->ctx = ctx;
    cls->registry = registry;
    cls->name = gd__intern(ctx, name, strlen(name));
    if (!cls->name || !reserve_id(ctx, registry) || gd__linearise(cls, bases, count)) {
        class_free(ctx, cls);
        return NULL;
    }
    for (int b = 0; b < count; b++) {
        cls->is_tensor |= bases[b]->is_tensor;
        cls->is_functional |= bases[b]->is_functional;
        cls->is_module |= bases[b]->is_module;
    }
    cls->next = registry->classes;
    registry->classes = cls;
    registry->by_id[registry->class_count++] = cls;
    cls->id = registry->class_count;
    return cls;
}

static bool make_core(gd_ctx *ctx, gd_registry *registry)
{
    gd_class **core = registry->core;
    if (!(core[GD_CORE_OBJECT] = class_make(ctx, registry, "Object", NULL, 0))) return false;
    if (!(core[GD_CORE_TENSOR] = class_make(ctx, registry, "Tensor", &core[GD_CORE_OBJECT], 1))) return false;
    if (!(core[GD_CORE_FUNCTIONAL] = class_make(ctx, registry, "Functional", &core[GD_CORE_OBJECT], 1)))
        return false;
    if (!(core[GD_CORE_MODULE] = class_make(ctx, registry, "Module", &core[GD_CORE_FUNCTIONAL], 1)))
        return false;
    core[GD_CORE_TENSOR]->is_tensor = true;
    core[GD_CORE_FUNCTIONAL]->is_functional = true;
    core[GD_CORE_MODULE]->is_functional = true;
    core[GD_CORE_MODULE]->is_module = true;
    return true;
}

static void *registry_make(gd_ctx *ctx)
{
    gd_registry *registry = gd__calloc(ctx, sizeof *registry);
    if (!registry || make_core(ctx, registry)) return registry;
    registry_free(ctx, registry);
    return NULL;
}

gd_registry *gd__registry(gd_ctx *ctx)
{
    return ctx ? gd__extension(ctx, &registry_key, registry_make, registry_free) : NULL;
}

static gd_class *core_class(gd_ctx *ctx, gd_core_class which)
{
    gd_registry *registry = gd__registry(ctx);
    return registry ? registry->core[which] : NULL;
}

gd_class *gd_class_object(gd_ctx *ctx) { return core_class(ctx, GD_CORE_OBJECT); }

gd_class *gd_class_tensor(gd_ctx *ctx) { return core_class(ctx, GD_CORE_TENSOR); }

gd_class *gd_class_functional(gd_ctx *ctx) { return core_class(ctx, GD_CORE_FUNCTIONAL); }

gd_class *gd_class_module(gd_ctx *ctx) { return core_class(ctx, GD_CORE_MODULE); }

gd_class *gd__layer_class(gd_ctx *ctx, const char *name, gd_handler forward)
{
    gd_registry *registry = gd__registry(ctx);
    if (!registry) return NULL;
    for (int i = 0; i < registry->layer_count; i++)
        if (!strcmp(registry->layer[i]->name, name)) return registry->layer[i];
    gd_class *cls = gd_class_new(ctx, name, &registry->core[GD_CORE_MODULE], 1);
    if (!cls || gd_register(cls, registry->core[GD_CORE_TENSOR], forward, NULL) ||
        !gd__reserve(ctx, &registry->layer, registry->layer_count, &registry->layer_capacity,
                     sizeof *registry->layer))
        return NULL;
    return registry->layer[registry->layer_count++] = cls;
}

/* ---- making and looking ---- */

static gd_status check_bases(gd_ctx *ctx, const char *name, gd_class *const *bases, int count)
{
    for (int b = 0; b < count; b++) {
        if (!bases[b]) return gd_fail(ctx, GD_ARGUMENT, "class '%s': base %d is NULL", name, b);
        if (bases[b]->ctx != ctx)
            return gd_fail(ctx, GD_ARGUMENT, "class '%s': base '%s' is of a different context", name,
                           bases[b]->name);
        for (int earlier = 0; earlier < b; earlier++)
            if (bases[earlier] == bases[b])
                return gd_fail(ctx, GD_ARGUMENT, "class '%s': base '%s' is given twice", name,
                               bases[b]->name);
    }
    return GD_OK;
}

gd_class *gd_class_new(gd_ctx *ctx, const char *name, gd_class *const *bases, int count)
{
    gd_registry *registry = gd__registry(ctx);
    if (!registry) return NULL;
    if (!name || !*name || count < 0 || (count && !bases))
        return gd__refuse(ctx, GD_ARGUMENT, "class '%s': needs a name and %s", name ? name : "", "its bases");
    if (!count) {
        bases = &registry->core[GD_CORE_OBJECT];
        count = 1;
    }
    return check_bases(ctx, name, bases, count) ? NULL : class_make(ctx, registry, name, bases, count);
}

const char *gd_class_name(const gd_class *cls) { return cls ? cls->name : NULL; }

gd_ctx *gd_class_ctx(const gd_class *cls) { return cls ? cls->ctx : NULL; }

const gd_class *const *gd_class_order(const gd_class *cls, int *count)
{
    if (count) *count = cls ? cls->order_count : 0;
    return cls ? cls->order : NULL;
}

bool gd_class_is(const gd_class *cls, const gd_class *base)
{
    if (!cls || !base) return false;
    for (int i = 0; i < cls->order_count; i++)
        if (cls->order[i] == base) return true;
    return false;
}

/* ---- names without gradients ---- */

static bool lists_no_grad(const gd_class *cls, const char *name, size_t length)
{
    for (int i = 0; i < cls->no_grad_count; i++)
        if (strlen(cls->no_grad[i]) == length && memcmp(cls->no_grad[i], name, length) == 0) return true;
    return false;
}

static gd_status add_no_grad(gd_class *cls, const char *name, size_t length)
{
    gd_ctx *ctx = cls->ctx;
    if (lists_no_grad(cls, name, length)) return GD_OK;
    const char *own = gd__intern(ctx, name, length);
    if (!own) return GD_NOMEM;
    if (!gd__is_name(own))
        return gd_fail(ctx, GD_ARGUMENT, "class '%s': '%s' is no attribute name", cls->name, own);
    if (!gd__reserve(ctx, &cls->no_grad, cls->no_grad_count, &cls->no_grad_capacity, sizeof *cls->no_grad))
        return GD_NOMEM;
    cls->no_grad[cls->no_grad_count++] = own;
    return GD_OK;
}

gd_status gd_class_no_grad(gd_class *cls, const char *names)
{
    if (!cls) return GD_ARGUMENT;
    if (!cls->is_module)
        return gd_fail(cls->ctx, GD_TYPE,
                       "class '%s': only classes below Module have tensors without gradients", cls->name);
    size_t length;
    int before = cls->no_grad_count;
    for (const char *name; (name = gd__next_name(&names, &length));) {
        gd_status status = add_no_grad(cls, name, length);
        if (status) {
            cls->no_grad_count = before; /* all of the names or none */
            return status;
        }
    }
    return GD_OK;
}

bool gd_class_is_no_grad(const gd_class *cls, const char *name)
{
    if (!cls || !name) return false;
    for (int i = 0; i < cls->order_count; i++)
        if (lists_no_grad(cls->order[i], name, strlen(name))) return true;
    return false;
}

gd_status gd_class_on_move(gd_class *cls, gd_mover fn, void *user)
{
    if (!cls) return GD_ARGUMENT;
    if (cls->is_tensor || cls->is_module)
        return gd_fail(cls->ctx, GD_TYPE, "class '%s': tensors and modules move by themselves", cls->name);
    cls->mover = fn;
    cls->mover_user = user;
    return GD_OK;
}

/* ---- methods ---- */

static gd_method_entry *own_method(const gd_class *cls, const char *name)
{
    for (int i = 0; i < cls->method_count; i++)
        if (strcmp(cls->method[i].name, name) == 0) return &cls->method[i];
    return NULL;
}

const gd_method_entry *gd__find_method(const gd_class *cls, const char *name)
{
    for (int i = 0; i < cls->order_count; i++) {
        const gd_method_entry *found = own_method(cls->order[i], name);
        if (found) return found;
    }
    return NULL;
}

gd_status gd_class_add_method(gd_class *cls, const char *name, gd_method fn, void *user)
{
    if (!cls) return GD_ARGUMENT;
    gd_ctx *ctx = cls->ctx;
    if (!gd__is_identifier(name) || !fn)
        return gd_fail(ctx, GD_ARGUMENT,
                       "class '%s': a method needs a function and an identifier as name, got '%s'", cls->name,
                       name ? name : "");
    gd_method_entry *there = own_method(cls, name);
    if (there) {
        *there = (gd_method_entry){there->name, fn, user};
        return GD_OK;
    }
    const char *own = gd__intern(ctx, name, strlen(name));
    if (!own ||
        !gd__reserve(ctx, &cls->method, cls->method_count, &cls->method_capacity, sizeof *cls->method))
        return GD_NOMEM;
    cls->method[cls->method_count++] = (gd_method_entry){own, fn, user};
    return GD_OK;
}

bool gd_class_has_method(const gd_class *cls, const char *name)
{
    return cls && name && gd__find_method(cls, name);
}

gd_object *gd_call_method(gd_object *object, const char *name, const gd_kwargs *kwargs)
{
    if (!object) return NULL;
    gd_ctx *ctx = object->ctx;
    const gd_class *cls = gd__class_of(object);
    if (!cls) return NULL;
    const gd_method_entry *method = name ? gd__find_method(cls, name) : NULL;
    if (!method)
        return gd__refuse(ctx, GD_ATTRIBUTE, "call_method: class '%s' has no method '%s'", cls->name,
                          name ? name : "");
    if (gd__kwargs_check(ctx, "call_method", kwargs)) return NULL;
    gd_scope_begin(ctx);
    gd_object *result = method->fn(object, kwargs, method->user);
    if (!result)
        (void)gd_fail(ctx, GD_CALLBACK, "call_method: '%s' of class '%s' returned nothing", name, cls->name);
    return gd__carry_out(ctx, result);
}
