/* Dispatch: which function runs when a functional is invoked on an object.
 *
 *   for each class O in the order of the object
 *     for each class F in the order of the functional
 *       a registration (F, O) wins
 *
 * The result of a search, also a failure, is remembered under the exact pair in an open-addressing table.  A
 * registration (F, O) can change exactly the pairs whose object class is at or below O and whose functional class is
 * at or below F; those become stale and are searched again at their next use. */
#include "module/class_internal.h"

static inline uint64_t pair_key(const gd_class *object_class, const gd_class *functional)
{
    return (uint64_t)object_class->id << 32 | functional->id;
}

static inline size_t key_place(uint64_t key, size_t capacity)
{
    return (size_t)((key * 0x9E3779B97F4A7C15u) >> 32) & (capacity - 1);
}

/* The entry of a key, or the free one where it would go.  The table is never full. */
static inline gd_dispatch_entry *probe(gd_dispatch_entry *cache, size_t capacity, uint64_t key)
{
    size_t at = key_place(key, capacity);
    while (cache[at].key != key && cache[at].key) at = (at + 1) & (capacity - 1);
    return &cache[at];
}

static bool grow_cache(gd_ctx *ctx, gd_registry *registry)
{
    size_t capacity = registry->cache_capacity ? registry->cache_capacity * 2 : 64;
    gd_dispatch_entry *cache = gd__calloc(ctx, capacity * sizeof *cache);
    if (!cache) return false;
    for (size_t i = 0; i < registry->cache_capacity; i++)
        if (registry->cache[i].key) *probe(cache, capacity, registry->cache[i].key) = registry->cache[i];
    gd__free(ctx, registry->cache, registry->cache_capacity * sizeof *cache);
    registry->cache = cache;
    registry->cache_capacity = capacity;
    return true;
}

static const gd_registration *direct(const gd_class *functional, const gd_class *object_class)
{
    for (int i = 0; i < functional->registration_count; i++)
        if (functional->registration[i].object == object_class) return &functional->registration[i];
    return NULL;
}

static const gd_registration *search(const gd_class *functional, const gd_class *object_class)
{
    for (int o = 0; o < object_class->order_count; o++) {
        for (int f = 0; f < functional->order_count; f++) {
            const gd_registration *found = direct(functional->order[f], object_class->order[o]);
            if (found) return found;
        }
    }
    return NULL;
}

/* Searches a pair and remembers the answer.  NULL only when there is no memory. */
static const gd_dispatch_entry *resolve(const gd_class *functional, const gd_class *object_class)
{
    gd_registry *registry = functional->registry;
    if (registry->cache_count * 2 >= registry->cache_capacity && !grow_cache(functional->ctx, registry))
        return NULL;
    const gd_registration *found = search(functional, object_class);
    uint64_t key = pair_key(object_class, functional);
    gd_dispatch_entry *entry = probe(registry->cache, registry->cache_capacity, key);
    if (!entry->key) registry->cache_count++;
    *entry = (gd_dispatch_entry){key, found ? found->fn : NULL, found ? found->user : NULL, true};
    return entry;
}

static inline const gd_dispatch_entry *lookup(const gd_class *functional, const gd_class *object_class)
{
    gd_registry *registry = functional->registry;
    if (registry->cache) {
        const gd_dispatch_entry *entry = probe(registry->cache, registry->cache_capacity,
                                               pair_key(object_class, functional));
        if (entry->fresh) return entry;
    }
    return resolve(functional, object_class);
}

/* Makes stale what a registration can change. */
static void forget_pairs(gd_registry *registry, const gd_class *functional, const gd_class *object_class)
{
    for (size_t i = 0; i < registry->cache_capacity; i++) {
        gd_dispatch_entry *entry = &registry->cache[i];
        if (!entry->fresh) continue;
        const gd_class *object = registry->by_id[(entry->key >> 32) - 1];
        const gd_class *called = registry->by_id[(entry->key & UINT32_MAX) - 1];
        if (gd_class_is(object, object_class) && gd_class_is(called, functional)) entry->fresh = false;
    }
}

