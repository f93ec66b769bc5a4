/* gradus/module.h: modules own parameters, buffers, other modules and derived tensors.
 *
 *     gd_module *m = gd_module_new(gd_class_module(ctx));                  a plain container
 *     gd_status status = gd_module_set_parameter(m, "weight", w);          copies w; the module owns the copy
 *     gd_tensor *loss = gd_sum(gd_square(gd_module_get_tensor(m, "weight")), NULL, false);
 *     status = gd_backward(loss, NULL, 0);                                 gradients land in the module's own tensor
 *     gd_named *all = gd_module_parameters(m, NULL);                       what an optimizer wants
 *     gd_tensor *snapshot = gd_module_export(m, "weight");                 nothing changes it any more
 *
 * Attributes are ordered and have names of letters, digits and '_'.  Wherever a function takes a name, a path such as
 * "encoder.0.weight" reaches into nested modules.  Errors name the place: "module 'Net.encoder': no attribute
 * 'weihgt'".
 *
 * A tensor attribute is owned by value: assigning copies.  It is registered as a parameter under "tensor:NAME", or as
 * a buffer under "buffer:NAME" where the class declares the name with gd_class_no_grad, or the dtype (integers, bool)
 * has no gradients.  Both names read it back.
 *
 * Modules are counted references; made inside a scope they die with it unless kept or assigned to another module. */
#ifndef GRADUS_MODULE_H
#define GRADUS_MODULE_H

#include "gradus/autograd.h"
#include "gradus/class.h"
#include "gradus/file.h"
#include "gradus/world.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Before the last name of a path: what is found must be a parameter, or a buffer. */
#define GD_PARAMETER_PREFIX "tensor:"
#define GD_BUFFER_PREFIX    "buffer:"

typedef struct gd_virtual gd_virtual; /* a tensor that is computed when it is read; a counted reference */
typedef struct gd_named gd_named;     /* a list of tensors or modules by name; a counted reference */

/* ---- modules ---- */

/* Makes an empty module, on the CPU, of a class at or below Module.  New.  TYPE for another class. */
gd_module *gd_module_new(gd_class *cls);

gd_module *gd_module_retain(gd_module *module);           /* one more reference; returns it */
void gd_module_release(gd_module *module);                /* one less; NULL is fine */
gd_module *gd_module_keep(gd_module *module);             /* moves it one scope out; returns it */
gd_ctx *gd_module_ctx(const gd_module *module);           /* borrowed */
const gd_class *gd_module_class(const gd_module *module); /* borrowed */
gd_device *
gd_module_device(const gd_module *module); /* the device everything assigned is moved to; borrowed */

/* Calls the module on a tensor: gd_invoke, with the result checked to be a tensor (TYPE).  New.  NULL gives NULL. */
gd_tensor *gd_module_call(gd_module *module, gd_tensor *x);
/* The same with keywords: gd_module_call_with(attention, x, GD_KWARGS(gd_int_argument("causal", 1))). */
gd_tensor *gd_module_call_with(gd_module *module, gd_tensor *x, const gd_kwargs *kwargs);

/* ---- assigning; the same name again replaces, whatever it was, and keeps its place in the order ---- */

/* Moves the tensor to the module's device, copies it without its history, and registers the copy.  The copy wants
 * gradients if the source did (a buffer never does).  Axis names, labels and the tensor's class are kept.  The tensor that the
 * attribute has already stays, nothing is copied. */
GD_NODISCARD gd_status gd_module_set_tensor(gd_module *module, const char *name, gd_tensor *tensor);

/* The same, and the copy wants gradients: a parameter to optimise.  DTYPE for a dtype that is not floating; ARGUMENT
 * for a name that the class declares without gradients. */
GD_NODISCARD gd_status gd_module_set_parameter(gd_module *module, const char *name, gd_tensor *tensor);
/* The same for a buffer, whatever the class declares. */
GD_NODISCARD gd_status gd_module_set_buffer(gd_module *module, const char *name, gd_tensor *tensor);

/* Moves the child tree to the module's device and takes a reference.  One child may stand in several places.  CYCLE
 * when the module is itself somewhere in the child. */
