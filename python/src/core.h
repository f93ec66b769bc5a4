/* The extension gradus._core: what its files share.
 *
 *   context.c   contexts, who may use them, errors and warnings      tensor.c   the type Tensor, operators on one
 *   make.c      tensors from lists and buffers, and back             index.c    x[...]
 *   arguments.c arguments of the generated operators (gen_python)    exchange.c DLPack
 *   autograd.c  derivatives                                          optim.c    Optimizer
 *   torch.c     memory of PyTorch, torch_state.c what links keep for it
 *   module.c    modules and virtual tensors                          solve.c    minimize, least squares
 *   functional.c functions chosen by two classes
 *   train.c     trainings and models
 *   file.c      files and bytes                                      links.c    links and rules in Python
 *   view.h      what they see: var.c, link_view.c, closures.c        by_hand.c  parts of an optimizer by hand
 *   reads.c     what functions that record read on the host
 *   core.c      the module, tables of the library                    settings.c settings of links and groups as values
 *   arithmetic.c operators between two, in place
 *
 * Written against CPython's limited API of 3.11: one file for every version from that on.
 *
 * Threads.  A context is for one thread at a time.  Short calls hold the interpreter's lock all the way, which is lock
 * enough.  Long ones (steps, large operators) let it go: they take the context for their thread first (gd_py_begin), and
 * others who want it wait in gd_py_enter.  Between entering and taking, Python code may have run and another thread may have the
 * context, or have closed it: taking waits again, fails where the context is closed, and looks and takes without letting the
 * interpreter's lock go in between.  A tensor that another thread drops meanwhile is released when the context is free again.  Whether
 * operators record is kept for each thread.
 *
 * Scopes.  Functions of the user that the library calls run in a scope of the library, which owns what is made in them.
 * A tensor that Python still holds when its function returns gets a reference of its own then (gd_py_callback_end); one
 * that is dropped earlier goes at once. */
#ifndef GD_PYTHON_CORE_H
#define GD_PYTHON_CORE_H

#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#ifdef Py_GIL_DISABLED
#error "gradus needs an interpreter with its lock: free-threaded builds have no stable ABI yet"
#endif

#include <gradus/gradus.h>

#include <stdlib.h>

/* Slots and method tables take functions as void pointers. */
#pragma GCC diagnostic ignored "-Wpedantic"

#define GD_PY_LARGE 32768 /* elements from which an operator lets the interpreter's lock go */

typedef struct gd_py_handle gd_py_handle;

/* Text that a link or the library wants shown, kept until Python may be called. */
typedef struct gd_py_message {
    struct gd_py_message *next;
    int is_warning;
    char text[];
} gd_py_message;

/* A thread that is inside no_grad() while a different one uses the context. */
typedef struct gd_py_mode {
    struct gd_py_mode *next;
    unsigned long thread;
    int off;
} gd_py_mode;

typedef struct gd_py_grave {
    struct gd_py_grave *next;
    void (*end)(void *);
    void *object;
} gd_py_grave;

/* While a function of the user records: what it reads on the host no gradient flows through. */
typedef struct gd_py_reads {
    struct gd_py_reads *outer;
    PyObject *where; /* new: file and line of the first read, as text; NULL: none */
    int *warn;       /* 1: the read warns, once; NULL: no warning */
} gd_py_reads;

typedef struct gd_py_context {
    PyObject_HEAD gd_ctx *ctx; /* NULL: closed */
    gd_ctx *lingering;         /* closed, but memory of it is still referenced through DLPack */
    gd_py_handle *handles;     /* everything of it that Python holds, newest first */
    unsigned long owner;       /* the thread that uses it without the interpreter's lock; 0: none */
    int depth;                 /* how often it does */
    unsigned long mode_thread; /* the thread whose no_grad() the context has now */
    int has_modes;             /* is any thread inside no_grad()? */
    gd_py_mode *modes;         /* of the other threads */
    int callbacks;             /* functions of the user that run now, one inside the other */
    gd_py_reads *reads;        /* of the innermost that records; NULL: none */
    PyThread_type_lock lock;
    gd_py_grave *graves;     /* dropped while a different thread had the context */
    gd_py_message *messages; /* newest first */
    void *links;             /* classes made in Python, see links.c */
    PyObject *classes;       /* addresses of gd_class by name, see module.c */
    PyObject *kept;          /* what links left for the rest of a step, see closures.c; NULL: nothing */
    PyObject *raised;        /* an exception that a function of the user left with, until the call is back */
} gd_py_context;

