/* The layers of gradus.nn: modules that the library's makers make (gradus/layers.h).  The table is made from that header by
 * tools/gen/gen_layers. */
#include "core.h"

#include <limits.h>
#include <string.h>

typedef enum gd_py_layer_kind {
    GD_PY_LAYER_INT,
    GD_PY_LAYER_BOOL,
    GD_PY_LAYER_REAL,
    GD_PY_LAYER_TEXT,
    GD_PY_LAYER_DTYPE,
    GD_PY_LAYER_SIZES
} gd_py_layer_kind;

typedef struct gd_py_layer_parameter {
    const char *name;
    gd_py_layer_kind kind;
    int needed;
} gd_py_layer_parameter;

typedef struct gd_py_layer_value {
    int64_t integer; /* of SIZES: how many */
    double real;
    const char *text;
    int64_t *sizes;
} gd_py_layer_value;

typedef struct gd_py_layer_class {
    const char *name, *comment;
    const gd_py_layer_parameter *parameters;
    int count;
    void (*fallback)(gd_py_layer_value *values); /* sets the defaults of options; NULL: there are none */
    gd_module *(*make)(gd_ctx *ctx, const gd_py_layer_value *values);
} gd_py_layer_class;

#include "layers_table.h"

#define LAYERS        (sizeof layer_classes / sizeof *layer_classes)
#define MOST_SETTINGS 16

/* ---- the table ---- */

static PyObject *shown(gd_py_layer_kind kind, const gd_py_layer_value *v)
{
    switch (kind) {
    case GD_PY_LAYER_BOOL: return PyBool_FromLong(v->integer != 0);
    case GD_PY_LAYER_REAL: return PyFloat_FromDouble(v->real);
    case GD_PY_LAYER_TEXT: return v->text ? PyUnicode_FromString(v->text) : Py_NewRef(Py_None);
    case GD_PY_LAYER_DTYPE: return PyUnicode_FromString(gd_dtype_name((gd_dtype)v->integer));
    case GD_PY_LAYER_INT:
    case GD_PY_LAYER_SIZES: break;
    }
    return PyLong_FromLongLong(v->integer);
}

/* [(name, comment, ((parameter, needed, default), ...)), ...] */
static PyObject *layer_table(PyObject *module, PyObject *unused)
{
    (void)module, (void)unused;
    PyObject *all = PyList_New(0);
    for (size_t k = 0; k < LAYERS && all; k++) {
        const gd_py_layer_class *c = &layer_classes[k];
        gd_py_layer_value v[MOST_SETTINGS] = {0};
        if (c->fallback) c->fallback(v);
        PyObject *rows = PyTuple_New(c->count);
        for (int i = 0; i < c->count && rows; i++) {
            const gd_py_layer_parameter *p = &c->parameters[i];
            PyObject *row = Py_BuildValue("(sNN)", p->name, PyBool_FromLong(p->needed),
                                          p->needed ? Py_NewRef(Py_None) : shown(p->kind, &v[i]));
            if (!row || PyTuple_SetItem(rows, i, row) < 0) Py_CLEAR(rows);
        }
        PyObject *entry = rows ? Py_BuildValue("(ssN)", c->name, c->comment, rows) : NULL;
        if (!entry || PyList_Append(all, entry) < 0) Py_CLEAR(all);
        Py_XDECREF(entry);
    }
    return all;
}

/* ---- making one ---- */

static int read_sizes(PyObject *o, gd_py_layer_value *v)
{
    Py_ssize_t count = PySequence_Check(o) && !PyUnicode_Check(o) ? PySequence_Size(o) : -1;
    if (count < 0 || count > INT_MAX)
        return PyErr_Format(PyExc_TypeError, "sizes are a list of whole numbers, not %R", o) != NULL;
    if (!(v->sizes = PyMem_Calloc((size_t)count + 1, sizeof *v->sizes))) return PyErr_NoMemory() != NULL;
    v->integer = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(o, i);
        v->sizes[i] = item ? PyLong_AsLongLong(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred()) return 0;
    }
    return 1;
}

static int read_value(const gd_py_layer_class *c, int i, PyObject *o, gd_py_layer_value *v)
{
    const gd_py_layer_parameter *p = &c->parameters[i];
    switch (p->kind) {
    case GD_PY_LAYER_INT:
        v->integer = PyLong_AsLongLong(o);
        if (!PyErr_Occurred() && !p->needed && (v->integer > INT_MAX || v->integer < INT_MIN))
            return PyErr_Format(PyExc_OverflowError, "%s: '%s' is out of range", c->name, p->name) != NULL;
        break;
    case GD_PY_LAYER_BOOL: v->integer = PyObject_IsTrue(o); break;
    case GD_PY_LAYER_REAL: v->real = PyFloat_AsDouble(o); break;
    case GD_PY_LAYER_TEXT: v->text = gd_py_text(o); break;
    case GD_PY_LAYER_DTYPE: v->integer = (int64_t)gd_py_dtype(o); break;
    case GD_PY_LAYER_SIZES: return read_sizes(o, v);
    }
    return !PyErr_Occurred();
}

