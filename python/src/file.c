/* Tensors in files and as bytes, and what is made from numbers alone. */
#include "core.h"

#include <string.h>

static PyObject *make_arange(PyObject *module, PyObject *args)
{
    double start, stop, step;
    PyObject *dtype;
    (void)module;
    if (!PyArg_ParseTuple(args, "dddO:arange", &start, &stop, &step, &dtype)) return NULL;
    gd_dtype kind = gd_py_dtype(dtype);
    gd_py_context *c = kind == GD_DTYPE_COUNT ? NULL : gd_py_current();
    return c ? gd_py_new_tensor(c, gd_arange(c->ctx, kind, start, stop, step)) : NULL;
}

static PyObject *make_eye(PyObject *module, PyObject *args)
{
    long long rows, columns;
    PyObject *dtype;
    (void)module;
    if (!PyArg_ParseTuple(args, "LLO:eye", &rows, &columns, &dtype)) return NULL;
    gd_dtype kind = gd_py_dtype(dtype);
    gd_py_context *c = kind == GD_DTYPE_COUNT ? NULL : gd_py_current();
    return c ? gd_py_new_tensor(c, gd_eye(c->ctx, kind, rows, columns)) : NULL;
}

/* ---- bytes, for pickling ---- */

static PyObject *bytes_of(PyObject *module, PyObject *o)
{
    (void)module;
    gd_tensor *t = gd_py_is_tensor(o) ? gd_py_tensor_of(o) : NULL;
    if (!t) return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_TypeError, "a tensor is needed");
    size_t bytes = (size_t)gd_numel(t) * gd_dtype_size(gd_tensor_dtype(t));
    PyObject *result = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)bytes);
    if (result && bytes && gd_read(t, PyBytes_AsString(result), bytes)) {
        Py_DECREF(result);
        return gd_py_raise(((gd_py_tensor *)o)->head.owner);
    }
    return result;
}

static PyObject *from_bytes(PyObject *module, PyObject *args)
{
    const char *data;
    Py_ssize_t size;
    PyObject *dtype, *shape;
    int64_t sizes[GD_MAX_DIMS], count = 1;
    (void)module;
    if (!PyArg_ParseTuple(args, "y#OO!:_from_bytes", &data, &size, &dtype, &PyTuple_Type, &shape))
        return NULL;
    gd_dtype kind = gd_py_dtype(dtype);
    Py_ssize_t n = PyTuple_Size(shape);
    gd_py_context *c = kind == GD_DTYPE_COUNT || n > GD_MAX_DIMS ? NULL : gd_py_current();
    for (Py_ssize_t i = 0; c && i < n; i++) {
        sizes[i] = PyLong_AsLongLong(PyTuple_GetItem(shape, i));
        if (sizes[i] < 0 || __builtin_mul_overflow(count, sizes[i], &count)) count = -1;
    }
    if (c && !PyErr_Occurred() && (count < 0 || (size_t)count != (size_t)size / gd_dtype_size(kind)))
        return PyErr_Format(PyExc_ValueError, "the bytes of a tensor do not fit its shape");
    return c && !PyErr_Occurred() ? gd_py_new_tensor(c, gd_from_data(c->ctx, kind, (int)n, sizes, data))
                                  : NULL;
}

/* ---- files ---- */

static gd_status put_all(gd_archive *archive, PyObject *tensors, PyObject *meta)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    gd_status status = GD_OK;
    while (!status && PyDict_Next(tensors, &at, &name, &value)) {
        const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        PyObject *held = text ? gd_py_as_tensor(value) : NULL;
        gd_tensor *t = held ? gd_py_tensor_of(held) : NULL;
        if (!t && !PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "save: a dict of tensors by name is needed");
        status = t ? gd_archive_put(archive, text, t) : GD_TYPE;
        Py_XDECREF(held);
    }
    at = 0;
    while (!status && PyDict_Next(meta, &at, &name, &value)) {
        const char *key = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        const char *text = key && PyUnicode_Check(value) ? PyUnicode_AsUTF8AndSize(value, NULL) : NULL;
        if (!text && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "save: meta is a dict of texts");
        if (!text) return GD_TYPE;
        status = gd_archive_set_meta(archive, key, text);
    }
    return status;
}

static PyObject *save(PyObject *module, PyObject *args)
{
    PyObject *bytes = NULL, *tensors, *meta;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O!O!:save", PyUnicode_FSConverter, &bytes, &PyDict_Type, &tensors,
                          &PyDict_Type, &meta))
        return NULL;
    gd_py_context *c = gd_py_current();
    int owned = c && gd_py_own(c); /* virtual tensors run Python code */
    gd_archive *archive = owned ? gd_archive_new(c->ctx) : NULL;
    gd_status status = archive ? put_all(archive, tensors, meta) : GD_NOMEM;
    PyThreadState *state = status ? NULL : gd_py_begin(c);
    if (state) {
        status = gd_archive_save(archive, PyBytes_AsString(bytes));
        gd_py_end(c, state);
    }
    gd_archive_free(archive);
    Py_DECREF(bytes);
    if (status && owned && !PyErr_Occurred()) (void)gd_py_raise(c);
    if (owned) gd_py_disown(c);
    if (status) return NULL;
    Py_RETURN_NONE;
}

static PyObject *contents(gd_py_context *c, const gd_archive *archive)
{
    PyObject *tensors = PyDict_New(), *meta = PyDict_New();
    for (int64_t i = 0; tensors && i < gd_archive_count(archive); i++) {
        PyObject *t = gd_py_borrowed_tensor(c, gd_archive_get(archive, i));
        if (!t || PyDict_SetItemString(tensors, gd_archive_name(archive, i), t) < 0) Py_CLEAR(tensors);
        Py_XDECREF(t);
    }
    for (int64_t i = 0; meta && i < gd_archive_meta_count(archive); i++) {
        PyObject *text = PyUnicode_FromString(gd_archive_meta_text(archive, i));
        if (!text || PyDict_SetItemString(meta, gd_archive_meta_key(archive, i), text) < 0) Py_CLEAR(meta);
        Py_XDECREF(text);
    }
    if (tensors && meta) return Py_BuildValue("(NN)", tensors, meta);
    Py_XDECREF(tensors);
    Py_XDECREF(meta);
    return NULL;
}

static int ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), k = strlen(end);
    return n >= k && !strcmp(text + n - k, end);
}

static PyObject *load(PyObject *module, PyObject *path)
{
    PyObject *bytes = NULL, *result = NULL;
    (void)module;
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    gd_py_context *c = gd_py_current();
    const char *name = PyBytes_AsString(bytes);
    if (c && ends_with(name, ".npy")) {
        PyObject *t = gd_py_new_tensor(c, gd_npy_load(c->ctx, name));
        result = t ? Py_BuildValue("({sN}{})", "", t) : NULL;
    } else if (c) {
        gd_archive *archive = gd_archive_load(c->ctx, name);
        result = archive ? contents(c, archive) : gd_py_raise(c);
        gd_archive_free(archive);
    }
    Py_DECREF(bytes);
    return result;
}

PyMethodDef gd_py_file_functions[] = {{"_arange", make_arange, METH_VARARGS, NULL},
                                      {"_eye", make_eye, METH_VARARGS, NULL},
                                      {"_bytes", bytes_of, METH_O, NULL},
                                      {"_from_bytes", from_bytes, METH_VARARGS, NULL},
                                      {"_save", save, METH_VARARGS, NULL},
                                      {"_load", load, METH_O, NULL},
                                      {NULL, NULL, 0, NULL}};