/* The head of every object that belongs to a context. */
struct gd_py_handle {
    PyObject_HEAD gd_py_context *owner; /* a reference */
    gd_py_handle *next, *previous;
    void (*drop)(gd_py_handle *); /* the context is closed: forget what is in it */
    int16_t depth;                /* callbacks around its making */
    int16_t in_scope;             /* the library's scope has the only reference */
};

typedef struct gd_py_tensor {
    gd_py_handle head;
    gd_tensor *t; /* NULL: its context is closed */
} gd_py_tensor;

/* Everything that the extension has one of; an interpreter more is refused. */
typedef struct gd_py_state {
    PyObject *module;
    PyTypeObject *context_type, *tensor_type, *optimizer_type, *module_type, *virtual_type, *archive_type,
        *model_type, *fit_type;
    PyObject *numpy_scalar;           /* numpy.generic once NumPy is there */
    PyObject *error[GD_STATUS_COUNT]; /* [0]: gradus.Error */
    PyObject *warning;
    gd_py_context *current; /* where new tensors are made; threads may have chosen a different one */
    unsigned long home;     /* the thread that imported the package: it chooses for all */
    int threads_chose;      /* has any other thread chosen? */
    PyObject *empty_tuple;
    int looked_for_cuda;             /* in NVIDIA's packages */
    PyObject *dtype[GD_DTYPE_COUNT]; /* the objects that stand for dtypes */
} gd_py_state;
extern gd_py_state gd_py;

/* ---- context.c ---- */

int gd_py_add_context(PyObject *module);
/* The context for what is new, made at its first use; borrowed, NULL with an exception. */
gd_py_context *gd_py_current(void);
/* Before each use: false with an exception where it is closed.  Waits while a different thread has it. */
int gd_py_wait(gd_py_context *c);
static inline int gd_py_enter(gd_py_context *c)
{
    return c->ctx && !c->owner && !c->graves && !c->has_modes ? 1 : gd_py_wait(c);
}
/* Takes the context for this thread, waiting while another has it, and lets the interpreter's lock go; and back.  NULL with an exception
 * where it has been closed; never right after gd_py_enter, with no Python code in between. */
PyThreadState *gd_py_begin(gd_py_context *c);
void gd_py_end(gd_py_context *c, PyThreadState *state);
/* Takes the context for this thread while the interpreter's lock stays: for calls in which Python code of others may run.  False with
 * an exception where it has been closed. */
int gd_py_own(gd_py_context *c);
void gd_py_disown(gd_py_context *c);
/* After no_grad() has begun or ended in this thread. */
void gd_py_mode_changed(gd_py_context *c);
/* Is the context in use by a different thread? */
int gd_py_is_taken(const gd_py_context *c);
/* In a function that the library calls: takes the interpreter's lock; before it returns: gives it back. */
PyGILState_STATE gd_py_callback_begin(gd_py_context *c);
void gd_py_callback_end(gd_py_context *c, PyGILState_STATE state);
/* A Python function failed: keeps its exception and records CALLBACK. */
void gd_py_keep_exception(gd_py_context *c);
/* The tensor that a function returned, borrowed from *value; else what it raised, or that it is none (`wanted` begins the
 * sentence), is kept, and both are NULL. */
gd_tensor *gd_py_returned(gd_py_context *c, PyObject **value, const char *wanted);
/* Raises what the context has recorded, or the exception a function of the user left; always NULL. */
PyObject *gd_py_raise(gd_py_context *c);
/* What the context has recorded, with Python's names. */
void gd_py_error_text(gd_py_context *c, char *out, size_t size);
/* Shows messages; false with an exception where a warning is an error. */
int gd_py_flush(gd_py_context *c);
static inline int gd_py_done(gd_py_context *c) { return c->messages ? gd_py_flush(c) : 1; }
/* Raises a status with a text of our own; always NULL. */
PyObject *gd_py_fail(gd_status status, const char *format, ...);
int gd_py_add_errors(PyObject *module);

