/* Functions that are recorded once and replayed (gradus.jit), and values with a gradient of the user's own (gradus.custom_vjp). */
#include "core.h"

#include <string.h>

/* ---- recorded functions ---- */

typedef struct py_traced {
    gd_py_handle head;
    gd_traced *f;
    PyObject *fn;
    PyObject *last; /* what fn returned last: alive until the call is back */
} py_traced;

static gd_tensor *call_traced(void *user, gd_tensor *const *inputs, int count)
{
    py_traced *self = user;
    gd_py_context *c = self->head.owner;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *args = PyTuple_New(count);
    for (int i = 0; i < count && args; i++) {
        PyObject *item = gd_py_borrowed_tensor(c, inputs[i]);
        if (!item || PyTuple_SetItem(args, i, item) < 0) Py_CLEAR(args);
    }
    PyObject *value = args ? PyObject_Call(self->fn, args, NULL) : NULL;
    Py_XDECREF(args);
    gd_tensor *t = gd_py_returned(c, &value, "a function that is recorded must return a tensor");
    gd_py_set(&self->last, value);
    gd_py_callback_end(c, state);
    return t;
}

static void end_traced(void *f) { gd_traced_free(f); }
static void drop_traced(gd_py_handle *h)
{
    py_traced *self = (py_traced *)h;
    gd_traced_free(self->f);
    self->f = NULL;
}

static PyObject *traced_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    PyObject *fn;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O:_Traced", &fn)) return NULL;
    gd_py_context *c = gd_py_current();
    if (!c || !gd_py_enter(c)) return NULL;
    py_traced *self = (py_traced *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    self->fn = Py_NewRef(fn);
    self->f = gd_trace(c->ctx, call_traced, self, NULL);
    gd_py_join(c, self, drop_traced);
    if (self->f) return (PyObject *)self;
    Py_DECREF((PyObject *)self);
    return gd_py_raise(c);
}

