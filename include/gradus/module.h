/* gradus/module.h: modules own parameters, buffers, other modules and derived tensors.
 *
 *     gd_module *m = gd_module_new(gd_class_module(ctx));                  a plain container
 *     gd_status status = gd_module_set_parameter(m, "weight", w);          copies w; the module owns the copy
 *     gd_tensor *loss = gd_sum(gd_square(gd_module_get_tensor(m, "weight")), NULL, false);
 *     status = gd_backward(loss, NULL, 0);                                 gradients of the module's own tensor
 *     gd_named *all = gd_module_parameters(m, NULL);                       for an optimizer
 *     gd_tensor *snapshot = gd_module_export(m, "weight");                 an independent copy
 *
 * Attributes are ordered and have names of letters, digits and '_'.  Wherever a function takes a name, a path such as
 * "encoder.0.weight" reaches into nested modules.  Errors name the path: "module 'Net.encoder': no attribute
 * 'weihgt'".
 *
 * A tensor attribute is owned by value: assigning copies.  It is registered as a parameter under "tensor:NAME", or as
 * a buffer under "buffer:NAME" where the class declares the name with gd_class_no_grad, or the dtype (integers, bool)
 * has no gradients.  Both names read it back.
 *
 * Modules are counted references; those made in a scope are freed with it unless kept or assigned to a module. */
#ifndef GRADUS_MODULE_H
#define GRADUS_MODULE_H

#include "gradus/autograd.h"
#include "gradus/class.h"
#include "gradus/file.h"
#include "gradus/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prefixes of the last name of a path: it must be a parameter, or a buffer. */
#define GD_PARAMETER_PREFIX "tensor:"
#define GD_BUFFER_PREFIX    "buffer:"

typedef struct gd_virtual gd_virtual; /* a tensor attribute computed when it is read; a counted reference */
typedef struct gd_named gd_named;     /* a list of tensors or modules by name; a counted reference */

/* ---- modules ---- */

/* Makes an empty module, on the CPU, of a class at or below Module.  New.  TYPE for any other class. */
gd_module *gd_module_new(gd_class *cls);

gd_module *gd_module_retain(gd_module *module);           /* one more reference; returns it */
void gd_module_release(gd_module *module);                /* one less; NULL is fine */
gd_module *gd_module_keep(gd_module *module);             /* moves it one scope out; returns it */
gd_ctx *gd_module_ctx(const gd_module *module);           /* borrowed */
const gd_class *gd_module_class(const gd_module *module); /* borrowed */
gd_device *gd_module_device(const gd_module *module);     /* the device of its attributes; borrowed */

/* Calls the module on a tensor: gd_invoke, with the result checked to be a tensor (TYPE).  New.  NULL gives NULL. */
gd_tensor *gd_module_call(gd_module *module, gd_tensor *x);
/* The same with keywords: gd_module_call_with(attention, x, GD_KWARGS(gd_int_argument("causal", 1))). */
gd_tensor *gd_module_call_with(gd_module *module, gd_tensor *x, const gd_kwargs *kwargs);

/* ---- assigning; the same name again replaces an attribute of any kind and keeps its position ---- */

/* Moves the tensor to the module's device, copies it without its history, and registers the copy.  The copy wants
 * gradients if the source did (a buffer never does).  Axis names, labels and the tensor's class are kept.  Assigning the
 * attribute's own tensor copies nothing. */
GD_NODISCARD gd_status gd_module_set_tensor(gd_module *module, const char *name, gd_tensor *tensor);

/* The same, and the copy wants gradients: a parameter to optimise.  DTYPE for a dtype that is not floating; ARGUMENT
 * for a name that the class declares without gradients. */
GD_NODISCARD gd_status gd_module_set_parameter(gd_module *module, const char *name, gd_tensor *tensor);
/* The same for a buffer, independent of the class. */
GD_NODISCARD gd_status gd_module_set_buffer(gd_module *module, const char *name, gd_tensor *tensor);

/* Moves the child tree to the module's device and takes a reference.  One child may have several parents.  CYCLE
 * if the module is part of the child. */
GD_NODISCARD gd_status gd_module_set_module(gd_module *module, const char *name, gd_module *child);

/* The same for numbers. */
GD_NODISCARD gd_status gd_module_set_int(gd_module *module, const char *name, int64_t value);
GD_NODISCARD gd_status gd_module_set_real(gd_module *module, const char *name, double value);
GD_NODISCARD gd_status gd_module_set_string(gd_module *module, const char *name,
                                            const char *value); /* copied */
/* The pointer is consumed: destroy(pointer) is called when the attribute is removed, unless destroy is NULL; on failure the
 * pointer is still yours. */
