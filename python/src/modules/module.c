/* The base of gradus.Module, and virtual tensors.
 *
 * The library's module owns parameters, buffers and the tree; the Python object keeps attributes as it likes them and hands
 * tensors, modules and virtual tensors on.  Python's garbage collector must see what a virtual tensor holds, so its function
 * is in the Python object, which the library's virtual tensor only points to. */
#include "core.h"

#include <structmember.h>

#include <stdio.h>
#include <string.h>

typedef struct py_module {
    gd_py_handle head;
    gd_module *m;
    PyObject *weak_list;
} py_module;

/* ---- classes of the library, by name and what they declare without gradients ---- */

static gd_class *class_of(gd_py_context *c, const char *name, const char *no_grad)
{
    PyObject *key = PyUnicode_FromFormat("%s|%s", name, no_grad), *found = NULL;
    if (!c->classes) c->classes = PyDict_New();
    if (key && c->classes) found = PyDict_GetItemWithError(c->classes, key);
    gd_class *cls = found ? PyLong_AsVoidPtr(found) : NULL;
    if (!cls && key && !PyErr_Occurred()) {
        gd_class *base = gd_class_module(c->ctx);
        cls = gd_class_new(c->ctx, name, &base, 1);
        if (cls && *no_grad && gd_class_no_grad(cls, no_grad)) cls = NULL;
        PyObject *address = cls ? PyLong_FromVoidPtr(cls) : NULL;
        if (cls && (!address || PyDict_SetItem(c->classes, key, address) < 0)) cls = NULL;
        if (!cls && !PyErr_Occurred()) (void)gd_py_raise(c);
        Py_XDECREF(address);
    }
    Py_XDECREF(key);
    return cls;
}

static void end_module(void *m) { gd_module_release(m); }

static void drop_module(gd_py_handle *h)
{
    py_module *self = (py_module *)h;
    gd_module_release(self->m);
    self->m = NULL;
}

gd_module *gd_py_module_of(PyObject *o)
{
    py_module *self = (py_module *)o;
    if (!self->m) {
        (void)gd_py_fail(GD_STATE, "the context of this module is closed");
        return NULL;
    }
    return gd_py_enter(self->head.owner) ? self->m : NULL;
}

#define MODULE_OR_RETURN(o)                            \
    gd_module *m = gd_py_module_of(o);                 \
    if (!m) return NULL;                               \
    gd_py_context *c = ((py_module *)(o))->head.owner; \
    (void)c

/* The names of a class attribute no_grad_tensors, joined. */
static PyObject *no_grad_names(PyTypeObject *type)
{
    PyObject *names = PyObject_CallMethod((PyObject *)type, "_no_grad_names", NULL);
    if (names || !PyErr_ExceptionMatches(PyExc_AttributeError)) return names;
    PyErr_Clear();
    return PyUnicode_FromString("");
}

static PyObject *module_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)args, (void)keywords;
    gd_py_context *c = gd_py_current();
    PyObject *names = c ? no_grad_names(type) : NULL, *title = names ? PyType_GetName(type) : NULL;
    const char *no_grad = title ? PyUnicode_AsUTF8AndSize(names, NULL) : NULL;
    const char *name = no_grad ? PyUnicode_AsUTF8AndSize(title, NULL) : NULL;
    gd_class *cls = name && gd_py_enter(c) ? class_of(c, name, no_grad)
                                           : NULL; /* again: Python code has run */
    Py_XDECREF(names);
    Py_XDECREF(title);
    if (!cls) return NULL;
    py_module *self = (py_module *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self) return NULL;
    gd_module *m = gd_module_new(cls);
    if (!m) {
        Py_DECREF(self);
        return gd_py_raise(c);
    }
    if (c->callbacks) (void)gd_module_retain(m); /* its scope has the first reference */
    self->m = m;
    gd_py_join(c, self, drop_module);
    return (PyObject *)self;
}

