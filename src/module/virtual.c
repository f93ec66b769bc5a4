/* Virtual tensors: attributes computed from their owner on read. */
#include "module/module_internal.h"

#include <stdio.h>
#include <string.h>

struct gd_virtual {
    gd_object head;
    gd_weak *owner;
    char *name, *reference; /* "x", "_x_ref" */
    char *method;           /* NULL: fn */
    gd_materializer fn;
    void *user;
    void (*destroy)(void *user);
    bool memoise, computing;
    /* the remembered value; NULL: none */
    gd_tensor *memo;
    uint32_t memo_version;
    bool memo_grad; /* was it computed while gradients were on? */
    gd_dependencies read;
};

gd_virtual_options gd_virtual_defaults(void) { return (gd_virtual_options){.dtype = GD_F32}; }

/* ---- life ---- */

static void forget_memo(gd_virtual *v)
{
    gd_tensor *memo = v->memo;
    v->memo = NULL;
    gd__release(memo);
    gd__dependencies_free(v->head.ctx, &v->read);
}

/* The reference attribute if the owner exists and the reference is ours. */
static gd_attribute *own_reference(const gd_virtual *v)
{
    gd_module *owner = v->owner ? v->owner->module : NULL;
    gd_attribute *a = owner && v->reference ? gd__attribute_find(owner, v->reference) : NULL;
    return a && a->reference_of == v ? a : NULL;
}

static void virtual_destroy(void *object)
{
    gd_virtual *v = object;
    gd_ctx *ctx = v->head.ctx;
    gd_attribute *reference = own_reference(v);
    if (reference) gd__attribute_remove(v->owner->module, reference);
    forget_memo(v);
    if (v->destroy) v->destroy(v->user);
    gd__weak_release(v->owner);
    gd__strfree(ctx, v->name);
    gd__strfree(ctx, v->reference);
    gd__strfree(ctx, v->method);
    gd__free(ctx, v, sizeof *v);
}

static const gd_object_type virtual_type = {"Virtual", virtual_destroy};

static gd_status check_method(gd_module *owner, const char *name, const char *method)
{
    gd_ctx *ctx = owner->head.ctx;
    char place[GD_PLACE_SIZE];
    if (gd__attribute_find(owner, method))
        return gd_fail(ctx, GD_TYPE, "module '%s': virtual tensor '%s': '%s' is not a method",
                       gd__place(owner, place), name, method);
    if (!gd__find_method(owner->head.cls, method))
        return gd_fail(ctx, GD_ATTRIBUTE, "module '%s': virtual tensor '%s': class '%s' has no method '%s'",
                       gd__place(owner, place), name, owner->head.cls->name, method);
    return GD_OK;
}

static gd_status check_free(gd_module *owner, const char *name)
{
    char place[GD_PLACE_SIZE];
    if (!gd__attribute_find(owner, name) && !gd__find_method(owner->head.cls, name)) return GD_OK;
    return gd_fail(owner->head.ctx, GD_ARGUMENT, "module '%s': the name '%s' is taken",
                   gd__place(owner, place), name);
}

static gd_status check_new(gd_module *owner, const char *name, const gd_virtual_options *o)
{
    gd_ctx *ctx = owner->head.ctx;
    char place[GD_PLACE_SIZE];
    if (!gd__is_identifier(name))
        return gd_fail(ctx, GD_ARGUMENT, "module '%s': virtual tensor: '%s' is no identifier",
                       gd__place(owner, place), name ? name : "");
    if (!o->method == !o->fn)
        return gd_fail(ctx, GD_ARGUMENT,
                       "module '%s': virtual tensor '%s' needs a method or a function, and not both",
                       gd__place(owner, place), name);
    if ((unsigned)o->dtype >= GD_DTYPE_COUNT)
        return gd_fail(ctx, GD_DTYPE, "module '%s': virtual tensor '%s': dtype number %d does not exist",
                       gd__place(owner, place), name, (int)o->dtype);
    gd_status status = o->method ? check_method(owner, name, o->method) : GD_OK;
    return status ? status : check_free(owner, name);
}

