/* The inside of a _Borrower: see torch.c. */
#ifndef GD_PYTHON_TORCH_H
#define GD_PYTHON_TORCH_H

#include "core.h"
#include "arrays/dl_tensor.h"

/* DLPack's table of functions; its layout is the format. */
typedef struct dl_exchange {
    uint32_t major, minor;
    void *older;
    void *allocate, *give, *take;
    int (*look)(void *object, dl_tensor *out);
    int (*stream)(int32_t device_type, int32_t device_id, void **stream);
} dl_exchange;

/* What a tensor of the other library is.  A thousand of them are compared per step, so the compared members are contiguous. */
typedef struct form {
    char *data;
    uint32_t kind; /* dtype as DLPack has it: code, bits, lanes */
    int32_t device_type, device_id;
    int ndim;
    int pairs; /* complex numbers, as an axis of two */
    gd_dtype dtype;
    int32_t device; /* -1: the CPU; else the number of a GPU */
    struct {
        int64_t size, stride;
    } axis[GD_MAX_DIMS];
} form;

typedef struct borrowed {
    PyObject *object; /* as of the last look; a reference */
    PyObject *held;   /* its gradient, while a step uses it; a reference */
    gd_tensor *t;     /* over its memory; a reference */
    gd_tensor *
        grad; /* over that of the last gradient, of which only the form is of use between steps; a reference or NULL */
    form at, grad_at;
    PyObject *name;
    int has_grad; /* in the step under way */
} borrowed;

typedef struct py_borrower {
    gd_py_handle head;
    PyObject *optimizer, *type, *touch, *grad; /* references; the last is the name of the attribute */
    PyObject *getter;                          /* that attribute in the type; a reference */
    descrgetfunc get;                          /* calls it */
    PyTypeObject *seen,
        *plain; /* the last type that was found to be one of theirs; to have that attribute; while a call lasts */
    const dl_exchange *api;
    borrowed *param;
    Py_ssize_t count, room;
    int has_frozen; /* a parameter does not want gradients, as of the last step that evaluated */
    PyObject *value, *gradient, *kept, *hvp, *jacobian; /* of the step under way; borrowed */
} py_borrower;

/* The optimizer it belongs to; NULL with an exception where its context is closed. */
gd_optimizer *gd_py_borrower_optimizer(py_borrower *self);

#define BORROWER_OR_RETURN(object)                            \
    py_borrower *self = (py_borrower *)(object);              \
    gd_optimizer *optimizer = gd_py_borrower_optimizer(self); \
    if (!optimizer) return NULL;                              \
    gd_py_context *c = self->head.owner;                      \
    (void)c

/* Raises what the library says, with the name of the parameter before it; always NULL. */
PyObject *gd_py_raise_for(gd_py_context *c, PyObject *name);

/* torch_look.c */
enum { BAD, SAME, OTHER };
enum { GD_PY_DL_CUDA = 2 }; /* DLPack's number of that kind of device */
/* Says what is wrong with a parameter; always 0. */
int gd_py_refuse(PyObject *name, const char *what);
/* What an object is now: SAME as it was in *f but for the address, which is put there; OTHER, all put there; or BAD, with an exception
 * that names the parameter.  Most are the same at every step: nothing is worked out for those. */
int gd_py_look(py_borrower *self, PyObject *object, PyObject *name, int is_grad, form *f);
/* New, or NULL with the error recorded. */
gd_tensor *gd_py_tensor_over(gd_ctx *ctx, const form *f);
/* A parameter must be stored as it is, no conjugate or negative view. */
int gd_py_is_plain(PyObject *object, PyObject *name);

/* torch_state.c */
PyObject *gd_py_borrower_links(PyObject *o, PyObject *unused);
PyObject *gd_py_borrower_state(PyObject *o, PyObject *args);
PyObject *gd_py_borrower_set_state(PyObject *o, PyObject *args);
PyObject *gd_py_borrower_steps_of(PyObject *o, PyObject *args);
PyObject *gd_py_borrower_set_steps_of(PyObject *o, PyObject *args);
PyObject *gd_py_borrower_set(PyObject *o, PyObject *args);
PyObject *gd_py_borrower_pack(PyObject *o, PyObject *unused);
PyObject *gd_py_borrower_unpack(PyObject *o, PyObject *args);

#endif
