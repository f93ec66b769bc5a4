/* gradus/class.h: runtime classes, objects of them, and functions chosen by the classes of two objects.
 *
 *     gd_class *shape = gd_class_new(ctx, "Shape", NULL, 0);
 *     gd_class *area = gd_class_new(ctx, "Area", (gd_class *[]){gd_class_functional(ctx)}, 1);
 *     gd_status status = gd_register(area, shape, area_of_shape, NULL);
 *     gd_object *f = gd_instance_new(area, NULL, NULL), *x = gd_instance_new(shape, &my_struct, NULL);
 *     gd_object *result = gd_invoke(f, x, NULL);            calls area_of_shape(f, x, NULL, NULL)
 *
 * Every object has a class: tensors (Tensor), modules (Module and below), your own structs (instances).  A class has
 * one or more bases and a method order (C3, as in Python and Dylan).  An object can be
 * invoked if its class is below Functional; modules are functionals.
 * Classes are *borrowed*: the context owns them until it is freed.  The library's own classes:
 *
 *     Object --+-- Tensor
 *              +-- Functional -- Module -- Linear, Conv2d, ... */
#ifndef GRADUS_CLASS_H
#define GRADUS_CLASS_H

#include "gradus/tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct gd_class gd_class;   /* a runtime class; borrowed, the context owns it */
typedef struct gd_object gd_object; /* a tensor, a module or an instance */
typedef struct gd_module gd_module; /* gradus/module.h */

/* ---- classes ---- */

/* Makes a class; no bases means Object.  The order of the bases is the order of preference.  Borrowed.
 * TYPE if the bases have no consistent order (the text names them); ARGUMENT for a base given twice. */
gd_class *gd_class_new(gd_ctx *ctx, const char *name, gd_class *const *bases, int count);

/* The roots of the hierarchy; borrowed; NULL only if there is no memory. */
gd_class *gd_class_object(gd_ctx *ctx);
gd_class *gd_class_tensor(gd_ctx *ctx);
gd_class *gd_class_functional(gd_ctx *ctx);
gd_class *gd_class_module(gd_ctx *ctx);

const char *gd_class_name(const gd_class *cls); /* borrowed */
gd_ctx *gd_class_ctx(const gd_class *cls);      /* borrowed */

/* The method order: the class itself first, Object last; its length in *count.  Borrowed. */
const gd_class *const *gd_class_order(const gd_class *cls, int *count);

/* Is cls the same as base or below it? */
bool gd_class_is(const gd_class *cls, const gd_class *base);

/* Declares tensor attributes ("basis, projector") of a class below Module as state without gradients: assigned
 * tensors become buffers, not parameters.  Names are added to those of every class in the order and never replace
 * them.  TYPE for a class that is not below Module. */
GD_NODISCARD gd_status gd_class_no_grad(gd_class *cls, const char *names);
/* Is the name declared without gradients by the class or any class in its order? */
bool gd_class_is_no_grad(const gd_class *cls, const char *name);

/* ---- keyword arguments: an ordered list of named values ---- */

/* The type of an argument's value. */
typedef enum gd_argument_kind {
    GD_ARGUMENT_INT,
    GD_ARGUMENT_REAL,
    GD_ARGUMENT_STRING,
    GD_ARGUMENT_POINTER,
    GD_ARGUMENT_OBJECT
} gd_argument_kind;

/* A named value; strings, pointers and objects are borrowed. */
typedef struct gd_argument {
    const char *name;
    gd_argument_kind kind;
    union {
        int64_t integer;
        double real;
        const char *string;
        void *pointer;
        gd_object *object;
    } as;
} gd_argument;

/* Borrowed during the call. */
typedef struct gd_kwargs {
    int count;
    const gd_argument *argument;
} gd_kwargs;

