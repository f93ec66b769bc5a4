/* Objectives that a link written in Python changes for the links after it, and the Hessian that it gives to those around it.
 *
 * What the library calls during the rest of the step is kept on the context until no call of the library runs (gd_py_disown). */
#include "view.h"

#include <string.h>

static const char *const kept_name = "gradus.kept";

typedef struct kept {
    gd_py_context *c;
    gd_link *link;
    PyObject *fn, *last, *hooks; /* references; last: the last result, which the library still reads */
} kept;

static void kept_free(kept *k)
{
    Py_XDECREF(k->fn);
    Py_XDECREF(k->last);
    Py_XDECREF(k->hooks);
    free(k);
}

static void kept_end(PyObject *capsule) { kept_free(PyCapsule_GetPointer(capsule, kept_name)); }

static kept *kept_new(gd_py_view *v, PyObject *fn)
{
    kept *k = PyCallable_Check(fn) ? calloc(1, sizeof *k) : NULL;
    if (!k) {
        if (PyCallable_Check(fn))
            PyErr_NoMemory();
        else
            PyErr_Format(PyExc_TypeError, "a function is needed, not %R", (PyObject *)Py_TYPE(fn));
        return NULL;
    }
    *k = (kept){v->c, v->link, Py_NewRef(fn), NULL, Py_XNewRef(v->hooks)};
    return k;
}