gd_status gd_register(gd_class *functional, gd_class *object_class, gd_handler fn, void *user)
{
    if (!functional || !object_class) return gd__null(gd_class_ctx(functional), "register: a class is NULL");
    gd_ctx *ctx = functional->ctx;
    if (!functional->is_functional)
        return gd_fail(ctx, GD_TYPE, "register: class '%s' is not below Functional", functional->name);
    if (object_class->ctx != ctx || !fn)
        return gd_fail(ctx, GD_ARGUMENT, "register: %s for '%s' on '%s'",
                       fn ? "classes of two contexts" : "no function", functional->name, object_class->name);
    gd_registration *there = (gd_registration *)direct(functional, object_class);
    if (!there) {
        if (!gd__reserve(ctx, &functional->registration, functional->registration_count,
                         &functional->registration_capacity, sizeof *functional->registration))
            return GD_NOMEM;
        there = &functional->registration[functional->registration_count++];
    }
    *there = (gd_registration){object_class, fn, user};
    forget_pairs(functional->registry, functional, object_class);
    return GD_OK;
}

/* The error path of gd_invoke. */
static gd_object *refuse(const gd_object *functional, const gd_object *argument)
{
    gd_ctx *ctx = functional->ctx;
    const gd_class *called = gd__class_of(functional), *object = gd__class_of(argument);
    if (!called || !object) return NULL;
    if (!called->is_functional)
        (void)gd_fail(ctx, GD_TYPE, "invoke: class '%s' is not below Functional", called->name);
    else if (argument->ctx != ctx)
        (void)gd_fail(ctx, GD_ARGUMENT, "invoke: '%s' and '%s' are of two contexts", called->name,
                      object->name);
    else
        (void)gd_fail(ctx, GD_NOT_IMPLEMENTED, "invoke: nothing is registered for '%s' on '%s'", called->name,
                      object->name);
    return NULL;
}

static inline const gd_class *dispatch_class(const gd_object *object, const gd_registry *registry)
{
    return object->cls ? object->cls : registry->core[GD_CORE_TENSOR];
}

gd_object *gd_invoke(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs)
{
    if (!functional || !argument) return NULL;
    const gd_class *called = functional->cls;
    if (!called || !called->is_functional || argument->ctx != functional->ctx)
        return refuse(functional, argument);
    const gd_class *object = dispatch_class(argument, called->registry);
    const gd_dispatch_entry *entry = lookup(called, object);
    if (!entry) return NULL;
    if (!entry->fn) return refuse(functional, argument);
    if (kwargs && gd__kwargs_check(functional->ctx, "invoke", kwargs)) return NULL;
    gd_ctx *ctx = functional->ctx;
    gd_scope_begin(ctx); /* so that functions can be plain expressions without frees */
    gd_object *result = entry->fn(functional, argument, kwargs, entry->user);
    if (!result)
        (void)gd_fail(ctx, GD_CALLBACK, "invoke: the function of '%s' on '%s' returned nothing", called->name,
                      object->name);
    return gd__carry_out(ctx, result);
}

gd_handler gd_class_handler(const gd_class *functional, const gd_class *object_class, void **user)
{
    if (!functional || !object_class || !functional->is_functional || functional->ctx != object_class->ctx)
        return NULL;
    const gd_dispatch_entry *entry = lookup(functional, object_class);
    if (entry && user) *user = entry->user;
    return entry ? entry->fn : NULL;
}

bool gd_allows(gd_object *functional, gd_object *argument)
{
    if (!functional || !argument || argument->ctx != functional->ctx || !functional->cls) return false;
    return gd_class_handler(functional->cls, dispatch_class(argument, functional->cls->registry), NULL) !=
           NULL;
}

int gd_applicable_types(const gd_class *functional, const gd_class **out, int capacity)
{
    if (!functional) return 0;
    for (int i = 0; i < functional->registration_count && i < capacity; i++)
        out[i] = functional->registration[i].object;
    return functional->registration_count;
}