GD_NODISCARD gd_status gd_module_set_module(gd_module *module, const char *name, gd_module *child);

/* The same for numbers. */
GD_NODISCARD gd_status gd_module_set_int(gd_module *module, const char *name, int64_t value);
GD_NODISCARD gd_status gd_module_set_real(gd_module *module, const char *name, double value);
GD_NODISCARD gd_status gd_module_set_string(gd_module *module, const char *name,
                                            const char *value); /* copied */
/* The pointer is consumed: destroy(pointer) is called when the attribute goes, unless destroy is NULL; on failure the
 * pointer is still yours. */
GD_NODISCARD gd_status gd_module_set_pointer(gd_module *module, const char *name, void *pointer,
                                             void (*destroy)(void *pointer));

/* Any object.  A tensor or a module is assigned as above.  An instance is taken by reference, and where its class has a
 * gd_mover, what that makes of it for the module's device; it then follows gd_module_to_device and gd_module_to with the
 * rest of the tree, all of it or nothing: the attribute becomes what the mover returns.  One object in several places stays
 * one.  It is no part of the state dict. */
GD_NODISCARD gd_status gd_module_set_object(gd_module *module, const char *name, gd_object *object);

/* Removes an attribute with its registration.  ATTRIBUTE when there is none. */
GD_NODISCARD gd_status gd_module_delete(gd_module *module, const char *name);

/* Records a change of the module that its attributes do not show: memoised values that depend on the whole module are computed
 * again.  NULL is fine. */
void gd_module_touch(gd_module *module);

/* ---- reading ---- */

/* The module's own tensor, borrowed: gradients, gd_grad_of and changes in place act on the module.
 * A virtual tensor is computed, and the innermost scope owns the value.  Outside every scope only one that memoises can
 * be read so, borrowed until it is computed again; STATE for another (gd_virtual_value gives you a value of your own).
 * ATTRIBUTE when there is no such attribute; TYPE when it is no tensor. */
gd_tensor *gd_module_get_tensor(gd_module *module, const char *name);
gd_module *gd_module_get_module(gd_module *module, const char *name);   /* borrowed; ATTRIBUTE, TYPE */
gd_virtual *gd_module_get_virtual(gd_module *module, const char *name); /* borrowed; ATTRIBUTE, TYPE */
/* The instance, or the tensor or module as an object; borrowed.  ATTRIBUTE, TYPE. */
gd_object *gd_module_get_object(gd_module *module, const char *name);
GD_NODISCARD gd_status gd_module_get_int(gd_module *module, const char *name, int64_t *out);
GD_NODISCARD gd_status gd_module_get_real(gd_module *module, const char *name,
                                          double *out); /* takes an int too */
GD_NODISCARD gd_status gd_module_get_string(gd_module *module, const char *name,
                                            const char **out);                                 /* borrowed */
GD_NODISCARD gd_status gd_module_get_pointer(gd_module *module, const char *name, void **out); /* borrowed */

/* What an attribute is. */
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

/* What is under a name; GD_ATTRIBUTE_NONE, and no error, when there is nothing. */
gd_attribute_kind gd_module_kind(gd_module *module, const char *name);
bool gd_module_has(gd_module *module, const char *name);

/* The attributes in the order of their first assignment; names are borrowed until the next change. */
int gd_module_count(gd_module *module);
const char *gd_module_name(gd_module *module, int index); /* NULL if there are not so many */

/* ---- the tree ---- */

/* Parameters, buffers and modules of the whole tree with dotted names ("inner.weight"), in order, each once.  New.
 * `glob` selects by name (NULL: all): '*' is any run of characters, dots too, '?' any one, [abc], [a-z], [!abc]
 * one of a set, '\' takes the next as it is.  PARSE for a set that does not end. */
gd_named *gd_module_parameters(gd_module *module, const char *glob);
gd_named *gd_module_buffers(gd_module *module, const char *glob);
gd_named *gd_module_modules(gd_module *module, const char *glob); /* itself first, under the name "" */

/* A list of named things that never changes.  It holds references to them; release it when done (a scope does). */
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