static char *reference_name(gd_ctx *ctx, const char *name)
{
    size_t size = strlen(name) + sizeof "__ref";
    char *text = gd__alloc(ctx, size);
    if (text) snprintf(text, size, "_%s_ref", name);
    return text;
}

/* A zero-element tensor, owned by the caller, outside every scope. */
static gd_tensor *make_reference(gd_ctx *ctx, gd_device *device, gd_dtype dtype)
{
    if (!gd__local_begin(ctx)) return NULL;
    gd_tensor *t = gd_empty_on(device, dtype, 1, (int64_t[]){0});
    gd__own(t);
    gd_scope_end(ctx);
    return t;
}

static gd_status add_reference(gd_virtual *v, gd_module *owner, const gd_virtual_options *o)
{
    gd_status status = check_free(owner, v->reference);
    if (status) return status;
    gd_attribute value = {
        .kind = GD_ATTRIBUTE_TENSOR, .buffer = true, .transient = !o->persist, .reference_of = v};
    value.tensor = make_reference(owner->head.ctx, o->device ? o->device : owner->device, o->dtype);
    if (!value.tensor) return gd__failure(owner, GD_NOMEM);
    status = gd__attribute_put(owner, v->reference, &value);
    if (status) gd__release(value.tensor);
    return status;
}

static gd_status fill_virtual(gd_virtual *v, gd_module *owner, const char *name, const gd_virtual_options *o)
{
    gd_ctx *ctx = owner->head.ctx;
    v->owner = gd__weak_of(owner);
    v->name = gd__strdup(ctx, name);
    v->reference = reference_name(ctx, name);
    v->method = o->method ? gd__strdup(ctx, o->method) : NULL;
    if (!v->owner || !v->name || !v->reference || (o->method && !v->method)) return GD_NOMEM;
    v->fn = o->fn;
    v->memoise = o->memoise;
    return add_reference(v, owner, o);
}

/* `scoped`: owned by the innermost scope like every new object; otherwise by the caller whatever the scope. */
static gd_virtual *make(gd_module *owner, const char *name, const gd_virtual_options *options, bool scoped)
{
    if (!owner) return NULL;
    gd_ctx *ctx = owner->head.ctx;
    gd_virtual_options o = options ? *options : gd_virtual_defaults();
    if (check_new(owner, name, &o)) return NULL;
    gd_virtual *v = gd__calloc(ctx, sizeof *v);
    if (!v) return NULL;
    if (!scoped)
        gd__object_init_owned(ctx, v, &virtual_type);
    else if (gd__object_init(ctx, v, &virtual_type)) {
        gd__free(ctx, v, sizeof *v);
        return NULL;
    }
    if (fill_virtual(v, owner, name, &o)) {
        gd__release(v);
        return NULL;
    }
    v->user = o.user; /* consumed from here on */
    v->destroy = o.destroy;
    return v;
}

gd_virtual *gd_virtual_new(gd_module *owner, const char *name, const gd_virtual_options *options)
{
    return make(owner, name, options, true);
}

/* Records that the owner is gone, or returns it. */
static gd_module *owner_of(const gd_virtual *v)
{
    if (v->owner->module) return v->owner->module;
    return gd__refuse(v->head.ctx, GD_STATE, "virtual tensor '%s': its owner is gone", v->name);
}

gd_status gd_module_set_virtual(gd_virtual *v)
{
    if (!v) return GD_ARGUMENT;
    gd_module *owner = owner_of(v);
    if (!owner) return GD_STATE;
    gd__retain(v);
    gd_status status = gd__attribute_put(owner, v->name,
                                         &(gd_attribute){.kind = GD_ATTRIBUTE_VIRTUAL, .virtual_tensor = v});
    if (status) gd__release(v);
    return status;
}

