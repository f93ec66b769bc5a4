/* The type Tensor: a handle on a tensor of the library.  Operators by name are generated (tools/gen/gen_python). */
#include "arrays/operators.h"

#include <stdio.h>
#include <string.h>

/* ---- making and ending handles ---- */

static void end_tensor(void *t) { gd_release(t); }

void gd_py_drop_tensor(gd_py_handle *h)
{
    gd_py_tensor *self = (gd_py_tensor *)h;
    gd_release(self->t);
    self->t = NULL;
}

static PyObject *wrap(gd_py_context *c, gd_tensor *t, int in_scope)
{
    gd_py_tensor *self = PyObject_New(gd_py_tensor, gd_py.tensor_type);
    if (!self) {
        gd_release(t);
        return NULL;
    }
    self->t = t;
    gd_py_join(c, self, gd_py_drop_tensor);
    self->head.in_scope = (int16_t)in_scope;
    return (PyObject *)self;
}

PyObject *gd_py_new_tensor(gd_py_context *c, gd_tensor *t)
{
    if (!t) return gd_py_raise(c);
    PyObject *result = wrap(c, t, c->callbacks > 0);
    if (!c->messages || gd_py_flush(c)) return result;
    Py_XDECREF(result);
    return NULL;
}

PyObject *gd_py_borrowed_tensor(gd_py_context *c, gd_tensor *t) { return wrap(c, gd_retain(t), 0); }

