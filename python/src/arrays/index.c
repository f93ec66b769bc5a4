/* x[...]: numbers, slices, labels, None and ... are views, made here; with integer arrays and masks the library reads the key. */
#include "core.h"

#include <stdio.h>
#include <string.h>

/* A tensor on the way: each part of the key takes the one before and gives the next. */
typedef struct walk {
    gd_py_context *c;
    gd_tensor *x; /* ours */
    int axis;     /* the next one */
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
    if (!n) return step_to(w, gd_slice(w->x, axis, 0, 0, 1));
    if (step < -PY_SSIZE_T_MAX) step = -PY_SSIZE_T_MAX; /* as PySlice_AdjustIndices has it */
    return step_to(w, gd_slice(w->x, axis, start,
                               step > 0   ? start + (n - 1) * step + 1
                               : stop < 0 ? INT64_MIN
                                          : stop,
                               step));
}

/* The axis of a label without a dimension; -1 with an exception. */
static int axis_of_label(const gd_tensor *x, const char *label)
{
    int found = -1;
    for (int i = 0; i < gd_ndim(x); i++) {
        if (gd_axis_index(x, i, label) < 0) continue;
        if (found >= 0) {
            (void)gd_py_fail(GD_LABEL, "label '%s' is on axes %d and %d: x[:, '%s'] says which", label, found,
                             i, label);
            return -1;
        }
        found = i;
    }
    if (found < 0) (void)gd_py_fail(GD_LABEL, "no axis has a label '%s'", label);
    return found;
}

static int take_label(walk *w, PyObject *key, int only)
{
    const char *label = PyUnicode_AsUTF8AndSize(key, NULL);
    char axis[12];
    if (!label) return 0;
    if (!only) return step_to(w, gd_index_label(w->x, axis_text(w->axis, axis), label));
    int found = axis_of_label(w->x, label);
    return found >= 0 && step_to(w, gd_index_label(w->x, axis_text(found, axis), label));
}

/* A whole number of Python or NumPy, or a tensor with one: false with an exception. */
static int whole_number(PyObject *key, int64_t *number)
{
    PyObject *whole = PyNumber_Index(key);
    int overflow = 0;
    *number = whole ? PyLong_AsLongLongAndOverflow(whole, &overflow) : 0;
    if (overflow) (void)gd_py_fail(GD_INDEX, "index %R is out of range", whole);
    Py_XDECREF(whole);
    return !PyErr_Occurred();
}

static int take_number(walk *w, PyObject *key)
{
    char axis[12];
    int64_t index, size = gd_size(w->x, w->axis);
    if (!whole_number(key, &index)) return 0;
    if (index < -size || index >= size) {
        (void)gd_py_fail(GD_INDEX, "index %lld is out of range: axis %d has %lld elements", (long long)index,
                         w->axis, (long long)size);
        return 0;
    }
    return step_to(w, gd_index(w->x, axis_text(w->axis, axis), index < 0 ? index + size : index));
}

static int take(walk *w, PyObject *key, int only)
{
    if (key == Py_None) return step_to(w, gd_unsqueeze(w->x, w->axis++, NULL));
    if (PyUnicode_Check(key)) return take_label(w, key, only);
    if (w->axis >= gd_ndim(w->x)) {
        (void)gd_py_fail(GD_INDEX, "more indices than the tensor's %d axes", gd_ndim(w->x));
        return 0;
    }
    return PySlice_Check(key) ? take_slice(w, key) : take_number(w, key);
}

/* How many axes the parts of a key take that has no arrays. */
static int axes_taken(PyObject *key)
{
    int taken = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++) {
        PyObject *part = PyTuple_GetItem(key, i);
        taken += part != Py_None && part != Py_Ellipsis;
    }
    return taken;
}

static int walk_key(walk *w, PyObject *key)
{
    if (!PyTuple_Check(key)) return key == Py_Ellipsis || take(w, key, 1);
    int rests = 0;
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++) {
        PyObject *part = PyTuple_GetItem(key, i);
        if (part != Py_Ellipsis) {
            if (!take(w, part, 0)) return 0;
            continue;
        }
        PyObject *rest = PyTuple_GetSlice(key, i + 1, PyTuple_Size(key));
        if (!rest) return 0;
        int axis = gd_ndim(w->x) - axes_taken(rest);
        Py_DECREF(rest);
        if (rests++ || axis < w->axis)
            return gd_py_fail(GD_INDEX, rests > 1 ? "'...' stands twice"
                                                  : "more indices than the tensor's axes") != NULL;
        w->axis = axis;
    }
    return 1;
}

static int start_walk(walk *w, PyObject *self, PyObject *key)
{
    gd_tensor *t = gd_py_tensor_of(self);
    if (!t) return 0;
    *w = (walk){((gd_py_tensor *)self)->head.owner, gd_retain(t), 0};
    if (walk_key(w, key)) return 1;
    gd_release(w->x);
    return 0;
}

/* ---- keys with arrays: as the library reads them ---- */

#define MOST_PARTS 40