int gd_py_module_become(PyObject *o, gd_module *(*make)(gd_ctx *ctx, const struct gd_py_layer_value *values),
                        const struct gd_py_layer_value *values)
{
    py_module *self = (py_module *)o;
    if (!gd_py_module_of(o)) return 0;
    gd_py_context *c = self->head.owner;
    gd_module *m = make(c->ctx, values);
    if (!m) return gd_py_raise(c) != NULL;
    if (c->callbacks) (void)gd_module_retain(m); /* its scope has the first reference */
    gd_py_release(c, end_module, self->m);
    self->m = m;
    return 1;
}

static void module_dealloc(PyObject *o)
{
    py_module *self = (py_module *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->weak_list) PyObject_ClearWeakRefs(o);
    if (self->m) gd_py_release(self->head.owner, end_module, self->m);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

static int module_traverse(PyObject *o, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE(o));
    return 0;
}
static int module_clear(PyObject *o)
{
    (void)o;
    return 0;
}

/* ---- attributes ---- */

static PyObject *done(gd_py_context *c, gd_status status)
{
    if (status) return gd_py_raise(c);
    if (!gd_py_done(c)) return NULL;
    Py_RETURN_NONE;
}

/* _set_tensor(name, tensor, is_buffer): copies a tensor into the module and gives the module's own. */
static PyObject *set_tensor(PyObject *o, PyObject *args)
{
    const char *name;
    PyObject *tensor;
    int is_buffer;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO!p:_set_tensor", &name, gd_py.tensor_type, &tensor, &is_buffer))
        return NULL;
    gd_tensor *t = gd_py_tensor_of(tensor);
    if (!t) return NULL;
    if (is_buffer ? gd_module_set_buffer(m, name, t) : gd_module_set_tensor(m, name, t))
        return gd_py_raise(c);
    t = gd_module_get_tensor(m, name);
    return t ? gd_py_borrowed_tensor(c, t) : gd_py_raise(c);
}

/* _tie(name, tensor): a parameter of a different module becomes one of this module too. */
static PyObject *tie_tensor(PyObject *o, PyObject *args)
{
    const char *name;
    PyObject *tensor;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO!:_tie", &name, gd_py.tensor_type, &tensor)) return NULL;
    gd_tensor *t = gd_py_tensor_of(tensor);
    return t ? done(c, gd_module_tie(m, name, t)) : NULL;
}

static PyObject *set_training(PyObject *o, PyObject *on)
{
    int yes = PyObject_IsTrue(on);
    MODULE_OR_RETURN(o);
    return yes < 0 ? NULL : done(c, yes ? gd_module_train(m) : gd_module_eval(m));
}
static PyObject *get_training(PyObject *o, void *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    return PyBool_FromLong(gd_module_is_training(m));
}

static PyObject *set_module(PyObject *o, PyObject *args)
{
    const char *name;
    PyObject *child;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "sO!:_set_module", &name, gd_py.module_type, &child)) return NULL;
    gd_module *inner = gd_py_module_of(child);
    return inner ? done(c, gd_module_set_module(m, name, inner)) : NULL;
}

static PyObject *delete_attribute(PyObject *o, PyObject *args)
{
    const char *name;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:_delete", &name)) return NULL;
    if (gd_module_has(m, name)) return done(c, gd_module_delete(m, name));
    gd_module_touch(m); /* an attribute that only Python has was changed */
    Py_RETURN_NONE;
}

static PyObject *get_tensor(PyObject *o, PyObject *args)
{
    const char *name;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:_get_tensor", &name)) return NULL;
    gd_tensor *t = gd_module_get_tensor(m, name);
    return t ? gd_py_borrowed_tensor(c, t) : gd_py_raise(c);
}

static PyObject *has_attribute(PyObject *o, PyObject *args)
{
    const char *name;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:_has", &name)) return NULL;
    return PyBool_FromLong(gd_module_has(m, name));
}

/* ---- the tree ---- */