gd_status gd_virtual_create(gd_module *owner, const char *name, const gd_virtual_options *options)
{
    gd_virtual *v = make(owner, name, options, false);
    if (!v) return gd__failure(owner, GD_NOMEM);
    gd_status status = gd_module_set_virtual(v);
    if (status) v->destroy = NULL; /* on failure the caller keeps `user` */
    gd__release(v);
    return status;
}

gd_virtual *gd_virtual_retain(gd_virtual *v)
{
    gd__user_retain(v);
    return v;
}

void gd_virtual_release(gd_virtual *v) { gd__user_release(v); }

gd_virtual *gd_virtual_keep(gd_virtual *v)
{
    gd__keep(v);
    return v;
}

/* ---- looking ---- */

const char *gd_virtual_name(const gd_virtual *v) { return v ? v->name : NULL; }

const char *gd_virtual_reference(const gd_virtual *v) { return v ? v->reference : NULL; }

gd_module *gd_virtual_owner(const gd_virtual *v) { return v ? v->owner->module : NULL; }

gd_dtype gd_virtual_dtype(const gd_virtual *v)
{
    return v && owner_of(v) ? own_reference(v)->tensor->dtype : GD_DTYPE_COUNT;
}

gd_device *gd_virtual_device(const gd_virtual *v)
{
    return v && owner_of(v) ? gd_tensor_device(own_reference(v)->tensor) : NULL;
}

gd_status gd_virtual_to(gd_virtual *v, gd_dtype dtype, gd_device *device)
{
    if (!v) return GD_ARGUMENT;
    if (!owner_of(v)) return GD_STATE;
    if ((unsigned)dtype > GD_DTYPE_COUNT)
        return gd_fail(v->head.ctx, GD_DTYPE, "virtual tensor '%s': dtype number %d does not exist", v->name,
                       (int)dtype);
    gd_tensor *reference = own_reference(v)->tensor;
    if (dtype == GD_DTYPE_COUNT) dtype = reference->dtype;
    if (!device) device = gd_tensor_device(reference);
    gd_tensor *fresh = make_reference(v->head.ctx, device, dtype);
    if (!fresh) return gd__failure(v->owner->module, GD_NOMEM);
    gd__swap_storage(reference, fresh);
    gd__release(fresh);
    return GD_OK;
}

/* ---- computing ---- */

/* Names the cycle of virtual tensors through which the value reads itself: "x -> y -> x". */
static void read_itself(const gd_virtual *v)
{
    char text[256];
    size_t used = (size_t)snprintf(text, sizeof text, "'%s'", v->name);
    for (const gd_tracker *t = gd__registry(v->head.ctx)->tracker; t && used < sizeof text; t = t->outer) {
        used += (size_t)snprintf(text + used, sizeof text - used, " <- '%s'", t->computing->name);
        if (t->computing == v) break;
    }
    (void)gd_fail(v->head.ctx, GD_CYCLE, "virtual tensor '%s' reads itself: %s", v->name, text);
}

static gd_tensor *call_method(gd_virtual *v, gd_module *owner, gd_dtype dtype, gd_device *device)
{
    gd_object *made = gd_call_method(
        &owner->head, v->method,
        GD_KWARGS(gd_int_argument("dtype", dtype), gd_pointer_argument("device", device)));
    gd_tensor *tensor = gd_object_tensor(made);
    if (!tensor) gd_object_release(made);
    return tensor;
}

/* Calls the materializer and converts its result to dtype and device; inside a local scope. */
static gd_tensor *compute(gd_virtual *v, gd_module *owner)
{
    gd_ctx *ctx = v->head.ctx;
    gd_dtype dtype = gd_virtual_dtype(v);
    gd_device *device = gd_virtual_device(v);
    gd__note_read(owner, v->reference, strlen(v->reference));
    gd_tensor *value = v->method ? call_method(v, owner, dtype, device)
                                 : v->fn(owner, dtype, device, v->user);
    char place[GD_PLACE_SIZE];
    if (!value)
        return gd__refuse(ctx, GD_CALLBACK,
                          "module '%s': the function of virtual tensor '%s' returned nothing",
                          gd__place(owner, place), v->name);
    if (value->head.ctx != ctx)
        return gd__refuse(ctx, GD_CALLBACK,
                          "module '%s': the value of virtual tensor '%s' is of a different context",
                          gd__place(owner, place), v->name);
    if (gd_tensor_device(value) != device) value = gd_to_device(value, device);
    if (value && value->dtype != dtype) value = gd_cast(value, dtype);
    return value;
}