/* Until the end of the step. */
static kept *keep(gd_py_view *v, PyObject *fn)
{
    kept *k = kept_new(v, fn);
    if (!k) return NULL;
    if (!v->c->kept && !(v->c->kept = PyList_New(0))) {
        kept_free(k);
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(k, kept_name, kept_end);
    if (!capsule) kept_free(k);
    int fine = capsule && PyList_Append(v->c->kept, capsule) == 0;
    Py_XDECREF(capsule);
    return fine ? k : NULL;
}

/* ---- a loss made of the loss ---- */

static gd_tensor *reformulated(void *user, gd_tensor *loss)
{
    kept *k = user;
    PyGILState_STATE state = gd_py_callback_begin(k->c);
    PyObject *seen = gd_py_borrowed_tensor(k->c, loss);
    PyObject *value = seen ? PyObject_CallFunctionObjArgs(k->fn, seen, NULL) : NULL;
    gd_tensor *t = gd_py_returned(k->c, &value, "reformulate: a loss is a Tensor made of the loss");
    if (t && gd_numel(t) != 1) {
        PyErr_SetString(PyExc_ValueError, "reformulate: a loss is one number");
        gd_py_keep_exception(k->c);
        t = NULL;
    }
    gd_py_set(&k->last, value);
    Py_XDECREF(seen);
    gd_py_callback_end(k->c, state);
    return t;
}

static PyObject *reformulate(gd_py_view *v, PyObject *args)
{
    PyObject *fn;
    if (!PyArg_ParseTuple(args, "O:reformulate", &fn)) return NULL;
    kept *k = keep(v, fn);
    return k ? gd_py_none_or_raise(v, gd_var_reformulate(v->var, reformulated, k)) : NULL;
}

/* ---- a closure around the closure ---- */

/* A loss of Python, new in the innermost scope. */
static gd_tensor *loss_of(gd_py_context *c, PyObject *value)
{
    if (gd_py_is_tensor(value)) {
        gd_tensor *t = gd_py_tensor_of(value);
        if (t && gd_numel(t) == 1) return gd_detach(gd_copy(t));
        if (t) PyErr_SetString(PyExc_ValueError, "a closure returns one number");
        return NULL;
    }
    double number = PyFloat_AsDouble(value);
    return PyErr_Occurred() ? NULL : gd_scalar(c->ctx, GD_F64, number);
}

static int take_evaluation(kept *k, PyObject *result, int count, gd_tensor **loss, gd_tensor **grads)
{
    PyObject *value, *slopes;
    if (!PyArg_ParseTuple(result, "OO", &value, &slopes) || !(*loss = loss_of(k->c, value))) return 0;
    gd_tensor **t = grads ? gd_py_tensors_of(slopes, "closure: gradients", count) : NULL;
    int fine = !grads || t;
    for (int i = 0; grads && i < count && fine; i++) fine = (grads[i] = gd_copy(t[i])) != NULL;
    PyMem_Free(t);
    return fine;
}

static gd_status wrapped(void *user, gd_var *var, bool backward, gd_tensor **loss, gd_tensor **grads)
{
    kept *k = user;
    gd_ctx *ctx = k->c->ctx;
    PyGILState_STATE state = gd_py_callback_begin(k->c);
    int previous = gd_enable_grad_begin(ctx);
    gd_py_view v = {.link = k->link, .var = var, .c = k->c, .hooks = k->hooks};
    PyObject *capsule = gd_py_view_open(&v), *result = NULL;
    if (capsule) result = PyObject_CallFunctionObjArgs(k->fn, capsule, backward ? Py_True : Py_False, NULL);
    gd_no_grad_begin(ctx);
    int fine = result && take_evaluation(k, result, gd_var_count(var), loss, grads);
    gd_no_grad_end(ctx);
    if (!fine && (PyErr_Occurred() || !gd_error(ctx))) gd_py_keep_exception(k->c);
    gd_py_view_close(&v, capsule);
    gd_enable_grad_end(ctx, previous);
    Py_XDECREF(result);
    gd_py_callback_end(k->c, state);
    return fine ? GD_OK : gd_error(ctx) ? gd_error(ctx) : GD_CALLBACK;
}

static PyObject *wrap_closure(gd_py_view *v, PyObject *args)
{
    PyObject *fn;
    if (!PyArg_ParseTuple(args, "O:closure", &fn)) return NULL;
    kept *k = keep(v, fn);
    return k ? gd_py_none_or_raise(v, gd_var_wrap_closure(v->var, wrapped, k)) : NULL;
}

/* (loss, gradients or None) of the closure below, inside a function that changes it. */
static PyObject *inner_evaluate(gd_py_view *v, PyObject *args)
{
    return gd_py_evaluate(v, args, gd_var_inner_evaluate);
}

/* ---- the Hessian of a link ---- */

static void operator_end(void *user)
{
    PyGILState_STATE state = PyGILState_Ensure();
    kept_free(user);
    PyGILState_Release(state);
}

static gd_tensor *product(void *user, gd_tensor *x)
{
    kept *k = user;
    PyGILState_STATE state = gd_py_callback_begin(k->c);
    gd_no_grad_begin(k->c->ctx);
    PyObject *seen = gd_py_borrowed_tensor(k->c, x);
    PyObject *value = seen ? PyObject_CallFunctionObjArgs(k->fn, seen, NULL) : NULL;
    gd_tensor *t = gd_py_returned(k->c, &value, "get_H: a product with the Hessian is a Tensor");
    if (t && gd_numel(t) != gd_numel(x)) {
        PyErr_Format(PyExc_ValueError, "get_H: the product has %lld elements, the vector %lld",
                     (long long)gd_numel(t), (long long)gd_numel(x));
        gd_py_keep_exception(k->c);
        t = NULL;
    }
    if (t) t = gd_copy(t);
    gd_no_grad_end(k->c->ctx);
    Py_XDECREF(value);
    Py_XDECREF(seen);
    gd_py_callback_end(k->c, state);
    return t;
}

static int64_t parameters_of(const gd_var *var)
{
    int64_t n = 0;
    for (int i = 0; i < gd_var_count(var); i++) n += gd_numel(gd_var_params(var)[i]);
    return n;
}

static gd_linop *operator_of(gd_py_view *v, PyObject *h)
{
    int64_t n = parameters_of(v->var);
    if (PyCallable_Check(h) && !gd_py_is_tensor(h)) {
        kept *k = kept_new(v, h);
        return k ? gd_linop_function(v->c->ctx, n, product, k, operator_end) : NULL;
    }
    if (PyTuple_Check(h) && PyTuple_Size(h) == 2) {
        PyObject *u = PyTuple_GetItem(h, 0), *s = PyTuple_GetItem(h, 1);
        if (gd_py_is_tensor(u) && gd_py_is_tensor(s))
            return gd_linop_low_rank(gd_copy(gd_py_tensor_of(u)), gd_copy(gd_py_tensor_of(s)));
    }
    if (gd_py_is_tensor(h)) {
        gd_tensor *t = gd_py_tensor_of(h);
        if (t && gd_ndim(t) == 1 && gd_numel(t) == n) return gd_linop_diagonal(gd_copy(t));
        if (t && gd_ndim(t) == 2 && gd_numel(t) == n * n && gd_size(t, 0) == n)
            return gd_linop_dense(gd_copy(t));
    }
    PyErr_Format(PyExc_TypeError,
                 "get_H: a Tensor [%lld, %lld], its diagonal [%lld], a pair (U, s) for U diag(s) U^T, or a "
                 "function for products is needed, not %R",
                 (long long)n, (long long)n, (long long)n, h);
    return NULL;
}

gd_linop *gd_py_hessian_of(PyObject *object, gd_py_view *v)
{
    gd_py_context *c = v->c;
    PyGILState_STATE state = gd_py_callback_begin(c);
    PyObject *h = gd_py_call_with_view(object, "_get_H", v);
    gd_linop *found = h && h != Py_None ? operator_of(v, h) : NULL;
    if (!h || (h != Py_None && !found && (PyErr_Occurred() || !gd_error(c->ctx)))) gd_py_keep_exception(c);
    Py_XDECREF(h);
    gd_py_callback_end(c, state);
    return found;
}

const gd_py_question gd_py_closure_questions[] = {{"reformulate", reformulate, 1},
                                                  {"wrap_closure", wrap_closure, 1},
                                                  {"inner_evaluate", inner_evaluate, 1},
                                                  {NULL, NULL, 0}};
