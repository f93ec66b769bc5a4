/* Loops of a Python function (gradus.scan). */
#include "core.h"

#define MOST 64 /* tensors of a state, of a slice or of a result: gd_scan */

typedef struct body {
    gd_py_context *c;
    PyObject *fn;
} body;

static void end_body(void *user)
{
    body *b = user;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF(b->fn);
    PyGILState_Release(state);
    free(b);
}

static PyObject *tuple_of(gd_py_context *c, gd_tensor *const *t, Py_ssize_t count)
{
    PyObject *tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; i < count && tuple; i++) {
        PyObject *item = gd_py_borrowed_tensor(c, t[i]);
        if (!item || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/* Tensors of a list that a function returned: the scope holds them beside the handles; one that is there twice is one tensor. */
static int take_list(PyObject *list, gd_tensor **out)
{
    Py_ssize_t count = list && PyList_Check(list) ? PyList_Size(list) : -1;
    if (count < 0 || count > MOST)
        return gd_py_fail(GD_ARGUMENT, "scan: a list of at most 64 tensors is needed") != NULL;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        if (!gd_py_is_tensor(item)) return gd_py_no_tensor("scan", item) != NULL;
        for (Py_ssize_t k = 0; k < i && !out[i]; k++)
            if (PyList_GetItem(list, k) == item) out[i] = out[k];
        gd_tensor *t = gd_py_tensor_of(item);
        if (!t || (!out[i] && !(out[i] = gd_cast(t, gd_tensor_dtype(t))))) return 0;
    }
    return 1;
}

typedef struct counts {
    int states, xs;
} counts;

/* A result that is a state, too, is one tensor. */
static int take_results(PyObject *given, gd_tensor **next, gd_tensor **y)
{
    PyObject *states = PyTuple_GetItem(given, 0), *results = PyTuple_GetItem(given, 1);
    if (!states || !results || !PyList_Check(results)) return 0;
    if (!take_list(states, next)) return 0;
    for (Py_ssize_t j = 0; j < PyList_Size(results) && j < MOST; j++)
        for (Py_ssize_t k = 0; k < PyList_Size(states); k++)
            if (PyList_GetItem(results, j) == PyList_GetItem(states, k)) y[j] = next[k];
    return take_list(results, y);
}

typedef struct owned_body {
    body b;
    counts n;
} owned_body;

static gd_status call_body(void *user, gd_tensor *const *state, gd_tensor *const *x, gd_tensor **next,
                           gd_tensor **y)
{
    owned_body *own = user;
    gd_py_context *c = own->b.c;
    PyGILState_STATE lock = gd_py_callback_begin(c);
    PyObject *states = tuple_of(c, state, own->n.states), *slices = tuple_of(c, x, own->n.xs);
    PyObject *given = states && slices ? PyObject_CallFunctionObjArgs(own->b.fn, states, slices, NULL) : NULL;
    int fine = given && PyTuple_Check(given) && take_results(given, next, y);
    if (!fine && !PyErr_Occurred() && !gd_error(c->ctx))
        PyErr_SetString(PyExc_TypeError, "scan: the step must return two lists");
    if (PyErr_Occurred()) gd_py_keep_exception(c);
    Py_XDECREF(given);
    Py_XDECREF(states);
    Py_XDECREF(slices);
    gd_py_callback_end(c, lock);
    return fine ? GD_OK : GD_CALLBACK;
}

/* The tensors of a tuple of one context. */
static Py_ssize_t take_tuple(PyObject *tuple, gd_py_context **c, gd_tensor **t)
{
    Py_ssize_t count = PyTuple_Size(tuple);
    if (count > MOST) return gd_py_fail(GD_ARGUMENT, "scan: more than 64 tensors") ? 0 : -1;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyTuple_GetItem(tuple, i);
        if (!gd_py_is_tensor(item)) return gd_py_no_tensor("scan", item) ? 0 : -1;
        if (!(t[i] = gd_py_tensor_of(item))) return -1;
        if (*c && ((gd_py_tensor *)item)->head.owner != *c)
            return gd_py_fail(GD_ARGUMENT, "scan: tensors of different contexts") ? 0 : -1;
        *c = ((gd_py_tensor *)item)->head.owner;
    }
    return count;
}

/* New tensors as a list; those that are left are released after an error. */
static PyObject *list_of(gd_py_context *c, gd_tensor *const *t, int count)
{
    PyObject *list = PyList_New(count);
    for (int i = 0; i < count; i++) {
        PyObject *item = list ? gd_py_new_tensor(c, t[i]) : NULL;
        if (!list) gd_release(t[i]);
        if (list && (!item || PyList_SetItem(list, i, item) < 0)) Py_CLEAR(list);
    }
    return list;
}

static int count_of(gd_tensor *const *t)
{
    int n = 0;
    while (n < MOST && t[n]) n++;
    return n;
}

/* _scan(step, states, xs, steps, backwards): lists of the last states and of the results; step(states, slices) gives two lists, too */
static PyObject *scan(PyObject *module, PyObject *args)
{
    PyObject *fn, *states, *lists;
    long long steps;
    int backwards;
    gd_py_context *c = NULL;
    gd_tensor *state[MOST], *x[MOST], *last[MOST], *y[MOST];
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!O!Lp:_scan", &fn, &PyTuple_Type, &states, &PyTuple_Type, &lists, &steps,
                          &backwards))
        return NULL;
    Py_ssize_t n = take_tuple(states, &c, state), m = n < 0 ? -1 : take_tuple(lists, &c, x);
    if (m < 0) return NULL;
    if (!c) return gd_py_fail(GD_ARGUMENT, "scan: there are no states");
    owned_body *own = malloc(sizeof *own);
    if (!own) return PyErr_NoMemory();
    if (!gd_py_own(c)) {
        free(own);
        return NULL;
    }
    *own = (owned_body){{c, Py_NewRef(fn)}, {(int)n, (int)m}};
    gd_scan_body loop = {.step = call_body,
                         .user = own,
                         .destroy = end_body,
                         .states = (int)n,
                         .xs = (int)m,
                         .ys = -1,
                         .backwards = backwards};
    PyObject *result = NULL;
    if (gd_scan(c->ctx, &loop, state, x, steps, last, y))
        (void)gd_py_raise(c);
    else {
        PyObject *lasts = list_of(c, last, (int)n), *ys = list_of(c, y, count_of(y));
        if (lasts && ys) result = PyTuple_Pack(2, lasts, ys);
        Py_XDECREF(lasts);
        Py_XDECREF(ys);
    }
    gd_py_disown(c);
    return result;
}

PyMethodDef gd_py_loop_functions[] = {{"_scan", scan, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};
