/* Tables of Python as gd_table: what gradus._tables.read gives. */
#include "core.h"

#include <string.h>

const char **gd_py_texts(PyObject *list, Py_ssize_t count)
{
    const char **words = PyMem_Calloc((size_t)count + 1, sizeof *words);
    if (!words) return (const char **)PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        if (item == Py_None || (words[i] = gd_py_text(item))) continue;
        PyMem_Free(words);
        return NULL;
    }
    return words;
}

/* One column, (name, kind, values): numbers, dates, days (dates without times) and times of day are a Tensor, words a list.  False with an exception, or with an
 * error recorded. */
static int add_column(gd_table *table, PyObject *column)
{
    const char *name, *kind;
    PyObject *values;
    if (!PyArg_ParseTuple(column, "ssO:column", &name, &kind, &values)) return 0;
    if (!strcmp(kind, "words")) {
        Py_ssize_t count = PyList_Size(values);
        const char **words = count < 0 ? NULL : gd_py_texts(values, count);
        gd_status status = words ? gd_table_add_words(table, name, words, count) : GD_TYPE;
        PyMem_Free(words);
        return !status;
    }
    gd_tensor *t = gd_py_is_tensor(values) ? gd_py_tensor_of(values) : NULL;
    if (!t) return PyErr_Occurred() ? 0 : gd_py_no_tensor("a column", values) != NULL;
    if (!strcmp(kind, "numbers")) return !gd_table_add(table, name, t);
    return !gd_table_add_dates(table, name, t, *kind == 'd', strcmp(kind, "days") != 0);
}

static gd_table *of_columns(gd_py_context *c, PyObject *list)
{
    Py_ssize_t count = PyList_Size(list);
    gd_table *table = count < 0 ? NULL : gd_table_new(c->ctx, "the table");
    for (Py_ssize_t i = 0; i < count && table; i++) {
        if (add_column(table, PyList_GetItem(list, i))) continue;
        gd_table_free(table);
        table = NULL;
    }
    return table;
}

/* A capsule of the Arrow PyCapsule interface, and the names of the columns wanted, or None. */
static gd_table *of_stream(gd_py_context *c, PyObject *capsule, PyObject *wanted)
{
    struct ArrowArrayStream *stream = PyCapsule_GetPointer(capsule, "arrow_array_stream");
    Py_ssize_t count = wanted == Py_None ? 0 : PyList_Size(wanted);
    const char **names = !stream || count < 0 || wanted == Py_None ? NULL : gd_py_texts(wanted, count);
    gd_table *table = NULL;
    if (stream && (names || wanted == Py_None) && gd_py_own(c)) { /* the stream may run code of Python */
        table = gd_table_from_arrow(c->ctx, stream, names, (int)count);
        gd_py_disown(c);
    }
    PyMem_Free(names);
    return table;
}

gd_table *gd_py_table(gd_py_context *c, PyObject *source, gd_table_options *options)
{
    gd_table *table = NULL;
    if (PyList_Check(source)) {
        table = of_columns(c, source);
    } else if (PyTuple_Check(source) && PyTuple_Size(source) == 2) {
        table = of_stream(c, PyTuple_GetItem(source, 0), PyTuple_GetItem(source, 1));
    } else if (PyTuple_Check(source) && PyTuple_Size(source) == 1) {
        PyObject *bytes = NULL;
        if (!PyUnicode_FSConverter(PyTuple_GetItem(source, 0), &bytes)) return NULL;
        table = gd_table_load(c->ctx, PyBytes_AsString(bytes), options);
        Py_DECREF(bytes);
    } else {
        PyErr_SetString(PyExc_TypeError, "a table is what gradus._tables.read gives");
    }
    return table || PyErr_Occurred() ? table : (gd_table *)gd_py_raise(c);
}

/* _columns(table, names): {name: Tensor of f64}. */
static PyObject *columns(PyObject *module, PyObject *args)
{
    PyObject *source, *names, *out = NULL;
    (void)module;
    if (!PyArg_ParseTuple(args, "OO!:_columns", &source, &PyTuple_Type, &names)) return NULL;
    gd_py_context *c = gd_py_current();
    gd_table *table = c && gd_py_enter(c) ? gd_py_table(c, source, NULL) : NULL;
    if (table) out = PyDict_New();
    for (Py_ssize_t i = 0; i < PyTuple_Size(names) && out; i++) {
        const char *name = gd_py_text(PyTuple_GetItem(names, i));
        int k = name ? gd_table_find(table, name) : -1;
        gd_tensor *t = k >= 0 ? gd_table_numbers(table, k) : NULL;
        PyObject *item = t ? gd_py_new_tensor(c, t) : PyErr_Occurred() ? NULL : gd_py_raise(c);
        if (!item || PyDict_SetItem(out, PyTuple_GetItem(names, i), item) < 0) Py_CLEAR(out);
        Py_XDECREF(item);
    }
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace); /* a stream that ends may run Python code */
    gd_table_free(table);
    PyErr_Restore(type, value, trace);
    if (out && !gd_py_done(c)) Py_CLEAR(out);
    return out;
}

static PyMethodDef table_functions[] = {{"_columns", columns, METH_VARARGS, NULL}, {NULL, NULL, 0, NULL}};

int gd_py_add_tables(PyObject *module) { return PyModule_AddFunctions(module, table_functions) == 0; }