/* [(name, registered, tensor)]; takes the list. */
static PyObject *listed(gd_py_context *c, gd_named *named, int is_new)
{
    if (!named) return gd_py_raise(c);
    int64_t count = gd_named_count(named);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (int64_t i = 0; i < count && list; i++) {
        PyObject *t = gd_py_borrowed_tensor(c, gd_named_tensor(named, i));
        const char *registered = is_new ? "" : gd_named_registered(named, i);
        PyObject *row = t ? Py_BuildValue("(ssN)", gd_named_name(named, i), registered ? registered : "", t)
                          : NULL;
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) Py_CLEAR(list);
    }
    gd_named_release(named);
    return list;
}

static PyObject *named_parameters(PyObject *o, PyObject *args)
{
    const char *glob = NULL;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "|z:_parameters", &glob)) return NULL;
    return listed(c, gd_module_parameters(m, glob), 0);
}
static PyObject *named_buffers(PyObject *o, PyObject *args)
{
    const char *glob = NULL;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "|z:_buffers", &glob)) return NULL;
    return listed(c, gd_module_buffers(m, glob), 0);
}
static PyObject *export_all(PyObject *o, PyObject *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    return listed(c, gd_module_export_all(m), 1);
}
static PyObject *export_one(PyObject *o, PyObject *args)
{
    const char *name;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:_export", &name)) return NULL;
    return gd_py_new_tensor(c, gd_module_export(m, name));
}

static PyObject *freeze(PyObject *o, PyObject *on)
{
    int yes = PyObject_IsTrue(on);
    MODULE_OR_RETURN(o);
    return yes < 0 ? NULL : done(c, yes ? gd_module_freeze(m) : gd_module_unfreeze(m));
}

static PyObject *to_device(PyObject *o, PyObject *args)
{
    const char *name;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "s:_to_device", &name)) return NULL;
    gd_device *device = gd_py_device(c, name);
    return device ? done(c, gd_module_to_device(m, device)) : gd_py_raise(c);
}

static PyObject *to_dtype(PyObject *o, PyObject *dtype)
{
    MODULE_OR_RETURN(o);
    gd_dtype kind = gd_py_dtype(dtype);
    return kind == GD_DTYPE_COUNT ? NULL : done(c, gd_module_to(m, kind));
}

/* ---- state ---- */

static PyObject *state(PyObject *o, PyObject *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    gd_archive *archive = gd_module_state(m);
    if (!archive) return gd_py_raise(c);
    PyObject *dict = PyDict_New();
    for (int64_t i = 0; i < gd_archive_count(archive) && dict; i++) {
        PyObject *t = gd_py_borrowed_tensor(c, gd_archive_get(archive, i));
        if (!t || PyDict_SetItemString(dict, gd_archive_name(archive, i), t) < 0) Py_CLEAR(dict);
        Py_XDECREF(t);
    }
    gd_archive_free(archive);
    return dict;
}

/* (loaded, missing, unexpected) */
static PyObject *report_of(const gd_load_report *report)
{
    PyObject *lists[GD_LOAD_PROBLEMS];
    for (int p = 0; p < GD_LOAD_PROBLEMS; p++) {
        lists[p] = PyList_New(0);
        for (int64_t i = 0; lists[p] && i < gd_load_report_count(report, (gd_load_problem)p); i++) {
            PyObject *name = PyUnicode_FromString(gd_load_report_name(report, (gd_load_problem)p, i));
            if (!name || PyList_Append(lists[p], name) < 0) Py_CLEAR(lists[p]);
            Py_XDECREF(name);
        }
    }
    return Py_BuildValue("(LNNNN)", (long long)gd_load_report_loaded(report), lists[0], lists[1], lists[2],
                         lists[3]);
}

static PyObject *loaded(gd_py_context *c, gd_status status, gd_load_report *report)
{
    PyObject *result = status ? gd_py_raise(c) : report ? report_of(report) : Py_NewRef(Py_None);
    gd_load_report_release(report);
    return result;
}

