/* x[...]: numbers, slices, labels, None, ..., whole-number tensors and masks; views where the library has them. */
#include "core.h"

#include <stdio.h>
#include <string.h>

/* A tensor on the way: each part of the key takes the one before and gives the next. */
typedef struct walk {
    gd_py_context *c;
    gd_tensor *x; /* ours */
    int axis;     /* the next one */
    int views;    /* is it still a look at the first tensor? */
} walk;

static const char *axis_text(int axis, char *buffer)
{
    snprintf(buffer, 12, "%d", axis);
    return buffer;
}

static int step_to(walk *w, gd_tensor *next)
{
    gd_release(w->x);
    w->x = next;
    if (!next && !PyErr_Occurred()) (void)gd_py_raise(w->c);
    return next != NULL;
}

static int take_slice(walk *w, PyObject *key)
{
    Py_ssize_t start, stop, step, size = (Py_ssize_t)gd_size(w->x, w->axis);
    char axis[12];
    if (PySlice_Unpack(key, &start, &stop, &step) < 0) return 0;
    Py_ssize_t n = PySlice_AdjustIndices(size, &start, &stop, step);
    axis_text(w->axis++, axis);
    if (start == 0 && step == 1 && n == size) return 1;
    if (step > 0) return step_to(w, gd_slice(w->x, axis, start, start + (n ? (n - 1) * step + 1 : 0), step));
    /* backwards: the same elements forwards, turned round */
    Py_ssize_t first = n ? start + (n - 1) * step : 0;
    if (!step_to(w, gd_slice(w->x, axis, first, n ? start + 1 : 0, -step))) return 0;
    w->views = 0;
    return step_to(w, gd_flip(w->x, axis));
}

static int take_label(walk *w, PyObject *key, int only)
{
    const char *label = PyUnicode_AsUTF8AndSize(key, NULL);
    char axis[12];
    int found = -1;
    if (!label) return 0;
    if (!only) return step_to(w, gd_index_label(w->x, axis_text(w->axis, axis), label));
    for (int i = 0; i < gd_ndim(w->x); i++) {
        if (gd_axis_index(w->x, i, label) < 0) continue;
        if (found >= 0) {
            (void)gd_py_fail(GD_LABEL, "label '%s' is on axes %d and %d: x[:, '%s'] says which", label, found,
                             i, label);
            return 0;
        }
        found = i;
    }
    if (found < 0) {
        (void)gd_py_fail(GD_LABEL, "no axis has a label '%s'", label);
        return 0;
    }
    return step_to(w, gd_index_label(w->x, axis_text(found, axis), label));
}

static int take_number(walk *w, PyObject *key)
{
    char axis[12];
    PyObject *whole = PyNumber_Index(key);
    int64_t index = whole ? PyLong_AsLongLong(whole) : 0, size = gd_size(w->x, w->axis);
    Py_XDECREF(whole);
    if (PyErr_Occurred()) return 0;
    if (index < -size || index >= size) {
        (void)gd_py_fail(GD_INDEX, "index %lld is out of range: axis %d has %lld elements", (long long)index,
                         w->axis, (long long)size);
        return 0;
    }
    return step_to(w, gd_index(w->x, axis_text(w->axis, axis), index < 0 ? index + size : index));
}

/* The numbers of the elements of a mask that are true, [n] i64; NULL with an error. */
static gd_tensor *places(walk *w, const gd_tensor *mask)
{
    int64_t n = gd_numel(mask), count = 0;
    unsigned char *flag = PyMem_Malloc((size_t)n + 1);
    int64_t *place = PyMem_Malloc(((size_t)n + 1) * sizeof *place);
    gd_tensor *t = NULL;
    if (!flag || !place)
        (void)PyErr_NoMemory();
    else if (!n || gd_read(mask, flag, (size_t)n) == GD_OK) {
        for (int64_t i = 0; i < n; i++)
            if (flag[i]) place[count++] = i;
        t = gd_from_data(w->c->ctx, GD_I64, 1, &count, place);
    }
    PyMem_Free(flag);
    PyMem_Free(place);
    return t;
}

/* A mask over one or several axes becomes one axis. */
static int take_mask(walk *w, gd_tensor *mask)
{
    int n = gd_ndim(mask), ndim = gd_ndim(w->x), left = 0;
    int64_t shape[GD_MAX_DIMS];
    char axis[12];
    for (int i = 0; i < n; i++)
        if (gd_size(w->x, w->axis + i) != gd_size(mask, i)) {
            (void)gd_py_fail(GD_SHAPE, "the mask has %lld elements on its axis %d, the tensor %lld",
                             (long long)gd_size(mask, i), i, (long long)gd_size(w->x, w->axis + i));
            return 0;
        }
    for (int i = 0; i < ndim; i++)
        if (i <= w->axis || i >= w->axis + n)
            shape[left++] = i == w->axis ? gd_numel(mask) : gd_size(w->x, i);
    if (n != 1 && !step_to(w, gd_reshape(w->x, left, shape))) return 0;
    gd_tensor *index = places(w, mask);
    if (!index && !PyErr_Occurred()) (void)gd_py_raise(w->c);
    int fine = index && step_to(w, gd_index_select(w->x, axis_text(w->axis++, axis), index));
    gd_release(index);
    return fine;
}

