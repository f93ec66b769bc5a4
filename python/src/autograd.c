/* Derivatives: of tensors (grad) and of Python functions (hvp, jvp, jacobian, hessian, gradcheck). */
#include "core.h"

#include <string.h>

/* ---- lists of tensors ---- */

typedef struct tensors {
    gd_tensor **t;
    int count;
    int single; /* one tensor was given, not a list of one */
    gd_py_context *c;
    PyObject *items; /* the tuple they came in */
} tensors;

static void tensors_clear(tensors *l)
{
    PyMem_Free(l->t);
    Py_CLEAR(l->items);
}

static int tensors_of(PyObject *o, const char *what, tensors *l)
{
    *l = (tensors){.single = gd_py_is_tensor_like(o)};
    l->items = l->single                             ? PyTuple_Pack(1, o)
               : PyTuple_Check(o) || PyList_Check(o) ? PySequence_Tuple(o)
                                                     : NULL;
    if (!l->items && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%s: a tensor or a list of them is needed, not %R", what,
                     (PyObject *)Py_TYPE(o));
    if (!l->items) return 0;
    l->count = (int)PyTuple_Size(l->items);
    gd_py_set(&l->items, gd_py_values(l->items));
    if (!l->items) return 0;
    l->t = PyMem_Calloc((size_t)l->count + 1, sizeof *l->t);
    if (!l->t) (void)PyErr_NoMemory();
    for (int i = 0; i < l->count && l->t; i++) {
        PyObject *item = PyTuple_GetItem(l->items, i);
        if (!gd_py_is_tensor(item))
            PyErr_Format(PyExc_TypeError, "%s: a tensor is needed, not %R", what, (PyObject *)Py_TYPE(item));
        else if ((l->t[i] = gd_py_tensor_of(item))) {
            l->c = ((gd_py_tensor *)item)->head.owner;
            continue;
        }
        tensors_clear(l);
        return 0;
    }
    if (l->t && l->count) return 1;
    if (l->t) PyErr_Format(PyExc_ValueError, "%s: at least one tensor is needed", what);
    tensors_clear(l);
    return 0;
}

/* Results for inputs: one for one, else a tuple; what is NULL becomes None. */
static PyObject *results(const tensors *l, gd_tensor *const *out)
{
    PyObject *tuple = PyTuple_New(l->count);
    for (int i = 0; i < l->count && tuple; i++) {
        PyObject *item = out[i] ? gd_py_new_tensor(l->c, out[i]) : Py_NewRef(Py_None);
        if (!item || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
    }
    if (!tuple || !l->single) return tuple;
    PyObject *only = Py_NewRef(PyTuple_GetItem(tuple, 0));
    Py_DECREF(tuple);
    return only;
}

/* ---- grad ---- */

/* An argument as a Tensor, or the None that may stand for a seed; new, NULL with an exception. */
static PyObject *one_tensor(PyObject *o, const char *what)
{
    PyObject *held = o == Py_None && *what == 's' ? Py_NewRef(o) : gd_py_as_tensor(o);
    if (!held && !PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "grad: %s must be a tensor, not %R", what, (PyObject *)Py_TYPE(o));
    return held;
}

static PyObject *grad(PyObject *module, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"output", "inputs", "seed", "retain_graph", "create_graph", "allow_unused", NULL};
    PyObject *output, *inputs, *seed = Py_None, *result = NULL;
    int retain = 0, create = 0, unused = 0;
    tensors in;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "OO|Oppp:grad", names, &output, &inputs, &seed, &retain,
                                     &create, &unused) ||
        !tensors_of(inputs, "grad", &in))
        return NULL;
    output = one_tensor(output, "output");
    seed = output ? one_tensor(seed, "seed") : NULL;
    if (!seed) {
        Py_XDECREF(output);
        tensors_clear(&in);
        return NULL;
    }
    gd_tensor *y = gd_py_tensor_of(output), *s = NULL, **out = PyMem_Calloc((size_t)in.count, sizeof *out);
    int fine = y && out;
    if (fine && seed != Py_None) fine = (s = gd_py_tensor_of(seed)) != NULL;
    int flags = (retain ? GD_RETAIN_GRAPH : 0) | (create ? GD_CREATE_GRAPH : 0) |
                (unused ? GD_ALLOW_UNUSED : 0);
    if (fine && gd_py_own(in.c)) { /* Python code may have run since it was entered */
        result = gd_grad(y, s, in.t, in.count, flags, out) ? gd_py_raise(in.c) : results(&in, out);
        gd_py_disown(in.c);
    }
    PyMem_Free(out);
    Py_DECREF(output);
    Py_DECREF(seed);
    tensors_clear(&in);
    return result;
}