static PyObject *load_state(PyObject *o, PyObject *args)
{
    PyObject *dict, *name, *tensor;
    int strict, cast;
    Py_ssize_t at = 0;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O!pp:_load_state", &PyDict_Type, &dict, &strict, &cast)) return NULL;
    gd_archive *archive = gd_archive_new(c->ctx);
    gd_status status = archive ? GD_OK : GD_NOMEM;
    while (!status && PyDict_Next(dict, &at, &name, &tensor)) {
        const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
        PyObject *held = text ? gd_py_as_tensor(tensor) : NULL;
        gd_tensor *t = held ? gd_py_tensor_of(held) : NULL;
        if (!t) {
            if (!PyErr_Occurred() && text) gd_py_no_tensor("load_state_dict", tensor);
            if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a state is a dict of tensors by name");
            Py_XDECREF(held);
            gd_archive_free(archive);
            return NULL;
        }
        status = gd_archive_put(archive, text, t);
        Py_DECREF(held);
    }
    gd_load_options options = {.partial = !strict, .cast = cast};
    gd_load_report *report = NULL;
    if (!status) status = gd_module_load_state(m, archive, &options, &report);
    gd_archive_free(archive);
    return loaded(c, status, report);
}

static PyObject *save(PyObject *o, PyObject *path)
{
    PyObject *bytes = NULL;
    MODULE_OR_RETURN(o);
    if (!PyUnicode_FSConverter(path, &bytes)) return NULL;
    gd_status status = gd_module_save(m, PyBytes_AsString(bytes));
    Py_DECREF(bytes);
    return done(c, status);
}

static PyObject *load(PyObject *o, PyObject *args)
{
    PyObject *bytes = NULL;
    int strict, cast;
    MODULE_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "O&pp:_load", PyUnicode_FSConverter, &bytes, &strict, &cast)) return NULL;
    gd_load_options options = {.partial = !strict, .cast = cast};
    gd_load_report *report = NULL;
    gd_status status = gd_module_load(m, PyBytes_AsString(bytes), &options, &report);
    Py_DECREF(bytes);
    return loaded(c, status, report);
}

static PyObject *get_device(PyObject *o, void *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    return PyUnicode_FromString(gd_device_name(gd_module_device(m)));
}
static PyObject *get_pointer(PyObject *o, void *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    return PyLong_FromVoidPtr(m);
}

static PyMethodDef module_methods[] = {{"_set_tensor", set_tensor, METH_VARARGS, NULL},
                                       {"_set_module", set_module, METH_VARARGS, NULL},
                                       {"_tie", tie_tensor, METH_VARARGS, NULL},
                                       {"_train", set_training, METH_O, NULL},
                                       {"_delete", delete_attribute, METH_VARARGS, NULL},
                                       {"_get_tensor", get_tensor, METH_VARARGS, NULL},
                                       {"_has", has_attribute, METH_VARARGS, NULL},
                                       {"_parameters", named_parameters, METH_VARARGS, NULL},
                                       {"_buffers", named_buffers, METH_VARARGS, NULL},
                                       {"_export", export_one, METH_VARARGS, NULL},
                                       {"_export_all", export_all, METH_NOARGS, NULL},
                                       {"_freeze", freeze, METH_O, NULL},
                                       {"_to_device", to_device, METH_VARARGS, NULL},
                                       {"_to_dtype", to_dtype, METH_O, NULL},
                                       {"_state", state, METH_NOARGS, NULL},
                                       {"_load_state", load_state, METH_VARARGS, NULL},
                                       {"_save", save, METH_O, NULL},
                                       {"_load", load, METH_VARARGS, NULL},
                                       {NULL, NULL, 0, NULL}};