GD_NODISCARD gd_status gd_module_set_pointer(gd_module *module, const char *name, void *pointer,
                                             void (*destroy)(void *pointer));

/* Any object.  A tensor or a module is assigned as above.  An instance is taken by reference; if its class has a gd_mover, the
 * attribute is the mover's result for the module's device, and it follows gd_module_to_device and gd_module_to with the rest of
 * the tree, completely or not at all.  An object with several references stays one object.  It is not part of the state dict. */
GD_NODISCARD gd_status gd_module_set_object(gd_module *module, const char *name, gd_object *object);

/* Removes an attribute with its registration.  ATTRIBUTE if there is none. */
GD_NODISCARD gd_status gd_module_delete(gd_module *module, const char *name);

/* Records a change of the module outside its attributes: memoised values that depend on the whole module are recomputed.  NULL
 * is fine. */
void gd_module_touch(gd_module *module);

/* ---- reading ---- */

/* The module's own tensor, borrowed: gradients, gd_grad_of and changes in place act on the module.
 * A virtual tensor is computed, and the innermost scope owns the value.  Outside every scope only memoised virtual
 * tensors can be read so, borrowed until they are recomputed; STATE for others (use gd_virtual_value).
 * ATTRIBUTE if there is no such attribute; TYPE if it is no tensor. */
gd_tensor *gd_module_get_tensor(gd_module *module, const char *name);
gd_module *gd_module_get_module(gd_module *module, const char *name);   /* borrowed; ATTRIBUTE, TYPE */
gd_virtual *gd_module_get_virtual(gd_module *module, const char *name); /* borrowed; ATTRIBUTE, TYPE */
/* The instance, or the tensor or module as an object; borrowed.  ATTRIBUTE, TYPE. */
gd_object *gd_module_get_object(gd_module *module, const char *name);
GD_NODISCARD gd_status gd_module_get_int(gd_module *module, const char *name, int64_t *out);
GD_NODISCARD gd_status gd_module_get_real(gd_module *module, const char *name,
                                          double *out); /* accepts an int too */
GD_NODISCARD gd_status gd_module_get_string(gd_module *module, const char *name,
                                            const char **out);                                 /* borrowed */
GD_NODISCARD gd_status gd_module_get_pointer(gd_module *module, const char *name, void **out); /* borrowed */

/* The kind of an attribute. */
typedef enum gd_attribute_kind {
    GD_ATTRIBUTE_NONE,
    GD_ATTRIBUTE_TENSOR,
    GD_ATTRIBUTE_MODULE,
    GD_ATTRIBUTE_VIRTUAL,
    GD_ATTRIBUTE_INT,
    GD_ATTRIBUTE_REAL,
    GD_ATTRIBUTE_STRING,
    GD_ATTRIBUTE_POINTER,
    GD_ATTRIBUTE_OBJECT
} gd_attribute_kind;

/* The kind of the attribute of a name; GD_ATTRIBUTE_NONE without an error if there is none. */
gd_attribute_kind gd_module_kind(gd_module *module, const char *name);
bool gd_module_has(gd_module *module, const char *name);

/* The attributes in the order of their first assignment; names are borrowed until the next change. */
int gd_module_count(gd_module *module);
const char *gd_module_name(gd_module *module, int index); /* NULL if there is none */

/* ---- the tree ---- */

/* Parameters, buffers and modules of the whole tree with dotted names ("inner.weight"), in order, each once.  New.
 * `glob` selects by name (NULL: all): '*' matches any characters, also dots, '?' one character, [abc], [a-z], [!abc]
 * one of a set; '\' escapes the next character.  PARSE for an unterminated set. */
gd_named *gd_module_parameters(gd_module *module, const char *glob);
gd_named *gd_module_buffers(gd_module *module, const char *glob);
gd_named *gd_module_modules(gd_module *module, const char *glob); /* itself first, under the name "" */

/* An immutable list of named tensors or modules.  It holds references to them; release it, or leave that to a scope. */
int64_t gd_named_count(const gd_named *named);
const char *gd_named_name(const gd_named *named, int64_t index);       /* "inner.weight"; borrowed */
const char *gd_named_registered(const gd_named *named, int64_t index); /* "inner.tensor:weight"; borrowed */
gd_tensor *gd_named_tensor(const gd_named *named, int64_t index);  /* borrowed; NULL in a list of modules */
gd_module *gd_named_module(const gd_named *named, int64_t index);  /* borrowed; NULL in a list of tensors */
gd_tensor *gd_named_find(const gd_named *named, const char *name); /* borrowed; NULL if there is none */
gd_tensor *const *gd_named_tensors(const gd_named *named);         /* all of them as an array; borrowed */
gd_named *gd_named_keep(gd_named *named);                          /* moves it one scope out */
void gd_named_release(gd_named *named);                            /* one reference less; NULL is fine */