/* ---- of functions ---- */

typedef struct function {
    PyObject *fn;
    gd_py_context *c;
    PyObject *last; /* what it returned last: alive until the call is back */
} function;

static gd_tensor *call_function(void *user, gd_tensor *const *inputs, int count)
{
    function *f = user;
    PyGILState_STATE state = gd_py_callback_begin(f->c);
    PyObject *args = PyTuple_New(count);
    for (int i = 0; i < count && args; i++) {
        PyObject *item = gd_py_borrowed_tensor(f->c, inputs[i]);
        if (!item || PyTuple_SetItem(args, i, item) < 0) Py_CLEAR(args);
    }
    PyObject *value = args ? PyObject_Call(f->fn, args, NULL) : NULL;
    Py_XDECREF(args);
    gd_tensor *t = gd_py_returned(f->c, &value, "the function must return a tensor");
    gd_py_set(&f->last, value);
    gd_py_callback_end(f->c, state);
    return t;
}

typedef enum derivative { HVP, JVP, JACOBIAN, HESSIAN, GRADCHECK } derivative;

static PyObject *run_derivative(derivative which, PyObject *fn, PyObject *inputs, PyObject *vectors)
{
    tensors in, v = {0};
    if (!tensors_of(inputs, "inputs", &in)) return NULL;
    if (vectors && !tensors_of(vectors, "vectors", &v)) {
        tensors_clear(&in);
        return NULL;
    }
    function f = {fn, in.c, NULL};
    gd_tensor **out = PyMem_Calloc((size_t)in.count, sizeof *out), *one = NULL;
    PyObject *result = NULL;
    gd_status status = GD_OK;
    if (vectors && v.count != in.count)
        PyErr_Format(PyExc_ValueError, "%d vectors for %d inputs", v.count, in.count);
    else if (out && gd_py_own(in.c)) {
        switch (which) {
        case HVP: status = gd_hvp(call_function, &f, in.t, in.count, v.t, out); break;
        case JVP: one = gd_jvp(call_function, &f, in.t, in.count, v.t); break;
        case JACOBIAN: status = gd_jacobian(call_function, &f, in.t, in.count, out); break;
        case HESSIAN: one = gd_hessian(call_function, &f, in.t, in.count); break;
        default: status = gd_gradcheck(call_function, &f, in.t, in.count, NULL); break;
        }
        if (which == GRADCHECK)
            result = status ? gd_py_raise(in.c) : Py_NewRef(Py_True);
        else if (which == JVP || which == HESSIAN)
            result = gd_py_new_tensor(in.c, one);
        else
            result = status ? gd_py_raise(in.c) : results(&in, out);
        gd_py_disown(in.c);
    }
    Py_XDECREF(f.last);
    PyMem_Free(out);
    tensors_clear(&in);
    tensors_clear(&v);
    return result;
}

static PyObject *derivative_of(derivative which, PyObject *args, const char *format, int with_vectors)
{
    PyObject *fn, *inputs, *vectors = NULL;
    int fine = with_vectors ? PyArg_ParseTuple(args, format, &fn, &inputs, &vectors)
                            : PyArg_ParseTuple(args, format, &fn, &inputs);
    return fine ? run_derivative(which, fn, inputs, vectors) : NULL;
}
static PyObject *hvp(PyObject *module, PyObject *args)
{
    (void)module;
    return derivative_of(HVP, args, "OOO:hvp", 1);
}
static PyObject *jvp(PyObject *module, PyObject *args)
{
    (void)module;
    return derivative_of(JVP, args, "OOO:jvp", 1);
}
static PyObject *jacobian(PyObject *module, PyObject *args)
{
    (void)module;
    return derivative_of(JACOBIAN, args, "OO:jacobian", 0);
}
static PyObject *hessian(PyObject *module, PyObject *args)
{
    (void)module;
    return derivative_of(HESSIAN, args, "OO:hessian", 0);
}
static PyObject *gradcheck(PyObject *module, PyObject *args)
{
    (void)module;
    return derivative_of(GRADCHECK, args, "OO:gradcheck", 0);
}