/* Sets a reference that may be there. */
static inline void gd_py_set(PyObject **slot, PyObject *value)
{
    PyObject *before = *slot;
    *slot = value;
    Py_XDECREF(before);
}

/* The device of a text; for the first GPU NVIDIA's packages are looked for.  NULL with an error recorded. */
gd_device *gd_py_device(gd_py_context *c, const char *name);

/* Joins and leaves the list of the context. */
void gd_py_join(gd_py_context *c, void *handle, void (*drop)(gd_py_handle *));
void gd_py_leave(void *handle);
/* Of a context that has ended: the classes of links made in Python. */
void gd_py_free_links(gd_py_context *c);
/* Something that was given away has ended: frees a closed context with its last one. */
void gd_py_linger(gd_py_context *c);
/* Ends a thing of the context now, or when no other thread has it. */
void gd_py_release(gd_py_context *c, void (*end)(void *), void *object);

/* ---- tensor.c ---- */

int gd_py_add_tensor(PyObject *module);
int gd_py_add_fit(PyObject *module);     /* fit.c */
void gd_py_drop_tensor(gd_py_handle *h); /* of a context that is closed */
static inline int gd_py_is_number(PyObject *o) { return PyFloat_Check(o) || PyLong_Check(o); }
/* A Tensor for a result of the library: takes the reference (or the scope's); NULL raises what was recorded. */
PyObject *gd_py_new_tensor(gd_py_context *c, gd_tensor *t);
/* A Tensor for one that something else owns. */
PyObject *gd_py_borrowed_tensor(gd_py_context *c, gd_tensor *t);
static inline int gd_py_is_tensor(PyObject *o)
{
    return Py_TYPE(o) == gd_py.tensor_type || PyObject_TypeCheck(o, gd_py.tensor_type);
}
static inline int gd_py_is_virtual(PyObject *o) { return PyObject_TypeCheck(o, gd_py.virtual_type); }
/* A tensor, or a virtual tensor, which is used as its value wherever a tensor is expected. */
static inline int gd_py_is_tensor_like(PyObject *o) { return gd_py_is_tensor(o) || gd_py_is_virtual(o); }
/* What is like a tensor as a Tensor, new; of a virtual tensor its value now.  NULL: the value could not be made (an exception),
 * or the object is something else (none). */
PyObject *gd_py_as_tensor(PyObject *o);
/* A scalar of NumPy as a number of Python, new; NULL where it is none, with an exception where it fails. */
PyObject *gd_py_plain_number(PyObject *o);
/* TypeError: `what` needs a tensor of gradus, and which type was given.  Always NULL. */
PyObject *gd_py_no_tensor(const char *what, PyObject *given);
/* The tensor in it; NULL with an exception where its context is closed. */
gd_tensor *gd_py_tensor_of(PyObject *o);
/* A number for an operator with `like`; 0 with an exception where it does not fit the dtype. */
gd_tensor *gd_py_number(gd_ctx *ctx, PyObject *o, const gd_tensor *like);
PyObject *gd_py_tuple_of(gd_py_context *c, gd_tensor *const *t, int count);

/* ---- make.c, index.c, exchange.c ---- */

gd_dtype gd_py_dtype(PyObject *o); /* GD_DTYPE_COUNT with an exception */
PyObject *gd_py_dtype_object(gd_dtype dtype);
/* What an integer dtype holds; false for other dtypes. */
int gd_py_range(gd_dtype dtype, int64_t *low, int64_t *high);
/* A Tensor of lists, numbers, buffers or what has __dlpack__; dtype GD_DTYPE_COUNT: as they are.  New. */
PyObject *gd_py_make(gd_py_context *c, PyObject *data, gd_dtype dtype, int share);
PyObject *gd_py_tolist(gd_py_tensor *self);
PyObject *gd_py_item(gd_py_tensor *self);
PyObject *gd_py_subscript(PyObject *self, PyObject *key);
int gd_py_assign_subscript(PyObject *self, PyObject *key, PyObject *value);
PyObject *gd_py_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
PyObject *gd_py_dlpack_device(PyObject *self, PyObject *unused);
PyObject *gd_py_from_dlpack(PyObject *module, PyObject *object);
extern PyMethodDef gd_py_make_functions[], gd_py_autograd_functions[], gd_py_solve_functions[],
    gd_py_file_functions[], gd_py_functional_functions[], gd_py_link_functions[], gd_py_timing_functions[],
    gd_py_traced_functions[], gd_py_loop_functions[], gd_py_layer_functions[], gd_py_optimizer_functions[],
    gd_py_by_hand_functions[];