gd_argument gd_int_argument(const char *name, int64_t value);        /* a whole number or a flag */
gd_argument gd_real_argument(const char *name, double value);        /* a number */
gd_argument gd_string_argument(const char *name, const char *value); /* a text */
gd_argument gd_pointer_argument(const char *name, void *value);      /* anything */
gd_argument gd_object_argument(const char *name, gd_object *value);  /* an object */
gd_argument gd_tensor_argument(const char *name, gd_tensor *value);  /* a tensor, as an object */

/* gd_invoke(f, x, GD_KWARGS(gd_int_argument("axis", 1), gd_real_argument("scale", 2)));  valid in its block (in C++: in
 * its expression) */
#ifdef __cplusplus
extern "C++" {
template <int count> struct gd_kwargs_of {
    gd_argument argument[count];
    gd_kwargs kwargs;
    const gd_kwargs *get()
    {
        kwargs.count = count;
        kwargs.argument = argument;
        return &kwargs;
    }
};
template <typename... arguments> gd_kwargs_of<sizeof...(arguments)> gd_make_kwargs(arguments... given)
{
    return {{given...}, {0, nullptr}};
}
}
#define GD_KWARGS(...) (gd_make_kwargs(__VA_ARGS__).get())
#else
#define GD_KWARGS(...)                                                               \
    (&(gd_kwargs){(int)(sizeof((gd_argument[]){__VA_ARGS__}) / sizeof(gd_argument)), \
                  (gd_argument[]){__VA_ARGS__}})
#endif

/* The argument of that name, or NULL; borrowed.  kwargs may be NULL. */
const gd_argument *gd_kwargs_find(const gd_kwargs *kwargs, const char *name);

/* Each stores the value of a keyword in *out.  If the keyword was not given, *out keeps its value, the default.  TYPE if it
 * was given as a different kind (an int is accepted for a real). */
GD_NODISCARD gd_status gd_kwargs_int(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, int64_t *out);
GD_NODISCARD gd_status gd_kwargs_real(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, double *out);
GD_NODISCARD gd_status gd_kwargs_string(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name,
                                        const char **out);
GD_NODISCARD gd_status gd_kwargs_pointer(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name, void **out);
GD_NODISCARD gd_status gd_kwargs_object(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name,
                                        gd_object **out);
GD_NODISCARD gd_status gd_kwargs_tensor(gd_ctx *ctx, const gd_kwargs *kwargs, const char *name,
                                        gd_tensor **out);

/* ARGUMENT if a keyword is not in `names` ("axis, scale"; NULL: none is allowed). */
GD_NODISCARD gd_status gd_kwargs_only(gd_ctx *ctx, const gd_kwargs *kwargs, const char *names);

/* ---- objects ---- */

/* Makes an object of a class from a struct of yours.  New (a scope owns it like a tensor).  `pointer` is consumed:
 * destroy(pointer) is called when the object is freed, unless destroy is NULL; on failure it is still yours. TYPE for a class
 * below Tensor or Module. */
gd_object *gd_instance_new(gd_class *cls, void *pointer, void (*destroy)(void *pointer));
/* The struct of an instance; borrowed.  NULL with TYPE recorded for an object that is no instance. */
void *gd_instance_pointer(const gd_object *object);

gd_object *gd_object_retain(gd_object *object);                  /* one more reference; returns it */
void gd_object_release(gd_object *object);                       /* one less; NULL is fine */
gd_object *gd_object_keep(gd_object *object);                    /* moves it one scope out; returns it */
gd_ctx *gd_object_ctx(const gd_object *object);                  /* borrowed */
const gd_class *gd_object_class(const gd_object *object);        /* borrowed */
bool gd_object_is(const gd_object *object, const gd_class *cls); /* is its class cls or below it? */

/* The same tensor or module as an object; borrowed.  NULL gives NULL. */
gd_object *gd_tensor_object(gd_tensor *tensor);
gd_object *gd_module_object(gd_module *module);
/* The object as a tensor or module; borrowed.  NULL with TYPE recorded if it is of a different type. */
gd_tensor *gd_object_tensor(gd_object *object);
gd_module *gd_object_module(gd_object *object);