static int traced_traverse(PyObject *o, visitproc visit, void *arg)
{
    py_traced *self = (py_traced *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->fn);
    Py_VISIT(self->last);
    return 0;
}
static int traced_clear(PyObject *o)
{
    py_traced *self = (py_traced *)o;
    Py_CLEAR(self->fn);
    Py_CLEAR(self->last);
    return 0;
}
static void traced_dealloc(PyObject *o)
{
    py_traced *self = (py_traced *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->f) gd_py_release(self->head.owner, end_traced, self->f);
    (void)traced_clear(o);
    if (self->head.owner) gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* The tensors of a tuple from item `first` on; NULL with an exception. */
static gd_tensor **tensors_of(py_traced *self, PyObject *args, Py_ssize_t first)
{
    gd_py_context *c = self->head.owner;
    if (!self->f) {
        (void)gd_py_fail(GD_STATE, "the context of this function is closed");
        return NULL;
    }
    Py_ssize_t count = PyTuple_Size(args) - first;
    gd_tensor **t = PyMem_Calloc((size_t)count + 1, sizeof *t);
    int fine = t || PyErr_NoMemory() != NULL;
    for (Py_ssize_t i = 0; i < count && fine; i++) {
        PyObject *item = PyTuple_GetItem(args, first + i);
        fine = gd_py_is_tensor(item) ? (t[i] = gd_py_tensor_of(item)) != NULL
                                     : gd_py_no_tensor("jit", item) != NULL;
        if (fine && ((gd_py_tensor *)item)->head.owner != c)
            fine = gd_py_fail(GD_ARGUMENT, "jit: the function was recorded in another context") != NULL;
    }
    if (fine) return t;
    PyMem_Free(t);
    return NULL;
}

/* many(same, *tensors): the value of each element along the first axes, but of tensors that are the same for all */
static PyObject *traced_many(PyObject *o, PyObject *args)
{
    py_traced *self = (py_traced *)o;
    gd_py_context *c = self->head.owner;
    Py_ssize_t count = PyTuple_Size(args) - 1;
    PyObject *shared = count < 0 ? NULL : PyTuple_GetItem(args, 0);
    if (!shared || !PyTuple_Check(shared) || PyTuple_Size(shared) != count)
        return gd_py_fail(GD_ARGUMENT, "jit: many(same, *tensors)");
    gd_tensor **t = tensors_of(self, args, 1), *value = NULL;
    bool *same = t ? PyMem_Calloc((size_t)count + 1, sizeof *same) : NULL;
    for (Py_ssize_t i = 0; i < count && same; i++) same[i] = PyObject_IsTrue(PyTuple_GetItem(shared, i)) == 1;
    PyObject *result = NULL;
    if (same && gd_py_own(c)) {
        Py_INCREF(o);
        if (gd_traced_batch(self->f, GD_TRACED_VALUE, t, (int)count, same, &value))
            result = gd_py_raise(c);
        else
            result = gd_py_new_tensor(c, value);
        gd_py_set(&self->last, NULL);
        gd_py_disown(c);
        Py_DECREF(o);
    }
    PyMem_Free(same);
    PyMem_Free(t);
    if (result && !gd_py_done(c)) Py_CLEAR(result);
    return result;
}

/* value(*tensors) */
static PyObject *traced_value(PyObject *o, PyObject *args)
{
    py_traced *self = (py_traced *)o;
    gd_py_context *c = self->head.owner;
    Py_ssize_t count = PyTuple_Size(args);
    gd_tensor **t = tensors_of(self, args, 0);
    PyObject *result = NULL;
    if (t && gd_py_own(c)) {
        Py_INCREF(o);
        gd_tensor *value = gd_traced_value(self->f, t, (int)count);
        result = value ? gd_py_borrowed_tensor(c, value) : gd_py_raise(c);
        gd_py_set(&self->last, NULL);
        gd_py_disown(c);
        Py_DECREF(o);
    }
    PyMem_Free(t);
    if (result && !gd_py_done(c)) Py_CLEAR(result);
    return result;
}

static PyObject *traced_explain(PyObject *o, PyObject *unused)
{
    py_traced *self = (py_traced *)o;
    (void)unused;
    if (!self->f) return gd_py_fail(GD_STATE, "the context of this function is closed");
    if (!gd_py_enter(self->head.owner)) return NULL;
    int length = gd_explain_trace(self->f, NULL, 0);
    char *text = PyMem_Malloc((size_t)length + 1);
    if (!text) return PyErr_NoMemory();
    (void)gd_explain_trace(self->f, text, (size_t)length + 1);
    PyObject *result = PyUnicode_FromString(text);
    PyMem_Free(text);
    return result;
}

static PyMethodDef traced_methods[] = {{"value", traced_value, METH_VARARGS, NULL},
                                       {"many", traced_many, METH_VARARGS, NULL},
                                       {"explain", traced_explain, METH_NOARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyType_Slot traced_slots[] = {{Py_tp_doc, "A recorded function of the library; see gradus.jit."},
                                     {Py_tp_new, traced_new},
                                     {Py_tp_dealloc, traced_dealloc},
                                     {Py_tp_traverse, traced_traverse},
                                     {Py_tp_clear, traced_clear},
                                     {Py_tp_methods, traced_methods},
                                     {0, NULL}};
static PyType_Spec traced_spec = {"gradus._core._Traced", sizeof(py_traced), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, traced_slots};

int gd_py_add_traced(PyObject *module)
{
    PyTypeObject *type = gd_py_add_type(module, &traced_spec, NULL);
    Py_XDECREF((PyObject *)type); /* the module has it */
    return type != NULL;
}

/* ---- values with a gradient of their own ---- */

typedef struct own_gradient {
    gd_py_context *c;
    PyObject *fn;
    int count;
} own_gradient;

static void end_own_gradient(void *user)
{
    own_gradient *own = user;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(own->fn);
    PyGILState_Release(state);
    free(own);
}

/* The function's gradient for input k: the scope holds it beside the handle. */
static int take_gradient(PyObject *given, int k, gd_tensor **grad)
{
    PyObject *item = PySequence_GetItem(given, k);
    int fine = item && (item == Py_None || gd_py_is_tensor(item));
    if (item && !fine)
        PyErr_Format(PyExc_TypeError, "a gradient is a tensor or None, not %R", (PyObject *)Py_TYPE(item));
    if (fine && item != Py_None) {
        gd_tensor *t = gd_py_tensor_of(item);
        *grad = t ? gd_cast(t, gd_tensor_dtype(t)) : NULL;
        fine = *grad != NULL;
    }
    Py_XDECREF(item);
    return fine;
}

static gd_status call_own_gradient(void *user, gd_tensor *grad, const bool *need, gd_tensor **grads)
{
    own_gradient *own = user;
    gd_py_context *c = own->c;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *g = gd_py_borrowed_tensor(c, grad);
    PyObject *given = g ? PyObject_CallFunctionObjArgs(own->fn, g, NULL) : NULL;
    int fine = given && (PyTuple_Check(given) || PyList_Check(given)) && PySequence_Size(given) == own->count;
    if (given && !fine)
        PyErr_Format(PyExc_TypeError,
                     "a gradient function gives a list of one tensor or None for each of %d inputs",
                     own->count);
    for (int k = 0; k < own->count && fine; k++)
        if (need[k]) fine = take_gradient(given, k, &grads[k]);
    if (PyErr_Occurred()) gd_py_keep_exception(c);
    Py_XDECREF(given);
    Py_XDECREF(g);
    gd_py_callback_end(c, state);
    return fine ? GD_OK : GD_CALLBACK;
}

/* _custom(value, inputs, gradient): the value, as a function of inputs with that gradient */
static PyObject *custom(PyObject *module, PyObject *args)
{
    PyObject *value, *inputs, *fn, *result = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O:_custom", gd_py.tensor_type, &value, &PyTuple_Type, &inputs, &fn))
        return NULL;
    gd_py_context *c = ((gd_py_tensor *)value)->head.owner;
    int count = (int)PyTuple_Size(inputs);
    gd_tensor *y = gd_py_tensor_of(value), **in = PyMem_Calloc((size_t)count + 1, sizeof *in);
    own_gradient *own = malloc(sizeof *own);
    int fine = y && in && own;
    for (int i = 0; i < count && fine; i++) {
        PyObject *item = PyTuple_GetItem(inputs, i);
        fine = gd_py_is_tensor(item) ? (in[i] = gd_py_tensor_of(item)) != NULL
                                     : gd_py_no_tensor("custom", item) != NULL;
    }
    if (fine && gd_py_own(c)) {
        *own = (own_gradient){c, Py_NewRef(fn), count};
        result = gd_py_new_tensor(c, gd_custom(y, in, count, call_own_gradient, own, end_own_gradient));
        gd_py_disown(c);
    } else
        free(own);
    PyMem_Free(in);
    return result;
}

/* _leaves(tensor): the leaves that want gradients and that it depends on */
static PyObject *leaves(PyObject *module, PyObject *tensor)
{
    (void)module;
    if (!gd_py_is_tensor(tensor)) return gd_py_no_tensor("leaves", tensor);
    gd_py_context *c = ((gd_py_tensor *)tensor)->head.owner;
    gd_tensor *t = gd_py_tensor_of(tensor), **found = NULL;
    int count = t ? gd_leaves(t, NULL, 0) : 0; /* counts a leaf as often as it is used */
    if (!t || count < 0) return t ? gd_py_raise(c) : NULL;
    if (!(found = PyMem_Calloc((size_t)count + 1, sizeof *found))) return PyErr_NoMemory();
    count = gd_leaves(t, found, count);
    PyObject *tuple = count < 0 ? gd_py_raise(c) : PyTuple_New(count);
    for (int i = 0; i < count && tuple; i++) {
        PyObject *item = gd_py_borrowed_tensor(c, found[i]);
        if (!item || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
    }
    PyMem_Free(found);
    return tuple;
}

PyMethodDef gd_py_traced_functions[] = {
    {"_custom", custom, METH_VARARGS, NULL}, {"_leaves", leaves, METH_O, NULL}, {NULL, NULL, 0, NULL}};