/* _layer(module, name, values): the module becomes such a layer; None means a default. */
static PyObject *layer(PyObject *module, PyObject *args)
{
    PyObject *o, *values;
    const char *name;
    const gd_py_layer_class *c = NULL;
    gd_py_layer_value v[MOST_SETTINGS] = {0};
    (void)module;
    if (!PyArg_ParseTuple(args, "O!sO!:_layer", gd_py.module_type, &o, &name, &PyTuple_Type, &values))
        return NULL;
    for (size_t k = 0; k < LAYERS; k++)
        if (!strcmp(layer_classes[k].name, name)) c = &layer_classes[k];
    if (!c || PyTuple_Size(values) != c->count)
        return PyErr_Format(PyExc_TypeError, "there is no layer '%s' with %zd settings", name,
                            PyTuple_Size(values));
    if (c->fallback) c->fallback(v);
    int fine = 1;
    for (int i = 0; i < c->count && fine; i++) {
        PyObject *value = PyTuple_GetItem(values, i);
        if (value != Py_None)
            fine = read_value(c, i, value, &v[i]);
        else if (c->parameters[i].needed)
            fine = PyErr_Format(PyExc_TypeError, "%s: '%s' is needed", name, c->parameters[i].name) != NULL;
    }
    fine = fine && gd_py_module_become(o, c->make, v);
    for (int i = 0; i < c->count; i++) PyMem_Free(v[i].sizes);
    if (!fine) return NULL;
    Py_RETURN_NONE;
}

/* ---- calling one ---- */

static int read_keyword(PyObject *name, PyObject *value, gd_argument *out)
{
    const char *text = gd_py_text(name);
    if (!text) return 0;
    if (PyFloat_Check(value))
        *out = gd_real_argument(text, PyFloat_AsDouble(value));
    else if (gd_py_is_tensor(value)) {
        gd_tensor *t = gd_py_tensor_of(value);
        if (!t) return 0;
        *out = gd_tensor_argument(text, t);
    } else if (PyUnicode_Check(value)) {
        const char *given = gd_py_text(value);
        if (!given) return 0;
        *out = gd_string_argument(text, given);
    } else
        *out = gd_int_argument(text, PyLong_AsLongLong(value));
    return !PyErr_Occurred();
}

/* _layer_call(module, x, keywords): what the layer makes of a tensor */
static PyObject *layer_call(PyObject *module, PyObject *args)
{
    PyObject *o, *x, *keywords, *name, *value, *result = NULL;
    gd_argument given[MOST_SETTINGS];
    int count = 0;
    Py_ssize_t at = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!:_layer_call", gd_py.module_type, &o, gd_py.tensor_type, &x,
                          &PyDict_Type, &keywords))
        return NULL;
    gd_module *m = gd_py_module_of(o);
    gd_tensor *t = m ? gd_py_tensor_of(x) : NULL;
    if (!t) return NULL;
    gd_py_context *c = ((gd_py_tensor *)x)->head.owner;
    while (PyDict_Next(keywords, &at, &name, &value)) {
        if (count == MOST_SETTINGS) return PyErr_Format(PyExc_TypeError, "too many keywords");
        if (!read_keyword(name, value, &given[count++])) return NULL;
    }
    gd_kwargs kwargs = {count, given};
    if (gd_py_own(c)) {
        result = gd_py_new_tensor(c, gd_module_call_with(m, t, &kwargs));
        gd_py_disown(c);
    }
    return result;
}

/* _convolve(x, weight, bias or None, (stride, stride, dilation, dilation, padding above, below, left, right, groups)) */
static PyObject *convolve(PyObject *module, PyObject *args)
{
    PyObject *given[3], *result = NULL;
    gd_conv_options o;
    gd_tensor *t[3] = {NULL};
    int fine = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O(iiiiiiiii):_convolve", gd_py.tensor_type, &given[0], gd_py.tensor_type,
                          &given[1], &given[2], &o.stride[0], &o.stride[1], &o.dilation[0], &o.dilation[1],
                          &o.padding[0], &o.padding[1], &o.padding[2], &o.padding[3], &o.groups))
        return NULL;
    for (int i = 0; i < 3 && fine; i++)
        if (given[i] != Py_None)
            fine = gd_py_is_tensor(given[i]) ? (t[i] = gd_py_tensor_of(given[i])) != NULL
                                             : gd_py_no_tensor("conv2d", given[i]) != NULL;
    gd_py_context *c = ((gd_py_tensor *)given[0])->head.owner;
    if (fine && gd_py_own(c)) {
        result = gd_py_new_tensor(c, gd_conv2d_with(t[0], t[1], t[2], &o));
        gd_py_disown(c);
    }
    return result;
}

PyMethodDef gd_py_layer_functions[] = {{"_convolve", convolve, METH_VARARGS, NULL},
                                       {"_layer_table", layer_table, METH_NOARGS, NULL},
                                       {"_layer", layer, METH_VARARGS, NULL},
                                       {"_layer_call", layer_call, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