static PyObject *get_module_context(PyObject *o, void *unused)
{
    (void)unused;
    MODULE_OR_RETURN(o);
    return Py_NewRef((PyObject *)c);
}
static PyGetSetDef module_values[] = {
    {"_device", get_device, NULL, NULL, NULL},
    {"_training", get_training, NULL, NULL, NULL},
    {"_context", get_module_context, NULL, NULL, NULL},
    {"_handle", get_pointer, NULL, "Address of the gd_module, for extensions.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyMemberDef module_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(py_module, weak_list), READONLY, NULL},
    {NULL, 0, 0, 0, NULL}};
static PyType_Slot module_slots[] = {{Py_tp_doc, "The module of the library; see gradus.Module."},
                                     {Py_tp_new, module_new},
                                     {Py_tp_dealloc, module_dealloc},
                                     {Py_tp_traverse, module_traverse},
                                     {Py_tp_clear, module_clear},
                                     {Py_tp_methods, module_methods},
                                     {Py_tp_getset, module_values},
                                     {Py_tp_members, module_members},
                                     {0, NULL}};
static PyType_Spec module_spec = {"gradus._core._Module", sizeof(py_module), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                  module_slots};

/* ---- virtual tensors ---- */

struct py_virtual;
/* The user pointer of the library's virtual tensor: the Python object, while it lives. */
typedef struct tie {
    struct py_virtual *object;
    gd_py_context *c;
} tie;

typedef struct py_virtual {
    gd_py_handle head;
    gd_virtual *v;
    tie *tie;
    PyObject *fn;     /* or */
    PyObject *method; /* the name of one */
    PyObject *owner;  /* a weak reference */
    int memoise;
} py_virtual;

static void end_tie(void *user) { free(user); }

/* The owner, or NULL with an exception; new. */
static PyObject *owner_of(const py_virtual *self)
{
    PyObject *owner = self->owner ? PyObject_CallNoArgs(self->owner) : NULL;
    if (owner == Py_None) {
        Py_CLEAR(owner);
        (void)gd_py_fail(GD_STATE, "the module of this virtual tensor is gone");
    }
    return owner;
}

static PyObject *compute(const py_virtual *self, gd_dtype dtype, gd_device *device)
{
    PyObject *owner = owner_of(self), *value = NULL;
    PyObject *kind = owner ? gd_py_dtype_object(dtype) : NULL;
    PyObject *place = kind ? PyUnicode_FromString(gd_device_name(device)) : NULL;
    if (place)
        value = self->method ? PyObject_CallMethodObjArgs(owner, self->method, kind, place, NULL)
                             : PyObject_CallFunctionObjArgs(self->fn, owner, kind, place, NULL);
    Py_XDECREF(owner);
    Py_XDECREF(kind);
    Py_XDECREF(place);
    if (value && gd_py_is_virtual(value)) gd_py_set(&value, gd_py_virtual_value(value));
    if (value && !gd_py_is_tensor(value)) {
        PyErr_Format(PyExc_TypeError, "a virtual tensor's function returns a Tensor, not %R",
                     (PyObject *)Py_TYPE(value));
        Py_CLEAR(value);
    }
    return value;
}

/* The library sees what is read through its module; Python's attributes are read past it.  So a value that is kept depends on
 * the whole tree of the owner, which a list reads. */
static void read_all(gd_module *owner) { gd_named_release(gd_module_parameters(owner, NULL)); }

static gd_tensor *materialize(gd_module *owner, gd_dtype dtype, gd_device *device, void *user)
{
    tie *tied = user;
    gd_py_context *c = tied->c;
    gd_tensor *t = NULL;
    PyGILState_STATE locked = gd_py_callback_begin(c);
    py_virtual *self = tied->object;
    if (!self)
        (void)gd_fail(c->ctx, GD_STATE, "this virtual tensor is gone");
    else {
        Py_INCREF((PyObject *)self);
        if (self->memoise) read_all(owner);
        PyObject *value = compute(self, dtype, device);
        if (value) {
            t = ((gd_py_tensor *)value)->t;
            /* nothing but the handle holds it: the scope gets a look of its own */
            if (!((gd_py_tensor *)value)->head.in_scope && Py_REFCNT(value) == 1)
                t = gd_cast(t, gd_tensor_dtype(t));
        } else
            gd_py_keep_exception(c);
        Py_DECREF((PyObject *)self);
        gd_py_callback_end(c, locked);
        if (!value) return t;
        locked = PyGILState_Ensure();
        Py_DECREF(value);
        PyGILState_Release(locked);
        return t;
    }
    gd_py_callback_end(c, locked);
    return t;
}

static void end_virtual(void *v) { gd_virtual_release(v); }

static void drop_virtual(gd_py_handle *h)
{
    py_virtual *self = (py_virtual *)h;
    if (self->tie) self->tie->object = NULL;
    self->tie = NULL;
    gd_virtual_release(self->v);
    self->v = NULL;
}

static int virtual_traverse(PyObject *o, visitproc visit, void *arg)
{
    py_virtual *self = (py_virtual *)o;
    Py_VISIT(Py_TYPE(o));
    Py_VISIT(self->fn);
    Py_VISIT(self->method);
    Py_VISIT(self->owner);
    return 0;
}
static int virtual_clear(PyObject *o)
{
    py_virtual *self = (py_virtual *)o;
    Py_CLEAR(self->fn);
    Py_CLEAR(self->method);
    Py_CLEAR(self->owner);
    return 0;
}

static void virtual_dealloc(PyObject *o)
{
    py_virtual *self = (py_virtual *)o;
    PyTypeObject *type = Py_TYPE(o);
    PyObject_GC_UnTrack(o);
    if (self->tie) self->tie->object = NULL;
    if (self->v) gd_py_release(self->head.owner, end_virtual, self->v);
    (void)virtual_clear(o);
    gd_py_leave(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(o);
    Py_DECREF(type);
}

/* _Virtual(owner, name, function or name of a method, dtype, device, persist, memoise) */
static int virtual_init(PyObject *o, PyObject *args, PyObject *keywords)
{
    py_virtual *self = (py_virtual *)o;
    PyObject *owner, *materializer, *dtype, *device;
    const char *name;
    int persist, memoise;
    (void)keywords;
    if (!PyArg_ParseTuple(args, "O!sOOOpp:_Virtual", gd_py.module_type, &owner, &name, &materializer, &dtype,
                          &device, &persist, &memoise))
        return -1;
    gd_module *m = gd_py_module_of(owner);
    if (!m) return -1;
    gd_py_context *c = ((py_module *)owner)->head.owner;
    gd_virtual_options options = gd_virtual_defaults();
    if (dtype != Py_None && (options.dtype = gd_py_dtype(dtype)) == GD_DTYPE_COUNT) return -1;
    if (device != Py_None) {
        const char *text = PyUnicode_Check(device) ? PyUnicode_AsUTF8AndSize(device, NULL) : "";
        if (!(options.device = gd_py_device(c, text))) return gd_py_raise(c) ? 0 : -1;
    }
    self->owner = PyWeakref_NewRef(owner, NULL);
    tie *tied = malloc(sizeof *tied);
    if (!self->owner || !tied) {
        free(tied);
        return -1;
    }
    *tied = (tie){self, c};
    if (PyUnicode_Check(materializer))
        self->method = Py_NewRef(materializer);
    else
        self->fn = Py_NewRef(materializer);
    options.fn = materialize;
    options.user = tied;
    options.destroy = end_tie;
    options.persist = persist;
    options.memoise = memoise;
    self->v = gd_virtual_new(m, name, &options);
    if (!self->v) { /* what it was to consume is still ours */
        end_tie(tied);
        (void)gd_py_raise(c);
        return -1;
    }
    if (c->callbacks) (void)gd_virtual_retain(self->v);
    self->tie = tied;
    self->memoise = memoise;
    gd_py_join(c, self, drop_virtual);
    return 0;
}

static gd_virtual *virtual_of(PyObject *o)
{
    py_virtual *self = (py_virtual *)o;
    if (!self->v) {
        (void)gd_py_fail(GD_STATE, "the context of this virtual tensor is closed");
        return NULL;
    }
    return gd_py_enter(self->head.owner) ? self->v : NULL;
}
#define VIRTUAL_OR_RETURN(o)                            \
    gd_virtual *v = virtual_of(o);                      \
    if (!v) return NULL;                                \
    gd_py_context *c = ((py_virtual *)(o))->head.owner; \
    (void)c

PyObject *gd_py_virtual_value(PyObject *o)
{
    VIRTUAL_OR_RETURN(o);
    return gd_py_new_tensor(c, gd_virtual_value(v));
}
static PyObject *get_value(PyObject *o, void *unused)
{
    (void)unused;
    return gd_py_virtual_value(o);
}
static PyObject *get_name(PyObject *o, void *unused)
{
    (void)unused;
    VIRTUAL_OR_RETURN(o);
    return PyUnicode_FromString(gd_virtual_name(v));
}
static PyObject *get_reference(PyObject *o, void *unused)
{
    (void)unused;
    VIRTUAL_OR_RETURN(o);
    return PyUnicode_FromString(gd_virtual_reference(v));
}
static PyObject *get_owner(PyObject *o, void *unused)
{
    (void)unused;
    PyObject *ref = ((py_virtual *)o)->owner;
    if (!ref) Py_RETURN_NONE;
    return PyObject_CallNoArgs(ref);
}
static PyObject *get_virtual_dtype(PyObject *o, void *unused)
{
    (void)unused;
    VIRTUAL_OR_RETURN(o);
    gd_dtype dtype = gd_virtual_dtype(v);
    return dtype == GD_DTYPE_COUNT ? gd_py_raise(c) : gd_py_dtype_object(dtype);
}
static PyObject *get_virtual_device(PyObject *o, void *unused)
{
    (void)unused;
    VIRTUAL_OR_RETURN(o);
    gd_device *device = gd_virtual_device(v);
    return device ? PyUnicode_FromString(gd_device_name(device)) : gd_py_raise(c);
}
static PyObject *virtual_to(PyObject *o, PyObject *args)
{
    PyObject *dtype;
    const char *name;
    gd_dtype kind = GD_DTYPE_COUNT;
    gd_device *device = NULL;
    VIRTUAL_OR_RETURN(o);
    if (!PyArg_ParseTuple(args, "Oz:_to", &dtype, &name)) return NULL;
    if (dtype != Py_None && (kind = gd_py_dtype(dtype)) == GD_DTYPE_COUNT) return NULL;
    if (name && !(device = gd_py_device(c, name))) return gd_py_raise(c);
    return done(c, gd_virtual_to(v, kind, device));
}
static PyObject *virtual_attach(PyObject *o, PyObject *unused)
{
    (void)unused;
    VIRTUAL_OR_RETURN(o);
    return done(c, gd_module_set_virtual(v));
}

static PyMethodDef virtual_methods[] = {{"_to", virtual_to, METH_VARARGS, NULL},
                                        {"_attach", virtual_attach, METH_NOARGS, NULL},
                                        {NULL, NULL, 0, NULL}};
static PyGetSetDef virtual_values[] = {
    {"value", get_value, NULL,
     "The value, computed from the owner, of the reference's dtype and on its device.", NULL},
    {"name", get_name, NULL, "The name of the attribute.", NULL},
    {"_reference", get_reference, NULL, "The name of the buffer with dtype and device.", NULL},
    {"owner", get_owner, NULL, "The module it belongs to, or None when that is gone.", NULL},
    {"_dtype", get_virtual_dtype, NULL, NULL, NULL},
    {"_device", get_virtual_device, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot virtual_slots[] = {
    {Py_tp_doc, "The virtual tensor of the library; see gradus.VirtualTensor."},
    {Py_tp_init, virtual_init},
    {Py_tp_dealloc, virtual_dealloc},
    {Py_tp_traverse, virtual_traverse},
    {Py_tp_clear, virtual_clear},
    {Py_tp_methods, virtual_methods},
    {Py_tp_getset, virtual_values},
    {0, NULL}};
static PyType_Spec virtual_spec = {"gradus._core._Virtual", sizeof(py_virtual), 0,
                                   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
                                   virtual_slots};

int gd_py_add_module_type(PyObject *module)
{
    gd_py.module_type = gd_py_add_type(module, &module_spec, NULL);
    gd_py.virtual_type = gd_py.module_type ? gd_py_add_type(module, &virtual_spec, NULL) : NULL;
    return gd_py.virtual_type != NULL;
}