/* Does the text match the whole glob? */
bool gd_glob_match(const char *glob, const char *text);

/* A detached, independent copy of a tensor attribute (a virtual one is computed).  New.
 * ATTRIBUTE if there is no such attribute; TYPE if it is no tensor. */
gd_tensor *gd_module_export(gd_module *module, const char *name);
/* The same for every tensor attribute of the tree, by dotted name.  New. */
gd_named *gd_module_export_all(gd_module *module);

/* Turns gradients off / on for every parameter of the tree; buffers are unchanged. */
GD_NODISCARD gd_status gd_module_freeze(gd_module *module);
GD_NODISCARD gd_status gd_module_unfreeze(gd_module *module);

/* Every module of the tree trains (as new ones do), or evaluates: dropout and batch_norm go by it. */
GD_NODISCARD gd_status gd_module_train(gd_module *module);
GD_NODISCARD gd_status gd_module_eval(gd_module *module);
bool gd_module_is_training(const gd_module *module); /* false for NULL */

/* Makes a parameter of one module the parameter of another attribute, too: one tensor with two names.  Lists and state dicts have it
 * once, by the name that comes first.  ARGUMENT: it has a history, or the attribute is declared without gradients; DEVICE. */
GD_NODISCARD gd_status gd_module_tie(gd_module *module, const char *name, gd_tensor *parameter);

/* Moves every parameter, gradient, buffer and object of the tree: all of it, or nothing on failure.  Handles stay valid: the
 * tensors get new storage (existing views keep the old).  DEVICE for a NULL device, the result of gd_device_get for an
 * unavailable one. */
GD_NODISCARD gd_status gd_module_to_device(gd_module *module, gd_device *device);
GD_NODISCARD gd_status gd_module_cpu(gd_module *module);
/* index < 0: the current GPU.  DEVICE if it is not available. */
GD_NODISCARD gd_status gd_module_gpu(gd_module *module, int index);
/* Casts every floating tensor of the tree to a floating dtype, and moves objects: all or nothing.  DTYPE for other dtypes. */
GD_NODISCARD gd_status gd_module_to(gd_module *module, gd_dtype dtype);

/* Copies the parameters and buffers of the module of rank `root` to the modules of all ranks of a world, so that all start
 * equal.  MISMATCH names the name, shape or dtype in which trees differ, and nothing changes. */
GD_NODISCARD gd_status gd_module_broadcast(gd_module *module, gd_world *world, int root);

/* ---- virtual tensors: attributes computed when they are read ----
 *
 *     gd_virtual_options options = gd_virtual_defaults();
 *     options.fn = outer_product, options.memoise = true;           or options.method = "outer_product", a method of the class
 *     gd_status status = gd_virtual_create(m, "square", &options);
 *     gd_tensor *square = gd_module_get_tensor(m, "square");        without memoise only in a scope, which owns the value
 *
 * The dtype and device are those of a zero-element buffer "_NAME_ref" that the virtual tensor adds to its owner, so
 * that they follow gd_module_to and gd_module_to_device.  Gradients flow through the value. */

/* Computes the value from the owner.  Returns a new tensor or one of the owner's own, or NULL with an error
 * recorded.  dtype and device are those of the reference; the result is cast and moved to them anyway. */
typedef gd_tensor *(*gd_materializer)(gd_module *owner, gd_dtype dtype, gd_device *device, void *user);

/* Options of a virtual tensor.  Start from gd_virtual_defaults(). */
typedef struct gd_virtual_options {
    const char
        *method; /* a method of the owner's class, found at each read; it gets the keywords dtype (an int) and
                           device (a pointer) */
    gd_materializer fn; /* or a function; exactly one of the two */
    void *user;         /* passed to fn, consumed: destroy(user) is called with the virtual tensor's end */
    void (*destroy)(void *user);
    gd_dtype dtype;    /* default f32 */
    gd_device *device; /* NULL: the owner's */
    bool persist;      /* is the reference buffer part of the state dict? */
    bool
        memoise; /* keep the value while nothing that it read through the owner has changed; listing reads everything */
} gd_virtual_options;

gd_virtual_options gd_virtual_defaults(void); /* neither method nor function, f32, nothing persists */

/* Makes a virtual tensor and adds "_NAME_ref" to the owner; gd_module_set_virtual makes it readable by name.  New:
 * its last release removes what it added.  It holds a weak reference to the owner.
 * ATTRIBUTE if the owner has no such method, TYPE if the name is not a method; ARGUMENT if `name` is no identifier, if
 * it or "_NAME_ref" is taken, or if both or neither of method and fn are given. */