typedef struct array_key {
    gd_py_call call; /* holds what was made of its parts */
    gd_tensor *x;
    gd_key part[MOST_PARTS];
    PyObject *label[MOST_PARTS]; /* borrowed; NULL: none */
    int count;
} array_key;

/* Numbers, slices, labels, None and ... are none, nor are whole numbers of NumPy and tensors with one. */
static int is_array(PyObject *part)
{
    if (PyLong_CheckExact(part) || part == Py_None || part == Py_Ellipsis || PySlice_Check(part) ||
        PyUnicode_Check(part))
        return 0;
    if (gd_py_is_tensor(part)) {
        const gd_tensor *t = ((gd_py_tensor *)part)->t;
        return !t || gd_ndim(t) || gd_tensor_dtype(t) == GD_BOOL || gd_dtype_is_float(gd_tensor_dtype(t));
    }
    return PyBool_Check(part) || PySequence_Check(part) || !PyIndex_Check(part);
}

static int has_array(PyObject *key)
{
    if (!PyTuple_Check(key)) return is_array(key);
    for (Py_ssize_t i = 0; i < PyTuple_Size(key); i++)
        if (is_array(PyTuple_GetItem(key, i))) return 1;
    return 0;
}

/* An integer tensor or a mask of a part.  An empty list has no integers, but means them. */
static int add_array(array_key *k, PyObject *part, gd_key *to)
{
    gd_py_call *call = &k->call;
    if (call->held_count + call->made_count + 2 > GD_PY_MOST_PARAMETERS)
        return gd_py_fail(GD_INDEX, "more than %d arrays in an index", GD_PY_MOST_PARAMETERS - 2) != NULL;
    gd_tensor *index = gd_py_operand(call, part, NULL);
    if (!index && PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_NotImplementedError)) {
        PyErr_Clear();
        PyErr_Format(PyExc_TypeError,
                     "an index is a number, a slice, a label, None, ..., integers or a mask, not %R",
                     (PyObject *)Py_TYPE(part));
    }
    if (index && !gd_numel(index) && (PyList_Check(part) || PyTuple_Check(part))) {
        if (!(index = gd_cast(index, GD_I64))) return gd_py_raise(call->context) != NULL;
        call->made[call->made_count++] = index;
    }
    *to = (gd_key){.kind = GD_KEY_INDEX, .index = index};
    return index != NULL;
}

static int add_part(array_key *k, PyObject *part)
{
    if (k->count == MOST_PARTS)
        return gd_py_fail(GD_INDEX, "more than %d parts of an index", MOST_PARTS) != NULL;
    gd_key *to = &k->part[k->count];
    PyObject **label = &k->label[k->count++];
    *to = (gd_key){.kind = part == Py_None ? GD_KEY_NEW : part == Py_Ellipsis ? GD_KEY_REST : GD_KEY_NUMBER};
    *label = PyUnicode_Check(part) ? part : NULL;
    if (*label || to->kind != GD_KEY_NUMBER) return 1;
    if (is_array(part)) return add_array(k, part, to);
    if (!PySlice_Check(part)) return whole_number(part, &to->start);
    Py_ssize_t start, stop, step;
    if (PySlice_Unpack(part, &start, &stop, &step) < 0) return 0;
    *to = (gd_key){GD_KEY_SLICE, start, stop, step, NULL};
    return 1;
}

static int axes_of(const gd_key *part)
{
    if (part->kind == GD_KEY_NEW || part->kind == GD_KEY_REST) return 0;
    return part->kind == GD_KEY_INDEX && gd_tensor_dtype(part->index) == GD_BOOL ? gd_ndim(part->index) : 1;
}

/* The numbers of labels, now that all masks are there and say how many axes they take. */
static int find_labels(array_key *k)
{
    int axis = 0, taken = 0;
    for (int i = 0; i < k->count; i++) taken += axes_of(&k->part[i]);
    for (int i = 0; i < k->count; i++) {
        const char *label = k->label[i] ? PyUnicode_AsUTF8AndSize(k->label[i], NULL) : NULL;
        if (k->label[i] && !label) return 0;
        if (label && (k->part[i].start = gd_axis_index(k->x, axis, label)) < 0)
            return gd_py_fail(GD_LABEL, "axis %d has no label '%s'", axis, label) != NULL;
        axis += k->part[i].kind == GD_KEY_REST ? gd_ndim(k->x) - taken : axes_of(&k->part[i]);
    }
    return 1;
}