static void remember(gd_virtual *v, gd_tensor *value, gd_tracker *tracker)
{
    forget_memo(v);
    gd__retain(value);
    v->memo = value;
    v->memo_version = gd__version(value);
    v->memo_grad = gd_grad_enabled(v->head.ctx);
    v->read = tracker->read;
    tracker->read = (gd_dependencies){0};
}

static gd_tensor *materialize(gd_virtual *v, gd_module *owner)
{
    gd_ctx *ctx = v->head.ctx;
    if (!gd__local_begin(ctx)) return NULL;
    gd_tracker tracker = {.computing = v, .remembers = v->memoise};
    gd__tracker_push(ctx, &tracker);
    v->computing = true;
    gd__retain(owner); /* the materializer may drop either */
    gd__retain(v);
    gd_tensor *value = compute(v, owner);
    if (tracker.failed) value = NULL;
    value = gd__local_end(ctx, value);
    v->computing = false;
    gd__tracker_pop(ctx, &tracker);
    if (value && v->memoise && !tracker.too_wide) remember(v, value, &tracker);
    gd__dependencies_free(ctx, &tracker.read);
    gd__release(v);
    gd__release(owner);
    return value;
}

static bool memo_valid(const gd_virtual *v)
{
    gd_ctx *ctx = v->head.ctx;
    bool grad = gd_grad_enabled(ctx);
    if (ctx->recorder) return false; /* its inputs are to be visited */
    return v->memo && (v->memo_grad || !grad) && gd__version(v->memo) == v->memo_version &&
           gd__unchanged(&v->read) && (!grad || gd__history_alive(ctx, v->memo));
}

/* The owner, if the value may be read now. */
static gd_module *ready(const gd_virtual *v)
{
    gd_module *owner = owner_of(v);
    if (!owner || !v->computing) return owner;
    read_itself(v);
    return NULL;
}

gd_tensor *gd_virtual_value(gd_virtual *v)
{
    if (!v) return NULL;
    gd_module *owner = ready(v);
    if (!owner) return NULL;
    if (!memo_valid(v)) return materialize(v, owner);
    return gd__note_again(v->head.ctx, &v->read) ? NULL : gd__another_handle(v->memo);
}

/* Outside every scope the memo alone can hold a value that is read by name. */
static gd_tensor *read_memo(gd_virtual *v, gd_module *owner)
{
    gd_ctx *ctx = v->head.ctx;
    char place[GD_PLACE_SIZE];
    gd__retain(v); /* the materializer may drop it */
    gd_tensor *value = v->memoise ? materialize(v, owner) : NULL;
    bool failed = v->memoise && !value;
    gd__release(value);
    if (v->head.refs == 1 || v->memo != value) value = NULL;
    if (!value && !failed)
        (void)gd_fail(
            ctx, GD_STATE,
            "module '%s': reading the virtual tensor '%s' by name needs a scope, or a memo, to own the value",
            gd__place(owner, place), v->name);
    gd__release(v);
    return value;
}

gd_tensor *gd__virtual_read(gd_virtual *v)
{
    gd_ctx *ctx = v->head.ctx;
    if (ctx->scope.depth) return gd_virtual_value(v);
    gd_module *owner = ready(v);
    if (!owner) return NULL;
    if (!memo_valid(v)) return read_memo(v, owner);
    return gd__note_again(ctx, &v->read) ? NULL : v->memo;
}
