/* The state of an optimizer as dicts, for copies and pickles of gradus.Optimizer, and settings as they are in force. */
#include "core.h"

#include <string.h>

static int put_tensors(const gd_archive *archive, gd_py_context *c, PyObject *dict)
{
    int fine = 1;
    for (int64_t i = 0; i < gd_archive_count(archive) && fine; i++) {
        gd_tensor *copy = gd_copy(gd_archive_get(archive, i)); /* later steps change the state where it is */
        PyObject *t = copy ? gd_py_new_tensor(c, copy) : gd_py_raise(c);
        fine = t && PyDict_SetItemString(dict, gd_archive_name(archive, i), t) == 0;
        Py_XDECREF(t);
    }
    return fine;
}

static int put_texts(const gd_archive *archive, PyObject *dict)
{
    int fine = 1;
    for (int64_t i = 0; i < gd_archive_meta_count(archive) && fine; i++) {
        PyObject *text = PyUnicode_FromString(gd_archive_meta_text(archive, i));
        fine = text && PyDict_SetItemString(dict, gd_archive_meta_key(archive, i), text) == 0;
        Py_XDECREF(text);
    }
    return fine;
}

/* _optimizer_pack(optimizer): (tensors by name, texts by name) */
static PyObject *pack(PyObject *module, PyObject *o)
{
    (void)module;
    if (!PyObject_TypeCheck(o, gd_py.optimizer_type))
        return PyErr_Format(PyExc_TypeError, "an Optimizer is needed");
    gd_optimizer *optimizer = gd_py_optimizer_of(o);
    if (!optimizer) return NULL;
    gd_py_context *c = ((gd_py_handle *)o)->owner;
    gd_archive *archive = gd_archive_new(c->ctx);
    PyObject *tensors = PyDict_New(), *texts = PyDict_New(), *result = NULL;
    if (!archive || gd_optimizer_pack(optimizer, archive, NULL))
        (void)gd_py_raise(c);
    else if (tensors && texts && put_tensors(archive, c, tensors) && put_texts(archive, texts))
        result = PyTuple_Pack(2, tensors, texts);
    gd_archive_free(archive);
    Py_XDECREF(tensors);
    Py_XDECREF(texts);
    return result;
}

static int take_tensors(gd_archive *archive, gd_py_context *c, PyObject *dict)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *text = gd_py_text(name);
        if (text && !gd_py_is_tensor(value)) (void)gd_py_no_tensor("load_state_dict", value);
        gd_tensor *t = text && gd_py_is_tensor(value) ? gd_py_tensor_of(value) : NULL;
        if (!t) return 0;
        if (gd_archive_put(archive, text, t)) return gd_py_raise(c) != NULL;
    }
    return 1;
}

static int take_texts(gd_archive *archive, gd_py_context *c, PyObject *dict)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(dict, &at, &name, &value)) {
        const char *key = gd_py_text(name), *text = key ? gd_py_text(value) : NULL;
        if (!text) return 0;
        if (gd_archive_set_meta(archive, key, text)) return gd_py_raise(c) != NULL;
    }
    return 1;
}

/* _optimizer_unpack(optimizer, tensors, texts, strict) */
static PyObject *unpack(PyObject *module, PyObject *args)
{
    PyObject *o, *tensors, *texts;
    int strict;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!p:_optimizer_unpack", gd_py.optimizer_type, &o, &PyDict_Type, &tensors,
                          &PyDict_Type, &texts, &strict))
        return NULL;
    gd_optimizer *optimizer = gd_py_optimizer_of(o);
    if (!optimizer) return NULL;
    gd_py_context *c = ((gd_py_handle *)o)->owner;
    gd_archive *archive = gd_archive_new(c->ctx);
    int fine = archive ? take_tensors(archive, c, tensors) && take_texts(archive, c, texts)
                       : gd_py_raise(c) != NULL;
    if (fine && gd_optimizer_unpack(optimizer, archive, NULL, strict)) fine = gd_py_raise(c) != NULL;
    gd_archive_free(archive);
    if (!fine || !gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

/* The last link of a tree that has a setting of that name, NULL: none. */
static gd_link *last_with(gd_link *link, const char *name)
{
    for (int i = gd_link_children(link); i-- > 0;) {
        gd_link *found = last_with(gd_link_child_at(link, i), name);
        if (found) return found;
    }
    return gd_link_has_field(link, name) ? link : NULL;
}

/* _optimizer_setting(optimizer, name, parameter): the setting in force for a parameter, None where no link has such a one. */
static PyObject *setting(PyObject *module, PyObject *args)
{
    PyObject *o;
    const char *name, *parameter;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!ss:_optimizer_setting", gd_py.optimizer_type, &o, &name, &parameter))
        return NULL;
    gd_optimizer *optimizer = gd_py_optimizer_of(o);
    gd_link *link = optimizer ? last_with(gd_optimizer_chain(optimizer), name) : NULL;
    if (!optimizer) return NULL;
    for (int i = 0; i < gd_optimizer_count(optimizer) && link; i++)
        if (!strcmp(gd_optimizer_param_name(optimizer, i), parameter))
            return gd_py_setting(((gd_py_handle *)o)->owner, link, name, gd_optimizer_param(optimizer, i));
    Py_RETURN_NONE;
}

PyMethodDef gd_py_optimizer_functions[] = {{"_optimizer_setting", setting, METH_VARARGS, NULL},
                                           {"_optimizer_pack", pack, METH_O, NULL},
                                           {"_optimizer_unpack", unpack, METH_VARARGS, NULL},
                                           {NULL, NULL, 0, NULL}};
