/* The inside of classes and of the registry that a context keeps of them. */
#ifndef GD_MODULE_CLASS_INTERNAL_H
#define GD_MODULE_CLASS_INTERNAL_H

#include "base/ctx.h"
#include "gradus/class.h"

typedef struct gd_registry gd_registry;

/* A direct registration: the function of the class's functionals for objects of a class. */
typedef struct gd_registration {
    const gd_class *object;
    gd_handler fn;
    void *user;
} gd_registration;

typedef struct gd_method_entry {
    const char *name; /* interned */
    gd_method fn;
    void *user;
} gd_method_entry;

struct gd_class {
    gd_ctx *ctx;
    gd_registry *registry;
    gd_class *next;   /* in the registry's list */
    const char *name; /* interned */
    uint32_t id;      /* number in the registry, from 1 */
    bool is_tensor, is_functional, is_module;
    int order_count, order_capacity;
    const gd_class **order;
    int registration_count, registration_capacity;
    gd_registration *registration;
    int method_count, method_capacity;
    gd_method_entry *method;
    int no_grad_count, no_grad_capacity;
    const char **no_grad; /* interned */
    gd_mover mover;       /* NULL: that of a base, or none */
    void *mover_user;
};

/* One remembered dispatch.  A stale one keeps its place and is resolved again when asked for. */
typedef struct gd_dispatch_entry {
    uint64_t key;  /* object class number << 32 | functional class number; 0: free */
    gd_handler fn; /* NULL: nothing is registered */
    void *user;
    bool fresh;
} gd_dispatch_entry;

typedef enum gd_core_class {
    GD_CORE_OBJECT,
    GD_CORE_TENSOR,
    GD_CORE_FUNCTIONAL,
    GD_CORE_MODULE,
    GD_CORE_COUNT
} gd_core_class;

struct gd_registry {
    gd_class *classes; /* newest first */
    uint32_t class_count;
    const gd_class **by_id; /* by_id[id - 1] */
    size_t by_id_bytes;
    gd_class *core[GD_CORE_COUNT];
    gd_class **layer; /* classes of the layers, made on first use */
    int layer_count, layer_capacity;
    gd_dispatch_entry *cache;
    size_t cache_count, cache_capacity; /* capacity is a power of two */
    /* modules */
    uint64_t stamp;           /* numbers attribute assignments */
    uint64_t visit;           /* numbers tree traversals */
    struct gd_module *doomed; /* modules waiting to be destroyed after the present one */
    bool destroying;
    struct gd_tracker *tracker; /* innermost virtual tensor being computed */
};

/* The context's registry, made on first use; NULL with NOMEM recorded. */
gd_registry *gd__registry(gd_ctx *ctx);

/* Class of any object, never NULL for a live one. */
const gd_class *gd__class_of(const gd_object *object);

/* The class of a layer, made on first use: below Module, and its modules are called on tensors. */
gd_class *gd__layer_class(gd_ctx *ctx, const char *name, gd_handler forward);

/* The order of a new class with these bases into cls->order (C3). */
gd_status gd__linearise(gd_class *cls, gd_class *const *bases, int count);

/* The method of a name, or NULL. */
const gd_method_entry *gd__find_method(const gd_class *cls, const char *name);

/* Ends the scope in which a function was called.  Its result leaves the scope as new, whether it was made inside, existed before
 * (the argument itself) or belongs to another object.  NULL stays NULL, and is the result when there is no memory. */
gd_object *gd__carry_out(gd_ctx *ctx, gd_object *result);

/* ARGUMENT, with text that starts with `what`, for a keyword given twice. */
gd_status gd__kwargs_check(gd_ctx *ctx, const char *what, const gd_kwargs *kwargs);

/* Names of attributes and methods: letters, digits, '_' and bytes above 127.  An identifier does not start with a
 * digit. */
bool gd__is_name(const char *text);
bool gd__is_identifier(const char *text);

/* The next name of a list such as "a, b"; advances *text; its length in *length.  NULL at the end. */
const char *gd__next_name(const char **text, size_t *length);

extern const gd_object_type gd__tensor_type, gd__module_type;

#endif