gd_virtual *gd_virtual_new(gd_module *owner, const char *name, const gd_virtual_options *options);

/* Assigns a virtual tensor to its owner's attribute of its name; takes a reference.  STATE if the owner is gone. */
GD_NODISCARD gd_status gd_module_set_virtual(gd_virtual *virtual_tensor);

/* Makes a virtual tensor and assigns it to its owner. */
GD_NODISCARD gd_status gd_virtual_create(gd_module *owner, const char *name,
                                         const gd_virtual_options *options);

gd_virtual *gd_virtual_retain(gd_virtual *virtual_tensor); /* one more reference */
void gd_virtual_release(gd_virtual *virtual_tensor);       /* one less; NULL is fine */
gd_virtual *gd_virtual_keep(gd_virtual *virtual_tensor);   /* moves it one scope out */

const char *gd_virtual_name(const gd_virtual *virtual_tensor);      /* borrowed */
const char *gd_virtual_reference(const gd_virtual *virtual_tensor); /* "_NAME_ref"; borrowed */
gd_module *gd_virtual_owner(const gd_virtual *virtual_tensor);      /* borrowed; NULL if it was freed */
/* Dtype and device of the reference buffer.  If the owner was freed: GD_DTYPE_COUNT, NULL, and STATE recorded. */
gd_dtype gd_virtual_dtype(const gd_virtual *virtual_tensor);
gd_device *gd_virtual_device(const gd_virtual *virtual_tensor);

/* Sets dtype (GD_DTYPE_COUNT: leave) and device (NULL: leave) of the reference. */
GD_NODISCARD gd_status gd_virtual_to(gd_virtual *virtual_tensor, gd_dtype dtype, gd_device *device);

/* The value, of the reference's dtype and on its device.  New.  STATE if the owner was freed, CYCLE if the value reads
 * itself, CALLBACK if the function returned NULL without an error, TYPE if a method returned no tensor. */
gd_tensor *gd_virtual_value(gd_virtual *virtual_tensor);

/* ---- state ----
 *
 *     gd_status status = gd_module_save(m, "model.safetensors");
 *     status = gd_module_load(m, "model.safetensors", NULL, NULL);
 *
 * Parameters and buffers of the tree under their dotted names, with axis names and labels.  The reference buffers of
 * virtual tensors are in it only with `persist`; plain values are not. */

/* The state as an archive: references to the module's tensors as they are now, not copies.  New: gd_archive_free. */
gd_archive *gd_module_state(gd_module *module);

/* How a state is loaded; zeroed: everything must match. */
typedef struct gd_load_options {
    bool partial; /* missing and unexpected tensors are reported but no error */
    bool cast;    /* convert other dtypes to the module's */
} gd_load_options;

gd_load_options gd_load_defaults(void); /* strict, no casts */

/* The differences found by a load, as lists of names. */
typedef struct gd_load_report gd_load_report;

/* The kinds of differences between a state and a module. */
typedef enum gd_load_problem {
    GD_LOAD_MISSING,    /* in the module, not in the state */
    GD_LOAD_UNEXPECTED, /* in the state, not in the module */
    GD_LOAD_SHAPE,      /* different sizes, axis names or labels; always an error */
    GD_LOAD_DTYPE,      /* a different dtype; an error unless `cast` */
    GD_LOAD_PROBLEMS
} gd_load_problem;

/* Sets the tree's tensors to the values of the state, all of them or, with MISMATCH, none.  Handles stay valid; views
 * taken before keep the old values.
 * *report (report may be NULL) is new and lists all differences, even if they are no error; it is NULL only if there
 * was no memory. */
GD_NODISCARD gd_status gd_module_load_state(gd_module *module, const gd_archive *state,
                                            const gd_load_options *options, gd_load_report **report);

int64_t gd_load_report_loaded(const gd_load_report *report); /* number of tensors set */
/* The number of differences of a kind. */
int64_t gd_load_report_count(const gd_load_report *report, gd_load_problem problem);
const char *gd_load_report_name(const gd_load_report *report, gd_load_problem problem,
                                int64_t index); /* borrowed */
/* All differences as text: "missing 'a.w'; 'b' has shape [3] in the state and [4] here".  Borrowed. */
const char *gd_load_report_text(const gd_load_report *report);
void gd_load_report_release(gd_load_report *report);
gd_load_report *gd_load_report_keep(gd_load_report *report);

/* The same with a safetensors file; see file.h for the guarantees. */
GD_NODISCARD gd_status gd_module_save(gd_module *module, const char *path);
GD_NODISCARD gd_status gd_module_load(gd_module *module, const char *path, const gd_load_options *options,
                                      gd_load_report **report);

#ifdef __cplusplus
}
#endif
#endif