/* _jacobian_of(output, inputs): the derivatives of a recorded tensor's elements by each of a tuple of tensors */
static PyObject *jacobian_of(PyObject *module, PyObject *args)
{
    PyObject *output, *inputs, *result = NULL;
    tensors in;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!:_jacobian_of", gd_py.tensor_type, &output, &PyTuple_Type, &inputs) ||
        !tensors_of(inputs, "jacobian", &in))
        return NULL;
    gd_tensor *y = gd_py_tensor_of(output), **out = PyMem_Calloc((size_t)in.count, sizeof *out);
    if (y && out && gd_py_own(in.c)) {
        result = gd_jacobian_of(y, in.t, in.count, out) ? gd_py_raise(in.c) : results(&in, out);
        gd_py_disown(in.c);
    }
    PyMem_Free(out);
    tensors_clear(&in);
    return result;
}

/* ---- modes ---- */

static PyObject *no_grad_begin(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gd_py_context *c = gd_py_current();
    if (!c) return NULL;
    gd_no_grad_begin(c->ctx);
    gd_py_mode_changed(c);
    return Py_NewRef((PyObject *)c);
}
static PyObject *no_grad_end(PyObject *module, PyObject *context)
{
    (void)module;
    gd_py_context *c = (gd_py_context *)context;
    if (Py_TYPE(context) != gd_py.context_type) return PyErr_Format(PyExc_TypeError, "a Context is needed");
    if (c->ctx && gd_py_enter(c)) {
        gd_no_grad_end(c->ctx);
        gd_py_mode_changed(c);
    }
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
static PyObject *enable_grad_begin(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gd_py_context *c = gd_py_current();
    if (!c) return NULL;
    int previous = gd_enable_grad_begin(c->ctx);
    gd_py_mode_changed(c);
    return Py_BuildValue("(Oi)", c, previous);
}
static PyObject *enable_grad_end(PyObject *module, PyObject *args)
{
    PyObject *context;
    int previous;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!i", gd_py.context_type, &context, &previous)) return NULL;
    gd_py_context *c = (gd_py_context *)context;
    if (c->ctx && gd_py_enter(c)) {
        gd_enable_grad_end(c->ctx, previous);
        gd_py_mode_changed(c);
    }
    if (PyErr_Occurred()) return NULL;
    Py_RETURN_NONE;
}
static PyObject *grad_enabled(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    gd_py_context *c = gd_py_current();
    return c ? PyBool_FromLong(gd_grad_enabled(c->ctx)) : NULL;
}

PyMethodDef gd_py_autograd_functions[] = {
    {"grad", (PyCFunction)(void (*)(void))grad, METH_VARARGS | METH_KEYWORDS,
     "grad(output, inputs, seed=None, retain_graph=False, create_graph=False, allow_unused=False)\n--\n\n"
     "The gradients of output (times seed) by inputs, one tensor or a list of them; they may be inner tensors."},
    {"hvp", hvp, METH_VARARGS,
     "hvp(fn, inputs, vectors, /)\n--\n\nProducts of vectors with the Hessian of a scalar function at inputs."},
    {"jvp", jvp, METH_VARARGS,
     "jvp(fn, inputs, vectors, /)\n--\n\nThe product of the Jacobian of a function with vectors."},
    {"jacobian", jacobian, METH_VARARGS,
     "jacobian(fn, inputs, /)\n--\n\nd fn / d input as [axes of the result..., axes of the input...], one an input."},
    {"hessian", hessian, METH_VARARGS,
     "hessian(fn, inputs, /)\n--\n\nThe Hessian of a scalar function of all inputs, flattened and joined: [n, n]."},
    {"gradcheck", gradcheck, METH_VARARGS,
     "gradcheck(fn, inputs, /)\n--\n\nCompares gradients with central differences at f64 inputs; MismatchError says where they differ."},
    {"_jacobian_of", jacobian_of, METH_VARARGS, NULL},
    {"_no_grad_begin", no_grad_begin, METH_NOARGS, NULL},
    {"_no_grad_end", no_grad_end, METH_O, NULL},
    {"_enable_grad_begin", enable_grad_begin, METH_NOARGS, NULL},
    {"_enable_grad_end", enable_grad_end, METH_VARARGS, NULL},
    {"grad_enabled", grad_enabled, METH_NOARGS, "grad_enabled()\n--\n\nDo operators record for gradients?"},
    {NULL, NULL, 0, NULL}};