/* ---- arguments.c ---- */

typedef enum gd_py_kind {
    GD_PY_TENSOR,
    GD_PY_TENSOR_OR_NONE,
    GD_PY_REAL,
    GD_PY_INT,
    GD_PY_LONG,
    GD_PY_BOOL,
    GD_PY_AXES,
    GD_PY_TEXT,
    GD_PY_TEXT_OR_NONE,
    GD_PY_SHAPE, /* any number of sizes */
    GD_PY_ORDER, /* a number per axis */
    GD_PY_SIZES, /* a size an axis */
    GD_PY_TENSORS,
    GD_PY_DTYPE,
    GD_PY_TEXTS,
    GD_PY_DEVICE,
    GD_PY_FLAG /* None: neither true nor false, which is -1 */
} gd_py_kind;

typedef struct gd_py_parameter {
    const char *name;
    gd_py_kind kind;
    int needed;
    double fallback;  /* of numbers and flags; dtypes: its number */
    const char *also; /* another name that it has; NULL: none */
} gd_py_parameter;

#define GD_PY_MOST_PARAMETERS 8

typedef struct gd_py_value {
    gd_tensor *t;
    double real;
    int64_t integer;
    const char *text;
    int count;
    int64_t size[GD_MAX_DIMS];
    int order[GD_MAX_DIMS];
    void *list; /* freed with the rest */
    gd_device *device;
    char buffer[96];
} gd_py_value;

/* Arguments of a call, read and converted. */
typedef struct gd_py_call {
    const char *name;
    const gd_py_parameter *parameter;
    int count;
    gd_py_context *context;
    int64_t elements;
    PyThreadState *thread;
    gd_tensor *made[GD_PY_MOST_PARAMETERS]; /* from numbers and lists: released at the end */
    int made_count;
    PyObject *held[GD_PY_MOST_PARAMETERS];
    int held_count;
    gd_py_value value[GD_PY_MOST_PARAMETERS];
} gd_py_call;

/* self NULL: a function.  False with an exception. */
int gd_py_read(gd_py_call *call, PyObject *self, PyObject *const *args, Py_ssize_t n, PyObject *names);
/* After the call: the result as a Tensor. */
PyObject *gd_py_finish(gd_py_call *call, gd_tensor *result);
PyObject *gd_py_finish_tuple(gd_py_call *call, gd_status status, gd_tensor *const *result, int count);
/* Any object as a tensor for an operand: in `held` or `made` where that must be undone.  NULL with an exception. */
gd_tensor *gd_py_operand(gd_py_call *call, PyObject *o, const gd_tensor *like);
/* The same for a value that is assigned to x: numbers in lists must fit its dtype, too. */
gd_tensor *gd_py_value_for(gd_py_call *call, PyObject *o, const gd_tensor *x);
void gd_py_call_clear(gd_py_call *call);
/* Casts the first operand where argument `place` is a dtype.  False with an exception, and the call cleared. */
int gd_py_cast_first(gd_py_call *call, int place);
/* What was made, in the dtype that argument `place` is; takes the reference. */
gd_tensor *gd_py_dtype_of(gd_py_call *call, gd_tensor *made, int place);
/* What was made, on the device that argument `place` is; takes the reference. */
gd_tensor *gd_py_device_of(gd_py_call *call, gd_tensor *made, int place);
/* A view of the first operand, or a copy where argument `place` wants one.  False, but the view is a copy: a ValueError. */
gd_tensor *gd_py_copy_of(gd_py_call *call, gd_tensor *made, int place);
/* A sequence as a tuple, virtual tensors as their values; new, NULL with an exception. */
PyObject *gd_py_values(PyObject *list);
/* "name", 1, (0, "row") or None as the text the library takes. */
int gd_py_axes(PyObject *o, const char **text, char *buffer, size_t size);