/* A detached copy of a tensor attribute (a virtual one is computed) that nothing later can change.  New.
 * ATTRIBUTE when there is no such attribute; TYPE when it is no tensor. */
gd_tensor *gd_module_export(gd_module *module, const char *name);
/* The same for every tensor attribute of the tree, by dotted name.  New. */
gd_named *gd_module_export_all(gd_module *module);

/* Turns gradients off / on for every parameter of the tree; buffers are left alone. */
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
 * tensors are the same, on other storage (views taken before stay on the old).  DEVICE for a NULL device, as
 * gd_device_get returns for one that is not there. */
GD_NODISCARD gd_status gd_module_to_device(gd_module *module, gd_device *device);
GD_NODISCARD gd_status gd_module_cpu(gd_module *module);
/* index < 0: the current GPU.  DEVICE when it is not there. */
GD_NODISCARD gd_status gd_module_gpu(gd_module *module, int index);
/* Casts every floating tensor of the tree to a floating dtype, and the objects that follow: all or nothing.  DTYPE for another dtype. */
GD_NODISCARD gd_status gd_module_to(gd_module *module, gd_dtype dtype);

/* Gives the modules of all ranks of a world the parameters and buffers of the one of rank `root`, so that all start from the
 * same.  Ranks whose trees differ in a name, shape or dtype are told which: MISMATCH, and nothing has changed. */
GD_NODISCARD gd_status gd_module_broadcast(gd_module *module, gd_world *world, int root);

/* ---- virtual tensors: attributes computed when they are read ----
 *
 *     gd_virtual_options options = gd_virtual_defaults();
 *     options.fn = outer_product, options.memoise = true;           or options.method = "outer_product", a method of the class
 *     gd_status status = gd_virtual_create(m, "square", &options);
 *     gd_tensor *square = gd_module_get_tensor(m, "square");        without memoise in a scope, which then owns the value
 *
 * The dtype and device are those of a zero-element buffer "_NAME_ref" that the virtual tensor adds to its owner, so
 * that they follow gd_module_to and gd_module_to_device.  Gradients flow through the value. */

/* Computes the value from the owner.  Returns a new tensor or one of the owner's own, or NULL with an error
 * recorded.  It is told the dtype and device, but what it returns is cast and moved to them anyway. */
typedef gd_tensor *(*gd_materializer)(gd_module *owner, gd_dtype dtype, gd_device *device, void *user);

/* How a virtual tensor is computed.  Start from gd_virtual_defaults(). */
typedef struct gd_virtual_options {
    const char *
        method; /* a method of the owner's class, looked up at each read; it gets the keywords dtype (an int) and
                           device (a pointer) */
    gd_materializer fn; /* or a function; exactly one of the two */
    void *user;         /* passed to fn, consumed: destroy(user) is called with the virtual tensor's end */
    void (*destroy)(void *user);
    gd_dtype dtype;    /* default f32 */
    gd_device *device; /* NULL: the owner's */
    bool persist;      /* is the reference buffer part of the state dict? */
    bool memoise; /* keep the value while nothing it read through the owner has changed; a list reads all */
} gd_virtual_options;

gd_virtual_options gd_virtual_defaults(void); /* neither method nor function, f32, nothing persists */

/* Makes a virtual tensor and adds "_NAME_ref" to the owner; gd_module_set_virtual makes it readable by name.  New:
 * when its last reference goes, what it added goes too.  The owner is held weakly.
 * ATTRIBUTE when the owner has no such method, TYPE when the name is not a method; ARGUMENT when `name` is no
 * identifier or it or "_NAME_ref" is taken, or for both or neither of method and fn. */
gd_virtual *gd_virtual_new(gd_module *owner, const char *name, const gd_virtual_options *options);

/* Assigns a virtual tensor to its owner's attribute of its name; takes a reference.  STATE when the owner is gone. */
GD_NODISCARD gd_status gd_module_set_virtual(gd_virtual *virtual_tensor);

/* Both: makes it and leaves it to the owner. */
GD_NODISCARD gd_status gd_virtual_create(gd_module *owner, const char *name,
                                         const gd_virtual_options *options);