/* False with an exception; gd_py_call_clear(&k->call) is due in any case. */
static int read_array_key(array_key *k, PyObject *self, PyObject *key)
{
    memset(&k->call, 0, sizeof k->call);
    k->call.name = "index";
    k->count = 0;
    if (!(k->x = gd_py_tensor_of(self))) return 0;
    gd_py_context *c = k->call.context = ((gd_py_tensor *)self)->head.owner;
    Py_ssize_t n = PyTuple_Check(key) ? PyTuple_Size(key) : -1;
    if (PyUnicode_Check(key)) { /* alone it says its axis */
        const char *label = PyUnicode_AsUTF8AndSize(key, NULL);
        int axis = label ? axis_of_label(k->x, label) : -1;
        if (axis < 0) return 0;
        for (; k->count < axis; k->count++) {
            k->part[k->count] = (gd_key){GD_KEY_SLICE, 0, INT64_MAX, 1, NULL};
            k->label[k->count] = NULL;
        }
    }
    if (n < 0 && !add_part(k, key)) return 0;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!add_part(k, PyTuple_GetItem(key, i))) return 0;
    return gd_py_enter(c) && find_labels(k); /* reading arrays may have run Python code */
}

static PyObject *get_by_arrays(PyObject *self, PyObject *key)
{
    array_key k;
    PyObject *result = NULL;
    if (read_array_key(&k, self, key)) {
        gd_py_context *c = k.call.context;
        if (gd_numel(k.x) < GD_PY_LARGE)
            result = gd_py_new_tensor(c, gd_get(k.x, k.part, k.count));
        else {
            PyThreadState *state = gd_py_begin(c);
            gd_tensor *chosen = gd_get(k.x, k.part, k.count);
            gd_py_end(c, state);
            result = gd_py_new_tensor(c, chosen);
        }
    }
    gd_py_call_clear(&k.call);
    return result;
}

PyObject *gd_py_subscript(PyObject *self, PyObject *key)
{
    walk w;
    if (has_array(key)) return get_by_arrays(self, key);
    if (!start_walk(&w, self, key)) return NULL;
    if (w.x != ((gd_py_tensor *)self)->t) return gd_py_new_tensor(w.c, w.x);
    gd_release(w.x);
    return gd_py_borrowed_tensor(w.c, ((gd_py_tensor *)self)->t);
}

/* ---- assignment ---- */

/* An assignment that gradients must flow through gives the handle another tensor: the graph keeps the old one.  What else sees the
 * old one would not notice, so there must be nothing else. */
static int put_recorded(gd_py_tensor *self, gd_py_context *c, gd_tensor *to)
{
    gd_tensor *before = self->t;
    if (!to) return gd_py_raise(c) != NULL;
    if (c->callbacks) (void)gd_retain(to); /* the scope has the first reference */
    self->t = to;
    if (!self->head.in_scope) gd_release(before);
    self->head.in_scope = 0;
    return 1;
}

/* Does an assignment change what gradients are?  -1 with an exception where it cannot. */
static int is_recorded(const gd_tensor *x, const gd_tensor *value)
{
    bool history = gd_requires_grad(x) && !gd_is_leaf(x);
    if (!gd_grad_enabled(gd_tensor_ctx(x)) || !gd_dtype_is_float(gd_tensor_dtype(x))) return 0;
    if (!history && !gd_requires_grad(value)) return 0;
    const char *why = gd_requires_grad(x) && !history ? "it is a leaf that wants gradients itself"
                      : gd_is_shared(x)               ? "it is a view, or something else holds it too"
                                                      : NULL;
    if (!why) return 1;
    (void)gd_py_fail(
        GD_GRAPH,
        "x[...] = value: gradients flow through the assignment, but not through x: %s; assign into x.copy(), or under "
        "no_grad()",
        why);
    return -1;
}

static int put_at(array_key *k, PyObject *self, gd_tensor *source)
{
    gd_py_context *c = k->call.context;
    int recorded = is_recorded(k->x, source);
    if (recorded > 0) return put_recorded((gd_py_tensor *)self, c, gd_put(k->x, k->part, k->count, source));
    if (recorded < 0) return 0;
    if (gd_put_into(k->x, k->part, k->count, source) == GD_OK) return 1;
    return gd_py_raise(c) != NULL;
}

/* Numbers, slices and labels: the elements are a view. */
static int assign_to_view(PyObject *self, PyObject *key, gd_tensor *source)
{
    walk w;
    if (!start_walk(&w, self, key)) return 0;
    int fine = gd_assign(w.x, source) == GD_OK;
    gd_release(w.x);
    return fine || gd_py_raise(w.c);
}

int gd_py_assign_subscript(PyObject *self, PyObject *key, PyObject *value)
{
    gd_tensor *x = gd_py_tensor_of(self);
    if (!value) PyErr_SetString(PyExc_TypeError, "elements of a tensor cannot be deleted");
    if (!value || !x) return -1;
    gd_py_call call = {.name = "assign", .context = ((gd_py_tensor *)self)->head.owner};
    gd_tensor *source = gd_py_value_for(&call, value, x);
    int fine = source && gd_py_enter(call.context), recorded = 0;
    if (fine && !has_array(key) && !(recorded = is_recorded(x, source)))
        fine = assign_to_view(self, key, source);
    else if (fine && recorded >= 0) {
        array_key k;
        fine = read_array_key(&k, self, key) && put_at(&k, self, source);
        gd_py_call_clear(&k.call);
    } else
        fine = 0;
    gd_py_call_clear(&call);
    return fine ? 0 : -1;
}