/* Gives one tensor a class below Tensor, for dispatch; results of operators are plain Tensors again.  TYPE for a class
 * that is not below Tensor. */
GD_NODISCARD gd_status gd_tensor_set_class(gd_tensor *tensor, gd_class *cls);

/* ---- objects that are on a device ---- */

/* Returns the object on a device and with a floating dtype (NULL, GD_DTYPE_COUNT: unchanged): the object itself if nothing
 * changes, else a new instance.  It must change neither the object nor any module, since a move that fails elsewhere leaves
 * everything as it was.  Runs in a scope of its own, as a gd_handler does.  NULL with an error recorded if it is not
 * possible. */
typedef gd_object *(*gd_mover)(gd_object *object, gd_device *device, gd_dtype dtype, void *user);

/* Sets how instances of a class (and of classes below without a mover of their own) follow the modules they are attributes of:
 * see gd_module_set_object.  A second call replaces the first; NULL removes it.  `user` is borrowed.  TYPE for a class below
 * Tensor or Module, which move by themselves. */
GD_NODISCARD gd_status gd_class_on_move(gd_class *cls, gd_mover fn, void *user);

/* ---- dispatch ---- */

/* The function that runs when a functional is invoked on an argument.  It runs in a scope of its own, so it has nothing to
 * release, and returns any object: a new one, the argument, one that it borrowed; or NULL with an error recorded. */
typedef gd_object *(*gd_handler)(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs,
                                 void *user);

/* Registers the function that functionals of a class call for objects of a class; both include classes below, unless a more
 * specific function is registered.  The same pair again replaces.  `user` is borrowed.  TYPE for a class that is not below Functional. */
GD_NODISCARD gd_status gd_register(gd_class *functional, gd_class *object_class, gd_handler fn, void *user);

/* Applies a functional: searches the argument's order, and for each class in it the functional's order; the first
 * registration found is called.  New.  NULL gives NULL.  NOT_IMPLEMENTED, naming both classes, if there is none;
 * TYPE if `functional` is no functional; ARGUMENT for a keyword given twice. */
gd_object *gd_invoke(gd_object *functional, gd_object *argument, const gd_kwargs *kwargs);

/* True if gd_invoke finds a function.  Records no error except NOMEM. */
bool gd_allows(gd_object *functional, gd_object *argument);

/* The function that gd_invoke calls for objects of two classes, for bindings with objects of their own; its `user` is
 * stored in *user (may be NULL).  NULL if nothing is registered; records no error except NOMEM. */
gd_handler gd_class_handler(const gd_class *functional, const gd_class *object_class, void **user);

/* The object classes registered for exactly this functional class (not for its bases), first registered first.
 * Stores up to `capacity` of them in out (borrowed) and returns how many there are. */
int gd_applicable_types(const gd_class *functional, const gd_class **out, int capacity);

/* ---- methods by name ---- */

/* A method of a class.  Runs in a scope of its own and returns any object, as a gd_handler does, or NULL with an error
 * recorded. */
typedef gd_object *(*gd_method)(gd_object *self, const gd_kwargs *kwargs, void *user);

/* Gives a class a method; the same name again replaces it.  `user` is borrowed.  ARGUMENT for a bad name. */
GD_NODISCARD gd_status gd_class_add_method(gd_class *cls, const char *name, gd_method fn, void *user);
/* Does the class or a class in its order have the method? */
bool gd_class_has_method(const gd_class *cls, const char *name);
/* Calls the first method of that name in the order of the object's class.  New.  ATTRIBUTE if there is none. */
gd_object *gd_call_method(gd_object *object, const char *name, const gd_kwargs *kwargs);

#ifdef __cplusplus
}
#endif
#endif