static int take_tensor(walk *w, PyObject *key)
{
    gd_py_call call = {.name = "index", .context = w->c};
    gd_tensor *index = gd_py_operand(&call, key, NULL);
    char axis[12];
    int fine = index != NULL && gd_py_enter(w->c);
    w->views = 0;
    if (fine && gd_tensor_dtype(index) == GD_BOOL)
        fine = take_mask(w, index);
    else if (fine && gd_ndim(index) == 0) {
        PyObject *number = PyLong_FromDouble(gd_item(index));
        fine = number && take_number(w, number);
        Py_XDECREF(number);
    } else if (fine)
        fine = step_to(w, gd_index_select(w->x, axis_text(w->axis++, axis), index));
    gd_py_call_clear(&call);
    return fine;
}

static int take(walk *w, PyObject *key, int only)
{
    if (key == Py_None) return step_to(w, gd_unsqueeze(w->x, w->axis++, NULL));
    if (PyUnicode_Check(key)) return take_label(w, key, only);
    if (w->axis >= gd_ndim(w->x)) {
        (void)gd_py_fail(GD_INDEX, "more indices than the tensor's %d axes", gd_ndim(w->x));
        return 0;
    }
    if (PySlice_Check(key)) return take_slice(w, key);
    if (PyIndex_Check(key) && !gd_py_is_tensor(key) && !PyBool_Check(key)) return take_number(w, key);
    if (PyList_Check(key) || gd_py_is_tensor(key) || PyObject_CheckBuffer(key)) return take_tensor(w, key);
    PyErr_Format(PyExc_TypeError, "an index is a number, a slice, a label, None, ... or a tensor, not %R",
                 (PyObject *)Py_TYPE(key));
    return 0;
}

/* How many axes the parts of a key take. */
static int axes_taken(PyObject *key)
{
    int taken = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++) {
        PyObject *part = PyTuple_GetItem(key, i);
        if (part == Py_None || part == Py_Ellipsis) continue;
        taken += gd_py_is_tensor(part) && gd_tensor_dtype(((gd_py_tensor *)part)->t) == GD_BOOL
                     ? gd_ndim(((gd_py_tensor *)part)->t)
                     : 1;
    }
    return taken;
}

static int walk_key(walk *w, PyObject *key)
{
    if (!PyTuple_Check(key)) return key == Py_Ellipsis || take(w, key, 1);
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++) {
        PyObject *part = PyTuple_GetItem(key, i);
        if (part != Py_Ellipsis) {
            if (!take(w, part, 0)) return 0;
            continue;
        }
        PyObject *rest = PyTuple_GetSlice(key, i + 1, PyTuple_Size(key));
        if (!rest) return 0;
        w->axis = gd_ndim(w->x) - axes_taken(rest);
        Py_DECREF(rest);
    }
    return 1;
}

static int start_walk(walk *w, PyObject *self, PyObject *key)
{
    gd_tensor *t = gd_py_tensor_of(self);
    if (!t) return 0;
    *w = (walk){((gd_py_tensor *)self)->head.owner, gd_retain(t), 0, 1};
    if (walk_key(w, key)) return 1;
    gd_release(w->x);
    return 0;
}

PyObject *gd_py_subscript(PyObject *self, PyObject *key)
{
    walk w;
    if (!start_walk(&w, self, key)) return NULL;
    if (w.x != ((gd_py_tensor *)self)->t) return gd_py_new_tensor(w.c, w.x);
    gd_release(w.x);
    return gd_py_borrowed_tensor(w.c, ((gd_py_tensor *)self)->t);
}

int gd_py_assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
    walk w;
    if (!value) {
        PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
        return -1;
    }
    if (!start_walk(&w, self, key)) return -1;
    gd_py_call call = {.name = "assign", .context = w.c};
    int fine = 0;
    if (!w.views)
        (void)gd_py_fail(GD_NOT_IMPLEMENTED,
                         "only numbers, slices and labels can stand on the left of an assignment");
    else {
        gd_tensor *source = gd_py_operand(&call, value, w.x);
        fine = source && gd_assign(w.x, source) == GD_OK;
        if (source && !fine) (void)gd_py_raise(w.c);
    }
    gd_py_call_clear(&call);
    gd_release(w.x);
    return fine ? 0 : -1;
}