static void tensor_dealloc(PyObject *o)
{
    gd_py_tensor *self = (gd_py_tensor *)o;
    PyTypeObject *type = Py_TYPE(o);
    /* what only the scope of a running function holds goes with that scope: it must not be waited for */
    int leave = self->t && self->head.in_scope && gd_py_is_taken(self->head.owner);
    if (self->t && !leave) gd_py_release(self->head.owner, end_tensor, self->t);
    gd_py_leave(self);
    if (type == gd_py.tensor_type)
        PyObject_Free(o);
    else
        ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

PyObject *gd_py_no_tensor(const char *what, PyObject *given)
{
    PyObject *type = (PyObject *)Py_TYPE(given);
    PyObject *module = PyObject_GetAttrString(type, "__module__"),
             *name = PyObject_GetAttrString(type, "__name__");
    if (module && name)
        PyErr_Format(PyExc_TypeError, "%s: a gradus.Tensor is needed, a %S.%S was given", what, module, name);
    Py_XDECREF(module);
    Py_XDECREF(name);
    return NULL;
}

gd_tensor *gd_py_tensor_of(PyObject *o)
{
    gd_py_tensor *self = (gd_py_tensor *)o;
    if (!self->head.owner || !self->t) {
        (void)gd_py_fail(GD_STATE, "the context of this tensor is closed");
        return NULL;
    }
    return gd_py_enter(self->head.owner) ? self->t : NULL;
}

PyObject *gd_py_as_tensor(PyObject *o)
{
    if (gd_py_is_tensor(o)) return Py_NewRef(o);
    return gd_py_is_virtual(o) ? gd_py_virtual_value(o) : NULL;
}

PyObject *gd_py_tuple_of(gd_py_context *c, gd_tensor *const *t, int count)
{
    PyObject *tuple = PyTuple_New(count);
    for (int i = 0; i < count; i++) {
        PyObject *item = tuple ? gd_py_new_tensor(c, t[i]) : NULL;
        if (!item || PyTuple_SetItem(tuple, i, item) < 0) Py_CLEAR(tuple);
    }
    return tuple;
}

/* ---- numbers beside tensors ---- */

/* Numbers are weak: of the dtype of `like`, but f64 for one with a point beside whole numbers, and i64 for a whole one beside bool. */
gd_tensor *gd_py_number(gd_ctx *ctx, PyObject *o, const gd_tensor *like)
{
    double value = PyFloat_AsDouble(o);
    if (value == -1.0 && PyErr_Occurred()) return NULL;
    gd_dtype dtype = like               ? gd_tensor_dtype(like)
                     : PyFloat_Check(o) ? GD_F64
                     : PyBool_Check(o)  ? GD_BOOL
                                        : GD_I64;
    if (dtype == GD_BOOL && !PyBool_Check(o)) dtype = GD_I64;
    if (!gd_dtype_is_float(dtype) && !PyLong_Check(o)) dtype = GD_F64;
    int64_t low, high, whole;
    if (gd_py_range(dtype, &low, &high) && PyLong_Check(o)) {
        int overflow;
        whole = PyLong_AsLongLongAndOverflow(o, &overflow);
        if (overflow || whole < low || whole > high) {
            (void)gd_py_fail(GD_OVERFLOW, "%R does not fit into %s, which holds %lld to %lld", o,
                             gd_dtype_name(dtype), (long long)low, (long long)high);
            return NULL;
        }
        if (dtype == GD_I64) return gd_from_data(ctx, GD_I64, 0, NULL, &whole);
    }
    return gd_scalar(ctx, dtype, value);
}

/* The type of NumPy's scalars, borrowed; NULL until NumPy is imported. */
static PyObject *numpy_scalar(void)
{
    if (gd_py.numpy_scalar) return gd_py.numpy_scalar;
    PyObject *modules = PySys_GetObject("modules");
    PyObject *numpy = modules ? PyDict_GetItemString(modules, "numpy") : NULL;
    if (numpy) gd_py.numpy_scalar = PyObject_GetAttrString(numpy, "generic");
    PyErr_Clear(); /* NumPy is half imported: its scalars are asked for again later */
    return gd_py.numpy_scalar;
}

PyObject *gd_py_plain_number(PyObject *o)
{
    PyObject *scalar = numpy_scalar();
    if (!scalar || PyObject_IsInstance(o, scalar) <= 0) return NULL;
    PyObject *number = PyObject_CallMethod(o, "item", NULL);
    if (!number || gd_py_is_number(number)) return number;
    Py_DECREF(number); /* a date, a text */
    return NULL;
}

/* ---- operators on one ---- */

PyObject *gd_py_unary(gd_tensor *(*fn)(gd_tensor *), PyObject *o)
{
    gd_tensor *t = gd_py_tensor_of(o);
    gd_py_context *c = ((gd_py_tensor *)o)->head.owner;
    if (!t) return NULL;
    if (gd_numel(t) < GD_PY_LARGE) return gd_py_new_tensor(c, fn(t));
    PyThreadState *state = gd_py_begin(c);
    gd_tensor *result = fn(t);
    gd_py_end(c, state);
    return gd_py_new_tensor(c, result);
}
static PyObject *tensor_neg(PyObject *o) { return gd_py_unary(gd_neg, o); }
static PyObject *tensor_abs(PyObject *o) { return gd_py_unary(gd_abs, o); }
static PyObject *tensor_invert(PyObject *o) { return gd_py_unary(gd_bit_not, o); }
static PyObject *tensor_pos(PyObject *o)
{
    Py_INCREF(o);
    return o;
}

static int one_number(PyObject *o, double *value)
{
    gd_tensor *t = gd_py_tensor_of(o);
    if (!t || !gd_py_note_read(o)) return 0;
    *value = gd_item(t);
    if (!gd_error(((gd_py_tensor *)o)->head.owner->ctx)) return 1;
    (void)gd_py_raise(((gd_py_tensor *)o)->head.owner);
    return 0;
}
static int tensor_bool(PyObject *o)
{
    double value;
    return one_number(o, &value) ? value != 0 : -1;
}
static PyObject *tensor_float(PyObject *o)
{
    double value;
    return one_number(o, &value) ? PyFloat_FromDouble(value) : NULL;
}
static PyObject *tensor_int(PyObject *o)
{
    PyObject *item = gd_py_item((gd_py_tensor *)o), *whole = item ? PyNumber_Long(item) : NULL;
    Py_XDECREF(item);
    return whole;
}
static PyObject *tensor_as_index(PyObject *o)
{
    gd_tensor *t = gd_py_tensor_of(o);
    if (!t) return NULL;
    if (gd_dtype_is_float(gd_tensor_dtype(t)) || gd_numel(t) != 1)
        return gd_py_fail(GD_TYPE, "only a tensor with one whole number can be an index");
    return tensor_int(o);
}

static Py_ssize_t tensor_length(PyObject *o)
{
    gd_tensor *t = gd_py_tensor_of(o);
    if (!t) return -1;
    if (gd_ndim(t)) return (Py_ssize_t)gd_size(t, 0);
    (void)gd_py_fail(GD_TYPE, "a tensor without axes has no length");
    return -1;
}

static Py_hash_t tensor_hash(PyObject *o)
{
    uintptr_t bits = (uintptr_t)((gd_py_tensor *)o)->t;
    Py_hash_t hash = (Py_hash_t)(bits >> 4 | bits << (8 * sizeof bits - 4));
    return hash == -1 ? -2 : hash;
}

/* ---- what a tensor is ---- */

#define TENSOR_OR_RETURN(o)                             \
    gd_tensor *t = gd_py_tensor_of(o);                  \
    if (!t) return NULL;                                \
    gd_py_context *c = ((gd_py_tensor *)o)->head.owner; \
    (void)c

static PyObject *get_shape(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    int n = gd_ndim(t);
    PyObject *shape = PyTuple_New(n);
    for (int i = 0; i < n && shape; i++) {
        PyObject *size = PyLong_FromLongLong(gd_shape(t)[i]);
        if (!size || PyTuple_SetItem(shape, i, size) < 0) Py_CLEAR(shape);
    }
    return shape;
}
static PyObject *get_strides(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    int n = gd_ndim(t);
    PyObject *strides = PyTuple_New(n);
    for (int i = 0; i < n && strides; i++) {
        PyObject *stride = PyLong_FromLongLong(gd_strides(t)[i]);
        if (!stride || PyTuple_SetItem(strides, i, stride) < 0) Py_CLEAR(strides);
    }
    return strides;
}
static PyObject *get_ndim(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyLong_FromLong(gd_ndim(t));
}
static PyObject *get_size(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyLong_FromLongLong(gd_numel(t));
}
static PyObject *get_dtype(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return gd_py_dtype_object(gd_tensor_dtype(t));
}
static PyObject *get_device(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyUnicode_FromString(gd_device_name(gd_tensor_device(t)));
}
static PyObject *get_axes(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    int n = gd_ndim(t);
    PyObject *names = PyTuple_New(n);
    for (int i = 0; i < n && names; i++) {
        const char *name = gd_axis_name(t, i);
        PyObject *item = name ? PyUnicode_FromString(name) : Py_NewRef(Py_None);
        if (!item || PyTuple_SetItem(names, i, item) < 0) Py_CLEAR(names);
    }
    return names;
}

static PyObject *labels_of(const gd_tensor *t, int axis)
{
    if (gd_size(t, axis) && !gd_axis_label(t, axis, 0)) return Py_NewRef(Py_None);
    PyObject *labels = PyTuple_New((Py_ssize_t)gd_size(t, axis));
    for (int64_t k = 0; k < gd_size(t, axis) && labels; k++) {
        const char *text = gd_axis_label(t, axis, k);
        PyObject *item = PyUnicode_FromString(text ? text : "");
        if (!item || PyTuple_SetItem(labels, (Py_ssize_t)k, item) < 0) Py_CLEAR(labels);
    }
    return labels;
}
static PyObject *get_labels(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    int n = gd_ndim(t);
    PyObject *all = PyTuple_New(n);
    for (int i = 0; i < n && all; i++) {
        PyObject *labels = labels_of(t, i);
        if (!labels || PyTuple_SetItem(all, i, labels) < 0) Py_CLEAR(all);
    }
    return all;
}

static PyObject *get_grad(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    gd_tensor *grad = gd_grad_of(t);
    if (!grad) Py_RETURN_NONE;
    return gd_py_borrowed_tensor(c, grad);
}
static int set_grad(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    gd_tensor *t = gd_py_tensor_of(o), *grad = NULL;
    if (!t) return -1;
    if (!value || value == Py_None) {
        gd_zero_grad(t);
        return 0;
    }
    PyObject *given = gd_py_as_tensor(value);
    if (!given) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_TypeError, "grad: a Tensor or None is needed, not %R",
                         (PyObject *)Py_TYPE(value));
        return -1;
    }
    int fine = (grad = gd_py_tensor_of(given)) != NULL;
    if (fine && gd_set_grad(t, grad) != GD_OK) fine = gd_py_raise(((gd_py_tensor *)o)->head.owner) != NULL;
    Py_DECREF(given);
    return fine ? 0 : -1;
}
static PyObject *get_requires_grad(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyBool_FromLong(gd_requires_grad(t));
}
static int set_requires_grad(PyObject *o, PyObject *value, void *unused)
{
    (void)unused;
    gd_tensor *t = gd_py_tensor_of(o);
    int on = value ? PyObject_IsTrue(value) : 0;
    if (!t || on < 0) return -1;
    if (gd_set_requires_grad(t, on) == GD_OK) return 0;
    (void)gd_py_raise(((gd_py_tensor *)o)->head.owner);
    return -1;
}
static PyObject *get_is_leaf(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyBool_FromLong(gd_is_leaf(t));
}
static PyObject *get_is_read_only(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyBool_FromLong(gd_is_read_only(t));
}
static PyObject *get_is_contiguous(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyBool_FromLong(gd_is_contiguous(t));
}
static PyObject *get_context(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return Py_NewRef((PyObject *)c);
}
static PyObject *get_pointer(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    return PyLong_FromVoidPtr(t);
}
static PyObject *get_transposed(PyObject *o, void *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    int n = gd_ndim(t), order[GD_MAX_DIMS];
    for (int i = 0; i < n; i++) order[i] = n - 1 - i;
    return gd_py_new_tensor(c, gd_permute(t, order));
}