gd_virtual *gd_virtual_retain(gd_virtual *virtual_tensor); /* one more reference */
void gd_virtual_release(gd_virtual *virtual_tensor);       /* one less; NULL is fine */
gd_virtual *gd_virtual_keep(gd_virtual *virtual_tensor);   /* moves it one scope out */

const char *gd_virtual_name(const gd_virtual *virtual_tensor);      /* borrowed */
const char *gd_virtual_reference(const gd_virtual *virtual_tensor); /* "_NAME_ref"; borrowed */
gd_module *gd_virtual_owner(const gd_virtual *virtual_tensor);      /* borrowed; NULL when it is gone */
/* Of the reference buffer.  When the owner is gone: GD_DTYPE_COUNT, NULL, and STATE recorded. */
gd_dtype gd_virtual_dtype(const gd_virtual *virtual_tensor);
gd_device *gd_virtual_device(const gd_virtual *virtual_tensor);

/* Sets dtype (GD_DTYPE_COUNT: leave) and device (NULL: leave) of the reference. */
GD_NODISCARD gd_status gd_virtual_to(gd_virtual *virtual_tensor, gd_dtype dtype, gd_device *device);

/* The value, of the reference's dtype and on its device.  New.  STATE when the owner is gone, CYCLE when it reads
 * itself, CALLBACK when the function returned NULL without saying why, TYPE when a method returned something else. */
gd_tensor *gd_virtual_value(gd_virtual *virtual_tensor);

/* ---- state: what a tree remembers ----
 *
 *     gd_status status = gd_module_save(m, "model.safetensors");
 *     status = gd_module_load(m, "model.safetensors", NULL, NULL);
 *
 * Parameters and buffers of the tree under their dotted names, with axis names and labels.  The reference buffers of
 * virtual tensors are in it only with `persist`; plain values never. */

/* The state as an archive: references to the module's tensors as they are now, not copies.  New: gd_archive_free. */
gd_archive *gd_module_state(gd_module *module);

/* How strictly a state is loaded; zeroed: everything must match. */
typedef struct gd_load_options {
    bool partial; /* take what fits: what is missing or unexpected is reported but is no error */
    bool cast;    /* convert other dtypes to the module's */
} gd_load_options;

gd_load_options gd_load_defaults(void); /* strict, no casts */

/* What did not match; every list by name. */
typedef struct gd_load_report gd_load_report;

/* What may not match between a state and a module. */
typedef enum gd_load_problem {
    GD_LOAD_MISSING,    /* in the module, not in the state */
    GD_LOAD_UNEXPECTED, /* in the state, not in the module */
    GD_LOAD_SHAPE,      /* other sizes, axis names or labels; always an error */
    GD_LOAD_DTYPE,      /* another dtype; an error unless `cast` */
    GD_LOAD_PROBLEMS
} gd_load_problem;

/* Sets the tree's tensors to the values of the state, all of them or, with MISMATCH, none.  Handles stay valid; views
 * taken before keep the old values.
 * *report, where it is wanted (else NULL), is new and says what did not match, also when that was no error; it is NULL
 * only when there was no memory. */
GD_NODISCARD gd_status gd_module_load_state(gd_module *module, const gd_archive *state,
                                            const gd_load_options *options, gd_load_report **report);

int64_t gd_load_report_loaded(const gd_load_report *report); /* how many tensors were set */
/* How many of that kind. */
int64_t gd_load_report_count(const gd_load_report *report, gd_load_problem problem);
const char *gd_load_report_name(const gd_load_report *report, gd_load_problem problem,
                                int64_t index); /* borrowed */
/* Everything as text: "missing 'a.w'; 'b' has shape [3] in the state and [4] here".  Borrowed. */
const char *gd_load_report_text(const gd_load_report *report);
void gd_load_report_release(gd_load_report *report);
gd_load_report *gd_load_report_keep(gd_load_report *report);

/* The same with a safetensors file; see file.h for what a save and a load guarantee. */
GD_NODISCARD gd_status gd_module_save(gd_module *module, const char *path);
GD_NODISCARD gd_status gd_module_load(gd_module *module, const char *path, const gd_load_options *options,
                                      gd_load_report **report);

#ifdef __cplusplus
}
#endif
#endif