/* ---- generated ---- */

extern PyMethodDef gd_py_operator_functions[], gd_py_operator_methods[];

/* Numbers by name that a step was given for its links. */
#define GD_PY_MOST_NUMBERS 32
typedef struct gd_py_numbers {
    const char *name[GD_PY_MOST_NUMBERS];
    double number[GD_PY_MOST_NUMBERS];
    int count;
} gd_py_numbers;
/* One more; false with an exception.  The name is borrowed. */
int gd_py_add_number(gd_py_numbers *numbers, const char *name, PyObject *value);
/* TypeError where no link of the optimizer can read them. */
int gd_py_check_numbers(const gd_optimizer *optimizer, const gd_py_numbers *numbers);

/* ---- reads.c ---- */

/* Is it code of the package? */
int gd_py_is_ours(PyObject *frame); /* context.c */
/* Around the call of a function that records. */
void gd_py_reads_begin(gd_py_context *c, gd_py_reads *reads, int *warn);
void gd_py_reads_end(gd_py_context *c, gd_py_reads *reads);
/* Before the value of a tensor goes to the host; false with an exception where a warning became one. */
int gd_py_note_read(PyObject *tensor);

/* ---- settings.c ---- */

/* Settings as the library takes them.  Texts and children are borrowed from, or belong to, what they were read from. */
typedef struct gd_py_options {
    const char *text; /* of groups, instead of the rest */
    gd_link_option *option;
    gd_link ***children; /* of each */
    double **list;
    gd_schedule *schedule;
    Py_ssize_t count;
} gd_py_options;

/* The UTF-8 of a text; NULL with an exception, also where a NUL is in it. */
const char *gd_py_text(PyObject *o);
/* Texts of a list, None as NULL; borrowed from it.  PyMem_Free; NULL with an exception. */
const char **gd_py_texts(PyObject *list, Py_ssize_t count);
/* The table of (path,), a list of columns (name, kind, values), or (capsule of an Arrow stream, names or None), as gradus._tables.read
 * gives it; options for files.  New: gd_table_free; NULL with an exception. */
gd_table *gd_py_table(gd_py_context *c, PyObject *source, gd_table_options *options);
PyObject *gd_py_check_chain(PyObject *module, PyObject *chain);
PyObject *gd_py_link_text(PyObject *module, PyObject *args);
/* Settings of groups: a dict or ((name, value), ...), whose texts are read as the links of the chain take them; a text; None.
 * False with an exception.  What they point to lives as long as `settings`. */
int gd_py_group_options(gd_py_context *c, gd_py_options *o, gd_optimizer *optimizer, PyObject *settings);
void gd_py_options_clear(gd_py_options *o);

/* ---- links.c, var.c ---- */

/* A setting in force for a parameter, as Python has it. */
PyObject *gd_py_setting(gd_py_context *c, gd_link *link, const char *name, gd_tensor *key);
PyObject *gd_py_var_call(PyObject *module, PyObject *all);

/* ---- optim.c, module.c ---- */

int gd_py_add_optimizer(PyObject *module);
int gd_py_add_training(PyObject *module);      /* train.c */
int gd_py_add_tables(PyObject *module);        /* arrays/table.c */
int gd_py_add_traced(PyObject *module);        /* traced.c */
int gd_py_add_borrower(PyObject *module);      /* torch.c */
gd_optimizer *gd_py_optimizer_of(PyObject *o); /* NULL with an exception */
int gd_py_add_module_type(PyObject *module);
/* The module in an object of the base type; NULL with an exception. */
gd_module *gd_py_module_of(PyObject *o);
PyObject *gd_py_virtual_value(PyObject *o); /* of a VirtualTensor; new */
struct gd_py_layer_value;                   /* layers.c */
/* Gives the object a different module of the library; false with an exception. */
int gd_py_module_become(PyObject *o, gd_module *(*make)(gd_ctx *ctx, const struct gd_py_layer_value *values),
                        const struct gd_py_layer_value *values);

/* Gives PyType_FromModuleAndSpec's type to the module under its last name. */
PyTypeObject *gd_py_add_type(PyObject *module, PyType_Spec *spec, PyObject *bases);

#endif
