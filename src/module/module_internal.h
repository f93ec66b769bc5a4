/* The inside of modules. */
#ifndef GD_MODULE_MODULE_INTERNAL_H
#define GD_MODULE_MODULE_INTERNAL_H

#include "gradus/module.h"
#include "module/class_internal.h"
#include "module/track.h"
#include "tensor/tensor_internal.h"

/* Outlives its module, so that others can check whether the module still exists. */
typedef struct gd_weak {
    gd_ctx *ctx;
    gd_module *module; /* NULL once it is gone */
    uint32_t refs;
} gd_weak;

typedef struct gd_attribute {
    const char *name; /* interned */
    uint32_t hash;
    uint8_t kind;   /* gd_attribute_kind */
    bool buffer;    /* a tensor without gradients */
    bool transient; /* a buffer that is not part of the state dict */
    bool tied;      /* a parameter that a second attribute owns too */
    gd_virtual *
        reference_of; /* "_NAME_ref" of that virtual tensor: borrowed, it removes the attribute when it dies */
    uint64_t stamp;   /* a number no other assignment has */
    union {
        gd_tensor *tensor;
        gd_module *module;
        gd_virtual *virtual_tensor;
        gd_object *object;
        int64_t integer;
        double real;
        char *string;
        struct {
            void *pointer;
            void (*destroy)(void *pointer);
        };
    };
} gd_attribute;

struct gd_module {
    gd_object head;
    gd_device *device;
    gd_attribute *attribute;
    int count, capacity;
    gd_weak *weak;
    gd_module *parent; /* where it was first assigned, for error texts; borrowed */
    const char *name_in_parent;
    uint64_t visit;    /* last traversal that saw it */
    uint64_t stamp;    /* of the last change of its attributes */
    gd_module *doomed; /* next in the list of modules to destroy */
    bool evaluates;    /* gd_module_eval, not gd_module_train */
};

#define GD_PLACE_SIZE 256

/* The error that is recorded, for functions that return a status after a builder failed. */
static inline gd_status gd__failure(const gd_module *module, gd_status otherwise)
{
    if (!module) return GD_ARGUMENT;
    return module->head.ctx->status ? module->head.ctx->status : otherwise;
}

/* "Net.encoder.0" for messages; buf is returned. */
const char *gd__place(const gd_module *module, char buf[GD_PLACE_SIZE]);

/* ---- weak references ---- */

gd_weak *gd__weak_of(gd_module *module); /* new; NULL with NOMEM recorded */
void gd__weak_release(gd_weak *weak);

/* ---- attributes ---- */

/* The attribute of a plain name (no path, no prefix), or NULL. */
gd_attribute *gd__attribute_find(const gd_module *module, const char *name);

/* Puts a value into the attribute of a plain name: consumed on success.  Only kind and value of `value` are read. */
gd_status gd__attribute_put(gd_module *module, const char *name, const gd_attribute *value);

/* Takes an attribute out and ends its value. */
void gd__attribute_remove(gd_module *module, gd_attribute *attribute);

/* ---- the tree ---- */

typedef gd_status (*gd_visitor)(gd_module *module, const char *prefix, void *user);

/* Calls fn for the module and everything below, parents first, each once; prefix is "" or "a.b.".  fn changes no
 * tree. */
gd_status gd__walk(gd_module *root, gd_visitor fn, void *user);

typedef enum gd_wanted {
    GD_WANT_PARAMETERS = 1,
    GD_WANT_BUFFERS = 2,
    GD_WANT_MODULES = 4,
    GD_WANT_VIRTUAL = 8
} gd_wanted;

/* Lists what is wanted (bits of gd_wanted).  New.  Virtual tensors are listed as objects. */
gd_named *gd__list(gd_module *root, int wanted, const char *glob);

typedef struct gd_named_item {
    char *name, *registered; /* registered may be the same pointer as name */
    gd_object *object;
    const gd_attribute *attribute; /* borrowed, only right after listing; NULL for modules */
    gd_module *module;             /* that holds it; borrowed, only right after listing */
} gd_named_item;

struct gd_named {
    gd_object head;
    gd_named_item *item;
    gd_tensor **tensors; /* NULL where the item is not a tensor */
    int count, capacity, tensors_capacity;
    bool ties; /* some tensors may appear at several places */
};

/* Releases the references of an item. */
void gd__named_item_end(gd_ctx *ctx, const gd_named_item *item);

/* PARSE for a glob with a set that does not end. */
gd_status gd__glob_check(gd_ctx *ctx, const char *glob);

/* ---- moving ---- */

/* An instance moved by its class's mover to a device (NULL: unchanged) and dtype (GD_DTYPE_COUNT: unchanged), or itself.  Owned by
 * the caller; NULL with the error recorded. */
gd_object *gd__moved_object(gd_object *object, gd_device *device, gd_dtype dtype);

/* ---- local scopes ---- */

/* Opens a scope for temporaries; false (NOMEM recorded) when there is no memory, and then nothing is open. */
bool gd__local_begin(gd_ctx *ctx);
/* Closes it; the result, if it was made inside, moves out; otherwise a new handle to it is returned.  New. */
gd_tensor *gd__local_end(gd_ctx *ctx, gd_tensor *result);

/* Another tensor on the same values and with the same history.  New. */
gd_tensor *gd__another_handle(gd_tensor *t);

/* ---- interface of virtual tensors for attributes ---- */

gd_tensor *gd__virtual_read(gd_virtual *virtual_tensor);

#endif