static PyGetSetDef tensor_values[] = {
    {"shape", get_shape, NULL, "The sizes of the axes.", NULL},
    {"strides", get_strides, NULL, "Elements from one index to the next, an axis each.", NULL},
    {"ndim", get_ndim, NULL, "How many axes it has.", NULL},
    {"size", get_size, NULL, "How many elements it has.", NULL},
    {"dtype", get_dtype, NULL, "'f32', 'f64', 'f16', 'bf16', 'i32', 'i64', 'u8' or 'bool'.", NULL},
    {"device", get_device, NULL, "'cpu' or 'gpu:0'.", NULL},
    {"axes", get_axes, NULL, "The names of the axes; None for one without.", NULL},
    {"labels", get_labels, NULL, "For each axis the labels of its elements, or None.", NULL},
    {"grad", get_grad, set_grad, "The gradient that backward() left, or None.", NULL},
    {"requires_grad", get_requires_grad, set_requires_grad, "Does it want gradients, or depend on what does?",
     NULL},
    {"is_leaf", get_is_leaf, NULL, "Has it no history?", NULL},
    {"is_read_only", get_is_read_only, NULL, "May nothing change its elements?", NULL},
    {"is_contiguous", get_is_contiguous, NULL, "Do its elements lie row by row without gaps?", NULL},
    {"context", get_context, NULL, "The context it belongs to.", NULL},
    {"T", get_transposed, NULL, "The axes in the opposite order.", NULL},
    {"_handle", get_pointer, NULL, "Address of the gd_tensor, for extensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};

/* ---- methods that no operator is ---- */

static PyObject *tensor_item(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    if (!n) return gd_py_item((gd_py_tensor *)o);
    /* a place in the vector of all elements, or a number for each axis */
    PyObject *from = n == 1 && !PyTuple_Check(args[0]) ? PyObject_CallMethod(o, "reshape", "(i)", -1)
                                                       : Py_NewRef(o);
    PyObject *at = n == 1 ? Py_NewRef(args[0]) : PyTuple_New(n);
    for (Py_ssize_t i = 0; n > 1 && at && i < n; i++)
        if (PyTuple_SetItem(at, i, Py_NewRef(args[i])) < 0) Py_CLEAR(at);
    PyObject *one = from && at ? PyObject_GetItem(from, at) : NULL;
    PyObject *number = one ? PyObject_CallMethod(one, "item", NULL) : NULL;
    Py_XDECREF(from);
    Py_XDECREF(at);
    Py_XDECREF(one);
    return number;
}
/* For __array__, which looks at what is detached. */
static PyObject *tensor_note_read(PyObject *o, PyObject *unused)
{
    (void)unused;
    if (!gd_py_tensor_of(o) || !gd_py_note_read(o)) return NULL;
    Py_RETURN_NONE;
}
static PyObject *tensor_tolist(PyObject *o, PyObject *unused)
{
    (void)unused;
    return gd_py_tolist((gd_py_tensor *)o);
}

static PyObject *tensor_backward(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const gd_py_parameter parameter[] = {{"self", GD_PY_TENSOR, 1, 0, NULL},
                                                {"seed", GD_PY_TENSOR_OR_NONE, 0, 0, NULL},
                                                {"retain_graph", GD_PY_BOOL, 0, 0, NULL},
                                                {"create_graph", GD_PY_BOOL, 0, 0, NULL}};
    gd_py_call call = {.name = "backward", .parameter = parameter, .count = 4};
    if (!gd_py_read(&call, o, args, n, names)) return NULL;
    int flags = (call.value[2].integer ? GD_RETAIN_GRAPH : 0) | (call.value[3].integer ? GD_CREATE_GRAPH : 0);
    gd_py_context *c = call.context;
    gd_status status = gd_backward(call.value[0].t, call.value[1].t, flags);
    gd_py_call_clear(&call);
    if (status) return gd_py_raise(c);
    if (!gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

static PyObject *tensor_zero_grad(PyObject *o, PyObject *unused)
{
    (void)unused;
    TENSOR_OR_RETURN(o);
    gd_zero_grad(t);
    Py_RETURN_NONE;
}

static PyObject *tensor_assign(PyObject *o, PyObject *value)
{
    TENSOR_OR_RETURN(o);
    gd_py_call call = {.name = "assign", .context = c};
    gd_tensor *source = gd_py_value_for(&call, value, t);
    gd_status status = source ? gd_assign(t, source) : GD_OK;
    gd_py_call_clear(&call);
    if (!source) return NULL;
    if (status) return gd_py_raise(c);
    return Py_NewRef(o);
}

static PyObject *tensor_require_grad(PyObject *o, PyObject *const *args, Py_ssize_t n)
{
    int on = n ? PyObject_IsTrue(args[0]) : 1;
    TENSOR_OR_RETURN(o);
    if (on < 0) return NULL;
    if (gd_set_requires_grad(t, on)) return gd_py_raise(c);
    return Py_NewRef(o);
}

static PyObject *tensor_split(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    static const gd_py_parameter parameter[] = {{"self", GD_PY_TENSOR, 1, 0, NULL},
                                                {"size", GD_PY_INT, 1, 0, NULL},
                                                {"axis", GD_PY_AXES, 1, 0, NULL}};
    gd_py_call call = {.name = "split", .parameter = parameter, .count = 3};
    if (!gd_py_read(&call, o, args, n, names)) return NULL;
    gd_tensor *t = call.value[0].t, **piece = NULL;
    const char *text = call.value[2].text;
    int64_t size = call.value[1].integer;
    int axis = text ? gd_axis_find(t, text) : -1;
    if (axis < 0 && text) axis = (int)strtol(text, NULL, 10);
    int64_t length = gd_size(t, axis), pieces = size > 0 && length > 0 ? (length + size - 1) / size : 1;
    gd_py_context *c = call.context;
    PyObject *result = NULL;
    if (!(piece = PyMem_Calloc((size_t)pieces, sizeof *piece)))
        (void)PyErr_NoMemory();
    else if (gd_split(t, text, size, piece, (int)pieces))
        (void)gd_py_raise(c);
    else
        result = gd_py_tuple_of(c, piece, (int)pieces);
    PyMem_Free(piece);
    gd_py_call_clear(&call);
    return result;
}

/* to("gpu"), to("f32"), to(device="cpu", dtype="f64"): a new tensor, or a view of this one if nothing changes. */
static PyObject *tensor_to(PyObject *o, PyObject *const *args, Py_ssize_t n, PyObject *names)
{
    TENSOR_OR_RETURN(o);
    Py_ssize_t named = names ? PyTuple_Size(names) : 0;
    gd_tensor *result = gd_retain(t);
    for (Py_ssize_t i = 0; i < n + named && result; i++) {
        const char *key = i < n ? NULL : PyUnicode_AsUTF8AndSize(PyTuple_GetItem(names, i - n), NULL);
        const char *text = PyUnicode_Check(args[i]) ? PyUnicode_AsUTF8AndSize(args[i], NULL) : NULL;
        if ((i >= n && !key) || (PyUnicode_Check(args[i]) && !text)) { /* a text that is no UTF-8 */
            gd_release(result);
            return NULL;
        }
        int is_device = key ? !strcmp(key, "device")
                            : text && (!strncmp(text, "cpu", 3) || !strncmp(text, "gpu", 3));
        gd_tensor *next = NULL;
        if (args[i] == Py_None) continue;
        if (key && !is_device && strcmp(key, "dtype")) {
            gd_release(result);
            return PyErr_Format(PyExc_TypeError, "to() has no argument '%s', only device and dtype", key);
        }
        if (is_device) {
            gd_device *device = text ? gd_py_device(c, text) : NULL;
            if (text)
                next = gd_to_device(result, device);
            else
                PyErr_Format(PyExc_TypeError, "to: a device is a text such as 'gpu:0', not %R", args[i]);
        } else {
            gd_dtype dtype = gd_py_dtype(args[i]);
            if (dtype != GD_DTYPE_COUNT) next = gd_cast(result, dtype);
        }
        gd_release(result);
        result = next;
        if (!result && PyErr_Occurred()) return NULL;
    }
    if (result == t) { /* nothing to do: a handle of its own */
        gd_release(result);
        return gd_py_borrowed_tensor(c, t);
    }
    return gd_py_new_tensor(c, result);
}

static PyMethodDef tensor_methods[] = {
    {"item", (PyCFunction)(void (*)(void))tensor_item, METH_FASTCALL,
     "item($self, *place)\n--\n\nIts one element as a Python number, or that at a place."},
    {"_note_read", tensor_note_read, METH_NOARGS, NULL},
    {"tolist", tensor_tolist, METH_NOARGS,
     "tolist($self)\n--\n\nAll elements in lists, one a level an axis."},
    {"backward", (PyCFunction)(void (*)(void))tensor_backward, METH_FASTCALL | METH_KEYWORDS,
     "backward($self, seed=None, retain_graph=False, create_graph=False)\n--\n\n"
     "Adds the gradient of this tensor to .grad of every leaf that it depends on.  Without a seed it must have one element."},
    {"zero_grad", tensor_zero_grad, METH_NOARGS, "zero_grad($self)\n--\n\nForgets the gradient."},
    {"assign", tensor_assign, METH_O,
     "assign($self, value, /)\n--\n\nSets the elements in place: value is broadcast and cast; axes meet by place, with names that are equal or absent.  Returns the tensor."},
    {"require_grad", (PyCFunction)(void (*)(void))tensor_require_grad, METH_FASTCALL,
     "require_grad($self, on=True, /)\n--\n\nMarks a leaf as wanting gradients, in place.  Returns the tensor."},
    {"split", (PyCFunction)(void (*)(void))tensor_split, METH_FASTCALL | METH_KEYWORDS,
     "split($self, size, axis)\n--\n\nPieces of that size along an axis, the last maybe shorter; views."},
    {"to", (PyCFunction)(void (*)(void))tensor_to, METH_FASTCALL | METH_KEYWORDS,
     "to($self, *device_or_dtype, device=None, dtype=None)\n--\n\nThe tensor on a different device or with a different dtype."},
    {"__dlpack__", (PyCFunction)(void (*)(void))gd_py_dlpack, METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA capsule over the same memory."},
    {"__dlpack_device__", gd_py_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n--\n\nKind and number of its device."},
    {NULL, NULL, 0, NULL}};

/* Tensor(data, dtype=None): as gradus.tensor, and what subclasses are made by. */
static PyObject *tensor_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    static char *names[] = {"data", "dtype", NULL};
    PyObject *data, *dtype = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "O|O:Tensor", names, &data, &dtype)) return NULL;
    gd_dtype kind = dtype == Py_None ? GD_DTYPE_COUNT : gd_py_dtype(dtype);
    if (kind == GD_DTYPE_COUNT && dtype != Py_None) return NULL;
    gd_py_context *c = gd_py_current();
    PyObject *made = c ? gd_py_make(c, data, kind, 0) : NULL;
    if (!made || type == gd_py.tensor_type) return made;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    gd_py_tensor *self = (gd_py_tensor *)alloc(type, 0);
    if (self) {
        self->t = gd_retain(((gd_py_tensor *)made)->t);
        gd_py_join(c, self, gd_py_drop_tensor);
    }
    Py_DECREF(made);
    return (PyObject *)self;
}

static PyType_Slot tensor_slots[] = {
    {Py_tp_doc, "Tensor(data, dtype=None)\n--\n\nA tensor with named and labelled axes, and its gradient."},
    {Py_tp_new, tensor_new},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_hash, tensor_hash},
    {Py_tp_getset, tensor_values},
    {Py_tp_methods, NULL}, /* set by gd_py_add_tensor: ours and the generated ones */
    {Py_nb_negative, tensor_neg},
    {Py_nb_positive, tensor_pos},
    {Py_nb_absolute, tensor_abs},
    {Py_nb_invert, tensor_invert},
    {Py_nb_bool, tensor_bool},
    {Py_nb_float, tensor_float},
    {Py_nb_int, tensor_int},
    {Py_nb_index, tensor_as_index},
    {Py_mp_length, tensor_length},
    {Py_mp_subscript, gd_py_subscript},
    {Py_mp_ass_subscript, gd_py_assign_subscript},
    {0, NULL}};

static size_t methods_in(const PyMethodDef *methods)
{
    size_t n = 0;
    while (methods[n].ml_name) n++;
    return n;
}

/* The slots of this file and those of arithmetic.c, in one list for the type. */
static PyTypeObject *tensor_type(PyObject *module)
{
    enum { OWN = sizeof tensor_slots / sizeof *tensor_slots };
    PyType_Slot all[OWN + GD_PY_ARITHMETIC_SLOTS];
    memcpy(all, gd_py_arithmetic_slots, sizeof gd_py_arithmetic_slots);
    memcpy(all + GD_PY_ARITHMETIC_SLOTS, tensor_slots, sizeof tensor_slots);
    PyType_Spec spec = {"gradus.Tensor", sizeof(gd_py_tensor), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
                        all};
    return gd_py_add_type(module, &spec, NULL);
}

int gd_py_add_tensor(PyObject *module)
{
    size_t own = methods_in(tensor_methods), made = methods_in(gd_py_operator_methods);
    PyMethodDef *all = PyMem_Calloc(own + made + 1, sizeof *all); /* lives as long as the type */
    if (!all) return PyErr_NoMemory() != NULL;
    memcpy(all, gd_py_operator_methods, made * sizeof *all);
    memcpy(all + made, tensor_methods, own * sizeof *all);
    for (PyType_Slot *slot = tensor_slots; slot->slot; slot++)
        if (slot->slot == Py_tp_methods) slot->pfunc = all;
    return (gd_py.tensor_type = tensor_type(module)) != NULL;
}
